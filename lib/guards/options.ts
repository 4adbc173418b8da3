/** The options of guards: read, checked, and prepared for requests. */
import type { FastifyRequest } from 'fastify'
import type { MaybePromise } from '../../types/handlers.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { whenSettled } from '../promises.ts'
import { isPlainObject } from '../values.ts'
import type { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import { isWithoutToken } from '../request/extract.ts'
import type { AccessRules } from '../request/rules.ts'
import { scopeMembers } from '../request/scope-question.ts'
import type { RequestState } from '../request/state.ts'
import { ofSetting } from '../settings/check.ts'
import { checkOverrides, type Overrides } from '../settings/configuration.ts'
import { flag, seconds, type Kind } from '../settings/kinds.ts'
import { optional, optionsOf, preset, readWithOthers, type Members, type Values } from '../settings/records.ts'
import { settingNames } from '../settings/schema.ts'
import { checkTarget } from '../settings/together.ts'
import { prepareLoginAge } from '../token/login-age.ts'
import { prepareRedirect, type Redirect } from './redirect.ts'
import { isAnonymous, prepareRenewal, type Renew } from './renew.ts'

/** Checks a request whose credential is valid. Returns the refusal, or null. */
export type GuardCheck = (state: RequestState, request: FastifyRequest) => MaybePromise<Refusal | null>

/** The parts of a guard. None may be missing: it would be read from a polluted `Object.prototype`. */
export interface PreparedGuard {
  readonly registration: Registration
  readonly rules: AccessRules
  readonly redirect: Redirect
  /** Undefined for a guard that does not renew. */
  readonly renew: Renew | undefined
  /** Checks a request whose credential is valid; undefined for no check. */
  readonly check: GuardCheck | undefined
  /** Whether a refused request passes as anonymous; undefined if none does. */
  readonly isAnonymous: ((state: RequestState, refusal: Refusal) => boolean) | undefined
}

/** Lets anonymous requests pass a guard. */
export const withAnonymous = (guard: PreparedGuard): PreparedGuard =>
  ({ ...guard, isAnonymous: guard.renew === undefined ? (_state, refusal) => isWithoutToken(refusal) : isAnonymous })

/** Adds a check after the other checks of a guard: a login that is too old (401) comes before missing scopes (403). */
export function withCheck (guard: PreparedGuard, check: GuardCheck): PreparedGuard {
  const first = guard.check
  if (first === undefined) return { ...guard, check }
  return { ...guard, check: (state, request) => whenSettled(first(state, request), (refusal) => refusal ?? check(state, request)) }
}

const anyTarget = ofSetting<string>('loginRedirectUrl')
/** The option `redirectUrl`. Its placeholders are checked even without `redirectOnFail`. */
const target: Kind<string> = {
  ...anyTarget,
  read (value) {
    const read = anyTarget.read(value)
    if (typeof read === 'string') checkTarget('redirectUrl', read)
    return read
  }
}

/** The options of every guard, besides overrides of settings. */
const guardMembers = {
  maxAge: optional(seconds(1)),
  redirectOnFail: preset(flag, false),
  redirectUrl: optional(target),
  renew: optional(flag)
} as const

/** The options of each guard. Any other option is refused: a misspelt one could open a route. */
export const optionsOfGuards = {
  protect: { ...guardMembers, optional: preset(flag, false) },
  scoped: { ...guardMembers, ...scopeMembers },
  injectUser: guardMembers
} as const

type GuardName = keyof typeof optionsOfGuards

/** The options of a guard after reading: checked, and without a prototype. */
export type ReadOptions<Table extends Members = typeof guardMembers> = Values<Table> & {
  /** Settings and their values. */
  readonly overrides: Overrides
}

const page = 'guards.md'

const aboutScopes = ' Pass scopes as the first parameter of scoped(), several scopes as a list: scoped(["user", "admin"]).'

/** Text or a list in place of the options is usually meant as scopes. */
const hint = (value: unknown) => typeof value === 'string' || Array.isArray(value) ? aboutScopes : ''

const instead = (name: string) => /^(?:scope|role|permission)s?$/i.test(name) ? aboutScopes : undefined

/**
 * Reads the options of a guard. Only plain objects are accepted: a promise, a Map or an instance of a class may seem to have
 * options that are not read, which would weaken the guard.
 * @param members the members of {@link optionsOfGuards}, and further ones
 * @throws {InvalidConfiguration}
 */
export function readOptions<Table extends Members> (guard: GuardName, members: Table, options: unknown): ReadOptions<Table> {
  if (!isPlainObject(options) && typeof options === 'object' && options !== null && 'raw' in options) {
    throw new InvalidConfiguration(
      'protect, scoped or injectUser was called with a request, because a route has this function itself as its hook or handler. Call the function, and pass its result to the route: { onRequest: app.tokenAuth.protect() }.',
      { page, duringRequest: true }
    )
  }
  const { own, others } = readWithOthers(optionsOf(`${guard}()`), options, {
    members,
    example: '{ leeway: 60 }',
    hint,
    instead,
    page,
    others: { names: settingNames, called: 'the settings' }
  })
  checkOverrides(others)
  return { ...own, overrides: others }
}

/**
 * Prepares the check of the age of a login.
 * @throws {InvalidConfiguration} where no token of the registration would pass
 */
function prepareLogin (
  { settings, rules: registered }: Registration,
  rules: AccessRules,
  maxAge: number | undefined
): GuardCheck | undefined {
  if (maxAge === undefined) return undefined
  // Reads the settings of the registration: overrides of a guard do not change how tokens are issued.
  if (settings.authMode && !settings.claimAuthTime && !registered.isComputed('claimAuthTime')) {
    throw new InvalidConfiguration(
      'A guard has "maxAge", but its instance issues tokens without the time of the login. Set "claimAuthTime" to true in the options of register().',
      { page: 'guards.md' }
    )
  }
  for (const setting of ['userId', 'scopesName'] as const) {
    if (rules.settings[setting] === 'auth_time') {
      throw new InvalidConfiguration(
        `A guard has "maxAge", but "${setting}" is "auth_time", which is the claim with the time of the login. Choose another name.`,
        { page: 'guards.md' }
      )
    }
  }
  const check = prepareLoginAge(maxAge)
  // Called for a valid token only, so there are claims.
  return (state) => check(state.claims!, state.settings.leeway)
}

/**
 * Prepares a guard. Guards that override no setting share the rules of the registration, so that the checks of the
 * application run once for a request. `redirectOnFail` and `maxAge` are not overrides.
 * @throws {InvalidConfiguration} for options that contradict the registration
 */
export function prepareGuard (registration: Registration, options: ReadOptions): PreparedGuard {
  const { overrides, maxAge, redirectOnFail, redirectUrl } = options
  const rules = Object.keys(overrides).length > 0 ? registration.overrideRules(overrides) : registration.rules
  const renew = prepareRenewal(registration, rules, options.renew, redirectOnFail, overrides)
  const redirect = redirectOnFail ? prepareRedirect(redirectUrl) : undefined
  return { registration, rules, redirect, renew, check: prepareLogin(registration, rules, maxAge), isAnonymous: undefined }
}
