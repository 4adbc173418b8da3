/** Keys that change over time, as applications and clients see them. */
import { createHash, createHmac, createPrivateKey, createPublicKey } from 'node:crypto'
import { importJWK, jwtVerify, calculateJwkThumbprint } from 'jose'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { get, iso, issued, noon, overlap, signs, source, states, withKeys } from '../keys/ring.ts'
import {
  algorithms, bearer, claims, ecPair, edPair, environment, forge, headerOf, keysFor, login, mistyped, now, otherSecret, pairFor, payloadOf, refreshStore, rsaPair, secret, setClock, signature, warnings
} from '../helper.ts'
import { InvalidToken, type Algorithm, type SigningKey } from '../../lib/index.ts'

const keyOf = (algorithm: Algorithm) => { const keys = keysFor(algorithm); return 'secret' in keys ? keys.secret : keys.privateKey }
const jwkOf = (algorithm: Algorithm) => createPublicKey(pairFor(algorithm).publicKey).export({ format: 'jwk' })

// Promise: specification/keys-2
t.test('a ring of each algorithm signs and verifies, its tokens name their key, and jose agrees', async (t) => {
  for (const algorithm of algorithms) {
    const app = await withKeys(t, [{ key: keyOf(algorithm) }], { algorithm })
    const token = await issued(app)
    t.equal(await get(app, token), 200, algorithm)
    const isSecret = algorithm.startsWith('HS')
    const kid = isSecret ? createHmac('sha256', secret).update('kid').digest('base64url').slice(0, 22) : await calculateJwkThumbprint(jwkOf(algorithm))
    t.same(headerOf(token), { alg: algorithm, typ: 'JWT', kid })
    const key = isSecret ? Buffer.from(secret) : await importJWK(jwkOf(algorithm), algorithm)
    await jwtVerify(token, key, { algorithms: [algorithm] })
    t.equal(app.tokenAuth.verifyToken(token).user_id, 1)
  }
})

t.test('the id of a secret is no hash of it', async (t) => {
  const app = await withKeys(t, [{ key: secret }])
  const kid = String(await signs(app))
  t.equal(kid.length, 22)
  for (const hash of ['sha256', 'sha384', 'sha512']) t.notOk(createHash(hash).update(secret).digest('base64url').startsWith(kid))
})

t.test('the kid of an entry, then that of its JWK, is the id; the algorithm is that of the entry, of the JWK, or of the setting', async (t) => {
  warnings(t, 'W17')
  const jwk = { ...jwkOf('ES256'), kid: 'of the JWK'.replaceAll(' ', '-'), alg: 'ES256' }
  const app = await withKeys(t, [{ key: secret, kid: 'own' }, { key: jwk }, { key: jwkOf('EdDSA'), algorithm: 'EdDSA', kid: 'ed' }, { key: { ...jwk, alg: undefined }, kid: 'other', algorithm: 'ES256' }])
  t.same(app.tokenAuth.keyStatus().keys.map(({ kid, algorithm }) => [kid, algorithm]), [['own', 'HS256'], ['of-the-JWK', 'ES256'], ['ed', 'EdDSA'], ['other', 'ES256']])
})

t.test('keys of any form are keys of a ring: files, encrypted PEM, KeyObjects, JWKs', async (t) => {
  const key = createPublicKey(edPair().publicKey)
  const token = forge(claims(), { algorithm: 'EdDSA', key: edPair().privateKey })
  for (const form of [key, { ...key.export({ format: 'jwk' }) }, Buffer.from(edPair().publicKey)]) {
    const app = await withKeys(t, [{ key: form }], { algorithm: 'EdDSA', authMode: false })
    t.equal(await get(app, token), 200)
  }
  const encrypted = createPrivateKey(edPair().privateKey).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }).toString()
  for (const form of [{ pem: encrypted, passphrase: 'x' }, createPrivateKey(edPair().privateKey), createPrivateKey(edPair().privateKey).export({ format: 'jwk' })]) {
    t.equal(await get(await withKeys(t, [{ key: form }], { algorithm: 'EdDSA' }), token), 200)
  }
  for (const form of [{ kty: 'oct', k: Buffer.from(secret).toString('base64url'), key_ops: ['sign', 'verify'] }, Buffer.from(secret)]) t.equal(await get(await withKeys(t, [{ key: form }]), forge(claims())), 200)
})

t.test('of undated keys, the first signs and all verify', async (t) => {
  const app = await withKeys(t, [{ key: otherSecret, kid: 'new' }, { key: secret, kid: 'old' }])
  t.equal(await signs(app), 'new')
  t.equal(await get(app, forge(claims(), { header: { kid: 'old' } })), 200)
  t.equal(await get(app, forge(claims(), { header: { kid: 'new' } })), 401, 'with the key that its kid names, and no other')
})

// Promise: keys/valid-token-refused
t.test('a dated key signs from its date on, to the millisecond; it verifies before', async (t) => {
  const setTime = setClock(t, noon)
  const app = await withKeys(t, [{ key: secret, kid: 'old', verifyUntil: iso(noon + 60 + overlap) }, { key: otherSecret, kid: 'new', signFrom: iso(noon + 60) }])
  t.same(states(app), { old: 'signing', new: 'next' })
  t.equal(await get(app, forge(claims(), { key: otherSecret, header: { kid: 'new' } })), 200)
  setTime(noon + 59.999)
  t.equal(await signs(app), 'old')
  const last = await issued(app)
  setTime(noon + 60)
  t.equal(await signs(app), 'new')
  t.same(states(app), { old: 'verifying', new: 'signing' })
  t.equal(await get(app, last), 200)
})

// Promise: keys/token-refused-when
t.test('a remembered token dies with its key, to the millisecond', async (t) => {
  const setTime = setClock(t, noon)
  for (const tokenCacheSize of [1000, 0]) {
    setTime(noon)
    const app = await withKeys(t, [{ key: secret, kid: 'old', verifyUntil: iso(noon + 60 + overlap) }, { key: otherSecret, kid: 'new', signFrom: iso(noon + 60) }], { tokenCacheSize })
    const token = forge(claims({ exp: noon + 100_000 }), { header: { kid: 'old' } })
    t.equal(await get(app, token), 200)
    setTime(noon + 60 + overlap - 0.001)
    t.equal(await get(app, token), 200)
    setTime(noon + 60 + overlap)
    t.equal(await get(app, token), 401)
    t.same(states(app), { old: 'gone', new: 'signing' })
  }
})

// Promise: keys/change-secret-pair
t.test('an instance changes from a secret to a pair without a logout, and accepts tokens without kid of the undated key', async (t) => {
  warnings(t, 'W17')
  const setTime = setClock(t, noon)
  const before = forge(claims())
  const keys: SigningKey[] = [{ key: secret, algorithm: 'HS256', kid: 'old', verifyUntil: iso(noon + 60 + overlap) }, { key: edPair().privateKey, signFrom: iso(noon + 60) }]
  const app = await withKeys(t, keys, { algorithm: 'EdDSA' })
  t.equal(await get(app, before), 200)
  const token = await issued(app)
  t.match(headerOf(token), { alg: 'HS256', kid: 'old' })
  setTime(noon + 60)
  t.match(headerOf(await issued(app)), { alg: 'EdDSA' })
  t.equal(await get(app, token), 200)
  t.equal(await get(app, before), 200)
  t.equal(await get(app, forge(claims(), { algorithm: 'EdDSA', key: edPair().privateKey })), 401, 'a dated key accepts no token without kid')
})

t.test('an instance without keys accepts the tokens of a ring, and ignores their kid', async (t) => {
  const app = await withKeys(t, [{ key: secret }])
  const old = await withKeys(t, mistyped(undefined), { secret })
  t.equal(await get(old, await issued(app)), 200)
  t.equal(headerOf(await issued(old)).kid, undefined)
  t.equal(await get(app, await issued(old)), 200)
  t.same(old.tokenAuth.keyStatus(), { keys: [], issuers: [] })
})

t.test('tokens without kid are tried with all undated keys of their algorithm, in any place of the list', async (t) => {
  const third = `${secret} 3`
  const app = await withKeys(t, [{ key: secret }, { key: otherSecret }, { key: third, signFrom: iso(now() + 3600) }])
  t.equal(await get(app, forge(claims())), 200)
  t.equal(await get(app, forge(claims(), { key: otherSecret })), 200)
  t.equal(await get(app, forge(claims(), { key: third })), 401)
  t.equal(await get(app, forge(claims(), { algorithm: 'HS512' })), 401, 'another algorithm')
})

// Promise: keys/kid-token-looked
t.test('a hostile kid finds no key: 401, and nothing of it is answered', async (t) => {
  const app = await withKeys(t, [{ key: secret, kid: 'good' }], { debug: true })
  const hostile = [null, 5, true, [], ['good'], {}, '', 'x'.repeat(257), 'x'.repeat(5000), '__proto__', 'constructor', 'toString', '../../etc/passwd', "' OR 1=1 --", 'GOOD', 'good ', 'gооd']
  for (const kid of hostile) {
    const answer = await app.inject({ url: '/', headers: bearer(forge(claims(), { header: { kid } })) })
    t.equal(answer.statusCode, 401, JSON.stringify(kid)?.slice(0, 40))
    if (typeof kid === 'string' && kid.length > 6) t.notOk(answer.body.includes(kid))
  }
  t.equal(await get(app, forge(claims(), { header: { kid: 'good' } })), 200)
})

/** Why a token is refused, in words for developers. */
function reasonOf (app: FastifyInstance, token: string): unknown {
  try {
    return app.tokenAuth.verifyToken(token)
  } catch (error) {
    return error instanceof InvalidToken ? error.reason : error
  }
}

t.test('a kid that can be no kid is told from one that no key has', async (t) => {
  const longest = 'x'.repeat(256)
  const app = await withKeys(t, [{ key: secret, kid: 'good' }, { key: otherSecret, kid: longest }])
  t.equal(await get(app, forge(claims(), { key: otherSecret, header: { kid: longest } })), 200)
  for (const kid of [null, 5, true, [], ['good'], {}, { length: 1 }, '', 'x'.repeat(257)]) t.equal(reasonOf(app, forge(claims(), { header: { kid } })), 'the header is not acceptable')
  for (const alg of [5, ['HS256'], null, undefined]) t.equal(reasonOf(app, forge(claims(), { header: { alg } })), 'the header is not acceptable')
  for (const kid of ['unknown', '__proto__', 'y'.repeat(256)]) t.equal(reasonOf(app, forge(claims(), { header: { kid } })), 'no key of this instance has its "kid" and "alg", or the key is retired')
  t.equal(reasonOf(app, forge(claims(), { key: otherSecret, header: { kid: 'good' } })), 'the signature, algorithm or form is wrong')
  t.equal(reasonOf(app, forge(claims(), { key: 'of nobody, and of more than thirty-two bytes' })), 'the signature, algorithm or form is wrong')
})

t.test('a header that is no header is refused: no JSON, a list, no alg, an alg that is no text', async (t) => {
  const app = await withKeys(t, [{ key: secret }])
  for (const header of ['nonsense', '[]', '"HS256"', 'null', '{}', '{"alg":5}', '{"alg":"none"}', '{"alg":["HS256"]}', '{"alg":"HS256","crit":["x"]}', '{"alg":"HS256","typ":"other"}']) {
    const input = `${Buffer.from(header).toString('base64url')}.${Buffer.from(JSON.stringify(claims())).toString('base64url')}`
    t.equal(await get(app, `${input}.${signature(input, 'HS256', secret)}`), 401, header)
  }
  t.equal(await get(app, 'a.b'), 401)
})

t.test('a member of a polluted Object.prototype is no kid and no alg', async (t) => {
  const app = await withKeys(t, [{ key: secret, kid: 'good', signFrom: iso(now() - 60) }])
  Object.assign(Object.prototype, { kid: 'good' })
  const status = await get(app, forge(claims())).finally(() => { Reflect.deleteProperty(Object.prototype, 'kid') })
  t.equal(status, 401)
})

t.test('of a kid that occurs twice in a header, the last one counts, as everywhere', async (t) => {
  const app = await withKeys(t, [{ key: secret, kid: 'a' }, { key: otherSecret, kid: 'b' }])
  const input = (first: string, second: string) => `${Buffer.from(`{"alg":"HS256","kid":"${first}","kid":"${second}"}`).toString('base64url')}.${Buffer.from(JSON.stringify(claims())).toString('base64url')}`
  const token = (first: string, second: string) => `${input(first, second)}.${signature(input(first, second), 'HS256', secret)}`
  t.equal(await get(app, token('b', 'a')), 200)
  t.equal(await get(app, token('a', 'b')), 401)
})

// Promise: keys/kid-token-looked
t.test('a known kid with another algorithm is refused: a public key is no secret, and RS256 is not PS256', async (t) => {
  warnings(t, 'W17')
  const rsa = rsaPair()
  const app = await withKeys(t, [{ key: secret, kid: 's' }, { key: rsa.publicKey, algorithm: 'RS256', kid: 'r' }, { key: ecPair('prime256v1').publicKey, algorithm: 'ES256', kid: 'e' }])
  t.equal(await get(app, forge(claims(), { algorithm: 'RS256', key: rsa.privateKey, header: { kid: 'r' } })), 200)
  const refused = [
    forge(claims(), { algorithm: 'PS256', key: rsa.privateKey, header: { kid: 'r' } }), forge(claims(), { key: rsa.publicKey, header: { kid: 'r' } }),
    forge(claims(), { key: rsa.publicKey, header: { kid: 's' } }), forge(claims(), { key: rsa.publicKey }), forge(claims(), { header: { kid: 'r' } }), forge(claims(), { algorithm: 'HS512', header: { kid: 's' } })
  ]
  for (const token of refused) t.equal(await get(app, token), 401)
})

// Promise: keys/change-secret-pair
t.test('a refresh in the specification\'s own mode accepts the expired token of a retired key, and of no other', async (t) => {
  const setTime = setClock(t, noon)
  const { stored, ...handlers } = refreshStore()
  for (const tokenCacheSize of [1000, 0]) {
    setTime(noon)
    const app = await withKeys(t, [{ key: secret, kid: 'old', verifyUntil: iso(noon + 60 + overlap) }, { key: otherSecret, kid: 'new', signFrom: iso(noon + 60) }], { ...handlers, tokenCacheSize })
    const { access_token: token, refresh_token: refreshToken } = (await login(app)).json()
    t.equal(stored.get(1), refreshToken)
    const refresh = async (sent: string) => await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(sent), payload: { refresh_token: refreshToken } })
    t.equal(await get(app, token), 200, 'it is remembered')
    setTime(noon + 1_000_000)
    t.equal(await get(app, token), 401)
    const next = await refresh(token)
    t.equal(next.statusCode, 200)
    t.equal(headerOf(next.json().access_token).kid, 'new')
    t.equal((await refresh(forge(payloadOf(token), { header: { kid: 'gone' } }))).statusCode, 401)
  }
})

// Promise: keys/token-outlives-key
t.test('a token whose exp lies beyond verifyUntil of its key is not signed', async (t) => {
  setClock(t, noon)
  const until = noon + 60 + overlap
  let exp = until
  const app = await withKeys(t, [{ key: secret, verifyUntil: iso(until) }, { key: otherSecret, signFrom: iso(noon + 60) }], { extendPayload: (payload) => ({ ...payload, exp }) })
  t.equal((await login(app)).statusCode, 200)
  exp = until + 1
  t.match((await login(app)).json(), { exception: 'MissingRegisteredClaim' })
})

t.test('claimIat is that of the settings, also where it is computed', async (t) => {
  for (const options of [{ claimIat: true }, { getClaimIat: () => true }]) t.ok(payloadOf(await issued(await withKeys(t, [{ key: secret }], options))).iat)
  t.notOk(payloadOf(await issued(await withKeys(t, [{ key: secret }]))).iat)
})

t.test('an instance that only verifies has public keys, and signs where it has another', async (t) => {
  const app = await withKeys(t, [{ key: edPair().publicKey }], { algorithm: 'EdDSA', authMode: false })
  t.equal(await get(app, forge(claims(), { algorithm: 'EdDSA', key: edPair().privateKey })), 200)
  await t.rejects(app.tokenAuth.generateAccessToken({ user_id: 1 }), { name: 'RequiredKeysNotFound', message: /^No key of "keys" signs now/ })
  const both = await withKeys(t, [{ key: edPair().privateKey }], { algorithm: 'EdDSA', authMode: false })
  t.equal(await get(both, await both.tokenAuth.generateAccessToken({ user_id: 1 })), 200)
})

t.test('a guard shares the remembered tokens of the registration, unless it overrides their number', async (t) => {
  const app = await withKeys(t, [{ key: secret }])
  app.get('/own', { onRequest: app.tokenAuth.protect({ tokenCacheSize: 0, leeway: 60 }) }, async () => 'reached')
  const token = await issued(app)
  t.equal((await app.inject({ url: '/own', headers: bearer(token) })).statusCode, 200)
  t.equal(await get(app, token), 200)
})

// Promise: keys/valid-token-refused
t.test('a guard may not override keys (E11), nor accept tokens beyond the end of their key (E14); a reload keeps to its leeway', async (t) => {
  setClock(t, noon)
  const end = noon + 60 + overlap
  const { state, load } = source([{ key: secret, kid: 'old', verifyUntil: iso(end + 60) }, { key: otherSecret, kid: 'new', signFrom: iso(noon + 60) }])
  const { tokenAuth: auth } = await withKeys(t, load)
  for (const overrides of [{ secret }, { publicKey: secret }, { privateKey: secret }, { algorithm: 'HS256' }] as const) {
    t.throws(() => auth.protect(overrides), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E11' }, Object.keys(overrides).join())
  }
  for (const overrides of [{ leeway: 241 }, { verifyExp: false }]) t.throws(() => auth.protect(overrides), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E14' })
  auth.protect({ leeway: 0, claimAud: null })
  state.list = [{ key: secret, kid: 'old', verifyUntil: iso(end) }, { key: otherSecret, kid: 'new', signFrom: iso(noon + 60) }]
  await auth.reloadKeys()
  state.list = [{ key: secret, kid: 'old', verifyUntil: iso(end + 60) }, { key: otherSecret, kid: 'new', signFrom: iso(noon + 60) }]
  await auth.reloadKeys()
  auth.protect({ leeway: 240 })
  auth.protect({ leeway: 0 })
  state.list = [{ key: secret, kid: 'old', verifyUntil: iso(end + 59) }, { key: otherSecret, kid: 'new', signFrom: iso(noon + 60) }]
  await t.rejects(auth.reloadKeys(), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E14' })
})

t.test('sessions go on over a change of keys, with a secret of their own (E24)', async (t) => {
  warnings(t)
  const setTime = setClock(t, noon)
  const keys: SigningKey[] = [{ key: secret, verifyUntil: iso(noon + 60 + overlap) }, { key: otherSecret, kid: 'new', signFrom: iso(noon + 60) }]
  await t.rejects(withKeys(t, keys, { sessions: {} }), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E24' })
  const app = await withKeys(t, keys, { sessions: { secret: 'a secret of sessions, of 32 bytes' } })
  const { refresh_token: refreshToken } = (await login(app)).json()
  setTime(noon + 10_000)
  const answer = await app.inject({ method: 'POST', url: '/auth/refresh', payload: { refresh_token: refreshToken } })
  t.equal(answer.statusCode, 200)
  t.equal(headerOf(answer.json().access_token).kid, 'new')
  t.equal(await get(app, answer.json().access_token), 200)
})

t.test('a default secret is not made where there are keys, not even in production', async (t) => {
  environment(t, 'production')
  t.equal(await get(await withKeys(t, [{ key: secret }]), forge(claims())), 200)
})

t.test('a short secret of a ring warns as any other (W02)', async (t) => {
  const codes = warnings(t, 'W02')
  await withKeys(t, [{ key: otherSecret }, { key: 'x'.repeat(31) }])
  await new Promise((resolve) => setImmediate(resolve))
  t.same(codes, ['TOKEN_AUTH_W02'])
})

t.test('options are read once, and what the application does to its list later changes nothing', async (t) => {
  const entry: SigningKey = { key: secret, kid: 'a' }
  const list = [entry]
  const app = await withKeys(t, list)
  Object.assign(entry, { key: otherSecret, kid: 'b' })
  list.push({ key: otherSecret, kid: 'c' })
  t.equal(await signs(app), 'a')
  t.same(Object.keys(states(app)), ['a'])
})
