/** The sessions of one registration, for its endpoints and for `fastify.tokenAuth.sessions`. */
import type { FastifyRequest } from 'fastify'
import type { UserId } from '../../types/handlers.ts'
import type { Advance, LoginFacts, NewSession, SessionChange, SessionStore, StoredSession } from '../../types/sessions.ts'
import { SessionStoreUnavailable } from '../errors.ts'
import { publishSession } from '../events.ts'
import { callHost, wrongResult } from '../host/call.ts'
import { isPlainObject, isWhole, maximumSeconds } from '../values.ts'
import type { Settings } from '../settings/schema.ts'
import { noFacts, readFacts } from './login-facts.ts'
import type { RefreshToken, RefreshTokenCodec } from './refresh-token.ts'
import { BoundedMap } from '../bounded-map.ts'
import { pairOf, type EndedSessions } from './revocation.ts'
import type { SessionSettings } from './settings.ts'
import { callStore } from './store-call.ts'
import { canHaveSessions, storedUser } from './user.ts'

/** The maximum size of the result of `sessions.data` as JSON, in bytes. */
const maximumData = 1024

/** The reason why a session ended, in events. */
export type EndReason = Extract<SessionChange, { type: 'ended' }>['reason']

/**
 * Reasons for which an authentic token of the user identifies the session. This process then refuses its access tokens, even if
 * the store does not know the session, or it had ended before. For the other reasons, a caller can pass the id of any session.
 */
const ofToken: ReadonlySet<EndReason> = new Set<EndReason>(['logout', 'replaced', 'no-user'])

/** The outcomes for which a client gets a new refresh token. */
const rotations: ReadonlySet<Advance['outcome']> = new Set<Advance['outcome']>(['rotated', 'recovered', 'reissued'])

/** How long a session is remembered that the store does not know, in milliseconds, and the maximum number of such sessions. */
const unknownTime = 5000
const knownUnknown = 10_000

/** A session that is not stored yet, with its first refresh token. */
export interface Draft {
  readonly sid: string
  readonly userId: UserId
  readonly refreshToken: string
  readonly session: NewSession
}

export interface ServiceParts {
  readonly settings: Settings
  readonly sessions: SessionSettings
  readonly store: SessionStore
  readonly codec: RefreshTokenCodec
  readonly ended: EndedSessions
}

export class SessionService {
  readonly ended: EndedSessions
  readonly #settings: Settings
  readonly #sessions: SessionSettings
  readonly #store: SessionStore
  readonly #codec: RefreshTokenCodec
  /** Sessions that the store did not know: their user, and the time of the call, in milliseconds of `performance.now()`. */
  readonly #unknown = new BoundedMap<string, { readonly user: string, readonly at: number }>(knownUnknown / 2)

  constructor ({ settings, sessions, store, codec, ended }: ServiceParts) {
    this.ended = ended
    this.#settings = settings
    this.#sessions = sessions
    this.#store = store
    this.#codec = codec
  }

  /** Publishes an event. */
  publish (userId: UserId, sessionId: string, change: SessionChange, request?: FastifyRequest): void {
    publishSession({ instanceName: this.#settings.instanceName, ...(request !== undefined && { request }), userId, sessionId, ...change })
  }

  /** Calls the function `sessions.login`. @throws {HandlerFailed} {InvalidConfiguration} */
  async login (request: FastifyRequest, user: object): Promise<LoginFacts> {
    const { login } = this.#sessions
    return login === undefined ? noFacts : readFacts(await callHost('sessions.login', () => login(request, user)))
  }

  /** Prepares a session. The functions of the application that can fail are called here, before anything is stored. @param first its first refresh token */
  async draft (first: RefreshToken, request: FastifyRequest, user: object): Promise<Draft> {
    const { sid, userId } = first
    const { lifetime, data } = this.#sessions
    const seconds: unknown = typeof lifetime === 'function' ? await callHost('sessions.lifetime', () => lifetime(request, user)) : lifetime
    const { expirationDelta } = this.#settings
    if (!isWhole(seconds, expirationDelta, maximumSeconds)) {
      throw wrongResult(
        'sessions.lifetime',
        `a whole number of seconds from "expirationDelta", which is ${expirationDelta}, to ${maximumSeconds}`,
        seconds
      )
    }
    const session = {
      sid,
      user: storedUser(userId, this.#settings),
      lifetimeMs: seconds * 1000,
      data: data === undefined ? '{}' : await this.#dataOf(data, request, user)
    }
    return { sid, userId, session, refreshToken: this.write(first) }
  }

  async #dataOf (data: NonNullable<SessionSettings['data']>, request: FastifyRequest, user: object): Promise<string> {
    const shown: unknown = await callHost('sessions.data', () => data(request, user))
    if (!isPlainObject(shown)) throw wrongResult('sessions.data', 'a plain object', shown)
    const text: unknown = await callHost('sessions.data', () => JSON.stringify(shown))
    // A method toJSON() can return any value.
    if (typeof text !== 'string' || !text.startsWith('{')) throw wrongResult('sessions.data', 'an object whose JSON is an object', shown)
    if (Buffer.byteLength(text) > maximumData) {
      throw wrongResult('sessions.data', `an object of at most ${maximumData} bytes as JSON`, shown)
    }
    return text
  }

  /** Stores a session. @throws {SessionStoreUnavailable} */
  async create ({ sid, userId, session }: Draft, request: FastifyRequest): Promise<void> {
    const over = await callStore('create', () => this.#store.create(session, this.#sessions.rules))
    this.ended.add(over)
    this.publish(userId, sid, { type: 'started' }, request)
    for (const other of over) this.publish(userId, other, { type: 'ended', reason: 'limit' }, request)
  }

  /** Reads a refresh token. Forged ones never reach the store. */
  read (text: string): RefreshToken | undefined {
    return this.#codec.read(text)
  }

  /** Whether this process knows that the session of a refresh token has ended. */
  hasEnded ({ sid, userId }: Pick<RefreshToken, 'sid' | 'userId'>): boolean {
    return this.ended.has(sid) || this.ended.hasOf(sid, () => storedUser(userId, this.#settings))
  }

  /**
   * Whether the store did not know the session of a refresh token within the last 5 seconds. A client that sends it again
   * and again must not cause a call of a handler and a signature each time.
   */
  isUnknown ({ sid, userId }: RefreshToken): boolean {
    const unknown = this.#unknown.get(sid)
    return unknown !== undefined && performance.now() - unknown.at < unknownTime && unknown.user === storedUser(userId, this.#settings)
  }

  /** Advances the counter of a session, and publishes the result. @throws {SessionStoreUnavailable} */
  async advance ({ sid, n, userId }: RefreshToken, request: FastifyRequest): Promise<Advance> {
    const user = storedUser(userId, this.#settings)
    const advance = await callStore('advance', () => this.#store.advance(user, sid, n, this.#sessions.rules))
    const { outcome } = advance
    if (outcome === 'unknown') this.#unknown.set(sid, { user, at: performance.now() })
    if (rotations.has(outcome) && outcome !== 'reissued') this.ended.rotations.note(sid, advance.n)
    // The session ended in this process during the call: the response must not set the cookies of an ended session.
    if (outcome !== 'reused' && this.hasEnded({ sid, userId })) return { outcome: 'unknown', n: 0 }
    const behind = advance.n - n
    if (rotations.has(outcome)) {
      this.publish(userId, sid, { type: 'refreshed', recovered: outcome === 'recovered', reissued: outcome === 'reissued' }, request)
    }
    if (outcome === 'repeated') this.publish(userId, sid, { type: 'repeated', behind: behind > 0 ? 1 : 0 }, request)
    if (outcome === 'recovered') {
      request.log.warn({ sessionId: sid }, 'The session store has lost writes: a refresh token has a later counter than its session.')
    }
    if (outcome === 'reused') {
      this.ended.add([sid])
      this.publish(userId, sid, { type: 'reused', behind }, request)
      request.log.warn({ sessionId: sid, behind }, 'A retired refresh token was used, and its session has ended.')
    }
    return advance
  }

  /** Returns the generation for the access token of a refresh; undefined with `grace: 0`, which needs no confirmations. */
  generationOf ({ n }: RefreshToken): number | undefined {
    return this.#sessions.rules.graceMs === 0 ? undefined : n
  }

  /** Creates a refresh token. */
  write (token: RefreshToken): string {
    return this.#codec.write(token)
  }

  /** Refuses the access tokens of a user's session from now on, regardless of the store. */
  refuse (userId: UserId, sid: string): void {
    if (canHaveSessions(userId)) this.ended.addOf(sid, storedUser(userId, this.#settings))
  }

  /**
   * Ends one session of a user, or all except one. If the store is unavailable, a session that its token identifies ends later.
   * @returns the ids of the sessions that ended
   * @throws {SessionStoreUnavailable}
   */
  async end (
    userId: UserId,
    which: { sid: string } | { except: string | null },
    reason: EndReason,
    request?: FastifyRequest
  ): Promise<string[]> {
    if (!canHaveSessions(userId)) return []
    // Without a prototype: `Object.prototype` may be polluted.
    const { sid }: { sid?: string } = Object.assign(Object.create(null), which)
    if (sid === undefined || !ofToken.has(reason)) return await this.#end(userId, which, reason, request)
    try {
      const ended = await this.#end(userId, which, reason, request)
      this.refuse(userId, sid)
      return ended
    } catch (error) {
      if (error instanceof SessionStoreUnavailable) {
        this.refuse(userId, sid)
        const key = pairOf(sid, storedUser(userId, this.#settings))
        const isWaiting = this.ended.endings.add(key, async () => await this.#end(userId, which, reason))
        if (!isWaiting) {
          request?.log.error({ sessionId: sid }, 'Too many ended sessions wait for the session store. This one has ended for this process only.')
        }
      }
      throw error
    }
  }

  async #end (
    userId: UserId,
    which: { sid: string } | { except: string | null },
    reason: EndReason,
    request?: FastifyRequest
  ): Promise<string[]> {
    const ended = await callStore('end', () => this.#store.end(storedUser(userId, this.#settings), which, this.#sessions.rules))
    this.ended.add(ended)
    for (const sid of ended) this.publish(userId, sid, { type: 'ended', reason }, request)
    return ended
  }

  /** Lists the active sessions of a user, the most recently used one first. @throws {SessionStoreUnavailable} */
  async list (userId: UserId): Promise<StoredSession[]> {
    if (!canHaveSessions(userId)) return []
    const user = storedUser(userId, this.#settings)
    const sessions = await callStore('list', () => this.#store.list(user, this.#sessions.rules))
    // A copy, because the array belongs to the store.
    return [...sessions].sort((one, other) => other.usedAt - one.usedAt)
  }
}
