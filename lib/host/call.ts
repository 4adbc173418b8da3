/** How functions of the application (handlers, hooks, getters) are called, and what becomes of the errors that they throw. */
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import { HandlerFailed, TokenAuthError } from '../errors.ts'
import { within } from '../promises.ts'
import { typeName } from '../values.ts'

/** Whether an error was created by the application and declares a 4xx status itself. */
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

/** As {@link callHost}, for synchronous access: a property of an object of the application may be computed, and fail. */
export function readHost<T> (name: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw hostError(name, error)
  }
}

/**
 * Ends a hook with what was thrown on the way to its decision, such as by the logger of the application. Fastify takes a
 * falsy value for no error: a guard that passed it on would open its route.
 */
export function failHook (done: HookHandlerDoneFunction, thrown: unknown): void {
  done((thrown || new HandlerFailed(undefined, { cause: thrown })) as Error)
}

/** Creates the error for a function of the application that returned, or threw, a value of the wrong type. */
export function wrongResult (name: string, expected: string, result: unknown, verb: 'returned' | 'threw' = 'returned'): HandlerFailed {
  return new HandlerFailed(name, { cause: new TypeError(`${name} must return ${expected}; it ${verb} ${typeName(result)}.`) })
}

/** The error with which Fastify's `handlerTimeout` ended a request; undefined where it did not. */
export function timeoutOf (request: FastifyRequest): Error | undefined {
  // Reading `request.signal` creates an AbortController: only done where the option is set.
  const { handlerTimeout } = request.routeOptions
  if (!(handlerTimeout > 0)) return undefined
  // Not `aborted`: the signal is also aborted once the body of a request was read.
  const { reason } = request.signal
  return reason instanceof Error && 'code' in reason && reason.code === 'FST_ERR_HANDLER_TIMEOUT' ? reason : undefined
}

/**
 * Whether the request was answered in the meantime, so that nothing may be stored, set or begun any more. `reply.sent`
 * alone is not enough: the answer of a timeout may still wait in an asynchronous hook of the application.
 */
export function isAnswered (request: FastifyRequest, reply: FastifyReply): boolean {
  return reply.sent || timeoutOf(request) !== undefined
}

/** In milliseconds: how long a function that returns keys may take. */
const patience = 5000

/**
 * Calls a function of the application that returns keys, and waits 5 seconds at most.
 * @param isPatient whether the process must not end meanwhile
 * @throws what the function throws, or an error that says that it took too long
 */
export const callPatiently = async (load: () => unknown, isPatient: boolean): Promise<unknown> =>
  await within(patience, load, () => { throw new Error(`The function took more than ${patience / 1000} seconds.`) }, isPatient)
