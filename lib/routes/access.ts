/** Who may use a route, by its guards and by `config.tokenAuth`. */
import { InvalidConfiguration } from '../configuration-errors.ts'
import { isProtecting } from '../guards/describe.ts'
import { ownMemberOf, typeName } from '../values.ts'
import type { RouteAccess, RouteGuard } from '../../types/routes.ts'
import { methodsOf, opensSockets, type FoundGuard, type RouteEntry } from './entry.ts'

const nameOf = ({ added }: RouteEntry) => `${methodsOf(added).join(',')} ${added.url}`

/** Reads `config.tokenAuth`. @throws {InvalidConfiguration} unless it is missing, false or a text that is not blank */
function declarationOf (entry: RouteEntry): false | string | undefined {
  const config: object = Object(entry.route.config)
  // Own properties only: `Object.prototype` may be polluted.
  const tokenAuth = ownMemberOf(config, 'tokenAuth')
  if (tokenAuth === undefined || tokenAuth === false || (typeof tokenAuth === 'string' && tokenAuth.trim() !== '')) return tokenAuth
  const given = typeof tokenAuth === 'string' ? 'a string without text' : tokenAuth === true ? 'true' : typeName(tokenAuth)
  throw new InvalidConfiguration(
    `The route ${nameOf(entry)} has a wrong "config.tokenAuth". It must be false, for a route that everybody may use, or a text that says what guards it, such as "basic auth"; given: ${given}. A guard is a hook of the route: { onRequest: app.tokenAuth.protect() }.`,
    { page: 'guards.md#require-guards' }
  )
}

function accessOf (guards: readonly RouteGuard[], declaration: false | string | undefined, hasGuards: boolean): RouteAccess['access'] {
  const required = guards.filter(({ isOptional }) => !isOptional)
  if (required.some(({ scopes }) => scopes === null || scopes.length > 0)) return 'scoped'
  if (required.length > 0) return 'protected'
  if (typeof declaration === 'string') return 'other'
  if (guards.length > 0) return 'optional'
  return declaration === false || hasGuards ? 'public' : 'undecided'
}

/** A route whose access is known. */
export interface RouteWithAccess extends Omit<RouteAccess, 'method'> {
  readonly entry: RouteEntry
  /** Whether it has guards, but also `config: { tokenAuth: false }`. */
  readonly isContradictory: boolean
}

/** @throws {InvalidConfiguration} for a wrong `config.tokenAuth` */
export function accessOfRoute (entry: RouteEntry, found: readonly FoundGuard[]): RouteWithAccess {
  const declaration = declarationOf(entry)
  // A handler that reads the token is not called for a WebSocket.
  const deciding = opensSockets(entry) ? found.filter(({ hook }) => hook !== 'handler') : found
  const guards = deciding
    .filter(({ description }) => isProtecting(description))
    .map(({ hook, description: { registration, isOptional = false, scopeSets } }) => ({
      instanceName: registration.settings.instanceName,
      hook,
      isOptional,
      scopes: scopeSets === null ? null : scopeSets.map((scopes) => [...scopes])
    }))
  const hasGuards = deciding.some(({ description }) => description.isReader !== true)
  // With fastify-plugin, Fastify appends the names of further plugins to that of the context: `<context> -> <plugin>`.
  const [plugin = ''] = entry.context.pluginName.split(' -> ')
  return {
    entry,
    url: entry.added.url,
    access: accessOf(guards, declaration, hasGuards),
    guards,
    note: typeof declaration === 'string' ? declaration : '',
    plugin,
    isContradictory: declaration === false && guards.length > 0
  }
}

/** Returns the rows of a route, one for each of its methods. */
export function rowsOf ({ entry, isContradictory, ...access }: RouteWithAccess): RouteAccess[] {
  return methodsOf(entry.added).map((method) => ({ method, ...access }))
}
