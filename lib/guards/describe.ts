/** What is known of a guard before a request comes: for the OpenAPI document, and to find guards among the options of routes. */
import type { FastifyInstance } from 'fastify'
import type { Registration } from '../registration.ts'
import type { Settings } from '../settings/schema.ts'

/** What a guard asks of a request, as far as that is known beforehand. */
export interface GuardDescription {
  readonly registration: Registration
  readonly settings: Settings
  /** The sets of scopes of which one is enough; one empty set where none is required, or none is known. */
  readonly scopeSets: readonly (readonly string[])[]
  /** Whether a request without a token passes too. */
  readonly isOptional?: boolean
}

/** A free-standing guard knows its registration only in the context of a route. */
type Describe = (context: FastifyInstance) => GuardDescription | undefined

const descriptions = new WeakMap<object, Describe>()

/** Registers what a guard, or a route handler that reads tokens, asks of requests. */
export function describeGuard (guard: object, describe: Describe): void {
  descriptions.set(guard, describe)
}

/** Route handlers made by `injectUser`: as hooks they would answer nothing, and the route's own handler would run. */
const injectedHandlers = new WeakSet<object>()

/** As {@link describeGuard}, for a route handler that `injectUser` made. */
export function describeInjected (handler: object, describe: Describe): void {
  describeGuard(handler, describe)
  injectedHandlers.add(handler)
}

/** Whether a value is a route handler that `injectUser` made. */
export function isInjected (value: unknown): boolean {
  return typeof value === 'function' && injectedHandlers.has(value)
}

/** Whether a value is a guard, or a handler made by `injectUser`. */
export function isGuard (value: unknown): boolean {
  return typeof value === 'function' && descriptions.has(value)
}

/** Returns the description of a guard in the context of a route; undefined for any other function. */
export function descriptionOf (guard: object, context: FastifyInstance): GuardDescription | undefined {
  return descriptions.get(guard)?.(context)
}
