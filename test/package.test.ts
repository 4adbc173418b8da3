import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import t from 'tap'
import ts from 'typescript'
import * as source from '../lib/index.ts'

/** The package as a user gets it: packed, unpacked into a project that has nothing but what the package asks for. */

const run = promisify(execFile)
const root = fileURLToPath(new URL('..', import.meta.url))
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const name: string = manifest.name
const project = t.testdir({ node_modules: {}, 'package.json': '{ "private": true, "type": "module" }' })
const installed = join(project, 'node_modules', name)

/** Puts a package of ours into the project. */
function link (dependency: string) {
  const path = join(project, 'node_modules', dependency)
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(join(root, 'node_modules', dependency), path, 'junction')
}

// `npm test` builds first; a test never does.
if (!existsSync(join(root, 'dist/lib/index.js'))) throw new Error('There is no dist/: run "npm run build" first.')
const packed = await run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', project], { cwd: root })
const [{ filename, files }]: [{ filename: string, files: { path: string }[] }] = JSON.parse(packed.stdout)
const tarball = join(project, filename)
const paths = files.map(({ path }) => path)
await run('tar', ['-xzf', tarball, '-C', project])
cpSync(join(project, 'package'), installed, { recursive: true })
rmSync(join(project, 'package'), { recursive: true })
for (const dependency of Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies })) link(dependency)
cpSync(join(root, 'test/fixtures/consumer'), project, { recursive: true })

t.test('the tarball holds what users need and nothing else', async (t) => {
  const allowed = [
    /^package\.json$/, /^(?:README|CHANGELOG|SECURITY)\.md$/, /^LICENSE$/,
    /^dist\/(?:lib|types)\/[\w/-]+\.(?:js|d\.ts)(?:\.map)?$/,
    // What the source maps and declaration maps lead to.
    /^lib\/[\w/-]+\.ts$/, /^types\/[\w-]+\.ts$/
  ]
  t.strictSame(paths.filter((path) => !allowed.some((pattern) => pattern.test(path))), [])
  for (const needed of ['README.md', 'LICENSE', 'CHANGELOG.md', 'SECURITY.md', 'dist/lib/index.js', 'dist/lib/index.d.ts']) {
    t.ok(paths.includes(needed), needed)
  }
})

t.test('every file of the sources is there, compiled, and nothing that has no source any more', async (t) => {
  const compiled = (folder: string) => readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.tst.ts'))
    .map((file) => posix.join('dist', folder, file.replaceAll('\\', '/').replace(/ts$/, 'js')))
  t.strictSame(paths.filter((path) => /^dist\/.*\.js$/.test(path)).sort(), [...compiled('lib'), ...compiled('types')].sort())
})

t.test('source maps lead to files that are there', async (t) => {
  const maps = paths.filter((path) => path.endsWith('.map'))
  t.ok(maps.length > 0)
  for (const map of maps) {
    const { sources, sourceRoot = '' }: { sources: string[], sourceRoot?: string } = JSON.parse(readFileSync(join(installed, map), 'utf8'))
    for (const path of sources) {
      const target = posix.join(posix.dirname(map), sourceRoot, path)
      t.ok(paths.includes(target), `${map} leads to ${target}`)
    }
  }
})

t.test('import and require, whole and destructured, give one plugin and one set of classes', async (t) => {
  const { stdout, stderr } = await run(process.execPath, ['load.mjs'], { cwd: project })
  t.strictSame(JSON.parse(stdout), {
    isOnePlugin: true,
    isFunction: 'function',
    differing: [],
    names: Object.keys(source).sort(),
    refused: [401, '{"reasons":"No.","exception":"AuthenticationFailed"}'],
    closed: 401
  })
  t.notMatch(stderr, /warning/i)
})

t.test('a CommonJS application needs nothing but require', async (t) => {
  const { stdout, stderr } = await run(process.execPath, ['load.cjs'], { cwd: project })
  t.strictSame(JSON.parse(stdout), {
    functions: Array(9).fill('function'),
    issued: 200,
    forbidden: { reasons: 'Invalid scope.', exception: 'InsufficientScope' }
  })
  t.notMatch(stderr, /TokenAuthWarning/)
})

const strict: ts.CompilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noImplicitOverride: true,
  noUncheckedIndexedAccess: true,
  verbatimModuleSyntax: true,
  noEmit: true,
  types: ['node'],
  target: ts.ScriptTarget.ES2023
}
const resolutions: Record<string, ts.CompilerOptions> = {
  nodenext: { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext },
  bundler: { module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler }
}

/** The errors of a file of the project, and of our declarations. */
function compile (file: string, options: ts.CompilerOptions): string[] {
  const program = ts.createProgram([join(project, file)], { ...strict, ...options })
  const ours = program.getSourceFiles().filter(({ fileName }) => fileName.startsWith(project.replaceAll('\\', '/')))
  return [...program.getOptionsDiagnostics(), ...ours.flatMap((sourceFile) => ts.getPreEmitDiagnostics(program, sourceFile))].map((diagnostic) => {
    const line = diagnostic.file?.getLineAndCharacterOfPosition(diagnostic.start ?? 0).line ?? -1
    return `${line + 1}: ${ts.flattenDiagnosticMessageText(diagnostic.messageText, ' ')}`
  })
}

link('@types/node')
for (const [resolution, options] of Object.entries(resolutions)) {
  t.test(`TypeScript takes the package with ${resolution} resolution: users and claims are declared once, no cast`, async (t) => {
    t.strictSame(compile('consumer.ts', options), [])
  })

  t.test(`TypeScript refuses mistakes with ${resolution} resolution`, async (t) => {
    const lines = readFileSync(join(project, 'wrong.ts'), 'utf8').split('\n')
    const wrong = lines.flatMap((line, index) => line.endsWith('// wrong') ? [index + 1] : [])
    t.ok(wrong.length > 0)
    t.strictSame(compile('wrong.ts', options).map((error) => Number.parseInt(error)), wrong)
  })
}

t.test('TypeScript takes the package from a CommonJS module', async (t) => {
  t.strictSame(compile('common.cts', { ...resolutions.nodenext, verbatimModuleSyntax: false }), [])
})

t.test('publint finds nothing to say', async (t) => {
  const { messages, pkg } = await publint({ pkgDir: installed, pack: false, strict: true })
  t.strictSame(messages.map((message) => formatMessage(message, pkg, { color: false })), [])
})

t.test('the types are not wrong, says @arethetypeswrong/cli', async (t) => {
  const cli = join(root, 'node_modules/@arethetypeswrong/cli/dist/index.js')
  const { stdout } = await run(process.execPath, [cli, tarball, '--profile', 'esm-only', '--no-definitely-typed', '--format', 'json'])
  const { analysis }: { analysis: { packageName: string, problems: object[] } } = JSON.parse(stdout)
  t.equal(analysis.packageName, name)
  // Old resolution modes, and CommonJS that cannot require ES modules, are not supported: engines says so.
  const kinds = analysis.problems.map((problem) => Reflect.get(problem, 'kind'))
  t.strictSame(kinds.filter((kind) => kind !== 'CJSResolvesToESM' && kind !== 'NoResolution'), [])
})

t.test('engines are those in which require() of ES modules works', async (t) => {
  t.equal(manifest.engines.node, '>=20.19.0 <21 || >=22.12.0')
  t.equal(manifest.type, 'module')
  writeFileSync(join(project, 'self.mjs'), `import json from '${name}/package.json' with { type: 'json' }\nconsole.log(json.name)\n`)
  const { stdout } = await run(process.execPath, ['--no-warnings', 'self.mjs'], { cwd: project })
  t.equal(stdout.trim(), name)
})
