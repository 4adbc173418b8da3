import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import { expect, test } from 'tstyche'
import {
  Authentication, AuthenticationFailed, Configuration, initialize, Responses, TokenAuthError, View,
  type ClaimsOf, type CustomClaim, type Payload, type TokenAuthInstance, type UserOf
} from '../lib/index.ts'

interface User { user_id: number, name: string }

const app = Fastify()
/** Fits every type of users. */
const authenticate = (): never => { throw new Error('unused') }
const user: User = { user_id: 1, name: 'Ada' }
declare const employee: UserOf<'staffAuth'>

test('a plain subclass of Authentication', () => {
  class PlainAuthentication extends Authentication {
    override async authenticate (request: FastifyRequest) {
      if (request.body === null) throw new AuthenticationFailed()
      return user
    }

    override retrieveUser (request: FastifyRequest, payload: Payload) {
      return payload.user_id === 1 ? user : null
    }
  }
  class UserAuthentication extends Authentication<User> {
    override authenticate () { return user }
    override addScopesToPayload (known: User) { return known.name }
  }
  class NoUser extends Authentication {
    async authenticates () { return 'Ada' }
  }
  expect(initialize).type.toBeCallableWith(app, { authenticationClass: PlainAuthentication })
  expect(initialize).type.toBeCallableWith(app, { authenticationClass: UserAuthentication })
  expect(initialize).type.toBeCallableWith(app, { authenticationClass: NoUser })
  expect(initialize).type.not.toBeCallableWith(app, { authenticationClass: new PlainAuthentication() })
  expect(initialize).type.not.toBeCallableWith(app, { authenticationClass: class { authenticate () { return 'Ada' } } })
})

test('a subclass of Authentication for the users of a declared instance', () => {
  class Staff extends Authentication<UserOf<'staffAuth'>, ClaimsOf<'staffAuth'>> {
    override retrieveUser (request: FastifyRequest, payload: Payload<ClaimsOf<'staffAuth'>>) {
      return payload.department === employee.department ? employee : null
    }
  }
  class Customers extends Authentication<User> {
    override authenticate () { return user }
  }
  expect(initialize).type.toBeCallableWith(app, { instanceName: 'staffAuth', authenticationClass: Staff })
  expect(initialize).type.toBeCallableWith(app, { instanceName: 'customerAuth', authenticationClass: Customers })
  expect(initialize).type.not.toBeCallableWith(app, { instanceName: 'staffAuth', authenticationClass: Customers })
})

test('a plain subclass of Configuration', () => {
  class PlainConfiguration extends Configuration {
    override readonly algorithm = 'HS512'
    override leeway = 60
    setExpirationDelta = () => 900
    setClaimIss = 'issuer'
    getClaimAud (request: FastifyRequest) { return request.host }
    async getSecret (request: FastifyRequest) { return `secret of ${request.host}` }
    override generateRefreshToken (request: FastifyRequest, known: object) { return `${request.id} ${Object.keys(known).length}` }
    helper () { return 1 }
  }
  class WithProperty extends Configuration {
    override generateRefreshToken = async () => 'token'
  }
  expect(initialize).type.toBeCallableWith(app, { authenticate, configurationClass: PlainConfiguration })
  expect(initialize).type.toBeCallableWith(app, { authenticate, configurationClass: WithProperty })
  expect(initialize).type.toBeCallableWith(app, { authenticate, instanceName: 'staffAuth', configurationClass: PlainConfiguration })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, configurationClass: class extends Configuration { getLeeway () { return '60' } } })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, configurationClass: class extends Configuration { async getLeeway () { return 60 } } })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, configurationClass: class extends Configuration { setLeeway = '60' } })
})

test('a plain subclass of Responses', () => {
  class PlainResponses extends Responses {
    override extendVerify () { return { checked: true } }
    override async extendRefresh () { return { refreshed: true } }
    override exceptionResponse (request: FastifyRequest, exception: TokenAuthError, reply: FastifyReply) {
      reply.code(exception.statusCode)
      return { error: exception.code, headers: exception.headers }
    }
  }
  class UserResponses extends Responses<User> {
    override extendAuthenticate (request: FastifyRequest, { user }: { user: User }) { return { name: user.name } }
  }
  expect(initialize).type.toBeCallableWith(app, { authenticate, responsesClass: PlainResponses })
  expect(initialize).type.toBeCallableWith(app, { authenticate, responsesClass: UserResponses })
  expect(initialize).type.toBeCallableWith(app, { authenticate, instanceName: 'staffAuth', responsesClass: PlainResponses })
  expect(initialize).type.toBeCallableWith(app, { authenticate, instanceName: 'customerAuth', responsesClass: UserResponses })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, responsesClass: class {} })
})

test('a plain subclass of View', () => {
  class PlainView extends View {
    override readonly guards = { delete: this.instance.scoped('admin') }
    override get (request: FastifyRequest) {
      expect(this.instance).type.toBeAssignableTo<TokenAuthInstance<object>>()
      return { issuer: this.config.claimIss, userId: this.instance.extractUserId(request) }
    }

    override async delete (request: FastifyRequest, reply: FastifyReply) { await reply.code(204).send() }
    override options () {}
  }
  expect(initialize).type.toBeCallableWith(app, { authenticate, classViews: [['/plain', PlainView]] })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, classViews: [[PlainView, '/plain']] })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, classViews: [['/plain', Responses]] })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, classViews: [['/plain']] })
})

test('a class as a custom claim', () => {
  class Floor implements CustomClaim {
    readonly key = 'floor'
    setup (payload: Payload, user: object) { return Object.keys(user).length + Object.keys(payload).length }
    verify (value: unknown) { return value === 1 }
  }
  expect(initialize).type.toBeCallableWith(app, { authenticate, customClaims: [Floor, new Floor()] })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, customClaims: [class { key = 'floor' }] })
})

test('errors carry what their answer needs', () => {
  expect(AuthenticationFailed).type.toBeConstructableWith('No.', { cause: new Error() })
  expect(AuthenticationFailed).type.not.toBeConstructableWith(401)
  expect(new AuthenticationFailed()).type.toBeAssignableTo<TokenAuthError>()
  expect<TokenAuthError>().type.toHaveProperty('statusCode')
  expect<TokenAuthError['headers']>().type.toBe<Record<string, string>>()
})
