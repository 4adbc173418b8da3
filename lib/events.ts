/** Publishes events on `node:diagnostics_channel`. An event is created only if its channel has subscribers. */
import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { IssuedEvent, KeyEvent, RefusedEvent } from '../types/events.ts'
import type { UserId } from '../types/handlers.ts'
import type { SessionEvent } from '../types/sessions.ts'
import { challengedBy, noInstance } from './challenge.ts'
import { TokenAuthError } from './errors.ts'
import { copyError, Refusal } from './refusal.ts'
import { memberOf } from './values.ts'

const sessions = channel('fastify-token-auth:session')
const issued = channel('fastify-token-auth:issued')
const refused = channel('fastify-token-auth:refused')
const keys = channel('fastify-token-auth:keys')

/** Publishes an event of a session. A subscriber that throws causes an `uncaughtException` and does not change the response. */
export function publishSession (event: SessionEvent): void {
  if (sessions.hasSubscribers) sessions.publish(event)
}

/** Publishes an event about the keys of an instance. */
export function publishKeys (event: KeyEvent): void {
  if (keys.hasSubscribers) keys.publish(event)
}

/** Publishes that an access token was issued. */
export function publishIssued (
  instanceName: string,
  userId: UserId,
  grant: IssuedEvent['grant'],
  request: FastifyRequest | undefined
): void {
  if (issued.hasSubscribers) {
    issued.publish({ instanceName, ...(request !== undefined && { request }), userId, grant } satisfies IssuedEvent)
  }
}

/** By request, the errors that were published. An error that an endpoint catches must not be published again. */
const published = new WeakMap<FastifyRequest, Set<unknown>>()

/** Records that an error was published. */
export function markRefused (request: FastifyRequest, error: unknown): void {
  if (!refused.hasSubscribers) return
  const errors = published.get(request)
  if (errors === undefined) published.set(request, new Set([error]))
  else errors.add(error)
}

/**
 * Publishes a refusal, once for each error.
 * @param why the refusal or the thrown value; errors of the application are not published
 * @param settings of the instance or the guard that refuses, for the challenge
 */
export function publishRefused (instanceName: string, request: FastifyRequest, why: unknown, settings = noInstance): void {
  if (!refused.hasSubscribers) return
  const isRefusal = why instanceof Refusal
  if (!isRefusal && (!(why instanceof TokenAuthError) || published.get(request)?.has(why) === true)) return
  if (!isRefusal) markRefused(request, why)
  const reason = memberOf(why, 'reason')
  refused.publish({
    instanceName,
    request,
    error: challengedBy(copyError(isRefusal ? why.toError(settings) : why), settings),
    ...(typeof reason === 'string' && { reason })
  } satisfies RefusedEvent)
}
