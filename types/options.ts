import type { ClassView } from '../lib/endpoints/view.ts'
import type { Authentication } from '../lib/host/handlers.ts'
import type { Responses } from '../lib/http/responses.ts'
import type { CustomClaimSource, ExtraVerification, GivenUser, Handlers, MaybePromise, UserId } from './handlers.ts'
import type { SigningKey, TrustedIssuer } from './keys.ts'
import type { SessionFeedOptions, SessionsOptions } from './sessions.ts'
import type { ClaimsOf, InstanceName, SessionDataOf, UserIdOf, UserOf } from './registry.ts'
import type { Optional, SettingGetters, SettingSetters, SettingValues } from './settings.ts'

/** The members of a configuration class: settings as properties, `set<Setting>` and `get<Setting>`. */
export type ConfigurationMembers<User extends object> = SettingValues<User> & SettingSetters<User> & SettingGetters<User>

/** The user parameter of hooks of the application: of any type, unless one is declared. */
type TakenUser<User extends object> = string extends keyof User ? never : User

/** The options of a registration for users and claims of your own types. */
export interface InstanceOptions<
  User extends object, Claims extends object, Data extends object = Record<string, unknown>, Id extends UserId = UserId
> extends
  Optional<Handlers<User, Claims, Id>>, SettingValues<User>, SettingSetters<User>, SettingGetters<User> {
  /** Claims of your own. Every token must have them. */
  customClaims?: readonly CustomClaimSource<User>[] | undefined
  /** Checks of the whole payload, after all other checks. */
  extraVerifications?: readonly ExtraVerification<Claims>[] | undefined
  /** Additional endpoints under `urlPrefix`. */
  classViews?: readonly ClassView[] | undefined
  /** Sessions: login on several devices, rotating refresh tokens, logout. Without it, refresh works as in the specification. */
  sessions?: SessionsOptions<GivenUser<User>, Data> | SessionFeedOptions | undefined
  /**
   * The keys of the instance over time, instead of `secret`, `publicKey` and `privateKey`: a list, or a function that
   * returns one and is called again every 60 seconds. Tokens carry the id of their key.
   */
  keys?: readonly SigningKey[] | (() => MaybePromise<readonly SigningKey[]>) | undefined
  /** Issuers whose tokens are accepted, besides tokens of the instance: identity providers, and other instances of this plugin. */
  issuers?: readonly TrustedIssuer[] | undefined
  /** Settings as a class. */
  configurationClass?: (new () => ConfigurationMembers<GivenUser<User>>) | undefined
  /** A class with handlers as methods, as a subclass of {@link Authentication}. */
  authenticationClass?: (new () => Authentication<GivenUser<User>, Claims, Id>) | undefined
  /** A class with hooks that extend and render responses, as a subclass of {@link Responses}. */
  responsesClass?: (new () => Responses<TakenUser<User>, Claims>) | undefined
}

/** Options without effect beside `sessions`, which `register()` refuses, too. */
type Replaced = 'storeRefreshToken' | 'retrieveRefreshToken' | `${'generate' | 'setGenerate' | 'getGenerate'}RefreshToken`
/** Getters of settings that must be the same for all requests of an instance with `sessions`. */
type Fixed =
  | 'getSecret'
  | 'getPublicKey'
  | 'getPrivateKey'
  | 'getAlgorithm'
  | 'getVerifyExp'
  | 'getLeeway'
  | 'getClaimIss'
  | 'getClaimAud'
  | 'getUserId'

/** An option with another type, and with the comment of {@link InstanceOptions}, which editors show. */
type Narrowed<Name extends keyof Described, Type> = { [Key in keyof Pick<Described, Name>]-?: Type }
type Absent<Name extends keyof Described> = Partial<Narrowed<Name, undefined>>
type Described = InstanceOptions<object, object>

type BesideSessions = { [Name in Replaced | Fixed]?: undefined } & { verifyExp?: true | undefined, refreshTokenEnabled?: true | undefined }

/** Combinations of options: none of {@link BesideSessions} with `sessions`, and a feed alone only with `authMode: false`. */
type SessionMode<User extends object, Data extends object> =
  Absent<'sessions'> |
  BesideSessions & Narrowed<'sessions', SessionsOptions<GivenUser<User>, Data>> |
  BesideSessions & Narrowed<'sessions', SessionFeedOptions> & { authMode: false }

type KeySetting = 'secret' | 'publicKey' | 'privateKey'
/** Options without effect beside `keys`, which `register()` refuses, too. */
type BesideKeys = { [Name in KeySetting | `${'set' | 'get'}${Capitalize<KeySetting>}` | 'getAlgorithm' | 'getTokenCacheSize']?: undefined }
/** An instance has `keys`, or one key that is a setting. */
// Compilers compare wrong options with the last type of a union, or with the one of most parts. This must not be the one with
// "keys": they would point at "secret" instead of the wrong option, where the secret may be undefined.
type KeyMode =
  BesideKeys & Narrowed<'keys', readonly SigningKey[] | (() => MaybePromise<readonly SigningKey[]>)> |
  Absent<'keys'> & { keys?: undefined }

/** The handler `authenticate`, as an option or as a method of a class. Required unless `authMode` is false. */
type LoginMode<User extends object, Claims extends object, Id extends UserId> =
  { authMode: false } |
  { setAuthMode: false | (() => false) } |
  { configurationClass: new () => ConfigurationMembers<GivenUser<User>> & { authMode: false } } |
  { authenticationClass: new () => Authentication<GivenUser<User>, Claims, Id> } |
  { authenticate: NonNullable<Handlers<User, Claims, Id>['authenticate']> }

type OptionsOf<Name extends InstanceName> = Omit<
  InstanceOptions<UserOf<Name>, ClaimsOf<Name>, SessionDataOf<Name>, UserIdOf<Name>>,
  'instanceName' | 'sessions' | 'keys'
> &
  // First of the unions, and with "authenticate" last, so that the compiler names it where it is missing.
  LoginMode<UserOf<Name>, ClaimsOf<Name>, UserIdOf<Name>> &
  SessionMode<UserOf<Name>, SessionDataOf<Name>> &
  KeyMode &
  ('tokenAuth' extends Name ? Partial<Narrowed<'instanceName', Name | undefined>> : Narrowed<'instanceName', Name>)

/** The options of a registration. `instanceName` determines the types of users and claims. */
export type TokenAuthOptions =
  { [Name in Exclude<InstanceName, 'tokenAuth'>]: OptionsOf<Name> }[Exclude<InstanceName, 'tokenAuth'>] | OptionsOf<'tokenAuth'>
