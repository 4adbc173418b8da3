/**
 * The sessions that have ended, in the memory of each process, so that their access tokens are refused without a request
 * to the store. The store is read regularly: pushed messages would be lost while a connection is down.
 */
import { setImmediate } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import type { SessionFeed, SessionRules } from '../../types/sessions.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { SessionEnded, SessionStoreUnavailable } from '../errors.ts'
import { publishSession } from '../events.ts'
import { WatchedControllers } from '../keys/watched-controllers.ts'
import { Refusal } from '../refusal.ts'
import type { SessionCheck } from '../request/checks.ts'
import { invalidClaim } from '../token/claims.ts'
import { EndedIds } from './ended-ids.ts'
import { isSessionId } from './refresh-token.ts'
import { callStore } from './store-call.ts'

/** A registration that reads a feed. */
interface Reader {
  readonly instanceName: string
  readonly log: FastifyBaseLogger
  readonly rules: SessionRules
  /** Seconds. */
  readonly poll: number
}

/** Every so many reads, everything is read again: what became visible late is known then, and what the store forgot is forgotten. */
const fullEvery = 60
/** After so many ids of a read, other work gets its turn: a hundred thousand of them at once would block the event loop for longer than a request may take. */
const idsAtOnce = 5000
/** In milliseconds: how long the start of an application waits for the first read at most, and how often it tries. */
const startTime = 5000
const retryTime = 250
/** In milliseconds: how long an application that closes waits for a read. */
const closeTime = 1000

const createReason = () => new SessionEnded()

/** The ended sessions of one store. Registrations with the same store object share it. */
export class EndedSessions {
  readonly #store: SessionFeed
  readonly #readers = new Set<Reader>()
  #ended = new EndedIds()
  /** What was added while everything is being read again; undefined otherwise. */
  #meanwhile: Set<string> | undefined
  /** The controllers that are aborted when a session ends, by session. */
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
  /** What made the last failed read fail. */
  #lastError: unknown
  /** The readers that know that the last read failed. */
  readonly #stale = new WeakSet<Reader>()

  constructor (store: SessionFeed) {
    this.#store = store
  }

  has (sid: string): boolean {
    return this.#ended.has(sid)
  }

  /** Whether the last good read is more than some seconds ago. */
  isOlderThan (seconds: number): boolean {
    return this.#lastGood === undefined || performance.now() - this.#lastGood > seconds * 1000
  }

  /** Adds sessions that this process ended, before it answers. */
  add (sids: readonly string[]): void {
    for (const sid of sids) {
      if (this.#ended.has(sid)) continue
      this.#ended.add(sid)
      this.#meanwhile?.add(sid)
      this.#watching.abort(sid, createReason)
    }
  }

  /** Aborts a controller when a session ends, or at once where it has. Keeps only a weak reference to it. */
  watch (sid: string, controller: AbortController): void {
    if (this.#ended.has(sid)) return controller.abort(createReason())
    this.#watching.add(sid, controller)
  }

  /**
   * Begins to read for a registration: resolves after the first read, or after 5 seconds without one.
   * @param pluginTimeout that of the application, in milliseconds, after which Fastify gives up on its start; 0: never
   */
  async start (reader: Reader, pluginTimeout: number): Promise<void> {
    this.#readers.add(reader)
    this.#started ??= this.#begin(pluginTimeout > 0 ? Math.min(startTime, pluginTimeout / 2) : startTime)
    await this.#started
    // Again, because this registration may have a shorter `poll`.
    this.#schedule()
  }

  async #begin (patience: number): Promise<void> {
    // The result of an earlier read, before an application with this store closed, is outdated.
    this.#lastGood = this.#lastError = undefined
    let timer: NodeJS.Timeout | undefined
    this.#isStarting = true
    const first = this.#readFirst(patience)
    // Also where a read hangs.
    await Promise.race([first, new Promise((resolve) => { timer = setTimeout(resolve, patience) })])
    clearTimeout(timer)
    this.#isStarting = false
    // A read that hangs tells of its failure itself.
    if (this.#lastGood === undefined && this.#lastError !== undefined) this.#changeTo(true, this.#lastError)
  }

  async #readFirst (patience: number): Promise<void> {
    const end = performance.now() + patience
    for (;;) {
      await this.read()
      if (this.#lastGood !== undefined || performance.now() >= end || this.#readers.size === 0) return
      await new Promise((resolve) => { setTimeout(resolve, retryTime) })
    }
  }

  /** Ends reading for a registration; the last one stops the timer. */
  async stop (reader: Reader): Promise<void> {
    this.#readers.delete(reader)
    if (this.#readers.size > 0) return
    clearTimeout(this.#timer)
    this.#started = undefined
    // A read under way, but not for long: a store that hangs must not keep the application from closing.
    let timer: NodeJS.Timeout | undefined
    await Promise.race([this.#reading, new Promise((resolve) => { timer = setTimeout(resolve, closeTime) })])
    clearTimeout(timer)
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
    const isFull = this.#cursor === null || this.#untilFull === 0
    const meanwhile = new Set<string>()
    if (isFull) this.#meanwhile = meanwhile
    // The age of the result is counted from the start of the read.
    const begun = performance.now()
    try {
      const { ended, cursor } = await callStore('endedSince', () => this.#store.endedSince(isFull ? null : this.#cursor, reader.rules))
      const next = isFull ? new EndedIds([], ended.length) : this.#ended
      const added: string[] = []
      for (const [index, sid] of ended.entries()) {
        if (index > 0 && index % idsAtOnce === 0) await setImmediate()
        if (!this.#ended.has(sid)) added.push(sid)
        next.add(sid)
      }
      // What this process ended meanwhile may not have been in the store when it was read.
      for (const sid of meanwhile) next.add(sid)
      this.#ended = next
      // Only now: until here, `watch` could still be called for them.
      for (const sid of added) this.#watching.abort(sid, createReason)
      this.#cursor = cursor
      this.#untilFull = isFull ? fullEvery - 1 : this.#untilFull - 1
      this.#lastGood = begun
      this.#changeTo(false)
    } catch (error) {
      // Where reading everything takes too long, what is new is still read, in turn with it.
      if (this.#untilFull === 0) this.#untilFull = 1
      this.#lastError = error
      if (!this.#isStarting) this.#changeTo(true, error)
    } finally {
      this.#meanwhile = undefined
    }
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
  throw new InvalidConfiguration('"sessions.store" is the store of an instance with another key, whose users are not the users of this one. Give each of them a store of its own, with another prefix or table.', { page: 'sessions.md#settings' })
}

/** Forgets the ended sessions of a store when the last application closes that has a registration with it. */
export function releaseEndedSessions (store: SessionFeed): void {
  const feed = feeds.get(store)
  if (feed !== undefined && --feed.holders === 0) feeds.delete(store)
}

const ended = new Refusal(createReason)
const stale = new Refusal(() => new SessionStoreUnavailable())
const malformed = invalidClaim('sid', 'the claim "sid" is not a session id')

/**
 * Prepares the check of access tokens.
 * @param refuseAfter seconds without a good read after which tokens of sessions are refused with 503; null: never
 */
export function prepareSessionCheck (sessions: EndedSessions, refuseAfter: number | null): SessionCheck {
  return (payload) => {
    // A token without a session can only expire.
    if (!Object.hasOwn(payload, 'sid')) return undefined
    const { sid } = payload
    if (!isSessionId(sid)) return malformed
    if (sessions.has(sid)) return ended
    return refuseAfter !== null && sessions.isOlderThan(refuseAfter) ? stale : undefined
  }
}
