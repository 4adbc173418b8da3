/** Finds guards under route options that Fastify ignores, or that run after the handler, so that they do not protect the route. */
import type { FastifyInstance, RouteOptions } from 'fastify'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { isGuard, isInjected } from '../guards/describe.ts'
import { methodsOf, type RouteEntry } from './entry.ts'
import { allHooksOf, guardingHooks, hooksOf } from './hooks.ts'

const guardingOptions: readonly PropertyKey[] = [...guardingHooks, 'handler']
const hooksIn = (route: RouteOptions): unknown[] => guardingOptions.flatMap((name) => Reflect.get(route, name))

/** Whether a value under an option, or among the hooks of a name, is a guard that does not guard there. */
function isMisplaced (name: PropertyKey, value: unknown): boolean {
  return name === 'handler' ? false : guardingOptions.includes(name) ? isInjected(value) : isGuard(value)
}

/** Returns the guards under wrong options of a route, each with the name of its option. */
function misplacedIn (route: RouteOptions): Array<readonly [name: string, guard: unknown]> {
  return Reflect.ownKeys(route).flatMap((name) => [Reflect.get(route, name)].flat(Infinity)
    .filter((value) => isMisplaced(name, value))
    .map((guard) => [String(name), guard] as const))
}

const advice = 'Give it as onRequest, preValidation or preHandler.'
const adviceFor = (guard: unknown) => isInjected(guard) ? 'What injectUser() returns is a route handler: give it as the handler.' : advice

/** @throws {InvalidConfiguration} for a guard under an option of a route, unless the route has it where it guards, too */
function checkRoute ({ route, added, context }: RouteEntry): void {
  for (const [name, guard] of [...misplacedIn(added), ...misplacedIn(route)]) {
    if (!isInjected(guard) && [...hooksIn(added), ...hooksIn(route), ...hooksOf(context)].includes(guard)) continue
    throw new InvalidConfiguration(`The route ${methodsOf(added).join(',')} ${added.url} has a guard as "${name}", where it does not guard. ${adviceFor(guard)}`, { finding: 'E22', page: 'guards.md' })
  }
}

/** @throws {InvalidConfiguration} for a guard among the hooks of a context, such as `onResponse`, in which it does not guard */
function checkContext (context: FastifyInstance): void {
  const guarding = hooksOf(context)
  for (const [name, hooks] of Object.entries(allHooksOf(context))) {
    const guard = [hooks].flat().find((hook) => isMisplaced(name, hook) && (isInjected(hook) || !guarding.includes(hook)))
    if (guard !== undefined) throw new InvalidConfiguration(`A context has a guard as the hook "${name}", where it does not guard. ${adviceFor(guard)}`, { finding: 'E22', page: 'guards.md' })
  }
}

/**
 * Checks that no route has a guard under an option where it has no effect, such as `prehandler` or `onResponse`, and not in a
 * guarding hook as well, and that no context has one among such hooks. Called when the application is ready, because an
 * `onRoute` hook of the application may move the guard to a guarding hook.
 * @throws {InvalidConfiguration}
 */
export function checkMisplacedGuards (entries: readonly RouteEntry[]): void {
  for (const entry of entries) checkRoute(entry)
  for (const context of new Set(entries.map(({ context }) => context))) checkContext(context)
}
