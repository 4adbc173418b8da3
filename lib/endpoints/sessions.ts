/** GET and DELETE {prefix}/sessions, DELETE {prefix}/sessions/:id: the sessions of the current user. */
import { Type } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import { SessionNotFound } from '../errors.ts'
import { describeGuard, nameGuard } from '../guards/describe.ts'
import { isAnswered } from '../host/call.ts'
import { clearingCookies, setCookies } from '../http/cookies.ts'
import { errorSchema, unauthorized } from '../http/error-schema.ts'
import type { Registration } from '../registration.ts'
import { openState } from '../request/slot.ts'
import type { RequestState } from '../request/state.ts'
import { isSessionId } from '../sessions/refresh-token.ts'
import type { SessionService } from '../sessions/service.ts'
import type { UserId } from '../../types/handlers.ts'
import type { StoredSession } from '../../types/sessions.ts'
import { bodySchema, refuseEarly, type Endpoint } from './endpoint.ts'

/** Requires a valid own access token, whatever `doProtection` says, because the endpoints need a user of this instance. */
function requireToken (registration: Registration): onRequestAsyncHookHandler {
  const { rules } = registration
  const guard = refuseEarly(registration, (state) => state.verifyOwn())
  describeGuard(guard, () => ({ registration, rules: { ...rules, settings: { ...rules.settings, doProtection: true } }, scopeSets: [] }))
  nameGuard(guard, registration.settings.instanceName, [])
  return guard
}

/** The user of a request that passed {@link requireToken}. */
const userIdOf = (state: RequestState): UserId => state.userId!

function clearCookies ({ settings }: RequestState, reply: FastifyReply): void {
  if (settings.cookieSet) setCookies(reply, clearingCookies(settings, reply))
}

async function list (sessions: SessionService, state: RequestState, request: FastifyRequest, reply: FastifyReply): Promise<object> {
  const { sessionId } = state
  const stored = await sessions.list(userIdOf(state))
  if (isAnswered(request, reply)) return reply
  const isCurrent = ({ sid }: StoredSession) => sid === sessionId
  return {
    // The current one first, because it is used now.
    sessions: [...stored.filter(isCurrent), ...stored.filter((one) => !isCurrent(one))].map(({ sid, createdAt, usedAt, endsAt, data }) => ({
      id: sid,
      created_at: new Date(createdAt).toISOString(),
      // The current time for the current session, so that a stolen access token does not reveal when its owner refreshes.
      used_at: new Date(sid === sessionId ? Date.now() : usedAt).toISOString(),
      expires_at: new Date(endsAt).toISOString(),
      current: sid === sessionId,
      data: JSON.parse(data)
    }))
  }
}

async function endOne (sessions: SessionService, state: RequestState, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const sid = String(Reflect.get(Object(request.params), 'id'))
  const ended = isSessionId(sid) ? await sessions.end(userIdOf(state), { sid }, 'user', request) : []
  if (ended.length === 0) throw new SessionNotFound()
  if (isAnswered(request, reply)) return reply
  if (sid === state.sessionId) clearCookies(state, reply)
  return reply.code(204).send()
}

async function endAll (sessions: SessionService, state: RequestState, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const isExcepted = Reflect.get(Object(request.query), 'except') !== undefined
  await sessions.end(userIdOf(state), { except: isExcepted ? state.sessionId : null }, 'user', request)
  if (isAnswered(request, reply)) return reply
  if (!isExcepted) clearCookies(state, reply)
  return reply.code(204).send()
}

const session = Type.Object({
  id: Type.String(),
  created_at: Type.String({ format: 'date-time' }),
  used_at: Type.String({ format: 'date-time' }),
  expires_at: Type.String({ format: 'date-time' }),
  current: Type.Boolean({ description: 'Whether it is the session of this request.' }),
  data: Type.Object({}, { additionalProperties: true })
})

/** The endpoints for the sessions of the current user; none with `pathToSessions: null`. */
export function sessionEndpoints (registration: Registration, sessions: SessionService): Endpoint[] {
  const { settings: { pathToSessions: path }, rules } = registration
  if (path === null) return []
  const shared = { tags: ['authentication'] }
  const failures = {
    401: unauthorized,
    503: { description: 'The session store is unavailable.', ...errorSchema }
  }
  const done = { 204: { description: 'Ended.', type: 'null' } }
  const guards = [requireToken(registration)]
  const stateOf = (request: FastifyRequest) => openState(registration, request, rules)
  return [
    {
      method: 'GET',
      path,
      schema: { ...shared, summary: 'List the sessions of the current user', response: { 200: bodySchema({ sessions: Type.Array(session) }, { description: 'The sessions, the one that was used last first.' }), ...failures } },
      guards,
      handler: (request, reply) => list(sessions, stateOf(request), request, reply)
    },
    {
      method: 'DELETE',
      path: `${path === '/' ? '' : path.replace(/\/$/, '')}/:id`,
      isBodyOptional: true,
      schema: { ...shared, summary: 'End a session of the current user', params: Type.Object({ id: Type.String() }), response: { ...done, ...failures, 404: { description: 'The current user has no such session.', ...errorSchema } } },
      guards,
      handler: (request, reply) => endOne(sessions, stateOf(request), request, reply)
    },
    {
      method: 'DELETE',
      path,
      isBodyOptional: true,
      faultOfQuery: (query) => [undefined, 'current'].includes(Object(query).except) ? undefined : '/except must be "current", or absent',
      schema: { ...shared, summary: 'End the sessions of the current user', querystring: Type.Object({ except: Type.Optional(Type.Literal('current')) }), response: { ...done, 400: { description: '"except" has another value.' }, ...failures } },
      guards,
      handler: (request, reply) => endAll(sessions, stateOf(request), request, reply)
    }
  ]
}
