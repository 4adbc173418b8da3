/** Bodies of endpoints: JSON, or forms where an RFC requires them or a page sends them, whatever parsers, validators and serializers the application has. */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { errorCodes, type FastifyInstance, type FastifyRequest, type RequestPayload } from 'fastify'
import { memberOf } from '../values.ts'

/** In bytes. Credentials and tokens are small, and anybody may send a body to the endpoints. */
const maximumBody = 16_384

/** Returns the limit of bodies in a context: `maximumBody`, or that of the application if it is smaller. Fastify always sets one. */
export const bodyLimitOf = ({ initialConfig }: FastifyInstance): number => Math.min(maximumBody, initialConfig.bodyLimit!)

/** RFC 8259 section 11 and RFC 6839 section 3.1. Other types, such as `text/json`, are not registered for JSON. */
const jsonType = /^application\/(?:[\w!#$&^.-]+\+)?json\s*(?:;|$)/i
export const formType = /^application\/x-www-form-urlencoded\s*(?:;|$)/i

/** Which bodies an endpoint accepts. */
export type BodyKind = 'json' | 'form' | 'either'

const [json, form] = ['application/json', 'application/x-www-form-urlencoded']
/** The media types of each kind, for documents. */
export const mediaTypes = { json: [json], form: [form], either: [json, form] } as const
const descriptions = { json: 'a JSON object', form: 'a form', either: 'a JSON object or a form' } as const

const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Decodes a body. RFC 8259 section 8.1: JSON is UTF-8. With replacement characters, two different passwords could become the same text.
 * @returns undefined for bytes that are not UTF-8
 */
function decode (bytes: Buffer): string | undefined {
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined
  }
}

/** As {@link decode}, for a form: its percent-encoded bytes must be UTF-8, too. */
function decodeForm (bytes: Buffer): string | undefined {
  try {
    const form = utf8.decode(bytes)
    form.replaceAll(/(?:%[\da-f]{2})+/gi, decodeURIComponent)
    return form
  } catch {
    return undefined
  }
}

const notUtf8 = () => new errorCodes.FST_ERR_VALIDATION('body must be UTF-8')

/**
 * Makes a context accept JSON bodies only: browsers send a form of another site without a CORS preflight, and it must not
 * log a user in. An empty body passes with any media type; the validator checks whether the endpoint needs one.
 */
function acceptJson (context: FastifyInstance): void {
  const parseJson = context.getDefaultJsonParser('error', 'error')
  context.addContentTypeParser<Buffer>(jsonType, { parseAs: 'buffer' }, (request, bytes, done) => {
    const body = decode(bytes)
    if (body === undefined) done(notUtf8())
    else if (body === '') done(null, undefined)
    else parseJson(request, body, done)
  })
  context.addContentTypeParser<Buffer>('*', { parseAs: 'buffer' }, (_request, bytes, done) => {
    if (bytes.length === 0) done(null, undefined)
    else done(new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE())
  })
}

/**
 * Reads a form. No parameter may be repeated (RFC 6749 section 3.2).
 * @param keepsEmpty whether a parameter without a value is kept, as for a field of a page. That RFC treats it as omitted
 * @returns undefined for a form with a repeated parameter
 */
function readForm (body: string, keepsEmpty: boolean): Record<string, string> | undefined {
  // Without a prototype: a parameter may have any name.
  const form: Record<string, string> = Object.create(null)
  const names = new Set<string>()
  for (const [name, value] of new URLSearchParams(body)) {
    if (names.has(name)) return undefined
    names.add(name)
    if (keepsEmpty || value !== '') form[name] = value
  }
  return form
}

/** Makes a context accept forms. */
function acceptForms (context: FastifyInstance, keepsEmpty: boolean): void {
  context.addContentTypeParser<Buffer>(formType, { parseAs: 'buffer' }, (_request, bytes, done) => {
    const body = decodeForm(bytes)
    const form = body === undefined ? undefined : readForm(body, keepsEmpty)
    if (body === undefined) done(notUtf8())
    else if (form === undefined) done(new errorCodes.FST_ERR_VALIDATION('body must not have a parameter twice'))
    else done(null, form)
  })
}

/** Makes a context refuse all other bodies. */
function refuseOthers (context: FastifyInstance): void {
  context.addContentTypeParser('*', (_request, _payload, done) => { done(new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE()) })
}

/** Encodes a parsed form again. A repeated parameter has a list of values. */
const writeForm = (form: object) =>
  String(
    new URLSearchParams(
      Object.entries(form).flatMap(([name, values]) => [values].flat().map((value): [string, string] => [name, String(value)]))
    )
  )

/** Encode a parsed body again, for the parsers of this module. */
const writers = { json: (body: object) => JSON.stringify(body), form: writeForm }

/**
 * Returns a body that was read already, as bytes: Google Cloud Functions and the parsers of Express, for example, store it
 * in `body`, and some of them also in `rawBody`.
 */
function bytesOf (raw: IncomingMessage, kind: keyof typeof writers): Buffer {
  const [body, rawBody] = [memberOf(raw, 'body'), memberOf(raw, 'rawBody')]
  if (Buffer.isBuffer(rawBody)) return rawBody
  if (Buffer.isBuffer(body)) return body
  return Buffer.from(typeof body === 'object' && body !== null ? writers[kind](body) : String(body ?? ''))
}

/**
 * Returns a new stream for a body that was read before the request came to Fastify: its stream has ended, and the parsers
 * would wait forever. Both the declared and the actual length of the body are limited.
 */
function readAgain ({ raw, headers }: FastifyRequest, payload: RequestPayload): RequestPayload {
  if (payload !== raw || !raw.readableEnded) return payload
  const kind = formType.test(String(headers['content-type'])) ? 'form' : 'json'
  const length = Number(headers['content-length'])
  const bytes = length === 0 ? Buffer.alloc(0) : bytesOf(raw, kind)
  return Object.assign(Readable.from([bytes], { objectMode: false }), { receivedEncodedLength: bytes.length === 0 ? 0 : length })
}

/** Makes a context accept one kind of bodies, and no other. */
export function acceptBodies (context: FastifyInstance, kind: BodyKind): void {
  context.removeAllContentTypeParsers()
  context.addHook('preParsing', (request, _reply, payload, done) => { done(null, readAgain(request, payload)) })
  if (kind !== 'json') acceptForms(context, kind === 'either')
  if (kind === 'form') refuseOthers(context)
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
 * of another library, and an application that replaces them must not change what an endpoint accepts. The schemas only
 * document the routes.
 */
export function compilers (
  kind: BodyKind,
  isBodyOptional = false,
  faultOfQuery: (query: unknown) => string | undefined = () => undefined
) {
  return {
    validatorCompiler: ({ httpPart }: { httpPart?: string | undefined }) => (data: unknown) => {
      const fault = httpPart === 'querystring' ? faultOfQuery(data) : undefined
      if (fault !== undefined) return { error: new Error(`querystring${fault}`) }
      // Fastify passes null for a missing body too.
      const accepted = httpPart !== 'body' || (data === null ? isBodyOptional : typeof data === 'object' && !Array.isArray(data))
      return accepted ? { value: data } : { error: new Error(`body must be ${descriptions[kind]}`) }
    },
    serializerCompiler: () => serialize
  }
}
