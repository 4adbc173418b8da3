/**
 * One service for many tenants, each with a secret of its own: a token of one means nothing to another.
 *
 *   node examples/tenants.js
 */
import { randomBytes } from 'node:crypto'
import Fastify from 'fastify'
import tokenAuth from 'fastify-token-auth'
import { loginLine, passwordLogin, start, tokenLine } from './shared.js'

/** In a real service: a table. Secrets that differ keep a leak in one tenant from being a leak in all. */
const tenants = new Map([
  ['red.localhost', { name: 'red', secret: randomBytes(32), users: [{ user_id: 1, name: 'ada', password: 'lovelace' }] }],
  ['blue.localhost', { name: 'blue', secret: randomBytes(32), users: [{ user_id: 1, name: 'grace', password: 'hopper' }] }]
])

/** The tenant is asked for by host name. A client may write there what it likes: it only chooses whose tokens are valid. */
async function tenantOf (request) {
  const tenant = tenants.get(request.hostname)
  if (tenant === undefined) throw Object.assign(new Error('There is no such tenant.'), { statusCode: 404 })
  return tenant
}

export async function createService ({ fastify } = {}) {
  const app = Fastify(fastify)
  app.decorateRequest('tenant', null)
  app.addHook('onRequest', async (request) => { request.tenant = await tenantOf(request) })
  await app.register(tokenAuth, {
    // Called once for a request, and only where a token is made or verified.
    getSecret: (request) => request.tenant.secret,
    authenticate: (request) => passwordLogin(request.tenant.users)(request)
  })
  app.get('/private', { onRequest: app.tokenAuth.protect() }, async (request) => ({ tenant: request.tenant.name, userId: request.tokenAuth.userId }))
  return app
}

await start(import.meta.filename, createService, (address) => `${loginLine(`${address}/auth`, { username: 'ada', password: 'lovelace' }, " -H 'host: red.localhost'")}
${tokenLine(`${address}/private`, " -H 'host: red.localhost'")}
${tokenLine(`${address}/private`, " -H 'host: blue.localhost'")}`)
