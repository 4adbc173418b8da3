/** How a refused request is answered. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { MaybePromise } from '../../types/handlers.ts'
import { HandlerFailed, TokenAuthError } from '../errors.ts'
import { markRefused, publishRefused } from '../events.ts'
import { challengeOf, headersOf } from '../http/challenge.ts'
import { isReplaced, sendAnswer, sendError } from '../http/responses.ts'
import { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import type { RequestState } from '../request/state.ts'
import type { Redirect } from './options.ts'

/**
 * Publishes that a request is refused, and answers it.
 * @param refused a refusal, or whatever was thrown on the way to a decision
 * @throws as {@link answerRefusal}
 */
export function sendRefusal (
  registration: Registration, request: FastifyRequest, reply: FastifyReply, refused: unknown, state: RequestState, redirect?: Redirect
): MaybePromise<unknown> {
  publishRefused(registration.settings.instanceName, request, refused)
  return answerRefusal(registration, request, reply, refused, state, redirect)
}

/** Creates the error of a refusal, with the challenge of the instance. */
export function errorOf ({ challenge }: Registration, refused: Refusal, state: RequestState): TokenAuthError {
  const error = state.toError(refused)
  Object.assign(error.headers, headersOf(error.headers, challengeOf(error), challenge))
  return error
}

/**
 * Answers a refused request.
 * @throws what the error handler of the application is to answer: an error that is not a refusal, `HandlerFailed`, and
 * every error with `onRefusal: 'throw'`
 */
export function answerRefusal (
  registration: Registration, request: FastifyRequest, reply: FastifyReply, refused: unknown, state: RequestState, redirect?: Redirect
): MaybePromise<unknown> {
  const { responses, challenge } = registration
  const { settings } = state
  const isRefusal = refused instanceof Refusal
  if (!isRefusal && (!(refused instanceof TokenAuthError) || refused instanceof HandlerFailed)) throw refused
  if (settings.onRefusal === 'throw') {
    const error = isRefusal ? errorOf(registration, refused, state) : refused
    markRefused(request, error)
    throw error
  }
  const { statusCode } = isRefusal ? refused.answer : refused
  if (redirect !== undefined && statusCode === 401) return reply.redirect(redirect(settings), 302)
  if (isRefusal && !settings.debug && !isReplaced(responses, 'exceptionResponse')) return sendAnswer(reply, refused.answer, challenge)
  return sendError(responses, request, reply, isRefusal ? errorOf(registration, refused, state) : refused, challenge)
}
