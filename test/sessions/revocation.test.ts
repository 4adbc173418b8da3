/** Access tokens of ended sessions: who refuses them, and how each process learns of them. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { FastifyInstance, FastifyRequest, FastifyServerOptions, InjectOptions } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, {
  injectUser, InvalidConfiguration, memorySessions, protect, scoped, SessionEnded, type SessionEvent, type SessionFeed, type SessionStore, type TokenAuthOptions
} from '../../lib/index.ts'
import { EndedSessions, retryTime, startTime } from '../../lib/sessions/revocation.ts'
import { storeTimeoutMs } from '../../lib/sessions/stores/store-clock.ts'
import { authenticate, bearer, build, caseOf, claims, forge, holdTimers, host, mistyped, otherSecret, payloadOf, secret, setClock, setMonotonicClock, together } from '../helper.ts'
import { logout, received, refresh, sessionEvents, started, WatchedStore, withSessions, type Tokens } from './helper.ts'

const noon = 1_800_000_000
const rules = { graceMs: 30_000, idleMs: 1e9, keepMs: 1e6, maxPerUser: 10 }
/** In seconds. Its own, so that the test can hold the timers of the process that it is about. */
const poll = 7

/** A session id. */
const sidOf = (n: number) => `${String(n).padStart(21, 'x')}A`
const tokenOf = (sid: string) => forge(claims({ sid }))

/** The feed of a store as another process has it: an object of its own, and nothing but the feed. */
const remote = (store: SessionStore): SessionFeed => ({ endedSince: (cursor, given) => store.endedSince(cursor, given) })

/** Waits until something holds. */
async function until (holds: () => boolean): Promise<void> {
  for (let turns = 0; turns < 10_000 && !holds(); turns++) await turn()
  if (!holds()) throw new Error('It never came.')
}

/** Waits for everything that needs no timer. */
async function settle (): Promise<void> {
  for (let turns = 0; turns < 10; turns++) await turn()
}

/** A feed whose answers a test gives. */
class ScriptedFeed implements SessionFeed {
  /** The cursors of the reads. */
  readonly cursors: Array<string | null> = []
  answer: (cursor: string | null) => unknown = () => this.of()

  /** An answer: these have ended. Each has another cursor. */
  of (...ended: string[]) {
    return { ended, cursor: `cursor ${this.cursors.length}` }
  }

  async endedSince (cursor: string | null) {
    this.cursors.push(cursor)
    return await mistyped<ReturnType<SessionFeed['endedSince']>>(this.answer(cursor))
  }
}

interface Verifying {
  app: FastifyInstance
  /** The status of a guarded request with a token. */
  get: (token: string) => Promise<number>
}

/** An application that only verifies, and reads a feed. */
async function verifying (t: Test, store: SessionFeed, options: { poll?: number, refuseAfter?: number } = {}, server: FastifyServerOptions = {}): Promise<Verifying> {
  const app = await build(t, mistyped<Partial<TokenAuthOptions>>({ authMode: false, sessions: { store, poll, ...options } }), server)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  return { app, get: async (token) => (await app.inject({ url: '/', headers: bearer(token) })).statusCode }
}

/** Lets the timers of the polls expire, and waits for what they read. */
function polling (t: Test, seconds = poll): () => Promise<void> {
  const expire = holdTimers(t, seconds * 1000)
  return async () => {
    expire()
    await settle()
  }
}

/** A logger of which a test reads the lines at a level: 30 is info, 40 a warning. */
function logging () {
  const lines: string[] = []
  const server: FastifyServerOptions = { logger: { stream: { write: (line: string) => { lines.push(line) } } } }
  const messages = (level: number): string[] => lines.map((line) => JSON.parse(line)).filter((line) => line.level === level).map(({ msg }) => msg)
  return { server, messages }
}

const types = (events: SessionEvent[]) => events.map(({ type }) => type)

t.test('every guard and every reader refuses a session from when this process has ended it, also where it remembers the token', async (t) => {
  const { app } = await withSessions(t, { scopesEnabled: true, addScopesToPayload: () => ['read'] })
  const { tokenAuth: instance } = app
  const handler = async () => 'reached'
  const read = async (request: FastifyRequest) => {
    await request.tokenAuth.ready()
    const { payload, userId, sessionId, scopes, token, source, signal } = request.tokenAuth
    return { payload, userId, sessionId, scopes, token, source, aborted: signal.aborted, user: await request.tokenAuth.user() }
  }
  app.get('/protect', { onRequest: instance.protect() }, handler)
  app.get('/overrides', { onRequest: instance.protect({ leeway: 10 }) }, handler)
  app.get('/scoped', { preHandler: instance.scoped('read') }, handler)
  app.get('/any', { preHandler: instance.scoped(async () => ['read', 'write'], { requireAll: false }) }, handler)
  app.get('/inject', instance.injectUser(async (_request, _reply, user) => ({ user })))
  app.get('/awaited', async (request, reply) => { await instance.protect()(request, reply) })
  app.get('/free', { onRequest: protect() }, handler)
  app.get('/free-scoped', { onRequest: scoped('read') }, handler)
  app.get('/free-inject', injectUser(async (_request, _reply, user) => ({ user })))
  app.get('/open', read)
  const guarded = ['/', '/protect', '/overrides', '/scoped', '/any', '/inject', '/awaited', '/free', '/free-scoped', '/free-inject', '/auth/me', '/auth/sessions']
  const [mine, unseen, other] = [await started(app), await started(app), await started(app)]
  const get = async (url: string, { access_token: token }: Tokens) => await app.inject({ url, headers: bearer(token) })
  for (const url of guarded) {
    // Twice: the second time the token is remembered.
    for (const tokens of [mine, mine, other]) assert.equal((await get(url, tokens)).statusCode, 200, url)
  }
  t.match((await get('/open', mine)).json(), { userId: 1, source: 'header', aborted: false })
  t.equal((await get('/auth/verify', mine)).statusCode, 200)

  for (const tokens of [mine, unseen]) assert.equal((await logout(app, tokens.refresh_token)).statusCode, 204, caseOf(tokens))
  for (const tokens of [mine, unseen]) {
    for (const url of guarded) {
      const answer = await get(url, tokens)
      assert.equal(answer.statusCode, 401, url)
      assert.deepEqual(answer.json(), { reasons: 'Session has ended.', exception: 'SessionEnded' }, url)
      assert.equal(answer.headers['www-authenticate'], 'Bearer realm="token-auth", error="invalid_token", error_description="Session has ended."', url)
    }
    assert.deepEqual((await get('/open', tokens)).json(), { payload: null, userId: null, sessionId: null, scopes: null, token: null, source: null, aborted: false, user: null }, caseOf(tokens))
    const verified = await get('/auth/verify', tokens)
    assert.equal(verified.statusCode, 400, caseOf(tokens))
    assert.deepEqual(verified.json(), { valid: false, reason: 'Session has ended.' }, caseOf(tokens))
    t.throws(() => instance.verifyToken(tokens.access_token), { name: 'SessionEnded' })
  }
  for (const url of guarded) assert.equal((await get(url, other)).statusCode, 200, `${url}: another session`)
  t.equal(instance.verifyToken(other.access_token).user_id, 1)
})

t.test('every way in which a session ends is known at once to the process that ends it', async (t) => {
  const setTime = setClock(t, noon)
  let isGone = false
  const { app, store } = await withSessions(t, { cookieSet: true, cookieStrict: false, sessions: { maxPerUser: 3 }, retrieveUser: (_request, payload) => isGone ? null : { user_id: Number(payload.user_id) } })
  const status = async ({ access_token: token }: Tokens) => (await app.inject({ url: '/', headers: bearer(token) })).statusCode
  const remove = async (path: string, { access_token: token }: Tokens) => { await app.inject({ method: 'DELETE', url: `/auth/sessions${path}`, headers: bearer(token) }) }
  const sid = ({ access_token: token }: Tokens) => String(payloadOf(token).sid)
  const ways: Record<string, (tokens: Tokens) => Promise<unknown>> = {
    logout: ({ refresh_token: token }) => logout(app, token),
    'logout with an access token': ({ access_token: token }) => logout(app, undefined, bearer(token)),
    'end one': (tokens) => remove(`/${sid(tokens)}`, tokens),
    'end all': (tokens) => remove('', tokens),
    'end all others': async () => { await remove('?except=current', await started(app)) },
    'sessions.end': (tokens) => app.tokenAuth.sessions.end(1, sid(tokens)),
    'sessions.endAll': () => app.tokenAuth.sessions.endAll(1),
    'a login over its cookie': ({ refresh_token: token }) => started(app, 'grace', 'hopper', { cookie: `refresh_token=${token}` }),
    'too many sessions': async () => { for (const second of [1, 2, 3]) { setTime(noon + second); await started(app) } },
    'a user who is gone': async ({ refresh_token: token }) => { isGone = true; await refresh(app, token); isGone = false },
    'reuse of its refresh token': async ({ refresh_token: token }) => { await refresh(app, token); await received(store, token); setTime(noon + 31); await refresh(app, token) }
  }
  for (const [name, end] of Object.entries(ways)) {
    setTime(noon)
    await app.tokenAuth.sessions.endAll(1)
    const tokens = await started(app)
    assert.equal(await status(tokens), 200, name)
    await end(tokens)
    assert.equal(await status(tokens), 401, name)
  }
})

t.test('a session check comes after times, issuer and audience, and before custom claims, extra verifications, the age of the login and scopes', async (t) => {
  const feed = new ScriptedFeed()
  const [alive, ended] = [sidOf(1), sidOf(2)]
  feed.answer = () => feed.of(ended)
  const asked: string[] = []
  const app = await build(t, mistyped<Partial<TokenAuthOptions>>({
    authMode: false,
    claimIss: 'here',
    claimAud: 'us',
    claimAuthTime: true,
    scopesEnabled: true,
    customClaims: [{ key: 'tenant', setup: () => 1, verify: (value: unknown) => { asked.push('claim'); return value === 1 } }],
    extraVerifications: [(payload: { fit?: unknown }) => { asked.push('verification'); return payload.fit === true }],
    sessions: { store: feed }
  }))
  app.get('/', { onRequest: app.tokenAuth.scoped('read', { maxAge: 60 }) }, async () => 'reached')
  await app.ready()
  const good = { iss: 'here', aud: 'us', nbf: 1, tenant: 1, fit: true, auth_time: Math.floor(Date.now() / 1000), scopes: ['read'] }
  const exception = async (extra: object) => {
    asked.length = 0
    const answer = await app.inject({ url: '/', headers: bearer(forge(claims({ ...good, ...extra }))) })
    return answer.statusCode === 200 ? 'accepted' : answer.json().exception
  }
  t.equal(await exception({ sid: alive }), 'accepted')
  for (const [before, name] of [[{ exp: 1 }, 'TokenExpired'], [{ nbf: 4e9 }, 'TokenNotActive'], [{ iss: 'there' }, 'InvalidClaim'], [{ aud: 'them' }, 'InvalidClaim']] as const) {
    const both = await exception({ ...before, sid: ended })
    assert.equal(both, await exception({ ...before, sid: alive }), caseOf(before))
    assert.notEqual(both, 'SessionEnded', name)
  }
  for (const after of [{ tenant: 2 }, { fit: false }, { auth_time: 1 }, { scopes: [] }]) {
    assert.notEqual(await exception({ ...after, sid: alive }), 'accepted', caseOf(after))
    assert.equal(await exception({ ...after, sid: ended }), 'SessionEnded', JSON.stringify(after))
    assert.deepEqual(asked, [], 'nothing of the application is asked')
  }
})

t.test('a malformed claim "sid" is InvalidClaim, and a token without one belongs to no session', async (t) => {
  const setPassed = setMonotonicClock(t)
  const feed = new ScriptedFeed()
  feed.answer = () => feed.of('', 'undefined', 'null', 'x')
  const { app, get } = await verifying(t, feed, { refuseAfter: 14 })
  await app.ready()
  const malformed = ['', 'x', sidOf(1).slice(1), `${sidOf(1)}A`, sidOf(1).replace(/A$/, 'B'), ` ${sidOf(1).slice(1)}`, `${sidOf(1).slice(1)}\n`, 1, null, true, {}, [sidOf(1)]]
  for (const passed of [0, 20_000]) {
    setPassed(passed)
    for (const sid of malformed) {
      const answer = await app.inject({ url: '/', headers: bearer(forge(claims({ sid }))) })
      assert.equal(answer.statusCode, 401, caseOf(passed, sid))
      assert.equal(answer.json().exception, 'InvalidClaim', JSON.stringify(sid))
    }
    assert.equal(await get(forge(claims())), 200, 'also while the ended sessions are unknown')
    assert.equal(await get(tokenOf(sidOf(1))), passed === 0 ? 200 : 503, caseOf(passed))
  }
  const { app: without } = await verifying(t, memorySessions())
  t.equal((await without.inject({ url: '/', headers: bearer(forge(claims({ sid: 'x' }))) })).statusCode, 401, 'with sessions in memory, too')
  const plain = await build(t)
  plain.get('/', { onRequest: plain.tokenAuth.protect() }, async () => 'reached')
  t.equal((await plain.inject({ url: '/', headers: bearer(forge(claims({ sid: 'x' }))) })).statusCode, 200, 'without sessions it is a claim like any other')
})

t.test('an instance that only verifies refuses an ended session within one poll, with nothing but the feed of the store', async (t) => {
  const expire = polling(t)
  const { app, store } = await withSessions(t)
  const { get, app: verifier } = await verifying(t, remote(store))
  await verifier.ready()
  const tokens = await started(app)
  const other = await started(app)
  t.equal(await get(tokens.access_token), 200)
  await logout(app, tokens.refresh_token)
  t.equal(await get(tokens.access_token), 200, 'until it has read')
  await expire()
  t.equal(await get(tokens.access_token), 401)
  t.equal(await get(other.access_token), 200)
  t.throws(() => verifier.tokenAuth.verifyToken(tokens.access_token), { name: 'SessionEnded' })
  // What ended before an instance starts is known when it is ready.
  const later = await verifying(t, remote(store))
  t.equal(await later.get(tokens.access_token), 401)
  t.same(store.taken().filter((method) => method !== 'create' && method !== 'end'), [])
})

t.test('reuse in one process ends the access tokens in another', async (t) => {
  const expire = polling(t)
  const setTime = setClock(t, noon)
  const { app, store } = await withSessions(t)
  const { get } = await verifying(t, remote(store))
  const { refresh_token: token, access_token: accessToken } = await started(app)
  t.equal(await get(accessToken), 200)
  await refresh(app, token)
  await received(store, token)
  setTime(noon + 31)
  t.equal((await refresh(app, token)).statusCode, 401)
  await expire()
  t.equal(await get(accessToken), 401)
})

t.test('a clock that is set back hides no ended session', async (t) => {
  const expire = polling(t)
  const setTime = setClock(t, noon)
  const { app, store } = await withSessions(t)
  const { get } = await verifying(t, remote(store))
  const [first, second] = [await started(app), await started(app)]
  await logout(app, first.refresh_token)
  await expire()
  setTime(noon - 1000)
  await logout(app, second.refresh_token)
  await expire()
  t.same([await get(first.access_token), await get(second.access_token)], [401, 401])
})

t.test('each read has the cursor of the one before, and every 60th reads everything; ids may come again, and stay known where the store has lost them', async (t) => {
  const expire = polling(t)
  const feed = new ScriptedFeed()
  const { app, get } = await verifying(t, feed)
  feed.answer = () => feed.of(sidOf(1))
  await app.ready()
  feed.answer = () => feed.of(sidOf(1), sidOf(1), sidOf(2))
  await expire()
  for (const n of [1, 2]) assert.equal(await get(tokenOf(sidOf(n))), 401, caseOf(n))
  // An end that became visible too late for the cursor: only a read of everything finds it.
  feed.answer = (cursor) => cursor === null ? feed.of(sidOf(2), sidOf(3), sidOf(3)) : feed.of()
  for (let reads = 3; reads <= 60; reads++) await expire()
  t.equal(feed.cursors.length, 60)
  t.same(feed.cursors, [null, ...Array.from({ length: 59 }, (_, index) => `cursor ${index + 1}`)])
  t.same(await Promise.all([1, 2, 3].map((n) => get(tokenOf(sidOf(n))))), [401, 401, 200])
  await expire()
  t.equal(feed.cursors.at(-1), null)
  t.same(await Promise.all([1, 2, 3].map((n) => get(tokenOf(sidOf(n))))), [401, 401, 401], 'a store that fails over, or is restored, makes no process forget')
  await expire()
  t.equal(feed.cursors.at(-1), 'cursor 61')
  t.same(await Promise.all([1, 2, 3].map((n) => get(tokenOf(sidOf(n))))), [401, 401, 401])
})

// Promise: sessions/store-forgets-ended
t.test('an id that the store has lost leaves when keepMs have passed since it was reported or ended here, by a clock that nobody sets', async (t) => {
  const expire = polling(t)
  const setPassed = setMonotonicClock(t)
  const feed = new ScriptedFeed()
  const { app, get } = await verifying(t, feed)
  feed.answer = () => feed.of(sidOf(1))
  await app.ready()
  const readAll = async (...sids: string[]) => {
    feed.answer = (cursor) => cursor === null ? feed.of(...sids) : feed.of()
    const { length } = feed.cursors.filter((cursor) => cursor === null)
    while (feed.cursors.filter((cursor) => cursor === null).length === length) await expire()
  }
  const known = async () => await Promise.all([1, 2].map((n) => get(tokenOf(sidOf(n)))))
  // 2 * (expirationDelta + leeway) of the instance.
  const keep = 2 * (1800 + 180) * 1000
  setPassed(keep - 10_000)
  await readAll(sidOf(2))
  t.same(await known(), [401, 401])
  setPassed(keep)
  await readAll()
  t.same(await known(), [401, 401])
  setPassed(keep + 1000)
  await readAll()
  t.same(await known(), [200, 401])
  setPassed(2 * keep - 10_000)
  await readAll()
  t.same(await known(), [200, 401])
  setPassed(2 * keep)
  await readAll()
  t.same(await known(), [200, 200], 'access tokens of that session have expired for long')
})

t.test('a clock that was ahead for hours, with sessions in memory, makes no ended session valid again', async (t) => {
  const expire = polling(t)
  const setTime = setClock(t, noon)
  const { app } = await withSessions(t, { sessions: { store: memorySessions(), poll } })
  const tokens = await started(app)
  await logout(app, tokens.refresh_token)
  setTime(noon + 7200)
  for (let reads = 0; reads <= 60; reads++) await expire()
  await app.tokenAuth.sessions.endAll(2)
  setTime(noon)
  for (let reads = 0; reads <= 60; reads++) await expire()
  t.equal((await app.inject({ url: '/', headers: bearer(tokens.access_token) })).statusCode, 401)
})

t.test('a session that the store has again is refused as long as a process remembers its end', async (t) => {
  const { app, store } = await withSessions(t)
  const tokens = await started(app)
  await logout(app, tokens.refresh_token)
  store.instead = { advance: async () => ({ outcome: 'rotated', n: 1 }) }
  store.taken()
  t.equal((await refresh(app, tokens.refresh_token)).statusCode, 401)
  t.same(store.taken(), [])
})

// Promise: sessions/answer-store-logout
t.test('a logout, and a 204 of the end of all sessions, mean that this process refuses the session from then on, whatever the store says', async (t) => {
  const expire = polling(t)
  const { app, store } = await withSessions(t, { sessions: { poll } })
  const signal = await signalling(t, app)
  const [mine, other] = [await started(app), await started(app)]
  const status = async ({ access_token: token }: Tokens) => (await app.inject({ url: '/', headers: bearer(token) })).statusCode
  for (const [tokens, isLogout, out] of [
    [await started(app), true, (given: Tokens) => logout(app, given.refresh_token)],
    [await started(app), true, (given: Tokens) => logout(app, undefined, bearer(given.access_token))],
    [await started(app), false, (given: Tokens) => app.inject({ method: 'DELETE', url: '/auth/sessions', headers: bearer(given.access_token) })]
  ] as const) {
    const own = await signal(tokens.access_token)
    // The answer was lost, and the feed does not have the end yet: a transaction that waits for its commit.
    store.instead = { end: async () => { throw new Error('lost') } }
    assert.equal((await out(tokens)).statusCode, 503, caseOf(tokens))
    assert.equal(await status(tokens), isLogout ? 401 : 200, caseOf(tokens))
    store.instead = { end: async () => [] }
    assert.equal((await out(tokens)).statusCode, 204, caseOf(tokens))
    assert.equal(await status(tokens), 401, caseOf(tokens))
    assert.ok(own.aborted, caseOf(tokens))
    assert.equal((await refresh(app, tokens.refresh_token)).statusCode, 401, caseOf(tokens))
    for (let reads = 0; reads <= 60; reads++) await expire()
    assert.equal(await status(tokens), 401, 'a read of everything makes nothing leave')
  }
  t.same([await status(mine), await status(other)], [200, 200])
})

t.test('a token of another user that names a session ends nothing, and refuses nothing but that token', async (t) => {
  const { app } = await withSessions(t)
  const signal = await signalling(t, app)
  const tokens = await started(app)
  const { sid } = payloadOf(tokens.access_token)
  const foreign = forge(claims({ user_id: 2, sid }))
  const long = forge(claims({ user_id: 'x'.repeat(600), sid }))
  const own = await signal(tokens.access_token)
  for (const token of [foreign, foreign, long]) assert.equal((await logout(app, undefined, bearer(token))).statusCode, 204, token)
  t.equal((await app.inject({ method: 'DELETE', url: '/auth/sessions', headers: bearer(long) })).statusCode, 204)
  const status = async (token: string) => (await app.inject({ url: '/', headers: bearer(token) })).statusCode
  t.same([await status(tokens.access_token), await status(foreign), await status(long)], [200, 401, 200])
  t.notOk(own.aborted)
  t.equal((await refresh(app, tokens.refresh_token)).statusCode, 200)
})

t.test('sessions that users name when they end one, and that the store does not know, are not remembered', async (t) => {
  const { app } = await withSessions(t)
  const tokens = await started(app)
  const { sid } = payloadOf(tokens.access_token)
  const elsewhere = forge(claims({ user_id: 2, sid: sidOf(1) }))
  t.equal((await app.inject({ method: 'DELETE', url: `/auth/sessions/${String(sid)}`, headers: bearer(elsewhere) })).statusCode, 404)
  t.equal(await app.tokenAuth.sessions.end(2, String(sid)), false)
  t.equal((await app.inject({ url: '/', headers: bearer(forge(claims({ user_id: 2, sid }))) })).statusCode, 200)
})

t.test('what a token has ended is forgotten when its access tokens have expired', async (t) => {
  const expire = polling(t)
  const setPassed = setMonotonicClock(t)
  const { app, store } = await withSessions(t, { sessions: { poll } })
  const sid = sidOf(1)
  const status = async (user: number) => (await app.inject({ url: '/', headers: bearer(forge(claims({ user_id: user, sid }))) })).statusCode
  const out = async (user: number) => await logout(app, undefined, bearer(forge(claims({ user_id: user, sid }))))
  const keep = 2 * (1800 + 180) * 1000
  await out(1)
  setPassed(2000)
  await out(2)
  for (const [passed, expected] of [[keep, [401, 401]], [keep + 1000, [200, 401]], [keep + 3000, [200, 200]]] as const) {
    setPassed(passed)
    for (let reads = 0; reads <= 60; reads++) await expire()
    assert.deepEqual([await status(1), await status(2)], expected, caseOf(passed))
  }
  t.ok(store.calls.length > 0)
})

// Promise: sessions/part-store-cannot
t.test('where a part of the feed cannot be read, what is new in the others is known, refuseAfter looks at the age of the oldest part, and it is told', async (t) => {
  const expire = polling(t)
  const setPassed = setMonotonicClock(t)
  const feed = new ScriptedFeed()
  const { server, messages } = logging()
  const { app, get } = await verifying(t, feed, { refuseAfter: 20 }, server)
  await app.ready()
  const events = sessionEvents(t)
  const partly = async (passed: number, staleFor: number, ...ended: string[]) => {
    setPassed(passed)
    feed.answer = () => ({ ...feed.of(...ended), staleFor })
    await expire()
  }
  await partly(10_000, 5000, sidOf(1))
  t.same([await get(tokenOf(sidOf(1))), await get(tokenOf(sidOf(2)))], [401, 200])
  await partly(25_000, 20_000, sidOf(1))
  t.equal(await get(tokenOf(sidOf(2))), 200)
  setPassed(25_001)
  t.equal(await get(tokenOf(sidOf(2))), 503)
  t.equal(await get(tokenOf(sidOf(1))), 401)
  // A read of everything in which that part fails says that it was never read. What was known before is still known.
  await partly(20_000, 0)
  await partly(30_000, Infinity)
  t.equal(await get(tokenOf(sidOf(2))), 200)
  setPassed(40_001)
  t.equal(await get(tokenOf(sidOf(2))), 503)
  await partly(50_000, 0)
  t.equal(await get(tokenOf(sidOf(2))), 200)
  t.same(types(events), ['stale', 'fresh', 'stale', 'fresh'])
  t.equal(messages(40).length, 2)
})

t.test('a feed that is older than its answer counts for refuseAfter, and is told only with a reason', async (t) => {
  const expire = polling(t)
  const setPassed = setMonotonicClock(t)
  const feed = new ScriptedFeed()
  const { server, messages } = logging()
  const { app, get } = await verifying(t, feed, { refuseAfter: 20 }, server)
  await app.ready()
  const events = sessionEvents(t)
  const answer = async (passed: number, staleFor: number, reason: string | null) => {
    setPassed(passed)
    feed.answer = () => ({ ...feed.of(), staleFor, reason })
    await expire()
  }
  await answer(30_000, 15_000, null)
  t.equal(await get(tokenOf(sidOf(1))), 200)
  setPassed(35_001)
  t.equal(await get(tokenOf(sidOf(1))), 503)
  t.same(types(events), [])
  await answer(40_000, 15_000, 'The replica lags.')
  t.same(types(events), ['stale'])
  t.equal(messages(40).length, 1)
  await answer(50_000, 1000, null)
  t.same(types(events), ['stale', 'fresh'])
})

// Promise: databases/row-security
t.test('an application does not start with a store that does not fit its database, but goes on if that is found later', async (t) => {
  const expire = polling(t)
  const feed = new ScriptedFeed()
  const misconfigured = new InvalidConfiguration('Row security is active.')
  feed.answer = () => Promise.reject(misconfigured)
  const { app } = await verifying(t, feed)
  const other = await build(t, together({ authMode: false, authenticate: undefined, sessions: { store: feed, poll } }))
  for (const starting of [app, other]) assert.equal(await starting.ready().then(() => undefined, (error: unknown) => error), misconfigured)
  t.equal(feed.cursors.length, 1, 'it is not tried again')
  await Promise.all([app.close(), other.close()])

  feed.answer = () => feed.of()
  const { app: later, get } = await verifying(t, feed)
  await later.ready()
  const events = sessionEvents(t)
  feed.answer = () => Promise.reject(misconfigured)
  await expire()
  t.same(types(events), ['stale'])
  t.equal(await get(tokenOf(sidOf(1))), 200)
})

t.test('a part that was never read makes an application wait for it as for the whole feed, and tokens of sessions 503 with refuseAfter', async (t) => {
  const retry = holdTimers(t, retryTime)
  const setPassed = setMonotonicClock(t)
  const feed = new ScriptedFeed()
  feed.answer = () => ({ ...feed.of(sidOf(1)), staleFor: Infinity })
  const { app, get } = await verifying(t, feed, { refuseAfter: 20 })
  const ready = app.ready()
  for (let tries = 1; tries <= 20; tries++) {
    await until(() => feed.cursors.length === tries)
    await settle()
    setPassed(tries * 250)
    retry()
  }
  await ready
  t.same([await get(tokenOf(sidOf(1))), await get(tokenOf(sidOf(2)))], [401, 503])
})

t.test('a read of everything that fails is made up for after the next good one, and does not keep the others from reading', async (t) => {
  const expire = polling(t)
  const feed = new ScriptedFeed()
  const { app } = await verifying(t, feed)
  await app.ready()
  for (let reads = 2; reads <= 60; reads++) await expire()
  feed.answer = () => Promise.reject(new Error('down'))
  await expire()
  await expire()
  feed.answer = () => feed.of()
  await expire()
  await expire()
  await expire()
  t.same(feed.cursors.slice(60), [null, 'cursor 60', 'cursor 60', null, 'cursor 64'])
})

t.test('what a process ends itself while it reads everything is known at once, and stays known', async (t) => {
  const expire = polling(t)
  const { app, store } = await withSessions(t, { sessions: { poll } })
  const tokens = await started(app)
  const before = await started(app)
  await logout(app, before.refresh_token)
  for (let reads = 2; reads <= 60; reads++) await expire()
  let answer = () => {}
  // As the store was before the logout.
  store.instead = { endedSince: (cursor: string | null) => new Promise((resolve) => { answer = () => { resolve({ ended: [], cursor: String(cursor) }) } }) }
  await expire()
  const status = async ({ access_token: token }: Tokens) => (await app.inject({ url: '/', headers: bearer(token) })).statusCode
  t.equal(await status(tokens), 200)
  await logout(app, tokens.refresh_token)
  t.equal(await status(tokens), 401)
  answer()
  await settle()
  t.equal(await status(tokens), 401)
  t.equal(await status(before), 401, 'what was known stays known')
})

t.test('one read at a time: a slow one is waited for', async (t) => {
  const expire = polling(t)
  const feed = new ScriptedFeed()
  const { app } = await verifying(t, feed)
  await app.ready()
  let answer = () => {}
  feed.answer = () => new Promise((resolve) => { answer = () => { resolve(feed.of()) } })
  await expire()
  // An instance that joins meanwhile sets the timer anew.
  const { app: other } = await verifying(t, feed)
  await other.ready()
  for (let count = 0; count < 5; count++) await expire()
  t.equal(feed.cursors.length, 2)
  answer()
  await settle()
  await expire()
  t.equal(feed.cursors.length, 3)
  answer()
  await settle()
})

t.test('while the feed fails, tokens are accepted and ended ones refused; a warning and an event tell it once, and once when it is good again', async (t) => {
  const expire = polling(t)
  const feed = new ScriptedFeed()
  const { server, messages } = logging()
  const { app, get } = await verifying(t, feed, {}, server)
  feed.answer = () => feed.of(sidOf(1))
  const events = sessionEvents(t)
  await app.ready()
  const failures = [
    () => Promise.reject(new Error('down')), () => { throw Object.assign(new Error('down'), { statusCode: 401 }) }, () => undefined, () => ({ ended: 'x', cursor: 'y' }), () => ({ ended: [], cursor: null })
  ]
  for (const round of [1, 2]) {
    for (const failure of failures) {
      feed.answer = failure
      await expire()
      assert.equal(await get(tokenOf(sidOf(1))), 401, caseOf(round, failure))
      assert.equal(await get(tokenOf(sidOf(2))), 200, caseOf(round, failure))
    }
    assert.equal(messages(40).length, round, caseOf(round))
    assert.match(String(messages(40)[0]), /^tokenAuth: the ended sessions cannot be read\. .+ are accepted until they expire, because "sessions\.refuseAfter" is not set\.$/, caseOf(round))
    assert.equal(messages(30).filter((message) => message.includes('ended sessions')).length, round - 1, caseOf(round))
    feed.answer = () => feed.of(sidOf(1))
    for (let reads = 0; reads < 3; reads++) await expire()
    assert.deepEqual(messages(30).filter((message) => message.includes('ended sessions')).length, round, caseOf(round))
  }
  t.match(events, [{ type: 'stale', instanceName: 'tokenAuth' }, { type: 'fresh', instanceName: 'tokenAuth' }, { type: 'stale' }, { type: 'fresh' }])
  t.equal(events.length, 4)
  t.strictSame(Object.keys(events[0]!), ['instanceName', 'type'])
})

t.test('with refuseAfter, tokens of sessions are 503 from then on, until a read is good; it is logged once and not for each request', async (t) => {
  const expire = polling(t)
  const setPassed = setMonotonicClock(t)
  const { server, messages } = logging()
  const { app, store } = await withSessions(t, { sessions: { poll, refuseAfter: 20 } }, server)
  app.get('/inject', app.tokenAuth.injectUser(async () => 'reached'))
  app.get('/free', { onRequest: protect() }, async () => 'reached')
  app.get('/page', { onRequest: app.tokenAuth.protect({ redirectOnFail: true, redirectUrl: '/login' }) }, async () => 'reached')
  const [tokens, ended] = [await started(app), await started(app)]
  await logout(app, ended.refresh_token)
  const events = sessionEvents(t)
  store.fail(new Error('down'), ['endedSince'])
  const urls = ['/', '/inject', '/free', '/page', '/auth/me', '/auth/verify', '/auth/sessions']
  const ask = async (url: string, { access_token: token }: Tokens = tokens) => await app.inject({ url, headers: bearer(token) })
  for (const round of [1, 2]) {
    const start = 100_000 * (round - 1)
    store.fail(new Error('down'), ['endedSince'])
    for (const milliseconds of [7000, 14_000, 20_000]) {
      setPassed(start + milliseconds)
      await expire()
      for (const url of urls) assert.equal((await ask(url)).statusCode, 200, url)
    }
    setPassed(start + 20_001)
    await expire()
    for (const url of urls) {
      const answer = await ask(url)
      assert.equal(answer.statusCode, 503, url)
      assert.equal(answer.headers['retry-after'], '5', url)
      t.match(answer.json(), { exception: 'SessionStoreUnavailable' }, url)
      assert.ok(!('www-authenticate' in answer.headers), `${url}: the token may be good`)
    }
    assert.equal((await ask('/', ended)).statusCode, 401, 'what is known is known')
    assert.equal((await app.inject({ url: '/', headers: bearer(forge(claims())) })).statusCode, 200, 'a token without a session')
    t.throws(() => app.tokenAuth.verifyToken(tokens.access_token), { name: 'SessionStoreUnavailable' })
    assert.equal((await refresh(app, tokens.refresh_token)).statusCode, 200, 'refresh asks the store itself')
    assert.deepEqual(messages(40).length, round, caseOf(round))
    assert.match(String(messages(40)[0]), / are accepted for 20 seconds \("sessions\.refuseAfter"\); after that, all access tokens of sessions are refused with 503\.$/)
    assert.deepEqual(messages(50), [], caseOf(round))
    store.fail(null)
    await expire()
    for (const url of urls) assert.equal((await ask(url)).statusCode, 200, url)
    setPassed(100_000 * round)
    await expire()
  }
  t.same(types(events).filter((type) => type === 'stale' || type === 'fresh'), ['stale', 'fresh', 'stale', 'fresh'])
})

t.test('a read that hangs fails after five seconds, and the next ones go on', async (t) => {
  const expire = polling(t)
  const expireCalls = holdTimers(t, storeTimeoutMs)
  const feed = new ScriptedFeed()
  const { app, get } = await verifying(t, feed)
  await app.ready()
  const events = sessionEvents(t)
  let answer: ((value: unknown) => void) | undefined
  feed.answer = () => new Promise((resolve) => { answer = resolve })
  await expire()
  t.same(types(events), [])
  expireCalls()
  await settle()
  t.same(types(events), ['stale'])
  feed.answer = () => feed.of(sidOf(1))
  await expire()
  t.same(types(events), ['stale', 'fresh'])
  answer!({ ended: [], cursor: 'late' })
  await settle()
  await expire()
  t.not(feed.cursors.at(-1), 'late')
  t.equal(await get(tokenOf(sidOf(1))), 401)
})

// Promise: sessions/application-starts-closes
t.test('an application starts without its store after five seconds, says so, and learns of the ended sessions later', async (t) => {
  const expire = polling(t)
  const setPassed = setMonotonicClock(t)
  const retry = holdTimers(t, retryTime)
  const feed = new ScriptedFeed()
  feed.answer = () => Promise.reject(new Error('down'))
  const { server, messages } = logging()
  const { app, get } = await verifying(t, feed, {}, server)
  const events = sessionEvents(t)
  let isReady = false
  const ready = app.ready().then(() => { isReady = true })
  for (let tries = 1; tries <= 20; tries++) {
    await until(() => feed.cursors.length === tries)
    await settle()
    assert.ok(!isReady, `try ${tries}`)
    setPassed(tries * 250)
    retry()
  }
  await ready
  t.equal(feed.cursors.length, 21)
  t.same(types(events), ['stale'])
  t.equal(messages(40).length, 1)
  t.equal(await get(tokenOf(sidOf(1))), 200)
  feed.answer = () => feed.of(sidOf(1))
  await expire()
  t.equal(await get(tokenOf(sidOf(1))), 401)
  t.same(types(events), ['stale', 'fresh'])
})

t.test('an application whose store comes back while it starts is ready then, and knows the ended sessions', async (t) => {
  const retry = holdTimers(t, retryTime)
  const feed = new ScriptedFeed()
  feed.answer = () => Promise.reject(new Error('down'))
  const { app, get } = await verifying(t, feed)
  const ready = app.ready()
  await until(() => feed.cursors.length === 1)
  await settle()
  feed.answer = () => feed.of(sidOf(1))
  retry()
  await ready
  t.equal(await get(tokenOf(sidOf(1))), 401)
})

// Promise: sessions/application-starts-closes
t.test('an application with a short pluginTimeout waits half of it for its store', async (t) => {
  const expire = holdTimers(t, 1000)
  const feed = new ScriptedFeed()
  let answer = () => {}
  feed.answer = () => new Promise((resolve) => { answer = () => { resolve(feed.of()) } })
  const { app } = await verifying(t, feed, {}, { pluginTimeout: 2000 })
  const ready = app.ready()
  await until(() => feed.cursors.length === 1)
  await settle()
  expire()
  await ready
  answer()
  const patient = await verifying(t, new ScriptedFeed(), {}, { pluginTimeout: 0 })
  await patient.app.ready()
})

t.test('a store that begins to hang while an application starts delays it for no more than the five seconds', async (t) => {
  const retry = holdTimers(t, retryTime)
  const expire = holdTimers(t, startTime)
  const feed = new ScriptedFeed()
  feed.answer = () => Promise.reject(new Error('down'))
  const { app } = await verifying(t, feed)
  const setTimeout = globalThis.setTimeout
  let calls = 0
  // The limit of a later read is not over yet when that of the start is.
  Object.assign(globalThis, {
    setTimeout: (callback: () => void, delay?: number) => delay === startTime && ++calls > 2 ? setTimeout(() => {}, 600_000).unref() : setTimeout(callback, delay)
  })
  t.teardown(() => { Object.assign(globalThis, { setTimeout }) })
  const ready = app.ready()
  await until(() => feed.cursors.length === 1)
  await settle()
  let answer = () => {}
  feed.answer = () => new Promise((resolve) => { answer = () => { resolve(feed.of()) } })
  retry()
  await until(() => feed.cursors.length === 2)
  expire()
  await ready
  t.equal(feed.cursors.length, 2)
  answer()
  await settle()
})

t.test('after an application has closed, nothing is read any more, and no timer is left; a read under way is waited for', async (t) => {
  const { setTimeout, clearTimeout } = globalThis
  const timers = new Set<unknown>()
  t.teardown(() => { Object.assign(globalThis, { setTimeout, clearTimeout }) })
  Object.assign(globalThis, {
    setTimeout: (callback: () => void, delay?: number) => {
      const timer = setTimeout(callback, delay)
      if (delay === poll * 1000) timers.add(timer)
      return timer
    },
    clearTimeout: (timer: NodeJS.Timeout | undefined) => {
      timers.delete(timer)
      clearTimeout(timer)
    }
  })
  const { app: idle } = await verifying(t, new ScriptedFeed())
  await idle.ready()
  t.equal(timers.size, 1)
  await idle.close()
  t.equal(timers.size, 0)

  const expire = polling(t)
  const feed = new ScriptedFeed()
  const { app } = await verifying(t, feed)
  await app.ready()
  let answer = () => {}
  feed.answer = () => new Promise((resolve) => { answer = () => { resolve(feed.of()) } })
  await expire()
  let isClosed = false
  const closing = app.close().then(() => { isClosed = true })
  await settle()
  t.notOk(isClosed, 'the client of the store may be closed only afterwards')
  answer()
  await closing
  for (let count = 0; count < 3; count++) await expire()
  t.equal(feed.cursors.length, 2)
})

t.test('an application that closes while it waits for its store reads no more', async (t) => {
  const expire = polling(t)
  const retry = holdTimers(t, retryTime)
  const feed = new ScriptedFeed()
  feed.answer = () => Promise.reject(new Error('down'))
  const ended = new EndedSessions(feed)
  const reader = { instanceName: 'tokenAuth', log: host(t).log, rules, poll, refuseAfter: null }
  const starting = ended.start(reader, 0)
  await settle()
  await ended.stop(reader)
  retry()
  await starting
  await expire()
  t.equal(feed.cursors.length, 1)
})

t.test('instances with one store object share a feed: one read for all, as often as the fastest needs it, until the last one closes', async (t) => {
  const slow = polling(t, 60)
  const fast = polling(t, 3)
  const feed = new ScriptedFeed()
  const app = await build(t, mistyped<Partial<TokenAuthOptions>>({ authMode: false, sessions: { store: feed, poll: 60 } }))
  await app.register(tokenAuth, mistyped<TokenAuthOptions>({ secret, authMode: false, instanceName: 'staff', claimIss: 'another', sessions: { store: feed, poll: 3 } }))
  const other = await verifying(t, feed, { poll: 60 })
  await app.ready()
  await other.app.ready()
  t.equal(feed.cursors.length, 1)
  await slow()
  t.equal(feed.cursors.length, 1, 'the slower ones have no timer of their own')
  feed.answer = () => feed.of(sidOf(1))
  await fast()
  t.equal(feed.cursors.length, 2)
  t.equal(await other.get(tokenOf(sidOf(1))), 401, 'also in an application whose own poll is slower')

  const events = sessionEvents(t)
  feed.answer = () => Promise.reject(new Error('down'))
  await fast()
  t.same(events.map((event) => [event.type, event.instanceName]), [['stale', 'tokenAuth'], ['stale', 'staff'], ['stale', 'tokenAuth']])
  feed.answer = () => feed.of()
  await app.close()
  await fast()
  t.equal(feed.cursors.length, 4, 'the timer that was set goes on')
  await fast()
  t.equal(feed.cursors.length, 4)
  await slow()
  t.equal(feed.cursors.length, 5, 'as often as those that are left need it')
  await other.app.close()
  await slow()
  await fast()
  t.equal(feed.cursors.length, 5)
})

t.test('an instance that joins while the feed fails is told, too, and one that closes before it is good again is not', async (t) => {
  const expire = polling(t)
  const feed = new ScriptedFeed()
  const { app: first } = await verifying(t, feed)
  await first.ready()
  feed.answer = () => Promise.reject(new Error('down'))
  await expire()
  const second = logging()
  const { app: joined } = await verifying(t, feed, {}, second.server)
  await joined.ready()
  const events = sessionEvents(t)
  await expire()
  t.same(types(events), ['stale'], 'the first one knows')
  t.equal(second.messages(40).length, 1)
  await first.close()
  feed.answer = () => feed.of()
  await expire()
  t.same(types(events), ['stale', 'fresh'])
})

t.test('an application with the store object of one that has closed waits for its own first read', async (t) => {
  const expire = polling(t)
  const setPassed = setMonotonicClock(t)
  const retry = holdTimers(t, retryTime)
  const feed = new ScriptedFeed()
  const { app: first } = await verifying(t, feed)
  await first.ready()
  feed.answer = () => Promise.reject(new Error('down'))
  await expire()
  await first.close()
  const { server, messages } = logging()
  const { app, get } = await verifying(t, feed, { refuseAfter: 20 }, server)
  const ready = app.ready()
  await until(() => feed.cursors.length === 3)
  await settle()
  setPassed(1000)
  feed.answer = () => feed.of(sidOf(1))
  retry()
  await ready
  t.same(messages(40), [], 'nothing is told of a store that connects while the application starts')
  t.equal(feed.cursors.length, 4)
  t.same([await get(tokenOf(sidOf(1))), await get(tokenOf(sidOf(2)))], [401, 200])
  feed.answer = () => feed.of()
  await expire()
  t.equal(feed.cursors.length, 5, 'one timer')
})

t.test('a store object of an instance with another key is refused', async (t) => {
  const store = memorySessions()
  await build(t, { sessions: { store } })
  const app = host(t)
  await t.rejects(async () => { await app.register(tokenAuth, { secret: otherSecret, authenticate, sessions: { store } }) }, { name: 'InvalidConfiguration', message: /^"sessions\.store" is the store of an instance with another key/ })
  await build(t, { claimIss: 'another', sessions: { store } })
})

/** An application whose route gives the signals of its requests. */
async function signalling (t: Test, app: FastifyInstance) {
  const signals: AbortSignal[] = []
  app.get('/signal', { onRequest: app.tokenAuth.protect() }, async (request) => { signals.push(request.tokenAuth.signal) })
  return async (token: string): Promise<AbortSignal> => {
    const request: InjectOptions = { url: '/signal', headers: bearer(token) }
    t.equal((await app.inject(request)).statusCode, 200)
    return signals.at(-1)!
  }
}

t.test('the signals of all requests of a session abort when it ends, here or elsewhere, and no others', async (t) => {
  const expire = polling(t)
  const { app, store } = await withSessions(t, { sessions: { poll } })
  const { app: elsewhere } = await verifying(t, remote(store))
  const [here, there] = [await signalling(t, app), await signalling(t, elsewhere)]
  const [tokens, other] = [await started(app), await started(app)]
  const own = [await here(tokens.access_token), await here(tokens.access_token)]
  const remotely = await there(tokens.access_token)
  const others = [await here(other.access_token), await there(other.access_token), await here(forge(claims())), await there(forge(claims()))]
  await logout(app, tokens.refresh_token)
  t.same(own.map(({ aborted }) => aborted), [true, true])
  t.equal(remotely.aborted, false, 'it has not read yet')
  await expire()
  t.equal(remotely.aborted, true)
  for (const { reason } of [...own, remotely]) assert.ok(reason instanceof SessionEnded, caseOf(reason))
  await app.tokenAuth.sessions.endAll(2)
  t.notOk(others.some(({ aborted }) => aborted))
  await app.tokenAuth.sessions.endAll(1)
  await expire()
  t.same(others.map(({ aborted }) => aborted), [true, true, false, false])
})

t.test('a read of everything aborts the signals of what it finds', async (t) => {
  const expire = polling(t)
  const feed = new ScriptedFeed()
  const { app } = await verifying(t, feed)
  const signal = await (await signalling(t, app))(tokenOf(sidOf(1)))
  feed.answer = (cursor) => cursor === null ? feed.of(sidOf(1)) : feed.of()
  for (let reads = 2; reads <= 60; reads++) await expire()
  t.equal(signal.aborted, false)
  await expire()
  t.equal(signal.aborted, true)
})

t.test('a signal that is made after the session has ended aborts when its listeners were added', async (t) => {
  const { app } = await withSessions(t)
  let signal: AbortSignal | undefined
  app.get('/end', { onRequest: app.tokenAuth.protect() }, async (request) => {
    await app.tokenAuth.sessions.end(1, String(request.tokenAuth.sessionId))
    signal = request.tokenAuth.signal
  })
  const { access_token: token } = await started(app)
  t.equal((await app.inject({ url: '/end', headers: bearer(token) })).statusCode, 200)
  await turn()
  t.ok(signal?.aborted)
  t.ok(signal?.reason instanceof SessionEnded)
})

t.test('the timer of the reads keeps no process alive', async (t) => {
  const program = `
    import Fastify from 'fastify'
    import tokenAuth, { memorySessions } from ${JSON.stringify(new URL('../../dist/lib/index.js', import.meta.url).href)}
    const app = Fastify()
    await app.register(tokenAuth, { secret: ${JSON.stringify(secret)}, authMode: false, sessions: { store: memorySessions(), poll: 60 } })
    await app.ready()
    console.log('ready')`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], { env: { PATH: process.env.PATH }, cwd: fileURLToPath(new URL('../..', import.meta.url)), timeout: 50_000 })
  t.equal(stdout.trim(), 'ready')
})

t.test('the feed is given the rules of the registration', async (t) => {
  const given: unknown[] = []
  const store = new WatchedStore()
  store.instead = { endedSince: mistyped(async (_cursor: unknown, received: unknown) => { given.push(received); return { ended: [], cursor: '' } }) }
  const app = await build(t, { expirationDelta: 600, leeway: 60, sessions: { store, grace: 5, idle: 1000, maxPerUser: 7 } })
  await app.ready()
  t.same(given, [{ graceMs: 5000, idleMs: 1_000_000, keepMs: 1_320_000, maxPerUser: 7 }])
})
