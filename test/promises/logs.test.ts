// @slow
import assert from 'node:assert/strict'
import type { FastifyInstance, FastifyServerOptions, LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { requestSerializer, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, bearer, build, claims, forge, host, keysFor, leaksIn, login, now, otherSecret, refreshStore, rsaPair, secret, together, users, warnings } from '../helper.ts'

warnings(t, 'W04', 'W05')

type Lines = Record<string, unknown>[]
type Serializer = ReturnType<typeof requestSerializer>

/** What an application logs, at every level. */
function listenIn (req?: Serializer): { lines: Lines, server: FastifyServerOptions } {
  const lines: Lines = []
  const logger = { level: 'trace', stream: { write: (line: string) => { lines.push(JSON.parse(line)) } } }
  return { lines, server: { logger: req === undefined ? logger : { ...logger, serializers: { req } } } }
}

interface Service { app: FastifyInstance, lines: Lines, secrets: Set<string> }

async function service (t: Test, options: Partial<TokenAuthOptions>, req?: Serializer): Promise<Service> {
  const { lines, server } = listenIn(req)
  const { stored, ...store } = refreshStore()
  const app = host(t, server)
  app.setNotFoundHandler((_request, reply) => reply.code(404).send())
  await app.register(tokenAuth, together({ secret, authenticate }, store, options))
  const reached = async () => 'reached'
  app.get('/early', { onRequest: app.tokenAuth.protect() }, reached)
  app.get('/late', { preHandler: app.tokenAuth.protect() }, reached)
  app.get('/scoped', { onRequest: app.tokenAuth.scoped('admin') }, reached)
  app.get('/login-page', { onRequest: app.tokenAuth.protect({ redirectOnFail: true }) }, reached)
  app.get('/injected', app.tokenAuth.injectUser(reached))
  const { privateKey = '' } = keysFor('ES256') as { privateKey?: string }
  return { app, lines, secrets: new Set([secret, otherSecret, privateKey, ...users.map(({ password }) => password), 'a wrong password']) }
}

const carriers: Record<string, (token: string) => object> = {
  header: (token) => ({ headers: bearer(token) }),
  cookie: (token) => ({ headers: { cookie: `access_token=${token}; refresh_token=${token}; session=${token}` } }),
  query: (access) => ({ query: { access_token: access, refresh_token: access } })
}

/** Everything that a client may do, well and badly; what it sends and gets is secret. */
async function traffic ({ app, secrets }: Service, carry: (token: string) => object): Promise<LightMyRequestResponse[]> {
  const answers: LightMyRequestResponse[] = []
  const send = async (request: object): Promise<LightMyRequestResponse> => {
    const answer = await app.inject(request)
    answers.push(answer)
    for (const field of [answer.headers['set-cookie'] ?? []].flat()) secrets.add(field.split(/[=;]/, 2)[1]!)
    return answer
  }
  const post = (url: string, payload: unknown) => ({ method: 'POST', url, payload })
  const tokens: string[] = []
  for (const user of [...users, { username: 'ada', password: 'a wrong password' }]) {
    const answer = await send(post('/auth', user))
    if (answer.statusCode !== 200) continue
    const { access_token: access, refresh_token: refresh } = answer.json()
    tokens.push(access, refresh)
    const carried = { ...carry(access) }
    await send({ ...post('/auth/refresh', { refresh_token: refresh }), ...carried })
    await send({ ...post('/auth/refresh', { refresh_token: refresh }), headers: { ...bearer(access), cookie: `access_token=${access}; refresh_token=${refresh}` } })
    await send({ ...post('/auth/refresh', { refresh_token: refresh }), query: { access_token: access, refresh_token: refresh } })
    await send({ ...post('/auth/refresh', { refresh_token: `${refresh}x` }), ...carried })
    await send({ ...post('/auth/refresh', {}), ...carried })
  }
  await send({ method: 'POST', url: '/auth', headers: { 'content-type': 'application/json' }, payload: `{"password":"a wrong password","token":"${tokens[0]}"` })
  const foreign = [
    forge(claims(), { key: otherSecret }), forge(claims({ exp: now() - 3600 })), forge(claims({ nbf: now() + 3600 })), forge({ user_id: 1 }),
    forge(claims({ scopes: ['admin'] })), forge(claims(), { algorithm: 'HS512' }), `${tokens[0]}x`, String(tokens[0]).slice(0, -9)
  ]
  for (const token of [...tokens, ...foreign]) {
    for (const url of ['/early', '/late', '/scoped', '/login-page', '/injected', '/auth/me', '/auth/verify', '/nowhere']) {
      await send({ url, ...carry(token) })
    }
  }
  // Also by halves, where a message would quote a part.
  for (const token of [...tokens, ...foreign]) for (const part of token.split('.')) if (part.length > 30) secrets.add(part)
  return answers
}

function checkLines ({ lines, secrets }: Service): void {
  const text = JSON.stringify(lines)
  // The header of a token is no secret, and says the same in all of them.
  const headers = new Set([forge({}), forge({}, { algorithm: 'HS512' })].map((token) => token.split('.')[0]))
  for (const value of secrets) if (value !== '' && !headers.has(value)) assert.ok(!text.includes(value), `no ${value.slice(0, 12)}... in the log`)
}

const modes: [name: keyof typeof carriers, options: Partial<TokenAuthOptions>][] = [
  ['header', {}],
  ['header', { debug: true }],
  ['header', { onRefusal: 'throw' }],
  ['header', { verifyExp: false, secret: undefined, ...keysFor('ES256') }],
  ['cookie', { cookieSet: true }],
  ['cookie', { cookieSet: true, cookieSplit: true, debug: true }],
  ['cookie', { cookieSet: true, cookieStrict: false, onRefusal: 'throw' }],
  ['query', { queryStringSet: true }],
  ['query', { queryStringSet: true, queryStringStrict: false, debug: true, cookieSet: true, cookieStrict: false }]
]

for (const [name, options] of modes) {
  // Promise: security/tokens-logs
  // Promise: specification/library-writes-token
  t.test(`no token, secret, password or cookie is logged at any level: ${name} mode, ${Object.keys(options).join(', ') || 'defaults'}`, async (t) => {
    const watched = await service(t, options, requestSerializer())
    const answers = await traffic(watched, carriers[name]!)
    const statuses = new Set(answers.map(({ statusCode }) => statusCode))
    for (const status of [200, 400, 401, 404, ...(options.onRefusal === 'throw' ? [] : [302])]) assert.ok(statuses.has(status), `${status} was among the answers`)
    t.ok(watched.lines.length >= 2 * answers.length, 'the log was on')
    t.ok(watched.secrets.size > 12)
    checkLines(watched)
  })
}

// Promise: security/tokens-logs
t.test('the log of every application of the suite is searched for tokens, secrets, passwords and cookies, and what is in it is found', async (t) => {
  const { stored, ...store } = refreshStore()
  const app = await build(t, { ...store, cookieSet: true, cookieSplit: true })
  const { access_token: access, refresh_token: refresh }: Record<string, string> = (await login(app)).json()
  const session = '0123456789abcdef'.repeat(3)
  await app.inject({ url: '/nowhere', headers: { cookie: `session=${session}` } })
  const { privateKey } = rsaPair()
  const made = [secret, otherSecret, privateKey, forge(claims()), access, refresh, access?.split('.')[2], session, ...users.map(({ password }) => password)]
  for (const value of made) assert.notEqual(leaksIn([JSON.stringify({ msg: `before ${value} after` })]).length, 0, String(value).slice(0, 30))
  t.same(leaksIn([JSON.stringify({ req: { url: '/auth?access_token=[redacted]' }, reqId: 'req-1', msg: 'incoming request' })]), [])

  for (const logger of [undefined, { level: 'info' }]) {
    const endings: (() => unknown)[] = []
    const careless = host({ teardown: (end) => { endings.unshift(end) } }, logger && { logger })
    careless.log.info({ nested: { access } }, 'a slip')
    await t.rejects(async () => { for (const end of endings) await end() }, /secret, and it was logged/, 'a test in which that happens fails')
  }
})

t.test("a mistake of a handler is logged with a trace, and without the user's data", async (t) => {
  const watched = await service(t, { authenticate: () => ({ password: 'lovelace', user_id: { $ne: 'hopper' } }) })
  t.equal((await watched.app.inject({ method: 'POST', url: '/auth', payload: { password: 'a wrong password' } })).statusCode, 500)
  const errors = watched.lines.filter(({ level }) => Number(level) >= 50)
  t.match(errors, [{ err: { type: 'InvalidUserObject', code: 'TOKEN_AUTH_INVALID_USER_OBJECT', stack: /\n {4}at / } }])
  t.equal(errors.length, 1)
  checkLines(watched)
})

// Promise: security/user-enumeration
t.test('refusals are logged no louder than every request is, each in the same way', async (t) => {
  const watched = await service(t, {})
  const before = watched.lines.length
  for (const password of ['a wrong password', 'another']) await watched.app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password } })
  await watched.app.inject({ method: 'POST', url: '/auth', payload: { username: 'nobody', password: 'lovelace' } })
  await watched.app.inject('/early')
  const levels = watched.lines.slice(before).map(({ level, msg }) => `${String(level)} ${String(msg)}`)
  t.same(levels, Array.from({ length: 4 }, () => ['30 incoming request', '20 The request was refused.', '30 request completed']).flat())
})
