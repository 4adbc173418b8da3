/** How long ago the user of a token logged in (RFC 9470; `auth_time` is that of OpenID Connect Core 1.0 section 2). */
import { InsufficientUserAuthentication } from '../errors.ts'
import { Refusal } from '../refusal.ts'
import { secondsNow } from './claims.ts'

/** Returns the refusal of a token whose login is too long ago or not known; otherwise null. */
export type LoginAgeCheck = (payload: Readonly<Record<string, unknown>>, leeway: number) => Refusal | null

/**
 * Prepares the check of the age of a login. An `auth_time` in the future, beyond the leeway, is refused: otherwise the
 * login would stay recent until `maxAge` after that time.
 * @param maxAge the maximum age of the login in seconds, without leeway
 */
export function prepareLoginAge (maxAge: number): LoginAgeCheck {
  const refusal = (why: string) => new Refusal((reason) => new InsufficientUserAuthentication(undefined, { maxAge, reason }), why)
  const missing = refusal('the claim "auth_time" is missing or is not a number')
  const future = refusal('"auth_time" is in the future')
  const old = refusal(`the login was more than ${maxAge} seconds ago`)
  return (payload, leeway) => {
    const authTime = Object.hasOwn(payload, 'auth_time') ? payload.auth_time : undefined
    if (typeof authTime !== 'number') return missing
    const now = secondsNow()
    // Negated, so that NaN refuses the token.
    if (!(authTime <= now + leeway)) return future
    return now - authTime <= maxAge ? null : old
  }
}
