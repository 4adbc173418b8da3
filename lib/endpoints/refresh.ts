/** POST {prefix}/refresh: exchanges a refresh token for a new access token (specification, Endpoints, rule 5). */
import { Type } from '@sinclair/typebox'
import type { FastifyReply } from 'fastify'
import { publishIssued } from '../events.ts'
import { logRefusedRefresh } from '../guards/refuse.ts'
import { isAnswered } from '../host/call.ts'
import { differenceOf, retrieveUser } from '../host/users.ts'
import { tokenCookies } from '../http/cookies.ts'
import { errorSchema } from '../http/error-schema.ts'
import { extendBody } from '../http/responses.ts'
import { areSameToken, storedRefreshToken } from '../issuing/refresh-token.ts'
import { Refusal, RefusedRefresh } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import { requireRefreshToken } from '../request/refresh-source.ts'
import type { RefreshSubject, RequestState } from '../request/state.ts'
import { bodySchema, refuseEarly, tokenFields, tokenProperties, type Implementation, type Result } from './endpoint.ts'

const noneStored = new RefusedRefresh('the handler "retrieveRefreshToken" found no refresh token of the user')
const notStored = new RefusedRefresh('the refresh token is not the one that the handler "retrieveRefreshToken" returned')
const userNotFound = new RefusedRefresh('the handler "retrieveUser" found nobody')

/** Refuses a request with an unacceptable access token before its body is read. */
const requireAccessToken = (registration: Registration) =>
  refuseEarly(registration, async (state, request) => {
    const verdict = await state.verifyForRefresh()
    if (verdict instanceof Refusal) {
      logRefusedRefresh(registration, request, `the access token: ${verdict.reason ?? verdict.answer.message}`)
    }
    return verdict
  })

async function refresh (registration: Registration, state: RequestState, reply: FastifyReply): Promise<Result | undefined> {
  const { responses, host: { handlers }, issuing } = registration
  const { request, settings } = state
  // The hook `requireAccessToken` has refused any other access token.
  const { payload, userId } = await state.verifyForRefresh() as RefreshSubject
  const purportedToken = requireRefreshToken(state)
  const refreshToken = await storedRefreshToken(handlers, request, userId)
  if (refreshToken === undefined) throw noneStored
  if (!areSameToken(refreshToken, purportedToken)) throw notStored

  const user = await retrieveUser(handlers, request, payload, settings)
  if (user === null) throw userNotFound
  const difference = differenceOf(userId, user, settings.userId)
  if (difference !== undefined) throw new RefusedRefresh(difference, true)
  // RFC 9470: a refresh is not a login, so `auth_time` is copied, and a token without it gets none.
  const authTime = typeof payload.auth_time === 'number' ? payload.auth_time : undefined
  const accessToken = await issuing.accessToken(user, 'retrieveUser must return', state, { authTime })
  const cookies = settings.cookieSet ? tokenCookies({ accessToken }, settings) : []
  const body = await extendBody(responses, tokenFields({ accessToken }, settings), 'extendRefresh',
    () => responses.extendRefresh(request, { user, accessToken, refreshToken, purportedToken, payload }))
  if (isAnswered(request, reply)) return undefined
  publishIssued(settings.instanceName, userId, 'refresh', request)
  return { body, cookies }
}

export function refreshEndpoint (registration: Registration): Implementation {
  const { settings } = registration
  return {
    schema: {
      summary: 'Exchange a refresh token for a new access token',
      description: 'The access token is sent too; it may have expired.',
      tags: ['authentication'],
      body: bodySchema({ [settings.refreshTokenName]: Type.Optional(Type.String()) }),
      response: {
        200: bodySchema(tokenProperties([settings.accessTokenName], settings), { description: 'The new access token.' }),
        400: { description: 'No refresh token.', ...errorSchema },
        401: { description: 'The access token or the refresh token was refused.', ...errorSchema }
      }
    },
    isBodyOptional: true,
    guards: [requireAccessToken(registration)],
    handler: (state, reply) => refresh(registration, state, reply)
  }
}
