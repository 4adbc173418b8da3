/** Redirects of guards to the login page, with the path to return to and the reason. */
import type { FastifyReply } from 'fastify'
import { Refusal } from '../refusal.ts'
import { parameterName } from '../request/pairs.ts'
import type { RequestState } from '../request/state.ts'
import type { Settings } from '../settings/schema.ts'

/** Redirects a request that is not authenticated; undefined for no redirect. @param refused why it is refused */
export type Redirect = ((state: RequestState, reply: FastifyReply, refused: unknown) => FastifyReply) | undefined

/** In characters. Servers and browsers limit the length of URLs; this leaves room for the rest of the target. */
export const longestWayBack = 2000

/** Removes the query parameters that carry tokens from a URL: a token must not appear in another URL. */
export function withoutTokens (url: string, { queryStringSet, queryStringAccessTokenName, queryStringRefreshTokenName }: Settings): string {
  const start = url.indexOf('?')
  if (!queryStringSet || start === -1) return url
  const names = [queryStringAccessTokenName, queryStringRefreshTokenName].map(parameterName).join('|')
  const pattern = new RegExp(`^(?:${names})(?:=|$)`, 'u')
  const others = url.slice(start + 1).split('&').filter((pair) => !pattern.test(pair))
  return others.length === 0 ? url.slice(0, start) : `${url.slice(0, start)}?${others.join('&')}`
}

/** Returns the URL of a GET or HEAD request as an encoded path of this host; `/` for other methods, other hosts and long URLs. */
function wayBack ({ request: { method, originalUrl }, settings, record }: RequestState): string {
  // A guard may override the names of the parameters, so those of the registration are removed too.
  const path = withoutTokens(withoutTokens(originalUrl, settings), record.owner.rules.settingsOf(record))
  const isPath = /^\/(?![/\\])/.test(path) && path.length <= longestWayBack
  return encodeURIComponent(isPath && (method === 'GET' || method === 'HEAD') ? path : '/')
}

/** The values of `{next}` and `{reason}`, which are computed only if the target has them. */
interface Placeholders {
  readonly next: () => string
  readonly reason: () => string
}

/** Replaces `{next}` and `{reason}` in the target of a redirect. Keeps other braces: a getter may compute the target from the request. */
export const fillTarget = (target: string, values: Placeholders): string =>
  target.replace(/\{(next|reason)\}/g, (_text, name: keyof Placeholders) => values[name]())

/**
 * Prepares the redirect of a guard.
 * @param url undefined for the setting `loginRedirectUrl`
 */
export const prepareRedirect = (url: string | undefined): Redirect => (state, reply, refused) =>
  reply.redirect(
    fillTarget(url ?? state.settings.loginRedirectUrl, {
      next: () => wayBack(state),
      // A valid token, which has no `signedOut`, is refused here if its login is too old.
      reason: () => (refused instanceof Refusal ? state.signedOut : null) ?? 'expired'
    }),
    302
  )

const base = 'http://localhost'
const isControl = (character: string) => character < ' ' || character === '\u007f'

/**
 * Returns a path of this site for a redirect after a login, with its query and without its fragment.
 * @param value the requested path, such as `request.query.next`, which anybody can set in a link
 * @param fallback the result if the value is not a path of this site
 */
export function returnPath (value: unknown, fallback = '/'): string {
  // Browsers read `//host` and `/\host` as another host, and remove tabs and line ends first.
  if (typeof value !== 'string' || !value.startsWith('/') || [...value].some(isControl) || !URL.canParse(value, base)) return fallback
  const { origin, pathname, search } = new URL(value, base)
  return origin === base && !pathname.startsWith('//') ? pathname + search : fallback
}
