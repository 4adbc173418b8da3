/** GET {prefix}/me: the current user (specification, Endpoints, rule 4). */
import { Type } from '@sinclair/typebox'
import { makeProtectGuard } from '../guards/protect.ts'
import { serializeUser } from '../host/users.ts'
import { unauthorized } from '../http/error-schema.ts'
import { extendBody } from '../http/responses.ts'
import type { Registration } from '../registration.ts'
import { openState } from '../request/slot.ts'
import { bodySchema, unavailable, type Endpoint } from './endpoint.ts'

export function meEndpoint (registration: Registration): Endpoint {
  const { responses, settings, rules } = registration
  return {
    method: 'GET',
    path: settings.pathToRetrieveUser,
    schema: {
      summary: 'Return the current user',
      tags: ['authentication'],
      response: {
        200: bodySchema({ me: Type.Union([Type.Object({}, { additionalProperties: true }), Type.Null()]) }, { description: 'The user.' }),
        401: unauthorized,
        ...unavailable(registration)
      }
    },
    guards: [makeProtectGuard(registration, {})],
    async handler (request) {
      const state = openState(registration, request, rules)
      const user = await state.user()
      const me = user === null ? null : await serializeUser(user)
      return await extendBody(responses, { me }, 'extendRetrieveUser', () => responses.extendRetrieveUser(request, { user, payload: state.payload }))
    }
  }
}
