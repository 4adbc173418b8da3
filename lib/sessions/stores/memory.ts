/** Sessions in the memory of one process. */
import type { SessionRules, SessionStore, StoredSession } from '../../../types/sessions.ts'
import { decide, expiryOf } from '../rotation.ts'

interface Session extends StoredSession {
  readonly user: string
  n: number
  rotatedAt: number | null
  expiresAt: number
}

/** An ended session, and until when it is fed. */
interface Ended {
  readonly sid: string
  readonly until: number
}

/** How many sessions each call looks at for expired ones: above 1, expired sessions go faster than new ones come. */
const sweptPerCall = 4

/** From how many dropped entries on the feed is cut. Half of it must be dropped, so that each entry is moved once on average. */
const cutFrom = 1000

/** The sessions that ended, in the order in which they did. Cursors count them, and so depend on no clock. */
function createFeed () {
  let entries: Ended[] = []
  /** How many entries were cut off, and how many of the others are no longer fed. */
  let cut = 0
  let dropped = 0
  let last = 0

  return {
    add (sids: readonly string[], now: number, keepMs: number): void {
      // The clock may be set back, and forward again: no session is forgotten early for it.
      last = Math.max(last, now)
      for (const sid of sids) entries.push({ sid, until: last + keepMs })
    },
    trim (now: number): void {
      while (dropped < entries.length && entries[dropped]!.until <= now) dropped++
      if (dropped < cutFrom || dropped < entries.length / 2) return
      entries = entries.slice(dropped)
      cut += dropped
      dropped = 0
    },
    since (cursor: string | null): { ended: string[], cursor: string } {
      const end = cut + entries.length
      const from = Number(cursor)
      // A cursor that is not of this feed: everything.
      const start = Number.isSafeInteger(from) && from <= end ? Math.max(from - cut, dropped) : dropped
      return { ended: entries.slice(start).map(({ sid }) => sid), cursor: String(end) }
    }
  }
}

/**
 * Creates a store that keeps sessions in the memory of this process, the default. Its sessions end with the process, and
 * another process does not know them: it is for development, tests and applications of one process. Sessions that ended
 * or expired are deleted; it has no timers. Its clock is `Date.now`.
 */
export function memorySessions (): SessionStore {
  const sessions = new Map<string, Session>()
  const users = new Map<string, Set<Session>>()
  const feed = createFeed()
  let hand = sessions.values()

  function remove (session: Session): void {
    sessions.delete(session.sid)
    const ofUser = users.get(session.user)
    ofUser?.delete(session)
    if (ofUser?.size === 0) users.delete(session.user)
  }

  /** Ends sessions of one step: they leave the store and enter the feed together. */
  function endAll (ending: readonly Session[], now: number, { keepMs }: SessionRules): string[] {
    const sids = ending.map(({ sid }) => sid)
    feed.add(sids, now, keepMs)
    ending.forEach(remove)
    return sids
  }

  function activeOf (user: string, now: number): Session[] {
    return [...users.get(user) ?? []].filter(({ expiresAt }) => expiresAt > now)
  }

  /** Those of a user that would expire first, so many that one more session is not too many. */
  function surplusOf (user: string, now: number, { maxPerUser }: SessionRules): Session[] {
    const active = activeOf(user, now)
    const surplus = active.length + 1 - maxPerUser
    return surplus > 0 ? active.sort((a, b) => a.expiresAt - b.expiresAt).slice(0, surplus) : []
  }

  function find (user: string, sid: string, now: number): Session | undefined {
    const session = sessions.get(sid)
    return session !== undefined && session.user === user && session.expiresAt > now ? session : undefined
  }

  /** Deletes what expired and is never asked for again, a few sessions with each call. Gives the time of the call. */
  function begin (): number {
    const now = Date.now()
    feed.trim(now)
    for (let swept = 0; swept < sweptPerCall; swept++) {
      const { done, value } = hand.next()
      if (done === true) {
        hand = sessions.values()
        break
      }
      if (value.expiresAt <= now) remove(value)
    }
    return now
  }

  return {
    async create ({ sid, user, lifetimeMs, data }, rules) {
      const now = begin()
      const ended = endAll(surplusOf(user, now, rules), now, rules)
      const endsAt = now + lifetimeMs
      const session = { sid, user, n: 0, rotatedAt: null, createdAt: now, usedAt: now, endsAt, expiresAt: expiryOf(now, endsAt, rules.idleMs), data }
      sessions.set(sid, session)
      const ofUser = users.get(user)
      if (ofUser === undefined) users.set(user, new Set([session]))
      else ofUser.add(session)
      return ended
    },

    async advance (user, sid, n, rules) {
      const now = begin()
      const session = find(user, sid, now)
      if (session === undefined) return { outcome: 'unknown', n: 0 }
      const decision = decide(session, n, now, rules.graceMs)
      if (decision.outcome === 'reused') {
        endAll([session], now, rules)
      } else if (decision.outcome !== 'repeated') {
        session.n = decision.n
        session.rotatedAt = session.usedAt = now
        session.expiresAt = expiryOf(now, session.endsAt, rules.idleMs)
      }
      return decision
    },

    async end (user, which, rules) {
      const now = begin()
      if ('sid' in which) {
        const session = find(user, which.sid, now)
        return session === undefined ? [] : endAll([session], now, rules)
      }
      return endAll(activeOf(user, now).filter(({ sid }) => sid !== which.except), now, rules)
    },

    async list (user) {
      return activeOf(user, Date.now()).map(({ sid, createdAt, usedAt, endsAt, data }) => ({ sid, createdAt, usedAt, endsAt, data }))
    },

    async endedSince (cursor) {
      begin()
      return feed.since(cursor)
    }
  }
}
