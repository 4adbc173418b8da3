/** Confirmations: which access tokens show that a refresh token was received, and how the store is told. */
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyServerOptions } from 'fastify'
import t, { type Test } from 'tap'
import { memorySessions, type ReceivedGeneration, type SessionFeed, type SessionStore, type TokenAuthOptions } from '../../lib/index.ts'
import { closeTime } from '../../lib/sessions/revocation.ts'
import { Confirmations } from '../../lib/sessions/confirmations.ts'
import type { Sender } from '../../lib/sessions/outbox.ts'
import { bearer, build, claims, forge, holdTimers, listen, mistyped, otherSecret, payloadOf, refusal, setClock, together } from '../helper.ts'
import { logout, refresh, sessionEvents, started, withSessions, type Tokens } from './helper.ts'

const noon = 1_800_000_000
const poll = 7
const rules = { graceMs: 30_000, idleMs: 1e9, keepMs: 1e6, maxPerUser: 10 }
const sidOf = (n: number) => `${String(n).padStart(21, 'x')}A`

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

/** A store in memory, and what was confirmed in it. */
function watched (): { store: SessionStore, told: ReceivedGeneration[][] } {
  const store = memorySessions()
  const told: ReceivedGeneration[][] = []
  return {
    told,
    store: {
      ...store,
      async confirm (received, given) {
        told.push([...received])
        await store.confirm(received, given)
      }
    }
  }
}

const sgenOf = (tokens: Tokens) => payloadOf(tokens.access_token).sgen
const refreshed = async (...[app, token]: Parameters<typeof refresh>): Promise<Tokens> => (await refresh(app, token)).json()

/** An application whose sessions are watched, with a guarded route. */
async function watching (t: Test, options: Partial<TokenAuthOptions> = {}, server: FastifyServerOptions = {}) {
  const { store, told } = watched()
  const app = await build(t, together(options, { sessions: { store, poll, ...Object(options.sessions) } }), server)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const get = async ({ access_token: token }: Tokens) => (await app.inject({ url: '/', headers: bearer(token) })).statusCode
  return { app, store, told, get }
}

t.test('access tokens of a refresh carry the generation that was presented, right after the session; others carry none', async (t) => {
  const setTime = setClock(t, noon)
  const { app } = await withSessions(t)
  app.post('/start', async (request, reply) => await app.tokenAuth.sessions.start(request, reply, { user_id: 1 }))
  const first = await started(app)
  t.notOk('sgen' in payloadOf(first.access_token))
  t.notOk('sgen' in payloadOf(await app.tokenAuth.generateAccessToken({ user_id: 1 })))
  t.notOk('sgen' in payloadOf((await app.inject({ method: 'POST', url: '/start' })).json().accessToken))
  const second = await refreshed(app, first.refresh_token)
  t.equal(sgenOf(second), 0)
  t.match(Object.keys(payloadOf(second.access_token)).join(), /sid,sgen/)
  t.equal(sgenOf(await refreshed(app, first.refresh_token)), 0, 'its repetition')
  setTime(noon + 100)
  t.equal(sgenOf(await refreshed(app, second.refresh_token)), 1)

  const { app: strict } = await withSessions(t, { sessions: { grace: 0 } })
  const { refresh_token: token } = await started(strict)
  t.notOk('sgen' in payloadOf((await refreshed(strict, token)).access_token), 'without a window')
})

t.test('a token that is answered with itself comes with an access token that confirms nothing, and no handler runs again for it', async (t) => {
  for (const cookieSet of [false, true]) {
    let extended = 0
    const expire = polling(t)
    const { app, told, get } = await watching(t, { cookieSet, cookieStrict: false, extendPayload: (payload) => { extended++; return { ...payload, mark: 'x'.repeat(20) } } })
    const second = await refreshed(app, (await started(app)).refresh_token)
    const before = extended
    const answer = await refresh(app, second.refresh_token)
    const again: Tokens = answer.json()
    t.equal(again.refresh_token, second.refresh_token)
    t.match(payloadOf(again.access_token), { mark: 'x'.repeat(20), user_id: 1 })
    t.notOk('sgen' in payloadOf(again.access_token))
    t.equal(extended, before + 1)
    if (cookieSet) t.same([answer.headers['set-cookie']].flat().map((field) => String(field).split(/[=;]/, 2)), [['access_token', again.access_token]])
    t.equal(await get(again), 200)
    await expire()
    t.same(told, [], 'it would confirm a family that nobody has received')
  }
})

// Promise: sessions/response-lost-connection
t.test('a client that lost an answer goes on however late it comes; a token whose successor was used is found, by any reader', async (t) => {
  const readers: Record<string, (app: Awaited<ReturnType<typeof watching>>['app'], token: string) => unknown> = {
    nobody: () => {},
    protect: (app, token) => app.inject({ url: '/', headers: bearer(token) }),
    optional: (app, token) => app.inject({ url: '/optional', headers: bearer(token) }),
    refused: (app, token) => app.inject({ url: '/refused', headers: bearer(token) }),
    verify: (app, token) => app.inject({ url: '/auth/verify', headers: bearer(token) }),
    me: (app, token) => app.inject({ url: '/auth/me', headers: bearer(token) }),
    verifyToken: (app, token) => app.tokenAuth.verifyToken(token)
  }
  for (const [name, read] of Object.entries(readers)) {
    const expire = polling(t)
    const setTime = setClock(t, noon)
    const { app } = await watching(t, { scopesEnabled: true, addScopesToPayload: () => ['read'] })
    app.get('/optional', { onRequest: app.tokenAuth.protect({ optional: true }) }, async () => 'reached')
    app.get('/refused', { onRequest: app.tokenAuth.scoped('write') }, async () => 'reached')
    const events = sessionEvents(t)
    const { refresh_token: token } = await started(app)
    const { access_token: accessToken } = await refreshed(app, token)
    await read(app, accessToken)
    await expire()
    setTime(noon + 1000)
    t.equal((await refresh(app, token)).statusCode, name === 'nobody' ? 200 : 401, name)
    t.match(events.at(-1), name === 'nobody' ? { type: 'refreshed', recovered: false, reissued: true } : { type: 'reused', behind: 1 }, name)
  }
})

t.test('an instance that only verifies confirms, where its store takes confirmations, and reads only where it does not', async (t) => {
  const expire = polling(t)
  const { store, told } = watched()
  const { app } = await watching(t, { sessions: { store } })
  const { access_token: token } = await refreshed(app, (await started(app)).refresh_token)
  const { access_token: other } = await refreshed(app, (await started(app)).refresh_token)
  for (const [feed, sent, expected] of [[{ endedSince: store.endedSince }, token, 0], [{ endedSince: store.endedSince, confirm: store.confirm }, other, 1]] as const) {
    const warnings: string[] = []
    const verifier = await build(t, mistyped<Partial<TokenAuthOptions>>({ authMode: false, sessions: { store: feed, poll } }), { logger: { level: 'warn', stream: { write: (line: string) => { warnings.push(line) } } } })
    verifier.get('/', { onRequest: verifier.tokenAuth.protect() }, async () => 'reached')
    for (let times = 0; times < 2; times++) t.equal((await verifier.inject({ url: '/', headers: bearer(sent) })).statusCode, 200)
    await expire()
    t.equal(told.length, expected)
    t.same(warnings, [])
  }
  t.same(told, [[{ sid: payloadOf(other).sid, user: '1', n: 0 }]])
})

t.test('tokens that are refused, or say no generation, confirm nothing', async (t) => {
  const expire = polling(t)
  const { app, told } = await watching(t)
  const ended = await refreshed(app, (await started(app)).refresh_token)
  await logout(app, ended.refresh_token)
  const sid = sidOf(1)
  const sent = [
    ended.access_token, forge(claims({ sid, sgen: 0, exp: 1 })), forge(claims({ sid, sgen: 0 }), { key: otherSecret }), forge(claims({ sgen: 0 })), forge(claims({ sid: 'x', sgen: 0 })),
    ...[-1, 0.5, 2 ** 48, '0', null, true, [0], NaN].map((sgen) => forge(claims({ sid, sgen }))), forge(claims({ sid }))
  ]
  for (const token of sent) await app.inject({ url: '/', headers: bearer(token) })
  await expire()
  t.same(told, [])
  for (const sgen of [0, 2 ** 48 - 1]) await app.inject({ url: '/', headers: bearer(forge(claims({ sid, sgen }))) })
  await expire()
  t.same(told, [[{ sid, user: '1', n: 0 }, { sid, user: '1', n: 2 ** 48 - 1 }]])
})

t.test('a generation is told once, whether its token is remembered or not; the next one is told again; issuer and audience belong to the user', async (t) => {
  for (const tokenCacheSize of [0, 100]) {
    const expire = polling(t)
    const setTime = setClock(t, noon)
    const { app, told, get } = await watching(t, { tokenCacheSize, claimIss: 'here' })
    const second = await refreshed(app, (await started(app)).refresh_token)
    const { sid } = payloadOf(second.access_token)
    for (let polls = 0; polls < 3; polls++) {
      for (let times = 0; times < 3; times++) t.equal(await get(second), 200)
      await expire()
    }
    t.same(told, [[{ sid, user: '[1,"here",null]', n: 0 }]])
    setTime(noon + 100)
    const third = await refreshed(app, second.refresh_token)
    for (const tokens of [third, second]) t.equal(await get(tokens), 200)
    await expire()
    t.same(told[1], [{ sid, user: '[1,"here",null]', n: 1 }])
    t.equal(told.length, 2)
  }
})

t.test('what is forgotten after 20,000 other generations is told again, but not for a remembered token; each store object is told', async (t) => {
  const expire = polling(t)
  const { app, store, told, get } = await watching(t)
  const tokens = await refreshed(app, (await started(app)).refresh_token)
  const { sid } = payloadOf(tokens.access_token)
  // They remember the same tokens, because they have the same key.
  const other = await watching(t)
  for (const use of [get, other.get, get]) t.equal(await use(tokens), 200)
  await expire()
  t.same([told, other.told].map((calls) => calls.flat().map(({ sid, n }) => [sid, n])), [[[sid, 0]], [[sid, 0]]])

  const verifier = await build(t, mistyped<Partial<TokenAuthOptions>>({ authMode: false, tokenCacheSize: 0, sessions: { store, poll } }))
  for (let first = 0; first < 20_000; first += 5000) {
    for (let n = first; n < first + 5000; n++) verifier.tokenAuth.verifyToken(forge(claims({ sid: sidOf(1), sgen: n })))
    await expire()
  }
  const before = told.length
  t.equal(told.flat().length, 20_001)
  t.equal(await get(tokens), 200)
  await expire()
  t.equal(told.length, before)
  verifier.tokenAuth.verifyToken(tokens.access_token)
  await expire()
  t.match(told.slice(before), [[{ sid, n: 0 }]])
})

t.test('an application that closes tells what waits, and waits for that for a second at most', async (t) => {
  const { app, told, get } = await watching(t, { sessions: { poll: 60 } })
  t.equal(await get(await refreshed(app, (await started(app)).refresh_token)), 200)
  t.same(told, [])
  await app.close()
  t.equal(told.length, 1)

  const expireClose = holdTimers(t, closeTime)
  const store: SessionStore = { ...memorySessions(), confirm: async () => await new Promise(() => {}) }
  const { app: hanging, get: use } = await watching(t, { sessions: { store, poll: 60 } })
  await use(await refreshed(hanging, (await started(hanging)).refresh_token))
  const closing = hanging.close()
  await settle()
  expireClose()
  await closing
})

t.test('confirmations that hang delay no read of ended sessions, and no request', async (t) => {
  const expire = polling(t)
  const inner = memorySessions()
  let reads = 0
  const store: SessionStore = {
    ...inner,
    confirm: async () => await new Promise(() => {}),
    endedSince: async (...given) => { reads++; return await inner.endedSince(...given) }
  }
  const { app, get } = await watching(t, { sessions: { store } })
  const tokens = await refreshed(app, (await started(app)).refresh_token)
  await listen(app)
  for (let polls = 2; polls <= 5; polls++) {
    t.equal(await get(tokens), 200)
    await expire()
    t.equal(reads, polls)
  }
})

/** A store that is told, and what of it is logged. */
function telling (confirm: (received: readonly ReceivedGeneration[]) => Promise<void>) {
  const lines: string[] = []
  const log = mistyped<Sender['log']>({ warn: (_object: object, text: string) => { lines.push(`warn ${text}`) }, info: (text: string) => { lines.push(`info ${text}`) } })
  const feed: SessionFeed = { endedSince: async () => ({ ended: [], cursor: '' }), confirm }
  const confirmations = new Confirmations(feed)
  const { outbox } = confirmations
  const senders: Sender[] = ['tokenAuth', 'staff'].map((instanceName) => ({ instanceName, log, rules }))
  const receive = (n: number) => {
    confirmations.receive(mistyped({ token: '', payload: { sgen: n } }), sidOf(1), () => '1')
  }
  return { outbox, senders, receive, lines }
}

t.test('at most 10,000 generations wait, and at most 1,000 are told at a time, one call after the other; what was dropped is told when it comes again', async (t) => {
  const sizes: number[] = []
  let open = 0
  let most = 0
  const { outbox, senders, receive } = telling(async (received) => {
    most = Math.max(most, ++open)
    await turn()
    open--
    sizes.push(received.length)
  })
  for (let n = 0; n < 10_001; n++) receive(n)
  await Promise.all([outbox.write(senders), outbox.write(senders)])
  t.same(sizes, Array.from({ length: 10 }, () => 1000))
  t.equal(most, 1)
  for (const n of [10_000, 0, 9999]) receive(n)
  await outbox.write(senders)
  t.same(sizes.slice(10), [1])
})

t.test('what the store does not take is kept; it is tried again at the next poll, then after 2, 4 and up to 64 polls; a warning for each instance says so once, and an info when it is over', async (t) => {
  let isFailing = true
  let calls = 0
  const taken: number[] = []
  const { outbox, senders, receive, lines } = telling((received) => {
    calls++
    if (isFailing) throw new Error('read only')
    taken.push(...received.map(({ n }) => n))
    return Promise.resolve()
  })
  receive(1)
  const tries: number[] = []
  for (let poll = 0; poll < 300; poll++) {
    const before = calls
    await outbox.write(senders)
    if (calls > before) tries.push(poll)
  }
  t.same(tries, [0, 1, 3, 7, 15, 31, 63, 127, 191, 255])
  const warning = (name: string) => `warn ${name}: the session store takes no confirmations. Meanwhile, a replaced refresh token can be exchanged until its session is refreshed again.`
  t.same(lines, [warning('tokenAuth'), warning('staff')])
  receive(2)
  isFailing = false
  await outbox.write(senders, true)
  t.same(taken, [1, 2])
  t.same(lines.slice(2), ['info tokenAuth: the session store takes confirmations again.', 'info staff: the session store takes confirmations again.'])
  receive(3)
  await outbox.write(senders)
  t.same(taken, [1, 2, 3])
  t.equal(lines.length, 4)
})

t.test('the application cannot set, change or remove the claim "sgen"', async (t) => {
  const claim = { key: 'sgen', setup: () => 1, verify: () => true }
  t.match(await refusal(t, { sessions: {}, customClaims: [claim] }), { name: 'InvalidCustomClaim' })
  t.equal(await refusal(t, { customClaims: [claim] }), undefined, 'without sessions it is a claim like any other')
  for (const setting of ['userId', 'scopesName']) {
    t.match(await refusal(t, { sessions: {}, scopesEnabled: true, [setting]: 'sgen' }), { name: 'InvalidConfiguration', message: /^"\w+" must not be "sgen" with "sessions", because this claim then contains the generation of its refresh token\. / })
  }
  for (const extend of [(payload: object) => ({ ...payload, sgen: 7 }), ({ sgen, ...payload }: { sgen?: unknown }) => payload]) {
    let isBroken = false
    const lines: string[] = []
    const { app } = await withSessions(t, mistyped<Partial<TokenAuthOptions>>({ extendPayload: (payload: object) => isBroken ? extend(payload) : payload }), { logger: { stream: { write: (line: string) => { lines.push(line) } } } })
    const { refresh_token: token } = await started(app)
    isBroken = true
    const answer = await refresh(app, token)
    t.equal(answer.statusCode, 500)
    t.match(answer.json(), { exception: 'MissingRegisteredClaim' })
    isBroken = false
    t.equal(payloadOf((await refreshed(app, token)).access_token).sgen, 0, 'nothing was rotated')
  }
})
