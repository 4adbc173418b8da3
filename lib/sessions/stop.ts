/** Ends the sessions that a request identifies (RFC 7009), for the logout endpoint and for `sessions.stop()`. */
import type { FastifyReply } from 'fastify'
import { SessionStoreUnavailable } from '../errors.ts'
import { clearingCookies, setLoginCookies } from '../http/cookies.ts'
import { oldCookies } from '../http/old-cookies.ts'
import { Refusal, type Verdict } from '../refusal.ts'
import { isWithoutToken, readRefreshTokenCookies } from '../request/extract.ts'
import { findRefreshToken, refreshTokenInBody } from '../request/refresh-source.ts'
import type { RequestState } from '../request/state.ts'
import type { RefreshToken } from './refresh-token.ts'
import type { SessionService } from './service.ts'

/** Ends the session of an access token. @returns the ids of the sessions that ended, or the refusal of the token */
async function endByAccessToken (sessions: SessionService, state: RequestState): Promise<Verdict<string[]>> {
  const refusal = await state.verifyOwn()
  if (refusal === null) {
    const { userId, sessionId } = state
    if (userId === null || sessionId === null) return []
    return await sessions.end(userId, { sid: sessionId }, 'logout', state.request)
  }
  const { name, statusCode } = refusal.answer
  if (statusCode >= 500) throw state.toError(refusal)
  if (name !== 'SessionEnded') return refusal
  // The session may have ended only for this process, because the store was unavailable.
  if (!await sessions.ended.retryEndings()) throw new SessionStoreUnavailable()
  return []
}

/** Ends the session of a valid access cookie, unless it is that of a refresh token. */
async function endByCookie (sessions: SessionService, state: RequestState, ended: readonly RefreshToken[]): Promise<string[]> {
  if (await state.verify() !== null || state.source !== 'cookie') return []
  const { userId, sessionId } = state
  if (userId === null || sessionId === null || ended.some(({ sid }) => sid === sessionId)) return []
  return await sessions.end(userId, { sid: sessionId }, 'logout', state.request)
}

/**
 * Ends the sessions of refresh tokens. In cookie mode, an attacker may have planted a cookie in the browser, for example
 * from a sibling domain. The session of a valid access cookie therefore ends, too, and the user is logged out in any case.
 */
async function endByRefreshTokens (sessions: SessionService, state: RequestState, tokens: readonly RefreshToken[]): Promise<string[]> {
  const ending = tokens.map(({ userId, sid }) => sessions.end(userId, { sid }, 'logout', state.request))
  if (state.settings.cookieSet) ending.push(endByCookie(sessions, state, tokens))
  const ended: string[] = []
  // A failure of one must not keep the other from ending.
  for (const settled of await Promise.allSettled(ending)) {
    if (settled.status === 'rejected') throw settled.reason
    ended.push(...settled.value)
  }
  return ended
}

/** Of how many sessions a logout reads refresh tokens, if their cookie was sent more than once. */
const mostTwins = 8

/** Returns the valid refresh tokens of a request, one for each session. @param found the token, or why there is not one */
function readTokens (sessions: SessionService, { request, settings }: RequestState, found: Verdict<string> | undefined): RefreshToken[] {
  const texts = found instanceof Refusal ? readRefreshTokenCookies(request.raw, settings) : found === undefined ? [] : [found]
  const tokens = texts.flatMap((text) => sessions.read(text) ?? [])
  return [...new Map(tokens.map((token) => [token.sid, token])).values()].slice(0, mostTwins)
}

/**
 * Ends the sessions that a request identifies: that of its refresh token, or those of all refresh tokens in a cookie that was sent
 * more than once, and in cookie mode also that of a valid access cookie; without a refresh token, that of its access token. Every response clears the cookies.
 * @returns the ids of the sessions that ended; without a refresh token, the refusal of the access token
 * @throws {SessionStoreUnavailable} {HandlerFailed}
 */
export async function stopSession (sessions: SessionService, state: RequestState, reply: FastifyReply): Promise<Verdict<string[]>> {
  // First, so that every response clears the cookies: a browser is logged out even while the store is down. A setting that cannot be
  // computed must not keep the session from ending.
  let failure: { readonly error: unknown } | undefined
  try {
    const cookies = state.settings.cookieSet ? clearingCookies(state.settings) : []
    setLoginCookies(reply, [...oldCookies(state.request, state.settings, cookies), ...cookies])
  } catch (error) {
    failure = { error }
  }
  const source = findRefreshToken(state)
  // If the browser rejected the cookies of a login, the client has the refresh token only from the body of the response.
  const isMissing = source instanceof Refusal && isWithoutToken(source)
  const found = isMissing ? refreshTokenInBody(state.request, state.settings.refreshTokenName) ?? source : source
  const tokens = readTokens(sessions, state, found)
  const ended = tokens.length === 0 ? await endByAccessToken(sessions, state) : await endByRefreshTokens(sessions, state, tokens)
  if (failure !== undefined) throw failure.error
  // RFC 7009 section 2.2: the response to an invalid refresh token is the same as to a valid one.
  return typeof found === 'string' && ended instanceof Refusal ? [] : ended
}
