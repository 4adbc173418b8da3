/** GET {prefix}/verify: says whether a token is valid (specification, Endpoints, rule 3). */
import { Type } from '@sinclair/typebox'
import { isAnswered } from '../host.ts'
import { extendBody, isReplaced } from '../responses.ts'
import type { TokenAuth } from '../token-auth.ts'
import { bodySchema, type Endpoint } from './route.ts'

export function verifyEndpoint (instance: TokenAuth): Endpoint {
  const { responses, settings } = instance
  const isExtended = isReplaced(responses, 'extendVerify')
  return {
    method: 'GET',
    readsToken: true,
    path: settings.pathToVerify,
    schema: {
      summary: 'Say whether the access token is valid',
      tags: ['authentication'],
      response: {
        200: bodySchema({ valid: Type.Literal(true) }, { description: 'The token is valid.' }),
        400: bodySchema({ valid: Type.Literal(false), reason: Type.String() }, { description: 'The token is not valid, or missing.' })
      }
    },
    async handler (request, reply) {
      const auth = instance.enter(request, instance.policy)
      const refusal = await auth.verify()
      if (isAnswered(request, reply)) return reply
      const error = refusal === null ? null : auth.errorToRender(refusal)
      const body = error === null ? { valid: true } : { valid: false, reason: error.message, ...(error.detail !== undefined && { detail: error.detail }) }
      if (refusal !== null) reply.code(400)
      if (!isExtended) return body
      const user = refusal === null ? await auth.user() : null
      return await extendBody(responses, body, 'extendVerify', () => responses.extendVerify(request, { user, payload: auth.payload }))
    }
  }
}
