/** Finds guards under route options that Fastify ignores, or that run after the handler, so that they do not protect the route. */
import type { FastifyInstance, RouteOptions } from 'fastify'
import { InvalidConfiguration } from '../errors.ts'
import { isGuard } from '../guards/describe.ts'
import { guardingHooks, hooksOf } from './hooks.ts'

interface MisplacedGuard {
  readonly route: RouteOptions
  readonly context: FastifyInstance
  /** The option of the route that contains the guard. */
  readonly name: string
  readonly guard: unknown
  /** The guarding hooks of the route when it was added. Plugins such as @fastify/otel replace hooks later. */
  readonly hooks: readonly unknown[]
}

const guardingOptions: readonly string[] = [...guardingHooks, 'handler']
const hooksIn = (route: RouteOptions): unknown[] => guardingOptions.flatMap((name) => Reflect.get(route, name))

function misplacedIn (route: RouteOptions, context: FastifyInstance): MisplacedGuard[] {
  return Object.entries(route)
    .filter(([name]) => !guardingOptions.includes(name))
    .flatMap(([name, value]) => [value].flat().filter(isGuard).map((guard) => ({ route, context, name, guard, hooks: hooksIn(route) })))
}

const isWatched = Symbol('token-auth.misplacedGuards')

/**
 * Makes an application fail to start if a route has a guard under an option where it has no effect, such as `prehandler` or
 * `onResponse`, and not in a guarding hook as well. Checks when the application is ready, because an `onRoute` hook of the
 * application may move the guard to a guarding hook.
 */
export function failOnMisplacedGuards (fastify: FastifyInstance): void {
  // An outer instance watches the routes of this context.
  if (fastify.hasDecorator(isWatched)) return
  fastify.decorate(isWatched, true)
  const misplaced: MisplacedGuard[] = []
  fastify.addHook('onRoute', function (route) {
    const isFirst = misplaced.length === 0
    misplaced.push(...misplacedIn(route, this))
    if (!isFirst || misplaced.length === 0) return
    fastify.addHook('onReady', async () => {
      for (const { route: { method, url }, route, context, name, guard, hooks } of misplaced) {
        if ([...hooks, ...hooksIn(route), ...hooksOf(context)].includes(guard)) continue
        throw new InvalidConfiguration(`The route ${[method].flat().join(',')} ${url} has a guard as "${name}", where it does not guard. Give it as onRequest, preValidation or preHandler.`, { finding: 'E22', section: 'guards' })
      }
    })
  })
}
