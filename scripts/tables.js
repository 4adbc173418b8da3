/**
 * Generates tables of the documents: settings from the schemas and their comments, errors from their classes, speed from the
 * last run of the benchmarks. With `--check`, it writes nothing and fails if the tables are out of date. Requires a build.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import ts from 'typescript'
import { TokenAuthError, tokenAuth } from '../dist/lib/index.js'
import { allowedValues } from '../build/lib/settings/check.js'
import { readSessions, sessionsSchema } from '../build/lib/sessions/settings.js'
import { environmentKey, resolveSettings } from '../build/lib/settings/configuration.js'
import { routeSettings, settingNames, settingsSchema } from '../build/lib/settings/schema.js'

const root = new URL('../', import.meta.url)

/** Returns the first comment of each declaration in a file, by name. */
function commentsOf (path, isWanted) {
  const source = ts.createSourceFile(path, readFileSync(new URL(path, root), 'utf8'), ts.ScriptTarget.Latest, true)
  const comments = new Map()
  const visit = (node) => {
    if (isWanted(node)) {
      const [comment] = ts.getJSDocCommentsAndTags(node)
      if (comment !== undefined) comments.set(node.name.getText(source), ts.getTextOfJSDocComment(comment.comment))
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return comments
}

/** Escapes what Markdown would read as the border of a cell, or as bold text. */
const cell = (text) => String(text).replaceAll('|', '\\|').replaceAll('__', '\\_\\_').replaceAll('\n', ' ')
const row = (cells) => `| ${cells.map(cell).join(' | ')} |`

function table (head, rows) {
  return [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n')
}

function defaultOf (name) {
  if (name === 'secret') return 'random, per process'
  if (name === 'generateRefreshToken') return 'built in'
  const value = settingsSchema.properties[name].default
  return value === undefined || value === null ? 'none' : `\`${JSON.stringify(value)}\``
}

function settingsTable () {
  const comments = commentsOf('lib/settings/schema.ts', (node) => ts.isPropertyAssignment(node) && settingNames.includes(node.name.getText()))
  return table(['Setting', 'Allowed', 'Default', 'Meaning', 'Configuration key'], settingNames.map((name) => [
    `\`${name}\`${routeSettings.includes(name) ? ' ¹' : ''}`, allowedValues(name), defaultOf(name), comments.get(name), `\`${environmentKey(name)}\``
  ]))
}

function errorsTable () {
  const comments = new Map(['lib/errors.ts', 'lib/configuration-errors.ts'].flatMap((file) => [...commentsOf(file, (node) => ts.isClassDeclaration(node))]))
  const classes = Object.values(tokenAuth).filter((value) => typeof value === 'function' && value.prototype instanceof TokenAuthError)
    .sort((first, second) => first.name < second.name ? -1 : 1)
  return table(['Error', 'Status', 'Code', 'Meaning'], classes.map((ErrorClass) => {
    const error = new ErrorClass()
    return [`\`${error.name}\``, error.statusCode, `\`${error.code}\``, comments.get(error.name).replace(/^\d{3}\. /, '')]
  }))
}

const hooks = ['minimal hook, fast-jwt', 'minimal hook, node:crypto']
const servers = ['fastify-token-auth', '@fastify/jwt', '@fastify/jwt with its cache', ...hooks]

/** For each server, the speed relative to the bare route and, in brackets, to the better hook. */
function speedTable () {
  const { run: { comparisons } } = JSON.parse(readFileSync(new URL('benchmarks/results.json', root), 'utf8'))
  const compared = comparisons.filter(({ rows }) => hooks.every((hook) => rows.some(({ name }) => name === hook)))
  return table(['Requests with', ...servers], compared.map(({ title, rows }) => {
    const ratioOf = (server) => rows.find(({ name }) => name === server)?.ratio.median
    const best = Math.max(...hooks.map(ratioOf))
    return [title, ...servers.map(ratioOf).map((ratio) => ratio === undefined ? '' : `${ratio.toFixed(2)} (${(ratio / best).toFixed(2)})`)]
  }))
}

/** Returns seconds as a number, and in days if they are whole days. */
const seconds = (number) => number % 86_400 === 0 && number > 0 ? `\`${number}\` (${number / 86_400} days)` : `\`${number}\``

/** The defaults that are values. Those of the other settings are in their comments. */
function sessionDefaults () {
  const { rules, lifetime, poll, refuseAfter } = readSessions({}, resolveSettings({}, undefined))
  const { graceMs, idleMs, maxPerUser } = rules
  return {
    grace: seconds(graceMs / 1000), idle: seconds(idleMs / 1000), lifetime: seconds(lifetime), maxPerUser: `\`${maxPerUser}\``, poll: seconds(poll), refuseAfter: `\`${refuseAfter}\``
  }
}

function sessionSettingsTable () {
  const comments = commentsOf('lib/sessions/settings.ts', (node) => ts.isPropertyAssignment(node) && Object.hasOwn(sessionsSchema, node.name.getText()))
  const defaults = sessionDefaults()
  return table(['Setting', 'Allowed', 'Default', 'Meaning'], Object.entries(sessionsSchema).map(([name, { allowed }]) => {
    const [meaning, byComment] = comments.get(name).split(/ Default: (.*)\.$/)
    const preset = defaults[name] ?? byComment
    if (preset === undefined) throw new Error(`The setting "sessions.${name}" has neither a default in sessionDefaults nor "Default: ..." in its comment.`)
    return [`\`${name}\``, allowed, preset, meaning]
  }))
}

const documents = {
  'docs/comparison.md': { speed: speedTable },
  'docs/errors.md': { errors: errorsTable },
  'docs/settings.md': { settings: settingsTable },
  'docs/sessions.md': { 'session settings': sessionSettingsTable }
}

for (const [path, tables] of Object.entries(documents)) {
  const file = new URL(path, root)
  const before = readFileSync(file, 'utf8')
  let after = before
  for (const [name, write] of Object.entries(tables)) {
    const [start, end] = [`<!-- ${name}: generated by scripts/tables.js -->`, `<!-- /${name} -->`]
    const from = after.indexOf(start)
    const to = after.indexOf(end)
    if (from === -1 || to === -1) throw new Error(`${path} does not contain the markers of the table "${name}".`)
    after = `${after.slice(0, from + start.length)}\n\n${write()}\n\n${after.slice(to)}`
  }
  if (!process.argv.includes('--check')) {
    writeFileSync(file, after)
  } else if (before !== after) {
    console.error(`The tables of ${path} are out of date. Run "npm run tables".`)
    process.exitCode = 1
  }
}
