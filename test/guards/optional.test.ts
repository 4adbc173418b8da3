/** `protect({ optional: true })`: a request without a token passes, and one with a token is refused as everywhere. */
import assert from 'node:assert/strict'
import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import t, { type Test } from 'tap'
import { injectUser, protect, scoped, type TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, claims, forge, mistyped, now, otherSecret, warnings } from '../helper.ts'

warnings(t, 'W03', 'W05')

const token = (extra: Record<string, unknown> = {}) => forge(claims(extra))

/** An application with optional guards of each form in each hook, whose routes show the user id. */
async function optional (t: Test, options: Partial<TokenAuthOptions> = {}, overrides: object = {}, server: FastifyServerOptions = {}) {
  const app = await build(t, options, server)
  const given = { optional: true, ...overrides }
  const awaited = app.tokenAuth.protect(given)
  const show = async (request: { tokenAuth: { payload: unknown, userId: unknown } }) => ({ payload: request.tokenAuth.payload === null ? null : 'a payload', userId: request.tokenAuth.userId })
  app.all('/bound', { onRequest: app.tokenAuth.protect(given) }, show)
  app.all('/free', { preHandler: protect(given) }, show)
  app.all('/awaited', async (request, reply) => {
    await awaited(request, reply)
    return await show(request)
  })
  const urls = ['/bound', '/free', '/awaited']
  return { app, urls }
}

const nobody = { payload: null, userId: null }
const user = { payload: 'a payload', userId: 1 }

type Sent = { headers?: Record<string, string>, query?: Record<string, string> }

async function each ({ app, urls }: { app: FastifyInstance, urls: string[] }, sent: Sent, expected: object | string, what: string) {
  for (const url of urls) {
    const response = await app.inject({ url, ...sent })
    if (typeof expected === 'string') {
      assert.equal(response.json().exception, expected, `${url}: ${what}`)
      assert.match(String(response.headers['www-authenticate']), /^Bearer /, url)
    } else {
      assert.equal(response.statusCode, 200, `${url}: ${what}`)
      assert.deepEqual(response.json(), expected, `${url}: ${what}`)
    }
  }
}

const header = (authorization: string) => ({ headers: { authorization } })
const cookie = (value: string) => ({ headers: { cookie: value } })

// Promise: specification/optional-2
t.test('a request without a token passes as nobody, in whatever source tokens are expected; a valid token is its user', async (t) => {
  const both = { cookieSet: true, cookieStrict: false, queryStringSet: true, queryStringStrict: false }
  const cases: [what: string, options: Partial<TokenAuthOptions>, absent: Sent[], valid: Sent[]][] = [
    ['header', {}, [{}, header(''), header('Basic YTpi'), header('Token x'), cookie(`access_token=${token()}`), { query: { access_token: token() } }], [{ headers: bearer(token()) }]],
    ['header without a scheme', { authorizationHeaderPrefix: '' }, [{}, header('')], [header(token())]],
    ['cookie', { cookieSet: true }, [{}, cookie('access_token='), cookie('other=x'), { headers: bearer(token()) }, { headers: bearer('garbage') }], [cookie(`access_token=${token()}`)]],
    ['query', { queryStringSet: true }, [{}, { query: { access_token: '' } }, { headers: bearer(token()) }], [{ query: { access_token: token() } }]],
    ['all', both, [{}, { ...cookie('access_token='), query: { access_token: '' } }, header('Basic YTpi')], [{ headers: bearer(token()) }, cookie(`access_token=${token()}`), { query: { access_token: token() } }]]
  ]
  for (const [what, options, absent, valid] of cases) {
    const service = await optional(t, options)
    for (const sent of absent) await each(service, sent, nobody, `${what}, absent: ${JSON.stringify(sent).slice(0, 60)}`)
    for (const sent of valid) await each(service, sent, user, `${what}, valid`)
  }
})

// Promise: security/route-open-requests
t.test('a bad token, one that was sent twice, and a header without one are refused', async (t) => {
  const service = await optional(t, { cookieSet: true, cookieStrict: false, queryStringSet: true, queryStringStrict: false })
  const cases: [what: string, sent: Sent, exception: string][] = [
    ['garbage', { headers: bearer('garbage') }, 'InvalidToken'],
    ['another secret', { headers: bearer(forge(claims(), { key: otherSecret })) }, 'InvalidToken'],
    ['expired', { headers: bearer(token({ exp: now() - 3600 })) }, 'TokenExpired'],
    ['without a user', { headers: bearer(forge({ exp: now() + 60 })) }, 'InvalidClaim'],
    ['the scheme alone', header('Bearer'), 'InvalidAuthorizationHeader'],
    ['the scheme and spaces', header('Bearer  '), 'InvalidAuthorizationHeader'],
    ['a bad cookie', cookie('access_token=x'), 'InvalidToken'],
    ['a bad cookie before a good header', { headers: { ...bearer(token()), cookie: 'access_token=x' } }, 'InvalidToken'],
    ['two cookies', cookie(`access_token=${token()}; access_token=${token()}`), 'InvalidToken'],
    ['a bad parameter', { query: { access_token: 'x' } }, 'InvalidToken']
  ]
  for (const [what, sent, exception] of cases) await each(service, sent, exception, what)
  for (const url of service.urls) {
    assert.equal((await service.app.inject(`${url}?access_token=${token()}&access_token=${token()}`)).json().exception, 'InvalidToken', url)
    const twice = await service.app.inject({ url, headers: mistyped({ authorization: [`Bearer ${token()}`, `Bearer ${token()}`] }) })
    assert.equal(twice.statusCode, 401, url)
  }
  const refusing = await optional(t, { trusted: () => false })
  await each(refusing, { headers: bearer(token()) }, 'InvalidToken', 'not trusted')
  await each(refusing, {}, nobody, 'trusted is not asked')
})

// Promise: security/route-open-requests
t.test('a cookie that a page of another origin brings is refused, and without one its request passes', async (t) => {
  const { app, urls } = await optional(t, { cookieSet: true })
  const foreign = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }
  for (const url of urls) {
    const response = await app.inject({ method: 'POST', url, headers: { ...foreign, cookie: `access_token=${token()}` } })
    assert.equal(response.statusCode, 403, url)
    t.match(response.json(), { exception: 'CrossOriginRequest' })
    assert.deepEqual((await app.inject({ method: 'POST', url, headers: foreign })).json(), nobody, url)
  }
})

t.test('with maxAge, whoever brings a token must have logged in lately', async (t) => {
  const service = await optional(t, { claimAuthTime: true }, { maxAge: 300 })
  await each(service, {}, nobody, 'no token')
  await each(service, { headers: bearer(token({ auth_time: now() })) }, user, 'lately')
  await each(service, { headers: bearer(token({ auth_time: now() - 301 })) }, 'InsufficientUserAuthentication', 'long ago')
  await each(service, { headers: bearer(token()) }, 'InsufficientUserAuthentication', 'never')
})

t.test('with redirectOnFail, a bad token is redirected and none is not', async (t) => {
  const { app, urls } = await optional(t, {}, { redirectOnFail: true, redirectUrl: '/login' })
  for (const url of urls) {
    const response = await app.inject({ url, headers: bearer('garbage') })
    assert.deepEqual([response.statusCode, response.headers.location], [302, '/login'], url)
    assert.deepEqual((await app.inject(url)).json(), nobody, url)
  }
})

t.test('for a whole context it lets strangers in, and a guard of a route in it does not', async (t) => {
  const app = await build(t)
  await app.register(async (context) => {
    context.addHook('onRequest', context.tokenAuth.protect({ optional: true }))
    context.get('/open', async ({ tokenAuth }) => ({ id: tokenAuth.userId }))
    context.get('/closed', { preHandler: context.tokenAuth.protect() }, async () => 'reached')
    context.get('/scoped', { preHandler: scoped('a') }, async () => 'reached')
    context.get('/injected', context.tokenAuth.injectUser(async (_request, _reply, user) => ({ user })))
  })
  const get = async (url: string, headers = {}) => await app.inject({ url, headers })
  t.same((await get('/open')).json(), { id: null })
  t.same((await get('/open', bearer(token()))).json(), { id: 1 })
  t.same((await get('/injected')).json(), { user: null })
  for (const url of ['/closed', '/scoped']) assert.equal((await get(url)).statusCode, 401, url)
  t.equal((await get('/closed', bearer(token()))).statusCode, 200)
  for (const url of ['/open', '/closed', '/injected']) assert.equal((await get(url, bearer('garbage'))).statusCode, 401, url)
})

// Promise: security/route-open-requests
t.test('only true and false are values of optional, and scoped and injectUser do not know it', async (t) => {
  const app = await build(t)
  for (const value of [null, 1, 'true', 'false', [], {}, () => true]) {
    const options = mistyped<{ optional: boolean }>({ optional: value })
    t.throws(() => protect(options), { name: 'InvalidConfiguration', message: /^"optional" of protect\(\) must be true or false; given: / }, String(value))
    t.throws(() => app.tokenAuth.protect(options), { name: 'InvalidConfiguration' })
  }
  for (const optional of [true, false]) {
    for (const make of [() => app.tokenAuth.scoped('a', mistyped({ optional })), () => scoped('a', mistyped({ optional })), () => app.tokenAuth.injectUser(async () => 'x', mistyped({ optional })), () => injectUser(async () => 'x', mistyped<object>({ optional }))]) {
      t.throws(make, { name: 'InvalidConfiguration', message: /^\w+\(\) has no option "optional"\./ })
    }
  }
  for (const optional of [false, undefined]) app.get(`/${optional}`, { onRequest: [app.tokenAuth.protect({ optional }), protect({ optional })] }, async () => 'reached')
  for (const url of ['/false', '/undefined']) assert.equal((await app.inject(url)).statusCode, 401, url)
  const views = mistyped<Partial<TokenAuthOptions>>({ optional: true })
  await t.rejects(build(t, views), { message: /^Unknown option "optional"/ }, 'and it is no setting')
})

// Promise: security/route-open-requests
t.test('a polluted prototype makes no guard optional, whenever the guard is made', async (t) => {
  const app = await build(t, { claimAuthTime: true })
  const makers = { bound: () => app.tokenAuth.protect(), 'with options': () => app.tokenAuth.protect({ leeway: 0 }), 'bound, scoped': () => app.tokenAuth.scoped('a'), computed: () => app.tokenAuth.scoped(() => 'a'), free: () => protect(), 'free, with options': () => protect({ leeway: 0 }), 'free, scoped': () => scoped('a') }
  for (const [index, make] of Object.values(makers).entries()) app.get(`/before/${index}`, { onRequest: make() }, async () => 'reached')
  const polluted = { optional: true, isOptional: true, requireAll: false, requireAllActions: false, maxAge: 5, redirectOnFail: true, redirectUrl: 'https://evil.example' }
  Object.assign(Object.prototype, polluted)
  try {
    for (const [index, make] of Object.values(makers).entries()) app.get(`/after/${index}`, { onRequest: make() }, async () => 'reached')
    app.get('/all', { onRequest: [scoped(['a', 'b'])] }, async () => 'reached')
    for (const [index, what] of Object.keys(makers).entries()) {
      for (const url of [`/before/${index}`, `/after/${index}`]) {
        assert.equal((await app.inject({ url, headers: {} })).statusCode, 401, `${what}: ${url}`)
        assert.equal((await app.inject({ url, headers: bearer(token({ scopes: ['a'] })) })).statusCode, 200, `${what}: ${url}`)
      }
    }
    t.equal((await app.inject({ url: '/all', headers: bearer(token({ scopes: ['a'] })) })).statusCode, 403)
  } finally {
    for (const name of Object.keys(polluted)) Reflect.deleteProperty(Object.prototype, name)
  }
})
