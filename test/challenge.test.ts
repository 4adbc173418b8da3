import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { InjectOptions } from 'fastify'
import t from 'tap'
import { InvalidToken, AuthenticationFailed } from '../lib/errors.ts'
import { headersOf, noInstance, writeChallenge } from '../lib/challenge.ts'
import { Responses } from '../lib/http/responses.ts'
import type { RefusedEvent, TokenAuthOptions } from '../lib/index.ts'
import { build, caseOf, claims, forge, mistyped, together } from './helper.ts'

const jwt = { authorizationHeaderPrefix: 'JWT' }

t.test('a challenge has its parameters in one order, and those that a header cannot carry are left out', async (t) => {
  const full = { error: 'insufficient_scope', description: 'Why.', maxAge: 60, scope: 'a b' } as const
  const header = (...given: Parameters<typeof writeChallenge>) => writeChallenge(...given).header
  t.equal(header(full), 'Bearer realm="token-auth", error="insufficient_scope", error_description="Why.", max_age="60", scope="a b"')
  t.equal(header({ ...full, description: '"', scope: '\n' }), 'Bearer realm="token-auth", error="insufficient_scope", max_age="60"')
  t.equal(header({ description: 'Not sent.' }), 'Bearer realm="token-auth"', 'without an error there is nothing to describe')
  t.equal(header({}, jwt), 'JWT realm="token-auth"')
})

t.test('an instance adds its scheme to a challenge, unless the application has changed the header', async (t) => {
  const challenge = writeChallenge({ error: 'invalid_token' })
  const headers = { 'www-authenticate': challenge.header }
  t.same(headersOf(headers, challenge, jwt), { 'www-authenticate': 'JWT realm="token-auth", error="invalid_token"' })
  t.same(headersOf(headers, challenge, noInstance), headers)
  const own = { 'www-authenticate': 'Basic' }
  t.same(headersOf(own, challenge, jwt), own)
  t.same(headersOf({ 'retry-after': '5' }, undefined, jwt), { 'retry-after': '5' })
})

class Own extends Responses {
  override exceptionResponse () { return { own: true } }
}

// Promise: security/challenge-of-scheme
t.test('every way in which a guard or an endpoint answers names the scheme that it accepts', async (t) => {
  const prefixes: Record<string, [options: object, overrides: object, scheme: string]> = {
    'the default': [{}, {}, 'Bearer'],
    'in another case': [{ authorizationHeaderPrefix: 'bearer' }, {}, 'bearer'],
    'another scheme': [{ authorizationHeaderPrefix: 'JWT' }, {}, 'JWT'],
    'one of every kind of character': [{ authorizationHeaderPrefix: "a1!#$%&'*+-.^_`|~" }, {}, "a1!#$%&'*+-.^_`|~"],
    none: [{ authorizationHeaderPrefix: '' }, {}, 'Bearer'],
    'what is no scheme': [{ authorizationHeaderPrefix: 'Token:' }, {}, 'Bearer'],
    'that of a guard': [{}, { authorizationHeaderPrefix: 'JWT' }, 'JWT'],
    'a computed one': [{ getAuthorizationHeaderPrefix: () => 'JWT' }, {}, 'JWT']
  }
  for (const [name, [prefix, overrides, scheme]] of Object.entries(prefixes)) {
    for (const options of [{}, { debug: true }, { onRefusal: 'throw' }, { responsesClass: Own }] satisfies Partial<TokenAuthOptions>[]) {
      const app = await build(t, together({ ...options, ...prefix }))
      const guard = app.tokenAuth.protect(overrides)
      app.get('/', { onRequest: guard }, async () => 'reached')
      app.get('/awaited', async (request, reply) => { await guard(request, reply) })
      for (const url of ['/', '/awaited', ...'authorizationHeaderPrefix' in overrides ? [] : ['/auth/me']]) {
        const label = caseOf([name, options, url])
        const absent = await app.inject(url)
        t.match([absent.statusCode, absent.headers['www-authenticate']], [401, `${scheme} realm="token-auth"`], label)
        const { authorizationHeaderPrefix: sent = scheme }: { authorizationHeaderPrefix?: string } = { ...prefix, ...overrides }
        const bad = await app.inject({ url, headers: { authorization: `${sent} x`.trim() } })
        t.ok(String(bad.headers['www-authenticate']).startsWith(`${scheme} realm="token-auth", error="invalid_token"`), label)
      }
    }
  }
})

t.test('an error that the application creates carries the challenge that its own error handler sends', async (t) => {
  const app = await build(t)
  app.get('/thrown', async () => { throw new AuthenticationFailed() })
  const { statusCode, headers } = await app.inject('/thrown')
  t.same([statusCode, headers['www-authenticate']], [401, 'Bearer realm="token-auth"'])
  t.notOk(Object.keys(new InvalidToken()).includes('challenge'), 'loggers do not write it twice')
})

// Promise: security/challenge-of-scheme
t.test('every way in which a challenge leaves an instance names its scheme', async (t) => {
  const expected = 'JWT realm="token-auth"'
  const starts = (header: unknown, ...label: unknown[]) => { assert.ok(String(header).startsWith(expected), caseOf(header, ...label)) }
  const thrown = new AuthenticationFailed()
  const refusing = () => { throw thrown }
  const events: RefusedEvent[] = []
  const listener = (event: unknown) => { events.push(event as RefusedEvent) }
  subscribe('fastify-token-auth:refused', listener)
  t.teardown(() => unsubscribe('fastify-token-auth:refused', listener))
  for (const given of [jwt, { getAuthorizationHeaderPrefix: () => 'JWT' }]) {
    for (const options of [{}, { debug: true }, { onRefusal: 'throw' }, { responsesClass: Own }] satisfies Partial<TokenAuthOptions>[]) {
      const app = await build(t, together({ ...options, ...given, sessions: {}, authenticate: refusing }))
      const { tokenAuth } = app
      const guard = tokenAuth.protect()
      const headerOf = async (fail: () => unknown) => {
        try {
          await fail()
        } catch (error) {
          return (error as AuthenticationFailed).headers['www-authenticate']
        }
        throw new Error('Nothing was thrown.')
      }
      app.get('/hook', { onRequest: guard }, async () => 'reached')
      app.get('/scoped', { onRequest: tokenAuth.scoped('a') }, async () => 'reached')
      app.get('/awaited', async (request, reply) => { await guard(request, reply) })
      app.get('/injected', tokenAuth.injectUser(async () => 'reached', {}))
      app.get('/verified', async (request) => request.tokenAuth.verified)
      app.get('/errors', async (request) => [
        await headerOf(() => request.tokenAuth.verified),
        await headerOf(() => tokenAuth.verifyToken('x', request)),
        await headerOf(() => tokenAuth.verifyToken(mistyped(1), request))
      ])
      const post = (url: string, payload: object = {}) => ({ method: 'POST', url, payload } as const)
      const bad = { authorization: 'JWT x' }
      const requests: InjectOptions[] = [
        ...['/hook', '/awaited', '/verified', '/auth/me', '/auth/sessions'].flatMap((url) => [{ url }, { url, headers: bad }]),
        { url: '/scoped', headers: bad }, { url: '/injected', headers: bad },
        post('/auth'), post('/auth/refresh', { refresh_token: 'x' }), { ...post('/auth/logout'), headers: bad }
      ]
      for (const request of requests) {
        const answer = await app.inject(request)
        assert.equal(answer.statusCode, 401, caseOf(given, options, request, answer.body))
        starts(answer.headers['www-authenticate'], given, options, request)
      }
      for (const header of (await app.inject('/errors')).json()) starts(header, given, options)
      // Without a request, there is nothing to compute a setting from: a token that is refused before any getter has the default.
      const alone = [await headerOf(() => tokenAuth.verifyToken('x')), await headerOf(() => tokenAuth.verifyToken(mistyped(1)))]
      for (const header of alone) assert.equal(String(header).startsWith(expected), given === jwt, caseOf(header, given, options))
    }
  }
  t.ok(events.length > 60, 'they are published')
  for (const { error } of events) starts(error.headers['www-authenticate'], error.name)
})

// Promise: security/challenge-of-scheme
t.test('each guard and instance names its own scheme, also in an error that the application throws again and again', async (t) => {
  const constant = Object.freeze(new InvalidToken())
  const shared = new AuthenticationFailed()
  const app = await build(t, {
    trusted: () => { throw constant },
    authenticate: () => { throw shared },
    onRefusal: 'throw',
    getAuthorizationHeaderPrefix: ({ hostname }) => hostname
  })
  for (const scheme of ['a', 'b']) app.get(`/${scheme}`, { onRequest: app.tokenAuth.protect({ authorizationHeaderPrefix: scheme }) }, async () => 'reached')
  for (const scheme of ['a', 'b', 'a']) {
    const guarded = await app.inject({ url: `/${scheme}`, headers: { authorization: `${scheme} ${forge(claims())}` } })
    t.match(guarded.headers['www-authenticate'], `${scheme} realm="token-auth", error="invalid_token"`)
    const login = await app.inject({ method: 'POST', url: '/auth', payload: {}, headers: { host: scheme } })
    t.equal(login.headers['www-authenticate'], `${scheme} realm="token-auth"`)
  }
  t.match(constant.headers, { 'www-authenticate': 'Bearer realm="token-auth"' })
})
