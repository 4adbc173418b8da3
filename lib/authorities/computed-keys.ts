/** Keys that getters compute from requests: one key for each tenant, for example. */
import type { KeyObject } from 'node:crypto'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { HandlerFailed } from '../errors.ts'
import { hostError } from '../host/call.ts'
import type { RequestSettings } from '../host/getters.ts'
import type { Algorithm } from '../algorithms.ts'
import { identityOf } from '../keys/key-forms.ts'
import { pick, signingKey, signingNames, verifyingKey, verifyingNames, type ConfiguredKeys, type Key } from '../keys/material.ts'
import { allowedValues, fits } from '../settings/check.ts'
import type { Resolved } from '../settings/configuration.ts'
import { accessorOf } from '../settings/schema.ts'
import { BoundedMap } from '../bounded-map.ts'
import { typeName } from '../values.ts'
import type { MaybePromise } from '../../types/handlers.ts'

/** How many keys of each use and algorithm one registration keeps, at least; at most twice as many. */
const cachedKeys = 500

const uses = {
  verify: { namesOf: verifyingNames, keyOf: verifyingKey },
  sign: { namesOf: signingNames, keyOf: signingKey }
}

/** What a key is used for. */
export type KeyUse = keyof typeof uses

/** Checks each key once and keeps it while it is in use, together with its decoder or signer. */
export class CheckedKeys {
  readonly #keys = new Map<string, BoundedMap<string | KeyObject, Key>>()

  /** @throws {RequiredKeysNotFound} {InvalidConfiguration} as for a key that is configured at registration */
  get (use: KeyUse, algorithm: Algorithm, keys: ConfiguredKeys): Key {
    const { namesOf, keyOf } = uses[use]
    // Computed before the key is read, so that the next request reads a file again that is replaced in between.
    const id = identityOf(pick(namesOf(algorithm), keys)?.[1])
    if (id === undefined) return keyOf(algorithm, keys)
    // A key is checked for each use and algorithm: a key that may verify must not sign because of that.
    const kind = `${use} ${algorithm}`
    const known = this.#keys.get(kind) ?? new BoundedMap(cachedKeys)
    this.#keys.set(kind, known)
    let key = known.get(id)
    if (key === undefined) {
      key = keyOf(algorithm, keys)
      known.set(id, key)
    }
    return key
  }
}

/** Returns a function that finds a key or algorithm that is computed per request. It returns a promise only if the getter does. */
export function prepareComputedKey (
  checked: CheckedKeys,
  use: KeyUse,
  { getters, keys }: Resolved
): (context: RequestSettings) => MaybePromise<Key> {
  const { namesOf } = uses[use]
  const given = keys()
  return ({ settings: { algorithm }, results }) => {
    for (const name of namesOf(algorithm)) {
      const getter = getters.get(name)
      if (getter !== undefined) {
        const check = (value: unknown) => {
          try {
            // A getter that returns undefined must not lead to an empty key or to another key.
            if (!fits(name, value)) {
              throw new InvalidConfiguration(
                `"${name}" must be ${allowedValues(name)}; ${accessorOf('get', name)} returned ${typeName(value)}.`,
                { page: 'settings.md' }
              )
            }
            return checked.get(use, algorithm, { [name]: value })
          } catch (cause) {
            throw new HandlerFailed(accessorOf('get', name), { cause })
          }
        }
        const value = results.get(name, getter)
        if (!(value instanceof Promise)) return check(value)
        return value.then(check, (error: unknown) => {
          throw hostError(accessorOf('get', name), error)
        })
      }
      if (given[name] !== undefined) break
    }
    try {
      return checked.get(use, algorithm, given)
    } catch (cause) {
      throw getters.has('algorithm') ? new HandlerFailed('getAlgorithm', { cause }) : cause
    }
  }
}
