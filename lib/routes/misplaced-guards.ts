/** Finds guards under route options that Fastify ignores, or that run after the handler, so that they do not protect the route. */
import type { FastifyInstance, RouteOptions } from 'fastify'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { guardIn, isGuard, isInjected, makerIn } from '../guards/describe.ts'
import { methodsOf, type FoundGuard, type RouteEntry } from './entry.ts'
import { allHooksOf, guardingHooks, hooksOf } from './hooks.ts'
import { memberOf } from '../values.ts'

const guardingOptions: readonly PropertyKey[] = [...guardingHooks, 'handler']
const hooksIn = (route: RouteOptions): unknown[] => guardingOptions.flatMap((name) => memberOf(route, name))

/** Whether a value of an option, or of a list of hooks with this name, is a guard that has no effect there. */
function isMisplaced (name: PropertyKey, value: unknown): boolean {
  return name === 'handler' ? false : guardingOptions.includes(name) ? isInjected(value) : isGuard(value)
}

/** Returns the values of the options of a route, with lists flattened, each with the name of its option. */
function valuesIn (route: RouteOptions): Array<readonly [name: PropertyKey, value: unknown]> {
  return Reflect.ownKeys(route).flatMap((name) => [memberOf(route, name)].flat(Infinity).map((value) => [name, value] as const))
}

const nameOf = (route: RouteOptions) => `${methodsOf(route).join(',')} ${route.url}`
const advice = 'Pass it as onRequest, preValidation or preHandler.'
const adviceFor = (guard: unknown) => isInjected(guard) ? 'injectUser() returns a route handler: pass it as the handler.' : advice

/** Creates the error for `protect`, `scoped` or `injectUser` itself in place of a guard: Fastify would call it with a request. */
function uncalled (owner: string, maker: string, name: PropertyKey): InvalidConfiguration {
  const example =
    maker === 'injectUser'
      ? '{ handler: app.tokenAuth.injectUser(handler) }'
      : `{ onRequest: app.tokenAuth.${maker}(${maker === 'scoped' ? "'orders:read'" : ''}) }`
  return new InvalidConfiguration(
    `${owner} has the function ${maker} itself as "${String(name)}". Call the function, and pass its result to the route: ${example}.`,
    { finding: 'E22' }
  )
}

/** @throws {InvalidConfiguration} for a route that has `protect`, `scoped` or `injectUser` itself under an option */
export function checkUncalled (route: RouteOptions): void {
  for (const [name, value] of valuesIn(route)) {
    const maker = makerIn(value)
    if (maker !== undefined) throw uncalled(`The route ${nameOf(route)}`, maker, name)
  }
}

/** As {@link checkUncalled}, for a hook of a context. @throws {InvalidConfiguration} */
export function checkUncalledHook (name: string, hook: unknown): void {
  const maker = makerIn(hook)
  if (maker !== undefined) throw uncalled('A context', maker, name)
}

/** @throws {InvalidConfiguration} for a guard under an option where it has no effect, unless the route has it as a guarding hook, too */
function checkRoute ({ route, added, context }: RouteEntry, found: readonly FoundGuard[]): void {
  checkUncalled(route)
  const standing = new Set<unknown>([
    ...[...hooksIn(added), ...hooksIn(route), ...hooksOf(context)].map(guardIn),
    ...found.map(({ guard }) => guard)
  ])
  const misplaced = [...valuesIn(added), ...valuesIn(route)].find(
    ([name, value]) => isMisplaced(name, value) && (isInjected(value) || !standing.has(guardIn(value)))
  )
  if (misplaced === undefined) return
  const [name, guard] = misplaced
  throw new InvalidConfiguration(
    `The route ${nameOf(added)} has a guard as "${String(name)}", where it does not guard. ${adviceFor(guard)}`,
    { finding: 'E22' }
  )
}

/** @throws {InvalidConfiguration} for a guard among hooks of a context where it has no effect, such as `onResponse` */
function checkContext (context: FastifyInstance): void {
  const guarding = new Set(hooksOf(context).map(guardIn))
  for (const [name, hooks] of allHooksOf(context)) {
    const guard = [...hooks].find((hook) => isMisplaced(name, hook) && (isInjected(hook) || !guarding.has(guardIn(hook))))
    if (guard !== undefined) {
      throw new InvalidConfiguration(`A context has a guard as the hook "${name}", where it does not guard. ${adviceFor(guard)}`, {
        finding: 'E22'
      })
    }
  }
}

/** A route, and the guards that protect it. */
export interface GuardedEntry {
  readonly entry: RouteEntry
  readonly guards: readonly FoundGuard[]
}

/**
 * Checks that no route and no context has a guard only where it has no effect, such as `prehandler` or `onResponse`. Called
 * when the application is ready, because an `onRoute` hook of the application may move the guard to a guarding hook.
 * @throws {InvalidConfiguration}
 */
export function checkMisplacedGuards (routes: readonly GuardedEntry[]): void {
  for (const { entry, guards } of routes) checkRoute(entry, guards)
  for (const context of new Set(routes.map(({ entry }) => entry.context))) checkContext(context)
}
