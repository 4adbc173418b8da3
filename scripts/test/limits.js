/**
 * `npm run test:limits [file ...]`: the tests that measure, one after the other and with nothing else. Each doubles its input
 * and compares, and is repeated up to twice if it fails: a machine may be busy for a moment.
 */
import { run, runAll, testFiles } from './run.js'

const names = process.argv.slice(2)
let left = names.length > 0 ? names : testFiles('limits')
for (let tries = 1; tries < 3 && left.length > 0; tries++) {
  const results = await run(left, { jobs: 1, filesInProcess: 1 })
  left = results.filter(({ failures }) => failures.length > 0).map(({ file }) => file)
}
if (left.length > 0) await runAll(left, { jobs: 1, filesInProcess: 1 })
