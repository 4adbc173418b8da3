/**
 * The access tokens that this process has issued for a refresh, and whose responses it has not sent. Whatever uses one of
 * them before then, such as a handler of the application, does not show that a client has received it.
 */
import { Generations } from '../generations.ts'

/** Of how many tokens it is known that they are to be sent, half of them in each of two parts. Those that are forgotten count as sent. */
const remembered = 20_000

/** The tokens of responses that are still to be sent. */
const unsent = new Generations<string, true>(remembered / 2)

/**
 * The tokens that were sent last, in a ring. One of another response, of the same second, may be the same. It is read for
 * unsent tokens alone, so that a refresh costs no search.
 */
const sent = new Array<string>(5000).fill('')
let next = 0

/** Whether no response with a token was sent. */
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
