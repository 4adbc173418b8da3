import assert from 'node:assert/strict'
import type { FastifyInstance, FastifyRequest, FastifyServerOptions } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { View, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, bearer, build, caseOf, claims, exchange, forge, host, listen, login, mistyped, refreshStore, secret, together, warnings } from '../helper.ts'

const headers = bearer(forge(claims()))
const options = { secret, authenticate, refreshTokenEnabled: true, storeRefreshToken: () => {}, retrieveRefreshToken: () => 'stored' }

/** The endpoints by what they answer to a good request: a path that is none of them answers 404. */
const endpoints = {
  authenticate: { method: 'POST', payload: { username: 'ada', password: 'lovelace' } },
  verify: { method: 'GET', headers },
  me: { method: 'GET', headers },
  refresh: { method: 'POST', headers, payload: { refresh_token: 'stored' } }
} as const
type Name = keyof typeof endpoints
type Paths = Record<Name, readonly [answers: string[], silent: string[]]>

async function checkPaths (app: FastifyInstance, paths: Paths): Promise<void> {
  for (const name of Object.keys(endpoints) as Name[]) {
    const [answers, silent] = paths[name]
    for (const url of answers) {
      const response = await app.inject({ ...endpoints[name], url })
      assert.equal(response.statusCode, 200, `${name} at ${url}`)
      assert.equal(response.headers['cache-control'], 'no-store', caseOf(name, url))
    }
    for (const url of silent) assert.equal((await app.inject({ ...endpoints[name], url })).statusCode, 404, `no ${name} at ${url}`)
  }
}

const both = (prefix: string): Paths => ({
  authenticate: [[prefix, `${prefix}/`, `${prefix}?a=b`], [`${prefix}//`, `${prefix}x`, prefix.toUpperCase()]],
  verify: [[`${prefix}/verify`, `${prefix}/verify/`], [`${prefix}verify`, `${prefix}/verify/x`]],
  me: [[`${prefix}/me`, `${prefix}/me/`], [`${prefix}/me/1`]],
  refresh: [[`${prefix}/refresh`, `${prefix}/refresh/`], ['/refresh']]
})

const strict = (prefix: string): Paths => ({
  authenticate: [[prefix], [`${prefix}/`]],
  verify: [[`${prefix}/verify`], [`${prefix}/verify/`]],
  me: [[`${prefix}/me`], [`${prefix}/me/`]],
  refresh: [[`${prefix}/refresh`], [`${prefix}/refresh/`]]
})

// Promise: specification/1-endpoints-under
// Promise: specification/url-prefix
t.test('the endpoints answer under the prefix, with and without a trailing slash', async (t) => {
  await checkPaths(await build(t, options), both('/auth'))
  await checkPaths(await build(t, { ...options, urlPrefix: '/a/b' }), both('/a/b'))
})

// Promise: specification/strict-slashes
t.test('with strictSlashes only the configured paths answer', async (t) => {
  await checkPaths(await build(t, { ...options, strictSlashes: true }), strict('/auth'))
  const own = { pathToAuthenticate: '/in/', pathToVerify: '/check/', pathToRetrieveUser: '/who', pathToRefresh: '/renew/' }
  await checkPaths(await build(t, { ...options, strictSlashes: true, ...own }), {
    authenticate: [['/auth/in/'], ['/auth/in', '/auth', '/auth/']],
    verify: [['/auth/check/'], ['/auth/check', '/auth/verify']],
    me: [['/auth/who'], ['/auth/who/', '/auth/me']],
    refresh: [['/auth/renew/'], ['/auth/renew', '/auth/refresh']]
  })
})

// Promise: specification/path-authenticate
// Promise: specification/path-refresh
// Promise: specification/path-retrieve-user
// Promise: specification/path-verify
// Promise: specification/paths-prefix-can
// Promise: specification/version-paths
t.test('each path can be set, written with a trailing slash or without', async (t) => {
  const own = { urlPrefix: '/v1', pathToAuthenticate: '/in/', pathToVerify: '/a/check', pathToRetrieveUser: '/who/', pathToRefresh: '/' }
  await checkPaths(await build(t, { ...options, ...own }), {
    authenticate: [['/v1/in', '/v1/in/'], ['/in']],
    verify: [['/v1/a/check', '/v1/a/check/'], ['/v1/check']],
    me: [['/v1/who', '/v1/who/'], ['/v1/me']],
    refresh: [['/v1', '/v1/'], ['/v1/refresh']]
  })
})

// Promise: specification/url-prefix
t.test('an empty prefix puts them at the root', async (t) => {
  const paths: Paths = {
    authenticate: [['/'], ['/auth']],
    verify: [['/verify', '/verify/'], ['/auth/verify']],
    me: [['/me', '/me/'], []],
    refresh: [['/refresh', '/refresh/'], []]
  }
  await checkPaths(await build(t, { ...options, urlPrefix: '' }), paths)
  await checkPaths(await build(t, { ...options, urlPrefix: '', strictSlashes: true }), {
    authenticate: [['/'], []], verify: [['/verify'], ['/verify/']], me: [['/me'], ['/me/']], refresh: [['/refresh'], ['/refresh/']]
  })
})

async function nested (t: Test, more: Partial<TokenAuthOptions>, server: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = host(t, server)
  await app.register(async (admin) => {
    await admin.register(async (deep) => { await deep.register(tokenAuth, together(options, more)) }, { prefix: '/deep' })
  }, { prefix: '/admin' })
  return app
}

// Promise: specification/1-endpoints-under
t.test('in a nested context they stand below the prefix of that context', async (t) => {
  await checkPaths(await nested(t, {}), both('/admin/deep/auth'))
  await checkPaths(await nested(t, { strictSlashes: true }), strict('/admin/deep/auth'))
  await checkPaths(await nested(t, { urlPrefix: '' }), both('/admin/deep'))
  await checkPaths(await nested(t, { urlPrefix: '', strictSlashes: true }), strict('/admin/deep'))
})

t.test('an application that ignores trailing slashes starts, and both spellings answer', async (t) => {
  warnings(t, 'FSTDEP022')
  const servers: FastifyServerOptions[] = [{ routerOptions: { ignoreTrailingSlash: true } }, { ignoreTrailingSlash: true }]
  for (const server of servers) {
    await checkPaths(await build(t, options, server), { ...both('/auth'), authenticate: [['/auth', '/auth/'], ['/authx']] })
    await checkPaths(await nested(t, { urlPrefix: '' }, server), { ...both('/admin/deep'), authenticate: [['/admin/deep', '/admin/deep/'], ['/admin']] })
    await (await build(t, { ...options, strictSlashes: true }, server)).ready()
  }
})

t.test('an application that ignores case or doubled slashes decides so for these routes too', async (t) => {
  const app = await build(t, options, { routerOptions: { caseSensitive: false, ignoreDuplicateSlashes: true } })
  t.equal((await app.inject({ url: '//AUTH//Verify', headers })).statusCode, 200)
})

t.test("the option `prefix` of register() stands before the endpoints' own prefix", async (t) => {
  const app = host(t)
  await app.register(tokenAuth, { ...options, prefix: '/v2' })
  await checkPaths(app, both('/v2/auth'))
  t.equal((await login(app)).statusCode, 404)
})

t.test('two instances answer each under its own prefix', async (t) => {
  const app = await build(t, options)
  await app.register(tokenAuth, { ...options, instanceName: 'staff', urlPrefix: '/staff' })
  await checkPaths(app, both('/auth'))
  await checkPaths(app, both('/staff'))
})

t.test('every other method is 404, and the GET endpoints answer HEAD', async (t) => {
  const app = await build(t, options)
  const wrong = { '/auth': ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'TRACE'], '/auth/refresh': ['GET', 'HEAD'], '/auth/me': ['POST', 'OPTIONS'], '/auth/verify': ['POST', 'DELETE'] } as const
  for (const [url, methods] of Object.entries(wrong)) {
    for (const method of methods) assert.equal((await app.inject({ method, url, headers })).statusCode, 404, `${method} ${url}`)
  }
  for (const url of ['/auth/me', '/auth/verify', '/auth/me/', '/auth/verify/']) {
    const response = await app.inject({ method: 'HEAD', url, headers })
    assert.equal(response.statusCode, 200, url)
    assert.equal(response.headers['cache-control'], 'no-store', url)
    assert.equal(response.body, '', url)
  }
})

// Promise: specification/responses-endpoints-cached
// Promise: specification/size-body-given
t.test('no answer of an endpoint is cached, not even one that Fastify refuses', async (t) => {
  const app = await build(t, options, { bodyLimit: 100 })
  app.get('/', async () => 'own')
  const json = { 'content-type': 'application/json' }
  for (const url of ['/auth', '/auth/', '/auth/refresh']) {
    const cases: [status: number, sent: { headers?: Record<string, string>, payload: unknown }][] = [
      [400, { headers: json, payload: '{' }],
      [400, { headers: json, payload: '[]' }],
      [400, { headers: json, payload: '{"__proto__":{}}' }],
      [413, { headers: json, payload: `{"a":"${'x'.repeat(200)}"}` }],
      [415, { headers: { 'content-type': 'application/xml' }, payload: '<a/>' }],
      [415, { headers: { 'content-type': ';;' }, payload: '{}' }],
      [401, { payload: {} }]
    ]
    for (const [status, sent] of cases) {
      const headers = url === '/auth/refresh' && status !== 401 ? { ...sent.headers, ...bearer(forge(claims())) } : sent.headers
      const response = await app.inject(mistyped({ method: 'POST', url, ...sent, headers }))
      assert.equal(response.statusCode, status, `${url} ${JSON.stringify(sent)}`)
      assert.equal(response.headers['cache-control'], 'no-store', caseOf(url, status))
      assert.doesNotMatch(response.body, /stack|\.ts:|node_modules/, caseOf(url, status))
    }
  }
  t.equal((await app.inject('/')).headers['cache-control'], undefined, 'routes of the host are its own')
})

t.test('what a client sends on a socket is refused as by inject: two headers, the absolute form, encoded paths', async (t) => {
  const app = await build(t, options)
  const port = await listen(app)
  const token = forge(claims())
  const ask = async (line: string, ...lines: string[]) => await exchange(port, [`${line} HTTP/1.1`, 'Host: host', ...lines, 'Connection: close', '', ''].join('\r\n'))
  const authorization = `Authorization: Bearer ${token}`
  const twice = await ask('GET /auth/verify', authorization, authorization)
  t.match(twice, /^HTTP\/1\.1 400 /)
  t.match(twice, '{"valid":false,"reason":"Authorization header is invalid."}')
  t.match(await ask('GET http://host/auth/me', authorization), /^HTTP\/1\.1 200 /)
  t.match(await ask('GET http://host/auth/me'), /^HTTP\/1\.1 401 /)
  t.match(await ask('GET /%61uth/%6de'), /^HTTP\/1\.1 401 /)
})

/** Compilers of a host whose schemas are of another library: they fail on any other schema. */
interface Shape { parse: (value: unknown) => unknown }
function shapeOf (schema: unknown): Shape {
  if (typeof schema === 'object' && schema !== null && 'parse' in schema && typeof schema.parse === 'function') return schema as Shape
  throw new TypeError('not a schema of mine')
}
function speakAnother (app: FastifyInstance): void {
  app.setValidatorCompiler(({ schema }) => (value: unknown) => ({ value: shapeOf(schema).parse(value) }))
  app.setSerializerCompiler(({ schema }) => (value: unknown) => JSON.stringify(shapeOf(schema).parse(value)))
}

class Extra extends View {
  override async get () { return { extra: true } }
}

t.test("compilers of the host for schemas of another library change nothing about the endpoints, nor do the endpoints about the host's", async (t) => {
  for (const order of ['before', 'after']) {
    const app = host(t)
    if (order === 'before') speakAnother(app)
    await app.register(tokenAuth, { ...options, classViews: [['/extra', Extra]] })
    if (order === 'after') speakAnother(app)
    const parse = (value: unknown) => Array.isArray(value) ? value : Object.assign({ parsed: true }, value)
    app.post('/own', { schema: { body: { parse }, response: { 200: { parse } } } }, async ({ body }) => body)
    await checkPaths(app, both('/auth'))
    assert.deepEqual((await app.inject({ method: 'POST', url: '/own', payload: { a: 1 } })).json(), { parsed: true, a: 1 }, order)
    assert.deepEqual((await app.inject('/auth/extra')).json(), { extra: true }, order)
    assert.equal((await app.inject({ method: 'POST', url: '/auth', payload: [] })).statusCode, 400, order)
    assert.equal((await login(app, { password: 'x' })).body, '{"reasons":"User not found.","exception":"AuthenticationFailed"}', order)
    const failed = await app.inject({ url: '/auth/me', headers: bearer('rubbish') })
    assert.equal(failed.json().exception, 'InvalidToken', order)
  }
})

// Promise: security/3-5-2
// Promise: security/login-csrf-page
t.test('endpoints accept JSON bodies only, whatever parsers the host has: no form of another site logs anybody in', async (t) => {
  const { stored, ...handlers } = refreshStore()
  const app = host(t)
  const parsed: string[] = []
  const parse = (type: string | RegExp) => app.addContentTypeParser(type, { parseAs: 'string' }, (_request, body, done) => {
    parsed.push(String(body))
    done(null, Object.fromEntries(new URLSearchParams(String(body))))
  })
  parse('application/x-www-form-urlencoded')
  parse(/^multipart\//)
  parse('*')
  class Form extends View {
    override post ({ body }: FastifyRequest) { return { body } }
  }
  await app.register(tokenAuth, { secret, authenticate, ...handlers, cookieSet: true, cookieStrict: false, classViews: [['/form', Form]] })
  const form = 'username=ada&password=lovelace'
  const types = ['application/x-www-form-urlencoded', 'text/plain', 'multipart/form-data; boundary=x', 'application/xml', 'text/json-like', 'application/jsonp', 'application/x-json', 'text/json', 'text/json; charset=utf-8', 'multipart/json', 'image/x+json', 'application/+json', '']
  for (const type of types) {
    for (const url of ['/auth', '/auth/', '/auth/refresh']) {
      const sent = type === '' ? {} : { 'content-type': type }
      const answer = await app.inject({ method: 'POST', url, headers: { ...sent, ...headers }, payload: Buffer.from(form) })
      assert.equal(answer.statusCode, 415, `${url} ${type}`)
      assert.equal(answer.headers['set-cookie'], undefined, caseOf(type, url))
    }
  }
  t.same(parsed, [], 'no parser of the host is asked')
  for (const type of ['application/json', 'application/json; charset=utf-8', 'APPLICATION/JSON', 'application/vnd.api+json', 'application/problem+json;charset=utf-8']) {
    const answer = await app.inject({ method: 'POST', url: '/auth', headers: { 'content-type': type }, payload: JSON.stringify({ username: 'ada', password: 'lovelace' }) })
    assert.equal(answer.statusCode, 200, type)
  }
  const view = await app.inject({ method: 'POST', url: '/auth/form', headers: { 'content-type': types[0] }, payload: form })
  t.same(view.json(), { body: { username: 'ada', password: 'lovelace' } }, 'a class view reads what its host wants')
  t.same(parsed, [form])
})

// Promise: security/login-csrf-page
t.test('a body of more than 16 KiB, or of more than the host allows, is 413', async (t) => {
  const { stored, ...handlers } = refreshStore()
  const body = (length: number) => JSON.stringify({ username: 'ada', password: 'lovelace', x: 'x'.repeat(length) })
  for (const [limit, length, status] of [[undefined, 16_000, 200], [undefined, 16_384, 413], [1_048_576, 16_384, 413], [1_000, 1_000, 413]] as const) {
    const app = host(t, limit === undefined ? {} : { bodyLimit: limit })
    await app.register(tokenAuth, { secret, authenticate, ...handlers })
    const sent = { 'content-type': 'application/json' }
    assert.equal((await app.inject({ method: 'POST', url: '/auth', headers: sent, payload: body(length) })).statusCode, status, `${limit} ${length}`)
    const refreshed = await app.inject({ method: 'POST', url: '/auth/refresh', headers: { ...sent, ...headers }, payload: body(length) })
    assert.equal(refreshed.statusCode, status === 200 ? 400 : 413, caseOf(limit))
  }
})

// Promise: security/login-csrf-page
t.test('refresh refuses a request without an acceptable access token before it reads a body', async (t) => {
  const { stored, ...handlers } = refreshStore()
  const app = await build(t, handlers)
  let read = 0
  app.addHook('preParsing', async (_request, _reply, payload) => { read++; return payload })
  const ask = (sent: Record<string, string>) => app.inject({ method: 'POST', url: '/auth/refresh', headers: { 'content-type': 'application/json', ...sent }, payload: '{"refresh_token":"x"}' })
  t.equal((await ask({})).statusCode, 401)
  t.equal((await ask(bearer('x.y.z'))).statusCode, 401)
  t.equal((await ask(bearer(forge(claims({ nbf: 4_000_000_000 }))))).json().exception, 'TokenNotActive')
  t.equal(read, 0)
  t.equal((await ask(headers)).statusCode, 401)
})

t.test('an error handler that the host sets after the registration gets what the endpoints cannot answer', async (t) => {
  const app = await build(t, { authenticate: () => { throw new Error('the database is down') } })
  app.setErrorHandler(async (error: Error, _request, reply) => {
    t.equal(error.name, 'HandlerFailed')
    t.match(error.cause, { message: 'the database is down' })
    return reply.code(503).send({ mine: true })
  })
  const response = await login(app)
  t.equal(response.statusCode, 503)
  t.same(response.json(), { mine: true })
  const nested = await build(t, { onRefusal: 'throw' })
  nested.setErrorHandler(function (_error, _request, reply) { reply.code(418).send({ is: this === nested }) })
  t.same((await nested.inject({ url: '/auth/me' })).json(), { is: true })
})
