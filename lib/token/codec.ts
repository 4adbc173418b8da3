/**
 * Verifies and creates signatures with fast-jwt: the decoder and the signer of one key. fast-jwt accepts some tokens that
 * RFC 7515, RFC 7519 or RFC 8725 forbid. This file, form.ts and the authority of the token refuse them.
 */
import { isUtf8 } from 'node:buffer'
import { createHmac, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { createSigner, createVerifier } from 'fast-jwt'
import { algorithmTable, isHmac, namesOf, type Algorithm } from '../algorithms.ts'
import { BoundedMap } from '../bounded-map.ts'
import type { Key } from '../keys/material.ts'
import { invalidToken, type Verdict } from '../refusal.ts'
import type { MaybePromise, Payload } from '../../types/handlers.ts'
import { withoutStackTraces, type Dots } from './form.ts'

/** Verifies the signature of a well-formed token with one key. Returns the payload, or the refusal. Never throws. */
export type Decoder = (token: string, dots: Dots) => Verdict<Payload>

/** A token that this process has signed. */
export interface SignedToken {
  readonly token: string
  /** The fingerprint of the key that signed it. */
  readonly signedBy: string
}

/** Signs a payload, which is copied as JSON. Returns a promise if signing is slow. @throws TypeError if the payload has no JSON form */
export type Signer = (payload: Record<string, unknown>) => MaybePromise<SignedToken>

const badSignature = invalidToken('the signature, algorithm or form is wrong')
const badPayload = invalidToken('the payload is not UTF-8')

/**
 * The number of base64url characters of a signature. OpenSSL also accepts an RSA signature whose leading zero byte was
 * removed, which RFC 8017 section 8.1.2 forbids: one token would have two texts.
 */
function signatureCharacters (algorithm: Algorithm, { keyObject }: Key): number {
  const bytes = algorithmTable[algorithm].signatureLength ?? Math.ceil(Number(keyObject.asymmetricKeyDetails?.modulusLength) / 8)
  return Math.ceil(bytes * 8 / 6)
}

/** Returns a function that compares the HMAC of a canonical token in constant time. The length must have been checked. */
function hmacCheck (algorithm: Algorithm, { keyObject }: Key): (token: string, second: number) => boolean {
  const { hash } = algorithmTable[algorithm]
  return (token, second) => {
    const expected = createHmac(hash, keyObject).update(token.slice(0, second)).digest()
    return timingSafeEqual(Buffer.from(token.slice(second + 1), 'base64url'), expected)
  }
}

/** Valid tokens in a row after which the HMAC is no longer compared first. */
const hmacFirstFor = 100

function buildDecoder (algorithm: Algorithm, key: Key): Decoder {
  const verifySignature = createVerifier({
    // Without a list, fast-jwt would accept every algorithm that the key allows. The authority checks the name.
    // The types of fast-jwt lack "Ed25519", which it verifies like "EdDSA".
    algorithms: namesOf(algorithm) as Algorithm[],
    key: key.material,
    // claims.ts checks them on every request, also for remembered tokens.
    ignoreExpiration: true,
    ignoreNotBefore: true
  })
  const length = signatureCharacters(algorithm, key)
  const isSigned = isHmac(algorithm) ? hmacCheck(algorithm, key) : undefined
  /**
   * Above zero after an invalid token. The HMAC is then compared first, because the error that fast-jwt throws costs 22 us
   * more, a fifth of a refused request. This comparison only refuses; fast-jwt verifies the tokens that pass it.
   */
  let hmacFirst = 0

  return (token, [first, second]) => {
    if (token.length - second - 1 !== length) return badSignature
    if (hmacFirst > 0 && isSigned !== undefined) {
      if (!isSigned(token, second)) {
        hmacFirst = hmacFirstFor
        return badSignature
      }
      hmacFirst--
    }
    try {
      const payload: Payload = withoutStackTraces(() => verifySignature(token))
      return isUtf8(Buffer.from(token.slice(first + 1, second), 'base64url')) ? payload : badPayload
    } catch {
      // Whatever fast-jwt throws, the token is not acceptable.
      hmacFirst = hmacFirstFor
      return badSignature
    }
  }
}

/** Reads the payload of a token that this process has signed, as fast-jwt reads it. */
export const readSigned: Decoder = (token, [first, second]) =>
  JSON.parse(Buffer.from(token.slice(first + 1, second), 'base64url').toString())

const nextTurn = promisify(setImmediate)
let lastTurn: Promise<void> = Promise.resolve()

/**
 * Signs in its own turn of the event loop, so that several slow signatures in a row do not hold up other requests. The
 * thread pool of Node.js was slower in measurements: with few cores its threads compete with the event loop.
 */
async function inTurn (sign: () => SignedToken): Promise<SignedToken> {
  lastTurn = lastTurn.then(() => nextTurn())
  await lastTurn
  return sign()
}

function buildSigner (algorithm: Algorithm, key: Key, issuedAt: boolean, kid?: string): Signer {
  const write = createSigner({ algorithm, key: key.material, noTimestamp: !issuedAt, ...(kid !== undefined && { kid }) })
  const { fingerprint } = key
  const sign = (payload: Record<string, unknown>): SignedToken => ({ token: write(payload), signedBy: fingerprint })
  return algorithmTable[algorithm].isSlowToSign ? (payload) => inTurn(() => sign(payload)) : sign
}

/** Number of results that equal keys share, at least; at most twice as many. A result beyond it is built again for an equal key. */
const sharedKeys = 1000

/**
 * Memoizes a function of an algorithm, a key and options. All instances share a result for as long as one of them uses its
 * key. An equal key, with the same fingerprint, gets the same result.
 */
export function shared<Args extends readonly [Algorithm, Key, ...unknown[]], Made extends object> (
  build: (...args: Args) => Made
): (...args: Args) => Made {
  const ofKey = new WeakMap<Key, Map<string, Made>>()
  const ofFingerprint = new BoundedMap<string, WeakRef<Made>>(sharedKeys)
  return (...args) => {
    const [algorithm, key] = args
    const use = args.length === 2 ? algorithm : [algorithm, ...args.slice(2)].join(' ')
    const own = ofKey.get(key)
    const known = own?.get(use)
    if (known !== undefined) return known
    const id = `${key.fingerprint} ${use}`
    const one = ofFingerprint.get(id)?.deref() ?? build(...args)
    ofFingerprint.set(id, new WeakRef(one))
    ofKey.set(key, (own ?? new Map<string, Made>()).set(use, one))
    return one
  }
}

/** Returns the decoder of a key. All verifiers with this key share it. */
export const decoderOf: (algorithm: Algorithm, key: Key) => Decoder = shared(buildDecoder)

/**
 * Returns the signer of a key. `issuedAt`: whether tokens carry `iat`, which fast-jwt adds by default and otherwise removes.
 * `kid`: the id of the key in the header of its tokens; undefined for none.
 */
export const signerOf: (algorithm: Algorithm, key: Key, issuedAt: boolean, kid?: string) => Signer = shared(buildSigner)
