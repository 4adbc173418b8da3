// @slow
/** What handlers, hooks of the host and other plugins throw, and is no `Error` of this realm. */
import assert from 'node:assert/strict'
import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyReply, InjectOptions, LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import { runInNewContext } from 'node:vm'
import { endpointTable } from '../../lib/endpoints/table.ts'
import { handlerNames } from '../../lib/host/handlers.ts'
import tokenAuth, { Responses, View, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, bearer, build, claims, host, keysFor, mistyped, refreshStore, together, valid } from '../helper.ts'

/** What the README of @fastify/rate-limit gives as `errorResponseBuilder`. */
const builder = () => ({ statusCode: 429, error: 'Too Many Requests', message: 'I only allow 1 request per minute to this website.' })

const foreign = (properties: string): unknown => runInNewContext(`Object.assign(new Error('of another realm'), ${properties})`)

const objects: Readonly<Record<string, () => unknown>> = {
  'a status': () => ({ statusCode: 401 }),
  'a status under its other name': () => ({ status: 403, message: 'no' }),
  'what a rate limit builds': builder,
  'a status of a success': () => ({ statusCode: 200, message: 'fine' }),
  'a status of a failure': () => ({ statusCode: 503, message: 'internal' }),
  'an object without a status': () => ({ message: 'no status' }),
  'an error of another realm': () => foreign('{}'),
  'an error of another realm with a status': () => foreign("{ statusCode: 409, code: 'CONFLICT' }"),
  'an error of this realm': () => Object.assign(new Error('of this realm'), { statusCode: 418 }),
  'a text': () => 'text',
  'a number': () => 7,
  'a list': () => ['list']
}
const falsy: Readonly<Record<string, () => unknown>> = Object.fromEntries([undefined, null, false, 0, -0, NaN, '', 0n].map((value) => [`${Object.is(value, -0) ? '-0' : typeof value} ${String(value)}`, () => value]))
const nothing = () => undefined

/** What is thrown next, and where. Once: Fastify calls some hooks for the answer to an error again. */
class Throwing {
  where = ''
  what: () => unknown = nothing
  throwAt (where: string): void {
    if (this.where !== where) return
    this.where = ''
    throw this.what()
  }
}

class Extra extends View {
  static throwing = new Throwing()
  override async get () { Extra.throwing.throwAt('handler'); return { extra: true } }
  override async post () { Extra.throwing.throwAt('handler'); return { extra: true } }
}

const hooks = ['onRequest', 'preParsing', 'preValidation', 'preHandler', 'preSerialization', 'onSend'] as const
const pair = keysFor('EdDSA')
const asymmetric: Partial<TokenAuthOptions> = mistyped({ ...pair, claimIss: 'us', claimAud: 'us', pathToJwks: '/jwks' })
const headers = bearer(valid('EdDSA', claims({ iss: 'us', aud: 'us' })))

/** Every endpoint, with a request that it accepts, or refuses by itself. */
const requests: Readonly<Record<string, InjectOptions>> = {
  login: { method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } },
  verify: { url: '/auth/verify', headers },
  me: { url: '/auth/me', headers },
  refresh: { method: 'POST', url: '/auth/refresh', headers, payload: { refresh_token: 'stored' } },
  logout: { method: 'POST', url: '/auth/logout', headers },
  'list of sessions': { url: '/auth/sessions', headers },
  'end of a session': { method: 'DELETE', url: '/auth/sessions/bEHfkXeQzv5hVAFDAoxnbw', headers },
  'end of a session by a form': { method: 'POST', url: '/auth/sessions/bEHfkXeQzv5hVAFDAoxnbw/end', headers },
  'end of all sessions': { method: 'DELETE', url: '/auth/sessions', headers },
  'published keys': { url: '/auth/jwks' },
  view: { url: '/auth/extra' },
  'view with a body': { method: 'POST', url: '/auth/extra', payload: {} }
}

const refused = ['refresh', 'refresh without sessions', 'end of a session', 'end of a session by a form']
const withoutJson = ['published keys', 'logout', 'end of all sessions']

type Prepare = (app: FastifyInstance) => unknown

/** An application with endpoints of both kinds of refresh tokens, and a route of its own for each method. */
async function service (t: Test, throwing: Throwing, options: Partial<TokenAuthOptions>, before: Prepare, after: Prepare) {
  const app = host(t)
  for (const hook of hooks) app.addHook(mistyped<'onRequest'>(hook), async () => { throwing.throwAt(hook) })
  app.addHook('preHandler', (_request, _reply, done) => {
    try {
      throwing.throwAt('a callback')
      done()
    } catch (error) {
      done(mistyped(error))
    }
  })
  await before(app)
  await app.register(tokenAuth, together({ authenticate, classViews: [['/extra', Extra]] }, asymmetric, options))
  await after(app)
  const handler = async () => { throwing.throwAt('handler'); return { own: true } }
  for (const method of ['GET', 'POST', 'DELETE'] as const) app.route({ method, url: '/own', handler })
  await app.ready()
  return app
}

const shown = ({ statusCode, body, headers: { 'content-type': type } }: LightMyRequestResponse) => ({ statusCode, body, type })
const none: Prepare = () => {}
const setHandler: Prepare = (app) => {
  app.setErrorHandler((error: unknown, _request, reply: FastifyReply) => { reply.code(418).send({ mine: String(Object(error).message ?? error) }) })
}
const kinds: Readonly<Record<string, readonly [before: Prepare, after: Prepare]>> = {
  'without an error handler': [none, none],
  'with an error handler from before': [setHandler, none],
  'with an error handler that is set later': [none, setHandler]
}

for (const [kind, [before, after]] of Object.entries(kinds)) {
  t.test(`what a hook throws is answered by every endpoint as by a route of the host, ${kind}`, async (t) => {
    const throwing = new Throwing()
    const { stored, ...handlers } = refreshStore()
    const [withSessions, without] = [await service(t, throwing, { sessions: {} }, before, after), await service(t, throwing, handlers, before, after)]
    for (const where of [...hooks, 'a callback']) {
      // Fastify takes a falsy value in a callback for none.
      for (const [what, value] of Object.entries(where === 'a callback' ? objects : { ...objects, ...falsy })) {
        for (const [name, request] of [...Object.entries(requests), ['refresh without sessions', requests.refresh!] as const]) {
          const app = name === 'refresh without sessions' ? without : withSessions
          const answers = []
          for (const ask of [() => app.inject(request), () => app.inject({ ...request, url: '/own' })]) {
            Object.assign(throwing, { where, what: value })
            answers.push(shown(await ask()))
          }
          // What has no JSON body is not serialized.
          const isReached = where !== 'preSerialization' || !withoutJson.includes(name)
          const isSending = where === 'preSerialization' || where === 'onSend'
          // Fastify keeps the status of a refusal that could not be sent.
          if (isSending && refused.includes(name)) assert.ok(Number(answers[0]?.statusCode) >= 400, `${name}: ${where} throws ${what}`)
          else if (isReached) assert.deepEqual(answers[0], answers[1], `${name}: ${where} throws ${what}`)
        }
      }
    }
  })

  t.test(`what a class view throws is answered as by a route of the host, falsy values too, ${kind}`, async (t) => {
    const throwing = new Throwing()
    const app = await service(t, throwing, { sessions: {} }, before, after)
    Extra.throwing = throwing
    for (const [what, value] of Object.entries({ ...objects, ...falsy })) {
      for (const method of ['GET', 'POST'] as const) {
        const answers = []
        for (const url of ['/auth/extra', '/own']) {
          Object.assign(throwing, { where: 'handler', what: value })
          answers.push(shown(await app.inject({ method, url })))
        }
        assert.ok(Number(answers[0]?.statusCode) >= 400, `${method}: ${what}`)
        assert.deepEqual(answers[0], answers[1], `${method}: ${what}`)
      }
    }
  })
}

type Fail = () => never
type Made = (fail: Fail) => Partial<TokenAuthOptions>

/** Every function of the host that an endpoint, a class view or a guard calls, and requests for which it is called. */
const functions: Readonly<Record<string, readonly [kind: 'sessions' | 'stored', made: Made, names: readonly string[]]>> = {
  authenticate: ['sessions', (fail) => ({ authenticate: async () => fail() }), ['login']],
  retrieveUser: ['stored', (fail) => ({ retrieveUser: async () => fail() }), ['me', 'refresh', 'injected']],
  extendPayload: ['stored', (extendPayload) => ({ extendPayload }), ['login', 'refresh']],
  addScopesToPayload: ['sessions', (addScopesToPayload) => ({ scopesEnabled: true, addScopesToPayload }), ['login']],
  storeRefreshToken: ['stored', (storeRefreshToken) => ({ storeRefreshToken }), ['login']],
  retrieveRefreshToken: ['stored', (retrieveRefreshToken) => ({ retrieveRefreshToken }), ['refresh']],
  trusted: ['sessions', (trusted) => ({ trusted }), ['guarded', 'me', 'list of sessions', 'injected']],
  overrideScopeValidator: ['sessions', (overrideScopeValidator) => ({ overrideScopeValidator }), ['scoped']],
  destructureScopes: ['sessions', (destructureScopes) => ({ destructureScopes }), ['scoped']],
  'a setup of a custom claim': ['sessions', (setup) => ({ customClaims: [{ key: 'tenant', setup, verify: () => true }] }), ['login']],
  'a lifetime of sessions': ['sessions', (lifetime) => ({ sessions: { lifetime } }), ['login']],
  'data of sessions': ['sessions', (data) => ({ sessions: { data } }), ['login']],
  generateRefreshToken: ['stored', (generateRefreshToken) => ({ generateRefreshToken }), ['login']],
  'a getter': ['stored', (getLeeway) => ({ getLeeway }), ['guarded', 'me']],
  extendAuthenticate: ['sessions', (fail) => ({ responsesClass: class extends Responses { override extendAuthenticate () { return fail() } } }), ['login']],
  extendVerify: ['sessions', (fail) => ({ responsesClass: class extends Responses { override extendVerify () { return fail() } } }), ['verify']],
  extendRetrieveUser: ['sessions', (fail) => ({ responsesClass: class extends Responses { override extendRetrieveUser () { return fail() } } }), ['me']],
  extendRefresh: ['stored', (fail) => ({ responsesClass: class extends Responses { override extendRefresh () { return fail() } } }), ['refresh']]
}

t.test('the lists above have every endpoint, and every function of the host', async (t) => {
  const app = await build(t, together(asymmetric, { sessions: {} }))
  const settings: Record<string, unknown> = { ...app.tokenAuth.settings }
  const rows = Object.values(endpointTable).map(({ method, path, below = '' }) => `${method} /auth${String(settings[path]).replace(/^\/$/, '')}${below}`)
  const tried = Object.values(requests).map(({ method = 'GET', url }) => `${method} ${String(url).replace(/(?<=sessions\/)[^/]+/, ':id')}`)
  t.same(rows.filter((row) => !tried.includes(row)), [])
  const hooks = Object.getOwnPropertyNames(Responses.prototype).filter((name) => name.startsWith('extend'))
  t.same([...handlerNames, ...hooks].filter((name) => !Object.hasOwn(functions, name)), [])
})

// Promise: security/handler-host-throws
t.test('what any function of the host throws is never a success: with a status of 4xx it is answered as by a route of the host, all else is HandlerFailed', async (t) => {
  const { stored, ...handlers } = refreshStore()
  const guarded: Readonly<Record<string, InjectOptions>> = { ...requests, guarded: { url: '/guarded', headers }, scoped: { url: '/scoped', headers }, injected: { url: '/injected', headers } }
  for (const [name, [kind, made, names]] of Object.entries(functions)) {
    const throwing = new Throwing()
    let value: () => unknown = nothing
    stored.set(1, 'stored')
    const app = await service(t, throwing, together(kind === 'sessions' ? { sessions: {} } : handlers, made(() => { throw value() })), none, (app) => {
      const reached = async () => ({ reached: true })
      app.get('/guarded', { onRequest: app.tokenAuth.protect() }, reached)
      app.get('/scoped', { onRequest: app.tokenAuth.scoped('a') }, reached)
      app.get('/injected', app.tokenAuth.injectUser(reached))
    })
    for (const [what, one] of Object.entries({ ...objects, ...falsy })) {
      value = one
      for (const request of names) {
        const sent = guarded[request]!
        const answer = shown(await app.inject(sent))
        Object.assign(throwing, { where: 'handler', what: one })
        const own = shown(await app.inject({ ...sent, url: '/own' }))
        const label = `${name} of ${request} throws ${what}`
        const { statusCode }: { statusCode?: number } = Object(one())
        if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) assert.deepEqual(answer, own, label)
        else t.match(answer, { statusCode: 500, body: /"code":"TOKEN_AUTH_HANDLER_FAILED"/ }, label)
      }
    }
  }
})

// Promise: security/exceptionresponse-throws-rejects
t.test('what the logger of the host throws while a request is refused, falsy values too, opens no guard', async (t) => {
  let value: () => unknown = nothing
  const app = host(t, { childLoggerFactory: (logger, bindings, options) => Object.assign(logger.child(bindings, options ?? {}), { isLevelEnabled: () => { throw value() } }) })
  await app.register(tokenAuth, together({ authenticate, sessions: {} }, asymmetric))
  const reached = async () => ({ reached: true })
  app.get('/guarded', { onRequest: app.tokenAuth.protect() }, reached)
  app.get('/followed', { onRequest: [app.tokenAuth.protect(), async () => {}] }, reached)
  app.get('/injected', app.tokenAuth.injectUser(reached))
  for (const [what, made] of Object.entries({ ...objects, ...falsy })) {
    value = made
    for (const url of ['/guarded', '/followed', '/injected', '/auth/me', '/auth/sessions']) {
      const { statusCode, body } = await app.inject({ url, headers: bearer('x') })
      assert.ok(statusCode >= 400, `${url}: ${what}`)
      assert.doesNotMatch(body, /reached|"me"|"sessions"/, `${url}: ${what}`)
      if (what in falsy && url !== '/injected') t.match(body, '"TOKEN_AUTH_HANDLER_FAILED"', `${url}: ${what}`)
    }
  }
})

t.test('a rate limit with the builder of its README is 429 at every endpoint, and a limited logout ends nothing', async (t) => {
  const limit: Prepare = (app) => app.register(rateLimit, { max: 1, timeWindow: '1 minute', errorResponseBuilder: builder, keyGenerator: ({ method, url }) => `${method} ${url}` })
  const { stored, ...handlers } = refreshStore()
  const cases: [options: Partial<TokenAuthOptions>, names: string[]][] = [[{ sessions: {} }, Object.keys(requests)], [handlers, ['login', 'refresh']]]
  for (const [options, names] of cases) {
    const app = await service(t, new Throwing(), options, limit, none)
    for (const name of names) {
      await app.inject(requests[name]!)
      const limited = await app.inject(requests[name]!)
      assert.deepEqual([limited.statusCode, limited.json()], [429, builder()], name)
    }
  }
  const app = await service(t, new Throwing(), { sessions: {} }, limit, none)
  const { access_token: token } = (await app.inject(requests.login!)).json()
  await app.inject({ method: 'POST', url: '/auth/logout' })
  t.equal((await app.inject({ method: 'POST', url: '/auth/logout', headers: bearer(token) })).statusCode, 429)
  t.equal((await app.inject({ url: '/auth/me', headers: bearer(token) })).statusCode, 200)
})
