/**
 * The hooks of a context, for which Fastify has no public API. If Fastify renames the symbol, the guards of contexts are not
 * found, and guards that earlier plugins wrap are not recognized: their routes are then undecided. A test fails in this case.
 */
import type { FastifyInstance, onRouteHookHandler } from 'fastify'

/** The hooks that run before the handler of a route and can prevent it from running. */
export const guardingHooks = ['onRequest', 'preValidation', 'preHandler'] as const

/** Returns the hooks that a context adds to all of its routes, by name. */
export function allHooksOf (context: FastifyInstance): Record<string, unknown> {
  const keys = Object.getOwnPropertySymbols(context).filter(({ description }) => description === 'fastify.hooks')
  return Object.assign({}, ...keys.map((key) => Reflect.get(context, key)))
}

/** Returns the guarding hooks that a context adds to all of its routes. */
export function hooksOf (context: FastifyInstance): unknown[] {
  const hooks = allHooksOf(context)
  return guardingHooks.flatMap((name) => hooks[name])
}

/** Returns the contexts inside of one that exist already. */
export function contextsIn (context: FastifyInstance): FastifyInstance[] {
  const keys = Object.getOwnPropertySymbols(context).filter(({ description }) => description === 'fastify.children')
  const children: FastifyInstance[] = keys.flatMap((key) => Reflect.get(context, key))
  return children.flatMap((child) => [child, ...contextsIn(child)])
}

/**
 * Adds an `onRoute` hook that runs before those that were added earlier: plugins such as @fastify/websocket and
 * @fastify/otel replace handlers and hooks in theirs by functions of their own.
 */
export function watchRoutes (context: FastifyInstance, watch: onRouteHookHandler): void {
  context.addHook('onRoute', watch)
  const { onRoute } = allHooksOf(context)
  if (Array.isArray(onRoute)) onRoute.unshift(...onRoute.splice(onRoute.indexOf(watch), 1))
}
