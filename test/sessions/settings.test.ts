// @slow
/** The option `sessions` at registration: what it may hold, what contradicts it, and what tokens may hold beside it. */
import assert from 'node:assert/strict'
import { createHmac, createPrivateKey, createPublicKey, createSecretKey, hkdfSync } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { pathToFileURL } from 'node:url'
import fc from 'fast-check'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import {
  Authentication, AuthenticationFailed, Configuration, injectUser, InvalidConfiguration, memorySessions, protect, scoped,
  type NewSession, type SessionRules, type TokenAuthOptions
} from '../../lib/index.ts'
import { readSessions } from '../../lib/sessions/settings.ts'
import { resolveSettings } from '../../lib/settings/configuration.ts'
import {
  bearer, build, caseOf, environment, host, keysFor, login, mistyped, now, otherSecret, payloadOf, refreshStore, refusal, secret, setClock, warnings
} from '../helper.ts'
import { cookiesOf, logout, ofAnotherProcess, refresh, sessionEvents, started, WatchedStore, withSessions, type Tokens } from './helper.ts'

const century = 3_153_600_000
const more = ' See node_modules/fastify-token-auth/docs/sessions-reference.md#settings'
const moreOfSettings = ' See node_modules/fastify-token-auth/docs/settings.md'
const moreOf = (finding: string) => ` See node_modules/fastify-token-auth/docs/findings.md#token_auth_${finding.toLowerCase()}`
const names = 'store, secret, grace, idle, lifetime, maxPerUser, poll, refuseAfter, data, login'

/** What a registration says of these options; an empty string where it accepts them. */
const said = async (t: Test, options: object, app = host(t)): Promise<string> => {
  const error = await refusal(t, options, app)
  // While it is open, it would be another instance with the same key.
  await app.close()
  if (error !== undefined) t.type(error, InvalidConfiguration)
  return error?.message ?? ''
}

t.test('sessions is a plain object of known settings; an unknown one is refused with the name that was probably meant', async (t) => {
  const inherited = 'an instance of a class, or an object that inherits from another'
  const given: [unknown, string][] = [
    [null, 'null'], [true, 'a boolean'], ['memory', 'a string'], [5, 'a number'], [[], 'an array'], [() => ({}), 'a function'],
    [new Map(), inherited], [new WatchedStore(), inherited], [Object.create({ store: memorySessions() }), inherited], [Promise.resolve({}), 'a promise']
  ]
  for (const [sessions, found] of given) {
    assert.equal(await said(t, { sessions }), `"sessions" must be a plain object, such as { store }; given: ${found}. {} keeps sessions in the memory of the process.${more}`, caseOf(sessions))
  }
  const unknown: Record<string, string> = {
    idel: ' Did you mean "idle"?', max_per_user: ' Did you mean "maxPerUser"?', lifeTime: ' Did you mean "lifetime"?', zzzzzzzzzz: '', toString: '', constructor: ''
  }
  for (const [name, hint] of Object.entries(unknown)) {
    assert.equal(await said(t, { sessions: { [name]: 5 } }), `"sessions" has no member "${name}".${hint} Its members are ${names}.${more}`, name)
  }
  t.equal(await said(t, { sessions: Object.assign(Object.create(null), { idle: 1800 }) }), '', 'an object without a prototype')
  const app = host(t)
  t.equal(await said(t, { sessions: undefined }, app), '')
  t.notOk(app.hasRoute({ method: 'POST', url: '/auth/logout' }), 'undefined: no sessions')
})

t.test('what the prototype of all objects was polluted with is no setting of sessions', async (t) => {
  const resolved = resolveSettings({}, undefined)
  const everything: object = Object.getPrototypeOf({})
  const polluted = { secret: 'a secret of sessions, of 32 bytes', idle: 5000, store: new WatchedStore() }
  for (const [name, value] of Object.entries(polluted)) Object.defineProperty(everything, name, { value, configurable: true, writable: true })
  const settings = readSessions({}, resolved)
  for (const name of Object.keys(polluted)) Reflect.deleteProperty(everything, name)
  t.match(settings, { secrets: undefined, rules: { idleMs: 1_296_000_000 } })
  t.equal(settings?.store, undefined)
})

t.test('a setting of sessions is within its bounds; one beyond, and another type, is refused with what is allowed', async (t) => {
  const seconds = (least: number, most: number) => `a whole number of seconds from ${least} to ${most}`
  const longest = seconds(1, century)
  const delta = 'at least "expirationDelta", which is 1800 seconds'
  const lifetime = `${longest}, or a function (request, user) that returns one`
  const numbers: Record<string, { accepted: unknown[], refused: [unknown, string][], type: string }> = {
    grace: { accepted: [0, -0, 300], refused: [[-1, seconds(0, 300)], [301, seconds(0, 300)]], type: seconds(0, 300) },
    idle: { accepted: [1800, century], refused: [[0, longest], [1, delta], [1799, delta], [century + 1, longest]], type: longest },
    lifetime: { accepted: [1800, century, () => 0], refused: [[0, lifetime], [1, delta], [1799, delta], [century + 1, lifetime]], type: lifetime },
    maxPerUser: { accepted: [1, 1000], refused: [[0, 'a whole number from 1 to 1000'], [1001, 'a whole number from 1 to 1000']], type: 'a whole number from 1 to 1000' },
    poll: { accepted: [1, 60], refused: [[0, seconds(1, 60)], [61, seconds(1, 60)]], type: seconds(1, 60) },
    refuseAfter: {
      accepted: [null, 4, century],
      refused: [[3, 'null, or at least twice "sessions.poll", which is 2 seconds'], [0, `${longest}, or null`], [century + 1, `${longest}, or null`]],
      type: `${longest}, or null`
    }
  }
  const wrong: [unknown, string][] = [
    ['30', 'a string'], [true, 'a boolean'], [{}, 'an object'], [[30], 'an array'], [30n, 'a bigint'], [Object(30), 'an object'], [Promise.resolve(30), 'a promise'],
    [1.5, '1.5'], [NaN, 'NaN'], [Infinity, 'Infinity'], [-Infinity, '-Infinity'], [1e300, '1e+300']
  ]
  for (const [name, { accepted, refused, type }] of Object.entries(numbers)) {
    for (const value of accepted) assert.equal(await said(t, { sessions: { [name]: value } }), '', `${name}: ${String(value)}`)
    for (const [value, allowed] of refused) assert.equal(await said(t, { sessions: { [name]: value } }), `"sessions.${name}" must be ${allowed}; given: ${String(value)}.${more}`, caseOf(name, value))
    for (const [value, found] of wrong) assert.equal(await said(t, { sessions: { [name]: value } }), `"sessions.${name}" must be ${type}; given: ${found}.${more}`, caseOf(name, value))
    if (name !== 'refuseAfter') assert.equal(await said(t, { sessions: { [name]: null } }), `"sessions.${name}" must be ${type}; given: null.${more}`, name)
    assert.equal(await said(t, { sessions: { [name]: undefined } }), '', `${name}: undefined is the default`)
  }
  for (const [value, found] of [[null, 'null'], ['x', 'a string'], [{ device: 1 }, 'an object']]) {
    assert.equal(await said(t, { sessions: { data: value } }), `"sessions.data" must be a function (request, user) that returns an object; given: ${String(found)}.${more}`, caseOf(value))
  }
})

t.test('bounds follow the lifetime of access tokens, and that of refuseAfter follows poll', async (t) => {
  const grace = (value: number, delta: number) => said(t, { expirationDelta: delta, leeway: 0, sessions: { grace: value } })
  for (const [most, delta] of [[0, 1], [1, 2], [1, 3], [30, 61], [299, 599], [300, 600]] as const) {
    assert.equal(await grace(most, delta), '', caseOf(most))
    if (most < 300) assert.equal(await grace(most + 1, delta), `"sessions.grace" must be at most half of "expirationDelta", which is ${delta} seconds; given: ${most + 1}.${more}`, caseOf(most))
  }
  for (const name of ['idle', 'lifetime'] as const) {
    const of = (value: number, expirationDelta: number) => said(t, { expirationDelta, leeway: 0, sessions: { idle: century, lifetime: century, [name]: value } })
    for (const delta of [1, 60, century]) assert.equal(await of(delta, delta), '', caseOf(name, delta))
    for (const delta of [61, century]) {
      assert.equal(await of(delta - 1, delta), `"sessions.${name}" must be at least "expirationDelta", which is ${delta} seconds; given: ${delta - 1}.${more}`, caseOf(name, delta))
    }
  }
  t.equal(await said(t, { expirationDelta: 1_296_000, sessions: {} }), '')
  t.equal(await said(t, { expirationDelta: 1_296_001, sessions: {} }), `"sessions.idle" must be at least "expirationDelta", which is 1296001 seconds; its default is less; given: 1296000.${more}`, 'a default is no exception')
  t.equal(await said(t, { expirationDelta: 2_592_001, sessions: { idle: 2_592_001 } }), `"sessions.lifetime" must be at least "expirationDelta", which is 2592001 seconds; its default is less; given: 2592000.${more}`)
  for (const poll of [1, 60]) {
    assert.equal(await said(t, { sessions: { poll, refuseAfter: 2 * poll } }), '', caseOf(poll))
    assert.equal(await said(t, { sessions: { poll, refuseAfter: 2 * poll - 1 } }), `"sessions.refuseAfter" must be null, or at least twice "sessions.poll", which is ${poll} seconds; given: ${2 * poll - 1}.${more}`, caseOf(poll))
  }
})

t.test('a store gets the rules that were configured, and the defaults of the others', async (t) => {
  const rulesFor = async (options: object) => {
    let given: [NewSession, SessionRules] | undefined
    const store = new WatchedStore()
    store.instead = { create: (...parameters: [NewSession, SessionRules]) => { given = parameters; return [] } }
    const app = await build(t, { leeway: 0, ...options, sessions: { ...Reflect.get(options, 'sessions'), store } })
    await started(app)
    t.ok(Object.isFrozen(given?.[1]))
    return given
  }
  const [session, rules] = await rulesFor({ leeway: undefined }) ?? []
  t.strictSame(rules, { graceMs: 30_000, idleMs: 1_296_000_000, keepMs: 2 * (1800 + 180) * 1000, maxPerUser: 100 })
  t.match(session, { user: '1', lifetimeMs: 2_592_000_000, data: '{}' })
  for (const [expirationDelta, seconds] of [[1, 0.5], [2, 1], [3, 1], [59, 29], [60, 30], [61, 30], [1800, 30]] as const) {
    t.match((await rulesFor({ expirationDelta }))?.[1], { graceMs: seconds * 1000, keepMs: 2 * expirationDelta * 1000 }, `the window of ${expirationDelta}`)
  }
  const sessions = { grace: 7, idle: 2000, lifetime: 3000, maxPerUser: 3 }
  const [own, ownRules] = await rulesFor({ leeway: 5, sessions }) ?? []
  t.strictSame(ownRules, { graceMs: 7000, idleMs: 2_000_000, keepMs: 2 * (1800 + 5) * 1000, maxPerUser: 3 })
  t.equal(own?.lifetimeMs, 3_000_000)
})

t.test('exactly the numbers within the bounds are accepted, in any combination', async (t) => {
  /** Mostly what may be allowed, often what is next to a bound, and sometimes anything. */
  const between = (least: number, most: number) => fc.oneof(
    { arbitrary: fc.integer({ min: least, max: Math.max(least, most) }), weight: 12 },
    { arbitrary: fc.constantFrom(least - 1, least, least + 1, most - 1, most, most + 1), weight: 3 },
    { arbitrary: fc.oneof(fc.double(), fc.integer(), fc.constant(least + 0.5), fc.constant(most - 0.5)), weight: 1 }
  )
  const combinations = fc.integer({ min: 1, max: 4000 }).chain((expirationDelta) => fc.record({
    expirationDelta: fc.constant(expirationDelta),
    grace: between(0, Math.min(300, Math.floor(expirationDelta / 2))),
    idle: between(expirationDelta, century),
    lifetime: between(expirationDelta, century),
    maxPerUser: between(1, 1000),
    poll: between(1, 60),
    refuseAfter: fc.oneof(between(2, 150), between(120, century), fc.constant(null))
  }, { requiredKeys: ['expirationDelta'] }))
  const isWithin = (value: number | undefined, least: number, most: number) => value === undefined || (Number.isInteger(value) && value >= least && value <= most)
  let [accepted, refused] = [0, 0]
  fc.assert(fc.property(combinations, ({ expirationDelta, ...sessions }) => {
    const { grace, idle, lifetime, maxPerUser, poll, refuseAfter } = sessions
    const isAllowed = isWithin(grace, 0, Math.min(300, expirationDelta / 2)) && isWithin(idle, expirationDelta, century) && isWithin(lifetime, expirationDelta, century) &&
      isWithin(maxPerUser, 1, 1000) && isWithin(poll, 1, 60) && (refuseAfter === null || isWithin(refuseAfter, 2 * (poll ?? 2), century))
    let isAccepted = true
    try {
      const read = readSessions(sessions, resolveSettings({ expirationDelta }, undefined))
      const { rules: { graceMs, idleMs, maxPerUser: most } } = read!
      // Whatever was left out is within the bounds as well.
      assert.ok((grace === undefined && expirationDelta === 1 ? graceMs === 500 : isWithin(graceMs / 1000, 0, expirationDelta / 2)) && isWithin(idleMs / 1000, expirationDelta, century) && isWithin(most, 1, 1000))
      if (grace !== undefined) assert.equal(graceMs, grace * 1000)
    } catch (error) {
      if (!(error instanceof InvalidConfiguration)) throw error
      isAccepted = false
    }
    if (isAccepted) accepted++
    else refused++
    return isAccepted === isAllowed
  }), { numRuns: 3000 })
  t.ok(accepted > 500 && refused > 500, `${accepted} were accepted, and ${refused} refused`)
})

t.test('a store has six methods; one is enough for an instance that only verifies', async (t) => {
  const methods = ['create', 'advance', 'end', 'list', 'endedSince', 'confirm'] as const
  const complete = Object.fromEntries(methods.map((method) => [method, async () => []]))
  t.equal(await said(t, { sessions: { store: { ...complete } } }), '')
  for (const store of [new WatchedStore(), memorySessions(), Object.assign(Object.create(null), complete)]) assert.equal(await said(t, { sessions: { store } }), '')
  for (const method of methods) {
    for (const value of [undefined, null, 'x', {}]) {
      assert.equal(await said(t, { sessions: { store: { ...complete, [method]: value } } }), `"sessions.store" must be an object with the methods create, advance, end, list, endedSince and confirm; given: an object without the method "${method}". For a database client, give redisSessions(client) or postgresSessions(client).${more}`, caseOf(method, value))
    }
  }
  t.equal(await said(t, { sessions: { store: Promise.resolve(complete) } }), `"sessions.store" must be an object with the methods create, advance, end, list, endedSince and confirm; given: an object without the method "create". For a database client, give redisSessions(client) or postgresSessions(client).${more}`)
  for (const [store, found] of [[null, 'null'], ['redis://', 'a string'], [() => complete, 'a function']]) {
    assert.equal(await said(t, { sessions: { store } }), `"sessions.store" must be an object with the methods create, advance, end, list, endedSince and confirm; given: ${String(found)}. For a database client, give redisSessions(client) or postgresSessions(client).${more}`)
    assert.equal(await said(t, { authMode: false, sessions: { store } }), `"sessions.store" must be an object with the method endedSince; given: ${String(found)}. For a database client, give redisSessions(client) or postgresSessions(client).${more}`)
  }
  t.equal(await said(t, { authMode: false, sessions: { store: { endedSince: async () => ({ ended: [], cursor: '' }) } } }), '')
  t.equal(await said(t, { authMode: false, sessions: {} }), `"sessions" is given without "store", and "authMode" is false. An instance that only verifies tokens reads the ended sessions from the store of the service that issues them: give "sessions": { store } and the key of that service. Tokens of "issuers" belong to no session.${more}`)
  t.equal(await said(t, { authMode: false, sessions: { store: { ...complete, endedSince: undefined } } }), `"sessions.store" must be an object with the method endedSince; given: an object without the method "endedSince". For a database client, give redisSessions(client) or postgresSessions(client).${more}`)
})

t.test('an instance that only verifies checks the types of all settings; only poll and refuseAfter have bounds and an effect', async (t) => {
  const verifying = (sessions: object, options = {}) => said(t, { authMode: false, ...options, sessions: { store: { endedSince: async () => ({ ended: [], cursor: '' }) }, ...sessions } })
  t.equal(await verifying({ grace: '5' }), `"sessions.grace" must be a whole number of seconds from 0 to 300; given: a string.${more}`)
  t.equal(await verifying({ lifetime: '5' }), `"sessions.lifetime" must be a whole number of seconds from 1 to ${century}, or a function (request, user) that returns one; given: a string.${more}`)
  t.equal(await verifying({ refuseAfter: 3 }), `"sessions.refuseAfter" must be null, or at least twice "sessions.poll", which is 2 seconds; given: 3.${more}`)
  t.equal(await verifying({ poll: 0 }), `"sessions.poll" must be a whole number of seconds from 1 to 60; given: 0.${more}`)
  t.equal(await verifying({}, { expirationDelta: 2_000_000 }), '', 'defaults that have no effect restrict nothing')
  t.equal(await verifying({ grace: 300, idle: 1, lifetime: 1 }, { expirationDelta: 100, leeway: 0 }), '')
  t.equal(await verifying({ secret: 'short' }), '', 'a secret without refresh tokens is not read')
})

const sid = (setting: string) => `"${setting}" must not be "sid" with "sessions", because this claim then contains the id of the session. Choose another name.${moreOf('E10')}`

/** Options that contradict sessions, and what is said of them. */
const contradictions: Record<string, [object, string][]> = {
  'refresh token handlers': ['storeRefreshToken', 'retrieveRefreshToken'].flatMap((name): [object, string][] => {
    const message = `"sessions" and the handler "${name}" are given. With sessions, the store keeps the data of refresh tokens: remove the handler.${more}`
    const handler = async () => undefined
    class Handlers extends Authentication { constructor () { super(); Reflect.set(this, name, handler) } }
    return [
      [{ [name]: handler }, message],
      [{ [name]: handler, authMode: false }, message],
      [{ [name]: handler, refreshTokenEnabled: true }, message],
      [{ authenticationClass: Handlers }, message]
    ]
  }),
  generateRefreshToken: [
    { generateRefreshToken: () => 'x' },
    { setGenerateRefreshToken: () => () => 'x' },
    { getGenerateRefreshToken: () => () => 'x' },
    { configurationClass: class extends Configuration { override generateRefreshToken () { return 'x' } } },
    { configurationClass: class extends Configuration { setGenerateRefreshToken () { return () => 'x' } } },
    { configurationClass: class extends Configuration { getGenerateRefreshToken () { return () => 'x' } } },
    { generateRefreshToken: () => 'x', authMode: false }
  ].map((options) => [options, `"sessions" and "generateRefreshToken" are given. With sessions, refresh tokens have a format of their own: remove "generateRefreshToken".${more}`]),
  'refreshTokenEnabled: false': [
    { refreshTokenEnabled: false },
    { setRefreshTokenEnabled: false },
    { setRefreshTokenEnabled: () => false },
    { configurationClass: class extends Configuration { override refreshTokenEnabled = false } },
    { configurationClass: class extends Configuration { setRefreshTokenEnabled () { return false } } },
    { refreshTokenEnabled: false, authMode: false }
  ].map((options) => [options, `"sessions" is given, and "refreshTokenEnabled" is false. Sessions have refresh tokens: remove "refreshTokenEnabled".${more}`]),
  getters: ['secret', 'publicKey', 'privateKey', 'algorithm', 'verifyExp', 'leeway', 'claimIss', 'claimAud', 'userId'].flatMap((name): [object, string][] => {
    const get = `get${name[0]?.toUpperCase()}${name.slice(1)}`
    const message = `"sessions" and "${get}" are given. Sessions need one value of "${name}" for all requests: give "${name}", or register an instance for each value.${more}`
    class Getters extends Configuration { constructor () { super(); Reflect.set(this, get, () => secret) } }
    return [
      [{ [get]: () => secret }, message],
      [{ [get]: async () => secret, authMode: false }, message],
      [{ configurationClass: Getters }, message]
    ]
  }),
  'verifyExp: false': [
    { verifyExp: false },
    { setVerifyExp: () => false },
    { verifyExp: false, authMode: false }
  ].map((options) => [options, `"sessions" is given, and "verifyExp" is false. Ended sessions are remembered until their access tokens expire: set "verifyExp" to true.${more}`]),
  'the claim sid': [
    [{ userId: 'sid' }, sid('userId')],
    [{ userId: 'sid', authMode: false }, sid('userId')],
    [{ scopesName: 'sid' }, sid('scopesName')]
  ]
}

for (const [subject, cases] of Object.entries(contradictions)) {
  t.test(`sessions refuse ${subject}, by name; without sessions the same options are accepted`, async (t) => {
    warnings(t)
    for (const [options, message] of cases) {
      assert.equal(await said(t, { sessions: { store: memorySessions() }, ...options }), message, caseOf(options))
      const { stored, refreshTokenEnabled, ...both } = refreshStore()
      const handlers = 'refreshTokenEnabled' in options && options.refreshTokenEnabled ? both : {}
      assert.equal(await said(t, { ...handlers, ...options }), '', caseOf(options))
    }
  })
}

t.test('sessions refuse refreshTokenEnabled: false of the application\'s configuration; true, and other getters, are accepted', async (t) => {
  const configured = (config: object) => {
    const app = host(t)
    app.decorate('config', config)
    return said(t, { sessions: {} }, app)
  }
  t.equal(await configured({ SERVICE_JWT_REFRESH_TOKEN_ENABLED: 'false' }), `"sessions" is given, and "refreshTokenEnabled" is false. Sessions have refresh tokens: remove "refreshTokenEnabled".${more}`)
  t.equal(await configured({ SERVICE_JWT_VERIFY_EXP: '0' }), `"sessions" is given, and "verifyExp" is false. Ended sessions are remembered until their access tokens expire: set "verifyExp" to true.${more}`)
  t.equal(await configured({ SERVICE_JWT_USER_ID: 'sid' }), sid('userId'))
  t.equal(await configured({ SERVICE_JWT_REFRESH_TOKEN_ENABLED: 'true' }), '')
  t.equal(await said(t, { sessions: {}, refreshTokenEnabled: true }), '')
  t.equal(await said(t, { sessions: {}, getExpirationDelta: () => 60, getCookieMaxAge: () => 60, getClaimIat: () => true, getDebug: () => false, getScopesName: () => 'scopes' }), '')
})

t.test('no guard accepts for longer than an ended session is remembered: verifyExp: false and a larger leeway are refused as overrides', async (t) => {
  const verifyExp = `A guard overrides "verifyExp" with false. With "sessions", ended sessions are remembered only while access tokens have not expired: remove the override.${more}`
  const leeway = (given: number, most: number) => `A guard overrides "leeway" with ${given}. With "sessions" it must be at most ${most} seconds, "expirationDelta" and twice "leeway" of the registration, for which ended sessions are remembered.${more}`
  for (const options of [{}, { authMode: false }, { expirationDelta: 100, leeway: 7 }]) {
    const most = 'leeway' in options ? 114 : 2160
    const cases: [object, string][] = [
      [{ verifyExp: false }, verifyExp], [{ verifyExp: false, leeway: 0 }, verifyExp], [{ leeway: most + 1 }, leeway(most + 1, most)], [{ leeway: century }, leeway(century, most)]
    ]
    const { app } = await withSessions(t, options)
    const handler = async () => 'reached'
    const made: Record<string, (app: FastifyInstance, overrides: object) => unknown> = {
      protect: ({ tokenAuth }, overrides) => tokenAuth.protect(overrides),
      scoped: ({ tokenAuth }, overrides) => tokenAuth.scoped('user', overrides),
      injectUser: ({ tokenAuth }, overrides) => tokenAuth.injectUser(handler, overrides)
    }
    const without = await build(t, options)
    for (const [kind, make] of Object.entries(made)) {
      for (const [overrides, message] of cases) {
        t.throws(() => make(app, overrides), { name: 'InvalidConfiguration', message }, kind)
        t.doesNotThrow(() => make(without, overrides), `${kind}, without sessions`)
      }
      for (const overrides of [{ leeway: most }, { leeway: 0 }, { verifyExp: true }, { claimNbf: true }]) t.doesNotThrow(() => make(app, overrides), kind)
    }
    for (const [index, [overrides]] of cases.entries()) {
      app.get(`/protect/${index}`, { onRequest: protect(overrides) }, handler)
      app.get(`/scoped/${index}`, { onRequest: scoped('user', overrides) }, handler)
      app.get(`/injectUser/${index}`, injectUser(handler, overrides))
    }
    app.get('/most', { onRequest: protect({ leeway: most }) }, handler)
    for (const [index, [, message]] of cases.entries()) {
      for (const kind of Object.keys(made)) {
        const answer = await app.inject(`/${kind}/${index}`)
        assert.equal(answer.statusCode, 500, `free-standing ${kind}`)
        assert.equal(answer.json().message, message, caseOf(options, index, kind))
      }
    }
    assert.equal((await app.inject('/most')).statusCode, 401, caseOf(options))
  }
})

t.test('what has ended is remembered for as long as the guard with the largest leeway accepts its last token', async (t) => {
  const at = now()
  const setTime = setClock(t, at)
  const { app, store } = await withSessions(t)
  const ended = await started(app)
  const { access_token: other } = await started(app, 'grace', 'hopper')
  t.equal((await logout(app, ended.refresh_token)).statusCode, 204)
  // A process that has not seen the logout, at the last second.
  setTime(at + 1800 + 2160 - 1)
  const late = await build(t, { sessions: { store: ofAnotherProcess(store) } })
  late.get('/', { onRequest: late.tokenAuth.protect({ leeway: 2160 }) }, async () => 'reached')
  t.equal((await late.inject({ url: '/', headers: bearer(ended.access_token) })).json().exception, 'SessionEnded')
  t.equal((await late.inject({ url: '/', headers: bearer(other) })).statusCode, 200)
  setTime(at + 1800 + 2160)
  t.equal((await late.inject({ url: '/', headers: bearer(ended.access_token) })).json().exception, 'TokenExpired')
})

t.test('no custom claim is called sid beside sessions', async (t) => {
  const claim = { key: 'sid', setup: () => 'x', verify: () => true }
  const message = 'The "key" of a custom claim must not be "sid", which is the name of a claim of this plugin or of another custom claim. Choose another name. See node_modules/fastify-token-auth/docs/reference.md#handlers'
  for (const options of [{ sessions: {} }, { sessions: { store: memorySessions() }, authMode: false }]) {
    t.match(await refusal(t, { ...options, customClaims: [claim] }), { name: 'InvalidCustomClaim', message })
  }
  t.equal(await refusal(t, { customClaims: [claim] }), undefined, 'without sessions it has no other meaning')
  const { app } = await withSessions(t)
  await t.rejects(app.tokenAuth.generateAccessToken({ user_id: 1 }, { customClaims: [claim] }), { name: 'InvalidCustomClaim', message })
})

t.test('extendPayload and scopes cannot change the session of a token: no token is issued, nothing is stored or rotated', async (t) => {
  const message = 'The payload of a new access token has another "sid" than its session. Check extendPayload.'
  let change: (payload: Record<string, unknown>) => object = (payload) => payload
  let scopesName = 'scopes'
  const { app, store } = await withSessions(t, {
    cookieSet: true, cookieStrict: false, scopesEnabled: true, addScopesToPayload: () => ['user'], getScopesName: () => scopesName, extendPayload: (payload) => change(payload)
  })
  const { access_token: token, refresh_token: refreshToken } = await started(app)
  const { access_token: foreign } = await started(app, 'grace', 'hopper')
  const refusedChanges: ((payload: Record<string, unknown>) => object)[] = [
    ({ sid, ...payload }) => payload,
    (payload) => ({ ...payload, sid: undefined }),
    (payload) => ({ ...payload, sid: null }),
    (payload) => ({ ...payload, sid: '' }),
    (payload) => ({ ...payload, sid: payloadOf(token).sid }),
    (payload) => ({ ...payload, sid: payloadOf(foreign).sid }),
    (payload) => ({ ...payload, sid: [payload.sid] })
  ]
  store.taken()
  const events = sessionEvents(t)
  const isRefused = async (error: object = { reasons: message, exception: 'MissingRegisteredClaim' }) => {
    const presented = await login(app)
    t.equal(presented.statusCode, 500)
    t.match(presented.json(), error)
    t.same(cookiesOf(presented), [])
  }
  for (const changed of refusedChanges) {
    change = changed
    await isRefused()
  }
  for (const changed of [refusedChanges[0]!, (payload: Record<string, unknown>) => ({ ...payload, sid: payloadOf(foreign).sid })]) {
    change = changed
    const answer = await refresh(app, refreshToken)
    assert.equal(answer.statusCode, 500, caseOf(changed))
    assert.deepEqual(cookiesOf(answer), [], caseOf(changed))
  }
  for (const sid of ['x', payloadOf(token).sid, null]) {
    await t.rejects(app.tokenAuth.generateAccessToken({ user_id: 1 }, { request: mistyped({ raw: {}, headers: {} }), extendPayload: (payload) => ({ ...payload, sid }) }), { name: 'MissingRegisteredClaim', message })
  }
  change = (payload) => payload
  scopesName = 'sid'
  await isRefused({ statusCode: 500, code: 'TOKEN_AUTH_HANDLER_FAILED' })
  t.same(store.taken(), [])
  t.equal(events.length, 0)
  scopesName = 'scopes'
  t.equal((await refresh(app, refreshToken)).statusCode, 200, 'the refresh token is as good as before')
})

t.test('a token that expires after its ended session is forgotten is not signed; an earlier expiry is allowed', async (t) => {
  setClock(t, now())
  const message = 'The payload of a new access token has an "exp" later than "expirationDelta" of the registration allows. Ended sessions are remembered only for this time. Check extendPayload, and getExpirationDelta.'
  let delta = 1800
  let exp: number | undefined
  const { app, store } = await withSessions(t, { getExpirationDelta: () => delta, extendPayload: (payload) => exp === undefined ? payload : { ...payload, exp } })
  app.post('/start', async (request, reply) => await app.tokenAuth.sessions.start(request, reply, { user_id: 1 }))
  app.post('/generate', async (request) => ({ token: await app.tokenAuth.generateAccessToken({ user_id: 1 }, { request }) }))
  const { refresh_token: refreshToken } = await started(app)
  const requests = {
    login: () => login(app), refresh: () => refresh(app, refreshToken), start: () => app.inject({ method: 'POST', url: '/start' }), generate: () => app.inject({ method: 'POST', url: '/generate' })
  }
  store.taken()
  for (const [name, request] of Object.entries(requests)) {
    for (const [beyond, later] of [[1801, undefined], [century, undefined], [1800, now() + 1801], [60, now() + 1_000_000]] as const) {
      [delta, exp] = [beyond, later]
      const answer = await request()
      assert.equal(answer.statusCode, 500, name)
      assert.ok(answer.body.includes(JSON.stringify(message).slice(1, -1)), name)
      assert.doesNotMatch(answer.body, /eyJ/, name)
    }
  }
  t.same(store.taken(), [], 'nothing is stored or rotated')
  for (const [within, earlier] of [[1800, undefined], [60, undefined], [1800, now() + 10], [1801, now() + 1800]] as const) {
    [delta, exp] = [within, earlier]
    for (const [name, request] of Object.entries(requests)) assert.equal((await request()).statusCode, 200, name)
  }
  const specified = await build(t, { getExpirationDelta: () => 1801 })
  t.equal((await login(specified)).statusCode, 200, 'without sessions there is no ceiling')
  const reader = await build(t, { authMode: false, sessions: { store: { endedSince: async () => ({ ended: [], cursor: '' }) } } })
  await t.rejects(reader.tokenAuth.generateAccessToken({ user_id: 1 }, { extendPayload: (payload) => ({ ...payload, exp: now() + 1801 }) }), { name: 'MissingRegisteredClaim', message }, 'of an instance without endpoints, too')
})

t.test('generateAccessToken makes a token without a session, which guards accept until it expires', async (t) => {
  const at = now()
  const setTime = setClock(t, at)
  const { app, store } = await withSessions(t)
  const { refresh_token: refreshToken } = await started(app)
  store.taken()
  const token = await app.tokenAuth.generateAccessToken({ user_id: 1 })
  t.notOk('sid' in payloadOf(token))
  t.same(store.taken(), [])
  const get = () => app.inject({ url: '/', headers: bearer(token) })
  t.same((await get()).json(), { sessionId: null, userId: 1 })
  await logout(app, refreshToken)
  t.equal(await app.tokenAuth.sessions.endAll(1), 0)
  t.equal((await get()).statusCode, 200)
  setTime(at + 1980)
  t.equal((await get()).json().exception, 'TokenExpired')
})

t.test('one store belongs to the users of one key; other issuers and audiences, with users of their own, may share it', async (t) => {
  const message = `"sessions.store" is the store of an instance with another key, whose users are not the users of this one. Give each of them a store of its own, with another prefix or table.${more}`
  const store = new WatchedStore()
  const app = await build(t, { sessions: { store } })
  await started(app)
  const { privateKey, publicKey } = { ...keysFor('ES256'), privateKey: '', publicKey: '', ...keysFor('ES256') }
  for (const options of [{ secret: otherSecret }, { algorithm: 'HS512' }, { secret: undefined, algorithm: 'ES256', privateKey, publicKey }, { secret: otherSecret, claimIss: 'there' }, { secret: otherSecret, authMode: false }]) {
    assert.equal(await said(t, { ...options, sessions: { store } }), message, caseOf(options))
    assert.equal(await said(t, { ...options, sessions: { store: ofAnotherProcess(store) } }), '', 'another object is another store')
  }
  t.equal(await said(t, { sessions: { store }, authMode: false }), '')
  t.equal(await said(t, { sessions: { store, secret: otherSecret } }), '', 'the key of refresh tokens does not tell users apart')
  for (const options of [{ claimIss: 'there' }, { claimAud: 'them' }, { claimIss: 'there', claimAud: 'them' }]) {
    const other = await build(t, { ...options, sessions: { store } })
    assert.deepEqual(await other.tokenAuth.sessions.list(1), [], 'user 1 here is not user 1 there')
    const { refresh_token: token } = await started(other)
    assert.equal(await app.tokenAuth.sessions.endAll(1), 1, caseOf(options))
    assert.equal((await refresh(other, token)).statusCode, 200, caseOf(options))
    await started(app)
  }
  const pair = { secret: undefined, algorithm: 'ES256', privateKey, publicKey }
  const shared = memorySessions()
  t.equal(await said(t, { ...pair, sessions: { store: shared } }), '')
  t.equal(await said(t, { ...pair, privateKey: undefined, authMode: false, sessions: { store: shared } }), '', 'both halves of a pair are one key')
})

t.test('a secret of sessions is at least 32 random bytes: nothing that is short, blank, asymmetric or no key, alone or in a list', async (t) => {
  const generate = 'Generate one with: node -p "crypto.randomBytes(32).toString(\'base64url\')"'
  const short = (bytes: number) => `"sessions.secret" has ${bytes} bytes; at least 32 are needed. ${generate}${more}`
  const blank = `"sessions.secret" is empty or blank. Give a random secret of at least 32 bytes.${moreOf('E01')}`
  const asymmetric = (form: string) => `"sessions.secret" is ${form}, but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS, ES or EdDSA algorithm with this key, or a random secret with HS256.${moreOf('E02')}`
  const type = (given: string) => `"sessions.secret" must be a string, a Buffer or other bytes, a KeyObject, a JWK, a file: URL, { path } or { pem, passphrase }; given: ${given}.${moreOfSettings}`
  const { publicKey, privateKey } = { publicKey: '', privateKey: '', ...keysFor('ES256') }
  const ed = { publicKey: '', privateKey: '', ...keysFor('EdDSA') }
  const folder = t.testdir({ secret: otherSecret, short: 'x'.repeat(31), key: publicKey })
  const good = 'a secret of sessions, of 32 bytes'
  const refusedSecrets: [unknown, string, string?][] = [
    ['x'.repeat(31), short(31)], ['ä'.repeat(15), short(30)], [Buffer.alloc(31, 1), short(31)], [createSecretKey(Buffer.alloc(16, 1)), short(16)],
    [{ path: `${folder}/short` }, short(31)], [{ kty: 'oct', k: Buffer.alloc(31, 1).toString('base64url') }, short(31)],
    ['', blank, 'E01'], [' '.repeat(40), blank, 'E01'], ['\t\n'.repeat(20), blank, 'E01'], [Buffer.alloc(0), blank, 'E01'],
    [publicKey, asymmetric('a PEM key or certificate'), 'E02'], [privateKey, asymmetric('a PEM key or certificate'), 'E02'], [ed.privateKey, asymmetric('a PEM key or certificate'), 'E02'],
    [createPublicKey(publicKey), asymmetric('a public key'), 'E02'], [createPrivateKey(privateKey), asymmetric('a private key'), 'E02'],
    [createPublicKey(publicKey).export({ format: 'jwk' }), asymmetric('a JWK of another type than "oct"'), 'E02'],
    [createPublicKey(publicKey).export({ type: 'spki', format: 'der' }), asymmetric('a DER key or certificate'), 'E02'],
    [Buffer.from(publicKey).toString('base64'), asymmetric('a base64 key or certificate'), 'E02'],
    [{ path: `${folder}/key` }, asymmetric('a PEM key or certificate'), 'E02'],
    [{ pem: good, passphrase: 'x' }, `"sessions.secret" has a passphrase, but only a private key is encrypted with one. Use the form without "passphrase".${moreOf('E07')}`, 'E07'],
    [{ path: `${folder}/none` }, `The file given as "sessions.secret" cannot be read (ENOENT). Check its path and permissions.${moreOf('E08')}`, 'E08'],
    [null, type('null')], [5, type('a number')], [true, type('a boolean')], [{}, type('an object')], [() => good, type('a function')], [Promise.resolve(good), type('a promise')], [[good], type('an array')]
  ]
  for (const [given, message, finding] of refusedSecrets) {
    for (const list of [[given], [good, given], [given, good]]) {
      const error = await refusal(t, { sessions: { secret: list } })
      assert.equal(error?.message, message, caseOf(given, list))
      assert.equal(Reflect.get(Object(error), 'finding'), finding && `TOKEN_AUTH_${finding}`, caseOf(given, list))
    }
    // A list is not a list of lists.
    if (!Array.isArray(given)) assert.equal(await said(t, { sessions: { secret: given } }), message, caseOf(given))
  }
  t.equal(await said(t, { sessions: { secret: [] } }), `"sessions.secret" must be a secret of at least 32 bytes, or a non-empty list of them; given: an empty list.${more}`)
  for (const list of [[undefined], [undefined, good], [good, undefined]]) assert.equal(await said(t, { sessions: { secret: list } }), type('undefined'), 'a variable that is not set does not lead to another key')
  const bytes = Buffer.from(Array.from({ length: 32 }, (_, index) => index))
  const goodSecrets = [good, 'ä secret ö of ü sessiöns, ä, ö, ü', bytes, createSecretKey(bytes), { path: `${folder}/secret` }, pathToFileURL(`${folder}/secret`), { kty: 'oct', k: bytes.toString('base64url') }]
  for (const given of [...goodSecrets, goodSecrets, undefined]) assert.equal(await said(t, { sessions: { secret: given } }), '', caseOf(given))
  environment(t, 'production')
  t.match(await refusal(t, { sessions: { store: new WatchedStore(), secret: 'x'.repeat(31) } }), {
    message: `"sessions.secret" is shorter than 32 bytes, and NODE_ENV is "production": it can be guessed from one token. Give a random secret of at least 32 bytes.${moreOf('E23')}`, finding: 'TOKEN_AUTH_E23'
  })
})

t.test('without the option sessions, and where tokens are only verified, every method of sessions is an InvalidConfiguration', async (t) => {
  const { stored, ...specified } = refreshStore()
  const instances = {
    'without the option': await build(t),
    'with refresh tokens of the specification': await build(t, specified),
    'verifying only': await build(t, { authMode: false, sessions: { store: new WatchedStore() } })
  }
  const calls = (app: FastifyInstance): Record<string, () => Promise<unknown>> => ({
    start: () => app.tokenAuth.sessions.start(mistyped({}), mistyped({}), { user_id: 1 }),
    list: () => app.tokenAuth.sessions.list(1),
    end: () => app.tokenAuth.sessions.end(1, 'A'.repeat(22)),
    endAll: () => app.tokenAuth.sessions.endAll(1)
  })
  for (const [name, app] of Object.entries(instances)) {
    for (const [method, call] of Object.entries(calls(app))) {
      await t.rejects(call(), {
        name: 'InvalidConfiguration', message: `sessions.${method}() needs the option "sessions" and "authMode": true. Give "sessions": {} to register(), or a store: { store }.${more}`
      }, name)
    }
    for (const url of ['/auth/logout', '/auth/sessions']) assert.ok(!(app.hasRoute({ method: 'POST', url }) || app.hasRoute({ method: 'GET', url })), `${name}: ${url}`)
  }
  environment(t, 'production')
  await t.rejects(calls(instances['without the option']).list!(), { name: 'InvalidConfiguration', message: 'The configuration is invalid.' })
})

t.test('generateRefreshToken() of an instance with sessions names sessions.start()', async (t) => {
  const { app, store } = await withSessions(t)
  await t.rejects(app.tokenAuth.generateRefreshToken(mistyped({}), { user_id: 1 }), {
    name: 'InvalidConfiguration', message: `generateRefreshToken() does not exist with "sessions", whose refresh tokens belong to a session. Use sessions.start().${more}`
  })
  t.same(store.taken(), [])
})

/** What a test of `lifetime` or `data` needs: logins by the endpoint and by `start`, of which nothing may remain. */
async function withFunctions (t: Test) {
  warnings(t, 'W24')
  const given: { lifetime: () => unknown, data: () => unknown } = { lifetime: () => 2_592_000, data: () => ({}) }
  const { app, store } = await withSessions(t, { cookieSet: true, sessions: { lifetime: () => mistyped(given.lifetime()), data: () => mistyped(given.data()) } })
  // The names alone: to compare requests takes a test minutes.
  const events: unknown[] = []
  const listener = (message: unknown) => { events.push(Reflect.get(Object(message), 'type') ?? 'issued') }
  for (const channel of ['session', 'issued']) {
    subscribe(`fastify-token-auth:${channel}`, listener)
    t.teardown(() => unsubscribe(`fastify-token-auth:${channel}`, listener))
  }
  let caught: unknown
  app.post('/start', async (request, reply) => {
    caught = undefined
    try {
      return await app.tokenAuth.sessions.start(request, reply, { user_id: 1 })
    } catch (error) {
      caught = error
      throw error
    }
  })
  const logins = [() => login(app), () => app.inject({ method: 'POST', url: '/start' })]
  return {
    app,
    store,
    given,
    async fails (handler: string, message?: string) {
      for (const attempt of logins) {
        const answer = await attempt()
        assert.equal(answer.statusCode, 500, caseOf(attempt))
        assert.ok(answer.body.includes(`The ${handler} handler failed.`), answer.body)
        assert.deepEqual(cookiesOf(answer), [], caseOf(attempt))
      }
      t.match(caught, { name: 'HandlerFailed', ...(message !== undefined && { cause: { message } }) })
      t.same(store.taken(), [], 'nothing is stored')
      t.same(events, [], 'nothing is issued')
    },
    async works () {
      for (const attempt of logins) assert.equal((await attempt()).statusCode, 200, caseOf(attempt))
      t.same(store.taken(), ['create', 'create'])
      events.splice(0)
    }
  }
}

t.test('a function lifetime gives a number within the bounds at each login; for anything else nothing is stored and nothing issued', async (t) => {
  const { app, store, given, fails, works } = await withFunctions(t)
  const returned: [unknown, string][] = [
    ...[1799, 0, -1, century + 1, Infinity, NaN, 1800.5].map((number): [number, string] => [number, String(number)]),
    ['3600', 'a string'], [null, 'null'], [undefined, 'undefined'], [true, 'a boolean'], [3600n, 'a bigint'], [{}, 'an object'], [[3600], 'an array'], [Promise.resolve('3600'), 'a string']
  ]
  for (const [value, found] of returned) {
    given.lifetime = () => value
    await fails('sessions.lifetime', `sessions.lifetime must return a whole number of seconds from "expirationDelta", which is 1800, to ${century}; it returned ${found}.`)
  }
  given.lifetime = () => { throw new Error('The table is locked.') }
  await fails('sessions.lifetime', 'The table is locked.')
  given.lifetime = () => Promise.reject(new Error('The table is locked.'))
  await fails('sessions.lifetime', 'The table is locked.')
  given.lifetime = () => { throw new AuthenticationFailed('Not today.') }
  const refused = await login(app)
  t.equal(refused.statusCode, 401)
  t.same(refused.json(), { reasons: 'Not today.', exception: 'AuthenticationFailed' }, 'what a host refuses is refused')
  t.same(store.taken(), [])
  for (const seconds of [1800, century]) {
    given.lifetime = () => seconds
    await works()
    const lifetimes = (await app.tokenAuth.sessions.list(1)).map(({ createdAt, expiresAt }) => (expiresAt.getTime() - createdAt.getTime()) / 1000)
    assert.deepEqual(new Set(lifetimes), new Set([seconds]), caseOf(seconds))
    await app.tokenAuth.sessions.endAll(1)
    store.taken()
  }
})

t.test('data gives an object of at most 1,024 bytes of JSON; for anything else nothing is stored and nothing issued', async (t) => {
  const { app, store, given, fails, works } = await withFunctions(t)
  const cycle: { self?: unknown } = {}
  cycle.self = cycle
  class Device { device = 'x' }
  const plain: [unknown, string][] = [
    [undefined, 'undefined'], [null, 'null'], ['x', 'a string'], [5, '5'], [[], 'an array'], [new Map(), 'an object'], [new Date(), 'an object'], [new Device(), 'an object'],
    [() => ({}), 'a function'], [Promise.resolve(undefined), 'undefined']
  ]
  for (const [value, found] of plain) {
    given.data = () => value
    await fails('sessions.data', `sessions.data must return a plain object; it returned ${found}.`)
  }
  for (const value of [{ text: 'x'.repeat(1014) }, { text: 'ä'.repeat(507) }, { text: '\n'.repeat(507) }]) {
    given.data = () => value
    await fails('sessions.data', 'sessions.data must return an object of at most 1024 bytes as JSON; it returned an object.')
  }
  for (const value of [{ toJSON: () => 'x' }, { toJSON: () => [] }, { toJSON: () => null }, { toJSON: () => undefined }]) {
    given.data = () => value
    await fails('sessions.data', 'sessions.data must return an object whose JSON is an object; it returned an object.')
  }
  for (const value of [cycle, { big: 5n }, { toJSON () { throw new Error('No.') } }, { get text () { throw new Error('No.') } }]) {
    given.data = () => value
    await fails('sessions.data')
  }
  given.data = () => { throw new Error('The table is locked.') }
  await fails('sessions.data', 'The table is locked.')
  given.data = () => Promise.reject(new Error('The table is locked.'))
  await fails('sessions.data', 'The table is locked.')

  const shown: [unknown, object][] = [
    [{}, {}], [{ text: 'x'.repeat(1013) }, { text: 'x'.repeat(1013) }], [{ text: 'ä'.repeat(506) }, { text: 'ä'.repeat(506) }], [Promise.resolve({ device: 'x' }), { device: 'x' }],
    [{ at: new Date(0), none: undefined, act () {} }, { at: '1970-01-01T00:00:00.000Z' }], [Object.assign(Object.create(null), { a: 1 }), { a: 1 }], [{ toJSON: () => ({ b: 2 }) }, { b: 2 }]
  ]
  for (const [value, data] of shown) {
    given.data = () => value
    await works()
    const listed = await app.tokenAuth.sessions.list(1)
    assert.deepEqual(listed.map((session) => session.data), [data, data], caseOf(value))
    await app.tokenAuth.sessions.endAll(1)
    store.taken()
  }
})

const [one, two] = ['one of the secrets of sessions, for tests', 'two of the secrets of sessions, for tests']

t.test('processes with the same secrets in another order rotate, repeat and end each other\'s sessions', async (t) => {
  const at = now()
  const setTime = setClock(t, at)
  const { app: first, store } = await withSessions(t, { sessions: { secret: [one, two] } })
  const { app: second } = await withSessions(t, { sessions: { store: ofAnotherProcess(store), secret: [two, one] } })
  let { refresh_token: token } = await started(first)
  const seen = new Set([token])
  for (const [index, app] of [second, first, second, second, first, first].entries()) {
    setTime(at + 31 * (index + 1))
    const answer = await refresh(app, token)
    assert.equal(answer.statusCode, 200, caseOf(index))
    const predecessor = token
    token = answer.json().refresh_token
    seen.add(token)
    for (const presented of [predecessor, token]) for (const other of [first, second]) assert.equal((await refresh(other, presented)).statusCode, 200, 'within the window, in both')
  }
  t.equal(seen.size, 7, 'one rotation each')
  t.equal((await logout(first, token)).statusCode, 204)
  t.equal((await refresh(second, token)).statusCode, 401)
})

t.test('a secret is replaced without a logout: added second, then first, then the old one is dropped; what it signed is refused then', async (t) => {
  const at = now()
  const setTime = setClock(t, at)
  const { app: before, store } = await withSessions(t, { sessions: { secret: one } })
  const abandoned = await started(before)
  let { refresh_token: token } = await started(before)
  for (const [index, secrets] of [[one, two], [two, one], two].entries()) {
    setTime(at + 31 * (index + 1))
    const { app } = await withSessions(t, { sessions: { store: ofAnotherProcess(store), secret: secrets } })
    const answer = await refresh(app, token)
    assert.equal(answer.statusCode, 200, caseOf(index))
    token = answer.json().refresh_token
  }
  store.taken()
  const { app: after } = await withSessions(t, { sessions: { store: ofAnotherProcess(store), secret: [two] } })
  const refused = await refresh(after, abandoned.refresh_token)
  t.equal(refused.statusCode, 401)
  t.same(refused.json(), { reasons: 'Authentication failed.', exception: 'AuthenticationFailed' })
  t.equal((await logout(after, abandoned.refresh_token)).statusCode, 204)
  t.same(store.taken(), [], 'without a call of the store')
  t.equal((await after.inject({ url: '/', headers: bearer(abandoned.access_token) })).statusCode, 200, 'its session has not ended')
})

t.test('with a secret of sessions the signing key may change without a logout; without one it may not', async (t) => {
  for (const [own, status] of [[{ secret: one }, 200], [{}, 401]] as const) {
    const { app, store } = await withSessions(t, { sessions: own })
    const { refresh_token: token } = await started(app)
    for (const keys of [{ secret: otherSecret }, { secret: undefined, ...keysFor('ES256') }]) {
      const { app: next } = await withSessions(t, { ...keys, sessions: { store: ofAnotherProcess(store), ...own } })
      assert.equal((await refresh(next, token)).statusCode, status, caseOf(own, keys))
    }
  }
})

t.test('without a secret of sessions the key of refresh tokens is derived from the signing key, whatever the form it was given in', async (t) => {
  const es = { publicKey: '', privateKey: '', ...keysFor('ES256') }
  const ed = { publicKey: '', privateKey: '', ...keysFor('EdDSA') }
  const der = (pem: string) => createPrivateKey(pem).export({ type: 'pkcs8', format: 'der' })
  const pairForms = (pair: typeof es): object[] => [
    pair,
    { ...pair, privateKey: createPrivateKey(pair.privateKey), publicKey: createPublicKey(pair.publicKey) },
    { ...pair, privateKey: createPrivateKey(pair.privateKey).export({ format: 'jwk' }), publicKey: createPublicKey(pair.publicKey).export({ format: 'jwk' }) },
    { ...pair, privateKey: { pem: createPrivateKey(pair.privateKey).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }), passphrase: 'x' } }
  ].map((forms) => ({ ...forms, secret: undefined }))
  const cases: Record<string, { forms: object[], material: Buffer }> = {
    HS256: {
      forms: [{ secret }, { secret: Buffer.from(secret) }, { secret: createSecretKey(Buffer.from(secret)) }, { secret: { kty: 'oct', k: Buffer.from(secret).toString('base64url') } }, { secret: undefined, publicKey: secret }],
      material: Buffer.from(secret)
    },
    ES256: { forms: [...pairForms(es), { secret: undefined, ...es, privateKey: createPrivateKey(es.privateKey).export({ type: 'sec1', format: 'pem' }) }], material: der(es.privateKey) },
    EdDSA: { forms: pairForms(ed), material: der(ed.privateKey) }
  }
  for (const [name, { forms, material }] of Object.entries(cases)) {
    const store = new WatchedStore()
    const apps: FastifyInstance[] = []
    // One store object: all forms are one key.
    for (const form of forms) apps.push((await withSessions(t, mistyped<Partial<TokenAuthOptions>>({ ...form, sessions: { store } }))).app)
    const tokens: Tokens = await started(apps[0]!)
    for (const [index, app] of apps.entries()) assert.equal((await refresh(app, tokens.refresh_token)).statusCode, 200, `${name}, form ${index}`)
    const bytes = Buffer.from(tokens.refresh_token, 'base64url')
    const key = Buffer.from(hkdfSync('sha256', material, '', 'fastify-token-auth refresh v1', 32))
    const mac = createHmac('sha256', key).update(bytes.subarray(0, -16)).update('[null,null]').digest().subarray(0, 16)
    assert.deepEqual(bytes.subarray(-16), mac, name)
  }
  const own = await withSessions(t, { sessions: { secret: one } })
  const explicit = await withSessions(t, { secret: one.repeat(2), sessions: { store: ofAnotherProcess(own.store), secret: Buffer.from(one) } })
  t.equal((await refresh(explicit.app, (await started(own.app)).refresh_token)).statusCode, 200, 'text is its UTF-8 bytes')
})
