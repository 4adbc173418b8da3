/** The signer of access tokens: with one key, with a key that is computed per request, or with the key of a list that signs now. */
import type { Algorithm } from '../algorithms.ts'
import { MissingRegisteredClaim } from '../errors.ts'
import type { Prepared, RequestSettings } from '../host/getters.ts'
import type { Life } from '../keys/life.ts'
import type { Key } from '../keys/material.ts'
import { whenSettled } from '../promises.ts'
import type { Resolved } from '../settings/configuration.ts'
import { signerOf, type SignedToken } from '../token/codec.ts'
import type { MaybePromise, Payload } from '../../types/handlers.ts'

/** A key that signs tokens. */
export interface SigningKey {
  readonly algorithm: Algorithm
  /** Undefined only for keys that do not sign now. */
  readonly signing: Key | undefined
  /** The id of the key in the header of its tokens; undefined for none. */
  readonly kid: string | undefined
  readonly life: Readonly<Life>
}

/** Signs a payload under the settings of a request. @throws TypeError if the payload has no JSON form */
export type Signer = (payload: Payload, context: RequestSettings) => MaybePromise<SignedToken>

/** @param issuedAt whether tokens carry `iat` */
function signWith ({ algorithm, signing, kid, life }: SigningKey, issuedAt: boolean, payload: Payload): MaybePromise<SignedToken> {
  if (Number(payload.exp) * 1000 > life.until) {
    throw new MissingRegisteredClaim(
      'The payload of a new access token has an "exp" later than "verifyUntil" of its key, after which its tokens are refused. Check extendPayload.'
    )
  }
  // Created when the key first signs, because this is as slow as reading the key. `signing` is defined for the current key.
  return signerOf(algorithm, signing!, issuedAt, kid)(payload)
}

/** Prepares the signer of a registration. The key is chosen when a token is signed. */
export function prepareSigner (signing: Prepared<SigningKey>, { settings: { claimIat }, getters }: Resolved): Signer {
  if (typeof signing === 'function') {
    return (payload, context) => whenSettled(signing(context), (key) => signWith(key, context.settings.claimIat, payload))
  }
  // Built now, not during the first request.
  if (!getters.has('claimIat')) signerOf(signing.algorithm, signing.signing!, claimIat, signing.kid)
  return (payload, { settings }) => signWith(signing, settings.claimIat, payload)
}
