/**
 * Verifies the tokens of issuer.js in a separate process, with the public key. It has no users and no login.
 *
 *   ISSUER=http://127.0.0.1:3000 node examples/verifier.js
 */
import Fastify from 'fastify'
import tokenAuth from 'fastify-token-auth'
import { agreed } from './issuer.js'
import { start, tokenLine } from './shared.js'

export async function createService ({ issuer = process.env.ISSUER ?? 'http://127.0.0.1:3000', fastify } = {}) {
  const response = await fetch(new URL('/public-key', issuer))
  if (!response.ok) throw new Error(`The issuer answered ${response.status}.`)
  const app = Fastify(fastify)
  // With `authMode: false` the instance has no endpoints and needs only the public key.
  await app.register(tokenAuth, { ...agreed, authMode: false, publicKey: await response.text() })
  app.get('/reports', { onRequest: app.tokenAuth.protect() }, async (request) => {
    const { user_id: userId, department } = request.tokenAuth.verified.payload
    return { userId, department, reports: ['January', 'February'] }
  })
  return app
}

await start(import.meta.filename, createService, (address) => tokenLine(`${address}/reports`), 3001)
