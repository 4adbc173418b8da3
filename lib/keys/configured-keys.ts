/** Which of the keys of a configuration signs, and which verifies. */
import { RequiredKeysNotFound } from '../errors.ts'
import type { Algorithm, KeySetting } from '../settings/schema.ts'
import { hmacKey, isHmac, privateKey, publicKey, type Key } from './material.ts'

export type GivenKeys = Readonly<Partial<Record<KeySetting, unknown>>>

/** The names under which the key that verifies may be given, best first: `publicKey` is an alias of `secret`. */
export function verifyingNames (algorithm: Algorithm): readonly KeySetting[] {
  return isHmac(algorithm) ? ['secret', 'publicKey'] : ['publicKey', 'secret']
}

/** The names under which the key that signs may be given. */
export function signingNames (algorithm: Algorithm): readonly KeySetting[] {
  return isHmac(algorithm) ? verifyingNames(algorithm) : ['privateKey']
}

export function pick (names: readonly KeySetting[], given: GivenKeys): [KeySetting, unknown] | undefined {
  for (const name of names) if (given[name] !== undefined && given[name] !== null) return [name, given[name]]
  return undefined
}

/**
 * The key that verifies.
 * @throws {RequiredKeysNotFound} where none is given
 * @throws {InvalidConfiguration} where it is not fit for the algorithm
 */
export function verifyingKey (algorithm: Algorithm, given: GivenKeys): Key {
  const found = pick(verifyingNames(algorithm), given)
  if (found === undefined) {
    throw new RequiredKeysNotFound(`${algorithm} needs "${verifyingNames(algorithm)[0]}" to verify tokens. Give it to register(), as text, Buffer, KeyObject, file: URL or { path }.`, { section: 'settings' })
  }
  return isHmac(algorithm) ? hmacKey(algorithm, ...found) : publicKey(algorithm, ...found)
}

/**
 * The key that signs.
 * @throws {RequiredKeysNotFound} where none is given
 * @throws {InvalidConfiguration} where it is not fit for the algorithm
 */
export function signingKey (algorithm: Algorithm, given: GivenKeys): Key {
  const found = pick(signingNames(algorithm), given)
  if (found === undefined) {
    throw new RequiredKeysNotFound(`${algorithm} needs "${signingNames(algorithm)[0]}" to issue tokens. Give it to register(); an instance that only verifies sets "authMode" to false.`, { section: 'settings' })
  }
  return isHmac(algorithm) ? hmacKey(algorithm, ...found) : privateKey(algorithm, ...found)
}
