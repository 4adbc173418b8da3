/** The handler `trusted`: the last check of a token, which may wait. */
import assert from 'node:assert/strict'
import type { FastifyRequest, FastifyServerOptions, InjectOptions } from 'fastify'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import {
  Authentication, AuthenticationFailed, InsufficientScope, InvalidToken, KeysUnavailable, memorySessions, protect, RequiredKeysNotFound, Responses, SessionEnded,
  TokenAuthError, type RefusedEvent, type TokenAuthOptions
} from '../../lib/index.ts'
import { audience, granted, issue, issuer, jwk, keySource, trusted as trustedIssuer, until, withIssuers } from '../authorities/issuers.ts'
import { logout, refresh as refreshSession, started } from '../sessions/helper.ts'
import { bearer, build, caseOf, claims, forge, holdTimers, mistyped, now, refreshStore, secret, together, unhandled, warnings } from '../helper.ts'

warnings(t, 'W04', 'W05')

/** The handler, which may also give what TypeScript would refuse. */
type Trusted = (request: FastifyRequest, payload: Record<string, unknown>) => unknown

const token = () => forge(claims({ scopes: ['a'] }))

/** Where a token is verified, and how a request comes there. */
const doors: Record<string, InjectOptions> = {
  protect: { url: '/protect' },
  scoped: { url: '/scoped' },
  'scoped, asynchronously': { url: '/computed' },
  'a free-standing guard': { url: '/free' },
  'a guard that is waited for': { url: '/awaited' },
  injectUser: { url: '/injected' },
  me: { url: '/auth/me' },
  refresh: { method: 'POST', url: '/auth/refresh', payload: { refresh_token: 'refresh' } },
  'ready()': { url: '/ready' },
  verified: { url: '/verified' },
  'verifyToken(token, request)': { url: '/given' }
}

/** An application with a route for each door, whose handler `trusted` a test can change. */
async function service (t: Test, options: Partial<TokenAuthOptions> = {}, server: FastifyServerOptions = {}) {
  const state = { trusted: (() => true) as Trusted, calls: 0, reached: 0 }
  const { stored, ...store } = refreshStore()
  stored.set(1, 'refresh')
  const app = await build(t, together(store, {
    trusted: (...given) => {
      state.calls++
      return mistyped<boolean>(state.trusted(...given))
    }
  }, options), server)
  const { tokenAuth } = app
  const reach = () => {
    state.reached++
    return 'reached'
  }
  app.get('/protect', { onRequest: tokenAuth.protect() }, reach)
  app.get('/scoped', { onRequest: tokenAuth.scoped('a') }, reach)
  app.get('/computed', { onRequest: tokenAuth.scoped(async () => 'a') }, reach)
  app.get('/free', { preHandler: protect() }, reach)
  const guard = tokenAuth.protect()
  app.get('/awaited', async (request, reply) => {
    await guard(request, reply)
    return reach()
  })
  app.get('/injected', tokenAuth.injectUser(async () => reach()))
  app.get('/ready', async (request, reply) => {
    await request.tokenAuth.ready()
    return request.tokenAuth.payload === null ? reply.code(401).send('nobody') : reach()
  })
  app.get('/verified', { onRequest: async (request) => { await request.tokenAuth.ready() } }, async ({ tokenAuth }) => tokenAuth.verified.userId === 1 && reach())
  app.get('/given', async (request) => await tokenAuth.verifyToken(token(), request) !== null && reach())
  app.get('/reader', (request, reply) => request.tokenAuth.payload === null ? reply.code(401).send('nobody') : reach())
  return { app, state, ask: async (door: InjectOptions) => await app.inject({ ...door, headers: bearer(token()) }) }
}

const promised = (answer: unknown) => async () => answer
const throwing = (error: unknown) => () => { throw error }
const rejecting = (error: unknown) => async () => { throw error }
/** As query builders are. */
const thenable = (answer: unknown) => () => ({ then: (resolve: (value: unknown) => void) => { resolve(answer) } })

const notTrue = [false, undefined, null, 0, 1, 'true', {}, [true], Object(true), () => true]

t.test('an error that trusted throws for several requests stays as it is, and what one response says of it is in no other', async (t) => {
  const constant = Object.freeze(new InvalidToken('Blocked.', { cause: new Error('why') }))
  const seen: unknown[] = []
  const app = await build(t, { debug: true, onRefusal: 'throw', trusted: () => { throw constant } })
  app.setErrorHandler(async (error: Error, _request, reply) => {
    seen.push(error)
    return await reply.code(401).send({ message: error.message })
  })
  app.get('/constant', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  for (const user of [1, 2]) {
    t.match(await app.inject({ url: '/constant', headers: bearer(forge(claims({ user_id: user }))) }), { statusCode: 401, body: /Blocked/ })
  }
  t.match(seen, [{ message: 'Blocked.', cause: constant.cause, detail: /Blocked/ }, { message: 'Blocked.' }])
  t.equal(new Set([...seen, constant]).size, 3)
  t.ok(seen.every((error) => error instanceof InvalidToken))
})

// Promise: security/check-application-waits
// Promise: specification/trusted-2
t.test('only true, now or later, passes every door; anything else is a token that is not valid', async (t) => {
  const { app, state, ask } = await service(t)
  const asks = async (trusted: Trusted, status: number, what: string) => {
    state.trusted = trusted
    for (const [name, door] of Object.entries(doors)) {
      Object.assign(state, { calls: 0, reached: 0 })
      const response = await ask(door)
      assert.equal(response.statusCode, status, `${name}: ${what}`)
      assert.equal(state.calls, 1, `${name}: asked once`)
      if (status === 401) {
        assert.equal(state.reached, 0, name)
        if (name !== 'ready()') assert.equal(response.headers['www-authenticate'], 'Bearer realm="token-auth", error="invalid_token", error_description="Token is invalid."', name)
      }
    }
    const verified = await ask({ url: '/auth/verify' })
    t.equal(verified.statusCode, status === 200 ? 200 : 400, `verify: ${what}`)
    t.same(verified.json(), status === 200 ? { valid: true } : { valid: false, reason: 'Token is invalid.' })
  }
  for (const make of [(answer: unknown) => () => answer, promised, thenable]) {
    const kind = String(make).slice(0, 40)
    await asks(make(true), 200, `true, ${kind}`)
    for (const answer of notTrue) await asks(make(answer), 401, `${String(answer)}, ${kind}`)
  }
  t.throws(() => app.tokenAuth.verifyToken(token()), RequiredKeysNotFound)
})

// Promise: security/check-application-waits
t.test('what trusted throws, now or later: a 401 of the library refuses with its name, another error stays what it is, and anything else is 500', async (t) => {
  const { state, ask } = await service(t)
  const down = new Error('connect ECONNREFUSED postgres://admin:hunter2@db.internal')
  const nothing: unknown = undefined
  const cases: [what: string, error: unknown, status: number, name: RegExp][] = [
    ['InvalidToken', new InvalidToken('The device is blocked.', { reason: 'device' }), 401, /InvalidToken|INVALID_TOKEN/],
    ['SessionEnded', new SessionEnded(), 401, /SessionEnded|SESSION_ENDED/],
    ['AuthenticationFailed', new AuthenticationFailed(), 401, /AuthenticationFailed|AUTHENTICATION_FAILED/],
    ['another 4xx of the library', new InsufficientScope(), 403, /InsufficientScope|INSUFFICIENT_SCOPE/],
    ['503 of the library', new KeysUnavailable(), 503, /KeysUnavailable|KEYS_UNAVAILABLE/],
    ['a 4xx of the application', Object.assign(new Error('gone'), { statusCode: 410 }), 410, /gone/],
    ['an error of the application', down, 500, /The trusted handler failed/],
    ['a 5xx of the application', Object.assign(new Error('hunter2'), { statusCode: 503 }), 500, /The trusted handler failed/],
    ['a text', 'hunter2', 500, /The trusted handler failed/],
    ['nothing', nothing, 500, /The trusted handler failed/]
  ]
  for (const [what, error, status, name] of cases) {
    for (const make of [throwing, rejecting]) {
      state.trusted = make(error)
      state.reached = 0
      for (const [door, options] of Object.entries(doors)) {
        const response = await ask(options)
        assert.equal(response.statusCode, status, `${door}: ${what}`)
        if (door !== 'ready()' || status !== 401) t.match(response.payload, name, `${door}: ${what}`)
        t.notMatch(response.payload, 'hunter2')
        if (status === 401 && door !== 'ready()') assert.match(String(response.headers['www-authenticate']), /^Bearer realm="token-auth"/, caseOf(what, make, door))
      }
      const verified = await ask({ url: '/auth/verify' })
      assert.equal(verified.statusCode, status === 401 ? 400 : status, `verify: ${what}`)
      if (status === 401) t.match(verified.json(), { valid: false, reason: Object(error).message })
      assert.equal(state.reached, 0, what)
    }
  }
})

t.test('HandlerFailed has what trusted threw as its cause, and an answer of then that throws is such an error', async (t) => {
  const { app, state, ask } = await service(t)
  const errors: Error[] = []
  app.addHook('onError', async (_request, _reply, error) => { errors.push(error) })
  const down = new Error('down')
  for (const trusted of [throwing(down), rejecting(down), () => ({ get then () { throw down } }), () => ({ then: throwing(down) })]) {
    state.trusted = trusted
    assert.equal((await ask({ url: '/protect' })).statusCode, 500, caseOf(trusted))
    t.match(errors.splice(0), [{ name: 'HandlerFailed', cause: down }])
  }
})

t.test('with debug and with onRefusal, the reason that trusted gives reaches whom it should', async (t) => {
  const { state, ask } = await service(t, { debug: true })
  state.trusted = () => false
  t.equal((await ask({ url: '/protect' })).json().detail, 'the handler "trusted" did not return true (token found in the header)')
  state.trusted = throwing(new InvalidToken('Blocked.', { reason: 'the device is blocked' }))
  t.match((await ask({ url: '/protect' })).json(), { reasons: 'Blocked.', detail: 'the device is blocked (token found in the header)' })
  state.trusted = rejecting(new AuthenticationFailed('Blocked.'))
  t.match((await ask({ url: '/protect' })).json(), { reasons: 'Blocked.', detail: 'Blocked. (token found in the header)' })

  const thrown = await service(t, { onRefusal: 'throw' })
  thrown.app.setErrorHandler((error, _request, reply) => reply.code(401).send({ error: error instanceof TokenAuthError && error.code }))
  const error = new SessionEnded()
  for (const trusted of [throwing(error), rejecting(error)]) {
    thrown.state.trusted = trusted
    assert.deepEqual((await thrown.ask({ url: '/protect' })).json(), { error: 'TOKEN_AUTH_SESSION_ENDED' }, caseOf(trusted))
  }
  const extended = await service(t, { responsesClass: class extends Responses { override exceptionResponse (_request: FastifyRequest, error: TokenAuthError) { return { seen: error.name } } } })
  extended.state.trusted = rejecting(error)
  t.same((await extended.ask({ url: '/scoped' })).json(), { seen: 'SessionEnded' })
})

t.test('what is published of a refusal that trusted threw is a copy without its cause and without what was added to it', async (t) => {
  const events: RefusedEvent[] = []
  const listener = (event: unknown) => { events.push(event as RefusedEvent) }
  subscribe('fastify-token-auth:refused', listener)
  t.teardown(() => unsubscribe('fastify-token-auth:refused', listener))
  const { state, ask } = await service(t)
  const error = Object.assign(new InvalidToken('Blocked.', { cause: new Error('hunter2'), reason: 'the device is blocked' }), { note: 'hunter2' })
  for (const trusted of [throwing(error), rejecting(error)]) {
    state.trusted = trusted
    for (const url of ['/protect', '/awaited', '/injected']) {
      assert.equal((await ask({ url })).statusCode, 401, caseOf(trusted, url))
      const [event, ...others] = events.splice(0)
      assert.deepEqual(others, [], caseOf(trusted, url))
      t.match(event, { error: { name: 'InvalidToken', message: 'Blocked.', statusCode: 401, code: 'TOKEN_AUTH_INVALID_TOKEN' }, reason: 'the device is blocked' })
      assert.notEqual(event?.error, error, caseOf(trusted, url))
      assert.ok(!(event !== undefined && ('note' in event.error || event.error.cause !== undefined)), url)
    }
  }
})

// Promise: security/check-application-waits
t.test('a reader that cannot wait gets a synchronous answer, and an error that says what to do for another', async (t) => {
  const reasons = unhandled(t)
  const { state, ask } = await service(t)
  const reader = { url: '/reader' }
  for (const [trusted, status] of [[() => true, 200], [() => false, 401], [throwing(new InvalidToken()), 401], [throwing(new Error('down')), 500]] as const) {
    state.trusted = trusted
    assert.equal((await ask(reader)).statusCode, status, caseOf(trusted))
  }
  for (const trusted of [promised(true), promised(false), rejecting(new Error('down')), rejecting(new InvalidToken()), thenable(true)]) {
    state.trusted = trusted
    const response = await ask(reader)
    assert.equal(response.statusCode, 500, caseOf(trusted))
    t.match(response.json(), { code: 'TOKEN_AUTH_INITIALIZATION_FAILURE', message: /await request\.tokenAuth\.ready\(\) first/ })
  }
  await turn()
  t.same(reasons, [])
})

t.test('it is asked last, with the payload that the request has, on every request, and only about tokens that are right otherwise', async (t) => {
  const order: string[] = []
  const { app, state, ask } = await service(t, {
    customClaims: [{ key: 'tenant', setup: () => 'a', verify: (value) => { order.push('claim'); return value === 'a' } }],
    extraVerifications: [(payload) => { order.push('extra'); payload.extra = 1; return payload.banned !== true }]
  })
  const seen: unknown[] = []
  state.trusted = async (request, payload) => {
    order.push('trusted')
    seen.push(payload)
    t.equal(request.url, '/payload')
    return true
  }
  app.get('/payload', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth: { payload } }) => {
    t.equal(payload, seen.at(-1), 'no second copy')
    return payload
  })
  const get = async (payload: Record<string, unknown>) => await app.inject({ url: '/payload', headers: bearer(forge({ ...claims(), tenant: 'a', ...payload })) })
  for (let round = 0; round < 3; round++) {
    t.match((await get({ list: [1] })).json(), { tenant: 'a', list: [1], extra: 1 })
    assert.deepEqual(order.splice(0), ['claim', 'extra', 'trusted'], 'never remembered')
  }
  for (const payload of [{ exp: now() - 3600 }, { tenant: 'b' }, { banned: true }, { user_id: null }]) assert.equal((await get(payload)).statusCode, 401, caseOf(payload))
  t.notOk(order.includes('trusted'))
  t.equal((await app.inject({ url: '/payload', headers: bearer(forge(claims({ tenant: 'a' }), { key: 'x'.repeat(64) })) })).statusCode, 401)
  t.equal((await app.inject({ url: '/payload' })).statusCode, 401)
  t.equal(state.calls, 3)
  state.trusted = () => true
  t.equal((await ask({ url: '/scoped' })).statusCode, 401, 'control: this token has no tenant')
})

t.test('guards of the same rules ask once, and a guard with overrides asks again', async (t) => {
  const { app, state } = await service(t)
  const { tokenAuth } = app
  const headers = bearer(token())
  app.get('/once', { onRequest: [tokenAuth.protect(), tokenAuth.scoped('a'), protect({ redirectOnFail: true })], preHandler: tokenAuth.protect({ optional: true }) }, tokenAuth.injectUser(async ({ tokenAuth }, _reply, user) => ({ user, id: tokenAuth.userId, same: await tokenAuth.user() === user })))
  app.get('/again', { onRequest: [tokenAuth.protect(), tokenAuth.protect({ leeway: 0 })] }, async () => 'reached')
  for (const make of [() => true, promised(true)]) {
    state.trusted = make
    state.calls = 0
    assert.deepEqual((await app.inject({ url: '/once', headers })).json(), { user: { user_id: 1 }, id: 1, same: true }, caseOf(make))
    assert.equal(state.calls, 1, caseOf(make))
    assert.equal((await app.inject({ url: '/again', headers })).statusCode, 200, caseOf(make))
    assert.equal(state.calls, 3, caseOf(make))
  }
  const answers = [true, false]
  state.trusted = async () => answers.shift()
  t.equal((await app.inject({ url: '/again', headers })).statusCode, 401, 'and its answer counts')
})

// Promise: security/check-application-waits
t.test('requests at the same time get the answers to their own questions', async (t) => {
  const { app, state } = await service(t)
  const waiting: Array<() => void> = []
  state.trusted = async (_request, { user_id: id }) => {
    await new Promise<void>((resolve) => { waiting.push(resolve) })
    return Number(id) % 2 === 0
  }
  app.get('/id', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth }) => tokenAuth.userId)
  const ids = Array.from({ length: 20 }, (_, id) => id)
  const answers = Promise.all(ids.map(async (id) => await app.inject({ url: '/id', headers: bearer(forge(claims({ user_id: id }))) })))
  await until(() => waiting.length === ids.length)
  for (const go of waiting.reverse()) go()
  t.same((await answers).map(({ statusCode, payload }) => statusCode === 200 ? Number(payload) : statusCode), ids.map((id) => id % 2 === 0 ? id : 401))
})

// Promise: security/check-application-waits
t.test('one that never answers is ended by the handlerTimeout of the host, and what it answers late changes nothing', async (t) => {
  const reasons = unhandled(t)
  const handlerTimeout = 3_600_000
  const expire = holdTimers(t, handlerTimeout)
  const endings: Record<string, (ends: { resolve: (value: unknown) => void, reject: (reason: unknown) => void }) => void> = {
    'true, late': ({ resolve }) => resolve(true),
    'false, late': ({ resolve }) => resolve(false),
    'an error, late': ({ reject }) => reject(new Error('late')),
    'a refusal, late': ({ reject }) => reject(new InvalidToken()),
    never: () => {}
  }
  for (const [ending, end] of Object.entries(endings)) {
    const { state, ask } = await service(t, {}, { handlerTimeout })
    for (const [name, door] of Object.entries({ ...doors, verify: { url: '/auth/verify' } })) {
      if (['verified', 'ready()', 'verifyToken(token, request)'].includes(name)) continue
      const pending = new Promise<Parameters<typeof end>[0]>((resolve) => {
        state.trusted = async () => await new Promise((_resolve, reject) => {
          resolve({ resolve: _resolve, reject })
          setImmediate(expire)
        })
      })
      assert.equal((await ask(door)).statusCode, 503, `${name}: ${ending}`)
      end(await pending)
      for (let turns = 0; turns < 5; turns++) await turn()
    }
    assert.equal(state.reached, 0, ending)
  }
  t.same(reasons, [])
})

// Promise: security/check-application-waits
t.test('a refresh asks, also for an expired token; a refresh and a logout of sessions do not ask, and the other endpoints of sessions do', async (t) => {
  const { app, state } = await service(t)
  const refresh = async (payload: Record<string, unknown>) => await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(forge(claims(payload))), payload: { refresh_token: 'refresh' } })
  for (const make of [(answer: boolean) => () => answer, promised]) {
    for (const [answer, status] of [[true, 200], [false, 401]] as const) {
      state.trusted = make(answer)
      state.calls = 0
      for (const payload of [{}, { exp: now() - 3600 }]) assert.equal((await refresh(payload)).statusCode, status, caseOf(make, answer, payload))
      assert.equal(state.calls, 2, caseOf(make, answer))
    }
  }
  let isTrusted = true
  let calls = 0
  const cookies = { cookieSet: true, cookieStrict: false }
  for (const options of [{}, cookies]) {
    const service = await build(t, together({ secret: `${secret} of trusted ${Object.keys(options).length}`, sessions: { store: memorySessions() }, trusted: async () => { calls++; return isTrusted } }, options))
    service.get('/', { onRequest: service.tokenAuth.protect() }, async () => 'reached')
    const get = async (access: string, url = '/') => (await service.inject({ url, headers: bearer(access) })).statusCode
    const { access_token: access, refresh_token: refreshToken } = await started(service)
    assert.equal(await get(access), 200, caseOf(options))
    isTrusted = false
    calls = 0
    assert.equal(await get(access), 401, caseOf(options))
    assert.equal(await get(access, '/auth/sessions'), 401, caseOf(options))
    assert.equal((await service.inject({ method: 'DELETE', url: '/auth/sessions', headers: bearer(access) })).statusCode, 401, caseOf(options))
    assert.equal(calls, 3, caseOf(options))
    const renewed = await refreshSession(service, refreshToken, bearer(access))
    assert.equal(renewed.statusCode, 200, caseOf(options))
    assert.equal((await logout(service, undefined, bearer(access))).statusCode, 204, caseOf(options))
    assert.equal(calls, 3, 'not asked')
    isTrusted = true
    t.match((await service.inject({ url: '/', headers: bearer(renewed.json().access_token) })).json(), { exception: 'SessionEnded' }, 'the logout has ended the session')
    assert.equal(calls, 3, 'an ended session is refused before')
  }
})

t.test('tokens of trusted issuers are asked about too, and whoever decides about them mixes no users: no W21', async (t) => {
  const given = warnings(t)
  const seen: unknown[] = []
  const app = await withIssuers(t, trustedIssuer(), { secret, authMode: true, trusted: async (_request, { iss, sub }) => { seen.push([iss, sub]); return sub === 'user-1' } })
  const get = async (headers: Record<string, string>) => (await app.inject({ url: '/', headers })).statusCode
  t.equal(await get(bearer(issue('a'))), 200)
  t.equal(await get(bearer(issue('a', granted({ sub: 'user-2' })))), 401)
  t.equal(await get(bearer(forge(claims({ sub: 'user-1' })))), 200)
  t.same(seen, [[issuer, 'user-1'], [issuer, 'user-2'], [undefined, 'user-1']])
  t.same(given, [])
})

t.test('while the key of an issuer is fetched, a reader takes the token for invalid, and one that awaits ready() gets the answer of trusted', async (t) => {
  const { state: source, jwks } = keySource([jwk('b', { which: 1 })])
  let isTrusted = true
  const app = await withIssuers(t, trustedIssuer({ jwks, audience }), { secret: undefined, trusted: async () => isTrusted })
  const values: unknown[] = []
  app.get('/reader', async ({ tokenAuth }, reply) => {
    values.push(tokenAuth.payload, tokenAuth.userId)
    await tokenAuth.ready()
    return tokenAuth.payload === null ? reply.code(401).send() : String(tokenAuth.userId)
  })
  source.keys = [jwk('a')]
  const fetched = await app.inject({ url: '/reader', headers: bearer(issue('a')) })
  t.same([fetched.statusCode, fetched.payload], [200, 'user-1'])
  t.same(values.splice(0), [null, null])
  t.equal(source.calls, 2)
  const known = await app.inject({ url: '/reader', headers: bearer(issue('a')) })
  t.match(known.json(), { code: 'TOKEN_AUTH_INITIALIZATION_FAILURE' }, 'its key is known, so the application must wait for trusted')
  isTrusted = false
  t.equal((await app.inject({ url: '/', headers: bearer(issue('a')) })).statusCode, 401)
})

t.test('reading request.tokenAuth inside of trusted or a getter is an error that says so, and no recursion', async (t) => {
  const reads: Array<(request: FastifyRequest) => unknown> = [({ tokenAuth }) => tokenAuth.payload, ({ tokenAuth }) => tokenAuth.verified, ({ tokenAuth }) => tokenAuth.signal, (request) => request.server.tokenAuth.isAuthenticated(request)]
  const { state, ask } = await service(t)
  const message = /request\.tokenAuth was read by a function that helps to verify its token, such as "trusted" or a getter\. Use the parameters of the function\./
  const said = async (url: string) => (await ask({ url })).payload.replaceAll('\\', '')
  for (const read of reads) {
    for (const trusted of [(request: FastifyRequest) => read(request) !== null, async (request: FastifyRequest) => read(request) !== null]) {
      state.trusted = trusted
      for (const url of ['/protect', '/injected', '/ready']) t.match(await said(url), message, url)
    }
  }
  for (const wait of [async ({ tokenAuth }: FastifyRequest) => { await tokenAuth.ready() }, async ({ tokenAuth }: FastifyRequest) => await tokenAuth.user()]) {
    state.trusted = wait
    t.match(await said('/protect'), message)
  }
  state.trusted = async (request) => {
    await turn()
    return request.tokenAuth.payload !== null
  }
  t.match(await said('/protect'), /in "trusted" itself, use the parameters\./)

  for (const getter of [{ getLeeway: ({ tokenAuth }: FastifyRequest) => tokenAuth.userId === 1 ? 1 : 2 }, { secret: undefined, getSecret: ({ tokenAuth }: FastifyRequest) => String(tokenAuth.userId) }]) {
    const computed = await build(t, getter)
    computed.get('/', { onRequest: computed.tokenAuth.protect() }, async () => 'reached')
    const response = await computed.inject({ url: '/', headers: bearer(token()) })
    assert.equal(response.statusCode, 500, caseOf(getter))
    t.match(response.json().reasons, message)
  }
})

t.test('trusted may be a method of the authentication class, whose properties it reads, and the option wins', async (t) => {
  class Members extends Authentication {
    readonly blocked = new Set<unknown>([2])
    override authenticate () { return { user_id: 1 } }
    override async trusted (_request: FastifyRequest, { user_id: id }: Record<string, unknown>) { return !this.blocked.has(id) }
  }
  for (const [options, statuses] of [[{}, [200, 401]], [{ trusted: () => true }, [200, 200]], [{ trusted: () => false }, [401, 401]]] as const) {
    const app = await build(t, { authenticate: undefined, authenticationClass: Members, ...options })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
    const status = async (id: number) => (await app.inject({ url: '/', headers: bearer(forge(claims({ user_id: id }))) })).statusCode
    assert.deepEqual([await status(1), await status(2)], statuses, caseOf(options))
  }
})

t.test('verifyToken with a request asks the getters and trusted, and never looks at the token of the request itself', async (t) => {
  const seen: unknown[] = []
  const app = await build(t, {
    secret: undefined,
    getSecret: ({ headers }) => `${String(headers.tenant)} ${secret}`,
    trusted: async (request, payload) => { seen.push([request.headers.tenant, payload.user_id]); return payload.user_id !== 3 }
  })
  const of = (id: number, tenant = 'a') => forge(claims({ user_id: id, list: [1] }), { key: `${tenant} ${secret}` })
  app.get('/', async (request) => {
    const verify = async (given: unknown) => await app.tokenAuth.verifyToken(mistyped<string>(given), request).then(({ user_id: id }) => id, ({ name }) => name)
    const answers = []
    for (const given of [of(2), of(2, 'b'), of(3), 'x.y.z', '', undefined, 5]) answers.push(await verify(given))
    const [first, second] = await Promise.all([app.tokenAuth.verifyToken(of(4), request), app.tokenAuth.verifyToken(of(4), request)])
    t.not(first.list, second.list, 'each a copy')
    return answers
  })
  for (const headers of [{ tenant: 'a' }, { tenant: 'a', ...bearer('garbage') }, { tenant: 'a', ...bearer(of(1)) }]) {
    assert.deepEqual((await app.inject({ url: '/', headers })).json(), [2, 'InvalidToken', 'InvalidToken', 'InvalidToken', 'InvalidToken', 'InvalidToken', 'InvalidToken'], caseOf(headers))
    assert.deepEqual(seen.splice(0), [['a', 2], ['a', 3], ['a', 4], ['a', 4]], caseOf(headers))
  }
})

t.test('verifyToken with a request keeps to the rules of the registration, whatever guard the request has met, and changes nothing of what the guard found', async (t) => {
  const app = await build(t, { trusted: () => true })
  const old = forge(claims({ user_id: 2, exp: now() - 600 }))
  app.get('/', { onRequest: app.tokenAuth.protect({ leeway: 3600 }) }, async (request) => {
    const verdict = await app.tokenAuth.verifyToken(old, request).then(() => 'accepted', ({ name }) => name)
    const other = await app.tokenAuth.verifyToken(forge(claims({ user_id: 3 })), request)
    return [verdict, other.user_id, request.tokenAuth.userId]
  })
  t.same((await app.inject({ url: '/', headers: bearer(old) })).json(), ['TokenExpired', 3, 2])
})

t.test('without trusted nothing is asked for: a guard and a reader read no property of the handlers', async (t) => {
  const { app } = await service(t, { trusted: undefined })
  app.get('/quiet', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth }) => tokenAuth.userId)
  await app.ready()
  const pollution = { get () { throw new Error('read') }, configurable: true }
  Reflect.defineProperty(Object.prototype, 'trusted', pollution)
  try {
    const response = await app.inject({ url: '/quiet', headers: bearer(token()) })
    t.same([response.statusCode, response.payload], [200, '1'])
    t.match(app.tokenAuth.verifyToken(token()), { user_id: 1 })
  } finally {
    Reflect.deleteProperty(Object.prototype, 'trusted')
  }
})

t.test('a polluted prototype does not trust a token', async (t) => {
  const { state, ask } = await service(t)
  for (const value of [true, 'x', {}]) {
    Object.assign(Object.prototype, { trusted: value, optional: true, isOptional: true, refusal: null })
    try {
      for (const answer of [false, undefined, {}]) {
        for (const trusted of [() => answer, promised(answer)]) {
          state.trusted = trusted
          assert.equal((await ask({ url: '/protect' })).statusCode, 401, caseOf(value))
        }
      }
    } finally {
      for (const name of ['trusted', 'optional', 'isOptional', 'refusal']) Reflect.deleteProperty(Object.prototype, name)
    }
  }
})
