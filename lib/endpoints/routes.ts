/** Adds endpoints as routes: builds their paths, sends their results, renders their errors, and prevents caching. */
import { Type } from '@sinclair/typebox'
import {
  errorCodes,
  type FastifyInstance,
  type FastifyRegisterOptions,
  type FastifyReply,
  type FastifyRequest,
  type FastifySchema,
  type HTTPMethods,
  type onRequestHookHandler,
  type RouteOptions
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
import { readsCookies, type Registration } from '../registration.ts'
import { checkOrigin } from '../request/origin.ts'
import { takingRefreshToken } from '../request/refresh-route.ts'
import { openState } from '../request/slot.ts'
import type { RequestState } from '../request/state.ts'
import { acceptBodies, bodyLimitOf, compilers, mediaTypes, type BodyKind } from './bodies.ts'
import { bodySchema, refuseEarly, type Endpoint, type EndpointSchema, type Result } from './endpoint.ts'
import { isFormOf, refuseForm, takesForms } from './forms.ts'
import { nameOperation } from './operation-ids.ts'
import { ownMemberOf } from '../values.ts'

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

/**
 * Sends the result of a handler, unless the request was answered in the meantime, for example by a timeout.
 * @param page the page with which a form is answered
 */
function sendResult (
  result: Result | undefined,
  { request, settings }: RequestState,
  reply: FastifyReply,
  page: string | undefined
): unknown {
  if (result === undefined || isAnswered(request, reply)) return reply
  const { status, body, cookies = [], loginCookies = [], sent } = result
  setCookies(reply, oldCookies(request, settings, [...cookies, ...loginCookies]))
  setCookies(reply, cookies)
  setLoginCookies(reply, loginCookies)
  if (page !== undefined) return reply.redirect(page, 303)
  if (status !== undefined) reply.code(status)
  reply.send(body)
  if (sent !== undefined) whenSent(reply, sent)
  return reply
}

/** Makes the handler of the route of an endpoint. */
function handlerOf (registration: Registration, { row: { readsToken, bodies }, begin: start, handler, pageAfter }: Endpoint) {
  const { rules } = registration
  const mayBeForm = bodies === 'either' && takesForms(registration)
  const handle = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    if (recordTrial(request, reply, handle)) return undefined
    const state = start === undefined ? openState(registration, request, rules) : start(request)
    const isForm = mayBeForm && isFormOf(registration, request)
    let result
    let page
    try {
      // A getter may turn cookie mode off, and a form is only for browsers with cookies.
      if (isForm && !state.settings.cookieSet) throw new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE()
      result = await handler(state, reply, isForm)
      if (isForm) page = pageAfter!(state)
    } catch (error) {
      if (isAnswered(request, reply)) return reply
      return isForm
        ? refuseForm(registration, request, reply, error, state, 'refused')
        : await sendRefusal(registration, request, reply, error, state)
    }
    return sendResult(result, state, reply, page)
  }
  if (readsToken !== undefined) {
    describeGuard(handle, () => ({ registration, rules, scopeSets: [], isOptional: readsToken === 'optional', isReader: true }))
  }
  return handle
}

const crossOriginAnswer = { 403: { description: crossOriginDescription, ...errorSchema } }

/** Returns which bodies an endpoint accepts. */
function kindOf (registration: Registration, { row: { bodies = 'json' } }: Endpoint): BodyKind {
  return bodies === 'either' && !takesForms(registration) ? 'json' : bodies
}

/** Documents the field of a form that says which page comes next. */
const withNext = (body: unknown) =>
  bodySchema({
    ...Object(ownMemberOf(body, 'properties')),
    next: Type.Optional(Type.String({ description: 'In a form: the path of the next page.' }))
  }, { description: 'JSON, or a form of a page.' })

/** Documents the page with which a form is answered. */
const pageAnswer = { 303: { description: 'The answer to a form: the next page, or the login page if it was refused.', type: 'null' } }

/** Documents an endpoint: its operation id, the media types of its body, and its answer to requests from other origins. */
function documented (
  endpoint: Endpoint,
  registration: Registration,
  host: FastifyInstance,
  isOpen: boolean
): EndpointSchema {
  const { row: { method, name }, schema } = endpoint
  const kind = kindOf(registration, endpoint)
  const operationId = nameOperation(host, registration.settings.instanceName, name)
  const response = {
    ...Object(schema.response),
    ...(readsCookies(registration) && method !== 'GET' && crossOriginAnswer),
    ...(kind === 'either' && pageAnswer)
  }
  const body = kind === 'either' ? withNext(schema.body) : schema.body
  for (const part of [body, schema.querystring, schema.params, ...Object.values(Object(response))]) {
    if (typeof part === 'object' && part !== null) ownSchemas.add(part)
  }
  // Overrides the requirement of the whole document.
  return { operationId, ...(kind !== 'json' && { consumes: mediaTypes[kind] }), ...schema, ...(body !== undefined && { body }), ...(isOpen && { security: [] }), response }
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
    ...compilers(kindOf(registration, endpoint), endpoint.isBodyOptional, endpoint.faultOfQuery),
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
  for (const kind of ['json', 'form', 'either'] as const) {
    const own = endpoints.filter((endpoint) => kindOf(registration, endpoint) === kind)
    if (own.length === 0) continue
    await inOwnContext(host, options, (context) => {
      acceptBodies(context, kind)
      for (const endpoint of own) addRoute(context, host, registration, routeOf(context, host, registration, endpoint))
    })
  }
}
