import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import ts from 'typescript'
import { pathSettings, routeSettings, settingNames } from '../../lib/settings/schema.ts'

/** The rooms of lib/, from the bottom up. A file imports from its own room and from those before it, types included. A room is a folder, a file, or `open`. */
const rooms = ['open', 'settings', 'host', 'keys', 'token', 'authorities', 'issuing', 'request', 'http', 'sessions', 'registration', 'warnings', 'neighbours', 'wrapped', 'guards', 'routes', 'cli', 'endpoints', 'token-auth', 'plugin', 'exports', 'index', 'require', 'client', 'testing']

/** Open to all, and import nothing but each other. */
const open = [
  'values', 'promises', 'bounded-map', 'watched-controllers', 'algorithms', 'challenge', 'documents', 'errors', 'configuration-errors', 'copies', 'imports', 'refusal', 'events', 'secret-names'
]

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

const packageOf = (target: string) => target.match(/^(?:node:.*|@[^/]+\/[^/]+|[^/]+)/)?.[0] ?? target
/** The path of a file of lib/ without its ending; the name of a package for any other target. */
const moduleOf = (target: string) => target.startsWith('lib/') ? relative('lib', target).replaceAll('\\', '/').replace(/\.ts$/, '') : packageOf(target)
const roomOf = (module: string) => open.includes(module) ? 'open' : module.split('/', 1)[0]!

const files = filesOf('lib')

/** What the files of a part import at run time of other rooms than `open`, without what is of the part itself. */
const importedBy = (part: RegExp) => [...new Set(files.filter((file) => part.test(moduleOf(file)))
  .flatMap((file) => importsOf(file))
  .filter(({ target, isTypeOnly }) => !isTypeOnly && target.startsWith('lib/'))
  .map(({ target }) => moduleOf(target))
  .filter((module) => roomOf(module) !== 'open' && !part.test(module)))].sort()

t.test('every file of lib/ has its room, and every room has a file', async (t) => {
  t.ok(files.length > 30)
  t.strictSame([...new Set(files.map((file) => roomOf(moduleOf(file))))].sort(), [...rooms].sort())
  t.strictSame(open.filter((module) => !files.includes(`lib/${module}.ts`)), [])
})

t.test('a file imports nothing of a room above its own, not even a type', async () => {
  for (const file of files) {
    const level = rooms.indexOf(roomOf(moduleOf(file)))
    const above = importsOf(file).map(({ target }) => target).filter((target) => target.startsWith('lib/') && rooms.indexOf(roomOf(moduleOf(target))) > level)
    assert.deepEqual(above, [], file)
  }
})

t.test('what is used on its own, and what others build on, imports little', async (t) => {
  t.strictSame(importedBy(/^client$/), [])
  // What is tested is not its own witness.
  t.strictSame(importedBy(/^testing/), ['keys/known-secrets', 'settings/kinds', 'settings/records'])
  // It loads applications and reads their routes, but runs no request.
  t.strictSame([...new Set(importedBy(/^cli/).map(roomOf))], ['keys', 'neighbours', 'registration', 'routes', 'settings'])
  // The reader of options knows no setting, and stores know nothing of sessions but how they rotate.
  t.strictSame(importedBy(/^settings\/(?:kinds|suggest|records)$/), [])
  t.strictSame(importedBy(/^sessions\/stores\//), ['sessions/rotation', 'settings/kinds', 'settings/records'])
})

t.test('every path of an endpoint is a setting of the routes, which no getter and no guard may change', async (t) => {
  t.strictSame(settingNames.filter((name) => name.startsWith('pathTo')).sort(), [...pathSettings].sort())
  t.ok(pathSettings.every((name) => routeSettings.includes(name)))
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

t.test('keys, authorities and tokens know no Fastify, not even its types, and each other package is met in its place', async (t) => {
  // Types of the optional jose neither: the declarations of this package must be read without it.
  const places: Record<string, RegExp> = {
    'fast-jwt': /^token\/codec$/,
    jose: /^authorities\/remote-key-set$/,
    '@fastify/cookie': /^http\/cookies$/,
    'fastify-plugin': /^plugin$/,
    '@sinclair/typebox': /^(?:settings|endpoints)\//,
    fastify: /^(?!(?:keys|authorities|token)\/)/
  }
  const met = new Set<string>()
  for (const file of files) {
    for (const name of importsOf(file).map(({ target }) => target).filter((target) => !/^(?:lib|types|node:)/.test(target)).map(packageOf)) {
      met.add(name)
      assert.match(moduleOf(file), places[name] ?? /^$/, `${file} and ${name}`)
    }
  }
  t.strictSame([...met].sort(), Object.keys(places).sort())
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
  for (const [file, limit] of [['lib/token-auth.ts', 130], ['lib/request/state.ts', 260]] as const) {
    assert.ok(readFileSync(join(root, file), 'utf8').split('\n').length - 1 <= limit, file)
  }
})

t.test('the root of lib/ holds only what belongs to no room', async (t) => {
  const inRoot = files.filter((file) => file.split('/').length === 2).map(moduleOf).sort()
  t.strictSame(inRoot, [...open, 'cli', 'client', 'exports', 'index', 'neighbours', 'plugin', 'registration', 'require', 'testing', 'token-auth', 'warnings'].sort())
})

t.test(`no file of lib/ but the client has more than ${maximumLines} lines`, async () => {
  for (const file of files) {
    const lines = readFileSync(join(root, file), 'utf8').split('\n').length - 1
    // Pages without a bundler load the client as one file.
    assert.ok(lines <= (file === 'lib/client.ts' ? 560 : maximumLines), `${file}: ${lines}`)
  }
})

// Files that no test imports would not count for coverage.
t.test('every file of lib/ loads', async (t) => {
  for (const file of files) {
    const exported: unknown = await import(new URL(`../../${file}`, import.meta.url).href)
    t.type(exported, 'object', file)
  }
})
