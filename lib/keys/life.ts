/** How long the tokens of a key stay valid. */
import { InvalidToken } from '../errors.ts'
import { WatchedControllers } from '../watched-controllers.ts'

/**
 * Until when the tokens of a key are valid, in milliseconds since 1970. Remembered tokens share this object with their key,
 * so that a reload that changes the date or removes the key also applies to them.
 */
export interface Life { until: number }

/** The life of a key that never changes. */
export const endless: Readonly<Life> = Object.freeze({ until: Infinity })

/** The `until` of a key that was removed. Its tokens are invalid, even for a refresh. */
const removed = -Infinity

/** Whether tokens of a key are valid. Does not read the clock if the key has no end. */
export const isAlive = ({ until }: Readonly<Life>) => until === Infinity || Date.now() < until

/** As {@link isAlive}, for the access token in a refresh request: it may be weeks old, so the key only has to be configured. */
export const isConfigured = ({ until }: Readonly<Life>) => until !== removed

const controllers = new WatchedControllers<Readonly<Life>>()
const createReason = () => new InvalidToken()

/** Aborts the controllers that watch a key. */
export function abortTokens (life: Life): void {
  controllers.abort(life, createReason)
}

/** Ends the life of a key that was removed. */
export function remove (life: Life): void {
  life.until = removed
  abortTokens(life)
}

/**
 * Aborts a controller when {@link abortTokens} is called, or immediately if the key was removed. Does not abort it when the
 * keys of a trusted issuer become stale, because the token may still be valid.
 */
export function watchKey (life: Readonly<Life>, controller: AbortController): void {
  if (life.until === removed) controller.abort(createReason())
  else if (life !== endless) controllers.add(life, controller)
}
