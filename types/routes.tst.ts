import { Type, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastifyAuth from '@fastify/auth'
import Fastify, { type FastifyContextConfig, type FastifyRequest, type onRequestHookHandler, type preHandlerHookHandler, type preHandlerAsyncHookHandler } from 'fastify'
import { expect, test } from 'tstyche'
import { injectUser, protect, scoped, type Guard, type IssuedEvent, type RefusedEvent, type RouteAccess, type RouteGuard, type TokenAuthError } from '../lib/index.ts'

interface Route {
  Body: { title: string }
  Params: { id: string }
  Querystring: { page: number }
}

const app = Fastify()
const guard = app.tokenAuth.protect()

test('a guard is a hook', () => {
  expect(guard).type.toBeAssignableTo<preHandlerHookHandler>()
  expect(guard).type.toBeAssignableTo<onRequestHookHandler>()
  expect(guard).type.toBeAssignableTo<preHandlerAsyncHookHandler>()
  expect(protect()).type.toBe<Guard>()
  expect(scoped('user')).type.toBe<Guard>()
  app.addHook('onRequest', guard)
  app.addHook('preHandler', guard)
})

test('a guard may require a recent login', () => {
  expect(app.tokenAuth.protect({ maxAge: 300 })).type.toBe<Guard>()
  expect(scoped('user', { maxAge: 300, requireAll: false })).type.toBe<Guard>()
  expect(app.tokenAuth.protect).type.not.toBeCallableWith({ maxAge: '300' })
})

test('a guard for requests with or without a token; one for scopes is none', () => {
  expect(app.tokenAuth.protect({ optional: true, maxAge: 300 })).type.toBe<Guard>()
  expect(protect({ optional: false, instanceName: 'tokenAuth' })).type.toBe<Guard>()
  expect(protect).type.not.toBeCallableWith({ optional: 'yes' })
  expect(app.tokenAuth.scoped).type.not.toBeCallableWith('user', { optional: true })
  expect(scoped).type.not.toBeCallableWith('user', { optional: true })
  expect(app.tokenAuth.injectUser).type.not.toBeCallableWith(async () => ({}), { optional: true })
  expect(injectUser).type.not.toBeCallableWith(async () => ({}), { optional: true })
})

test('the function given to scoped knows the types of its route', () => {
  type Team = { Params: { id: string }, Querystring: { page: number } }
  for (const make of [app.tokenAuth.scoped.bind(app.tokenAuth), scoped]) {
    expect(make(({ params, headers }) => [String(params), String(headers.host)])).type.toBe<Guard>()
  }
  app.get<Team>('/teams/:id', {
    preHandler: app.tokenAuth.scoped<Team>((request) => {
      expect(request.params.id).type.toBe<string>()
      expect(request.query.page).type.toBe<number>()
      return `team:${request.params.id}`
    })
  }, async (request) => request.params.id)
  app.get<Team>('/free/:id', { preHandler: scoped<Team>(async (request) => [request.params.id]) }, async (request) => request.params.id)
  expect(app.tokenAuth.scoped<Team>).type.not.toBeCallableWith((request: FastifyRequest<Team>) => request.params)
  expect(scoped<Team>).type.toBeCallableWith(['a', 'b'], { requireAll: false })
})

test('a route says who may use it, and routes() says what counts', () => {
  app.get('/open', { config: { tokenAuth: false } }, async () => 'open')
  app.get('/basic', { config: { tokenAuth: 'basic auth' } }, async () => 'basic')
  expect<FastifyContextConfig['tokenAuth']>().type.toBe<false | string | undefined>()
  expect(app.tokenAuth.routes()).type.toBe<RouteAccess[]>()
  expect<RouteAccess['guards']>().type.toBe<RouteGuard[]>()
  expect(app.tokenAuth.printRoutes()).type.toBe<string>()
})

test('a request has a signal, whether it has a token or not', () => {
  app.get('/signal', async ({ tokenAuth }) => { expect(tokenAuth.signal).type.toBe<AbortSignal>() })
})

test('subscribers of events know what they are given', () => {
  expect<IssuedEvent['grant']>().type.toBe<'authenticate' | 'refresh' | 'generate' | 'start'>()
  expect<IssuedEvent['request']>().type.toBe<FastifyRequest | undefined>()
  expect<RefusedEvent>().type.toBe<{ instanceName: string, request: FastifyRequest, error: TokenAuthError, reason?: string | undefined }>()
})

test('guards fit routes whose body and parameters have types', () => {
  app.post<Route>('/a/:id', { preHandler: guard, onRequest: [guard, app.tokenAuth.scoped('user')] }, async (request) => {
    expect(request.body.title).type.toBe<string>()
    expect(request.params.id).type.toBe<string>()
    expect(request.tokenAuth.userId).type.toBe<string | number | boolean | null>()
    return {}
  })
  app.route<Route>({ method: 'POST', url: '/b/:id', onRequest: guard, handler: async (request) => request.query.page })
})

test('injectUser keeps the types of its route', () => {
  app.get<{ Params: { id: string } }>('/c/:id', { preHandler: guard }, app.tokenAuth.injectUser<{ Params: { id: string } }>(async (request, reply, user) => {
    expect(request.params.id).type.toBe<string>()
    return user
  }))
  app.get<{ Params: { id: string } }>('/d/:id', app.tokenAuth.injectUser(async (request, reply, user) => {
    expect(request.params.id).type.toBe<string>()
    expect(user).type.toBe<Record<string, unknown> | null>()
    return { id: request.params.id }
  }))
  app.get<{ Params: { id: string } }>('/e/:id', injectUser(async (request, reply, user) => {
    expect(request.params.id).type.toBe<string>()
    return { id: request.params.id, user }
  }))
})

test('guards and injectUser fit routes with a type provider', () => {
  const typed = app.withTypeProvider<TypeBoxTypeProvider>()
  const schema = { body: Type.Object({ title: Type.String() }), params: Type.Object({ id: Type.Integer() }) }
  typed.post('/f/:id', { schema, preHandler: guard, onRequest: [guard] }, async (request) => {
    expect(request.body.title).type.toBe<string>()
    expect(request.params.id).type.toBe<number>()
    return {}
  })
  typed.post('/g/:id', { schema, onRequest: typed.tokenAuth.protect() }, typed.tokenAuth.injectUser(async (request, reply, user) => {
    return { user }
  }))
})

test('guards can be combined by @fastify/auth', async () => {
  await app.register(fastifyAuth)
  const overrides = { onRefusal: 'throw' } as const
  app.get('/h', { preHandler: app.auth([app.tokenAuth.protect(overrides), app.staffAuth.protect(overrides)]) }, async () => ({}))
  expect(app.auth).type.toBeCallableWith([guard, guard], { relation: 'and' })
})
