/** `fastify.tokenAuth.sessions`: the sessions of an instance, for the application. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { UserId } from '../../types/handlers.ts'
import type { ListedSession, Sessions, StartedSession } from '../../types/sessions.ts'
import { InvalidConfiguration, SessionStoreUnavailable } from '../errors.ts'
import type { Issuing } from '../issuing/issuing.ts'
import { checkOrigin } from '../request/origin.ts'
import type { RequestState } from '../request/state.ts'
import { checkAuthTime } from '../settings/auth-time.ts'
import type { SessionService } from './service.ts'
import { startSession, type NewTokens } from './start.ts'

interface Parts {
  readonly service: SessionService
  readonly issuing: Issuing
  /** Returns the state of a request under the rules of the registration. */
  readonly stateOf: (request: FastifyRequest) => RequestState
}

export class InstanceSessions implements Sessions<object> {
  readonly #parts: Parts | undefined

  /** @param parts undefined for an instance without sessions, or with `authMode: false` */
  constructor (parts: Parts | undefined) {
    this.#parts = parts
  }

  #require (method: string): Parts {
    if (this.#parts !== undefined) return this.#parts
    throw new InvalidConfiguration(`sessions.${method}() needs the option "sessions" and "authMode": true. Give "sessions": {} to register(), or a store: { store }.`, { section: 'sessions', duringRequest: true })
  }

  async start (request: FastifyRequest, reply: FastifyReply, user: object, options: { authTime?: number | undefined } = {}): Promise<StartedSession> {
    const { service, issuing, stateOf } = this.#require('start')
    const { authTime } = options
    checkAuthTime(authTime, 'sessions.start')
    reply.header('cache-control', 'no-store')
    const state = stateOf(request)
    // A login of another page would set its cookies: it could log the visitor in as somebody else.
    const foreign = state.settings.cookieSet ? checkOrigin(request, state.settings) : null
    if (foreign !== null) throw state.toError(foreign)
    let tokens: NewTokens | undefined
    const login = { sessions: service, issuing, state, request, reply, user, from: 'sessions.start() must be given', authTime, grant: 'start' } as const
    const sessionId = await startSession(login, async (made) => { tokens = made })
    // Answered by a timeout in the meantime: nothing was stored.
    if (sessionId === undefined || tokens === undefined) throw new SessionStoreUnavailable()
    return { sessionId, ...tokens }
  }

  async list (userId: UserId): Promise<Array<ListedSession>> {
    const sessions = await this.#require('list').service.list(userId)
    return sessions.map(({ sid, createdAt, usedAt, endsAt, data }) => ({
      id: sid, createdAt: new Date(createdAt), usedAt: new Date(usedAt), expiresAt: new Date(endsAt), data: JSON.parse(data)
    }))
  }

  async end (userId: UserId, sessionId: string): Promise<boolean> {
    const ended = await this.#require('end').service.end(userId, { sid: sessionId }, 'host')
    return ended.length > 0
  }

  async endAll (userId: UserId, { except = null }: { except?: string | null | undefined } = {}): Promise<number> {
    const ended = await this.#require('endAll').service.end(userId, { except }, 'host')
    return ended.length
  }
}
