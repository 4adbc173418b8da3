/** What the host supplies: how its functions are called, what becomes of their errors, how what they give is described. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { HandlerFailed, TokenAuthError } from './errors.ts'

/** Names the type of a value that must not be printed. */
export function typeName (value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  if (value instanceof Promise) return 'a promise'
  if (typeof value === 'object' || typeof value === 'undefined') return value === undefined ? 'undefined' : 'an object'
  return `a ${typeof value}`
}

/** Whether an error is of the host's own making and says itself that the client is at fault. */
function isClientError (error: unknown): boolean {
  if (typeof error !== 'object' || error === null || !('statusCode' in error)) return false
  return typeof error.statusCode === 'number' && error.statusCode >= 400 && error.statusCode < 500
}

/**
 * What an error that a host's function threw becomes: a refusal of ours stays one, an error with a
 * 4xx status of its own goes on as it is, and anything else becomes `HandlerFailed`, which hides its message from clients.
 */
export function hostError (name: string, error: unknown): unknown {
  return error instanceof TokenAuthError || isClientError(error) ? error : new HandlerFailed(name, { cause: error })
}

/** Calls a function of the host. @throws what {@link hostError} makes of what it threw */
export async function callHost<T> (name: string, call: () => T): Promise<Awaited<T>> {
  try {
    return await call()
  } catch (error) {
    throw hostError(name, error)
  }
}

/** As {@link callHost}, for what is there at once: a property of a host's object may be computed, and fail. */
export function readHost<T> (name: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw hostError(name, error)
  }
}

/** A function of the host gave something that it must not give. */
export function wrongResult (name: string, expected: string, result: unknown): HandlerFailed {
  return new HandlerFailed(name, { cause: new TypeError(`${name} must give ${expected}; it gave ${typeName(result)}.`) })
}

/** The error with which `handlerTimeout` of the host ended a request; undefined where it did not. */
export function timeoutOf (request: FastifyRequest): Error | undefined {
  // Without the option there is no timer, and reading the signal would make one thing more for every request.
  const { handlerTimeout } = request.routeOptions
  if (!(handlerTimeout > 0)) return undefined
  // Not `aborted`: a request whose body was read is that too.
  const { reason } = request.signal
  return reason instanceof Error && 'code' in reason && reason.code === 'FST_ERR_HANDLER_TIMEOUT' ? reason : undefined
}

/**
 * Whether the host answered meanwhile: then nothing may be stored, set or begun any more. The answer of a timeout may
 * still wait in an asynchronous hook of the host's.
 */
export function isAnswered (request: FastifyRequest, reply: FastifyReply): boolean {
  return reply.sent || timeoutOf(request) !== undefined
}
