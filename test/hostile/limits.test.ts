/** Limitations in docs/evidence/security.md: what this library does not prevent, and what helps. */
import t from 'tap'
import Fastify from 'fastify'
import tokenAuth from '../../lib/index.ts'
import { authenticate, bearer, build, claims, exchange, forge, keysFor, listen, login, mistyped, payloadOf, refreshStore, secret, setClock, signingKey, together, warnings } from '../helper.ts'

// Promise: security/3-1-perform
t.test('registration accepts one key for two algorithms without a warning; each instance accepts only tokens of its own algorithm', async (t) => {
  for (const [one, other] of [['RS256', 'PS256'], ['HS256', 'HS512']] as const) {
    const codes = warnings(t)
    const app = await build(t, { ...keysFor(one) })
    await app.register(tokenAuth, { ...keysFor(one), algorithm: other, authenticate, instanceName: 'staff', urlPrefix: '/staff' })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
    app.get('/staff', { onRequest: app.staff.protect() }, async () => 'reached')
    for (const algorithm of [one, other]) {
      const headers = bearer(forge(claims(), { algorithm, key: signingKey(one) }))
      t.equal((await app.inject({ url: '/', headers })).statusCode, algorithm === one ? 200 : 401, `${algorithm} token, ${one} instance`)
      t.equal((await app.inject({ url: '/staff', headers })).statusCode, algorithm === other ? 200 : 401, `${algorithm} token, ${other} instance`)
    }
    t.same(codes, [])
  }
})

// Promise: security/open-redirect
t.test('a redirect getter can return the URL of another site, but nothing other than a path or an http(s) URL', async (t) => {
  const app = await build(t, { getLoginRedirectUrl: ({ query }) => String((query as { next?: string }).next) })
  app.get('/', { onRequest: app.tokenAuth.protect({ redirectOnFail: true }) }, async () => 'reached')
  const answerTo = (next: string) => app.inject({ url: '/', query: { next } })
  for (const next of ['/login.html', 'https://another.example/']) {
    const { statusCode, headers: { location } } = await answerTo(next)
    t.same([statusCode, location], [302, next])
  }
  for (const next of ['//another.example', '/\\another.example', 'javascript:alert(1)', '/a\r\nset-cookie: a=b', '']) {
    const { statusCode, headers } = await answerTo(next)
    t.equal(statusCode, 500, JSON.stringify(next))
    t.notOk('location' in headers)
  }
})

// Promise: security/tokens-logs
t.test('Fastify logs requests that are not valid HTTP at level trace, with their tokens, but not at level debug or with a clientErrorHandler', async (t) => {
  const token = forge(claims())
  const logOf = async (level: string, options: object = {}) => {
    const lines: string[] = []
    // Does not use the helper's host(), which fails for tokens in the log.
    const app = Fastify({ logger: { level, stream: { write: (line: string) => { lines.push(line) } } }, ...options })
    t.teardown(() => app.close())
    await app.register(tokenAuth, { secret, authenticate })
    const answer = await exchange(await listen(app), `GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\nno header\r\n\r\n`)
    t.match(answer, /^HTTP\/1\.1 400 /)
    // Pino writes a Buffer as an array of bytes.
    return lines.join('').replaceAll(/\[\d+(?:,\d+)+\]/g, (bytes) => Buffer.from(JSON.parse(bytes)).toString())
  }
  t.match(await logOf('trace'), token)
  t.notMatch(await logOf('debug'), token)
  const clientErrorHandler = (_error: Error, socket: { end: (answer: string) => void }) => { socket.end('HTTP/1.1 400 Bad Request\r\n\r\n') }
  t.notMatch(await logOf('trace', { clientErrorHandler }), token)
})

// Promise: security/two-logins-cannot
t.test('two logins in the same second have the same payload, and the same token if signatures are deterministic; a custom claim distinguishes them', async (t) => {
  setClock(t, 1_800_000_000)
  for (const algorithm of ['HS256', 'RS256', 'PS256', 'ES256'] as const) {
    for (const claimIat of [false, true]) {
      const app = await build(t, together({ secret: undefined }, mistyped(keysFor(algorithm)), { claimIat }))
      const [first, second] = [(await login(app)).json().access_token, (await login(app)).json().access_token]
      t.same(payloadOf(first), payloadOf(second), algorithm)
      t.equal(first === second, algorithm === 'HS256' || algorithm === 'RS256', `${algorithm}, claimIat ${claimIat}`)
    }
  }

  let count = 0
  class LoginId {
    key = 'login_id'
    setup () { return `login ${++count}` }
    verify () { return true }
  }
  const { stored, ...store } = refreshStore()
  const app = await build(t, { ...store, customClaims: [LoginId] })
  const { access_token: first } = (await login(app)).json()
  const { access_token: second, refresh_token: refresh } = (await login(app)).json()
  const refreshed = await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(second), payload: { refresh_token: refresh } })
  t.same([first, second, refreshed.json().access_token].map((token) => payloadOf(token).login_id), ['login 1', 'login 2', 'login 3'])
})
