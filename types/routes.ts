/** A guard of a route: a row of {@link RouteAccess}. */
export interface RouteGuard {
  /** The name of the instance that it belongs to. */
  instanceName: string
  /** Where it stands; `handler` for a route handler that `injectUser` made. */
  hook: 'onRequest' | 'preValidation' | 'preHandler' | 'handler'
  /** Whether a request without a token passes, too. */
  isOptional: boolean
  /** The sets of scopes of which one is enough. Empty: none is required. `null`: they are computed from the request. */
  scopes: string[][] | null
}

/** Who may use a route: a row of `fastify.tokenAuth.routes()`. */
export interface RouteAccess {
  /** One HTTP method. A route for several methods has several rows. */
  method: string
  /** The path, with prefixes and parameters, as in `/teams/:id`. */
  url: string
  /**
   * Who may use the route:
   * - `scoped`, `protected`: requests with a valid access token, and with scopes
   * - `optional`: also requests without a token
   * - `other`: something else guards it; `note` says what
   * - `public`: everybody: it has `config: { tokenAuth: false }`, or guards with `doProtection: false` only
   * - `undecided`: it has no guard that is known, and says nothing. Everybody may use it, or a guard is not recognized
   */
  access: 'public' | 'optional' | 'protected' | 'scoped' | 'other' | 'undecided'
  /** The guards, in the order in which they run. Guards with `doProtection: false` are left out. */
  guards: RouteGuard[]
  /** The text of `config.tokenAuth`, or an empty string. */
  note: string
  /** Where the route was added: `fastify`, or the name or file of a plugin, as Fastify knows it. */
  plugin: string
}
