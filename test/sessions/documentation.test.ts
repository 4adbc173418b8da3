// @slow
/** docs/sessions.md and docs/sessions-reference.md: their examples run and do what the pages say of them, and so does what is said of failures. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import type { FastifyInstance, InjectOptions } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { memorySessions, type SessionStore } from '../../lib/index.ts'
import { authenticate, bearer, host, mistyped, payloadOf, secret, setClock, users } from '../helper.ts'
import { programsIn, programWith, run } from '../programs.ts'
import { logout, refresh, sessionEvents, started, WatchedStore, withSessions } from './helper.ts'

const read = (name: string) => readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8')
const reference = read('sessions-reference')
const programs = [...programsIn(read('sessions')), ...programsIn(reference)]
const noon = 1_800_000_000

/** Names that the examples do not declare. */
function given (t: Test, app: FastifyInstance) {
  const none = async () => {}
  return {
    app,
    tokenAuth,
    secret,
    authenticate,
    memorySessions,
    // Stores have a page of their own, whose examples use real clients.
    client: null,
    redisSessions: () => memorySessions(),
    retrieveUser: (_request: unknown, payload: { user_id: number }) => users.find((user) => user.user_id === payload.user_id),
    sessionSecret: `${secret} of sessions`,
    handler: async () => 'reached',
    logIn: async () => users[0],
    changePassword: none,
    disableUser: none,
    alarm: none,
    // Each of them is removed when the test ends.
    subscribe: (name: string, listener: (message: unknown) => void) => {
      subscribe(name, listener)
      t.teardown(() => unsubscribe(name, listener))
    }
  }
}

/** An application with sessions, as the examples expect it. */
async function exampleHost (t: Test): Promise<FastifyInstance> {
  const app = host(t)
  await app.register(tokenAuth, { secret, authenticate, sessions: {}, scopesEnabled: true, addScopesToPayload: () => ['admin'] })
  return app
}

const statusOf = async (app: FastifyInstance, request: InjectOptions) => (await app.inject(request)).statusCode

t.test('every JavaScript example of the pages runs', async (t) => {
  t.ok(programs.length >= 8)
  for (const program of programs) {
    const app = program.includes('register(tokenAuth') ? host(t) : await exampleHost(t)
    await t.resolves(run(program, given(t, app)), program)
    await t.resolves(async () => { await app.ready() }, program)
  }
})

t.test('the first example gives sessions: a login, refreshes, a logout', async (t) => {
  const app = host(t)
  await run(programWith(programs, 'sessions: {} '), given(t, app))
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const first = await started(app)
  const second = (await refresh(app, first.refresh_token)).json()
  t.equal((await logout(app, second.refresh_token)).statusCode, 204)
  t.equal(await statusOf(app, { url: '/', headers: bearer(second.access_token) }), 401)
})

t.test('the example of what a login says keeps it in the tokens of refreshes, and in their cookies', async (t) => {
  const app = host(t)
  await run(programWith(programs, 'tenant: Object(request.body).tenant'), given(t, app))
  for (const remember of [true, false]) {
    const payload = { username: 'ada', password: 'lovelace', remember, tenant: 'blue' }
    let answer = await app.inject({ method: 'POST', url: '/auth', payload })
    for (let refreshes = 0; refreshes < 2; refreshes++) {
      const cookies = Object.fromEntries(answer.cookies.map(({ name, value }) => [name, value]))
      t.equal((await app.inject({ url: '/tenant', cookies })).payload, 'blue')
      t.match(payloadOf(String(cookies.access_token)), { amr: ['pwd'], tenant: 'blue' })
      t.same(answer.cookies.map(({ maxAge }) => maxAge), remember ? [2_592_000, 2_592_000] : [undefined, undefined])
      answer = await app.inject({ method: 'POST', url: '/auth/refresh', cookies })
    }
  }
})

t.test('the second example: who wants to be remembered has a longer session, and the list shows the device', async (t) => {
  const app = host(t)
  await run(programWith(programs, '"remember me"'), given(t, app))
  const days: number[] = []
  for (const remember of [true, false]) {
    const payload = { username: 'ada', password: 'lovelace', remember }
    const login = await app.inject({ method: 'POST', url: '/auth', headers: { 'user-agent': 'Firefox'.repeat(100) }, payload })
    const cookies = Object.fromEntries(login.cookies.map(({ name, value }) => [name, value]))
    const { sessions } = (await app.inject({ url: '/auth/sessions', cookies })).json()
    const own = sessions.find((session: { current: boolean }) => session.current)
    days.push((Date.parse(own.expires_at) - Date.parse(own.created_at)) / 86_400_000)
    t.same(own.data, { device: 'Firefox'.repeat(100).slice(0, 300) })
  }
  t.same(days, [90, 1])
})

t.test('browsers keep its cookies over a refresh, and the service ends the session of those who are not remembered', async (t) => {
  const setTime = setClock(t, noon)
  const app = host(t)
  await run(programWith(programs, '"remember me"'), given(t, app))
  const agesOf = ({ cookies }: { cookies: Array<{ name: string, maxAge?: number }> }) => cookies.map(({ name, maxAge }) => [name, maxAge])
  const keptFor = (seconds: number | undefined) => [['access_token', seconds], ['refresh_token', seconds]]
  for (const [remember, status] of [[true, 200], [false, 401]] as const) {
    const kept = keptFor(remember ? 90 * 86_400 : undefined)
    setTime(noon)
    const login = await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace', remember } })
    t.same(agesOf(login), kept)
    const refreshed = async (cookies: Array<{ name: string, value: string }>) => await app.inject({
      method: 'POST', url: '/auth/refresh', cookies: Object.fromEntries(cookies.map(({ name, value }) => [name, value]))
    })
    setTime(noon + 3600)
    const first = await refreshed(login.cookies)
    t.same(agesOf(first), kept)
    setTime(noon + 86_401)
    t.equal((await refreshed(first.cookies)).statusCode, status)
  }
})

t.test('the list of sessions has the form that the page shows', async (t) => {
  const [, text = ''] = /```json\n([\s\S]*?)```/.exec(reference) ?? []
  const app = await exampleHost(t)
  const { access_token: token } = await started(app)
  const typesOf = (body: { sessions: object[] }) => body.sessions.map((session) => Object.entries(session).map(([name, value]) => [name, typeof value]))
  t.same(typesOf(JSON.parse(text)), typesOf((await app.inject({ url: '/auth/sessions', headers: bearer(token) })).json()))
  const [{ id }] = JSON.parse(text).sessions
  t.match(id, /^[\w-]{22}$/)
})

// Promise: sessions/4-14-2-refresh-tokens-revoked
// Promise: sessions/7-4-2
// Promise: sessions/7-4-3
// Promise: sessions/7-4-5
// Promise: sessions/user-deleted-disabled
// Promise: specification/sessions-2
t.test('the examples of your own code: a login, a changed password, a disabled user', async (t) => {
  const app = await exampleHost(t)
  for (const text of ["app.post('/callback'", "app.post('/password'"]) await run(programWith(programs, text), given(t, app))
  const others = await Promise.all([started(app), started(app)])
  const own = (await app.inject({ method: 'POST', url: '/callback' })).json()
  t.same(Object.keys(own), ['access_token', 'refresh_token'])
  const changed = await app.inject({ method: 'POST', url: '/password', headers: bearer(own.access_token), payload: {} })
  t.same(changed.json(), { ended: 2 })
  for (const { refresh_token: token } of others) t.equal((await refresh(app, token)).statusCode, 401)
  t.equal((await refresh(app, own.refresh_token)).statusCode, 200)

  const grace = await started(app, 'grace', 'hopper')
  t.equal(await statusOf(app, { method: 'POST', url: '/users/2/disable', headers: bearer(own.access_token) }), 204)
  t.equal(await statusOf(app, { url: '/auth/me', headers: bearer(grace.access_token) }), 401)
  t.equal(await statusOf(app, { url: '/auth/me', headers: bearer(own.access_token) }), 200, 'another user')
})

// Promise: sessions/4-14-2
t.test('the example of events alarms where a token was stolen, and not where an answer was lost', async (t) => {
  const setTime = setClock(t, noon)
  const app = await exampleHost(t)
  const alarms: string[] = []
  await run(programWith(programs, 'subscribe('), { ...given(t, app), alarm: (text: string) => { alarms.push(text) } })
  const events = sessionEvents(t)
  for (const rotations of [1, 2]) {
    const { refresh_token: retired } = await started(app)
    let current = retired
    for (let count = 1; count <= rotations; count++) {
      setTime(noon + 1000 * count)
      current = (await refresh(app, current)).json().refresh_token
    }
    setTime(noon + 5000)
    const status = rotations === 1 ? 200 : 401
    t.equal((await refresh(app, retired)).statusCode, status)
    t.equal((await refresh(app, current)).statusCode, status)
    t.equal(alarms.length, rotations - 1)
    setTime(noon)
  }
  t.match(alarms, [/^A stolen refresh token of user 1 was used in session [\w-]{22}\.$/])
  t.same(events.filter(({ type }) => type === 'reused').map((event) => Reflect.get(event, 'behind')), [2])
})

t.test('an instance that only verifies refuses the tokens of ended sessions, by the store that it shares', async (t) => {
  const app = host(t)
  await run(programWith(programs, "instanceName: 'pages'"), given(t, app))
  const { access_token: token, refresh_token: refreshToken } = await started(app)
  t.equal(await statusOf(app, { url: '/page', headers: bearer(token) }), 200)
  await logout(app, refreshToken)
  t.match((await app.inject({ url: '/page', headers: bearer(token) })).json(), { exception: 'SessionEnded' })
})

// Promise: sessions/2-2-1
// Promise: sessions/store-down-login
// Promise: sessions/store-down-logout
t.test('while a store is down, all endpoints of sessions answer 503 and say when to try again; nothing is issued, rotated or ended', async (t) => {
  const { app, store } = await withSessions(t, { cookieSet: true, cookieStrict: false })
  const { access_token: token, refresh_token: refreshToken } = await started(app)
  const { sid } = payloadOf(token)
  const requests: Record<string, InjectOptions> = {
    login: { method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } },
    refresh: { method: 'POST', url: '/auth/refresh', payload: { refresh_token: refreshToken } },
    list: { url: '/auth/sessions', headers: bearer(token) },
    'end one': { method: 'DELETE', url: `/auth/sessions/${String(sid)}`, headers: bearer(token) },
    'end all': { method: 'DELETE', url: '/auth/sessions', headers: bearer(token) },
    logout: { method: 'POST', url: '/auth/logout', payload: { refresh_token: (await started(app, 'grace', 'hopper')).refresh_token } }
  }
  // An error with a status of its own would tell a client to throw its tokens away.
  store.fail(Object.assign(new Error('down'), { statusCode: 401 }))
  for (const [name, request] of Object.entries(requests)) {
    const answer = await app.inject(request)
    t.equal(answer.statusCode, 503, name)
    t.equal(answer.headers['retry-after'], '5', name)
    t.match(answer.json(), { exception: 'SessionStoreUnavailable' }, name)
    const cookies = [answer.headers['set-cookie'] ?? []].flat()
    t.equal(cookies.length, name === 'logout' ? 2 : 0, name)
    t.ok(cookies.every((cookie) => cookie.includes('Max-Age=0')), `${name}: this browser is logged out`)
  }
  t.equal(await statusOf(app, { url: '/', headers: bearer(token) }), 200, 'a guard asks no store')
  store.fail(null)
  t.equal((await app.tokenAuth.sessions.list(1)).length, 1)
  t.equal((await refresh(app, refreshToken)).statusCode, 200)
})

// Promise: sessions/7-4-1
// Promise: sessions/store-down-ended
t.test('while the ended sessions cannot be read, guards go on, or answer 503 after refuseAfter; what the process ends itself it knows', async (t) => {
  const start = performance.now()
  let passed = 0
  t.intercept(performance, 'now', { value: () => start + passed })
  for (const [refuseAfter, status] of [[null, 200], [10, 503]] as const) {
    passed = 0
    const { app, store } = await withSessions(t, { sessions: { refuseAfter } })
    await app.ready()
    const { access_token: token } = await started(app)
    const { access_token: other, refresh_token: refreshToken } = await started(app)
    store.fail(new Error('down'), ['endedSince'])
    const get = async (sent: string) => await statusOf(app, { url: '/', headers: bearer(sent) })
    passed = 9_999
    t.equal(await get(token), 200)
    passed = 10_001
    t.equal(await get(token), status)
    await logout(app, refreshToken)
    t.equal(await get(other), 401)
  }
})

// Promise: sessions/somebody-reads-store
t.test('nothing that a store is given is enough to log in: no token, no secret', async (t) => {
  const texts: string[] = []
  const store = new WatchedStore()
  const watched = new Proxy(store, {
    get: (target, name: keyof SessionStore) => async (...parameters: never[]) => {
      texts.push(JSON.stringify(parameters))
      return await Reflect.apply(target[name], target, parameters)
    }
  })
  const { app } = await withSessions(t, { sessions: { store: watched } })
  const first = await started(app)
  const second = (await refresh(app, first.refresh_token)).json()
  await app.inject({ url: '/auth/sessions', headers: bearer(first.access_token) })
  await logout(app, second.refresh_token)
  t.ok(texts.length >= 4)
  const text = texts.join('\n')
  for (const token of [first, second].flatMap((tokens) => Object.values<string>(tokens)).flatMap((token) => token.split('.'))) {
    t.notOk(text.includes(token) || text.includes(token.slice(-21)))
  }
  t.notOk(text.includes(secret))
})

// Promise: sessions/process-ends-sessions
t.test('sessions in memory end with the process: refresh tokens are refused afterwards, and access tokens are accepted until they expire', async (t) => {
  const { app } = await withSessions(t)
  const tokens = await started(app)
  await app.close()
  const { app: next } = await withSessions(t)
  t.equal((await refresh(next, tokens.refresh_token)).statusCode, 401)
  t.equal(await statusOf(next, { url: '/', headers: bearer(tokens.access_token) }), 200)
})

// Promise: sessions/7-4-2
// Promise: sessions/handlers-fail-during
// Promise: sessions/user-deleted-disabled
t.test('a user who is gone loses the session at the next refresh; while nobody can tell, nothing ends', async (t) => {
  let retrieveUser: () => object | null = () => { throw new Error('The database is down.') }
  const { app } = await withSessions(t, { retrieveUser: () => mistyped(retrieveUser()) })
  const { access_token: token, refresh_token: refreshToken } = await started(app)
  const events = sessionEvents(t)
  t.equal((await refresh(app, refreshToken)).statusCode, 500)
  t.same(events, [])
  t.equal(await statusOf(app, { url: '/', headers: bearer(token) }), 200)
  retrieveUser = () => null
  t.equal((await refresh(app, refreshToken)).statusCode, 401)
  t.match(events, [{ type: 'ended', reason: 'no-user', userId: 1 }])
  t.equal(await statusOf(app, { url: '/', headers: bearer(token) }), 401)
})

t.test('the table of endpoints has every endpoint that sessions add or change', async (t) => {
  const app = host(t)
  const routes = new Set<string>()
  app.addHook('onRoute', ({ method, url }) => { if (String(method) !== 'HEAD') routes.add(`${String(method)} ${url}`) })
  await app.register(tokenAuth, { secret, authenticate, sessions: {}, strictSlashes: true })
  const [, section = ''] = /^## Endpoints\n([\s\S]*?)^## /m.exec(reference) ?? []
  const listed = [...section.matchAll(/^\| `((?:GET|POST|DELETE) [^` ]+)`/gm)].map(([, endpoint = '']) => endpoint)
  t.same([...listed, 'GET /auth/me', 'GET /auth/verify'].sort(), [...routes].sort())
})

t.test('the figures of the simulation are those that it computes', async (t) => {
  interface Hours { median: number, most: number }
  interface Figures { name: string, logouts: number, using: Hours, silent: Hours }
  const { simulate }: { simulate (): Figures[] } = await import(new URL('../../scripts/simulate.js', import.meta.url).href)
  const figures = simulate()
  const shown = ({ median, most }: Hours) => `${median.toFixed(2)} h, at most ${most.toFixed(1)} h`
  for (const { name, logouts, using, silent } of figures) {
    t.match(read('evidence/sessions'), `| ${name} | ${logouts.toLocaleString('en')} | ${shown(using)} | ${shown(silent)} |`)
  }
  t.match(figures.at(-1), { name: 'this package', logouts: 0 })
})
