import type {
  FastifyReply, FastifyRequest, HookHandlerDoneFunction, RawReplyDefaultExpression, RawRequestDefaultExpression, RawServerDefault,
  RouteGenericInterface, RouteHandlerMethod
} from 'fastify'
import type { CustomClaimSource, GivenUser, Handlers, MaybePromise, Payload, UserId } from './handlers.ts'
import type { Settings, SettingOverrides } from './settings.ts'
import type { Sessions } from './sessions.ts'
import type { Responses } from '../lib/http/responses.ts'

/**
 * A guard: a hook for `onRequest` or `preHandler` that lets a request pass, or answers it. Called without `done`, it
 * returns a promise that is rejected for a refused request, after it was answered.
 */
export interface Guard {
  (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void
  (request: FastifyRequest, reply: FastifyReply): Promise<void>
}

/** Overrides of settings for one guard, how recent a login must be, and what becomes of a request that is not authenticated. */
export interface GuardOptions extends SettingOverrides {
  /**
   * How many seconds ago the user may have logged in, according to the claim `auth_time` of the token (RFC 9470), without
   * `leeway`. A token without the claim, or with one that lies in the future, is refused, too. Requires the setting
   * `claimAuthTime` where the instance issues tokens.
   */
  maxAge?: number | undefined
  /** Whether a request that is not authenticated is redirected (302) instead of refused. A scope failure stays 403. */
  redirectOnFail?: boolean | undefined
  /** Where to; default: the setting `loginRedirectUrl`. A path that starts with one "/", or an absolute http(s) URL. */
  redirectUrl?: string | undefined
}

/** What `scoped` takes besides the scopes. */
export interface ScopedOptions extends GuardOptions {
  /** Whether all required scopes must be satisfied (default), or any one. */
  requireAll?: boolean | undefined
  /** Whether all actions of a required scope must be granted (default), or any one. */
  requireAllActions?: boolean | undefined
}

/** What a route requires: a scope, a list of scopes, or a function of the request that gives either. */
export type RequiredScopes = string | readonly string[] | ((request: FastifyRequest) => MaybePromise<string | readonly string[]>)

/** For a free-standing guard: which instance it belongs to. */
export interface InstanceChoice<Name extends string = string> {
  /** The context on which the instance was registered; default: the context of the route. */
  on?: object | undefined
  /** The name of the instance; default: `tokenAuth`. */
  instanceName?: Name | undefined
}

/** What a route takes for its handler. */
export type InjectedRouteHandler<Route extends RouteGenericInterface = RouteGenericInterface> =
  RouteHandlerMethod<RawServerDefault, RawRequestDefaultExpression, RawReplyDefaultExpression, Route>

/** A route handler that is given the user, or null where there is none. */
export type UserRouteHandler<User, Route extends RouteGenericInterface = RouteGenericInterface> = (
  request: FastifyRequest<Route>, reply: FastifyReply<Route>, user: User | null
) => ReturnType<InjectedRouteHandler<Route>>

/** Additions to one access token. */
export interface TokenAdditions<User extends object> {
  /** Claims besides those of the registration. */
  customClaims?: readonly CustomClaimSource<User>[] | undefined
  /** Called after the handler `extendPayload`, with the same rules. */
  extendPayload?: Handlers<User, Record<string, unknown>>['extendPayload'] | undefined
  /** The scopes of the token, instead of those that `addScopesToPayload` gives; also where `scopesEnabled` is false. Null: none. */
  scopes?: string | readonly string[] | null | undefined
  /** When the user entered credentials, in seconds since 1970: the claim `auth_time`, with `claimAuthTime`. */
  authTime?: number | undefined
  /** The request from which `get<Setting>` functions compute settings, keys among them. */
  request?: FastifyRequest | undefined
}

/** One registration of the plugin: `fastify.tokenAuth`. */
export interface TokenAuthInstance<
  User extends object = Record<string, unknown>, Claims extends object = Record<string, unknown>, Data extends object = Record<string, unknown>
> {
  /** The settings, resolved and frozen, without key material. */
  readonly settings: Readonly<Settings>
  /** What renders the answers. */
  readonly responses: Responses
  /** The sessions of users, with the option `sessions`. */
  readonly sessions: Sessions<User, Data>

  /**
   * Makes a guard that lets only requests with a valid access token pass.
   * @param overrides settings for the routes with this guard
   * @throws {@link InvalidConfiguration} for wrong overrides
   */
  protect (overrides?: GuardOptions): Guard
  /**
   * Makes a guard that lets only requests with a valid access token and acceptable scopes pass.
   * @throws {@link InvalidConfiguration} for missing, empty or malformed scopes, and for wrong overrides
   */
  scoped (scopes: RequiredScopes, options?: ScopedOptions): Guard
  /**
   * Wraps a route handler so that it gets the user of the token, or null where the request has none. Alone it is
   * optional authentication: a token that is present but not valid is refused.
   */
  injectUser<Route extends RouteGenericInterface = RouteGenericInterface> (
    handler: UserRouteHandler<User, Route>, overrides?: GuardOptions): InjectedRouteHandler<Route>

  /**
   * Makes an access token for a user.
   * @throws {@link InvalidUserObject} where the user has no user id
   * @throws {@link MissingRegisteredClaim} where a handler spoiled the payload
   * @throws {@link RequiredKeysNotFound} where the instance has no key to sign with
   */
  generateAccessToken (user: GivenUser<User>, additions?: TokenAdditions<User>): Promise<string>
  /** Makes a refresh token for a user and stores it through `storeRefreshToken`. */
  generateRefreshToken (request: FastifyRequest, user: GivenUser<User>): Promise<string>
  /**
   * Verifies a token that did not come with a request.
   * @returns a copy of its payload
   * @throws {@link InvalidToken}
   */
  verifyToken (token: string): Payload<Claims>
  /** Whether the request carries a valid access token. */
  isAuthenticated (request: FastifyRequest): boolean
  /** The payload of the request's access token; null where there is no valid one. */
  extractPayload (request: FastifyRequest): Payload<Claims> | null
  /** The user id in the request's access token; null where there is no valid one. */
  extractUserId (request: FastifyRequest): UserId | null
  /** The scopes in the request's access token; null where there is no valid one, or it has no scopes. */
  extractScopes (request: FastifyRequest): string[] | null
}

/**
 * What an instance knows of a request: `request.tokenAuth`. Where no guard ran, the first property that is read verifies
 * the token. Everything but `settings` and `signal` is null where there is no valid token.
 */
export interface RequestTokenAuth<User extends object = Record<string, unknown>, Claims extends object = Record<string, unknown>> {
  /** The payload, as a copy that belongs to this request. */
  readonly payload: Payload<Claims> | null
  /** The user id. */
  readonly userId: UserId | null
  /** The scopes; null where the token has no scopes claim. */
  readonly scopes: string[] | null
  /** The access token. */
  readonly token: string | null
  /** The session of the token: its claim `sid`. Null where the token has no session. */
  readonly sessionId: string | null
  /**
   * Aborts when the token is not valid any more: when it expires (`exp` and `leeway`), with a {@link TokenExpired} as its
   * reason, or when its session ends, with a {@link SessionEnded}. For connections that last longer than a request, such as
   * WebSockets and server-sent events. Without a valid token, it never aborts. Created when it is first read.
   */
  readonly signal: AbortSignal
  /** Where the token was found. */
  readonly source: 'header' | 'cookie' | 'query' | null
  /** The settings as this request sees them: overrides of its guard, and what getters computed. */
  readonly settings: Readonly<Settings>
  /** The user that `retrieveUser` gives, asked for at most once. */
  user (): Promise<User | null>
  /** Resolves once the token is verified; needed only where a key is computed asynchronously and no guard ran. */
  ready (): Promise<void>
}
