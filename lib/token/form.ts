/** The form of a token (RFC 7515 section 7.1), and of its header. fast-jwt accepts more than the RFCs do. */
import { isUtf8 } from 'node:buffer'

/** The maximum length of this instance's tokens, in characters. It bounds the cost of invalid tokens. */
export const maximumTokenLength = 8192
/** The maximum length of tokens of trusted issuers. Some list hundreds of groups, and Node.js allows 16 KiB for all headers. */
export const maximumIssuerTokenLength = 16_384

const alphabet = /^[\w-]+$/
/** The last characters that a segment may have, by its length modulo 4: their spare bits are zero (RFC 4648 section 3.5). */
const lastCharacters: Record<number, string | undefined> = { 2: 'AQgw', 3: 'AEIMQUYcgkosw048' }

/** Whether a segment is the canonical text of its bytes. The alphabet is checked separately. */
function isCanonical (token: string, start: number, end: number): boolean {
  const rest = (end - start) % 4
  return rest === 0 || (lastCharacters[rest]?.includes(token[end - 1]!) ?? false)
}

/** The positions of the two dots of a token. */
export type Dots = readonly [first: number, second: number]

/**
 * The positions of the two dots; undefined if a text is not three non-empty segments of canonical base64url.
 * @param longest the maximum number of characters
 */
export function findDots (token: string, longest: number): Dots | undefined {
  if (token.length > longest) return undefined
  const first = token.indexOf('.')
  const second = token.indexOf('.', first + 1)
  if (first < 1 || second < first + 2 || second + 1 === token.length) return undefined
  if (!isCanonical(token, 0, first) || !isCanonical(token, first + 1, second) || !isCanonical(token, second + 1, token.length)) {
    return undefined
  }
  // A third dot is not in the alphabet.
  if (!alphabet.test(token.slice(0, first)) || !alphabet.test(token.slice(first + 1, second)) || !alphabet.test(token.slice(second + 1))) {
    return undefined
  }
  return [first, second]
}

/**
 * Calls a function while V8 captures no stack traces, because an invalid token causes up to two errors. `Reflect.set` does
 * not throw in a process with frozen intrinsics; the traces are then captured.
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

/** Copies a string. A substring would keep the whole string in memory, such as a Cookie header. */
export const detached = (text: string) => Buffer.from(text, 'latin1').toString('latin1')

/**
 * Reads a segment of a token: its own members, without a prototype.
 * @returns undefined for anything but the JSON of an object or a list
 */
export function readSegment (bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = withoutStackTraces(() => JSON.parse(bytes.toString()))
    return typeof value === 'object' && value !== null ? Object.assign(Object.create(null), value) : undefined
  } catch {
    return undefined
  }
}

/** The header of a token. Until the signature is verified, it is used only to find the key. */
export interface Header {
  readonly alg: string
  /** Undefined if absent, null for a value that is not an id. Only tokens of issuers may have an empty id. */
  readonly kid: string | null | undefined
  /** Undefined if absent. */
  readonly typ: unknown
  /** Whether it has no member that must be understood, or that makes the token another kind of token. */
  readonly isSupported: boolean
}

const longestKid = 256

function readKid (kid: unknown): Header['kid'] {
  if (kid === undefined) return undefined
  return typeof kid === 'string' && kid.length <= longestKid ? kid : null
}

/** Members that must be understood (RFC 7515 section 4.1.11), or that encrypted tokens have. */
const demanding = ['crit', 'enc', 'b64']

/**
 * Reads a header. Hints at keys (jwk, jku, x5u, x5c) are allowed, because they are never used; `kid` only chooses among known keys.
 * @returns undefined for a header without an algorithm
 */
export function readHeader (text: string): Header | undefined {
  const bytes = Buffer.from(text, 'base64url')
  const members = readSegment(bytes)
  if (members === undefined || typeof members.alg !== 'string') return undefined
  const { alg, kid, typ, cty } = members
  // The claims of a nested token (RFC 7519 section 5.2) are not in its payload.
  const isNested = cty !== undefined && (typeof cty !== 'string' || cty.toUpperCase() === 'JWT')
  return { alg, kid: readKid(kid), typ, isSupported: !isNested && isUtf8(bytes) && !demanding.some((name) => name in members) }
}

/** The types of tokens (RFC 8725 section 3.11), in lowercase. `application/` may be omitted (RFC 7515 section 4.1.9). */
const jwtType = 'jwt'
const accessTokenTypes = ['at+jwt', 'application/at+jwt']

/** Whether the `typ` of a header is that of an access token (RFC 9068 section 2.1). */
export const isAccessToken = (typ: unknown) => typeof typ === 'string' && accessTokenTypes.includes(typ.toLowerCase())

/** Whether the `typ` of a header is absent, or that of a JWT without a specific use. */
export const isPlainJwt = (typ: unknown) => typ === undefined || (typeof typ === 'string' && typ.toLowerCase() === jwtType)
