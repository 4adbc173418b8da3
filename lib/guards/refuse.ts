/** How a refused request is answered. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { MaybePromise } from '../../types/handlers.ts'
import { HandlerFailed, TokenAuthError } from '../errors.ts'
import { isReplaced, sendAnswer, sendError } from '../http/responses.ts'
import { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import type { RequestState } from '../request/state.ts'
import type { Redirect } from './options.ts'

/**
 * Answers a refused request.
 * @param refused a refusal, or whatever was thrown on the way to a decision
 * @throws what the error handler of the application is to answer: an error that is not a refusal, `HandlerFailed`, and
 * every error with `onRefusal: 'throw'`
 */
export function sendRefusal (
  { responses }: Registration, request: FastifyRequest, reply: FastifyReply, refused: unknown, state: RequestState, redirect?: Redirect
): MaybePromise<unknown> {
  const { settings } = state
  const isRefusal = refused instanceof Refusal
  if (!isRefusal && (!(refused instanceof TokenAuthError) || refused instanceof HandlerFailed)) throw refused
  if (settings.onRefusal === 'throw') throw isRefusal ? state.toError(refused) : refused
  const { statusCode } = isRefusal ? refused.answer : refused
  if (redirect !== undefined && statusCode === 401) return reply.redirect(redirect(settings), 302)
  if (isRefusal && !settings.debug && !isReplaced(responses, 'exceptionResponse')) return sendAnswer(reply, refused.answer)
  return sendError(responses, request, reply, isRefusal ? state.toError(refused) : refused)
}
