/** What the time of a login may be, where the application says it. */
import { InvalidConfiguration } from '../configuration-errors.ts'
import { typeName } from '../values.ts'

/** What fits into a refresh token. The milliseconds of `Date.now()` are beyond it. */
const maximum = 2 ** 40 - 1

/**
 * Checks the time of a login in seconds since 1970; undefined is allowed.
 * @param method that was given it: `generateAccessToken`
 * @throws {InvalidConfiguration}
 */
export function checkAuthTime (authTime: unknown, method: string): void {
  if (authTime === undefined || (Number.isInteger(authTime) && Number(authTime) > 0 && Number(authTime) <= maximum)) return
  const given = typeof authTime === 'number' ? String(authTime) : typeName(authTime)
  throw new InvalidConfiguration(`"authTime" of ${method}() must be a whole number of seconds since 1970, such as Math.floor(Date.now() / 1000); given: ${given}.`, { page: 'sessions.md#settings', duringRequest: true })
}
