/** POST {prefix}/refresh with sessions: exchanges a refresh token for an access token and the next refresh token. */
import { Type } from '@sinclair/typebox'
import type { FastifyReply } from 'fastify'
import { AuthenticationFailed, HandlerFailed, TokenAuthError } from '../errors.ts'
import { publishIssued } from '../events.ts'
import { isAnswered } from '../host/call.ts'
import { retrieveUser, userIdOf } from '../host/users.ts'
import { tokenCookies } from '../http/cookies.ts'
import { errorSchema } from '../http/error-schema.ts'
import { extendBody } from '../http/responses.ts'
import { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import { openWithoutToken } from '../request/slot.ts'
import type { RequestState } from '../request/state.ts'
import { hasNoConnection } from '../sessions/connection.ts'
import type { SessionService } from '../sessions/service.ts'
import { bodySchema, tokenFields, tokenProperties, type Implementation, type Result } from './endpoint.ts'
import { requireRefreshToken } from './refresh-source.ts'

const failed = new Refusal(() => new AuthenticationFailed())

/**
 * Clients discard their tokens on 401. What another library throws with this status, such as an HTTP client, must not make
 * them do so. It need not be an `Error` of this realm.
 */
function withoutForeign401 (thrown: unknown): unknown {
  const isForeign = !(thrown instanceof TokenAuthError) && Object(thrown).statusCode === 401
  return isForeign ? new HandlerFailed('refresh', { cause: thrown }) : thrown
}

/**
 * The access token of the request is not looked at, and `retrieveUser` and the hooks do not see it. Nothing that can fail comes after `advance`, so that a client never
 * loses a rotation: a failure before it is retried with the same refresh token.
 */
async function refresh (registration: Registration, sessions: SessionService, state: RequestState, reply: FastifyReply): Promise<Result | undefined> {
  const { responses, host: { handlers }, issuing } = registration
  const { request, settings } = state
  const purportedToken = requireRefreshToken(state)
  const token = sessions.read(purportedToken)
  if (token === undefined || sessions.hasEnded(token)) throw failed

  const { userId, sid, authTime } = token
  const payload = { [settings.userId]: userId, sid }
  const user = await retrieveUser(handlers, request, payload, settings)
  if (user === null) {
    await sessions.end(userId, { sid }, 'no-user', request)
    throw failed
  }
  if (userIdOf(user, settings.userId, 'retrieveUser must return') !== userId) throw failed
  const issued = await issuing.refreshedToken(user, 'retrieveUser must return', state, { authTime }, sid, sessions.generationOf(token))
  const { token: accessToken } = issued
  const extension = await extendBody(responses, {}, 'extendRefresh',
    () => responses.extendRefresh(request, { user, accessToken, refreshToken: purportedToken, purportedToken, payload }))
  // Everything that the response needs is computed now, with the presented token: settings are computed at their first use,
  // and all refresh tokens of a session have the same length, so that the next one fits into a cookie if this one does.
  tokenFields({ accessToken, refreshToken: purportedToken }, settings)
  const cookies = settings.cookieSet ? tokenCookies({ accessToken }, settings, reply) : []
  if (settings.cookieSet) tokenCookies({ refreshToken: purportedToken }, settings, reply)

  // Without a connection, the client would not get the new token.
  const isGone = await hasNoConnection(request, reply)
  if (isAnswered(request, reply)) return undefined
  if (isGone) {
    reply.hijack()
    return undefined
  }
  const { outcome, n } = await sessions.advance(token, request)
  if (outcome === 'unknown' || outcome === 'reused') throw failed
  publishIssued(settings.instanceName, userId, 'refresh', request)
  const refreshToken = sessions.write({ ...token, n })
  const isUnchanged = refreshToken === purportedToken
  // An access token that comes with the presented token again does not show that another one was received.
  const sent = isUnchanged ? await issued.withoutGeneration() : accessToken
  if (isAnswered(request, reply)) return undefined
  const body = { ...tokenFields({ accessToken: sent, refreshToken }, settings), ...extension }
  if (!settings.cookieSet) return { body }
  // No cookie for an unchanged token, because a slow response could overwrite a newer cookie of another tab.
  return { body, cookies: isUnchanged ? tokenCookies({ accessToken: sent }, settings, reply) : [...cookies, ...tokenCookies({ refreshToken }, settings, reply)] }
}

export function sessionRefreshEndpoint (registration: Registration): Implementation {
  const { settings, sessions } = registration
  return {
    schema: {
      summary: 'Exchange a refresh token for an access token and the next refresh token',
      description: 'After a 401, discard the tokens. After a 503, keep them and try again.',
      tags: ['authentication'],
      body: bodySchema({ [settings.refreshTokenName]: Type.Optional(Type.String()) }),
      response: {
        200: bodySchema(tokenProperties([settings.accessTokenName, settings.refreshTokenName], settings), { description: 'The new tokens.' }),
        400: { description: 'No refresh token.', ...errorSchema },
        401: { description: 'The refresh token was refused.', ...errorSchema },
        503: { description: 'The session store is unavailable. The refresh token remains valid.', ...errorSchema }
      }
    },
    isBodyOptional: true,
    begin: (request) => openWithoutToken(registration, request),
    handler: (state, reply) => refresh(registration, sessions!, state, reply).catch((error: unknown) => { throw withoutForeign401(error) })
  }
}
