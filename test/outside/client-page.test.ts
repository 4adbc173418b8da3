/** docs/client.md, the page of docs/cookies.md and the recipe of a single-page app: their blocks run as they stand, in a service and in pages of Chromium; only the addresses are those of the test. */
import cors from '@fastify/cors'
import fastifyStatic from '@fastify/static'
import { readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import ts from 'typescript'
import tokenAuth, { AuthenticationFailed, type TokenAuthOptions } from '../../lib/index.ts'
import { openChromium, skip } from './browser.ts'
import { authenticate, host, listen, now, secret, setClock, shownUsers, together, warnings } from '../helper.ts'
import { programsIn, programWith, run } from '../programs.ts'

const read = (path: string) => readFileSync(new URL(`../../docs/${path}`, import.meta.url), 'utf8')
const page = read('client.md')
const programs = programsIn(page)
const ofOtherOrigins = programsIn(read('cookies.md'))
/** The page that uses the service of docs/cookies.md. */
const pageOfOtherOrigin = `
import { createClient } from 'fastify-token-auth/client'

const client = createClient({ baseUrl: 'https://api.example.org' })
const { ok } = await client.login({ name: 'ada', password: 'lovelace' })
const headers = { 'content-type': 'application/json' }
const response = await client.fetch('/notes', { method: 'POST', headers, body: '{"text":"First note"}' })
console.log(ok, await response.json())
`
const [, tags = ''] = /```html\n([\s\S]*?)```/.exec(page) ?? []
const script = ts.transpileModule(readFileSync(new URL('../../lib/client.ts', import.meta.url), 'utf8'), {
  compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext }
}).outputText
const serving = programWith(programs, 'sendFile')
const browser = openChromium(t)
const recipe = programsIn(read('recipes/single-page-app.md'))

/** The examples call the field `name`, as the README does. */
const authenticateByName = (request: FastifyRequest) => {
  const { name: username, password } = Object(request.body)
  return authenticate(Object.create(request, { body: { value: { username, password } } }))
}

const given = (app: FastifyInstance) => ({
  app, tokenAuth, secret, authenticate: authenticateByName, cors, fastifyStatic, retrieveUser: (_request: unknown, payload: { user_id: number }) => shownUsers.find((user) => user.user_id === payload.user_id)
})

/** Serves the client as the page says, and a page that runs a program and has its variables. */
async function serve (t: Test, app: FastifyInstance, program: string, names = 'client, ok, response'): Promise<void> {
  const folder = t.testdir({ 'client.js': script })
  const meta = { resolve: (name: string) => name === 'fastify-token-auth/client' ? new URL(`file://${folder}/client.js`).href : '' }
  await run(serving.replace('import.meta', 'meta'), { ...given(app), meta })
  app.get('/page.js', async (_request, reply) => reply.type('text/javascript').send(`${program}\nObject.assign(globalThis, { ${names} })`))
  app.get('/', async (_request, reply) => reply.type('text/html').send(`<!doctype html><title>page</title><link rel="icon" href="data:,">${tags}`))
  app.get('/login.html', async (_request, reply) => reply.type('text/html').send('<!doctype html><title>login</title>'))
}

/** Opens a page in a browser of its own, until its program has written to the console. */
async function visit (t: Test, address: string): Promise<{ page: Page, written: string }> {
  const context = await (await browser()).newContext()
  t.teardown(() => context.close())
  const page = await context.newPage()
  // Chromium writes what the login clears.
  const message = page.waitForEvent('console', (given) => !given.text().startsWith('Clear-Site-Data'))
  await page.goto(address)
  return { page, written: (await message).text() }
}

t.test('every block of the page is run here', (t) => {
  t.equal(programs.length, 4)
  t.equal([...page.matchAll(/^```\w/gm)].length, 5)
  t.end()
})

t.test('the first example: a login, a request, a renewal, a logout in a page without a bundler', { skip }, async (t) => {
  const app = host(t, { forceCloseConnections: true })
  await run(programWith(programs, "app.get('/reports'"), given(app))
  await serve(t, app, programWith(programs, "client.fetch('/reports')"))
  const { page, written } = await visit(t, `http://localhost:${await listen(app)}/`)
  t.equal(written, 'true [First report]')
  const told = page.waitForEvent('console')
  t.match(await page.evaluate(`(async () => { ${programWith(programs, 'client.subscribe')}; unsubscribe(); return user })()`), { user_id: 1 })
  t.match((await told).text(), 'user_id: 1')
  setClock(t, now())(now() + 3600)
  t.strictSame(await page.evaluate("client.fetch('/reports').then((response) => response.json())"), ['First report'])
  t.equal(await page.evaluate("client.fetch('/auth/me').then(({ status }) => status)"), 200)
  await page.evaluate('void client.logout()')
  await page.waitForURL('**/login.html?reason=logout')
  t.strictSame(await app.tokenAuth.sessions.list(1), [])
})

t.test('the page of another origin: login, a request that changes something, renewal and logout with cookies; another origin is refused', { skip }, async (t) => {
  const [pages, api, others] = [host(t, { forceCloseConnections: true }), host(t, { forceCloseConnections: true }), host(t, { forceCloseConnections: true })]
  let address = ''
  for (const app of [pages, others]) {
    app.addHook('onSend', async ({ url }, _reply, body) => url === '/page.js' ? String(body).replace('https://api.example.org', address) : body)
    await serve(t, app, pageOfOtherOrigin)
  }
  const origin = `http://app.shop.localhost:${await listen(pages)}`
  await run(programWith(ofOtherOrigins, 'exposedHeaders').replaceAll('https://app.example.org', origin), given(api))
  address = `http://api.shop.localhost:${await listen(api)}`
  const { page, written } = await visit(t, origin)
  t.equal(written, 'true {text: First note}')
  setClock(t, now())(now() + 3600)
  t.equal(await page.evaluate("client.fetch('/notes', { method: 'POST' }).then(({ status }) => status)"), 200)
  t.equal(await page.evaluate('client.logout()'), true)
  t.strictSame(await api.tokenAuth.sessions.list(1), [])
  t.strictSame(await page.evaluate("client.fetch('/notes', { method: 'POST' }).then(({ status }) => status)"), 401)

  const context = await (await browser()).newContext()
  t.teardown(() => context.close())
  const evil = await context.newPage()
  const failure = evil.waitForEvent('pageerror')
  await evil.goto(`http://evil.shop.localhost:${await listen(others)}/`)
  t.match(await failure, { message: /Failed to fetch/ })
})

t.test('a login page with the condition of the first example does not load itself again', { skip }, async (t) => {
  const app = host(t, { forceCloseConnections: true })
  await run(programWith(programs, "app.get('/reports'"), given(app))
  const program = programWith(programs, "client.fetch('/reports')").replace(/^const \{ ok \}[\s\S]*/m, "const { status: me } = await client.fetch('/auth/me')")
  // The event comes at once, before the page is left.
  await serve(t, app, `let moves = 0\nnavigation.addEventListener('navigate', () => { moves++ })\n${program}`, 'me, moves')
  app.addHook('onSend', async ({ url }, _reply, body) => url === '/login.html' ? String(body).replace('</title>', `</title><link rel="icon" href="data:,">${tags}`) : body)
  const address = `http://localhost:${await listen(app)}`
  const { page } = await visit(t, `${address}/login.html`)
  await page.waitForFunction('globalThis.me === 401')
  t.equal(await page.evaluate('moves'), 0)
  await page.goto(`${address}/`)
  await page.waitForURL('**/login.html?reason=absent')
})

const cookieClient = "createClient({ baseUrl: 'http://localhost:3000', onSignedOut })"
const headerClient = /createClient\(.*\)/.exec(programWith(recipe, 'localStorage'))?.[0] ?? ''

for (const [mode, created] of [['cookie', cookieClient], ['header', headerClient]] as const) {
  t.test(`the recipe of a single-page app, ${mode} mode: a wrong password, a login, a note, a renewal, a logout, an ended session`, { skip }, async (t) => {
    const pages = host(t, { forceCloseConnections: true })
    const api = host(t, { forceCloseConnections: true })
    let address = ''
    const main = programWith(recipe, 'document.body.innerHTML').replace(cookieClient, () => created)
    pages.addHook('onSend', async ({ url }, _reply, body) => url === '/page.js' ? String(body).replace('http://localhost:3000', address) : body)
    await serve(t, pages, `${main}\nconsole.log('ready')`, 'client')
    const origin = `http://localhost:${await listen(pages)}`
    if (mode === 'cookie') {
      const server = programWith(recipe, 'app.listen').replace('http://localhost:5173', origin).replace(/^await app\.listen.*$/m, '')
      const names = { ...given(api), AuthenticationFailed, Fastify: () => api, process: { env: { SERVICE_JWT_SECRET: secret } } }
      await run(server, names)
    } else {
      await run(programWith(recipe, 'sessions: {} }'), { ...given(api), origins: [origin] })
      const notes = ['First note']
      api.get('/notes', { onRequest: api.tokenAuth.protect() }, async () => notes)
      api.post<{ Body: { text: string } }>('/notes', { onRequest: api.tokenAuth.protect() }, async ({ body }) => { notes.push(body.text); return notes })
    }
    address = `http://localhost:${await listen(api)}`

    const { page } = await visit(t, origin)
    const says = async (text: string) => { await page.waitForFunction(`document.querySelector('[role=alert]').textContent === '${text}'`) }
    const lists = async (...items: string[]) => { await page.waitForFunction(`[...document.querySelectorAll('li')].map(({ textContent }) => textContent).join() === '${items.join()}'`) }
    const logIn = async (password: string) => {
      await page.fill('[name=name]', 'ada')
      await page.fill('[name=password]', password)
      await page.click('#login button')
    }
    await logIn('hopper')
    await says('Wrong name or password.')
    await logIn('lovelace')
    await page.waitForSelector('main:not([hidden])')
    await lists('First note')
    setClock(t, now())(now() + 3600)
    await page.fill('[name=text]', 'Second note')
    await page.click('#add button')
    await lists('First note', 'Second note')
    await page.click('#logout')
    await says('You are logged out.')
    await logIn('lovelace')
    await page.waitForSelector('main:not([hidden])')
    await api.tokenAuth.sessions.endAll(1)
    await page.evaluate("client.fetch('/notes')")
    await says('Your session was ended.')
    t.ok(await page.isVisible('#login'))
  })
}

/** The page of another site, the service that it may use, and the address of that. */
async function onOtherSite (t: Test, mode: string, options: Partial<TokenAuthOptions>): Promise<{ page: Page, api: FastifyInstance, address: string }> {
  const pages = host(t, { forceCloseConnections: true })
  await serve(t, pages, 'const [client, ok, response] = []; console.log(ok)')
  const origin = `http://app.example.localhost:${await listen(pages)}`
  const api = host(t, { forceCloseConnections: true })
  await api.register(cors, { origin, credentials: mode === 'cookie' })
  await api.register(tokenAuth, together({ secret, authenticate, sessions: {} }, options, options.cookieSet === true ? { trustedOrigins: [origin] } : {}))
  api.get('/reports', { onRequest: api.tokenAuth.protect() }, async () => 'report')
  const address = `http://api.shop.localhost:${await listen(api)}`
  return { page: (await visit(t, origin)).page, api, address }
}

/** What a page of another site gets: the status of a login, and of a request after it. */
async function fromOtherSite (t: Test, mode: string, options: Partial<TokenAuthOptions>): Promise<unknown> {
  const { page, address } = await onOtherSite(t, mode, options)
  return await page.evaluate(`import('/token-auth-client.js').then(async ({ createClient }) => {
    const client = createClient({ baseUrl: '${address}', mode: '${mode}' })
    const status = await client.login({ username: 'ada', password: 'lovelace' }).then(({ status }) => status, ({ message }) => message.slice(0, 32))
    return [status, (await client.fetch('/reports')).status]
  })`)
}

t.test('from another site, Chromium blocks the cookies, with SameSite None, too; header mode works', { skip }, async (t) => {
  warnings(t, 'W09')
  t.strictSame(await fromOtherSite(t, 'header', {}), [200, 200])
  t.strictSame(await fromOtherSite(t, 'cookie', { cookieSet: true, cookieSamesite: 'none' }), ['The browser rejected the cookies', 401])
})

t.test('from another site in header mode, a logout ends the session although the page leaves at once for the login page', { skip }, async (t) => {
  const { page, api, address } = await onOtherSite(t, 'header', {})
  await page.evaluate(`import('/token-auth-client.js').then(async ({ createClient }) => {
    const client = createClient({ baseUrl: '${address}', mode: 'header', onSignedOut: () => location.assign('/login.html') })
    await client.login({ username: 'ada', password: 'lovelace' })
    void client.logout()
  })`).catch(() => {}) // The page may be gone before its answer.
  await page.waitForURL('**/login.html')
  while ((await api.tokenAuth.sessions.list(1)).length > 0) await turn()
  t.pass('the request outlives its page')
})

t.test('without Chromium, too: the service of each example starts', async (t) => {
  for (const program of programs.filter((text) => text.includes('register(tokenAuth'))) {
    const app = host(t)
    await t.resolves(run(program, given(app)))
    await app.ready()
  }
})
