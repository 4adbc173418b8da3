/**
 * Refresh tokens of sessions. A refresh token names its user and session, and carries the counter of the session, the time
 * of the login, and a MAC over all of them. The store knows the counter alone, so that a stolen store is of no use, and a
 * forged token is refused without a call of the store.
 *
 * `base64url( 0x01 | sid 16 | n 6 | time of login 5 | user id | mac 16 )`. Numbers are big endian. The user id is JSON text
 * in UTF-8. The MAC is the first half of an HMAC-SHA-256 over all bytes before it and `JSON([claimIss, claimAud])`.
 * JSON texts end where they end, so no other user id and binding give the same bytes.
 */
import { isUtf8 } from 'node:buffer'
import { createHmac, createSecretKey, hkdfSync, randomBytes, timingSafeEqual, type KeyObject } from 'node:crypto'
import { isUserId } from '../settings/user-id.ts'
import type { UserId } from '../../types/handlers.ts'
import { maximumUserBytes, userIdText, type Binding } from './user.ts'

const version = 1
const sidAt = 1
const sidBytes = 16
const counterAt = sidAt + sidBytes
const counterBytes = 6
const timeAt = counterAt + counterBytes
const timeBytes = 5
const userAt = timeAt + timeBytes
const macBytes = 16
const maximumCharacters = 1024

/** The largest counter that a refresh token can carry. */
export const maximumCounter = 2 ** (8 * counterBytes) - 1

/** What a refresh token says. */
export interface RefreshToken {
  /** The id of the session, as in the claim `sid`. */
  readonly sid: string
  /** The counter of the session when the token was made. */
  readonly n: number
  /** The time of the login in seconds since 1970. */
  readonly authTime: number
  readonly userId: UserId
}

/** Writes and reads the refresh tokens of a registration. The keys stay in its closures. */
export interface RefreshTokenCodec {
  /** @throws {InvalidUserObject} where the user id is too long */
  write (content: RefreshToken): string
  /** Undefined for any text that is not exactly as written with one of the keys. It never throws. */
  read (text: string): RefreshToken | undefined
}

/** Generates the id of a new session: 22 characters for 128 random bits. */
export function newSessionId (): string {
  return randomBytes(sidBytes).toString('base64url')
}

/** Whether a value is written like the id of a session. 22 characters hold 132 bits, so the last one must leave four of them zero. */
export function isSessionId (value: unknown): value is string {
  return typeof value === 'string' && /^[\w-]{21}[AQgw]$/.test(value)
}

/** HKDF (RFC 5869) separates this use of the key material from others: it may be what signs access tokens. */
function deriveKey (material: Buffer): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync('sha256', material, '', 'fastify-token-auth refresh v1', 32)))
}

function userIdFrom (bytes: Buffer): UserId | undefined {
  if (!isUtf8(bytes)) return undefined
  const text = bytes.toString()
  try {
    const value: unknown = JSON.parse(text)
    return isUserId(value) && JSON.stringify(value) === text ? value : undefined
  } catch {
    return undefined
  }
}

/**
 * Prepares writing and reading.
 * @param materials key material: the first one signs, all verify
 */
export function createRefreshTokenCodec (materials: readonly [Buffer, ...Buffer[]], { claimIss, claimAud }: Binding): RefreshTokenCodec {
  const [first, ...others] = materials
  const signing = deriveKey(first)
  const keys = [signing, ...others.map(deriveKey)]
  const binding = Buffer.from(JSON.stringify([claimIss, claimAud]))
  // By way of text: `digest()` without an encoding allocates memory of its own, which costs a fourth of it all.
  const macOf = (key: KeyObject, body: Buffer) => Buffer.from(createHmac('sha256', key).update(body).update(binding).digest('binary').slice(0, macBytes), 'binary')

  return {
    write ({ sid, n, authTime, userId }) {
      const user = userIdText(userId)
      const end = userAt + Buffer.byteLength(user)
      const bytes = Buffer.alloc(end + macBytes)
      bytes[0] = version
      bytes.write(sid, sidAt, sidBytes, 'base64url')
      bytes.writeUIntBE(n, counterAt, counterBytes)
      bytes.writeUIntBE(authTime, timeAt, timeBytes)
      bytes.write(user, userAt)
      bytes.set(macOf(signing, bytes.subarray(0, end)), end)
      return bytes.toString('base64url')
    },

    read (text) {
      if (text.length > maximumCharacters) return undefined
      const bytes = Buffer.from(text, 'base64url')
      const end = bytes.length - macBytes
      if (end <= userAt || end > userAt + maximumUserBytes || bytes[0] !== version) return undefined
      // Node decodes more than base64url: other alphabets, padding, spare bits, and what is in between.
      if (bytes.toString('base64url') !== text) return undefined
      const body = bytes.subarray(0, end)
      const mac = bytes.subarray(end)
      if (!keys.some((key) => timingSafeEqual(macOf(key, body), mac))) return undefined
      const userId = userIdFrom(body.subarray(userAt))
      if (userId === undefined) return undefined
      return {
        sid: bytes.toString('base64url', sidAt, counterAt),
        n: bytes.readUIntBE(counterAt, counterBytes),
        authTime: bytes.readUIntBE(timeAt, timeBytes),
        userId
      }
    }
  }
}
