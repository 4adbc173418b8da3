/** Custom claims: objects of the application, or classes, which are instantiated once. */
import type { CustomClaim } from '../../types/handlers.ts'
import { InvalidCustomClaim } from '../configuration-errors.ts'
import { registeredClaimNames, type Settings } from '../settings/schema.ts'
import { memberOf, typeName } from '../values.ts'

/** The names of claims that the plugin writes, for which no other claim may stand. */
export const reservedNames = ({ userId, scopesName }: Settings): string[] => [...registeredClaimNames, '__proto__', userId, scopesName]

/**
 * Reads and checks custom claims.
 * @param hasSessions whether `sid` and `sgen` are claims of the session
 * @param existing the custom claims of the registration, if `sources` are additions for one token
 * @throws {InvalidCustomClaim} for a claim without `key`, `setup` or `verify`, or whose key is taken
 */
export function readCustomClaims (
  sources: unknown,
  settings: Settings,
  hasSessions: boolean,
  existing: readonly CustomClaim[] = []
): CustomClaim[] {
  if (!Array.isArray(sources)) {
    throw new InvalidCustomClaim(`"customClaims" must be a list of claims; given: ${typeName(sources)}.`, { page: 'reference.md#handlers' })
  }
  const taken = new Set([
    ...reservedNames(settings),
    ...(hasSessions ? ['sid', 'sgen'] : []),
    ...(settings.claimAuthTime ? ['auth_time'] : []),
    ...existing.map(({ key }) => key)
  ])
  return sources.map((source: unknown, index) => {
    const isClass = typeof source === 'function' && source.prototype !== undefined
    const claim: unknown = isClass ? Reflect.construct(source, []) : source
    if (typeof claim !== 'object' || claim === null) {
      const description = typeof source === 'function' ? 'a function that is not a class' : typeName(source)
      throw new InvalidCustomClaim(`"customClaims[${index}]" must be a class or an object; given: ${description}.`, {
        page: 'reference.md#handlers'
      })
    }
    const key = memberOf(claim, 'key')
    if (typeof key !== 'string' || key === '') {
      throw new InvalidCustomClaim(
        `"key" of "customClaims[${index}]" must be the name of the claim, a non-empty string; given: ${key === '' ? 'an empty string' : typeName(key)}.`,
        { page: 'reference.md#handlers' }
      )
    }
    for (const method of ['setup', 'verify']) {
      const value = memberOf(claim, method)
      if (typeof value !== 'function') {
        throw new InvalidCustomClaim(`"${method}" of the custom claim "${key}" must be a function; given: ${typeName(value)}.`, {
          page: 'reference.md#handlers'
        })
      }
    }
    if (taken.has(key)) {
      throw new InvalidCustomClaim(
        `The "key" of a custom claim must not be ${JSON.stringify(key)}, which is the name of a claim of this plugin or of another custom claim. Choose another name.`,
        { page: 'reference.md#handlers' }
      )
    }
    taken.add(key)
    // Its three members were checked above.
    return claim as CustomClaim
  })
}
