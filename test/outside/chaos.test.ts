// @alone
/**
 * The chaos program: with faults in front of real databases for some seconds, and with stores that have a fault, which it must
 * find. Unlike other tests, this one acts in real time.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import * as library from '../../lib/index.ts'
import { memorySessions, type SessionStore } from '../../lib/index.ts'
import { skip } from '../database.ts'
import { warnings } from '../helper.ts'

interface Settings { [name: string]: unknown }
interface History { entries: object[], close (): void }
interface World { processes: Array<{ name: string, port: number }>, history: History, settings: Settings, random (name: string): object, isOver: boolean, pause (milliseconds: number): Promise<void>, afterwards: World }
interface Violation { rule: string, message: string }
interface Program {
  act (world: World, counts: Record<string, number>): Promise<{ rest: Promise<unknown> }>
  check (entries: object[]): { violations: Violation[], causes: Record<string, number> }
  createService (imported: typeof library, options: object): Promise<FastifyInstance>
  History: new (settings: Settings) => History
  randomOf (seed: number, name: string): object
  RunClock: new () => { isOver: boolean, end (): void, pause (milliseconds: number): Promise<void> }
}

const parts = ['checker', 'clients', 'clock', 'history', 'random', 'service'].map(async (name) => await import(new URL(`../../chaos/${name}.js`, import.meta.url).href))
const program: Program = Object.assign({}, ...await Promise.all(parts))

type Verdict = ReturnType<Program['check']>
type Counts = Record<'single' | 'tabs' | 'elsewhere' | 'thefted' | 'hammered', number>

/**
 * Two processes with one database in memory, each with a store of its own.
 * @param isEnough asked every second, for at most two minutes: much more than an idle machine needs
 */
async function run (t: Test, { open, counts, isEnough }: { open (database: SessionStore): SessionStore, counts: Counts, isEnough (verdict: Verdict): boolean }): Promise<Verdict> {
  const database = memorySessions()
  const secret = randomBytes(48).toString('base64')
  const processes = await Promise.all(['p0', 'p1'].map(async (name) => {
    const app = await program.createService(library, { store: open(database), secret, name: `${name}.1`, grace: 1, poll: 1 })
    t.teardown(async () => await app.close())
    return { name, port: Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port) }
  }))
  const settings = { grace: 1000, poll: 1000, slack: 300, recovery: 7000, probe: 250, watch: 3000, patience: 1000 }
  const history = new program.History(settings)
  const clock = new program.RunClock()
  const world: World = {
    processes,
    history,
    settings,
    random: (name: string) => program.randomOf(1, name),
    get isOver () { return clock.isOver },
    pause: async (pause: number) => await clock.pause(pause),
    // Nothing is broken from which it must recover, so nothing goes on.
    get afterwards () { return world }
  }
  const acting = program.act(world, counts)
  for (let second = 0; second < 120 && !isEnough(program.check(history.entries)); second++) await wait(1000)
  clock.end()
  const { rest } = await acting
  await rest
  history.close()
  return program.check(history.entries)
}

const nobody = { single: 0, tabs: 0, elsewhere: 0, thefted: 0, hammered: 0 }

/** How many calls of all processes have the row of a session locked. */
const locks = new Map<string, number>()

/** Stores with one fault each, the promises of which it breaks at least one, and the clients that see it. */
const faults: Record<string, { open: (database: SessionStore) => SessionStore, breaks: string[], counts: Counts }> = {
  'tells nobody what has ended': {
    open: (database) => ({ ...database, endedSince: async () => ({ ended: [], cursor: '' }) }),
    breaks: ['ended', 'stays ended'],
    counts: { ...nobody, elsewhere: 2 }
  },
  'ends sessions later': {
    open: (database) => ({
      ...database,
      async end (...parameters) {
        setTimeout(() => { database.end(...parameters).catch(() => {}) }, 2000).unref()
        return []
      }
    }),
    breaks: ['ended'],
    counts: { ...nobody, elsewhere: 2 }
  },
  'repeats rotations': {
    open: (database) => ({
      ...database,
      async advance (...parameters) {
        const { outcome, n } = await database.advance(...parameters)
        return outcome === 'repeated' ? { outcome: 'rotated', n: n + Math.ceil(Math.random() * 1000) } : { outcome, n }
      }
    }),
    breaks: ['one rotation'],
    counts: { ...nobody, tabs: 3 }
  },
  'takes each token for the current one': {
    open (database) {
      const current = new Map<string, number>()
      return {
        ...database,
        async advance (user, sid, n, rules) {
          const result = await database.advance(user, sid, Math.max(n, current.get(sid) ?? 0), rules)
          current.set(sid, Math.max(result.n, current.get(sid) ?? 0))
          return result
        }
      }
    },
    breaks: ['retired', 'thief', 'one parent'],
    counts: { ...nobody, thefted: 4 }
  },
  'does not confirm what is locked': {
    open: (database) => ({
      ...database,
      async advance (user, sid, ...parameters) {
        locks.set(sid, (locks.get(sid) ?? 0) + 1)
        try {
          // Such as a commit that is written to a disk.
          await wait(10)
          return await database.advance(user, sid, ...parameters)
        } finally {
          locks.set(sid, locks.get(sid)! - 1)
        }
      },
      confirm: async (received, rules) => await database.confirm(received.filter(({ sid }) => !locks.get(sid)), rules)
    }),
    breaks: ['thief'],
    counts: { ...nobody, hammered: 1 }
  },
  'has no window': {
    open: (database) => ({ ...database, advance: async (user, sid, n, rules) => await database.advance(user, sid, n, { ...rules, graceMs: 0 }) }),
    breaks: ['logged out'],
    counts: { ...nobody, tabs: 3 }
  }
}

// At once, because they mostly wait.
t.jobs = 2
t.test('a correct store breaks no promise, and each fault of a store is found', { buffered: true }, async (t) => {
  // Each process of a run has a store object of its own.
  warnings(t, 'W22')
  const correct = run(t, { open: (database) => ({ ...database }), counts: { single: 2, tabs: 2, elsewhere: 2, thefted: 4, hammered: 2 }, isEnough: ({ violations, causes: { theft = 0, hammering = 0, logout = 0 } }) => violations.length > 0 || (theft > 4 && hammering > 1 && logout > 4) })
    .then(({ violations, causes }) => {
      t.same(violations, [])
      t.ok(causes.theft, 'thieves were found')
      t.ok(causes.hammering, 'also those who hammered')
      t.ok(causes.logout, 'users logged out')
    })
  const broken = Object.entries(faults).map(async ([name, { open, counts, breaks }]) => {
    const isFound = ({ violations }: Verdict) => violations.some(({ rule }) => breaks.includes(rule))
    t.ok(isFound(await run(t, { open, counts, isEnough: isFound })), `a store that ${name}`)
  })
  await Promise.all([correct, ...broken])
})

const chaos = fileURLToPath(new URL('../../chaos/run.js', import.meta.url))

/** Runs the program for some seconds. @returns what it printed */
async function breakThings (store: string): Promise<string> {
  const options = ['--store', store, '--seconds', '15', '--seed', '1', '--grace', '3', '--processes', '2', '--clients', '1']
  const { stdout } = await promisify(execFile)(process.execPath, [chaos, ...options]).catch(({ stdout, stderr }: { stdout: string, stderr: string }) => ({ stdout: stdout + stderr }))
  return stdout
}

const skipped = skip.redis || skip.postgres
t.test('no fault of Redis, PostgreSQL, processes or networks breaks a promise', { skip: skipped, buffered: true }, async (t) => {
  for (const printed of await Promise.all(['redis', 'postgres'].map(breakThings))) {
    t.match(printed, 'No promise was broken.')
    t.match(printed, /hammering [1-9]/, 'a thief who hammers was found')
  }
})
