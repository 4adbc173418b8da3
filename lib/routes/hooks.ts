/** The hooks of a context in which guards guard. */
import type { FastifyInstance } from 'fastify'

/** The hooks that run before a route's handler and can keep it from running. */
export const guardingHooks = ['onRequest', 'preValidation', 'preHandler'] as const

/**
 * Returns the guarding hooks that a context has for all its routes. Fastify has no public API for them. Should it rename
 * this symbol, guards of whole contexts are not found, and a test fails.
 */
export function hooksOf (context: FastifyInstance): unknown[] {
  const keys = Object.getOwnPropertySymbols(context).filter(({ description }) => description === 'fastify.hooks')
  return keys.flatMap((key) => guardingHooks.map((name) => Reflect.get(Object(Reflect.get(context, key)), name))).flat()
}
