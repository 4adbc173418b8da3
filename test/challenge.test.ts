import t from 'tap'
import { InvalidToken, AuthenticationFailed } from '../lib/errors.ts'
import { defaultScheme, headersOf, writeChallenge } from '../lib/challenge.ts'
import { Responses } from '../lib/http/responses.ts'
import type { TokenAuthOptions } from '../lib/index.ts'
import { build, caseOf, together } from './helper.ts'

t.test('a challenge has its parameters in one order, and those that a header cannot carry are left out', async (t) => {
  const full = { error: 'insufficient_scope', description: 'Why.', maxAge: 60, scope: 'a b' } as const
  t.equal(writeChallenge(full), 'Bearer realm="token-auth", error="insufficient_scope", error_description="Why.", max_age="60", scope="a b"')
  t.equal(writeChallenge({ ...full, description: '"', scope: '\n' }), 'Bearer realm="token-auth", error="insufficient_scope", max_age="60"')
  t.equal(writeChallenge({ description: 'Not sent.' }), 'Bearer realm="token-auth"', 'without an error there is nothing to describe')
  t.equal(writeChallenge({}, 'JWT'), 'JWT realm="token-auth"')
})

t.test('an instance adds its scheme to a challenge, unless the application has changed the header', async (t) => {
  const challenge = { error: 'invalid_token' } as const
  const headers = { 'www-authenticate': writeChallenge(challenge) }
  t.same(headersOf(headers, challenge, 'JWT'), { 'www-authenticate': 'JWT realm="token-auth", error="invalid_token"' })
  t.same(headersOf(headers, challenge, defaultScheme), headers)
  t.not(headersOf(headers, challenge, defaultScheme), headers, 'a copy')
  const own = { 'www-authenticate': 'Basic' }
  t.same(headersOf(own, challenge, 'JWT'), own)
  t.same(headersOf({ 'retry-after': '5' }, undefined, 'JWT'), { 'retry-after': '5' })
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
