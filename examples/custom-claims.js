/**
 * Claims of your own: a session that can be ended at once, though access tokens cannot be revoked.
 *
 *   node examples/custom-claims.js
 */
import { randomBytes, randomUUID } from 'node:crypto'
import Fastify from 'fastify'
import tokenAuth from 'fastify-token-auth'
import { loginLine, passwordLogin, start, tokenLine } from './shared.js'

const users = [{ user_id: 1, name: 'ada', password: 'lovelace', plan: 'paid' }]

export async function createService ({ fastify } = {}) {
  const app = Fastify(fastify)
  /** The sessions that have not been ended: in memory, because it is looked at on every request. */
  const sessions = new Set()

  /** The session of a token. Every token must have it: one without is refused before `verify` is asked. */
  class SessionClaim {
    key = 'session'

    setup () {
      const session = randomUUID()
      sessions.add(session)
      return session
    }

    // Synchronous, and only `true` lets a request pass.
    verify (session) { return sessions.has(session) }
  }

  await app.register(tokenAuth, {
    secret: randomBytes(32),
    customClaims: [SessionClaim],
    // Added to the payload as it is, and not asked for.
    extendPayload: (payload, user) => ({ ...payload, plan: user.plan }),
    // A rule about the payload as a whole.
    extraVerifications: [(payload) => ['free', 'paid'].includes(payload.plan)],
    authenticate: passwordLogin(users)
  })
  const onRequest = app.tokenAuth.protect()
  app.get('/private', { onRequest }, async (request) => ({ plan: request.tokenAuth.payload.plan }))
  app.delete('/session', { onRequest }, async (request, reply) => {
    sessions.delete(request.tokenAuth.payload.session)
    return reply.code(204).send()
  })
  return app
}

await start(import.meta.filename, createService, (address) => `${loginLine(`${address}/auth`, { username: 'ada', password: 'lovelace' })}
${tokenLine(`${address}/private`)}
${tokenLine(`${address}/session`, ' -X DELETE')}
${tokenLine(`${address}/private`)}`)
