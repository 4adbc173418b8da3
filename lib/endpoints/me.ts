/** GET {prefix}/me: the current user (specification, Endpoints, rule 4). */
import { Type } from '@sinclair/typebox'
import { makeProtectGuard } from '../guards/protect.ts'
import { serializeUser } from '../host/users.ts'
import { unauthorized } from '../http/error-schema.ts'
import { extendBody } from '../http/responses.ts'
import type { Registration } from '../registration.ts'
import { bodySchema, unavailable, type Implementation } from './endpoint.ts'

export function meEndpoint (registration: Registration): Implementation {
  const { responses } = registration
  return {
    schema: {
      summary: 'Return the current user',
      tags: ['authentication'],
      response: {
        200: bodySchema({ me: Type.Union([Type.Object({}, { additionalProperties: true }), Type.Null()]) }, { description: 'The user.' }),
        401: unauthorized,
        ...unavailable(registration)
      }
    },
    guards: [makeProtectGuard(registration)],
    async handler (state) {
      const user = await state.user()
      const me = user === null ? null : await serializeUser(user)
      return { body: await extendBody(responses, { me }, 'extendRetrieveUser', () => responses.extendRetrieveUser(state.request, { user, payload: state.payload })) }
    }
  }
}
