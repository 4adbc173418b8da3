import Fastify, { type FastifyRequest } from 'fastify'
import { createPublicKey, createSecretKey } from 'node:crypto'
import { describe, expect, test } from 'tstyche'
import tokenAuth, { Authentication, Configuration, initialize, protect, type Algorithm, type Settings, type SettingName, type TokenAuthOptions, type TrustedIssuer } from '../lib/index.ts'

const app = Fastify()
/** Fits every type of users. */
const authenticate = (): never => { throw new Error('unused') }

describe('settings', () => {
  test('have the types of their values', () => {
    expect<Settings['expirationDelta']>().type.toBe<number>()
    expect<Settings['claimIss']>().type.toBe<string | null>()
    expect<Settings['algorithm']>().type.toBe<Algorithm>()
    expect<Settings['cookieSamesite']>().type.toBe<'strict' | 'lax' | 'none'>()
    expect<Settings['onRefusal']>().type.toBe<'reply' | 'throw'>()
    expect<Settings['trustedOrigins']>().type.toBe<readonly string[] | '*'>()
    expect<SettingName>().type.toBeAssignableFrom<'secret' | 'generateRefreshToken' | 'expirationDelta'>()
  })

  test('that fit are accepted', () => {
    expect(initialize).type.toBeCallableWith(app, { authenticate })
    expect(initialize).type.toBeCallableWith(app, { authenticate, expirationDelta: 60, claimIss: null, algorithm: 'ES256', onRefusal: 'throw' })
    expect(initialize).type.toBeCallableWith(app, { authenticate, secret: undefined, leeway: undefined })
    expect(initialize).type.toBeCallableWith(app, { authenticate, trustedOrigins: ['https://app.example.org'] })
    expect(initialize).type.toBeCallableWith(app, { authenticate, trustedOrigins: '*' })
    expect(initialize).type.toBeCallableWith(app, { authenticate, getTrustedOrigins: ({ headers }: FastifyRequest) => headers.host === 'a' ? '*' : [] })
    expect(protect).type.toBeCallableWith({ trustedOrigins: [] })
    expect(app.register).type.toBeCallableWith(tokenAuth, { authenticate, prefix: '/v1', logLevel: 'warn', leeway: 0 })
  })

  test('with a wrong name are refused', () => {
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, leway: 60 })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, expiration_delta: 60 })
    expect(initialize).type.not.toBeCallableWith(app, { authenticat: () => ({ user_id: 1 }) })
    expect(app.register).type.not.toBeCallableWith(tokenAuth, { authenticate, leway: 60 })
  })

  test('with a wrong type are refused', () => {
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, expirationDelta: '60' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, algorithm: 'none' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, cookieSet: 'yes' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, cookieSamesite: 'Lax' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, userId: null })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, trustedOrigins: 'https://app.example.org' })
    expect(app.register).type.not.toBeCallableWith(tokenAuth, { authenticate, expirationDelta: '60' })
  })

  test('issuers have an audience, and their keys or the address of these', () => {
    const trusted = { issuer: 'https://issuer.example', audience: 'api' } as const
    expect(initialize).type.toBeCallableWith(app, { authMode: false, issuers: [{ ...trusted, jwksUri: 'https://issuer.example/jwks' }] })
    expect(initialize).type.toBeCallableWith(app, { authenticate, issuers: [{ ...trusted, audience: null, jwks: { keys: [{ kty: 'RSA', n: 'n', e: 'e', kid: 'a', issuer: 'a' }] } }] })
    expect(initialize).type.toBeCallableWith(app, { authenticate, issuers: [{ ...trusted, audience: ['a', 'b'], jwks: async () => ({ keys: [createPublicKey('pem').export({ format: 'jwk' })] }) }] })
    expect(initialize).type.toBeCallableWith(app, { authenticate, issuers: [{ ...trusted, algorithms: ['EdDSA'], userId: 'oid', scopesName: ['scp', 'roles'], exactScopes: false, typ: 'at+jwt', audienceName: 'client_id', staleIfError: 600 }] })
    expect<TrustedIssuer>().type.not.toBeAssignableFrom<{ issuer: string, jwksUri: string }>()
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, issuers: [{ ...trusted, typ: 'JWT' }] })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, issuers: [{ ...trusted, jwksURI: 'https://issuer.example/jwks' }] })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getIssuers: () => [] })
    expect(protect).type.not.toBeCallableWith({ issuers: [] })
    expect<FastifyRequest['tokenAuth']['issuer']>().type.toBe<string | null>()
  })

  test('keys are text, bytes, key objects, files, encrypted PEM or JWKs', () => {
    expect(initialize).type.toBeCallableWith(app, { authenticate, secret: 'text' })
    expect(initialize).type.toBeCallableWith(app, { authenticate, secret: Buffer.from('bytes') })
    expect(initialize).type.toBeCallableWith(app, { authenticate, secret: createSecretKey(Buffer.from('key')) })
    expect(initialize).type.toBeCallableWith(app, { authenticate, secret: new TextEncoder().encode('bytes') })
    expect(initialize).type.toBeCallableWith(app, { authenticate, secret: new ArrayBuffer(32) })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, secret: 5 })
    expect(initialize).type.toBeCallableWith(app, { authenticate, publicKey: new URL('file:///public.pem'), privateKey: { path: '/private.pem' } })
    expect(initialize).type.toBeCallableWith(app, { authenticate, algorithm: 'EdDSA', privateKey: { path: '/private.pem', passphrase: 'text' } })
    expect(initialize).type.toBeCallableWith(app, { authenticate, privateKey: { pem: 'text', passphrase: 'text' } })
    expect(initialize).type.toBeCallableWith(app, { authenticate, secret: { kty: 'oct', k: 'text', kid: 'text', use: 'sig', key_ops: ['sign', 'verify'], alg: 'HS256' } })
    expect(initialize).type.toBeCallableWith(app, { authenticate, publicKey: createPublicKey('pem').export({ format: 'jwk' }) })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, privateKey: { pem: 'text' } })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, privateKey: { pem: 'text', passphrase: 1 } })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, secret: () => 'text' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, secret: Promise.resolve('text') })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, secret: ['text'] })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, secret: 1 })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, secret: null })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, privateKey: { file: '/private.pem' } })
  })
})

describe('keys', () => {
  const keys = [{ key: 'text' }]

  test('are a list of entries, or a function that returns one', () => {
    expect(initialize).type.toBeCallableWith(app, { authenticate, keys })
    expect(initialize).type.toBeCallableWith(app, { authenticate, keys: [{ key: { path: '/private.pem' }, algorithm: 'EdDSA', kid: 'text', signFrom: new Date(), verifyUntil: '2099-01-01T00:00:00Z' }] as const })
    expect(initialize).type.toBeCallableWith(app, { authenticate, keys: () => keys })
    expect(initialize).type.toBeCallableWith(app, { authenticate, keys: async () => keys })
    expect(app.register).type.toBeCallableWith(tokenAuth, { authenticate, keys, algorithm: 'EdDSA', tokenCacheSize: 10, secret: undefined })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys: ['text'] })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys: [{ kid: 'text' }] })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys: [{ key: 'text', signfrom: new Date() }] })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys: [{ key: 'text', signFrom: 1_800_000_000 }] })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys: [{ key: 'text', algorithm: 'none' }] })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys: (request: FastifyRequest) => [{ key: request.id }] })
    expect(protect).type.not.toBeCallableWith({ keys })
  })

  test('stand beside no other key, and no getter of one', () => {
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys, secret: 'text' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys, publicKey: 'pem' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys, privateKey: { path: '/private.pem' } })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys, setSecret: 'text' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys, getSecret: () => 'text' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys, getPublicKey: () => 'pem' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys, getPrivateKey: () => 'pem' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys, getAlgorithm: (): Algorithm => 'HS256' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, keys, getTokenCacheSize: () => 1 })
    expect(app.register).type.not.toBeCallableWith(tokenAuth, { authenticate, keys, secret: 'text' })
  })
})

describe('authenticate', () => {
  test('is required, unless the instance has no endpoints, or a class has it', () => {
    expect(initialize).type.not.toBeCallableWith(app, {})
    expect(initialize).type.not.toBeCallableWith(app, { secret: 'text' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate: undefined })
    expect(initialize).type.not.toBeCallableWith(app, { secret: 'text', authMode: true })
    expect(initialize).type.not.toBeCallableWith(app, { secret: 'text', sessions: {} })
    expect(initialize).type.not.toBeCallableWith(app, { keys: [{ key: 'text' }] })
    expect(initialize).type.not.toBeCallableWith(app, { setAuthMode: true })
    expect(initialize).type.not.toBeCallableWith(app, { configurationClass: Configuration })
    expect(initialize).type.not.toBeCallableWith(app, { authenticat: authenticate })
    expect(app.register).type.not.toBeCallableWith(tokenAuth)
    expect(app.register).type.not.toBeCallableWith(tokenAuth, { secret: 'text' })
    expect(initialize).type.toBeCallableWith(app, { authenticate })
    expect(initialize).type.toBeCallableWith(app, { authenticate, authMode: app.hasRoute({ method: 'GET', url: '/' }) })
    expect(initialize).type.toBeCallableWith(app, { authMode: false })
    expect(initialize).type.toBeCallableWith(app, { authMode: false, secret: 'text', authenticate: undefined })
    expect(initialize).type.toBeCallableWith(app, { setAuthMode: false })
    expect(initialize).type.toBeCallableWith(app, { setAuthMode: () => false })
    expect(initialize).type.toBeCallableWith(app, { configurationClass: class extends Configuration { override readonly authMode = false } })
    expect(initialize).type.toBeCallableWith(app, { authenticationClass: class extends Authentication { override authenticate = authenticate } })
    expect(app.register).type.toBeCallableWith(tokenAuth, { authMode: false, prefix: '/v1' })
  })
})

describe('setters and getters', () => {
  test('set<Setting> is a value or a function without parameters', () => {
    expect(initialize).type.toBeCallableWith(app, { authenticate, setLeeway: 60 })
    expect(initialize).type.toBeCallableWith(app, { authenticate, setLeeway: () => 60, setUrlPrefix: () => '/login' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, setLeeway: '60' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, setLeeway: () => '60' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, setLeeway: async () => 60 })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, setLeway: 60 })
  })

  test('get<Setting> is a function of the request', () => {
    expect(initialize).type.toBeCallableWith(app, { authenticate, getExpirationDelta: (request: FastifyRequest) => request.id.length })
    const options: TokenAuthOptions = {
      authenticate,
      getClaimIss: (request) => {
        expect(request).type.toBe<FastifyRequest>()
        return request.host
      }
    }
    expect(initialize).type.toBeCallableWith(app, options)
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getExpirationDelta: 60 })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getExpirationDelta: () => '60' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getExpirationDelt: () => 60 })
  })

  test('only the getter of a key may be asynchronous', () => {
    expect(initialize).type.toBeCallableWith(app, { authenticate, getSecret: async () => 'secret' })
    expect(initialize).type.toBeCallableWith(app, { authenticate, getPublicKey: async () => 'pem', getPrivateKey: async () => Buffer.from('pem') })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getLeeway: async () => 60 })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getCookieSet: async () => true })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getSecret: async () => 1 })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getSecret: async () => undefined })
  })

  test('a setting that shapes routes has no getter', () => {
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getAuthMode: () => true })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getUrlPrefix: () => '/login' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getPathToAuthenticate: () => '/' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getPathToVerify: () => '/' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getPathToRetrieveUser: () => '/' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getPathToRefresh: () => '/' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getStrictSlashes: () => true })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getRefreshTokenEnabled: () => true })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, getInstanceName: () => 'tokenAuth' })
  })
})

describe('handlers', () => {
  test('are inferred', () => {
    const options: TokenAuthOptions = {
      authenticate,
      storeRefreshToken: (userId, refreshToken, request) => {
        expect(userId).type.toBe<string | number | boolean>()
        expect(refreshToken).type.toBe<string>()
        expect(request).type.toBe<FastifyRequest>()
      },
      retrieveRefreshToken: async (userId, request) => {
        expect(request).type.toBe<FastifyRequest>()
        return `token of ${userId}`
      },
      overrideScopeValidator: (isValid, required, userScopes, requireAllActions) => {
        expect(required).type.toBe<string>()
        expect(userScopes).type.toBe<readonly string[]>()
        return isValid || requireAllActions
      },
      destructureScopes: async (scopes) => scopes.map((scope) => scope.toLowerCase())
    }
    expect(initialize).type.toBeCallableWith(app, options)
  })

  test('of a wrong shape are refused', () => {
    expect(initialize).type.not.toBeCallableWith(app, { authenticate: { user_id: 1 } })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate: (request: FastifyRequest, extra: number) => ({ user_id: extra }) })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, retrieveRefreshToken: () => 1 })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, overrideScopeValidator: async () => true })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, destructureScopes: () => 'user' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, addScopesToPayload: () => undefined })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, addScopesToPayload: () => [1] })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, generateRefreshToken: () => 1 })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, extendPayload: () => 'payload' })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, extraVerifications: [async () => true] })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, customClaims: [{ key: 'ip', setup: () => '' }] })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, customClaims: [{ key: 'ip', setup: () => '', verify: async () => true }] })
    expect(initialize).type.not.toBeCallableWith(app, { authenticate, classViews: ['/path'] })
  })
})

describe('overrides of a guard', () => {
  test('are settings', () => {
    expect(app.tokenAuth.protect).type.toBeCallableWith({ cookieSet: true, leeway: 0, redirectOnFail: true, redirectUrl: '/login' })
    expect(app.tokenAuth.scoped).type.toBeCallableWith('user', { requireAll: false, requireAllActions: false, queryStringSet: true })
    expect(protect).type.toBeCallableWith({ instanceName: 'staffAuth', on: app, secret: 'another' })
    expect(app.tokenAuth.protect).type.not.toBeCallableWith({ cookieSe: true })
    expect(app.tokenAuth.protect).type.not.toBeCallableWith({ cookieSet: 1 })
    expect(app.tokenAuth.protect).type.not.toBeCallableWith({ requireAll: true })
    expect(app.tokenAuth.protect).type.not.toBeCallableWith({ instanceName: 'staffAuth' })
  })

  test('are no settings that shape routes', () => {
    expect(app.tokenAuth.protect).type.not.toBeCallableWith({ authMode: false })
    expect(app.tokenAuth.protect).type.not.toBeCallableWith({ urlPrefix: '/login' })
    expect(app.tokenAuth.protect).type.not.toBeCallableWith({ pathToVerify: '/' })
    expect(app.tokenAuth.scoped).type.not.toBeCallableWith('user', { strictSlashes: true })
    expect(app.tokenAuth.scoped).type.not.toBeCallableWith('user', { refreshTokenEnabled: true })
    expect(protect).type.not.toBeCallableWith({ urlPrefix: '/login' })
  })

  test('required scopes are text, a list, or a function of the request', () => {
    expect(app.tokenAuth.scoped).type.toBeCallableWith(['user', 'admin'] as const)
    expect(app.tokenAuth.scoped).type.toBeCallableWith(async (request: FastifyRequest) => [request.id])
    expect(app.tokenAuth.scoped).type.not.toBeCallableWith()
    expect(app.tokenAuth.scoped).type.not.toBeCallableWith(undefined)
    expect(app.tokenAuth.scoped).type.not.toBeCallableWith([1])
    expect(app.tokenAuth.scoped).type.not.toBeCallableWith(() => undefined)
  })
})
