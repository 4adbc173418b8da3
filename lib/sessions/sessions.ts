/** `fastify.tokenAuth.sessions`: the sessions of an instance, for the application. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { UserId } from '../../types/handlers.ts'
import type { ListedSession, Sessions, StartedSession, StartOptions, StoredSession } from '../../types/sessions.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { SessionStoreUnavailable } from '../errors.ts'
import type { Issuing } from '../issuing/issuing.ts'
import { preventStoring } from '../http/caching.ts'
import { Refusal } from '../refusal.ts'
import { checkOrigin } from '../request/origin.ts'
import type { RequestState } from '../request/state.ts'
import { authTime, matching, orNull } from '../settings/kinds.ts'
import { optional, optionsOf, preset, readRecord, readValue, required } from '../settings/records.ts'
import { asClaimed, isUserId } from '../values.ts'
import { factsMembers } from './login-facts.ts'
import { isSessionId } from './refresh-token.ts'
import type { SessionService } from './service.ts'
import { startSession, type NewTokens } from './start.ts'
import { stopSession } from './stop.ts'

interface Parts {
  readonly service: SessionService
  readonly issuing: Issuing
  /** The setting `userId`. */
  readonly userIdClaim: string
  /** Returns the state of a request under the rules of the registration. */
  readonly stateOf: (request: FastifyRequest) => RequestState
  /** Returns the state of a request under the rules of a logout. */
  readonly logoutStateOf: (request: FastifyRequest) => RequestState
}

const errorOptions = { page: 'sessions-reference.md#settings', duringRequest: true } as const

const userIdMember = required(matching<UserId>('a non-empty string, a safe integer or a boolean', isUserId))

/** @throws {InvalidConfiguration} for any other value, such as undefined or a user object */
function checkUserId (userId: unknown, method: string): void {
  readValue(`The user id that is given to sessions.${method}()`, userId, userIdMember, errorOptions)
}

/** The options of `start`. */
export const startShape = { members: { authTime: optional(authTime), ...factsMembers }, example: '{ authTime }', ...errorOptions } as const

/** The options of `endAll`. Unknown names are refused, because a misspelt `except` would end the session that must not end. */
export const endAllShape = {
  members: { except: preset(orNull(matching<string>('the id of a session', isSessionId)), null) },
  example: '{ except: sessionId }',
  ...errorOptions
} as const

/**
 * Returns the user ids that a user id may stand for. A path parameter is a string even if the id of the user is a number:
 * with the string alone, `endAll` would silently end no session of a disabled user.
 */
function idsOf (userId: UserId, claim: string): UserId[] {
  const number = Number(userId)
  if (claim === 'sub') return [asClaimed(claim, userId)]
  return typeof userId === 'string' && Number.isSafeInteger(number) && String(number) === userId ? [userId, number] : [userId]
}

/** Login CSRF: a page of another origin could log the visitor in as another user, or out. @throws {CrossOriginRequest} in cookie mode */
function refuseOtherOrigins (state: RequestState): void {
  const crossOrigin = state.settings.cookieSet ? checkOrigin(state.request, state.settings) : null
  if (crossOrigin !== null) throw state.toError(crossOrigin)
}

/** @throws {InvalidConfiguration} for other parameters, such as a user in place of the request */
function checkExchange (method: 'start' | 'stop', request: unknown, reply: unknown): void {
  if (Object(request).raw !== undefined && Object(reply).raw !== undefined) return
  throw new InvalidConfiguration(
    `sessions.${method}() takes the request and the reply of a route first: sessions.${method}(request, reply${method === 'start' ? ', user' : ''}).`,
    errorOptions
  )
}

export class InstanceSessions implements Sessions<object> {
  readonly #parts: Parts | undefined

  /** @param parts undefined for an instance without sessions, or with `authMode: false` */
  constructor (parts: Parts | undefined) {
    this.#parts = parts
  }

  #require (method: string): Parts {
    if (this.#parts !== undefined) return this.#parts
    throw new InvalidConfiguration(
      `sessions.${method}() needs the option "sessions" and "authMode": true. Give "sessions": {} to register(), or a store: { store }.`,
      errorOptions
    )
  }

  async start (
    request: FastifyRequest,
    reply: FastifyReply,
    user: object,
    options: StartOptions = {}
  ): Promise<StartedSession> {
    const { service, issuing, stateOf } = this.#require('start')
    checkExchange('start', request, reply)
    const { authTime, ...facts } = readRecord(optionsOf('sessions.start()'), options, startShape)
    preventStoring(reply)
    const state = stateOf(request)
    refuseOtherOrigins(state)
    let tokens: NewTokens | undefined
    const login = {
      sessions: service,
      issuing,
      state,
      request,
      reply,
      user,
      from: 'sessions.start() must be given',
      authTime,
      facts,
      grant: 'start'
    } as const
    const sessionId = await startSession(login, async (made) => {
      tokens = made
    })
    if (sessionId === undefined || tokens === undefined) {
      throw new SessionStoreUnavailable(undefined, {
        cause: new Error(
          'The reply was sent before sessions.start() had finished, so no session was stored. Await sessions.start() before you send the reply. Fastify sends one by itself after "handlerTimeout".'
        )
      })
    }
    return { sessionId, ...tokens }
  }

  async stop (request: FastifyRequest, reply: FastifyReply): Promise<boolean> {
    const { service, logoutStateOf } = this.#require('stop')
    checkExchange('stop', request, reply)
    preventStoring(reply)
    const state = logoutStateOf(request)
    refuseOtherOrigins(state)
    const ended = await stopSession(service, state, reply)
    return !(ended instanceof Refusal) && ended.length > 0
  }

  async list (userId: UserId): Promise<Array<ListedSession>> {
    const { service, userIdClaim } = this.#require('list')
    checkUserId(userId, 'list')
    const sessions: StoredSession[] = []
    for (const id of idsOf(userId, userIdClaim)) sessions.push(...await service.list(id))
    return sessions.sort((one, other) => other.usedAt - one.usedAt).map(({ sid, createdAt, usedAt, endsAt, data }) => ({
      id: sid, createdAt: new Date(createdAt), usedAt: new Date(usedAt), expiresAt: new Date(endsAt), data: JSON.parse(data)
    }))
  }

  async end (userId: UserId, sessionId: string): Promise<boolean> {
    const { service, userIdClaim } = this.#require('end')
    checkUserId(userId, 'end')
    if (!isSessionId(sessionId)) return false
    const ended: string[] = []
    for (const id of idsOf(userId, userIdClaim)) ended.push(...await service.end(id, { sid: sessionId }, 'host'))
    return ended.length > 0
  }

  async endAll (userId: UserId, options: { except?: string | null | undefined } = {}): Promise<number> {
    const { service, userIdClaim } = this.#require('endAll')
    checkUserId(userId, 'endAll')
    const { except } = readRecord(optionsOf('sessions.endAll()'), options, endAllShape)
    const ended: string[] = []
    for (const id of idsOf(userId, userIdClaim)) ended.push(...await service.end(id, { except }, 'host'))
    return ended.length
  }
}
