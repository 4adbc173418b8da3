/** What all endpoints have in common: their address, what renders their errors, and that nothing of them is cached. */
import { Type, type TSchema } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema, HTTPMethods, onRequestHookHandler } from 'fastify'
import type { Guard } from '../../types/instance.ts'
import { InvalidConfiguration } from '../errors.ts'
import { isAnswered } from '../host.ts'
import { describeGuard } from '../openapi.ts'
import type { TokenAuth } from '../token-auth.ts'

/** A schema with what OpenAPI documents of a route. */
interface EndpointSchema extends FastifySchema {
  summary?: string
  description?: string
  tags?: readonly string[]
}

export interface Endpoint {
  readonly method: HTTPMethods
  /** Path below `urlPrefix`. */
  readonly path: string
  readonly schema: EndpointSchema
  /** The schema is the host's: for its compilers, and in the language of its documents. */
  readonly isSchemaOfHost?: boolean
  /** Whether it reads an access token without a guard; for what documents it. */
  readonly readsToken?: boolean
  /** In cookie mode, refresh needs no body. */
  readonly isBodyOptional?: boolean
  /** What a request passes before anything of its body is read. */
  readonly guards?: readonly Guard[]
  readonly handler: (request: FastifyRequest, reply: FastifyReply) => unknown
}

/** A body of an error of the plugin, as the default `exceptionResponse` renders it. */
export const errorSchema: TSchema = Type.Object({ reasons: Type.String(), exception: Type.String() }, { additionalProperties: true })

/** The schema of a body with fields whose names are settings, open for what hooks add. */
export function bodySchema (properties: Record<string, TSchema>, options: object = {}): TSchema {
  return Type.Object(properties, { additionalProperties: true, ...options })
}

/** RFC 6749 section 5.1 asks it of every response with a token; a refusal must not outlive its reason either. */
const noStore: onRequestHookHandler = function (_request, reply, done) {
  reply.header('cache-control', 'no-store')
  done()
}

/** Writes a body. Errors of Fastify itself come here too, where a route documents their status. */
function serialize (body: unknown): string {
  if (!(body instanceof Error)) return JSON.stringify(body)
  const { statusCode, code, error, message } = body as Error & { statusCode?: number, code?: string, error?: string }
  return JSON.stringify({ statusCode, code, error, message })
}

/**
 * The bodies of these routes are checked and written here, not by the application's compilers: those may expect schemas
 * of another library, and a host that replaces them must not change what an endpoint accepts. The schemas stay as what
 * documents the routes.
 */
function compilers ({ isBodyOptional = false, isSchemaOfHost = false }: Endpoint) {
  if (isSchemaOfHost) return {}
  return {
    validatorCompiler: ({ httpPart }: { httpPart?: string | undefined }) => (data: unknown) => {
      // Fastify gives null for no body at all, too.
      const accepted = httpPart !== 'body' || (data === null ? isBodyOptional : typeof data === 'object' && !Array.isArray(data))
      return accepted ? { value: data } : { error: new Error('body must be a JSON object') }
    },
    serializerCompiler: () => serialize
  }
}

/** The schema of the second spelling of a path: it is the same operation, documented once. */
function undocumented ({ schema, isSchemaOfHost = false }: Endpoint): FastifySchema & { hide: true } {
  const { response, ...rest } = schema
  // A response schema takes 5 KB in Fastify; ours only documents.
  return { ...rest, ...(isSchemaOfHost && response !== undefined && { response }), hide: true }
}

/** Both spellings of a path, where the application's router does not answer both by itself. */
function spellings (path: string, strict: boolean, ignoresSlash: boolean): string[] {
  if (strict || ignoresSlash || path.endsWith('*')) return [path]
  const bare = path.endsWith('/') ? path.slice(0, -1) : path
  return bare === '' ? ['/'] : [bare, `${bare}/`]
}

/** Whether the router of an application takes `/x` and `/x/` for one. */
function ignoresTrailingSlash ({ initialConfig }: FastifyInstance): boolean {
  return (initialConfig.routerOptions?.ignoreTrailingSlash ?? initialConfig.ignoreTrailingSlash) === true
}

const isOpen = ({ readsToken, isSchemaOfHost, guards = [] }: Endpoint) => readsToken !== true && isSchemaOfHost !== true && guards.length === 0
const asItIs = ({ schema, url }: { schema: FastifySchema, url: string }) => ({ schema, url })

/**
 * Adds the routes of an endpoint to a context of their own: what its handler throws is rendered like a refusal of a guard.
 * @param host the context on which the plugin was registered: its error handler counts, also one that is set later
 */
export function addEndpoint (context: FastifyInstance, host: FastifyInstance, instance: TokenAuth, endpoint: Endpoint): void {
  const { urlPrefix, strictSlashes } = instance.settings
  const inherited = host.errorHandler
  const path = urlPrefix + (endpoint.path === '/' && urlPrefix !== '' ? '' : endpoint.path)
  const urls = spellings(path, strictSlashes, ignoresTrailingSlash(context))
  for (const [index, url] of urls.entries()) {
    if (host.hasRoute({ method: endpoint.method, url: context.prefix + url })) {
      throw new InvalidConfiguration(`The instance "${instance.settings.instanceName}" would answer ${endpoint.method} ${context.prefix}${url}, which is a route of this application already, of another instance perhaps. Give this one another "urlPrefix".`, { section: 'instances' })
    }
    const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
      try {
        return await endpoint.handler(request, reply)
      } catch (error) {
        if (isAnswered(request, reply)) return reply
        return await instance.refuse(request, reply, error, instance.enter(request, instance.policy))
      }
    }
    if (endpoint.readsToken === true) describeGuard(handler, () => ({ instance, settings: instance.settings, scopeSets: [[]] }))
    context.route({
      method: endpoint.method,
      url,
      schema: index === 0 ? endpoint.schema : undocumented(endpoint),
      ...compilers(endpoint),
      // A transformation of the host's is for schemas of another library; ours are JSON. Guarded routes are transformed already.
      ...(isOpen(endpoint) && { config: { swaggerTransform: asItIs } }),
      prefixTrailingSlash: strictSlashes ? 'no-slash' : 'both',
      onRequest: [noStore, ...endpoint.guards ?? []],
      handler,
      // What the host had before is the next in line: called from here, it would log twice.
      errorHandler: (error, request, reply) => host.errorHandler === inherited ? reply.send(error) : host.errorHandler(error, request, reply)
    })
  }
}
