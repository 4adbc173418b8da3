/**
 * The sessions that have ended, in the memory of each process, so that their access tokens are refused without a request
 * to the store. The store is read regularly: pushed messages would be lost while a connection is down.
 */
import { setImmediate } from 'node:timers/promises'
import type { SessionFeed } from '../../types/sessions.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { SessionEnded } from '../errors.ts'
import { publishSession } from '../events.ts'
import { isDoneWithin } from '../promises.ts'
import { WatchedControllers } from '../watched-controllers.ts'
import { Confirmations } from './confirmations.ts'
import { EndedIds } from './ended-ids.ts'
import { Outbox, type Teller } from './outbox.ts'
import { Rotations } from './rotations.ts'
import { callStore } from './store-call.ts'
import { closeStore, type Closable } from './stores/closable.ts'

/** A registration that reads a feed. */
interface Reader extends Teller {
  /** Seconds. */
  readonly poll: number
}

/** Every so many reads, everything is read again: what became visible late is known then. */
const fullEvery = 60
/** After so many ids of a read, other work gets its turn: a hundred thousand of them at once would block the event loop for longer than a request may take. */
const idsAtOnce = 5000
/** In milliseconds: how long the start of an application waits for the first read at most, and how often it tries. */
export const startTime = 5000
export const retryTime = 250
/** In milliseconds: how long an application that closes waits for the store. */
export const closeTime = 1000

export const createReason = (): SessionEnded => new SessionEnded()

/** Whole seconds that no change of the clock moves. */
const secondsPassed = () => Math.floor(performance.now() / 1000)

/** Names a session of a user. */
export const pairOf = (sid: string, user: string): string => `${sid} ${user}`

/** The ended sessions of one store. Registrations with the same store object share it. */
export class EndedSessions {
  readonly confirmations: Confirmations
  readonly rotations = new Rotations()
  /** The sessions that a token has ended while the store could not end them. Each item ends one. */
  readonly endings = new Outbox<() => Promise<unknown>>({
    tell: async (items) => { await Promise.all(items.map((end) => end())) },
    atOnce: 1,
    failed: 'the session store ends no sessions. This process refuses those that have ended by a logout, by another login or because of their user, and ends them as soon as the store can.',
    recovered: 'the session store ends sessions again.'
  })

  readonly #store: Closable<SessionFeed>
  readonly #readers = new Set<Reader>()
  #ended = new EndedIds()
  /** The ids that will be known after a read of everything, while it takes place. */
  #next: EndedIds | undefined
  /** Sessions that one of their tokens has ended: when, by session and user. Whether the session was that user's, the store did not say. */
  readonly #endedOf = new Map<string, Map<string, number>>()
  /** How long an id stays after it was reported, in seconds: as long as the registration needs that needs it longest. */
  #keep = 0
  /** The controllers that are aborted when a session ends, by session, and by session and user. */
  readonly #watching = new WatchedControllers<string>()
  #cursor: string | null = null
  /** The number of reads until everything is read again. */
  #untilFull = 0
  #timer: NodeJS.Timeout | undefined
  #reading: Promise<void> | undefined
  #started: Promise<void> | undefined
  /** Whether the first reads are tried. Their failures are not told: a client that was created just before the registration still connects. */
  #isStarting = false
  /** Milliseconds of `performance.now()`, which no change of the clock moves; undefined before the first good read. */
  #lastGood: number | undefined
  /** Whether an application that closes has waited for the store in vain, so that nothing waits for it again. */
  #hangs = false
  /** What made the last failed read fail. */
  #lastError: unknown
  /** The readers that know that the last read failed. */
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

  /** Whether the last good read is more than some seconds ago. */
  isOlderThan (seconds: number): boolean {
    return this.#lastGood === undefined || performance.now() - this.#lastGood > seconds * 1000
  }

  /**
   * Whether {@link addOf} was called for a session and its user.
   * @param readUser called only for sessions for which it was called
   */
  hasOf (sid: string, readUser: () => string): boolean {
    // Hardly ever is there one.
    return this.#endedOf.size > 0 && this.#endedOf.get(sid)?.has(readUser()) === true
  }

  /** Tries to end the sessions that the store could not end before. @returns whether all have ended */
  async retryEndings (): Promise<boolean> {
    return await this.endings.flush([...this.#readers])
  }

  /** Adds sessions that this process ended, before it answers. */
  add (sids: readonly string[]): void {
    const at = secondsPassed()
    for (const sid of sids) {
      this.#ended.add(sid, at)
      this.#next?.add(sid, at)
      this.#watching.abort(sid, createReason)
    }
  }

  /**
   * Adds a session that a token of a user has ended, whatever the store said: it may have ended it in a call whose answer was
   * lost, and the feed may have it later. A token of another user, which may name the same session, is not concerned.
   * @param user as the store is given it
   */
  addOf (sid: string, user: string): void {
    const users = this.#endedOf.get(sid) ?? new Map<string, number>()
    this.#endedOf.set(sid, users.set(user, secondsPassed()))
    this.#watching.abort(pairOf(sid, user), createReason)
  }

  /** Aborts a controller when a session of a user ends, or at once where it has. Keeps only weak references to it. */
  watch (sid: string, user: string, controller: AbortController): void {
    if (this.#ended.has(sid) || this.hasOf(sid, () => user)) return controller.abort(createReason())
    this.#watching.add(sid, controller)
    this.#watching.add(pairOf(sid, user), controller)
  }

  /**
   * Begins to read for a registration: resolves after the first read, or after 5 seconds without one.
   * @param pluginTimeout that of the application, in milliseconds, after which Fastify gives up on its start; 0: never
   * @throws {InvalidConfiguration} where the store does not fit its database
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
    // The result of an earlier read, before an application with this store closed, is outdated.
    this.#lastGood = this.#lastError = undefined
    this.#isStarting = true
    await isDoneWithin(patience, () => this.#readFirst(patience))
    this.#isStarting = false
    // Nobody would see that it reads nothing, or not all.
    if (this.#configurationError !== undefined) throw this.#configurationError
    // A read that hangs tells of its failure itself.
    if (this.#lastGood === undefined && this.#lastError !== undefined) this.#changeTo(true, this.#lastError)
  }

  /** What a store of this package says of the database for which it was configured. */
  get #configurationError (): InvalidConfiguration | undefined {
    const { cause } = Object(this.#lastError)
    return cause instanceof InvalidConfiguration ? cause : undefined
  }

  async #readFirst (patience: number): Promise<void> {
    const end = performance.now() + patience
    for (;;) {
      await this.read()
      if (this.#lastGood !== undefined || this.#configurationError !== undefined || performance.now() >= end || this.#readers.size === 0) return
      await new Promise((resolve) => { setTimeout(resolve, retryTime) })
    }
  }

  /**
   * Tells the store what it was not told yet, and from now on everything at once: the application of a registration begins to
   * close, and may close the client of the database before {@link stop}.
   */
  async prepareStop (reader: Reader): Promise<void> {
    const told = Promise.all([this.confirmations.outbox.close(reader), this.endings.close(reader)])
    if (!this.#hangs) this.#hangs = !await isDoneWithin(closeTime, () => told)
  }

  /** Ends reading for a registration; the last one stops the timer. */
  async stop (reader: Reader): Promise<void> {
    this.#readers.delete(reader)
    const told = Promise.all([this.confirmations.outbox.closed(reader), this.endings.closed(reader)])
    if (this.#readers.size > 0) return
    clearTimeout(this.#timer)
    this.#started = undefined
    if (!this.#hangs) await isDoneWithin(closeTime, () => Promise.all([this.#reading, told]))
    this.#hangs = false
    // Its own: a proxy of the application may answer to every name.
    if (Object.hasOwn(this.#store, closeStore)) this.#store[closeStore]?.()
  }

  #schedule (): void {
    clearTimeout(this.#timer)
    if (this.#readers.size === 0) return
    const seconds = Math.min(...[...this.#readers].map(({ poll }) => poll))
    this.#timer = setTimeout(() => { this.read().then(() => this.#schedule()) }, seconds * 1000)
    // A process with nothing else to do must end.
    this.#timer.unref()
  }

  /** Reads what has ended since the last read. One read at a time. Never rejects. */
  async read (): Promise<void> {
    this.#reading ??= this.#readOnce().finally(() => { this.#reading = undefined })
    await this.#reading
  }

  async #readOnce (): Promise<void> {
    const [reader] = this.#readers
    if (reader === undefined) return
    // Not waited for: they may hang.
    this.confirmations.outbox.write([...this.#readers])
    this.endings.write([...this.#readers])
    const isFull = this.#cursor === null || this.#untilFull === 0
    // The age of the result is counted from the start of the read.
    const begun = performance.now()
    try {
      const { ended, cursor, staleFor = 0, reason = 'A part of the ended sessions could not be read: the store answered with "staleFor".' } = await callStore('endedSince', () => this.#store.endedSince(isFull ? null : this.#cursor, reader.rules))
      await this.#learn(ended, isFull)
      this.#cursor = cursor
      this.#untilFull = isFull ? fullEvery - 1 : this.#untilFull - 1
      // What was known before a part could not be read is still known.
      const good = Math.max(this.#lastGood ?? -Infinity, begun - staleFor)
      if (good > -Infinity) this.#lastGood = good
      this.#tell(staleFor > 0 && reason !== null ? new Error(reason) : undefined)
    } catch (error) {
      // Where reading everything takes too long, what is new is still read, in turn with it.
      if (this.#untilFull === 0) this.#untilFull = 1
      this.#tell(error)
    } finally {
      this.#next = undefined
    }
  }

  #tell (error: unknown): void {
    if (error !== undefined) this.#lastError = error
    if (error === undefined || !this.#isStarting) this.#changeTo(error !== undefined, error)
  }

  /**
   * Adds ids that the feed has reported. With a read of everything, those leave whose access tokens have expired by the
   * monotonic clock of this process. A store that has lost them, in a failover or with a backup, makes nothing leave early.
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
    // Only now: until here, `watch` could still be called for them.
    for (const sid of added) this.#watching.abort(sid, createReason)
  }

  /** Tells each reader once that the ended sessions cannot be read, and once that they can be read again. */
  #changeTo (isStale: boolean, error?: unknown): void {
    for (const reader of this.#readers) {
      if (this.#stale.has(reader) === isStale) continue
      const { instanceName, log } = reader
      if (isStale) {
        this.#stale.add(reader)
        log.warn({ err: error }, `${instanceName}: the ended sessions cannot be read. Access tokens of sessions that end in other processes are accepted until they expire, or refused with 503 after "sessions.refuseAfter".`)
      } else {
        this.#stale.delete(reader)
        log.info(`${instanceName}: the ended sessions can be read again.`)
      }
      publishSession({ instanceName, type: isStale ? 'stale' : 'fresh' })
    }
  }
}

/** The feeds of stores, with the number of registrations whose applications are open. */
const feeds = new WeakMap<object, { readonly ended: EndedSessions, readonly fingerprints: Set<string>, holders: number }>()

/**
 * Returns the ended sessions of a store.
 * @param fingerprints those of the keys that verify access tokens
 * @throws {InvalidConfiguration} where registrations with different keys share a store: user 1 of two user bases would be one
 */
export function endedSessionsOf (store: SessionFeed, fingerprints: readonly string[]): EndedSessions {
  const existing = feeds.get(store)
  if (existing === undefined) {
    const fresh = new EndedSessions(store)
    feeds.set(store, { ended: fresh, fingerprints: new Set(fingerprints), holders: 1 })
    return fresh
  }
  if (fingerprints.some((fingerprint) => existing.fingerprints.has(fingerprint))) {
    for (const fingerprint of fingerprints) existing.fingerprints.add(fingerprint)
    existing.holders++
    return existing.ended
  }
  throw new InvalidConfiguration('"sessions.store" is the store of an instance with another key, whose users are not the users of this one. Give each of them a store of its own, with another prefix or table.', { page: 'sessions-reference.md#settings' })
}

/** Forgets the ended sessions of a store when the last application closes that has a registration with it. */
export function releaseEndedSessions (store: SessionFeed): void {
  const feed = feeds.get(store)
  if (feed !== undefined && --feed.holders === 0) feeds.delete(store)
}
