/** GET /auth/jwks: what is published of keys, and what is not. */
import { createPrivateKey, createPublicKey } from 'node:crypto'
import { Validator } from '@seriousme/openapi-schema-validator'
import fastifySwagger from '@fastify/swagger'
import { calculateJwkThumbprint, createLocalJWKSet, createRemoteJWKSet, jwtVerify, type JSONWebKeySet } from 'jose'
import t from 'tap'
import tokenAuth, { type TokenAuthOptions } from '../../lib/index.ts'
import { iso, issued, noon, overlap, source, withKeys } from '../keys/ring.ts'
import { authenticate, build, ecPair, edPair, host, keysFor, listen, mistyped, otherSecret, pairFor, refusal, rsaPair, secret, setClock, together, valid, warnings } from '../helper.ts'

const published = { pathToJwks: '/jwks', claimIss: 'https://auth.example', claimAud: 'https://api.example' }
const settled = async () => await new Promise((resolve) => setImmediate(resolve))

// Promise: specification/pathtojwks-2
t.test('the public keys are a JWK set, in these bytes, with these headers, for GET and HEAD', async (t) => {
  const jwk = createPublicKey(edPair().publicKey).export({ format: 'jwk' })
  const app = await withKeys(t, [{ key: edPair().privateKey, kid: 'a' }], { ...published, algorithm: 'EdDSA' })
  const answer = await app.inject('/auth/jwks')
  t.equal(answer.statusCode, 200)
  t.equal(answer.body, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"${jwk.x}","kid":"a","alg":"EdDSA","use":"sig"}]}`)
  t.match(answer.headers, { 'content-type': /^application\/jwk-set\+json$/, 'cache-control': /^public, max-age=300, stale-if-error=86400$/ })
  const head = await app.inject({ method: 'HEAD', url: '/auth/jwks' })
  t.same([head.statusCode, head.body, head.headers['content-type'], head.headers['content-length']], [200, '', 'application/jwk-set+json', String(answer.body.length)])
  t.equal((await app.inject('/auth/jwks/')).body, answer.body)
  t.equal((await app.inject({ method: 'POST', url: '/auth/jwks' })).statusCode, 404)
})

t.test('HEAD is answered, too, where the application exposes no HEAD routes', async (t) => {
  const app = await withKeys(t, [{ key: edPair().privateKey }], { ...published, algorithm: 'EdDSA' }, { exposeHeadRoutes: false })
  t.equal((await app.inject({ method: 'HEAD', url: '/auth/jwks' })).statusCode, 200)
})

// Promise: keys/private-members-secrets
t.test('the public members of RSA, EC and Ed25519 keys are published, no private one and no secret', async (t) => {
  warnings(t, 'W17')
  const pairs = [[rsaPair(), 'RS256'], [ecPair('prime256v1'), 'ES256'], [edPair(), 'EdDSA']] as const
  const keys = pairs.map(([{ privateKey }, algorithm]) => ({ algorithm, key: { ...createPrivateKey(privateKey).export({ format: 'jwk' }), key_ops: ['sign'], extra: 'private' } }))
  const app = await withKeys(t, [...keys, { key: secret, algorithm: 'HS256' }], published)
  const set: { keys: Array<Record<string, unknown>> } = (await app.inject('/auth/jwks')).json()
  t.same(set.keys.map((key) => Object.keys(key)), [['kty', 'n', 'e', 'kid', 'alg', 'use'], ['kty', 'crv', 'x', 'y', 'kid', 'alg', 'use'], ['kty', 'crv', 'x', 'kid', 'alg', 'use']])
  for (const [index, [{ publicKey }, alg]] of pairs.entries()) {
    const jwk = createPublicKey(publicKey).export({ format: 'jwk' })
    t.same(set.keys[index], { ...jwk, kid: await calculateJwkThumbprint(jwk), alg, use: 'sig' })
  }
})

t.test('the next key is published before it signs, and a key is not any more when its tokens do not count', async (t) => {
  const setTime = setClock(t, noon)
  const app = await withKeys(t, [
    { key: edPair(0).privateKey, kid: 'old', verifyUntil: iso(noon + 60 + overlap) }, { key: edPair(1).privateKey, kid: 'new', signFrom: iso(noon + 60) }, { key: edPair(2).publicKey, kid: 'other' }
  ], { ...published, algorithm: 'EdDSA' })
  const kids = async () => (await app.inject('/auth/jwks')).json().keys.map(({ kid }: { kid: string }) => kid)
  t.same(await kids(), ['old', 'new', 'other'])
  setTime(noon + 60 + overlap - 0.001)
  t.same(await kids(), ['old', 'new', 'other'])
  setTime(noon + 60 + overlap)
  t.same(await kids(), ['new', 'other'])
})

// Promise: keys/other-libraries-verify
t.test('jose verifies tokens with what is published, over the network and over a switch of keys', async (t) => {
  for (const algorithm of ['RS256', 'ES256', 'EdDSA'] as const) {
    const { state, load } = source([{ key: pairFor(algorithm).privateKey }])
    const app = await withKeys(t, load, { ...published, algorithm })
    const port = await listen(app)
    const url = new URL(`http://127.0.0.1:${port}/auth/jwks`)
    const requirements = { issuer: 'https://auth.example', audience: 'https://api.example', algorithms: [algorithm] }
    const before = await issued(app)
    t.equal((await jwtVerify(before, createRemoteJWKSet(url), requirements)).payload.user_id, 1, algorithm)
    state.list = [{ key: pairFor(algorithm, 1).privateKey }, ...state.list]
    await app.tokenAuth.reloadKeys()
    const keys = createRemoteJWKSet(url)
    for (const token of [before, await issued(app)]) t.equal((await jwtVerify(token, keys, requirements)).payload.user_id, 1, algorithm)
  }
})

t.test('a pair that does not change is published, too; its tokens carry no kid', async (t) => {
  for (const algorithm of ['PS256', 'ES512', 'EdDSA'] as const) {
    const { publicKey } = pairFor(algorithm)
    const app = await build(t, together({ secret: undefined }, mistyped(keysFor(algorithm)), { pathToJwks: '/jwks', claimIss: 'https://auth.example', claimAud: 'https://api.example' }))
    const set: JSONWebKeySet = (await app.inject('/auth/jwks')).json()
    t.equal(set.keys[0]?.kid, await calculateJwkThumbprint(createPublicKey(publicKey).export({ format: 'jwk' })))
    const token = await issued(app)
    const { protectedHeader } = await jwtVerify(token, createLocalJWKSet(set))
    t.equal(protectedHeader.kid, undefined)
  }
})

t.test('it exists with authMode false, under urlPrefix and the prefix of the registration; without pathToJwks it does not', async (t) => {
  const app = host(t)
  const { publicKey } = edPair()
  await app.register(tokenAuth, { ...published, prefix: '/v1', urlPrefix: '/tokens', authMode: false, algorithm: 'EdDSA', publicKey })
  t.equal((await app.inject('/v1/tokens/jwks')).statusCode, 200)
  const without = await build(t)
  t.equal((await without.inject('/auth/jwks')).statusCode, 404)
})

t.test('pathToJwks without a public key is E16: secrets, keys that are computed, and a reload that removes the last pair', async (t) => {
  warnings(t, 'W17')
  const wrong: object[] = [
    {}, { secret: undefined, keys: [{ key: secret }] }, { secret: undefined, authMode: false, algorithm: 'EdDSA', keys: [{ key: edPair().publicKey, verifyUntil: '2020-01-01T00:00:00Z' }] }, { secret: undefined, algorithm: 'EdDSA', authMode: false, getPublicKey: () => edPair().publicKey }, { secret: undefined, getSecret: () => secret }
  ]
  for (const options of wrong) t.match(await refusal(t, { ...published, ...options }), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E16' })
  const { state, load } = source([{ key: secret, algorithm: 'HS256' }, { key: edPair().publicKey }])
  const app = await withKeys(t, load, { ...published, algorithm: 'EdDSA' })
  state.list = [{ key: secret, algorithm: 'HS256' }, { key: otherSecret, algorithm: 'HS256' }]
  await t.rejects(app.tokenAuth.reloadKeys(), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E16' })
  t.equal((await app.inject('/auth/jwks')).json().keys.length, 1)
})

t.test('published keys without an issuer or an audience are a warning (W16)', async (t) => {
  const codes = warnings(t, 'W16')
  const { publicKey, privateKey } = edPair()
  const warned = async (options: Partial<TokenAuthOptions>) => {
    const app = await build(t, together({ secret: undefined, algorithm: 'EdDSA', publicKey, privateKey, pathToJwks: '/jwks' }, options))
    await app.close()
    await settled()
    return codes.splice(0)
  }
  for (const options of [{}, { claimIss: 'a' }, { claimAud: 'a' }, { claimIss: 'a', getClaimIss: () => 'a' }]) t.same(await warned(options), ['TOKEN_AUTH_W16'])
  for (const options of [{ claimIss: 'a', claimAud: 'b' }, { getClaimIss: () => 'a', claimAud: 'b' }, { pathToJwks: null }]) t.same(await warned(options), [])
})

t.test('it is documented without security', async (t) => {
  const app = host(t)
  await app.register(fastifySwagger, { openapi: {} })
  await app.register(tokenAuth, together(published, { authenticate, algorithm: 'EdDSA', keys: [{ key: edPair().privateKey }] }))
  await app.ready()
  const document = JSON.parse(JSON.stringify(app.swagger()))
  t.same(Object.keys(document.paths['/auth/jwks']), ['get'])
  const { get } = document.paths['/auth/jwks']
  t.same(get.security, [])
  t.same(Object.keys(get.responses['200'].content), ['application/jwk-set+json'])
  t.ok((await new Validator().validate(document)).valid)
})

t.test('the token of a request that asks for the keys is not looked at', async (t) => {
  const app = await withKeys(t, [{ key: edPair().privateKey }], { ...published, algorithm: 'EdDSA' })
  for (const authorization of ['Bearer nonsense', `Bearer ${valid('EdDSA')}`]) t.equal((await app.inject({ url: '/auth/jwks', headers: { authorization } })).statusCode, 200)
})
