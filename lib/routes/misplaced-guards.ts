/** Finds guards under route options that Fastify ignores, or that run after the handler, so that they do not protect the route. */
import type { FastifyInstance, RouteOptions } from 'fastify'
import { InvalidConfiguration } from '../errors.ts'
import { isGuard, isInjected } from '../guards/describe.ts'
import { allHooksOf, guardingHooks, hooksOf } from './hooks.ts'

interface MisplacedGuard {
  readonly route: RouteOptions
  readonly context: FastifyInstance
  /** The option of the route that contains the guard. */
  readonly name: string
  readonly guard: unknown
  /** The guarding hooks of the route when it was added. Plugins such as @fastify/otel replace hooks later. */
  readonly hooks: readonly unknown[]
}

const guardingOptions: readonly PropertyKey[] = [...guardingHooks, 'handler']
const hooksIn = (route: RouteOptions): unknown[] => guardingOptions.flatMap((name) => Reflect.get(route, name))

/** Whether a value under an option, or among the hooks of a name, is a guard that does not guard there. */
function isMisplaced (name: PropertyKey, value: unknown): boolean {
  return name === 'handler' ? false : guardingOptions.includes(name) ? isInjected(value) : isGuard(value)
}

function misplacedIn (route: RouteOptions, context: FastifyInstance): MisplacedGuard[] {
  return Reflect.ownKeys(route).flatMap((name) => [Reflect.get(route, name)].flat(Infinity)
    .filter((value) => isMisplaced(name, value))
    .map((guard) => ({ route, context, name: String(name), guard, hooks: hooksIn(route) })))
}

const advice = 'Give it as onRequest, preValidation or preHandler.'
const adviceFor = (guard: unknown) => isInjected(guard) ? 'What injectUser() returns is a route handler: give it as the handler.' : advice

/** @throws {InvalidConfiguration} for a guard under an option of a route, unless the route has it where it guards, too */
function checkRoutes (misplaced: readonly MisplacedGuard[]): void {
  for (const { route: { method, url }, route, context, name, guard, hooks } of misplaced) {
    if (!isInjected(guard) && [...hooks, ...hooksIn(route), ...hooksOf(context)].includes(guard)) continue
    throw new InvalidConfiguration(`The route ${[method].flat().join(',')} ${url} has a guard as "${name}", where it does not guard. ${adviceFor(guard)}`, { finding: 'E22', section: 'guards' })
  }
}

/** @throws {InvalidConfiguration} for a guard among the hooks of a context, such as `onResponse`, in which it does not guard */
function checkContext (context: FastifyInstance): void {
  const guarding = hooksOf(context)
  for (const [name, hooks] of Object.entries(allHooksOf(context))) {
    const guard = [hooks].flat().find((hook) => isMisplaced(name, hook) && (isInjected(hook) || !guarding.includes(hook)))
    if (guard !== undefined) throw new InvalidConfiguration(`A context has a guard as the hook "${name}", where it does not guard. ${adviceFor(guard)}`, { finding: 'E22', section: 'guards' })
  }
}

const isWatched = Symbol('token-auth.misplacedGuards')

/**
 * Makes an application fail to start if a route has a guard under an option where it has no effect, such as `prehandler` or
 * `onResponse`, and not in a guarding hook as well, or if a context has one among such hooks. Checks when the application is
 * ready, because an `onRoute` hook of the application may move the guard to a guarding hook.
 */
export function failOnMisplacedGuards (fastify: FastifyInstance): void {
  // An outer instance watches the routes of this context.
  if (fastify.hasDecorator(isWatched)) return
  fastify.decorate(isWatched, true)
  const misplaced: MisplacedGuard[] = []
  const contexts = new Set<FastifyInstance>()
  fastify.addHook('onRoute', function (route) {
    misplaced.push(...misplacedIn(route, this))
    contexts.add(this)
  })
  fastify.addHook('onReady', async () => {
    checkRoutes(misplaced)
    for (const context of contexts) checkContext(context)
    // The options of routes are not needed any more.
    misplaced.length = 0
    contexts.clear()
  })
}
