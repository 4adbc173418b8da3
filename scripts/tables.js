/**
 * Generates tables and lists of the documents: settings from the schema and its comments, options of other objects from their
 * members and the comments of their types, errors from their classes, speed from the last run of the benchmarks; and the
 * tutorial in JavaScript from that in TypeScript. With `--check`, it writes nothing and fails if they are out of date. Requires a build.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { TokenAuthError, tokenAuth } from '../dist/lib/index.js'
import { allowedValues } from '../build/lib/settings/check.js'
import { choiceMembers } from '../build/lib/guards/free.js'
import { optionsOfGuards } from '../build/lib/guards/options.js'
import { additionsShape } from '../build/lib/issuing/additions.js'
import { trustedIssuer } from '../build/lib/authorities/issuer-options.js'
import { signingKey } from '../build/lib/keys/ring-entries.js'
import { sessionsShape } from '../build/lib/sessions/settings.js'
import { attackShape } from '../build/lib/testing/attack/attack.js'
import { testTokenShape } from '../build/lib/testing/test-token.js'
import { endpointTable } from '../build/lib/endpoints/table.js'
import { routeSettings, settingNames, settingsSchema } from '../build/lib/settings/schema.js'
import { inJavaScript } from './tutorial.js'

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
  if (name === 'generateRefreshToken') return '32 random bytes'
  const value = settingsSchema.properties[name].default
  return value === undefined || value === null ? 'none' : `\`${JSON.stringify(value)}\``
}

/** The values that a setting allows, where its default does not show the type: a name, a path, true or false. */
function choicesOf (name) {
  const { default: value, anyOf } = settingsSchema.properties[name]
  const isShown = typeof value === 'boolean' || (typeof value === 'string' && anyOf === undefined)
  if (isShown || name === 'algorithm' || name === 'generateRefreshToken') return ''
  return allowedValues(name).replace(/a whole number of (seconds) from \d+ to \d+|(a path) that .* wildcards|a string, (a )Buffer.*/, (_, seconds, path) => seconds ?? path ?? 'a key')
}

function settingsList () {
  const comments = commentsOf('lib/settings/schema.ts', (node) => ts.isPropertyAssignment(node) && settingNames.includes(node.name.getText()))
  return settingNames.map((name) => {
    const choices = choicesOf(name)
    return `- **\`${name}\`**${routeSettings.includes(name) ? ' ¹' : ''} = ${cell(defaultOf(name))}${choices === '' ? '' : ` (${cell(choices)})`}: ${cell(comments.get(name))}`
  }).join('\n')
}

function errorsList () {
  const comments = new Map(['lib/errors.ts', 'lib/configuration-errors.ts'].flatMap((file) => [...commentsOf(file, (node) => ts.isClassDeclaration(node))]))
  const classes = Object.values(tokenAuth).filter((value) => typeof value === 'function' && value.prototype instanceof TokenAuthError)
    .sort((first, second) => first.name < second.name ? -1 : 1)
  return classes.map((ErrorClass) => {
    const { name, statusCode, code } = new ErrorClass()
    return `- **\`${name}\`** (${statusCode}, \`${code}\`): ${cell(comments.get(name).replace(/^\d{3}\. /, ''))}`
  }).join('\n')
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

/** What the first row of that table says of this package and of @fastify/jwt. */
function speedSentence () {
  const [{ rows }] = JSON.parse(readFileSync(new URL('benchmarks/results.json', root), 'utf8')).run.comparisons
  const [own, other, cached] = servers.map((server) => `${Math.round(rows.find(({ name }) => name === server).ratio.median * 100)} %`)
  return `If its token was verified before, a route with a guard has ${own} of the speed of a route without one. With @fastify/jwt, it has ${other}, and with the cache of @fastify/jwt ${cached}.`
}

/** Returns the comments of the members of an interface, and of those that it extends in the same file. */
function memberComments (path, wanted) {
  const source = ts.createSourceFile(path, readFileSync(new URL(path, root), 'utf8'), ts.ScriptTarget.Latest, true)
  const declaration = source.statements.find((node) => ts.isInterfaceDeclaration(node) && node.name.text === wanted)
  const bases = (declaration.heritageClauses ?? []).flatMap(({ types }) => types.map(({ expression }) => expression.getText(source)))
  const known = bases.filter((base) => source.statements.some((node) => ts.isInterfaceDeclaration(node) && node.name.text === base))
  return new Map([...known.flatMap((base) => [...memberComments(path, base)]), ...declaration.members.map((member) => {
    const [comment] = ts.getJSDocCommentsAndTags(member)
    return [member.name.getText(source), ts.getTextOfJSDocComment(comment?.comment)]
  })])
}

/** Returns what a comment may say of a default that is a value: the value, or its seconds in days. */
function formsOf (value) {
  const text = typeof value === 'string' ? value : JSON.stringify(value)?.replaceAll('"', "'")
  return [text, `\`${text}\``, ...typeof value === 'number' ? [`${value / 86_400} days`] : Array.isArray(value) && value.length === 1 ? formsOf(value[0]) : []]
}

/** Returns a default as the tables show it: that of the code, where it is a value; otherwise that of the comment. */
function presetOf (name, { isRequired, byDefault }, said) {
  if (byDefault === undefined || Math.abs(byDefault) === Infinity) return said ?? (isRequired ? 'required' : 'none')
  if (!formsOf(byDefault).includes(said)) throw new Error(`The default of "${name}" is ${JSON.stringify(byDefault)}, but its comment says "${said}".`)
  if (Array.isArray(byDefault)) return said
  const inDays = typeof byDefault === 'number' && byDefault > 0 && byDefault % 86_400 === 0
  return `\`${formsOf(byDefault)[0]}\`${inDays ? ` (${byDefault / 86_400} ${byDefault === 86_400 ? 'day' : 'days'})` : ''}`
}

/** Returns the options of an object: their names, their defaults from the code, and their meaning, with what is allowed, from the comments of their types. */
function optionsOf (members, path, declaration) {
  const comments = memberComments(path, declaration)
  return Object.entries(members).map(([name, member]) => {
    const comment = comments.get(name)?.replaceAll(/\{@link (\w+)\}/g, '`$1()`')
    if (!comment) throw new Error(`The member "${name}" of ${declaration} has no comment in ${path}.`)
    const [, before, said, after] = /^(.*?)(?:\s+Default: (.*?)\.(?=\s|$)(.*))?$/s.exec(comment)
    return { name, preset: presetOf(name, member, said), meaning: `${before}${after ?? ''}` }
  })
}

/** @param of what has these options, if not everything on the page does */
const optionsList = (members, path, declaration, of) => optionsOf(members, path, declaration).map(({ name, preset, meaning }) => {
  const notes = [of, preset === 'required' ? preset : undefined].filter((note) => note !== undefined)
  const isNamed = preset === 'required' || preset === 'none'
  return `- **\`${name}\`**${notes.length === 0 ? '' : ` (${notes.join(', ')})`}: ${cell(meaning)}${isNamed ? '' : ` Default: ${cell(preset)}.`}`
}).join('\n')

/** The members that a list has more than another one. */
const without = (base, members) => Object.fromEntries(Object.entries(members).filter(([name]) => !Object.hasOwn(base, name)))

/** The options of all guards, then those that only some of them have. */
function guardOptionsList () {
  const { protect, scoped, injectUser } = optionsOfGuards
  const listOf = (members, declaration, of) => optionsList(members, 'types/instance.ts', declaration, of)
  return [
    listOf(injectUser, 'GuardOptions'),
    listOf(without(injectUser, protect), 'ProtectOptions', '`protect`'),
    listOf(without(injectUser, scoped), 'ScopedOptions', '`scoped`'),
    listOf(choiceMembers, 'InstanceChoice', '[free-standing](#free-standing-guards)')
  ].join('\n')
}

const sessionSettingsList = () => optionsList(sessionsShape.members, 'types/sessions.ts', 'SessionsOptions')

/** The comments of the rows of endpoints: the text, and that of the tag `@sessions`. */
function commentsOfEndpoints () {
  const path = 'lib/endpoints/table.ts'
  const source = ts.createSourceFile(path, readFileSync(new URL(path, root), 'utf8'), ts.ScriptTarget.Latest, true)
  const comments = new Map()
  const visit = (node) => {
    if (ts.isPropertyAssignment(node) && Object.hasOwn(endpointTable, node.name.getText())) {
      const [comment] = ts.getJSDocCommentsAndTags(node)
      const sessions = ts.getJSDocTags(node).find(({ tagName }) => tagName.text === 'sessions')
      comments.set(node.name.getText(), { main: ts.getTextOfJSDocComment(comment.comment) ?? '', sessions: ts.getTextOfJSDocComment(sessions?.comment) ?? '' })
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return comments
}

/** Returns the rows of endpoints: the request, with what a client sends, and then the parts of the comment. */
function endpointRows (which) {
  const comments = commentsOfEndpoints()
  return Object.entries(endpointTable).flatMap(([name, { method, path, below = '', hook }]) => {
    const text = comments.get(name)[which]
    if (text === '') return []
    // A path that is null by default: the one that its documents show.
    const { default: preset, anyOf } = settingsSchema.properties[path]
    const address = `/auth${(preset ?? anyOf[0].default).replace(/^\/$/, '')}${below}`
    const [sent, ...answers] = text.split('|').map((part) => part.trim())
    return [[`\`${method} ${address}\` ${sent}`, ...answers, which === 'main' ? hook === undefined ? '' : `\`${hook}\`` : undefined].filter((part) => part !== undefined)]
  })
}

const endpointsTable = () => table(['Request', 'Success', 'Failure', 'Extended by'], endpointRows('main'))
const sessionEndpointsTable = () => table(['Request', 'Response'], endpointRows('sessions'))

const documents = {
  'docs/evidence/comparison.md': { speed: speedSentence },
  'docs/evidence/speed.md': { speed: speedTable },
  'docs/errors.md': { errors: errorsList },
  'docs/settings.md': { settings: settingsList },
  'docs/sessions-reference.md': { 'session settings': sessionSettingsList, 'session endpoints': sessionEndpointsTable },
  'docs/keys.md': { 'members of keys': () => optionsList(signingKey.members, 'types/keys.ts', 'SigningKey') },
  'docs/issuers.md': { 'members of issuers': () => optionsList(trustedIssuer.members, 'types/keys.ts', 'TrustedIssuer') },
  'docs/guards.md': { 'options of guards': guardOptionsList },
  'docs/testing.md': {
    'options of createTestToken': () => optionsList(testTokenShape.members, 'lib/testing/test-token.ts', 'TestTokenOptions'),
    'options of attack': () => optionsList(attackShape.members, 'lib/testing/attack/attack.ts', 'AttackOptions')
  },
  'docs/reference.md': {
    endpoints: endpointsTable,
    'options of generateAccessToken': () => optionsList(additionsShape.members, 'types/instance.ts', 'TokenAdditions')
  }
}

/** Writes a document, or with `--check` fails if it is out of date. */
function update (file, after) {
  const before = existsSync(file) ? readFileSync(file, 'utf8') : ''
  if (!process.argv.includes('--check')) {
    writeFileSync(file, after)
  } else if (before !== after) {
    console.error(`${relative(fileURLToPath(root), fileURLToPath(file))} is out of date. Run "npm run tables".`)
    process.exitCode = 1
  }
}

for (const [path, tables] of Object.entries(documents)) {
  const file = new URL(path, root)
  let after = readFileSync(file, 'utf8')
  for (const [name, write] of Object.entries(tables)) {
    const [start, end] = [`<!-- ${name}: generated by scripts/tables.js -->`, `<!-- /${name} -->`]
    const from = after.indexOf(start)
    const to = after.indexOf(end)
    if (from === -1 || to === -1) throw new Error(`${path} does not contain the markers of the table "${name}".`)
    after = `${after.slice(0, from + start.length)}\n\n${write()}\n\n${after.slice(to)}`
  }
  update(file, after)
}
update(new URL('docs/site/tutorial-javascript.md', root), inJavaScript(readFileSync(new URL('docs/tutorial.md', root), 'utf8')))
