/**
 * Gates in the options of routes. A function that has replaced a guard may call it for some requests only, so the route gets
 * a gate after it, which runs the guard for the other requests. Whether a gate is needed is known when all plugins are
 * loaded: Fastify reads the options then, before any hook of the application can change them.
 */
import { isProtecting } from '../guards/describe.ts'
import { makeGate } from '../wrapped/gate.ts'
import { guardsOf, opensSockets, type FoundGuard, type RouteEntry } from './entry.ts'
import { guardingHooks } from './hooks.ts'

type HookName = typeof guardingHooks[number]

/** Whether a guard needs a gate. A handler that reads the token is not called for a WebSocket. */
function needsGate (entry: RouteEntry, { hook, guard, by, description }: FoundGuard): boolean {
  return by !== guard && isProtecting(description) && !(hook === 'handler' && opensSockets(entry))
}

/** Returns the functions of a hook with gates, each after the function that has replaced guards. */
function withGates (entry: RouteEntry, name: HookName): unknown {
  const own = entry.hooks[name]
  const found = guardsOf(entry).filter((guard) => needsGate(entry, guard))
  const gateOf = (guards: readonly FoundGuard[]) => {
    const enforced = guards.map(({ description }) => description.enforce!())
    return enforced.length === 0 ? [] : [makeGate(enforced)]
  }
  const here = found.filter(({ hook }) => hook === name)
  const functions: unknown[] = own === undefined ? [] : [own].flat()
  const gated = [
    // Hooks of the context run first.
    ...gateOf(here.filter(({ by }) => !functions.includes(by))),
    ...functions.flatMap((item) => [item, ...gateOf(here.filter(({ by }) => by === item))]),
    ...name === 'preHandler' ? gateOf(found.filter(({ hook }) => hook === 'handler')) : []
  ]
  return gated.length === functions.length ? own : gated
}

/** The getters from which Fastify reads the hooks of a route. */
const getters = new WeakMap<RouteEntry, ReadonlyMap<HookName, () => unknown>>()

/** Prepares a route for gates, after all `onRoute` hooks have run: they see and replace hooks without gates. */
export function prepareGates (entry: RouteEntry): void {
  const { route } = entry
  const { onRequest, preValidation, preHandler } = route
  const hooks: Record<HookName, unknown> = { onRequest, preValidation, preHandler }
  const ofRoute = new Map(guardingHooks.map((name) => [name, () => withGates(entry, name)]))
  entry.hooks = hooks as RouteEntry['hooks']
  getters.set(entry, ofRoute)
  // Has no effect on options that the application has frozen.
  for (const [name, get] of ofRoute) {
    Reflect.defineProperty(route, name, {
      configurable: true,
      enumerable: true,
      get,
      set (value) {
        hooks[name] = value
      }
    })
  }
}

/**
 * Returns the guards of a route that protect it, after Fastify has read its hooks: without those whose gate is missing
 * because a plugin has replaced the options. Removes the gates from the options.
 */
export function closeGates (entry: RouteEntry): FoundGuard[] {
  const { route, hooks } = entry
  const found = guardsOf(entry)
  let isGated = true
  for (const name of guardingHooks) {
    const get = getters.get(entry)?.get(name)
    if (get === undefined || Object.getOwnPropertyDescriptor(route, name)?.get !== get) isGated = false
    else Reflect.defineProperty(route, name, { value: hooks[name], writable: true })
  }
  return found.filter((guard) => isGated || !needsGate(entry, guard))
}
