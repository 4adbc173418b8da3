/** Other libraries that read the published keys. */
import { createPublicKey } from 'node:crypto'
import { JwtVerifier } from 'aws-jwt-verify'
import { SimpleJwksCache } from 'aws-jwt-verify/jwk'
import { jwtVerify } from 'jose'
import { JwksClient } from 'jwks-rsa'
import t from 'tap'
import { issued, source, withKeys } from '../keys/ring.ts'
import { forge, headerOf, listen, pairFor, payloadOf } from '../helper.ts'

const published = { pathToJwks: '/jwks', claimIss: 'https://auth.example', claimAud: 'https://api.example' }

// Promise: keys/other-libraries-verify
t.test('jwks-rsa and aws-jwt-verify read what is published, over the network and over a switch of keys', async (t) => {
  const [issuer, audience] = ['https://auth.example', 'https://api.example']
  // It takes https only by itself.
  const fetcher = { fetch: async (uri: string) => await (await fetch(uri)).arrayBuffer() }
  for (const algorithm of ['RS256', 'ES256', 'EdDSA'] as const) {
    const { state, load } = source([{ key: pairFor(algorithm).privateKey }])
    const app = await withKeys(t, load, { ...published, algorithm })
    const jwksUri = `http://127.0.0.1:${await listen(app)}/auth/jwks`
    const client = new JwksClient({ jwksUri })
    const verifier = JwtVerifier.create({ issuer, audience, jwksUri }, { jwksCache: new SimpleJwksCache({ fetcher }) })
    const readers: Record<string, (token: string) => Promise<unknown>> = {
      'jwks-rsa': async (token) => {
        const key = await client.getSigningKey(String(headerOf(token).kid))
        t.equal(key.alg, algorithm)
        return (await jwtVerify(token, createPublicKey(key.getPublicKey()), { issuer, audience, algorithms: [algorithm] })).payload.user_id
      },
      'aws-jwt-verify': async (token) => (await verifier.verify(token)).user_id
    }
    const before = await issued(app)
    for (const [name, read] of Object.entries(readers)) t.equal(await read(before), 1, `${name}, ${algorithm}`)
    state.list = [{ key: pairFor(algorithm, 1).privateKey }, ...state.list]
    await app.tokenAuth.reloadKeys()
    const after = await issued(app)
    t.not(headerOf(after).kid, headerOf(before).kid)
    for (const [name, read] of Object.entries(readers)) {
      for (const token of [before, after]) t.equal(await read(token), 1, `${name}, ${algorithm}, after the switch`)
      await t.rejects(read(forge(payloadOf(after), { algorithm, key: pairFor(algorithm, 2).privateKey, header: headerOf(after) })), `${name} refuses the signature of another key`)
    }
  }
})
