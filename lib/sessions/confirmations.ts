/**
 * Confirms to the store that refresh tokens were received: an access token of the same response was accepted. If a
 * confirmation is lost with the process, a replaced refresh token can be exchanged until the session is refreshed again.
 */
import type { ReceivedGeneration, SessionFeed } from '../../types/sessions.ts'
import type { Credential } from '../authorities/authority.ts'
import { BoundedMap } from '../bounded-map.ts'
import { Outbox } from './outbox.ts'
import { maximumCounter } from './refresh-token.ts'
import { callStore } from './store-call.ts'
import { itemsNotWritten } from './stores/not-written.ts'
import { isUnsent } from './unsent.ts'

/** The maximum number of confirmations that are remembered. Forgotten ones are sent again. */
const remembered = 20_000
/** The maximum number of confirmations in one call. */
const sentAtOnce = 1000

const isGeneration = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= maximumCounter

/** The confirmations for one store. Registrations with the same store object share them. */
export class Confirmations {
  readonly outbox: Outbox<ReceivedGeneration>
  readonly #store: SessionFeed
  /** The generations that were confirmed to the store, or will be. */
  readonly #queued = new BoundedMap<string, true>(remembered / 2)

  constructor (store: SessionFeed) {
    this.#store = store
    this.outbox = new Outbox<ReceivedGeneration>({
      send: async (received, rules) => await callStore('confirm', () => store.confirm!(received, rules)).catch(itemsNotWritten),
      atOnce: sentAtOnce,
      failed:
        'the session store takes no confirmations. Meanwhile, a replaced refresh token can be exchanged until its session is refreshed again.',
      recovered: 'the session store takes confirmations again.'
    })
  }

  /** Queues the confirmation for an accepted access token, unless it was queued before, or the token was not sent yet. Never throws. */
  receive (verified: Credential, sid: string, userOf: (payload: Credential['payload']) => string): void {
    const { payload } = verified
    const n: unknown = Object.hasOwn(payload, 'sgen') ? payload.sgen : undefined
    if (isGeneration(n) && typeof this.#store.confirm === 'function' && !this.#queue({ sid, user: userOf(payload), n }, verified.token)) {
      return
    }
    // Also for a token that confirms no generation, so that it is checked once. A token that is not cached is a new object each time.
    verified.processedBy = this
  }

  /** Queues a confirmation. @returns false if it was not queued; the next request with the token tries again */
  #queue (received: ReceivedGeneration, token: string): boolean {
    if (isUnsent(token)) return false
    const key = `${received.sid} ${received.n}`
    if (this.#queued.get(key) === true) return true
    if (!this.outbox.add(key, received)) return false
    this.#queued.set(key, true)
    return true
  }
}
