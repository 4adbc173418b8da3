/** Whether a token is valid (specification, States and transitions): its signature, then its claims, then the checks of the application. */
import type { FastifyRequest } from 'fastify'
import type { Purpose, VerifiedToken } from '../authorities/authority.ts'
import { invalidToken, Refusal, type Verdict } from '../refusal.ts'
import type { RequestSettings } from '../host/getters.ts'
import { copyPayload } from '../token/claims.ts'
import type { SignedToken } from '../token/codec.ts'
import type { TokenVerifier } from '../token/verifier.ts'
import type { MaybePromise, Payload } from '../../types/handlers.ts'
import { runChecks, type Checks } from './checks.ts'
import type { TokenCarrier } from './extract.ts'

/** What a renewal has given a request. */
export interface Renewal {
  /** What the request would be if it had been sent with the new tokens. */
  readonly carrier: TokenCarrier
  /** The new access token, which nobody has received yet. */
  readonly accessToken: SignedToken
}

/** The record of one verification. */
export interface Verification extends RequestSettings {
  /** Undefined for a token that did not come with a request. */
  readonly request: FastifyRequest | undefined
  /** Undefined for a request that no guard has renewed. */
  readonly renewal: Renewal | undefined
  /** Whether the keys of the authority of the token are waited for, and nothing of the application. */
  waitsForKeys?: boolean
}

/** The refusal of a token for whose key a reader cannot wait. */
export const keyNotKnown = invalidToken('its key is not known yet, and is being fetched')

/** A token that is valid now. */
export interface ValidToken {
  readonly verified: VerifiedToken
  /** The private copy of the payload that the checks were given; undefined without checks. */
  readonly payload: Payload | undefined
}

function checkVerified (verified: Verdict<VerifiedToken>, checks: Checks, verification: Verification, purpose: Purpose): MaybePromise<Verdict<ValidToken>> {
  if (verified instanceof Refusal) return verified
  const { authority } = verified
  const refusal = authority.check(verified, verification.settings, purpose) ?? (authority.hasSessions ? checks.session?.(verified, verification.renewal?.accessToken.token === verified.token) : undefined)
  if (refusal !== undefined) return refusal
  const asked = authority.hasCustomClaims ? checks.all : checks.withoutClaims
  if (asked.length === 0) return { verified, payload: undefined }
  const payload = copyPayload(verified.payload)
  const valid: ValidToken = { verified, payload }
  const refused = runChecks(asked, payload, verification.request)
  return refused instanceof Promise ? refused.then((settled) => settled ?? valid) : refused ?? valid
}

/**
 * Verifies a token. What may be remembered of it is its signature and its content, never the decision: that is made anew
 * on every request.
 * @returns the valid token, or the refusal; a promise only where a key or a check has to be waited for
 */
export function verifyToken (token: string, verifier: TokenVerifier, checks: Checks, verification: Verification, purpose: Purpose): MaybePromise<Verdict<ValidToken>> {
  const { renewal } = verification
  // A guard that reads the header, for example, finds another token, which was sent.
  const signedBy = renewal?.accessToken.token === token ? renewal.accessToken.signedBy : undefined
  const verified = verifier(token, purpose, signedBy)
  if (!(verified instanceof Promise)) return checkVerified(verified, checks, verification, purpose)
  verification.waitsForKeys = true
  return verified.then((settled) => {
    verification.waitsForKeys = false
    return checkVerified(settled, checks, verification, purpose)
  })
}

/** Returns a payload that its reader may change. */
export const ownPayload = ({ verified, payload }: ValidToken): Payload => payload ?? copyPayload(verified.payload)
