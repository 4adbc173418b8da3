/** POST {prefix}/refresh: exchanges a refresh token for a new access token (specification, Endpoints, rule 5). */
import { Type } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { setCookies, tokenCookies } from '../cookies.ts'
import { AuthenticationFailed, MissingRefreshToken } from '../errors.ts'
import { callHost, isAnswered, wrongResult } from '../host.ts'
import { Refusal } from '../refusal.ts'
import { extractRefreshToken } from '../request/extract.ts'
import type { RequestAuth } from '../request-auth.ts'
import { extendBody } from '../responses.ts'
import { areSameToken } from '../token/refresh.ts'
import type { TokenAuth } from '../token-auth.ts'
import type { UserId } from '../../types/handlers.ts'
import { userIdOf } from '../users.ts'
import { bodySchema, errorSchema, type Endpoint } from './route.ts'

/** The refresh token that the request brings: from where access tokens are read, or from its body. */
function purportedTokenOf (request: FastifyRequest, { settings }: RequestAuth): string {
  const found = extractRefreshToken(request.raw, settings)
  if (found instanceof Refusal) throw found.toError()
  if (found !== undefined) return found.token
  const { body } = request
  const value: unknown = typeof body === 'object' && body !== null && Object.hasOwn(body, settings.refreshTokenName)
    ? Reflect.get(body, settings.refreshTokenName)
    : undefined
  if (typeof value !== 'string' || value === '') throw new MissingRefreshToken()
  return value
}

/** The refresh token that the host stored for a user; undefined for none. */
async function storedTokenOf (instance: TokenAuth, request: FastifyRequest, userId: UserId): Promise<string | undefined> {
  const { handlers } = instance
  // Registration made sure of the handler.
  const stored: unknown = await callHost('retrieveRefreshToken', () => handlers.retrieveRefreshToken!(userId, request))
  if (stored === undefined || stored === null || stored === '') return undefined
  if (typeof stored !== 'string') throw wrongResult('retrieveRefreshToken', 'the stored token as a string, or nothing', stored)
  return stored
}

async function refresh (instance: TokenAuth, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const { responses } = instance
  const auth = instance.enter(request, instance.policy)
  const { settings } = auth
  const { payload, userId } = await auth.verifyForRefresh()
  const purportedToken = purportedTokenOf(request, auth)
  const refreshToken = await storedTokenOf(instance, request, userId)
  if (refreshToken === undefined || !areSameToken(refreshToken, purportedToken)) throw new AuthenticationFailed()

  const user = await instance.retrieveUser(request, payload, settings)
  if (user === null || userIdOf(user, settings.userId, 'retrieveUser must return') !== userId) throw new AuthenticationFailed()
  const accessToken = await instance.issue(user, 'retrieveUser must return', auth)
  const cookies = settings.cookieSet ? tokenCookies({ accessToken }, settings, reply) : []
  const body = await extendBody(responses, { [settings.accessTokenName]: accessToken }, 'extendRefresh',
    () => responses.extendRefresh(request, { user, accessToken, refreshToken, purportedToken, payload }))
  if (!isAnswered(request, reply)) setCookies(reply, cookies)
  return body
}

export function refreshEndpoint (instance: TokenAuth): Endpoint {
  const { settings } = instance
  return {
    method: 'POST',
    readsToken: true,
    path: settings.pathToRefresh,
    schema: {
      summary: 'Exchange a refresh token for a new access token',
      description: 'The access token is sent too; it may have expired.',
      tags: ['authentication'],
      body: bodySchema({ [settings.refreshTokenName]: Type.Optional(Type.String()) }),
      response: {
        200: bodySchema({ [settings.accessTokenName]: Type.String() }, { description: 'The new access token.' }),
        400: { description: 'No refresh token.', ...errorSchema },
        401: { description: 'The access token or the refresh token was refused.', ...errorSchema }
      }
    },
    isBodyOptional: true,
    handler: (request, reply) => refresh(instance, request, reply)
  }
}
