/** Helpers of the tests of session stores. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { setImmediate, setTimeout as wait } from 'node:timers/promises'
import type { MaybePromise } from '../../types/handlers.ts'
import type { Advance, NewSession, SessionRules, SessionStore, StoredSession } from '../../types/sessions.ts'

export const hour = 3_600_000

/** In milliseconds: the first window of a test, and the longest one, for slow machines. */
const firstWindow = 100
const lastWindow = 25_600

/** A test took too long to be conclusive. */
class TooSlow extends Error {
  override readonly message = 'The machine or the store is too slow: calls that must happen within a window of 25.6 seconds took longer.'
}

/** Throws if the time limit is over. */
export type Deadline = () => void

/**
 * Starts a time limit. Check it between a result of the store and the assertion about it, so that a slow machine fails no test.
 * It ends before the window of the store, however times are rounded.
 */
export function deadline (window: number): Deadline {
  const start = performance.now()
  return () => { if (performance.now() - start >= window * 0.9) throw new TooSlow() }
}

/** A time that is shorter than a window, and longer than half of it. */
export const partOf = (window: number) => window * 0.6

/** A time that is longer than a window, however times are rounded. */
export const beyond = (window: number) => window * 1.2

/** Runs a test with a window, and again with longer windows if it took too long. */
export async function withWindow (run: (window: number) => Promise<void>, window = firstWindow): Promise<void> {
  try {
    await run(window)
  } catch (error) {
    if (!(error instanceof TooSlow) || window >= lastWindow) throw error
    await withWindow(run, window * 2)
  }
}

/** The same session for a caller whose windows are over. */
export async function afterWindow (session: Subject): Promise<Subject> {
  await wait(20)
  return session.with({ graceMs: 1 })
}

/** Calls a function while `Date` of this process differs from the real time, by an offset in milliseconds. */
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

/** Rules with which no window ends and no session expires during a test. */
export const patient: SessionRules = { graceMs: hour, idleMs: hour, keepMs: hour, maxPerUser: 100 }

/** A session in the store under test. */
export class Subject {
  readonly #store: SessionStore
  readonly sid: string
  readonly user: string
  readonly rules: SessionRules
  /** The calls for this session, which messages show. */
  readonly #calls: string[]

  constructor (store: SessionStore, { sid, user }: Pick<NewSession, 'sid' | 'user'>, rules: SessionRules, calls: string[] = []) {
    this.#store = store
    this.sid = sid
    this.user = user
    this.rules = rules
    this.#calls = calls
  }

  async advance (n: number): Promise<Advance> {
    const answer = await this.#store.advance(this.user, this.sid, n, this.rules)
    this.#calls.push(`advance of ${n} with graceMs ${this.rules.graceMs}: ${answer.outcome} ${answer.n}`)
    return answer
  }

  /** The same session for a caller with other rules. */
  with (rules: Partial<SessionRules>): Subject {
    return new Subject(this.#store, this, { ...this.rules, ...rules }, this.#calls)
  }

  /** Confirms that the successor of a generation was received. */
  async confirm (n: number): Promise<void> {
    await this.#store.confirm([{ sid: this.sid, user: this.user, n }], this.rules)
    this.#calls.push(`confirm of ${n}`)
  }

  /** The last calls, for the message of an assertion. */
  get #history (): string {
    return `Last calls for this session: ${this.#calls.slice(-6).join('; ')}`
  }

  /** Presents a counter, and expects this outcome. @returns the counter of the result */
  async expectOutcome (n: number, outcome: Advance['outcome'], inTime?: Deadline): Promise<number> {
    const answer = await this.advance(n)
    inTime?.()
    assert.equal(answer.outcome, outcome, `the outcome of ${n}, which must be "${outcome}", is "${answer.outcome}". ${this.#history}`)
    return answer.n
  }

  /** As {@link expectOutcome}, and expects this counter as the result. */
  async expect (n: number, outcome: Advance['outcome'], current: number, inTime?: Deadline): Promise<void> {
    assert.equal(await this.expectOutcome(n, outcome, inTime), current, `the counter after "${outcome}" of ${n}, one above the highest that was issued if it is new. ${this.#history}`)
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

  /** Expects that the session has ended, and that the feed contains it. */
  async expectEnded (): Promise<void> {
    assert.equal(await this.find(), undefined, 'an ended session is not listed')
    for (const n of [0, 1, 2]) await this.expect(n, 'unknown', 0)
    assert.deepEqual(await this.end(), [], 'an ended session does not end again')
    assert.ok(await this.isFed(), 'an ended session is in the feed')
  }

  /** Expects that the session has expired. */
  async expectExpired (): Promise<void> {
    assert.equal(await this.find(), undefined, 'an expired session is not listed')
    assert.deepEqual(await this.end(), [], 'an expired session does not end')
    await this.expect(0, 'unknown', 0)
    await this.expect(1, 'unknown', 0)
  }

  /** Expects that the feed contains the session whenever the list does not, until `ending` has settled. */
  async watch (ending: Promise<unknown>): Promise<void> {
    let isOver = false
    const over = ending.finally(() => { isOver = true })
    // Handled below. Until then, a rejection must not be reported as unhandled.
    over.catch(() => {})
    for (let isLast = false; ; isLast = isOver) {
      if (await this.find() === undefined) assert.ok(await this.isFed(), 'a session that is gone is in the feed')
      if (isLast) break
      await setImmediate()
    }
    await over
    assert.ok(await this.isFed(), 'a session that ended is in the feed')
  }
}

/** Options of {@link sessionStoreTests}. */
export interface SessionStoreTestOptions {
  /** The number of concurrent calls. Default: 100. */
  concurrency?: number
  /**
   * Whose clock the store uses. With `server`, the clock of a database server, a test sets `Date` of this process to a wrong
   * time and checks that the store does not use it. Default: `process`, for stores in memory; nothing is checked.
   */
  clock?: 'process' | 'server'
  /**
   * Makes the database of a store unreachable, and returns a function that makes it reachable again. With this option, a test
   * checks that the store rejects all calls in between and does not execute them later. Without it, there is no such test.
   */
  interrupt?: (store: SessionStore) => MaybePromise<() => MaybePromise<unknown>>
}

/** Tests a rule. */
export type Rule = (bench: Bench, options: SessionStoreTestOptions) => Promise<void>

/** The store under test. Users and sessions have random names, because tests can share a database. */
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

  /** Creates a session, and expects that these sessions end. */
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

  /** Calls a function `concurrency` times at once. */
  async atOnce<T> (call: (index: number) => Promise<T>): Promise<T[]> {
    return await Promise.all(Array.from({ length: this.concurrency }, (_, index) => call(index)))
  }
}

/** Asserts how often each outcome occurs. An outcome that is not listed must not occur. */
export function expectCounts (answers: readonly Advance[], expected: Partial<Record<Advance['outcome'], number>>): void {
  const counts = { rotated: 0, recovered: 0, repeated: 0, reissued: 0, reused: 0, unknown: 0 }
  for (const { outcome } of answers) counts[outcome]++
  assert.deepEqual(counts, { rotated: 0, recovered: 0, repeated: 0, reissued: 0, reused: 0, unknown: 0, ...expected })
}
