/**
 * The fast-jwt signer and verifier of one key. fast-jwt decides whether a signature is right; everything that it lets
 * pass and RFC 7515, RFC 7519 or RFC 8725 do not is refused here. What a payload says is judged elsewhere: see claims.ts.
 */
import { isUtf8 } from 'node:buffer'
import { createHmac, createSecretKey, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { createSigner, createVerifier } from 'fast-jwt'
import { InvalidToken } from '../errors.ts'
import { isHmac, type Key } from '../keys/material.ts'
import { Refusal } from '../refusal.ts'
import type { Algorithm } from '../settings/schema.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import { TokenCache } from './cache.ts'
import { readRegistered, type RegisteredClaims } from './claims.ts'

/** The longest token that is looked at. Longer ones cost time before they can be refused. */
export const maximumTokenLength = 8192

/** What a verified token holds. The payload is shared by every request with this token: never hand it out, copy it. */
export interface VerifiedToken {
  readonly token: string
  readonly payload: Readonly<Record<string, unknown>>
  /** Whether the next request with this token gets this same object. */
  readonly isRemembered: boolean
  readonly registered: RegisteredClaims
}

/** Says whether a token is signed by the key: what it holds, or why it is refused. Never throws. */
export type Verifier = (token: string) => VerifiedToken | Refusal

/** Signs a payload, which is copied as JSON; a promise for RS and PS. @throws TypeError where the payload has no JSON form */
export type Signer = (payload: Record<string, unknown>) => MaybePromise<string>

const refuse = (why: string) => new Refusal((reason) => new InvalidToken(undefined, { reason }), why)
const badForm = refuse('it is not three segments of base64url, or too long')
const badSignature = refuse('the signature, algorithm or form is wrong')
const badHeader = refuse('the header is not acceptable')
const badPayload = refuse('the payload is not UTF-8')

const alphabet = /^[\w-]+$/
/** RFC 4648 section 3.5: the last character of a segment, by its length modulo 4, when the bits to spare are zero. */
const lastCharacters: Record<number, string | undefined> = { 2: 'AQgw', 3: 'AEIMQUYcgkosw048' }

function isCanonical (token: string, start: number, end: number): boolean {
  const rest = (end - start) % 4
  return rest === 0 || (lastCharacters[rest]?.includes(token[end - 1]!) ?? false)
}

/** Where the two dots are, or undefined where a string is not three canonical, non-empty segments of base64url. */
function findDots (token: string): [number, number] | undefined {
  if (token.length > maximumTokenLength) return undefined
  const first = token.indexOf('.')
  const second = token.indexOf('.', first + 1)
  if (first < 1 || second < first + 2 || second + 1 === token.length) return undefined
  if (!isCanonical(token, 0, first) || !isCanonical(token, first + 1, second) || !isCanonical(token, second + 1, token.length)) return undefined
  // A third dot fails here: it is not of the alphabet.
  if (!alphabet.test(token.slice(0, first)) || !alphabet.test(token.slice(first + 1, second)) || !alphabet.test(token.slice(second + 1))) return undefined
  return [first, second]
}

/**
 * RFC 7515 section 4.1, RFC 8725 section 3.11. Key hints (kid, jwk, jku, x5u, x5c) are never used, so they may be there;
 * `alg` was compared with the one algorithm before the signature was.
 */
function isHeaderAcceptable (header: Readonly<Record<string, unknown>>): boolean {
  if (Object.hasOwn(header, 'crit') || Object.hasOwn(header, 'enc') || Object.hasOwn(header, 'b64')) return false
  if (Object.hasOwn(header, 'typ') && !(typeof header.typ === 'string' && header.typ.toUpperCase() === 'JWT')) return false
  // A nested token (RFC 7519 section 5.2) says nothing by itself.
  return !Object.hasOwn(header, 'cty') || (typeof header.cty === 'string' && header.cty.toUpperCase() !== 'JWT')
}

/**
 * Runs `create` while V8 captures no stack traces, of which fast-jwt would capture two for every bad token. `Reflect.set`,
 * because the limit cannot be written where the process runs with frozen intrinsics: then traces are captured, no more.
 */
function withoutStackTraces<T> (create: () => T): T {
  const limit = Error.stackTraceLimit
  Reflect.set(Error, 'stackTraceLimit', 0)
  try {
    return create()
  } finally {
    Reflect.set(Error, 'stackTraceLimit', limit)
  }
}

/** Freezes a payload, lists and objects in it included: requests share it, so that none may change what another sees. */
function frozen (payload: VerifiedToken['payload']): VerifiedToken['payload'] {
  const containers: object[] = [payload]
  for (const container of containers) {
    Object.freeze(container)
    for (const member of Object.values(container)) if (typeof member === 'object' && member !== null) containers.push(member)
  }
  return payload
}

/** A copy of a token on its own: a part of a string keeps all of it in memory, here a whole Cookie header. */
const detached = (token: string) => Buffer.from(token, 'latin1').toString('latin1')

/** Says, for canonical tokens, whether the signature is the HMAC of what it signs, in a time that does not depend on where it differs. */
function hmacCheck (algorithm: Algorithm, key: Key): (token: string, second: number) => boolean {
  const secret = createSecretKey(key.material)
  const hash = `sha${algorithm.slice(2)}`
  return (token, second) => {
    const expected = createHmac(hash, secret).update(token.slice(0, second)).digest()
    const signature = Buffer.from(token.slice(second + 1), 'base64url')
    return signature.length === expected.length && timingSafeEqual(signature, expected)
  }
}

/** After a bad token, so many others in a row must be good before a bad one is no longer expected. */
const waryFor = 100

function buildVerifier (algorithm: Algorithm, key: Key, cacheSize: number): Verifier {
  const verifySignature = createVerifier({
    // Exactly one name in a list: anything else means "whatever this key allows" to fast-jwt.
    algorithms: [algorithm],
    key: key.material,
    complete: true,
    // Decided in claims.ts, on every request, also for remembered tokens.
    ignoreExpiration: true,
    ignoreNotBefore: true
  })
  const cache = cacheSize > 0 ? new TokenCache<VerifiedToken>(cacheSize) : undefined
  const isSigned = isHmac(algorithm) ? hmacCheck(algorithm, key) : undefined
  /**
   * While it is not zero, bad tokens are expected: then the HMAC alone is looked at first, because what fast-jwt throws
   * for a wrong one costs several times more. It can only refuse; what it lets pass, fast-jwt is asked all the same.
   */
  let wary = 0
  /** Headers of issuers hardly ever differ: the last one found acceptable is not looked at again. */
  let acceptableHeader = ''

  function decode (token: string, first: number, second: number): VerifiedToken | Refusal {
    const { header, payload }: { header: Record<string, unknown>, payload: Record<string, unknown> } = verifySignature(token)
    const headerText = token.slice(0, first)
    if (headerText !== acceptableHeader) {
      if (!isUtf8(Buffer.from(headerText, 'base64url')) || !isHeaderAcceptable(header)) {
        return badHeader
      }
      acceptableHeader = detached(headerText)
    }
    if (!isUtf8(Buffer.from(token.slice(first + 1, second), 'base64url'))) {
      return badPayload
    }
    return { token, payload, isRemembered: false, registered: readRegistered(payload) }
  }

  return function verify (token) {
    const remembered = cache?.get(token)
    if (remembered !== undefined) return remembered
    const dots = findDots(token)
    if (dots === undefined) return badForm
    if (wary > 0 && isSigned !== undefined) {
      if (!isSigned(token, dots[1])) {
        wary = waryFor
        return badSignature
      }
      wary--
    }
    try {
      const outcome = withoutStackTraces(() => decode(token, dots[0], dots[1]))
      if (cache === undefined || outcome instanceof Refusal || !cache.admits(token)) return outcome
      const entry = { ...outcome, token: detached(token), payload: frozen(outcome.payload), isRemembered: true }
      cache.set(entry)
      return entry
    } catch {
      // By exclusion: whatever fast-jwt throws, this token is not acceptable.
      wary = waryFor
      return badSignature
    }
  }
}

const nextTurn = promisify(setImmediate)
let lastTurn: Promise<void> = Promise.resolve()

/**
 * Signs in a turn of the event loop of its own. A signature of RSA takes around a millisecond: several in a row would hold
 * up everyone else. Measured against Node.js's thread pool, whose threads take the time of the loop where cores are few.
 */
async function inTurn (sign: () => string): Promise<string> {
  lastTurn = lastTurn.then(() => nextTurn())
  await lastTurn
  return sign()
}

function buildSigner (algorithm: Algorithm, key: Key, issuedAt: boolean): Signer {
  const sign = createSigner({ algorithm, key: key.material, noTimestamp: !issuedAt })
  return isHmac(algorithm) || algorithm.startsWith('ES') ? (payload) => sign(payload) : (payload) => inTurn(() => sign(payload))
}

/** What was built once is used by every instance that has the same key and the same rules, for as long as one does. */
function shared<Args extends readonly [Algorithm, Key, unknown], Made extends object> (build: (...args: Args) => Made): (...args: Args) => Made {
  const made = new Map<string, WeakRef<Made>>()
  const collected = new FinalizationRegistry<string>((id) => { if (made.get(id)?.deref() === undefined) made.delete(id) })
  return (...args) => {
    const id = `${args[0]} ${args[1].fingerprint} ${args[2]}`
    const existing = made.get(id)?.deref()
    if (existing !== undefined) return existing
    const fresh = build(...args)
    made.set(id, new WeakRef(fresh))
    collected.register(fresh, id)
    return fresh
  }
}

/** The verifier of a key. The last argument: how many verified tokens it remembers; 0 for none. */
export const verifierOf: (algorithm: Algorithm, key: Key, cacheSize: number) => Verifier = shared(buildVerifier)

/** The signer of a key. The last argument: whether tokens carry `iat`, which fast-jwt would add unasked and otherwise removes. */
export const signerOf: (algorithm: Algorithm, key: Key, issuedAt: boolean) => Signer = shared(buildSigner)
