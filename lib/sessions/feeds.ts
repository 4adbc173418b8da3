/** The ended sessions of each store, which the registrations with it share. */
import type { SessionFeed } from '../../types/sessions.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { EndedSessions } from './revocation.ts'

/** The ended sessions of each store, and the number of open registrations with it. */
const feeds = new WeakMap<object, { readonly ended: EndedSessions, readonly fingerprints: Set<string>, holders: number }>()

/**
 * Returns the ended sessions of a store.
 * @param fingerprints the fingerprints of the keys that verify access tokens
 * @throws {InvalidConfiguration} if registrations with different keys share a store: users with equal ids would share sessions
 */
export function endedSessionsOf (store: SessionFeed, fingerprints: readonly string[]): EndedSessions {
  const existing = feeds.get(store)
  if (existing === undefined) {
    const fresh = new EndedSessions(store)
    feeds.set(store, { ended: fresh, fingerprints: new Set(fingerprints), holders: 1 })
    return fresh
  }
  if (fingerprints.some((fingerprint) => existing.fingerprints.has(fingerprint))) {
    for (const fingerprint of fingerprints) existing.fingerprints.add(fingerprint)
    existing.holders++
    return existing.ended
  }
  throw new InvalidConfiguration(
    '"sessions.store" is the store of an instance with another key, whose users are not the users of this one. Give each of them a store of its own, with another prefix or table.',
    { page: 'sessions-reference.md#settings' }
  )
}

/** Releases the ended sessions of a store when the last application closes that has a registration with it. */
export function releaseEndedSessions (store: SessionFeed): void {
  const feed = feeds.get(store)
  if (feed !== undefined && --feed.holders === 0) feeds.delete(store)
}
