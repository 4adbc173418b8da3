/** The rules of validity of a registration, or of one guard with overrides, prepared at registration. */
import type { Purpose } from '../authorities/authority.ts'
import { prepareSettings, type SettingsOfRequest } from '../host/getters.ts'
import { whenSettled } from '../promises.ts'
import { Refusal, type Verdict } from '../refusal.ts'
import type { Resolved } from '../settings/configuration.ts'
import type { SettingName, Settings } from '../settings/schema.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import type { Checks } from './checks.ts'
import { verifyCredential, type CredentialKind, type ValidCredential, type Verification } from './verify.ts'

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
   * Verifies a credential.
   * @param acceptsAny whether the caller decides about `Authority.unlessAccepted`; otherwise such a credential is refused
   * @returns a promise only where a key or a check is asynchronous
   * @throws {HandlerFailed} where a getter fails
   */
  verify (text: string, verification: Verification, purpose: Purpose, acceptsAny?: boolean): MaybePromise<Verdict<ValidCredential>>
}

const unlessAccepted = (verdict: Verdict<ValidCredential>) => verdict instanceof Refusal ? verdict : verdict.credential.authority.unlessAccepted ?? verdict

/** Prepares rules. @param kinds the kinds of credentials, of which the last one takes every text */
export function prepareRules (resolved: Resolved, kinds: readonly CredentialKind[], checks: Checks): AccessRules {
  const { settings, getters } = resolved
  return {
    settings,
    isComputed: (name) => getters.has(name),
    settingsOf: prepareSettings(resolved),
    verify (text, verification, purpose, acceptsAny = false) {
      const verdict = verifyCredential(text, kinds, checks, verification, purpose)
      return acceptsAny ? verdict : whenSettled(verdict, unlessAccepted)
    }
  }
}
