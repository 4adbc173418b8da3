/** Parses scopes, and checks whether the scopes of a token are sufficient (specification, Scope acceptance). */
import { ignoreRejection } from '../promises.ts'

/** A scope: `<namespace>:<action>:<action>...`. The namespace can be empty if there are actions. */
export interface Scope {
  readonly namespace: string
  readonly actions: readonly string[]
}

/** Parses a scope. Returns undefined for a value that is not a string, is empty, or contains white space or an empty action. */
export function parseScope (text: unknown): Scope | undefined {
  if (typeof text !== 'string' || text === '' || /\s/.test(text)) return undefined
  const [namespace = '', ...actions] = text.split(':')
  return actions.includes('') || (namespace === '' && actions.length === 0) ? undefined : { namespace, actions }
}

/**
 * Whether a scope of a token can satisfy a required scope with this namespace: it has the same namespace or, if the required
 * one is empty, any namespace and no actions (rule 3). Called first, so that most scopes of a token need not be parsed.
 */
function canSatisfy (granted: string, namespace: string): boolean {
  if (namespace === '') return granted.indexOf(':') <= 0
  return granted.startsWith(namespace) && (granted.length === namespace.length || granted[namespace.length] === ':')
}

/** Whether a scope of a token satisfies a required scope. @param text the scope of the token, as written */
function satisfies (required: Scope, text: string, requireAllActions: boolean): boolean {
  const granted = canSatisfy(text, required.namespace) ? parseScope(text) : undefined
  if (granted === undefined) return false
  if (granted.actions.length === 0) return true
  if (required.actions.length === 0) return false
  const has = (action: string) => granted.actions.includes(action)
  return requireAllActions ? required.actions.every(has) : required.actions.some(has)
}

/** Returns the scopes in a claim as written. A string contains scopes separated by spaces (RFC 6749 section 3.3). */
export function readScopes (claim: unknown): string[] {
  if (typeof claim === 'string') return claim.split(' ').filter((word) => word !== '')
  return Array.isArray(claim) ? claim.filter((scope) => typeof scope === 'string') : []
}

/** A scope that a route requires, as written and parsed. */
export interface Requirement {
  readonly text: string
  /** Undefined for text of another grammar, which only scopes of trusted issuers can satisfy. */
  readonly scope: Scope | undefined
}

/**
 * Parses the scopes that a route requires: a scope or a list of scopes.
 * @param anyText whether a requirement may be of another grammar: any text that is not blank
 * @returns undefined if the requirement is missing, empty or malformed. Callers must treat it as an error: it must never open a route
 */
export function parseRequirements (required: unknown, anyText = false): Requirement[] | undefined {
  const texts: readonly unknown[] = Array.isArray(required) ? required : [required]
  const requirements: Requirement[] = []
  for (const text of texts) {
    const scope = parseScope(text)
    if (typeof text !== 'string' || (scope === undefined && !(anyText && text.trim() !== ''))) return undefined
    requirements.push({ text, scope })
  }
  return requirements.length === 0 ? undefined : requirements
}

export interface ScopeRules {
  /** Whether all required scopes must be satisfied. If false, one is sufficient. */
  readonly requireAll: boolean
  /** Whether all actions of a required scope must be granted. If false, one is sufficient. */
  readonly requireAllActions: boolean
  /** Replaces the result for each required scope. Only `true` passes. */
  readonly override?:
    ((isValid: boolean, required: string, userScopes: readonly string[], requireAllActions: boolean) => unknown) | undefined
}

/**
 * Explains why the scopes of a token do not satisfy a requirement, for developers.
 * @returns undefined if they satisfy it
 */
export function explainScope (
  { scope, text }: Requirement,
  claim: unknown,
  requireAllActions: boolean,
  isExact = false
): string | undefined {
  const texts = readScopes(claim)
  const quoted = JSON.stringify(text)
  if (isExact) return texts.includes(text) ? undefined : `the token has no scope ${quoted}`
  if (scope === undefined) return `${quoted} is no scope of this instance, so only a token of a trusted issuer can have it`
  const near = texts.filter((granted) => canSatisfy(granted, scope.namespace) && parseScope(granted) !== undefined)
  if (near.some((granted) => satisfies(scope, granted, requireAllActions))) return undefined
  if (near.length === 0) {
    return `${quoted}: the token has no scope ${scope.namespace === '' ? 'without a namespace, or without actions' : `of the namespace ${JSON.stringify(scope.namespace)}`}`
  }
  return near
    .map((granted) => {
      if (scope.actions.length === 0) {
        return `${quoted} requires ${JSON.stringify(scope.namespace)} without actions, but ${JSON.stringify(granted)} allows only its actions`
      }
      const missing = scope.actions.filter((action) => !parseScope(granted)?.actions.includes(action))
      return `${quoted}: ${JSON.stringify(granted)} lacks ${missing.map((action) => JSON.stringify(action)).join(requireAllActions ? ' and ' : ' or ')}`
    })
    .join('; ')
}

/**
 * Whether the scopes of a token satisfy the requirements of a route.
 * @param claim the scopes claim of the token
 * @param isExact whether scopes are compared as whole strings: those of trusted issuers have another grammar, in which `email`
 * does not contain `email:write`
 */
export function areScopesEnough (requirements: readonly Requirement[], claim: unknown, rules: ScopeRules, isExact = false): boolean {
  const texts = readScopes(claim)
  const { override, requireAllActions } = rules
  const isMet = ({ scope, text }: Requirement) => {
    const isValid = isExact
      ? texts.includes(text)
      : scope !== undefined && texts.some((granted) => satisfies(scope, granted, requireAllActions))
    if (override === undefined) return isValid
    const decision = override(isValid, text, texts, requireAllActions)
    if (decision === true) return true
    // A promise is not `true`.
    ignoreRejection(decision)
    return false
  }
  // Every scope is checked, even if the result is clear earlier: the application may rely on all calls of its validator.
  const decisions = requirements.map(isMet)
  return rules.requireAll ? decisions.every(Boolean) : decisions.some(Boolean)
}
