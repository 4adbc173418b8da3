/** GET {prefix}/verify: whether a token is valid (specification, Endpoints, rule 3). */
import { Type } from '@sinclair/typebox'
import { sendRefusal } from '../guards/refuse.ts'
import { isAnswered } from '../host/call.ts'
import { extendBody, isReplaced } from '../http/responses.ts'
import type { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import { openState } from '../request/slot.ts'
import type { RequestState } from '../request/state.ts'
import { bodySchema, unavailable, type Endpoint } from './endpoint.ts'

/** Returns the body before hooks extend it. */
function bodyOf (refusal: Refusal | null, state: RequestState): Record<string, unknown> {
  if (refusal === null) return { valid: true }
  if (!state.settings.debug) return { valid: false, reason: refusal.answer.message }
  const { message, detail } = state.toError(refusal)
  return { valid: false, reason: message, detail }
}

export function verifyEndpoint (registration: Registration): Endpoint {
  const { responses, settings, rules } = registration
  const isExtended = isReplaced(responses, 'extendVerify')
  return {
    method: 'GET',
    readsToken: 'required',
    access: 'says whether the token is valid',
    path: settings.pathToVerify,
    schema: {
      summary: 'Say whether the access token is valid',
      tags: ['authentication'],
      response: {
        200: bodySchema({ valid: Type.Literal(true) }, { description: 'The token is valid.' }),
        400: bodySchema({ valid: Type.Literal(false), reason: Type.String() }, { description: 'The token is not valid, or missing.' }),
        ...unavailable(registration)
      }
    },
    async handler (request, reply) {
      const state = openState(registration, request, rules)
      const refusal = await state.verify()
      if (isAnswered(request, reply)) return reply
      // An outage says nothing about the token.
      if (refusal !== null && refusal.answer.statusCode >= 500) return await sendRefusal(registration, request, reply, refusal, state)
      const body = bodyOf(refusal, state)
      if (refusal !== null) reply.code(400)
      if (!isExtended) return body
      const user = refusal === null ? await state.user() : null
      return await extendBody(responses, body, 'extendVerify', () => responses.extendVerify(request, { user, payload: state.payload }))
    }
  }
}
