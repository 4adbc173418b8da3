/** What a store has to be told is told until it is written: when a session has ended, while the store was away, and when an application closes. */
import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { memorySessions, type ReceivedGeneration, type SessionStore, type TokenAuthOptions } from '../../lib/index.ts'
import { Confirmations } from '../../lib/sessions/confirmations.ts'
import { Outbox, type Sender } from '../../lib/sessions/outbox.ts'
import { closeTime } from '../../lib/sessions/revocation.ts'
import { NotWritten } from '../../lib/sessions/stores/not-written.ts'
import { authenticate, bearer, build, caseOf, holdTimers, host, login, mistyped, payloadOf, secret, together, users } from '../helper.ts'
import { logout, refresh, sessionEvents, started, withSessions, type Tokens } from './helper.ts'

const poll = 7
const rules = { graceMs: 30_000, idleMs: 1e9, keepMs: 1e6, maxPerUser: 10 }

async function settle (): Promise<void> {
  for (let turns = 0; turns < 10; turns++) await turn()
}

/** Lets the timers of the polls expire, and waits for what they do. */
function polling (t: Test): () => Promise<void> {
  const expire = holdTimers(t, poll * 1000)
  return async () => {
    expire()
    await settle()
  }
}

const senders: readonly [Sender] = [{ instanceName: 'tokenAuth', log: mistyped({ warn () {}, info () {} }), rules }]

t.test('what a store does not take stands behind the rest, and the same is told once', async (t) => {
  const told: string[] = []
  const outbox = new Outbox<string>({
    atOnce: 1,
    failed: '',
    recovered: '',
    send: async ([item]) => {
      if (item === 'poison') throw new Error('no')
      told.push(String(item))
    }
  })
  for (const item of ['poison', 'a', 'b', 'a']) t.ok(outbox.add(item, item))
  t.equal(await outbox.flush(senders), false)
  t.same(told, [])
  t.equal(await outbox.flush(senders), false)
  t.same(told, ['a', 'b'])
  t.ok(outbox.add('c', 'c'))
  await outbox.write([])
  t.same(told, ['a', 'b'], 'nobody is there to tell it')
})

t.test('what a store could not write now is told again with the next poll, and keeps nothing else from being told', async (t) => {
  const told: string[] = []
  let isLocked = true
  const outbox = new Outbox<string>({
    atOnce: 2,
    failed: '',
    recovered: '',
    send: async (items) => {
      told.push(items.join())
      return new Set(isLocked ? ['locked'] : [])
    }
  })
  for (const item of ['locked', 'a', 'b', 'c']) t.ok(outbox.add(item, item))
  await outbox.write(senders)
  t.same(told.splice(0), ['locked,a', 'b,c'])
  t.ok(outbox.add('d', 'd'))
  await outbox.write(senders)
  t.same(told.splice(0), ['locked,d'], 'without a pause')
  isLocked = false
  t.equal(await outbox.flush(senders), true)
  t.same(told, ['locked'])
})

t.test('a store names the confirmations that it could not write, and only they are told again', async (t) => {
  const told: string[] = []
  const { outbox } = new Confirmations({
    async endedSince () { return { ended: [], cursor: '' } },
    async confirm (received) {
      told.push(received.map(({ sid }) => sid).join())
      const locked = received.filter(({ sid }) => sid === 'b')
      if (locked.length > 0) throw new NotWritten(locked, {})
    }
  })
  for (const sid of ['a', 'b', 'c']) outbox.add(sid, { sid, user: '1', n: 0 })
  await outbox.write(senders)
  t.ok(outbox.add('d', { sid: 'd', user: '1', n: 0 }))
  await outbox.write(senders)
  t.same(told, ['a,b,c', 'b,d'])
})

t.test('a logout that cannot wait for the store, because too many do, is an error in the log', async (t) => {
  const lines: Array<{ level: number, msg: string, sessionId?: string }> = []
  const { app, store } = await withSessions(t, {}, { logger: { level: 'error', stream: { write: (line: string) => { lines.push(JSON.parse(line)) } } } })
  for (const isFull of [false, true]) {
    const { access_token: accessToken, refresh_token: refreshToken } = await started(app)
    if (isFull) t.intercept(Outbox.prototype, 'add', { value: () => false, configurable: true })
    store.fail(new Error('down'), ['end'])
    t.equal((await logout(app, refreshToken)).statusCode, 503)
    store.fail(null)
    const told = lines.splice(0).filter(({ msg }) => msg.startsWith('Too many'))
    t.match(told, isFull ? [{ level: 50, sessionId: payloadOf(accessToken).sid }] : [])
    t.equal(told.length, isFull ? 1 : 0)
  }
})

t.test('10,000 wait at most, and what is not taken is not said to be', async (t) => {
  const outbox = new Outbox<number>({ atOnce: 10_000, failed: '', recovered: '', send: async () => {} })
  for (let item = 0; item < 10_000; item++) assert.ok(outbox.add(String(item), item), caseOf(item))
  t.equal(outbox.add('more', 1), false)
  t.equal(outbox.add('0', 0), true, 'it waits already')
  t.equal(await outbox.flush(senders), true)
  t.equal(outbox.add('more', 1), true)
})

/** How a session ends by its token while the store is unavailable: what the request is answered, and the reason of the event. */
const endings: Record<string, { options?: Partial<TokenAuthOptions>, status: number, reason: string, end (app: FastifyInstance, tokens: Tokens): Promise<{ statusCode: number }> }> = {
  'a logout by the refresh token': { status: 503, reason: 'logout', end: (app, tokens) => logout(app, tokens.refresh_token) },
  'a logout by the access token': { status: 503, reason: 'logout', end: (app, tokens) => logout(app, undefined, bearer(tokens.access_token)) },
  'a login over an old session': {
    options: { cookieSet: true, cookieStrict: false },
    status: 200,
    reason: 'replaced',
    end: (app, tokens) => app.inject({ method: 'POST', url: '/auth', headers: { cookie: `refresh_token=${tokens.refresh_token}` }, payload: { username: 'ada', password: 'lovelace' } })
  },
  'a refresh of a user who is gone': {
    options: { retrieveUser: async (request) => request.headers['x-gone'] === undefined ? users[0]! : null },
    status: 503,
    reason: 'no-user',
    end: (app, tokens) => refresh(app, tokens.refresh_token, { 'x-gone': '1' })
  }
}

// Promise: sessions/store-away-ends-later
t.test('a session that its token ends while the store is unavailable is refused by this process at once, and ended as soon as the store can', async (t) => {
  for (const [name, { options = {}, status, reason, end }] of Object.entries(endings)) {
    const expire = polling(t)
    const lines: string[] = []
    const { app, store } = await withSessions(t, together(options, { sessions: { poll } }), { logger: { level: 'info', stream: { write: (line: string) => { lines.push(JSON.parse(line).msg) } } } })
    const events = sessionEvents(t)
    const tokens = await started(app)
    const guarded = async () => (await app.inject({ url: '/', headers: bearer(tokens.access_token) })).statusCode
    assert.equal(await guarded(), 200, name)
    store.fail(new Error('away'), ['end'])
    assert.equal((await end(app, tokens)).statusCode, status, name)
    assert.equal(await guarded(), 401, name)
    assert.equal((await refresh(app, tokens.refresh_token)).statusCode, 401, name)
    await expire()
    await expire()
    const said = (text: string) => lines.filter((line) => line.startsWith(`tokenAuth: the session store ${text}`)).length
    assert.deepEqual([said('ends no sessions.'), said('ends sessions again.')], [1, 0], name)
    assert.equal(events.filter(({ type }) => type === 'ended').length, 0, name)
    store.fail(null)
    for (let polls = 0; polls < 3; polls++) await expire()
    assert.deepEqual([said('ends no sessions.'), said('ends sessions again.')], [1, 1], name)
    const ended = events.filter(({ type }) => type === 'ended')
    assert.equal(ended.length, 1, name)
    t.match(ended, [{ type: 'ended', reason, userId: 1, sessionId: payloadOf(tokens.access_token).sid }], name)
    const feed = await store.endedSince(null, rules)
    assert.deepEqual(feed.ended, [payloadOf(tokens.access_token).sid], name)
  }
})

t.test('a logout by an access token whose session has ended for this process alone says that the store is unavailable, until it is written', async (t) => {
  const { app, store } = await withSessions(t, { sessions: { poll: 60 } })
  const { access_token: token } = await started(app)
  const out = async () => (await logout(app, undefined, bearer(token))).statusCode
  store.fail(new Error('away'), ['end'])
  t.same([await out(), await out()], [503, 503])
  store.fail(null)
  t.equal(await out(), 204, 'without a poll')
  t.match(await store.endedSince(null, rules), { ended: [payloadOf(token).sid] })
})

t.test('what the application or the user ends is not tried again: who asked was told', async (t) => {
  const expire = polling(t)
  const { app, store } = await withSessions(t, { sessions: { poll } })
  const { access_token: token } = await started(app)
  store.fail(new Error('away'), ['end'])
  const { sid } = payloadOf(token)
  await t.rejects(app.tokenAuth.sessions.end(1, String(sid)), { name: 'SessionStoreUnavailable' })
  await t.rejects(app.tokenAuth.sessions.endAll(1), { name: 'SessionStoreUnavailable' })
  for (const url of ['/auth/sessions', `/auth/sessions/${String(sid)}`]) t.equal((await app.inject({ method: 'DELETE', url, headers: bearer(token) })).statusCode, 503)
  store.fail(null)
  for (let polls = 0; polls < 3; polls++) await expire()
  t.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 200)
})

/** A store whose client the application closes. */
function closable () {
  const memory = memorySessions()
  const told: ReceivedGeneration[] = []
  const state = { isOpen: true }
  const require = () => { if (!state.isOpen) throw new Error('The client is closed.') }
  const store: SessionStore = {
    ...memory,
    async end (...given) { require(); return await memory.end(...given) },
    async confirm (received, given) { require(); told.push(...received); await memory.confirm(received, given) }
  }
  return { store, told, state, close: async () => { state.isOpen = false } }
}

// Promise: sessions/closing-tells-first
t.test('an application that closes tells its store what waits before a hook of the application closes the client, in either order of the hooks, in its own context or in another one, and what comes then at once', async (t) => {
  for (const isHookFirst of [true, false]) {
    for (const isNested of [false, true]) {
      const { store, told, state, close } = closable()
      const app = host(t)
      let act = async () => {}
      if (isHookFirst) app.addHook('onClose', close)
      let served: FastifyInstance = app
      await app.register(async (context) => {
        await context.register(tokenAuth, { secret, authenticate, retrieveUser: async () => users[0]!, sessions: { store, poll: 60 } })
        served = context
        // It runs before Fastify ends the connections, as a request does that is under way.
        context.addHook('preClose', async () => { await act() })
        context.get('/', { onRequest: context.tokenAuth.protect() }, async () => 'reached')
      }, isNested ? { prefix: '/inner' } : {})
      if (!isHookFirst) app.addHook('onClose', close)
      const prefix = isNested ? '/inner' : ''
      const post = async (path: string, payload: object) => (await app.inject({ method: 'POST', url: `${prefix}${path}`, payload })).json()
      const renewed = async () => await post('/auth/refresh', { refresh_token: (await post('/auth', { username: 'ada', password: 'lovelace' })).refresh_token })
      const [early, late] = [await renewed(), await renewed()]
      const use = async (tokens: Tokens) => await served.tokenAuth.verifyToken(tokens.access_token)
      await use(early)
      act = async () => {
        assert.deepEqual(told.map(({ sid }) => sid), [payloadOf(early.access_token).sid], caseOf(isHookFirst, isNested))
        await use(late)
        await settle()
      }
      await app.close()
      assert.deepEqual(told.map(({ sid }) => sid), [early, late].map((tokens) => payloadOf(tokens.access_token).sid), caseOf(isHookFirst, isNested))
      t.notOk(state.isOpen)
    }
  }
})

t.test('of several registrations with a store that hangs, an application waits once', async (t) => {
  const expire = holdTimers(t, closeTime)
  const store: SessionStore = { ...memorySessions(), confirm: async () => await new Promise(() => {}) }
  const app = await build(t, { sessions: { store, poll: 60 } })
  await app.register(tokenAuth, { secret, authenticate, urlPrefix: '/staff', sessions: { store, poll: 60 }, ...mistyped<object>({ instanceName: 'staff' }) })
  const { refresh_token: token } = (await login(app)).json()
  await app.tokenAuth.verifyToken((await refresh(app, token)).json().access_token)
  let isClosed = false
  const closing = app.close().then(() => { isClosed = true })
  await settle()
  t.notOk(isClosed)
  expire()
  await closing
  t.ok(isClosed)
})
