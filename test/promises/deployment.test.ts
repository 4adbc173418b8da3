/** docs/deployment.md and docs/operation.md: their examples run, and what they say of proxies, processes, production and the store is so. */
import { execFileSync } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { metrics } from '@opentelemetry/api'
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import t, { type Test } from 'tap'
import { main } from '../../lib/cli.ts'
import tokenAuth, { memorySessions, type SessionStore } from '../../lib/index.ts'
import { createTestToken } from '../../lib/testing.ts'
import { authenticate, bearer, environment, holdTimers, host, login, otherSecret, refusal, secret, setClock, users, warnings } from '../helper.ts'
import { examplesOf } from '../programs.ts'
import { refresh, started, WatchedStore, withSessions } from '../sessions/helper.ts'

const page = examplesOf('deployment.md', ['js', 'ts'])
const operation = examplesOf('operation.md')
const retrieveUser = (_request: unknown, payload: { user_id: unknown }) => users.find((user) => user.user_id === payload.user_id)

/** Runs the first example as a process of its own would. */
async function deploy (t: Test, variables: Record<string, string> = {}) {
  environment(t, 'production')
  const lines: string[] = []
  const signals = new Map<string, () => void>()
  const closings: string[] = []
  let release = () => {}
  const released = new Promise<void>((resolve) => { release = resolve })
  let reach = () => {}
  const reached = new Promise<void>((resolve) => { reach = resolve })
  class Redis {
    on () {}
    // Redis hangs: it does not respond any more.
    quit () { return new Promise(() => {}) }
    disconnect () { closings.push('disconnect') }
  }
  const names = {
    Fastify: (options: FastifyServerOptions) => host(t, { ...options, logger: { stream: { write: (line: string) => { lines.push(line) } } } }),
    tokenAuth,
    Redis,
    redisSessions: (): SessionStore => memorySessionsOfADatabase(),
    authenticate,
    retrieveUser,
    handler: async () => {
      reach()
      await released
      return 'the whole report'
    },
    process: {
      env: { SERVICE_JWT_SECRET: secret, SESSION_SECRET: otherSecret, REDIS_URL: 'redis://127.0.0.1', HOST: '127.0.0.1', PORT: '0', ...variables },
      once: (signal: string, listener: () => void) => { signals.set(signal, listener) }
    }
  }
  const app = await page.run<FastifyInstance>('new Redis(', names, 'app')
  return { app, lines, signals, closings, release, reached }
}

/** A store that is not recognized as one in memory, so that there is no warning of it. */
function memorySessionsOfADatabase (): SessionStore {
  const store = memorySessions()
  return {
    create: (...given) => store.create(...given),
    advance: (...given) => store.advance(...given),
    end: (...given) => store.end(...given),
    list: (...given) => store.list(...given),
    endedSince: (...given) => store.endedSince(...given),
    confirm: (...given) => store.confirm(...given)
  }
}

t.test('the first example starts in production without a warning, and after a signal it finishes the requests under way before it closes the client of the store, also if the store hangs', async (t) => {
  const { app, signals, closings, release, reached } = await deploy(t)
  const [address] = app.addresses().map((bound) => `http://127.0.0.1:${Object(bound).port}`)
  t.same(await (await fetch(`${address}/health`)).json(), { status: 'ok' })
  const json = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ username: 'ada', password: 'lovelace' }) }
  const cookie = (await fetch(`${address}/auth`, json)).headers.getSetCookie().map((field) => field.split(';', 1)[0]).join('; ')
  const report = fetch(`${address}/reports`, { headers: { cookie } })
  await reached
  t.same([...signals.keys()], ['SIGINT', 'SIGTERM'])
  const closed = once(app.server, 'close')
  signals.get('SIGTERM')?.()
  await turn()
  t.same(closings, [])
  release()
  const response = await report
  t.equal(response.headers.get('connection'), 'close', 'the connection does not keep the process')
  t.equal(await response.text(), 'the whole report')
  await closed
  await app.close()
  t.same(closings, ['disconnect'])
  await t.rejects(fetch(`${address}/health`))
})

t.test('production refuses what the page lists, and development does not', async (t) => {
  warnings(t, 'W01', 'W02')
  const short = 'a short secret'
  for (const [options, finding] of [[{ secret: undefined }, 'E03'], [{ secret: short }, 'E23'], [{ sessions: { secret: short } }, undefined]] as const) {
    t.equal(await refusal(t, options) !== undefined, finding === undefined, 'development')
    await t.test('production', async (t) => {
      environment(t, 'production')
      t.match(await refusal(t, options), { name: 'InvalidConfiguration', ...(finding !== undefined && { finding }) })
    })
  }
  await t.rejects(deploy(t, { SESSION_SECRET: short }), { name: 'InvalidConfiguration' })
})

t.test('the first example does not start without its secrets and the address of its store; without the check, sessions would have a derived secret', async (t) => {
  for (const name of ['SERVICE_JWT_SECRET', 'SESSION_SECRET', 'REDIS_URL']) {
    await t.rejects(deploy(t, { [name]: '' }), { message: 'Set SERVICE_JWT_SECRET, SESSION_SECRET and REDIS_URL.' })
  }
  environment(t, 'production')
  t.equal(await refusal(t, { sessions: { secret: undefined, store: memorySessionsOfADatabase() } }), undefined)
})

t.test('the command `routes` takes the module of the page, and starts the server of a module that calls `listen`', async (t) => {
  const source = page.take('// app.js').replace("from 'fastify-token-auth'", `from '${new URL('../../lib/index.ts', import.meta.url).href}'`).replace('process.env.SERVICE_JWT_SECRET', `'${secret}'`)
  const names = "const authenticate = async () => ({ user_id: 1 })\nconst handler = async () => 'reached'\n"
  const listening = "\nconst app = await createApp()\nawait app.listen({ port: 0, host: '127.0.0.1' })\nglobalThis.listeningApp = app"
  const folder = t.testdir({ 'app.js': names + source, 'server.js': names + source + listening, 'open.js': names + source.replace('{ onRequest: app.tokenAuth.protect() }, ', '') })
  const routes = async (name: string) => await main(['routes', join(folder, name), '--check'], Readable.from([]), '1.2.3')
  t.match(await routes('app.js'), { code: 0, stdout: /^GET,HEAD +\/reports +protect/m, stderr: '' })
  t.match(await routes('open.js'), { code: 1, stderr: /these routes have no guard/ })
  t.teardown(() => { Reflect.deleteProperty(globalThis, 'listeningApp') })
  t.match(await routes('server.js'), { code: 0 })
  const { listeningApp } = Object(globalThis)
  t.ok(listeningApp.server.listening)
  await listeningApp.close()
})

t.test('the commands of the page append two secrets to a file of variables, and write a secret without a line break', async (t) => {
  const commands = Array.from(readFileSync(new URL('../../docs/deployment.md', import.meta.url), 'utf8').matchAll(/^```sh\n([^]*?)^```/gm), ([, command = '']) => command).filter((command) => command.includes('randomBytes'))
  const folder = t.testdir({ '.env': 'PORT=3000\n' })
  for (const command of commands) execFileSync('bash', ['-c', command.replace('/run/secrets/token', './token')], { cwd: folder, env: { PATH: process.env.PATH } })
  t.match(readFileSync(join(folder, '.env'), 'utf8'), /^PORT=3000\nSERVICE_JWT_SECRET=([\w-]{43})\nSESSION_SECRET=(?!\1)[\w-]{43}\n$/)
  const path = join(folder, 'token')
  t.match(readFileSync(path, 'utf8'), /^[\w-]{43}$/)
  environment(t, 'production')
  t.equal(await refusal(t, { secret: { path } }), undefined)
})

t.test('host and address of a client are those that a trusted proxy sends, and what others send is ignored', async (t) => {
  const { app, lines } = await deploy(t)
  const headers = { origin: 'https://app.example.org', 'x-forwarded-host': 'app.example.org', 'x-forwarded-for': '192.0.2.7', 'x-forwarded-proto': 'http' }
  const logIn = async (remoteAddress: string) => await app.inject({ method: 'POST', url: '/auth', remoteAddress, headers, payload: { username: 'ada', password: 'lovelace' } })
  const trusted = await logIn('10.0.0.1')
  t.equal(trusted.statusCode, 200)
  t.equal(trusted.headers['cache-control'], 'no-store')
  for (const { name, secure } of trusted.cookies) t.ok(secure, `${name} is Secure, whatever the proxy says`)
  t.equal((await logIn('192.0.2.1')).json().exception, 'CrossOriginRequest')
  const addresses = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'incoming request').map(({ req }) => req.remoteAddress)
  t.same(addresses, ['192.0.2.7', '192.0.2.1'])
  t.same(Object.keys(JSON.parse(String(lines.find((line) => line.includes('incoming request')))).req).sort(), ['host', 'method', 'remoteAddress', 'url'], 'no headers are in the log')
})

t.test('guards say nothing about caches', async (t) => {
  const { app } = await withSessions(t)
  const { access_token: token } = await started(app)
  const { statusCode, headers } = await app.inject({ url: '/', headers: bearer(token) })
  t.same([statusCode, headers['cache-control']], [200, undefined])
})

t.test('processes with the same secret accept the access tokens of each other; refreshes need the same store', async (t) => {
  const store = memorySessions()
  // Two processes have no warning about each other.
  warnings(t, 'W22')
  for (const [first, second, status] of [[{}, {}, 401], [{ store }, { store }, 200]] as const) {
    const apps = [(await withSessions(t, { sessions: { store: memorySessions(), ...first } })).app, (await withSessions(t, { sessions: { store: memorySessions(), ...second } })).app] as const
    const tokens = await started(apps[0])
    t.equal((await apps[1].inject({ url: '/', headers: bearer(tokens.access_token) })).statusCode, 200)
    t.equal((await refresh(apps[1], tokens.refresh_token)).statusCode, status)
  }
})

t.test('the route for the load balancer is open, the status of the keys requires a scope and shows no key, every route has its decision, and somebody is told when the store is down and back', async (t) => {
  const app = host(t)
  const expire = holdTimers(t, 2000)
  const store = new WatchedStore()
  const alarms: string[] = []
  const listen = (name: string, listener: (event: unknown) => void) => {
    subscribe(name, listener)
    t.teardown(() => unsubscribe(name, listener))
  }
  const names = { app, tokenAuth, secret, sessionSecret: otherSecret, retrieveUser, handler: async () => 'reached', redisSessions: () => store, client: undefined, subscribe: listen, alarm: (text: string) => { alarms.push(text) } }
  await operation.run("'/metrics'", { ...names, authenticate: () => ({ user_id: 1 }), scopesOf: () => ['operations:read'] })
  t.equal((await app.inject('/health')).statusCode, 200)
  t.equal((await app.inject('/keys')).statusCode, 401)
  const { access_token: token } = (await login(app)).json()
  const reader = await createTestToken(app.tokenAuth, { user_id: 1 }, { scopes: 'reports:read' })
  t.equal((await app.inject({ url: '/keys', headers: bearer(reader) })).statusCode, 403)
  const status = await app.inject({ url: '/keys', headers: bearer(token) })
  t.match(status.json(), { keys: [{ algorithm: 'HS256', state: 'signing' }], issuers: [] })
  t.notOk(status.payload.includes(secret))
  t.match(app.tokenAuth.printRoutes(), /^GET,HEAD {2}\/metrics .*other +reached inside the cluster only$/m)
  for (const [error, state] of [[new Error('connect ECONNREFUSED'), 'stale'], [null, 'fresh']] as const) {
    store.fail(error)
    expire()
    for (let turns = 0; turns < 10; turns++) await turn()
    const ready = await app.inject('/ready')
    t.same([ready.statusCode, ready.json()], [200, { state }], 'all processes would be taken out at once')
  }
  t.same(alarms, ['The session store of tokenAuth is down.', 'The session store of tokenAuth is back.'])
})

t.test('warnings of the registration come into the log', async (t) => {
  environment(t, 'production')
  const expected = warnings(t, 'W07')
  const lines: string[] = []
  const app = host(t, { logger: { stream: { write: (line: string) => { lines.push(line) } } } })
  const listeners = {
    on: (name: string, listener: (warning: Error) => void) => {
      process.on(name, listener)
      t.teardown(() => process.off(name, listener))
    }
  }
  await page.run('process.on(', { app, tokenAuth, secret, authenticate, process: listeners })
  await turn()
  t.same(expected, ['TOKEN_AUTH_W07'])
  t.match(lines.map((line) => JSON.parse(line)), [{ level: 40, err: { code: 'TOKEN_AUTH_W07' } }])
})

t.test('the gauge is 0 while the store can be read, and then the seconds since it cannot', async (t) => {
  const setTime = setClock(t, 1_800_000_000)
  const poll = 7
  const expire = holdTimers(t, poll * 1000)
  const reader = new PeriodicExportingMetricReader({ exporter: new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE), exportIntervalMillis: 1_000_000 })
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }))
  t.teardown(async () => { metrics.disable(); await reader.shutdown() })
  const { app, store } = await withSessions(t, { sessions: { poll } })
  await operation.run('createObservableGauge', { app, metrics })
  await app.ready()
  const observed = async () => {
    const { resourceMetrics: { scopeMetrics } } = await reader.collect()
    return scopeMetrics.flatMap(({ metrics: found }) => found.flatMap(({ descriptor, dataPoints }) => dataPoints.map(({ value }) => [descriptor.name, descriptor.unit, value])))
  }
  t.same(await observed(), [['token_auth.store.stale', 's', 0]])
  store.fail(new Error('connect ECONNREFUSED'))
  expire()
  for (let turns = 0; turns < 10; turns++) await turn()
  setTime(1_800_000_090)
  t.same(await observed(), [['token_auth.store.stale', 's', 90]])
  store.fail(null)
  expire()
  for (let turns = 0; turns < 10; turns++) await turn()
  t.same(await observed(), [['token_auth.store.stale', 's', 0]])
})

t.test('every example of the pages was run', async (t) => {
  t.same([...page.left, ...operation.left], [])
})
