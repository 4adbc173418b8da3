/**
 * Every message of a wrong configuration, as a newcomer reads it: it says what was given, what is allowed, what to do and
 * where to read more. messages.txt has them, each below what was given, in the order of the cases below, so that whoever
 * changes one reads it once more. `UPDATE_MESSAGES=1 npm run test:unit -- test/messages/messages.test.ts` writes it, but not in CI.
 */
import { createPrivateKey, createPublicKey, createSecretKey, generateKeyPairSync } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest, onResponseHookHandler, RouteHandler, RouteShorthandOptions } from 'fastify'
import t, { type Test } from 'tap'
import ts from 'typescript'
import tokenAuth, {
  Authentication, Configuration, HandlerFailed, injectUser, InvalidConfiguration, memorySessions, postgresSessions, postgresSessionSchema, protect, redisSessions, scoped, TokenAuthError, type UserRouteHandler, View
} from '../../lib/index.ts'
import { hmacKey } from '../../lib/keys/material.ts'
import { remoteKeySet } from '../../lib/authorities/remote-key-set.ts'
import { loadSerializer } from '../../lib/http/cookies.ts'
import { attack, createTestToken, type AttackedRequest, type AttackOptions, type AttackTarget } from '../../lib/testing.ts'
import { authenticate, bearer, build, claims, ecPair, environment, forge, holdTimers, host, leaksIn, mistyped, otherSecret, rsaPair, secret } from '../helper.ts'

const root = new URL('../../', import.meta.url)
const snapshot = new URL('messages.txt', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')

/** The error of a registration in an application with this configuration. */
async function refused (t: Test, options: object, config: object = {}): Promise<string> {
  const app = host(t)
  app.decorate('config', config)
  app.decorate('taken', true)
  const message = await said(async () => await app.register(tokenAuth, { secret, authenticate, ...options }))
  // While it is open, it would be another instance with the same key.
  await app.close()
  return message
}

/** The errors of wrong configurations. The last one is seen by clients, so it names no page of the documents. */
const names = [...Array.from(read('lib/configuration-errors.ts').matchAll(/^export class (\w+)/gm), ([, name = '']) => name), 'InitializationFailure']

/** The message of an error, with its name where that is not the usual one. */
function messageOf (error: unknown): string {
  if (!(error instanceof TokenAuthError)) return String(error)
  const message = error.message.replace('node_modules/fastify-token-auth/', '')
  return error instanceof InvalidConfiguration ? message : `${error.name}: ${message}`
}

/** In place of a message. */
const noError = 'no error'

/** The message of what a function throws, or of what it hides from clients. */
async function said (act: () => unknown): Promise<string> {
  try {
    await act()
    return noError
  } catch (error) {
    return messageOf(error instanceof HandlerFailed ? error.cause : error)
  }
}

type Act = (request: FastifyRequest, reply: FastifyReply, app: FastifyInstance) => unknown

/** What something says that is done while a request waits. */
async function during (t: Test, options: object, act: Act): Promise<string> {
  const app = await build(t, options)
  let message = ''
  app.get('/', async (request, reply) => {
    message = await said(() => act(request, reply, app))
    return reply.sent ? reply : 'done'
  })
  await app.inject({ url: '/', headers: bearer(forge(claims())) })
  await app.close()
  return message
}

/** An option: a configuration class with these members. */
const inClass = (members: object) => ({
  configurationClass: class extends Configuration {
    constructor () {
      super()
      Object.assign(this, members)
    }
  }
})

class Ping extends View { override get () { return 'pong' } }
class Silent extends View {}
class Misguarded extends Ping { override readonly guards = { post: this.instance.protect() } }
class Unguarded extends Ping { override readonly guards = mistyped<View['guards']>({ get: [] }) }
class Dropped extends Ping { static guards = {} }
class Astray extends Ping { onRequest = this.instance.protect() }
class Slip extends Ping { guard = { get: this.instance.protect() } }
class Wrong extends Authentication { constructor () { super(); Reflect.set(this, 'retrieveUser', 'x') } }

const [setup, verify] = [() => 1, () => true]
const rsa = rsaPair()
const ec = ecPair('prime256v1')
const ed = generateKeyPairSync('ed25519')
const edPublic = ed.publicKey.export({ type: 'spki', format: 'pem' })
const rs = { secret: undefined, algorithm: 'RS256', ...rsa }
const es = { secret: undefined, algorithm: 'ES256', ...ec }
const encrypted = createPrivateKey(rsa.privateKey).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' })
/** The public half of a pair with the exponent 1. */
const jwk = createPublicKey(rsa.publicKey).export({ format: 'jwk' })
const otherJwk = createPublicKey(rsaPair(2048, 1).publicKey).export({ format: 'jwk' })
const everyoneSigns = createPublicKey({ key: { ...jwk, e: 'AQ' }, format: 'jwk' })
const der = createPublicKey(rsa.publicKey).export({ type: 'spki', format: 'der' })

/** An issuer of whose keys nothing is read, because every registration with it fails. */
const trusted = { issuer: 'https://issuer.example', audience: 'api', jwksUri: 'https://issuer.example/jwks' }

/** The first key verifies for as long as its last token is valid, so nothing is wrong. */
const exactOverlap = [{ key: secret, verifyUntil: '2999-01-01T00:33:00Z' }, { key: otherSecret, signFrom: '2999-01-01T00:00:00Z' }]

/** No list: an array would be read as options with the names "0" and "1". */
type Options = Record<string, unknown>

/** What is given: the options, or with names where the options would not show what is wrong, or would show a key. */
type Cases = Options[] | Record<string, Options>

/** What is given, in one line, with names for keys and what is long. */
function labelOf (options: Options): string {
  const line = (value: unknown) => inspect(value, { depth: 5, compact: true, breakLength: Infinity, maxArrayLength: 3 })
  const named = {
    secret, otherSecret, 'rsa.publicKey': rsa.publicKey, 'jwk.n': jwk.n, 'memorySessions()': memorySessions(), 'new URL(trusted.issuer)': new URL(trusted.issuer), 'new URL(trusted.jwksUri)': new URL(trusted.jwksUri)
  }
  return Object.entries(named).reduce((text, [name, value]) => text.replaceAll(line(value), name), line(options))
}

const labelled = (cases: Cases): [label: string, options: Options][] => Array.isArray(cases) ? cases.map((options) => [labelOf(options), options]) : Object.entries(cases)

/** Options of registrations, by what is wrong with them. */
const registrations: Record<string, Cases> = {
  'names of options': [
    { expiration_delta: 60 },
    { zzzzzzzzzz: 1 },
    { leeway: 1, setLeeway: 2 },
    { getUrlPrefix: () => '/x' },
    { getLeeway: 5 }
  ],
  'values of settings': [
    { leeway: '5' },
    { leeway: () => 5 },
    { secret: () => 'red' },
    { urlPrefix: () => '/auth' },
    { leeway: -1 },
    { cookieSet: 'yes' },
    { algorithm: 'none' },
    { claimIss: '' },
    { cookieMaxAge: 0 },
    { cookieSamesite: 'Lax' },
    { authorizationHeader: '__Proto__' },
    { cookieAccessTokenName: 'a=b' },
    { queryStringAccessTokenName: 'a[]' },
    { userId: '' },
    { pathToVerify: '/:id' },
    { urlPrefix: '/auth/' },
    { loginRedirectUrl: '//evil' },
    { cookiePath: 'x' },
    { cookieDomain: 'https://a' },
    { authorizationHeaderPrefix: 'two words' },
    { instanceName: 'a-b' },
    { generateRefreshToken: 'x' },
    { secret: null },
    { trustedOrigins: 'https://app.example.org' },
    { trustedOrigins: null },
    { trustedOrigins: [`not an origin, ${'x'.repeat(60)}`] },
    { trustedOrigins: ['https://app.example.org', 1] },
    { trustedOrigins: ['*'] },
    { trustedOrigins: ['null'] },
    { trustedOrigins: ['https://*.example.org'] },
    { trustedOrigins: ['https://app.example.org/'] },
    { trustedOrigins: ['https://app.example.org/login'] },
    { trustedOrigins: ['https://App.Example.org'] },
    { trustedOrigins: ['https://app.example.org:443'] },
    { trustedOrigins: ['http://app.example.org:80'] },
    { trustedOrigins: ['https://user@app.example.org'] },
    { trustedOrigins: ['wss://app.example.org'] },
    { trustedOrigins: ['https://bücher.example'] },
    { trustedOrigins: ['http://127.1'] },
    { trustedOrigins: ['https://app.example.org?x'] },
    { trustedOrigins: ['app.example.org'] },
    { trustedOrigins: ['localhost:5173'] },
    { trustedOrigins: ['//app.example.org'] },
    { trustedOrigins: ['https://'] },
    { trustedOrigins: ['file://'] },
    { trustedOrigins: ['ftp://app.example.org'] },
    { trustedOrigins: [''] },
    { trustedOrigins: ['capacitor://Localhost'] },
    { setLeeway: async () => 5 }
  ],
  'settings together': [
    { accessTokenName: 'refresh_token' },
    { cookieAccessTokenName: 'refresh_token' },
    { queryStringAccessTokenName: 'refresh_token' },
    { userId: 'scopes' },
    { userId: 'exp' },
    { claimAuthTime: true, userId: 'auth_time' },
    { pathToRefresh: '/' },
    { pathToVerify: '/me' },
    { cookieSet: true, cookieSamesite: 'none', cookieSecure: false },
    { cookieSet: true, cookiePartitioned: true },
    { cookieSet: true, cookieAccessTokenName: '__Host-token', cookieDomain: 'example.org' }
  ],
  'the configuration class': {
    'leway = 1': inClass({ leway: 1 }),
    'leeway = \'1\'': inClass({ leeway: '1' }),
    'setLeeway = () => \'1\'': inClass({ setLeeway: () => '1' }),
    'getAuthMode = () => true': inClass({ getAuthMode: () => true }),
    'leeway = 1, setLeeway = 1': inClass({ leeway: 1, setLeeway: 1 }),
    'does not extend Configuration': { configurationClass: class {} }
  },
  'handlers, lists and classes': [
    { authenticate: undefined },
    { authenticate: 'x' },
    { refreshTokenEnabled: true },
    { refreshTokenEnabled: true, storeRefreshToken: () => {} },
    { authenticationClass: {} },
    { authenticationClass: Wrong },
    { responsesClass: 'x' },
    { extraVerifications: () => true },
    { extraVerifications: [true] },
    { instanceName: 'taken' },
    { customClaims: {} },
    { customClaims: ['x'] },
    { customClaims: [() => {}] },
    { customClaims: [{}] },
    { customClaims: [{ key: '' }] },
    { customClaims: [{ key: 'a' }] },
    { customClaims: [{ key: 'exp', setup, verify }] },
    { classViews: {} },
    { classViews: ['/ping'] },
    { classViews: [['/ping', Ping, 1]] },
    { classViews: [['ping', Ping]] },
    { classViews: [[1, Ping]] },
    { classViews: [['/ping', 'x']] },
    { classViews: [['/ping', class Page {}]] },
    { classViews: [['/ping', Silent]] },
    { classViews: [['/ping', Misguarded]] },
    { classViews: [['/ping', Unguarded]] },
    { classViews: [['/ping', Astray]] },
    { classViews: [['/ping', Slip]] },
    { classViews: [['/ping', class extends View {}]] },
    { classViews: [['/ping', Dropped]] },
    { classViews: [['/me', Ping]] }
  ],
  // test/sessions/settings.test.ts has every form of these.
  sessions: [
    { sessions: [] },
    { sessions: { idel: 5 } },
    { sessions: { poll: '5' } },
    { sessions: { store: {} } },
    { sessions: mistyped(memorySessions()) },
    { authMode: false, sessions: mistyped({}) },
    { sessions: { secret: 'short' } },
    { sessions: {}, generateRefreshToken: () => 'x' },
    { sessions: {}, storeRefreshToken: () => {} },
    { sessions: {}, refreshTokenEnabled: false },
    { sessions: {}, getLeeway: () => 5 },
    { sessions: {}, verifyExp: false },
    { sessions: {}, userId: 'sid' }
  ],
  secrets: {
    empty: { secret: '' },
    'public key, PEM': { secret: rsa.publicKey },
    'public key, KeyObject': { secret: createPublicKey(rsa.publicKey) },
    'public key, DER': { secret: der },
    'public key, base64': { secret: der.toString('base64') },
    'public key of ssh': { secret: 'ssh-ed25519 AAAA' },
    'JWK as text': { secret: '{"kty":"oct"}' },
    'public key, hexadecimal': { secret: der.toString('hex') },
    'JWK, RSA': { secret: jwk },
    'JWK, "k" is not base64url': { secret: { kty: 'oct', k: 'not base64url' } },
    'JWK, "use" is "enc"': { secret: { kty: 'oct', k: 'AAAA', use: 'enc' } },
    'JWK, "key_ops" is ["sign"]': { secret: { kty: 'oct', k: 'AAAA', key_ops: ['sign'] } },
    'JWK, "alg" is "HS512"': { secret: { kty: 'oct', k: 'AAAA', alg: 'HS512' } },
    'passphrase without private key': { secret: { pem: 'x'.repeat(32), passphrase: 'x' } },
    'https: URL': { secret: new URL('https://example.org/key') },
    'path of a missing file': { secret: { path: '/nonexistent/key' } },
    'path of a folder': { secret: { path: fileURLToPath(root) } },
    'JWK with a path': { secret: { kty: 'oct', path: '/nonexistent/key' } }
  },
  keys: [
    { keys: 'x' },
    { keys: [] },
    { keys: Array(17).fill({ key: secret }) },
    { keys: [secret] },
    { keys: [{ key: secret, signfrom: 1 }] },
    { keys: [{ key: secret }, { kid: 'x' }] },
    { keys: [{ key: secret, algorithm: 'none' }] },
    { keys: [{ key: secret, kid: '' }] },
    { keys: [{ key: { ...jwk, kid: 5, alg: 'RS256' } }] },
    { keys: [{ key: { ...jwk, alg: 'RSA-OAEP' } }] },
    { keys: [{ key: secret }, { key: otherSecret, kid: 'a' }, { key: rsa.publicKey, algorithm: 'RS256', kid: 'a' }] },
    { keys: [{ key: secret, signFrom: '2027-01-01' }] },
    { keys: [{ key: secret, verifyUntil: new Date(NaN) }] },
    { keys: [{ key: secret, signFrom: 1_800_000_000 }] },
    { keys: [{ key: secret, signFrom: '2999-01-01T00:00:00Z' }] },
    { keys: [{ key: secret, verifyUntil: '2999-01-01T00:32:59Z' }, { key: otherSecret, signFrom: '2999-01-01T00:00:00Z' }] },
    { keys: exactOverlap },
    { keys: [{ key: secret, verifyUntil: '2999-01-01T00:00:00Z' }] },
    { verifyExp: false, keys: [{ key: secret, verifyUntil: '2999-01-01T00:00:00Z' }] },
    { getLeeway: () => 5, keys: [{ key: secret, verifyUntil: '2999-01-01T00:00:00Z' }] },
    { keys: [{ key: secret }], publicKey: secret },
    { keys: [{ key: secret }], getAlgorithm: () => 'HS256' },
    { keys: [{ key: secret }], pathToJwks: '/jwks' },
    { keys: [{ key: secret }], sessions: {} },
    { keys: () => { throw new Error('down') } }
  ].map((options) => ({ secret: undefined, ...options })),
  issuers: [
    { issuers: 'https://issuer.example' },
    { issuers: [] },
    { issuers: ['https://issuer.example'] },
    { issuers: [{ ...trusted, jwksUrl: 'x' }] },
    { issuers: [{ ...trusted, issuer: '' }] },
    { issuers: [{ ...trusted, issuer: new URL(trusted.issuer) }] },
    { issuers: [{ ...trusted, audience: undefined }] },
    { issuers: [{ ...trusted, audience: ['api', 5] }] },
    { issuers: [{ ...trusted, jwksUri: undefined }] },
    { issuers: [{ ...trusted, jwks: { keys: [] } }] },
    { issuers: [{ ...trusted, jwksUri: undefined, jwks: { keys: [] } }] },
    { issuers: [{ ...trusted, jwksUri: 'http://issuer.example/jwks' }] },
    { issuers: [{ ...trusted, jwksUri: new URL(trusted.jwksUri) }] },
    { issuers: [{ ...trusted, algorithms: ['RS256', 'HS256'] }] },
    { issuers: [{ ...trusted, algorithms: 'RS256' }] },
    { issuers: [{ ...trusted, userId: 'exp' }] },
    { issuers: [{ ...trusted, audienceName: 'iss' }] },
    { issuers: [{ ...trusted, audienceName: 5 }] },
    { issuers: [{ ...trusted, scopesName: [] }] },
    { issuers: [{ ...trusted, scopesName: ['scp', undefined] }] },
    { issuers: [{ ...trusted, exactScopes: 'no' }] },
    { issuers: [{ ...trusted, typ: 'JWT' }] },
    { issuers: [{ ...trusted, typ: 5 }] },
    { issuers: [{ ...trusted, staleIfError: 60 }] },
    { issuers: [{ ...trusted, staleIfError: '3600' }] },
    { issuers: [trusted, { ...trusted, audience: 'other' }] },
    { issuers: [trusted], claimIss: 'https://issuer.example' },
    { issuers: [trusted], getSecret: () => secret }
  ],
  'pairs of keys': {
    'RS256, no public key': { ...rs, publicKey: undefined },
    'RS256, no private key': { ...rs, privateKey: undefined },
    'RS256, private key as public key': { ...rs, publicKey: rsa.privateKey },
    'RS256, secret as public key': { ...rs, publicKey: createSecretKey(Buffer.from(secret)) },
    'RS256, public key as private key': { ...rs, privateKey: rsa.publicKey },
    'RS256, both halves as private key': { ...rs, privateKey: rsa.privateKey + rsa.publicKey },
    'RS256, public KeyObject as private key': { ...rs, privateKey: createPublicKey(rsa.publicKey) },
    'RS256, encrypted, no passphrase': { ...rs, privateKey: encrypted },
    'RS256, encrypted, wrong passphrase': { ...rs, privateKey: { pem: encrypted, passphrase: 'y' } },
    'RS256, JWK without numbers': { ...rs, publicKey: { kty: 'RSA' } },
    'RS256, JWK as text': { ...rs, publicKey: JSON.stringify(jwk) },
    'RS256, JWK with the modulus of another key': { ...rs, privateKey: { ...createPrivateKey(rsa.privateKey).export({ format: 'jwk' }), n: otherJwk.n } },
    'RS256, other text as public key': { ...rs, publicKey: 'x' },
    'HS256, path of a file as secret': { secret: fileURLToPath(import.meta.url) },
    'RS256, other text as private key': { ...rs, privateKey: 'x' },
    'RS256, path as public key': { ...rs, publicKey: './public.pem' },
    'RS256, path as secret, no public key': { ...rs, publicKey: undefined, secret: 'keys/public.txt' },
    'RS256, path on Windows as private key': { ...rs, privateKey: 'C:\\private' },
    'RS256, private key with \\n as line ends': { ...rs, privateKey: rsa.privateKey.replaceAll('\n', '\\n') },
    'RS256, exponent 1': { ...rs, publicKey: everyoneSigns },
    'RS256, even exponent': { ...rs, publicKey: { ...jwk, e: 'AQAA' } },
    'RS256, exponent of 2048 bits': { ...rs, publicKey: { ...jwk, e: jwk.n } },
    'RS256, modulus of 10256 bits': { ...rs, publicKey: { ...jwk, n: `${jwk.n}${jwk.n}${jwk.n}${jwk.n}${jwk.n}` } },
    'RS256, public key of ES256': { ...rs, publicKey: ec.publicKey },
    'RS256, modulus of 1024 bits': { ...rs, ...rsaPair(1024) },
    'RS256, halves of two pairs': { ...rs, privateKey: rsaPair(2048, 1).privateKey },
    'ES256, public key of RS256': { ...es, publicKey: rsa.publicKey },
    'ES256, pair of ES384': { ...es, ...ecPair('secp384r1') },
    'ES256, public key of EdDSA': { ...es, publicKey: edPublic },
    'EdDSA, pair of ES256': { ...es, algorithm: 'EdDSA' },
    'EdDSA, public key of small order': { ...es, algorithm: 'EdDSA', publicKey: { kty: 'OKP', crv: 'Ed25519', x: Buffer.alloc(32).toString('base64url') } }
  }
}

const configurations: Options[] = [
  { SERVICE_JWT_LEEWAY: '5s' },
  { SERVICE_JWT_DEBUG: 'yes' },
  { SERVICE_JWT_DEBUG: null },
  { SERVICE_JWT_TRUSTED_ORIGINS: 'https://app.example.org, https://other.example.org/' },
  { SERVICE_JWT_TRUSTED_ORIGINS: '* https://app.example.org' },
  { SERVICE_JWT_EXPIRATION: '60' },
  { SERVICE_JWT_ZZZZZZZZZZZZZZZZZZZ: '1' }
]

const guardOptions: Options[] = [
  { leeway: '5' },
  { leway: 5 },
  { urlPrefix: '/x' },
  { redirectOnFail: 'yes' },
  { redirectUrl: '//evil' },
  { redirectUrl: 5 },
  { redirectUrl: '/login?to={to}' },
  { maxAge: 0 },
  { maxAge: '300' },
  { secret: null }
]

const guards: Record<string, () => unknown> = {
  "protect('x')": () => protect(mistyped('x')),
  'protect(5)': () => protect(mistyped(5)),
  "scoped('user', 'admin')": () => scoped('user', mistyped('admin')),
  "scoped('user', { requireall: false })": () => scoped('user', mistyped({ requireall: false })),
  "protect({ optional: 'yes' })": () => protect({ optional: mistyped<boolean>('yes') }),
  "scoped('user', { optional: true })": () => scoped('user', mistyped({ optional: true })),
  'protect({ requireAll: false })': () => protect(mistyped({ requireAll: false })),
  'protect({ on: 5 })': () => protect(mistyped({ on: 5 })),
  'scoped()': () => scoped(mistyped<string>(undefined)),
  "scoped(['user', 'user:read '])": () => scoped(['user', 'user:read ']),
  "scoped('user', { requireAll: 'yes' })": () => scoped('user', mistyped({ requireAll: 'yes' })),
  'injectUser(5)': () => injectUser(mistyped<UserRouteHandler<object>>(5))
}

const testTokens: Options[] = [
  { states: 'expired' },
  { state: 'late' },
  { state: 'otherIssuer' },
  { state: 'otherAudience' }
]

const requests: Record<string, [options: object, act: Act]> = {
  'protect itself as a hook': [{}, (request, reply) => Reflect.apply(protect, undefined, [request, reply])],
  'a guard as another kind of hook': [{}, (request, reply, app) => Reflect.apply(app.tokenAuth.protect(), undefined, [request, reply, {}])],
  'a guard without parameters': [{}, (_request, _reply, app) => Reflect.apply(app.tokenAuth.protect(), undefined, [])],
  'a handler of injectUser() without the reply': [{}, (request, _reply, app) => Reflect.apply(app.tokenAuth.injectUser(async () => 'reached'), undefined, [request])],
  "protect({ instanceName: 'staff' }), no such instance": [{}, (request, reply) => protect({ instanceName: 'staff' })(request, reply)],
  'scopes among the options of protect()': [{}, (_request, _reply, app) => app.tokenAuth.protect(mistyped({ scopes: ['admin'] }))],
  'roles among the options of scoped()': [{}, (_request, _reply, app) => app.tokenAuth.scoped('admin', mistyped({ roles: 'admin' }))],
  "maxAge, of an instance's guard": [{}, (_request, _reply, app) => app.tokenAuth.protect({ maxAge: 300 })],
  'maxAge, of a guard of any instance': [{}, (request, reply) => protect({ maxAge: 300 })(request, reply)],
  "maxAge, scopesName: 'auth_time'": [{ authMode: false, scopesName: 'auth_time' }, (_request, _reply, app) => app.tokenAuth.protect({ maxAge: 300 })],
  'generateAccessToken(), authTime: 1.5': [{}, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 }, { authTime: 1.5 })],
  'sessions.list(1), no sessions': [{}, (_request, _reply, app) => app.tokenAuth.sessions.list(1)],
  'sessions.list()': [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.sessions.list(mistyped(undefined))],
  "sessions.endAll(1, 'x')": [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.sessions.endAll(1, mistyped('x'))],
  "sessions.endAll(1, { exept: 'x' })": [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.sessions.endAll(1, mistyped({ exept: 'x' }))],
  "sessions.endAll(1, { except: 'x' })": [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.sessions.endAll(1, { except: 'x' })],
  "sessions.start(), { persistent: 'no' }": [{ sessions: {} }, (request, reply, app) => app.tokenAuth.sessions.start(request, reply, { user_id: 1 }, mistyped({ persistent: 'no' }))],
  'sessions.start(), a user in place of the request': [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.sessions.start(mistyped({ user_id: 1 }), mistyped(undefined), { user_id: 1 })],
  'sessions.stop(), no reply': [{ sessions: {} }, (request, _reply, app) => app.tokenAuth.sessions.stop(request, mistyped(undefined))],
  'sessions.start(), a claim of the plugin': [{ sessions: {} }, (request, reply, app) => app.tokenAuth.sessions.start(request, reply, { user_id: 1 }, { claims: { sid: 'x' } })],
  'sessions.start(), 513 bytes of claims': [{ sessions: {} }, (request, reply, app) => app.tokenAuth.sessions.start(request, reply, { user_id: 1 }, { claims: { a: 'x'.repeat(505) } })],
  'sessions.login returns a misspelled member': [{ sessions: { login: () => ({ claim: {} }) } }, (request, reply, app) => app.tokenAuth.sessions.start(request, reply, { user_id: 1 })],
  "can('a b')": [{}, ({ tokenAuth }) => tokenAuth.can('a b')],
  "can('user', { requireAl: false })": [{}, ({ tokenAuth }) => tokenAuth.can('user', mistyped({ requireAl: false }))],
  'generateRefreshToken(), with sessions': [{ sessions: {} }, (request, _reply, app) => app.tokenAuth.generateRefreshToken(request, { user_id: 1 })],
  'reloadKeys(), no keys': [{}, (_request, _reply, app) => app.tokenAuth.reloadKeys()],
  'reloadKeys(), keys as a list': [{ secret: undefined, keys: [{ key: secret }] }, (_request, _reply, app) => app.tokenAuth.reloadKeys()],
  'guard overrides algorithm, with keys': [{ secret: undefined, keys: [{ key: secret }] }, (_request, _reply, app) => app.tokenAuth.protect({ algorithm: 'HS512' })],
  'guard overrides secret, with issuers': [{ authMode: false, issuers: [{ issuer: 'https://issuer.example', audience: 'api', algorithms: ['RS256'], jwks: { keys: [createPublicKey(rsa.publicKey).export({ format: 'jwk' })] } }], retrieveUser: () => null }, (_request, _reply, app) => app.tokenAuth.protect({ secret: otherSecret })],
  'generateAccessToken(), no key signs': [{ secret: undefined, authMode: false, algorithm: 'RS256', keys: [{ key: rsa.publicKey }] }, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 })],
  'guard overrides verifyExp, with sessions': [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.protect({ verifyExp: false })],
  'guard overrides leeway with 2161, with sessions': [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.protect({ leeway: 2161 })],
  'sessions.start(), authTime: a Date': [{ sessions: {} }, (request, reply, app) => app.tokenAuth.sessions.start(request, reply, { user_id: 1 }, mistyped({ authTime: new Date() }))],
  'getTrustedOrigins returns a URL with a path': [{ cookieSet: true, getTrustedOrigins: () => mistyped<string[]>(['https://app.example.org/']) }, (request) => request.tokenAuth.settings.trustedOrigins],
  'payload before an asynchronous key': [{ getSecret: async () => secret }, (request) => request.tokenAuth.payload],
  'payload read by the handler trusted': [{ trusted: ({ tokenAuth }: FastifyRequest) => tokenAuth.payload !== null }, (request) => request.tokenAuth.payload],
  'getSecret returns 5': [{ secret: undefined, getSecret: () => 5 }, (request) => request.tokenAuth.payload],
  'getLeeway returns a promise': [{ getLeeway: async () => 5 }, (request) => request.tokenAuth.payload],
  'generateAccessToken(), getClaimIss needs a request': [{ getClaimIss: () => null }, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 })],
  'verifyToken(), getLeeway needs a request': [{ getLeeway: () => 5 }, (_request, _reply, app) => app.tokenAuth.verifyToken(forge(claims()))],
  'verifyToken(), trusted needs a request': [{ trusted: () => true }, (_request, _reply, app) => app.tokenAuth.verifyToken(forge(claims()))],
  "generateAccessToken(), { scope: 'a' }": [{}, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 }, mistyped({ scope: 'a' }))],
  'generateAccessToken(), options as a promise': [{}, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 }, mistyped(Promise.resolve({ scopes: null })))],
  'generateAccessToken(1)': [{}, (_request, _reply, app) => app.tokenAuth.generateAccessToken(mistyped(1))],
  'generateRefreshToken(), no storeRefreshToken': [{}, (request, _reply, app) => app.tokenAuth.generateRefreshToken(request, { user_id: 1 })]
}

/** Notes the message of a case. */
type Tell = (given: string, message: string) => void

/** Makes the messages about one subject, in an order that stays. */
type Teller = (t: Test, tell: Tell) => Promise<unknown>

const tellers: Record<string, Teller> = {
  ...Object.fromEntries(Object.entries(registrations).map(([subject, cases]): [string, Teller] => [`Registration: ${subject}`, async (t, tell) => {
    for (const [given, options] of labelled(cases)) tell(given, await refused(t, options))
  }])),

  'Registration: the configuration of the application': async (t, tell) => {
    for (const [given, config] of labelled(configurations)) tell(given, await refused(t, {}, config))
  },

  'Registration: others on the same application, routes, and production': async (t, tell) => {
    const [twice, second] = [await build(t), await build(t)]
    tell('another instance, same routes', await said(async () => await second.register(tokenAuth, { secret, authenticate, instanceName: 'partner' })))
    tell('another instance, same name', await said(async () => await twice.register(tokenAuth, { secret, authMode: false })))
    tell('options: new Map()', await said(async () => await host(t).register(tokenAuth, mistyped(new Map([['secret', secret]])))))
    tell('options: a promise', await said(async () => await host(t).register(tokenAuth, mistyped(Promise.resolve({ secret })))))
    tell('{ tokensInBody: false }', await refused(t, { tokensInBody: false }))
    const misguarded = await build(t)
    misguarded.get('/reports', mistyped<RouteShorthandOptions>({ prehandler: misguarded.tokenAuth.protect() }), async () => 'reached')
    tell('a guard as prehandler', await said(async () => await misguarded.ready()))
    const context = await build(t)
    context.addHook('onResponse', mistyped<onResponseHookHandler>(context.tokenAuth.protect()))
    context.get('/reports', async () => 'reached')
    tell('a guard as onResponse of a context', await said(async () => await context.ready()))
    tell('routes() before the application is ready', await said(() => context.tokenAuth.routes()))
    const declared = await build(t)
    declared.get('/reports', { config: mistyped<FastifyContextConfig>({ tokenAuth: true }) }, async () => 'reached')
    tell('config.tokenAuth: true', await said(async () => await declared.ready()))
    const blank = await build(t)
    blank.get('/reports', { config: { tokenAuth: ' ' } }, async () => 'reached')
    tell("config.tokenAuth: ' '", await said(async () => await blank.ready()))
    const undecided = await build(t, { requireGuards: true })
    undecided.get('/reports', async () => 'reached')
    tell('requireGuards, a route without guard', await said(async () => await undecided.ready()))
    const hooked = await build(t, { requireGuards: true })
    hooked.get('/reports', { onRequest: async () => {} }, async () => 'reached')
    tell('requireGuards, a route with an unknown hook', await said(async () => await hooked.ready()))
    const uncalled = await build(t)
    tell('protect itself as onRequest', await said(async () => uncalled.get('/reports', { onRequest: mistyped<ReturnType<typeof protect>>(protect) }, async () => 'reached')))
    tell('scoped itself as onRequest', await said(async () => uncalled.get('/reports', { onRequest: mistyped<ReturnType<typeof protect>>(scoped) }, async () => 'reached')))
    tell('injectUser itself as the handler', await said(async () => uncalled.get('/reports', mistyped<RouteHandler>(injectUser))))
    const contradictory = await build(t, { requireGuards: true })
    contradictory.get('/reports', { onRequest: protect(), config: { tokenAuth: false } }, async () => 'reached')
    tell('requireGuards, a guard and config.tokenAuth: false', await said(async () => await contradictory.ready()))
    const early = host(t)
    early.post('/reports', async () => 'reached')
    tell('requireGuards, a route before the plugin', await said(async () => await early.register(tokenAuth, { secret, authMode: false, requireGuards: true })))
    environment(t, 'production')
    tell('production, secret of 31 bytes', await refused(t, { secret: 'x'.repeat(31) }))
    tell('production, secret that repeats', await refused(t, { secret: 'changeme'.repeat(4) }))
    tell('production, sessions.secret of examples', await refused(t, { sessions: { secret: 'a-string-secret-at-least-256-bits-long' } }))
    tell('production, no secret', await refused(t, { secret: undefined }))
  },

  'Registration: the store of the users of another key': async (t, tell) => {
    const store = memorySessions()
    await build(t, { sessions: { store } })
    tell('a store of another key', await refused(t, { secret: otherSecret, sessions: { store } }))
  },

  'Registration: jose is missing': async (_t, tell) => {
    tell('jwksUri without jose', await said(async () => await remoteKeySet('https://issuer.example', async () => ({}))))
  },

  'Registration: Jest without its flag for import()': async (_t, tell) => {
    const refuse = async () => { throw Object.assign(new TypeError('A dynamic import callback was invoked without --experimental-vm-modules'), { code: 'ERR_VM_DYNAMIC_IMPORT_CALLBACK_MISSING_FLAG' }) }
    tell('jwksUri', await said(async () => await remoteKeySet('https://issuer.example', refuse)))
    tell('cookieSet: true', await said(async () => await loadSerializer(refuse)))
    tell('another failure of an import', await said(async () => await loadSerializer(async () => { throw new Error('Cannot find package.') })))
  },

  'Guards of an instance': async (t, tell) => {
    const app = await build(t)
    for (const [given, options] of labelled(guardOptions)) tell(given, await said(() => app.tokenAuth.protect(options)))
  },

  'Guards of any instance': async (_t, tell) => {
    for (const [given, options] of labelled(guardOptions)) tell(given, await said(() => protect(options)))
    for (const [given, make] of Object.entries(guards)) tell(given, await said(make))
  },

  'Guards that cannot renew': async (t, tell) => {
    const pages = await build(t, { sessions: {}, cookieSet: true })
    tell('renew, no sessions', await said(async () => (await build(t)).tokenAuth.protect({ renew: true })))
    tell('renew, overrides secret', await said(() => pages.tokenAuth.protect({ renew: true, secret: otherSecret })))
  },

  'Stores in databases': async (_t, tell) => {
    const ioredis = { status: 'ready', evalsha: async () => [], eval: async () => [] }
    const pool = { query: async () => ({ rows: [] }) }
    const cases: Record<string, () => unknown> = {
      "redisSessions('redis://localhost')": () => redisSessions(mistyped('redis://localhost')),
      'redisSessions(pool of pg)': () => redisSessions(mistyped(pool)),
      'redisSessions(a pipeline)': () => redisSessions(mistyped({ evalsha: () => {}, eval: () => {} })),
      'redisSessions(a promise)': () => redisSessions(mistyped(Promise.resolve(ioredis))),
      "redisSessions(client, 'shop')": () => redisSessions(ioredis, mistyped('shop')),
      "redisSessions(client, { table: 'shop' })": () => redisSessions(ioredis, mistyped({ table: 'shop' })),
      "redisSessions(client, { prefix: '{shop}' })": () => redisSessions(ioredis, { prefix: '{shop}' }),
      'redisSessions(client, { prefix: 5 })': () => redisSessions(ioredis, { prefix: mistyped<string>(5) }),
      'postgresSessions(client of ioredis)': () => postgresSessions(mistyped(ioredis)),
      'postgresSessions(pool of mysql2)': () => postgresSessions(mistyped({ query: () => {}, escapeId: () => {} })),
      'postgresSessions(a promise)': () => postgresSessions(mistyped(Promise.resolve(pool))),
      'postgresSessions(pool, new Map())': () => postgresSessions(pool, mistyped(new Map())),
      "postgresSessions(pool, { table: 'a b' })": () => postgresSessions(pool, { table: 'a b' }),
      "postgresSessions(pool, { replicas: 'true' })": () => postgresSessions(pool, { replicas: mistyped<boolean>('true') }),
      'postgresSessions(pool), rows that are lists': async () => await postgresSessions(mistyped({ query: async () => [['a']] })).endedSince(null, { graceMs: 0, idleMs: 1, keepMs: 1, maxPerUser: 1 }),
      'postgresSessions(pool), row security': async () => await postgresSessions({ query: async () => ({ rows: [{ filtered: 'true' }] }) }).endedSince(null, { graceMs: 0, idleMs: 1, keepMs: 1, maxPerUser: 1 }),
      'postgresSessionSchema(5)': () => postgresSessionSchema(mistyped<string>(5))
    }
    for (const [given, act] of Object.entries(cases)) tell(given, await said(act))
  },

  'createTestToken()': async (t, tell) => {
    const app = await build(t)
    for (const [given, options] of labelled(testTokens)) tell(given, await said(async () => await createTestToken(app.tokenAuth, { user_id: 1 }, options)))
    tell('an application instead of an instance', await said(async () => await createTestToken(mistyped<typeof app.tokenAuth>(app), { user_id: 1 })))
  },

  'attack()': async (t, tell) => {
    const app: AttackTarget = { inject: async () => ({ statusCode: 401, headers: {} }) }
    const request = { method: 'GET', url: '/reports' }
    const token = forge(claims())
    const limited: AttackTarget = { inject: async ({ headers }) => ({ statusCode: headers.authorization === `Bearer ${token}` ? 200 : 429, headers: {} }) }
    // As long as attack() waits for an answer.
    const expire = holdTimers(t, 10_000)
    const silent = { inject: async () => await new Promise(() => setImmediate(expire)) }
    const cases: Record<string, { app?: unknown, request?: unknown, options?: unknown }> = {
      'app: 5': { app: 5 },
      'options: keys': { options: { token, keys: secret } },
      "allowed: 'no token'": { options: { token, allowed: 'no token' } },
      'no token': { options: {} },
      'key: undefined': { options: { token, key: undefined } },
      'token of one part': { options: { token: 'x' } },
      'token signed with HS1': { options: { token: forge({}, { header: { alg: 'HS1' } }) } },
      'request: body': { request: { ...request, body: {} } },
      'no url': { request: { method: 'GET' } },
      'Authorization without the token': { request: { ...request, headers: { Authorization: 'Basic x' } } },
      'token in the path': { request: { ...request, url: `/files/${token}` } },
      'key: 5': { options: { token, key: 5 } },
      'key: otherSecret': { options: { token, key: otherSecret } },
      'a route that answers 401': {},
      'a route that answers nothing': { app: silent },
      'a route with a limit of requests': { app: limited }
    }
    for (const [given, changes] of Object.entries(cases)) {
      const parts = { app, request, options: { token }, ...changes }
      tell(given, await said(async () => await attack(mistyped<AttackTarget>(parts.app), mistyped<AttackedRequest>(parts.request), mistyped<AttackOptions>(parts.options))))
    }
  },

  // By the error, or by the cause of the one that hides it from clients.
  'What only a request shows': async (t, tell) => {
    for (const [given, [options, act]] of Object.entries(requests)) tell(given, await during(t, options, act))
  },

  'A key that is none, for whoever reads it': async (_t, tell) => {
    tell('a number as the secret', await said(() => hmacKey('HS256', 'secret', 5, 'verify')))
  }
}

/** The value of a constant in the functions around its name, or undefined. */
function constantOf (name: ts.Identifier): ts.Expression | undefined {
  for (let scope: ts.Node = name.parent; !ts.isSourceFile(scope); scope = scope.parent) {
    const lists = ts.isBlock(scope) ? scope.statements.filter(ts.isVariableStatement) : []
    const found = lists.flatMap(({ declarationList }) => declarationList.declarations).find((declaration) => declaration.name.getText() === name.text)
    if (found !== undefined) return found.initializer
  }
  return undefined
}

const anything = '[^]*'

/** Expressions, each of which matches the texts that one way through the conditions builds. A constant has one value in all of a text. */
function patternsOf (node: ts.Expression | undefined, resolved = new Set<string>()): string[] {
  const literal = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  const joined = (starts: string[], ends: string[]) => starts.flatMap((start) => ends.map((end) => start + end))
  if (node === undefined) return ['']
  if (ts.isStringLiteralLike(node)) return [literal(node.text)]
  if (ts.isParenthesizedExpression(node)) return patternsOf(node.expression, resolved)
  if (ts.isConditionalExpression(node)) return [...patternsOf(node.whenTrue, new Set(resolved)), ...patternsOf(node.whenFalse, new Set(resolved))]
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) return joined(patternsOf(node.left, resolved), patternsOf(node.right, resolved))
  if (ts.isTemplateExpression(node)) {
    return node.templateSpans.reduce((found, { expression, literal: { text } }) => joined(joined(found, patternsOf(expression, resolved)), [literal(text)]), [literal(node.head.text)])
  }
  const value = ts.isIdentifier(node) && !resolved.has(node.text) ? constantOf(node) : undefined
  if (value === undefined) return [anything]
  return patternsOf(value, resolved.add(node.getText()))
}

/** What the errors say that a file of lib/ makes: the text alone, and as messages.txt has it. */
function placesIn (file: string): { file: string, text: string, pattern: string }[] {
  const source = ts.createSourceFile(file, read(`lib/${file}`), ts.ScriptTarget.Latest, true)
  const found: ReturnType<typeof placesIn> = []
  const visit = (node: ts.Node) => {
    const name = ts.isNewExpression(node) ? node.expression.getText() : ''
    if (ts.isNewExpression(node) && names.includes(name)) {
      const start = name === 'InvalidConfiguration' ? '' : `${name}: `
      found.push(...patternsOf(node.arguments?.[0]).map((text) => ({ file: file.replaceAll('\\', '/'), text, pattern: `^${start}${text}(?: See docs/\\S+)?$` })))
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

// Promise: keys/valid-token-refused
// Promise: specification/every-message-about
t.test('every message of a wrong configuration is in messages.txt, and the page that it names is there', async (t) => {
  const told: { subject: string, given: string, message: string }[] = []
  for (const [subject, tell] of Object.entries(tellers)) {
    await t.test(subject, async (t) => await tell(t, (given, message) => { told.push({ subject, given, message }) }))
  }
  const messages = told.map(({ message }) => message)
  const isAgain = ({ subject, given }: typeof told[number], index: number) => told.findIndex((other) => other.subject === subject && other.given === given) !== index
  t.strictSame(told.filter(isAgain), [], 'each case of a subject has its own name')

  const indented = (message: string) => message.replaceAll('\n', '\n  ')
  const text = Object.keys(tellers).map((subject) => `${subject}\n\n${told.filter((one) => one.subject === subject).map(({ given, message }) => `- ${given}\n  ${indented(message)}\n`).join('')}`).join('\n')
  t.strictSame(leaksIn([text]), [])
  const isUpdate = process.env.UPDATE_MESSAGES === '1'
  if (isUpdate && process.env.CI) throw new Error('UPDATE_MESSAGES is not for CI, which must find what has changed.')
  if (isUpdate) writeFileSync(snapshot, text)
  t.equal(text, readFileSync(snapshot, 'utf8'), 'messages.txt is out of date: `UPDATE_MESSAGES=1 node scripts/test/unit.js test/messages/messages.test.ts` writes it')
  t.strictSame(told.filter(({ message }) => message === noError).map(({ given }) => given), [labelOf({ secret: undefined, keys: exactOverlap })], 'one second less is a message above')

  const places = readdirSync(new URL('lib/', root), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts')).flatMap(placesIn)
  t.ok(places.length > 70)
  const isOpen = ({ text }: { text: string }) => !/[a-z]{3}/i.test(text.replaceAll(anything, ''))
  t.strictSame(places.filter(isOpen).map(({ file }) => file), ['guards/free.ts'], 'passes on the message of another such error')
  const uncaused = places.filter(({ pattern }) => !messages.some((message) => new RegExp(pattern).test(message)))
  t.strictSame(uncaused.map(({ file, text }) => `${file}: ${text}`), [], 'what no case above causes')

  const pageOf = (message: string) => / See (docs\/.+)$/.exec(message)?.[1]
  const nameOf = (message: string) => /^(\w+): /.exec(message)?.[1] ?? 'InvalidConfiguration'
  const without = messages.filter((message) => message !== noError && names.includes(nameOf(message)) && pageOf(message) === undefined)
  t.strictSame([...new Set(without.map(nameOf))], ['InitializationFailure'], 'every other one names a page')
  const isMissing = (page: string) => {
    const [path = '', anchor] = page.split('#')
    const headings = [...read(path).matchAll(/^##+ (.+)$/gm)].map(([, heading = '']) => heading.toLowerCase().replaceAll(' ', '-'))
    return anchor !== undefined && !headings.includes(anchor)
  }
  t.strictSame([...new Set(messages.flatMap((message) => pageOf(message) ?? []))].filter(isMissing), [])
})
