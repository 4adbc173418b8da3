import type { FastifyReply, FastifyRequest } from 'fastify'
import type { GivenUser, MaybePromise, UserId } from './handlers.ts'
import type { KeyMaterial } from './keys.ts'

/** The option `sessions`. Without it, there are no sessions. All times are in seconds. */
export interface SessionsOptions<User extends object = Record<string, unknown>, Data extends object = Record<string, unknown>> {
  /** Where sessions are kept. Default: {@link memorySessions}, which one process alone can use and which forgets all sessions when it ends. */
  store?: SessionStore | undefined
  /**
   * Key material of at least 32 bytes that authenticates refresh tokens, as text, bytes, a secret `KeyObject` or a file, or
   * a list of them: the first signs, all verify. Default: derived from the key that signs access tokens. With a secret of
   * its own, that key can change without a logout. Required beside `keys`.
   */
  secret?: KeyMaterial | readonly KeyMaterial[] | undefined
  /**
   * For how many seconds after a rotation the refresh token that it replaced is still answered, with the current one. 0 to
   * 300, at most half of `expirationDelta`. Default: 30, or half of `expirationDelta` where that is less. 0: every refresh
   * token can be used once (RFC 9700 section 4.14.2); a lost answer is then a logout.
   */
  grace?: number | undefined
  /** After how many seconds without a refresh a session expires: `expirationDelta` to 100 years. Default: 15 days. */
  idle?: number | undefined
  /** The most sessions that a user has; a login beyond it ends those that would expire first. 1 to 1000. Default: 100. */
  maxPerUser?: number | undefined
  /** How many seconds lie between two readings of the ended sessions, so that their access tokens are refused everywhere. 1 to 60. Default: 2. */
  poll?: number | undefined
  /**
   * After how many seconds without a successful reading of the ended sessions guards answer 503: at least twice `poll`.
   * Default: null, never; the expiry of access tokens then limits how long an ended session is of use.
   */
  refuseAfter?: number | null | undefined
  /**
   * After how many seconds a session expires, however often it is refreshed: `expirationDelta` to 100 years. A function
   * computes it at login ("remember me"). Default: 30 days.
   */
  lifetime?: number | ((request: FastifyRequest, user: User) => number) | undefined
  /**
   * Computes at login what is kept with a session and shown in the list of the user's sessions, such as the device. The
   * user can read it. An object of at most 1,024 bytes as JSON. Default: `{}`.
   */
  data? (request: FastifyRequest, user: User): MaybePromise<Data>
}

/** The option `sessions` of a registration with `authMode: false`, which only refuses access tokens of ended sessions. All times are in seconds. */
export interface SessionFeedOptions extends Pick<SessionsOptions, 'poll' | 'refuseAfter'> {
  /** Where the ended sessions are read; rights to read are enough. */
  store: SessionFeed
}

/** What `start` gives: the tokens of a new session. */
export interface StartedSession {
  /** The id of the session, as in the claim `sid`. */
  sessionId: string
  accessToken: string
  refreshToken: string
}

/** An active session of a user, as `list` gives it. */
export interface ListedSession<Data extends object = Record<string, unknown>> {
  /** The id of the session. */
  id: string
  /** The time of the login. */
  createdAt: Date
  /** The time of the last rotation of the refresh token, or of the login. */
  usedAt: Date
  /** When the session expires, however often it is refreshed. It expires earlier if it is idle. */
  expiresAt: Date
  /** What the option `data` computed at login. */
  data: Data
}

/**
 * Sessions of an instance: `fastify.tokenAuth.sessions`. Without the option `sessions`, every method throws
 * {@link InvalidConfiguration}.
 */
export interface Sessions<User extends object = Record<string, unknown>, Data extends object = Record<string, unknown>> {
  /**
   * Starts a session, for login routes of your own, such as the callback of an OAuth provider. In cookie mode, it sets the
   * cookies on the reply and ends the session whose refresh cookie came with the request.
   * @param options `authTime`: when the user entered credentials, in seconds since 1970; default: now
   * @throws {@link InvalidUserObject} where the user has no user id, or one of more than 512 bytes
   * @throws {@link CrossOriginRequest} in cookie mode, for a request of another origin
   * @throws {@link SessionStoreUnavailable} where the store fails; no session is started then
   */
  start (request: FastifyRequest, reply: FastifyReply, user: GivenUser<User>, options?: { authTime?: number | undefined }): Promise<StartedSession>
  /**
   * Gives the active sessions of a user, the one that was used last first.
   * @throws {@link SessionStoreUnavailable}
   */
  list (userId: UserId): Promise<Array<ListedSession<Data>>>
  /**
   * Ends a session of a user. Its access tokens are refused by this process at once, and by others after `poll` seconds.
   * @returns whether the user had this session
   * @throws {@link SessionStoreUnavailable}
   */
  end (userId: UserId, sessionId: string): Promise<boolean>
  /**
   * Ends all sessions of a user.
   * @param options `except`: the id of a session that stays
   * @returns how many sessions it ended
   * @throws {@link SessionStoreUnavailable}
   */
  endAll (userId: UserId, options?: { except?: string | null | undefined }): Promise<number>
}

/** The rules of a registration, which every method of a store is given. All times are in whole milliseconds. */
export interface SessionRules {
  /** The window: for how long after a rotation the current counter and its predecessor are repeated instead of rotated. */
  graceMs: number
  /** After how long without a rotation a session expires. */
  idleMs: number
  /** For how long the id of an ended session is fed. */
  keepMs: number
  /** The most sessions of a user. */
  maxPerUser: number
}

/** A session to create. */
export interface NewSession {
  /** The id of the session: 22 characters of base64url. No two sessions have the same. */
  sid: string
  /**
   * Whose session it is, as JSON text: the user id (`42`, `"ada"`: 42 and "42" are two users), or a list of the user id, the
   * issuer and the audience, where the registration has `claimIss` or `claimAud`. Compare it byte by byte.
   */
  user: string
  /** When the session expires, however often it is used: milliseconds from now. */
  lifetimeMs: number
  /** What is kept with the session, as JSON text. */
  data: string
}

/** A session as the store lists it. All times are in milliseconds since 1970, by the clock of the store. */
export interface StoredSession {
  sid: string
  createdAt: number
  /** The time of the last rotation, or `createdAt`. */
  usedAt: number
  /** `createdAt` + `lifetimeMs`. */
  endsAt: number
  /** As given to `create`. */
  data: string
}

/**
 * What became of a counter that was presented:
 *
 * - `rotated`: it was the current one, used for the first time or after the window; `n` is the next one
 * - `repeated`: it was the current one or its predecessor, within the window; `n` is the current one, and nothing changed
 * - `recovered`: it was ahead of the store, which lost writes; `n` is the one after it
 * - `reused`: it was retired, so that two use the same refresh token; the session has ended, `n` was the current one
 * - `unknown`: there is no such session of this user, or no more; `n` is 0
 */
export type Advance = { outcome: 'rotated' | 'recovered' | 'repeated' | 'reused' | 'unknown', n: number }

/** The part of a {@link SessionStore} that a registration with `authMode: false` needs. */
export interface SessionFeed {
  /**
   * Gives the sessions that ended: without a cursor, at least all that ended within `keepMs`; with the cursor of an
   * earlier call, at least all that became visible since. It may give a session again. Sessions that expired need not be
   * given.
   * @param cursor the cursor of an earlier call, of any process; null: everything
   * @returns the ids, and the cursor for the next call, whose text only the store reads
   */
  endedSince (cursor: string | null, rules: SessionRules): Promise<{ ended: string[], cursor: string }>
}

/**
 * Where sessions are kept. Test a store of your own with `sessionStoreTests` of `fastify-token-auth/testing`.
 *
 * Every method is atomic, and compares times by the clock of the store alone, because those of several processes differ. A
 * method rejects when it cannot know, such as while the database is down; it never gives `unknown` or an empty list
 * instead, and never executes later what it has rejected, such as from a queue of the database client. Rejected calls,
 * and calls that take more than 5 seconds, are answered 503 {@link SessionStoreUnavailable}.
 */
export interface SessionStore extends SessionFeed {
  /**
   * Creates a session, with the counter 0. Where the user then has more than `maxPerUser`, those end that would expire first.
   * @returns the ids of the sessions that ended for it
   */
  create (session: NewSession, rules: SessionRules): Promise<string[]>
  /**
   * Exchanges a counter for the one of the next refresh token. Of any number of calls at once with the same counter, one
   * rotates. `reused` ends the session in the same step.
   * @param n the counter in the refresh token that was presented
   */
  advance (user: string, sid: string, n: number, rules: SessionRules): Promise<Advance>
  /**
   * Ends one session of a user, or all but `except`. A session and its place among the ended ones become visible together.
   * @returns the ids of the sessions that it ended, without those that had ended before
   */
  end (user: string, which: { sid: string } | { except: string | null }, rules: SessionRules): Promise<string[]>
  /** Lists the active sessions of a user, in any order. */
  list (user: string, rules: SessionRules): Promise<StoredSession[]>
}

/** Whose session an event is about. */
export interface SessionSubject {
  /** The instance. */
  instanceName: string
  /** The request that caused the event, where there is one. It has the tokens: do not log it as a whole. */
  request?: FastifyRequest | undefined
  userId: UserId
  sessionId: string
}

/**
 * What became of a session:
 *
 * - `started`: a login
 * - `refreshed`: the refresh token was rotated; `recovered`: the store had lost writes
 * - `repeated`: the current refresh token was given again, for itself (`behind` 0) or its predecessor (1)
 * - `reused`: a retired refresh token was used, and the session ended. `behind` says how many rotations ago it was retired:
 *   1 is mostly an answer that its client never got, more is theft
 * - `ended`: `logout`: by `POST /logout`; `user`: by `DELETE`, from the list of sessions; `host`: by `end` or `endAll`;
 *   `limit`: `maxPerUser`; `replaced`: by a login of the same browser; `no-user`: `retrieveUser` gave no user. After
 *   `reused`, there is no `ended`.
 */
export type SessionChange =
  | { type: 'started' }
  | { type: 'refreshed', recovered: boolean }
  | { type: 'repeated', behind: 0 | 1 }
  | { type: 'reused', behind: number }
  | { type: 'ended', reason: 'logout' | 'host' | 'user' | 'limit' | 'replaced' | 'no-user' }

/** `stale`: the ended sessions could not be read; `fresh`: they could be read again. Published once for each change. */
export interface SessionFeedChange {
  /** The instance. */
  instanceName: string
  type: 'stale' | 'fresh'
}

/** What is published on the channel `fastify-token-auth:session` of `node:diagnostics_channel`. It never has a token. */
export type SessionEvent = (SessionSubject & SessionChange) | SessionFeedChange
