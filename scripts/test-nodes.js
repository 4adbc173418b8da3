/**
 * `npm run test:nodes [version ...]`: runs the tests of the public API against the packed package, on the newest release of
 * each line of Node.js that the README names. npm brings the programs, into node_modules/.cache/nodes. `npm test` runs the
 * tests against the sources, on one version. Requires a build.
 */
import { execFile, execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { installNode, testedLines } from './nodes.js'
import { slow } from './marked-tests.js'

const root = fileURLToPath(new URL('..', import.meta.url))
process.chdir(root)
const lines = process.argv.length > 2 ? process.argv.slice(2) : testedLines
/** At the same time, on two cores. */
const jobs = 2
/** In milliseconds, for a file. */
const longest = 240_000

const entries = ['index', 'client', 'testing']
const isEntry = (path) => entries.some((entry) => path === `lib/${entry}.ts`)

/** Returns the files that a file imports, and those that they import, from the root. Files of lib/ are not followed. */
function importsOf (file, found = new Set()) {
  for (const [, kind, specifier] of readFileSync(file, 'utf8').matchAll(/^(import|export) (?!type ).*?from '(\.[^']+)'$/gm)) {
    const path = kind && posix.join(dirname(file), specifier)
    if (found.has(path)) continue
    found.add(path)
    if (path.startsWith('test/')) importsOf(path, found)
  }
  return found
}

/** The tests that know only what the package exports, without those that take long or start databases. */
function publicTests () {
  const files = readdirSync('test', { recursive: true }).map((name) => `test/${name.replaceAll('\\', '/')}`).filter((name) => name.endsWith('.test.ts') && !slow.includes(name))
  return files.filter((file) => {
    const imports = [...importsOf(file)]
    const ours = imports.filter((path) => /^(?:lib|types)\//.test(path))
    return ours.length > 0 && ours.every(isEntry) && !imports.includes('test/database.ts')
  })
}

/** Packs the package and unpacks it in a folder. Returns the arguments with which a test gets it instead of the sources. */
function installPackage (folder) {
  const { name, dependencies, peerDependencies } = JSON.parse(readFileSync('package.json', 'utf8'))
  const [{ filename }] = JSON.parse(execFileSync('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', folder], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, name), { recursive: true })
  execFileSync('tar', ['-xzf', join(folder, filename), '-C', join(modules, name), '--strip-components', '1'])
  for (const dependency of Object.keys({ ...dependencies, ...peerDependencies })) {
    mkdirSync(dirname(join(modules, dependency)), { recursive: true })
    symlinkSync(join(root, 'node_modules', dependency), join(modules, dependency), 'junction')
  }
  const addresses = Object.fromEntries(entries.map((entry) => [entry, pathToFileURL(join(modules, name, `dist/lib/${entry}.js`)).href]))
  writeFileSync(join(folder, 'redirect.mjs'), `import { registerHooks } from 'node:module'
const addresses = ${JSON.stringify(addresses)}
registerHooks({
  resolve (specifier, context, next) {
    const resolved = next(specifier, context)
    if (!resolved.url.startsWith('${pathToFileURL(join(root, 'lib/')).href}')) return resolved
    const [, entry] = /\\/lib\\/(\\w+)\\.ts$/.exec(resolved.url) ?? []
    if (addresses[entry] === undefined) throw new Error(\`\${specifier} is not public.\`)
    return next(addresses[entry], context)
  }
})
`)
  return ['--import', pathToFileURL(join(folder, 'redirect.mjs')).href, '--disable-warning=ExperimentalWarning']
}

/** Runs a file, and returns how many of its checks passed and failed, and what it printed. */
function runFile (node, args, file) {
  return new Promise((resolve) => {
    execFile(node, [...args, file], { env: { ...process.env, TAP_TIMEOUT: String(longest / 1000) }, timeout: longest, maxBuffer: 2 ** 28 }, (error, stdout, stderr) => {
      // Checks, and not the subtests that group them.
      const count = (pattern) => stdout.split('\n').filter((line) => pattern.test(line) && !/# time=/.test(line)).length
      const passed = count(/^ *ok \d/)
      const failed = count(/^ *not ok \d/)
      resolve({ file, passed, failed: error === null && passed > 0 ? failed : Math.max(failed, 1), output: `${stdout}${stderr}` })
    })
  })
}

async function runAll (node, args, files) {
  const left = [...files]
  const results = []
  await Promise.all(Array.from({ length: jobs }, async () => {
    for (let file = left.shift(); file !== undefined; file = left.shift()) results.push(await runFile(node, args, file))
  }))
  return results
}

const files = publicTests()
if (files.length === 0) throw new Error('No test knows the public API alone.')
const folder = mkdtempSync(join(realpathSync(tmpdir()), 'test-nodes-'))
try {
  const args = installPackage(folder)
  for (const line of lines) {
    const node = installNode(line)
    const version = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()
    const start = performance.now()
    const results = await runAll(node, args, files)
    for (const { file, output } of results.filter(({ failed }) => failed > 0)) console.log(`${output}\nFailed on Node.js ${version}: ${file}`)
    const sum = (key) => results.reduce((total, result) => total + result[key], 0)
    console.log(`Node.js ${version}: ${files.length} files, ${sum('passed')} checks passed, ${sum('failed')} failed, in ${Math.round((performance.now() - start) / 1000)} s`)
    if (sum('failed') > 0) process.exitCode = 1
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
