/** Verifies credentials (specification, States and transitions): the signature, then the claims, then the checks of the application. */
import type { FastifyRequest } from 'fastify'
import type { Credential, Purpose } from '../authorities/authority.ts'
import { invalidToken, Refusal, type Verdict } from '../refusal.ts'
import type { RequestSettings } from '../host/getters.ts'
import { copyPayload } from '../token/claims.ts'
import type { SignedToken } from '../token/codec.ts'
import type { MaybePromise, Payload } from '../../types/handlers.ts'
import { runChecks, type Checks } from './checks.ts'
import type { TokenCarrier } from './extract.ts'

/** The result of a renewal. */
export interface Renewal {
  /** The request as if it had been sent with the new tokens. */
  readonly carrier: TokenCarrier
  /** The new access token, which was not sent yet. */
  readonly accessToken: SignedToken
}

/** The context of one verification. */
export interface Verification extends RequestSettings {
  /** Undefined for a token that is verified without a request. */
  readonly request: FastifyRequest | undefined
  /** Undefined for a request that no guard has renewed. */
  readonly renewal: Renewal | undefined
  /** Whether the verification waits for keys, such as those of an issuer, and not for a function of the application. */
  waitsForKeys?: boolean
}

/** The refusal of a token whose key is still being fetched, for synchronous readers. */
export const keyNotKnown = invalidToken('its key is not known yet, and is being fetched')

/** A kind of credentials, such as access tokens. */
export interface CredentialKind {
  /**
   * Verifies the parts of a credential that never change, such as its signature.
   * @returns undefined for text that is not of this kind; a promise only if a key must be fetched
   * @throws {HandlerFailed} if a getter fails
   */
  verify (text: string, verification: Verification, purpose: Purpose): MaybePromise<Verdict<Credential>> | undefined
}

/** A credential that is valid now. */
export interface ValidCredential {
  readonly credential: Credential
  /** The copy of the payload for the application; undefined before the first use. */
  payload: Payload | undefined
}

function checkVerified (
  credential: Verdict<Credential>,
  checks: Checks,
  verification: Verification,
  purpose: Purpose
): MaybePromise<Verdict<ValidCredential>> {
  if (credential instanceof Refusal) return credential
  const { authority } = credential
  const refusal =
    authority.check(credential, verification.settings, purpose) ??
    (authority.hasSessions ? checks.session?.(credential, verification.renewal?.accessToken.token === credential.token) : undefined)
  if (refusal !== undefined) return refusal
  const asked = authority.hasCustomClaims ? checks.all : checks.withoutClaims
  if (asked.length === 0) return { credential, payload: undefined }
  const payload = copyPayload(credential.payload)
  const valid: ValidCredential = { credential, payload }
  const refused = runChecks(asked, payload, verification.request)
  return refused instanceof Promise ? refused.then((settled) => settled ?? valid) : (refused ?? valid)
}

const noKind = invalidToken('this kind of credential is not accepted here')

/**
 * Verifies a credential. Its signature and its content may be cached, but not the result: claims and checks are evaluated
 * on every request.
 * @returns the valid credential, or the refusal; a promise only if a key or a check is asynchronous
 */
export function verifyCredential (
  text: string,
  kinds: readonly CredentialKind[],
  checks: Checks,
  verification: Verification,
  purpose: Purpose
): MaybePromise<Verdict<ValidCredential>> {
  for (const kind of kinds) {
    const credential = kind.verify(text, verification, purpose)
    if (credential instanceof Promise) return credential.then((settled) => checkVerified(settled, checks, verification, purpose))
    if (credential !== undefined) return checkVerified(credential, checks, verification, purpose)
  }
  return noKind
}

/** Returns the session of a valid credential; null if it has none. The claim `sid` of another issuer is not a session of this instance. */
export function sessionIdOf ({ authority, payload }: Credential): string | null {
  return authority.hasSessions && Object.hasOwn(payload, 'sid') && typeof payload.sid === 'string' ? payload.sid : null
}

/** Returns the copy of the payload for the application, which may change it. */
export function ownPayload (valid: ValidCredential): Payload {
  valid.payload ??= copyPayload(valid.credential.payload)
  return valid.payload
}
