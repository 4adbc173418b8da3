/** Sessions in the memory of one process. */
import type { SessionRules, SessionStore, StoredSession } from '../../../types/sessions.ts'
import { confirm, decide, expiryOf, firstGeneration, isToConfirm, type Change, type Generations } from '../rotation.ts'

interface Session extends StoredSession {
  readonly user: string
  family: Generations
  /** When the window began; null before the first rotation. */
  windowAt: number | null
  expiresAt: number
}

/** An ended session, and until when `endedSince` returns it, by `performance.now()`. */
interface Ended {
  readonly sid: string
  readonly until: number
}

/** The stores that were created here. */
const created = new WeakSet<object>()

/** Whether a store keeps its sessions in the memory of this process. */
export const isMemoryStore = (store: object): boolean => created.has(store)

/** How many sessions each call checks for expiry. With more than 1, expired sessions are deleted faster than sessions are created. */
const sweptPerCall = 4

/** How many outdated entries the feed keeps before they are removed. At least half of the feed must be outdated, so that removal costs the same for each entry. */
const maximumOutdated = 1000

/**
 * The ended sessions, in order. A cursor is a position in this list. Entries expire by the monotonic clock: if the system
 * clock is set forward and back, expired access tokens become valid again, so the list must still contain their sessions.
 */
function createFeed () {
  let entries: Ended[] = []
  /** The number of entries that were removed. */
  let removed = 0
  /** The number of outdated entries at the beginning of `entries`. */
  let outdated = 0

  return {
    add (sids: readonly string[], keepMs: number): void {
      const until = performance.now() + keepMs
      for (const sid of sids) entries.push({ sid, until })
    },
    trim (): void {
      const now = performance.now()
      while (outdated < entries.length && entries[outdated]!.until <= now) outdated++
      if (outdated < maximumOutdated || outdated < entries.length / 2) return
      entries = entries.slice(outdated)
      removed += outdated
      outdated = 0
    },
    since (cursor: string | null): { ended: string[], cursor: string } {
      const end = removed + entries.length
      const from = Number(cursor)
      // A cursor that this feed did not return gets all entries.
      const start = Number.isSafeInteger(from) && from <= end ? Math.max(from - removed, outdated) : outdated
      return { ended: entries.slice(start).map(({ sid }) => sid), cursor: String(end) }
    }
  }
}

/**
 * Creates a store that keeps sessions in the memory of this process: the default, for development, tests, and applications
 * of one process. Other processes do not see its sessions, which end with the process. Its clock is `Date.now`. It deletes
 * sessions that have ended or expired, and has no timers.
 */
export function memorySessions (): SessionStore {
  const sessions = new Map<string, Session>()
  const users = new Map<string, Set<Session>>()
  const feed = createFeed()
  /** Where the search for expired sessions continues. */
  let sweep = sessions.values()

  function remove (session: Session): void {
    sessions.delete(session.sid)
    const ofUser = users.get(session.user)
    ofUser?.delete(session)
    if (ofUser?.size === 0) users.delete(session.user)
  }

  /** Moves sessions from the store to the feed, in one step. */
  function endAll (ending: readonly Session[], { keepMs }: SessionRules): string[] {
    const sids = ending.map(({ sid }) => sid)
    feed.add(sids, keepMs)
    ending.forEach(remove)
    return sids
  }

  function activeOf (user: string, now: number): Session[] {
    return [...(users.get(user) ?? [])].filter(({ expiresAt }) => expiresAt > now)
  }

  /** Returns the sessions that must end before the user gets another one: those that would expire first. */
  function surplusOf (user: string, now: number, { maxPerUser }: SessionRules): Session[] {
    const active = activeOf(user, now)
    const surplus = active.length + 1 - maxPerUser
    return surplus > 0 ? active.sort((a, b) => a.expiresAt - b.expiresAt).slice(0, surplus) : []
  }

  function find (user: string, sid: string, now: number): Session | undefined {
    const session = sessions.get(sid)
    return session !== undefined && session.user === user && session.expiresAt > now ? session : undefined
  }

  function apply (session: Session, { family, beginsWindow, isUse }: Change, now: number, { idleMs }: SessionRules): void {
    session.family = family
    if (beginsWindow) session.windowAt = now
    if (!isUse) return
    session.usedAt = now
    session.expiresAt = expiryOf(now, session.endsAt, idleMs)
  }

  /** Called first by each method except `list`. Deletes a few expired sessions that may never be requested again. Returns the time. */
  function begin (): number {
    const now = Date.now()
    feed.trim()
    for (let swept = 0; swept < sweptPerCall; swept++) {
      const { done, value } = sweep.next()
      if (done === true) {
        sweep = sessions.values()
        break
      }
      if (value.expiresAt <= now) remove(value)
    }
    return now
  }

  const store: SessionStore = {
    async create ({ sid, user, lifetimeMs, data }, rules) {
      const now = begin()
      const ended = endAll(surplusOf(user, now, rules), rules)
      const endsAt = now + lifetimeMs
      const session = {
        sid,
        user,
        family: firstGeneration,
        windowAt: null,
        createdAt: now,
        usedAt: now,
        endsAt,
        expiresAt: expiryOf(now, endsAt, rules.idleMs),
        data
      }
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
      const { family, windowAt } = session
      const isOpen = windowAt !== null && now - windowAt < rules.graceMs
      const { outcome, n: answer, change } = decide(family, n, isOpen, rules.graceMs === 0)
      if (outcome === 'reused') endAll([session], rules)
      if (change !== undefined) apply(session, change, now, rules)
      return { outcome, n: answer }
    },

    async end (user, which, rules) {
      const now = begin()
      // Own properties only, because code in the process may have polluted `Object.prototype`.
      const { sid: ending, except }: { sid?: string; except?: string | null } = Object.assign(Object.create(null), which)
      if (ending !== undefined) {
        const session = find(user, ending, now)
        return session === undefined ? [] : endAll([session], rules)
      }
      return endAll(
        activeOf(user, now).filter(({ sid }) => sid !== except),
        rules
      )
    },

    async list (user) {
      return activeOf(user, Date.now()).map(({ sid, createdAt, usedAt, endsAt, data }) => ({ sid, createdAt, usedAt, endsAt, data }))
    },

    async confirm (received, rules) {
      const now = begin()
      for (const { sid, user, n } of received) {
        const session = find(user, sid, now)
        if (session !== undefined && isToConfirm(session.family, n)) apply(session, confirm(session.family), now, rules)
      }
    },

    async endedSince (cursor) {
      begin()
      return feed.since(cursor)
    }
  }
  created.add(store)
  return store
}
