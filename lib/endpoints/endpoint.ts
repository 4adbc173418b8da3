/** What all endpoints share: their paths, which bodies they accept, how their errors are rendered, and that responses are not cached. */
import { Type, type TSchema } from '@sinclair/typebox'
import { errorCodes, type FastifyInstance, type FastifyRegisterOptions, type FastifyReply, type FastifyRequest, type FastifySchema, type HTTPMethods, type onRequestAsyncHookHandler, type onRequestHookHandler } from 'fastify'
import type { Guard } from '../../types/instance.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { describeGuard } from '../guards/describe.ts'
import { sendRefusal } from '../guards/refuse.ts'
import { isTrial } from '../guards/trial.ts'
import { isAnswered } from '../host/call.ts'
import { crossOriginDescription, errorSchema } from '../http/error-schema.ts'
import { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import { checkOrigin } from '../request/origin.ts'
import { begin } from '../request/slot.ts'
import type { RequestState } from '../request/state.ts'
import type { Settings } from '../settings/schema.ts'

/** A schema with what OpenAPI documents of a route. */
interface EndpointSchema extends FastifySchema {
  summary?: string
  description?: string
  tags?: readonly string[]
}

/** A route of the plugin. */
export interface Endpoint {
  readonly method: HTTPMethods
  /** Path below `urlPrefix`. */
  readonly path: string
  readonly schema: EndpointSchema
  /** What `config.tokenAuth` says of it: false if everybody may use it, or what guards it. Undefined for an endpoint with guards. */
  readonly access?: false | string | undefined
  /** Whether it is a class view: body, schema and compilers are those of the application. */
  readonly isView?: boolean
  /** For the OpenAPI document: whether it requires an access token without a guard, or accepts one. */
  readonly readsToken?: 'required' | 'optional'
  /** Whether it is not for pages of other origins in cookie mode, even if they send no cookie: they could log somebody in as another user, or out. */
  readonly refusesOtherOrigins?: boolean
  /** Whether its answer may be cached, with a `Cache-Control` of its own, so that it answers HEAD, too. */
  readonly isCacheable?: boolean
  /** Whether it accepts a request without a body. */
  readonly isBodyOptional?: boolean
  /** Describes what is wrong with the query of a request; undefined for nothing. Default: any query is accepted. */
  readonly faultOfQuery?: (query: unknown) => string | undefined
  /** Hooks that a request passes before its body is read. */
  readonly guards?: ReadonlyArray<Guard | onRequestAsyncHookHandler>
  readonly handler: (request: FastifyRequest, reply: FastifyReply) => unknown
}

/** Creates the schema of a body with fields whose names are settings, open for what hooks add. */
export function bodySchema (properties: Record<string, TSchema>, options: object = {}): TSchema {
  return Type.Object(properties, { additionalProperties: true, ...options })
}

/** Documents the answer of an endpoint that reads tokens while what it needs for that is not available; nothing where that cannot happen. */
export const unavailable = ({ outage }: Registration): Record<number, object> => outage === undefined ? {} : { 503: { description: outage, ...errorSchema } }

interface IssuedTokens { accessToken: string, refreshToken?: string | undefined }

/** Returns the fields of a body that carry tokens. With `tokensInBody: false` in cookie mode there are none. */
export function tokenFields ({ accessToken, refreshToken }: IssuedTokens, settings: Settings): Record<string, unknown> {
  if (settings.cookieSet && !settings.tokensInBody) return {}
  return { [settings.accessTokenName]: accessToken, ...(refreshToken !== undefined && { [settings.refreshTokenName]: refreshToken }) }
}

/** Returns the properties of {@link tokenFields} for a schema. */
export function tokenProperties (names: readonly string[], { tokensInBody }: Settings): Record<string, TSchema> {
  return tokensInBody ? Object.fromEntries(names.map((name) => [name, Type.String()])) : {}
}

/** RFC 6749 section 5.1 requires it of every response with a token. A refusal must not be cached either. */
const noStore: onRequestHookHandler = function (_request, reply, done) {
  reply.header('cache-control', 'no-store')
  done()
}

/** In bytes. Credentials and refresh tokens are small, and anybody may send a body to these endpoints. */
const maximumBody = 16_384

const jsonType = /^[\w!#$&^.+-]+\/(?:[\w!#$&^.-]+\+)?json\s*(?:;|$)/i

/**
 * Makes a context accept JSON bodies only, whatever parsers the application has added: a form of another site, which needs
 * no permission from a browser's CORS rules, must not log anybody in. An empty body passes with any media type; the
 * validator decides whether the endpoint needs one.
 */
function acceptJsonOnly (context: FastifyInstance): void {
  const parseJson = context.getDefaultJsonParser('error', 'error')
  context.removeAllContentTypeParsers()
  context.addContentTypeParser<string>(jsonType, { parseAs: 'string' }, (request, body, done) => {
    if (body === '') done(null, undefined)
    else parseJson(request, body, done)
  })
  context.addContentTypeParser<string>('*', { parseAs: 'string' }, (_request, body, done) => {
    if (body === '') done(null, undefined)
    else done(new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE())
  })
}

/** Serializes a body. Errors of Fastify itself are serialized here too, where a route documents their status. */
function serialize (body: unknown): string {
  if (!(body instanceof Error)) return JSON.stringify(body)
  const { statusCode, code, error, message } = body as Error & { statusCode?: number, code?: string, error?: string }
  return JSON.stringify({ statusCode, code, error, message })
}

/**
 * Bodies of endpoints are validated and serialized here, not by the compilers of the application: those may expect schemas
 * of another library, and an application that replaces them must not change what an endpoint accepts. The schemas document
 * the routes.
 */
function compilers ({ isBodyOptional = false, isView = false, faultOfQuery }: Endpoint) {
  if (isView) return {}
  return {
    validatorCompiler: ({ httpPart }: { httpPart?: string | undefined }) => (data: unknown) => {
      // Fastify passes null for a missing body too.
      const fault = httpPart === 'querystring' ? faultOfQuery?.(data) : undefined
      if (fault !== undefined) return { error: new Error(`querystring${fault}`) }
      const accepted = httpPart !== 'body' || (data === null ? isBodyOptional : typeof data === 'object' && !Array.isArray(data))
      return accepted ? { value: data } : { error: new Error('body must be a JSON object') }
    },
    serializerCompiler: () => serialize
  }
}

/** Returns the schema of the second spelling of a path. It is the same operation, documented once. */
function undocumented ({ schema, isView = false }: Endpoint): FastifySchema & { hide: true } {
  const { response, ...rest } = schema
  // A response schema takes 5 KB in Fastify. That of an endpoint only documents.
  return { ...rest, ...(isView && response !== undefined && { response }), hide: true }
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

const isOpen = ({ readsToken, isView, guards = [] }: Endpoint) => readsToken === undefined && isView !== true && guards.length === 0
const unchanged = ({ schema, url }: { schema: FastifySchema, url: string }) => ({ schema, url })

/**
 * Creates a hook that refuses requests before their body is read.
 * @param ask returns the refusal of a request, or throws an error; anything else lets the request pass
 */
export function refuseEarly (registration: Registration, ask: (state: RequestState, request: FastifyRequest) => unknown): onRequestAsyncHookHandler {
  return async (request, reply) => {
    const state = begin(registration, request, registration.rules)
    const answer = (refused: unknown) => isAnswered(request, reply) ? reply : sendRefusal(registration, request, reply, refused, state)
    let verdict
    try {
      verdict = await ask(state, request)
    } catch (error) {
      return await answer(error)
    }
    return verdict instanceof Refusal || isAnswered(request, reply) ? await answer(verdict) : undefined
  }
}

/** Refuses requests from other origins in cookie mode. */
const refuseOtherOrigins = (registration: Registration) =>
  refuseEarly(registration, ({ settings }, request) => settings.cookieSet ? checkOrigin(request, settings) : null)

const crossOriginAnswer = { 403: { description: crossOriginDescription, ...errorSchema } }

/** Documents the answer to requests from other origins, except for class views, whose schemas are those of the application. */
function documented ({ schema, method, isView = false }: Endpoint, isCookieMode: boolean): EndpointSchema {
  return isCookieMode && !isView && method !== 'GET' ? { ...schema, response: { ...Object(schema.response), ...crossOriginAnswer } } : schema
}

/** Adds the routes of an endpoint to a context of its own, so that its hooks and parsers concern no other route. */
function addEndpoint (context: FastifyInstance, host: FastifyInstance, registration: Registration, endpoint: Endpoint): void {
  const { settings, rules } = registration
  const { urlPrefix, strictSlashes } = settings
  // Nothing is asked where no cookie is ever read.
  const isCookieMode = settings.cookieSet || rules.isComputed('cookieSet')
  const originGuards = isCookieMode && endpoint.refusesOtherOrigins === true ? [refuseOtherOrigins(registration)] : []
  const inherited = host.errorHandler
  // Fastify completes its configuration with the default.
  const bodyLimit = Math.min(maximumBody, context.initialConfig.bodyLimit!)
  const path = urlPrefix + (endpoint.path === '/' && urlPrefix !== '' ? '' : endpoint.path)
  const urls = spellings(path, strictSlashes, ignoresTrailingSlash(context))
  for (const [index, url] of urls.entries()) {
    if (host.hasRoute({ method: endpoint.method, url: context.prefix + url })) {
      throw new InvalidConfiguration(`The instance "${settings.instanceName}" cannot add the route ${endpoint.method} ${context.prefix}${url}, which already exists in this application, perhaps for another instance. Choose another "urlPrefix".`, { page: 'instances.md' })
    }
    const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
      if (isTrial(request, reply, handler)) return
      try {
        return await endpoint.handler(request, reply)
      } catch (error) {
        if (isAnswered(request, reply)) return reply
        return await sendRefusal(registration, request, reply, error, begin(registration, request, rules))
      }
    }
    if (endpoint.readsToken !== undefined) describeGuard(handler, () => ({ registration, rules, scopeSets: [], isOptional: endpoint.readsToken === 'optional', isReader: true }))
    context.route({
      method: endpoint.method,
      url,
      schema: index === 0 ? documented(endpoint, isCookieMode) : undocumented(endpoint),
      ...compilers(endpoint),
      ...(endpoint.isView !== true && { bodyLimit }),
      config: {
        tokenAuth: endpoint.access,
        // A swagger transformation of the application is for schemas of another library. Guarded routes have one already.
        ...(isOpen(endpoint) && { swaggerTransform: unchanged })
      },
      prefixTrailingSlash: strictSlashes ? 'no-slash' : 'both',
      ...(endpoint.isCacheable === true && { exposeHeadRoute: true }),
      onRequest: [...(endpoint.isCacheable === true ? [] : [noStore]), ...originGuards, ...endpoint.guards ?? []],
      handler,
      // The application's earlier error handler is the next in line anyway: called from here, it would log twice.
      errorHandler: (error, request, reply) => host.errorHandler === inherited ? reply.send(error) : host.errorHandler(error, request, reply)
    })
  }
}

/**
 * Adds the routes of endpoints and class views, each kind in a context of its own.
 * @param host the context on which the plugin was registered. Its error handler counts, also one that is set later
 * @param options what the registration was given for Fastify, such as `prefix`
 */
export async function addEndpoints (host: FastifyInstance, registration: Registration, endpoints: readonly Endpoint[], options: FastifyRegisterOptions<object>): Promise<void> {
  for (const isView of [true, false]) {
    const own = endpoints.filter((endpoint) => (endpoint.isView ?? false) === isView)
    if (own.length === 0) continue
    const addOwn = async (context: FastifyInstance) => {
      if (!isView) acceptJsonOnly(context)
      for (const endpoint of own) addEndpoint(context, host, registration, endpoint)
    }
    // Fastify names a plugin without a name by its source code.
    Object.assign(addOwn, { [Symbol.for('fastify.display-name')]: 'fastify-token-auth' })
    await host.register(addOwn, options)
  }
}
