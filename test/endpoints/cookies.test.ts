import fastifyCookie, { type FastifyCookieOptions } from '@fastify/cookie'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { requestSerializer, Responses, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, bearer, build, claims, forge, host, login, payloadOf, refreshStore, refusal, secret, together, warnings } from '../helper.ts'

warnings(t, 'W05', 'W08', 'W09', 'W10')

const stored = 'stored'
const refreshing = { refreshTokenEnabled: true, storeRefreshToken: () => {}, retrieveRefreshToken: () => stored }
const plainAttributes = 'Path=/; HttpOnly; Secure; SameSite=Lax'

/** The Set-Cookie header fields of an answer. */
const fieldsOf = (response: LightMyRequestResponse): string[] => [response.headers['set-cookie'] ?? []].flat()
/** Without its value. */
const attributesOf = (field: string | undefined) => field?.replace(/^([^=]*)=[^;]*; /, '$1: ')
/** What a browser sends back. */
const sentBack = (response: LightMyRequestResponse) => ({ cookie: fieldsOf(response).map((field) => field.split(';', 1)[0]).join('; ') })

const refresh = async (app: FastifyInstance, headers: Record<string, string>, more: object = {}) =>
  await app.inject({ method: 'POST', url: '/auth/refresh', headers, ...more })

async function guarded (t: Test, options: Partial<TokenAuthOptions>): Promise<FastifyInstance> {
  const app = await build(t, options)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => request.tokenAuth.source)
  return app
}

// Promise: specification/cookie-mode-login
// Promise: specification/cookie-set
t.test('in cookie mode a login sets the tokens as cookies too, and a browser that sends them back is known', async (t) => {
  const { stored, ...handlers } = refreshStore()
  const app = await guarded(t, { ...handlers, cookieSet: true })
  const response = await login(app)
  const { access_token: token, refresh_token: refreshToken } = response.json()
  t.same(fieldsOf(response), [`access_token=${token}; ${plainAttributes}`, `refresh_token=${refreshToken}; ${plainAttributes}`])
  const headers = sentBack(response)
  t.equal((await app.inject({ url: '/', headers })).body, 'cookie')
  t.same((await app.inject({ url: '/auth/verify', headers })).json(), { valid: true })
  t.same((await app.inject({ url: '/auth/me', headers })).json(), { me: { user_id: 1 } })

  const refreshed = await refresh(app, headers)
  t.equal(refreshed.statusCode, 200)
  t.same(fieldsOf(refreshed), [`access_token=${refreshed.json().access_token}; ${plainAttributes}`])
  t.equal(stored.size, 1)
})

// Promise: security/cookie-cookie-mode
// Promise: specification/cookie-set
t.test('without cookie mode nothing is set and a cookie is not looked at', async (t) => {
  const app = await guarded(t, {})
  const response = await login(app)
  t.same(fieldsOf(response), [])
  const answer = await app.inject({ url: '/', headers: { cookie: `access_token=${response.json().access_token}` } })
  t.equal(answer.json().exception, 'MissingAuthorizationHeader')
})

t.test('without refresh tokens there is one cookie', async (t) => {
  t.equal(fieldsOf(await login(await build(t, { cookieSet: true }))).length, 1)
})

// Promise: specification/added-2
// Promise: specification/added-3
// Promise: specification/added-4
// Promise: specification/added-5
// Promise: specification/cookie-domain
// Promise: specification/cookie-httponly
t.test('each attribute of the cookies follows its setting, at login and at refresh', async (t) => {
  const cases: [Partial<TokenAuthOptions>, string][] = [
    [{}, plainAttributes],
    [{ cookieDomain: 'example.com' }, 'Domain=example.com; Path=/; HttpOnly; Secure; SameSite=Lax'],
    [{ cookieHttponly: false }, 'Path=/; Secure; SameSite=Lax'],
    [{ cookieMaxAge: 3600 }, 'Max-Age=3600; Path=/; HttpOnly; Secure; SameSite=Lax'],
    [{ cookiePath: '/auth' }, 'Path=/auth; HttpOnly; Secure; SameSite=Lax'],
    [{ cookieSamesite: 'strict' }, 'Path=/; HttpOnly; Secure; SameSite=Strict'],
    [{ cookieSamesite: 'none' }, 'Path=/; HttpOnly; Secure; SameSite=None'],
    [{ cookieSecure: false }, 'Path=/; HttpOnly; SameSite=Lax'],
    [{ getCookieMaxAge: () => 60, getCookieSecure: () => false }, 'Max-Age=60; Path=/; HttpOnly; SameSite=Lax']
  ]
  for (const [options, attributes] of cases) {
    const app = await build(t, together(refreshing, { cookieSet: true }, options))
    const response = await login(app)
    t.same(fieldsOf(response).map(attributesOf), [`access_token: ${attributes}`, `refresh_token: ${attributes}`])
    const refreshed = await refresh(app, { cookie: `access_token=${response.json().access_token}; refresh_token=${stored}` })
    const old = options.cookieDomain === undefined ? [] : [`access_token: Max-Age=0; ${plainAttributes}`]
    t.same(fieldsOf(refreshed).map(attributesOf), [...old, `access_token: ${attributes}`])
  }
})

// Promise: specification/added-7
// Promise: specification/cookie-access-token
// Promise: specification/cookie-refresh-token
t.test('the cookies bear the names that the settings give them', async (t) => {
  const app = await guarded(t, { ...refreshing, cookieSet: true, cookieAccessTokenName: '__Host-a', cookieRefreshTokenName: 'r' })
  const response = await login(app)
  t.same(fieldsOf(response).map((field) => field.split('=', 1)[0]), ['__Host-a', 'r'])
  const { access_token: token } = response.json()
  t.equal((await app.inject({ url: '/', headers: { cookie: `__Host-a=${token}` } })).statusCode, 200)
  t.equal((await app.inject({ url: '/', headers: { cookie: `access_token=${token}` } })).json().exception, 'MissingAuthorizationCookie')
  t.equal((await refresh(app, { cookie: `__Host-a=${token}; r=${stored}` })).statusCode, 200)
})

t.test('cookie mode that is computed from the request sets cookies only where it is on', async (t) => {
  const app = await build(t, { getCookieSet: (request) => request.headers['x-browser'] === '1' })
  const payload = { username: 'ada', password: 'lovelace' }
  t.equal(fieldsOf(await app.inject({ method: 'POST', url: '/auth', headers: { 'x-browser': '1' }, payload })).length, 1)
  t.equal(fieldsOf(await app.inject({ method: 'POST', url: '/auth', payload })).length, 0)
})

// Promise: specification/cookie-mode-requires
// Promise: security/cookie-plugin-of-application
t.test("with the host's @fastify/cookie, registered before or after, however it is set up, the same cookies are set and read", async (t) => {
  const setups: Record<string, FastifyCookieOptions> = {
    plain: {},
    signed: { secret: 'the cookie secret of the host', parseOptions: { signed: true } },
    'with parse options': { parseOptions: { domain: 'host.example', path: '/host', httpOnly: false, secure: false, sameSite: 'strict', maxAge: 1, expires: new Date(0), partitioned: true, priority: 'high' } },
    'with another encoding': { parseOptions: { encode: (value) => `x${value}x` } },
    'without its hook': { hook: false }
  }
  for (const [name, setup] of Object.entries(setups).flatMap(([name, setup]) => [[`${name}, before`, setup], [`${name}, after`, setup]] as const)) {
    const app = host(t)
    if (name.endsWith('before')) await app.register(fastifyCookie, setup)
    await app.register(tokenAuth, { secret, authenticate, ...refreshing, cookieSet: true, generateRefreshToken: () => 'a b;c=é' })
    if (name.endsWith('after')) await app.register(fastifyCookie, setup)
    app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => request.tokenAuth.source)
    app.get('/of-host', async (request, reply) => {
      reply.setCookie('of_host', '1', { path: '/of-host' })
      return Object.keys(request.cookies ?? {})
    })
    const response = await login(app)
    const { access_token: token } = response.json()
    t.same(fieldsOf(response), [`access_token=${token}; ${plainAttributes}`, `refresh_token=a%20b%3Bc%3D%C3%A9; ${plainAttributes}`], name)
    t.equal((await app.inject({ url: '/', headers: sentBack(response) })).body, 'cookie', name)
    const ofHost = await app.inject({ url: '/of-host', headers: sentBack(response) })
    t.same(ofHost.json(), ['access_token', 'refresh_token'], name)
    t.match(fieldsOf(ofHost), [/^of_host=/], name)
  }
})

t.test('the plugin decorates nothing that @fastify/cookie does, so that an application without it has no `reply.setCookie`', async (t) => {
  const app = await build(t, { cookieSet: true })
  t.same([app.hasDecorator('serializeCookie'), app.hasReplyDecorator('setCookie'), app.hasRequestDecorator('cookies'), app.hasPlugin('@fastify/cookie')], [false, false, false, false])
})

t.test('the cookies stand beside those that the host sets, whichever way it sets them', async (t) => {
  const app = host(t)
  await app.register(fastifyCookie)
  app.addHook('onRequest', async (_request, reply) => { reply.header('set-cookie', 'raw=1').setCookie('early', '1') })
  app.addHook('onSend', async (_request, reply) => { reply.setCookie('late', '1', { path: '/late' }) })
  await app.register(tokenAuth, { secret, authenticate, ...refreshing, cookieSet: true })
  const names = fieldsOf(await login(app)).map((field) => field.split('=', 1)[0])
  t.same(names.sort(), ['access_token', 'early', 'late', 'raw', 'refresh_token'])
})

t.test('two instances in cookie mode on one application need no cookie plugin of the host', async (t) => {
  const app = await build(t, { cookieSet: true })
  await app.register(tokenAuth, { secret, authenticate, cookieSet: true, instanceName: 'staff', urlPrefix: '/staff', cookieAccessTokenName: 'staff' })
  t.match(fieldsOf(await login(app)), [/^access_token=/])
  t.match(fieldsOf(await login(app, { url: '/staff' })), [/^staff=/])
})

// Promise: specification/added-6
t.test('a split token: scripts read header and payload, only the server gets the signature', async (t) => {
  const app = await guarded(t, { ...refreshing, cookieSet: true, cookieSplit: true })
  const response = await login(app)
  const token: string = response.json().access_token
  const [head, payload, signature] = token.split('.')
  t.same(fieldsOf(response).slice(0, 2), [
    `access_token=${head}.${payload}; Path=/; Secure; SameSite=Lax`,
    `access_token_signature=${signature}; ${plainAttributes}`
  ])
  t.equal(attributesOf(fieldsOf(response)[2]), `refresh_token: ${plainAttributes}`)
  t.equal((await app.inject({ url: '/', headers: sentBack(response) })).body, 'cookie')
  t.equal((await refresh(app, { cookie: `${sentBack(response).cookie.replace(/refresh_token=.*/, '')}refresh_token=${stored}` })).statusCode, 200)
  const cases: [cookie: string, exception: string][] = [
    [`access_token=${head}.${payload}`, 'MissingAuthorizationCookie'],
    [`access_token_signature=${signature}`, 'MissingAuthorizationCookie'],
    [`access_token=${token}`, 'MissingAuthorizationCookie'],
    [`access_token=${token}; access_token_signature=${signature}`, 'InvalidToken'],
    [`access_token=${head}.${payload}; access_token_signature=x`, 'InvalidToken'],
    [`access_token=${head}.${payload}; access_token_signature=${signature}; access_token_signature=${signature}`, 'InvalidToken']
  ]
  for (const [cookie, exception] of cases) {
    const refused = await app.inject({ url: '/', headers: { cookie } })
    t.equal(refused.statusCode, 401)
    t.equal(refused.json().exception, exception, cookie.slice(0, 30))
  }
})

t.test('a split token with cookieHttponly false still hides signature and refresh token', async (t) => {
  const app = await build(t, { ...refreshing, cookieSet: true, cookieSplit: true, cookieHttponly: false, cookieSplitSignatureName: 'sig' })
  t.same(fieldsOf(await login(app)).map((field) => [field.split('=', 1)[0], field.includes('HttpOnly')]), [['access_token', false], ['sig', true], ['refresh_token', true]])
})

// Promise: specification/tokentoolarge-token-would
t.test('a cookie that browsers would drop is refused with 500 TokenTooLarge; nothing is stored and nothing set', async (t) => {
  const { stored, ...handlers } = refreshStore()
  for (const options of [
    { extendPayload: (payload: object) => ({ ...payload, padding: 'x'.repeat(3000) }) },
    { generateRefreshToken: () => 'x'.repeat(4083) },
    { generateRefreshToken: () => 'é'.repeat(681) }
  ]) {
    const app = await build(t, { ...handlers, cookieSet: true, ...options })
    const response = await login(app)
    t.equal(response.statusCode, 500)
    t.equal(response.json().exception, 'TokenTooLarge')
    t.notMatch(response.body, 'xxxx')
    t.same(fieldsOf(response), [])
    t.equal(stored.size, 0)
  }
  // "refresh_token=" and 4,082 characters are 4,096 bytes.
  const app = await build(t, { ...handlers, cookieSet: true, generateRefreshToken: () => 'x'.repeat(4082) })
  t.equal((await login(app)).statusCode, 200)
  t.equal(stored.size, 1)
  const large = await build(t, { extendPayload: (payload) => ({ ...payload, padding: 'x'.repeat(3000) }) })
  t.equal((await login(large)).statusCode, 200, 'in a header it may be longer')
})

t.test('at refresh too a cookie that browsers would drop is refused', async (t) => {
  const app = await build(t, { ...refreshing, cookieSet: true, extendPayload: (payload) => ({ ...payload, padding: 'x'.repeat(3000) }) })
  const response = await refresh(app, { cookie: `access_token=${forge(claims())}; refresh_token=${stored}` })
  t.equal(response.statusCode, 500)
  t.same(fieldsOf(response), [])
})

const token = forge(claims({ exp: 1 }))
const bad = 'wrong'
const access = `access_token=${token}`
const bodyOf = (refreshToken: unknown) => ({ payload: { refresh_token: refreshToken } })

interface Case {
  name: string
  options: Partial<TokenAuthOptions>
  cookie?: string
  query?: Record<string, string | string[]>
  header?: boolean
  body?: unknown
  expect: 200 | string
}

const cookieMode = { cookieSet: true }
const laxCookie = { cookieSet: true, cookieStrict: false }
const queryMode = { queryStringSet: true }
const laxQuery = { queryStringSet: true, queryStringStrict: false }
const refreshCases: Case[] = [
  { name: 'header: from the body', options: {}, header: true, body: stored, expect: 200 },
  { name: 'header: a cookie is not looked at', options: {}, header: true, cookie: `refresh_token=${stored}`, expect: 'MissingRefreshToken' },
  { name: 'header: a parameter is not looked at', options: {}, header: true, query: { refresh_token: stored }, expect: 'MissingRefreshToken' },

  { name: 'cookie: from the cookie', options: cookieMode, cookie: `${access}; refresh_token=${stored}`, expect: 200 },
  { name: 'cookie: missing', options: cookieMode, cookie: access, expect: 'MissingAuthorizationCookie' },
  { name: 'cookie: empty', options: cookieMode, cookie: `${access}; refresh_token=`, expect: 'MissingAuthorizationCookie' },
  { name: 'cookie: the body does not help', options: cookieMode, cookie: access, body: stored, expect: 'MissingAuthorizationCookie' },
  { name: 'cookie: the body does not matter', options: cookieMode, cookie: `${access}; refresh_token=${stored}`, body: bad, expect: 200 },
  { name: 'cookie: twice', options: cookieMode, cookie: `${access}; refresh_token=${stored}; refresh_token=${stored}`, expect: 'InvalidToken' },
  { name: 'cookie: wrong', options: cookieMode, cookie: `${access}; refresh_token=${bad}`, expect: 'AuthenticationFailed' },
  { name: 'cookie: badly encoded', options: cookieMode, cookie: `${access}; refresh_token=%E0%A4%A`, expect: 'AuthenticationFailed' },
  { name: 'cookie: no access token', options: cookieMode, cookie: `refresh_token=${stored}`, header: true, expect: 'MissingAuthorizationCookie' },

  { name: 'lax cookie: from the cookie', options: laxCookie, cookie: `${access}; refresh_token=${stored}`, expect: 200 },
  { name: 'lax cookie: then the body', options: laxCookie, header: true, body: stored, expect: 200 },
  { name: 'lax cookie: access by cookie, refresh by body', options: laxCookie, cookie: access, body: stored, expect: 200 },
  { name: 'lax cookie: an empty one counts as missing', options: laxCookie, cookie: `${access}; refresh_token=`, body: stored, expect: 200 },
  { name: 'lax cookie: a wrong one ends the search', options: laxCookie, cookie: `${access}; refresh_token=${bad}`, body: stored, expect: 'AuthenticationFailed' },
  { name: 'lax cookie: nowhere', options: laxCookie, header: true, expect: 'MissingRefreshToken' },

  { name: 'query: from the parameter', options: queryMode, query: { access_token: token, refresh_token: stored }, expect: 200 },
  { name: 'query: missing', options: queryMode, query: { access_token: token }, body: stored, expect: 'MissingAuthorizationQueryArg' },
  { name: 'query: empty', options: queryMode, query: { access_token: token, refresh_token: '' }, expect: 'MissingAuthorizationQueryArg' },
  { name: 'query: twice', options: queryMode, query: { access_token: token, refresh_token: [stored, stored] }, expect: 'InvalidToken' },
  { name: 'query: wrong', options: queryMode, query: { access_token: token, refresh_token: bad }, expect: 'AuthenticationFailed' },
  { name: 'query: no access token', options: queryMode, header: true, query: { refresh_token: stored }, expect: 'MissingAuthorizationQueryArg' },
  { name: 'query: other names', options: { ...queryMode, queryStringAccessTokenName: 'a', queryStringRefreshTokenName: 'r' }, query: { a: token, r: stored }, expect: 200 },

  { name: 'lax query: then the body', options: laxQuery, header: true, body: stored, expect: 200 },
  { name: 'lax query: nowhere', options: laxQuery, header: true, expect: 'MissingRefreshToken' },

  { name: 'lax chain: the cookie first', options: { ...laxCookie, ...laxQuery }, cookie: `${access}; refresh_token=${stored}`, query: { refresh_token: bad }, body: bad, expect: 200 },
  { name: 'lax chain: then the query', options: { ...laxCookie, ...laxQuery }, cookie: access, query: { refresh_token: stored }, body: bad, expect: 200 },
  { name: 'lax chain: then the body', options: { ...laxCookie, ...laxQuery }, query: { access_token: token }, body: stored, expect: 200 },
  { name: 'lax chain: a wrong parameter ends it', options: { ...laxCookie, ...laxQuery }, header: true, query: { refresh_token: bad }, body: stored, expect: 'AuthenticationFailed' },
  { name: 'lax chain: nowhere', options: { ...laxCookie, ...laxQuery }, header: true, expect: 'MissingRefreshToken' },
  { name: 'lax cookie, strict query', options: { ...laxCookie, ...queryMode }, header: true, cookie: access, body: stored, expect: 'MissingAuthorizationQueryArg' }
]

// Promise: specification/query-string-access
// Promise: specification/query-string-refresh
// Promise: specification/refresh-token-read
t.test('the refresh token is searched like the access token, and in the body where no strict source says otherwise', async (t) => {
  for (const { name, options, cookie, query, header, body, expect } of refreshCases) {
    const app = await build(t, together(refreshing, options), { logger: { serializers: { req: requestSerializer('a', 'r') } } })
    const headers = { ...(header === true && bearer(token)), ...(cookie !== undefined && { cookie }) }
    const response = await refresh(app, headers, { ...(query !== undefined && { query }), ...(body !== undefined && bodyOf(body)) })
    const status = expect === 200 ? 200 : expect === 'MissingRefreshToken' ? 400 : 401
    t.equal(response.statusCode, status, name)
    if (expect !== 200) t.equal(response.json().exception, expect, name)
    t.equal(fieldsOf(response).filter((field) => !field.includes('Max-Age=0')).length, status === 200 && options.cookieSet === true ? 1 : 0, name)
  }
})

t.test('in cookie mode refresh needs no body, and still refuses one that is not an object', async (t) => {
  const app = await build(t, { ...refreshing, cookieSet: true })
  const cookie = `${access}; refresh_token=${stored}`
  t.equal((await refresh(app, { cookie }, { payload: {} })).statusCode, 200)
  t.equal((await refresh(app, { cookie }, { payload: [] })).statusCode, 400)
  t.equal((await refresh(app, { cookie, 'content-type': 'text/plain' }, { payload: 'x' })).statusCode, 415)
  t.equal((await refresh(app, { cookie, 'content-type': 'text/plain' }, { payload: '' })).statusCode, 200, 'an empty body passes with any media type')
})

// Promise: security/script-page-reads
// Promise: specification/added-11
t.test('with tokensInBody false the tokens are in the cookies only, in every answer', async (t) => {
  const { stored: kept, ...handlers } = refreshStore()
  class Hooks extends Responses {
    override extendRefresh () { return { extended: true } }
  }
  const app = await build(t, { ...handlers, cookieSet: true, tokensInBody: false, responsesClass: Hooks })
  const response = await login(app)
  t.equal(response.statusCode, 200)
  t.equal(kept.size, 1)
  t.same(response.json(), {})
  t.same(fieldsOf(response).map((field) => field.split('=', 1)[0]), ['access_token', 'refresh_token'])
  const renewed = await refresh(app, sentBack(response), {})
  t.same(renewed.json(), { extended: true })
  t.same(fieldsOf(renewed).map((field) => field.split('=', 1)[0]), ['access_token'])
})

t.test('tokensInBody false needs cookies, or no client would ever get a token', async (t) => {
  t.match(await refusal(t, { tokensInBody: false }), { name: 'InvalidConfiguration', message: /^"tokensInBody" and "cookieSet" are both false/ })
  const app = await build(t, { tokensInBody: false, getCookieSet: ({ headers }) => headers['x-mode'] === 'cookie' })
  t.type(app.tokenAuth.protect({ cookieSet: false }), 'function', 'a guard may read tokens elsewhere')
  const ask = (mode: string) => app.inject({ method: 'POST', url: '/auth', headers: { 'x-mode': mode }, payload: { username: 'ada', password: 'lovelace' } })
  t.same((await ask('cookie')).json(), {})
  t.same(Object.keys((await ask('header')).json()), ['access_token'], 'it counts for requests that set cookies')
})

// Promise: specification/query-string-set
// Promise: specification/token-header-cookie
t.test('in query mode a login sets no cookie, and what is read by query is not cached', async (t) => {
  const app = await guarded(t, { queryStringSet: true })
  const response = await login(app)
  t.same(fieldsOf(response), [])
  const { access_token: token } = response.json()
  const answer = await app.inject({ url: '/', query: { access_token: token } })
  t.equal(answer.body, 'query')
  t.equal(answer.headers['cache-control'], 'no-store')
  t.same((await app.inject({ url: '/auth/verify', query: { access_token: token } })).json(), { valid: true })
  t.equal((await app.inject({ url: '/auth/me', query: { access_token: token } })).json().me.user_id, payloadOf(token).user_id)
})

// Promise: security/pages-fetched-in-advance
t.test('in cookie mode, what begins or ends a login clears pages that were fetched in advance, and nothing else does', async (t) => {
  const clearing = '"prefetchCache", "prerenderCache"'
  const started = async (options: Partial<TokenAuthOptions>) => {
    const app = await build(t, together({ retrieveUser: () => ({ user_id: 1 }), sessions: {} }, options))
    app.post('/start', async (request, reply) => {
      await app.tokenAuth.sessions.start(request, reply, { user_id: 1 })
      return {}
    })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
    return app
  }
  const app = await started({ cookieSet: true })
  const headers = async () => sentBack(await login(app))
  const found: Record<string, unknown> = {}
  const note = (name: string, answer: { statusCode: number, headers: Record<string, unknown> }) => { found[name] = `${answer.statusCode} ${String(answer.headers['clear-site-data'])}` }
  note('login', await login(app))
  note('refused login', await login(app, { password: 'wrong' }))
  note('sessions.start()', await app.inject({ method: 'POST', url: '/start' }))
  note('refresh', await app.inject({ method: 'POST', url: '/auth/refresh', headers: await headers() }))
  note('guarded', await app.inject({ url: '/', headers: await headers() }))
  note('logout', await app.inject({ method: 'POST', url: '/auth/logout', headers: await headers() }))
  const own = await headers()
  const [{ id }] = (await app.inject({ url: '/auth/sessions', headers: own })).json().sessions
  note('end of another session', await app.inject({ method: 'DELETE', url: `/auth/sessions/${id}`, headers: await headers() }))
  note('end of the others', await app.inject({ method: 'DELETE', url: '/auth/sessions?except=current', headers: await headers() }))
  note('end of all', await app.inject({ method: 'DELETE', url: '/auth/sessions', headers: await headers() }))
  const inHeader = await started({})
  note('login in header mode', await login(inHeader))
  const { refresh_token: refreshToken } = (await login(inHeader)).json()
  note('logout in header mode', await inHeader.inject({ method: 'POST', url: '/auth/logout', payload: { refresh_token: refreshToken } }))
  note('login without sessions', await login(await build(t, { cookieSet: true })))
  const adding = await started({ cookieSet: true })
  adding.addHook('onRequest', async (_request, reply) => { reply.header('clear-site-data', '"cache"') })
  note('login with a header of the application', await login(adding))
  t.same(found, {
    login: `200 ${clearing}`,
    'refused login': '401 undefined',
    'sessions.start()': `200 ${clearing}`,
    refresh: '200 undefined',
    guarded: '200 undefined',
    logout: `204 ${clearing}`,
    'end of another session': '204 undefined',
    'end of the others': '204 undefined',
    'end of all': `204 ${clearing}`,
    'login in header mode': '200 undefined',
    'logout in header mode': '204 undefined',
    'login without sessions': `200 ${clearing}`,
    'login with a header of the application': `200 "cache", ${clearing}`
  })
})
