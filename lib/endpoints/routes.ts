/** Adds endpoints as routes: builds their paths, sends their results, renders their errors, and prevents caching. */
import type {
  FastifyInstance,
  FastifyRegisterOptions,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  HTTPMethods,
  onRequestHookHandler,
  RouteOptions
} from 'fastify'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { describeGuard } from '../guards/describe.ts'
import { recordTrial } from '../wrapped/trial.ts'
import { sendRefusal } from '../guards/refuse.ts'
import { isAnswered } from '../host/call.ts'
import { preventStoring } from '../http/caching.ts'
import { setCookies, setLoginCookies } from '../http/cookies.ts'
import { crossOriginDescription, errorSchema, ownSchemas } from '../http/error-schema.ts'
import { oldCookies } from '../http/old-cookies.ts'
import type { Registration } from '../registration.ts'
import { checkOrigin } from '../request/origin.ts'
import { takingRefreshToken } from '../request/refresh-route.ts'
import { openState } from '../request/slot.ts'
import type { RequestState } from '../request/state.ts'
import { acceptBodies, bodyLimitOf, compilers, formMediaType } from './bodies.ts'
import { refuseEarly, type Endpoint, type EndpointSchema, type Result } from './endpoint.ts'
import { nameOperation } from './operation-ids.ts'

/** RFC 6749 section 5.1 requires it of every response with a token. A refusal must not be cached either. */
const noStore: onRequestHookHandler = function (_request, reply, done) {
  preventStoring(reply)
  done()
}

/** Returns both spellings of a path, unless the router of the application answers both by itself. */
function spellings (path: string, strict: boolean, ignoresSlash: boolean): string[] {
  if (strict || ignoresSlash || path.endsWith('*')) return [path]
  const bare = path.endsWith('/') ? path.slice(0, -1) : path
  return bare === '' ? ['/'] : [bare, `${bare}/`]
}

/** Whether the router of an application treats `/x` and `/x/` as one path. */
function ignoresTrailingSlash ({ initialConfig }: FastifyInstance): boolean {
  return (initialConfig.routerOptions?.ignoreTrailingSlash ?? initialConfig.ignoreTrailingSlash) === true
}

/** Refuses requests from other origins in cookie mode. */
const refuseOtherOrigins = (registration: Registration) =>
  refuseEarly(registration, ({ settings }, request) => settings.cookieSet ? checkOrigin(request, settings) : null)

/** Whether cookies are ever read. */
const readsCookies = ({ settings, rules }: Registration) => settings.cookieSet || rules.isComputed('cookieSet')

/**
 * Passes a thrown value on to the next error handler, as Fastify does. `reply.send()` treats only an `Error` of this realm
 * as an error: any other value would become the body of a 200, so the promise must reject with it.
 */
function passOn (thrown: unknown, reply: FastifyReply): unknown {
  return thrown instanceof Error ? reply.send(thrown) : Promise.reject(thrown)
}

/** A route below `urlPrefix`: an endpoint, or a method of a class view. */
export interface PrefixedRoute extends Pick<RouteOptions, 'config' | 'handler' | 'bodyLimit' | 'validatorCompiler' | 'serializerCompiler'> {
  readonly method: HTTPMethods
  readonly path: string
  readonly schema: FastifySchema
  readonly guards: ReadonlyArray<NonNullable<RouteOptions['onRequest']>>
  readonly isForOwnOrigin: boolean
  readonly isCacheable: boolean
  /** Returns the schema for the second spelling of the path, which is hidden: the operation is documented once. */
  readonly hide: (schema: FastifySchema) => FastifySchema
}

/**
 * Adds a route, in both spellings of its path.
 * @param host the context on which the plugin was registered. Its error handler applies, also one that is set later
 * @throws {InvalidConfiguration} for a path that is taken
 */
export function addRoute (context: FastifyInstance, host: FastifyInstance, registration: Registration, route: PrefixedRoute): void {
  const { path, schema, guards, isForOwnOrigin, isCacheable, hide, method, ...options } = route
  const { urlPrefix, strictSlashes, instanceName } = registration.settings
  const originGuards = isForOwnOrigin && readsCookies(registration) ? [refuseOtherOrigins(registration)] : []
  const inherited = host.errorHandler
  const urls = spellings(urlPrefix + (path === '/' && urlPrefix !== '' ? '' : path), strictSlashes, ignoresTrailingSlash(context))
  for (const [index, url] of urls.entries()) {
    if (host.hasRoute({ method, url: context.prefix + url })) {
      throw new InvalidConfiguration(
        `The instance "${instanceName}" cannot add the route ${method} ${context.prefix}${url}, which already exists in this application, perhaps for another instance. Choose another "urlPrefix".`,
        { page: 'instances.md' }
      )
    }
    context.route({
      ...options,
      method,
      url,
      schema: index === 0 ? schema : hide(schema),
      prefixTrailingSlash: strictSlashes ? 'no-slash' : 'both',
      ...(isCacheable && { exposeHeadRoute: true }),
      onRequest: [...(isCacheable ? [] : [noStore]), ...originGuards, ...guards].flat(),
      // An error handler that was set before the route is the next one anyway: called from here, it would log the error twice.
      errorHandler: (error, request, reply) =>
        host.errorHandler === inherited ? passOn(error, reply) : host.errorHandler(error, request, reply)
    })
  }
}

/**
 * Calls a function with a new context, whose hooks and parsers apply to no other route.
 * @param options options of the registration for Fastify, such as `prefix`
 */
export async function inOwnContext (
  host: FastifyInstance,
  options: FastifyRegisterOptions<object>,
  add: (context: FastifyInstance) => void
): Promise<void> {
  const plugin = async (context: FastifyInstance) => {
    add(context)
  }
  // Fastify names a plugin without a name by its source code.
  await host.register(Object.assign(plugin, { [Symbol.for('fastify.display-name')]: 'fastify-token-auth' }), options)
}

/** Calls a function after a response without an error was sent: at once, unless hooks of the application are asynchronous. */
function whenSent ({ raw }: FastifyReply, call: () => void): void {
  const end = () => { if (raw.statusCode < 400) call() }
  if (raw.headersSent) end()
  else raw.on('finish', end)
}

/** Sends the result of a handler, unless the request was answered in the meantime, for example by a timeout. */
function sendResult (result: Result | undefined, { request, settings }: RequestState, reply: FastifyReply): unknown {
  if (result === undefined || isAnswered(request, reply)) return reply
  const { status, body, cookies = [], loginCookies = [], sent } = result
  setCookies(reply, oldCookies(request, settings, [...cookies, ...loginCookies]))
  setCookies(reply, cookies)
  setLoginCookies(reply, loginCookies)
  if (status !== undefined) reply.code(status)
  reply.send(body)
  if (sent !== undefined) whenSent(reply, sent)
  return reply
}

/** Makes the handler of the route of an endpoint. */
function handlerOf (registration: Registration, { row: { readsToken }, begin: start, handler }: Endpoint) {
  const { rules } = registration
  const handle = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    if (recordTrial(request, reply, handle)) return undefined
    const state = start === undefined ? openState(registration, request, rules) : start(request)
    let result
    try {
      result = await handler(state, reply)
    } catch (error) {
      return isAnswered(request, reply) ? reply : await sendRefusal(registration, request, reply, error, state)
    }
    return sendResult(result, state, reply)
  }
  if (readsToken !== undefined) {
    describeGuard(handle, () => ({ registration, rules, scopeSets: [], isOptional: readsToken === 'optional', isReader: true }))
  }
  return handle
}

const crossOriginAnswer = { 403: { description: crossOriginDescription, ...errorSchema } }

/** Documents an endpoint: its operation id, the media type of a form, and its answer to requests from other origins. */
function documented (
  { row: { method, name, bodies }, schema }: Endpoint,
  registration: Registration,
  host: FastifyInstance,
  isOpen: boolean
): EndpointSchema {
  const operationId = nameOperation(host, registration.settings.instanceName, name)
  const response = readsCookies(registration) && method !== 'GET' ? { ...Object(schema.response), ...crossOriginAnswer } : schema.response
  for (const part of [schema.body, schema.querystring, schema.params, ...Object.values(Object(response))]) {
    if (typeof part === 'object' && part !== null) ownSchemas.add(part)
  }
  // Overrides the requirement of the whole document.
  return { operationId, ...(bodies === 'form' && { consumes: [formMediaType] }), ...schema, ...(isOpen && { security: [] }), response }
}

/** Hides a schema in the OpenAPI document, and drops its response schema, which takes 5 KB in Fastify and only documents. */
const hide = ({ response, ...rest }: FastifySchema) => ({ ...rest, hide: true })

function routeOf (context: FastifyInstance, host: FastifyInstance, registration: Registration, endpoint: Endpoint): PrefixedRoute {
  const {
    row: { method, access, readsToken, isForOwnOrigin = false, isCacheable = false, takesRefreshToken = false },
    path,
    guards = []
  } = endpoint
  const isOpen = readsToken === undefined && guards.length === 0
  return {
    method,
    path,
    guards,
    isForOwnOrigin,
    isCacheable,
    schema: documented(endpoint, registration, host, isOpen),
    hide,
    ...compilers(endpoint),
    bodyLimit: bodyLimitOf(context),
    config: { tokenAuth: access, ...(takesRefreshToken && takingRefreshToken) },
    handler: handlerOf(registration, endpoint)
  }
}

/** Adds endpoints, in one context for each kind of bodies. @throws {InvalidConfiguration} */
export async function addEndpoints (
  host: FastifyInstance,
  registration: Registration,
  endpoints: readonly Endpoint[],
  options: FastifyRegisterOptions<object>
): Promise<void> {
  for (const kind of ['json', 'form'] as const) {
    const own = endpoints.filter(({ row: { bodies = 'json' } }) => bodies === kind)
    if (own.length === 0) continue
    await inOwnContext(host, options, (context) => {
      acceptBodies(context, kind)
      for (const endpoint of own) addRoute(context, host, registration, routeOf(context, host, registration, endpoint))
    })
  }
}
