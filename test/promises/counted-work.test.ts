// @alone
/** What is decided once must not be decided again for each request: counted, not timed. */
import assert from 'node:assert/strict'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type * as FastJwt from 'fast-jwt'
import { createHook } from 'node:async_hooks'
import type * as Crypto from 'node:crypto'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { setImmediate as nextTask } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import type { TokenAuthError, TokenAuthOptions } from '../../lib/index.ts'

const counts = { signers: 0, verifiers: 0, verified: 0, macs: 0, stacks: [] as string[] }

/** Counts what is asked of fast-jwt and of node:crypto. Before anything imports them: an import sees what it finds then. */
function countCalls (): void {
  const crypto: typeof Crypto = createRequire(import.meta.url)('node:crypto')
  const { createHmac } = crypto
  Object.assign(crypto, {
    createHmac: (...given: Parameters<typeof createHmac>) => {
      counts.macs++
      return createHmac(...given)
    }
  })
  syncBuiltinESMExports()
  const fastJwt: typeof FastJwt = createRequire(import.meta.url)('fast-jwt')
  const { createSigner, createVerifier } = fastJwt
  Object.assign(fastJwt, {
    createSigner: (options: Parameters<typeof createSigner>[0]) => {
      counts.signers++
      return createSigner(options)
    },
    createVerifier: (options: object) => {
      counts.verifiers++
      const verify = createVerifier(options)
      return (token: string) => {
        counts.verified++
        try {
          return verify(token)
        } catch (error) {
          if (error instanceof Error) counts.stacks.push(String(error.stack))
          throw error
        }
      }
    }
  })
}

countCalls()
const { bearer, build, caseOf, claims, forge, keysFor, now, pairFor, refreshStore, together } = await import('../helper.ts')
const { granted, jwk, trusted } = await import('../authorities/issuers.ts')
const { Responses, memorySessions, protect } = await import('../../lib/index.ts')
const { Refusal } = await import('../../lib/refusal.ts')

let secrets = 0
/** A secret that no test before had: instances of one secret share what is made of it. */
const freshSecret = () => `secret ${secrets++} of this file, of more than sixty-four bytes: 0123456789 0123456789`

/** An application from whose registration on all is counted. */
async function counting (t: Test, options: Partial<TokenAuthOptions>) {
  const secret = freshSecret()
  Object.assign(counts, { signers: 0, verifiers: 0, verified: 0, macs: 0, stacks: [] })
  const app = await build(t, together({ secret }, options))
  return { app, secret }
}

t.test('signers and verifiers are made at registration and with guards, none for a request', async (t) => {
  const cases: Record<string, Partial<TokenAuthOptions>> = {
    HS256: {}, ES256: keysFor('ES256'), 'no cache': { tokenCacheSize: 0 }, getters: { getLeeway: () => 60, getClaimIss: () => null }
  }
  for (const [what, options] of Object.entries(cases)) {
    const { stored, ...store } = refreshStore()
    const { app } = await counting(t, together(store, options))
    app.get('/', { onRequest: app.tokenAuth.protect() }, app.tokenAuth.injectUser(async (request) => request.tokenAuth.payload))
    app.get('/override', { onRequest: app.tokenAuth.protect({ leeway: 60, claimAud: null }) }, async () => 'reached')
    app.get('/scoped', { onRequest: app.tokenAuth.scoped(() => 'a') }, async () => 'reached')
    await app.ready()
    assert.deepEqual([counts.signers, counts.verifiers], [1, 1], `${what}: guards without another key share those of the registration`)
    for (let round = 0; round < 5; round++) {
      const { access_token: token, refresh_token: refreshToken } = (await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } })).json()
      assert.equal(stored.get(1), refreshToken, caseOf(what, round))
      for (const url of ['/', '/override', '/auth/verify', '/auth/me']) assert.equal((await app.inject({ url, headers: bearer(token) })).statusCode, 200, caseOf(what, round, url))
      assert.equal((await app.inject({ url: '/scoped', headers: bearer(token) })).statusCode, 403, caseOf(what, round))
      assert.equal((await app.inject({ url: '/', headers: bearer('a.b.c') })).statusCode, 401, caseOf(what, round))
      assert.equal((await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(token), payload: { refresh_token: refreshToken } })).statusCode, 200, caseOf(what, round))
    }
    assert.deepEqual([counts.signers, counts.verifiers], [1, 1], what)
  }
})

t.test('the signers and verifiers of a ring are made once, when a key is used first, and none for a key that is not used', async (t) => {
  setFlagsFromString('--expose-gc')
  const collectGarbage: () => void = runInNewContext('gc')
  const [first, second, third] = [freshSecret(), freshSecret(), freshSecret()]
  const { app } = await counting(t, { secret: undefined, keys: [{ key: first, kid: 'a' }, { key: second, kid: 'b' }, { key: third, kid: 'c', signFrom: '2999-01-01T00:00:00Z' }] })
  app.get('/', { onRequest: [app.tokenAuth.protect(), app.tokenAuth.protect({ tokenCacheSize: 0 })] }, async () => 'reached')
  await app.ready()
  t.same([counts.signers, counts.verifiers], [0, 0])
  const tokens = [forge(claims(), { key: first, header: { kid: 'a' } }), forge(claims(), { key: second, header: { kid: 'b' } }), forge(claims(), { key: third, header: { kid: 'c' } }), forge(claims(), { key: first })]
  counts.verified = 0
  for (let round = 0; round < 5; round++) {
    for (const token of tokens) assert.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 200, caseOf(round, token))
    assert.equal((await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } })).statusCode, 200, caseOf(round))
    // What is shared is held by the instances that use it.
    await nextTask()
    collectGarbage()
  }
  t.equal(counts.verified, tokens.length * 6, 'once for the guard that remembers, and each time for the other')
  await app.inject({ url: '/', headers: bearer(forge(claims(), { key: first, header: { kid: 'unknown' } })) })
  t.equal(counts.verified, tokens.length * 6, 'no signature is computed for an unknown kid')
  t.same([counts.signers, counts.verifiers], [1, 3], 'one key signs, and three have tokens')
})

t.test('no signature is computed for a token whose alg is not that of a key with its kid, or of any key without a date', async (t) => {
  const [first, second] = [freshSecret(), freshSecret()]
  const { app } = await counting(t, { secret: undefined, keys: [{ key: first, kid: 'a' }, { key: second, kid: 'b', algorithm: 'HS512' }] })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  await app.ready()
  counts.verified = 0
  const tokens = [forge(claims(), { algorithm: 'HS512', key: first, header: { kid: 'a' } }), forge(claims(), { algorithm: 'HS384', key: first }), forge(claims(), { key: second, header: { kid: 'b' } })]
  for (const token of tokens) assert.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 401, token)
  t.equal(counts.verified, 0)
  t.equal((await app.inject({ url: '/', headers: bearer(forge(claims(), { algorithm: 'HS512', key: second })) })).statusCode, 200)
  t.equal(counts.verified, 1, 'with the one key that it may be of')
})

// Promise: security/forged-token-header
t.test('a forged token costs one signature for each key that could have signed it: that of its kid, and without one each key of its algorithm without a date', async (t) => {
  const keyOf = (which: number, algorithm: 'EdDSA' | 'ES256' = 'EdDSA') => pairFor(algorithm, which).privateKey
  const keys = [{ key: keyOf(1), kid: 'a' }, { key: keyOf(2), kid: 'b' }, { key: keyOf(3), kid: 'c' }, { key: keyOf(4), kid: 'd', signFrom: new Date(0) }, { key: keyOf(1, 'ES256'), kid: 'e', algorithm: 'ES256' as const }]
  const [one, several]: readonly Partial<TokenAuthOptions>[] = [{ secret: undefined, ...keysFor('EdDSA') }, { secret: undefined, algorithm: 'EdDSA', keys }]
  for (const [options, header, signatures] of [[one, {}, 1], [one, { kid: 'x' }, 1], [several, {}, 3], [several, { kid: 'd' }, 1], [several, { kid: 'x' }, 0]] as const) {
    const { app } = await counting(t, together(options ?? {}))
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
    await app.ready()
    for (const [url, status] of [['/', 401], ['/auth/verify', 400], ['/auth/me', 401]] as const) {
      counts.verified = 0
      assert.equal((await app.inject({ url, headers: bearer(forge(claims(), { algorithm: 'EdDSA', key: keyOf(5), header })) })).statusCode, status, caseOf(options, url))
      assert.equal(counts.verified, signatures, `${url}, ${JSON.stringify(header)}`)
    }
  }
})

t.test('tokens of keys that a reload leaves as they are stay remembered', async (t) => {
  const [first, second, third] = [freshSecret(), freshSecret(), freshSecret()]
  let keys = [{ key: first, kid: 'a' }, { key: second, kid: 'b' }]
  const { app } = await counting(t, { secret: undefined, keys: () => keys })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  await app.ready()
  const token = forge(claims(), { key: second, header: { kid: 'b' } })
  counts.verified = 0
  const lists = [keys, [{ key: third, kid: 'c' }, { key: second, kid: 'b' }]]
  for (const list of lists) {
    keys = list
    await app.tokenAuth.reloadKeys()
    assert.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 200, caseOf(list))
  }
  t.equal(counts.verified, 1)
})

t.test('a token of a trusted issuer costs one signature, also after its keys were read again, and a kid that is not known costs none', async (t) => {
  const { privateKey } = pairFor('EdDSA', 7)
  let keys = [jwk('a', { algorithm: 'EdDSA', which: 7 })]
  const { app, secret } = await counting(t, { retrieveUser: () => null, issuers: [trusted({ algorithms: ['EdDSA'], jwks: async () => ({ keys }) })] })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const get = async (token: string) => (await app.inject({ url: '/', headers: bearer(token) })).statusCode
  const token = forge(granted(), { algorithm: 'EdDSA', key: privateKey, header: { kid: 'a' } })
  for (let round = 0; round < 5; round++) assert.equal(await get(token), 200, caseOf(round))
  t.equal(counts.verified, 1)
  // A kid that is not known makes the keys be read.
  keys = [jwk('b', { algorithm: 'EdDSA', which: 8 }), ...keys]
  t.equal(await get(forge(granted(), { algorithm: 'EdDSA', key: privateKey, header: { kid: 'x' } })), 401)
  t.equal(app.tokenAuth.keyStatus().issuers[0]?.keys, 2)
  t.equal(await get(token), 200)
  t.equal(counts.verified, 1)
  t.equal(await get(forge(granted({ jti: 1 }), { algorithm: 'EdDSA', key: privateKey, header: { kid: 'a' } })), 200)
  t.equal(await get(forge(claims(), { key: secret })), 200)
  t.same([counts.verifiers, counts.verified], [2, 3], 'one verifier for each key that is used')
})

t.test('a key that is computed for each request makes a verifier when it is new, and not again', async (t) => {
  const base = freshSecret()
  const { app } = await counting(t, { secret: undefined, getSecret: async (request) => `${String(request.headers.tenant)} ${base}` })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  for (let round = 0; round < 5; round++) {
    for (const tenant of ['a', 'b', 'c']) {
      const headers = { tenant, ...bearer(forge(claims(), { key: `${tenant} ${base}` })) }
      assert.equal((await app.inject({ url: '/', headers })).statusCode, 200, caseOf(round, tenant))
    }
  }
  t.equal(counts.verifiers, 3)
  t.equal(counts.signers, 0)
})

t.test('a signature is computed once for a token that is remembered, and at most once for a request otherwise', async (t) => {
  for (const [tokenCacheSize, verified] of [[1000, 1], [0, 5]] as const) {
    const { app, secret } = await counting(t, { tokenCacheSize })
    app.get('/', { onRequest: app.tokenAuth.protect(), preHandler: app.tokenAuth.scoped('a') }, app.tokenAuth.injectUser(async (request) => {
      const { payload, scopes, userId, token } = request.tokenAuth
      return { payload, scopes, userId, token }
    }))
    const headers = bearer(forge(claims({ scopes: 'a' }), { key: secret }))
    for (let round = 0; round < 5; round++) assert.equal((await app.inject({ url: '/', headers })).statusCode, 200, caseOf(tokenCacheSize, round))
    assert.equal(counts.verified, verified, caseOf(tokenCacheSize))
  }
})

t.test('a refresh and a renewal in place compute three MACs: of the refresh token that came, the new access token, and the next refresh token', async (t) => {
  const { app } = await counting(t, { cookieSet: true, tokenCacheSize: 0, retrieveUser: async () => ({ user_id: 1 }), sessions: { store: memorySessions() } })
  app.get('/page', { onRequest: app.tokenAuth.protect({ renew: true }) }, async (request) => request.tokenAuth.userId)
  for (const [method, url] of [['POST', '/auth/refresh'], ['GET', '/page']] as const) {
    const { cookies } = await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } })
    counts.macs = 0
    const answer = await app.inject({ method, url, cookies: Object.fromEntries(cookies.filter(({ name }) => name === 'refresh_token').map(({ name, value }) => [name, value])) })
    t.match([answer.statusCode, counts.macs, counts.verified, answer.cookies.length], [200, 3, 0, 2], url)
  }
})

/** Lines of a stack trace below its message. */
const frames = (stack: string | undefined) => String(stack).split('\n').filter((line) => /^\s+at /.test(line))

t.test('no stack trace is captured for a refusal, and the limit of the process is left as it was', async (t) => {
  const { app, secret } = await counting(t, { onRefusal: 'throw', tokenCacheSize: 0 })
  const refusals: TokenAuthError[] = []
  app.setErrorHandler(async (error: TokenAuthError, _request: FastifyRequest, reply: FastifyReply) => {
    refusals.push(error)
    return reply.code(error.statusCode).send()
  })
  app.get('/', { onRequest: app.tokenAuth.scoped('a') }, async () => 'reached')
  const limit = Error.stackTraceLimit
  const bad: Record<string, string>[] = [
    {}, { authorization: 'Basic YTpi' }, bearer('garbage'), bearer('a.b.c'), bearer(forge(claims(), { key: 'another secret' })), bearer(forge(claims({ exp: 1 }), { key: secret })),
    bearer(forge(claims({ nbf: now() + 3600 }), { key: secret })), bearer(forge({}, { key: secret })), bearer(forge([], { key: secret })), bearer(forge(claims(), { key: secret }))
  ]
  for (const headers of bad) {
    await app.inject({ url: '/', headers })
    assert.equal(Error.stackTraceLimit, limit, caseOf(headers))
  }
  t.equal(refusals.length, bad.length)
  for (const refusal of refusals) assert.deepEqual(frames(refusal.stack), [], refusal.name)
  t.ok(counts.stacks.length > 0, 'fast-jwt refused some of them')
  for (const stack of counts.stacks) assert.deepEqual(frames(stack), [], stack)
  t.not(frames(new Error('control').stack).length, 0, 'others have theirs')
})

/** Requests that are refused, and the names of what refuses them. */
const refused = (secret: string): Array<[headers: Record<string, string>, name: string]> => [
  [{}, 'MissingAuthorizationHeader'], [{ authorization: 'Basic YTpi' }, 'InvalidAuthorizationHeader'], [bearer('garbage'), 'InvalidToken'],
  [bearer(forge(claims(), { key: 'another secret' })), 'InvalidToken'], [bearer(forge(claims({ exp: 1 }), { key: secret })), 'TokenExpired'],
  [bearer(forge(claims({ nbf: now() + 3600 }), { key: secret })), 'TokenNotActive'], [bearer(forge(claims(), { key: secret })), 'InsufficientScope']
]

t.test('a refusal that no host sees makes an error the first time, and none after that', async (t) => {
  const { app, secret } = await counting(t, {})
  app.get('/', { onRequest: app.tokenAuth.scoped('a') }, async () => 'reached')
  const rows = refused(secret)
  const ask = async ([headers, name]: typeof rows[number]) => {
    for (const url of ['/', '/auth/verify']) await app.inject({ url, headers })
    t.equal((await app.inject({ url: '/', headers })).json().exception, name)
  }
  for (const row of rows) await ask(row)
  const made = t.capture(Refusal.prototype, 'toError', Refusal.prototype.toError)
  for (const row of rows) await ask(row)
  t.same(made(), [])
})

t.test('a host that sees the error of a refusal has it for itself', async (t) => {
  const seen: TokenAuthError[] = []
  const see = (error: TokenAuthError) => {
    seen.push(error)
    Object.assign(error, { message: 'changed', detail: 'by the host' })
    error.headers['x-host'] = 'changed'
  }
  class Own extends Responses {
    override exceptionResponse (...[request, error, reply]: Parameters<InstanceType<typeof Responses>['exceptionResponse']>) {
      const { name, message } = error
      t.notOk(error.detail)
      t.notOk(error.headers['x-host'])
      t.not(message, 'changed')
      see(error)
      return { exception: name, default: super.exceptionResponse(request, error, reply) }
    }
  }
  class Later extends Responses {}
  const { exceptionResponse } = Responses.prototype
  t.teardown(() => { Responses.prototype.exceptionResponse = exceptionResponse })
  const render = function (this: InstanceType<typeof Responses>, ...given: Parameters<typeof exceptionResponse>) {
    see(given[1])
    return { exception: given[1].name }
  }
  const ways: Record<string, Partial<TokenAuthOptions>> = {
    rendered: { responsesClass: Own },
    thrown: { onRefusal: 'throw' },
    'awaited in a handler': {},
    'rendered by what is set later': { responsesClass: Later },
    'rendered by what replaces our own': {}
  }
  for (const [way, options] of Object.entries(ways)) {
    const { app, secret } = await counting(t, options)
    if (way.endsWith('later')) Later.prototype.exceptionResponse = render
    if (way.endsWith('our own')) Responses.prototype.exceptionResponse = render
    app.setErrorHandler(async (error: TokenAuthError, _request: FastifyRequest, reply: FastifyReply) => {
      t.not(error.message, 'changed')
      see(error)
      return reply.code(error.statusCode).send({ exception: error.name })
    })
    const isAwaited = way.startsWith('awaited')
    const guards = [app.tokenAuth.scoped('a'), protect()]
    app.get('/', isAwaited ? {} : { onRequest: guards[0]! }, async (request, reply) => {
      for (const guard of guards) await guard(request, reply).catch(see)
      return reply
    })
    const rows = refused(secret)
    for (const [headers, name] of rows) {
      for (let time = 0; time < 2; time++) {
        const { exception, reasons } = (await app.inject({ url: '/', headers })).json()
        assert.equal(exception, name, way)
        assert.notEqual(reasons, 'changed', way)
      }
    }
  }
  t.ok(seen.length > 70)
  t.equal(new Set(seen).size, seen.length, 'each its own')
})

t.test('what a hook of the host does to the headers of one refusal no other has', async (t) => {
  const { app } = await counting(t, {})
  app.addHook('onRequest', async (_request, reply) => {
    const headers = reply.headers.bind(reply)
    reply.headers = (given) => headers(Object.assign(given, { [`x-${reply.request.id}`]: 'added' }))
  })
  app.get('/', { preHandler: app.tokenAuth.protect() }, async () => 'reached')
  for (let time = 0; time < 3; time++) {
    const { statusCode, headers } = await app.inject('/')
    assert.equal(statusCode, 401, caseOf(time))
    assert.match(String(headers['www-authenticate']), /^Bearer /, caseOf(time))
    assert.equal(Object.keys(headers).filter((name) => name.startsWith('x-')).length, 1, caseOf(time))
  }
})

/** How many promises are made while something runs. */
function promisesDuring (run: () => void): number {
  let made = 0
  const hook = createHook({ init: (_id, type) => { if (type === 'PROMISE') made++ } }).enable()
  run()
  hook.disable()
  return made
}

t.test('a guard makes no promise on its way, be the request allowed or refused, and with a synchronous trusted', async (t) => {
  const { app, secret } = await counting(t, { extraVerifications: [() => true], getLeeway: () => 60, trusted: () => true })
  await app.register(async (context) => {
    const { tokenAuth: auth } = context
    const made: Record<string, number> = {}
    const guards = { protect: auth.protect(), optional: auth.protect({ optional: true }), scoped: auth.scoped(['a', 'b'], { requireAll: false }), override: auth.protect({ leeway: 0 }) }
    context.get('/', (request, reply) => {
      let allowed = 0
      for (const [name, guard] of Object.entries(guards)) {
        made[name] = promisesDuring(() => { guard(request, reply, () => { allowed++ }) })
      }
      made.control = promisesDuring(() => { auth.protect()(request, reply).catch(() => {}) })
      reply.send({ allowed, made })
    })
    context.get('/refused', (request: FastifyRequest, reply) => {
      made.refused = promisesDuring(() => { guards.protect(request, reply, () => {}) })
    })
    context.get('/made', async () => made)
  })
  const headers = bearer(forge(claims({ scopes: ['a'] }), { key: secret }))
  for (const round of ['a token that is new', 'a token that is remembered']) {
    const { allowed, made } = (await app.inject({ url: '/', headers })).json()
    assert.equal(allowed, 4, round)
    const { control, ...guards } = made
    assert.deepEqual(guards, { protect: 0, optional: 0, scoped: 0, override: 0 }, round)
    assert.ok(control > 0, 'promises are seen where there are some')
  }
  t.equal((await app.inject('/refused')).statusCode, 401)
  t.match((await app.inject('/made')).json(), { refused: 0 })
})

t.test('a getter runs at most once for a request and instance, and only where its setting is needed', async (t) => {
  const calls: Record<string, number> = {}
  const count = <T>(name: string, value: T) => () => {
    calls[name] = (calls[name] ?? 0) + 1
    return value
  }
  const secret = freshSecret()
  const { app } = await counting(t, {
    getLeeway: count('leeway', 60),
    getSecret: count('secret', secret),
    getClaimIss: count('claimIss', null),
    getCookieSamesite: count('cookieSamesite', 'lax' as const),
    getExpirationDelta: count('expirationDelta', 60)
  })
  const { tokenAuth: auth } = app
  app.get('/', { onRequest: [auth.protect(), auth.protect({ cookieStrict: false }), auth.scoped('a')] }, auth.injectUser(async (request) => {
    const { leeway, claimIss } = request.tokenAuth.settings
    return { leeway, claimIss, authenticated: auth.isAuthenticated(request) }
  }))
  for (let round = 1; round <= 2; round++) {
    assert.deepEqual((await app.inject({ url: '/', headers: bearer(forge(claims({ scopes: 'a' }), { key: secret })) })).json(), { leeway: 60, claimIss: null, authenticated: true }, caseOf(round))
    assert.deepEqual(calls, { leeway: round, secret: round, claimIss: round }, caseOf(round))
  }
})
