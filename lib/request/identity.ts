/** Where a valid token carries the user id and the scopes: under the settings of the registration, or the rules of its issuer. */
import type { Refusal } from '../refusal.ts'
import type { Settings } from '../settings/schema.ts'
import type { VerifiedToken } from '../token/codec.ts'
import { notOwn } from '../token/issuer-token.ts'
import { readScopes } from '../token/scopes.ts'
import type { UserId } from '../../types/handlers.ts'

/** Returns the user id of a valid token. */
export function userIdIn ({ payload, issuer }: VerifiedToken, settings: Settings): UserId {
  // It was checked with the other claims.
  return payload[issuer === undefined ? settings.userId : issuer.userId] as UserId
}

/** Returns the scopes of a token; null for a token without a claim for them. */
export function scopesIn ({ payload, issuer }: VerifiedToken, settings: Settings): string[] | null {
  if (issuer === undefined) {
    const { scopesName } = settings
    return Object.hasOwn(payload, scopesName) ? readScopes(payload[scopesName]) : null
  }
  const claims = issuer.scopesNames.filter((name) => Object.hasOwn(payload, name))
  return claims.length === 0 ? null : claims.flatMap((name) => readScopes(payload[name]))
}

/** Returns the refusal of a valid token of a trusted issuer, whose users have no sessions here; null for any other. */
export const refuseForeign = ({ trusted }: { readonly trusted: VerifiedToken['issuer'] }): Refusal | null => trusted === undefined ? null : notOwn
