/** The verifiers and signers of keys that are computed from requests: one key for each tenant, for example. */
import type { KeyObject } from 'node:crypto'
import type { Algorithm } from '../keys/algorithms.ts'
import { pick, signingKey, signingNames, verifyingKey, verifyingNames, type ConfiguredKeys } from '../keys/configured-keys.ts'
import { identityOf } from '../keys/key-forms.ts'
import type { Key } from '../keys/material.ts'
import type { Settings } from '../settings/schema.ts'
import { Generations } from './generations.ts'
import { signerOf, verifierOf, type Signer, type Verifier } from './codec.ts'

/** How many keys of each use one instance keeps, at least; at most twice as many. */
const cachedKeys = 500

const uses = {
  verify: { namesOf: verifyingNames, keyOf: verifyingKey },
  sign: { namesOf: signingNames, keyOf: signingKey }
}

/** Checks each key once and keeps its verifier and signer while they are in use. */
export class CodecCache {
  readonly #keys = new Map<string, Generations<string | KeyObject, Key>>()
  readonly #verifiers = new Generations<string, Verifier>(cachedKeys)
  readonly #signers = new Generations<string, Signer>(cachedKeys)

  #key (use: keyof typeof uses, algorithm: Algorithm, keys: ConfiguredKeys): Key {
    const { namesOf, keyOf } = uses[use]
    // Taken before the key is read, so that a file that is replaced in between is read again by the next request.
    const id = identityOf(pick(namesOf(algorithm), keys)?.[1])
    if (id === undefined) return keyOf(algorithm, keys)
    // Each use and algorithm checks a key anew: a key that may verify is not thereby allowed to sign.
    const kind = `${use} ${algorithm}`
    const known = this.#keys.get(kind) ?? new Generations(cachedKeys)
    this.#keys.set(kind, known)
    let key = known.get(id)
    if (key === undefined) {
      key = keyOf(algorithm, keys)
      known.set(id, key)
    }
    return key
  }

  /** @throws {RequiredKeysNotFound} {InvalidConfiguration} as for a key that is given at registration */
  verifier (settings: Settings, keys: ConfiguredKeys): Verifier {
    const { algorithm, tokenCacheSize } = settings
    const key = this.#key('verify', algorithm, keys)
    const id = `${key.fingerprint} ${tokenCacheSize}`
    let verifier = this.#verifiers.get(id)
    if (verifier === undefined) {
      verifier = verifierOf(algorithm, key, tokenCacheSize)
      this.#verifiers.set(id, verifier)
    }
    return verifier
  }

  /** @throws {RequiredKeysNotFound} {InvalidConfiguration} as for a key that is given at registration */
  signer (settings: Settings, keys: ConfiguredKeys): Signer {
    const { algorithm, claimIat } = settings
    const key = this.#key('sign', algorithm, keys)
    const id = `${key.fingerprint} ${claimIat}`
    let signer = this.#signers.get(id)
    if (signer === undefined) {
      signer = signerOf(algorithm, key, claimIat)
      this.#signers.set(id, signer)
    }
    return signer
  }
}
