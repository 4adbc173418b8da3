/**
 * Additions to the document that @fastify/swagger generates. They are made after its generation: a transformation of a route
 * would replace that of the application, which may hide routes.
 */
import { memberOf } from '../values.ts'

/** A Security Requirement Object of OpenAPI. A request must satisfy all schemes in it, and one of the objects in a list of them. */
export type Requirement = Record<string, readonly string[]>
export type Schemes = Record<string, object>

export type Answers = Readonly<Record<string, unknown>>

/** Converts a scheme to Swagger 2, which supports neither bearer tokens nor cookies: both become headers. */
function inSwagger2 (scheme: object): object {
  if (!('in' in scheme)) return { type: 'apiKey', in: 'header', name: 'Authorization' }
  return scheme.in === 'cookie' ? { type: 'apiKey', in: 'header', name: 'Cookie' } : scheme
}

/** Adds answers to those of a route. Existing answers are kept, also those for a range such as `4XX`. */
export function addAnswers (answers: Answers, own: Answers | undefined): Answers {
  // The answer that @fastify/swagger documents for a route without answers.
  if (own === undefined) return { 200: { description: 'Default Response', type: 'null' }, ...answers }
  const has = new Set(Object.keys(own).map((status) => status.toUpperCase()))
  return { ...own, ...Object.fromEntries(Object.entries(answers).filter(([status]) => !has.has(status) && !has.has(`${status[0]}XX`))) }
}

/** The parts of an operation that are changed here. */
interface Operation {
  [extension: `x-${string}`]: unknown
  security?: readonly Requirement[]
  responses?: Record<string, object>
  parameters?: ReadonlyArray<{ readonly in?: unknown, readonly name?: unknown }>
  requestBody?: object
}

export interface Document {
  openapi?: string
  components?: { securitySchemes?: Schemes }
  securityDefinitions?: Schemes
  paths?: Record<string, Record<string, Operation>>
}

export interface Documents {
  schema?: object & { response?: Answers }
  openapiObject?: Document
  swaggerObject?: Document
}

/** Declares schemes in a document. A scheme with the same name that the application has declared is kept. */
export function declare (schemes: Schemes, document: Document): void {
  if (document.openapi !== undefined) {
    document.components = { ...document.components, securitySchemes: { ...schemes, ...document.components?.securitySchemes } }
    return
  }
  const definitions = Object.fromEntries(Object.entries(schemes).map(([name, scheme]) => [name, inSwagger2(scheme)]))
  document.securityDefinitions = { ...definitions, ...document.securityDefinitions }
}

/** Writes requirements for a version: before OpenAPI 3.1, only OAuth 2 and OpenID Connect have scopes. */
export function inVersion (requirements: readonly Requirement[], { openapi = '' }: Document): Requirement[] {
  const hasScopes = !/^(?:$|3\.0)/.test(openapi)
  const written = hasScopes ? requirements : requirements.map((one) => Object.fromEntries(Object.keys(one).map((name) => [name, []])))
  return [...new Map(written.map((one) => [JSON.stringify(one), one])).values()]
}

export const jsonMediaType = 'application/json'

/** What is added to an operation: the requirements of guards, and the body, query and answers of an endpoint of the plugin. */
export interface Addition {
  /** Empty for a route that everybody may use. Undefined where its schema says it. */
  readonly requirements: readonly Requirement[] | undefined
  readonly schemes: Schemes
  readonly refusals: Answers
  readonly body: object | undefined
  /** The media types of the body. */
  readonly mediaTypes: readonly string[]
  readonly querystring: object | undefined
  readonly answers: Answers
}

/** Writes a schema for a version: before OpenAPI 3.1, there are neither constants nor the type `null`. */
function schemaIn<Schema extends object> (schema: Schema, { openapi = '' }: Document): Schema {
  const hasJsonSchema = !/^(?:$|3\.0)/.test(openapi)
  return JSON.parse(JSON.stringify(schema), (_key, value: unknown) => {
    if (hasJsonSchema || typeof value !== 'object' || value === null) return value
    const { const: constant, type, ...rest }: { const?: unknown, type?: unknown } = value
    if (constant !== undefined) return { ...rest, type, enum: [constant] }
    return Array.isArray(type) ? { ...rest, type: type.find((one) => one !== 'null'), nullable: true } : value
  })
}

interface AnswerSchema {
  description?: string
  type?: string
  content?: Record<string, { schema: object }>
}

/** Converts an answer to the format of a document. */
function answerOf (answer: unknown, document: Document): object {
  const { description, content, ...schema }: AnswerSchema = schemaIn(Object(answer), document)
  if (schema.type === 'null') return { description }
  const given = content ?? { [jsonMediaType]: { schema } }
  return document.openapi === undefined ? { description, schema: Object.values(given)[0]!.schema } : { description, content: given }
}

const answersOf = (answers: Answers, document: Document): Record<string, object> =>
  Object.fromEntries(Object.entries(answers).map(([status, answer]) => [status, answerOf(answer, document)]))

/** Whether a parameter carries a token: its security scheme describes it already. */
function isToken ({ in: place, name }: { readonly in?: unknown, readonly name?: unknown }, schemes: Schemes): boolean {
  return Object.values(schemes).some((scheme) => {
    const { in: carries = 'header', name: called = 'authorization' }: { in?: string, name?: string } = { ...scheme }
    return place === carries && String(name).toLowerCase() === called.toLowerCase()
  })
}

/** Converts a query string, or a form for Swagger 2, to parameters of a document. */
function parametersOf (place: 'query' | 'formData', schema: object | undefined, document: Document): object[] {
  const { properties = {}, required = [] }: { properties?: Record<string, { description?: string }>, required?: string[] } = { ...schema }
  return Object.entries(properties).map(([name, { description, ...type }]) => {
    const written = schemaIn(type, document)
    return {
      in: place,
      name,
      required: required.includes(name),
      ...(description !== undefined && { description }),
      ...(document.openapi === undefined ? written : { schema: written })
    }
  })
}

function annotate (
  operation: Operation,
  { requirements, schemes, refusals, body, mediaTypes, querystring, answers }: Addition,
  document: Document
): void {
  const own = answersOf(answers, document)
  // The "Default Response" of @fastify/swagger is not an answer of the endpoint.
  const documented =
    Object.keys(own).length > 0
      ? {
          ...own,
          ...Object.fromEntries(
            Object.entries({ ...operation.responses }).filter(
              ([, { description }]: [string, { description?: string }]) => description !== 'Default Response'
            )
          )
        }
      : operation.responses
  operation.responses = { ...addAnswers(answersOf(refusals, document), documented) } as Record<string, object>
  if (body !== undefined && document.openapi !== undefined) {
    const content = Object.fromEntries(mediaTypes.map((type) => [type, { schema: schemaIn(body, document) }]))
    operation.requestBody = { required: true, content }
  }
  const parameters: object[] = [
    ...(operation.parameters ?? []).filter((parameter) => !isToken(parameter, schemes)),
    ...parametersOf('query', querystring, document)
  ]
  if (body !== undefined && document.openapi === undefined) {
    if (mediaTypes.includes(jsonMediaType)) parameters.push({ name: 'body', in: 'body', required: true, schema: schemaIn(body, document) })
    else parameters.push(...parametersOf('formData', body, document))
  }
  if (parameters.length > 0) operation.parameters = parameters
  else delete operation.parameters
  if (requirements === undefined) return
  declare(schemes, document)
  operation.security = inVersion(requirements, document)
}

/** The extension of an operation that has the number of its addition. Transformations of an application keep extensions. */
export const marker = 'x-fastify-token-auth'

const methods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'] as const

/** Annotates all marked operations of a document. @returns whether there was one */
function annotateAll (document: Document, additions: readonly Addition[]): boolean {
  let isMarked = false
  for (const item of Object.values({ ...document.paths })) {
    for (const method of methods) {
      const operation = item[method]
      const addition = additions[Number(operation?.[marker]) - 1]
      if (operation === undefined || addition === undefined) continue
      delete operation[marker]
      annotate(operation, addition, document)
      isMarked = true
    }
  }
  return isMarked
}

/**
 * Writes a document as YAML, with the package that the loaded @fastify/swagger depends on. It is not resolved from the
 * working directory, where an attacker may have put another one. The fallback is JSON, which is valid YAML 1.2.
 */
function inYaml (document: Document): string {
  try {
    // Not imported: the banner of a bundle often declares `createRequire`.
    const { createRequire } = process.getBuiltinModule('node:module')
    const loaded = Object.keys(createRequire(process.execPath).cache).find((path) => /[\\/]@fastify[\\/]swagger[\\/]index\.js$/.test(path))
    const { stringify }: { stringify: (value: object, options: object) => string } = createRequire(String(loaded))('yaml')
    return stringify(document, { strict: false })
  } catch {
    return JSON.stringify(document, null, 2)
  }
}

/** The additions, by the context that has the decorator of @fastify/swagger. */
const additionsOf = new WeakMap<object, Addition[]>()

/** Finds the context that has a decorator. */
function ownerOf (context: object | null, name: string): object | undefined {
  for (let one = context; one !== null; one = Object.getPrototypeOf(one)) if (Object.hasOwn(one, name)) return one
  return undefined
}

/**
 * Replaces `fastify.swagger()` with a function that adds to the document what guards and endpoints need.
 * @returns the list of additions; undefined if the application has given the decorator another name
 */
export function openDocument (context: object): Addition[] | undefined {
  const owner = ownerOf(context, 'swagger')
  if (owner === undefined) return undefined
  const known = additionsOf.get(owner)
  if (known !== undefined) return known
  const generate = memberOf(owner, 'swagger') as (options?: { yaml?: boolean }) => Document
  const additions: Addition[] = []
  const annotated = new WeakSet<object>()
  /** The YAML of each document: @fastify/swagger returns the same document each time. */
  const texts = new WeakMap<object, string>()
  Reflect.set(owner, 'swagger', function (this: unknown, options?: { yaml?: boolean }) {
    const document: Document = Reflect.apply(generate, this, [])
    if (!annotated.has(document) && annotateAll(document, additions)) annotated.add(document)
    if (options?.yaml !== true) return document
    if (!annotated.has(document)) return Reflect.apply(generate, this, [options])
    const text = texts.get(document) ?? inYaml(document)
    texts.set(document, text)
    return text
  })
  additionsOf.set(owner, additions)
  return additions
}
