/** GET {prefix}/me: the current user (specification, Endpoints, rule 4). */
import { Type } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { makeAskedGuard, makeProtectGuard } from '../guards/protect.ts'
import { serializeUser } from '../host/users.ts'
import { unauthorized } from '../http/error-schema.ts'
import { extendBody } from '../http/responses.ts'
import type { Registration } from '../registration.ts'
import { readParameter } from '../request/pairs.ts'
import { isSecretName } from '../secret-names.ts'
import { warn } from '../warnings.ts'
import { bodySchema, unavailable, type Implementation } from './endpoint.ts'

// Lists of types, not unions: only lists are converted to `nullable` for OpenAPI 3.0.

/** The members that `optional=true` adds to the response. */
const properties = {
  id: Type.Optional(Type.Unknown({ description: 'With `optional=true`: the id of the user; null if nobody is logged in.' })),
  reason: Type.Optional(
    Type.Unsafe<string | null>({
      type: ['string', 'null'],
      enum: ['absent', 'expired', 'ended', null],
      description: 'With `optional=true`: why nobody is logged in; null for a user.'
    })
  )
}

/** JSON omits members with such values. */
const omitted = new Set(['undefined', 'function', 'symbol'])

/** Warns that the user in a response has members that are probably secret. @returns whether it has */
function warnOfSecrets ({ settings: { instanceName } }: Registration, request: FastifyRequest, me: object): boolean {
  const names = Object.keys(me).filter((name) => isSecretName(name) && !omitted.has(typeof Reflect.get(me, name)))
  if (names.length === 0) return false
  warn('W44', instanceName, ` ${names.length === 1 ? 'The member is' : 'The members are'} ${names.map((name) => JSON.stringify(name)).join(', ')}.`)
  if (process.env.NODE_ENV !== 'production') {
    request.log.error({ instanceName, members: names }, 'The response with the current user has members that are probably secret.')
  }
  return true
}

/** Whether a request has `optional=true`: without a user, the response is then 200, not an error that browsers show in red. */
const isQuestion = ({ raw: { url = '' } }: FastifyRequest) => readParameter(url, 'optional') === 'true'

export function meEndpoint (registration: Registration): Implementation {
  const { responses, sessions } = registration
  let hasWarned = false
  return {
    schema: {
      summary: 'Return the current user',
      tags: ['authentication'],
      ...(sessions !== undefined && {
        querystring: Type.Object({
          optional: Type.Optional(
            Type.Literal('true', {
              description: 'Answers 200 also if nobody is logged in. In cookie mode, an access token that has expired is renewed.'
            })
          )
        })
      }),
      response: {
        200: bodySchema(
          {
            me: Type.Unsafe<object | null>({ type: ['object', 'null'], additionalProperties: true }),
            ...(sessions !== undefined && properties)
          },
          { description: 'The user.' }
        ),
        401: unauthorized,
        ...unavailable(registration)
      }
    },
    guards: [sessions === undefined ? makeProtectGuard(registration) : makeAskedGuard(registration, isQuestion)],
    async handler (state) {
      const isAsked = sessions !== undefined && isQuestion(state.request)
      // With `doProtection: false`, no guard has verified the token.
      await state.verify()
      const { userId, signedOut } = state
      if (isAsked && signedOut !== null) return { body: { me: null, id: null, reason: signedOut } }
      const user = await state.user()
      const me = user === null ? null : await serializeUser(user)
      if (me !== null && !hasWarned) hasWarned = warnOfSecrets(registration, state.request, me)
      const body = await extendBody(responses, { me }, 'extendRetrieveUser', () =>
        responses.extendRetrieveUser(state.request, { user, payload: state.payload })
      )
      return { body: isAsked ? { ...body, id: userId, reason: null } : body }
    }
  }
}
