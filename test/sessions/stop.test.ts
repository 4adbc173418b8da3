/** `sessions.stop`: a logout route of the host's own does what the endpoint does. */
import assert from 'node:assert/strict'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import type { TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, caseOf, claims, environment, forge, otherSecret, payloadOf, setMonotonicClock, together } from '../helper.ts'
import { cookiesOf, jar, refresh, sessionEvents, started, withSessions, type WatchedStore } from './helper.ts'

/** An application with a logout route of its own, beside the endpoint. */
async function withLogout (t: Test, options: Partial<TokenAuthOptions> = {}): Promise<{ app: FastifyInstance, store: WatchedStore }> {
  const found = await withSessions(t, options)
  const { app } = found
  app.post('/bye', async (request, reply) => ({ ended: await app.tokenAuth.sessions.stop(request, reply) }))
  app.post('/guarded/bye', { onRequest: app.tokenAuth.protect() }, async (request, reply) => {
    const ended = await app.tokenAuth.sessions.stop(request, reply)
    return { ended, userId: request.tokenAuth.userId }
  })
  return found
}

const bye = async (app: FastifyInstance, headers = {}, payload?: object, url = '/bye'): Promise<LightMyRequestResponse> =>
  await app.inject({ method: 'POST', url, headers, ...(payload !== undefined && { payload }) })

const login = async (app: FastifyInstance, headers = {}) =>
  await app.inject({ method: 'POST', url: '/auth', headers, payload: { username: 'ada', password: 'lovelace' } })
const isAlive = async (app: FastifyInstance, token: string) => (await refresh(app, token, { cookie: `refresh_token=${token}` })).statusCode === 200

// Promise: sessions/stop
t.test('in header mode, it ends the session of the refresh token in the body, and otherwise that of the access token', async (t) => {
  const { app, store } = await withLogout(t)
  const events = sessionEvents(t)
  const one = await started(app)
  const two = await started(app)
  t.same((await bye(app, bearer(one.access_token), { refresh_token: two.refresh_token })).json(), { ended: true })
  t.same([await isAlive(app, one.refresh_token), await isAlive(app, two.refresh_token)], [true, false])
  t.same((await bye(app, bearer(one.access_token))).json(), { ended: true })
  t.equal(await isAlive(app, one.refresh_token), false)
  t.same(events.filter(({ type }) => type === 'ended').map((event) => 'sessionId' in event && 'reason' in event && [event.sessionId, event.reason]), [two, one].map(({ access_token: token }) => [payloadOf(token).sid, 'logout']))
  store.taken()
  t.same((await bye(app, bearer(one.access_token), { refresh_token: two.refresh_token })).json(), { ended: false }, 'both have ended')
  t.same((await bye(app, bearer(one.access_token))).json(), { ended: false })
})

t.test('it is never a 401: without a token, with one that is forged, expired, foreign or without a session, it is false', async (t) => {
  for (const cookieSet of [false, true]) {
    const { app, store } = await withLogout(t, { cookieSet })
    const send = (accessToken?: string, refreshToken?: string) => cookieSet
      ? bye(app, { cookie: [accessToken && `access_token=${accessToken}`, refreshToken && `refresh_token=${refreshToken}`].filter(Boolean).join('; ') })
      : bye(app, accessToken === undefined ? {} : bearer(accessToken), refreshToken === undefined ? undefined : { refresh_token: refreshToken })
    const tokens: Array<[(string | undefined)?, string?]> = [
      [], ['x'], ['a.b.c'], [forge(claims({ exp: 1 }))], [forge(claims(), { key: otherSecret })], [forge(claims())],
      [undefined, 'x'], [undefined, 'A'.repeat(60)], ['x', 'x'], [forge(claims()), 'x'], [undefined, 'A'.repeat(5000)]
    ]
    for (const pair of tokens) {
      const answer = await send(...pair)
      assert.deepEqual([answer.statusCode, answer.json()], [200, { ended: false }], caseOf(cookieSet, pair))
      assert.equal(cookiesOf(answer).length, cookieSet ? 2 : 0)
    }
    assert.deepEqual(store.taken(), [])
    assert.deepEqual((await bye(app, {}, { refresh_token: 5 })).json(), { ended: false })
    assert.deepEqual((await app.inject({ method: 'POST', url: '/bye', headers: { 'content-type': 'application/json' }, payload: 'null' })).json(), { ended: false })
  }
})

t.test('in cookie mode, both sessions of a request end, and it clears and sets what the endpoint does', async (t) => {
  const { app } = await withLogout(t, { cookieSet: true, cookieSplit: true, cookieDomain: 'app.example' })
  const own = await login(app)
  const planted = await login(app)
  const mixed = { cookie: [...cookiesOf(own).filter((cookie) => !cookie.startsWith('refresh_token')), ...cookiesOf(planted).filter((cookie) => cookie.startsWith('refresh_token'))].join('; '), host: 'app.example' }
  const byEndpoint = await app.inject({ method: 'POST', url: '/auth/logout', headers: mixed })
  const [again, other] = [await login(app), await login(app)]
  const mixedAgain = { cookie: mixed.cookie.replace(/.*/, [...cookiesOf(again).filter((cookie) => !cookie.startsWith('refresh_token')), ...cookiesOf(other).filter((cookie) => cookie.startsWith('refresh_token'))].join('; ')), host: 'app.example' }
  const byRoute = await bye(app, mixedAgain)
  t.same(byRoute.json(), { ended: true })
  for (const name of ['set-cookie', 'clear-site-data', 'cache-control']) t.same(byRoute.headers[name], byEndpoint.headers[name], name)
  t.ok(byRoute.headers['set-cookie']!.length > 2, 'also in the forms that cookies may have from earlier settings')
  for (const { access_token: token } of [again.json(), other.json()]) assert.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 401)
  t.same((await bye(app, mixedAgain)).json(), { ended: false })
})

t.test('a page of another origin ends nothing: 403, and the cookies stay', async (t) => {
  const { app, store } = await withLogout(t, { cookieSet: true })
  const cookies = jar(await login(app))
  store.taken()
  for (const headers of [{ origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site', origin: 'https://a.example' }]) {
    const answer = await bye(app, { ...cookies, ...headers })
    assert.deepEqual([answer.statusCode, answer.json().code, cookiesOf(answer)], [403, 'TOKEN_AUTH_CROSS_ORIGIN_REQUEST', []], caseOf(headers))
  }
  t.same(store.taken(), [])
  t.same((await bye(app, { ...cookies, 'sec-fetch-site': 'same-origin' })).json(), { ended: true })
})

t.test('while the store is away it rejects with 503, clears the cookies, and the session ends here at once and there later', async (t) => {
  const { app, store } = await withLogout(t, { cookieSet: true })
  const answer = await login(app)
  const cookies = jar(answer)
  store.fail(new Error('down'))
  const away = await bye(app, cookies)
  t.match([away.statusCode, away.json().code, away.headers['retry-after']], [503, 'TOKEN_AUTH_SESSION_STORE_UNAVAILABLE', '5'])
  t.same(cookiesOf(away), ['access_token=', 'refresh_token='])
  t.equal((await app.inject({ url: '/', headers: cookies })).statusCode, 401)
  t.equal((await bye(app, { cookie: `access_token=${answer.json().access_token}` })).statusCode, 503, 'it has ended for this process only')
  store.fail(null)
  t.same((await bye(app, { cookie: `access_token=${answer.json().access_token}` })).json(), { ended: false }, 'it ended by the retry')
  t.equal(await isAlive(app, answer.json().refresh_token), false)
})

t.test('where guards respond with 503 because the ended sessions are not known, so does a logout by access token', async (t) => {
  const setPassed = setMonotonicClock(t)
  const { app } = await withLogout(t, { sessions: { poll: 5, refuseAfter: 10 } })
  await app.ready()
  const { access_token: accessToken, refresh_token: refreshToken } = await started(app)
  setPassed(10_001)
  for (const url of ['/bye', '/auth/logout']) assert.equal((await bye(app, bearer(accessToken), undefined, url)).statusCode, 503, url)
  t.same((await bye(app, bearer(accessToken), { refresh_token: refreshToken })).json(), { ended: true })
})

t.test('the handler trusted is not asked, and what the guard of the route has found stays', async (t) => {
  let asked = 0
  const { app } = await withLogout(t, { trusted: () => { asked++; return asked < 2 } })
  const { access_token: accessToken } = await started(app)
  t.same((await bye(app, bearer(accessToken), undefined, '/guarded/bye')).json(), { ended: true, userId: 1 })
  t.equal(asked, 1)
  const other = await started(app)
  t.same((await bye(app, bearer(other.access_token))).json(), { ended: true })
  t.equal(asked, 1)
})

t.test('a request that a guard has renewed loses its new cookies, too', async (t) => {
  const { app } = await withLogout(t, { cookieSet: true })
  app.post('/renewed/bye', { onRequest: app.tokenAuth.protect({ renew: true }) }, async (request, reply) => ({ ended: await app.tokenAuth.sessions.stop(request, reply) }))
  const refreshToken = (await login(app)).json().refresh_token
  const answer = await bye(app, { cookie: `refresh_token=${refreshToken}` }, undefined, '/renewed/bye')
  t.same(answer.json(), { ended: true })
  t.same(cookiesOf(answer), ['access_token=', 'refresh_token='])
  t.equal(await isAlive(app, refreshToken), false)
})

t.test('each of several instances ends its own sessions', async (t) => {
  const { app } = await withLogout(t, { cookieSet: true })
  await app.register(async (scope) => {
    const { default: tokenAuth } = await import('../../lib/index.ts')
    await scope.register(tokenAuth, together({ secret: otherSecret, authenticate: () => ({ user_id: 7 }), sessions: {}, cookieSet: true, instanceName: 'staff', urlPrefix: '/staff', cookieAccessTokenName: 'staff_access', cookieRefreshTokenName: 'staff_refresh' }))
    scope.post('/staff/bye', async (request, reply) => ({ ended: await scope.staff.sessions.stop(request, reply) }))
  })
  const one = await login(app)
  const staff = await app.inject({ method: 'POST', url: '/staff', payload: {} })
  const both = { cookie: [...cookiesOf(one), ...cookiesOf(staff)].join('; ') }
  const answer = await bye(app, both, undefined, '/staff/bye')
  t.same([answer.json(), cookiesOf(answer)], [{ ended: true }, ['staff_access=', 'staff_refresh=']])
  t.equal(await isAlive(app, one.json().refresh_token), true)
})

t.test('without sessions, or where another service issues the tokens, it is a configuration error', async (t) => {
  environment(t, 'test')
  const { memorySessions } = await import('../../lib/index.ts')
  for (const options of [{}, { authMode: false, sessions: { store: memorySessions() } }]) {
    const app = await build(t, together(options))
    app.post('/bye', async (request, reply) => await app.tokenAuth.sessions.stop(request, reply))
    const answer = await bye(app)
    assert.equal(answer.statusCode, 500)
    assert.match(answer.json().message, /^sessions\.stop\(\) needs the option "sessions" and "authMode": true\./)
  }
})
