/** POST {prefix}/refresh with sessions: exchanges a refresh token for an access token and the next refresh token. */
import { setImmediate } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AuthenticationFailed, HandlerFailed, TokenAuthError } from '../errors.ts'
import { publishIssued } from '../events.ts'
import { isAnswered } from '../host/call.ts'
import { retrieveUser, userIdOf } from '../host/users.ts'
import { setCookies, tokenCookies } from '../http/cookies.ts'
import { errorSchema } from '../http/error-schema.ts'
import { extendBody } from '../http/responses.ts'
import { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import { beginWithoutToken } from '../request/slot.ts'
import type { SessionService } from '../sessions/service.ts'
import { bodySchema, tokenFields, tokenProperties, type Endpoint } from './endpoint.ts'
import { requireRefreshToken } from './refresh-source.ts'

/**
 * Whether nobody can receive the response any more. Over HTTP/2, a response has no `destroyed`, but its stream has. Over
 * HTTP/1, the response to a pipelined request knows nothing of the connection before it is its turn.
 */
function isClosed ({ raw: { socket } }: FastifyRequest, { raw }: FastifyReply): boolean {
  return raw.destroyed || socket.destroyed || Object(Reflect.get(raw, 'stream')).destroyed === true
}

/**
 * A process that was paused reads a request first, and the end of its connection in a later turn of the event loop: over
 * HTTP/1 in the second, over HTTP/2 in the third.
 */
const turnsUntilClosed = 3

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
async function refresh (registration: Registration, sessions: SessionService, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const { responses, host: { handlers }, issuing } = registration
  const state = beginWithoutToken(registration, request)
  const { settings } = state
  const purportedToken = requireRefreshToken(request, state)
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
  const accessToken = await issuing.accessToken(user, 'retrieveUser must return', state, { authTime }, sid)
  const extension = await extendBody(responses, {}, 'extendRefresh',
    () => responses.extendRefresh(request, { user, accessToken, refreshToken: purportedToken, purportedToken, payload }))
  // Everything that the response needs is computed now, with the presented token: settings are computed at their first use,
  // and all refresh tokens of a session have the same length, so that the next one fits into a cookie if this one does.
  tokenFields({ accessToken, refreshToken: purportedToken }, settings)
  const cookies = settings.cookieSet ? tokenCookies({ accessToken }, settings, reply) : []
  if (settings.cookieSet) tokenCookies({ refreshToken: purportedToken }, settings, reply)

  for (let turns = 0; turns < turnsUntilClosed; turns++) await setImmediate()
  if (isAnswered(request, reply)) return reply
  // Without a connection, the client would not get the new token.
  if (isClosed(request, reply)) return reply.hijack()
  const { outcome, n } = await sessions.advance(token, request)
  if (outcome === 'unknown' || outcome === 'reused') throw failed
  publishIssued(settings.instanceName, userId, 'refresh', request)
  const refreshToken = sessions.write({ ...token, n })
  if (isAnswered(request, reply)) return reply
  // No cookie for an unchanged token, because a slow response could overwrite a newer cookie of another tab.
  const changed = settings.cookieSet && refreshToken !== purportedToken ? tokenCookies({ refreshToken }, settings, reply) : []
  setCookies(reply, [...cookies, ...changed])
  return { ...tokenFields({ accessToken, refreshToken }, settings), ...extension }
}

export function sessionRefreshEndpoint (registration: Registration, sessions: SessionService): Endpoint {
  const { settings } = registration
  return {
    method: 'POST',
    path: settings.pathToRefresh,
    access: 'requires a refresh token',
    refusesOtherOrigins: true,
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
    handler: (request, reply) => refresh(registration, sessions, request, reply).catch((error: unknown) => { throw withoutForeign401(error) })
  }
}
