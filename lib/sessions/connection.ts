/** Whether somebody still waits for the response to a refresh: a rotation that its client never hears of must not take place. */
import { setImmediate } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { memberOf } from '../values.ts'

/**
 * A process that was paused reads a request first, and the end of its connection in a later turn of the event loop: over
 * HTTP/1 in the second, over HTTP/2 in the third.
 */
const turnsUntilClosed = 3

/**
 * Whether nobody can receive the response any more. Over HTTP/2, a response has no `destroyed`, but its stream has. Over
 * HTTP/1, the response to a pipelined request knows nothing of the connection before it is its turn.
 */
export async function hasNoConnection ({ raw: { socket } }: FastifyRequest, { raw }: FastifyReply): Promise<boolean> {
  for (let turns = 0; turns < turnsUntilClosed; turns++) await setImmediate()
  return raw.destroyed || socket.destroyed || memberOf(memberOf(raw, 'stream'), 'destroyed') === true
}
