/** Processes with different configurations at the same time, as in a deployment: what one issues counts in the other. */
import { createPrivateKey } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { memorySessions, type SigningKey, type TokenAuthOptions } from '../../lib/index.ts'
import { get, iso, issued, noon, overlap, withKeys } from './ring.ts'
import { bearer, build, edPair, headerOf, keysFor, login, mistyped, refreshStore, secret, setClock, signingKey, together, warnings } from '../helper.ts'

/** An instance as it was before `keys`: with a secret or a pair. */
async function withoutKeys (t: Test, options: Partial<TokenAuthOptions>): Promise<FastifyInstance> {
  const app = await build(t, options)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  return app
}

t.test('instances with a key, and with keys of which it is the only one, accept each other\'s tokens: in headers, in cookies, for a refresh, and at the verify endpoint', async (t) => {
  for (const algorithm of ['HS256', 'ES256', 'RS256', 'EdDSA'] as const) {
    const { stored, ...handlers } = refreshStore()
    const cookies: Partial<TokenAuthOptions> = { ...handlers, algorithm, cookieSet: true }
    const old = await withoutKeys(t, together({ secret: undefined }, mistyped(keysFor(algorithm)), cookies))
    const next = await withKeys(t, [{ key: signingKey(algorithm) }], cookies)
    for (const [from, to] of [[old, next], [next, old]] as const) {
      const answer = await login(from)
      const { access_token: token, refresh_token: refreshToken } = answer.json()
      t.equal(typeof headerOf(token).kid, from === next ? 'string' : 'undefined', algorithm)
      const cookie = [answer.headers['set-cookie'] ?? []].flat().map((field) => field.split(';', 1)[0]).join('; ')
      t.match(cookie, token)
      t.equal((await to.inject({ url: '/', headers: { cookie } })).statusCode, 200)
      t.same((await to.inject({ url: '/auth/verify', headers: { cookie } })).json(), { valid: true })
      t.equal((await to.inject({ method: 'POST', url: '/auth/refresh', headers: { cookie }, payload: {} })).statusCode, 200)
      t.equal(stored.get(1), refreshToken)
    }
    const [inHeader, from] = [await withKeys(t, [{ key: signingKey(algorithm) }], { algorithm }), await withoutKeys(t, together({ secret: undefined }, mistyped(keysFor(algorithm))))]
    t.same([await get(inHeader, await issued(from)), await get(from, await issued(inHeader))], [200, 200])
  }
})

// Promise: keys/clocks-differ-old
t.test('in each step from a secret to a pair, instances before and after it accept each other\'s tokens, and a client that comes back after each step is never logged out', async (t) => {
  warnings(t, 'W17')
  const setTime = setClock(t, noon)
  const old: SigningKey = { key: secret, algorithm: 'HS256' }
  const next: SigningKey = { key: edPair().privateKey, algorithm: 'EdDSA', signFrom: iso(noon + 3600) }
  const until = noon + 3600 + overlap
  const { stored, ...handlers } = refreshStore()
  /** When each step is deployed, and what it deploys. */
  const steps: Array<[at: number, create: () => Promise<FastifyInstance>]> = [
    [noon, () => withoutKeys(t, handlers)],
    [noon + 600, () => withKeys(t, [old], handlers)],
    [noon + 1200, () => withKeys(t, [old, next], handlers)],
    [noon + 3600, () => withKeys(t, [{ ...old, verifyUntil: iso(until) }, next], handlers)],
    [until, () => withKeys(t, [next], handlers)]
  ]
  let running = await steps[0]![1]()
  const signed: unknown[] = []
  const { access_token: first, refresh_token: refreshToken } = (await login(running)).json()
  let held: string = first
  for (const [at, create] of steps.slice(1)) {
    setTime(at)
    const deployed = await create()
    const apps = [running, deployed]
    for (const app of apps) {
      const token = await issued(app)
      signed.push(headerOf(token).alg)
      for (const other of apps) t.equal(await get(other, token), 200)
    }
    stored.set(1, refreshToken)
    // Its access token may have expired: it comes with the one that it has.
    const answer = await deployed.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(held), payload: { refresh_token: refreshToken } })
    t.equal(answer.statusCode, 200, iso(at))
    held = answer.json().access_token
    running = deployed
  }
  setTime(noon)
  const [before, atOnce] = [await withoutKeys(t, {}), await withKeys(t, [{ ...old, verifyUntil: iso(until) }, next])]
  for (const from of [before, atOnce]) for (const to of [before, atOnce]) t.equal(await get(to, await issued(from)), 200, 'the first three steps at once')
  t.same(signed, ['HS256', 'HS256', 'HS256', 'HS256', 'EdDSA', 'EdDSA', 'EdDSA', 'EdDSA'])
})

t.test('a service that only verifies has both public keys, in any order', async (t) => {
  const setTime = setClock(t, noon)
  const [old, next] = [edPair(0), edPair(1)]
  const issuer = await withKeys(t, [{ key: old.privateKey }, { key: next.privateKey, signFrom: iso(noon + 60) }], { algorithm: 'EdDSA' })
  const keys = [{ key: next.publicKey }, { key: old.publicKey }]
  const verifiers = await Promise.all([keys, keys.toReversed()].map((list) => withKeys(t, list, { algorithm: 'EdDSA', authMode: false })))
  const single = await withoutKeys(t, mistyped({ secret: undefined, algorithm: 'EdDSA', publicKey: old.publicKey, authMode: false }))
  for (const [time, accepted] of [[noon, 200], [noon + 60, 401]] as const) {
    setTime(time)
    const token = await issued(issuer)
    for (const verifier of verifiers) t.equal(await get(verifier, token), 200)
    t.equal(await get(single, token), accepted, 'with the old key alone')
  }
})

// Promise: keys/sessions-go-if
t.test('sessions that began with a secret go on with keys, if the secret becomes that of the sessions', async (t) => {
  warnings(t)
  const store = memorySessions()
  const old = await withoutKeys(t, { sessions: { store } })
  const next = await withKeys(t, [{ key: secret }], { sessions: { store, secret } })
  const changed = await withKeys(t, [{ key: secret }], { sessions: { store, secret: ['a secret of sessions, of 32 bytes', secret] } })
  const other = await withKeys(t, [{ key: secret }], { sessions: { store, secret: 'a secret of sessions, of 32 bytes' } })
  const { privateKey } = edPair()
  const key = createPrivateKey(privateKey)
  for (const secret of [privateKey, key, key.export({ type: 'pkcs8', format: 'der' })]) {
    await t.rejects(withKeys(t, [{ key: privateKey }], { algorithm: 'EdDSA', sessions: { secret } }), { name: 'InvalidConfiguration' }, 'a private key is no secret')
  }
  let { refresh_token: token } = (await login(old)).json()
  const refresh = async (app: FastifyInstance) => await app.inject({ method: 'POST', url: '/auth/refresh', payload: { refresh_token: token } })
  t.equal((await refresh(other)).statusCode, 401, 'with a new secret alone, all would log in again')
  for (const app of [next, old, changed, other]) {
    const answer = await refresh(app)
    t.equal(answer.statusCode, 200)
    token = answer.json().refresh_token
    t.equal(await get(old, answer.json().access_token), 200)
  }
})
