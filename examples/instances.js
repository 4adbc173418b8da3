/**
 * Two kinds of users in one application: staff and partners. Each has its own login, secret and settings.
 *
 *   node examples/instances.js
 */
import { randomBytes } from 'node:crypto'
import Fastify from 'fastify'
import tokenAuth, { AuthenticationFailed } from 'fastify-token-auth'
import { loginLine, passwordLogin, start, tokenLine } from './shared.js'

const staff = [{ user_id: 1, name: 'ada', password: 'lovelace' }]
const partners = [{ partner: 'acme', key: 'key of acme' }]

export async function createService ({ fastify } = {}) {
  const app = Fastify(fastify)

  await app.register(tokenAuth, {
    instanceName: 'staffAuth',
    urlPrefix: '/staff/auth',
    secret: randomBytes(32),
    expirationDelta: 8 * 3600,
    authenticate: passwordLogin(staff)
  })
  // The secrets must differ. With the same secret, each instance would accept the tokens of the other.
  await app.register(tokenAuth, {
    instanceName: 'partnerAuth',
    urlPrefix: '/partners/auth',
    secret: randomBytes(32),
    userId: 'partner',
    authorizationHeader: 'x-partner-token',
    authorizationHeaderPrefix: '',
    expirationDelta: 300,
    authenticate (request) {
      const partner = partners.find(({ key }) => key === request.body.key)
      if (partner === undefined) throw new AuthenticationFailed()
      return partner
    }
  })

  app.get('/staff/orders', { onRequest: app.staffAuth.protect() }, async (request) => ({ staff: request.staffAuth.userId, orders: [1, 2, 3] }))
  app.get('/partners/orders', { onRequest: app.partnerAuth.protect() }, async (request) => ({ partner: request.partnerAuth.userId, orders: [2] }))
  return app
}

await start(import.meta.filename, createService, (address) => `${loginLine(`${address}/staff/auth`, { username: 'ada', password: 'lovelace' })}
${tokenLine(`${address}/staff/orders`)}
${loginLine(`${address}/partners/auth`, { key: 'key of acme' })}
curl -i ${address}/partners/orders -H "x-partner-token: $TOKEN"`)
