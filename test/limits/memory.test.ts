/** What the plugin keeps of tokens, requests, sessions and routes. */
import { setImmediate as turn } from 'node:timers/promises'
import Fastify, { type FastifyInstance, type RouteShorthandOptions } from 'fastify'
import t from 'tap'
import tokenAuth, { memorySessions } from '../../lib/index.ts'
import { joinFinders } from '../../lib/authorities/key-finder.ts'
import { findersOf, ownFinder } from '../../lib/authorities/own.ts'
import { createRing } from '../../lib/keys/key-ring.ts'
import { verifyingKey } from '../../lib/keys/material.ts'
import { readEntries } from '../../lib/keys/ring-entries.ts'
import { EndedSessions } from '../../lib/sessions/revocation.ts'
import { verifierOf, type TokenVerifier } from '../../lib/authorities/verifier.ts'
import { build, mistyped, secret, setClock, setMonotonicClock, signature } from '../helper.ts'
import { collectGarbage, keptByEach } from './measure.ts'

/** A token that no helper keeps. */
function issue (payload: object, header: object = {}): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const input = `${encode({ alg: 'HS256', typ: 'JWT', ...header })}.${encode(payload)}`
  return `${input}.${signature(input, 'HS256', secret)}`
}
/** A token as it comes in a header: a part of a long text. */
const inRequest = (token: string) => `${'x'.repeat(20_000)}${token}`.slice(20_000)
const key = verifyingKey('HS256', { secret })

/** Verifies so many tokens, each twice, so that all are remembered which may be. */
const verifyAll = (verify: TokenVerifier, make: (user: number) => string) => (count: number) => () => {
  for (let sight = 0; sight < 2; sight++) for (let user = 1; user <= count; user++) verify(inRequest(make(user)))
}

t.test('a remembered token takes at most 4 KB, and nothing of the request in which it came', async (t) => {
  // A verifier of its own for each round: the next one would find its tokens.
  const kept = await keptByEach((count) => verifyAll(verifierOf(findersOf('HS256', key), 10_000 + count + Math.floor(performance.now())), (user) => issue({ user_id: user }))(count), 300)
  t.ok(kept < 4096, `${Math.round(kept)} bytes`)
})

// Promise: security/long-valid-tokens
t.test('a token of more than 2,048 characters takes no memory', async (t) => {
  const verify = verifierOf(findersOf('HS256', key), 20_000)
  const kept = await keptByEach(verifyAll(verify, (user) => issue({ user_id: user, text: 'x'.repeat(5900) })), 300)
  t.ok(kept < 512, `${Math.round(kept)} bytes`)
})

t.test('a ring keeps headers and tokens, and nothing of the requests in which they came', async (t) => {
  const { tokenAuth: { settings } } = await build(t)
  const ring = createRing(readEntries([{ key: secret, kid: 'a' }], { ...settings }))
  for (const cacheSize of [10_000, 0]) {
    const kept = await keptByEach((count) => {
      const verify = verifierOf(joinFinders(ownFinder(({ alg, kid }) => ring.find(alg, kid ?? undefined)), undefined), cacheSize)
      return verifyAll(verify, (user) => issue({ user_id: user }, { kid: 'a', n: user }))(count)
    }, 100)
    t.ok(kept < 6144, `${Math.round(kept)} bytes with a memory of ${cacheSize}`)
  }
})

t.test('refreshes and logouts leave nothing in the store in memory, however many', async (t) => {
  const setTime = setClock(t, 0)
  const setPassed = setMonotonicClock(t)
  const store = memorySessions()
  const rules = { graceMs: 30_000, idleMs: 600_000, keepMs: 60_000, maxPerUser: 100 }
  await store.create({ sid: 'a', user: '1', lifetimeMs: 1e12, data: '{}' }, rules)
  let time = 0
  let n = 0
  const kept = await keptByEach((count) => async () => {
    for (let turn = 0; turn < count; turn++) {
      setTime(time += 31)
      setPassed(time * 1000)
      await store.advance('1', 'a', n++, rules)
      await store.create({ sid: `${n}`, user: '2', lifetimeMs: 3_600_000, data: '{}' }, rules)
      await store.end('2', { sid: `${n}` }, rules)
    }
  }, 20_000)
  t.ok(kept < 16, `${kept.toFixed(1)} bytes for each`)
})

t.test('the book of routes keeps at most 2 KB for each route once the application is ready', async (t) => {
  const scopes = ['reports:read', 'reports:write', 'admin']
  const handler = async () => 'reached'
  /** Adds routes with guards to an application: with the plugin, or without it and with the guards of another one. */
  const ofRoute = async (isWatched: boolean) => {
    const apps: FastifyInstance[] = []
    t.teardown(async () => { for (const app of apps) await app.close() })
    return await keptByEach((count) => async () => {
      const [app, other] = [Fastify({ exposeHeadRoutes: false }), Fastify()]
      apps.push(app, other)
      const owner = isWatched ? app : other
      await owner.register(tokenAuth, { secret, authMode: false })
      for (let index = 0; index < count; index++) app.get(`/path/of/route/${index}`, { onRequest: owner.tokenAuth.scoped(scopes) }, handler)
      await app.ready()
    }, 1000)
  }
  const kept = await ofRoute(true) - await ofRoute(false)
  t.ok(kept <= 2048, `${Math.round(kept)} bytes`)
})

t.test('the book of routes keeps nothing of the options of routes once the application is ready', async (t) => {
  const app = await build(t, { authMode: false })
  let option: object | undefined = {}
  const kept = new WeakRef(option)
  app.get('/', mistyped<RouteShorthandOptions>({ onRequest: app.tokenAuth.protect(), option }), async () => 'reached')
  option = undefined
  await app.ready()
  for (let turns = 0; turns < 20 && kept.deref() !== undefined; turns++) {
    await turn()
    collectGarbage()
  }
  t.equal(kept.deref(), undefined)
})

t.test('nothing is left of the signals of a session that were collected', async (t) => {
  const ended = new EndedSessions(memorySessions())
  const kept = await keptByEach((count) => async () => {
    for (let n = 0; n < count; n++) ended.watch(`session ${n % 10}`, '1', new AbortController())
    for (let turns = 0; turns < 20; turns++) {
      collectGarbage()
      await turn()
    }
  }, 5000)
  t.ok(kept < 32, `${kept.toFixed(1)} bytes for each`)
})
