/** A guard of a route: a row of {@link RouteAccess}. */
export interface RouteGuard {
  /** The name of the instance that it belongs to. */
  instanceName: string
  /** The hook in which it runs; `handler` for a route handler that `injectUser` made. */
  hook: 'onRequest' | 'preValidation' | 'preHandler' | 'handler'
  /** Whether a request without a token passes, too. */
  isOptional: boolean
  /** Alternative sets of scopes: a token needs all scopes of one set. Empty: none is required. `null`: computed from the request. */
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
   * - `protected`: requests with a valid access token; `scoped`: with the required scopes, too
   * - `optional`: also requests without a token
   * - `other`: something else guards it, which `note` names
   * - `public`: everybody. It has `config: { tokenAuth: false }`, or guards with `doProtection: false` only
   * - `undecided`: it has neither a known guard nor `config.tokenAuth`. Everybody may use it, unless a guard was not recognized
   */
  access: 'public' | 'optional' | 'protected' | 'scoped' | 'other' | 'undecided'
  /** The guards, in the order in which they run. Guards with `doProtection: false` are left out. */
  guards: RouteGuard[]
  /** The text of `config.tokenAuth`, or an empty string. */
  note: string
  /** Where the route was added: `fastify`, or the name or file of a plugin, as Fastify knows it. */
  plugin: string
}
