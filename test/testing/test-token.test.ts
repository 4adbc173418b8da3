import t from 'tap'
import { createTestToken, type TestTokenOptions } from '../../lib/testing.ts'
import { bearer, build, keysFor, mistyped, payloadOf } from '../helper.ts'

const user = { user_id: 1 }

// Promise: specification/fastify-token-auth
t.test('a host tests its routes in one line: a token in any state, and what becomes of it', async (t) => {
  const app = await build(t, { claimIss: 'https://issuer.example', claimAud: 'https://api.example', leeway: 300 })
  app.get('/', { preHandler: app.tokenAuth.scoped('reports:read') }, async () => 'ok')
  const cases: [TestTokenOptions, number, string | undefined][] = [
    [{ scopes: 'reports:read' }, 200, undefined],
    [{ scopes: ['other', 'reports'], state: 'valid' }, 200, undefined],
    [{ scopes: ['other'] }, 403, 'InsufficientScope'],
    [{}, 403, 'InsufficientScope'],
    [{ scopes: 'reports', state: 'expired' }, 401, 'TokenExpired'],
    [{ scopes: 'reports', state: 'notYetActive' }, 401, 'TokenNotActive'],
    [{ scopes: 'reports', state: 'wrongSignature' }, 401, 'InvalidToken'],
    [{ scopes: 'reports', state: 'otherIssuer' }, 401, 'InvalidClaim'],
    [{ scopes: 'reports', state: 'otherAudience' }, 401, 'InvalidClaim'],
    [{ scopes: 'reports', claims: { iss: 'https://somebody.example' } }, 401, 'InvalidClaim']
  ]
  for (const [options, status, exception] of cases) {
    const response = await app.inject({ url: '/', headers: bearer(await createTestToken(app.tokenAuth, user, options)) })
    t.equal(response.statusCode, status, JSON.stringify(options))
    if (exception !== undefined) t.equal(response.json().exception, exception)
  }
})

t.test('a test token carries the claims that were asked for, and never another user', async (t) => {
  const app = await build(t, { scopesEnabled: true, addScopesToPayload: () => { throw new Error('called with a part of a user') } })
  t.notOk('scopes' in payloadOf(await createTestToken(app.tokenAuth, user)))
  t.match(payloadOf(await createTestToken(app.tokenAuth, user, { claims: { tenant: 'a' }, scopes: ['a'] })), { tenant: 'a', scopes: ['a'] })
  await t.rejects(createTestToken(app.tokenAuth, user, { claims: { user_id: 2 } }), { name: 'MissingRegisteredClaim' })
})

t.test('a wrong signature has the form of a right one, with every kind of key', async (t) => {
  for (const algorithm of ['HS512', 'ES384', 'PS256'] as const) {
    const app = await build(t, keysFor(algorithm))
    const [right = '', wrong = ''] = await Promise.all([createTestToken(app.tokenAuth, user), createTestToken(app.tokenAuth, user, { state: 'wrongSignature' })])
    t.equal(wrong.length, right.length)
    t.throws(() => app.tokenAuth.verifyToken(wrong), { name: 'InvalidToken' })
  }
})

t.test('where the secret is computed from a request, a test token is made for that request', async (t) => {
  const app = await build(t, { getSecret: (request) => `a secret of more than thirty-two bytes for ${request.hostname}` })
  app.get('/token', async (request) => await createTestToken(app.tokenAuth, user, { request }))
  app.get('/', { preHandler: app.tokenAuth.protect() }, async () => 'ok')
  const ofA = (await app.inject({ url: '/token', headers: { host: 'a' } })).payload
  t.equal((await app.inject({ url: '/', headers: { host: 'a', ...bearer(ofA) } })).statusCode, 200)
  t.equal((await app.inject({ url: '/', headers: { host: 'b', ...bearer(ofA) } })).statusCode, 401)
})

t.test('a test token that would not be what was asked for is not made', async (t) => {
  const app = await build(t)
  const wrong: [TestTokenOptions, RegExp][] = [
    [mistyped({ state: 'foo' }), /must be "valid", "expired", /], [mistyped({ scope: 'a' }), /no option "scope"/],
    [{ state: 'otherIssuer' }, /no "claimIss"/], [{ state: 'otherAudience' }, /no "claimAud"/]
  ]
  for (const [options, message] of wrong) {
    await t.rejects(createTestToken(app.tokenAuth, user, options), { name: 'InvalidConfiguration', message })
  }
  for (const instance of [app, undefined]) {
    await t.rejects(createTestToken(mistyped<typeof app.tokenAuth>(instance), user), { name: 'InvalidConfiguration', message: /app\.tokenAuth/ })
  }
})
