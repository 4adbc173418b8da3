/**
 * Forms of pages without scripts: the endpoints that take them answer with the next page instead of JSON (303). The login page
 * is that of `loginRedirectUrl`; only a registration that sets it explicitly takes forms.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { HandlerFailed, TokenAuthError } from '../errors.ts'
import { fillTarget, longestWayBack, returnPath, withoutTokens } from '../guards/redirect.ts'
import { reportRefused, throwRefusal } from '../guards/refuse.ts'
import { preventStoring } from '../http/caching.ts'
import { clearTwins } from '../http/old-cookies.ts'
import { Refusal } from '../refusal.ts'
import { readsCookies, type Registration } from '../registration.ts'
import type { RequestState } from '../request/state.ts'
import { ownMemberOf } from '../values.ts'
import { formType } from './bodies.ts'

/** Whether endpoints of a registration take forms. */
export const takesForms = (registration: Registration): boolean => registration.hasLoginPage && readsCookies(registration)

/** Whether the body of a request is a form, which is answered with a page. */
export const isFormOf = (registration: Registration, { headers, method }: FastifyRequest): boolean =>
  method === 'POST' && takesForms(registration) && formType.test(String(headers['content-type']))

/** Returns the page that a form asks for in its field `next`. @param fallback for a form without one, and for other sites */
export function nextPage ({ request: { body }, settings }: RequestState, fallback: string): string {
  const next = ownMemberOf(body, 'next')
  if (typeof next !== 'string' || next.length > longestWayBack) return fallback
  const page = returnPath(next, '')
  // Longer than `next` if that was not percent-encoded: an address that is too long is answered with 431.
  return page === '' || page.length > longestWayBack ? fallback : withoutTokens(page, settings)
}

/** Returns the page after a logout: `next`, `loggedOutUrl`, or the login page. */
export function pageAfterLogout (state: RequestState): string {
  const { loggedOutUrl, loginRedirectUrl } = state.settings
  return nextPage(state, loggedOutUrl ?? fillTarget(loginRedirectUrl.replace(/[?#].*/, ''), { next: () => '%2F', reason: () => 'absent' }))
}

/**
 * Answers a form that is refused: with the login page for a 401. Other errors are pages of the application, whose error
 * handler gets them.
 * @param reason replaces `{reason}`. Default: why the request has no valid token
 */
export function refuseForm (
  registration: Registration,
  request: FastifyRequest,
  reply: FastifyReply,
  refused: unknown,
  state: RequestState,
  reason?: string
): FastifyReply {
  reportRefused(registration, request, refused, state)
  const isRefusal = refused instanceof Refusal
  if (!isRefusal && (!(refused instanceof TokenAuthError) || refused instanceof HandlerFailed)) throw refused
  preventStoring(reply)
  clearTwins(request, reply, state.settings)
  if ((isRefusal ? refused.answer : refused).statusCode !== 401) return throwRefusal(request, refused, state)
  const { loginRedirectUrl, loggedInUrl } = state.settings
  const values = { next: () => encodeURIComponent(nextPage(state, loggedInUrl)), reason: () => reason ?? state.signedOut ?? 'expired' }
  return reply.redirect(fillTarget(loginRedirectUrl, values), 303)
}
