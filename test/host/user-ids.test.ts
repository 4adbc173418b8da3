/** User ids: which values are one user. */
import assert from 'node:assert/strict'
import t, { type Test } from 'tap'
import { memorySessions, type TokenAuthOptions } from '../../lib/index.ts'
import { answer, granted, issue, trusted, withIssuers } from '../authorities/issuers.ts'
import { bearer, build, caseOf, claims, forge, login, payloadOf, refreshStore, together } from '../helper.ts'

const people = new Map<unknown, { sub: unknown, name: string }>([[42, { sub: 42, name: 'Ada' }]])

/** Options of an application whose database has numbers, and the lines of its log. */
function numbered (options: Partial<TokenAuthOptions> = {}) {
  const lines: Array<Record<string, unknown>> = []
  const server = { logger: { level: 'warn', stream: { write: (line: string) => { lines.push(JSON.parse(line)) } } } }
  const given = together({ userId: 'sub', authenticate: () => ({ sub: 42 }), retrieveUser: (_request, payload) => people.get(Number(payload.sub)) ?? null }, options)
  return { lines, server, options: given }
}

const modes: Array<[what: string, options: () => Partial<TokenAuthOptions>]> = [
  ['sessions', () => ({ sessions: { store: memorySessions() } })],
  ['stored refresh tokens', () => {
    const { stored, ...options } = refreshStore()
    return options
  }]
]

async function refresh (t: Test, options: Partial<TokenAuthOptions>, server: object) {
  const app = await build(t, options, server)
  const { access_token: token, refresh_token: refreshToken } = (await login(app)).json()
  const again = async () => await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(token), payload: { refresh_token: refreshToken } })
  return { app, token, again }
}

// Promise: specification/sub-text
t.test('with userId "sub", ids are text in tokens, payloads and handlers (RFC 7519 section 4.1.2), and 42 and "42" are one user', async (t) => {
  for (const [what, mode] of modes) {
    for (const id of [42, '42'] as const) {
      const { lines, server, options } = numbered(together({ authenticate: () => ({ sub: id }) }, mode()))
      const { app, token, again } = await refresh(t, options, server)
      t.equal(payloadOf(token).sub, '42', what)
      const response = await again()
      t.equal(response.statusCode, 200, `${what}: retrieveUser returns the number`)
      t.equal(payloadOf(response.json().access_token).sub, '42')
      t.equal(payloadOf(await app.tokenAuth.generateAccessToken({ sub: id })).sub, '42')
      t.same((await app.inject({ url: '/auth/me', headers: bearer(token) })).json(), { me: { sub: 42, name: 'Ada' } })
      t.same(lines, [])
    }
  }
})

t.test('with userId "sub", a handler that writes the number again, and tokens that have it, are read as text', async (t) => {
  const { server, options } = numbered({ extendPayload: (payload, user) => ({ ...payload, sub: Number(Reflect.get(user, 'sub')), extra: 1 }) })
  const app = await build(t, options, server)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth: { userId } }) => ({ userId }))
  const { access_token: token } = (await login(app)).json()
  t.match(payloadOf(token), { sub: '42', extra: 1 })
  t.same((await app.inject({ url: '/', headers: bearer(forge({ ...claims(), sub: 42 })) })).json(), { userId: '42' })
  const wrong = await build(t, numbered({ extendPayload: () => ({ sub: 43 }) }).options)
  t.equal((await login(wrong)).statusCode, 500, 'another user')
  const providers = await withIssuers(t, trusted(), { secret: undefined })
  t.match((await answer(providers, issue('a', granted({ sub: 42 })))).json(), { userId: '42' })
})

t.test('with userId "sub", sessions are listed and ended by the number and by its text', async (t) => {
  const { server, options } = numbered({ sessions: {} })
  for (const id of [42, '42']) {
    const { app, token } = await refresh(t, options, server)
    assert.equal((await app.tokenAuth.sessions.list(id)).length, 1, caseOf(id))
    assert.equal(await app.tokenAuth.sessions.endAll(id), 1, caseOf(id))
    t.throws(() => app.tokenAuth.verifyToken(token), { name: 'SessionEnded' })
  }
})

// Promise: specification/sub-text
t.test('where retrieveUser finds nobody for the text of a number, the log says once that ids are text with "sub"', async (t) => {
  const { lines, server, options } = numbered({ retrieveUser: (_request, payload) => people.get(payload.sub) ?? null })
  const app = await build(t, options, server)
  const { access_token: token } = (await login(app)).json()
  for (let round = 0; round < 3; round++) await app.inject({ url: '/auth/me', headers: bearer(token) })
  t.equal(lines.length, 1)
  t.match(lines[0], { level: 40, msg: /ids are text.*Number\(\)/ })
  for (const sub of ['4x', '042', '1e3', '9007199254740993', ' 42']) {
    const other = numbered({ retrieveUser: () => null, authenticate: () => ({ sub }) })
    const app = await build(t, other.options, other.server)
    await app.inject({ url: '/auth/me', headers: bearer((await login(app)).json().access_token) })
    t.same(other.lines, [], sub)
  }
})

// Promise: specification/two-forms
t.test('with another claim, 42 and "42" are two users: the refresh is refused, and the log and debug name both forms and handlers', async (t) => {
  for (const [what, mode] of modes) {
    for (const [id, other, first, second] of [[42, '42', 'a number, such as 42', 'text, such as "42"'], ['42', 42, 'text, such as "42"', 'a number, such as 42'], [true, 'true', 'a boolean', 'text']] as const) {
      const { lines, server, options } = numbered(together({ userId: 'user_id', debug: true, authenticate: () => ({ user_id: id }), retrieveUser: () => ({ user_id: other }) }, mode()))
      const { again } = await refresh(t, options, server)
      for (let round = 0; round < 2; round++) {
        const response = await again()
        t.equal(response.statusCode, 401, what)
        const { exception, detail } = response.json()
        t.equal(exception, 'AuthenticationFailed')
        t.ok(detail.includes(`(handler "authenticate", or sessions.start()) is ${first}`) && detail.includes(`of the handler "retrieveUser" is ${second}`), detail)
        t.notMatch(detail, /header|expected/)
      }
      t.equal(lines.length, 2, what)
      t.match(lines[0], { level: 40, reason: /^the user id of the login/ })
    }
    const { lines, server, options } = numbered(together({ userId: 'user_id', debug: true, authenticate: () => ({ user_id: 42 }), retrieveUser: () => ({ user_id: 43 }) }, mode()))
    const { again } = await refresh(t, options, server)
    t.match((await again()).json(), { detail: 'the handler "retrieveUser" returned another user (refresh token found in the body)' })
    t.match(lines, [{ level: 40, reason: 'the handler "retrieveUser" returned another user' }])
  }
})

// Reported of other libraries: tymondesigns/jwt-auth#2072.
t.test('where retrieveUser finds another user than that of the token, such as 42 for the text "42bd-2f1e", the log says so once', async (t) => {
  const { lines, server, options } = numbered({ retrieveUser: (_request, payload) => people.get(Number.parseInt(String(payload.sub), 10)) ?? null })
  const app = await build(t, options, server)
  const ask = async (sub: unknown) => (await app.inject({ url: '/auth/me', headers: bearer(forge({ ...claims(), sub })) })).statusCode
  for (const sub of ['42', 42]) t.equal(await ask(sub), 200)
  t.equal(lines.length, 0)
  for (const sub of ['42bd-2f1e', '42bd-2f1e']) t.equal(await ask(sub), 200)
  t.match(lines, [{ msg: /^The handler "retrieveUser" returned another user than that of the token: their "sub" differ\./ }])
  t.equal(lines.length, 1)
  // The ids of an issuer are its own.
  const providers = await withIssuers(t, trusted(), { secret: undefined, ...options }, server)
  providers.get('/who', providers.tokenAuth.injectUser(async (_request, _reply, found) => found))
  t.same((await providers.inject({ url: '/who', headers: bearer(issue('a', granted({ sub: '42bd-2f1e' }))) })).json(), { sub: 42, name: 'Ada' })
  t.equal(lines.length, 1)
  // A user without the property, one whose property is computed, and one of an object that is not read like others.
  const proxy = new Proxy({}, { getOwnPropertyDescriptor () { throw new Error('a password') } })
  for (const user of [{ name: 'Ada' }, Object.defineProperty({}, 'sub', { get () { throw new Error('computed') } }), proxy]) {
    const other = await build(t, { ...options, retrieveUser: () => user }, server)
    other.get('/', other.tokenAuth.injectUser(async (_request, _reply, found) => ({ found: found === user })))
    t.same((await other.inject({ url: '/', headers: bearer(forge({ ...claims(), sub: '42' })) })).json(), { found: true })
  }
  t.equal(lines.length, 1)
  // A logger that throws decides nothing.
  const failing = await build(t, options)
  failing.addHook('onRequest', async (request) => { request.log.warn = () => { throw new Error('a password') } })
  t.equal((await failing.inject({ url: '/auth/me', headers: bearer(forge({ ...claims(), sub: '42bd' })) })).statusCode, 200)
})
