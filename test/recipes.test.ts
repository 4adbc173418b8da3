/** docs/recipes: each recipe does what it promises. */
import { createHash, generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import cookie from '@fastify/cookie'
import cors from '@fastify/cors'
import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyRequest, FastifyServerOptions, InjectOptions, LightMyRequestResponse } from 'fastify'
import { createLocalJWKSet, createRemoteJWKSet, jwtVerify } from 'jose'
import t, { type Test } from 'tap'
import tokenAuth, { AuthenticationFailed, requestSerializer } from '../lib/index.ts'
import { bearer, forge, host, login, now, pairFor, payloadOf, secret, setClock } from './helper.ts'
import { jwk } from './keys/issuers.ts'
import { examplesOf } from './programs.ts'
import { refresh, started } from './sessions/helper.ts'

// It says on the console what a production needs, and which versions of Node.js it was tested with.
const said = { warn: console.warn, info: console.info }
Object.assign(console, { warn: () => {}, info: () => {} })
const { default: Provider } = await import('oidc-provider')
t.teardown(() => { Object.assign(console, said) })

const folder = new URL('../docs/recipes/', import.meta.url)
const names = readdirSync(folder)
const recipes = new Map(names.map((name) => [name, examplesOf(`recipes/${name}`)]))

/** The users of a service, who can change passwords and roles. */
function people () {
  const users = [
    { user_id: 1, username: 'ada', password: 'lovelace', role: 'editor' },
    { user_id: 2, username: 'grace', password: 'hopper', role: 'reader' },
    { user_id: 3, username: 'joan', password: 'clarke', role: 'admin' }
  ]
  const find = (id: unknown) => users.find((user) => user.user_id === id)
  return {
    users,
    authenticate: ({ body }: FastifyRequest) => {
      const { username, password } = Object(body)
      const user = users.find((candidate) => typeof username === 'string' && candidate.username === username.toLowerCase() && candidate.password === password)
      if (user === undefined) throw new AuthenticationFailed('Wrong name or password.')
      return user
    },
    retrieveUser: (_request: unknown, payload: { user_id: unknown }) => find(payload.user_id),
    isPassword: async (id: unknown, password: unknown) => find(id)?.password === password,
    setPassword: async (id: unknown, password: string) => { Object.assign(find(id) ?? {}, { password }) },
    setRole: async (id: unknown, role: string) => { Object.assign(find(id) ?? {}, { role }) }
  }
}

/** Runs an example of a recipe, and returns its application. */
async function cook (t: Test, name: string, text: string, more: object = {}): Promise<FastifyInstance> {
  const recipe = recipes.get(name)
  if (recipe === undefined) throw new Error(`There is no recipe ${name}.`)
  // An example that makes its application needs none.
  const Fastify = (options: FastifyServerOptions) => host(t, options)
  const names = { Fastify, tokenAuth, AuthenticationFailed, requestSerializer, secret, handler: async () => 'reached', ...people(), ...more }
  return await recipe.run(text, { app: host(t), ...names }, 'app')
}

const send = async (app: FastifyInstance, method: 'GET' | 'POST' | 'PUT', url: string, request: InjectOptions = {}) => await app.inject({ method, url, ...request })

/** The cookies of a response, to send them with the next request. */
const cookiesOf = (response: LightMyRequestResponse) => Object.fromEntries(response.cookies.map(({ name, value }) => [name, value]))

t.test('the page lists every recipe, and each recipe begins with code', async (t) => {
  const index = readFileSync(new URL('../recipes.md', folder), 'utf8')
  t.same([...index.matchAll(/\]\(recipes\/([^)]+)\)/g)].map(([, name]) => name).sort(), [...names].sort())
  for (const name of names) t.match(readFileSync(new URL(name, folder), 'utf8'), /^# .+\n\n[^\n#|-].*\n\n```js\n/, name)
})

t.test('a new password ends all other sessions, and the old password is needed for it', async (t) => {
  const app = await cook(t, 'log-out-everywhere.md', "app.post('/password',")
  const [own, other, stranger] = [await started(app), await started(app), await started(app, 'grace', 'hopper')]
  const change = async (payload: object) => await send(app, 'POST', '/password', { headers: bearer(own.access_token), payload })
  const me = async (token: string) => (await send(app, 'GET', '/auth/me', { headers: bearer(token) })).statusCode

  t.equal((await send(app, 'POST', '/password', { payload: { current: 'lovelace', next: 'analytical engine' } })).statusCode, 401)
  t.equal((await change({ current: 'hopper', next: 'analytical engine' })).statusCode, 403)
  t.equal((await change({ current: 'lovelace', next: 'engine' })).statusCode, 400)
  t.equal(await me(other.access_token), 200, 'nothing has ended so far')

  t.same((await change({ current: 'lovelace', next: 'analytical engine' })).json(), { ended: 1 })
  t.same([await me(own.access_token), await me(other.access_token), await me(stranger.access_token)], [200, 401, 200])
  t.equal((await refresh(app, other.refresh_token)).statusCode, 401)
  t.equal((await refresh(app, own.refresh_token)).statusCode, 200)
  t.equal((await login(app)).statusCode, 401)
  t.equal((await login(app, { password: 'analytical engine' })).statusCode, 200)
})

t.test('a forgotten password that is replaced ends all sessions, and its code works once', async (t) => {
  const codes = new Map([['from the mail', 1]])
  const redeemResetCode = async (code: string) => {
    const userId = codes.get(code)
    codes.delete(code)
    return userId
  }
  const app = await cook(t, 'log-out-everywhere.md', '/password/reset', { redeemResetCode })
  const sessions = [await started(app), await started(app)]
  const reset = async (code: string) => (await send(app, 'POST', '/password/reset', { payload: { code, next: 'analytical engine' } })).statusCode
  t.equal(await reset('guessed'), 403)
  t.equal(await reset('from the mail'), 204)
  t.equal(await reset('from the mail'), 403)
  for (const { refresh_token: token } of sessions) t.equal((await refresh(app, token)).statusCode, 401)
  t.equal((await login(app, { password: 'analytical engine' })).statusCode, 200)
})

t.test('roles give scopes; a role that is taken away counts at once, and a new one after a refresh', async (t) => {
  const { users, ...handlers } = people()
  const app = await cook(t, 'roles.md', 'const roles', handlers)
  const tokens = await Promise.all(users.map(({ username, password }) => started(app, username, password)))
  const [editor, reader, admin] = tokens.map(({ access_token: token }) => ({ headers: bearer(token) }))
  const statuses = async (request: InjectOptions = {}) => [(await send(app, 'GET', '/reports', request)).statusCode, (await send(app, 'POST', '/reports', request)).statusCode]
  t.same([await statuses(), await statuses(reader), await statuses(editor), await statuses(admin)], [[401, 401], [200, 403], [200, 200], [200, 200]])

  const change = async (request: InjectOptions | undefined, role: string) => (await send(app, 'PUT', '/users/1/role', { ...request, payload: { role } })).statusCode
  t.equal(await change(editor, 'admin'), 403)
  t.equal(await change(admin, 'constructor'), 400)
  t.equal(await change(admin, 'reader'), 204)
  t.same(await statuses(editor), [401, 401])
  t.same(await statuses({ headers: bearer((await started(app)).access_token) }), [200, 403])

  await handlers.setRole(2, 'editor')
  const renewed = (await refresh(app, tokens[1]?.refresh_token)).json()
  t.same(await statuses({ headers: bearer(renewed.access_token) }), [200, 200])
  await handlers.setRole(2, 'constructor')
  t.same(await statuses({ headers: bearer((await started(app, 'grace', 'hopper')).access_token) }), [403, 403], 'an unknown role gives no scopes')
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
  // Pages of Chromium run these in test/client-page.test.ts.
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

t.test('login attempts are limited by name and by address, whatever is sent as a name; refreshes by address only', async (t) => {
  const app = await cook(t, 'rate-limits.md', 'byAddress', { rateLimit })
  const from = (remoteAddress: string) => async (payload: object, url = '/auth') => await app.inject({ method: 'POST', url, payload, remoteAddress })
  const [first, second] = [from('192.0.2.1'), from('192.0.2.2')]
  const { refresh_token: token } = (await first({ username: 'ada', password: 'lovelace' })).json()
  for (const username of ['ada', 'Ada', 'ADA', 'ada']) t.equal((await first({ username, password: 'wrong' })).statusCode, 401)
  const refused = await second({ username: 'ada', password: 'lovelace' })
  t.equal(refused.statusCode, 429, 'from every address')
  t.ok(Number(refused.headers['retry-after']) > 60)
  t.equal((await second({ username: 'grace', password: 'hopper' })).statusCode, 200)
  t.equal((await first({ refresh_token: token }, '/auth/refresh')).statusCode, 200)
  for (const username of [undefined, null, 1, {}, { toString: 1 }]) t.equal((await second({ username })).statusCode, 401)

  const third = from('192.0.2.3')
  for (let attempt = 0; attempt < 20; attempt++) t.equal((await third({ username: `user ${attempt}` }, attempt % 2 === 0 ? '/auth' : '/auth/')).statusCode, 401)
  t.equal((await third({ username: 'grace', password: 'hopper' })).statusCode, 429)
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
  setTime(start + 301)
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

t.test('every example of the recipes was run', async (t) => {
  for (const [name, { left }] of recipes) t.same([...left], [], name)
})
