import fastifyAuth from '@fastify/auth'
import cors from '@fastify/cors'
import helmet from '@fastify/helmet'
import rateLimit from '@fastify/rate-limit'
import fastifyStatic from '@fastify/static'
import swagger from '@fastify/swagger'
import { Type, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import websocket from '@fastify/websocket'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { WebSocket, type ClientOptions } from 'ws'
import tokenAuth, { protect, type Guard } from '../../lib/index.ts'
import { authenticate, bearer, build, claims, forge, host, listen, login, otherSecret, refreshStore, secret } from '../helper.ts'

/** The plugin beside those of the Fastify organisation, each with the real package; @fastify/autoload is met in package.test.ts. */

const token = forge(claims())
const otherToken = forge(claims({ user_id: 2 }), { key: otherSecret })
const expired = forge(claims({ exp: 1 }))
const fixtures = (path: string) => fileURLToPath(new URL(`../fixtures/${path}`, import.meta.url))

t.test('@fastify/auth combines guards of two instances', async (t) => {
  const app = host(t)
  await app.register(fastifyAuth)
  // A context for each instance: a second name on one context would have to be declared for all tests.
  const guards: Guard[] = []
  const onRefusal = 'throw'
  await app.register(async (context) => {
    await context.register(tokenAuth, { secret, authMode: false })
    guards.push(context.tokenAuth.protect({ onRefusal }))
  })
  await app.register(async (context) => {
    await context.register(tokenAuth, { secret: otherSecret, authMode: false, authorizationHeader: 'x-other' })
    guards.push(protect({ on: context, onRefusal }))
  })
  let reached = 0
  const handler = async () => ({ reached: ++reached })
  app.get('/or', { preHandler: app.auth([...guards]) }, handler)
  app.get('/and', { preHandler: app.auth([...guards], { relation: 'and' }) }, handler)
  app.get('/all', { onRequest: app.auth([...guards], { relation: 'and', run: 'all' }) }, handler)

  const own = bearer(token)
  const other = { 'x-other': `Bearer ${otherToken}` }
  const cases = [
    { title: 'both', headers: { ...own, ...other }, or: 200, and: 200 },
    { title: 'the first', headers: own, or: 200, and: 401 },
    { title: 'the second', headers: other, or: 200, and: 401 },
    { title: 'none', headers: {}, or: 401, and: 401 },
    { title: 'an expired and a good one', headers: { ...bearer(expired), ...other }, or: 200, and: 401 },
    { title: 'each the other\'s', headers: { ...bearer(otherToken), 'x-other': `Bearer ${token}` }, or: 401, and: 401 }
  ]
  for (const { title, headers, or, and } of cases) {
    for (const [url, status] of [['/or', or], ['/and', and], ['/all', and]] as const) {
      const before = reached
      const response = await app.inject({ url, headers })
      t.equal(response.statusCode, status, `${url} with ${title}`)
      t.equal(reached - before, status === 200 ? 1 : 0, `the handler of ${url} with ${title}`)
      if (status === 401) t.match(response.headers['www-authenticate'], /^Bearer realm=/, 'the challenge survives')
    }
  }
})

t.test('@fastify/cors answers a preflight in front of guards and endpoints', async (t) => {
  const app = host(t)
  const origin = 'https://app.example'
  await app.register(cors, { origin, credentials: true })
  await app.register(tokenAuth, { secret, authenticate })
  app.get('/private', { onRequest: app.tokenAuth.protect() }, async () => 'private')
  for (const [url, method] of [['/private', 'GET'], ['/auth', 'POST'], ['/auth/verify', 'GET'], ['/auth/me', 'GET']] as const) {
    const response = await app.inject({
      method: 'OPTIONS', url, headers: { origin, 'access-control-request-method': method, 'access-control-request-headers': 'authorization' }
    })
    t.equal(response.statusCode, 204, `${url} without a token`)
    t.equal(response.headers['access-control-allow-origin'], origin)
    t.equal(response.headers['access-control-allow-headers'], 'authorization')
  }
  const refused = await app.inject({ url: '/private', headers: { origin } })
  t.equal(refused.statusCode, 401)
  t.equal(refused.headers['access-control-allow-origin'], origin, 'a script of that origin may read the refusal')
  t.equal((await login(app)).statusCode, 200)
})

t.test('@fastify/helmet keeps its headers on answers and refusals, and the plugin its own', async (t) => {
  const app = host(t)
  await app.register(helmet)
  await app.register(tokenAuth, { secret, authenticate })
  app.get('/private', { onRequest: app.tokenAuth.protect() }, async () => 'private')
  for (const [response, status] of [
    [await app.inject({ url: '/private', headers: bearer(token) }), 200], [await app.inject('/private'), 401], [await login(app), 200]
  ] as const) {
    t.equal(response.statusCode, status)
    t.equal(response.headers['x-content-type-options'], 'nosniff')
    t.type(response.headers['content-security-policy'], 'string')
  }
  t.equal((await login(app)).headers['cache-control'], 'no-store')
})

// Promise: specification/events-webhooks-revocation
t.test('@fastify/rate-limit limits the endpoint that issues tokens', async (t) => {
  const limited = async (t: Test, limit: (app: ReturnType<typeof host>) => Promise<void>) => {
    const app = host(t)
    await limit(app)
    await app.register(tokenAuth, { secret, authenticate })
    // A limit is added after the onRequest hooks of a route: so that it counts refusals too, the guard comes later.
    app.get('/private', { preHandler: app.tokenAuth.protect() }, async () => 'private')
    const statuses: number[] = []
    for (let round = 0; round < 4; round++) statuses.push((await login(app, { password: 'guess' })).statusCode)
    t.strictSame(statuses, [401, 401, 429, 429], 'the limit is 2')
    t.equal((await login(app)).statusCode, 429, 'the right password comes too late')
    t.equal((await login(app, { url: '/auth/' })).statusCode, 429, 'the other spelling of the path is the same endpoint')
    return app
  }

  await t.test('as every other route, where the limit is global', async (t) => {
    const app = await limited(t, async (app) => { await app.register(rateLimit, { max: 2 }) })
    t.equal((await app.inject('/private')).statusCode, 429)
  })

  await t.test('alone, where an onRoute hook that is added before the plugin gives it a limit', async (t) => {
    const app = await limited(t, async (app) => {
      await app.register(rateLimit, { global: false })
      // One limiter for both spellings of the path: `config.rateLimit` would count each on its own.
      const limit = app.rateLimit({ max: 2 })
      app.addHook('onRoute', (route) => {
        if (route.method === 'POST' && /^\/auth\/?$/.test(route.url)) route.onRequest = [route.onRequest ?? [], limit].flat()
      })
    })
    for (let round = 0; round < 5; round++) t.equal((await app.inject({ url: '/auth/verify', headers: bearer(token) })).statusCode, 200)
    t.equal((await app.inject({ url: '/private', headers: bearer(token) })).statusCode, 200)
  })

  await t.test('alone, where strict slashes leave one path and an onRoute hook gives it a `config.rateLimit`', async (t) => {
    const app = host(t)
    app.addHook('onRoute', (route) => {
      if (route.method === 'POST' && route.url === '/auth') route.config = { ...route.config, rateLimit: { max: 1 } }
    })
    await app.register(rateLimit, { global: false })
    await app.register(tokenAuth, { secret, authenticate, strictSlashes: true })
    t.equal((await login(app, { password: 'guess' })).statusCode, 401)
    const limited = await login(app)
    t.equal(limited.statusCode, 429)
    t.equal(limited.headers['cache-control'], 'no-store')
    t.equal((await login(app, { url: '/auth/' })).statusCode, 404)
  })
})

t.test('@fastify/websocket: an upgrade passes the guard of its route or does not happen', async (t) => {
  const app = host(t)
  await app.register(websocket)
  await app.register(tokenAuth, { secret, authMode: false })
  let opened = 0
  const routes = {
    '/header': app.tokenAuth.protect(),
    '/cookie': app.tokenAuth.protect({ cookieSet: true }),
    '/query': app.tokenAuth.protect({ queryStringSet: true }),
    '/scope': app.tokenAuth.scoped('chat')
  }
  for (const [url, guard] of Object.entries(routes)) {
    app.get(url, { websocket: true, onRequest: guard }, (socket, request) => {
      opened++
      socket.send(`hello ${request.tokenAuth.userId}`)
    })
  }
  const port = await listen(app)

  /** What the server says first; for a refused upgrade, the status. */
  async function connect (path: string, options: ClientOptions = {}): Promise<string | number> {
    const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, options)
    const refusal = new Promise<number>((resolve) => {
      socket.once('unexpected-response', (request, response) => {
        resolve(response.statusCode ?? 0)
        request.destroy()
      })
    })
    const greeting = once(socket, 'message').then(([data]) => String(data), () => 'closed')
    socket.on('error', () => {})
    try {
      return await Promise.race([refusal, greeting])
    } finally {
      socket.terminate()
    }
  }
  const cookie = (value: string) => ({ headers: { cookie: `access_token=${value}` } })
  const header = (value: string) => ({ headers: bearer(value) })

  t.equal(await connect('/header', header(token)), 'hello 1')
  t.equal(await connect('/cookie', cookie(token)), 'hello 1')
  t.equal(await connect(`/query?access_token=${token}`), 'hello 1')
  t.equal(await connect('/scope', header(forge(claims({ scopes: ['chat'] })))), 'hello 1')
  t.equal(opened, 4)

  t.equal(await connect('/header'), 401)
  t.equal(await connect('/header', header(expired)), 401)
  t.equal(await connect('/header', cookie(token)), 401, 'the cookie is no header')
  t.equal(await connect('/cookie', header(token)), 401, 'the header is no cookie')
  t.equal(await connect('/cookie', cookie(otherToken)), 401)
  t.equal(await connect('/query', header(token)), 401)
  t.equal(await connect(`/query?access_token=${token}&access_token=${token}`), 401)
  t.equal(await connect('/scope', header(token)), 403)
  t.equal(opened, 4, 'no refused upgrade reached a handler')
})

t.test('@fastify/swagger documents the endpoints and leaves guarded routes as they are described', async (t) => {
  const app = host(t)
  await app.register(swagger, { openapi: { info: { title: 'test', version: '1' } } })
  const { refreshTokenEnabled, storeRefreshToken, retrieveRefreshToken } = refreshStore()
  await app.register(tokenAuth, { secret, authenticate, urlPrefix: '/login', refreshTokenEnabled, storeRefreshToken, retrieveRefreshToken })
  app.get('/private', { onRequest: app.tokenAuth.protect(), schema: { summary: 'A private route' } }, async () => 'private')
  await app.ready()
  const { openapi, paths }: { openapi: string, paths: Record<string, Record<string, { summary?: string, responses?: object }>> } =
    JSON.parse(JSON.stringify(app.swagger()))
  t.match(openapi, /^3\./)
  t.strictSame(
    Object.entries(paths).map(([path, methods]) => [path, ...Object.keys(methods)]).sort(),
    [['/login', 'post'], ['/login/me', 'get'], ['/login/refresh', 'post'], ['/login/verify', 'get'], ['/private', 'get']],
    'each operation once'
  )
  t.strictSame(Object.keys(paths['/login']?.post?.responses ?? {}), ['200', '400', '401'])
  t.strictSame(Object.keys(paths['/login/verify']?.get?.responses ?? {}), ['200', '400'])
  t.equal(paths['/private']?.get?.summary, 'A private route')
})

t.test('@fastify/static: who is not authenticated is sent from a private page to where the developer said', async (t) => {
  const app = host(t)
  await app.register(tokenAuth, { secret, authMode: false, loginRedirectUrl: '/pages/index.html' })
  await app.register(fastifyStatic, { root: fixtures('pages'), prefix: '/pages/' })
  for (const [prefix, guard] of Object.entries({
    '/private/': app.tokenAuth.protect({ redirectOnFail: true }),
    '/elsewhere/': app.tokenAuth.protect({ redirectOnFail: true, redirectUrl: 'https://login.example/start?from=app' }),
    '/scoped/': app.tokenAuth.scoped('pages', { redirectOnFail: true }),
    '/plain/': app.tokenAuth.protect()
  })) {
    await app.register(async (context) => {
      // Every file of this context, the ones that it does not have included.
      context.addHook('onRequest', guard)
      await context.register(fastifyStatic, { root: fixtures('pages'), prefix, decorateReply: false })
    })
  }
  const get = async (url: string, headers: Record<string, string> = {}) => {
    const { statusCode, headers: { location }, body } = await app.inject({ url, headers })
    return { statusCode, location, isPrivate: body.includes('Private') }
  }

  t.strictSame(await get('/private/private.html', bearer(token)), { statusCode: 200, location: undefined, isPrivate: true })
  t.strictSame(await get('/pages/index.html'), { statusCode: 200, location: undefined, isPrivate: false })
  t.strictSame(await get('/plain/private.html'), { statusCode: 401, location: undefined, isPrivate: false })
  t.strictSame(await get('/scoped/private.html', bearer(token)), { statusCode: 403, location: undefined, isPrivate: false })
  const login = { statusCode: 302, location: '/pages/index.html', isPrivate: false }
  t.strictSame(await get('/scoped/private.html'), login)
  const elsewhere = { ...login, location: 'https://login.example/start?from=app' }
  t.strictSame(await get('/elsewhere/private.html', bearer(expired)), elsewhere)

  // Whatever the request says, it does not say where to go.
  const attempts = [
    '/private/private.html', '/private//evil.example', '/private/..%2f..%2f/evil.example', '/private/%5cevil.example',
    '/private/private.html?redirectUrl=//evil.example&next=https://evil.example', '/private/https://evil.example'
  ]
  const hostile = { host: 'evil.example', 'x-forwarded-host': 'evil.example', referer: 'https://evil.example/', 'x-original-url': '//evil.example' }
  for (const url of attempts) {
    for (const headers of [{}, hostile, { ...hostile, ...bearer(expired) }]) t.strictSame(await get(url, headers), login, url)
  }
  for (const redirectUrl of ['//evil.example', '/\\evil.example', 'javascript:alert(1)', '/\t/evil.example', 'evil.example', '']) {
    const refusal = { name: 'InvalidConfiguration' }
    t.throws(() => app.tokenAuth.protect({ redirectOnFail: true, redirectUrl }), refusal, JSON.stringify(redirectUrl))
    t.throws(() => app.tokenAuth.protect({ redirectOnFail: true, loginRedirectUrl: redirectUrl }), refusal)
    await t.rejects(build(t, { loginRedirectUrl: redirectUrl }), refusal)
  }
})

t.test('@fastify/type-provider-typebox: routes with schemas are guarded before and after their body is checked', async (t) => {
  const app = (await build(t)).withTypeProvider<TypeBoxTypeProvider>()
  const schema = { body: Type.Object({ title: Type.String() }), params: Type.Object({ id: Type.Integer() }) }
  app.post('/early/:id', { schema, onRequest: app.tokenAuth.protect() }, async ({ body, params }) => ({ title: body.title.length, id: params.id + 1 }))
  app.post('/late/:id', { schema, preHandler: app.tokenAuth.protect() }, async ({ body, params }) => ({ title: body.title.length, id: params.id + 1 }))
  app.post('/user/:id', { schema }, app.tokenAuth.injectUser(async (_request, _reply, user) => ({ id: user?.user_id ?? null })))

  const post = async (url: string, payload: object, headers: Record<string, string> = {}) => {
    const response = await app.inject({ method: 'POST', url, payload, headers })
    return [response.statusCode, response.json()]
  }
  const good = { title: 'four' }
  t.strictSame(await post('/early/1', good, bearer(token)), [200, { title: 4, id: 2 }])
  t.strictSame(await post('/late/1', good, bearer(token)), [200, { title: 4, id: 2 }])
  t.strictSame(await post('/user/1', good, bearer(token)), [200, { id: 1 }])
  t.strictSame(await post('/user/1', good), [200, { id: null }])
  t.equal((await post('/early/one', {}))[0], 401, 'the guard comes before the schema')
  t.equal((await post('/late/one', {}))[0], 400, 'the schema comes before the guard')
  t.equal((await post('/late/1', good))[0], 401)
  t.equal((await post('/early/1', {}, bearer(token)))[0], 400)
})
