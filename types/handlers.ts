import type { FastifyRequest } from 'fastify'
import type { AnyRequest } from './requests.ts'

/** A value or a promise of it: the result of a function that can be synchronous or asynchronous. */
export type MaybePromise<T> = T | Promise<T>

/** A user id: a non-empty string, a safe integer or a boolean. */
export type UserId = string | number | boolean

/** The claims that this library writes and checks (RFC 7519 section 4.1). Times are in seconds since 1970. */
export interface RegisteredClaims {
  /** Expiration time. */
  exp?: number
  /** Not before. */
  nbf?: number
  /** Issued at. */
  iat?: number
  /** Issuer. */
  iss?: string
  /** Audience. */
  aud?: string | string[]
  /** Subject. With `userId: 'sub'`, the user id as text. */
  sub?: string
}

/** The payload of an access token: registered claims, claims of your own, and any others in the token. */
export type Payload<Claims extends object = Record<string, unknown>> = RegisteredClaims & Claims & { [claim: string]: unknown }

/** A user of a class. `toDict()` or `toJSON()` returns the properties that responses may contain. A plain object is sent as it is. */
export interface SerializableUser {
  /** Returns a plain object. Takes precedence over `toJSON()`. */
  toDict?: () => MaybePromise<object>
  /** Returns a plain object. */
  toJSON?: () => unknown
}

/** Any object, including those of a class or an interface, which have no index signature, but not a promise. */
type AnyObject = Record<string, unknown> | (object & { then?: never })

/** A user that the application passes to the plugin: any object, unless a type is declared in {@link TokenAuthInstances}. */
export type GivenUser<User extends object> = string extends keyof User ? AnyObject : User

/**
 * The handlers that the application provides. They can be synchronous or asynchronous, except `overrideScopeValidator`. An
 * error that a handler throws becomes a response of 500 `HandlerFailed`, unless it is a `TokenAuthError` or has a 4xx
 * `statusCode`.
 */
export interface Handlers<
  User extends object,
  Claims extends object,
  Id extends UserId = UserId,
  Request extends AnyRequest = FastifyRequest
> {
  /**
   * Checks the credentials in a request to the authenticate endpoint. Required with `authMode`, which is the default.
   * @returns the user: a plain object with the user id, or an object with the user id and a `toDict()` or `toJSON()` method
   * @throws {@link AuthenticationFailed} to refuse the login
   */
  authenticate? (request: Request): MaybePromise<GivenUser<User>>
  /** Stores a refresh token of a user. Required with `refreshTokenEnabled`. It may replace a token that was stored before, or keep it. */
  storeRefreshToken? (userId: Id, refreshToken: string, request: Request): MaybePromise<unknown>
  /** Returns the stored refresh token of a user, or nothing. Required with `refreshTokenEnabled`. */
  retrieveRefreshToken? (userId: Id, request: Request): MaybePromise<string | null | undefined>
  /** Returns the user of a valid token, or nothing. For the endpoints `me` and `refresh`, `injectUser` and `request.tokenAuth.user()`. */
  retrieveUser? (request: Request, payload: Payload<Claims>): MaybePromise<GivenUser<User> | null | undefined>
  /**
   * Returns the scopes of a user for a new token, with `scopesEnabled`. A refresh without `retrieveUser` passes `{ <userId>: id }`.
   * @param user of the type that you declare in {@link TokenAuthInstances}
   */
  addScopesToPayload? (user: User): MaybePromise<string | readonly string[]>
  /** Overrides the result of the check of each required scope. Only `true` accepts the scope. Must be synchronous. */
  overrideScopeValidator? (isValid: boolean, required: string, userScopes: readonly string[], requireAllActions: boolean): boolean
  /** Transforms the scopes that a route requires, before they are compared with those of the token. */
  destructureScopes? (scopes: readonly string[]): MaybePromise<readonly string[]>
  /**
   * Accepts or refuses a token that has passed all other checks. Called for every request, also by the refresh endpoint unless
   * the instance has sessions, but not by logout. It must not read `request.tokenAuth`, which waits for its result.
   * @param payload the payload that the request will have
   * @returns `true`, or a promise of it, to accept the token; anything else refuses it with 401 {@link InvalidToken}. To give
   * a reason, throw an {@link InvalidToken}, or another error of this package with the status 401
   */
  trusted? (request: Request, payload: Payload<Claims>): MaybePromise<boolean>
  /** Adds claims to the payload of a new token. Returns the payload, or nothing to leave it unchanged. It must not change the user id. */
  extendPayload? (payload: Payload, user: User): MaybePromise<object | undefined | void>
}

/** A claim of your own: `setup` computes its value for a new token, `verify` checks it for every request. Tokens without it are refused. */
export interface CustomClaim<User extends object = object> {
  /** The name of the claim. */
  readonly key: string
  /** Returns the value of the claim. `payload` is the payload so far. Can be asynchronous. */
  setup (payload: Payload, user: User): unknown
  /** Checks the value in a token. Only `true` accepts it. Must be synchronous. */
  verify (value: unknown): boolean
}

/** A custom claim as an object, or as a class without constructor arguments. */
export type CustomClaimSource<User extends object = object> = CustomClaim<User> | (new () => CustomClaim<User>)

/** Checks the whole payload of a token, after all other checks. Only `true` accepts it. Must be synchronous. */
export type ExtraVerification<Claims extends object = Record<string, unknown>> = (payload: Payload<Claims>) => boolean
