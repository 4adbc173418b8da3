/** docs/keys.md and docs/issuers.md: their examples run, and what their tables say is so. */
import { createPrivateKey } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { algorithmNamed } from '../../lib/keys/algorithms.ts'
import tokenAuth, { type TrustedIssuer } from '../../lib/index.ts'
import { answer, answerFetches, audience, granted, issue, issuer, jwk, trusted, withIssuers } from '../authorities/issuers.ts'
import { issued, states, withKeys } from './ring.ts'
import { authenticate, bearer, edPair, headerOf, host, secret, setClock, warnings } from '../helper.ts'
import { programsIn, programWith, run } from '../programs.ts'

const [keys, issuers] = ['keys', 'issuers'].map((name) => readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8')) as [string, string]
const programs = [keys, issuers].flatMap((text) => programsIn(text))
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
  await run(programWith(programs, 'nextKey'), { app, tokenAuth, authenticate, nextKey: edPair().privateKey, oldSecret: secret })
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

t.test('the example of a trusted issuer needs no key of its own, and its route shows who issued the token', async (t) => {
  const addresses = answerFetches(t)
  const app = host(t)
  await run(programWith(programs, "scoped('read:orders')"), { app, tokenAuth })
  const issuer = 'https://tenant.eu.auth0.com/'
  const get = async (scope: string) => await app.inject({ url: '/orders', headers: bearer(issue('a', granted({ iss: issuer, sub: 'auth0|1', scope }), { algorithm: 'RS256' })) })
  t.same((await get('openid read:orders')).json(), { issuer, user: 'auth0|1' })
  t.equal((await get('openid read')).statusCode, 403)
  t.same(addresses, ['https://tenant.eu.auth0.com/.well-known/jwks.json'])
})

t.test('the entry of each provider is accepted, and a token as this provider issues it', async (t) => {
  const [, section = ''] = /^## Providers\n([\s\S]*?)^## /m.exec(issuers) ?? []
  const entries = [...section.matchAll(/^- ([^:]+): `(\{.*?\})`/gm)].map(([, name = '', text = '']) => ({ name, text }))
  t.equal(entries.length, 6)
  const perProvider: Record<string, Record<string, unknown>> = {
    Auth0: { sub: 'x', permissions: ['a'] },
    Keycloak: { sub: 'x', scope: 'a' },
    'Amazon Cognito': { sub: 'x', aud: undefined, client_id: 'CLIENT-ID', scope: 'a' },
    'Microsoft Entra (v2.0 tokens)': { sub: 'y', oid: 'x', scp: 'a' },
    'Google (ID tokens)': { sub: 'x', scope: 'a' },
    'another instance with [`pathToJwks`](keys.md#publish-keys)': { sub: undefined, user_id: 'x', scopes: ['a'] }
  }
  for (const { name, text } of entries) {
    const entry: TrustedIssuer = await run('', {}, text)
    const algorithm = algorithmNamed(entry.algorithms?.[0]) ?? 'RS256'
    answerFetches(t, [jwk('a', { algorithm })])
    const app = await withIssuers(t, entry)
    const token = issue('a', granted({ iss: entry.issuer, aud: entry.audience, ...perProvider[name] }), { algorithm })
    t.match((await answer(app, token)).json(), { issuer: entry.issuer, userId: 'x', scopes: ['a'] }, name)
  }
})

t.test('the example of several issuers looks users up by issuer and id', async (t) => {
  const app = host(t)
  const findUser = async (id: unknown) => ({ user_id: `own ${String(id)}` })
  const findPartner = async (id: unknown) => ({ user_id: `partner ${String(id)}` })
  await run(programWith(programs, 'findUser('), { app, tokenAuth, secret, authenticate, findUser, findPartner, issuer, audience, jwks: async () => ({ keys: [jwk('r', { algorithm: 'RS256' })] }) })
  const me = async (token: string) => (await app.inject({ url: '/auth/me', headers: bearer(token) })).json().me.user_id
  t.equal(await me(issue('r', granted({ sub: '1' }), { algorithm: 'RS256' })), 'partner 1')
  t.equal(await me(await issued(app)), 'own 1')
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
