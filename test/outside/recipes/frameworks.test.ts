/** Recipes of other frameworks and tools beside the plugin, each with the real package. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { initTRPC } from '@trpc/server'
import { fastifyTRPCPlugin, type CreateFastifyContextOptions, type FastifyTRPCPluginOptions } from '@trpc/server/adapters/fastify'
import { createClient as createSubscriber } from 'graphql-ws'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import tokenAuth, { AuthenticationFailed, memorySessions } from '../../../lib/index.ts'
import { createClient } from '../../../lib/client.ts'
import { bearer, caseOf, claims, forge, host, listen, now, otherSecret, scannedLog, secret, setClock, together } from '../../helper.ts'
import { cookies, cookiesOf, post, recipe } from './helper.ts'

/** A service with orders, whose users have the scopes that their login names. */
async function service (t: Test, options: object = {}) {
  const setTime = setClock(t, now())
  const app = host(t)
  await app.register(tokenAuth, together({
    secret,
    authenticate: async ({ body }) => {
      const { name, scopes } = Object(body)
      if (name === undefined) throw new AuthenticationFailed()
      return { user_id: name, scopes }
    },
    sessions: {},
    scopesEnabled: true,
    addScopesToPayload: ({ scopes }) => Array.isArray(scopes) ? scopes : []
  }, options))
  const added: unknown[] = []
  const names = {
    findOrders: async (userId: unknown) => {
      if (userId === 'broken') throw new Error('The password of the database is wrong.')
      return [`order of ${userId}`]
    },
    addOrder: async (...order: unknown[]) => { added.push(order) }
  }
  const enter = async (name: string, ...scopes: string[]): Promise<{ access_token: string, refresh_token: string }> => (await post(app, '/auth', { name, scopes })).json()
  return { app, added, names, enter, setTime }
}

/** What a client is told whose handshake is refused, and how many connections the service has afterwards. */
async function refusalOf (app: FastifyInstance, socket: WebSocket): Promise<[message: string, connections: number]> {
  const [error] = await once(socket, 'error')
  const count = () => new Promise<number>((resolve) => { app.server.getConnections((_error, found) => resolve(found)) })
  // A connection that the service closes is gone after a few turns. One that it forgets stays.
  for (let turns = 0; turns < 1000 && await count() > 0; turns++) await turn()
  const left = await count()
  return [error.message, left]
}

const graphql = recipe(t, 'graphql.md')

/** Ends the session of a request between its guard and its handler, where the signal was read before, or was not. */
const endSession = (isRead: boolean) => async (request: FastifyRequest) => {
  const { tokenAuth } = request.server
  const { signal, userId } = isRead ? request.tokenAuth : { signal: undefined, userId: request.tokenAuth.userId }
  await tokenAuth.sessions.endAll(userId!)
  if (signal?.aborted === false) throw new Error('The session has not ended.')
}

async function graph (t: Test, options: object = {}) {
  const { app, names, ...others } = await service(t, options)
  await graphql.cook(t, 'mercurius', names, { app })
  const ask = async (query: string, headers: Record<string, string> = {}) => await post(app, '/graphql', { query }, { headers })
  return { app, ask, ...others }
}

t.test('GraphQL: nothing is answered without a valid token, and fields need their scopes', async (t) => {
  const { app, ask, enter, added, setTime } = await graph(t)
  const [reader, writer, nobody] = await Promise.all([enter('ada', 'orders:read'), enter('ada', 'orders'), enter('ada')])
  const as = ({ access_token: token }: { access_token: string }) => bearer(token)
  for (const query of ['{ me }', '{ __schema { types { name } } }', '{']) t.equal((await ask(query)).statusCode, 401, query)
  t.same((await ask('{ me orders }', as(reader))).json(), { data: { me: 'ada', orders: ['order of ada'] } })

  const refused = await ask('{ me orders }', as(nobody))
  t.match(refused.json(), { data: null, errors: [{ message: 'Invalid scope.', path: ['orders'] }] })
  t.match((await ask('mutation { addOrder(text: "x") }', as(reader))).json(), { errors: [{ message: 'Invalid scope.' }] })
  t.equal((await ask('mutation { one: addOrder(text: "1") two: addOrder(text: "2") }', as(nobody))).json().errors.length, 2, 'also under other names')
  t.same(added, [])
  t.notOk((await ask('mutation { addOrder(text: "x") }', as(writer))).json().errors)
  t.same(added, [['ada', 'x']])
  const mutation = `/graphql?query=${encodeURIComponent('mutation { addOrder(text: "x") }')}`
  t.match((await app.inject({ url: mutation, headers: as(writer) })).json(), { errors: [{ message: 'Operation cannot be performed via a GET request' }] })
  t.equal(added.length, 1)

  setTime(now() + 3600)
  t.equal((await ask('{ me }', as(reader))).statusCode, 401, 'so the client renews')
})

t.test('GraphQL: errors of the service stay in it, and mistakes of a query are explained', async (t) => {
  const { ask, enter } = await graph(t)
  const headers = bearer((await enter('broken', 'orders')).access_token)
  const { errors } = (await ask('{ orders }', headers)).json()
  t.match(errors, [{ message: 'Internal error', path: ['orders'] }])
  t.match((await ask('{ order }', headers)).json().errors, [{ message: /^Cannot query field "order"/ }])
})

t.test('GraphQL: in cookie mode, pages of other sites can change nothing', async (t) => {
  const { app, enter, added } = await graph(t, { cookieSet: true })
  const { access_token: token } = await enter('ada', 'orders')
  const from = (site: string) => ({ 'sec-fetch-site': site, origin: 'https://evil.example' })
  const send = async (headers: Record<string, string>) => await post(app, '/graphql', { query: 'mutation { addOrder(text: "x") }' }, { headers, cookies: { access_token: token } })
  t.equal((await send(from('cross-site'))).statusCode, 403)
  t.same(added, [])
  t.equal((await send({ 'sec-fetch-site': 'same-origin' })).statusCode, 200)
})

const subscriptions = recipe(t, 'graphql-subscriptions.md')

/** The service of the recipe. `subscribe` opens a connection, and subscribes: what came first, and what comes then. */
async function subscribable (t: Test, options: object = {}, late?: (request: FastifyRequest) => Promise<void>) {
  const { app, names, ...others } = await service(t, options)
  let context: { graphql: { pubsub: { publish: (event: object) => Promise<void> } } } | undefined
  app.addHook('preHandler', async (request: FastifyRequest) => {
    if (request.url !== '/graphql') return
    context = Object(request.server)
    await late?.(request)
  })
  await subscriptions.cook(t, 'mercurius', names, { app })
  const port = await listen(app)
  const open = (headers: Record<string, string> = {}) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/graphql`, 'graphql-transport-ws', { headers })
    t.teardown(() => socket.terminate())
    return socket
  }
  const subscribe = async (payload?: object, headers: Record<string, string> = {}) => {
    const socket = open(headers)
    const got: Array<{ type?: string }> = []
    socket.on('message', (data) => { got.push(JSON.parse(String(data))); socket.emit('got') })
    await once(socket, 'open')
    socket.send(JSON.stringify({ type: 'connection_init', payload }))
    while (got.length === 0) await once(socket, 'got')
    socket.send(JSON.stringify({ id: '1', type: 'subscribe', payload: { query: 'subscription { orderAdded }' } }))
    // The answer to it comes after awaited steps, or is an error.
    const isReady = new Promise<void>((resolve) => {
      const ask = () => { if (socket.readyState === socket.OPEN) socket.send('{"type":"ping"}') }
      socket.on('got', () => { if (got.filter(({ type }) => type === 'pong').length > 5 || got.some(({ type }) => type === 'error')) resolve(); else setImmediate(ask) })
      socket.once('close', () => resolve())
      ask()
    })
    await isReady
    return { socket, got, answers: got.splice(0).filter(({ type }) => type !== 'pong') }
  }
  const publish = async (topic: string, payload: object) => { await context!.graphql.pubsub.publish({ topic, payload }) }
  return { app, url: `ws://127.0.0.1:${port}/graphql`, open, subscribe, publish, ...others }
}

t.test('GraphQL subscriptions: a token of the handshake or of connection_init gets what belongs to its user, and ends the connection', async (t) => {
  const { app, subscribe, publish, enter } = await subscribable(t)
  const grace = await enter('grace', 'orders')
  const other = await subscribe({ token: grace.access_token })
  for (const way of ['header', 'message']) {
    const tokens = await enter('ada', 'orders')
    const own = way === 'header' ? await subscribe(undefined, bearer(tokens.access_token)) : await subscribe({ token: tokens.access_token })
    t.match(own.answers, [{ type: 'connection_ack' }], way)
    const next = once(own.socket, 'got')
    await publish('orders ada', { orderAdded: 'first' })
    await next
    t.match(own.got.filter(({ type }) => type !== 'pong'), [{ type: 'next', payload: { data: { orderAdded: 'first' } } }], way)
    t.same(other.got.filter(({ type }) => type !== 'pong'), [])
    const closed = once(own.socket, 'close')
    await post(app, '/auth/logout', { refresh_token: tokens.refresh_token })
    t.match(await closed, [4403], way)
  }
})

t.test('GraphQL subscriptions: graphql-ws connects again with the next token when one has ended', async (t) => {
  const { app, url, publish, enter } = await subscribable(t)
  let tokens = await enter('ada', 'orders')
  const sent: string[] = []
  const client = createSubscriber({
    url,
    webSocketImpl: WebSocket,
    retryWait: async () => {},
    connectionParams: () => {
      sent.push(tokens.access_token)
      return { token: tokens.access_token }
    }
  })
  t.teardown(() => client.dispose())
  const events = client.iterate({ query: 'subscription { orderAdded }' })
  const got = new Set<unknown>()
  /** Publishes a text until the subscription has begun, and has it. */
  const reaches = async (text: string) => {
    const reading = (async () => { while (!got.has(text)) got.add((await events.next()).value?.data?.orderAdded) })()
    while (!got.has(text)) {
      // The first rejects if the client gives up.
      await Promise.race([reading, turn()])
      if (sent.length > 0) await publish('orders ada', { orderAdded: text })
    }
    await reading
  }
  await reaches('first')
  const first = tokens
  tokens = await enter('ada', 'orders')
  await post(app, '/auth/logout', { refresh_token: first.refresh_token })
  for (let turns = 0; sent.length < 2 && turns < 100_000; turns++) await turn()
  await reaches('second')
  t.same(sent, [first.access_token, tokens.access_token])
  await events.return?.()
})

t.test('GraphQL subscriptions: without a valid token with the scope there is an error, and no event', async (t) => {
  const { subscribe, enter } = await subscribable(t)
  const { access_token: token } = await enter('ada')
  const payloads: Array<[payload: object | undefined, message: RegExp]> = [
    [undefined, /token|Token/], [{}, /token|Token/], [{ token: 5 }, /token|Token/], [{ token: null }, /token|Token/], [{ token: forge(claims(), { key: otherSecret }) }, /Invalid JWT|token/i], [{ token }, /^Invalid scope\.$/]
  ]
  for (const [payload, message] of payloads) {
    const { answers, got } = await subscribe(payload)
    const all = answers.concat(got)
    t.match(all.find(({ type }) => type === 'error'), { payload: [{ message }] }, String(JSON.stringify(payload)))
  }
})

t.test('GraphQL subscriptions: the messages of errors that are no refusals stay in the log', async (t) => {
  const { app, subscribe, enter } = await subscribable(t, { trusted: () => { throw new Error('the password of the database') } })
  const logged: unknown[] = []
  app.log.error = (error: unknown) => { logged.push(error) }
  const { answers, got } = await subscribe({ token: (await enter('ada', 'orders')).access_token })
  t.match(answers.concat(got).find(({ type }) => type === 'error'), { payload: [{ message: /^Internal error$/ }] })
  t.match(logged, [{ cause: { message: 'the password of the database' } }])
})

t.test('GraphQL subscriptions: in cookie mode, pages of other sites get no connection', async (t) => {
  const { app, open, enter } = await subscribable(t, { cookieSet: true })
  const { access_token: token } = await enter('ada', 'orders')
  t.same(await refusalOf(app, open({ cookie: `access_token=${token}`, origin: 'https://evil.example' })), ['Unexpected server response: 403', 0])
})

const trpc = recipe(t, 'trpc.md')

t.test('tRPC: procedures need what their guards say, and the client renews the tokens of a batch', async (t) => {
  const { app, added, names, setTime, enter } = await service(t)
  await trpc.cook(t, 'initTRPC', names, { app })
  const port = await listen(app)
  const client = createClient({ baseUrl: `http://127.0.0.1:${port}`, mode: 'header' })
  const sent: string[] = []
  interface Procedures { hello: { query: () => Promise<string> }, orders: { query: () => Promise<string[]> }, addOrder: { mutate: (text: string) => Promise<void> } }
  const api = await trpc.cook<Procedures>(t, 'httpBatchLink', { location: { href: `http://127.0.0.1:${port}/page` } }, {
    result: 'api',
    modules: {
      './client.js': {
        client: {
          fetch: async (input: URL, init: RequestInit) => {
            const response = await client.fetch(input, init)
            sent.push(`${init.method} ${response.status}`)
            return response
          }
        }
      }
    }
  })
  t.equal(await api.hello.query(), 'Hello')
  await t.rejects(api.orders.query(), Object({ data: { code: 'UNAUTHORIZED', httpStatus: 401 } }))
  await client.login({ name: 'ada', scopes: ['orders:read'] })
  t.same(await api.orders.query(), ['order of ada'])
  await t.rejects(api.addOrder.mutate('x'), Object({ data: { code: 'FORBIDDEN', httpStatus: 403 } }))
  await client.login({ name: 'ada', scopes: ['orders'] })
  await api.addOrder.mutate('x')
  t.same(added, [['ada', 'x']])

  sent.length = 0
  setTime(now() + 3600)
  t.same(await Promise.all([api.hello.query(), api.orders.query()]), ['Hello', ['order of ada']])
  t.same(sent, ['GET 200'])

  const headers = bearer((await enter('broken', 'orders')).access_token)
  const broken = await app.inject({ url: '/trpc/orders', headers })
  t.equal(broken.statusCode, 500)
  t.match(broken.json(), { error: { message: 'Internal error', data: { code: 'INTERNAL_SERVER_ERROR' } } })
  t.notMatch(broken.payload, /password|\.ts/)
  t.equal((await app.inject({ url: '/trpc/addOrder?input=%22x%22', headers })).statusCode, 405, 'no mutation over GET')
  t.equal(added.length, 1)

  // As in TypeScript.
  const createContext = ({ req }: CreateFastifyContextOptions) => ({ req })
  const typed = initTRPC.context<typeof createContext>().create()
  const router = typed.router({
    user: typed.procedure.query(async ({ ctx: { req } }) => req.tokenAuth.userId === null ? null : await req.tokenAuth.user())
  })
  await host(t).register(fastifyTRPCPlugin, { trpcOptions: { router, createContext } satisfies FastifyTRPCPluginOptions<typeof router>['trpcOptions'] })
})

t.test('tRPC: in cookie mode, pages of other sites can change nothing', async (t) => {
  const { app, added, names, enter } = await service(t, { cookieSet: true })
  await recipe(t, 'trpc.md').cook(t, 'initTRPC', names, { app })
  const { access_token: token } = await enter('ada', 'orders')
  const send = async (site: string) => (await post(app, '/trpc/addOrder', Object('x'), { payload: '"x"', headers: { 'content-type': 'application/json', 'sec-fetch-site': site }, cookies: { access_token: token } })).statusCode
  t.equal(await send('cross-site'), 403)
  t.same(added, [])
  t.equal(await send('same-origin'), 200)
})

const zod = recipe(t, 'zod.md')

t.test('Zod: requests, responses, credentials and claims have the form of their schemas', async (t) => {
  const hash = 'the hash of the password'
  const orders: object[] = []
  const app = await zod.cook(t, 'safeParse', {
    secret,
    logIn: async ({ name, password, ...others }: { name: string, password: string }) => {
      t.same(others, {})
      if (password !== 'lovelace') throw new AuthenticationFailed()
      return { user_id: 1, name, hash, tenant: 'red' }
    },
    findUser: async (id: unknown) => id === 1 ? { user_id: 1, name: 'ada', hash } : undefined,
    addOrder: async (order: object) => { orders.push(order); return { id: 1, text: 'x', hash } }
  })
  const ada = { name: 'ada', password: 'lovelace' }
  for (const credentials of [{}, { name: 'ada' }, { ...ada, name: { $ne: null } }, { ...ada, password: 'x'.repeat(201) }]) t.equal((await post(app, '/auth', credentials)).statusCode, 400)
  t.equal((await post(app, '/auth', { ...ada, password: 'wrong' })).statusCode, 401)
  const loggedIn = await post(app, '/auth', { ...ada, user_id: 2, tenant: 'blue' })
  const headers = bearer(loggedIn.json().access_token)
  t.same((await app.inject({ url: '/auth/me', headers })).json(), { me: { user_id: 1, name: 'ada' } })

  t.equal((await post(app, '/orders', { text: '' })).statusCode, 401, 'the guard comes first')
  t.equal((await post(app, '/orders', { text: '' }, { headers })).statusCode, 400)
  const added = await post(app, '/orders', { text: 'x', userId: 2, tenant: 'blue', admin: true }, { headers })
  t.same([added.statusCode, added.json()], [201, { id: 1, text: 'x' }])
  t.same(orders, [{ text: 'x', userId: 1, tenant: 'red' }])
  for (const others of [{}, { tenant: 1 }, { tenant: 'red', user_id: '1' }]) {
    t.equal((await post(app, '/orders', { text: 'x' }, { headers: bearer(forge(claims(others))) })).statusCode, 401, JSON.stringify(others))
  }

  // As in TypeScript.
  const { z } = await import('zod')
  const typed = host(t).withTypeProvider<ZodTypeProvider>()
  await typed.register(tokenAuth, { secret, authMode: false })
  typed.post('/', { onRequest: typed.tokenAuth.protect(), schema: { body: z.object({ text: z.string() }) } }, async ({ body: { text }, tokenAuth: { verified } }) => [text.length, verified.userId])
})

const autoload = recipe(t, 'autoload.md')

/** The files of the recipe, by the names in their first lines. @param change of the text of app.js */
function write (t: Test, change = (text: string) => text, more: Record<string, string> = {}): string {
  const folder = t.testdir({ 'users.js': 'export const logIn = async ({ scopes = [] }) => ({ user_id: 1, scopes })\nexport const findUser = async (id) => ({ user_id: id })\n' })
  const texts = ['// app.js', '// plugins/token-auth.js', '// routes/account/autohooks.js', '// routes/account/orders/index.js', '// routes/health/index.js'].map(autoload.take)
  const all = { ...Object.fromEntries(texts.map((text) => [/^\/\/ ([\w/.-]+\.js)/.exec(text)?.[1] ?? '', change(text)])), ...more }
  for (const [name, text] of Object.entries(all)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return folder
}

/** Starts the application of the recipe. */
async function files (t: Test, ...given: [change?: (text: string) => string, more?: Record<string, string>]): Promise<FastifyInstance> {
  const folder = write(t, ...given)
  process.env.SERVICE_JWT_SECRET = secret
  t.teardown(() => { delete process.env.SERVICE_JWT_SECRET })
  const { default: createApp }: { default: (options: object) => Promise<FastifyInstance> } = await import(pathToFileURL(join(folder, 'app.js')).href)
  const app = await createApp(scannedLog(t))
  t.teardown(() => app.close())
  await app.ready()
  return app
}

t.test('autoload: everything in the folder is guarded, and what is beside it declares that it is open', async (t) => {
  const app = await files(t)
  const { access_token: token } = (await post(app, '/auth', {})).json()
  t.equal((await app.inject('/health')).statusCode, 200)
  t.equal((await app.inject('/account/orders')).statusCode, 401)
  t.same((await app.inject({ url: '/account/orders', headers: bearer(token) })).json(), { ordersOf: 1 })
  t.equal((await app.inject({ method: 'DELETE', url: '/account/orders/1', headers: bearer(token) })).statusCode, 403)
  const { access_token: writer } = (await post(app, '/auth', { scopes: ['orders:write'] })).json()
  t.same((await app.inject({ method: 'DELETE', url: '/account/orders/1', headers: bearer(writer) })).json(), { deleted: '1' })
})

t.test('autoload: the command that the recipe names prints who may use which route', async (t) => {
  const folder = write(t)
  const { stdout } = await promisify(execFile)(process.execPath, [fileURLToPath(new URL('../../../bin/fastify-token-auth.js', import.meta.url)), 'routes', 'app.js'], { cwd: folder, env: { ...process.env, SERVICE_JWT_SECRET: secret, NODE_OPTIONS: '' } })
  t.match(stdout, /DELETE +\/account\/orders\/:id +scoped +tokenAuth in onRequest/)
})

t.test('autoload: without cascadeHooks, and with a route beside the folder, the application does not start', async (t) => {
  const E20: object = { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E20' }
  await t.rejects(files(t, (text) => text.replace(', cascadeHooks: true', '')), Object({ ...E20, message: /\/account\/orders/ }))
  await t.rejects(files(t, undefined, { 'routes/orders.js': "export default async function (app) { app.get('/orders', async () => 'open') }\n" }), Object(E20))
})

const serverless = recipe(t, 'serverless.md')

interface Result { statusCode: number, body: string, cookies?: string[], headers: Record<string, string> }
type Handle = (event: object, context?: object) => Promise<Result>

/** A function of AWS Lambda with a store, which other functions may have, too. */
async function lambda (t: Test, store: ReturnType<typeof memorySessions>, env: Record<string, string> = { DATABASE_URL: 'postgres://', SERVICE_JWT_SECRET: secret, SESSION_SECRET: `${secret} of sessions` }) {
  class Pool { on () { return this } }
  const handle = await serverless.cook<Handle>(t, 'awsLambda(app)', {
    // Not that of the other tests: the adapter calls inject() with a callback.
    Fastify: () => {
      const app = Fastify(scannedLog(t))
      t.teardown(() => app.close())
      return app
    },
    process: { env },
    cookies,
    postgresSessions: () => store,
    authenticate: async () => ({ user_id: 1 }),
    retrieveUser: async () => ({ user_id: 1 }),
    handler: async ({ ip, tokenAuth: { userId } }: FastifyRequest) => ({ ip, userId })
  }, { result: 'handle', modules: { pg: { default: { Pool } } } })
  /** An event of API Gateway, in its format 2.0. */
  const send = async (method: string, path: string, { cookies = [], headers = {}, body }: { cookies?: string[] | undefined, headers?: object, body?: string } = {}) => await handle({
    version: '2.0',
    rawPath: path,
    rawQueryString: '',
    headers: { host: 'api.example.org', 'x-forwarded-for': '192.0.2.1, 198.51.100.7', ...headers },
    cookies,
    requestContext: { http: { method, path, sourceIp: '198.51.100.7' }, stage: '$default' },
    ...(body !== undefined && { body: Buffer.from(body).toString('base64'), isBase64Encoded: true })
  })
  const json = { 'content-type': 'application/json' }
  const enter = async () => (await send('POST', '/auth', { headers: json, body: '{"name":"ada"}' })).cookies?.map((line) => line.split(';')[0] ?? '')
  return { send, enter, json }
}

t.test('serverless: cookies go through the adapter, and the address is what the gateway has seen', async (t) => {
  const { send, enter } = await lambda(t, memorySessions())
  const own = await enter()
  t.equal(own?.length, 2)
  t.same(JSON.parse((await send('GET', '/orders', { cookies: own, headers: { 'x-forwarded-for': '203.0.113.1' } })).body), { ip: '198.51.100.7', userId: 1 })
  t.equal((await send('GET', '/orders')).statusCode, 401)
  const renewed = await send('POST', '/auth/refresh', { cookies: own })
  t.equal(renewed.cookies?.length, 2)
  t.equal((await send('POST', '/auth/logout', { cookies: own, headers: { 'sec-fetch-site': 'cross-site' } })).statusCode, 403)
})

t.test('serverless: a function whose timers do not run refuses a session that another one has ended, and says when the store fails', async (t) => {
  const store = memorySessions()
  const fails = { list: false }
  const shared = { ...store, list: async (...given: Parameters<typeof store.list>) => { if (fails.list) throw new Error('down'); return await store.list(...given) } }
  const [one, other] = [await lambda(t, shared), await lambda(t, { ...shared })]
  const own = await one.enter()
  t.equal((await other.send('GET', '/orders', { cookies: own })).statusCode, 200)
  fails.list = true
  const refused = await other.send('GET', '/orders', { cookies: own })
  t.match(refused, { statusCode: 503, headers: { 'retry-after': '5' } })
  fails.list = false
  t.equal((await one.send('POST', '/auth/logout', { cookies: own })).statusCode, 204)
  t.equal((await other.send('GET', '/orders', { cookies: own })).statusCode, 401)
  const token = forge(claims())
  t.equal((await other.send('GET', '/orders', { cookies: [`__Host-access_token=${token}`] })).statusCode, 401, 'a token without a session')
})

t.test('serverless: it does not start without its secrets', async (t) => {
  await t.rejects(lambda(t, memorySessions(), { DATABASE_URL: 'postgres://', SERVICE_JWT_SECRET: secret }), { message: 'Set the environment variable SESSION_SECRET.' })
})

const websockets = recipe(t, 'websockets.md')
let waits = true

t.test('WebSockets: in header mode the first message is the token, and the connection ends with it; without one it ends', async (t) => {
  const setTime = setClock(t, now())
  const app = await websockets.cook(t, ['maxPayload', '/news'], {
    secret,
    cookies: {},
    authenticate: async ({ body }: FastifyRequest) => ({ user_id: Object(body).name }),
    retrieveUser: async (_request: unknown, { user_id: id }: { user_id: unknown }) => ({ user_id: id }),
    setTimeout: (run: () => void) => setTimeout(run, waits ? 3_600_000 : 0)
  })
  const port = await listen(app)
  const open = () => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/news`)
    t.teardown(() => socket.terminate())
    return socket
  }
  const tokens = (await post(app, '/auth', { name: 'ada' })).json()
  const socket = open()
  await once(socket, 'open')
  const got: string[] = []
  socket.on('message', (data) => { got.push(String(data)); socket.emit('got') })
  for (const text of [tokens.access_token, 'one', 'two']) socket.send(text)
  while (got.length < 2) await once(socket, 'got')
  t.same(got, ['ada: one', 'ada: two'], 'messages that come right after the token are not lost')
  const ended = once(socket, 'close')
  await post(app, '/auth/logout', { refresh_token: tokens.refresh_token })
  t.match(await ended, [4401, Buffer.from('Session has ended.')])

  for (const text of [tokens.access_token, forge(claims(), { key: otherSecret }), '', '{}']) {
    const stranger = open()
    stranger.on('message', () => t.fail('it has no valid token'))
    await once(stranger, 'open')
    const closed = once(stranger, 'close')
    for (const message of [text, 'one']) stranger.send(message)
    t.match(await closed, [4401])
  }
  setTime(now() + 1)
  waits = false
  t.match(await once(open(), 'close'), [4401, Buffer.from('No token came.')])
})

/** The chat of the recipe, and its connections. @param late a hook that runs between guards and handlers */
async function chat (t: Test, late?: (request: FastifyRequest) => Promise<void>) {
  const setTime = setClock(t, now())
  const app = await websockets.cook(t, 'maxPayload', {
    secret,
    cookies,
    authenticate: async ({ body }: FastifyRequest) => ({ user_id: Object(body).name }),
    retrieveUser: async (_request: unknown, { user_id: id }: { user_id: unknown }) => ({ user_id: id })
  })
  if (late !== undefined) app.addHook('preHandler', async (request: FastifyRequest) => { if (request.url === '/chat') await late(request) })
  const port = await listen(app)
  const enter = async (name: string) => cookiesOf(await post(app, '/auth', { name }))
  const open = (session: Record<string, string> = {}, headers: Record<string, string> = {}) => {
    const cookie = Object.entries(session).map(([name, value]) => `${name}=${value}`).join('; ')
    const socket = new WebSocket(`ws://127.0.0.1:${port}/chat`, { headers: { cookie, ...headers } })
    t.teardown(() => socket.terminate())
    return socket
  }
  return { app, enter, open, setTime }
}

t.test('WebSockets: a message reaches the connections of its user alone', async (t) => {
  const { enter, open } = await chat(t)
  const [ada, grace] = [await enter('ada'), await enter('grace')]
  const [one, other, foreign] = [open(ada), open(ada), open(grace)]
  await Promise.all([one, other, foreign].map(async (socket) => await once(socket, 'open')))
  foreign.on('message', () => t.fail('it is for another user'))
  const got = once(other, 'message')
  one.send('hello')
  t.equal(String((await got)[0]), 'ada: hello')
})

t.test('WebSockets: no handshake without a token, or of a page of another site', async (t) => {
  const { app, enter, open } = await chat(t)
  t.same(await refusalOf(app, open()), ['Unexpected server response: 401', 0])
  const ada = await enter('ada')
  for (const origin of ['https://evil.example', 'null']) t.same(await refusalOf(app, open(ada, { origin })), ['Unexpected server response: 403', 0])
})

t.test('WebSockets: a connection ends with its session, and after a message that is too long; a user has ten', async (t) => {
  const { app, enter, open } = await chat(t)
  const ada = await enter('ada')
  const sockets = Array.from({ length: 10 }, () => open(ada))
  await Promise.all(sockets.map(async (socket) => await once(socket, 'open')))
  t.match(await once(open(ada), 'close'), [4429])
  const [long] = sockets as [WebSocket]
  const ended = once(long, 'close')
  long.send('x'.repeat(65_537))
  t.match(await ended, [1009])
  const closed = sockets.slice(1).map(async (socket) => await once(socket, 'close'))
  await post(app, '/auth/logout', {}, { cookies: ada })
  for (const [code, reason] of await Promise.all(closed)) t.same([code, String(reason)], [4401, 'Session has ended.'])
  const again = open(await enter('ada'))
  await once(again, 'open')
})

// Promise: security/ends-during-handshake
t.test('WebSockets and GraphQL: a connection whose session ends while the handshake is under way is closed', async (t) => {
  for (const isRead of [true, false]) {
    const { enter, open } = await chat(t, endSession(isRead))
    const [code, reason] = await once(open(await enter('ada')), 'close')
    t.same([code, String(reason)], [4401, 'Session has ended.'], caseOf(isRead))
    const { open: connect, enter: login } = await subscribable(t, {}, endSession(isRead))
    const { access_token: token } = await login('ada', 'orders')
    const socket = connect(bearer(token))
    await once(socket, 'open')
    const ended = once(socket, 'close')
    socket.send('{"type":"connection_init"}')
    socket.send('{"id":"1","type":"subscribe","payload":{"query":"subscription { orderAdded }"}}')
    const [closed, why] = await ended
    t.same([closed, String(why)], [4403, 'Session has ended.'], caseOf(isRead))
  }
})

const rendering = recipe(t, 'server-rendering.md')

interface Renderer {
  callApi: (given: Headers, path: string, init?: RequestInit) => Promise<Response>
  renewTokens: (given: Headers) => Promise<{ cookie: string, setCookies: string[] }>
}

/** The API, and the module of a renderer. */
async function rendered (t: Test) {
  const start = now()
  const setTime = setClock(t, start)
  const app = await rendering.cook(t, "app.get('/orders'", {
    secret,
    cookies,
    authenticate: async ({ body }: FastifyRequest) => ({ user_id: Object(body).name }),
    retrieveUser: async (_request: unknown, { user_id: id }: { user_id: unknown }) => ({ user_id: id })
  })
  app.post('/orders', { onRequest: app.tokenAuth.protect() }, async () => 'added')
  app.get('/elsewhere', { config: { tokenAuth: false } }, async (_request: FastifyRequest, reply: FastifyReply) => await reply.redirect('https://evil.example/'))
  const process = { env: { API_URL: `http://127.0.0.1:${await listen(app)}` } }
  const module = await rendering.cook<Renderer>(t, 'API_URL', { process }, { result: '{ callApi, renewTokens }' })
  const page = { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }
  const asHeader = (session: Record<string, string>) => Object.entries(session).map(([name, value]) => `${name}=${value}`).join('; ')
  const enter = async (name = 'ada') => asHeader(cookiesOf(await post(app, '/auth', { name })))
  return { app, enter, page, expire: () => setTime(now() + 3600), ...module }
}

t.test('a renderer: it loads what the user may see, and renews the tokens of a page that was opened, also by a link of another site', async (t) => {
  const { enter, page, expire, callApi, renewTokens } = await rendered(t)
  const cookie = await enter()
  const open = async (cookie: string, more = {}) => {
    const given = new Headers({ ...page, cookie, authorization: 'Bearer of another service', ...more })
    const { setCookies, ...renewed } = await renewTokens(given)
    given.set('cookie', renewed.cookie)
    return { setCookies, cookie: renewed.cookie, response: await callApi(given, '/orders') }
  }
  const first = await open(cookie)
  t.same([first.setCookies, first.cookie, await first.response.json()], [[], cookie, { ordersOf: 'ada' }])
  t.equal((await open('')).response.status, 401)

  expire()
  const [second, same] = await Promise.all([open(cookie, { 'sec-fetch-site': 'cross-site' }), open(cookie)])
  for (const { setCookies, cookie: renewed, response } of [second, same]) {
    t.equal(response.status, 200)
    t.equal(setCookies.length, 2)
    t.same(renewed.split('; ').map((pair) => pair.split('=')[0]), ['__Host-access_token', '__Host-refresh_token'])
  }
  t.equal((await open(second.cookie)).setCookies.length, 0)
  expire()
  t.equal((await open(second.cookie, { 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': 'image' })).response.status, 401, 'a page of another site makes nobody\'s tokens change')
})

t.test('a renderer: a cookie that was sent twice stays so, also beside one that is renewed', async (t) => {
  const { enter, page, expire, callApi, renewTokens } = await rendered(t)
  const [access = '', refresh = ''] = (await enter()).split('; ')
  const planted = '__Host-access_token=planted'
  const given = new Headers({ ...page, cookie: `${access}; ${planted}; other=1; other=2; ${refresh}` })
  const { cookie, setCookies } = await renewTokens(given)
  const fresh = setCookies.filter((line) => !line.includes('Max-Age=0'))
  t.same([fresh.length, cookie.split('; ').toSorted()], [2, [...fresh.map((line) => line.split(';')[0]), 'other=1', 'other=2'].toSorted()], 'the guard replaces an access token, however bad it is')
  t.same(setCookies.filter((line) => line.includes('Max-Age=0')).map((line) => line.split('=')[0]), ['__Host-access_token', '__Host-access_token'], 'the browser forgets the twins first, also a partitioned one')
  const twins = new Headers({ ...page, cookie: `${access}; ${refresh}; __Host-refresh_token=planted` })
  expire()
  const refused = await renewTokens(twins)
  t.equal(refused.cookie, twins.get('cookie'))
  t.ok(refused.setCookies.length > 0 && refused.setCookies.every((line) => /^__Host-refresh_token=; Max-Age=0;/.test(line)), 'the browser forgets both')
  twins.set('cookie', refused.cookie)
  t.equal((await callApi(twins, '/orders')).status, 401)
})

t.test('a renderer: the API refuses what a page of another site sends, and follows no redirect', async (t) => {
  const { enter, callApi } = await rendered(t)
  const cookie = await enter()
  const send = async (headers: Record<string, string>) => (await callApi(new Headers({ cookie, ...headers }), '/orders', { method: 'POST' })).status
  t.equal(await send({ 'sec-fetch-site': 'same-origin', origin: 'https://app.example.org' }), 200)
  t.equal(await send({ origin: 'https://app.example.org' }), 200, 'an old browser')
  t.equal(await send({ 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }), 403)
  t.equal(await send({ 'sec-fetch-site': 'cross-site' }), 403)
  t.equal(await send({ origin: 'https://evil.example' }), 403)
  await t.rejects(callApi(new Headers({ cookie }), '/elsewhere'))
})

t.test('a renderer: proxy.js gives the page the new cookies, and the browser, too, in a response that no cache keeps', async (t) => {
  const { enter, page, expire, renewTokens } = await rendered(t)
  const NextResponse = { next: ({ request: { headers } }: { request: { headers: Headers } }) => ({ headers: new Headers(), given: headers }) }
  const proxy = await rendering.cook<(request: { headers: Headers }) => Promise<{ headers: Headers, given: Headers }>>(t, 'export async function proxy', {}, {
    result: 'proxy', modules: { 'next/server': { NextResponse }, './api.js': { renewTokens } }
  })
  const headers = new Headers({ ...page, cookie: await enter() })
  const { headers: kept } = await proxy({ headers })
  t.same([...kept], [])
  expire()
  const renewed = await proxy({ headers })
  t.equal(renewed.headers.getSetCookie().length, 2)
  t.equal(renewed.headers.get('cache-control'), 'no-store')
  t.not(renewed.given.get('cookie'), headers.get('cookie'))
})

for (const { end } of [graphql, subscriptions, trpc, zod, autoload, serverless, rendering]) end()
