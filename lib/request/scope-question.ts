/** Whether a verified token has scopes: for guards, and for `can()` of a request and of a token that was verified in code. */
import { inspect } from 'node:util'
import type { ScopeOptions } from '../../types/instance.ts'
import type { Authority } from '../authorities/authority.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { InvalidScopes } from '../errors.ts'
import { hostError, readHost, wrongResult } from '../host/call.ts'
import { ignoreRejection } from '../promises.ts'
import { flag } from '../settings/kinds.ts'
import { optionsOf, preset, readRecord } from '../settings/records.ts'
import { areScopesEnough, parseRequirements, type Requirement, type ScopeRules } from '../token/scopes.ts'
import { isFunction, memberOf } from '../values.ts'
import type { Owner } from './record.ts'

/** What has scopes: the state of a request with a valid token, or a token that was verified in code. */
export interface ScopeHolder {
  readonly scopes: string[] | null
  readonly authority: Authority | null
}

/** The options that say which of several scopes and actions are required. */
export const scopeMembers = { requireAll: preset(flag, true), requireAllActions: preset(flag, true) }

const errorOptions = { page: 'guards.md#scopes', duringRequest: true } as const
export const canShape = { members: scopeMembers, example: '{ requireAll: false }', ...errorOptions } as const
const byDefault = { requireAll: true, requireAllActions: true }

const grammar = 'A scope has the form "<namespace>:<action>:...", such as "user", "user:read" or ":read", without white space or empty actions. Only scopes of trusted issuers with "exactScopes" may be other text'

/** Describes a value in the place of scopes. */
const shown = (scopes: unknown) => inspect(scopes, { depth: 1, maxArrayLength: 10, maxStringLength: 60, breakLength: Infinity })

/**
 * Reads the scopes that a route requires.
 * @param anyText as in {@link parseRequirements}
 * @throws {InvalidConfiguration} for a requirement that is missing, empty or malformed: it must never open a route
 */
export function readRequirements (scopes: unknown, anyText: boolean): Requirement[] {
  const requirements = parseRequirements(scopes, anyText)
  if (requirements !== undefined) return requirements
  throw new InvalidConfiguration(
    `scoped() requires a scope, a non-empty list of scopes, or a function of the request; given: ${shown(scopes)}. ${grammar}: use the scoped() of their instance, or pass its context as "on".`,
    { page: 'guards.md#scopes' }
  )
}

/** Reads the scopes that are asked for. @throws {InvalidConfiguration} as {@link readRequirements} */
function readAsked (scopes: unknown, anyText: boolean): Requirement[] {
  const requirements = parseRequirements(scopes, anyText)
  if (requirements !== undefined) return requirements
  throw new InvalidConfiguration(`can() requires a scope or a non-empty list of scopes; given: ${shown(scopes)}. ${grammar}.`, errorOptions)
}

/** Reads scopes that a function of the application returned for a request. @throws {InvalidScopes} */
export function readComputed (source: string, scopes: unknown, anyText: boolean): Requirement[] {
  const requirements = parseRequirements(scopes, anyText)
  if (requirements !== undefined) return requirements
  throw new InvalidScopes(`${source} must return a well-formed scope, or a non-empty list of well-formed scopes; it returned ${shown(scopes)}.`)
}

/** Whether a valid token has scopes. @throws {HandlerFailed} */
export function areEnough ({ scopes, authority }: ScopeHolder, requirements: readonly Requirement[], rules: ScopeRules): boolean {
  try {
    // Only a valid token has an authority.
    return areScopesEnough(requirements, scopes, rules, authority!.exactScopes)
  } catch (error) {
    throw hostError('overrideScopeValidator', error)
  }
}

/** Returns a result, but no promise: `if (can(...))` with a promise would let everybody pass. @throws {HandlerFailed} */
function atOnce<Result> (handler: string, result: Result): Result {
  if (!isFunction(memberOf(result, 'then'))) return result
  ignoreRejection(result)
  throw wrongResult(handler, 'its result at once, because can() is synchronous', result)
}

/**
 * Whether a token has scopes, by the rules of `scoped()`.
 * @param holderOf returns the token; called after the scopes were read, so that malformed scopes are found without a token
 * @throws {InvalidConfiguration} for malformed scopes and wrong options
 * @throws {InvalidScopes} {HandlerFailed} if a handler of scopes fails or is asynchronous
 */
export function can (
  { host: { handlers }, hasExactScopes }: Owner,
  scopes: string | readonly string[],
  options: ScopeOptions | undefined,
  holderOf: () => ScopeHolder
): boolean {
  const { requireAll, requireAllActions } = options === undefined ? byDefault : readRecord(optionsOf('can()'), options, canShape)
  let requirements = readAsked(scopes, hasExactScopes)
  const holder = holderOf()
  if (holder.authority === null) return false
  const { destructureScopes, overrideScopeValidator } = handlers
  if (destructureScopes !== undefined) {
    const texts = requirements.map(({ text }) => text)
    const destructured = atOnce('destructureScopes', readHost('destructureScopes', () => destructureScopes(texts)))
    requirements = readComputed('destructureScopes', destructured, hasExactScopes)
  }
  const override: ScopeRules['override'] =
    overrideScopeValidator && ((...given) => atOnce<unknown>('overrideScopeValidator', overrideScopeValidator(...given)))
  return areEnough(holder, requirements, { requireAll, requireAllActions, override })
}
