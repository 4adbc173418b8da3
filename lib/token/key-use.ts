/** How the keys of a registration are used, whether they are fixed, computed per request, or change over time. */
import { isHmac } from '../keys/algorithms.ts'
import { defaultKid } from '../keys/key-id.ts'
import { checkKeyOverrides, checkPublished, isMixed, jwkSet, type KeyRing } from '../keys/key-ring.ts'
import type { LiveKeys } from '../keys/live-keys.ts'
import type { Key } from '../keys/material.ts'
import { readStaticKeys, type StaticKeys } from '../keys/prepare.ts'
import type { TrustedIssuers } from '../keys/trusted-issuer.ts'
import type { Resolved } from '../settings/configuration.ts'
import { keySettings, type Settings } from '../settings/schema.ts'
import type { KeyStatus } from '../../types/keys.ts'
import { signerOf, verifierOf, type Signer, type TokenVerifier, type Verifier } from './codec.ts'
import { createRingSigner, createRingVerifier } from './ring.ts'

/** Gives the signer for tokens with or without `iat`. */
export type SignerSource = (issuedAt: boolean) => Signer

/** Gives the verifier of a key that is known at registration; undefined where the verifier depends on the request. */
function staticVerifier ({ settings, getters }: Resolved, verifying: Key | undefined): Verifier | undefined {
  if (verifying === undefined || getters.has('tokenCacheSize')) return undefined
  return verifierOf(settings.algorithm, verifying, settings.tokenCacheSize)
}

/** What a registration does with its keys. */
export interface KeyUse {
  /** The fingerprints of the keys that verify; none where they are computed per request. */
  readonly fingerprints: readonly string[]
  /** Whether a secret is shorter than its hash. */
  readonly isShort: boolean
  /** Whether secrets and pairs are used together. */
  readonly isMixed: boolean
  /** The key that signs, if it never changes. */
  readonly signing: Key | undefined
  /** Undefined where the key that signs is computed per request, or missing. */
  readonly signers: SignerSource | undefined
  /** Gives the verifier for the settings of the registration or of a guard; undefined where it depends on the request. @throws {InvalidConfiguration} */
  verifierOf (own: Resolved): TokenVerifier | undefined
  /** Checks the overrides of a guard. @throws {InvalidConfiguration} */
  checkOverrides (overrides: Readonly<Record<string, unknown>>, overridden: Resolved): void
  /** Returns the JWK set to publish. */
  jwkSet (): string
  /** What the application may do with keys that change over time. */
  readonly control: KeyControl
}

/** The keys of a registration as the application controls them. */
export interface KeyControl {
  /** Undefined without the option `keys`. */
  readonly reload: (() => Promise<void>) | undefined
  status (): KeyStatus
}

/** Makes the verifiers of a ring, one for each number of remembered tokens. */
function ringVerifiers (ring: () => KeyRing, issuers: TrustedIssuers | undefined): (settings: Settings) => TokenVerifier {
  const verifiers = new Map<number, TokenVerifier>()
  return ({ tokenCacheSize }) => {
    const verifier = verifiers.get(tokenCacheSize) ?? createRingVerifier(ring, tokenCacheSize, issuers)
    verifiers.set(tokenCacheSize, verifier)
    return verifier
  }
}

/** A ring of the key of an instance that has one, or none. As without trusted issuers, the `kid` of a token is ignored. */
function fixedRing (algorithm: Settings['algorithm'], verifying: Key | undefined): KeyRing {
  const keys = verifying === undefined ? [] : [{ kid: '', algorithm, verifying, signing: undefined, canSign: false, signFrom: -Infinity, life: { until: Infinity } }]
  return { keys, find: (alg) => alg === algorithm ? keys : [] }
}

const noKeys: StaticKeys = { verifying: undefined, signing: undefined }

/** Whether an instance accepts tokens of trusted issuers only, so that it needs no key. */
export function isWithoutKeys ({ settings, keys }: Resolved): boolean {
  const given = keys()
  return !settings.authMode && keySettings.every((name) => given[name] === undefined)
}

/** Keys that are fixed, or computed per request. */
export function fixedKeyUse (resolved: Resolved, issuers: TrustedIssuers | undefined): KeyUse {
  const { algorithm, authMode, pathToJwks } = resolved.settings
  const { verifying, signing } = issuers !== undefined && isWithoutKeys(resolved) ? noKeys : readStaticKeys(resolved, authMode ? 'must' : 'may')
  const isPublic = verifying !== undefined && !isHmac(algorithm)
  if (pathToJwks !== null) checkPublished(isPublic)
  const published = isPublic && pathToJwks !== null ? jwkSet([{ kid: defaultKid(verifying.keyObject), algorithm, verifying }]) : ''
  const ring = fixedRing(algorithm, verifying)
  const verifierFor = issuers && ringVerifiers(() => ring, issuers)
  return {
    fingerprints: verifying === undefined ? [] : [verifying.fingerprint],
    isShort: verifying?.short === true,
    isMixed: false,
    signing,
    signers: signing === undefined ? undefined : (issuedAt) => signerOf(algorithm, signing, issuedAt),
    verifierOf: (own) => verifierFor?.(own.settings) ?? staticVerifier(own, own === resolved ? verifying : readStaticKeys(own, 'never').verifying),
    checkOverrides (overrides, { settings }) {
      if (issuers === undefined) return
      checkKeyOverrides(overrides, 'issuers')
      issuers.checkClaimIss(settings.claimIss)
    },
    jwkSet: () => published,
    control: Object.freeze({ reload: undefined, status: () => ({ keys: [], issuers: issuers?.status() ?? [] }) })
  }
}

/** Keys that change over time. */
export function liveKeyUse (live: LiveKeys, issuers: TrustedIssuers | undefined): KeyUse {
  const { keys } = live.ring
  const verifierFor = ringVerifiers(() => live.ring, issuers)
  return {
    fingerprints: keys.map(({ verifying }) => verifying.fingerprint),
    isShort: keys.some(({ verifying }) => verifying.short),
    isMixed: isMixed(live.ring),
    signing: undefined,
    signers: createRingSigner(() => live.signing()),
    verifierOf: ({ settings }) => verifierFor(settings),
    checkOverrides (overrides, { settings }) {
      checkKeyOverrides(overrides, 'keys')
      issuers?.checkClaimIss(settings.claimIss)
      live.admitGuard(settings)
    },
    jwkSet: () => live.jwkSet(),
    control: Object.freeze({ reload: () => live.reload(), status: () => ({ keys: live.status(), issuers: issuers?.status() ?? [] }) })
  }
}
