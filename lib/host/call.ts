/** Calls functions of the application (handlers, hooks, getters), and converts the errors that they throw. */
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import { HandlerFailed, TokenAuthError } from '../errors.ts'
import { within } from '../promises.ts'
import { typeName } from '../values.ts'

/** Whether an error has a 4xx `statusCode`, which the application then chose itself. */
function isClientError (error: unknown): boolean {
  if (typeof error !== 'object' || error === null || !('statusCode' in error)) return false
  return typeof error.statusCode === 'number' && error.statusCode >= 400 && error.statusCode < 500
}

/**
 * Converts an error that a function of the application threw: a `TokenAuthError` and an error with a 4xx `statusCode` stay
 * as they are; any other error becomes `HandlerFailed`, which keeps its message from clients.
 */
export function hostError (name: string, error: unknown): unknown {
  return error instanceof TokenAuthError || isClientError(error) ? error : new HandlerFailed(name, { cause: error })
}

/** Calls a function of the application and waits for its result. @throws the error converted by {@link hostError} */
export async function callHost<T> (name: string, call: () => T): Promise<Awaited<T>> {
  try {
    return await call()
  } catch (error) {
    throw hostError(name, error)
  }
}

/** As {@link callHost}, for synchronous access: a getter of an object of the application may throw. */
export function readHost<T> (name: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw hostError(name, error)
  }
}

/**
 * Ends the hook of a guard with a thrown value, such as an error of the application's logger. A falsy value is replaced:
 * Fastify treats it as success, so the request would pass the guard.
 */
export function failHook (done: HookHandlerDoneFunction, thrown: unknown): void {
  const error = (thrown || new HandlerFailed(undefined, { cause: thrown })) as Error
  try {
    done(error)
  } catch (another) {
    throw another || error
  }
}

/** Creates the error for a function of the application that returned, or threw, a value of the wrong type. */
export function wrongResult (name: string, expected: string, result: unknown, verb: 'returned' | 'threw' = 'returned'): HandlerFailed {
  const given = typeof result === 'number' ? String(result) : typeName(result)
  return new HandlerFailed(name, { cause: new TypeError(`${name} must return ${expected}; it ${verb} ${given}.`) })
}

/** Returns the error with which Fastify's `handlerTimeout` ended a request; undefined if it did not. */
export function timeoutOf (request: FastifyRequest): Error | undefined {
  // Reading `request.signal` creates an AbortController, so it is read only if the option is set.
  const { handlerTimeout } = request.routeOptions
  if (!(handlerTimeout > 0)) return undefined
  // Not `aborted`: the signal is also aborted once the body of a request was read.
  const { reason } = request.signal
  return reason instanceof Error && 'code' in reason && reason.code === 'FST_ERR_HANDLER_TIMEOUT' ? reason : undefined
}

/**
 * Whether the request has a response already, so that the caller must not store, set or start anything. `reply.sent` is not
 * enough: the response of a timeout may still wait for an asynchronous hook of the application.
 */
export function isAnswered (request: FastifyRequest, reply: FastifyReply): boolean {
  return reply.sent || timeoutOf(request) !== undefined
}

/** In milliseconds: how long a function that returns keys may take. */
const patience = 5000

/**
 * Calls a function of the application that returns keys, and waits 5 seconds at most.
 * @param isPatient whether waiting keeps the process alive
 * @throws the error of the function, or an error after 5 seconds
 */
export const callPatiently = async (load: () => unknown, isPatient: boolean): Promise<unknown> =>
  await within(patience, load, () => { throw new Error(`The function took more than ${patience / 1000} seconds.`) }, isPatient)
