/** Guards that require scopes. */
import type { RouteGenericInterface } from 'fastify'
import type { Guard, RequiredScopes } from '../../types/instance.ts'
import { InsufficientScope } from '../errors.ts'
import { callHost } from '../host/call.ts'
import { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import { areEnough, readComputed, readRequirements } from '../request/scope-question.ts'
import type { RequestState } from '../request/state.ts'
import { explainScope, type Requirement, type ScopeRules } from '../token/scopes.ts'
import { prepareGuard, withCheck, type optionsOfGuards, type ReadOptions } from './options.ts'
import { makeHook } from './run.ts'

type ScopedValues = ReadOptions<typeof optionsOfGuards.scoped>

/** Scopes, or a function that returns the scopes for a request of any type. */
export type AnyScopes = RequiredScopes<RouteGenericInterface, never>

const textsOf = (requirements: readonly Requirement[]) => requirements.map(({ text }) => text)

/** Reads the scopes of `scoped()`. @param anyText as in {@link parseRequirements}. @throws {InvalidConfiguration} */
export function readScopes (scopes: AnyScopes, { requireAll }: ScopedValues, anyText: boolean) {
  const fixed = typeof scopes === 'function' ? undefined : readRequirements(scopes, anyText)
  const texts = fixed && textsOf(fixed)
  return {
    /** Undefined where a function of the application computes them for each request. */
    fixed,
    /** Alternative sets of scopes; null if they are computed. */
    scopeSets: texts === undefined ? null : requireAll ? [texts] : texts.map((text) => [text])
  }
}

/** Returns which requirement a token does not satisfy, and the scopes that it has instead. */
function explain (
  requirements: readonly Requirement[],
  { scopes, authority }: RequestState,
  { override, requireAllActions }: ScopeRules
): string {
  if (override !== undefined) return 'the handler "overrideScopeValidator" did not accept them'
  return requirements.flatMap((required) => explainScope(required, scopes, requireAllActions, authority!.exactScopes) ?? []).join('; ')
}

function insufficientScope (requirements: readonly Requirement[], { requireAll }: ScopeRules, explanation?: string): Refusal {
  const required = textsOf(requirements)
  const reason = `the scopes of the token are not enough for ${required.map((text) => JSON.stringify(text)).join(requireAll ? ' and ' : ' or ')}`
  return new Refusal(
    () => new InsufficientScope(undefined, { required }),
    reason,
    explanation === undefined ? undefined : `${reason}: ${explanation}`
  )
}

/** Caches the result for each token that is in the token cache. Only for results that depend on the token alone. */
function rememberDecisions (hasScopes: (state: RequestState) => boolean): (state: RequestState) => boolean {
  const decisions = new WeakMap<object, boolean>()
  return (state) => {
    const { remembered } = state
    if (remembered === null) return hasScopes(state)
    let decision = decisions.get(remembered)
    if (decision === undefined) {
      decision = hasScopes(state)
      decisions.set(remembered, decision)
    }
    return decision
  }
}

/** Makes a guard that requires scopes. @throws {InvalidConfiguration} for wrong scopes, and for options that contradict the registration */
export function makeScopedGuard (registration: Registration, scopes: AnyScopes, options: ScopedValues): Guard {
  const { requireAll, requireAllActions } = options
  const { hasExactScopes } = registration
  const { fixed, scopeSets } = readScopes(scopes, options, hasExactScopes)
  const guard = prepareGuard(registration, options)
  const { destructureScopes, overrideScopeValidator } = registration.host.handlers
  const rules: ScopeRules = { requireAll, requireAllActions, override: overrideScopeValidator }
  if (fixed !== undefined && destructureScopes === undefined) {
    const followsFromToken = overrideScopeValidator === undefined && !guard.rules.isComputed('scopesName')
    const hasScopes = (state: RequestState) => areEnough(state, fixed, rules)
    const isAllowed = followsFromToken ? rememberDecisions(hasScopes) : hasScopes
    const refusal = insufficientScope(fixed, rules)
    const refuse = (state: RequestState) => (state.settings.debug ? insufficientScope(fixed, rules, explain(fixed, state, rules)) : refusal)
    return makeHook(
      withCheck(guard, (state) => (isAllowed(state) ? null : refuse(state))),
      scopeSets
    )
  }
  return makeHook(
    withCheck(guard, async (state, request) => {
      // The types of the application determine which requests the function accepts.
      let requirements = typeof scopes === 'function'
        ? readComputed('The function passed to scoped()', await callHost('scoped()', () => scopes(request as never)), hasExactScopes)
        : fixed!
      if (destructureScopes !== undefined) {
        const required = textsOf(requirements)
        requirements = readComputed(
          'destructureScopes',
          await callHost('destructureScopes', () => destructureScopes(required)),
          hasExactScopes
        )
      }
      if (areEnough(state, requirements, rules)) return null
      return insufficientScope(requirements, rules, state.settings.debug ? explain(requirements, state, rules) : undefined)
    }),
    scopeSets
  )
}
