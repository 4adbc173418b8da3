/** A real OpenID provider, whose keys are replaced at once. */
import { generateKeyPairSync } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { answer, audience, status, trusted, withIssuers } from '../authorities/issuers.ts'
import { headerOf } from '../helper.ts'

// It says on the console what a production needs, and which versions of Node.js it was tested with.
const said = { warn: console.warn, info: console.info }
Object.assign(console, { warn: () => {}, info: () => {} })
const { default: Provider } = await import('oidc-provider')
t.teardown(() => { Object.assign(console, said) })

const client = { client_id: 'service', client_secret: 'a secret of a client, for tests only', grant_types: ['client_credentials'], response_types: [], redirect_uris: [] }

/** A provider that issues JWT access tokens (RFC 9068) for this service, with one key. */
function provider (issuer: string, kid: string): RequestListener {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const made = new Provider(issuer, {
    clients: [client],
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kty: 'RSA', kid, use: 'sig', alg: 'RS256' }] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        getResourceServerInfo: () => ({ scope: 'read:items write:items', audience, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } })
      }
    }
  })
  return made.callback()
}

/** A server of a provider that can be replaced by another one. */
async function running (t: Test) {
  const requests: string[] = []
  let callback: RequestListener = () => {}
  const server = createServer((request, response) => {
    requests.push(String(request.url))
    callback(request, response)
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { server.closeAllConnections(); server.close() })
  const { port } = server.address() as AddressInfo
  const issuer = `http://127.0.0.1:${port}`
  return {
    issuer,
    jwksUri: `${issuer}/jwks`,
    replace (kid: string) { callback = provider(issuer, kid) },
    /** How often the keys were fetched. */
    fetches: () => requests.filter((url) => url === '/jwks').length,
    async token (scope: string): Promise<string> {
      const response = await fetch(`${issuer}/token`, {
        method: 'POST',
        headers: { authorization: `Basic ${Buffer.from(`${client.client_id}:${encodeURIComponent(client.client_secret)}`).toString('base64')}` },
        body: new URLSearchParams({ grant_type: 'client_credentials', scope })
      })
      return String(Object(await response.json()).access_token)
    }
  }
}

// Promise: keys/issuer-replaces-key
t.test('a provider replaces its key at once: of 50 concurrent requests with new tokens none is refused, and the keys are fetched once', async (t) => {
  const { issuer, jwksUri, replace, fetches, token } = await running(t)
  replace('first')
  const app = await withIssuers(t, trusted({ issuer, jwksUri, algorithms: undefined, typ: 'at+jwt' }))
  t.equal(fetches(), 1)
  const before = await token('read:items')
  t.match(headerOf(before), { kid: 'first', typ: 'at+jwt' })
  t.match((await answer(app, before)).json(), { issuer, userId: 'service', scopes: ['read:items'] })
  replace('second')
  const tokens = await Promise.all(Array.from({ length: 50 }, async () => await token('write:items')))
  t.equal(new Set(tokens).size, 50)
  t.equal(headerOf(String(tokens[0])).kid, 'second')
  t.same(await Promise.all(tokens.map((one) => status(app, one))), tokens.map(() => 200))
  t.equal(fetches(), 2)
  t.equal(await status(app, before), 401, 'its key was withdrawn')
})
