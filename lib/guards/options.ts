/** The options of guards: read, checked, and prepared for requests. */
import type { GuardOptions } from '../../types/instance.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { describeOther, isPlainObject, typeName } from '../values.ts'
import type { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import type { AccessRules } from '../request/rules.ts'
import type { RequestState } from '../request/state.ts'
import { describeValue } from '../settings/check.ts'
import { checkOverrides } from '../settings/configuration.ts'
import { maximumSeconds, redirectTarget, type Settings } from '../settings/schema.ts'
import { prepareLoginAge } from '../token/login-age.ts'

/** Where a guard redirects a request that is not authenticated; undefined for no redirect. */
export type Redirect = ((settings: Settings) => string) | undefined

/** Checks the age of the login of a request whose token is valid. Returns the refusal, or null. */
export type LoginCheck = (state: RequestState) => Refusal | null

/** What a guard is made of: its rules, the age of a login, and what follows from a refusal. */
export interface PreparedGuard {
  readonly registration: Registration
  readonly rules: AccessRules
  readonly redirect: Redirect
  /** Undefined where a login of any age is enough. */
  readonly checkLogin: LoginCheck | undefined
}

/**
 * Copies the options of a guard. Only plain objects are accepted: a promise, a Map or an instance of a class would have
 * fewer options than it seems to have, and so would be a weaker guard.
 * @throws {InvalidConfiguration}
 */
export function readOptions<Options extends object> (options: Options): Options {
  const value: unknown = options
  // Without a prototype: properties of a polluted `Object.prototype` are not options.
  if (isPlainObject(value)) return Object.assign(Object.create(null), value)
  const isObject = typeof value === 'object' && value !== null
  if (isObject && 'raw' in value) {
    throw new InvalidConfiguration('protect, scoped or injectUser was called with a request, because a route has this function itself as its hook or handler. Call the function, and pass its result to the route: { onRequest: app.tokenAuth.protect() }.', { page: 'guards.md', duringRequest: true })
  }
  const hint = typeof value === 'string' || Array.isArray(value) ? ' Pass scopes as the first parameter of scoped(), several scopes as a list: scoped(["user", "admin"]).' : ''
  throw new InvalidConfiguration(`The options of a guard must be a plain object, such as { leeway: 60 }; given: ${describeOther(value)}.${hint}`, { page: 'guards.md' })
}

interface RedirectOptions {
  redirectOnFail?: boolean | undefined
  redirectUrl?: string | undefined
}

const redirectPattern = new RegExp(redirectTarget.pattern!)

/** Prepares where a guard redirects to. @throws {InvalidConfiguration} */
function prepareRedirect ({ redirectOnFail = false, redirectUrl }: RedirectOptions): Redirect {
  if (typeof redirectOnFail !== 'boolean') throw new InvalidConfiguration(`"redirectOnFail" must be true or false; given: ${typeName(redirectOnFail)}.`, { page: 'guards.md' })
  if (redirectUrl !== undefined && !(typeof redirectUrl === 'string' && redirectPattern.test(redirectUrl))) {
    throw new InvalidConfiguration(`"redirectUrl" must be ${redirectTarget.allowed}; given: ${describeValue('loginRedirectUrl', redirectUrl)}.`, { page: 'guards.md' })
  }
  if (!redirectOnFail) return undefined
  return (settings) => redirectUrl ?? settings.loginRedirectUrl
}

/** @throws {InvalidConfiguration} */
function checkMaxAge (maxAge: unknown): void {
  if (maxAge === undefined || (Number.isInteger(maxAge) && Number(maxAge) >= 1 && Number(maxAge) <= maximumSeconds)) return
  const found = typeof maxAge === 'number' ? String(maxAge) : typeName(maxAge)
  throw new InvalidConfiguration(`"maxAge" must be a whole number of seconds from 1 to ${maximumSeconds}; given: ${found}.`, { page: 'guards.md' })
}

/**
 * Prepares the check of the age of a login.
 * @throws {InvalidConfiguration} for a wrong age, and where no token of the registration would pass
 */
function prepareLogin ({ settings, rules: registered }: Registration, rules: AccessRules, maxAge: number | undefined): LoginCheck | undefined {
  checkMaxAge(maxAge)
  if (maxAge === undefined) return undefined
  // Not of the guard's own rules: overrides of a guard change nothing of how tokens are issued.
  if (settings.authMode && !settings.claimAuthTime && !registered.isComputed('claimAuthTime')) {
    throw new InvalidConfiguration('A guard has "maxAge", but its instance issues tokens without the time of the login. Set "claimAuthTime" to true in the options of register().', { page: 'guards.md' })
  }
  for (const setting of ['userId', 'scopesName'] as const) {
    if (rules.settings[setting] === 'auth_time') throw new InvalidConfiguration(`A guard has "maxAge", but "${setting}" is "auth_time", which is the claim with the time of the login. Choose another name.`, { page: 'guards.md' })
  }
  const check = prepareLoginAge(maxAge)
  // Called for a valid token only, so there are claims.
  return (state) => check(state.claims!, state.settings.leeway)
}

const hasOverrides = (overrides: object) => Object.values(overrides).some((value) => value !== undefined)

/**
 * Prepares a guard. Guards that override no setting share the rules of the registration, so that the checks of the
 * application run once for a request. Neither a redirect nor the age of a login is an override.
 * @throws {InvalidConfiguration} for wrong options
 */
export function prepareGuard (registration: Registration, { redirectOnFail, redirectUrl, maxAge, ...overrides }: GuardOptions): PreparedGuard {
  const redirect = prepareRedirect({ redirectOnFail, redirectUrl })
  const rules = hasOverrides(overrides) ? registration.overrideRules({ ...overrides }) : registration.rules
  return { registration, rules, redirect, checkLogin: prepareLogin(registration, rules, maxAge) }
}

/** Checks the options of a free-standing guard, whose registration is not known yet. @throws {InvalidConfiguration} */
export function checkGuardOptions ({ redirectOnFail, redirectUrl, maxAge, ...overrides }: GuardOptions): void {
  prepareRedirect({ redirectOnFail, redirectUrl })
  checkMaxAge(maxAge)
  checkOverrides({ ...overrides })
}
