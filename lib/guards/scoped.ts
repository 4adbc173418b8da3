/** Guards that require scopes. */
import { inspect } from 'node:util'
import type { Guard, RequiredScopes, ScopedOptions } from '../../types/instance.ts'
import { InsufficientScope, InvalidConfiguration, InvalidScopes } from '../errors.ts'
import { callHost, hostError, typeName } from '../host/call.ts'
import { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import type { RequestState } from '../request/state.ts'
import { areScopesEnough, parseRequirements, type Requirement, type ScopeRules } from '../token/scopes.ts'
import { prepareGuard } from './options.ts'
import { makeHook } from './run.ts'

/** Reads an option of `scoped()` that is true by default. @throws {InvalidConfiguration} */
function readFlag (name: 'requireAll' | 'requireAllActions', value: unknown): boolean {
  if (value === undefined) return true
  if (typeof value === 'boolean') return value
  throw new InvalidConfiguration(`"${name}" of scoped() must be true or false; given: ${typeName(value)}.`, { section: 'scopes' })
}

/**
 * Reads the scopes that a route requires.
 * @throws {InvalidConfiguration} for a requirement that is missing, empty or malformed: it must never open a route
 */
function readRequirements (scopes: unknown): Requirement[] {
  const requirements = parseRequirements(scopes)
  if (requirements !== undefined) return requirements
  const shown = inspect(scopes, { depth: 1, maxArrayLength: 10, maxStringLength: 60, breakLength: Infinity })
  throw new InvalidConfiguration(`scoped() requires a scope, a non-empty list of scopes, or a function of the request; given: ${shown}. A scope has the form "<namespace>:<action>:...", such as "user", "user:read" or ":read", without white space or empty actions.`, { section: 'scopes' })
}

const textsOf = (requirements: readonly Requirement[]) => requirements.map(({ text }) => text)

/** Checks the parameters of `scoped()`, apart from what every guard takes. @throws {InvalidConfiguration} */
export function readScoped (scopes: RequiredScopes, { requireAll, requireAllActions, ...guardOptions }: ScopedOptions) {
  const needsAll = readFlag('requireAll', requireAll)
  const needsAllActions = readFlag('requireAllActions', requireAllActions)
  const fixed = typeof scopes === 'function' ? undefined : readRequirements(scopes)
  const texts = fixed && textsOf(fixed)
  return {
    guardOptions,
    requireAll: needsAll,
    requireAllActions: needsAllActions,
    /** Undefined where a function of the application computes them for each request. */
    fixed,
    /** The sets of scopes of which one is enough; null where they are computed. */
    scopeSets: texts === undefined ? null : needsAll ? [texts] : texts.map((text) => [text])
  }
}

/** Reads scopes that a function of the application returned for a request. @throws {InvalidScopes} */
function readComputed (source: string, scopes: unknown): Requirement[] {
  const requirements = parseRequirements(scopes)
  if (requirements !== undefined) return requirements
  throw new InvalidScopes(`${source} must return a well-formed scope, or a non-empty list of well-formed scopes.`)
}

function areEnough (state: RequestState, requirements: readonly Requirement[], rules: ScopeRules): boolean {
  const { scopes, trusted } = state
  try {
    return areScopesEnough(requirements, scopes, rules, trusted?.exactScopes)
  } catch (error) {
    throw hostError('overrideScopeValidator', error)
  }
}

function insufficientScope (requirements: readonly Requirement[], { requireAll }: ScopeRules): Refusal {
  const required = textsOf(requirements)
  const reason = `the scopes of the token are not enough for ${required.map((text) => JSON.stringify(text)).join(requireAll ? ' and ' : ' or ')}`
  return new Refusal(() => new InsufficientScope(undefined, { required }), reason)
}

/** Remembers the decision for each token that is remembered itself. Only for decisions that follow from the token alone. */
function rememberDecisions (decide: (state: RequestState) => boolean): (state: RequestState) => boolean {
  const decisions = new WeakMap<object, boolean>()
  return (state) => {
    const { remembered } = state
    if (remembered === null) return decide(state)
    let decision = decisions.get(remembered)
    if (decision === undefined) {
      decision = decide(state)
      decisions.set(remembered, decision)
    }
    return decision
  }
}

/** Makes a guard that requires scopes. @throws {InvalidConfiguration} for wrong scopes or options */
export function makeScopedGuard (registration: Registration, scopes: RequiredScopes, options: ScopedOptions): Guard {
  const { requireAll, requireAllActions, fixed, scopeSets, guardOptions } = readScoped(scopes, options)
  const guard = prepareGuard(registration, guardOptions)
  const { destructureScopes, overrideScopeValidator } = registration.host.handlers
  const rules: ScopeRules = { requireAll, requireAllActions, override: overrideScopeValidator }
  if (fixed !== undefined && destructureScopes === undefined) {
    const followsFromToken = overrideScopeValidator === undefined && !guard.rules.isComputed('scopesName')
    const decide = (state: RequestState) => areEnough(state, fixed, rules)
    const isAllowed = followsFromToken ? rememberDecisions(decide) : decide
    const refusal = insufficientScope(fixed, rules)
    return makeHook({ ...guard, check: (state) => isAllowed(state) ? null : refusal }, scopeSets)
  }
  return makeHook({
    ...guard,
    async check (state, request) {
      let requirements = typeof scopes === 'function'
        ? readComputed('The function passed to scoped()', await callHost('scopes', () => scopes(request)))
        : fixed!
      if (destructureScopes !== undefined) {
        const required = textsOf(requirements)
        requirements = readComputed('destructureScopes', await callHost('destructureScopes', () => destructureScopes(required)))
      }
      return areEnough(state, requirements, rules) ? null : insufficientScope(requirements, rules)
    }
  }, scopeSets)
}
