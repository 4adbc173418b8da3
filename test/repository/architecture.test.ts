import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import ts from 'typescript'
import { pathSettings, routeSettings, settingNames } from '../../lib/settings/schema.ts'

/** What every layer may import: values, errors with the challenge that they carry, what is known of other copies, `refusal`, and the table of algorithms, which import nothing of each other's layers. */
const open = ['values', 'documents', 'http/challenge', 'errors', 'configuration-errors', 'copies', 'imports', 'refusal', 'keys/algorithms']

/**
 * Who may import whom at run time, besides what is open to all. A module is a file of lib/ without its ending, or
 * `folder/*`; the first row that fits a file is its layer, and files of one row may import each other. What is not named
 * may not be imported.
 */
const layers: Readonly<Record<string, readonly string[]>> = {
  values: ['node:*'],
  'http/challenge': [],
  errors: [],
  documents: [],
  'configuration-errors': [],
  copies: [],
  imports: [],
  refusal: [],
  'keys/algorithms': [],
  warnings: ['node:*'],
  events: ['node:*'],
  // The reader of options knows no setting and no other part of lib/.
  'settings/kinds': [],
  'settings/suggest': [],
  'settings/records': ['settings/kinds', 'settings/suggest'],
  'settings/*': ['@sinclair/typebox', 'node:*'],
  // What the application supplies.
  'host/*': ['settings/*'],
  // Keys, authorities and tokens know no Fastify; fast-jwt and jose are met in one file each.
  'keys/*': ['settings/*', 'host/*', 'events', 'node:*'],
  // What a token says, and how it is read: of these files, authorities make use.
  'token/claims': [],
  'token/form': ['node:*'],
  'token/scopes': [],
  'token/generations': [],
  'authorities/remote-key-set': ['jose'],
  'authorities/*': ['settings/*', 'host/*', 'keys/*', 'token/claims', 'token/form', 'token/scopes', 'token/generations', 'authorities/remote-key-set'],
  'token/codec': ['token/form', 'fast-jwt', 'node:*'],
  'token/*': ['keys/*', 'authorities/*', 'token/claims', 'token/form', 'token/generations', 'token/codec'],
  'request/*': ['host/*', 'keys/*', 'authorities/*', 'token/*', 'node:*'],
  'issuing/*': ['settings/*', 'host/*', 'token/*', 'node:*'],
  'http/cookies': ['@fastify/cookie'],
  'http/*': ['settings/*', 'host/*', 'request/*', 'http/cookies'],
  // The life of a session. Stores know nothing but its rules.
  'sessions/rotation': [],
  'sessions/stores/*': ['settings/kinds', 'settings/records', 'sessions/rotation', 'node:*'],
  'sessions/*': ['settings/*', 'host/*', 'keys/*', 'token/*', 'request/*', 'http/*', 'events', 'sessions/stores/*', 'node:*'],
  // The record of a registration knows the types of what it holds, and nothing at run time.
  registration: [],
  'guards/*': ['settings/*', 'host/*', 'events', 'http/*', 'registration', 'request/*', 'sessions/exchange', 'token/login-age', 'token/scopes', 'node:*'],
  'routes/*': ['warnings', 'http/error-schema', 'guards/describe', 'guards/gate', 'guards/trial'],
  'token-auth': ['events', 'host/*', 'issuing/*', 'request/*', 'sessions/*', 'guards/*'],
  'endpoints/*': ['settings/*', 'host/*', 'events', 'token/claims', 'issuing/*', 'http/*', 'request/*', 'sessions/*', 'guards/*', '@sinclair/typebox', 'fastify', 'node:*'],
  // Registration knows everything, and only the entry of the package knows it.
  plugin: [
    'warnings', 'settings/*', 'host/*', 'keys/*', 'authorities/*', 'token/*', 'request/*', 'issuing/*', 'http/*', 'sessions/*', 'registration', 'routes/*', 'token-auth', 'endpoints/*',
    'fastify-plugin'
  ],
  // Runs in browsers.
  client: [],
  testing: ['testing/*'],
  // Only the reader of options and the secrets that everybody knows: what is tested is not its own witness.
  'testing/*': ['settings/kinds', 'settings/records', 'keys/known-secrets', 'node:*'],
  // Loads applications and reads their routes, but runs no request.
  cli: ['cli/*', 'node:*'],
  'cli/*': ['keys/*', 'registration', 'routes/*', 'fastify', 'node:*'],
  index: ['settings/*', 'host/*', 'sessions/stores/*', 'http/*', 'guards/*', 'endpoints/*', 'plugin'],
  require: ['index']
}

const root = fileURLToPath(new URL('../..', import.meta.url))
const maximumLines = 350

const filesOf = (folder: string) => readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !name.endsWith('.tst.ts'))
  .map((name) => `${folder}/${name.replaceAll('\\', '/')}`)

interface Import {
  /** As written for a package; the path from the root for a file of ours. */
  target: string
  isTypeOnly: boolean
}

/** Every import and re-export of a file, `import()` included. */
function importsOf (file: string): Import[] {
  const imports: Import[] = []
  const add = (specifier: ts.Node | undefined, isTypeOnly: boolean) => {
    if (specifier === undefined || !ts.isStringLiteral(specifier)) return
    const { text } = specifier
    imports.push({ target: text.startsWith('.') ? join(dirname(file), text).replaceAll('\\', '/') : text, isTypeOnly })
  }
  const visit = (node: ts.Node) => {
    // `import { type A } from 'x'` still loads x at run time, so only the word before the braces counts.
    if (ts.isImportDeclaration(node)) add(node.moduleSpecifier, node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword)
    if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, node.isTypeOnly)
    if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) add(node.argument.literal, true)
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) add(node.arguments[0], false)
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile(file, readFileSync(join(root, file), 'utf8'), ts.ScriptTarget.ESNext))
  return imports
}

const fits = (name: string, pattern: string) => pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern
const packageOf = (target: string) => target.match(/^(?:node:.*|@[^/]+\/[^/]+|[^/]+)/)?.[0] ?? target
const moduleOf = (target: string) => target.startsWith('lib/') ? relative('lib', target).replaceAll('\\', '/').replace(/\.ts$/, '') : packageOf(target)
const layerOf = (file: string) => Object.keys(layers).find((layer) => fits(moduleOf(file), layer))

const files = filesOf('lib')

t.test('every file of lib/ has its layer, and every layer has a file', async (t) => {
  t.ok(files.length > 30)
  const found = new Set<string>()
  for (const file of files) {
    const layer = layerOf(file)
    assert.ok(layer, `${file} has a row in the table`)
    if (layer !== undefined) found.add(layer)
  }
  t.strictSame([...found].sort(), Object.keys(layers).sort())
})

t.test('a file imports at run time only what its layer may', async () => {
  for (const file of files) {
    const layer = layerOf(file) ?? file
    const allowed = [layer, ...open, ...layers[layer] ?? []]
    const wrong = importsOf(file)
      .filter(({ target, isTypeOnly }) => !isTypeOnly && !allowed.some((pattern) => fits(moduleOf(target), pattern)))
      .map(({ target }) => target)
    assert.deepEqual(wrong, [], file)
  }
})

t.test('every path of an endpoint is a setting of the routes, which no getter and no guard may change', async (t) => {
  t.strictSame(settingNames.filter((name) => name.startsWith('pathTo')).sort(), [...pathSettings].sort())
  t.ok(pathSettings.every((name) => routeSettings.includes(name)))
})

t.test('a layer is allowed nothing that it does not use', async () => {
  for (const [layer, mayImport] of Object.entries(layers)) {
    const used = files.filter((file) => layerOf(file) === layer)
      .flatMap((file) => importsOf(file)).filter(({ isTypeOnly }) => !isTypeOnly).map(({ target }) => moduleOf(target))
    const idle = mayImport.filter((pattern) => !used.some((name) => fits(name, pattern)))
    assert.deepEqual(idle, [], layer)
  }
})

t.test('no file imports itself, not even around a corner or for a type', async () => {
  const all = [...files, ...filesOf('types')]
  const imports = new Map(all.map((file) => [file, importsOf(file).map(({ target }) => target)]))
  const reach = (file: string, reached = new Set<string>()): Set<string> => {
    for (const target of imports.get(file) ?? []) if (!reached.has(target)) reach(target, reached.add(target))
    return reached
  }
  for (const file of all) assert.ok(!reach(file).has(file), file)
})

t.test('keys, authorities and tokens know no Fastify, not even its types, and fast-jwt and jose are met in one file each', async () => {
  for (const file of files) {
    const packages = importsOf(file).map(({ target }) => packageOf(target))
    if (/^lib\/(?:keys|authorities|token)\//.test(file)) assert.ok(!packages.some((name) => /^@?fastify/.test(name)), `${file} knows no Fastify`)
    assert.equal(packages.includes('fast-jwt'), file === 'lib/token/codec.ts', `${file} and fast-jwt`)
    // Its types neither: it is optional, and the declarations of this package must be read without it.
    assert.equal(packages.includes('jose'), file === 'lib/authorities/remote-key-set.ts', `${file} and jose`)
  }
})

t.test('types/ holds declarations only: nothing of it exists at run time', async (t) => {
  const declarations = filesOf('types')
  t.ok(declarations.length > 3)
  for (const file of declarations) {
    assert.deepEqual(importsOf(file).filter(({ isTypeOnly }) => !isTypeOnly), [], `${file} imports types only`)
    const { outputText } = ts.transpileModule(readFileSync(join(root, file), 'utf8'), {
      compilerOptions: { target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true, removeComments: true }
    })
    assert.equal(outputText.trim(), 'export {};', `${file} emits nothing`)
  }
})

t.test('the walks of CONTRIBUTING lead through files and folders of lib/', async () => {
  const [, walks = ''] = /^## Walks\n([\s\S]*?)^## /m.exec(readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8')) ?? []
  const ends = [['A request', 'guards/run', 'token/scopes'], ['A registration', 'settings/configuration', 'endpoints'], ['A refresh', 'endpoints/refresh', 'http/cookies']] as const
  for (const [walk, first, last] of ends) {
    const [, text = ''] = new RegExp(`^\\*\\*${walk}\\*\\*: (.*)$`, 'm').exec(walks) ?? []
    const steps = text.split(' -> ').flatMap((step) => /^`([^`]+)`/.exec(step)?.[1] ?? [])
    assert.deepEqual([steps[0], steps.at(-1)], [first, last], walk)
    for (const step of steps) assert.ok(files.some((file) => file === `lib/${step}.ts` || file.startsWith(`lib/${step}/`)), `${walk}: ${step}`)
  }
})

t.test('the public face of a registration and the state of a request fit on a screen or two', async () => {
  for (const [file, limit] of [['lib/token-auth.ts', 130], ['lib/request/state.ts', 245]] as const) {
    assert.ok(readFileSync(join(root, file), 'utf8').split('\n').length - 1 <= limit, file)
  }
})

t.test('the root of lib/ holds only what belongs to no room', async (t) => {
  const inRoot = files.filter((file) => file.split('/').length === 2).map(moduleOf).sort()
  t.strictSame(inRoot, ['cli', 'client', 'configuration-errors', 'copies', 'documents', 'errors', 'events', 'imports', 'index', 'plugin', 'refusal', 'registration', 'require', 'testing', 'token-auth', 'values', 'warnings'])
})

t.test(`no file of lib/ but the client has more than ${maximumLines} lines`, async () => {
  for (const file of files) {
    const lines = readFileSync(join(root, file), 'utf8').split('\n').length - 1
    // Pages without a bundler load the client as one file.
    assert.ok(lines <= (file === 'lib/client.ts' ? 520 : maximumLines), `${file}: ${lines}`)
  }
})

// Files that no test imports would not count for coverage.
t.test('every file of lib/ loads', async (t) => {
  for (const file of files) {
    const exported: unknown = await import(new URL(`../../${file}`, import.meta.url).href)
    t.type(exported, 'object', file)
  }
})
