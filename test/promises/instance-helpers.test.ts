import assert from 'node:assert/strict'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { generateKeyPairSync, KeyObject } from 'node:crypto'
import t, { type Test } from 'tap'
import {
  HandlerFailed, InvalidCustomClaim, InvalidToken, InvalidUserObject, MissingRegisteredClaim, RefreshTokenNotImplemented, RequiredKeysNotFound, TokenExpired,
  type CustomClaim, type TokenAuthOptions, type TokenAuthInstance
} from '../../lib/index.ts'
import { algorithms, bearer, build, caseOf, claims, forge, headerOf, keysFor, login, mistyped, now, otherSecret, payloadOf, refreshStore, secret, setClock, together, warnings } from '../helper.ts'

warnings(t, 'W03', 'W04', 'W05', 'W06')

const user = { user_id: 1, name: 'ada' }

const claim = (key: string, value: unknown): CustomClaim => ({ key, setup: () => value, verify: (given) => given === value })

/** Calls something of an instance with the request of a route, and gives its outcome. */
async function during<T> (app: FastifyInstance, request: { headers?: Record<string, string>, query?: Record<string, string> }, call: (request: FastifyRequest) => T | Promise<T>): Promise<T> {
  const outcomes: (() => T)[] = []
  app.addHook('onRequest', async (request) => {
    try {
      const outcome = await call(request)
      outcomes.push(() => outcome)
    } catch (error) {
      outcomes.push(() => { throw error })
    }
  })
  // The not-found handler of Fastify would write the address into the log, with a token of its query string.
  app.get('/', async () => {})
  await app.inject({ url: '/', ...request })
  const [outcome] = outcomes
  if (outcome === undefined) throw new Error('the hook did not run')
  return outcome()
}

// Promise: specification/algorithm-2
// Promise: specification/twelve-algorithms
t.test('generateAccessToken makes a token that its instance accepts, with every algorithm', async (t) => {
  for (const algorithm of algorithms) {
    const app = await build(t, keysFor(algorithm))
    const token = await app.tokenAuth.generateAccessToken(user)
    assert.equal(headerOf(token).alg, algorithm, algorithm)
    assert.deepEqual(app.tokenAuth.verifyToken(token), payloadOf(token), algorithm)
  }
})

// Promise: specification/generateaccesstoken-2
// Promise: specification/iss-aud
// Promise: specification/nbf-2
t.test('a generated token says what the settings of the registration say', async (t) => {
  const at = 1_700_000_000
  setClock(t, at + 0.9)
  const cases: [options: Partial<TokenAuthOptions>, payload: object][] = [
    [{}, { user_id: 1, exp: at + 1800 }],
    [{ verifyExp: false }, { user_id: 1 }],
    [{ expirationDelta: 60, claimIat: true, claimNbf: true, claimNbfDelta: 0 }, { user_id: 1, exp: at + 60, nbf: at, iat: at }],
    [{ claimIss: 'us', claimAud: 'them' }, { user_id: 1, exp: at + 1800, iss: 'us', aud: 'them' }],
    [{ scopesEnabled: true, addScopesToPayload: async () => ['a'] }, { user_id: 1, exp: at + 1800, scopes: ['a'] }],
    [{ userId: 'name' }, { name: 'ada', exp: at + 1800 }]
  ]
  for (const [options, payload] of cases) {
    const app = await build(t, options)
    assert.deepEqual(payloadOf(await app.tokenAuth.generateAccessToken(user)), payload, caseOf(options))
  }
})

t.test('customClaims and extendPayload of one call are added to those of the registration, in their order', async (t) => {
  class Desk implements CustomClaim {
    key = 'desk'
    setup () { return 7 }
    verify (value: unknown) { return value === 7 }
  }
  const app = await build(t, {
    customClaims: [claim('registered', true)],
    extendPayload: (payload) => ({ ...payload, order: ['registration'] }),
    scopesEnabled: true,
    addScopesToPayload: () => 'a'
  })
  const token = await app.tokenAuth.generateAccessToken(user, {
    customClaims: [Desk, claim('extra', 'x')],
    extendPayload: async (payload, given) => {
      t.equal(given, user)
      t.equal(payload.scopes, undefined, 'scopes come last')
      Object(payload.order).push('call')
    }
  })
  t.match(app.tokenAuth.verifyToken(token), { registered: true, desk: 7, extra: 'x', order: ['registration', 'call'], scopes: ['a'], user_id: 1 })
  t.notMatch(Object.keys(payloadOf(await app.tokenAuth.generateAccessToken(user))), ['desk', 'extra'], 'the next token is without them')
})

t.test('the option scopes of generateAccessToken replaces the result of addScopesToPayload, and null means none', async (t) => {
  const app = await build(t, { scopesEnabled: true, addScopesToPayload: () => 'a' })
  const scopesOf = async (scopes?: string[] | null) => payloadOf(await app.tokenAuth.generateAccessToken(user, { scopes })).scopes
  t.strictSame([await scopesOf(), await scopesOf(['b']), await scopesOf([]), await scopesOf(null)], [['a'], ['b'], [], undefined])
})

t.test('generateAccessToken makes no token for who is no user, nor from spoiled additions', async (t) => {
  const app = await build(t)
  const { tokenAuth: auth } = app
  for (const nobody of [undefined, null, 'ada', 5, [], [1], {}, { user_id: '' }, { user_id: null }, { user_id: 1.5 }, { user_id: NaN }, { user_id: {} }, Object.create({ user_id: 1 })]) {
    await t.rejects(auth.generateAccessToken(mistyped(nobody)), InvalidUserObject, JSON.stringify(nobody))
  }
  const original = new Error('x')
  const spoiled: [additions: Parameters<TokenAuthInstance['generateAccessToken']>[1], error: unknown][] = [
    [{ extendPayload: (payload) => ({ ...payload, user_id: 2 }) }, MissingRegisteredClaim],
    [{ extendPayload: () => ({ user_id: 1 }) }, MissingRegisteredClaim],
    [{ extendPayload: (payload) => ({ ...payload, exp: 'soon' }) }, MissingRegisteredClaim],
    [{ extendPayload: (payload) => { delete payload.exp } }, MissingRegisteredClaim],
    [{ extendPayload: mistyped(() => 'payload') }, HandlerFailed],
    [{ extendPayload: () => { throw original } }, { name: 'HandlerFailed', cause: original }],
    [{ customClaims: [claim('exp', 1)] }, InvalidCustomClaim],
    [{ customClaims: [claim('user_id', 1)] }, InvalidCustomClaim],
    [{ customClaims: [mistyped({ key: 'x' })] }, InvalidCustomClaim],
    [{ customClaims: [claim('lost', undefined)] }, MissingRegisteredClaim],
    [{ customClaims: [claim('lost', 1)], extendPayload: (payload) => { delete payload.lost } }, MissingRegisteredClaim]
  ]
  for (const [additions, error] of spoiled) await t.rejects(auth.generateAccessToken(user, additions), Object(error))
})

t.test('where settings are computed from requests, generateAccessToken needs one and verifyToken cannot do', async (t) => {
  let asked = 0
  const options: Partial<TokenAuthOptions> = { getClaimIss: (request) => { asked++; return String(request.headers.tenant) }, getSecret: async (request) => request.headers.tenant === 'a' ? secret : otherSecret }
  const app = await build(t, options)
  await t.rejects(app.tokenAuth.generateAccessToken(user), RequiredKeysNotFound)
  t.throws(() => app.tokenAuth.verifyToken(forge(claims())), RequiredKeysNotFound)
  for (const [tenant, key] of [['a', secret], ['b', otherSecret]] as const) {
    const tenantApp = await build(t, options)
    asked = 0
    const token = await during(tenantApp, { headers: { tenant } }, (request) => tenantApp.tokenAuth.generateAccessToken(user, { request }))
    assert.equal(asked, 1, tenant)
    assert.deepEqual(payloadOf(token).iss, tenant, tenant)
    const verifier = await build(t, { secret: key })
    assert.deepEqual(verifier.tokenAuth.verifyToken(token), payloadOf(token), tenant)
  }
})

const builtIn = new Set<object | null>([null, ...[Object, Function, Array, Map, Set, WeakMap, Promise, RegExp, Error, Date, Uint8Array].map(({ prototype }) => prototype)])

/** Everything that properties, symbols, accessors, and functions without parameters lead to in a few steps, from some objects on. */
function reachable (start: readonly unknown[], isForeign: (value: object) => boolean, steps = 6): unknown[] {
  const seen = new Set<unknown>(start)
  let latest = [...start]
  for (let step = 0; step < steps; step++) {
    const found: unknown[] = []
    for (const value of latest) {
      if ((typeof value !== 'object' && typeof value !== 'function') || value === null || isForeign(value)) continue
      for (let level: object | null = value; !builtIn.has(level); level = Object.getPrototypeOf(level)) {
        for (const key of Reflect.ownKeys(Object(level))) {
          const { get, value: member } = Object.getOwnPropertyDescriptor(Object(level), key)!
          found.push(member)
          const isCallable = typeof member === 'function' && member.length === 0 && key !== 'constructor'
          try {
            const outcome: unknown = isCallable ? Reflect.apply(member, value, []) : get?.call(value)
            if (outcome instanceof Promise) outcome.catch(() => {})
            found.push(outcome)
          } catch {}
        }
      }
    }
    latest = found.filter((value) => !seen.has(value))
    for (const value of latest) seen.add(value)
  }
  return [...seen]
}

// Promise: security/key-material-read
t.test('no property, symbol or method of an instance, nor what a request keeps, leads to key material', async (t) => {
  const canary = 'a secret that nobody may find: 0123456789 0123456789'
  const isSecret = (value: unknown) => (typeof value === 'string' && value.includes(canary)) || (Buffer.isBuffer(value) && value.includes(canary)) ||
    (value instanceof KeyObject && value.type !== 'public')
  const cases: Partial<TokenAuthOptions>[] = [{ secret: canary }, { secret: undefined, getSecret: async () => canary }, { secret: undefined, getSecret: () => canary, getLeeway: () => 1 }, { ...keysFor('ES256'), secret: undefined }]
  for (const options of cases) {
    const app = await build(t, options)
    const guard = app.tokenAuth.protect({ secret: canary, algorithm: 'HS256' })
    const kept = await during(app, { headers: bearer(forge(claims(), { key: canary })) }, async (request) => {
      await request.tokenAuth.ready()
      const isFastify = (value: object) => value === app || value === request || value === request.raw || value === request.server
      // The slot of this library; the others are Fastify's.
      const slots = Object.getOwnPropertySymbols(request).filter(({ description }) => description === 'token-auth')
      return reachable([app.tokenAuth, guard, request.tokenAuth, ...slots.map((symbol) => Reflect.get(request, symbol))], isFastify)
    })
    assert.ok(kept.length > 50, 'the walk finds something')
    assert.ok(kept.some((value) => Object(value).constructor.name === 'RequestState'), 'what is internal too')
    assert.deepEqual(kept.filter(isSecret), [], caseOf(options))
  }
})

// Promise: security/key-material-read
t.test('the results of getters cannot be read, or set in advance, by code that has not the getters themselves', async (t) => {
  const app = await build(t, { secret: undefined, getSecret: () => secret, getDoProtection: () => true, getLeeway: () => 1 })
  const found: unknown[] = []
  const resultsOf = (value: object) => Object.getOwnPropertySymbols(value).map((symbol) => Reflect.get(Reflect.get(value, symbol), 'results')).filter((results) => typeof Object(results).get === 'function')
  app.addHook('onRequest', async (request) => {
    for (const results of resultsOf(request.tokenAuth.settings)) results.get('doProtection', () => false)
  })
  app.addHook('onSend', async (request) => {
    for (const results of resultsOf(request.tokenAuth.settings)) found.push(results.get('secret', () => 'not the secret'))
  })
  app.get('/', { preHandler: app.tokenAuth.protect() }, async () => 'reached')
  t.equal((await app.inject('/')).statusCode, 401)
  t.equal((await app.inject({ url: '/', headers: bearer(forge(claims())) })).body, 'reached')
  t.ok(found.length > 0)
  t.ok(found.every((value) => value === 'not the secret'))
})

// Promise: security/setting-getter-computes
t.test('verifyToken accepts nothing under a setting that only a request can compute', async (t) => {
  const soon = now() - 60
  const stricter: [computed: Partial<TokenAuthOptions>, otherwise: Partial<TokenAuthOptions>, token: string][] = [
    [{ getClaimIss: () => 'here' }, {}, forge(claims({ iss: 'there' }))],
    [{ getClaimAud: () => 'us' }, {}, forge(claims({ aud: 'them' }))],
    [{ getClaimNbf: () => true }, {}, forge(claims())],
    [{ getLeeway: () => 0 }, {}, forge(claims({ exp: soon }))],
    [{ getVerifyExp: () => true }, { verifyExp: false }, forge({ user_id: 1 })],
    [{ getUserId: () => 'id' }, {}, forge(claims())],
    [{ getAlgorithm: () => 'HS512' }, {}, forge(claims())],
    [{ getSecret: () => otherSecret }, {}, forge(claims())],
    [{ getPublicKey: () => otherSecret }, { secret: undefined }, forge(claims())],
    [{ getTokenCacheSize: () => 0 }, {}, forge(claims())]
  ]
  for (const [computed, otherwise, token] of stricter) {
    const [getter = ''] = Object.keys(computed)
    if (otherwise.secret === undefined && !('secret' in otherwise)) {
      const { tokenAuth: without } = await build(t, otherwise)
      t.match(without.verifyToken(token), {}, `${getter}: the token is accepted without it`)
    }
    const { tokenAuth: auth } = await build(t, together(otherwise, computed))
    t.throws(() => auth.verifyToken(token), { name: 'RequiredKeysNotFound', message: new RegExp(`^"${getter}" needs a request`) }, getter)
  }
})

t.test('getters that do not concern tokens keep nobody from making and verifying one without a request', async (t) => {
  const app = await build(t, { getDebug: () => true, getCookieSet: () => false })
  const token = await app.tokenAuth.generateAccessToken(user)
  t.match(app.tokenAuth.verifyToken(token), { user_id: 1 })
})

t.test('extendPayload may give registered claims other values of their type, for another issuer or audience say', async (t) => {
  const app = await build(t, { claimIss: 'here', claimAud: 'us' })
  const token = await app.tokenAuth.generateAccessToken(user, { extendPayload: (payload) => ({ ...payload, iss: 'there', aud: ['them', 'us'] }) })
  t.match(payloadOf(token), { iss: 'there', aud: ['them', 'us'] })
  for (const spoiled of [{ iss: 1 }, { aud: [1] }, { aud: {} }]) {
    await t.rejects(app.tokenAuth.generateAccessToken(user, { extendPayload: (payload) => ({ ...payload, ...spoiled }) }), MissingRegisteredClaim)
  }
})

t.test('a custom claim of one call must not have the name of one of the registration', async (t) => {
  const app = await build(t, { customClaims: [claim('level', 1)] })
  await t.rejects(app.tokenAuth.generateAccessToken(user, { customClaims: [claim('level', 2)] }), InvalidCustomClaim)
})

t.test('an instance without the key to sign says so', async (t) => {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const app = await build(t, { algorithm: 'ES256', publicKey, secret: undefined, authMode: false })
  await t.rejects(app.tokenAuth.generateAccessToken(user), RequiredKeysNotFound)
})

t.test('to make a token for a request does not change whom the request is taken for', async (t) => {
  let asked = 0
  const app = await build(t, { getExpirationDelta: () => { asked++; return 60 } })
  app.get('/', { preHandler: app.tokenAuth.protect({ cookieSet: true }) }, async (request) => {
    const before = [request.tokenAuth.userId, request.tokenAuth.settings.cookieSet]
    const tokens = [await app.tokenAuth.generateAccessToken(user, { request }), await app.tokenAuth.generateAccessToken(user, { request })]
    return { before, after: [request.tokenAuth.userId, request.tokenAuth.settings.cookieSet], lifetimes: tokens.map((token) => Number(payloadOf(token).exp) - now() <= 60) }
  })
  const headers = { ...bearer(forge(claims({ user_id: 'header' }))), cookie: `access_token=${forge(claims({ user_id: 'cookie' }))}` }
  t.same((await app.inject({ url: '/', headers })).json(), { before: ['cookie', true], after: ['cookie', true], lifetimes: [true, true] })
  t.equal(asked, 1, 'a getter runs once for a request')
})

// Promise: specification/generaterefreshtoken-2
// Promise: specification/refresh-token
t.test('generateRefreshToken makes a token, stores it for the user, and gives it', async (t) => {
  const { stored, ...store } = refreshStore()
  const app = await build(t, store)
  const tokens: string[] = []
  await during(app, {}, async (request) => {
    for (const given of [{ user_id: 1 }, { user_id: 'two' }]) tokens.push(await app.tokenAuth.generateRefreshToken(request, given))
  })
  t.same([...stored], [[1, tokens[0]], ['two', tokens[1]]])
  t.not(tokens[0], tokens[1])
  for (const token of tokens) assert.match(token, /^[\w-]{43,}$/, 'no less than 256 bits')
})

t.test('generateRefreshToken stores for the user whom a refresh will look for, whatever the guard of the route overrides', async (t) => {
  const { stored, ...store } = refreshStore()
  const app = await build(t, store)
  const user = { user_id: 7, email: 'ada@example.org' }
  app.get('/', { preHandler: app.tokenAuth.protect({ doProtection: false, userId: 'email' }) }, async (request) => ({
    refreshToken: await app.tokenAuth.generateRefreshToken(request, user), token: await app.tokenAuth.generateAccessToken(user, { request })
  }))
  const { refreshToken, token } = (await app.inject('/')).json()
  t.same([...stored], [[7, refreshToken]])
  t.equal(payloadOf(token).user_id, 7)
})

// Promise: specification/generate-refresh-token
t.test('generateRefreshToken uses the generator of the registration, or the one computed for the request', async (t) => {
  const { stored, ...store } = refreshStore()
  const generators: Partial<TokenAuthOptions>[] = [
    { generateRefreshToken: (request, { user_id: id }) => `${request.url} ${String(id)}` },
    { generateRefreshToken: async (request, { user_id: id }) => `${request.url} ${String(id)}` },
    { getGenerateRefreshToken: (request) => (_request, { user_id: id }) => `${request.url} ${String(id)}` }
  ]
  for (const options of generators) {
    const app = await build(t, together(store, options))
    assert.equal(await during(app, {}, (request) => app.tokenAuth.generateRefreshToken(request, user)), '/ 1', caseOf(options))
    assert.equal(stored.get(1), '/ 1', caseOf(options))
    stored.clear()
  }
})

t.test('no refresh token is stored where the generator, the user or the store is not right', async (t) => {
  const original = new Error('down')
  const { stored, ...store } = refreshStore()
  const cases: [options: Partial<TokenAuthOptions>, given: unknown, error: unknown][] = [
    ...['', undefined, null, 5, {}].map((wrong): [Partial<TokenAuthOptions>, unknown, unknown] => [{ generateRefreshToken: mistyped(() => wrong) }, user, { name: 'HandlerFailed' }]),
    [{ generateRefreshToken: () => { throw original } }, user, { name: 'HandlerFailed', cause: original }],
    [{ getGenerateRefreshToken: mistyped(() => 'no function') }, user, { name: 'HandlerFailed' }],
    [{}, { name: 'nobody' }, { name: 'InvalidUserObject' }],
    [{}, null, { name: 'InvalidUserObject' }],
    [{ storeRefreshToken: () => { throw original } }, user, { name: 'HandlerFailed', cause: original }]
  ]
  for (const [options, given, error] of cases) {
    const app = await build(t, together(store, options))
    await t.rejects(during(app, {}, (request) => app.tokenAuth.generateRefreshToken(request, mistyped(given))), Object(error))
    assert.equal(stored.size, 0, caseOf(options))
  }
  const without = await build(t)
  await t.rejects(during(without, {}, (request) => without.tokenAuth.generateRefreshToken(request, user)), RefreshTokenNotImplemented)
})

// Promise: specification/extra-verifications
// Promise: specification/tokenexpired-2
// Promise: specification/tokennotactive-2
// Promise: specification/verifytoken-2
t.test('verifyToken gives a payload of its own, or throws what is wrong', async (t) => {
  const app = await build(t, { customClaims: [claim('kind', 'x')], extraVerifications: [(payload) => payload.blocked !== true] })
  const good = forge(claims({ kind: 'x', list: [1] }))
  const payload = app.tokenAuth.verifyToken(good)
  payload.user_id = 'changed'
  Object(payload.list).push(2)
  t.match(app.tokenAuth.verifyToken(good), { user_id: 1, list: [1] })
  const bad: [token: unknown, error: { name: string }][] = [
    ['', InvalidToken], ['a.b.c', InvalidToken], [undefined, InvalidToken], [null, InvalidToken], [5, InvalidToken], [{}, InvalidToken], [[good], InvalidToken], [Buffer.from(good), InvalidToken],
    [`Bearer ${good}`, InvalidToken], [` ${good}`, InvalidToken],
    [forge(claims({ kind: 'x' }), { key: otherSecret }), InvalidToken],
    [forge(claims({ kind: 'x', exp: 1 })), TokenExpired],
    [forge(claims({ kind: 'x', nbf: now() + 3600 })), { name: 'TokenNotActive' }],
    [forge(claims()), { name: 'InvalidClaim' }],
    [forge(claims({ kind: 'y' })), { name: 'InvalidClaim' }],
    [forge(claims({ kind: 'x', blocked: true })), { name: 'InvalidClaim' }]
  ]
  for (const [token, error] of bad) t.throws(() => app.tokenAuth.verifyToken(mistyped(token)), error)
})

interface Reading { authenticated: boolean, payload: unknown, userId: unknown, scopes: unknown, token: string | null, source: string | null, user: unknown }

async function read (t: Test, options: Partial<TokenAuthOptions>, request: { headers?: Record<string, string>, query?: Record<string, string> }): Promise<Reading> {
  const app = await build(t, options)
  return await during(app, request, async (given) => {
    const { tokenAuth: auth } = app
    await given.tokenAuth.ready()
    const { token, source, payload, userId, scopes } = given.tokenAuth
    const reading = { payload: auth.extractPayload(given), userId: auth.extractUserId(given), scopes: auth.extractScopes(given) }
    t.same(reading, { payload, userId, scopes }, 'the instance and the request say the same')
    return { authenticated: auth.isAuthenticated(given), ...reading, token, source, user: await given.tokenAuth.user() }
  })
}

// Promise: specification/isauthenticated-extractpayload-extractuserid
t.test('without any guard, instance and request say what the token of the request says', async (t) => {
  const exp = now() + 600
  const payload = { user_id: 'u', exp, scopes: ['a', 5, 'b'] }
  const token = forge(payload)
  const valid = { authenticated: true, payload, userId: 'u', scopes: ['a', 'b'], token, user: { user_id: 'u' } }
  t.same(await read(t, {}, { headers: bearer(token) }), { ...valid, source: 'header' })
  t.same(await read(t, { cookieSet: true }, { headers: { cookie: `access_token=${token}` } }), { ...valid, source: 'cookie' })
  t.same(await read(t, { queryStringSet: true }, { query: { access_token: token } }), { ...valid, source: 'query' })
  t.same(await read(t, { getSecret: async () => secret }, { headers: bearer(token) }), { ...valid, source: 'header' })
  t.same(await read(t, { retrieveUser: (_request, { user_id: id }) => ({ id, name: 'ada' }) }, { headers: bearer(token) }), { ...valid, source: 'header', user: { id: 'u', name: 'ada' } })
  const otherId = forge({ sub: 0, exp })
  t.same(await read(t, { userId: 'sub' }, { headers: bearer(otherId) }), { authenticated: true, payload: { sub: 0, exp }, userId: 0, scopes: null, token: otherId, source: 'header', user: { sub: 0 } })
})

// Promise: specification/isauthenticated-extractpayload-extractuserid
t.test('where there is no valid token, all of it is null', async (t) => {
  const nothing = { authenticated: false, payload: null, userId: null, scopes: null, token: null, source: null, user: null }
  const headers = [{}, bearer('bad'), bearer(forge(claims(), { key: otherSecret })), bearer(forge(claims({ exp: 1 }))), { authorization: 'Basic YTpi' }]
  for (const given of headers) {
    assert.deepEqual(await read(t, {}, { headers: given }), nothing, caseOf(given))
    assert.deepEqual(await read(t, { doProtection: false }, { headers: given }), nothing, caseOf(given))
    assert.deepEqual(await read(t, { getSecret: async () => secret }, { headers: given }), nothing, caseOf(given))
  }
})

t.test('a key that is computed asynchronously must be waited for, by a guard or by ready()', async (t) => {
  const app = await build(t, { getSecret: async () => secret })
  const headers = bearer(forge(claims()))
  const readers: ((request: FastifyRequest) => unknown)[] = [
    (request) => request.tokenAuth.payload, (request) => request.tokenAuth.userId, (request) => request.tokenAuth.scopes, (request) => request.tokenAuth.token,
    (request) => request.tokenAuth.source, (request) => app.tokenAuth.isAuthenticated(request), (request) => app.tokenAuth.extractUserId(request)
  ]
  const outcomes: unknown[] = []
  app.addHook('onRequest', async (request) => {
    for (const reader of readers) {
      try {
        outcomes.push(reader(request))
      } catch (error) {
        outcomes.push(error)
      }
    }
    t.same(await request.tokenAuth.user(), { user_id: 1 }, 'user() waits by itself')
    t.equal(request.tokenAuth.userId, 1)
  })
  app.get('/', async () => 'reached')
  t.equal((await app.inject({ url: '/', headers })).statusCode, 200)
  t.equal(outcomes.length, readers.length)
  for (const outcome of outcomes) t.match(outcome, { name: 'InitializationFailure', message: /ready\(\)/ })

  const waits: ((request: FastifyRequest) => Promise<unknown>)[] = [(request) => request.tokenAuth.ready(), (request) => request.tokenAuth.user()]
  for (const wait of waits) {
    const failing = await build(t, { getSecret: async () => { throw new Error('vault') } })
    await t.rejects(during(failing, { headers }, wait), HandlerFailed)
  }
})

// Promise: specification/settings-responses
t.test('settings are complete, frozen and without keys; those of a request are as its guard and getters make them', async (t) => {
  const app = await build(t, { secret, leeway: 5, generateRefreshToken: () => 'x', getClaimIss: (request) => String(request.headers.tenant) })
  const { settings } = app.tokenAuth
  t.match(settings, { leeway: 5, algorithm: 'HS256', instanceName: 'tokenAuth', urlPrefix: '/auth' })
  t.ok(Object.isFrozen(settings))
  t.throws(() => { Reflect.apply(Object.assign, Object, [settings, { leeway: 6 }]) }, TypeError)
  app.get('/', { preHandler: app.tokenAuth.protect({ leeway: 7, secret: otherSecret }) }, async ({ tokenAuth: auth }) => {
    t.throws(() => { Reflect.apply(Object.assign, Object, [auth.settings, { leeway: 6 }]) }, TypeError)
    return { leeway: auth.settings.leeway, iss: auth.settings.claimIss, keys: ['secret', 'publicKey', 'privateKey', 'generateRefreshToken'].filter((name) => name in auth.settings) }
  })
  const headers = { ...bearer(forge(claims({ iss: 'a' }), { key: otherSecret })), tenant: 'a' }
  t.same((await app.inject({ url: '/', headers })).json(), { leeway: 7, iss: 'a', keys: [] })
  t.equal(settings.claimIss, null)
  for (const [name, value] of Object.entries(settings)) assert.ok(value !== undefined && !['secret', 'publicKey', 'privateKey', 'generateRefreshToken'].includes(name), name)
})

t.test('a login and a refresh go by the same rules as a guard', async (t) => {
  const { stored, ...store } = refreshStore()
  const app = await build(t, { ...store, debug: true, customClaims: [claim('kind', 'x')], extraVerifications: [(payload) => payload.blocked !== true] })
  const { access_token: token, refresh_token: refreshToken } = (await login(app)).json()
  t.equal(stored.get(1), refreshToken)
  const cases: [what: string, headers: Record<string, string>, status: number, exception?: string][] = [
    ['the token of the login', bearer(token), 200],
    ['an expired one', bearer(forge(claims({ kind: 'x', exp: 1 }))), 200],
    ['none', {}, 401, 'MissingAuthorizationHeader'],
    ['garbage', bearer('garbage'), 401, 'InvalidToken'],
    ['without a custom claim', bearer(forge(claims())), 401, 'InvalidClaim'],
    ['an extra verification fails', bearer(forge(claims({ kind: 'x', blocked: true }))), 401, 'InvalidClaim'],
    ['without exp', bearer(forge({ user_id: 1, kind: 'x' })), 401, 'InvalidClaim']
  ]
  for (const [what, headers, status, exception] of cases) {
    const response = await app.inject({ method: 'POST', url: '/auth/refresh', headers, payload: { refresh_token: refreshToken } })
    assert.equal(response.statusCode, status, what)
    assert.equal(response.json().exception, exception, what)
    if (status === 401) t.type(response.json().detail, 'string')
  }
})
