/** User ids in sessions. */
import { InvalidUserObject } from '../errors.ts'
import { asClaimed } from '../values.ts'
import type { UserId } from '../../types/handlers.ts'

/** Limits the size of refresh tokens, which must fit into a cookie. */
export const maximumUserBytes = 512

/** What the refresh tokens and sessions of a registration are bound to: its issuer, its audience, and the name of its user ids. */
export interface Binding {
  readonly claimIss: string | null
  readonly claimAud: string | null
  readonly userId: string
}

/**
 * Returns issuer, audience, and the name of user ids if it is not the default. Registrations of one key and one store that
 * differ only in this name, such as "customer_id" and "staff_id", have different users with equal ids.
 */
export function bound ({ claimIss, claimAud, userId }: Binding): ReadonlyArray<string | null> {
  return userId === 'user_id' ? [claimIss, claimAud] : [claimIss, claimAud, userId]
}

/** Whether a user id is short enough for sessions. A user for whom the application generated an access token itself may have a longer one. */
export function canHaveSessions (userId: UserId): boolean {
  return Buffer.byteLength(JSON.stringify(userId)) <= maximumUserBytes
}

/** Converts a user id to JSON, in which 42 and "42" differ. @throws {InvalidUserObject} for more than 512 bytes */
export function userIdText (userId: UserId): string {
  const text = JSON.stringify(userId)
  const bytes = Buffer.byteLength(text)
  if (bytes <= maximumUserBytes) return text
  throw new InvalidUserObject(`The user id has ${bytes} bytes as JSON. Sessions allow at most ${maximumUserBytes}. Use a shorter user id.`)
}

/**
 * Returns the user in the form that the store gets. It contains the result of {@link bound}, so that services with
 * different issuers or audiences can share a store, although equal user ids belong to different users.
 * @throws {InvalidUserObject}
 */
export function storedUser (userId: UserId, binding: Binding): string {
  const text = userIdText(userId)
  const names = bound(binding)
  return names.every((name) => name === null) ? text : JSON.stringify([userId, ...names])
}

/** Returns a function that converts a verified payload to the user for the store; an empty string if the user can have no sessions. */
export function userOfPayload (settings: Binding & { readonly userId: string }): (payload: Readonly<Record<string, unknown>>) => string {
  return (payload) => {
    // The user id was checked with the other claims.
    const userId = asClaimed(settings.userId, payload[settings.userId] as UserId)
    return canHaveSessions(userId) ? storedUser(userId, settings) : ''
  }
}
