/** The authorities of a registration: its own keys, and trusted issuers. A new kind is one more lookup here. */
import { checkKeyOverrides } from '../keys/key-ring.ts'
import type { Key } from '../keys/material.ts'
import type { Verdict } from '../refusal.ts'
import type { Resolved } from '../settings/configuration.ts'
import type { KeyStatus } from '../../types/keys.ts'
import { maximumIssuerTokenLength, maximumTokenLength } from '../token/form.ts'
import type { Authority, FindAuthority, Lookup } from './authority.ts'
import type { KeyOfRequest } from './computed-keys.ts'
import type { TrustedIssuers } from './issuers.ts'
import type { OwnKeys } from './own.ts'

/** The keys of a registration as the application controls them. */
export interface KeyControl {
  /** Undefined without the option `keys`. */
  readonly reload: (() => Promise<void>) | undefined
  status (): KeyStatus
}

export interface Authorities {
  /** How the authority of a token is found for all guards; where guards may have other keys, the key of the registration or of a guard. */
  readonly verifying: { readonly find: FindAuthority, readonly longestToken: number } | { keyFor (own: Resolved): Key | KeyOfRequest }
  /** Checks the overrides of a guard. @throws {InvalidConfiguration} */
  checkOverrides (overrides: Readonly<Record<string, unknown>>, overridden: Resolved): void
  /** What the application may do with the keys. */
  readonly control: KeyControl
}

/** Asks one kind of authority after the other. @param own the last one, whose tokens need not name it */
function askAll (lookups: readonly Lookup[], own: Verdict<Authority>): FindAuthority {
  return (token, dots, header) => {
    for (const lookup of lookups) {
      const found = lookup(token, dots, header)
      if (found !== undefined) return found
    }
    return own
  }
}

/** Joins the authorities of a registration. @param issuers undefined for none */
export function joinAuthorities (own: OwnKeys, issuers: TrustedIssuers | undefined): Authorities {
  const { verifying, keyOption } = own
  return {
    verifying: 'keyFor' in verifying
      ? verifying
      : {
          find: askAll(issuers === undefined ? [] : [issuers.lookup], verifying.authority),
          longestToken: issuers === undefined ? maximumTokenLength : maximumIssuerTokenLength
        },
    checkOverrides (overrides, { settings }) {
      if (keyOption !== undefined) checkKeyOverrides(overrides, keyOption)
      issuers?.checkClaimIss(settings.claimIss)
      own.admitGuard(settings)
    },
    control: Object.freeze({ reload: own.reload, status: () => ({ keys: own.status(), issuers: issuers?.status() ?? [] }) })
  }
}
