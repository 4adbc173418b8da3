/** Which verifier and which signer belong to settings and keys: made once, also for keys that are computed per request. */
import { KeyObject } from 'node:crypto'
import { RequiredKeysNotFound } from '../errors.ts'
import type { Algorithm, KeySetting, Settings } from '../settings/schema.ts'
import { signerOf, verifierOf, type Signer, type Verifier } from './codec.ts'
import { Generations } from './generations.ts'
import { hmacKey, isHmac, privateKey, publicKey, type Key } from './keys.ts'

export type GivenKeys = Readonly<Partial<Record<KeySetting, unknown>>>

/** The names under which the key that verifies may be given, best first: `publicKey` is an alias of `secret`. */
export function verifyingNames (algorithm: Algorithm): readonly KeySetting[] {
  return isHmac(algorithm) ? ['secret', 'publicKey'] : ['publicKey', 'secret']
}

/** The names under which the key that signs may be given. */
export function signingNames (algorithm: Algorithm): readonly KeySetting[] {
  return isHmac(algorithm) ? verifyingNames(algorithm) : ['privateKey']
}

function pick (names: readonly KeySetting[], given: GivenKeys): [KeySetting, unknown] | undefined {
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

/** How many computed keys one instance keeps ready, at least; twice as many at most. */
const readyKeys = 500

/** Says whether two computed keys are the same without parsing them. Key objects are their own identity. */
function identity (given: unknown): string | KeyObject | undefined {
  if (given instanceof KeyObject) return given
  if (typeof given === 'string') return `text ${given}`
  if (Buffer.isBuffer(given)) return `bytes ${given.toString('latin1')}`
  if (given instanceof URL) return `url ${given.href}`
  return typeof given === 'object' && given !== null && 'path' in given ? `file ${String(given.path)}` : undefined
}

/** Keys that were computed from requests, each checked once and kept while it is in use: one for each tenant, say. */
export class ComputedKeys {
  readonly #keys = new Map<string, Generations<string | KeyObject, Key>>()
  readonly #verifiers = new Generations<string, Verifier>(readyKeys)
  readonly #signers = new Generations<string, Signer>(readyKeys)

  #key (kind: 'verifying' | 'signing', algorithm: Algorithm, given: GivenKeys): Key {
    const found = pick(kind === 'verifying' ? verifyingNames(algorithm) : signingNames(algorithm), given)
    const make = kind === 'verifying' ? verifyingKey : signingKey
    const id = identity(found?.[1])
    if (id === undefined) return make(algorithm, given)
    const use = `${kind} ${algorithm}`
    const known = this.#keys.get(use) ?? new Generations(readyKeys)
    this.#keys.set(use, known)
    let key = known.get(id)
    if (key === undefined) {
      key = make(algorithm, given)
      known.set(id, key)
    }
    return key
  }

  verifier (settings: Settings, given: GivenKeys): Verifier {
    const { algorithm, tokenCacheSize } = settings
    const key = this.#key('verifying', algorithm, given)
    const id = `${key.fingerprint} ${tokenCacheSize}`
    let verifier = this.#verifiers.get(id)
    if (verifier === undefined) {
      verifier = verifierOf(algorithm, key, tokenCacheSize)
      this.#verifiers.set(id, verifier)
    }
    return verifier
  }

  signer (settings: Settings, given: GivenKeys): Signer {
    const { algorithm, claimIat } = settings
    const key = this.#key('signing', algorithm, given)
    const id = `${key.fingerprint} ${claimIat}`
    let signer = this.#signers.get(id)
    if (signer === undefined) {
      signer = signerOf(algorithm, key, claimIat)
      this.#signers.set(id, signer)
    }
    return signer
  }
}
