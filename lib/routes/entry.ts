/** A route as it was added to an application, and the guards that it has. */
import type { FastifyInstance, RouteOptions } from 'fastify'
import { descriptionOf, type GuardDescription } from '../guards/describe.ts'
import { allHooksOf, guardingHooks } from './hooks.ts'

/** A route, until the application is ready. */
export interface RouteEntry {
  readonly context: FastifyInstance
  /** The options, which other plugins change. */
  readonly route: RouteOptions
  /**
   * A copy of the options from the time when the route was added. Plugins replace hooks and handlers by functions that call
   * them, and Fastify changes the URL for the second spelling of a path.
   */
  readonly added: RouteOptions
}

/** A guard of a route, and where it stands. */
export interface FoundGuard {
  readonly hook: typeof guardingHooks[number] | 'handler'
  readonly description: GuardDescription
}

export function noteRoute (route: RouteOptions, context: FastifyInstance): RouteEntry {
  const added = { ...route }
  // A plugin may also change the list itself.
  for (const name of guardingHooks) if (Array.isArray(added[name])) Object.assign(added, { [name]: [...added[name]] })
  return { context, route, added }
}

/** Returns the methods of a route. */
export const methodsOf = ({ method }: RouteOptions): string[] => [method].flat()

const functionsOf = (value: unknown) => [value].flat().filter((item) => typeof item === 'function')

/** Plugins that replace functions of routes by functions of their own, which call them. */
const wrappers = { hooks: ['@fastify/otel'], handler: ['@fastify/otel', '@fastify/websocket'] }

/**
 * Returns the hooks of a route under one name: those of its context, its own, and those that a known plugin has replaced by
 * as many of its own. What anything else has removed or replaced is not there any more.
 */
function hooksNamed (name: typeof guardingHooks[number], { route, added, context }: RouteEntry, ofContext: Record<string, unknown>) {
  const [before, now] = [functionsOf(added[name]), functionsOf(route[name])]
  const areWrapped = now.length >= before.length && wrappers.hooks.some((plugin) => context.hasPlugin(plugin))
  return new Set([...functionsOf(ofContext[name]), ...areWrapped ? before : [], ...now])
}

/** Returns the guards of a route when the application is ready: until then, a context may add hooks to routes that it has already. */
export function guardsOf (entry: RouteEntry): FoundGuard[] {
  const { context, route, added } = entry
  const ofContext = allHooksOf(context)
  const describe = (hook: FoundGuard['hook'], functions: Iterable<object>) => [...functions].flatMap((guard) => {
    const description = descriptionOf(guard, context)
    return description === undefined ? [] : [{ hook, description }]
  })
  const guards = guardingHooks.flatMap((name) => describe(name, hooksNamed(name, entry, ofContext)))
  // A handler that reads the token of an instance adds nothing to a guard of that instance, which runs before it.
  const isWrapped = wrappers.handler.some((plugin) => context.hasPlugin(plugin))
  const handler = describe('handler', new Set([route.handler, ...isWrapped ? [added.handler] : []]))
    .filter(({ description: { registration } }) => !guards.some(({ description }) => description.registration === registration))
  return [...guards, ...handler]
}
