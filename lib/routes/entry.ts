/** A route as it was added to an application, and the guards that it has. */
import type { FastifyInstance, RouteOptions } from 'fastify'
import { descriptionOf, guardIn, isGuard, isInjected, type GuardDescription } from '../guards/describe.ts'
import { guardsCalledBy } from '../guards/trial.ts'
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
  readonly guard: object
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

/** Returns the functions of a route that run before its handler. */
const guardingFunctions = (route: RouteOptions) => guardingHooks.flatMap((name) => functionsOf(route[name]))

/** Whether an `onRoute` hook has removed or replaced a guard that a route was given, in whatever option. */
function hasLostGuard ({ route, added }: RouteEntry): boolean {
  const standing = new Set(guardingFunctions(route).map(guardIn))
  return Reflect.ownKeys(added).filter((name) => name !== 'handler').flatMap((name) => [Reflect.get(added, name)].flat(Infinity))
    .some((value) => isGuard(value) && !standing.has(guardIn(value)))
}

/**
 * Returns the functions that `onRoute` hooks have put in the place of guards. Only those are called to find guards behind
 * them: no other function of the application is called without a request.
 */
function replacementsOf (entry: RouteEntry): Set<object> {
  const { route, added } = entry
  const own = new Set(guardingFunctions(added))
  const hooks = hasLostGuard(entry) ? guardingFunctions(route).filter((hook) => !own.has(hook)) : []
  const isHandlerReplaced = isGuard(added.handler) && route.handler !== added.handler
  return new Set([...hooks, ...isHandlerReplaced ? [route.handler] : []].filter((value) => !isGuard(value)))
}

/** Returns the guards of a route when the application is ready: until then, a context may add hooks to routes that it has already. */
export function guardsOf (entry: RouteEntry): FoundGuard[] {
  const { context, route } = entry
  const ofContext = allHooksOf(context)
  const replacements = replacementsOf(entry)
  const guardsIn = (value: object) => replacements.has(value) ? guardsCalledBy(value, context) : [guardIn(value) ?? []].flat()
  const describe = (hook: FoundGuard['hook'], functions: readonly object[]) => [...new Set(functions.flatMap(guardsIn))].flatMap((guard) => {
    const description = descriptionOf(guard, context)
    // What stands elsewhere does not guard, even if a function that replaced something calls it.
    const isHandler = isInjected(guard) || description?.isReader === true
    return description === undefined || isHandler !== (hook === 'handler') ? [] : [{ hook, guard, description }]
  })
  const guards = guardingHooks.flatMap((name) => describe(name, [...functionsOf([...ofContext.get(name) ?? []]), ...functionsOf(route[name])]))
  // A handler that reads the token of an instance adds nothing to a guard of that instance, which runs before it.
  const handler = describe('handler', [route.handler])
    .filter(({ description: { registration } }) => !guards.some(({ description }) => description.registration === registration))
  return [...guards, ...handler]
}

/** Whether a function that nothing is known of runs before the handler of a route: a tool may have wrapped a guard in it. */
export function hasUnknownHook ({ context, route }: RouteEntry): boolean {
  const ofContext = allHooksOf(context)
  return [...guardingHooks.flatMap((name) => [...ofContext.get(name) ?? []]), ...guardingFunctions(route)].some((hook) => !isGuard(hook))
}
