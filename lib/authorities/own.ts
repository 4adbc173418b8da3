/** What this instance vouches for: tokens that its own keys sign, be they fixed, computed from requests, or listed in the option `keys`. */
import { isHmac, type Algorithm } from '../keys/algorithms.ts'
import { defaultKid } from '../keys/key-id.ts'
import { checkPublished, isMixed, jwkSet, type RingKey } from '../keys/key-ring.ts'
import { endless, isAlive, isConfigured } from '../keys/life.ts'
import type { LiveKeys } from '../keys/live-keys.ts'
import { checkPair, residueIn, signingKey, signingNames, verifyingKey, verifyingNames, type Key } from '../keys/material.ts'
import { invalidToken, Refusal, type Verdict } from '../refusal.ts'
import type { Resolved } from '../settings/configuration.ts'
import { keySettings, type KeySetting, type Settings } from '../settings/schema.ts'
import { checkClaims, secondsNow } from '../token/claims.ts'
import { isPlainJwt, maximumTokenLength, type Header } from '../token/form.ts'
import { readScopes } from '../token/scopes.ts'
import type { UserId } from '../../types/handlers.ts'
import type { KeyStatus } from '../../types/keys.ts'
import { asClaimed } from '../values.ts'
import { badHeader, type Authority, type UsableKey } from './authority.ts'
import { CheckedKeys, prepareComputedKey, type KeyOfRequest } from './computed-keys.ts'

const unknownKey = invalidToken('no key of this instance has its "kid" and "alg", or the key is retired')

const wrongAlgorithm = invalidToken('its "alg" is not the algorithm of this instance')

/** Finds the keys that may have signed a token with this header, also those that are retired. */
type FindKeys = (header: Header) => Verdict<readonly UsableKey[]>

/** Creates the authority of own tokens. */
export function ownAuthority (findKeys: FindKeys): Authority {
  return {
    issuer: null,
    hasSessions: true,
    hasCustomClaims: true,
    exactScopes: false,
    longestToken: maximumTokenLength,
    find (header, purpose) {
      const found = findKeys(header)
      if (found instanceof Refusal) return found
      const isUsable = purpose === 'refresh' ? isConfigured : isAlive
      const usable = found.filter(({ life }) => isUsable(life))
      return usable.length > 0 ? usable : unknownKey
    },
    admit: (_content, { typ }) => isPlainJwt(typ) ? undefined : badHeader,
    check: ({ payload, registered }, settings, purpose) => checkClaims(payload, registered, settings, secondsNow(), purpose === 'access'),
    // It was checked with the other claims.
    userIdOf: (payload, { userId }) => asClaimed(userId, payload[userId] as UserId),
    scopesOf: (payload, { scopesName }) => Object.hasOwn(payload, scopesName) ? readScopes(payload[scopesName]) : null,
    endsOf: ({ registered: { exp }, life }, { verifyExp, leeway }) => ({
      // Where "exp" is not verified, guards accept a token after it, too.
      expiry: verifyExp && exp !== undefined ? (exp + leeway) * 1000 : Infinity,
      retirement: life.until
    })
  }
}

/** Whether a header of an own token has an id that no key has. */
const hasBadKid = ({ kid }: Header) => kid === null || kid === ''

/** Finds one key that never changes, whatever the `kid` of a token is. */
export function findFixed (algorithm: Algorithm, verifying: Key): FindKeys {
  const keys = [{ algorithm, verifying, life: endless }]
  return ({ alg }) => alg === algorithm ? keys : wrongAlgorithm
}

/** What verifies own tokens: one authority for all guards, or the refusal where there is no key; otherwise the key of the registration or of a guard, or what computes it per request. */
export type OwnVerifying = { readonly authority: Verdict<Authority> } | { keyFor (own: Resolved): Key | KeyOfRequest }

/** What signs own tokens: a key of a list, or one key. */
export type OwnSigning = { now (): RingKey | undefined } | { readonly key: Key | KeyOfRequest }

/** Own keys, as a registration and its guards use them. */
export interface OwnKeys {
  /** The fingerprints of the keys that verify; none where they are computed per request, and where there is no key. */
  readonly fingerprints: readonly string[]
  /** Whether a secret is shorter than its hash. */
  readonly isShort: boolean
  /** What is around the text of a secret; undefined for nothing. */
  readonly residue: string | undefined
  /** Whether secrets and pairs are used together. */
  readonly isMixed: boolean
  /** The key that signs, if it never changes. */
  readonly signingKey: Key | undefined
  readonly verifying: OwnVerifying
  readonly signing: OwnSigning
  /** The option that has all keys, so that no guard has another one; undefined for none. */
  readonly keyOption: 'keys' | 'issuers' | undefined
  /** Checks the settings of a guard. @throws {InvalidConfiguration} where a token could outlive its key under them */
  admitGuard (settings: Settings): void
  /** Returns the JWK set to publish. */
  jwkSet (): string
  /** Undefined without the option `keys`. */
  readonly reload: (() => Promise<void>) | undefined
  status (): KeyStatus['keys']
}

/** Whether tokens are signed: an instance with endpoints must be able to, one without may be, a guard never signs. */
type Signing = 'must' | 'may' | 'never'

/**
 * Checks the keys that are known at registration.
 * @returns each key; undefined for one that is computed per request or not needed
 * @throws {RequiredKeysNotFound} for a missing key
 * @throws {InvalidConfiguration} for a key that does not fit the algorithm, or two halves that are not a pair
 */
function readFixed ({ settings: { algorithm }, getters, keys }: Resolved, signs: Signing): { verifying: Key | undefined, signing: Key | undefined } {
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
 * @param hasIssuers whether trusted issuers stand beside them, so that an instance may have no key, and no guard has another one
 */
export function fixedKeys (resolved: Resolved, hasIssuers: boolean): OwnKeys {
  const { algorithm, authMode, pathToJwks } = resolved.settings
  const hasNone = hasIssuers && isWithoutKeys(resolved)
  const { verifying, signing } = hasNone ? { verifying: undefined, signing: undefined } : readFixed(resolved, authMode ? 'must' : 'may')
  const isPublic = verifying !== undefined && !isHmac(algorithm)
  if (pathToJwks !== null) checkPublished(isPublic)
  const published = isPublic && pathToJwks !== null ? jwkSet([{ kid: defaultKid(verifying.keyObject), algorithm, verifying }]) : ''
  const checked = new CheckedKeys()
  const authorityOf = (key: Key) => {
    const find = findFixed(algorithm, key)
    return ownAuthority((header) => hasBadKid(header) ? badHeader : find(header))
  }
  return {
    fingerprints: verifying === undefined ? [] : [verifying.fingerprint],
    isShort: verifying?.short === true,
    residue: verifying?.residue,
    isMixed: false,
    signingKey: signing,
    verifying: hasIssuers
      ? { authority: verifying === undefined ? unknownIssuer : authorityOf(verifying) }
      : { keyFor: (own) => (own === resolved ? verifying : readFixed(own, 'never').verifying) ?? prepareComputedKey(checked, 'verify', own) },
    signing: { key: signing ?? prepareComputedKey(checked, 'sign', resolved) },
    keyOption: hasIssuers ? 'issuers' : undefined,
    admitGuard () {},
    jwkSet: () => published,
    reload: undefined,
    status: () => []
  }
}

/** Prepares keys that change over time. */
export function listedKeys (live: LiveKeys): OwnKeys {
  const { keys } = live.ring
  return {
    fingerprints: keys.map(({ verifying }) => verifying.fingerprint),
    isShort: keys.some(({ verifying }) => verifying.short),
    residue: residueIn(keys.map(({ verifying }) => verifying)),
    isMixed: isMixed(live.ring),
    signingKey: undefined,
    verifying: { authority: ownAuthority((header) => hasBadKid(header) ? badHeader : live.ring.find(header.alg, header.kid ?? undefined)) },
    signing: { now: () => live.signing() },
    keyOption: 'keys',
    admitGuard: (settings) => live.admitGuard(settings),
    jwkSet: () => live.jwkSet(),
    reload: () => live.reload(),
    status: () => live.status()
  }
}
