// @alone
/** `request.tokenAuth.signal` aborts when the access token of a request is not valid any more, and never otherwise. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { getEventListeners } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import tokenAuth, { InitializationFailure, memorySessions, SessionEnded, TokenExpired, type SessionStore, type TokenAuthOptions } from '../../lib/index.ts'
import { watchTime } from '../../lib/request/signal.ts'
import { authenticate, bearer, build, claims, forge, holdTimers, host, login, payloadOf, secret, setClock } from '../helper.ts'

const at = 1_800_000_000
const leeway = 180
const longestTimeout = 2 ** 31 - 1

interface Timer { delay: number, isReferenced: boolean, isCleared: boolean, run (): void }

/** Takes the place of timers of more than a minute: whoever waits that long waits for no request. */
function longTimers (t: Test): Timer[] {
  const timers: Timer[] = []
  const real = globalThis.setTimeout
  const replacement = (run: (...given: unknown[]) => void, delay?: number, ...given: unknown[]) => {
    if (delay === undefined || delay < 60_000) return real(run, delay, ...given)
    const timer = { delay, isReferenced: true, isCleared: false, run, unref: () => { timer.isReferenced = false } }
    timers.push(timer)
    return timer
  }
  Reflect.set(globalThis, 'setTimeout', Object.assign(replacement, real))
  t.teardown(() => { globalThis.setTimeout = real })
  return timers
}

/** An application whose routes give what a test does with their request. */
async function reading (t: Test, options: Partial<TokenAuthOptions> = {}) {
  const app = await build(t, options)
  let act: (request: FastifyRequest) => unknown = () => {}
  const handler = async (request: FastifyRequest) => ({ result: await act(request) ?? null })
  app.get('/guarded', { onRequest: app.tokenAuth.protect() }, handler)
  app.get('/lenient', { onRequest: app.tokenAuth.protect({ leeway: 1000 }) }, handler)
  if (options.sessions === undefined) app.get('/for-ever', { onRequest: app.tokenAuth.protect({ verifyExp: false }) }, handler)
  app.get('/open', handler)
  /** Does something with a request, and returns what that returns. */
  const during = async <Result>(act_: (request: FastifyRequest) => Result, headers: Record<string, string>, url = '/guarded'): Promise<Result> => {
    let result: { value: Result } | undefined
    act = (request) => { result = { value: act_(request) } }
    const response = await app.inject({ url, headers })
    if (result === undefined) throw new Error(`The route answered ${response.statusCode}: ${response.payload}`)
    return result.value
  }
  return { app, during, signalOf: async (headers: Record<string, string>, url?: string) => await during((request) => request.tokenAuth.signal, headers, url) }
}

const token = (extra: object = {}) => bearer(forge(claims({ exp: at + 1800, ...extra })))

// Promise: specification/signal-after-sleep
t.test('after a machine has slept, it aborts within 30 seconds: the clock has gone on, and timers have not', async (t) => {
  // The first test of the file, because a timer that runs already cannot be held.
  const setTime = setClock(t, at)
  longTimers(t)
  const look = holdTimers(t, watchTime)
  t.ok(watchTime <= 30_000)
  const { signalOf } = await reading(t)
  const [soon, later] = [await signalOf(token({ exp: at + 1800 })), await signalOf(token({ exp: at + 100_000 }))]
  look()
  t.equal(soon.aborted, false)
  setTime(at + 8 * 3600)
  look()
  t.equal(soon.aborted, true)
  t.match(soon.reason, { name: 'TokenExpired' })
  t.equal(later.aborted, false)
  setTime(at + 200_000)
  look()
  t.equal(later.aborted, true, 'it looks again and again')
})

// Promise: specification/sessionid-signal
t.test('it aborts at exp + leeway, with a TokenExpired as its reason', async (t) => {
  setClock(t, at)
  const timers = longTimers(t)
  const { signalOf } = await reading(t)
  const rows: [exp: number, url: string, seconds: number][] = [[at + 1800, '/guarded', 1980], [at + 100.25, '/guarded', 280.25], [at + 100, '/lenient', 1100], [at - 100, '/guarded', 80], [at + 1800, '/open', 1980]]
  for (const [exp, url, seconds] of rows) {
    timers.length = 0
    const signal = await signalOf(token({ exp }), url)
    t.ok(signal instanceof AbortSignal)
    t.equal(signal.aborted, false)
    t.match(timers, [{ delay: seconds * 1000, isReferenced: false }], `${url} ${exp}`)
    const events: unknown[] = []
    signal.addEventListener('abort', () => { events.push(signal.reason) })
    timers[0]?.run()
    t.equal(signal.aborted, true)
    t.equal(events.length, 1)
    t.ok(events[0] instanceof TokenExpired)
    t.equal(signal.reason, events[0])
    t.throws(() => signal.throwIfAborted(), TokenExpired)
  }
})

t.test('a part of a millisecond that is left is waited for, too', async (t) => {
  setClock(t, at)
  const timers = longTimers(t)
  const { signalOf } = await reading(t)
  await signalOf(token({ exp: at + 0.0001 }))
  t.match(timers, [{ delay: leeway * 1000 + 1 }])
})

// Promise: security/connection-stays-open
t.test('a token that ceased to be valid since its guard let it pass gives a signal that aborts when its listeners were added', async (t) => {
  const set = setClock(t, at)
  const { app, during } = await reading(t, { sessions: {} })
  const { access_token: accessToken } = (await login(app)).json()
  const signal = await during((request) => {
    set(at + 1800 + leeway)
    return request.tokenAuth.signal
  }, bearer(accessToken))
  await turn()
  t.equal(signal.aborted, true)
  t.ok(signal.reason instanceof TokenExpired)
  set(at)
  const heard: unknown[] = []
  const other = await (await during(async (request) => {
    await app.tokenAuth.sessions.endAll(1)
    const { signal } = request.tokenAuth
    t.equal(signal.aborted, false)
    for (const listen of [() => {}, () => { heard.push(signal.reason) }]) signal.addEventListener('abort', listen)
    await turn()
    await turn()
    t.equal(getEventListeners(signal, 'abort').length, 0, 'Node.js would keep them')
    return request.tokenAuth.signal
  }, bearer(accessToken)))
  t.ok(other.reason instanceof SessionEnded)
  t.same(heard, [other.reason])
  set(NaN)
})

// Promise: security/connection-stays-open
t.test('a token that expires after the longest timeout of Node.js is waited for in parts', async (t) => {
  const set = setClock(t, at)
  const timers = longTimers(t)
  const { signalOf } = await reading(t)
  const exp = at + 60 * 86_400
  const signal = await signalOf(token({ exp }))
  let elapsed = 0
  for (const delay of [longestTimeout, longestTimeout, (exp - at + leeway) * 1000 - 2 * longestTimeout]) {
    const timer = timers.shift()
    t.match(timer, { delay, isReferenced: false })
    t.equal(signal.aborted, false)
    elapsed += delay
    set(at + elapsed / 1000)
    timer?.run()
  }
  t.equal(signal.aborted, true)
  t.same(timers, [])
})

t.test('without a valid token, and where tokens do not expire, it never aborts and nothing waits', async (t) => {
  setClock(t, at)
  const timers = longTimers(t)
  const { signalOf } = await reading(t, { authMode: false })
  const seen = new Set<AbortSignal>()
  for (const [headers, url] of [[{}, '/open'], [bearer('x'), '/open'], [token({ exp: at - 1000 }), '/open'], [token(), '/for-ever'], [bearer(forge({ user_id: 1 })), '/for-ever']] as const) {
    const signal = await signalOf(headers, url)
    t.equal(signal.aborted, false)
    seen.add(signal)
  }
  t.equal(seen.size, 5, 'none is shared, for listeners would stay on it')
  t.same(timers, [])
})

t.test('it is made when it is read, and once for a request', async (t) => {
  setClock(t, at)
  const timers = longTimers(t)
  const { during } = await reading(t)
  let made = 0
  const { AbortController } = globalThis
  t.teardown(() => { globalThis.AbortController = AbortController })
  globalThis.AbortController = class extends AbortController {
    constructor () {
      super()
      made++
    }
  }
  await during((request) => request.tokenAuth.payload, token())
  t.same([timers.length, made], [0, 0], 'nothing is made for a request that does not read it')
  const signals = await during(({ tokenAuth: auth }) => [auth.signal, auth.signal], token())
  t.equal(new Set(signals).size, 1)
  t.same([timers.length, made], [1, 1])
})

t.test('it throws as the other readers do where the key is computed asynchronously and nothing waited for it', async (t) => {
  setClock(t, at)
  const { during } = await reading(t, { secret: undefined, getSecret: async () => secret })
  t.ok(await during((request) => {
    try {
      return request.tokenAuth.signal
    } catch (error) {
      return error
    }
  }, token(), '/open') instanceof InitializationFailure)
  const signal = await (await during(async (request) => {
    await request.tokenAuth.ready()
    return request.tokenAuth.signal
  }, token(), '/open'))
  t.equal(signal.aborted, false)
})

/** Ends sessions in every way there is. */
const ends: Record<string, (app: FastifyInstance, tokens: { access_token: string, refresh_token: string }) => Promise<unknown>> = {
  'by the application': async (app) => await app.tokenAuth.sessions.endAll(1),
  'by a logout': async (app, { refresh_token: refreshToken }) => await app.inject({ method: 'POST', url: '/auth/logout', payload: { refresh_token: refreshToken } }),
  'by its user': async (app, { access_token: accessToken }) => await app.inject({ method: 'DELETE', url: `/auth/sessions/${String(payloadOf(accessToken).sid)}`, headers: bearer(accessToken) })
}

t.test('it aborts when the session of the token ends, with a SessionEnded as its reason, and not with other sessions', async (t) => {
  setClock(t, at)
  const timers = longTimers(t)
  for (const [how, end] of Object.entries(ends)) {
    const { app, signalOf } = await reading(t, { sessions: {} })
    const tokens = (await login(app)).json()
    const others = [(await login(app, { username: 'grace', password: 'hopper' })).json().access_token, await app.tokenAuth.generateAccessToken({ user_id: 1 })]
    timers.length = 0
    const signal = await signalOf(bearer(tokens.access_token))
    const stay: AbortSignal[] = []
    for (const accessToken of others) stay.push(await signalOf(bearer(accessToken)))
    const reasons: unknown[] = []
    signal.addEventListener('abort', () => { reasons.push(signal.reason) })
    await end(app, tokens)
    t.equal(reasons.length, 1, how)
    t.ok(reasons[0] instanceof SessionEnded)
    t.notOk(stay.some(({ aborted }) => aborted))
    for (const timer of timers) timer.run()
    t.ok(signal.reason instanceof SessionEnded, 'the first reason stays')
    t.ok(stay.every(({ reason }) => reason instanceof TokenExpired), 'of a session that goes on, and of a token without one')
  }
})

t.test('it aborts when the session ended in another process, also where tokens are only verified', async (t) => {
  setClock(t, at)
  const timers = longTimers(t)
  const inner = memorySessions()
  const issuer = await build(t, { sessions: { store: inner } })
  // The store as another process sees it: one object each, the same sessions.
  const store: Pick<SessionStore, 'endedSince'> = { endedSince: async (cursor, rules) => await inner.endedSince(cursor, rules) }
  const app = host(t)
  await app.register(tokenAuth, { secret, authMode: false, sessions: { store, poll: 60 } })
  let signal: AbortSignal | undefined
  app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => { signal = request.tokenAuth.signal })
  const { access_token: accessToken } = (await login(issuer)).json()
  t.equal((await app.inject({ url: '/', headers: bearer(accessToken) })).statusCode, 200)
  const aborted = new Promise((resolve) => { signal?.addEventListener('abort', resolve) })
  await issuer.tokenAuth.sessions.endAll(1)
  t.equal(signal?.aborted, false)
  timers.find(({ delay }) => delay === 60_000)?.run()
  await aborted
  t.ok(signal?.reason instanceof SessionEnded)
})

t.test('an aborted signal has no listeners left, which Node.js would keep for ever, and each was called', async (t) => {
  setClock(t, at)
  const timers = longTimers(t)
  const { signalOf } = await reading(t)
  const signal = await signalOf(token())
  const called: string[] = []
  signal.addEventListener('abort', () => { called.push('function') })
  signal.addEventListener('abort', () => { called.push('capture') }, true)
  signal.addEventListener('abort', { handleEvent () { called.push('object') } })
  signal.onabort = () => { called.push('property') }
  timers[0]?.run()
  t.same(called.sort(), ['capture', 'function', 'object', 'property'])
  await null
  t.same(getEventListeners(signal, 'abort'), [])
})

t.test('the timer of a signal that was collected is cleared', async (t) => {
  setFlagsFromString('--expose-gc')
  const collectGarbage: () => void = runInNewContext('gc')
  setClock(t, at)
  const timers = longTimers(t)
  const { clearTimeout } = globalThis
  const cleared = new Set<unknown>()
  Reflect.set(globalThis, 'clearTimeout', (timer: NodeJS.Timeout) => { cleared.add(timer); clearTimeout(timer) })
  t.teardown(() => { globalThis.clearTimeout = clearTimeout })
  const { during, signalOf } = await reading(t)
  await signalOf(token())
  // Nothing refers to the request any more.
  await during(() => null, token())
  for (let turns = 0; turns < 100 && !cleared.has(timers[0]); turns++) {
    await turn()
    collectGarbage()
  }
  t.ok(cleared.has(timers[0]))
})

t.test('several instances of one request have signals of their own', async (t) => {
  setClock(t, at)
  const timers = longTimers(t)
  const app = host(t)
  await app.register(tokenAuth, { secret, authenticate })
  await app.register(tokenAuth, { secret, authMode: false, instanceName: 'staff', authorizationHeader: 'x-staff', leeway: 0 })
  const signals: AbortSignal[] = []
  app.get('/', { onRequest: [app.tokenAuth.protect(), app.staff.protect()] }, async (request) => { signals.push(request.tokenAuth.signal, request.staff.signal) })
  t.equal((await app.inject({ url: '/', headers: { ...token(), 'x-staff': token({ exp: at + 100 }).authorization } })).statusCode, 200)
  t.match(timers, [{ delay: 1_980_000 }, { delay: 100_000 }])
  timers[1]?.run()
  t.same(signals.map(({ aborted }) => aborted), [false, true])
})
