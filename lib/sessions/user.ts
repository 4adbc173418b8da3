/** Users as sessions name them. */
import { InvalidUserObject } from '../errors.ts'
import type { UserId } from '../../types/handlers.ts'

/** Longer ones would make refresh tokens that no browser keeps as a cookie. */
export const maximumUserBytes = 512

/** The issuer and the audience of a registration, to which its refresh tokens and sessions are bound. */
export interface Binding {
  readonly claimIss: string | null
  readonly claimAud: string | null
}

/** Writes a user id as JSON, so that 42 and "42" are two users. @throws {InvalidUserObject} where it has more than 512 bytes */
export function userIdText (userId: UserId): string {
  const text = JSON.stringify(userId)
  const bytes = Buffer.byteLength(text)
  if (bytes <= maximumUserBytes) return text
  throw new InvalidUserObject(`The user id has ${bytes} bytes as JSON, and a session allows ${maximumUserBytes}. Use a shorter user id.`)
}

/**
 * Names a user for a store. Registrations that differ in issuer or audience are different services, whose users are not
 * the same even where their ids are, so that they may share a store.
 * @throws {InvalidUserObject}
 */
export function storedUser (userId: UserId, { claimIss, claimAud }: Binding): string {
  const text = userIdText(userId)
  return claimIss === null && claimAud === null ? text : JSON.stringify([userId, claimIss, claimAud])
}
