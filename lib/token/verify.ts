/** Whether a token is valid (specification, States and transitions): signature, then claims, then the host's own checks. */
import { Refusal } from '../refusal.ts'
import type { Settings } from '../settings/schema.ts'
import type { CustomClaim, ExtraVerification, Payload } from '../../types/handlers.ts'
import { checkClaims, checkCustom, copyPayload, secondsNow } from './claims.ts'
import type { VerifiedToken, Verifier } from './codec.ts'

/** What the host itself asks of a payload. */
export interface HostChecks {
  readonly customClaims: readonly CustomClaim[]
  readonly extraVerifications: readonly ExtraVerification[]
}

/** A token that passed. */
export interface ValidToken {
  readonly verified: VerifiedToken
  /** The private copy of the payload that the host's checks were given; undefined where there are none. */
  readonly payload: Payload | undefined
}

/**
 * Says whether a token is valid now: what it holds, or why it is refused. What may be remembered is its signature and what it holds, never a decision.
 * @param checkExpiry false for the refresh endpoint, where `exp` may have passed but must be there
 */
export function verifyToken (token: string, verifier: Verifier, settings: Settings, checks: HostChecks, checkExpiry = true): ValidToken | Refusal {
  const verified = verifier(token)
  if (verified instanceof Refusal) return verified
  const refusal = checkClaims(verified.payload, verified.registered, settings, secondsNow(), checkExpiry)
  if (refusal !== undefined) return refusal
  const { customClaims, extraVerifications } = checks
  if (customClaims.length === 0 && extraVerifications.length === 0) return { verified, payload: undefined }
  const payload = copyPayload(verified.payload)
  return checkCustom(payload, customClaims, extraVerifications) ?? { verified, payload }
}

/** A payload that its reader may change. */
export const ownPayload = ({ verified, payload }: ValidToken): Payload => payload ?? copyPayload(verified.payload)
