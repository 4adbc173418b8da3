/**
 * `npm run chaos`: processes, clients and faults on Redis, a Redis Cluster and PostgreSQL, one after the other, and a check of
 * what the clients saw. Exits with 1 if a promise was broken, and prints the part of the history that shows it. Options:
 *
 * - `--store redis,redis-cluster,postgres`: the databases; default: all
 * - `--seconds 140`: how long the clients act on each of them. Thefts that have begun go on afterwards, for about two windows
 * - `--seed 1`: what clients and faults choose; default: at random. The times of a run are never the same.
 * - `--faults stop,kill`: which faults; `none` for none; default: all
 * - `--processes 3`: processes of the service
 * - `--grace 10`: the window in seconds, as the option `grace`; at least 3. With less than 9, a database never hangs for longer
 *   than a quarter of it
 * - `--clients 4`: a factor of the number of clients
 * - `--history <folder>`: keeps the histories
 * - `--package <folder>`: another built copy of the package, such as one with a mistake that the check must find
 * - `--check <file>`: checks a history that was kept, and runs nothing
 */
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL, fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { check } from './checker.js'
import { act, Holder, waitOf } from './clients.js'
import { breakThings, faultNames } from './faults.js'
import { History } from './history.js'
import { randomOf } from './random.js'
import { reportOf } from './report.js'
import { clients as storeClients } from './stores.js'
import { World } from './worlds.js'

const { values: options } = parseArgs({
  options: {
    store: { type: 'string', default: Object.keys(storeClients).join() },
    seconds: { type: 'string', default: '140' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 1e6)) },
    faults: { type: 'string', default: faultNames.join() },
    processes: { type: 'string', default: '3' },
    grace: { type: 'string', default: '10' },
    clients: { type: 'string', default: '4' },
    history: { type: 'string' },
    package: { type: 'string', default: fileURLToPath(new URL('..', import.meta.url)) },
    check: { type: 'string' }
  }
})

/** Reads a list of names. */
function namesOf (option, known) {
  const names = options[option] === 'none' ? [] : options[option].split(',')
  const unknown = names.find((name) => !known.includes(name))
  if (unknown === undefined) return names
  console.error(`--${option} takes ${known.join(', ')}; given: ${unknown}.`)
  process.exit(2)
}

const kinds = namesOf('store', Object.keys(storeClients))
const faults = namesOf('faults', faultNames)

/** Milliseconds after everything was healed in which a process must work again. */
const recoveryTime = 20_000

/** Whether each process works, and each honest client goes on. */
async function endCalmly (world, holders) {
  const begin = performance.now()
  const calm = world.afterwards
  await Promise.all(world.processes.map(async (process) => {
    await world.history.record({ type: 'recovery', process: process.name }, async () => {
      const holder = new Holder(calm, { client: `recovery of ${process.name}`, user: `recovery of ${process.name}` })
      for (;;) {
        if (await holder.logIn(process) && (await holder.present(undefined, process)).status === 200) return { isGood: true }
        if (performance.now() - begin > recoveryTime) return { isGood: false }
        await calm.pause(200)
      }
    })
  }))
  await Promise.all(holders.map(async (holder) => {
    holder.world = calm
    await holder.pauseSinceArrival(waitOf('tabs', world.settings.grace))
    for (let tries = 0; tries < 10; tries++) if ([200, 401].includes((await holder.present()).status)) return
  }))
}

async function run (kind, library) {
  const number = (name) => Number(options[name])
  const grace = number('grace') * 1000
  const settings = {
    kind,
    seed: options.seed,
    grace,
    poll: 1000,
    // For a busy machine.
    slack: 300,
    // A call of the store may hang for five seconds.
    recovery: 7000,
    probe: 250,
    // How long the tokens of an ended session are tried. A cluster with a dead node may learn of its end later.
    watch: kind === 'redis-cluster' ? 13_000 : 3000,
    // How long a client waits for an answer, and how late a request may be: see faults.js.
    patience: Math.min(1500, grace / 4),
    late: Math.min(1500, grace / 4),
    calm: grace / 2
  }
  const random = (name) => randomOf(options.seed, `${kind} ${name}`)
  const history = new History(settings, options.history === undefined ? undefined : join(options.history, `${kind}.jsonl`))
  const world = new World(kind, history, settings, random)
  // Also where this program is interrupted, nothing is left.
  const interrupt = () => { world.close().finally(() => process.exit(1)) }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, interrupt)
  try {
    await world.start(library, number('processes'))
    const factor = number('clients')
    // One at least, however few clients there are.
    const hammered = Math.max(1, Math.round(factor / 2))
    const acting = act(world, { single: 5 * factor, tabs: 3 * factor, elsewhere: 2 * factor, thefted: 3 * factor, hammered })
    const breaking = breakThings(world, faults)
    const timer = setTimeout(() => world.end(), number('seconds') * 1000)
    const [{ holders, rest }] = await Promise.all([acting, breaking]).finally(() => {
      clearTimeout(timer)
      world.end()
    })
    await Promise.all([endCalmly(world, holders), rest])
  } finally {
    await world.close()
    history.close()
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.removeListener(signal, interrupt)
  }
  return history.entries
}

if (options.check !== undefined) {
  const entries = readFileSync(options.check, 'utf8').trim().split('\n').map((line) => JSON.parse(line))
  process.exitCode = reportOf(entries, check(entries), console)
} else {
  const library = pathToFileURL(join(resolve(options.package), 'dist/lib/index.js')).href
  console.log(`Seed: ${options.seed}`)
  for (const kind of kinds) {
    const entries = await run(kind, library)
    const code = reportOf(entries, check(entries), console)
    if (code !== 0) process.exitCode = code
  }
}
