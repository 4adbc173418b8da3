/**
 * Every message of a wrong configuration, as a newcomer reads it: it says what was given, what is allowed, what to do and
 * where to read more. messages.txt has them, in the order of the cases below, so that whoever changes one reads it once more.
 * `UPDATE_MESSAGES=1 npm run test:unit -- test/messages/messages.test.ts` writes it.
 */
import { createPrivateKey, createPublicKey, createSecretKey, generateKeyPairSync } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest, onResponseHookHandler, RouteShorthandOptions } from 'fastify'
import t, { type Test } from 'tap'
import ts from 'typescript'
import tokenAuth, {
  Authentication, Configuration, HandlerFailed, injectUser, InvalidConfiguration, memorySessions, postgresSessions, postgresSessionSchema, protect, redisSessions, scoped, TokenAuthError, type UserRouteHandler, View
} from '../../lib/index.ts'
import { hmacKey } from '../../lib/keys/material.ts'
import { remoteKeySet } from '../../lib/authorities/remote-key-set.ts'
import { attack, createTestToken, type AttackedRequest, type AttackOptions, type AttackTarget } from '../../lib/testing.ts'
import { authenticate, bearer, build, claims, ecPair, environment, forge, host, mistyped, otherSecret, rsaPair, secret } from '../helper.ts'

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
const names = [
  'InvalidConfiguration', 'AuthenticateNotImplemented', 'RefreshTokenNotImplemented', 'RequiredKeysNotFound', 'InvalidClassViews',
  'InvalidCustomClaim', 'InitializationFailure'
]

/** The message of an error, with its name where that is not the usual one. */
function messageOf (error: unknown): string {
  if (!(error instanceof TokenAuthError)) return String(error)
  const message = error.message.replace('node_modules/fastify-token-auth/', '')
  return error instanceof InvalidConfiguration ? message : `${error.name}: ${message}`
}

/** The message of what a function throws, or of what it hides from clients. */
async function said (act: () => unknown): Promise<string> {
  try {
    await act()
    return 'nothing'
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

/** Options of registrations, by what is wrong with them. */
const registrations: Record<string, object[]> = {
  'names of options': [
    { expiration_delta: 60 },
    { zzzzzzzzzz: 1 },
    { leeway: 1, setLeeway: 2 },
    { getUrlPrefix: () => '/x' },
    { getLeeway: 5 }
  ],
  'values of settings': [
    { leeway: '5' },
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
    { cookieSet: true, cookieAccessTokenName: '__Host-token', cookieDomain: 'example.org' }
  ],
  'the configuration class': [
    inClass({ leway: 1 }),
    inClass({ leeway: '1' }),
    inClass({ setLeeway: () => '1' }),
    inClass({ getAuthMode: () => true }),
    inClass({ leeway: 1, setLeeway: 1 }),
    { configurationClass: class {} }
  ],
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
  secrets: [
    { secret: '' },
    { secret: rsa.publicKey },
    { secret: createPublicKey(rsa.publicKey) },
    { secret: der },
    { secret: der.toString('base64') },
    { secret: 'ssh-ed25519 AAAA' },
    { secret: '{"kty":"oct"}' },
    { secret: der.toString('hex') },
    { secret: jwk },
    { secret: { kty: 'oct', k: 'not base64url' } },
    { secret: { kty: 'oct', k: 'AAAA', use: 'enc' } },
    { secret: { kty: 'oct', k: 'AAAA', key_ops: ['sign'] } },
    { secret: { kty: 'oct', k: 'AAAA', alg: 'HS512' } },
    { secret: { pem: 'x'.repeat(32), passphrase: 'x' } },
    { secret: new URL('https://example.org/key') },
    { secret: { path: '/nonexistent/key' } }
  ],
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
    [{ keys: [{ key: secret, verifyUntil: '2999-01-01T00:33:00Z' }, { key: otherSecret, signFrom: '2999-01-01T00:00:00Z' }] },
      'nothing'],
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
    { issuers: [{ ...trusted, issuer: new URL('https://issuer.example') }] },
    { issuers: [{ ...trusted, audience: undefined }] },
    { issuers: [{ ...trusted, audience: ['api', 5] }] },
    { issuers: [{ ...trusted, jwksUri: undefined }] },
    { issuers: [{ ...trusted, jwks: { keys: [] } }] },
    { issuers: [{ ...trusted, jwksUri: undefined, jwks: { keys: [] } }] },
    { issuers: [{ ...trusted, jwksUri: 'http://issuer.example/jwks' }] },
    { issuers: [{ ...trusted, jwksUri: new URL('https://issuer.example/jwks') }] },
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
  'pairs of keys': [
    { ...rs, publicKey: undefined },
    { ...rs, privateKey: undefined },
    { ...rs, publicKey: rsa.privateKey },
    { ...rs, publicKey: createSecretKey(Buffer.from(secret)) },
    { ...rs, privateKey: rsa.publicKey },
    { ...rs, privateKey: rsa.privateKey + rsa.publicKey },
    { ...rs, privateKey: createPublicKey(rsa.publicKey) },
    { ...rs, privateKey: encrypted },
    { ...rs, privateKey: { pem: encrypted, passphrase: 'y' } },
    { ...rs, publicKey: { kty: 'RSA' } },
    { ...rs, publicKey: JSON.stringify(jwk) },
    { ...rs, privateKey: { ...createPrivateKey(rsa.privateKey).export({ format: 'jwk' }), n: otherJwk.n } },
    { ...rs, publicKey: 'x' },
    { secret: fileURLToPath(import.meta.url) },
    { ...rs, privateKey: 'x' },
    { ...rs, publicKey: './public.pem' },
    { ...rs, publicKey: undefined, secret: 'keys/public.txt' },
    { ...rs, privateKey: 'C:\\private' },
    { ...rs, privateKey: rsa.privateKey.replaceAll('\n', '\\n') },
    { ...rs, publicKey: everyoneSigns },
    { ...rs, publicKey: { ...jwk, e: 'AQAA' } },
    { ...rs, publicKey: { ...jwk, e: jwk.n } },
    { ...rs, publicKey: { ...jwk, n: `${jwk.n}${jwk.n}${jwk.n}${jwk.n}${jwk.n}` } },
    { ...rs, publicKey: ec.publicKey },
    { ...rs, ...rsaPair(1024) },
    { ...rs, privateKey: rsaPair(2048, 1).privateKey },
    { ...es, publicKey: rsa.publicKey },
    { ...es, ...ecPair('secp384r1') },
    { ...es, publicKey: edPublic },
    { ...es, algorithm: 'EdDSA' },
    { ...es, algorithm: 'EdDSA', publicKey: { kty: 'OKP', crv: 'Ed25519', x: Buffer.alloc(32).toString('base64url') } }
  ]
}

const configurations: object[] = [
  { SERVICE_JWT_LEEWAY: '5s' },
  { SERVICE_JWT_DEBUG: 'yes' },
  { SERVICE_JWT_DEBUG: null },
  { SERVICE_JWT_TRUSTED_ORIGINS: 'https://app.example.org, https://other.example.org/' },
  { SERVICE_JWT_TRUSTED_ORIGINS: '* https://app.example.org' },
  { SERVICE_JWT_EXPIRATION: '60' },
  { SERVICE_JWT_ZZZZZZZZZZZZZZZZZZZ: '1' }
]

const guardOptions: object[] = [
  { leeway: '5' },
  { leway: 5 },
  { urlPrefix: '/x' },
  { redirectOnFail: 'yes' },
  { redirectUrl: '//evil' },
  { redirectUrl: 5 },
  { redirectUrl: '/login?to={to}' },
  { maxAge: 0 },
  mistyped({ maxAge: '300' }),
  { secret: null }
]

const guards: Array<() => unknown> = [
  () => protect(mistyped('x')),
  () => protect(mistyped(5)),
  () => scoped('user', mistyped('admin')),
  () => scoped('user', mistyped({ requireall: false })),
  () => protect({ optional: mistyped<boolean>('yes') }),
  () => scoped('user', mistyped({ optional: true })),
  () => protect(mistyped({ requireAll: false })),
  () => protect(mistyped({ on: 5 })),
  () => scoped(mistyped<string>(undefined)),
  () => scoped(['user', 'user:read ']),
  () => scoped('user', mistyped({ requireAll: 'yes' })),
  () => injectUser(mistyped<UserRouteHandler<object>>(5))
]

const testTokens: Array<[user: unknown, options?: object]> = [
  [{ user_id: 1 }, { states: 'expired' }],
  [{ user_id: 1 }, { state: 'late' }],
  [{ user_id: 1 }, { state: 'otherIssuer' }]
]

const requests: Array<[options: object, act: Act]> = [
  [{}, (request, reply) => Reflect.apply(protect, undefined, [request, reply])],
  [{}, (request, reply, app) => Reflect.apply(app.tokenAuth.protect(), undefined, [request, reply, {}])],
  [{}, (request, reply) => protect({ instanceName: 'staff' })(request, reply)],
  [{}, (_request, _reply, app) => app.tokenAuth.protect({ maxAge: 300 })],
  [{}, (request, reply) => protect({ maxAge: 300 })(request, reply)],
  [{ authMode: false, scopesName: 'auth_time' }, (_request, _reply, app) => app.tokenAuth.protect({ maxAge: 300 })],
  [{}, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 }, { authTime: 1.5 })],
  [{}, (_request, _reply, app) => app.tokenAuth.sessions.list(1)],
  [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.sessions.list(mistyped(undefined))],
  [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.sessions.endAll(1, mistyped('x'))],
  [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.sessions.endAll(1, mistyped({ exept: 'x' }))],
  [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.sessions.endAll(1, { except: 'x' })],
  [{ sessions: {} }, (request, _reply, app) => app.tokenAuth.generateRefreshToken(request, { user_id: 1 })],
  [{}, (_request, _reply, app) => app.tokenAuth.reloadKeys()],
  [{ secret: undefined, keys: [{ key: secret }] }, (_request, _reply, app) => app.tokenAuth.reloadKeys()],
  [{ secret: undefined, keys: [{ key: secret }] }, (_request, _reply, app) => app.tokenAuth.protect({ algorithm: 'HS512' })],
  [{ authMode: false, issuers: [{ issuer: 'https://issuer.example', audience: 'api', algorithms: ['RS256'], jwks: { keys: [createPublicKey(rsa.publicKey).export({ format: 'jwk' })] } }], retrieveUser: () => null }, (_request, _reply, app) => app.tokenAuth.protect({ secret: otherSecret })],
  [{ secret: undefined, authMode: false, algorithm: 'RS256', keys: [{ key: rsa.publicKey }] }, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 })],
  [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.protect({ verifyExp: false })],
  [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.protect({ leeway: 2161 })],
  [{ sessions: {} }, (request, reply, app) => app.tokenAuth.sessions.start(request, reply, { user_id: 1 }, mistyped({ authTime: new Date() }))],
  [{ cookieSet: true, getTrustedOrigins: () => mistyped<string[]>(['https://app.example.org/']) }, (request) => request.tokenAuth.settings.trustedOrigins],
  [{ getSecret: async () => secret }, (request) => request.tokenAuth.payload],
  [{ trusted: ({ tokenAuth }: FastifyRequest) => tokenAuth.payload !== null }, (request) => request.tokenAuth.payload],
  [{ secret: undefined, getSecret: () => 5 }, (request) => request.tokenAuth.payload],
  [{ getLeeway: async () => 5 }, (request) => request.tokenAuth.payload],
  [{ getClaimIss: () => null }, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 })],
  [{ getLeeway: () => 5 }, (_request, _reply, app) => app.tokenAuth.verifyToken(forge(claims()))],
  [{ trusted: () => true }, (_request, _reply, app) => app.tokenAuth.verifyToken(forge(claims()))],
  [{}, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 }, mistyped({ scope: 'a' }))],
  [{}, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 }, mistyped(Promise.resolve({ scopes: null })))],
  [{}, (_request, _reply, app) => app.tokenAuth.generateAccessToken(mistyped(1))],
  [{}, (request, _reply, app) => app.tokenAuth.generateRefreshToken(request, { user_id: 1 })]
]

/** Makes the messages about one subject, in an order that stays. */
type Teller = (t: Test, told: string[]) => Promise<unknown>

const tellers: Record<string, Teller> = {
  ...Object.fromEntries(Object.entries(registrations).map(([subject, cases]): [string, Teller] => [`Registration: ${subject}`, async (t, told) => {
    for (const options of cases) told.push(await refused(t, options))
  }])),

  'Registration: the configuration of the application': async (t, told) => {
    for (const config of configurations) told.push(await refused(t, {}, config))
  },

  'Registration: others on the same application, routes, and production': async (t, told) => {
    const [twice, second] = [await build(t), await build(t)]
    told.push(await said(async () => await second.register(tokenAuth, { secret, authenticate, instanceName: 'partner' })))
    told.push(await said(async () => await twice.register(tokenAuth, { secret, authMode: false })))
    told.push(await said(async () => await host(t).register(tokenAuth, mistyped(new Map([['secret', secret]])))))
    told.push(await said(async () => await host(t).register(tokenAuth, mistyped(Promise.resolve({ secret })))))
    told.push(await refused(t, { tokensInBody: false }))
    const misguarded = await build(t)
    misguarded.get('/reports', mistyped<RouteShorthandOptions>({ prehandler: misguarded.tokenAuth.protect() }), async () => 'reached')
    told.push(await said(async () => await misguarded.ready()))
    const context = await build(t)
    context.addHook('onResponse', mistyped<onResponseHookHandler>(context.tokenAuth.protect()))
    context.get('/reports', async () => 'reached')
    told.push(await said(async () => await context.ready()))
    told.push(await said(() => context.tokenAuth.routes()))
    const declared = await build(t)
    declared.get('/reports', { config: mistyped<FastifyContextConfig>({ tokenAuth: true }) }, async () => 'reached')
    told.push(await said(async () => await declared.ready()))
    const undecided = await build(t, { requireGuards: true })
    undecided.get('/reports', async () => 'reached')
    told.push(await said(async () => await undecided.ready()))
    const uncalled = await build(t)
    told.push(await said(async () => uncalled.get('/reports', { onRequest: mistyped<ReturnType<typeof protect>>(protect) }, async () => 'reached')))
    const contradictory = await build(t, { requireGuards: true })
    contradictory.get('/reports', { onRequest: protect(), config: { tokenAuth: false } }, async () => 'reached')
    told.push(await said(async () => await contradictory.ready()))
    const early = host(t)
    early.post('/reports', async () => 'reached')
    told.push(await said(async () => await early.register(tokenAuth, { secret, authMode: false, requireGuards: true })))
    environment(t, 'production')
    told.push(await refused(t, { secret: 'x'.repeat(31) }))
    told.push(await refused(t, { secret: 'changeme'.repeat(4) }))
    told.push(await refused(t, { sessions: { secret: 'a-string-secret-at-least-256-bits-long' } }))
    told.push(await refused(t, { secret: undefined }))
  },

  'Registration: the store of the users of another key': async (t, told) => {
    const store = memorySessions()
    await build(t, { sessions: { store } })
    told.push(await refused(t, { secret: otherSecret, sessions: { store } }))
  },

  'Registration: jose is missing': async (_t, told) => {
    told.push(await said(async () => await remoteKeySet('https://issuer.example', async () => ({}))))
  },

  'Guards of an instance': async (t, told) => {
    const app = await build(t)
    for (const options of guardOptions) told.push(await said(() => app.tokenAuth.protect(options)))
  },

  'Guards of any instance': async (_t, told) => {
    for (const options of guardOptions) told.push(await said(() => protect(options)))
    for (const make of guards) told.push(await said(make))
  },

  'Guards that cannot renew': async (t, told) => {
    const pages = await build(t, { sessions: {}, cookieSet: true })
    told.push(await said(async () => (await build(t)).tokenAuth.protect({ renew: true })))
    told.push(await said(() => pages.tokenAuth.protect({ renew: true, secret: otherSecret })))
  },

  'Stores in databases': async (_t, told) => {
    const ioredis = { status: 'ready', evalsha: async () => [], eval: async () => [] }
    const pool = { query: async () => ({ rows: [] }) }
    const cases = [
      () => redisSessions(mistyped('redis://localhost')),
      () => redisSessions(mistyped(pool)),
      () => redisSessions(ioredis, mistyped('shop')),
      () => redisSessions(ioredis, mistyped({ table: 'shop' })),
      () => redisSessions(ioredis, { prefix: '{shop}' }),
      () => redisSessions(ioredis, { prefix: mistyped<string>(5) }),
      () => postgresSessions(mistyped(ioredis)),
      () => postgresSessions(pool, mistyped(new Map())),
      () => postgresSessions(pool, { table: 'a b' }),
      () => postgresSessionSchema(mistyped<string>(5))
    ]
    for (const act of cases) told.push(await said(act))
  },

  'createTestToken()': async (t, told) => {
    const app = await build(t)
    for (const [user, options] of testTokens) told.push(await said(async () => await createTestToken(app.tokenAuth, mistyped(user), options)))
    told.push(await said(async () => await createTestToken(mistyped<typeof app.tokenAuth>(app), { user_id: 1 })))
  },

  'attack()': async (_t, told) => {
    const app: AttackTarget = { inject: async () => ({ statusCode: 401, headers: {} }) }
    const request = { method: 'GET', url: '/reports' }
    const token = forge(claims())
    const limited: AttackTarget = { inject: async ({ headers }) => ({ statusCode: headers.authorization === `Bearer ${token}` ? 200 : 429, headers: {} }) }
    const cases: Array<{ app?: unknown, request?: unknown, options?: unknown }> = [
      { app: 5 },
      { options: { token, keys: secret } },
      { options: { token, allowed: 'no token' } },
      { options: {} },
      { options: { token: forge({}, { header: { alg: 'HS1' } }) } },
      { request: { ...request, body: {} } },
      { request: { method: 'GET' } },
      { request: { ...request, headers: { Authorization: 'Basic x' } } },
      { request: { ...request, url: `/files/${token}` } },
      { options: { token, key: 5 } },
      { options: { token, key: otherSecret } },
      {},
      { app: limited }
    ]
    for (const given of cases) {
      const parts = { app, request, options: { token }, ...given }
      told.push(await said(async () => await attack(mistyped<AttackTarget>(parts.app), mistyped<AttackedRequest>(parts.request), mistyped<AttackOptions>(parts.options))))
    }
  },

  // By the error, or by the cause of the one that hides it from clients.
  'What only a request shows': async (t, told) => {
    for (const [options, act] of requests) told.push(await during(t, options, act))
  },

  'A key that is none, for whoever reads it': async (_t, told) => {
    told.push(await said(() => hmacKey('HS256', 'secret', 5, 'verify')))
  }
}

/** An expression that matches whatever a text may be that is built in this way. */
function patternOf (node: ts.Expression | undefined): string {
  const literal = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  if (node === undefined) return ''
  if (ts.isStringLiteralLike(node)) return literal(node.text)
  if (ts.isConditionalExpression(node)) return `(?:${patternOf(node.whenTrue)}|${patternOf(node.whenFalse)})`
  if (!ts.isTemplateExpression(node)) return '[^]*'
  return literal(node.head.text) + node.templateSpans.map((span) => patternOf(span.expression) + literal(span.literal.text)).join('')
}

/** Where a file of lib/ makes such errors, and what they say. */
function placesIn (file: string): { file: string, pattern: string }[] {
  const source = ts.createSourceFile(file, read(`lib/${file}`), ts.ScriptTarget.Latest, true)
  const found: { file: string, pattern: string }[] = []
  const visit = (node: ts.Node) => {
    if (ts.isNewExpression(node) && names.includes(node.expression.getText())) found.push({ file: file.replaceAll('\\', '/'), pattern: patternOf(node.arguments?.[0]) })
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

// Promise: keys/valid-token-refused
// Promise: specification/every-message-about
t.test('every message of a wrong configuration is in messages.txt, and the page that it names is there', async (t) => {
  const messages: string[] = []
  let text = ''
  for (const [subject, tell] of Object.entries(tellers)) {
    await t.test(subject, async (t) => {
      const told: string[] = []
      await tell(t, told)
      messages.push(...told)
      text += `${text && '\n'}${subject}\n\n${told.map((message) => `- ${message.replaceAll('\n', '\n  ')}\n`).join('')}`
    })
  }
  if (process.env.UPDATE_MESSAGES === '1' && process.env.CI !== 'true') writeFileSync(snapshot, text)
  t.equal(text, readFileSync(snapshot, 'utf8'))

  const places = readdirSync(new URL('lib/', root), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts')).flatMap(placesIn)
  t.ok(places.length > 70)
  const passedOn = places.filter(({ pattern }) => pattern === '[^]*')
  t.strictSame(passedOn.map(({ file }) => file).sort(), ['guards/free.ts', 'settings/records.ts'], 'what these say was made elsewhere')
  t.strictSame(places.filter(({ pattern }) => !messages.some((message) => new RegExp(pattern).test(message))), [], 'what no case above causes')

  const pageOf = (message: string) => / See (docs\/.+)$/.exec(message)?.[1]
  const nameOf = (message: string) => /^(\w+): /.exec(message)?.[1] ?? 'InvalidConfiguration'
  const without = messages.filter((message) => names.includes(nameOf(message)) && pageOf(message) === undefined)
  t.strictSame([...new Set(without.map(nameOf))], ['InitializationFailure'], 'every other one names a page')
  const isMissing = (page: string) => {
    const [path = '', anchor] = page.split('#')
    const headings = [...read(path).matchAll(/^##+ (.+)$/gm)].map(([, heading = '']) => heading.toLowerCase().replaceAll(' ', '-'))
    return anchor !== undefined && !headings.includes(anchor)
  }
  t.strictSame([...new Set(messages.flatMap((message) => pageOf(message) ?? []))].filter(isMissing), [])
})
