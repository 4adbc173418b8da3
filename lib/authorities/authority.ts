/** Authorities: who answers for a credential. What depends on that is asked of the authority, so that no other file has to know which there are. */
import { invalidToken, type Refusal } from '../refusal.ts'
import type { Life } from '../keys/life.ts'
import type { Settings } from '../settings/schema.ts'
import type { RegisteredClaims } from '../token/claims.ts'
import type { Payload, UserId } from '../../types/handlers.ts'

/** What a token is verified for. A token for `refresh` may have expired, and its key may have been retired; everything else must hold. */
export type Purpose = 'access' | 'refresh'

/** What a token with a valid signature says. */
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
  /** The session store that was told that this token was received, of those that its sessions may be in; set by `sessions/confirmations`. */
  toldTo?: object
}

/** When a credential is not valid any more, in milliseconds since 1970; Infinity for never. */
export interface Ends {
  /** When it expires. */
  readonly expiry: number
  /** When its key is retired. */
  readonly retirement: number
}

/** Who answers for a credential: this instance, or a trusted issuer. */
export interface Authority {
  /** The issuer of its tokens; null for this instance. */
  readonly issuer: string | null
  /** Whether its tokens are those of a login here, which may have a session and with which a client may refresh. */
  readonly hasSessions: boolean
  /** Whether its tokens carry the custom claims of the application. */
  readonly hasCustomClaims: boolean
  /** Whether scopes are compared as whole strings. */
  readonly exactScopes: boolean
  /** How its credentials are refused where nobody has asked for their kind; undefined for those that every guard accepts. */
  readonly unlessAccepted: Refusal | undefined
  /** Checks the claims of a credential under given settings, for every request. */
  check (content: SignedContent, settings: Settings, purpose: Purpose): Refusal | undefined
  /** Returns the user id of a valid credential. */
  userIdOf (payload: Readonly<Payload>, settings: Settings): UserId
  /** Returns the scopes of a valid credential; null for one without a claim for them. */
  scopesOf (payload: Readonly<Payload>, settings: Settings): string[] | null
  endsOf (credential: Credential, settings: Settings): Ends
}

/** The refusal of a token without sessions where only the token of a login here is of use. */
export const notOwn = invalidToken('it is the token of a trusted issuer, and only a token of this instance is of use here')
