/** Which bodies endpoints accept, whatever parsers, validators and serializers the application has: JSON, or forms where an RFC requires them. */
import { errorCodes, type FastifyInstance } from 'fastify'
import type { Endpoint } from './endpoint.ts'

/** In bytes. Credentials and tokens are small, and anybody may send a body to the endpoints. */
const maximumBody = 16_384

/** The limit of bodies in a context: that of the application, where it is smaller. Fastify completes its configuration with the default. */
export const bodyLimitOf = ({ initialConfig }: FastifyInstance): number => Math.min(maximumBody, initialConfig.bodyLimit!)

/** RFC 8259 section 11 and RFC 6839 section 3.1. Types such as `text/json` are no JSON for a browser, which may send them across origins. */
const jsonType = /^application\/(?:[\w!#$&^.-]+\+)?json\s*(?:;|$)/i
const formType = /^application\/x-www-form-urlencoded\s*(?:;|$)/i

/**
 * Makes a context accept JSON bodies only: a form of another site, which needs no permission from a browser's CORS rules,
 * must not log anybody in. An empty body passes with any media type; the validator decides whether the endpoint needs one.
 */
function acceptJson (context: FastifyInstance): void {
  const parseJson = context.getDefaultJsonParser('error', 'error')
  context.addContentTypeParser<string>(jsonType, { parseAs: 'string' }, (request, body, done) => {
    if (body === '') done(null, undefined)
    else parseJson(request, body, done)
  })
  context.addContentTypeParser<string>('*', { parseAs: 'string' }, (_request, body, done) => {
    if (body === '') done(null, undefined)
    else done(new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE())
  })
}

/**
 * Reads a form. RFC 6749 section 3.2: a parameter without a value counts as missing, and none may be there twice.
 * @returns undefined for a form with a parameter that is there twice
 */
function readForm (body: string): Record<string, string> | undefined {
  // Without a prototype: a parameter may have any name.
  const form: Record<string, string> = Object.create(null)
  const names = new Set<string>()
  for (const [name, value] of new URLSearchParams(body)) {
    if (names.has(name)) return undefined
    names.add(name)
    if (value !== '') form[name] = value
  }
  return form
}

/** Makes a context accept forms only. */
function acceptForms (context: FastifyInstance): void {
  context.addContentTypeParser<string>(formType, { parseAs: 'string' }, (_request, body, done) => {
    const form = readForm(body)
    if (form === undefined) done(new errorCodes.FST_ERR_VALIDATION('body must not have a parameter twice'))
    else done(null, form)
  })
  context.addContentTypeParser('*', (_request, _payload, done) => { done(new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE()) })
}

/** Makes a context accept one kind of bodies, and no other. */
export function acceptBodies (context: FastifyInstance, kind: 'json' | 'form'): void {
  context.removeAllContentTypeParsers()
  if (kind === 'form') acceptForms(context)
  else acceptJson(context)
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
export function compilers ({ row: { bodies }, isBodyOptional = false, faultOfQuery }: Endpoint) {
  return {
    validatorCompiler: ({ httpPart }: { httpPart?: string | undefined }) => (data: unknown) => {
      const fault = httpPart === 'querystring' ? faultOfQuery?.(data) : undefined
      if (fault !== undefined) return { error: new Error(`querystring${fault}`) }
      // Fastify passes null for a missing body too.
      const accepted = httpPart !== 'body' || (data === null ? isBodyOptional : typeof data === 'object' && !Array.isArray(data))
      return accepted ? { value: data } : { error: new Error(`body must be a ${bodies === 'form' ? 'form' : 'JSON object'}`) }
    },
    serializerCompiler: () => serialize
  }
}
