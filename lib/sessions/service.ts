/** The sessions of one registration: what its endpoints and its public face call. */
import type { FastifyRequest } from 'fastify'
import type { UserId } from '../../types/handlers.ts'
import type { Advance, NewSession, SessionChange, SessionStore, StoredSession } from '../../types/sessions.ts'
import { SessionStoreUnavailable } from '../errors.ts'
import { publishSession } from '../events.ts'
import { callHost, wrongResult } from '../host/call.ts'
import { isPlainObject, isWhole, maximumSeconds } from '../values.ts'
import type { Settings } from '../settings/schema.ts'
import type { RefreshToken, RefreshTokenCodec } from './refresh-token.ts'
import { Generations } from '../generations.ts'
import { pairOf, type EndedSessions } from './revocation.ts'
import type { SessionSettings } from './settings.ts'
import { callStore } from './store-call.ts'
import { canHaveSessions, storedUser } from './user.ts'

/** In bytes: what `sessions.data` may return as JSON. */
const maximumData = 1024

/** The reason why a session ended, where an event says one. */
export type EndReason = Extract<SessionChange, { type: 'ended' }>['reason']

/**
 * Where the session is that of an authentic token of the user: this process refuses its access tokens from then on, also
 * where the store says that it had ended before, or does not know it. Anybody can give any id for the other reasons.
 */
const ofToken: ReadonlySet<EndReason> = new Set<EndReason>(['logout', 'replaced', 'no-user'])

/** The outcomes with which a client gets a refresh token that is new. */
const rotations: ReadonlySet<Advance['outcome']> = new Set<Advance['outcome']>(['rotated', 'recovered', 'reissued'])

/** In milliseconds: how long it is known that the store does not know a session. And of how many sessions, half of them in each of two parts. */
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
  /** For sessions that the store did not know: of which user, and when, in milliseconds of `performance.now()`. */
  readonly #unknown = new Generations<string, { readonly user: string, readonly at: number }>(knownUnknown / 2)

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

  /** Prepares a session. The functions of the application that can fail are called here, before anything is stored. @param authTime seconds since 1970 */
  async draft (sid: string, request: FastifyRequest, user: object, userId: UserId, authTime: number): Promise<Draft> {
    const { lifetime, data } = this.#sessions
    const seconds: unknown = typeof lifetime === 'function' ? await callHost('sessions.lifetime', () => lifetime(request, user)) : lifetime
    const { expirationDelta } = this.#settings
    if (!isWhole(seconds, expirationDelta, maximumSeconds)) throw wrongResult('sessions.lifetime', `a whole number of seconds from "expirationDelta", which is ${expirationDelta}, to ${maximumSeconds}`, seconds)
    const session = { sid, user: storedUser(userId, this.#settings), lifetimeMs: seconds * 1000, data: data === undefined ? '{}' : await this.#dataOf(data, request, user) }
    return { sid, userId, session, refreshToken: this.#codec.write({ sid, n: 0, authTime, userId }) }
  }

  async #dataOf (data: NonNullable<SessionSettings['data']>, request: FastifyRequest, user: object): Promise<string> {
    const shown: unknown = await callHost('sessions.data', () => data(request, user))
    if (!isPlainObject(shown)) throw wrongResult('sessions.data', 'a plain object', shown)
    const text: unknown = await callHost('sessions.data', () => JSON.stringify(shown))
    // With a method toJSON it can become anything.
    if (typeof text !== 'string' || !text.startsWith('{')) throw wrongResult('sessions.data', 'an object whose JSON is an object', shown)
    if (Buffer.byteLength(text) > maximumData) throw wrongResult('sessions.data', `an object of at most ${maximumData} bytes as JSON`, shown)
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
   * Whether nothing can come of a refresh token: its session has ended, or the store has just said that it does not know it.
   * Whoever sends it again and again must not cost a call of a handler and a signature each time.
   */
  isOver (token: RefreshToken): boolean {
    const { sid, userId } = token
    if (this.hasEnded(token)) return true
    const unknown = this.#unknown.get(sid)
    return unknown !== undefined && performance.now() - unknown.at < unknownTime && unknown.user === storedUser(userId, this.#settings)
  }

  /** Advances the counter of a session, and publishes what became of it. @throws {SessionStoreUnavailable} */
  async advance ({ sid, n, userId }: RefreshToken, request: FastifyRequest): Promise<Advance> {
    const user = storedUser(userId, this.#settings)
    const advance = await callStore('advance', () => this.#store.advance(user, sid, n, this.#sessions.rules))
    const { outcome } = advance
    if (outcome === 'unknown') this.#unknown.set(sid, { user, at: performance.now() })
    if (rotations.has(outcome) && outcome !== 'reissued') this.ended.rotations.note(sid, advance.n)
    // Ended by this process while the store was asked: the response must not set the cookies of an ended session.
    if (outcome !== 'reused' && this.hasEnded({ sid, userId })) return { outcome: 'unknown', n: 0 }
    const behind = advance.n - n
    if (rotations.has(outcome)) this.publish(userId, sid, { type: 'refreshed', recovered: outcome === 'recovered', reissued: outcome === 'reissued' }, request)
    if (outcome === 'repeated') this.publish(userId, sid, { type: 'repeated', behind: behind > 0 ? 1 : 0 }, request)
    if (outcome === 'recovered') request.log.warn({ sessionId: sid }, 'The store of sessions has lost writes: a refresh token was ahead of it.')
    if (outcome === 'reused') {
      this.ended.add([sid])
      this.publish(userId, sid, { type: 'reused', behind }, request)
      request.log.warn({ sessionId: sid, behind }, 'A retired refresh token was used, and its session has ended.')
    }
    return advance
  }

  /** The generation that the access token of a refresh carries; undefined without a window, in which nothing has to be confirmed. */
  generationOf ({ n }: RefreshToken): number | undefined {
    return this.#sessions.rules.graceMs === 0 ? undefined : n
  }

  /** Writes the refresh token for a counter. */
  write (token: RefreshToken): string {
    return this.#codec.write(token)
  }

  /** Refuses the access tokens of a session of a user from now on, whatever the store says of it. */
  refuse (userId: UserId, sid: string): void {
    if (canHaveSessions(userId)) this.ended.addOf(sid, storedUser(userId, this.#settings))
  }

  /**
   * Ends one session of a user, or all but one. One that was ended by its token ends later, where the store is unavailable.
   * @returns the ids of those that ended
   * @throws {SessionStoreUnavailable}
   */
  async end (userId: UserId, which: { sid: string } | { except: string | null }, reason: EndReason, request?: FastifyRequest): Promise<string[]> {
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
        this.ended.endings.add(pairOf(sid, storedUser(userId, this.#settings)), async () => await this.#end(userId, which, reason))
      }
      throw error
    }
  }

  async #end (userId: UserId, which: { sid: string } | { except: string | null }, reason: EndReason, request?: FastifyRequest): Promise<string[]> {
    const ended = await callStore('end', () => this.#store.end(storedUser(userId, this.#settings), which, this.#sessions.rules))
    this.ended.add(ended)
    for (const sid of ended) this.publish(userId, sid, { type: 'ended', reason }, request)
    return ended
  }

  /** Lists the active sessions of a user, the one that was used last first. @throws {SessionStoreUnavailable} */
  async list (userId: UserId): Promise<StoredSession[]> {
    if (!canHaveSessions(userId)) return []
    const user = storedUser(userId, this.#settings)
    const sessions = await callStore('list', () => this.#store.list(user, this.#sessions.rules))
    // A copy: the array is the store's.
    return [...sessions].sort((one, other) => other.usedAt - one.usedAt)
  }
}
