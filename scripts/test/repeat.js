/**
 * `npm run test:repeat [times]`: runs `npm test` so often, every second time beside a process that keeps one core busy, and
 * prints each test that did not always pass. Property tests have other seeds each time. Ten times if no number is given.
 */
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { report } from './run.js'

const times = Number(process.argv[2] ?? 10)
const failed = new Map()

for (let time = 1; time <= times; time++) {
  const busy = time % 2 === 0 ? spawn(process.execPath, ['-e', 'for (;;) {}']) : undefined
  const start = performance.now()
  const seed = Date.now() % 2 ** 31
  rmSync(report, { force: true })
  // Not as in CI, where a file that fails is run again.
  const { status } = spawnSync('npm', ['test'], { encoding: 'utf8', maxBuffer: 2 ** 30, env: { ...process.env, CI: '', FC_SEED: String(seed) }, shell: process.platform === 'win32' })
  busy?.kill('SIGKILL')
  let found = {}
  try {
    found = JSON.parse(readFileSync(report, 'utf8'))
  } catch {
    // It failed before its tests did.
  }
  const tests = Object.entries(found).flatMap(([file, names]) => names.map((name) => `${file}: ${name}`))
  if (status !== 0 && tests.length === 0) tests.push('npm test: failed, but none of its tests did')
  for (const test of tests) failed.set(test, (failed.get(test) ?? 0) + 1)
  console.log(`${time} of ${times}${busy ? ', beside a busy process' : ''}, FC_SEED=${seed}: ${status === 0 ? 'passed' : 'failed'} in ${Math.round((performance.now() - start) / 1000)} s`)
}
for (const [test, count] of failed) console.log(`unsteady: ${test} (failed ${count} of ${times} times)`)
console.log(failed.size === 0 ? 'Every test passed each time.' : `${failed.size} tests did not always pass.`)
if (failed.size > 0) process.exitCode = 1
