import type {
  ContextConfigDefault,
  FastifyBaseLogger,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  FastifyTypeProvider,
  FastifyTypeProviderDefault,
  HookHandlerDoneFunction,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerBase,
  RawServerDefault,
  RouteGenericInterface,
  RouteHandlerMethod
} from 'fastify'
import type { CustomClaimSource, GivenUser, Handlers, MaybePromise, Payload, UserId } from './handlers.ts'
import type { Settings, SettingOverrides } from './settings.ts'
import type { KeyStatus } from './keys.ts'
import type { AnyReply, AnyRequest } from './requests.ts'
import type { RouteAccess } from './routes.ts'
import type { Sessions, StoreStatus } from './sessions.ts'
import type { Responses } from '../lib/http/responses.ts'

/**
 * A guard: a hook for `onRequest`, `preValidation` or `preHandler` that lets a request pass, or answers it with a refusal.
 * Without `done`, it returns a promise, which is rejected after a refused request has been answered.
 */
export interface Guard {
  (request: AnyRequest, reply: AnyReply, done: HookHandlerDoneFunction): void
  (request: AnyRequest, reply: AnyReply): Promise<void>
}

/** The options of a guard: overrides of settings, the age of the login, and redirects. */
export interface GuardOptions extends SettingOverrides {
  /**
   * The maximum age of the login in seconds; `leeway` is not added (RFC 9470). Requires the setting `claimAuthTime` if the
   * instance issues tokens. Default: any time.
   */
  maxAge?: number | undefined
  /** Whether a request that is not authenticated is redirected (302) instead of answered with 401. Default: false. */
  redirectOnFail?: boolean | undefined
  /** The target of the redirect, a path or an http(s) URL: see `loginRedirectUrl`. Default: the setting `loginRedirectUrl`. */
  redirectUrl?: string | undefined
  /**
   * Whether a missing or expired access token is renewed. Requires `sessions` and `cookieSet`. Default: true with
   * `redirectOnFail`, if the instance can renew.
   */
  renew?: boolean | undefined
}

/** The options of `protect`. */
export interface ProtectOptions extends GuardOptions {
  /** Whether a request without a token passes, too. Default: false. */
  optional?: boolean | undefined
}

/** Which of several scopes and actions are required. */
export interface ScopeOptions {
  /** Whether all required scopes must be satisfied, or only one. Default: true. */
  requireAll?: boolean | undefined
  /** Whether all actions of a required scope must be granted, or only one. Default: true. */
  requireAllActions?: boolean | undefined
}

/** The options of `scoped`. */
export interface ScopedOptions extends GuardOptions, ScopeOptions {}

/** The scopes that a route requires: a scope, a list of scopes, or a function of the request that returns either. */
export type RequiredScopes<
  Route extends RouteGenericInterface = RouteGenericInterface,
  Request extends AnyRequest = FastifyRequest<Route>
> = string | readonly string[] | ((request: Request) => MaybePromise<string | readonly string[]>)

/** The instance that a free-standing guard belongs to. */
export interface InstanceChoice<Name extends string = string> {
  /** The context of the instance, or one inside it. Default: the context of the route. */
  on?: object | undefined
  /** The name of the instance. Default: `tokenAuth`. */
  instanceName?: Name | undefined
}

/** A route handler that `injectUser` returns. Its type parameters are those of Fastify's `RouteHandler`. */
export type InjectedRouteHandler<
  Route extends RouteGenericInterface = RouteGenericInterface, RawServer extends RawServerBase = RawServerDefault,
  RawRequest extends RawRequestDefaultExpression<RawServer> = RawRequestDefaultExpression<RawServer>,
  RawReply extends RawReplyDefaultExpression<RawServer> = RawReplyDefaultExpression<RawServer>, ContextConfig = ContextConfigDefault,
  SchemaCompiler extends FastifySchema = FastifySchema, TypeProvider extends FastifyTypeProvider = FastifyTypeProviderDefault,
  Logger extends FastifyBaseLogger = FastifyBaseLogger
> = (
  request: FastifyRequest<Route, RawServer, RawRequest, SchemaCompiler, TypeProvider, ContextConfig, Logger>,
  reply: FastifyReply<Route, RawServer, RawRequest, RawReply, ContextConfig, SchemaCompiler, TypeProvider>
) => ReturnType<RouteHandlerMethod<RawServer, RawRequest, RawReply, Route, ContextConfig, SchemaCompiler, TypeProvider, Logger>>

/** A route handler whose third parameter is the user, or null if there is none. The other type parameters are those of `RouteHandler`. */
export type UserRouteHandler<
  User, Route extends RouteGenericInterface = RouteGenericInterface, RawServer extends RawServerBase = RawServerDefault,
  RawRequest extends RawRequestDefaultExpression<RawServer> = RawRequestDefaultExpression<RawServer>,
  RawReply extends RawReplyDefaultExpression<RawServer> = RawReplyDefaultExpression<RawServer>, ContextConfig = ContextConfigDefault,
  SchemaCompiler extends FastifySchema = FastifySchema, TypeProvider extends FastifyTypeProvider = FastifyTypeProviderDefault,
  Logger extends FastifyBaseLogger = FastifyBaseLogger
> = (
  request: FastifyRequest<Route, RawServer, RawRequest, SchemaCompiler, TypeProvider, ContextConfig, Logger>,
  reply: FastifyReply<Route, RawServer, RawRequest, RawReply, ContextConfig, SchemaCompiler, TypeProvider>,
  user: User | null
) => ReturnType<InjectedRouteHandler<Route, RawServer, RawRequest, RawReply, ContextConfig, SchemaCompiler, TypeProvider, Logger>>

/** Options of `generateAccessToken`. */
export interface TokenAdditions<User extends object> {
  /** Custom claims, in addition to those of the registration. Tokens of the instance do not require them. */
  customClaims?: readonly CustomClaimSource<User>[] | undefined
  /** Called after the handler `extendPayload`, in the same way. */
  extendPayload?: Handlers<User, Record<string, unknown>>['extendPayload'] | undefined
  /** The scopes of the token, instead of the result of `addScopesToPayload`; even if `scopesEnabled` is false. `null` for a token without scopes. */
  scopes?: string | readonly string[] | null | undefined
  /** When the user entered credentials, in seconds since 1970: the claim `auth_time`, with `claimAuthTime`. */
  authTime?: number | undefined
  /** The request from which `get<Setting>` functions compute settings, keys among them. */
  request?: AnyRequest | undefined
}

/** One registration of the plugin: `fastify.tokenAuth`. */
export interface TokenAuthInstance<
  User extends object = Record<string, unknown>,
  Claims extends object = Record<string, unknown>,
  Data extends object = Record<string, unknown>,
  Id extends UserId = UserId
> {
  /** The settings, resolved and frozen, without key material. */
  readonly settings: Readonly<Settings>
  /** The hooks that extend and render responses. */
  readonly responses: Responses
  /** The sessions of users, with the option `sessions`. */
  readonly sessions: Sessions<User, Data, Id>

  /**
   * Creates a guard that lets only requests with a valid access token pass, or with `optional` also those without a token.
   * @param overrides settings for the routes with this guard
   * @throws {@link InvalidConfiguration} for invalid overrides
   */
  protect (overrides?: ProtectOptions): Guard
  /**
   * Creates a guard that lets only requests with a valid access token and the required scopes pass.
   * @throws {@link InvalidConfiguration} for missing, empty or malformed scopes, and for invalid options
   */
  scoped<Route extends RouteGenericInterface = RouteGenericInterface, Request extends AnyRequest = FastifyRequest<Route>>(
    scopes: RequiredScopes<Route, Request>,
    options?: ScopedOptions
  ): Guard
  /**
   * Wraps a route handler so that its third parameter is the user of the token. Without another guard on the route,
   * authentication is optional: the user is null for a request without a token, and an invalid token is refused.
   * @throws {@link InvalidConfiguration} for invalid overrides, or a handler that is not a function
   */
  injectUser<
    Route extends RouteGenericInterface = RouteGenericInterface,
    RawServer extends RawServerBase = RawServerDefault,
    RawRequest extends RawRequestDefaultExpression<RawServer> = RawRequestDefaultExpression<RawServer>,
    RawReply extends RawReplyDefaultExpression<RawServer> = RawReplyDefaultExpression<RawServer>,
    ContextConfig = ContextConfigDefault,
    SchemaCompiler extends FastifySchema = FastifySchema,
    TypeProvider extends FastifyTypeProvider = FastifyTypeProviderDefault,
    Logger extends FastifyBaseLogger = FastifyBaseLogger
  >(
    handler: UserRouteHandler<User, Route, RawServer, RawRequest, RawReply, ContextConfig, SchemaCompiler, TypeProvider, Logger>,
    overrides?: GuardOptions
  ): InjectedRouteHandler<Route, RawServer, RawRequest, RawReply, ContextConfig, SchemaCompiler, TypeProvider, Logger>

  /**
   * Generates an access token for a user.
   * @throws {@link InvalidUserObject} if the user has no user id
   * @throws {@link MissingRegisteredClaim} if a handler removed a claim from the payload, or made it invalid
   * @throws {@link TokenTooLarge} if the token has more than 8,192 characters
   * @throws {@link HandlerFailed} if a handler throws an error
   * @throws {@link RequiredKeysNotFound} if the instance has no signing key, or needs a request to compute a setting
   */
  generateAccessToken (user: GivenUser<User>, additions?: TokenAdditions<User>): Promise<string>
  /**
   * Generates a refresh token for a user, and stores it with the handler `storeRefreshToken`.
   * @throws {@link InvalidUserObject} if the user has no user id
   * @throws {@link RefreshTokenNotImplemented} if there is no handler `storeRefreshToken`
   * @throws {@link HandlerFailed} if a handler throws an error
   */
  generateRefreshToken (request: AnyRequest, user: GivenUser<User>): Promise<string>
  /**
   * Verifies an access token that does not belong to a request.
   * @returns a copy of its payload
   * @throws {@link InvalidToken} if the token is refused, or if its key is not known yet: its issuer is then asked for keys
   * @throws {@link KeysUnavailable} if the keys of its issuer cannot be fetched
   * @throws {@link RequiredKeysNotFound} if a setting that is needed has a `get<Setting>` function, or if there is a handler `trusted`
   */
  verifyToken (token: string): Payload<Claims>
  /**
   * Verifies an access token that did not arrive in a request of its own, for example one in a message of a WebSocket.
   * @param request the request from which `get<Setting>` functions compute settings, and which is passed to the handler
   * `trusted`. The token of this request is ignored
   * @returns a copy of the payload
   * @throws {@link InvalidToken} if the token is refused
   * @throws {@link KeysUnavailable} if the keys of its issuer cannot be fetched
   * @throws {@link HandlerFailed} if `trusted` or a `get<Setting>` function throws an error
   */
  verifyToken (token: string, request: AnyRequest): Promise<Payload<Claims>>
  /**
   * Verifies an access token that did not arrive in a header, such as that of `connection_init` in GraphQL over WebSocket, or
   * of the first message of a socket. As `verifyToken(token, request)`, with everything that `request.tokenAuth` knows of a
   * token. `signal` aborts when the token becomes invalid.
   * @param text the token alone, without a scheme such as `Bearer`
   * @param request the request of the connection
   * @throws {@link InvalidToken} if the token is refused
   * @throws {@link KeysUnavailable} if the keys of its issuer cannot be fetched
   * @throws {@link HandlerFailed} if `trusted` or a `get<Setting>` function throws an error
   */
  verified (text: string, request: AnyRequest): Promise<Verified<Claims, Id>>
  /**
   * Calls the function `keys` again and replaces the keys at once, as also happens every 60 seconds.
   * @throws {@link InvalidConfiguration} if the function fails, if its keys are refused, or if `keys` is not a function. The
   * previous keys stay in use
   */
  reloadKeys (): Promise<void>
  /** Returns the state of the keys, without key material. */
  keyStatus (): KeyStatus
  /** Returns whether this process knows which sessions have ended: for the readiness of a process, and for alerts. */
  storeStatus (): StoreStatus
  /**
   * Returns who may use which route of the application. Includes all routes that were added after its first instance, in the
   * context of that instance or in contexts inside it. The rows are copies.
   * @throws {@link InvalidConfiguration} before the application is ready
   */
  routes (): RouteAccess[]
  /**
   * Returns `routes()` as a table in plain text, sorted by URL, with one line for each route. A HEAD route that Fastify has
   * made is on the line of its GET route.
   * @throws {@link InvalidConfiguration} before the application is ready
   */
  printRoutes (): string
  /** Whether the request has a valid access token. */
  isAuthenticated (request: AnyRequest): boolean
  /** Returns the payload of the access token of a request; null if there is no valid token. */
  extractPayload (request: AnyRequest): Payload<Claims> | null
  /** Returns the user id in the access token of a request; null if there is no valid token. */
  extractUserId (request: AnyRequest): Id | null
  /** Returns the scopes in the access token of a request; null if there is no valid token, or no scopes claim. */
  extractScopes (request: AnyRequest): string[] | null
}

/** The authentication of a request with a valid token. */
export interface VerifiedRequest<Claims extends object = Record<string, unknown>, Id extends UserId = UserId> {
  /** The payload: a copy that belongs to the request. */
  readonly payload: Payload<Claims>
  /** The user id. */
  readonly userId: Id
  /** The scopes; null if the token has no scopes claim. */
  readonly scopes: string[] | null
  /** The access token. Not enumerable, so that loggers do not write it. */
  readonly token: string
  /** Where the token was found. */
  readonly source: 'header' | 'cookie' | 'query'
  /** The session of the token: its claim `sid`. Null where the token has no session. */
  readonly sessionId: string | null
  /** The trusted issuer of the token. Null for tokens of the instance's own keys. */
  readonly issuer: string | null
}

/** A token that was verified in code, as returned by `fastify.tokenAuth.verified`. */
export interface Verified<Claims extends object = Record<string, unknown>, Id extends UserId = UserId>
  extends Omit<VerifiedRequest<Claims, Id>, 'source'>, ScopeQuestions {
  /** The token came in no place of a request. */
  readonly source: null
  /** Aborts when the token becomes invalid, as the `signal` of a request. */
  readonly signal: AbortSignal
}

/** Questions about the scopes of a token. */
export interface ScopeQuestions {
  /**
   * Whether the token has scopes, by the rules of `scoped`, for fields, procedures and parts of a page. Synchronous. False without
   * a valid token.
   * @param scopes a scope, or a list of scopes
   * @throws {@link InvalidConfiguration} for malformed scopes, and for wrong options
   * @throws {@link HandlerFailed} if a handler of scopes fails, or is asynchronous
   */
  can (scopes: string | readonly string[], options?: ScopeOptions): boolean
}

/**
 * The authentication of a request by an instance: `request.tokenAuth`. If no guard has run, reading a property first
 * verifies the token. If there is no valid token, all properties except `settings` and `signal` are null,
 * `can` returns false, and `verified` throws an error.
 */
export interface RequestTokenAuth<
  User extends object = Record<string, unknown>, Claims extends object = Record<string, unknown>, Id extends UserId = UserId
> extends ScopeQuestions {
  /**
   * The authentication of the request without null values, for routes with a guard. Without a valid token, reading it throws
   * the error of the refusal, which becomes the response if the route handler does not catch it.
   * @throws {@link InvalidToken} or another error of 401
   */
  readonly verified: VerifiedRequest<Claims, Id>
  /** The payload: a copy that belongs to the request. Behind a guard, `verified.payload` is never null. */
  readonly payload: Payload<Claims> | null
  /** The user id. Behind a guard, `verified.userId` is never null. */
  readonly userId: Id | null
  /** The scopes; null if the token has no scopes claim. */
  readonly scopes: string[] | null
  /** The trusted issuer of the token: an `issuer` of the option `issuers`. Null for tokens of the instance's own keys. */
  readonly issuer: string | null
  /** The access token. */
  readonly token: string | null
  /** The session of the token: its claim `sid`. Null where the token has no session. */
  readonly sessionId: string | null
  /**
   * Aborts when the token becomes invalid: when it expires (`exp` and `leeway`), with a {@link TokenExpired} as the reason;
   * when its session ends, with a {@link SessionEnded}; or when its key is removed or reaches `verifyUntil`, with an
   * {@link InvalidToken}. For connections that last longer than a request, such as WebSockets and server-sent events. Without a
   * valid token, it never aborts. Created when it is first read.
   */
  readonly signal: AbortSignal
  /** Where the token was found. */
  readonly source: 'header' | 'cookie' | 'query' | null
  /** Why nobody is logged in: no token was sent, the token was refused, or its session has ended. Null with a valid token. */
  readonly signedOut: 'absent' | 'expired' | 'ended' | null
  /** The settings of the request: with the overrides of its guard, and the results of getters. */
  readonly settings: Readonly<Settings>
  /** Returns the user: the result of the handler `retrieveUser`, which is called at most once for a request. */
  user (): Promise<User | null>
  /** Resolves when the token has been verified. Only needed before other properties if a key is computed asynchronously without a guard. */
  ready (): Promise<void>
}
