/**
 * Custom claims: sessions that can be ended immediately, although access tokens cannot be revoked.
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
  /** Sessions that have not been ended. They are kept in memory, because every request looks one up. */
  const sessions = new Set()

  /** The session of a token. Tokens without this claim are refused before `verify` is called. */
  class SessionClaim {
    key = 'session'

    setup () {
      const session = randomUUID()
      sessions.add(session)
      return session
    }

    // Must be synchronous. Any result other than `true` refuses the token.
    verify (session) { return sessions.has(session) }
  }

  await app.register(tokenAuth, {
    secret: randomBytes(32),
    customClaims: [SessionClaim],
    // Adds a claim that is not required when a token is verified.
    extendPayload: (payload, user) => ({ ...payload, plan: user.plan }),
    // Checks the whole payload.
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
