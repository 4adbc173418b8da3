/** GET and DELETE {prefix}/sessions, DELETE {prefix}/sessions/:id, POST {prefix}/sessions/:id/end: the sessions of the current user. */
import { Type } from '@sinclair/typebox'
import { SessionNotFound } from '../errors.ts'
import { describeGuard, nameGuard } from '../guards/describe.ts'
import type { CallbackHook } from '../wrapped/gate.ts'
import { recordTrial } from '../wrapped/trial.ts'
import { failHook } from '../host/call.ts'
import { clearingCookies } from '../http/cookies.ts'
import { errorSchema, fastifyErrorSchema, unauthorized } from '../http/error-schema.ts'
import type { Registration } from '../registration.ts'
import type { RequestState } from '../request/state.ts'
import { isSessionId } from '../sessions/refresh-token.ts'
import type { SessionService } from '../sessions/service.ts'
import type { UserId } from '../../types/handlers.ts'
import type { StoredSession } from '../../types/sessions.ts'
import { bodySchema, refuseEarly, type Implementation, type Result } from './endpoint.ts'
import { pageAfterLogout } from './forms.ts'
import { memberOf } from '../values.ts'

/** Requires a valid access token of this instance, even with `doProtection: false`, because the endpoints need its user. */
function requireToken (registration: Registration): CallbackHook {
  const { rules } = registration
  const mayPass = refuseEarly(registration, (state) => state.verifyOwn())
  const guard: CallbackHook = (request, reply, done) => {
    if (recordTrial(request, done, guard)) return
    mayPass(request, reply).then(
      (isAllowed) => {
        if (isAllowed) done()
      },
      (error: unknown) => {
        failHook(done, error)
      }
    )
  }
  // May run twice: the state of the request remembers the result.
  const enforce = () => ({ hook: guard, hasPassed: () => false })
  describeGuard(guard, () => ({
    registration,
    rules: { ...rules, settings: { ...rules.settings, doProtection: true } },
    scopeSets: [],
    enforce
  }))
  nameGuard(guard, registration.settings.instanceName, [])
  return guard
}

/** The user of a request that passed {@link requireToken}. */
const userIdOf = (state: RequestState): UserId => state.userId!

/** Returns the cookies that remove the tokens from the browser. */
const withoutCookies = ({ settings }: RequestState) => settings.cookieSet ? clearingCookies(settings) : []

async function list (sessions: SessionService, state: RequestState): Promise<Result> {
  const { sessionId } = state
  const stored = await sessions.list(userIdOf(state))
  const isCurrent = ({ sid }: StoredSession) => sid === sessionId
  // The current one first, because it is used now.
  const listed = [...stored.filter(isCurrent), ...stored.filter((one) => !isCurrent(one))].map(
    ({ sid, createdAt, usedAt, endsAt, data }) => ({
      id: sid,
      created_at: new Date(createdAt).toISOString(),
      // The current time for the current session, so that a stolen access token does not reveal when its owner refreshes.
      used_at: new Date(sid === sessionId ? Date.now() : usedAt).toISOString(),
      expires_at: new Date(endsAt).toISOString(),
      current: sid === sessionId,
      data: JSON.parse(data)
    })
  )
  return { body: { sessions: listed } }
}

async function endOne (sessions: SessionService, state: RequestState): Promise<Result> {
  const { request } = state
  const sid = String(memberOf(request.params, 'id'))
  const ended = isSessionId(sid) ? await sessions.end(userIdOf(state), { sid }, 'user', request) : []
  if (ended.length === 0) throw new SessionNotFound()
  return { status: 204, loginCookies: sid === state.sessionId ? withoutCookies(state) : [] }
}

async function endAll (sessions: SessionService, state: RequestState): Promise<Result> {
  const { request } = state
  const isExcepted = Object.hasOwn(Object(request.query), 'except')
  await sessions.end(userIdOf(state), { except: isExcepted ? state.sessionId : null }, 'user', request)
  if (!isExcepted && state.sessionId !== null) sessions.refuse(userIdOf(state), state.sessionId)
  return { status: 204, loginCookies: isExcepted ? [] : withoutCookies(state) }
}

/**
 * Describes what is wrong with `except`. Query parsers differ: for some, `except[]=current` is another parameter. A request
 * with such a form is meant to keep a session, so it is refused.
 */
function faultOfExcept (query: unknown): string | undefined {
  const isFaulty = Object.entries(Object(query)).some(
    ([name, value]) => /^\W*except(?![a-z])/i.test(name) && (name !== 'except' || value !== 'current')
  )
  return isFaulty ? '/except must be "current", or absent' : undefined
}

/** Without a format: a strict validator of responses that does not know the format would prevent the start of the application. */
const time = (description: string) => Type.String({ description: `${description}, as 2026-01-31T12:00:00.000Z.` })

const session = Type.Object({
  id: Type.String(),
  created_at: time('When it began'),
  used_at: time('When it was used last'),
  expires_at: time('When it expires if it is not used'),
  current: Type.Boolean({ description: 'Whether it is the session of this request.' }),
  data: Type.Object({}, { additionalProperties: true })
})

const shared = { tags: ['authentication'] }
const failures = {
  401: unauthorized,
  503: { description: 'The session store is unavailable.', ...errorSchema }
}
const done = { 204: { description: 'Ended.', type: 'null' } }

export function listSessionsEndpoint (registration: Registration): Implementation {
  return {
    schema: {
      ...shared,
      summary: 'List the sessions of the current user',
      response: {
        200: bodySchema({ sessions: Type.Array(session) }, { description: 'The sessions, the most recently used one first.' }),
        ...failures
      }
    },
    guards: [requireToken(registration)],
    handler: (state) => list(registration.sessions!, state)
  }
}

export function endSessionEndpoint (registration: Registration): Implementation {
  return {
    isBodyOptional: true,
    schema: {
      ...shared,
      summary: 'End a session of the current user',
      params: Type.Object({ id: Type.String() }),
      response: { ...done, ...failures, 404: { description: 'The current user has no such session.', ...errorSchema } }
    },
    guards: [requireToken(registration)],
    handler: (state) => endOne(registration.sessions!, state)
  }
}

/** For pages without scripts, whose forms cannot send DELETE. */
export function endSessionByFormEndpoint (registration: Registration): Implementation {
  const { handler, ...endpoint } = endSessionEndpoint(registration)
  return {
    ...endpoint,
    async handler (state, reply, isForm) {
      try {
        return await handler(state, reply, isForm)
      } catch (error) {
        // The page shows the list again, without the session.
        if (isForm && error instanceof SessionNotFound) return {}
        throw error
      }
    },
    pageAfter: pageAfterLogout
  }
}

export function endSessionsEndpoint (registration: Registration): Implementation {
  return {
    isBodyOptional: true,
    faultOfQuery: faultOfExcept,
    schema: {
      ...shared,
      summary: 'End the sessions of the current user',
      querystring: Type.Object({ except: Type.Optional(Type.Literal('current')) }),
      response: { ...done, 400: { description: '"except" has another value.', ...fastifyErrorSchema }, ...failures }
    },
    guards: [requireToken(registration)],
    handler: (state) => endAll(registration.sessions!, state)
  }
}
