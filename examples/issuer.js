/**
 * Issues tokens that other services verify: it alone has the private key. See verifier.js for the other half.
 *
 *   node examples/issuer.js
 */
import { generateKeyPairSync } from 'node:crypto'
import Fastify from 'fastify'
import tokenAuth from 'fastify-token-auth'
import { loginLine, passwordLogin, start, tokenLine } from './shared.js'

/** What both services agree on: who issues the tokens, and for whom. */
export const agreed = { algorithm: 'ES256', claimIss: 'issuer', claimAud: 'reports' }

const users = [{ user_id: 1, name: 'ada', password: 'lovelace', department: 'research' }]

export async function createService ({ fastify } = {}) {
  // Kept in a file or a secret store by a real service: `privateKey: { path: '/run/secrets/private.pem' }`.
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const app = Fastify(fastify)
  await app.register(tokenAuth, {
    ...agreed,
    publicKey,
    privateKey,
    authenticate: passwordLogin(users),
    // What the verifiers need to know of a user travels in the token: they have no users.
    extendPayload: (payload, user) => ({ ...payload, department: user.department })
  })
  // Not secret, but it must reach the verifiers unchanged: by https, or with their deployment.
  app.get('/public-key', (request, reply) => reply.type('application/x-pem-file').send(publicKey.export({ type: 'spki', format: 'pem' })))
  return app
}

await start(import.meta.filename, createService, (address) => `# In another terminal: ISSUER=${address} node examples/verifier.js
${loginLine(`${address}/auth`, { username: 'ada', password: 'lovelace' })}
${tokenLine('http://127.0.0.1:3001/reports')}`)
