import type {
  ContextConfigDefault, FastifyBaseLogger, FastifySchema, FastifyTypeProvider, FastifyTypeProviderDefault, RawReplyDefaultExpression,
  RawRequestDefaultExpression, RawServerBase, RawServerDefault, RouteGenericInterface
} from 'fastify'
import type { UserId } from './handlers.ts'
import type { GuardOptions, InjectedRouteHandler, InstanceChoice, RequestTokenAuth, TokenAuthInstance, UserRouteHandler } from './instance.ts'

/**
 * The names of your instances, and the types of their users, user ids, claims and session data. Declare them once:
 *
 * ```ts
 * declare module 'fastify-token-auth' {
 *   interface TokenAuthInstances {
 *     tokenAuth: { user: Customer, userId: number }
 *     staffAuth: { user: Employee, claims: { department: string }, sessionData: { device: string } }
 *   }
 * }
 * ```
 */
export interface TokenAuthInstances {}

/** The declared names of instances, and the default name. */
export type InstanceName = 'tokenAuth' | Extract<keyof TokenAuthInstances, string>

type Declared<Name extends string> = Name extends keyof TokenAuthInstances ? TokenAuthInstances[Name] : unknown

/** The type of the users of an instance. Default: any object. */
export type UserOf<Name extends string> = Declared<Name> extends { user: infer User extends object } ? User : Record<string, unknown>

/** The type of the user ids of an instance. Default: any. */
export type UserIdOf<Name extends string> = Declared<Name> extends { userId: infer Id extends UserId } ? Id : UserId

/** The type of the claims in the tokens of an instance. Default: any claims. */
export type ClaimsOf<Name extends string> =
  Declared<Name> extends { claims: infer Claims extends object } ? Claims : Record<string, unknown>

/** The type of the data of an instance's sessions. Default: any object. */
export type SessionDataOf<Name extends string> =
  Declared<Name> extends { sessionData: infer Data extends object } ? Data : Record<string, unknown>

// Editors show the comments of these members, and those of declared names.
interface OfApplication {
  /** The instance of a registration without `instanceName`: its guards, sessions and tokens. */
  tokenAuth: unknown
}
interface OfRequest {
  /** The authentication of the request: its token, user and scopes. Null or false without a valid token. */
  tokenAuth: unknown
}
type Instances = {
  [Name in keyof (OfApplication & TokenAuthInstances)]: TokenAuthInstance<UserOf<Name>, ClaimsOf<Name>, SessionDataOf<Name>, UserIdOf<Name>>
}
type RequestInstances = { [Name in keyof (OfRequest & TokenAuthInstances)]: RequestTokenAuth<UserOf<Name>, ClaimsOf<Name>, UserIdOf<Name>> }

declare module 'fastify' {
  interface FastifyInstance extends Instances {}
  interface FastifyRequest extends RequestInstances {}
  interface FastifyContextConfig {
    /**
     * Who may use the route if it has no guard: `false` for everybody, or a text that names what else guards it. It never opens
     * a route that has a guard.
     */
    tokenAuth?: false | string | undefined
  }
}

/** The free-standing `injectUser`. Its type parameters are those of Fastify's `RouteHandler`, and the name of the instance. */
export type InjectUser = <
  Route extends RouteGenericInterface = RouteGenericInterface,
  Name extends InstanceName = 'tokenAuth',
  RawServer extends RawServerBase = RawServerDefault,
  RawRequest extends RawRequestDefaultExpression<RawServer> = RawRequestDefaultExpression<RawServer>,
  RawReply extends RawReplyDefaultExpression<RawServer> = RawReplyDefaultExpression<RawServer>,
  ContextConfig = ContextConfigDefault,
  SchemaCompiler extends FastifySchema = FastifySchema,
  TypeProvider extends FastifyTypeProvider = FastifyTypeProviderDefault,
  Logger extends FastifyBaseLogger = FastifyBaseLogger
> (
  handler: UserRouteHandler<UserOf<Name>, Route, RawServer, RawRequest, RawReply, ContextConfig, SchemaCompiler, TypeProvider, Logger>,
  overrides?: GuardOptions & InstanceChoice<Name>
) => InjectedRouteHandler<Route, RawServer, RawRequest, RawReply, ContextConfig, SchemaCompiler, TypeProvider, Logger>
