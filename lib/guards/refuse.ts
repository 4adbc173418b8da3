/** Answers refused requests. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { MaybePromise } from '../../types/handlers.ts'
import { HandlerFailed, TokenAuthError } from '../errors.ts'
import { markRefused, publishRefused } from '../events.ts'
import { preventStoring } from '../http/caching.ts'
import { challengedBy } from '../challenge.ts'
import { clearTwins } from '../http/old-cookies.ts'
import { isReplaced, sendAnswer, sendError } from '../http/responses.ts'
import { Refusal, RefusedRefresh } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import type { RequestState } from '../request/state.ts'
import type { Redirect } from './redirect.ts'
import { memberOf } from '../values.ts'

/** Whether the logger of a request writes the level `debug`. A custom logger may lack `isLevelEnabled` of pino. */
function isDebugging ({ log }: FastifyRequest): boolean {
  const { level, isLevelEnabled }: { level?: string, isLevelEnabled?: (level: string) => boolean } = log
  return typeof isLevelEnabled === 'function' ? Reflect.apply(isLevelEnabled, log, ['debug']) : level === 'debug' || level === 'trace'
}

/** Returns when a token expired, for the log; an empty object if it has not expired. A time before 1970 is logged as 1970. */
function expiryOf (token: string): object {
  const { exp }: { exp: number } = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString())
  return exp * 1000 < Date.now() ? { expiredAt: new Date(Math.max(exp, 0) * 1000).toISOString() } : {}
}

/** Returns where the token of a request was, and when it expired if that is why it is refused. */
function describeToken (state: RequestState, outcome: string): object {
  try {
    const found = state.extract()
    return found instanceof Refusal ? {} : { source: found.source, ...outcome === 'TokenExpired' && expiryOf(found.token) }
  } catch {
    // A getter of the application failed, or `exp` cannot be read because only the application treats the token as expired.
    return {}
  }
}

/** Logs why a request is refused, without the token and without values of its claims except the expiry. */
function logRefused (
  { settings: { instanceName } }: Registration,
  request: FastifyRequest,
  refused: Refusal | TokenAuthError,
  state: RequestState
): void {
  const { name, statusCode } = refused instanceof Refusal ? refused.answer : refused
  const reason = memberOf(refused, 'reason')
  request.log.debug(
    { instanceName, outcome: name, statusCode, ...(typeof reason === 'string' && { reason }), ...describeToken(state, name) },
    'The request was refused.'
  )
}

/**
 * Logs why a refresh is refused, without a part of a token.
 * @param isContradiction whether handlers of the application contradict each other
 */
export function logRefusedRefresh (
  { settings: { instanceName } }: Registration,
  request: FastifyRequest,
  reason: string,
  isContradiction = false
): void {
  request.log[isContradiction ? 'warn' : 'info']({ instanceName, reason }, 'A refresh was refused.')
}

/** Publishes that a request is refused, and logs it: a refresh at the level `info`, or `warn`, other requests at `debug`. Errors of the application are not refusals, and Fastify logs them. */
export function reportRefused (registration: Registration, request: FastifyRequest, refused: unknown, state: RequestState): void {
  publishRefused(registration.settings.instanceName, request, refused, state.settings)
  if (refused instanceof RefusedRefresh) {
    logRefusedRefresh(registration, request, refused.reason, refused.isContradiction)
    return
  }
  const isRefusal = refused instanceof Refusal || (refused instanceof TokenAuthError && !(refused instanceof HandlerFailed))
  if (isRefusal && isDebugging(request)) logRefused(registration, request, refused, state)
}

/**
 * Publishes that a request is refused, and answers it.
 * @param refused a refusal, or any value that was thrown while the request was checked
 * @throws as {@link answerRefusal}
 */
export function sendRefusal (
  registration: Registration, request: FastifyRequest, reply: FastifyReply, refused: unknown, state: RequestState, redirect?: Redirect
): MaybePromise<unknown> {
  reportRefused(registration, request, refused, state)
  return answerRefusal(registration, request, reply, refused, state, redirect)
}

/** Passes a refusal on to the error handler of the application. */
export function throwRefusal (request: FastifyRequest, refused: Refusal | TokenAuthError, state: RequestState): never {
  const error = refused instanceof Refusal ? state.toError(refused) : challengedBy(refused, state.settings)
  markRefused(request, error)
  throw error
}

/**
 * Answers a refused request.
 * @throws errors for the error handler of the application: an error that is not a refusal, `HandlerFailed`, and every error
 * with `onRefusal: 'throw'`
 */
export function answerRefusal (
  registration: Registration, request: FastifyRequest, reply: FastifyReply, refused: unknown, state: RequestState, redirect?: Redirect
): MaybePromise<unknown> {
  const { responses } = registration
  const { settings } = state
  const isRefusal = refused instanceof Refusal
  if (!isRefusal && (!(refused instanceof TokenAuthError) || refused instanceof HandlerFailed)) throw refused
  preventStoring(reply)
  clearTwins(request, reply, settings)
  if (settings.onRefusal === 'throw') throwRefusal(request, refused, state)
  const { statusCode } = isRefusal ? refused.answer : refused
  if (redirect !== undefined && statusCode === 401) return redirect(state, reply, refused)
  if (isRefusal && !settings.debug && !isReplaced(responses, 'exceptionResponse')) return sendAnswer(reply, refused.answer, settings)
  return sendError(responses, request, reply, isRefusal ? state.toError(refused) : refused, settings)
}
