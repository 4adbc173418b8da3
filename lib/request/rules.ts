/** The rules that a valid token satisfies, for a registration or for one guard with overrides. Prepared at registration. */
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
 * Verifies tokens under the settings of a registration or a guard. The guard responds to refusals, for example with a
 * redirect. No property of this object gives access to key material.
 */
export interface AccessRules {
  /** The settings, without the values that getters compute. */
  readonly settings: Readonly<Settings>
  /** Whether a getter computes a setting per request. */
  isComputed (name: SettingName): boolean
  /** Returns the settings for one request. */
  readonly settingsOf: SettingsOfRequest
  /**
   * Verifies a credential.
   * @param acceptsAny whether the caller checks `Authority.unlessAccepted`; otherwise this method refuses such a credential
   * @returns a promise only if a key or a check is asynchronous
   * @throws {HandlerFailed} if a getter fails
   */
  verify (text: string, verification: Verification, purpose: Purpose, acceptsAny?: boolean): MaybePromise<Verdict<ValidCredential>>
}

const unlessAccepted = (verdict: Verdict<ValidCredential>) =>
  verdict instanceof Refusal ? verdict : (verdict.credential.authority.unlessAccepted ?? verdict)

/** Prepares rules. @param kinds the kinds of credentials; the last one handles any text */
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
