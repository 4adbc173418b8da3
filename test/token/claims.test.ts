import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { LightMyRequestResponse } from 'fastify'
import { setImmediate as nextTask } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { noInstance } from '../../lib/challenge.ts'
import { InvalidClaim, TokenExpired, TokenNotActive, type TokenAuthError } from '../../lib/errors.ts'
import type { Settings, TokenAuthOptions } from '../../lib/index.ts'
import { resolveSettings } from '../../lib/settings/configuration.ts'
import { isUserId } from '../../lib/values.ts'
import { checkClaims, copyPayload, readRegistered } from '../../lib/token/claims.ts'
import { bearer, build, caseOf, forge, login, payloadOf, setClock, warnings } from '../helper.ts'

warnings(t, 'W04', 'W06')

const now = 2_000_000_000
const settings = (given: Partial<TokenAuthOptions> = {}): Settings => resolveSettings({ ...given }, undefined).settings
const valid = (extra: Record<string, unknown> = {}) => ({ user_id: 1, exp: now + 60, ...extra })

/** The error that refuses a payload, or undefined for a valid one. */
function check (payload: Record<string, unknown>, given: Partial<TokenAuthOptions> = {}, at = now, checkExpiry = true): TokenAuthError | undefined {
  return checkClaims(payload, readRegistered(payload), settings(given), at, checkExpiry)?.toError(noInstance)
}

/** Its name. */
const refusal = (...given: Parameters<typeof check>) => check(...given)?.name

// Promise: specification/2-exp
t.test('a token is valid until, not on, exp + leeway, to the second and below it', async (t) => {
  for (const leeway of [0, 1, 180]) {
    const at = (offset: number, exp = now) => refusal({ user_id: 1, exp }, { leeway }, exp + leeway + offset)
    for (const offset of [-86400, -1, -0.001]) assert.equal(at(offset), undefined, `leeway ${leeway}, ${offset} s`)
    for (const offset of [0, 0.001, 1, 1e9]) assert.equal(at(offset), 'TokenExpired', `leeway ${leeway}, +${offset} s`)
    assert.equal(at(-0.25, now + 0.5), undefined, 'dates may have fractions (RFC 7519 section 2)')
  }
  t.equal(refusal({ user_id: 1, exp: now }), undefined, 'the default leeway is 180 seconds')
  t.equal(refusal({ user_id: 1, exp: now - 180 }), 'TokenExpired')
})

// Promise: specification/3-nbf
t.test('a token is valid from nbf - leeway on, whether or not nbf is asked for', async () => {
  for (const claimNbf of [false, true]) {
    for (const leeway of [0, 1, 180]) {
      const at = (offset: number) => refusal({ user_id: 1, exp: now + 1e6, nbf: now }, { leeway, claimNbf }, now - leeway + offset)
      for (const offset of [0, 0.001, 1, 86400]) assert.equal(at(offset), undefined, `leeway ${leeway}, +${offset} s`)
      for (const offset of [-0.001, -1, -86400]) assert.equal(at(offset), 'TokenNotActive', `leeway ${leeway}, ${offset} s`)
    }
  }
})

const greatest = 8_640_000_000_000
const noDates: readonly unknown[] = [null, '1', `${now + 60}`, true, [], [now + 60], {}, Infinity, -Infinity, NaN, greatest + 1, -greatest - 1]

// Promise: specification/unusual-tokens-rule
t.test('a date that is none is refused, whatever the settings ask', async (t) => {
  for (const claim of ['exp', 'nbf', 'iat']) {
    for (const value of noDates) {
      for (const given of [{}, { verifyExp: false }, { claimNbf: true, claimIat: true }]) {
        const payload = valid({ nbf: now, [claim]: value })
        const outcome = check(payload, given)
        assert.ok(outcome instanceof InvalidClaim, `${claim}: ${String(value)} with ${JSON.stringify(given)}`)
        assert.equal(outcome instanceof InvalidClaim && outcome.claim, claim, caseOf(claim, value, given))
        assert.equal(refusal(payload, given, now, false), 'InvalidClaim', 'also on refresh')
      }
    }
  }
  t.equal(refusal(valid({ exp: greatest, iat: greatest })), undefined, 'the greatest date is one')
  t.equal(refusal(valid({ nbf: -greatest, iat: -greatest })), undefined, 'the least date is one')
})

t.test('a clock that gives no number finds every token expired, and none active', async (t) => {
  t.equal(refusal(valid(), {}, NaN), 'TokenExpired')
  t.equal(refusal({ user_id: 1, nbf: now }, { verifyExp: false }, NaN), 'TokenNotActive')
})

t.test('a token that has expired, or is not active, is that first, and of a wrong type after', async () => {
  for (const wrong of [{ nbf: 'x' }, { iat: 'x' }, { iss: 1 }, { aud: 1 }]) {
    assert.equal(refusal({ ...valid(wrong), exp: 1 }), 'TokenExpired', JSON.stringify(wrong))
    assert.equal(refusal({ ...valid(wrong), exp: 'x' }), 'InvalidClaim', caseOf(wrong))
    if (!('nbf' in wrong)) assert.equal(refusal({ ...valid(wrong), nbf: now + 1e6 }), 'TokenNotActive', JSON.stringify(wrong))
  }
})

// Promise: specification/2-exp
// Promise: specification/4-iss-aud
// Promise: specification/claim-aud
// Promise: specification/claim-iss
// Promise: specification/claim-nbf
// Promise: specification/claim-whose-setting
// Promise: specification/iss-aud
// Promise: specification/verify-exp
t.test('asking for a claim makes it required, and not asking makes it free', async () => {
  const rows: Array<[string, Record<string, unknown>, Partial<TokenAuthOptions>, string | undefined]> = [
    ['exp missing', { user_id: 1 }, {}, 'InvalidClaim'],
    ['exp missing, not asked for', { user_id: 1 }, { verifyExp: false }, undefined],
    ['exp past, not asked for', { user_id: 1, exp: 1 }, { verifyExp: false }, undefined],
    ['nbf missing', valid(), {}, undefined],
    ['nbf missing, asked for', valid(), { claimNbf: true }, 'InvalidClaim'],
    ['iat missing, asked for', valid(), { claimIat: true }, undefined],
    ['iat in the future', valid({ iat: now + 1e6 }), { claimIat: true }, undefined],
    ['iat long ago', valid({ iat: 0 }), {}, undefined],
    ['iss missing', valid(), { claimIss: 'me' }, 'InvalidClaim'],
    ['iss right', valid({ iss: 'me' }), { claimIss: 'me' }, undefined],
    ['iss other', valid({ iss: 'you' }), { claimIss: 'me' }, 'InvalidClaim'],
    ['iss in other case', valid({ iss: 'Me' }), { claimIss: 'me' }, 'InvalidClaim'],
    ['iss a part of ours', valid({ iss: 'm' }), { claimIss: 'me' }, 'InvalidClaim'],
    ['iss longer than ours', valid({ iss: 'me.example' }), { claimIss: 'me' }, 'InvalidClaim'],
    ['iss a pattern', valid({ iss: '.*' }), { claimIss: 'me' }, 'InvalidClaim'],
    ['iss that ours would match as a pattern', valid({ iss: 'mxe' }), { claimIss: 'm.e' }, 'InvalidClaim'],
    ['iss as a list', valid({ iss: ['me'] }), { claimIss: 'me' }, 'InvalidClaim'],
    ['iss null', valid({ iss: null }), { claimIss: 'me' }, 'InvalidClaim'],
    ['iss of any text, not asked for', valid({ iss: 'you' }), {}, undefined],
    ['iss of a wrong type, not asked for', valid({ iss: ['me'] }), {}, 'InvalidClaim'],
    ['iss null, not asked for', valid({ iss: null }), {}, 'InvalidClaim'],
    ['aud missing', valid(), { claimAud: 'us' }, 'InvalidClaim'],
    ['aud right', valid({ aud: 'us' }), { claimAud: 'us' }, undefined],
    ['aud right among others', valid({ aud: ['them', 'us'] }), { claimAud: 'us' }, undefined],
    ['aud other', valid({ aud: 'them' }), { claimAud: 'us' }, 'InvalidClaim'],
    ['aud a longer text', valid({ aud: 'us, them' }), { claimAud: 'us' }, 'InvalidClaim'],
    ['aud others', valid({ aud: ['them', 'US', 'u'] }), { claimAud: 'us' }, 'InvalidClaim'],
    ['aud an empty list', valid({ aud: [] }), { claimAud: 'us' }, 'InvalidClaim'],
    ['aud nested', valid({ aud: [['us']] }), { claimAud: 'us' }, 'InvalidClaim'],
    ['aud right beside something that is no text', valid({ aud: ['us', 1] }), { claimAud: 'us' }, 'InvalidClaim'],
    ['aud a mapping', valid({ aud: { 0: 'us', length: 1 } }), { claimAud: 'us' }, 'InvalidClaim'],
    ['aud null', valid({ aud: null }), { claimAud: 'us' }, 'InvalidClaim'],
    ['aud of anybody, not asked for', valid({ aud: ['them'] }), {}, undefined],
    ['aud of a wrong type, not asked for', valid({ aud: 1 }), {}, 'InvalidClaim'],
    ['aud null, not asked for', valid({ aud: null }), {}, 'InvalidClaim']
  ]
  for (const [name, payload, given, expected] of rows) assert.equal(refusal(payload, given), expected, name)
})

t.test('a refusal does not disclose the expected value', async (t) => {
  const given = { claimIss: 'expected issuer', claimAud: 'expected audience' }
  for (const payload of [valid(), valid({ iss: 'x', aud: 'x' }), valid({ iss: given.claimIss, aud: 'x' })]) {
    const error = check(payload, given)
    assert.ok(error instanceof InvalidClaim, caseOf(payload))
    t.notMatch(JSON.stringify([error, error?.message]), 'expected')
  }
})

t.test('on refresh exp may have passed but must be there, and all else must hold', async (t) => {
  const onRefresh = (payload: Record<string, unknown>, given: Partial<TokenAuthOptions> = {}) => refusal(payload, given, now, false)
  t.equal(onRefresh({ user_id: 1, exp: 1 }), undefined)
  t.equal(onRefresh({ user_id: 1 }), 'InvalidClaim')
  t.equal(onRefresh({ user_id: 1, exp: 1, nbf: now + 181 }), 'TokenNotActive')
  t.equal(onRefresh({ user_id: 1, exp: 1, iss: 'you' }, { claimIss: 'me' }), 'InvalidClaim')
  t.equal(onRefresh({ exp: 1 }), 'InvalidClaim')
})

t.test('a user id is a non-empty string, a safe integer or a boolean', async (t) => {
  const ids = ['1', ' ', 'Ἀδα', '__proto__', 0, 1, -1, Number.MAX_SAFE_INTEGER, true, false]
  const none = [undefined, null, '', 1.5, NaN, Infinity, Number.MAX_SAFE_INTEGER + 1, [], [1], {}, { $ne: null }, 1n, Symbol('id'), () => 1]
  for (const id of ids) {
    assert.ok(isUserId(id), `${id}`)
    assert.equal(refusal(valid({ user_id: id })), undefined, caseOf(id))
    assert.equal(refusal({ exp: now + 60, sub: id }, { userId: 'sub' }), undefined, 'under the name that the settings give')
  }
  for (const id of none) {
    assert.ok(!isUserId(id), String(id))
    const outcome = check(valid({ user_id: id }))
    assert.equal(outcome instanceof InvalidClaim && outcome.claim, 'user_id', caseOf(id))
  }
  t.equal(refusal(valid(), { userId: 'sub' }), 'InvalidClaim', 'another instance\'s user id is none')
})

// Promise: specification/unusual-tokens-rule
t.test('a claim that a payload only inherits is missing', async (t) => {
  const inherited = (own: Record<string, unknown>, prototype: Record<string, unknown>) => Object.assign(Object.create(prototype), own)
  t.equal(refusal(inherited({ user_id: 1 }, { exp: now + 60 })), 'InvalidClaim')
  t.equal(refusal(inherited({ exp: now + 60 }, { user_id: 1 })), 'InvalidClaim')
  t.equal(refusal(inherited(valid(), { iss: 'me' }), { claimIss: 'me' }), 'InvalidClaim')
  t.equal(refusal(JSON.parse(`{"__proto__":{"user_id":1},"exp":${now + 60}}`)), 'InvalidClaim')
  t.equal(refusal(valid(), { userId: 'toString' }), 'InvalidClaim')
  const error = check({ user_id: 1, exp: 1 })
  t.ok(error instanceof TokenExpired && !(error instanceof InvalidClaim))
  t.ok(check(valid({ nbf: now + 1e6 })) instanceof TokenNotActive)
})

/** Collects what nobody caught, until the test ends. */
function unhandled (t: Test): unknown[] {
  const reasons: unknown[] = []
  const listener = (reason: unknown) => { reasons.push(reason) }
  process.on('unhandledRejection', listener)
  t.teardown(() => process.off('unhandledRejection', listener))
  return reasons
}

t.test('a custom claim or an extra verification passes with true and nothing else, by every door', async (t) => {
  const rejections = unhandled(t)
  const fail = (error: unknown) => () => { throw error }
  const answers: Record<string, () => unknown> = {
    false: () => false,
    1: () => 1,
    text: () => 'true',
    object: () => ({}),
    'a boxed true': () => Object(true),
    undefined: () => undefined,
    null: () => null,
    'a promise of true': () => Promise.resolve(true),
    'a promise that fails': () => Promise.reject(new Error('late')),
    'a thenable': () => ({ then: (resolve: (value: boolean) => void) => resolve(true) }),
    'an error thrown': fail(new Error('secret detail')),
    'nothing thrown': fail(undefined),
    'a 200 thrown': fail(Object.assign(new Error('ok'), { statusCode: 200 }))
  }
  let answer: () => unknown = () => true
  const verify = () => answer() as boolean
  const instances = {
    'custom claim': await build(t, { customClaims: [{ key: 'tenant', setup: () => 'a', verify }] }),
    'extra verification': await build(t, { extraVerifications: [() => true, verify] })
  }
  for (const [kind, app] of Object.entries(instances)) {
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
    answer = () => true
    const { access_token: token } = (await login(app)).json()
    const ask = (url = '/') => app.inject({ url, headers: bearer(token) })
    assert.equal((await ask()).body, 'reached', kind)
    for (const [name, given] of Object.entries(answers)) {
      answer = given
      const response = await ask()
      assert.equal(response.statusCode, 401, `${kind}: ${name}`)
      assert.deepEqual(response.json(), { reasons: 'Token has an invalid claim.', exception: 'InvalidClaim' }, caseOf(kind, name))
      assert.match(String(response.headers['www-authenticate']), /^Bearer realm="[^"]+", error="invalid_token"/, caseOf(kind, name))
      assert.equal((await ask('/auth/verify')).statusCode, 400, caseOf(kind, name))
      t.throws(() => app.tokenAuth.verifyToken(token), { name: 'InvalidClaim' })
    }
    answer = () => true
    assert.equal((await ask()).body, 'reached', 'and the next request is judged on its own')
  }
  await nextTask()
  t.strictSame(rejections, [])
})

t.test('what a check does to the payload changes neither the token\'s next request nor its user id', async (t) => {
  const app = await build(t, {
    extraVerifications: [(payload) => { payload.user_id = 99; payload.exp = 0; return true }]
  })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => ({ id: request.tokenAuth.userId }))
  const { access_token: token } = (await login(app)).json()
  for (let round = 0; round < 3; round++) assert.deepEqual((await app.inject({ url: '/', headers: bearer(token) })).json(), { id: 1 }, caseOf(round))
})

t.test('copies', async (t) => {
  const parts = (value: unknown): object[] => typeof value === 'object' && value !== null ? [value, ...Object.values(value).flatMap(parts)] : []
  await t.test('a copy of a payload equals it and shares no object with it', async () => {
    const keys = fc.oneof(fc.string(), fc.constantFrom('__proto__', 'constructor', 'toString', '0'))
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof({ depthSize: 'small' }, fc.constantFrom<unknown>(null, true, 1, 'x'), fc.array(tie('tree')), fc.array(fc.tuple(keys, tie('tree'))).map(Object.fromEntries))
    }))
    fc.assert(fc.property(fc.array(fc.tuple(keys, tree)), (entries) => {
      const payload = JSON.parse(JSON.stringify(Object.fromEntries(entries)))
      const copy = copyPayload(payload)
      const originals = new Set(parts(payload))
      return isDeepStrictEqual(copy, payload) && parts(copy).every((part) => !originals.has(part) && (Array.isArray(part) || Object.getPrototypeOf(part) === Object.prototype))
    }))
  })
  await t.test('a copy has nothing that a prototype was polluted with', async (t) => {
    const polluted = { scopes: ['admin'], list: {} }
    for (const [name, value] of Object.entries(polluted)) Reflect.defineProperty(Object.prototype, name, { value, configurable: true, enumerable: true, writable: true })
    try {
      const copy = copyPayload({ user_id: 1, own: { a: [1] } })
      t.strictSame(Object.keys(copy), ['user_id', 'own'])
      t.strictSame(Object.keys(Object(copy.own)), ['a'])
    } finally {
      for (const name of Object.keys(polluted)) Reflect.deleteProperty(Object.prototype, name)
    }
  })
  await t.test('a payload as deep as a token can be is checked and copied', async (t) => {
    const depth = 3000
    const app = await build(t, { extraVerifications: [() => true] })
    const depthOf = (value: unknown) => {
      let levels = 0
      for (let level = value; Array.isArray(level); level = level[0]) levels++
      return levels
    }
    app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => depthOf(request.tokenAuth.payload?.deep))
    const token = forge(valid({ exp: 4102444800, deep: JSON.parse('['.repeat(depth) + ']'.repeat(depth)) }))
    t.ok(token.length < 8192 && token.length > 8000)
    t.equal((await app.inject({ url: '/', headers: bearer(token) })).body, `${depth}`)
  })
})

// Promise: specification/claim-aud
// Promise: specification/claim-iss
// Promise: specification/claim-nbf
t.test('a new token carries what the settings say, dates in whole seconds', async (t) => {
  setClock(t, now + 0.9)
  const issued = async (options: Partial<TokenAuthOptions>) => payloadOf((await login(await build(t, options))).json().access_token)
  t.strictSame(await issued({}), { user_id: 1, exp: now + 1800 })
  t.strictSame(await issued({ verifyExp: false }), { user_id: 1 })
  t.strictSame(await issued({ claimIat: true, claimNbf: true, claimIss: 'me', claimAud: 'us', expirationDelta: 10, claimNbfDelta: 0 }), {
    user_id: 1, exp: now + 10, nbf: now, iat: now, iss: 'me', aud: 'us'
  })
  t.strictSame(await issued({ claimNbf: true }), { user_id: 1, exp: now + 1800, nbf: now + 180 })
  t.strictSame(await issued({ userId: 'username' }), { username: 'ada', exp: now + 1800 })
  t.strictSame(await issued({ userId: 'username', claimIat: false, extendPayload: (payload) => ({ ...payload, iat: 5 }) }), { username: 'ada', exp: now + 1800 }, 'no iat at all')
})

t.test('a payload is built in the order user id, registered claims, custom claims, extendPayload, scopes', async (t) => {
  setClock(t, now)
  const seen: Record<string, unknown> = {}
  const app = await build(t, {
    claimIss: 'me',
    scopesEnabled: true,
    addScopesToPayload: () => ['a:b'],
    customClaims: [
      { key: 'first', setup: (payload) => { seen.first = { ...payload }; return 1 }, verify: () => true },
      { key: 'second', setup: async (payload) => { seen.second = { ...payload }; return 2 }, verify: () => true }
    ],
    extendPayload: (payload) => { seen.extend = { ...payload }; return { ...payload, extended: true, scopes: ['everything'] } }
  })
  const { access_token: token } = (await login(app)).json()
  const registered = { user_id: 1, exp: now + 1800, iss: 'me' }
  t.strictSame(seen, {
    first: registered, second: { ...registered, first: 1 }, extend: { ...registered, first: 1, second: 2 }
  })
  t.strictSame(payloadOf(token), { ...registered, first: 1, second: 2, extended: true, scopes: ['a:b'] })
})

t.test('extendPayload', async (t) => {
  setClock(t, now)
  const options = { claimIss: 'me', claimAud: 'us', claimNbf: true, claimIat: true, customClaims: [{ key: 'tenant', setup: () => 'a', verify: () => true }] }
  type Payload = Record<string, unknown>
  const extended = async (extendPayload: (payload: Payload) => object | void): Promise<LightMyRequestResponse> => await login(await build(t, { ...options, extendPayload }))

  await t.test('may add claims and set registered ones to other well-typed values', async (t) => {
    const rows: Payload[] = [
      { added: { deep: [1] } }, { exp: now + 5 }, { exp: now + 3_153_600_000 }, { nbf: now }, { iat: now - 5 }, { aud: ['us', 'them'] }, { aud: 'us' }, { tenant: null }
    ]
    for (const change of rows) {
      const response = await extended((payload) => ({ ...payload, ...change }))
      assert.equal(response.statusCode, 200, JSON.stringify(change))
      t.match(payloadOf(response.json().access_token), change)
    }
    const kept = await extended(() => {})
    t.strictSame(payloadOf(kept.json().access_token), { user_id: 1, exp: now + 1800, nbf: now + 180, iat: now, iss: 'me', aud: 'us', tenant: 'a' }, 'returning nothing keeps the payload')
  })

  await t.test('that loses or spoils a claim gets 500 MissingRegisteredClaim, and no token is made', async (t) => {
    const lost = ['user_id', 'exp', 'nbf', 'iat', 'iss', 'aud', 'tenant']
    const without = lost.map((claim): Payload => ({ [claim]: undefined }))
    const spoiled: Payload[] = [
      ...['exp', 'nbf', 'iat'].flatMap((claim) => [null, 'soon', `${now}`, true, [], NaN, Infinity, 0, -1, now + 0.5, now + 3_153_600_001, greatest, greatest + 1].map((value) => ({ [claim]: value }))),
      { user_id: 2 }, { user_id: '1' }, { user_id: true }, { user_id: null }, { user_id: { toString: () => '1' } },
      { iss: ['me'] }, { iss: null }, { iss: 1 }, { aud: null }, { aud: 1 }, { aud: ['us', 1] }
    ]
    for (const change of [...without, ...spoiled]) {
      const [claim] = Object.keys(change)
      const response = await extended((payload) => ({ ...payload, ...change }))
      const title = `${claim}: ${String(Object.values(change)[0])}`
      assert.equal(response.statusCode, 500, title)
      assert.equal(response.json().exception, 'MissingRegisteredClaim', title)
      t.match(response.json().reasons, `"${claim}"`)
      assert.ok(!('access_token' in response.json()), caseOf(change))
    }
    const unsignable = await extended((payload) => ({ ...payload, exp: 1n }))
    t.equal(unsignable.statusCode, 500, 'what has no JSON form')
    t.notOk('access_token' in unsignable.json())
    t.equal((await extended(() => ({}))).json().exception, 'MissingRegisteredClaim')
    t.equal((await extended((payload) => { delete payload.exp })).json().exception, 'MissingRegisteredClaim', 'also where it changes the one that it was given')
    t.equal((await extended((payload) => Object.create(payload))).json().exception, 'MissingRegisteredClaim', 'what is only inherited does not get into the token')
  })
})

t.test('a claim that the settings do not ask for is checked all the same before it is signed', async (t) => {
  const app = await build(t, { verifyExp: false, extendPayload: (payload) => ({ ...payload, aud: [1] }) })
  t.equal((await login(app)).json().exception, 'MissingRegisteredClaim')
  const undefinedExp = await build(t, { verifyExp: false, extendPayload: (payload) => ({ ...payload, exp: undefined }) })
  t.equal((await login(undefinedExp)).statusCode, 200)
})
