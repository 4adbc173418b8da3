/** A route as it was added to an application, and the guards that it has. */
import type { FastifyInstance, RouteOptions } from 'fastify'
import { descriptionOf, guardIn, isGuard, isInjected, type GuardDescription } from '../guards/describe.ts'
import { guardsCalledBy } from '../wrapped/trial.ts'
import { allHooksOf, guardsAddedTo, guardingHooks, listsOf } from './hooks.ts'
import { memberOf } from '../values.ts'

type GuardingHooks = Pick<RouteOptions, typeof guardingHooks[number]>

/** A route, until the application is ready. */
export interface RouteEntry {
  readonly context: FastifyInstance
  /** The options, which other plugins change. */
  readonly route: RouteOptions
  /**
   * A copy of the options when the route was added. Plugins replace hooks and handlers with functions that call them, and
   * Fastify changes the URL for the second spelling of a path.
   */
  readonly added: RouteOptions
  /** The guarding hooks among the options, without gates. */
  hooks: GuardingHooks
}

/** A guard of a route, and the hook in which it runs. */
export interface FoundGuard {
  readonly hook: typeof guardingHooks[number] | 'handler'
  readonly guard: object
  readonly description: GuardDescription
  /**
   * The function that Fastify runs: the guard itself, or one that calls it, perhaps for some requests only. Undefined if the
   * guard is known only from `addHook` of a context.
   */
  readonly by: object | undefined
}

export function noteRoute (route: RouteOptions, context: FastifyInstance): RouteEntry {
  const added = { ...route }
  // A plugin may also change the list in place.
  for (const name of guardingHooks) if (Array.isArray(added[name])) Object.assign(added, { [name]: [...added[name]] })
  return { context, route, added, hooks: route }
}

/** Returns the methods of a route. */
export const methodsOf = ({ method }: RouteOptions): string[] => [method].flat()

/** Whether a route opens WebSockets, with a handler of their own that is called in place of the handler of the route. */
export const opensSockets = ({ added }: RouteEntry): boolean =>
  memberOf(added, 'wsHandler') !== undefined || memberOf(added, 'websocket') === true

const functionsOf = (value: unknown) => [value].flat().filter((item) => typeof item === 'function')

/** Returns the functions of a route that run before its handler. */
const guardingFunctions = (hooks: GuardingHooks) => guardingHooks.flatMap((name) => functionsOf(hooks[name]))

/** Whether an `onRoute` hook has removed or replaced a guard that the route had under any option. */
function hasLostGuard ({ hooks, added }: RouteEntry): boolean {
  const standing = new Set(guardingFunctions(hooks).map(guardIn))
  return Reflect.ownKeys(added).filter((name) => name !== 'handler').flatMap((name) => [memberOf(added, name)].flat(Infinity))
    .some((value) => isGuard(value) && !standing.has(guardIn(value)))
}

/**
 * Returns the functions with which `onRoute` hooks may have replaced guards. Only these functions are called without a
 * request, to find the guards in them.
 */
function replacementsOf (entry: RouteEntry): Set<object> {
  const { route, added } = entry
  const own = new Set(guardingFunctions(added))
  const replaced = hasLostGuard(entry) ? guardingFunctions(entry.hooks).filter((hook) => !own.has(hook)) : []
  const isHandlerReplaced = isGuard(added.handler) && route.handler !== added.handler
  return new Set([...replaced, ...isHandlerReplaced ? [route.handler] : []].filter((value) => !isGuard(value)))
}

/** Returns the guards of a route when the application is ready: until then, a context may add hooks to its existing routes. */
export function guardsOf (entry: RouteEntry): FoundGuard[] {
  const { context, route, hooks } = entry
  const [lists, given] = [listsOf(context), guardsAddedTo(context)]
  const replacements = replacementsOf(entry)
  const guardsIn = (value: object) => replacements.has(value) ? guardsCalledBy(value, context) : [guardIn(value) ?? []].flat()
  const describe = (hook: FoundGuard['hook'], ofContext: unknown, ofRoute: unknown): FoundGuard[] => {
    const found = new Map<object, object | undefined>()
    const note = (guard: object, by?: object) => {
      // The guard itself takes precedence over a function that calls it.
      if (!found.has(guard) || guard === by) found.set(guard, by)
    }
    for (const by of functionsOf(ofContext)) for (const guard of guardsIn(by)) note(guard, by)
    for (const [name, value] of given) if (name === hook) note(guardIn(value)!)
    for (const by of functionsOf(ofRoute)) for (const guard of guardsIn(by)) note(guard, by)
    return [...found].flatMap(([guard, by]) => {
      const description = descriptionOf(guard, context)
      // A handler of `injectUser` guards only as the handler, and any other guard only as a hook, also inside a wrapper.
      const isHandler = isInjected(guard) || description?.isReader === true
      return description === undefined || isHandler !== (hook === 'handler') ? [] : [{ hook, guard, description, by }]
    })
  }
  const guards = guardingHooks.flatMap((name) => describe(name, lists[name], hooks[name]))
  // A handler that reads the token of an instance adds nothing to a guard of that instance, which runs before it.
  const handler = describe('handler', undefined, route.handler)
    .filter(({ description: { registration } }) => !guards.some(({ description }) => description.registration === registration))
  return [...guards, ...handler]
}

/** Returns the functions that run before the handler of a route, including hooks of its context. */
export function functionsBefore ({ context, hooks }: RouteEntry): unknown[] {
  const ofContext = allHooksOf(context)
  return [...guardingHooks.flatMap((name) => [...ofContext.get(name) ?? []]), ...guardingFunctions(hooks)]
}
