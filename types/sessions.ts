import type { FastifyRequest } from 'fastify'
import type { GivenUser, MaybePromise, UserId } from './handlers.ts'
import type { KeyMaterial } from './keys.ts'
import type { AnyReply, AnyRequest } from './requests.ts'

/** The option `sessions`. All times are in seconds. */
export interface SessionsOptions<User extends object = Record<string, unknown>, Data extends object = Record<string, unknown>> {
  /** Where sessions are stored. Default: {@link memorySessions}. */
  store?: SessionStore | undefined
  /**
   * Key material of at least 32 bytes that authenticates refresh tokens: text, bytes, a secret `KeyObject` or a file. Of a
   * list, the first one signs, and all verify. Default: derived from the key that signs access tokens.
   */
  secret?: KeyMaterial | readonly KeyMaterial[] | undefined
  /**
   * For how many seconds after a rotation copies of the request get the same token. 0 to 300, and at most half of
   * `expirationDelta`; below 10, it may be too short for a retry of the client and the time limit of the store. Default: 30,
   * or half of `expirationDelta` if that is less. With 0, each refresh token can be used once (RFC 9700 section 4.14.2), and a
   * response that is lost ends the session.
   */
  grace?: number | undefined
  /** After how many seconds without a refresh a session expires; at least `expirationDelta`. Default: 15 days. */
  idle?: number | undefined
  /** The maximum number of sessions of a user; a further login ends those that would expire first. 1 to 1000. Default: 100. */
  maxPerUser?: number | undefined
  /** How often, in seconds, each process reads which sessions have ended. 1 to 60. Default: 2. */
  poll?: number | undefined
  /**
   * Guards respond with 503 if the ended sessions could not be read for this many seconds. At least twice `poll`. With null,
   * they accept access tokens of sessions that have ended meanwhile until the tokens expire. Default: null.
   */
  refuseAfter?: number | null | undefined
  /**
   * After how many seconds a session expires, however often it is refreshed; at least `expirationDelta`. Or a function
   * (request, user), which is called at login. Default: 30 days.
   */
  lifetime?: number | ((request: FastifyRequest, user: User) => number) | undefined
  /**
   * A function (request, user), which is called at login. Returns data to store with the session: an object of at most 1,024
   * bytes as JSON. Default: `{}`.
   */
  data? (request: FastifyRequest, user: User): MaybePromise<Data>
  /**
   * A function (request, user), which is called at login, also by `sessions.start`. Returns what the login says for its whole
   * session, or nothing. Default: persistent cookies, and no claims.
   */
  login? (request: FastifyRequest, user: User): MaybePromise<LoginFacts | undefined>
}

/** What a login says for its whole session. Refresh tokens contain it, authenticated, so that no store needs it. */
export interface LoginFacts {
  /**
   * Whether cookies outlive the browser, for `cookieMaxAge` seconds. With false, they have no `Max-Age`: "remember me" was not
   * ticked. The session itself lives by `lifetime` and `idle`. Default: true.
   */
  persistent?: boolean | undefined
  /**
   * Claims of every access token of the session, such as `amr`, `acr`, `act` (RFC 8693 section 4.1) or a tenant. An object of at
   * most 512 bytes as JSON. No claim of the plugin, and no custom claim. `retrieveUser`, custom claims and `extendPayload` see
   * them in the payload. Default: none.
   */
  claims?: Record<string, unknown> | undefined
}

/** Options of {@link Sessions.start}. Members of {@link LoginFacts} win over those that `sessions.login` returns. */
export interface StartOptions extends LoginFacts {
  /** When the user entered credentials, in seconds since 1970. Default: now. */
  authTime?: number | undefined
}

/** The option `sessions` of a registration with `authMode: false`, which only refuses the access tokens of ended sessions. All times are in seconds. */
export interface SessionFeedOptions extends Pick<SessionsOptions, 'poll' | 'refuseAfter'> {
  /** Where to read which sessions have ended. A database connection with read-only access is sufficient. */
  store: SessionFeed
}

/** A new session, as returned by `start`. */
export interface StartedSession {
  /** The id of the session, as in the claim `sid`. */
  sessionId: string
  /** The access token. */
  accessToken: string
  /** The refresh token. */
  refreshToken: string
}

/** An active session of a user, as returned by `list`. */
export interface ListedSession<Data extends object = Record<string, unknown>> {
  /** The id of the session. */
  id: string
  /** The time of the login. */
  createdAt: Date
  /** The time of the last rotation of the refresh token, or of the login. */
  usedAt: Date
  /** When the session expires, however often it is refreshed. It expires earlier if it is not refreshed for `idle` seconds. */
  expiresAt: Date
  /** What the option `data` returned at login. */
  data: Data
}

/**
 * Sessions of an instance: `fastify.tokenAuth.sessions`. Without the option `sessions`, every method throws
 * {@link InvalidConfiguration}. A user id that is the text of a safe integer, such as a path parameter, matches both the text
 * and the number.
 */
export interface Sessions<
  User extends object = Record<string, unknown>, Data extends object = Record<string, unknown>, Id extends UserId = UserId
> {
  /**
   * Starts a session, for login routes of the application, such as the callback of an OAuth provider. In cookie mode, this
   * method sets the cookies on the reply, and ends the session of the refresh cookie that was sent with the request.
   * @throws {@link InvalidUserObject} if the user has no user id, or a user id of more than 512 bytes
   * @throws {@link InvalidConfiguration} for wrong options, or `claims` whose names are taken
   * @throws {@link SessionStoreUnavailable} if the store fails; no session is started
   */
  start (request: AnyRequest, reply: AnyReply, user: GivenUser<User>, options?: StartOptions): Promise<StartedSession>
  /**
   * Ends the session of a request, for logout routes of the application: what the logout endpoint would end. That is the session
   * of the refresh token in its cookie or in the body, and in cookie mode also that of a valid access token; without a refresh
   * token, that of the access token. In cookie mode, this method clears the cookies on the reply. The route needs no guard.
   * @returns whether a session ended; false if there was none, or if it had ended
   * @throws {@link CrossOriginRequest} for a page of another origin, in cookie mode
   * @throws {@link SessionStoreUnavailable} if the store fails; the cookies are cleared, and the session ends for this process
   */
  stop (request: AnyRequest, reply: AnyReply): Promise<boolean>
  /**
   * Returns the active sessions of a user, the most recently used one first.
   * @param userId such as that of a guarded request. For null, which a request without a token has, it rejects
   * @throws {@link SessionStoreUnavailable}
   */
  list (userId: Id | null): Promise<Array<ListedSession<Data>>>
  /**
   * Ends a session of a user. For the user id null, it rejects. This process refuses its access tokens at once, other processes within `poll` seconds.
   * @returns whether the user had this session
   * @throws {@link SessionStoreUnavailable}
   */
  end (userId: Id | null, sessionId: string): Promise<boolean>
  /**
   * Ends all sessions of a user. For the user id null, it rejects.
   * @param options `except`: the id of a session that does not end
   * @returns the number of sessions that ended
   * @throws {@link SessionStoreUnavailable}
   */
  endAll (userId: Id | null, options?: { except?: string | null | undefined }): Promise<number>
}

/** The rules of a registration, passed to every method of a store. All times are in whole milliseconds. */
export interface SessionRules {
  /**
   * The window: how long after a rotation, a late exchange or a confirmation copies of a request are answered. 0: each
   * generation can be exchanged once. Registrations with other windows may share a store: store when a window began, and
   * compare with `graceMs` of the current call.
   */
  graceMs: number
  /** How long after its creation or its last use a session expires, by the rules of that call. {@link Advance} says what is a use. */
  idleMs: number
  /** How long `endedSince` must return the id of an ended session. */
  keepMs: number
  /** The maximum number of sessions of a user. */
  maxPerUser: number
}

/** A session to create. */
export interface NewSession {
  /** The id of the session: 22 characters of base64url, unique. */
  sid: string
  /**
   * The user as JSON text: the user id, such as `42` or `"ada"`; or an array of user id, issuer and audience if the registration has
   * `claimIss` or `claimAud`, and also of `userId` if that is not "user_id". Compare it byte by byte: 42 and "42" are two users,
   * and so are texts that differ in case, in spaces at the end, or in the form of an accent.
   */
  user: string
  /** How long after its creation the session expires, however often it is used, in milliseconds. */
  lifetimeMs: number
  /** Data to store with the session, as JSON text. */
  data: string
}

/** An active session in the store. All times are in whole milliseconds since 1970, by the clock of the store. */
export interface StoredSession {
  /** The id of the session. */
  sid: string
  /** When it was created. */
  createdAt: number
  /** When it was last used, or `createdAt`. {@link Advance} says what is a use. */
  usedAt: number
  /** `createdAt` + `lifetimeMs`. */
  endsAt: number
  /** As passed to `create`. */
  data: string
}

/**
 * The result of presenting a generation, the counter in a refresh token. A *family* consists of all generations that were issued for
 * one presented generation, its *parent*: normally one, and one more for each late exchange. It is *confirmed* when a member
 * was received. A generation is a whole number of up to 48 bits, above those of an integer of 32 bits.
 *
 * - `rotated`: the generation was a member of the latest family, before the first rotation or after the window. `n` is one above
 *   the highest generation that was issued, the only member of a new family, which is not confirmed. All other members are
 *   retired. It is a use, and begins the window.
 * - `repeated`: within the window, it was a member, or the parent of a family of one member that is not confirmed. `n` is that
 *   member. It is no use. If it was one of several members of a family that is not confirmed, it confirms the family, which
 *   restarts the window; otherwise, nothing changes.
 * - `reissued`: it was the parent, and `n` is a further member of the family. Of concurrent calls, each gets another one. It is a
 *   use. A family that is not confirmed answers so after the window, and if it has several members also within it; each time, the
 *   window restarts. A confirmed one answers so only within its window, which does not restart.
 * - `recovered`: it was ahead of the store, which must have lost writes. `n` is the presented generation plus 1. The rest is as for
 *   `rotated`.
 * - `reused`: it was retired, so two clients have refresh tokens of this session: a member that another one has retired, the parent
 *   of a confirmed family after its window, or a generation from before, also within the window. The session ends, and is in the
 *   feed, in the same step. `n` is its last generation. Of concurrent calls, one gets this outcome, and the others `unknown`.
 * - `unknown`: the user has no active session with this id. `n` is 0, and nothing changes.
 *
 * With `graceMs: 0`, there is no window: a generation rotates once, and presented again it is `reused`, also at the same time.
 */
export type Advance = { outcome: 'rotated' | 'recovered' | 'repeated' | 'reissued' | 'reused' | 'unknown', n: number }

/** A generation whose successor was received: an access token that was issued for it was accepted. */
export interface ReceivedGeneration {
  /** The id of the session. */
  sid: string
  /** The user of the session, as in {@link NewSession}. */
  user: string
  /** The generation that was presented when the access token was issued. */
  n: number
}

/** Whether a process knows which sessions have ended, as returned by `fastify.tokenAuth.storeStatus`. */
export interface StoreStatus {
  /**
   * `starting`: the ended sessions were not read yet; `fresh`: the last read succeeded, or the instance has no sessions; `stale`: it
   * failed, or it was incomplete.
   */
  state: 'fresh' | 'stale' | 'starting'
  /** When this state began. */
  since: Date
  /** The message of the last error since the last good read, such as that of the database client; null for none. Not for clients. */
  error: string | null
}

/** The part of a {@link SessionStore} that a registration with `authMode: false` uses. */
export interface SessionFeed {
  /**
   * Returns the sessions that have ended: without a cursor, at least those that ended within `keepMs`; with a cursor, at least
   * those of them that became visible since the call that returned it. Ids may be returned repeatedly. Sessions that expired need not
   * be returned.
   * @param cursor the cursor returned by an earlier call, of any process; null for all
   * @returns `ended`: the ids. `cursor`: only the store interprets it. `staleFor`: if a part of the store, such as one node of
   * a cluster, could not be read, how many milliseconds ago it was read for the passed cursor; `Infinity` for never; for a
   * replica, how far it is behind. Default: 0. `reason`: the cause of `staleFor`, for the log; null if no warning is needed,
   * as for a replica that follows. Default: a part could not be read
   */
  endedSince(
    cursor: string | null,
    rules: SessionRules
  ): Promise<{ ended: string[]; cursor: string; staleFor?: number | undefined; reason?: string | null | undefined }>
  /**
   * As in {@link SessionStore}. Without it, access tokens that this registration accepts do not confirm generations: a
   * replaced refresh token can be exchanged until the session is refreshed again.
   */
  confirm? (received: readonly ReceivedGeneration[], rules: SessionRules): Promise<void>
}

/**
 * A store of sessions. To test an implementation, use `sessionStoreTests` of `fastify-token-auth/testing`.
 *
 * Each method is atomic. It compares times by the clock of the store only, because the clocks of several processes differ.
 * While the store cannot be reached, each method rejects; it must not resolve with `unknown` or an empty list. A call that
 * was rejected must not be executed later, for example from a queue of the database client. The response to a request whose
 * call rejects, or takes more than 5 seconds, is 503 {@link SessionStoreUnavailable}.
 */
export interface SessionStore extends SessionFeed {
  /**
   * Creates a session with the counter 0. If the user then has more than `maxPerUser` active sessions, those that would expire
   * first end, but never the new one. Of sessions that are created at the same time, none is lost.
   * @returns the ids of the sessions that ended
   */
  create (session: NewSession, rules: SessionRules): Promise<string[]>
  /**
   * Exchanges the generation of a refresh token for that of the next one. Of any number of concurrent calls with the same
   * generation, one rotates, and the others are `repeated`. {@link Advance} lists the results. A rotation is a use: the session
   * expires `idleMs` later, but not after its `lifetimeMs`. A session that another call ends at the same time has ended.
   * @param n the generation in the refresh token of the request
   */
  advance (user: string, sid: string, n: number, rules: SessionRules): Promise<Advance>
  /**
   * Ends one active session of a user, or all except one; all, if that one is not of this user. `endedSince` must return a session
   * no later than it stops working. Expired sessions do not end.
   * @returns the ids of the sessions that this call ended: of concurrent calls, one returns the id of a session
   */
  end (user: string, which: { sid: string } | { except: string | null }, rules: SessionRules): Promise<string[]>
  /** Returns the active sessions of a user, in any order. */
  list (user: string, rules: SessionRules): Promise<StoredSession[]>
  /**
   * Confirms the families whose parents these generations are, and restarts their windows. Ignores all other generations: of
   * confirmed families, older and later ones, and those of sessions that are unknown, have ended, or belong to another user.
   * It is not a use of a session. Several processes may call it with the same generations. A generation is passed again until
   * a call has resolved, and not after that, so the method waits for sessions that another call has locked, however often they
   * are advanced. A confirmation retires no member; a further one restarts nothing. The list may be empty.
   * @param received at most 1,000
   */
  confirm (received: readonly ReceivedGeneration[], rules: SessionRules): Promise<void>
}

/** A pool or client of pg, `fastify.pg` of @fastify/postgres, or the result of postgres.js or `neon()`, for {@link postgresSessions}. */
export type PostgresLike =
  { query (sql: string, values: unknown[]): PromiseLike<unknown[] | { rows: unknown[] }> } |
  { unsafe (sql: string, values: never[]): PromiseLike<unknown[]> }

/** A client of ioredis or iovalkey, or a cluster of one, as {@link redisSessions} takes it. */
export interface IoredisLike {
  readonly status: string
  readonly isCluster?: boolean
  duplicate? (options?: object): OwnIoredis
  evalsha (sha: string, keys: number, ...keysAndValues: string[]): PromiseLike<unknown>
  eval (script: string, keys: number, ...keysAndValues: string[]): PromiseLike<unknown>
}

/** A connection that {@link redisSessions} opens after a failover, by `duplicate()`. */
export interface OwnIoredis extends IoredisLike {
  readonly stream?: { unref? (): unknown }
  on (event: 'connect' | 'ready' | 'end' | 'error', listener: () => void): unknown
  connect (): Promise<unknown>
  disconnect (): void
}

/** A connection that {@link redisSessions} opens after a failover, by `duplicate()`. */
export interface OwnNodeRedis extends NodeRedisLike {
  on (event: 'error', listener: () => void): unknown
  connect (): Promise<unknown>
  destroy (): void
}

/** A client of node-redis (the package redis), or a cluster of it, as {@link redisSessions} takes it. */
export interface NodeRedisLike {
  readonly isOpen?: boolean
  readonly isReady?: boolean
  readonly slots?: ReadonlyArray<{ readonly master: { readonly client?: { readonly isReady: boolean } | undefined } } | undefined>
  readonly options?: { readonly socket?: object | undefined } | undefined
  duplicate? (options?: object): OwnNodeRedis
  unref? (): void
  withCommandOptions? (options: { timeout: number }): Pick<NodeRedisLike, 'evalSha' | 'eval'>
  evalSha (sha: string, options: { keys: string[], arguments: string[] }): PromiseLike<unknown>
  eval (script: string, options: { keys: string[], arguments: string[] }): PromiseLike<unknown>
}

/** The options of {@link redisSessions}. */
export interface RedisSessionsOptions {
  /** The beginning of all keys. Each user base needs its own. Default: `token-auth`. */
  prefix?: string | undefined
}

/** The options of {@link postgresSessions}. */
export interface PostgresSessionsOptions {
  /** The name of the table, optionally with its schema: `auth.sessions`. Each user base needs its own. Default: `token_auth_sessions`. */
  table?: string | undefined
  /**
   * Whether row security may be active on the table for this role. Its policies must let the role read and change every row: a
   * session that they hide is accepted after it has ended. With false, ended sessions cannot be read while it is active. Default: false.
   */
  allowRowSecurity?: boolean | undefined
  /**
   * Whether to write a heartbeat, one row of the table, with each poll, for services that read from replicas (standbys). Set
   * it in the services that issue tokens. Default: false.
   */
  replicas?: boolean | undefined
}

/** The session of an event. */
export interface SessionSubject {
  /** The name of the instance. */
  instanceName: string
  /** The request that caused the event, if any. It contains tokens: do not log it as a whole. */
  request?: FastifyRequest | undefined
  /** The user id. */
  userId: UserId
  /** The id of the session. */
  sessionId: string
}

/**
 * What happened to a session:
 *
 * - `started`: a user logged in.
 * - `refreshed`: the refresh token was rotated. If `recovered` is true, the store has lost writes. If `reissued` is true, a
 *   token that was replaced before was exchanged again: its client did not receive an earlier response.
 * - `repeated`: the current refresh token was sent again, in exchange for itself (`behind` is 0) or its predecessor (1).
 * - `reused`: a retired refresh token was used, and the session ended: two holders of the session have acted. `behind` is the
 *   number of generations that were issued since.
 * - `ended`: by `POST /logout` (`logout`), by `DELETE /sessions` or `DELETE /sessions/:id` (`user`), by `end` or `endAll`
 *   (`host`), by `maxPerUser` (`limit`), by another login of the same browser (`replaced`), or because `retrieveUser` returned
 *   no user (`no-user`). Not published after `reused`.
 */
export type SessionChange =
  | { type: 'started' }
  | { type: 'refreshed', recovered: boolean, reissued: boolean }
  | { type: 'repeated', behind: 0 | 1 }
  | { type: 'reused', behind: number }
  | { type: 'ended', reason: 'logout' | 'host' | 'user' | 'limit' | 'replaced' | 'no-user' }

/** Whether this process knows which sessions have ended: `stale` if they could not be read, `fresh` when they can be read again. */
export interface SessionFeedChange {
  /** The name of the instance. */
  instanceName: string
  type: 'stale' | 'fresh'
}

/** A message on the channel `fastify-token-auth:session` of `node:diagnostics_channel`. It never contains a token, except in `request`. */
export type SessionEvent = (SessionSubject & SessionChange) | SessionFeedChange
