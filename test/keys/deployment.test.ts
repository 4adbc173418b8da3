/** Processes with different configurations at the same time, as in a deployment: what one issues counts in the other. */
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { memorySessions, type SigningKey, type TokenAuthOptions } from '../../lib/index.ts'
import { get, iso, issued, noon, overlap, withKeys } from './ring.ts'
import { bearer, build, edPair, headerOf, keysFor, login, mistyped, refreshStore, secret, setClock, signingKey, together, warnings } from '../helper.ts'

/** An instance as it was before `keys`: with a secret or a pair. */
async function withoutKeys (t: Test, options: TokenAuthOptions): Promise<FastifyInstance> {
  const app = await build(t, options)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  return app
}

t.test('instances with a key, and with keys of which it is the only one, accept each other\'s tokens: in headers, in cookies, for a refresh, and at the verify endpoint', async (t) => {
  for (const algorithm of ['HS256', 'ES256', 'RS256', 'EdDSA'] as const) {
    const { stored, ...handlers } = refreshStore()
    const cookies: TokenAuthOptions = { ...handlers, algorithm, cookieSet: true }
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
  t.same(signed, ['HS256', 'HS256', 'HS256', 'HS256', 'EdDSA', 'EdDSA', 'EdDSA', 'EdDSA'])
})

t.test('sessions that began with a secret go on with keys, if the secret becomes that of the sessions', async (t) => {
  warnings(t)
  const store = memorySessions()
  const old = await withoutKeys(t, { sessions: { store } })
  const next = await withKeys(t, [{ key: secret }], { sessions: { store, secret } })
  const changed = await withKeys(t, [{ key: secret }], { sessions: { store, secret: ['x'.repeat(32), secret] } })
  const other = await withKeys(t, [{ key: secret }], { sessions: { store, secret: 'x'.repeat(32) } })
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
