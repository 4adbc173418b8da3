// @slow
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import t from 'tap'
import * as source from '../lib/index.ts'
import { brokenLinks } from './links.ts'

/**
 * The package as a user gets it: packed, unpacked into a project that has nothing but what the package asks for. The project
 * is outside of this folder, in whose node_modules a dependency that is not declared would be found.
 */

const run = promisify(execFile)
const root = fileURLToPath(new URL('..', import.meta.url))
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const name: string = manifest.name
const project = mkdtempSync(join(realpathSync(tmpdir()), `${name}-`))
t.teardown(() => rmSync(project, { recursive: true, force: true }))
writeFileSync(join(project, 'package.json'), '{ "private": true, "type": "module" }')
const installed = join(project, 'node_modules', name)

/** Runs a program in the project, or a folder of it, without the hooks of the test runner: they change how modules are loaded. */
const runNode = (args: string[], folder = '') => run('env', ['-u', 'NODE_OPTIONS', process.execPath, ...args], { cwd: join(project, folder) })

/** Puts a package of ours into the project. */
function link (dependency: string) {
  const path = join(project, 'node_modules', dependency)
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(join(root, 'node_modules', dependency), path, 'junction')
}

// `npm test` builds first; a test never does.
if (!existsSync(join(root, 'dist/lib/index.js'))) throw new Error('There is no dist/: run "npm run build" first.')
const packed = await run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', project], { cwd: root })
const [{ filename, files, size, unpackedSize }]: [{ filename: string, files: { path: string }[], size: number, unpackedSize: number }] = JSON.parse(packed.stdout)
const tarball = join(project, filename)
const paths = files.map(({ path }) => path)
mkdirSync(installed, { recursive: true })
await run('tar', ['-xzf', tarball, '-C', installed, '--strip-components', '1'])
for (const dependency of Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies })) link(dependency)
cpSync(join(root, 'test/fixtures/consumer'), project, { recursive: true })

t.test('the tarball holds what users need and nothing else', async (t) => {
  const allowed = [
    /^package\.json$/, /^(?:README|CHANGELOG|SECURITY)\.md$/, /^docs\/(?:recipes\/)?[a-z-]+\.md$/, /^docs\/pictures\/[\w-]+\.png$/, /^LICENSE$/,
    /^dist\/(?:lib|types)\/[\w/-]+\.(?:js|d\.ts)$/, /^bin\/fastify-token-auth\.js$/
  ]
  t.strictSame(paths.filter((path) => !allowed.some((pattern) => pattern.test(path))), [])
  const pages = ['docs', 'docs/recipes'].flatMap((folder) => readdirSync(join(root, folder)).filter((file) => file.endsWith('.md')).map((file) => `${folder}/${file}`))
  t.ok(pages.length >= 7)
  const entries = Object.values<string | Record<string, string>>(manifest.exports).flatMap((entry) => typeof entry === 'string' ? entry : Object.values(entry))
  const needed = ['README.md', 'LICENSE', 'CHANGELOG.md', 'SECURITY.md', 'bin/fastify-token-auth.js', ...pages, ...entries.map((entry) => posix.normalize(entry))]
  for (const path of needed) t.ok(paths.includes(path), path)
})

t.test('every link of its documents leads to a file and an anchor that the package has, or to the web', async (t) => {
  const documents = paths.filter((path) => path.endsWith('.md'))
  t.ok(documents.length >= 9)
  t.strictSame(brokenLinks(installed, documents), [])
})

t.test('every file of the sources is there, compiled, and nothing that has no source any more', async (t) => {
  const compiled = (folder: string) => readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.tst.ts'))
    .map((file) => posix.join('dist', folder, file.replaceAll('\\', '/').replace(/ts$/, 'js')))
  t.strictSame(paths.filter((path) => /^dist\/.*\.js$/.test(path)).sort(), [...compiled('lib'), ...compiled('types')].sort())
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
  await app.register(tokenAuth, { secret: '${'x'.repeat(32)}', authMode: false })
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
const strict = ['--strict', '--exactOptionalPropertyTypes', '--noImplicitOverride', '--noUncheckedIndexedAccess', '--noEmit', '--pretty', 'false', '--types', 'node', '--target', 'es2023']
const resolutions = {
  // The declarations of all packages are checked, those of the compiler are not.
  nodenext: ['--module', 'nodenext', '--skipDefaultLibCheck', 'consumer.ts', 'wrong.ts', 'common.cts'],
  // Declarations do not depend on the resolution, and to check them takes long: once a compiler is enough. Without the types of browsers.
  bundler: ['--module', 'esnext', '--moduleResolution', 'bundler', '--skipLibCheck', '--lib', 'es2023', 'consumer.ts', 'wrong.ts']
}
for (const [folder, version] of [['typescript-5.9', '5.9'], ['typescript', '6.0'], ['typescript-7', '7.0']] as const) {
  for (const [resolution, options] of Object.entries(resolutions)) {
    t.test(`TypeScript ${version} with ${resolution} resolution takes the package, users and claims declared once and no cast, and refuses mistakes`, async (t) => {
      const compiler = join(root, 'node_modules', folder)
      t.ok(JSON.parse(readFileSync(join(compiler, 'package.json'), 'utf8')).version.startsWith(`${version}.`))
      const { stdout } = await runNode([join(compiler, 'bin/tsc'), ...strict, ...options]).catch((error) => error)
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
    const { stdout } = await runNode([join(root, 'node_modules', folder, 'bin/tsc'), '--pretty', 'false', '--project', 'browser']).catch((error) => error)
    t.equal(stdout, '')
  })
}

t.test('publint finds nothing to say', async (t) => {
  const { messages, pkg } = await publint({ pkgDir: installed, pack: false, strict: true })
  t.strictSame(messages.map((message) => formatMessage(message, pkg, { color: false })), [])
})

t.test('the types are not wrong, says @arethetypeswrong/cli', async (t) => {
  const cli = join(root, 'node_modules/@arethetypeswrong/cli/dist/index.js')
  const { stdout } = await run(process.execPath, [cli, tarball, '--profile', 'esm-only', '--no-definitely-typed', '--format', 'json'])
  const { analysis }: { analysis: { packageName: string, entrypoints: object, problems: object[] } } = JSON.parse(stdout)
  t.equal(analysis.packageName, name)
  t.strictSame(Object.keys(analysis.entrypoints), Object.keys(manifest.exports), 'every entry is checked')
  // Old resolution modes, and CommonJS that cannot require ES modules, are not supported: engines says so.
  const kinds = analysis.problems.map((problem) => Reflect.get(problem, 'kind'))
  t.strictSame(kinds.filter((kind) => kind !== 'CJSResolvesToESM' && kind !== 'NoResolution'), [])
})

t.test('engines are those in which require() of ES modules works', async (t) => {
  t.equal(manifest.engines.node, '>=20.19.0 <21 || >=22.12.0')
  t.equal(manifest.type, 'module')
  writeFileSync(join(project, 'self.mjs'), `import json from '${name}/package.json' with { type: 'json' }\nconsole.log(json.name)\n`)
  const { stdout } = await runNode(['--no-warnings', 'self.mjs'])
  t.equal(stdout.trim(), name)
})
