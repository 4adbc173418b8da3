/**
 * A queue of notifications for a session store, for example that a refresh token was received. They are sent with the
 * polls, so that no request waits for them, and repeated until a call resolves.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { SessionRules } from '../../types/sessions.ts'

/** A registration that uses the store. */
export interface Sender {
  readonly instanceName: string
  readonly log: FastifyBaseLogger
  readonly rules: SessionRules
}

/** How items are sent to a store. */
export interface Delivery<Item> {
  /** Sends items to the store. Resolves to those that the store has not written, if any; the next poll sends them again. */
  readonly send: (items: readonly Item[], rules: SessionRules) => Promise<ReadonlySet<unknown> | void>
  /** The maximum number of items in one call. */
  readonly atOnce: number
  /** Log messages, after the name of the instance: when the store fails, and when it works again. */
  readonly failed: string
  readonly recovered: string
}

/** The maximum number of waiting items. Further items are refused. */
const maximumWaiting = 10_000
/** The longest pause after failures, in polls. */
const longestPause = 64

export class Outbox<Item> {
  readonly #delivery: Delivery<Item>
  /** By a key that identical items share, so that each waits only once. */
  readonly #waiting = new Map<string, Item>()
  /** The registrations whose applications are closing. New items are sent at once, because the database client may be closed soon. */
  readonly #closing = new Set<Sender>()
  #writing: Promise<void> | undefined
  /** The number of polls to skip before the next attempt, and the pause after the last failure in polls; 0 while the store works. */
  #skip = 0
  #pause = 0
  /** The registrations that have logged that the store fails. */
  readonly #failing = new Set<Sender>()

  constructor (delivery: Delivery<Item>) {
    this.#delivery = delivery
  }

  /** Sends all waiting items, regardless of pauses. @returns whether all were written */
  async flush (senders: readonly Sender[]): Promise<boolean> {
    await this.write(senders, true)
    return this.#waiting.size === 0
  }

  /**
   * Adds an item, unless it waits already.
   * @returns whether the item will be sent; false if too many items wait
   */
  add (key: string, item: Item): boolean {
    if (this.#waiting.size >= maximumWaiting && !this.#waiting.has(key)) return false
    this.#waiting.set(key, item)
    if (this.#closing.size > 0) this.write([...this.#closing], true)
    return true
  }

  /**
   * Sends waiting items, one call after the other. Never rejects.
   * @param isLast whether to ignore pauses, because no poll may follow
   */
  async write (senders: readonly Sender[], isLast = false): Promise<void> {
    if (!isLast && this.#skip > 0) {
      this.#skip--
      return
    }
    this.#writing ??= this.#writeAll(senders).finally(() => { this.#writing = undefined })
    await this.#writing
  }

  /** Sends waiting items, and from now on each new item at once: the application of a registration begins to close. */
  async close (sender: Sender): Promise<void> {
    this.#closing.add(sender)
    await this.write([sender], true)
  }

  /** Sends the last items, and ends the mode that {@link close} has begun. */
  async closed (sender: Sender): Promise<void> {
    await this.write([sender], true)
    this.#closing.delete(sender)
  }

  async #writeAll (senders: readonly Sender[]): Promise<void> {
    const [sender] = senders
    // All applications that use the store have closed.
    if (sender === undefined) return
    const { rules } = sender
    // Items that the store has received, but cannot write now.
    const later = new Set<string>()
    for (let some = this.#first(later); some.size > 0; some = this.#first(later)) {
      let notWritten: ReadonlySet<unknown> | void
      try {
        notWritten = await this.#delivery.send([...some.values()], rules)
      } catch (error) {
        this.#pause = Math.min(Math.max(2 * this.#pause, 1), longestPause)
        this.#skip = this.#pause - 1
        // Move them to the end, so that they do not block the other items if the store never accepts them.
        for (const [key, item] of some) {
          this.#waiting.delete(key)
          this.#waiting.set(key, item)
        }
        this.#report(senders, error)
        return
      }
      for (const [key, item] of some) {
        this.#waiting.delete(key)
        if (notWritten?.has(item) !== true) continue
        later.add(key)
        this.#waiting.set(key, item)
      }
      this.#pause = this.#skip = 0
      this.#report(senders)
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

  /** Logs once for each registration that the store fails, and once that it works again. */
  #report (senders: readonly Sender[], error?: unknown): void {
    for (const sender of senders) {
      if (this.#failing.has(sender) === (error !== undefined)) continue
      const { instanceName, log } = sender
      if (error !== undefined) {
        this.#failing.add(sender)
        log.warn({ err: error }, `${instanceName}: ${this.#delivery.failed}`)
      } else {
        this.#failing.delete(sender)
        log.info(`${instanceName}: ${this.#delivery.recovered}`)
      }
    }
  }
}
