/**
 * One service issues tokens and publishes its keys, another one trusts them. The second fetches the keys by itself, also when
 * they change, and goes on with those that it knows while the first is down. A client shows it, and the program ends.
 *
 *   node examples/trusted-issuer.js
 */
import { generateKeyPairSync } from 'node:crypto'
import Fastify from 'fastify'
import tokenAuth from 'fastify-token-auth'
import { passwordLogin, start } from './shared.js'

/** Names, not addresses: they are in the tokens, and compared as they stand. */
const [issuer, audience] = ['https://auth.example', 'https://reports.example']

const accounts = [
  { user_id: 1, name: 'ada', password: 'lovelace', scopes: ['reports:read'] },
  { user_id: 2, name: 'grace', password: 'hopper', scopes: [] }
]

export async function createIssuer () {
  const newKey = (kid) => ({ kid, key: generateKeyPairSync('ed25519').privateKey })
  // A real service reads the keys from a secret store or a mounted file.
  let keys = [newKey('first')]
  const app = Fastify()
  await app.register(tokenAuth, {
    algorithm: 'EdDSA',
    keys: () => keys,
    pathToJwks: '/jwks',
    claimIss: issuer,
    claimAud: audience,
    scopesEnabled: true,
    authenticate: passwordLogin(accounts),
    addScopesToPayload: (user) => user.scopes
  })
  /** Signs with another key from now on. A real service announces a key with `signFrom`: see rotation.js. */
  app.decorate('changeKey', async (kid) => {
    keys = [newKey(kid), ...keys]
    await app.tokenAuth.reloadKeys()
  })
  return app
}

/** Ids of different issuers may be equal, so a user is found by both: the issuer and the id. */
const users = new Map([[`${issuer} 1`, { name: 'Ada' }], [`${issuer} 2`, { name: 'Grace' }], ['https://partner.example 1', { name: 'Edsger' }]])

/** @param address that of the issuer */
export async function createService (address) {
  const app = Fastify()
  await app.register(tokenAuth, {
    authMode: false,
    // "user_id", "scopes" and the rules of scopes are those of this plugin. Other issuers have the defaults.
    issuers: [{ issuer, audience, jwksUri: `${address}/auth/jwks`, algorithms: ['EdDSA'], userId: 'user_id', scopesName: 'scopes', exactScopes: false }],
    retrieveUser: (request, { iss, user_id: id }) => users.get(`${iss} ${id}`)
  })
  app.get('/hello', { onRequest: app.tokenAuth.protect() }, app.tokenAuth.injectUser(async (request, reply, user) => ({ hello: user?.name })))
  app.get('/reports', { onRequest: app.tokenAuth.scoped('reports:read') }, async () => ['January', 'February'])
  return app
}

await start(import.meta.filename, createIssuer, async (address, issuing) => {
  const service = await createService(address)
  const logIn = async (username, password) => (await issuing.inject({ method: 'POST', url: '/auth', payload: { username, password } })).json().access_token
  const show = async (what, url, token) => {
    const { statusCode, payload } = await service.inject({ url, headers: { authorization: `Bearer ${token}` } })
    console.log(`${what}: GET ${url} is answered with ${statusCode} ${payload}`)
  }
  const [ada, grace] = [await logIn('ada', 'lovelace'), await logIn('grace', 'hopper')]
  for (const url of ['/hello', '/reports']) await show('Ada', url, ada)
  for (const url of ['/hello', '/reports']) await show('Grace, without the scope', url, grace)
  await issuing.changeKey('second')
  await show('Ada, with a new key', '/hello', await logIn('ada', 'lovelace'))
  await issuing.changeKey('third')
  const later = await logIn('ada', 'lovelace')
  await issuing.close()
  await show('The issuer is down, a key that is known', '/hello', ada)
  await show('The issuer is down, a key that is not known', '/hello', later)
  await service.close()
  return 'Both services are closed.'
}, 0)
