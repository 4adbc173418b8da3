import assert from 'node:assert/strict'
import t from 'tap'
import tokenAuth, { AuthenticationFailed, InsufficientScope, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, bearer, build, caseOf, headerOf, host, login, mistyped, now, payloadOf, refreshStore, secret, setClock, users, warnings } from '../helper.ts'

warnings(t, 'W04', 'W06', 'W12', 'W14')

const issueTime = 1_700_000_000
const credentials = { username: 'ada', password: 'lovelace' }

// Promise: specification/access-token-header
// Promise: specification/authenticate-2
// Promise: specification/post-auth
t.test('an accepted login is answered with 200 and an access token that the guards accept', async (t) => {
  const app = await build(t)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => request.tokenAuth.userId)
  const response = await login(app)
  t.equal(response.statusCode, 200)
  t.match(response.headers, { 'content-type': /^application\/json/, 'cache-control': 'no-store', 'set-cookie': undefined })
  t.same(Object.keys(response.json()), ['access_token'])
  const token: string = response.json().access_token
  t.same(headerOf(token), { alg: 'HS256', typ: 'JWT' })
  t.same(Object.keys(payloadOf(token)), ['user_id', 'exp'])
  t.equal((await app.inject({ url: '/', headers: bearer(token) })).body, '1')
})

// Promise: specification/2-refresh-token
// Promise: specification/refresh-enabled-response
// Promise: specification/refresh-token-enabled
t.test('with refresh enabled a login also answers a refresh token, which was stored for that user before', async (t) => {
  const { stored, ...refreshing } = refreshStore()
  const app = await build(t, refreshing)
  const first = (await login(app)).json()
  t.same(Object.keys(first), ['access_token', 'refresh_token'])
  t.equal(stored.get(1), first.refresh_token)
  t.match(first.refresh_token, /^[\w-]{43}$/)
  const second = (await login(app)).json()
  t.not(second.refresh_token, first.refresh_token)
})

// Promise: specification/access-token-name
t.test('the fields, the path and the user id claim bear the names that the settings give them', async (t) => {
  const { stored, ...refreshing } = refreshStore()
  const app = await build(t, {
    ...refreshing,
    accessTokenName: 'token',
    refreshTokenName: 'renewal',
    userId: 'sub',
    urlPrefix: '/api/session',
    pathToAuthenticate: '/login',
    authenticate: () => ({ sub: 'ada' })
  })
  const body = (await login(app, { url: '/api/session/login' })).json()
  t.same(Object.keys(body), ['token', 'renewal'])
  t.equal(payloadOf(body.token).sub, 'ada')
  t.equal(stored.get('ada'), body.renewal)
  t.equal((await login(app)).statusCode, 404)
})

// Promise: specification/1-authenticate
// Promise: specification/authenticate-refuses
// Promise: specification/refused-login-answered
t.test('a refused login is answered with 401 as text, with the message of the handler', async (t) => {
  const app = await build(t)
  const response = await login(app, { password: 'wrong' })
  t.equal(response.statusCode, 401)
  t.equal(response.headers['content-type'], 'text/plain; charset=utf-8')
  t.equal(response.headers['cache-control'], 'no-store')
  t.equal(response.headers['www-authenticate'], 'Bearer realm="token-auth"')
  t.equal(response.body, '{"reasons":"User not found.","exception":"AuthenticationFailed"}')
})

// Promise: security/user-enumeration
// Promise: specification/debug-adds-refusal
t.test('every refused login has the same status, bytes and headers, whatever was wrong', async (t) => {
  const { stored, ...refreshing } = refreshStore()
  for (const options of [{}, { debug: true }, { cookieSet: true }, refreshing]) {
    const app = await build(t, options)
    const answers = []
    for (const payload of [{ username: 'ada', password: 'x' }, { username: 'nobody', password: 'lovelace' }, {}, { username: ['ada'], password: {} }]) {
      const { statusCode, body, headers: { date, ...headers } } = await app.inject({ method: 'POST', url: '/auth', payload })
      answers.push({ statusCode, body, headers })
    }
    for (const answer of answers) assert.deepEqual(answer, answers[0], caseOf(options, answer))
    assert.equal(answers[0]?.statusCode, 401, caseOf(options))
    t.notMatch(answers[0]?.body, 'detail')
    assert.equal(answers[0]?.headers['set-cookie'], undefined, caseOf(options))
  }
  t.equal(stored.size, 0)
})

t.test('another refusal by the handler keeps its own status and is JSON', async (t) => {
  const app = await build(t, { authenticate: () => { throw new InsufficientScope('Locked.') } })
  const response = await login(app)
  t.equal(response.statusCode, 403)
  t.match(response.headers['content-type'], 'application/json')
  t.same(response.json(), { reasons: 'Locked.', exception: 'InsufficientScope' })
})

t.test('with onRefusal "throw" a refused login goes to the error handler of the host', async (t) => {
  const app = host(t)
  app.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof AuthenticationFailed)) throw error
    return reply.code(error.statusCode).headers(error.headers).send({ mine: error.message })
  })
  await app.register(tokenAuth, { secret, authenticate, onRefusal: 'throw' })
  const response = await login(app, { password: 'wrong' })
  t.equal(response.statusCode, 401)
  t.same(response.json(), { mine: 'User not found.' })
  t.equal(response.headers['cache-control'], 'no-store')
  t.equal(response.headers['www-authenticate'], 'Bearer realm="token-auth"')
})

class Account {
  readonly #id: unknown
  constructor (id: unknown) { this.#id = id }
  get user_id () { return this.#id }
  toDict () { return { name: 'ada' } }
}
class JsonAccount {
  user_id = 'json'
  toJSON () { return {} }
}
class Plain { user_id = 1 }

// Promise: specification/key-named-user
// Promise: specification/user-object-mapping
t.test('a user is a mapping with the user id, or an object with toDict() or toJSON()', async (t) => {
  const accepted: [object, unknown][] = [
    [{ user_id: 7 }, 7], [{ user_id: 'seven' }, 'seven'], [{ user_id: true }, true], [{ user_id: false }, false], [{ user_id: 0 }, 0],
    [Object.assign(Object.create(null), { user_id: 8 }), 8], [new Account('class'), 'class'], [new JsonAccount(), 'json']
  ]
  for (const [user, id] of accepted) {
    const app = await build(t, { authenticate: () => user })
    const response = await login(app)
    assert.equal(payloadOf(response.json().access_token).user_id, id, caseOf(user))
  }
})

// Promise: specification/authenticate-2
// Promise: specification/authenticate-returns-nothing
// Promise: specification/user-id-non
t.test('what is no user is answered with 500 InvalidUserObject, without a token and with nothing stored', async (t) => {
  const wrong: unknown[] = [
    undefined, null, 0, 1, '', 'ada', true, false, [], [{ user_id: 1 }], () => ({ user_id: 1 }), {}, { user_id: undefined },
    { user_id: null }, { user_id: '' }, { user_id: 1.5 }, { user_id: NaN }, { user_id: 2 ** 53 }, { user_id: 1n }, { user_id: {} },
    { user_id: [1] }, { user_id: Symbol('id') }, Object.create({ user_id: 1 }), new Plain(), new Account(''), new Account(undefined),
    new Map([['user_id', 1]]), new Date(), Promise.resolve(undefined)
  ]
  for (const user of wrong) {
    const { stored, ...refreshing } = refreshStore()
    const app = await build(t, { ...refreshing, cookieSet: true, authenticate: () => mistyped(user) })
    const response = await login(app)
    assert.equal(response.statusCode, 500, caseOf(user))
    assert.equal(response.json().exception, 'InvalidUserObject', caseOf(user))
    assert.deepEqual(Object.keys(response.json()), ['reasons', 'exception'], caseOf(user))
    assert.equal(response.headers['set-cookie'], undefined, caseOf(user))
    assert.equal(response.headers['cache-control'], 'no-store', caseOf(user))
    assert.equal(stored.size, 0, caseOf(user))
  }
})

const added: Partial<TokenAuthOptions> = {
  claimNbf: true,
  claimIat: true,
  claimIss: 'issuer',
  claimAud: 'audience',
  scopesEnabled: true,
  addScopesToPayload: async () => ['a', 'b:c'],
  customClaims: [
    { key: 'first', setup: (payload, user) => ({ saw: Object.keys(payload), user }), verify: () => true },
    class { key = 'second'; setup (payload: object) { return Object.keys(payload).length }; verify () { return true } }
  ]
}

// Promise: specification/payload-built-user
t.test('a payload is built in order: user id, registered claims, custom claims, extendPayload, scopes', async (t) => {
  setClock(t, issueTime)
  let seen: string[] = []
  const app = await build(t, {
    ...added,
    extendPayload: async (payload, user) => {
      seen = Object.keys(payload)
      return { ...payload, extended: user }
    }
  })
  const payload = payloadOf((await login(app)).json().access_token)
  const registered = ['user_id', 'exp', 'nbf', 'iat', 'iss', 'aud']
  t.same([...Object.keys(payload)], [...registered, 'first', 'second', 'extended', 'scopes'])
  t.same(seen, [...registered, 'first', 'second'])
  t.same(payload, {
    user_id: 1,
    exp: issueTime + 1800,
    nbf: issueTime + 180,
    iat: issueTime,
    iss: 'issuer',
    aud: 'audience',
    first: { saw: registered, user: users[0] },
    second: 7,
    extended: users[0],
    scopes: ['a', 'b:c']
  })
})

// Promise: specification/claim-nbf-delta
// Promise: specification/exp-2
// Promise: specification/expiration-delta
t.test('times are whole seconds, also where the clock is between two', async (t) => {
  setClock(t, issueTime + 0.75)
  const app = await build(t, { claimNbf: true, claimIat: true, claimNbfDelta: 5, expirationDelta: 60 })
  t.same(payloadOf((await login(app)).json().access_token), { user_id: 1, exp: issueTime + 60, nbf: issueTime + 5, iat: issueTime })
})

// Promise: specification/exp-2
// Promise: specification/verify-exp
t.test('without their settings there is no exp, no iat and no scopes claim', async (t) => {
  const app = await build(t, { verifyExp: false, addScopesToPayload: () => 'unused' })
  t.same(payloadOf((await login(app)).json().access_token), { user_id: 1 })
})

// Promise: specification/add-scopes-payload
// Promise: specification/key-named-scopes
t.test('scopes are a list, also where the handler gives a string; without a handler there are none', async (t) => {
  const cases: [Partial<TokenAuthOptions>, unknown][] = [
    [{ addScopesToPayload: () => 'user:read' }, ['user:read']],
    [{ addScopesToPayload: () => [] }, []],
    [{}, undefined],
    [{ scopesName: 'scope', addScopesToPayload: () => 'x' }, undefined]
  ]
  for (const [options, expected] of cases) {
    const app = await build(t, { scopesEnabled: true, ...options })
    const payload = payloadOf((await login(app)).json().access_token)
    assert.deepEqual(payload.scopes, expected, caseOf(options))
    if (options.scopesName !== undefined) assert.deepEqual(payload[options.scopesName], ['x'], caseOf(options))
  }
})

// Promise: specification/extend-payload
t.test('extendPayload may change claims, or return nothing to keep what it was given', async (t) => {
  const exp = now() + 3600
  const cases: [TokenAuthOptions['extendPayload'], object][] = [
    [() => {}, { user_id: 1 }],
    [mistyped(() => null), { user_id: 1 }],
    [(payload) => { payload.role = 'admin' }, { user_id: 1, role: 'admin' }],
    [(payload) => ({ ...payload, exp }), { user_id: 1, exp }],
    [async (payload) => ({ ...payload, aud: ['a', 'b'], nbf: exp, iss: 'me' }), { aud: ['a', 'b'], nbf: exp, iss: 'me' }]
  ]
  for (const [extendPayload, expected] of cases) {
    const app = await build(t, { claimIss: 'issuer', extendPayload })
    t.match(payloadOf((await login(app)).json().access_token), expected)
  }
})

// Promise: security/9-2-4
// Promise: specification/missingregisteredclaim-2
// Promise: specification/payload-built-user
t.test('a payload that lost or spoiled a claim is answered with 500 MissingRegisteredClaim, and there is no token', async (t) => {
  const required = {
    claimNbf: true, claimIat: true, claimIss: 'issuer', claimAud: 'audience', customClaims: [{ key: 'custom', setup: () => 1, verify: () => true }]
  }
  const changes: Record<string, unknown>[] = [
    ...['user_id', 'exp', 'nbf', 'iat', 'iss', 'aud', 'custom'].map((claim) => ({ [claim]: undefined })),
    { user_id: 2 }, { user_id: '1' }, { exp: 'soon' }, { exp: NaN }, { exp: 1e300 }, { exp: Infinity }, { exp: 1.5 }, { exp: new Date() },
    { nbf: null }, { nbf: '1' }, { iat: -1 }, { iat: {} }, { iss: 1 }, { iss: ['issuer'] }, { aud: 7 }, { aud: [1] }, { aud: ['audience', null] }
  ]
  for (const change of changes) {
    const { stored, ...refreshing } = refreshStore()
    const app = await build(t, { ...refreshing, ...required, cookieSet: true, extendPayload: (payload) => ({ ...payload, ...change }) })
    const response = await login(app)
    assert.equal(response.statusCode, 500, caseOf(change))
    assert.equal(response.json().exception, 'MissingRegisteredClaim', Object.keys(change).join())
    assert.equal(response.headers['set-cookie'], undefined, caseOf(change))
    assert.equal(stored.size, 0, caseOf(change))
  }
})

// Promise: security/times-in-milliseconds
t.test('a time of a new payload that extendPayload sets in milliseconds makes no token, and the log says why; 100 years are possible', async (t) => {
  setClock(t, 1_800_000_000)
  const century = 1_800_000_000 + 3_153_600_000
  for (const claim of ['exp', 'nbf', 'iat', 'auth_time']) {
    for (const [value, status] of [[1_800_003_600_000, 500], [century + 1, 500], [century, 200]] as const) {
      const extendPayload = (payload: object) => ({ ...payload, [claim]: value })
      const lines: string[] = []
      const app = host(t, { logger: { level: 'error', stream: { write: (line: string) => { lines.push(line) } } } })
      await app.register(tokenAuth, { secret, authenticate, extendPayload })
      const answer = await login(app)
      assert.equal(answer.statusCode, status, caseOf([claim, value]))
      if (status === 500) assert.match(lines.join(''), new RegExp(`\\\\"${claim}\\\\" more than 100 years from now\\. Times of claims are in seconds since 1970, not in milliseconds`), claim)
      const issued = app.tokenAuth.generateAccessToken(users[0]!, { extendPayload })
      await (status === 500 ? assert.rejects(issued, { name: 'MissingRegisteredClaim' }) : issued)
    }
  }
})

t.test('a custom claim without a value, or one that takes claims away, makes no token', async (t) => {
  const broken: TokenAuthOptions['customClaims'] = [
    { key: 'custom', setup: () => undefined, verify: () => true },
    { key: 'custom', setup: (payload) => { delete payload.user_id; return 1 }, verify: () => true },
    { key: 'custom', setup: (payload) => { payload.user_id = 2; return 1 }, verify: () => true }
  ]
  for (const claim of broken) {
    const app = await build(t, { customClaims: [claim] })
    const response = await login(app)
    assert.equal(response.statusCode, 500, caseOf(claim))
    assert.equal(response.json().exception, 'MissingRegisteredClaim', caseOf(claim))
  }
})

t.test('a payload that JSON cannot hold, or that would be another one as JSON, makes no token', async (t) => {
  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  const cases: [extra: object, answer: object][] = [
    [{ big: 1n }, { code: 'TOKEN_AUTH_HANDLER_FAILED' }],
    [{ cycle }, { code: 'TOKEN_AUTH_HANDLER_FAILED' }],
    [{ toJSON: () => undefined }, { code: 'TOKEN_AUTH_HANDLER_FAILED' }],
    [{ toJSON: () => ({ user_id: 2 }) }, { exception: 'MissingRegisteredClaim' }],
    [{ toJSON: () => null }, { exception: 'MissingRegisteredClaim' }],
    [{ custom: () => 'dropped by JSON' }, { exception: 'MissingRegisteredClaim' }]
  ]
  for (const [extra, answer] of cases) {
    const app = await build(t, {
      customClaims: [{ key: 'custom', setup: () => 1, verify: () => true }],
      extendPayload: (payload) => ({ ...payload, ...extra })
    })
    const response = await login(app)
    assert.equal(response.statusCode, 500, Object.keys(extra).join())
    t.match(response.json(), answer)
    assert.ok(!('access_token' in response.json()), caseOf(extra))
  }
})

// Promise: specification/tokentoolarge-2
// Promise: specification/tokentoolarge-token-would
t.test('a token that would be refused for its length is not made: 500 TokenTooLarge', async (t) => {
  const lengthOf = async (padding: number) => {
    const { stored, ...refreshing } = refreshStore()
    const app = await build(t, { ...refreshing, extendPayload: (payload) => ({ ...payload, padding: 'x'.repeat(padding) }) })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'open')
    const response = await login(app)
    if (response.statusCode === 200) {
      t.equal((await app.inject({ url: '/', headers: bearer(response.json().access_token) })).body, 'open')
      return String(response.json().access_token).length
    }
    t.equal(response.statusCode, 500)
    t.equal(response.json().exception, 'TokenTooLarge')
    t.equal(stored.size, 0)
    return 0
  }
  const empty = await lengthOf(0)
  const fitting = Math.floor((8192 - empty) * 3 / 4)
  t.ok(await lengthOf(fitting - 3) > 8180)
  t.equal(await lengthOf(fitting + 3), 0)
})

// Promise: specification/body-json-object
t.test('with no-one to sign for, a body that is not a JSON object is 400 and the handler is not asked', async (t) => {
  let asked = 0
  const app = await build(t, { authenticate: () => { asked++; return { user_id: 1 } } })
  const bodies = ['null', '[]', '"x"', '1', 'true', '[{"username":"ada"}]', '', '{', '{"a":1', '{"__proto__":{"user_id":1}}', '{"constructor":{"prototype":{}}}']
  for (const payload of bodies) {
    const response = await app.inject({ method: 'POST', url: '/auth', headers: { 'content-type': 'application/json' }, payload })
    assert.equal(response.statusCode, 400, payload)
    assert.equal(response.headers['cache-control'], 'no-store', payload)
    assert.deepEqual(Object.keys(response.json()), ['statusCode', 'code', 'error', 'message'], payload)
    t.notMatch(response.body, 'at ')
  }
  t.equal((await app.inject({ method: 'POST', url: '/auth', headers: { 'content-type': 'text/plain' }, payload: JSON.stringify(credentials) })).statusCode, 415)
  t.equal((await app.inject({ method: 'POST', url: '/auth' })).statusCode, 400)
  t.equal(asked, 0)
  t.equal((await app.inject({ method: 'POST', url: '/auth', headers: { 'content-type': 'application/json; charset=utf-8' }, payload: '{}' })).statusCode, 200)
})

t.test('a body reaches the handler as it was sent: nothing is coerced, stripped or added', async (t) => {
  let seen: unknown
  const app = await build(t, { authenticate: ({ body }) => { seen = body; return { user_id: 1 } } })
  const payload = { username: 1, password: null, nested: { deep: ['1', true] } }
  t.equal((await app.inject({ method: 'POST', url: '/auth', payload })).statusCode, 200)
  t.same(seen, payload)
})
