/** `requireGuards`: an application does not start with a route that has neither guard nor exemption. */
import fastifyAuth from '@fastify/auth'
import autoload from '@fastify/autoload'
import awsLambda from '@fastify/aws-lambda'
import cors from '@fastify/cors'
import fastifyStatic from '@fastify/static'
import fastifySwagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import websocket from '@fastify/websocket'
import Fastify, { type FastifyContextConfig, type FastifyInstance, type FastifyReply, type FastifyRequest, type onRequestHookHandler, type onResponseHookHandler, type RouteOptions, type RouteShorthandOptions } from 'fastify'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import tokenAuth, { InvalidConfiguration, protect, View } from '../../lib/index.ts'
import { authenticate, bearer, build, claims, forge, host, mistyped, otherSecret, refreshStore, secret } from '../helper.ts'

const handler = async () => 'reached'
const folder = (name: string) => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url))

/** The error with which an application does not start; undefined for one that does. */
async function startOf (app: FastifyInstance): Promise<InvalidConfiguration | undefined> {
  try {
    await app.ready()
    return undefined
  } catch (error) {
    if (error instanceof InvalidConfiguration) return error
    throw error
  }
}

/** The routes that keep an application from starting, as the message names them. */
async function undecidedIn (app: FastifyInstance): Promise<string[]> {
  const error = await startOf(app)
  if (error === undefined) return []
  if (error.finding !== 'TOKEN_AUTH_E20') throw error
  return [...error.message.matchAll(/^ {2}(.*)$/gm)].map(([, line = '']) => line)
}

const strict = async (t: Test, options: object = {}) => await build(t, mistyped({ authMode: false, requireGuards: true, ...options }))

// Promise: security/route-without-guard
// Promise: specification/added-10
t.test('a route with neither guard nor exemption keeps the application from starting, and every such route is named (E20)', async (t) => {
  const app = await strict(t)
  app.get('/guarded', { onRequest: app.tokenAuth.protect() }, handler)
  app.get('/forgotten', handler)
  app.options('/forgotten', handler)
  await app.register(async function orders (nested) {
    nested.route({ method: ['PUT', 'PATCH'], url: '/orders/:id', handler })
  }, { prefix: '/shop' })
  const error = await startOf(app)
  t.equal(error?.message, `"requireGuards" is true, and these routes have no guard (in parentheses: where they were added):
  GET,HEAD /forgotten (fastify)
  PUT /shop/orders/:id (orders)
  PATCH /shop/orders/:id (orders)
Give each of them a guard, or say why it needs none: "config: { tokenAuth: false }" if everybody may use it, "config: { tokenAuth: 'basic auth' }" if something else guards it. See node_modules/fastify-token-auth/docs/findings.md#token_auth_e20`)
  t.equal(error?.finding, 'TOKEN_AUTH_E20')
  t.match(app.tokenAuth.printRoutes(), '/forgotten', 'the table says it, too')
})

t.test('where a hook is not recognized, the message says that a tool may have wrapped a guard', async (t) => {
  const hint = / Some of them have hooks that the plugin does not recognize\. .* a tool has wrapped it/
  const declare: Record<string, (app: FastifyInstance) => void> = {
    'a hook of the route': (app) => { app.get('/', { preValidation: async () => {} }, handler) },
    'a hook of the context': (app) => {
      app.addHook('onRequest', async () => {})
      app.get('/', handler)
    }
  }
  for (const [what, add] of Object.entries(declare)) {
    const app = await strict(t)
    add(app)
    t.match((await startOf(app))?.message, hint, what)
  }
  const app = await strict(t)
  app.get('/', { onResponse: async () => {} }, handler)
  app.get('/guarded', { onRequest: [async () => {}, app.tokenAuth.protect()] }, handler)
  t.notMatch((await startOf(app))?.message, hint)
})

t.test('listen() and the first inject() fail as well', async (t) => {
  for (const start of [async (app: FastifyInstance) => await app.listen({ port: 0 }), async (app: FastifyInstance) => await app.inject('/')]) {
    const app = await strict(t)
    app.get('/', handler)
    await t.rejects(async () => { await start(app) }, { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E20' })
  }
})

// Promise: security/route-without-guard
t.test('an application that failed its check is closed: under a serverless adapter, every later event is refused as well (E20, E21, E22)', async (t) => {
  const settings = { secret, authMode: false as const }
  const open = (app: FastifyInstance) => { app.get('/', async () => 'secret') }
  const failing: Record<string, (app: FastifyInstance) => void> = {
    E20: (app) => {
      app.register(tokenAuth, { ...settings, requireGuards: true })
      app.register(async (routes) => { open(routes) })
    },
    E21: (app) => {
      open(app)
      app.register(tokenAuth, { ...settings, requireGuards: true })
    },
    'E22, of a route': (app) => {
      app.register(tokenAuth, settings)
      app.register(async (routes) => { routes.get('/', mistyped<RouteShorthandOptions>({ prehandler: protect() }), async () => 'secret') })
    },
    'E22, of a context': (app) => {
      app.register(tokenAuth, settings)
      app.register(async (routes) => {
        open(routes)
        routes.addHook('onResponse', mistyped<onResponseHookHandler>(protect()))
      })
    },
    'E22, a guard that was not called': (app) => {
      app.register(tokenAuth, settings)
      app.register(async (routes) => {
        open(routes)
        routes.get('/other', { onRequest: mistyped<onRequestHookHandler>(protect) }, handler)
      })
    },
    'a nested registration': (app) => {
      app.register(async (nested) => {
        await nested.register(tokenAuth, { ...settings, requireGuards: true })
        open(nested)
      })
    },
    'a wrong config.tokenAuth': (app) => {
      app.register(tokenAuth, settings)
      app.register(async (routes) => { routes.get('/', { config: mistyped<FastifyContextConfig>({ tokenAuth: true }) }, async () => 'secret') })
    }
  }
  // The adapter prints the errors.
  const { error } = console
  console.error = () => {}
  t.teardown(() => { console.error = error })
  // Not `host`, whose inject() has no callback.
  const create = () => {
    const app = Fastify()
    t.teardown(() => app.close())
    return app
  }
  for (const [what, add] of Object.entries(failing)) {
    const app = create()
    add(app)
    const lambda = awsLambda(app)
    const event = { httpMethod: 'GET', path: '/', headers: {}, queryStringParameters: null, body: null }
    for (const nth of ['first', 'second', 'third']) {
      const { statusCode, body } = await lambda(event, mistyped({}))
      t.ok(statusCode >= 500, `${what}: ${nth}`)
      t.notMatch(body, 'secret', `${what}: ${nth}`)
    }
  }
  const sound = create()
  await sound.register(tokenAuth, { ...settings, requireGuards: true })
  sound.get('/', { onRequest: sound.tokenAuth.protect() }, handler)
  const lambda = awsLambda(sound)
  for (const headers of [bearer(forge(claims())), {}, bearer(forge(claims()))]) {
    t.equal((await lambda({ httpMethod: 'GET', path: '/', headers, body: null }, mistyped({}))).statusCode, 'authorization' in headers ? 200 : 401)
  }
})

t.test('without requireGuards such a route is only listed', async (t) => {
  const app = await build(t, { authMode: false })
  app.get('/', handler)
  t.equal(await startOf(app), undefined)
  t.equal((await app.inject('/')).body, 'reached')
})

t.test('an application whose routes all have guards, or say why they need none, starts, with every endpoint of ours', async (t) => {
  class Ping extends View {
    override readonly guards = { get: false as const, put: this.instance.protect() }
    override get () { return 'pong' }
    override put () { return 'pong' }
    override options () {}
  }
  const { stored, ...store } = refreshStore()
  for (const options of [{ sessions: {} }, { ...store, cookieSet: true, tokensInBody: false }]) {
    const app = await build(t, mistyped({ requireGuards: true, classViews: [['/ping', Ping]], ...options }))
    app.get('/health', { config: { tokenAuth: false } }, handler)
    app.get('/metrics', { config: { tokenAuth: 'only reachable from inside' } }, handler)
    app.get('/hello', app.tokenAuth.injectUser(handler))
    t.same(await undecidedIn(app), [])
    t.equal((await app.inject('/health')).body, 'reached')
    t.equal((await app.inject('/auth/ping')).body, 'pong')
    t.equal((await app.inject({ method: 'PUT', url: '/auth/ping' })).statusCode, 401)
  }
})

t.test('the method of a class view that has no guard and does not say so is undecided', async (t) => {
  class Ping extends View { override post () { return 'pong' } }
  const app = await build(t, { requireGuards: true, classViews: [['/ping', Ping]] })
  t.same(await undecidedIn(app), ['POST /auth/ping (fastify-token-auth)'])
})

// Promise: security/guard-counted-although
t.test('config.tokenAuth is false or a text; anything else names the route, with requireGuards or without', async (t) => {
  const wrong: ReadonlyArray<readonly [value: unknown, given: string]> = [
    [true, 'true'], ['', 'a string without text'], [' \n', 'a string without text'], [null, 'null'], [0, 'a number'], [{}, 'an object'], [['a'], 'an array'], [protect(), undefined as never],
    [() => false, 'a function'], [Promise.resolve(false), 'a promise'], [Symbol('open'), 'a symbol']
  ]
  for (const [tokenAuth, given] of wrong) {
    for (const requireGuards of [true, false]) {
      const app = await build(t, { authMode: false, requireGuards })
      app.route({ method: ['GET', 'POST'], url: '/a', config: mistyped<FastifyContextConfig>({ tokenAuth }), handler })
      const error = await startOf(app)
      t.equal(error?.finding, undefined)
      t.equal(error?.message, `The route GET,POST /a has a wrong "config.tokenAuth". It must be false, for a route that everybody may use, or a text that says what guards it, such as "basic auth"; given: ${given ?? 'a function'}. A guard is a hook of the route: { onRequest: app.tokenAuth.protect() }. See node_modules/fastify-token-auth/docs/guards.md#require-guards`)
    }
  }
  const app = await strict(t)
  app.get('/', { config: { tokenAuth: undefined } }, handler)
  t.same(await undecidedIn(app), ['GET,HEAD / (fastify)'], 'undefined says nothing')
})

// Promise: security/guard-counted-although
t.test('config.tokenAuth: false never opens a route with a guard, and with requireGuards it is an error', async (t) => {
  const guards = (app: FastifyInstance) => ({
    '/own': { onRequest: app.tokenAuth.protect() },
    '/scoped': { preHandler: [async () => {}, app.tokenAuth.scoped('a')] },
    '/free': { preValidation: protect() },
    '/handler': { handler: app.tokenAuth.injectUser(handler) }
  })
  for (const url of ['/own', '/scoped', '/free', '/handler'] as const) {
    const app = await strict(t)
    app.route(mistyped<RouteOptions>({ method: 'GET', url, handler, ...guards(app)[url], config: { tokenAuth: false } }))
    const error = await startOf(app)
    t.equal(error?.message, `The route GET ${url} has a guard of "tokenAuth", and "config: { tokenAuth: false }", which says that everybody may use it. The guard applies. Remove one of them. A guard that is a hook of a context guards the endpoints of the plugin in that context too: add it in a context around your own routes. See node_modules/fastify-token-auth/docs/guards.md#require-guards`)
  }
  const app = await build(t, { authMode: false })
  app.get('/', { onRequest: app.tokenAuth.protect(), config: { tokenAuth: false } }, handler)
  t.equal(await startOf(app), undefined)
  t.equal((await app.inject('/')).statusCode, 401)
  t.equal(app.tokenAuth.routes()[0]?.access, 'protected')

  const noted = await strict(t)
  noted.get('/', { onRequest: noted.tokenAuth.protect(), config: { tokenAuth: 'and an API key' } }, handler)
  noted.get('/off', { onRequest: noted.tokenAuth.protect({ doProtection: false }), config: { tokenAuth: false } }, handler)
  t.equal(await startOf(noted), undefined, 'a text beside a guard, and false beside one that is switched off, are no contradiction')
})

// Promise: security/route-without-guard
t.test('routes that were added before the plugin keep it from being registered (E21)', async (t) => {
  const app = host(t)
  app.get('/early', handler)
  app.get('/early/too', handler)
  const error = await (async () => { await app.register(tokenAuth, { secret, authMode: false, requireGuards: true }) })().catch((error: unknown) => error)
  t.match(error, { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E21' })
  t.equal(Object(error).message, `"requireGuards" is true, and these routes were added before the plugin, so it does not know whether they have guards:
${app.printRoutes().trimEnd()}
Register the plugin before routes and plugins with routes, and await its registration. See node_modules/fastify-token-auth/docs/findings.md#token_auth_e21`)

  const preflight = host(t)
  preflight.options('*', handler)
  await preflight.register(tokenAuth, { secret, authMode: false, requireGuards: true })
  t.equal(await startOf(preflight), undefined, 'OPTIONS needs no decision')

  const hurried = host(t)
  hurried.register(tokenAuth, { secret, authMode: false, requireGuards: true })
  hurried.get('/', handler)
  await t.rejects(async () => await hurried.ready(), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E21' }, 'without await')

  const nested = host(t)
  await nested.register(async (other) => { other.get('/other', handler) })
  await t.rejects(async () => { await nested.register(tokenAuth, { secret, authMode: false, requireGuards: true }) }, { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E21' }, 'of a plugin that was registered before')
})

t.test('a second instance is no mistake: the routes of the first one are known', async (t) => {
  const app = await build(t, { requireGuards: true })
  app.get('/', { onRequest: app.tokenAuth.protect() }, handler)
  await app.register(tokenAuth, { instanceName: 'staff', urlPrefix: '/staff', secret: otherSecret, authenticate, requireGuards: true })
  t.equal(await startOf(app), undefined)

  const late = host(t)
  late.get('/early', handler)
  await late.register(tokenAuth, { secret: `${secret} 2`, authMode: false })
  await t.rejects(async () => { await late.register(tokenAuth, { instanceName: 'staff', secret: otherSecret, authMode: false, requireGuards: true }) }, { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E21' }, 'routes before the first one are not')
})

// Promise: security/route-without-guard
t.test('a nested registration asks for the routes of its context and those below, and nobody else', async (t) => {
  const app = await build(t, { authMode: false })
  app.get('/outside', handler)
  await app.register(async function beside (nested) { nested.get('/beside', handler) })
  await app.register(async function inside (nested) {
    nested.get('/early', handler)
    await nested.register(tokenAuth, { instanceName: 'staff', secret: otherSecret, authMode: false, requireGuards: true })
    nested.get('/late', handler)
    await nested.register(async function below (inner) { inner.get('/below', handler) })
  })
  t.same(await undecidedIn(app), ['GET,HEAD /early (inside)', 'GET,HEAD /late (inside)', 'GET,HEAD /below (below)'])

  const alone = host(t)
  alone.get('/outside', handler)
  await alone.register(async function inside (nested) {
    await nested.register(tokenAuth, { secret, authMode: false, requireGuards: true })
    nested.get('/late', handler)
  })
  t.same(await undecidedIn(alone), ['GET,HEAD /late (inside)'])
})

t.test('a hook of a context declares the routes of another plugin: @fastify/static, @fastify/swagger-ui, @fastify/autoload', async (t) => {
  for (const isDeclared of [true, false]) {
    const app = host(t)
    await app.register(fastifySwagger, { openapi: {} })
    await app.register(tokenAuth, { secret, authMode: false, requireGuards: true })
    await app.register(async (site) => {
      if (isDeclared) site.addHook('onRoute', (route) => { route.config = { ...route.config, tokenAuth: false } })
      await site.register(fastifyStatic, { root: folder('pages') })
      await site.register(swaggerUi, { routePrefix: '/docs' })
    })
    const found = await undecidedIn(app)
    t.equal(found.some((line) => line.includes(' /* ')), !isDeclared, 'of @fastify/static')
    t.equal(found.some((line) => line.includes(' /docs')), !isDeclared, 'of @fastify/swagger-ui')
    t.equal(found.length > 0, !isDeclared)
  }
  const app = await strict(t)
  await app.register(autoload, { dir: folder('routes') })
  const [line = '', ...others] = await undecidedIn(app)
  t.match(line, /^GET,HEAD \/forgotten \(orders\)$/)
  t.same(others, [])
})

t.test('WebSocket routes and preflight requests: the first are routes like others, the second need no decision', async (t) => {
  const app = await strict(t)
  await app.register(cors)
  await app.register(websocket)
  app.get('/guarded', { websocket: true, onRequest: app.tokenAuth.protect() }, () => {})
  app.get('/forgotten', { websocket: true }, () => {})
  t.same(await undecidedIn(app), ['GET,HEAD /forgotten (fastify)'])
  t.match(app.tokenAuth.routes().find(({ method }) => method === 'OPTIONS'), { url: '*', access: 'undecided' })
})

// Promise: security/guard-counted-although
t.test('guards that cannot be recognized are undecided: @fastify/auth, functions of the application, a guard without its instance', async (t) => {
  const app = host(t)
  await app.register(fastifyAuth)
  await app.register(tokenAuth, { secret, authMode: false, requireGuards: true })
  const guard = app.tokenAuth.protect()
  const routes = (declared: object) => {
    app.get(`/auth${Object.keys(declared).length}`, { onRequest: app.auth([guard]), ...declared }, handler)
    app.get(`/own${Object.keys(declared).length}`, { onRequest: async (request: FastifyRequest, reply: FastifyReply) => { await guard(request, reply) }, ...declared }, handler)
    app.get(`/absent${Object.keys(declared).length}`, { onRequest: protect({ instanceName: 'partner' }), ...declared }, handler)
  }
  routes({})
  routes({ config: { tokenAuth: 'a guard that it does not know' } })
  t.same(await undecidedIn(app), ['GET,HEAD /auth0 (fastify)', 'GET,HEAD /own0 (fastify)', 'GET,HEAD /absent0 (fastify)'])
})

t.test('guards on no route are not counted, and not-found handlers are no routes', async (t) => {
  const app = await strict(t)
  app.tokenAuth.protect()
  app.tokenAuth.scoped('a')
  app.setNotFoundHandler(async () => 'nothing')
  t.equal(await startOf(app), undefined)
  t.equal((await app.inject('/')).body, 'nothing')
})

// Promise: specification/added-10
t.test('requireGuards is a setting of the routes: no getter, no override, and a key in the configuration of the application', async (t) => {
  const app = host(t)
  app.decorate('config', { SERVICE_JWT_REQUIRE_GUARDS: 'true' })
  await app.register(tokenAuth, { secret, authMode: false })
  t.equal(app.tokenAuth.settings.requireGuards, true)
  t.throws(() => app.tokenAuth.protect(mistyped({ requireGuards: false })), { name: 'InvalidConfiguration' })
  app.get('/', handler)
  t.same(await undecidedIn(app), ['GET,HEAD / (fastify)'])
  await t.rejects(async () => { await build(t, mistyped({ getRequireGuards: () => false })) }, { name: 'InvalidConfiguration' })
})

t.test('requireGuards does nothing while requests are answered', async (t) => {
  const app = await strict(t)
  app.get('/', { onRequest: app.tokenAuth.protect() }, handler)
  t.equal(await startOf(app), undefined)
  t.equal((await app.inject({ url: '/', headers: bearer(forge(claims())) })).body, 'reached')
  t.same(app.printRoutes({ includeHooks: true }).match(/"[^"]*"/g), ['"tokenAuth.protect()"', '"tokenAuth.protect()"', '"headRouteOnSendHandler()"'], 'no hook of its own')
})
