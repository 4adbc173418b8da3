// @alone
/** The example of `npm start` as a visitor sees it: in headless Chromium. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import Fastify, { type FastifyInstance } from 'fastify'
import { type BrowserContext, type Locator, type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { memorySessions, type SessionStore } from '../../lib/index.ts'
import { openBrowser, skip } from './browser.ts'
import { warnings } from '../helper.ts'

interface Service {
  createService: (options?: { fastify?: object, secret?: string, store?: SessionStore, cookieSecure?: boolean }) => Promise<FastifyInstance>
}
const example = new URL('../../examples/web/server.js', import.meta.url).href
const { createService }: Service = await import(example)

// A test allows the cookies over plain HTTP.
warnings(t, 'W10')

const secret = 'a secret for tests only, of more than thirty-two bytes'
const people = { ada: 'lovelace', grace: 'hopper' }
const names = { access: '__Host-access_token', refresh: '__Host-refresh_token' }

// Every test has an application and a browser context of its own.
t.jobs = 4
const browser = openBrowser(t)

interface Visit {
  app: FastifyInstance
  address: string
  context: BrowserContext
  page: Page
}

/** Closes the connections that a browser keeps open, too. */
function stop (app: FastifyInstance): Promise<undefined> {
  app.server.closeAllConnections()
  return app.close()
}

/** A browser that was never at an address. */
async function openDevice (t: Test, address: string, options: { userAgent?: string, javaScriptEnabled?: boolean, viewport?: { width: number, height: number } } = {}): Promise<{ context: BrowserContext, page: Page }> {
  const context = await (await browser()).newContext({ baseURL: address, ...options })
  t.teardown(() => context.close())
  // A page that never shows what a test waits for ends with the limit of the test file, which a busy machine does not reach.
  context.setDefaultTimeout(0)
  const page = await context.newPage()
  page.on('pageerror', (error) => t.fail('no script of a page fails', { error }))
  page.on('console', (message) => { if (message.text().includes('Content Security Policy')) t.fail(message.text()) })
  return { context, page }
}

/** A service of its own and a browser that was never there. */
async function visit (t: Test, { prepare, ...options }: { cookieSecure?: boolean, store?: SessionStore, prepare?: (app: FastifyInstance) => void } = {}): Promise<Visit> {
  const app = await createService({ secret, ...options })
  prepare?.(app)
  t.teardown(() => stop(app))
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  return { app, address, ...await openDevice(t, address) }
}

/** Fills in the form of the login page. */
async function logIn (page: Page, name: keyof typeof people = 'ada', password = people[name]): Promise<void> {
  await page.getByLabel('Name').fill(name)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Log in' }).click()
}

const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name }).waitFor()

/** Waits until the client of a page knows who is logged in, so that it sends no request of its own any more. */
const known = (page: Page) => page.evaluate("import('/session.js').then(({ client }) => client.load())")

/** Logs in and waits for a page. */
async function logInTo (page: Page, path: string, title: string, name?: keyof typeof people): Promise<void> {
  await page.goto(path)
  await logIn(page, name)
  await heading(page, title)
  await known(page)
}

const cookie = async (context: BrowserContext, name: string) => (await context.cookies()).find((candidate) => candidate.name === name)

/** Puts another access token in the place of the one that the browser has. */
async function replaceToken (context: BrowserContext, value: string): Promise<void> {
  const current = await cookie(context, names.access)
  if (current === undefined) throw new Error('there is no access token')
  await context.addCookies([{ ...current, value }])
}

/** As if time had passed: a token of ada that expired an hour ago, beyond any leeway. */
async function expire ({ app, context }: Visit): Promise<void> {
  await replaceToken(context, await app.tokenAuth.generateAccessToken({ user_id: 1, scopes: ['reports'] }, {
    extendPayload: (payload) => ({ ...payload, exp: Math.floor(Date.now() / 1000) - 3600 })
  }))
}

/** Waits until these fields are marked as wrong, with a message each, and the focus is on the first one. */
async function wrongFields (page: Page, names: string[]): Promise<void> {
  await page.locator(`[name="${names[0]}"][aria-invalid=true]:focus`).waitFor()
  const found = await page.evaluate('Array.from(document.querySelectorAll(\'[aria-invalid=true]\'), (field) => [field.name, document.getElementById(field.getAttribute(\'aria-describedby\')).textContent])') as string[][]
  assert.deepEqual(found.map(([name]) => name), names)
  assert.equal(new Set(found.map(([, message]) => message).filter(Boolean)).size, names.length, 'each has a message of its own')
}

/** What elements show, without line breaks. */
const textsOf = async (elements: Locator) => (await elements.allTextContents()).map((text) => text.trim().replace(/\s+/g, ' '))

/** Notes what a page requests from now on. */
function requestsOf (page: Page): string[] {
  const urls: string[] = []
  page.on('request', (request) => { urls.push(`${request.method()} ${new URL(request.url()).pathname}`) })
  return urls
}

t.test('a visitor who logs in is known on every page, by cookies that no script can read', { skip }, async (t) => {
  const { address, context, page } = await visit(t)
  await page.goto('/')
  await page.getByRole('link', { name: 'Log in' }).click()
  await logIn(page)
  await page.getByText('ada', { exact: true }).last().waitFor()
  await page.getByRole('button', { name: 'Log out' }).waitFor()
  t.equal(page.url(), `${address}/`)
  const flags = { domain: '127.0.0.1', path: '/', httpOnly: true, secure: true, sameSite: 'Lax' }
  for (const name of [names.access, names.refresh]) {
    const found = await cookie(context, name)
    t.match(found, flags)
    t.equal(Math.round((found?.expires ?? 0) / 86_400 - Date.now() / 86_400_000), 30, 'the cookie outlives the browser, by 30 days')
  }
  t.equal((await context.cookies()).length, 2)
  t.equal(await page.evaluate('document.cookie'), '')
  const answers = await page.evaluate(`Promise.all(['/auth', '/auth/refresh'].map(async (path) => {
    const body = JSON.stringify({ username: 'ada', password: 'lovelace' })
    const response = await fetch(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    return [response.status, await response.text()]
  }))`)
  t.same(answers, [[200, '{}'], [200, '{}']], 'nor is it in the body of a login or a refresh')
  t.equal(await page.evaluate('localStorage.length + sessionStorage.length'), 0, 'no token is stored elsewhere')
})

t.test('with COOKIE_SECURE=false, login and logout work with cookie names without a prefix', { skip }, async (t) => {
  const { context, page } = await visit(t, { cookieSecure: false })
  await logInTo(page, '/profile.html', 'Your profile')
  t.same((await context.cookies()).map(({ name, secure }) => [name, secure]).sort(), [['access_token', false], ['refresh_token', false]])
  await page.getByRole('button', { name: 'Log out' }).click()
  await heading(page, 'Log in')
  t.same(await context.cookies(), [])
})

// Promise: security/sibling-subdomain-sets
t.test('a sibling subdomain cannot plant a cookie with the name of the access token, because the name begins with __Host-', { skip }, async (t) => {
  for (const [cookieSecure, name] of [[true, names.access], [false, 'access_token']] as const) {
    const { app, address, page } = await visit(t, { cookieSecure })
    const { port } = new URL(address)
    const planted = await app.tokenAuth.generateAccessToken({ user_id: 2, scopes: ['reports:read'] })
    await page.goto(`http://evil.shop.localhost:${port}/icon.svg`)
    await page.evaluate(`document.cookie = '${name}=${planted}; Domain=shop.localhost; Secure; Path=/'`)
    await page.goto(`http://app.shop.localhost:${port}/hello`)
    t.equal(await page.locator('pre').textContent(), JSON.stringify({ hello: cookieSecure ? 'stranger' : 'grace', isLoggedIn: !cookieSecure }), name)
  }
})

t.test('a wrong password is refused with a message, and the visitor can try again at once', { skip }, async (t) => {
  const { context, page } = await visit(t)
  await page.goto('/login.html')
  await logIn(page, 'ada', 'wrong')
  await page.getByRole('alert').getByText('Wrong name or password.').waitFor()
  t.same(await context.cookies(), [])
  t.equal(await page.getByLabel('Name').inputValue(), 'ada')
  await wrongFields(page, ['password'])
  // Only the keyboard from here: the password is selected, typing replaces it.
  await page.keyboard.type(people.ada)
  await page.keyboard.press('Enter')
  await heading(page, 'fastify-token-auth')
})

t.test('who tries too many passwords is told to wait', { skip }, async (t) => {
  const { app, page } = await visit(t)
  await page.goto('/login.html')
  await Promise.all(Array.from({ length: 20 }, () => app.inject({ method: 'POST', url: '/auth', payload: {} })))
  await logIn(page)
  await page.getByRole('alert').getByText('Too many attempts. Please wait a minute.').waitFor()
})

t.test('a visitor can log in and out with the keyboard alone', { skip }, async (t) => {
  const { context, page } = await visit(t)
  await page.goto('/')
  await page.getByRole('link', { name: 'Log in' }).waitFor()
  await page.keyboard.press('Tab')
  t.equal(await page.locator(':focus').textContent(), 'Skip to the content')
  await page.getByRole('link', { name: 'Log in' }).press('Enter')
  await page.waitForURL('**/login.html')
  await page.locator('#username:focus').waitFor()
  await page.keyboard.type('ada')
  await page.keyboard.press('Tab')
  await page.keyboard.type(people.ada)
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Log out' }).press('Enter')
  await heading(page, 'Log in')
  t.same(await context.cookies(), [])
})

t.test('who asks for a page that needs login gets to the login page, and back to that page afterwards', { skip }, async (t) => {
  const { address, page } = await visit(t)
  const response = await page.goto('/reports.html?month=2&year=2026')
  t.equal(response?.request().redirectedFrom()?.url(), `${address}/reports.html?month=2&year=2026`)
  t.equal(new URL(page.url()).pathname, '/login.html')
  await logIn(page)
  await heading(page, 'Reports')
  t.equal(page.url(), `${address}/reports.html?month=2&year=2026`)
  t.same(await page.getByRole('heading', { level: 2 }).allTextContents(), ['March', 'February', 'January'])
})

t.test('a login never leads to another site, whatever the address of the login page says', { skip }, async (t) => {
  const { address, context, page } = await visit(t)
  const elsewhere: string[] = []
  await context.route((url) => url.origin !== address, (route) => { elsewhere.push(route.request().url()); return route.abort() })
  const { port } = new URL(address)
  await page.goto('/login.html?next=//example.com')
  await logIn(page)
  await page.waitForURL(`${address}/`)
  // With a session, the login page goes on by itself.
  for (const next of [
    'https://example.com/', '//example.com', '/\\example.com', '\\\\example.com', '/.//example.com', '/%2e//example.com', 'https:example.com', '\t//example.com',
    'javascript:alert(1)', 'data:text/html,x', `http://127.0.0.1:${port}@example.com/`, `http://127.0.0.1.example.com:${port}/`, 'http://[', ''
  ]) {
    await page.goto(`/login.html?next=${encodeURIComponent(next)}`)
    await page.waitForURL((url) => url.pathname !== '/login.html')
    t.equal(new URL(page.url()).origin, address, JSON.stringify(next))
  }
  t.same(elsewhere, [])
})

t.test('the profile page shows what the current-user endpoint says', { skip }, async (t) => {
  const { page } = await visit(t)
  await logInTo(page, '/profile.html', 'Your profile', 'grace')
  await page.getByText('reports:read').waitFor()
  t.same(await page.locator('dd').allTextContents(), ['grace', '2', 'reports:read'])
})

t.test('an access token that has expired is renewed without a word when a page is opened', { skip }, async (t) => {
  const visited = await visit(t)
  const { address, context, page } = visited
  await logInTo(page, '/reports.html', 'Reports')
  await expire(visited)
  const before = await cookie(context, names.access)
  await page.goto('/profile.html?tab=1')
  await heading(page, 'Your profile')
  await page.getByText('reports', { exact: true }).waitFor()
  t.equal(page.url(), `${address}/profile.html?tab=1`)
  t.not((await cookie(context, names.access))?.value, before?.value)
  t.match(await cookie(context, names.access), { httpOnly: true, secure: true, sameSite: 'Lax' })
})

t.test('an access token that expires while a page is open is renewed without a word, once for all requests', { skip }, async (t) => {
  const visited = await visit(t)
  const { page } = visited
  await logInTo(page, '/reports.html', 'Reports')
  await expire(visited)
  const requests = requestsOf(page)
  const statuses = await page.evaluate(`import('/session.js').then(({ client }) =>
    Promise.all(['/reports', '/token', '/private'].map(async (path) => (await client.fetch(path)).status)))`)
  t.same(statuses, [200, 200, 200])
  t.equal(requests.filter((request) => request.includes(' /auth/')).join(), 'GET /auth/me')
  await expire(visited)
  await Promise.all([
    page.waitForResponse((response) => response.url().endsWith('/token') && response.ok()),
    page.getByRole('button', { name: 'Send a request' }).click()
  ])
  t.equal(await page.locator('#message').textContent(), '')
})

t.test('a session that cannot be renewed ends on the login page, and goes on where it ended', { skip }, async (t) => {
  const visited = await visit(t)
  const { address, context, page } = visited
  await logInTo(page, '/reports.html?month=2', 'Reports')
  await expire(visited)
  await context.clearCookies({ name: names.refresh })
  await page.getByRole('button', { name: 'Send a request' }).click()
  await heading(page, 'Log in')
  await page.getByText('Your session has expired').waitFor()
  await logIn(page)
  await heading(page, 'Reports')
  t.equal(page.url(), `${address}/reports.html?month=2`)
})

const firefox = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0'
const ended = 'Your session was ended from another device.'

// Promise: sessions/7-5-2
t.test('who ends the session of another device logs it out, and the login page there says so', { skip }, async (t) => {
  const { address, context, page } = await visit(t)
  const other = await openDevice(t, address, { userAgent: firefox })
  await logInTo(other.page, '/reports.html', 'Reports')
  await logInTo(page, '/devices.html', 'Your devices')
  const items = page.getByRole('listitem')
  await items.nth(1).waitFor()
  t.match(await textsOf(items), [/^Chrome on Linux This device Logged in: .+ Last used: now$/, /^Firefox on Windows End Logged in: .+ Last used: .+ \d\d:\d\d UTC$/])

  // With the keyboard: the focus does not get lost with the button.
  await page.getByRole('button', { name: 'End Firefox on Windows' }).press('Enter')
  await page.getByRole('status').getByText('The device is logged out.').waitFor()
  t.equal(await items.count(), 1)
  t.equal(await page.locator(':focus').textContent(), 'The device is logged out.')
  t.equal(await page.getByRole('button', { name: 'End all others' }).count(), 0)

  await other.page.getByRole('button', { name: 'Send a request' }).click()
  await other.page.getByRole('status').getByText(ended).waitFor()
  t.equal(new URL(other.page.url()).searchParams.get('next'), '/reports.html')
  // A page that is opened anew says it too.
  await other.page.goto('/profile.html')
  await other.page.getByRole('status').getByText(ended).waitFor()
  await logIn(other.page)
  await heading(other.page, 'Your profile')
  await page.reload()
  await items.nth(1).waitFor()
  t.equal((await context.cookies()).length, 2, 'the first device is still logged in')
})

t.test('who ends all other sessions stays logged in alone', { skip }, async (t) => {
  const { app, address, page } = await visit(t)
  const [ada, grace] = await Promise.all(Object.entries(people).map(async ([username, password]) => {
    const { cookies } = await app.inject({ method: 'POST', url: '/auth', payload: { username, password } })
    return cookies.map(({ name, value }) => `${name}=${value}`).join('; ')
  }))
  const other = await openDevice(t, address, { userAgent: firefox })
  await logInTo(other.page, '/reports.html', 'Reports')
  await logInTo(page, '/devices.html', 'Your devices')
  await page.getByRole('listitem').nth(2).waitFor()
  await page.getByRole('button', { name: 'End all others' }).click()
  await page.getByText('All other devices are logged out.').waitFor()
  t.equal(await page.getByRole('listitem').count(), 1)
  await other.page.goto('/profile.html')
  await other.page.getByText(ended).waitFor()
  const statusOf = async (cookie = '') => (await app.inject({ url: '/private', headers: { cookie } })).statusCode
  t.equal(await statusOf(ada), 401)
  t.equal(await statusOf(grace), 200, 'another user')
})

t.test('the login page says that a visitor has logged out, and in which other way a session is over', { skip }, async (t) => {
  const visited = await visit(t)
  const { app, context, page } = visited
  const notice = page.locator('#notice')
  await logInTo(page, '/profile.html', 'Your profile')
  await page.getByRole('button', { name: 'Log out' }).click()
  await notice.getByText('You are logged out.').waitFor()

  // Ended so long ago that the access token has expired.
  await logIn(page)
  await heading(page, 'fastify-token-auth')
  // Otherwise the page would learn of the end when it asks, and leave for the login page by itself.
  await known(page)
  t.equal(await app.tokenAuth.sessions.endAll(1), 1)
  await expire(visited)
  await page.goto('/profile.html')
  await notice.getByText(ended).waitFor()

  await context.clearCookies()
  for (const address of ['/login.html', '/login.html?reason=constructor', '/login.html?reason=%3Cb%3Ehello', '/login.html?next=%3Cb%3Ehello']) {
    await page.goto(address)
    await page.locator('#username:focus').waitFor()
    t.equal(await notice.textContent(), '', `${address}: nothing has happened`)
  }
  await page.goto('/profile.html?tab=1')
  t.equal(await notice.textContent(), 'The page “Your profile” is for users who are logged in.')
  await logIn(page)
  await heading(page, 'Your profile')
  await page.goto('/login.html')
  t.equal(await notice.textContent(), 'You are logged in as ada. A login as another user ends that.')
})

// Promise: sessions/store-down-login
t.test('an outage of the store logs nobody out: the page waits and tries again, and says so if that is in vain', { skip }, async (t) => {
  const store = memorySessions()
  let isDown = false
  const failing = new Proxy(store, {
    get: (target, name: keyof SessionStore) => isDown && name !== 'endedSince' ? async () => { throw new Error('down') } : target[name]
  })
  const visited = await visit(t, { store: failing })
  const { context, page } = visited
  await page.clock.install()
  await logInTo(page, '/reports.html', 'Reports')
  const cookies = await context.cookies()
  await expire(visited)

  isDown = true
  const refused = () => page.waitForResponse((response) => response.url().endsWith('/auth/me?optional=true') && response.status() === 503)
  await Promise.all([refused(), page.getByRole('button', { name: 'Send a request' }).click()])
  isDown = false
  await Promise.all([
    page.waitForResponse((response) => response.url().endsWith('/token') && response.ok()),
    page.clock.runFor(5000)
  ])
  t.equal(await page.locator('#message').textContent(), '')

  await expire(visited)
  isDown = true
  await Promise.all([refused(), page.getByRole('button', { name: 'Send a request' }).click()])
  await Promise.all([refused(), page.clock.runFor(5000)])
  await Promise.all([refused(), page.clock.runFor(5000)])
  await page.getByRole('alert').getByText('You are still logged in.').waitFor()
  t.ok((await context.cookies()).some(({ name }) => name === names.refresh))
  t.equal((await context.cookies()).length, cookies.length)

  // A logout clears the cookies all the same, and says what it could not do.
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByText('the server could not end the session').waitFor()
  t.same(await context.cookies(), [])
})

t.test('a user who lacks the scope of a page is told so, and can go elsewhere', { skip }, async (t) => {
  const { address, page } = await visit(t)
  await logInTo(page, '/reports.html', 'Reports', 'grace')
  const response = await page.goto('/new-report.html')
  t.equal(response?.status(), 403)
  t.match(response?.headers()['www-authenticate'], /error="insufficient_scope"/)
  await heading(page, 'Not allowed')
  t.equal(page.url(), `${address}/new-report.html`)
  await page.getByRole('link', { name: 'log in as another user' }).click()
  await logIn(page, 'ada')
  await heading(page, 'Write a report')
})

t.test('who logs out leaves no cookies, no page in the history, and no refresh token that works', { skip }, async (t) => {
  const { app, context, page } = await visit(t)
  await logInTo(page, '/profile.html', 'Your profile')
  const stolen = (await context.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ')
  const headers = { cookie: stolen, 'sec-fetch-site': 'same-origin' }
  t.equal((await app.inject({ method: 'POST', url: '/auth/refresh', headers })).statusCode, 200)
  await page.goto('/devices.html')
  await page.getByRole('button', { name: 'Log out' }).click()
  await heading(page, 'Log in')
  t.same(await context.cookies(), [])
  t.equal((await app.inject({ method: 'POST', url: '/auth/refresh', headers })).statusCode, 401)
  await page.goBack()
  await heading(page, 'Log in')
})

t.test('a logout ends one session, not those of other devices', { skip }, async (t) => {
  const { app, page } = await visit(t)
  const { cookies } = await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: people.ada } })
  await logInTo(page, '/profile.html', 'Your profile')
  await page.getByRole('button', { name: 'Log out' }).click()
  await heading(page, 'Log in')
  const headers = { cookie: cookies.map(({ name, value }) => `${name}=${value}`).join('; '), 'sec-fetch-site': 'same-origin' }
  const refresh = await app.inject({ method: 'POST', url: '/auth/refresh', headers })
  t.equal(refresh.statusCode, 200)
})

t.test('a forged cookie opens nothing: the visitor gets to the login page', { skip }, async (t) => {
  const { context, page } = await visit(t)
  await logInTo(page, '/profile.html', 'Your profile', 'grace')
  const genuine = (await cookie(context, names.access))?.value ?? ''
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const payload = encode({ user_id: 1, exp: 4102444800, scopes: ['reports'] })
  const cookies = await context.cookies()
  await context.clearCookies({ name: names.refresh })
  for (const [title, forged] of Object.entries({
    'another payload': genuine.replace(/\.[^.]+\./, `.${payload}.`),
    'no signature': `${encode({ alg: 'none', typ: 'JWT' })}.${payload}.`,
    'another signature': genuine.replace(/[^.]+$/, (signature) => [...signature].reverse().join('')),
    nonsense: 'x'
  })) {
    await replaceToken(context, forged)
    await page.goto('/new-report.html')
    await page.getByLabel('Password').waitFor()
    t.equal(new URL(page.url()).pathname, '/login.html', title)
    await page.goto('/')
    await page.getByRole('link', { name: 'Log in' }).waitFor()
    t.equal((await cookie(context, names.access))?.value, forged, `${title}: no new token was given for it`)
  }
  await replaceToken(context, genuine)
  await page.goto('/profile.html')
  await heading(page, 'Your profile')
  // With a refresh token, a forged access token is renewed: to one with the rights that the user has.
  await context.addCookies(cookies)
  await replaceToken(context, genuine.replace(/\.[^.]+\./, `.${payload}.`))
  await page.goto('/new-report.html')
  await heading(page, 'Not allowed')
  await context.addCookies(cookies.map((current) => ({ ...current, value: current.value.replace(/^./, 'X') })))
  await page.goto('/new-report.html')
  await page.getByLabel('Password').waitFor()
})

t.test('pages of other sites can make a browser send requests, which change nothing', { skip }, async (t) => {
  const { address, context, page } = await visit(t)
  await logInTo(page, '/profile.html', 'Your profile')
  const foreign = Fastify()
  t.teardown(() => stop(foreign))
  foreign.get('/', (_request, reply) => reply.type('text/html').send(`<form method="post" action="${address}/auth/logout"><button>Win</button></form>`))
  const { port } = new URL(await foreign.listen({ port: 0, host: 'localhost' }))
  // The first is another origin of the same site, to which Lax cookies are sent too.
  for (const origin of [`http://127.0.0.1:${port}`, `http://localhost:${port}`]) {
    const other = await context.newPage()
    await other.goto(`${origin}/`)
    const [login] = await Promise.all([
      other.waitForResponse(`${address}/auth`),
      other.evaluate(`fetch('${address}/auth', { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}' })`)
    ])
    t.equal(login.status(), 403, `${origin}: a login as somebody else`)
    const [logout] = await Promise.all([other.waitForResponse(`${address}/auth/logout`), other.getByRole('button').click()])
    t.equal(logout.status(), 403, `${origin}: a logout`)
  }
  await page.reload()
  await page.getByRole('button', { name: 'Log out' }).waitFor()
  t.equal(await page.locator('dd').first().textContent(), 'ada')
})

t.test('a user writes a report, also if the access token has expired meanwhile, and others read who wrote it', { skip }, async (t) => {
  const visited = await visit(t)
  const { address, page } = visited
  await logInTo(page, '/new-report.html', 'Write a report')
  await page.getByLabel('Title').fill('April <b>')
  await page.getByLabel('Text').fill('First line\nsecond line')
  await expire(visited)
  await page.getByRole('button', { name: 'Save' }).click()
  await heading(page, 'Reports')
  const other = await openDevice(t, address)
  await logInTo(other.page, '/reports.html', 'Reports', 'grace')
  const first = other.page.getByRole('article').first()
  t.match(await textsOf(first), [/^April <b> ada, \d+ \w+ \d{4}, \d\d:\d\d UTC First line second line$/])
  t.equal(await other.page.getByRole('article').count(), 4)
})

t.test('the panel counts down the access token and its leeway, lets it expire at once, and shows the renewal', { skip }, async (t) => {
  const { page } = await visit(t)
  await page.clock.install()
  await logInTo(page, '/reports.html', 'Reports')
  const life = page.locator('#life')
  const shows = async (pattern: RegExp) => await life.filter({ hasText: pattern }).waitFor()
  await shows(/^The access token expires in (30:00|29:\d\d)\.$/)
  await page.clock.fastForward('29:00')
  await shows(/^The access token expires in (1:00|0:\d\d)\.$/)
  await page.clock.fastForward('02:00')
  await shows(/^Expired\. The leeway ends in (2:00|1:\d\d)\.$/)
  await page.clock.fastForward('03:00')
  await shows(/^Expired\. The next request renews it\.$/)

  // The clock of the browser was wrong: the server says how long the token is valid.
  const trace = page.locator('#trace')
  await page.getByRole('button', { name: 'Send a request' }).click()
  await shows(/expires in (30:00|29:\d\d)/)
  await trace.filter({ hasText: /^\/token 200$/ }).waitFor()

  await page.getByRole('button', { name: 'Expire now' }).click()
  await shows(/^Expired\. The next request renews it\.$/)
  await page.getByRole('button', { name: 'Send a request' }).click()
  await shows(/expires in (30:00|29:\d\d)/)
  await trace.filter({ hasText: /^Renewed: \/token 401 → \/auth\/me 200 → \/token 200$/ }).waitFor()

  await page.getByRole('button', { name: 'Expire now' }).click()
  await shows(/^Expired\. The next request renews it\.$/)
  await page.goto('/profile.html')
  await heading(page, 'Your profile')
  t.equal(await trace.textContent(), 'The access token had expired, and was renewed.')
})

t.test('the first page knows a visitor whose access token has expired, and shows the link to the login page if the session is over', { skip }, async (t) => {
  const visited = await visit(t)
  const { app, page } = visited
  await logInTo(page, '/profile.html', 'Your profile')
  await expire(visited)
  await page.goto('/')
  await page.getByRole('button', { name: 'Log out' }).waitFor()
  // The page has asked who is logged in.
  await page.waitForLoadState('networkidle')
  await app.tokenAuth.sessions.endAll(1)
  await expire(visited)
  await page.goto('/')
  await page.getByRole('link', { name: 'Log in' }).click()
  await page.getByRole('status').getByText(ended).waitFor()
})

t.test('a logout in one tab logs out the other tabs, and a login there leads back to where they were', { skip }, async (t) => {
  const { address, context, page } = await visit(t)
  await logInTo(page, '/profile.html', 'Your profile')
  const tab = await context.newPage()
  await tab.goto('/reports.html?month=2')
  await heading(tab, 'Reports')
  await page.getByRole('button', { name: 'Log out' }).click()
  await heading(tab, 'Log in')
  t.equal(await tab.locator('#notice').textContent(), 'You are logged out.')
  await logIn(tab)
  await heading(tab, 'Reports')
  t.equal(tab.url(), `${address}/reports.html?month=2`)
  // The tab of the logout does not: its next user may be another one.
  await heading(page, 'Log in')
  t.equal(page.url(), `${address}/login.html?reason=logout`)
})

t.test('the menu marks the page that is open, and no other page', { skip }, async (t) => {
  const { page } = await visit(t)
  await logInTo(page, '/profile.html', 'Your profile')
  for (const [path, marked] of Object.entries({
    '/': ['Example'], '/reports.html': ['Reports'], '/new-report.html': [], '/devices.html?ended=one': ['Devices'], '/profile.html': ['Profile'], '/nowhere': [], '/login.html?change': []
  })) {
    await page.goto(path)
    t.same(await page.locator('[aria-current]').allTextContents(), marked, path)
  }
})

t.test('all buttons that end sessions look the same, and only what a page is for is filled', { skip }, async (t) => {
  const { app, page } = await visit(t)
  await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: people.ada }, headers: { 'user-agent': firefox } })
  await logInTo(page, '/devices.html', 'Your devices')
  const looks = async () => Object.fromEntries(await page.evaluate(`Array.from(document.querySelectorAll('main button'), (button) => {
    const { backgroundColor, borderColor, color, font, padding } = getComputedStyle(button)
    return [button.textContent, { backgroundColor, borderColor, color, font, padding }]
  })`) as Array<[string, { backgroundColor: string }]>)
  const { End: end, 'End all others': others } = await looks()
  t.same(others, end)
  t.equal(end?.backgroundColor, 'rgba(0, 0, 0, 0)')
  await page.goto('/new-report.html')
  const { Save: save } = await looks()
  t.match(save?.backgroundColor, /^rgb\(/)
})

t.test('without JavaScript, a user logs in, writes, sees and ends sessions, stays logged in when the token expires, and logs out', { skip }, async (t) => {
  const app = await createService({ secret })
  t.teardown(() => stop(app))
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  const { context, page } = await openDevice(t, address, { javaScriptEnabled: false })
  const click = async (name: string) => await page.getByRole('button', { name }).click()
  await page.goto('/new-report.html')
  await logIn(page, 'ada', 'wrong')
  await page.getByRole('alert').getByText('Wrong name or password.').waitFor()
  t.equal(await page.getByLabel('Name').inputValue(), 'ada')
  await wrongFields(page, ['password'])
  await page.getByLabel('Password').fill(people.ada)
  await click('Log in')
  await heading(page, 'Write a report')
  t.equal(page.url(), `${address}/new-report.html`)

  // The token expires while the form is filled in.
  const write = async (title: string) => {
    await page.getByLabel('Title').fill(title)
    await page.getByLabel('Text').fill('Showers')
  }
  await write('April')
  await expire({ app, address, context, page })
  await click('Save')
  await heading(page, 'Reports')
  t.match(await textsOf(page.getByRole('article').first()), [/^April ada, .+ Showers$/])

  await click('Expire now')
  await page.locator('#trace').getByText('The access token had expired, and was renewed.').waitFor()
  t.equal(page.url(), `${address}/reports.html`)

  // The session ends while the form is filled in: the browser keeps it.
  await page.goto('/new-report.html')
  await write('May')
  await app.tokenAuth.sessions.endAll(1)
  await click('Save')
  await heading(page, 'Not logged in')
  const [tab] = await Promise.all([context.waitForEvent('page'), page.getByRole('link', { name: 'log in in another tab' }).click()])
  await logIn(tab)
  await heading(tab, 'Write a report')
  await page.reload()
  await heading(page, 'Reports')
  t.match(await textsOf(page.getByRole('article').first()), [/^May ada, .+ Showers$/])

  await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: people.ada }, headers: { 'user-agent': firefox } })
  await page.goto('/devices.html')
  await click('End Firefox on Windows')
  await page.getByRole('status').getByText('The device is logged out.').waitFor()
  t.equal(await page.getByRole('listitem').count(), 1)

  await click('Log out')
  await page.getByRole('status').getByText('You are logged out.').waitFor()
  t.same(await context.cookies(), [])
  await logIn(page, 'grace')
  await heading(page, 'fastify-token-auth')
  await app.tokenAuth.sessions.endAll(2)
  await page.goto('/profile.html')
  await page.getByRole('status').getByText(ended).waitFor()
})

t.test('pages fit into narrow screens with a menu of one line, and with letters of twice the size, nothing moves while they load, and the focus can be seen', { skip }, async (t) => {
  const { app, address, context, page } = await visit(t)
  await context.addInitScript('window.shifts = []; new PerformanceObserver((list) => { for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) shifts.push(value) }).observe({ type: "layout-shift", buffered: true })')
  await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: people.ada }, headers: { 'user-agent': firefox } })
  const paths = ['/', '/reports.html', '/new-report.html', '/devices.html', '/profile.html', '/nowhere']
  for (const isLoggedIn of [false, true]) {
    if (isLoggedIn) await logInTo(page, '/profile.html', 'Your profile')
    for (const [width, height] of [[320, 640], [390, 844], [1100, 800]] as const) {
      await page.setViewportSize({ width, height })
      for (const path of paths) {
        await page.goto(path)
        await page.getByRole('heading', { level: 1 }).waitFor()
        const found = await page.evaluate(`({
          width: document.documentElement.scrollWidth,
          lines: new Set(Array.from(document.querySelectorAll('nav a'), (link) => link.getBoundingClientRect().top)).size,
          outside: Array.from(document.querySelectorAll('header *, .token *'), (element) => element.getBoundingClientRect().right).filter((right) => right > innerWidth).length,
          // A busy browser may paint a page of which it has parsed the beginning only, which moves a little in the header. Up to 0.1 counts as good.
          moves: shifts.reduce((sum, shift) => sum + shift, 0) > 0.01
        })`)
        t.same(found, { width, lines: 1, outside: 0, moves: false }, `${path} at ${width} px${isLoggedIn ? ' for a user' : ''}`)
        // The first page has a table, which keeps its columns.
        if (width === 390 && path !== '/') t.equal(await page.evaluate('document.documentElement.style.fontSize = "200%"; document.documentElement.scrollWidth'), width, `${path} with letters of twice the size`)
      }
    }
  }
  // "Skip to the content" and everything in the header.
  for (let count = 0; count < 8; count++) {
    await page.keyboard.press('Tab')
    t.equal(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle'), 'solid')
  }
  t.equal(page.url(), `${address}/nowhere`)
})

t.test('the documentation of the API lists the endpoints and calls them', { skip }, async (t) => {
  const { page } = await visit(t)
  await logInTo(page, '/profile.html', 'Your profile')
  await page.goto('/docs')
  for (const path of ['/auth', '/auth/verify', '/auth/me', '/auth/refresh', '/auth/logout', '/auth/sessions', '/reports']) {
    await page.locator(`[data-path="${path}"]`).first().waitFor()
  }
  await page.locator('[data-path="/auth/me"]').click()
  await page.getByRole('button', { name: 'Try it out' }).click()
  await page.getByRole('button', { name: 'Execute' }).click()
  t.match(await page.locator('.live-responses-table .microlight').first().textContent(), /"name": "ada"/)
})

t.test('a form says what is wrong with each field, keeps what was entered, and has the focus on the first wrong field, with and without JavaScript', { skip }, async (t) => {
  const { app, address, context, page } = await visit(t)
  await logInTo(page, '/new-report.html', 'Write a report')
  const plain = await openDevice(t, address, { javaScriptEnabled: false })
  await plain.context.addCookies(await context.cookies())
  await plain.page.goto('/new-report.html')
  const reportsOf = async () => (await app.inject({ url: '/reports', headers: { authorization: `Bearer ${(await cookie(context, names.access))?.value}` } })).json().reports.length
  for (const tab of [page, plain.page]) {
    const save = async (title: string, text: string) => {
      await tab.getByLabel('Title').fill(title)
      await tab.getByLabel('Text').fill(text)
      const [response] = await Promise.all([tab.waitForResponse((answer) => answer.request().method() === 'POST'), tab.getByRole('button', { name: 'Save' }).click()])
      return response.status()
    }
    t.equal(await save('', ' '), 400)
    await wrongFields(tab, ['title', 'text'])
    const [alert, field] = await Promise.all([tab.getByRole('alert').getByText('not saved.').boundingBox(), tab.getByLabel('Title').boundingBox()])
    t.ok(alert!.y + alert!.height < field!.y, 'what is wrong stands above the fields')
    t.equal(await save('April <b>', '\n'), 400)
    await wrongFields(tab, ['text'])
    t.same([await tab.getByLabel('Title').inputValue(), await tab.getByLabel('Text').inputValue()], ['April <b>', '\n'])
    t.equal(await tab.locator('#title-error').textContent(), '')
    await tab.getByRole('alert').getByText('Please correct what is marked.').waitFor()
  }
  t.equal(await reportsOf(), 3)
  await page.getByLabel('Text').fill('Showers')
  await page.getByLabel('Text').press('Tab')
  await page.keyboard.press('Enter')
  await heading(page, 'Reports')
  t.equal(await reportsOf(), 4)
})

/** Holds requests back: returns functions that wait for one, and let all of them go on. */
async function hold (page: Page, path: string): Promise<{ count: () => number, release: () => void }> {
  let release = () => {}
  let count = 0
  const released = new Promise<void>((resolve) => { release = resolve })
  await page.route(`**${path}`, async (route) => {
    if (route.request().method() !== 'POST') return await route.continue()
    count++
    await released
    return await route.continue()
  })
  return { count: () => count, release }
}

t.test('while a form is sent, its button says so and keeps the focus, a second click does nothing, and after five seconds the page says that it waits', { skip }, async (t) => {
  const { app, page } = await visit(t)
  await page.clock.install({ time: 0 })
  await page.clock.pauseAt(1000)
  await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: people.ada }, headers: { 'user-agent': firefox } })
  await page.goto('/login.html?next=/new-report.html')
  for (const [path, name, busy, title] of [
    ['/auth', 'Log in', 'Logging in...', 'Write a report'], ['/new-report.html', 'Save', 'Saving...', 'Reports'],
    ['/devices.html', 'End Firefox on Windows', 'Ending...', 'Your devices'], ['/auth/logout', 'Log out', 'Logging out...', 'Log in']
  ] as const) {
    if (path === '/auth') {
      await page.getByLabel('Name').fill('ada')
      await page.getByLabel('Password').fill(people.ada)
    }
    if (path === '/new-report.html') {
      await page.getByLabel('Title').fill('April')
      await page.getByLabel('Text').fill('Showers')
    }
    if (path === '/devices.html') await page.goto(path)
    const held = await hold(page, path)
    await page.getByRole('button', { name }).press('Enter')
    const button = page.getByRole('button', { name: busy })
    await button.waitFor()
    t.equal(await button.getAttribute('aria-disabled'), 'true', name)
    t.equal(await page.locator(':focus').textContent(), busy)
    await button.press('Enter')
    await button.click({ force: true })
    await page.clock.runFor(4900)
    t.equal(await page.locator('#waiting').textContent(), '')
    await page.clock.runFor(200)
    await page.locator('#waiting').getByText('This page waits for it.').waitFor()
    held.release()
    await heading(page, title)
    if (path === '/devices.html') await page.getByText('The device is logged out.').waitFor()
    t.equal(held.count(), 1, `${name}: one request`)
    // The scripts of the next page have begun.
    if (path !== '/auth/logout') await known(page)
    await page.unroute(`**${path}`)
  }
})

t.test('a form that could not be sent can be sent again: its button keeps the focus, and what went wrong is in view', { skip }, async (t) => {
  const { page } = await visit(t)
  await page.setViewportSize({ width: 390, height: 400 })
  await logInTo(page, '/new-report.html', 'Write a report')
  await page.getByLabel('Title').fill('April')
  await page.getByLabel('Text').fill('Showers')
  await page.route('**/new-report.html', (route) => route.abort())
  await page.getByRole('button', { name: 'Save' }).click()
  const alert = page.getByRole('alert').getByText('You are still logged in.')
  await alert.waitFor()
  const { y, height } = (await alert.boundingBox())!
  t.ok(y >= 0 && y + height <= 400)
  const button = page.getByRole('button', { name: 'Save' })
  t.equal(await page.locator(':focus').textContent(), 'Save')
  t.equal(await button.getAttribute('aria-disabled'), null)
  t.equal(await page.locator('#waiting').textContent(), '')
  await page.unroute('**/new-report.html')
  await button.click()
  await heading(page, 'Reports')
})

t.test('the login page says that the service is not available, with and without JavaScript', { skip }, async (t) => {
  const store = memorySessions()
  Object.assign(store, { create: async () => { throw new Error('down') } })
  const { address, context, page } = await visit(t, { store })
  const plain = await openDevice(t, address, { javaScriptEnabled: false })
  for (const tab of [page, plain.page]) {
    await tab.goto('/login.html')
    await logIn(tab)
    await tab.getByRole('alert').getByText('The service is not available at the moment.').waitFor()
    t.equal(await tab.getByLabel('Name').inputValue(), 'ada')
    t.equal(await tab.locator('[aria-invalid]').count(), 0)
    if (tab === plain.page) await tab.locator('#message:focus').waitFor()
  }
  t.same(await context.cookies(), [])
})

t.test('what a user has begun to write survives the end of the session, a logout in another tab, and Back, and is gone after a logout in this tab', { skip }, async (t) => {
  const { app, context, page } = await visit(t)
  const text = page.getByLabel('Text')
  // The policy of the pages allows no waitForFunction.
  const until = async (condition: string) => await page.evaluate(`new Promise((resolve) => { const look = () => { if (${condition}) resolve(); else requestAnimationFrame(look) }; look() })`)
  const hasText = async (expected: string) => {
    await heading(page, 'Write a report')
    await until(`document.getElementById('text').value === ${JSON.stringify(expected)}`)
  }
  const write = async (value: string) => {
    await text.fill(value)
    await until(`Object.values(sessionStorage).some((draft) => draft.includes(${JSON.stringify(value)}))`)
  }
  await logInTo(page, '/new-report.html', 'Write a report')
  await write('first')
  await page.reload()
  await hasText('first')
  await page.goto('/profile.html')
  await page.goBack()
  await hasText('first')

  // The session ends elsewhere.
  await write('second')
  await app.tokenAuth.sessions.endAll(1)
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText(ended).waitFor()
  await logIn(page)
  await heading(page, 'Write a report')
  await hasText('second')
  await known(page)

  await write('third')
  const tab = await context.newPage()
  await tab.goto('/profile.html')
  await tab.getByRole('button', { name: 'Log out' }).click()
  await heading(page, 'Log in')
  // Another user, with the rights for this page.
  await logIn(page, 'grace')
  await heading(page, 'Not allowed')
  await replaceToken(context, await app.tokenAuth.generateAccessToken({ user_id: 2, scopes: ['reports'] }))
  await page.goto('/new-report.html')
  await known(page)
  t.equal(await text.inputValue(), '')
  await write('of grace')
  await page.getByRole('button', { name: 'Log out' }).click()
  await heading(page, 'Log in')
  t.notMatch(await page.evaluate('JSON.stringify(sessionStorage)'), 'of grace')

  await page.goto('/login.html?next=/new-report.html')
  await logIn(page)
  await hasText('third')
  await page.getByLabel('Title').fill('April')
  await page.getByRole('button', { name: 'Save' }).click()
  await heading(page, 'Reports')
  t.equal(await page.evaluate('sessionStorage.length'), 0, 'the report was accepted')
})

t.test('a page of another user than the one who is logged in says so, is not sent, and can be loaded again', { skip }, async (t) => {
  const { context, page } = await visit(t)
  await logInTo(page, '/new-report.html', 'Write a report')
  await page.getByLabel('Title').fill('April')
  await page.getByLabel('Text').fill('Showers')
  const tab = await context.newPage()
  await tab.goto('/login.html?change')
  await logIn(tab, 'grace')
  await page.locator('#switched').getByText('You are now logged in as grace. This page still shows what ada sees.').waitFor()
  t.equal(await page.getByLabel('Text').inputValue(), 'Showers')
  const requests = requestsOf(page)
  await page.getByRole('button', { name: 'Save' }).click()
  await page.locator('#message').getByText('You are now logged in as grace.').waitFor()
  t.same(requests, [])
  await page.getByRole('button', { name: 'Reload this page' }).click()
  await heading(page, 'Not allowed')
  await tab.goto('/login.html?change&next=/new-report.html')
  await logIn(tab)
  await page.locator('#switched').getByText('You are now logged in as ada. This page still shows what grace sees.').waitFor()
})

t.test('every page has a description, and is printed without its header, panel and buttons', { skip }, async (t) => {
  const { page } = await visit(t)
  await logInTo(page, '/profile.html', 'Your profile')
  for (const path of ['/', '/reports.html', '/new-report.html', '/devices.html', '/profile.html', '/nowhere', '/login.html']) {
    await page.emulateMedia({ media: 'screen' })
    await page.goto(path)
    t.match(await page.locator('meta[name=description]').getAttribute('content'), /^[A-Z].{20,150}\.$/, path)
    await page.emulateMedia({ media: 'print' })
    for (const hidden of ['header', '#token', 'button', '.button']) {
      for (const element of await page.locator(hidden).all()) t.notOk(await element.isVisible(), `${path} ${hidden}`)
    }
    t.ok(await page.getByRole('heading', { level: 1 }).isVisible())
  }
})

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

t.test('axe finds nothing in any page in any state, light and dark, on narrow and wide screens, and all of them say "log in" and "log out"', { skip }, async (t) => {
  const script = readFileSync(axe, 'utf8')
  const store = memorySessions()
  const { create } = store
  // The pages of errors that no request causes at will.
  const errors = { 400: {}, 429: {}, 500: {}, 503: {}, CrossOriginRequest: { name: 'CrossOriginRequest', statusCode: 403 } }
  const { app, address, context, page } = await visit(t, {
    store,
    prepare (app) {
      app.get<{ Params: { name: keyof typeof errors } }>('/error/:name', { config: { tokenAuth: false } }, ({ params: { name } }) => {
        throw Object.assign(new Error('an error'), { statusCode: Number(name) }, errors[name])
      })
    }
  })
  const checked = new Set<string>()
  const check = async (state: string, tab = page) => {
    // Once for each page that is opened, because it is large.
    if (await tab.evaluate('typeof axe') === 'undefined') await tab.evaluate(`(() => { ${script} })()`)
    for (const colorScheme of ['light', 'dark'] as const) {
      await tab.emulateMedia({ colorScheme })
      for (const [width, height] of [[320, 640], [390, 844], [1280, 800]] as const) {
        await tab.setViewportSize({ width, height })
        const found = await tab.evaluate(`axe.run(document, {
          runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], resultTypes: ['violations'], preload: false, selectors: false
        }).then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' ')))`)
        t.same(found, [], `${state}, ${colorScheme}, ${width} px`)
        t.equal(await tab.evaluate('document.documentElement.scrollWidth'), width, `${state}, ${width} px wide`)
      }
    }
    t.notMatch(await tab.locator('body').innerText(), /\bsign(?:s|ed|ing)?[ -]?(?:in|on|out|off)\b|\blog(?:s|ged|ging)? ?(?:on|off)\b/i, `${state}: words`)
    checked.add((await tab.getByRole('heading', { level: 1 }).textContent())!)
  }
  const alert = (text: string) => page.getByRole('alert').getByText(text).waitFor()
  /** Sends a form of the page to a path. */
  const post = (path: string) => page.evaluate(`document.body.append(Object.assign(document.createElement('form'), { id: 'sent', method: 'post', action: '${path}' })); document.getElementById('sent').submit()`)

  for (const path of ['/', '/login.html', '/login.html?reason=cleared', '/profile.html', '/nowhere', ...Object.keys(errors).map((name) => `/error/${name}`)]) {
    await page.goto(path)
    await check(`${path} of a visitor`)
  }
  await post('/new-report.html')
  await heading(page, 'Not logged in')
  await check('a form of a visitor')
  await page.goto('/login.html')
  await logIn(page, 'ada', 'wrong')
  await wrongFields(page, ['password'])
  await check('a wrong password')
  Object.assign(store, { create: async () => { throw new Error('down') } })
  await logIn(page)
  await alert('The service is not available at the moment.')
  await check('a login that fails')
  await post('/login')
  await wrongFields(page, ['username', 'password'])
  await check('an empty login')
  Object.assign(store, { create })

  await logInTo(page, '/devices.html', 'Your devices')
  await check('one device')
  await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: people.ada }, headers: { 'user-agent': firefox } })
  for (const path of ['/', '/reports.html', '/devices.html', '/devices.html?ended=one', '/profile.html', '/nowhere', '/login.html?change', ...Object.keys(errors).map((name) => `/error/${name}`)]) {
    await page.goto(path)
    await check(path)
  }
  await page.goto('/profile.html')
  await page.getByRole('button', { name: 'Expire now' }).click()
  await page.getByText('The next request renews it.').waitFor()
  await check('an expired token')
  await page.getByRole('button', { name: 'Send a request' }).click()
  await page.getByText('Renewed: ').waitFor()
  await check('a renewed token')

  await page.goto('/new-report.html')
  await known(page)
  await check('a report')
  await page.getByRole('button', { name: 'Save' }).click()
  await wrongFields(page, ['title', 'text'])
  await check('a wrong report')
  await page.route('**/new-report.html', (route) => route.abort())
  await page.getByRole('button', { name: 'Save' }).click()
  await alert('You are still logged in.')
  await check('a report that could not be sent')
  await page.unroute('**/new-report.html')
  const held = await hold(page, '/new-report.html')
  await page.clock.install()
  await page.getByRole('button', { name: 'Save' }).click()
  await page.clock.runFor(5000)
  await page.locator('#waiting').getByText('waits').waitFor()
  await check('while a report is sent')
  held.release()
  const tab = await context.newPage()
  await tab.goto('/login.html?change')
  await logIn(tab, 'grace')
  await page.getByRole('button', { name: 'Reload this page' }).waitFor()
  await check('another user')
  await tab.goto('/new-report.html')
  await check('not allowed', tab)
  t.equal(new URL(page.url()).origin, address)
  t.same([...checked].sort(), [
    'Failed', 'From another site', 'Log in', 'Not allowed', 'Not available', 'Not found', 'Not logged in', 'Not understood', 'Reports', 'Too many attempts',
    'Write a report', 'Your devices', 'Your profile', 'fastify-token-auth'
  ], 'the titles of all pages')
})
