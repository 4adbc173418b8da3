import assert from 'node:assert/strict'
import t from 'tap'
import { Responses } from '../../lib/index.ts'
import { bearer, caseOf, claims, forge, keysFor, login, now, otherSecret, payloadOf, setClock, warnings } from '../helper.ts'
import { cookiesOf, jar, logout, received, refresh, sessionEvents, started, withSessions, type Tokens } from './helper.ts'

const isNoStore = (response: { headers: object }) => Reflect.get(response.headers, 'cache-control') === 'no-store'

// Promise: sessions/2-1-refresh
// Promise: sessions/7-2-1
// Promise: sessions/7-2-2
// Promise: sessions/7-4-1
// Promise: sessions/access-token-stolen
// Promise: specification/sessionended-2
// Promise: specification/sessionid-signal
t.test('a login starts a session, a refresh rotates it, a logout ends it', async (t) => {
  const { app } = await withSessions(t)
  const tokens = await started(app)
  t.same(Object.keys(tokens), ['access_token', 'refresh_token'])
  const { sid } = payloadOf(tokens.access_token)
  t.match(sid, /^[\w-]{22}$/)
  t.same((await app.inject({ url: '/', headers: bearer(tokens.access_token) })).json(), { sessionId: sid, userId: 1 })

  const second = await refresh(app, tokens.refresh_token)
  t.equal(second.statusCode, 200)
  t.ok(isNoStore(second))
  const rotated: Tokens = second.json()
  t.same(Object.keys(rotated), ['access_token', 'refresh_token'])
  t.not(rotated.refresh_token, tokens.refresh_token)
  t.equal(payloadOf(rotated.access_token).sid, sid)

  t.equal((await logout(app, tokens.refresh_token)).statusCode, 204)
  for (const { access_token: token } of [tokens, rotated]) {
    const answer = await app.inject({ url: '/', headers: bearer(token) })
    assert.equal(answer.statusCode, 401, token)
    assert.deepEqual(answer.json(), { reasons: 'Session has ended.', exception: 'SessionEnded' }, token)
    t.match(answer.headers['www-authenticate'], 'error="invalid_token"')
    const verified = await app.inject({ url: '/auth/verify', headers: bearer(token) })
    assert.equal(verified.statusCode, 400, token)
    assert.deepEqual(verified.json(), { valid: false, reason: 'Session has ended.' }, token)
    t.throws(() => app.tokenAuth.verifyToken(token), { name: 'SessionEnded' })
  }
  t.equal((await refresh(app, rotated.refresh_token)).statusCode, 401)
  t.same((await app.inject({ url: '/', headers: bearer(forge(claims())) })).json(), { sessionId: null, userId: 1 }, 'a token without a session lives until it expires')
})

// Promise: sessions/2-2-2
// Promise: sessions/4-14-2
// Promise: sessions/refresh-token-stolen
// Promise: sessions/response-lost-connection
// Promise: sessions/store-gives-answer
t.test('within the window the current token and its predecessor get the current one again; after it, a predecessor whose successor was received is theft', async (t) => {
  const at = now()
  const setTime = setClock(t, at)
  const { app, store } = await withSessions(t)
  const events = sessionEvents(t)
  const { refresh_token: first, access_token: token } = await started(app)
  const { refresh_token: second } = (await refresh(app, first)).json()
  setTime(at + 29)
  for (const presented of [first, second, first]) assert.equal((await refresh(app, presented)).json().refresh_token, second, caseOf(presented))
  setTime(at + 31)
  const { refresh_token: third } = (await refresh(app, second)).json()
  t.not(third, second)
  await received(store, second)
  setTime(at + 70)
  t.equal((await refresh(app, second)).statusCode, 401)
  t.equal((await refresh(app, third)).statusCode, 401, 'the session has ended for the owner too')
  t.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 401)
  t.same(events.map((event) => event.type), ['started', 'refreshed', 'repeated', 'repeated', 'repeated', 'refreshed', 'reused'])
  t.match(events[2], { behind: 1 })
  t.match(events[3], { behind: 0 })
  t.match(events.at(-1), { behind: 1, userId: 1, sessionId: payloadOf(token).sid, instanceName: 'tokenAuth' })
})

// Promise: sessions/4-14-2
// Promise: sessions/refresh-token-stolen
t.test('two behind is theft at once, also within the window', async (t) => {
  const at = now()
  const setTime = setClock(t, at)
  const { app } = await withSessions(t)
  const { refresh_token: first } = await started(app)
  const { refresh_token: second } = (await refresh(app, first)).json()
  setTime(at + 31)
  t.equal((await refresh(app, second)).statusCode, 200)
  const events = sessionEvents(t)
  t.equal((await refresh(app, first)).statusCode, 401)
  t.match(events, [{ type: 'reused', behind: 2 }])
})

// Promise: sessions/7-2-1
// Promise: sessions/flood-forged-refresh
t.test('every refusal of refresh has one body, sets no cookie, and a forged token never reaches the store', async (t) => {
  const { app, store } = await withSessions(t, { cookieSet: true, cookieStrict: false, retrieveUser: (_request, payload) => payload.user_id === 2 ? null : { user_id: Number(payload.user_id) } })
  const { refresh_token: token } = await started(app)
  const { refresh_token: removed } = await started(app, 'grace', 'hopper')
  const { refresh_token: ended } = await started(app)
  await logout(app, ended)
  store.taken()
  const answer = await refresh(app, 'forged')
  t.equal(answer.statusCode, 401)
  t.same(answer.json(), { reasons: 'Authentication failed.', exception: 'AuthenticationFailed' })
  t.equal(answer.headers['www-authenticate'], 'Bearer realm="token-auth"')
  const forged = [token.slice(0, -1), `${token}A`, `${token}=`, token.replace(/.$/, (last) => last === 'A' ? 'B' : 'A'), token.toLowerCase(), `B${token.slice(1)}`, ` ${token}`, 'x'.repeat(5000)]
  for (const sent of forged) assert.deepEqual((await refresh(app, sent)).json(), answer.json(), sent)
  t.same(store.taken(), [])
  for (const sent of [removed, ended]) {
    const refused = await refresh(app, sent)
    assert.deepEqual([refused.statusCode, refused.body, cookiesOf(refused)], [401, answer.body, []], sent)
  }
  t.same(store.taken(), ['end'], 'the session of a user who is gone ends; one that is known to have ended asks nobody')
  t.equal((await refresh(app, removed)).statusCode, 401)
})

t.test('refresh does not look at the access token: expired, foreign, malformed or none', async (t) => {
  const { app } = await withSessions(t)
  const { refresh_token: token } = await started(app)
  const headers = [{}, bearer(forge(claims({ exp: 1 }))), bearer(forge(claims({ user_id: 2 }))), bearer(forge(claims(), { key: otherSecret })), bearer('x'), { authorization: 'Basic x' }]
  for (const sent of headers) assert.equal((await refresh(app, token, sent)).statusCode, 200, JSON.stringify(sent))
  t.equal((await refresh(app)).statusCode, 400)
  t.same((await refresh(app)).json(), { reasons: 'Refresh token not present.', exception: 'MissingRefreshToken' })
  for (const wrong of [1, null, {}, ['x'], '']) assert.equal((await refresh(app, wrong)).statusCode, 400, caseOf(wrong))
})

// Promise: sessions/4-14-2-refresh
t.test('tokens of another issuer, audience or key refresh nothing', async (t) => {
  const { app } = await withSessions(t, { claimIss: 'here', claimAud: 'us' })
  const { refresh_token: token } = await started(app)
  t.equal((await refresh(app, token)).statusCode, 200)
  for (const other of [{ claimIss: 'there', claimAud: 'us' }, { claimIss: 'here', claimAud: 'them' }, { claimIss: 'here' }, { claimIss: 'here', claimAud: 'us', secret: otherSecret }]) {
    const { app: another, store } = await withSessions(t, other)
    assert.equal((await refresh(another, token)).statusCode, 401, caseOf(other))
    assert.deepEqual(store.taken(), [], caseOf(other))
  }
})

// Promise: sessions/7-4-5
// Promise: sessions/sessions-secret-stolen
// Promise: sessions/signing-key-stolen
t.test('keys of refresh tokens: the first signs, all verify, a dropped one does not; the key of access tokens is free to change', async (t) => {
  const [one, two] = ['one: 8f3aQm0Zs7LxPv2kTn6WcRb4', 'two: 5yJd1Hg9EuKt8Xa0VfMo3BqN'].map((text) => `${text} for tests`) as [string, string]
  const { app: before, store } = await withSessions(t, { sessions: { secret: one } })
  const { refresh_token: token } = await started(before)
  const sharing = async (secret: string | string[], options = {}) => (await withSessions(t, { sessions: { store, secret }, ...options })).app
  const both = await sharing([two, one])
  const other = await sharing([one, two])
  const renewed: Tokens = (await refresh(both, token)).json()
  t.equal((await refresh(other, token)).statusCode, 200)
  t.equal((await refresh(other, renewed.refresh_token)).statusCode, 200, 'whatever the order of the keys')
  const after = await sharing(two)
  t.equal((await refresh(after, renewed.refresh_token)).statusCode, 200)
  t.equal((await refresh(after, token)).statusCode, 401)
  const { app: derived } = await withSessions(t, { secret: undefined, ...keysFor('ES256') })
  const pair = await started(derived)
  t.equal((await refresh(derived, pair.refresh_token)).statusCode, 200, 'derived from a private key')
})

// Promise: sessions/2-1-revocation
// Promise: sessions/2-2-token
// Promise: sessions/4-14-2-refresh-tokens-revoked
t.test('logout takes a refresh token of any age, an access token, or both; what is not authentic is answered like what is', async (t) => {
  const at = now()
  const setTime = setClock(t, at)
  const { app, store } = await withSessions(t)
  const ends = async (act: (tokens: Tokens, old: string) => Promise<{ statusCode: number }>, status: number, isEnded: boolean) => {
    const tokens = await started(app)
    const { refresh_token: current } = (await refresh(app, tokens.refresh_token)).json()
    t.equal((await act({ ...tokens, refresh_token: current }, tokens.refresh_token)).statusCode, status)
    t.equal((await app.inject({ url: '/', headers: bearer(tokens.access_token) })).statusCode, isEnded ? 401 : 200)
  }
  await ends(({ refresh_token: token }) => logout(app, token), 204, true)
  await ends((_tokens, old) => logout(app, old), 204, true)
  await ends(({ access_token: token }) => logout(app, undefined, bearer(token)), 204, true)
  await ends(({ refresh_token: token, access_token: access }) => logout(app, token, bearer(access)), 204, true)
  await ends(({ refresh_token: token }) => logout(app, token, bearer('x')), 204, true)
  await ends(({ access_token: token }) => logout(app, 'forged', bearer(token)), 204, true)
  await ends(() => logout(app, 'forged'), 204, false)
  await ends(() => logout(app, 'forged', bearer('x')), 204, false)
  await ends(() => logout(app), 400, false)
  await ends(() => logout(app, undefined, bearer('x')), 401, false)
  await ends(() => logout(app, undefined, bearer(forge(claims()))), 204, false)
  await ends(async ({ refresh_token: token }) => { await logout(app, token); return await logout(app, token) }, 204, true)
  await ends(async ({ access_token: token }) => { await logout(app, undefined, bearer(token)); return await logout(app, undefined, bearer(token)) }, 204, true)
  const tokens = await started(app)
  setTime(at + 3000)
  const expired = await logout(app, undefined, bearer(tokens.access_token))
  t.equal(expired.statusCode, 401, 'an old access token from a log ends nothing')
  t.equal(expired.json().exception, 'TokenExpired')
  store.taken()
  t.equal((await refresh(app, tokens.refresh_token)).statusCode, 200)
})

// Promise: sessions/logout-during-refresh
t.test('a session can be ended while it is refreshed, and it has ended then', async (t) => {
  const { app, store } = await withSessions(t)
  const tokens = await started(app)
  let hold = () => {}
  const held = new Promise<void>((resolve) => { hold = resolve })
  store.before = async (method) => { if (method === 'advance') await held }
  const refreshing = refresh(app, tokens.refresh_token)
  t.equal((await logout(app, tokens.refresh_token)).statusCode, 204)
  hold()
  t.equal((await refreshing).statusCode, 401)
  t.equal((await refresh(app, tokens.refresh_token)).statusCode, 401)
})

t.test('in cookie mode login and refresh set both cookies, an unchanged token none, and logout clears all of them', async (t) => {
  for (const cookieSplit of [false, true]) {
    const { app, store } = await withSessions(t, { cookieSet: true, cookieSplit })
    const names = (fields: string[]) => fields.map((field) => field.split('=', 1)[0])
    const access = cookieSplit ? ['access_token', 'access_token_signature'] : ['access_token']
    const first = await login(app)
    assert.deepEqual(names(cookiesOf(first)), [...access, 'refresh_token'], caseOf(cookieSplit))
    const rotated = await refresh(app, undefined, jar(first))
    assert.equal(rotated.statusCode, 200, caseOf(cookieSplit))
    assert.deepEqual(names(cookiesOf(rotated)), [...access, 'refresh_token'], caseOf(cookieSplit))
    const repeated = await refresh(app, undefined, jar(rotated))
    assert.deepEqual(names(cookiesOf(repeated)), access, 'a slow answer must not overwrite what another tab was given')
    assert.equal(repeated.json().refresh_token, rotated.json().refresh_token, caseOf(cookieSplit))

    assert.equal((await refresh(app)).statusCode, 401, 'strict')
    assert.equal((await refresh(app)).json().exception, 'MissingAuthorizationCookie', caseOf(cookieSplit))
    store.fail(new Error('down'))
    const down = await logout(app, undefined, jar(rotated))
    assert.equal(down.statusCode, 503, caseOf(cookieSplit))
    store.fail(null)
    const done = await logout(app, undefined, jar(rotated))
    assert.equal(done.statusCode, 204, caseOf(cookieSplit))
    const none = await logout(app)
    assert.equal(none.statusCode, 204, 'a browser without cookies')
    for (const answer of [down, done, none]) {
      assert.deepEqual(cookiesOf(answer).sort(), ['access_token=', 'refresh_token=', ...(cookieSplit ? ['access_token_signature='] : [])].sort(), caseOf(cookieSplit, answer))
      for (const field of [answer.headers['set-cookie'] ?? []].flat()) assert.match(field, /Max-Age=0/, caseOf(cookieSplit, answer, field))
    }
    assert.equal((await app.inject({ url: '/', headers: jar(rotated) })).statusCode, 401, caseOf(cookieSplit))
  }
})

// Promise: sessions/7-2-4
t.test('a login over an old cookie ends the session of that cookie; a failure of that is only logged', async (t) => {
  const { app, store } = await withSessions(t, { cookieSet: true })
  const first = await login(app)
  const events = sessionEvents(t)
  const second = await app.inject({ method: 'POST', url: '/auth', headers: jar(first), payload: { username: 'grace', password: 'hopper' } })
  t.equal((await app.inject({ url: '/', headers: jar(first) })).statusCode, 401)
  t.match(events, [{ type: 'started', userId: 2 }, { type: 'ended', reason: 'replaced', userId: 1 }])
  store.fail(new Error('down'), ['end'])
  const third = await app.inject({ method: 'POST', url: '/auth', headers: jar(second), payload: { username: 'ada', password: 'lovelace' } })
  t.equal(third.statusCode, 200)
  t.equal((await app.inject({ url: '/', headers: jar(second) })).statusCode, 401, 'this process refuses it, and ends it later')
  const forged = await app.inject({ method: 'POST', url: '/auth', headers: { cookie: 'refresh_token=x' }, payload: { username: 'ada', password: 'lovelace' } })
  t.equal(forged.statusCode, 200)
})

// Promise: sessions/7-5-2
// Promise: sessions/refresh-token-stolen
t.test('a user lists the own sessions, with the current one marked and without tokens', async (t) => {
  const at = now()
  const setTime = setClock(t, at)
  const { app } = await withSessions(t, { sessions: { data: (request) => ({ device: String(request.headers['user-agent']) }) } })
  const phone = await started(app, 'ada', 'lovelace', { 'user-agent': 'phone' })
  setTime(at + 10)
  const laptop = await started(app, 'ada', 'lovelace', { 'user-agent': 'laptop' })
  await started(app, 'grace', 'hopper')
  setTime(at + 20)
  const answer = await app.inject({ url: '/auth/sessions', headers: bearer(phone.access_token) })
  t.equal(answer.statusCode, 200)
  t.ok(isNoStore(answer))
  const iso = (seconds: number) => new Date((at + seconds) * 1000).toISOString()
  t.same(answer.json(), {
    sessions: [
      { id: payloadOf(phone.access_token).sid, created_at: iso(0), used_at: iso(20), expires_at: iso(2_592_000), current: true, data: { device: 'phone' } },
      { id: payloadOf(laptop.access_token).sid, created_at: iso(10), used_at: iso(10), expires_at: iso(10 + 2_592_000), current: false, data: { device: 'laptop' } }
    ]
  }, 'of the current one, the time of the answer')
  t.notMatch(answer.body, phone.refresh_token)
  t.equal((await app.inject('/auth/sessions')).statusCode, 401)
  t.equal((await app.inject({ url: '/auth/sessions', headers: bearer('x') })).statusCode, 401)
  const others = await app.inject({ url: '/auth/sessions', headers: bearer(forge(claims())) })
  t.same(others.json().sessions.map(({ current }: { current: boolean }) => current), [false, false], 'from a token without a session')
})

t.test('list and delete need a valid token whatever doProtection says', async (t) => {
  warnings(t, 'W03')
  const { app } = await withSessions(t, { doProtection: false })
  for (const method of ['GET', 'DELETE'] as const) assert.equal((await app.inject({ method, url: '/auth/sessions' })).statusCode, 401, method)
  t.equal((await app.inject({ method: 'DELETE', url: '/auth/sessions/x' })).statusCode, 401)
})

// Promise: sessions/7-5-2
// Promise: sessions/id-session-known
// Promise: specification/sessionnotfound-2
t.test('a user ends one session of the own ones: that of another, or none, is not found', async (t) => {
  const { app } = await withSessions(t, { cookieSet: true, cookieStrict: false })
  const mine = await started(app)
  const other = await started(app)
  const grace = await started(app, 'grace', 'hopper')
  const end = (sid: unknown, token = mine.access_token) => app.inject({ method: 'DELETE', url: `/auth/sessions/${String(sid)}`, headers: bearer(token) })
  for (const sid of [payloadOf(grace.access_token).sid, 'x', 'A'.repeat(22), '__proto__']) {
    const answer = await end(sid)
    assert.equal(answer.statusCode, 404, caseOf(sid))
    assert.equal(answer.json().exception, 'SessionNotFound', caseOf(sid))
  }
  const events = sessionEvents(t)
  const ended = await end(payloadOf(other.access_token).sid)
  t.equal(ended.statusCode, 204)
  t.same(cookiesOf(ended), [], 'the own cookies stay')
  t.match(events, [{ type: 'ended', reason: 'user' }])
  t.equal((await app.inject({ url: '/', headers: bearer(other.access_token) })).statusCode, 401)
  const own = await end(payloadOf(mine.access_token).sid)
  t.equal(own.statusCode, 204)
  t.equal(cookiesOf(own).length, 2)
  t.equal((await end(payloadOf(mine.access_token).sid)).statusCode, 401)
})

// Promise: sessions/7-5-2
// Promise: sessions/access-token-stolen
t.test('a user ends all sessions, or all but the current one', async (t) => {
  const { app } = await withSessions(t, { cookieSet: true, cookieStrict: false })
  const [one, two, three] = [await started(app), await started(app), await started(app)]
  const grace = await started(app, 'grace', 'hopper')
  const end = (query: string, token: string) => app.inject({ method: 'DELETE', url: `/auth/sessions${query}`, headers: bearer(token) })
  const status = async ({ access_token: token }: Tokens) => (await app.inject({ url: '/', headers: bearer(token) })).statusCode
  for (const query of ['?except=other', '?except=', '?except=current&except=current', '?except[]=current', '?except%5B%5D=current', '?except[0]=current', '?except[a]=current', '?except.current', '?except=current&except[]=x', '?Except=current', '?%20except=current', '?except=Current', '?except=current%20']) {
    assert.equal((await end(query, one.access_token)).statusCode, 400, query)
  }
  t.equal((await end('?except=other', one.access_token)).json().message, 'querystring/except must be "current", or absent')
  const others = await end('?except=current', one.access_token)
  t.equal(others.statusCode, 204)
  t.same(cookiesOf(others), [])
  t.same([await status(one), await status(two), await status(three), await status(grace)], [200, 401, 401, 200])
  const unbound = await end('?except=current', forge(claims()))
  t.equal(unbound.statusCode, 204)
  t.same(cookiesOf(unbound), [], 'from a token without a session: all end, no cookie is cleared')
  t.equal(await status(one), 401)
  const last = await started(app)
  const all = await end('', last.access_token)
  t.equal(all.statusCode, 204)
  t.equal(cookiesOf(all).length, 2)
  t.same([await status(last), await status(grace)], [401, 200])
})

// Promise: sessions/handlers-fail-during
t.test('extendAuthenticate and extendRefresh extend the answers; extendRefresh runs before the rotation and gets the presented token', async (t) => {
  const seen: unknown[] = []
  class Hooks extends Responses {
    override extendAuthenticate (_request: unknown, context: object) { seen.push(context); return { hello: true } }
    override extendRefresh (_request: unknown, context: object) { seen.push(context); return { again: true } }
  }
  const { app } = await withSessions(t, { responsesClass: Hooks })
  const tokens: Tokens & { hello: boolean } = (await login(app)).json()
  t.equal(tokens.hello, true)
  const answer = await refresh(app, tokens.refresh_token)
  const { sid } = payloadOf(tokens.access_token)
  t.match(answer.json(), { again: true })
  t.match(seen, [
    { user: { user_id: 1 }, accessToken: tokens.access_token, refreshToken: tokens.refresh_token },
    { user: { user_id: 1 }, accessToken: answer.json().access_token, refreshToken: tokens.refresh_token, purportedToken: tokens.refresh_token, payload: { user_id: 1, sid } }
  ])
  t.strictSame(Reflect.get(Object(seen[1]), 'payload'), { user_id: 1, sid })
})

// Promise: specification/pathtologout-pathtosessions
t.test('pathToSessions null leaves the lists out; the other paths move', async (t) => {
  const { app } = await withSessions(t, { pathToSessions: null, pathToLogout: '/out' })
  const tokens = await started(app)
  t.equal((await app.inject({ url: '/auth/sessions', headers: bearer(tokens.access_token) })).statusCode, 404)
  t.equal((await app.inject({ method: 'POST', url: '/auth/out', payload: { refresh_token: tokens.refresh_token } })).statusCode, 204)
  const { app: moved } = await withSessions(t, { pathToSessions: '/devices' })
  const { access_token: token } = await started(moved)
  t.equal((await moved.inject({ url: '/auth/devices/', headers: bearer(token) })).statusCode, 200)
  t.equal((await moved.inject({ method: 'DELETE', url: `/auth/devices/${String(payloadOf(token).sid)}`, headers: bearer(token) })).statusCode, 204)
})

t.test('a logout in cookie mode ends the session of its refresh cookie and that of a valid access cookie, whoever planted either', async (t) => {
  const { app, store } = await withSessions(t, { cookieSet: true, cookieStrict: false })
  const out = (cookie: Record<string, string>, headers: Record<string, string> = {}) => app.inject({
    method: 'POST', url: '/auth/logout', headers: { cookie: Object.entries(cookie).map(([name, value]) => `${name}=${value}`).join('; '), ...headers }
  })
  const accepts = async ({ access_token: token }: Tokens) => (await app.inject({ url: '/', headers: { cookie: `access_token=${token}` } })).statusCode === 200
  const [victim, planted] = [await started(app), await started(app, 'grace', 'hopper')]
  const events = sessionEvents(t)
  store.taken()
  t.equal((await out({ access_token: victim.access_token, refresh_token: planted.refresh_token })).statusCode, 204)
  t.same([await accepts(victim), await accepts(planted)], [false, false])
  t.match(events, [{ type: 'ended', userId: 2 }, { type: 'ended', userId: 1 }])
  t.equal(events.length, 2)
  t.same(store.taken(), ['end', 'end'])

  const same = await started(app)
  store.taken()
  t.equal((await out({ ...same })).statusCode, 204)
  t.same(store.taken(), ['end'], 'one session is ended once')

  const others: [what: string, token: string][] = [['ended', victim.access_token], ['expired', forge(claims({ exp: 1 }))], ['forged', forge(claims(), { key: otherSecret })], ['malformed', 'x'], ['without a session', forge(claims())]]
  for (const [what, token] of others) {
    const { refresh_token: refreshToken } = await started(app)
    store.taken()
    assert.equal((await out({ access_token: token, refresh_token: refreshToken })).statusCode, 204, what)
    assert.deepEqual(store.taken(), ['end'], what)
  }

  const inHeader = await started(app)
  await out({ refresh_token: (await started(app)).refresh_token }, bearer(inHeader.access_token))
  t.ok(await accepts(inHeader), 'a token in the header is no cookie')

  const [one, other] = [await started(app), await started(app, 'grace', 'hopper')]
  let calls = 0
  store.instead = { end: () => { if (++calls === 1) throw new Error('down'); return [] } }
  t.equal((await out({ access_token: one.access_token, refresh_token: other.refresh_token })).statusCode, 503, 'one that fails is not hidden by the other')
  t.equal(calls, 2)
  store.instead = {}
})

t.test('a logout in header mode with a refresh token does not look at the access token', async (t) => {
  const { app, store } = await withSessions(t)
  const [one, other] = [await started(app), await started(app)]
  store.taken()
  const answer = await app.inject({ method: 'POST', url: '/auth/logout', headers: bearer(one.access_token), payload: { refresh_token: other.refresh_token } })
  t.equal(answer.statusCode, 204)
  t.same(store.taken(), ['end'])
})

t.test('a logout in cookie mode with a refresh cookie that came twice ends the sessions of both, for one may be planted', async (t) => {
  const { app, store } = await withSessions(t, { cookieSet: true })
  const planted = await started(app, 'grace', 'hopper')
  const out = async (cookie: string) => await app.inject({ method: 'POST', url: '/auth/logout', headers: { cookie, 'sec-fetch-site': 'same-origin' } })
  const isAlive = async ({ refresh_token: token }: Tokens) => (await refresh(app, token, { cookie: `refresh_token=${token}` })).statusCode === 200
  for (const access of ['', '; access_token=a', '; access_token=a; access_token=b']) {
    for (const isFirst of [true, false]) {
      const own = await started(app)
      const twins = [own.refresh_token, planted.refresh_token].map((token) => `refresh_token=${token}`)
      assert.equal((await out((isFirst ? twins : twins.toReversed()).join(' ; ') + access)).statusCode, 204, caseOf(access, isFirst))
      assert.equal(await isAlive(own), false, caseOf(access, isFirst))
    }
  }
  t.equal(await isAlive(planted), false)
  const many: string[] = []
  for (let count = 0; count < 10; count++) many.push((await started(app)).refresh_token)
  store.taken()
  await out([...many, ...many].map((token) => `refresh_token=${token}`).join('; '))
  t.same(store.taken(), Array(8).fill('end'), 'a limited number')
})

t.test('a logout in cookie mode takes the refresh token of its body where there is no cookie, and not in the place of cookies that came twice', async (t) => {
  const { app, store } = await withSessions(t, { cookieSet: true })
  const out = async (cookie: string, { refresh_token: refreshToken }: Tokens) => await app.inject({ method: 'POST', url: '/auth/logout', headers: { cookie, 'sec-fetch-site': 'same-origin' }, payload: { refresh_token: refreshToken } })
  const rejected = await started(app)
  store.taken()
  t.equal((await out('', rejected)).statusCode, 204)
  t.same(store.taken(), ['end'])
  const other = await started(app)
  store.taken()
  await out('refresh_token=a; refresh_token=b', other)
  t.same(store.taken(), [])
})
