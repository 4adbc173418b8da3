/** What Chromium sends to a service in cookie mode from pages of other origins, and what is answered. */
import cors from '@fastify/cors'
import websocket from '@fastify/websocket'
import Fastify from 'fastify'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { type TokenAuthOptions } from '../../lib/index.ts'
import { openChromium, skip } from './browser.ts'
import { host, listen, refusal, warnings } from '../helper.ts'

/** Names below `test` lead to this machine. To Chromium they are no secure contexts, so that it sends no Sec-Fetch-Site to them. */
const browser = openChromium(t, '--host-resolver-rules=MAP *.test 127.0.0.1')

const submit = (address: string, field = '') => `{
  const form = document.createElement('form')
  Object.assign(form, { method: 'post', action: '${address}', innerHTML: '${field}' })
  document.body.append(form)
  form.submit()
}`
const send = (address: string, init: string) => `void fetch('${address}', { method: 'POST', credentials: 'include', ${init} }).catch(() => {})`

/** What a page can make a browser send: what the service sees of it, and the script of the page. */
const actions: Record<string, [request: string, script: (base: string) => string]> = {
  form: ['POST /act', (base) => submit(`${base}/act`)],
  'login form': ['POST /auth', (base) => submit(`${base}/auth`, '<input name="user" value="eve">')],
  'refresh form': ['POST /auth/refresh', (base) => submit(`${base}/auth/refresh`)],
  'no-cors': ['POST /act', (base) => send(`${base}/act`, "mode: 'no-cors'")],
  cors: ['POST /act', (base) => send(`${base}/act`, "mode: 'cors'")],
  delete: ['DELETE /act', (base) => send(`${base}/act`, "method: 'DELETE'")],
  beacon: ['POST /act', (base) => `navigator.sendBeacon('${base}/act', 'x')`],
  'sandboxed frame': ['POST /act', (base) => `{
    const frame = document.createElement('iframe')
    Object.assign(frame, { sandbox: 'allow-forms allow-scripts', srcdoc: '<form method=post action=${base}/act></form><script>document.forms[0].submit()</script>' })
    document.body.append(frame)
  }`],
  WebSocket: ['GET /socket', (base) => `void new WebSocket('${base.replace('http', 'ws')}/socket')`],
  link: ['GET /act', (base) => `location.href = '${base}/act'`]
}

/** A service that allows every origin by CORS, and what it answers next to a request. */
async function serve (t: Test, options: Partial<TokenAuthOptions>) {
  const app = host(t, { forceCloseConnections: true })
  const waiting = new Map<string, (answer: string) => void>()
  const answer = (request: string, said: string) => waiting.get(request)?.(said)
  app.addHook('onResponse', async ({ method, url }, { statusCode }) => answer(`${method} ${url}`, String(statusCode)))
  await app.register(cors, { origin: true, credentials: true, methods: ['GET', 'POST', 'DELETE'] })
  await app.register(websocket)
  app.addContentTypeParser(['application/x-www-form-urlencoded', 'text/plain'], { parseAs: 'string' }, (_request, text, done) => done(null, text))
  t.equal(await refusal(t, { authenticate: () => ({ user_id: 1 }), cookieSet: true, sessions: {}, ...options }, app), undefined)
  const onRequest = app.tokenAuth.protect()
  app.get('/page', (_request, reply) => reply.type('text/html').send('<p>own'))
  app.get('/no-referrer', (_request, reply) => reply.header('referrer-policy', 'no-referrer').type('text/html').send('<p>own'))
  app.route({ method: ['GET', 'POST', 'DELETE'], url: '/act', onRequest, handler: async () => 'done' })
  app.get('/socket', { websocket: true, onRequest }, (socket, { url }) => {
    answer(`GET ${url}`, 'open')
    socket.close()
  })
  return { port: await listen(app), next: (request: string) => new Promise<string>((resolve) => waiting.set(request, resolve)) }
}

/** Pages of other origins. */
async function serveOthers (t: Test): Promise<number> {
  const app = Fastify({ forceCloseConnections: true })
  t.teardown(() => app.close())
  app.get('/', (_request, reply) => reply.type('text/html').send('<p>other'))
  return await listen(app)
}

const done = { form: '200', 'login form': '415', 'refresh form': '200', 'no-cors': '200', cors: '200', delete: '200', beacon: '200', WebSocket: 'open', link: '200' }
const ownPage = { ...done, 'sandboxed frame': '401' }
const neighbour = { form: '403', 'login form': '403', 'refresh form': '403', 'no-cors': '403', cors: '403', delete: '403', beacon: '403', 'sandboxed frame': '401', WebSocket: '403', link: '200' }
/** No cookie comes, so that there is no token, either. */
const otherSite = { ...neighbour, form: '401', 'no-cors': '401', cors: '401', delete: '401', beacon: '401', WebSocket: '401' }
/** With SameSite None the cookies come with forms and with frames of the own site; Chromium blocks them for requests inside of a page of another site. */
const none = { 'sandboxed frame': '403' }

type Expected = Readonly<Record<string, string>>
interface Case {
  title: string
  own: string
  options: Partial<TokenAuthOptions>
  /** What becomes of the requests of a page at an address: `:own` and `:other` stand for ports. */
  pages: Record<string, Expected>
}

const cases: Case[] = [
  {
    title: 'SameSite Lax',
    own: 'http://localhost',
    options: {},
    pages: {
      'http://localhost:own/page': ownPage,
      'http://localhost:own/no-referrer': { form: '200', beacon: '200' },
      'http://localhost:other/': neighbour,
      'http://127.0.0.1:other/': otherSite
    }
  },
  { title: 'a subdomain', own: 'http://app.shop.localhost', options: {}, pages: { 'http://evil.shop.localhost:other/': neighbour } },
  {
    title: 'SameSite None',
    own: 'http://localhost',
    options: { cookieSamesite: 'none' },
    pages: {
      'http://localhost:own/page': { ...ownPage, ...none },
      'http://localhost:other/': { ...neighbour, ...none },
      'http://127.0.0.1:other/': { ...otherSite, form: '403' }
    }
  },
  {
    title: 'plain HTTP on a name, without Sec-Fetch-Site',
    own: 'http://www.example.test',
    options: { cookieSecure: false },
    pages: {
      'http://www.example.test:own/page': ownPage,
      'http://www.example.test:other/': neighbour,
      'http://evil.example.test:other/': neighbour,
      'http://www.elsewhere.test:other/': otherSite
    }
  },
  {
    title: 'control: without the rule, a neighbour can act for the user',
    own: 'http://localhost',
    options: { trustedOrigins: '*' },
    pages: { 'http://localhost:other/': { ...done, 'sandboxed frame': '401' } }
  }
]

for (const { title, own: ownHost, options, pages } of cases) {
  // Promise: security/3-5-1
  // Promise: security/3-5-2
  // Promise: security/cross-site-request
  t.test(`Chromium: requests of other origins are refused, those of the own pages are not: ${title}`, { skip }, async (t) => {
    warnings(t, 'W09', 'W10', 'W19')
    const [service, others] = [await serve(t, options), await serveOthers(t)]
    const base = `${ownHost}:${service.port}`
    const context = await (await browser()).newContext()
    t.teardown(() => context.close())
    const visitor = await context.newPage()
    await visitor.goto(`${base}/page`)
    t.equal(await visitor.evaluate("fetch('/auth', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }).then(({ status }) => status)"), 200)
    t.equal((await context.cookies()).length, 2, 'the visitor is logged in')
    for (const [address, expected] of Object.entries(pages)) {
      const seen: Record<string, string> = {}
      for (const name of Object.keys(expected)) {
        const [request, script] = actions[name]!
        const page: Page = await context.newPage()
        await page.goto(address.replace(':own', `:${service.port}`).replace(':other', `:${others}`))
        const answered = service.next(request)
        await page.evaluate(script(base))
        seen[name] = await answered
      }
      t.strictSame(seen, expected, address)
    }
  })
}
