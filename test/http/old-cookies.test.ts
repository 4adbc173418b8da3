/** What becomes of cookies from before a change of `cookieDomain`. */
import assert from 'node:assert/strict'
import Fastify, { type FastifyInstance, type LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, build, caseOf, claims, forge, host, listen, refreshStore, refusal, secret, together, users, warnings } from '../helper.ts'

const attributes = 'Path=/; HttpOnly; Secure; SameSite=Lax'
const fieldsOf = (response: LightMyRequestResponse): string[] => [response.headers['set-cookie'] ?? []].flat()
/** The lines that clear, as `name domain`: without those of partitioned cookies, or only those. */
const clearedBy = (response: LightMyRequestResponse, isPartitioned = false) => fieldsOf(response).filter((field) => field.includes('Max-Age=0') && field.includes('Partitioned') === isPartitioned).map((field) => `${field.split('=', 1)[0]} ${/Domain=([^;]*)/.exec(field)?.[1] ?? '-'}`)
const clear = (name: string, domain?: string) => `${name}=; Max-Age=0; ${domain === undefined ? '' : `Domain=${domain}; `}${attributes}`

/** A browser's cookies of one host and path: by name and domain. The empty domain is that of the host alone. */
class Jar {
  readonly cookies = new Map<string, string>()
  take (response: LightMyRequestResponse): void {
    for (const field of fieldsOf(response)) {
      const [pair = ''] = field.split(';', 1)
      const [name = ''] = pair.split('=', 1)
      const key = `${name} ${/Domain=([^;]*)/.exec(field)?.[1] ?? ''}`
      if (field.includes('Max-Age=0')) this.cookies.delete(key)
      else this.cookies.set(key, pair)
    }
  }

  get headers () { return { host: 'app.shop.example.org', cookie: [...this.cookies.values()].join('; ') } }
  get size () { return this.cookies.size }
}

const modes: Array<[string, () => Partial<TokenAuthOptions>]> = [
  ['sessions', () => ({ sessions: {} })],
  ['stored refresh tokens', () => {
    const { stored, ...options } = refreshStore()
    return options
  }],
  ['split cookies', () => ({ sessions: {}, cookieSplit: true })]
]

async function site (t: Test, options: Partial<TokenAuthOptions>): Promise<FastifyInstance> {
  const app = await build(t, together({ cookieSet: true, retrieveUser: async () => users[0] }, options))
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  app.get('/thrown', { onRequest: app.tokenAuth.protect({ onRefusal: 'throw' }) }, async () => 'reached')
  return app
}

const logIn = async (app: FastifyInstance, headers: Record<string, string>) => await app.inject({ method: 'POST', url: '/auth', headers, payload: { username: 'ada', password: 'lovelace' } })

// Promise: security/changed-domain
t.test('after a change of cookieDomain, browsers that were here before go on, at the latest with the next login', async (t) => {
  const domains = ['', 'app.shop.example.org', 'shop.example.org', 'example.org']
  for (const [mode, options] of modes) {
    for (const before of domains) {
      for (const after of domains.filter((domain) => domain !== before)) {
        const title = caseOf(mode, before, after)
        const jar = new Jar()
        jar.take(await logIn(await site(t, { ...options(), cookieDomain: before }), jar.headers))
        const count = jar.size
        const app = await site(t, { ...options(), cookieDomain: after })
        jar.take(await logIn(app, jar.headers))
        // Where the old form was not cleared, the first request is refused once, which clears all.
        const first = await app.inject({ url: '/', headers: jar.headers })
        jar.take(first)
        if (first.statusCode !== 200) jar.take(await logIn(app, jar.headers))
        assert.equal((await app.inject({ url: '/', headers: jar.headers })).statusCode, 200, title)
        assert.equal(jar.size, count, title)
        if (before === '') assert.equal(first.statusCode, 200, title)
      }
    }
  }
})

// Promise: security/changed-domain
t.test('login, refresh, sessions.start and logout clear what the host alone has where a domain is set, before the new cookies', async (t) => {
  const app = await site(t, { sessions: {}, cookieDomain: 'example.org' })
  app.post('/start', async (request, reply) => {
    await app.tokenAuth.sessions.start(request, reply, { user_id: 1 })
    return {}
  })
  const jar = new Jar()
  const first = await logIn(app, jar.headers)
  t.same(clearedBy(first), [], 'no cookie came')
  jar.take(first)
  const both = [clear('access_token'), clear('refresh_token')]
  const second = await logIn(app, jar.headers)
  t.same(fieldsOf(second).slice(0, 2), both)
  jar.take(second)
  const started = await app.inject({ method: 'POST', url: '/start', headers: jar.headers })
  t.same(clearedBy(started), ['access_token -', 'refresh_token -'])
  jar.take(started)
  const refreshed = await app.inject({ method: 'POST', url: '/auth/refresh', headers: jar.headers })
  t.same(fieldsOf(refreshed).slice(0, 2), both)
  t.equal(fieldsOf(refreshed).length, 4)
  const again = await app.inject({ method: 'POST', url: '/auth/refresh', headers: jar.headers })
  jar.take(refreshed)
  const unchanged = await app.inject({ method: 'POST', url: '/auth/refresh', headers: jar.headers })
  for (const response of [again, unchanged]) {
    const sent = fieldsOf(response).filter((field) => !field.includes('Max-Age=0')).map((field) => field.split('=', 1)[0])
    t.same(clearedBy(response), sent.map((name) => `${name} -`), 'a refresh cookie that is not sent again is not cleared')
  }
  t.same(fieldsOf(await app.inject({ method: 'POST', url: '/auth/logout', headers: jar.headers })), [...both, clear('access_token', 'example.org'), clear('refresh_token', 'example.org')])
  t.same(clearedBy(await app.inject({ url: '/', headers: jar.headers })), [], 'a guard that lets a request pass clears nothing')
  t.same(clearedBy(await app.inject({ url: '/', headers: { cookie: 'access_token=x' } })), [], 'nor does one that refuses one cookie')
})

// Promise: security/changed-domain
t.test('whatever is answered to a request with two cookies of one name clears all of their forms, and only theirs', async (t) => {
  const app = await site(t, { sessions: {}, cookieDomain: 'example.org' })
  const token = forge(claims())
  const all = (name: string) => [`${name} -`, `${name} example.org`, `${name} app.shop.example.org`, `${name} shop.example.org`]
  const requests = [{ url: '/' }, { url: '/thrown' }, { url: '/auth/verify' }, { url: '/auth/me' }, { url: '/auth/me?optional=true' }, { method: 'POST', url: '/auth/refresh' }, { url: '/auth/sessions' }] as const
  for (const request of requests) {
    const response = await app.inject({ ...request, headers: { host: 'app.shop.example.org:8443', cookie: `access_token=${token}; x=1; access_token=x; refresh_token=y` } })
    t.same(clearedBy(response), all('access_token'), request.url)
    t.same(clearedBy(response, true), all('access_token'), 'the setting cookiePartitioned may have been true')
    assert.ok(fieldsOf(response).every((field) => !field.includes('Partitioned') || (field.includes('SameSite=None') && field.includes('Secure'))))
    t.not(response.statusCode, 500)
  }
  const twins = { host: 'app.shop.example.org', cookie: 'refresh_token=x; refresh_token=y' }
  t.same(clearedBy(await app.inject({ method: 'POST', url: '/auth/refresh', headers: twins })), all('refresh_token'))
  t.same(clearedBy(await app.inject({ url: '/', headers: twins })), all('refresh_token'))
  const login = await logIn(app, twins)
  t.same(clearedBy(login), all('refresh_token'))
  t.match(fieldsOf(login).at(-1), /^refresh_token=\w/, 'the new ones come last')
  t.same(clearedBy(await logIn(app, { ...twins, cookie: '' })), [])
  const refused = await app.inject({ method: 'POST', url: '/auth', headers: twins, payload: { username: 'ada', password: 'wrong' } })
  t.same(clearedBy(refused), all('refresh_token'))
})

t.test('a host that is no domain name has no domains, and long ones a few', async (t) => {
  const app = await site(t, {})
  const cookie = 'access_token=x; access_token=y'
  const long = Array.from({ length: 30 }, (_, index) => `l${index}`).join('.')
  const hosts: Array<[string, number]> = [
    ['localhost', 0], ['127.0.0.1', 0], ['[::1]:80', 0], ['', 0], ['a.b;c', 0], ['x.example.org; Path=/', 0], ['-x.org', 0], ['EXAMPLE.org', 1], ['a.b.c', 2], [`${long}.org`, 8], [`${'ab.'.repeat(90)}example.org`, 0]
  ]
  for (const [hostname, count] of hosts) {
    const cleared = clearedBy(await app.inject({ url: '/', headers: { host: hostname, cookie } }))
    assert.equal(cleared.length, 1 + count, hostname)
    assert.equal(cleared[0], 'access_token -')
  }
})

t.test('cookies with the prefix __Host- are cleared without a domain', async (t) => {
  const app = await site(t, { cookieAccessTokenName: '__Host-a' })
  t.same(clearedBy(await app.inject({ url: '/', headers: { host: 'app.example.org', cookie: '__Host-a=x; __Host-a=y' } })), ['__Host-a -'])
})

// Promise: security/changed-domain
t.test('a cookie that another registration has on that path, too, is not cleared: each would destroy the login of the other', async (t) => {
  const app = host(t)
  const common = { secret, authenticate, cookieSet: true, sessions: {}, retrieveUser: async () => users[0] }
  await app.register(tokenAuth, { ...common, cookieDomain: 'example.org' })
  await app.register(async (context) => {
    await context.register(tokenAuth, { ...common, instanceName: 'staff', urlPrefix: '/staff/auth', cookieRefreshTokenName: 'staff_refresh' })
  })
  const headers = { host: 'app.example.org', cookie: 'access_token=x; access_token=y; refresh_token=x; refresh_token=y; staff_refresh=x; staff_refresh=y' }
  t.same(clearedBy(await logIn(app, headers)), ['refresh_token -', 'refresh_token example.org', 'refresh_token app.example.org'])
  t.same(clearedBy(await app.inject({ method: 'POST', url: '/staff/auth', headers, payload: { username: 'ada', password: 'lovelace' } })), ['staff_refresh -', 'staff_refresh app.example.org', 'staff_refresh example.org'])
})

t.test('getters decide about the cookies that are cleared, and nothing fails where they fail and no cookie came twice', async (t) => {
  const app = await build(t, { getCookieDomain: (request) => request.hostname === 'bad.example.org' ? 5 as never : 'example.org', cookieSet: true })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  t.same(clearedBy(await app.inject({ url: '/', headers: { host: 'a.example.org', cookie: 'access_token=x; access_token=y' } })), ['access_token -', 'access_token example.org', 'access_token a.example.org'])
  t.equal((await app.inject({ url: '/', headers: { host: 'bad.example.org', cookie: 'access_token=x' } })).statusCode, 401)
})

// Promise: security/partitioned
// Promise: specification/cookiepartitioned
t.test('cookiePartitioned is written with every cookie, and requires what browsers require', async (t) => {
  warnings(t, 'W09')
  const options: Partial<TokenAuthOptions> = { cookieSet: true, cookiePartitioned: true, cookieSamesite: 'none', sessions: {}, retrieveUser: async () => users[0] }
  const app = await site(t, options)
  app.get('/page', { onRequest: app.tokenAuth.protect({ redirectOnFail: true }) }, async () => 'page')
  const jar = new Jar()
  const first = await logIn(app, jar.headers)
  jar.take(first)
  const refreshed = await app.inject({ method: 'POST', url: '/auth/refresh', headers: jar.headers })
  const page = await app.inject({ url: '/page', headers: { ...jar.headers, cookie: String(jar.cookies.get('refresh_token ')), 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' } })
  t.equal(page.statusCode, 200)
  const logout = await app.inject({ method: 'POST', url: '/auth/logout', headers: jar.headers })
  for (const response of [first, refreshed, page, logout]) {
    const fields = fieldsOf(response)
    const set = fields.filter((field) => field.includes('Partitioned'))
    t.ok(set.length >= 1)
    // Cookies from before the setting was true.
    t.ok(fields.every((field) => set.includes(field) || field.includes('Max-Age=0')), fields.join('\n'))
  }
  t.same(fieldsOf(logout).filter((field) => !field.includes('Partitioned')).length, 2)
  const both = fieldsOf(await app.inject({ url: '/', headers: { host: 'app.example.org', cookie: 'access_token=x; access_token=y' } }))
  t.same(both.map((field) => [/Domain=([^;]*)/.exec(field)?.[1], field.includes('Partitioned')]), [true, false].flatMap((is) => [undefined, 'app.example.org', 'example.org'].map((domain) => [domain, is])))
  const plain = await site(t, { cookieSet: true, cookieSamesite: 'none' })
  const twins = fieldsOf(await plain.inject({ url: '/', headers: { host: 'localhost', cookie: 'access_token=x; access_token=y' } }))
  t.same(twins.map((field) => field.includes('Partitioned')), [false, true], 'of two, one may be partitioned')
  for (const wrong of [{ cookieSamesite: 'lax' }, { cookieSamesite: 'strict' }, { cookieSecure: false }] as const) {
    t.match(await refusal(t, { secret, authenticate, ...options, ...wrong }), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E09' })
  }
  t.equal(await refusal(t, { secret, authenticate, cookiePartitioned: true }), undefined, 'without cookies nothing is written')
})

t.test('a request over HTTP/2 has its host in :authority', async (t) => {
  const app = Fastify({ http2: true }) as unknown as FastifyInstance
  t.teardown(() => app.close())
  await app.register(tokenAuth, { secret, authenticate, cookieSet: true })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const port = await listen(app)
  const { connect } = await import('node:http2')
  const session = connect(`http://127.0.0.1:${port}`)
  const stream = session.request({ ':path': '/', ':authority': 'a.example.org', cookie: 'access_token=x; access_token=y' })
  const headers = await new Promise<Record<string, unknown>>((resolve) => { stream.on('response', resolve) })
  t.equal([headers['set-cookie']].flat().length, 6)
  session.destroy()
})
