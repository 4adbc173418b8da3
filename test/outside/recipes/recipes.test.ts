/** docs/recipes: each recipe does what it promises. */
import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import cookie from '@fastify/cookie'
import cors from '@fastify/cors'
import formbody from '@fastify/formbody'
import rateLimit from '@fastify/rate-limit'
import fp from 'fastify-plugin'
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifyServerOptions, InjectOptions, LightMyRequestResponse } from 'fastify'
import { Redis } from 'ioredis'
import { createLocalJWKSet, createRemoteJWKSet, jwtVerify } from 'jose'
import t, { type Test } from 'tap'
import tokenAuth, { AuthenticationFailed, memorySessions, requestSerializer, type SigningKey, TokenAuthError } from '../../../lib/index.ts'
import { openBrowser, skip as withoutBrowser } from '../browser.ts'
import { Network, skip, startDatabase } from '../../database.ts'
import { bearer, forge, holdTimers, host, listen, login, now, pairFor, payloadOf, secret, setClock, together } from '../../helper.ts'
import { jwk } from '../../authorities/issuers.ts'
import { examplesOf, run } from '../../programs.ts'
import { refresh, started, WatchedStore, type Tokens } from '../../sessions/helper.ts'
import { script as clientScript } from '../../tabs.ts'

// It says on the console what a production needs, and which versions of Node.js it was tested with.
const said = { warn: console.warn, info: console.info }
Object.assign(console, { warn: () => {}, info: () => {} })
const { default: Provider } = await import('oidc-provider')
t.teardown(() => { Object.assign(console, said) })

const folder = new URL('../../../docs/recipes/', import.meta.url)
const names = readdirSync(folder)
/** Recipes whose examples run in test/outside/documents.test.ts, in test/outside/user-interfaces.test.ts, in pages of Chromium, or in test/recipes, with the libraries that they import. */
const elsewhere = new Set([
  'autoload', 'express-jwt', 'fastify-jwt', 'graphql', 'graphql-subscriptions', 'impersonation', 'mobile-app', 'passkeys', 'passwords', 'second-factor', 'server-rendering', 'serverless', 'sign-up', 'trpc', 'user-interfaces', 'websockets', 'zod'
].map((name) => `${name}.md`))
const recipes = new Map(names.filter((name) => !elsewhere.has(name)).map((name) => [name, examplesOf(`recipes/${name}`)]))

/** The users of a service, who can change passwords and roles. */
function people () {
  const users = [
    { user_id: 1, username: 'ada', password: 'lovelace', role: 'editor', version: 0 },
    { user_id: 2, username: 'grace', password: 'hopper', role: 'reader', version: 0 },
    { user_id: 3, username: 'joan', password: 'clarke', role: 'admin', version: 0 }
  ]
  const find = (id: unknown) => users.find((user) => user.user_id === id)
  /** A user as the service sends it. */
  const shownOf = (user: typeof users[number] | undefined) => user && { user_id: user.user_id, username: user.username, role: user.role, version: user.version }
  const compare = (body: unknown) => {
    const { name, username = name, password } = Object(body)
    const user = users.find((candidate) => typeof username === 'string' && candidate.username === username.toLowerCase() && candidate.password === password)
    if (user === undefined) throw new AuthenticationFailed('Wrong name or password.')
    return { ...user }
  }
  const change = (id: unknown, properties: object, version?: number) => {
    const user = find(id)
    if (user === undefined || (version !== undefined && version !== user.version)) return false
    Object.assign(user, properties, { version: user.version + 1 })
    return true
  }
  /** What others do while these functions take their time: called once. */
  const meanwhile = new Map<Moment, () => Promise<unknown>>()
  const pass = async (moment: Moment) => {
    const act = meanwhile.get(moment)
    meanwhile.delete(moment)
    await act?.()
  }
  return {
    users,
    meanwhile,
    pass,
    authenticate: ({ body }: FastifyRequest) => compare(body),
    retrieveUser: (_request: unknown, payload: { user_id: unknown }) => shownOf(find(payload.user_id)),
    logIn: async (body: unknown) => {
      const user = compare(body)
      await pass('the password was compared')
      return user
    },
    findUser: async (id: unknown) => {
      await pass('the user is not read again yet')
      const user = { ...find(id) }
      await pass('the user was read again')
      return user
    },
    isPassword: async (id: unknown, password: unknown) => {
      const isRight = find(id)?.password === password
      await pass('the current password was compared')
      return isRight
    },
    setPassword: async (id: unknown, password: string, version?: number) => change(id, { password }, version),
    setRole: async (id: unknown, role: string) => { change(id, { role }) }
  }
}

/** The moments of a login at which something changes. */
const moments = ['the password was compared', 'the user is not read again yet', 'the user was read again'] as const
type Moment = typeof moments[number] | 'the current password was compared' | 'the code was claimed'

/** Returns the example of a recipe that contains a text. */
function take (name: string, text: string): string {
  const recipe = recipes.get(name)
  if (recipe === undefined) throw new Error(`There is no recipe ${name}.`)
  return recipe.take(text)
}

/** Runs a program of examples, and returns its application. */
async function cookText (t: Test, program: string, more: object = {}): Promise<FastifyInstance> {
  // An example that makes its application needs none.
  const Fastify = (options: FastifyServerOptions) => host(t, options)
  const names = { Fastify, tokenAuth, AuthenticationFailed, TokenAuthError, requestSerializer, secret, handler: async () => 'reached', ...people(), ...more }
  return await run(program, { app: host(t), ...names }, 'app')
}

/** Runs an example of a recipe, and returns its application. */
const cook = async (t: Test, name: string, text: string, more: object = {}) => await cookText(t, take(name, text), more)

const send = async (app: FastifyInstance, method: 'GET' | 'POST' | 'PUT', url: string, request: InjectOptions = {}) => await app.inject({ method, url, ...request })

/** The cookies of a response, to send them with the next request. */
const cookiesOf = (response: LightMyRequestResponse) => Object.fromEntries(response.cookies.map(({ name, value }) => [name, value]))

t.test('the page lists every recipe, and each recipe begins with code', async (t) => {
  const index = readFileSync(new URL('../recipes.md', folder), 'utf8')
  t.same([...index.matchAll(/^- \[.+\]\(recipes\/([^)]+)\) [a-z].+\.$/gm)].map(([, name]) => name).sort(), [...names].sort())
  for (const name of names) t.match(readFileSync(new URL(name, folder), 'utf8'), /^# .+\n\n[^\n#|-].*\n\n```(?:js|diff)\n/, name)
})

/** Adds the login route that reads the user again. */
async function addLogin (app: FastifyInstance, handlers: ReturnType<typeof people>): Promise<void> {
  await recipes.get('log-out-everywhere.md')?.run("app.post('/auth/login'", { app, AuthenticationFailed, ...handlers })
}

/** Logs in at that route. */
const logInAt = async (app: FastifyInstance, name = 'ada', password = 'lovelace') => await send(app, 'POST', '/auth/login', { payload: { name, password } })
const startedAt = async (app: FastifyInstance, username?: string, password?: string): Promise<Tokens> => (await logInAt(app, username, password)).json()

/** The application of the recipe, with all its routes. */
async function passwords (t: Test) {
  const handlers = people()
  const app = await cook(t, 'log-out-everywhere.md', "app.post('/password',", handlers)
  await addLogin(app, handlers)
  const change = async ({ access_token: token }: Tokens, payload: object) => await send(app, 'POST', '/password', { headers: bearer(token), payload })
  const me = async ({ access_token: token }: Tokens) => (await send(app, 'GET', '/auth/me', { headers: bearer(token) })).statusCode
  return { app, change, me, ...handlers }
}

t.test('a new password ends all other sessions, and the old password is needed for it', async (t) => {
  const { app, change, me } = await passwords(t)
  const [own, other, stranger] = [await startedAt(app), await startedAt(app), await startedAt(app, 'grace', 'hopper')]

  t.equal((await send(app, 'POST', '/password', { payload: { current: 'lovelace', next: 'analytical engine' } })).statusCode, 401)
  t.equal((await change(own, { current: 'hopper', next: 'analytical engine' })).statusCode, 403)
  t.equal((await change(own, { current: 'lovelace', next: 'engine' })).statusCode, 400)
  t.equal(await me(other), 200, 'nothing has ended so far')

  t.same((await change(own, { current: 'lovelace', next: 'analytical engine' })).json(), { ended: 1 })
  t.same([await me(own), await me(other), await me(stranger)], [200, 401, 200])
  t.equal((await refresh(app, other.refresh_token)).statusCode, 401)
  t.equal((await refresh(app, own.refresh_token)).statusCode, 200)
  t.equal((await logInAt(app)).statusCode, 401)
  t.equal((await login(app)).statusCode, 401, 'there is no other login')
  t.equal((await logInAt(app, 'ada', 'analytical engine')).statusCode, 200)
})

t.test('a login with the old password that is under way while it changes leaves no session, at whatever moment', async (t) => {
  for (const moment of moments) {
    const { app, change, me, meanwhile } = await passwords(t)
    const own = await startedAt(app)
    meanwhile.set(moment, async () => t.equal((await change(own, { current: 'lovelace', next: 'analytical engine' })).statusCode, 200))
    const response = await logInAt(app)
    t.equal(meanwhile.size, 0)
    const isSent = moment === 'the user was read again'
    t.equal(response.statusCode, isSent ? 200 : 401, moment)
    if (isSent) t.same([await me(response.json()), (await refresh(app, response.json().refresh_token)).statusCode], [401, 401])
    t.equal((await app.tokenAuth.sessions.list(1)).length, 1)
    t.equal(await me(own), 200)
  }
})

t.test('of two changes with the old password at the same time, one succeeds', async (t) => {
  const { app, change, me, meanwhile, users } = await passwords(t)
  const [own, thief] = [await startedAt(app), await startedAt(app)]
  meanwhile.set('the current password was compared', async () => t.equal((await change(own, { current: 'lovelace', next: 'analytical engine' })).statusCode, 200))
  t.equal((await change(thief, { current: 'lovelace', next: 'password of the thief' })).statusCode, 409)
  t.equal(users[0]?.password, 'analytical engine')
  t.same([await me(own), await me(thief)], [200, 401])
})

t.test('a login that cannot read the user again sends no tokens and leaves no session, in cookie mode too', async (t) => {
  for (const cookieSet of [false, true]) {
    const { meanwhile, ...handlers } = people()
    const app = host(t)
    await app.register(tokenAuth, { secret, authenticate: handlers.authenticate, sessions: {}, cookieSet })
    await addLogin(app, { meanwhile, ...handlers })
    for (const moment of moments) {
      meanwhile.set(moment, async () => {
        if (moment === 'the password was compared') await handlers.setRole(1, 'reader')
        else throw new Error('The database is down.')
      })
      const response = await logInAt(app)
      t.equal(response.statusCode, moment === 'the password was compared' ? 401 : 500)
      t.same([response.cookies, response.payload.includes('token')], [[], false])
      t.same(await app.tokenAuth.sessions.list(1), [])
    }
    t.equal((await logInAt(app)).cookies.length, cookieSet ? 2 : 0)
  }
})

/** The reset of forgotten passwords, with a store that can fail, and one code. */
async function resets (t: Test) {
  const handlers = people()
  const codes = new Map([['from the mail', { userId: 1, uses: 0 }]])
  const given = {
    claimResetCode: async (code: string) => {
      const found = codes.get(code)
      const claim = found && { userId: found.userId, isFirst: ++found.uses === 1 }
      await handlers.pass('the code was claimed')
      return claim
    },
    deleteResetCodes: async (id: unknown) => { for (const [code, { userId }] of codes) if (userId === id) codes.delete(code) }
  }
  const store = new WatchedStore()
  const app = host(t)
  await app.register(tokenAuth, { secret, authenticate: handlers.authenticate, sessions: { store } })
  await addLogin(app, handlers)
  await recipes.get('forgotten-passwords.md')?.run('/password/reset', { app, ...handlers, ...given })
  const reset = async (code: string, next = 'analytical engine') => (await send(app, 'POST', '/password/reset', { payload: { code, next } })).statusCode
  return { app, store, reset, ...handlers }
}

t.test('a forgotten password that is replaced ends all sessions, and its code works once', async (t) => {
  const { app, reset } = await resets(t)
  const sessions = [await startedAt(app), await startedAt(app)]
  t.equal(await reset('guessed'), 403)
  t.equal(await reset('from the mail'), 204)
  t.equal(await reset('from the mail'), 403)
  for (const { refresh_token: token } of sessions) t.equal((await refresh(app, token)).statusCode, 401)
  t.equal((await logInAt(app, 'ada', 'analytical engine')).statusCode, 200)
})

t.test('a reset while the store is down is finished by a repetition, and by nobody who gives another password', async (t) => {
  const { app, store, reset, users } = await resets(t)
  const thief = await startedAt(app)
  store.fail(new Error('The store is down.'))
  t.equal(await reset('from the mail'), 503)
  store.fail(null)
  t.equal(await reset('from the mail', 'password of the thief'), 403)
  t.equal(await reset('from the mail'), 204)
  t.equal(users[0]?.password, 'analytical engine')
  t.equal((await refresh(app, thief.refresh_token)).statusCode, 401)
  t.equal(await reset('from the mail'), 403)
})

t.test('of two resets with one code at the same time, one sets its password', async (t) => {
  const { reset, meanwhile, users } = await resets(t)
  meanwhile.set('the code was claimed', async () => t.equal(await reset('from the mail', 'password of the thief'), 403))
  t.equal(await reset('from the mail'), 204)
  t.equal(users[0]?.password, 'analytical engine')
})

t.test('a login that is under way during a reset leaves no session, at whatever moment', async (t) => {
  for (const moment of moments) {
    const { app, reset, meanwhile } = await resets(t)
    meanwhile.set(moment, async () => t.equal(await reset('from the mail'), 204))
    t.equal((await logInAt(app)).statusCode, moment === 'the user was read again' ? 200 : 401, moment)
    t.same(await app.tokenAuth.sessions.list(1), [])
  }
})

t.test('users see their devices by name, and log out one or all others, with forms and with the client', async (t) => {
  const app = await cookText(t, `${take('your-devices.md', 'deviceOf')}\n${take('your-devices.md', "get('/devices'")}`)
  const logIn = async (userAgent: string, username = 'ada', password = 'lovelace') =>
    cookiesOf(await send(app, 'POST', '/auth', { payload: { username, password }, headers: { 'user-agent': userAgent } }))
  const [firefox, iphone] = ['Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0', 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1']
  const edge = 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0'
  const own = await logIn(firefox)
  const [phone, laptop, text, tail] = [await logIn(iphone), await logIn(edge), await logIn('<script>alert(1)</script>'), await logIn(`${'x'.repeat(300)} Firefox/1 Linux`)]
  const stranger = await logIn(iphone, 'grace', 'hopper')

  t.match(await send(app, 'GET', '/devices'), { statusCode: 302, headers: { location: '/login?next=%2Fdevices&reason=absent' } })
  const page = await send(app, 'GET', '/devices', { cookies: own })
  t.match(page.headers, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' })
  for (const name of ['Firefox on Windows', 'Safari on iOS', 'Edge on macOS']) t.equal(page.payload.split(`${name}, since`).length, 2, name)
  t.equal(page.payload.split('<li>Unknown browser on an unknown system').length, 3, 'names are words of the recipe only')
  t.match(page.payload, /Firefox on Windows, since [^<]* last used now on this device\s*<\/li>/)

  const sessions = async (cookies: Record<string, string>): Promise<Array<{ id: string, current: boolean }>> => (await send(app, 'GET', '/auth/sessions', { cookies })).json().sessions
  const idOf = async (cookies: Record<string, string>) => (await sessions(cookies)).find(({ current }) => current)?.id ?? ''
  const end = async (id: string, headers: Record<string, string> = {}) =>
    await send(app, 'POST', `/auth/sessions/${id}/end`, { cookies: own, payload: 'next=%2Fdevices', headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers } })
  const isIn = async (...all: Array<Record<string, string>>) => await Promise.all(all.map(async (cookies) => (await send(app, 'GET', '/auth/me', { cookies })).statusCode === 200))

  t.match(page.payload, `<form method="post" action="/auth/sessions/${await idOf(phone)}/end">`)
  t.notMatch(page.payload, await idOf(own))
  t.equal((await end(await idOf(phone), { 'sec-fetch-site': 'cross-site' })).statusCode, 403)
  t.match(await end(await idOf(stranger)), { statusCode: 303, headers: { location: '/devices' } })
  t.same(await isIn(own, phone, laptop, stranger), [true, true, true, true])
  await end(await idOf(phone))
  t.same(await isIn(own, phone, laptop, text, tail, stranger), [true, false, true, true, true, true])

  const [tablet, desktop] = [await logIn(iphone), await logIn(edge)]
  // The page, in a browser with these cookies.
  const client = {
    fetch: async (path: string, { method = 'GET' }: { method?: 'GET' } = {}) => {
      const { statusCode, payload } = await app.inject({ method, url: path, cookies: own })
      return new Response(statusCode === 204 ? null : payload, { status: statusCode })
    }
  }
  interface Script { listDevices: () => ReturnType<typeof sessions>, logOutDevice: (id: string) => Promise<Response>, logOutOthers: () => Promise<Response> }
  const script = await run<Script>(take('your-devices.md', 'listDevices'), { client }, '{ listDevices, logOutDevice, logOutOthers }')
  t.same((await script.listDevices()).map(({ id }) => id), (await sessions(own)).map(({ id }) => id))
  t.equal((await script.listDevices()).length, 6)
  t.equal((await script.logOutDevice(await idOf(tablet))).status, 204)
  t.same(await isIn(own, tablet, desktop), [true, false, true])
  t.equal((await script.logOutOthers()).status, 204)
  t.same(await isIn(own, desktop, stranger), [true, false, true])
  await send(app, 'POST', '/auth/logout', { cookies: own })
  await t.rejects(script.listDevices(), { message: 'The list of devices failed with 401.' })
})

t.test('the page of devices escapes what earlier code has stored', async (t) => {
  const earlier = "sessions: { data: ({ headers }) => headers['user-agent'] === '' ? {} : { device: headers['user-agent'] } }"
  const program = `await app.register(tokenAuth, { secret, authenticate, cookieSet: true, ${earlier} })\n${take('your-devices.md', "get('/devices'")}`
  const app = await cookText(t, program)
  const cookies = cookiesOf(await send(app, 'POST', '/auth', { payload: { username: 'ada', password: 'lovelace' }, headers: { 'user-agent': '<b title="x">Your bank</b>' } }))
  await send(app, 'POST', '/auth', { payload: { username: 'ada', password: 'lovelace' }, headers: { 'user-agent': '' } })
  const { payload } = await send(app, 'GET', '/devices', { cookies })
  t.match(payload, '<li>Unknown device, since')
  t.match(payload, '&#60;b title=&#34;x&#34;&#62;Your bank')
  t.notMatch(payload, '<b ')
})

/** The application of the recipe, with its login route. */
async function roles (t: Test) {
  const handlers = people()
  const app = await cook(t, 'roles.md', 'const roles', handlers)
  await addLogin(app, handlers)
  const change = async ({ access_token: token }: Tokens, role: string) => (await send(app, 'PUT', '/users/1/role', { headers: bearer(token), payload: { role } })).statusCode
  return { app, change, ...handlers }
}

t.test('roles give scopes; a role that is taken away counts at once, and a new one after a refresh', async (t) => {
  const { app, change, users, setRole } = await roles(t)
  const [editor, reader, admin] = [await startedAt(app), await startedAt(app, 'grace', 'hopper'), await startedAt(app, 'joan', 'clarke')]
  const statuses = async (tokens?: Tokens) => {
    const request = tokens === undefined ? {} : { headers: bearer(tokens.access_token) }
    return [(await send(app, 'GET', '/reports', request)).statusCode, (await send(app, 'POST', '/reports', request)).statusCode]
  }
  t.same([await statuses(), await statuses(reader), await statuses(editor), await statuses(admin)], [[401, 401], [200, 403], [200, 200], [200, 200]])

  t.equal(await change(editor, 'admin'), 403)
  t.equal(await change(admin, 'constructor'), 400)
  t.equal(users[0]?.role, 'editor')
  t.equal(await change(admin, 'reader'), 204)
  t.same(await statuses(editor), [401, 401])
  t.same(await statuses(await startedAt(app)), [200, 403])

  await setRole(2, 'editor')
  t.same(await statuses((await refresh(app, reader.refresh_token)).json()), [200, 200])
  await setRole(2, 'constructor')
  t.same(await statuses(await startedAt(app, 'grace', 'hopper')), [403, 403], 'an unknown role gives no scopes')
})

t.test('a login that is under way while a role is taken away has no token of the old role, at whatever moment', async (t) => {
  for (const moment of moments) {
    const { app, change, meanwhile, users, setRole } = await roles(t)
    await setRole(1, 'admin')
    const admin = await startedAt(app, 'joan', 'clarke')
    meanwhile.set(moment, async () => t.equal(await change(admin, 'reader'), 204))
    const response = await logInAt(app)
    const isSent = moment === 'the user was read again'
    t.equal(response.statusCode, isSent ? 200 : 401, moment)
    if (isSent) t.equal(await change(response.json(), 'admin'), 401)
    t.equal(users[0]?.role, 'reader')
    t.same(await app.tokenAuth.sessions.list(1), [])
  }
})

/** Two tenants, each with one user. */
function twoTenants (ids: readonly [unknown, unknown]) {
  const tenant = (name: string, id: unknown) => {
    const user = { user_id: id, tenant: name }
    return { name, secret: `${secret} of ${name}`, logIn: () => user, findUser: (wanted: unknown) => wanted === id ? user : undefined }
  }
  return new Map([['red.example', tenant('red', ids[0])], ['blue.example', tenant('blue', ids[1])]])
}

t.test('tokens of a tenant count at its host only, and there are no other hosts', async (t) => {
  for (const [text, ids] of [['getSecret', [1, 1]], ['trusted:', ['red-1', 'blue-1']]] as const) {
    const app = await cook(t, 'tenants.md', text, { tenants: twoTenants(ids) })
    const at = (tenant: string) => ({ host: `${tenant}.example` })
    const { access_token: token } = (await send(app, 'POST', '/auth', { headers: at('red'), payload: {} })).json()
    const reports = async (tenant: string) => await send(app, 'GET', '/reports', { headers: { ...at(tenant), ...bearer(token) } })
    t.same((await reports('red')).json(), { tenant: 'red', userId: ids[0] })
    t.equal((await reports('blue')).statusCode, 401, text)
    t.equal((await reports('green')).statusCode, 404)
    t.equal((await send(app, 'POST', '/auth', { headers: at('green'), payload: {} })).statusCode, 404)
  }
})

t.test('sessions of a tenant cannot be refreshed at the host of another, if user ids are unique; if they are not, they can', async (t) => {
  for (const [ids, status] of [[['red-1', 'blue-1'], 401], [[1, 1], 200]] as const) {
    const app = await cook(t, 'tenants.md', 'trusted:', { tenants: twoTenants(ids) })
    const at = (tenant: string) => ({ host: `${tenant}.example` })
    const { refresh_token: token } = (await send(app, 'POST', '/auth', { headers: at('red'), payload: {} })).json()
    t.equal((await refresh(app, token, at('blue'))).statusCode, status)
  }
})

t.test('the single-page app logs in and sends notes with cookies; pages of other origins can neither change nor read anything', async (t) => {
  const Fastify = (options: FastifyServerOptions) => Object.assign(host(t, options), { listen: async () => {} })
  const process = { env: { SERVICE_JWT_SECRET: secret } }
  const app = await cook(t, 'single-page-app.md', 'trustedOrigins', { cors, Fastify, process })
  await cook(t, 'single-page-app.md', 'sessions: {} }', { cors, origins: [] })
  // Pages of Chromium run these in test/outside/client-page.test.ts.
  const left = recipes.get('single-page-app.md')?.left ?? new Set()
  for (const program of left) if (program.includes('createClient(')) left.delete(program)
  const from = (origin: string) => ({ origin, 'sec-fetch-site': 'same-site' })
  const [own, foreign] = ['http://localhost:5173', 'http://localhost:8080']
  const preflight = async (origin: string) => await app.inject({ method: 'OPTIONS', url: '/auth/sessions', headers: { ...from(origin), 'access-control-request-method': 'DELETE' } })
  const allowed = await preflight(own)
  t.equal(allowed.statusCode, 204)
  t.match(allowed.headers, { 'access-control-allow-origin': own, 'access-control-allow-credentials': 'true', 'access-control-allow-methods': /DELETE/ })
  t.equal((await preflight(foreign)).headers['access-control-allow-origin'], undefined)

  const payload = { name: 'ada', password: 'lovelace' }
  t.equal((await send(app, 'POST', '/auth', { headers: from(foreign), payload })).statusCode, 403)
  const loggedIn = await send(app, 'POST', '/auth', { headers: from(own), payload })
  t.equal(loggedIn.payload, '{}')
  t.match(loggedIn.headers, { 'access-control-allow-origin': own, 'access-control-expose-headers': /retry-after/ })
  const cookies = cookiesOf(loggedIn)
  t.same(Object.keys(cookies).sort(), ['__Host-access_token', '__Host-refresh_token'])
  t.same((await send(app, 'GET', '/auth/me', { headers: from(own), cookies })).json(), { me: { user_id: 1, name: 'ada' } })
  t.same((await send(app, 'GET', '/notes', { headers: from(own), cookies })).json(), ['First note'])
  t.same((await send(app, 'POST', '/notes', { headers: from(own), cookies, payload: { text: 'Second' } })).json(), ['First note', 'Second'])
  for (const method of ['GET', 'POST'] as const) t.equal((await send(app, method, '/notes', { headers: from(own), payload: {} })).statusCode, 401, method)
  t.equal((await send(app, 'POST', '/notes', { headers: from(foreign), cookies, payload: {} })).json().exception, 'CrossOriginRequest')
  t.equal((await send(app, 'GET', '/notes', { headers: from(foreign), cookies })).headers['access-control-allow-origin'], undefined)
})

/** An issuer and a service with one store, of which the service can only read the ended sessions. The issuer listens, so that the keys come over the network. */
async function servicesOfOneLogout (t: Test, { text = "pathToJwks: '/jwks',\n  claimIss: 'https://auth.example',\n  claimAud: 'https://api", audience = 'https://api.example' } = {}) {
  const store = memorySessions()
  const names = { privateKey: pairFor('EdDSA').privateKey, sessionSecret: `${secret} of sessions`, client: null }
  const keys: SigningKey[] = [{ key: names.privateKey }]
  // As if the list were in a file that a deployment changes.
  const withKeys = (options: object) => ({ ...options, keys: async () => keys })
  const plugin = fp(async (app: FastifyInstance, options: object) => { await app.register(tokenAuth, together(withKeys(options))) })
  const { authenticate, ...handlers } = people()
  const logIn = (request: FastifyRequest) => ({ ...authenticate(request), services: ['https://orders.example', 'https://reports.example'] })
  const issuer = await cook(t, 'one-logout.md', text, { ...names, ...handlers, authenticate: logIn, tokenAuth: plugin, redisSessions: () => store })
  const requests: RequestInit[] = []
  let address = `http://127.0.0.1:${await listen(issuer)}`
  const service = async () => await cook(t, 'one-logout.md', 'publishedKeys', {
    ...names,
    tokenAuth: fp(async (app: FastifyInstance, options: object) => { await app.register(tokenAuth, together(options, { claimAud: audience })) }),
    redisSessions: () => ({ endedSince: store.endedSince }),
    fetch: async (url: string, init: RequestInit) => {
      requests.push(init)
      return await fetch(url.replace('https://auth.example', address), init)
    }
  })
  const orders = async (app: FastifyInstance, token: string) => (await send(app, 'GET', '/orders', { headers: bearer(token) })).statusCode
  return { issuer, keys, requests, service, orders, move: (to: string) => { address = to } }
}

t.test('a logout at the issuer ends the tokens in a service that only reads the store, and a change of keys needs no deployment of it', async (t) => {
  const poll = holdTimers(t, 2000)
  const { issuer, keys, requests, service, orders } = await servicesOfOneLogout(t)
  const app = await service()
  await app.ready()
  const [first, second] = [await started(issuer), await started(issuer)]
  t.same([await orders(app, first.access_token), await orders(app, second.access_token)], [200, 200])
  t.equal((await send(issuer, 'POST', '/auth/logout', { payload: { refresh_token: first.refresh_token } })).statusCode, 204)
  poll()
  await turn()
  t.same([await orders(app, first.access_token), await orders(app, second.access_token)], [401, 200])
  t.equal((await login(app)).statusCode, 404, 'there is no login at the service')

  keys.unshift({ key: pairFor('EdDSA', 1).privateKey })
  await issuer.tokenAuth.reloadKeys()
  const rotated = await started(issuer)
  t.equal(await orders(app, rotated.access_token), 401, 'until the keys are read again')
  await app.tokenAuth.reloadKeys()
  t.same([await orders(app, rotated.access_token), await orders(app, second.access_token)], [200, 200])
  keys.pop()
  await issuer.tokenAuth.reloadKeys()
  await app.tokenAuth.reloadKeys()
  t.same([await orders(app, rotated.access_token), await orders(app, second.access_token)], [200, 401], 'a key that is removed')
  t.same((await refresh(issuer, second.refresh_token)).statusCode, 200, 'its users stay logged in')
  for (const { redirect, signal } of requests) t.match({ redirect, signal }, { redirect: 'error', signal: AbortSignal })
})

t.test('pages of another service are renewed for by the service that has the sessions, which sends nobody elsewhere', async (t) => {
  const { privateKey } = pairFor('EdDSA')
  const start = now()
  const setTime = setClock(t, start)
  const names = { privateKey, sessionSecret: `${secret} of sessions`, client: null, redisSessions: () => memorySessions() }
  const issuer = await cook(t, 'pages-on-another-service.md', "app.get('/renewed'", names)
  const orders = await cook(t, 'pages-on-another-service.md', "app.get('/orders'", { ...names, publishedKeys: async () => (await send(issuer, 'GET', '/auth/jwks')).json().keys.map((key: object) => ({ key })) })
  const navigation = { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }
  const open = async (url: string, cookies: Record<string, string>) => {
    const { host, pathname, search } = new URL(url)
    return await send(host === 'auth.example.org' ? issuer : orders, 'GET', `${pathname}${search}`, { headers: { ...navigation, host }, cookies })
  }

  const loggedIn = cookiesOf(await login(issuer))
  const page = 'https://orders.example.org/orders?page=2'
  t.equal((await open(page, loggedIn)).body, 'reached')
  setTime(start + 2000)
  const away = await open(page, loggedIn)
  t.equal(away.headers.location, 'https://auth.example.org/renewed?to=https%3A%2F%2Forders.example.org%2Forders%3Fpage%3D2')
  const back = await open(String(away.headers.location), loggedIn)
  t.equal(back.headers.location, `${page}&renewed=${Math.floor(Date.now() / 1000)}`)
  t.ok(back.cookies.every(({ domain, maxAge }) => domain === 'example.org' || maxAge === 0))
  const renewed = { ...loggedIn, ...cookiesOf(back) }
  t.equal((await open(String(back.headers.location), renewed)).body, 'reached')
  t.equal((await open(String(back.headers.location), {})).headers.location, 'https://auth.example.org/login', 'where the cookies do not arrive')
  setTime(start + 4000)
  t.match((await open(String(back.headers.location), renewed)).headers.location, /^https:\/\/auth\.example\.org\/renewed\?/, 'a bookmark of this page')
  t.equal((await open(String(away.headers.location), {})).headers.location, `/login?next=${encodeURIComponent(String(away.headers.location).slice('https://auth.example.org'.length))}`)
  for (const to of ['https://evil.example/', 'https://orders.example.org@evil.example/', 'https://orders.example.org.evil.example', 'http://orders.example.org', '/orders', '//orders.example.org', 'javascript:alert(1)', '']) {
    t.equal((await open(`https://auth.example.org/renewed?to=${encodeURIComponent(to)}`, renewed)).statusCode, 400, to)
  }
  t.equal((await open('https://auth.example.org/renewed', renewed)).statusCode, 400, 'no target')
})

t.test('a service of one logout does not start without the keys of the issuer, and goes on while they cannot be read later', async (t) => {
  const { issuer, service, orders, move } = await servicesOfOneLogout(t)
  const app = await service()
  const { access_token: token } = await started(issuer)
  const moved = host(t)
  moved.get('/auth/jwks', async (_request, reply) => reply.redirect(`http://127.0.0.1:${port}/elsewhere`))
  moved.get('/elsewhere', async () => ({ keys: [] }))
  const port = await listen(moved)
  for (const address of [`http://127.0.0.1:${port}`, `http://127.0.0.1:${port}/missing`]) {
    move(address)
    await t.rejects(app.tokenAuth.reloadKeys())
    t.equal(await orders(app, token), 200)
    await t.rejects(service(), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E19' })
  }
})

t.test('with a list of audiences a token counts in the services that it names, and in no other; a logout ends it there, too', async (t) => {
  for (const [audience, status] of [['https://orders.example', 200], ['https://mail.example', 401]] as const) {
    const { issuer, service, orders } = await servicesOfOneLogout(t, { text: 'user.services', audience })
    const poll = holdTimers(t, 2000)
    const app = await service()
    await app.ready()
    const tokens = await started(issuer)
    t.equal(await orders(app, tokens.access_token), status, audience)
    t.equal((await send(issuer, 'GET', '/auth/me', { headers: bearer(tokens.access_token) })).statusCode, 200)
    await send(issuer, 'POST', '/auth/logout', { payload: { refresh_token: tokens.refresh_token } })
    poll()
    await turn()
    t.equal(await orders(app, tokens.access_token), 401)
  }
})

/** An identity provider as an application sees it: it exchanges codes for ID tokens. */
function identityProvider () {
  const issuer = 'https://id.example.com'
  const logins = new Map<string, { nonce: string, challenge: string }>()
  return {
    /** What goes into the ID token instead of what belongs there. */
    forged: {},
    status: 200,
    /** The user logs in, and the browser returns with these parameters. */
    logIn (address: string): { code: string, state: string } {
      const query = new URL(address).searchParams
      const code = randomUUID()
      logins.set(code, { nonce: String(query.get('nonce')), challenge: String(query.get('code_challenge')) })
      return { code, state: String(query.get('state')) }
    },
    names () {
      return {
        cookie,
        clientId: 'service',
        clientSecret: 'of the service',
        createHash,
        randomBytes,
        jwtVerify,
        createRemoteJWKSet: () => createLocalJWKSet(Object({ keys: [jwk('a', { algorithm: 'RS256' })] })),
        fetch: async (_address: string, { body }: { body: URLSearchParams }) => {
          const found = logins.get(String(body.get('code')))
          const verifier = createHash('sha256').update(String(body.get('code_verifier'))).digest('base64url')
          if (found?.challenge !== verifier || body.get('client_secret') !== 'of the service') return new Response('{"error":"invalid_grant"}', { status: 400 })
          const claims = { iss: issuer, aud: 'service', sub: '24400320', exp: now() + 300, nonce: found.nonce, ...this.forged }
          const idToken = forge(claims, { algorithm: 'RS256', key: pairFor('RS256').privateKey, header: { kid: 'a' } })
          return new Response(JSON.stringify({ id_token: idToken }), { status: this.status })
        }
      }
    }
  }
}

t.test('a social login starts a session of the user whom the provider names', async (t) => {
  const provider = identityProvider()
  const asked: unknown[] = []
  const findOrCreateUser = async (...id: unknown[]) => { asked.push(id); return { user_id: 1 } }
  const app = await cook(t, 'social-login.md', 'code_challenge', { ...provider.names(), findOrCreateUser })
  t.equal((await send(app, 'GET', '/')).headers.location, '/login')

  const begun = await send(app, 'GET', '/login')
  t.match(begun.cookies[0], { name: '__Host-login', httpOnly: true, secure: true, sameSite: 'Lax', maxAge: 600 })
  const query = provider.logIn(String(begun.headers.location))
  // The browser comes from another site.
  const done = await app.inject({ url: '/login/callback', query, cookies: cookiesOf(begun), headers: { 'sec-fetch-site': 'cross-site' } })
  t.match([done.statusCode, done.headers.location], [302, '/'])
  t.same(asked, [['https://id.example.com', '24400320']])
  const cookies = cookiesOf(done)
  t.equal(cookies['__Host-login'], '', 'the state cannot be used again')
  t.equal((await send(app, 'GET', '/', { cookies })).payload, 'reached')
  t.equal((await send(app, 'POST', '/auth/refresh', { cookies })).statusCode, 200)
  t.equal((await login(app)).statusCode, 401, 'there is no other login')
})

t.test('a social login works with a real OpenID provider', async (t) => {
  const issuer = 'https://id.example.com'
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'service', client_secret: 'a secret of a client, for tests only', redirect_uris: ['https://app.example.org/login/callback'], token_endpoint_auth_method: 'client_secret_post'
    }],
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kty: 'RSA', kid: 'a', use: 'sig', alg: 'RS256' }] },
    cookies: { keys: [secret] },
    pkce: { required: () => true },
    routes: { authorization: '/authorize' }
  })
  // Its address is that of a proxy.
  provider.proxy = true
  const server = createServer(provider.callback()).listen(0, '127.0.0.1')
  t.teardown(() => { server.closeAllConnections(); server.close() })
  await once(server, 'listening')
  const address = `http://127.0.0.1:${Object(server.address()).port}`
  const request = async (url: string, init: RequestInit = {}) => await fetch(url.replace(issuer, address), {
    redirect: 'manual', ...init, headers: { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'id.example.com', ...Object(init.headers) }
  })

  const asked: unknown[] = []
  const findOrCreateUser = async (...id: unknown[]) => { asked.push(id); return { user_id: 1 } }
  const names = {
    cookie,
    clientId: 'service',
    clientSecret: 'a secret of a client, for tests only',
    createHash,
    randomBytes,
    jwtVerify,
    createRemoteJWKSet: () => createRemoteJWKSet(new URL(`${address}/jwks`)),
    fetch: request,
    findOrCreateUser
  }
  const app = await cook(t, 'social-login.md', 'code_challenge', names)
  const begun = await send(app, 'GET', '/login')

  // The user agent: follows redirects, keeps cookies, and sends the forms of the provider.
  const jar = new Map<string, string>()
  let url = String(begun.headers.location)
  let form: URLSearchParams | undefined
  while (url.startsWith(issuer)) {
    const response = await request(url, {
      headers: { cookie: [...jar].map((pair) => pair.join('=')).join('; ') }, ...(form !== undefined && { method: 'POST', body: form })
    })
    for (const [, name = '', value = ''] of response.headers.getSetCookie().map((field) => /^([^=]+)=([^;]*)/.exec(field) ?? [])) jar.set(name, value)
    const location = response.headers.get('location')
    const [, prompt] = /name="prompt" value="(\w+)"/.exec(await response.text()) ?? []
    if (location === null && prompt === undefined) throw new Error(`The provider answered ${response.status}.`)
    form = location === null ? new URLSearchParams({ prompt: String(prompt), login: 'ada', password: 'any' }) : undefined
    url = location === null ? url : new URL(location, url).href
  }

  const { pathname, search } = new URL(url)
  const done = await app.inject({ url: pathname + search, cookies: cookiesOf(begun), headers: { 'sec-fetch-site': 'cross-site' } })
  t.match([done.statusCode, done.headers.location], [302, '/'])
  t.same(asked, [[issuer, 'ada']])
  t.equal((await send(app, 'GET', '/', { cookies: cookiesOf(done) })).payload, 'reached')
})

t.test('a social login is refused without the cookie of this browser, with another state, code or verifier, and with every other ID token', async (t) => {
  const provider = identityProvider()
  const app = await cook(t, 'social-login.md', 'code_challenge', { ...provider.names(), findOrCreateUser: async () => ({ user_id: 1 }) })
  const begin = async () => {
    const begun = await send(app, 'GET', '/login')
    return { query: provider.logIn(String(begun.headers.location)), cookies: cookiesOf(begun) }
  }
  const finish = async (request: InjectOptions) => {
    const { statusCode, cookies } = await app.inject({ url: '/login/callback', ...request })
    t.notOk(cookies.some(({ name }) => name === '__Host-access_token'), 'nobody is logged in')
    return statusCode
  }
  const [own, other] = [await begin(), await begin()]
  t.equal(await finish({ query: own.query }), 401, 'another site gives its own code and state')
  t.equal(await finish({ query: own.query, cookies: { '__Host-login': '' } }), 401)
  const challenge = createHash('sha256').update('undefined').digest('base64url')
  const { code } = provider.logIn(`https://id.example.com/authorize?code_challenge=${challenge}`)
  provider.forged = { nonce: undefined }
  t.equal(await finish({ query: { code } }), 401, 'without a cookie and a state, nothing is compared with nothing')
  provider.forged = {}
  t.equal(await finish({ query: {}, cookies: { '__Host-login': '..' } }), 401)
  t.equal(await finish({ query: { ...own.query, state: other.query.state }, cookies: own.cookies }), 401)
  t.equal(await finish({ query: { ...own.query, code: other.query.code }, cookies: own.cookies }), 401, 'the code belongs to another verifier')
  t.equal(await finish({ query: { state: own.query.state, error: 'access_denied' }, cookies: own.cookies }), 401)
  provider.forged = { nonce: 'another' }
  t.equal(await finish(await begin()), 401)
  // A provider that does this is broken: the error is in the log, and no fault of the client.
  for (const forged of [{ nonce: undefined }, { aud: 'another' }, { iss: 'https://evil.example' }, { exp: now() - 1 }, { exp: undefined }, { sub: undefined }]) {
    provider.forged = forged
    t.equal(await finish(await begin()), 500, JSON.stringify(forged))
  }
  provider.forged = {}
  provider.status = 503
  t.equal(await finish(await begin()), 500)
  provider.status = 200
  t.equal((await app.inject({ url: '/login/callback', ...await begin() })).statusCode, 302, 'without an attack, the same requests log in')
})

const limits = take('rate-limits.md', 'byAddress =')
const inRedis = take('rate-limits.md', 'new Redis(')

/** The service of the recipe: its users log in with `name`, and its calls of `authenticate` are counted. */
function counted () {
  const { authenticate, ...handlers } = people()
  const passwords: unknown[] = []
  const names = {
    ...handlers,
    rateLimit,
    authenticate: ({ body }: FastifyRequest) => {
      const { name: username, password } = Object(body)
      passwords.push(password)
      return authenticate(Object({ body: { username, password } }))
    }
  }
  return { names, passwords }
}

/** Logs in from an address. */
const from = (app: FastifyInstance, remoteAddress = '192.0.2.1', url = '/auth') => async (name: unknown, password = 'wrong') =>
  await app.inject({ method: 'POST', url, payload: { name, password }, remoteAddress })

t.test('login attempts are limited by name from every address, also right ones, and with paths of your own', async (t) => {
  setClock(t, now())
  const { names, passwords } = counted()
  for (const urlPrefix of ['/auth', '/api/session']) {
    const app = await cookText(t, limits.replace('sessions: {}', `sessions: {}, urlPrefix: '${urlPrefix}'`), names)
    const [first, second] = [from(app, '192.0.2.1', urlPrefix), from(app, '192.0.2.2', urlPrefix)]
    t.equal((await first('ada', 'lovelace')).statusCode, 200)
    for (const name of ['ada', 'Ada', 'ADA', 'ada']) t.equal((await first(name)).statusCode, 401)
    passwords.length = 0
    const refused = await second('ada', 'lovelace')
    t.equal(refused.statusCode, 429)
    t.same(passwords, [], 'no password is compared')
    t.same(refused.json(), { reasons: 'Too many attempts.', exception: 'TooManyAttempts' })
    t.ok(Number(refused.headers['retry-after']) > 60)
    t.equal((await second('grace', 'hopper')).statusCode, 200)
  }
})

t.test('a request without a name is refused before a password is compared, and is not counted', async (t) => {
  setClock(t, now())
  const { names, passwords } = counted()
  const app = await cookText(t, limits, names)
  for (let attempt = 0; attempt < 5; attempt++) {
    for (const name of [undefined, null, 1, {}, { toString: 1 }, ['ada'], 'x'.repeat(101)]) t.equal((await from(app)(name)).statusCode, 400)
  }
  t.same(passwords, [])
  t.equal((await from(app)('x'.repeat(100))).statusCode, 401)
})

t.test('login attempts are limited by address, under both spellings of the path, and failed logins do not stop refreshes', async (t) => {
  setClock(t, now())
  const { names } = counted()
  const app = await cookText(t, limits, names)
  const { refresh_token: token } = (await from(app)('ada', 'lovelace')).json()
  for (let attempt = 1; attempt < 20; attempt++) t.equal((await from(app, '192.0.2.1', attempt % 2 === 0 ? '/auth' : '/auth/')(`user ${attempt}`)).statusCode, 401)
  t.equal((await from(app)('grace', 'hopper')).statusCode, 429)
  t.equal((await from(app, '192.0.2.2')('grace', 'hopper')).statusCode, 200)
  t.equal((await app.inject({ method: 'POST', url: '/auth/refresh', payload: { refresh_token: token }, remoteAddress: '192.0.2.1' })).statusCode, 200)
})

t.test('a limit for all requests of an address has a count of its own', async (t) => {
  setClock(t, now())
  const { names } = counted()
  const [, options = ''] = /with `(\{ max: 1000, [^`]+\})`/.exec(readFileSync(new URL('rate-limits.md', folder), 'utf8')) ?? []
  const few = options.replace('1000', '22')
  const app = await cookText(t, limits.replace('{ global: false }', few), names)
  const { refresh_token: token } = (await from(app)('ada', 'lovelace')).json()
  for (let attempt = 1; attempt <= 20; attempt++) t.equal((await from(app)(`user ${attempt}`)).statusCode, attempt < 20 ? 401 : 429)
  const renew = async () => (await app.inject({ method: 'POST', url: '/auth/refresh', payload: { refresh_token: token }, remoteAddress: '192.0.2.1' })).statusCode
  t.same([await renew(), await renew()], [200, 429])
})

t.test('the test of the recipe passes with the limit, and fails without it', async (t) => {
  setClock(t, now())
  const { names } = counted()
  const limited = await cookText(t, limits, names)
  const unlimited = host(t)
  await unlimited.register(tokenAuth, { secret, authenticate: names.authenticate })
  const testOf = async (app: FastifyInstance) => {
    let own: () => Promise<void> = async () => { throw new Error('There is no test.') }
    await recipes.get('rate-limits.md')?.run('the sixth login', { app, assert, test: (_name: string, given: typeof own) => { own = given } })
    await own()
  }
  await testOf(limited)
  await t.rejects(testOf(unlimited), { code: 'ERR_ASSERTION' })
})

t.test('users who are logged in have a few attempts to enter their password again, wherever they are', async (t) => {
  setClock(t, now())
  const { names } = counted()
  const app = await cookText(t, `${limits}\n${take('rate-limits.md', 'byUser =')}`, names)
  const tokens = async (name: string, password: string) => (await from(app)(name, password)).json().access_token
  const [ada, grace] = [await tokens('ada', 'lovelace'), await tokens('grace', 'hopper')]
  const confirm = async (token: string, password: unknown, host = 3) =>
    (await app.inject({ method: 'POST', url: '/confirm', headers: bearer(token), payload: { password }, remoteAddress: `192.0.2.${host}` })).statusCode
  t.equal((await send(app, 'POST', '/confirm', { payload: { password: 'lovelace' } })).statusCode, 401)
  t.equal(await confirm(ada, 'lovelace'), 204)
  for (const [index, password] of ['hopper', undefined, 'x', 'y'].entries()) t.equal(await confirm(ada, password, index), 403)
  t.equal(await confirm(ada, 'lovelace', 9), 429)
  t.equal(await confirm(grace, 'hopper'), 204)
})

t.test('processes count attempts together in Redis; while it is down or does not answer, no password is compared and clients are told to try again', { skip: skip.redis }, async (t) => {
  const server = await startDatabase(t, 'redis')
  const network = await Network.to(t, server.url)
  const { names, passwords } = counted()
  const counters: Redis[] = []
  const start = async () => {
    const app = await cookText(t, limits.replace('await app.register(rateLimit, { global: false })', inRedis), {
      ...names,
      process: { env: { REDIS_URL: network.url } },
      Redis: class extends Redis {
        constructor (...given: ConstructorParameters<typeof Redis>) {
          super(...given)
          counters.push(this)
        }
      }
    })
    await Promise.all(counters.map(async (counter) => counter.status === 'ready' || await once(counter, 'ready')))
    return app
  }
  const apps = [await start(), await start()] as const
  const statuses = async (...logins: readonly [name: string, password?: string][]) =>
    await Promise.all(logins.map(async ([name, password], index) => (await from(index % 2 === 0 ? apps[0] : apps[1])(name, password)).statusCode))
  const unavailable = async () => {
    passwords.length = 0
    for (const password of ['hopper', 'wrong']) {
      const response = await from(apps[0])('grace', password)
      t.match(response, { statusCode: 503, headers: { 'retry-after': '5' } })
      t.same(response.json(), { reasons: 'Passwords cannot be checked at the moment.', exception: 'AttemptsNotCounted' })
    }
    t.same(passwords, [], 'the answer says nothing about a password')
  }
  t.same(await statuses(['ada'], ['ada'], ['ada'], ['ada'], ['ada']), [401, 401, 401, 401, 401])
  t.same(await statuses(['ada', 'lovelace'], ['ada', 'lovelace'], ['grace', 'hopper']), [429, 429, 200], 'the count is that of both')

  network.hang()
  await t.test('a command without an answer fails when its time is over', async (t) => {
    const expire = holdTimers(t, 500)
    const waiting = new Set(['the answers'])
    const answered = unavailable().finally(() => waiting.clear())
    while (waiting.size > 0) {
      expire()
      await turn()
    }
    await answered
  })
  network.resume()
  const closed = counters.map((counter) => once(counter, 'close'))
  await server.kill()
  await Promise.all(closed)
  await t.test('without a connection, a command fails at once', async (t) => {
    const expire = holdTimers(t, 500)
    await unavailable()
    expire()
  })
  const again = once(counters[0]!, 'ready')
  await server.start()
  await again
  t.equal((await from(apps[0])('grace', 'hopper')).statusCode, 200)
})

t.test('a payment needs a login of the last five minutes, which a refresh is not, and the password of the same user is one', async (t) => {
  const start = 1_800_000_000
  const setTime = setClock(t, start)
  const app = await cook(t, 'step-up.md', 'maxAge', {})
  let cookies = cookiesOf(await login(app))
  const request = async (path: string, payload?: object) => {
    const response = await send(app, 'POST', path, { cookies, ...(payload !== undefined && { payload }) })
    if (response.cookies.length > 0) cookies = cookiesOf(response)
    return response
  }
  t.equal((await request('/payments')).payload, 'reached')
  setTime(start + 400)
  t.match((await request('/payments')).json(), { exception: 'InsufficientUserAuthentication' })
  t.equal((await request('/auth/refresh')).statusCode, 200)
  t.equal((await request('/payments')).statusCode, 401)
  t.equal((await request('/confirm', { password: 'hopper' })).statusCode, 403)

  const before = cookies
  const answers: string[] = []
  // The page, in a browser with these cookies.
  const client = {
    fetch: async (path: string, { body }: { body: string }) => {
      const { statusCode, payload } = await request(path, JSON.parse(body))
      answers.push(`${path} ${statusCode}`)
      return new Response(statusCode === 204 ? null : payload, { status: statusCode })
    }
  }
  const pay = await recipes.get('step-up.md')?.run<(payment: object) => Promise<Response>>('async function pay', { client, askForPassword: async () => 'lovelace' }, 'pay')
  t.equal(await (await pay?.({ amount: 1 }))?.text(), 'reached')
  t.same(answers, ['/payments 401', '/confirm 204', '/payments 200'])
  t.equal((await send(app, 'GET', '/auth/me', { cookies: before })).json().exception, 'SessionEnded', 'the session before has ended')
})

// Promise: security/two-logins-cannot
t.test('logins in the same second have the same payload without the recipe, and ids of their own with it', async (t) => {
  setClock(t, 1_800_000_000)
  const app = await cook(t, 'distinguish-logins.md', 'class LoginId', { randomUUID })
  const plain = host(t)
  await plain.register(tokenAuth, { secret, authenticate: people().authenticate })
  const tokens = async (of: FastifyInstance) => [(await login(of)).json().access_token, (await login(of)).json().access_token]
  const [first, second] = await tokens(app)
  t.not(payloadOf(first).login_id, payloadOf(second).login_id)
  const [same, again] = await tokens(plain)
  t.equal(same, again)
})

const browser = openBrowser(t)
const draftsModule = take('drafts.md', 'export function keepDrafts')
const draftsPage = take('drafts.md', 'keepDrafts(client)')

t.test('the module of the recipe of drafts is that of the example, and has at most 30 lines', async (t) => {
  t.equal(draftsModule, readFileSync(new URL('../../../examples/web/public/drafts.js', import.meta.url), 'utf8'))
  t.ok(draftsModule.split('\n').length - 1 <= 30)
})

t.test('drafts are for one user and one address, without passwords, until the service has accepted the form or the user logs out in this tab', { skip: withoutBrowser }, async (t) => {
  const [, form = ''] = /```html\n([\s\S]*?)```/.exec(readFileSync(new URL('drafts.md', folder), 'utf8')) ?? []
  const { authenticate, retrieveUser } = people()
  const app = host(t)
  await app.register(formbody)
  await app.register(tokenAuth, { secret, authenticate, retrieveUser, sessions: {}, cookieSet: true, tokensInBody: false, loginRedirectUrl: '/login?next={next}' })
  const imports = JSON.stringify({ imports: { 'fastify-token-auth/client': '/client.js', './drafts.js': '/drafts.js' } })
  const page = `<!doctype html><title>page</title><link rel="icon" href="data:,"><script type="importmap">${imports}</script><script type="module" src="/page.js"></script>
    ${form.replace('<button>', '<input type="password" name="pin"><input name="new" autocomplete="new-password"><input name="kept" value="kept"><button>')}<button id="logout">Log out</button>`
  const send = (type: string, text: string) => async (_request: FastifyRequest, reply: FastifyReply) => reply.type(type).header('cache-control', 'no-store').send(text)
  app.get('/client.js', send('text/javascript', clientScript))
  app.get('/drafts.js', send('text/javascript', draftsModule))
  app.get('/page.js', send('text/javascript', `${draftsPage}\nawait client.load()\nObject.assign(globalThis, { client, isReady: true })`))
  app.get('/login', send('text/html', '<!doctype html><title>login</title>'))
  app.get('/notes', { onRequest: app.tokenAuth.protect({ redirectOnFail: true }) }, send('text/html', page))
  app.post('/notes', { onRequest: app.tokenAuth.protect({ renew: true }) }, async (request, reply) => {
    if (Object(request.body).text === 'wrong') return await reply.code(400).send('wrong')
    return await reply.redirect('/login?accepted', 303)
  })
  const baseURL = `http://127.0.0.1:${await listen(app)}`
  const context = await (await browser()).newContext({ baseURL })
  t.teardown(() => context.close())
  // As in test/outside/web.test.ts: a page that never shows what the test waits for ends with the limit of the file.
  context.setDefaultTimeout(0)
  const tab = await context.newPage()
  const text = tab.getByLabel('Text')
  const logIn = async (username: string, password: string) => {
    t.equal((await context.request.post('/auth', { data: { username, password } })).status(), 200)
  }
  const open = async (url: string, own = tab) => {
    await own.goto(url)
    await own.waitForFunction('globalThis.isReady')
  }
  const opened = async (url: string) => {
    await open(url)
    return await text.inputValue()
  }
  const stored = async () => await tab.evaluate('JSON.stringify(sessionStorage)') as string

  await tab.goto('/login')
  await logIn('ada', 'lovelace')
  await open('/notes?id=1')
  t.equal(await stored(), '{}', 'nothing was typed')
  await tab.locator('[name=pin]').fill('1234')
  await tab.locator('[name=new]').fill('5678')
  await text.fill('mine')
  t.match(await stored(), /1.*\/notes\?id=1.*mine/)
  t.notMatch(await stored(), /1234|5678/)
  t.equal(await opened('/notes?id=2'), '', 'another address')
  t.equal(await opened('/notes?id=1'), 'mine')
  t.equal(await tab.locator('[name=kept]').inputValue(), 'kept')

  await logIn('grace', 'hopper')
  t.equal(await opened('/notes?id=1'), '', 'another user')
  await text.fill('of grace')
  await tab.locator('#logout').click()
  await tab.waitForURL('**/login?reason=logout**')
  t.notMatch(await stored(), 'of grace')
  await logIn('ada', 'lovelace')
  t.equal(await opened('/notes?id=1'), 'mine')

  // After a login in another tab, the page loads again for the other user.
  await logIn('grace', 'hopper')
  await Promise.all([tab.waitForEvent('load'), tab.evaluate('void client.load()')])
  await tab.waitForFunction('globalThis.isReady')
  t.equal(await text.inputValue(), '')
  await logIn('ada', 'lovelace')
  t.equal(await opened('/notes?id=1'), 'mine')
  await text.fill('wrong')
  await Promise.all([tab.waitForResponse((response) => response.status() === 400), tab.getByRole('button', { name: 'Save' }).click()])
  t.equal(await text.inputValue(), 'wrong')
  t.equal(await opened('/notes?id=1'), 'wrong', 'the service has not accepted it')
  await text.fill('right')
  await tab.getByRole('button', { name: 'Save' }).click()
  await tab.waitForURL('**/login?accepted')
  t.equal(await opened('/notes?id=1'), '')
  t.equal(await stored(), '{}')
})

t.test('every example of the recipes was run', async (t) => {
  for (const [name, { left }] of recipes) t.same([...left], [], name)
})
