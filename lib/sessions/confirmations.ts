/**
 * Proof that refresh tokens were received: an access token of the same response was accepted. It is collected here, and told
 * to the store with the polls, never on the way of a request. What gets lost prolongs the time in which a replaced refresh
 * token can be exchanged, until the session is refreshed again.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { ReceivedGeneration, SessionFeed, SessionRules } from '../../types/sessions.ts'
import type { VerifiedToken } from '../authorities/authority.ts'
import { Generations } from '../token/generations.ts'
import { maximumCounter } from './refresh-token.ts'
import { callStore } from './store-call.ts'

/** A registration with the store. */
export interface Teller {
  readonly instanceName: string
  readonly log: FastifyBaseLogger
  readonly rules: SessionRules
}

/** How many generations are remembered as told, half of them in each of two parts. What is forgotten is told again. */
const remembered = 20_000
/** How many wait at most. More are dropped. */
const maximumWaiting = 10_000
/** How many the store is told in one call. */
const toldAtOnce = 1000
/** The longest pause after failures, in polls. */
const longestPause = 64

const isGeneration = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= maximumCounter

/** The confirmations for one store. Registrations with the same store object share them. */
export class Confirmations {
  readonly #store: SessionFeed
  readonly #told = new Generations<string, true>(remembered / 2)
  #waiting: ReceivedGeneration[] = []
  #writing: Promise<void> | undefined
  /** The polls until the store is tried again, and how many there were after the last failure; 0 while it takes confirmations. */
  #skip = 0
  #pause = 0
  /** The registrations that know that the store takes no confirmations. */
  readonly #failing = new Set<Teller>()

  constructor (store: SessionFeed) {
    this.#store = store
  }

  /** Notes that an access token was accepted, unless the store was told so before. Never throws. */
  receive (verified: VerifiedToken, sid: string, userOf: (payload: VerifiedToken['payload']) => string): void {
    // Also of a token that says nothing, so that it is not looked at again. Tokens that are not remembered are objects of one request.
    verified.toldTo = this
    const { payload } = verified
    const n: unknown = Object.hasOwn(payload, 'sgen') ? payload.sgen : undefined
    if (!isGeneration(n) || typeof this.#store.confirm !== 'function') return
    const key = `${sid} ${n}`
    if (this.#told.get(key) === true || this.#waiting.length >= maximumWaiting) return
    this.#told.set(key, true)
    this.#waiting.push({ sid, user: userOf(payload), n })
  }

  /**
   * Tells the store what waits, one call after the other. Never rejects.
   * @param isLast without regard to pauses, because no poll follows
   */
  async write (tellers: readonly Teller[], isLast = false): Promise<void> {
    if (!isLast && this.#skip > 0) {
      this.#skip--
      return
    }
    this.#writing ??= this.#writeAll(tellers).finally(() => { this.#writing = undefined })
    await this.#writing
  }

  async #writeAll (tellers: readonly Teller[]): Promise<void> {
    // There is one as long as an application with the store is open.
    const { rules } = tellers[0]!
    while (this.#waiting.length > 0) {
      const some = this.#waiting.slice(0, toldAtOnce)
      try {
        await callStore('confirm', () => this.#store.confirm!(some, rules))
      } catch (error) {
        this.#pause = Math.min(Math.max(2 * this.#pause, 1), longestPause)
        this.#skip = this.#pause - 1
        this.#tell(tellers, error)
        return
      }
      this.#waiting.splice(0, some.length)
      this.#pause = this.#skip = 0
      this.#tell(tellers)
    }
  }

  /** Tells each registration once that the store takes no confirmations, and once that it takes them again. */
  #tell (tellers: readonly Teller[], error?: unknown): void {
    for (const teller of tellers) {
      if (this.#failing.has(teller) === (error !== undefined)) continue
      const { instanceName, log } = teller
      if (error !== undefined) {
        this.#failing.add(teller)
        log.warn({ err: error }, `${instanceName}: the session store takes no confirmations. Until it does, a replaced refresh token can be exchanged until the session is refreshed again.`)
      } else {
        this.#failing.delete(teller)
        log.info(`${instanceName}: the session store takes confirmations again.`)
      }
    }
  }
}
