import type { ClassView } from '../lib/endpoints/view.ts'
import type { Authentication } from '../lib/host/handlers.ts'
import type { Responses } from '../lib/http/responses.ts'
import type { CustomClaimSource, ExtraVerification, GivenUser, Handlers } from './handlers.ts'
import type { ClaimsOf, InstanceName, UserOf } from './registry.ts'
import type { Optional, SettingGetters, SettingSetters, SettingValues } from './settings.ts'

/** The members of a configuration class: settings as properties, `set<Setting>` and `get<Setting>`. */
export type ConfigurationMembers<User extends object> = SettingValues<User> & SettingSetters<User> & SettingGetters<User>

/** The user parameter of hooks of the application: of any type, unless one is declared. */
type TakenUser<User extends object> = string extends keyof User ? never : User

/** The options of a registration, for given types of users and claims. */
export interface InstanceOptions<User extends object, Claims extends object> extends
  Optional<Handlers<User, Claims>>, SettingValues<User>, SettingSetters<User>, SettingGetters<User> {
  /** Claims of your own. Every token must have them. */
  customClaims?: readonly CustomClaimSource<User>[] | undefined
  /** Checks of the whole payload, after all other checks. */
  extraVerifications?: readonly ExtraVerification<Claims>[] | undefined
  /** Additional endpoints under `urlPrefix`. */
  classViews?: readonly ClassView[] | undefined
  /** A class with settings, as a subclass of {@link Configuration}. */
  configurationClass?: (new () => ConfigurationMembers<GivenUser<User>>) | undefined
  /** A class with handlers as methods, as a subclass of {@link Authentication}. */
  authenticationClass?: (new () => Authentication<GivenUser<User>, Claims>) | undefined
  /** A class with hooks that extend and render responses, as a subclass of {@link Responses}. */
  responsesClass?: (new () => Responses<TakenUser<User>, Claims>) | undefined
}

type OptionsOf<Name extends InstanceName> = Omit<InstanceOptions<UserOf<Name>, ClaimsOf<Name>>, 'instanceName'> &
  ('tokenAuth' extends Name ? { instanceName?: Name | undefined } : { instanceName: Name })

/** The options of a registration. `instanceName` determines the types of users and claims. */
export type TokenAuthOptions = { [Name in InstanceName]: OptionsOf<Name> }[InstanceName]
