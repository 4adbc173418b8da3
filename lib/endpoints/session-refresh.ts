/** POST {prefix}/refresh with sessions: exchanges a refresh token for an access token and the next refresh token. */
import { Type } from '@sinclair/typebox'
import type { FastifyReply } from 'fastify'
import { errorSchema } from '../http/error-schema.ts'
import { extendBody } from '../http/responses.ts'
import { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import { requireRefreshToken } from '../request/refresh-source.ts'
import { openWithoutToken } from '../request/slot.ts'
import type { RequestState } from '../request/state.ts'
import { exchangeRefreshToken, noteSent, replaceForeign401 } from '../sessions/exchange.ts'
import type { SessionService } from '../sessions/service.ts'
import { bodySchema, tokenFields, tokenProperties, type Implementation, type Result } from './endpoint.ts'

async function refresh (
  { responses, host, issuing }: Registration,
  sessions: SessionService,
  state: RequestState,
  reply: FastifyReply
): Promise<Result | undefined> {
  const { request, settings } = state
  const purportedToken = requireRefreshToken(state)
  let extension: Record<string, unknown> = {}
  const exchanged = await exchangeRefreshToken(
    { sessions, issuing, host, state, reply, purportedToken, token: sessions.read(purportedToken) },
    async ({ user, accessToken, payload }) => {
      extension = await extendBody(responses, {}, 'extendRefresh', () =>
        responses.extendRefresh(request, { user, accessToken, refreshToken: purportedToken, purportedToken, payload })
      )
      // Computes the settings before the rotation, because a getter can fail.
      tokenFields({ accessToken, refreshToken: purportedToken }, settings)
    }
  )
  if (exchanged instanceof Refusal) throw exchanged
  if (exchanged === 'gone') reply.hijack()
  if (exchanged === 'gone' || exchanged === undefined) return undefined
  const { accessToken, cookies } = exchanged
  return { body: { ...tokenFields(exchanged, settings), ...extension }, cookies, sent: () => noteSent(accessToken) }
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
        200: bodySchema(tokenProperties([settings.accessTokenName, settings.refreshTokenName], settings), {
          description: 'The new tokens.'
        }),
        400: { description: 'No refresh token.', ...errorSchema },
        401: { description: 'The refresh token was refused.', ...errorSchema },
        503: { description: 'The session store is unavailable. The refresh token remains valid.', ...errorSchema }
      }
    },
    isBodyOptional: true,
    begin: (request) => openWithoutToken(registration, request),
    handler: (state, reply) =>
      refresh(registration, sessions!, state, reply).catch((thrown: unknown) => {
        throw replaceForeign401(thrown)
      })
  }
}
