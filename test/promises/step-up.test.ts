/** A guard with `maxAge` lets a request pass only if its user logged in recently (RFC 9470). */
import assert from 'node:assert/strict'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { injectUser, InvalidConfiguration, protect, scoped, type Guard, type GuardOptions, type TokenAuthError, type TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, caseOf, claims, environment, forge, host, login, mistyped, payloadOf, refreshStore, secret, setClock, warnings } from '../helper.ts'

const at = 1_800_000_000
const challenge = 'Bearer realm="token-auth", error="insufficient_user_authentication", error_description="A more recent login is required.", max_age="300"'

/** Every form of a guard with options. */
const makers: Record<string, (app: FastifyInstance, options: GuardOptions) => Guard> = {
  protect: (app, options) => app.tokenAuth.protect(options),
  scoped: (app, options) => app.tokenAuth.scoped('a', options),
  'scoped with a function': (app, options) => app.tokenAuth.scoped(async () => 'a', options),
  'free-standing protect': (_app, options) => protect(options),
  'free-standing scoped': (_app, options) => scoped('a', options)
}

/** A token of a login so many seconds ago. */
const aged = (seconds: number, extra: object = {}) => bearer(forge(claims({ exp: at + 1800, scopes: ['a'], auth_time: at - seconds, ...extra })))
const ageless = (extra: object = {}) => bearer(forge(claims({ exp: at + 1800, scopes: ['a'], ...extra })))

async function stepUp (t: Test, options: Partial<TokenAuthOptions> = {}) {
  setClock(t, at)
  return await build(t, { claimAuthTime: true, ...options })
}

// Promise: security/sensitive-operation-stolen
// Promise: specification/insufficientuserauthentication-2
// Promise: specification/maxage-2
t.test('every guard with maxAge requires a login that is not older, and challenges as RFC 9470 has it', async (t) => {
  const app = await stepUp(t)
  for (const [name, make] of Object.entries(makers)) {
    for (const hook of ['onRequest', 'preHandler'] as const) {
      const url = `/${hook}/${name.replaceAll(' ', '-')}`
      app.get(url, { [hook]: make(app, { maxAge: 300 }) }, async () => 'reached')
    }
  }
  app.get('/inject', app.tokenAuth.injectUser(async (_request, _reply, user) => user === null ? 'nobody' : 'reached', { maxAge: 300 }))
  app.get('/free-inject', injectUser(async (_request, _reply, user) => user === null ? 'nobody' : 'reached', { maxAge: 300 }))
  await app.ready()
  const urls = [...['onRequest', 'preHandler'].flatMap((hook) => Object.keys(makers).map((name) => `/${hook}/${name.replaceAll(' ', '-')}`)), '/inject', '/free-inject']
  for (const url of urls) {
    for (const headers of [aged(0), aged(300), aged(-180)]) assert.equal((await app.inject({ url, headers })).payload, 'reached', url)
    for (const headers of [aged(301), aged(-181), ageless(), ageless({ auth_time: String(at) }), ageless({ auth_time: null })]) {
      const response = await app.inject({ url, headers })
      assert.equal(response.statusCode, 401, url)
      assert.equal(response.headers['www-authenticate'], challenge, caseOf(url, headers))
      assert.deepEqual(response.json(), { reasons: 'A more recent login is required.', exception: 'InsufficientUserAuthentication' }, caseOf(url, headers))
    }
  }
  for (const url of ['/inject', '/free-inject']) assert.equal((await app.inject(url)).payload, 'nobody', 'without a token there is no user, of whatever age')
})

t.test('the age of the login is asked after everything that makes a token valid, and before scopes', async (t) => {
  const asked: string[] = []
  const app = await stepUp(t, { extraVerifications: [({ banned }) => { asked.push('verification'); return banned !== true }] })
  app.get('/', { onRequest: app.tokenAuth.scoped(() => { asked.push('scopes'); return 'b' }, { maxAge: 300 }) }, async () => 'reached')
  const rows: [headers: Record<string, string>, exception: string, asked: string[]][] = [
    [{}, 'MissingAuthorizationHeader', []],
    [aged(301, { exp: 1 }), 'TokenExpired', []],
    [aged(301, { banned: true }), 'InvalidClaim', ['verification']],
    [aged(301), 'InsufficientUserAuthentication', ['verification']],
    [aged(300), 'InsufficientScope', ['verification', 'scopes']]
  ]
  for (const [headers, exception, expected] of rows) {
    asked.length = 0
    assert.equal((await app.inject({ url: '/', headers })).json().exception, exception, caseOf(headers))
    assert.deepEqual(asked, expected, exception)
  }
})

t.test('guards that differ in maxAge share their rules, so that the checks of the application run once', async (t) => {
  let asked = 0
  const app = await stepUp(t, { extraVerifications: [() => { asked++; return true }] })
  const guards = [app.tokenAuth.protect(), app.tokenAuth.protect({ maxAge: 1000 }), app.tokenAuth.scoped('a', { maxAge: 300 }), protect({ maxAge: 900 })]
  app.get('/', { onRequest: guards }, app.tokenAuth.injectUser(async (request) => request.tokenAuth.userId, { maxAge: 600 }))
  t.equal((await app.inject({ url: '/', headers: aged(200) })).statusCode, 200)
  t.equal(asked, 1)
  for (const age of [400, 950]) assert.equal((await app.inject({ url: '/', headers: aged(age) })).statusCode, 401, 'the strictest of them decides')
})

t.test('a request whose login is too old is redirected, thrown on, explained or let pass as other refusals of a guard are', async (t) => {
  const app = await stepUp(t)
  app.get('/redirect', { onRequest: app.tokenAuth.protect({ maxAge: 300, redirectOnFail: true, redirectUrl: '/login' }) }, async () => 'reached')
  app.get('/thrown', { onRequest: app.tokenAuth.protect({ maxAge: 300, onRefusal: 'throw' }) }, async () => 'reached')
  app.get('/debug', { onRequest: app.tokenAuth.protect({ maxAge: 300, debug: true }) }, async () => 'reached')
  app.get('/off', { onRequest: app.tokenAuth.protect({ maxAge: 300, doProtection: false }) }, app.tokenAuth.injectUser(async () => 'reached', { maxAge: 300, doProtection: false }))
  app.get('/waited', async (request, reply) => {
    await app.tokenAuth.protect({ maxAge: 300 })(request, reply)
    return 'reached'
  })
  const errors: TokenAuthError[] = []
  app.setErrorHandler(async (error: TokenAuthError, _request, reply) => {
    errors.push(error)
    return reply.code(error.statusCode).send('rendered')
  })
  t.match(await app.inject({ url: '/redirect', headers: aged(301) }), { statusCode: 302, headers: { location: '/login' } })
  t.match(await app.inject({ url: '/thrown', headers: aged(301) }), { statusCode: 401, payload: 'rendered' })
  t.match(errors, [{ name: 'InsufficientUserAuthentication', maxAge: 300, reason: 'the login was more than 300 seconds ago' }])
  t.match((await app.inject({ url: '/debug', headers: aged(301) })).json(), { detail: 'the login was more than 300 seconds ago (token found in the header)' })
  t.equal((await app.inject({ url: '/off', headers: aged(301) })).payload, 'reached')
  t.match(await app.inject({ url: '/waited', headers: aged(301) }), { statusCode: 401, headers: { 'www-authenticate': challenge } })
  t.equal((await app.inject({ url: '/waited', headers: aged(300) })).payload, 'reached')
})

t.test('maxAge is a whole number of seconds from 1', async (t) => {
  const app = await stepUp(t)
  for (const [maxAge, given] of [[0, '0'], [-1, '-1'], [1.5, '1.5'], [NaN, 'NaN'], [Infinity, 'Infinity'], [3_153_600_001, '3153600001'], ['300', 'a string'], [null, 'null'], [true, 'a boolean']] as const) {
    for (const make of [...Object.values(makers), () => app.tokenAuth.injectUser(async () => 'x', mistyped({ maxAge })), () => injectUser(async () => 'x', mistyped<GuardOptions>({ maxAge }))]) {
      t.throws(() => make(app, mistyped<GuardOptions>({ maxAge })), { name: 'InvalidConfiguration', message: new RegExp(`^"maxAge" of (protect|scoped|injectUser)\\(\\) must be a whole number of seconds from 1 to 3153600000; given: ${given}\\. See node_modules/fastify-token-auth/docs/guards\\.md$`) })
    }
  }
  for (const maxAge of [1, 3_153_600_000, undefined]) t.doesNotThrow(() => app.tokenAuth.protect({ maxAge }))
})

const cannotPass = /^A guard has "maxAge", but its instance issues tokens without the time of the login\. Set "claimAuthTime" to true in the options of register\(\)\./

// Promise: security/sensitive-operation-stolen
t.test('a guard whose instance issues no token that it could accept is an error: where it is made, or where a free-standing one meets the instance', async (t) => {
  const app = await build(t)
  app.get('/open', async () => 'open')
  for (const [name, make] of Object.entries(makers)) {
    if (name.startsWith('free-standing')) app.get(`/${name.replaceAll(' ', '-')}`, { onRequest: make(app, { maxAge: 300 }) }, async () => 'reached')
    // An override of a guard does not change what the instance issues.
    else for (const options of [{ maxAge: 300 }, { maxAge: 300, claimAuthTime: true }]) t.throws(() => make(app, options), { name: 'InvalidConfiguration', message: cannotPass }, name)
  }
  t.throws(() => app.tokenAuth.injectUser(async () => 'x', { maxAge: 300 }), { message: cannotPass })
  app.get('/free-standing-inject', injectUser(async () => 'reached', { maxAge: 300 }))
  for (const url of ['/free-standing-protect', '/free-standing-scoped', '/free-standing-inject']) {
    const response = await app.inject({ url, headers: bearer(forge(claims({ auth_time: Math.floor(Date.now() / 1000), scopes: ['a'] }))) })
    assert.equal(response.statusCode, 500, url)
    t.match(response.json(), { code: 'TOKEN_AUTH_INVALID_CONFIGURATION', message: cannotPass })
  }
  t.equal((await app.inject('/open')).payload, 'open')

  for (const options of [{ authMode: false }, { getClaimAuthTime: () => true }]) {
    const other = await build(t, options)
    t.doesNotThrow(() => other.tokenAuth.protect({ maxAge: 300 }), JSON.stringify(Object.keys(options)))
  }
})

t.test('in production clients do not read what is wrong with the options of a free-standing guard', async (t) => {
  environment(t, 'production')
  warnings(t, 'W26')
  const app = await build(t)
  app.get('/', { onRequest: protect({ maxAge: 300 }) }, async () => 'reached')
  const errors: Error[] = []
  app.addHook('onError', async (_request, _reply, error) => { errors.push(error) })
  const response = await app.inject('/')
  t.match(response.json(), { statusCode: 500, message: 'The configuration is invalid.' })
  t.notMatch(response.payload, 'maxAge')
  t.match(errors, [{ cause: { message: cannotPass, cause: InvalidConfiguration } }])
})

t.test('no other claim may have the name of the time of the login', async (t) => {
  for (const setting of ['userId', 'scopesName'] as const) {
    const options = { secret, authMode: false, [setting]: 'auth_time' }
    await t.rejects(build(t, { ...options, claimAuthTime: true }), { finding: 'TOKEN_AUTH_E10', message: `"${setting}" must not be "auth_time" if "claimAuthTime" is true, because this claim then contains the time of the login. Choose another name.` })
    const app = await build(t, options)
    t.throws(() => app.tokenAuth.protect({ maxAge: 300 }), { message: `A guard has "maxAge", but "${setting}" is "auth_time", which is the claim with the time of the login. Choose another name.` })
    const plain = await build(t, { authMode: false })
    t.throws(() => plain.tokenAuth.protect({ maxAge: 300, [setting]: 'auth_time' }), { message: `"${setting}" is "auth_time"` })
  }
  await t.rejects(build(t, { claimAuthTime: true, customClaims: [{ key: 'auth_time', setup: () => at, verify: () => true }] }), { name: 'InvalidCustomClaim' })
  await t.resolves(build(t, { customClaims: [{ key: 'auth_time', setup: () => at, verify: () => true }] }), 'an application may write the claim itself')
})

// Promise: specification/claimauthtime-2
t.test('claimAuthTime writes the time of a login, in whole seconds; without the setting there is none', async (t) => {
  setClock(t, at + 0.9)
  const { access_token: token } = (await login(await build(t, { claimAuthTime: true }))).json()
  t.equal(payloadOf(token).auth_time, at)
  t.notOk('auth_time' in payloadOf((await login(await build(t))).json().access_token))
})

t.test('generateAccessToken writes the time of the login if it is told, for it is not a login itself', async (t) => {
  const app = await stepUp(t)
  t.equal(payloadOf(await app.tokenAuth.generateAccessToken({ user_id: 1 }, { authTime: at - 100 })).auth_time, at - 100)
  t.notOk('auth_time' in payloadOf(await app.tokenAuth.generateAccessToken({ user_id: 1 })))
  const without = await build(t)
  t.notOk('auth_time' in payloadOf(await without.tokenAuth.generateAccessToken({ user_id: 1 }, { authTime: at })))
  for (const authTime of [0, -1, 1.5, NaN, Infinity, at * 1000, 2 ** 40, String(at), new Date(), null]) {
    await t.rejects(app.tokenAuth.generateAccessToken({ user_id: 1 }, mistyped({ authTime })), { name: 'InvalidConfiguration', message: /^"authTime" of generateAccessToken\(\) must be a whole number of seconds since 1970, such as Math\.floor\(Date\.now\(\) \/ 1000\); given: / }, String(authTime))
  }
})

// Promise: security/sensitive-operation-stolen
t.test('a refresh is no login: it copies the time of the login, and adds none', async (t) => {
  const { stored, ...store } = refreshStore()
  const set = setClock(t, at)
  const app = await build(t, { claimAuthTime: true, ...store })
  app.get('/', { onRequest: app.tokenAuth.protect({ maxAge: 300 }) }, async () => 'reached')
  const refresh = async (token: string) => (await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(token), payload: { refresh_token: stored.get(1) } })).json().access_token
  let { access_token: token } = (await login(app)).json()
  for (const seconds of [1000, 5000, 100_000]) {
    set(at + seconds)
    token = await refresh(token)
    assert.equal(payloadOf(token).auth_time, at, caseOf(seconds))
    assert.ok(Number(payloadOf(token).exp) > at + seconds, caseOf(seconds))
  }
  for (const extra of [{}, { auth_time: String(at) }, { auth_time: null }]) {
    assert.ok(!('auth_time' in payloadOf(await refresh(forge(claims(extra))))), JSON.stringify(extra))
  }
  t.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 401)
  t.equal((await app.inject({ url: '/', headers: bearer((await login(app)).json().access_token) })).statusCode, 200, 'after another login')
})

// Promise: security/sensitive-operation-stolen
// Promise: sessions/7-5-2
t.test('with sessions the time of the login is that of the refresh token, whatever rotates in between', async (t) => {
  const set = setClock(t, at)
  const app = await build(t, { claimAuthTime: true, sessions: {} })
  const refresh = async (token: string) => (await app.inject({ method: 'POST', url: '/auth/refresh', payload: { refresh_token: token } })).json()
  // The body is the time of the login.
  app.post('/start', async (request, reply) => await app.tokenAuth.sessions.start(request, reply, { user_id: 2 }, mistyped({ authTime: request.body })))
  const start = async (authTime: unknown) => (await app.inject({ method: 'POST', url: '/start', headers: { 'content-type': 'application/json' }, payload: JSON.stringify(authTime) })).json()
  const started = await start(at - 500)
  const rows: [tokens: { access_token: string, refresh_token: string }, authTime: number][] = [
    [(await login(app)).json(), at], [{ access_token: started.accessToken, refresh_token: started.refreshToken }, at - 500]
  ]
  for (const [tokens, authTime] of rows) {
    let { access_token: accessToken, refresh_token: refreshToken } = tokens
    for (const seconds of [100, 1000, 1001, 5000]) {
      assert.equal(payloadOf(accessToken).auth_time, authTime, caseOf(tokens, seconds))
      set(at + seconds);
      ({ access_token: accessToken, refresh_token: refreshToken } = await refresh(refreshToken))
    }
    assert.equal(payloadOf(accessToken).auth_time, authTime, caseOf(tokens))
    set(at)
  }
  for (const authTime of [0, 1.5, at * 1000, 2 ** 40, String(at)]) {
    t.match(await start(authTime), { code: 'TOKEN_AUTH_INVALID_CONFIGURATION', message: /^"authTime" of sessions\.start\(\) must be a whole number of seconds since 1970/ })
  }
})

t.test('a host of several instances requires a recent login of the one that the guard belongs to', async (t) => {
  setClock(t, at)
  const app = host(t)
  const { default: tokenAuth } = await import('../../lib/index.ts')
  await app.register(tokenAuth, { secret, authMode: false })
  await app.register(tokenAuth, { secret, authMode: false, instanceName: 'staff', authorizationHeader: 'x-staff' })
  app.get('/', { onRequest: [app.tokenAuth.protect(), app.staff.protect({ maxAge: 300 })] }, async () => 'reached')
  const [recent, old] = [aged(0).authorization, aged(301).authorization]
  t.equal((await app.inject({ url: '/', headers: { authorization: old, 'x-staff': recent } })).statusCode, 200)
  t.equal((await app.inject({ url: '/', headers: { authorization: recent, 'x-staff': old } })).statusCode, 401)
})
