/**
 * Documents guards for @fastify/swagger: adds a `security` requirement with scopes and the answers to refused requests to
 * each guarded route, and the security schemes to the document. Does nothing without @fastify/swagger.
 */
import type { RouteOptions } from 'fastify'
import { isProtecting, type GuardDescription } from '../guards/describe.ts'
import { crossOriginDescription, errorSchema, unauthorized } from '../http/error-schema.ts'
import type { Settings } from '../settings/schema.ts'
import { methodsOf, type FoundGuard, type RouteEntry } from './entry.ts'

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

function requirementsOf ({ scopeSets, isOptional, rules }: GuardDescription): Requirement[] {
  const sets = scopeSets === null || scopeSets.length === 0 ? [[]] : scopeSets
  const alternatives: Requirement[] = Object.keys(schemesOf(rules.settings)).flatMap((name) => sets.map((scopes) => ({ [name]: scopes })))
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

type Answers = Readonly<Record<string, unknown>>

/** Methods that only read, which pages of other origins may use in cookie mode. */
const readingMethods = ['GET', 'HEAD', 'OPTIONS', 'TRACE']

/** Returns why a guard answers 403. */
function forbidden ({ scopeSets, rules }: GuardDescription, methods: readonly string[]): string[] {
  const isCookieMode = rules.settings.cookieSet || rules.isComputed('cookieSet')
  const needsScopes = scopeSets === null || scopeSets.length > 0
  return [
    ...needsScopes ? ['The scopes of the token are not sufficient.'] : [],
    ...isCookieMode && methods.some((method) => !readingMethods.includes(method)) ? [crossOriginDescription] : []
  ]
}

/** Returns the answers of guards to refused requests, by status. */
function refusalsOf (guards: readonly GuardDescription[], methods: readonly string[]): Answers {
  const together = (sentences: ReadonlyArray<string | undefined>) => [...new Set(sentences.filter((sentence) => sentence !== undefined))].join(' ')
  const redirects = guards.some(({ isRedirecting }) => isRedirecting)
  const [reasons, outages] = [together(guards.flatMap((guard) => forbidden(guard, methods))), together(guards.map(({ registration }) => registration.outage))]
  return {
    ...redirects && { 302: { description: 'Without a valid access token: a redirect.', type: 'null' } },
    ...guards.some(({ isRedirecting }) => isRedirecting !== true) && { 401: unauthorized },
    ...reasons !== '' && { 403: { description: reasons, ...errorSchema } },
    ...outages !== '' && { 503: { description: outages, ...errorSchema } }
  }
}

/** Adds answers to those of a route, which are kept, also under a range such as `4XX`. */
function addAnswers (answers: Answers, own: Answers | undefined): Answers {
  // What @fastify/swagger documents of a route without answers.
  if (own === undefined) return { 200: { description: 'Default Response', type: 'null' }, ...answers }
  const has = new Set(Object.keys(own).map((status) => status.toUpperCase()))
  return { ...own, ...Object.fromEntries(Object.entries(answers).filter(([status]) => !has.has(status) && !has.has(`${status[0]}XX`))) }
}

interface Documents {
  schema?: object & { response?: Answers }
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

/** Documents the guards of a route. What the application has documented itself is kept. */
export function documentGuards ({ route, context, added }: RouteEntry, guards: readonly FoundGuard[]): void {
  // With `doProtection: false`, a guard lets every request pass.
  const descriptions = guards.map(({ description }) => description).filter((description) => description.isReader === true || isProtecting(description))
  if (descriptions.length === 0 || !context.hasPlugin('@fastify/swagger')) return
  const { schema = {}, config = {} }: AnnotatedRoute = route
  if (schema.security !== undefined || config.swaggerTransform !== undefined || !isJsonSchema(schema)) return
  const requirements = descriptions.map(requirementsOf).reduce(combine)
  const schemes: Schemes = Object.assign({}, ...descriptions.map(({ rules }) => schemesOf(rules.settings)))
  const refusals = refusalsOf(descriptions.filter((description) => isProtecting(description)), methodsOf(added))
  // Added while the document is generated, because the schemes can be declared only there.
  const swaggerTransform = (documents: Documents) => {
    declare(schemes, documents)
    const response = addAnswers(refusals, documents.schema?.response)
    return { schema: { ...documents.schema, security: requirements, response } }
  }
  Object.assign(route, { config: { ...config, swaggerTransform } })
}
