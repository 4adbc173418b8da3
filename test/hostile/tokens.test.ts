// @slow
import assert from 'node:assert/strict'
import { createHash, createHmac, createPrivateKey, createPublicKey, createSecretKey, generateKeyPairSync, privateEncrypt, sign as signBytes, constants, type KeyObject } from 'node:crypto'
import dgram from 'node:dgram'
import dns from 'node:dns'
import { connect, Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import fastifyCookie from '@fastify/cookie'
import fc from 'fast-check'
import type { FastifyInstance } from 'fastify'
import { jwtVerify } from 'jose'
import t from 'tap'
import tokenAuth, { type Algorithm, type TokenAuthOptions } from '../../lib/index.ts'
import { algorithms, alphabet, authenticate, bearer, build, caseOf, claims, ecPair, forge, host, keysFor, mistyped, now, otherSecret, refreshStore, rsaPair, secret, setClock, signature, signingKey, valid, verifying, warnings } from '../helper.ts'

// Secrets of standards and advisories are known to everybody.
warnings(t, 'W02', 'W05')

const encode = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

const rsa = rsaPair()
const pkcs1 = createPublicKey(rsa.publicKey).export({ type: 'pkcs1', format: 'pem' }).toString()
const commented = `# the key of the issuer\n${rsa.publicKey}`
const attacker = rsaPair(2048, 1)
const rsJwk = createPublicKey(attacker.publicKey).export({ format: 'jwk' })
const unsigned = (header: Record<string, unknown>, payload: unknown = claims()) => `${encode(header)}.${encode(payload)}.`

/** A token that an advisory is about, and the settings of the verifier that it fooled. */
const advisories: [advisory: string, algorithm: Algorithm, token: () => string, options?: Partial<TokenAuthOptions>][] = [
  ['jsonwebtoken CVE-2015-9235, fast-jwt CVE-2023-48223: the public key in PEM as an HMAC secret', 'RS256', () => forge(claims(), { key: rsa.publicKey })],
  ['fast-jwt CVE-2023-48223, PyJWT CVE-2017-11424: the public key in the older PEM form as an HMAC secret', 'RS256', () => forge(claims(), { key: pkcs1 })],
  ['fast-jwt CVE-2026-34950: the public key after white space as an HMAC secret', 'RS256', () => forge(claims(), { key: `\n ${rsa.publicKey}` })],
  ['fast-jwt GHSA-ww5h-9m49-7xx4: the public key after a comment as an HMAC secret, which the setting has too', 'RS256', () => forge(claims(), { key: commented }), mistyped({ publicKey: commented })],
  ['fast-jwt GHSA-ww5h-9m49-7xx4: the same, signed with the key alone', 'RS256', () => forge(claims(), { key: rsa.publicKey }), mistyped({ publicKey: commented })],
  ['fast-jwt GHSA-8wpc-h4q6-8fxv: a token without a signature where an algorithm was set', 'RS256', () => unsigned({ alg: 'RS256', typ: 'JWT' })],
  ['the public key as an HMAC secret under the algorithm of the instance by name', 'RS256', () => forge(claims(), { key: rsa.publicKey, header: { alg: 'RS256' } })],
  ['an elliptic public key as an HMAC secret', 'ES256', () => forge(claims(), { key: ecPair('prime256v1').publicKey })],
  ['jsonwebtoken CVE-2022-23540: alg none with an empty signature', 'HS256', () => unsigned({ alg: 'none', typ: 'JWT' })],
  ['alg none in other spellings', 'HS256', () => unsigned({ alg: 'nOnE', typ: 'JWT' })],
  ['alg none with a signature of the right key', 'HS256', () => forge(claims(), { header: { alg: 'none' } })],
  ['no alg at all', 'HS256', () => forge(claims(), { header: { alg: undefined } })],
  ['alg of the right name and an empty signature', 'HS256', () => unsigned({ alg: 'HS256', typ: 'JWT' })],
  ['@fastify/jwt: the allow-list is not taken from the header', 'HS256', () => forge(claims(), { algorithm: 'HS512' })],
  ['@fastify/jwt: another algorithm of the same key', 'PS256', () => forge(claims(), { algorithm: 'RS256', key: rsa.privateKey })],
  ['node-jose CVE-2018-0114: a key embedded as jwk', 'RS256', () => forge(claims(), { algorithm: 'RS256', key: attacker.privateKey, header: { jwk: rsJwk } })],
  ['a key behind jku or x5u', 'RS256', () => forge(claims(), { algorithm: 'RS256', key: attacker.privateKey, header: { jku: 'http://127.0.0.1:9/jwks', x5u: 'http://127.0.0.1:9/x5u' } })],
  ['a kid that is a path or an injection', 'HS256', () => forge(claims(), { key: otherSecret, header: { kid: "../../dev/null' UNION SELECT 'x" } })],
  ['Java CVE-2022-21449: r = s = 0', 'ES256', () => `${encode({ alg: 'ES256', typ: 'JWT' })}.${encode(claims())}.${Buffer.alloc(64).toString('base64url')}`],
  ['fast-jwt CVE-2026-35042, PyJWT CVE-2026-32597: crit is not ignored', 'HS256', () => forge(claims(), { header: { crit: ['x'], x: true } })],
  ['fast-jwt: crit that is falsy', 'HS256', () => forge(claims(), { header: { crit: null } })],
  ['b64 of RFC 7797', 'HS256', () => forge(claims(), { header: { crit: ['b64'], b64: false } })],
  ['fast-jwt CVE-2025-30144: iss is a list', 'HS256', () => forge(claims({ iss: ['attacker', 'us'] })), { claimIss: 'us' }],
  ['PyJWT CVE-2024-53861: iss is a part of the issuer', 'HS256', () => forge(claims({ iss: 'acme' })), { claimIss: 'acme.example' }],
  ['the issuer is a part of iss', 'HS256', () => forge(claims({ iss: 'acme.example.evil' })), { claimIss: 'acme.example' }],
  ['fast-jwt: iss is missing where it is checked', 'HS256', () => forge(claims()), { claimIss: 'us' }],
  ['fast-jwt: an issuer that reads like a pattern is none', 'HS256', () => forge(claims({ iss: 'aXb' })), { claimIss: 'a.b' }],
  ['aud is a list without us', 'HS256', () => forge(claims({ aud: ['them', 'u', 'us '] })), { claimAud: 'us' }],
  ['aud is an object that has us', 'HS256', () => forge(claims({ aud: { us: true, includes: 'us' } })), { claimAud: 'us' }],
  ['aud is a text that contains us', 'HS256', () => forge(claims({ aud: 'bus' })), { claimAud: 'us' }],
  ['fast-jwt: white space in base64url', 'HS256', () => forge(claims()).replace('.', ' .')],
  ['fast-jwt: padding in base64url', 'HS256', () => `${forge(claims())}=`],
  ['a nested token', 'HS256', () => forge(claims(), { header: { cty: 'JWT' } })],
  ['a token of another kind', 'HS256', () => forge(claims(), { header: { typ: 'dpop+jwt' } })],
  ['an encrypted token', 'HS256', () => `${encode({ alg: 'dir', enc: 'A128GCM' })}..${encode('iv')}.${encode('text')}.${encode('tag')}`]
]

// Promise: security/3-1-perform
// Promise: security/3-10-trust
// Promise: security/3-6-avoid
// Promise: security/3-8-validate
// Promise: security/3-9-use
// Promise: security/9-1-2
// Promise: security/9-1-3
// Promise: security/9-2-3
// Promise: security/fast-jwt-cve
// Promise: security/fast-jwt-cve-2025
// Promise: security/fast-jwt-cve-2026
// Promise: security/fast-jwt-missing
// Promise: security/fast-jwt-white
// Promise: security/fastify-jwt-allow
// Promise: security/following-published-weaknesses
// Promise: security/java-cve-2022
// Promise: security/jsonwebtoken-cve-2022-23540
// Promise: security/node-jose-cve
// Promise: security/pyjwt-cve-2024
// Promise: security/token-unsigned-signed
t.test('the token of every advisory is refused with 401', async (t) => {
  for (const [advisory, algorithm, token, options] of advisories) {
    const verify = await verifying(t, algorithm, options)
    assert.equal(verify(token()), 'refused', advisory)
    assert.equal(verify(token()), 'refused', `${advisory}, again`)
    assert.equal(verify(valid(algorithm, claims({ iss: options?.claimIss ?? 'x', aud: options?.claimAud ?? 'x' }))), 'accepted', `control: ${advisory}`)
  }
})

// Promise: security/9-1-3
// Promise: security/token-unsigned-signed
t.test('no token, whatever addresses it names, makes the process look up a name or open a connection', async (t) => {
  const opened: unknown[] = []
  for (const [object, name] of [[Socket.prototype, 'connect'], [dns, 'lookup'], [dns.promises, 'lookup'], [dgram.Socket.prototype, 'send']] as const) {
    const original: unknown = Reflect.get(object, name)
    Reflect.set(object, name, (...given: unknown[]) => { opened.push(given) })
    t.teardown(() => { Reflect.set(object, name, original) })
  }
  connect(9, '127.0.0.1')
  t.equal(opened.splice(0).length, 1, 'control: one that is opened is seen')
  const address = 'http://keys.example/'
  const hints = { jku: address, x5u: address, kid: address, iss: address, jwk: { ...rsJwk, x5u: address }, x5c: [address], url: address }
  for (const algorithm of algorithms) {
    const verify = await verifying(t, algorithm)
    const made = (header: object, key: string) => forge(claims({ iss: address, aud: address, jku: address }), { algorithm, key, header: { ...header } })
    assert.equal(verify(made(hints, signingKey(algorithm))), 'accepted', `${algorithm}: hints are ignored`)
    assert.equal(verify(made({ ...hints, alg: 'none' }, signingKey(algorithm))), 'refused', algorithm)
    if (algorithm.startsWith('RS')) assert.equal(verify(made(hints, attacker.privateKey)), 'refused', `${algorithm}: signed by the key that the hints lead to`)
    await setImmediate()
  }
  t.same(opened, [])
})

// Promise: security/3-2-use
// Promise: security/fast-jwt-cve-2026-35041
// Promise: security/jsonwebtoken-cve-2022-23529
t.test('an advisory about settings is an error at registration: patterns, lists, objects with toString, empty keys', async (t) => {
  const options: object[] = [
    { claimIss: /^(a+)+$/ }, { claimAud: /x/g }, { claimIss: ['us'] }, { claimAud: [] }, { algorithm: ['HS256'] }, { algorithm: 'none' }, { algorithm: 'hs256' }, { algorithm: '' },
    { secret: { toString: () => secret } }, { secret: null }, { secret: '' }, { secret: [] }, { secret: async () => secret }
  ]
  for (const given of options) {
    const app = host(t)
    await t.rejects(async () => { await app.register(tokenAuth, mistyped({ secret, authenticate, ...given })) }, { name: 'InvalidConfiguration' }, Object.keys(given).join())
  }
})

// Promise: security/fast-jwt-cve-2026-44351
t.test('fast-jwt: a key that a resolver gives empty verifies nothing, and a failing resolver is not remembered', async (t) => {
  let given: unknown = ''
  const app = await build(t, { getSecret: async () => mistyped(given) })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const ask = async (token: string) => (await app.inject({ url: '/', headers: bearer(token) })).statusCode
  const emptyKey = (() => {
    const input = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims())}`
    return `${input}.${createHmac('sha256', '').update(input).digest('base64url')}`
  })()
  for (const key of ['', undefined, null, Buffer.alloc(0)]) {
    given = key
    assert.equal(await ask(emptyKey), 500, caseOf(key))
  }
  given = secret
  t.equal(await ask(forge(claims())), 200)
  t.equal(await ask(emptyKey), 401)
  given = otherSecret
  t.equal(await ask(forge(claims())), 401, 'a key that was taken away verifies nothing more')
})

// Promise: security/fast-jwt-cve-2026-35039
// Promise: security/remembered-token-outlives
t.test('fast-jwt: tokens with the same signature, end, header or payload are not taken for each other by what is remembered', async (t) => {
  for (const algorithm of ['HS256', 'RS256', 'ES256'] as const) {
    const verify = await verifying(t, algorithm)
    const [a, b] = [valid(algorithm, claims({ user_id: 'a' })), valid(algorithm, claims({ user_id: 'b' }))]
    assert.deepEqual([verify(a), verify(b), verify(a)], ['accepted', 'accepted', 'accepted'], algorithm)
    const [[header = '', payloadA = '', signatureA = ''], [, payloadB = '', signatureB = '']] = [a.split('.'), b.split('.')]
    const otherHeader = encode({ typ: 'JWT', alg: algorithm })
    const mixed = [
      `${header}.${payloadB}.${signatureA}`, `${header}.${payloadA}.${signatureB}`, `${otherHeader}.${payloadA}.${signatureA}`,
      `${header}.${payloadA}.${signatureA.slice(0, -43)}${signatureB.slice(-43)}`, `${header}.${payloadA}.x${signatureA.slice(1)}`
    ]
    for (const token of mixed) if (token !== a && token !== b) assert.equal(verify(token), 'refused', algorithm)
  }
})

// Promise: security/fastify-cookie-signed
t.test('@fastify/cookie: the options with which a host signs or scopes its own cookies neither sign nor free ours', async (t) => {
  for (const parseOptions of [{}, { signed: true, domain: 'evil.example', httpOnly: false, secure: false, expires: new Date(0), sameSite: 'none' as const }]) {
    const app = host(t)
    await app.register(fastifyCookie, { secret: 'a secret for the cookies of the host', parseOptions })
    await app.register(tokenAuth, { secret, authenticate, cookieSet: true })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => request.tokenAuth.userId)
    const login = await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } })
    const setCookie = String(login.headers['set-cookie'])
    assert.equal(setCookie, `access_token=${login.json().access_token}; Path=/; HttpOnly; Secure; SameSite=Lax`, caseOf(parseOptions))
    const get = async (value: string) => (await app.inject({ url: '/', headers: { cookie: `access_token=${value}` } })).statusCode
    assert.equal(await get(login.json().access_token), 200, caseOf(parseOptions))
    // A signature of the host's cookie plugin makes no token, and a token needs none.
    assert.equal(await get(app.signCookie('1')), 401, caseOf(parseOptions))
    assert.equal(await get(app.signCookie(forge(claims(), { key: otherSecret }))), 401, caseOf(parseOptions))
    assert.equal(await get(`"${forge(claims())}"`), 401, caseOf(parseOptions))
  }
})

// Promise: security/fastify-jwt-unmapped
// Promise: security/token-unsigned-signed
t.test('every error of fast-jwt is one 401, on every guard, and a 400 of the verify endpoint', async (t) => {
  const tokens = [
    ...advisories.filter(([, algorithm, , options]) => algorithm === 'HS256' && options === undefined).map(([, , token]) => token()),
    forge([1]), forge('text'), forge(null), forge(1), forge(claims({ exp: 'soon' })), forge(claims({ exp: Number.MAX_VALUE })), forge(claims({ exp: now() - 999 })), forge(claims({ nbf: now() + 999 })),
    forge(claims({ exp: 8.64e15 })), 'a', 'a.b', 'a.b.c', '..', '.', 'a.b.c.d', 'null.null.null', forge(claims()).slice(0, -1), forge(claims()).slice(1)
  ]
  const app = await build(t)
  for (const [url, guard] of [['/protect', app.tokenAuth.protect()], ['/scoped', app.tokenAuth.scoped('a')]] as const) app.get(url, { onRequest: guard }, async () => 'reached')
  app.get('/inject', app.tokenAuth.injectUser(async () => 'reached'))
  for (const token of tokens) {
    for (const url of ['/protect', '/scoped', '/inject', '/auth/me']) {
      const { statusCode, payload, headers } = await app.inject({ url, headers: bearer(token) })
      assert.equal(statusCode, 401, `${url} ${token.slice(0, 60)}`)
      assert.match(String(headers['www-authenticate']), /^Bearer realm="token-auth", error="invalid_token"/, caseOf(token, url))
      if (token.length > 20) t.notMatch(payload, token.split('.').at(-1)?.slice(0, 20) || token)
    }
    const { statusCode, payload } = await app.inject({ url: '/auth/verify', headers: bearer(token) })
    assert.equal(statusCode, 400, token)
    t.match(JSON.parse(payload), { valid: false, reason: /^(?:Token is invalid\.|Token has an invalid claim\.|Token is not active yet\.|Signature has expired)$/ }, 'one phrase for each kind')
  }
})

/** A way to bring a value to the service, and what may come back of it where it is not good. */
type Door = (app: FastifyInstance, value: string) => Promise<{ statusCode: number, payload: string }>

const inHeader = (text: string) => text.replace(/[^\x20-\x7e\x80-\xff]/g, '')
const doors: Record<string, [door: Door, allowed: readonly number[]]> = {
  'the header': [(app, value) => app.inject({ url: '/', headers: bearer(inHeader(value)) }), [401]],
  'the header without its scheme': [(app, value) => app.inject({ url: '/', headers: { authorization: inHeader(value) } }), [401]],
  'the cookie': [(app, value) => app.inject({ url: '/', headers: { cookie: `access_token=${inHeader(value)}` } }), [401]],
  'the whole cookie header': [(app, value) => app.inject({ url: '/', headers: { cookie: inHeader(value) } }), [401]],
  'the query string': [(app, value) => app.inject({ url: `/?access_token=${encodeURIComponent(value)}` }), [401]],
  'the query string, not encoded': [(app, value) => app.inject({ url: `/?access_token=${value.replace(/[^!-~]/g, '')}` }), [401]],
  'the verify endpoint': [(app, value) => app.inject({ url: '/auth/verify', headers: bearer(inHeader(value)) }), [400]],
  'the refresh endpoint, as an access token': [(app, value) => app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(inHeader(value)), payload: { refresh_token: 'r' } }), [401]],
  'the refresh endpoint, as a refresh token': [(app, value) => app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(forge(claims())), payload: { refresh_token: value } }), [400, 401, 413]],
  'the refresh endpoint, as a cookie': [(app, value) => app.inject({ method: 'POST', url: '/auth/refresh', headers: { ...bearer(forge(claims())), cookie: `refresh_token=${inHeader(value)}` }, payload: {} }), [400, 401]],
  'a body of refresh': [(app, value) => app.inject({ method: 'POST', url: '/auth/refresh', headers: { ...bearer(forge(claims())), 'content-type': 'application/json' }, payload: value }), [400, 401, 413]],
  'a body of authenticate': [(app, value) => app.inject({ method: 'POST', url: '/auth', headers: { 'content-type': 'application/json' }, payload: value }), [400, 401, 413]],
  'a type of content': [(app, value) => app.inject({ method: 'POST', url: '/auth', headers: { 'content-type': inHeader(value) || 'x' }, payload: '{}' }), [400, 401, 415]],
  'a password': [(app, value) => app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: value } }), [401, 413]]
}

const bytes = fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array).toString('latin1'))
const json = fc.json({ maxDepth: 4 })
const poison = fc.constantFrom('null', '[]', '"x"', '1', 'true', '{}', '', '{"__proto__":{"a":1}}', '{"constructor":{"prototype":{"a":1}}}', '{"refresh_token":null}', '{"refresh_token":["refresh"]}', '{"refresh_token":{"toString":"refresh"}}', '[['.repeat(500), `{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`, '\uFEFF{}', '{"a":1}{', 'NaN', '%', '%00', '%E0%A4%A')
const segment = fc.oneof(bytes.map(encode), json.map(encode), fc.constant(encode({ alg: 'HS256', typ: 'JWT' })), fc.constant(encode(claims())), fc.base64String())
const segments = fc.array(segment, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('.'))
const anything = fc.oneof(bytes, json, poison, segments, fc.string({ unit: 'binary' }))

// Promise: security/malformed-oversized-bodies
// Promise: security/random-bytes-json
t.test('random bytes, JSON and segments at every door give a refusal, never a 5xx, never an acceptance', async (t) => {
  const { stored, ...store } = refreshStore()
  stored.set(1, 'refresh')
  const app = await build(t, { ...store, cookieSet: true, cookieStrict: false, queryStringSet: true, queryStringStrict: false })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  for (const [name, [door, allowed]] of Object.entries(doors)) {
    const outcomes = new Set<number>()
    await fc.assert(fc.asyncProperty(anything, async (value) => {
      const { statusCode, payload } = await door(app, value)
      outcomes.add(statusCode)
      return allowed.includes(statusCode) && !payload.includes('reached') && !/\bat .*\.[jt]s:/.test(payload)
    }), { numRuns: 250 })
    assert.ok(outcomes.size > 0, `${name}: ${[...outcomes].sort().join(', ')}`)
  }
  t.equal(Reflect.get({}, 'a'), undefined, 'no prototype was touched')
  t.same([...stored], [[1, 'refresh']])
})

// Promise: security/3-8-validate
// Promise: security/random-bytes-json
t.test('random JSON that is validly signed is accepted only where it follows the rules, and is never an exception', async (t) => {
  const verify = await verifying(t, 'HS256')
  const value = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constantFrom(1, 'x', true, now() + 100, now() - 1000, 'HS256', 'JWT', 'jwt'))
  const payloads = fc.dictionary(fc.constantFrom('user_id', 'exp', 'nbf', 'iat', 'iss', 'aud', 'scopes', '__proto__', 'x'), value, { maxKeys: 6 })
  const headers = fc.dictionary(fc.constantFrom('alg', 'typ', 'cty', 'crit', 'enc', 'b64', 'kid', 'jwk', 'zip', '__proto__'), value, { maxKeys: 4 })
  const isUserId = (id: unknown) => (typeof id === 'string' && id !== '') || Number.isSafeInteger(id) || typeof id === 'boolean'
  const isDate = (date: unknown): date is number => typeof date === 'number' && Math.abs(date) <= 8.64e12
  const isText = (text: unknown): text is string => typeof text === 'string'
  const own = (object: object, key: string): unknown => Object.hasOwn(object, key) ? Reflect.get(object, key) : undefined
  const isAcceptable = (header: object, payload: object) => {
    const [alg, typ, cty] = ['alg', 'typ', 'cty'].map((name) => own(header, name))
    const [id, exp, nbf, iat, iss, aud] = ['user_id', 'exp', 'nbf', 'iat', 'iss', 'aud'].map((name) => own(payload, name))
    return alg === 'HS256' && (typ === undefined || (isText(typ) && typ.toUpperCase() === 'JWT')) && (cty === undefined || (isText(cty) && cty.toUpperCase() !== 'JWT')) &&
      !['crit', 'enc', 'b64'].some((name) => Object.hasOwn(header, name)) &&
      isUserId(id) && isDate(exp) && now() < exp + 180 && (nbf === undefined || (isDate(nbf) && now() >= nbf - 180)) && (iat === undefined || isDate(iat)) &&
      (iss === undefined || isText(iss)) && (aud === undefined || isText(aud) || (Array.isArray(aud) && aud.every(isText)))
  }
  let accepted = 0
  fc.assert(fc.property(headers, payloads, fc.boolean(), fc.boolean(), (header, payload, isUsualHeader, isUsualPayload) => {
    const head = isUsualHeader ? { ...header, alg: 'HS256' } : header
    const body = isUsualPayload ? { ...payload, user_id: 1, exp: now() + 100 } : payload
    // As text, so that a key named __proto__ stays one.
    const input = `${encode(JSON.stringify(head))}.${encode(JSON.stringify(body))}`
    const outcome = verify(`${input}.${signature(input, 'HS256', secret)}`)
    if (outcome === 'accepted') accepted++
    return outcome === (isAcceptable(JSON.parse(JSON.stringify(head)), JSON.parse(JSON.stringify(body))) ? 'accepted' : 'refused')
  }), { numRuns: 3000 })
  t.ok(accepted > 20, `${accepted} of 3000 were accepted`)
})

type Content = Record<string, unknown>

const areTexts = (value: unknown) => [value].flat().every((text) => typeof text === 'string')
const isOutOfRange = (date: unknown) => typeof date === 'number' && Math.abs(date) > 8.64e12

/**
 * Why jose, asked for the same algorithm, issuer, audience and tolerance, accepts what is refused here: an example, and
 * what such a payload looks like.
 */
const stricter: [reason: string, token: () => string, explains?: (payload: Content) => boolean][] = [
  ['a user id is required, RFC 7519 requires no claim', () => forge({ exp: now() + 10 })],
  ['a user id is no object: it ends up in a query of the host', () => forge(claims({ user_id: { $ne: null } }))],
  ['exp is required where verifyExp is on', () => forge({ user_id: 1 }), ({ exp }) => exp === undefined],
  ['dates must be such that a Date can hold them', () => forge(claims({ exp: 8.64e12 + 1 })), ({ exp, nbf, iat }) => [exp, nbf, iat].some(isOutOfRange)],
  ['iss must be text (RFC 7519 section 4.1.1), also where no issuer is configured', () => forge(claims({ iss: ['x'] })), ({ iss }) => iss !== undefined && typeof iss !== 'string'],
  ['aud must be text or a list of texts (RFC 7519 section 4.1.3), also where no audience is configured', () => forge(claims({ aud: [1, null] })), ({ aud }) => aud !== undefined && !areTexts(aud)],
  ['typ says JWT or nothing (RFC 8725 section 3.11)', () => forge(claims(), { header: { typ: 'at+jwt' } })],
  ['cty JWT: a nested token says nothing by itself (RFC 7519 section 5.2)', () => forge(claims(), { header: { cty: 'JWT' } })],
  ['enc belongs to an encrypted token (RFC 7516 section 4.1.2)', () => forge(claims(), { header: { enc: 'A128GCM' } })],
  ['b64 without crit is not as RFC 7797 section 6 has it', () => forge(claims(), { header: { b64: true } })],
  ['more than 8,192 characters are not looked at', () => forge(claims({ x: 'x'.repeat(8192) }))],
  ['bits to spare at the end of base64url must be zero (RFC 4648 section 3.5): one signature, one text', () => forge(claims()).replace(/.$/, (last) => alphabet[alphabet.indexOf(last) + 1] ?? '')]
]

/** What jose says of a token of HS256. */
async function joseAccepts (token: string, options: object = {}): Promise<boolean> {
  try {
    await jwtVerify(token, createSecretKey(Buffer.from(secret)), { algorithms: ['HS256'], clockTolerance: 180, ...options })
    return true
  } catch {
    return false
  }
}

// Promise: security/3-10-trust
// Promise: security/3-11-use
// Promise: security/jose-2
t.test('jose accepts every token that is accepted here, and what it accepts beyond that is refused here for a reason', async (t) => {
  const verify = await verifying(t, 'HS256')
  const checked = await verifying(t, 'HS256', { claimIss: 'us', claimAud: 'us' })
  for (const [reason, token] of stricter) {
    assert.equal(await joseAccepts(token()), true, `jose accepts: ${reason}`)
    assert.equal(verify(token()), 'refused', reason)
  }
  const claim = fc.constantFrom<unknown>(undefined, null, '', 'us', 'them', ['us'], ['them', 'us'], [], 0, 1, now() + 1000, now() - 1000, now() + 100, 1e300, true, {})
  const changes = fc.record({ exp: claim, nbf: claim, iat: claim, iss: claim, aud: claim })
  const header = fc.constantFrom<Record<string, unknown>>({}, { typ: undefined }, { typ: 'jwt' }, { kid: 'x' }, { crit: ['exp'] }, { crit: [] }, { alg: 'HS384' }, { alg: 'none' }, { cty: 'text' })
  let both = 0
  await fc.assert(fc.asyncProperty(changes, header, fc.boolean(), async (given, head, isUsual) => {
    const usual = isUsual ? { exp: now() + 10, iss: 'us', aud: ['us'], iat: 1, nbf: 1 } : {}
    const token = forge({ user_id: 1, ...given, ...usual }, { header: head })
    for (const [ours, options] of [[verify, {}], [checked, { issuer: 'us', audience: 'us' }]] as const) {
      const [isOurs, isTheirs] = [ours(token) === 'accepted', await joseAccepts(token, options)]
      if (isOurs && isTheirs) both++
      const payload = JSON.parse(JSON.stringify({ ...given, ...usual }))
      if (isOurs !== isTheirs && (isOurs || !stricter.some(([, , explains]) => explains?.(payload)))) return false
    }
    return true
  }), { numRuns: 1500 })
  t.ok(both > 50, `${both} were accepted by both`)
})

// Promise: security/3-2-use
// Promise: security/9-2-4
// Promise: specification/signing-secret-privatekey
t.test('a token of every algorithm, with every claim that can be configured, is accepted by jose under the same demands', async (t) => {
  for (const algorithm of algorithms) {
    const keys = keysFor(algorithm)
    const app = await build(t, { ...keys, claimIss: 'us', claimAud: 'them', claimIat: true, claimNbf: true, claimNbfDelta: 0 })
    const token = await app.tokenAuth.generateAccessToken({ user_id: 1 })
    const key: KeyObject = 'secret' in keys ? createSecretKey(Buffer.from(keys.secret)) : createPublicKey(keys.publicKey)
    const demands = { algorithms: [algorithm], issuer: 'us', audience: 'them', typ: 'JWT', maxTokenAge: '30min', requiredClaims: ['user_id', 'exp', 'nbf', 'iat', 'iss', 'aud'] }
    const { payload } = await jwtVerify(token, key, demands)
    assert.equal(payload.user_id, 1, algorithm)
  }
})

/** The signature of a token, replaced. */
const withSignature = (token: string, change: (signature: Buffer) => Buffer | string) => {
  const end = token.lastIndexOf('.')
  const changed = change(Buffer.from(token.slice(end + 1), 'base64url'))
  return `${token.slice(0, end)}.${typeof changed === 'string' ? changed : changed.toString('base64url')}`
}

/** The order of the curve of an ES algorithm. */
const orders: Partial<Record<Algorithm, string>> = {
  ES256: 'ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551',
  ES384: 'ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973',
  ES512: '01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409'
}

/** The order of the base point of Ed25519 (RFC 8032 section 5.1). */
const ed25519Order = 2n ** 252n + 27742317777372353535851937790883648493n

/** DigestInfo of RFC 8017 section 9.2 for SHA-256, and ways to get it wrong. */
const digestInfo = '3031300d060960864801650304020105000420'
function emsa (hash: Buffer, { prefix = digestInfo, filling = 0xff, first = '0001', separator = '00', tail = '', size = 256 } = {}): Buffer {
  const rest = Buffer.concat([Buffer.from(separator + prefix, 'hex'), hash, Buffer.from(tail, 'hex')])
  const head = Buffer.from(first, 'hex')
  return Buffer.concat([head, Buffer.alloc(size - head.length - rest.length, filling), rest])
}

function rsaRaw (encoded: Buffer): Buffer {
  return privateEncrypt({ key: rsa.privateKey, padding: constants.RSA_NO_PADDING }, encoded)
}

// Promise: security/3-3-validate
// Promise: security/test-vectors-project
t.test('what Wycheproof asks of JWS, made anew for each algorithm: only the one true signature is accepted', async (t) => {
  for (const algorithm of algorithms) {
    const verify = await verifying(t, algorithm)
    const token = valid(algorithm)
    const end = token.lastIndexOf('.')
    assert.equal(verify(token), 'accepted', algorithm)
    const broken: Record<string, string> = {
      'a bit flipped': withSignature(token, (bytes) => { bytes[0]! ^= 1; return bytes }),
      'the last bit flipped': withSignature(token, (bytes) => { bytes[bytes.length - 1]! ^= 1; return bytes }),
      'all bits flipped': withSignature(token, (bytes) => bytes.map((byte) => byte ^ 255) as Buffer),
      'all zeros': withSignature(token, (bytes) => Buffer.alloc(bytes.length)),
      'all ones': withSignature(token, (bytes) => Buffer.alloc(bytes.length, 255)),
      'without its last byte': withSignature(token, (bytes) => bytes.subarray(0, -1)),
      'without its first byte': withSignature(token, (bytes) => bytes.subarray(1)),
      'half of it': withSignature(token, (bytes) => bytes.subarray(0, bytes.length / 2)),
      'one byte': withSignature(token, (bytes) => bytes.subarray(0, 1)),
      'with a zero behind': withSignature(token, (bytes) => Buffer.concat([bytes, Buffer.alloc(1)])),
      'with a zero before': withSignature(token, (bytes) => Buffer.concat([Buffer.alloc(1), bytes])),
      twice: withSignature(token, (bytes) => Buffer.concat([bytes, bytes])),
      empty: withSignature(token, () => ''),
      'as text of hexadecimal digits': withSignature(token, (bytes) => bytes.toString('hex')),
      'in plain base64': withSignature(token, (bytes) => `${bytes.toString('base64')}`).replace(/$/, '='),
      'of the payload alone': `${token.slice(0, end)}.${signature(token.split('.')[1] ?? '', algorithm, signingKey(algorithm))}`,
      'of another token': `${token.slice(0, end)}.${valid(algorithm, claims({ x: 1 })).split('.')[2]}`,
      'of the JSON and not of its encoding': `${token.slice(0, end)}.${signature(`{"alg":"${algorithm}"}.${JSON.stringify(claims())}`, algorithm, signingKey(algorithm))}`
    }
    for (const other of algorithms.filter((other) => other !== algorithm && other.slice(0, 2) === algorithm.slice(0, 2) && !other.startsWith('ES'))) {
      broken[`with the hash of ${other}`] = `${token.slice(0, end)}.${signature(token.slice(0, end), other, signingKey(other))}`
    }
    const order = orders[algorithm]
    if (order !== undefined) {
      const size = algorithm === 'ES512' ? 66 : order.length / 2
      const number = (value: bigint) => Buffer.from(value.toString(16).padStart(size * 2, '0'), 'hex')
      const n = BigInt(`0x${order}`)
      const special = { 0: 0n, 1: 1n, 'n - 1': n - 1n, n, 'n + 1': n + 1n, 'the largest': (1n << BigInt(size * 8)) - 1n }
      for (const [nameR, r] of Object.entries(special)) {
        for (const [nameS, s] of Object.entries(special)) broken[`r = ${nameR}, s = ${nameS}`] = withSignature(token, () => Buffer.concat([number(r), number(s)]))
      }
      broken['in DER'] = withSignature(token, () => signBytes(`sha${algorithm.slice(2)}`, Buffer.from(token.slice(0, end)), signingKey(algorithm)))
    }
    if (algorithm.startsWith('PS')) {
      const hash = `sha${algorithm.slice(2)}`
      const pss = (saltLength: number) => signBytes(hash, Buffer.from(token.slice(0, end)), { key: rsa.privateKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength })
      for (const length of [0, 1, 20, Number(algorithm.slice(2)) / 8 - 1, Number(algorithm.slice(2)) / 8 + 1, constants.RSA_PSS_SALTLEN_MAX_SIGN]) broken[`a salt of ${length} bytes`] = withSignature(token, () => pss(length))
    }
    if (algorithm === 'EdDSA') {
      const littleEndian = (bytes: Buffer) => BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`)
      const plus = (times: bigint) => withSignature(token, (bytes) => {
        const s = littleEndian(bytes.subarray(32)) + times * ed25519Order
        return Buffer.concat([bytes.subarray(0, 32), Buffer.from(s.toString(16).padStart(64, '0'), 'hex').reverse()])
      })
      assert.equal(plus(0n), token, 'control')
      // RFC 8032 section 5.1.7: S must be smaller than the order L, or one signature would have several texts.
      for (const times of [1n, 2n, 8n, 14n]) broken[`S + ${times} L`] = plus(times)
      const points = { zero: Buffer.alloc(32), 'the neutral point': Buffer.from(`01${'00'.repeat(31)}`, 'hex'), 'a point of order 2': Buffer.from(`ec${'ff'.repeat(30)}7f`, 'hex') }
      for (const [what, point] of Object.entries(points)) {
        broken[`R = ${what}`] = withSignature(token, (bytes) => Buffer.concat([point, bytes.subarray(32)]))
        broken[`R = ${what}, S = 0`] = withSignature(token, () => Buffer.concat([point, Buffer.alloc(32)]))
      }
      broken['R and S swapped'] = withSignature(token, (bytes) => Buffer.concat([bytes.subarray(32), bytes.subarray(0, 32)]))
      // As Ed25519ph does, another algorithm of RFC 8032 section 5.1.
      broken['of the hash of what it signs'] = withSignature(token, () => signBytes(null, createHash('sha512').update(token.slice(0, end)).digest(), signingKey(algorithm)))
    }
    for (const [what, changed] of Object.entries(broken)) assert.equal(verify(changed), 'refused', `${algorithm}: ${what}`)
  }
})

// Promise: security/3-3-validate
// Promise: security/3-4-validate
t.test('an RSA signature that begins with a zero byte is refused without it, and with another one: one token has one text', async (t) => {
  for (const algorithm of ['RS256', 'PS512'] as const) {
    const verify = await verifying(t, algorithm)
    // One signature of 256 begins so.
    let token = valid(algorithm)
    for (let x = 0; Buffer.from(token.slice(token.lastIndexOf('.') + 1), 'base64url')[0] !== 0; x++) token = valid(algorithm, claims({ x }))
    assert.equal(verify(token), 'accepted', algorithm)
    assert.equal(verify(withSignature(token, (bytes) => bytes.subarray(1))), 'refused', `${algorithm}: without its first byte`)
    assert.equal(verify(withSignature(token, (bytes) => Buffer.concat([Buffer.alloc(1), bytes]))), 'refused', `${algorithm}: with another zero byte`)
  }
})

// Promise: security/eddsa-2
t.test('a token of EdDSA is of Ed25519 and says EdDSA: neither Ed448 nor the name Ed25519 is accepted', async (t) => {
  const verify = await verifying(t, 'EdDSA')
  const key = signingKey('EdDSA')
  t.equal(verify(valid('EdDSA')), 'accepted')
  for (const alg of ['Ed25519', 'Ed448', 'eddsa', 'EDDSA', 'EdDSA ', 'ES256', 'none', ['EdDSA'], null]) {
    assert.equal(verify(forge(claims(), { algorithm: 'EdDSA', key, header: { alg } })), 'refused', `${alg}`)
  }
  for (const crv of ['Ed448', 'Ed25519', 'X25519']) assert.equal(verify(forge(claims(), { algorithm: 'EdDSA', key, header: { crv } })), 'accepted', 'a curve in the header is not used')
  const ed448 = generateKeyPairSync('ed448').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  t.equal(verify(forge(claims(), { algorithm: 'EdDSA', key: ed448 })), 'refused', 'a signature of Ed448')
})

// Promise: security/3-4-validate
// Promise: security/test-vectors-project
t.test('what Wycheproof asks of RSASSA-PKCS1-v1_5: a padding that is nearly right is wrong', async (t) => {
  const verify = await verifying(t, 'RS256')
  const token = valid('RS256')
  const input = Buffer.from(token.slice(0, token.lastIndexOf('.')))
  const hash = createHash('sha256').update(input).digest()
  const made = (options: Parameters<typeof emsa>[1]) => withSignature(token, () => rsaRaw(emsa(hash, options)))
  t.equal(made({}), token, 'control: the right padding gives the right signature')
  const wrong: Record<string, Parameters<typeof emsa>[1]> = {
    'no NULL in the algorithm': { prefix: '302f300b0609608648016503040201' + '0420' },
    'the digest of another algorithm by name': { prefix: '3031300d060960864801650304020305000420' },
    'the length in a long form': { prefix: '308131300d060960864801650304020105000420' },
    'an indefinite length': { prefix: '3080300d060960864801650304020105000420' },
    'no DigestInfo': { prefix: '' },
    'something behind the hash (Bleichenbacher 2006)': { tail: '00'.repeat(16) },
    'filled with zeros': { filling: 0 },
    'filled with something else': { filling: 0xfe },
    'block type 0': { first: '0000' },
    'block type 2': { first: '0002' },
    'no separator': { separator: 'ff' },
    'a longer NULL': { prefix: '3032300e06096086480165030402010501000420' }
  }
  for (const [what, options] of Object.entries(wrong)) assert.equal(verify(made(options)), 'refused', what)
  const modulus = BigInt(`0x${Buffer.from(String(createPublicKey(rsa.publicKey).export({ format: 'jwk' }).n), 'base64url').toString('hex')}`)
  const shifted = withSignature(token, (bytes) => {
    const sum = BigInt(`0x${bytes.toString('hex')}`) + modulus
    return Buffer.from(sum.toString(16).padStart(sum.toString(16).length + sum.toString(16).length % 2, '0'), 'hex')
  })
  t.equal(verify(shifted), 'refused', 'the signature plus the modulus')
})

// Promise: security/test-vectors-project
t.test('the example of RFC 7515 appendix A.1, with white space in its JSON, is accepted in its time', async (t) => {
  const token = 'eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'
  const key = Buffer.from('AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow', 'base64url')
  const setTime = setClock(t, 1300819379)
  const verify = await verifying(t, 'HS256', { secret: key, userId: 'http://example.com/is_root', leeway: 0, claimIss: 'joe' })
  t.equal(verify(token), 'accepted')
  setTime(1300819380)
  t.equal(verify(token), 'refused')
})

// Promise: security/9-1-1
t.test('a token signed by a fresh key of the same kind is refused, by every algorithm', async (t) => {
  for (const algorithm of algorithms) {
    const verify = await verifying(t, algorithm)
    const strangers: Record<string, () => string> = {
      HS: () => otherSecret,
      ES: () => generateKeyPairSync('ec', { namedCurve: { ES256: 'prime256v1', ES384: 'secp384r1' }[algorithm as string] ?? 'secp521r1' }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
      RS: () => attacker.privateKey,
      PS: () => attacker.privateKey,
      Ed: () => generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
    }
    const key = strangers[algorithm.slice(0, 2)]?.() ?? ''
    assert.ok(key === otherSecret || createPrivateKey(key).asymmetricKeyType, algorithm)
    assert.equal(verify(forge(claims(), { algorithm, key })), 'refused', algorithm)
  }
})
