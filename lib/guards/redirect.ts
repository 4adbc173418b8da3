/** Where guards redirect to: the page for the login, with the way back and why nobody is logged in. */
import type { FastifyReply } from 'fastify'
import { Refusal } from '../refusal.ts'
import { parameterName } from '../request/pairs.ts'
import type { RequestState } from '../request/state.ts'
import type { Settings } from '../settings/schema.ts'

/** Redirects a request that is not authenticated; undefined for no redirect. @param refused why it is refused */
export type Redirect = ((state: RequestState, reply: FastifyReply, refused: unknown) => FastifyReply) | undefined

/** In characters: what servers and browsers take in an address, with room for the rest of it. */
const longestWayBack = 2000

/** Returns an address without the query parameters in which an instance takes tokens, which must not get into another address. */
function withoutTokens (url: string, { queryStringSet, queryStringAccessTokenName, queryStringRefreshTokenName }: Settings): string {
  const start = url.indexOf('?')
  if (!queryStringSet || start === -1) return url
  const names = [queryStringAccessTokenName, queryStringRefreshTokenName].map(parameterName).join('|')
  const pattern = new RegExp(`^(?:${names})(?:=|$)`, 'u')
  const others = url.slice(start + 1).split('&').filter((pair) => !pattern.test(pair))
  return others.length === 0 ? url.slice(0, start) : `${url.slice(0, start)}?${others.join('&')}`
}

/** The address of a request as a path of this site: of one that a link can repeat, and that leads to no other host. */
function wayBack ({ request: { method, originalUrl }, settings, record }: RequestState): string {
  // A guard may read other parameters than its registration, or none.
  const path = withoutTokens(withoutTokens(originalUrl, settings), record.owner.rules.settingsOf(record))
  const isPath = /^\/(?![/\\])/.test(path) && path.length <= longestWayBack
  return encodeURIComponent(isPath && (method === 'GET' || method === 'HEAD') ? path : '/')
}

/** Replaces `{next}` and `{reason}` in the target of a redirect. Other braces may come from the request, where a getter computes it. */
function fillTarget (target: string, state: RequestState, refused: unknown): string {
  if (!target.includes('{')) return target
  return target.replace(/\{(next|reason)\}/g, (_text, name) => {
    if (name === 'next') return wayBack(state)
    // A valid token is refused here if its login is too long ago.
    return (refused instanceof Refusal ? state.signedOut : null) ?? 'expired'
  })
}

/**
 * Prepares the redirect of a guard.
 * @param url undefined for the setting `loginRedirectUrl`
 */
export const prepareRedirect = (url: string | undefined): Redirect => (state, reply, refused) =>
  reply.redirect(fillTarget(url ?? state.settings.loginRedirectUrl, state, refused), 302)

const base = 'http://localhost'
const isControl = (character: string) => character < ' ' || character === '\u007f'

/**
 * Returns a value as a path of this site to which a page may lead after a login, with its query and without its fragment.
 * @param value such as `request.query.next`. Anybody can give any value in an address
 * @param fallback what is returned for any value that is no path of this site
 */
export function returnPath (value: unknown, fallback = '/'): string {
  // Browsers take `//host` and `/\host` for another host, and leave out tabs and line ends before they look.
  if (typeof value !== 'string' || !value.startsWith('/') || [...value].some(isControl) || !URL.canParse(value, base)) return fallback
  const { origin, pathname, search } = new URL(value, base)
  return origin === base && !pathname.startsWith('//') ? pathname + search : fallback
}
