import type { FastifyRequest } from 'fastify'

/** A value, or a promise of it: what a synchronous or an asynchronous function returns. */
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
}

/** The payload of an access token: registered claims, your own, and whatever else the token carries. */
export type Payload<Claims extends object = Record<string, unknown>> = RegisteredClaims & Claims & { [claim: string]: unknown }

/** A user as a mapping can be shown as it is; any other object says what it shows by `toDict()` or `toJSON()`. */
export interface SerializableUser {
  toDict?: () => MaybePromise<object>
  toJSON?: () => unknown
}

/** Any object, those of a class or an interface included, but no promise of something else. */
type AnyObject = Record<string, unknown> | (object & { then?: never })

/** A user as the host gives it: where no type is declared, any object. */
export type GivenUser<User extends object> = string extends keyof User ? AnyObject : User

/** The handlers that the host supplies. Each may be synchronous or asynchronous, except `overrideScopeValidator`. Declared as methods, so that a class can have them. */
export interface Handlers<User extends object, Claims extends object> {
  /**
   * Decides who is a valid user; required while the endpoints are on.
   * @returns the user: a mapping with the user id, or an object with the user id and `toDict()` (or `toJSON()`)
   * @throws {@link AuthenticationFailed} to refuse
   */
  authenticate? (request: FastifyRequest): MaybePromise<GivenUser<User>>
  /** Stores the refresh token of a user; required with `refreshTokenEnabled`. Whatever was stored before is replaced or kept: your choice. */
  storeRefreshToken? (userId: UserId, refreshToken: string, request: FastifyRequest): MaybePromise<unknown>
  /** Gives the stored refresh token of a user, or none; required with `refreshTokenEnabled`. */
  retrieveRefreshToken? (userId: UserId, request: FastifyRequest): MaybePromise<string | null | undefined>
  /** Gives the user of a valid token, or none; feeds the current-user endpoint, `injectUser` and refresh. */
  retrieveUser? (request: FastifyRequest, payload: Payload<Claims>): MaybePromise<GivenUser<User> | null | undefined>
  /** Gives the scopes of a user, with `scopesEnabled`. On refresh without `retrieveUser`, the user is only `{ <userId>: id }`. */
  addScopesToPayload? (user: User): MaybePromise<string | readonly string[]>
  /** Replaces the decision about one required scope. Only `true` passes. Must be synchronous. */
  overrideScopeValidator? (isValid: boolean, required: string, userScopes: readonly string[], requireAllActions: boolean): boolean
  /** Transforms the scopes that a route requires, before they are compared. */
  destructureScopes? (scopes: readonly string[]): MaybePromise<readonly string[]>
  /** Adds claims. Returns the payload; returning nothing keeps the one it was given. */
  extendPayload? (payload: Payload, user: User): MaybePromise<object | undefined | void>
}

/** A claim of your own: written by `setup` when a token is made, checked by `verify` on every request. */
export interface CustomClaim<User extends object = object> {
  /** Name of the claim. */
  readonly key: string
  /** Gives the value of the claim. */
  setup (payload: Payload, user: User): unknown
  /** Says whether the value is acceptable. Only `true` passes. Must be synchronous. */
  verify (value: unknown): boolean
}

/** A custom claim as an object, or as a class without constructor arguments. */
export type CustomClaimSource<User extends object = object> = CustomClaim<User> | (new () => CustomClaim<User>)

/** A check of the whole payload after all others. Only `true` passes. Must be synchronous. */
export type ExtraVerification<Claims extends object = Record<string, unknown>> = (payload: Payload<Claims>) => boolean
