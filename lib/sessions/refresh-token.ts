/**
 * Refresh tokens of sessions. A refresh token contains the session id, the counter of the session, the time of the login,
 * what the login says for its whole session, the user id, and a MAC. The store contains the counter, but nothing from which
 * a refresh token can be computed. Forged tokens are refused without a call of the store.
 *
 * `base64url( 0x02 | sid 16 | n 6 | time of login 5 | flags 1 | length of user id 2 | length of claims 2 | user id | claims | mac 16 )`.
 * Numbers are big endian. User id and claims are JSON in UTF-8; no claims have the length 0. Flag 1: cookies do not outlive
 * the browser. The MAC is the first half of the HMAC-SHA-256 of all bytes before it, followed by `JSON([claimIss, claimAud])`,
 * to which the name of the user id is added if `userId` is not "user_id". The two lengths show where the binding begins, so
 * different contents or bindings never have the same MAC input.
 */
import { isUtf8 } from 'node:buffer'
import { createHmac, createSecretKey, hkdfSync, randomBytes, timingSafeEqual, type KeyObject } from 'node:crypto'
import { isUserId } from '../values.ts'
import type { UserId } from '../../types/handlers.ts'
import { claimsFrom, maximumClaimsBytes, type StoredFacts } from './login-facts.ts'
import { bound, maximumUserBytes, userIdText, type Binding } from './user.ts'

const version = 2
const sidAt = 1
const sidBytes = 16
const counterAt = sidAt + sidBytes
const counterBytes = 6
const timeAt = counterAt + counterBytes
const timeBytes = 5
const flagsAt = timeAt + timeBytes
const userLengthAt = flagsAt + 1
const claimsLengthAt = userLengthAt + 2
const userAt = claimsLengthAt + 2
const macBytes = 16
const maximumCharacters = 2048

/** The bit of the flags for cookies that do not outlive the browser. */
const notPersistent = 1

/** The largest counter that a refresh token can carry. */
export const maximumCounter = 2 ** (8 * counterBytes) - 1

/** The content of a refresh token. */
export interface RefreshToken extends StoredFacts {
  /** The id of the session, as in the claim `sid`. */
  readonly sid: string
  /** The counter of the session when the token was issued. */
  readonly n: number
  /** The time of the login in seconds since 1970. */
  readonly authTime: number
  readonly userId: UserId
}

/** Creates and reads the refresh tokens of a registration. */
export interface RefreshTokenCodec {
  /** Creates a refresh token. @throws {InvalidUserObject} if the user id is too long */
  write (content: RefreshToken): string
  /** Reads a refresh token. Returns undefined for any text that `write` did not create with one of the keys. Never throws. */
  read (text: string): RefreshToken | undefined
}

/** Generates a session id: 128 random bits, as 22 characters. */
export function newSessionId (): string {
  return randomBytes(sidBytes).toString('base64url')
}

/** Whether a value has the form of a session id. 22 characters encode 132 bits; the last four bits must be zero. */
export function isSessionId (value: unknown): value is string {
  return typeof value === 'string' && /^[\w-]{21}[AQgw]$/.test(value)
}

/** HKDF (RFC 5869) derives a separate key, because the key material may also sign access tokens. */
function deriveKey (material: Buffer): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync('sha256', material, '', 'fastify-token-auth refresh v1', 32)))
}

function userIdFrom (text: string): UserId | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isUserId(value) && JSON.stringify(value) === text ? value : undefined
  } catch {
    return undefined
  }
}

/** The lengths of the two texts of a refresh token. */
interface Lengths {
  readonly user: number
  readonly claims: number
}

/** Reads the lengths; undefined if the bytes are no refresh token of this version. */
function lengthsOf (bytes: Buffer): Lengths | undefined {
  if (bytes.length < userAt + macBytes || bytes[0] !== version) return undefined
  const user = bytes.readUInt16BE(userLengthAt)
  const claims = bytes.readUInt16BE(claimsLengthAt)
  const isPossible = user <= maximumUserBytes && claims <= maximumClaimsBytes && bytes[flagsAt]! <= notPersistent
  return isPossible && bytes.length === userAt + user + claims + macBytes ? { user, claims } : undefined
}

/** Whether a text has the form of a refresh token, whatever made it. */
export const isWellFormed = (text: string): boolean =>
  text.length <= maximumCharacters && lengthsOf(Buffer.from(text, 'base64url')) !== undefined

/**
 * Creates a codec. The derived keys stay in closures.
 * @param materials key material: the first one signs, all verify
 */
export function createRefreshTokenCodec (materials: readonly [Buffer, ...Buffer[]], bindTo: Binding): RefreshTokenCodec {
  const [first, ...others] = materials
  const signing = deriveKey(first)
  const keys = [signing, ...others.map(deriveKey)]
  const binding = Buffer.from(JSON.stringify(bound(bindTo)))
  // `digest()` without an encoding allocates a Buffer outside of the pool, which takes a fifth of the time of `read`.
  const macOf = (key: KeyObject, body: Buffer) => {
    const mac = createHmac('sha256', key).update(body).update(binding).digest('binary')
    return Buffer.from(mac.slice(0, macBytes), 'binary')
  }

  return {
    write ({ sid, n, authTime, userId, persistent, claims }) {
      const user = userIdText(userId)
      const claimsAt = userAt + Buffer.byteLength(user)
      const end = claimsAt + Buffer.byteLength(claims)
      const bytes = Buffer.alloc(end + macBytes)
      bytes[0] = version
      bytes.write(sid, sidAt, sidBytes, 'base64url')
      bytes.writeUIntBE(n, counterAt, counterBytes)
      bytes.writeUIntBE(authTime, timeAt, timeBytes)
      bytes[flagsAt] = persistent ? 0 : notPersistent
      bytes.writeUInt16BE(claimsAt - userAt, userLengthAt)
      bytes.writeUInt16BE(end - claimsAt, claimsLengthAt)
      bytes.write(user, userAt)
      bytes.write(claims, claimsAt)
      bytes.set(macOf(signing, bytes.subarray(0, end)), end)
      return bytes.toString('base64url')
    },

    read (text) {
      if (text.length > maximumCharacters) return undefined
      const bytes = Buffer.from(text, 'base64url')
      const lengths = lengthsOf(bytes)
      if (lengths === undefined) return undefined
      // Buffer.from() also accepts the base64 alphabet, padding, spare bits that are not zero, and invalid characters.
      if (bytes.toString('base64url') !== text) return undefined
      const body = bytes.subarray(0, -macBytes)
      const mac = bytes.subarray(-macBytes)
      if (!keys.some((key) => timingSafeEqual(macOf(key, body), mac))) return undefined
      const claimsAt = userAt + lengths.user
      if (!isUtf8(body.subarray(userAt, claimsAt)) || !isUtf8(body.subarray(claimsAt))) return undefined
      const userId = userIdFrom(body.toString('utf8', userAt, claimsAt))
      const claims = body.toString('utf8', claimsAt)
      if (userId === undefined || claimsFrom(claims) === undefined) return undefined
      return {
        sid: bytes.toString('base64url', sidAt, counterAt),
        n: bytes.readUIntBE(counterAt, counterBytes),
        authTime: bytes.readUIntBE(timeAt, timeBytes),
        userId,
        persistent: bytes[flagsAt] === 0,
        claims
      }
    }
  }
}
