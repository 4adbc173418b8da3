/** Authorities: who vouches for a token. What depends on that is asked of the authority, so that no other file has to know which kinds there are. */
import { invalidToken, type Refusal, type Verdict } from '../refusal.ts'
import type { Algorithm } from '../keys/algorithms.ts'
import type { Life } from '../keys/life.ts'
import type { Key } from '../keys/material.ts'
import type { Settings } from '../settings/schema.ts'
import type { RegisteredClaims } from '../token/claims.ts'
import type { Dots, Header } from '../token/form.ts'
import type { MaybePromise, Payload, UserId } from '../../types/handlers.ts'

/** What a token is verified for. A token for `refresh` may have expired, and its key may have been retired; everything else must hold. */
export type Purpose = 'access' | 'refresh'

/** A key that a token may be signed with. */
export interface UsableKey {
  readonly algorithm: Algorithm
  readonly verifying: Key
  readonly life: Readonly<Life>
}

/** What a token with a valid signature says. */
export interface SignedContent {
  readonly payload: Readonly<Payload>
  readonly registered: RegisteredClaims
}

/** What a verified token holds. All requests with this token share the payload: copy it before you hand it out. */
export interface VerifiedToken extends SignedContent {
  readonly token: string
  /** Whether the next request with this token gets this same object. */
  readonly isRemembered: boolean
  readonly authority: Authority
  /** How long its key is valid. */
  readonly life: Readonly<Life>
  /** The session store that was told that this token was received, of those that its sessions may be in; set by `sessions/confirmations`. */
  toldTo?: object
}

/** When a token is not valid any more, in milliseconds since 1970; Infinity for never. */
export interface Ends {
  /** When it expires. */
  readonly expiry: number
  /** When its key is retired. */
  readonly retirement: number
}

/** Who vouches for a token: this instance, or a trusted issuer. */
export interface Authority {
  /** The issuer of its tokens; null for this instance. */
  readonly issuer: string | null
  /** Whether its tokens are those of a login here, which may have a session and with which a client may refresh. */
  readonly hasSessions: boolean
  /** Whether its tokens carry the custom claims of the application. */
  readonly hasCustomClaims: boolean
  /** Whether scopes are compared as whole strings. */
  readonly exactScopes: boolean
  /** How many characters its tokens may have. */
  readonly longestToken: number
  /**
   * Finds the keys that a token with this header may be signed with: at least one, or the refusal.
   * @returns a promise only where the keys have to be read first; it never rejects
   */
  find (header: Header, purpose: Purpose): MaybePromise<Verdict<readonly UsableKey[]>>
  /** Checks what never changes for a token, once: its type, and claims that the authority requires whatever the settings. */
  admit (content: SignedContent, header: Header): Refusal | undefined
  /** Checks the claims of a token under given settings, for every request. */
  check (content: SignedContent, settings: Settings, purpose: Purpose): Refusal | undefined
  /** Returns the user id of a valid token. */
  userIdOf (payload: Readonly<Payload>, settings: Settings): UserId
  /** Returns the scopes of a valid token; null for a token without a claim for them. */
  scopesOf (payload: Readonly<Payload>, settings: Settings): string[] | null
  endsOf (token: VerifiedToken, settings: Settings): Ends
}

/**
 * Finds the authority that a token names. Nothing of the token is verified yet: this only chooses among the authorities of an instance.
 * @returns undefined where the token names none of this kind, so that the next kind is asked
 */
export type Lookup = (token: string, dots: Dots, header: Header) => Verdict<Authority> | undefined

/** As {@link Lookup}, for all kinds of an instance. */
export type FindAuthority = (token: string, dots: Dots, header: Header) => Verdict<Authority>

/** The refusal of a header that says something that must be understood, or not what must be known. */
export const badHeader = invalidToken('the header is not acceptable')

/** The refusal of a token without sessions where only the token of a login here is of use. */
export const notOwn = invalidToken('it is the token of a trusted issuer, and only a token of this instance is of use here')
