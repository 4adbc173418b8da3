/** POST {prefix}: issues an access token, and a refresh token if they are enabled (specification, Endpoints, rules 1 and 2). With sessions: starts one. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AuthenticationFailed, InvalidUserObject } from '../errors.ts'
import { publishIssued } from '../events.ts'
import { callHost, isAnswered } from '../host/call.ts'
import { userIdOf } from '../host/users.ts'
import { tokenCookies } from '../http/cookies.ts'
import { errorSchema, fastifyErrorSchema } from '../http/error-schema.ts'
import { hintAtLostCookies } from '../http/lost-cookies.ts'
import { extendBody, isReplaced } from '../http/responses.ts'
import { storeRefreshToken } from '../issuing/refresh-token.ts'
import type { Registration } from '../registration.ts'
import type { RequestState } from '../request/state.ts'
import { noFacts } from '../sessions/login-facts.ts'
import type { SessionService } from '../sessions/service.ts'
import { startSession } from '../sessions/start.ts'
import { secondsNow } from '../token/claims.ts'
import { bodySchema, tokenFields, tokenProperties, type Implementation, type Result } from './endpoint.ts'
import { nextPage } from './forms.ts'

/** The beginning of messages about the user. */
const from = 'authenticate must return'

/** Returns the user that the handler `authenticate` finds for a request. */
async function findUser ({ host: { handlers } }: Registration, request: FastifyRequest): Promise<object> {
  // Registration requires the handler.
  const user: object | null | undefined = await callHost('authenticate', () => handlers.authenticate!(request))
  if (!user || user instanceof Error) {
    throw new InvalidUserObject(`authenticate must return a user, not ${user ? 'an error' : 'nothing'}. To refuse, throw AuthenticationFailed.`)
  }
  return user
}

async function issueTokens (
  registration: Registration,
  state: RequestState,
  reply: FastifyReply,
  isForm: boolean
): Promise<Result | undefined> {
  const { host: { handlers }, responses, issuing } = registration
  const { request, settings } = state
  const user = await findUser(registration, request)
  const userId = userIdOf(user, settings.userId, from)

  const accessToken = await issuing.accessToken(user, from, state, { authTime: Math.floor(secondsNow()) })
  const refreshToken = settings.refreshTokenEnabled ? await issuing.refreshToken(request, user, state) : undefined
  const cookies = settings.cookieSet ? tokenCookies({ accessToken, refreshToken }, settings) : []
  const body = isForm
    ? undefined
    : await extendBody(responses, tokenFields({ accessToken, refreshToken }, settings), 'extendAuthenticate', () =>
      responses.extendAuthenticate(request, { user, accessToken, refreshToken: refreshToken ?? null })
    )

  // The client does not receive this token, so it is not stored.
  if (isAnswered(request, reply)) return undefined
  // Stored after every step that can fail and before the response, so that a token is either stored and sent, or neither.
  if (refreshToken !== undefined) await storeRefreshToken(handlers, request, userId, refreshToken)
  publishIssued(settings.instanceName, userId, 'authenticate', request)
  if (settings.cookieSet) hintAtLostCookies(request, settings)
  return { body, loginCookies: cookies }
}

async function logIn (
  registration: Registration,
  sessions: SessionService,
  state: RequestState,
  reply: FastifyReply,
  isForm: boolean
): Promise<Result | undefined> {
  const { responses, issuing } = registration
  const { request } = state
  const user = await findUser(registration, request)
  let body: Record<string, unknown> = {}
  const login = { sessions, issuing, state, request, reply, user, from, authTime: undefined, facts: noFacts, grant: 'authenticate' } as const
  const sid = await startSession(login, async (tokens, known) => {
    if (isForm) return
    body = await extendBody(responses, tokenFields(tokens, state.settings), 'extendAuthenticate', () =>
      responses.extendAuthenticate(request, { user: known, ...tokens })
    )
  })
  return sid === undefined ? undefined : { body }
}

/**
 * The specification answers a refused login as text, although the body is JSON. An application with its own error rendering
 * chooses the media type itself.
 */
function answerAsText ({ responses }: Registration, { settings }: RequestState, reply: FastifyReply): void {
  if (settings.onRefusal === 'reply' && !isReplaced(responses, 'exceptionResponse')) {
    reply.type('text/plain; charset=utf-8')
  }
}

export function authenticateEndpoint (registration: Registration): Implementation {
  const { settings, sessions } = registration
  const pageAfter = (state: RequestState) => nextPage(state, state.settings.loggedInUrl)
  const names = settings.refreshTokenEnabled ? [settings.accessTokenName, settings.refreshTokenName] : [settings.accessTokenName]
  return {
    schema: {
      summary: 'Issue an access token',
      tags: ['authentication'],
      body: bodySchema({}, { description: 'The credentials that the application requires.' }),
      response: {
        200: bodySchema(tokenProperties(names, settings), { description: 'The tokens.' }),
        400: { description: 'The body is not an object.', ...fastifyErrorSchema },
        401: { description: 'The credentials were refused.', content: { 'text/plain': { schema: errorSchema } } },
        ...(sessions !== undefined && { 503: { description: 'The session store is unavailable. No session was started.', ...errorSchema } })
      }
    },
    async handler (state, reply, isForm) {
      // Now, because the getter of a setting can fail, and the session must not be stored then.
      if (isForm) pageAfter(state)
      try {
        return await (sessions === undefined
          ? issueTokens(registration, state, reply, isForm)
          : logIn(registration, sessions, state, reply, isForm))
      } catch (error) {
        if (!isForm && error instanceof AuthenticationFailed && !isAnswered(state.request, reply)) answerAsText(registration, state, reply)
        throw error
      }
    },
    pageAfter
  }
}
