/** The record of one registration. Its guards, its endpoints and `fastify.tokenAuth` share it. */
import { markOwn } from './copies.ts'
import type { Responses } from './http/responses.ts'
import type { Issuing } from './issuing/issuing.ts'
import type { AccessRules } from './request/rules.ts'
import type { Owner } from './request/record.ts'
import type { CredentialKind } from './request/verify.ts'
import type { SessionService } from './sessions/service.ts'
import type { Settings } from './settings/schema.ts'
import type { KeyStatus } from '../types/keys.ts'
import type { StoreStatus } from '../types/sessions.ts'
import type { RouteAccess } from '../types/routes.ts'

/** The routes of an application and their guards. */
export interface RouteReport {
  routes (): RouteAccess[]
  printRoutes (): string
}

/** Reloads and describes the keys of a registration. */
export interface KeyControl {
  /** Undefined without the option `keys`. */
  readonly reload: (() => Promise<void>) | undefined
  status (): KeyStatus
}

/** The feed of ended sessions that a registration reads. */
export interface FeedState {
  /** Whether the sessions are kept in the memory of this process. */
  readonly isMemory: boolean
  /** Whether the feed has been read since the application started. */
  wasRead (): boolean
}

/** One registration of the plugin, frozen. Key material is reachable through none of its properties. */
export interface Registration extends Owner {
  readonly settings: Readonly<Settings>
  readonly responses: Responses
  readonly issuing: Issuing
  /** The kinds of credentials. The last one, tokens, accepts any text. Guards that override settings replace it. */
  readonly kinds: readonly CredentialKind[]
  /** The rules of a logout. They do not call the handler `trusted`: a user who is no longer trusted can log out. */
  readonly logoutRules: AccessRules
  /** The sessions; undefined without the option `sessions`, and with `authMode: false`. */
  readonly sessions: SessionService | undefined
  /** Undefined without the option `sessions`. */
  readonly feed: FeedState | undefined
  /** Whether this process knows which sessions have ended. */
  storeStatus (): StoreStatus
  /** Reloads and describes the keys. */
  readonly keys: KeyControl
  readonly routes: RouteReport
  /** Whether, according to the options, no access token of this registration has scopes. */
  readonly lacksScopes: boolean
  /** Whether `loginRedirectUrl` is set explicitly: endpoints answer forms with pages. */
  readonly hasLoginPage: boolean
  /** Why a guard may respond with 503, for the OpenAPI document; undefined if it never does. */
  readonly outage: string | undefined
  /** Prepares the rules of a guard that overrides settings. @throws {InvalidConfiguration} for wrong overrides */
  overrideRules (overrides: Readonly<Record<string, unknown>>): AccessRules
}

/** Whether cookies with tokens are ever read. */
export const readsCookies = ({ settings, rules }: Registration): boolean => settings.cookieSet || rules.isComputed('cookieSet')

const registrations = new WeakMap<object, Registration>()

/** Connects a registration with the object that the application sees as `fastify.tokenAuth`. */
export function setRegistration (instance: object, registration: Registration): void {
  markOwn(instance)
  registrations.set(instance, registration)
}

/** Returns the registration behind `fastify.tokenAuth`; undefined for any other value. */
export function registrationOf (instance: unknown): Registration | undefined {
  return typeof instance === 'object' && instance !== null ? registrations.get(instance) : undefined
}
