/** The grammar of scopes, and when the scopes of a token are enough (specification, Scope acceptance). */

/** `<namespace>:<action>:<action>...`; the namespace may be empty where there are actions. */
export interface Scope {
  readonly namespace: string
  readonly actions: readonly string[]
}

/** A scope, or undefined for what is none: empty, with white space, with an empty action, or not a string. */
export function parseScope (text: unknown): Scope | undefined {
  if (typeof text !== 'string' || text === '' || /\s/.test(text)) return undefined
  const [namespace = '', ...actions] = text.split(':')
  return actions.includes('') || (namespace === '' && actions.length === 0) ? undefined : { namespace, actions }
}

/**
 * Whether a scope of a token could satisfy one of a namespace: it is of the same, or, where none is required, has any and
 * no actions (rule 3). Most do not, and are not worth parsing.
 */
function concerns (granted: string, namespace: string): boolean {
  if (namespace === '') return granted.indexOf(':') <= 0
  return granted.startsWith(namespace) && (granted.length === namespace.length || granted[namespace.length] === ':')
}

/** Whether one scope of a token, as written, satisfies a required one. */
function satisfies (required: Scope, text: string, requireAllActions: boolean): boolean {
  const granted = concerns(text, required.namespace) ? parseScope(text) : undefined
  if (granted === undefined) return false
  if (granted.actions.length === 0) return true
  if (required.actions.length === 0) return false
  const has = (action: string) => granted.actions.includes(action)
  return requireAllActions ? required.actions.every(has) : required.actions.some(has)
}

/** Reads the scopes claim: the strings in it as written. One string is one scope, or several words (RFC 6749 section 3.3). */
export function readScopes (claim: unknown): string[] {
  if (typeof claim === 'string') return claim.split(' ').filter((word) => word !== '')
  return Array.isArray(claim) ? claim.filter((scope) => typeof scope === 'string') : []
}

/** What a route requires, parsed once. */
export interface Requirement {
  readonly text: string
  readonly scope: Scope
}

/**
 * Reads what a route requires: a scope or a list of scopes.
 * @returns undefined where it is missing, empty or malformed, which must never open a route
 */
export function parseRequirements (required: unknown): Requirement[] | undefined {
  const texts: readonly unknown[] = Array.isArray(required) ? required : [required]
  const requirements: Requirement[] = []
  for (const text of texts) {
    const scope = parseScope(text)
    if (scope === undefined || typeof text !== 'string') return undefined
    requirements.push({ text, scope })
  }
  return requirements.length === 0 ? undefined : requirements
}

export interface ScopeRules {
  /** Whether all required scopes must be satisfied, or any one. */
  readonly requireAll: boolean
  /** Whether all actions of a required scope must be granted, or any one. */
  readonly requireAllActions: boolean
  /** Replaces the decision about one required scope; only `true` passes. */
  readonly override?: ((isValid: boolean, required: string, userScopes: readonly string[], requireAllActions: boolean) => unknown) | undefined
}

/** Whether the scopes of a token are enough for what a route requires. */
export function areScopesEnough (requirements: readonly Requirement[], claim: unknown, rules: ScopeRules): boolean {
  const texts = readScopes(claim)
  const { override, requireAllActions } = rules
  const isMet = ({ scope, text }: Requirement) => {
    const isValid = texts.some((granted) => satisfies(scope, granted, requireAllActions))
    if (override === undefined) return isValid
    const decision = override(isValid, text, texts, requireAllActions)
    // A promise is no answer, and one that rejects must not end the process.
    if (decision instanceof Promise) decision.catch(() => {})
    return decision === true
  }
  // Every decision is asked for, also where one is enough: the host may count on its validator being called.
  const decisions = requirements.map(isMet)
  return rules.requireAll ? decisions.every(Boolean) : decisions.some(Boolean)
}
