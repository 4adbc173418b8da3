/** The hooks in which guards can protect a route. */
import type { FastifyInstance } from 'fastify'

/** The hooks that run before the handler of a route and can prevent it from running. */
export const guardingHooks = ['onRequest', 'preValidation', 'preHandler'] as const

/**
 * Returns the guarding hooks that a context adds to all of its routes. Fastify has no public API for this. If Fastify renames
 * the symbol, the guards of contexts are not found; a test fails in this case.
 */
export function hooksOf (context: FastifyInstance): unknown[] {
  const keys = Object.getOwnPropertySymbols(context).filter(({ description }) => description === 'fastify.hooks')
  return keys.flatMap((key) => guardingHooks.map((name) => Reflect.get(Object(Reflect.get(context, key)), name))).flat()
}
