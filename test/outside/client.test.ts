/** The client in the tabs of Chromium. */
import { setImmediate as turn } from 'node:timers/promises'
import cors from '@fastify/cors'
import type { BrowserContext, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import type { TokenAuthOptions } from '../../lib/index.ts'
import { openChromium, skip } from './browser.ts'
import { host, listen, now, setClock, users } from '../helper.ts'
import { cookieOptions, later, script, service, type Service } from '../tabs.ts'

const [ada] = users

const browser = openChromium(t)

interface Visit extends Service { context: BrowserContext, open: () => Promise<Page> }

/** The service, its page, and the client in Chromium. Tabs have `client` and `reasons` as globals. */
async function visit (t: Test, mode: string, serverOptions: Partial<TokenAuthOptions>, storage = 'undefined'): Promise<Visit> {
  const served = await service(t, serverOptions)
  const { app } = served
  app.get('/client.js', async (_request, reply) => reply.type('text/javascript').send(script))
  app.get('/', async (_request, reply) => reply.type('text/html').send('<!doctype html><title>page</title><link rel="icon" href="data:,">'))
  const address = `http://127.0.0.1:${await listen(app)}`
  const context = await (await browser()).newContext({ baseURL: address })
  t.teardown(async () => {
    await context.close()
    app.server.closeAllConnections()
  })
  context.setDefaultTimeout(0)
  const open = async () => {
    const page = await context.newPage()
    page.on('pageerror', (error) => t.fail('no script fails', { error }))
    await page.goto('/')
    await page.evaluate(`import('/client.js').then(({ createClient }) => {
      globalThis.reasons = []
      globalThis.client = createClient({ mode: '${mode}', storage: ${storage}, onSignedOut: (reason) => reasons.push(reason) })
      globalThis.statuses = (count) => Promise.all(Array.from({ length: count }, async () => (await client.fetch('/private')).status))
    })`)
    return page
  }
  return { ...served, context, open }
}

const logIn = (page: Page) => page.evaluate(`client.login(${JSON.stringify(ada)}).then(({ status }) => status)`)
const inBrowser: readonly [string, string, Partial<TokenAuthOptions>, string?][] = [
  ['cookies', 'cookie', cookieOptions], ['localStorage', 'header', {}, 'localStorage']
]

for (const [kept, mode, serverOptions, storage] of inBrowser) {
  t.test(`Chromium, tokens in ${kept}: 100 requests at once in two tabs after expiry make ${kept === 'cookies' ? 'one refresh' : 'one refresh a tab at most'}`, { skip }, async (t) => {
    const { open, count, renewals, gate } = await visit(t, mode, serverOptions, storage)
    const tabs = [await open(), await open()]
    t.equal(await logIn(tabs[0]!), 200)
    const setTime = setClock(t, now())
    t.strictSame(await Promise.all(tabs.map((page) => page.evaluate('statuses(1)'))), [[200], [200]])
    setTime(now() + later)
    // Both tabs want to refresh.
    gate.beforeRefresh = async () => { while (count('GET /private') < 102) await turn() }
    t.strictSame(await Promise.all(tabs.map((page) => page.evaluate('statuses(50)'))), [Array(50).fill(200), Array(50).fill(200)])
    // A tab may see late what another stores. It then refreshes within the window of the rotation, and gets the same refresh token.
    t.ok(renewals() >= 1 && renewals() <= (kept === 'cookies' ? 1 : 2), String(renewals()))
    t.strictSame(await Promise.all(tabs.map((page) => page.evaluate('reasons'))), [[], []])
  })

  t.test(`Chromium, tokens in ${kept}: a logout in one tab logs out the other`, { skip }, async (t) => {
    const { app, open } = await visit(t, mode, serverOptions, storage)
    const [one, other] = [await open(), await open()]
    await logIn(one)
    t.strictSame(await other.evaluate('statuses(1)'), [200])
    t.equal(await one.evaluate('client.logout()'), true)
    await other.waitForFunction('reasons.length > 0')
    t.strictSame(await other.evaluate('reasons'), ['logout'])
    t.strictSame(await other.evaluate('statuses(1)'), [401])
    t.strictSame(await app.tokenAuth.sessions.list(1), [])
  })

  t.test(`Chromium, tokens in ${kept}: a service that is down for five seconds logs nobody out`, { skip }, async (t) => {
    const { app, open } = await visit(t, mode, serverOptions, storage)
    let isDown = false
    app.server.prependListener('request', ({ socket, url }) => { if (isDown && String(url).startsWith('/auth')) socket.destroy() })
    const page = await open()
    await page.clock.install()
    await logIn(page)
    const setTime = setClock(t, now())
    setTime(now() + later)
    isDown = true
    const failed = page.waitForEvent('requestfailed', (request) => request.url().includes('/auth/me'))
    const statuses = page.evaluate('statuses(3)')
    await failed
    isDown = false
    // The pause may begin after the event.
    const again = page.waitForRequest((request) => request.url().includes('/auth/me'))
    await page.clock.runFor(5000)
    await again
    t.strictSame(await statuses, [200, 200, 200])
    t.strictSame(await page.evaluate('reasons'), [])
  })
}

t.test('Chromium, tokens in localStorage: no redirect takes a token to another origin', { skip }, async (t) => {
  const other = host(t, { forceCloseConnections: true })
  await other.register(cors, { allowedHeaders: ['authorization', 'content-type'] })
  const came: unknown[] = []
  other.all('/', async ({ method, headers, body }) => { came.push([method, headers.authorization, body]) })
  const elsewhere = `http://127.0.0.1:${await listen(other)}/`

  const { open, redirects } = await visit(t, 'header', {}, 'localStorage')
  const page = await open()
  await page.clock.install()
  await logIn(page)
  redirects.set('/private', elsewhere)
  t.strictSame(await page.evaluate('statuses(1)'), [200])
  t.strictSame(came.splice(0), [['GET', undefined, undefined]], 'Chromium follows the redirect of another request, without the header')
  redirects.clear()

  redirects.set('/auth', elsewhere)
  await t.rejects(logIn(page), { message: /Failed to fetch/ })
  const setTime = setClock(t, now())
  setTime(now() + later)
  for (const [path, script, expected] of [['/auth/refresh', 'statuses(1)', [200]], ['/auth/logout', 'client.logout()', true]] as const) {
    redirects.set(path, elsewhere)
    const failed = page.waitForEvent('requestfailed', (request) => request.url().endsWith(path))
    const done = page.evaluate(script)
    await failed
    redirects.clear()
    // The pause may begin after the event.
    const again = page.waitForRequest((request) => request.url().endsWith(path))
    await page.clock.runFor(5000)
    await again
    t.strictSame(await done, expected)
  }
  t.strictSame(came, [])
})

t.test('Chromium: a tab that keeps its turn does not stop the others', { skip }, async (t) => {
  const { open, renewals } = await visit(t, 'cookie', cookieOptions)
  const [frozen, other] = [await open(), await open()]
  await logIn(other)
  await frozen.evaluate("new Promise((resolve) => { navigator.locks.request('fastify-token-auth ' + location.origin + '/auth', () => { resolve(); return new Promise(() => {}) }) })")
  await other.evaluate(`{
    const { timeout } = AbortSignal
    const patience = new AbortController()
    globalThis.giveUp = () => patience.abort()
    AbortSignal.timeout = (time) => time === 60_000 ? patience.signal : timeout.call(AbortSignal, time)
  }`)
  setClock(t, now())(now() + later)
  const statuses = other.evaluate('statuses(2)')
  await other.waitForFunction('navigator.locks.query().then(({ pending }) => pending.length > 0)')
  await other.evaluate('giveUp()')
  t.strictSame(await statuses, [200, 200])
  t.equal(renewals(), 1)
  t.equal(await frozen.evaluate('navigator.locks.query().then(({ held }) => held.length)'), 1)
})

t.test('Chromium, tokens in memory: nothing is stored, and tabs have logins of their own', { skip }, async (t) => {
  const { context, open } = await visit(t, 'header', {})
  const [one, other] = [await open(), await open()]
  await logIn(one)
  t.strictSame(await one.evaluate('statuses(1)'), [200])
  t.strictSame(await other.evaluate('statuses(1)'), [401])
  t.strictSame(await other.evaluate('reasons'), ['absent'])
  t.equal(await one.evaluate('localStorage.length + sessionStorage.length'), 0)
  t.strictSame(await context.cookies(), [])
})
