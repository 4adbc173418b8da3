import assert from 'node:assert/strict'
import type { FastifyError, FastifyInstance, FastifyReply } from 'fastify'
import t, { type Test } from 'tap'
import { AuthenticationFailed, HandlerFailed, injectUser, type InjectedRouteHandler, type TokenAuthOptions, type UserRouteHandler } from '../../lib/index.ts'
import { bearer, build, caseOf, claims, forge, mistyped, now, otherSecret, secret, warnings } from '../helper.ts'

warnings(t, 'W05')

type Injection = (app: FastifyInstance, handler: UserRouteHandler<object>) => InjectedRouteHandler

const injections: Record<string, Injection> = {
  'of an instance': (app, handler) => app.tokenAuth.injectUser(handler),
  'of an instance, with nothing overridden': (app, handler) => app.tokenAuth.injectUser(handler, { leeway: undefined }),
  'free-standing': (_app, handler) => injectUser(handler),
  'free-standing, with nothing overridden': (_app, handler) => injectUser(handler, {})
}

/** An application whose route says which user it was given; alone, and behind a guard. */
async function injected (t: Test, inject: Injection, options: Partial<TokenAuthOptions> = {}) {
  const app = await build(t, options)
  const given: unknown[] = []
  const caught: unknown[] = []
  app.addHook('onError', async (_request, _reply, error) => { caught.push(error) })
  const handler = inject(app, async (_request, _reply, user) => {
    given.push(user)
    return { user }
  })
  app.get('/', handler)
  app.get('/guarded', { preHandler: app.tokenAuth.protect() }, handler)
  return { app, given, caught }
}

// Promise: specification/without-another-guard
t.test('alone it is optional authentication: no token gives null, a valid one the user, a bad one is refused', async (t) => {
  const cases: [what: string, headers: Record<string, string>, status: number, user: unknown][] = [
    ['no token', {}, 200, null],
    ['an empty header', { authorization: '' }, 200, null],
    ['another scheme', { authorization: 'Basic YTpi' }, 200, null],
    ['a valid token', bearer(forge(claims())), 200, { user_id: 1 }],
    ['our scheme without a token', { authorization: 'Bearer' }, 401, undefined],
    ['garbage', bearer('garbage'), 401, undefined],
    ['an expired token', bearer(forge(claims({ exp: now() - 3600 }))), 401, undefined],
    ['a token of another secret', bearer(forge(claims(), { key: otherSecret })), 401, undefined],
    ['an unsigned token', bearer(forge(claims()).replace(/[^.]*$/, '')), 401, undefined]
  ]
  for (const [form, inject] of Object.entries(injections)) {
    const { app, given } = await injected(t, inject)
    for (const [what, headers, status, user] of cases) {
      const response = await app.inject({ url: '/', headers })
      assert.equal(response.statusCode, status, `${form}: ${what}`)
      if (status === 200) assert.deepEqual(response.json(), { user }, caseOf(form, what))
      else assert.match(String(response.headers['www-authenticate']), /error="invalid_token"/, caseOf(form, what))
      assert.equal(given.length, status === 200 ? 1 : 0, 'the handler runs where the request may pass, and not elsewhere')
      given.length = 0
      const behind = await app.inject({ url: '/guarded', headers })
      assert.equal(behind.statusCode, user === null ? 401 : status, `${form}, behind protect: ${what}`)
      given.length = 0
    }
  }
})

t.test('it looks for the token where its instance or its overrides say', async (t) => {
  const token = forge(claims())
  const cases: [options: Partial<TokenAuthOptions>, request: object, user: unknown][] = [
    [{ cookieSet: true }, {}, null],
    [{ cookieSet: true }, { headers: { cookie: `access_token=${token}` } }, { user_id: 1 }],
    [{ cookieSet: true }, { headers: { cookie: 'access_token=bad' } }, undefined],
    [{ cookieSet: true }, { headers: bearer(token) }, null],
    [{ queryStringSet: true }, {}, null],
    [{ queryStringSet: true }, { query: { access_token: token } }, { user_id: 1 }],
    [{ queryStringSet: true }, { url: `/?access_token=${token}&access_token=${token}` }, undefined]
  ]
  for (const [options, request, user] of cases) {
    const whole = await build(t, options)
    whole.get('/', whole.tokenAuth.injectUser(async (_request, _reply, user) => ({ user })))
    const single = await build(t)
    single.get('/', injectUser(async (_request, _reply, user) => ({ user }), { cookieSet: options.cookieSet, queryStringSet: options.queryStringSet }))
    for (const app of [whole, single]) {
      const response = await app.inject({ url: '/', ...request })
      assert.equal(response.statusCode, user === undefined ? 401 : 200, caseOf(options))
      if (user !== undefined) assert.deepEqual(response.json(), { user }, caseOf(options))
    }
  }
})

t.test('behind a guard it goes by what the guard found out, and the token is not verified again', async (t) => {
  let verified = 0
  const extraVerifications = [() => { verified++; return true }]
  for (const options of [{}, { getSecret: async () => secret }]) {
    for (const [form, inject] of Object.entries(injections)) {
      const { app } = await injected(t, inject, { extraVerifications, ...options })
      app.get('/all', { onRequest: app.tokenAuth.protect(), preHandler: app.tokenAuth.scoped('a') }, inject(app, async (request, _reply, user) => {
        const { payload, userId, scopes, token, source } = request.tokenAuth
        await request.tokenAuth.ready()
        return { user, complete: [payload, userId, scopes, token, source].every((value) => value !== null) && app.tokenAuth.isAuthenticated(request) }
      }))
      for (const url of ['/', '/guarded']) {
        assert.deepEqual((await app.inject({ url, headers: bearer(forge(claims())) })).json(), { user: { user_id: 1 } }, form)
        assert.equal(verified, 1, `${form} ${url}`)
        verified = 0
      }
      assert.deepEqual((await app.inject({ url: '/all', headers: bearer(forge(claims({ scopes: 'a' }))) })).json(), { user: { user_id: 1 }, complete: true }, caseOf(options, form))
      assert.equal(verified, 1, `${form}, everything read`)
      verified = 0
    }
  }
})

t.test('behind a guard with overrides it sees the token of the guard, not another one that the request brings along', async (t) => {
  for (const [form, inject] of Object.entries(injections)) {
    const app = await build(t)
    app.get('/', { preHandler: app.tokenAuth.protect({ cookieSet: true }) }, inject(app, async (_request, _reply, user) => ({ user })))
    const headers = { ...bearer(forge(claims({ user_id: 2 }))), cookie: `access_token=${forge(claims({ user_id: 1 }))}` }
    assert.deepEqual((await app.inject({ url: '/', headers })).json(), { user: { user_id: 1 } }, form)
  }
})

// Promise: specification/inject-user
t.test('the user is what retrieveUser gives for the verified payload', async (t) => {
  class Person {
    user_id = 7
    toDict () { return { shown: this.user_id } }
  }
  const users: [user: unknown, injected: unknown][] = [
    [{ user_id: 1, name: 'ada' }, { user_id: 1, name: 'ada' }],
    [Object.create(null, { name: { value: 'bare', enumerable: true } }), { name: 'bare' }],
    [null, null],
    [undefined, null]
  ]
  for (const [form, inject] of Object.entries(injections)) {
    for (const [user, expected] of users) {
      for (const retrieveUser of [() => user, async () => user]) {
        const { app } = await injected(t, inject, { retrieveUser: mistyped(retrieveUser) })
        for (const url of ['/', '/guarded']) {
          assert.deepEqual((await app.inject({ url, headers: bearer(forge(claims())) })).json(), { user: expected }, form)
        }
      }
    }
    const person = new Person()
    const { app, given } = await injected(t, inject, { retrieveUser: mistyped(() => person) })
    await app.inject({ url: '/', headers: bearer(forge(claims())) })
    assert.equal(given[0], person, 'the object itself, not what it shows')
  }
})

// Promise: specification/retrieve-user
t.test('retrieveUser is asked for a valid token only, once for a request, with its payload', async (t) => {
  const calls: unknown[] = []
  const retrieveUser: NonNullable<TokenAuthOptions['retrieveUser']> = async (request, payload) => {
    calls.push([request.url, payload.user_id])
    return { user_id: payload.user_id }
  }
  const app = await build(t, { retrieveUser })
  app.get('/', { preHandler: app.tokenAuth.protect() }, app.tokenAuth.injectUser(async (request, _reply, user) => {
    return { same: await request.tokenAuth.user() === user }
  }))
  app.get('/alone', app.tokenAuth.injectUser(async (_request, _reply, user) => ({ user })))
  for (const headers of [{}, bearer('bad'), { authorization: 'Basic YTpi' }]) {
    for (const url of ['/', '/alone']) await app.inject({ url, headers })
  }
  t.same(calls, [])
  t.same((await app.inject({ url: '/', headers: bearer(forge(claims({ user_id: 'u' }))) })).json(), { same: true })
  t.same(calls, [['/', 'u']])
})

t.test('a retrieveUser that fails, or gives something that is no user, closes the route', async (t) => {
  const original = new Error('secret detail')
  const fail = (error: Error) => () => { throw error }
  const cases: [what: string, retrieveUser: unknown, status: number, exception: string | undefined][] = [
    ['a throw', fail(original), 500, undefined],
    ['a rejection', async () => fail(original)(), 500, undefined],
    ['an error with its own status', fail(Object.assign(new Error('gone'), { statusCode: 410 })), 410, undefined],
    ['a refusal', fail(new AuthenticationFailed('locked')), 401, 'AuthenticationFailed'],
    ['a string', () => 'ada', 500, 'InvalidUserObject'],
    ['a list', () => [{ user_id: 1 }], 500, 'InvalidUserObject'],
    ['an object without toDict', () => new Map(), 500, 'InvalidUserObject'],
    ['a promise of false', async () => false, 500, 'InvalidUserObject']
  ]
  for (const [form, inject] of Object.entries(injections)) {
    for (const [what, retrieveUser, status, exception] of cases) {
      const { app, given, caught } = await injected(t, inject, { retrieveUser: mistyped(retrieveUser) })
      const response = await app.inject({ url: '/', headers: bearer(forge(claims())) })
      assert.equal(response.statusCode, status, `${form}: ${what}`)
      t.notMatch(response.body, 'secret detail')
      assert.equal(response.json().exception, exception, what)
      if (exception === undefined && status === 500) assert.ok(caught[0] instanceof HandlerFailed && caught[0].cause === original, caseOf(form, what))
      assert.deepEqual(given, [], caseOf(form, what))
      assert.deepEqual((await app.inject('/')).json(), { user: null }, 'others are not affected')
    }
  }
})

t.test('a route that was answered while retrieveUser was at work does not run', async (t) => {
  for (const [form, inject] of Object.entries(injections)) {
    const replies: FastifyReply[] = []
    const { app, given } = await injected(t, inject, {
      retrieveUser: async () => {
        // As the host's handlerTimeout would.
        replies.pop()?.code(503).send('too late')
        return { user_id: 1 }
      }
    })
    app.addHook('onRequest', async (_request, reply) => { replies.push(reply) })
    const response = await app.inject({ url: '/', headers: bearer(forge(claims())) })
    assert.deepEqual([response.statusCode, response.body, given], [503, 'too late', []], form)
  }
})

t.test('this, request, reply and what the handler does with them are those of the route', async (t) => {
  for (const [form, inject] of Object.entries(injections)) {
    const app = await build(t)
    const contexts: unknown[] = []
    app.get('/return', inject(app, function (this: unknown) {
      contexts.push(this)
      return 'returned'
    }))
    app.get('/send', inject(app, async (_request, reply) => { await reply.code(201).send('sent') }))
    app.get('/send-without-waiting', inject(app, (_request, reply) => reply.send('sent')))
    app.get('/throw', inject(app, async () => { throw Object.assign(new Error('mine'), { statusCode: 418 }) }))
    app.setErrorHandler(async (error: FastifyError, _request, reply) => reply.code(error.statusCode ?? 500).send(error.message))
    const answers = await Promise.all(['/return', '/send', '/send-without-waiting', '/throw'].map((url) => app.inject(url)))
    assert.deepEqual(answers.map(({ statusCode, body }) => [statusCode, body]), [[200, 'returned'], [201, 'sent'], [200, 'sent'], [418, 'mine']], form)
    assert.deepEqual(contexts, [app], form)
  }
})

t.test('the route generics reach the handler', async (t) => {
  interface Route { Params: { id: string }, Querystring: { full?: boolean } }
  const app = await build(t, { retrieveUser: (_request, { user_id: userId }) => ({ userId }) })
  const schema = { querystring: { type: 'object', properties: { full: { type: 'boolean' } } } }
  app.get<Route>('/bound/:id', { schema }, app.tokenAuth.injectUser<Route>(async ({ params, query }, _reply, user) => ({ id: params.id.toUpperCase(), full: query.full, user })))
  app.get<Route>('/free/:id', { schema }, injectUser<Route>(async ({ params, query }, _reply, user) => ({ id: params.id.toUpperCase(), full: query.full, user })))
  for (const form of ['bound', 'free']) {
    assert.deepEqual((await app.inject({ url: `/${form}/a?full=true`, headers: bearer(forge(claims())) })).json(), { id: 'A', full: true, user: { userId: 1 } }, form)
  }
})

t.test('what is no route handler is refused where it is wrapped', async (t) => {
  const app = await build(t)
  for (const handler of [undefined, null, {}, 'handler']) {
    t.throws(() => app.tokenAuth.injectUser(mistyped<UserRouteHandler<object>>(handler)), { name: 'InvalidConfiguration', message: /injectUser/ })
    t.throws(() => injectUser(mistyped<UserRouteHandler<object>>(handler)), { name: 'InvalidConfiguration', message: /injectUser/ })
  }
})
