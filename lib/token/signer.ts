/** The signer of own access tokens: with one key, with a key that is computed per request, or with the key of a list that signs now. */
import type { OwnSigning } from '../authorities/own.ts'
import { RequiredKeysNotFound } from '../configuration-errors.ts'
import { MissingRegisteredClaim } from '../errors.ts'
import type { RequestSettings } from '../host/getters.ts'
import type { RingKey } from '../keys/key-ring.ts'
import type { Key } from '../keys/material.ts'
import type { Resolved } from '../settings/configuration.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import { signerOf, type Signer } from './codec.ts'

/** Gives the signer for the settings of a request; a promise only where its key is asynchronous. */
export type SignerSource = (context: RequestSettings) => MaybePromise<Signer>

/**
 * Creates a signer with the key that signs when it is called.
 * @param now returns that key; undefined for none
 */
const listSigner = (now: () => RingKey | undefined, issuedAt: boolean): Signer => (payload) => {
  const key = now()
  if (key === undefined) throw new RequiredKeysNotFound('No key of "keys" signs now. Give a secret or private key without "signFrom", or with one that has come.', { page: 'keys.md', duringRequest: true })
  if (Number(payload.exp) * 1000 > key.life.until) {
    throw new MissingRegisteredClaim('The payload of a new access token has an "exp" beyond "verifyUntil" of its key, after which no token of this key counts. Check extendPayload.')
  }
  // Made when the key signs first: it takes OpenSSL as long as to read the key. Only a key that can sign is the one that signs.
  return signerOf(key.algorithm, key.signing!, issuedAt, key.kid)(payload)
}

/** Prepares the signer of a registration. */
export function prepareSigner (signing: OwnSigning, { settings: { algorithm, claimIat }, getters }: Resolved): SignerSource {
  if ('now' in signing) return ({ settings }) => listSigner(signing.now, settings.claimIat)
  const { key } = signing
  if (typeof key === 'function') {
    return (context) => {
      const make = (one: Key) => signerOf(context.settings.algorithm, one, context.settings.claimIat)
      const found = key(context)
      return found instanceof Promise ? found.then(make) : make(found)
    }
  }
  if (getters.has('claimIat')) return ({ settings }) => signerOf(algorithm, key, settings.claimIat)
  const signer = signerOf(algorithm, key, claimIat)
  return () => signer
}
