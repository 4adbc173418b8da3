/** POST {prefix}: issues an access token, and a refresh token where they are enabled (specification, Endpoints, rules 1 and 2). */
import { Type } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { setCookies, tokenCookies } from '../cookies.ts'
import { AuthenticationFailed, InvalidUserObject } from '../errors.ts'
import { callHost, isAnswered } from '../host.ts'
import { extendBody, isReplaced } from '../responses.ts'
import type { TokenAuth } from '../token-auth.ts'
import { userIdOf } from '../users.ts'
import { bodySchema, errorSchema, type Endpoint } from './route.ts'

/**
 * The specification answers a refused login as text, although its body is JSON. A host that renders refusals itself
 * decides for itself.
 */
function answerAsText (instance: TokenAuth, request: FastifyRequest, reply: FastifyReply): void {
  const { settings } = instance.enter(request, instance.policy)
  if (settings.onRefusal === 'reply' && !isReplaced(instance.responses, 'exceptionResponse')) {
    reply.type('text/plain; charset=utf-8').serializer(JSON.stringify)
  }
}

async function authenticate (instance: TokenAuth, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const { handlers, responses } = instance
  const auth = instance.enter(request, instance.policy)
  const { settings } = auth
  // Registration made sure of the handler.
  const user: object | null | undefined = await callHost('authenticate', () => handlers.authenticate!(request))
  if (user === undefined || user === null) throw new InvalidUserObject('authenticate must return a user; it returned nothing. To refuse, throw AuthenticationFailed.')
  const userId = userIdOf(user, settings.userId, 'authenticate must return')

  const accessToken = await instance.issue(user, 'authenticate must return', auth)
  const refreshToken = settings.refreshTokenEnabled ? await instance.makeRefreshToken(request, user, auth) : undefined
  const cookies = settings.cookieSet ? tokenCookies({ accessToken, refreshToken }, settings, reply) : []
  const body = await extendBody(responses, {
    [settings.accessTokenName]: accessToken,
    ...(refreshToken !== undefined && { [settings.refreshTokenName]: refreshToken })
  }, 'extendAuthenticate', () => responses.extendAuthenticate(request, { user, accessToken, refreshToken: refreshToken ?? null }))

  // What nobody gets is not stored.
  if (isAnswered(request, reply)) return reply
  // Stored when nothing else can fail, and before anything is answered: no token is half issued.
  if (refreshToken !== undefined) await instance.storeRefreshToken(request, userId, refreshToken)
  if (!isAnswered(request, reply)) setCookies(reply, cookies)
  return body
}

export function authenticateEndpoint (instance: TokenAuth): Endpoint {
  const { settings } = instance
  return {
    method: 'POST',
    path: settings.pathToAuthenticate,
    schema: {
      summary: 'Issue an access token',
      tags: ['authentication'],
      body: bodySchema({}, { description: 'Credentials, as the application wants them.' }),
      response: {
        200: bodySchema({
          [settings.accessTokenName]: Type.String(),
          ...(settings.refreshTokenEnabled && { [settings.refreshTokenName]: Type.String() })
        }, { description: 'The tokens.' }),
        401: { description: 'The credentials were refused.', content: { 'text/plain': { schema: errorSchema } } }
      }
    },
    handler: (request, reply) => authenticate(instance, request, reply).catch((error: unknown) => {
      if (error instanceof AuthenticationFailed && !isAnswered(request, reply)) answerAsText(instance, request, reply)
      throw error
    })
  }
}
