/** Credentials of a kind for which somebody must ask, such as keys of scripts: what does not accept them refuses them. */
import assert from 'node:assert/strict'
import type { FastifyInstance, FastifyRequest, HTTPMethods, InjectOptions } from 'fastify'
import t, { type Test } from 'tap'
import { ownAuthority } from '../../lib/authorities/own.ts'
import { AuthenticationFailed, TokenAuthError } from '../../lib/errors.ts'
import { endless } from '../../lib/keys/life.ts'
import { Refusal } from '../../lib/refusal.ts'
import { registrationOf } from '../../lib/registration.ts'
import { stateOf } from '../../lib/request/slot.ts'
import type { CredentialKind } from '../../lib/request/verify.ts'
import { readRegistered } from '../../lib/token/claims.ts'
import { injectUser, protect, scoped, type TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, caseOf, claims, forge, keysFor, login, payloadOf, refreshStore, shownUsers, together, warnings } from '../helper.ts'

const refusal = new Refusal(() => new TokenAuthError({ name: 'KindNotAccepted', statusCode: 403, message: 'This kind of credential is not accepted here.' }))
const key = 'key_of_a_script'

/** A kind that is as good as an own token, but for the consent that it needs. */
const kind = (payload: Record<string, unknown>): CredentialKind => ({
  verify: (text) => text === key
    ? { token: text, payload, registered: readRegistered(payload), isRemembered: false, authority: { ...ownAuthority, unlessAccepted: refusal }, life: endless }
    : undefined
})

/** Adds the kind to an instance, before guards are made. */
function addKind (app: FastifyInstance, payload: Record<string, unknown> = claims({ scopes: ['user:read'], auth_time: claims().exp - 1800 })): void {
  const { kinds = [] } = registrationOf(app.tokenAuth) ?? {}
  // The list of a registration is frozen for the compiler only.
  ;(kinds as CredentialKind[]).unshift(kind(payload))
}

async function withKind (t: Test, options: Partial<TokenAuthOptions> = {}): Promise<FastifyInstance> {
  const app = await build(t, together({ retrieveUser: async () => shownUsers[0], scopesEnabled: true, addScopesToPayload: async () => ['user:read'] }, options))
  addKind(app)
  return app
}

const withSessions = { sessions: {}, cookieSet: true, cookieStrict: false, claimAuthTime: true }
/** Handlers and settings of the specification's own refresh tokens. */
function withRefreshTokens (): Partial<TokenAuthOptions> {
  const { stored, ...options } = refreshStore()
  return options
}

t.test('no guard lets them pass, whatever its options, and no handler runs', async (t) => {
  const app = await withKind(t, withSessions)
  const { tokenAuth } = app
  const reached: string[] = []
  const handler = async ({ url }: FastifyRequest) => { reached.push(url) }
  const guards = {
    protect: tokenAuth.protect(),
    optional: tokenAuth.protect({ optional: true }),
    'with another setting': tokenAuth.protect({ leeway: 5 }),
    'with the age of a login': tokenAuth.protect({ maxAge: 60 }),
    'that redirects': tokenAuth.protect({ redirectOnFail: true }),
    'that renews': tokenAuth.protect({ renew: true }),
    'optional, that renews': tokenAuth.protect({ optional: true, renew: true }),
    scoped: tokenAuth.scoped('user:read'),
    'with computed scopes': tokenAuth.scoped(() => 'user:read'),
    'free-standing protect': protect(),
    'free-standing scoped': scoped('user:read')
  }
  const called = tokenAuth.protect()
  for (const [name, onRequest] of Object.entries(guards)) app.get(`/${name.replaceAll(' ', '-')}`, { onRequest }, handler)
  app.get('/called', async (request, reply) => { await called(request, reply); reached.push('called') })
  app.get('/injected', tokenAuth.injectUser(handler))
  app.get('/injected-free', injectUser(handler))
  app.get('/injected-leeway', tokenAuth.injectUser(handler, { leeway: 5 }))
  for (const name of [...Object.keys(guards).map((name) => name.replaceAll(' ', '-')), 'called', 'injected', 'injected-free', 'injected-leeway']) {
    const answer = await app.inject({ url: `/${name}`, headers: bearer(key) })
    assert.deepEqual([answer.statusCode, answer.json().exception], [403, 'KindNotAccepted'], name)
  }
  t.same(reached, [])
  t.equal((await app.inject({ url: '/scoped', headers: bearer(forge(claims({ scopes: ['user:read'] }))) })).statusCode, 200, 'control: a token')
  t.same(reached, ['/scoped'])
})

/** Requests for every endpoint of an application. */
function requestsFor (app: FastifyInstance, headers: Record<string, string>): Array<InjectOptions & { readonly url: string }> {
  return app.tokenAuth.routes().filter(({ url, method }) => url.startsWith('/auth') && method !== 'HEAD').map(({ method, url }) => ({
    method: method as HTTPMethods & 'GET', url: url.replace(':id', 'x'), headers, ...method !== 'GET' && method !== 'DELETE' && { payload: {} }
  }))
}

t.test('no endpoint accepts them', async (t) => {
  warnings(t, 'W16')
  const refuse = { authenticate: async () => { throw new AuthenticationFailed() } }
  for (const options of [withSessions, { sessions: {} }, withRefreshTokens(), together(withRefreshTokens(), { cookieSet: true, cookieStrict: false })]) {
    const app = await withKind(t, together({ ...keysFor('ES256'), secret: undefined, pathToJwks: '/jwks' } as {}, options, refuse))
    await app.ready()
    const requests = requestsFor(app, bearer(key))
    assert.ok(requests.length > 4)
    for (const request of requests) {
      const answer = await app.inject(request)
      const what = caseOf(request.method, request.url, answer.body)
      // The public keys are for everybody.
      assert.equal(answer.statusCode < 400, request.url === '/auth/jwks', what)
      if (/^\/auth\/(?:me|sessions)/.test(request.url)) assert.equal(answer.json().exception, 'KindNotAccepted', what)
    }
    t.strictSame((await app.inject({ url: '/auth/verify', headers: bearer(key) })).json(), { valid: false, reason: 'This kind of credential is not accepted here.' })
  }
})

t.test('a refresh token is not exchanged beside one, and a session is not ended by one', async (t) => {
  const app = await withKind(t, { sessions: {} })
  const { refresh_token: refreshToken, access_token: token } = (await login(app)).json()
  addKind(app, payloadOf(token))
  t.equal((await app.inject({ method: 'POST', url: '/auth/logout', headers: bearer(key), payload: {} })).json().exception, 'KindNotAccepted')
  t.equal((await app.inject({ url: '/auth/me', headers: bearer(token) })).statusCode, 200, 'the session has not ended')
  t.equal((await app.inject({ method: 'POST', url: '/auth/refresh', payload: { refresh_token: refreshToken } })).statusCode, 200)
  const classic = await withKind(t, withRefreshTokens())
  const { refresh_token: own } = (await login(classic)).json()
  t.equal((await classic.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(key), payload: { refresh_token: own } })).json().exception, 'KindNotAccepted')
})

/** Everything by which a handler can ask about its request. */
async function readAll ({ tokenAuth }: FastifyInstance, request: FastifyRequest) {
  const { payload, userId, scopes, sessionId, issuer, token, source } = request.tokenAuth
  const { aborted } = request.tokenAuth.signal
  return {
    read: [payload, userId, scopes, sessionId, issuer, token, source, await request.tokenAuth.user()],
    extracted: [tokenAuth.extractPayload(request), tokenAuth.extractUserId(request), tokenAuth.extractScopes(request)],
    isAuthenticated: tokenAuth.isAuthenticated(request),
    aborted
  }
}
const nobody = { read: Array(8).fill(null), extracted: [null, null, null], isAuthenticated: false, aborted: false }

t.test('readers do not see them, on a route without a guard and with doProtection: false', async (t) => {
  warnings(t, 'W03')
  for (const doProtection of [true, false]) {
    const app = await withKind(t, { doProtection })
    app.get('/', { onRequest: doProtection ? [] : app.tokenAuth.protect() }, async (request) => {
      await request.tokenAuth.ready()
      t.throws(() => request.tokenAuth.verified, { name: 'KindNotAccepted' })
      await t.rejects(app.tokenAuth.verifyToken(key, request), { name: 'KindNotAccepted' })
      return await readAll(app, request)
    })
    t.strictSame((await app.inject({ url: '/', headers: bearer(key) })).json(), nobody)
    t.throws(() => app.tokenAuth.verifyToken(key), { name: 'KindNotAccepted' })
  }
})

t.test('who accepts them shows them to the readers, and lets them pass no other guard', async (t) => {
  const app = await withKind(t)
  const owner = registrationOf(app.tokenAuth)!
  const found: unknown[] = []
  app.addHook('onRequest', async (request) => { found.push(await stateOf(owner, request).verify(true)) })
  app.get('/', async (request) => await readAll(app, request))
  app.get('/guarded', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const { read, isAuthenticated } = (await app.inject({ url: '/', headers: bearer(key) })).json()
  t.match(read, [{ user_id: 1 }, 1, ['user:read'], null, null, key, 'header', shownUsers[0]])
  t.equal(isAuthenticated, true)
  t.equal((await app.inject({ url: '/guarded', headers: bearer(key) })).json().exception, 'KindNotAccepted')
  t.strictSame(found, [null, null])
  await app.inject({ url: '/', headers: bearer('a.b.c') })
  t.ok(found[2] instanceof Refusal, 'what is not valid is refused')
})
