import Fastify, { type FastifyRequest } from 'fastify'
import { createPublicKey, createSecretKey } from 'node:crypto'
import { describe, expect, test } from 'tstyche'
import tokenAuth, { initialize, protect, type Algorithm, type Settings, type SettingName, type TokenAuthOptions, type TrustedIssuer } from '../lib/index.ts'

const app = Fastify()

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
    expect(initialize).type.toBeCallableWith(app, {})
    expect(initialize).type.toBeCallableWith(app, { expirationDelta: 60, claimIss: null, algorithm: 'ES256', onRefusal: 'throw' })
    expect(initialize).type.toBeCallableWith(app, { secret: undefined, leeway: undefined })
    expect(initialize).type.toBeCallableWith(app, { trustedOrigins: ['https://app.example.org'] })
    expect(initialize).type.toBeCallableWith(app, { trustedOrigins: '*' })
    expect(initialize).type.toBeCallableWith(app, { getTrustedOrigins: ({ headers }: FastifyRequest) => headers.host === 'a' ? '*' : [] })
    expect(protect).type.toBeCallableWith({ trustedOrigins: [] })
    expect(app.register).type.toBeCallableWith(tokenAuth, { prefix: '/v1', logLevel: 'warn', leeway: 0 })
  })

  test('with a wrong name are refused', () => {
    expect(initialize).type.not.toBeCallableWith(app, { leway: 60 })
    expect(initialize).type.not.toBeCallableWith(app, { expiration_delta: 60 })
    expect(initialize).type.not.toBeCallableWith(app, { authenticat: () => ({ user_id: 1 }) })
    expect(app.register).type.not.toBeCallableWith(tokenAuth, { leway: 60 })
  })

  test('with a wrong type are refused', () => {
    expect(initialize).type.not.toBeCallableWith(app, { expirationDelta: '60' })
    expect(initialize).type.not.toBeCallableWith(app, { algorithm: 'none' })
    expect(initialize).type.not.toBeCallableWith(app, { cookieSet: 'yes' })
    expect(initialize).type.not.toBeCallableWith(app, { cookieSamesite: 'Lax' })
    expect(initialize).type.not.toBeCallableWith(app, { userId: null })
    expect(initialize).type.not.toBeCallableWith(app, { trustedOrigins: 'https://app.example.org' })
    expect(app.register).type.not.toBeCallableWith(tokenAuth, { expirationDelta: '60' })
  })

  test('issuers have an audience, and their keys or the address of these', () => {
    const trusted = { issuer: 'https://issuer.example', audience: 'api' } as const
    expect(initialize).type.toBeCallableWith(app, { authMode: false, issuers: [{ ...trusted, jwksUri: 'https://issuer.example/jwks' }] })
    expect(initialize).type.toBeCallableWith(app, { issuers: [{ ...trusted, audience: null, jwks: { keys: [{ kty: 'RSA', n: 'n', e: 'e', kid: 'a', issuer: 'a' }] } }] })
    expect(initialize).type.toBeCallableWith(app, { issuers: [{ ...trusted, audience: ['a', 'b'], jwks: async () => ({ keys: [createPublicKey('pem').export({ format: 'jwk' })] }) }] })
    expect(initialize).type.toBeCallableWith(app, { issuers: [{ ...trusted, algorithms: ['EdDSA'], userId: 'oid', scopesName: ['scp', 'roles'], exactScopes: false, typ: 'at+jwt', audienceName: 'client_id', staleIfError: 600 }] })
    expect<TrustedIssuer>().type.not.toBeAssignableFrom<{ issuer: string, jwksUri: string }>()
    expect(initialize).type.not.toBeCallableWith(app, { issuers: [{ ...trusted, typ: 'JWT' }] })
    expect(initialize).type.not.toBeCallableWith(app, { issuers: [{ ...trusted, jwksURI: 'https://issuer.example/jwks' }] })
    expect(initialize).type.not.toBeCallableWith(app, { getIssuers: () => [] })
    expect(protect).type.not.toBeCallableWith({ issuers: [] })
    expect<FastifyRequest['tokenAuth']['issuer']>().type.toBe<string | null>()
  })

  test('keys are text, bytes, key objects, files, encrypted PEM or JWKs', () => {
    expect(initialize).type.toBeCallableWith(app, { secret: 'text' })
    expect(initialize).type.toBeCallableWith(app, { secret: Buffer.from('bytes') })
    expect(initialize).type.toBeCallableWith(app, { secret: createSecretKey(Buffer.from('key')) })
    expect(initialize).type.toBeCallableWith(app, { publicKey: new URL('file:///public.pem'), privateKey: { path: '/private.pem' } })
    expect(initialize).type.toBeCallableWith(app, { algorithm: 'EdDSA', privateKey: { path: '/private.pem', passphrase: 'text' } })
    expect(initialize).type.toBeCallableWith(app, { privateKey: { pem: 'text', passphrase: 'text' } })
    expect(initialize).type.toBeCallableWith(app, { secret: { kty: 'oct', k: 'text', kid: 'text', use: 'sig', key_ops: ['sign', 'verify'], alg: 'HS256' } })
    expect(initialize).type.toBeCallableWith(app, { publicKey: createPublicKey('pem').export({ format: 'jwk' }) })
    expect(initialize).type.not.toBeCallableWith(app, { privateKey: { pem: 'text' } })
    expect(initialize).type.not.toBeCallableWith(app, { privateKey: { pem: 'text', passphrase: 1 } })
    expect(initialize).type.not.toBeCallableWith(app, { secret: () => 'text' })
    expect(initialize).type.not.toBeCallableWith(app, { secret: Promise.resolve('text') })
    expect(initialize).type.not.toBeCallableWith(app, { secret: ['text'] })
    expect(initialize).type.not.toBeCallableWith(app, { secret: 1 })
    expect(initialize).type.not.toBeCallableWith(app, { secret: null })
    expect(initialize).type.not.toBeCallableWith(app, { privateKey: { file: '/private.pem' } })
  })
})

describe('keys', () => {
  const keys = [{ key: 'text' }]

  test('are a list of entries, or a function that returns one', () => {
    expect(initialize).type.toBeCallableWith(app, { keys })
    expect(initialize).type.toBeCallableWith(app, { keys: [{ key: { path: '/private.pem' }, algorithm: 'EdDSA', kid: 'text', signFrom: new Date(), verifyUntil: '2099-01-01T00:00:00Z' }] as const })
    expect(initialize).type.toBeCallableWith(app, { keys: () => keys })
    expect(initialize).type.toBeCallableWith(app, { keys: async () => keys })
    expect(app.register).type.toBeCallableWith(tokenAuth, { keys, algorithm: 'EdDSA', tokenCacheSize: 10, secret: undefined })
    expect(initialize).type.not.toBeCallableWith(app, { keys: ['text'] })
    expect(initialize).type.not.toBeCallableWith(app, { keys: [{ kid: 'text' }] })
    expect(initialize).type.not.toBeCallableWith(app, { keys: [{ key: 'text', signfrom: new Date() }] })
    expect(initialize).type.not.toBeCallableWith(app, { keys: [{ key: 'text', signFrom: 1_800_000_000 }] })
    expect(initialize).type.not.toBeCallableWith(app, { keys: [{ key: 'text', algorithm: 'none' }] })
    expect(initialize).type.not.toBeCallableWith(app, { keys: (request: FastifyRequest) => [{ key: request.id }] })
    expect(protect).type.not.toBeCallableWith({ keys })
  })

  test('stand beside no other key, and no getter of one', () => {
    expect(initialize).type.not.toBeCallableWith(app, { keys, secret: 'text' })
    expect(initialize).type.not.toBeCallableWith(app, { keys, publicKey: 'pem' })
    expect(initialize).type.not.toBeCallableWith(app, { keys, privateKey: { path: '/private.pem' } })
    expect(initialize).type.not.toBeCallableWith(app, { keys, setSecret: 'text' })
    expect(initialize).type.not.toBeCallableWith(app, { keys, getSecret: () => 'text' })
    expect(initialize).type.not.toBeCallableWith(app, { keys, getPublicKey: () => 'pem' })
    expect(initialize).type.not.toBeCallableWith(app, { keys, getPrivateKey: () => 'pem' })
    expect(initialize).type.not.toBeCallableWith(app, { keys, getAlgorithm: (): Algorithm => 'HS256' })
    expect(initialize).type.not.toBeCallableWith(app, { keys, getTokenCacheSize: () => 1 })
    expect(app.register).type.not.toBeCallableWith(tokenAuth, { keys, secret: 'text' })
  })
})

describe('setters and getters', () => {
  test('set<Setting> is a value or a function without parameters', () => {
    expect(initialize).type.toBeCallableWith(app, { setLeeway: 60 })
    expect(initialize).type.toBeCallableWith(app, { setLeeway: () => 60, setUrlPrefix: () => '/login' })
    expect(initialize).type.not.toBeCallableWith(app, { setLeeway: '60' })
    expect(initialize).type.not.toBeCallableWith(app, { setLeeway: () => '60' })
    expect(initialize).type.not.toBeCallableWith(app, { setLeeway: async () => 60 })
    expect(initialize).type.not.toBeCallableWith(app, { setLeway: 60 })
  })

  test('get<Setting> is a function of the request', () => {
    expect(initialize).type.toBeCallableWith(app, { getExpirationDelta: (request: FastifyRequest) => request.id.length })
    const options: TokenAuthOptions = {
      getClaimIss: (request) => {
        expect(request).type.toBe<FastifyRequest>()
        return request.host
      }
    }
    expect(initialize).type.toBeCallableWith(app, options)
    expect(initialize).type.not.toBeCallableWith(app, { getExpirationDelta: 60 })
    expect(initialize).type.not.toBeCallableWith(app, { getExpirationDelta: () => '60' })
    expect(initialize).type.not.toBeCallableWith(app, { getExpirationDelt: () => 60 })
  })

  test('only the getter of a key may be asynchronous', () => {
    expect(initialize).type.toBeCallableWith(app, { getSecret: async () => 'secret' })
    expect(initialize).type.toBeCallableWith(app, { getPublicKey: async () => 'pem', getPrivateKey: async () => Buffer.from('pem') })
    expect(initialize).type.not.toBeCallableWith(app, { getLeeway: async () => 60 })
    expect(initialize).type.not.toBeCallableWith(app, { getCookieSet: async () => true })
    expect(initialize).type.not.toBeCallableWith(app, { getSecret: async () => 1 })
    expect(initialize).type.not.toBeCallableWith(app, { getSecret: async () => undefined })
  })

  test('a setting that shapes routes has no getter', () => {
    expect(initialize).type.not.toBeCallableWith(app, { getAuthMode: () => true })
    expect(initialize).type.not.toBeCallableWith(app, { getUrlPrefix: () => '/login' })
    expect(initialize).type.not.toBeCallableWith(app, { getPathToAuthenticate: () => '/' })
    expect(initialize).type.not.toBeCallableWith(app, { getPathToVerify: () => '/' })
    expect(initialize).type.not.toBeCallableWith(app, { getPathToRetrieveUser: () => '/' })
    expect(initialize).type.not.toBeCallableWith(app, { getPathToRefresh: () => '/' })
    expect(initialize).type.not.toBeCallableWith(app, { getStrictSlashes: () => true })
    expect(initialize).type.not.toBeCallableWith(app, { getRefreshTokenEnabled: () => true })
    expect(initialize).type.not.toBeCallableWith(app, { getInstanceName: () => 'tokenAuth' })
  })
})

describe('handlers', () => {
  test('are inferred', () => {
    const options: TokenAuthOptions = {
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
    expect(initialize).type.not.toBeCallableWith(app, { retrieveRefreshToken: () => 1 })
    expect(initialize).type.not.toBeCallableWith(app, { overrideScopeValidator: async () => true })
    expect(initialize).type.not.toBeCallableWith(app, { destructureScopes: () => 'user' })
    expect(initialize).type.not.toBeCallableWith(app, { addScopesToPayload: () => undefined })
    expect(initialize).type.not.toBeCallableWith(app, { addScopesToPayload: () => [1] })
    expect(initialize).type.not.toBeCallableWith(app, { generateRefreshToken: () => 1 })
    expect(initialize).type.not.toBeCallableWith(app, { extendPayload: () => 'payload' })
    expect(initialize).type.not.toBeCallableWith(app, { extraVerifications: [async () => true] })
    expect(initialize).type.not.toBeCallableWith(app, { customClaims: [{ key: 'ip', setup: () => '' }] })
    expect(initialize).type.not.toBeCallableWith(app, { customClaims: [{ key: 'ip', setup: () => '', verify: async () => true }] })
    expect(initialize).type.not.toBeCallableWith(app, { classViews: ['/path'] })
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
