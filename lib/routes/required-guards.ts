/** The setting `requireGuards`: an application with a route that has neither a guard nor an exemption does not start. */
import type { FastifyInstance, HTTPMethods } from 'fastify'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { adviceOnCopies } from '../copies.ts'
import { isGuard } from '../guards/describe.ts'
import type { RouteAccess } from '../../types/routes.ts'
import { rowsOf, type RouteWithAccess } from './access.ts'
import { functionsBefore } from './entry.ts'
import { joinHead, undecidedIn } from './report.ts'

const page = 'guards.md#require-guards'

/** Whether a context is the outer context itself, or inside it. */
export const isIn = (context: FastifyInstance, outer: FastifyInstance) =>
  context === outer || Object.prototype.isPrototypeOf.call(outer, context)

/**
 * Returns the routes of an application that were added before the plugin, as a tree; an empty string if there are none.
 * Empty for a nested registration: it does not concern routes of outer contexts.
 */
export function earlierRoutes (fastify: FastifyInstance): string {
  const isRoot = !('register' in Object(Object.getPrototypeOf(fastify)))
  const treeOf = (method?: HTTPMethods) => fastify.printRoutes(method && { method }).replace('(empty tree)', '')
  // @fastify/cors adds OPTIONS routes, which need no guard.
  const hasOthers =
    isRoot && treeOf() !== '' && fastify.supportedMethods.some((method) => method !== 'OPTIONS' && treeOf(method as HTTPMethods) !== '')
  return hasOthers ? treeOf() : ''
}

/** Describes a row in messages. In parentheses: where the route was added. */
export const inWords = ({ method, url, plugin }: RouteAccess) => `${method} ${url} (${plugin})`

/** Returns advice if undecided routes have guards of another copy of the package; otherwise an empty string. */
export const adviceOnGuards = (routes: readonly RouteWithAccess[]): string =>
  adviceOnCopies(
    routes.filter(({ access }) => access === 'undecided').flatMap(({ entry }) => [...functionsBefore(entry), entry.added.handler])
  )

/** @param tree the routes that were added before, as text @throws {InvalidConfiguration} unless it is empty */
export function checkEarlierRoutes (tree: string): void {
  if (tree === '') return
  throw new InvalidConfiguration(
    `"requireGuards" is true, and these routes were added before the plugin, so it does not know whether they have guards:\n${tree.trimEnd()}\nRegister the plugin before routes and plugins with routes, and await its registration.`,
    { finding: 'E21' }
  )
}

/**
 * Checks the routes of the contexts with `requireGuards`.
 * @throws {InvalidConfiguration} for a route with neither a guard nor an exemption, and for one with both
 */
export function checkRequiredGuards (routes: readonly RouteWithAccess[], requiring: readonly FastifyInstance[]): void {
  const covered = routes.filter(({ entry: { context } }) => requiring.some((outer) => isIn(context, outer)))
  const contradiction = covered.find(({ isContradictory }) => isContradictory)
  if (contradiction !== undefined) {
    const [row] = joinHead(rowsOf(contradiction))
    throw new InvalidConfiguration(
      `The route ${row!.method} ${row!.url} has a guard of "${row!.guards[0]!.instanceName}", and "config: { tokenAuth: false }", which says that everybody may use it. The guard applies. Remove one of them. A guard that is a hook of a context guards the endpoints of the plugin in that context too: add it in a context around your own routes.`,
      { page }
    )
  }
  const undecided = undecidedIn(covered.flatMap(rowsOf))
  if (undecided.length === 0) return
  const list = undecided.map((row) => `  ${inWords(row)}`).join('\n')
  const copies = adviceOnGuards(covered)
  const mayBeWrapped =
    copies === '' && covered.some(({ access, entry }) => access === 'undecided' && functionsBefore(entry).some((hook) => !isGuard(hook)))
  const hint = mayBeWrapped
    ? ' Some of them have hooks that the plugin does not recognize. A guard is not recognized if a function of yours calls it, or if a tool has wrapped it, for example for tracing: load such a tool before you create the application, and register this plugin before you add guards.'
    : ''
  throw new InvalidConfiguration(
    `"requireGuards" is true, and these routes have no guard (in parentheses: where they were added):\n${list}\nGive each of them a guard, or say why it needs none: "config: { tokenAuth: false }" if everybody may use it, "config: { tokenAuth: 'basic auth' }" if something else guards it.${copies}${hint}`,
    { finding: 'E20' }
  )
}
