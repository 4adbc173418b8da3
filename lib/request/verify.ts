/** Whether a credential is valid (specification, States and transitions): its signature, then its claims, then the checks of the application. */
import type { FastifyRequest } from 'fastify'
import type { Credential, Purpose } from '../authorities/authority.ts'
import { invalidToken, Refusal, type Verdict } from '../refusal.ts'
import type { RequestSettings } from '../host/getters.ts'
import { copyPayload } from '../token/claims.ts'
import type { SignedToken } from '../token/codec.ts'
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

/** A kind of credentials. */
export interface CredentialKind {
  /**
   * Verifies what never changes for a credential, such as its signature.
   * @returns undefined for a text that is not of this kind; a promise only where something has to be fetched
   * @throws {HandlerFailed} where a getter fails
   */
  verify (text: string, verification: Verification, purpose: Purpose): MaybePromise<Verdict<Credential>> | undefined
}

/** A credential that is valid now. */
export interface ValidCredential {
  readonly credential: Credential
  /** The private copy of the payload that the checks were given; undefined without checks. */
  readonly payload: Payload | undefined
}

function checkVerified (credential: Verdict<Credential>, checks: Checks, verification: Verification, purpose: Purpose): MaybePromise<Verdict<ValidCredential>> {
  if (credential instanceof Refusal) return credential
  const { authority } = credential
  const refusal = authority.check(credential, verification.settings, purpose) ??
    (authority.hasSessions ? checks.session?.(credential, verification.renewal?.accessToken.token === credential.token) : undefined)
  if (refusal !== undefined) return refusal
  const asked = authority.hasCustomClaims ? checks.all : checks.withoutClaims
  if (asked.length === 0) return { credential, payload: undefined }
  const payload = copyPayload(credential.payload)
  const valid: ValidCredential = { credential, payload }
  const refused = runChecks(asked, payload, verification.request)
  return refused instanceof Promise ? refused.then((settled) => settled ?? valid) : refused ?? valid
}

const noKind = invalidToken('it is of no kind of credentials that is accepted here')

/**
 * Verifies a credential. What may be remembered of it is its signature and its content, never the decision: that is made anew
 * on every request.
 * @returns the valid credential, or the refusal; a promise only where a key or a check has to be waited for
 */
export function verifyCredential (text: string, kinds: readonly CredentialKind[], checks: Checks, verification: Verification, purpose: Purpose): MaybePromise<Verdict<ValidCredential>> {
  for (const kind of kinds) {
    const credential = kind.verify(text, verification, purpose)
    if (credential instanceof Promise) return credential.then((settled) => checkVerified(settled, checks, verification, purpose))
    if (credential !== undefined) return checkVerified(credential, checks, verification, purpose)
  }
  return noKind
}

/** Returns a payload that its reader may change. */
export const ownPayload = ({ credential, payload }: ValidCredential): Payload => payload ?? copyPayload(credential.payload)
