/** Everything that the application supplies to one registration besides settings and responses. */
import type { CustomClaim, ExtraVerification } from '../../types/handlers.ts'
import type { Settings } from '../settings/schema.ts'
import { readCustomClaims } from './custom-claims.ts'
import { readExtraVerifications } from './extra-verifications.ts'
import { readHandlers, type HostHandlers } from './handlers.ts'

export interface Host {
  readonly handlers: Partial<HostHandlers>
  readonly customClaims: readonly CustomClaim[]
  readonly extraVerifications: readonly ExtraVerification[]
}

/**
 * Reads handlers, custom claims and extra verifications from the options of a registration.
 * @throws {InvalidConfiguration} {AuthenticateNotImplemented} {RefreshTokenNotImplemented} {InvalidCustomClaim}
 */
export function collectHost (options: Readonly<Record<string, unknown>>, settings: Settings, hasSessions: boolean): Host {
  const { customClaims = [], extraVerifications = [] } = options
  return {
    handlers: readHandlers(options, settings, hasSessions),
    customClaims: readCustomClaims(customClaims, settings, hasSessions),
    extraVerifications: readExtraVerifications(extraVerifications)
  }
}
