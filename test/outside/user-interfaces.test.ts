/** docs/recipes/user-interfaces.md: each example runs as it stands, with its library, in a page of Chromium and against a service. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import websocket from '@fastify/websocket'
import { build, type Plugin } from 'esbuild'
import type { Page } from 'playwright-core'
import { compile } from 'svelte/compiler'
import t, { type Test } from 'tap'
import tokenAuth, { AuthenticationFailed, type TokenAuthOptions } from '../../lib/index.ts'
import { openBrowser, skip } from './browser.ts'
import { host, listen, now, secret, setClock, together } from '../helper.ts'

const recipe = readFileSync(new URL('../../docs/recipes/user-interfaces.md', import.meta.url), 'utf8')
const examples = Array.from(recipe.matchAll(/^```jsx?\n([\s\S]*?)^```/gm), ([, example = '']) => example)
const [created = '', ...others] = examples
const unused = new Set(others)
const browser = openBrowser(t)
const users = [{ user_id: 1, name: 'Ada', password: 'lovelace' }, { user_id: 2, name: 'Grace', password: 'hopper' }]
const text = (user: string) => `${user} === undefined ? 'Loading...' : ${user} === null ? 'Nobody' : 'Hello ' + ${user}.name`

/** The program of a page: an example, the client, and what the page does with them. */
async function bundle (example: string, page: string, options: string): Promise<string> {
  const modules: Record<string, string> = {
    './client.js': created.replace('createClient({', `createClient({ ${options}`),
    recipe: example,
    component: compile(`<script>import { user } from 'recipe'</script><p>{${text('$user')}}</p>`, { generate: 'client' }).js.code
  }
  const plugin: Plugin = {
    name: 'modules',
    setup: ({ onResolve, onLoad }) => {
      onResolve({ filter: /^fastify-token-auth\/client$/ }, () => ({ path: fileURLToPath(new URL('../../lib/client.ts', import.meta.url)) }))
      onResolve({ filter: /^(\.\/client\.js|recipe|component)$/ }, ({ path }) => ({ path, namespace: 'given' }))
      onLoad({ filter: /./, namespace: 'given' }, ({ path }) => ({ contents: modules[path]!, loader: 'jsx', resolveDir: fileURLToPath(new URL('.', import.meta.url)) }))
    }
  }
  const { outputFiles } = await build({
    stdin: { contents: `import * as recipe from 'recipe'\nimport { client } from './client.js'\nObject.assign(globalThis, { client, recipe })\n${page}`, resolveDir: fileURLToPath(new URL('.', import.meta.url)), loader: 'jsx' },
    bundle: true,
    format: 'esm',
    platform: 'browser',
    conditions: ['browser'],
    write: false,
    plugins: [plugin],
    jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"production"' },
    logLevel: 'silent'
  })
  return outputFiles[0]!.text
}

/** A service, and pages of it that run the only example that contains a text. */
async function visit (t: Test, found: string, program: string, options: Partial<TokenAuthOptions> = { cookieSet: true, tokensInBody: false }, ofClient = '') {
  const [example = '', ...same] = others.filter((candidate) => candidate.includes(found))
  t.equal(same.length, 0, found)
  unused.delete(example)
  t.ok(example.trimEnd().split('\n').length <= 12, 'a few lines')
  const setTime = setClock(t, now())
  const app = host(t, { forceCloseConnections: true })
  await app.register(websocket)
  await app.register(tokenAuth, together({
    secret,
    authenticate: async ({ body }) => {
      const { name, password } = Object(body)
      const user = users.find((candidate) => candidate.name === name && candidate.password === password)
      if (user === undefined) throw new AuthenticationFailed()
      return user
    },
    retrieveUser: async (_request, { user_id: id }) => {
      const user = users.find((candidate) => candidate.user_id === id)
      return user && { user_id: user.user_id, name: user.name }
    },
    sessions: {}
  }, options))
  const log: string[] = []
  app.addHook('onRequest', async ({ method, url }) => { log.push(`${method} ${url}`) })
  app.get('/reports', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth: { userId } }) => [`report of ${userId}`])
  app.post('/graphql', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth: { userId } }) => ({ data: { me: userId } }))
  app.get('/socket', { websocket: true, onRequest: app.tokenAuth.protect(options.cookieSet === true ? {} : { queryStringSet: true }) }, (socket, request) => socket.send(String(request.tokenAuth.userId)))
  const script = await bundle(example, program, ofClient)
  app.get('/page.js', async (_request, reply) => reply.type('text/javascript').send(script))
  app.get('/', async (_request, reply) => reply.type('text/html').send('<!doctype html><title>page</title><link rel="icon" href="data:,"><main></main><script type="module" src="/page.js"></script>'))
  const context = await (await browser()).newContext({ baseURL: `http://localhost:${await listen(app)}` })
  t.teardown(() => context.close())
  const open = async (): Promise<Page> => {
    const page = await context.newPage()
    page.on('pageerror', (error) => t.fail('no script fails', { error }))
    await page.goto('/')
    await page.waitForFunction('globalThis.client')
    return page
  }
  return { app, setTime, open, log }
}

const logIn = (page: Page, { name, password } = users[0]!) => page.evaluate(`client.login(${JSON.stringify({ name, password })}).then(({ status }) => status)`)
const says = async (page: Page, said: string) => { await page.waitForFunction(`document.querySelector('main').textContent === ${JSON.stringify(said)}`) }

const interfaces: ReadonlyArray<readonly [library: string, found: string, program: string]> = [
  ['React', 'useSyncExternalStore', "import { createRoot } from 'react-dom/client'\ncreateRoot(document.querySelector('main')).render(<recipe.Greeting />)"],
  ['Vue', "from 'vue'", `import { createApp, h } from 'vue'\ncreateApp({ render: () => h('p', ${text('recipe.user.value')}) }).mount('main')`],
  ['Svelte', 'svelte/store', "import { mount } from 'svelte'\nimport Component from 'component'\nmount(Component, { target: document.querySelector('main') })"]
]
for (const [library, found, program] of interfaces) {
  t.test(`${library}: a page shows who is logged in, after a login, a login of another user in another tab, an expiry and a logout`, { skip }, async (t) => {
    const { open, setTime, log } = await visit(t, found, program)
    const [page, other] = [await open(), await open()]
    await says(page, 'Nobody')
    await logIn(page)
    await says(page, 'Hello Ada')
    await says(other, 'Hello Ada')
    setTime(now() + 3600)
    t.equal(await page.evaluate("client.fetch('/reports').then(({ status }) => status)"), 200)
    await logIn(other, users[1])
    await says(page, 'Hello Grace')
    await page.waitForFunction("document.body.dataset.signedOut === 'switched'")
    await page.evaluate('client.logout()')
    await Promise.all([says(page, 'Nobody'), says(other, 'Nobody')])
    t.notOk(log.some((entry) => entry.startsWith('POST /auth/refresh')))
  })
}

t.test('TanStack Query: a query renews the tokens, and nothing of one user is left for the next one', { skip }, async (t) => {
  const { open, setTime } = await visit(t, 'query-core', '')
  const page = await open()
  await logIn(page)
  const load = () => page.evaluate('recipe.queryClient.fetchQuery(recipe.reports)')
  t.same(await load(), ['report of 1'])
  setTime(now() + 3600)
  await page.evaluate('recipe.queryClient.invalidateQueries()')
  t.same(await load(), ['report of 1'])
  t.equal(await page.evaluate('recipe.queryClient.getQueryCache().getAll().length'), 1)
  await page.evaluate('client.logout()')
  t.equal(await page.evaluate('recipe.queryClient.getQueryCache().getAll().length'), 0)
  await logIn(page, users[1])
  t.same(await load(), ['report of 2'])
})

t.test('SWR: a component shows what it loads, and nothing of one user is left for the next one', { skip }, async (t) => {
  const { open, setTime } = await visit(t, "from 'swr'", `import { createRoot } from 'react-dom/client'
    function Reports () { const { data } = recipe.useReports(); return <p>{Array.isArray(data) ? data.join() : 'none'}</p> }
    createRoot(document.querySelector('main')).render(<Reports />)`)
  const page = await open()
  await says(page, 'none')
  await logIn(page)
  await says(page, 'report of 1')
  setTime(now() + 3600)
  await logIn(page, users[1])
  await says(page, 'report of 2')
  await page.evaluate('client.logout()')
  await says(page, 'none')
})

t.test('axios: a request renews the tokens', { skip }, async (t) => {
  const { open, setTime, log } = await visit(t, "from 'axios'", '')
  const page = await open()
  await logIn(page)
  setTime(now() + 3600)
  t.same(await page.evaluate("recipe.api.get('/reports').then(({ data }) => data)"), ['report of 1'])
  t.equal(log.filter((entry) => entry === 'GET /reports').length, 2)
})

t.test('GraphQL: a request renews the tokens', { skip }, async (t) => {
  const { open, setTime, log } = await visit(t, 'graphql-request', '')
  const page = await open()
  await logIn(page)
  setTime(now() + 3600)
  t.same(await page.evaluate("recipe.graphql.request('{ me }')"), { me: 1 })
  t.equal(log.filter((entry) => entry === 'POST /graphql').length, 2)
})

for (const [mode, options, ofClient] of [['cookie', undefined, ''], ['header', {}, "mode: 'header',"]] as const) {
  t.test(`WebSocket, mode ${mode}: it opens after an expiry`, { skip }, async (t) => {
    const { open, setTime } = await visit(t, 'new WebSocket', '', options, ofClient)
    const page = await open()
    await logIn(page)
    setTime(now() + 3600)
    t.equal(await page.evaluate("recipe.connect('/socket').then((socket) => new Promise((resolve, reject) => { socket.onmessage = ({ data }) => resolve(data); socket.onerror = reject }))"), '1')
  })
}

t.test('a page that comes to the front asks who is logged in', { skip }, async (t) => {
  const { open, app } = await visit(t, 'visibilitychange', 'client.subscribe(() => {})')
  const page = await open()
  await logIn(page)
  await app.tokenAuth.sessions.endAll(1)
  await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
  await page.waitForFunction("document.body.dataset.signedOut === 'ended' && client.user === null")
})

t.test('every example is run here', { skip }, async (t) => {
  t.equal(others.length, 9)
  t.same([...unused], [])
})
