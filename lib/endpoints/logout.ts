/** POST {prefix}/logout: ends the session of the request (RFC 7009). */
import { Type } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { MissingRefreshToken, SessionEnded } from '../errors.ts'
import { isAnswered } from '../host/call.ts'
import { clearingCookies, setCookies } from '../http/cookies.ts'
import { errorSchema } from '../http/error-schema.ts'
import type { Registration } from '../registration.ts'
import { isWithoutToken } from '../request/extract.ts'
import { openState } from '../request/slot.ts'
import type { RequestState } from '../request/state.ts'
import type { SessionService } from '../sessions/service.ts'
import { bodySchema, type Endpoint } from './endpoint.ts'
import { findRefreshToken } from './refresh-source.ts'

/** Ends the session of an access token. @throws its refusal, unless it says that the session has ended */
async function endByAccessToken (sessions: SessionService, state: RequestState, request: FastifyRequest): Promise<void> {
  const refusal = await state.verifyOwn()
  if (refusal === null) {
    const { userId, sessionId } = state
    if (userId !== null && sessionId !== null) await sessions.end(userId, { sid: sessionId }, 'logout', request)
    return
  }
  if (isWithoutToken(refusal)) {
    // A browser without cookies is logged out already.
    if (state.settings.cookieSet) return
    throw new MissingRefreshToken()
  }
  const error = state.toError(refusal)
  if (!(error instanceof SessionEnded)) throw error
}

async function logOut (registration: Registration, sessions: SessionService, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const state = openState(registration, request, registration.logoutRules)
  // In every response of this handler: a browser is logged out even while the store is down. A setting that cannot be
  // computed must not keep the session from ending.
  let failure: { readonly error: unknown } | undefined
  try {
    if (state.settings.cookieSet) setCookies(reply, clearingCookies(state.settings, reply))
  } catch (error) {
    failure = { error }
  }
  const found = findRefreshToken(request, state)
  const token = typeof found === 'string' ? sessions.read(found) : undefined
  if (token !== undefined) await sessions.end(token.userId, { sid: token.sid }, 'logout', request)
  else if (typeof found !== 'string') await endByAccessToken(sessions, state, request)
  else await endByAccessToken(sessions, state, request).catch(ignoreRefusal)
  if (failure !== undefined) throw failure.error
  return isAnswered(request, reply) ? reply : reply.code(204).send()
}

/** RFC 7009 section 2.2: a refresh token that is not authentic is answered like one that is. */
function ignoreRefusal (error: unknown): void {
  if (Object(error).statusCode >= 500 || !(error instanceof Error)) throw error
}

export function logoutEndpoint (registration: Registration, sessions: SessionService): Endpoint {
  const { settings } = registration
  return {
    method: 'POST',
    path: settings.pathToLogout,
    access: 'requires a token of the session',
    refusesOtherOrigins: true,
    schema: {
      summary: 'End the session',
      description: 'Takes the refresh token, the access token, or both.',
      tags: ['authentication'],
      body: bodySchema({ [settings.refreshTokenName]: Type.Optional(Type.String()) }),
      response: {
        204: { description: 'The session has ended, now or earlier.', type: 'null' },
        400: { description: 'No token.', ...errorSchema },
        401: { description: 'The access token was refused, and there was no refresh token.', ...errorSchema },
        503: { description: 'The session store is unavailable. The session has not ended.', ...errorSchema }
      }
    },
    isBodyOptional: true,
    readsToken: 'optional',
    handler: (request, reply) => logOut(registration, sessions, request, reply)
  }
}
