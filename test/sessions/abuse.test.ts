// @slow
/** What was tried against sessions, and what becomes of it. */
import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import { connect } from 'node:net'
import type { InjectOptions } from 'fastify'
import t, { type Test } from 'tap'
import { memorySessions, type SessionStore, type TokenAuthOptions } from '../../lib/index.ts'
import { closeTime } from '../../lib/sessions/revocation.ts'
import { bearer, build, holdTimers, listen, mistyped, otherSecret, payloadOf, refusal, setMonotonicClock } from '../helper.ts'
import { cookiesOf, jar, logout, refresh, sessionEvents, started, WatchedStore, withSessions } from './helper.ts'

const settled = async () => { for (let turns = 0; turns < 10; turns++) await turn() }

// Promise: sessions/setting-response-attribute
t.test('a getter that fails fails before the rotation, whatever setting of the response it computes', async (t) => {
  for (const name of ['AccessTokenName', 'RefreshTokenName', 'TokensInBody', 'CookieSet', 'CookieMaxAge', 'CookieDomain', 'CookiePath', 'CookieSecure']) {
    for (const isThrowing of [true, false]) {
      let isFailing = false
      const compute = (value: unknown) => () => {
        if (isFailing && isThrowing) throw new Error('of the inner workings')
        return isFailing ? Symbol('wrong') : value
      }
      const values: Record<string, unknown> = { AccessTokenName: 'access_token', RefreshTokenName: 'refresh_token', TokensInBody: true, CookieSet: true, CookieMaxAge: 60, CookieDomain: '', CookiePath: '/', CookieSecure: true }
      const { app, store } = await withSessions(t, mistyped<Partial<TokenAuthOptions>>({ cookieSet: true, cookieStrict: false, [`get${name}`]: compute(values[name]) }))
      const { refresh_token: token } = await started(app)
      store.taken()
      isFailing = true
      const answer = await refresh(app, token)
      t.equal(answer.statusCode, 500, name)
      t.same(cookiesOf(answer), [], name)
      t.same(store.taken(), [], name)
      isFailing = false
      t.equal((await refresh(app, token)).statusCode, 200, name)
    }
  }
})

// Promise: sessions/handler-fails-during
t.test('an error of another library with the status 401 is no 401 of a refresh: clients keep their tokens', async (t) => {
  let fault: Error | undefined
  const { app } = await withSessions(t, {
    retrieveUser: () => {
      if (fault !== undefined) throw fault
      return { user_id: 1 }
    }
  })
  const { refresh_token: token } = await started(app)
  fault = Object.assign(new Error('upstream: token t0ps3cret was refused'), { statusCode: 401 })
  const answer = await refresh(app, token)
  t.equal(answer.statusCode, 500)
  t.notMatch(answer.body, 't0ps3cret')
  fault = mistyped<Error>({ statusCode: 401, message: 'upstream: token t0ps3cret was refused' })
  const plain = await refresh(app, token)
  t.equal(plain.statusCode, 500, 'also where it is no Error')
  t.notMatch(plain.body, 't0ps3cret')
  fault = Object.assign(new Error('Too many users.'), { statusCode: 429 })
  t.equal((await refresh(app, token)).statusCode, 429, 'another status of the application stays')
  fault = undefined
  t.equal((await refresh(app, token)).statusCode, 200)
})

// Promise: sessions/session-ends-store
t.test('a refresh of a session that ended while its store was slow to answer is 401, sets no cookie, and is not told as a refresh', async (t) => {
  let wait = Promise.resolve()
  const store = new WatchedStore()
  const memory = memorySessions()
  store.instead = {
    ...memory,
    advance: async (...given: Parameters<SessionStore['advance']>) => {
      const answer = await memory.advance(...given)
      await wait
      return answer
    }
  }
  const { app } = await withSessions(t, { cookieSet: true, sessions: { store } })
  const login = await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } })
  let release = () => {}
  wait = new Promise((resolve) => { release = resolve })
  const events = sessionEvents(t)
  const asked = async (request: InjectOptions) => await app.inject(request)
  const refreshing = asked({ method: 'POST', url: '/auth/refresh', headers: jar(login) })
  await settled()
  const again = await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' }, headers: jar(login) })
  t.equal(cookiesOf(again).length, 2)
  release()
  const answer = await refreshing
  t.equal(answer.statusCode, 401)
  t.same(cookiesOf(answer), [], 'the cookies of the new login stay')
  t.same(events.map(({ type }) => type), ['started', 'ended'])
})

// Promise: sessions/handlertimeout-answers-store
t.test('an answer that a timeout gives while the store is slow is the only one, and nothing is added to it', async (t) => {
  const expire = holdTimers(t, 1000)
  let wait: Promise<void> | undefined
  let waitToSend: Promise<void> | undefined
  const store = new WatchedStore()
  store.before = async (method) => { if (method !== 'endedSince') await wait }
  const app = await build(t, { cookieSet: true, cookieStrict: false, sessions: { store } }, { handlerTimeout: 1000 } as object)
  app.addHook('onSend', async () => { await waitToSend })
  const requests = async (): Promise<InjectOptions[]> => {
    const { access_token: token, refresh_token: refreshToken } = await started(app)
    const headers = bearer(token)
    const { sid } = payloadOf(token)
    return [
      { method: 'POST', url: '/auth/logout', headers },
      { url: '/auth/sessions', headers },
      { method: 'POST', url: '/auth/refresh', headers: { cookie: `refresh_token=${refreshToken}` } },
      { method: 'DELETE', url: `/auth/sessions/${String(sid)}`, headers },
      { method: 'DELETE', url: '/auth/sessions', headers }
    ]
  }
  for (const index of [0, 1, 2, 3, 4]) {
    const request = (await requests())[index]!
    const what = `${String(request.method)} ${String(request.url)}`
    let release = () => {}
    let send = () => {}
    wait = new Promise((resolve) => { release = resolve })
    waitToSend = new Promise((resolve) => { send = resolve })
    const answering = app.inject(request)
    await settled()
    expire()
    await settled()
    release()
    await settled()
    send()
    wait = waitToSend = undefined
    const answer = await answering
    t.equal(answer.statusCode, 503, what)
    t.match(answer.json(), { code: 'FST_ERR_HANDLER_TIMEOUT' }, what)
    t.equal(cookiesOf(answer).length, index === 0 ? 2 : 0, what)
  }
})

t.test('a user id that is too long for sessions has none: nothing is listed, nothing found, and the store is not asked', async (t) => {
  const { app, store } = await withSessions(t)
  const headers = bearer(await app.tokenAuth.generateAccessToken({ user_id: 'x'.repeat(600) }))
  t.same((await app.inject({ url: '/auth/sessions', headers })).json(), { sessions: [] })
  t.equal((await app.inject({ method: 'DELETE', url: '/auth/sessions', headers })).statusCode, 204)
  t.equal((await app.inject({ method: 'DELETE', url: `/auth/sessions/${'A'.repeat(22)}`, headers })).statusCode, 404)
  t.same(store.taken(), [])
})

t.test('what is no session id never reaches the store', async (t) => {
  const { app, store } = await withSessions(t)
  const { access_token: token } = await started(app)
  store.taken()
  for (const id of ['%00', '%F0%9F%98%80', 'x'.repeat(90), '..', 'A'.repeat(21), 'B'.repeat(22), '%20', 'null']) {
    const answer = await app.inject({ method: 'DELETE', url: `/auth/sessions/${id}`, headers: bearer(token) })
    t.equal(answer.statusCode, 404, id)
  }
  for (const id of ['\0', '', 'B'.repeat(22), mistyped<string>(undefined), mistyped<string>({})]) t.equal(await app.tokenAuth.sessions.end(1, id), false)
  t.same(store.taken(), [])
})

t.test('the methods of sessions refuse what is no user id and what is no option: a mistake must not end, or spare, the wrong sessions', async (t) => {
  const { app, store } = await withSessions(t)
  const { sessions } = app.tokenAuth
  await started(app)
  store.taken()
  for (const id of [undefined, null, {}, { user_id: 1 }, NaN, 1.5, '', []]) {
    const userId = mistyped<number>(id)
    for (const call of [async () => { await sessions.list(userId) }, async () => { await sessions.end(userId, 'x') }, async () => { await sessions.endAll(userId) }]) {
      await t.rejects(call, { name: 'InvalidConfiguration', message: /^The user id that is given to sessions\.\w+\(\) must be / })
    }
  }
  for (const options of [{ exept: 'x' }, 'A'.repeat(22), null, { except: 'x' }, { except: 5 }, { except: '' }]) {
    await t.rejects(sessions.endAll(1, mistyped(options)), { name: 'InvalidConfiguration', message: /sessions\.endAll\(\)/ })
  }
  t.same(store.taken(), [])
  t.equal(await sessions.endAll(1, { except: null }), 1)
})

// Promise: sessions/setting-response-attribute
t.test('a logout ends the session although the attributes of its cookies cannot be computed', async (t) => {
  let isFailing = false
  const { app } = await withSessions(t, {
    cookieSet: true,
    cookieStrict: false,
    getCookieDomain: () => {
      if (isFailing) throw new Error('of the inner workings')
      return 'example.org'
    }
  })
  const { access_token: token, refresh_token: refreshToken } = await started(app)
  isFailing = true
  t.equal((await logout(app, refreshToken)).statusCode, 500)
  isFailing = false
  t.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 401)
})

// Promise: sessions/application-starts-closes
t.test('an application whose store hangs closes after a second at most', async (t) => {
  const expirePoll = holdTimers(t, 2000)
  const expireClose = holdTimers(t, closeTime)
  const store = new WatchedStore()
  const app = await build(t, { sessions: { store } })
  let isClosed = false
  app.addHook('onClose', async () => { isClosed = true })
  await app.ready()
  store.before = async () => await new Promise(() => {})
  expirePoll()
  await settled()
  const closing = app.close()
  await settled()
  expireClose()
  await closing
  t.ok(isClosed)
})

// Promise: sessions/connection-closes-before
t.test('a pipelined refresh whose connection closed rotates nothing', async (t) => {
  let release = () => {}
  const wait = new Promise<void>((resolve) => { release = resolve })
  const store = new WatchedStore()
  let arrive = () => {}
  const arrived = new Promise<void>((resolve) => { arrive = resolve })
  const { app } = await withSessions(t, {
    sessions: { store },
    retrieveUser: async () => {
      arrive()
      await wait
      return { user_id: 1 }
    }
  })
  app.get('/slow', async (_request, reply) => {
    await wait
    return await reply.send('slow')
  })
  const { refresh_token: token } = await started(app)
  const port = await listen(app)
  store.taken()
  const body = JSON.stringify({ refresh_token: token })
  const socket = connect(port, '127.0.0.1')
  const closed = new Promise<void>((resolve) => { app.server.once('connection', (own) => { own.once('close', () => { resolve() }) }) })
  socket.write(`GET /slow HTTP/1.1\r\nhost: x\r\n\r\nPOST /auth/refresh HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  await arrived
  socket.destroy()
  await closed
  release()
  await settled()
  t.same(store.taken(), [])
})

t.test('the list that a store returns is not changed, and may be frozen', async (t) => {
  const store = new WatchedStore()
  const { app } = await withSessions(t, { sessions: { store } })
  const { access_token: token } = await started(app)
  const [first, second] = ['AAAAAAAAAAAAAAAAAAAAAA', 'AAAAAAAAAAAAAAAAAAAAAQ'].map((sid, index) => ({ sid, createdAt: 1, usedAt: index, endsAt: 2, data: '{}' }))
  store.instead = { list: async () => Object.freeze([first, second]) }
  const { sessions } = (await app.inject({ url: '/auth/sessions', headers: bearer(token) })).json()
  t.same(sessions.map(({ id }: { id: string }) => id), [second?.sid, first?.sid])
})

t.test('a store belongs to the key of the applications that are open: after the last has closed, another may use it', async (t: Test) => {
  const store = memorySessions()
  const [one, two] = [await build(t, { sessions: { store } }), await build(t, { sessions: { store } })]
  await one.close()
  t.match(await refusal(t, { secret: otherSecret, sessions: { store } }), { name: 'InvalidConfiguration' })
  await two.close()
  t.equal(await refusal(t, { secret: otherSecret, sessions: { store } }), undefined)
})

t.test('a polluted prototype does not change whose sessions end, or which session a request has', async (t) => {
  const { app } = await withSessions(t)
  const { access_token: token } = await started(app)
  const plain = await app.tokenAuth.generateAccessToken({ user_id: 1 })
  // eslint-disable-next-line no-extend-native -- that is what the test is about
  Object.defineProperty(Object.prototype, 'sid', { value: 'A'.repeat(22), configurable: true, enumerable: false, writable: true })
  try {
    t.equal((await app.inject({ url: '/', headers: bearer(plain) })).json().sessionId, null)
    t.equal(await app.tokenAuth.sessions.endAll(1), 1)
  } finally {
    Reflect.deleteProperty(Object.prototype, 'sid')
  }
  t.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 401)
})

t.test('a session that is started after the reply was sent is not stored, and the error says why', async (t) => {
  const { app, store } = await withSessions(t)
  let failure: unknown
  let settle = () => {}
  const done = new Promise<void>((resolve) => { settle = resolve })
  app.post('/start', async (request, reply) => {
    app.tokenAuth.sessions.start(request, reply, { user_id: 1 }).catch((error: unknown) => { failure = error }).finally(settle)
    return { forgot: 'await' }
  })
  t.equal((await app.inject({ method: 'POST', url: '/start' })).statusCode, 200)
  await done
  t.match(failure, { name: 'SessionStoreUnavailable', cause: { message: /Await sessions\.start\(\) before you send the reply/ } })
  t.same(store.taken(), [])
})

// Promise: security/dead-session-costs-little
t.test('an authentic refresh token of a session that has ended, or that the store does not know, is refused again and again without a call of a handler or a signature', async (t) => {
  const setMonotonic = setMonotonicClock(t)
  let asked = 0
  const { app, store } = await withSessions(t, { cookieSet: true, cookieStrict: false, retrieveUser: async () => { asked++; return { user_id: 1 } } })
  app.get('/page', { onRequest: app.tokenAuth.protect({ optional: true, renew: true }) }, async () => 'page')
  const page = async (token: string) => await app.inject({ url: '/page', headers: { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', cookie: `refresh_token=${token}` } })
  const { refresh_token: ended } = await started(app)
  const { refresh_token: unknown } = await started(app)
  await logout(app, ended)
  store.instead = { advance: async () => ({ outcome: 'unknown', n: 0 }) }
  for (const [token, calls] of [[ended, 0], [unknown, 1]] as const) {
    asked = 0
    store.taken()
    for (let times = 0; times < 20; times++) {
      assert.equal((await refresh(app, token)).statusCode, 401)
      assert.deepEqual(cookiesOf(await page(token)), [])
    }
    t.equal(asked, calls)
    t.equal(store.taken().length, calls)
  }
  // A store that had lost it for a moment has it again.
  store.instead = {}
  setMonotonic(5001)
  t.equal((await refresh(app, unknown)).statusCode, 200)
  t.equal(asked, 2)
})
