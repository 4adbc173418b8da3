/**
 * Runs the benchmarks. Usage: `node benchmarks/run.js [--quick] [--lts] [--rotation] [--pages] [--only <title>] [--seed <number>] [--replicates <number>]`.
 * A full run writes results.json, README.md and chart.svg. A quick run, and a run of a single comparison (`--only "bad
 * signature"`), only print their results. If two measurements of the same bare route differ, the run is void and writes
 * nothing. With `--lts`, a run measures the guarded routes and the start alone, and publishes them beside the results of the full
 * run: `npm run bench:lts` does so with the newest long-term release of Node.js. With `--rotation`, which is `npm run
 * bench:rotation`, it measures what it costs to confirm that refresh tokens were received, and publishes this beside them, too.
 * With `--pages`, which is `npm run bench:pages`, it does the same for guards that renew.
 */
import { parseArgs } from 'node:util'
import { areCoresSeparate, inFreshProcess } from './helper/cores.js'
import { randomFrom } from './helper/statistics.js'
import { machine, updateResults, versions } from './results.js'
import { guardedRoute } from './suites/guarded-route.js'
import { instances } from './suites/instances.js'
import { issuing, issuingDelay } from './suites/issuing.js'
import { keys } from './suites/keys.js'
import { pages } from './suites/pages.js'
import { rotation } from './suites/rotation.js'
import { forgedTokenCalls, readEndedSessions, sessions } from './suites/sessions.js'
import { starts } from './suites/start.js'

const { values } = parseArgs({ options: { quick: { type: 'boolean', default: false }, lts: { type: 'boolean', default: false }, rotation: { type: 'boolean', default: false }, pages: { type: 'boolean', default: false }, only: { type: 'string' }, seed: { type: 'string' }, replicates: { type: 'string', default: '2' } } })
const isQuick = values.quick
const seed = Number(values.seed ?? Date.now() % 2 ** 31)
const settings = {
  isQuick,
  // Database servers take longer than a quick run may.
  withDatabases: !isQuick || values.only !== undefined,
  seed,
  random: randomFrom(seed),
  ...(isQuick
    ? { replicates: 1, windows: 7, requests: 400, milliseconds: 4, boots: 2, starts: 3, delaySeconds: 0.5 }
    : { replicates: Number(values.replicates), windows: 15, requests: 400, milliseconds: 20, boots: 5, starts: 15, delaySeconds: 1 })
}

console.log(`Seed of all orders: ${seed}. ${areCoresSeparate ? 'Client and server run on different cores.' : 'Client and server SHARE cores: taskset is missing, or there is only one core.'}`)

const inProcess = (name) => inFreshProcess(new URL(`suites/${name}.js`, import.meta.url), settings)

function print (parts) {
  for (const { title, rows } of parts) {
    console.log(`\n${title}`)
    for (const { name, median, min, max } of rows) console.log(`  ${name.padEnd(42)} ${median.toFixed(2)} us (${min.toFixed(2)} to ${max.toFixed(2)})`)
  }
}

function printStarts (rows) {
  console.log('\nFrom the start of the process until the application is ready')
  for (const { name, cpu, wall, heap } of rows) console.log(`  ${name.padEnd(42)} ${cpu.median.toFixed(0)} ms of CPU time, ${wall.median.toFixed(0)} ms, ${heap.median.toFixed(1)} MB of heap`)
}

function endIfVoid (comparisons) {
  const voided = comparisons.filter(({ isVoid }) => isVoid)
  if (voided.length === 0) return false
  console.error(`\nThis run is VOID: two measurements of the same server differ in ${voided.map(({ title }) => title).join('; ')}. The machine may be busy.`)
  process.exitCode = 1
  return true
}

const today = () => new Date().toISOString().slice(0, 10)

if (values.only !== undefined) {
  const isWanted = (title) => title === values.only
  if (isWanted('start')) {
    printStarts(await starts(settings))
    process.exit()
  }
  if (isWanted('guarding')) {
    print(await inProcess('guarding'))
    process.exit()
  }
  if (isWanted('ended sessions')) await readEndedSessions() && process.exit()
  const found = [...await guardedRoute(settings, isWanted), ...await issuing(settings, isWanted), ...await instances(settings, isWanted), ...await sessions(settings, isWanted), ...await keys(settings, isWanted)]
  if (found.length === 0) console.error(`No comparison has the title ${JSON.stringify(values.only)}.`)
  process.exit()
}

if (values.lts) {
  const comparisons = await guardedRoute(settings)
  const started = await starts(settings)
  printStarts(started)
  if (!endIfVoid(comparisons) && !isQuick) updateResults({ lts: { date: today(), machine: machine(), comparisons, starts: started } })
  process.exit()
}

for (const [name, measure] of Object.entries({ rotation, pages })) {
  if (!values[name]) continue
  const goals = await measure(settings)
  for (const { what, limit, found, isVoid } of goals) console.log(`${what}: ${found.toFixed(3)}, at most ${limit}: ${isVoid ? 'VOID' : found <= limit ? 'met' : 'NOT MET'}`)
  if (!endIfVoid(goals.map(({ what, isVoid }) => ({ title: what, isVoid }))) && !isQuick) updateResults({ [name]: { date: today(), goals: goals.map(({ what, limit, found }) => ({ what, limit, found })) } })
  process.exit()
}

const start = Date.now()

const comparisons = [...await guardedRoute(settings), ...await issuing(settings), ...await instances(settings), ...await sessions(settings), ...await keys(settings)]
const forgedRefreshes = await forgedTokenCalls()
const feed = isQuick ? undefined : await readEndedSessions()
const delay = isQuick ? [] : await issuingDelay(settings)
const parts = [...await inProcess('parts'), ...await inProcess('guarding')]
const footprint = await inProcess('footprint')
const started = await starts(settings)
const minutes = (Date.now() - start) / 60_000

print(parts)
printStarts(started)
console.log('\nRS256 issuing, p99 of the event-loop delay beyond idle in ms', JSON.stringify(delay))
console.log(JSON.stringify(footprint, null, 1))
console.log(`\n${forgedRefreshes.forged} forged refresh tokens caused ${forgedRefreshes.calls} calls of the store.`)
console.log(`\n${minutes.toFixed(1)} minutes`)

if (!endIfVoid(comparisons) && !isQuick) {
  const { random, ...settled } = settings
  updateResults({ run: { date: today(), machine: machine(), versions: versions(), areCoresSeparate, settings: settled, minutes, comparisons, delay, parts, footprint, starts: started, forgedRefreshes, feed } })
}
