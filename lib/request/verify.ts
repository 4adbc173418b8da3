/** Whether a token is valid (specification, States and transitions): its signature, then its claims, then the checks of the application. */
import type { FastifyRequest } from 'fastify'
import { Refusal, type Verdict } from '../refusal.ts'
import type { RequestSettings } from '../settings/per-request.ts'
import { checkClaims, copyPayload, secondsNow } from '../token/claims.ts'
import type { Purpose, VerifiedToken, Verifier } from '../token/codec.ts'
import type { MaybePromise, Payload } from '../../types/handlers.ts'
import { runChecks, type Check } from './checks.ts'

/** The circumstances of one verification. */
export interface Context extends RequestSettings {
  /** Undefined for a token that did not come with a request. */
  readonly request: FastifyRequest | undefined
}

/** Returns the refusal of a token whose session has ended; undefined for any other. */
export type SessionCheck = (payload: VerifiedToken['payload']) => Refusal | undefined

/** A token that is valid now. */
export interface ValidToken {
  readonly verified: VerifiedToken
  /** The private copy of the payload that the checks were given; undefined without checks. */
  readonly payload: Payload | undefined
}

/** What is checked after the claims, in this order. */
export interface Checks {
  /** Undefined without sessions. */
  readonly session: SessionCheck | undefined
  /** The checks of the application. */
  readonly checks: readonly Check[]
}

/**
 * Verifies a token. What may be remembered of it is its signature and its content, never the decision: that is made anew
 * on every request.
 * @returns the valid token, or the refusal; a promise only where a check is asynchronous
 */
export function verifyToken (token: string, verifier: Verifier, { session, checks }: Checks, context: Context, purpose: Purpose): MaybePromise<Verdict<ValidToken>> {
  const verified = verifier(token, purpose)
  if (verified instanceof Refusal) return verified
  const refusal = checkClaims(verified.payload, verified.registered, context.settings, secondsNow(), purpose === 'access') ?? session?.(verified.payload)
  if (refusal !== undefined) return refusal
  if (checks.length === 0) return { verified, payload: undefined }
  const payload = copyPayload(verified.payload)
  const valid: ValidToken = { verified, payload }
  const refused = runChecks(checks, payload, context.request)
  return refused instanceof Promise ? refused.then((settled) => settled ?? valid) : refused ?? valid
}

/** Returns a payload that its reader may change. */
export const ownPayload = ({ verified, payload }: ValidToken): Payload => payload ?? copyPayload(verified.payload)
