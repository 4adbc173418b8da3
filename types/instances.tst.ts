import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import { describe, expect, test } from 'tstyche'
import tokenAuth, {
  Authentication, initialize, type ClaimsOf, type Payload, type RequestTokenAuth, type TokenAuthInstance, type UserId, type UserIdOf, type UserOf, type Verified, type VerifiedRequest
} from '../lib/index.ts'
import { createTestToken } from '../lib/testing.ts'

interface Customer { user_id: number, name: string }

class Employee {
  readonly badge: string
  readonly department: string
  constructor (badge: string, department: string) {
    this.badge = badge
    this.department = department
  }

  toDict () { return { badge: this.badge } }
}

interface EmployeeClaims { department: string }

/** What the sessions of employees are shown with. */
interface Device { device: string }

// Users of the package write 'fastify-token-auth' here. The default name stays undeclared for the other type tests.
declare module '../lib/index.ts' {
  interface TokenAuthInstances {
    customerAuth: { user: Customer, userId: number }
    staffAuth: { user: Employee, userId: string, claims: EmployeeClaims, sessionData: Device }
    partnerAuth: { user: Customer }
  }
}

const app = Fastify()
/** Fits every type of users. */
const authenticate = (): never => { throw new Error('unused') }
declare const request: FastifyRequest
declare const reply: FastifyReply
const customer: Customer = { user_id: 1, name: 'Ada' }
const employee = new Employee('b-1', 'security')

describe('several instances, each with its users and claims', () => {
  test('the decorators have the declared types', () => {
    expect(app.staffAuth).type.toBe<TokenAuthInstance<Employee, EmployeeClaims, Device, string>>()
    expect(app.customerAuth).type.toBe<TokenAuthInstance<Customer, Record<string, unknown>, Record<string, unknown>, number>>()
    expect(app.partnerAuth).type.toBe<TokenAuthInstance<Customer>>()
    expect(app.tokenAuth).type.toBe<TokenAuthInstance>()
    expect(request.staffAuth).type.toBe<RequestTokenAuth<Employee, EmployeeClaims, string>>()
    expect(app).type.not.toHaveProperty('guestAuth')
    expect(request).type.not.toHaveProperty('guestAuth')
  })

  test('payloads have the declared claims', () => {
    expect(request.staffAuth.payload!.department).type.toBe<string>()
    expect(request.staffAuth.payload!.exp).type.toBe<number | undefined>()
    expect(request.customerAuth.payload!.department).type.toBe<unknown>()
    expect(app.staffAuth.verifyToken('token').department).type.toBe<string>()
  })

  test('sessions have the declared users and data', async () => {
    const [session] = await app.staffAuth.sessions.list('b-1')
    expect(session!.data).type.toBe<Device>()
    expect((await app.customerAuth.sessions.list(1))[0]!.data.device).type.toBe<unknown>()
    expect(app.staffAuth.sessions.start).type.toBeCallableWith(request, reply, employee)
    expect(app.staffAuth.sessions.start).type.not.toBeCallableWith(request, reply, customer)
    expect(initialize).type.toBeCallableWith(app, { authenticate, instanceName: 'staffAuth', sessions: { data: () => ({ device: 'phone' }) } })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, instanceName: 'staffAuth', sessions: { data: () => ({ device: 1 }) } })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, instanceName: 'staffAuth', sessions: { lifetime: (request: FastifyRequest, user: Customer) => user.user_id } })
    expect(createTestToken).type.toBeCallableWith(app.staffAuth, employee)
    expect(createTestToken).type.toBeCallableWith(app.customerAuth, { user_id: 1 })
    expect(createTestToken).type.not.toBeCallableWith(app.customerAuth, { user_id: 'a' })
    expect(createTestToken).type.not.toBeCallableWith(app.customerAuth, { user_id: 1, nickname: 'ada' })
    expect(createTestToken).type.toBeCallableWith(app.tokenAuth, { user_id: 1, nickname: 'ada' })
    expect(app.customerAuth.sessions.endAll).type.toBeCallableWith(request.customerAuth.userId, { except: request.customerAuth.sessionId })
  })

  test('user ids have the declared type, and any where none is declared', async () => {
    expect<UserIdOf<'staffAuth'>>().type.toBe<string>()
    expect<UserIdOf<'customerAuth'>>().type.toBe<number>()
    expect<UserIdOf<'partnerAuth'>>().type.toBe<UserId>()
    expect(request.staffAuth.userId).type.toBe<string | null>()
    expect(request.customerAuth.userId).type.toBe<number | null>()
    expect(request.partnerAuth.userId).type.toBe<UserId | null>()
    expect(app.customerAuth.extractUserId(request)).type.toBe<number | null>()
    expect(app.customerAuth.sessions.list).type.toBeCallableWith(1)
    expect(app.customerAuth.sessions.list).type.not.toBeCallableWith('1')
    expect(app.staffAuth.sessions.end).type.not.toBeCallableWith(1, 'id')
    expect(app.staffAuth.sessions.endAll).type.not.toBeCallableWith(1)
    expect(app.partnerAuth.sessions.endAll).type.toBeCallableWith('1')
  })

  test('a token that was verified in code has the claims and user ids of its instance', async () => {
    const verified = await app.staffAuth.verified('token', request)
    expect(verified).type.toBe<Verified<EmployeeClaims, string>>()
    expect(verified.userId).type.toBe<string>()
    expect(verified.payload.department).type.toBe<string>()
    expect(verified.source).type.toBe<null>()
    expect(verified.signal).type.toBe<AbortSignal>()
    expect(app.staffAuth.verified).type.not.toBeCallableWith('token')
  })

  test('a question about scopes is answered at once', () => {
    expect(request.staffAuth.can('reports:read')).type.toBe<boolean>()
    expect(request.staffAuth.can).type.toBeCallableWith(['reports:read', 'reports:write'] as const, { requireAll: false })
    expect(request.staffAuth.can).type.not.toBeCallableWith(() => 'reports:read')
    expect(request.staffAuth.can).type.not.toBeCallableWith('reports:read', { optional: true })
  })

  test('verified has what the request has, without null', () => {
    expect(request.staffAuth.verified).type.toBe<VerifiedRequest<EmployeeClaims, string>>()
    expect(request.staffAuth.verified.userId).type.toBe<string>()
    expect(request.customerAuth.verified.userId).type.toBe<number>()
    expect(request.partnerAuth.verified.userId).type.toBe<UserId>()
    expect(request.staffAuth.verified.payload.department).type.toBe<string>()
    expect(request.staffAuth.verified.token).type.toBe<string>()
    expect(request.staffAuth.verified.source).type.toBe<'header' | 'cookie' | 'query'>()
    expect(request.staffAuth.verified.scopes).type.toBe<string[] | null>()
    expect(request.staffAuth.verified.sessionId).type.toBe<string | null>()
    expect(request.staffAuth.verified.issuer).type.toBe<string | null>()
    expect(request.staffAuth.verified).type.not.toHaveProperty('signal')
  })

  test('verifyToken with a request gives a promise of the declared claims', () => {
    expect(app.staffAuth.verifyToken('token', request)).type.toBe<Promise<Payload<EmployeeClaims>>>()
    expect(app.staffAuth.verifyToken).type.not.toBeCallableWith('token', { headers: {} })
  })

  test('an authentication class may be for the users and ids of a declared instance', () => {
    class Staff extends Authentication<UserOf<'staffAuth'>, ClaimsOf<'staffAuth'>, UserIdOf<'staffAuth'>> {
      override authenticate () { return employee }
      override async retrieveRefreshToken (userId: string) { return userId.toUpperCase() }
      override trusted (_request: FastifyRequest, payload: Payload<EmployeeClaims>) { return payload.department !== '' }
    }
    expect(initialize).type.toBeCallableWith(app, { instanceName: 'staffAuth', authenticationClass: Staff })
  })

  test('users have the declared type', async () => {
    expect(await request.staffAuth.user()).type.toBe<Employee | null>()
    app.get('/staff', app.staffAuth.injectUser(async (request, reply, user) => {
      expect(user).type.toBe<Employee | null>()
    }))
    app.get('/customers', app.customerAuth.injectUser(async (request, reply, user) => {
      expect(user).type.toBe<Customer | null>()
    }))
    expect(app.staffAuth.generateAccessToken).type.toBeCallableWith(employee)
    expect(app.staffAuth.generateAccessToken).type.not.toBeCallableWith(customer)
  })
})

describe('instanceName decides of which users the options speak', () => {
  test('handlers are inferred', async () => {
    await app.register(tokenAuth, {
      instanceName: 'staffAuth',
      userId: 'badge',
      authenticate: async (request) => {
        expect(request).type.toBe<FastifyRequest>()
        return employee
      },
      storeRefreshToken: (userId) => { expect(userId).type.toBe<string>() },
      retrieveRefreshToken: (userId, request) => {
        expect(userId).type.toBe<string>()
        expect(request).type.toBe<FastifyRequest>()
        return userId
      },
      trusted: async (request, payload) => {
        expect(request).type.toBe<FastifyRequest>()
        expect(payload).type.toBe<Payload<EmployeeClaims>>()
        return payload.department === 'security'
      },
      retrieveUser: (request, payload) => {
        expect(payload).type.toBe<Payload<EmployeeClaims>>()
        return payload.department === 'security' ? employee : null
      },
      extendPayload: (payload, user) => {
        expect(user).type.toBe<Employee>()
        return { ...payload, department: user.department }
      },
      addScopesToPayload: (user) => {
        expect(user).type.toBe<Employee>()
        return user.department
      },
      generateRefreshToken: (request, user) => {
        expect(user).type.toBe<Employee>()
        return `${user.badge}-token`
      },
      extraVerifications: [(payload) => {
        expect(payload.department).type.toBe<string>()
        return payload.department !== ''
      }],
      customClaims: [{
        key: 'floor',
        setup: (payload, user) => {
          expect(user).type.toBe<Employee>()
          return 1
        },
        verify: (value) => value === 1
      }]
    })
  })

  test('a user of another instance, and what is no user, is refused', () => {
    expect(initialize).type.toBeCallableWith(app, { instanceName: 'staffAuth', authenticate: () => employee })
    expect(initialize).type.not.toBeCallableWith(app, { instanceName: 'staffAuth', authenticate: () => customer })
    expect(initialize).type.not.toBeCallableWith(app, { instanceName: 'staffAuth', authenticate: async () => customer })
    expect(initialize).type.not.toBeCallableWith(app, { instanceName: 'staffAuth', authenticate: () => undefined })
    expect(initialize).type.not.toBeCallableWith(app, { instanceName: 'staffAuth', authenticate: async () => undefined })
    expect(initialize).type.not.toBeCallableWith(app, { instanceName: 'staffAuth', authenticate: () => 'b-1' })
    expect(initialize).type.toBeCallableWith(app, { authenticate, instanceName: 'staffAuth', retrieveUser: async () => undefined })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, instanceName: 'staffAuth', retrieveUser: async () => customer })
  })

  test('trusted gives true or false, or a promise of either', () => {
    expect(initialize).type.toBeCallableWith(app, { authenticate, instanceName: 'staffAuth', trusted: () => true })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, instanceName: 'staffAuth', trusted: () => 'yes' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, instanceName: 'staffAuth', trusted: async () => {} })
  })

  test('a name that is not declared is refused', () => {
    expect(initialize).type.toBeCallableWith(app, { authenticate, instanceName: 'tokenAuth' })
    expect(initialize).type.toBeCallableWith(app, { authenticate, instanceName: 'customerAuth' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, instanceName: 'guestAuth' })
    expect(app.register).type.toBeCallableWith(tokenAuth, { authenticate, instanceName: 'customerAuth' })
    expect(app.register).type.not.toBeCallableWith(tokenAuth, { authenticate, instanceName: 'guestAuth' })
  })
})
