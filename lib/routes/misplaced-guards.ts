/** Guards among route options that Fastify ignores, or runs after the handler: they look like protection and are none. */
import type { FastifyInstance, RouteOptions } from 'fastify'
import { InvalidConfiguration } from '../errors.ts'
import { isGuard } from '../guards/describe.ts'
import { guardingHooks, hooksOf } from './hooks.ts'

interface Misplaced {
  readonly route: RouteOptions
  readonly context: FastifyInstance
  /** The option under which the guard stands. */
  readonly name: string
  readonly guard: unknown
  /** What guarded the route when it was declared. Plugins such as @fastify/otel wrap hooks later. */
  readonly guarding: readonly unknown[]
}

const guardingOptions: readonly string[] = [...guardingHooks, 'handler']
const guardingIn = (route: RouteOptions): unknown[] => guardingOptions.flatMap((name) => Reflect.get(route, name))

function misplacedIn (route: RouteOptions, context: FastifyInstance): Misplaced[] {
  return Object.entries(route)
    .filter(([name]) => !guardingOptions.includes(name))
    .flatMap(([name, value]) => [value].flat().filter(isGuard).map((guard) => ({ route, context, name, guard, guarding: guardingIn(route) })))
}

const isWatched = Symbol('token-auth.misplacedGuards')

/**
 * Fails the start of an application in which a route has a guard under an option where it does not guard, such as
 * `prehandler` or `onResponse`, and in no guarding hook. Checked when the application is ready, because a hook of the
 * application may move the guard to where it belongs.
 */
export function refuseMisplacedGuards (fastify: FastifyInstance): void {
  // An outer instance watches the routes of this context already.
  if (fastify.hasDecorator(isWatched)) return
  fastify.decorate(isWatched, true)
  const found: Misplaced[] = []
  fastify.addHook('onRoute', function (route) {
    const isFirst = found.length === 0
    found.push(...misplacedIn(route, this))
    if (!isFirst || found.length === 0) return
    fastify.addHook('onReady', async () => {
      for (const { route: { method, url }, route, context, name, guard, guarding } of found) {
        if ([...guarding, ...guardingIn(route), ...hooksOf(context)].includes(guard)) continue
        throw new InvalidConfiguration(`The route ${[method].flat().join(',')} ${url} has a guard as "${name}", where it does not guard. Give it as onRequest, preValidation or preHandler.`, { finding: 'E22', section: 'guards' })
      }
    })
  })
}
