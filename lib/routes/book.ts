/** The book of routes of an application: every route that is added after the first instance, with its guards. */
import type { FastifyInstance, RouteOptions } from 'fastify'
import { InvalidConfiguration } from '../configuration-errors.ts'
import type { RouteReport } from '../registration.ts'
import type { RouteAccess } from '../../types/routes.ts'
import { accessOfRoute, rowsOf, type RouteWithAccess } from './access.ts'
import { noteRoute, type RouteEntry } from './entry.ts'
import { closeGates, prepareGates } from './gates.ts'
import { contextsIn, observeHooks, rootOf, watchRoutes, watchStart } from './hooks.ts'
import { checkMisplacedGuards, checkUncalled, checkUncalledHook } from './misplaced-guards.ts'
import { documentGuards } from './openapi.ts'
import { printRows, withoutSecondSpellings } from './report.ts'
import { checkEarlierRoutes, checkRequiredGuards, earlierRoutes } from './required-guards.ts'
import { warnOfOpenRoutes, warnOfUselessScopes, type Watch } from './route-warnings.ts'
import { memberOf } from '../values.ts'

const decorator = Symbol('token-auth.routes')

export class RouteBook implements RouteReport {
  readonly #root: FastifyInstance
  readonly #earlier: string
  #entries: RouteEntry[] = []
  #watches: Watch[] = []
  #rows: RouteAccess[] | undefined

  constructor (fastify: FastifyInstance) {
    this.#root = rootOf(fastify)
    this.#earlier = earlierRoutes(fastify)
    // On the root context: other contexts inherit its `addHook`.
    observeHooks(this.#root, (name, hook) => { this.#check(() => { checkUncalledHook(name, hook) }) })
    const note = (route: RouteOptions, context: FastifyInstance) => {
      this.#check(() => { checkUncalled(route) })
      const entry = noteRoute(route, context)
      this.#entries.push(entry)
      // After all `onRoute` hooks, and before the next plugin is loaded: Fastify waits for microtasks, too.
      queueMicrotask(() => { prepareGates(entry) })
    }
    // Contexts that already exist do not inherit the hook.
    for (const context of [fastify, ...contextsIn(fastify)]) watchRoutes(context, function (route) { note(route, this) })
    // Only at the start: until then, contexts may add hooks to their existing routes, and plugins may change options of routes.
    watchStart(this.#root, async () => { this.#check(() => { this.#close() }) })
  }

  /**
   * Watches the routes of a context and of contexts inside it, for an instance.
   * @param requireGuards undefined if the application has not set it
   * @throws {InvalidConfiguration} if it is true and routes were added before the plugin
   */
  watch (context: FastifyInstance, instanceName: string, requireGuards: boolean | undefined): void {
    if (requireGuards === true) this.#check(() => { checkEarlierRoutes(this.#earlier) })
    this.#watches.push({ context, instanceName, requireGuards })
  }

  /**
   * Runs a check, and closes the application if it throws. Otherwise Fastify would answer the second request by `inject()`,
   * which serverless adapters use: it regards the start as finished.
   */
  #check (check: () => void): void {
    try {
      check()
    } catch (error) {
      this.#root.close().catch(() => {})
      throw error
    }
  }

  /** @throws {InvalidConfiguration} */
  #close (): void {
    const found = this.#entries.map((entry) => ({ entry, guards: closeGates(entry) }))
    checkMisplacedGuards(found)
    const routes: RouteWithAccess[] = found.map(({ entry, guards }) => {
      const route = accessOfRoute(entry, guards)
      documentGuards(entry, guards, route.access === 'public')
      return route
    })
    this.#rows = withoutSecondSpellings(routes.flatMap(rowsOf))
    checkRequiredGuards(routes, this.#watches.filter(({ requireGuards }) => requireGuards === true).map(({ context }) => context))
    warnOfOpenRoutes(routes, this.#watches)
    warnOfUselessScopes(found)
    // The options of routes and the contexts are not needed any more.
    this.#entries.length = 0
    this.#watches.length = 0
  }

  /** Returns a copy of the rows. @throws {InvalidConfiguration} before the application is ready */
  routes (): RouteAccess[] {
    return structuredClone(this.#read())
  }

  /** @throws {InvalidConfiguration} before the application is ready */
  printRoutes (): string {
    return printRows(this.#read())
  }

  #read (): RouteAccess[] {
    if (this.#rows === undefined) {
      throw new InvalidConfiguration(
        'The routes are known when the application is ready. Call "await fastify.ready()" before routes() and printRoutes().',
        { page: 'guards.md#require-guards' }
      )
    }
    return this.#rows
  }
}

/** Returns the book of an application. The first instance opens it, and nested and later instances find it. */
export function bookOf (fastify: FastifyInstance): RouteBook {
  const found = memberOf(fastify, decorator)
  if (found instanceof RouteBook) return found
  const book = new RouteBook(fastify)
  fastify.decorate(decorator, book)
  return book
}
