import assert from 'node:assert/strict'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, {
  AuthenticationFailed, HandlerFailed, InsufficientScope, InvalidScopes, MissingRefreshToken, type TokenAuthError, type TokenAuthOptions
} from '../../lib/index.ts'
import { authenticate, bearer, build, caseOf, claims, forge, host, login, mistyped, payloadOf, refreshStore, secret, together, warnings } from '../helper.ts'

const confession = 'password of the database'
const headers = bearer(forge(claims({ scopes: ['user'] })))

/** Each request says what the handlers do with it; every other request goes well. */
const requests = {
  login: (app: FastifyInstance) => login(app),
  refresh: (app: FastifyInstance) => app.inject({ method: 'POST', url: '/auth/refresh', headers, payload: { refresh_token: 'stored' } }),
  me: (app: FastifyInstance) => app.inject({ url: '/auth/me', headers }),
  injected: (app: FastifyInstance) => app.inject({ url: '/injected', headers }),
  scoped: (app: FastifyInstance) => app.inject({ url: '/scoped', headers }),
  computed: (app: FastifyInstance) => app.inject({ url: '/computed', headers })
}
type Name = keyof typeof requests

/** A handler under its name, and the requests that call it. */
interface Subject {
  name: string
  calledBy: Name[]
  options: (handler: () => never) => Partial<TokenAuthOptions>
  /** It must give its answer at once. */
  isSync?: boolean
}

const subjects: Subject[] = [
  { name: 'authenticate', calledBy: ['login'], options: (handler) => ({ authenticate: handler }) },
  { name: 'storeRefreshToken', calledBy: ['login'], options: (handler) => ({ storeRefreshToken: handler }) },
  { name: 'generateRefreshToken', calledBy: ['login'], options: (handler) => ({ generateRefreshToken: handler }) },
  { name: 'retrieveRefreshToken', calledBy: ['refresh'], options: (handler) => ({ retrieveRefreshToken: handler }) },
  { name: 'retrieveUser', calledBy: ['refresh', 'me', 'injected'], options: (handler) => ({ retrieveUser: handler }) },
  { name: 'addScopesToPayload', calledBy: ['login', 'refresh'], options: (handler) => ({ scopesEnabled: true, addScopesToPayload: handler }) },
  { name: 'extendPayload', calledBy: ['login', 'refresh'], options: (handler) => ({ extendPayload: handler }) },
  { name: 'custom claim "own"', calledBy: ['login'], options: (handler) => ({ customClaims: [{ key: 'own', setup: handler, verify: () => true }] }) },
  { name: 'destructureScopes', calledBy: ['scoped', 'computed'], options: (handler) => ({ destructureScopes: handler }) },
  { name: 'overrideScopeValidator', calledBy: ['scoped', 'computed'], options: (handler) => ({ overrideScopeValidator: handler }), isSync: true }
]

interface Service { app: FastifyInstance, stored: Map<unknown, string>, seen: TokenAuthError[], reached: string[] }

async function service (t: Test, options: Partial<TokenAuthOptions>, scopes: () => string = () => 'user'): Promise<Service> {
  const { stored, ...store } = refreshStore()
  stored.set(1, 'stored')
  const seen: TokenAuthError[] = []
  const reached: string[] = []
  const app = host(t)
  app.addHook('onError', async (_request, _reply, error) => { seen.push(mistyped(error)) })
  await app.register(tokenAuth, together({ secret, authenticate, cookieSet: true, cookieStrict: false }, store, options))
  const route = async ({ url }: { url: string }) => { reached.push(url); return 'reached' }
  app.get('/injected', app.tokenAuth.injectUser(route))
  app.get('/scoped', { preHandler: app.tokenAuth.scoped('user') }, route)
  app.get('/computed', { onRequest: app.tokenAuth.scoped(scopes) }, route)
  app.get('/open', async () => 'open')
  return { app, stored, seen, reached }
}

/** That nothing came of a request that failed. */
async function checkNothing (t: Test, { app, stored, reached }: Service, response: Awaited<ReturnType<typeof login>>): Promise<void> {
  t.equal(response.headers['set-cookie'], undefined)
  t.notMatch(response.body, /access_token|refresh_token"/)
  t.same([...stored], [[1, 'stored']])
  t.same(reached, [])
  t.equal((await app.inject('/open')).body, 'open')
}

const ways: Record<string, (error: unknown) => () => never> = {
  throws: (error) => () => { throw error },
  rejects: (error) => mistyped(async () => { throw error })
}

for (const { name, calledBy, options, isSync = false } of subjects) {
  for (const [way, make] of Object.entries(ways).slice(0, isSync ? 1 : 2)) {
    // Promise: specification/refusal-handler-throws
    t.test(`${name} ${way}: a refusal is rendered as one, a 4xx of the host's own passes, anything else is HandlerFailed`, async (t) => {
      for (const request of calledBy) {
        const refusal = new InsufficientScope('In these words.')
        const refused = await service(t, options(make(refusal)))
        const answer = await requests[request](refused.app)
        assert.equal(answer.statusCode, 403, request)
        assert.deepEqual(answer.json(), { reasons: 'In these words.', exception: 'InsufficientScope' }, request)
        t.match(answer.headers['www-authenticate'], 'error="insufficient_scope"')
        assert.deepEqual(refused.seen, [], request)
        await checkNothing(t, refused, answer)

        const own = Object.assign(new Error('Come back later.'), { statusCode: 429, code: 'OWN' })
        const passed = await service(t, options(make(own)))
        const late = await requests[request](passed.app)
        assert.equal(late.statusCode, 429, request)
        t.match(late.json(), { message: 'Come back later.', code: 'OWN' })
        assert.equal(passed.seen[0], own, 'as it is')
        await checkNothing(t, passed, late)

        for (const error of [new Error(confession), confession, Object.assign(new Error(confession), { statusCode: 503, secret }), { statusCode: '429' }, null]) {
          const failed = await service(t, options(make(error)))
          const broken = await requests[request](failed.app)
          assert.equal(broken.statusCode, 500, request)
          assert.deepEqual(broken.json(), {
            statusCode: 500, code: 'TOKEN_AUTH_HANDLER_FAILED', error: 'Internal Server Error', message: `The ${name} handler failed.`
          }, caseOf(request, error))
          assert.ok(failed.seen[0] instanceof HandlerFailed, caseOf(request, error))
          // Loggers show only causes that are errors.
          const { cause }: { cause?: unknown } = failed.seen[0]
          if (error instanceof Error) assert.equal(cause, error, caseOf(request, error))
          else t.match(cause, { message: /^It threw a value that is not an Error: ./, thrown: error })
          await checkNothing(t, failed, broken)
        }
      }
    })
  }
}

t.test('a function given to scoped() is such a handler too', async (t) => {
  for (const make of Object.values(ways)) {
    const failed = await service(t, {}, make(new Error(confession)))
    const broken = await requests.computed(failed.app)
    assert.equal(broken.statusCode, 500, caseOf(make))
    assert.equal(broken.json().message, 'The scoped() handler failed.', caseOf(make))
    await checkNothing(t, failed, broken)
    const refused = await service(t, {}, make(new AuthenticationFailed('No.')))
    const answer = await requests.computed(refused.app)
    assert.equal(answer.statusCode, 401, caseOf(make))
    assert.deepEqual(answer.json(), { reasons: 'No.', exception: 'AuthenticationFailed' }, caseOf(make))
    await checkNothing(t, refused, answer)
  }
})

t.test('a refusal keeps the status of its class, whichever it is', async (t) => {
  for (const [error, status] of [[new MissingRefreshToken('Sent nothing.'), 400], [new AuthenticationFailed('Gone.'), 401], [new InvalidScopes('Wrong.'), 500]] as const) {
    const { app } = await service(t, { retrieveUser: () => { throw error } })
    const response = await requests.me(app)
    assert.equal(response.statusCode, status, caseOf(error))
    assert.deepEqual(response.json(), { reasons: error.message, exception: error.name }, caseOf(error))
  }
})

t.test('a handler of the wrong type of result is HandlerFailed, and nothing of the result is said', async (t) => {
  const wrong: [subject: string, results: unknown[]][] = [
    ['generateRefreshToken', [undefined, null, '', 0, 1, {}, [confession], Buffer.from(confession)]],
    ['retrieveRefreshToken', [1, true, { confession }, [confession]]],
    ['addScopesToPayload', [undefined, null, 1, { confession }, [1], [['user']], [confession, null]]],
    ['extendPayload', [confession, 1, true, [confession], () => confession]]
  ]
  for (const [name, results] of wrong) {
    const { calledBy, options } = subjects.find((subject) => subject.name === name)!
    for (const result of results) {
      const failed = await service(t, options(mistyped(async () => result)))
      const response = await requests[calledBy[0]!](failed.app)
      assert.equal(response.statusCode, 500, caseOf(name, result))
      assert.equal(response.json().message, `The ${name} handler failed.`, caseOf(name, result))
      t.match(failed.seen[0], { cause: { message: /must return/ } })
      t.notMatch(String(mistyped<Error>(failed.seen[0]?.cause).message), confession)
      await checkNothing(t, failed, response)
    }
  }
})

t.test('each handler may be synchronous or asynchronous', async (t) => {
  const calls: string[] = []
  const results: Record<string, unknown> = {
    authenticate: { user_id: 1 },
    storeRefreshToken: undefined,
    retrieveRefreshToken: 'stored',
    retrieveUser: { user_id: 1 },
    addScopesToPayload: ['user'],
    extendPayload: undefined,
    destructureScopes: ['user']
  }
  for (const isAsync of [true, false]) {
    const handlers: Record<string, () => unknown> = {}
    for (const [name, result] of Object.entries(results)) {
      handlers[name] = () => { calls.push(name); return isAsync ? Promise.resolve(result) : result }
    }
    const { app } = await service(t, { scopesEnabled: true, ...handlers })
    for (const [name, request] of Object.entries(requests)) assert.equal((await request(app)).statusCode, 200, name)
  }
  t.same(new Set(calls), new Set(Object.keys(results)))
})

// Promise: specification/retrieve-refresh-token
// Promise: specification/store-refresh-token
t.test('the handlers of refresh tokens get the user id, the token and the request', async (t) => {
  const calls: unknown[][] = []
  const { app } = await service(t, {
    storeRefreshToken: (userId, refreshToken, { url }) => { calls.push(['store', userId, refreshToken, url]) },
    retrieveRefreshToken: (userId, { url }) => { calls.push(['retrieve', userId, url]); return 'stored' }
  })
  const { refresh_token: refreshToken } = (await requests.login(app)).json()
  await requests.refresh(app)
  t.same(calls, [['store', 1, refreshToken, '/auth'], ['retrieve', 1, '/auth/refresh']])
})

t.test('a handler that fails for one request fails for no other', async (t) => {
  let turn = 0
  const { app } = await service(t, { retrieveUser: async () => { if (turn++ % 2 === 0) throw new Error(confession); return { user_id: 1, turn } } })
  const statuses = []
  for (let index = 0; index < 6; index++) statuses.push((await requests.me(app)).statusCode)
  t.same(statuses, [500, 200, 500, 200, 500, 200])
  const together = await Promise.all(Array.from({ length: 20 }, () => requests.me(app)))
  t.equal(together.filter(({ statusCode }) => statusCode === 200).length, 10)
})

t.test('what the prototype of all objects was polluted with is no handler, and gets into no token', async (t) => {
  warnings(t, 'W14')
  const app = await build(t, { scopesEnabled: true })
  app.get('/', { onRequest: app.tokenAuth.scoped(() => 'a') }, async () => 'reached')
  await app.ready()
  const names = ['scopes', 'authTime', 'customClaims', 'retrieveUser', 'addScopesToPayload', 'destructureScopes', 'overrideScopeValidator', 'extendPayload', 'trusted']
  for (const name of names) Reflect.defineProperty(Object.prototype, name, { value: 'polluted', configurable: true, enumerable: true, writable: true })
  try {
    const { access_token: token } = (await login(app)).json()
    const { exp, ...payload } = payloadOf(token)
    t.same(payload, { user_id: 1 })
    t.same((await app.inject({ url: '/auth/me', headers: bearer(token) })).json(), { me: { user_id: 1 } })
    t.same(Object.keys(payloadOf(await app.tokenAuth.generateAccessToken({ user_id: 1 }))), ['user_id', 'exp'])
    t.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, 403)
  } finally {
    for (const name of names) Reflect.deleteProperty(Object.prototype, name)
  }
})
