/**
 * What @fastify/swagger documents of guards: a guarded route gets its `security` requirement and scopes, and the document
 * the schemes that it names. The host writes nothing more than the guard; without @fastify/swagger nothing happens.
 */
import type { FastifyInstance, RouteOptions } from 'fastify'
import type { Settings } from './settings/schema.ts'
import type { TokenAuth } from './token-auth.ts'

/** What a guard asks of a request, as far as it can be said beforehand. */
export interface GuardDescription {
  readonly instance: TokenAuth
  readonly settings: Settings
  /** The sets of scopes of which one is enough; one empty set where none is required, or none is known. */
  readonly scopeSets: readonly (readonly string[])[]
  /** Whether a request without a token passes too. */
  readonly isOptional?: boolean
}

/** A free-standing guard knows its instance only in the context of a route. */
type Describe = (context: FastifyInstance) => GuardDescription | undefined

const descriptions = new WeakMap<object, Describe>()

/** Remembers what a guard, or a route handler that looks at tokens, asks of requests. */
export function describeGuard (guard: object, describe: Describe): void {
  descriptions.set(guard, describe)
}

export function descriptionOf (guard: object, context: FastifyInstance): GuardDescription | undefined {
  return descriptions.get(guard)?.(context)
}

/** One way to be let in (OpenAPI, Security Requirement Object): every scheme in it is needed. */
type Requirement = Record<string, readonly string[]>
type Schemes = Record<string, object>

/** The schemes by which a token may come, in their order; a strict source is the only one. */
function schemesOf ({ instanceName: name, ...settings }: Settings): Schemes {
  const schemes: Schemes = {}
  if (settings.cookieSet) {
    schemes[`${name}Cookie`] = { type: 'apiKey', in: 'cookie', name: settings.cookieAccessTokenName }
    if (settings.cookieStrict) return schemes
  }
  if (settings.queryStringSet) {
    schemes[`${name}Query`] = { type: 'apiKey', in: 'query', name: settings.queryStringAccessTokenName }
    if (settings.queryStringStrict) return schemes
  }
  const { authorizationHeader, authorizationHeaderPrefix } = settings
  const isBearer = authorizationHeader.toLowerCase() === 'authorization' && authorizationHeaderPrefix.toLowerCase() === 'bearer'
  schemes[name] = isBearer ? { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } : { type: 'apiKey', in: 'header', name: authorizationHeader }
  return schemes
}

/** Swagger 2 knows neither bearer tokens nor cookies: both are headers to it. */
function inSwagger2 (scheme: object): object {
  if (!('in' in scheme)) return { type: 'apiKey', in: 'header', name: 'Authorization' }
  return scheme.in === 'cookie' ? { type: 'apiKey', in: 'header', name: 'Cookie' } : scheme
}

function requirementsOf ({ scopeSets, isOptional, settings }: GuardDescription): Requirement[] {
  const ways: Requirement[] = Object.keys(schemesOf(settings)).flatMap((name) => scopeSets.map((scopes) => ({ [name]: scopes })))
  return isOptional === true ? [{}, ...ways] : ways
}

/** The ways to satisfy two guards: each of the one with each of the other. */
function both (one: readonly Requirement[], other: readonly Requirement[]): Requirement[] {
  return one.flatMap((first) => other.map((second) => {
    const merged: Requirement = { ...first }
    for (const [name, scopes] of Object.entries(second)) merged[name] = [...new Set([...merged[name] ?? [], ...scopes])]
    return merged
  }))
}

interface Documents {
  schema?: object
  openapiObject?: { components?: { securitySchemes?: Schemes } }
  swaggerObject?: { securityDefinitions?: Schemes }
}

/** Declares schemes where a document is made; what the host declared under the same name stays. */
function declare (schemes: Schemes, { openapiObject, swaggerObject }: Documents): void {
  if (openapiObject !== undefined) {
    openapiObject.components = { ...openapiObject.components, securitySchemes: { ...schemes, ...openapiObject.components?.securitySchemes } }
  }
  if (swaggerObject !== undefined) {
    const definitions = Object.fromEntries(Object.entries(schemes).map(([name, scheme]) => [name, inSwagger2(scheme)]))
    swaggerObject.securityDefinitions = { ...definitions, ...swaggerObject.securityDefinitions }
  }
}

/** Whether a schema is JSON. The schemas of other libraries are the host's own transformation's affair, which ours would replace. */
function isJsonSchema (schema: object): boolean {
  return Object.values(schema).every((part) => typeof part !== 'object' || part === null || Array.isArray(part) || Object.getPrototypeOf(part) === Object.prototype)
}

type AnnotatedRoute = RouteOptions & {
  schema?: object & { security?: readonly Requirement[] }
  config?: { swaggerTransform?: unknown }
}

/** What this module wrote on routes, so that several instances can write on one route, and a host's own words stay. */
const written = new WeakMap<object, { requirements: Requirement[], schemes: Schemes }>()

function annotate (route: AnnotatedRoute, descriptions: readonly GuardDescription[]): void {
  const before = written.get(route)
  const { schema = {}, config = {} } = route
  if (before === undefined && (schema.security !== undefined || config.swaggerTransform !== undefined || !isJsonSchema(schema))) return
  let requirements = before?.requirements ?? [{}]
  const schemes: Schemes = { ...before?.schemes }
  for (const description of descriptions) {
    requirements = both(requirements, requirementsOf(description))
    Object.assign(schemes, schemesOf(description.settings))
  }
  written.set(route, { requirements, schemes })
  // The requirement comes with the document, not with the route: before that nothing needs to be declared.
  const swaggerTransform = (documents: Documents) => {
    declare(schemes, documents)
    return { schema: { ...documents.schema, security: requirements } }
  }
  Object.assign(route, { config: { ...config, swaggerTransform } })
}

const guardingHooks = ['onRequest', 'preValidation', 'preHandler'] as const

/**
 * The hooks that a context has for all its routes. Fastify has no public way to ask for them: should it call them
 * otherwise one day, guards of whole contexts are not documented, and a test says so.
 */
function hooksOf (context: FastifyInstance): unknown[] {
  const keys = Object.getOwnPropertySymbols(context).filter(({ description }) => description === 'fastify.hooks')
  return keys.flatMap((key) => guardingHooks.map((name) => Reflect.get(Object(Reflect.get(context, key)), name)))
}

/** Annotates the routes that are guarded by an instance, from now on, in its context and below. */
export function documentGuards (fastify: FastifyInstance, instance: TokenAuth): void {
  let routes: Array<{ route: AnnotatedRoute, context: FastifyInstance }> | undefined
  const annotateAll = async () => {
    for (const { route, context } of routes!) {
      const hooks = [...hooksOf(context), ...guardingHooks.map((name) => route[name])].flat()
      const describe = (guard: unknown) => typeof guard === 'function' ? descriptionOf(guard, context) : undefined
      const guards = hooks.map(describe).filter((description) => description?.instance === instance).filter((description) => description !== undefined)
      const handler = describe(route.handler)
      if (guards.length > 0) annotate(route, guards)
      else if (handler?.instance === instance) annotate(route, [handler])
    }
  }
  fastify.addHook('onRoute', function (route) {
    if (!this.hasPlugin('@fastify/swagger')) return
    if (routes === undefined) {
      routes = []
      // Not before: a hook of a context is added some time after it was asked for, and holds for routes before it too.
      fastify.addHook('onReady', annotateAll)
    }
    routes.push({ route, context: this })
  })
}
