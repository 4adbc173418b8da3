// @slow
/** What happens to sessions and their tokens when the store, the handlers of the application or the connection fail. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest, FastifyServerOptions, InjectOptions, LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { AuthenticationFailed, InvalidToken, memorySessions, Responses, type SessionStore, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, bearer, build, caseOf, holdTimers, host, listen, mistyped, payloadOf, refusal, secret, setClock } from '../helper.ts'
import { cookiesOf, jar, logout, received, refresh, sessionEvents, started, WatchedStore, withSessions, type Tokens } from './helper.ts'

type Method = keyof SessionStore

const noon = 1_800_000_000
const modes = { header: {}, cookie: { cookieSet: true, cookieStrict: false }, split: { cookieSet: true, cookieStrict: false, cookieSplit: true } }

/** Every request that needs the store, and the method that it calls. */
function requestsWith ({ access_token: token, refresh_token: refreshToken }: Tokens): Record<string, { method: Method, request: InjectOptions }> {
  const headers = bearer(token)
  const { sid } = payloadOf(token)
  return {
    login: { method: 'create', request: { method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } } },
    refresh: { method: 'advance', request: { method: 'POST', url: '/auth/refresh', payload: { refresh_token: refreshToken } } },
    logout: { method: 'end', request: { method: 'POST', url: '/auth/logout', payload: { refresh_token: refreshToken } } },
    'logout with an access token': { method: 'end', request: { method: 'POST', url: '/auth/logout', headers } },
    'logout with a forged refresh token and an access token': { method: 'end', request: { method: 'POST', url: '/auth/logout', headers, payload: { refresh_token: 'forged' } } },
    list: { method: 'list', request: { url: '/auth/sessions', headers } },
    'end one': { method: 'end', request: { method: 'DELETE', url: `/auth/sessions/${String(sid)}`, headers } },
    'end all': { method: 'end', request: { method: 'DELETE', url: '/auth/sessions', headers } },
    'end all others': { method: 'end', request: { method: 'DELETE', url: '/auth/sessions?except=current', headers } }
  }
}

/** Logout clears all cookies in every answer; all others leave them as they are. */
function checkCookies (t: Test, name: string, mode: string, answer: LightMyRequestResponse): void {
  const cleared = ['access_token=', ...(mode === 'split' ? ['access_token_signature='] : []), 'refresh_token=']
  t.same(cookiesOf(answer).sort(), name.startsWith('logout') && mode !== 'header' ? cleared : [], `${name}: cookies`)
}

/** As above; the logouts are those of another user, because this process refuses a session from then on although the store has not ended it. */
async function requestsOf (app: FastifyInstance, tokens: Tokens): Promise<Array<[name: string, request: { method: Method, request: InjectOptions }]>> {
  const requests = Object.entries(requestsWith(tokens))
  return await Promise.all(requests.map(async ([name, request]) => [name, name.startsWith('logout') ? requestsWith(await started(app, 'grace', 'hopper'))[name]! : request]))
}

/** The tokens and the session are as before, and the refresh token was not rotated. */
async function checkUntouched (t: Test, app: FastifyInstance, { access_token: token, refresh_token: refreshToken }: Tokens, what: string): Promise<void> {
  t.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 200, what)
  t.equal((await app.tokenAuth.sessions.list(1)).length, 1, what)
  const events = sessionEvents(t)
  t.equal((await refresh(app, refreshToken)).statusCode, 200, what)
  t.match(events, [{ type: 'refreshed', recovered: false }], what)
}

t.test('whatever the store throws, each endpoint answers 503 with one body, and the client keeps its tokens, its session and its cookies', async (t) => {
  const hidden = 'of the inner workings'
  const errors: Record<string, unknown> = {
    error: new Error(hidden),
    'error with the status 401': Object.assign(new Error(hidden), { statusCode: 401, headers: { 'x-inner': hidden } }),
    'error with the status 404': Object.assign(new Error(hidden), { statusCode: 404, code: hidden }),
    'refusal of ours': new AuthenticationFailed(hidden),
    'error of tokens': new InvalidToken(hidden),
    text: hidden,
    nothing: undefined
  }
  for (const [mode, options] of Object.entries(modes)) {
    const { app, store } = await withSessions(t, options)
    const tokens = await started(app)
    for (const [kind, error] of Object.entries(errors)) {
      store.instead = {}
      for (const [name, { method, request }] of await requestsOf(app, tokens)) {
        // A method can also throw before it returns a promise, or give one of another kind.
        store.instead = { [method]: () => ({ then (_resolve: unknown, reject: (reason: unknown) => void) { reject(error) } }) }
        const answer = await app.inject(request)
        const what = `${mode}, ${name}: ${kind}`
        assert.equal(answer.statusCode, 503, what)
        assert.equal(answer.headers['retry-after'], '5', what)
        assert.deepEqual(answer.json(), { reasons: 'Sessions are not available at the moment.', exception: 'SessionStoreUnavailable' }, what)
        t.notMatch(JSON.stringify(answer.headers) + answer.body, hidden, what)
        assert.ok(!('www-authenticate' in answer.headers), `${what}: the tokens are good`)
        checkCookies(t, name, mode, answer)
      }
    }
    store.instead = {}
    await checkUntouched(t, app, tokens, mode)
  }
})

t.test('the cause of a failure of the store is in the log, without a token', async (t) => {
  const lines: string[] = []
  const { app, store } = await withSessions(t, {}, { logger: { stream: { write: (line: string) => { lines.push(line) } } } })
  const tokens = await started(app)
  store.fail(new Error('ECONNREFUSED'), ['advance'])
  await refresh(app, tokens.refresh_token)
  const logged = lines.map((line) => JSON.parse(line)).filter(({ level }) => level >= 50)
  t.match(logged, [{ err: { type: 'SessionStoreUnavailable', message: /ECONNREFUSED/ } }])
  t.equal(logged.length, 1)
  // That the log has no token is checked when the test ends.
})

t.test('with onRefusal "throw" and error handlers that change what they get, a failure of the store is still 503', async (t) => {
  const { app, store } = await withSessions(t, { onRefusal: 'throw' })
  app.setErrorHandler((error: Error & { seen?: boolean }, _request, reply) => {
    t.notOk(error.seen, 'an error of its own for each request')
    error.seen = true
    return reply.send(error)
  })
  const tokens = await started(app)
  const requests = [...await requestsOf(app, tokens), ...await requestsOf(app, tokens)]
  store.fail(new Error('down'))
  for (const [name, { request }] of requests) {
    const answer = await app.inject(request)
    assert.equal(answer.statusCode, 503, name)
    assert.equal(answer.headers['retry-after'], '5', name)
  }
  store.fail(null)
  await checkUntouched(t, app, tokens, 'afterwards')
})

t.test('a store that hangs is 503 after five seconds on each endpoint, and what it answers later changes nothing', async (t) => {
  for (const [mode, options] of Object.entries(modes)) {
    const { app, store } = await withSessions(t, options)
    const tokens = await started(app)
    const requests = await requestsOf(app, tokens)
    const expire = holdTimers(t, 5000)
    const late: Array<(value: unknown) => void> = []
    for (const [name, { method, request }] of requests) {
      const asked = new Promise<void>((resolve) => {
        store.instead = { [method]: () => new Promise((_resolve) => { late.push(_resolve); resolve() }) }
      })
      const answering = app.inject(request)
      await asked
      let isAnswered = false
      answering.then(() => { isAnswered = true }, () => {})
      await turn()
      assert.ok(!isAnswered, `${name}: waits`)
      expire()
      const answer = await answering
      assert.equal(answer.statusCode, 503, name)
      assert.equal(answer.headers['retry-after'], '5', name)
      t.match(answer.json(), { exception: 'SessionStoreUnavailable' }, name)
      checkCookies(t, name, mode, answer)
    }
    // Late answers that say that everything ended, or that a counter is far ahead.
    for (const answer of late) answer([String(payloadOf(tokens.access_token).sid)])
    await turn()
    store.instead = {}
    await checkUntouched(t, app, tokens, mode)
  }
})

t.test('a rotation whose answer was too late is repeated for who tries again within the window, and reissued for who tries later', async (t) => {
  for (const [seconds, event] of [[29, { type: 'repeated', behind: 1 }], [31, { type: 'refreshed', reissued: true }], [86_400, { type: 'refreshed', reissued: true }]] as const) {
    const setTime = setClock(t, noon)
    const { app, store } = await withSessions(t)
    const { refresh_token: token } = await started(app)
    const late = memorySessions()
    const sid = String(Buffer.from(token, 'base64url').toString('base64url', 1, 17))
    const rules = { graceMs: 30_000, idleMs: 1e9, keepMs: 1e6, maxPerUser: 10 }
    await late.create({ sid, user: '1', lifetimeMs: 1e9, data: '{}' }, rules)
    const expire = holdTimers(t, 5000)
    let rotate = () => {}
    const asked = new Promise<void>((resolve) => {
      store.instead = {
        advance: async (...parameters: Parameters<SessionStore['advance']>) => {
          const answer = await late.advance(...parameters)
          resolve()
          await new Promise<void>((resolve) => { rotate = resolve })
          return answer
        }
      }
    })
    const answering = refresh(app, token)
    await asked
    expire()
    assert.equal((await answering).statusCode, 503, caseOf(seconds))
    rotate()
    store.instead = { advance: mistyped(late.advance) }
    setTime(noon + seconds)
    const events = sessionEvents(t)
    assert.equal((await refresh(app, token)).statusCode, 200, caseOf(seconds))
    t.match(events, [event])
  }
})

t.test('an answer of the wrong type is 500 on each endpoint, says nothing of it, and the client keeps its tokens, its session and its cookies', async (t) => {
  for (const [mode, options] of Object.entries(modes)) {
    const { app, store } = await withSessions(t, options)
    const tokens = await started(app)
    for (const wrong of ['of the inner workings', undefined, { outcome: 'of the inner workings', n: 1 }, [{ sid: 'of the inner workings' }]]) {
      for (const [name, { method, request }] of Object.entries(requestsWith(tokens))) {
        store.instead = { [method]: async () => wrong }
        const answer = await app.inject(request)
        assert.equal(answer.statusCode, 500, name)
        t.match(answer.json(), { code: 'TOKEN_AUTH_HANDLER_FAILED', message: `The sessions.store.${method} handler failed.` }, name)
        t.notMatch(answer.body, 'inner workings', name)
        assert.ok(!('retry-after' in answer.headers), name)
        checkCookies(t, name, mode, answer)
      }
    }
    store.instead = {}
    await checkUntouched(t, app, tokens, mode)
  }
})

t.test('a store that is down for a while logs nobody out who tries again', async (t) => {
  const setTime = setClock(t, noon)
  const { app, store } = await withSessions(t)
  const clients = await Promise.all(Array.from({ length: 50 }, () => started(app)))
  setTime(noon + 1000)
  store.fail(new Error('down'))
  for (const { refresh_token: token } of clients) assert.equal((await refresh(app, token)).statusCode, 503, token)
  setTime(noon + 2000)
  store.fail(null)
  for (const { refresh_token: token } of clients) assert.equal((await refresh(app, token)).statusCode, 200, token)
})

t.test('a process that dies before, during or after a rotation logs nobody out: another one rotates, or repeats, within the window', async (t) => {
  for (const [point, type] of [['before', 'refreshed'], ['during', 'repeated'], ['after', 'repeated']] as const) {
    const setTime = setClock(t, noon)
    const store = memorySessions()
    const dead = new Promise<never>(() => {})
    // The one that dies reaches the store, or not, and never answers.
    const dying: SessionStore = {
      ...store,
      advance: async (...given) => {
        if (point === 'before') return await dead
        const answering = store.advance(...given)
        return point === 'during' ? await dead : await answering.then(async () => await dead)
      }
    }
    const { app: first } = await withSessions(t, { sessions: { store: dying } })
    const { app: second } = await withSessions(t, { sessions: { store } })
    const { refresh_token: token } = await started(second)
    refresh(first, token).catch(() => {})
    for (let turns = 0; turns < 10; turns++) await turn()
    setTime(noon + 29)
    const events = sessionEvents(t)
    const answer = await refresh(second, token)
    assert.equal(answer.statusCode, 200, point)
    assert.deepEqual(events.map((event) => event.type), [type], point)
    t.notSame(answer.json().refresh_token, token, point)
    setTime(noon + 60)
    assert.equal((await refresh(second, answer.json().refresh_token)).statusCode, 200, `${point}: and goes on`)
  }
})

t.test('a user database that is down for three windows logs nobody out, and asks the store for nothing', async (t) => {
  const setTime = setClock(t, noon)
  let isDown = false
  const retrieveUser: NonNullable<TokenAuthOptions['retrieveUser']> = async (_request, payload) => {
    if (isDown) throw new Error('The user database is down.')
    return { user_id: Number(payload.user_id) }
  }
  const { app, store } = await withSessions(t, { retrieveUser })
  const clients = await Promise.all(Array.from({ length: 50 }, () => started(app)))
  setTime(noon + 1000)
  // Half of them have just been given a new refresh token, so that their windows are open.
  for (const client of clients.slice(25)) Object.assign(client, (await refresh(app, client.refresh_token)).json())
  store.taken()
  isDown = true
  for (let second = 0; second <= 90; second += 15) {
    setTime(noon + 1001 + second)
    for (const { refresh_token: token } of clients) assert.equal((await refresh(app, token)).statusCode, 500, caseOf(second, token))
  }
  t.same(store.taken(), [])
  isDown = false
  const events = sessionEvents(t)
  for (const { refresh_token: token } of clients) assert.equal((await refresh(app, token)).statusCode, 200, token)
  t.equal(events.filter(({ type }) => type === 'refreshed').length, 50)
  t.equal(events.length, 50)
})

/** An application in which handlers fail as a test says. */
async function failing (t: Test, options: Partial<TokenAuthOptions> = {}) {
  let fault = ''
  const throwIf = (name: string) => { if (fault === name) throw new Error(name) }
  class Hooks extends Responses {
    override extendRefresh () {
      throwIf('extendRefresh throws')
      return mistyped<object>({ 'extendRefresh returns text': 'text', 'extendRefresh returns what has no JSON': { n: 1n } }[fault])
    }
  }
  const { app, store } = await withSessions(t, {
    responsesClass: Hooks,
    scopesEnabled: true,
    addScopesToPayload: () => {
      throwIf('addScopesToPayload throws')
      return fault === 'addScopesToPayload returns no scopes' ? mistyped(1) : ['read']
    },
    extendPayload: (payload) => {
      throwIf('extendPayload throws')
      if (fault === 'the token is too large') return { ...payload, text: 'x'.repeat(10_000) }
      if (fault === 'a cookie is too large') return { ...payload, text: 'x'.repeat(4000) }
      if (fault === 'another session') return { ...payload, sid: 'A'.repeat(22) }
      if (fault === 'a later expiry') return { ...payload, exp: Number(payload.exp) + 1 }
      return payload
    },
    retrieveUser: (_request, payload) => {
      throwIf('retrieveUser throws')
      return fault === 'retrieveUser returns no user object' ? mistyped('ada') : { user_id: Number(payload.user_id) }
    },
    ...options
  })
  return { app, store, setFault: (name: string) => { fault = name } }
}

const faults = [
  'extendRefresh throws', 'extendRefresh returns text', 'extendRefresh returns what has no JSON', 'addScopesToPayload throws', 'addScopesToPayload returns no scopes',
  'extendPayload throws', 'the token is too large', 'a cookie is too large', 'another session', 'a later expiry', 'retrieveUser throws', 'retrieveUser returns no user object'
]

t.test('a refresh whose hooks, scopes, payload, signature or cookies fail is 500, and rotates nothing: the same refresh token is good afterwards', async (t) => {
  for (const mode of ['header', 'cookie'] as const) {
    const { app, store, setFault } = await failing(t, modes[mode])
    const { refresh_token: token } = await started(app)
    store.taken()
    for (const fault of faults) {
      setFault(fault)
      const answer = await refresh(app, token)
      if (fault === 'a cookie is too large' && mode === 'header') {
        // It has no cookies.
        assert.equal(answer.statusCode, 200, caseOf(mode, fault))
        assert.deepEqual(store.taken(), ['advance'], caseOf(mode, fault))
        continue
      }
      assert.equal(answer.statusCode, 500, `${mode}: ${fault}`)
      assert.deepEqual(cookiesOf(answer), [], `${mode}: ${fault}`)
      assert.doesNotMatch(answer.body, /eyJ/, `${mode}: ${fault}`)
      assert.deepEqual(store.taken(), [], `${mode}: ${fault}`)
    }
    setFault('')
    const events = sessionEvents(t)
    assert.equal((await refresh(app, token)).statusCode, 200, mode)
    assert.equal(events.length, 1, mode)
  }
})

t.test('a login that fails stores no session', async (t) => {
  const { app, store, setFault } = await failing(t, modes.cookie)
  const credentials = { username: 'ada', password: 'lovelace' }
  for (const fault of faults.filter((name) => !/Refresh|User/.test(name))) {
    setFault(fault)
    const answer = await app.inject({ method: 'POST', url: '/auth', payload: credentials })
    assert.equal(answer.statusCode, 500, fault)
    assert.deepEqual(cookiesOf(answer), [], fault)
  }
  t.same(store.taken(), [])
})

t.test('retrieveUser decides: another user is 401 and ends nothing; no user ends the session, or is 503 where that fails; what throws ends nothing', async (t) => {
  let user: () => object | null | undefined = () => ({ user_id: 2 })
  const { app, store } = await withSessions(t, { retrieveUser: () => mistyped(user()) })
  const tokens = await started(app)
  const events = sessionEvents(t)
  store.taken()
  const answers = async (status: number, calls: string[], what: string) => {
    const answer = await refresh(app, tokens.refresh_token)
    t.equal(answer.statusCode, status, what)
    t.same(store.taken(), calls, what)
    t.same(events, [], what)
    return answer
  }
  t.match((await answers(401, [], 'another user')).json(), { exception: 'AuthenticationFailed' })
  user = () => ({ user_id: '1' })
  await answers(401, [], 'an id of another type')
  user = () => { throw new Error('down') }
  await answers(500, [], 'it throws')
  user = () => { throw Object.assign(new Error('down'), { statusCode: 503 }) }
  await answers(500, [], 'it throws with a status of its own')
  user = () => ({ user_id: 1 })
  await checkUntouched(t, app, tokens, 'afterwards')

  for (const none of [null, undefined]) {
    const { access_token: accessToken, refresh_token: token } = await started(app)
    user = () => none
    store.fail(new Error('down'), ['end'])
    const failed = await refresh(app, token)
    t.equal(failed.statusCode, 503)
    t.match(failed.json(), { exception: 'SessionStoreUnavailable' })
    store.fail(null)
    user = () => ({ user_id: 1 })
    t.equal((await refresh(app, token)).statusCode, 401, 'this process refuses it, and ends it later')

    const { access_token: other, refresh_token: gone } = await started(app)
    user = () => none
    t.equal((await refresh(app, gone)).statusCode, 401)
    t.match(events.at(-1), { type: 'ended', reason: 'no-user' })
    for (const ended of [accessToken, other]) t.equal((await app.inject({ url: '/', headers: bearer(ended) })).statusCode, 401)
    user = () => ({ user_id: 1 })
  }
})

t.test('a refresh token that is ahead of a store that lost writes is good, and the client goes on', async (t) => {
  const setTime = setClock(t, noon)
  const lines: string[] = []
  const { app, store } = await withSessions(t, {}, { logger: { stream: { write: (line: string) => { lines.push(line) } } } })
  const tokens = await started(app)
  const backup = memorySessions()
  const sid = String(payloadOf(tokens.access_token).sid)
  const rules = { graceMs: 30_000, idleMs: 1e9, keepMs: 1e6, maxPerUser: 10 }
  await backup.create({ sid, user: '1', lifetimeMs: 1e9, data: '{}' }, rules)
  let current = tokens.refresh_token
  for (const second of [1000, 2000, 3000]) {
    setTime(noon + second)
    current = (await refresh(app, current)).json().refresh_token
  }

  store.instead = { advance: mistyped(backup.advance), end: mistyped(backup.end), list: mistyped(backup.list) }
  setTime(noon + 4000)
  const events = sessionEvents(t)
  lines.length = 0
  const recovered = await refresh(app, current)
  t.equal(recovered.statusCode, 200)
  t.match(events, [{ type: 'refreshed', recovered: true, userId: 1, sessionId: sid }])
  t.match(lines.map((line) => JSON.parse(line)).filter(({ level }) => level === 40), [{ sessionId: sid, msg: 'The session store has lost writes: a refresh token has a later counter than its session.' }])
  t.equal((await refresh(app, current)).json().refresh_token, recovered.json().refresh_token, 'a repetition')
  setTime(noon + 5000)
  t.equal((await refresh(app, recovered.json().refresh_token)).statusCode, 200)
  t.match(events.map(({ type }) => type), ['refreshed', 'repeated', 'refreshed'])
})

t.test('reuse is 401, ends the session in the store and in its feed, and is told with how far behind it was: one whose successor was received, late, or two at once', async (t) => {
  for (const [rotations, wait, behind] of [[1, 31, 1], [2, 0, 2]] as const) {
    const setTime = setClock(t, noon)
    const lines: string[] = []
    const { app, store } = await withSessions(t, {}, { logger: { stream: { write: (line: string) => { lines.push(line) } } } })
    const { refresh_token: retired, access_token: token } = await started(app)
    const { sid } = payloadOf(token)
    let current = retired
    for (let rotation = 1; rotation <= rotations; rotation++) {
      setTime(noon + 100 * rotation)
      current = (await refresh(app, current)).json().refresh_token
    }
    const rules = { graceMs: 30_000, idleMs: 1e9, keepMs: 1e6, maxPerUser: 10 }
    assert.deepEqual((await store.endedSince(null, rules)).ended, [], caseOf(rotations))
    if (rotations === 1) await received(store, retired)
    setTime(noon + 100 * rotations + wait)
    const events = sessionEvents(t)
    lines.length = 0
    const forged = (await refresh(app, 'forged')).body
    const answer = await refresh(app, retired)
    assert.equal(answer.statusCode, 401, caseOf(rotations))
    assert.equal(answer.body, forged, 'the answer does not say why')
    t.match(events, [{ type: 'reused', behind, userId: 1, sessionId: sid, request: { url: '/auth/refresh' } }])
    t.match(lines.map((line) => JSON.parse(line)).filter(({ level }) => level === 40), [{ sessionId: sid, behind, msg: 'A retired refresh token was used, and its session has ended.' }])
    assert.deepEqual((await store.endedSince(null, rules)).ended, [sid], caseOf(rotations))
    assert.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 401, 'its access tokens, too')
    store.taken()
    for (const sent of [retired, current]) assert.equal((await refresh(app, sent)).statusCode, 401, caseOf(rotations, sent))
    assert.deepEqual(store.taken(), [], 'nobody is asked again')
    assert.equal(events.length, 1, 'it is told once')
  }
})

t.test('the answer of a refresh that is given late does not overwrite the cookie that another tab was given meanwhile', async (t) => {
  const setTime = setClock(t, noon)
  const { app } = await withSessions(t, { cookieSet: true })
  let release = () => {}
  const hold = new Promise<void>((resolve) => { release = resolve })
  app.addHook('onSend', async (request) => { if (request.headers['x-tab'] === 'slow') await hold })
  const login = await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } })
  const browser = new Map<string, string>()
  const keep = (answer: LightMyRequestResponse) => {
    for (const cookie of cookiesOf(answer)) browser.set(cookie.split('=', 1)[0]!, cookie)
    return answer
  }
  const send = async (headers: Record<string, string> = {}) => await refresh(app, undefined, { cookie: [...browser.values()].join('; '), ...headers })
  keep(login)
  keep(await send())
  const events = sessionEvents(t)
  const slow = send({ 'x-tab': 'slow' })
  for (let turns = 0; turns < 1000 && events.length === 0; turns++) await turn()
  t.match(events, [{ type: 'repeated', behind: 0 }])
  setTime(noon + 31)
  keep(await send())
  const newest = browser.get('refresh_token')
  release()
  t.equal(keep(await slow).statusCode, 200)
  t.equal(browser.get('refresh_token'), newest)
  setTime(noon + 100)
  t.equal((await send()).statusCode, 200, 'the session goes on')
  t.not(jar(login).cookie, '')
})

/** An application over a socket whose `retrieveUser` returns when the connection of its request has closed, and what a test can wait for. */
async function abandoned (t: Test, server: FastifyServerOptions = {}) {
  const store = new WatchedStore()
  let isWaiting = true
  let begun = () => {}
  let done = () => {}
  const isBegun = new Promise<void>((resolve) => { begun = resolve })
  const isDone = new Promise<void>((resolve) => { done = resolve })
  class Hooks extends Responses {
    // The last of the application's functions before the rotation.
    override extendRefresh () { done() }
  }
  const closing = ({ raw }: FastifyRequest) => once(Reflect.get(raw, 'stream') ?? raw.socket, 'close')
  const { app } = await withSessions(t, {
    sessions: { store },
    responsesClass: Hooks,
    retrieveUser: async (request, { user_id: id }) => {
      if (isWaiting) {
        begun()
        await closing(request)
        await turn()
      }
      return { user_id: Number(id) }
    }
  }, server)
  const port = await listen(app)
  return { app, store, port, isBegun, isDone, stopWaiting: () => { isWaiting = false } }
}

t.test('a login whose client has closed the connection does not end the session of the cookie that the browser keeps', async (t) => {
  for (const isGone of [true, false]) {
    const { app } = await withSessions(t, {
      cookieSet: true,
      authenticate: ({ raw: { socket }, headers: { host } }) => {
        if (isGone && host === 'x') socket.destroy()
        return { user_id: 1 }
      }
    })
    const port = await listen(app)
    const { refresh_token: token } = await started(app)
    const events = sessionEvents(t)
    const socket = connect(port, '127.0.0.1')
    const closed = new Promise((resolve) => { socket.on('error', () => {}).resume().once('close', resolve) })
    socket.write(`POST /auth HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncookie: refresh_token=${token}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}`)
    await closed
    for (let turns = 0; turns < 20; turns++) await turn()
    assert.deepEqual(events.map(({ type }) => type), isGone ? ['started'] : ['started', 'ended'], caseOf(isGone))
    assert.equal((await refresh(app, token, { cookie: `refresh_token=${token}` })).statusCode, isGone ? 200 : 401, caseOf(isGone))
  }
})

// Promise: sessions/connection-closes-before
t.test('a refresh whose connection closed before the rotation rotates nothing, over HTTP/1.1 and over HTTP/2', async (t) => {
  for (const version of [1, 2]) {
    const { app, store, port, isBegun, isDone, stopWaiting } = await abandoned(t, version === 1 ? {} : { http2: true } as object)
    const { refresh_token: token } = await started(app)
    store.taken()
    const body = JSON.stringify({ refresh_token: token })
    if (version === 1) {
      const socket = connect(port, '127.0.0.1')
      socket.write(`POST /auth/refresh HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
      await isBegun
      socket.destroy()
    } else {
      const session = connectHttp2(`http://127.0.0.1:${port}`)
      const stream = session.request({ ':method': 'POST', ':path': '/auth/refresh', 'content-type': 'application/json' })
      stream.on('error', () => {})
      stream.end(body)
      await isBegun
      // One stream is enough: the connection stays.
      stream.destroy()
      await isDone
      session.close()
    }
    await isDone
    for (let turns = 0; turns < 5; turns++) await turn()
    assert.deepEqual(store.taken(), [], `HTTP/${version}`)
    stopWaiting()
    const events = sessionEvents(t)
    assert.equal((await refresh(app, token)).statusCode, 200, caseOf(version))
    t.match(events, [{ type: 'refreshed' }], `HTTP/${version}: this one is the first`)
  }
})

t.test('a login or a refresh that a timeout has answered, or is answering, stores and rotates nothing', async (t) => {
  const expire = holdTimers(t, 1000)
  let wait: Promise<void> | undefined
  let waitToSend: Promise<void> | undefined
  const store = new WatchedStore()
  const app = host(t, { handlerTimeout: 1000 } as object)
  app.addHook('onSend', async () => { await waitToSend })
  const user = async () => {
    await wait
    return { user_id: 1 }
  }
  await app.register(tokenAuth, { secret, authenticate: user, retrieveUser: user, sessions: { store } })
  app.post('/start', async (request, reply) => await app.tokenAuth.sessions.start(request, reply, await user()))
  const { refresh_token: token } = await started(app)
  store.taken()
  const requests: InjectOptions[] = [
    { method: 'POST', url: '/auth', payload: {} },
    { method: 'POST', url: '/auth/refresh', payload: { refresh_token: token } },
    { method: 'POST', url: '/start' }
  ]
  for (const request of requests) {
    for (const isAnswering of [false, true]) {
      let release = () => {}
      let send = () => {}
      wait = new Promise((resolve) => { release = resolve })
      if (isAnswering) waitToSend = new Promise((resolve) => { send = resolve })
      const answering = app.inject(request)
      for (let turns = 0; turns < 5; turns++) await turn()
      expire()
      if (!isAnswering) assert.equal((await answering).statusCode, 503, String(request.url))
      release()
      for (let turns = 0; turns < 5; turns++) await turn()
      assert.deepEqual(store.taken(), [], String(request.url))
      send()
      assert.equal((await answering).statusCode, 503, String(request.url))
    }
  }
  wait = waitToSend = undefined
  t.equal((await refresh(app, token)).statusCode, 200)
})

t.test('a refresh cookie that is too large is 500, and rotates nothing', async (t) => {
  const { app, store } = await withSessions(t)
  const { app: other } = await withSessions(t, { cookieSet: true, cookieStrict: false, cookieRefreshTokenName: 'r.'.repeat(2025), sessions: { store } })
  const { refresh_token: token } = await started(app)
  store.taken()
  const answer = await refresh(other, token)
  t.equal(answer.statusCode, 500)
  t.equal(answer.json().exception, 'TokenTooLarge')
  t.same(cookiesOf(answer), [])
  t.same(store.taken(), [])
  const events = sessionEvents(t)
  t.equal((await refresh(app, token)).statusCode, 200)
  t.match(events, [{ type: 'refreshed' }])
})

t.test('what the application returns for a session is checked before anything is stored', async (t) => {
  let lifetime: () => unknown = () => 10_000
  let data: () => unknown = () => ({})
  const { app, store } = await withSessions(t, { sessions: { lifetime: mistyped(() => lifetime()), data: mistyped(() => data()) } })
  const hidden = 'of the inner workings'
  const status = async () => {
    const { statusCode, body } = await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } })
    t.notMatch(body, hidden)
    return statusCode
  }
  t.equal(await status(), 200)
  t.same(store.taken(), ['create'])
  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  for (const wrong of [null, undefined, 'text', [], new Map(), cycle, { n: 1n }, { text: 'x'.repeat(1024) }]) {
    data = () => wrong
    assert.equal(await status(), 500, caseOf(wrong))
  }
  data = () => { throw new Error(hidden) }
  t.equal(await status(), 500)
  data = () => ({ text: 'x'.repeat(1024 - '{"text":""}'.length) })
  t.equal(await status(), 200, 'the largest that is allowed')
  store.taken()
  for (const wrong of [null, undefined, '10000', 1799, 10_000.5, NaN, 3_153_600_001]) {
    lifetime = () => wrong
    assert.equal(await status(), 500, caseOf(wrong))
  }
  lifetime = () => { throw new Error(hidden) }
  t.equal(await status(), 500)
  t.same(store.taken(), [])
})

t.test('logout of a browser without cookies, or from an access token of a session that has ended, needs no store', async (t) => {
  const { app, store } = await withSessions(t)
  const tokens = await started(app)
  await logout(app, tokens.refresh_token)
  store.fail(new Error('down'))
  store.taken()
  t.equal((await logout(app, undefined, bearer(tokens.access_token))).statusCode, 204)
  t.equal((await logout(app, 'forged')).statusCode, 204)
  t.same(store.taken(), [])
})

t.test('a login whose handler returns no user is 500, and stores no session', async (t) => {
  for (const none of [null, undefined]) {
    const { app, store } = await withSessions(t, { authenticate: mistyped(async () => none) })
    const answer = await app.inject({ method: 'POST', url: '/auth', payload: {} })
    assert.equal(answer.statusCode, 500, caseOf(none))
    assert.equal(answer.json().exception, 'InvalidUserObject', caseOf(none))
    assert.deepEqual(store.taken(), [], caseOf(none))
  }
})

t.test('where a token cannot be verified, or a timeout is answering, no session is listed or ended', async (t) => {
  let fault = ''
  let wait: Promise<void> | undefined
  let waitToSend: Promise<void> | undefined
  const store = new WatchedStore()
  const app = host(t, { handlerTimeout: 1000 } as object)
  app.addHook('onRequest', async () => { await wait })
  app.addHook('onSend', async () => { await waitToSend })
  await app.register(tokenAuth, {
    secret,
    authenticate,
    sessions: { store },
    getAuthorizationHeader: () => {
      if (fault !== '') throw new Error(fault)
      return 'authorization'
    }
  })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const expire = holdTimers(t, 1000)
  const tokens = await started(app)
  const requests = Object.entries(requestsWith(tokens)).filter(([name]) => /^(list|end)/.test(name))
  t.equal(requests.length, 4)
  store.taken()
  for (const [name, { request }] of requests) {
    fault = 'of the inner workings'
    const failed = await app.inject(request)
    assert.equal(failed.statusCode, 500, name)
    t.notMatch(failed.body, fault, name)
    for (const text of ['', 'of the inner workings']) {
      let release = () => {}
      let send = () => {}
      wait = new Promise((resolve) => { release = resolve })
      waitToSend = new Promise((resolve) => { send = resolve })
      fault = text
      const answering = app.inject(request)
      await turn()
      await turn()
      expire()
      release()
      wait = undefined
      for (let turns = 0; turns < 5; turns++) await turn()
      send()
      waitToSend = undefined
      assert.equal((await answering).statusCode, 503, name)
      assert.deepEqual(store.taken(), [], name)
    }
    fault = ''
  }
  await checkUntouched(t, app, tokens, 'afterwards')
})

t.test('the endpoints for sessions may be at the prefix itself', async (t) => {
  const { app } = await withSessions(t, { pathToSessions: '/' })
  const [mine, other] = [await started(app), await started(app)]
  const { sid } = payloadOf(other.access_token)
  t.equal((await app.inject({ url: '/auth', headers: bearer(mine.access_token) })).json().sessions.length, 2)
  t.equal((await app.inject({ method: 'DELETE', url: `/auth/${String(sid)}`, headers: bearer(mine.access_token) })).statusCode, 204)
  t.equal((await app.inject({ method: 'DELETE', url: '/auth', headers: bearer(mine.access_token) })).statusCode, 204)
  t.same(await app.tokenAuth.sessions.list(1), [])
})

t.test('an instance without sessions says so where one of their methods is called, and so does one that only verifies', async (t) => {
  const plain = await build(t)
  const verifying = await build(t, mistyped<Partial<TokenAuthOptions>>({ authMode: false, sessions: { store: memorySessions() } }))
  for (const { tokenAuth: { sessions } } of [plain, verifying]) {
    const calls = { start: () => sessions.start(mistyped({}), mistyped({}), { user_id: 1 }), list: () => sessions.list(1), end: () => sessions.end(1, 'A'.repeat(22)), endAll: () => sessions.endAll(1) }
    for (const [name, call] of Object.entries(calls)) {
      await t.rejects(async () => { await call() }, { name: 'InvalidConfiguration', message: new RegExp(`^sessions\\.${name}\\(\\) needs the option "sessions"`) })
    }
  }
})

t.test('a secret of refresh tokens that is too short is refused, wherever it is in the list', async (t) => {
  const short = 'x'.repeat(31)
  for (const given of [short, [short], ['a secret of sessions, of 32 bytes', short]]) {
    t.match(await refusal(t, { sessions: { secret: given } }), { name: 'InvalidConfiguration', message: /^"sessions\.secret" has 31 bytes; at least 32 are needed\./ })
  }
  t.equal(await refusal(t, { sessions: { secret: ['a secret of sessions, of 32 bytes', 'another secret of sessions of 32 bytes'] } }), undefined)
})

t.test('a store that fails while the application starts or lists sessions itself rejects with SessionStoreUnavailable', async (t) => {
  const { app, store } = await withSessions(t, { cookieSet: true })
  let error: unknown
  app.post('/start', async (request, reply) => {
    try {
      await app.tokenAuth.sessions.start(request, reply, { user_id: 1 })
    } catch (thrown) {
      error = thrown
    }
    return {}
  })
  store.fail(new Error('down'))
  const answer = await app.inject({ method: 'POST', url: '/start' })
  t.match(error, { name: 'SessionStoreUnavailable', statusCode: 503, headers: { 'retry-after': '5' } })
  t.same(cookiesOf(answer), [])
  const { sessions } = app.tokenAuth
  for (const call of [() => sessions.list(1), () => sessions.end(1, 'A'.repeat(22)), () => sessions.endAll(1)]) await t.rejects(async () => { await call() }, { name: 'SessionStoreUnavailable' })
  store.fail(null)
  await app.inject({ method: 'POST', url: '/start', headers: { origin: 'https://elsewhere.example' } })
  t.match(error, { name: 'CrossOriginRequest' })
  t.same(await sessions.list(1), [])
  t.equal(cookiesOf(await app.inject({ method: 'POST', url: '/start' })).length, 2)
})
