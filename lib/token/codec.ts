/**
 * The verifier and signer of one key, made with fast-jwt. fast-jwt decides whether a signature is right; what it accepts
 * and RFC 7515, RFC 7519 or RFC 8725 do not is refused here and in form.ts. claims.ts checks what the payload says.
 */
import { isUtf8 } from 'node:buffer'
import { createHmac, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { createSigner, createVerifier } from 'fast-jwt'
import { algorithmTable, isHmac, type Algorithm } from '../keys/algorithms.ts'
import type { IssuerRules } from '../keys/issuer-options.ts'
import type { Life } from '../keys/life.ts'
import type { Key } from '../keys/material.ts'
import { invalidToken, Refusal } from '../refusal.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import { readRegistered, type RegisteredClaims } from './claims.ts'
import { findDots, isHeaderAcceptable } from './form.ts'
import { TokenMemory } from './memory.ts'

/** What a verified token holds. All requests with this token share the payload: copy it before you hand it out. */
export interface VerifiedToken {
  readonly token: string
  readonly payload: Readonly<Record<string, unknown>>
  /** Whether the next request with this token gets this same object. */
  readonly isRemembered: boolean
  readonly registered: RegisteredClaims
  /** What is known of the issuer of the token; undefined for own tokens. */
  readonly issuer: IssuerRules | undefined
  /** How long its key counts; undefined for a key that never changes. */
  readonly life: Life | undefined
  /** The session store that was told that this token was received, of those that its sessions may be in; set by `sessions/confirmations`. */
  toldTo?: object
}

/** What a token is verified for. A token for `refresh` may have expired, and its key may have been retired; everything else must hold. */
export type Purpose = 'access' | 'refresh'

/** Verifies the form and signature of a token. Returns what it holds, or why it is refused. Never throws. */
export type Verifier = (token: string, purpose?: Purpose) => VerifiedToken | Refusal

/** As {@link Verifier}. Returns a promise only where the keys of a trusted issuer have to be fetched first. Never rejects. */
export type TokenVerifier = (token: string, purpose: Purpose) => MaybePromise<VerifiedToken | Refusal>

/**
 * Verifies a token whose form is right with one key, and remembers nothing.
 * @param first the position of the first dot
 * @param second the position of the second dot
 */
export type Decoder = (token: string, first: number, second: number) => VerifiedToken | Refusal

/** Signs a payload, which is copied as JSON. Returns a promise where signing is slow. @throws TypeError where the payload has no JSON form */
export type Signer = (payload: Record<string, unknown>) => MaybePromise<string>

export const badForm = invalidToken('it is not three segments of base64url, or too long')
const badSignature = invalidToken('the signature, algorithm or form is wrong')
export const badHeader = invalidToken('the header is not acceptable')
const badPayload = invalidToken('the payload is not UTF-8')

/**
 * Calls a function while V8 captures no stack traces: fast-jwt would capture two for every bad token. `Reflect.set` does
 * not throw where the process runs with frozen intrinsics; there the traces are captured.
 */
export function withoutStackTraces<T> (create: () => T): T {
  const limit = Error.stackTraceLimit
  Reflect.set(Error, 'stackTraceLimit', 0)
  try {
    return create()
  } finally {
    Reflect.set(Error, 'stackTraceLimit', limit)
  }
}

/** Freezes a payload with all lists and objects in it, so that no request changes what another one reads. */
function frozen (payload: VerifiedToken['payload']): VerifiedToken['payload'] {
  const containers: object[] = [payload]
  for (const container of containers) {
    Object.freeze(container)
    for (const member of Object.values(container)) if (typeof member === 'object' && member !== null) containers.push(member)
  }
  return payload
}

/** Copies a token. V8 keeps the whole string of which a text is a part in memory: here a Cookie header. */
export const detached = (token: string) => Buffer.from(token, 'latin1').toString('latin1')

/** Makes a function that compares the HMAC of a canonical token in constant time. */
function hmacCheck (algorithm: Algorithm, { keyObject }: Key): (token: string, second: number) => boolean {
  const { hash } = algorithmTable[algorithm]
  return (token, second) => {
    const expected = createHmac(hash, keyObject).update(token.slice(0, second)).digest()
    const signature = Buffer.from(token.slice(second + 1), 'base64url')
    return signature.length === expected.length && timingSafeEqual(signature, expected)
  }
}

/** So many good tokens in a row must follow a bad one before the next token is expected to be good. */
const hmacFirstFor = 100

function buildDecoder (algorithm: Algorithm, key: Key, isForeign = false): Decoder {
  const verifySignature = createVerifier({
    // One name in a list. Without it fast-jwt would accept every algorithm that the key allows.
    algorithms: [algorithm],
    key: key.material,
    complete: true,
    // claims.ts checks them on every request, also for cached tokens.
    ignoreExpiration: true,
    ignoreNotBefore: true
  })
  const isSigned = isHmac(algorithm) ? hmacCheck(algorithm, key) : undefined
  /**
   * While it is above zero, bad tokens are expected and the HMAC is compared first: the error that fast-jwt throws for a
   * wrong one costs several times more. This comparison only refuses; fast-jwt verifies what passes it.
   */
  let hmacFirst = 0
  /** The last acceptable header: the headers of one issuer hardly ever differ, and an equal one is not checked again. */
  let acceptableHeader = ''

  function decode (token: string, first: number, second: number): VerifiedToken | Refusal {
    const { header, payload }: { header: Record<string, unknown>, payload: Record<string, unknown> } = verifySignature(token)
    const headerText = token.slice(0, first)
    if (headerText !== acceptableHeader) {
      if (!isUtf8(Buffer.from(headerText, 'base64url')) || !isHeaderAcceptable(header, isForeign)) {
        return badHeader
      }
      acceptableHeader = detached(headerText)
    }
    if (!isUtf8(Buffer.from(token.slice(first + 1, second), 'base64url'))) {
      return badPayload
    }
    return { token, payload, isRemembered: false, registered: readRegistered(payload), issuer: undefined, life: undefined }
  }

  return (token, first, second) => {
    if (hmacFirst > 0 && isSigned !== undefined) {
      if (!isSigned(token, second)) {
        hmacFirst = hmacFirstFor
        return badSignature
      }
      hmacFirst--
    }
    try {
      return withoutStackTraces(() => decode(token, first, second))
    } catch {
      // Whatever fast-jwt throws, the token is not acceptable.
      hmacFirst = hmacFirstFor
      return badSignature
    }
  }
}

/** Makes what is remembered of a verified token: nothing of the request that brought it, and nothing that a request could change. */
export function rememberable (verified: VerifiedToken): VerifiedToken {
  return { ...verified, token: detached(verified.token), payload: frozen(verified.payload), isRemembered: true }
}

function buildVerifier (algorithm: Algorithm, key: Key, cacheSize: number): Verifier {
  const decode = decoderOf(algorithm, key)
  const cache = cacheSize > 0 ? new TokenMemory<VerifiedToken>(cacheSize) : undefined
  return function verify (token) {
    const cachedToken = cache?.get(token)
    if (cachedToken !== undefined) return cachedToken
    const dots = findDots(token)
    if (dots === undefined) return badForm
    const outcome = decode(token, dots[0], dots[1])
    if (cache === undefined || outcome instanceof Refusal || !cache.admits(token)) return outcome
    const entry = rememberable(outcome)
    cache.set(entry)
    return entry
  }
}

const nextTurn = promisify(setImmediate)
let lastTurn: Promise<void> = Promise.resolve()

/**
 * Signs in its own turn of the event loop, so that several slow signatures in a row do not hold up other requests. The
 * thread pool of Node.js was slower in measurements: with few cores its threads compete with the event loop.
 */
async function inTurn (sign: () => string): Promise<string> {
  lastTurn = lastTurn.then(() => nextTurn())
  await lastTurn
  return sign()
}

function buildSigner (algorithm: Algorithm, key: Key, issuedAt: boolean, kid?: string): Signer {
  const sign = createSigner({ algorithm, key: key.material, noTimestamp: !issuedAt, ...(kid !== undefined && { kid }) })
  return algorithmTable[algorithm].isSlowToSign ? (payload) => inTurn(() => sign(payload)) : (payload) => sign(payload)
}

/** Builds what an algorithm, key and option need once, and shares it among all instances for as long as one uses it. */
function shared<Args extends readonly [Algorithm, Key, ...unknown[]], Made extends object> (build: (...args: Args) => Made): (...args: Args) => Made {
  const made = new Map<string, WeakRef<Made>>()
  const collected = new FinalizationRegistry<string>((id) => { if (made.get(id)?.deref() === undefined) made.delete(id) })
  return (...args) => {
    const [algorithm, key, ...options] = args
    const id = [algorithm, key.fingerprint, ...options].join(' ')
    const existing = made.get(id)?.deref()
    if (existing !== undefined) return existing
    const fresh = build(...args)
    made.set(id, new WeakRef(fresh))
    collected.register(fresh, id)
    return fresh
  }
}

/**
 * Gives the decoder of a key, which all verifiers with this key share.
 * @param isForeign whether the key is one of a trusted issuer, whose tokens may have other types
 */
export const decoderOf: (algorithm: Algorithm, key: Key, isForeign?: boolean) => Decoder = shared(buildDecoder)

/** Gives the verifier of a key. `cacheSize` is the number of verified tokens that it remembers; 0: none. */
export const verifierOf: (algorithm: Algorithm, key: Key, cacheSize: number) => Verifier = shared(buildVerifier)

/**
 * Gives the signer of a key. `issuedAt`: whether tokens carry `iat`, which fast-jwt adds by default and otherwise removes.
 * `kid`: the id of the key in the header of its tokens; undefined for none.
 */
export const signerOf: (algorithm: Algorithm, key: Key, issuedAt: boolean, kid?: string) => Signer = shared(buildSigner)
