/** Verifiers and signers of instances with several keys: which key is meant is decided for each token. */
import { RequiredKeysNotFound } from '../configuration-errors.ts'
import { MissingRegisteredClaim } from '../errors.ts'
import type { KeyRing, RingKey } from '../keys/key-ring.ts'
import { isAlive, isConfigured } from '../keys/life.ts'
import type { TrustedIssuers } from '../keys/trusted-issuer.ts'
import { invalidToken, Refusal } from '../refusal.ts'
import { badForm, badHeader, decoderOf, detached, rememberable, signerOf, type Decoder, type Signer, type TokenVerifier, type VerifiedToken, type Verifier } from './codec.ts'
import { findDots } from './form.ts'
import { Generations } from './generations.ts'
import { readHint, type HeaderHint } from './header-hint.ts'
import { issuerOf, notOwn, verifyFrom, type RingToken } from './issuer-token.ts'
import { TokenMemory } from './memory.ts'

/** Up to twice as many headers are kept. Only those of verified tokens are, so that nobody can push out good ones. */
const keptHeaders = 50

const unknownKey = invalidToken('no key of this instance has its "kid" and "alg", or the key is retired')

const unknownIssuer = invalidToken('its "iss" is not one of the trusted issuers')

/** Verifies a token with the keys of a ring. */
function createOwnVerifier (ring: () => KeyRing): (token: string, dots: readonly [number, number], hint: HeaderHint, forRefresh: boolean) => RingToken | Refusal {
  const decoders = new WeakMap<RingKey, Decoder>()
  const decoderFor = (key: RingKey) => {
    const known = decoders.get(key)
    if (known !== undefined) return known
    const decoder = decoderOf(key.algorithm, key.verifying)
    decoders.set(key, decoder)
    return decoder
  }

  return (token, [first, second], { alg, kid }, forRefresh) => {
    const isUsable = forRefresh ? isConfigured : isAlive
    let refusal = unknownKey
    for (const key of ring().find(alg, kid)) {
      if (!isUsable(key.life)) continue
      const outcome = decoderFor(key)(token, first, second)
      if (!(outcome instanceof Refusal)) return { ...outcome, life: key.life }
      refusal = outcome
    }
    return refusal
  }
}

/**
 * Creates the verifier of a ring. It remembers tokens itself, before a key is selected: to read the header first would cost
 * several times as much as to find a remembered token. Whether the key of a token still counts is asked each time.
 * @param ring returns the ring that counts now
 * @param cacheSize how many verified tokens are remembered; 0: none
 * @param issuers the trusted issuers, whose tokens are verified with their keys
 */
export function createRingVerifier (ring: () => KeyRing, cacheSize: number): Verifier
export function createRingVerifier (ring: () => KeyRing, cacheSize: number, issuers: TrustedIssuers | undefined): TokenVerifier
export function createRingVerifier (ring: () => KeyRing, cacheSize: number, issuers?: TrustedIssuers): TokenVerifier {
  const memory = cacheSize > 0 ? new TokenMemory<RingToken>(cacheSize) : undefined
  const hints = new Generations<string, HeaderHint>(keptHeaders)
  const verifyOwn = createOwnVerifier(ring)
  const keep = (outcome: RingToken | Refusal, header: string, hint: HeaderHint): VerifiedToken | Refusal => {
    if (outcome instanceof Refusal) return outcome
    if (hints.get(header) === undefined) hints.set(detached(header), hint)
    if (memory === undefined || !memory.admits(outcome.token)) return outcome
    const entry = { ...rememberable(outcome), life: outcome.life }
    memory.set(entry)
    return entry
  }

  return (token, purpose) => {
    const forRefresh = purpose === 'refresh'
    const known = memory?.get(token)
    if (known !== undefined && (forRefresh ? isConfigured(known.life) : isAlive(known.life))) return forRefresh && known.issuer !== undefined ? notOwn : known
    const dots = findDots(token)
    if (dots === undefined) return badForm
    const header = token.slice(0, dots[0])
    const hint = hints.get(header) ?? readHint(header)
    if (hint === undefined) return badHeader
    const issuer = issuers && issuerOf(token, dots, issuers)
    if (issuer === undefined) return issuers !== undefined && ring().keys.length === 0 ? unknownIssuer : keep(verifyOwn(token, dots, hint, forRefresh), header, hint)
    // An access token of an issuer is no proof that a refresh token of this instance belongs to its user.
    if (forRefresh) return notOwn
    const outcome = verifyFrom(issuer, token, dots, hint)
    return outcome instanceof Promise ? outcome.then((settled) => keep(settled, header, hint)) : keep(outcome, header, hint)
  }
}

/**
 * Creates a function that gives the signer of the key that signs when it is called. Signers, and decoders above, are built
 * when they are needed first: it takes OpenSSL as long as to read the key, and most keys of a ring never sign again.
 * @param signing returns that key; undefined for none
 */
export function createRingSigner (signing: () => RingKey | undefined): (issuedAt: boolean) => Signer {
  const signers = new WeakMap<RingKey, Map<boolean, Signer>>()
  const signerFor = (key: RingKey, issuedAt: boolean) => {
    const known = signers.get(key) ?? new Map<boolean, Signer>()
    // Only a key that can sign is the one that signs.
    const signer = known.get(issuedAt) ?? signerOf(key.algorithm, key.signing!, issuedAt, key.kid)
    signers.set(key, known.set(issuedAt, signer))
    return signer
  }
  return (issuedAt) => (payload) => {
    const key = signing()
    if (key === undefined) throw new RequiredKeysNotFound('No key of "keys" signs now. Give a secret or private key without "signFrom", or with one that has come.', { page: 'keys.md', duringRequest: true })
    if (Number(payload.exp) * 1000 > key.life.until) {
      throw new MissingRegisteredClaim('The payload of a new access token has an "exp" beyond "verifyUntil" of its key, after which no token of this key counts. Check extendPayload.')
    }
    return signerFor(key, issuedAt)(payload)
  }
}
