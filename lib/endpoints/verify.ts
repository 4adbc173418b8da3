/** GET {prefix}/verify: whether a token is valid (specification, Endpoints, rule 3). */
import { Type } from '@sinclair/typebox'
import { isAnswered } from '../host/call.ts'
import { extendBody, isReplaced } from '../http/responses.ts'
import type { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import type { RequestState } from '../request/state.ts'
import { bodySchema, unavailable, type Implementation } from './endpoint.ts'

/** Returns the body before hooks extend it. */
function bodyOf (refusal: Refusal | null, state: RequestState): Record<string, unknown> {
  if (refusal === null) return { valid: true }
  if (!state.settings.debug) return { valid: false, reason: refusal.answer.message }
  const { message, detail } = state.toError(refusal)
  return { valid: false, reason: message, detail }
}

export function verifyEndpoint (registration: Registration): Implementation {
  const { responses } = registration
  const isExtended = isReplaced(responses, 'extendVerify')
  return {
    schema: {
      summary: 'Report whether the access token is valid',
      tags: ['authentication'],
      response: {
        200: bodySchema({ valid: Type.Literal(true) }, { description: 'The token is valid.' }),
        400: bodySchema({ valid: Type.Literal(false), reason: Type.String() }, { description: 'The token is not valid, or missing.' }),
        ...unavailable(registration)
      }
    },
    async handler (state, reply) {
      const { request } = state
      const refusal = await state.verify()
      if (isAnswered(request, reply)) return undefined
      // While keys or the session store are unavailable, the token may be valid.
      if (refusal !== null && refusal.answer.statusCode >= 500) throw refusal
      const status = refusal === null ? undefined : 400
      const body = bodyOf(refusal, state)
      if (!isExtended) return { status, body }
      const user = refusal === null ? await state.user() : null
      return {
        status,
        body: await extendBody(responses, body, 'extendVerify', () => responses.extendVerify(request, { user, payload: state.payload }))
      }
    }
  }
}
