import '@fastify/postgres'
import { PGlite } from '@electric-sql/pglite'
import { Cluster, Redis } from 'ioredis'
import pg from 'pg'
import postgres from 'postgres'
import { createClient, createCluster } from 'redis'
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import { expect, test } from 'tstyche'
import {
  initialize, memorySessions, postgresSessions, postgresSessionSchema, redisSessions, SessionEnded, InvalidToken, type Advance, type SessionEvent, type SessionFeed, type SessionFeedOptions, type Sessions, type SessionsOptions, type SessionStore, type StoreStatus
} from '../lib/index.ts'
import { sessionStoreTests } from '../lib/testing.ts'

declare const store: SessionStore
declare const redis: Redis
const app = Fastify()
/** Fits every type of users. */
const authenticate = (): never => { throw new Error('unused') }
declare const event: SessionEvent
declare const request: FastifyRequest
declare const reply: FastifyReply

test('a store is an object or a class with six methods', () => {
  expect(memorySessions()).type.toBe<SessionStore>()
  class OwnStore implements SessionStore {
    async create () { return ['sid'] }
    async advance (): Promise<Advance> { return { outcome: 'unknown', n: 0 } }
    async end (user: string, which: { sid: string } | { except: string | null }) { return 'sid' in which ? [which.sid] : [] }
    async list () { return [] }
    async endedSince (cursor: string | null) { return { ended: [], cursor: cursor ?? '' } }
    async confirm () {}
  }
  expect<SessionsOptions>().type.toBeAssignableFrom({ store: new OwnStore() })
  expect(sessionStoreTests).type.toBeCallableWith(() => new OwnStore(), { concurrency: 10, clock: 'server' as const })
  expect(sessionStoreTests).type.toBeCallableWith(async () => new OwnStore())
  const { list, ...incomplete } = store
  expect<SessionStore>().type.not.toBeAssignableFrom(incomplete)
  const { confirm, ...silent } = store
  expect<SessionStore>().type.not.toBeAssignableFrom(silent)
  expect<Advance['outcome']>().type.toBeAssignableFrom('reissued' as const)
  expect<SessionStore>().type.not.toBeAssignableFrom({ ...store, create: async () => 'sid' })
  expect<SessionStore>().type.not.toBeAssignableFrom({ ...store, advance: async () => ({ outcome: 'other', n: 0 }) })
})

test('a registration that only verifies needs the feed alone', () => {
  const { endedSince } = store
  expect<SessionFeed>().type.toBeAssignableFrom({ endedSince })
  expect<SessionFeed>().type.toBeAssignableFrom(store)
  expect<SessionFeedOptions>().type.toBeAssignableFrom({ store: { endedSince }, poll: 5, refuseAfter: 10 })
  expect<SessionsOptions>().type.not.toBeAssignableFrom({ store: { endedSince } })
  expect<SessionFeedOptions>().type.not.toBeAssignableFrom({})
})

test('the stores in databases take the clients of each library, and nothing else', () => {
  expect(redisSessions).type.toBeCallableWith(redis)
  expect(redisSessions).type.toBeCallableWith(createClient())
  expect(redisSessions).type.toBeCallableWith(createCluster({ rootNodes: [] }))
  expect(redisSessions).type.toBeCallableWith(new Cluster([]), { prefix: 'shop' })
  expect(redisSessions).type.not.toBeCallableWith('redis://localhost')
  expect(redisSessions).type.not.toBeCallableWith(new pg.Pool())
  expect(redisSessions).type.not.toBeCallableWith(redis, { table: 'shop' })
  expect(postgresSessions).type.toBeCallableWith(new pg.Pool())
  expect(postgresSessions).type.toBeCallableWith(new pg.Client(), { table: 'shop' })
  expect(postgresSessions).type.toBeCallableWith(postgres())
  expect(postgresSessions).type.toBeCallableWith(app.pg)
  expect(postgresSessions).type.toBeCallableWith(new PGlite())
  expect(postgresSessions).type.not.toBeCallableWith('postgres://localhost')
  expect(postgresSessions).type.not.toBeCallableWith(redis)
  expect(postgresSessions(new pg.Pool())).type.toBe<SessionStore>()
  expect(postgresSessionSchema()).type.toBe<string>()
})

test('data and users have the types of the registration', () => {
  interface Customer { id: number, isTrusted: boolean }
  interface Device { device: string }
  expect<SessionsOptions<Customer, Device>>().type.toBeAssignableFrom({
    data: () => ({ device: 'phone' }), lifetime: (request: unknown, user: Customer) => user.isTrusted ? 60 : 30
  })
  expect<SessionsOptions<Customer, Device>>().type.not.toBeAssignableFrom({ data: () => ({ device: 1 }) })
  expect<Awaited<ReturnType<Sessions<Customer, Device>['list']>>[number]['data']>().type.toBe<Device>()
})

test('what a login says has the user of the registration, and only its two members', () => {
  interface Customer { id: number, remembers: boolean }
  expect<SessionsOptions<Customer>>().type.toBeAssignableFrom({ login: (_request: unknown, { remembers }: Customer) => ({ persistent: remembers, claims: { amr: ['pwd'] } }) })
  expect<SessionsOptions<Customer>>().type.toBeAssignableFrom({ login: async () => undefined })
  expect<SessionsOptions<Customer>>().type.not.toBeAssignableFrom({ login: () => ({ persistent: 'yes' }) })
  expect<SessionsOptions<Customer>>().type.not.toBeAssignableFrom({ login: () => ({ claims: 'amr' }) })
  const { tokenAuth: { sessions } } = app
  expect(sessions.start).type.toBeCallableWith(request, reply, { user_id: 1 }, { authTime: 1, persistent: false, claims: { act: { sub: 'a' } } })
  expect(sessions.start).type.not.toBeCallableWith(request, reply, { user_id: 1 }, { remember: true })
  expect(sessions.stop(request, reply)).type.toBe<Promise<boolean>>()
  expect(app.tokenAuth.storeStatus()).type.toBe<StoreStatus>()
  expect(app.tokenAuth.storeStatus().state).type.toBe<'fresh' | 'stale' | 'starting'>()
})

test('what is refused beside sessions is refused by its type, and accepted without them', () => {
  const handlers = { storeRefreshToken: () => {}, retrieveRefreshToken: () => 'stored' }
  expect(initialize).type.toBeCallableWith(app, { authenticate, sessions: {}, refreshTokenEnabled: true as const, verifyExp: true as const, getExpirationDelta: () => 60 })
  expect(initialize).type.toBeCallableWith(app, { authenticate, ...handlers, refreshTokenEnabled: true, sessions: undefined })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, sessions: {}, storeRefreshToken: () => {} })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, sessions: {}, ...handlers })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, sessions: {}, generateRefreshToken: () => 'token' })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, sessions: {}, refreshTokenEnabled: false as const })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, sessions: {}, verifyExp: false as const })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, sessions: {}, getSecret: (request: FastifyRequest) => request.hostname })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, sessions: {}, getUserId: () => 'sub' })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, sessions: { gracee: 1 } })
})

test('only an instance without endpoints does with a feed', () => {
  const { endedSince } = store
  expect(initialize).type.toBeCallableWith(app, { authMode: false as const, sessions: { store: { endedSince } } })
  expect(initialize).type.not.toBeCallableWith(app, { authenticate, sessions: { store: { endedSince } } })
  expect(initialize).type.toBeCallableWith(app, { authMode: false as const, sessions: { store } })
})

test('the members of an event follow from its type', () => {
  if (event.type === 'reused') expect(event.behind).type.toBe<number>()
  if (event.type === 'repeated') expect(event.behind).type.toBe<0 | 1>()
  if (event.type === 'refreshed') expect(event.recovered).type.toBe<boolean>()
  if (event.type === 'ended') expect(event.reason).type.toBe<'logout' | 'host' | 'user' | 'limit' | 'replaced' | 'no-user'>()
  if (event.type === 'started') expect(event.sessionId).type.toBe<string>()
  if (event.type === 'stale' || event.type === 'fresh') expect(event).type.not.toHaveProperty('sessionId')
})

test('an ended session is an invalid token', () => {
  expect(new SessionEnded()).type.toBeAssignableTo<InvalidToken>()
})
