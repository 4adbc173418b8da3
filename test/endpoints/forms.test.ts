/** Pages without scripts: forms that log in, log out and end a device. */
import assert from 'node:assert/strict'
import Fastify, { type FastifyInstance, type LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { AuthenticationFailed, returnPath, TokenAuthError, type TokenAuthOptions } from '../../lib/index.ts'
import { attack } from '../../lib/testing.ts'
import { authenticate, bearer, build, caseOf, holdTimers, host, otherSecret, payloadOf, refreshStore, secret, together, warnings } from '../helper.ts'
import { issue, trusted } from '../authorities/issuers.ts'
import { cookiesOf, jar, sessionEvents, started, WatchedStore } from '../sessions/helper.ts'

const formType = 'application/x-www-form-urlencoded'
const sameOrigin = { 'sec-fetch-site': 'same-origin' }
const loginRedirectUrl = '/login?next={next}&reason={reason}'
const credentials = { username: 'ada', password: 'lovelace' }

/** An application whose pages have forms. */
async function withForms (t: Test, options: Partial<TokenAuthOptions> = {}): Promise<{ app: FastifyInstance, store: WatchedStore }> {
  const store = new WatchedStore()
  const app = await build(t, together({ sessions: { store }, cookieSet: true, loginRedirectUrl }, options))
  app.get('/page', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth: { userId } }) => ({ userId }))
  return { app, store }
}

type Fields = Record<string, string> | string
const submit = async (app: FastifyInstance, url: string, fields: Fields = {}, headers: Record<string, string> = {}): Promise<LightMyRequestResponse> =>
  await app.inject({ method: 'POST', url, headers: { 'content-type': formType, ...sameOrigin, ...headers }, payload: typeof fields === 'string' ? fields : String(new URLSearchParams(fields)) })
const place = ({ statusCode, headers: { location } }: LightMyRequestResponse) => [statusCode, location]

// Promise: specification/forms
t.test('a login by a form sets cookies, stores nothing in a cache, and leads to the page that it asks for', async (t) => {
  const { app } = await withForms(t)
  const answer = await submit(app, '/auth', { ...credentials, next: '/reports?page=2' })
  t.same(place(answer), [303, '/reports?page=2'])
  t.equal(answer.body, '')
  t.equal(answer.headers['cache-control'], 'no-store')
  t.same(cookiesOf(answer).map((cookie) => cookie.split('=')[0]), ['access_token', 'refresh_token'])
  t.ok(answer.headers['clear-site-data'])
  t.same((await app.inject({ url: '/page', headers: jar(answer) })).json(), { userId: 1 })
  t.same(place(await submit(app, '/auth', credentials)), [303, '/'])
  t.same(place(await submit(app, '/auth/', credentials)), [303, '/'], 'with the other spelling of the path')
  const other = await withForms(t, { loggedInUrl: '/home?tab=1' })
  t.same(place(await submit(other.app, '/auth', credentials)), [303, '/home?tab=1'])
  t.same(place(await submit(other.app, '/auth', { ...credentials, next: '//evil.example' })), [303, '/home?tab=1'])
})

// Promise: specification/forms-refused
t.test('a refused login leads back to the login page, with the way back and nothing of the failure', async (t) => {
  const { app, store } = await withForms(t)
  const events: unknown[] = []
  const { subscribe, unsubscribe } = await import('node:diagnostics_channel')
  const listener = (message: unknown) => { events.push((message as { error: Error }).error.name) }
  subscribe('fastify-token-auth:refused', listener)
  t.teardown(() => unsubscribe('fastify-token-auth:refused', listener))
  const refused = await submit(app, '/auth', { username: 'ada', password: 'a secret that is wrong', next: '/reports?a=1&b=2' })
  t.same(place(refused), [303, '/login?next=%2Freports%3Fa%3D1%26b%3D2&reason=refused'])
  t.same([refused.body, cookiesOf(refused), refused.headers['www-authenticate']], ['', [], undefined])
  t.notMatch(JSON.stringify(refused.headers), /secret|ada|User not found/)
  t.same(place(await submit(app, '/auth', { username: 'ada', password: 'wrong' })), [303, '/login?next=%2F&reason=refused'])
  t.same(events, ['AuthenticationFailed', 'AuthenticationFailed'])
  t.same(store.taken(), [])
  const plain = await withForms(t, { loginRedirectUrl: '/login', onRefusal: 'throw', debug: true })
  t.same(place(await submit(plain.app, '/auth', { username: 'x' })), [303, '/login'], 'also with onRefusal: throw')
})

// Promise: specification/forms-next
t.test('the next page is always one of this site', async (t) => {
  const { app } = await withForms(t, { loggedInUrl: '/home' })
  const hostile = [
    '//evil.example', '/\\evil.example', '\\/evil.example', '/\t/evil.example', '/\n/evil.example', '\t//evil.example', 'https://evil.example', 'HTTPS:evil.example', 'javascript:alert(1)',
    'data:text/html,x', ' /reports', '/%09/evil.example\t', '///evil.example', '/./\\evil.example', '/..//evil.example', '/.//evil.example', 'reports', '', '.', '/\u0000', '/a\r\nset-cookie: x=1',
    '/' + 'a'.repeat(2000), 'http:/evil.example', '/\\/evil.example', '//', '/\\', 'blob:https://evil.example/x', '@evil.example', ':80', '/\u007f', '/' + '\u65e5'.repeat(300)
  ]
  for (const next of hostile) {
    for (const fields of [{ ...credentials, next }, { next }]) {
      const answer = await submit(app, '/auth', fields)
      const { location } = answer.headers
      assert.equal(answer.statusCode, 303, caseOf(next))
      assert.equal(location, 'username' in fields ? '/home' : '/login?next=%2Fhome&reason=refused', caseOf(next))
    }
  }
  for (const next of ['/', '/a', '/a?b=//c', '/%2F%2Fevil.example', '/a/../b', '/' + 'a'.repeat(1999), '/a#b', '/ü', '/a b']) {
    const { location } = (await submit(app, '/auth', { ...credentials, next })).headers
    assert.equal(location, returnPath(next, 'none'), caseOf(next))
    assert.equal(new URL(String(location), 'https://app.example').host, 'app.example')
  }
  for (const fields of ['username=ada&password=lovelace&next=/a&next=/b', 'next=%2Fa&next=%2Fa', 'username=a&username=b']) {
    const answer = await submit(app, '/auth', fields)
    assert.deepEqual([answer.statusCode, cookiesOf(answer)], [400, []], fields)
  }
})

t.test('authenticate sees the fields as texts, also empty ones, in an object without a prototype', async (t) => {
  const seen: unknown[] = []
  const { app } = await withForms(t, { authenticate: ({ body }) => { seen.push(body); return { user_id: 1 } } })
  await submit(app, '/auth', 'username=%C3%BC&password=&__proto__=x&constructor=y&a[b]=c')
  await submit(app, '/auth', '')
  t.equal(Object.getPrototypeOf(seen[0]), null)
  t.same(Object.entries(seen[0] as object), [['username', '\u00fc'], ['password', ''], ['__proto__', 'x'], ['constructor', 'y'], ['a[b]', 'c']])
  t.same(Object.entries(seen[1] as object), [])
  t.equal((await submit(app, '/auth', 'username=%ff')).statusCode, 400)
  t.equal((await submit(app, '/auth', `a=${'x'.repeat(16_384)}`)).statusCode, 413)
})

t.test('a form of 8,000 fields costs no more than any other body of its size', async (t) => {
  const { app } = await withForms(t, { authenticate: () => ({ user_id: 1 }) })
  const many = Array.from({ length: 5000 }, (_, index) => index.toString(36)).join('&').slice(0, 16_000)
  const one = `a=${'x'.repeat(16_000 - 2)}`
  const times = { many: Infinity, one: Infinity }
  for (let round = 0; round < 20; round++) {
    for (const [name, fields] of [['many', many], ['one', one]] as const) {
      const from = process.cpuUsage()
      t.equal((await submit(app, '/auth', fields)).statusCode, 303)
      times[name] = Math.min(times[name], process.cpuUsage(from).user)
    }
  }
  t.ok(times.many < times.one + 50_000, caseOf(times))
})

t.test('the next page has no token in its address, also where a form is refused', async (t) => {
  warnings(t, 'W05')
  const { app } = await withForms(t, { queryStringSet: true })
  const next = '/reports?a=1&access_token=x.y.z&refresh_token=r'
  t.same(place(await submit(app, '/auth', { ...credentials, next })), [303, '/reports?a=1'])
  t.same(place(await submit(app, '/auth', { next })), [303, '/login?next=%2Freports%3Fa%3D1&reason=refused'])
  t.same(place(await submit(app, '/auth/logout', { next })), [303, '/reports?a=1'])
})

t.test('a logout leads to the login page also where its path has the placeholders', async (t) => {
  const { app } = await withForms(t, { loginRedirectUrl: '/login/{reason}/{next}?x=1' })
  t.same(place(await submit(app, '/auth/logout', {})), [303, '/login/absent/%2F'])
})

// Promise: specification/forms-logout
t.test('a logout by a form ends the session and clears the cookies; whoever is logged out already gets the same page', async (t) => {
  const { app } = await withForms(t)
  const events = sessionEvents(t)
  const login = await submit(app, '/auth', credentials)
  const answer = await submit(app, '/auth/logout', {}, jar(login))
  t.same(place(answer), [303, '/login'])
  t.same(cookiesOf(answer), ['access_token=', 'refresh_token='])
  t.match(events.at(-1), { type: 'ended', reason: 'logout' })
  t.equal((await app.inject({ url: '/page', headers: jar(login) })).statusCode, 401)
  for (const headers of [jar(login), {}, { cookie: 'access_token=x' }, { cookie: 'access_token=x; refresh_token=y' }]) {
    assert.deepEqual(place(await submit(app, '/auth/logout', { next: '/bye' }, headers)), [303, '/bye'], caseOf(headers))
  }
  t.same(place(await submit(app, '/auth/logout', { next: 'https://evil.example' })), [303, '/login'])
  const other = await withForms(t, { loggedOutUrl: 'https://www.example/bye?x=1' })
  t.same(place(await submit(other.app, '/auth/logout')), [303, 'https://www.example/bye?x=1'])
  const absolute = await withForms(t, { loginRedirectUrl: 'https://id.example/login?next={next}#form' })
  t.same(place(await submit(absolute.app, '/auth/logout')), [303, 'https://id.example/login'])
})

// Promise: specification/forms-device
t.test('a form ends a device of the user, and only of the user; one that has ended is done', async (t) => {
  const { app } = await withForms(t)
  const [own, other] = [await submit(app, '/auth', credentials), await submit(app, '/auth', credentials)]
  const sidOf = (answer: LightMyRequestResponse) => String(payloadOf(cookiesOf(answer)[0]!.slice('access_token='.length)).sid)
  const end = (sid: string, fields: Fields = { next: '/devices' }, headers: Record<string, string> = jar(own)) => submit(app, `/auth/sessions/${sid}/end`, fields, headers)
  const answer = await end(sidOf(other))
  t.same([place(answer), cookiesOf(answer)], [[303, '/devices'], []])
  t.equal((await app.inject({ url: '/page', headers: jar(other) })).statusCode, 401)
  t.same(place(await end(sidOf(other))), [303, '/devices'], 'it has ended')
  t.same(place(await end('x')), [303, '/devices'])
  const grace = await submit(app, '/auth', { username: 'grace', password: 'hopper' })
  t.same(place(await end(sidOf(grace))), [303, '/devices'])
  t.equal((await app.inject({ url: '/page', headers: jar(grace) })).statusCode, 200, 'of another user')
  t.same(place(await end(sidOf(own), {}, {})), [303, '/login?next=%2F&reason=absent'], 'nobody is logged in')
  t.same(place(await end(sidOf(own), {}, jar(other))), [303, '/login?next=%2F&reason=ended'])
  const last = await end(sidOf(own), {})
  t.same([place(last), cookiesOf(last)], [[303, '/login'], ['access_token=', 'refresh_token=']])
})

t.test('a token of a trusted issuer has no device to end: the form leads to the login', async (t) => {
  const { app } = await withForms(t, { issuers: [trusted()], retrieveUser: () => ({ user_id: 1 }) })
  const answer = await submit(app, '/auth/sessions/bEHfkXeQzv5hVAFDAoxnbw/end', {}, { cookie: `access_token=${issue('a')}` })
  t.same(place(answer), [303, '/login?next=%2F&reason=expired'])
})

t.test('JSON is answered with JSON as before, also beside forms, and ends a device as DELETE does', async (t) => {
  const { app } = await withForms(t)
  const tokens = await started(app)
  t.ok(tokens.access_token)
  const json = async (url: string, headers: Record<string, string>, payload: object | undefined = undefined) => await app.inject({ method: 'POST', url, headers, ...(payload !== undefined && { payload }) })
  const refused = await json('/auth', {}, { username: 'x', next: '/a' })
  t.same([refused.statusCode, refused.headers['content-type']], [401, 'text/plain; charset=utf-8'])
  const [one, other] = [await json('/auth', {}, credentials), await json('/auth', {}, credentials)]
  const sid = payloadOf(other.json().access_token).sid
  t.equal((await json(`/auth/sessions/${String(sid)}/end`, jar(one))).statusCode, 204)
  t.equal((await json(`/auth/sessions/${String(sid)}/end`, jar(one), {})).statusCode, 404)
  t.equal((await json(`/auth/sessions/${String(sid)}/end`, {})).statusCode, 401)
  t.equal((await json('/auth/logout', { ...jar(one), ...sameOrigin })).statusCode, 204)
  for (const type of ['text/plain', 'multipart/form-data; boundary=x', 'application/x-www-form-urlencoded2']) {
    assert.equal((await app.inject({ method: 'POST', url: '/auth', headers: { 'content-type': type }, payload: 'username=ada&password=lovelace' })).statusCode, 415, type)
  }
})

// Promise: specification/forms-off
t.test('only POST has forms: other requests with their media type are answered as without it', async (t) => {
  const { app } = await withForms(t)
  for (const [method, url] of [['GET', '/auth/sessions'], ['DELETE', '/auth/sessions'], ['DELETE', '/auth/sessions/x']] as const) {
    t.equal((await app.inject({ method, url, headers: { 'content-type': formType, ...sameOrigin } })).statusCode, 401, `${method} ${url}`)
  }
})

t.test('without cookies, or a login page of the registration, a form is 415, as any other body', async (t) => {
  const { loginRedirectUrl: _, ...without } = { loginRedirectUrl, cookieSet: true }
  for (const options of [without, { loginRedirectUrl, cookieSet: false }, {}]) {
    const app = await build(t, together({ sessions: {} }, options))
    for (const url of ['/auth', '/auth/logout', '/auth/sessions/x/end']) {
      const answer = await submit(app, url, credentials)
      assert.deepEqual([answer.statusCode, cookiesOf(answer)], [url.endsWith('end') ? 401 : 415, []], caseOf(options, url))
    }
  }
  const computed = await build(t, { sessions: {}, loginRedirectUrl, getCookieSet: ({ headers }) => headers['x-app'] === undefined })
  t.same(place(await submit(computed, '/auth', credentials)), [303, '/'])
  t.equal((await submit(computed, '/auth', credentials, { 'x-app': '1' })).statusCode, 415)
  const page = await build(t, { sessions: {}, cookieSet: true, getLoginRedirectUrl: ({ hostname }) => `https://${hostname}/in?next={next}` })
  t.same(place(await submit(page, '/auth', { username: 'x', next: '/a' }, { host: 'a.example' })), [303, 'https://a.example/in?next=%2Fa'])
})

t.test('forms of other sites are refused, and the error page is that of the host', async (t) => {
  const { app, store } = await withForms(t)
  app.setErrorHandler((error, _request, reply) => reply.code((error as TokenAuthError).statusCode).type('text/html').send(`<h1>${(error as Error).name}</h1>`))
  const login = await submit(app, '/auth', credentials)
  store.taken()
  for (const headers of [{ 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }, { 'sec-fetch-site': 'same-site' }, { 'sec-fetch-site': '', origin: 'null' }]) {
    for (const url of ['/auth', '/auth/logout', `/auth/sessions/${String(payloadOf(login.cookies[0]!.value).sid)}/end`]) {
      const answer = await submit(app, url, { ...credentials, next: '/a' }, { ...jar(login), ...headers })
      assert.deepEqual([answer.statusCode, answer.body, answer.headers.location, cookiesOf(answer)], [403, '<h1>CrossOriginRequest</h1>', undefined, []], caseOf(url, headers))
    }
  }
  t.same(store.taken(), [])
  t.equal((await app.inject({ url: '/page', headers: jar(login) })).statusCode, 200)
})

t.test('other failures are error pages of the host, never a redirect', async (t) => {
  let failure: unknown
  const { app, store } = await withForms(t, { authenticate: (request) => { if (failure !== undefined) throw failure; return authenticate(request) } })
  const errors: unknown[] = []
  app.setErrorHandler((error, _request, reply) => {
    errors.push((error as Error).name)
    return reply.code((error as TokenAuthError).statusCode ?? 500).type('text/html').send('<h1>sorry</h1>')
  })
  const cases: Array<[unknown, number]> = [
    [new TokenAuthError({ name: 'CodeRequired', statusCode: 403, message: 'x' }), 403], [new Error('down'), 500], ['a text', 500],
    [Object.assign(new Error('slow down'), { statusCode: 429 }), 429], [Object.assign(new Error('other'), { statusCode: 401 }), 401], [new AuthenticationFailed('no'), 303]
  ]
  for (const [thrown, status] of cases) {
    failure = thrown
    const answer = await submit(app, '/auth', credentials)
    assert.deepEqual([answer.statusCode, answer.headers.location !== undefined, answer.body], [status, status === 303, status === 303 ? '' : '<h1>sorry</h1>'], caseOf(thrown))
  }
  failure = undefined
  const login = await submit(app, '/auth', credentials)
  store.fail(new Error('down'))
  for (const url of ['/auth', '/auth/logout']) {
    const answer = await submit(app, url, credentials, jar(login))
    assert.deepEqual([answer.statusCode, answer.body], [503, '<h1>sorry</h1>'], url)
    assert.deepEqual(cookiesOf(answer), url === '/auth' ? [] : ['access_token=', 'refresh_token='])
  }
  t.equal(errors.length, 7)
})

t.test('hooks of bodies and exceptionResponse are not called where the answer is a redirect', async (t) => {
  const { Responses } = await import('../../lib/index.ts')
  const calls: string[] = []
  class Own extends Responses {
    override extendAuthenticate () { calls.push('extendAuthenticate'); return { a: 1 } }
    override exceptionResponse (_request: unknown, error: Error) { calls.push(error.name); return { error: error.name } }
  }
  const { stored, ...refreshTokens } = refreshStore()
  for (const sessions of [{}, undefined]) {
    const app = await build(t, together({ sessions, responsesClass: Own, cookieSet: true, loginRedirectUrl }, sessions === undefined ? refreshTokens : {}))
    const login = await submit(app, '/auth', credentials)
    assert.deepEqual(place(login), [303, '/'])
    assert.equal(cookiesOf(login).length, 2)
    assert.deepEqual(place(await submit(app, '/auth', { username: 'x' })), [303, '/login?next=%2F&reason=refused'])
    if (sessions !== undefined) await submit(app, '/auth/logout', {}, jar(login))
  }
  t.same(calls, [])
})

t.test('a login by a form whose next page cannot be computed starts no session', async (t) => {
  const { app, store } = await withForms(t, { getLoggedInUrl: () => { throw new Error('down') } })
  const answer = await submit(app, '/auth', credentials)
  t.same([answer.statusCode, cookiesOf(answer)], [500, []])
  t.same(store.taken(), [])
  const wrong = await withForms(t, { getLoggedInUrl: () => '//evil.example' })
  t.equal((await submit(wrong.app, '/auth', credentials)).statusCode, 500)
})

t.test('"remember me" is a field of the form', async (t) => {
  const { app } = await withForms(t, { cookieMaxAge: 3600, sessions: { login: ({ body }) => ({ persistent: Object(body).remember === 'on' }) } })
  const login = async (fields: object) => String((await submit(app, '/auth', { ...credentials, ...fields })).headers['set-cookie'])
  t.notMatch(await login({}), /Max-Age/)
  t.match(await login({ remember: 'on' }), /Max-Age=3600/)
})

t.test('an answer that comes too late is not a second one', async (t) => {
  const expire = holdTimers(t, 1000)
  let fail = () => {}
  const late = new Promise<void>((resolve) => { fail = resolve })
  const app = host(t, { handlerTimeout: 1000 })
  await app.register(tokenAuth, together({ secret: otherSecret, sessions: {}, cookieSet: true, loginRedirectUrl, authenticate: async () => { await late; throw new AuthenticationFailed() } }))
  const answer = submit(app, '/auth', credentials)
  await new Promise(setImmediate)
  expire()
  t.equal((await answer).statusCode, 503)
  fail()
  await new Promise(setImmediate)
})

t.test('two instances each take the forms of their own pages', async (t) => {
  const { app } = await withForms(t)
  await app.register(tokenAuth, together({ secret: otherSecret, authenticate, sessions: {}, cookieSet: true, instanceName: 'staff', urlPrefix: '/staff', loginRedirectUrl: '/staff/in', cookieAccessTokenName: 's1', cookieRefreshTokenName: 's2' }))
  t.same(place(await submit(app, '/staff', { username: 'x' })), [303, '/staff/in'])
  const login = await submit(app, '/staff', { ...credentials, next: '/staff/home' })
  t.same([place(login), cookiesOf(login).map((cookie) => cookie.split('=')[0])], [[303, '/staff/home'], ['s1', 's2']])
  t.equal((await app.inject({ url: '/page', headers: bearer('x') })).statusCode, 401)
})

// Promise: security/attack-form
t.test('attack() knows a form: only the page of a form that is let in is a finding, not the login page', async (t) => {
  // Without a log: hostile requests have tokens in their URLs.
  const app = await build(t, { sessions: {}, cookieSet: true, loginRedirectUrl, requireGuards: true }, { logger: false })
  const login = await submit(app, '/auth', credentials)
  const token = cookiesOf(login)[0]!.slice('access_token='.length)
  const request = { method: 'POST', url: '/auth/sessions/bEHfkXeQzv5hVAFDAoxnbw/end', payload: 'next=%2Fdevices', headers: { 'content-type': formType, cookie: `access_token=${token}` } }
  const report = await attack(app, request, { token, key: secret })
  t.same(report.found, [], String(report))
  t.ok(report.rows.some(({ statusCode }) => statusCode === 303))
  // A route that forgets its guard.
  const open = Fastify()
  t.teardown(() => open.close())
  open.addContentTypeParser(formType, { parseAs: 'string' }, async () => ({}))
  open.post('/end', async (_request, reply) => reply.redirect('/devices', 303))
  const found = await attack(open, { ...request, url: '/end' }, { token })
  t.ok(found.found.some(({ name, outcome }) => name === 'no token' && outcome === 'let in'), String(found))
  t.match(app.tokenAuth.printRoutes(), /POST +\/auth\/sessions\/:id\/end +protected/)
})
