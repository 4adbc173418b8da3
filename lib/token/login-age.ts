/** How long ago the user of a token logged in (RFC 9470; `auth_time` is that of OpenID Connect Core 1.0 section 2). */
import { InvalidConfiguration } from '../configuration-errors.ts'
import { InsufficientUserAuthentication } from '../errors.ts'
import { Refusal } from '../refusal.ts'
import { typeName } from '../values.ts'
import { secondsNow } from './claims.ts'

/** Returns the refusal of a token whose login is too long ago or not known; null for any other. */
export type LoginAgeCheck = (payload: Readonly<Record<string, unknown>>, leeway: number) => Refusal | null

/**
 * Prepares the check of the age of a login. An `auth_time` beyond the tolerance for clock differences is of no use: if it
 * were accepted, the login would stay recent for as long as it lies in the future.
 * @param maxAge how many seconds ago the login may be, without tolerance
 */
export function prepareLoginAge (maxAge: number): LoginAgeCheck {
  const refusal = (why: string) => new Refusal((reason) => new InsufficientUserAuthentication(undefined, { maxAge, reason }), why)
  const missing = refusal('the claim "auth_time" is missing or is not a number')
  const future = refusal('"auth_time" is still to come')
  const old = refusal(`the login was more than ${maxAge} seconds ago`)
  return (payload, leeway) => {
    const authTime = Object.hasOwn(payload, 'auth_time') ? payload.auth_time : undefined
    if (typeof authTime !== 'number') return missing
    const now = secondsNow()
    // So written that a clock without a number refuses.
    if (!(authTime <= now + leeway)) return future
    return now - authTime <= maxAge ? null : old
  }
}

/** What fits into a refresh token. The milliseconds of `Date.now()` are beyond it. */
const maximumAuthTime = 2 ** 40 - 1

/**
 * Checks the time of a login in seconds since 1970; undefined is allowed.
 * @param method that was given it: `generateAccessToken`
 * @throws {InvalidConfiguration}
 */
export function checkAuthTime (authTime: unknown, method: string): void {
  if (authTime === undefined || (Number.isInteger(authTime) && Number(authTime) > 0 && Number(authTime) <= maximumAuthTime)) return
  const given = typeof authTime === 'number' ? String(authTime) : typeName(authTime)
  throw new InvalidConfiguration(`"authTime" of ${method}() must be a whole number of seconds since 1970, such as Math.floor(Date.now() / 1000); given: ${given}.`, { page: 'sessions.md#settings', duringRequest: true })
}
