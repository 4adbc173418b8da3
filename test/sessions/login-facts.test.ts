// @slow
/** What a login says for its whole session: `sessions.login`, and the options of `sessions.start`. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import { memorySessions, type LoginFacts, type Payload, type SessionStore, type TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, caseOf, mistyped, otherSecret, payloadOf, together } from '../helper.ts'
import { cookiesOf, generationIn, ofAnotherProcess, refresh, sessionEvents, started, WatchedStore, withSessions } from './helper.ts'

const sessionSecret = 'a secret of refresh tokens for tests only, of more than 32 bytes'
const nextSessionSecret = 'the next secret of refresh tokens for tests, of more than 32 bytes'

/** What an access token says besides the claims of the plugin. */
function factsIn (accessToken: string): object {
  const own = ['user_id', 'exp', 'iat', 'sid', 'sgen']
  return Object.fromEntries(Object.entries(payloadOf(accessToken)).filter(([name]) => !own.includes(name)))
}

/** The Set-Cookie field of a name; an empty string for none. */
const fieldOf = ({ headers }: LightMyRequestResponse, name: string): string => [headers['set-cookie'] ?? []].flat().find((field) => field.startsWith(`${name}=`)) ?? ''
const valueOf = (response: LightMyRequestResponse, name: string): string => decodeURIComponent(fieldOf(response, name).split(';', 1)[0]!.slice(name.length + 1))

/** A claim of the host's own. */
const names = fc.string({ unit: 'binary', minLength: 1, maxLength: 12 }).filter((name) => !['__proto__', 'sid', 'sgen', 'cnf', 'exp', 'nbf', 'iat', 'iss', 'aud', 'auth_time', 'user_id', 'scopes'].includes(name))
const factsToKeep = fc.record({
  persistent: fc.option(fc.boolean(), { nil: undefined }),
  claims: fc.option(fc.dictionary(names, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 }).filter((claims) => Buffer.byteLength(JSON.stringify(claims)) <= 512), { nil: undefined })
})
type Way = 'refresh' | 'lost' | 'sibling' | 'renewal' | 'other key' | 'other secret'
const ways = fc.array(fc.constantFrom<Way>('refresh', 'lost', 'sibling', 'renewal', 'other key', 'other secret'), { minLength: 1, maxLength: 6 })

/** The applications that a session may meet, all with one store. */
async function processes (t: Test, store: SessionStore, login: () => LoginFacts | undefined) {
  const with_ = async (options: Partial<TokenAuthOptions>, secrets: string[] = [sessionSecret, nextSessionSecret]) => {
    const sessions = { store: ofAnotherProcess(store), secret: secrets, login }
    const app = await build(t, together({ sessions, cookieSet: true, cookieMaxAge: 3600, retrieveUser: () => ({ user_id: 1 }) }, options))
    app.get('/page', { onRequest: app.tokenAuth.protect({ renew: true }) }, async ({ tokenAuth: { payload } }) => payload)
    return app
  }
  return {
    first: await with_({}),
    sibling: await with_({}),
    'other key': await with_({ secret: otherSecret }),
    'other secret': await with_({}, [nextSessionSecret, sessionSecret])
  }
}

// Promise: sessions/login-facts
t.test('what a login says is in every access token and cookie of its session, whatever happens to it', async (t) => {
  let facts: LoginFacts | undefined
  const { first, ...others } = await processes(t, memorySessions(), () => facts)
  const use = async (app: FastifyInstance, refreshToken: string) =>
    await app.inject({ method: 'POST', url: '/auth/refresh', headers: { cookie: `refresh_token=${refreshToken}` } })

  await fc.assert(fc.asyncProperty(factsToKeep, ways, async (given, steps) => {
    facts = given as LoginFacts
    const login = await first.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } })
    const expected = JSON.parse(JSON.stringify(given.claims ?? {}))
    const check = (answer: LightMyRequestResponse, what: string) => {
      assert.deepEqual(factsIn(valueOf(answer, 'access_token')), expected, what)
      for (const name of ['access_token', 'refresh_token']) {
        const field = fieldOf(answer, name)
        if (field !== '') assert.equal(/max-age/i.test(field), given.persistent !== false, caseOf(what, name))
      }
    }
    check(login, 'login')
    // From now on, the function would say something else.
    facts = { persistent: given.persistent === false, claims: { other: true } }
    let refreshToken = valueOf(login, 'refresh_token')
    let app = first
    for (const way of steps) {
      if (way === 'lost') check(await use(app, refreshToken), way)
      if (way === 'other key' || way === 'other secret') app = others[way]
      const answer = way === 'renewal'
        ? await app.inject({ url: '/page', headers: { cookie: `refresh_token=${refreshToken}` } })
        : await use(way === 'sibling' ? others.sibling : app, refreshToken)
      assert.equal(answer.statusCode, 200, caseOf(way, answer.body))
      check(answer, way)
      if (way === 'renewal') assert.deepEqual(factsIn(`.${Buffer.from(answer.body).toString('base64url')}.`), expected)
      refreshToken = valueOf(answer, 'refresh_token') || refreshToken
    }
    await first.tokenAuth.sessions.endAll(1)
  }), { numRuns: 100 })
})

t.test('login is called once, at the login, with the request and the user; retrieveUser and the other functions see its claims', async (t) => {
  const seen: Payload[] = []
  const calls: unknown[] = []
  const { app } = await withSessions(t, {
    sessions: {
      login: ({ headers }, user) => {
        calls.push(user)
        return { claims: { amr: ['pwd', headers['user-agent']], acr: 'urn:two', act: { sub: 'admin' } } }
      }
    },
    retrieveUser: (_request, payload) => {
      seen.push(payload)
      return { user_id: 1 }
    },
    customClaims: [{ key: 'custom', setup: ({ acr }) => `custom ${String(acr)}`, verify: () => true }],
    extendPayload: (payload) => ({ ...payload, seen: payload.amr, order: Object.keys(payload) })
  })
  const { access_token: accessToken, refresh_token: refreshToken } = await started(app, 'ada', 'lovelace', { 'user-agent': 'a browser' })
  const expected = { amr: ['pwd', 'a browser'], acr: 'urn:two', act: { sub: 'admin' }, custom: 'custom urn:two', seen: ['pwd', 'a browser'], order: ['user_id', 'exp', 'iat', 'sid', 'amr', 'acr', 'act', 'custom'] }
  t.match(factsIn(accessToken), { ...expected, order: [...expected.order.slice(0, 1)] })
  const refreshed = await refresh(app, refreshToken)
  t.match(factsIn(refreshed.json().access_token), { amr: expected.amr, acr: expected.acr, act: expected.act, custom: expected.custom, seen: expected.seen })
  t.equal(calls.length, 1)
  t.match(calls[0], { user_id: 1, username: 'ada' })
  t.same(seen, [{ amr: expected.amr, acr: expected.acr, act: expected.act, user_id: 1, sid: payloadOf(accessToken).sid }])
  t.same((await app.inject({ url: '/', headers: bearer(accessToken) })).statusCode, 200)
})

t.test('each member of the options of sessions.start wins over that of the function', async (t) => {
  const { app } = await withSessions(t, { cookieSet: true, cookieMaxAge: 3600, sessions: { login: () => ({ persistent: false, claims: { from: 'function', amr: ['pwd'] } }) } })
  app.post('/start', async (request, reply) => await app.tokenAuth.sessions.start(request, reply, { user_id: 1 }, mistyped(request.body)))
  const start = async (payload: object) => {
    const answer = await app.inject({ method: 'POST', url: '/start', payload })
    return [factsIn(answer.json().accessToken), /max-age/i.test(fieldOf(answer, 'refresh_token'))]
  }
  t.same(await start({}), [{ from: 'function', amr: ['pwd'] }, false])
  t.same(await start({ persistent: true }), [{ from: 'function', amr: ['pwd'] }, true])
  t.same(await start({ claims: { act: { sub: 'admin' } } }), [{ act: { sub: 'admin' } }, false])
  t.same(await start({ claims: {}, persistent: true, authTime: 5 }), [{}, true])
})

t.test('a token of a session without claims has the bytes of one without the function', async (t) => {
  const store = memorySessions()
  const { sid, ...plain } = payloadOf((await started((await withSessions(t, { sessions: { store } })).app)).access_token)
  for (const result of [undefined, null, {}, { claims: {} }, { claims: undefined, persistent: undefined }, { persistent: false }]) {
    const { app } = await withSessions(t, { sessions: { login: () => mistyped<LoginFacts>(result) } })
    const { access_token: accessToken, refresh_token: refreshToken } = await started(app)
    assert.deepEqual(Object.keys(payloadOf(accessToken)), [...Object.keys(plain), 'sid'], caseOf(result))
    assert.equal(refreshToken.length, 67)
  }
})

// Promise: sessions/login-facts-names
t.test('claims that are taken, too large or no JSON start no session; the log names them, and the client does not see them', async (t) => {
  let facts: unknown
  const lines: string[] = []
  const store = new WatchedStore()
  const app = await build(t, {
    sessions: { store, login: () => mistyped<LoginFacts>(facts) },
    claimAud: 'us',
    claimIss: 'them',
    customClaims: [{ key: 'tenant', setup: () => 'a', verify: () => true }]
  }, { logger: { stream: { write: (line) => { lines.push(line) } } } })
  app.post('/start', async (request, reply) => await app.tokenAuth.sessions.start(request, reply, { user_id: 1 }, mistyped(facts)))
  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  const taken = (name: string): [unknown, string] => [{ claims: { amr: [], [name]: 1 } }, `must be claims of your own; given: \\"${name}\\", which the plugin or a custom claim sets.`]
  const size = 'must be a plain object of at most 512 bytes as JSON; given:'
  const cases: Array<[unknown, string]> = [
    ...['exp', 'nbf', 'iat', 'iss', 'aud', 'user_id', 'scopes', 'sid', 'auth_time', 'sgen', 'cnf', 'tenant', '__proto__'].map(taken),
    [{ claims: { a: 'x'.repeat(505) } }, `${size} 513 bytes`],
    [{ claims: { a: '\u00fc'.repeat(253) } }, `${size} 514 bytes`],
    [{ claims: 'amr' }, `${size} a string`], [{ claims: ['amr'] }, `${size} an array`], [{ claims: null }, `${size} null`], [{ claims: new Map() }, `${size} an object`],
    [{ persistent: 'no' }, 'must be true or false; given: a string'], [{ persistent: null }, 'must be true or false; given: null'],
    [{ claim: {} }, 'Did you mean \\"claims\\"?'], ['amr', 'must be'], [[], 'must be'],
    [{ claims: { big: 1n } }, 'BigInt'], [{ claims: cycle }, 'circular'],
    [{ claims: { toJSON: () => [1] } }, 'The JSON of an object must be that of an object'],
    [{ claims: { toJSON: () => undefined } }, 'The JSON of an object must be that of an object'],
    [{ claims: { get amr () { throw new Error('a getter failed') } } }, 'a getter failed']
  ]
  for (const [given, said] of cases) {
    for (const url of ['/auth', '/start']) {
      facts = url === '/start' && typeof given === 'object' && given !== null ? Object.setPrototypeOf({ ...given }, Object.prototype) : given
      if (url === '/start' && (Array.isArray(given) || typeof given !== 'object')) continue
      lines.length = 0
      // `{ ...given }` would call a getter, which the plugin must do.
      if (url === '/start') facts = given
      const answer = await app.inject({ method: 'POST', url, payload: { username: 'ada', password: 'lovelace' } })
      assert.equal(answer.statusCode, 500, caseOf(url, given))
      assert.ok(lines.join('').includes(said), `${caseOf(url, given)}: ${said} in ${lines.join('')}`)
      assert.deepEqual(cookiesOf(answer), [])
    }
  }
  t.same(store.taken(), [])

  for (const length of [504, 503]) {
    facts = { claims: { a: 'x'.repeat(length) } }
    assert.deepEqual(factsIn((await started(app)).access_token), { iss: 'them', aud: 'us', a: 'x'.repeat(length), tenant: 'a' })
  }
})

t.test('a function login that fails is 500 with its name, and no session starts', async (t) => {
  const { app, store } = await withSessions(t, { sessions: { login: () => { throw new Error('down') } } })
  const answer = await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } })
  t.match([answer.statusCode, answer.json()], [500, { code: 'TOKEN_AUTH_HANDLER_FAILED', message: 'The sessions.login handler failed.' }])
  t.same(store.taken(), [])
})

// Promise: sessions/login-facts-forged
t.test('facts that are changed, or taken from another token, are refused without a call of the store', async (t) => {
  const { app, store } = await withSessions(t, { sessions: { login: ({ headers }) => ({ claims: { amr: [headers['user-agent']] } }) } })
  const one = await started(app, 'ada', 'lovelace', { 'user-agent': 'otp' })
  const other = await started(app, 'ada', 'lovelace', { 'user-agent': 'pwd' })
  const plain = await started(app)
  store.taken()
  const events = sessionEvents(t)
  const [bytes, otherBytes] = [one, other].map(({ refresh_token: token }) => Buffer.from(token, 'base64url')) as [Buffer, Buffer]
  const claimsAt = 33 + bytes.readUInt16BE(29)
  const spliced = Buffer.concat([bytes.subarray(0, claimsAt), otherBytes.subarray(claimsAt, -16), bytes.subarray(-16)])
  const withMac = Buffer.concat([bytes.subarray(0, claimsAt), otherBytes.subarray(claimsAt)])
  const longer = Buffer.concat([bytes.subarray(0, claimsAt), Buffer.from('{"amr":["hwk","otp"]}'), bytes.subarray(-16)])
  longer.writeUInt16BE(21, 31)
  const persistent = Buffer.from(bytes)
  persistent[28] = 1
  const cut = Buffer.concat([bytes.subarray(0, claimsAt), bytes.subarray(-16)])
  cut.writeUInt16BE(0, 31)
  for (const forged of [spliced, withMac, longer, persistent, cut]) {
    assert.equal((await refresh(app, forged.toString('base64url'))).statusCode, 401)
  }
  t.same(store.taken(), [])
  t.same(events, [])
  for (const { refresh_token: token } of [one, other, plain]) assert.equal((await refresh(app, token)).statusCode, 200)
})

t.test('a login whose claim has the name of a custom claim of today is refused without a call of the store', async (t) => {
  const store = memorySessions()
  const secretOfBoth = { secret: sessionSecret }
  const before = await build(t, { sessions: { store, ...secretOfBoth, login: () => ({ claims: { tenant: 'a' } }) } })
  const watched = new WatchedStore()
  const after = await build(t, { sessions: { store: watched, ...secretOfBoth }, customClaims: [{ key: 'tenant', setup: () => 'b', verify: () => true }], debug: true })
  const answer = await refresh(after, (await started(before)).refresh_token)
  t.match([answer.statusCode, answer.json().detail], [401, 'a claim of the login now has the name of another claim, such as a custom claim that was added'])
  t.same(watched.taken(), [])
})

t.test('the names of claims are those of the request: a setting that is computed counts', async (t) => {
  const { app } = await withSessions(t, { getScopesName: ({ headers }) => headers['x-scopes'] === undefined ? 'scopes' : 'roles', sessions: { login: () => ({ claims: { roles: ['a'] } }) } })
  const login = async (headers = {}) => (await app.inject({ method: 'POST', url: '/auth', headers, payload: { username: 'ada', password: 'lovelace' } })).statusCode
  t.same([await login(), await login({ 'x-scopes': 'roles' })], [200, 500])
})

t.test('a polluted Object.prototype says nothing for a login', async (t) => {
  const { app } = await withSessions(t, { cookieSet: true, cookieMaxAge: 3600, sessions: { login: () => ({}) } })
  const polluted = Object(Object.prototype)
  t.teardown(() => { for (const name of ['claims', 'persistent', 'toJSON']) delete polluted[name] })
  Object.assign(polluted, { claims: { admin: true }, persistent: false })
  const answer = await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } })
  t.same(factsIn(valueOf(answer, 'access_token')), {})
  t.match(fieldOf(answer, 'refresh_token'), /Max-Age/)
})

t.test('a login that does not outlive the browser lives by lifetime and idle, as any other', async (t) => {
  const { app, store } = await withSessions(t, { cookieSet: true, sessions: { login: () => ({ persistent: false }) } })
  const { refresh_token: refreshToken } = await started(app)
  const { user } = generationIn(refreshToken)
  const [session] = await store.list(user, { graceMs: 0, idleMs: 1e9, keepMs: 1, maxPerUser: 5 })
  t.equal(session!.endsAt - session!.createdAt, 2_592_000_000)
})
