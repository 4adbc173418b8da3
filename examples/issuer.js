/**
 * Issues tokens that other services verify. Only this service has the private key. See verifier.js for a service that
 * verifies the tokens.
 *
 *   node examples/issuer.js
 */
import { generateKeyPairSync } from 'node:crypto'
import Fastify from 'fastify'
import tokenAuth from 'fastify-token-auth'
import { loginLine, passwordLogin, start, tokenLine } from './shared.js'

/** Settings that both services share: the algorithm, the issuer and the audience. */
export const agreed = { algorithm: 'ES256', claimIss: 'issuer', claimAud: 'reports' }

const users = [{ user_id: 1, name: 'ada', password: 'lovelace', department: 'research' }]

export async function createService ({ fastify } = {}) {
  // A real service reads the key from a file or a secret store: `privateKey: { path: '/run/secrets/private.pem' }`.
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const app = Fastify(fastify)
  await app.register(tokenAuth, {
    ...agreed,
    publicKey,
    privateKey,
    authenticate: passwordLogin(users),
    // The verifying services have no user store, so the token carries what they need.
    extendPayload: (payload, user) => ({ ...payload, department: user.department })
  })
  // The public key is not secret, but nobody may replace it on its way: use HTTPS, or deploy it with the verifying services.
  app.get('/public-key', (request, reply) => reply.type('application/x-pem-file').send(publicKey.export({ type: 'spki', format: 'pem' })))
  return app
}

await start(import.meta.filename, createService, (address) => `# In another terminal: ISSUER=${address} node examples/verifier.js
${loginLine(`${address}/auth`, { username: 'ada', password: 'lovelace' })}
${tokenLine('http://127.0.0.1:3001/reports')}`)
