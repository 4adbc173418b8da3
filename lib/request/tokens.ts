/** Access tokens as a kind of credentials: those of this instance and of trusted issuers. */
import type { Credential, Purpose } from '../authorities/authority.ts'
import type { KeyFinders } from '../authorities/key-finder.ts'
import { verifierOf, type TokenVerifier } from '../authorities/verifier.ts'
import type { Prepared } from '../host/getters.ts'
import { whenSettled } from '../promises.ts'
import type { Verdict } from '../refusal.ts'
import type { Resolved } from '../settings/configuration.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import type { CredentialKind, Verification } from './verify.ts'

function verifyToken (
  verifier: TokenVerifier,
  token: string,
  verification: Verification,
  purpose: Purpose
): MaybePromise<Verdict<Credential>> {
  const { renewal } = verification
  // After a renewal, a guard may still verify a token that the client sent, for example in the header.
  const signedBy = renewal?.accessToken.token === token ? renewal.accessToken.signedBy : undefined
  const verified = verifier(token, purpose, signedBy)
  if (!(verified instanceof Promise)) return verified
  verification.waitsForKeys = true
  return verified.then((settled) => {
    verification.waitsForKeys = false
    return settled
  })
}

/** Prepares the kind of credentials. It handles any text, so it must be the last one of a list. */
export function prepareTokens (finders: Prepared<KeyFinders>, { settings: { tokenCacheSize }, getters }: Resolved): CredentialKind {
  if (typeof finders !== 'function' && !getters.has('tokenCacheSize')) {
    const verifier = verifierOf(finders, tokenCacheSize)
    return { verify: (token, verification, purpose) => verifyToken(verifier, token, verification, purpose) }
  }
  const findersOf = typeof finders === 'function' ? finders : () => finders
  return {
    verify: (token, verification, purpose) =>
      whenSettled(findersOf(verification), (found) =>
        verifyToken(verifierOf(found, verification.settings.tokenCacheSize), token, verification, purpose)
      )
  }
}
