import { Type, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, {
  type FastifyBaseLogger, type FastifyInstance, type FastifyReply, type FastifyRequest, type FastifyTypeProvider, type RawReplyDefaultExpression,
  type RawRequestDefaultExpression, type RawServerBase, type RouteGenericInterface
} from 'fastify'
import { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Http2Server, Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import { describe, expect, test } from 'tstyche'
import tokenAuth, {
  Authentication, initialize, injectUser, protect, requestSerializer, Responses, scoped, View, type AnyReply, type AnyRequest, type Payload, type StartedSession, type TokenAuthError, type UserId
} from '../lib/index.ts'
import { attack, createTestToken, type AttackReport } from '../lib/testing.ts'

/** Fits every type of users. */
const authenticate = (): never => { throw new Error('unused') }
const user = { user_id: 1 }
const tls = { key: 'key', cert: 'cert' }

class OwnRequest extends IncomingMessage { readonly tenant = 'a' }
class OwnReply<Request extends IncomingMessage> extends ServerResponse<Request> { readonly tenant = 'a' }
interface OwnLogger extends FastifyBaseLogger { audit (message: string): void }
declare const ownLogger: OwnLogger
/** As providers for other libraries of schemas, such as Zod. */
interface OwnProvider extends FastifyTypeProvider {
  validator: this['schema'] extends { parse (value: unknown): infer Value } ? Value : unknown
  serializer: this['schema'] extends { parse (value: unknown): infer Value } ? Value : unknown
}

type Http2Request = FastifyRequest<RouteGenericInterface, Http2Server>
type Http2Reply = FastifyReply<RouteGenericInterface, Http2Server>

const http1 = Fastify()
const https = Fastify({ https: tls })
const http2 = Fastify({ http2: true })
const http2Secure = Fastify({ http2: true, https: tls })
const own = Fastify<Server, OwnRequest, OwnReply<OwnRequest>>()
const logging = Fastify({ loggerInstance: ownLogger })
const typeBox = Fastify({ http2: true }).withTypeProvider<TypeBoxTypeProvider>()
const otherTypes = Fastify({ http2: true, https: tls, loggerInstance: ownLogger }).withTypeProvider<OwnProvider>()

/** What an application does with an instance, for every application. */
function useEverything<
  RawServer extends RawServerBase, RawRequest extends RawRequestDefaultExpression<RawServer>, RawReply extends RawReplyDefaultExpression<RawServer>,
  Logger extends FastifyBaseLogger, Provider extends FastifyTypeProvider
> (app: FastifyInstance<RawServer, RawRequest, RawReply, Logger, Provider>) {
  const guard = app.tokenAuth.protect()
  app.addHook('onRequest', guard)
  app.addHook('preValidation', guard)
  app.addHook('preHandler', guard)
  app.get('/a', { onRequest: guard, preHandler: [guard, app.tokenAuth.scoped('read'), protect(), scoped('read')] }, async (request, reply) => {
    await guard(request, reply)
    return [app.tokenAuth.isAuthenticated(request), app.tokenAuth.extractUserId(request)]
  })
  app.route({ method: 'GET', url: '/b', onRequest: guard, handler: async (request) => app.tokenAuth.extractScopes(request) })
  return app.register(tokenAuth, { authenticate })
}

test('an application takes a guard of any of its instances, and registers them', () => {
  expect(useEverything).type.toBeCallableWith(http1)
  expect(useEverything).type.toBeCallableWith(https)
  expect(useEverything).type.toBeCallableWith(http2)
  expect(useEverything).type.toBeCallableWith(http2Secure)
  expect(useEverything).type.toBeCallableWith(own)
  expect(useEverything).type.toBeCallableWith(logging)
  expect(useEverything).type.toBeCallableWith(typeBox)
  expect(useEverything).type.toBeCallableWith(otherTypes)
})

test('initialize returns what register does', async () => {
  expect(initialize(http1, { authenticate })).type.toBe(http1.register(tokenAuth, { authenticate }))
  expect(initialize(https, { authenticate })).type.toBe(https.register(tokenAuth, { authenticate }))
  expect(initialize(http2, { authenticate })).type.toBe(http2.register(tokenAuth, { authenticate }))
  expect(initialize(http2Secure, { authenticate })).type.toBe(http2Secure.register(tokenAuth, { authenticate }))
  expect(initialize(own, { authenticate })).type.toBe(own.register(tokenAuth, { authenticate }))
  expect(initialize(logging, { authenticate })).type.toBe(logging.register(tokenAuth, { authenticate }))
  expect(initialize(typeBox, { authenticate })).type.toBe(typeBox.register(tokenAuth, { authenticate }))
  expect(initialize(otherTypes, { authenticate })).type.toBe(otherTypes.register(tokenAuth, { authenticate }))
  expect(initialize).type.not.toBeCallableWith({}, { authenticate })
  expect(initialize).type.not.toBeCallableWith(http2, { authenticate, leway: 60 })
  expect(initialize).type.not.toBeCallableWith({ authenticate }, http2)
})

describe('guards stand before the routes of every application', () => {
  test('of HTTP/1.1, HTTPS, and own classes of requests', () => {
    for (const make of [protect, http1.tokenAuth.protect]) {
      http1.get('/', { onRequest: make(), preHandler: [make(), scoped('read')] }, async () => ({}))
      https.get('/', { onRequest: make(), preHandler: [make(), scoped('read')] }, async () => ({}))
      own.get('/', { onRequest: make(), preHandler: [make(), scoped('read')] }, async ({ raw }) => raw.tenant)
    }
  })

  test('of HTTP/2', () => {
    http2.addHook('onRequest', http2.tokenAuth.protect())
    http2.get('/', { onRequest: http2.tokenAuth.protect(), preHandler: [http2.tokenAuth.protect(), http2.tokenAuth.scoped('read'), protect(), scoped('read')] }, async ({ raw }) => raw.authority)
    http2.get<{ Params: { id: string } }>('/:id', { onRequest: http2.tokenAuth.protect() }, async ({ params }) => params.id)
    http2Secure.addHook('preHandler', http2Secure.tokenAuth.scoped('read'))
    http2Secure.get('/', { onRequest: http2Secure.tokenAuth.protect(), preHandler: [protect(), scoped('read')] }, async ({ raw }) => raw.stream.id)
    http2.register(async (routes) => { routes.addHook('onRequest', routes.tokenAuth.protect()) })
  })

  test('with a logger of their own, or a type provider', () => {
    logging.addHook('onRequest', logging.tokenAuth.protect())
    logging.get('/', { onRequest: protect() }, async ({ log }) => log.audit('read'))
    typeBox.addHook('onRequest', protect())
    typeBox.post('/:id', { schema: { body: Type.Object({ title: Type.String() }) }, onRequest: [protect()], preHandler: typeBox.tokenAuth.scoped('read') }, async ({ body, raw }) => {
      expect(raw).type.toBe<Http2ServerRequest>()
      expect(body.title).type.toBe<string>()
    })
    otherTypes.addHook('onRequest', protect())
    otherTypes.post('/:id', { schema: { body: { parse: (value: unknown) => ({ title: String(value) }) } }, onRequest: [protect()] }, async ({ body, log }) => {
      expect(body.title).type.toBe<string>()
      log.audit(body.title)
    })
  })

  test('and compute scopes from their requests', () => {
    http2.get('/', { onRequest: http2.tokenAuth.scoped((request: Http2Request) => request.raw.authority) }, async () => ({}))
    http2.get('/', { onRequest: scoped(async ({ raw }: Http2Request) => [raw.authority]) }, async () => ({}))
    const ofId = scoped((request) => {
      expect(request).type.toBe<FastifyRequest>()
      return request.id
    })
    http2.get('/', { onRequest: ofId }, async () => ({}))
    expect(scoped).type.not.toBeCallableWith((request: FastifyReply) => String(request.sent))
    expect(scoped).type.not.toBeCallableWith((request: Http2Request) => request.raw)
    expect(scoped).type.not.toBeCallableWith((request: string) => request)
    expect(http2.tokenAuth.scoped).type.not.toBeCallableWith((request: string) => request)
  })
})

describe('injectUser', () => {
  test('gives the request and the reply of its route', () => {
    http1.get('/', http1.tokenAuth.injectUser(async (request, reply, user) => {
      expect(request).type.toBe<FastifyRequest>()
      expect(reply).type.toBe<FastifyReply>()
      expect(user).type.toBe<Record<string, unknown> | null>()
    }))
    http2.get('/', http2.tokenAuth.injectUser(async (request, reply, user) => {
      expect(request.raw).type.toBe<Http2ServerRequest>()
      expect(reply.raw).type.toBe<Http2ServerResponse>()
      expect(user).type.toBe<Record<string, unknown> | null>()
      return user
    }))
    http2.get('/', { onRequest: protect() }, injectUser(async (request, reply, user) => {
      expect(request.raw).type.toBe<Http2ServerRequest>()
      expect(reply.raw).type.toBe<Http2ServerResponse>()
      expect(user).type.toBe<Record<string, unknown> | null>()
    }, { maxAge: 60 }))
    http2Secure.route({
      method: 'GET',
      url: '/',
      handler: injectUser(async (request, reply, user) => {
        expect(request.raw).type.toBe<Http2ServerRequest>()
        return { user }
      })
    })
    own.get('/', injectUser(async ({ raw }, reply) => [raw.tenant, reply.raw.tenant]))
    logging.get('/', injectUser(async ({ log }) => log.audit('read')))
  })

  test('keeps the types of the route', () => {
    http2.get<{ Params: { id: string } }>('/:id', http2.tokenAuth.injectUser(async (request) => {
      expect(request.params.id).type.toBe<string>()
      return request.raw.authority
    }))
    typeBox.post('/:id', { schema: { body: Type.Object({ title: Type.String() }) }, onRequest: protect() }, injectUser(async ({ body, raw }, reply, user) => {
      expect(raw).type.toBe<Http2ServerRequest>()
      expect(body).type.toBe<{ title: string }>()
      return user
    }))
    http2.get<{ Reply: { id: string } }>('/', injectUser(async () => ({ id: 'a' })))
    const schema = { response: { 200: Type.Object({ id: Type.String() }), '4xx': Type.Object({ reason: Type.String() }) } }
    typeBox.get('/', { schema }, injectUser(async (request, reply) => request.is404 ? reply.code(404).send({ reason: 'a' }) : { id: 'a' }))
    expect(typeBox.get).type.not.toBeCallableWith('/', { schema }, injectUser(async () => ({ id: 1 })))
    expect(http2.get<{ Reply: { id: string } }>).type.not.toBeCallableWith('/', injectUser(async () => ({ id: 1 })))
  })

  test('takes a handler that declares its request and reply, for the application that has these', () => {
    const handler = http2.tokenAuth.injectUser(async (request: Http2Request, reply: Http2Reply, user) => {
      expect(user).type.toBe<Record<string, unknown> | null>()
      return [request.raw.authority, reply.raw.headersSent, user]
    })
    http2.get('/', handler)
    http2.get('/', async (request, reply) => await handler(request, reply))
    expect(http1.get).type.not.toBeCallableWith('/', handler)
    const plain = injectUser(async (request, reply, user) => {
      expect(request).type.toBe<FastifyRequest>()
      expect(reply).type.toBe<FastifyReply>()
      return user
    })
    http1.get('/', plain)
    expect(http2.get).type.not.toBeCallableWith('/', plain)
    expect(injectUser).type.not.toBeCallableWith(async (request: FastifyReply, reply: FastifyRequest) => [request, reply])
    expect(http2.tokenAuth.injectUser).type.not.toBeCallableWith(async (request: string) => request)
    expect(http2.tokenAuth.injectUser).type.not.toBeCallableWith(async (request: Http2Request, reply: Http2Reply, user: string) => user)
  })
})

test('methods take the requests and replies of every application', () => {
  async function take (request: AnyRequest, reply: AnyReply) {
    const { tokenAuth } = http2
    expect(tokenAuth.isAuthenticated(request)).type.toBe<boolean>()
    expect(tokenAuth.extractPayload(request)).type.toBe<Payload | null>()
    expect(tokenAuth.extractUserId(request)).type.toBe<UserId | null>()
    expect(tokenAuth.extractScopes(request)).type.toBe<string[] | null>()
    expect(tokenAuth.verifyToken('token', request)).type.toBe<Promise<Payload>>()
    expect(tokenAuth.generateRefreshToken(request, user)).type.toBe<Promise<string>>()
    expect(tokenAuth.generateAccessToken(user, { request })).type.toBe<Promise<string>>()
    expect(tokenAuth.sessions.start(request, reply, user)).type.toBe<Promise<StartedSession>>()
    expect(tokenAuth.protect()(request, reply)).type.toBe<Promise<void>>()
    expect(createTestToken(tokenAuth, user, { request })).type.toBe<Promise<string>>()
  }
  http1.get('/', async (request, reply) => await take(request, reply))
  https.get('/', async (request, reply) => await take(request, reply))
  http2.get('/', async (request, reply) => await take(request, reply))
  http2Secure.get<{ Params: { id: string }, Headers: { etag: string }, Reply: { id: string } }>('/', async (request, reply) => { await take(request, reply) })
  own.get('/', async (request, reply) => await take(request, reply))
  logging.get('/', async (request, reply) => await take(request, reply))
  typeBox.post('/', { schema: { body: Type.Object({ title: Type.String() }), headers: Type.Object({ etag: Type.String() }), response: { 200: Type.Object({}) } } }, async (request, reply) => {
    await take(request, reply)
    return {}
  })
  otherTypes.get('/', { config: { tokenAuth: false } }, async (request, reply) => await take(request, reply))
  expect(attack(http2, { method: 'GET', url: '/' }, { token: 'token' })).type.toBe<Promise<AttackReport>>()
  expect(attack(otherTypes, { method: 'GET', url: '/' }, { token: 'token' })).type.toBe<Promise<AttackReport>>()
})

test('what is no request, and no reply, is refused', () => {
  http2.get('/', async (request, reply) => {
    const { tokenAuth } = http2
    const guard = tokenAuth.protect()
    expect(guard).type.toBeCallableWith(request, reply)
    expect(guard).type.not.toBeCallableWith(reply, request)
    expect(guard).type.not.toBeCallableWith(request, request)
    expect(guard).type.not.toBeCallableWith(request)
    expect(guard).type.not.toBeCallableWith({}, {})
    expect(guard).type.not.toBeCallableWith(request.raw, reply.raw)
    expect(guard).type.not.toBeCallableWith(request, reply, 'done')
    expect(tokenAuth.sessions.start).type.toBeCallableWith(request, reply, user)
    expect(tokenAuth.sessions.start).type.not.toBeCallableWith(reply, request, user)
    expect(tokenAuth.sessions.start).type.not.toBeCallableWith(request, user, reply)
    expect(tokenAuth.sessions.start).type.not.toBeCallableWith({}, {}, user)
    expect(tokenAuth.generateRefreshToken).type.not.toBeCallableWith(user, request)
    expect(tokenAuth.generateAccessToken).type.not.toBeCallableWith(user, { request: reply })
    expect(tokenAuth.verifyToken).type.not.toBeCallableWith('token', 'request')
    expect(tokenAuth.verifyToken).type.not.toBeCallableWith('token', {})
    expect(tokenAuth.verifyToken).type.not.toBeCallableWith('token', undefined)
    for (const read of [tokenAuth.isAuthenticated, tokenAuth.extractPayload, tokenAuth.extractUserId, tokenAuth.extractScopes]) {
      expect(read).type.toBeCallableWith(request)
      expect(read).type.not.toBeCallableWith(reply)
      expect(read).type.not.toBeCallableWith(request.raw)
      expect(read).type.not.toBeCallableWith(request.headers)
      expect(read).type.not.toBeCallableWith('request')
      expect(read).type.not.toBeCallableWith({})
      expect(read).type.not.toBeCallableWith(http2)
    }
  })
})

describe('what the application provides', () => {
  test('handlers get a request whose types are those of HTTP/1.1, unless a class declares others', () => {
    http2.register(tokenAuth, {
      instanceName: 'tokenAuth',
      authenticate: async (request) => {
        expect(request).type.toBe<FastifyRequest>()
        return user
      },
      retrieveUser: (request: FastifyRequest) => ({ user_id: request.id }),
      getExpirationDelta: (request) => request.headers.host === 'a' ? 60 : 600,
      sessions: { data: (request) => ({ host: request.host }) }
    })
    class Http2Authentication extends Authentication {
      override authenticate ({ raw }: Http2Request) { return { user_id: raw.authority } }
      override async retrieveUser (_request: Http2Request, payload: Payload) { return payload }
    }
    class Http2Responses extends Responses {
      override extendVerify ({ raw }: Http2Request) { return { authority: raw.authority } }
      override exceptionResponse (request: Http2Request, exception: TokenAuthError, reply: Http2Reply) {
        return super.exceptionResponse(request, exception, reply)
      }
    }
    class Http2View extends View {
      override get (request: Http2Request, reply: Http2Reply) {
        return [this.instance.extractUserId(request), request.raw.authority, reply.raw.headersSent]
      }
    }
    http2.register(tokenAuth, { authenticationClass: Http2Authentication, responsesClass: Http2Responses, classViews: [['/a', Http2View]] })
    expect<Authentication>().type.toBeAssignableFrom<{ authenticate (request: { body: unknown }): object }>()
    expect<Authentication>().type.not.toBeAssignableFrom<{ authenticate (request: string): object }>()
    expect<Authentication>().type.not.toBeAssignableFrom<{ authenticate (request: FastifyReply): object }>()
    expect<Responses>().type.not.toBeAssignableFrom<Omit<Responses, 'extendVerify'> & { extendVerify (request: string): object }>()
  })

  test('the serializer of requests fits the logger of every server', () => {
    Fastify({ logger: { serializers: { req: requestSerializer() } } })
    Fastify({ http2: true, logger: { serializers: { req: requestSerializer({ userId: true }) } } })
    Fastify({ https: tls, logger: { serializers: { req: requestSerializer('token') } } })
    Fastify({ http2: true, https: tls, logger: { serializers: { req: requestSerializer() } } })
    expect(requestSerializer()).type.not.toBeCallableWith('request')
    expect(requestSerializer()).type.not.toBeCallableWith({})
  })
})
