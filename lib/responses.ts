/** What the endpoints and guards answer: bodies, the hooks that extend them, cookies, and how an error is rendered. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { MaybePromise, Payload } from '../types/handlers.ts'
import { TokenAuthError } from './errors.ts'
import { callHost, readHost, wrongResult } from './host.ts'

/** The fields that a hook adds to a response. */
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

  /** Extends the response of the verify endpoint; user and payload are null where the token was refused. */
  extendVerify (_request: FastifyRequest, _context: { user: User | null, payload: Payload<Claims> | null }): Extension {}

  /** Extends the response of the refresh endpoint. */
  extendRefresh (_request: FastifyRequest, _context: { user: User, accessToken: string, refreshToken: string, purportedToken: string, payload: Payload<Claims> }): Extension {}

  /**
   * Renders a refusal: what it returns is the body. Status and challenge are set on the reply already and may be changed
   * there. What it throws goes to the host's error handler.
   */
  exceptionResponse (_request: FastifyRequest, exception: TokenAuthError, _reply: FastifyReply): unknown {
    const { message, name, detail } = exception
    return { reasons: message, exception: name, ...(detail !== undefined && { detail }) }
  }
}

type Hook = Exclude<keyof Responses, 'exceptionResponse'>

/** As they were written here: a host may replace methods of the class itself. */
const { extendAuthenticate, extendRetrieveUser, extendVerify, extendRefresh, exceptionResponse } = Responses.prototype
const ours = { extendAuthenticate, extendRetrieveUser, extendVerify, extendRefresh, exceptionResponse }

/** Whether a host replaced a method of the responses class. */
export function isReplaced (responses: Responses, name: keyof Responses): boolean {
  return responses[name] !== ours[name]
}

/** Adds to a body what a hook returns, where the host has one. @throws {HandlerFailed} where the hook throws or returns something else than fields */
export async function extendBody (responses: Responses, body: Record<string, unknown>, hook: Hook, call: () => Extension): Promise<Record<string, unknown>> {
  if (!isReplaced(responses, hook)) return body
  const fields = await callHost(hook, call)
  if (fields === undefined || fields === null) return body
  if (typeof fields !== 'object' || Array.isArray(fields)) throw wrongResult(hook, 'an object whose fields are added to the response', fields)
  return readHost(hook, () => {
    const extended = { ...body, ...fields }
    // What has no JSON form fails here: later, a token would be stored and cookies be set that nobody gets.
    JSON.stringify(extended)
    return extended
  })
}

/** Renders an error and sends it. @throws what `exceptionResponse` throws */
export function sendError (responses: Responses, request: FastifyRequest, reply: FastifyReply, error: TokenAuthError): MaybePromise<unknown> {
  // Our own faults leave a trace; refusals are an everyday matter.
  if (error.statusCode >= 500) request.log.error({ err: error }, error.message)
  reply.code(error.statusCode).headers({ ...error.headers })
  const send = (body: unknown) => reply.sent ? reply : reply.send(body)
  // To Fastify, what is falsy is no error: a guard that passed it on would open its route.
  const fail = (thrown: unknown) => {
    // The refusal is not what is answered now: an error of the host's own has the status of one.
    if (!(thrown instanceof TokenAuthError)) reply.code(500).removeHeader('www-authenticate')
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
