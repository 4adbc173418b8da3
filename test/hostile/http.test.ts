// @slow
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { connect as connect2 } from 'node:http2'
import { connect } from 'node:net'
import type { FastifyInstance, FastifyServerOptions, RouteOptions } from 'fastify'
import t, { type Test } from 'tap'
import { requestSerializer, type TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, caseOf, claims, exchange, forge, listen, login, mistyped, otherSecret, scannedLog, warnings } from '../helper.ts'

warnings(t, 'W05')

const token = forge(claims())
const foreign = forge(claims(), { key: otherSecret })

/** Guarded routes on a socket; `reached` says who got in. */
async function serve (t: Test, options: Partial<TokenAuthOptions> = {}, server: FastifyServerOptions = {}, prepare: (app: FastifyInstance) => void = () => {}) {
  const app = await build(t, options, server)
  const reached: unknown[] = []
  const parsed: number[] = []
  app.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, async (_request: unknown, body: Buffer) => { parsed.push(body.length) })
  const handler: RouteOptions['handler'] = async (request) => { reached.push(request.tokenAuth.userId); return { id: request.tokenAuth.userId } }
  app.route({ method: ['GET', 'POST'], url: '/early', bodyLimit: 2 ** 30, onRequest: app.tokenAuth.protect(), handler })
  app.route({ method: ['GET', 'POST'], url: '/late', preHandler: app.tokenAuth.protect(), handler })
  prepare(app)
  return { app, reached, parsed, port: await listen(app) }
}

const request = (url: string, headers: readonly string[], { method = 'GET', last = true, body = '' } = {}) =>
  [`${method} ${url} HTTP/1.1`, 'Host: host', ...headers, ...(last ? ['Connection: close'] : []), '', body].join('\r\n')

const authorization = (value: string) => `Authorization: Bearer ${value}`
const statuses = (answer: string) => [...answer.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]))

// Promise: security/tokens-several-sources
// Promise: specification/invalidauthorizationheader-2
// Promise: specification/token-sent-twice
t.test('a token that is sent twice is refused on a socket, in whatever order, case and place', async (t) => {
  const { port, reached } = await serve(t, { cookieSet: true, cookieStrict: false, queryStringSet: true, queryStringStrict: false })
  const cookie = (value: string) => `Cookie: access_token=${value}`
  const doubles: [what: string, url: string, headers: string[]][] = [
    ['two headers, good and bad', '/early', [authorization(token), authorization(foreign)]],
    ['two headers, bad and good', '/early', [authorization(foreign), authorization(token)]],
    ['two headers, the same', '/early', [authorization(token), authorization(token)]],
    ['two headers of other case', '/early', [authorization(token), `AUTHORIZATION: Bearer ${token}`]],
    ['two headers, one empty', '/early', [authorization(token), 'Authorization:']],
    ['two headers far apart', '/early', [authorization(token), ...Array.from({ length: 50 }, (_, index) => `X-${index}: x`), authorization(foreign)]],
    ['two headers, joined by hand', '/early', [authorization(`${token}, Bearer ${token}`)]],
    ['two cookies in one header', '/early', [`${cookie(foreign)}; access_token=${token}`]],
    ['two cookies in two headers', '/early', [cookie(token), cookie(token)]],
    ['two query parameters', `/early?access_token=${token}&access_token=${foreign}`, []],
    ['two query parameters, one empty', `/early?access_token=&access_token=${token}`, []],
    ['two query parameters, one in disguise', `/early?access_token=${token}&%61ccess_token=${token}`, []],
    ['a bad cookie and a good header', '/early', [cookie(foreign), authorization(token)]],
    ['a bad query parameter and a good header', `/early?access_token=${foreign}`, [authorization(token)]],
    ['a bad cookie and a good query parameter', `/early?access_token=${token}`, [cookie(foreign)]]
  ]
  for (const [what, url, headers] of doubles) assert.deepEqual(statuses(await exchange(port, request(url, headers))), [401], what)
  t.same(reached, [])
  t.same(statuses(await exchange(port, request('/early', [authorization(token)]))), [200], 'control')
})

// Promise: security/malformed-requests-request
t.test('what is no well-formed request never reaches a guard, let alone a handler', async (t) => {
  const { port, reached } = await serve(t)
  const good = authorization(token)
  const malformed: [what: string, bytes: string][] = [
    ['a space before the colon', request('/early', [`Authorization : Bearer ${token}`])],
    ['a folded header', request('/early', ['Authorization: Bearer', ` ${token}`])],
    ['a NUL in a header', request('/early', [`Authorization: Bearer ${token}\0`])],
    ['a bare CR in a header', request('/early', [`Authorization: Bearer\r ${token}`])],
    ['two lengths', request('/early', [good, 'Content-Length: 0', 'Content-Length: 5'], { method: 'POST' })],
    ['a length and chunks', request('/early', [good, 'Content-Length: 5', 'Transfer-Encoding: chunked'], { method: 'POST', body: '0\r\n\r\n' })],
    ['an unknown method', request('/early', [good], { method: 'GUESS' })],
    ['a method in lower case', request('/early', [good], { method: 'get' })],
    ['a line end in the target', request('/early\n', [good])]
  ]
  for (const [what, bytes] of malformed) assert.match(await exchange(port, bytes), /^HTTP\/1\.1 40\d/, what)
  t.same(reached, [])
})

// Promise: security/malformed-requests-request
t.test('pipelined requests of several users are answered in order, each as itself', async (t) => {
  const { port, reached } = await serve(t)
  const ids = Array.from({ length: 20 }, (_, index) => index % 3 === 0 ? undefined : `user ${index}`)
  const bytes = ids.map((id, index) => request('/early', [id === undefined ? 'X-No: token' : authorization(forge(claims({ user_id: id })))], { last: index === ids.length - 1 }))
  const answer = await exchange(port, bytes.join(''))
  t.same(statuses(answer), ids.map((id) => id === undefined ? 401 : 200))
  t.same([...answer.matchAll(/\{"id":"(user \d+)"\}/g)].map((match) => match[1]), ids.filter((id) => id !== undefined))
  t.same(reached, ids.filter((id) => id !== undefined))
})

// Promise: security/malformed-requests-request
t.test('on a connection that is kept alive a refusal leaves nothing behind, and neither does an acceptance', async (t) => {
  const { port, reached } = await serve(t)
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  const rounds: [headers: string[], status: number][] = [
    [[], 401], [[authorization(token)], 200], [[], 401], [[authorization(foreign)], 401], [[authorization(token)], 200], [['Authorization: Basic eDp5'], 401], [[], 401]
  ]
  for (const [headers, status] of rounds) {
    socket.write(request('/late', headers, { last: false }))
    const [answer]: unknown[] = await once(socket, 'data')
    assert.deepEqual(statuses(String(answer)), [status], caseOf(headers))
  }
  t.same(reached, [1, 1])
})

// Promise: security/malformed-requests-request
t.test('the body of a refused upload is never taken for the next request, nor parsed', async (t) => {
  const { port, reached, parsed } = await serve(t)
  const smuggled = request('/early', [authorization(token)])
  const upload = (headers: string[], body: string) => request('/early', ['Content-Type: application/octet-stream', ...headers], { method: 'POST', last: false, body })
  const bodies: Record<string, string> = {
    'with a length': upload([`Content-Length: ${smuggled.length}`], smuggled),
    'in chunks': upload(['Transfer-Encoding: chunked'], `${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`),
    'large, with a length': upload([`Content-Length: ${2 ** 20 + smuggled.length}`], 'x'.repeat(2 ** 20) + smuggled)
  }
  for (const [how, bytes] of Object.entries(bodies)) {
    const answer = await exchange(port, bytes + request('/late', []))
    assert.deepEqual(statuses(answer), [401, 401], how)
  }
  t.same([reached, parsed], [[], []])
  t.same(statuses(await exchange(port, bodies['in chunks'] + request('/late', [authorization(token)]))), [401, 200], 'the next one is answered as itself')
})

// Promise: security/large-uploads-without
t.test('a client that announces a body and sends none is refused at once, in chunks or with Expect too', async (t) => {
  const { port, parsed } = await serve(t)
  for (const headers of [['Content-Length: 1000000'], ['Transfer-Encoding: chunked'], ['Content-Length: 1000000', 'Expect: 100-continue']]) {
    const socket = connect(port, '127.0.0.1')
    socket.write(request('/early', ['Content-Type: application/octet-stream', ...headers], { method: 'POST' }))
    let answer = ''
    while (!/HTTP\/1\.1 401/.test(answer)) {
      const [chunk]: unknown[] = await once(socket, 'data')
      answer += String(chunk)
    }
    socket.destroy()
    assert.match(answer, /www-authenticate: Bearer/i, caseOf(headers))
  }
  t.same(parsed, [])
})

// Promise: security/header-values-200
t.test('headers beyond the limit of Node.js are 431 and harm nobody', async (t) => {
  const { port, reached } = await serve(t)
  const long = 'a'.repeat(20_000)
  for (const headers of [[authorization(long)], [`Cookie: access_token=${long}`], [`X-Filler: ${long}`, authorization(token)]]) {
    assert.deepEqual(statuses(await exchange(port, request('/early', headers))), [431], caseOf(headers))
  }
  t.same(reached, [])
  t.same(statuses(await exchange(port, request('/early', [authorization(token)]))), [200])
})

// Promise: security/header-values-200
t.test('two hundred thousand spaces, commas, dots, semicolons or equals signs are refused', async (t) => {
  const { port, reached } = await serve(t, { cookieSet: true, cookieStrict: false, queryStringSet: true, queryStringStrict: false }, mistyped({ http: { maxHeaderSize: 2 ** 20 } }))
  const count = 200_000
  for (const character of [' ', ',', '.', ';', '=', '&', '%', 'a', '"', '\\', '\t', 'Bearer ']) {
    const many = character.repeat(count / character.length)
    for (const headers of [
      [`Authorization: ${many}x`], [`Authorization: Bearer ${many}x`], [`Authorization: Bearer ${token}${many}x`],
      [`Cookie: ${many}`], [`Cookie: access_token=${many}x`], [`Cookie: ${many}access_token=${foreign}`]
    ]) {
      const [status] = statuses(await exchange(port, request('/early', headers)))
      assert.equal(status, 401, JSON.stringify(character))
    }
    const query = ' \t"\\'.includes(character) || character === 'Bearer ' ? '' : many
    const [status] = statuses(await exchange(port, request(`/early?${query}&access_token=${foreign}`, [])))
    assert.equal(status, 401, `${JSON.stringify(character)} in the query string`)
  }
  t.same(reached, [])
})

// Promise: security/head-options-trace
t.test('an upgrade is no way around a guard', async (t) => {
  const { port, reached } = await serve(t)
  for (const protocol of ['websocket', 'h2c', 'TLS/1.0']) {
    const answer = await exchange(port, request('/early', [`Upgrade: ${protocol}`, 'Connection: Upgrade, close', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='], { last: false }))
    assert.deepEqual(statuses(answer), [401], protocol)
  }
  t.same(reached, [])
})

// Promise: security/cookie-cookie-mode
t.test('headers that proxies set change nothing: no method, path, host or user of theirs is believed', async (t) => {
  const { port, reached } = await serve(t)
  const headers = [
    'X-HTTP-Method-Override: OPTIONS', 'X-Original-URL: /open', 'X-Rewrite-URL: /open', 'X-Forwarded-User: admin', 'X-Forwarded-Host: localhost',
    'X-Forwarded-For: 127.0.0.1', 'Remote-User: admin', `Proxy-Authorization: Bearer ${token}`, `X-Access-Token: ${token}`, 'Trailer: Authorization'
  ]
  t.same(statuses(await exchange(port, request('/early', headers))), [401])
  const body = `Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\nConnection: close\r\n\r\n1\r\nx\r\n0\r\nAuthorization: Bearer ${token}\r\n\r\n`
  t.same(statuses(await exchange(port, `POST /late HTTP/1.1\r\nHost: host\r\n${body}`)), [401], 'a token in a trailer')
  t.same(reached, [])
})

interface Service { createService: (options?: object) => Promise<FastifyInstance> }

/** What strangers may see of the example: everything else has a guard. */
const isPublic = (method: string, url: string) =>
  ['POST /auth', 'POST /auth/', 'GET /auth/verify', 'GET /auth/verify/', 'GET /hello', 'POST /auth/logout', 'POST /auth/logout/', 'POST /login'].includes(`${method.replace('HEAD', 'GET')} ${url}`) ||
  url.startsWith('/docs') || ['/*', '/', '/client.js', '/curl', '/login.html'].includes(url)

// Promise: security/head-options-trace
t.test('without a token no protected handler of the example runs: every route, every method, every spelling', async (t) => {
  const { createService }: Service = await import(new URL('../../examples/web/server.js', import.meta.url).href)
  const routes: { method: string, url: string }[] = []
  const ran: string[] = []
  const watch = (message: unknown) => {
    const { fastify } = message as { fastify: FastifyInstance }
    fastify.addHook('onRoute', (route) => {
      const { handler, url } = route
      const methods = [route.method].flat()
      for (const method of methods) routes.push({ method, url })
      // `requireGuards` would not recognize what injectUser() made.
      if (methods.every((method) => isPublic(method, url))) return
      route.handler = function (request, reply) {
        ran.push(`${request.method} ${url}`)
        return Reflect.apply(handler, this, [request, reply])
      }
    })
  }
  subscribe('fastify.initialization', watch)
  t.teardown(() => { unsubscribe('fastify.initialization', watch) })
  const app = await createService({ secret: 'a secret of the example, long enough for every algorithm', fastify: scannedLog(t) })
  t.teardown(() => app.close())
  await app.ready()

  const guarded = routes.filter(({ method, url }) => !isPublic(method, url))
  const expected = ['GET /private', 'GET /reports', 'GET /auth/me', 'POST /auth/refresh', 'POST /devices.html', 'GET /reports.html', 'POST /token/expire']
  t.same(expected.filter((route) => !guarded.some(({ method, url }) => `${method} ${url}` === route)), [], 'the sweep sees the guarded routes')
  const access = String((await login(app)).cookies.find(({ name }) => name === '__Host-access_token')?.value)
  for (const { method, url } of guarded) {
    for (const spelling of [url, `${url}?access_token=${access}`, url.replace(/[a-z]/, (letter) => `%${letter.charCodeAt(0).toString(16)}`), `http://host${url}`, `/${url}`, `${url}/`, url.toUpperCase(), `${url}%00`, `${url};x`]) {
      for (const headers of [{}, { cookie: 'access_token=' }, bearer(foreign), { authorization: access }]) {
        ran.length = 0
        const response = await app.inject({ method: mistyped<'GET'>(method), url: spelling, headers, ...(method === 'POST' && { payload: {} }) })
        const protectedRan = ran.filter((route) => guarded.some((other) => `${other.method} ${other.url}` === route && !other.url.endsWith('/refresh') && !other.url.endsWith('/refresh/')))
        assert.deepEqual(protectedRan, [], `${method} ${spelling}`)
        assert.doesNotMatch(response.payload, /"me"|"user_id"|January|access_token":"/, caseOf(method, spelling, headers))
        assert.equal(response.headers['set-cookie'], undefined, caseOf(method, spelling, headers))
        assert.ok(response.statusCode < 500, `${method} ${spelling}: ${response.statusCode}`)
      }
    }
  }
  // Other methods than those declared lead nowhere.
  for (const url of new Set(guarded.map((route) => route.url))) {
    for (const method of app.supportedMethods) {
      ran.length = 0
      const response = await app.inject({ method: mistyped<'GET'>(method), url, ...(['POST', 'QUERY'].includes(method) && { payload: {} }) })
      assert.ok(response.statusCode >= 300 && response.statusCode < 500, `${method} ${url}: ${response.statusCode}`)
      assert.deepEqual(ran.filter((route) => route.includes('private') || route.includes('reports') || route.includes('/me')), [], caseOf(url, method))
    }
  }
  const control = await app.inject({ url: '/private', headers: bearer(access) })
  t.equal(control.statusCode, 200, 'control: with a token it is reached')
})

// Promise: security/tokens-logs
// Promise: specification/requestserializer-2
// Promise: specification/requestserializer-removes-tokens
t.test('in query mode no token is in a log of requests that are written with requestSerializer, however it is spelled', async (t) => {
  const lines: string[] = []
  const logger = { level: 'trace', stream: { write: (line: string) => { lines.push(line) } }, serializers: { req: requestSerializer() } }
  // The not-found handler of Fastify itself writes the URL into its message.
  const prepare = (app: FastifyInstance) => { app.setNotFoundHandler((_request, reply) => reply.code(404).send('not found')) }
  const { port } = await serve(t, { queryStringSet: true }, mistyped({ logger, routerOptions: { useSemicolonDelimiter: true } }), prepare)
  const queries = [
    `?access_token=${token}`, `?a=1&access_token=${token}&b=2`, `?%61ccess_token=${token}`, `?access%5Ftoken=${token}`, `?access_token=${token}&access_token=${token}`,
    `?x&access_token=${token}`, `?refresh_token=${token}`, `#?access_token=${token}`, `#access_token=${token}`, `?access_token=${token}#x`, `;access_token=${token}`, `?a;access_token=${token}`,
    `?a?access_token=${token}`, `;x?access_token=${token}`, `?access_token=a=${token}`, `?access_token=;${token}`, `?a=1;access_token=${token}`, `?access_token=x?y;z=${token}&b`
  ]
  let count = 0
  for (const path of ['/early', '/nowhere', 'http://host/early']) {
    for (const query of queries) {
      lines.length = 0
      const answer = await exchange(port, request(`${path}${query}`, []))
      assert.match(answer, /^HTTP\/1\.1 (?:200|400|401|404)/, query)
      count += lines.length
      t.notMatch(lines.join(''), token.slice(-30), `${path}${query}`)
      t.notMatch(lines.join(''), token.slice(40, 70))
    }
  } t.ok(count > 90)
})

// Promise: security/tokens-several-sources
t.test('over HTTP/2 the same rules hold: cookies in crumbs are one header, two tokens are refused', async (t) => {
  const app = await build(t, {}, mistyped({ http2: true }))
  const reached: string[] = []
  app.get('/header', { onRequest: app.tokenAuth.protect() }, async () => { reached.push('header'); return 'reached' })
  app.get('/cookie', { onRequest: app.tokenAuth.protect({ cookieSet: true }) }, async () => { reached.push('cookie'); return 'reached' })
  const session = connect2(`http://127.0.0.1:${await listen(app)}`)
  t.teardown(() => session.destroy())
  const ask = async (path: string, headers: Record<string, string | string[]>) => {
    const stream = session.request({ ':path': path, ...headers })
    stream.resume().end()
    const [answer] = await once(stream, 'response') as [Record<string, unknown>]
    return answer[':status']
  }
  const cookie = `access_token=${token}`
  t.equal(await ask('/header', bearer(token)), 200)
  t.equal(await ask('/header', {}), 401)
  t.equal(await ask('/header', bearer(foreign)), 401)
  t.equal(await ask('/header', { ':authority': 'admin', 'x-forwarded-user': 'admin' }), 401)
  t.equal(await ask('/cookie', { cookie: ['a=b', cookie] }), 200)
  t.equal(await ask('/cookie', { cookie: [cookie, cookie] }), 401)
  t.equal(await ask('/cookie', { cookie: [cookie, 'access_token=x'] }), 401)
  t.same(reached, ['header', 'cookie'])
})
