/** GET {prefix}/me: the current user (specification, Endpoints, rule 4). */
import { Type } from '@sinclair/typebox'
import { extendBody } from '../responses.ts'
import type { TokenAuth } from '../token-auth.ts'
import { serializeUser } from '../users.ts'
import { bodySchema, errorSchema, type Endpoint } from './route.ts'

export function meEndpoint (instance: TokenAuth): Endpoint {
  const { responses, settings } = instance
  return {
    method: 'GET',
    path: settings.pathToRetrieveUser,
    schema: {
      summary: 'Return the current user',
      tags: ['authentication'],
      response: {
        200: bodySchema({ me: Type.Union([Type.Object({}, { additionalProperties: true }), Type.Null()]) }, { description: 'The user.' }),
        401: { description: 'No valid access token.', ...errorSchema }
      }
    },
    guards: [instance.protect()],
    async handler (request) {
      const auth = instance.enter(request, instance.policy)
      const user = await auth.user()
      const me = user === null ? null : await serializeUser(user)
      return await extendBody(responses, { me }, 'extendRetrieveUser', () => responses.extendRetrieveUser(request, { user, payload: auth.payload }))
    }
  }
}
