/**
 * One service for many tenants. Each tenant has its own secret, so it refuses the tokens of the others.
 *
 *   node examples/tenants.js
 */
import { randomBytes } from 'node:crypto'
import Fastify from 'fastify'
import tokenAuth from 'fastify-token-auth'
import { loginLine, passwordLogin, start, tokenLine } from './shared.js'

/** A real service stores tenants in a database. With different secrets, a leaked secret affects one tenant only. */
const tenants = new Map([
  ['red.localhost', { name: 'red', secret: randomBytes(32), users: [{ user_id: 1, name: 'ada', password: 'lovelace' }] }],
  ['blue.localhost', { name: 'blue', secret: randomBytes(32), users: [{ user_id: 1, name: 'grace', password: 'hopper' }] }]
])

/** Finds the tenant by host name. Clients can send any host name, but it only selects the secret that verifies the token. */
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
    // Called at most once per request, and only if a token is issued or verified.
    getSecret: (request) => request.tenant.secret,
    authenticate: (request) => passwordLogin(request.tenant.users)(request)
  })
  app.get('/private', { onRequest: app.tokenAuth.protect() }, async (request) => ({ tenant: request.tenant.name, userId: request.tokenAuth.userId }))
  return app
}

await start(import.meta.filename, createService, (address) => `${loginLine(`${address}/auth`, { username: 'ada', password: 'lovelace' }, " -H 'host: red.localhost'")}
${tokenLine(`${address}/private`, " -H 'host: red.localhost'")}
${tokenLine(`${address}/private`, " -H 'host: blue.localhost'")}`)
