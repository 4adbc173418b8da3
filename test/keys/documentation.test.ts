/** docs/keys.md, docs/issuers.md and docs/providers.md: their examples run, and what their tables say is so. */
import { createPrivateKey } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { algorithmNamed } from '../../lib/algorithms.ts'
import tokenAuth, { type TrustedIssuer } from '../../lib/index.ts'
import { createTestToken } from '../../lib/testing.ts'
import { answer, answerFetches, audience, granted, issue, jwk, trusted, withIssuers } from '../authorities/issuers.ts'
import { issued, states, withKeys } from './ring.ts'
import { authenticate, bearer, edPair, forge, headerOf, host, secret, setClock, warnings } from '../helper.ts'
import { programsIn, programWith, run } from '../programs.ts'

const [keys, issuers, providers] = ['keys', 'issuers', 'providers'].map((name) => readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8')) as [string, string, string]
const programs = [keys, issuers, providers].flatMap((text) => programsIn(text))
/** In 2029, before the dates of the examples. */
const early = Date.UTC(2029, 11, 31) / 1000

t.test('the first example signs with one key until 2099, and with the other one after that', async (t) => {
  const setTime = setClock(t, early)
  const app = host(t)
  await run(programWith(programs, '2099'), { app, tokenAuth, authenticate, secret, nextSecret: `${secret} that comes next` })
  const { kid: first } = headerOf(await issued(app))
  setTime(Date.UTC(2099, 0, 1) / 1000)
  t.not(headerOf(await issued(app)).kid, first)
})

t.test('the example of an encrypted private key reads it from its file', async (t) => {
  const file = join(t.testdir(), '2030.pem')
  const encrypted = createPrivateKey(edPair().privateKey).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'of the key' })
  writeFileSync(file, encrypted)
  const app = host(t)
  await run(programWith(programs, '2030.pem').replace("'/run/secrets/2030.pem'", 'file'), { app, tokenAuth, authenticate, file, passphrase: 'of the key' })
  t.equal(headerOf(await issued(app)).alg, 'EdDSA')
})

t.test('the example of keys over HTTP accepts tokens of an instance of this package', async (t) => {
  const addresses = answerFetches(t, [jwk('a', { algorithm: 'EdDSA' })])
  const app = host(t)
  await run(programWith(programs, 'http://auth.internal'), { app, tokenAuth })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => request.tokenAuth.userId)
  t.equal((await answer(app, issue('a', granted({ iss: 'https://auth.example', sub: undefined, user_id: 1 }), { algorithm: 'EdDSA' }))).payload, '1')
  t.same(addresses, ['http://auth.internal:3000/auth/jwks'])
})

t.test('the example of a change goes from a secret to a pair', async (t) => {
  warnings(t, 'W17')
  const setTime = setClock(t, early)
  const app = host(t)
  await run(programWith(programs, 'nextKey'), { app, tokenAuth, authenticate, retrieveUser: () => ({ user_id: 1 }), nextKey: edPair().privateKey, oldSecret: secret })
  t.equal(headerOf(await issued(app)).alg, 'HS256')
  setTime(early + 86_400)
  t.equal(headerOf(await issued(app)).alg, 'EdDSA')
  setTime(early + 2 * 86_400)
  t.same(Object.values(states(app)), ['signing', 'gone'])
})

t.test('the example of published keys publishes one', async (t) => {
  const app = host(t)
  await run(programWith(programs, "pathToJwks: '/jwks'"), { app, tokenAuth, authenticate, privateKey: edPair().privateKey })
  t.equal((await app.inject('/auth/jwks')).json().keys.length, 1)
})

t.test('the example of a function shows the state of the keys', async (t) => {
  const app = host(t)
  await run(programWith(programs, 'loadKeys'), { app, tokenAuth, authenticate, loadKeys: async () => [{ key: secret, kid: 'a' }] })
  t.same((await app.inject('/health')).json(), { keys: [{ kid: 'a', algorithm: 'HS256', state: 'signing', signFrom: null, verifyUntil: null }], issuers: [] })
})

t.test('the example of a trusted issuer accepts its tokens beside those of its own, its route shows who issued the token, and users are looked up by issuer and id', async (t) => {
  const addresses = answerFetches(t)
  const app = host(t)
  const findUser = async (id: unknown) => ({ user_id: `own ${String(id)}` })
  const findPartner = async (id: unknown) => ({ user_id: `partner ${String(id)}` })
  await run(programWith(programs, "scoped('read:orders')"), { app, tokenAuth, secret, authenticate, findUser, findPartner })
  const issuer = 'https://tenant.eu.auth0.com/'
  const get = async (scope: string) => await app.inject({ url: '/orders', headers: bearer(issue('a', granted({ iss: issuer, sub: 'auth0|1', scope }), { algorithm: 'RS256' })) })
  t.same((await get('openid read:orders')).json(), { issuer, user: 'auth0|1' })
  const own = await createTestToken(app.tokenAuth, { user_id: 1 }, { scopes: 'read:orders' })
  t.same((await app.inject({ url: '/orders', headers: bearer(own) })).json(), { issuer: null, user: 1 })
  const me = async (token: string) => (await app.inject({ url: '/auth/me', headers: bearer(token) })).json().me.user_id
  t.equal(await me(issue('a', granted({ iss: issuer, sub: '1' }), { algorithm: 'RS256' })), 'partner 1')
  t.equal(await me(own), 'own 1')
  t.equal((await get('openid read')).statusCode, 403)
  t.same(addresses, ['https://tenant.eu.auth0.com/.well-known/jwks.json'])
})

t.test('the entry of each provider is accepted, and a token as this provider issues it', async (t) => {
  const [, section = ''] = /^## Entries\n([\s\S]*?)^## /m.exec(providers) ?? []
  const entries = [...section.matchAll(/^- ([^:]+): `(\{.*?\})`(?:.*? with the settings `(\{.*?\})`)?/gm)].map(([, name = '', text = '', settings = '{}']) => ({ name, text, settings }))
  t.equal(entries.length, 11)
  const perProvider: Record<string, Record<string, unknown>> = {
    Auth0: { sub: 'x', permissions: ['a'] },
    Keycloak: { sub: 'x', scope: 'a' },
    'Amazon Cognito': { sub: 'x', aud: undefined, client_id: 'CLIENT-ID', scope: 'a' },
    'Microsoft Entra (v2.0 tokens)': { sub: 'y', oid: 'x', scp: 'a' },
    'Google (ID tokens)': { sub: 'x', scope: 'a' },
    Firebase: { sub: 'x', scope: 'a' },
    Supabase: { sub: 'x', role: 'a' },
    'Kubernetes service accounts, with the default issuer of clusters': { aud: ['orders'], sub: 'x', scope: 'a' },
    'Cloudflare Access': { aud: ['AUD-TAG'], sub: 'x', scope: 'a' },
    'Google Identity-Aware Proxy': { sub: 'x', scope: 'a' },
    'another instance with [`pathToJwks`](keys.md#publish-keys)': { sub: undefined, user_id: 'x', scopes: ['a'] }
  }
  for (const { name, text, settings } of entries) {
    t.ok(name in perProvider, name)
    const entry: TrustedIssuer = await run('', {}, text)
    const algorithm = algorithmNamed(entry.algorithms?.[0]) ?? 'RS256'
    answerFetches(t, [jwk('a', { algorithm })])
    const options: { authorizationHeader?: string } = await run('', {}, settings)
    const app = await withIssuers(t, entry, options)
    const token = issue('a', granted({ iss: entry.issuer, aud: entry.audience, ...perProvider[name] }), { algorithm })
    const { authorizationHeader: header } = options
    const response = header === undefined ? await answer(app, token) : await app.inject({ url: '/', headers: { [header]: token } })
    t.match(response.json(), { issuer: entry.issuer, userId: 'x', scopes: ['a'] }, name)
  }
})

t.test('some tokens of Google have another issuer, which has an entry of its own', async (t) => {
  answerFetches(t, [jwk('a', { algorithm: 'RS256' })])
  const names = ['https://accounts.google.com', 'accounts.google.com']
  t.ok(providers.includes('a second entry with the issuer `accounts.google.com`'))
  const app = await withIssuers(t, names.map((issuer) => ({ issuer, audience, jwksUri: 'https://www.googleapis.com/oauth2/v3/certs' })), { trusted: () => true })
  for (const iss of names) t.match((await answer(app, issue('a', granted({ iss, sub: '1' }), { algorithm: 'RS256' }))).json(), { issuer: iss, userId: '1' })
})

t.test('the example of every tenant takes the keys of all tenants, and tokens whose issuer is that of their tenant', async (t) => {
  const tid = '11111111-2222-3333-4444-555555555555'
  const issuerOf = (tenant: string) => `https://login.microsoftonline.com/${tenant}/v2.0`
  const key = (kid: string, which: number, tenant?: string) => jwk(kid, { algorithm: 'RS256', which }, { use: 'sig', x5t: 'text', ...(tenant !== undefined && { issuer: issuerOf(tenant) }) })
  answerFetches(t, [key('all', 0, '{tenantid}'), key('personal', 1, '9188040d-6c67-4c5b-b112-36a304b66dad'), { kty: 'oct', kid: 'secret', k: 'x'.repeat(43) }])
  const app = host(t)
  await run(programWith(programs, 'tenantid'), { app, tokenAuth, handler: async () => 'reached' })
  const get = async (kid: string, which: number, extra: object = {}) => {
    const claims = granted({ iss: issuerOf(tid), tid, aud: 'CLIENT-ID', oid: 'x', scp: 'Files.Read User.Read', ...extra })
    return (await app.inject({ url: '/files', headers: bearer(issue(kid, claims, { algorithm: 'RS256', which })) })).statusCode
  }
  t.equal(await get('all', 0), 200)
  t.equal(await get('all', 0, { scp: 'User.Read' }), 403)
  for (const extra of [{ tid: tid.replace('1', '2') }, { tid: undefined }, { iss: undefined }, { iss: issuerOf('x'), tid: 'x' }, { aud: 'OTHER' }]) t.equal(await get('all', 0, extra), 401, { extra })
  t.equal(await get('personal', 1), 401, 'a key of one tenant does not sign for others')
})

t.test('what docs/providers.md says of SPIFFE and of the older secret of Supabase is so, and no other kind of token is accepted', async (t) => {
  const [, entry = ''] = /as `(\{ key: \{ \.\.\.key.*?\})`, set/.exec(providers) ?? []
  const key = jwk('a', {}, { use: 'jwt-svid' })
  await t.rejects(withKeys(t, [{ key, algorithm: 'ES256' }], { authMode: false }), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E15' })
  const svid = await withKeys(t, [await run<{ key: object }>('', { key }, entry)], { authMode: false, claimAud: 'spiffe://example.org/orders', userId: 'sub', extraVerifications: [({ sub }) => String(sub).startsWith('spiffe://example.org/')] })
  const claims = { iss: undefined, sub: 'spiffe://example.org/shop', aud: ['spiffe://example.org/orders'] }
  t.equal((await svid.inject({ url: '/', headers: bearer(issue('a', granted(claims))) })).statusCode, 200)
  t.equal((await svid.inject({ url: '/', headers: bearer(issue('a', granted({ ...claims, sub: 'spiffe://other.org/shop' }))) })).statusCode, 401)

  const [, settings = ''] = /older secret\*\*: `(\{.*?\})`/.exec(providers) ?? []
  const supabase = host(t)
  await supabase.register(tokenAuth, await run('', { secret }, settings))
  supabase.get('/', { onRequest: supabase.tokenAuth.scoped('authenticated') }, async (request) => request.tokenAuth.userId)
  const status = async (token: string) => (await supabase.inject({ url: '/', headers: bearer(token) })).statusCode
  const ofUser = { iss: 'https://PROJECT.supabase.co/auth/v1', aud: 'authenticated', sub: 'x', role: 'authenticated', exp: 4_000_000_000 }
  t.equal(await status(forge(ofUser, { key: secret, header: { kid: 'any' } })), 200)
  t.equal(await status(forge({ ...ofUser, iss: 'supabase', role: 'anon', sub: undefined }, { key: secret })), 401)
  // Three segments and no other form: neither an encrypted token nor one that only its provider can read.
  for (const token of ['opaque', 'a.b.c.d.e']) t.equal(await status(token), 401)
})

t.test('the list of members of an entry of issuers is complete', async (t) => {
  const [, section = ''] = /^## Members of an entry\n([\s\S]*?)^## /m.exec(issuers) ?? []
  const listed = [...section.matchAll(/^- \*\*`(\w+)`/gm)].map(([, name]) => name)
  const error: unknown = await withIssuers(t, Object.assign(trusted(), { unknown: 1 })).then(() => undefined, (reason: unknown) => reason)
  t.match(error, { message: `Its members are ${listed.join(', ')}.` })
})

t.test('the list of members of an entry is complete', async (t) => {
  const [, section = ''] = /^## Entries\n([\s\S]*?)^## /m.exec(keys) ?? []
  const listed = [...section.matchAll(/^- \*\*`(\w+)`/gm)].map(([, name]) => name)
  const error: unknown = await withKeys(t, [Object.assign({ key: secret }, { unknown: 1 })]).then(() => undefined, (reason: unknown) => reason)
  t.match(error, { message: `Its members are ${listed.join(', ')}.` })
})
