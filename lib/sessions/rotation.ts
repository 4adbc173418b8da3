/** The life of a session, as pure functions: what becomes of a counter that is presented, and when a session expires. */

/** The counter of a session and when it was set, in milliseconds; null: it is as created. */
export interface Counter {
  readonly n: number
  readonly rotatedAt: number | null
}

/** As {@link Advance}, for a session that exists. */
export interface Decision {
  readonly outcome: 'rotated' | 'recovered' | 'repeated' | 'reused'
  readonly n: number
}

/**
 * Decides what becomes of a counter that a client presents.
 *
 * Within the window after a rotation, the current refresh token and its predecessor both get the current one: its client
 * may not have heard of it, or has sent several requests at once. Anything older was retired by a token that was used.
 * A counter ahead of the store's can only come from this library, so the store has lost writes.
 */
export function decide (current: Counter, presented: number, now: number, graceMs: number): Decision {
  const isWindowOpen = current.rotatedAt !== null && now - current.rotatedAt < graceMs
  if (presented > current.n) return { outcome: 'recovered', n: presented + 1 }
  if (presented === current.n && !isWindowOpen) return { outcome: 'rotated', n: presented + 1 }
  if (presented >= current.n - 1 && isWindowOpen) return { outcome: 'repeated', n: current.n }
  return { outcome: 'reused', n: current.n }
}

/** When a session expires that is used now: after idling, and at the end of its life at the latest. */
export function expiryOf (now: number, endsAt: number, idleMs: number): number {
  return Math.min(now + idleMs, endsAt)
}
