/** docs/evidence/specification.md says what the specification asks for, and what this package does: what it says must be so. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import type { RouteOptions } from 'fastify'
import t from 'tap'
import * as library from '../../lib/index.ts'
import { handlerNames } from '../../lib/host/handlers.ts'
import { settingNames } from '../../lib/settings/schema.ts'
import { areScopesEnough, parseRequirements } from '../../lib/token/scopes.ts'
import { authenticate, host, refreshStore, secret } from '../helper.ts'

const page = new URL('../../docs/evidence/specification.md', import.meta.url)
const chapters = readFileSync(page, 'utf8').split(/^(?=## )/m)
const isBeyond = (chapter: string) => chapter.startsWith('## Names beyond the specification\n')
/** The names that the specification does not have, by their kind. */
const beyond = chapters.filter(isBeyond).join('')
const text = chapters.filter((chapter) => !isBeyond(chapter)).join('')

type Row = Record<string, string>
interface Table { heading: string, columns: string[], rows: Row[] }

/** Without the ids of promises. */
function cellsOf (line: string): string[] {
  return line.split('|').slice(1, -1).map((cell) => cell.replace(/<!--.*?-->/, '').trim())
}

/** Every table of the page, below which heading it stands, its rows by the names of their columns. */
function readTables (): Table[] {
  return text.split(/^(?=#+ )/m).flatMap((section) => {
    const [heading = ''] = section.split('\n', 1)
    return [...section.matchAll(/(?:^\|.*\n)+/gm)].map(([block]) => {
      const [columns = [], , ...rows] = block.trim().split('\n').map(cellsOf)
      return { heading, columns, rows: rows.map((cells) => Object.fromEntries(cells.map((cell, index) => [columns[index] ?? 'beyond the table', cell]))) }
    })
  })
}

const tables = readTables()
const rowsOf = (heading: string, firstColumn: string): Row[] =>
  tables.filter((table) => table.heading === heading && table.columns[0] === firstColumn).flatMap(({ rows }) => rows)
const beyondOf = (kind: string) => beyond.split('\n').map(cellsOf).filter(([, given = '']) => given.startsWith(kind)).flatMap(([names]) => code(names))
const code = (cell = '') => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
/** The names in one column of a table. */
const named = (rows: Row[], column: string) => rows.flatMap((row) => code(row[column]))

t.test('every row of a table has all of its cells', async (t) => {
  const wrong = tables.flatMap(({ heading, columns, rows }) => rows.filter((row) => Object.keys(row).join() !== columns.join()).map((row) => `${heading}: ${Object.values(row)[0]}`))
  t.strictSame(wrong, [])
  t.ok(tables.flatMap(({ rows }) => rows).length > 200)
})

const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

t.test('the pages and the code have the same settings, handlers and hooks, under names that follow from those of the specification', async () => {
  const responses = Object.getOwnPropertyNames(library.Responses.prototype).filter((name) => name !== 'constructor')
  const kinds: [rows: Row[], names: readonly string[]][] = [
    [rowsOf('## Settings', 'Specification').filter(({ Here }) => Here !== undefined), settingNames],
    [rowsOf('## Handlers', 'Specification'), handlerNames],
    [rowsOf('## Endpoints', 'Hook'), responses]
  ]
  for (const [rows, names] of kinds) {
    const added = names === settingNames ? beyondOf('setting') : names === handlerNames ? beyondOf('handler') : []
    assert.deepEqual([...named(rows, 'Here'), ...added].sort(), [...names].sort(), 'each has a row in docs/evidence/specification.md, there or in "Names beyond"')
    for (const row of rows) {
      const given = row.Specification ?? row.Hook
      const [original = given] = code(given)
      assert.ok(original === 'added' || original === snake(String(code(row.Here)[0])), `${original} is ${row.Here}`)
    }
  }
})

t.test('the pages name every error and every export, and no error that is none', async (t) => {
  const exported = Object.entries(library).filter(([name]) => name !== 'default')
  const errors = exported.filter(([, value]) => typeof value === 'function' && value.prototype instanceof library.TokenAuthError)
  t.same([...named(rowsOf('## Errors', 'Error'), 'Error'), ...beyondOf('error')].sort(), errors.map(([name]) => name).sort())
  const all = code(text + beyond)
  for (const [name] of exported) assert.ok(all.some((part) => part.split('(')[0] === name), name)
})

t.test('the page names every endpoint and every member of an instance', async (t) => {
  const app = host(t)
  const routes: RouteOptions[] = []
  app.addHook('onRoute', (route) => { routes.push(route) })
  const { stored, ...handlers } = refreshStore()
  await app.register(library.tokenAuth, { secret, authenticate, ...handlers, strictSlashes: true })
  const endpoints = routes.filter(({ method }) => method !== 'HEAD').map(({ method, url }) => `${String(method)} ${url}`)
  t.same(named(rowsOf('## Endpoints', 'Endpoint'), 'Endpoint').sort(), endpoints.sort())

  const members = named(rowsOf('## Versioning, and what is exported', 'Member of an instance'), 'Member of an instance')
  for (const name of members.filter((member) => !member.includes('.'))) assert.ok(name in app.tokenAuth, name)
  for (const name of beyondOf('member of an instance')) assert.ok(name in app.tokenAuth, name)
  t.ok('tokenAuth' in app, 'request.tokenAuth')
})

t.test('whatever the page names like a setting is something of this library', async () => {
  const members = rowsOf('## Versioning, and what is exported', 'Member of an instance')
  const known = new Set([
    ...settingNames, ...handlerNames, ...Object.keys(library), ...named(rowsOf('## Endpoints', 'Hook'), 'Here'), ...named(members, 'Member of an instance'),
    'customClaims', 'extraVerifications', 'classViews', 'authenticationClass', 'configurationClass', 'responsesClass',
    'maxAge', 'redirectOnFail', 'redirectUrl', 'requireAll', 'requireAllActions', 'toDict', 'toJSON', 'onRequest', 'preHandler', 'bodyLimit', 'likeThis'
  ])
  for (const part of code(text)) {
    const [name = ''] = /^[a-z]+(?:[A-Z]\w*)+/.exec(part) ?? []
    if (name !== '') assert.ok(known.has(name), part)
  }
})

t.test('the truth table of the page is what the library decides', async (t) => {
  const rows = rowsOf('## Authentication', 'Required')
  t.equal(rows.length, 12)
  for (const row of rows) {
    const [required, granted] = [code(row.Required)[0], code(row['Token scope'])[0]]
    const accepted = areScopesEnough(parseRequirements(required) ?? [], [granted], { requireAll: true, requireAllActions: true })
    assert.equal(accepted ? 'yes' : 'no', row.Accepted, `${required} with ${granted}`)
  }
})
