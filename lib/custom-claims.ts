/** Custom claims as the host gives them: objects, or classes that are instantiated once. */
import type { CustomClaim } from '../types/handlers.ts'
import { InvalidCustomClaim } from './errors.ts'
import { typeName } from './host.ts'
import { registeredClaimNames, type Settings } from './settings/schema.ts'

/**
 * Reads and checks custom claims.
 * @param registered those of the registration, where these are added to them
 * @throws {InvalidCustomClaim} for one without `key`, `setup` or `verify`, or whose key is taken
 */
export function readCustomClaims (sources: unknown, settings: Settings, registered: readonly CustomClaim[] = []): CustomClaim[] {
  if (!Array.isArray(sources)) throw new InvalidCustomClaim(`"customClaims" must be a list of claims; given: ${typeName(sources)}.`, { section: 'handlers' })
  const taken = new Set([...registeredClaimNames, '__proto__', settings.userId, settings.scopesName, ...registered.map(({ key }) => key)])
  return sources.map((source: unknown, index) => {
    const isClass = typeof source === 'function' && source.prototype !== undefined
    const claim: unknown = isClass ? Reflect.construct(source, []) : source
    if (typeof claim !== 'object' || claim === null) {
      const given = typeof source === 'function' ? 'a function that is no class' : typeName(source)
      throw new InvalidCustomClaim(`"customClaims[${index}]" must be a class or an object; given: ${given}.`, { section: 'handlers' })
    }
    const key: unknown = Reflect.get(claim, 'key')
    if (typeof key !== 'string' || key === '') {
      throw new InvalidCustomClaim(`"customClaims[${index}]" needs a "key": the name of the claim, a non-empty string; given: ${key === '' ? 'an empty string' : typeName(key)}.`, { section: 'handlers' })
    }
    for (const method of ['setup', 'verify']) {
      const given: unknown = Reflect.get(claim, method)
      if (typeof given !== 'function') {
        throw new InvalidCustomClaim(`The custom claim "${key}" needs a function "${method}"; given: ${typeName(given)}.`, { section: 'handlers' })
      }
    }
    if (taken.has(key)) throw new InvalidCustomClaim(`The custom claim "${key}" has the name of a claim that the library writes itself, or of another custom claim. Choose another "key".`, { section: 'handlers' })
    taken.add(key)
    // Its three parts were checked one by one.
    return claim as CustomClaim
  })
}
