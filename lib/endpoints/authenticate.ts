/** POST {prefix}: issues an access token, and a refresh token if they are enabled (specification, Endpoints, rules 1 and 2). */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AuthenticationFailed, InvalidUserObject } from '../errors.ts'
import { publishIssued } from '../events.ts'
import { callHost, isAnswered } from '../host/call.ts'
import { userIdOf } from '../host/users.ts'
import { setCookies, tokenCookies } from '../http/cookies.ts'
import { errorSchema } from '../http/error-schema.ts'
import { extendBody, isReplaced } from '../http/responses.ts'
import { storeRefreshToken } from '../issuing/refresh-token.ts'
import type { Registration } from '../registration.ts'
import { openState } from '../request/slot.ts'
import { secondsNow } from '../token/claims.ts'
import { logInWithSession } from './session-login.ts'
import { bodySchema, tokenFields, tokenProperties, type Endpoint } from './endpoint.ts'

/**
 * The specification answers a refused login as text, although the body is JSON. An application that renders refusals
 * itself chooses the media type itself.
 */
function answerAsText (registration: Registration, request: FastifyRequest, reply: FastifyReply): void {
  const { settings } = openState(registration, request, registration.rules)
  if (settings.onRefusal === 'reply' && !isReplaced(registration.responses, 'exceptionResponse')) {
    reply.type('text/plain; charset=utf-8').serializer(JSON.stringify)
  }
}

async function authenticate (registration: Registration, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const { host: { handlers }, responses, issuing } = registration
  const state = openState(registration, request, registration.rules)
  const { settings } = state
  // Registration requires the handler.
  const user: object | null | undefined = await callHost('authenticate', () => handlers.authenticate!(request))
  if (user === undefined || user === null) throw new InvalidUserObject('authenticate must return a user; it returned nothing. To refuse, throw AuthenticationFailed.')
  const userId = userIdOf(user, settings.userId, 'authenticate must return')

  const accessToken = await issuing.accessToken(user, 'authenticate must return', state, { authTime: Math.floor(secondsNow()) })
  const refreshToken = settings.refreshTokenEnabled ? await issuing.refreshToken(request, user, state) : undefined
  const cookies = settings.cookieSet ? tokenCookies({ accessToken, refreshToken }, settings, reply) : []
  const body = await extendBody(responses, tokenFields({ accessToken, refreshToken }, settings), 'extendAuthenticate',
    () => responses.extendAuthenticate(request, { user, accessToken, refreshToken: refreshToken ?? null }))

  // A token that nobody receives is not stored.
  if (isAnswered(request, reply)) return reply
  // Stored when nothing else can fail, and before anything is sent, so that no token is half issued.
  if (refreshToken !== undefined) await storeRefreshToken(handlers, request, userId, refreshToken)
  publishIssued(settings.instanceName, userId, 'authenticate', request)
  if (!isAnswered(request, reply)) setCookies(reply, cookies)
  return body
}

export function authenticateEndpoint (registration: Registration): Endpoint {
  const { settings, sessions } = registration
  const names = settings.refreshTokenEnabled ? [settings.accessTokenName, settings.refreshTokenName] : [settings.accessTokenName]
  return {
    method: 'POST',
    path: settings.pathToAuthenticate,
    access: false,
    refusesOtherOrigins: true,
    schema: {
      summary: 'Issue an access token',
      tags: ['authentication'],
      body: bodySchema({}, { description: 'The credentials that the application requires.' }),
      response: {
        200: bodySchema(tokenProperties(names, settings), { description: 'The tokens.' }),
        401: { description: 'The credentials were refused.', content: { 'text/plain': { schema: errorSchema } } },
        ...(sessions !== undefined && { 503: { description: 'The session store is unavailable. No session was started.', ...errorSchema } })
      }
    },
    handler: (request, reply) => (sessions === undefined ? authenticate(registration, request, reply) : logInWithSession(registration, sessions, request, reply)).catch((error: unknown) => {
      if (error instanceof AuthenticationFailed && !isAnswered(request, reply)) answerAsText(registration, request, reply)
      throw error
    })
  }
}
