/** Descriptions of guards: for the list of routes, the OpenAPI document, and the search for guards in the options of routes. */
import type { FastifyInstance } from 'fastify'
import { markOwn } from '../copies.ts'
import type { Registration } from '../registration.ts'
import type { AccessRules } from '../request/rules.ts'
import type { EnforcedGuard } from '../wrapped/gate.ts'
import { isFunction, ownMemberOf } from '../values.ts'

/** What a guard requires of a request, as far as it is known before the request. */
export interface GuardDescription {
  readonly registration: Registration
  /** The rules of the guard, with its overrides. */
  readonly rules: AccessRules
  /** Alternative sets of scopes: a token needs all of one set. Empty if none is required; null if they are computed from the request. */
  readonly scopeSets: readonly (readonly string[])[] | null
  /** Whether a request without a token passes too. */
  readonly isOptional?: boolean
  /** Whether it redirects a request without a valid token. */
  readonly isRedirecting?: boolean
  /** Whether it describes the handler of an endpoint that reads the token itself, and not a guard. */
  readonly isReader?: boolean
  /** Returns the guard for a gate, which runs it if another function has replaced it. Undefined for a reader. */
  readonly enforce?: () => EnforcedGuard
}

/** Whether a guard can refuse a request: not with `doProtection: false`. */
export function isProtecting ({ rules, isReader = false }: GuardDescription): boolean {
  return !isReader && (rules.settings.doProtection || rules.isComputed('doProtection'))
}

/** Returns the scopes of a guard in words, such as `reports:write or admin`. */
export function scopesInWords (scopeSets: GuardDescription['scopeSets']): string {
  return scopeSets === null ? '(scopes computed)' : scopeSets.map((scopes) => scopes.join(' and ')).join(' or ')
}

/** Gives a guard a name, such as `tokenAuth.scoped reports:read`, for `fastify.printRoutes({ includeHooks: true })` and traces. */
export function nameGuard (guard: object, instanceName: string, scopeSets: GuardDescription['scopeSets']): void {
  const isScoped = scopeSets === null || scopeSets.length > 0
  Object.defineProperty(guard, 'name', { value: `${instanceName}.${isScoped ? `scoped ${scopesInWords(scopeSets)}` : 'protect'}` })
}

/** A free-standing guard knows its registration only in the context of a route. */
type Describe = (context: FastifyInstance) => GuardDescription | undefined

const descriptions = new WeakMap<object, Describe>()

/** Refers from a guard to itself. Tools that wrap functions often copy properties, so that their wrapper refers to the guard too. */
const original = Symbol('token-auth.guard')

/** Registers the description of a guard, or of a route handler that reads tokens. */
export function describeGuard (guard: object, describe: Describe): void {
  descriptions.set(guard, describe)
  markOwn(guard)
  Object.defineProperty(guard, original, { value: guard })
}

/** Route handlers made by `injectUser`. As a hook, such a handler would send no response, and the handler of the route would run. */
const injectedHandlers = new WeakSet<object>()

/** As {@link describeGuard}, for a route handler that `injectUser` made. */
export function describeInjected (handler: object, describe: Describe): void {
  describeGuard(handler, describe)
  injectedHandlers.add(handler)
}

/** Returns the guard, or described handler, that a function is or has the properties of; undefined for any other value. */
export function guardIn (value: unknown): object | undefined {
  const guard = typeof value === 'function' ? ownMemberOf(value, original) : undefined
  return isFunction(guard) ? guard : undefined
}

/** Whether a value is a guard, or a handler made by `injectUser`. */
export function isGuard (value: unknown): boolean {
  return guardIn(value) !== undefined
}

/** Whether a value is a route handler that `injectUser` made. */
export function isInjected (value: unknown): boolean {
  const guard = guardIn(value)
  return guard !== undefined && injectedHandlers.has(guard)
}

/** Returns the description of a guard in the context of a route; undefined where its instance is not known. */
export function descriptionOf (guard: object, context: FastifyInstance): GuardDescription | undefined {
  return descriptions.get(guard)?.(context)
}

const makers = new WeakMap<object, string>()

/** Registers a function that makes guards, such as `protect`. */
export function declareMaker (maker: object, name: string): void {
  makers.set(maker, name)
}

/** Returns the name of a function that makes guards: `protect`, `scoped` or `injectUser`; undefined for any other value. */
export function makerIn (value: unknown): string | undefined {
  return typeof value === 'function' ? makers.get(value) : undefined
}
