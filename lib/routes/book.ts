/** The book of routes of an application: every route that is added after the first instance, with its guards. */
import type { FastifyInstance } from 'fastify'
import { InvalidConfiguration } from '../configuration-errors.ts'
import type { RouteReport } from '../registration.ts'
import type { RouteAccess } from '../../types/routes.ts'
import { decide, rowsOf } from './access.ts'
import { guardsOf, noteRoute, type RouteEntry } from './entry.ts'
import { contextsIn, watchRoutes } from './hooks.ts'
import { checkMisplacedGuards } from './misplaced-guards.ts'
import { documentGuards } from './openapi.ts'
import { printRows, withoutSecondSpellings } from './report.ts'
import { checkEarlierRoutes, checkRequiredGuards, earlierRoutes } from './required-guards.ts'

const decorator = Symbol('token-auth.routes')

export class RouteBook implements RouteReport {
  readonly #earlier: string
  #entries: RouteEntry[] = []
  #requiring: FastifyInstance[] = []
  #rows: RouteAccess[] | undefined

  constructor (fastify: FastifyInstance) {
    this.#earlier = earlierRoutes(fastify)
    const entries = this.#entries
    // Contexts that exist already do not inherit the hook.
    for (const context of [fastify, ...contextsIn(fastify)]) watchRoutes(context, function (route) { entries.push(noteRoute(route, this)) })
    // Not before: a context may add hooks to routes that it has already, and other plugins change options of routes.
    fastify.addHook('onReady', async () => { this.#close() })
  }

  /** Requires a decision about each route of a context and those below. @throws {InvalidConfiguration} for routes that were added before */
  requireGuards (context: FastifyInstance): void {
    checkEarlierRoutes(this.#earlier)
    this.#requiring.push(context)
  }

  /** @throws {InvalidConfiguration} */
  #close (): void {
    checkMisplacedGuards(this.#entries)
    const routes = this.#entries.map((entry) => {
      const guards = guardsOf(entry)
      documentGuards(entry, guards)
      return decide(entry, guards)
    })
    this.#rows = withoutSecondSpellings(routes.flatMap(rowsOf))
    checkRequiredGuards(routes, this.#requiring)
    // The options of routes and the contexts are not needed any more.
    this.#entries.length = 0
    this.#requiring.length = 0
  }

  /** Returns the rows, which belong to the caller. @throws {InvalidConfiguration} before the application is ready */
  routes (): RouteAccess[] {
    return structuredClone(this.#read())
  }

  /** @throws {InvalidConfiguration} before the application is ready */
  printRoutes (): string {
    return printRows(this.#read())
  }

  #read (): RouteAccess[] {
    if (this.#rows === undefined) throw new InvalidConfiguration('The routes are known when the application is ready. Call "await fastify.ready()" before routes() and printRoutes().', { page: 'guards.md#require-guards' })
    return this.#rows
  }
}

/** Returns the book of an application. The first instance opens it, and nested and later instances find it. */
export function bookOf (fastify: FastifyInstance): RouteBook {
  const found: unknown = Reflect.get(fastify, decorator)
  if (found instanceof RouteBook) return found
  const book = new RouteBook(fastify)
  fastify.decorate(decorator, book)
  return book
}
