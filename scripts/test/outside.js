/**
 * `npm run test:outside [file ...]`, after the build and the installation of test/outside/package.json: the tests of what is
 * around the sources, such as the packed package, documents, examples, compilers, bundlers, browsers, databases that fail.
 */
import { spawnSync } from 'node:child_process'
import { runAll, testFiles } from './run.js'

const names = process.argv.slice(2)
// Many of them wait for other processes.
await runAll(names.length > 0 ? names : testFiles('outside'), { jobs: 3, filesInProcess: 6 })
if (names.length === 0) {
  const { status } = spawnSync(process.execPath, ['node_modules/typescript-7/bin/tsc', '-p', 'test/outside'], { stdio: 'inherit' })
  if (status !== 0) process.exitCode = 1
}
