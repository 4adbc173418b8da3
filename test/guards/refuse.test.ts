/** A refused request leaves one line in the log, at the level `debug`. */
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import { inspect } from 'node:util'
import t, { type Test } from 'tap'
import tokenAuth, { requestSerializer, TokenExpired, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, bearer, build, claims, forge, host, leaksIn, mistyped, now, secret, setClock, warnings } from '../helper.ts'

type Line = Record<string, unknown>
const reached = async () => 'reached'

interface Logged {
  app: FastifyInstance
  /** The lines about refused requests, since it was asked last. */
  taken: () => Line[]
}

async function logged (t: Test, options: Partial<TokenAuthOptions> = {}, level = 'debug'): Promise<Logged> {
  const lines: Line[] = []
  const app = host(t, { logger: { level, serializers: { req: requestSerializer() }, stream: { write: (line: string) => { lines.push(JSON.parse(line)) } } } })
  await app.register(tokenAuth, mistyped({ secret, authenticate, ...options }))
  app.get('/guarded', { onRequest: app.tokenAuth.protect() }, reached)
  app.get('/awaited', async (request, reply) => {
    await app.tokenAuth.protect()(request, reply)
    return 'reached'
  })
  app.get('/scoped', { onRequest: app.tokenAuth.scoped('admin') }, reached)
  app.get('/injected', app.tokenAuth.injectUser(reached))
  return { app, taken: () => lines.splice(0).filter(({ msg }) => msg === 'The request was refused.') }
}

t.test('a refused request leaves one line at the level debug: outcome, reason, where the token was, and since when it has expired', async (t) => {
  warnings(t, 'W05')
  const { app, taken } = await logged(t, { cookieSet: true, cookieStrict: false, queryStringSet: true, queryStringStrict: false })
  const expired = forge(claims({ exp: now() - 3600 }))
  const common = { level: 20, instanceName: 'tokenAuth', statusCode: 401 }
  const cases: ReadonlyArray<readonly [request: object, line: object]> = [
    [{ url: '/guarded' }, { ...common, outcome: 'MissingAuthorizationHeader', reason: undefined, source: undefined }],
    [{ url: '/guarded', headers: bearer('no token') }, { ...common, outcome: 'InvalidToken', reason: String, source: 'header', expiredAt: undefined }],
    [{ url: '/guarded', headers: bearer(expired) }, { ...common, outcome: 'TokenExpired', reason: '"exp" has passed', source: 'header', expiredAt: /^\d{4}-\d\d-\d\dT.*Z$/ }],
    [{ url: '/awaited', query: { access_token: expired } }, { ...common, outcome: 'TokenExpired', source: 'query' }],
    [{ url: '/injected', headers: { cookie: `access_token=${expired}` } }, { ...common, outcome: 'TokenExpired', source: 'cookie' }],
    [{ url: '/scoped', headers: bearer(forge(claims())) }, { ...common, statusCode: 403, outcome: 'InsufficientScope', reason: 'the scopes of the token are not enough for "admin"', source: 'header' }],
    [{ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'wrong' } }, { ...common, outcome: 'AuthenticationFailed', source: undefined }]
  ]
  for (const [request, line] of cases) {
    await app.inject(request)
    const found = taken()
    t.equal(found.length, 1, inspect(request))
    t.match(found[0], { ...line, reqId: String }, inspect(line))
    t.same(leaksIn([JSON.stringify(found)]), [])
  }
  await app.inject({ url: '/guarded', headers: bearer(forge(claims())) })
  t.same(taken(), [], 'a request that passes leaves none')
})

t.test('since when a token has expired is said for every time that a token can have', async (t) => {
  const { app, taken } = await logged(t)
  setClock(t, 1_700_000_000_000)
  for (const [exp, expiredAt] of [[1_699_990_000, '2023-11-14T19:26:40.000Z'], [0, '1970-01-01T00:00:00.000Z'], [-1e300, '1970-01-01T00:00:00.000Z'], [1.5, '1970-01-01T00:00:01.500Z']] as const) {
    t.equal((await app.inject({ url: '/guarded', headers: bearer(forge(claims({ exp }))) })).statusCode, 401)
    const [line] = taken()
    if (line?.outcome === 'TokenExpired') t.equal(line.expiredAt, expiredAt)
    else t.equal(line?.outcome, 'InvalidClaim', 'a time that no token may have')
  }
})

t.test('no line at other levels, for errors of the application, and of loggers that do not say their level', async (t) => {
  const { app, taken } = await logged(t, {}, 'info')
  await app.inject('/guarded')
  t.same(taken(), [])

  const failing = await logged(t, { retrieveUser: () => { throw new Error('no database') }, authenticate: () => { throw new Error('no database') } })
  t.equal((await failing.app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'x' } })).statusCode, 500)
  t.same(failing.taken(), [])

  for (const [level, count] of [['debug', 1], ['trace', 1], ['info', 0], [undefined, 0]] as const) {
    const lines: unknown[] = []
    const note = (line: unknown, message?: string) => { if (message === 'The request was refused.') lines.push(line) }
    const logger = { level, debug: note, info: note, warn: note, error: note, fatal: note, trace: note, silent: note, child: () => logger }
    const own: FastifyInstance = Fastify(mistyped<FastifyServerOptions>({ loggerInstance: logger }))
    t.teardown(() => own.close())
    await own.register(tokenAuth, { secret, authMode: false })
    own.get('/', { onRequest: own.tokenAuth.protect() }, reached)
    t.equal((await own.inject('/')).statusCode, 401)
    t.equal(lines.length, count, String(level))
  }
  const silent = await build(t, { authMode: false })
  silent.get('/', { onRequest: silent.tokenAuth.protect() }, reached)
  t.equal((await silent.inject('/')).statusCode, 401)
})

t.test('a line changes no answer: neither a getter that fails, nor an error of the application that says a token has expired', async (t) => {
  const getter = await logged(t, { getCookieSet: () => { throw new Error('no') }, getDebug: () => false, authenticate: () => { throw new TokenExpired() } })
  const answer = await getter.app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'wrong' } })
  t.ok(answer.statusCode >= 400)
  const garbage = await logged(t, { authenticate: () => { throw new TokenExpired() } })
  await garbage.app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'wrong' }, headers: bearer('no token') })
  t.match(garbage.taken(), [{ outcome: 'TokenExpired', expiredAt: undefined }])
  const thrown = await logged(t, { trusted: () => { throw new TokenExpired() } })
  t.equal((await thrown.app.inject({ url: '/guarded', headers: bearer(forge(claims())) })).statusCode, 401)
  t.match(thrown.taken(), [{ outcome: 'TokenExpired', source: 'header', expiredAt: undefined }])
})
