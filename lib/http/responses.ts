/** The responses of endpoints and guards: hooks that extend their bodies, and the rendering of errors. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { MaybePromise, Payload } from '../../types/handlers.ts'
import type { AnyReply, AnyRequest } from '../../types/requests.ts'
import { TokenAuthError } from '../errors.ts'
import { callHost, readHost, wrongResult } from '../host/call.ts'
import { bodyOf, type Answer } from '../refusal.ts'
import { challengeOf, headersOf, noInstance, type ChallengeSettings } from '../challenge.ts'
import { ownPromise } from '../promises.ts'
import { isFunction, memberOf } from '../values.ts'

/** The properties that a hook adds to a response, or nothing. */
export type Extension = MaybePromise<object | undefined | void>

/**
 * The base class for the option `responsesClass`. Each `extend...` hook returns properties that are added to the response of
 * its endpoint. Hooks can be synchronous or asynchronous.
 */
export class Responses<User extends object = object, Claims extends object = Record<string, unknown>> {
  /** Extends the response of the authenticate endpoint. `refreshToken` is null without `refreshTokenEnabled`. */
  extendAuthenticate (_request: AnyRequest, _context: { user: User, accessToken: string, refreshToken: string | null }): Extension {}

  /** Extends the response of the current-user endpoint. */
  extendRetrieveUser (_request: AnyRequest, _context: { user: User | null, payload: Payload<Claims> | null }): Extension {}

  /** Extends the response of the verify endpoint. `user` and `payload` are null if the token was refused. */
  extendVerify (_request: AnyRequest, _context: { user: User | null, payload: Payload<Claims> | null }): Extension {}

  /** Extends the response of the refresh endpoint. `refreshToken` is the stored token, `purportedToken` the one that the client sent. */
  extendRefresh (
    _request: AnyRequest,
    _context: { user: User; accessToken: string; refreshToken: string; purportedToken: string; payload: Payload<Claims> }
  ): Extension {}

  /**
   * Renders a refusal and returns the body. The reply has the status and the challenge already; the method may change them.
   * An error that it throws goes to the error handler of the application.
   */
  exceptionResponse (_request: AnyRequest, exception: TokenAuthError, _reply: AnyReply): unknown {
    return bodyOf(exception)
  }
}

/** The methods that extend the body of an endpoint. */
export type Hook = Exclude<keyof Responses, 'exceptionResponse'>

/** Copies of the methods, because an application can also replace methods of the base class itself. */
const defaults: Responses = Object.create(null, Object.getOwnPropertyDescriptors(Responses.prototype))

/** Whether the application replaced a method of the responses class. */
export function isReplaced (responses: Responses, name: keyof Responses): boolean {
  return responses[name] !== defaults[name]
}

/** Adds the result of a hook to a body, if the application has that hook. @throws {HandlerFailed} if the hook throws, or returns anything but an object */
export async function extendBody (
  responses: Responses,
  body: Record<string, unknown>,
  hook: Hook,
  call: () => Extension
): Promise<Record<string, unknown>> {
  if (!isReplaced(responses, hook)) return body
  const fields = await callHost(hook, call)
  if (fields === undefined || fields === null) return body
  if (typeof fields !== 'object' || Array.isArray(fields)) {
    throw wrongResult(hook, 'an object with properties to add to the response, or nothing', fields)
  }
  return readHost(hook, () => {
    const extended = { ...body, ...fields }
    // Throws here if the body has no JSON form, before a token is stored that the client would never receive.
    JSON.stringify(extended)
    return extended
  })
}

const jsonType = 'application/json; charset=utf-8'

/**
 * Sends a JSON text, as Fastify sends its errors: response schemas, serializers, and hooks that validate responses are only
 * for the bodies of the route.
 */
function sendJson (reply: FastifyReply, json: string): FastifyReply {
  return reply.serializer(String).send(json)
}

/** Sends the default response to a refusal, without an error object. */
export function sendAnswer (
  reply: FastifyReply,
  { statusCode, headers, challenge, text }: Answer,
  settings: ChallengeSettings
): FastifyReply {
  return sendJson(reply.code(statusCode).headers(headersOf(headers, challenge, settings)).type(jsonType), text)
}

/** Whether Fastify serializes a body. It does not serialize strings, binary data, streams and `Response` objects. */
function isSerialized (body: unknown): boolean {
  if (body === undefined || typeof body === 'string' || ArrayBuffer.isView(body) || body instanceof Response) return false
  return !isFunction(memberOf(body, 'pipe')) && !isFunction(memberOf(body, 'getReader'))
}

/** Sends the body that `exceptionResponse` has returned. */
function sendBody (reply: FastifyReply, body: unknown): FastifyReply {
  // The method has sent the reply, or will send it.
  if (reply.sent || body === reply) return reply
  if (!isSerialized(body)) return reply.send(body)
  const json = JSON.stringify(body)
  const type = String(reply.getHeader('content-type') ?? jsonType)
  return sendJson(reply.type(/;\s*charset=/i.test(type) ? type : `${type}; charset=utf-8`), json)
}

/** Renders an error with `exceptionResponse` and sends it. @throws what `exceptionResponse` throws */
export function sendError (
  responses: Responses,
  request: FastifyRequest,
  reply: FastifyReply,
  error: TokenAuthError,
  settings = noInstance
): MaybePromise<unknown> {
  // Refusals are not logged. Errors of the application, and of services that it depends on, are.
  if (error.statusCode === 500 || (error.statusCode > 500 && error.cause !== undefined)) request.log.error({ err: error }, error.message)
  reply.code(error.statusCode).headers(headersOf(error.headers, challengeOf(error), settings))
  // A hook may have set the content type of a page, for the response of the route.
  if (!/json|^text\/plain/i.test(String(reply.getHeader('content-type') ?? ''))) reply.removeHeader('content-type')
  const fail = (thrown: unknown) => {
    // The error of the application replaces the refusal, and must not be sent with its status and challenge.
    if (!(thrown instanceof TokenAuthError)) reply.code(500).removeHeader('www-authenticate')
    // Fastify does not treat a falsy value as an error: a guard that passed it on would let the request through.
    throw thrown || wrongResult('exceptionResponse', 'a body, or throw an error', thrown, 'threw')
  }
  const send = (body: unknown) => sendBody(reply, body)
  try {
    const body = ownPromise(responses.exceptionResponse(request, error, reply))
    return body instanceof Promise ? body.then(send).catch(fail) : send(body)
  } catch (thrown) {
    return fail(thrown)
  }
}
