import Fastify from 'fastify'
import { describe, expect, test } from 'tstyche'
import tokenAuth, {
  AuthenticationFailed, initialize, injectUser, protect, scoped, type Guard, type Payload, type TokenAuthInstance, type UserId
} from '../lib/index.ts'

/** A user type of the host that nobody declared to the plugin; an interface has no index signature. */
interface User { user_id: number, name: string }

declare function findUser (body: unknown): Promise<User | undefined>

const app = Fastify()
/** Fits every type of users. */
const authenticate = (): never => { throw new Error('unused') }

describe('the example of the README needs no cast', () => {
  test('registration', async () => {
    await app.register(tokenAuth, {
      secret: process.env.SERVICE_JWT_SECRET,
      authenticate: async (request) => {
        const user = await findUser(request.body)
        if (user === undefined) throw new AuthenticationFailed('User not found.')
        return user
      }
    })
    initialize(app, { secret: 'secret', authenticate: () => ({ user_id: 1 }) })
  })

  test('routes', () => {
    app.get('/private', { preHandler: app.tokenAuth.protect() }, async (request) => request.tokenAuth.payload)
    app.get('/early', { onRequest: [app.tokenAuth.protect()] }, async (request) => request.tokenAuth.userId)
    app.get('/admin', { preHandler: app.tokenAuth.scoped('admin:write') }, async () => ({}))
    app.get('/hello', app.tokenAuth.injectUser(async (request, reply, user) => ({ hello: user?.name })))
    app.get('/free', { preHandler: [protect(), scoped(['admin', 'user'], { requireAll: false })] }, injectUser(async (request, reply, user) => ({ user })))
  })

  test('the package is one function with everything on it', () => {
    expect(app.register).type.toBeCallableWith(tokenAuth.tokenAuth, { authenticate, leeway: 60 })
    expect(app.register).type.toBeCallableWith(tokenAuth.default, { authenticate, leeway: 60 })
    expect(tokenAuth.protect).type.toBe<typeof protect>()
    expect(tokenAuth.AuthenticationFailed).type.toBe<typeof AuthenticationFailed>()
  })
})

describe('without a declared user', () => {
  test('users and claims are mappings of unknown values', () => {
    app.tokenAuth.injectUser(async (request, reply, user) => {
      expect(user).type.toBe<Record<string, unknown> | null>()
      expect(request.tokenAuth.payload).type.toBe<Payload | null>()
      expect(request.tokenAuth.payload!.exp).type.toBe<number | undefined>()
      expect(request.tokenAuth.payload!.anything).type.toBe<unknown>()
      expect(request.tokenAuth.userId).type.toBe<UserId | null>()
      expect(request.tokenAuth.scopes).type.toBe<string[] | null>()
      expect(request.tokenAuth.source).type.toBe<'header' | 'cookie' | 'query' | null>()
      expect(request.tokenAuth.settings.leeway).type.toBe<number>()
      expect(await request.tokenAuth.user()).type.toBe<Record<string, unknown> | null>()
    })
  })

  test('any object is a user, nothing else is', () => {
    const user: User = { user_id: 1, name: 'Ada' }
    expect(app.tokenAuth.generateAccessToken).type.toBeCallableWith(user)
    expect(app.tokenAuth.generateAccessToken).type.toBeCallableWith({ user_id: 1, name: 'Ada' })
    expect(app.tokenAuth.generateAccessToken).type.not.toBeCallableWith(Promise.resolve(user))
    expect(app.tokenAuth.generateAccessToken).type.not.toBeCallableWith('Ada')
    expect(app.tokenAuth.generateAccessToken).type.not.toBeCallableWith(undefined)
    expect(initialize).type.toBeCallableWith(app, { authenticate: () => user })
    expect(initialize).type.toBeCallableWith(app, { authenticate: () => ({ user_id: 1 }) })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate: () => 'Ada' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate: () => undefined })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate: async () => {} })
    expect(initialize).type.toBeCallableWith(app, { authenticate, retrieveUser: async () => null })
  })
})

test('the members of an instance', () => {
  expect(app.tokenAuth).type.toBe<TokenAuthInstance>()
  expect(app.tokenAuth.protect()).type.toBe<Guard>()
  expect(app.tokenAuth.scoped('user')).type.toBe<Guard>()
  expect(app.tokenAuth.verifyToken('token')).type.toBe<Payload>()
  expect(app.tokenAuth.settings).type.not.toHaveProperty('secret')
  expect(app.tokenAuth.settings).type.not.toHaveProperty('privateKey')
  expect(app.tokenAuth.settings).type.toHaveProperty('expirationDelta')
  expect(app.tokenAuth.verifyToken).type.not.toBeCallableWith()
})
