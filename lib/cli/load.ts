/** Loads an application from a module, and watches its routes from the first one on. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import Fastify, { type FastifyInstance } from 'fastify'
import { memberOf, typeName } from '../values.ts'
import { registrationOf, type Registration } from '../registration.ts'
import { bookOf, type RouteBook } from '../routes/book.ts'

/** An application that was created while a module was loaded. */
export interface WatchedApplication {
  readonly app: FastifyInstance
  readonly book: RouteBook
  /** The registrations that the contexts of routes have. */
  readonly registrations: Set<Registration>
  /** Returns the registrations that the application itself has. */
  ofRoot (): Registration[]
  /** The routes that were added before the root had a registration. */
  readonly early: string[]
  /** Whether the module exports a function with parameters, which is treated as a plugin. */
  readonly isOfPlugin?: boolean
}

/** Returns the registrations that a context has or inherits. */
function registrationsOf (context: object | null): Registration[] {
  if (context === null) return []
  // Values only: a getter of an application is not called.
  const own = Object.values(Object.getOwnPropertyDescriptors(context)).flatMap(({ value }) => registrationOf(value) ?? [])
  return [...own, ...registrationsOf(Object.getPrototypeOf(context))]
}

function watch (app: FastifyInstance): WatchedApplication {
  const ofRoot = () => registrationsOf(app)
  const watched: WatchedApplication = { app, book: bookOf(app), registrations: new Set(), ofRoot, early: [] }
  app.addHook('onRoute', function ({ method, url }) {
    const methods = [method].flat()
    // OPTIONS needs no guard, because preflight requests carry no token.
    if (ofRoot().length === 0 && methods.some((name) => name !== 'OPTIONS')) watched.early.push(`${methods.join(',')} ${url}`)
    for (const registration of registrationsOf(this)) watched.registrations.add(registration)
  })
  return watched
}

const isFunction = (value: unknown): value is (...given: unknown[]) => unknown => typeof value === 'function'

/** Starts what a module exports. @returns the application; undefined where it exports none */
async function start (exported: unknown, watched: readonly WatchedApplication[]): Promise<WatchedApplication | undefined> {
  const find = (value: unknown) => watched.find(({ app }) => app === value)
  const found = find(exported)
  if (found !== undefined) {
    await found.app.ready()
    return found
  }
  if (!isFunction(exported)) return undefined
  // A plugin has parameters. An application that a promise resolves to is ready: applications are thenable.
  if (exported.length === 0) return await start(await exported(), watched)
  const app = Fastify()
  app.register(exported)
  const application = await start(app, watched)
  return application && { ...application, isOfPlugin: true }
}

/**
 * Loads a module and starts the application of its default export: a plugin, a function without parameters that returns an
 * application, or an application.
 * @throws {Error} if the export is none of these, and the errors of the application
 */
export async function load (path: string): Promise<WatchedApplication> {
  const watched: WatchedApplication[] = []
  const listener = (message: unknown) => {
    watched.push(watch(memberOf(message, 'fastify') as FastifyInstance))
  }
  subscribe('fastify.initialization', listener)
  try {
    // A path on Windows is not a URL.
    const module: { default?: unknown } = await import(pathToFileURL(resolve(path)).href)
    // Compilers convert `export default` to a property `default` of the CommonJS exports.
    const inner: unknown = memberOf(module.default, '__esModule') === true ? memberOf(module.default, 'default') : module.default
    const application = await start(inner, watched)
    if (application === undefined) {
      throw new Error(
        `The default export of the module must be a plugin, a function without parameters that returns an application, or an application; given: ${isFunction(inner) ? 'a function that returns something else' : typeName(inner)}.`
      )
    }
    return application
  } finally {
    unsubscribe('fastify.initialization', listener)
  }
}
