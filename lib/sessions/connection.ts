/** Checks whether the client is still connected: it must be able to receive the new tokens. */
import { setImmediate } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { memberOf } from '../values.ts'

/**
 * After a pause, a process reads a request before the end of its connection, which it reads in a later turn of the event
 * loop: over HTTP/1 in the second, over HTTP/2 in the third.
 */
const turnsUntilClosed = 3

/**
 * Whether the client has closed the connection. Over HTTP/2, not the response, but its stream has `destroyed`. Over HTTP/1,
 * the response to a pipelined request has no reference to the connection before its turn.
 */
export async function hasNoConnection ({ raw: { socket } }: FastifyRequest, { raw }: FastifyReply): Promise<boolean> {
  for (let turns = 0; turns < turnsUntilClosed; turns++) await setImmediate()
  return raw.destroyed || socket.destroyed || memberOf(memberOf(raw, 'stream'), 'destroyed') === true
}
