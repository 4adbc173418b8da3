/** Verifiers and signers of instances whose keys change over time: which key is meant is decided for each token. */
import { MissingRegisteredClaim, InvalidToken, RequiredKeysNotFound } from '../errors.ts'
import { isAlive, type KeyRing, type Life, type RingKey } from '../keys/key-ring.ts'
import { Refusal } from '../refusal.ts'
import { badForm, badHeader, decoderOf, detached, rememberable, signerOf, withoutStackTraces, type Decoder, type Signer, type VerifiedToken, type Verifier } from './codec.ts'
import { findDots } from './form.ts'
import { Generations } from './generations.ts'
import { TokenMemory } from './memory.ts'

/** A token, and how long its key counts. */
interface RingToken extends VerifiedToken {
  readonly life: Life
}

/** What a header says of the key. */
interface KeyHint {
  readonly alg: string
  readonly kid: string | undefined
}

/** Half as many headers as are kept at most. Only those of verified tokens are, so that nobody can push out good ones. */
const keptHeaders = 50
const longestKid = 256

const unknownKey = new Refusal((reason) => new InvalidToken(undefined, { reason }), 'no key of this instance has its "kid" and "alg", or the key is retired')

/** Reads what a header says of the key. Returns undefined for a header that says nothing that can be used. */
function readHint (text: string): KeyHint | undefined {
  try {
    const header: unknown = withoutStackTraces(() => JSON.parse(Buffer.from(text, 'base64url').toString()))
    if (typeof header !== 'object' || header === null) return undefined
    const { alg, kid } = Object.assign(Object.create(null), header)
    if (typeof alg !== 'string') return undefined
    if (kid === undefined) return { alg, kid }
    return typeof kid === 'string' && kid !== '' && kid.length <= longestKid ? { alg, kid } : undefined
  } catch {
    return undefined
  }
}

/**
 * Creates the verifier of a ring. It remembers tokens itself, before a key is selected: to read the header first would cost
 * several times as much as to find a remembered token. Whether the key of a token still counts is asked each time.
 * @param ring returns the ring that counts now
 * @param cacheSize how many verified tokens are remembered; 0: none
 */
export function createRingVerifier (ring: () => KeyRing, cacheSize: number): Verifier {
  const memory = cacheSize > 0 ? new TokenMemory<RingToken>(cacheSize) : undefined
  const hints = new Generations<string, KeyHint>(keptHeaders)
  const decoders = new WeakMap<RingKey, Decoder>()
  const decoderFor = (key: RingKey) => {
    const known = decoders.get(key)
    if (known !== undefined) return known
    const decoder = decoderOf(key.algorithm, key.verifying)
    decoders.set(key, decoder)
    return decoder
  }
  // Built for no request.
  for (const key of ring().keys) decoderFor(key)

  return (token, purpose) => {
    const forRefresh = purpose === 'refresh'
    const known = memory?.get(token)
    if (known !== undefined && isAlive(known.life, forRefresh)) return known
    const dots = findDots(token)
    if (dots === undefined) return badForm
    const header = token.slice(0, dots[0])
    const knownHint = hints.get(header)
    const hint = knownHint ?? readHint(header)
    if (hint === undefined) return badHeader
    let refusal = unknownKey
    for (const key of ring().find(hint.alg, hint.kid)) {
      if (!isAlive(key.life, forRefresh)) continue
      const outcome = decoderFor(key)(token, dots[0], dots[1])
      if (outcome instanceof Refusal) {
        refusal = outcome
        continue
      }
      if (knownHint === undefined) hints.set(detached(header), hint)
      if (memory === undefined || !memory.admits(token)) return outcome
      const entry = { ...rememberable(outcome), life: key.life }
      memory.set(entry)
      return entry
    }
    return refusal
  }
}

/**
 * Creates a function that gives the signer of the key that signs when it is called.
 * @param signing returns that key; undefined for none
 * @param keys the keys whose signers are built at once
 */
export function createRingSigner (signing: () => RingKey | undefined, keys: readonly RingKey[]): (issuedAt: boolean) => Signer {
  const signers = new WeakMap<RingKey, Map<boolean, Signer>>()
  const signerFor = (key: RingKey, issuedAt: boolean) => {
    const known = signers.get(key) ?? new Map<boolean, Signer>()
    // Only a key that can sign is the one that signs.
    const signer = known.get(issuedAt) ?? signerOf(key.algorithm, key.signing!, issuedAt, key.kid)
    signers.set(key, known.set(issuedAt, signer))
    return signer
  }
  const sign = (payload: Record<string, unknown>, issuedAt: boolean) => {
    const key = signing()
    if (key === undefined) throw new RequiredKeysNotFound('No key of "keys" signs now. Give a secret or private key without "signFrom", or with one that has come.', { section: 'changing-keys', duringRequest: true })
    if (Number(payload.exp) * 1000 > key.life.until) {
      throw new MissingRegisteredClaim('The payload of a new access token has an "exp" beyond "verifyUntil" of its key, after which no token of this key counts. Check extendPayload.')
    }
    return signerFor(key, issuedAt)(payload)
  }
  return (issuedAt) => {
    for (const key of keys) if (key.canSign) signerFor(key, issuedAt)
    return (payload) => sign(payload, issuedAt)
  }
}
