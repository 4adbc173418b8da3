import t, { type Test } from 'tap'
import type { FastifyInstance } from 'fastify'
import { memorySessions, type TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, claims, forge, login, payloadOf } from '../helper.ts'

async function withSessions (t: Test, options: TokenAuthOptions = {}): Promise<FastifyInstance> {
  const app = await build(t, { sessions: { store: memorySessions() }, ...options })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth: { sessionId, userId } }) => ({ sessionId, userId }))
  return app
}

const refresh = (app: FastifyInstance, refreshToken: unknown, headers = {}) =>
  app.inject({ method: 'POST', url: '/auth/refresh', headers, payload: { refresh_token: refreshToken } })

t.test('a login starts a session, a refresh rotates it, a logout ends it', async (t) => {
  const app = await withSessions(t)
  const first = await login(app)
  t.equal(first.statusCode, 200)
  const tokens = first.json()
  t.same(Object.keys(tokens), ['access_token', 'refresh_token'])
  const { sid } = payloadOf(tokens.access_token)
  t.match(sid, /^[\w-]{22}$/)
  t.same((await app.inject({ url: '/', headers: bearer(tokens.access_token) })).json(), { sessionId: sid, userId: 1 })

  const second = await refresh(app, tokens.refresh_token)
  t.equal(second.statusCode, 200)
  const rotated = second.json()
  t.not(rotated.refresh_token, tokens.refresh_token)
  t.equal(payloadOf(rotated.access_token).sid, sid)
  t.equal((await refresh(app, tokens.refresh_token)).json().refresh_token, rotated.refresh_token, 'repeated within the window')

  const list = await app.inject({ url: '/auth/sessions', headers: bearer(rotated.access_token) })
  t.match(list.json(), { sessions: [{ id: sid, current: true, data: {} }] })

  t.equal((await app.inject({ method: 'POST', url: '/auth/logout', payload: { refresh_token: tokens.refresh_token } })).statusCode, 204)
  for (const { access_token: token } of [tokens, rotated]) {
    const answer = await app.inject({ url: '/', headers: bearer(token) })
    t.equal(answer.statusCode, 401)
    t.same(answer.json(), { reasons: 'Session has ended.', exception: 'SessionEnded' })
    t.same((await app.inject({ url: '/auth/verify', headers: bearer(token) })).json(), { valid: false, reason: 'Session has ended.' })
  }
  t.equal((await refresh(app, rotated.refresh_token)).statusCode, 401)
  t.equal((await app.inject({ url: '/', headers: bearer(forge(claims())) })).statusCode, 200, 'a token without a session')
})
