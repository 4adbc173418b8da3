import assert from 'node:assert/strict'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { AuthenticationFailed, InsufficientScope, Responses, TokenAuthError, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, bearer, build, caseOf, claims, forge, host, login, mistyped, secret, together } from '../helper.ts'

const stored = 'stored'
const refreshing = { refreshTokenEnabled: true, storeRefreshToken: () => {}, retrieveRefreshToken: () => stored }
const token = forge(claims({ exp: 4_000_000_000 }))

/** One request to each of the four endpoints. */
const requests = {
  extendAuthenticate: (app: FastifyInstance) => login(app),
  extendRetrieveUser: (app: FastifyInstance) => app.inject({ url: '/auth/me', headers: bearer(token) }),
  extendVerify: (app: FastifyInstance) => app.inject({ url: '/auth/verify', headers: bearer(token) }),
  extendRefresh: (app: FastifyInstance) => app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(token), payload: { refresh_token: stored } })
}
type Hook = keyof typeof requests
const hooks = Object.keys(requests) as Hook[]

/** A responses class whose hooks all do the same. */
function extending (extend: (request: FastifyRequest, context: object) => unknown) {
  const call = (request: FastifyRequest, context: object) => mistyped<object>(extend(request, context))
  return class extends Responses {
    override extendAuthenticate (request: FastifyRequest, context: object) { return call(request, context) }
    override extendRetrieveUser (request: FastifyRequest, context: object) { return call(request, context) }
    override extendVerify (request: FastifyRequest, context: object) { return call(request, context) }
    override extendRefresh (request: FastifyRequest, context: object) { return call(request, context) }
  }
}

t.test('a hook may call the one that it replaces, which adds nothing', async (t) => {
  class Twice extends Responses {
    override extendAuthenticate (...given: Parameters<Responses['extendAuthenticate']>) { return { ...super.extendAuthenticate(...given), more: 1 } }
    override extendRetrieveUser (...given: Parameters<Responses['extendRetrieveUser']>) { return { ...super.extendRetrieveUser(...given), more: 1 } }
    override extendVerify (...given: Parameters<Responses['extendVerify']>) { return { ...super.extendVerify(...given), more: 1 } }
    override extendRefresh (...given: Parameters<Responses['extendRefresh']>) { return { ...super.extendRefresh(...given), more: 1 } }
  }
  const [app, plain] = [await build(t, { ...refreshing, responsesClass: Twice }), await build(t, refreshing)]
  for (const hook of hooks) {
    const { more, ...rest } = (await requests[hook](app)).json()
    assert.equal(more, 1, hook)
    assert.deepEqual(Object.keys(rest), Object.keys((await requests[hook](plain)).json()), hook)
  }
})

// Promise: specification/6-responses-can
t.test('what a hook returns, or promises, is merged into the body of its endpoint', async (t) => {
  const ways: Record<string, (extension: object) => unknown> = { returned: (extension) => extension, promised: async (extension) => extension }
  for (const [way, give] of Object.entries(ways)) {
    const app = await build(t, { ...refreshing, responsesClass: extending(({ url }) => give({ url, nested: { list: [1] } })) })
    const bodies: Record<Hook, object> = {
      extendAuthenticate: { access_token: String, refresh_token: String, url: '/auth' },
      extendRetrieveUser: { me: { user_id: 1 }, url: '/auth/me' },
      extendVerify: { valid: true, url: '/auth/verify' },
      extendRefresh: { access_token: String, url: '/auth/refresh' }
    }
    for (const hook of hooks) {
      const response = await requests[hook](app)
      assert.equal(response.statusCode, 200, caseOf(way, hook))
      t.match(response.json(), { ...bodies[hook], nested: { list: [1] } }, `${hook} ${way}`)
      assert.equal(Object.keys(response.json()).length, Object.keys(bodies[hook]).length + 1, caseOf(way, hook))
      assert.equal(response.headers['cache-control'], 'no-store', caseOf(way, hook))
    }
  }
})

// Promise: specification/6-responses-can
t.test('a hook that returns nothing changes nothing', async (t) => {
  for (const nothing of [undefined, null, {}]) {
    const app = await build(t, { ...refreshing, responsesClass: extending(() => nothing) })
    assert.equal((await requests.extendVerify(app)).body, '{"valid":true}', caseOf(nothing))
    assert.equal((await requests.extendRetrieveUser(app)).body, '{"me":{"user_id":1}}', caseOf(nothing))
  }
})

t.test('a hook may ask the one that it replaces, which adds nothing', async (t) => {
  class Asking extends Responses {
    override async extendVerify (...inputs: Parameters<Responses['extendVerify']>) { return { base: await super.extendVerify(...inputs) ?? 'nothing' } }
  }
  t.same((await requests.extendVerify(await build(t, { responsesClass: Asking }))).json(), { valid: true, base: 'nothing' })
})

// Promise: specification/extend-authenticate
// Promise: specification/extend-refresh
// Promise: specification/extend-retrieve-user
t.test('each hook gets the request and what its endpoint knows', async (t) => {
  const seen: Record<string, object> = {}
  const user = { user_id: 1, name: 'ada' }
  const app = await build(t, {
    ...refreshing,
    authenticate: () => user,
    retrieveUser: () => user,
    responsesClass: extending((request, context) => { seen[request.url] = context })
  })
  const issued = (await requests.extendAuthenticate(app)).json()
  await requests.extendRetrieveUser(app)
  await requests.extendVerify(app)
  const refreshed = (await requests.extendRefresh(app)).json()
  const payload = { user_id: 1, exp: 4_000_000_000 }
  t.same(seen, {
    '/auth': { user, accessToken: issued.access_token, refreshToken: issued.refresh_token },
    '/auth/me': { user, payload },
    '/auth/verify': { user, payload },
    '/auth/refresh': { user, accessToken: refreshed.access_token, refreshToken: stored, purportedToken: stored, payload }
  })
  const plain = await build(t, { responsesClass: extending((_request, context) => ({ seen: context })) })
  t.equal((await requests.extendAuthenticate(plain)).json().seen.refreshToken, null, 'no refresh token where there is none')
})

t.test('a hook that fails, or gives no fields, is 500 without any token', async (t) => {
  const failures: Record<string, () => unknown> = {
    throws: () => { throw new Error('original message') },
    rejects: async () => { throw new Error('original message') },
    'gives text': () => 'original message',
    'gives a list': () => ['original message'],
    'promises a number': async () => 1,
    'gives what JSON cannot hold': () => ({ big: 1n })
  }
  for (const [name, fail] of Object.entries(failures)) {
    const stores: unknown[] = []
    const app = await build(t, { ...refreshing, cookieSet: true, cookieStrict: false, storeRefreshToken: (id) => { stores.push(id) }, responsesClass: extending(fail) })
    for (const hook of hooks) {
      const response = await requests[hook](app)
      assert.equal(response.statusCode, 500, `${hook} ${name}`)
      assert.equal(response.json().message, `The ${hook} handler failed.`, caseOf(name, hook))
      assert.doesNotMatch(response.body, /original message|access_token|refresh_token/, caseOf(name, hook))
      assert.equal(response.headers['set-cookie'], undefined, caseOf(name, hook))
    }
    assert.deepEqual(stores, [], name)
  }
})

t.test('a refusal that a hook throws is rendered as one', async (t) => {
  const app = await build(t, { ...refreshing, responsesClass: extending(() => { throw new InsufficientScope('Not today.') }) })
  for (const hook of hooks) {
    const response = await requests[hook](app)
    assert.equal(response.statusCode, 403, hook)
    assert.deepEqual(response.json(), { reasons: 'Not today.', exception: 'InsufficientScope' }, hook)
  }
})

type Render = (request: FastifyRequest, exception: TokenAuthError, reply: FastifyReply) => unknown
const rendering = (render: Render) => class extends Responses {
  override exceptionResponse (request: FastifyRequest, exception: TokenAuthError, reply: FastifyReply) { return render(request, exception, reply) }
}

/** Requests that are refused, by status: guards of both hooks, a scope failure, the endpoints. */
async function refusals (app: FastifyInstance) {
  const headers = bearer(token)
  return [
    [401, await app.inject('/early')],
    [401, await app.inject('/late')],
    [403, await app.inject({ url: '/scoped', headers })],
    [401, await app.inject({ url: '/injected', headers: bearer('rubbish') })],
    [401, await app.inject('/auth/me')],
    [401, await login(app, { password: 'wrong' })],
    [400, await app.inject({ method: 'POST', url: '/auth/refresh', headers, payload: {} })]
  ] as const
}

async function service (t: Test, options: Partial<TokenAuthOptions>, prepare: (app: FastifyInstance) => void = () => {}): Promise<FastifyInstance> {
  const app = host(t)
  prepare(app)
  await app.register(tokenAuth, together({ secret, authenticate }, refreshing, options))
  const reached = async () => 'reached'
  app.get('/early', { onRequest: app.tokenAuth.protect() }, reached)
  app.get('/late', { preHandler: app.tokenAuth.protect() }, reached)
  app.get('/scoped', { preHandler: app.tokenAuth.scoped('admin') }, reached)
  app.get('/injected', app.tokenAuth.injectUser(reached))
  return app
}

t.test('by default every refusal is JSON with reasons and exception, but for the refused login', async (t) => {
  const app = await service(t, {})
  for (const [status, response] of await refusals(app)) {
    assert.equal(response.statusCode, status, caseOf(status))
    assert.deepEqual(Object.keys(response.json()), ['reasons', 'exception'], caseOf(status))
    t.match(response.headers['content-type'], response.json().reasons === 'User not found.' ? 'text/plain' : 'application/json')
    assert.equal('www-authenticate' in response.headers, status !== 400, caseOf(status))
  }
})

// Promise: specification/7-error-rendering
// Promise: specification/exception-response
t.test('exceptionResponse renders every refusal: what it returns or promises is the body', async (t) => {
  const body = (request: FastifyRequest, { name, statusCode }: TokenAuthError) => ({ error: { name, statusCode, path: request.url } })
  for (const render of [body, async (request: FastifyRequest, exception: TokenAuthError) => body(request, exception)]) {
    const app = await service(t, { responsesClass: rendering(render) })
    for (const [status, response] of await refusals(app)) {
      assert.equal(response.statusCode, status, caseOf(render, status))
      t.match(response.json(), { error: { name: /./, statusCode: status, path: /^\// } })
      t.match(response.headers['content-type'], 'application/json')
      assert.equal('www-authenticate' in response.headers, status !== 400, caseOf(render, status))
    }
  }
})

// Promise: specification/7-error-rendering
t.test('exceptionResponse may change status and headers, or send by itself', async (t) => {
  const renders: Render[] = [
    (_request, _exception, reply) => { reply.code(418).header('x-mine', '1').type('text/html'); return '<h1>no</h1>' },
    async (_request, _exception, reply) => { reply.code(418).header('x-mine', '1').type('text/html'); return '<h1>no</h1>' },
    (_request, _exception, reply) => reply.code(418).header('x-mine', '1').type('text/html').send('<h1>no</h1>'),
    async (_request, _exception, reply) => await reply.code(418).header('x-mine', '1').type('text/html').send('<h1>no</h1>')
  ]
  for (const render of renders) {
    const app = await service(t, { responsesClass: rendering(render) })
    for (const [, response] of await refusals(app)) {
      assert.equal(response.statusCode, 418, caseOf(render))
      t.match(response.headers, { 'x-mine': '1', 'content-type': /^text\/html/ })
      assert.equal(response.body, '<h1>no</h1>', caseOf(render))
    }
  }
})

t.test('a body that is text or nothing is sent as it is', async (t) => {
  for (const body of ['', 'no']) {
    const app = await service(t, { responsesClass: rendering(() => body) })
    for (const [status, response] of await refusals(app)) {
      assert.equal(response.statusCode, status, caseOf(body, status))
      assert.equal(response.body, body, caseOf(body, status))
    }
  }
})

t.test('exceptionResponse may ask the default one', async (t) => {
  class Mine extends Responses {
    override exceptionResponse (request: FastifyRequest, exception: TokenAuthError, reply: FastifyReply) {
      return { ...Object(super.exceptionResponse(request, exception, reply)), id: 'mine' }
    }
  }
  for (const [, response] of await refusals(await service(t, { responsesClass: Mine }))) {
    assert.deepEqual(Object.keys(response.json()), ['reasons', 'exception', 'id'])
    t.match(response.headers['content-type'], 'application/json')
  }
})

const passingOn: Record<string, Partial<TokenAuthOptions>> = {
  'exceptionResponse throws the exception': { responsesClass: rendering((_request, exception) => { throw exception }) },
  'exceptionResponse rejects with it': { responsesClass: rendering(async (_request, exception) => { throw exception }) },
  'onRefusal is "throw"': { onRefusal: 'throw' }
}

for (const [name, options] of Object.entries(passingOn)) {
  t.test(`where ${name}, the error handler of the host gets it, with status and headers`, async (t) => {
    const app = await service(t, options, (app) => app.setErrorHandler((error, _request, reply) => {
      if (!(error instanceof TokenAuthError)) throw error
      return reply.code(error.statusCode).headers(error.headers).send({ problem: error.code })
    }))
    for (const [status, response] of await refusals(app)) {
      assert.equal(response.statusCode, status, caseOf(status))
      t.match(response.json(), { problem: /^TOKEN_AUTH_/ })
      assert.equal('www-authenticate' in response.headers, status !== 400, caseOf(status))
    }
  })

  t.test(`where ${name}, Fastify's own error handler answers the same status and challenge`, async (t) => {
    for (const [status, response] of await refusals(await service(t, options))) {
      assert.equal(response.statusCode, status, caseOf(status))
      t.match(response.json(), { statusCode: status, code: /^TOKEN_AUTH_/, message: /./ })
      assert.equal('www-authenticate' in response.headers, status !== 400, caseOf(status))
    }
  })
}

t.test('another error that exceptionResponse throws is an error of the host: 500, or its own status, and no route is reached', async (t) => {
  const errors: [Error, number][] = [[new Error('broken'), 500], [Object.assign(new Error('gone'), { statusCode: 410 }), 410]]
  for (const [error, status] of errors) {
    for (const render of [() => { throw error }, async () => { throw error }]) {
      const app = await service(t, { responsesClass: rendering(render) })
      for (const [, response] of await refusals(app)) {
        assert.equal(response.statusCode, status, caseOf(error))
        assert.equal(response.json().message, error.message, caseOf(error))
        assert.equal(response.headers['www-authenticate'], undefined, caseOf(error))
      }
    }
  }
})

t.test('an exceptionResponse that throws nothing at all has failed, and opens no route', async (t) => {
  const nothing: unknown = null
  for (const render of [() => { throw nothing }, async () => { throw nothing }]) {
    const app = await service(t, { responsesClass: rendering(render) })
    for (const [, response] of await refusals(app)) {
      assert.equal(response.statusCode, 500, caseOf(render))
      assert.equal(response.json().message, 'The exceptionResponse handler failed.', caseOf(render))
    }
  }
})

// Promise: specification/exception-response
t.test('exceptionResponse renders the 500 classes too, but not what a handler did not mean to say', async (t) => {
  const render: Render = (_request, { name }) => ({ rendered: name })
  const broken = await build(t, { authenticate: () => mistyped(null), responsesClass: rendering(render) })
  const invalid = await login(broken)
  t.equal(invalid.statusCode, 500)
  t.same(invalid.json(), { rendered: 'InvalidUserObject' })
  const failing = await build(t, { authenticate: () => { throw new Error('original') }, responsesClass: rendering(render) })
  const failed = await login(failing)
  t.equal(failed.statusCode, 500)
  t.match(failed.json(), { code: 'TOKEN_AUTH_HANDLER_FAILED', rendered: undefined })
})

t.test('debug adds a detail to refusals of guards and refreshes, never to refused logins, and changes no status', async (t) => {
  const plain = await refusals(await service(t, {}))
  const debug = await refusals(await service(t, { debug: true }))
  for (const [index, [, response]] of debug.entries()) {
    const [, before] = plain[index]!
    assert.equal(response.statusCode, before.statusCode, caseOf(index))
    assert.equal(response.headers['www-authenticate'], before.headers['www-authenticate'], caseOf(index))
    const { detail, ...rest } = response.json()
    assert.deepEqual(rest, before.json(), caseOf(index))
    const isLogin = index === 5
    assert.equal(typeof detail, isLogin ? 'undefined' : 'string', caseOf(index))
  }
  t.match(debug[3][1].json().detail, 'token found in the header')
})

t.test('a handler may be refused in words of its own', async (t) => {
  const app = await service(t, { retrieveUser: () => { throw new AuthenticationFailed('This account is closed.') } })
  const response = await app.inject({ url: '/injected', headers: bearer(token) })
  t.equal(response.statusCode, 401)
  t.same(response.json(), { reasons: 'This account is closed.', exception: 'AuthenticationFailed' })
})
