import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { InvalidConfiguration, type Payload, type TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, claims, exchange, forge, listen, login, now, otherSecret, secret, warnings } from '../helper.ts'

warnings(t, 'W05')

const thirdSecret = 'a third secret for tests, of more than sixty-four bytes: 0123456789 0123'

const later = async () => await new Promise((resolve) => setImmediate(resolve))

// Promise: specification/4-several-instances
// Promise: specification/tokens-shared-key
t.test('several instances on one context have their own settings, keys, users and routes', async (t) => {
  const app = await build(t, { authenticate: () => ({ user_id: 1 }) })
  await app.register(tokenAuth, {
    instanceName: 'staff', secret: otherSecret, userId: 'staff_id', urlPrefix: '/staff/auth', authenticate: () => ({ staff_id: 's1' })
  })
  await app.register(tokenAuth, { instanceName: 'partner', secret, urlPrefix: '/partner/auth', authenticate: () => ({ user_id: 'p1' }) })
  app.get('/customer', { preHandler: app.tokenAuth.protect() }, async (request) => ({ id: request.tokenAuth.userId }))
  app.get('/staff', { preHandler: app.staff.protect() }, async (request) => ({ id: request.staff.userId }))
  app.get('/partner', { preHandler: app.partner.protect() }, async (request) => ({ id: request.partner.userId }))
  app.get('/who', async ({ tokenAuth, staff, partner }) => [tokenAuth, staff, partner].map(({ userId }) => userId))
  const tokens: Record<string, string> = {}
  for (const [name, url] of Object.entries({ customer: '/auth', staff: '/staff/auth', partner: '/partner/auth' })) {
    tokens[name] = (await login(app, { url })).json().access_token
  }
  // A token is accepted by every instance with its secret, and by no other.
  const accepted: [url: string, from: string, id: unknown][] = [
    ['/customer', 'customer', 1], ['/customer', 'staff', undefined], ['/customer', 'partner', 'p1'],
    ['/staff', 'customer', undefined], ['/staff', 'staff', 's1'], ['/staff', 'partner', undefined],
    ['/partner', 'customer', 1], ['/partner', 'staff', undefined], ['/partner', 'partner', 'p1']
  ]
  for (const [url, from, id] of accepted) {
    const response = await app.inject({ url, headers: bearer(tokens[from] ?? '') })
    t.equal(response.statusCode, id === undefined ? 401 : 200, `${url} with a token of ${from}`)
    if (id !== undefined) t.same(response.json(), { id })
  }
  t.same((await app.inject({ url: '/who', headers: bearer(tokens.staff ?? '') })).json(), [null, 's1', null])
  t.same((await app.inject({ url: '/who', headers: bearer(tokens.partner ?? '') })).json(), ['p1', null, 'p1'])
})

// Promise: security/3-12-use
// Promise: specification/user-id
t.test('a token with the right secret and another user id claim is refused', async (t) => {
  const app = await build(t)
  await app.register(tokenAuth, { instanceName: 'staff', secret, userId: 'staff_id', authMode: false })
  for (const guard of [app.tokenAuth, app.staff]) app.get(`/${guard.settings.instanceName}`, { preHandler: guard.protect() }, async () => 'reached')
  const customer = bearer(forge({ user_id: 1, exp: now() + 60 }))
  const staff = bearer(forge({ staff_id: 1, exp: now() + 60 }))
  t.equal((await app.inject({ url: '/tokenAuth', headers: customer })).statusCode, 200)
  t.equal((await app.inject({ url: '/staff', headers: staff })).statusCode, 200)
  t.match((await app.inject({ url: '/tokenAuth', headers: staff })).json(), { exception: 'InvalidClaim' })
  t.match((await app.inject({ url: '/staff', headers: customer })).json(), { exception: 'InvalidClaim' })
})

t.test('one route may ask for the tokens of two instances', async (t) => {
  const app = await build(t)
  await app.register(tokenAuth, { instanceName: 'staff', secret: otherSecret, authMode: false, cookieSet: true })
  app.get('/', { preHandler: [app.tokenAuth.protect(), app.staff.protect()] }, async (request) => ({ user: request.tokenAuth.userId, staff: request.staff.userId }))
  const user = bearer(forge(claims({ user_id: 'u' })))
  const staff = { cookie: `access_token=${forge(claims({ user_id: 's' }), { key: otherSecret })}` }
  t.same((await app.inject({ url: '/', headers: { ...user, ...staff } })).json(), { user: 'u', staff: 's' })
  t.equal((await app.inject({ url: '/', headers: user })).json().exception, 'MissingAuthorizationCookie')
  t.equal((await app.inject({ url: '/', headers: staff })).json().exception, 'MissingAuthorizationHeader')
})

// Promise: specification/two-instances-context
t.test('an instance of a nested context shadows the outer one of its name there, and only there', async (t) => {
  const app = await build(t)
  const shown = (context: FastifyInstance, url: string) =>
    context.get(url, { onRequest: context.tokenAuth.protect() }, async (request) => ({ id: request.tokenAuth.userId, leeway: request.tokenAuth.settings.leeway }))
  shown(app, '/outer')
  await app.register(async (child) => {
    shown(child, '/inherited')
    await child.register(async (inner) => {
      await inner.register(tokenAuth, { secret: thirdSecret, leeway: 3, userId: 'id', authMode: false })
      t.not(inner.tokenAuth, app.tokenAuth)
      shown(inner, '/innermost')
    })
    shown(child, '/inherited-afterwards')
  })
  await app.register(async (child) => {
    await child.register(tokenAuth, { secret: otherSecret, leeway: 2, authMode: false })
    shown(child, '/nested')
  })
  const tokens = [forge(claims()), forge(claims(), { key: otherSecret }), forge({ id: 1, exp: now() + 60 }, { key: thirdSecret })]
  const routes: [url: string, accepted: number, leeway: number][] = [['/outer', 0, 180], ['/inherited', 0, 180], ['/inherited-afterwards', 0, 180], ['/nested', 1, 2], ['/innermost', 2, 3]]
  for (const [url, accepted, leeway] of routes) {
    for (const [index, token] of tokens.entries()) {
      const response = await app.inject({ url, headers: bearer(token) })
      t.equal(response.statusCode, index === accepted ? 200 : 401, `${url} with token ${index}`)
      if (index === accepted) t.same(response.json(), { id: 1, leeway })
    }
  }
})

// Promise: specification/two-instances-context
t.test('the same name twice on one context is refused', async (t) => {
  const app = await build(t)
  await t.rejects(async () => await app.register(tokenAuth, { secret, authMode: false }), InvalidConfiguration)
  const named = await build(t, { instanceName: 'staff' })
  await t.rejects(async () => await named.register(tokenAuth, { instanceName: 'staff', secret, authMode: false }), { name: 'InvalidConfiguration', message: /"staff"/ })
})

// Promise: security/cookie-cookie-mode
t.test('what one instance read of a request is nothing to another of the same secret with stricter settings', async (t) => {
  const app = await build(t, { leeway: 600 })
  await app.register(tokenAuth, { instanceName: 'staff', secret, authMode: false, claimAud: 'staff', leeway: 0 })
  app.addHook('onRequest', async (request) => { await request.tokenAuth.ready() })
  app.get('/', { preHandler: app.staff.protect() }, async () => 'reached')
  const cases: [claims: Record<string, unknown>, status: number][] = [[claims(), 401], [claims({ aud: 'staff' }), 200], [claims({ aud: 'staff', exp: now() - 60 }), 401]]
  for (const [payload, status] of cases) t.equal((await app.inject({ url: '/', headers: bearer(forge(payload)) })).statusCode, status)
})

// Promise: security/several-instances-nested
t.test('a laxer earlier read or guard does not weaken a stricter one that comes later', async (t) => {
  const app = await build(t, { cookieSet: true, cookieStrict: false, leeway: 600 })
  const { tokenAuth: auth } = app
  const read: unknown[] = []
  app.addHook('onRequest', async (request) => {
    // All of it is remembered under the settings of the registration.
    const { payload, userId, scopes } = request.tokenAuth
    read.push(payload, userId, scopes, app.tokenAuth.isAuthenticated(request))
  })
  const stricter = { cookie: auth.protect({ cookieStrict: true }), leeway: auth.protect({ leeway: 0 }), key: auth.protect({ secret: otherSecret }), issuer: auth.protect({ claimIss: 'us' }) }
  for (const [name, guard] of Object.entries(stricter)) {
    app.get(`/${name}`, { preHandler: [auth.protect(), guard] }, async (request) => ({ id: request.tokenAuth.userId }))
    app.get(`/open/${name}`, { preHandler: [auth.protect({ doProtection: false }), guard] }, async () => 'reached')
  }
  app.get('/lax', { onRequest: [auth.protect(), auth.protect({ leeway: 0 })], preHandler: auth.protect() }, async () => 'reached')
  const cases: Record<string, [bad: Record<string, string>, good: Record<string, string>]> = {
    cookie: [bearer(forge(claims())), { cookie: `access_token=${forge(claims())}` }],
    leeway: [bearer(forge(claims({ exp: now() - 60 }))), bearer(forge(claims()))],
    issuer: [bearer(forge(claims())), bearer(forge(claims({ iss: 'us' })))],
    key: [bearer(forge(claims())), {}],
    lax: [bearer(forge(claims({ exp: now() - 60 }))), bearer(forge(claims()))]
  }
  for (const [name, [bad, good]] of Object.entries(cases)) {
    t.equal((await app.inject({ url: `/${name}`, headers: bad })).statusCode, 401, name)
    if (name !== 'lax') t.equal((await app.inject({ url: `/open/${name}`, headers: bad })).statusCode, 401, `${name} after an open guard`)
    if (name !== 'key') t.equal((await app.inject({ url: `/${name}`, headers: good })).statusCode, 200, name)
  }
  // Two identities in one request: the cookie decided, so the cookie's user is the user.
  const two = { ...bearer(forge(claims({ user_id: 'header' }))), cookie: `access_token=${forge(claims({ user_id: 'cookie' }))}` }
  t.same((await app.inject({ url: '/cookie', headers: two })).json(), { id: 'cookie' })
})

// Promise: specification/request-tokenauth
t.test('a payload belongs to its request: what one does to it the next with the same token does not see', async (t) => {
  const deep = { list: [{ value: 1 }], nested: { role: 'user' } }
  const app = await build(t, {
    extraVerifications: [(payload) => payload.tampered === undefined],
    customClaims: [{
      key: 'deep',
      setup: () => deep,
      verify: (value) => {
        // A check that spoils what it is given, once it has been asked for the first time.
        const { nested } = Object(value)
        const isUntouched = nested.role === 'user'
        nested.role = 'changed by verify'
        return isUntouched
      }
    }]
  })
  const plain = await build(t)
  for (const instance of [app, plain]) {
    instance.get('/', { preHandler: instance.tokenAuth.scoped('a') }, async (request) => {
      const { payload, scopes } = request.tokenAuth
      const before = JSON.stringify({ ...payload, deep: instance === app ? undefined : payload?.deep, scopes })
      if (payload === null || scopes === null) return 'no payload'
      const given: Payload = payload
      Object.assign(given, { user_id: 'other', tampered: true, scopes: [] })
      Object.assign(Object(given.deep), { list: [], nested: { role: 'admin' } })
      scopes.push('admin')
      const same = request.tokenAuth.payload === payload && request.tokenAuth.userId === 1
      return { before, same, verified: instance.tokenAuth.verifyToken(request.tokenAuth.token ?? '').user_id }
    })
    const headers = bearer(forge(claims({ scopes: ['a'], deep, exp: 4_000_000_000 })))
    const first = (await instance.inject({ url: '/', headers })).json()
    t.match(first, { same: true, verified: 1 })
    for (let round = 0; round < 3; round++) t.same((await instance.inject({ url: '/', headers })).json(), first)
  }
})

interface Case { url: string, headers: Record<string, string>, query?: Record<string, string>, status: number, body: unknown }

/** An application with three instances, overrides, getters and users, whose answers say whom each request was taken for. */
async function crowd (t: Test): Promise<FastifyInstance> {
  const options: Partial<TokenAuthOptions> = {
    getClaimIss: (request) => String(request.headers.tenant),
    retrieveUser: async (request, { user_id: id }) => {
      await later()
      return { id, seen: request.headers.tag }
    }
  }
  const app = await build(t, options)
  await app.register(tokenAuth, { instanceName: 'staff', secret: otherSecret, userId: 'staff_id', cookieSet: true, authMode: false, customClaims: [{ key: 'desk', setup: () => 0, verify: Number.isInteger }] })
  await app.register(tokenAuth, { instanceName: 'partner', getSecret: async (request) => { await later(); return `${String(request.headers.tenant)} ${secret}` }, queryStringSet: true, authMode: false })
  app.get('/customer', { preHandler: app.tokenAuth.protect() }, async ({ tokenAuth: auth, headers: { tag } }) => {
    const { userId, payload } = auth
    await later()
    if (payload !== null) payload.tag = tag
    const user = await auth.user()
    return { userId, again: auth.userId, iss: auth.settings.claimIss, tag: auth.payload?.tag, user }
  })
  app.get('/inject', app.tokenAuth.injectUser(async (_request, _reply, user) => { await later(); return { user } }))
  app.get('/staff', { onRequest: app.staff.protect() }, async ({ staff }) => { await later(); return { id: staff.userId, desk: staff.payload?.desk } })
  app.get('/partner', { onRequest: app.partner.scoped(async (request) => { await later(); return `p:${String(request.headers.tag)}` }) }, async ({ partner }) => ({ id: partner.userId, scopes: partner.scopes }))
  app.get('/override', { preHandler: app.tokenAuth.protect({ secret: thirdSecret, claimIss: 'fixed', userId: 'sub' }) }, async ({ tokenAuth: auth }) => { await later(); return { id: auth.userId, iss: auth.settings.claimIss } })
  app.get('/both', { preHandler: [app.tokenAuth.protect(), app.staff.protect()] }, async ({ tokenAuth: auth, staff }) => { await later(); return { user: auth.userId, staff: staff.userId } })
  return app
}

/** What a request of the crowd sends and must get. */
function makeCase (index: number): Case {
  const tag = `tag-${index}`
  const tenant = `tenant-${index % 7}`
  const base = { tag, tenant }
  const isBad = index % 5 === 0
  // A bad request of one tenant is a good one of the next.
  const iss = isBad ? `tenant-${(index + 1) % 7}` : tenant
  const customer = bearer(forge(claims({ user_id: index, iss })))
  const staff = (key: string) => ({ cookie: `access_token=${forge({ staff_id: `s${index}`, desk: index, exp: now() + 60 }, { key })}` })
  const refusal = (exception: string) => ({ exception })
  const whenGood = (body: unknown, exception: string) => ({ status: isBad ? 401 : 200, body: isBad ? refusal(exception) : body })
  const user = { id: index, seen: tag }
  const kinds: (() => Case)[] = [
    () => ({ url: '/customer', headers: { ...base, ...customer }, ...whenGood({ userId: index, again: index, iss: tenant, tag, user }, 'InvalidClaim') }),
    () => ({ url: '/inject', headers: { ...base, ...customer }, ...whenGood({ user }, 'InvalidClaim') }),
    () => ({ url: '/inject', headers: base, status: 200, body: { user: null } }),
    () => ({ url: '/staff', headers: { ...base, ...staff(isBad ? secret : otherSecret) }, ...whenGood({ id: `s${index}`, desk: index }, 'InvalidToken') }),
    () => ({ url: '/staff', headers: base, status: 401, body: refusal('MissingAuthorizationCookie') }),
    () => {
      const token = forge(claims({ user_id: `p${index}`, scopes: [`p:${tag}`] }), { key: `${iss} ${secret}` })
      return { url: '/partner', headers: base, query: { access_token: token }, ...whenGood({ id: `p${index}`, scopes: [`p:${tag}`] }, 'InvalidToken') }
    },
    () => {
      const token = forge(claims({ user_id: `p${index}`, scopes: [`p:tag-${index + 1}`] }), { key: `${tenant} ${secret}` })
      return { url: '/partner', headers: base, query: { access_token: token }, status: 403, body: refusal('InsufficientScope') }
    },
    () => ({ url: '/override', headers: { ...base, ...bearer(forge({ sub: index, iss: isBad ? tenant : 'fixed', exp: now() + 60 }, { key: thirdSecret })) }, ...whenGood({ id: String(index), iss: 'fixed' }, 'InvalidClaim') }),
    () => ({ url: '/both', headers: { ...base, ...customer, ...staff(otherSecret) }, ...whenGood({ user: index, staff: `s${index}` }, 'InvalidClaim') })
  ]
  return kinds[index % kinds.length]!()
}

t.test('of 2,000 requests at once, through mixed instances, overrides, getters and users, each is taken for its own', async (t) => {
  const app = await crowd(t)
  const cases = Array.from({ length: 2000 }, (_, index) => makeCase(index))
  const wrong: unknown[] = []
  const counts = { accepted: 0, refused: 0 }
  await Promise.all(cases.map(async ({ url, headers, query, status, body }) => {
    const response = await app.inject({ url, headers, ...(query !== undefined && { query }) })
    const json: Record<string, unknown> = response.json()
    const isRight = response.statusCode === status &&
      (status === 200 ? JSON.stringify(json) === JSON.stringify(body) : json.exception === Reflect.get(Object(body), 'exception'))
    if (!isRight) wrong.push({ url, expected: body, status: response.statusCode, json })
    counts[status === 200 ? 'accepted' : 'refused']++
  }))
  t.same(wrong, [])
  t.ok(counts.accepted > 1000 && counts.refused > 500, JSON.stringify(counts))
})

t.test('on one connection a failure leaves nothing behind for the requests that follow', async (t) => {
  const app = await build(t, { getClaimIss: (request) => String(request.headers.tenant) })
  app.get('/', { preHandler: app.tokenAuth.protect() }, async ({ tokenAuth: auth }) => `<${String(auth.userId)} ${auth.settings.claimIss}>`)
  app.get('/open', async ({ tokenAuth: auth }) => `<${String(auth.userId)}>`)
  app.get('/error', { preHandler: app.tokenAuth.protect() }, async () => { throw new Error('broken') })
  const port = await listen(app)
  const good = (id: string) => forge(claims({ user_id: id, iss: 'a' }))
  const requests: [url: string, token: string | undefined, tenant: string, status: number, shown?: string][] = [
    ['/', good('ada'), 'a', 200, '<ada a>'],
    ['/', undefined, 'a', 401],
    ['/open', undefined, 'a', 200, '<null>'],
    ['/', 'bad', 'a', 401],
    ['/', good('bob'), 'a', 200, '<bob a>'],
    ['/', good('bob'), 'b', 401],
    ['/error', good('eve'), 'a', 500],
    ['/open', undefined, 'a', 200, '<null>'],
    ['/missing', good('eve'), 'a', 404],
    ['/', undefined, 'a', 401],
    ['/', good('ada'), 'a', 200, '<ada a>']
  ]
  const bytes = requests.map(([url, token, tenant], index) => [
    `GET ${url} HTTP/1.1`, 'Host: host', `Tenant: ${tenant}`, ...(token === undefined ? [] : [`Authorization: Bearer ${token}`]),
    `Connection: ${index === requests.length - 1 ? 'close' : 'keep-alive'}`, '', ''
  ].join('\r\n')).join('')
  const answers = (await exchange(port, bytes)).split(/(?=HTTP\/1\.1 )/)
  t.equal(answers.length, requests.length)
  for (const [index, [url, , , status, shown]] of requests.entries()) {
    const answer = answers[index] ?? ''
    t.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `), `${index} ${url}`)
    t.equal(/<.*>/.exec(answer)?.[0], shown, `${index} ${url}`)
  }
})
