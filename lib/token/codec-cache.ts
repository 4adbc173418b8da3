/** The verifiers and signers of keys that are computed from requests. */
import { KeyObject } from 'node:crypto'
import { pick, signingKey, signingNames, verifyingKey, verifyingNames, type GivenKeys } from '../keys/configured-keys.ts'
import type { Key } from '../keys/material.ts'
import type { Algorithm, Settings } from '../settings/schema.ts'
import { Generations } from './cache.ts'
import { signerOf, verifierOf, type Signer, type Verifier } from './codec.ts'

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
export class CodecCache {
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
