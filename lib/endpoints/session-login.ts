/** POST {prefix} with sessions: starts a session. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { InvalidUserObject } from '../errors.ts'
import { callHost } from '../host/call.ts'
import { extendBody } from '../http/responses.ts'
import type { Registration } from '../registration.ts'
import { openState } from '../request/slot.ts'
import type { SessionService } from '../sessions/service.ts'
import { startSession } from '../sessions/start.ts'
import { tokenFields } from './endpoint.ts'

export async function logInWithSession (registration: Registration, sessions: SessionService, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const { host: { handlers }, responses, issuing } = registration
  const state = openState(registration, request, registration.rules)
  // Registration requires the handler.
  const user: unknown = await callHost('authenticate', () => handlers.authenticate!(request))
  if (user === undefined || user === null) throw new InvalidUserObject('authenticate must return a user; it returned nothing. To refuse, throw AuthenticationFailed.')
  let body: Record<string, unknown> = {}
  const login = { sessions, issuing, state, request, reply, user, from: 'authenticate must return', authTime: undefined, grant: 'authenticate' } as const
  const sid = await startSession(login, async (tokens, known) => {
    body = await extendBody(responses, tokenFields(tokens, state.settings), 'extendAuthenticate', () => responses.extendAuthenticate(request, { user: known, ...tokens }))
  })
  return sid === undefined ? reply : body
}
