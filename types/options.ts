import type { ClassView } from '../lib/endpoints/view.ts'
import type { Authentication } from '../lib/host/handlers.ts'
import type { Responses } from '../lib/http/responses.ts'
import type { CustomClaimSource, ExtraVerification, GivenUser, Handlers } from './handlers.ts'
import type { SessionFeedOptions, SessionsOptions } from './sessions.ts'
import type { ClaimsOf, InstanceName, SessionDataOf, UserOf } from './registry.ts'
import type { Optional, SettingGetters, SettingSetters, SettingValues } from './settings.ts'

/** What a configuration class may have: settings as properties, `set<Setting>` and `get<Setting>`. */
export type ConfigurationMembers<User extends object> = SettingValues<User> & SettingSetters<User> & SettingGetters<User>

/** A user as a hook of the host takes it: where no type is declared, the hook may expect any. */
type TakenUser<User extends object> = string extends keyof User ? never : User

/** The options of a registration for users and claims of your own types. */
export interface InstanceOptions<User extends object, Claims extends object, Data extends object = Record<string, unknown>> extends
  Optional<Handlers<User, Claims>>, SettingValues<User>, SettingSetters<User>, SettingGetters<User> {
  /** Claims of your own, in every token. */
  customClaims?: readonly CustomClaimSource<User>[] | undefined
  /** Checks of the whole payload after all others. */
  extraVerifications?: readonly ExtraVerification<Claims>[] | undefined
  /** Additional endpoints under `urlPrefix`. */
  classViews?: readonly ClassView[] | undefined
  /** Sessions: login on several devices, rotating refresh tokens, logout. Without it, refresh works as the specification has it. */
  sessions?: SessionsOptions<GivenUser<User>, Data> | SessionFeedOptions | undefined
  /** Settings as a class. */
  configurationClass?: (new () => ConfigurationMembers<GivenUser<User>>) | undefined
  /** Handlers as methods of a class. */
  authenticationClass?: (new () => Authentication<GivenUser<User>, Claims>) | undefined
  /** What the endpoints answer, as methods of a class. */
  responsesClass?: (new () => Responses<TakenUser<User>, Claims>) | undefined
}

type OptionsOf<Name extends InstanceName> = Omit<InstanceOptions<UserOf<Name>, ClaimsOf<Name>, SessionDataOf<Name>>, 'instanceName'> &
  ('tokenAuth' extends Name ? { instanceName?: Name | undefined } : { instanceName: Name })

/** The options of a registration. `instanceName` decides of which users and claims they speak. */
export type TokenAuthOptions = { [Name in InstanceName]: OptionsOf<Name> }[InstanceName]
