/** Settings and keys that are computed from a request. */
import assert from 'node:assert/strict'
import { createSecretKey, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyError, FastifyInstance, FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { AuthenticationFailed, Configuration, HandlerFailed, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, bearer, build, caseOf, claims, ecPair, forge, headerOf, host, login, readsOf, refreshStore, secret } from '../helper.ts'

/** Counts the calls of a function by name. */
function counter () {
  const calls: Record<string, number> = {}
  const counted = <Result>(name: string, value: Result) => () => {
    calls[name] = (calls[name] ?? 0) + 1
    return value
  }
  return { calls, counted }
}

/** An application with options that their types would not allow. */
async function buildWrong (t: Test, options: object): Promise<FastifyInstance> {
  const app = host(t)
  await app.register(tokenAuth, { secret, authenticate, ...options })
  return app
}

const token = forge(claims())

// Promise: specification/get-setting-request
t.test('a getter runs once for a request, however many guards and readers ask for its setting', async (t) => {
  const { calls, counted } = counter()
  class Computing extends Configuration {
    getLeeway = counted('leeway', 60)
    getUserId = counted('userId', 'user_id')
  }
  const app = await build(t, { configurationClass: Computing, getSecret: counted('secret', secret), getClaimIss: counted('claimIss', null) })
  const auth = app.tokenAuth
  app.get('/', {
    onRequest: [async (request) => { t.equal(request.tokenAuth.payload?.user_id, 1) }, auth.protect(), auth.protect({ debug: true })],
    preHandler: [auth.protect({ tokenCacheSize: 0 }), auth.scoped('read', { cookieStrict: false })]
  }, auth.injectUser(async (request, _reply, user) => {
    t.equal(request.tokenAuth.settings.leeway, 60)
    t.equal(request.tokenAuth.userId, 1)
    t.ok(auth.isAuthenticated(request))
    return user
  }))
  const headers = bearer(forge(claims({ scopes: ['read'] })))
  for (let round = 1; round <= 3; round++) {
    const response = await app.inject({ url: '/', headers })
    assert.equal(response.statusCode, 200, caseOf(round))
    assert.deepEqual(calls, { leeway: round, userId: round, secret: round, claimIss: round }, caseOf(round))
  }
})

t.test('two instances on one context count on their own', async (t) => {
  const { calls, counted } = counter()
  const app = host(t)
  await app.register(tokenAuth, { secret, authenticate, getLeeway: counted('outer', 1) })
  const other: object = { instanceName: 'other', getLeeway: counted('other', 2) }
  await app.register(tokenAuth, { secret, authMode: false, ...other })
  const second: FastifyInstance['tokenAuth'] = Reflect.get(app, 'other')
  app.get('/', { preHandler: [app.tokenAuth.protect(), second.protect(), app.tokenAuth.protect()] },
    async (request) => [request.tokenAuth.settings.leeway, Reflect.get(Reflect.get(request, 'other'), 'settings').leeway])
  t.strictSame((await app.inject({ url: '/', headers: bearer(token) })).json(), [1, 2])
  t.strictSame(calls, { outer: 1, other: 1 })
})

// Promise: specification/get-setting-request
t.test('a getter runs only where its setting is needed', async (t) => {
  const { calls, counted } = counter()
  const app = await build(t, {
    getSecret: counted('secret', secret),
    getLeeway: counted('leeway', 60),
    getCookieSet: counted('cookieSet', false),
    getCookieAccessTokenName: counted('cookieAccessTokenName', 'c'),
    getLoginRedirectUrl: counted('loginRedirectUrl', '/login'),
    getExpirationDelta: counted('expirationDelta', 60),
    getOnRefusal: counted<'reply'>('onRefusal', 'reply')
  })
  app.get('/open', async () => 'open')
  app.get('/', { preHandler: app.tokenAuth.protect() }, async () => 'in')
  app.get('/redirecting', { preHandler: app.tokenAuth.protect({ redirectOnFail: true }) }, async () => 'in')
  app.get('/overridden', { preHandler: app.tokenAuth.protect({ leeway: 1, secret, cookieSet: false }) }, async () => 'in')
  const ran = async (url: string, headers = {}) => {
    for (const name of Object.keys(calls)) delete calls[name]
    await app.inject({ url, headers })
    return Object.keys(calls).sort()
  }
  t.strictSame(await ran('/open', bearer(token)), [], 'none on an open route')
  t.strictSame(await ran('/'), ['cookieSet', 'onRefusal'], 'no key without a token')
  t.strictSame(await ran('/', bearer(token)), ['cookieSet', 'leeway', 'secret'])
  t.strictSame(await ran('/', bearer('x.y.z')), ['cookieSet', 'onRefusal', 'secret'], 'no claim is looked at where the token is none')
  t.strictSame(await ran('/redirecting'), ['cookieSet', 'loginRedirectUrl', 'onRefusal'])
  t.strictSame(await ran('/redirecting', bearer(token)), ['cookieSet', 'leeway', 'secret'])
  t.strictSame(await ran('/overridden', bearer(token)), [], 'an override comes instead of the getter')
})

/** How a getter can fail. */
const failures: [string, () => unknown][] = [
  ['throws', () => { throw new Error('a canary of the host') }],
  ['throws no error at all', () => { throw undefined }], // eslint-disable-line no-throw-literal
  ['gives nothing', () => undefined],
  ['gives null', () => null],
  ['gives the wrong type', () => 'a canary of the host'],
  ['gives a value out of range', () => -1],
  ['gives a promise', async () => 60],
  ['gives a promise that is rejected', async () => { throw new Error('a canary of the host') }]
]

// Promise: specification/getters-synchronous-except
t.test('a getter that fails is a 500 of the host, and the route is not reached', async (t) => {
  for (const [title, getLeeway] of failures) {
    let runs = 0
    let reached = 0
    let seen: FastifyError | undefined
    const app = await buildWrong(t, { getLeeway: () => { runs++; return getLeeway() } })
    app.addHook('onError', async (_request, _reply, error) => { seen = error })
    const reach = async () => { reached++ }
    app.get('/protect', { onRequest: app.tokenAuth.protect() }, reach)
    app.get('/scoped', { preHandler: app.tokenAuth.scoped('read') }, reach)
    app.get('/injected', app.tokenAuth.injectUser(reach))
    for (const url of ['/protect', '/scoped', '/injected', '/auth/verify', '/auth/me']) {
      runs = 0
      const response = await app.inject({ url, headers: bearer(token) })
      assert.equal(response.statusCode, 500, `${title}: ${url}`)
      t.match(response.json(), { message: 'The getLeeway handler failed.', code: 'TOKEN_AUTH_HANDLER_FAILED' })
      t.notMatch(response.body, 'canary', 'the client sees nothing of the original')
      assert.ok(seen instanceof HandlerFailed, 'the host\'s error handling sees it')
      assert.ok(seen !== undefined && 'cause' in seen === (title !== 'throws no error at all'), 'with its cause')
      assert.equal(runs, 1, 'and it is not tried again')
    }
    assert.equal(reached, 0, title)
    assert.equal((await app.inject({ url: '/protect' })).statusCode, 401, 'other requests are not affected')
  }
})

t.test('a failing getter of a setting that is needed only for the refusal is a 500 too', async (t) => {
  for (const name of ['getOnRefusal', 'getLoginRedirectUrl', 'getDebug', 'getDoProtection']) {
    const app = await buildWrong(t, { [name]: () => { throw new Error('broken') } })
    app.get('/', { onRequest: app.tokenAuth.protect({ redirectOnFail: name === 'getLoginRedirectUrl' }) }, async () => t.fail('reached'))
    const response = await app.inject({ url: '/', headers: bearer('x.y.z') })
    assert.equal(response.statusCode, 500, name)
    assert.equal(response.json().message, `The ${name} handler failed.`, name)
  }
})

t.test('a failing getter issues no token and stores nothing', async (t) => {
  for (const name of ['getExpirationDelta', 'getSecret', 'getGenerateRefreshToken', 'getClaimIss', 'getRefreshTokenName', 'getCookieSet']) {
    const { stored, ...handlers } = refreshStore()
    const app = await buildWrong(t, { ...handlers, [name]: () => { throw new Error('broken') } })
    const response = await login(app)
    assert.equal(response.statusCode, 500, name)
    assert.equal(response.json().message, `The ${name} handler failed.`, name)
    assert.equal(stored.size, 0, name)
  }
})

t.test('the settings of a request are frozen, complete and its own', async (t) => {
  class Computing extends Configuration {
    #factor = 2
    getLeeway (request: FastifyRequest) { return this.#factor * Number(request.headers['x-leeway']) }
  }
  const app = await build(t, { configurationClass: Computing, claimIss: 'us' })
  app.get('/', async (request) => {
    const { settings } = request.tokenAuth
    t.ok(Object.isFrozen(settings))
    t.throws(() => Object.assign(settings, { leeway: 0 }), TypeError)
    // Other requests come in between.
    for (let waits = Number(request.headers['x-leeway']) % 7; waits > 0; waits--) await turn()
    return { leeway: settings.leeway, claimIss: settings.claimIss, again: request.tokenAuth.settings === settings }
  })
  const answers = await Promise.all(Array.from({ length: 50 }, (_, index) => app.inject({ url: '/', headers: { 'x-leeway': String(index) } })))
  for (const [index, answer] of answers.entries()) assert.deepEqual(answer.json(), { leeway: 2 * index, claimIss: 'us', again: true }, caseOf(index))
  t.equal(app.tokenAuth.settings.leeway, 180, 'the instance shows what holds without a request')
})

t.test('cookie mode that is computed reads and sets cookies for those requests only', async (t) => {
  const app = await build(t, { getCookieSet: (request) => request.headers['x-browser'] === 'yes' })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'in')
  const payload = { username: 'ada', password: 'lovelace' }
  const browser = await app.inject({ method: 'POST', url: '/auth', payload, headers: { 'x-browser': 'yes' } })
  t.equal(browser.cookies.length, 1)
  t.equal((await app.inject({ method: 'POST', url: '/auth', payload })).cookies.length, 0)
  const cookie = `access_token=${browser.cookies[0]?.value}`
  t.equal((await app.inject({ url: '/', headers: { cookie, 'x-browser': 'yes' } })).statusCode, 200)
  t.equal((await app.inject({ url: '/', headers: { cookie } })).statusCode, 401)
})

/** Secrets of tenants, looked up as in a database: later, and not in order. */
function tenants (count: number) {
  const secrets = Array.from({ length: count }, () => randomBytes(64).toString('base64'))
  let lookups = 0
  const getSecret = async (request: FastifyRequest) => {
    lookups++
    const tenant = Number(request.headers['x-tenant'])
    for (let waits = (tenant * 7) % 5; waits > 0; waits--) await turn()
    const found = secrets[tenant]
    if (found === undefined) throw new Error('no such tenant')
    return found
  }
  return { secrets, getSecret, lookups: () => lookups }
}

// Promise: specification/getters-synchronous-except
t.test('each tenant has a secret of its own: tokens of one are refused for another', async (t) => {
  const { secrets, getSecret, lookups } = tenants(4)
  const store = refreshStore()
  const { stored, ...handlers } = store
  const app = await build(t, { ...handlers, secret: undefined, getSecret })
  app.get('/', { onRequest: [app.tokenAuth.protect(), app.tokenAuth.protect({ leeway: 0 })] }, async (request) => request.tokenAuth.payload)
  for (const [tenant, key] of secrets.entries()) {
    const issued = await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' }, headers: { 'x-tenant': String(tenant) } })
    assert.equal(issued.statusCode, 200, caseOf(tenant))
    const { access_token: own, refresh_token: refreshToken } = issued.json()
    for (const other of secrets.keys()) {
      const headers = { ...bearer(own), 'x-tenant': String(other) }
      const status = other === tenant ? 200 : 401
      const before = lookups()
      assert.equal((await app.inject({ url: '/', headers })).statusCode, status, `a token of ${tenant} at ${other}`)
      assert.equal(lookups(), before + 1, 'looked up once for two guards')
      assert.equal((await app.inject({ url: '/auth/verify', headers })).json().valid, status === 200, caseOf(tenant, other))
      assert.equal((await app.inject({ url: '/auth/me', headers })).statusCode, status, caseOf(tenant, other))
      assert.equal((await app.inject({ method: 'POST', url: '/auth/refresh', headers, payload: { refresh_token: refreshToken } })).statusCode, status, caseOf(tenant, other))
    }
    assert.equal((await app.inject({ url: '/', headers: { ...bearer(forge(claims(), { key })), 'x-tenant': String(tenant) } })).statusCode, 200, 'any token with the right secret will do')
  }
  const unknown = await app.inject({ url: '/', headers: { ...bearer(token), 'x-tenant': '99' } })
  t.equal(unknown.statusCode, 500)
  t.equal(unknown.json().message, 'The getSecret handler failed.')
})

t.test('concurrent requests of different tenants never mix', async (t) => {
  const { secrets, getSecret } = tenants(25)
  const app = await build(t, { secret: undefined, getSecret, getUserId: (request) => `id-${request.headers['x-tenant']}` })
  app.get('/', { preHandler: app.tokenAuth.protect() }, async (request) => {
    await turn()
    return { id: request.tokenAuth.userId, payload: request.tokenAuth.payload }
  })
  const asking = Array.from({ length: 500 }, (_, index) => {
    const [tenant, signedBy] = [index % 25, index % 3 === 0 ? (index + 1) % 25 : index % 25]
    const headers = { ...bearer(forge({ [`id-${tenant}`]: `user ${index}`, exp: claims().exp }, { key: secrets[signedBy] ?? '' })), 'x-tenant': String(tenant) }
    return app.inject({ url: '/', headers }).then((response) => ({ index, tenant, isOwn: tenant === signedBy, response }))
  })
  for (const { index, tenant, isOwn, response } of await Promise.all(asking)) {
    assert.equal(response.statusCode, isOwn ? 200 : 401, caseOf(index))
    if (isOwn) t.match(response.json(), { id: `user ${index}`, payload: { [`id-${tenant}`]: `user ${index}` } })
  }
})

t.test('a key that was computed before is not loaded again, by no guard and for no token', async (t) => {
  const directory = t.testdir({ secret })
  const path = join(directory, 'secret')
  const reads = readsOf(t, path)
  const app = await build(t, { secret: undefined, getSecret: async () => ({ path }) })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'in')
  app.get('/other', { onRequest: app.tokenAuth.protect({ leeway: 0 }) }, async () => 'in')
  t.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 200)
  t.equal((await app.inject({ url: '/', headers: bearer(forge(claims({ fresh: true }))) })).statusCode, 200)
  t.equal((await app.inject({ url: '/other', headers: bearer(token) })).statusCode, 200)
  t.equal(reads(), 1)
})

t.test('computed keys may have every form that given keys may have', async (t) => {
  const forms: TokenAuthOptions['secret'][] = [secret, Buffer.from(secret), createSecretKey(Buffer.from(secret)), { kty: 'oct', k: Buffer.from(secret).toString('base64url') }]
  for (const given of forms) {
    for (const getSecret of [() => given ?? '', async () => given ?? '']) {
      const app = await build(t, { getSecret })
      app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'in')
      for (const round of [1, 2]) assert.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 200, `round ${round}`)
    }
  }
})

// Promise: specification/getter-returns-key
t.test('a key getter that gives nothing, or something that is no key, is a 500: never an empty key, never another one', async (t) => {
  const wrong: unknown[] = [undefined, null, '', ' \n', 0, false, {}, [], Buffer.alloc(0), ecPair('prime256v1').publicKey, { path: '/nonexistent/secret' }]
  // What a verifier with an empty key would accept.
  const emptyKeyed = forge(claims(), { key: '' })
  for (const given of wrong) {
    for (const getSecret of [() => given, async () => given]) {
      const app = await buildWrong(t, { getSecret })
      app.get('/', { onRequest: app.tokenAuth.protect() }, async () => t.fail('reached'))
      for (const sent of [emptyKeyed, token]) {
        const response = await app.inject({ url: '/', headers: bearer(sent) })
        assert.equal(response.statusCode, 500, caseOf(given, getSecret, sent))
        assert.equal(response.json().message, 'The getSecret handler failed.', caseOf(given, getSecret, sent))
      }
      assert.equal((await login(app)).statusCode, 500, caseOf(given, getSecret))
    }
  }
})

t.test('a key getter that fails fails for that request only, and recovers', async (t) => {
  let down = true
  const failing = [() => { throw new Error('down') }, async () => { throw new Error('down') }]
  for (const fail of failing) {
    down = true
    const app = await build(t, { secret: undefined, getSecret: () => down ? fail() : secret })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'in')
    assert.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 500, caseOf(fail))
    down = false
    assert.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 200, caseOf(fail))
  }
})

t.test('the algorithm and both halves of a pair may be computed', async (t) => {
  const pairs = [ecPair('prime256v1', 0), ecPair('prime256v1', 1)]
  const pairOf = (request: FastifyRequest) => pairs[Number(request.headers['x-tenant'])] ?? { publicKey: '', privateKey: '' }
  const app = await build(t, {
    secret,
    getAlgorithm: (request) => request.headers['x-tenant'] === undefined ? 'HS256' : 'ES256',
    getPublicKey: async (request) => pairOf(request).publicKey,
    getPrivateKey: (request) => pairOf(request).privateKey
  })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'in')
  const loginAs = async (headers: Record<string, string>) =>
    (await app.inject({ method: 'POST', url: '/auth', headers, payload: { username: 'ada', password: 'lovelace' } })).json().access_token
  const tenancies: Record<string, string>[] = [{ 'x-tenant': '0' }, { 'x-tenant': '1' }, {}]
  for (const [index, headers] of tenancies.entries()) {
    const issued = await loginAs(headers)
    assert.equal(headerOf(issued).alg, index === 2 ? 'HS256' : 'ES256', caseOf(index))
    for (const [other, at] of tenancies.entries()) {
      assert.equal((await app.inject({ url: '/', headers: { ...bearer(issued), ...at } })).statusCode, index === other ? 200 : 401, caseOf(index, other))
    }
  }
})

t.test('where a key comes later, a reader without a guard is told to wait, and may', async (t) => {
  const app = await build(t, { secret: undefined, getSecret: async () => secret })
  app.get('/', async (request) => {
    t.throws(() => request.tokenAuth.payload, { name: 'InitializationFailure', message: /await request\.tokenAuth\.ready\(\) first/ })
    await request.tokenAuth.ready()
    return request.tokenAuth.payload
  })
  t.match((await app.inject({ url: '/', headers: bearer(token) })).json(), { user_id: 1 })
})

t.test('a getter that refuses, since the header names a tenant that nobody knows, answers with its refusal and not with a 500', async (t) => {
  const refuse = () => { throw new AuthenticationFailed('Unknown tenant.') }
  for (const options of [{ getSecret: refuse }, { getSecret: async () => refuse() }, { getLeeway: refuse }]) {
    const app = await build(t, options)
    app.get('/', { preHandler: app.tokenAuth.protect() }, async () => 'reached')
    const response = await app.inject({ url: '/', headers: bearer(forge(claims())) })
    assert.equal(response.statusCode, 401, caseOf(options))
    assert.deepEqual(response.json(), { reasons: 'Unknown tenant.', exception: 'AuthenticationFailed' }, caseOf(options))
  }
})
