/** How the keys of a registration are used, whether they are fixed, computed per request, or change over time. */
import { isHmac } from '../keys/algorithms.ts'
import { defaultKid } from '../keys/key-id.ts'
import { checkKeyOverrides, checkPublished, isMixed, jwkSet } from '../keys/key-ring.ts'
import type { LiveKeys } from '../keys/live-keys.ts'
import type { Key } from '../keys/material.ts'
import { readStaticKeys } from '../keys/prepare.ts'
import type { Resolved } from '../settings/configuration.ts'
import type { KeyStatus } from '../../types/keys.ts'
import { signerOf, verifierOf, type Signer, type Verifier } from './codec.ts'
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
  verifierOf (own: Resolved): Verifier | undefined
  /** Checks the overrides of a guard. @throws {InvalidConfiguration} */
  checkOverrides (overrides: Readonly<Record<string, unknown>>, overridden: Resolved): void
  /** Returns the JWK set to publish. */
  jwkSet (): string
  /** What the application may do with keys that change over time; undefined for others. */
  readonly control: { reload (): Promise<void>, status (): KeyStatus } | undefined
}

/** Keys that are fixed, or computed per request. */
export function useFixedKeys (resolved: Resolved): KeyUse {
  const { algorithm, authMode, pathToJwks } = resolved.settings
  const { verifying, signing } = readStaticKeys(resolved, authMode ? 'must' : 'may')
  const isPublic = verifying !== undefined && !isHmac(algorithm)
  if (pathToJwks !== null) checkPublished(isPublic)
  const published = isPublic && pathToJwks !== null ? jwkSet([{ kid: defaultKid(verifying.keyObject), algorithm, verifying }]) : ''
  return {
    fingerprints: verifying === undefined ? [] : [verifying.fingerprint],
    isShort: verifying?.short === true,
    isMixed: false,
    signing,
    signers: signing === undefined ? undefined : (issuedAt) => signerOf(algorithm, signing, issuedAt),
    verifierOf: (own) => staticVerifier(own, own === resolved ? verifying : readStaticKeys(own, 'never').verifying),
    checkOverrides () {},
    jwkSet: () => published,
    control: undefined
  }
}

/** Keys that change over time. */
export function useLiveKeys (live: LiveKeys): KeyUse {
  const { keys } = live.ring
  const verifiers = new Map<number, Verifier>()
  return {
    fingerprints: keys.map(({ verifying }) => verifying.fingerprint),
    isShort: keys.some(({ verifying }) => verifying.short),
    isMixed: isMixed(live.ring),
    signing: undefined,
    signers: createRingSigner(() => live.signing(), keys),
    verifierOf ({ settings: { tokenCacheSize } }) {
      const verifier = verifiers.get(tokenCacheSize) ?? createRingVerifier(() => live.ring, tokenCacheSize)
      verifiers.set(tokenCacheSize, verifier)
      return verifier
    },
    checkOverrides (overrides, { settings }) {
      checkKeyOverrides(overrides)
      live.checkGuard(settings)
    },
    jwkSet: () => live.jwkSet(),
    control: Object.freeze({ reload: () => live.reload(), status: () => live.status() })
  }
}
