/**
 * Documents guards for @fastify/swagger: adds a `security` requirement with scopes to each guarded route, and the security
 * schemes to the document. Does nothing without @fastify/swagger.
 */
import type { FastifyInstance, RouteOptions } from 'fastify'
import { descriptionOf, type GuardDescription } from '../guards/describe.ts'
import type { Registration } from '../registration.ts'
import type { Settings } from '../settings/schema.ts'
import { guardingHooks, hooksOf } from './hooks.ts'

/** A Security Requirement Object of OpenAPI. A request must satisfy all schemes in it, and one of the objects in a list of them. */
type Requirement = Record<string, readonly string[]>
type Schemes = Record<string, object>

/** Returns the security schemes of the sources of tokens, in the order in which they are read. After a strict source, none is read. */
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

/** Converts a scheme to Swagger 2, which supports neither bearer tokens nor cookies: both become headers. */
function inSwagger2 (scheme: object): object {
  if (!('in' in scheme)) return { type: 'apiKey', in: 'header', name: 'Authorization' }
  return scheme.in === 'cookie' ? { type: 'apiKey', in: 'header', name: 'Cookie' } : scheme
}

function requirementsOf ({ scopeSets, isOptional, settings }: GuardDescription): Requirement[] {
  const alternatives: Requirement[] = Object.keys(schemesOf(settings)).flatMap((name) => scopeSets.map((scopes) => ({ [name]: scopes })))
  return isOptional === true ? [{}, ...alternatives] : alternatives
}

/** Combines the requirements of two guards on one route: each alternative of one with each alternative of the other. */
function combine (one: readonly Requirement[], other: readonly Requirement[]): Requirement[] {
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

/** Declares schemes in a document. A scheme with the same name that the application has declared is kept. */
function declare (schemes: Schemes, { openapiObject, swaggerObject }: Documents): void {
  if (openapiObject !== undefined) {
    openapiObject.components = { ...openapiObject.components, securitySchemes: { ...schemes, ...openapiObject.components?.securitySchemes } }
  }
  if (swaggerObject !== undefined) {
    const definitions = Object.fromEntries(Object.entries(schemes).map(([name, scheme]) => [name, inSwagger2(scheme)]))
    swaggerObject.securityDefinitions = { ...definitions, ...swaggerObject.securityDefinitions }
  }
}

/** Whether a schema is a JSON schema. Schemas of other libraries need a transformation of the application, which that of this module would replace. */
function isJsonSchema (schema: object): boolean {
  return Object.values(schema).every((part) => typeof part !== 'object' || part === null || Array.isArray(part) || Object.getPrototypeOf(part) === Object.prototype)
}

type AnnotatedRoute = RouteOptions & {
  schema?: object & { security?: readonly Requirement[] }
  config?: { swaggerTransform?: unknown }
}

/** What this module has added to routes. Guards of another instance add to it; what the application has documented itself is kept. */
const written = new WeakMap<object, { requirements: Requirement[], schemes: Schemes }>()

function annotate (route: AnnotatedRoute, descriptions: readonly GuardDescription[]): void {
  const before = written.get(route)
  const { schema = {}, config = {} } = route
  if (before === undefined && (schema.security !== undefined || config.swaggerTransform !== undefined || !isJsonSchema(schema))) return
  let requirements = before?.requirements ?? [{}]
  const schemes: Schemes = { ...before?.schemes }
  for (const description of descriptions) {
    requirements = combine(requirements, requirementsOf(description))
    Object.assign(schemes, schemesOf(description.settings))
  }
  written.set(route, { requirements, schemes })
  // Added while the document is generated, because the schemes can be declared only there.
  const swaggerTransform = (documents: Documents) => {
    declare(schemes, documents)
    return { schema: { ...documents.schema, security: requirements } }
  }
  Object.assign(route, { config: { ...config, swaggerTransform } })
}

/** Documents the routes with guards of a registration, in its context and in nested ones. */
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
      // When the application is ready, because a hook of a context also applies to routes that were added before it.
      fastify.addHook('onReady', annotateAll)
    }
    routes.push({ route, context: this })
  })
}
