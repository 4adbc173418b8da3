/**
 * What a request without a valid token may cost at most, in CPU time: so many times what a refused one without anything costs.
 * No signature is verified here: test/promises/counted-work.test.ts counts those of forged tokens.
 */
import Fastify, { type FastifyInstance, type FastifyRequest, type InjectOptions } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { requestSerializer, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, mistyped, refreshStore, secret, together, warnings } from '../helper.ts'

warnings(t, 'W05')

const budget = 10
const rounds = 9
/** Requests that are measured at once: a single one takes less than the clock can tell. */
const batch = 6

type Subject = () => unknown

/** Microseconds of CPU time: what else runs on the machine takes none of this process. */
async function cost (subject: Subject): Promise<number> {
  const before = process.cpuUsage()
  for (let count = 0; count < batch; count++) await subject()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / batch
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1]!

/** A subject, and what of it is not ours. */
interface Case { subject: Subject, without?: Subject }

/** How many times as much as a refused request each of these costs: medians of rounds in which all of them take turns. */
async function measure (refused: Subject, cases: ReadonlyMap<string, Case>): Promise<Map<string, number>> {
  const nothing = () => {}
  const refusals: number[] = []
  const samples = new Map([...cases.keys()].map((name) => [name, [] as number[]]))
  // The first rounds measure the compiler.
  for (let round = -3; round < rounds; round++) {
    const refusal = await cost(refused)
    if (round >= 0) refusals.push(refusal)
    for (const [name, { subject, without = nothing }] of cases) {
      const sample = await cost(subject) - await cost(without)
      if (round >= 0) samples.get(name)!.push(sample)
    }
  }
  return new Map([...samples].map(([name, values]) => [name, median(values) / median(refusals)]))
}

/** What costs too much is measured again, alone: a collection of garbage may fall on the same subject in many rounds. */
async function check (t: Test, refused: Subject, cases: ReadonlyMap<string, Case>): Promise<void> {
  for (const [name, result] of await measure(refused, cases)) {
    const again = result > budget ? await measure(refused, new Map([[name, cases.get(name)!]])) : undefined
    const times = Math.min(result, again?.get(name) ?? result)
    t.ok(times <= budget, `${name}: ${times.toFixed(1)} times`)
  }
}

/** An application without a log. Not `host` of the other tests, which searches requests and logs for secrets and costs more than they. */
async function service (t: Test, options: Partial<TokenAuthOptions> = {}): Promise<FastifyInstance> {
  const app = Fastify()
  t.teardown(() => app.close())
  const { stored, ...store } = refreshStore()
  await app.register(tokenAuth, together({ secret, authenticate }, store, options))
  app.get('/guarded', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  app.get('/injected', app.tokenAuth.injectUser(async () => 'reached'))
  app.route({ method: ['GET', 'POST'], url: '/bare', handler: async (_request, reply) => reply.code(401).send({ reasons: 'No.' }) })
  for (let count = 0; count < 1000; count++) await app.inject('/guarded')
  return app
}

type Door = readonly [method: 'GET' | 'POST', path: string]
const guarded: Door = ['GET', '/guarded']
const login: Door = ['POST', '/auth']
const refresh: Door = ['POST', '/auth/refresh']
const everyDoor: readonly Door[] = [guarded, ['GET', '/injected'], ['GET', '/auth/verify'], ['GET', '/auth/me'], refresh, login]

/**
 * Sends requests to doors. What Fastify and inject() cost is not ours: the same request to a bare route is taken off.
 * @param requests by what is strange about them; the URL is what follows the path
 */
async function checkDoors (t: Test, app: FastifyInstance, doors: readonly Door[], requests: Readonly<Record<string, InjectOptions>>): Promise<void> {
  const cases = new Map<string, Case>()
  for (const [what, request] of Object.entries(requests)) {
    for (const [method, path] of doors) {
      const send = (to: string): Subject => () => app.inject({ ...request, method, url: `${to}${String(request.url ?? '')}` })
      cases.set(`${method} ${path}, ${what}`, { subject: send(path), without: send('/bare') })
    }
  }
  await check(t, () => app.inject('/guarded'), cases)
}

/** Node.js takes 16 KiB of URL and headers. */
const fill = (text: string, length = 15_000) => text.repeat(Math.floor(length / text.length))
const byText = (texts: readonly string[], request: (text: string) => InjectOptions) =>
  Object.fromEntries(texts.map((text) => [JSON.stringify(text.length > 30 ? `${text.slice(0, 27)}...` : text), request(text)]))

const everywhere = { cookieSet: true, cookieStrict: false, queryStringSet: true, queryStringStrict: false }
const queries = [
  ...['%ff', '%ff&', '%ff=&', '%ff=%ff&', '%', '&', '=', '+&', 'a=&', 'access_token&', 'access_toke&', '%61ccess_toke&', ';', '?'].map((text) => fill(text)),
  ...['%ff', '%41', '%', '+', '+%41', 'a.'].flatMap((text) => [`access_token=${fill(text)}`, `refresh_token=${fill(text)}`])
]

// Promise: security/request-made-cost
t.test('no query string costs more than ten refused requests', async (t) => {
  const app = await service(t, everywhere)
  await checkDoors(t, app, [guarded], byText(queries, (text) => ({ url: `?${text}` })))
  await checkDoors(t, app, everyDoor, byText([fill('%ff&'), fill('&'), `access_token=${fill('%ff')}`], (text) => ({ url: `?${text}` })))
})

// Promise: security/request-made-cost
t.test('no Cookie header costs more than ten refused requests', async (t) => {
  const app = await service(t, { ...everywhere, cookieSplit: true })
  const headers = [
    ...[';', ' ;', '; ', 'a;', '=', '=;', ' ', '\t', '%ff', '%ff;', '"', 'access_token;', 'access_token ;', 'access_token =;', 'access_toke=;'].map((text) => fill(text)),
    ...[' ', '%ff', '%41', 'a.', '=', '; '].flatMap((text) => [`access_token=${fill(text)}`, `access_token=${fill(text)}x`, `access_token${fill(text)}x`]),
    Array.from({ length: 200 }, (_, index) => `cookie_${index}=${'x'.repeat(60)}`).join('; ')
  ]
  await checkDoors(t, app, [guarded], byText(headers, (cookie) => ({ headers: { cookie } })))
  await checkDoors(t, app, everyDoor, byText([fill(' ;'), fill('%ff;'), headers.at(-1)!], (cookie) => ({ headers: { cookie } })))
})

// Promise: security/request-made-cost
t.test('no Authorization header costs more than ten refused requests', async (t) => {
  const app = await service(t)
  const texts = [',', '.', ' ', '\t', 'a.', '..a', 'Bearer ', '%ff', '\u00ff', '='].flatMap((text) => [fill(text), fill(text, 8000)])
  await checkDoors(t, app, [guarded], byText(texts.flatMap((text) => [text, `Bearer ${text}`, `Bearer a.b.${text}`, `Bearer ${text}x`]), (authorization) => ({ headers: { authorization } })))
  await checkDoors(t, app, everyDoor, byText([' ', '.', 'a.'].map((text) => `Bearer ${fill(text, 8000)}`), (authorization) => ({ headers: { authorization } })))
  const headers = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`x-header-name-${index}`, 'x']))
  await checkDoors(t, app, everyDoor, { 'five hundred headers': { headers } })
})

// Promise: security/request-made-cost
t.test('no body of 16 KiB costs more than ten refused requests', async (t) => {
  const app = await service(t)
  const bodies = {
    'a long text': JSON.stringify({ refresh_token: 'x'.repeat(16_000) }),
    escapes: JSON.stringify({ refresh_token: '\\u00ff'.repeat(2_000) }),
    'many members': JSON.stringify(Object.fromEntries(Array.from({ length: 1_200 }, (_, index) => [`key${index}`, 1]))),
    'deep lists': `{"refresh_token":${'['.repeat(7_000)}${']'.repeat(7_000)}}`,
    'many prototypes': `{${Array.from({ length: 700 }, () => '"__proto__":{"a":1}').join()}}`,
    'no JSON': '{'.repeat(16_000)
  }
  const requests = Object.fromEntries(Object.entries(bodies).map(([what, payload]) => [what, { payload, headers: { 'content-type': 'application/json' } }]))
  await checkDoors(t, app, [login, refresh], requests)
})

// Promise: security/request-made-cost
t.test('writing a request into the log costs no more than ten refused requests', async (t) => {
  const app = await service(t)
  const serialize = requestSerializer('token', 'code')
  const cases = new Map<string, Case>()
  for (const text of [...queries, ...['#', '?;', 'access_token=&', 'access_token=', '&token', '?token=&'].map((text) => fill(text))]) {
    const request = mistyped<FastifyRequest>({ url: `/?${text}`, method: 'GET', host: 'host', ip: '127.0.0.1', headers: {} })
    cases.set(text.slice(0, 30), { subject: () => serialize(request) })
  }
  await check(t, () => app.inject('/guarded'), cases)
})
