/** The record of one registration, which its guards, endpoints and public face share. */
import { markOwn } from './copies.ts'
import type { Responses } from './http/responses.ts'
import type { Issuing } from './issuing/issuing.ts'
import type { AccessRules } from './request/rules.ts'
import type { Owner } from './request/record.ts'
import type { CredentialKind } from './request/verify.ts'
import type { SessionService } from './sessions/service.ts'
import type { Settings } from './settings/schema.ts'
import type { KeyStatus } from '../types/keys.ts'
import type { RouteAccess } from '../types/routes.ts'

/** The routes of an application, and who may use them. */
export interface RouteReport {
  routes (): RouteAccess[]
  printRoutes (): string
}

/** The keys of a registration as the application controls them. */
export interface KeyControl {
  /** Undefined without the option `keys`. */
  readonly reload: (() => Promise<void>) | undefined
  status (): KeyStatus
}

/** The feed of ended sessions that a registration reads. */
export interface FeedState {
  /** Whether sessions end with this process. */
  readonly isMemory: boolean
  /** Whether the feed has been read since the application started. */
  wasRead (): boolean
}

/** One registration of the plugin, frozen. Key material is reachable through none of its properties. */
export interface Registration extends Owner {
  readonly settings: Readonly<Settings>
  readonly responses: Responses
  readonly issuing: Issuing
  /** The kinds of credentials. The last one, tokens, takes every text, and is another one for guards with another key. */
  readonly kinds: readonly CredentialKind[]
  /** The rules of a logout, at which the handler `trusted` is not asked: whoever is not trusted any more can still log out. */
  readonly logoutRules: AccessRules
  /** The sessions; undefined in the specification's own mode, and with `authMode: false`. */
  readonly sessions: SessionService | undefined
  /** Undefined without the option `sessions`. */
  readonly feed: FeedState | undefined
  /** What the application may do with keys that change over time. */
  readonly keys: KeyControl
  readonly routes: RouteReport
  /** Whether no access token of this registration has scopes, as far as that is known beforehand. */
  readonly lacksScopes: boolean
  /** Whether scopes of a trusted issuer are compared as whole strings, so that a route may require any text. */
  readonly hasExactScopes: boolean
  /** Why a guard answers 503, for the OpenAPI document; undefined where it never does. */
  readonly outage: string | undefined
  /** Prepares the rules of a guard that overrides settings. @throws {InvalidConfiguration} for wrong overrides */
  overrideRules (overrides: Readonly<Record<string, unknown>>): AccessRules
}

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
