import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import ts from 'typescript'
import { pathSettings, routeSettings, settingNames } from '../lib/settings/schema.ts'

/**
 * Who may import whom at run time. A module is a file of lib/ without its ending, or `folder/*`; the first row that
 * fits a file is its layer, and files of one row may import each other. What is not named may not be imported.
 */
const layers: Readonly<Record<string, readonly string[]>> = {
  // Knowledge that needs nothing of ours.
  errors: [],
  refusal: [],
  host: ['errors'],
  warnings: ['node:*'],
  'request-serializer': [],
  openapi: [],
  testing: ['errors', 'node:*'],
  'settings/*': ['errors', 'host', 'keys/algorithms', '@sinclair/typebox', 'node:*'],
  // Keys: which there are, and whether they fit. The table of algorithms imports nothing.
  'keys/algorithms': [],
  'keys/*': ['errors', 'keys/algorithms', 'node:*'],
  // Tokens: no Fastify, no handlers of the host; fast-jwt behind one door.
  'token/codec': ['errors', 'refusal', 'keys/*', 'token/*', 'fast-jwt', 'node:*'],
  'token/*': ['errors', 'refusal', 'keys/*', 'token/codec', 'node:*'],
  // What the host supplies.
  authentication: ['errors', 'host', 'settings/*'],
  'custom-claims': ['errors', 'host', 'settings/*'],
  users: ['errors', 'host', 'token/*'],
  responses: ['errors', 'host'],
  view: ['errors', 'host', 'settings/*'],
  // One policy a guard, one RequestAuth a request, one TokenAuth a registration: each knows those above it only.
  policy: ['errors', 'host', 'settings/*', 'keys/*', 'token/*'],
  'request-auth': ['errors', 'refusal', 'settings/*', 'token/*'],
  issue: ['errors', 'host', 'token/*', 'users'],
  guards: ['errors', 'refusal', 'host', 'token/*', 'openapi', 'node:*'],
  'token-auth': ['errors', 'refusal', 'host', 'settings/*', 'token/*', 'custom-claims', 'users', 'responses', 'policy', 'request-auth', 'issue', 'guards'],
  'free-guards': ['errors', 'host', 'settings/*', 'responses', 'openapi', 'policy', 'guards', 'token-auth'],
  // Routes.
  cookies: ['errors'],
  'endpoints/*': ['errors', 'refusal', 'host', 'settings/*', 'token/*', 'users', 'responses', 'cookies', 'openapi', '@sinclair/typebox'],
  // Registration knows everything, nothing but the entry of the package knows it.
  plugin: [
    'errors', 'host', 'warnings', 'settings/*', 'keys/*', 'authentication', 'custom-claims', 'responses', 'view', 'openapi', 'token-auth', 'endpoints/*',
    '@fastify/cookie', 'fastify-plugin'
  ],
  index: ['errors', 'request-serializer', 'settings/*', 'authentication', 'responses', 'view', 'free-guards', 'plugin']
}

const root = fileURLToPath(new URL('..', import.meta.url))
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
    t.ok(layer, `${file} has a row in the table`)
    if (layer !== undefined) found.add(layer)
  }
  t.strictSame([...found].sort(), Object.keys(layers).sort())
})

t.test('a file imports at run time only what its layer may', async (t) => {
  for (const file of files) {
    const layer = layerOf(file) ?? file
    const allowed = [layer, ...layers[layer] ?? []]
    const wrong = importsOf(file)
      .filter(({ target, isTypeOnly }) => !isTypeOnly && !allowed.some((pattern) => fits(moduleOf(target), pattern)))
      .map(({ target }) => target)
    t.strictSame(wrong, [], file)
  }
})

t.test('every path of an endpoint is a setting of the routes, which no getter and no guard may change', async (t) => {
  t.strictSame(settingNames.filter((name) => name.startsWith('pathTo')).sort(), [...pathSettings].sort())
  t.ok(pathSettings.every((name) => routeSettings.includes(name)))
})

t.test('a layer is allowed nothing that it does not use', async (t) => {
  for (const [layer, mayImport] of Object.entries(layers)) {
    const used = files.filter((file) => layerOf(file) === layer)
      .flatMap((file) => importsOf(file)).filter(({ isTypeOnly }) => !isTypeOnly).map(({ target }) => moduleOf(target))
    const idle = mayImport.filter((pattern) => !used.some((name) => fits(name, pattern)))
    t.strictSame(idle, [], layer)
  }
})

t.test('no file imports itself at run time, not even around a corner', async (t) => {
  const imports = new Map(files.map((file) => [file, importsOf(file).filter(({ isTypeOnly }) => !isTypeOnly).map(({ target }) => target)]))
  const reach = (file: string, reached = new Set<string>()): Set<string> => {
    for (const target of imports.get(file) ?? []) if (!reached.has(target)) reach(target, reached.add(target))
    return reached
  }
  for (const file of files) t.notOk(reach(file).has(file), file)
})

t.test('settings, keys, tokens and their declarations do not import themselves, not even around a corner or for a type', async (t) => {
  const imports = new Map([...files, ...filesOf('types')].map((file) => [file, importsOf(file).map(({ target }) => target)]))
  const reach = (file: string, reached = new Set<string>()): Set<string> => {
    for (const target of imports.get(file) ?? []) if (!reached.has(target)) reach(target, reached.add(target))
    return reached
  }
  for (const file of imports.keys()) if (/^(?:lib\/(?:settings|keys|token)\/|types\/(?:keys|settings))/.test(file)) t.notOk(reach(file).has(file), file)
})

t.test('tokens know no Fastify, not even its types, and fast-jwt is met in one file', async (t) => {
  for (const file of files) {
    const packages = importsOf(file).map(({ target }) => packageOf(target))
    if (file.startsWith('lib/token/')) t.notOk(packages.some((name) => /^@?fastify/.test(name)), `${file} knows no Fastify`)
    t.equal(packages.includes('fast-jwt'), file === 'lib/token/codec.ts', `${file} and fast-jwt`)
  }
})

t.test('types/ holds declarations only: nothing of it exists at run time', async (t) => {
  const declarations = filesOf('types')
  t.ok(declarations.length > 3)
  for (const file of declarations) {
    t.strictSame(importsOf(file).filter(({ isTypeOnly }) => !isTypeOnly), [], `${file} imports types only`)
    const { outputText } = ts.transpileModule(readFileSync(join(root, file), 'utf8'), {
      compilerOptions: { target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true, removeComments: true }
    })
    t.equal(outputText.trim(), 'export {};', `${file} emits nothing`)
  }
})

t.test('the two walks of CONTRIBUTING lead through files and folders of lib/', async (t) => {
  const [, walks = ''] = /^## Two walks\n([\s\S]*?)^## /m.exec(readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8')) ?? []
  for (const [walk, first, last] of [['A request', 'guards', 'token/scopes'], ['A registration', 'settings/configuration', 'endpoints']] as const) {
    const [, text = ''] = new RegExp(`^\\*\\*${walk}\\*\\*: (.*)$`, 'm').exec(walks) ?? []
    const steps = text.split(' -> ').flatMap((step) => /^`([^`]+)`/.exec(step)?.[1] ?? [])
    t.strictSame([steps[0], steps.at(-1)], [first, last], walk)
    for (const step of steps) t.ok(files.some((file) => file === `lib/${step}.ts` || file.startsWith(`lib/${step}/`)), `${walk}: ${step}`)
  }
})

t.test(`no file of lib/ has more than ${maximumLines} lines`, async (t) => {
  for (const file of files) {
    const lines = readFileSync(join(root, file), 'utf8').split('\n').length - 1
    t.ok(lines <= maximumLines, `${file}: ${lines}`)
  }
})

// Files that no test imports would not count for coverage.
t.test('every file of lib/ loads', async (t) => {
  for (const file of files) {
    const exported: unknown = await import(new URL(`../${file}`, import.meta.url).href)
    t.type(exported, 'object', file)
  }
})
