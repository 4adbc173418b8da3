// @slow
import assert from 'node:assert/strict'
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifyServerOptions } from 'fastify'
import { EventEmitter, once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { handlerNames } from '../../lib/host/handlers.ts'
import tokenAuth, { AuthenticationFailed, HandlerFailed, Responses, type TokenAuthError, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, bearer, caseOf, claims, forge, holdTimers, host, login, mistyped, refreshStore, secret, together, unhandled, warnings } from '../helper.ts'

warnings(t, 'W15')

/** What an error of the host says and no client may read. */
const confession = 'connect ECONNREFUSED postgres://admin:hunter2@db.internal'

const token = forge(claims())
/** Thrown, it says nothing; written so, because nobody throws it on purpose. */
const nothing: unknown = undefined
const credentials = { username: 'ada', password: 'lovelace' }

interface Outcome { status: number, body: string, headers: Record<string, unknown> }

async function ask (app: FastifyInstance, what: 'login' | 'refresh' | 'me' | 'verify' | 'guarded' | 'scoped' | 'injected', access = token): Promise<Outcome> {
  const urls = { login: '/auth', refresh: '/auth/refresh', me: '/auth/me', verify: '/auth/verify', guarded: '/guarded', scoped: '/scoped', injected: '/injected' }
  const payloads = { login: credentials, refresh: { refresh_token: 'refresh' } }
  const isPost = what === 'login' || what === 'refresh'
  const response = await app.inject({
    method: isPost ? 'POST' : 'GET', url: urls[what], headers: what === 'login' ? {} : bearer(access), ...(isPost && { payload: payloads[what] })
  })
  return { status: response.statusCode, body: response.payload, headers: response.headers }
}

/** An application with everything that may call a handler, and a route of its own that must go on working. */
async function service (t: Test, options: Partial<TokenAuthOptions>, server: FastifyServerOptions = {}, errorHandler?: (error: TokenAuthError) => string) {
  const { stored, ...store } = refreshStore()
  stored.set(1, 'refresh')
  const app = host(t, server)
  if (errorHandler !== undefined) app.setErrorHandler<TokenAuthError>((error, _request, reply) => reply.code(500).send(errorHandler(error)))
  await app.register(tokenAuth, together({ secret, authenticate }, store, { retrieveUser: () => ({ user_id: 1 }) }, options))
  const reached: string[] = []
  const route = (name: string) => async () => { reached.push(name); return 'reached' }
  app.get('/guarded', { preHandler: app.tokenAuth.protect() }, route('guarded'))
  app.get('/scoped', { preHandler: app.tokenAuth.scoped('a') }, route('scoped'))
  app.get('/injected', app.tokenAuth.injectUser(route('injected')))
  app.get('/open', async () => 'fine')
  return { app, stored, reached }
}

/** The ways in which a function of the host goes wrong. */
const failures: Record<string, () => unknown> = {
  'throws an error': () => { throw new Error(confession) },
  'throws an error with properties': () => { throw Object.assign(new Error(confession), { statusCode: 503, password: 'hunter2' }) },
  'throws text': () => { throw confession },
  'throws nothing': () => { throw nothing },
  rejects: async () => { throw new Error(confession) },
  'rejects late': async () => { await turn(); throw new Error(confession) },
  'rejects with nothing': async () => await Promise.reject(nothing),
  'is a thenable that rejects': () => ({ then: (_: unknown, reject: (error: Error) => void) => reject(new Error(confession)) })
}

/** Every handler and hook that may be asynchronous, the requests that call it, and what it gives when nothing goes wrong. */
const handlers: [name: string, calledBy: Parameters<typeof ask>[1], good: unknown, options: (run: () => unknown) => Partial<TokenAuthOptions>][] = [
  ['authenticate', 'login', { user_id: 1 }, (fail) => ({ authenticate: mistyped(fail) })],
  ['addScopesToPayload', 'login', ['a'], (fail) => ({ scopesEnabled: true, addScopesToPayload: mistyped(fail) })],
  ['extendPayload', 'login', undefined, (fail) => ({ extendPayload: mistyped(fail) })],
  ['a custom claim', 'login', 1, (fail) => ({ customClaims: [{ key: 'tenant', setup: fail, verify: () => true }] })],
  ['generateRefreshToken', 'login', 'refresh', (fail) => ({ generateRefreshToken: mistyped(fail) })],
  ['storeRefreshToken', 'login', undefined, (fail) => ({ storeRefreshToken: mistyped(fail) })],
  ['extendAuthenticate', 'login', {}, (fail) => ({ responsesClass: class extends Responses { override extendAuthenticate () { return mistyped<object>(fail()) } } })],
  ['retrieveRefreshToken', 'refresh', 'refresh', (fail) => ({ retrieveRefreshToken: mistyped(fail) })],
  ['retrieveUser', 'refresh', { user_id: 1 }, (fail) => ({ retrieveUser: mistyped(fail) })],
  ['retrieveUser', 'me', { user_id: 1 }, (fail) => ({ retrieveUser: mistyped(fail) })],
  ['retrieveUser', 'injected', { user_id: 1 }, (fail) => ({ retrieveUser: mistyped(fail) })],
  ['extendPayload', 'refresh', undefined, (fail) => ({ extendPayload: mistyped(fail) })],
  ['extendRefresh', 'refresh', {}, (fail) => ({ responsesClass: class extends Responses { override extendRefresh () { return mistyped<object>(fail()) } } })],
  ['extendRetrieveUser', 'me', {}, (fail) => ({ responsesClass: class extends Responses { override extendRetrieveUser () { return mistyped<object>(fail()) } } })],
  ['extendVerify', 'verify', {}, (fail) => ({ responsesClass: class extends Responses { override extendVerify () { return mistyped<object>(fail()) } } })],
  ['a getter of the secret', 'guarded', secret, (fail) => ({ secret, getSecret: mistyped(fail) })],
  ['a getter of the secret', 'login', secret, (fail) => ({ secret, getSecret: mistyped(fail) })],
  ['toDict of a user', 'me', { user_id: 1 }, (fail) => ({ retrieveUser: () => mistyped({ user_id: 1, toDict: fail }) })]
]

// Promise: security/handler-host-throws
t.test('the list above has every handler and hook that may be asynchronous', async (t) => {
  const hooks = Object.getOwnPropertyNames(Responses.prototype).filter((name) => name.startsWith('extend'))
  const listed = new Set(handlers.map(([name]) => name))
  // Guards with these three are tested below, and in test/endpoints/thrown.test.ts.
  const ofGuards = ['overrideScopeValidator', 'destructureScopes', 'trusted']
  t.same([...handlerNames, ...hooks].filter((name) => !listed.has(name)).sort(), ofGuards.sort())
})

// Promise: security/handler-host-throws
// Promise: specification/handlerfailed-2
t.test('a handler, hook or getter that throws or rejects is a 500 that says nothing of it, sets no cookie, stores nothing, and works again as soon as it can', async (t) => {
  const reasons = unhandled(t)
  for (const [how, fail] of Object.entries(failures)) {
    for (const [name, request, good, optionsOf] of handlers) {
      const label = `${name} ${how}, ${request}`
      let isUp = false
      const { app, stored, reached } = await service(t, { cookieSet: true, cookieStrict: false, ...optionsOf(() => isUp ? good : fail()) })
      const { status, body, headers } = await ask(app, request)
      assert.equal(status, 500, label)
      assert.match(body, /"message":"The .+ handler failed\."/, label)
      assert.doesNotMatch(body, /hunter2|ECONNREFUSED|postgres|access_token|eyJ/, label)
      assert.equal(headers['set-cookie'], undefined, label)
      assert.deepEqual([...stored], [[1, 'refresh']], label)
      assert.deepEqual(reached, [], label)
      assert.equal((await app.inject('/open')).payload, 'fine', label)
      isUp = true
      assert.equal((await ask(app, request)).status, 200, `${label}: up again`)
    }
  }
  await turn()
  t.same(reasons, [])
})

// Promise: security/handler-host-throws
// Promise: security/tokens-logs
// Promise: specification/refusal-handler-throws
t.test('the error handler of the host gets the original as the cause, and no log of ours has its message', async (t) => {
  for (const [name, request, , optionsOf] of handlers) {
    const lines: string[] = []
    const stream = { write: (line: string) => { lines.push(line) } }
    const seen: TokenAuthError[] = []
    const errorHandler = (error: TokenAuthError) => { seen.push(error); return 'ours' }
    const { app } = await service(t, optionsOf(() => { throw new Error(confession) }), { logger: { level: 'trace', stream } }, errorHandler)
    assert.equal((await ask(app, request)).body, 'ours', name)
    assert.equal(seen.length, 1, name)
    assert.ok(seen[0] instanceof HandlerFailed, name)
    t.match(seen[0]?.cause, { message: confession }, name)
    assert.doesNotMatch(lines.join(''), /hunter2|ECONNREFUSED/, name)
    t.notMatch(lines.join(''), token.slice(-20), name)
  }
})

/** What must not be taken for an answer, by handler. */
const wrongTypes: [name: string, request: Parameters<typeof ask>[1], values: unknown[], optionsOf: (value: unknown) => Partial<TokenAuthOptions>][] = [
  ['authenticate', 'login', [undefined, null, 0, '', 'ada', true, [], [1], () => {}, Symbol('x'), 1n, {}, { user_id: '' }, { user_id: {} }, { user_id: 1.5 }, { user_id: 2 ** 53 }, { user_id: null }, { user_id: [1] }, { user_id: Number.NaN }, new Map([['user_id', 1]]), Object.create({ user_id: 1 })], (value) => ({ authenticate: () => mistyped(value) })],
  ['addScopesToPayload', 'login', [undefined, null, 1, {}, [1], ['a', null], [['a']], new Set(['a'])], (value) => ({ scopesEnabled: true, addScopesToPayload: () => mistyped(value) })],
  ['extendPayload', 'login', ['x', 1, true, [], {}, { user_id: 2, exp: 2e9 }, { user_id: 1 }, { user_id: 1, exp: 'soon' }, { user_id: 1, exp: 2e9, x: 1n }, { user_id: 1, get exp () { throw new Error(confession) } }], (value) => ({ extendPayload: () => mistyped(value) })],
  ['generateRefreshToken', 'login', [undefined, null, '', 1, {}, Buffer.from('x')], (value) => ({ generateRefreshToken: () => mistyped(value) })],
  ['extendAuthenticate', 'login', ['x', 1, true, [], { x: 1n }, { get x () { throw new Error(confession) } }, { toJSON () { throw new Error(confession) }, x: { toJSON () { throw new Error(confession) } } }], (value) => ({ responsesClass: class extends Responses { override extendAuthenticate () { return mistyped<object>(value) } } })],
  ['a user whose properties fail', 'login', [{ get user_id () { throw new Error(confession) } }, new (class { get user_id () { throw new Error(confession) } toDict () { return {} } })(), new (class { user_id = 1; get toDict () { throw new Error(confession) } })()], (value) => ({ authenticate: () => mistyped(value) })],
  ['retrieveRefreshToken', 'refresh', [1, true, {}, [], ['refresh'], Buffer.from('refresh')], (value) => ({ retrieveRefreshToken: () => mistyped(value) })],
  ['retrieveUser', 'refresh', ['x', 1, true, [], {}, { user_id: '' }, { user_id: 1.5 }], (value) => ({ retrieveUser: () => mistyped(value) })],
  ['retrieveUser', 'me', ['x', 1, true, [], { user_id: 1, x: 1n }, { user_id: 1, get x () { throw new Error(confession) } }, { user_id: 1, toDict: () => 'x' }, { user_id: 1, toDict: () => [] }, { user_id: 1, toDict: () => ({ x: 1n }) }], (value) => ({ retrieveUser: () => mistyped(value) })],
  ['retrieveUser', 'injected', ['x', 1, true, [], () => {}], (value) => ({ retrieveUser: () => mistyped(value) })],
  ['a getter of the secret', 'guarded', [undefined, null, '', ' ', 1, {}, [], true, '-----BEGIN PUBLIC KEY-----'], (value) => ({ secret, getSecret: () => mistyped(value) })],
  ['a getter of a promised secret', 'guarded', [undefined, null, '', 1, {}], (value) => ({ secret, getSecret: async () => mistyped(value) })],
  ['a getter of the leeway', 'guarded', [undefined, null, '180', -1, 1.5, Number.NaN, Promise.resolve(180)], (value) => ({ getLeeway: () => mistyped(value) })]
]

// Promise: security/handler-host-throws
t.test('a handler that gives the wrong type is a 500; no token is issued, nothing is stored, no cookie set, no route reached', async (t) => {
  const reasons = unhandled(t)
  for (const [name, request, values, optionsOf] of wrongTypes) {
    for (const [index, value] of values.entries()) {
      const label = `${name} gives wrong value ${index}`
      const { app, stored, reached } = await service(t, { cookieSet: true, cookieStrict: false, ...optionsOf(value) })
      const { status, body, headers } = await ask(app, request)
      assert.equal(status, 500, label)
      assert.doesNotMatch(body, /hunter2|eyJ|"access_token"/, label)
      assert.equal(headers['set-cookie'], undefined, label)
      assert.deepEqual([...stored], [[1, 'refresh']], label)
      assert.deepEqual(reached, [], label)
    }
  }
  await turn()
  t.same(reasons, [])
})

// Promise: security/custom-claim-extra
// Promise: specification/5-custom-claims
// Promise: specification/custom-claim-extra
t.test('of custom claims, extra verifications and scope overrides only true passes, whatever else they give or throw', async (t) => {
  const reasons = unhandled(t)
  const answers: (() => unknown)[] = [
    () => false, () => undefined, () => null, () => 1, () => 'true', () => ({}), () => Object(true), async () => true, () => Promise.reject(new Error(confession)),
    () => { throw new Error(confession) }, () => { throw nothing }
  ]
  for (const [index, answer] of answers.entries()) {
    const scoped = forge(claims({ scopes: ['a'], tenant: 1 }))
    for (const options of [
      { customClaims: [{ key: 'tenant', setup: () => 1, verify: mistyped<() => boolean>(answer) }] },
      { extraVerifications: [mistyped<() => boolean>(answer)] }
    ]) {
      const { app, reached } = await service(t, options)
      for (const request of ['guarded', 'scoped', 'injected', 'me', 'refresh'] as const) {
        const { status, body } = await ask(app, request, scoped)
        assert.equal(status, 401, `${index} ${request}`)
        assert.doesNotMatch(body, /hunter2/, caseOf(index, options, request))
      }
      assert.equal((await ask(app, 'verify', scoped)).status, 400, caseOf(index, options))
      assert.deepEqual(reached, [], caseOf(index, options))
    }
    const { app, reached } = await service(t, { overrideScopeValidator: mistyped(answer) })
    const { status, body } = await ask(app, 'scoped', scoped)
    assert.equal(status, index < 9 ? 403 : 500, `scope override ${index}`)
    assert.doesNotMatch(body, /hunter2/, caseOf(index))
    assert.deepEqual(reached, [], caseOf(index))
  }
  await turn()
  t.same(reasons, [])
})

interface Finish { resolve: (value: unknown) => void, reject: (error: Error) => void }

/** The `handlerTimeout` of hosts here: so long that none expires by itself. */
const handlerTimeout = 3_600_000

/** A function of the host that ends when the test says so; when it is called, every `handlerTimeout` expires. */
function hanging (expire: () => void) {
  const finishing: Finish[] = []
  const hang = async () => await new Promise<string>((resolve, reject) => {
    finishing.push({ resolve: (value) => resolve(mistyped(value)), reject })
    // In a later turn, as timers do.
    setImmediate(expire)
  })
  return { hang, finishing }
}

// Promise: security/handler-finish-finishes
t.test('a handler that hangs is ended by the handlerTimeout of the host; what comes late is neither stored nor sent', async (t) => {
  const reasons = unhandled(t)
  const expire = holdTimers(t, handlerTimeout)
  const endings: Record<string, (finish: Finish, good: unknown) => void> = {
    'gives its answer late': ({ resolve }, good) => resolve(good),
    'fails late': ({ reject }) => reject(new Error(confession)),
    'never ends': () => {}
  }
  for (const [ending, end] of Object.entries(endings)) {
    for (const [name, request, good, optionsOf] of handlers) {
      const label = `${name} ${ending}, ${request}`
      const { hang, finishing } = hanging(expire)
      const { app, stored, reached } = await service(t, { cookieSet: true, cookieStrict: false, ...optionsOf(hang) }, { handlerTimeout })
      const [late, other] = await Promise.all([ask(app, request), app.inject('/open')])
      assert.equal(late.status, 503, label)
      assert.equal(late.headers['set-cookie'], undefined, caseOf(ending, name))
      assert.doesNotMatch(late.body, /hunter2|eyJ/, caseOf(ending, name))
      assert.equal(other.payload, 'fine', 'other requests go on')
      assert.equal(finishing.length, 1, caseOf(ending, name))
      for (const finish of finishing) end(finish, good)
      for (let turns = 0; turns < 10; turns++) await turn()
      assert.deepEqual([...stored], [[1, 'refresh']], `${label}: nothing is stored`)
      assert.deepEqual(reached, [], label)
    }
  }
  t.same(reasons, [])
})

// Promise: security/handler-finish-finishes
t.test('what comes late is neither stored nor set while a hook of the host delays the answer of handlerTimeout', async (t) => {
  const reasons = unhandled(t)
  const expire = holdTimers(t, handlerTimeout)
  for (const [name, request, good, optionsOf] of handlers) {
    for (const isFailing of [false, true]) {
      const { hang, finishing } = hanging(expire)
      const { app, stored, reached } = await service(t, { cookieSet: true, cookieStrict: false, ...optionsOf(hang) }, { handlerTimeout })
      app.addHook('onSend', async (_request, reply) => {
        if (reply.statusCode !== 503) return
        for (const { resolve, reject } of finishing) isFailing ? reject(new Error(confession)) : resolve(good)
        for (let turns = 0; turns < 10; turns++) await turn()
      })
      const late = await ask(app, request)
      assert.equal(late.status, 503, `${name}, ${isFailing ? 'fails' : 'answers'} late`)
      assert.equal(finishing.length, 1, caseOf(name, isFailing))
      assert.equal(late.headers['set-cookie'], undefined, caseOf(name, isFailing))
      t.notMatch(late.body, confession)
      assert.deepEqual([...stored], [[1, 'refresh']], 'nothing is stored')
      assert.deepEqual(reached, [], caseOf(name, isFailing))
    }
  }
  t.same(reasons, [])
})

// Promise: security/handler-finish-finishes
t.test('what ends after the timeout of the host changes nothing of an answer that a hook of the host delays', async (t) => {
  const reasons = unhandled(t)
  const expire = holdTimers(t, handlerTimeout)
  const guard = (app: FastifyInstance) => app.tokenAuth.protect()
  for (const isFailing of [false, true]) {
    for (const path of ['/awaited', '/hook', '/injected', '/auth/verify', '/auth']) {
      const { hang, finishing } = hanging(expire)
      const refuse = async () => await hang().then(() => { throw new AuthenticationFailed() })
      const app = host(t, { handlerTimeout })
      const reached: string[] = []
      let sent = 0
      app.addHook('onSend', async (_request, reply) => {
        sent++
        if (reply.statusCode !== 503) return
        for (const { resolve, reject } of finishing) isFailing ? reject(new Error(confession)) : resolve(secret)
        for (let turns = 0; turns < 10; turns++) await turn()
      })
      await app.register(tokenAuth, path === '/auth' ? { secret, authenticate: refuse } : { getSecret: hang, authenticate })
      app.get('/awaited', { preHandler: async (request, reply) => await guard(app)(request, reply) }, async () => { reached.push('awaited') })
      app.get('/hook', { preHandler: guard(app) }, async () => { reached.push('hook') })
      app.get('/injected', app.tokenAuth.injectUser(async () => { reached.push('injected') }))
      const late = await app.inject({ method: path === '/auth' ? 'POST' : 'GET', url: path, headers: bearer(isFailing ? token : `${token}x`), ...(path === '/auth' && { payload: credentials }) })
      assert.equal(late.statusCode, 503, `${path} ${isFailing ? 'fails' : 'answers'} late`)
      t.match(late.headers['content-type'], 'application/json')
      assert.equal(late.headers['www-authenticate'], undefined, caseOf(isFailing, path))
      assert.equal(late.json().code, 'FST_ERR_HANDLER_TIMEOUT', caseOf(isFailing, path))
      assert.deepEqual([finishing.length, sent, reached], [1, 1, []], caseOf(isFailing, path))
    }
  }
  t.same(reasons, [])
})

// Promise: security/handler-finish-finishes
t.test('a guard that is waited for rejects when the timeout of the host was faster, also with a good token', async (t) => {
  const { hang, finishing } = hanging(holdTimers(t, handlerTimeout))
  const app = host(t, { handlerTimeout })
  let reached = 0
  app.addHook('onSend', async (_request, reply) => {
    if (reply.statusCode !== 503) return
    for (const { resolve } of finishing) resolve(secret)
    for (let turns = 0; turns < 10; turns++) await turn()
  })
  await app.register(tokenAuth, { getSecret: hang, authenticate })
  const guard = app.tokenAuth.protect()
  app.get('/', { preHandler: async (request, reply) => await guard(request, reply) }, async () => { reached++ })
  const late = await app.inject({ url: '/', headers: bearer(token) })
  t.same([late.statusCode, reached, finishing.length], [503, 0, 1])
})

// Promise: security/store-refresh-tokens
t.test('where a cookie cannot be made, nothing is stored and no token is given', async (t) => {
  for (const options of [{ getCookieDomain: () => '-x' }, { getCookiePath: () => 'x' }, { generateRefreshToken: () => '\ud800' }, { generateRefreshToken: () => 'x'.repeat(5000) }]) {
    const { app, stored } = await service(t, { cookieSet: true, cookieStrict: false, ...options })
    const { status, body, headers } = await ask(app, 'login')
    assert.equal(status, 500, caseOf(options))
    assert.doesNotMatch(body, /eyJ|"access_token"/, caseOf(options))
    assert.equal(headers['set-cookie'], undefined, caseOf(options))
    assert.deepEqual([...stored], [[1, 'refresh']], caseOf(options))
  }
})

// Promise: security/handler-host-throws
t.test('an error of a handler is logged once', async (t) => {
  const logged: string[] = []
  const app = host(t, { logger: { level: 'error', stream: { write: (line: string) => { logged.push(line) } } } })
  await app.register(tokenAuth, { secret, authenticate: () => { throw new Error('one') }, retrieveUser: () => { throw new Error('two') } })
  await app.inject({ method: 'POST', url: '/auth', payload: credentials })
  await app.inject({ url: '/auth/me', headers: bearer(token) })
  t.equal(logged.length, 2)
})

// Promise: security/store-refresh-tokens
// Promise: specification/store-refresh-token
t.test('the store comes first, the answer last: nothing is sent before it has stored, and nothing is set when it fails', async (t) => {
  const order: string[] = []
  let isUp = true
  const kept = new Map<unknown, string>()
  const check = async () => { await turn(); if (!isUp) throw new Error(confession) }
  const { app } = await service(t, {
    cookieSet: true,
    cookieStrict: false,
    storeRefreshToken: async (id, refreshToken) => { order.push('asked to store'); await check(); kept.set(id, refreshToken); order.push('stored') },
    retrieveRefreshToken: async (id) => { await check(); return kept.get(id) }
  })
  const first = await ask(app, 'login')
  order.push('answered')
  t.equal(first.status, 200)
  t.same(order, ['asked to store', 'stored', 'answered'])
  const before = new Map(kept)

  isUp = false
  for (const request of ['login', 'refresh'] as const) {
    const { status, body, headers } = await ask(app, request)
    assert.equal(status, 500, `${request} fails closed`)
    assert.doesNotMatch(body, /hunter2|eyJ/, request)
    assert.equal(headers['set-cookie'], undefined, request)
  }
  t.same(kept, before, 'the token of before is still the one')
  t.equal((await ask(app, 'guarded')).status, 200, 'protected routes go on')
  t.equal((await ask(app, 'verify')).status, 200)

  isUp = true
  const { refresh_token: refreshToken } = JSON.parse(first.body)
  const refreshed = await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(token), payload: { refresh_token: refreshToken } })
  t.equal(refreshed.statusCode, 200, 'it recovers without a restart')
  t.equal((await login(app)).statusCode, 200)
})

// Promise: security/store-refresh-tokens
t.test('a store that is slow or stale delays or refuses its own requests only', async (t) => {
  const waiting = new EventEmitter()
  const { app } = await service(t, { retrieveRefreshToken: async () => { waiting.emit('asked'); await once(waiting, 'over'); return 'stale' } })
  const isAsked = once(waiting, 'asked')
  const slow = ask(app, 'refresh')
  await isAsked
  t.equal((await ask(app, 'guarded')).status, 200, 'meanwhile others pass')
  waiting.emit('over')
  t.match(await slow, { status: 401, body: /AuthenticationFailed/ }, 'a stale token is refused')
})

// Promise: security/exceptionresponse-throws-rejects
t.test('an exceptionResponse that throws or rejects, with nothing even, opens no route', async (t) => {
  const reasons = unhandled(t)
  for (const thrown of [undefined, null, 0, '', false, 'text', new Error('own'), {}]) {
    for (const isAsync of [false, true]) {
      class Failing extends Responses {
        override exceptionResponse () {
          if (isAsync) return Promise.reject(thrown)
          throw thrown
        }
      }
      const { app, reached } = await service(t, { responsesClass: Failing })
      app.get('/early', { onRequest: app.tokenAuth.protect() }, async () => { reached.push('early') })
      for (const url of ['/early', '/guarded', '/scoped', '/auth/me']) {
        const response = await app.inject({ url, headers: bearer('bad') })
        assert.ok(response.statusCode >= 400, `${String(thrown)} ${url}: ${response.statusCode}`)
        assert.doesNotMatch(response.payload, /"me"|reached/, caseOf(thrown, isAsync, url))
      }
      assert.deepEqual(reached, [], caseOf(thrown, isAsync))
    }
  }
  t.same(reasons, [])
})

// Promise: security/exceptionresponse-throws-rejects
t.test('an exceptionResponse whose body cannot be written opens no route', async (t) => {
  class Unwritable extends Responses {
    override exceptionResponse (_request: FastifyRequest, _exception: TokenAuthError, _reply: FastifyReply) { return { x: 1n } }
  }
  const { app, reached } = await service(t, { responsesClass: Unwritable })
  for (const request of ['guarded', 'scoped', 'me'] as const) {
    const { status, body } = await ask(app, request, 'bad')
    assert.ok(status >= 400, request)
    assert.doesNotMatch(body, /reached|"me"/, request)
  }
  t.same(reached, [])
})

// Promise: security/getter-throws-returns
t.test('a getter that fails is 500 for its own requests and nobody else, and is asked again by the next', async (t) => {
  let calls = 0
  const { app, reached } = await service(t, {
    getLeeway: (request) => {
      calls++
      if (request.headers['x-fail'] !== undefined) throw new Error(confession)
      return 0
    }
  })
  const get = async (fail: boolean) => await app.inject({ url: '/guarded', headers: { ...bearer(token), ...(fail && { 'x-fail': '1' }) } })
  const answers = await Promise.all([true, false, true, false].map(get))
  t.same(answers.map(({ statusCode }) => statusCode), [500, 200, 500, 200])
  t.ok(answers.every(({ payload }) => !payload.includes('hunter2')))
  t.same([reached.length, calls], [2, 4])
})

// Promise: security/handler-host-throws
t.test('a key that is promised and cannot be had ends no process, also where nobody waits for it', async (t) => {
  const reasons = unhandled(t)
  const { app } = await service(t, { secret, getSecret: async () => { await turn(); throw new Error(confession) } })
  app.get('/unguarded', async (request) => {
    const readers = [() => request.tokenAuth.payload, () => app.tokenAuth.isAuthenticated(request), () => app.tokenAuth.extractScopes(request)]
    return readers.map((reader) => {
      try {
        return reader()
      } catch (error) {
        return error instanceof Error ? error.name : error
      }
    })
  })
  const response = await app.inject({ url: '/unguarded', headers: bearer(token) })
  t.same(response.json(), ['InitializationFailure', 'InitializationFailure', 'InitializationFailure'])
  for (let turns = 0; turns < 5; turns++) await turn()
  t.same(reasons, [])
})
