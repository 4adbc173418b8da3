import t from 'tap'
import type { FastifyInstance } from 'fastify'
import { curl, stepsOf, type CookieFiles } from './curl.ts'
import { scannedLog } from './helper.ts'

interface Service {
  createService: (options?: { fastify?: object, secret?: string }) => Promise<FastifyInstance>
  instructions: (app: FastifyInstance, address: string) => Promise<string>
}

/** The example uses the built package, as users do. */
const example = new URL('../examples/web/server.js', import.meta.url).href
const { createService, instructions }: Service = await import(example)

/** The cookies that a login of the example sets, as a client sends them back. */
async function logIn (app: FastifyInstance, headers: Record<string, string> = {}): Promise<string> {
  const { cookies } = await app.inject({ method: 'POST', url: '/auth', headers, payload: { username: 'ada', password: 'lovelace' } })
  return cookies.map(({ name, value }) => `${name}=${value}`).join('; ')
}

t.test('every curl line that the example service prints does what its title says', async (t) => {
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  const files: CookieFiles = new Map()
  let count = 0
  for (const { title, command, expected } of stepsOf(await instructions(app, address))) {
    const { status, body, setsCookies } = await curl(command, files)
    t.equal(status, expected, title)
    if (status === 204) t.equal(body, '', title)
    else t.type(JSON.parse(body), 'object', `${title}: the answer is JSON`)
    t.equal(setsCookies, /cookie/.test(title), title)
    t.notMatch(body, /_token"/, `${title}: the body contains no token`)
    if (title.includes('scope') && status === 403) t.match(body, 'InsufficientScope', `${title}: not the protection against other origins`)
    count++
  }
  t.same([...files].map(([file, kept]) => [file, ...kept.keys()]), [['cookies.txt', '__Host-access_token', '__Host-refresh_token']])
  t.equal(count, 14)
})

t.test('the example greets whom it knows by name, and strangers too', async (t) => {
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  const token = await app.tokenAuth.generateAccessToken({ user_id: 1, scopes: [] })
  for (const headers of [{ cookie: await logIn(app) }, { authorization: `Bearer ${token}` }]) {
    t.same((await app.inject({ url: '/hello', headers })).json(), { hello: 'ada', isLoggedIn: true })
  }
  t.same((await app.inject({ url: '/hello' })).json(), { hello: 'stranger', isLoggedIn: false })
})

t.test('the example describes devices in words of its own, whatever User-Agent a client sends', async (t) => {
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  const webkit = 'AppleWebKit/537.36 (KHTML, like Gecko)'
  const devices: Array<[userAgent: string, device: string]> = [
    [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${webkit} Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0`, 'Edge on Windows'],
    [`Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${webkit} Chrome/140.0.0.0 Safari/537.36 OPR/124.0.0.0`, 'Opera on macOS'],
    ['Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0', 'Firefox on Linux'],
    [`Mozilla/5.0 (Linux; Android 10; K) ${webkit} Chrome/140.0.0.0 Mobile Safari/537.36`, 'Chrome on Android'],
    [`Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) ${webkit} Chrome/140.0.0.0 Safari/537.36`, 'Chrome on ChromeOS'],
    ['Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1', 'Safari on iOS'],
    ['curl/8.14.1', 'curl'],
    ['Linux', 'Linux'],
    ['<b>Your bank</b>', 'Unknown device'],
    ['', 'Unknown device']
  ]
  let cookie = ''
  for (const [userAgent] of devices) cookie = await logIn(app, { 'user-agent': userAgent })
  const { sessions } = (await app.inject({ url: '/auth/sessions', headers: { cookie } })).json()
  t.same(sessions.map((session: { data: { device: string } }) => session.data.device).sort(), devices.map(([, device]) => device).sort())
})

t.test('the example answers an unknown name as it answers a wrong password', async (t) => {
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  const [unknown, wrong] = await Promise.all([{ username: 'nobody', password: 'nobody' }, { username: 'ada', password: 'x' }]
    .map((payload) => app.inject({ method: 'POST', url: '/auth', payload })))
  t.equal(unknown?.statusCode, 401)
  t.equal(unknown?.payload, wrong?.payload)
})

t.test('the example takes requests that may change something from its own pages, and from clients that are no browsers', async (t) => {
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  const host = 'example.test:8080'
  const cases: Array<[headers: Record<string, string>, status: number]> = [
    [{ 'sec-fetch-site': 'same-origin' }, 204],
    [{ 'sec-fetch-site': 'none' }, 204],
    [{ 'sec-fetch-site': 'same-site' }, 403],
    [{ 'sec-fetch-site': 'cross-site' }, 403],
    [{ 'sec-fetch-site': '' }, 403],
    [{ 'sec-fetch-site': 'cross-site', origin: `http://${host}` }, 403],
    [{ origin: `http://${host}` }, 204],
    // Behind a proxy that speaks TLS.
    [{ origin: `https://${host}` }, 204],
    [{ origin: 'http://example.test' }, 403],
    [{ origin: 'http://example.test:8080.example.com' }, 403],
    [{ origin: `http://${host}@example.com` }, 403],
    [{ origin: 'null' }, 403],
    [{ origin: '' }, 403],
    [{}, 204],
    [{ cookie: '__Host-access_token=x' }, 401]
  ]
  for (const [headers, status] of cases) {
    const response = await app.inject({ method: 'POST', url: '/auth/logout', headers: { host, ...headers } })
    t.equal(response.statusCode, status, JSON.stringify(headers))
  }
  for (const method of ['GET', 'HEAD'] as const) {
    const response = await app.inject({ method, url: '/hello', headers: { 'sec-fetch-site': 'cross-site' } })
    t.equal(response.statusCode, 200, `${method} changes nothing`)
  }
})

t.test('no page of the example that has a guard is to be had around it', async (t) => {
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  for (const url of ['/private/profile.html', '/profile.html/', '//profile.html', '/../private/profile.html', '/%2e%2e/private/profile.html', '/.%2fprofile.html', '/server.js', '/../server.js']) {
    const response = await app.inject({ url })
    t.ok([302, 400, 403, 404].includes(response.statusCode), `${url}: ${response.statusCode}`)
    t.notMatch(response.payload, 'Your profile', url)
  }
  // The pages take the token from the cookie alone.
  const cookie = await logIn(app)
  const [, token] = /__Host-access_token=([^;]+)/.exec(cookie) ?? []
  t.equal((await app.inject({ url: '/profile.html', headers: { authorization: `Bearer ${token}` } })).statusCode, 302)
  t.equal((await app.inject({ url: '/profile.html', headers: { cookie } })).statusCode, 200)
})

t.test('the example serves a few logins a minute to each address, with and without a slash at the end', async (t) => {
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  const statuses: number[] = []
  for (let count = 0; count < 22; count++) {
    const response = await app.inject({ method: 'POST', url: count % 2 === 0 ? '/auth' : '/auth/', payload: {} })
    statuses.push(response.statusCode)
  }
  t.same([...new Set(statuses.slice(0, 20))], [401])
  t.same(statuses.slice(20), [429, 429])
})
