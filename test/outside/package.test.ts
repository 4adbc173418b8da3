// @alone
import { randomBytes } from 'node:crypto'
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import t from 'tap'
import * as source from '../../lib/index.ts'
import { folderOf, install, manifest, name, root, run } from './installed.ts'
import { brokenLinks } from '../repository/links.ts'

/** The package as a user gets it. */

const { project, installed, tarball, packed: { files, size, unpackedSize }, link, runNode } = await install(t)
const paths = files.map(({ path }) => path)
cpSync(join(root, 'test/outside/fixtures/consumer'), project, { recursive: true })

t.test('the tarball holds what users need and nothing else', async (t) => {
  const allowed = [
    /^package\.json$/, /^(?:README|CHANGELOG|SECURITY)\.md$/, /^docs\/(?:recipes\/)?[a-z-]+\.md$/, /^docs\/pictures\/[\w-]+\.(?:png|svg)$/, /^LICENSE$/,
    /^dist\/lib\/(?:index|client|testing)\.(?:js|cjs|d\.ts|d\.cts)$/, /^dist\/lib\/(?:client\.js|(?:plugin|testing|cli)\.cjs)\.map$/, /^dist\/lib\/(?:plugin|cli)\.cjs$/, /^dist\/lib\/declarations\.d\.cts$/,
    /^dist\/lib\/shared-[\w-]+\.(?:cjs|cjs\.map|d\.cts)$/, /^dist\/lib\/licenses\.txt$/, /^bin\/fastify-token-auth\.js$/
  ]
  t.strictSame(paths.filter((path) => !allowed.some((pattern) => pattern.test(path))), [])
  const pages = ['docs', 'docs/recipes'].flatMap((folder) => readdirSync(join(root, folder)).filter((file) => file.endsWith('.md')).map((file) => `${folder}/${file}`))
  t.ok(pages.filter((page) => page.startsWith('docs/recipes/')).length >= 28)
  const filesOf = (entry: unknown): string[] => typeof entry === 'string' ? [entry] : Object.values(Object(entry)).flatMap(filesOf)
  const entries = filesOf([manifest.main, manifest.types, manifest.exports, manifest.typesVersions])
  const needed = ['README.md', 'LICENSE', 'CHANGELOG.md', 'SECURITY.md', 'bin/fastify-token-auth.js', ...pages, ...entries.map((entry) => posix.normalize(entry))]
  for (const path of needed) t.ok(paths.includes(path), path)
})

t.test('every link of its documents leads to a file and an anchor that the package has, or to the web', async (t) => {
  const documents = paths.filter((path) => path.endsWith('.md'))
  t.ok(documents.length >= 50)
  t.strictSame(brokenLinks(installed, documents), [])
})

t.test('its recipes are one link away from its README, by their list', async (t) => {
  const linksOf = (path: string) => Array.from(readFileSync(join(installed, path), 'utf8').matchAll(/\]\(([\w/.-]+\.md)\)/g), ([, target = '']) => posix.join(posix.dirname(path), target))
  t.ok(linksOf('README.md').includes('docs/recipes.md'))
  t.strictSame(linksOf('docs/recipes.md').filter((path) => path.startsWith('docs/recipes/')).sort(), paths.filter((path) => path.startsWith('docs/recipes/')).sort())
})

t.test('tarball, installed size, dependencies and client stay within the limits of scripts/size.js', async (t) => {
  const script = join(root, 'scripts/size.js')
  const { stdout } = await run(process.execPath, [script], { cwd: root })
  const amountOf = (what: string) => Number(new RegExp(`^${what} +(\\d+), at most \\d+$`, 'm').exec(stdout)?.[1])
  t.equal(amountOf('Tarball, kB'), Math.ceil(size / 1000))
  t.equal(amountOf('Unpacked, kB'), Math.ceil(unpackedSize / 1000))
  t.ok(amountOf('Client, minified and gzipped, bytes') > 1000)
  t.equal(amountOf('Direct dependencies'), Object.keys(manifest.dependencies).length)
  t.ok(amountOf('All dependencies') >= amountOf('Direct dependencies'))
  t.ok(amountOf('Installed with its dependencies, kB') > amountOf('Unpacked, kB'))

  const many = Object.fromEntries(Array.from({ length: 18 }, (_, index) => [`package-${index}`, '1.0.0']))
  const folder = t.testdir({
    'package.json': JSON.stringify({ name: 'large', version: '1.0.0' }),
    'package-lock.json': JSON.stringify({
      packages: { '': { dependencies: many }, ...Object.fromEntries(Object.keys(many).map((dependency) => [`node_modules/${dependency}`, {}])) }
    }),
    dist: { lib: { 'client.js': `export default '${randomBytes(3000).toString('base64')}'` } },
    node_modules: Object.fromEntries(Object.keys(many).map((dependency) => [dependency, { 'index.js': '0'.repeat(400_000) }]))
  })
  const refused = await run(process.execPath, [script], { cwd: folder }).catch((error) => error)
  t.equal(refused.code, 1)
  t.strictSame(refused.stderr.trim().split('\n').map((line: string) => line.replace('Too much: ', '')), [
    'Installed with its dependencies, kB', 'Client, minified and gzipped, bytes', 'Direct dependencies', 'All dependencies'
  ])
})

// Promise: specification/require-returns-same
t.test('import and require, whole and destructured, give one plugin and one set of classes', async (t) => {
  const { stdout, stderr } = await runNode(['load.mjs'])
  t.strictSame(JSON.parse(stdout), {
    isOnePlugin: true,
    isFunction: 'function',
    differing: [],
    names: Object.keys(source).sort(),
    refused: [401, '{"reasons":"No.","exception":"AuthenticationFailed"}'],
    closed: 401,
    open: 'open',
    isOneTesting: true
  })
  t.notMatch(stderr, /warning/i)
})

t.test('two copies in a monorepo: nobody gets in, and the errors name the folder of the other copy', async (t) => {
  const orders = join(project, 'packages/orders')
  const other = join(orders, 'node_modules', name)
  cpSync(installed, other, { recursive: true })
  for (const dependency of Object.keys(manifest.dependencies)) cpSync(join(project, 'node_modules', dependency), join(orders, 'node_modules', dependency), { recursive: true })
  writeFileSync(join(orders, 'routes.mjs'), `import { protect } from '${name}'
export default async (app) => { app.get('/', { onRequest: protect() }, async () => 'in') }`)
  writeFileSync(join(project, 'monorepo.mjs'), `import Fastify from 'fastify'
import tokenAuth from '${name}'
import orders from './packages/orders/routes.mjs'
const secret = '${randomBytes(32).toString('base64url')}'
const app = Fastify()
await app.register(tokenAuth, { secret, authMode: false })
await app.register(orders)
const strict = Fastify()
await strict.register(tokenAuth, { secret, authMode: false, requireGuards: true })
await strict.register(orders)
const response = await app.inject('/')
console.log(JSON.stringify([response.statusCode, response.json().reasons, await strict.ready().catch(({ message }) => message)]))`)
  const [status, reasons, start] = JSON.parse((await runNode(['monorepo.mjs'])).stdout)
  t.equal(status, 500)
  const folders = [`Another copy of this package, in ${other}, created guards, instances or classes that this copy, in ${installed}, does not recognize.`, `Another copy of this package, in ${installed}, created guards, instances or classes that this copy, in ${other}, does not recognize.`]
  t.ok(reasons.startsWith('No instance named "tokenAuth"') && reasons.includes(folders[1]), reasons)
  t.ok(start.includes('have no guard') && start.includes(folders[0]), start)
})

t.test('a CommonJS application needs nothing but require', async (t) => {
  const { stdout, stderr } = await runNode(['load.cjs'])
  t.strictSame(JSON.parse(stdout), {
    functions: Array(9).fill('function'),
    issued: 200,
    forbidden: { reasons: 'Invalid scope.', exception: 'InsufficientScope' }
  })
  t.notMatch(stderr, /TokenAuthWarning/)
})

t.test('the command line is executable, and loads an application that uses the package', async (t) => {
  const program = join(installed, manifest.bin[name])
  t.equal(readFileSync(program, 'utf8').split('\n', 1)[0], '#!/usr/bin/env node')
  if (process.platform !== 'win32') t.not(statSync(program).mode & 0o111, 0)
  t.match(await runNode([program, 'keys']), { stdout: /^SERVICE_JWT_SECRET=[\w-]{43}\n$/, stderr: '' })
  writeFileSync(join(project, 'guarded.mjs'), `import tokenAuth from '${name}'
export default async function (app) {
  await app.register(tokenAuth, { secret: '${randomBytes(32).toString('base64url')}', authMode: false })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'ok')
}`)
  t.match(await runNode([program, 'routes', '--check', 'guarded.mjs']), { stdout: 'GET,HEAD  /  protected  tokenAuth in onRequest\n', stderr: '' })
})

link('@fastify/autoload')
for (const kind of ['esm', 'cjs']) {
  t.test(`@fastify/autoload loads the package with its options, for the routes that it loads after it: ${kind}`, async (t) => {
    const { stdout, stderr } = await runNode(['app.js'], `autoload-${kind}`)
    t.strictSame(JSON.parse(stdout), [401, 200, { id: 1 }])
    t.notMatch(stderr, /TokenAuthWarning/)
  })
}

link('@types/node')
// The same files in a project of CommonJS.
mkdirSync(join(project, 'commonjs'))
writeFileSync(join(project, 'commonjs/package.json'), '{ "private": true }')
for (const [from, to] of [['consumer.ts', 'consumer.ts'], ['wrong.ts', 'wrong.ts'], ['common.cts', 'common.ts']] as const) cpSync(join(project, from), join(project, 'commonjs', to))
const strict = ['--strict', '--exactOptionalPropertyTypes', '--noImplicitOverride', '--noUncheckedIndexedAccess', '--noEmit', '--pretty', 'false', '--types', 'node', '--target', 'es2022']
const commonFiles = ['consumer.ts', 'wrong.ts', 'common.ts']
const kinds: Record<string, { folder?: string, options: string[], versions: string[] }> = {
  // The declarations of all packages are checked, those of the compiler are not.
  nodenext: { options: ['--module', 'nodenext', '--skipDefaultLibCheck', 'consumer.ts', 'wrong.ts', 'common.cts', 'both.mts'], versions: ['5.6', '5.9', '6.0', '7.0'] },
  // Declarations do not depend on the resolution: one compiler each. Without the types of browsers.
  node16: { options: ['--module', 'node16', '--skipLibCheck', 'consumer.ts', 'wrong.ts', 'common.cts', 'both.mts'], versions: ['5.9'] },
  bundler: { options: ['--module', 'esnext', '--moduleResolution', 'bundler', '--skipLibCheck', '--lib', 'es2023', 'consumer.ts', 'wrong.ts'], versions: ['7.0'] },
  // TypeScript 6 warns of it, and TypeScript 7 does not have it any more.
  'commonjs with node10': { folder: 'commonjs', options: ['--module', 'commonjs', '--moduleResolution', 'node10', '--esModuleInterop', '--skipLibCheck', ...commonFiles], versions: ['5.6'] },
  'commonjs with bundler': { folder: 'commonjs', options: ['--module', 'commonjs', '--moduleResolution', 'bundler', '--esModuleInterop', '--skipLibCheck', ...commonFiles], versions: ['6.0', '7.0'] }
}
const compilerVersions = [['typescript-5.6', '5.6'], ['typescript-5.9', '5.9'], ['typescript', '6.0'], ['typescript-7', '7.0']] as const
for (const [folder, version] of compilerVersions) {
  for (const [kind, { folder: inFolder = '', options, versions }] of Object.entries(kinds)) {
    if (!versions.includes(version)) continue
    t.test(`TypeScript ${version}, ${kind}: takes the package, users and claims declared once and no cast, and refuses mistakes`, async (t) => {
      const compiler = folderOf(folder)
      t.ok(JSON.parse(readFileSync(join(compiler, 'package.json'), 'utf8')).version.startsWith(`${version}.`))
      const { stdout } = await runNode([join(compiler, 'bin/tsc'), ...strict, ...options], inFolder).catch((error) => error)
      const lines = readFileSync(join(project, 'wrong.ts'), 'utf8').split('\n')
      const wrong = lines.flatMap((line, index) => [...line.matchAll(/ \/\/ wrong: (.+)$/g)].map(([, words = '']) => ({ place: `wrong.ts(${index + 1}`, words })))
      t.ok(wrong.length > 0)
      // An error, and what explains it in the indented lines below.
      const errors: string[] = stdout.split(/\n(?=\S)/).filter((error: string) => error.trim() !== '')
      t.strictSame(errors.map((error) => error.split(',', 1)[0]), wrong.map(({ place }) => place), { errors })
      for (const [index, { place, words }] of wrong.entries()) t.ok(errors[index]?.includes(words), `${place}: ${words}`, { error: errors[index] })
    })
  }

  t.test(`TypeScript ${version} takes the client in a page, with the types of browsers and without those of Node.js`, async (t) => {
    const { stdout } = await runNode([join(folderOf(folder), 'bin/tsc'), '--pretty', 'false', '--project', 'browser']).catch((error) => error)
    t.equal(stdout, '')
  })
}

t.test('publint finds nothing to say', async (t) => {
  const { messages, pkg } = await publint({ pkgDir: installed, pack: false, strict: true })
  t.strictSame(messages.map((message) => formatMessage(message, pkg, { color: false })), [])
})

t.test('the types are not wrong in any resolution, says @arethetypeswrong/cli', async (t) => {
  const cli = join(folderOf('@arethetypeswrong/cli'), 'dist/index.js')
  const { stdout } = await run(process.execPath, [cli, tarball, '--no-definitely-typed', '--format', 'json'])
  const { analysis }: { analysis: { packageName: string, entrypoints: object, problems: object[] } } = JSON.parse(stdout)
  t.equal(analysis.packageName, name)
  t.strictSame(Object.keys(analysis.entrypoints), Object.keys(manifest.exports), 'every entry is checked')
  t.strictSame(analysis.problems, [])
})

t.test('engines are those in which require() of ES modules works, which Fastify needs, and the manifest can be imported', async (t) => {
  t.equal(manifest.engines.node, '>=20.19.0 <21 || >=22.12.0')
  t.equal(manifest.type, 'module')
  writeFileSync(join(project, 'self.mjs'), `import json from '${name}/package.json' with { type: 'json' }\nconsole.log(json.name)\n`)
  const { stdout } = await runNode(['--no-warnings', 'self.mjs'])
  t.equal(stdout.trim(), name)
})

t.test('the README names the versions of Node.js and TypeScript that the package is tested with', async (t) => {
  const { testedLines }: { testedLines: string[] } = await import(new URL('../../scripts/nodes.js', import.meta.url).href)
  const [, nodes = '', compilers = ''] = /^The package is tested with Node.js (.*?), and its types with TypeScript (.*?), in ES modules/m.exec(readFileSync(join(root, 'README.md'), 'utf8')) ?? []
  t.strictSame(nodes.match(/\d+/g), ['20', ...testedLines])
  t.strictSame(compilers.match(/\d\.\d/g), compilerVersions.map(([, version]) => version))
})
