/** Renewal in place: a guard gives a refused request new tokens, and the route answers it (pages). */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request as send, type IncomingHttpHeaders, type OutgoingHttpHeader, type ServerResponse } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import type { FastifyInstance, FastifyRequest, FastifyServerOptions } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { AuthenticationFailed, InvalidToken, memorySessions, protect, scoped, injectUser, type ProtectOptions, type TokenAuthOptions } from '../../lib/index.ts'
import { bearer, caseOf, claims, exchange, forge, holdTimers, host, keysFor, listen, login, mistyped, now, otherSecret, payloadOf, refusal, secret, setClock, shownUsers, together, users, warnings } from '../helper.ts'
import { cookiesOf, jar, sessionEvents, withSessions, type WatchedStore } from '../sessions/helper.ts'

/** What browsers say of a request that opens a page, and of one that a script of the own page makes. */
const navigation = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', 'sec-fetch-site': 'none' }
const ownScript = { 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty', 'sec-fetch-site': 'same-origin' }
const pages: Partial<TokenAuthOptions> = {
  cookieSet: true, cookieMaxAge: 2_592_000, loginRedirectUrl: '/login?next={next}&reason={reason}', retrieveUser: async (_request, payload) => shownUsers.find(({ user_id: id }) => id === payload.user_id) ?? null
}

interface Page { app: FastifyInstance, store: WatchedStore }

/** An application with pages: `/page` renews in a redirecting guard, `/form` with the option, `/plain` does not. */
async function withPages (t: Test, options: Partial<TokenAuthOptions> = {}, server: FastifyServerOptions = {}): Promise<Page> {
  const { app, store } = await withSessions(t, together(pages, options), server)
  const { protect } = app.tokenAuth
  const read = async ({ tokenAuth }: { tokenAuth: { userId: unknown, source: unknown, signedOut: unknown } }) => ({ userId: tokenAuth.userId, source: tokenAuth.source, signedOut: tokenAuth.signedOut })
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => { done(null, body) })
  app.get('/page', { onRequest: app.tokenAuth.protect({ redirectOnFail: true }) }, read)
  app.route({ method: ['GET', 'HEAD', 'POST', 'PUT', 'OPTIONS'], url: '/form', onRequest: protect.call(app.tokenAuth, { renew: true }), handler: async (request) => ({ userId: request.tokenAuth.userId, length: Buffer.isBuffer(request.body) ? request.body.length : String(request.body ?? '').length }), bodyLimit: 2 ** 21 })
  app.get('/plain', { onRequest: protect.call(app.tokenAuth) }, read)
  app.get('/optional', { onRequest: protect.call(app.tokenAuth, { optional: true, renew: true }) }, read)
  return { app, store }
}

/** Cookies of a login, with their values. */
async function cookiesOfLogin (app: FastifyInstance, given = {}): Promise<{ access: string, refresh: string, sid: string }> {
  const [access = '', refresh = ''] = cookiesOf(await login(app, given)).map((cookie) => cookie.slice(cookie.indexOf('=') + 1))
  return { access, refresh, sid: String(payloadOf(access).sid) }
}
const expiredOf = (access: string) => forge({ ...payloadOf(access), exp: now() - 1000 })
const cookie = ({ access, refresh }: { access?: string, refresh?: string }) => ({ cookie: [access !== undefined && `access_token=${access}`, refresh !== undefined && `refresh_token=${refresh}`].filter(Boolean).join('; ') })
/** The cookies of a user whose access token has expired. */
async function expiredCookies (app: FastifyInstance): Promise<{ cookie: string }> {
  const { access, refresh } = await cookiesOfLogin(app)
  return cookie({ access: expiredOf(access), refresh })
}

interface Answer { status: number, headers: IncomingHttpHeaders, body: string }

/** Sends over a socket. */
async function ask (port: number, { path = '/page', method = 'GET', headers = {}, body }: { path?: string, method?: string, headers?: Record<string, string>, body?: Buffer | string }): Promise<Answer> {
  const sent = send({ port, host: '127.0.0.1', path, method, headers })
  sent.end(body)
  const [response] = await once(sent, 'response')
  return { status: response.statusCode, headers: response.headers, body: String(Buffer.concat(await response.toArray())) }
}

t.test('a page whose access token has expired, or is gone, is answered with new cookies, wherever the link was; the next request renews nothing', async (t) => {
  const { app, store } = await withPages(t)
  const port = await listen(app)
  for (const site of ['none', 'same-origin', 'same-site', 'cross-site']) {
    for (const isGone of [true, false]) {
      const { access, refresh } = await cookiesOfLogin(app)
      store.taken()
      const headers = { ...navigation, 'sec-fetch-site': site, ...cookie({ refresh, ...(!isGone && { access: expiredOf(access) }) }) }
      const answer = await ask(port, { headers })
      assert.equal(answer.status, 200, site)
      assert.deepEqual(JSON.parse(answer.body), { userId: 1, source: 'cookie', signedOut: null }, caseOf(site, isGone))
      assert.equal(answer.headers['cache-control'], 'no-store', caseOf(site, isGone))
      const set = answer.headers['set-cookie'] ?? []
      t.match(set, [/^access_token=[^;]+; Max-Age=2592000; Path=\/; HttpOnly; Secure; SameSite=Lax$/, /^refresh_token=[^;]+; Max-Age=2592000; Path=\/; HttpOnly; Secure; SameSite=Lax$/])
      assert.deepEqual(store.taken(), ['advance'], caseOf(site, isGone))
      const next = await ask(port, { headers: { ...navigation, cookie: set.map((field) => field.split(';', 1)[0]).join('; ') } })
      t.match(next, { status: 200, headers: { 'set-cookie': undefined } })
      assert.deepEqual(store.taken(), [], caseOf(site, isGone))
    }
  }
})

t.test('an access token of a cookie is replaced, however bad it is: unverifiable, malformed, empty, sent twice', async (t) => {
  const { app } = await withPages(t)
  const { refresh } = await cookiesOfLogin(app)
  for (const bad of ['access_token=x.y.z', 'access_token=', `access_token=${forge(claims(), { key: otherSecret })}`, 'access_token=a; access_token=b', 'other=1']) {
    const answer = await app.inject({ url: '/page', headers: { ...navigation, cookie: `${bad}; refresh_token=${refresh}` } })
    assert.equal(answer.statusCode, 200, bad)
    assert.equal(answer.json().userId, 1, bad)
  }
})

// Promise: security/page-another-site
t.test('which requests may be given cookies: pages from anywhere, everything else from the own origin', async (t) => {
  const { app } = await withPages(t, { trustedOrigins: ['https://app.example'] })
  const foreign = { ...ownScript, 'sec-fetch-site': 'cross-site' }
  const rows: [what: string, method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'OPTIONS', headers: Record<string, string>, renewed: boolean][] = [
    ['a page', 'GET', { ...navigation, 'sec-fetch-site': 'cross-site' }, true],
    ['its head', 'HEAD', { ...navigation, 'sec-fetch-site': 'cross-site' }, true],
    ['a frame of another site', 'GET', { ...navigation, 'sec-fetch-dest': 'iframe', 'sec-fetch-site': 'cross-site' }, false],
    ['an own frame', 'GET', { ...navigation, 'sec-fetch-dest': 'iframe', 'sec-fetch-site': 'same-origin' }, true],
    ['an image on another site', 'GET', { 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image', 'sec-fetch-site': 'cross-site' }, false],
    ['an own image', 'GET', { 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image', 'sec-fetch-site': 'same-origin' }, true],
    ['a script of another site', 'GET', { ...foreign, origin: 'https://evil.example' }, false],
    ['a script of a neighbour', 'GET', { ...ownScript, 'sec-fetch-site': 'same-site', origin: 'https://b.example' }, false],
    ['an own script', 'GET', ownScript, true],
    ['a script of a trusted origin', 'GET', { ...foreign, origin: 'https://app.example' }, true],
    ['an own form', 'POST', { ...navigation, 'sec-fetch-site': 'same-origin' }, true],
    ['a form of another site', 'POST', { ...navigation, 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }, false],
    ['a form without the headers of browsers', 'POST', {}, true],
    ['plain HTTP from the own origin', 'PUT', { origin: 'http://localhost:80' }, true],
    ['plain HTTP from another origin', 'GET', { origin: 'http://evil.example' }, false],
    ['no browser', 'GET', {}, true],
    ['a preflight request', 'OPTIONS', ownScript, false],
    ['a handshake', 'GET', { ...navigation, upgrade: 'websocket', connection: 'upgrade' }, false],
    ['a prefetched page', 'GET', { ...navigation, 'sec-purpose': 'prefetch;prerender' }, true]
  ]
  for (const [what, method, headers, renewed] of rows) {
    const { refresh } = await cookiesOfLogin(app)
    const answer = await app.inject({ method, url: '/form', headers: { ...headers, ...cookie({ refresh }) }, ...(method === 'POST' && { payload: 'x', headers: { ...headers, ...cookie({ refresh }), 'content-type': 'text/plain' } }) })
    assert.equal(answer.statusCode, renewed ? 200 : 401, what)
    assert.equal(answer.headers['set-cookie'] !== undefined, renewed, what)
  }
})

// Promise: security/page-another-site
t.test('a header that was sent twice is foreign, and is not renewed for', async (t) => {
  const { app } = await withPages(t)
  const port = await listen(app)
  const { refresh } = await cookiesOfLogin(app)
  for (const name of ['sec-fetch-mode', 'sec-fetch-dest', 'sec-fetch-site', 'origin']) {
    const own: Record<string, string[]> = { 'sec-fetch-mode': ['navigate'], 'sec-fetch-dest': ['document'], 'sec-fetch-site': ['none'], ...cookie({ refresh }) as {} }
    const sent = send({ port, host: '127.0.0.1', path: '/form', headers: { ...own, [name]: ['same-origin', 'same-origin'] } })
    sent.end()
    const [response] = await once(sent, 'response')
    assert.equal(response.statusCode, 401, name)
    response.resume()
  }
})

t.test('over HTTP/2 a page is renewed, a stream keeps no cache, and a page of another site gets nothing', async (t) => {
  const { app } = await withPages(t, {}, mistyped({ http2: true }))
  app.get('/stream', { onRequest: app.tokenAuth.protect({ renew: true }) }, (_request, reply) => reply.header('cache-control', 'public, max-age=60').send(Readable.from(['a', 'b'])))
  app.get('/raw', { onRequest: app.tokenAuth.protect({ renew: true }) }, (_request, reply) => {
    reply.hijack()
    reply.raw.writeHead(200, { 'cache-control': 'public', 'set-cookie': 'own=1' })
    reply.raw.end('raw')
  })
  const port = await listen(app)
  const client = connectHttp2(`http://127.0.0.1:${port}`)
  t.teardown(() => client.destroy())
  const get = async (path: string, headers: Record<string, string>) => {
    const stream = client.request({ ':path': path, ...headers })
    const [answered] = await once(stream, 'response')
    return { headers: answered, body: String(Buffer.concat(await stream.toArray())) }
  }
  const { refresh } = await cookiesOfLogin(app)
  const page = await get('/page', { ...navigation, ...cookie({ refresh }) })
  t.match(page, { headers: { ':status': 200, 'cache-control': 'no-store' } })
  t.equal(page.headers['set-cookie'].length, 2)
  const stream = await get('/stream', { ...navigation, ...cookie({ refresh: (await cookiesOfLogin(app)).refresh }) })
  t.match(stream, { headers: { ':status': 200, 'cache-control': 'no-store' }, body: 'ab' })
  t.equal(stream.headers['set-cookie'].length, 2)
  const raw = await get('/raw', { ...navigation, ...cookie({ refresh: (await cookiesOfLogin(app)).refresh }) })
  t.match(raw, { headers: { ':status': 200, 'cache-control': 'no-store' }, body: 'raw' })
  t.match(raw.headers['set-cookie'], [/^access_token=/, /^refresh_token=/, /^own=1$/])
  t.match(await get('/form', { ...ownScript, 'sec-fetch-site': 'cross-site', ...cookie({ refresh }) }), { headers: { ':status': 401, 'set-cookie': undefined } })
})

t.test('the body of a form that is renewed arrives whole, and once', async (t) => {
  const { app, store } = await withPages(t)
  const port = await listen(app)
  const upload = Buffer.alloc(1_000_000, 'x')
  const { refresh } = await cookiesOfLogin(app)
  store.taken()
  const answer = await ask(port, { path: '/form', method: 'POST', body: upload, headers: { ...navigation, 'sec-fetch-site': 'same-origin', 'content-type': 'multipart/form-data; boundary=x', ...cookie({ refresh }) } })
  t.match(answer, { status: 200, body: JSON.stringify({ userId: 1, length: upload.length }) })
  t.same(store.taken(), ['advance'])
})

t.test('every kind of guard renews, in each hook, also where a context has it, and when it is awaited', async (t) => {
  const { app } = await withPages(t, { scopesEnabled: true, addScopesToPayload: () => ['read'] })
  const renew = { renew: true }
  const { tokenAuth } = app
  const read = async (request: { tokenAuth: { userId: unknown } }) => request.tokenAuth.userId
  for (const hook of ['onRequest', 'preValidation', 'preHandler'] as const) app.get(`/${hook}`, { [hook]: tokenAuth.protect(renew) }, read)
  app.get('/free', { onRequest: protect(renew) }, read)
  app.get('/scoped', { onRequest: tokenAuth.scoped('read', renew) }, read)
  app.get('/free-scoped', { onRequest: scoped('read', renew) }, read)
  app.get('/user', tokenAuth.injectUser(async (_request, _reply, user) => Object(user).user_id, renew))
  app.get('/free-user', injectUser(async (_request, _reply, user) => Object(user).user_id, renew))
  app.get('/user-laxly', tokenAuth.injectUser(async (_request, _reply, user) => Object(user).user_id, { ...renew, leeway: 1 }))
  const guard = tokenAuth.protect(renew)
  app.get('/awaited', { onRequest: async (request, reply) => { await guard(request, reply) } }, read)
  await app.register(async (context) => {
    context.addHook('onRequest', tokenAuth.protect(renew))
    context.get('/context', read)
  })
  for (const url of ['/onRequest', '/preValidation', '/preHandler', '/free', '/scoped', '/free-scoped', '/user', '/free-user', '/user-laxly', '/awaited', '/context']) {
    const answer = await app.inject({ url, headers: { ...navigation, ...await expiredCookies(app) } })
    t.match([answer.statusCode, answer.body], [200, '1'], url)
    assert.equal(cookiesOf(answer).length, 2, url)
  }
})

// Promise: security/renewal-mixes-two
t.test('of several guards and readers of a request, the first renews, and all see the new token by their own rules', async (t) => {
  const { app, store } = await withPages(t)
  const { tokenAuth } = app
  const seen: unknown[] = []
  app.get('/twice', { onRequest: [tokenAuth.protect({ leeway: 1, renew: true }), tokenAuth.protect({ leeway: 2, renew: true }), tokenAuth.protect()] }, async (request) => {
    seen.push(request.tokenAuth.token, tokenAuth.extractUserId(request))
    return 'ok'
  })
  app.get('/together', async (request, reply) => {
    const guards = [{ leeway: 1, renew: true }, { leeway: 2, renew: true }, { renew: true }, { renew: true }].map((options) => tokenAuth.protect(options))
    await Promise.all(guards.map(async (guard) => await guard(request, reply)))
    return 'ok'
  })
  app.get('/header', { onRequest: [tokenAuth.protect({ renew: true }), tokenAuth.protect({ cookieSet: false })] }, async () => 'ok')
  for (const url of ['/twice', '/together']) {
    const headers = { ...navigation, ...await expiredCookies(app) }
    store.taken()
    const answer = await app.inject({ url, headers })
    assert.equal(answer.statusCode, 200, url)
    assert.deepEqual(store.taken(), ['advance'], 'one renewal')
    if (url === '/twice') assert.deepEqual(seen, [cookiesOf(answer)[0]?.slice('access_token='.length), 1], url)
  }
  const strict = await app.inject({ url: '/header', headers: { ...navigation, ...await expiredCookies(app) } })
  t.match([strict.statusCode, strict.json().exception], [401, 'MissingAuthorizationHeader'], 'what reads headers sees what was sent')
  t.equal(cookiesOf(strict).length, 2, 'its answer has the cookies')
})

// Promise: security/cache-stores-new
t.test('whatever the route says of caches, a renewed answer is not stored, in each way to send it', async (t) => {
  const { app } = await withPages(t)
  const renew = { onRequest: app.tokenAuth.protect({ renew: true }) }
  const ofVendors = ['cdn-cache-control', 'cloudflare-cdn-cache-control', 'surrogate-control', 'edge-control', 'x-accel-expires']
  const cached = { 'cache-control': 'public, max-age=3600', ...Object.fromEntries(ofVendors.map((name) => [name, 'max-age=60'])) }
  app.get('/object', renew, async (_request, reply) => { reply.headers(cached); return { a: 1 } })
  app.get('/stream', renew, (_request, reply) => reply.headers(cached).send(Readable.from(['a'])))
  app.get('/own', renew, (_request, reply) => { reply.header('cache-control', 'private, No-Store ,max-age=0').send('x') })
  app.get('/hijack', renew, (_request, reply) => {
    reply.hijack()
    reply.raw.writeHead(200, 'Fine', { ...cached, 'set-cookie': ['own=1', 'own=2'], 'x-undefined': undefined })
    reply.raw.end('raw')
  })
  app.get('/list', renew, (_request, reply) => {
    reply.hijack()
    reply.raw.setHeader('x-a', 'replaced')
    reply.raw.writeHead(200, ['cache-control', 'public', 'x-a', '1', 'x-a', '2', 'set-cookie', 'own=1'])
    reply.raw.end('raw')
  })
  app.get('/pairs', renew, (_request, reply) => {
    reply.hijack()
    const pairs: OutgoingHttpHeader[] = mistyped([['cache-control', 'public'], ['x-a', '1']])
    reply.raw.writeHead(200, pairs)
    reply.raw.end('raw')
  })
  app.get('/no-text', renew, (_request, reply) => {
    reply.hijack()
    reply.raw.writeHead(200, mistyped(null), cached)
    reply.raw.end('raw')
  })
  app.get('/quoted', renew, (_request, reply) => { reply.header('cache-control', 'public, x="a, no-store, b"').send('x') })
  app.get('/again', renew, (_request, reply) => {
    reply.hijack()
    reply.raw.setHeader('x-before', '1')
    try {
      reply.raw.writeHead(1, { 'x-a': 'of the first try' })
    } catch {}
    reply.raw.writeHead(200, cached)
    reply.raw.end('raw')
  })
  app.get('/unsendable', renew, async (_request, reply) => { reply.headers({ ...cached, etag: '"1"', 'x-a': '\u20ac' }); return 'x' })
  app.get('/trailer', renew, async (_request, reply) => { reply.headers({ ...cached, trailer: 'x' }); return 'x' })
  const wrap = async (_request: FastifyRequest, { raw }: { raw: ServerResponse }) => {
    const { writeHead } = raw
    raw.writeHead = (...given: unknown[]) => {
      Reflect.apply(writeHead, raw, given)
      throw new Error('after the headers were written')
    }
  }
  app.get('/wrapped', { onRequest: [wrap, renew.onRequest] }, (_request, reply) => {
    reply.hijack()
    t.throws(() => reply.raw.writeHead(200, cached), { message: 'after the headers were written' })
    reply.raw.end('raw')
  })
  app.get('/implicit', renew, (_request, reply) => {
    reply.hijack()
    reply.raw.writeProcessing()
    reply.raw.end('raw')
  })
  app.get('/fails', renew, async () => { throw new Error('fails') })
  const port = await listen(app)
  for (const path of ['/object', '/stream', '/own', '/hijack', '/list', '/pairs', '/no-text', '/quoted', '/again', '/unsendable', '/trailer', '/wrapped', '/implicit', '/fails']) {
    for (const method of path === '/object' ? ['GET', 'HEAD'] : ['GET']) {
      const { headers } = await ask(port, { path, method, headers: { ...navigation, ...await expiredCookies(app) } })
      assert.equal(headers['cache-control'], path === '/own' ? 'private, No-Store ,max-age=0' : 'no-store', path)
      assert.deepEqual(Object.keys(headers).filter((name) => ofVendors.includes(name)), [], caseOf(path, method))
      if (path === '/again') t.match(headers, { 'x-a': undefined, 'x-before': '1' }, 'without the headers of a try that failed')
      if (path === '/unsendable') assert.equal(headers.etag, undefined, 'the answer to an error has the headers that it has without a renewal')
      t.match(headers['set-cookie'], [/^access_token=/, /^refresh_token=/], path)
      if (path === '/hijack') assert.deepEqual(headers['set-cookie']?.slice(2), ['own=1', 'own=2'], 'cookies of the route come after ours')
      if (path === '/list') assert.equal(headers['x-a'], '1, 2', caseOf(path, method))
    }
  }
})

// Promise: security/page-slow-brings
t.test('cookies of a session that ends while the page is made are left out; those of the route stay', async (t) => {
  const { app } = await withPages(t)
  app.get('/logs-out', { onRequest: app.tokenAuth.protect({ renew: true }) }, async (request, reply) => {
    await app.tokenAuth.sessions.end(request.tokenAuth.userId!, request.tokenAuth.sessionId!)
    reply.header('set-cookie', 'own=1')
    return 'ok'
  })
  app.get('/logs-in', { onRequest: app.tokenAuth.protect({ renew: true }) }, async (request, reply) => {
    await app.tokenAuth.sessions.start(request, reply, users[1]!)
    return 'ok'
  })
  const out = await app.inject({ url: '/logs-out', headers: { ...navigation, ...await expiredCookies(app) } })
  t.match([out.statusCode, out.headers['set-cookie'], out.headers['cache-control']], [200, 'own=1', 'no-store'])
  const replaced = await app.inject({ url: '/logs-in', headers: { ...navigation, ...await expiredCookies(app) } })
  t.equal(cookiesOf(replaced).length, 2)
  t.equal(payloadOf(cookiesOf(replaced)[0]!.slice('access_token='.length)).user_id, 2)
})

t.test('20 pages at once get one refresh token, and nobody is taken for a thief', async (t) => {
  const { app } = await withPages(t)
  const port = await listen(app)
  const events = sessionEvents(t)
  const headers = { ...navigation, ...await expiredCookies(app) }
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(port, { headers })))
  t.ok(answers.every(({ status }) => status === 200))
  const tokens = answers.flatMap((answer) => (answer.headers['set-cookie'] ?? []).filter((field) => field.startsWith('refresh_token=')))
  t.equal(new Set(tokens.map((field) => field.split(';', 1)[0])).size, 1)
  t.notOk(events.some(({ type }) => type === 'reused' || type === 'ended'))
})

t.test('a store that fails is a 503 with Retry-After, without a redirect and without a cookie, on optional routes too', async (t) => {
  const { app, store } = await withPages(t)
  const headers = { ...navigation, ...await expiredCookies(app) }
  store.fail(new Error('down'), ['advance'])
  for (const url of ['/page', '/form', '/optional', '/auth/me?optional=true']) {
    const answer = await app.inject({ url, headers })
    t.match(answer, { statusCode: 503, headers: { 'retry-after': /\d+/, location: undefined, 'set-cookie': undefined } }, url)
  }
  store.fail(null)
  t.equal((await app.inject({ url: '/page', headers })).statusCode, 200, 'the cookies are as good as before')
})

t.test('a session that is over leads to the login, with the reason and the way back, and no cookie is set or cleared', async (t) => {
  const { app, store } = await withPages(t)
  const locate = async (given: Record<string, string>, url = '/page?a=1&b=%20') => {
    const answer = await app.inject({ url, headers: { ...navigation, ...given } })
    t.match(answer, { statusCode: 302, headers: { 'set-cookie': undefined, 'cache-control': 'no-store' } })
    return answer.headers.location
  }
  const ended = await cookiesOfLogin(app)
  await app.tokenAuth.sessions.end(1, ended.sid)
  const way = encodeURIComponent('/page?a=1&b=%20')
  t.equal(await locate(cookie(ended)), `/login?next=${way}&reason=ended`)
  t.equal(await locate(cookie({ refresh: ended.refresh })), `/login?next=${way}&reason=ended`, 'this process knows that it has ended')
  store.taken()
  t.equal(await locate(cookie({ access: expiredOf(ended.access), refresh: ended.refresh.slice(0, -4) + 'AAAA' })), `/login?next=${way}&reason=expired`)
  t.same(store.taken(), [], 'a forged refresh token never reaches the store')
  t.equal(await locate({}), `/login?next=${way}&reason=absent`)
  t.equal(await locate(cookie({ access: expiredOf(ended.access) })), `/login?next=${way}&reason=expired`)
  const { refresh } = await cookiesOfLogin(app)
  const twice = await app.inject({ url: '/page?a=1&b=%20', headers: { ...navigation, cookie: `refresh_token=${refresh}; refresh_token=${refresh}` } })
  t.match(twice, { statusCode: 302, headers: { location: `/login?next=${way}&reason=expired`, 'set-cookie': /^refresh_token=; Max-Age=0;/ } }, 'only a cookie that came twice is cleared')
  store.instead = { advance: async () => ({ outcome: 'unknown', n: 0 }) }
  t.equal(await locate(cookie({ refresh })), `/login?next=${way}&reason=expired`)
  const gone = await withPages(t, { retrieveUser: async () => null })
  const { refresh: ofGone } = await cookiesOfLogin(gone.app)
  t.match((await gone.app.inject({ url: '/page', headers: { ...navigation, ...cookie({ refresh: ofGone }) } })).headers, { location: /reason=ended$/, 'set-cookie': undefined }, 'its user does not exist any more')
})

t.test('what refuses a refresh leaves the refusal; every other error of a handler is the answer', async (t) => {
  let thrown: unknown
  const { app } = await withPages(t, { retrieveUser: async () => { throw thrown } })
  const answer = async (url = '/form') => {
    const { statusCode, headers, body } = await app.inject({ url, headers: { ...navigation, ...cookie({ refresh: (await cookiesOfLogin(app)).refresh }) } })
    t.equal(headers['set-cookie'], undefined)
    return [statusCode, JSON.parse(body).exception]
  }
  thrown = new AuthenticationFailed()
  t.same(await answer(), [401, 'MissingAuthorizationCookie'])
  thrown = Object.assign(new Error('of another library'), { statusCode: 401 })
  t.same(await answer(), [500, undefined], 'clients must not discard their tokens for it')
  thrown = new Error('database')
  t.same(await answer(), [500, undefined])
})

// Promise: security/cookie-proves-nothing
t.test('nobody passes an optional guard and injectUser: without a token, if the session is over, or if the token of a cookie proves nothing; a token that is bad in another way does not', async (t) => {
  const { app } = await withPages(t)
  app.get('/user', app.tokenAuth.injectUser(async (request, _reply, user) => ({ userId: user, source: null, signedOut: request.tokenAuth.signedOut }), { renew: true }))
  for (const url of ['/optional', '/user']) {
    const ended = await cookiesOfLogin(app)
    await app.tokenAuth.sessions.end(1, ended.sid)
    const ask = async (given: Record<string, string>) => {
      const answer = await app.inject({ url, headers: { ...navigation, ...given } })
      return [answer.statusCode, answer.json().signedOut]
    }
    assert.deepEqual(await ask({}), [200, 'absent'], url)
    assert.deepEqual(await ask(cookie(ended)), [200, 'ended'], url)
    assert.deepEqual(await ask(cookie({ access: expiredOf(ended.access), refresh: ended.refresh })), [200, 'ended'], url)
    assert.deepEqual(await ask(cookie({ refresh: ended.refresh })), [200, 'ended'], url)
    assert.deepEqual(await ask(cookie({ access: 'x.y.z', refresh: ended.refresh })), [200, 'ended'], url)
    // As after a change of the secret: no key vouches for either.
    const foreign = forge({ user_id: 1, exp: now() + 600 }, { key: otherSecret })
    for (const access of [foreign, 'x', 'x.y.z', `${ended.access.slice(0, -4)}AAAA`, 'x'.repeat(9000)]) {
      assert.deepEqual(await ask(cookie({ access })), [200, 'expired'], access)
      assert.deepEqual(await ask(cookie({ access, refresh: 'x' })), [200, 'expired'], access)
      assert.deepEqual(await ask({ authorization: `Bearer ${access}` }), [200, 'absent'], 'strict cookies read no header')
    }
    assert.deepEqual(await ask({ cookie: `access_token=${foreign}; access_token=${foreign}` }), [401, undefined], 'two may be planted')
    assert.deepEqual(await ask(cookie({ access: forge({ user_id: 1, exp: now() + 600, iss: 5 }) })), [401, undefined], 'what a key vouches for, and is refused')
    assert.deepEqual(await ask({ ...cookie({ access: foreign }), 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image' }), [200, 'expired'], 'a GET from another page')
    assert.deepEqual(await ask(cookie({ access: expiredOf(ended.access) })), [401, undefined], 'nobody knows whether its session is over')
    assert.deepEqual(await ask(cookie({ access: (await cookiesOfLogin(app)).access })), [200, null], url)
  }
})

t.test('a token in a header that proves nothing is refused on a page, too', async (t) => {
  const { app } = await withPages(t, { cookieStrict: false })
  const headers = { ...navigation, ...bearer('x.y.z') }
  t.equal((await app.inject({ url: '/optional', headers })).statusCode, 401)
  t.equal((await app.inject({ url: '/optional', headers: navigation })).statusCode, 200)
})

t.test('a new token is judged by the guard: refused by "trusted" or its scopes, with the cookies', async (t) => {
  let isTrusted: () => boolean = () => true
  const { app } = await withPages(t, { claimAuthTime: true, scopesEnabled: true, addScopesToPayload: () => ['read'], trusted: () => isTrusted() })
  app.get('/admin', { onRequest: app.tokenAuth.scoped('admin', { renew: true }) }, async () => 'ok')
  app.get('/recent', { onRequest: app.tokenAuth.protect({ maxAge: 1, renew: true }) }, async () => 'ok')
  app.get('/recent-page', { onRequest: app.tokenAuth.protect({ maxAge: 1, redirectOnFail: true }) }, async () => 'ok')
  const scopes = await app.inject({ url: '/admin', headers: { ...navigation, ...await expiredCookies(app) } })
  t.match([scopes.statusCode, scopes.json().exception, cookiesOf(scopes).length], [403, 'InsufficientScope', 2])
  const { access, refresh } = await cookiesOfLogin(app)
  const real = Date.now
  Date.now = () => real() + 60_000
  t.teardown(() => { Date.now = real })
  const old = await app.inject({ url: '/recent', headers: { ...navigation, ...cookie({ access: expiredOf(access), refresh }) } })
  t.match([old.statusCode, old.json().exception, cookiesOf(old).length], [401, 'InsufficientUserAuthentication', 2])
  const redirected = await app.inject({ url: '/recent-page', headers: { ...navigation, ...cookie({ access: expiredOf(access), refresh }) } })
  t.match([redirected.statusCode, redirected.headers.location], [302, '/login?next=%2Frecent-page&reason=expired'])
  Date.now = real
  isTrusted = () => false
  const distrusted = await app.inject({ url: '/form', headers: { ...navigation, ...await expiredCookies(app) } })
  t.match([distrusted.statusCode, distrusted.json().exception, cookiesOf(distrusted).length], [401, 'InvalidToken', 2])
})

/** What decides about a token, at the registration and in a guard. */
const rulesOfTokens = fc.record({
  claims: fc.dictionary(fc.string({ unit: 'binary' }).filter((name) => name !== '__proto__' && !['exp', 'nbf', 'iat', 'iss', 'aud', 'jti', 'sub', 'sid', 'sgen', 'auth_time', 'user_id', 'scopes', 'tenant'].includes(name)), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 }),
  scopes: fc.subarray(['read', 'write', 'admin']),
  tenant: fc.option(fc.constantFrom('a', 'b')),
  trusted: fc.option(fc.constantFrom(true, false, 'later', 'never', 'throws')),
  isVerified: fc.boolean(),
  settings: fc.record({ claimIat: fc.boolean(), claimNbf: fc.boolean(), claimAuthTime: fc.constant<boolean>(true), cookieSplit: fc.boolean(), tokenCacheSize: fc.constantFrom<number>(0, 100), claimIss: fc.constantFrom<string | null>(null, 'https://a.example'), claimAud: fc.constantFrom<string | null>(null, 'a') }),
  keys: fc.constantFrom<Partial<TokenAuthOptions>>({}, { algorithm: 'HS512' }, { secret: undefined, keys: [{ key: secret, kid: 'k' }], sessions: { secret } }, { secret: undefined, keys: async () => [{ key: secret, kid: 'k' }], sessions: { secret } }, together({ secret: undefined, sessions: { secret } }, keysFor('ES256'))),
  guard: fc.constantFrom<ProtectOptions>({}, { leeway: 7 }, { claimIss: 'https://b.example' }, { claimAud: 'b' }, { claimNbf: true }, { claimIat: true }, { maxAge: 10 }, { maxAge: 1000 }, { userId: 'sub' }, { cookieSet: false }, { cookieAccessTokenName: 'other' }, { doProtection: false }, { optional: true }, { tokenCacheSize: 0 }),
  required: fc.option(fc.constantFrom('read', 'admin'))
})

t.test('a request that was renewed is judged and read as the next one with its cookies, whose token is verified from its text, whatever the rules are', async (t) => {
  warnings(t, 'W03')
  const start = now()
  const setTime = setClock(t, start)
  const settings = { claimIat: true, claimNbf: false, claimAuthTime: true, cookieSplit: false, tokenCacheSize: 100, claimIss: 'https://a.example', claimAud: 'a' }
  const plain = { claims: { list: [{ a: null }] }, scopes: ['read'], tenant: 'a' as const, trusted: 'later' as const, isVerified: true, settings, keys: {}, guard: { leeway: 7 }, required: 'read' as const }
  const outcomes = new Set<number>()
  await fc.assert(fc.asyncProperty(rulesOfTokens, async ({ claims: extra, scopes, tenant, trusted, isVerified, settings, keys, guard, required }) => {
    setTime(start)
    const { app } = await withPages(t, together({ debug: true, scopesEnabled: true, addScopesToPayload: () => scopes, extendPayload: (payload) => ({ ...payload, ...extra }), extraVerifications: [() => isVerified] }, settings, keys,
      tenant === null ? {} : { customClaims: [{ key: 'tenant', setup: () => tenant, verify: (value: unknown) => value === 'a' }] },
      trusted === null ? {} : { trusted: () => { if (trusted === 'throws') throw new InvalidToken(); return typeof trusted === 'boolean' ? trusted : Promise.resolve(trusted === 'later') } }))
    const { tokenAuth } = app
    const second = required === null || guard.optional === true ? tokenAuth.protect(guard) : tokenAuth.scoped(required, guard)
    const read = async (request: FastifyRequest) => {
      // A guard that protects nothing verifies nothing.
      await request.tokenAuth.ready()
      const { userId, scopes, payload, sessionId, source, token, signedOut } = request.tokenAuth
      return JSON.stringify({ userId, scopes, payload, sessionId, source, token, signedOut })
    }
    app.get('/renewed', { onRequest: [tokenAuth.protect({ renew: true }), second] }, read)
    app.get('/text', { onRequest: [tokenAuth.protect(), second] }, read)
    const refresh = cookiesOf(await login(app)).at(-1)!
    setTime(start + 60)
    const renewed = await app.inject({ url: '/renewed', headers: { ...navigation, cookie: refresh } })
    const text = await app.inject({ url: '/text', headers: { ...navigation, ...jar(renewed) } })
    await app.close()
    outcomes.add(text.statusCode)
    assert.ok(renewed.headers['set-cookie'])
    assert.deepEqual([renewed.statusCode, renewed.headers['www-authenticate'], renewed.body], [text.statusCode, text.headers['www-authenticate'], text.body])
    return true
  }), { numRuns: 80, examples: [[plain], [{ ...plain, required: 'admin' }], [{ ...plain, trusted: 'never' }], [{ ...plain, tenant: 'b' }]] })
  t.same([...outcomes].sort(), [200, 401, 403])
})

t.test('who has signed the new token opens nothing: guards with other keys, an instance whose key was removed meanwhile, and guards after the end of the session refuse it', async (t) => {
  const { app } = await withPages(t)
  const others: [options: ProtectOptions, exception: string][] = [[{ secret: otherSecret }, 'InvalidToken'], [{ algorithm: 'HS384' }, 'InvalidToken']]
  for (const [index, [options]] of others.entries()) app.get(`/${index}`, { onRequest: [app.tokenAuth.protect({ renew: true }), app.tokenAuth.protect(options)] }, async () => 'ok')
  const end = async (request: FastifyRequest) => { await app.tokenAuth.sessions.end(request.tokenAuth.userId!, request.tokenAuth.sessionId!) }
  app.get('/ended', { onRequest: [app.tokenAuth.protect({ renew: true }), end, app.tokenAuth.protect({ leeway: 1 })] }, async () => 'ok')
  for (const [index, [options, exception]] of others.entries()) {
    const answer = await app.inject({ url: `/${index}`, headers: { ...navigation, ...await expiredCookies(app) } })
    t.match([answer.statusCode, answer.json().exception, cookiesOf(answer).length], [401, exception, 2], JSON.stringify(options))
  }
  const ended = await app.inject({ url: '/ended', headers: { ...navigation, ...await expiredCookies(app) } })
  t.match([ended.statusCode, ended.json().exception, ended.headers['set-cookie']], [401, 'SessionEnded', undefined])

  let keys = [{ key: secret, kid: 'a' }]
  const changing = await withPages(t, { secret: undefined, keys: () => keys, sessions: { secret } })
  const { refresh } = await cookiesOfLogin(changing.app)
  const ask = async () => await changing.app.inject({ url: '/form', headers: { ...navigation, ...cookie({ refresh }) } })
  t.equal((await ask()).statusCode, 200)
  // After the new token is signed.
  changing.store.before = async (method) => {
    if (method !== 'advance') return
    keys = [{ key: otherSecret, kid: 'a' }]
    await changing.app.tokenAuth.reloadKeys()
  }
  t.match(await ask(), { statusCode: 401, headers: { 'set-cookie': [/^access_token=/] } })
})

// Promise: security/renewal-finds-user
t.test('the user of a renewed request is also checked by the optional guards that the anonymous request has passed', async (t) => {
  const { app } = await withPages(t, { claimAuthTime: true, scopesEnabled: true, addScopesToPayload: () => ['read'] })
  const { protect, injectUser } = app.tokenAuth
  const recent = app.tokenAuth.protect({ optional: true, maxAge: 60 })
  const ofAdmins = app.tokenAuth.protect({ optional: true, claimAud: 'admin' })
  const anybody = app.tokenAuth.protect({ optional: true })
  const injected = injectUser.call(app.tokenAuth, async (_request, _reply, user) => ({ user }), { renew: true })
  const renewing = protect.call(app.tokenAuth, { renew: true })
  app.get('/recent', { onRequest: recent }, injected)
  app.get('/both', { onRequest: [recent, renewing] }, async () => 'ok')
  app.get('/admins', { onRequest: ofAdmins }, injected)
  app.get('/second', { onRequest: [ofAdmins, renewing], preHandler: app.tokenAuth.protect({ redirectOnFail: true }) }, async () => 'ok')
  app.get('/anybody', { onRequest: [anybody, renewing] }, async (request) => ({ user: request.tokenAuth.userId }))
  const { access, refresh } = await cookiesOfLogin(app)
  const real = Date.now
  Date.now = () => real() + 120_000
  t.teardown(() => { Date.now = real })
  for (const [url, exception] of [['/recent', 'InsufficientUserAuthentication'], ['/both', 'InsufficientUserAuthentication'], ['/admins', 'InvalidClaim'], ['/second', 'InvalidClaim']] as const) {
    for (const headers of [cookie({ access, refresh }), cookie({ refresh })]) {
      const answer = await app.inject({ url, headers: { ...navigation, ...headers } })
      t.match([answer.statusCode, answer.json().exception], [401, exception], url)
    }
    const anonymous = await app.inject({ url, headers: navigation })
    assert.equal(anonymous.statusCode, url === '/recent' || url === '/admins' ? 200 : 401, 'nobody is judged as before')
  }
  const renewed = await app.inject({ url: '/anybody', headers: { ...navigation, ...cookie({ refresh }) } })
  t.match([renewed.statusCode, renewed.json(), cookiesOf(renewed).length], [200, { user: 1 }, 2])
})

t.test('me?optional=true is a 200 also where the new token is refused', async (t) => {
  const { app } = await withPages(t, { trusted: () => false })
  const { refresh } = await cookiesOfLogin(app)
  const answer = await app.inject({ url: '/auth/me?optional=true', headers: { ...ownScript, ...cookie({ refresh }) } })
  t.match([answer.statusCode, answer.json()], [200, { me: null, id: null, reason: 'expired' }])
})

t.test('the way back has no token of the registration, whatever the guard reads', async (t) => {
  warnings(t, 'W05')
  const { app } = await withPages(t, { queryStringSet: true, queryStringStrict: false })
  app.get('/off', { onRequest: app.tokenAuth.protect({ redirectOnFail: true, queryStringSet: false }) }, async () => 'ok')
  app.get('/named', { onRequest: app.tokenAuth.protect({ redirectOnFail: true, queryStringAccessTokenName: 'other' }) }, async () => 'ok')
  for (const [url, next] of [['/off?a=1&access_token=x', '/off?a=1'], ['/off?refresh_token=x', '/off'], ['/named?access_token=x&other=y', '/named']] as const) {
    const { headers } = await app.inject({ url, headers: navigation })
    t.match(headers.location, `/login?next=${encodeURIComponent(next)}&`)
  }
})

t.test('tokens of the header and of the query string are never renewed, nor is a login that is too old, a 403 or an ended session', async (t) => {
  warnings(t, 'W05')
  const { app, store } = await withPages(t, { cookieStrict: false, queryStringSet: true, queryStringStrict: false, claimAuthTime: true, scopesEnabled: true, addScopesToPayload: () => ['read'] })
  app.get('/admin', { onRequest: app.tokenAuth.scoped('admin', { renew: true }) }, async () => 'ok')
  app.get('/recent', { onRequest: app.tokenAuth.protect({ maxAge: 1, renew: true }) }, async () => 'ok')
  const { access, refresh, sid } = await cookiesOfLogin(app)
  const expired = expiredOf(access)
  store.taken()
  const refused = async (url: string, given: Record<string, string>, status: number) => {
    const answer = await app.inject({ url, headers: { ...navigation, ...given } })
    t.match(answer, { statusCode: status, headers: { 'set-cookie': undefined } }, url)
    t.same(store.taken(), [], url)
  }
  await refused('/form', { ...bearer(expired), ...cookie({ refresh }) }, 401)
  await refused('/form', { authorization: 'Bearer', ...cookie({ refresh }) }, 401)
  await refused(`/form?access_token=${expired}`, cookie({ refresh }), 401)
  await refused('/form?access_token=a&access_token=b', cookie({ refresh }), 401)
  await refused(`/form?refresh_token=${refresh}`, {}, 401)
  await refused('/admin', cookie({ access, refresh }), 403)
  const { user_id: id, ...rest } = payloadOf(access)
  await refused('/recent', cookie({ access: forge({ ...rest, user_id: id, auth_time: now() - 100 }), refresh }), 401)
  await refused('/plain', cookie({ access: expired, refresh }), 401)
  await app.tokenAuth.sessions.end(1, sid)
  store.taken()
  await refused('/form', cookie({ access, refresh }), 401)
})

// Promise: security/way-back-after
t.test('the way back is a path of this site without tokens, and only for requests that a link can repeat', async (t) => {
  warnings(t, 'W05')
  const { app } = await withPages(t, { queryStringSet: true, queryStringStrict: false, cookieStrict: false })
  app.post('/page', { onRequest: app.tokenAuth.protect({ redirectOnFail: true }) }, async () => 'ok')
  app.setNotFoundHandler({ preHandler: app.tokenAuth.protect({ redirectOnFail: true }) }, async () => 'ok')
  const next = async (url: string, method: 'GET' | 'POST' = 'GET') => new URL(String((await app.inject({ method, url, headers: navigation })).headers.location), 'http://x').searchParams.get('next')
  t.equal(await next('/page?a="x"&b=%22&{reason}'), '/page?a=%22x%22&b=%22&{reason}')
  t.equal(await next('/page?access_token=x&a=1&refresh%5Ftoken=y&access_token'), '/page?a=1')
  t.equal(await next('/page?access_token=x'), '/page')
  t.equal(await next(`/page?${'a'.repeat(1994)}`), `/page?${'a'.repeat(1994)}`)
  t.equal(await next(`/page?${'a'.repeat(1995)}`), '/')
  t.equal(await next('/page', 'POST'), '/')
  const port = await listen(app)
  for (const path of ['//evil.example/x', '/\\evil.example', 'http://evil.example/x', `/${'x'.repeat(8000)}`]) {
    const { status, headers } = await ask(port, { path, headers: navigation })
    t.match([status, headers.location], [302, '/login?next=%2F&reason=absent'], path)
  }
})

t.test('in what a getter returns, {next} and {reason} are replaced, and other braces stay', async (t) => {
  const { app } = await withPages(t, { loginRedirectUrl: undefined, getLoginRedirectUrl: () => '/l/{tenant}?n={next}&r={reason}' } as Partial<TokenAuthOptions>)
  t.equal((await app.inject({ url: '/page', headers: navigation })).headers.location, '/l/{tenant}?n=%2Fpage&r=absent')
  const failing = host(t)
  await failing.register(tokenAuth, together({ secret, authenticate: () => users[0]! }, { loginRedirectUrl: '/l?r={reason}', getAuthorizationHeaderPrefix: () => { throw new InvalidToken() } }))
  failing.get('/page', { onRequest: failing.tokenAuth.protect({ redirectOnFail: true }) }, async () => 'ok')
  t.equal((await failing.inject({ url: '/page', headers: bearer('x') })).headers.location, '/l?r=expired', 'a getter that refuses')
})

// Promise: security/way-back-after
t.test('returnPath gives paths of this site as they are, and the fallback for everything else', async () => {
  const { returnPath } = tokenAuth
  for (const [given, path] of [['/', '/'], ['/a?b=c#d', '/a?b=c'], ['/a/../b', '/b'], ['/a b', '/a%20b'], ['/é', '/%C3%A9'], ['/a?next=//x', '/a?next=//x'], ['/@evil', '/@evil'], ['/\u0085', '/%C2%85']]) assert.equal(returnPath(given), path, caseOf(given))
  const wrong: unknown[] = [
    undefined, null, 5, {}, [], ['/a'], { toString: () => '/a' }, '', 'a', 'https://evil.example', '//evil.example', '/\\evil.example', '\\/evil.example', '/\t/evil.example', '/\n/evil.example', '/.//evil.example', '/%2e//evil.example', '/a/..//evil.example',
    ' /a', '/\u0000', '/a\u007f', 'javascript:alert(1)', '///evil.example', '/\\/evil.example'
  ]
  for (const value of wrong) {
    assert.equal(returnPath(value), '/', JSON.stringify(value))
    assert.equal(returnPath(value, '/home'), '/home', caseOf(value))
  }
})

t.test('me?optional=true says who is logged in, with 200, and renews; in any other form it is the endpoint as it was', async (t) => {
  const { app, store } = await withPages(t, { responsesClass: class extends tokenAuth.Responses { override extendRetrieveUser () { return { extra: 1, id: 'mine', reason: 'mine' } } } })
  const me = async (query: string, given: Record<string, string>, headers: Record<string, string> = ownScript) => {
    const answer = await app.inject({ url: `/auth/me${query}`, headers: { ...headers, ...given } })
    return { status: answer.statusCode, body: answer.json(), cookies: cookiesOf(answer).length }
  }
  const { username, user_id: id } = users[0]!
  const known = await cookiesOfLogin(app)
  t.match(await me('?optional=true', cookie(known)), { status: 200, body: { me: { username }, id, reason: null, extra: 1 }, cookies: 0 })
  const expired = cookie({ access: expiredOf(known.access), refresh: known.refresh })
  t.match(await me('?optional=true', expired), { status: 200, body: { me: { username }, id, reason: null, extra: 1 }, cookies: 2 })
  t.strictSame(await me('?optional=true', {}), { status: 200, body: { me: null, id: null, reason: 'absent' }, cookies: 0 }, 'the hook extends the answer for a user alone')
  store.taken()
  for (const query of ['', '?optional=1', '?optional=TRUE', '?optional=true&optional=true', '?optional', '?optional=false']) t.match(await me(query, expired), { status: 401, cookies: 0 }, query)
  t.same(store.taken(), [], 'nothing is renewed without the question')
  t.match(await me('?optional=true', expired, { ...ownScript, 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }), { status: 200, body: { me: null, reason: 'expired' }, cookies: 0 }, 'nor for another origin')
  await app.tokenAuth.sessions.end(1, known.sid)
  t.strictSame((await me('?optional=true', expired)).body, { me: null, id: null, reason: 'ended' })
  t.match(await me('', cookie(known)), { status: 401, body: { exception: 'SessionEnded' } })

  const inHeader = await withSessions(t, { retrieveUser: pages.retrieveUser })
  const { access_token: token } = (await login(inHeader.app)).json()
  const ask = async (headers: Record<string, string>) => (await inHeader.app.inject({ url: '/auth/me?optional=true', headers })).json()
  t.match(await ask(bearer(token)), { me: { username }, id, reason: null })
  t.strictSame(await ask({}), { me: null, id: null, reason: 'absent' })
  t.strictSame(await ask(bearer(expiredOf(token))), { me: null, id: null, reason: 'expired' })
  const withoutSessions = host(t)
  await withoutSessions.register(tokenAuth, together({ secret, authenticate: () => users[0]! }, { retrieveUser: pages.retrieveUser }))
  t.equal((await withoutSessions.inject('/auth/me?optional=true')).statusCode, 401)
})

t.test('E56 and E57: a guard that cannot renew is refused by name; where redirectOnFail implies it, it does not renew', async (t) => {
  const { app } = await withPages(t)
  const fails = (instance: FastifyInstance, options: ProtectOptions, finding: string, message: RegExp) => t.throws(() => instance.tokenAuth.protect(options), { name: 'InvalidConfiguration', finding: `TOKEN_AUTH_${finding}`, message })
  const registered = async (options: Partial<TokenAuthOptions>) => {
    const other = host(t)
    await other.register(tokenAuth, together({ secret, authenticate: () => users[0]! }, options))
    return other
  }
  fails(await registered({ cookieSet: true }), { renew: true }, 'E56', /^A guard has "renew", but its instance cannot renew tokens: "sessions" is missing\. /)
  fails(await registered({ sessions: {}, retrieveUser: pages.retrieveUser }), { renew: true }, 'E56', /: "cookieSet" is false\. /)
  fails(await registered({ authMode: false, cookieSet: true }), { renew: true }, 'E56', /: "authMode" is false\. /)
  const overrides: [name: string, value: unknown][] = [
    ['secret', otherSecret], ['publicKey', otherSecret], ['privateKey', otherSecret], ['algorithm', 'HS384'], ['claimIss', 'x'], ['claimAud', 'x'], ['userId', 'sub'], ['scopesName', 'scp'], ['cookieSet', true], ['cookieSplit', true],
    ['cookieAccessTokenName', 'a'], ['cookieRefreshTokenName', 'b'], ['cookieSplitSignatureName', 'c'], ['cookieDomain', 'example.org'], ['cookiePath', '/x'], ['cookiePartitioned', false]
  ]
  for (const [name, value] of overrides) fails(app, { renew: true, [name]: value }, 'E57', new RegExp(`^A guard has "renew" and overrides "${name}", `))
  t.throws(() => app.tokenAuth.protect(mistyped({ renew: 'yes' })), { message: /"renew" of protect\(\) must be true or false/ })
  app.get('/other-name', { onRequest: app.tokenAuth.protect({ redirectOnFail: true, cookiePath: '/x' }) }, async () => 'ok')
  app.get('/no', { onRequest: app.tokenAuth.protect({ redirectOnFail: true, renew: false }) }, async () => 'ok')
  app.get('/free-wrong', { onRequest: protect({ renew: true, claimAud: 'x' }) }, async () => 'ok')
  for (const url of ['/other-name', '/no']) t.match(await app.inject({ url, headers: { ...navigation, ...await expiredCookies(app) } }), { statusCode: 302, headers: { 'set-cookie': undefined } }, url)
  t.equal((await app.inject({ url: '/free-wrong', headers: navigation })).statusCode, 500)
  const inHeader = await registered({ sessions: {}, retrieveUser: pages.retrieveUser })
  inHeader.get('/page', { onRequest: inHeader.tokenAuth.protect({ redirectOnFail: true }) }, async () => 'ok')
  t.match(await inHeader.inject('/page'), { statusCode: 302, headers: { 'set-cookie': undefined } })
})

t.test('E58: placeholders of redirect targets are {next} and {reason}', async (t) => {
  const { app } = await withPages(t)
  const e58 = (name: string, found: string) => ({ name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E58', message: `"${name}" has "${found}", but only {next} and {reason} are replaced in it. Remove it, or write its braces as %7B and %7D. See node_modules/fastify-token-auth/docs/findings.md#token_auth_e58` })
  t.match(await refusal(t, { loginRedirectUrl: '/login?x={path}' }), e58('loginRedirectUrl', '{path}'))
  for (const target of ['/login?{next}{}', '/a{Next}', '/a{next']) {
    const wrong = /\{(?!next\}|reason\})[^}]*\}/.exec(target)?.[0]
    if (wrong === undefined) t.doesNotThrow(() => app.tokenAuth.protect({ redirectUrl: target }))
    else t.throws(() => app.tokenAuth.protect({ redirectUrl: target }), e58('redirectUrl', wrong), 'also without redirectOnFail')
  }
  t.throws(() => app.tokenAuth.protect({ redirectUrl: mistyped(5) }), { message: /"redirectUrl" of protect\(\) must be/ })
  t.throws(() => app.tokenAuth.protect({ loginRedirectUrl: '/{x}' }), e58('loginRedirectUrl', '{x}'))
})

t.test('with "debug", the detail of a refusal ends with why it was not renewed', async (t) => {
  const { app } = await withPages(t, { debug: true })
  const { access, refresh, sid } = await cookiesOfLogin(app)
  const detail = async (given: Record<string, string>, headers: Record<string, string> = navigation) => String((await app.inject({ url: '/form', headers: { ...headers, ...given } })).json().detail).split('; not renewed: ')[1]
  const expired = expiredOf(access)
  t.equal(await detail(cookie({ access: expired })), 'there is no refresh token in a cookie')
  t.equal(await detail({ cookie: `refresh_token=${refresh}; refresh_token=${refresh}` }), 'the cookie of the refresh token was sent more than once')
  t.equal(await detail(cookie({ access: expired, refresh }), { ...ownScript, 'sec-fetch-site': 'cross-site' }), 'a page of another origin may have sent the request')
  t.equal(await detail(cookie({ access: expired, refresh: 'x' })), 'the refresh token was refused')
  await app.tokenAuth.sessions.end(1, sid)
  t.equal(await detail(cookie({ access, refresh })), 'the session has ended')
})

t.test('a renewal is a refresh in the events, and no refusal', async (t) => {
  const { app } = await withPages(t)
  const sessions = sessionEvents(t)
  const headers = { ...navigation, ...await expiredCookies(app) }
  sessions.splice(0)
  t.equal((await app.inject({ url: '/page', headers })).statusCode, 200)
  t.match(sessions, [{ type: 'refreshed', recovered: false, reissued: false, userId: 1 }])
})

t.test('the new access token confirms nothing in the request that made it, and does in the next one', async (t) => {
  const { app, store } = await withPages(t)
  app.get('/all', { onRequest: [app.tokenAuth.protect({ renew: true }), app.tokenAuth.protect({ leeway: 1 })] }, async (request) => {
    const { token } = request.tokenAuth
    return (await app.tokenAuth.verifyToken(token ?? '', request)).user_id
  })
  const confirmed: unknown[] = []
  store.instead = { confirm: async (received: unknown) => { confirmed.push(received) } }
  const answer = await app.inject({ url: '/all', headers: { ...navigation, ...await expiredCookies(app) } })
  t.equal(answer.statusCode, 200)
  await app.close()
  t.same(confirmed, [])
  const other = await withPages(t)
  other.store.instead = { confirm: async (received: unknown) => { confirmed.push(received) } }
  const renewed = await other.app.inject({ url: '/page', headers: { ...navigation, ...await expiredCookies(other.app) } })
  t.equal((await other.app.inject({ url: '/page', headers: { ...navigation, ...jar(renewed) } })).statusCode, 200)
  await other.app.close()
  t.match(confirmed, [[{ n: 0 }]])

  // A token that was sent has been received, whatever the request was given.
  confirmed.splice(0)
  const setTime = setClock(t, now())
  const both = await withPages(t)
  both.app.get('/both', { onRequest: [both.app.tokenAuth.protect({ renew: true }), both.app.tokenAuth.protect({ cookieSet: false })] }, async () => 'ok')
  const { refresh } = await cookiesOfLogin(both.app)
  const refreshed = cookiesOf(await both.app.inject({ method: 'POST', url: '/auth/refresh', headers: cookie({ refresh }) }))
  both.store.instead = { confirm: async (received: unknown) => { confirmed.push(received) } }
  const received = refreshed[0]!.slice('access_token='.length)
  // Otherwise the new token is the same text.
  setTime(now() + 1)
  t.equal((await both.app.inject({ url: '/both', headers: { ...navigation, ...bearer(received), ...cookie({ refresh }) } })).statusCode, 200)
  await both.app.close()
  t.match(confirmed, [[{ n: 0 }]])
})

t.test('split cookies, computed settings and doProtection: false', async (t) => {
  warnings(t, 'W03')
  const split = await withPages(t, { cookieSplit: true })
  const cookies = cookiesOf(await login(split.app)).filter((field) => !field.startsWith('access_token'))
  const answer = await split.app.inject({ url: '/page', headers: { ...navigation, cookie: cookies.join('; ') } })
  t.match([answer.statusCode, cookiesOf(answer).map((field) => field.split('=', 1)[0])], [200, ['access_token', 'access_token_signature', 'refresh_token']])
  let isCookie: unknown = true
  const computed = await withPages(t, mistyped({ cookieSet: undefined, getCookieSet: () => { if (isCookie === 'fails') throw new Error('getter'); return isCookie } }))
  const { refresh } = await cookiesOfLogin(computed.app)
  const ask = async () => (await computed.app.inject({ url: '/form', headers: { ...navigation, ...cookie({ refresh }) } })).statusCode
  t.equal(await ask(), 200)
  isCookie = false
  t.equal(await ask(), 401)
  isCookie = 'fails'
  t.equal(await ask(), 500)
  const open = await withPages(t, { doProtection: false })
  const headers = { ...navigation, ...await expiredCookies(open.app) }
  open.store.taken()
  for (const url of ['/page', '/form', '/optional']) t.match(await open.app.inject({ url, headers }), { statusCode: 200, headers: { 'set-cookie': undefined } })
  t.same(open.store.taken(), [])
})

t.test('a request whose client has gone, or that was answered meanwhile, rotates nothing', async (t) => {
  let leave: (request: FastifyRequest) => Promise<void> = async () => {}
  const { app, store } = await withPages(t, {
    async retrieveUser (request) {
      await leave(request)
      return users[0]!
    }
  })
  app.get('/slow', { onRequest: app.tokenAuth.protect({ renew: true }), handlerTimeout: 1234 }, async () => 'ok')
  const port = await listen(app)
  const headers = { ...navigation, ...cookie({ refresh: (await cookiesOfLogin(app)).refresh }) }
  store.taken()
  const answered = new Promise<void>((resolve) => { app.server.on('request', (_request, response: ServerResponse) => { response.on('close', resolve) }) })
  const sent = send({ port, host: '127.0.0.1', path: '/page', headers })
  sent.on('error', () => {})
  leave = async ({ raw: { socket } }) => {
    sent.destroy()
    await once(socket, 'close')
  }
  sent.end()
  await answered
  for (let turns = 0; turns < 10; turns++) await turn()
  t.same(store.taken(), [])

  const expire = holdTimers(t, 1234)
  leave = async () => { expire() }
  const timedOut = await app.inject({ url: '/slow', headers })
  t.match([timedOut.statusCode, cookiesOf(timedOut).length, store.taken()], [503, 0, []])
})

// Promise: security/page-another-site
t.test('a polluted prototype renews nothing', async (t) => {
  const { app, store } = await withPages(t)
  const { access, refresh } = await cookiesOfLogin(app)
  const port = await listen(app)
  const names = { renew: true, 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', cookie: cookie({ refresh }).cookie }
  store.taken()
  Object.assign(Object.prototype, names)
  const guard = app.tokenAuth.protect()
  // A request without options, which would inherit headers.
  const answers = [`GET /plain HTTP/1.1\r\ncookie: ${cookie({ access: expiredOf(access), refresh }).cookie}`, `GET /form HTTP/1.1\r\nsec-fetch-site: cross-site\r\ncookie: ${cookie({ refresh }).cookie}`, 'GET /form HTTP/1.1']
    .map(async (head) => await exchange(port, `${head}\r\nhost: x\r\nconnection: close\r\n\r\n`))
  const statuses = (await Promise.all(answers)).map((answer) => answer.slice(9, 12))
  for (const name of Object.keys(names)) Reflect.deleteProperty(Object.prototype, name)
  t.equal(typeof guard, 'function')
  t.same(statuses, ['401', '401', '401'])
  Object.assign(Object.prototype, { headers: { cookie: `access_token=${access}` } })
  const answer = await exchange(port, 'GET /form HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
  Reflect.deleteProperty(Object.prototype, 'headers')
  t.equal(answer.slice(9, 12), '401')
  t.same(store.taken(), [])
})

t.test('handlers that read request.tokenAuth while a renewal runs see the refused request', async (t) => {
  const seen: unknown[] = []
  const { app } = await withPages(t, {
    retrieveUser: async (request) => {
      seen.push(request.tokenAuth.userId, request.tokenAuth.signedOut)
      return users[0]!
    },
    trusted: async () => { if (seen.length > 100) throw new InvalidToken(); return true }
  })
  t.equal((await app.inject({ url: '/page', headers: { ...navigation, ...await expiredCookies(app) } })).statusCode, 200)
  t.same(seen, [null, 'expired'])
})

// Promise: security/late-cookies-logged-out
t.test('a slow page that is answered after others of its browser have renewed does not overwrite their cookies', async (t) => {
  const setTime = setClock(t, now())
  const { app } = await withPages(t)
  let release = () => {}
  app.get('/slow', { onRequest: app.tokenAuth.protect({ renew: true }) }, async (_request, reply) => {
    await new Promise<void>((resolve) => { release = resolve })
    return reply.header('set-cookie', 'own=1').send('slow')
  })
  const events = sessionEvents(t)
  const { refresh } = await cookiesOfLogin(app)
  const slow = app.inject({ url: '/slow', headers: { ...navigation, ...cookie({ refresh }) } })
  while (events.at(-1)?.type !== 'refreshed') await turn()
  // Its window is over, so another page gets another generation, and the next page the one after it.
  setTime(now() + 100)
  let latest = jar(await app.inject({ url: '/page', headers: { ...navigation, ...cookie({ refresh }) } }))
  setTime(now() + 200)
  latest = jar(await app.inject({ url: '/page', headers: { ...navigation, cookie: latest.cookie.replace(/access_token=[^;]+; /, '') } }))
  release()
  t.same(cookiesOf(await slow), ['own=1'])
  setTime(now() + 300)
  t.equal((await app.inject({ url: '/page', headers: { ...navigation, ...latest } })).statusCode, 200)
  t.same(events.map(({ type }) => type), ['started', 'refreshed', 'refreshed', 'refreshed'])
  // The cookies of pages that are answered in order are all there.
  t.equal(cookiesOf(await app.inject({ url: '/page', headers: { ...navigation, ...await expiredCookies(app) } })).length, 2)
})

// Promise: sessions/thief-hammers-pages
t.test('a thief who sends a replaced refresh token all the time does not keep the owner from getting cookies, and is found', async (t) => {
  const setTime = setClock(t, now())
  const expire = holdTimers(t, 7000)
  const { app } = await withPages(t, { sessions: { poll: 7 } })
  let hammer: () => Promise<unknown> = async () => {}
  app.get('/slow', { onRequest: app.tokenAuth.protect({ renew: true }) }, async () => await hammer())
  const events = sessionEvents(t)
  const { refresh: stolen } = await cookiesOfLogin(app)
  const steal = async () => (await app.inject({ url: '/page', headers: { ...navigation, ...cookie({ refresh: stolen }) } })).statusCode
  t.equal(await steal(), 200)
  hammer = async () => {
    for (let times = 0; times < 3; times++) t.equal(await steal(), 200)
    return 'ok'
  }
  setTime(now() + 100)
  const answer = await app.inject({ url: '/slow', headers: { ...navigation, ...cookie({ refresh: stolen }) } })
  t.equal(cookiesOf(answer).length, 2)
  hammer = async () => 'ok'
  t.equal((await app.inject({ url: '/slow', headers: { ...navigation, ...jar(answer) } })).statusCode, 200)
  expire()
  for (let turns = 0; turns < 10; turns++) await turn()
  setTime(now() + 200)
  t.equal(await steal(), 302)
  t.same(events.at(-1)?.type, 'reused')
})

// Promise: security/refused-renews-nothing
t.test('a token that "trusted" or an extra verification refuses renews nothing; one without a custom claim that a deployment has added does', async (t) => {
  const refusing: Record<string, Partial<TokenAuthOptions>> = {
    'trusted, false': { trusted: (_request, payload) => payload.user_id !== 1 },
    'trusted, later': { trusted: async (_request, payload) => payload.user_id !== 1 },
    'trusted, an error of this library': { trusted: (_request, payload) => { if (payload.user_id === 1) throw new InvalidToken(); return true } },
    'an extra verification': { extraVerifications: [(payload) => payload.user_id !== 1] }
  }
  for (const [name, options] of Object.entries(refusing)) {
    const { app, store } = await withPages(t, { ...options, debug: true })
    const cookies = await cookiesOfLogin(app)
    store.taken()
    for (const url of ['/form', '/optional', '/auth/me?optional=true']) {
      const answer = await app.inject({ url, headers: { ...navigation, ...cookie(cookies) } })
      assert.deepEqual(cookiesOf(answer), [], `${name}, ${url}`)
      if (url === '/form') t.match(answer, { statusCode: 401 }, name)
      if (url === '/form') t.match(answer.json().detail, /not renewed: the application has refused the token/, name)
    }
    assert.deepEqual(store.taken(), [], name)
  }
  const claim = { key: 'tenant', setup: () => 'a', verify: (tenant: unknown) => tenant === 'a' }
  const { app } = await withPages(t, { customClaims: [claim] })
  const { access, refresh } = await cookiesOfLogin(app)
  const { tenant, ...before } = payloadOf(access)
  for (const old of [before, { ...before, tenant: 'b' }]) {
    const answer = await app.inject({ url: '/form', headers: { ...navigation, ...cookie({ access: forge(old), refresh }) } })
    t.match([answer.statusCode, cookiesOf(answer).length], [200, 2])
  }
})

// Promise: security/refresh-used-twice
t.test('an endpoint that takes a refresh token is never preceded by a renewal, whichever registration has the hook', async (t) => {
  for (const isOther of [false, true]) {
    const app = host(t)
    const options = together(pages, { secret, cookieStrict: false, authenticate: async () => users[0]!, sessions: { store: memorySessions(), grace: 0 } })
    if (!isOther) app.addHook('onRequest', protect({ optional: true, renew: true }))
    await app.register(tokenAuth, options)
    if (isOther) {
      app.addHook('onRequest', app.tokenAuth.protect({ optional: true, renew: true }))
      await app.register(tokenAuth, { ...options, urlPrefix: '/staff', ...mistyped<object>({ instanceName: 'staff' }) })
    }
    const prefix = isOther ? '/staff' : '/auth'
    const post = async (path: string, headers = {}, payload = {}) => await app.inject({ method: 'POST', url: `${prefix}${path}`, headers: { ...ownScript, ...headers }, payload })
    const valueOf = (fields: readonly string[]) => cookie({ refresh: fields.find((field) => field.startsWith('refresh_token='))!.slice('refresh_token='.length) })
    const events = sessionEvents(t)
    const refreshed = await post('/refresh', valueOf(cookiesOf(await post('', {}, { username: 'ada', password: 'lovelace' }))))
    t.match([refreshed.statusCode, cookiesOf(refreshed).length], [200, 2])
    t.equal((await post('/logout', valueOf(cookiesOf(refreshed)))).statusCode, 204)
    t.same(events.map(({ type }) => type), ['started', 'refreshed', 'ended'])
    // Any other route is renewed for.
    const other = await app.inject({ method: 'POST', url: isOther ? '/staff/sessions' : '/nowhere', headers: { ...ownScript, ...valueOf(cookiesOf(await post('', {}, { username: 'ada', password: 'lovelace' }))) } })
    t.equal(cookiesOf(other).length, 2)
  }
})

t.test('an endpoint behind a guard of the context that has renewed reads the new token', async (t) => {
  const app = host(t)
  app.addHook('onRequest', protect({ optional: true, renew: true }))
  await app.register(tokenAuth, together(pages, { secret, authenticate: async () => users[0]!, sessions: { store: memorySessions(), grace: 0 } }))
  for (const [url, expected] of Object.entries({ '/auth/verify': { valid: true }, '/auth/me': { me: shownUsers[0] }, '/auth/sessions': { sessions: [{ current: true }] } })) {
    const answer = await app.inject({ url, headers: { ...navigation, ...await expiredCookies(app) } })
    t.match([answer.statusCode, answer.json(), cookiesOf(answer).length], [200, expected, 2], url)
  }
})
