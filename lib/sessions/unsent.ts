/**
 * The access tokens of refreshes whose responses this process has not sent yet. A use of such a token, for example by a
 * handler of the application, does not prove that the client has received it.
 */
import { BoundedMap } from '../bounded-map.ts'

/** The maximum number of unsent tokens in memory. Forgotten tokens are treated as sent. */
const remembered = 20_000

/** The tokens of responses that were not sent yet. */
const unsent = new BoundedMap<string, true>(remembered / 2)

/**
 * The tokens that were sent last, in a ring buffer, because two responses within one second may contain the same token.
 * Only `isUnsent` searches it, and only for unsent tokens, so that a refresh does not.
 */
const sent = new Array<string>(5000).fill('')
let next = 0

/** Whether a token was issued, but no response with it was sent. */
export const isUnsent = (token: string): boolean => unsent.get(token) === true && !sent.includes(token)

/** Notes that a token was issued. */
export function noteIssued (token: string): void {
  unsent.set(token, true)
}

/** Notes that a response with a token was sent. */
export function noteSent (token: string): void {
  unsent.delete(token)
  sent[next] = token
  next = (next + 1) % sent.length
}
