/** What hostile requests are made of. */
import type { Trap } from './listener.ts'

/** A hostile request, by what distinguishes it from the one that the route accepts. */
export interface Variant {
  /** What is sent, in words that stay the same. */
  readonly name: string
  /** What is wrong where it is let in. */
  readonly wrong: string
  /** What is sent in the place of the token; undefined for a request without one. */
  readonly token?: string
  readonly method?: string
  readonly url?: string
  /** Headers that are added, or replaced. */
  readonly headers?: Readonly<Record<string, string>>
  /** Why it is no mistake to let it in. */
  readonly note?: string
  /** What of the listener is fetched where the guard believes the token. */
  readonly trap?: Trap
}

/** What is wrong, in the order in which one implies the others: where no signature is verified, each forged token is let in. */
export const causes = {
  noToken: 'The route does not require a token.',
  unverified: 'The guard does not verify signatures.',
  unsigned: 'The guard accepts tokens that are not signed.',
  knownSecret: 'The guard accepts tokens that are signed with a secret that everybody knows.',
  publicSecret: 'The guard takes the public key for a secret, so everybody can sign.',
  namedKey: 'The guard verifies tokens with a key that the token itself names.'
} as const

/** Names tokens, and says of all of them what is wrong where one is let in. */
export const variantsOf = (wrong: string, tokens: Readonly<Record<string, string>>): Variant[] =>
  Object.entries(tokens).map(([name, token]) => ({ name, wrong, token }))
