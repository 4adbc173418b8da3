/**
 * `npm run test:nodes [version ...]`, after the build: runs the tests of the public API against the packed package, on the
 * newest release of each line of Node.js that the README names. npm brings the programs, into node_modules/.cache/nodes.
 * `npm test` runs the tests against the sources, on one version.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { installNode, testedLines } from '../nodes.js'
import { isSlow, runAll, testFiles } from './run.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
process.chdir(root)
const lines = process.argv.length > 2 ? process.argv.slice(2) : testedLines

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
  return testFiles().filter((file) => !isSlow(file)).filter((file) => {
    const imports = [...importsOf(file)]
    const ours = imports.filter((path) => /^(?:lib|types)\//.test(path))
    return ours.length > 0 && ours.every(isEntry) && !imports.includes('test/database.ts')
  })
}

/** Packs the package and unpacks it in a folder. Returns the arguments with which a test gets it instead of the sources. */
function installPackage (folder) {
  const { name, dependencies, peerDependencies } = JSON.parse(readFileSync('package.json', 'utf8'))
  const [{ filename }] = JSON.parse(execFileSync('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', folder], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], shell: process.platform === 'win32' }))
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

const files = publicTests()
if (files.length === 0) throw new Error('No test knows the public API alone.')
const folder = mkdtempSync(join(realpathSync(tmpdir()), 'test-nodes-'))
try {
  const args = installPackage(folder)
  for (const node of await Promise.all(lines.map(installNode))) {
    const version = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()
    console.log(`Node.js ${version}`)
    await runAll(files, { node, args })
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
