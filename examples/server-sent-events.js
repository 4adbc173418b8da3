/**
 * Server-sent events for clients with a valid token. The stream ends when the token expires or its session ends.
 *
 *   node examples/server-sent-events.js
 */
import { randomBytes } from 'node:crypto'
import { EventEmitter, on } from 'node:events'
import { Readable } from 'node:stream'
import Fastify from 'fastify'
import tokenAuth from 'fastify-token-auth'
import { loginLine, passwordLogin, start, tokenLine } from './shared.js'

const users = [{ user_id: 1, name: 'ada', password: 'lovelace' }]
const news = new EventEmitter()

async function * eventsFor (userId, signal) {
  yield `data: Hello, user ${userId}.\n\n`
  try {
    for await (const [text] of on(news, 'news', { signal })) yield `data: ${text}\n\n`
  } catch (error) {
    if (!signal.aborted) throw error
    // A client that gets this event should log in, or refresh the token, before it connects again.
    yield `event: end\ndata: ${signal.reason.message}\n\n`
  }
}

export async function createService ({ fastify } = {}) {
  const app = Fastify({ logger: { level: 'warn' }, ...fastify })
  await app.register(tokenAuth, {
    secret: randomBytes(32),
    authenticate: passwordLogin(users),
    sessions: {}
  })
  // The guard runs only once, at the beginning. The signal aborts when the token is no longer valid.
  app.get('/events', { onRequest: app.tokenAuth.protect() }, (request, reply) => {
    const { userId, signal } = request.tokenAuth
    return reply.type('text/event-stream').send(Readable.from(eventsFor(userId, signal)))
  })
  app.post('/news', { onRequest: app.tokenAuth.protect() }, async ({ body }, reply) => {
    news.emit('news', String(body?.text).replaceAll(/[\r\n]+/g, ' '))
    return reply.code(204).send()
  })
  return app
}

await start(import.meta.filename, createService, (address) => `${loginLine(`${address}/auth`, { username: 'ada', password: 'lovelace' })}
${tokenLine(`${address}/events`, ' -N')} &
${tokenLine(`${address}/news`, " -X POST -H 'content-type: application/json' -d '{\"text\":\"It works.\"}'")}
# After the logout, the stream ends:
${tokenLine(`${address}/auth/logout`, ' -X POST')}`)
