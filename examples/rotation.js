/**
 * Changes its key while clients go on: from a secret to an Ed25519 pair, without a restart and without logging anybody out.
 *
 *   node examples/rotation.js
 */
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import Fastify from 'fastify'
import tokenAuth from 'fastify-token-auth'
import { passwordLogin, start } from './shared.js'

const users = [{ user_id: 1, name: 'ada', password: 'lovelace' }]
/** In seconds, and short, so that there is something to see. */
const [expirationDelta, leeway] = [10, 2]

export async function createService ({ fastify } = {}) {
  const app = Fastify(fastify)
  // A real service reads the keys from a secret store or a mounted file. At first there is the secret from before.
  let keys = [{ key: randomBytes(32), algorithm: 'HS256', kid: 'old' }]

  await app.register(tokenAuth, {
    algorithm: 'EdDSA',
    expirationDelta,
    leeway,
    keys: () => keys,
    // Sessions do not change with the keys of access tokens.
    sessions: { secret: randomBytes(32) },
    authenticate: passwordLogin(users)
  })
  app.get('/private', { onRequest: app.tokenAuth.protect() }, async (request) => ({ userId: request.tokenAuth.userId }))

  /** Adds a key that signs in some seconds, and gives the old one its end. With several processes, wait until all of them know the key. */
  app.decorate('changeKey', async (seconds) => {
    const signFrom = Date.now() + seconds * 1000
    // Until then, tokens of the old key have expired. An earlier date would be refused.
    const verifyUntil = signFrom + (expirationDelta + leeway) * 1000
    const { privateKey } = generateKeyPairSync('ed25519')
    const [old] = keys
    keys = [{ key: privateKey, kid: 'new', signFrom: new Date(signFrom) }, { ...old, verifyUntil: new Date(verifyUntil) }]
    await app.tokenAuth.reloadKeys()
  })
  return app
}

/** A client that sends a request every second, and refreshes its token before it expires. */
async function runClient (address, app) {
  const post = async (path, body) => (await fetch(address + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })).json()
  let tokens = await post('/auth', { username: 'ada', password: 'lovelace' })
  for (let second = 0; second <= 20; second++) {
    if (second % 8 === 7) tokens = await post('/auth/refresh', { refresh_token: tokens.refresh_token })
    const { status } = await fetch(`${address}/private`, { headers: { authorization: `Bearer ${tokens.access_token}` } })
    const { kid } = JSON.parse(Buffer.from(tokens.access_token.split('.')[0], 'base64url'))
    const states = app.tokenAuth.keyStatus().keys.map((key) => `${key.kid} ${key.state}`)
    console.log(`${String(second).padStart(2)} s: a token of the key "${kid}" is answered with ${status}. Keys: ${states.join(', ')}.`)
    if (second === 2) await app.changeKey(3)
    await new Promise((resolve) => setTimeout(resolve, 1000))
  }
  await app.close()
}

await start(import.meta.filename, createService, (address, app) => {
  runClient(address, app)
  return `${address}: a client logs in, and after two seconds the service gets a new key.`
})
