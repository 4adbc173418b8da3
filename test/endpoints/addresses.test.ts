import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { View, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, bearer, build, claims, exchange, forge, host, listen, login, refreshStore, secret, warnings } from '../helper.ts'

const headers = bearer(forge(claims()))
const options: TokenAuthOptions = { secret, authenticate, refreshTokenEnabled: true, storeRefreshToken: () => {}, retrieveRefreshToken: () => 'stored' }

/** The endpoints by what they answer to a good request: a path that is none of them answers 404. */
const endpoints = {
  authenticate: { method: 'POST', payload: { username: 'ada', password: 'lovelace' } },
  verify: { method: 'GET', headers },
  me: { method: 'GET', headers },
  refresh: { method: 'POST', headers, payload: { refresh_token: 'stored' } }
} as const
type Name = keyof typeof endpoints
type Paths = Record<Name, readonly [answers: string[], silent: string[]]>

async function checkPaths (t: Test, app: FastifyInstance, paths: Paths): Promise<void> {
  for (const name of Object.keys(endpoints) as Name[]) {
    const [answers, silent] = paths[name]
    for (const url of answers) {
      const response = await app.inject({ ...endpoints[name], url })
      t.equal(response.statusCode, 200, `${name} at ${url}`)
      t.equal(response.headers['cache-control'], 'no-store')
    }
    for (const url of silent) t.equal((await app.inject({ ...endpoints[name], url })).statusCode, 404, `no ${name} at ${url}`)
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

t.test('the endpoints answer under the prefix, with and without a trailing slash', async (t) => {
  await checkPaths(t, await build(t, options), both('/auth'))
  await checkPaths(t, await build(t, { ...options, urlPrefix: '/a/b' }), both('/a/b'))
})

t.test('with strictSlashes only the configured paths answer', async (t) => {
  await checkPaths(t, await build(t, { ...options, strictSlashes: true }), strict('/auth'))
  const own = { pathToAuthenticate: '/in/', pathToVerify: '/check/', pathToRetrieveUser: '/who', pathToRefresh: '/renew/' }
  await checkPaths(t, await build(t, { ...options, strictSlashes: true, ...own }), {
    authenticate: [['/auth/in/'], ['/auth/in', '/auth', '/auth/']],
    verify: [['/auth/check/'], ['/auth/check', '/auth/verify']],
    me: [['/auth/who'], ['/auth/who/', '/auth/me']],
    refresh: [['/auth/renew/'], ['/auth/renew', '/auth/refresh']]
  })
})

t.test('each path can be set, written with a trailing slash or without', async (t) => {
  const own = { urlPrefix: '/v1', pathToAuthenticate: '/in/', pathToVerify: '/a/check', pathToRetrieveUser: '/who/', pathToRefresh: '/' }
  await checkPaths(t, await build(t, { ...options, ...own }), {
    authenticate: [['/v1/in', '/v1/in/'], ['/in']],
    verify: [['/v1/a/check', '/v1/a/check/'], ['/v1/check']],
    me: [['/v1/who', '/v1/who/'], ['/v1/me']],
    refresh: [['/v1', '/v1/'], ['/v1/refresh']]
  })
})

t.test('an empty prefix puts them at the root', async (t) => {
  const paths: Paths = {
    authenticate: [['/'], ['/auth']],
    verify: [['/verify', '/verify/'], ['/auth/verify']],
    me: [['/me', '/me/'], []],
    refresh: [['/refresh', '/refresh/'], []]
  }
  await checkPaths(t, await build(t, { ...options, urlPrefix: '' }), paths)
  await checkPaths(t, await build(t, { ...options, urlPrefix: '', strictSlashes: true }), {
    authenticate: [['/'], []], verify: [['/verify'], ['/verify/']], me: [['/me'], ['/me/']], refresh: [['/refresh'], ['/refresh/']]
  })
})

async function nested (t: Test, more: TokenAuthOptions, server: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = host(t, server)
  await app.register(async (admin) => {
    await admin.register(async (deep) => { await deep.register(tokenAuth, { ...options, ...more }) }, { prefix: '/deep' })
  }, { prefix: '/admin' })
  return app
}

t.test('in a nested context they stand below the prefix of that context', async (t) => {
  await checkPaths(t, await nested(t, {}), both('/admin/deep/auth'))
  await checkPaths(t, await nested(t, { strictSlashes: true }), strict('/admin/deep/auth'))
  await checkPaths(t, await nested(t, { urlPrefix: '' }), both('/admin/deep'))
  await checkPaths(t, await nested(t, { urlPrefix: '', strictSlashes: true }), strict('/admin/deep'))
})

t.test('an application that ignores trailing slashes starts, and both spellings answer', async (t) => {
  warnings(t, 'FSTDEP022')
  const servers: FastifyServerOptions[] = [{ routerOptions: { ignoreTrailingSlash: true } }, { ignoreTrailingSlash: true }]
  for (const server of servers) {
    await checkPaths(t, await build(t, options, server), { ...both('/auth'), authenticate: [['/auth', '/auth/'], ['/authx']] })
    await checkPaths(t, await nested(t, { urlPrefix: '' }, server), { ...both('/admin/deep'), authenticate: [['/admin/deep', '/admin/deep/'], ['/admin']] })
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
  await checkPaths(t, app, both('/v2/auth'))
  t.equal((await login(app)).statusCode, 404)
})

t.test('two instances answer each under its own prefix', async (t) => {
  const app = await build(t, options)
  await app.register(tokenAuth, { ...options, instanceName: 'staff', urlPrefix: '/staff' })
  await checkPaths(t, app, both('/auth'))
  await checkPaths(t, app, both('/staff'))
})

t.test('every other method is 404, and the GET endpoints answer HEAD', async (t) => {
  const app = await build(t, options)
  const wrong = { '/auth': ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'TRACE'], '/auth/refresh': ['GET', 'HEAD'], '/auth/me': ['POST', 'OPTIONS'], '/auth/verify': ['POST', 'DELETE'] } as const
  for (const [url, methods] of Object.entries(wrong)) {
    for (const method of methods) t.equal((await app.inject({ method, url, headers })).statusCode, 404, `${method} ${url}`)
  }
  for (const url of ['/auth/me', '/auth/verify', '/auth/me/', '/auth/verify/']) {
    const response = await app.inject({ method: 'HEAD', url, headers })
    t.equal(response.statusCode, 200)
    t.equal(response.headers['cache-control'], 'no-store')
    t.equal(response.body, '')
  }
})

t.test('no answer of an endpoint is cached, not even one that Fastify refuses', async (t) => {
  const app = await build(t, options, { bodyLimit: 100 })
  app.get('/', async () => 'own')
  const json = { 'content-type': 'application/json' }
  for (const url of ['/auth', '/auth/', '/auth/refresh']) {
    const cases: [status: number, sent: object][] = [
      [400, { headers: json, payload: '{' }],
      [400, { headers: json, payload: '[]' }],
      [400, { headers: json, payload: '{"__proto__":{}}' }],
      [413, { headers: json, payload: `{"a":"${'x'.repeat(200)}"}` }],
      [415, { headers: { 'content-type': 'application/xml' }, payload: '<a/>' }],
      [415, { headers: { 'content-type': ';;' }, payload: '{}' }],
      [401, { payload: {} }]
    ]
    for (const [status, sent] of cases) {
      const response = await app.inject({ method: 'POST', url, ...sent })
      t.equal(response.statusCode, status, `${url} ${JSON.stringify(sent)}`)
      t.equal(response.headers['cache-control'], 'no-store')
      t.notMatch(response.body, /stack|\.ts:|node_modules/)
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
    await checkPaths(t, app, both('/auth'))
    t.same((await app.inject({ method: 'POST', url: '/own', payload: { a: 1 } })).json(), { parsed: true, a: 1 })
    t.same((await app.inject('/auth/extra')).json(), { extra: true })
    t.equal((await app.inject({ method: 'POST', url: '/auth', payload: [] })).statusCode, 400)
    t.equal((await login(app, { password: 'x' })).body, '{"reasons":"User not found.","exception":"AuthenticationFailed"}')
    const failed = await app.inject({ url: '/auth/me', headers: bearer('rubbish') })
    t.equal(failed.json().exception, 'InvalidToken')
  }
})

t.test('a refresh body is taken from the content types that the host parses', async (t) => {
  const { stored, ...handlers } = refreshStore()
  const app = host(t)
  app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, (_request, body, done) => {
    done(null, Object.fromEntries(new URLSearchParams(String(body))))
  })
  await app.register(tokenAuth, { secret, authenticate, ...handlers })
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const answer = await app.inject({ method: 'POST', url: '/auth', headers: form, payload: 'username=ada&password=lovelace' })
  t.equal(answer.statusCode, 200)
  const payload = `refresh_token=${String(stored.get(1))}`
  t.equal((await app.inject({ method: 'POST', url: '/auth/refresh', headers: { ...form, ...headers }, payload })).statusCode, 200)
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
