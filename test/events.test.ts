/** What is published on `node:diagnostics_channel` when tokens are issued and requests are refused. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest, type InjectOptions } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, {
  AuthenticationFailed, injectUser, memorySessions, protect, requestSerializer, Responses, scoped, TokenAuthError, View,
  type IssuedEvent, type RefusedEvent, type SessionStore, type TokenAuthOptions
} from '../lib/index.ts'
import { Refusal } from '../lib/refusal.ts'
import { authenticate, bearer, build, caseOf, claims, environment, forge, host, login, mistyped, now, otherSecret, refreshStore, secret, setClock, together, users } from './helper.ts'
import { run } from './programs.ts'
import { generationIn, sessionEvents, WatchedStore, type Tokens } from './sessions/helper.ts'

type Name = 'issued' | 'refused'
type Event<N extends Name> = N extends 'issued' ? IssuedEvent : RefusedEvent

/** Collects what is published on a channel until the test ends. */
function eventsOf<N extends Name> (t: Test, name: N): Array<Event<N>> {
  const events: Array<Event<N>> = []
  const listener = (event: unknown) => { events.push(event as Event<N>) }
  subscribe(`fastify-token-auth:${name}`, listener)
  t.teardown(() => unsubscribe(`fastify-token-auth:${name}`, listener))
  return events
}

/** The text of an event without its request, as a logger would write it, and everything that it refers to. */
function textOf (event: object): string {
  const seen = new Set<unknown>()
  const texts: string[] = []
  const visit = (value: unknown) => {
    texts.push(String(value))
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return
    seen.add(value)
    for (const key of Reflect.ownKeys(value)) visit(Reflect.get(value, key))
  }
  const { request, ...rest } = event as { request?: unknown }
  visit(rest)
  return texts.join('\n') + JSON.stringify(rest)
}

/** What functions of the application throw: for its log, and for nobody else. */
const internal = 'the inner workings'

/** Everything that must not be in an event: causes, secrets, passwords, and the parts of tokens. */
const hidden = (tokens: readonly string[]) => [internal, secret, otherSecret, ...users.map(({ password }) => password), ...tokens.flatMap((token) => token.split('.'))]
  .filter((text) => text.length > 5)

function checkSecrecy (t: Test, event: object, tokens: readonly string[], what: string): void {
  const text = textOf(event)
  t.same(hidden(tokens).filter((part) => text.includes(part)), [], what)
}

const good = () => forge(claims({ scopes: ['a'], username: 'ada' }))
const expired = forge(claims({ exp: 1 }))

class Refusing extends View {
  override get () { throw new AuthenticationFailed('Not today.') }
  override async post (request: FastifyRequest, reply: FastifyReply) { await this.instance.scoped('z')(request, reply) }
  override put = this.instance.injectUser(async () => 'reached', mistyped({ claimIss: 'another' }))
}

/** An application in which everything refuses that can. */
async function refusing (t: Test, options: Partial<TokenAuthOptions> = {}): Promise<FastifyInstance> {
  const { stored, ...store } = refreshStore()
  const app = await build(t, together(store, {
    retrieveUser: async (_request, { username }) => {
      if (username === 'broken') throw new Error(internal)
      return { user_id: 1, username: 'ada' }
    },
    classViews: [['/view', Refusing]]
  }, options))
  const { tokenAuth: auth } = app
  const handler = async () => 'reached'
  app.get('/protect', { onRequest: auth.protect() }, handler)
  app.get('/scoped', { preHandler: auth.scoped('z') }, handler)
  app.get('/asynchronous', { preHandler: auth.scoped(async () => 'z') }, handler)
  app.get('/malformed', { preHandler: auth.scoped(async () => mistyped('')) }, handler)
  app.get('/maximum-age', { onRequest: protect({ maxAge: 300 }) }, handler)
  app.get('/free', { onRequest: scoped('z') }, handler)
  app.get('/nobody', { onRequest: protect({ instanceName: 'staff' }) }, handler)
  app.post('/cookie', { onRequest: auth.protect({ cookieSet: true }) }, handler)
  app.get('/inject', auth.injectUser(handler))
  app.get('/free-inject', injectUser(handler))
  app.get('/redirect', { onRequest: auth.protect({ redirectOnFail: true }) }, handler)
  app.get('/waited', async (request, reply) => { await auth.scoped('z')(request, reply) })
  return app
}

/** A request that is refused, with the name, status and reason that its event has. */
type Row = [what: string, request: InjectOptions, name: string, statusCode: number, reason?: RegExp]

const post = (url: string, payload: object, token?: string): InjectOptions => ({ method: 'POST', url, payload, ...(token !== undefined && { headers: bearer(token) }) })
const notEnough = /^the scopes of the token are not enough for "z"$/

const rows: Row[] = [
  ['protect without a token', { url: '/protect' }, 'MissingAuthorizationHeader', 401],
  ['protect with rubbish', { url: '/protect', headers: bearer('rubbish') }, 'InvalidToken', 401, /./],
  ['protect with a foreign token', { url: '/protect', headers: bearer(forge(claims(), { key: otherSecret })) }, 'InvalidToken', 401, /./],
  ['protect with an expired token', { url: '/protect', headers: bearer(expired) }, 'TokenExpired', 401, /^"exp" has passed$/],
  ['scoped', { url: '/scoped', headers: bearer(good()) }, 'InsufficientScope', 403, notEnough],
  ['scoped, asynchronously', { url: '/asynchronous', headers: bearer(good()) }, 'InsufficientScope', 403, notEnough],
  ['scoped with a malformed requirement', { url: '/malformed', headers: bearer(good()) }, 'InvalidScopes', 500],
  ['a guard that is waited for', { url: '/waited', headers: bearer(good()) }, 'InsufficientScope', 403, notEnough],
  ['a guard that redirects', { url: '/redirect' }, 'MissingAuthorizationHeader', 401],
  ['a free-standing guard', { url: '/free', headers: bearer(good()) }, 'InsufficientScope', 403, notEnough],
  ['a free-standing guard whose options do not fit', { url: '/maximum-age' }, 'InvalidConfiguration', 500],
  ['a request of another origin', { method: 'POST', url: '/cookie', headers: { cookie: `access_token=${good()}`, origin: 'https://elsewhere.example', 'sec-fetch-site': 'cross-site' } }, 'CrossOriginRequest', 403],
  ['injectUser', { url: '/inject', headers: bearer(expired) }, 'TokenExpired', 401, /exp/],
  ['injectUser with a handler that fails', { url: '/inject', headers: bearer(forge(claims({ username: 'broken' }))) }, 'HandlerFailed', 500],
  ['free-standing injectUser', { url: '/free-inject', headers: bearer(expired) }, 'TokenExpired', 401, /exp/],
  ['a login', post('/auth', { username: 'ada', password: 'lovelace!' }), 'AuthenticationFailed', 401],
  ['the current user without a token', { url: '/auth/me' }, 'MissingAuthorizationHeader', 401],
  ['the current user with a handler that fails', { url: '/auth/me', headers: bearer(forge(claims({ username: 'broken' }))) }, 'HandlerFailed', 500],
  ['a refresh without an access token', post('/auth/refresh', { refresh_token: 'a refresh token that is wrong' }), 'MissingAuthorizationHeader', 401],
  ['a refresh with a wrong refresh token', post('/auth/refresh', { refresh_token: 'a refresh token that is wrong' }, good()), 'AuthenticationFailed', 401, /found no refresh token of the user/],
  ['a refresh without a refresh token', post('/auth/refresh', {}, good()), 'MissingRefreshToken', 400],
  ['a view', { url: '/auth/view' }, 'AuthenticationFailed', 401],
  ['a view that waits for a guard', post('/auth/view', {}, good()), 'InsufficientScope', 403, notEnough],
  ['a view that is an injected handler', { method: 'PUT', url: '/auth/view', payload: {}, headers: bearer(good()) }, 'InvalidClaim', 401, /iss/]
]

const tokensIn = ({ headers = {}, payload = {} }: InjectOptions): string[] => [String(headers.authorization ?? headers.cookie ?? '').replace(/^\S+[ =]/, ''), String(Reflect.get(Object(payload), 'refresh_token') ?? '')]

class Rendering extends Responses {
  static seen: TokenAuthError[] = []
  override exceptionResponse (request: FastifyRequest, error: TokenAuthError, reply: FastifyReply) {
    Rendering.seen.push(error)
    return super.exceptionResponse(request, error, reply)
  }
}

for (const [way, options] of Object.entries<Partial<TokenAuthOptions>>({
  'by default': {}, 'rendered by the application': { responsesClass: Rendering }, thrown: { onRefusal: 'throw' }, explained: { debug: true }
})) {
  // Promise: security/tokens-secrets-passwords
  t.test(`every refusal of a guard, injectUser or an endpoint is published once, ${way}`, async (t) => {
    const app = await refusing(t, options)
    const thrown: unknown[] = []
    app.setErrorHandler(async (error: TokenAuthError, _request, reply) => {
      thrown.push(error)
      return reply.code(error.statusCode).send()
    })
    const events = eventsOf(t, 'refused')
    const errors = new Set<unknown>()
    let requests = 0
    app.addHook('onRequest', async (request) => { request.headers['x-number'] = String(requests) })
    for (const [what, request, name, statusCode, reason] of rows) {
      for (let time = 0; time < 2; time++) {
        requests++
        events.length = 0
        const response = await app.inject(request)
        assert.equal(response.statusCode, what.endsWith('redirects') && way !== 'thrown' ? 302 : statusCode, what)
        assert.equal(events.length, 1, what)
        const [event] = events
        if (event === undefined) continue
        t.match(event, { instanceName: 'tokenAuth', error: { name, statusCode, code: `TOKEN_AUTH_${name.replace(/(?<!^)[A-Z]/g, '_$&').toUpperCase()}` } }, what)
        assert.equal(event.request.headers['x-number'], String(requests), 'the live request')
        if (reason === undefined) assert.ok(!('reason' in event), what)
        else t.match(event.reason, reason, what)
        assert.ok(event.error instanceof TokenAuthError, caseOf(what, time))
        assert.ok(!Object.hasOwn(event.error, 'cause'), caseOf(what, time))
        assert.ok(!Object.isFrozen(event.error), caseOf(what, time))
        assert.equal(event.error.message, name === 'HandlerFailed' ? 'The retrieveUser handler failed.' : event.error.message, caseOf(what, time))
        checkSecrecy(t, event, tokensIn(request), what)
        errors.add(event.error)
      }
    }
    t.equal(errors.size, rows.length * 2, 'each has an error of its own')
    for (const error of [...thrown, ...Rendering.seen]) assert.ok(!errors.has(error), 'and none that somebody else sees')
  })
}

t.test('an instance that a free-standing guard does not find is published under the name that it looked for', async (t) => {
  const app = await refusing(t)
  const events = eventsOf(t, 'refused')
  t.equal((await app.inject('/nobody')).statusCode, 500)
  t.match(events, [{ instanceName: 'staff', error: { name: 'InitializationFailure', statusCode: 500 } }])
})

t.test('a view that waits for a guard publishes once, also while a hook of the application delays the answer', async (t) => {
  const app = host(t)
  app.addHook('onSend', async (_request, _reply, payload) => {
    await turn()
    return payload
  })
  await app.register(tokenAuth, { secret, authenticate, classViews: [['/view', Refusing]] })
  const events = eventsOf(t, 'refused')
  t.equal((await app.inject(post('/auth/view', {}, good()))).statusCode, 403)
  t.match(events, [{ error: { name: 'InsufficientScope' } }])
  t.equal(events.length, 1)
})

t.test('with sessions, their endpoints publish each refusal once', async (t) => {
  let isDown = false
  const memory = memorySessions()
  const orFail = async <Result>(result: () => Promise<Result>): Promise<Result> => {
    if (isDown) throw new Error(internal)
    return await result()
  }
  const store: SessionStore = {
    create: async (...given) => await orFail(async () => await memory.create(...given)),
    advance: async (...given) => await orFail(async () => await memory.advance(...given)),
    end: async (...given) => await orFail(async () => await memory.end(...given)),
    list: async (...given) => await orFail(async () => await memory.list(...given)),
    endedSince: async (...given) => await memory.endedSince(...given),
    confirm: async (...given) => await memory.confirm(...given)
  }
  const app = await build(t, { sessions: { store } })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const tokens: { access_token: string, refresh_token: string } = (await login(app)).json()
  const ended: typeof tokens = (await login(app)).json()
  await app.inject(post('/auth/logout', { refresh_token: ended.refresh_token }))
  const down: Row[] = [
    ['a login', post('/auth', { username: 'ada', password: 'lovelace' }), 'SessionStoreUnavailable', 503],
    ['a refresh', post('/auth/refresh', { refresh_token: tokens.refresh_token }), 'SessionStoreUnavailable', 503],
    ['the list', { url: '/auth/sessions', headers: bearer(tokens.access_token) }, 'SessionStoreUnavailable', 503],
    ['a logout', post('/auth/logout', { refresh_token: tokens.refresh_token }), 'SessionStoreUnavailable', 503]
  ]
  const up: Row[] = [
    ['a refresh with a forged token', post('/auth/refresh', { refresh_token: 'forged refresh token' }), 'AuthenticationFailed', 401],
    ['a refresh of an ended session', post('/auth/refresh', { refresh_token: ended.refresh_token }), 'AuthenticationFailed', 401],
    ['a refresh without a token', post('/auth/refresh', {}), 'MissingRefreshToken', 400],
    ['a logout without a token', post('/auth/logout', {}), 'MissingRefreshToken', 400],
    ['a logout with a bad access token', post('/auth/logout', {}, expired), 'TokenExpired', 401, /exp/],
    ['the list without a token', { url: '/auth/sessions' }, 'MissingAuthorizationHeader', 401],
    ['another session', { method: 'DELETE', url: '/auth/sessions/AAAAAAAAAAAAAAAAAAAAAA', headers: bearer(tokens.access_token) }, 'SessionNotFound', 404],
    ['a guard, of an ended session', { url: '/', headers: bearer(ended.access_token) }, 'SessionEnded', 401]
  ]
  const events = eventsOf(t, 'refused')
  for (const [list, state] of [[up, false], [down, true]] as const) {
    isDown = state
    for (const [what, request, name, statusCode, reason] of list) {
      events.length = 0
      assert.equal((await app.inject(request)).statusCode, statusCode, what)
      t.match(events, [{ instanceName: 'tokenAuth', error: { name, statusCode }, ...(reason !== undefined && { reason }) }], what)
      assert.equal(events.length, 1, what)
      for (const event of events) checkSecrecy(t, event, [...Object.values(tokens), ...Object.values(ended)], what)
    }
  }
})

/** The parts of a text that are as long as tokens, of any generation, and look like them. */
const tokensOf = (text: string): string[] => [...new Set(text.match(/[\w.-]{40,}/g))].sort()

// Promise: security/tokens-secrets-passwords
t.test('whatever becomes of a refresh token, no event and no line of the log has a token, and an answer has those that it gives alone', async (t) => {
  for (const options of [{}, { cookieSet: true, cookieStrict: false }, { debug: true, onRefusal: 'throw' }] as const) {
    const start = now()
    const setTime = setClock(t, start)
    const store = new WatchedStore()
    const lines: string[] = []
    const app = await build(t, { ...options, sessions: { store, poll: 60 } }, {
      logger: { level: 'trace', serializers: { req: requestSerializer() }, stream: { write: (line: string) => { lines.push(line) } } }
    })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
    const changes = sessionEvents(t)
    const events = [changes, eventsOf(t, 'issued'), eventsOf(t, 'refused')]
    const given: string[] = []
    /** @param n the generation of the refresh token that is answered; undefined: no token is */
    const ask = async (what: string, request: InjectOptions, statusCode: number, n?: number): Promise<Tokens> => {
      const answer = await app.inject(request)
      const { headers, body } = answer
      const found = tokensOf(JSON.stringify([headers, body]))
      t.equal(answer.statusCode, statusCode, what)
      if (n === undefined) {
        t.same(found, [], `${what}: no token`)
        return { access_token: '', refresh_token: '' }
      }
      const tokens: Tokens = answer.json()
      t.equal(generationIn(tokens.refresh_token).n, n, what)
      t.same(found, Object.values(tokens).sort(), what)
      given.push(...Object.values(tokens))
      return tokens
    }
    const refreshing = ({ refresh_token: token }: Tokens, end = '') => post('/auth/refresh', { refresh_token: token + end })
    const using = (url: string, { access_token: token }: Tokens) => ({ url, headers: options.cookieSet ? { cookie: `access_token=${token}` } : bearer(token) })

    const first = await ask('a login', post('/auth', users[0]!), 200, 0)
    const second = await ask('a rotation', refreshing(first), 200, 1)
    await ask('a copy', refreshing(first), 200, 1)
    await ask('the successor within the window', refreshing(second), 200, 1)
    setTime(start + 31)
    const third = await ask('a late exchange', refreshing(first), 200, 2)
    for (const url of ['/', '/auth/me', '/auth/sessions']) await ask(url, using(url, third), 200)
    setTime(start + 62)
    const fourth = await ask('one of two', refreshing(second), 200, 3)
    await ask('a forged token', refreshing(fourth, 'A'), 401)
    store.fail(new Error(internal))
    await ask('a store that fails', refreshing(fourth), 503)
    store.fail(null)
    await ask('a retired token', refreshing(third), 401)
    await ask('a session that has ended', refreshing(fourth), 401)
    await ask('its access token', using('/', fourth), 401)
    const other = await ask('another login', post('/auth', users[1]!), 200, 0)
    store.instead = { advance: async (_user: string, _sid: string, n: number) => ({ outcome: 'recovered', n: n + 7 }) }
    const ahead = await ask('a store that lost writes', refreshing(other), 200, 7)
    store.instead = {}
    await ask('a logout', post('/auth/logout', { refresh_token: ahead.refresh_token }), 204)
    // What was received is told as it closes.
    store.fail(new Error('read only'), ['confirm'])
    await app.close()

    t.match(changes, [
      { type: 'started' }, { type: 'refreshed', recovered: false, reissued: false }, { type: 'repeated', behind: 1 }, { type: 'repeated', behind: 0 },
      { type: 'refreshed', recovered: false, reissued: true }, { type: 'refreshed', recovered: false, reissued: false }, { type: 'reused', behind: 1 },
      { type: 'started' }, { type: 'refreshed', recovered: true, reissued: false }, { type: 'ended', reason: 'logout' }
    ])
    for (const event of events.flat()) {
      checkSecrecy(t, event, given, JSON.stringify({ ...event, request: undefined }))
      assert.deepEqual(tokensOf(textOf(event)), [], caseOf(options, event))
    }
    const logged = lines.join('')
    for (const message of ['lost writes', 'retired', 'takes no confirmations']) t.match(logged, message)
    assert.deepEqual(tokensOf(logged), [], 'the log')
  }
})

t.test('what passes is not published, nor what the verify endpoint says, nor what Fastify or the application refuses', async (t) => {
  const app = await refusing(t, {
    authenticate: async ({ body }) => {
      if (Object(body).username === 'limited') throw Object.assign(new Error(internal), { statusCode: 429 })
      return { user_id: 1 }
    }
  })
  app.get('/off', { onRequest: app.tokenAuth.protect({ doProtection: false }) }, async () => 'reached')
  const events = eventsOf(t, 'refused')
  const headers = bearer(good())
  const passing: [request: InjectOptions, statusCode: number][] = [
    [{ url: '/protect', headers }, 200], [{ url: '/redirect', headers }, 200], [{ url: '/inject', headers }, 200], [{ url: '/inject' }, 200], [{ url: '/free-inject' }, 200],
    [{ url: '/off' }, 200], [{ url: '/auth/me', headers }, 200], [{ url: '/auth/verify', headers }, 200], [{ url: '/auth/verify' }, 400],
    [{ url: '/auth/verify', headers: bearer(expired) }, 400], [post('/auth', {}), 200], [{ method: 'POST', url: '/auth', payload: 'x' }, 415],
    [{ method: 'POST', url: '/auth' }, 400], [{ url: '/nowhere' }, 404], [post('/auth', { username: 'limited' }), 429]
  ]
  for (const [request, statusCode] of passing) assert.equal((await app.inject(request)).statusCode, statusCode, JSON.stringify(request))
  t.same(events, [])
})

// Promise: security/tokens-secrets-passwords
t.test('of an error that is thrown, an event has what a client may read, and nothing that the application added to it', async (t) => {
  environment(t, 'production')
  class Denied extends AuthenticationFailed {
    readonly password = internal
    constructor () { super('Denied.', { cause: new Error(internal) }) }
  }
  const shared = new Denied()
  const errors = [shared, shared, new Denied()]
  const app = await build(t, { authenticate: () => { throw errors.shift() ?? new Error(internal) } })
  const events = eventsOf(t, 'refused')
  for (let count = 0; count < 4; count++) await login(app)
  t.equal(events.length, 4, 'also where the application throws one error again and again')
  for (const [index, event] of events.entries()) {
    checkSecrecy(t, event, [], String(index))
    t.match(event.error, index < 3 ? { message: 'Denied.', headers: { 'www-authenticate': 'Bearer realm="token-auth"' } } : { name: 'HandlerFailed' })
    assert.equal(event.error instanceof Denied, index < 3, caseOf(index))
    assert.match(String(event.error.stack), /./, caseOf(index))
    Object.assign(event.error, { message: 'changed', headers: Object.assign(event.error.headers, { changed: 'yes' }) })
  }
  t.same([shared.message, shared.headers], ['Denied.', { 'www-authenticate': 'Bearer realm="token-auth"' }])
})

// Promise: security/tokens-secrets-passwords
t.test('every access token that is issued is published once, with the user and how it came about', async (t) => {
  const { stored, ...store } = refreshStore()
  const app = await build(t, store)
  const events = eventsOf(t, 'issued')
  const { access_token: accessToken, refresh_token: refreshToken } = (await login(app)).json()
  t.equal((await app.inject(post('/auth/refresh', { refresh_token: refreshToken }, accessToken))).statusCode, 200)
  await app.tokenAuth.generateAccessToken({ user_id: 2 })
  t.same(events.map(({ request, ...event }) => ({ ...event, url: request?.url })), [
    { instanceName: 'tokenAuth', userId: 1, grant: 'authenticate', url: '/auth' },
    { instanceName: 'tokenAuth', userId: 1, grant: 'refresh', url: '/auth/refresh' },
    { instanceName: 'tokenAuth', userId: 2, grant: 'generate', url: undefined }
  ])
  for (const event of events) checkSecrecy(t, event, [accessToken, refreshToken], event.grant)
  t.notOk('request' in events[2]!)
})

t.test('with sessions a token is published after its session was stored, also that of sessions.start, under the name of its instance', async (t) => {
  const order: string[] = []
  const inner = memorySessions()
  const store: SessionStore = {
    create: async (...given) => { const result = await inner.create(...given); order.push('create'); return result },
    advance: async (...given) => { const result = await inner.advance(...given); order.push('advance'); return result },
    end: async (...given) => await inner.end(...given),
    list: async (...given) => await inner.list(...given),
    endedSince: async (...given) => await inner.endedSince(...given),
    confirm: async (...given) => await inner.confirm(...given)
  }
  const app = host(t)
  await app.register(tokenAuth, { secret, authenticate, instanceName: 'staff', sessions: { store } })
  app.post('/start', async (request, reply) => await app.staff.sessions.start(request, reply, mistyped({ user_id: 'grace' })))
  const events = eventsOf(t, 'issued')
  const listener = (event: unknown) => { order.push((event as IssuedEvent).grant) }
  subscribe('fastify-token-auth:issued', listener)
  t.teardown(() => unsubscribe('fastify-token-auth:issued', listener))
  const { refresh_token: refreshToken } = (await login(app)).json()
  await app.inject({ method: 'POST', url: '/start' })
  await app.inject(post('/auth/refresh', { refresh_token: refreshToken }))
  await app.inject(post('/auth/refresh', { refresh_token: refreshToken }))
  t.same(order, ['create', 'authenticate', 'create', 'start', 'advance', 'refresh', 'advance', 'refresh'])
  t.same(events.map(({ instanceName, userId, request }) => [instanceName, userId, request?.method]), [['staff', 1, 'POST'], ['staff', 'grace', 'POST'], ['staff', 1, 'POST'], ['staff', 1, 'POST']])
})

t.test('a token that is not issued in the end is not published', async (t) => {
  const failures: Partial<TokenAuthOptions>[] = [
    { refreshTokenEnabled: true, storeRefreshToken: async () => { throw new Error('down') }, retrieveRefreshToken: async () => undefined },
    { authenticate: () => { throw new AuthenticationFailed() } },
    { extendPayload: () => ({}) },
    { responsesClass: class extends Responses { override extendAuthenticate () { throw new Error('hook') } } },
    { sessions: { store: Object.assign(memorySessions(), { create: async () => { throw new Error('down') } }) } }
  ]
  const events = eventsOf(t, 'issued')
  for (const options of failures) assert.ok((await login(await build(t, options))).statusCode >= 400, caseOf(options))
  const app = await build(t, { refreshTokenEnabled: true, storeRefreshToken: () => {}, retrieveRefreshToken: () => 'stored' })
  t.equal((await app.inject(post('/auth/refresh', { refresh_token: 'other' }, good()))).statusCode, 401)
  await t.rejects(app.tokenAuth.generateAccessToken(mistyped({})))
  t.same(events, [])
})

t.test('without listeners nothing is created for a refusal', async (t) => {
  const app = await refusing(t)
  const headers = bearer(expired)
  const ask = async () => { for (const url of ['/protect', '/inject']) await app.inject({ url, headers }) }
  await ask()
  const made = t.capture(Refusal.prototype, 'toError', Refusal.prototype.toError)
  await ask()
  t.same(made(), [])
  const events = eventsOf(t, 'refused')
  await ask()
  t.equal(made().length, 2, 'one error for each of those that somebody listens to')
  t.equal(events.length, 2)
})

t.test('the example of docs/events.md counts, and the page has the channels and fields that there are', async (t) => {
  const page = readFileSync(new URL('../docs/events.md', import.meta.url), 'utf8')
  const programs = Array.from(page.matchAll(/^```js\n([\s\S]*?)^```/gm), ([, program = '']) => program.replace(/^import .*$/gm, ''))
  t.equal(programs.length, 2)
  const app = await build(t, { sessions: {} })
  app.get('/private', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const subscribed = new Map<string, (event: unknown) => void>()
  const subscribeUntilEnd = (name: string, listener: (event: unknown) => void) => {
    subscribed.set(name, listener)
    subscribe(name, listener)
    t.teardown(() => unsubscribe(name, listener))
  }
  for (const program of programs) await run(program, { subscribe: subscribeUntilEnd, app, Fastify, requestSerializer })
  for (const [, name = ''] of page.matchAll(/^## `([^`]+)`$/gm)) assert.ok(subscribed.has(name), name)
  t.equal(subscribed.size, 4)
  const { access_token: accessToken } = (await login(app)).json()
  await app.inject({ url: '/private?access_token=x' })
  await app.inject({ url: '/private', headers: bearer(accessToken) })
  await app.inject(post('/auth/logout', {}, accessToken))
  t.same((await app.inject('/counters')).json(), {
    'issued tokenAuth authenticate': 1,
    'session tokenAuth started': 1,
    'session tokenAuth ended': 1,
    'refused tokenAuth TOKEN_AUTH_MISSING_AUTHORIZATION_HEADER /private': 1
  })

  const members = (file: string) => new Set(Array.from(readFileSync(new URL(`../types/${file}`, import.meta.url), 'utf8').matchAll(/^ {2}(\w+)\??: |[{,] (\w+): /gm), ([, own, inline]) => own ?? inline))
  const fields = (channel: string) => {
    const [, section = ''] = page.split(`## \`fastify-token-auth:${channel}\``)
    const [body = ''] = section.split(/^## /m)
    const [, list = ''] = /^Fields:\n\n([\s\S]*?)\n\n/m.exec(body) ?? []
    return Array.from(list.matchAll(/^- `(\w+)`/gm), ([, field]) => field)
  }
  t.same(new Set([...fields('issued'), ...fields('refused'), ...fields('keys')]), members('events.ts'))
  for (const [, type = ''] of /type: ('switched'.*)$/m.exec(readFileSync(new URL('../types/events.ts', import.meta.url), 'utf8'))?.[1]?.matchAll(/'([\w-]+)'/g) ?? []) assert.ok(page.includes(`\n- \`${type}\`: `), type)
  const sessionMembers = members('sessions.ts')
  t.same(fields('session').filter((field) => !sessionMembers.has(field)), [])
  for (const [, type = ''] of readFileSync(new URL('../types/sessions.ts', import.meta.url), 'utf8').matchAll(/type: '(\w+)'/g)) t.match(page, `\n- \`${type}\`: `)
})

// Promise: security/tokens-secrets-passwords
t.test('a listener that throws changes no answer, and ends in uncaughtException', async (t) => {
  const program = `
    import { subscribe } from 'node:diagnostics_channel'
    import Fastify from 'fastify'
    import tokenAuth from ${JSON.stringify(new URL('../dist/lib/index.js', import.meta.url).href)}
    const uncaught = []
    process.on('uncaughtException', (error) => { uncaught.push(error.message) })
    for (const name of ['issued', 'refused', 'session']) subscribe('fastify-token-auth:' + name, () => { throw new Error(name) })
    const app = Fastify()
    await app.register(tokenAuth, { secret: ${JSON.stringify(secret)}, authenticate: () => ({ user_id: 1 }), sessions: {} })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
    const login = await app.inject({ method: 'POST', url: '/auth', payload: {} })
    const statuses = [login.statusCode]
    for (const token of ['x', login.json().access_token]) statuses.push((await app.inject({ url: '/', headers: { authorization: 'Bearer ' + token } })).statusCode)
    console.log(JSON.stringify({ statuses, uncaught: uncaught.sort() }))`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], { env: { PATH: process.env.PATH }, cwd: fileURLToPath(new URL('..', import.meta.url)) })
  t.same(JSON.parse(stdout), { statuses: [200, 401, 200], uncaught: ['issued', 'refused', 'session'] })
})
