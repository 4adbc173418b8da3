/** Jest, which runs modules in a context of its own, and loads ES modules only with a flag of Node.js: in a CommonJS project, and as NestJS sets it up. */
import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { folderOf, install, root, run } from './installed.ts'

const nest = 'test/outside/nest'

/** A CommonJS project. @param folder where its packages are, as `install` takes it */
async function commonjs (t: Test, folder?: string) {
  const { project } = await install(t, ['fastify', 'jose'], folder)
  cpSync(join(root, 'test/outside/fixtures/jest'), project, { recursive: true })
  return project
}

interface Results { numPassedTests: number, testResults: Array<{ message: string, assertionResults: Array<{ title: string, status: string, failureMessages: string[] }> }> }

/** Runs a file with Jest, and returns the results that it writes. */
async function jest (cwd: string, file: string, nodeOptions?: string) {
  const parameters = [join(folderOf('jest', nest), 'bin/jest.js'), file, '--json', '--runInBand', '--no-cache']
  const { stdout } = await run(process.execPath, parameters, { cwd, env: { ...process.env, NODE_OPTIONS: nodeOptions } }).catch((error) => error)
  const { testResults }: Results = JSON.parse(stdout)
  return testResults.flatMap(({ message, assertionResults }) => assertionResults.length === 0
    ? [{ title: message, status: 'failed', why: message }]
    : assertionResults.map(({ title, status, failureMessages }) => ({ title, status, why: failureMessages.join('\n') })))
}

/** Why each test failed; an empty text for those that passed. */
const reasonsOf = (results: Awaited<ReturnType<typeof jest>>) => results.map(({ title, status, why }) => status === 'passed' ? '' : `${title}: ${why}`)

t.test('a CommonJS project needs no configuration', async (t) => {
  // `app.inject` of later versions of Fastify loads an ES module, which Jest refuses before Node.js 24.9.
  const results = await jest(await commonjs(t, nest), 'application.test.js')
  t.strictSame(reasonsOf(results), Array(5).fill(''))
  t.strictSame(reasonsOf(await jest(await commonjs(t), 'socket.test.js')), [''])
})

t.test('cookie mode and issuers need the flag that the documents name, and their errors name it', async (t) => {
  const project = await commonjs(t, nest)
  const [refused = '', ...others] = reasonsOf(await jest(project, 'imports.test.js'))
  t.strictSame(others, [])
  t.match(refused, /InvalidConfiguration: Cookie mode needs import\(\).*NODE_OPTIONS=--experimental-vm-modules.*testing\.md#jest/)
  t.strictSame(reasonsOf(await jest(project, 'imports.test.js', '--experimental-vm-modules')), [''])
})

t.test('a project of NestJS, in TypeScript, as its command line sets it up', async (t) => {
  const { dependencies, devDependencies } = JSON.parse(readFileSync(join(root, nest, 'package.json'), 'utf8'))
  const { project } = await install(t, ['fastify', ...Object.keys({ ...dependencies, ...devDependencies })], nest)
  for (const file of ['package.json', 'tsconfig.json', 'src']) cpSync(join(root, nest, file), join(project, file), { recursive: true })
  t.strictSame(reasonsOf(await jest(project, 'app.spec.ts')), [''])
})
