import assert from 'node:assert/strict'
import { createPrivateKey, createPublicKey, createSecretKey, generateKeyPairSync, randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import tokenAuth, { InvalidConfiguration, memorySessions, type Algorithm, type TokenAuthOptions } from '../../lib/index.ts'
import { remoteKeySet } from '../../lib/authorities/remote-key-set.ts'
import { authenticate, build, caseOf, ecPair, environment, host, keysFor, mistyped, otherSecret, rsaPair, secret, together, warnings } from '../helper.ts'

const rsa = rsaPair()
const small = rsaPair(1024)
const ec = ecPair('prime256v1')
const koblitz = ecPair('secp256k1')

const base64url = (text: string) => Buffer.from(text).toString('base64url')
const base64 = (pem: string) => pem.replace(/-----[^-]+-----|\s/g, '')
const der = (pem: string) => Buffer.from(base64(pem), 'base64')
const jwk = (pem: string) => JSON.stringify(createPublicKey(pem).export({ format: 'jwk' }))
const sshKey = 'ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7 someone@somewhere'
/** The key pair of an exponent of 1 cannot be made; its public half can be written down. */
const { n } = createPublicKey(rsa.publicKey).export({ format: 'jwk' })
const everyoneSigns = createPublicKey({ key: { kty: 'RSA', n: String(n), e: 'AQ' }, format: 'jwk' }).export({ type: 'spki', format: 'pem' }).toString()
const encrypted = createPrivateKey(rsa.privateKey).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }).toString()
const ed25519 = generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'pem' }).toString()

const hs = (given: unknown): Partial<TokenAuthOptions> => mistyped({ algorithm: 'HS256', secret: given })
const verifying = (algorithm: Algorithm, publicKey: unknown): Partial<TokenAuthOptions> => mistyped({ algorithm, publicKey, secret: undefined, authMode: false })

const soon = new Date(Date.now() + 3_600_000).toISOString()
const keys = (list: unknown, options: object = {}): Partial<TokenAuthOptions> => mistyped({ keys: list, ...options })
const [one, other] = [{ key: secret, kid: 'one' }, { key: otherSecret, kid: 'other', signFrom: soon }]

/** Nothing is fetched by a registration that fails. */
const trusted = { issuer: 'https://issuer.example', audience: 'api', jwksUri: 'https://issuer.example/jwks' }
const issuers = (list: unknown, options: object = {}): Partial<TokenAuthOptions> => mistyped({ issuers: list, ...options })
/** Issuers whose keys are known, so that nothing has to be fetched. */
const fixed = (members: object = {}): NonNullable<TokenAuthOptions['issuers']>[number] => ({ issuer: 'https://issuer.example', audience: 'api', jwks: { keys: [JSON.parse(jwk(rsa.publicKey))] }, ...members })

const errors: [finding: string, what: string, options: Partial<TokenAuthOptions>][] = [
  ['E01', 'an empty secret', hs('')],
  ['E01', 'an empty secret as a Buffer', hs(Buffer.alloc(0))],
  ['E01', 'a secret of white space', hs(' \n\t')],
  ['E02', 'a public key in PEM as a secret', hs(rsa.publicKey)],
  ['E02', 'a private key in PEM as a secret', hs(ec.privateKey)],
  ['E02', 'a public key in PEM after white space (fast-jwt, CVE-2023-48223 and its successors)', hs(`\n \t${rsa.publicKey}`)],
  ['E02', 'a public key in PEM after a byte order mark', hs(`\uFEFF${rsa.publicKey}`)],
  ['E02', 'an old PEM form: RSA PUBLIC KEY', hs(createPublicKey(rsa.publicKey).export({ type: 'pkcs1', format: 'pem' }).toString())],
  ['E02', 'a certificate as a secret', hs('-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n')],
  ['E02', 'an ssh key as a secret (PyJWT, CVE-2022-29217)', hs(sshKey)],
  ['E02', 'an ssh key after white space', hs(` \n${sshKey}`)],
  ['E02', 'an SSH2 key as a secret', hs('---- BEGIN SSH2 PUBLIC KEY ----\nAAAAB3NzaC1yc2EAAA\n---- END SSH2 PUBLIC KEY ----')],
  ['E02', 'an elliptic ssh key as a secret', hs('ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTY= x')],
  ['E02', 'a JWK as a secret', hs(jwk(rsa.publicKey))],
  ['E02', 'a JWK set as a secret', hs(`{"keys":[${jwk(ec.publicKey)}]}`)],
  ['E02', 'a public key in DER as a secret', hs(der(rsa.publicKey))],
  ['E02', 'a private key in DER as a secret', hs(der(ec.privateKey))],
  ['E02', 'a public key in base64 as a secret', hs(base64(rsa.publicKey))],
  ['E02', 'a public KeyObject as a secret', hs(createPublicKey(rsa.publicKey))],
  ['E02', 'a public key in quotes as a secret', hs(`"${base64(rsa.publicKey)}"`)],
  ['E02', 'a public key in hexadecimal digits as a secret', hs(der(rsa.publicKey).toString('hex'))],
  ['E02', 'a percent-encoded public key as a secret', hs(encodeURIComponent(rsa.publicKey))],
  ['E02', 'a public key in UTF-16 as a secret', hs(Buffer.from(rsa.publicKey, 'utf16le'))],
  ['E02', 'a JWK inside another object as a secret', hs(`{"auth":[{"jwk":${jwk(rsa.publicKey)}}]}`)],
  ['E02', 'the JWK of a pair as a secret', hs(JSON.parse(jwk(rsa.publicKey)))],
  ['E04', 'an RSA key of 1024 bits', verifying('RS256', small.publicKey)],
  ['E04', 'an RSA key of 1024 bits that signs', { algorithm: 'PS256', ...small }],
  ['E04', 'an RSA key with the exponent 1', verifying('RS256', everyoneSigns)],
  ['E04', 'an RSA key with an even exponent', verifying('RS256', { kty: 'RSA', n, e: 'AQAA' })],
  ['E04', 'an RSA key with an exponent of more than 64 bits', verifying('PS256', { kty: 'RSA', n, e: n })],
  ['E04', 'an RSA key of more than 8,192 bits', verifying('RS256', { kty: 'RSA', n: `${n}${n}${n}${n}${n}`, e: 'AQAB' })],
  ['E04', 'an Ed25519 key of small order', verifying('EdDSA', { kty: 'OKP', crv: 'Ed25519', x: Buffer.alloc(32).toString('base64url') })],
  ['E05', 'an elliptic key for RS256', verifying('RS256', ec.publicKey)],
  ['E05', 'an RSA key for ES256 (jsonwebtoken, CVE-2022-23539)', verifying('ES256', rsa.publicKey)],
  ['E05', 'a key on another curve for ES256', verifying('ES256', koblitz.publicKey)],
  ['E05', 'the curve of ES256 for ES384', verifying('ES384', ec.publicKey)],
  ['E05', 'an Ed25519 key for ES256', verifying('ES256', ed25519)],
  ['E05', 'an elliptic key for EdDSA', verifying('EdDSA', ec.publicKey)],
  ['E05', 'an Ed448 key for EdDSA', verifying('EdDSA', generateKeyPairSync('ed448').publicKey)],
  ['E05', 'an X25519 key for EdDSA', verifying('EdDSA', generateKeyPairSync('x25519').publicKey)],
  ['E06', 'a private key with the public numbers of another', { algorithm: 'RS256', publicKey: rsa.publicKey, privateKey: { ...createPrivateKey(rsaPair(2048, 1).privateKey).export({ format: 'jwk' }), n: String(n) } }],
  ['E06', 'halves of two pairs', { algorithm: 'RS256', publicKey: rsaPair(2048, 1).publicKey, privateKey: rsa.privateKey }],
  ['E07', 'a private key where a public one belongs', verifying('RS256', rsa.privateKey)],
  ['E07', 'a secret where a public key belongs', verifying('RS256', secret)],
  ['E07', 'a secret KeyObject where a public key belongs', verifying('RS256', createSecretKey(Buffer.from(secret)))],
  ['E07', 'a public key where a private one belongs', { algorithm: 'RS256', publicKey: rsa.publicKey, privateKey: rsa.publicKey }],
  ['E07', 'a public KeyObject where a private one belongs', { algorithm: 'RS256', publicKey: rsa.publicKey, privateKey: createPublicKey(rsa.publicKey) }],
  ['E07', 'an encrypted private key', { algorithm: 'RS256', publicKey: rsa.publicKey, privateKey: encrypted }],
  ['E07', 'an encrypted private key with a wrong passphrase', { algorithm: 'RS256', publicKey: rsa.publicKey, privateKey: { pem: encrypted, passphrase: 'y' } }],
  ['E07', 'a passphrase of a key that is not encrypted', verifying('RS256', { pem: rsa.publicKey, passphrase: 'y' })],
  ['E07', 'a JWK that lacks a member', verifying('RS256', { kty: 'RSA', e: 'AQAB' })],
  ['E07', 'nonsense where a private key belongs', { algorithm: 'RS256', publicKey: rsa.publicKey, privateKey: 'nonsense' }],
  ['E08', 'a file that does not exist', hs({ path: '/nowhere/at/all' })],
  ['E08', 'a URL that would have to be fetched', hs(new URL('https://keys.example/secret'))],
  ['E09', 'SameSite none without Secure', { cookieSet: true, cookieSamesite: 'none', cookieSecure: false }],
  ['E10', 'two cookies of one name', { cookieAccessTokenName: 'x', cookieRefreshTokenName: 'x' }],
  ['E10', 'two fields of one name', { accessTokenName: 'x', refreshTokenName: 'x' }],
  ['E10', 'a user id in a registered claim', { userId: 'exp' }],
  ['E10', 'two endpoints on one path', { pathToVerify: '/me/' }],
  ['E11', 'keys and a secret', keys([one], { secret })],
  ['E11', 'keys and a getter of a key', keys([one], { getSecret: () => secret })],
  ['E11', 'keys and a getter of the algorithm', keys([one], { getAlgorithm: () => 'HS256' })],
  ['E11', 'keys and a getter of the number of remembered tokens', keys([one], { getTokenCacheSize: () => 0 })],
  ['E12', 'an empty list of keys', keys([])],
  ['E12', 'two keys of one kid', keys([one, { key: otherSecret, kid: 'one' }])],
  ['E12', 'one key twice', keys([{ key: secret }, { key: secret }])],
  ['E12', 'a kid that is too long', keys([{ key: secret, kid: 'x'.repeat(257) }])],
  ['E12', 'a kid with a space', keys([{ key: secret, kid: 'a b' }])],
  ['E12', 'more than 16 keys', keys(Array.from({ length: 17 }, (_, index) => ({ key: `${secret} ${index}` })))],
  ['E13', 'keys of which none signs yet', keys([other])],
  ['E13', 'keys of which none can sign', keys([{ key: rsa.publicKey }], { algorithm: 'RS256' })],
  ['E13', 'a date without a time zone', keys([one, { ...other, signFrom: '2999-01-01T00:00:00' }])],
  ['E13', 'a date that is none', keys([one, { ...other, signFrom: new Date(NaN) }])],
  ['E14', 'a key whose tokens live longer than it', keys([{ ...one, verifyUntil: soon }, other])],
  ['E14', 'an end of the last key', keys([{ ...one, verifyUntil: soon }])],
  ['E14', 'an end of a key whose tokens have none', keys([{ ...one, verifyUntil: '2999-01-01T00:00:00Z' }, other], { verifyExp: false })],
  ['E14', 'an end of a key, and a computed lifetime', keys([{ ...one, verifyUntil: '2999-01-01T00:00:00Z' }, other], { getExpirationDelta: () => 60 })],
  ['E15', 'a JWK of another algorithm than its entry', keys([{ key: JSON.parse(jwk(rsa.publicKey)), algorithm: 'RS256' }, { key: { kty: 'oct', k: base64url(secret), alg: 'HS512' }, algorithm: 'HS256' }])],
  ['E16', 'a path for public keys where there are none', { pathToJwks: '/jwks' }],
  ['E11', 'issuers and a getter of a key', issuers([trusted], { getSecret: () => secret })],
  ['E17', 'an issuer without an audience', issuers([{ ...trusted, audience: undefined }])],
  ['E17', 'an issuer twice', issuers([trusted, trusted])],
  ['E17', 'a trusted issuer as that of own tokens', issuers([trusted], { claimIss: trusted.issuer })],
  ['E17', 'an issuer whose tokens are signed with a secret', issuers([{ ...trusted, algorithms: ['HS256'] }])],
  ['E17', 'an issuer without algorithms', issuers([{ ...trusted, algorithms: [] }])],
  ['E17', 'keys that anybody on the way can replace', issuers([{ ...trusted, jwksUri: 'http://issuer.example/' }])],
  ['E17', 'keys of another host than it seems', issuers([{ ...trusted, jwksUri: 'http://localhost@issuer.example/' }])],
  ['E17', 'an address of keys with a password', issuers([{ ...trusted, jwksUri: 'https://user:password@issuer.example/' }])],
  ['E17', 'an address of keys with a user', issuers([{ ...trusted, jwksUri: 'https://user@issuer.example/' }])],
  ['E17', 'an address of keys with a fragment', issuers([{ ...trusted, jwksUri: 'https://issuer.example/#a' }])],
  ['E17', 'an address of keys that is a file', issuers([{ ...trusted, jwksUri: 'file:///jwks' }])],
  ['E17', 'an address of keys that is none', issuers([{ ...trusted, jwksUri: '/jwks' }])],
  ['E17', 'an issuer with keys and an address', issuers([{ ...trusted, jwks: { keys: [] } }])],
  ['E17', 'an issuer without keys', issuers([{ ...trusted, jwksUri: undefined }])],
  ['E17', 'keys of an issuer of which none counts', issuers([{ ...trusted, jwksUri: undefined, jwks: { keys: [{ ...JSON.parse(jwk(rsa.publicKey)), use: 'enc' }] } }])],
  ['E19', 'a function of keys that fails', keys(() => { throw new Error('down') })],
  ['E24', 'sessions that would end with a key', keys([one], { sessions: {} })],
  ['E15', 'a JWK for encryption', verifying('RS256', { ...JSON.parse(jwk(rsa.publicKey)), use: 'enc' })],
  ['E15', 'a JWK that must not verify', verifying('ES256', { ...JSON.parse(jwk(ec.publicKey)), key_ops: ['sign'] })],
  ['E15', 'a JWK of another algorithm', verifying('RS256', { ...JSON.parse(jwk(rsa.publicKey)), alg: 'PS256' })]
]

/** What a sentence says that tells somebody what to do. */
const instruction = /\b(?:[Uu]se|[Gg]ive|[Ss]et|[Cc]heck|[Cc]hoose|[Nn]eeds?|[Dd]ecrypt|Make|Reduce|Add|[Rr]emove|Log|only "file:" URLs)\b/

const settled = async () => await new Promise((resolve) => setImmediate(resolve))

/** Registers with no default of the helper, and says what that threw. */
async function failureOf (t: Test, options: Partial<TokenAuthOptions>): Promise<unknown> {
  const app = host(t)
  try {
    await app.register(tokenAuth, together(options.secret === undefined && options.publicKey === undefined && options.keys === undefined ? { secret } : {}, { authenticate }, options))
  } catch (error) {
    return error
  }
  return undefined
}

function secretsOf (options: Partial<TokenAuthOptions>): string[] {
  const given = [options.secret, options.publicKey, options.privateKey].filter((key) => typeof key === 'string')
  return given.map((key) => base64(key).slice(0, 40)).filter((key) => key.length > 8)
}

/** The entry of a finding in the documents, to which its message leads. */
const entryOf = (finding: string) => ` See node_modules/fastify-token-auth/docs/findings.md#token_auth_${finding.toLowerCase()}`

// Promise: security/3-4-validate
// Promise: security/9-1-2
// Promise: security/9-1-3
// Promise: security/fast-jwt-cve
// Promise: security/jsonwebtoken-cve-2022
// Promise: security/pyjwt-cve-2022
// Promise: security/settings-without-safe
// Promise: security/wrong-weak-confused
// Promise: specification/publickey-alias-secret
t.test('what has no safe meaning is an error at registration, numbered, which says what to do and shows no key', async (t) => {
  for (const [finding, what, options] of errors) {
    const error = await failureOf(t, options)
    if (!(error instanceof InvalidConfiguration)) {
      t.fail(`${what} was accepted, or failed otherwise`)
      continue
    }
    assert.equal(error.finding, `TOKEN_AUTH_${finding}`, what)
    t.match(error.message, instruction, `${what}: what to do`)
    assert.ok(error.message.endsWith(entryOf(finding)), `${what}: where its cause and remedy are`)
    for (const part of secretsOf(options)) assert.ok(!base64(`${error.message} ${String(error.cause)}`).includes(part), `${what}: no key is shown`)
  }
})

// Promise: security/settings-without-safe
t.test('an address of keys without jose is an error (E18), numbered like the others', async (t) => {
  await t.rejects(remoteKeySet('https://issuer.example/', async () => ({})), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E18', message: instruction })
})

// Promise: security/3-5-ensure
// Promise: security/wrong-weak-confused
t.test('a secret shorter than 32 bytes is an error in production (E23), wherever it is given, and a warning elsewhere', async (t) => {
  const short = 'x'.repeat(31)
  const codes = warnings(t)
  t.equal(await failureOf(t, { secret: short }), undefined)
  await settled()
  t.same(codes.splice(0), ['TOKEN_AUTH_W02'])
  const app = await build(t)
  environment(t, 'production')
  for (const algorithm of ['HS256', 'HS384', 'HS512'] as const) {
    for (const key of [short, Buffer.from(short), createSecretKey(Buffer.from(short)), { kty: 'oct', k: base64url(short) }]) {
      for (const name of ['secret', 'publicKey', 'setSecret']) {
        const error = await failureOf(t, mistyped({ algorithm, secret: undefined, [name]: key }))
        t.match(error, { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E23', message: instruction }, name)
      }
    }
  }
  t.throws(() => app.tokenAuth.protect({ secret: short }), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E23' })
  const computed = await build(t, { secret: undefined, getSecret: () => short })
  t.match(await computed.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } }), { statusCode: 500 })
  t.equal(await failureOf(t, { secret: secret.slice(0, 32) }), undefined)
  await settled()
  t.same(codes, [])
})

// Promise: security/3-5-ensure
// Promise: security/wrong-weak-confused
t.test('a missing secret is an error in production (E03), and a missing half of a pair everywhere', async (t) => {
  const { NODE_ENV: before } = process.env
  t.teardown(() => { if (before === undefined) delete process.env.NODE_ENV; else process.env.NODE_ENV = before })
  process.env.NODE_ENV = 'production'
  t.match(await failureOf(t, { secret: mistyped(undefined), getSecret: mistyped(undefined), setSecret: secret }), undefined, 'control: a secret by another way')
  const app = host(t)
  await t.rejects(async () => { await app.register(tokenAuth, { authenticate }) }, { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E03' })
  t.match(await failureOf(t, { algorithm: 'RS256', publicKey: rsa.publicKey }), { name: 'RequiredKeysNotFound' })
  t.match(await failureOf(t, { algorithm: 'RS256', authMode: false }), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E07' })
})

const dangers: [finding: string, what: string, options: Partial<TokenAuthOptions>][] = [
  ['W01', 'no secret', { secret: undefined }],
  ['W02', 'a secret shorter than the hash', { secret: 'x'.repeat(31) }],
  ['W02', 'a secret shorter than the hash of HS512', { algorithm: 'HS512', secret: 'x'.repeat(63) }],
  ['W28', 'a secret with a line feed at its end', { secret: `${secret}\n` }],
  ['W03', 'protection off', { doProtection: false }],
  ['W04', 'expiry off', { verifyExp: false }],
  ['W05', 'tokens in the query string', { queryStringSet: true }],
  ['W06', 'a leeway as long as the lifetime', { leeway: 60, expirationDelta: 60 }],
  ['W08', 'a cookie that scripts can read', { cookieSet: true, cookieHttponly: false }],
  ['W09', 'SameSite none', { cookieSet: true, cookieSamesite: 'none' }],
  ['W10', 'cookies over plain HTTP', { cookieSet: true, cookieSecure: false }],
  ['W11', 'tokens that expire before they become valid', { claimNbf: true, claimNbfDelta: 3600, expirationDelta: 600 }],
  ['W12', 'a handler of scopes while they are off', { addScopesToPayload: () => 'a' }],
  ['W13', 'a handler of refresh tokens while they are off', { retrieveRefreshToken: () => 'stored' }],
  ['W14', 'scopes without a handler that gives them', { scopesEnabled: true }],
  ['W15', 'a check that only ever gives a promise', { extraVerifications: [mistyped<() => boolean>(async () => true)] }],
  ['W16', 'published keys without an issuer and an audience', { algorithm: 'ES256', ...ec, pathToJwks: '/jwks' }],
  ['W17', 'secrets and pairs together', { secret: undefined, keys: [{ key: secret }, { key: rsa.publicKey, algorithm: 'RS256' }] }],
  ['W18', 'tokens for anybody', { retrieveUser: () => null, issuers: [fixed({ audience: null })] }],
  ['W21', 'users of an issuer beside own users', { issuers: [fixed()] }],
  ['W21', 'users of an issuer beside those of keys', { secret: undefined, authMode: false, keys: [{ key: secret }], issuers: [fixed()] }],
  ['W21', 'users of two issuers', { secret: undefined, authMode: false, issuers: [fixed(), fixed({ issuer: 'https://other.example' })] }],
  ['W19', 'cookies for pages of every origin', { cookieSet: true, trustedOrigins: '*' }],
  // With a key of its own, because instances of one key must have the same sessions (W22).
  ['W24', 'cookies that a browser forgets before the session ends', { secret: 'a secret of its own, of 32 bytes', cookieSet: true, retrieveUser: () => null, sessions: { lifetime: () => 86_400 } }],
  ['W43', 'users who were deleted and stay logged in', { secret: 'another secret of its own, of 40 bytes!!', sessions: {} }],
  ['W25', 'sessions that no token belongs to', { secret: undefined, authMode: false, issuers: [fixed()], sessions: { store: memorySessions() } }]
]

// Promise: security/3-5-ensure
// Promise: security/sessions-ended-place
// Promise: security/settings-without-safe
// Promise: specification/numbered-warnings-settings
t.test('what is allowed and dangerous is one warning of the process, numbered, which says what to do', async (t) => {
  warnings(t)
  const given: Error[] = []
  const listener = (warning: Error) => { if (warning.name === 'TokenAuthWarning') given.push(warning) }
  process.on('warning', listener)
  t.teardown(() => process.off('warning', listener))
  for (const [finding, what, options] of dangers) {
    await build(t, options)
    await settled()
    t.match(given, [{ code: `TOKEN_AUTH_${finding}`, message: instruction }], what)
    assert.ok(given[0]?.message.endsWith(entryOf(finding)), `${what}: where its cause and remedy are`)
    assert.equal(given.splice(0).length, 1, `${what}: one`)
  }
})

// Promise: security/settings-without-safe
t.test('debug warns in production only', async (t) => {
  const codes = warnings(t)
  const { NODE_ENV: before } = process.env
  t.teardown(() => { if (before === undefined) delete process.env.NODE_ENV; else process.env.NODE_ENV = before })
  process.env.NODE_ENV = 'production'
  await build(t, { debug: true })
  await settled()
  t.same(codes.splice(0), ['TOKEN_AUTH_W07'])
  process.env.NODE_ENV = 'development'
  await build(t, { debug: true })
  await settled()
  t.same(codes, [])
})

// Promise: security/sessions-ended-place
t.test('instances of one key that have different sessions are a warning (W22), until one of them closes', async (t) => {
  const codes = warnings(t, 'W22')
  const { publicKey, privateKey } = ecPair('prime256v1')
  const pair = { algorithm: 'ES256', publicKey, privateKey } as const
  const verifier = { algorithm: 'ES256', publicKey, authMode: false } as const
  const store = memorySessions()
  const taken = async () => { await settled(); return codes.splice(0) }
  const first = await build(t, { ...pair, sessions: { store } })
  const same = await build(t, { ...verifier, sessions: { store } })
  t.same(await taken(), [], 'the same store')
  await build(t, { ...keysFor('ES384'), sessions: {} })
  t.same(await taken(), [], 'another key')
  await build(t, { algorithm: 'ES256', authMode: false, getPublicKey: () => publicKey })
  t.same(await taken(), [], 'a key that only a request has')
  const without = await build(t, verifier)
  t.same(await taken(), ['TOKEN_AUTH_W22'], 'no sessions')
  const apart = [{ claimAud: 'other' }, { claimIss: 'other' }, { userId: 'other_id' }]
  for (const names of apart) await (await build(t, { ...verifier, ...names })).close()
  t.same(await taken(), [], 'tokens for another audience, of another issuer, with another user id')
  await (await build(t, { ...verifier, getClaimAud: () => 'other' })).close()
  t.same(await taken(), ['TOKEN_AUTH_W22'], 'an audience that only a request has')
  const other = await build(t, { ...pair, sessions: {} })
  t.same(await taken(), ['TOKEN_AUTH_W22'], 'another store')
  await t.rejects(build(t, { ...pair, sessions: { store }, classViews: mistyped(1) }))
  t.same(await taken(), [], 'a registration that fails is no instance')
  for (const app of [first, same, without, other]) await app.close()
  await build(t, verifier)
  t.same(await taken(), [], 'after the others have closed')
})

// Promise: security/sessions-ended-place
t.test('sessions in memory warn in production only (W23)', async (t) => {
  const codes = warnings(t, 'W23')
  const taken = async () => { await settled(); return codes.splice(0) }
  const memory = memorySessions()
  const { create, advance, end, list, endedSince, confirm } = memory
  const options = [{}, { store: memory }, { store: { create, advance, end, list, endedSince, confirm } }]
  const warned = async (sessions: object) => { const app = await build(t, { sessions }); await app.close(); return await taken() }
  for (const sessions of options) assert.deepEqual(await warned(sessions), [], caseOf(sessions))
  environment(t, 'production')
  t.same(await warned({}), ['TOKEN_AUTH_W23'], 'the default')
  t.same(await warned({ store: memory }), ['TOKEN_AUTH_W23'])
  t.same(await warned({ store: { create, advance, end, list, endedSince, confirm } }), [], 'a store of the application')
})

// Promise: security/sessions-ended-place
t.test('a function of lifetimes and cookies that end with the browser are a warning (W24), unless cookieMaxAge or its getter is there', async (t) => {
  const codes = warnings(t, 'W24')
  const lifetime = () => 86_400
  const harmless: Partial<TokenAuthOptions>[] = [
    { cookieSet: true, cookieMaxAge: 60, sessions: { lifetime } }, { cookieSet: true, getCookieMaxAge: () => 60, sessions: { lifetime } },
    { sessions: { lifetime } }, { cookieSet: true, sessions: { lifetime: 86_400 } }
  ]
  for (const options of harmless) await (await build(t, options)).close()
  await settled()
  t.same(codes, [])
  await build(t, { getCookieSet: () => true, sessions: { lifetime } })
  await settled()
  t.same(codes, ['TOKEN_AUTH_W24'], 'also where a getter sets cookies')
})

// Promise: security/wrong-weak-confused
t.test('a secret that everybody knows, or that repeats, is an error in production (E23), wherever it is given, and a warning elsewhere (W02)', async (t) => {
  const { weak, strong } = {
    weak: [
      'your-512-bit-secret'.padEnd(19), 'a-string-secret-at-least-256-bits-long', 'Super-Secret-JWT-token-with-at-least-32-characters-long', 'changeme'.repeat(4), 'a'.repeat(64), 'ab'.repeat(40),
      'abcdefghijklmnop'.repeat(3), 'aabbccddeeffgghhii'.repeat(2), Buffer.alloc(64, 7), Buffer.from('404e635266556a586e3272357538782f413f4428472b4b6250645367566b5970', 'hex'),
      'AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow'
    ],
    strong: ['abcdefghijklmnopq'.repeat(2), 'abcdefghij'.repeat(4).slice(1, 39), 'aabbccddeeffgghhiijj'.repeat(2), randomBytes(32), randomBytes(32).toString('hex'), 'a-string-secret-at-least-256-bits-long.']
  }
  const places = (key: string | Buffer): Partial<TokenAuthOptions>[] => [{ secret: key }, { secret: undefined, keys: [{ key }], sessions: undefined }, { sessions: { secret: key } }]
  const codes = warnings(t, 'W02')
  const app = await build(t)
  for (const key of weak) {
    for (const options of places(key)) {
      codes.splice(0)
      if (Buffer.byteLength(key) >= 32) assert.equal(await failureOf(t, options), undefined, caseOf(key, options))
      await settled()
      if (Buffer.byteLength(key) >= 32) assert.deepEqual(codes, ['TOKEN_AUTH_W02'], String(key))
    }
  }
  environment(t, 'production')
  for (const key of weak) {
    for (const options of places(key)) t.match(await failureOf(t, options), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E23' }, String(key))
    t.throws(() => app.tokenAuth.protect({ secret: key }), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E23' })
  }
  codes.splice(0)
  for (const key of strong) assert.equal(await failureOf(t, { secret: key }), undefined, String(key))
  await settled()
  t.same(codes, [])
})

// Promise: security/wrong-weak-confused
t.test('a reload with a weak secret fails in production, and warns elsewhere once', async (t) => {
  const codes = warnings(t, 'W02')
  const weak = 'changeme'.repeat(4)
  let keys = [{ key: secret }]
  const app = await build(t, { secret: undefined, keys: async () => keys })
  keys = [{ key: secret }, { key: weak }]
  environment(t, 'production')
  await t.rejects(app.tokenAuth.reloadKeys(), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E23' })
  environment(t, 'development')
  await app.tokenAuth.reloadKeys()
  await settled()
  t.same(codes.splice(0), ['TOKEN_AUTH_W02'])
  keys = [{ key: weak }, { key: secret }]
  await app.tokenAuth.reloadKeys()
  await settled()
  t.same(codes, [], 'of a key that was there before, it has been said')
})

// Promise: security/settings-without-safe
t.test('settings that are safe warn of nothing, with every algorithm', async (t) => {
  const codes = warnings(t)
  const safe: Partial<TokenAuthOptions>[] = [
    {}, { cookieSet: true }, { cookieSet: true, cookieHttponly: false, cookieSplit: true }, { cookieSecure: false }, { debug: true },
    { secret: undefined, authMode: false, issuers: [fixed()] }, { retrieveUser: () => null, issuers: [fixed(), fixed({ issuer: 'https://other.example' })] },
    // Tokens of the own keys have sessions.
    { retrieveUser: () => null, issuers: [fixed()], sessions: {} },
    { secret: undefined, authMode: false, keys: [{ key: secret }], retrieveUser: () => null, issuers: [fixed()], sessions: { store: memorySessions() } },
    { verifyExp: true, leeway: 59, expirationDelta: 60 }, { claimNbf: true }, { secret: Buffer.from(secret).subarray(0, 32) }
  ]
  for (const options of safe) await build(t, options)
  for (const algorithm of ['HS512', 'ES256', 'RS256', 'EdDSA'] as const) await build(t, keysFor(algorithm))
  await settled()
  t.same(codes, [])
})

// Promise: security/wrong-weak-confused
t.test('a key may come from a file, by path or URL, and is checked like any other', async (t) => {
  const folder = t.testdir()
  mkdirSync(folder, { recursive: true })
  const good = join(folder, 'secret')
  const bad = join(folder, 'public.pem')
  writeFileSync(good, secret)
  writeFileSync(bad, rsa.publicKey)
  for (const key of [{ path: good }, pathToFileURL(good)]) assert.equal(await failureOf(t, { secret: key }), undefined, caseOf(key))
  for (const key of [{ path: bad }, pathToFileURL(bad)]) t.match(await failureOf(t, { secret: key }), { finding: 'TOKEN_AUTH_E02' })
})

// Promise: security/open-redirect
// Promise: specification/redirect-target-path
t.test('a redirect to another host by a slip is refused at registration and where a guard is made', async (t) => {
  const app = await build(t)
  for (const url of ['//evil.example', '/\\evil.example', '\\/evil.example', 'javascript:alert(1)', 'data:text/html,x', 'evil.example', '', ' /x', '/\t/evil.example', 'https:evil.example', 'https:///evil.example', 'http://\\evil', '/x\r\nset-cookie: a=b']) {
    t.match(await failureOf(t, { loginRedirectUrl: url }), { name: 'InvalidConfiguration' }, JSON.stringify(url))
    t.throws(() => app.tokenAuth.protect({ redirectOnFail: true, redirectUrl: url }), { name: 'InvalidConfiguration' }, JSON.stringify(url))
  }
})
