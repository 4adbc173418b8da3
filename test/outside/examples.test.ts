import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { FastifyInstance, InjectOptions } from 'fastify'
import { memorySessions, type SessionStore } from '../../lib/index.ts'
import { curl, stepsOf, type CookieFiles } from './curl.ts'
import { bearer, listen, now, scannedLog, setClock } from '../helper.ts'

interface Service {
  createService: (options?: { fastify?: object, secret?: string, store?: SessionStore }) => Promise<FastifyInstance>
}

/** The example uses the built package, as users do. */
const example = new URL('../../examples/web/server.js', import.meta.url).href
const { createService }: Service = await import(example)

const people = { ada: 'lovelace', grace: 'hopper' }

/** What a browser accepts that opens a page or sends a form. */
const html = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' }

/** The cookies that a login of the example sets, as a client sends them back. */
async function logIn (app: FastifyInstance, headers: Record<string, string> = {}, username: keyof typeof people = 'ada'): Promise<string> {
  const { cookies } = await app.inject({ method: 'POST', url: '/auth', headers, payload: { username, password: people[username] } })
  return cookies.map(({ name, value }) => `${name}=${value}`).join('; ')
}

t.test('every curl line of the page /curl does what its title says', async (t) => {
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  const files: CookieFiles = new Map()
  let count = 0
  for (const { title, command, expected } of stepsOf(await (await fetch(`${address}/curl`)).text())) {
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

t.test('caches store no response of the API of the example, because each is for one user', async (t) => {
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  const headers = { cookie: await logIn(app) }
  const report = { method: 'POST', url: '/reports', payload: { title: 'April', text: 'Rain.' } } as const
  for (const request of [{ url: '/hello' }, { url: '/private' }, { url: '/token' }, { url: '/reports' }, report]) {
    const response = await app.inject({ ...request, headers })
    t.equal(response.headers['cache-control'], 'private, no-store', `${request.url} ${response.statusCode}`)
  }
  t.equal((await app.inject('/hello')).headers['cache-control'], 'private, no-store', 'a visitor who logs in later')
})

t.test('the expired tokens of the example stay expired if the clock is set back', async (t) => {
  const start = now()
  const setTime = setClock(t, start)
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  await listen(app)
  const [, shown = ''] = /Bearer ([^"]+)"/.exec((await app.inject('/curl')).payload) ?? []
  const [cookie] = (await app.inject({ method: 'POST', url: '/token/expire', headers: { cookie: await logIn(app) } })).cookies
  for (const years of [0, 1, 50]) {
    setTime(start - years * 31_536_000)
    for (const token of [shown, cookie?.value ?? '']) {
      const { statusCode, payload } = await app.inject({ url: '/private', headers: bearer(token) })
      t.equal(statusCode, 401, `${years} years`)
      t.match(payload, 'expired', `${years} years`)
    }
  }
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
  for (const url of ['/pages.js', '/profile.html/', '//profile.html', '/../pages.js', '/%2e%2e/pages.js', '/.%2fprofile.html', '/server.js', '/../server.js']) {
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

t.test('every response of the example has the headers that protect pages, and no page is cached', async (t) => {
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  const cookie = await logIn(app)
  for (const url of ['/', '/login.html', '/new-report.html', '/reports.html', '/nowhere', '/private', '/style.css', '/client.js', '/docs/static/index.html', '/auth/verify']) {
    const { headers } = await app.inject({ url, headers: { cookie, ...html } })
    t.equal(headers['x-content-type-options'], 'nosniff', url)
    t.equal(headers['referrer-policy'], 'same-origin', url)
    t.match(headers['content-security-policy'], "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'", url)
    if (String(headers['content-type']).startsWith('text/html') && !url.startsWith('/docs')) t.equal(headers['cache-control'], 'no-store', url)
  }
})

t.test('what is not possible is a page for browsers and JSON for other clients, and both say why and what to do', async (t) => {
  const store = memorySessions()
  const app = await createService({ fastify: scannedLog(t), store })
  t.teardown(() => app.close())
  const [ada, grace] = await Promise.all((['ada', 'grace'] as const).map(async (username) => await logIn(app, {}, username)))
  const ended = await logIn(app)
  t.equal((await app.inject({ method: 'POST', url: '/auth/logout', headers: { cookie: ended } })).statusCode, 204)
  const down = async () => { throw new Error('down') }
  Object.assign(store, { list: down, end: down })
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const report = { method: 'POST', url: '/new-report.html', payload: 'title=a&text=b' } as const
  const cases: Array<[request: InjectOptions, status: number, page: RegExp, json: object]> = [
    [{ url: '/nowhere?<i>' }, 404, /<h1>Not found.*<code>\/nowhere<\/code>.*href="\/"/s, { message: 'GET /nowhere was not found.', advice: /\/docs/ }],
    [{ url: '/private' }, 401, /<h1>Not logged in.*href="\/login\.html\?next=%2Fprivate"/s, { exception: 'MissingAuthorizationHeader', advice: /POST \/auth\/refresh/ }],
    [{ url: '/auth/me', headers: { cookie: ended } }, 401, /<h1>Not logged in/, { exception: 'SessionEnded', advice: /^The session has ended\. Log in at POST \/auth\.$/ }],
    [{ ...report, headers: form }, 401, /Nothing was lost.*href="\/login\.html\?next=%2Fnew-report\.html" target="_blank"/s, { exception: 'MissingAuthorizationCookie' }],
    [{ ...report, headers: { ...form, cookie: grace } }, 403, /<h1>Not allowed.*<code>reports:write<\/code>.*log in as another user/s, { exception: 'InsufficientScope', advice: /WWW-Authenticate/ }],
    [{ ...report, headers: { ...form, cookie: ada, 'sec-fetch-site': 'cross-site' } }, 403, /<h1>From another site.*nothing was done/s, { exception: 'CrossOriginRequest', advice: /this origin/ }],
    [{ method: 'POST', url: '/reports', payload: { title: ' ', text: 'b' }, headers: { cookie: ada } }, 400, /<h1>Not understood.*body\/title.*Go back/s, { message: /body\/title/ }],
    [{ ...report, payload: 'title=+&text=b', headers: { ...form, cookie: ada } }, 400, /<h1>Write a report.*aria-invalid="true".*Enter a title\./s, { errors: { title: 'Enter a title.' } }],
    [{ url: '/devices.html', headers: { cookie: ada } }, 503, /<h1>Not available.*still logged in.*href="\/devices\.html"/s, { message: 'Sessions are not available at the moment.' }],
    [{ url: '/auth/sessions', headers: { cookie: ada } }, 503, /<h1>Not available/, { exception: 'SessionStoreUnavailable', advice: /Retry-After/ }]
  ]
  for (const [request, status, page, json] of cases) {
    const name = `${request.method ?? 'GET'} ${String(request.url)}`
    const forBrowser = await app.inject({ ...request, headers: { ...request.headers, ...html } })
    const forClient = await app.inject({ ...request, headers: { ...request.headers, accept: '*/*' } })
    for (const response of [forBrowser, forClient]) {
      t.equal(response.statusCode, status, name)
      t.equal(response.headers.vary, 'accept', `${name}: caches know that there are two`)
      t.equal(response.headers['retry-after'], status === 503 ? '5' : undefined, name)
      if (status === 401) t.match(response.headers['www-authenticate'], /^Bearer/, name)
      t.notMatch(response.payload, '<i>', name)
    }
    t.match(forBrowser.headers['content-type'], 'text/html', name)
    t.match(forBrowser.payload, page, name)
    t.match(forClient.json(), json, name)
  }
})

t.test('a failure of the example tells clients nothing of its reason', async (t) => {
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  app.get('/fails', { config: { tokenAuth: false } }, async () => { throw new Error('the password of the database') })
  const { statusCode, payload } = await app.inject({ url: '/fails', headers: html })
  t.equal(statusCode, 500)
  t.match(payload, /<h1>Failed/)
  t.notMatch(payload, 'password of')
})

t.test('the forms of other sites change nothing in the example, and log nobody in', async (t) => {
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  const cookie = await logIn(app)
  const form = { ...html, 'content-type': 'application/x-www-form-urlencoded' }
  const forms = { '/login': 'username=grace&password=hopper', '/new-report.html': 'title=Spam&text=x', '/devices.html': 'end=others', '/token/expire': '', '/auth/logout': '' }
  for (const [url, payload] of Object.entries(forms)) {
    for (const site of ['cross-site', 'same-site']) {
      const response = await app.inject({ method: 'POST', url, payload, headers: { ...form, cookie, 'sec-fetch-site': site } })
      t.equal(response.statusCode, 403, `${url} ${site}`)
      t.equal(response.headers['set-cookie'], undefined, url)
    }
    const own = await app.inject({ method: 'POST', url, payload, headers: { ...form, cookie: await logIn(app), 'sec-fetch-site': 'same-origin' } })
    t.equal(own.statusCode, 303, `${url}: control`)
  }
  t.equal((await app.inject({ url: '/reports', headers: { cookie: await logIn(app) } })).json().reports.filter(({ title }: { title: string }) => title === 'Spam').length, 1, 'of the control')
  // JSON in a form of another site is neither.
  for (const [contentType, status] of [['text/plain', 415], ['application/x-www-form-urlencoded', 303]] as const) {
    const response = await app.inject({ method: 'POST', url: '/auth', payload: '{"username":"ada","password":"lovelace"}', headers: { 'content-type': contentType } })
    t.same([response.statusCode, response.headers['set-cookie']], [status, undefined], contentType)
  }
})

t.test('the login form sets the cookies of the login endpoint, and says so if a browser rejects them', async (t) => {
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  const form = async (fields: string) => await app.inject({ method: 'POST', url: '/login', payload: fields, headers: { ...html, 'content-type': 'application/x-www-form-urlencoded' } })
  const { statusCode, headers, cookies } = await form('username=ada&password=lovelace&next=/.//example.com')
  t.equal(statusCode, 303)
  const flags = { path: '/', httpOnly: true, secure: true, sameSite: 'Lax' }
  t.match(cookies, [{ name: '__Host-access_token', ...flags }, { name: '__Host-refresh_token', ...flags }])
  t.equal(headers.location, '/login.html?reason=cookies&next=%2F', 'not to another site')
  t.match((await app.inject({ url: String(headers.location) })).payload, 'Your browser rejected the cookies.')
  for (const [wrong, status] of [['username=ada&password=x', 401], ['username=ada', 400], ['username=ada&password=lovelace&password=x', 400], ['', 400]] as const) {
    const refused = await form(wrong)
    t.equal(refused.statusCode, status, wrong)
    t.same(refused.cookies, [], wrong)
  }
})

t.test('reports have limits, and are shown as text', async (t) => {
  const app = await createService({ fastify: scannedLog(t) })
  t.teardown(() => app.close())
  const headers = { cookie: await logIn(app) }
  const write = async (payload: object) => await app.inject({ method: 'POST', url: '/reports', payload, headers })
  const markup = '<script>alert("1")</script> & \'x\''
  const written = await write({ title: markup, text: `${markup}\nsecond line`, author: 'grace', written_at: 'never' })
  t.equal(written.statusCode, 201)
  t.match(written.json(), { title: markup, author: 'ada' }, 'the author is the user')
  t.ok(Math.abs(Date.now() - Date.parse(written.json().written_at)) < 60_000)
  const page = await app.inject({ url: '/reports.html', headers })
  t.notMatch(page.payload, /<script>|\("1"|'x'/)
  t.match(page.payload, '<h2>&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;</h2>')

  for (const wrong of [{}, { title: 'a' }, { title: ' ', text: 'a' }, { title: 'a', text: '\n' }, { title: 'a'.repeat(81), text: 'a' }, { title: 'a', text: 'a'.repeat(2001) }, { title: ['a', 'b'], text: 'a' }]) {
    t.equal((await write(wrong)).statusCode, 400, JSON.stringify(wrong).slice(0, 40))
  }
  t.equal((await write({ title: 'a', text: 'a'.repeat(40_000) })).statusCode, 413)
  // The longest text, as browsers encode the end of a line and a character of four bytes.
  const longest = new URLSearchParams({ title: '🎉'.repeat(80), text: '🎉\r\n'.repeat(1000) }).toString()
  const form = await app.inject({ method: 'POST', url: '/new-report.html', payload: longest, headers: { ...headers, 'content-type': 'application/x-www-form-urlencoded' } })
  t.equal(form.statusCode, 303)

  for (let count = 0; count < 60; count++) await write({ title: `Report ${count}`, text: 'a' })
  const { reports } = (await app.inject({ url: '/reports', headers })).json()
  t.equal(reports.length, 50)
  t.equal(reports[0].title, 'Report 59')
})

t.test('npm start prints the address, the users, and where the documentation is', async (t) => {
  const child = spawn(process.execPath, [fileURLToPath(example)], { env: { PATH: process.env.PATH, PORT: '0' }, stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill())
  const [output] = await once(child.stdout.setEncoding('utf8'), 'data')
  t.match(output, /^Open (http:\/\/127\.0\.0\.1:\d+) in a browser\. Press Ctrl-C to stop\.\nada \(password lovelace\) .+ grace \(password hopper\) .+\nThe API is documented at \1\/docs\. Commands for curl are at \1\/curl\.\n$/)
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
  const form = await app.inject({ method: 'POST', url: '/login', payload: { username: 'ada', password: 'lovelace' }, headers: html })
  t.equal(form.statusCode, 429, 'the form has no limit of its own')
  t.match(form.payload, /<h1>Too many attempts.*wait a minute/s)
  t.match(form.headers['retry-after'], /^\d+$/)
})
