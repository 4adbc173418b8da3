/**
 * Proof that refresh tokens were received: an access token of the same response was accepted. What gets lost with the process
 * prolongs the time in which a replaced refresh token can be exchanged, until the session is refreshed again.
 */
import type { ReceivedGeneration, SessionFeed } from '../../types/sessions.ts'
import type { Credential } from '../authorities/authority.ts'
import { Generations } from '../generations.ts'
import { Outbox } from './outbox.ts'
import { maximumCounter } from './refresh-token.ts'
import { callStore } from './store-call.ts'
import { itemsNotWritten } from './stores/not-written.ts'
import { isUnsent } from './unsent.ts'

/** How many generations are remembered as told, half of them in each of two parts. What is forgotten is told again. */
const remembered = 20_000
/** How many the store is told in one call. */
const toldAtOnce = 1000

const isGeneration = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= maximumCounter

/** The confirmations for one store. Registrations with the same store object share them. */
export class Confirmations {
  readonly outbox: Outbox<ReceivedGeneration>
  readonly #store: SessionFeed
  /** Those that the store was told, or will be. */
  readonly #told = new Generations<string, true>(remembered / 2)

  constructor (store: SessionFeed) {
    this.#store = store
    this.outbox = new Outbox<ReceivedGeneration>({
      tell: async (received, rules) => await callStore('confirm', () => store.confirm!(received, rules)).catch(itemsNotWritten),
      atOnce: toldAtOnce,
      failed: 'the session store takes no confirmations. Until it does, a replaced refresh token can be exchanged until the session is refreshed again.',
      recovered: 'the session store takes confirmations again.'
    })
  }

  /** Notes that an access token was accepted, unless the store was told so before, or its response is still to be sent. Never throws. */
  receive (verified: Credential, sid: string, userOf: (payload: Credential['payload']) => string): void {
    const { payload } = verified
    const n: unknown = Object.hasOwn(payload, 'sgen') ? payload.sgen : undefined
    if (isGeneration(n) && typeof this.#store.confirm === 'function' && !this.#willTell({ sid, user: userOf(payload), n }, verified.token)) return
    // Also of a token that says nothing, so that it is not looked at again. Tokens that are not remembered are objects of one request.
    verified.toldTo = this
  }

  /** Sees to it that the store is told. @returns false where it is not: the next request with the token is another chance */
  #willTell (received: ReceivedGeneration, token: string): boolean {
    if (isUnsent(token)) return false
    const key = `${received.sid} ${received.n}`
    if (this.#told.get(key) === true) return true
    if (!this.outbox.add(key, received)) return false
    this.#told.set(key, true)
    return true
  }
}
