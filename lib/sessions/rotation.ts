/** The rules by which sessions are refreshed and expire, as pure functions. */

/** The counter of a session, and when it was last rotated, in milliseconds; null before the first rotation. */
export interface Counter {
  readonly n: number
  readonly rotatedAt: number | null
}

/** The result of presenting a counter. `Advance` in types/sessions.ts describes the outcomes. */
export interface Decision {
  readonly outcome: 'rotated' | 'recovered' | 'repeated' | 'reused'
  readonly n: number
}

/**
 * Decides what follows from a counter that a client presents.
 *
 * Within the window after a rotation, the current counter and its predecessor are answered with the current counter,
 * because a client may have missed the response to a rotation or may send several requests at once. An older counter was
 * retired by a client that used its successor. Only this library can have issued a counter that is ahead of the store, so
 * the store has lost writes.
 */
export function decide (current: Counter, presented: number, now: number, graceMs: number): Decision {
  const isWindowOpen = current.rotatedAt !== null && now - current.rotatedAt < graceMs
  if (presented > current.n) return { outcome: 'recovered', n: presented + 1 }
  if (presented === current.n && !isWindowOpen) return { outcome: 'rotated', n: presented + 1 }
  if (presented >= current.n - 1 && isWindowOpen) return { outcome: 'repeated', n: current.n }
  return { outcome: 'reused', n: current.n }
}

/** Returns when a session expires that is used now: after idling, or at the end of its lifetime if that is earlier. */
export function expiryOf (now: number, endsAt: number, idleMs: number): number {
  return Math.min(now + idleMs, endsAt)
}
