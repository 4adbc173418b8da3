/** The hooks in which guards can protect a route. */
import type { FastifyInstance } from 'fastify'

/** The hooks that run before the handler of a route and can prevent it from running. */
export const guardingHooks = ['onRequest', 'preValidation', 'preHandler'] as const

/**
 * Returns the hooks that a context adds to all of its routes, by name. Fastify has no public API for this. If Fastify renames
 * the symbol, the guards of contexts are not found; a test fails in this case.
 */
export function allHooksOf (context: FastifyInstance): Record<string, unknown> {
  const keys = Object.getOwnPropertySymbols(context).filter(({ description }) => description === 'fastify.hooks')
  return Object.assign({}, ...keys.map((key) => Reflect.get(context, key)))
}

/** Returns the guarding hooks that a context adds to all of its routes. */
export function hooksOf (context: FastifyInstance): unknown[] {
  const hooks = allHooksOf(context)
  return guardingHooks.flatMap((name) => hooks[name])
}
