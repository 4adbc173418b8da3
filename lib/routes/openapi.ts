/**
 * Documents guards for @fastify/swagger: adds a `security` requirement with scopes and the answers to refused requests to
 * each guarded route, and the security schemes to the document. Does nothing without @fastify/swagger.
 */
import type { RouteOptions } from 'fastify'
import { isProtecting, type GuardDescription } from '../guards/describe.ts'
import { crossOriginDescription, errorSchema, ownSchemas, unauthorized } from '../http/error-schema.ts'
import type { Settings } from '../settings/schema.ts'
import {
  addAnswers,
  declare,
  inVersion,
  jsonMediaType,
  marker,
  openDocument,
  type Addition,
  type Answers,
  type Document,
  type Documents,
  type Requirement,
  type Schemes
} from './document.ts'
import { methodsOf, type FoundGuard, type RouteEntry } from './entry.ts'

/** Returns the security schemes of the sources of tokens, in the order in which they are read. Sources after a strict one are not read. */
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
  schemes[name] = isBearer
    ? { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' }
    : { type: 'apiKey', in: 'header', name: authorizationHeader }
  return schemes
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

/** Methods that only read: in cookie mode, guards accept them from other origins. */
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
  const together = (sentences: ReadonlyArray<string | undefined>) =>
    [...new Set(sentences.filter((sentence) => sentence !== undefined))].join(' ')
  const redirects = guards.some(({ isRedirecting }) => isRedirecting)
  const [reasons, outages] = [
    together(guards.flatMap((guard) => forbidden(guard, methods))),
    together(guards.map(({ registration }) => registration.outage))
  ]
  return {
    ...(redirects && { 302: { description: 'Without a valid access token: a redirect.', type: 'null' } }),
    ...(guards.some(({ isRedirecting }) => isRedirecting !== true) && { 401: unauthorized }),
    ...(reasons !== '' && { 403: { description: reasons, ...errorSchema } }),
    ...(outages !== '' && { 503: { description: outages, ...errorSchema } })
  }
}

/** Whether a schema is a JSON schema. Other schemas need the transformation of the application, which that of a route would replace. */
function isJsonSchema (schema: object): boolean {
  return Object.values(schema).every(
    (part) => typeof part !== 'object' || part === null || Array.isArray(part) || Object.getPrototypeOf(part) === Object.prototype
  )
}

type AnnotatedSchema = object & {
  security?: readonly Requirement[]
  consumes?: readonly string[]
  body?: unknown
  querystring?: unknown
  params?: unknown
  response?: Answers
}
type AnnotatedRoute = RouteOptions & {
  schema?: AnnotatedSchema
  config?: { swaggerTransform?: unknown }
}

/** Makes a transformation of a route that adds the requirements and refusals of its guards. */
const transformationOf = ({ requirements, schemes, refusals }: Addition) => ({ schema, openapiObject, swaggerObject }: Documents) => {
  const document: Document = Object(openapiObject ?? swaggerObject)
  if (requirements === undefined) return { schema }
  declare(schemes, document)
  return { schema: { ...schema, security: inVersion(requirements, document), response: addAnswers(refusals, schema?.response) } }
}

const isOwn = (part: unknown): part is object => typeof part === 'object' && part !== null && ownSchemas.has(part)

/** Divides the schema of a route into the parts of an endpoint of the plugin, and the parts for transformations of the application. */
function divide (schema: AnnotatedSchema) {
  const { body, querystring, params, response, ...rest } = schema
  // Path parameters of an endpoint are documented by its path.
  const foreign = Object.entries({ body, querystring, params }).filter(([, part]) => part !== undefined && !isOwn(part))
  const entries = Object.entries(response ?? {})
  const [answers, others] = [entries.filter(([, part]) => isOwn(part)), entries.filter(([, part]) => !isOwn(part))]
  return {
    own: {
      body: isOwn(body) ? body : undefined,
      mediaTypes: rest.consumes ?? [jsonMediaType],
      querystring: isOwn(querystring) ? querystring : undefined,
      answers: Object.fromEntries(answers)
    },
    others: {
      ...rest,
      ...Object.fromEntries(foreign),
      ...(response !== undefined && (others.length > 0 || answers.length === 0) && { response: Object.fromEntries(others) })
    }
  }
}

/**
 * Documents the guards of a route, and the endpoints of the plugin. The documentation of the application is kept.
 * @param isPublic whether the route is for everybody, whatever the document requires
 */
export function documentGuards ({ route, context, added }: RouteEntry, guards: readonly FoundGuard[], isPublic: boolean): void {
  // With `doProtection: false`, a guard lets every request pass.
  const descriptions = guards
    .map(({ description }) => description)
    .filter((description) => description.isReader === true || isProtecting(description))
  if (!context.hasPlugin('@fastify/swagger')) return
  // Fastify's types do not describe the members of a schema.
  const { schema = {}, config = {} } = route as AnnotatedRoute
  const { own, others } = divide(schema)
  const isEndpoint = own.body !== undefined || Object.keys(own.answers).length > 0
  const isGuarded = descriptions.length > 0 && schema.security === undefined
  const isOpen = isPublic && guards.length === 0 && schema.security === undefined
  if (config.swaggerTransform === false || !(isGuarded || isOpen || isEndpoint)) return
  const addition: Addition = {
    ...own,
    requirements: isGuarded ? descriptions.map(requirementsOf).reduce(combine) : isOpen ? [] : undefined,
    schemes: Object.assign({}, ...descriptions.map(({ rules }) => schemesOf(rules.settings))),
    refusals: refusalsOf(
      descriptions.filter((description) => isProtecting(description)),
      methodsOf(added)
    )
  }
  const additions = openDocument(context)
  if (additions !== undefined) Object.assign(route, { schema: { ...others, [marker]: additions.push(addition) } })
  else if (config.swaggerTransform === undefined && isJsonSchema(schema)) {
    Object.assign(route, { config: { ...config, swaggerTransform: transformationOf(addition) } })
  }
}
