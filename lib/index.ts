/**
 * The exports of the package.
 * @module fastify-token-auth
 */
import { markOwn } from './copies.ts'
import * as values from './exports.ts'
import { tokenAuth as plugin } from './plugin.ts'

// Other copies of the package recognize the base classes of this one.
for (const base of [values.Authentication, values.Configuration, values.Responses, values.View]) markOwn(base)

// A copy: the declarations of a namespace would have its types among its values.
const named = { ...values }

/** The plugin, with every named export as a property: the value that `require()` of this package returns. */
export const tokenAuth: typeof plugin & typeof named & { tokenAuth: typeof plugin, default: typeof plugin } =
  Object.assign(plugin, named, { tokenAuth: plugin, default: plugin })

export { tokenAuth as default }
export * from './exports.ts'

export type { TokenAuthErrorOptions } from './errors.ts'
export type { Extension } from './http/responses.ts'
export type { ClassView, ViewContext, ViewMethod } from './endpoints/view.ts'
export type { IssuedEvent, KeyEvent, RefusedEvent } from '../types/events.ts'
export type {
  CustomClaim, CustomClaimSource, ExtraVerification, Handlers, MaybePromise, Payload, RegisteredClaims, SerializableUser, UserId
} from '../types/handlers.ts'
export type {
  Guard,
  GuardOptions,
  InjectedRouteHandler,
  InstanceChoice,
  ProtectOptions,
  RequestTokenAuth,
  RequiredScopes,
  ScopedOptions,
  ScopeOptions,
  ScopeQuestions,
  TokenAdditions,
  TokenAuthInstance,
  UserRouteHandler,
  Verified,
  VerifiedRequest
} from '../types/instance.ts'
export type { AnyInstance, AnyReply, AnyRequest } from '../types/requests.ts'
export type { InstanceOptions, TokenAuthOptions } from '../types/options.ts'
export type { RouteAccess, RouteGuard } from '../types/routes.ts'
export type { RequestSerializerOptions } from './http/request-serializer.ts'
export type { ClaimsOf, InjectUser, InstanceName, SessionDataOf, TokenAuthInstances, UserIdOf, UserOf } from '../types/registry.ts'
export type {
  Advance,
  IoredisLike,
  OwnIoredis,
  ListedSession,
  LoginFacts,
  NewSession,
  NodeRedisLike,
  OwnNodeRedis,
  PostgresLike,
  PostgresSessionsOptions,
  ReceivedGeneration,
  RedisSessionsOptions,
  SessionChange,
  SessionEvent,
  SessionFeed,
  SessionFeedChange,
  SessionFeedOptions,
  SessionRules,
  Sessions,
  SessionsOptions,
  SessionStore,
  SessionSubject,
  StartedSession,
  StartOptions,
  StoredSession,
  StoreStatus
} from '../types/sessions.ts'
export type {
  EncryptedPem,
  JsonWebKey,
  JsonWebKeySet,
  KeyFile,
  KeyMaterial,
  KeyStatus,
  ScopesOfPayload,
  SigningKey,
  TrustedIssuer
} from '../types/keys.ts'
export type {
  Algorithm, GenerateRefreshToken, SettingGetters, SettingName, SettingOverrides, Settings, SettingSetters,
  SettingValues
} from '../types/settings.ts'
