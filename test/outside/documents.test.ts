/** The documents: their examples run, and what they name exists. README.md, docs/sessions.md and others have more tests of their own. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import cookie from '@fastify/cookie'
import cors from '@fastify/cors'
import formbody from '@fastify/formbody'
import rateLimit from '@fastify/rate-limit'
import fastifyStatic from '@fastify/static'
import swagger from '@fastify/swagger'
import jwt from '@fastify/jwt'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import tokenAuth, * as library from '../../lib/index.ts'
import { attack, createTestToken } from '../../lib/testing.ts'
import { authenticate, bearer, claims, edPair, environment, forge, host, login, payloadOf, secret, setClock, users } from '../helper.ts'
import { answerFetches } from '../authorities/issuers.ts'
import { brokenLinks } from '../repository/links.ts'
import { errorsIn, programsIn, programWith, run, withoutTypes } from '../programs.ts'

const root = new URL('../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')

/** The documents for users, by path. The build of the site and of the API reference has Markdown files, too, and so has the part *Evidence*. */
const pages = readdirSync(new URL('docs', root), { recursive: true, encoding: 'utf8' }).map((name) => `docs/${name.replaceAll('\\', '/')}`)
const documents = Object.fromEntries(
  ['README.md', ...pages.filter((path) => /^docs\/(recipes\/)?[\w-]+\.md$/.test(path))].map((path) => [path, read(path)])
)

/** The proofs, which nobody has to read. */
const evidence = pages.filter((path) => path.startsWith('docs/evidence/'))

/** Pages whose examples run in a test of their own, because they need servers, browsers, times or a shell. */
const testedElsewhere: Record<string, string> = {
  'docs/changing-settings.md': 'test/settings/changes.test.ts',
  'docs/client.md': 'test/outside/client-page.test.ts',
  'docs/deployment.md': 'test/promises/deployment.test.ts',
  'docs/events.md': 'test/events.test.ts',
  'docs/issuers.md': 'test/keys/documentation.test.ts',
  'docs/keys.md': 'test/keys/documentation.test.ts',
  'docs/operation.md': 'test/promises/deployment.test.ts',
  'docs/providers.md': 'test/keys/documentation.test.ts',
  'docs/sessions.md': 'test/sessions/documentation.test.ts',
  'docs/sessions-reference.md': 'test/sessions/documentation.test.ts',
  'docs/stores.md': 'test/outside/stores/documentation.test.ts',
  'docs/tutorial.md': 'test/outside/tutorial.test.ts'
}

/** Names that the examples do not declare. */
function given (app: FastifyInstance) {
  const { AuthenticationFailed, Configuration, TokenAuthError, View, protect, requestSerializer, scoped } = library
  const handler = async () => 'reached'
  const site = { fastifyStatic, root: fileURLToPath(new URL('test/fixtures/pages', root)) }
  const handlers = {
    authenticate,
    customers: authenticate,
    staff: authenticate,
    retrieveUser: async () => users[0],
    findUser: async () => users[0],
    scopesOf: () => ['orders:read'],
    users: new Map(users.map((user) => [user.user_id, user])),
    blocked: new Set(),
    changePassword: async () => {},
    logIn: async () => users[0],
    handler,
    orders: handler,
    schema: { body: { type: 'object' } },
    request: { tokenAuth: { signal: new AbortController().signal } },
    socket: new EventEmitter()
  }
  const keys = { secret, customerSecret: secret, staffSecret: `${secret} of the staff`, publicKey: edPair().publicKey }
  const own = { tokenAuth, AuthenticationFailed, Configuration, TokenAuthError, View, protect, requestSerializer, scoped, attack, createTestToken }
  return { app, assert, randomUUID, Fastify, cookie, cors, swagger, ...own, ...site, ...handlers, ...keys }
}

for (const [path, text] of Object.entries({ ...documents, 'CHANGELOG.md': read('CHANGELOG.md') })) {
  // The first example of the README has a test in test/outside/readme.test.ts.
  // Those of pages run in test/outside/client-page.test.ts, in a browser.
  // What declares instances is for the compiler alone.
  const programs = programsIn(text, ['js', 'ts']).filter((program) => !program.includes('declare module')).map(withoutTypes).filter((program) => (path !== 'README.md' || !program.includes('process.env')) && !program.includes("from 'fastify-token-auth/client'"))
  const elsewhere = path.startsWith('docs/recipes/') ? 'test/outside/recipes/recipes.test.ts' : testedElsewhere[path]
  if (elsewhere !== undefined) {
    t.test(`the examples of ${path} have a test of their own`, async (t) => { t.match(read(elsewhere), /docs\/\w+/.exec(path)?.[0] ?? path) })
  } else if (programs.length > 0) {
    t.test(`every JavaScript example of ${path} runs`, async (t) => {
      answerFetches(t)
      for (const program of programs) {
        // The names of parameters that hostile requests use are not those of the application, so a log would show them.
        const app = host(t, program.includes('attack(') ? { logger: false } : {})
        if (!program.includes('register(tokenAuth')) await app.register(tokenAuth, { secret, authenticate, sessions: {} })
        await t.resolves(run(program, given(app)), program)
        await t.resolves(async () => { await app.ready() }, program)
      }
    })
  }
}

/** Pages that begin with what they list. */
const lists = ['docs/findings.md', 'docs/providers.md', 'docs/recipes.md', 'docs/security.md', 'docs/specification.md', 'docs/tutorial.md']

t.test('every page begins with an example', async (t) => {
  for (const [path, text] of Object.entries(documents)) {
    const [beginning = ''] = text.split(/^## /m)
    if (path !== 'README.md' && !lists.includes(path)) t.match(beginning, /^```(js|ts|diff|sh)$/m, path)
  }
})

t.test('every TypeScript example that declares instances compiles, alone; test/repository/snippets.test.ts compiles the others', async (t) => {
  // The files of the tutorial are one program, which its test compiles.
  const blocks = Object.entries(documents).flatMap(([path, text]) => path === 'docs/tutorial.md' ? [] : programsIn(text, ['ts']).filter((program) => program.includes('declare module')))
  t.ok(blocks.length > 0)
  const declared = `import type { Authentication } from 'fastify-token-auth'
declare const { authenticate, retrieveUser }: Required<Pick<Authentication<{ user_id: number }>, 'authenticate' | 'retrieveUser'>>
declare const handler: () => Promise<string>
interface Customer { user_id: number }
interface Employee { user_id: string, department: string }
`
  for (const block of blocks) {
    t.same(errorsIn(declared + block), [], block)
    t.match(block, /^(?:import|export) /m, 'it is a module of its own, so that what it declares extends the types of the package')
  }
  t.not(errorsIn(declared + 'const wrong: number = "text"').length, 0, 'an error would be noticed')
})

t.test('as docs/guards.md and the README say, a guard refuses a stranger before the body is read in onRequest, and after it was validated in preHandler', async (t) => {
  const app = host(t)
  await app.register(tokenAuth, { secret, authenticate, scopesEnabled: true, addScopesToPayload: () => 'team-blue' })
  await run(programWith(programsIn(documents['docs/guards.md'] ?? ''), 'preHandler: app.tokenAuth.scoped'), given(app))
  app.post('/early', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const send = async (url: string, payload: object | string, token?: string) => (await app.inject({
    method: 'POST', url, payload, headers: { 'content-type': 'application/json', ...(token !== undefined && bearer(token)) }
  })).statusCode
  t.equal(await send('/early', '{'), 401)
  t.equal(await send('/reports', '{'), 400)
  t.equal(await send('/reports', { team: 'blue' }), 401)
  const { access_token: token } = (await login(app)).json()
  t.equal(await send('/early', '{', token), 400)
  t.equal(await send('/reports', { team: 'blue:*' }, token), 400)
  t.equal(await send('/reports', { team: 'red' }, token), 403)
  t.equal(await send('/reports', { team: 'blue' }, token), 200)
})

// Promise: security/guard-read-before
t.test('reading a guard before the plugin has loaded throws the error in docs/guards.md; both forms that the page recommends guard their routes', async (t) => {
  const guards = documents['docs/guards.md'] ?? ''
  const early = host(t)
  early.register(tokenAuth, { secret, authenticate })
  t.throws(() => early.get('/', { onRequest: early.tokenAuth.protect() }, async () => 'open'), TypeError)
  try {
    early.tokenAuth.protect()
  } catch (error) {
    t.match(guards, String(error), 'word for word')
  }

  const awaited = "await app.register(tokenAuth, { secret, authenticate })\napp.get('/private', { onRequest: app.tokenAuth.protect() }, handler)"
  for (const text of [awaited, programWith(programsIn(guards), 'onRequest: protect()')]) {
    const app = host(t)
    await run(text, given(app))
    const { access_token: token } = (await login(app)).json()
    t.equal((await app.inject({ url: '/private' })).statusCode, 401, text)
    t.equal((await app.inject({ url: '/private', headers: bearer(token) })).payload, 'reached', text)
  }
})

// Promise: security/sibling-subdomain-sets
t.test('the cookie names in docs/cookies.md bind cookies to their host, and its logout clears them', async (t) => {
  const app = host(t)
  await run(programWith(programsIn(documents['docs/cookies.md'] ?? ''), "cookieAccessTokenName: '__Host-"), given(app))
  await run(programWith(programsIn(documents['docs/cookies.md'] ?? ''), "app.post('/logout'"), given(app))
  const fieldsOf = (value: string | string[] | undefined = []) => [value].flat()
  const set = fieldsOf((await login(app)).headers['set-cookie'])
  for (const [index, name] of ['access', 'refresh'].entries()) t.match(set[index], new RegExp(`^__Host-${name}_token=[^;]+; Max-Age=2592000; Path=/; HttpOnly; Secure; SameSite=Lax$`))
  const cleared = fieldsOf((await app.inject({ method: 'POST', url: '/logout' })).headers['set-cookie'])
  t.same(cleared.map((field) => field.split('=', 1)[0]), ['__Host-access_token', '__Host-refresh_token'])
  for (const field of cleared) t.match(field, /=; Max-Age=0; Path=\/; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Secure/)
})

t.test('the pages of docs/cookies.md log in and out with their forms', async (t) => {
  const app = host(t)
  await run(programWith(programsIn(documents['docs/cookies.md'] ?? ''), "app.get('/login'"), { ...given(app), returnPath: library.returnPath })
  const headers = { 'content-type': 'application/x-www-form-urlencoded', origin: 'http://localhost', host: 'localhost' }
  const submit = async (url: string, fields: Record<string, string>, cookies = {}) =>
    await app.inject({ method: 'POST', url, cookies, headers, payload: String(new URLSearchParams(fields)) })
  t.equal((await app.inject('/')).headers.location, '/login?next=%2F&reason=absent')
  const page = (await app.inject('/login?next=/reports%3Fa=%22%26b=1&reason=refused')).payload
  t.match(page, 'value="/reports?a=%22&#38;b=1"')
  t.match(page, 'Wrong name or password.')
  t.match(page, '<form method="post" action="/auth">')
  t.notMatch((await app.inject('/login?next=//evil.example')).payload, /evil|Wrong/)
  t.equal((await submit('/auth', { username: 'ada', password: 'wrong', next: '/reports' })).headers.location, '/login?next=%2Freports&reason=refused')
  const { headers: { location }, cookies } = await submit('/auth', { username: 'ada', password: 'lovelace', next: '/reports' })
  t.equal(location, '/reports')
  const jar = Object.fromEntries(cookies.map(({ name, value }) => [name, value]))
  t.match((await app.inject({ url: '/', cookies: jar })).payload, '<form method="post" action="/auth/logout">')
  t.equal((await submit('/auth/logout', {}, jar)).headers.location, '/login')
  t.equal((await app.inject({ url: '/', cookies: jar })).statusCode, 302)
})

t.test('limits of all routes and CORS headers reach the endpoints where docs/cookies.md and the recipe of limits say', async (t) => {
  type Add = (context: FastifyInstance) => Promise<void>
  const companions: Add = async (context) => {
    await context.register(cors, { origin: ['https://app.example.org'] })
    await context.register(rateLimit, { max: 1 })
  }
  const plugin: Add = async (context) => { await context.register(tokenAuth, { secret, authenticate }) }
  const inside = (add: Add): Add => async (context) => { await context.register(async (own) => { await add(own) }) }
  const cases: ReadonlyArray<readonly [string, readonly Add[], boolean, boolean]> = [
    ['before', [companions, plugin], true, true],
    ['around', [companions, inside(plugin)], true, true],
    ['behind', [plugin, companions], true, false],
    ['in another context', [inside(companions), plugin], false, false]
  ]
  for (const [name, adds, hasHeaders, isLimited] of cases) {
    const app = host(t)
    for (const add of adds) await add(app)
    const send = async () => await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' }, headers: { origin: 'https://app.example.org' } })
    t.equal((await send()).headers['access-control-allow-origin'], hasHeaders ? 'https://app.example.org' : undefined, name)
    t.equal((await send()).statusCode, isLimited ? 429 : 200, name)
  }
})

t.test('with the getter of the social login, a POST of the provider starts a session at the callback, and nowhere else', async (t) => {
  const [, getter = ''] = /`getTrustedOrigins: (.+?)`/.exec(documents['docs/recipes/social-login.md'] ?? '') ?? []
  const app = host(t)
  await app.register(formbody)
  await app.register(tokenAuth, { secret, authenticate, sessions: {}, cookieSet: true, getTrustedOrigins: await run<() => string[]>('', {}, getter) })
  for (const url of ['/login/callback', '/other']) {
    app.post(url, async (request, reply) => {
      await app.tokenAuth.sessions.start(request, reply, { user_id: 1 })
      return reply.redirect('/', 303)
    })
  }
  const send = async (url: string, origin: string) => await app.inject({ method: 'POST', url, payload: 'code=a&state=b', headers: { 'content-type': 'application/x-www-form-urlencoded', origin, 'sec-fetch-site': 'cross-site' } })
  const started = await send('/login/callback', 'https://appleid.apple.com')
  t.equal(started.statusCode, 303)
  t.equal(started.cookies.length, 2)
  for (const [url, origin] of [['/login/callback', 'https://other.example'], ['/login/callback', 'null'], ['/other', 'https://appleid.apple.com']] as const) t.equal((await send(url, origin)).statusCode, 403)
})

t.test('behind a proxy that removes a prefix, the target in docs/deployment.md leads back to the page with this prefix', async (t) => {
  const [, loginRedirectUrl = ''] = /also before `\{next\}`: `'(.+?)'`/.exec(documents['docs/deployment.md'] ?? '') ?? []
  const app = host(t)
  await app.register(tokenAuth, { secret, authenticate, loginRedirectUrl })
  app.get('/orders', { onRequest: app.tokenAuth.protect({ redirectOnFail: true }) }, async () => 'reached')
  const { location = '' } = (await app.inject('/orders?page=2')).headers
  const target = new URL(String(location), 'https://example.org')
  t.equal(target.pathname, '/shop/login')
  t.equal(library.returnPath(target.searchParams.get('next')), '/shop/orders?page=2')
})

t.test('the error handler in docs/errors.md answers refusals, also those of the endpoints, with their challenge', async (t) => {
  const app = host(t)
  await run(programWith(programsIn(documents['docs/errors.md'] ?? ''), 'setErrorHandler'), given(app))
  app.get('/private', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  for (const url of ['/private', '/auth/me']) {
    const response = await app.inject(url)
    t.equal(response.statusCode, 401)
    t.match(response.headers['www-authenticate'], /^Bearer realm=/)
    t.same(response.json(), { code: 'TOKEN_AUTH_MISSING_AUTHORIZATION_HEADER', message: new library.MissingAuthorizationHeader().message })
  }
})

t.test('what docs/errors.md says of bodies: the errors of Fastify and of limits have theirs, and a refused login is JSON as text/plain', async (t) => {
  const requests = [
    [400, { payload: '{', headers: { 'content-type': 'application/json' } }],
    [413, { payload: { password: 'x'.repeat(20_000) } }],
    [415, { payload: 'password=x', headers: { 'content-type': 'application/x-www-form-urlencoded' } }],
    [401, { payload: { username: 'ada', password: 'wrong' } }],
    [429, { payload: { username: 'ada', password: 'wrong' } }]
  ] as const
  for (const own of [false, true]) {
    const app = host(t)
    if (own) app.setErrorHandler(async (error: { statusCode: number }, _request, reply) => await reply.code(error.statusCode).send({ own: error.statusCode }))
    await app.register(rateLimit, { max: 4 })
    await app.register(tokenAuth, { secret, authenticate })
    for (const [status, request] of requests) {
      const response = await app.inject({ method: 'POST', url: '/auth', ...request })
      t.equal(response.statusCode, status)
      const members = status === 401 ? ['reasons', 'exception'] : own ? ['own'] : ['statusCode', 'error', 'message']
      t.hasProps(response.json(), members)
      t.match(response.headers['content-type'], status === 401 ? 'text/plain; charset=utf-8' : 'application/json; charset=utf-8')
    }
  }
})

t.test('the example of docs/openapi.md makes a document of OpenAPI 3.1, with scopes', async (t) => {
  const app = host(t)
  const document = await run<{ openapi: string, paths: Record<string, object> }>(programWith(programsIn(documents['docs/openapi.md'] ?? ''), 'swagger'), given(app), 'document')
  t.equal(document.openapi, '3.1.0')
  t.match(document.paths['/reports'], { get: { security: [{ tokenAuth: ['reports:read'] }] } })
})

t.test('a cookie is attacked as docs/testing.md gives it', async (t) => {
  const [, text = ''] = /give `` (\{ cookie: .*?) ``/.exec(documents['docs/testing.md'] ?? '') ?? []
  const app = host(t, { logger: false })
  await app.register(tokenAuth, { secret, authenticate, cookieSet: true })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const token = await createTestToken(app.tokenAuth, { user_id: 1 })
  const headers = await run<Record<string, string>>('', { token }, text)
  t.same((await attack(app, { method: 'GET', url: '/', headers }, { token, key: secret })).found, [])
  await t.rejects(attack(app, { method: 'GET', url: '/' }, { token, key: secret }), 'without it, the route does not accept the token')
})

t.test('the errors in docs/troubleshooting.md exist, and with `debug` a refusal says which check failed', async (t) => {
  const page = documents['docs/troubleshooting.md'] ?? ''
  for (const [, name = ''] of page.matchAll(/^- \*\*\d{3} `(\w+)`/gm)) t.ok(name in library, name)
  const app = host(t)
  t.match(await run(programWith(programsIn(page), 'debug: true'), given(app), 'detail'), 'header')
})

t.test('the lines of the migration from @fastify/jwt do the same before and after, and take the tokens of each other', async (t) => {
  const [, diff = ''] = /```diff\n([\s\S]*?)```/.exec(documents['docs/recipes/fastify-jwt.md'] ?? '') ?? []
  const lines = diff.trimEnd().split('\n')
  t.ok(lines.length <= 10, 'it has ten lines')
  const start = 1_800_000_000
  setClock(t, start)
  const programOf = (sign: string) => lines.filter((line) => line.startsWith(sign) || line.startsWith(' ')).map((line) => line.slice(1)).join('\n')

  const apps = await Promise.all(['-', '+'].map(async (sign) => {
    const app = host(t)
    await run(programOf(sign), { app, jwt, tokenAuth, secret, logIn: async ({ name }: { name: string }) => name })
    return app
  }))
  for (const issuer of apps) {
    const { token } = (await issuer.inject({ method: 'POST', url: '/login', payload: { name: 'ada' } })).json()
    const { user_id: userId, exp } = payloadOf(token)
    t.equal(userId, 'ada')
    t.equal(exp, start + 1800, 'it expires in half an hour')
    for (const app of apps) {
      const response = await app.inject({ url: '/private', headers: bearer(token) })
      t.equal(response.statusCode, 200)
      t.match(response.json(), { user_id: 'ada', exp })
    }
  }
  for (const app of apps) t.equal((await app.inject({ url: '/private' })).statusCode, 401)
})

t.test('the login endpoint of the migration keeps path and response of the login, app.authenticate and request.user', async (t) => {
  const app = host(t)
  await run(programWith(programsIn(documents['docs/recipes/fastify-jwt.md'] ?? ''), "pathToAuthenticate: '/login'"), given(app))
  const { token, ...others } = (await login(app, { url: '/login' })).json()
  t.same(others, {})
  t.match((await app.inject({ url: '/private', headers: bearer(token) })).json(), { user_id: 1, username: 'ada' })
  t.equal((await app.inject('/private')).statusCode, 401)
  t.equal((await app.inject({ url: '/me', headers: bearer(token) })).statusCode, 200)
  const issued = await app.tokenAuth.generateAccessToken({ user_id: 1, role: 'admin' }, { extendPayload: (payload) => ({ ...payload, role: 'admin' }) })
  t.match(payloadOf(issued), { role: 'admin' })
  t.notOk('role' in payloadOf(await app.tokenAuth.generateAccessToken({ user_id: 1, role: 'admin' })))
})

t.test('the exchange of the migration takes tokens without exp, of a short secret and in signed cookies, and only those', async (t) => {
  const text = documents['docs/recipes/fastify-jwt.md'] ?? ''
  const oldSecret = 'a short secret'
  const app = host(t)
  await run(programWith(programsIn(text), '/exchange'), {
    ...given(app), cookie, jwt, oldSecret, cookieSecret: secret, findUser: async (id: unknown) => users.find((user) => user.user_id === id)
  })
  app.get('/private', { onRequest: app.tokenAuth.protect() }, async (request) => request.tokenAuth.payload)
  const exchange = (headers: Record<string, string>) => app.inject({ method: 'POST', url: '/exchange', headers })

  const old = app.jwt.sign({ user_id: 1 })
  t.notOk('exp' in payloadOf(old))
  t.equal((await app.inject({ url: '/private', headers: bearer(old) })).statusCode, 401)
  for (const headers of [bearer(old), { cookie: `token=${encodeURIComponent(app.signCookie(old))}` }]) {
    const { access_token: accessToken, refresh_token: refreshToken } = (await exchange(headers)).json()
    t.match((await app.inject({ url: '/private', headers: bearer(accessToken) })).json(), { user_id: 1 })
    t.equal((await app.inject({ method: 'POST', url: '/auth/refresh', payload: { refresh_token: refreshToken } })).statusCode, 200)
    t.equal((await exchange(bearer(accessToken))).statusCode, 401, 'an access token is not exchanged')
  }
  t.equal((await exchange({ cookie: `token=${old}` })).statusCode, 401, 'a cookie without a signature')
  t.equal((await exchange({ cookie: `token=${encodeURIComponent(app.signCookie(old))}`, 'sec-fetch-site': 'cross-site' })).statusCode, 403, 'another site')
  t.equal((await exchange(bearer(app.jwt.sign({ user_id: 9 })))).statusCode, 401, 'a user who does not exist')
})

t.test('what the migration says is different: short secrets in production, and whether a cookie comes before the header', async (t) => {
  const short = 'x'.repeat(31)
  const before = host(t)
  await before.register(jwt, { secret: short, cookie: { cookieName: 'access_token', signed: false } })
  environment(t, 'production')
  await t.rejects(async () => { await host(t).register(tokenAuth, { secret: short, authMode: false }) }, { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E23' })

  const after = host(t)
  await after.register(tokenAuth, { secret, authMode: false, cookieSet: true, cookieStrict: false })
  after.get('/', { onRequest: after.tokenAuth.protect() }, async (request) => request.tokenAuth.payload)
  await before.register(cookie)
  before.get('/', { onRequest: (request) => request.jwtVerify() }, async (request) => request.user)
  for (const [app, key, source] of [[before, short, 'header'], [after, secret, 'cookie']] as const) {
    const [inHeader, inCookie] = ['header', 'cookie'].map((from) => forge(claims({ from }), { key }))
    t.match((await app.inject({ url: '/', headers: bearer(String(inHeader)), cookies: { access_token: String(inCookie) } })).json(), { from: source })
  }
})

t.test('the tables of the documents are what the code says', async (t) => {
  const script = fileURLToPath(new URL('scripts/tables.js', root))
  await t.resolves(promisify(execFile)(process.execPath, [script, '--check']))
})

t.test('every link of the documents leads to a file or a heading that exists', async (t) => {
  const others = ['CONTRIBUTING.md', 'development/chaos.md', 'development/documents.md', 'development/releasing.md', 'SECURITY.md', 'CHANGELOG.md', 'docs/site/tutorial-javascript.md', 'examples/README.md', 'benchmarks/README.md']
  // `npm run docs:site` writes the page of the tests, and checks its links.
  const isWrittenLater = (link: string) => /^docs\/evidence\/[\w-]+\.md: tests\.md$/.test(link)
  t.same(brokenLinks(fileURLToPath(root), [...Object.keys(documents), ...evidence, ...others]).filter((link) => !isWrittenLater(link)), [])
})

t.test('a guide has at most 1,500 words, and all of them 25,000; recipes are packed, and the part Evidence is not', async (t) => {
  const guides = Object.entries(documents).filter(([path]) => /^docs\/[\w-]+\.md$/.test(path))
  const counts = guides.map(([path, text]) => ({ path, words: text.split(/\s+/).length }))
  t.same(counts.filter(({ words }) => words > 1500), [])
  const all = counts.reduce((sum, { words }) => sum + words, 0)
  t.ok(all <= 25_000, `${all} words`)
  const files: string[] = JSON.parse(read('package.json')).files
  t.same(files.filter((pattern) => pattern.startsWith('docs')), ['docs/*.md', 'docs/recipes/*.md', 'docs/pictures'])
})

t.test('pages that the package does not have are named as text by those that it has, and exist in the repository; those that it has are linked', async (t) => {
  const named = new Set<string>()
  for (const [path, text] of Object.entries({ ...documents, 'SECURITY.md': read('SECURITY.md'), 'CHANGELOG.md': read('CHANGELOG.md') })) {
    t.notMatch(text, /\]\((?:\.\.\/|docs\/)?(?:evidence|site)\//, path)
    t.notMatch(text, /`docs\/(?:recipes\/)?[\w-]+\.md`/, path)
    for (const [, page = ''] of text.matchAll(/`(docs\/[\w-]+\/[\w-]+\.md)`/g)) named.add(page)
  }
  t.ok(named.size >= 5)
  t.same([...named].filter((page) => !pages.includes(page)), [])
})

t.test('cause and remedy of each finding have at most 80 words', async (t) => {
  const entries = [...(documents['docs/findings.md'] ?? '').matchAll(/^### (TOKEN_AUTH_[EW]\d\d)\n\n(.+)\n(?:\n|$)/gm)]
  t.ok(entries.length > 50)
  for (const [, code = '', text = ''] of entries) t.ok(text.split(' ').length <= 80, code)
})

t.test('every script that the documents name exists', async (t) => {
  const scripts: Record<string, string> = JSON.parse(read('package.json')).scripts
  for (const path of [...Object.keys(documents), 'CONTRIBUTING.md', 'development/chaos.md', 'development/documents.md', 'development/releasing.md', 'SECURITY.md', 'CHANGELOG.md']) {
    for (const [, script = ''] of read(path).matchAll(/npm run ([a-z:]+)/g)) t.ok(scripts[script], `${path} names npm run ${script}`)
  }
})

t.test('a page that names the specification says which one it is, by a link', async (t) => {
  const others = ['docs/specification.md', 'docs/evidence/tests.md'] // itself, and titles of tests
  const naming = [...Object.keys(documents), ...evidence].filter((path) => !others.includes(path) && /the \[?specification/i.test(read(path)))
  t.ok(naming.includes('docs/errors.md') && naming.includes('docs/evidence/security.md'))
  for (const path of naming) t.match(read(path), /\]\((?:\.\.\/|docs\/)?specification\.md/, path)
})

t.test('the examples of deployments and single-page apps keep cookies for as long as sessions', async (t) => {
  for (const path of ['docs/deployment.md', 'docs/recipes/single-page-app.md']) {
    const programs = programsIn(read(path), ['js', 'ts']).filter((program) => program.includes('cookieSet: true'))
    t.ok(programs.length > 0, path)
    for (const program of programs) t.match(program, /cookieMaxAge: 2_592_000/, path)
  }
})

t.test('no command of the documents overwrites a file of variables', async (t) => {
  const commands = Object.values(documents).flatMap((text) => [...text.matchAll(/^.* (?:>+|--output) ?\.env.*$/gm)].map(([line]) => line))
  t.ok(commands.length >= 3)
  // `keys --output` changes no file that exists.
  for (const command of commands) t.match(command, / >> \.env|^npx fastify-token-auth keys --output \.env$/)
})

t.test('every file of lib/ begins with what it is for, and CONTRIBUTING names every folder, in at most 10 KB', async (t) => {
  const text = read('CONTRIBUTING.md')
  t.ok(text.length <= 10_000, `${text.length} characters`)
  for (const entry of readdirSync(new URL('lib', root), { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) t.match(readFileSync(`${entry.parentPath}/${entry.name}`, 'utf8'), /^\/\*\*[ \n]/, entry.name)
    else t.match(text, `${entry.name}/`, entry.name)
  }
})

t.test('the documents name everything that the package exports', async (t) => {
  const text = Object.values(documents).join('\n')
  for (const name of Object.keys(library)) {
    if (name === 'default') continue
    t.match(text, new RegExp(`\\b${name}\\b`), name)
  }
})
