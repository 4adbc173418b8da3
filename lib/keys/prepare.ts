/** The keys of a registration or of a guard: checked at once where they are known, computed per request where they have getters. */
import { InvalidConfiguration } from '../configuration-errors.ts'
import { HandlerFailed } from '../errors.ts'
import { hostError } from '../host/call.ts'
import { typeName } from '../values.ts'
import { allowedValues, fits } from '../settings/check.ts'
import type { Resolved } from '../settings/configuration.ts'
import type { RequestSettings } from '../host/getters.ts'
import { accessorOf, type KeySetting, type Settings } from '../settings/schema.ts'
import { isHmac } from './algorithms.ts'
import { signingKey, signingNames, verifyingKey, verifyingNames } from './configured-keys.ts'
import { checkPair, type Key } from './material.ts'
import type { MaybePromise } from '../../types/handlers.ts'

/** The keys that are known at registration; undefined for a key that is computed per request or not needed. */
export interface StaticKeys {
  readonly verifying: Key | undefined
  readonly signing: Key | undefined
}

/** Whether tokens are signed: an instance with endpoints must be able to, one without may be, a guard never signs. */
export type Signing = 'must' | 'may' | 'never'

/**
 * Checks the keys that are known at registration.
 * @throws {RequiredKeysNotFound} for a missing key
 * @throws {InvalidConfiguration} for a key that does not fit the algorithm, or two halves that are not a pair
 */
export function readStaticKeys ({ settings: { algorithm }, getters, keys }: Resolved, signs: Signing): StaticKeys {
  const given = keys()
  const isComputed = (names: readonly KeySetting[]) => getters.has('algorithm') || names.some((name) => getters.has(name))
  const isSigning = signs === 'must' || (signs === 'may' && signingNames(algorithm).some((name) => given[name] !== undefined))
  const verifying = isComputed(verifyingNames(algorithm)) ? undefined : verifyingKey(algorithm, given)
  const signing = isSigning && !isComputed(signingNames(algorithm)) ? signingKey(algorithm, given) : undefined
  if (signing !== undefined && verifying !== undefined && !isHmac(algorithm)) checkPair(signing, verifying)
  return { verifying, signing }
}

/** Returns what was made from a key, for the settings of one request; a promise only where a getter of the key returned one. */
export type FromKey<Made> = (context: RequestSettings) => MaybePromise<Made>

/**
 * Prepares what is made from a key, a verifier or a signer, where the key or a setting is computed per request.
 * @param namesOf the names under which the key may be given, best first
 * @param make makes it from the settings and key material; called on every request, so that it has to remember
 */
export function prepareFromKey<Made> (
  { getters, keys }: Resolved, namesOf: typeof verifyingNames, make: (settings: Settings, given: Readonly<Record<string, unknown>>) => Made
): FromKey<Made> {
  const given = keys()
  return ({ settings, results }) => {
    for (const name of namesOf(settings.algorithm)) {
      const getter = getters.get(name)
      if (getter !== undefined) {
        const use = (value: unknown) => {
          try {
            // A getter that returns nothing must not lead to an empty key or to another key.
            if (!fits(name, value)) throw new InvalidConfiguration(`"${name}" must be ${allowedValues(name)}; ${accessorOf('get', name)} returned ${typeName(value)}.`, { page: 'settings.md' })
            return make(settings, { [name]: value })
          } catch (cause) {
            throw new HandlerFailed(accessorOf('get', name), { cause })
          }
        }
        const value = results.get(name, getter)
        if (!(value instanceof Promise)) return use(value)
        return value.then(use, (error: unknown) => { throw hostError(accessorOf('get', name), error) })
      }
      if (given[name] !== undefined) break
    }
    try {
      return make(settings, given)
    } catch (cause) {
      throw getters.has('algorithm') ? new HandlerFailed('getAlgorithm', { cause }) : cause
    }
  }
}
