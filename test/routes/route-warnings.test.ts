/** The warnings about routes: open ones in production, and scopes that no token has. */
import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import { createPublicKey } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import tokenAuth, { scoped, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, build, host, mistyped, otherSecret, rsaPair, secret, warnings } from '../helper.ts'

const handler = async () => 'reached'

/** The texts of the warnings of a code, as they come, without the page that each of them names. */
function textsOf (t: Test, code: string): () => Promise<string[]> {
  warnings(t, code)
  const texts: string[] = []
  const page = ` See node_modules/fastify-token-auth/docs/findings.md#token_auth_${code.toLowerCase()}`
  const listener = ({ code: given, message }: Error & { code?: string }) => { if (given === `TOKEN_AUTH_${code}`) texts.push(message.replace(page, '')) }
  process.on('warning', listener)
  t.teardown(() => process.off('warning', listener))
  return async () => {
    await turn()
    return texts.splice(0)
  }
}

function environment (t: Test, value: string): void {
  const { NODE_ENV: before } = process.env
  t.teardown(() => { if (before === undefined) delete process.env.NODE_ENV; else process.env.NODE_ENV = before })
  process.env.NODE_ENV = value
}

const advice = 'Routes have neither a guard nor an exemption, so everybody may use them. Give each of them a guard, or set "config: { tokenAuth: false }" if everybody may use it, or "config: { tokenAuth: \'basic auth\' }" if something else guards it. If "requireGuards" is true, the application does not start with such a route; false silences this warning.'

// Promise: security/route-without-guard
t.test('in production, routes that have neither guard nor exemption are one warning, with their number and the first five (W26)', async (t) => {
  const taken = textsOf(t, 'W26')
  environment(t, 'production')
  const app = await build(t, { instanceName: 'staff' })
  await app.register(tokenAuth, { instanceName: 'partner', secret: otherSecret, authMode: false })
  await app.register(cors)
  app.get('/guarded', { onRequest: app.staff.protect() }, handler)
  app.get('/declared', { config: { tokenAuth: false } }, handler)
  for (const url of ['/a', '/b', '/c', '/d']) app.post(url, handler)
  await app.register(async function orders (nested) { nested.get('/orders', handler) })
  await app.ready()
  const five = 'POST /a (fastify), POST /b (fastify), POST /c (fastify), POST /d (fastify), GET,HEAD /orders (orders)'
  t.same(await taken(), [`staff: ${advice} Routes with neither a guard nor an exemption: 5. ${five}.`])

  const more = await build(t, { authMode: false })
  for (const url of ['/a', '/b', '/c', '/d', '/e', '/f', '/g']) more.post(url, handler)
  await more.ready()
  t.match(await taken(), [/Routes with neither a guard nor an exemption: 7\. POST \/a .*POST \/e \(fastify\), and 2 more\.$/])
})

t.test('W26 is not told outside of production, where all routes are decided, and where requireGuards is given, by whatever source', async (t) => {
  const taken = textsOf(t, 'W26')
  const started = async (options: Partial<TokenAuthOptions> = {}, configuration?: object) => {
    const app = host(t)
    if (configuration !== undefined) app.decorate('config', configuration)
    await app.register(tokenAuth, mistyped({ secret, authMode: false, ...options }))
    app.get('/open', handler)
    await app.ready()
    return await taken()
  }
  t.same(await started(), [])
  environment(t, 'production')
  t.equal((await started()).length, 1)
  t.same(await started({ requireGuards: false }), [])
  t.same(await started({ setRequireGuards: () => false }), [])
  t.same(await started({}, { SERVICE_JWT_REQUIRE_GUARDS: 'false' }), [])
  const decided = await build(t)
  decided.get('/guarded', { onRequest: decided.tokenAuth.protect() }, handler)
  await decided.ready()
  t.same(await taken(), [])
})

t.test('W26 concerns the routes of the context of an instance and those below, unless an instance around them was given requireGuards', async (t) => {
  const taken = textsOf(t, 'W26')
  environment(t, 'production')
  const app = host(t)
  await app.register(async (nested) => {
    await nested.register(tokenAuth, { secret, authMode: false })
    nested.get('/in', handler)
    await nested.register(async (inner) => {
      await inner.register(tokenAuth, { secret, authMode: false, instanceName: 'staff', requireGuards: false })
      inner.get('/silent', handler)
    })
  })
  app.get('/outside', handler)
  await app.ready()
  t.match(await taken(), [/^tokenAuth: .* Routes with neither a guard nor an exemption: 1\. GET,HEAD \/in \(.*\)\.$/])
})

const scopes = 'A route is guarded by scoped(), but the tokens of this instance have no scopes, so every request is refused, unless generateAccessToken() is called with "scopes". Set "scopesEnabled" to true, and add the handler "addScopesToPayload".'

t.test('a guard for scopes that no token has is a warning, which names the first route, once for each instance (W27)', async (t) => {
  const taken = textsOf(t, 'W27')
  const app = await build(t)
  app.get('/plain', { onRequest: app.tokenAuth.protect() }, handler)
  app.post('/reports', { preHandler: scoped('reports:write') }, handler)
  app.get('/second', { onRequest: app.tokenAuth.scoped('a') }, handler)
  await app.ready()
  t.same(await taken(), [`tokenAuth: ${scopes} The first such route: POST /reports.`])

  const computed = await build(t)
  computed.register(async (nested) => {
    nested.addHook('onRequest', computed.tokenAuth.scoped(() => 'a'))
    nested.get('/computed', handler)
  })
  await computed.ready()
  t.same(await taken(), [`tokenAuth: ${scopes} The first such route: GET /computed.`])
})

t.test('W27 is not told where tokens may have scopes', async (t) => {
  const taken = textsOf(t, 'W27')
  const jwk = { ...createPublicKey(rsaPair().publicKey).export({ format: 'jwk' }), kid: 'a' }
  const options: Record<string, Partial<TokenAuthOptions>> = {
    'scopes are on': { scopesEnabled: true, addScopesToPayload: () => 'a' },
    'somebody else issues the tokens': { authMode: false },
    'an issuer is trusted': { issuers: [{ issuer: 'https://issuer.example', audience: 'api', jwks: { keys: [jwk] } }], retrieveUser: () => null } as unknown as Partial<TokenAuthOptions>,
    extendPayload: { extendPayload: (payload) => ({ ...payload, scopes: ['a'] }) },
    overrideScopeValidator: { overrideScopeValidator: () => true },
    'a getter': { getScopesEnabled: () => true },
    'another getter': { getScopesName: () => 'role' }
  }
  for (const [what, given] of Object.entries(options)) {
    const app = await build(t, given)
    app.get('/reports', { onRequest: app.tokenAuth.scoped('a') }, handler)
    await app.ready()
    t.same(await taken(), [], what)
  }
  const app: FastifyInstance = host(t)
  await app.register(tokenAuth, { secret, authenticate })
  app.get('/other', { onRequest: app.tokenAuth.scoped('a', { secret: otherSecret }) }, handler)
  app.get('/plain', { onRequest: app.tokenAuth.protect() }, handler)
  await app.ready()
  t.same(await taken(), [], 'a guard with overrides')
})
