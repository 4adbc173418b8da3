// @alone
/** `fastify.tokenAuth.verified`: a token that came elsewhere than in a header of its request. */
import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import { SessionEnded, TokenAuthError, TokenExpired, type TokenAuthOptions, type Verified } from '../../lib/index.ts'
import { granted, issue, issuer, trusted, withIssuers } from '../authorities/issuers.ts'
import { started, withSessions } from '../sessions/helper.ts'
import { bearer, build, caseOf, claims, environment, forge, holdTimers, mistyped, now, otherSecret, payloadOf, setClock, together } from '../helper.ts'

/** Calls `verified` with the request of an unguarded route, and returns what it gives or throws. */
async function verify (app: FastifyInstance, text: unknown, headers: Record<string, string> = {}): Promise<Verified | Error> {
  let result: Verified | Error | undefined
  await app.inject({ url: '/connection', headers, query: { id: String(waiting.push((found: Verified | Error) => { result = found }, text) / 2) } })
  return result ?? new Error('The route was not reached.')
}

const waiting: unknown[] = []
async function connectable (t: Test, options: Partial<TokenAuthOptions> = {}, given?: FastifyInstance): Promise<FastifyInstance> {
  const app = given ?? await build(t, options)
  app.get('/connection', async (request: FastifyRequest) => {
    const text = waiting.pop()
    const give = waiting.pop() as (found: unknown) => void
    await app.tokenAuth.verified(mistyped<string>(text), request).then(give, give)
    return {}
  })
  return app
}

const right = async (...given: Parameters<typeof verify>): Promise<Verified> => {
  const found = await verify(...given)
  if (found instanceof Error) throw found
  return found
}

// Promise: specification/verified-given
t.test('it has what request.tokenAuth.verified has, but no source; nothing that writes or copies it has the token', async (t) => {
  const { app } = await withSessions(t, { scopesEnabled: true, addScopesToPayload: () => ['user:read'] })
  await connectable(t, {}, app)
  app.get('/verified', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth: { verified } }) => verified)
  const { access_token: token } = await started(app)
  const given = await right(app, token)
  const byRequest = (await app.inject({ url: '/verified', headers: bearer(token) })).json()
  t.same(JSON.parse(JSON.stringify(given)), { ...byRequest, source: null })
  t.equal(given.token, token)
  t.equal(given.sessionId, payloadOf(token).sid)
  for (const written of [JSON.stringify(given), inspect(given, { depth: null, showHidden: true }), inspect(structuredClone({ ...given })), inspect(Object.entries(given))]) {
    t.match(written, /userId/)
    t.notMatch(written, token.split('.')[2]!)
  }
  t.same([given.can('user:read'), given.can('user:write'), given.can(['user:write', 'user:read'], { requireAll: false })], [true, false, true])
  t.throws(() => given.can(''), { name: 'InvalidConfiguration' })
})

t.test('the payload belongs to the caller, and the token of the request is not looked at', async (t) => {
  const app = await connectable(t)
  const token = forge(claims({ list: [1] }))
  const one = await right(app, token, bearer(forge(claims({ user_id: 2 }))))
  t.equal(one.userId, 1)
  ;(one.payload as { list: number[] }).list.push(2)
  t.same((await right(app, token)).payload.list, [1])
})

t.test('a token that is refused rejects with its refusal, which says nothing of the token', async (t) => {
  environment(t, 'test')
  const app = await connectable(t, { debug: true })
  const cases: Array<[unknown, string]> = [
    [undefined, 'InvalidToken'], [null, 'InvalidToken'], [5, 'InvalidToken'], [{}, 'InvalidToken'], ['', 'InvalidToken'], ['x', 'InvalidToken'], ['a.b.c', 'InvalidToken'],
    [`Bearer ${forge(claims())}`, 'InvalidToken'], [forge(claims(), { key: otherSecret }), 'InvalidToken'], [forge(claims({ exp: now() - 3600 })), 'TokenExpired'],
    [forge({ exp: now() + 60 }), 'InvalidClaim'], ['x'.repeat(100_000), 'InvalidToken']
  ]
  for (const [text, name] of cases) {
    const found = await verify(app, text)
    assert.ok(found instanceof TokenAuthError, caseOf(text))
    assert.equal(found.name, name)
    assert.equal(found.statusCode, 401)
    if (typeof text === 'string' && text.length > 20) assert.ok(!inspect(found).includes(text.slice(-20)))
  }
})

t.test('getters and trusted see the request of the connection', async (t) => {
  const app = await connectable(t, {
    getClaimAud: ({ headers }) => String(headers['x-tenant'] ?? ''),
    trusted: async ({ headers }, { user_id: user }) => headers['x-tenant'] === 'a' && user === 1
  })
  const token = forge(claims({ aud: 'a' }))
  t.equal((await right(app, token, { 'x-tenant': 'a' })).userId, 1)
  t.match(await verify(app, token, { 'x-tenant': 'b' }), { name: 'InvalidClaim' })
  t.match(await verify(app, forge(claims({ aud: 'a', user_id: 2 })), { 'x-tenant': 'a' }), { name: 'InvalidToken' })
})

t.test('tokens of trusted issuers have their issuer and their scopes', async (t) => {
  const app = await connectable(t, {}, await withIssuers(t, trusted({ scopesName: 'roles', exactScopes: true })))
  const found = await right(app, issue('a', granted({ roles: ['Site Manager'], sid: 'x' })))
  t.match(found, { issuer, userId: 'user-1', scopes: ['Site Manager'], sessionId: null, source: null })
  t.same([found.can('Site Manager'), found.can('Site')], [true, false])
})

t.test('its signal aborts when the token expires', async (t) => {
  const at = 1_800_000_000
  setClock(t, at)
  const expire = holdTimers(t, 1_980_000)
  const app = await connectable(t)
  const { signal } = await right(app, forge(claims({ exp: at + 1800 })))
  let reason: unknown
  signal.addEventListener('abort', () => { reason = signal.reason })
  t.equal(signal.aborted, false)
  expire()
  t.ok(reason instanceof TokenExpired)
})

t.test('its signal aborts when the session ends, and is one object', async (t) => {
  const { app } = await withSessions(t)
  await connectable(t, {}, app)
  const { access_token: token } = await started(app)
  const given = await right(app, token)
  const { signal } = given
  t.equal(given.signal, signal)
  await app.tokenAuth.sessions.endAll(1)
  t.ok(signal.aborted)
  t.ok(signal.reason instanceof SessionEnded)
  t.match(await verify(app, token), { name: 'SessionEnded' })
})

t.test('with authMode false it verifies what another service has issued', async (t) => {
  const app = await connectable(t, together({ authMode: false }))
  t.equal((await right(app, forge(claims()))).userId, 1)
})
