/** Authorities vouch for credentials: this instance, or a trusted issuer. Other files need not distinguish them. */
import { invalidToken, type Refusal } from '../refusal.ts'
import type { Life } from '../keys/life.ts'
import type { Settings } from '../settings/schema.ts'
import type { RegisteredClaims } from '../token/claims.ts'
import type { Payload, UserId } from '../../types/handlers.ts'

/** The purpose of a verification. For `refresh`, the token may have expired and its key may be retired; all other checks apply. */
export type Purpose = 'access' | 'refresh'

/** The content of a token with a valid signature. */
export interface SignedContent {
  readonly payload: Readonly<Payload>
  readonly registered: RegisteredClaims
}

/** A verified credential, such as a token. All requests with this credential share the payload: copy it before you hand it out. */
export interface Credential extends SignedContent {
  /** As it was sent. */
  readonly token: string
  /** Whether the next request with this token gets this same object. */
  readonly isRemembered: boolean
  readonly authority: Authority
  /** How long its key is valid. */
  readonly life: Readonly<Life>
  /** The object of `sessions/confirmations` that has processed this token, so that it is processed once. */
  processedBy?: object
}

/** When a credential is not valid any more, in milliseconds since 1970; Infinity for never. */
export interface Ends {
  /** When it expires. */
  readonly expiry: number
  /** When its key is retired. */
  readonly retirement: number
}

/** Vouches for credentials: this instance, or a trusted issuer. */
export interface Authority {
  /** The issuer of its tokens; null for this instance. */
  readonly issuer: string | null
  /** Whether its tokens come from a login at this service: they may have a session, and clients may refresh them. */
  readonly hasSessions: boolean
  /** Whether its tokens carry the custom claims of the application. */
  readonly hasCustomClaims: boolean
  /** Whether scopes are compared as whole strings. */
  readonly exactScopes: boolean
  /** The refusal by guards that do not accept its kind of credentials explicitly; undefined if every guard accepts them. */
  readonly unlessAccepted: Refusal | undefined
  /** Checks the claims of a credential under the settings of a guard, on every request. */
  check (content: SignedContent, settings: Settings, purpose: Purpose): Refusal | undefined
  /** Returns the user id of a valid credential. */
  userIdOf (payload: Readonly<Payload>, settings: Settings): UserId
  /** Returns the scopes of a valid credential; null if it has no claim for them. */
  scopesOf (payload: Readonly<Payload>, settings: Settings): string[] | null
  endsOf (credential: Credential, settings: Settings): Ends
}

/** The refusal of a token of a trusted issuer where only tokens of this instance are accepted. */
export const notOwn = invalidToken('it is the token of a trusted issuer, and only tokens of this instance are accepted here')
