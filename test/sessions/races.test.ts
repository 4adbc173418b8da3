// @slow
/** Requests of one session at once, over HTTP. */
import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { memorySessions, type SessionStore } from '../../lib/index.ts'
import { authenticate, bearer, caseOf, listen, login, payloadOf, secret } from '../helper.ts'
import { jar, logout, refresh, sessionEvents, started, withSessions, type Tokens } from './helper.ts'

/** Counts values. */
function count (values: readonly unknown[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const value of values) counts[String(value)] = (counts[String(value)] ?? 0) + 1
  return counts
}

/** An application whose requests nothing inspects. */
async function lean (t: Test, store: SessionStore): Promise<FastifyInstance> {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(tokenAuth, { secret, authenticate, sessions: { store } })
  return app
}

t.test('of 100 requests at once over sockets with one refresh token, one rotates, and all get the same next one', async (t) => {
  const { app, store } = await withSessions(t)
  const port = await listen(app)
  const send = async (token: string): Promise<Tokens & { status: number }> => {
    const answer = await fetch(`http://127.0.0.1:${port}/auth/refresh`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ refresh_token: token }) })
    const tokens = await answer.json() as Tokens
    return { status: answer.status, ...tokens }
  }
  const first = await started(app)
  store.taken()
  const events = sessionEvents(t)
  const answers = await Promise.all(Array.from({ length: 100 }, () => send(first.refresh_token)))
  t.same(count(answers.map(({ status }) => status)), { 200: 100 })
  const tokens = new Set(answers.map((answer) => answer.refresh_token))
  t.equal(tokens.size, 1)
  t.notOk(tokens.has(first.refresh_token))
  t.same(count(events.map(({ type }) => type)), { refreshed: 1, repeated: 99 })
  t.equal(store.taken().length, 100)

  // Those who were given the next token already, and those who were not, at once.
  const [next] = tokens
  const more = await Promise.all(Array.from({ length: 100 }, (_, index) => send(index % 2 === 0 ? first.refresh_token : next!)))
  t.same(count(more.map(({ status }) => status)), { 200: 100 })
  t.same([...new Set(more.map((answer) => answer.refresh_token))], [next])
  t.equal((await app.tokenAuth.sessions.list(1)).length, 1)
})

t.test('of 10,000 requests at once with one refresh token, one rotates, and all get the same next one', async (t) => {
  const app = await lean(t, memorySessions())
  const { refresh_token: token } = await started(app)
  const events = sessionEvents(t)
  const answers = await Promise.all(Array.from({ length: 10_000 }, async () => {
    const answer = await refresh(app, token)
    return { status: answer.statusCode, token: answer.json().refresh_token }
  }))
  t.same(count(answers.map(({ status }) => status)), { 200: 10_000 })
  t.equal(new Set(answers.map((answer) => answer.token)).size, 1)
  t.same(count(events.map(({ type }) => type)), { refreshed: 1, repeated: 9999 })
})

t.test('with grace 0, one of 100 requests at once rotates, one is reuse, and the session has ended for all', async (t) => {
  const { app } = await withSessions(t, { sessions: { grace: 0 } })
  const tokens = await started(app)
  const events = sessionEvents(t)
  const answers = await Promise.all(Array.from({ length: 100 }, () => refresh(app, tokens.refresh_token)))
  t.same(count(answers.map(({ statusCode }) => statusCode)), { 200: 1, 401: 99 })
  t.same(events.map(({ type }) => type), ['refreshed', 'reused'])
  const { access_token: token } = answers.find(({ statusCode }) => statusCode === 200)!.json()
  for (const sent of [token, tokens.access_token]) assert.equal((await app.inject({ url: '/', headers: bearer(sent) })).statusCode, 401, caseOf(sent))
})

/** A point of a refresh at which it waits, and what of it a test can do. */
async function held (t: Test, point: 'user' | 'before' | 'after') {
  const inner = memorySessions()
  let isHolding = true
  let arrive = () => {}
  let release = () => {}
  const arrived = new Promise<void>((resolve) => { arrive = resolve })
  const released = new Promise<void>((resolve) => { release = resolve })
  const wait = async (at: string) => {
    if (at !== point || !isHolding) return
    arrive()
    await released
  }
  const store: SessionStore = {
    ...inner,
    async advance (...parameters) {
      await wait('before')
      const answer = await inner.advance(...parameters)
      await wait('after')
      return answer
    }
  }
  const { app } = await withSessions(t, {
    sessions: { store },
    retrieveUser: async (_request, payload) => {
      await wait('user')
      return { user_id: Number(payload.user_id) }
    }
  })
  return { app, inner, arrived, release: () => { isHolding = false; release() } }
}

// Promise: sessions/session-ends-store
t.test('a session that ends while it is refreshed has ended, at whatever point and however it ends, and so have the tokens of that refresh', async (t) => {
  const ways: Record<string, (app: FastifyInstance, tokens: Tokens) => Promise<unknown>> = {
    logout: (app, { refresh_token: token }) => logout(app, token),
    'logout with an access token': (app, { access_token: token }) => logout(app, undefined, bearer(token)),
    'end one': (app, { access_token: token }) => app.inject({ method: 'DELETE', url: `/auth/sessions/${String(payloadOf(token).sid)}`, headers: bearer(token) }),
    'end all': (app, { access_token: token }) => app.inject({ method: 'DELETE', url: '/auth/sessions', headers: bearer(token) }),
    endAll: (app) => app.tokenAuth.sessions.endAll(1)
  }
  for (const [point, status] of [['user', 401], ['before', 401], ['after', 401]] as const) {
    for (const [name, end] of Object.entries(ways)) {
      const { app, inner, arrived, release } = await held(t, point)
      const tokens = await started(app)
      const refreshing = refresh(app, tokens.refresh_token)
      await arrived
      await end(app, tokens)
      release()
      const answer = await refreshing
      assert.equal(answer.statusCode, status, `${name}: ${point}`)
      const { access_token: token = tokens.access_token, refresh_token: refreshToken = tokens.refresh_token }: Partial<Tokens> = answer.json()
      assert.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 401, `${name}: ${point}`)
      assert.equal((await refresh(app, refreshToken)).statusCode, 401, `${name}: ${point}`)
      assert.deepEqual(await app.tokenAuth.sessions.list(1), [], `${name}: ${point}`)
      const { ended } = await inner.endedSince(null, { graceMs: 1, idleMs: 1, keepMs: 1, maxPerUser: 1 })
      assert.deepEqual(ended, [payloadOf(tokens.access_token).sid], 'it is in the feed once')
    }
  }
})

t.test('of many logouts at once, all are 204, and the session ends once', async (t) => {
  const { app } = await withSessions(t)
  const tokens = await started(app)
  const events = sessionEvents(t)
  const answers = await Promise.all(Array.from({ length: 50 }, (_, index) => index % 2 === 0 ? logout(app, tokens.refresh_token) : logout(app, undefined, bearer(tokens.access_token))))
  t.same(count(answers.map(({ statusCode }) => statusCode)), { 204: 50 })
  t.same(events.map(({ type }) => type), ['ended'])
})

t.test('refreshes and logouts at once: whoever was given tokens, the session has ended afterwards', async (t) => {
  const { app, store } = await withSessions(t)
  for (let round = 0; round < 20; round++) {
    const tokens = await started(app)
    // The logout comes after so many turns of the event loop.
    store.before = async () => { for (let turns = 0; turns < round % 4; turns++) await turn() }
    const [out, ...answers] = await Promise.all([
      (async () => { for (let turns = 0; turns < round % 5; turns++) await turn(); return await logout(app, tokens.refresh_token) })(),
      ...Array.from({ length: 20 }, () => refresh(app, tokens.refresh_token))
    ])
    store.before = async () => {}
    assert.equal(out.statusCode, 204, caseOf(round))
    for (const answer of answers) {
      assert.ok([200, 401].includes(answer.statusCode), caseOf(round))
      const { access_token: token, refresh_token: refreshToken }: Tokens = answer.statusCode === 200 ? answer.json() : tokens
      assert.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 401, caseOf(round))
      assert.equal((await refresh(app, refreshToken)).statusCode, 401, caseOf(round))
    }
  }
})

t.test('logins at once give sessions of their own; over one old cookie they end its session once', async (t) => {
  const { app } = await withSessions(t, { cookieSet: true, cookieStrict: false })
  const old = jar(await login(app))
  const events = sessionEvents(t)
  const sessions = await Promise.all(Array.from({ length: 20 }, () => started(app, 'ada', 'lovelace', old)))
  t.equal(new Set(sessions.map(({ access_token: token }) => payloadOf(token).sid)).size, 20)
  t.same(count(events.map(({ type }) => type)), { started: 20, ended: 1 })
  t.equal((await app.tokenAuth.sessions.list(1)).length, 20)
  for (const { refresh_token: token } of sessions) assert.equal((await refresh(app, token)).statusCode, 200, token)
})
