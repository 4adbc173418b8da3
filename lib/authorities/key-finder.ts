/** How the keys of a token are found. */
import { invalidToken, Refusal, type Verdict } from '../refusal.ts'
import type { Algorithm } from '../algorithms.ts'
import type { Life } from '../keys/life.ts'
import type { Key } from '../keys/material.ts'
import { maximumIssuerTokenLength, maximumTokenLength, type Dots, type Header } from '../token/form.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import type { Authority, Purpose, SignedContent } from './authority.ts'

/** A key that may have signed a token. */
export interface UsableKey {
  readonly algorithm: Algorithm
  readonly verifying: Key
  readonly life: Readonly<Life>
}

/** Finds the keys for the tokens of one authority. */
export interface KeyFinder {
  readonly authority: Authority
  /** The maximum length of its tokens, in characters. */
  readonly longestToken: number
  /**
   * Finds the keys that may have signed a token with this header: at least one, or the refusal.
   * @returns a promise only if the keys have to be read first; it never rejects
   */
  find (header: Header, purpose: Purpose): MaybePromise<Verdict<readonly UsableKey[]>>
  /** Checks once what never changes for a token: its type, and claims that the authority requires under all settings. */
  admit (content: SignedContent, header: Header): Refusal | undefined
}

/** The key finders of an instance, or of a guard with another key. A verifier, and the tokens that it remembers, belong to this object. */
export interface KeyFinders {
  /** The maximum length of their tokens, in characters. */
  readonly longestToken: number
  /** The header of this instance's tokens if all have the same header; otherwise empty. */
  readonly expectedHeader: string
  /** Chooses the finder for a token, by its `iss`. The token is not verified yet. */
  choose (token: string, dots: Dots, header: Header): Verdict<KeyFinder>
}

/** The refusal of a header with a member that is not supported, or without a member that is required. */
export const badHeader = invalidToken('the header is not acceptable')

/** Finds the trusted issuer in the `iss` of a token; undefined if there is none. */
export type FindIssuer = (token: string, dots: Dots) => KeyFinder | undefined

/**
 * Joins the key finders of an instance: first the trusted issuer in `iss`, then this instance, whose tokens need no `iss`.
 * @param own the finder for tokens of this instance, or their refusal if the instance has no keys
 * @param findIssuer undefined without issuers
 */
export function joinFinders (own: Verdict<KeyFinder>, findIssuer: FindIssuer | undefined, expectedHeader = ''): KeyFinders {
  if (findIssuer === undefined) return { longestToken: maximumTokenLength, expectedHeader, choose: () => own }
  const ownOrStranger = own instanceof Refusal ? own : withReason(own)
  return { longestToken: maximumIssuerTokenLength, expectedHeader, choose: (token, dots) => findIssuer(token, dots) ?? ownOrStranger }
}

const stranger = invalidToken('its "iss" is not that of an entry of "issuers", and no key of this instance has its "alg" and "kid"')

/** The finder for tokens of this instance beside issuers: the reason of a refusal names both. */
const withReason = (own: KeyFinder): KeyFinder => ({
  ...own,
  find (header, purpose) {
    const found = own.find(header, purpose)
    return found instanceof Refusal && found !== badHeader ? stranger : found
  }
})
