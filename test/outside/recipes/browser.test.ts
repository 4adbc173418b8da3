/** Recipes with a page: each page runs as it stands in Chromium, against the service of its recipe. */
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { build, type Plugin } from 'esbuild'
import type { FastifyInstance, FastifyRequest, InjectOptions } from 'fastify'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { AuthenticationFailed } from '../../../lib/index.ts'
import { openBrowser, skip } from '../browser.ts'
import { listen, now, secret, setClock } from '../../helper.ts'
import { cookies, cookiesOf, post, recipe } from './helper.ts'

const browser = openBrowser(t)
const folder = fileURLToPath(new URL('.', import.meta.url))

/** The script of a page: the example as `recipe`, and the client as `client`. */
async function bundle (example: string): Promise<string> {
  const modules: Record<string, string> = { recipe: example, './client.js': "import { createClient } from 'fastify-token-auth/client'\nexport const client = createClient()" }
  const plugin: Plugin = {
    name: 'modules',
    setup: ({ onResolve, onLoad }) => {
      onResolve({ filter: /^fastify-token-auth\/client$/ }, () => ({ path: fileURLToPath(new URL('../../../lib/client.ts', import.meta.url)) }))
      onResolve({ filter: /^(\.\/client\.js|recipe)$/ }, ({ path }) => ({ path, namespace: 'given' }))
      onLoad({ filter: /./, namespace: 'given' }, ({ path }) => ({ contents: modules[path] ?? '', loader: 'js', resolveDir: folder }))
    }
  }
  const { outputFiles: [file] } = await build({
    stdin: { contents: "import * as recipe from 'recipe'\nimport { client } from './client.js'\nObject.assign(globalThis, { client, recipe })", resolveDir: folder },
    bundle: true,
    format: 'esm',
    platform: 'browser',
    write: false,
    plugins: [plugin],
    logLevel: 'silent'
  })
  return file?.text ?? ''
}

/** Adds a page that has this script, before the service listens. */
async function addPage (app: FastifyInstance, example: string): Promise<void> {
  const script = await bundle(example)
  app.get('/page.js', async (_request, reply) => await reply.type('text/javascript').send(script))
  app.get('/', async (_request, reply) => await reply.type('text/html').send('<!doctype html><title>page</title><link rel="icon" href="data:,"><script type="module" src="/page.js"></script>'))
}

/** Opens the page. @param app answers the requests to the origin, if it does not listen */
async function open (t: Test, origin: string, app?: FastifyInstance): Promise<Page> {
  const context = await (await browser()).newContext({ baseURL: origin })
  t.teardown(() => context.close())
  if (app !== undefined) {
    await context.route(`${origin}/**`, async (route) => {
      const request = route.request()
      const body = request.postDataBuffer()
      const sent: InjectOptions = {
        method: request.method() as 'GET' | 'POST', url: request.url().slice(origin.length), headers: { ...await request.allHeaders(), host: new URL(origin).host }, ...(body !== null && { payload: body })
      }
      const { statusCode, headers, rawPayload } = await app.inject(sent)
      await route.fulfill({ status: statusCode, headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value].flat().join('\n')])), body: rawPayload })
    })
  }
  const page = await context.newPage()
  await page.goto('/')
  await page.waitForFunction('globalThis.recipe')
  return page
}

const passkeys = recipe(t, 'passkeys.md')
const origin = 'https://app.example.org'

interface Passkey { id: string, publicKey: Uint8Array, counter: number, userId: number }

/** The service of the recipe, and its page in a browser with an authenticator. Nobody has a passkey: the test logs users in. */
async function keys (t: Test) {
  const setTime = setClock(t, now())
  const users = [{ user_id: 1, name: 'ada' }, { user_id: 2, name: 'grace' }]
  const stored = new Map<string, Passkey>()
  const challenges = new Map<string, unknown>()
  const find = (id: unknown) => users.find((user) => user.user_id === id)
  const app = await passkeys.cook(t, 'verifyAuthenticationResponse', {
    secret,
    cookies,
    retrieveUser: async (_request: unknown, { user_id: id }: { user_id: unknown }) => find(id),
    findUser: async (id: unknown) => find(id),
    findPasskey: async (id: string) => {
      const found = stored.get(id)
      return found && { ...found, user: find(found.userId) }
    },
    listPasskeys: async (id: unknown) => [...stored.values()].filter(({ userId }) => userId === id),
    addPasskey: async (passkey: Passkey) => {
      if (stored.has(passkey.id)) throw Object.assign(new Error('There is such a passkey.'), { statusCode: 409 })
      stored.set(passkey.id, { ...passkey, counter: 0 })
    },
    // As with passkeys that several devices share, whose counter is always 0: it finds no copies.
    saveCounter: async () => {},
    saveChallenge: async (challenge: string, owner: unknown) => { challenges.set(challenge, owner) },
    takeChallenge: async (challenge: string, owner: unknown) => challenges.get(challenge) === owner && challenges.delete(challenge)
  })
  app.post('/test', async (request: FastifyRequest, reply) => {
    await app.tokenAuth.sessions.start(request, reply, Object(request.body))
    return await reply.send({})
  })
  await addPage(app, passkeys.take('startAuthentication'))
  const page = await open(t, origin, app)
  const devtools = await page.context().newCDPSession(page)
  await devtools.send('WebAuthn.enable')
  await devtools.send('WebAuthn.addVirtualAuthenticator', { options: { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true } })
  const enter = async (id: number) => { await page.evaluate(`fetch('/test', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ user_id: ${id} }) }).then(() => client.load())`) }
  /** What the page sends with a call, and the status of the response. */
  const call = async (name: string, path: string): Promise<{ body: object, status: number }> => {
    const sent = page.waitForRequest((request) => request.url() === `${origin}${path}`)
    const status = await page.evaluate(`recipe.${name}().then(({ status }) => status)`)
    return { body: (await sent).postDataJSON(), status: Number(status) }
  }
  return { app, page, stored, challenges, setTime, enter, call }
}

t.test('passkeys: a user adds one after a recent login, and logs in with it without a name', { skip }, async (t) => {
  const { page, stored, challenges, enter, call, setTime, app } = await keys(t)
  await enter(1)
  t.equal((await call('addPasskey', '/passkeys')).status, 204)
  t.match([...stored.values()], [{ userId: 1 }])
  await page.evaluate('client.logout()')
  t.equal((await call('logIn', '/auth')).status, 200)
  t.same(await page.evaluate('client.load()'), { user_id: 1, name: 'ada' })
  t.equal(challenges.size, 0)

  const session = cookiesOf(await post(app, '/test', { user_id: 1 }))
  setTime(now() + 301)
  for (const path of ['/passkeys/options', '/passkeys']) {
    t.equal((await post(app, path, {}, { cookies: session })).json().exception, 'InsufficientUserAuthentication', path)
    t.equal((await post(app, path)).statusCode, 401)
  }
})

t.test('passkeys: what was signed works once, for what it was signed for', { skip }, async (t) => {
  const { app, stored, challenges, enter, call } = await keys(t)
  const [ada, grace] = [cookiesOf(await post(app, '/test', { user_id: 1 })), cookiesOf(await post(app, '/test', { user_id: 2 }))]
  await enter(1)
  const added = await call('addPasskey', '/passkeys')
  for (const session of [ada, grace]) t.equal((await post(app, '/passkeys', added.body, { cookies: session })).statusCode, 400)
  t.equal((await post(app, '/auth', added.body)).statusCode, 401, 'a registration is no login')

  const { body } = await call('logIn', '/auth')
  t.equal((await post(app, '/auth', body)).statusCode, 401, 'sent again')
  const signed = Object(JSON.parse(Buffer.from(Object(body).response.clientDataJSON, 'base64url').toString()))
  challenges.set(signed.challenge, 1)
  t.equal((await post(app, '/auth', body)).statusCode, 401, 'a challenge of a registration')
  challenges.set(signed.challenge, null)
  const statuses = await Promise.all([body, body].map(async (sent) => (await post(app, '/auth', sent)).statusCode))
  t.same(statuses.sort(), [200, 401], 'at once')
  challenges.set(signed.challenge, null)
  const forged = { ...body, response: { ...Object(body).response, signature: Buffer.alloc(70).toString('base64url') } }
  t.equal((await post(app, '/auth', forged)).statusCode, 401)
  const otherOrigin = Buffer.from(JSON.stringify({ ...signed, origin: 'https://evil.example' })).toString('base64url')
  challenges.set(signed.challenge, null)
  t.equal((await post(app, '/auth', { ...body, response: { ...Object(body).response, clientDataJSON: otherOrigin } })).statusCode, 401)
  for (const wrong of [{}, { id: 1 }, { id: { $ne: null } }, { ...body, id: 'unknown' }, { id: Object(body).id }]) t.equal((await post(app, '/auth', wrong)).statusCode, 401)
  t.equal(stored.size, 1)
})

const websockets = recipe(t, 'websockets.md')

t.test('WebSockets: the page connects, gets its messages, and connects again after its connection broke', { skip }, async (t) => {
  const app = await websockets.cook(t, 'maxPayload', {
    secret,
    cookies,
    authenticate: async ({ body }: FastifyRequest) => {
      const { name } = Object(body)
      if (typeof name !== 'string') throw new AuthenticationFailed()
      return { user_id: name }
    },
    retrieveUser: async (_request: unknown, { user_id: id }: { user_id: unknown }) => ({ user_id: id })
  })
  // test/outside/recipes/frameworks.test.ts runs the example of header mode.
  websockets.take("app.get('/news'")
  await addPage(app, websockets.take('export async function connect').replace('5000', '0'))
  const page = await open(t, `http://localhost:${await listen(app)}`)
  const connected = async () => await once(app.websocketServer, 'connection')
  await page.evaluate('recipe.connect(() => {})')
  t.equal(app.websocketServer.clients.size, 0, 'nobody is logged in')
  await page.evaluate("client.login({ name: 'ada' })")
  const first = connected()
  await page.evaluate('globalThis.got = []; recipe.connect((message) => got.push(message))')
  const [socket] = await first
  socket.send('hello')
  await page.waitForFunction("got.includes('hello')")
  const second = connected()
  socket.terminate()
  const [next] = await second
  next.send('again')
  await page.waitForFunction("got.includes('again')")
})

for (const { end } of [passkeys, websockets]) end()
