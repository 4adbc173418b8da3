/** One book of routes for an application: which routes it sees, what hides nothing from it, and what it costs. */
import { FastifyOtelInstrumentation, type FastifyOtelInstrumentationOpts } from '@fastify/otel'
import fastifySwagger from '@fastify/swagger'
import websocket from '@fastify/websocket'
import Fastify, { type FastifyInstance, type onRequestHookHandler, type RouteShorthandOptions } from 'fastify'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import tokenAuth, { injectUser, protect } from '../../lib/index.ts'
import { listsOf } from '../../lib/routes/hooks.ts'
import { authenticate, bearer, build, claims, forge, host, mistyped, otherSecret, refreshStore, secret } from '../helper.ts'

const handler = async () => 'reached'

/** What is said of the routes of an application, by `<method> <path>`. */
async function accessIn (app: FastifyInstance): Promise<Record<string, string>> {
  await app.ready()
  return Object.fromEntries(app.tokenAuth.routes().filter(({ method }) => method !== 'HEAD').map(({ method, url, access }) => [`${method} ${url}`, access]))
}

/** What is said where nothing wraps hooks and handlers. */
const expected = {
  'POST /auth': 'public',
  'GET /auth/verify': 'other',
  'GET /auth/me': 'protected',
  'POST /auth/refresh': 'other',
  'GET /own': 'protected',
  'POST /scoped': 'scoped',
  'GET /injected': 'optional',
  'GET /open': 'undecided',
  'GET /in': 'protected',
  'GET /in-later': 'protected'
}

/** What an application documents of its routes. */
const securityIn = (app: FastifyInstance) => Object.fromEntries(Object.entries(app.swagger().paths ?? {}).map(([path, methods]) => [path, Object.values(Object(methods)).map((operation) => Reflect.get(Object(operation), 'security'))]))

/** An application with a route of each kind; other plugins come before and after this one. */
async function wrapped (t: Test, before: (app: FastifyInstance) => unknown, after: (app: FastifyInstance) => unknown = () => {}): Promise<FastifyInstance> {
  const app = host(t)
  await before(app)
  await app.register(fastifySwagger, { openapi: {} })
  const { stored, ...store } = refreshStore()
  await app.register(tokenAuth, { secret, authenticate, ...store })
  await after(app)
  app.get('/own', { onRequest: app.tokenAuth.protect() }, handler)
  app.post('/scoped', { preHandler: [async () => {}, app.tokenAuth.scoped('a')] }, handler)
  app.get('/injected', app.tokenAuth.injectUser(handler))
  app.get('/open', handler)
  await app.register(async (nested) => {
    nested.addHook('preHandler', protect())
    nested.get('/in', handler)
  })
  await app.register(async (nested) => {
    nested.get('/in-later', handler)
    nested.addHook('preHandler', app.tokenAuth.protect())
  })
  return app
}

const otel = (app: FastifyInstance, options: FastifyOtelInstrumentationOpts) => app.register(new FastifyOtelInstrumentation({ ...options, registerOnInitialization: false }).plugin())

t.test('plugins that wrap handlers and hooks hide no guard, before and after this plugin, neither from the list nor from the OpenAPI document', async (t) => {
  const plain = await wrapped(t, () => {})
  t.same(await accessIn(plain), expected)
  const documented = securityIn(plain)
  const wrappers: Record<string, (app: FastifyInstance) => unknown> = {
    '@fastify/websocket': (app) => app.register(websocket),
    '@fastify/otel with instrumentHooks and instrumentHandler: false': (app) => otel(app, { instrumentHooks: false, instrumentHandler: false }),
    '@fastify/otel with instrumentHooks: false': (app) => otel(app, { instrumentHooks: false })
  }
  for (const [name, wrap] of Object.entries(wrappers)) {
    for (const [when, app] of [['before', await wrapped(t, wrap)], ['after', await wrapped(t, () => {}, wrap)]] as const) {
      t.same(await accessIn(app), expected, `${name} ${when}`)
      t.same(securityIn(app), documented, `${name} ${when}, documented`)
      t.equal((await app.inject('/own')).statusCode, 401)
      t.equal((await app.inject({ url: '/own', headers: bearer(forge(claims())) })).body, 'reached')
    }
  }
})

t.test('with the defaults of @fastify/otel, guards of contexts are not recognized: their routes are undecided, and guarded', async (t) => {
  for (const app of [await wrapped(t, (app) => otel(app, {})), await wrapped(t, () => {}, (app) => otel(app, {}))]) {
    t.same(await accessIn(app), { ...expected, 'GET /in': 'undecided', 'GET /in-later': 'undecided' })
    t.equal((await app.inject('/in')).statusCode, 401)
  }
})

t.test('a guard that another plugin has removed from a route is not there any more', async (t) => {
  const app = await build(t, { authMode: false })
  app.get('/removed', { onRequest: app.tokenAuth.protect() }, handler)
  app.get('/emptied', { onRequest: [app.tokenAuth.protect()] }, handler)
  app.get('/fewer', { preHandler: [app.tokenAuth.protect(), async () => {}] }, handler)
  const other = await build(t, { authMode: false, secret: otherSecret })
  other.addHook('onRoute', (route) => {
    if (route.url === '/removed') delete route.onRequest
    if (route.url === '/emptied' && Array.isArray(route.onRequest)) route.onRequest.length = 0
    if (route.url === '/fewer' && Array.isArray(route.preHandler)) route.preHandler.shift()
  })
  const onRequest = other.tokenAuth.protect()
  other.get('/removed', { onRequest }, handler)
  other.get('/emptied', { onRequest: [onRequest] }, handler)
  other.get('/fewer', { preHandler: [onRequest, async () => {}] }, handler)
  t.same(await accessIn(app), { 'GET /removed': 'protected', 'GET /emptied': 'protected', 'GET /fewer': 'protected' })
  t.same(await accessIn(other), { 'GET /removed': 'undecided', 'GET /emptied': 'undecided', 'GET /fewer': 'undecided' })
  for (const url of ['/removed', '/emptied', '/fewer']) t.equal((await other.inject(url)).body, 'reached', url)
})

t.test('what else is put in the place of a guard does not count as one, whether it calls the guard or not', async (t) => {
  const app = await build(t, { authMode: false })
  const audit: onRequestHookHandler = (_request, _reply, done) => { done() }
  app.addHook('onRoute', (route) => {
    const { handler, onRequest = [] } = route
    if (route.url === '/replaced') route.onRequest = audit
    if (route.url === '/spliced' && Array.isArray(route.preHandler)) route.preHandler.splice(0, 1, audit)
    if (route.url === '/wrapped') route.onRequest = [onRequest].flat().map((hook): onRequestHookHandler => function (request, reply, done) { hook.call(this, request, reply, done) })
    if (route.url === '/handler') route.handler = async () => await handler.length
  })
  app.get('/replaced', { onRequest: app.tokenAuth.protect() }, handler)
  app.get('/spliced', { preHandler: [app.tokenAuth.scoped('admin')] }, handler)
  app.get('/wrapped', { onRequest: app.tokenAuth.protect() }, handler)
  app.get('/handler', app.tokenAuth.injectUser(handler))
  t.same(await accessIn(app), { 'GET /replaced': 'undecided', 'GET /spliced': 'undecided', 'GET /wrapped': 'undecided', 'GET /handler': 'undecided' })
  t.equal((await app.inject('/replaced')).statusCode, 200)
})

t.test('routes that are added later to a context from before the plugin are in the book, and must be decided', async (t) => {
  const app = host(t)
  let older: FastifyInstance | undefined
  let inner: FastifyInstance | undefined
  await app.register(async (context) => {
    older = context
    await context.register(async (context) => { inner = context })
  })
  await app.register(tokenAuth, { secret, authMode: false, requireGuards: true })
  older?.get('/open', handler)
  inner?.get('/inner', handler)
  await t.rejects(async () => { await app.ready() }, { message: /GET,HEAD \/inner [^]*GET,HEAD \/open |GET,HEAD \/open [^]*GET,HEAD \/inner / })
})

t.test('what a polluted prototype says of routes is no decision', async (t) => {
  Reflect.set(Object.prototype, 'tokenAuth', false)
  t.teardown(() => { Reflect.deleteProperty(Object.prototype, 'tokenAuth') })
  const app = await build(t, { authMode: false, instanceName: 'staff' })
  app.get('/open', handler)
  await app.ready()
  t.same(app.staff.routes().filter(({ url }) => url === '/open').map(({ access }) => access), ['undecided', 'undecided'])
})

t.test('what a hook of the application adds to a route counts, also if it was added before this plugin', async (t) => {
  const app = host(t)
  app.addHook('onRoute', (route) => {
    if (route.url.startsWith('/guarded')) route.preHandler = protect()
    if (route.url.startsWith('/injected')) route.handler = injectUser(handler)
    if (route.url.startsWith('/open')) route.config = { ...route.config, tokenAuth: false }
  })
  await app.register(tokenAuth, { secret, authMode: false })
  app.get('/guarded', handler)
  app.get('/injected', handler)
  app.get('/open', { config: { tokenAuth: 'a key' } }, handler)
  t.same(await accessIn(app), { 'GET /guarded': 'protected', 'GET /injected': 'optional', 'GET /open': 'public' })
})

t.test('an endpoint whose declaration another plugin has removed is undecided, and not public', async (t) => {
  const app = await build(t, {})
  const other = host(t)
  other.addHook('onRoute', (route) => { route.config = {} })
  await other.register(tokenAuth, { secret: otherSecret, authenticate })
  t.same(await accessIn(app), { 'POST /auth': 'public', 'GET /auth/verify': 'other', 'GET /auth/me': 'protected' })
  t.same(await accessIn(other), { 'POST /auth': 'undecided', 'GET /auth/verify': 'undecided', 'GET /auth/me': 'protected' })
})

t.test('if Fastify renames the symbol of its hooks, guards of contexts are undecided, and no route passes for guarded', async (t) => {
  const { getOwnPropertySymbols } = Object
  const unnamed = (value: object) => getOwnPropertySymbols(value).filter(({ description }) => description !== 'fastify.hooks')
  Object.assign(Object, { getOwnPropertySymbols: unnamed })
  t.teardown(() => { Object.assign(Object, { getOwnPropertySymbols }) })
  const app = await wrapped(t, () => {})
  t.same(await accessIn(app), { ...expected, 'GET /in': 'undecided', 'GET /in-later': 'undecided' })
  const covered = await build(t, { authMode: false, requireGuards: true, secret: otherSecret })
  covered.register(async (nested) => {
    nested.addHook('onRequest', covered.tokenAuth.protect())
    nested.get('/in', handler)
  })
  await t.rejects(async () => await covered.ready(), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E20' })
})

t.test('an application has one book, whatever the number of instances: one hook for routes, and one for the start', async (t) => {
  const app = host(t)
  const counts: Array<readonly [number, number]> = []
  const instanceNames = Array.from({ length: 1000 }, (_, index) => `instance${index}`)
  for (const instanceName of instanceNames) {
    await app.register(tokenAuth, mistyped({ instanceName, authMode: false, secret }))
    const { onRoute, onReady } = mistyped<Record<string, unknown[]>>(listsOf(app))
    counts.push([onRoute!.length, onReady!.length])
  }
  t.same([...new Set(counts.map(String))], ['1,1'])
  await app.register(async (nested) => {
    await nested.register(tokenAuth, { authMode: false, secret })
    t.equal(mistyped<unknown[]>(listsOf(nested).onRoute).length, 1, 'a nested instance writes into the same book')
    nested.get('/nested', { onRequest: nested.tokenAuth.protect() }, handler)
  })
  app.get('/last', { onRequest: Reflect.get(app, 'instance999').protect() }, handler)
  await app.ready()
  const tables = new Set(instanceNames.map((name) => String(Reflect.get(app, name).printRoutes())))
  t.same([...tables], ['GET,HEAD  /last    protected  instance999 in onRequest\nGET,HEAD  /nested  protected  tokenAuth in onRequest\n'])
})

t.test('the book of a nested instance has the routes of its context and those below', async (t) => {
  const app = host(t)
  const tables: Array<() => string> = []
  for (const prefix of ['/a', '/b']) {
    await app.register(async (nested) => {
      await nested.register(tokenAuth, { authMode: false, secret })
      nested.get('/', { onRequest: nested.tokenAuth.protect() }, handler)
      await nested.register(async (inner) => { inner.get('/inner', { onRequest: protect() }, handler) })
      tables.push(() => nested.tokenAuth.printRoutes())
    }, { prefix })
  }
  app.get('/outside', handler)
  await app.ready()
  t.same(tables.map((print) => print().split('\n').map((line) => line.split(/ +/)[1])), [['/a', '/a/inner', undefined], ['/b', '/b/inner', undefined]])
})

setFlagsFromString('--expose-gc')
const collectGarbage: unknown = runInNewContext('gc')

/** Bytes of the heap after a collection of garbage. */
function used (): number {
  if (typeof collectGarbage === 'function') collectGarbage()
  return process.memoryUsage().heapUsed
}

t.test('a book keeps at most 2 KB for each route once the application is ready', async (t) => {
  const count = 2000
  const scopes = ['reports:read', 'reports:write', 'admin']
  /** The bytes of an application; with the plugin, or without and with its guards. Not `host` of the other tests, which keeps a log. */
  const sizeOf = async (isWatched: boolean) => {
    const [app, other] = [Fastify({ exposeHeadRoutes: false }), Fastify()]
    t.teardown(() => Promise.all([app.close(), other.close()]))
    const owner = isWatched ? app : other
    await owner.register(tokenAuth, { secret, authMode: false })
    const before = used()
    for (let index = 0; index < count; index++) app.get(`/path/of/route/${index}`, { onRequest: owner.tokenAuth.scoped(scopes) }, handler)
    await app.ready()
    return used() - before
  }
  // Of several rounds, because what else the process keeps and forgets in the meantime is measured, too.
  const differences: number[] = []
  for (let round = -1; round < 5; round++) {
    const difference = await sizeOf(true) - await sizeOf(false)
    if (round >= 0) differences.push(difference / count)
  }
  const perRoute = differences.sort((one, other) => one - other)[2]!
  t.ok(perRoute <= 2048, `${Math.round(perRoute)} bytes`)
})

t.test('a book keeps nothing of the options of routes once the application is ready', async (t) => {
  const app = await build(t, { authMode: false })
  let option: object | undefined = {}
  const kept = new WeakRef(option)
  app.get('/', mistyped<RouteShorthandOptions>({ onRequest: app.tokenAuth.protect(), option }), handler)
  option = undefined
  await app.ready()
  for (let turn = 0; turn < 20 && kept.deref() !== undefined; turn++) {
    await new Promise((resolve) => setImmediate(resolve))
    used()
  }
  t.equal(kept.deref(), undefined)
})
