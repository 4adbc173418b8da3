/**
 * The hooks of contexts. Fastify has no public API that returns them, so they are observed when they are added, before tools
 * that trace requests wrap them, and read from a property of Fastify with a symbol. If Fastify renames the symbol, guards
 * that contexts had before the plugin are not found, and neither are guards of routes under tools that wrap them: their
 * routes are then undecided. A test fails in this case.
 */
import type { FastifyInstance, onRouteHookHandler } from 'fastify'
import { isGuard } from '../guards/describe.ts'
import { memberOf } from '../values.ts'

/** The hooks that run before the handler of a route and can prevent it from running. */
export const guardingHooks = ['onRequest', 'preValidation', 'preHandler'] as const

/** The guards that contexts were given as hooks, in the order in which they were given. */
const given = new WeakMap<object, Array<readonly [name: string, guard: unknown]>>()

function note (context: object, name: string, hook: unknown): void {
  if (!isGuard(hook)) return
  const noted = given.get(context)
  if (noted === undefined) given.set(context, [[name, hook]])
  else noted.push([name, hook])
}

/**
 * Observes the hooks that a context and those inside are given. Tools replace `addHook` by a function of their own, also
 * later, and call the one that was there before.
 * @param check is called with each hook, and may throw
 */
export function observeHooks (context: FastifyInstance, check: (name: string, hook: unknown) => void, addHook: unknown = context.addHook): void {
  const observe = (inner: unknown) => function (this: object, ...parameters: [name: string, hook: unknown]) {
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

/** Returns the context that all others of an application are inside of. */
export function rootOf (context: FastifyInstance): FastifyInstance {
  const outer = outerOf(context)
  return isContext(outer) ? rootOf(outer) : context
}

/** Returns the guards that a context was given, and inherits, each with the name of its hook. */
export function givenTo (context: FastifyInstance): ReadonlyArray<readonly [name: string, guard: unknown]> {
  const outer = outerOf(context)
  return [...isContext(outer) ? givenTo(outer) : [], ...given.get(context) ?? []]
}

/** Returns the lists of hooks that Fastify keeps for a context, by name. */
export function listsOf (context: FastifyInstance): Record<string, unknown> {
  const keys = Object.getOwnPropertySymbols(context).filter(({ description }) => description === 'fastify.hooks')
  return Object.assign({}, ...keys.map((key) => memberOf(context, key)))
}

/** Returns the hooks that a context adds to all of its routes, by name: each guard as it was given. */
export function allHooksOf (context: FastifyInstance): Map<string, Set<unknown>> {
  const hooks = new Map(Object.entries(listsOf(context)).map(([name, list]) => [name, new Set([list].flat())]))
  for (const [name, guard] of givenTo(context)) hooks.set(name, new Set([...hooks.get(name) ?? [], guard]))
  return hooks
}

/** Returns the guarding hooks that a context adds to all of its routes. */
export function hooksOf (context: FastifyInstance): unknown[] {
  const hooks = allHooksOf(context)
  return guardingHooks.flatMap((name) => [...hooks.get(name) ?? []])
}

/** Returns the contexts inside of one that exist already. */
export function contextsIn (context: FastifyInstance): FastifyInstance[] {
  const keys = Object.getOwnPropertySymbols(context).filter(({ description }) => description === 'fastify.children')
  const children = keys.flatMap((key) => memberOf(context, key) as FastifyInstance[])
  return children.flatMap((child) => [child, ...contextsIn(child)])
}

/** Moves the hook that was added last to the beginning of its list. Not looked up: a tool may have wrapped it. */
function moveFirst (context: FastifyInstance, name: 'onRoute' | 'onReady'): void {
  const list = listsOf(context)[name]
  if (Array.isArray(list)) list.unshift(list.pop())
}

/**
 * Adds an `onRoute` hook that runs before those that were added earlier: plugins such as @fastify/websocket and
 * @fastify/otel replace handlers and hooks in theirs by functions of their own.
 */
export function watchRoutes (context: FastifyInstance, watch: onRouteHookHandler): void {
  context.addHook('onRoute', watch)
  moveFirst(context, 'onRoute')
}

/**
 * Adds an `onReady` hook that runs before those of all contexts: when they run, Fastify has read the hooks of the routes, and
 * what they change has no effect.
 */
export function watchStart (root: FastifyInstance, watch: () => Promise<void>): void {
  root.addHook('onReady', watch)
  moveFirst(root, 'onReady')
}
