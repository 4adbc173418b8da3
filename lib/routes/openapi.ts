/**
 * The OpenAPI document: with @fastify/swagger, a guarded route gets its `security` requirement and scopes, and the document
 * the schemes that it names. Without @fastify/swagger nothing happens.
 */
import type { FastifyInstance, RouteOptions } from 'fastify'
import { descriptionOf, type GuardDescription } from '../guards/describe.ts'
import type { Registration } from '../registration.ts'
import type { Settings } from '../settings/schema.ts'
import { guardingHooks, hooksOf } from './hooks.ts'

/** One way to be allowed (OpenAPI, Security Requirement Object): every scheme in it is needed. */
type Requirement = Record<string, readonly string[]>
type Schemes = Record<string, object>

/** Returns the schemes by which a token may come, in their order. A strict source is the last. */
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

/** Converts a scheme to Swagger 2, which has neither bearer tokens nor cookies: both become headers. */
function inSwagger2 (scheme: object): object {
  if (!('in' in scheme)) return { type: 'apiKey', in: 'header', name: 'Authorization' }
  return scheme.in === 'cookie' ? { type: 'apiKey', in: 'header', name: 'Cookie' } : scheme
}

function requirementsOf ({ scopeSets, isOptional, settings }: GuardDescription): Requirement[] {
  const ways: Requirement[] = Object.keys(schemesOf(settings)).flatMap((name) => scopeSets.map((scopes) => ({ [name]: scopes })))
  return isOptional === true ? [{}, ...ways] : ways
}

/** Returns the ways to satisfy two guards: each way of the one combined with each of the other. */
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

/** Declares schemes in a document. A scheme that the application declared under the same name stays. */
function declare (schemes: Schemes, { openapiObject, swaggerObject }: Documents): void {
  if (openapiObject !== undefined) {
    openapiObject.components = { ...openapiObject.components, securitySchemes: { ...schemes, ...openapiObject.components?.securitySchemes } }
  }
  if (swaggerObject !== undefined) {
    const definitions = Object.fromEntries(Object.entries(schemes).map(([name, scheme]) => [name, inSwagger2(scheme)]))
    swaggerObject.securityDefinitions = { ...definitions, ...swaggerObject.securityDefinitions }
  }
}

/** Whether a schema is a JSON schema. Schemas of other libraries need the application's own transformation, which this one would replace. */
function isJsonSchema (schema: object): boolean {
  return Object.values(schema).every((part) => typeof part !== 'object' || part === null || Array.isArray(part) || Object.getPrototypeOf(part) === Object.prototype)
}

type AnnotatedRoute = RouteOptions & {
  schema?: object & { security?: readonly Requirement[] }
  config?: { swaggerTransform?: unknown }
}

/** What this module wrote on routes, so that several instances can write on one route, and what the application wrote stays. */
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
  // The requirement is added with the document, not with the route, because only then the schemes are declared.
  const swaggerTransform = (documents: Documents) => {
    declare(schemes, documents)
    return { schema: { ...documents.schema, security: requirements } }
  }
  Object.assign(route, { config: { ...config, swaggerTransform } })
}

/** Annotates the routes that guards of a registration guard, in its context and below. */
export function documentGuards (fastify: FastifyInstance, registration: Registration): void {
  let routes: Array<{ route: AnnotatedRoute, context: FastifyInstance }> | undefined
  const annotateAll = async () => {
    for (const { route, context } of routes!) {
      const hooks = [...hooksOf(context), ...guardingHooks.map((name) => route[name])].flat()
      const describe = (guard: unknown) => typeof guard === 'function' ? descriptionOf(guard, context) : undefined
      const guards = hooks.map(describe).filter((description) => description?.registration === registration).filter((description) => description !== undefined)
      const handler = describe(route.handler)
      if (guards.length > 0) annotate(route, guards)
      else if (handler?.registration === registration) annotate(route, [handler])
    }
  }
  fastify.addHook('onRoute', function (route) {
    if (!this.hasPlugin('@fastify/swagger')) return
    if (routes === undefined) {
      routes = []
      // When everything is ready: a hook of a context also holds for routes that were declared before it.
      fastify.addHook('onReady', annotateAll)
    }
    routes.push({ route, context: this })
  })
}
