/** How the keys of a token are found. */
import { invalidToken, type Refusal, type Verdict } from '../refusal.ts'
import type { Algorithm } from '../algorithms.ts'
import type { Life } from '../keys/life.ts'
import type { Key } from '../keys/material.ts'
import { maximumIssuerTokenLength, maximumTokenLength, type Dots, type Header } from '../token/form.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import type { Authority, Purpose, SignedContent } from './authority.ts'

/** A key that a token may be signed with. */
export interface UsableKey {
  readonly algorithm: Algorithm
  readonly verifying: Key
  readonly life: Readonly<Life>
}

/** Finds the keys of the tokens that one authority answers for. */
export interface KeyFinder {
  readonly authority: Authority
  /** How many characters its tokens may have. */
  readonly longestToken: number
  /**
   * Finds the keys that a token with this header may be signed with: at least one, or the refusal.
   * @returns a promise only where the keys have to be read first; it never rejects
   */
  find (header: Header, purpose: Purpose): MaybePromise<Verdict<readonly UsableKey[]>>
  /** Checks what never changes for a token, once: its type, and claims that the authority requires whatever the settings. */
  admit (content: SignedContent, header: Header): Refusal | undefined
}

/** The key finders of an instance, or of a guard with another key. A verifier, and the tokens that it remembers, belong to this object. */
export interface KeyFinders {
  /** How many characters a token of any of them may have. */
  readonly longestToken: number
  /** The header of own tokens, where all have the same; empty for none. */
  readonly expectedHeader: string
  /** Finds the authority that a token names. Nothing of the token is verified yet: this only chooses. */
  choose (token: string, dots: Dots, header: Header): Verdict<KeyFinder>
}

/** The refusal of a header that says something that must be understood, or not what must be known. */
export const badHeader = invalidToken('the header is not acceptable')

/** Finds the trusted issuer that a token names; undefined for none. */
export type FindIssuer = (token: string, dots: Dots) => KeyFinder | undefined

/**
 * Joins the key finders of an instance: first the issuer that a token names, then the own one, whose tokens need not name it.
 * @param own the refusal of all other tokens where the instance has no keys
 * @param findIssuer undefined without issuers
 */
export function joinFinders (own: Verdict<KeyFinder>, findIssuer: FindIssuer | undefined, expectedHeader = ''): KeyFinders {
  if (findIssuer === undefined) return { longestToken: maximumTokenLength, expectedHeader, choose: () => own }
  return { longestToken: maximumIssuerTokenLength, expectedHeader, choose: (token, dots) => findIssuer(token, dots) ?? own }
}
