/** The authority of this instance's tokens. Their keys are fixed, computed from requests, or listed in the option `keys`. */
import { isHmac, type Algorithm } from '../algorithms.ts'
import { RequiredKeysNotFound } from '../configuration-errors.ts'
import type { Prepared } from '../host/getters.ts'
import { defaultKid } from '../keys/key-id.ts'
import { checkKeyOverrides, checkPublished, isMixed, jwkSet } from '../keys/key-ring.ts'
import { endless, isAlive, isConfigured } from '../keys/life.ts'
import type { LiveKeys } from '../keys/live-keys.ts'
import { checkPair, residueIn, signingKey, signingNames, verifyingKey, verifyingNames, type Key } from '../keys/material.ts'
import { whenSettled } from '../promises.ts'
import { invalidToken, Refusal, type Verdict } from '../refusal.ts'
import type { Overrides, Resolved } from '../settings/configuration.ts'
import { keySettings, type KeySetting } from '../settings/schema.ts'
import { checkClaims, secondsNow } from '../token/claims.ts'
import { decoderOf, shared } from '../token/codec.ts'
import { isPlainJwt, maximumTokenLength, type Header } from '../token/form.ts'
import { readScopes } from '../token/scopes.ts'
import type { UserId } from '../../types/handlers.ts'
import type { KeyStatus } from '../../types/keys.ts'
import { asClaimed } from '../values.ts'
import type { Authority } from './authority.ts'
import { CheckedKeys, prepareComputedKey } from './computed-keys.ts'
import type { TrustedIssuers } from './issuers.ts'
import { badHeader, joinFinders, type KeyFinder, type KeyFinders, type UsableKey } from './key-finder.ts'
import type { SigningKey } from './signer.ts'

const unknownKey = invalidToken('no key of this instance has its "kid" and "alg", or the key is retired')

const wrongAlgorithm = invalidToken('its "alg" is not the algorithm of this instance')

/** Vouches for tokens of this instance, whichever key has signed them. */
export const ownAuthority: Authority = Object.freeze<Authority>({
  issuer: null,
  hasSessions: true,
  hasCustomClaims: true,
  exactScopes: false,
  unlessAccepted: undefined,
  check: ({ payload, registered }, settings, purpose) => checkClaims(payload, registered, settings, secondsNow(), purpose === 'access'),
  // `check` has verified its type.
  userIdOf: (payload, { userId }) => asClaimed(userId, payload[userId] as UserId),
  scopesOf: (payload, { scopesName }) => Object.hasOwn(payload, scopesName) ? readScopes(payload[scopesName]) : null,
  endsOf: ({ registered: { exp }, life }, { verifyExp, leeway }) => ({
    // If "verifyExp" is false, guards also accept expired tokens.
    expiry: verifyExp && exp !== undefined ? (exp + leeway) * 1000 : Infinity,
    retirement: life.until
  })
})

/**
 * Creates the key finder for tokens of this instance.
 * @param findKeys finds the keys that may have signed a token with this header, including retired keys
 */
export const ownFinder = (findKeys: (header: Header) => Verdict<readonly UsableKey[]>): KeyFinder => ({
  authority: ownAuthority,
  longestToken: maximumTokenLength,
  find (header, purpose) {
    const found = findKeys(header)
    if (found instanceof Refusal) return found
    const isUsable = purpose === 'refresh' ? isConfigured : isAlive
    const usable = found.filter(({ life }) => isUsable(life))
    return usable.length > 0 ? usable : unknownKey
  },
  admit: (_content, { typ }) => isPlainJwt(typ) ? undefined : badHeader
})

/** Finds one key that never changes, whatever the `kid` of a token is. */
function oneKey (algorithm: Algorithm, verifying: Key): (header: Header) => Verdict<readonly UsableKey[]> {
  const keys = [{ algorithm, verifying, life: endless }]
  return ({ alg }) => alg === algorithm ? keys : wrongAlgorithm
}

/** Whether the `kid` in the header of a token of this instance is invalid. */
const hasBadKid = ({ kid }: Header) => kid === null || kid === ''

/** Returns the key finders of one key. All instances with this key share them, including the remembered tokens. */
export const findersOf: (algorithm: Algorithm, key: Key) => KeyFinders = shared((algorithm, key) => {
  // Built now, not during the first request.
  decoderOf(algorithm, key)
  const header = Buffer.from(JSON.stringify({ alg: algorithm, typ: 'JWT' })).toString('base64url')
  return joinFinders(ownFinder(oneKey(algorithm, key)), undefined, header)
})

/** Own keys, as a registration and its guards use them. */
export interface OwnKeys {
  /** The fingerprints of the keys that verify; empty if they are computed per request, or if there is no key. */
  readonly fingerprints: readonly string[]
  /** Whether a secret is too short or can be guessed. */
  readonly isWeak: boolean
  /** Advice on characters that probably do not belong to a secret; undefined if there are none. */
  readonly residue: string | undefined
  /** Whether secrets and pairs are used together. */
  readonly isMixed: boolean
  /** The key that signs, if it never changes. */
  readonly signingKey: Key | undefined
  /** The key finders for guards without overrides of keys. */
  readonly finders: Prepared<KeyFinders>
  /** The key that signs tokens. */
  readonly signing: Prepared<SigningKey>
  /**
   * Finds the keys of tokens for a guard.
   * @param overrides the settings that it overrides
   * @param overridden all settings with them
   * @throws {InvalidConfiguration} for a key beside "keys" or "issuers", and if a token could outlive its key
   */
  findersFor (overrides: Overrides, overridden: Resolved): Prepared<KeyFinders>
  /** Returns the JWK set to publish. */
  jwkSet (): string
  /** Undefined without the option `keys`. */
  readonly reload: (() => Promise<void>) | undefined
  status (): KeyStatus['keys']
}

/** Whether a key that signs is read: required with endpoints, optional without endpoints, never for a guard. */
type Signing = 'must' | 'may' | 'never'

/**
 * Checks the keys that are known at registration.
 * @returns each key; undefined for one that is computed per request or not needed
 * @throws {RequiredKeysNotFound} for a missing key
 * @throws {InvalidConfiguration} for a key that does not fit the algorithm, or two halves that are not a pair
 */
function readFixed (
  { settings: { algorithm }, getters, keys }: Resolved,
  signs: Signing
): { verifying: Key | undefined; signing: Key | undefined } {
  const given = keys()
  const isComputed = (names: readonly KeySetting[]) => getters.has('algorithm') || names.some((name) => getters.has(name))
  const isSigning = signs === 'must' || (signs === 'may' && signingNames(algorithm).some((name) => given[name] !== undefined))
  const verifying = isComputed(verifyingNames(algorithm)) ? undefined : verifyingKey(algorithm, given)
  const signing = isSigning && !isComputed(signingNames(algorithm)) ? signingKey(algorithm, given) : undefined
  if (signing !== undefined && verifying !== undefined && !isHmac(algorithm)) checkPair(signing, verifying)
  return { verifying, signing }
}

/** Whether an instance accepts tokens of trusted issuers only, so that it needs no key. */
export function isWithoutKeys ({ settings, keys }: Resolved): boolean {
  const given = keys()
  return !settings.authMode && keySettings.every((name) => given[name] === undefined)
}

const unknownIssuer = invalidToken('its "iss" is not one of the trusted issuers')

/**
 * Prepares keys that are fixed, or computed per request.
 * @param issuers the trusted issuers. With them, an instance may have no key, and guards cannot override keys
 */
export function fixedKeys (resolved: Resolved, issuers: TrustedIssuers | undefined): OwnKeys {
  const { algorithm, authMode, pathToJwks } = resolved.settings
  const hasNone = issuers !== undefined && isWithoutKeys(resolved)
  const { verifying, signing } = hasNone ? { verifying: undefined, signing: undefined } : readFixed(resolved, authMode ? 'must' : 'may')
  const isPublic = verifying !== undefined && !isHmac(algorithm)
  if (pathToJwks !== null) checkPublished(isPublic)
  const published = isPublic && pathToJwks !== null ? jwkSet([{ kid: defaultKid(verifying.keyObject), algorithm, verifying }]) : ''
  const checked = new CheckedKeys()

  function keyFinders (own: Resolved, key: Key | undefined): Prepared<KeyFinders> {
    if (key !== undefined) return findersOf(own.settings.algorithm, key)
    const keyOf = prepareComputedKey(checked, 'verify', own)
    return (context) => whenSettled(keyOf(context), (one) => findersOf(context.settings.algorithm, one))
  }
  function withIssuers ({ findIssuer }: TrustedIssuers): KeyFinders {
    if (verifying === undefined) return joinFinders(unknownIssuer, findIssuer)
    const find = oneKey(algorithm, verifying)
    return joinFinders(
      ownFinder((header) => (hasBadKid(header) ? badHeader : find(header))),
      findIssuer
    )
  }
  function prepareSigning (): Prepared<SigningKey> {
    if (signing !== undefined) return { algorithm, signing, kid: undefined, life: endless }
    const keyOf = prepareComputedKey(checked, 'sign', resolved)
    return (context) =>
      whenSettled(keyOf(context), (one) => ({ algorithm: context.settings.algorithm, signing: one, kid: undefined, life: endless }))
  }

  const finders = issuers === undefined ? keyFinders(resolved, verifying) : withIssuers(issuers)
  return {
    fingerprints: verifying === undefined ? [] : [verifying.fingerprint],
    isWeak: verifying?.isWeak === true,
    residue: verifying?.residue,
    isMixed: false,
    signingKey: signing,
    finders,
    signing: prepareSigning(),
    findersFor (overrides, overridden) {
      if (issuers === undefined) return keyFinders(overridden, readFixed(overridden, 'never').verifying)
      checkKeyOverrides(overrides, 'issuers')
      return finders
    },
    jwkSet: () => published,
    reload: undefined,
    status: () => []
  }
}

/** Prepares the keys of the option `keys`. */
export function listedKeys (live: LiveKeys, issuers: TrustedIssuers | undefined): OwnKeys {
  const { keys } = live.ring
  const finders = joinFinders(
    ownFinder((header) => (hasBadKid(header) ? badHeader : live.ring.find(header.alg, header.kid ?? undefined))),
    issuers?.findIssuer
  )
  return {
    fingerprints: keys.map(({ verifying }) => verifying.fingerprint),
    isWeak: keys.some(({ verifying }) => verifying.isWeak),
    residue: residueIn(keys.map(({ verifying }) => verifying)),
    isMixed: isMixed(live.ring),
    signingKey: undefined,
    finders,
    signing () {
      const key = live.signing()
      if (key === undefined) {
        throw new RequiredKeysNotFound(
          'No key of "keys" signs now. Give a secret or private key without "signFrom", or with a "signFrom" in the past.',
          { page: 'keys.md', duringRequest: true }
        )
      }
      return key
    },
    findersFor (overrides, { settings }) {
      checkKeyOverrides(overrides, 'keys')
      live.admitGuard(settings)
      return finders
    },
    jwkSet: () => live.jwkSet(),
    reload: () => live.reload(),
    status: () => live.status()
  }
}
