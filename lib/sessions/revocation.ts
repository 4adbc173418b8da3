/**
 * The ended sessions, in the memory of each process, so that their access tokens are refused without a call of the store.
 * The store is polled, because pushed messages would be lost while a connection is down.
 */
import { setImmediate } from 'node:timers/promises'
import type { SessionFeed, StoreStatus } from '../../types/sessions.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { SessionEnded } from '../errors.ts'
import { publishSession } from '../events.ts'
import { isDoneWithin } from '../promises.ts'
import { memberOf } from '../values.ts'
import { WatchedControllers } from '../watched-controllers.ts'
import { Confirmations } from './confirmations.ts'
import { EndedIds } from './ended-ids.ts'
import { Outbox, type Sender } from './outbox.ts'
import { Rotations } from './rotations.ts'
import { callStore } from './store-call.ts'
import { closeStore, type Closable } from './stores/closable.ts'

/** A registration that reads the ended sessions of a store. */
interface Reader extends Sender {
  /** Seconds. */
  readonly poll: number
  /** Seconds without a successful read after which guards refuse tokens of sessions; null for never. */
  readonly refuseAfter: number | null
}

/** One of this number of reads is a full read, which finds sessions that became visible late in the store. */
const fullEvery = 60
/** The number of ids to process before other work gets a turn: 100,000 at once would block the event loop for too long. */
const idsAtOnce = 5000
/** The longest wait for the first read when an application starts, and the pause between its attempts, in milliseconds. */
export const startTime = 5000
export const retryTime = 250
/** The longest wait for the store when an application closes, in milliseconds. */
export const closeTime = 1000

export const createReason = (): SessionEnded => new SessionEnded()

/** The monotonic time, in whole seconds. */
const secondsPassed = () => Math.floor(performance.now() / 1000)

const startingNow = (): StoreStatus => ({ state: 'starting', since: new Date(Date.now()), error: null })

/** The message of the store, not that of the error that wraps it. */
const messageOf = (error: unknown) => String(memberOf(memberOf(error, 'cause') ?? error, 'message'))

/** Returns a key for a session of a user. */
export const pairOf = (sid: string, user: string): string => `${sid} ${user}`

/** The ended sessions of one store. Registrations with the same store object share it. */
export class EndedSessions {
  readonly confirmations: Confirmations
  readonly rotations = new Rotations()
  /** Sessions that were ended by one of their tokens while the store was unavailable. Each item ends one in the store. */
  readonly endings = new Outbox<() => Promise<unknown>>({
    send: async (items) => {
      await Promise.all(items.map((end) => end()))
    },
    atOnce: 1,
    failed:
      'the session store ends no sessions. This process refuses the access tokens of sessions that a logout, another login or a missing user has ended, and ends them in the store later.',
    recovered: 'the session store ends sessions again.'
  })

  readonly #store: Closable<SessionFeed>
  readonly #readers = new Set<Reader>()
  #ended = new EndedIds()
  /** The ids that replace `#ended` after a full read; undefined when none takes place. */
  #next: EndedIds | undefined
  /** When sessions were ended by one of their tokens, by session and user. The store may not know whether the session is the user's. */
  readonly #endedOf = new Map<string, Map<string, number>>()
  /** How long an id is kept after it was reported, in seconds: the longest time that a registration needs. */
  #keep = 0
  /** The controllers that are aborted when a session ends, by session, and by session and user. */
  readonly #watching = new WatchedControllers<string>()
  #cursor: string | null = null
  /** The number of reads before the next full read. */
  #untilFull = 0
  #timer: NodeJS.Timeout | undefined
  #reading: Promise<void> | undefined
  #started: Promise<void> | undefined
  /** Whether the first reads take place. Their failures are not logged, because a client that was just created is still connecting. */
  #isStarting = false
  /** The time of the last successful read, in milliseconds of `performance.now()`; undefined before the first one. */
  #lastGood: number | undefined
  /** Whether the store did not answer while an application closed. Later steps of closing do not wait for it. */
  #hangs = false
  /** The error of the last failed read. */
  #lastError: unknown
  #status: StoreStatus = startingNow()
  /** The registrations that have logged that the last read failed. */
  readonly #stale = new WeakSet<Reader>()

  constructor (store: Closable<SessionFeed>) {
    this.#store = store
    this.confirmations = new Confirmations(store)
  }

  has (sid: string): boolean {
    return this.#ended.has(sid)
  }

  /** Whether a read has succeeded since the application started. */
  get wasRead (): boolean {
    return this.#lastGood !== undefined
  }

  status (): StoreStatus {
    return { ...this.#status, since: new Date(this.#status.since) }
  }

  /** Whether the last successful read is more than `seconds` ago, or there was none. */
  isOlderThan (seconds: number): boolean {
    return this.#lastGood === undefined || performance.now() - this.#lastGood > seconds * 1000
  }

  /**
   * Whether {@link addOf} was called for a session and its user.
   * @param readUser called only if {@link addOf} was called for the session
   */
  hasOf (sid: string, readUser: () => string): boolean {
    // Usually empty.
    return this.#endedOf.size > 0 && this.#endedOf.get(sid)?.has(readUser()) === true
  }

  /** Tries to end the sessions that the store could not end before. @returns whether all have ended */
  async retryEndings (): Promise<boolean> {
    return await this.endings.flush([...this.#readers])
  }

  /** Adds sessions that this process ended, before it sends the response. */
  add (sids: readonly string[]): void {
    const at = secondsPassed()
    for (const sid of sids) {
      this.#ended.add(sid, at)
      this.#next?.add(sid, at)
      this.#watching.abort(sid, createReason)
    }
  }

  /**
   * Adds a session that a token of the user has ended, even if the store did not end it: it may have done so in a call whose
   * response was lost, and may list the session later. Tokens of other users that contain the same session id are not refused.
   * @param user in the form that the store gets
   */
  addOf (sid: string, user: string): void {
    const users = this.#endedOf.get(sid) ?? new Map<string, number>()
    this.#endedOf.set(sid, users.set(user, secondsPassed()))
    this.#watching.abort(pairOf(sid, user), createReason)
  }

  /** Aborts a controller when a session of a user ends, or immediately if it has ended. Keeps only weak references to it. */
  watch (sid: string, user: string, controller: AbortController): void {
    if (this.#ended.has(sid) || this.hasOf(sid, () => user)) return controller.abort(createReason())
    this.#watching.add(sid, controller)
    this.#watching.add(pairOf(sid, user), controller)
  }

  /**
   * Starts to read for a registration. Resolves after the first successful read, or after at most 5 seconds.
   * @param pluginTimeout the time after which Fastify aborts the start of the application, in milliseconds; 0: never
   * @throws {InvalidConfiguration} if the store does not fit its database
   */
  async start (reader: Reader, pluginTimeout: number): Promise<void> {
    this.#readers.add(reader)
    this.#keep = Math.max(this.#keep, Math.ceil(reader.rules.keepMs / 1000))
    this.#started ??= this.#begin(pluginTimeout > 0 ? Math.min(startTime, pluginTimeout / 2) : startTime)
    await this.#started
    // Again, because this registration may have a shorter `poll`.
    this.#schedule()
  }

  async #begin (patience: number): Promise<void> {
    // The last read may be from before all applications with this store closed.
    this.#lastGood = this.#lastError = undefined
    this.#status = startingNow()
    this.#isStarting = true
    await isDoneWithin(patience, () => this.#readFirst(patience))
    this.#isStarting = false
    // Otherwise, the application would start with an incomplete list of ended sessions.
    if (this.#configurationError !== undefined) throw this.#configurationError
    // A read that still hangs reports its failure itself.
    if (this.#lastGood === undefined && this.#lastError !== undefined) this.#changeTo(true, this.#lastError)
  }

  /** The configuration error with which a store of this package has rejected the last failed read. */
  get #configurationError (): InvalidConfiguration | undefined {
    const { cause } = Object(this.#lastError)
    return cause instanceof InvalidConfiguration ? cause : undefined
  }

  async #readFirst (patience: number): Promise<void> {
    const end = performance.now() + patience
    for (;;) {
      await this.read()
      if (this.#lastGood !== undefined || this.#configurationError !== undefined || performance.now() >= end || this.#readers.size === 0) {
        return
      }
      await new Promise((resolve) => {
        setTimeout(resolve, retryTime)
      })
    }
  }

  /**
   * Sends waiting items to the store, and from now on new ones at once: the application of a registration begins to close,
   * and may close the database client before {@link stop}.
   */
  async prepareStop (reader: Reader): Promise<void> {
    const sent = Promise.all([this.confirmations.outbox.close(reader), this.endings.close(reader)])
    if (!this.#hangs) this.#hangs = !await isDoneWithin(closeTime, () => sent)
  }

  /** Stops reading for a registration. The last one stops the timer. */
  async stop (reader: Reader): Promise<void> {
    this.#readers.delete(reader)
    const sent = Promise.all([this.confirmations.outbox.closed(reader), this.endings.closed(reader)])
    if (this.#readers.size > 0) return
    clearTimeout(this.#timer)
    this.#started = undefined
    if (!this.#hangs) await isDoneWithin(closeTime, () => Promise.all([this.#reading, sent]))
    this.#hangs = false
    // An own property, because a proxy of the application may return a value for every name.
    if (Object.hasOwn(this.#store, closeStore)) this.#store[closeStore]?.()
  }

  #schedule (): void {
    clearTimeout(this.#timer)
    if (this.#readers.size === 0) return
    const seconds = Math.min(...[...this.#readers].map(({ poll }) => poll))
    this.#timer = setTimeout(() => { this.read().then(() => this.#schedule()) }, seconds * 1000)
    // The timer must not keep the process alive.
    this.#timer.unref()
  }

  /** Reads the sessions that have ended since the last read. One read at a time. Never rejects. */
  async read (): Promise<void> {
    this.#reading ??= this.#readOnce().finally(() => { this.#reading = undefined })
    await this.#reading
  }

  async #readOnce (): Promise<void> {
    const [reader] = this.#readers
    if (reader === undefined) return
    // Not awaited, because they may hang.
    this.confirmations.outbox.write([...this.#readers])
    this.endings.write([...this.#readers])
    const isFull = this.#cursor === null || this.#untilFull === 0
    // The age of the result is measured from the start of the read.
    const begun = performance.now()
    try {
      const {
        ended,
        cursor,
        staleFor = 0,
        reason = 'A part of the ended sessions could not be read: the store answered with "staleFor".'
      } = await callStore('endedSince', () => this.#store.endedSince(isFull ? null : this.#cursor, reader.rules))
      await this.#learn(ended, isFull)
      this.#cursor = cursor
      this.#untilFull = isFull ? fullEvery - 1 : this.#untilFull - 1
      // A partial read is as old as its oldest part, and must not replace a more recent good read.
      const good = Math.max(this.#lastGood ?? -Infinity, begun - staleFor)
      if (good > -Infinity) this.#lastGood = good
      this.#report(staleFor > 0 && reason !== null ? new Error(reason) : undefined)
    } catch (error) {
      // After a failed full read comes an incremental one: if full reads always take too long, new entries are still read.
      if (this.#untilFull === 0) this.#untilFull = 1
      this.#report(error)
    } finally {
      this.#next = undefined
    }
  }

  #report (error: unknown): void {
    if (error !== undefined) this.#lastError = error
    const state = error === undefined ? 'fresh' : this.#lastGood === undefined ? 'starting' : 'stale'
    const since = state === this.#status.state ? this.#status.since : new Date(Date.now())
    this.#status = { state, since, error: error === undefined ? null : messageOf(error) }
    if (error === undefined || !this.#isStarting) this.#changeTo(error !== undefined, error)
  }

  /**
   * Adds ids that the store has reported. A full read also removes ids whose access tokens have expired, by the monotonic
   * clock of this process. Ids that the store has lost, in a failover or with a restored backup, are not removed early.
   */
  async #learn (reported: readonly string[], isFull: boolean): Promise<void> {
    const now = secondsPassed()
    const known = this.#ended
    const next = isFull ? new EndedIds() : known
    if (isFull) this.#next = next
    let count = 0
    const added: string[] = []
    for (const sid of reported) {
      if (++count % idsAtOnce === 0) await setImmediate()
      if (!known.has(sid)) added.push(sid)
      next.add(sid, now)
    }
    if (isFull) {
      const oldest = now - this.#keep
      for (const [sid, at] of known.entries()) {
        if (++count % idsAtOnce === 0) await setImmediate()
        if (at >= oldest) next.add(sid, at)
      }
      for (const [sid, users] of this.#endedOf) {
        for (const [user, at] of users) if (at < oldest) users.delete(user)
        if (users.size === 0) this.#endedOf.delete(sid)
      }
    }
    this.#ended = next
    // Only now, because `watch` may have been called for them in the meantime.
    for (const sid of added) this.#watching.abort(sid, createReason)
  }

  /** Logs once for each registration that the ended sessions cannot be read, and once that they can be read again. */
  #changeTo (isStale: boolean, error?: unknown): void {
    for (const reader of this.#readers) {
      if (this.#stale.has(reader) === isStale) continue
      const { instanceName, log, refuseAfter } = reader
      if (isStale) {
        this.#stale.add(reader)
        const until = refuseAfter === null
          ? 'until they expire, because "sessions.refuseAfter" is not set'
          : `for ${refuseAfter} seconds ("sessions.refuseAfter"); after that, all access tokens of sessions are refused with 503`
        log.warn({ err: error }, `${instanceName}: the ended sessions cannot be read. Access tokens of sessions that end in other processes are accepted ${until}.`)
      } else {
        this.#stale.delete(reader)
        log.info(`${instanceName}: the ended sessions can be read again.`)
      }
      publishSession({ instanceName, type: isStale ? 'stale' : 'fresh' })
    }
  }
}
