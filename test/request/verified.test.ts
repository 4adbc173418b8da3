/** `request.tokenAuth.verified`: what a guard has made sure of, or the refusal of a guard. */
import type { FastifyRequest } from 'fastify'
import { inspect } from 'node:util'
import t from 'tap'
import { InvalidToken, TokenAuthError, type TokenAuthOptions } from '../../lib/index.ts'
import { granted, issue, issuer, jwk, keySource, trusted, withIssuers } from '../authorities/issuers.ts'
import { started, withSessions } from '../sessions/helper.ts'
import { bearer, build, claims, forge, now, secret, setClock, warnings } from '../helper.ts'

warnings(t, 'W03', 'W05', 'W21')

const token = () => forge(claims({ scopes: ['a'], list: [1] }))
const read = async ({ tokenAuth }: FastifyRequest) => tokenAuth.verified

// Promise: specification/verified-2
t.test('it is what is known of a valid token, whatever guard stands before it, or none', async (t) => {
  const app = await build(t)
  const { tokenAuth } = app
  app.get('/protect', { onRequest: tokenAuth.protect() }, read)
  app.get('/scoped', { onRequest: tokenAuth.scoped('a') }, read)
  app.get('/optional', { onRequest: tokenAuth.protect({ optional: true }) }, read)
  app.get('/off', { onRequest: tokenAuth.protect({ doProtection: false }) }, read)
  app.get('/unguarded', read)
  app.get('/injected', tokenAuth.injectUser(read))
  for (const url of ['/protect', '/scoped', '/optional', '/off', '/unguarded', '/injected']) {
    const given = token()
    const { payload, ...rest } = (await app.inject({ url, headers: bearer(given) })).json()
    t.match(payload, { user_id: 1, scopes: ['a'], list: [1] }, url)
    t.same(rest, { userId: 1, scopes: ['a'], source: 'header', sessionId: null, issuer: null }, url)
  }
  const { userId, scopes } = (await app.inject({ url: '/unguarded', headers: bearer(forge(claims())) })).json()
  t.same([userId, scopes], [1, null], 'a token without scopes')
})

// Promise: security/verified-in-log
t.test('it has the token, but nothing that writes or copies it does', async (t) => {
  const app = await build(t)
  let seen: FastifyRequest['tokenAuth']['verified'] | undefined
  app.get('/', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth: { verified } }) => { seen = verified })
  const given = token()
  await app.inject({ url: '/', headers: bearer(given) })
  t.equal(seen?.token, given)
  for (const written of [JSON.stringify(seen), inspect(seen, { depth: null }), inspect(structuredClone(seen)), inspect({ ...seen }), inspect(Object.entries(seen ?? {}))]) {
    t.match(written, /userId/)
    t.notMatch(written, given.split('.')[2]!)
  }
})

t.test('without a valid token, reading it throws the refusal of a guard, which becomes the answer with its challenge', async (t) => {
  const app = await build(t, { cookieSet: true, cookieStrict: false })
  const cases: [what: string, headers: Record<string, string>, name: string, challenge: string][] = [
    ['no token', {}, 'MissingAuthorizationHeader', 'Bearer realm="token-auth"'],
    ['another scheme', { authorization: 'Basic YTpi' }, 'InvalidAuthorizationHeader', 'Bearer realm="token-auth"'],
    ['garbage', bearer('x'), 'InvalidToken', 'Bearer realm="token-auth", error="invalid_token", error_description="Token is invalid."'],
    ['expired', bearer(forge(claims({ exp: now() - 3600 }))), 'TokenExpired', 'Bearer realm="token-auth", error="invalid_token", error_description="Signature has expired"']
  ]
  const errors: TokenAuthError[] = []
  app.addHook('onError', async (_request, _reply, error) => { if (error instanceof TokenAuthError) errors.push(error) })
  app.get('/unguarded', read)
  app.get('/off', { onRequest: app.tokenAuth.protect({ doProtection: false }) }, read)
  app.get('/optional', { onRequest: app.tokenAuth.protect({ optional: true }) }, read)
  for (const [what, headers, name, challenge] of cases) {
    for (const url of ['/unguarded', '/off', '/optional']) {
      const response = await app.inject({ url, headers })
      t.equal(response.statusCode, 401, `${url}: ${what}`)
      t.equal(response.headers['www-authenticate'], challenge)
      const [error] = errors.splice(0)
      if (error !== undefined) t.equal(error.name, name)
    }
  }
  const foreign = await app.inject({ method: 'GET', url: '/unguarded', headers: { cookie: `access_token=${token()}`, origin: 'https://evil.example', upgrade: 'x', 'sec-fetch-site': 'cross-site' } })
  t.match([foreign.statusCode, foreign.json().code], [403, 'TOKEN_AUTH_CROSS_ORIGIN_REQUEST'])
  const explained = await build(t, { debug: true })
  explained.get('/', async ({ tokenAuth }) => {
    try {
      return tokenAuth.verified
    } catch (error) {
      return error instanceof TokenAuthError ? error.detail : error
    }
  })
  t.match((await explained.inject({ url: '/', headers: bearer('x') })).payload, /\(token found in the header\)$/)
})

t.test('it is one object for a request, with the payload and the scopes that the request has, and no other request shares it', async (t) => {
  const app = await build(t)
  const seen: unknown[] = []
  app.get('/', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth }) => {
    const { verified } = tokenAuth
    t.equal(tokenAuth.verified, verified)
    t.equal(verified.payload, tokenAuth.payload)
    t.notOk(seen.includes(verified.payload))
    seen.push(verified.payload)
    t.same(verified.payload.list, [1])
    Object.assign(verified.payload, { list: [2] })
    verified.scopes?.push('admin')
    return 'read'
  })
  const given = token()
  for (let round = 0; round < 3; round++) t.equal((await app.inject({ url: '/', headers: bearer(given) })).statusCode, 200)
})

t.test('a token that expires between the guard and the reader stays what the guard found', async (t) => {
  const app = await build(t)
  const at = now()
  const set = setClock(t, at)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth }) => {
    set(at + 1_000_000)
    return { id: tokenAuth.verified.userId }
  })
  t.same((await app.inject({ url: '/', headers: bearer(forge(claims({ exp: at + 60 }))) })).json(), { id: 1 })
})

t.test('it is of the guard that a request met last, and of the instance that is asked', async (t) => {
  const app = await build(t)
  await app.register((await import('../../lib/index.ts')).tokenAuth, { instanceName: 'staff', secret: `${secret} of staff`, userId: 'badge', authMode: false, authorizationHeader: 'x-staff' })
  app.get('/both', { onRequest: [app.tokenAuth.protect(), app.staff.protect()] }, async (request) => [request.tokenAuth.verified.userId, request.staff.verified.userId])
  app.get('/one', { onRequest: app.tokenAuth.protect() }, async (request) => [request.tokenAuth.verified.userId, request.staff.verified.userId])
  app.get('/names', { onRequest: app.tokenAuth.protect({ userId: 'sub' }) }, async (request) => request.tokenAuth.verified.userId)
  const staff = { 'x-staff': `Bearer ${forge({ badge: 'b-1', exp: now() + 60 }, { key: `${secret} of staff` })}` }
  t.same((await app.inject({ url: '/both', headers: { ...bearer(token()), ...staff } })).json(), [1, 'b-1'])
  t.equal((await app.inject({ url: '/one', headers: bearer(token()) })).statusCode, 401)
  t.equal((await app.inject({ url: '/names', headers: bearer(forge(claims({ sub: 'ada' }))) })).payload, 'ada')
})

t.test('it names the session of a token, and the trusted issuer of another', async (t) => {
  const { app } = await withSessions(t, { secret: `${secret} of verified` })
  app.get('/verified', read)
  const { access_token: access } = await started(app)
  t.equal((await app.inject({ url: '/verified', headers: bearer(access) })).json().sessionId.length, 22)
  const trusting = await withIssuers(t)
  trusting.get('/verified', read)
  t.match((await trusting.inject({ url: '/verified', headers: bearer(issue('a', granted({ sid: 'x' }))) })).json(), { issuer, userId: 'user-1', sessionId: null })
})

t.test('with trusted issuers, reading it is 503 while their keys are not available, and 401 while a key is fetched', async (t) => {
  const { state, jwks } = keySource([jwk('b', { which: 1 })])
  const app = await withIssuers(t, trusted({ jwks }))
  app.get('/verified', read)
  app.get('/waited', { onRequest: async (request) => { await request.tokenAuth.ready() } }, read)
  const get = async (url: string) => await app.inject({ url, headers: bearer(issue('a')) })
  const fetching = await get('/verified')
  t.equal(fetching.statusCode, 401)
  t.match(fetching.headers['www-authenticate'], /error="invalid_token"/)
  state.keys = [jwk('a')]
  await app.close()

  const slow = await withIssuers(t, trusted({ jwks: keySource([jwk('b', { which: 1 })]).jwks }))
  slow.get('/reason', async ({ tokenAuth }) => ({ reason: tokenAuth.signedOut }))
  t.same((await slow.inject({ url: '/reason', headers: bearer(issue('a')) })).json(), { reason: 'expired' })
  await slow.close()

  const down = keySource()
  down.state.instead = () => { throw new Error('down') }
  const other = await withIssuers(t, trusted({ jwks: down.jwks }))
  other.get('/waited', { onRequest: async (request) => { await request.tokenAuth.ready() } }, read)
  const response = await other.inject({ url: '/waited', headers: bearer(issue('a')) })
  t.match([response.statusCode, response.headers['retry-after'], response.json().code], [503, '10', 'TOKEN_AUTH_KEYS_UNAVAILABLE'])
})

t.test('a failure to decide is that failure, as for other readers', async (t) => {
  const cases: [options: Partial<TokenAuthOptions>, code: string][] = [
    [{ trusted: async () => true }, 'TOKEN_AUTH_INITIALIZATION_FAILURE'],
    [{ getSecret: async () => secret }, 'TOKEN_AUTH_INITIALIZATION_FAILURE'],
    [{ trusted: () => { throw new Error('down') } }, 'TOKEN_AUTH_HANDLER_FAILED'],
    [{ getLeeway: () => { throw new Error('down') } }, 'TOKEN_AUTH_HANDLER_FAILED'],
    [{ trusted: () => { throw new InvalidToken() } }, 'TOKEN_AUTH_INVALID_TOKEN']
  ]
  for (const [options, code] of cases) {
    const app = await build(t, options)
    app.get('/', read)
    t.equal((await app.inject({ url: '/', headers: bearer(token()) })).json().code, code)
    await app.close()
  }
})
