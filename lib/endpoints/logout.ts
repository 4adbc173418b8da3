/** POST {prefix}/logout: ends the session of the request (RFC 7009). */
import { Type } from '@sinclair/typebox'
import type { FastifyReply } from 'fastify'
import { MissingRefreshToken, SessionEnded, SessionStoreUnavailable } from '../errors.ts'
import { clearingCookies, setLoginCookies } from '../http/cookies.ts'
import { errorSchema } from '../http/error-schema.ts'
import { oldCookies } from '../http/old-cookies.ts'
import { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import { isWithoutToken } from '../request/extract.ts'
import { openState } from '../request/slot.ts'
import type { RequestState } from '../request/state.ts'
import type { RefreshToken } from '../sessions/refresh-token.ts'
import type { SessionService } from '../sessions/service.ts'
import { bodySchema, type Implementation, type Result } from './endpoint.ts'
import { findRefreshToken, refreshTokenInBody } from './refresh-source.ts'
import { memberOf } from '../values.ts'

/** Ends the session of an access token. @throws its refusal, unless the session has ended already */
async function endByAccessToken (sessions: SessionService, state: RequestState): Promise<void> {
  const refusal = await state.verifyOwn()
  if (refusal === null) {
    const { userId, sessionId } = state
    if (userId !== null && sessionId !== null) await sessions.end(userId, { sid: sessionId }, 'logout', state.request)
    return
  }
  if (isWithoutToken(refusal)) {
    // A browser without cookies is logged out already.
    if (state.settings.cookieSet) return
    throw new MissingRefreshToken()
  }
  const error = state.toError(refusal)
  if (!(error instanceof SessionEnded)) throw error
  // The session may have ended only for this process, because the store was unavailable.
  if (!await sessions.ended.retryEndings()) throw new SessionStoreUnavailable()
}

/**
 * Ends the session of a refresh token. In cookie mode, an attacker may have planted its cookie in the browser, for example
 * from a sibling domain. The session of a valid access cookie therefore ends, too, and the user is logged out in any case.
 */
async function endByRefreshToken (sessions: SessionService, state: RequestState, { userId, sid }: RefreshToken): Promise<void> {
  const { request } = state
  const ending = [sessions.end(userId, { sid }, 'logout', request)]
  if (state.settings.cookieSet) ending.push(endByCookie(sessions, state, sid))
  // A failure of one must not keep the other from ending.
  for (const settled of await Promise.allSettled(ending)) if (settled.status === 'rejected') throw settled.reason
}

/** Ends the session of a valid access cookie, unless it is the session of the refresh token. */
async function endByCookie (sessions: SessionService, state: RequestState, ended: string): Promise<string[]> {
  if (await state.verify() !== null || state.source !== 'cookie') return []
  const { userId, sessionId } = state
  if (userId === null || sessionId === null || sessionId === ended) return []
  return await sessions.end(userId, { sid: sessionId }, 'logout', state.request)
}

async function logOut (sessions: SessionService, state: RequestState, reply: FastifyReply): Promise<Result> {
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
  const token = typeof found === 'string' ? sessions.read(found) : undefined
  if (token !== undefined) await endByRefreshToken(sessions, state, token)
  else if (typeof found !== 'string') await endByAccessToken(sessions, state)
  else await endByAccessToken(sessions, state).catch(ignoreRefusal)
  if (failure !== undefined) throw failure.error
  return { status: 204 }
}

/** RFC 7009 section 2.2: the response to an invalid refresh token is the same as to a valid one. */
function ignoreRefusal (error: unknown): void {
  if (Number(memberOf(error, 'statusCode')) >= 500 || !(error instanceof Error)) throw error
}

export function logoutEndpoint (registration: Registration): Implementation {
  const { settings, sessions, logoutRules } = registration
  return {
    schema: {
      summary: 'End the session',
      description: 'Takes the refresh token, the access token, or both.',
      tags: ['authentication'],
      body: bodySchema({ [settings.refreshTokenName]: Type.Optional(Type.String()) }),
      response: {
        204: { description: 'The session has ended, now or earlier.', type: 'null' },
        400: { description: 'No token.', ...errorSchema },
        401: { description: 'The access token was refused, and there was no refresh token.', ...errorSchema },
        503: {
          description:
            'The session store is unavailable. The session has ended for this process only, and ends for all as soon as the store is available.',
          ...errorSchema
        }
      }
    },
    isBodyOptional: true,
    begin: (request) => openState(registration, request, logoutRules),
    handler: (state, reply) => logOut(sessions!, state, reply)
  }
}
