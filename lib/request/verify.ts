/** Whether a token is valid (specification, States and transitions): its signature, then its claims, then the checks of the application. */
import type { FastifyRequest } from 'fastify'
import { invalidToken, Refusal, type Verdict } from '../refusal.ts'
import type { RequestSettings } from '../host/getters.ts'
import { checkClaims, checkIssuerClaims, copyPayload, secondsNow } from '../token/claims.ts'
import type { Purpose, TokenVerifier, VerifiedToken } from '../token/codec.ts'
import type { MaybePromise, Payload } from '../../types/handlers.ts'
import { runChecks, type Check } from './checks.ts'

/** The circumstances of one verification. */
export interface Context extends RequestSettings {
  /** Undefined for a token that did not come with a request. */
  readonly request: FastifyRequest | undefined
  /** Set where a check of the application is waited for. */
  waitsForCheck?: boolean
}

/** The refusal of a token for whose key a reader cannot wait. */
export const keyNotKnown = invalidToken('its key is not known yet, and is being fetched')

/** Returns the refusal of a token whose session has ended; undefined for any other, of which it notes that it was received. */
export type SessionCheck = (verified: VerifiedToken) => Refusal | undefined

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
  /** The checks of the application for tokens of trusted issuers; undefined without these. */
  readonly ofIssuers: readonly Check[] | undefined
}

/** Returns the refusal of a token whose signature is right. Only own tokens have claims of this instance, and sessions. */
function checkContent (verified: VerifiedToken, { session }: Checks, settings: Context['settings'], purpose: Purpose): Refusal | undefined {
  const { payload, registered, issuer } = verified
  if (issuer !== undefined) return checkIssuerClaims(payload, registered, issuer.userId, settings.leeway, secondsNow())
  return checkClaims(payload, registered, settings, secondsNow(), purpose === 'access') ?? session?.(verified)
}

function decide (verified: Verdict<VerifiedToken>, checks: Checks, context: Context, purpose: Purpose): MaybePromise<Verdict<ValidToken>> {
  if (verified instanceof Refusal) return verified
  const refusal = checkContent(verified, checks, context.settings, purpose)
  if (refusal !== undefined) return refusal
  // Where tokens of issuers are accepted, there is a list for them.
  const asked = verified.issuer === undefined ? checks.checks : checks.ofIssuers!
  if (asked.length === 0) return { verified, payload: undefined }
  const payload = copyPayload(verified.payload)
  const valid: ValidToken = { verified, payload }
  const refused = runChecks(asked, payload, context.request)
  if (!(refused instanceof Promise)) return refused ?? valid
  context.waitsForCheck = true
  return refused.then((settled) => settled ?? valid)
}

/**
 * Verifies a token. What may be remembered of it is its signature and its content, never the decision: that is made anew
 * on every request.
 * @returns the valid token, or the refusal; a promise only where a key or a check has to be waited for
 */
export function verifyToken (token: string, verifier: TokenVerifier, checks: Checks, context: Context, purpose: Purpose): MaybePromise<Verdict<ValidToken>> {
  const verified = verifier(token, purpose)
  return verified instanceof Promise ? verified.then((settled) => decide(settled, checks, context, purpose)) : decide(verified, checks, context, purpose)
}

/** Returns a payload that its reader may change. */
export const ownPayload = ({ verified, payload }: ValidToken): Payload => payload ?? copyPayload(verified.payload)
