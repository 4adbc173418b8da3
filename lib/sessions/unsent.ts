/**
 * The access tokens that this process has issued for a refresh, and whose responses it has not sent. Whatever uses one of
 * them before then, such as a handler of the application, does not show that a client has received it.
 */
import { Generations } from '../token/generations.ts'

/** Of how many tokens it is known, half of them in each of two parts. Those that are forgotten count as sent. */
const remembered = 20_000

/** By the signatures of tokens, which are shorter: whether a response with the token is still to be sent. */
const unsent = new Generations<string, boolean>(remembered / 2)

const signatureOf = (token: string) => token.slice(token.lastIndexOf('.') + 1)

/** Whether no response with a token was sent. */
export const isUnsent = (token: string): boolean => unsent.get(signatureOf(token)) === true

/** Notes that a token was issued. The token of another response, of the same second, may be the same, and may have been sent. */
export function noteIssued (token: string): void {
  const signature = signatureOf(token)
  if (unsent.get(signature) === undefined) unsent.set(signature, true)
}

/** Notes that the headers of a response with a token were written. */
export function noteSent (token: string): void {
  unsent.set(signatureOf(token), false)
}
