import t from 'tap'
import { AuthenticationFailed, Responses, type TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, claims, forge, login, now, otherSecret, setClock, warnings } from '../helper.ts'

warnings(t, 'W03', 'W05')

const invalid = 'Token is invalid.'
const claim = 'Token has an invalid claim.'

// Promise: specification/get-auth-verify
t.test('a valid token is answered with 200 and {valid: true}', async (t) => {
  const app = await build(t)
  const { access_token: token } = (await login(app)).json()
  const response = await app.inject({ url: '/auth/verify', headers: bearer(token) })
  t.equal(response.statusCode, 200)
  t.equal(response.body, '{"valid":true}')
  t.match(response.headers, { 'content-type': /^application\/json/, 'cache-control': 'no-store' })
})

// Promise: specification/3-verify
// Promise: specification/token-header-cookie
// Promise: specification/verify-fails
t.test('a token that is not valid, or missing, is answered with 400, {valid: false} and the reason', async (t) => {
  const cases: [name: string, headers: Record<string, string>, reason: string, options?: Partial<TokenAuthOptions>][] = [
    ['no token', {}, 'Authorization header not present.'],
    ['an empty header', { authorization: '' }, 'Authorization header not present.'],
    ['another scheme', { authorization: 'Basic YTpi' }, 'Authorization header is invalid.'],
    ['a scheme without a token', { authorization: 'Bearer' }, 'Authorization header is invalid.'],
    ['rubbish', bearer('a.b.c'), invalid],
    ['another key', bearer(forge(claims(), { key: otherSecret })), invalid],
    ['another algorithm', bearer(forge(claims(), { algorithm: 'HS512' })), invalid],
    ['expired', bearer(forge(claims({ exp: now() - 181 }))), 'Signature has expired'],
    ['not active', bearer(forge(claims({ nbf: now() + 300 }))), 'Token is not active yet.'],
    ['no exp', bearer(forge({ user_id: 1 })), claim],
    ['no user id', bearer(forge({ exp: now() + 60 })), claim],
    ['another issuer', bearer(forge(claims({ iss: 'them' }))), claim, { claimIss: 'us' }],
    ['no cookie', bearer(forge(claims())), 'Authorization cookie not present.', { cookieSet: true }],
    ['no parameter', bearer(forge(claims())), 'Authorization query argument not present.', { queryStringSet: true }],
    ['an extra verification', bearer(forge(claims())), claim, { extraVerifications: [() => false] }]
  ]
  for (const [name, headers, reason, options] of cases) {
    const app = await build(t, options)
    const response = await app.inject({ url: '/auth/verify', headers })
    t.equal(response.statusCode, 400, name)
    t.same(response.json(), { valid: false, reason }, name)
    t.equal(response.headers['cache-control'], 'no-store')
    t.equal(response.headers['www-authenticate'], undefined)
  }
})

// Promise: specification/access-tokens-cannot
// Promise: specification/leeway-2
t.test('a token is valid until its expiry and the leeway have passed, not a second longer', async (t) => {
  const start = 1_700_000_000
  const tick = setClock(t, start)
  const app = await build(t, { expirationDelta: 60, leeway: 10 })
  const { access_token: token } = (await login(app)).json()
  for (const [seconds, statusCode] of [[0, 200], [69, 200], [70, 400], [10 ** 9, 400], [-7200, 200]] as const) {
    tick(start + seconds)
    t.equal((await app.inject({ url: '/auth/verify', headers: bearer(token) })).statusCode, statusCode, `after ${seconds} seconds`)
  }
})

t.test('doProtection false changes nothing in what verify says', async (t) => {
  const app = await build(t, { doProtection: false })
  t.same((await app.inject('/auth/verify')).json(), { valid: false, reason: 'Authorization header not present.' })
})

t.test('with debug the answer says which check failed and where the token was found, never the token', async (t) => {
  const app = await build(t, { debug: true, claimAud: 'us' })
  const token = forge(claims({ aud: 'them' }))
  const response = await app.inject({ url: '/auth/verify', headers: bearer(token) })
  t.equal(response.statusCode, 400)
  t.same(response.json(), { valid: false, reason: claim, detail: 'the claim "aud" is missing or names another audience (token found in the header)' })
  t.notMatch(response.body, token.slice(-20))
  t.match((await app.inject('/auth/verify')).json(), { detail: 'Authorization header not present.' })
})

// Promise: specification/extend-verify
// Promise: specification/extendverify-gets-user
t.test('extendVerify gets user and payload, both null for a refused token; the user is asked for only if it is overridden', async (t) => {
  let asked = 0
  const seen: unknown[] = []
  const retrieveUser = async () => { asked++; return { user_id: 1, name: 'ada' } }
  class Extended extends Responses {
    override async extendVerify (_request: unknown, context: object) { seen.push(context); return { seen: seen.length } }
  }
  const plain = await build(t, { retrieveUser })
  const token = forge(claims({ exp: 4_000_000_000 }))
  t.equal((await plain.inject({ url: '/auth/verify', headers: bearer(token) })).statusCode, 200)
  t.equal(asked, 0)

  const app = await build(t, { retrieveUser, responsesClass: Extended })
  t.same((await app.inject({ url: '/auth/verify', headers: bearer(token) })).json(), { valid: true, seen: 1 })
  const refused = await app.inject('/auth/verify')
  t.equal(refused.statusCode, 400)
  t.same(refused.json(), { valid: false, reason: 'Authorization header not present.', seen: 2 })
  t.same(seen, [{ user: { user_id: 1, name: 'ada' }, payload: { user_id: 1, exp: 4_000_000_000 } }, { user: null, payload: null }])
  t.equal(asked, 1)
})

t.test('a refusal by retrieveUser, or a hook that fails, is no verdict about the token', async (t) => {
  class Failing extends Responses { override extendVerify (): object { throw new Error('original message') } }
  class Extended extends Responses { override extendVerify () { return {} } }
  const headers = bearer(forge(claims()))
  const app = await build(t, { responsesClass: Failing })
  for (const sent of [headers, {}, bearer('rubbish')]) {
    const response = await app.inject({ url: '/auth/verify', headers: sent })
    t.equal(response.statusCode, 500)
    t.equal(response.json().message, 'The extendVerify handler failed.')
    t.notOk('valid' in response.json())
  }
  const refusing = await build(t, { responsesClass: Extended, retrieveUser: () => { throw new AuthenticationFailed('Locked.') } })
  const refused = await refusing.inject({ url: '/auth/verify', headers })
  t.equal(refused.statusCode, 401)
  t.same(refused.json(), { reasons: 'Locked.', exception: 'AuthenticationFailed' })
})

// Promise: specification/extendverify-gets-user
t.test('exceptionResponse and onRefusal have no say in the verify answer', async (t) => {
  class Other extends Responses { override exceptionResponse (): object { return { other: true } } }
  for (const options of [{ responsesClass: Other }, { onRefusal: 'throw' as const }]) {
    const app = await build(t, options)
    t.same((await app.inject('/auth/verify')).json(), { valid: false, reason: 'Authorization header not present.' })
  }
})

t.test('HEAD answers as GET does, without a body', async (t) => {
  const app = await build(t)
  for (const [headers, statusCode] of [[bearer(forge(claims())), 200], [{}, 400]] as const) {
    const response = await app.inject({ method: 'HEAD', url: '/auth/verify', headers })
    t.equal(response.statusCode, statusCode)
    t.equal(response.body, '')
    t.equal(response.headers['cache-control'], 'no-store')
  }
})
