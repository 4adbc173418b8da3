/** What the tests of a store of sessions are written with. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { MaybePromise } from '../../types/handlers.ts'
import type { Advance, NewSession, SessionRules, SessionStore, StoredSession } from '../../types/sessions.ts'

export const hour = 3_600_000

/** The first window in milliseconds, and the last one that a slow machine is given. */
const firstWindow = 100
const lastWindow = 25_600

/** The machine was too slow for what a test wanted to see. */
class TooSlow extends Error {
  override readonly message = 'The machine is too slow: what has to happen within a window of 25.6 seconds took longer.'
}

/** Says whether something was done in time. It throws where that is not certain. */
export type Deadline = () => void

/** A time limit that begins now. Check it between an answer of the store and the assertion about it. */
export function deadline (milliseconds: number): Deadline {
  const start = performance.now()
  return () => { if (performance.now() - start >= milliseconds) throw new TooSlow() }
}

/** Two of these are longer than a window, and one is shorter. */
export const partOf = (window: number) => window * 0.6

/** Longer than a window, whatever the store and the timers of this process round. */
export const beyond = (window: number) => window * 1.2

/** Repeats a test with longer windows where the machine was too slow for the last one. */
export async function withWindow (run: (window: number) => Promise<void>): Promise<void> {
  for (let window = firstWindow; ; window *= 2) {
    try {
      return await run(window)
    } catch (error) {
      if (!(error instanceof TooSlow) || window >= lastWindow) throw error
    }
  }
}

/** Calls a function while the clock of this process, and no other, is wrong. */
export async function withWrongClock<T> (offset: number, call: () => Promise<T>): Promise<T> {
  const right = Date
  const wrong = new Proxy(right, {
    construct: (target, parts, newTarget) => Reflect.construct(target, parts.length === 0 ? [right.now() + offset] : parts, newTarget),
    get: (target, key) => key === 'now' ? () => right.now() + offset : Reflect.get(target, key)
  })
  Reflect.set(globalThis, 'Date', wrong)
  try {
    return await call()
  } finally {
    Reflect.set(globalThis, 'Date', right)
  }
}

/** Rules under which nothing expires while a test runs. */
export const patient: SessionRules = { graceMs: hour, idleMs: hour, keepMs: hour, maxPerUser: 100 }

/** A session in the store. */
export class Subject {
  readonly #store: SessionStore
  readonly sid: string
  readonly user: string
  readonly rules: SessionRules

  constructor (store: SessionStore, { sid, user }: NewSession, rules: SessionRules) {
    this.#store = store
    this.sid = sid
    this.user = user
    this.rules = rules
  }

  advance (n: number): Promise<Advance> {
    return this.#store.advance(this.user, this.sid, n, this.rules)
  }

  /** Presents a counter and expects an outcome, and the counter afterwards. */
  async expect (n: number, outcome: Advance['outcome'], current: number, inTime?: Deadline): Promise<void> {
    const answer = await this.advance(n)
    inTime?.()
    assert.equal(answer.outcome, outcome, `the outcome of ${n}, which must be "${outcome}", is "${answer.outcome}"`)
    assert.equal(answer.n, current, `the counter after "${outcome}"`)
  }

  end (): Promise<string[]> {
    return this.#store.end(this.user, { sid: this.sid }, this.rules)
  }

  async find (): Promise<StoredSession | undefined> {
    const sessions = await this.#store.list(this.user, this.rules)
    return sessions.find(({ sid }) => sid === this.sid)
  }

  async isFed (cursor: string | null = null): Promise<boolean> {
    const { ended } = await this.#store.endedSince(cursor, this.rules)
    return ended.includes(this.sid)
  }

  /** Expects that nobody can use the session, and that everybody who asks is told. */
  async expectEnded (): Promise<void> {
    assert.equal(await this.find(), undefined, 'an ended session is not listed')
    for (const n of [0, 1, 2]) await this.expect(n, 'unknown', 0)
    assert.deepEqual(await this.end(), [], 'an ended session does not end again')
    assert.ok(await this.isFed(), 'an ended session is fed')
  }

  /** Expects that nobody knows the session any more. */
  async expectExpired (): Promise<void> {
    assert.equal(await this.find(), undefined, 'an expired session is not listed')
    assert.deepEqual(await this.end(), [], 'an expired session does not end')
    await this.expect(0, 'unknown', 0)
    await this.expect(1, 'unknown', 0)
  }

  /** Expects that the session is never missing from the list before it is fed, until `ending` settles and after it. */
  async watch (ending: Promise<unknown>): Promise<void> {
    let isOver = false
    const over = ending.finally(() => { isOver = true })
    // It may reject while the session is looked up.
    over.catch(() => {})
    for (let isLast = false; ; isLast = isOver) {
      if (await this.find() === undefined) assert.ok(await this.isFed(), 'a session that is gone is fed')
      if (isLast) break
      await setImmediate()
    }
    await over
    assert.ok(await this.isFed(), 'a session that ended is fed')
  }
}

/** What the tests may know of the store. */
export interface SessionStoreTestOptions {
  /** How many calls are made at once. Default: 100. */
  concurrency?: number
  /**
   * Whose clock the store reads. `server`: that of a database, which must not be mixed with the clocks of the processes that
   * call it; one test then sets the clock of this process wrong for a moment. Default: `process`, which cannot be tested.
   */
  clock?: 'process' | 'server'
  /**
   * Makes the database of a store unreachable, and gives a function that makes it reachable again. Where it is given, one
   * test sees to it that the store rejects meanwhile, and that it does not execute later what it has rejected.
   */
  interrupt?: (store: SessionStore) => MaybePromise<() => MaybePromise<unknown>>
}

/** A test of a rule. */
export type Rule = (bench: Bench, options: SessionStoreTestOptions) => Promise<void>

/** A store under test, with users that no other test has. */
export class Bench {
  readonly store: SessionStore
  readonly concurrency: number

  constructor (store: SessionStore, concurrency: number) {
    this.store = store
    this.concurrency = concurrency
  }

  newSession (of: Partial<NewSession> = {}): NewSession {
    return { sid: randomBytes(16).toString('base64url'), user: this.newUser(), lifetimeMs: 24 * hour, data: '{}', ...of }
  }

  newUser (): string {
    return JSON.stringify(`user ${randomBytes(9).toString('base64url')}`)
  }

  /** Creates a session. No other ends for it unless the test says so. */
  async start (rules: Partial<SessionRules> = {}, of: Partial<NewSession> = {}, expected: readonly string[] = []): Promise<Subject> {
    const session = this.newSession(of)
    const subject = new Subject(this.store, session, { ...patient, ...rules })
    const ended = await this.store.create(session, subject.rules)
    assert.deepEqual(ended.toSorted(), expected.toSorted(), 'the sessions that ended for a new one')
    return subject
  }

  /** Creates several sessions, one after another. */
  async startAll (count: number, rules: Partial<SessionRules> = {}, of: Partial<NewSession> = {}): Promise<Subject[]> {
    const subjects: Subject[] = []
    for (let index = 0; index < count; index++) subjects.push(await this.start(rules, of))
    return subjects
  }

  /** The ids of the active sessions of a user, sorted. */
  async sidsOf (user: string): Promise<string[]> {
    const sessions = await this.store.list(user, patient)
    return sessions.map(({ sid }) => sid).toSorted()
  }

  /** Calls a function as many times at once as the option `concurrency` says. */
  async atOnce<T> (call: (index: number) => Promise<T>): Promise<T[]> {
    return await Promise.all(Array.from({ length: this.concurrency }, (_, index) => call(index)))
  }
}

/** Expects how often each outcome occurs. Those that are not named must not occur. */
export function expectCounts (answers: readonly Advance[], expected: Partial<Record<Advance['outcome'], number>>): void {
  const counts = { rotated: 0, recovered: 0, repeated: 0, reused: 0, unknown: 0 }
  for (const { outcome } of answers) counts[outcome]++
  assert.deepEqual(counts, { rotated: 0, recovered: 0, repeated: 0, reused: 0, unknown: 0, ...expected })
}
