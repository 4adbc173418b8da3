/** POST {prefix}/logout: ends the session of the request (RFC 7009). */
import { Type } from '@sinclair/typebox'
import type { FastifyReply } from 'fastify'
import { MissingRefreshToken } from '../errors.ts'
import { errorSchema } from '../http/error-schema.ts'
import { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import { isWithoutToken } from '../request/extract.ts'
import { openState } from '../request/slot.ts'
import type { RequestState } from '../request/state.ts'
import type { SessionService } from '../sessions/service.ts'
import { stopSession } from '../sessions/stop.ts'
import { bodySchema, type Implementation, type Result } from './endpoint.ts'
import { pageAfterLogout } from './forms.ts'

async function logOut (sessions: SessionService, state: RequestState, reply: FastifyReply, isForm: boolean): Promise<Result> {
  const ended = await stopSession(sessions, state, reply)
  // A page that shows a logout button to somebody who is not logged in need not show an error.
  if (isForm || !(ended instanceof Refusal)) return { status: 204 }
  if (!isWithoutToken(ended)) throw state.toError(ended)
  // A browser without cookies is logged out already.
  if (!state.settings.cookieSet) throw new MissingRefreshToken()
  return { status: 204 }
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
    handler: (state, reply, isForm) => logOut(sessions!, state, reply, isForm),
    pageAfter: pageAfterLogout
  }
}
