// @slow
/** The client for browsers: its rules, with a browser made of a cookie jar and the API of Fastify. test/outside/ has real ones. */
import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { createClient } from '../lib/client.ts'
import type { TokenAuthError, TokenAuthOptions } from '../lib/index.ts'
import { caseOf, holdTimers, mistyped, now, setClock, together, users } from './helper.ts'
import { received, WatchedStore } from './sessions/helper.ts'
import {
  browse, Channel, cookieOptions, disconnected, expiredTab, later, modes, openTab, origin, question, refresh, script, service, settled, sharedStorage, unavailable, watchLimits, type Service
} from './tabs.ts'

const [ada, grace] = users

/** Who answers refused requests. */
const answerers: readonly [string, TokenAuthOptions['onRefusal'], ((app: FastifyInstance) => void)?][] = [
  ['the plugin', 'reply'],
  ['the error handler of Fastify', 'throw'],
  ['an error handler with code and message', 'throw', (app) => {
    app.setErrorHandler<TokenAuthError>(({ statusCode, headers, code, message }, _request, reply) => reply.code(statusCode).headers(headers).send({ code, message }))
  }]
]

t.test('it imports nothing', async (t) => {
  t.notMatch(script, /\bimport\b/)
})

for (const [mode, serverOptions, options, renewing] of modes) {
  for (const hasLocks of [true, false]) {
    t.test(`mode ${mode}, ${hasLocks ? 'two tabs with' : 'one tab without'} Web Locks: requests after expiry are repeated after one refresh`, async (t) => {
      const setTime = setClock(t, now())
      const served = await service(t, serverOptions)
      browse(t, served, { hasLocks })
      const storage = sharedStorage()
      const tabs = Array.from({ length: hasLocks ? 2 : 1 }, () => openTab({ ...options, storage }))
      t.equal((await tabs[0]!.client.login(ada!)).status, 200)
      served.log.length = 0
      setTime(now() + later)
      const requests = tabs.flatMap(({ status }) => Array.from({ length: 50 }, () => status()))
      t.strictSame(await Promise.all(requests), requests.map(() => 200))
      t.equal(served.renewals(), 1)
      t.equal(served.count(question), tabs.length)
      for (const { reasons } of tabs) assert.deepEqual(reasons, [], caseOf(reasons))
    })
  }

  t.test(`mode ${mode}: a service that is down logs nobody out: the client waits as long as Retry-After says, and tries again`, async (t) => {
    const setTime = setClock(t, now())
    const served = await service(t, serverOptions)
    browse(t, served)
    const release = holdTimers(t, 3000)
    const releaseDefault = holdTimers(t, 5000)
    const { client, reasons, status } = openTab(options)
    await client.login(ada!)
    setTime(now() + later)
    const failures = [unavailable('3'), disconnected]
    served.broken.set(renewing, () => {
      const next = failures.shift()
      if (failures.length === 0) served.broken.clear()
      return next!()
    })
    t.equal(await settled(status(), () => { release(); releaseDefault() }), 200)
    t.strictSame(failures, [])
    t.strictSame(reasons, [])
  })

  t.test(`mode ${mode}: a service that stays down is told as its own response or error, the tokens are kept, and the next request tries again`, async (t) => {
    const { served, release, client, reasons, status } = await expiredTab(t, serverOptions, options)
    served.broken.set(renewing, unavailable())
    const responses = await settled(Promise.all([client.fetch('/private'), client.fetch('/private')]), release)
    t.strictSame(await Promise.all(responses.map(async (response) => [response.status, await response.text()])), [[503, 'down'], [503, 'down']])
    served.broken.set(renewing, unavailable('3600'))
    t.equal(await status(), 503, 'a service that is down for long is not waited for')
    served.broken.set(renewing, () => new Response(null, { status: 500 }))
    t.equal(await status(), 500)
    served.broken.set(renewing, disconnected)
    await t.rejects(settled(status(), release), TypeError)
    t.strictSame(reasons, [])
    served.broken.clear()
    t.equal(await status(), 200)
  })

  for (const [retryAfter, waits] of [['10', [10_000, 10_000]], ['15', [15_000, 15_000]], ['16', [16_000]], ['30', [30_000]], ['31', []], ['Wed, 21 Oct 2026 07:28:00 GMT', [5000, 5000]]] as const) {
    t.test(`mode ${mode}: the last try of a renewal begins within 30 seconds, Retry-After: ${retryAfter}`, async (t) => {
      const setTime = setClock(t, now())
      const served = await service(t, serverOptions)
      browse(t, served)
      const { client, status } = openTab(options)
      await client.login(ada!)
      setTime(now() + later)
      let requests = 0
      served.broken.set(renewing, () => { requests++; return unavailable(retryAfter)() })
      const waited: number[] = []
      const { setTimeout: set } = globalThis
      const pauses: readonly number[] = waits
      t.teardown(() => { globalThis.setTimeout = set })
      Object.assign(globalThis, {
        setTimeout: (callback: () => void, after: number, ...given: unknown[]): unknown => {
          if (!pauses.includes(after)) return Reflect.apply(set, undefined, [callback, after, ...given])
          waited.push(after)
          setTime(now() + after / 1000)
          return callback()
        }
      })
      t.equal(await status(), 503)
      t.strictSame(waited, waits)
      t.equal(requests, waits.length + 1)
    })
  }

  t.test(`mode ${mode}: after a pause that took longer than it should, as in a frozen tab, there is no further try`, async (t) => {
    const { setTime, served, release, reasons, status } = await expiredTab(t, serverOptions, options)
    let requests = 0
    served.broken.set(renewing, () => { requests++; return unavailable()() })
    t.equal(await settled(status(), () => {
      if (requests === 1) setTime(now() + 31)
      release()
    }), 503)
    t.equal(requests, 1)
    served.broken.clear()
    t.equal(await status(), 200)
    t.strictSame(reasons, [])
  })

  t.test(`mode ${mode}: a connection that breaks within the response to a refresh is tried again`, async (t) => {
    const { served, release, reasons, status } = await expiredTab(t, serverOptions, options)
    served.broken.set(renewing, () => {
      served.broken.clear()
      return new Response(new ReadableStream({ pull: (controller) => controller.error(new TypeError('terminated')) }))
    })
    t.equal(await settled(status(), release), 200)
    t.equal(served.renewals(), 1)
    t.strictSame(reasons, [])
  })

  t.test(`mode ${mode}: a tab that keeps its turn does not stop the others`, async (t) => {
    const setTime = setClock(t, now())
    const served = await service(t, serverOptions)
    browse(t, served, { hasTurns: false })
    const { client, status } = openTab(options)
    await client.login(ada!)
    setTime(now() + later)
    t.equal(await status(), 200)
    t.equal(served.renewals(), 1)
  })

  t.test(`mode ${mode}: a request that is aborted does not wait for the renewal, which goes on`, async (t) => {
    const setTime = setClock(t, now())
    const served = await service(t, serverOptions)
    browse(t, served)
    const { client, status } = openTab(options)
    await client.login(ada!)
    for (const request of [
      (signal: AbortSignal) => client.fetch('/private', { signal }),
      (signal: AbortSignal) => client.fetch(new Request(`${origin}/private`, { signal }))
    ]) {
      setTime(now() + later)
      const before = served.renewals()
      const controller = new AbortController()
      let goOn = () => {}
      const waiting = new Promise<void>((resolve) => { goOn = resolve })
      served.gate.beforeRefresh = () => { controller.abort(); return waiting }
      await t.rejects(request(controller.signal), { name: 'AbortError' })
      goOn()
      assert.equal(await status(), 200, caseOf(request))
      assert.equal(served.renewals(), before + 1, caseOf(request))
    }
  })

  t.test(`mode ${mode}: other names of paths and tokens are options`, async (t) => {
    const setTime = setClock(t, now())
    const names = { pathToAuthenticate: '/in', pathToRetrieveUser: '/who', pathToRefresh: '/again', pathToLogout: '/out', accessTokenName: 'access', refreshTokenName: 'refresh' }
    const served = await service(t, together(serverOptions, names, { urlPrefix: '' }))
    browse(t, served)
    const { client, reasons, status } = openTab({ ...options, ...names, prefix: '' })
    await client.login(ada!)
    setTime(now() + later)
    t.equal(await status(), 200)
    t.equal(await client.logout(), true)
    t.strictSame(reasons, ['logout'])
    t.strictSame(served.log, ['POST /in', ...mode === 'cookie' ? ['GET /who?optional=true'] : [], 'GET /private', 'GET /who?optional=true', ...mode === 'header' ? ['POST /again'] : [], 'GET /private', 'POST /out'])
  })

  t.test(`mode ${mode}: paths are as the service has them, also where slashes count`, async (t) => {
    for (const [prefix, path] of [['/auth', 'POST /auth'], ['', 'POST /']]) {
      const served = await service(t, together(serverOptions, { urlPrefix: prefix!, strictSlashes: true }))
      browse(t, served)
      assert.equal((await openTab({ ...options, prefix }).client.login(ada!)).status, 200, caseOf(prefix))
      assert.equal(served.log[0], path, caseOf(prefix))
    }
  })

  t.test(`mode ${mode}: the body of a refusal whose request is repeated is cancelled, for which browsers wait, also one that cannot be`, async (t) => {
    const setTime = setClock(t, now())
    const served = await service(t, serverOptions)
    browse(t, served)
    const { client } = openTab(options)
    await client.login(ada!)
    let cancelled = 0
    const refusal = () => new Response(new ReadableStream({ cancel () { cancelled++ } }), { status: 401 })
    const locked = refusal()
    locked.body?.getReader()
    for (const [given, expected] of [[refusal(), 1], [locked, 1], [new Response(null, { status: 401 }), 1]] as const) {
      const answers = [given, Response.json('repeated')]
      served.broken.set('/private', () => answers.shift()!)
      setTime(now() + later)
      assert.equal(await (await client.fetch('/private')).json(), 'repeated', mode)
      assert.equal(cancelled, expected)
    }
  })

  t.test(`mode ${mode}: from a service without refresh tokens comes the 401, and no token is discarded`, async (t) => {
    const setTime = setClock(t, now())
    const served = await service(t, together(serverOptions, mistyped({ sessions: undefined })))
    const { cookies } = browse(t, served)
    const storage = sharedStorage()
    const { client, status } = openTab({ ...options, storage })
    await client.login(ada!)
    setTime(now() + later)
    t.equal(await status(), 401)
    t.equal(storage.values.size + cookies.size, 1)
  })

  for (const [answerer, onRefusal, answer] of answerers) {
    t.test(`mode ${mode}: the reason says whether the session ended, expired, or never was, if ${answerer} answers`, async (t) => {
      const setTime = setClock(t, now())
      const served = await service(t, together(serverOptions, { onRefusal }), answer)
      browse(t, served)
      const { client, reasons, status } = openTab(options)
      t.equal(await status(), 401)
      t.strictSame(reasons, ['absent'])
      await client.login(ada!)
      await served.app.tokenAuth.sessions.endAll(1)
      t.equal(await status(), 401)
      t.strictSame(reasons, ['absent', 'ended'])
      await client.login(ada!)
      setTime(now() + 365 * 86_400)
      t.strictSame(await Promise.all([status(), status()]), [401, 401])
      t.strictSame(reasons, ['absent', 'ended', 'expired'])
    })
  }

  t.test(`mode ${mode}: a logout ends the session, and logs out the other tabs`, async (t) => {
    const served = await service(t, serverOptions)
    const { cookies } = browse(t, served)
    const storage = sharedStorage()
    const [one, other] = [openTab({ ...options, storage }), openTab({ ...options, storage })]
    await one.client.login(ada!)
    t.equal(await other.status(), 200)
    t.equal(await one.client.logout(), true)
    t.strictSame([one.reasons, other.reasons], [['logout'], ['logout']])
    t.strictSame(await served.app.tokenAuth.sessions.list(1), [])
    t.strictSame([storage.values.size, cookies.size], [0, 0])
  })

  t.test(`mode ${mode}: a 401 that another token would not change is passed on, without a refresh and without a logout`, async (t) => {
    const setTime = setClock(t, now())
    const served = await service(t, serverOptions)
    browse(t, served)
    const { client, reasons, status } = openTab(options)
    await client.login(ada!)
    setTime(now() + 600)
    t.equal(await status('/recent'), 401)
    t.equal((await client.login({ username: 'ada', password: 'wrong' })).status, 401)
    t.equal(served.renewals(), 0)
    t.strictSame(reasons, [])
    t.equal(await status(), 200)
  })

  t.test(`mode ${mode}: a body is repeated as a whole, or not at all if it can be read only once`, async (t) => {
    const setTime = setClock(t, now())
    const served = await service(t, serverOptions)
    browse(t, served)
    const { client } = openTab(options)
    await client.login(ada!)
    const headers = { 'content-type': 'text/plain' }
    const body = () => new Blob(['one ', 'body']).stream()
    const requests = [
      () => client.fetch('/echo', { method: 'POST', headers, body: 'one body' }),
      () => client.fetch(new URL('/echo', origin), { method: 'POST', headers, body: new Blob(['one body']) }),
      () => client.fetch(new Request(`${origin}/echo`, { method: 'POST', headers, body: 'one body' })),
      () => client.fetch(new Request(`${origin}/echo`, mistyped({ method: 'POST', headers, body: body(), duplex: 'half' })))
    ]
    for (const [index, request] of requests.entries()) {
      setTime(now() + later)
      assert.equal(await (await request()).text(), 'one body', caseOf(index))
      assert.equal(served.renewals(), index + 1, caseOf(index))
    }
    setTime(now() + later)
    const stream = () => client.fetch('/echo', mistyped({ method: 'POST', headers, body: body(), duplex: 'half' }))
    t.equal((await stream()).status, 401)
    t.equal(await (await stream()).text(), 'one body', 'the next request has the new token')
    t.equal(served.renewals(), requests.length + 1)
  })
}

t.test('options that cannot be right are refused with what is allowed', async (t) => {
  const served = await service(t)
  browse(t, served)
  for (const baseUrl of ['/api', '', 'api.example.com', 'null', 'https://api.example.com/v1', 'https://api.example.com/?', 'https://ada@api.example.com', 'file:///srv']) {
    t.throws(() => createClient({ baseUrl }), {
      name: 'TypeError',
      message: `"baseUrl" must be an origin like "https://example.com", not "${baseUrl}".`
    })
  }
  for (const [options, unknown] of [[{ baseURL: origin }, 'baseURL'], [origin, '0'], [{ url: undefined }, 'url']]) {
    t.throws(() => createClient(mistyped(options)), { name: 'TypeError', message: `Unknown option "${unknown}" of createClient(). See ClientOptions.` })
  }
  for (const mode of ['header', 'cookie'] as const) {
    const storage = { getItem: async () => null, setItem: async () => {}, removeItem: async () => {} }
    t.throws(() => createClient(mistyped({ baseUrl: 'https://a.example', mode, storage })), { name: 'TypeError', message: '"storage" must not return promises.' })
  }
  t.doesNotThrow(() => createClient({ baseUrl: 'https://a.example', mode: 'header', storage: { getItem: () => { throw new Error('not allowed') }, setItem: () => {}, removeItem: () => {} } }).close())
  t.throws(() => createClient(mistyped({ mode: 'cookies' })), { name: 'TypeError', message: '"mode" must be "cookie" or "header", not "cookies".' })
  for (const baseUrl of [undefined, 'https://api.example.com', 'https://api.example.com/', 'http://localhost:3000', 'http://[::1]']) t.doesNotThrow(() => createClient({ baseUrl, mode: undefined }))
})

t.test('a client that is closed hears and says nothing, and another takes its place; a logout that it has begun is told to the other tabs', async (t) => {
  const served = await service(t, cookieOptions)
  browse(t, served)
  const [closed, other] = [openTab(), openTab()]
  await closed.client.login(ada!)
  closed.client.close()
  closed.client.close()
  await other.client.logout()
  t.equal(await closed.status(), 401)
  t.strictSame([closed.reasons, other.reasons], [[], ['logout']])

  const next = openTab()
  await next.client.login(ada!)
  const logout = next.client.logout()
  next.client.close()
  t.equal(await logout, true)
  t.strictSame([next.reasons, other.reasons], [[], ['logout', 'logout']])

  browse(t, await service(t))
  const [deaf, another] = [openTab({ mode: 'header' }), openTab({ mode: 'header' })]
  await deaf.client.login(ada!)
  deaf.client.close()
  await another.client.logout()
  t.equal(await deaf.status(), 200, 'it keeps its tokens')
})

t.test('a login waits 30 seconds for its response, and a logout with cookies 6', async (t) => {
  const served = await service(t, cookieOptions)
  browse(t, served)
  const { limits, giveUp } = watchLimits(t)
  const { client, reasons, status } = openTab()
  await client.login(ada!)
  t.ok(limits.splice(0).includes(30_000))
  const hang = (signal: AbortSignal) => new Promise<Response>((_resolve, reject) => { reject(signal.reason) })
  served.broken.set('/auth/logout', hang)
  giveUp(6000)
  await t.rejects(client.logout(), { name: 'TimeoutError' })
  t.strictSame([limits.at(-1), reasons, await status()], [6000, [], 200])
  served.broken.set('/auth', hang)
  giveUp(30_000)
  await t.rejects(client.login(ada!), { name: 'TimeoutError' })
})

t.test('tokens are sent to the service alone', async (t) => {
  const served = await service(t)
  browse(t, served)
  const { client } = openTab({ mode: 'header' })
  await client.login(ada!)
  for (const input of ['https://elsewhere.example/', new URL('http://shop.example/'), new Request('https://elsewhere.example/')]) {
    const response = await client.fetch(input, { headers: { 'x-own': '1' } })
    assert.deepEqual(await response.json(), { 'x-own': '1' }, caseOf(input))
  }
})

t.test('in cookie mode without cookieStrict the reason says that nobody logged in, too', async (t) => {
  const served = await service(t, together(cookieOptions, { cookieStrict: false }))
  browse(t, served)
  const { reasons, status } = openTab()
  t.equal(await status(), 401)
  t.strictSame(reasons, ['absent'])
})

t.test('in header mode a login to a service that does not send the token where the client looks for it is an error without tokens', async (t) => {
  const served = await service(t, { accessTokenName: 'accessToken' })
  browse(t, served)
  const storage = sharedStorage()
  const { client } = openTab({ mode: 'header', storage })
  await t.rejects(client.login(ada!), {
    message: 'The response has no "access_token".'
  })
  t.equal(storage.values.size, 0)
})

t.test('in header mode a login ends the session of the login before', async (t) => {
  const served = await service(t)
  browse(t, served)
  const { client, reasons, status } = openTab({ mode: 'header' })
  await client.login(ada!)
  const [before] = await served.app.tokenAuth.sessions.list(1)
  await client.login(ada!)
  while ((await served.app.tokenAuth.sessions.list(1)).length > 1) await turn()
  t.not((await served.app.tokenAuth.sessions.list(1))[0]!.id, before!.id)
  t.equal(await status(), 200)
  t.strictSame(reasons, [])
})

t.test('in cookie mode nothing is kept where scripts can read it', async (t) => {
  const served = await service(t, cookieOptions)
  browse(t, served)
  const storage = sharedStorage()
  const { client } = openTab({ storage })
  await client.login(ada!)
  t.equal(storage.values.size, 0)
})

t.test('in cookie mode a logout that does not reach the service is an error, and the user is still logged in', async (t) => {
  const served = await service(t, cookieOptions)
  browse(t, served)
  const [one, other] = [openTab(), openTab()]
  await one.client.login(ada!)
  served.broken.set('/auth/logout', disconnected)
  await t.rejects(one.client.logout(), TypeError)
  served.broken.set('/auth/logout', () => new Response(null, { status: 429 }))
  await t.rejects(one.client.logout(), { message: 'Still logged in: the logout failed (429).' })
  t.strictSame([one.reasons, other.reasons], [[], []])
  t.equal(await one.status(), 200)
})

t.test('in cookie mode a logout is one only if the cookies are gone, whoever answers', async (t) => {
  const store = new WatchedStore()
  const served = await service(t, together(cookieOptions, { sessions: { store } }))
  const { cookies, outliving } = browse(t, served)
  const { client, reasons } = openTab()
  await client.login(ada!)
  served.broken.set('/auth/logout', unavailable())
  await t.rejects(client.logout(), { message: 'Still logged in: the logout failed (503).' }, 'a proxy clears no cookies')
  t.strictSame(reasons, [])
  t.not(cookies.size, 0)
  served.broken.clear()
  store.fail(new Error('down'))
  t.equal(await client.logout(), false, 'the service cleared the cookies, and could not end the session')
  t.equal(cookies.size, 0)
  t.strictSame(reasons, ['logout'])
  t.equal(await client.logout(), true, 'nobody is logged in')
  t.strictSame([...new Set(outliving)], ['/auth', '/auth/me', '/auth/logout'], 'a page that is left does not take the request with it')
})

/** What a renewal waits for, and what ends it. */
const waits: ReadonlyArray<readonly [string, (served: Service, other: ReturnType<typeof openTab>) => Promise<() => void>]> = [
  ['a response', async (served) => {
    served.broken.set('/auth/me', () => new Promise(() => {}))
    return () => {}
  }],
  ['a pause', async (served) => {
    served.broken.set('/auth/me', unavailable('5'))
    return () => {}
  }],
  ['the turn of another tab', async (served, other) => {
    let answer = () => {}
    served.broken.set('/auth/me', () => new Promise((resolve) => { answer = () => resolve(new Response('{}')) }))
    other.status().catch(() => {})
    for (let turns = 0; turns < 100; turns++) await turn()
    served.log.splice(0)
    return () => answer()
  }]
]

/** Lets everything happen that waits for nothing else. */
async function idle (): Promise<void> {
  for (let turns = 0; turns < 100; turns++) await turn()
}

for (const [what, prepare] of waits) {
  // Promise: sessions/logout-during-renewal
  t.test(`in cookie mode a logout ends a renewal that waits for ${what}, and is sent at once`, async (t) => {
    const { served, outliving, cookies, release, client, reasons } = await expiredTab(t, cookieOptions, {})
    const other = openTab()
    const finish = await prepare(served, other)
    const waiting = [client.fetch('/private'), client.load()] as const
    await idle()
    served.log.splice(0)
    outliving.splice(0)
    const logout = client.logout()
    // A page that is closed has no later task.
    for (let microtasks = 0; microtasks < 10; microtasks++) await null
    t.strictSame(outliving, ['/auth/logout'])
    t.equal(await logout, true)
    t.equal(cookies.size, 0)
    t.equal((await waiting[0]).status, 401)
    t.equal(await waiting[1], null)
    release()
    await idle()
    t.strictSame(served.log, ['POST /auth/logout'], 'there is no further try')
    t.strictSame([reasons, other.reasons], [['logout'], ['logout']])
    finish()
    served.broken.clear()
    await client.login(ada!)
    t.equal((await client.fetch('/private')).status, 200)
  })
}

t.test('in cookie mode without AbortSignal.any, a logout is sent at once, too, and the renewal changes nothing any more', async (t) => {
  const { any } = AbortSignal
  t.teardown(() => { AbortSignal.any = any })
  Object.assign(AbortSignal, { any: undefined })
  const { served, cookies, client, reasons } = await expiredTab(t, cookieOptions, {})
  let answer = () => {}
  served.broken.set('/auth/me', () => new Promise((resolve) => { answer = () => resolve(Response.json({ me: ada, id: 1, reason: null })) }))
  const waiting = client.fetch('/private')
  await idle()
  t.equal(await client.logout(), true)
  t.strictSame([cookies.size, client.user, reasons], [0, null, ['logout']])
  answer()
  t.equal((await waiting).status, 401)
  t.strictSame([client.user, reasons], [null, ['logout']])
})

t.test('in cookie mode a renewal that a logout has ended is done again where the logout fails', async (t) => {
  const { served, client, reasons } = await expiredTab(t, cookieOptions, {})
  served.broken.set('/auth/me', () => new Promise(() => {}))
  served.broken.set('/auth/logout', unavailable())
  const waiting = [client.fetch('/private'), client.load()] as const
  await idle()
  await t.rejects(client.logout(), { message: 'Still logged in: the logout failed (503).' })
  for (const promise of waiting) await t.rejects(promise, { message: 'Still logged in: the logout failed (503).' })
  t.strictSame(reasons, [])
  served.broken.clear()
  t.match(await client.load(), { user_id: ada!.user_id })
  t.equal((await client.fetch('/private')).status, 200)
})

for (const isSent of [true, false]) {
  t.test(`in cookie mode a logout ${isSent ? 'waits for a login that was sent before, and ends its session' : 'ends a login that was not sent yet'}`, async (t) => {
    const { served, cookies, client, reasons } = await expiredTab(t, cookieOptions, {})
    let go = () => {}
    if (isSent) served.gate.beforeLogin = async () => { await new Promise<void>((resolve) => { go = resolve }) }
    else served.broken.set('/auth/me', () => new Promise(() => {}))
    const request = isSent ? undefined : client.fetch('/private')
    await idle()
    served.log.splice(0)
    const login = client.login(grace!).then(({ status }) => status, ({ name }) => name)
    await idle()
    const logout = client.logout()
    await idle()
    t.strictSame(served.log, [isSent ? 'POST /auth' : 'POST /auth/logout'])
    go()
    t.equal(await login, isSent ? 200 : 'AbortError')
    t.equal(await logout, true)
    t.equal((await request)?.status, isSent ? undefined : 401)
    t.strictSame(served.log.at(-1), 'POST /auth/logout')
    t.strictSame([cookies.size, client.user, reasons], [0, null, ['logout']])
    t.strictSame(await served.app.tokenAuth.sessions.list(grace!.user_id), [])
  })
}

for (const hasLocks of [true, false]) {
  t.test(`in cookie mode logins ${hasLocks ? 'of all tabs' : 'of a tab without Web Locks'} wait for its logout, and two logouts at once are one`, async (t) => {
    const served = await service(t, cookieOptions)
    browse(t, served, { hasLocks })
    const [one, other] = [openTab(), openTab()]
    await one.client.login(ada!)
    served.log.splice(0)
    let go = () => {}
    const gate = new Promise<void>((resolve) => { go = resolve })
    served.gate.beforeLogout = async () => { await gate }
    const logouts = [one.client.logout(), one.client.logout()]
    await idle()
    const login = (hasLocks ? other : one).client.login(grace!)
    await idle()
    t.strictSame(served.log, ['POST /auth/logout'])
    go()
    t.strictSame(await Promise.all(logouts), [true, true])
    t.equal((await login).status, 200)
    t.strictSame([one.reasons, other.reasons], [['logout'], ['logout']])
    t.equal(await other.status(), 200)
  })
}

t.test('a page that is left does not take a renewal with it: the browser still gets the cookies', async (t) => {
  const setTime = setClock(t, now())
  const served = await service(t, cookieOptions)
  const { outliving } = browse(t, served)
  const { client } = openTab()
  await client.login(ada!)
  setTime(now() + later)
  t.equal((await client.fetch('/private')).status, 200)
  t.strictSame(outliving, ['/auth', '/auth/me', '/auth/me'])
})

t.test('in cookie mode the cookies of a renewal do not replace those of a later login, and do not come back after a logout', async (t) => {
  const setTime = setClock(t, now())
  const served = await service(t, cookieOptions)
  const { cookies } = browse(t, served)
  const { client, reasons, status } = openTab()
  await client.login(ada!)
  for (const leave of [false, true]) {
    setTime(now() + later)
    let next: Promise<unknown> = Promise.resolve()
    served.gate.afterRefresh = async () => {
      served.gate.afterRefresh = async () => {}
      next = leave ? client.logout() : client.login(ada!)
      for (let turns = 0; turns < 100; turns++) await turn()
    }
    await status()
    await next
    if (leave) assert.equal(cookies.size, 0, caseOf(leave))
    else assert.equal(await status(), 200, caseOf(leave))
    assert.deepEqual(reasons, leave ? ['logout'] : [], caseOf(leave))
  }
})

t.test('in cookie mode the cookies of a renewal in one tab do not replace those of a later login in another, and do not come back after a logout', async (t) => {
  const setTime = setClock(t, now())
  const served = await service(t, cookieOptions)
  const { cookies } = browse(t, served)
  const [first, second] = [openTab(), openTab()]
  await first.client.login(ada!)
  for (const leave of [false, true]) {
    setTime(now() + later)
    let next: Promise<unknown> = Promise.resolve()
    served.gate.afterRefresh = async () => {
      served.gate.afterRefresh = async () => {}
      next = leave ? second.client.logout() : second.client.login(grace!)
      for (let turns = 0; turns < 100; turns++) await turn()
    }
    await first.status()
    await next
    if (leave) assert.equal(cookies.size, 0, caseOf(leave))
    else t.match(await Promise.all([first, second].map(({ client }) => client.load())), [{ user_id: grace!.user_id }, { user_id: grace!.user_id }])
  }
})

for (const [mode, serverOptions, options] of modes) {
  t.test(`mode ${mode}: a request is not repeated after another user has logged in`, async (t) => {
    const setTime = setClock(t, now())
    const served = await service(t, serverOptions)
    browse(t, served)
    const { client } = openTab(options)
    await client.login(ada!)
    setTime(now() + later)
    served.gate.afterEcho = async () => {
      served.gate.afterEcho = async () => {}
      await client.login(grace!)
    }
    const response = await client.fetch('/echo', { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'of ada' })
    t.equal(response.status, 401)
    t.equal(served.count('POST /echo'), 1)
    t.equal((await client.fetch('/echo', { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'of grace' })).status, 200)
  })
}

t.test('in cookie mode tokens that header mode has left in the storage end no session, and are not sent', async (t) => {
  const served = await service(t, cookieOptions)
  browse(t, served)
  const storage = sharedStorage()
  const name = `fastify-token-auth ${origin}/auth`
  storage.setItem(name, JSON.stringify({ access: 'a', refresh: 'r', since: 1 }))
  const [first, second] = [openTab({ storage }), openTab({ storage })]
  await first.client.login(ada!)
  t.equal(await first.status(), 200)
  t.equal(served.count('POST /auth/logout'), 0)
  await first.client.logout()
  t.strictSame(second.reasons, ['logout'])
  t.equal(served.count('POST /auth/logout'), 1)
})

t.test('in header mode damaged text in the storage is no login, and a response that is no JSON is not quoted', async (t) => {
  const served = await service(t)
  browse(t, served)
  const storage = sharedStorage()
  const { client, reasons, status } = openTab({ mode: 'header', storage })
  await client.login(ada!)
  for (const damaged of ['{"access":', 'null']) {
    for (const name of storage.values.keys()) storage.values.set(name, damaged)
    assert.equal(await status(), 401, damaged)
    assert.deepEqual(reasons.splice(0), ['absent'], damaged)
  }
  served.broken.set('/auth', () => new Response('a text with a token'))
  await t.rejects(client.login(ada!), { message: 'The response has no "access_token".' })
})

t.test('in header mode a logout discards the tokens before it tries to reach the service, three times', async (t) => {
  const served = await service(t)
  browse(t, served)
  const release = holdTimers(t, 5000)
  const storage = sharedStorage()
  const { client, reasons } = openTab({ mode: 'header', storage })
  await client.login(ada!)
  let requests = 0
  served.broken.set('/auth/logout', () => { requests++; return disconnected() })
  const logout = client.logout()
  t.equal(storage.values.size, 0)
  t.strictSame(reasons, ['logout'], 'the page knows at once')
  t.equal(await settled(logout, release), false)
  t.equal(requests, 3)
  t.strictSame(reasons, ['logout'])
  t.equal(await client.logout(), false, 'without tokens, no session ends')
})

t.test('in header mode a logout ends the sessions of tabs with tokens of their own, but not a login that came after it', async (t) => {
  const setTime = setClock(t, now())
  const served = await service(t)
  browse(t, served)
  const [one, other] = [openTab({ mode: 'header' }), openTab({ mode: 'header' })]
  await one.client.login(ada!)
  await other.client.login(ada!)
  t.equal((await served.app.tokenAuth.sessions.list(1)).length, 2)
  await one.client.logout()
  while ((await served.app.tokenAuth.sessions.list(1)).length > 0) await turn()
  t.strictSame(other.reasons, ['logout'])

  const logout = Date.now()
  setTime(now() + 1)
  await other.client.login(ada!)
  new Channel(Channel.open[0]!.name).postMessage(['logout', 1, logout])
  t.strictSame(other.reasons, ['logout'])
  t.equal(await other.status(), 200)
})

t.test('in header mode a login or logout during a refresh counts more than its response', async (t) => {
  const setTime = setClock(t, now())
  const served = await service(t)
  browse(t, served)
  const storage = sharedStorage()
  const { client, reasons, status } = openTab({ mode: 'header', storage })

  await client.login(ada!)
  setTime(now() + later)
  served.gate.afterRefresh = async () => { await client.logout() }
  t.equal(await status(), 401)
  t.equal(storage.values.size, 0)
  t.strictSame(reasons, ['logout'])

  await client.login(ada!)
  setTime(now() + later)
  await served.app.tokenAuth.sessions.endAll(1)
  served.gate.afterRefresh = async () => { await client.login(ada!) }
  t.equal(await status(), 401, 'a request of the login before is not repeated')
  t.equal(await status(), 200, 'a refresh that is refused does not discard the tokens of the new login')
  t.strictSame(reasons, ['logout'])
})

t.test('in header mode a tab that sees late what another tab stored does not refresh again', async (t) => {
  const setTime = setClock(t, now())
  const served = await service(t)
  browse(t, served)
  const storage = sharedStorage()
  let seen: string | undefined
  const [one, other] = [openTab({ mode: 'header', storage }), openTab({ mode: 'header', storage: { ...storage, getItem: (key) => seen ?? storage.getItem(key) } })]
  await one.client.login(ada!)
  seen = [...storage.values.values()][0]!
  setTime(now() + later)
  t.equal(await one.status(), 200)
  served.broken.set('/auth/me', () => {
    seen = undefined
    return new Response(null, { status: 401 })
  })
  t.equal(await other.status(), 200)
  t.equal(served.count(refresh), 1)
})

t.test('in header mode without locks, an answer that repeats an older token and arrives last does not replace what another tab has stored', async (t) => {
  const setTime = setClock(t, now())
  const store = new WatchedStore()
  const served = await service(t, { sessions: { store, poll: 60 } })
  browse(t, served, { hasLocks: false })
  const storage = sharedStorage()
  const [one, other] = [openTab({ mode: 'header', storage }), openTab({ mode: 'header', storage })]
  const stored = () => JSON.parse([...storage.values.values()][0]!).refresh
  await one.client.login(ada!)
  const first = stored()
  setTime(now() + later)
  t.equal(await one.status(), 200)
  const second = stored()
  setTime(now() + later)
  // Its window is open again.
  await received(store, first)
  let deliver = () => {}
  let isAnswered = () => {}
  const answered = new Promise<void>((resolve) => { isAnswered = resolve })
  served.gate.afterRefresh = async () => {
    served.gate.afterRefresh = async () => {}
    isAnswered()
    await new Promise<void>((resolve) => { deliver = resolve })
  }
  const asking = one.status()
  await answered
  setTime(now() + 31)
  t.equal(await other.status(), 200)
  const third = stored()
  t.not(third, second)
  deliver()
  t.equal(await asking, 200)
  t.equal(stored(), third)
  t.equal(served.count(refresh), 3)
})

t.test('in header mode the tabs of a login are told why it is over, and those of another login are not', async (t) => {
  const setTime = setClock(t, now())
  const served = await service(t)
  browse(t, served)
  const storage = sharedStorage()
  const [one, other] = [openTab({ mode: 'header', storage }), openTab({ mode: 'header', storage })]
  const [stranger, own] = [openTab({ mode: 'header' }), openTab({ mode: 'header' })]
  await one.client.login(ada!)
  t.equal(await other.status(), 200)
  setTime(now() + 1)
  await own.client.login(users[1]!)
  const end = async () => { await served.app.tokenAuth.sessions.endAll(1) }

  await end()
  t.strictSame(await Promise.all([one.status(), other.status()]), [401, 401])
  t.strictSame(new Set([...one.reasons, ...other.reasons]), new Set(['ended']), 'also for a request that waits meanwhile')
  t.equal(await other.status(), 401)
  t.equal(other.reasons.pop(), 'ended')
  t.strictSame([stranger.reasons, own.reasons], [[], []])
  t.equal(await own.status(), 200)
  t.equal(await stranger.status(), 401)
  t.strictSame(stranger.reasons, ['absent'])

  for (const { reasons } of [one, other]) reasons.length = 0
  const before = Date.now() - 1000
  await one.client.login(ada!)
  new Channel(Channel.open[0]!.name).postMessage(['ended', before])
  t.strictSame([one.reasons, other.reasons], [[], []], 'a message that comes late counts for its login only')
  t.equal(await other.status(), 200)
  setTime(now() + 365 * 86_400)
  t.equal(await one.status(), 401)
  t.strictSame([one.reasons, other.reasons], [['expired'], ['expired']], 'a tab is told without a request')
})

t.test('in header mode it renews tokens of a service without sessions, whose refresh token stays', async (t) => {
  const setTime = setClock(t, now())
  const stored = new Map<unknown, string>()
  const served = await service(t, together(mistyped({ sessions: undefined }), {
    refreshTokenEnabled: true,
    storeRefreshToken: async (userId: unknown, token: string) => { stored.set(userId, token) },
    retrieveRefreshToken: async (userId: unknown) => stored.get(userId)
  }))
  browse(t, served)
  const { client, status } = openTab({ mode: 'header' })
  await client.login(ada!)
  for (const expected of [1, 2]) {
    setTime(now() + later)
    assert.equal(await status(), 200, caseOf(expected))
    assert.equal(served.count(refresh), expected, caseOf(expected))
  }
})
