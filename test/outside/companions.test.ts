/** Plugins and libraries that hosts bring along, as they are published. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import cookie from '@fastify/cookie'
import csrf from '@fastify/csrf-protection'
import oauth2, { type OAuth2Namespace } from '@fastify/oauth2'
import responseValidation from '@fastify/response-validation'
import session from '@fastify/session'
import swagger from '@fastify/swagger'
import type { FastifyInstance, FastifyPluginCallback, InjectOptions, LightMyRequestResponse } from 'fastify'
import { jsonSchemaTransform, serializerCompiler, validatorCompiler } from 'fastify-type-provider-zod'
import t, { type Test } from 'tap'
import { z } from 'zod'
import tokenAuth from '../../lib/index.ts'
import { authenticate, bearer, caseOf, claims, forge, host, keysFor, otherSecret, payloadOf, secret, shownUsers } from '../helper.ts'

declare module 'fastify' {
  interface Session { visits?: number }
}

interface Document { paths: Record<string, Record<string, { security?: unknown, responses?: object, requestBody?: object, summary?: string }>>, components: { securitySchemes?: object } }

// Promise: specification/documentation-transform
t.test('fastify-type-provider-zod: its transformation sees the schemas of the host alone, and guards and endpoints are documented', async (t) => {
  for (const openapi of ['3.0.3', '3.1.0']) {
    const app = host(t)
    app.setValidatorCompiler(validatorCompiler)
    app.setSerializerCompiler(serializerCompiler)
    await app.register(swagger, { openapi: { openapi, info: { title: 'x', version: '1' } }, transform: jsonSchemaTransform })
    await app.register(tokenAuth, { secret, authenticate, sessions: {}, retrieveUser: async () => shownUsers[0] })
    const schema = { querystring: z.object({ page: z.string() }), response: { 200: z.object({ ok: z.boolean() }), 401: z.object({ mine: z.string() }) } }
    app.get('/orders', { onRequest: app.tokenAuth.scoped('read'), schema }, async () => ({ ok: true }))
    app.get('/plain', { onRequest: app.tokenAuth.protect() }, async () => ({ ok: true }))
    app.get('/hidden', { onRequest: app.tokenAuth.protect(), schema: { hide: true } }, async () => ({ ok: true }))
    await app.ready()
    const document: Document = JSON.parse(JSON.stringify(app.swagger()))
    t.match(document.paths['/orders']?.get, { parameters: [{ name: 'page' }], responses: { 200: {}, 401: {}, 403: {} } }, openapi)
    t.same(document.paths['/orders']?.get?.security, [{ tokenAuth: openapi === '3.1.0' ? ['read'] : [] }])
    t.match(document.paths['/plain']?.get, { security: [{ tokenAuth: [] }], responses: { 200: {}, 401: {} } })
    t.equal(document.paths['/hidden'], undefined)
    t.match(document.paths['/auth']?.post, { security: [], summary: 'Issue an access token', requestBody: {}, responses: { 200: {}, 401: {}, 503: {} } })
    t.match(document.paths['/auth/me']?.get, { parameters: [{ in: 'query', name: 'optional' }], responses: { 200: {} } })
    t.equal((await app.inject({ url: '/orders?page=1' })).statusCode, 401, 'whatever the route documents of its 401')
    t.equal((await app.inject({ url: '/orders?page=1', headers: bearer(forge(claims({ scopes: ['read'] }))) })).statusCode, 200)
  }
})

/** What a browser keeps of the cookies of an application. */
function jar (app: FastifyInstance): (request: InjectOptions) => Promise<LightMyRequestResponse> {
  const cookies: Record<string, string> = {}
  return async (request) => {
    const answer = await app.inject({ ...request, cookies })
    for (const { name, value } of answer.cookies) cookies[name] = value
    return answer
  }
}

type Send = ReturnType<typeof jar>

/** A plugin of hosts that uses cookies: how it is registered, its routes, and what of it must work. */
interface Companion {
  /** Whether it registers @fastify/cookie where the host does not. */
  readonly bringsCookies?: true
  register (app: FastifyInstance): Promise<void>
  routes (app: FastifyInstance): void
  use (t: Test, send: Send): Promise<void>
}

const counted: Pick<Companion, 'use'> = {
  async use (t, send) {
    for (const visits of [1, 2, 3]) t.same((await send({ url: '/visits' })).json(), { visits })
  }
}

/** Its types and those of @fastify/session declare the same member of requests. */
const secureSession: FastifyPluginCallback<{ key: Buffer, sessionName: string, cookie: object }> = createRequire(import.meta.url)('@fastify/secure-session')

/** A provider that gives a token for its code. */
async function startProvider (t: Test): Promise<string> {
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text) => { body += text }).on('end', () => {
      const isRight = new URLSearchParams(body).get('code') === 'the-code'
      response.writeHead(isRight ? 200 : 400, { 'content-type': 'application/json' })
      response.end(JSON.stringify(isRight ? { access_token: 'of-the-provider', token_type: 'bearer', expires_in: 60 } : { error: 'invalid_grant' }))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close() })
  const { port } = server.address() as AddressInfo
  return `http://127.0.0.1:${port}`
}

const companions: Record<string, (provider: string) => Companion> = {
  '@fastify/session': () => ({
    ...counted,
    async register (app) { await app.register(session, { secret: otherSecret, cookie: { secure: false } }) },
    routes (app) {
      app.get('/visits', async (request) => {
        const visits = (request.session.visits ?? 0) + 1
        request.session.visits = visits
        return { visits }
      })
    }
  }),
  '@fastify/secure-session': () => ({
    ...counted,
    bringsCookies: true,
    async register (app) { await app.register(secureSession, { key: Buffer.alloc(32, 7), sessionName: 'secure', cookie: { path: '/' } }) },
    routes (app) {
      app.get('/visits', async (request) => {
        const { secure }: { secure: { get (name: string): unknown, set (name: string, value: unknown): void } } = Object(request)
        const visits = Number(secure.get('visits') ?? 0) + 1
        secure.set('visits', visits)
        return { visits }
      })
    }
  }),
  '@fastify/csrf-protection': () => ({
    async register (app) { await app.register(csrf) },
    routes (app) {
      app.get('/csrf', async (_request, reply) => ({ token: reply.generateCsrf() }))
      app.post('/transfer', { onRequest: [app.tokenAuth.protect(), app.csrfProtection] }, async () => 'sent')
    },
    async use (t, send) {
      const { token } = (await send({ url: '/csrf' })).json()
      const transfer = async (headers: Record<string, string>) => (await send({ method: 'POST', url: '/transfer', headers })).statusCode
      t.equal(await transfer({ 'csrf-token': token }), 200)
      t.equal(await transfer({ 'csrf-token': 'another' }), 403)
      t.equal(await transfer({}), 403)
    }
  }),
  '@fastify/oauth2': (provider) => ({
    bringsCookies: true,
    async register (app) {
      await app.register(oauth2, {
        name: 'provider',
        credentials: { client: { id: 'shop', secret: 'of-the-shop' }, auth: { authorizeHost: provider, authorizePath: '/authorize', tokenHost: provider, tokenPath: '/token' } },
        startRedirectPath: '/provider',
        callbackUri: 'https://shop.example/callback'
      })
    },
    routes (app) {
      app.get('/callback', async (request) => {
        const { provider }: { provider: OAuth2Namespace } = Object(app)
        return (await provider.getAccessTokenFromAuthorizationCodeFlow(request)).token
      })
    },
    async use (t, send) {
      const start = await send({ url: '/provider' })
      t.equal(start.statusCode, 302)
      const state = new URL(String(start.headers.location)).searchParams.get('state')
      t.equal(start.cookies.find(({ name }) => name === 'oauth2-redirect-state')?.value, state)
      t.match((await send({ url: '/callback', query: { code: 'the-code', state: String(state) } })).json(), { access_token: 'of-the-provider' })
      t.equal((await send({ url: '/callback', query: { code: 'the-code', state: 'of somebody else' } })).statusCode, 500)
    }
  })
}

for (const [name, create] of Object.entries(companions)) {
  // Promise: specification/cookie-companions
  t.test(`${name} works beside cookie mode, registered before this plugin and after, and with @fastify/cookie in every place`, async (t) => {
    const provider = await startProvider(t)
    const { bringsCookies = false, register, routes, use } = create(provider)
    const own = async (app: FastifyInstance) => {
      await app.register(tokenAuth, { secret, authenticate, retrieveUser: async () => shownUsers[0], sessions: {}, cookieSet: true, cookieAccessTokenName: '__Host-access_token', cookieRefreshTokenName: '__Host-refresh_token', tokensInBody: false })
    }
    const cookies = async (app: FastifyInstance) => { await app.register(cookie) }
    const orders = [[cookies, register, own], [cookies, own, register], [own, cookies, register], ...bringsCookies ? [[register, own], [own, register]] : []]
    for (const order of orders) {
      const app = host(t)
      for (const add of order) await add(app)
      app.get('/account', { onRequest: app.tokenAuth.protect() }, async (request) => ({ userId: request.tokenAuth.userId }))
      routes(app)
      await app.ready()
      const send = jar(app)
      t.equal((await send({ url: '/account' })).statusCode, 401)
      const answer = await send({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } })
      t.same(answer.cookies.map(({ name }) => name).filter((name) => name.startsWith('__Host-')).toSorted(), ['__Host-access_token', '__Host-refresh_token'])
      t.same((await send({ url: '/account' })).json(), { userId: 1 })
      await use(t, send)
      t.equal((await send({ method: 'POST', url: '/auth/refresh' })).statusCode, 200)
      t.same((await send({ url: '/account' })).json(), { userId: 1 })
      t.equal((await send({ method: 'POST', url: '/auth/logout' })).statusCode, 204)
      t.equal((await send({ url: '/account' })).statusCode, 401)
    }
  })
}

// Promise: security/whole-response-schemas
t.test('@fastify/response-validation finds nothing wrong with what endpoints and guards answer, registered before this plugin and after', async (t) => {
  const validate = async (app: FastifyInstance) => { await app.register(responseValidation, { responseStatusCodeValidation: true }) }
  for (const openapi of [undefined, '3.1.0']) {
    for (const order of ['before', 'after']) {
      const app = host(t)
      if (openapi !== undefined) await app.register(swagger, { openapi: { openapi, info: { title: 'x', version: '1' } } })
      if (order === 'before') await validate(app)
      await app.register(tokenAuth, {
        ...keysFor('ES256'), authenticate, retrieveUser: async () => shownUsers[0], sessions: {}, pathToJwks: '/jwks', claimIss: 'https://auth.example', claimAud: 'https://api.example', scopesEnabled: true, addScopesToPayload: async () => ['read']
      })
      if (order === 'after') await validate(app)
      const schema = { response: { 200: { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } } } }
      app.get('/guarded', { onRequest: app.tokenAuth.scoped('read'), schema }, async () => ({ ok: true }))
      app.get('/forbidden', { onRequest: app.tokenAuth.scoped('write'), schema }, async () => ({ ok: true }))
      app.get('/broken', { schema, logLevel: 'silent', config: { tokenAuth: false } }, async () => ({ ok: 'no' }))
      await app.ready()
      const label = caseOf(order, openapi)
      const asked = async (status: number, method: 'GET' | 'POST' | 'DELETE', url: string, { token, payload, headers }: { token?: string, payload?: object, headers?: Record<string, string> } = {}) => {
        const answer = await app.inject({ method, url, headers: { ...headers, ...token !== undefined && bearer(token) }, ...payload && { payload } })
        assert.equal(answer.statusCode, status, `${label}: ${method} ${url}: ${answer.body}`)
        return answer
      }
      const signIn = async () => (await asked(200, 'POST', '/auth', { payload: { username: 'ada', password: 'lovelace' } })).json()
      const { access_token: token, refresh_token: refreshToken } = await signIn()
      await asked(401, 'POST', '/auth', { payload: { username: 'ada', password: 'wrong' } })
      await asked(400, 'POST', '/auth')
      await asked(415, 'POST', '/auth', { payload: {}, headers: { 'content-type': 'text/plain' } })
      await asked(200, 'GET', '/auth/verify', { token })
      await asked(400, 'GET', '/auth/verify', { token: 'x.y.z' })
      await asked(400, 'GET', '/auth/verify')
      await asked(200, 'GET', '/auth/me', { token })
      await asked(200, 'GET', '/auth/me?optional=true')
      await asked(401, 'GET', '/auth/me')
      await asked(200, 'GET', '/auth/jwks')
      await asked(200, 'GET', '/guarded', { token })
      await asked(403, 'GET', '/forbidden', { token })
      await asked(401, 'GET', '/forbidden')
      const { access_token: next, refresh_token: nextRefresh } = (await asked(200, 'POST', '/auth/refresh', { payload: { refresh_token: refreshToken } })).json()
      await asked(401, 'POST', '/auth/refresh', { payload: { refresh_token: 'x' } })
      await asked(400, 'POST', '/auth/refresh')
      const other = await signIn()
      const { sessions } = (await asked(200, 'GET', '/auth/sessions', { token: next })).json()
      assert.equal(sessions.length, 2)
      await asked(401, 'GET', '/auth/sessions')
      await asked(404, 'DELETE', '/auth/sessions/unknown', { token: next })
      await asked(204, 'DELETE', `/auth/sessions/${payloadOf(other.access_token).sid}`, { token: next })
      await asked(204, 'DELETE', '/auth/sessions?except=current', { token: next })
      await asked(204, 'POST', '/auth/logout', { payload: { refresh_token: nextRefresh } })
      await asked(401, 'GET', '/guarded', { token: next })
      assert.equal((await app.inject({ url: '/broken' })).statusCode, 500, 'it validates')
    }
  }
})
