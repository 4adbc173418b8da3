/** The small examples: each starts when it is called, and keeps what its index says of it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance, InjectOptions } from 'fastify'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { bearer, headerOf, host, now, payloadOf, scannedLog, setClock } from '../helper.ts'

const folder = new URL('../../examples/', import.meta.url)
const programs = readdirSync(folder).filter((name) => /\.[jt]s$/.test(name) && name !== 'shared.js')

interface Example { createService: (options?: object) => Promise<FastifyInstance> }

async function create (t: Test, name: string, options: object = {}): Promise<FastifyInstance> {
  const { createService }: Example = await import(new URL(name, folder).href)
  const app = await createService({ fastify: scannedLog(t), ...options })
  t.teardown(() => app.close())
  return app
}

const ada = { username: 'ada', password: 'lovelace' }

/** Logs in and gives the access token. */
async function logIn (app: FastifyInstance, payload: object = ada, request: InjectOptions = {}): Promise<string> {
  const response = await app.inject({ method: 'POST', url: '/auth', payload, ...request })
  return response.json().access_token
}

/** The last millisecond in which a token is valid. */
const lastMomentOf = (app: FastifyInstance, token: string) => Number(payloadOf(token).exp) + app.tokenAuth.settings.leeway - 0.001

const statusOf = async (app: FastifyInstance, request: InjectOptions) => (await app.inject(request)).statusCode

/** Starts an example as a user does and gives its address. */
async function run (t: Test, name: string, environment: Record<string, string> = {}): Promise<string> {
  const program = spawn(process.execPath, [fileURLToPath(new URL(name, folder))], {
    // Without what the test runner puts there for programs of its own.
    env: { PATH: process.env.PATH, PORT: '0', ...environment }, stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(async () => {
    program.kill()
    if (program.exitCode === null && program.signalCode === null) await once(program, 'exit')
  })
  for await (const line of createInterface({ input: program.stdout })) {
    // The issuer also names the address where the verifier will be.
    const [, address] = /(http:\/\/127\.0\.0\.1:(?!3001)\d+)/.exec(line) ?? []
    if (address !== undefined) return address
  }
  throw new Error(`${name} printed no address`)
}

t.test('the issuer and the verifier are two processes: the verifier needs nothing but the public key', async (t) => {
  const issuer = await run(t, 'issuer.js')
  const verifier = await run(t, 'verifier.js', { ISSUER: issuer })
  const login = async (password: string) => await fetch(`${issuer}/auth`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ ...ada, password })
  })
  t.equal((await login('wrong')).status, 401)
  const tokens = await (await login('lovelace')).json() as { access_token: string }
  const report = await fetch(`${verifier}/reports`, { headers: bearer(tokens.access_token) })
  t.same(await report.json(), { userId: 1, department: 'research', reports: ['January', 'February'] })
  t.equal((await fetch(`${verifier}/reports`)).status, 401)
  t.equal((await fetch(`${verifier}/auth`, { method: 'POST' })).status, 404, 'the verifier has no login')
})

t.test('a trusted issuer: its users and scopes count, new keys too, and while it is down the known ones; the program ends by itself', async (t) => {
  const program = spawn(process.execPath, [fileURLToPath(new URL('trusted-issuer.js', folder))], { env: { PATH: process.env.PATH, PORT: '0' }, stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => program.kill())
  const exited = once(program, 'exit')
  const lines: string[] = []
  for await (const line of createInterface({ input: program.stdout })) lines.push(line)
  t.same(await exited, [0, null])
  t.same(lines.map((line) => line.replace(/^(.*) is answered with (\d+).*?(\w+)"?[\]}]$/, '$1 $2 $3')), [
    'Ada: GET /hello 200 Ada',
    'Ada: GET /reports 200 February',
    'Grace, without the scope: GET /hello 200 Grace',
    'Grace, without the scope: GET /reports 403 InsufficientScope',
    'Ada, with a new key: GET /hello 200 Ada',
    'The issuer is down, a key that is known: GET /hello 200 Ada',
    'The issuer is down, a key that is not known: GET /hello 503 KeysUnavailable',
    'Both services are closed.'
  ])
})

t.test('OpenTelemetry: the span of a request says why it was refused, and what was issued, without a token', async (t) => {
  const spans: Array<{ attributes: Record<string, unknown> }> = []
  const spanExporter = { export: (ended: typeof spans, done: (result: object) => void) => { spans.push(...ended); done({ code: 0 }) }, shutdown: async () => {} }
  const app = await create(t, 'opentelemetry.js', { spanExporter })
  const attributesOf = async (options: InjectOptions) => {
    const { payload } = await app.inject(options)
    return { payload, attributes: spans.splice(0).pop()?.attributes }
  }
  const { payload, attributes } = await attributesOf({ method: 'POST', url: '/auth', payload: ada })
  t.match(attributes, { 'http.response.status_code': 200, 'token_auth.grant': 'authenticate', 'error.type': undefined })
  const { access_token: token } = JSON.parse(payload)
  const answers = [
    await attributesOf({ url: '/reports' }), await attributesOf({ url: '/reports', headers: bearer(`${token}x`) }), await attributesOf({ url: '/reports', headers: bearer(token) }),
    await attributesOf({ method: 'DELETE', url: '/reports', headers: bearer(token) })
  ]
  t.same(answers.map(({ attributes }) => attributes?.['error.type']), ['TOKEN_AUTH_MISSING_AUTHORIZATION_HEADER', 'TOKEN_AUTH_INVALID_TOKEN', undefined, 'TOKEN_AUTH_INSUFFICIENT_SCOPE'])
  t.notOk(JSON.stringify(answers.map(({ attributes }) => attributes)).includes(token))
})

t.test('every other example starts when it is called, and prints what to try', async (t) => {
  // TypeScript is run by Node.js 22.18 and later only; its test is further down.
  const names = programs.filter((name) => name.endsWith('.js') && !['issuer.js', 'verifier.js', 'trusted-issuer.js'].includes(name))
  await Promise.all([...names, 'web/server.js'].map(async (name) => {
    const address = await run(t, name)
    t.ok((await fetch(address)).status < 500, name)
  }))
})

t.test('the verifier does not start without its issuer', async (t) => {
  const app = await create(t, 'tenants.js')
  const issuer = await app.listen({ port: 0, host: '127.0.0.1' })
  await t.rejects(create(t, 'verifier.js', { issuer }), { message: 'The issuer answered 404.' })
})

t.test('passwords: a few tries a minute, one answer for both mistakes', async (t) => {
  setClock(t, now())
  const app = await create(t, 'password.js')
  const answers: string[] = []
  for (const payload of [{ ...ada, password: 'x' }, { ...ada, username: 'nobody' }, { ...ada, password: ['lovelace'] }, {}]) {
    const response = await app.inject({ method: 'POST', url: '/auth', payload })
    t.equal(response.statusCode, 401, JSON.stringify(payload))
    answers.push(response.payload)
  }
  t.equal(new Set(answers).size, 1)
  t.equal(await statusOf(app, { url: '/private', headers: bearer(await logIn(app)) }), 200)
  t.equal(await statusOf(app, { method: 'POST', url: '/auth', payload: ada }), 429)
  t.equal(await statusOf(app, { method: 'POST', url: '/auth', payload: ada, remoteAddress: '127.0.0.2' }), 200, 'others may log in')
  t.equal(await statusOf(app, { url: '/private' }), 401, 'other routes have no such limit')
})

t.test('passwords: an application whose login has another path than the limit does not start', async (t) => {
  const { limitLogins }: { limitLogins: (app: FastifyInstance) => Promise<void> } = await import(new URL('password.js', folder).href)
  const app = host(t)
  await limitLogins(app)
  app.post('/api/auth', async () => 'no limit')
  app.post('/auth', async () => 'limited')
  await t.rejects(async () => { await app.ready() }, { message: 'There are no routes to limit: POST /auth/. Give limitLogins the paths of the logins.' })
})

t.test('rotation: the key changes from a secret to a pair, and whoever is logged in stays so', async (t) => {
  const start = now()
  const setTime = setClock(t, start)
  const app = await create(t, 'rotation.js')
  const changeKey: unknown = Reflect.get(app, 'changeKey')
  if (typeof changeKey !== 'function') throw new Error('The example changes no key.')
  const post = async (url: string, payload: object) => (await app.inject({ method: 'POST', url, payload })).json()
  const seen: unknown[] = []
  const meet = async (token: string) => { seen.push([headerOf(token).kid, await statusOf(app, { url: '/private', headers: bearer(token) })]) }
  const { access_token: first, refresh_token: held } = await post('/auth', ada)
  await meet(first)
  await changeKey(3)
  setTime(start + 2)
  const { access_token: second, refresh_token: next } = await post('/auth/refresh', { refresh_token: held })
  await meet(second)
  setTime(start + 3)
  for (const token of [second, (await post('/auth/refresh', { refresh_token: next })).access_token]) await meet(token)
  setTime(start + 15)
  for (const token of [second, (await post('/auth/refresh', { refresh_token: next })).access_token]) await meet(token)
  t.same(seen, [['old', 200], ['old', 200], ['old', 200], ['new', 200], ['old', 401], ['new', 200]])
  t.same(app.tokenAuth.keyStatus().keys.map(({ kid, state }) => [kid, state]), [['new', 'signing'], ['old', 'gone']])
})

t.test('instances: staff and partners have tokens of their own', async (t) => {
  const app = await create(t, 'instances.js')
  const staff = await logIn(app, ada, { url: '/staff/auth' })
  const partner = await logIn(app, { key: 'key of acme' }, { url: '/partners/auth' })
  t.same((await app.inject({ url: '/staff/orders', headers: bearer(staff) })).json(), { staff: 1, orders: [1, 2, 3] })
  t.same((await app.inject({ url: '/partners/orders', headers: { 'x-partner-token': partner } })).json(), { partner: 'acme', orders: [2] })
  t.equal(await statusOf(app, { url: '/staff/orders', headers: bearer(partner) }), 401)
  t.equal(await statusOf(app, { url: '/partners/orders', headers: { 'x-partner-token': staff } }), 401)
  t.equal(await statusOf(app, { method: 'POST', url: '/partners/auth', payload: { key: 'x' } }), 401)
})

t.test('tenants: a token of one means nothing to another, and an unknown one is not found', async (t) => {
  const app = await create(t, 'tenants.js')
  const red = { host: 'red.localhost:3000' }
  const blue = { host: 'blue.localhost:3000' }
  const token = await logIn(app, ada, { headers: red })
  t.same((await app.inject({ url: '/private', headers: { ...red, ...bearer(token) } })).json(), { tenant: 'red', userId: 1 })
  t.equal(await statusOf(app, { url: '/private', headers: { ...blue, ...bearer(token) } }), 401)
  t.equal(await statusOf(app, { method: 'POST', url: '/auth', payload: ada, headers: blue }), 401, 'users are kept apart, too')
  for (const headers of [{ host: 'green.localhost' }, { host: 'constructor' }]) t.equal(await statusOf(app, { url: '/private', headers: { ...headers, ...bearer(token) } }), 404)
})

t.test('scopes: each user may do what the scopes say', async (t) => {
  const app = await create(t, 'scopes.js')
  const routes = ['GET /projects', 'DELETE /projects', 'GET /log', 'PUT /projects/7', 'PUT /projects/8', 'PUT /projects/x']
  const expected: Record<string, number[]> = {
    'ada lovelace': [200, 200, 200, 200, 200, 400],
    'grace hopper': [200, 403, 200, 200, 403, 400],
    'joan clarke': [403, 403, 200, 403, 403, 400]
  }
  for (const [name, statuses] of Object.entries(expected)) {
    const [username, password] = name.split(' ')
    const headers = bearer(await logIn(app, { username, password }))
    const found = await Promise.all(routes.map((route) => {
      const [method, url] = route.split(' ') as ['GET', string]
      return statusOf(app, { method, url, headers })
    }))
    t.same(found, statuses, name)
  }
})

t.test('custom claims: a session that is ended takes its token along, and no other', async (t) => {
  const app = await create(t, 'custom-claims.js')
  const [first, second] = [bearer(await logIn(app)), bearer(await logIn(app))]
  t.same((await app.inject({ url: '/private', headers: first })).json(), { plan: 'paid' })
  t.equal(await statusOf(app, { method: 'DELETE', url: '/session', headers: first }), 204)
  t.equal(await statusOf(app, { url: '/private', headers: first }), 401)
  t.equal(await statusOf(app, { url: '/private', headers: second }), 200)
  const free = await app.tokenAuth.generateAccessToken({ user_id: 2, plan: 'stolen' })
  t.equal(await statusOf(app, { url: '/private', headers: bearer(free) }), 401, 'the extra verification refuses other plans')
})

t.test('WebSockets: opened with a token only, from the header or the query string, and closed when it expires or its session ends', async (t) => {
  const app = await create(t, 'websocket.js')
  const address = (await app.listen({ port: 0, host: '127.0.0.1' })).replace('http', 'ws')
  const token = await logIn(app)
  for (const [url, options] of [['/echo', { headers: bearer(token) }], [`/echo?access_token=${token}`, {}]] as const) {
    const socket = new WebSocket(address + url, options)
    await once(socket, 'open')
    socket.send('hello')
    const [message] = await once(socket, 'message')
    t.equal(String(message), '1: hello')
    socket.close()
    await once(socket, 'close')
  }
  for (const url of ['/echo', '/echo?access_token=x']) {
    const [, response] = await once(new WebSocket(address + url), 'unexpected-response')
    t.equal(response.statusCode, 401, url)
  }
  const socket = new WebSocket(`${address}/echo?access_token=${token}`)
  await once(socket, 'open')
  const closed = once(socket, 'close')
  const other = await logIn(app)
  t.equal(await statusOf(app, { method: 'POST', url: '/auth/logout', headers: bearer(token) }), 204)
  const [code, reason] = await closed
  t.same([code, String(reason)], [4401, 'Session has ended.'])
  setClock(t, lastMomentOf(app, other))
  const [expired] = await once(new WebSocket(`${address}/echo?access_token=${other}`), 'close')
  t.equal(expired, 4401)
})

t.test('server-sent events: given with a token only, and ended when it expires or its session ends', async (t) => {
  const app = await create(t, 'server-sent-events.js')
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  t.equal((await fetch(`${address}/events`)).status, 401)
  const [token, other] = [await logIn(app), await logIn(app)]
  const decoder = new TextDecoder()
  const read = async (stream: AsyncIterator<Uint8Array>) => {
    const { value } = await stream.next()
    return value === undefined ? 'the end' : decoder.decode(value)
  }
  const open = async (token: string) => (await fetch(`${address}/events`, { headers: bearer(token) })).body![Symbol.asyncIterator]()

  const events = await open(token)
  t.equal(await read(events), 'data: Hello, user 1.\n\n')
  t.equal(await statusOf(app, { method: 'POST', url: '/news', headers: bearer(other), payload: { text: 'It\nworks.' } }), 204)
  t.equal(await read(events), 'data: It works.\n\n')
  t.equal(await statusOf(app, { method: 'POST', url: '/auth/logout', headers: bearer(token) }), 204)
  t.equal(await read(events), 'event: end\ndata: Session has ended.\n\n')
  t.equal(await read(events), 'the end')

  setClock(t, lastMomentOf(app, other))
  const text = await (await fetch(`${address}/events`, { headers: bearer(other) })).text()
  t.match(text, /event: end\ndata: Token has expired\./)
})

// Promise: security/ends-during-handshake
t.test('WebSockets and server-sent events: a connection whose session ends while it is opened is ended', async (t) => {
  for (const isRead of [true, false]) {
    const opened = async (name: string, path: string) => {
      const app = await create(t, name)
      app.addHook('preHandler', async (request) => {
        if (request.routeOptions.url !== path) return
        const signal = isRead ? request.tokenAuth.signal : undefined
        await app.tokenAuth.sessions.endAll(request.tokenAuth.userId!)
        t.not(signal?.aborted, false)
      })
      return { token: await logIn(app), address: `${await app.listen({ port: 0, host: '127.0.0.1' })}${path}` }
    }
    const echo = await opened('websocket.js', '/echo')
    const [code, reason] = await once(new WebSocket(echo.address.replace('http', 'ws'), { headers: bearer(echo.token) }), 'close')
    t.same([code, String(reason)], [4401, 'Session has ended.'])
    const events = await opened('server-sent-events.js', '/events')
    t.match(await (await fetch(events.address, { headers: bearer(events.token) })).text(), /event: end\ndata: Session has ended\.\n\n$/)
  }
})

t.test('TypeScript: the users that were declared are those that routes see', async (t) => {
  const app = await create(t, 'typed.ts')
  const headers = bearer(await logIn(app))
  t.same((await app.inject({ url: '/plan', headers })).json(), { user: 1, plan: 'paid' })
  t.same((await app.inject({ url: '/hello', headers })).json(), { hello: 'ada' })
  t.same((await app.inject({ url: '/hello' })).json(), { hello: 'stranger' })
  t.match(payloadOf(headers.authorization.slice(7)), { user_id: 1, plan: 'paid' })
  t.equal(await statusOf(app, { method: 'POST', url: '/auth', payload: { username: 'ada' } }), 401)
})

t.test('every example is small, in the index and named there by its file', async (t) => {
  const index = readFileSync(new URL('README.md', folder), 'utf8')
  for (const name of programs) {
    t.match(index, `[${name}](${name})`)
    t.ok(readFileSync(new URL(name, folder), 'utf8').split('\n').length <= 80, `${name} has at most 80 lines`)
  }
  for (const [, target = ''] of index.matchAll(/\]\(([^)]+)\)/g)) t.doesNotThrow(() => readFileSync(new URL(target, folder)), target)
})
