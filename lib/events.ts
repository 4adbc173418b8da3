/** What the plugin publishes on `node:diagnostics_channel`. Nothing is created where nobody listens. */
import { channel } from 'node:diagnostics_channel'
import type { SessionEvent } from '../types/sessions.ts'

const sessions = channel('fastify-token-auth:session')

/** Publishes what became of a session. A listener that throws ends in `uncaughtException`, and changes no answer. */
export function publishSession (event: SessionEvent): void {
  if (sessions.hasSubscribers) sessions.publish(event)
}
