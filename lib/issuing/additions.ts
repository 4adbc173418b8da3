/** What `generateAccessToken` may be given besides the user. */
import { InvalidConfiguration } from '../configuration-errors.ts'
import { isPlainObject, typeName } from '../values.ts'
import { suggest } from '../settings/suggest.ts'
import { checkAuthTime } from '../token/login-age.ts'
import type { TokenAdditions } from '../../types/instance.ts'

const names: readonly string[] = ['customClaims', 'extendPayload', 'scopes', 'authTime', 'request'] satisfies Array<keyof TokenAdditions<object>>

/** Checks and copies additions to an access token. @throws {InvalidConfiguration} also for a misspelt one */
export function readAdditions (additions: TokenAdditions<object>): TokenAdditions<object> {
  const given: unknown = additions
  if (!isPlainObject(given)) throw new InvalidConfiguration(`The second parameter of generateAccessToken must be a plain object; given: ${typeName(given)}.`, { page: 'instances.md', duringRequest: true })
  const unknown = Object.keys(additions).find((name) => !names.includes(name))
  if (unknown !== undefined) {
    throw new InvalidConfiguration(`generateAccessToken has no option "${unknown}".${suggest(unknown, names)} Its options are ${names.join(', ')}.`, { page: 'instances.md', duringRequest: true })
  }
  // Without a prototype: properties of a polluted `Object.prototype` are not additions.
  const own: TokenAdditions<object> = Object.assign(Object.create(null), given)
  checkAuthTime(own.authTime, 'generateAccessToken')
  return own
}
