import assert from 'node:assert/strict'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import tokenAuth, { AuthenticationFailed, type TokenAuthError, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, bearer, build, caseOf, claims, forge, host, login, mistyped, now, otherSecret, payloadOf, refreshStore, secret, setClock, together, warnings } from '../helper.ts'

warnings(t, 'W05')

const start = 1_700_000_000
const stored = 'the stored refresh token'
const refreshing = { refreshTokenEnabled: true, storeRefreshToken: () => {}, retrieveRefreshToken: async () => stored }

interface Sent { token?: string, body?: object, url?: string }

async function refresh (app: FastifyInstance, { token = forge(claims()), body = { refresh_token: stored }, url = '/auth/refresh' }: Sent = {}) {
  return await app.inject({ method: 'POST', url, headers: bearer(token), payload: body })
}

// Promise: specification/post-auth-refresh
// Promise: specification/refresh-tokens-user
t.test('a refresh token is exchanged for a new access token of the same user', async (t) => {
  const tick = setClock(t, start)
  const { stored, ...handlers } = refreshStore()
  const app = await build(t, handlers)
  const { access_token: token, refresh_token: refreshToken } = (await login(app, { username: 'grace', password: 'hopper' })).json()
  tick(start + 10)
  const response = await refresh(app, { token, body: { refresh_token: refreshToken } })
  t.equal(response.statusCode, 200)
  t.same(Object.keys(response.json()), ['access_token'])
  t.same(payloadOf(response.json().access_token), { user_id: 2, exp: start + 10 + 1800 })
  t.match(response.headers, { 'content-type': /^application\/json/, 'cache-control': 'no-store', 'set-cookie': undefined })
  t.equal(stored.get(2), refreshToken, 'the refresh token stays as it is')
})

// Promise: specification/5-refresh
t.test('the access token may have expired, however long ago, and is valid nowhere else', async (t) => {
  const tick = setClock(t, start)
  const app = await build(t, refreshing)
  const { access_token: token } = (await login(app)).json()
  for (const seconds of [0, 1979, 1980, 3600, 30 * 365 * 86400]) {
    tick(start + seconds)
    assert.equal((await refresh(app, { token })).statusCode, 200, `after ${seconds} seconds`)
    assert.equal((await app.inject({ url: '/auth/me', headers: bearer(token) })).statusCode, seconds < 1980 ? 200 : 401, caseOf(seconds))
  }
})

// Promise: security/refresh-without-refresh
// Promise: specification/invalidclaim-2
// Promise: specification/refresh-responds-401
t.test('everything else about the access token must hold, or the answer is 401', async (t) => {
  const strict: Partial<TokenAuthOptions> = {
    claimIss: 'us', claimAud: 'here', customClaims: [{ key: 'custom', setup: () => 1, verify: (value) => value === 1 }], extraVerifications: [({ banned }) => banned !== true]
  }
  const app = await build(t, together(refreshing, strict))
  const good = claims({ iss: 'us', aud: 'here', custom: 1, exp: 1 })
  t.equal((await refresh(app, { token: forge(good) })).statusCode, 200)
  const cases: [name: string, token: string, exception: string][] = [
    ['unsigned', forge(good).replace(/[^.]*$/, ''), 'InvalidToken'],
    ['foreign', forge(good, { key: otherSecret }), 'InvalidToken'],
    ['none', `${Buffer.from('{"alg":"none"}').toString('base64url')}.${forge(good).split('.')[1]}.`, 'InvalidToken'],
    ['rubbish', 'rubbish', 'InvalidToken'],
    ['the refresh token', stored, 'InvalidToken'],
    ['future nbf', forge({ ...good, nbf: now() + 3600 }), 'TokenNotActive'],
    ['exp missing', forge({ ...good, exp: undefined }), 'InvalidClaim'],
    ['exp no number', forge({ ...good, exp: '1' }), 'InvalidClaim'],
    ['user id missing', forge({ ...good, user_id: undefined }), 'InvalidClaim'],
    ['user id no scalar', forge({ ...good, user_id: { $ne: null } }), 'InvalidClaim'],
    ['issuer', forge({ ...good, iss: 'them' }), 'InvalidClaim'],
    ['audience', forge({ ...good, aud: 'there' }), 'InvalidClaim'],
    ['custom claim', forge({ ...good, custom: 2 }), 'InvalidClaim'],
    ['extra verification', forge({ ...good, banned: true }), 'InvalidClaim']
  ]
  for (const [name, token, exception] of cases) {
    const response = await refresh(app, { token })
    assert.equal(response.statusCode, 401, name)
    assert.equal(response.json().exception, exception, name)
    t.match(response.headers, { 'content-type': /^application\/json/, 'www-authenticate': /error="invalid_token"/ })
  }
  const missing = await app.inject({ method: 'POST', url: '/auth/refresh', payload: { refresh_token: stored } })
  t.equal(missing.statusCode, 401)
  t.equal(missing.json().exception, 'MissingAuthorizationHeader')
  t.equal(missing.headers['www-authenticate'], 'Bearer realm="token-auth"')
})

t.test('debug says of each token that is refused which check failed, and where it was found', async (t) => {
  const app = await build(t, { ...refreshing, debug: true })
  t.equal((await refresh(app, { token: forge(claims({ exp: '1' })) })).json().detail, 'the claim "exp" is not a date (token found in the header)')
  t.match((await refresh(app, { body: { refresh_token: 'wrong' } })).json(), { reasons: 'Authentication failed.', exception: 'AuthenticationFailed', detail: /"retrieveRefreshToken" returned \(refresh token found in the body\)$/ })
})

t.test('a host that refusals of the refresh endpoint are thrown to has each for itself', async (t) => {
  const app = await build(t, { ...refreshing, cookieSet: true, cookieStrict: false, onRefusal: 'throw' })
  const seen: TokenAuthError[] = []
  app.setErrorHandler(async (error: TokenAuthError, _request, reply) => {
    seen.push(error)
    error.detail = 'by the host'
    return reply.code(error.statusCode).send({ exception: error.name })
  })
  for (const cookie of ['', 'access_token=x', `access_token=${forge(claims())}; refresh_token=a; refresh_token=b`]) {
    for (let time = 0; time < 2; time++) assert.equal((await app.inject({ method: 'POST', url: '/auth/refresh', headers: { cookie }, payload: {} })).statusCode, 401, caseOf(cookie, time))
  }
  t.equal(new Set(seen).size, 6)
})

// Promise: specification/missingrefreshtoken-2
// Promise: specification/refresh-responds-401
t.test('a refresh token that is missing or no string is 400 MissingRefreshToken', async (t) => {
  const app = await build(t, refreshing)
  const bodies: object[] = [
    {}, { refresh_token: '' }, { refresh_token: null }, { refresh_token: 1 }, { refresh_token: true }, { refresh_token: [stored] },
    { refresh_token: { toString: stored } }, { refreshToken: stored }, { access_token: stored }
  ]
  for (const body of bodies) {
    const response = await refresh(app, { body })
    assert.equal(response.statusCode, 400, JSON.stringify(body))
    assert.deepEqual(response.json(), { reasons: 'Refresh token not present.', exception: 'MissingRefreshToken' }, caseOf(body))
    assert.equal(response.headers['cache-control'], 'no-store', caseOf(body))
  }
  const empty = await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(forge(claims())) })
  t.equal(empty.json().exception, 'MissingRefreshToken', 'no body')
})

t.test('with debug, a missing refresh cookie or query parameter has a detail that says where it is expected', async (t) => {
  const cases: [options: Partial<TokenAuthOptions>, detail: string][] = [
    [{ cookieSet: true }, 'Authorization cookie not present. (expected: the cookie "refresh_token")'],
    [{ queryStringSet: true }, 'Authorization query argument not present. (expected: the query parameter "refresh_token")']
  ]
  for (const [options, detail] of cases) {
    const app = await build(t, together(refreshing, options, { debug: true }))
    const token = forge(claims())
    const sent = { method: 'POST' as const, url: `/auth/refresh?access_token=${token}`, headers: { cookie: `access_token=${token}` } }
    const answer = await app.inject(sent)
    assert.equal(answer.statusCode, 401, caseOf(options))
    assert.equal(answer.json().detail, detail, caseOf(options))
    const quiet = await build(t, together(refreshing, options))
    assert.ok(!('detail' in (await quiet.inject(sent)).json()), caseOf(options))
  }
})

// Promise: security/malformed-oversized-bodies
// Promise: specification/body-json-object
t.test('a body that is no JSON object is 400, never a crash', async (t) => {
  const app = await build(t, refreshing)
  const headers = { ...bearer(forge(claims())), 'content-type': 'application/json' }
  for (const payload of ['null', '[]', '"x"', '1', 'false', '{', '', '{"__proto__":{"refresh_token":"x"}}']) {
    const response = await app.inject({ method: 'POST', url: '/auth/refresh', headers, payload })
    assert.equal(response.statusCode, 400, payload)
    assert.equal(response.headers['cache-control'], 'no-store', payload)
  }
  const text = await app.inject({ method: 'POST', url: '/auth/refresh', headers: { ...headers, 'content-type': 'text/plain' }, payload: stored })
  t.equal(text.statusCode, 415)
})

// Promise: security/3-12-use
// Promise: security/9-2-2
// Promise: specification/5-refresh
// Promise: specification/authenticationfailed-2
t.test("a refresh token that is wrong, another user's, or not stored is 401 AuthenticationFailed, in JSON", async (t) => {
  const { stored, ...handlers } = refreshStore()
  const app = await build(t, handlers)
  const ada = (await login(app)).json()
  const grace = (await login(app, { username: 'grace', password: 'hopper' })).json()
  const cases: [name: string, token: string, refreshToken: string][] = [
    ['wrong', ada.access_token, 'x'],
    ["another user's", ada.access_token, grace.refresh_token],
    ['none stored', forge(claims({ user_id: 3 })), ada.refresh_token],
    ['the user id as text', forge(claims({ user_id: '1' })), ada.refresh_token],
    ['the access token itself', ada.access_token, ada.access_token],
    ['its beginning', ada.access_token, ada.refresh_token.slice(0, -1)],
    ['more than it', ada.access_token, `${ada.refresh_token}x`],
    ['in capitals', ada.access_token, ada.refresh_token.toUpperCase()]
  ]
  for (const [name, token, refreshToken] of cases) {
    const response = await refresh(app, { token, body: { refresh_token: refreshToken } })
    assert.equal(response.statusCode, 401, name)
    assert.equal(response.body, '{"reasons":"Authentication failed.","exception":"AuthenticationFailed"}', name)
    t.match(response.headers, { 'content-type': /^application\/json/, 'www-authenticate': /^Bearer realm="token-auth"/ })
  }
  t.equal(stored.size, 2)
})

// Promise: security/refresh-without-refresh
t.test('nothing that is stored as nothing equals anything that is sent', async (t) => {
  for (const nothing of [undefined, null, '']) {
    const app = await build(t, { ...refreshing, retrieveRefreshToken: () => nothing })
    for (const value of ['undefined', 'null', ' ', '""']) assert.equal((await refresh(app, { body: { refresh_token: value } })).statusCode, 401, caseOf(nothing, value))
    assert.equal((await refresh(app, { body: { refresh_token: '' } })).statusCode, 400, caseOf(nothing))
  }
})

t.test('a store that gives something else than a string fails closed', async (t) => {
  for (const value of [1, true, {}, [stored], Buffer.from(stored)]) {
    const app = await build(t, { ...refreshing, retrieveRefreshToken: () => mistyped(value) })
    const response = await refresh(app)
    assert.equal(response.statusCode, 500, caseOf(value))
    assert.equal(response.json().message, 'The retrieveRefreshToken handler failed.', caseOf(value))
    assert.ok(!('access_token' in response.json()), caseOf(value))
  }
})

t.test('with retrieveUser the new token is made from the user it gives', async (t) => {
  const calls: unknown[] = []
  const app = await build(t, {
    ...refreshing,
    retrieveUser: async (request, payload) => { calls.push([request.url, payload.user_id]); return { user_id: 1, role: 'admin' } },
    scopesEnabled: true,
    addScopesToPayload: (user) => `role:${user.role}`,
    extendPayload: (payload, user) => ({ ...payload, role: user.role })
  })
  const response = await refresh(app, { token: forge(claims({ scopes: ['old'], role: 'old', other: 1 })) })
  t.match(payloadOf(response.json().access_token), { user_id: 1, role: 'admin', scopes: ['role:admin'], other: undefined })
  t.same(calls, [['/auth/refresh', 1]])
})

t.test('without retrieveUser the user is the user id alone', async (t) => {
  const seen: unknown[] = []
  const app = await build(t, { ...refreshing, extendPayload: (_payload, user) => { seen.push(user) } })
  await refresh(app, { token: forge(claims({ role: 'admin' })) })
  t.same(seen, [{ user_id: 1 }])
})

t.test('no user, or another one than the token is of, is 401', async (t) => {
  for (const user of [null, undefined, { user_id: 2 }, { user_id: '1' }]) {
    const app = await build(t, { ...refreshing, retrieveUser: () => user })
    const response = await refresh(app)
    assert.equal(response.statusCode, 401, caseOf(user))
    assert.deepEqual(response.json(), { reasons: 'Authentication failed.', exception: 'AuthenticationFailed' }, caseOf(user))
  }
})

t.test('what retrieveUser gives must be a user: 500 InvalidUserObject otherwise', async (t) => {
  class Plain { user_id = 1 }
  for (const user of [{}, { user_id: null }, 'ada', [1], new Plain()]) {
    const app = await build(t, { ...refreshing, retrieveUser: () => mistyped(user) })
    const response = await refresh(app)
    assert.equal(response.statusCode, 500, caseOf(user))
    assert.equal(response.json().exception, 'InvalidUserObject', caseOf(user))
  }
})

// Promise: specification/refused-login-answered
t.test('a refusal by a handler is JSON here: text belongs to the authenticate endpoint', async (t) => {
  const refuse = () => { throw new AuthenticationFailed('Locked.') }
  for (const options of [{ retrieveUser: refuse }, { retrieveRefreshToken: refuse }]) {
    const app = await build(t, together(refreshing, options))
    const response = await refresh(app)
    assert.equal(response.statusCode, 401, caseOf(options))
    t.match(response.headers['content-type'], 'application/json')
    assert.deepEqual(response.json(), { reasons: 'Locked.', exception: 'AuthenticationFailed' }, caseOf(options))
  }
})

// Promise: specification/refresh-token-name
t.test('fields and paths bear the names that the settings give them', async (t) => {
  const app = await build(t, { ...refreshing, accessTokenName: 'token', refreshTokenName: 'renewal', pathToRefresh: '/renew' })
  const response = await refresh(app, { url: '/auth/renew', body: { renewal: stored } })
  t.same(Object.keys(response.json()), ['token'])
})

// Promise: specification/auth-mode
// Promise: specification/none-auth-mode
t.test('where refresh is not enabled, or the endpoints are off, there is nothing: 404', async (t) => {
  for (const options of [{}, { authMode: false }, { ...refreshing, authMode: false }]) {
    assert.equal((await refresh(await build(t, options))).statusCode, 404, caseOf(options))
  }
  const app = await build(t, { authMode: false })
  for (const url of ['/auth', '/auth/', '/auth/verify', '/auth/me']) {
    for (const method of ['GET', 'POST', 'HEAD'] as const) assert.equal((await app.inject({ method, url })).statusCode, 404, caseOf(url, method))
  }
})

t.test('a getter that fails while the access token is verified is a 500, before the body is read', async (t) => {
  const app = host(t)
  let read = 0
  app.addHook('preParsing', async (_request, _reply, payload) => { read++; return payload })
  await app.register(tokenAuth, { secret, authenticate, ...refreshing, getClaimIss: () => { throw new Error('broken') } })
  const answer = await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(forge(claims())), payload: { refresh_token: 'stored' } })
  t.equal(answer.statusCode, 500)
  t.equal(answer.json().message, 'The getClaimIss handler failed.')
  t.equal(read, 0)
})

t.test('a refresh that was answered while its key was computed goes no further, whatever becomes of the key', async (t) => {
  const app = host(t)
  let settle = () => {}
  app.addHook('onRequest', (request, reply, done) => {
    request.raw.once('answer', () => {
      reply.code(418).send('answered')
      settle()
    })
    done()
  })
  let stored = 0
  await app.register(tokenAuth, {
    authenticate,
    refreshTokenEnabled: true,
    storeRefreshToken: () => {},
    retrieveRefreshToken: () => { stored++; return 'stored' },
    getSecret: (request) => new Promise((resolve, reject) => {
      settle = () => request.headers.fails === undefined ? resolve(secret) : reject(new Error('broken'))
      setImmediate(() => { request.raw.emit('answer') })
    })
  })
  for (const more of [{}, { fails: 'yes' }]) {
    const sent = { method: 'POST' as const, url: '/auth/refresh', headers: { ...bearer(forge(claims())), ...more }, payload: { refresh_token: 'stored' } }
    const answer = await app.inject(sent)
    assert.deepEqual([answer.statusCode, answer.body], [418, 'answered'], caseOf(more))
  }
  t.equal(stored, 0)
})
