/** The rules of validity of a registration, or of one guard with overrides, prepared at registration. */
import type { Verdict } from '../refusal.ts'
import { verifyingNames } from '../keys/configured-keys.ts'
import { prepareFromKey, type FromKey } from '../keys/prepare.ts'
import type { Resolved } from '../settings/configuration.ts'
import { prepareSettings, type SettingsOfRequest } from '../host/getters.ts'
import type { SettingName, Settings } from '../settings/schema.ts'
import type { Purpose, TokenVerifier, Verifier } from '../token/codec.ts'
import type { CodecCache } from '../token/codec-cache.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import { verifyToken, type Checks, type Context, type ValidToken } from './verify.ts'

/**
 * What makes a token valid under given settings. What follows from a refusal, such as a redirect, belongs to the guard.
 * Key material is reachable through no property of this object.
 */
export interface AccessRules {
  /** The settings, without what getters compute. */
  readonly settings: Readonly<Settings>
  /** Whether a getter computes a setting per request. */
  isComputed (name: SettingName): boolean
  /** Whether a token may have to wait for the keys of a trusted issuer. */
  readonly readsKeys: boolean
  /** The settings as one request sees them. */
  readonly settingsOf: SettingsOfRequest
  /**
   * Verifies a token.
   * @returns a promise only where a key or a check is asynchronous
   * @throws {HandlerFailed} where a getter fails
   */
  verify (token: string, context: Context, purpose: Purpose): MaybePromise<Verdict<ValidToken>>
}

function prepareVerify (verifierFor: FromKey<Verifier>, checks: Checks): AccessRules['verify'] {
  return (token, context, purpose) => {
    const verifier = verifierFor(context)
    return verifier instanceof Promise
      ? verifier.then((made) => verifyToken(token, made, checks, context, purpose))
      : verifyToken(token, verifier, checks, context, purpose)
  }
}

/**
 * Prepares rules.
 * @param verifier undefined where it depends on the request
 * @param codecs gives the verifiers of keys that are computed per request
 */
export function prepareRules (resolved: Resolved, verifier: TokenVerifier | undefined, checks: Checks, codecs: () => CodecCache): AccessRules {
  const { settings, getters } = resolved
  return {
    settings,
    isComputed: (name) => getters.has(name),
    readsKeys: checks.ofIssuers !== undefined,
    settingsOf: prepareSettings(resolved),
    verify: verifier !== undefined
      ? (token, context, purpose) => verifyToken(token, verifier, checks, context, purpose)
      : prepareVerify(prepareFromKey(resolved, verifyingNames, (current, given) => codecs().verifier(current, given)), checks)
  }
}
