/** What stands in the place of a guard, and calls it for some requests only: the route makes sure of the guard. */
import assert from 'node:assert/strict'
import { FastifyOtelInstrumentation } from '@fastify/otel'
import websocket from '@fastify/websocket'
import type { FastifyInstance, FastifyReply, FastifyRequest, HookHandlerDoneFunction, RouteOptions } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { injectUser, protect, scoped } from '../../lib/index.ts'
import { authenticate, bearer, build, caseOf, claims, forge, host, login, mistyped, otherSecret, secret } from '../helper.ts'

const handler = async () => 'reached'
const good = bearer(forge(claims()))
const bad = bearer(forge(claims(), { key: otherSecret }))
const withScope = bearer(forge(claims({ scopes: ['a'] })))

type Parameters = readonly [request: FastifyRequest, reply: FastifyReply, done?: HookHandlerDoneFunction | undefined]
type Skips = (...parameters: Parameters) => boolean
type Replace = (guard: unknown) => unknown

/** Whether a guard is left out. Set when the application is ready, after anything that could be tried. */
let isOff = false
t.beforeEach(() => { isOff = false })

/** Conditions that no call without a real request shows. */
const conditions: Readonly<Record<string, () => Skips>> = {
  'a header': () => ({ headers }) => headers?.['x-internal'] === 'yes',
  'a switch': () => () => isOff,
  'the number of its calls': () => {
    let calls = 0
    return () => calls++ > 0
  }
}

const call = (guard: unknown, context: unknown, parameters: Parameters): unknown => Reflect.apply(mistyped<() => unknown>(guard), context, parameters)

/** What leaves a guard out for some requests. */
const leaveOut = (skips: Skips): Replace => (guard) => function (this: unknown, ...parameters: Parameters) {
  if (!skips(...parameters)) return call(guard, this, parameters)
  // A handler has no callback.
  const [, , done] = parameters
  return done === undefined ? Promise.resolve('another') : done()
}
/** The same, with the properties of the guard. */
const copied = (replace: Replace): Replace => (guard) => Object.defineProperties(Object(replace(guard)), Object.getOwnPropertyDescriptors(guard))

/** Replaces each guard, and each handler of `injectUser`, that routes are given by an `onRoute` hook. */
const byRoute = (app: FastifyInstance, replace: Replace) => {
  app.addHook('onRoute', (route) => {
    const { onRequest, preValidation, preHandler, handler } = route
    if (onRequest !== undefined) Object.assign(route, { onRequest: Array.isArray(onRequest) ? onRequest.map(replace) : replace(onRequest) })
    if (Array.isArray(preValidation)) preValidation.push(mistyped(replace(preValidation.pop())))
    if (preHandler !== undefined) Object.assign(route, { preHandler: [preHandler].flat().map(replace) })
    if (route.url.startsWith('/injected')) Object.assign(route, { handler: replace(handler) })
  })
}
/** Replaces each guard that contexts are given. */
const byAddHook = (app: FastifyInstance, replace: Replace) => {
  const { addHook } = app
  app.addHook = mistyped(function (this: FastifyInstance, name: string, hook: unknown) {
    return Reflect.apply(addHook, this, [name, name.startsWith('on') && name !== 'onRequest' ? hook : replace(hook)])
  })
}

const otel = (app: FastifyInstance) => app.register(new FastifyOtelInstrumentation({ registerOnInitialization: false }).plugin())
const nothing = () => {}

/** An application with a guard of each kind; something replaces them. */
async function replaced (t: Test, replace: Replace, before: (app: FastifyInstance) => unknown = nothing, after: (app: FastifyInstance) => unknown = nothing): Promise<FastifyInstance> {
  const app = host(t)
  await before(app)
  await app.register(tokenAuth, { secret, authMode: false })
  byRoute(app, replace)
  byAddHook(app, replace)
  await after(app)
  app.get('/own', { onRequest: app.tokenAuth.protect() }, handler)
  app.get('/listed', { preValidation: [async () => {}, app.tokenAuth.protect()] }, handler)
  app.get('/free', { preHandler: protect() }, handler)
  app.get('/scoped', { preHandler: [app.tokenAuth.protect(), scoped('a')] }, handler)
  app.get('/optional', { onRequest: app.tokenAuth.protect({ optional: true }) }, handler)
  app.get('/injected', app.tokenAuth.injectUser(handler))
  app.get('/injected-free', injectUser(handler, { leeway: 1 }))
  app.register(async (context) => {
    context.get('/in-later', handler)
    context.addHook('onRequest', app.tokenAuth.protect())
    context.get('/in', handler)
    context.register(async (inner) => { inner.get('/inside', { onRequest: scoped('a') }, handler) })
  }, { prefix: '/context' })
  await app.ready()
  return app
}

const expected = {
  '/own': 'protected',
  '/listed': 'protected',
  '/free': 'protected',
  '/scoped': 'scoped',
  '/optional': 'optional',
  '/injected': 'optional',
  '/injected-free': 'optional',
  '/context/in-later': 'protected',
  '/context/in': 'protected',
  '/context/inside': 'scoped'
}
const accessIn = (app: FastifyInstance) => Object.fromEntries(app.tokenAuth.routes().filter(({ method }) => method === 'GET').map(({ url, access }) => [url, access]))

for (const [what, conditionOf] of Object.entries(conditions)) {
  for (const [copies, copy] of [['', (replace: Replace) => replace], [', with the properties of the guard', copied]] as const) {
    // Promise: security/guard-counted-although
    t.test(`a guard that a function leaves out for some requests, by ${what}${copies}, is asked nevertheless: what is said of a route is true`, async (t) => {
      for (const [before, after] of [[nothing, nothing], [otel, nothing], [nothing, otel]] as const) {
        isOff = false
        const app = await replaced(t, (guard) => copy(leaveOut(conditionOf()))(guard), before, after)
        assert.deepEqual(accessIn(app), expected, caseOf(before))
        isOff = true
        for (const [url, access] of Object.entries(expected)) {
          const statusOf = async (headers: Record<string, string>) => (await app.inject({ url, headers: { 'x-internal': 'yes', ...headers } })).statusCode
          assert.equal(await statusOf({}), access === 'optional' ? 200 : 401, `${url} without a token`)
          assert.equal(await statusOf(bad), 401, `${url} with a bad token`)
          assert.equal(await statusOf(good), access === 'scoped' ? 403 : 200, `${url} with a token`)
          assert.equal(await statusOf(withScope), 200, `${url} with a scope`)
        }
      }
    })
  }
}

// Promise: security/guard-counted-although
t.test('the guards of the plugin\'s own endpoints are asked as well: no session is listed or ended without a token', async (t) => {
  for (const wrap of [nothing, otel]) {
    isOff = false
    const app = host(t)
    await wrap(app)
    byRoute(app, leaveOut(() => isOff))
    await app.register(tokenAuth, { secret, authenticate, sessions: {} })
    await app.ready()
    const endpoints = [['GET', '/auth/me'], ['GET', '/auth/sessions'], ['DELETE', '/auth/sessions/:id'], ['DELETE', '/auth/sessions']] as const
    const { access_token: token } = (await login(app)).json()
    for (const off of [false, true]) {
      isOff = off
      for (const [method, url] of endpoints) {
        t.match(app.tokenAuth.routes().find((row) => row.method === method && row.url === url), { access: 'protected' })
        for (const headers of [{}, bad]) assert.equal((await app.inject({ method, url, headers })).statusCode, 401, `${method} ${url}`)
      }
      assert.equal((await app.inject({ url: '/auth/sessions', headers: bearer(token) })).json().sessions.length, 1, caseOf(wrap, off))
    }
  }
})

/** A function that calls its guard, as tools do. */
const passOn: Replace = leaveOut(() => false)

t.test('a guard that has let a request pass is not asked again, and one that has refused it answers once', async (t) => {
  let asked = 0
  const app = await build(t, { authMode: false })
  byRoute(app, passOn)
  app.get('/', { onRequest: app.tokenAuth.scoped(() => { asked++; return 'a' }) }, handler)
  t.equal((await app.inject({ url: '/', headers: withScope })).body, 'reached')
  t.equal(asked, 1)
  t.equal((await app.inject({ url: '/', headers: good })).statusCode, 403)
  t.equal(asked, 2)
})

t.test('a guard without a replacement, and one that also stands itself, is asked once and has no gate', async (t) => {
  let asked = 0
  const app = await build(t, { authMode: false })
  const guard = app.tokenAuth.scoped(() => { asked++; return 'a' })
  app.addHook('onRoute', (route) => { if (route.url === '/both') route.onRequest = [mistyped(copied(passOn)(guard)), guard] })
  app.get('/own', { onRequest: guard }, handler)
  app.get('/both', { onRequest: guard }, handler)
  app.register(async (context) => {
    context.addHook('preHandler', guard)
    context.get('/in', handler)
  })
  await app.ready()
  for (const [url, times] of [['/own', 1], ['/in', 1], ['/both', 2]] as const) {
    asked = 0
    assert.equal((await app.inject({ url, headers: withScope })).body, 'reached', url)
    assert.equal(asked, times, url)
  }
  t.notMatch(app.printRoutes({ includeHooks: true }), 'gate')
})

// Promise: security/guard-counted-although
t.test('the gate of a guard has its name, and stands right behind what replaces it: no later hook of the route answers first', async (t) => {
  const app = await build(t, { authMode: false })
  byRoute(app, leaveOut(() => isOff))
  byAddHook(app, leaveOut(() => isOff))
  const answer = async (_request: FastifyRequest, reply: FastifyReply) => await reply.send('answered')
  // Behind the guard, in the list that has its replacement.
  app.addHook('onRoute', (route) => { if (route.url === '/second') route.preHandler = [route.preHandler ?? [], answer].flat() })
  app.get('/first', { onRequest: app.tokenAuth.protect(), preValidation: [answer] }, handler)
  app.get('/second', { preHandler: app.tokenAuth.protect() }, handler)
  app.register(async (context) => {
    context.addHook('onRequest', app.tokenAuth.scoped('a'))
    context.get('/in', { preHandler: answer }, handler)
  })
  await app.ready()
  t.match(app.printRoutes({ includeHooks: true }), /gate of tokenAuth\.protect[^]*gate of tokenAuth\.scoped a/)
  for (const off of [false, true]) {
    isOff = off
    for (const url of ['/first', '/second', '/in']) {
      assert.equal((await app.inject(url)).statusCode, 401, url)
      if (!off) assert.equal((await app.inject({ url, headers: withScope })).body, 'answered', url)
    }
  }
})

// Promise: security/guard-counted-although
t.test('a replacement that begins to ignore what its guard decides lets nobody reach the handler, and the request is answered once', async (t) => {
  let reached = 0
  for (const answerLater of [false, true]) {
    isOff = false
    const app = host(t)
    if (answerLater) app.addHook('onSend', async () => { await new Promise(setImmediate) })
    await app.register(tokenAuth, { secret, authMode: false, trusted: async () => true })
    byRoute(app, (guard) => (...[request, reply, done]: Parameters) => {
      call(guard, app, [request, reply, isOff ? () => {} : done])
      if (isOff) done?.()
    })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => { reached++; return 'reached' })
    await app.ready()
    t.match(accessIn(app), { '/': 'protected' })
    isOff = true
    for (const headers of [{}, bad]) assert.equal((await app.inject({ url: '/', headers })).statusCode, 401, caseOf(answerLater, headers))
    assert.equal(reached, 0, caseOf(answerLater))
  }
})

t.test('what a later guard with other rules has found stays what a route knows, where an earlier guard was replaced', async (t) => {
  const app = await build(t, { authMode: false, claimIss: 'us' })
  app.addHook('onRoute', (route) => { if (typeof route.onRequest === 'function') Object.assign(route, { onRequest: passOn(route.onRequest) }) })
  const options = { onRequest: app.tokenAuth.protect({ userId: 'name' }), preHandler: app.tokenAuth.protect() }
  app.get('/', options, async ({ tokenAuth }) => tokenAuth.userId)
  t.equal((await app.inject({ url: '/', headers: bearer(forge(claims({ iss: 'us', name: 'ada' }))) })).body, '1')
})

t.test('a handler of injectUser that is not called for WebSockets, and a guard that protects nothing, have no gate', async (t) => {
  const app = host(t)
  await app.register(websocket)
  await app.register(tokenAuth, { secret, authMode: false })
  byRoute(app, passOn)
  app.route({ method: 'GET', url: '/socket', config: { tokenAuth: false }, handler: app.tokenAuth.injectUser(handler), wsHandler: () => {} })
  app.get('/off', { onRequest: app.tokenAuth.protect({ doProtection: false }) }, handler)
  await app.ready()
  t.match(accessIn(app), { '/socket': 'public', '/off': 'public' })
  t.notMatch(app.printRoutes({ includeHooks: true }), 'gate')
})

t.test('a function in the place of a guard is called once without a request', async (t) => {
  const app = await build(t, { authMode: false })
  let calls = 0
  byRoute(app, (guard) => (...parameters: Parameters) => {
    calls++
    return call(guard, app, parameters)
  })
  app.get('/', { onRequest: app.tokenAuth.protect(), exposeHeadRoute: false }, handler)
  await app.ready()
  t.match(accessIn(app), { '/': 'protected' })
  t.equal(calls, 1)
})

// Promise: security/guard-counted-although
t.test('where options of a route cannot have a gate, or have lost it, what replaced a guard is no guard', async (t) => {
  const app = host(t)
  const routes: RouteOptions[] = []
  await app.register(tokenAuth, { secret, authMode: false })
  byRoute(app, passOn)
  app.addHook('onRoute', (route) => {
    routes.push(route)
    if (route.url === '/frozen') Object.defineProperty(route, 'onRequest', { configurable: false, writable: false })
  })
  for (const url of ['/frozen', '/redefined', '/kept']) app.get(url, { onRequest: app.tokenAuth.protect() }, handler)
  app.get('/given', { onRequest: app.tokenAuth.protect() }, handler)
  app.register(async () => {
    for (const route of routes) {
      const value = route.onRequest
      if (route.url === '/redefined') Object.defineProperty(route, 'onRequest', { value, writable: true })
      if (route.url === '/given') route.onRequest = [value ?? []].flat()
    }
  })
  await app.ready()
  t.same(accessIn(app), { '/frozen': 'undecided', '/redefined': 'undecided', '/kept': 'protected', '/given': 'protected' })
  for (const url of ['/kept', '/given']) assert.equal((await app.inject(url)).statusCode, 401, url)
  t.ok(routes.every((route) => Object.getOwnPropertyDescriptor(route, 'onRequest')?.get === undefined), 'options of routes are values again')
})

t.test('a route with and without a slash at its end has its gate under both spellings, and so has its HEAD route', async (t) => {
  const app = await build(t, { authMode: false })
  app.register(async (context) => {
    byRoute(context, leaveOut(() => isOff))
    context.get('/', { onRequest: app.tokenAuth.protect() }, handler)
  }, { prefix: '/twice' })
  await app.ready()
  isOff = true
  for (const method of ['GET', 'HEAD'] as const) for (const url of ['/twice', '/twice/']) assert.equal((await app.inject({ method, url })).statusCode, 401, `${method} ${url}`)
})
