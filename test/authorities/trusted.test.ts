/** Which tokens of trusted issuers are accepted, and what they grant. */
import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { FastifyInstance } from 'fastify'
import tokenAuth, { memorySessions, type TokenAuthOptions } from '../../lib/index.ts'
import { pauseTime, refreshTime } from '../../lib/authorities/key-source.ts'
import { TrustedIssuers } from '../../lib/authorities/issuers.ts'
import { resolveSettings } from '../../lib/settings/configuration.ts'
import { joinFinders } from '../../lib/authorities/key-finder.ts'
import { verifierOf } from '../../lib/authorities/verifier.ts'
import { answer, audience, granted, issue, issuer, jwk, keySource, status, trusted, until, withIssuers, withoutJitter } from './issuers.ts'
import { authenticate, bearer, build, caseOf, claims, edPair, forge, holdTimers, host, keysFor, login, mistyped, now, otherSecret, pairFor, payloadOf, refreshStore, secret, setClock, signature, together, users, warnings } from '../helper.ts'

const other = 'https://other.example/'
const noon = 1_800_000_000
const retrieveUser = () => users[0]

// Promise: specification/issuer-2
// Promise: specification/issuers-2
t.test('a token of a trusted issuer is accepted, and the request knows its issuer', async (t) => {
  const app = await withIssuers(t)
  t.same((await answer(app, issue('a'))).json(), { issuer, userId: 'user-1', scopes: null, sessionId: null })
  t.same((await answer(app, issue(undefined))).statusCode, 200, 'without kid, where one key alone fits')
  t.match(app.tokenAuth.verifyToken(issue('a')), { sub: 'user-1' })
  t.equal(await status(app, forge(claims())), 401, 'there is no key of its own')
  t.match(await app.tokenAuth.generateAccessToken({ user_id: 1 }).catch((error: unknown) => error), { name: 'RequiredKeysNotFound' })
})

t.test('issuers stand beside a secret, a pair and keys, whose tokens keep their rules', async (t) => {
  const { publicKey, privateKey } = edPair()
  const own: Array<[options: Partial<TokenAuthOptions>, token: string]> = [
    [{ secret }, forge(claims(), { header: { kid: 'anything' } })],
    [together(keysFor('EdDSA')), forge(claims(), { algorithm: 'EdDSA', key: privateKey })],
    [mistyped({ algorithm: 'EdDSA', publicKey, authMode: false }), forge(claims(), { algorithm: 'EdDSA', key: privateKey })],
    [{ keys: [{ key: secret, kid: 'own' }] }, forge(claims(), { header: { kid: 'own' } })]
  ]
  for (const [options, token] of own) {
    const app = await withIssuers(t, trusted(), together({ authMode: true, retrieveUser }, options))
    assert.deepEqual((await answer(app, token)).json(), { issuer: null, userId: 1, scopes: null, sessionId: null }, caseOf(options))
    t.match((await answer(app, issue('a'))).json(), { issuer, userId: 'user-1' })
    assert.equal(await status(app, forge(claims(), { key: otherSecret })), 401, caseOf(options))
    assert.equal(await status(app, forge(claims(), { algorithm: 'HS384' })), 401, caseOf(options))
    for (const kid of [5, null, '']) assert.equal(await status(app, forge(claims(), { header: { kid } })), 401, 'no id of a key')
    if (options.authMode !== false) assert.equal((await login(app)).statusCode, 200, caseOf(options))
    t.match(app.tokenAuth.keyStatus(), { keys: options.keys === undefined ? [] : [{ kid: 'own' }], issuers: [{ issuer, keys: 1 }] })
    await app.close()
  }
  const app = await withIssuers(t, trusted(), { secret, authMode: true, retrieveUser })
  t.equal(Object.hasOwn(JSON.parse(Buffer.from((await login(app)).json().access_token.split('.')[0], 'base64url').toString()), 'kid'), false, 'own tokens carry no kid')
})

// Promise: keys/token-trusted-issuer
t.test('a token that names a trusted issuer is never verified with own keys', async (t) => {
  for (const options of [{ secret }, { keys: [{ key: secret, kid: 'a' }] }]) {
    const app = await withIssuers(t, trusted(), together({ authMode: true, retrieveUser }, options))
    assert.equal(await status(app, forge(granted({ user_id: 1 }), { header: { kid: 'a' } })), 401, caseOf(options))
    assert.equal(await status(app, forge(granted({ user_id: 1, iss: other }), { header: { kid: 'a' } })), 200, 'control: an own token may name an issuer that is not trusted')
    await app.close()
  }
})

t.test('with debug, an instance says that an issuer is not trusted, with keys of its own and without', async (t) => {
  const app = await withIssuers(t, trusted(), { debug: true })
  t.match((await answer(app, issue('a', granted({ iss: issuer.slice(0, -1) })))).json(), { detail: /its "iss" is not one of the trusted issuers/ })
  warnings(t, 'W07')
  for (const options of [{ secret }, { keys: [{ key: secret, kid: 'a' }] }]) {
    const both = await withIssuers(t, trusted(), together({ authMode: true, retrieveUser, debug: true }, options))
    for (const iss of [issuer.slice(0, -1), undefined]) {
      t.match((await answer(both, issue('b', granted({ iss })))).json(), { detail: /its "iss" is not that of an entry of "issuers", and no key of this instance/ })
    }
    t.match((await answer(both, forge(claims(), { header: { kid: null } }))).json(), { detail: /the header is not acceptable/ })
    await both.close()
  }
})

// Promise: keys/token-trusted-issuer
// Promise: security/3-8-validate
t.test('the key of one issuer is never used for another, whatever the kid', async (t) => {
  const app = await withIssuers(t, [trusted(), trusted({ issuer: other, jwks: { keys: [jwk('a', { which: 1 })] } })], { retrieveUser })
  t.equal(await status(app, issue('a')), 200)
  t.equal(await status(app, issue('a', granted({ iss: other }), { which: 1 })), 200)
  t.equal(await status(app, issue('a', granted({ iss: other }))), 401)
  t.equal(await status(app, issue('a', granted(), { which: 1 })), 401)
})

// Promise: keys/token-trusted-issuer
// Promise: security/3-8-validate
t.test('the issuer is compared as a whole: no part, no other case, no list, no other claim', async (t) => {
  const app = await withIssuers(t)
  const wrong: unknown[] = [
    issuer.slice(0, -1), `${issuer}x`, issuer.toUpperCase(), `${issuer}/`, ` ${issuer}`, '', [issuer], [issuer, other], { [issuer]: issuer }, null, 5, true, undefined, '__proto__', 'constructor'
  ]
  for (const iss of wrong) assert.equal(await status(app, issue('a', granted({ iss }))), 401, JSON.stringify(iss))
  const twice = (...named: string[]) => {
    const payload = `{${named.map((iss) => `"iss":"${iss}",`).join('')}"aud":"${audience}","sub":"user-1","exp":${now() + 600}}`
    const input = [issue('a').split('.')[0], Buffer.from(payload).toString('base64url')].join('.')
    return `${input}.${signature(input, 'ES256', pairFor('ES256').privateKey)}`
  }
  t.equal(await status(app, twice(issuer, other)), 401)
  t.equal(await status(app, twice(other, issuer)), 200, 'of two claims the last counts, in every step')
  for (const payload of [null, 5, 'x', [granted()]]) assert.equal(await status(app, forge(payload, { algorithm: 'ES256', key: pairFor('ES256').privateKey, header: { kid: 'a' } })), 401, JSON.stringify(payload))
  t.equal(await status(app, `${issue('a').split('.')[0]}.eyJp.AAAA`), 401, 'a payload that is no JSON')
})

// Promise: keys/token-issuer-made
// Promise: security/3-9-use
// Promise: security/9-2-3
t.test('one of the audiences must be in aud, as text or in a list; null accepts any', async (t) => {
  const codes = warnings(t, 'W18')
  const one = await withIssuers(t)
  const several = await withIssuers(t, trusted({ audience: [audience, 'api'] }))
  const any = await withIssuers(t, trusted({ audience: null }))
  const cases: Array<[aud: unknown, one: number, several: number, any: number]> = [
    [audience, 200, 200, 200], [[audience], 200, 200, 200], [['x', audience], 200, 200, 200], ['api', 401, 200, 200], [['x', 'api'], 401, 200, 200], ['x', 401, 401, 200],
    [[], 401, 401, 200], [undefined, 401, 401, 200], ['', 401, 401, 200], [audience.toUpperCase(), 401, 401, 200], [`${audience}/`, 401, 401, 200],
    // Types that no token may have.
    [null, 401, 401, 401], [5, 401, 401, 401], [[audience, 5], 401, 401, 401], [{ 0: audience }, 401, 401, 401]
  ]
  for (const [aud, ...expected] of cases) {
    const token = issue('a', granted({ aud }))
    assert.deepEqual([await status(one, token), await status(several, token), await status(any, token)], expected, JSON.stringify(aud))
  }
  t.same(codes, ['TOKEN_AUTH_W18'])
})

// Promise: keys/token-issuer-made
t.test('the audience may be in another claim, as client_id of Cognito', async (t) => {
  const app = await withIssuers(t, trusted({ audience: 'client', audienceName: 'client_id' }))
  const tokenOf = (claims: Record<string, unknown>) => issue('a', granted({ aud: undefined, ...claims }))
  t.equal(await status(app, tokenOf({ client_id: 'client' })), 200)
  t.equal(await status(app, tokenOf({ client_id: ['x', 'client'] })), 200)
  for (const wrong of [{}, { aud: 'client' }, { client_id: 'x' }, { client_id: 5 }, { client_id: { client: 1 } }, { client_id: ['x'] }]) assert.equal(await status(app, tokenOf(wrong)), 401, JSON.stringify(wrong))
  t.match((await answer(app, tokenOf({}))).json(), { exception: 'InvalidClaim' })
})

// Promise: keys/token-issuer-made
// Promise: security/3-11-use
// Promise: security/9-2-2
t.test('the type of a token is none, JWT or at+jwt, and where at+jwt is required an ID token is refused', async (t) => {
  const lax = await withIssuers(t)
  const strict = await withIssuers(t, trusted({ typ: 'at+jwt' }))
  const cases: Array<[typ: unknown, lax: number, strict: number]> = [
    ['at+jwt', 200, 200], ['AT+JWT', 200, 200], ['application/at+jwt', 200, 200], [undefined, 200, 401], ['JWT', 200, 401], ['jwt', 200, 401],
    ['id+jwt', 401, 401], ['logout+jwt', 401, 401], ['dpop+jwt', 401, 401], ['', 401, 401], [['at+jwt'], 401, 401], [null, 401, 401], [5, 401, 401]
  ]
  for (const [typ, ...expected] of cases) {
    const token = issue('a', granted(), {}, { typ })
    assert.deepEqual([await status(lax, token), await status(strict, token)], expected, JSON.stringify(typ))
  }
  const own = await build(t)
  t.throws(() => own.tokenAuth.verifyToken(forge(claims(), { header: { typ: 'at+jwt' } })), { name: 'InvalidToken' }, 'own tokens have the type JWT')
  t.equal(await status(lax, issue('a', granted(), {}, { crit: ['x'] })), 401)
  t.equal(await status(lax, issue('a', granted(), {}, { cty: 'JWT' })), 401)
})

t.test('only the algorithms of the issuer are accepted, each with a key of its type', async (t) => {
  const keys = [jwk('a'), jwk('r', { algorithm: 'RS256' }), jwk('e', { algorithm: 'EdDSA' }), jwk('b', { algorithm: 'ES384' })]
  const app = await withIssuers(t, trusted({ algorithms: ['ES256', 'EdDSA'], jwks: { keys } }))
  t.equal(await status(app, issue('a')), 200)
  t.equal(await status(app, issue('e', granted(), { algorithm: 'EdDSA' })), 200)
  t.equal(await status(app, issue('r', granted(), { algorithm: 'RS256' })), 401, 'not its algorithm')
  t.equal(await status(app, issue('b', granted(), { algorithm: 'ES384' })), 401)
  t.equal(await status(app, issue('a', granted(), {}, { alg: 'EdDSA' })), 401, 'the key of another algorithm')
  t.equal(await status(app, issue('b', granted(), {}, { alg: 'ES256' })), 401, 'a key on another curve')
  const { publicKey } = pairFor('ES256')
  for (const header of [{ alg: 'HS256' }, { alg: 'none' }, { alg: 'es256' }, { alg: '__proto__' }]) assert.equal(await status(app, forge(granted(), { key: publicKey, header: { kid: 'a', ...header } })), 401, header.alg)
  const every = await withIssuers(t, trusted({ algorithms: undefined, jwks: { keys: [jwk('r', { algorithm: 'RS256' })] } }))
  t.equal(await status(every, issue('r', granted(), { algorithm: 'RS256' })), 200, 'RS256 by default')
})

// Promise: security/3-10-trust
t.test('a hostile kid finds no key of an issuer: 401, and nothing of it is answered', async (t) => {
  const app = await withIssuers(t, trusted({ jwks: { keys: [jwk('a'), jwk('b', { which: 1 })] } }))
  const kids: unknown[] = ['__proto__', 'constructor', 'toString', '../../etc/passwd', "' OR 1=1 --", 'http://127.0.0.1/', 'A', ' a', 'a\0', 'x'.repeat(256), 'x'.repeat(5000), null, 5, [], ['a'], { a: 1 }, true]
  for (const kid of kids) {
    const response = await answer(app, issue(undefined, granted(), {}, { kid }))
    assert.equal(response.statusCode, 401, String(kid).slice(0, 20))
    assert.deepEqual(response.json(), { reasons: 'Token is invalid.', exception: 'InvalidToken' }, caseOf(kid))
  }
})

t.test('a token of an issuer always expires, whatever verifyExp says, and nbf is asked where it is there', async (t) => {
  warnings(t, 'W04')
  const setTime = setClock(t, noon)
  for (const options of [{}, { verifyExp: false }, { claimNbf: true }]) {
    const app = await withIssuers(t, trusted(), { leeway: 10, ...options })
    const token = issue('a', granted({ exp: noon + 5 }))
    assert.equal(await status(app, token), 200, caseOf(options))
    setTime(noon + 14.999)
    assert.equal(await status(app, token), 200, caseOf(options))
    setTime(noon + 15)
    t.match((await answer(app, token)).json(), { exception: 'TokenExpired' })
    setTime(noon)
    t.match((await answer(app, issue('a', granted({ exp: undefined })))).json(), { exception: 'InvalidClaim' })
    assert.equal(await status(app, issue('a', granted({ nbf: noon + 10 }))), 200, caseOf(options))
    t.match((await answer(app, issue('a', granted({ nbf: noon + 11 })))).json(), { exception: 'TokenNotActive' })
    for (const wrong of [{ exp: 'x' }, { nbf: 'x' }, { iat: 'x' }, { exp: 1e300 }]) assert.equal(await status(app, issue('a', granted(wrong))), 401, JSON.stringify(wrong))
  }
})

t.test('the user id is in the claim of the issuer', async (t) => {
  const app = await withIssuers(t, trusted({ userId: 'oid' }))
  t.match((await answer(app, issue('a', granted({ oid: 'x' })))).json(), { userId: 'x' })
  for (const oid of [undefined, '', null, {}, 1.5]) t.match((await answer(app, issue('a', granted({ oid })))).json(), { exception: 'InvalidClaim' }, JSON.stringify(oid))
})

t.test('what own tokens must have is not asked of an issuer; extra verifications are asked of every token', async (t) => {
  const seen: unknown[] = []
  const app = await withIssuers(t, trusted(), {
    secret,
    retrieveUser,
    claimIss: 'https://own.example',
    claimAud: 'own',
    claimNbf: true,
    customClaims: [{ key: 'tenant', setup: () => 'a', verify: (value) => value === 'a' }],
    extraVerifications: [(payload) => { seen.push(payload.sub); return payload.blocked !== true }]
  })
  t.equal(await status(app, issue('a')), 200)
  t.same(seen, ['user-1'])
  t.equal(await status(app, issue('a', granted({ blocked: true }))), 401)
  t.equal(await status(app, forge(claims({ iss: 'https://own.example', aud: 'own', nbf: now() }))), 401, 'control: an own token without the claim')
})

t.test('the OpenAPI document has the 503 of endpoints that read tokens where there are trusted issuers, and there only', async (t) => {
  const documented = async (options: Partial<TokenAuthOptions>) => {
    const app = host(t)
    const found: Record<string, boolean> = {}
    app.addHook('onRoute', ({ url, schema }) => { found[url] = Object.hasOwn(Object(schema?.response), '503') })
    await app.register(tokenAuth, together({ secret, authenticate, retrieveUser, strictSlashes: true }, options))
    return found
  }
  t.same(await documented({ issuers: [trusted()] }), { '/auth': false, '/auth/verify': true, '/auth/me': true })
  t.same(await documented({}), { '/auth': false, '/auth/verify': false, '/auth/me': false })
})

/** The answers of a route that requires scopes. */
function scopedRoutes (app: FastifyInstance): (required: string, token: string) => Promise<number> {
  app.get('/scoped/:scope', { onRequest: app.tokenAuth.scoped((request) => String(Reflect.get(Object(request.params), 'scope'))) }, async () => 'reached')
  return async (required, token) => (await app.inject({ url: `/scoped/${required}`, headers: bearer(token) })).statusCode
}

// Promise: keys/scope-issuer-grants
t.test('scopes of an issuer are whole strings: email does not grant email:write', async (t) => {
  const app = await withIssuers(t)
  const get = scopedRoutes(app)
  app.get('/fixed', { onRequest: app.tokenAuth.scoped('email:write') }, async () => 'reached')
  app.get('/granted', { onRequest: app.tokenAuth.scoped('email') }, async () => 'reached')
  const token = issue('a', granted({ scope: 'openid profile email read:items' }))
  for (const required of ['openid', 'profile', 'email', 'read:items']) assert.equal(await get(required, token), 200, required)
  for (const required of ['email:write', 'openid:x', 'read', 'read:items:all', ':items', 'Email']) assert.equal(await get(required, token), 403, required)
  t.same((await answer(app, token)).json().scopes, ['openid', 'profile', 'email', 'read:items'])
  for (const [url, expected] of [['/fixed', 403], ['/granted', 200]] as const) {
    for (let round = 0; round < 2; round++) assert.equal((await app.inject({ url, headers: bearer(token) })).statusCode, expected, 'a decision that is remembered is the same')
  }
  t.equal(await get('email', issue('a')), 403, 'a token without scopes')
})

// Promise: keys/scope-issuer-grants
t.test('scopes may be in several claims, as scp and roles of Entra', async (t) => {
  const app = await withIssuers(t, trusted({ scopesName: ['scp', 'roles'] }))
  const get = scopedRoutes(app)
  const token = issue('a', granted({ scp: 'Files.Read Mail.Send', roles: ['Admin', 5], scope: 'other' }))
  for (const required of ['Files.Read', 'Mail.Send', 'Admin']) assert.equal(await get(required, token), 200, required)
  t.equal(await get('other', token), 403)
  t.same((await answer(app, token)).json().scopes, ['Files.Read', 'Mail.Send', 'Admin'])
  t.same((await answer(app, issue('a', granted({ roles: ['Admin'] })))).json().scopes, ['Admin'])
})

t.test('with exactScopes false, scopes follow the rules of this plugin, and overrideScopeValidator is asked as for own tokens', async (t) => {
  const app = await withIssuers(t, trusted({ exactScopes: false, scopesName: 'scopes' }))
  const get = scopedRoutes(app)
  t.equal(await get('email:write', issue('a', granted({ scopes: ['email'] }))), 200)
  t.equal(await get('email:write', issue('a', granted({ scopes: ['email:read'] }))), 403)
  const explained = await withIssuers(t, trusted(), { debug: true })
  explained.get('/scoped', { onRequest: explained.tokenAuth.scoped(['email:write', 'email:read']) }, async () => 'reached')
  const refused = await explained.inject({ url: '/scoped', headers: bearer(issue('a', granted({ scope: 'email email:read' }))) })
  t.equal(refused.json().detail, 'the scopes of the token are not enough for "email:write" and "email:read": the token has no scope "email:write" (token found in the header)')
  const seen: unknown[] = []
  const asked = await withIssuers(t, trusted(), { overrideScopeValidator: (...given) => { seen.push(given); return given[0] } })
  t.equal(await scopedRoutes(asked)('email:write', issue('a', granted({ scope: 'email' }))), 403)
  t.same(seen, [[false, 'email:write', ['email'], true]])
})

t.test('without retrieveUser, the user of an issuer has the id under the name of the setting userId; with it, the handler gets the payload', async (t) => {
  warnings(t, 'W21')
  const app = await withIssuers(t, trusted(), { secret, authMode: true })
  t.same((await app.inject({ url: '/auth/me', headers: bearer(issue('a')) })).json(), { me: { user_id: 'user-1' } })
  t.same((await app.inject({ url: '/auth/verify', headers: bearer(issue('a')) })).json(), { valid: true })
  t.match((await app.inject({ url: '/auth/verify', headers: bearer(issue('b')) })), { statusCode: 400 })
  const other = await withIssuers(t, trusted(), { secret: otherSecret, authMode: true, retrieveUser: (request, { iss, sub }) => ({ user_id: 7, iss, sub, issuer: request.tokenAuth.issuer }) })
  t.same((await other.inject({ url: '/auth/me', headers: bearer(issue('a')) })).json(), { me: { user_id: 7, iss: issuer, sub: 'user-1', issuer } })
})

// Promise: keys/token-trusted-issuer-serves
t.test('an access token of an issuer never serves a refresh, remembered or not', async (t) => {
  const { stored, ...store } = refreshStore()
  const app = await withIssuers(t, trusted({ userId: 'user_id' }), together({ secret, authMode: true, retrieveUser }, store))
  const { refresh_token: refreshToken } = (await login(app)).json()
  const token = issue('a', granted({ user_id: 1 }))
  const refresh = async (token: string) => await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(token), payload: { refresh_token: refreshToken } })
  t.match((await refresh(token)).json(), { exception: 'InvalidToken' })
  t.equal(await status(app, token), 200)
  t.match((await refresh(token)).json(), { exception: 'InvalidToken' }, 'remembered')
  t.equal((await refresh(forge(claims()))).statusCode, 200, 'control: an own token')
  t.equal(stored.size, 1)
})

// Promise: keys/token-trusted-issuer-serves
t.test('a refresh with sessions sees no token of an issuer that comes with it: it gets the scopes of its own user, and ends no session', async (t) => {
  const seen: unknown[] = []
  const app = await withIssuers(t, trusted(), {
    secret: `${secret} of issuers and refreshes`,
    authMode: true,
    scopesEnabled: true,
    sessions: {},
    retrieveUser: async ({ tokenAuth }, payload) => {
      const { issuer, userId, payload: own, token, scopes } = tokenAuth
      seen.push({ issuer, userId, own, token, scopes, user: await tokenAuth.user() })
      if (issuer !== null) return userId === 1 ? { user_id: 1, scopes: ['admin'] } : null
      return { user_id: Number(payload.user_id), scopes: ['user'] }
    },
    addScopesToPayload: ({ scopes }) => Array.isArray(scopes) ? scopes : []
  })
  app.addHook('onRequest', async (request) => { await request.tokenAuth.ready() })
  const { refresh_token: refreshToken } = (await login(app)).json()
  for (const sub of [1, 'nobody']) {
    const response = await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(issue('a', granted({ sub }))), payload: { refresh_token: refreshToken } })
    assert.equal(response.statusCode, 200, caseOf(sub))
    assert.deepEqual(payloadOf(response.json().access_token).scopes, ['user'], caseOf(sub))
    assert.deepEqual(seen.splice(0), [{ issuer: null, userId: null, own: null, token: null, scopes: null, user: null }], caseOf(sub))
  }
})

// Promise: keys/token-trusted-issuer-serves
t.test('a token of an issuer belongs to no session here: its sid is not looked up, and the endpoints of sessions refuse it', async (t) => {
  const store = memorySessions()
  const app = await withIssuers(t, trusted({ userId: 'user_id' }), { secret: `${secret} of issuers and sessions`, authMode: true, retrieveUser, sessions: { store } })
  const { access_token: own } = (await login(app)).json()
  const { sessions: [session] } = (await app.inject({ url: '/auth/sessions', headers: bearer(own) })).json()
  const token = issue('a', granted({ user_id: 1, sid: session.id }))
  t.match((await answer(app, token)).json(), { sessionId: null, userId: 1 })
  t.equal(await status(app, issue('a', granted({ user_id: 1, sid: 5 }))), 200, 'of any form')
  for (const [method, url] of [['GET', '/auth/sessions'], ['DELETE', '/auth/sessions'], ['DELETE', `/auth/sessions/${session.id}`], ['POST', '/auth/logout']] as const) {
    t.match(await app.inject({ method, url, headers: bearer(token) }), { statusCode: 401 }, `${method} ${url}`)
  }
  t.equal((await app.inject({ url: '/auth/sessions', headers: bearer(own) })).json().sessions.length, 1, 'nothing has ended')
  t.equal((await app.inject({ method: 'POST', url: '/auth/logout', headers: bearer(own) })).statusCode, 204)
  t.equal(await status(app, own), 401, 'control: the session has ended')
  t.equal(await status(app, token), 200, 'and the token of the issuer with its id has not')
})

t.test('what one request does to the payload of a remembered token of an issuer, no other request sees', async (t) => {
  for (const options of [{}, { tokenCacheSize: 0 }]) {
    const app = await withIssuers(t, trusted(), options)
    app.get('/payload', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth: { payload } }) => { Object(payload).list.push(2); return payload })
    const token = issue('a', granted({ list: [1] }))
    for (let round = 0; round < 3; round++) assert.deepEqual((await app.inject({ url: '/payload', headers: bearer(token) })).json().list, [1, 2], caseOf(options, round))
  }
})

t.test('a guard may not override keys (E11), nor take a trusted issuer for that of own tokens (E17)', async (t) => {
  for (const options of [{ secret, retrieveUser }, { keys: [{ key: secret }], retrieveUser }, {}]) {
    const app = await withIssuers(t, trusted(), options)
    for (const overrides of [{ secret: otherSecret }, { algorithm: 'HS512' }] as const) t.throws(() => app.tokenAuth.protect(overrides), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E11' })
    t.throws(() => app.tokenAuth.protect({ claimIss: issuer }), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E17' })
    app.get('/lax', { onRequest: app.tokenAuth.protect({ leeway: 60, claimIss: other }) }, async () => 'reached')
    assert.equal((await app.inject({ url: '/lax', headers: bearer(issue('a', granted({ exp: now() - 30 }))) })).statusCode, 200, caseOf(options))
    await app.close()
  }
})

t.test('a signal aborts when the token of an issuer expires, also with verifyExp false', async (t) => {
  warnings(t, 'W04')
  const setTime = setClock(t, noon)
  const app = await withIssuers(t, trusted(), { verifyExp: false, leeway: 0, secret, retrieveUser })
  app.get('/late', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth }) => {
    setTime(noon + 10)
    const { signal } = tokenAuth
    await turn()
    await turn()
    return { isAborted: signal.aborted }
  })
  const isAborted = async (token: string) => {
    setTime(noon)
    return (await app.inject({ url: '/late', headers: bearer(token) })).json().isAborted
  }
  t.equal(await isAborted(issue('a', granted({ exp: noon + 5 }))), true)
  t.equal(await isAborted(issue('a', granted({ exp: noon + 15 }))), false)
  t.equal(await isAborted(forge(claims({ exp: noon + 5 }))), false, 'an own token is accepted after it')
})

t.test('a signal that is read while the key of its token is being fetched does not keep later ones from aborting', async (t) => {
  const setTime = setClock(t, noon)
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks }), { leeway: 0 })
  const early: AbortSignal[] = []
  app.get('/open', async ({ tokenAuth }) => {
    early.push(tokenAuth.signal)
    await tokenAuth.ready()
    setTime(noon + 10)
    const { signal } = tokenAuth
    await turn()
    await turn()
    return [early[0]?.aborted, signal.aborted, new Set([signal, tokenAuth.signal]).size]
  })
  state.keys = [jwk('b', { which: 1 })]
  t.same((await app.inject({ url: '/open', headers: bearer(issue('b', granted({ exp: noon + 5 }), { which: 1 })) })).json(), [false, true, 1])
})

/** An application whose keys are read again when the test says so, and the signals that its route `/signal` has read. */
async function withSignals (t: Test) {
  withoutJitter(t)
  const reload = holdTimers(t, refreshTime)
  const settle = async () => { for (let count = 0; count < 5; count++) await turn() }
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks }))
  const signals: AbortSignal[] = []
  app.get('/signal', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth }) => { signals.push(tokenAuth.signal); return '' })
  return { app, state, signals, reload, settle }
}

// Promise: security/connection-stays-open
t.test('a signal aborts when the key of its token is withdrawn, and not when the issuer cannot be reached', async (t) => {
  const retry = holdTimers(t, pauseTime)
  const { app, state, signals, reload, settle } = await withSignals(t)
  await app.inject({ url: '/signal', headers: bearer(issue('a')) })
  state.instead = () => { throw new Error('down') }
  reload()
  await settle()
  t.equal(app.tokenAuth.keyStatus().issuers[0]?.failedAt === null, false)
  t.equal(signals[0]?.aborted, false)
  state.instead = undefined
  state.keys = [jwk('b', { which: 1 })]
  retry()
  await settle()
  t.match(signals[0], { aborted: true, reason: { name: 'InvalidToken' } })
})

t.test('a key to which its issuer adds members goes on, with its tokens and signals, unless they would be refused now', async (t) => {
  const { app, state, signals, reload, settle } = await withSignals(t)
  const token = issue('a')
  await app.inject({ url: '/signal', headers: bearer(token) })
  state.keys = [{ ...jwk('a'), alg: 'ES256' }]
  reload()
  await settle()
  t.equal(await status(app, token), 200)
  t.equal(signals[0]?.aborted, false)
  state.keys = [{ ...jwk('a'), alg: 'ES512' }]
  reload()
  await settle()
  t.equal(await status(app, token), 401)
  t.equal(signals[0]?.aborted, true)
})

t.test('a verification that fails while verifyToken does not wait for it is nobody\'s unhandled rejection', async (t) => {
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks }), { getLeeway: () => 10 })
  state.keys = [jwk('b', { which: 1 })]
  const token = issue('b', granted(), { which: 1 })
  t.throws(() => app.tokenAuth.verifyToken(token), { name: 'InvalidToken' })
  await until(() => state.calls === 2)
  for (let count = 0; count < 5; count++) await turn()
  t.throws(() => app.tokenAuth.verifyToken(token), { name: 'RequiredKeysNotFound' })
})

// Promise: keys/verifytoken-readers-request
t.test('verifyToken and readers that cannot wait take a token whose key has to be fetched for invalid, and the key is fetched', async (t) => {
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks }))
  app.get('/open', async (request) => {
    const before = [app.tokenAuth.isAuthenticated(request), request.tokenAuth.userId, request.tokenAuth.issuer, request.tokenAuth.scopes, request.tokenAuth.payload]
    await request.tokenAuth.ready()
    return [before, [app.tokenAuth.isAuthenticated(request), request.tokenAuth.userId]]
  })
  const read = async (token: string) => (await app.inject({ url: '/open', headers: bearer(token) })).json()
  state.keys = [jwk('b', { which: 1 }), jwk('c', { which: 2 })]
  const token = issue('b', granted(), { which: 1 })
  t.throws(() => app.tokenAuth.verifyToken(token), { name: 'InvalidToken', reason: 'its key is not known yet, and is being fetched' })
  t.equal(state.calls, 2, 'it is being fetched')
  t.equal(await status(app, token), 200)
  t.match(app.tokenAuth.verifyToken(token), { sub: 'user-1' })
  state.keys = [jwk('d', { which: 3 })]
  t.same(await read(issue('d', granted(), { which: 3 })), [[false, null, null, null, null], [true, 'user-1']])
})

t.test('the issuer is compared again after the signature: what chose it was not verified', async (t) => {
  const issuers = await TrustedIssuers.read([trusted()], resolveSettings({}, undefined), () => {})
  const token = issue('a')
  const dots = [token.indexOf('.'), token.lastIndexOf('.')] as const
  const chosen = issuers.findIssuer(token, dots)
  if (chosen === undefined) throw new Error('It is not there.')
  const verify = (iss: string) => verifierOf(joinFinders(chosen, undefined), 0)(issue('a', granted({ iss })))
  t.match(verify(issuer), { payload: { iss: issuer }, authority: { issuer } })
  t.match(verify(other), { reason: 'the claim "iss" is missing or names another issuer' })
})
