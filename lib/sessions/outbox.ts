/**
 * What a session store must be told, such as that a refresh token was received: it is collected here, told with the polls,
 * never on the way of a request, and told again until a call has resolved.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { SessionRules } from '../../types/sessions.ts'

/** A registration with the store. */
export interface Teller {
  readonly instanceName: string
  readonly log: FastifyBaseLogger
  readonly rules: SessionRules
}

/** How a store is told. */
export interface Delivery<Item> {
  /** Tells the store. Where it resolves, the store has written all of it, except what it resolves to: that is told again with the next poll. */
  readonly tell: (items: readonly Item[], rules: SessionRules) => Promise<ReadonlySet<unknown> | void>
  /** How many the store is told in one call. */
  readonly atOnce: number
  /** What is logged, after the name of the instance, when the store cannot be told, and when it can again. */
  readonly failed: string
  readonly recovered: string
}

/** How many wait at most. More are not taken. */
const maximumWaiting = 10_000
/** The longest pause after failures, in polls. */
const longestPause = 64

export class Outbox<Item> {
  readonly #delivery: Delivery<Item>
  /** By what makes an item the same as another one, so that it waits once. */
  readonly #waiting = new Map<string, Item>()
  /** The registrations whose applications close: the client of the database may be closed at any time, so nothing waits. */
  readonly #closing = new Set<Teller>()
  #writing: Promise<void> | undefined
  /** The polls until the store is tried again, and how many there were after the last failure; 0 while it can be told. */
  #skip = 0
  #pause = 0
  /** The registrations that know that the store cannot be told. */
  readonly #failing = new Set<Teller>()

  constructor (delivery: Delivery<Item>) {
    this.#delivery = delivery
  }

  /** Tells the store what waits, without regard to pauses. @returns whether it was told all */
  async flush (tellers: readonly Teller[]): Promise<boolean> {
    await this.write(tellers, true)
    return this.#waiting.size === 0
  }

  /**
   * Adds an item, unless it waits already.
   * @returns whether the store will be told: false where too many wait
   */
  add (key: string, item: Item): boolean {
    if (this.#waiting.size >= maximumWaiting && !this.#waiting.has(key)) return false
    this.#waiting.set(key, item)
    if (this.#closing.size > 0) this.write([...this.#closing], true)
    return true
  }

  /**
   * Tells the store what waits, one call after the other. Never rejects.
   * @param isLast without regard to pauses, because no poll may follow
   */
  async write (tellers: readonly Teller[], isLast = false): Promise<void> {
    if (!isLast && this.#skip > 0) {
      this.#skip--
      return
    }
    this.#writing ??= this.#writeAll(tellers).finally(() => { this.#writing = undefined })
    await this.#writing
  }

  /** Writes what waits, and from now on whatever is added at once: the application of a registration begins to close. */
  async close (teller: Teller): Promise<void> {
    this.#closing.add(teller)
    await this.write([teller], true)
  }

  /** Ends what {@link close} has begun. */
  async closed (teller: Teller): Promise<void> {
    await this.write([teller], true)
    this.#closing.delete(teller)
  }

  async #writeAll (tellers: readonly Teller[]): Promise<void> {
    const [teller] = tellers
    // Every application with the store has closed.
    if (teller === undefined) return
    const { rules } = teller
    // What the store can be told, but cannot write now.
    const later = new Set<string>()
    for (let some = this.#first(later); some.size > 0; some = this.#first(later)) {
      let notWritten: ReadonlySet<unknown> | void
      try {
        notWritten = await this.#delivery.tell([...some.values()], rules)
      } catch (error) {
        this.#pause = Math.min(Math.max(2 * this.#pause, 1), longestPause)
        this.#skip = this.#pause - 1
        // Behind the others, which must not wait for what the store may never take.
        for (const [key, item] of some) {
          this.#waiting.delete(key)
          this.#waiting.set(key, item)
        }
        this.#say(tellers, error)
        return
      }
      for (const [key, item] of some) {
        this.#waiting.delete(key)
        if (notWritten?.has(item) !== true) continue
        later.add(key)
        this.#waiting.set(key, item)
      }
      this.#pause = this.#skip = 0
      this.#say(tellers)
    }
  }

  #first (later: ReadonlySet<string>): Map<string, Item> {
    const some = new Map<string, Item>()
    for (const [key, item] of this.#waiting) {
      if (!later.has(key)) some.set(key, item)
      if (some.size === this.#delivery.atOnce) break
    }
    return some
  }

  /** Tells each registration once that the store cannot be told, and once that it can again. */
  #say (tellers: readonly Teller[], error?: unknown): void {
    for (const teller of tellers) {
      if (this.#failing.has(teller) === (error !== undefined)) continue
      const { instanceName, log } = teller
      if (error !== undefined) {
        this.#failing.add(teller)
        log.warn({ err: error }, `${instanceName}: ${this.#delivery.failed}`)
      } else {
        this.#failing.delete(teller)
        log.info(`${instanceName}: ${this.#delivery.recovered}`)
      }
    }
  }
}
