/** The variants of hostile requests, and the causes that they find. */
import type { Trap } from './listener.ts'

/** A hostile request, by its differences from the request that the route accepts. */
export interface Variant {
  /** The stable name of the request. */
  readonly name: string
  /** What is wrong if the request is let in. */
  readonly wrong: string
  /** The token in place of the accepted one; undefined for a request without a token. */
  readonly token?: string
  readonly method?: string
  readonly url?: string
  /** Headers that are added, or replaced. */
  readonly headers?: Readonly<Record<string, string>>
  /** Why it is not a finding if the request is let in. */
  readonly note?: string
  /** The path of the listener that a guard fetches if it trusts the token. */
  readonly trap?: Trap
}

/** The causes of findings. Each implies the later ones: without verification of signatures, for example, all forged tokens are let in. */
export const causes = {
  noToken: 'The route does not require a token.',
  unverified: 'The guard does not verify signatures.',
  unsigned: 'The guard accepts tokens that are not signed.',
  knownSecret: 'The guard accepts tokens that are signed with a secret that everybody knows.',
  publicSecret: 'The guard takes the public key for a secret, so everybody can sign.',
  namedKey: 'The guard verifies tokens with a key that the token itself names.'
} as const

/** Makes variants of named tokens with the same cause. */
export const variantsOf = (wrong: string, tokens: Readonly<Record<string, string>>): Variant[] =>
  Object.entries(tokens).map(([name, token]) => ({ name, wrong, token }))
