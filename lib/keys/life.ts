/** How long the tokens of a key count. */
import { InvalidToken } from '../errors.ts'
import { WatchedControllers } from '../watched-controllers.ts'

/**
 * Until when the tokens of a key count, in milliseconds since 1970. Remembered tokens share this object with their key, so
 * that they die with it, also where a reload changes the date or removes the key.
 */
export interface Life { until: number }

/** The life of a key that never changes. */
export const endless: Readonly<Life> = Object.freeze({ until: Infinity })

/** The `until` of a key that was removed. No token of it counts, not even for a refresh. */
const removed = -Infinity

/** Whether tokens of a key are accepted. No clock is asked where a key has no end. */
export const isAlive = ({ until }: Readonly<Life>) => until === Infinity || Date.now() < until

/** As {@link isAlive}, for the access token that comes with a refresh: it may be weeks old, so any key counts that is configured. */
export const isConfigured = ({ until }: Readonly<Life>) => until !== removed

const controllers = new WatchedControllers<Readonly<Life>>()
const createReason = () => new InvalidToken()

/** Aborts what depends on the tokens of a key. */
export function abortTokens (life: Life): void {
  controllers.abort(life, createReason)
}

/** Ends the life of a key that was removed. */
export function remove (life: Life): void {
  life.until = removed
  abortTokens(life)
}

/**
 * Aborts a controller when {@link abortTokens} is called, or at once where the key was removed. Not when a trusted issuer
 * cannot be reached for too long, which says nothing of the token.
 */
export function watchKey (life: Readonly<Life>, controller: AbortController): void {
  if (life.until === removed) controller.abort(createReason())
  else if (life !== endless) controllers.add(life, controller)
}
