/**
 * The rules by which sessions are refreshed and expire, as pure functions. Every store follows them: redis-scripts.ts has
 * them once more, in Lua.
 *
 * A generation is a counter in a refresh token. A family are all generations that were issued for one presented generation,
 * its parent: normally one, and one more for each late exchange of the parent. The parent stays exchangeable until somebody
 * has shown that a member of the family arrived. The first member that is presented wins, and the others are retired.
 */

/** The family of the latest generation. The others are distances from it, which stay small however often a session is refreshed. */
export interface Generations {
  /** The latest generation. */
  readonly n: number
  /** How far the parent is behind it. */
  readonly parent: number
  /** How many members of the family are behind it. */
  readonly siblings: number
  /** Whether a member was received: it, or an access token that was issued with one, was presented. */
  readonly confirmed: boolean
}

/** The state of a new session. */
export const firstGeneration: Generations = Object.freeze({ n: 0, parent: 1, siblings: 0, confirmed: false })

/** What becomes of a session. */
export interface Change {
  readonly family: Generations
  /** Whether the window begins anew. */
  readonly beginsWindow: boolean
  /** Whether the session was used, which prolongs the time to idle. */
  readonly isUse: boolean
}

/** The result of presenting a generation. `Advance` in types/sessions.ts describes the outcomes. After `reused`, the session ends. */
export interface Decision {
  readonly outcome: 'rotated' | 'recovered' | 'repeated' | 'reissued' | 'reused'
  readonly n: number
  /** Undefined where nothing changes, and where the session ends. */
  readonly change: Change | undefined
}

const rotate = (outcome: 'rotated' | 'recovered', n: number, parent: number): Decision =>
  ({ outcome, n, change: { family: { n, parent, siblings: 0, confirmed: false }, beginsWindow: true, isUse: true } })

/** What follows from proof that a member of a family was received. Copies of its parent that are under way are still answered. */
export const confirm = (family: Generations): Change => ({ family: { ...family, confirmed: true }, beginsWindow: true, isUse: false })

/**
 * Decides what follows from a generation that a client presents.
 *
 * Only this library can have issued a generation that is ahead of the store, so the store has lost writes. Any other that is
 * neither a member of the family nor its exchangeable parent was retired by a client that used its successor.
 * @param isOpen whether the window is: whether less than `graceMs` have passed since it began
 * @param isStrict whether there is no window at all: `graceMs` is 0, and each generation can be exchanged once
 */
export function decide (family: Generations, presented: number, isOpen: boolean, isStrict: boolean): Decision {
  const { n, parent, siblings, confirmed } = family
  const behind = n - presented
  if (behind < 0) return rotate('recovered', presented + 1, 1)
  if (behind <= siblings) {
    if (!isOpen) return rotate('rotated', n + 1, behind + 1)
    return { outcome: 'repeated', n: presented, change: siblings > 0 && !confirmed ? confirm(family) : undefined }
  }
  if (behind !== parent || isStrict || (confirmed && !isOpen)) return { outcome: 'reused', n, change: undefined }
  if (isOpen && siblings === 0 && !confirmed) return { outcome: 'repeated', n, change: undefined }
  // A generation of its own: if it were the same one again, a thief who refreshes first would share what the owner gets. After
  // a confirmation the window does not begin anew, otherwise a thief could keep it open.
  const reissued = { n: n + 1, parent: parent + 1, siblings: siblings + 1, confirmed }
  return { outcome: 'reissued', n: n + 1, change: { family: reissued, beginsWindow: !confirmed, isUse: true } }
}

/** Whether a generation was issued a successor that nobody is known to have received: an access token of that successor shows it. */
export const isToConfirm = ({ n, parent, confirmed }: Generations, received: number): boolean => n - parent === received && !confirmed

/** Returns when a session expires that is used now: after idling, or at the end of its lifetime if that is earlier. */
export function expiryOf (now: number, endsAt: number, idleMs: number): number {
  return Math.min(now + idleMs, endsAt)
}
