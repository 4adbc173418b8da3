// @slow
import type { FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth from '../../lib/index.ts'
import { authenticate, bearer, claims, forge, host, otherSecret, secret } from '../helper.ts'

const total = 10_000

/** Turns of the event loop that differ from request to request, so that requests overtake each other. */
async function dawdle (turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve))
}

const numberOf = (request: FastifyRequest) => Number(request.headers['x-number'])

/** What a request is, and what it must be answered. */
interface Case { url: string, headers: Record<string, string>, status: number, answer?: Record<string, unknown> }

const tenantSecret = (tenant: unknown) => `the secret of the tenant ${String(tenant)}, of more than sixty-four bytes: 0123456789abcdef`

/** Ten kinds of requests, over five instances, with a user of their own each. */
function makeCase (number: number): Case {
  const headers = { 'x-number': String(number) }
  const user = `user ${number}`
  const tenant = String(number % 7)
  const header = (payload: Record<string, unknown>, key = secret) => ({ ...headers, ...bearer(forge(claims({ number, ...payload }), { key })) })
  switch (number % 10) {
    case 0: return { url: '/outer', headers: header({ user_id: user }), status: 200, answer: { userId: user, number, source: 'header', name: `retrieved ${user}` } }
    case 1: return { url: '/outer', headers: header({ user_id: user }, otherSecret), status: 401 }
    case 2: return { url: '/staff', headers: header({ employee: user }, otherSecret), status: 200, answer: { userId: user, number, source: 'header' } }
    case 3: return { url: '/staff', headers: header({ user_id: user }, otherSecret), status: 401 }
    case 4: return { url: '/inner/route', headers: header({ user_id: user, iss: 'inner' }, tenantSecret(tenant)), status: 401 }
    case 5: return { url: '/inner/route', headers: { ...header({ user_id: user, iss: 'inner' }, tenantSecret(tenant)), 'x-tenant': tenant }, status: 200, answer: { userId: user, number, source: 'header' } }
    case 6: return { url: '/cookie', headers: { ...headers, cookie: `access_token=${forge(claims({ number, user_id: user }))}`, ...bearer(forge(claims({ user_id: 'another' }))) }, status: 200, answer: { userId: user, number, source: 'cookie' } }
    case 7: return { url: '/cookie', headers: header({ user_id: user }), status: 401 }
    case 8: return { url: '/scoped', headers: header({ user_id: user, scopes: [`s${number % 3}`] }), status: number % 3 === 0 ? 200 : 403, answer: { userId: user, number, source: 'header' } }
    default: return { url: '/both', headers: { ...header({ user_id: user }), 'x-staff': `Bearer ${forge(claims({ employee: `staff ${number}` }), { key: otherSecret })}` }, status: 200, answer: { userId: user, staff: `staff ${number}`, number, source: 'header' } }
  }
}

async function service (t: Test) {
  const app = host(t)
  await app.register(tokenAuth, { secret, authenticate, retrieveUser: async (request, payload) => { await dawdle(numberOf(request) % 3); return { user_id: payload.user_id, name: `retrieved ${String(payload.user_id)}` } } })
  await app.register(tokenAuth, { instanceName: 'staff', urlPrefix: '/staff-auth', secret: otherSecret, userId: 'employee', authenticate })
  // On `/both`: another instance, whose token is in another header.
  await app.register(tokenAuth, { instanceName: 'partner', urlPrefix: '/partner-auth', secret: otherSecret, userId: 'employee', authorizationHeader: 'x-staff', authenticate })
  await app.register(async (inner) => {
    // The same name in a nested context, with a key that is computed from the request.
    await inner.register(tokenAuth, {
      authMode: false,
      claimIss: 'inner',
      getSecret: async (request) => { await dawdle(numberOf(request) % 4); return tenantSecret(request.headers['x-tenant']) }
    })
    inner.get('/route', { onRequest: inner.tokenAuth.protect() }, describe('tokenAuth'))
  }, { prefix: '/inner' })

  /** Answers what the request knows of itself, after others had their turn, and spoils its own payload. */
  function describe (name: 'tokenAuth' | 'staff', staff?: 'partner') {
    return async (request: FastifyRequest) => {
      const known = request[name]
      const before = known.payload
      const user = name === 'tokenAuth' && request.url === '/outer' ? await known.user() : undefined
      await dawdle(numberOf(request) % 5)
      const answer = {
        userId: known.userId,
        number: known.payload?.number,
        source: known.source,
        ...(user !== undefined && { name: Reflect.get(user ?? {}, 'name') }),
        ...(staff !== undefined && { staff: request[staff].userId })
      }
      if (before !== null) Object.assign(before, { number: -1, user_id: 'spoiled', employee: 'spoiled' })
      return answer
    }
  }
  app.get('/outer', { preHandler: app.tokenAuth.protect() }, describe('tokenAuth'))
  app.get('/staff', { preHandler: app.staff.protect() }, describe('staff'))
  app.get('/cookie', { preHandler: app.tokenAuth.protect({ cookieSet: true }) }, describe('tokenAuth'))
  app.get('/scoped', { preHandler: app.tokenAuth.scoped(async (request) => { await dawdle(numberOf(request) % 3); return 's0' }) }, describe('tokenAuth'))
  app.get('/both', { preHandler: [app.partner.protect(), app.tokenAuth.protect()] }, describe('tokenAuth', 'partner'))
  return app
}

// Promise: security/several-instances-nested
t.test('ten thousand concurrent requests over mixed instances, overrides, getters and users: each is answered as itself', async (t) => {
  const app = await service(t)
  const wrong: unknown[] = []
  const counts = new Map<number, number>()
  await Promise.all(Array.from({ length: total }, async (_, number) => {
    const expected = makeCase(number)
    const response = await app.inject({ url: expected.url, headers: expected.headers })
    counts.set(response.statusCode, (counts.get(response.statusCode) ?? 0) + 1)
    const isRight = response.statusCode === expected.status &&
      (expected.status !== 200 || JSON.stringify(sorted(response.json())) === JSON.stringify(sorted(expected.answer ?? {})))
    if (!isRight) wrong.push({ number, expected, status: response.statusCode, body: response.payload })
  }))
  t.same(wrong.slice(0, 3), [])
  t.equal(wrong.length, 0)
  t.same([...counts.keys()].sort(), [200, 401, 403])
  t.equal([...counts.values()].reduce((sum, count) => sum + count), total)
})

const sorted = (object: Record<string, unknown>) => Object.entries(object).sort(([a], [b]) => a.localeCompare(b))

// Promise: security/several-instances-nested
t.test('one token in a thousand concurrent requests: what one does to its payload no other sees', async (t) => {
  const app = await service(t)
  const token = forge(claims({ user_id: 'shared', number: 1, nested: { list: [{ deep: 1 }] } }))
  app.get('/nested', { preHandler: app.tokenAuth.protect() }, async (request) => {
    const { payload } = request.tokenAuth
    const answer = JSON.stringify(payload)
    const nested: unknown = Reflect.get(payload ?? {}, 'nested')
    if (typeof nested === 'object' && nested !== null) Reflect.set(nested, 'list', [numberOf(request)])
    await dawdle(1)
    return answer
  })
  const answers = await Promise.all(Array.from({ length: 1000 }, async (_, index) => {
    return (await app.inject({ url: '/nested', headers: { ...bearer(token), 'x-number': String(index) } })).payload
  }))
  t.equal(new Set(answers).size, 1)
  t.match(answers[0], /"list":\[\{"deep":1\}\]/)
})

// Promise: security/3-12-use
// Promise: security/several-instances-nested
t.test('a token that one instance remembers is a stranger to an instance with another key', async (t) => {
  const app = await service(t)
  const headers = bearer(forge(claims({ employee: 'x', user_id: 'x' })))
  for (let round = 0; round < 3; round++) {
    const answers = await Promise.all(['/outer', '/staff', '/outer', '/staff'].map((url) => app.inject({ url, headers })))
    t.same(answers.map(({ statusCode }) => statusCode), [200, 401, 200, 401])
  }
})
