/** In cookie mode, a request that may change something must not come from another origin: guards, readers, endpoints and protocols. */
import assert from 'node:assert/strict'
import websocket from '@fastify/websocket'
import Fastify, { type FastifyInstance, type InjectOptions, type LightMyRequestResponse, type RouteOptions } from 'fastify'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { connect } from 'node:http2'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { CrossOriginRequest, injectUser, memorySessions, protect, scoped, TokenAuthError, View, type TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, caseOf, claims, exchange, forge, host, listen, mistyped, refreshStore, refusal, warnings } from '../helper.ts'

const spa = 'https://app.example.org'
/** What a page of another site makes a browser send. */
const foreign = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }
const own = { origin: 'http://localhost', 'sec-fetch-site': 'same-origin' }
const body = { reasons: 'The request comes from another origin.', exception: 'CrossOriginRequest' }

const token = () => forge(claims({ scopes: ['reports'] }))
const cookie = () => ({ cookie: `access_token=${token()}` })

/** Sends a request that may change something. */
const post = (app: FastifyInstance, url: string, headers: Record<string, string>, more: InjectOptions = {}) => app.inject({ method: 'POST', url, headers, ...more })

function isRefused (t: Test, answer: LightMyRequestResponse, message: string): void {
  t.equal(answer.statusCode, 403, message)
  t.same(answer.json(), body, message)
  t.equal(answer.headers['www-authenticate'], undefined, `${message}: no challenge, because another token would not help`)
  t.equal(answer.headers['set-cookie'], undefined, `${message}: no cookie is changed`)
}

/** An application with every kind of guard at `/<guard>`, and what ran of its handlers. */
async function guarded (t: Test, options: Partial<TokenAuthOptions> = {}, server: object = {}): Promise<{ app: FastifyInstance, ran: string[] }> {
  const app = await build(t, { cookieSet: true, cookieStrict: false, ...options }, server)
  const ran: string[] = []
  const { tokenAuth } = app
  const handler: RouteOptions['handler'] = async ({ url, tokenAuth: { source } }) => { ran.push(url); return String(source) }
  const guards = {
    '/protect': { onRequest: tokenAuth.protect() },
    '/late': { preHandler: tokenAuth.protect() },
    '/scoped': { onRequest: tokenAuth.scoped('reports') },
    '/computed': { onRequest: tokenAuth.scoped(async () => 'reports') },
    '/free': { onRequest: protect() },
    '/free-scoped': { preValidation: scoped('reports') }
  }
  for (const [url, hooks] of Object.entries(guards)) app.route({ method: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'], url, ...hooks, handler })
  app.post('/inject', tokenAuth.injectUser(handler))
  app.post('/free-inject', injectUser(handler))
  app.post('/awaited', async (request, reply) => {
    await tokenAuth.protect()(request, reply)
    return handler.call(app, request, reply)
  })
  return { app, ran }
}

const urls = ['/protect', '/late', '/scoped', '/computed', '/free', '/free-scoped', '/inject', '/free-inject', '/awaited']

// Promise: security/3-5-1
// Promise: security/cross-site-request
// Promise: specification/crossoriginrequest-2
t.test('a guard refuses a request of another origin that brings its token in a cookie, and no handler runs', async (t) => {
  const { app, ran } = await guarded(t)
  for (const url of urls) {
    isRefused(t, await post(app, url, { ...cookie(), ...foreign }), url)
    isRefused(t, await post(app, url, { ...cookie(), origin: 'null' }), `${url}: a sandboxed frame`)
    isRefused(t, await post(app, url, { ...cookie(), ...foreign, ...bearer(token()) }), `${url}: the cookie comes first, also beside a header`)
    isRefused(t, await post(app, url, { cookie: 'access_token=x', ...foreign }), `${url}: nothing is said of the token`)
    assert.deepEqual(ran, [], url)
    assert.equal((await post(app, url, { ...cookie(), ...own })).body, 'cookie', `${url}: a page of its own`)
    assert.equal((await post(app, url, cookie())).body, 'cookie', `${url}: no browser`)
    assert.deepEqual(ran.splice(0), [url, url], url)
  }
  for (const method of ['PUT', 'PATCH', 'DELETE'] as const) assert.equal((await app.inject({ method, url: '/protect', headers: { ...cookie(), ...foreign } })).statusCode, 403, method)
})

// Promise: security/3-5-3
t.test('a token in the header or the query string is not asked where it comes from, and neither is a request that only reads', async (t) => {
  warnings(t, 'W05')
  const { app } = await guarded(t, { queryStringSet: true, queryStringStrict: false })
  for (const url of urls) {
    assert.equal((await post(app, url, { ...bearer(token()), ...foreign })).body, 'header', url)
    assert.equal((await post(app, `${url}?access_token=${token()}`, foreign)).body, 'query', url)
  }
  for (const url of ['/protect', '/late', '/scoped', '/free']) {
    for (const method of ['GET', 'HEAD'] as const) assert.equal((await app.inject({ method, url, headers: { ...cookie(), ...foreign } })).statusCode, 200, `${method} ${url}`)
  }
  const header = await build(t)
  header.post('/', { onRequest: header.tokenAuth.protect() }, async () => 'in')
  t.equal((await post(header, '/', { ...cookie(), ...bearer(token()), ...foreign })).body, 'in', 'without cookie mode nothing is asked')
})

// Promise: security/cross-site-request
t.test('to a reader without a guard, the token of a request from another origin is none', async (t) => {
  const app = await build(t, { cookieSet: true })
  app.post('/', async (request) => {
    const { payload, userId, scopes, token, source, sessionId } = request.tokenAuth
    const { tokenAuth } = app
    const known = [payload, userId, scopes, token, source, sessionId, await request.tokenAuth.user(), tokenAuth.extractPayload(request), tokenAuth.extractUserId(request), tokenAuth.extractScopes(request)]
    return { isAuthenticated: tokenAuth.isAuthenticated(request), isNothing: known.every((value) => value === null) }
  })
  t.same((await post(app, '/', { ...cookie(), ...foreign })).json(), { isAuthenticated: false, isNothing: true })
  t.same((await post(app, '/', { ...cookie(), ...own })).json(), { isAuthenticated: true, isNothing: false })
})

// Promise: specification/trustedorigins-2
t.test('trustedOrigins lets pages of other origins use the cookies: by registration, by guard, or computed from the request', async (t) => {
  warnings(t, 'W19')
  const asks = { ...foreign, origin: spa }
  const trusting = await guarded(t, { trustedOrigins: [spa] })
  for (const url of urls) assert.equal((await post(trusting.app, url, { ...cookie(), ...asks })).body, 'cookie', url)
  isRefused(t, await post(trusting.app, '/protect', { ...cookie(), ...foreign }), 'an origin that is not listed')
  const all = await guarded(t, { trustedOrigins: '*' })
  t.equal((await post(all.app, '/protect', { ...cookie(), ...foreign })).body, 'cookie')

  const app = await build(t, { cookieSet: true, trustedOrigins: ['https://other.example.org'], getDebug: () => false })
  const guards = {
    '/spa': app.tokenAuth.protect({ trustedOrigins: [spa] }),
    '/all': app.tokenAuth.scoped('reports', { trustedOrigins: '*' }),
    '/none': app.tokenAuth.protect({ trustedOrigins: [] }),
    '/plain': app.tokenAuth.protect(),
    '/header': app.tokenAuth.protect({ cookieSet: false }),
    '/free': protect({ trustedOrigins: [spa] })
  }
  for (const [url, guard] of Object.entries(guards)) app.post(url, { onRequest: guard }, async () => 'in')
  const status = async (url: string, origin: string) => (await post(app, url, { ...cookie(), ...bearer(token()), ...foreign, origin })).statusCode
  for (const [url, expected] of Object.entries({ '/spa': [200, 403], '/all': [200, 200], '/none': [403, 403], '/plain': [403, 200], '/header': [200, 200], '/free': [200, 403] })) {
    assert.deepEqual([await status(url, spa), await status(url, 'https://other.example.org')], expected, url)
  }

  let asked = 0
  const computed = await build(t, { cookieSet: true, getTrustedOrigins: ({ headers }) => { asked++; return headers['x-tenant'] === 'a' ? [spa] : [] } })
  computed.post('/', { onRequest: computed.tokenAuth.protect() }, async () => 'in')
  t.equal((await post(computed, '/', { ...cookie(), ...asks, 'x-tenant': 'a' })).body, 'in')
  isRefused(t, await post(computed, '/', { ...cookie(), ...asks, 'x-tenant': 'b' }), 'another tenant')
  t.equal(asked, 2, 'once for a request')
  t.equal((await post(computed, '/', { ...cookie(), ...own })).body, 'in')
  t.equal(asked, 2, 'and not for own pages')
  const broken = await build(t, { cookieSet: true, getTrustedOrigins: () => mistyped<string[]>(['https://app.example.org/']) })
  broken.post('/', { onRequest: broken.tokenAuth.protect() }, async () => 'in')
  t.equal((await post(broken, '/', { ...cookie(), ...asks })).statusCode, 500)
  t.equal((await post(broken, '/auth', asks)).statusCode, 500)
})

// Promise: security/cross-site-request
t.test('what the application does to its list of origins later changes nothing', async (t) => {
  const trustedOrigins: string[] = []
  const { app } = await guarded(t, { trustedOrigins })
  trustedOrigins.push('https://evil.example')
  t.same(app.tokenAuth.settings.trustedOrigins, [])
  t.ok(Object.isFrozen(app.tokenAuth.settings.trustedOrigins))
  isRefused(t, await post(app, '/protect', { ...cookie(), ...foreign }), 'the origin that was added')
  const plain = await build(t)
  t.ok(Object.isFrozen(plain.tokenAuth.settings.trustedOrigins), 'nor can the default be changed')
})

t.test('in the configuration of an application, trustedOrigins is a text', async (t) => {
  const texts: Record<string, unknown> = {
    '*': '*', ' * ': '*', '': [], ' , ': [], [spa]: [spa], [`${spa}, http://localhost:5173`]: [spa, 'http://localhost:5173'], [` ${spa}\n${spa},`]: [spa, spa]
  }
  for (const [text, expected] of Object.entries(texts)) {
    const app = host(t)
    app.decorate('config', { SERVICE_JWT_TRUSTED_ORIGINS: text })
    assert.equal(await refusal(t, {}, app), undefined, text)
    assert.deepEqual(app.tokenAuth.settings.trustedOrigins, expected, JSON.stringify(text))
  }
})

t.test('the answer is rendered as any refusal, but never a redirect', async (t) => {
  warnings(t, 'W03')
  const headers = { ...cookie(), ...foreign }
  const app = await build(t, { cookieSet: true, debug: true })
  app.post('/', { onRequest: app.tokenAuth.protect({ redirectOnFail: true }) }, async () => 'in')
  const detail = '"Sec-Fetch-Site" is "cross-site", "Origin" is "https://evil.example", and the host is "localhost:80": pages of another origin must be listed in "trustedOrigins"'
  t.same((await post(app, '/', headers)).json(), { ...body, detail })
  t.same((await post(app, '/auth', headers)).json(), { ...body, detail }, 'from an endpoint, too')

  const thrown: unknown[] = []
  const throwing = await build(t, { cookieSet: true, onRefusal: 'throw' })
  throwing.setErrorHandler(async (error, _request, reply) => { thrown.push(error); return await reply.code(418).send('mine') })
  throwing.post('/', { onRequest: throwing.tokenAuth.protect() }, async () => 'in')
  throwing.post('/inject', throwing.tokenAuth.injectUser(async () => 'in'))
  for (const url of ['/', '/inject', '/auth']) assert.equal((await post(throwing, url, headers)).body, 'mine', url)
  t.match(thrown, Array(3).fill({ name: 'CrossOriginRequest', statusCode: 403, code: 'TOKEN_AUTH_CROSS_ORIGIN_REQUEST', headers: {} }))
  t.ok(thrown.every((error) => error instanceof CrossOriginRequest && error instanceof TokenAuthError))
  t.equal(new Set(thrown).size, 3, 'none is shared')

  const open = await build(t, { cookieSet: true, doProtection: false })
  open.post('/', { onRequest: open.tokenAuth.protect() }, async () => 'in')
  open.post('/inject', open.tokenAuth.injectUser(async (_request, _reply, user) => ({ user })))
  t.equal((await post(open, '/', headers)).body, 'in', 'with doProtection false everything passes')
  t.same((await post(open, '/inject', headers)).json(), { user: null })
})

t.test('each refusal is published once, with an error of its own', async (t) => {
  const events: Array<{ request: unknown, error: unknown }> = []
  const listener = (event: unknown) => { events.push(event as { request: unknown, error: unknown }) }
  subscribe('fastify-token-auth:refused', listener)
  t.teardown(() => unsubscribe('fastify-token-auth:refused', listener))
  const { app } = await guarded(t)
  for (const url of ['/protect', '/inject', '/awaited', '/auth']) {
    await post(app, url, { ...cookie(), ...foreign })
    t.match(events, [{ instanceName: 'tokenAuth', error: { name: 'CrossOriginRequest', statusCode: 403 } }], url)
    assert.doesNotMatch(JSON.stringify({ ...events.pop(), request: null }), /eyJ/, `${url}: without the token`)
  }
})

class Logout extends View {
  override post () {}
  override get () { return 'read' }
  override options () {}
}

// Promise: security/3-5-1
// Promise: security/login-csrf-page
t.test('login, refresh, logout and class views refuse requests of other origins in cookie mode, also without a cookie, before anything is read', async (t) => {
  let logins = 0
  const authenticate = () => { logins++; return { user_id: 1 } }
  const { stored, ...handlers } = refreshStore()
  const app = await build(t, { ...handlers, authenticate, cookieSet: true, classViews: [['/leave', Logout]] })
  const sessions = await build(t, { authenticate, cookieSet: true, sessions: {} })
  const form = { payload: 'username=eve', headers: { ...foreign, 'content-type': 'application/x-www-form-urlencoded' } }
  for (const [service, url] of [[app, '/auth'], [app, '/auth/'], [app, '/auth/refresh'], [app, '/auth/leave'], [sessions, '/auth'], [sessions, '/auth/refresh'], [sessions, '/auth/logout']] as const) {
    for (const more of [{}, { payload: {} }, form]) {
      for (const sent of [{}, cookie(), bearer(token())]) {
        const answer = await service.inject({ method: 'POST', url, ...more, headers: { ...foreign, ...sent, ...('headers' in more && more.headers) } })
        isRefused(t, answer, url)
        assert.equal(answer.headers['cache-control'], 'no-store', caseOf(service, more, sent))
      }
    }
  }
  t.equal(logins, 0)
  t.equal(stored.size, 0)
  t.equal((await app.inject({ url: '/auth/leave', headers: foreign })).body, 'read', 'a method that only reads')
  t.equal((await app.inject({ method: 'OPTIONS', url: '/auth/leave', headers: foreign })).statusCode, 204, 'and a preflight request')
  const login = await post(app, '/auth', own, { payload: {} })
  t.equal(login.statusCode, 200)
  t.equal((await post(app, '/auth', {}, { payload: {} })).statusCode, 200, 'no browser')
  const trusting = await build(t, { cookieSet: true, trustedOrigins: [spa], authenticate })
  t.equal((await post(trusting, '/auth', { ...foreign, origin: spa }, { payload: {} })).statusCode, 200, 'an origin that is trusted')
})

t.test('an instance that sets no cookies asks nothing, and one that computes it asks where it sets them', async (t) => {
  const authenticate = () => ({ user_id: 1 })
  const counts: Record<string, number> = {}
  const countHooks = async (name: string, options: Partial<TokenAuthOptions>) => {
    const app = host(t)
    app.addHook('onRoute', ({ url, onRequest }) => { if (url === '/auth') counts[name] = [onRequest ?? []].flat().length })
    t.equal(await refusal(t, { authenticate, ...options }, app), undefined)
    return app
  }
  const header = await countHooks('header', { sessions: {} })
  for (const url of ['/auth', '/auth/refresh', '/auth/logout']) assert.notEqual((await post(header, url, foreign, { payload: {} })).statusCode, 403, url)
  const computed = await countHooks('computed', { getCookieSet: ({ headers }) => headers['x-mode'] === 'cookie' })
  await countHooks('cookie', { cookieSet: true })
  t.same(counts, { header: 1, computed: 2, cookie: 2 }, 'prepared at registration')
  isRefused(t, await post(computed, '/auth', { ...foreign, 'x-mode': 'cookie' }, { payload: {} }), 'cookie mode')
  t.equal((await post(computed, '/auth', foreign, { payload: {} })).statusCode, 200, 'header mode')
  const broken = await build(t, { getCookieSet: () => { throw new Error('no') } })
  t.equal((await post(broken, '/auth', own, { payload: {} })).statusCode, 500)
})

t.test('verify, me and the endpoints for sessions are asked like guarded routes: only where the token came in a cookie', async (t) => {
  const app = await build(t, { cookieSet: true, cookieStrict: false, sessions: {} })
  const upgrade = { ...cookie(), origin: 'https://evil.example', upgrade: 'websocket' }
  const verify = await app.inject({ url: '/auth/verify', headers: upgrade })
  t.same([verify.statusCode, verify.json()], [400, { valid: false, reason: 'The request comes from another origin.' }])
  isRefused(t, await app.inject({ url: '/auth/me', headers: upgrade }), 'me')
  for (const url of ['/auth/verify', '/auth/me', '/auth/sessions']) assert.equal((await app.inject({ url, headers: { ...cookie(), ...foreign } })).statusCode, 200, url)

  const login = await post(app, '/auth', own, { payload: { username: 'ada', password: 'lovelace' } })
  const { access_token: accessToken } = login.json()
  const [{ id }] = (await app.inject({ url: '/auth/sessions', headers: bearer(accessToken) })).json().sessions
  for (const url of [`/auth/sessions/${id}`, '/auth/sessions', '/auth/sessions?except=current']) {
    isRefused(t, await app.inject({ method: 'DELETE', url, headers: { cookie: `access_token=${accessToken}`, ...foreign } }), url)
  }
  t.equal((await app.inject({ method: 'DELETE', url: `/auth/sessions/${id}`, headers: { ...bearer(accessToken), ...foreign } })).statusCode, 204)
})

// Promise: security/login-csrf-page
t.test('sessions.start refuses a request of another origin in cookie mode, and stores nothing', async (t) => {
  for (const cookieSet of [true, false]) {
    const store = memorySessions()
    const app = await build(t, { cookieSet, sessions: { store } })
    app.route({ method: ['GET', 'POST'], url: '/callback', handler: async (request, reply) => ({ started: Object.keys(await app.tokenAuth.sessions.start(request, reply, { user_id: 1 })).length }) })
    const answer = await post(app, '/callback', foreign)
    assert.equal(answer.statusCode, cookieSet ? 403 : 200, caseOf(cookieSet))
    assert.equal(answer.headers['set-cookie'], undefined, caseOf(cookieSet))
    assert.equal((await app.tokenAuth.sessions.list(1)).length, cookieSet ? 0 : 1, caseOf(cookieSet))
    if (cookieSet) t.match(answer.json(), { code: 'TOKEN_AUTH_CROSS_ORIGIN_REQUEST', message: 'The request comes from another origin.' })
    assert.equal((await post(app, '/callback', own)).statusCode, 200, caseOf(cookieSet))
    assert.equal((await app.inject({ url: '/callback', headers: foreign })).statusCode, 200, 'the way back from an identity provider is a GET')
  }
})

// Promise: security/cross-site-request
t.test('a schema that removes the headers from a request does not open a route', async (t) => {
  const app = await build(t, { cookieSet: true })
  const schema = { headers: { type: 'object', properties: { cookie: { type: 'string' }, host: { type: 'string' } }, additionalProperties: false } }
  const left: string[] = []
  app.post('/', { schema, preHandler: [async ({ raw }) => { left.push(...Object.keys(raw.headers)) }, app.tokenAuth.protect()] }, async () => 'in')
  for (const headers of [foreign, { origin: foreign.origin }, { 'sec-fetch-site': 'cross-site' }]) isRefused(t, await post(app, '/', { ...cookie(), ...headers }), JSON.stringify(headers))
  t.same([...new Set(left)].sort(), ['cookie', 'host'], 'the schema did remove them')
  t.equal((await post(app, '/', { ...cookie(), ...own })).body, 'in')
})

t.test('with trustProxy the host is that of X-Forwarded-Host, without it that header is nothing', async (t) => {
  const headers = { ...cookie(), host: 'api:3000', 'x-forwarded-host': 'www.example.org', origin: 'https://www.example.org' }
  for (const trustProxy of [true, false]) {
    const { app } = await guarded(t, {}, { trustProxy })
    assert.equal((await post(app, '/protect', headers)).statusCode, trustProxy ? 200 : 403, caseOf(trustProxy))
    assert.equal((await post(app, '/protect', { ...headers, origin: 'http://api:3000' })).statusCode, trustProxy ? 403 : 200, caseOf(trustProxy))
  }
})

// Promise: security/cross-site-request
t.test('on a socket, Origin or Sec-Fetch-Site twice is refused', async (t) => {
  const { app } = await guarded(t)
  const port = await listen(app)
  const send = async (...lines: string[]) => {
    const head = ['POST /protect HTTP/1.1', `Host: 127.0.0.1:${port}`, `Cookie: access_token=${token()}`, 'Content-Length: 0', 'Connection: close', ...lines]
    return (await exchange(port, `${head.join('\r\n')}\r\n\r\n`)).split(' ')[1]
  }
  const ownOrigin = `Origin: http://127.0.0.1:${port}`
  t.equal(await send(ownOrigin), '200')
  t.equal(await send(ownOrigin, 'Sec-Fetch-Site: same-origin'), '200')
  t.equal(await send(ownOrigin, ownOrigin.toUpperCase()), '403')
  t.equal(await send(ownOrigin, 'origin: https://evil.example'), '403')
  t.equal(await send(ownOrigin, ownOrigin, 'Sec-Fetch-Site: same-origin'), '403')
  t.equal(await send(ownOrigin, 'Sec-Fetch-Site: same-origin', 'sec-fetch-site: cross-site'), '403')
  t.equal(await send('Sec-Fetch-Site: none', 'Sec-Fetch-Site: none'), '403')
  t.equal(await send('Origin:'), '403')
})

t.test('in HTTP/2 the host is :authority', async (t) => {
  const app = mistyped<FastifyInstance>(Fastify({ http2: true }))
  t.teardown(() => app.close())
  t.equal(await refusal(t, { cookieSet: true }, app), undefined)
  app.route({ method: ['GET', 'POST'], url: '/', onRequest: app.tokenAuth.protect(), handler: async () => 'in' })
  const port = await listen(app)
  const client = connect(`http://127.0.0.1:${port}`)
  t.teardown(() => client.destroy())
  const status = async (headers: Record<string, string | string[]>, path = '/', method = 'POST') => {
    const stream = client.request({ ':method': method, ':path': path, ...headers })
    stream.resume().end()
    const [answer] = await once(stream, 'response')
    return answer[':status']
  }
  t.equal(await status(cookie()), 200)
  t.equal(await status({ ...cookie(), origin: `http://127.0.0.1:${port}` }), 200)
  t.equal(await status({ ...cookie(), origin: 'https://www.example.org', ':authority': 'www.example.org' }), 200)
  t.equal(await status({ ...cookie(), origin: 'https://www.example.org' }), 403)
  t.equal(await status({ ...cookie(), ...foreign }), 403)
  t.equal(await status({ ...cookie(), ...own }), 200)
  t.equal(await status({ ...cookie(), origin: [`http://127.0.0.1:${port}`, `http://127.0.0.1:${port}`] }), 403)
  t.equal(await status({ ...cookie(), ...own, 'sec-fetch-site': ['same-origin', 'same-origin'] }), 403)
  t.equal(await status({ ...cookie(), ...foreign }, '/', 'GET'), 200)
  t.equal(await status(foreign, '/auth'), 403)
})

// Promise: security/4-4-2
// Promise: security/cross-site-websocket
t.test('a WebSocket of another origin does not open with a cookie (cross-site WebSocket hijacking), and one of the own origin does', async (t) => {
  const app = host(t)
  await app.register(websocket)
  t.equal(await refusal(t, { cookieSet: true, cookieStrict: false }, app), undefined)
  const kept = ['cookie', 'host', 'authorization', 'upgrade', 'connection', 'sec-websocket-key', 'sec-websocket-version']
  const schema = { headers: { type: 'object', properties: Object.fromEntries(kept.map((name) => [name, { type: 'string' }])), additionalProperties: false } }
  const { tokenAuth } = app
  app.get('/early', { websocket: true, onRequest: tokenAuth.protect() }, (socket, request) => socket.send(String(request.tokenAuth.source)))
  app.get('/late', { websocket: true, preHandler: tokenAuth.protect(), schema }, (socket, request) => socket.send(String(request.tokenAuth.source)))
  app.get('/unguarded', { websocket: true }, (socket, request) => socket.send(String(request.tokenAuth.source)))
  app.get('/trusting', { websocket: true, onRequest: tokenAuth.protect({ trustedOrigins: [spa] }) }, (socket, request) => socket.send(String(request.tokenAuth.source)))
  const port = await listen(app)
  /** What the server says first, or the status with which it refuses. */
  const open = async (path: string, headers: Record<string, string>): Promise<unknown> => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, { headers })
    const refused = once(socket, 'unexpected-response').then(([, response]) => { response.resume(); return response.statusCode })
    socket.on('error', () => {})
    const said = await Promise.race([once(socket, 'message').then(([message]) => String(message)), refused])
    socket.terminate()
    return said
  }
  const ownOrigin = { origin: `http://127.0.0.1:${port}` }
  const neighbour = { origin: `http://127.0.0.1:${port + 1}` }
  for (const path of ['/early', '/late']) {
    assert.equal(await open(path, { ...cookie(), ...ownOrigin }), 'cookie', path)
    assert.equal(await open(path, cookie()), 'cookie', `${path}: no browser`)
    for (const origin of [{ origin: 'https://evil.example' }, neighbour, { origin: 'null' }]) {
      assert.equal(await open(path, { ...cookie(), ...origin }), 403, `${path}: ${origin.origin}`)
      assert.equal(await open(path, { ...bearer(token()), ...origin }), 'header', `${path}: ${origin.origin} with a header`)
      assert.equal(await open(path, origin), 401, `${path}: ${origin.origin} without a token`)
    }
  }
  t.equal(await open('/unguarded', { ...cookie(), ...neighbour }), 'null', 'a reader without a guard sees no token')
  t.equal(await open('/unguarded', { ...cookie(), ...ownOrigin }), 'cookie')
  t.equal(await open('/trusting', { ...cookie(), origin: spa }), 'cookie')
  t.equal(await open('/trusting', { ...cookie(), ...neighbour }), 403)
  const socket = await app.injectWS('/early', { headers: { ...cookie(), host: 'example.org', origin: 'https://example.org' } })
  socket.terminate()
  await t.rejects(app.injectWS('/early', { headers: { ...cookie(), origin: 'https://evil.example' } }), { message: /403/ }, 'a test by injectWS sees it, too')
})

t.test('trustedOrigins "*" in cookie mode is a warning, and without cookies none', async (t) => {
  const codes = warnings(t)
  await build(t, { trustedOrigins: '*' })
  await build(t, { cookieSet: true, trustedOrigins: [spa] })
  await turn()
  t.same(codes, [])
  await build(t, { cookieSet: true, trustedOrigins: '*' })
  await turn()
  t.same(codes, ['TOKEN_AUTH_W19'])
})
