/** The warnings about routes, when the application is ready. */
import type { FastifyInstance } from 'fastify'
import { warn } from '../warnings.ts'
import { rowsOf, type RouteWithAccess } from './access.ts'
import type { GuardedEntry } from './misplaced-guards.ts'
import { methodsOf } from './entry.ts'
import { undecidedIn } from './report.ts'
import { adviceOnGuards, inWords, isIn } from './required-guards.ts'

/** An instance, the context whose routes it watches, and the setting `requireGuards`; undefined where the application did not set it. */
export interface Watch {
  readonly context: FastifyInstance
  readonly instanceName: string
  readonly requireGuards: boolean | undefined
}

/** How many routes a warning names. */
const named = 5

/** In production, warns of routes with neither a guard nor an exemption, unless the application has set `requireGuards`. */
export function warnOfOpenRoutes (routes: readonly RouteWithAccess[], watches: readonly Watch[]): void {
  if (process.env.NODE_ENV !== 'production') return
  const outerOf = ({ entry }: RouteWithAccess) => watches.filter(({ context }) => isIn(entry.context, context))
  const isSilent = (route: RouteWithAccess) => outerOf(route).some(({ requireGuards }) => requireGuards !== undefined)
  const watched = routes.filter((route) => outerOf(route).length > 0 && !isSilent(route))
  const undecided = undecidedIn(watched.flatMap(rowsOf))
  if (undecided.length === 0) return
  const rest = undecided.length > named ? `, and ${undecided.length - named} more` : ''
  // Each of these routes is in the context of an instance without `requireGuards`.
  const { instanceName } = watches.find(({ requireGuards }) => requireGuards === undefined)!
  warn(
    'W26',
    instanceName,
    ` Routes with neither a guard nor an exemption: ${undecided.length}. ${undecided.slice(0, named).map(inWords).join(', ')}${rest}.${adviceOnGuards(watched)}`
  )
}

/** Warns of guards for scopes that no token can have, once for each instance. */
export function warnOfUselessScopes (routes: readonly GuardedEntry[]): void {
  const warned = new Set<object>()
  for (const { entry: { added }, guards } of routes) {
    for (const { description: { registration, rules, scopeSets } } of guards) {
      const isScoped = scopeSets === null || scopeSets.length > 0
      // A guard with overrides may be for tokens of another issuer.
      if (!isScoped || !registration.lacksScopes || rules !== registration.rules || warned.has(registration)) continue
      warned.add(registration)
      warn('W27', registration.settings.instanceName, ` The first such route: ${methodsOf(added).join(',')} ${added.url}.`)
    }
  }
}
