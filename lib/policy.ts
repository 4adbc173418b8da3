/**
 * The settings of an instance, or of one guard of it, made ready: everything that can be decided before a request comes
 * is decided here. What depends on a request is prepared so far that only the getters that are needed run.
 */
import { HandlerFailed, InvalidConfiguration } from './errors.ts'
import { hostError, typeName } from './host.ts'
import { isHmac } from './keys/algorithms.ts'
import { signingKey, signingNames, verifyingKey, verifyingNames } from './keys/configured-keys.ts'
import { checkPair } from './keys/material.ts'
import { allowedValues, fits, given } from './settings/check.ts'
import type { Resolved } from './settings/configuration.ts'
import { prepareSettings, type GetterResults, type SettingsOfRequest } from './settings/per-request.ts'
import { accessorOf, redirectTarget, type KeySetting, type Settings } from './settings/schema.ts'
import { signerOf, verifierOf, type Signer, type Verifier } from './token/codec.ts'
import type { CodecCache } from './token/codec-cache.ts'
import type { MaybePromise } from '../types/handlers.ts'

/** What a guard may be given besides overrides of settings. */
export interface RedirectOptions {
  redirectOnFail?: boolean | undefined
  redirectUrl?: string | undefined
}

/** The settings of an instance or of one guard, made ready for requests. */
export interface Policy {
  readonly resolved: Resolved
  /** The settings as one request sees them. */
  readonly settingsOf: SettingsOfRequest
  /** Gives the verifier; a promise only where a key is computed asynchronously. */
  readonly verifier: (settings: Settings, results: GetterResults) => MaybePromise<Verifier>
  /** Gives the signer; a promise only where a key is computed asynchronously. */
  readonly signer: (settings: Settings, results: GetterResults) => MaybePromise<Signer>
  /** Where a request that is not authenticated is redirected to; undefined for no redirect. */
  readonly redirectUrl: ((settings: Settings) => string) | undefined
  /** The secret is shorter than RFC 7518 section 3.2 asks. */
  readonly isSecretShort: boolean
}

/** Prepares how a key that may be computed from the request becomes what signs or verifies. */
function prepareKey<Made> (
  resolved: Resolved, namesOf: typeof verifyingNames, make: (settings: Settings, given: Record<string, unknown>) => Made, ready: Made | undefined
): (settings: Settings, results: GetterResults) => MaybePromise<Made> {
  const { getters } = resolved
  const keys = resolved.keys()
  if (ready !== undefined) return () => ready
  return (settings, results) => {
    for (const name of namesOf(settings.algorithm)) {
      const getter = getters.get(name)
      if (getter !== undefined) {
        const use = (value: unknown) => {
          try {
            // Never an empty key, and never another one instead.
            if (!fits(name, value)) throw new InvalidConfiguration(`"${name}" must be ${allowedValues(name)}; ${accessorOf('get', name)} gave ${typeName(value)}.`, { section: 'settings' })
            return make(settings, { [name]: value })
          } catch (cause) {
            throw new HandlerFailed(accessorOf('get', name), { cause })
          }
        }
        const value = results.get(name, getter)
        if (!(value instanceof Promise)) return use(value)
        return value.then(use, (error: unknown) => { throw hostError(accessorOf('get', name), error) })
      }
      if (keys[name] !== undefined) break
    }
    try {
      return make(settings, keys)
    } catch (cause) {
      throw getters.has('algorithm') ? new HandlerFailed('getAlgorithm', { cause }) : cause
    }
  }
}

/** Whether tokens are signed with settings: an instance with endpoints must, one without may, a guard never does. */
export type Issuing = 'must' | 'may' | 'never'

/**
 * Prepares settings for requests.
 * @throws {RequiredKeysNotFound} where a key is missing
 * @throws {InvalidConfiguration} where a key is not fit, or a redirect target is none
 */
export function preparePolicy (resolved: Resolved, issues: Issuing, computed: () => CodecCache, redirect: RedirectOptions = {}): Policy {
  const { settings, getters } = resolved
  const { algorithm } = settings
  const keys = resolved.keys()
  const isComputed = (names: readonly KeySetting[]) => getters.has('algorithm') || names.some((name) => getters.has(name))
  const verifyingIsComputed = isComputed(verifyingNames(algorithm))
  const signingIsComputed = isComputed(signingNames(algorithm))

  const verifying = verifyingIsComputed ? undefined : verifyingKey(algorithm, keys)
  const isSigning = issues === 'must' || (issues === 'may' && signingNames(algorithm).some((name) => keys[name] !== undefined))
  const signing = isSigning && !signingIsComputed ? signingKey(algorithm, keys) : undefined
  if (signing !== undefined && verifying !== undefined && !isHmac(algorithm)) checkPair(signing, verifying)

  const verifier = verifying && !getters.has('tokenCacheSize') ? verifierOf(algorithm, verifying, settings.tokenCacheSize) : undefined
  const signer = signing && !getters.has('claimIat') ? signerOf(algorithm, signing, settings.claimIat) : undefined
  return {
    resolved,
    settingsOf: prepareSettings(resolved),
    verifier: prepareKey(resolved, verifyingNames, (current, given) => computed().verifier(current, given), verifier),
    signer: prepareKey(resolved, signingNames, (current, given) => computed().signer(current, given), signer),
    redirectUrl: prepareRedirect(redirect),
    isSecretShort: verifying?.short ?? false
  }
}

/** The options of a guard are an object, or left out. @throws {InvalidConfiguration} */
export function readOptions<Options extends object> (options: Options): Options {
  const found: unknown = options
  if (typeof found === 'object' && found !== null && !Array.isArray(found)) {
    // A request or a reply.
    if ('raw' in found) {
      throw new InvalidConfiguration('protect, scoped or injectUser itself was given to a route, which called it with a request. A route takes what it returns: call it, as in { preHandler: app.tokenAuth.protect() }.', { section: 'guards' })
    }
    // Without a prototype: what somebody wrote into that of all objects is no option.
    return Object.assign(Object.create(null), found)
  }
  const hint = typeof found === 'string' || Array.isArray(found) ? ' Scopes are the first parameter of scoped(), and several of them one list: scoped(["user", "admin"]).' : ''
  throw new InvalidConfiguration(`The options of a guard must be an object of overrides; given: ${typeName(found)}.${hint}`, { section: 'guards' })
}

const redirectPattern = new RegExp(redirectTarget.pattern!)

/** Checks where a guard redirects to. @throws {InvalidConfiguration} */
export function prepareRedirect ({ redirectOnFail = false, redirectUrl }: RedirectOptions): Policy['redirectUrl'] {
  if (typeof redirectOnFail !== 'boolean') throw new InvalidConfiguration(`"redirectOnFail" must be true or false; given: ${typeName(redirectOnFail)}.`, { section: 'guards' })
  if (redirectUrl !== undefined && !(typeof redirectUrl === 'string' && redirectPattern.test(redirectUrl))) {
    throw new InvalidConfiguration(`"redirectUrl" must be ${redirectTarget.allowed}; given: ${given('loginRedirectUrl', redirectUrl)}.`, { section: 'guards' })
  }
  if (!redirectOnFail) return undefined
  return (settings) => redirectUrl ?? settings.loginRedirectUrl
}
