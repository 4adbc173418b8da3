/** POST {prefix}/refresh with sessions: exchanges a refresh token for an access token and the next refresh token. */
import { Type } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AuthenticationFailed } from '../errors.ts'
import { publishIssued } from '../events.ts'
import { isAnswered } from '../host/call.ts'
import { retrieveUser, userIdOf } from '../host/users.ts'
import { setCookies, tokenCookies } from '../http/cookies.ts'
import { extendBody } from '../http/responses.ts'
import type { Registration } from '../registration.ts'
import { begin } from '../request/slot.ts'
import type { SessionService } from '../sessions/service.ts'
import { bodySchema, errorSchema, tokenFields, tokenProperties, type Endpoint } from './endpoint.ts'
import { requireRefreshToken } from './refresh-source.ts'

/** Whether the connection of a request was closed, or its stream over HTTP/2, whose responses have no `destroyed`. */
function isClosed ({ raw }: FastifyReply): boolean {
  return raw.destroyed || Object(Reflect.get(raw, 'stream')).destroyed === true
}

/**
 * The access token of the request is not looked at. Nothing that can fail comes after `advance`, so that a client never
 * loses a rotation: a failure before it is retried with the same refresh token.
 */
async function refresh (registration: Registration, sessions: SessionService, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const { responses, host: { handlers }, issuing } = registration
  const state = begin(registration, request, registration.rules)
  const { settings } = state
  const purportedToken = requireRefreshToken(request, state)
  const token = sessions.read(purportedToken)
  if (token === undefined || sessions.ended.has(token.sid)) throw new AuthenticationFailed()

  const { userId, sid, authTime } = token
  const payload = { [settings.userId]: userId, sid }
  const user = await retrieveUser(handlers, request, payload, settings)
  if (user === null) {
    await sessions.end(userId, { sid }, 'no-user', request)
    throw new AuthenticationFailed()
  }
  if (userIdOf(user, settings.userId, 'retrieveUser must return') !== userId) throw new AuthenticationFailed()
  const accessToken = await issuing.accessToken(user, 'retrieveUser must return', state, { authTime }, sid)
  const extension = await extendBody(responses, {}, 'extendRefresh',
    () => responses.extendRefresh(request, { user, accessToken, refreshToken: purportedToken, purportedToken, payload }))
  // All refresh tokens of a session have one length: where this one fits into a cookie, the next one does.
  const cookies = settings.cookieSet ? tokenCookies({ accessToken }, settings, reply) : []
  if (settings.cookieSet) tokenCookies({ refreshToken: purportedToken }, settings, reply)

  // An abandoned request must not rotate what its client will never hear of.
  if (isAnswered(request, reply)) return reply
  if (isClosed(reply)) return reply.hijack()
  const { outcome, n } = await sessions.advance(token, request)
  if (outcome === 'unknown' || outcome === 'reused') throw new AuthenticationFailed()
  publishIssued(settings.instanceName, userId, 'refresh', request)
  const refreshToken = sessions.write({ ...token, n })
  if (!isAnswered(request, reply)) {
    // Without a change no cookie: a slow answer must not overwrite what another tab was given in the meantime.
    const changed = settings.cookieSet && refreshToken !== purportedToken ? tokenCookies({ refreshToken }, settings, reply) : []
    setCookies(reply, [...cookies, ...changed])
  }
  return { ...tokenFields({ accessToken, refreshToken }, settings), ...extension }
}

export function sessionRefreshEndpoint (registration: Registration, sessions: SessionService): Endpoint {
  const { settings } = registration
  return {
    method: 'POST',
    path: settings.pathToRefresh,
    refusesOtherOrigins: true,
    schema: {
      summary: 'Exchange a refresh token for an access token and the next refresh token',
      description: 'On 401, throw the tokens away. On 503, keep them and try again.',
      tags: ['authentication'],
      body: bodySchema({ [settings.refreshTokenName]: Type.Optional(Type.String()) }),
      response: {
        200: bodySchema(tokenProperties([settings.accessTokenName, settings.refreshTokenName], settings), { description: 'The new tokens.' }),
        400: { description: 'No refresh token.', ...errorSchema },
        401: { description: 'The refresh token was refused.', ...errorSchema },
        503: { description: 'The store of sessions does not answer. The refresh token is still good.', ...errorSchema }
      }
    },
    isBodyOptional: true,
    handler: (request, reply) => refresh(registration, sessions, request, reply)
  }
}
