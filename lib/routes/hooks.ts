/**
 * The hooks of contexts. Fastify has no public API that returns them, so they are observed when they are added, before
 * tracing tools wrap them, and read from a property of Fastify with a symbol. If Fastify renames the symbol, guards that
 * contexts had before the plugin and guards of routes that tools have wrapped are not found: their routes are then
 * undecided. A test fails in this case.
 */
import type { FastifyInstance, onRouteHookHandler } from 'fastify'
import { isGuard } from '../guards/describe.ts'
import { memberOf } from '../values.ts'

/** The hooks that run before the handler of a route and can prevent it from running. */
export const guardingHooks = ['onRequest', 'preValidation', 'preHandler'] as const

/** The guards that were added to contexts as hooks, in order. */
const addedGuards = new WeakMap<object, Array<readonly [name: string, guard: unknown]>>()

function note (context: object, name: string, hook: unknown): void {
  if (!isGuard(hook)) return
  const noted = addedGuards.get(context)
  if (noted === undefined) addedGuards.set(context, [[name, hook]])
  else noted.push([name, hook])
}

/**
 * Observes the hooks that are added to a context and to contexts inside it. A tool may replace `addHook` at any time with a
 * function that calls the previous one.
 * @param check is called with each hook, and may throw
 */
export function observeHooks (
  context: FastifyInstance,
  check: (name: string, hook: unknown) => void,
  addHook: unknown = context.addHook
): void {
  const observe = (inner: unknown) =>
    function (this: object, ...parameters: [name: string, hook: unknown]) {
      check(...parameters)
      const result: unknown = Reflect.apply(inner as () => unknown, this, parameters)
      note(this, ...parameters)
      return result
    }
  let observed = observe(addHook)
  Object.defineProperty(context, 'addHook', {
    configurable: true,
    enumerable: true,
    get: () => observed,
    set (this: FastifyInstance, replaced: unknown) {
      if (this === context) observed = observe(replaced)
      else observeHooks(this, check, replaced)
    }
  })
}

const isContext = (value: unknown): value is FastifyInstance => 'register' in Object(value)
const outerOf = (context: FastifyInstance): unknown => Object.getPrototypeOf(context)

/** Returns the root context of an application. */
export function rootOf (context: FastifyInstance): FastifyInstance {
  const outer = outerOf(context)
  return isContext(outer) ? rootOf(outer) : context
}

/** Returns the guards that were added to a context or that it inherits, each with the name of its hook. */
export function guardsAddedTo (context: FastifyInstance): ReadonlyArray<readonly [name: string, guard: unknown]> {
  const outer = outerOf(context)
  return [...isContext(outer) ? guardsAddedTo(outer) : [], ...addedGuards.get(context) ?? []]
}

/** Returns the lists of hooks that Fastify keeps for a context, by name. */
export function listsOf (context: FastifyInstance): Record<string, unknown> {
  const keys = Object.getOwnPropertySymbols(context).filter(({ description }) => description === 'fastify.hooks')
  return Object.assign({}, ...keys.map((key) => memberOf(context, key)))
}

/** Returns the hooks that a context adds to all of its routes, by name, with each guard as it was added. */
export function allHooksOf (context: FastifyInstance): Map<string, Set<unknown>> {
  const hooks = new Map(Object.entries(listsOf(context)).map(([name, list]) => [name, new Set([list].flat())]))
  for (const [name, guard] of guardsAddedTo(context)) hooks.set(name, new Set([...hooks.get(name) ?? [], guard]))
  return hooks
}

/** Returns the guarding hooks that a context adds to all of its routes. */
export function hooksOf (context: FastifyInstance): unknown[] {
  const hooks = allHooksOf(context)
  return guardingHooks.flatMap((name) => [...hooks.get(name) ?? []])
}

/** Returns the existing contexts inside a context. */
export function contextsIn (context: FastifyInstance): FastifyInstance[] {
  const keys = Object.getOwnPropertySymbols(context).filter(({ description }) => description === 'fastify.children')
  const children = keys.flatMap((key) => memberOf(context, key) as FastifyInstance[])
  return children.flatMap((child) => [child, ...contextsIn(child)])
}

/** Moves the hook that was added last to the beginning of its list. It is not searched for: a tool may have wrapped it. */
function moveFirst (context: FastifyInstance, name: 'onRoute' | 'onReady'): void {
  const list = listsOf(context)[name]
  if (Array.isArray(list)) list.unshift(list.pop())
}

/**
 * Adds an `onRoute` hook that runs before earlier ones: plugins such as @fastify/websocket and @fastify/otel wrap handlers
 * and hooks in theirs.
 */
export function watchRoutes (context: FastifyInstance, watch: onRouteHookHandler): void {
  context.addHook('onRoute', watch)
  moveFirst(context, 'onRoute')
}

/**
 * Adds an `onReady` hook that runs before those of all contexts. Fastify has read the hooks of the routes by then, so later
 * changes have no effect.
 */
export function watchStart (root: FastifyInstance, watch: () => Promise<void>): void {
  root.addHook('onReady', watch)
  moveFirst(root, 'onReady')
}
