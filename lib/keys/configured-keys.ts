/** Which of the keys of a configuration signs, and which verifies. */
import { RequiredKeysNotFound } from '../configuration-errors.ts'
import type { KeySetting } from '../settings/schema.ts'
import { isHmac, type Algorithm } from './algorithms.ts'
import { hmacKey, privateKey, publicKey, type Key } from './material.ts'

/** Key material by the setting that it was given as. */
export type ConfiguredKeys = Readonly<Partial<Record<KeySetting, unknown>>>

/** The settings that may hold the key that verifies, the preferred one first: `publicKey` is an alias of `secret`. */
export function verifyingNames (algorithm: Algorithm): readonly KeySetting[] {
  return isHmac(algorithm) ? ['secret', 'publicKey'] : ['publicKey', 'secret']
}

/** The settings that may hold the key that signs, the preferred one first. */
export function signingNames (algorithm: Algorithm): readonly KeySetting[] {
  return isHmac(algorithm) ? verifyingNames(algorithm) : ['privateKey']
}

/** Finds the first of several settings that holds a key. */
export function pick (names: readonly KeySetting[], keys: ConfiguredKeys): [KeySetting, unknown] | undefined {
  for (const name of names) if (keys[name] !== undefined && keys[name] !== null) return [name, keys[name]]
  return undefined
}

/**
 * The key that verifies.
 * @throws {RequiredKeysNotFound} where there is none
 * @throws {InvalidConfiguration} where the algorithm cannot use it
 */
export function verifyingKey (algorithm: Algorithm, keys: ConfiguredKeys): Key {
  const found = pick(verifyingNames(algorithm), keys)
  if (found === undefined) {
    throw new RequiredKeysNotFound(`${algorithm} needs "${verifyingNames(algorithm)[0]}" to verify tokens. Give it to register(), as text, Buffer, KeyObject, JWK, file: URL or { path }.`, { page: 'settings.md' })
  }
  return isHmac(algorithm) ? hmacKey(algorithm, ...found, 'verify') : publicKey(algorithm, ...found)
}

/**
 * The key that signs.
 * @throws {RequiredKeysNotFound} where there is none
 * @throws {InvalidConfiguration} where the algorithm cannot use it
 */
export function signingKey (algorithm: Algorithm, keys: ConfiguredKeys): Key {
  const found = pick(signingNames(algorithm), keys)
  if (found === undefined) {
    throw new RequiredKeysNotFound(`${algorithm} needs "${signingNames(algorithm)[0]}" to issue tokens. Give it to register(); an instance that only verifies sets "authMode" to false.`, { page: 'settings.md' })
  }
  return isHmac(algorithm) ? hmacKey(algorithm, ...found, 'sign') : privateKey(algorithm, ...found)
}
