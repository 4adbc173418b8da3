import assert from 'node:assert/strict'
import fastifyAuth from '@fastify/auth'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler, preHandlerHookHandler, preParsingHookHandler, RouteOptions, RouteShorthandOptions } from 'fastify'
import { once } from 'node:events'
import { connect } from 'node:net'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import tokenAuth, {
  HandlerFailed, InitializationFailure, injectUser, InvalidConfiguration, protect, Responses, scoped, TokenAuthError,
  type Guard, type GuardOptions, type TokenAuthOptions
} from '../../lib/index.ts'
import { routeSettings } from '../../lib/settings/schema.ts'
import { bearer, build, caseOf, claims, exchange, forge, host, keysFor, listen, mistyped, now, otherSecret, secret, warnings } from '../helper.ts'

warnings(t, 'W03', 'W05')

const valid = () => forge(claims({ scopes: ['a'] }))

/** Every way to make a guard that the token of `valid` satisfies. */
const makers: Record<string, (app: FastifyInstance, options?: GuardOptions) => Guard> = {
  'protect of an instance': (app, options) => app.tokenAuth.protect(options),
  'scoped of an instance': (app, options) => app.tokenAuth.scoped('a', options),
  'scoped of an instance with a function': (app, options) => app.tokenAuth.scoped(async () => 'a', options),
  'free-standing protect': (_app, options) => protect(options),
  'free-standing scoped': (_app, options) => scoped('a', options)
}
const hooks = ['onRequest', 'preHandler'] as const

/** Adds a route and says how often its handler ran. */
function counted (app: FastifyInstance, options: RouteShorthandOptions, url = '/') {
  const route = { calls: 0 }
  app.all(url, options, async () => {
    route.calls++
    return { reached: true }
  })
  return route
}

/** A host that renders all errors itself. */
async function renderErrors (error: FastifyError, _request: FastifyRequest, reply: FastifyReply) {
  return reply.code(error.statusCode ?? 500).send('rendered by the host')
}

/** Adds a route for every way to make a guard. */
function addAll (app: FastifyInstance, overrides: GuardOptions = {}, hook: typeof hooks[number] = 'preHandler') {
  return Object.entries(makers).map(([form, make], index) => {
    const url = `/${hook}/${index}`
    // A guard is seldom the last hook of a route.
    return { form, url, route: counted(app, { [hook]: [make(app, overrides), async () => {}] }, url) }
  })
}

// Promise: specification/2-protected-routes
// Promise: specification/invalidauthorizationheader-2
// Promise: specification/invalidtoken-2
// Promise: specification/missingauthorizationheader-2
// Promise: specification/protect-2
// Promise: specification/protected-route-responds
// Promise: specification/scoped-2
t.test('a guarded route is reached with a valid token and with nothing else, whatever guard in whatever hook', async (t) => {
  const cases: [what: string, headers: Record<string, string>, exception: string][] = [
    ['no token', {}, 'MissingAuthorizationHeader'],
    ['an empty header', { authorization: '' }, 'MissingAuthorizationHeader'],
    ['another scheme', { authorization: 'Basic YTpi' }, 'InvalidAuthorizationHeader'],
    ['garbage', bearer('garbage'), 'InvalidToken'],
    ['another secret', bearer(forge(claims({ scopes: ['a'] }), { key: otherSecret })), 'InvalidToken'],
    ['an expired token', bearer(forge(claims({ exp: now() - 3600, scopes: ['a'] }))), 'TokenExpired']
  ]
  for (const [name, make] of Object.entries(makers)) {
    for (const hook of hooks) {
      await t.test(`${name} in ${hook}`, async (t) => {
        const app = await build(t)
        const route = counted(app, { [hook]: make(app) })
        for (const [what, headers, exception] of cases) {
          const response = await app.inject({ url: '/', headers })
          assert.equal(response.statusCode, 401, what)
          assert.equal(response.json().exception, exception, what)
          assert.match(String(response.headers['www-authenticate']), /^Bearer realm="/, what)
        }
        t.equal(route.calls, 0)
        t.same((await app.inject({ url: '/', headers: bearer(valid()) })).json(), { reached: true })
        t.equal(route.calls, 1)
      })
    }
  }
})

// Promise: security/head-options-trace
// Promise: specification/every-method-guarded
t.test('every method of a guarded route is guarded, HEAD, OPTIONS and TRACE as well', async (t) => {
  const app = await build(t)
  const all = counted(app, { onRequest: app.tokenAuth.protect() })
  app.get('/get', { preHandler: app.tokenAuth.scoped('a') }, async () => 'reached')
  app.options('/options', { preHandler: app.tokenAuth.protect() }, async () => 'reached')
  t.ok(['HEAD', 'OPTIONS', 'TRACE'].every((method) => app.supportedMethods.includes(method)))
  const requests: [method: string, url: string][] = app.supportedMethods.map((method) => [method, '/'])
  for (const [method, url] of [...requests, ['HEAD', '/get'], ['GET', '/get'], ['OPTIONS', '/options']] as const) {
    // QUERY is refused without a type of content.
    const request = { method: method as 'GET', url, ...(method === 'QUERY' && { payload: {} }) }
    assert.equal((await app.inject(request)).statusCode, 401, `${method} ${url} without a token`)
    assert.equal((await app.inject({ ...request, headers: bearer(valid()) })).statusCode, 200, `${method} ${url} with one`)
  }
  t.equal(all.calls, app.supportedMethods.length)
})

// Promise: security/head-options-trace
t.test('no spelling of a path leads around a guard', async (t) => {
  for (const routerOptions of [{}, { ignoreTrailingSlash: true, ignoreDuplicateSlashes: true, caseSensitive: false, useSemicolonDelimiter: true }]) {
    const app = await build(t, {}, { routerOptions })
    const route = counted(app, { onRequest: app.tokenAuth.protect() }, '/admin/:page')
    app.get('/*', async () => 'public')
    const port = await listen(app)
    const targets = [
      '/admin/x', '/%61dmin/x', '/%61%64%6d%69%6e/%78', 'http://host/admin/x', 'http://admin/admin/x', '//admin/x', '/admin//x', '/admin/x/', '/ADMIN/x',
      '/admin/./x', '/./admin/x', '/public/../admin/x', '/admin/x;y=1', '/admin;y/x', '/admin/x?', '/admin/x?access_token=a', '/admin/x#', '/admin%2fx',
      '/admin/%2e%2e/x', '/admin/x%00', '/admin/%', '/admin\\x'
    ]
    for (const target of targets) {
      const answer = await exchange(port, `GET ${target} HTTP/1.1\r\nHost: host\r\nConnection: close\r\n\r\n`)
      assert.match(answer, /^HTTP\/1\.1 (?:200 OK[^]*public$|40[0-9])/, target)
    }
    assert.equal(route.calls, 0, caseOf(routerOptions))
    assert.match(await exchange(port, 'GET http://host/%61dmin/x HTTP/1.1\r\nHost: host\r\nConnection: close\r\n\r\n'), /^HTTP\/1\.1 401/, caseOf(routerOptions))
    await exchange(port, `GET /%61dmin/x HTTP/1.1\r\nHost: host\r\nConnection: close\r\nAuthorization: Bearer ${valid()}\r\n\r\n`)
    assert.equal(route.calls, 1, 'the same path is reached with a token')
  }
})

// Promise: security/large-uploads-without
t.test('of a refused upload nothing is parsed in onRequest, and the answer does not wait for it', async (t) => {
  const app = await build(t)
  let parsed = 0
  app.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, async () => { parsed++ })
  const early = counted(app, { onRequest: app.tokenAuth.protect(), bodyLimit: 2 ** 30 }, '/early')
  const late = counted(app, { preHandler: app.tokenAuth.protect() }, '/late')
  const port = await listen(app)

  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  // A gigabyte is announced, a kilobyte is sent: whoever waits for the body waits forever.
  socket.write(`POST /early HTTP/1.1\r\nHost: host\r\nContent-Type: application/octet-stream\r\nContent-Length: ${2 ** 30}\r\n\r\n${'x'.repeat(1024)}`)
  const [answer]: unknown[] = await once(socket, 'data')
  t.match(String(answer), /^HTTP\/1\.1 401/)
  t.equal(parsed, 0)

  const upload = { method: 'POST', headers: { 'content-type': 'application/octet-stream' }, payload: Buffer.alloc(1024) } as const
  t.equal((await app.inject({ ...upload, url: '/early' })).statusCode, 401)
  t.equal(parsed, 0)
  t.equal((await app.inject({ ...upload, url: '/late' })).statusCode, 401)
  t.equal(parsed, 1, 'in preHandler the body is there already')
  t.same([early.calls, late.calls], [0, 0])
})

// Promise: specification/free-standing-members
// Promise: specification/protect-scoped-injectuser
t.test('free-standing guards belong to the nearest instance of the route, or to the one that is named', async (t) => {
  const app = await build(t)
  await app.register(tokenAuth, { instanceName: 'staff', secret: otherSecret, authMode: false })
  const foreign = { headers: bearer(forge(claims({ scopes: ['a'] }), { key: otherSecret })) }
  const own = { headers: bearer(valid()) }
  let child: FastifyInstance = app
  await app.register(async (context) => {
    await context.register(tokenAuth, { secret: otherSecret, authMode: false })
    child = context
    counted(context, { preHandler: protect() }, '/nearest')
    counted(context, { preHandler: scoped('a', { on: app }) }, '/on')
    context.get('/inject-on', injectUser(async (_request, _reply, user) => ({ user }), { on: app }))
  })
  counted(app, { preHandler: protect({ on: child }) }, '/on-child')
  counted(app, { preHandler: protect({ instanceName: 'staff' }) }, '/name')
  const shared = protect()
  counted(app, { preHandler: shared }, '/shared')
  await app.register(async (context) => {
    await context.register(tokenAuth, { secret: otherSecret, authMode: false })
    counted(context, { preHandler: shared }, '/shared-nested')
  })
  const cases: [url: string, own: number, foreign: number][] = [
    ['/nearest', 401, 200], ['/on', 200, 401], ['/inject-on', 200, 401], ['/on-child', 401, 200], ['/name', 401, 200], ['/shared', 200, 401],
    ['/shared-nested', 401, 200]
  ]
  for (const [url, ownStatus, foreignStatus] of cases) {
    assert.equal((await app.inject({ url, ...own })).statusCode, ownStatus, `${url} with a token of the outer instance`)
    assert.equal((await app.inject({ url, ...foreign })).statusCode, foreignStatus, `${url} with a token of the other`)
  }
})

// Promise: specification/blueprint-named
// Promise: specification/initializationfailure-2
t.test('a free-standing guard without an instance is a 500 and never an open route', async (t) => {
  const app = host(t)
  app.setErrorHandler(async () => 'the host has nothing to do with it')
  const reached: string[] = []
  const handler = async (request: FastifyRequest) => { reached.push(request.url) }
  for (const hook of hooks) {
    app.get(`/${hook}/protect`, { [hook]: protect() }, handler)
    app.get(`/${hook}/scoped`, { [hook]: scoped('a') }, handler)
    app.get(`/${hook}/on`, { [hook]: protect({ on: app }) }, handler)
    app.get(`/${hook}/name`, { [hook]: protect({ instanceName: 'staff' }) }, handler)
  }
  app.get('/injectUser', injectUser(handler))
  const guard = protect()
  const rejections: unknown[] = []
  app.get('/promise', { preHandler: (request, reply) => guard(request, reply).catch((error: unknown) => { rejections.push(error) }) }, handler)
  // A decorator of the same name is not an instance.
  Reflect.set(app, 'partner', { protect: () => {} })
  app.get('/impostor', { preHandler: protect({ instanceName: 'partner' }) }, handler)
  await app.ready()
  const urls = hooks.flatMap((hook) => ['protect', 'scoped', 'on', 'name'].map((name) => `/${hook}/${name}`))
  for (const url of [...urls, '/injectUser', '/promise', '/impostor']) {
    const response = await app.inject({ url, headers: bearer(valid()) })
    assert.equal(response.statusCode, 500, url)
    assert.match(String(response.headers['content-type']), /^application\/json/, url)
    const { reasons, ...rest } = response.json()
    assert.match(reasons, /is registered for this route/, url)
    assert.deepEqual(rest, { exception: 'InitializationFailure' }, url)
  }
  t.same(reached, [])
  t.ok(rejections.length === 1 && rejections[0] instanceof InitializationFailure)
})

t.test('a guard that is made for each request, and never called, opens nothing', async (t) => {
  const app = await build(t)
  const { protect: unbound, scoped: unboundScoped } = app.tokenAuth
  const routes = [protect, scoped, unbound, unboundScoped].map((maker, index) => {
    const hook: Guard = mistyped((...parameters: Parameters<typeof protect>) => mistyped<typeof protect>(maker)(...parameters))
    return counted(app, { preHandler: hook }, `/${index}`)
  })
  for (const [index, route] of routes.entries()) {
    assert.equal((await app.inject({ url: `/${index}`, headers: bearer(valid()) })).statusCode, 500, caseOf(index))
    assert.equal(route.calls, 0, caseOf(index))
  }
})

// Promise: specification/protect-overrides
t.test('wrong overrides are refused by name when the guard is made', async (t) => {
  const app = await build(t)
  const handler = async () => {}
  const forms: Record<string, (options: GuardOptions) => unknown> = {
    'protect of an instance': (options) => app.tokenAuth.protect(options),
    'scoped of an instance': (options) => app.tokenAuth.scoped('a', options),
    'injectUser of an instance': (options) => app.tokenAuth.injectUser(handler, options),
    'free-standing protect': (options) => protect(options),
    'free-standing scoped': (options) => scoped('a', options),
    'free-standing injectUser': (options) => injectUser(handler, options)
  }
  const wrong: [options: Record<string, unknown>, message: RegExp][] = [
    [{ leewy: 60 }, /"leewy".*"leeway"/],
    [{ leeway: '60' }, /"leeway".*"60"/],
    [{ leeway: -1 }, /"leeway".*-1/],
    [{ algorithm: 'none' }, /"algorithm".*none/],
    [{ cookieSet: 'true' }, /"cookieSet"/],
    [{ claimIss: '' }, /"claimIss"/],
    [{ secret: 5 }, /"secret".*a number/],
    [{ loginRedirectUrl: '//evil.example' }, /"loginRedirectUrl"/],
    [{ getLeeway: () => 1 }, /"getLeeway"/],
    [{ setLeeway: 1 }, /"setLeeway"/],
    [{ retrieveUser: () => null }, /"retrieveUser"/],
    [{ redirectOnFail: 'yes' }, /"redirectOnFail"/],
    ...routeSettings.map((name): [Record<string, unknown>, RegExp] => [{ [name]: name.startsWith('path') ? '/x' : true }, new RegExp(`"${name}"`)]),
    ...['//host', '/\\host', 'javascript:alert(1)', 'login', '', ' /x', '/\t/host', 'ftp://host/', 'http:host', 'data:,x', '/a\r\nb', 5, null]
      .map((redirectUrl): [Record<string, unknown>, RegExp] => [{ redirectOnFail: true, redirectUrl }, /"redirectUrl"/])
  ]
  for (const [form, make] of Object.entries(forms)) {
    for (const [options, message] of wrong) {
      t.throws(() => make(options as GuardOptions), { name: 'InvalidConfiguration', message }, `${form} ${JSON.stringify(options)}`)
    }
  }
  t.throws(() => app.tokenAuth.protect({ instanceName: 'other' } as GuardOptions), { name: 'InvalidConfiguration', message: /"instanceName"/ })
  for (const on of [null, 'app', 5]) t.throws(() => protect({ on } as GuardOptions), { name: 'InvalidConfiguration', message: /"on"/ })
  for (const flag of ['requireAll', 'requireAllActions']) {
    const options = { [flag]: 'no' } as GuardOptions
    t.throws(() => app.tokenAuth.scoped('a', options), { name: 'InvalidConfiguration', message: new RegExp(`"${flag}"`) })
    t.throws(() => scoped('a', options), { name: 'InvalidConfiguration', message: new RegExp(`"${flag}"`) })
  }
})

t.test('overrides that only the settings of the instance show to be wrong are refused, at the latest instead of opening the route', async (t) => {
  const wrong: Record<string, GuardOptions> = {
    'an empty secret': { secret: '' },
    'a public key as a secret': { secret: '-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----' },
    'an algorithm without its key': { algorithm: 'RS256' },
    'a user id that is a registered claim': { userId: 'exp' },
    'the same name for two claims': { userId: 'scopes' }
  }
  for (const [what, options] of Object.entries(wrong)) {
    const app = await build(t)
    t.throws(() => app.tokenAuth.protect(options), InvalidConfiguration, what)
    const route = counted(app, { onRequest: protect(options) })
    const rejections: unknown[] = []
    app.get('/promise', { preHandler: async (request, reply) => { await protect(options)(request, reply) } }, async () => { rejections.push('reached') })
    for (const url of ['/', '/', '/promise']) {
      const response = await app.inject({ url, headers: bearer(valid()) })
      assert.equal(response.statusCode, 500, `${what}, free-standing`)
      t.notMatch(response.body, 'AAAA')
    }
    assert.equal(route.calls + rejections.length, 0, what)
  }
})

// Promise: specification/4-overrides-protect
// Promise: specification/protect-overrides
t.test('overrides hold for their route only, as they were when the guard was made', async (t) => {
  const app = await build(t)
  const token = forge(claims({ exp: now() - 10 }))
  const cases: Record<string, [options: GuardOptions, request: { headers?: Record<string, string>, query?: Record<string, string> }]> = {
    '/cookie': [{ cookieSet: true }, { headers: { cookie: `access_token=${token}` } }],
    '/query': [{ queryStringSet: true }, { query: { access_token: token } }],
    '/secret': [{ secret: otherSecret }, { headers: bearer(forge(claims(), { key: otherSecret })) }],
    '/prefix': [{ authorizationHeaderPrefix: 'Token' }, { headers: { authorization: `Token ${token}` } }],
    '/header': [{ authorizationHeader: 'X-Token' }, { headers: { 'x-token': `Bearer ${token}` } }],
    '/user': [{ userId: 'sub' }, { headers: bearer(forge({ sub: 'u', exp: now() + 60 })) }],
    '/default': [{}, { headers: bearer(token) }],
    '/undefined': [{ cookieSet: undefined, redirectOnFail: undefined }, { headers: bearer(token) }]
  }
  for (const [url, [options]] of Object.entries(cases)) {
    counted(app, { preHandler: app.tokenAuth.protect(options) }, url)
    counted(app, { preHandler: protect(options) }, `/free${url}`)
    options.secret = 'changed afterwards, which must change nothing'
  }
  counted(app, { preHandler: app.tokenAuth.protect({ leeway: 0 }) }, '/leeway')
  const defaults = new Set(['/default', '/undefined'])
  for (const [url] of Object.entries(cases)) {
    for (const [from, [, request]] of Object.entries(cases)) {
      const fits = url === from || (defaults.has(url) && defaults.has(from))
      for (const spelled of [url, `/free${url}`]) {
        assert.equal((await app.inject({ url: spelled, ...request })).statusCode, fits ? 200 : 401, `${spelled} with the token of ${from}`)
      }
    }
  }
  t.equal((await app.inject({ url: '/leeway', headers: bearer(token) })).json().exception, 'TokenExpired')
})

t.test('a token from the query string is answered with Cache-Control: no-store, others are left alone', async (t) => {
  const app = await build(t, { queryStringSet: true, queryStringStrict: false })
  counted(app, { preHandler: app.tokenAuth.protect() })
  counted(app, { preHandler: app.tokenAuth.scoped(() => 'a') }, '/scoped')
  app.get('/inject', app.tokenAuth.injectUser(async (_request, _reply, user) => ({ user })))
  app.get('/promise', async (request, reply) => {
    await app.tokenAuth.protect()(request, reply)
    return {}
  })
  for (const url of ['/', '/scoped', '/inject', '/promise']) {
    assert.equal((await app.inject({ url, query: { access_token: valid() } })).headers['cache-control'], 'no-store', url)
    assert.equal((await app.inject({ url, headers: bearer(valid()) })).headers['cache-control'], undefined, url)
  }
})

t.test('called without done, a guard is a promise: resolved when the request may pass, rejected after it was answered', async (t) => {
  class Failing extends Responses {
    override exceptionResponse (): never { throw new Error('no rendering today') }
  }
  const cases: Record<string, [options: Partial<TokenAuthOptions>, status: number, rejection: RegExp]> = {
    'a synchronous decision': [{}, 401, /^MissingAuthorizationHeader$/],
    'an asynchronous decision': [{ getSecret: async () => secret }, 401, /^MissingAuthorizationHeader$/],
    'a refusal that goes on as an error': [{ onRefusal: 'throw' }, 401, /^MissingAuthorizationHeader$/],
    'a rendering that fails': [{ responsesClass: Failing }, 500, /^Error$/],
    'a getter that fails': [{ getCookieSet: () => { throw new Error('secret detail') } }, 500, /^HandlerFailed$/]
  }
  for (const [what, [options, status, rejection]] of Object.entries(cases)) {
    await t.test(what, async (t) => {
      for (const [form, make] of Object.entries(makers)) {
        const app = await build(t, options)
        app.setErrorHandler(renderErrors)
        const guard = make(app)
        const seen: { error?: unknown, sent?: boolean, reached?: boolean } = {}
        const wait = async (request: FastifyRequest, reply: FastifyReply) => {
          try {
            await guard(request, reply)
          } catch (error) {
            Object.assign(seen, { error, sent: reply.sent })
            throw error
          }
        }
        const reach = async () => {
          seen.reached = true
          return {}
        }
        app.get('/in-hook', { preHandler: wait }, reach)
        app.get('/in-handler', async (request, reply) => {
          await wait(request, reply)
          return await reach()
        })
        for (const url of ['/in-hook', '/in-handler']) {
          const response = await app.inject(url)
          assert.equal(response.statusCode, status, `${form} ${url}`)
          t.match(seen.error instanceof Error && seen.error.name, rejection)
          const answered = status === 401 && options.onRefusal !== 'throw'
          assert.equal(seen.sent, answered, 'answered before it is rejected')
          assert.equal(seen.reached, undefined, caseOf(form, url))
          if (answered) t.match(response.json(), { exception: 'MissingAuthorizationHeader' })
          if (what === 'a getter that fails') continue
          assert.equal((await app.inject({ url, headers: bearer(valid()) })).statusCode, 200, caseOf(form, url))
          assert.equal(seen.reached, true, caseOf(form, url))
          delete seen.reached
        }
      }
    })
  }
})

t.test('called with done, a guard calls it once where the request may pass, and not at all where it answers', async (t) => {
  for (const options of [{}, { getSecret: async () => secret }]) {
    for (const [form, make] of Object.entries(makers)) {
      const app = await build(t, options)
      const guard = make(app)
      const calls: unknown[] = []
      const spy: preHandlerHookHandler = (request, reply, done) => guard(request, reply, (error) => {
        calls.push(error)
        done(error)
      })
      app.get('/', { preHandler: spy }, async () => 'reached')
      assert.equal((await app.inject('/')).statusCode, 401, form)
      assert.deepEqual(calls, [], form)
      assert.equal((await app.inject({ url: '/', headers: bearer(valid()) })).body, 'reached', form)
      assert.deepEqual(calls, [undefined], form)
    }
  }
})

// Promise: security/exceptionresponse-throws-rejects
t.test('no handler runs after a refusal, however it is rendered', async (t) => {
  const later = async () => await new Promise((resolve) => setImmediate(resolve))
  const renderings: Record<string, [render: (reply: FastifyReply) => unknown, status: number]> = {
    'a body at once': [() => ({ no: true }), 401],
    'a promised body': [async () => ({ no: true }), 401],
    'a body that takes its time': [async () => { await later() }, 401],
    'nothing at all': [() => undefined, 401],
    'no body': [() => null, 401],
    'a status that says all is well': [(reply) => { reply.code(200); return 'fine' }, 200],
    'sent by itself': [(reply) => reply.send('own'), 401],
    'sent by itself, after a while': [async (reply) => { await later(); return reply.send('own') }, 401],
    'sent without returning it': [(reply) => { reply.send('own') }, 401],
    'a throw': [() => { throw new Error('broken') }, 500],
    'a rejection': [async () => { await later(); throw new Error('broken') }, 500],
    'a throw of its own status': [() => { throw Object.assign(new Error('teapot'), { statusCode: 418 }) }, 418]
  }
  // To Fastify none of these is an error: passed on as they are, they would open the route.
  for (const nothing of [undefined, null, false, 0, '', NaN]) {
    renderings[`a throw of ${JSON.stringify(nothing)}`] = [() => { throw mistyped(nothing) }, 500]
    renderings[`a rejection with ${JSON.stringify(nothing)}`] = [() => Promise.reject(mistyped(nothing)), 500]
  }
  for (const [what, [render, status]] of Object.entries(renderings)) {
    class Custom extends Responses {
      override exceptionResponse (_request: FastifyRequest, _exception: TokenAuthError, reply: FastifyReply) { return render(reply) }
    }
    for (const options of [{}, { getSecret: async () => secret }]) {
      const app = await build(t, { responsesClass: Custom, ...options })
      app.setErrorHandler(renderErrors)
      for (const { url, route } of hooks.flatMap((hook) => addAll(app, {}, hook))) {
        assert.equal((await app.inject({ url, headers: bearer('bad') })).statusCode, status, `${what} ${url}`)
        assert.equal(route.calls, 0, caseOf(what, options, url))
      }
    }
  }
})

// Promise: specification/login-redirect-url
// Promise: specification/static-pages
t.test('redirectOnFail redirects who is not authenticated, and nobody else', async (t) => {
  const targets: [options: GuardOptions, location: string][] = [
    [{ redirectOnFail: true }, '/login.html'],
    [{ redirectOnFail: true, redirectUrl: '/own' }, '/own'],
    [{ redirectOnFail: true, redirectUrl: 'https://id.example/login?from=us' }, 'https://id.example/login?from=us'],
    [{ redirectOnFail: true, loginRedirectUrl: '/overridden' }, '/overridden']
  ]
  for (const [options, location] of targets) {
    const app = await build(t, { loginRedirectUrl: '/login.html' })
    for (const { form, url, route } of addAll(app, options)) {
      for (const headers of [{}, bearer('bad'), bearer(forge(claims({ exp: 1 })))]) {
        // Nothing of the request has a say in where it leads.
        const response = await app.inject({ url: `${url}?redirectUrl=//evil.example&next=//evil.example`, headers: { ...headers, host: 'evil.example' } })
        assert.equal(response.statusCode, 302, form)
        assert.equal(response.headers.location, location, form)
      }
      assert.equal(route.calls, 0, caseOf(options, form))
      assert.equal((await app.inject({ url, headers: bearer(valid()) })).statusCode, 200, caseOf(options, form))
    }
  }
  const app = await build(t)
  counted(app, { preHandler: app.tokenAuth.scoped('other', { redirectOnFail: true }) }, '/scoped')
  counted(app, { preHandler: app.tokenAuth.protect({ redirectOnFail: false, redirectUrl: '/unused' }) }, '/off')
  app.get('/inject', app.tokenAuth.injectUser(async () => 'reached', { redirectOnFail: true }))
  t.equal((await app.inject('/scoped')).statusCode, 302)
  t.equal((await app.inject({ url: '/scoped', headers: bearer(valid()) })).statusCode, 403, 'a scope failure stays 403')
  t.equal((await app.inject('/off')).statusCode, 401)
  t.equal((await app.inject({ url: '/inject', headers: bearer('bad') })).headers.location, '/index.html')
  t.equal((await app.inject('/inject')).body, 'reached')
})

// Promise: specification/protection-2
t.test('doProtection false lets everything pass, at a guard or at all of an instance', async (t) => {
  const settings: Partial<TokenAuthOptions>[] = [
    { doProtection: false }, { getDoProtection: () => false },
    // The key is not even asked for.
    { doProtection: false, queryStringSet: true, getSecret: async () => secret }
  ]
  for (const options of settings) {
    const app = await build(t, options)
    const requests = [{}, { headers: bearer('bad') }, { query: { access_token: 'bad' } }, { headers: bearer(valid()) }]
    counted(app, { onRequest: app.tokenAuth.scoped('unknown') }, '/scoped')
    app.get('/inject', app.tokenAuth.injectUser(async (_request, _reply, user) => ({ user })))
    for (const { url } of addAll(app)) {
      for (const request of requests) assert.equal((await app.inject({ url, ...request })).statusCode, 200, caseOf(options, url, request))
    }
    assert.equal((await app.inject('/scoped')).statusCode, 200, caseOf(options))
    assert.deepEqual((await app.inject({ url: '/inject', headers: bearer('bad') })).json(), { user: null }, 'a bad token gives no user')
  }
  const app = await build(t)
  counted(app, { onRequest: app.tokenAuth.protect({ doProtection: false }) }, '/open')
  counted(app, { onRequest: app.tokenAuth.protect() }, '/closed')
  t.equal((await app.inject('/open')).statusCode, 200)
  t.equal((await app.inject('/closed')).statusCode, 401)
})

// Promise: security/getter-throws-returns
t.test('a getter that fails closes the route with a 500, and runs only if its setting is needed', async (t) => {
  const fail = () => { throw new Error('secret detail') }
  const getters: Record<string, Partial<TokenAuthOptions>> = {
    getDoProtection: { getDoProtection: fail },
    getCookieSet: { getCookieSet: fail },
    getLeeway: { getLeeway: fail },
    getSecret: { getSecret: fail },
    'getSecret, asynchronous': { getSecret: async () => fail() },
    'getSecret of nothing': { getSecret: mistyped(() => undefined) },
    'a promise where none may be': { getCookieSet: mistyped(async () => true) },
    getOnRefusal: { getOnRefusal: fail, getLeeway: fail }
  }
  for (const [what, options] of Object.entries(getters)) {
    const app = await build(t, options)
    const caught: unknown[] = []
    app.setErrorHandler(async (error: FastifyError, request, reply) => {
      caught.push(error)
      return await renderErrors(error, request, reply)
    })
    for (const { url, route } of addAll(app)) {
      const response = await app.inject({ url, headers: bearer(valid()) })
      assert.equal(response.statusCode, 500, what)
      assert.equal(response.body, 'rendered by the host', caseOf(what, url))
      assert.ok(caught.pop() instanceof HandlerFailed, what)
      assert.equal(route.calls, 0, caseOf(what, url))
    }
  }
  const app = await build(t, { cookieSet: true, getQueryStringSet: fail, getOnRefusal: fail, getLoginRedirectUrl: fail })
  counted(app, { preHandler: app.tokenAuth.scoped(async () => 'a') })
  t.equal((await app.inject({ url: '/', headers: { cookie: `access_token=${valid()}` } })).statusCode, 200, 'the other getters are not needed')
})

// Promise: specification/added-9
t.test('with onRefusal "throw" a refusal goes to the error handler of the host, with its status and challenge', async (t) => {
  let rendered = 0
  class Counting extends Responses {
    override exceptionResponse () { rendered++ }
  }
  const render = async (t: Test, options: Partial<TokenAuthOptions>, overrides: GuardOptions) => {
    const app = await build(t, { responsesClass: Counting, ...options })
    const seen: unknown[] = []
    app.addHook('onError', async (_request, _reply, error) => { seen.push(error) })
    app.get('/inject', app.tokenAuth.injectUser(async () => 'reached', overrides))
    for (const { url, route } of addAll(app, overrides)) {
      const response = await app.inject({ url, headers: bearer('bad') })
      assert.equal(response.statusCode, 401, url)
      assert.match(String(response.headers['www-authenticate']), /^Bearer realm=.*error="invalid_token"/, url)
      t.match(response.json(), { statusCode: 401, message: 'Token is invalid.' })
      t.match(seen.pop(), { name: 'InvalidToken', statusCode: 401, headers: { 'www-authenticate': /Bearer/ } })
      assert.equal(route.calls, 0, url)
      assert.equal((await app.inject({ url, headers: bearer(valid()) })).statusCode, 200, url)
    }
    t.equal((await app.inject({ url: '/inject', headers: bearer('bad') })).json().statusCode, 401)
    t.equal((await app.inject('/inject')).body, 'reached')
  }
  await render(t, { onRefusal: 'throw' }, {})
  await render(t, { getOnRefusal: () => 'throw' }, {})
  await render(t, {}, { onRefusal: 'throw' })
  t.equal(rendered, 0)
})

t.test('guards that throw are combined by @fastify/auth', async (t) => {
  const app = await build(t, { onRefusal: 'throw' })
  await app.register(tokenAuth, { instanceName: 'staff', secret: otherSecret, authMode: false, onRefusal: 'throw' })
  await app.register(fastifyAuth)
  const guards = [app.tokenAuth.protect(), app.staff.protect()]
  const either = counted(app, { preHandler: app.auth(guards) }, '/either')
  const both = counted(app, { preHandler: app.auth(guards, { relation: 'and' }) }, '/both')
  for (const key of [secret, otherSecret]) assert.equal((await app.inject({ url: '/either', headers: bearer(forge(claims(), { key })) })).statusCode, 200, key)
  for (const url of ['/either', '/both']) assert.equal((await app.inject(url)).statusCode, 401, url)
  t.equal((await app.inject({ url: '/both', headers: bearer(valid()) })).statusCode, 401)
  t.same([either.calls, both.calls], [2, 0])
})

// Promise: specification/debug-2
// Promise: specification/debug-adds-refusal
t.test('with debug a refusal says which check failed and where the token was found, with the same status', async (t) => {
  const app = await build(t, { debug: true, cookieSet: true, cookieStrict: false })
  counted(app, { preHandler: app.tokenAuth.scoped('other') })
  const cases: [headers: Record<string, string>, status: number, detail: RegExp][] = [
    [{}, 401, /^Authorization header not present\. \(expected: the cookie "access_token", or the header "authorization: Bearer <token>"\)$/],
    [{ cookie: 'access_token=bad' }, 401, /found in the cookie/],
    [bearer('bad'), 401, /^it is not three segments of base64url \(token found in the header\)$/],
    [bearer('a'.repeat(8193)), 401, /^it has more than 8192 characters \(/],
    [bearer(`${valid()}==`), 401, /^its base64url has padding, the character "=", which RFC 7515 section 2 forbids \(/],
    [bearer(forge(claims({ exp: 1 }))), 401, /exp.*found in the header/],
    [bearer(valid()), 403, /^the scopes of the token are not enough for "other": "other": the token has no scope of the namespace "other" \(token found in the header\)$/]
  ]
  for (const [headers, status, detail] of cases) {
    const response = await app.inject({ url: '/', headers })
    assert.equal(response.statusCode, status, caseOf(headers))
    t.match(response.json().detail, detail)
  }
})

t.test('with debug a refusal says where a token is expected: in each source, up to the one that is strict', async (t) => {
  const sources: Array<[Partial<TokenAuthOptions>, string]> = [
    [{}, 'the header "authorization: Bearer <token>"'],
    [{ authorizationHeaderPrefix: '', authorizationHeader: 'x-token' }, 'the header "x-token: <token>"'],
    [{ cookieSet: true, queryStringSet: true }, 'the cookie "access_token"'],
    [{ queryStringSet: true }, 'the query parameter "access_token"'],
    [{ cookieSet: true, cookieStrict: false, queryStringSet: true }, 'the cookie "access_token", or the query parameter "access_token"'],
    [{ queryStringSet: true, queryStringStrict: false }, 'the query parameter "access_token", or the header "authorization: Bearer <token>"']
  ]
  for (const [options, expected] of sources) {
    const app = await build(t, { debug: true, ...options })
    counted(app, { preHandler: app.tokenAuth.scoped(['a', 'b'], { requireAll: false }) })
    assert.equal((await app.inject('/')).json().detail.split('(expected: ')[1], `${expected})`, caseOf(options))
  }
  const app = await build(t, { debug: true })
  counted(app, { preHandler: app.tokenAuth.scoped(['b', 'c'], { requireAll: false }) })
  t.equal((await app.inject({ url: '/', headers: bearer(valid()) })).json().detail, 'the scopes of the token are not enough for "b" or "c": "b": the token has no scope of the namespace "b"; "c": the token has no scope of the namespace "c" (token found in the header)')
})

// Promise: security/options-promise-map
t.test('options of a guard that are not a plain object are refused when it is made: they would be fewer than they seem', async (t) => {
  const app = await build(t)
  class Overrides { cookieSet = true }
  for (const wrong of [null, 'cookieSet', [], 1, Promise.resolve({ cookieSet: true }), new Map([['cookieSet', true]]), new Overrides(), Object.create({ cookieSet: true }), Object.create(Object.create(null, { cookieSet: { value: true, enumerable: true } }))]) {
    const options: object = mistyped(wrong)
    const made = [
      () => app.tokenAuth.protect(options), () => app.tokenAuth.scoped('a', options), () => app.tokenAuth.injectUser(async () => 1, options),
      () => protect(options), () => scoped('a', options), () => injectUser(async () => 1, options)
    ]
    for (const make of made) t.throws(make, { name: 'InvalidConfiguration', message: /must be a plain object/ })
  }
})

t.test('an error of its own that exceptionResponse throws is answered as one, not with the status of the refusal', async (t) => {
  class Broken extends Responses {
    override exceptionResponse (): never { throw new Error('broken') }
  }
  const app = await build(t, { responsesClass: Broken })
  app.get('/', { preHandler: app.tokenAuth.protect() }, async () => 'reached')
  const response = await app.inject({ url: '/' })
  t.equal(response.statusCode, 500)
  t.equal(response.headers['www-authenticate'], undefined)
})

t.test('options of a guard may have no prototype, or that of another realm', async (t) => {
  const app = await build(t)
  for (const options of [Object.assign(Object.create(null), { leeway: 5 }), runInNewContext('({ leeway: 5 })')]) {
    t.type(app.tokenAuth.protect(options), 'function')
    t.type(protect(options), 'function')
  }
})

t.test('a guard that is called like a hook of another kind, with other parameters, opens nothing', async (t) => {
  const app = await build(t)
  const guard = mistyped<preParsingHookHandler>(app.tokenAuth.protect())
  app.addHook('preParsing', function (...parameters) { Reflect.apply(guard, this, parameters) })
  app.get('/', async () => 'reached')
  const response = await app.inject({ url: '/', headers: bearer(forge(claims())) })
  t.equal(response.statusCode, 500)
  t.match(response.json().message, /preHandler/)
})

t.test('a guard that is called without a callback and not waited for refuses, and ends no process', async (t) => {
  const app = await build(t)
  const [own, free, nobody] = [app.tokenAuth.protect(), protect(), protect({ instanceName: 'staff' })]
  for (const [url, guard] of Object.entries({ '/own': own, '/free': free, '/nobody': nobody })) {
    app.get(url, { onRequest: async (request, reply) => { guard(request, reply) } }, async () => 'reached')
  }
  const rejections: unknown[] = []
  const listener = (reason: unknown) => { rejections.push(reason) }
  process.on('unhandledRejection', listener)
  t.teardown(() => process.off('unhandledRejection', listener))
  for (const [url, status] of [['/own', 401], ['/free', 401], ['/nobody', 500]] as const) assert.equal((await app.inject(url)).statusCode, status, url)
  await new Promise((resolve) => { setImmediate(resolve) })
  t.same(rejections, [])
})

// Promise: security/guard-under-route
t.test('protect, scoped and injectUser themselves in the place of what they return are found when the route is added (E22)', async (t) => {
  const example: Record<string, string> = {
    protect: '{ onRequest: app.tokenAuth.protect() }', scoped: "{ onRequest: app.tokenAuth.scoped('orders:read') }", injectUser: '{ handler: app.tokenAuth.injectUser(handler) }'
  }
  const makersOf = (app: FastifyInstance) => [
    ['protect', app.tokenAuth.protect], ['scoped', app.tokenAuth.scoped], ['injectUser', app.tokenAuth.injectUser], ['protect', protect], ['scoped', scoped], ['injectUser', injectUser]
  ] as const
  for (let index = 0; index < 6; index++) {
    for (const option of ['onRequest', 'preValidation', 'preHandler', 'handler', 'prehandler']) {
      for (const isList of [false, true]) {
        const app = await build(t)
        const [name, maker] = makersOf(app)[index]!
        const route = mistyped<RouteOptions>({ method: 'GET', url: '/a', handler: async () => 'reached', [option]: isList && option !== 'handler' ? [async () => {}, maker] : maker })
        t.throws(() => app.route(route), {
          name: 'InvalidConfiguration',
          finding: 'TOKEN_AUTH_E22',
          message: `The route GET /a has the function ${name} itself as "${option}". Call the function, and pass its result to the route: ${example[name]}. See node_modules/fastify-token-auth/docs/findings.md#token_auth_e22`
        })
        assert.equal(await app.inject('/auth/me').then(({ statusCode }) => statusCode), 503, 'the application is closed')
      }
    }
    const app = await build(t)
    const [name, maker] = makersOf(app)[index]!
    t.throws(() => app.addHook('onRequest', mistyped<onRequestHookHandler>(maker)), { finding: 'TOKEN_AUTH_E22', message: `A context has the function ${name} itself as "onRequest". ` })
    const moved = await build(t)
    moved.addHook('onRoute', (route) => { route.onRequest = mistyped<onRequestHookHandler>(maker) })
    moved.get('/a', async () => 'reached')
    await t.rejects(async () => { await moved.ready() }, { finding: 'TOKEN_AUTH_E22', message: `The route GET /a has the function ${name} itself as "onRequest". ` })
  }
})

t.test('protect, scoped and injectUser that a function of the application calls with a request open nothing, and say that they must be called before', async (t) => {
  const app = await build(t)
  const makers: Record<string, unknown> = { protect: app.tokenAuth.protect, scoped: app.tokenAuth.scoped, injectUser: app.tokenAuth.injectUser, 'free-protect': protect, 'free-scoped': scoped, 'free-injectUser': injectUser }
  for (const [name, maker] of Object.entries(makers)) {
    app.get(`/${name}`, { preHandler: mistyped<preHandlerHookHandler>((...parameters: unknown[]) => mistyped<(...given: unknown[]) => unknown>(maker)(...parameters)) }, async () => 'reached')
  }
  for (const name of Object.keys(makers)) {
    const response = await app.inject({ url: `/${name}`, headers: bearer(forge(claims())) })
    t.match(response.json(), { statusCode: 500, code: 'TOKEN_AUTH_INVALID_CONFIGURATION', message: /Call the function, and pass its result to the route: { onRequest: / }, name)
  }
})

t.test('an algorithm computed for a request that does not fit the key is a fault of the host, and says nothing of the key', async (t) => {
  const app = await build(t, { ...keysFor('RS256'), secret: undefined, authMode: false, getAlgorithm: () => 'HS256' })
  app.get('/', { preHandler: app.tokenAuth.protect() }, async () => 'reached')
  const response = await app.inject({ url: '/', headers: bearer(forge(claims())) })
  t.equal(response.statusCode, 500)
  t.equal(response.json().message, 'The getAlgorithm handler failed.')
})

// Promise: security/guard-without-parameters
t.test('a guard, or a handler of injectUser, that a hook calls without its parameters lets nobody in, also without `await`, and says what to pass', async (t) => {
  const app = await build(t)
  const { tokenAuth: instance } = app
  const guards: Record<string, () => unknown> = {
    protect: instance.protect(),
    scoped: instance.scoped('admin'),
    'free protect': protect(),
    'free scoped': scoped('admin'),
    injectUser: instance.injectUser(async () => 'reached'),
    'free injectUser': injectUser(async () => 'reached')
  } as object as Record<string, () => unknown>
  const errors: unknown[] = []
  app.addHook('onError', async (_request, _reply, error) => { errors.push(error.cause ?? error) })
  const calls: Record<string, (guard: (...parameters: unknown[]) => unknown, parameters: unknown[]) => unknown> = {
    'nothing, awaited': async (guard) => { await guard() },
    // A handler of injectUser is no guard: whoever does not wait for it gets no user.
    'nothing, not awaited': async (guard) => { if (guard.name.includes('.')) guard(); else await guard() },
    'the request alone': async (guard, [request]) => { await guard(request) },
    'the parameters the other way round': async (guard, [request, reply]) => { await guard(reply, request) }
  }
  for (const [name, guard] of Object.entries(guards)) {
    for (const [call, act] of Object.entries(calls)) {
      const url = `/${encodeURIComponent(name)}/${encodeURIComponent(call)}`.replaceAll('%', '-')
      app.get(url, { preHandler: async (request, reply) => { await act(guard, [request, reply]) } }, async () => 'reached')
    }
  }
  for (const name of Object.keys(guards)) {
    for (const call of Object.keys(calls)) {
      const url = `/${encodeURIComponent(name)}/${encodeURIComponent(call)}`.replaceAll('%', '-')
      const answer = await app.inject({ url, headers: bearer(forge(claims({ scopes: ['admin'] }))) })
      assert.equal(answer.statusCode, 500, caseOf([name, call]))
      assert.match(String(Object(errors.pop()).message), /was called without the request and the reply\. Pass both: await (?:guard|handler)\(request, reply\)/, caseOf([name, call]))
    }
  }
})

// Promise: security/page-after-logout
t.test('a page whose guard redirects is stored by no cache, so that "Back" shows none after a logout, unless the route or an earlier hook sets Cache-Control', async (t) => {
  const app = await build(t)
  const { tokenAuth: instance } = app
  const headers = bearer(forge(claims({ scopes: ['a'] })))
  app.get('/page', { onRequest: instance.protect({ redirectOnFail: true }) }, async () => 'page')
  app.get('/scoped', { onRequest: instance.scoped('a', { redirectOnFail: true }) }, async () => 'page')
  app.get('/injected', instance.injectUser(async () => 'page', { redirectOnFail: true }))
  app.get('/awaited', async (request, reply) => {
    await instance.protect({ redirectOnFail: true })(request, reply)
    return 'page'
  })
  app.get('/own', { onRequest: instance.protect({ redirectOnFail: true }) }, async (_request, reply) => {
    reply.header('cache-control', 'private, max-age=60')
    return 'page'
  })
  app.get('/hooked', { onRequest: [async (_request, reply) => { reply.header('cache-control', 'private') }, instance.protect({ redirectOnFail: true })] }, async () => 'page')
  app.get('/api', { onRequest: instance.protect() }, async () => 'answer')
  const found: Record<string, unknown> = {}
  for (const url of ['/page', '/scoped', '/injected', '/awaited', '/own', '/hooked', '/api']) {
    const answer = await app.inject({ url, headers })
    assert.equal(answer.statusCode, 200, url)
    found[url] = answer.headers['cache-control']
  }
  t.same(found, { '/page': 'no-store', '/scoped': 'no-store', '/injected': 'no-store', '/awaited': 'no-store', '/own': 'private, max-age=60', '/hooked': 'private', '/api': undefined })
})

t.test('where refusals are thrown, a guard that is awaited needs no reply of Fastify, as in a subscription of GraphQL', async (t) => {
  const app = await build(t, { onRefusal: 'throw' })
  const guard = app.tokenAuth.scoped('a')
  const errors: unknown[] = []
  app.get('/', async (request) => {
    await guard(request, mistyped({ request })).catch((error: unknown) => { errors.push(Object(error).name) })
    return 'answered'
  })
  for (const headers of [{}, bearer(forge(claims())), bearer(forge(claims({ scopes: ['a'] })))]) t.equal((await app.inject({ url: '/', headers })).body, 'answered')
  t.same(errors, ['MissingAuthorizationHeader', 'InsufficientScope'])
})
