/** The rules of validity of a registration, or of one guard with overrides, prepared at registration. */
import type { Purpose } from '../authorities/authority.ts'
import type { Verdict } from '../refusal.ts'
import type { Resolved } from '../settings/configuration.ts'
import { prepareSettings, type SettingsOfRequest } from '../host/getters.ts'
import type { SettingName, Settings } from '../settings/schema.ts'
import type { VerifierSource } from '../token/verifier.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import type { Checks } from './checks.ts'
import { verifyToken, type ValidToken, type Verification } from './verify.ts'

/**
 * What makes a token valid under given settings. What follows from a refusal, such as a redirect, belongs to the guard.
 * Key material is reachable through no property of this object.
 */
export interface AccessRules {
  /** The settings, without what getters compute. */
  readonly settings: Readonly<Settings>
  /** Whether a getter computes a setting per request. */
  isComputed (name: SettingName): boolean
  /** The settings as one request sees them. */
  readonly settingsOf: SettingsOfRequest
  /**
   * Verifies a token.
   * @returns a promise only where a key or a check is asynchronous
   * @throws {HandlerFailed} where a getter fails
   */
  verify (token: string, verification: Verification, purpose: Purpose): MaybePromise<Verdict<ValidToken>>
}

/** Prepares rules. @param verifierFor gives the verifier for the settings of a request */
export function prepareRules (resolved: Resolved, verifierFor: VerifierSource, checks: Checks): AccessRules {
  const { settings, getters } = resolved
  return {
    settings,
    isComputed: (name) => getters.has(name),
    settingsOf: prepareSettings(resolved),
    verify (token, verification, purpose) {
      const verifier = verifierFor(verification)
      return verifier instanceof Promise
        ? verifier.then((made) => verifyToken(token, made, checks, verification, purpose))
        : verifyToken(token, verifier, checks, verification, purpose)
    }
  }
}
