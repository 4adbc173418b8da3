import assert from 'node:assert/strict'
import type { FastifyError, FastifyInstance, FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import {
  AuthenticationFailed, HandlerFailed, InvalidScopes, scoped, type Guard, type RequiredScopes, type ScopedOptions, type TokenAuthOptions
} from '../../lib/index.ts'
import { bearer, build, caseOf, claims, forge, login, mistyped, payloadOf, warnings } from '../helper.ts'

warnings(t, 'W12')

const withScopes = (scopes: unknown) => bearer(forge(claims({ scopes })))

/** An application with one guarded route; gives the status for a scopes claim, and counts how often the handler ran. */
async function guarded (t: Test, makeGuard: (app: FastifyInstance) => Guard, options: Partial<TokenAuthOptions> = {}) {
  const app = await build(t, options)
  const reached: unknown[] = []
  const caught: unknown[] = []
  app.addHook('onError', async (_request, _reply, error) => { caught.push(error) })
  app.get('/', { preHandler: makeGuard(app) }, async (request) => {
    reached.push(request.tokenAuth.scopes)
    return 'reached'
  })
  const statusOf = async (scopes: unknown) => (await app.inject({ url: '/', headers: withScopes(scopes) })).statusCode
  return { app, reached, caught, statusOf }
}

/** Every spelling of one requirement. */
const spellings: Record<string, (scopes: readonly string[]) => RequiredScopes> = {
  'a list': (scopes) => scopes,
  'a function': (scopes) => () => scopes,
  'an asynchronous function': (scopes) => async () => scopes
}
const spell = (scopes: string | readonly string[]) => typeof scopes === 'string'
  ? { 'a string': scopes, 'a function that gives a string': () => scopes, ...Object.fromEntries(Object.entries(spellings).map(([name, make]) => [name, make([scopes])])) }
  : Object.fromEntries(Object.entries(spellings).map(([name, make]) => [name, make(scopes)]))

// Promise: specification/-2
// Promise: specification/m-2
// Promise: specification/n-b-n
// Promise: specification/n-b-n-2
// Promise: specification/n-b-n-b
// Promise: specification/n-m
// Promise: specification/n-n
// Promise: specification/n-n-2
// Promise: specification/n-n-3
// Promise: specification/n-n-4
// Promise: specification/n-n-b
// Promise: specification/n-n-b-2
// Promise: specification/satisfied-b-namespace
// Promise: specification/scoped-scopes
t.test('the truth table of the specification holds for every spelling of a requirement, bound and free-standing', async (t) => {
  const table: [required: string, granted: string, accepted: boolean][] = [
    ['N', 'M', false], ['N', 'N', true], ['N', 'N:a', false], ['N:a', 'N', true], ['N:a', 'N:a', true], ['N:a', 'N:b', false],
    ['N:a', 'N:a:b', true], ['N:a:b', 'N:a', false], ['N:a:b', 'N:a:b', true], ['N:a:b', 'N:b:a', true], [':a', ':a', true], [':a', 'M', true],
    [':a', 'N:a', false], [':a', ':a:b', true], [':a', ':b', false], ['N', ':a', false], ['N:a', ':a', false]
  ]
  const app = await build(t)
  const rows = table.flatMap(([required, granted, accepted], row) => Object.entries(spell(required)).map(([spelling, scopes], column) => {
    const url = `/${row}/${column}`
    app.get(url, { onRequest: app.tokenAuth.scoped(scopes) }, async () => 'reached')
    app.get(`/free${url}`, { onRequest: scoped(scopes) }, async () => 'reached')
    return { url, granted, status: accepted ? 200 : 403, what: `${required} with ${granted}, ${spelling}` }
  }))
  for (const { url, granted, status, what } of rows) {
    for (const spelled of [url, `/free${url}`]) {
      assert.equal((await app.inject({ url: spelled, headers: withScopes([granted]) })).statusCode, status, what)
    }
  }
})

// Promise: specification/2-actions-order
// Promise: specification/4-match-enough
// Promise: specification/5-several-required
// Promise: specification/scoped-require-require
t.test('requireAll and requireAllActions say whether all or any is enough', async (t) => {
  const cases: [required: string | string[], options: ScopedOptions, granted: string[], status: number][] = [
    [['a', 'b'], {}, ['a', 'b'], 200],
    [['a', 'b'], {}, ['a'], 403],
    [['a', 'b'], { requireAll: true }, ['b'], 403],
    [['a', 'b'], { requireAll: undefined }, ['b'], 403],
    [['a', 'b'], { requireAll: false }, ['b'], 200],
    [['a', 'b'], { requireAll: false }, ['c'], 403],
    [['a', 'b'], { requireAll: false }, [], 403],
    ['N:a:b', {}, ['N:a'], 403],
    ['N:a:b', { requireAllActions: false }, ['N:b'], 200],
    ['N:a:b', { requireAllActions: false }, ['N:c'], 403],
    [['N:a:b', 'M'], { requireAllActions: false }, ['N:b'], 403],
    [['N:a:b', 'M'], { requireAllActions: false, requireAll: false }, ['N:b'], 200],
    // One scope of the token must have all of them: two halves are no whole.
    ['N:a:b', {}, ['N:a', 'N:b'], 403]
  ]
  for (const [required, options, granted, status] of cases) {
    for (const [spelling, scopes] of Object.entries(spell(required))) {
      const { statusOf } = await guarded(t, (app) => app.tokenAuth.scoped(scopes, options))
      assert.equal(await statusOf(granted), status, `${spelling}: ${JSON.stringify({ required, options, granted })}`)
    }
  }
})

const malformed: unknown[] = [
  undefined, null, '', [], {}, 5, true, ' ', 'a b', ':', 'N:', 'N::a', ':a:', '::', ' a', 'a\t', 'a\n', 'N: a', ['a', ''], ['a', undefined], ['a', null],
  ['a', 5], [['a']], [['a'], 'b'], ['a', 'b c'], ['a', 'N:'], new Array(1), new Set(['a']), Object('a'), { 0: 'a', length: 1 }
]

t.test('with debug the detail of a refusal says what each required scope lacks; without, nobody computes it', async (t) => {
  const enough = 'the scopes of the token are not enough for'
  const place = '(token found in the header)'
  const lacks = '"reports:write": "reports:read" lacks "write"'
  const cases: [scopes: RequiredScopes, options: ScopedOptions, detail: string][] = [
    ['reports:write', {}, `${enough} "reports:write": ${lacks} ${place}`],
    [['reports:read', 'reports:write'], {}, `${enough} "reports:read" and "reports:write": ${lacks} ${place}`],
    [['users', 'reports:write'], { requireAll: false }, `${enough} "users" or "reports:write": "users": the token has no scope of the namespace "users"; ${lacks} ${place}`],
    ['reports:write:list', { requireAllActions: false }, `${enough} "reports:write:list": "reports:write:list": "reports:read" lacks "write" or "list" ${place}`]
  ]
  const headers = withScopes(['reports:read'])
  for (const [required, options, detail] of cases) {
    for (const scopes of [required, async () => typeof required === 'function' ? 'never' : required]) {
      const { app } = await guarded(t, (app) => app.tokenAuth.scoped(scopes, options), { debug: true })
      assert.equal((await app.inject({ url: '/', headers })).json().detail, detail, caseOf(required, scopes))
      const quiet = await guarded(t, (app) => app.tokenAuth.scoped(scopes, options))
      const response = await quiet.app.inject({ url: '/', headers })
      assert.deepEqual(response.json(), { reasons: 'Invalid scope.', exception: 'InsufficientScope' }, caseOf(required, scopes))
    }
  }
  const computed = await guarded(t, (app) => app.tokenAuth.scoped('reports:write'), { getDebug: ({ headers }: FastifyRequest) => headers.debug === 'yes' })
  t.match((await computed.app.inject({ url: '/', headers: { ...headers, debug: 'yes' } })).json().detail, lacks)
  t.notOk('detail' in (await computed.app.inject({ url: '/', headers })).json())
})

t.test('where overrideScopeValidator decides, the explanation names it, and it is called no second time', async (t) => {
  for (const scopes of [['a', 'b'], () => ['a', 'b']]) {
    const asked: string[] = []
    const { app } = await guarded(t, (app) => app.tokenAuth.scoped(scopes), { debug: true, overrideScopeValidator: (isValid, required) => { asked.push(required); return isValid } })
    const response = await app.inject({ url: '/', headers: withScopes(['a']) })
    assert.equal(response.json().detail, 'the scopes of the token are not enough for "a" and "b": the handler "overrideScopeValidator" did not accept them (token found in the header)', caseOf(scopes))
    assert.deepEqual(asked, ['a', 'b'], caseOf(scopes))
  }
})

// Promise: security/scopes-empty-contain
// Promise: specification/required-scope-missing
t.test('a requirement that is missing, empty or malformed is refused where the guard is made', async (t) => {
  const app = await build(t)
  for (const scopes of malformed) {
    for (const make of [scoped, app.tokenAuth.scoped.bind(app.tokenAuth)]) {
      t.throws(() => make(mistyped<string>(scopes)), { name: 'InvalidConfiguration', message: /scope/ }, JSON.stringify(scopes))
    }
  }
  t.throws(() => scoped('a', mistyped('b')), { name: 'InvalidConfiguration' }, 'two strings are not a list')
})

// Promise: specification/invalidscopes-2
// Promise: specification/required-scope-missing
t.test('a requirement that a function gives malformed is 500 InvalidScopes, and the handler does not run', async (t) => {
  for (const scopes of malformed) {
    const guards: ((app: FastifyInstance) => Guard)[] = [
      (app) => app.tokenAuth.scoped(mistyped<RequiredScopes>(() => scopes)),
      (app) => app.tokenAuth.scoped(mistyped<RequiredScopes>(async () => scopes)),
      () => scoped(mistyped<RequiredScopes>(() => scopes), { requireAll: false })
    ]
    for (const makeGuard of guards) {
      const { app, reached } = await guarded(t, makeGuard)
      const response = await app.inject({ url: '/', headers: withScopes(['a', 'b']) })
      assert.equal(response.statusCode, 500, JSON.stringify(scopes))
      assert.equal(response.json().exception, 'InvalidScopes', caseOf(scopes, makeGuard))
      assert.deepEqual(reached, [], caseOf(scopes, makeGuard))
    }
    const { app, reached } = await guarded(t, (app) => app.tokenAuth.scoped('a'), { destructureScopes: mistyped(() => scopes) })
    assert.equal((await app.inject({ url: '/', headers: withScopes(['a', 'b']) })).json().exception, 'InvalidScopes', caseOf(scopes))
    assert.deepEqual(reached, [], caseOf(scopes))
  }
  const { caught, statusOf } = await guarded(t, (app) => app.tokenAuth.scoped(() => [], { onRefusal: 'throw' }))
  t.equal(await statusOf(['a']), 500)
  t.ok(caught[0] instanceof InvalidScopes)
})

t.test('a list that is changed after the guard was made changes nothing', async (t) => {
  const required = ['a']
  const { statusOf } = await guarded(t, (app) => app.tokenAuth.scoped(required))
  required.length = 0
  t.equal(await statusOf(['b']), 403)
  required.push('b')
  t.equal(await statusOf(['b']), 403)
  t.equal(await statusOf(['a']), 200)
})

// Promise: specification/insufficientscope-2
// Promise: specification/protected-route-responds
t.test('too few scopes are 403 with a challenge that names what is required', async (t) => {
  const { app, reached } = await guarded(t, (app) => app.tokenAuth.scoped(['user:read', ':write']))
  const response = await app.inject({ url: '/', headers: withScopes(['user:write']) })
  t.equal(response.statusCode, 403)
  t.same(response.json(), { reasons: 'Invalid scope.', exception: 'InsufficientScope' })
  t.match(response.headers['content-type'], /^application\/json/)
  const challenge = String(response.headers['www-authenticate'])
  t.match(challenge, /^Bearer realm="[^"]+"/)
  t.match(challenge, 'error="insufficient_scope"')
  t.match(challenge, 'scope="user:read :write"')
  t.same(reached, [])
  const strange = await guarded(t, (app) => app.tokenAuth.scoped('größe"\\'))
  const header = (await strange.app.inject({ url: '/', headers: withScopes([]) })).headers['www-authenticate']
  t.equal(header, 'Bearer realm="token-auth", error="insufficient_scope", error_description="Invalid scope."', 'no header is broken by a scope')
})

// Promise: specification/6-handlers-destructurescopes
t.test('no token, or a bad one, is 401 before any scope is looked at', async (t) => {
  const asked: string[] = []
  const options: Partial<TokenAuthOptions> = {
    destructureScopes: (scopes) => { asked.push('destructureScopes'); return scopes },
    overrideScopeValidator: () => { asked.push('overrideScopeValidator'); return true }
  }
  const { app, reached } = await guarded(t, (app) => app.tokenAuth.scoped(() => { asked.push('function'); return 'a' }), options)
  for (const headers of [{}, bearer('bad'), bearer(forge(claims({ exp: 1, scopes: ['a'] })))]) {
    assert.equal((await app.inject({ url: '/', headers })).statusCode, 401, caseOf(headers))
  }
  t.same([asked, reached], [[], []])
  t.equal((await app.inject({ url: '/', headers: withScopes(['a']) })).statusCode, 200)
  t.same(asked, ['function', 'destructureScopes', 'overrideScopeValidator'])
})

// Promise: specification/scoped-scopes
t.test('a function sees the request, with what its token says', async (t) => {
  const app = await build(t)
  const perOwner = ({ params, tokenAuth }: FastifyRequest) => `${String(Reflect.get(Object(params), 'owner'))}:${tokenAuth.userId === 1 ? 'own' : 'all'}`
  app.get('/:owner', { preHandler: app.tokenAuth.scoped(perOwner) }, async () => 'reached')
  t.equal((await app.inject({ url: '/ada', headers: withScopes(['ada:own']) })).statusCode, 200)
  t.equal((await app.inject({ url: '/bob', headers: withScopes(['ada:own']) })).statusCode, 403)
  t.equal((await app.inject({ url: '/ada', headers: bearer(forge(claims({ user_id: 2, scopes: ['ada:own'] }))) })).statusCode, 403)
})

t.test('a function, destructureScopes or overrideScopeValidator that throws closes the route', async (t) => {
  const original = new Error('secret detail')
  const clientError = Object.assign(new Error('gone'), { statusCode: 410 })
  const failures: [error: Error, status: number, isCause: boolean][] = [[original, 500, true], [clientError, 410, false], [new AuthenticationFailed('no'), 401, false]]
  for (const [error, status, isCause] of failures) {
    const fail = () => { throw error }
    const failLater = async () => fail()
    const cases: Record<string, [scopes: RequiredScopes, options: Partial<TokenAuthOptions>]> = {
      'a function': [fail, {}],
      'an asynchronous function': [failLater, {}],
      destructureScopes: ['a', { destructureScopes: fail }],
      'destructureScopes, asynchronous': ['a', { destructureScopes: failLater }],
      overrideScopeValidator: ['a', { overrideScopeValidator: fail }],
      'overrideScopeValidator after a function': [() => 'a', { overrideScopeValidator: fail }]
    }
    for (const [what, [scopes, options]] of Object.entries(cases)) {
      const { app, reached, caught } = await guarded(t, (app) => app.tokenAuth.scoped(scopes), options)
      const response = await app.inject({ url: '/', headers: withScopes(['a']) })
      assert.equal(response.statusCode, status, what)
      t.notMatch(response.body, 'secret detail')
      assert.deepEqual(reached, [], caseOf(error, what))
      const [seen] = caught
      if (isCause) assert.ok(seen instanceof HandlerFailed && seen.cause === original, 'the host sees the original as cause')
      if (status === 410) assert.equal(seen, clientError, caseOf(error, what))
      if (status === 401) assert.deepEqual(response.json(), { reasons: 'no', exception: 'AuthenticationFailed' }, caseOf(error, what))
    }
  }
})

// Promise: specification/destructure-scopes
t.test('destructureScopes gets the required scopes as a list of strings and decides what is compared', async (t) => {
  for (const isAsync of [false, true]) {
    const given: unknown[] = []
    const destructureScopes = (scopes: readonly string[]) => {
      given.push(scopes)
      const all = scopes.flatMap((scope) => scope.split(','))
      return isAsync ? Promise.resolve(all) : all
    }
    for (const required of ['a,b', ['a,b'], () => 'a,b', async () => ['a,b']]) {
      const { statusOf } = await guarded(t, (app) => app.tokenAuth.scoped(required), { destructureScopes })
      assert.equal(await statusOf(['a', 'b']), 200, caseOf(isAsync, required))
      assert.equal(await statusOf(['a,b']), 403, caseOf(isAsync, required))
      assert.equal(await statusOf(['a']), 403, caseOf(isAsync, required))
      assert.deepEqual(given.splice(0), [['a,b'], ['a,b'], ['a,b']], 'once for each request')
    }
  }
  const spoiling = await guarded(t, (app) => app.tokenAuth.scoped(['a', 'b']), {
    destructureScopes: (scopes) => {
      if (Array.isArray(scopes)) scopes.pop()
      return scopes
    }
  })
  for (const round of ['first', 'second']) {
    assert.equal(await spoiling.statusOf(['a']), 200, round)
    assert.equal(await spoiling.statusOf(['b']), 403, `${round}: what it does to its list does not reach the next request`)
  }
})

// Promise: specification/override-scope-validator
t.test('overrideScopeValidator is asked once for each required scope, with strings as written', async (t) => {
  const calls: unknown[][] = []
  const overrideScopeValidator: NonNullable<TokenAuthOptions['overrideScopeValidator']> = (...given) => {
    calls.push(given)
    return given[0]
  }
  const { statusOf } = await guarded(t, (app) => app.tokenAuth.scoped(['a:x:y', 'b'], { requireAllActions: false }), { overrideScopeValidator })
  t.equal(await statusOf(['a:y', 'b', 'b', 'not a scope', 5]), 200)
  t.same(calls.splice(0), [
    [true, 'a:x:y', ['a:y', 'b', 'b', 'not a scope'], false],
    [true, 'b', ['a:y', 'b', 'b', 'not a scope'], false]
  ])
  t.equal(await statusOf(['c']), 403)
  t.same(calls.splice(0), [[false, 'a:x:y', ['c'], false], [false, 'b', ['c'], false]], 'also when the first decides already')
  t.equal(await statusOf(undefined), 403)
  t.same(calls.splice(0), [[false, 'a:x:y', [], false], [false, 'b', [], false]], 'also for a token without scopes')
  const any = await guarded(t, (app) => app.tokenAuth.scoped(['a', 'b'], { requireAll: false }), { overrideScopeValidator })
  t.equal(await any.statusOf('a'), 200)
  t.same(calls.splice(0), [[true, 'a', ['a'], true], [false, 'b', ['a'], true]])
})

// Promise: security/custom-claim-extra
// Promise: specification/override-scope-validator
t.test('of what overrideScopeValidator gives only true passes', async (t) => {
  const rejected = () => Promise.reject(new Error('too late'))
  const outcomes: unknown[] = [false, undefined, null, 0, 1, 'true', {}, [], Promise.resolve(true), rejected, Object(true), NaN]
  for (const outcome of outcomes) {
    const overrideScopeValidator = mistyped<() => boolean>(typeof outcome === 'function' ? outcome : () => outcome)
    for (const scopes of Object.values(spell('a'))) {
      const { statusOf, reached } = await guarded(t, (app) => app.tokenAuth.scoped(scopes), { overrideScopeValidator })
      assert.equal(await statusOf(['a']), 403, String(outcome))
      assert.deepEqual(reached, [], caseOf(outcome, scopes))
    }
  }
  const { statusOf } = await guarded(t, (app) => app.tokenAuth.scoped('a'), { overrideScopeValidator: () => true })
  t.equal(await statusOf([]), 200)
})

// Promise: security/scopes-empty-contain
// Promise: specification/if-scopes-claim
t.test('a scopes claim of any shape grants what its well-formed strings say and nothing else', async (t) => {
  const nested = (levels: number): unknown => levels === 0 ? 'a' : [nested(levels - 1)]
  const shapes: [claim: unknown, status: number, scopes: unknown][] = [
    [['a'], 200, ['a']],
    ['a', 200, ['a']],
    ['b a', 200, ['b', 'a']],
    ['  a  ', 200, ['a']],
    [['a', 5, null, {}, ['a'], true], 200, ['a']],
    [['b', ''], 403, undefined],
    [undefined, 403, undefined],
    [null, 403, undefined],
    ['', 403, undefined],
    ['b,a', 403, undefined],
    ['b\ta', 403, undefined],
    ['A', 403, undefined],
    [[], 403, undefined],
    [[' a'], 403, undefined],
    [['a b'], 403, undefined],
    [['b a'], 403, undefined],
    [[nested(3)], 403, undefined],
    [{ a: true }, 403, undefined],
    [{ 0: 'a', length: 1 }, 403, undefined],
    [true, 403, undefined],
    [5, 403, undefined],
    [[':'], 403, undefined],
    [['*'], 403, undefined],
    [['toString', '__proto__', 'constructor'], 403, undefined],
    [Array.from({ length: 500 }, (_, index) => `b${index}`), 403, undefined],
    [[...Array.from({ length: 500 }, (_, index) => `b${index}`), 'a'].join(' '), 200, [...Array.from({ length: 500 }, (_, index) => `b${index}`), 'a']]
  ]
  const { statusOf, reached } = await guarded(t, (app) => app.tokenAuth.scoped('a'))
  for (const [claim, status, scopes] of shapes) {
    // Twice: what is remembered of a token must not change the answer.
    for (const round of ['first', 'second']) {
      assert.equal(await statusOf(claim), status, `${round}: ${JSON.stringify(claim)?.slice(0, 60)}`)
      if (status === 200) assert.deepEqual(reached.pop(), scopes, caseOf(claim, round))
    }
  }
  t.same(reached, [])
})

// Promise: specification/scopes-name
t.test('the scopes are read from the claim that scopesName names, and only from the token itself', async (t) => {
  const app = await build(t, { scopesName: 'rights' })
  const routes: Record<string, Guard> = {
    '/rights': app.tokenAuth.scoped('a'),
    '/roles': app.tokenAuth.scoped('a', { scopesName: 'roles' }),
    '/toString': app.tokenAuth.scoped('a', { scopesName: 'toString' })
  }
  for (const [url, preHandler] of Object.entries(routes)) app.get(url, { preHandler }, async (request) => ({ scopes: request.tokenAuth.scopes }))
  // One token at all three: what one guard remembers of it is not what another asks.
  const headers = bearer(forge(claims({ rights: ['a'], roles: ['b'], scopes: ['a'] })))
  for (const round of ['first', 'second']) {
    assert.deepEqual((await app.inject({ url: '/rights', headers })).json(), { scopes: ['a'] }, round)
    assert.equal((await app.inject({ url: '/roles', headers })).statusCode, 403, round)
    assert.equal((await app.inject({ url: '/toString', headers })).statusCode, 403, round)
  }
})

t.test('a scopesName that is computed from the request decides for its request only', async (t) => {
  const app = await build(t, { getScopesName: (request) => String(request.headers.tenant) })
  app.get('/', { preHandler: app.tokenAuth.scoped('a') }, async () => 'reached')
  const token = forge(claims({ one: ['a'], two: ['b'] }))
  for (const [tenant, status] of [['one', 200], ['two', 403], ['one', 200]] as const) {
    assert.equal((await app.inject({ url: '/', headers: { ...bearer(token), tenant } })).statusCode, status, tenant)
  }
})

// Promise: specification/scopes-enabled
// Promise: specification/scopesenabled-controls-whether
t.test('scopesEnabled governs what is issued; a guard checks whatever the token carries', async (t) => {
  for (const scopesEnabled of [true, false]) {
    const { app, statusOf } = await guarded(t, (app) => app.tokenAuth.scoped('a'), { scopesEnabled, addScopesToPayload: () => 'a' })
    assert.equal(await statusOf(['a']), 200, caseOf(scopesEnabled))
    assert.equal(await statusOf(undefined), 403, caseOf(scopesEnabled))
    const { access_token: token } = (await login(app)).json()
    assert.deepEqual(payloadOf(token).scopes, scopesEnabled ? ['a'] : undefined, caseOf(scopesEnabled))
    assert.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, scopesEnabled ? 200 : 403, caseOf(scopesEnabled))
  }
})

t.test('without a token the scopes of a request are null, and null where the token has no such claim', async (t) => {
  const app = await build(t)
  app.get('/', async ({ tokenAuth }) => ({ scopes: tokenAuth.scopes }))
  app.setErrorHandler(async (error: FastifyError) => { t.fail(error.message) })
  const cases: [headers: Record<string, string>, scopes: unknown][] = [[{}, null], [bearer('bad'), null], [bearer(forge(claims())), null], [withScopes([]), []], [withScopes('a b'), ['a', 'b']]]
  for (const [headers, scopes] of cases) assert.deepEqual((await app.inject({ url: '/', headers })).json(), { scopes }, caseOf(headers))
})
