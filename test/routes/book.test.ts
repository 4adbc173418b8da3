// @slow
/** One book of routes for an application: which routes it sees, what hides nothing from it, and what it costs. */
import { FastifyOtelInstrumentation, type FastifyOtelInstrumentationOpts } from '@fastify/otel'
import fastifySwagger from '@fastify/swagger'
import websocket from '@fastify/websocket'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod, RouteOptions } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { injectUser, protect, type Guard } from '../../lib/index.ts'
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
  'GET /free': 'protected',
  'GET /free-injected': 'optional',
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
  app.get('/free', { preValidation: protect() }, handler)
  app.get('/free-injected', injectUser(handler))
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

// Promise: security/guard-counted-although
t.test('plugins that wrap handlers and hooks hide no guard, before and after this plugin, neither from the list nor from the OpenAPI document', async (t) => {
  const plain = await wrapped(t, () => {})
  t.same(await accessIn(plain), expected)
  const documented = securityIn(plain)
  const wrappers: Record<string, (app: FastifyInstance) => unknown> = {
    '@fastify/websocket': (app) => app.register(websocket),
    '@fastify/otel with instrumentHooks and instrumentHandler: false': (app) => otel(app, { instrumentHooks: false, instrumentHandler: false }),
    '@fastify/otel with instrumentHooks: false': (app) => otel(app, { instrumentHooks: false }),
    '@fastify/otel': (app) => otel(app, {}),
    '@fastify/otel and @fastify/websocket': async (app) => {
      await otel(app, {})
      await app.register(websocket)
    }
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

// Promise: security/guard-counted-although
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

/** Functions that an `onRoute` hook of an application puts in the place of a guard. */
const replacements: Record<string, (guard: Guard) => unknown> = {
  another: () => (_request: unknown, _reply: unknown, done: () => void) => { done() },
  'another, which reads the request': () => (request: FastifyRequest, _reply: unknown, done: () => void) => {
    request.log.info(request.headers['user-agent'])
    done()
  },
  'another, which waits': () => async () => {},
  'a condition about the request': (guard) => (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    if (request.headers['x-internal'] === 'yes') done()
    else guard(request, reply, done)
  },
  'one that ignores the decision': (guard) => (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    guard(request, reply, () => {})
    done()
  },
  'one that does not wait': (guard) => (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    guard(request, reply).catch(() => {})
    done()
  },
  'one that waits': (guard) => async (request: FastifyRequest, reply: FastifyReply) => { await guard(request, reply) },
  'one that calls it later': (guard) => function (this: unknown, ...parameters: unknown[]) { setImmediate(() => { Reflect.apply(guard, this, parameters) }) },
  'one that throws': () => () => { throw new Error('no') }
}

// Promise: security/guard-counted-although
t.test('what an onRoute hook of the application puts in the place of a guard is no guard, also under tools that wrap', async (t) => {
  for (const [what, replace] of Object.entries(replacements)) {
    for (const wrap of [() => {}, (app: FastifyInstance) => otel(app, {})]) {
      for (const isBefore of [true, false]) {
        const app = host(t)
        await app.register(tokenAuth, { secret, authMode: false })
        if (isBefore) await wrap(app)
        app.addHook('onRoute', (route) => {
          const { onRequest, preHandler } = route
          if (route.url === '/replaced') route.onRequest = mistyped(replace(mistyped<Guard>(onRequest)))
          if (route.url === '/spliced' && Array.isArray(preHandler)) preHandler.splice(0, 1, mistyped(replace(mistyped<Guard>(preHandler[0]))))
          if (route.url === '/handler') route.handler = async () => await handler.length
        })
        if (!isBefore) await wrap(app)
        app.get('/replaced', { onRequest: app.tokenAuth.protect() }, handler)
        app.get('/spliced', { preHandler: [app.tokenAuth.scoped('admin')] }, handler)
        app.get('/handler', app.tokenAuth.injectUser(handler))
        t.same(await accessIn(app), { 'GET /replaced': 'undecided', 'GET /spliced': 'undecided', 'GET /handler': 'undecided' }, what)
      }
    }
  }
})

// Promise: security/guard-counted-although
t.test('what an onRoute hook puts in the place of a guard counts as the guard that it passes the request on to, and as no other', async (t) => {
  const app = await build(t, { authMode: false })
  const weaker = app.tokenAuth.protect()
  const passOn = (hook: unknown) => function (this: unknown, ...parameters: unknown[]) { return Reflect.apply(mistyped<() => unknown>(hook), this, parameters) }
  app.addHook('onRoute', (route) => {
    if (route.url === '/wrapped') route.onRequest = mistyped(passOn(route.onRequest))
    if (route.url === '/weaker') route.onRequest = mistyped(passOn(weaker))
    if (route.url === '/handler') route.handler = mistyped(passOn(route.handler))
    if (route.url === '/confused') route.onRequest = mistyped(passOn(route.handler))
    if (route.url === '/as-handler') route.handler = mistyped(passOn(weaker))
  })
  app.get('/wrapped', { onRequest: app.tokenAuth.scoped('a') }, handler)
  app.get('/weaker', { onRequest: app.tokenAuth.scoped('a') }, handler)
  app.get('/handler', app.tokenAuth.injectUser(handler))
  app.get('/confused', { onRequest: weaker }, app.tokenAuth.injectUser(handler))
  app.get('/as-handler', app.tokenAuth.injectUser(handler))
  t.same(await accessIn(app), { 'GET /wrapped': 'scoped', 'GET /weaker': 'protected', 'GET /handler': 'optional', 'GET /confused': 'optional', 'GET /as-handler': 'undecided' })
  t.same(app.tokenAuth.routes().find(({ url }) => url === '/confused')?.guards.map(({ hook }) => hook), ['handler'])
  t.equal((await app.inject('/wrapped')).statusCode, 401)
})

t.test('no function of the application is called without a request, unless it replaces a guard', async (t) => {
  const app = host(t)
  const called: string[] = []
  const spy = (name: string): Guard => mistyped(async () => { called.push(name) })
  app.addHook('onRequest', spy('before'))
  await app.register(tokenAuth, { secret, authenticate })
  app.addHook('onRequest', spy('context'))
  app.addHook('onRoute', (route) => {
    route.preHandler = [route.preHandler ?? [], spy('added')].flat()
    if (route.url === '/') route.handler = spy('handler')
  })
  app.get('/', { onRequest: spy('hook'), preHandler: spy('listed') }, handler)
  app.get('/guarded', { onRequest: [spy('beside'), app.tokenAuth.protect()], preHandler: app.tokenAuth.scoped('a') }, handler)
  await app.ready()
  t.same(called, [])
})

t.test('the properties of a guard lead to it, for wrappers that copy them, as hooks of routes, of contexts and as handlers', async (t) => {
  const app = host(t)
  const copying = (hook: object) => Object.defineProperties((...parameters: unknown[]) => Reflect.apply(mistyped<() => unknown>(hook), undefined, parameters), Object.getOwnPropertyDescriptors(hook))
  await app.register(tokenAuth, { secret, authMode: false })
  const guard = app.tokenAuth.protect()
  app.get('/given', { onRequest: mistyped<Guard>(copying(guard)) }, handler)
  app.get('/handler', mistyped<RouteHandlerMethod>(copying(app.tokenAuth.injectUser(handler))))
  app.register(async (context) => {
    context.addHook('onRequest', mistyped<Guard>(copying(protect())))
    context.get('/in', handler)
  })
  t.same(await accessIn(app), { 'GET /given': 'protected', 'GET /handler': 'optional', 'GET /in': 'protected' })
})

t.test('a context whose addHook is replaced later is observed, also one inside', async (t) => {
  const app = host(t)
  await app.register(tokenAuth, { secret, authMode: false })
  const hide = (context: FastifyInstance) => {
    const { addHook } = context
    context.addHook = mistyped(function (this: FastifyInstance, name: 'onRequest', hook: Guard) {
      return addHook.call(this, name, mistyped<Guard>((request: FastifyRequest, reply: FastifyReply, done: () => void) => { hook(request, reply, done) }))
    })
  }
  for (const [index, contextOf] of [(context: FastifyInstance) => context, () => app].entries()) {
    app.register(async (context) => {
      hide(contextOf(context))
      context.addHook('onRequest', app.tokenAuth.protect())
      context.get(`/${index}`, handler)
    })
  }
  app.register(async (context) => {
    context.addHook('onRequest', async () => {})
    context.get('/open', handler)
  })
  t.same(await accessIn(app), { 'GET /0': 'protected', 'GET /1': 'protected', 'GET /open': 'undecided' })
  t.equal((await app.inject('/0')).statusCode, 401)
  t.equal((await app.inject('/1')).statusCode, 401)
})

// Promise: security/guard-counted-although
t.test('what an earlier onReady hook puts into the list of a route, of this context or of an outer one, has no effect and is not reported', async (t) => {
  for (const isNested of [false, true]) {
    const app = host(t)
    const routes: RouteOptions[] = []
    let guard: Guard | undefined
    app.addHook('onRoute', (route) => { routes.push(route) })
    app.addHook('onReady', async () => {
      for (const { onRequest } of routes) if (Array.isArray(onRequest)) onRequest.push(mistyped(guard))
    })
    let table = ''
    await app.register(async (context) => {
      await context.register(tokenAuth, { secret, authMode: false })
      guard = context.tokenAuth.protect()
      context.get('/', { onRequest: [async () => {}] }, handler)
      context.addHook('onReady', async () => { table = context.tokenAuth.printRoutes() })
    }, isNested ? {} : mistyped({ [Symbol.for('skip-override')]: true }))
    await app.ready()
    t.equal(table, 'GET,HEAD  /  undecided\n')
    t.equal((await app.inject('/')).body, 'reached')
  }
})

// Promise: security/guard-counted-although
t.test('injectUser as the handler of a route that opens WebSockets decides nothing: it is not called for them', async (t) => {
  for (const isFirst of [true, false]) {
    const app = host(t)
    if (isFirst) await app.register(websocket)
    await app.register(tokenAuth, { secret, authMode: false })
    if (!isFirst) await app.register(websocket)
    const wsHandler = () => {}
    app.route({ method: 'GET', url: '/open', handler: app.tokenAuth.injectUser(handler), wsHandler })
    app.get('/socket', { websocket: true }, mistyped<() => void>(app.tokenAuth.injectUser(handler)))
    app.route({ method: 'GET', url: '/off', onRequest: app.tokenAuth.protect({ doProtection: false }), handler, wsHandler })
    app.route({ method: 'GET', url: '/guarded', onRequest: app.tokenAuth.protect({ optional: true }), handler: app.tokenAuth.injectUser(handler), wsHandler })
    app.route({ method: 'GET', url: '/public', config: { tokenAuth: false }, handler: app.tokenAuth.injectUser(handler), wsHandler })
    t.same(await accessIn(app), { 'GET /open': 'undecided', 'GET /socket': 'undecided', 'GET /off': 'public', 'GET /guarded': 'optional', 'GET /public': 'public' })
  }
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

/** An application with a context that had a guard before the plugin. */
async function withOlderGuard (t: Test): Promise<FastifyInstance> {
  const app = host(t)
  let older: FastifyInstance | undefined
  await app.register(async (context) => {
    older = context
    context.addHook('onRequest', protect())
  })
  await app.register(tokenAuth, { secret, authMode: false, requireGuards: true })
  older?.get('/in', handler)
  return app
}

t.test('a guard that a context had before the plugin guards its later routes', async (t) => {
  t.same(await accessIn(await withOlderGuard(t)), { 'GET /in': 'protected' })
})

// Promise: security/guard-counted-although
t.test('if Fastify renames the symbol of its hooks, guards that contexts had before the plugin are undecided, and no route passes for guarded', async (t) => {
  const { getOwnPropertySymbols } = Object
  const unnamed = (value: object) => getOwnPropertySymbols(value).filter(({ description }) => description !== 'fastify.hooks')
  Object.assign(Object, { getOwnPropertySymbols: unnamed })
  t.teardown(() => { Object.assign(Object, { getOwnPropertySymbols }) })
  t.same(await accessIn(await wrapped(t, () => {})), expected, 'guards that contexts get later are observed')
  const covered = await withOlderGuard(t)
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
