import t from 'tap'
import { InvalidToken, AuthenticationFailed } from '../../lib/errors.ts'
import { makeProtectGuard } from '../../lib/guards/protect.ts'
import { defaultParameters, headersOf, writeChallenge } from '../../lib/http/challenge.ts'
import { Responses } from '../../lib/http/responses.ts'
import type { TokenAuthOptions } from '../../lib/index.ts'
import { registrationOf } from '../../lib/registration.ts'
import { bearer, build } from '../helper.ts'

t.test('a challenge has its parameters in one order, and those that a header cannot carry are left out', async (t) => {
  const full = { error: 'insufficient_scope', description: 'Why.', maxAge: 60, scope: 'a b' } as const
  t.equal(writeChallenge(full), 'Bearer realm="token-auth", error="insufficient_scope", error_description="Why.", max_age="60", scope="a b"')
  t.equal(writeChallenge({ ...full, description: '"', scope: '\n' }), 'Bearer realm="token-auth", error="insufficient_scope", max_age="60"')
  t.equal(writeChallenge({ description: 'Not sent.' }), 'Bearer realm="token-auth"', 'without an error there is nothing to describe')
  t.equal(writeChallenge({}, { realm: 'reports' }), 'Bearer realm="reports"')
})

t.test('an instance adds its parameters to a challenge, unless the application has changed the header', async (t) => {
  const challenge = { error: 'invalid_token' } as const
  const headers = { 'www-authenticate': writeChallenge(challenge) }
  t.same(headersOf(headers, challenge, { realm: 'reports' }), { 'www-authenticate': 'Bearer realm="reports", error="invalid_token"' })
  t.same(headersOf(headers, challenge, defaultParameters), headers)
  t.not(headersOf(headers, challenge, defaultParameters), headers, 'a copy')
  const own = { 'www-authenticate': 'Basic' }
  t.same(headersOf(own, challenge, { realm: 'reports' }), own)
  t.same(headersOf({ 'retry-after': '5' }, undefined, { realm: 'reports' }), { 'retry-after': '5' })
})

class Own extends Responses {
  override exceptionResponse () { return { own: true } }
}

t.test('every way in which a guard answers has the challenge of its instance', async (t) => {
  for (const options of [{}, { debug: true }, { onRefusal: 'throw' }, { responsesClass: Own }] satisfies Partial<TokenAuthOptions>[]) {
    const app = await build(t, options)
    const registration = { ...registrationOf(app.tokenAuth)!, challenge: { realm: 'reports' } }
    const guard = makeProtectGuard(registration)
    app.get('/', { onRequest: guard }, async () => 'reached')
    app.get('/awaited', async (request, reply) => { await guard(request, reply) })
    for (const url of ['/', '/awaited']) {
      const { statusCode, headers } = await app.inject({ url, headers: bearer('x') })
      t.match([statusCode, headers['www-authenticate']], [401, /^Bearer realm="reports", error="invalid_token"/], `${url} ${JSON.stringify(options)}`)
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
