/** What the log, the event and `debug` say of a refresh that is refused. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import type { RefusedEvent, TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, caseOf, claims, forge, leaksIn, login, otherSecret, payloadOf, refreshStore, together, users } from '../helper.ts'
import { WatchedStore } from './helper.ts'

interface Line { level: number, msg: string, reason?: string, instanceName?: string }

/** The lines of a log at the level `info`; `taken` leaves out those of Fastify about requests and responses. */
function logged () {
  const text: string[] = []
  const server = { logger: { level: 'info', stream: { write: (line: string) => { text.push(line) } } } }
  const taken = (): Line[] => text.splice(0).map((line): Line => JSON.parse(line)).filter(({ msg }) => !/^(incoming request|request completed)$/.test(msg))
  return { server, text, taken }
}

function refusedEvents (t: Test): () => RefusedEvent[] {
  const events: RefusedEvent[] = []
  const listener = (message: unknown) => { events.push(message as RefusedEvent) }
  subscribe('fastify-token-auth:refused', listener)
  t.teardown(() => { unsubscribe('fastify-token-auth:refused', listener) })
  return () => events.splice(0)
}

interface Case {
  what: string
  /** Of the instance that gets the refresh. */
  options?: Partial<TokenAuthOptions>
  /** Changes the refresh token. */
  sent?: (refreshToken: string, accessToken: string) => string
  before?: (app: FastifyInstance, refreshToken: string, accessToken: string) => Promise<unknown>
  reason: RegExp
  level?: 40
}

const send = async (app: FastifyInstance, refreshToken: string, headers = {}): Promise<LightMyRequestResponse> =>
  await app.inject({ method: 'POST', url: '/auth/refresh', headers, payload: { refresh_token: refreshToken } })

const both: Case[] = [
  { what: 'nobody', options: { retrieveUser: () => null }, reason: /^the handler "retrieveUser" found nobody/ },
  { what: 'another id', options: { retrieveUser: () => users[1] }, reason: /^the handler "retrieveUser" returned another user$/, level: 40 },
  { what: 'an id of another type', options: { retrieveUser: () => ({ ...users[0], user_id: '1' }) }, reason: /^the user id of the login .+ is a number, such as 42, and that of the handler "retrieveUser" is text.+ two users/, level: 40 }
]
const ofSessions: Case[] = [
  ...both,
  { what: 'cut', sent: (token) => token.slice(0, -3), reason: /^the text is no refresh token of sessions: it was cut or changed/ },
  { what: 'an access token', sent: (_token, accessToken) => accessToken, reason: /^the text is no refresh token of sessions/ },
  { what: 'too long', sent: () => 'A'.repeat(5000), reason: /^the text is no refresh token of sessions/ },
  { what: 'of version 1', sent: (token) => `AQ${token.slice(2)}`, reason: /^the text is no refresh token of sessions/ },
  { what: 'of another key', options: { sessions: { secret: otherSecret } }, reason: /^the refresh token was made with another key, issuer, audience or "userId", or was changed$/ },
  { what: 'of another audience', options: { claimAud: 'b' }, reason: /another key, issuer, audience/ },
  { what: 'changed', sent: (token) => `${token.slice(0, -4)}AAAA`, reason: /another key, issuer, audience .+ or was changed$/ },
  { what: 'ended', before: async (app, token) => await app.inject({ method: 'POST', url: '/auth/logout', payload: { refresh_token: token } }), reason: /^the session of the refresh token has ended$/ },
  { what: 'unknown', options: { sessions: { store: new WatchedStore() } }, reason: /^the store does not know the session of the refresh token: it has expired or ended, or is in another store$/ },
  { what: 'replaced', options: { sessions: { grace: 0 } }, before: async (app, token) => await send(app, token), reason: /^the refresh token was replaced and used again, so its session has ended$/ },
  { what: 'with a claim that is taken', options: { customClaims: [{ key: 'amr', setup: () => 'x', verify: () => true }] }, reason: /^a claim of the login now has the name of another claim/ }
]

// Promise: sessions/refused-refreshes
t.test('with sessions, a refresh that is refused is one line at info, or warn where handlers contradict each other, with a reason that the event has, too; never a part of a token', async (t) => {
  const events = refusedEvents(t)
  for (const { what, options = {}, sent = (token: string) => token, before, reason, level = 30 } of ofSessions) {
    const store = new WatchedStore()
    const common = { retrieveUser: async () => users[0], debug: true }
    const { access_token: accessToken, refresh_token: refreshToken } = (await login(await build(t, together(common, { sessions: { store, login: () => ({ claims: { amr: ['pwd'] } }) } })))).json()
    const { server, text, taken } = logged()
    const app = await build(t, together(common, options, { sessions: { store, ...Object(options.sessions) } }), server)
    await before?.(app, refreshToken, accessToken)
    taken()
    events()
    // The first refusal may remember the session, and the second must say the same.
    for (const time of [1, 2]) {
      const answer = await send(app, sent(refreshToken, accessToken))
      const lines = text.map((line) => JSON.parse(line)).filter(({ msg }: Line) => msg === 'A refresh was refused.')
      t.equal(answer.statusCode, 401, caseOf(what, time))
      if (time === 2 && ['nobody', 'replaced'].includes(what)) {
        t.match(taken(), [{ reason: /has ended$/ }], 'it has ended meanwhile')
        continue
      }
      t.equal(lines.length, 1, caseOf(what, time))
      t.match(lines, [{ level, instanceName: 'tokenAuth', reason }], caseOf(what, time))
      t.match(events(), [{ reason, error: { name: 'AuthenticationFailed' } }])
      t.match(answer.json().detail, /\(refresh token found in the body\)$/)
      t.equal(answer.json().detail, `${lines[0].reason} (refresh token found in the body)`)
      for (const part of [refreshToken, accessToken]) t.notOk(text.join('').includes(part.slice(0, 20)))
      t.same(leaksIn(text), [])
      taken()
    }
  }
})

const ofHandlers: Case[] = [
  ...both,
  { what: 'none', options: { retrieveRefreshToken: () => null }, reason: /^the handler "retrieveRefreshToken" found no refresh token of the user$/ },
  { what: 'another', sent: () => 'another', reason: /^the refresh token is not the one that the handler "retrieveRefreshToken" returned$/ },
  { what: 'an access token of another key', options: { secret: otherSecret }, reason: /^the access token: / }
]

// Promise: sessions/refused-refreshes
t.test('without sessions, it is the same', async (t) => {
  const events = refusedEvents(t)
  for (const { what, options = {}, sent = (token: string) => token, reason, level = 30 } of ofHandlers) {
    const { stored, ...handlers } = refreshStore()
    const common = { ...handlers, retrieveUser: async () => users[0], debug: true }
    const { access_token: accessToken, refresh_token: refreshToken } = (await login(await build(t, common))).json()
    t.equal(stored.size, 1)
    const { server, text, taken } = logged()
    const app = await build(t, together(common, options), server)
    const answer = await send(app, sent(refreshToken, accessToken), bearer(accessToken))
    t.equal(answer.statusCode, 401, what)
    t.same(leaksIn(text), [])
    t.notOk(text.join('').includes(refreshToken))
    t.match(taken(), [{ level, reason, msg: 'A refresh was refused.' }], what)
    t.match(events().map((event) => `the access token: ${event.reason}`), [/./], what)
    if (options.secret === undefined) t.match(answer.json().detail, /\(refresh token found in the body\)$/)
  }
  const { stored, ...handlers } = refreshStore()
  const { server, taken } = logged()
  const app = await build(t, handlers, server)
  t.equal((await send(app, 'x')).statusCode, 401)
  t.match(taken(), [{ level: 30, reason: 'the access token: Authorization header not present.' }])
  t.equal(stored.size, 0)
})

t.test('a page that is not renewed, because its refresh token is refused, is one such line', async (t) => {
  const { server, text, taken } = logged()
  const store = new WatchedStore()
  let user: object | null = users[0]!
  const app = await build(t, { cookieSet: true, cookieMaxAge: 1000, loginRedirectUrl: '/login', sessions: { store }, retrieveUser: () => user }, server)
  app.get('/page', { onRequest: app.tokenAuth.protect({ redirectOnFail: true }) }, async () => 'page')
  const cookies = [await login(app)].flatMap(({ headers }) => headers['set-cookie'] ?? [])
  const [access = '', refreshToken = ''] = cookies.map((field) => field.split(';', 1)[0]!.split('=')[1])
  const ask = async (refresh: string) => await app.inject({ url: '/page', headers: { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', 'sec-fetch-site': 'none', cookie: `access_token=${forge({ ...payloadOf(access), exp: 1 })}; refresh_token=${refresh}` } })
  taken()
  for (const [given, refresh, reason, level] of [
    [users[0], 'x', /^the text is no refresh token/, 30],
    [users[1], refreshToken, /another user$/, 40],
    [null, refreshToken, /found nobody/, 30],
    [null, refreshToken, /has ended$/, 30]
  ] as const) {
    user = given ?? null
    t.equal((await ask(refresh)).statusCode, 302)
    t.same(leaksIn(text), [])
    t.match(taken().filter(({ msg }) => msg === 'A refresh was refused.'), [{ level, reason, instanceName: 'tokenAuth' }])
  }
})

t.test('debug says where a refresh token was looked for, or found', async (t) => {
  const app = await build(t, { debug: true, sessions: {}, retrieveUser: async () => users[0] })
  t.equal((await app.inject({ method: 'POST', url: '/auth/refresh', payload: {} })).json().detail, 'Refresh token not present. (expected: the field "refresh_token" of the body)')
  const pages = await build(t, { debug: true, cookieSet: true, sessions: {}, retrieveUser: async () => users[0] })
  const ask = async (cookie: string) => (await pages.inject({ method: 'POST', url: '/auth/refresh', headers: { cookie } })).json().detail
  t.equal(await ask(''), 'Authorization cookie not present. (expected: the cookie "refresh_token")')
  t.match(await ask('refresh_token=x'), /^the text is no refresh token .+ \(refresh token found in the cookie\)$/)
  const { stored, ...handlers } = refreshStore()
  const own = await build(t, { ...handlers, debug: true, retrieveUser: async () => users[0] })
  t.equal((await own.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(forge(claims())), payload: {} })).json().detail, 'Refresh token not present. (expected: the field "refresh_token" of the body)')
  t.equal(stored.size, 0)
})
