/**
 * The exports of the package.
 * @module fastify-token-auth
 */
import * as configurationErrors from './configuration-errors.ts'
import { markOwn } from './copies.ts'
import * as errors from './errors.ts'
import { Authentication } from './host/handlers.ts'
import { injectUser, protect, scoped } from './guards/free.ts'
import { returnPath } from './guards/redirect.ts'
import { initialize, tokenAuth as plugin } from './plugin.ts'
import { requestSerializer } from './http/request-serializer.ts'
import { Responses } from './http/responses.ts'
import { memorySessions } from './sessions/stores/memory.ts'
import { postgresSessions, postgresSessionSchema } from './sessions/stores/postgres.ts'
import { redisSessions } from './sessions/stores/redis.ts'
import { Configuration } from './settings/configuration.ts'
import { View } from './endpoints/view.ts'

// Other copies of the package recognize the base classes of this one.
for (const base of [Authentication, Configuration, Responses, View]) markOwn(base)

const named = { ...errors, ...configurationErrors, Authentication, Configuration, Responses, View, initialize, injectUser, memorySessions, postgresSessions, postgresSessionSchema, protect, redisSessions, requestSerializer, returnPath, scoped }

/** The plugin, with every named export as a property: the value that `require()` of this package returns. */
export const tokenAuth: typeof plugin & typeof named & { tokenAuth: typeof plugin, default: typeof plugin } =
  Object.assign(plugin, named, { tokenAuth: plugin, default: plugin })

export { tokenAuth as default }
export * from './configuration-errors.ts'
export * from './errors.ts'
export { Authentication, Configuration, initialize, injectUser, memorySessions, postgresSessions, postgresSessionSchema, protect, redisSessions, requestSerializer, Responses, returnPath, scoped, View }

export type { TokenAuthErrorOptions } from './errors.ts'
export type { Extension } from './http/responses.ts'
export type { ClassView, ViewContext, ViewMethod } from './endpoints/view.ts'
export type { IssuedEvent, KeyEvent, RefusedEvent } from '../types/events.ts'
export type {
  CustomClaim, CustomClaimSource, ExtraVerification, Handlers, MaybePromise, Payload, RegisteredClaims, SerializableUser, UserId
} from '../types/handlers.ts'
export type {
  Guard, GuardOptions, InjectedRouteHandler, InstanceChoice, ProtectOptions, RequestTokenAuth, RequiredScopes, ScopedOptions, TokenAdditions,
  TokenAuthInstance, UserRouteHandler, VerifiedRequest
} from '../types/instance.ts'
export type { AnyInstance, AnyReply, AnyRequest } from '../types/requests.ts'
export type { InstanceOptions, TokenAuthOptions } from '../types/options.ts'
export type { RouteAccess, RouteGuard } from '../types/routes.ts'
export type { RequestSerializerOptions } from './http/request-serializer.ts'
export type { ClaimsOf, InstanceName, SessionDataOf, TokenAuthInstances, UserIdOf, UserOf } from '../types/registry.ts'
export type {
  Advance, IoredisLike, OwnIoredis, ListedSession, NewSession, NodeRedisLike, OwnNodeRedis, PostgresLike, PostgresSessionsOptions, ReceivedGeneration, RedisSessionsOptions, SessionChange, SessionEvent, SessionFeed, SessionFeedChange, SessionFeedOptions,
  SessionRules, Sessions, SessionsOptions, SessionStore, SessionSubject, StartedSession, StoredSession
} from '../types/sessions.ts'
export type { EncryptedPem, JsonWebKey, JsonWebKeySet, KeyFile, KeyMaterial, KeyStatus, ScopesOfPayload, SigningKey, TrustedIssuer } from '../types/keys.ts'
export type {
  Algorithm, GenerateRefreshToken, SettingGetters, SettingName, SettingOverrides, Settings, SettingSetters,
  SettingValues
} from '../types/settings.ts'
