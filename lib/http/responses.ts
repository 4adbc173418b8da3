/** What endpoints and guards answer: the hooks that extend bodies, and how an error is rendered. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { MaybePromise, Payload } from '../../types/handlers.ts'
import { TokenAuthError } from '../errors.ts'
import { callHost, readHost, wrongResult } from '../host/call.ts'
import type { Answer } from '../refusal.ts'

/** The fields that a hook adds to a response; nothing adds none. */
export type Extension = MaybePromise<object | undefined | void>

/**
 * The base of a responses class. Each hook returns fields that are added to the response of its endpoint; it may be
 * synchronous or asynchronous.
 */
export class Responses<User extends object = object, Claims extends object = Record<string, unknown>> {
  /** Extends the response of the endpoint that issues tokens. */
  extendAuthenticate (_request: FastifyRequest, _context: { user: User, accessToken: string, refreshToken: string | null }): Extension {}

  /** Extends the response of the current-user endpoint. */
  extendRetrieveUser (_request: FastifyRequest, _context: { user: User | null, payload: Payload<Claims> | null }): Extension {}

  /** Extends the response of the verify endpoint. User and payload are null where the token was refused. */
  extendVerify (_request: FastifyRequest, _context: { user: User | null, payload: Payload<Claims> | null }): Extension {}

  /** Extends the response of the refresh endpoint. */
  extendRefresh (_request: FastifyRequest, _context: { user: User, accessToken: string, refreshToken: string, purportedToken: string, payload: Payload<Claims> }): Extension {}

  /**
   * Renders a refusal and returns the body. Status and challenge are already set on the reply, where they may be changed.
   * What this method throws goes to the error handler of the application.
   */
  exceptionResponse (_request: FastifyRequest, exception: TokenAuthError, _reply: FastifyReply): unknown {
    const { message, name, detail } = exception
    return { reasons: message, exception: name, ...(detail !== undefined && { detail }) }
  }
}

type Hook = Exclude<keyof Responses, 'exceptionResponse'>

/** The methods as they are written here, because an application may replace methods of the class itself. */
const { extendAuthenticate, extendRetrieveUser, extendVerify, extendRefresh, exceptionResponse } = Responses.prototype
const defaults = { extendAuthenticate, extendRetrieveUser, extendVerify, extendRefresh, exceptionResponse }

/** Whether the application replaced a method of the responses class. */
export function isReplaced (responses: Responses, name: keyof Responses): boolean {
  return responses[name] !== defaults[name]
}

/** Adds to a body what a hook returns, if the application has that hook. @throws {HandlerFailed} where the hook fails or returns anything but an object */
export async function extendBody (responses: Responses, body: Record<string, unknown>, hook: Hook, call: () => Extension): Promise<Record<string, unknown>> {
  if (!isReplaced(responses, hook)) return body
  const fields = await callHost(hook, call)
  if (fields === undefined || fields === null) return body
  if (typeof fields !== 'object' || Array.isArray(fields)) throw wrongResult(hook, 'an object whose fields are added to the response', fields)
  return readHost(hook, () => {
    const extended = { ...body, ...fields }
    // What has no JSON form must fail here: later, a token would be stored and cookies set that nobody receives.
    JSON.stringify(extended)
    return extended
  })
}

/** Sends the default answer to a refusal, without an error object. */
export function sendAnswer (reply: FastifyReply, { statusCode, headers, name, message }: Answer): FastifyReply {
  // The body is a new object each time: hooks of the application may change it.
  return reply.code(statusCode).headers({ ...headers }).send({ reasons: message, exception: name })
}

/** Renders an error by `exceptionResponse` and sends it. @throws what `exceptionResponse` throws */
export function sendError (responses: Responses, request: FastifyRequest, reply: FastifyReply, error: TokenAuthError): MaybePromise<unknown> {
  // Refusals are an everyday matter. What is an error of the application, or of what it depends on, leaves a trace.
  if (error.statusCode === 500 || (error.statusCode > 500 && error.cause !== undefined)) request.log.error({ err: error }, error.message)
  reply.code(error.statusCode).headers({ ...error.headers })
  const send = (body: unknown) => reply.sent ? reply : reply.send(body)
  const fail = (thrown: unknown) => {
    // The refusal is not what is answered now: an error of the application has a status of its own.
    if (!(thrown instanceof TokenAuthError)) reply.code(500).removeHeader('www-authenticate')
    // To Fastify, a falsy value is no error: a guard that passed it on would open its route.
    throw thrown || wrongResult('exceptionResponse', 'a body, or throw an error', thrown)
  }
  let body: unknown
  try {
    body = responses.exceptionResponse(request, error, reply)
  } catch (thrown) {
    return fail(thrown)
  }
  return body instanceof Promise ? body.then(send, fail) : send(body)
}
