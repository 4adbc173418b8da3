/** When the keys of issuers are read, and what happens while they cannot be read. */
import { execFile } from 'node:child_process'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import type { Test } from 'tap'
import tokenAuth from '../../lib/index.ts'
import { pauseTime, refreshTime } from '../../lib/authorities/key-source.ts'
import { waitTime } from '../../lib/authorities/trusted.ts'
import { answer, granted, issue, issuer, jwk, keyServer, keySource, status, trusted, until, withIssuers, withoutJitter } from './issuers.ts'
import { iso, keyEvents } from '../keys/ring.ts'
import { bearer, claims, forge, holdTimers, host, leaksIn, mistyped, secret, setClock } from '../helper.ts'

const noon = 1_800_000_000
const b = { which: 1 }
const down = () => { throw new Error('down') }
const unavailable = { statusCode: 503, headers: { 'retry-after': '10', 'www-authenticate': undefined } }
/** Tokens of the second key, signed once. */
const byB = () => issue('b', granted(), b)

/** Lets everything run that waits for nothing but its turn. */
async function settle (): Promise<void> {
  for (let count = 0; count < 5; count++) await turn()
}

/** Collects the lines of a log. */
function log () {
  const lines: string[] = []
  return { lines, server: { logger: { level: 'info', stream: { write: (line: string) => { lines.push(line) } } } } }
}

/** Timers of 10 seconds (retry and pause) and of 10 minutes (refresh) that expire when the test says so. */
function timers (t: Test) {
  withoutJitter(t)
  const retry = holdTimers(t, pauseTime)
  const refresh = holdTimers(t, refreshTime)
  return { retry: async () => { retry(); await settle() }, refresh: async () => { refresh(); await settle() } }
}

// Promise: keys/issuer-cannot-reached
// Promise: specification/keysunavailable-2
t.test('an issuer that is down at registration does not fail it: its tokens are answered with 503, others unaffected, until it is back', async (t) => {
  const { retry } = timers(t)
  const { lines, server } = log()
  const events = keyEvents(t)
  const { state, jwks } = keySource()
  state.instead = down
  const app = await withIssuers(t, trusted({ jwks }), { secret, retrieveUser: () => null }, server)
  t.same(events.splice(0), [{ instanceName: 'tokenAuth', type: 'issuer-failed', issuer }])
  t.match(app.tokenAuth.keyStatus().issuers, [{ issuer, keys: 0, fetchedAt: null, failedAt: String }])
  for (let round = 0; round < 20; round++) t.match(await answer(app, issue('a')), unavailable)
  t.same((await answer(app, issue('a'))).json(), { reasons: 'The keys of the issuer are not available at the moment.', exception: 'KeysUnavailable' })
  t.equal(await status(app, forge(claims())), 200, 'an own token')
  t.equal(await status(app, issue('a', granted(), {}, { alg: 'RS256' })), 401, 'a token that no key could make valid')
  t.throws(() => app.tokenAuth.verifyToken(issue('a')), { name: 'KeysUnavailable', statusCode: 503 })
  t.equal(state.calls, 1, 'no request causes an attempt')
  await retry()
  t.equal(state.calls, 2)
  t.match(await answer(app, issue('a')), unavailable)
  state.instead = undefined
  await retry()
  t.equal(await status(app, issue('a')), 200)
  t.same(events, [{ instanceName: 'tokenAuth', type: 'issuer-recovered', issuer }])
  t.equal(lines.filter((line) => line.includes('could not be read')).length, 1, 'logged once')
  t.equal(lines.filter((line) => line.includes('could be read again')).length, 1)
})

t.test('a registration waits 5 seconds at most for a function, and what it returns later is dropped', async (t) => {
  const { retry } = timers(t)
  const expire = holdTimers(t, 5000)
  const { state, jwks } = keySource()
  let end = () => {}
  state.instead = async () => await new Promise((resolve) => { end = () => resolve({ keys: [jwk('a')] }) })
  const registering = withIssuers(t, trusted({ jwks }))
  await until(() => state.calls === 1)
  expire()
  const app = await registering
  end()
  await settle()
  t.match(await answer(app, issue('a')), unavailable)
  state.instead = undefined
  await retry()
  t.equal(await status(app, issue('a')), 200)
})

t.test('an application waits for the keys of all of its issuers together, and never for as long as Fastify gives its plugins', async (t) => {
  const expire = holdTimers(t, 2000)
  const { now } = performance
  let time = 1000
  performance.now = () => time
  t.teardown(() => { performance.now = now })
  const app = host(t, { pluginTimeout: 4000 })
  const asked: unknown[] = []
  const hanging = (): Promise<never> => {
    asked.push(true)
    return new Promise(() => {})
  }
  const registered: string[] = []
  app.register(async (app) => {
    for (const instanceName of ['one', 'two']) {
      await app.register(tokenAuth, mistyped({ instanceName, authMode: false, issuers: [trusted({ jwks: hanging })] }))
      registered.push(instanceName)
      time = 3000
    }
  })
  const ready = app.ready()
  while (asked.length === 0) await turn()
  await settle()
  expire()
  await ready
  t.equal(registered.length, 2)
  const patient = host(t, { pluginTimeout: 0 })
  await patient.register(tokenAuth, { authMode: false, issuers: [trusted({ jwks: keySource().jwks })] })
  t.equal(patient.tokenAuth.keyStatus().issuers[0]?.keys, 1, 'where Fastify sets no limit, there is one nevertheless')
})

// Promise: keys/issuer-cannot-reached
t.test('a 503 is a 503 on every guard and endpoint, redirects nobody, and survives a logger and a handler of the application', async (t) => {
  timers(t)
  const { state, jwks } = keySource()
  state.instead = down
  const { lines, server } = log()
  const app = await withIssuers(t, trusted({ jwks }), { secret, authMode: true, retrieveUser: () => null }, server)
  app.get('/redirect', { onRequest: app.tokenAuth.protect({ redirectOnFail: true, redirectUrl: '/login' }) }, async () => 'reached')
  app.get('/scoped', { onRequest: app.tokenAuth.scoped('a') }, async () => 'reached')
  app.get('/injected', app.tokenAuth.injectUser(async () => 'reached'))
  app.get('/handled', {
    onRequest: app.tokenAuth.protect({ onRefusal: 'throw' }),
    errorHandler: (error, request, reply) => {
      request.log.error({ err: Object.assign(error, { note: 'seen' }) })
      return reply.send(error)
    }
  }, async () => 'reached')
  app.get('/debug', { onRequest: app.tokenAuth.protect({ debug: true }) }, async () => 'reached')
  for (const url of ['/', '/redirect', '/scoped', '/injected', '/handled', '/debug', '/auth/me', '/auth/verify']) {
    for (let round = 0; round < 2; round++) t.match(await app.inject({ url, headers: bearer(issue('a')) }), unavailable, url)
  }
  t.match((await app.inject({ url: '/debug', headers: bearer(issue('a')) })).json(), { detail: /^the keys of its issuer could not be fetched/ })
  t.equal(lines.filter((line) => JSON.parse(line).level >= 40 && !line.includes('seen')).length, 1, 'nothing is logged for a request')
})

// Promise: keys/cannot-reached-later
t.test('an issuer that is down later: known keys count until staleIfError, an unknown kid is 503, then all tokens are', async (t) => {
  const setTime = setClock(t, noon)
  const { refresh, retry } = timers(t)
  const { lines, server } = log()
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks, staleIfError: 3600 }), {}, server)
  const token = issue('a', granted({ exp: noon + 100_000 }))
  t.equal(await status(app, token), 200)
  state.instead = down
  await refresh()
  t.same(app.tokenAuth.keyStatus().issuers, [{ issuer, keys: 1, fetchedAt: iso(noon), failedAt: iso(noon) }])
  setTime(noon + 3599)
  await retry()
  t.equal(await status(app, token), 200, 'remembered')
  t.equal(await status(app, issue('a', granted({ exp: noon + 100_000, jti: 1 }))), 200, 'not remembered')
  t.match(await answer(app, byB()), unavailable)
  setTime(noon + 3600)
  for (const dead of [token, issue('a', granted({ exp: noon + 100_000, jti: 2 })), issue(undefined, granted({ exp: noon + 100_000 }))]) t.match(await answer(app, dead), unavailable)
  t.same(app.tokenAuth.keyStatus().issuers, [{ issuer, keys: 0, fetchedAt: iso(noon), failedAt: iso(noon + 3599) }])
  state.instead = undefined
  await retry()
  t.equal(await status(app, token), 200)
  t.same(app.tokenAuth.keyStatus().issuers, [{ issuer, keys: 1, fetchedAt: iso(noon + 3600), failedAt: null }])
  t.equal(lines.filter((line) => line.includes('could not be read')).length, 1, 'one line for the change, none for each attempt')
})

// Promise: keys/clock-service-jumps
t.test('keys that are too old after a jump of the clock are read again at once', async (t) => {
  const setTime = setClock(t, noon)
  timers(t)
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks }))
  setTime(noon + 100_000)
  t.equal(await status(app, issue('a', granted({ exp: noon + 200_000 }))), 200)
  t.equal(state.calls, 2)
  setTime(noon - 100_000)
  t.equal(await status(app, issue('a', granted({ exp: noon }))), 200)
})

// Promise: keys/clock-service-jumps
t.test('a token whose key is too old after a jump of the clock gets 503, not 401, while no key is looked for', async (t) => {
  const setTime = setClock(t, noon)
  const { retry } = timers(t)
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks }))
  const token = issue('a', granted({ exp: noon + 200_000 }))
  for (const kid of ['x1', 'x2', 'x3', 'x4', 'x5']) t.equal(await status(app, issue(kid)), 401)
  t.equal(state.calls, 6)
  setTime(noon + 100_000)
  t.match(await answer(app, token), unavailable)
  t.match(await answer(app, issue('x1', granted({ exp: noon + 200_000 }))), unavailable, 'the set in which it was looked for is too old')
  t.equal(state.calls, 6)
  await retry()
  t.equal(await status(app, token), 200)
})

// Promise: keys/token-kid-issuer
// Promise: keys/early-fetch
t.test('a key that was not looked for is no verdict: five early readings, one more each 10 seconds, then 503', async (t) => {
  const { retry } = timers(t)
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks }), { debug: true })
  for (const kid of ['x1', 'x2', 'x3', 'x4', 'x5']) t.equal(await status(app, issue(kid)), 401)
  t.equal(state.calls, 6)
  state.keys = [jwk('a'), jwk('b', b)]
  const response = await answer(app, byB())
  t.match(response, unavailable)
  t.match(response.json(), { exception: 'KeysUnavailable', detail: /its key is not known, and the keys of its issuer were fetched too often/ })
  t.equal(await status(app, issue('x1')), 401, 'it was looked for')
  t.equal(await status(app, issue('a')), 200)
  t.equal(state.calls, 6)
  await retry()
  t.equal(await status(app, byB()), 200)
  t.equal(state.calls, 7)
  t.match(await answer(app, issue('x6')), unavailable)
  for (let round = 0; round < 8; round++) await retry()
  for (const kid of ['y1', 'y2', 'y3', 'y4', 'y5']) t.equal(await status(app, issue(kid)), 401)
  t.match(await answer(app, issue('y6')), unavailable, 'five at most')
})

// Promise: keys/early-fetch
t.test('withdrawn keys that come again and again take no more than one early reading each 10 seconds', async (t) => {
  const { retry } = timers(t)
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks }))
  for (let round = 0; round < 20; round++) {
    for (const kid of ['x1', 'x2', 'x3']) t.equal(await status(app, issue(kid)), 401)
    await retry()
  }
  t.ok(state.calls <= 1 + 3 + 20, `${state.calls} readings`)
  state.keys = [jwk('b', b)]
  t.equal(await status(app, byB()), 200, 'a new key finds one')
})

// Promise: keys/early-fetch
t.test('a request waits for keys for 2 seconds at most', async (t) => {
  const expire = holdTimers(t, waitTime)
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks }), { debug: true })
  let release = () => {}
  state.instead = () => new Promise((resolve) => { release = () => resolve({ keys: [jwk('a'), jwk('b', b)] }) })
  const waiting = answer(app, byB())
  const other = answer(app, issue('x'))
  await until(() => state.calls === 2)
  await settle()
  expire()
  t.match(await waiting, unavailable)
  t.match((await other).json(), { exception: 'KeysUnavailable', detail: /the keys of its issuer are being fetched/ })
  t.equal(state.calls, 2, 'both waited for one')
  release()
  await settle()
  t.equal(await status(app, byB()), 200)
})

t.test('a kid that is not known waits for one reading of the keys; after one that did not find it, it is 401 without another for 10 seconds', async (t) => {
  const { retry } = timers(t)
  const events = keyEvents(t)
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks }))
  state.keys = [jwk('a'), jwk('b', b)]
  t.equal(await status(app, byB()), 200)
  t.equal(state.calls, 2)
  t.same(events, [])
  state.keys = [jwk('a'), jwk('b', b), jwk('c', { which: 2 })]
  t.equal(await status(app, issue('c', granted(), { which: 2 })), 200, 'no pause after a reading that found the key')
  t.equal(state.calls, 3)
  state.keys = [...state.keys, { ...jwk('e'), use: 'enc' }]
  t.equal(await status(app, issue('e')), 401, 'it was found, and does not count')
  t.equal(state.calls, 4)
  for (let round = 0; round < 5; round++) t.equal(await status(app, issue('x')), 401)
  t.equal(state.calls, 5)
  t.same(events.splice(0), [{ instanceName: 'tokenAuth', type: 'unknown-kid', issuer }])
  state.keys = [jwk('d', { which: 3 })]
  t.equal(await status(app, issue('a')), 200, 'known keys count')
  t.equal(await status(app, issue('d', granted(), { which: 3 })), 200, 'another key was not looked for')
  t.equal(state.calls, 6)
  await retry()
  t.equal(await status(app, issue('x')), 401)
  t.equal(state.calls, 7, 'it is looked for again')
})

// Promise: keys/token-kid-issuer
// Promise: security/tokens-key-ids
t.test('2,000 tokens with kids that are not known cause one request to the issuer', async (t) => {
  timers(t)
  const { state, jwksUri } = await keyServer(t)
  const app = await withIssuers(t, trusted({ jwksUri }))
  t.equal(state.requests, 1)
  const tokens = Array.from({ length: 2000 }, (_, index) => forge(granted(), { header: { alg: 'ES256', kid: `hostile ${index}` } }))
  const answers = await Promise.all(tokens.map((token) => status(app, token)))
  t.equal(answers.filter((code) => code === 401).length, 2000)
  t.equal(state.requests, 2)
})

// Promise: security/tokens-key-ids
t.test('requests that come while the keys are read wait for that, and those of hostile tokens keep no others from their key', async (t) => {
  timers(t)
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks }))
  let end = () => {}
  state.instead = async () => await new Promise((resolve) => { end = () => resolve({ keys: [jwk('b', b)] }) })
  const answers = [...Array(10).keys()].flatMap(() => [status(app, byB()), status(app, issue('x'))])
  await until(() => state.calls === 2)
  await settle()
  end()
  t.same(await Promise.all(answers), [...Array(10).keys()].flatMap(() => [200, 401]))
  t.equal(state.calls, 2)
})

// Promise: keys/issuer-withdraws-key
t.test('a key that is withdrawn is refused from the next reading on, remembered or not; the others stay remembered', async (t) => {
  const { refresh } = timers(t)
  const { state, jwks } = keySource([jwk('a'), jwk('b', b)])
  const app = await withIssuers(t, trusted({ jwks }))
  const [stays, goes] = [issue('a'), byB()]
  for (const token of [stays, goes]) t.equal(await status(app, token), 200)
  state.keys = [jwk('a')]
  for (const token of [stays, goes]) t.equal(await status(app, token), 200, 'not read yet')
  await refresh()
  t.equal(await status(app, stays), 200)
  t.equal(await status(app, goes), 401)
  t.equal(await status(app, issue('b', granted({ jti: 1 }), b)), 401, 'not remembered')
  state.keys = [jwk('b', b)]
  await refresh()
  t.equal(await status(app, goes), 200, 'it is back')
})

// Promise: keys/issuer-gives-another
t.test('another key under the same kid counts from the next reading on, and the tokens of the old one are refused', async (t) => {
  const { refresh } = timers(t)
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks }))
  const old = issue('a')
  t.equal(await status(app, old), 200)
  state.keys = [jwk('a', b)]
  const next = issue('a', granted(), b)
  t.equal(await status(app, next), 401)
  t.equal(state.calls, 1, 'a wrong signature is no reason to read keys')
  await refresh()
  t.equal(await status(app, next), 200)
  t.equal(await status(app, old), 401)
})

// Promise: keys/response-malformed-too
t.test('a set that is malformed or empty counts as an outage: the old keys stay', async (t) => {
  const { refresh, retry } = timers(t)
  const events = keyEvents(t)
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks }))
  const answers: unknown[] = [undefined, null, {}, { keys: [] }, { keys: [null] }, { keys: 'x' }, [], 'x', { get keys () { return down() } }]
  for (const [index, wrong] of answers.entries()) {
    state.instead = () => wrong
    await (index === 0 ? refresh : retry)()
    t.equal(await status(app, issue('a', granted({ index }))), 200)
    t.match(await answer(app, byB()), unavailable)
  }
  t.equal(state.calls, answers.length + 1)
  t.same(events.splice(0).map(({ type }) => type), ['issuer-failed'])
  state.instead = undefined
  state.keys = [{ ...jwk('c'), use: 'enc' }]
  await retry()
  t.equal(await status(app, issue('a')), 401, 'a set whose keys are of no use is one: the old keys were withdrawn')
})

t.test('two instances with one address share one request, until the last of them closes', async (t) => {
  const { refresh } = timers(t)
  const events = keyEvents(t)
  const { state, jwksUri } = await keyServer(t)
  const entry = trusted({ jwksUri })
  const one = await withIssuers(t, entry)
  const two = await withIssuers(t, [entry, trusted({ jwksUri, issuer: 'https://other.example' })], { retrieveUser: () => null })
  t.equal(state.requests, 1)
  for (const app of [one, two]) t.equal(await status(app, issue('a')), 200)
  state.keys = [jwk('b', b)]
  t.same(await Promise.all([status(one, byB()), status(two, byB())]), [200, 200])
  t.equal(state.requests, 2)
  await one.close()
  state.instead = (_request, response) => { response.writeHead(500).end() }
  refresh()
  await until(() => events.length === 2)
  t.equal(state.requests, 3)
  t.same(events.map(({ type }) => type), ['issuer-failed', 'issuer-failed'], 'once for each issuer')
  const late = await withIssuers(t, entry)
  t.equal(events.length, 3, 'a later instance is told as well')
  t.equal(await status(late, byB()), 200, 'and has the keys of the others')
  t.equal(state.requests, 3)
  await two.close()
  await late.close()
  state.instead = undefined
  const fresh = await withIssuers(t, entry)
  t.equal(state.requests, 4, 'nothing is left of those that closed')
  t.equal(await status(fresh, byB()), 200)
})

t.test('an application that closes ends all timers and requests of its issuers', async (t) => {
  const { refresh, retry } = timers(t)
  const { state, jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks }))
  t.equal(await status(app, issue('x')), 401)
  const { calls } = state
  await app.close()
  await refresh()
  await retry()
  t.equal(state.calls, calls)

  const other = keySource()
  const closing = await withIssuers(t, trusted({ jwks: other.jwks }))
  let end = () => {}
  other.state.instead = async () => await new Promise((resolve) => { end = () => resolve({ keys: [jwk('a')] }) })
  await refresh()
  t.equal(other.state.calls, 2)
  await closing.close()
  end()
  await settle()
  await refresh()
  t.equal(other.state.calls, 2, 'what was read meanwhile sets no timer')

  // Not by its time limit.
  const { timeout } = AbortSignal
  AbortSignal.timeout = () => new AbortController().signal
  t.teardown(() => { AbortSignal.timeout = timeout })
  const { state: remote, jwksUri } = await keyServer(t)
  const hanging = await withIssuers(t, trusted({ jwksUri }))
  let isAborted = false
  remote.instead = (request) => { request.on('close', () => { isAborted = true }) }
  await refresh()
  await until(() => remote.requests === 2)
  await hanging.close()
  await until(() => isAborted)
})

t.test('keys are read every 9 to 10 minutes, each process at other times', async (t) => {
  const delays: number[] = []
  const { setTimeout: set } = globalThis
  Object.assign(globalThis, { setTimeout: (callback: () => void, delay?: number) => { delays.push(Number(delay)); return set(callback, delay) } })
  t.teardown(() => { Object.assign(globalThis, { setTimeout: set }) })
  for (let count = 0; count < 10; count++) await (await withIssuers(t, trusted({ jwks: keySource().jwks }))).close()
  const refreshes = delays.filter((delay) => delay > 300_000)
  t.equal(refreshes.length, 10)
  t.ok(refreshes.every((delay) => delay > 540_000 && delay <= 600_000))
  t.ok(new Set(refreshes).size > 5)
})

// Promise: keys/timer-keeps-process
t.test('no timer and no connection of issuers keeps a process alive', async (t) => {
  const { jwksUri } = await keyServer(t)
  const program = `
    import Fastify from 'fastify'
    import tokenAuth from ${JSON.stringify(new URL('../../dist/lib/index.js', import.meta.url).href)}
    const app = Fastify()
    const shared = { audience: 'a', algorithms: ['ES256'] }
    await app.register(tokenAuth, { authMode: false, retrieveUser: () => null, issuers: [
      { ...shared, issuer: 'a', jwksUri: ${JSON.stringify(jwksUri)} }, { ...shared, issuer: 'b', jwksUri: 'http://127.0.0.1:1/' }, { ...shared, issuer: 'c', jwks: () => ({ keys: [] }) }
    ] })
    await app.ready()
    console.log(app.tokenAuth.keyStatus().issuers.map(({ keys }) => keys).join())`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], { env: { PATH: process.env.PATH }, cwd: fileURLToPath(new URL('../..', import.meta.url)), timeout: 50_000 })
  t.equal(stdout.trim(), '1,0,0')
})

t.test('a registration that fails reads no keys of issuers', async (t) => {
  const { state, jwks } = keySource()
  await t.rejects(withIssuers(t, trusted({ jwks }), { classViews: mistyped(1) }))
  t.equal(state.calls, 0)
})

t.test('an issuer whose keys are for other algorithms is logged once, until it has one for those of its tokens', async (t) => {
  const { refresh } = timers(t)
  const { lines, server } = log()
  const { state, jwks } = keySource([jwk('a')])
  const app = await withIssuers(t, trusted({ jwks, algorithms: ['RS256'] }), {}, server)
  await refresh()
  t.equal(await status(app, issue('a')), 401)
  const told = () => lines.filter((line) => line.includes('no key of the issuer https://issuer.example/ is for the algorithms of its entry in')).length
  t.equal(told(), 1)
  state.keys = [jwk('r', { algorithm: 'RS256' })]
  await refresh()
  state.keys = [jwk('a')]
  await refresh()
  t.equal(told(), 2)
})

t.test('of a set with many keys without kid, the log says once how many are not used', async (t) => {
  const { refresh } = timers(t)
  const { lines, server } = log()
  const many = (count: number) => Array.from({ length: count }, (_, index) => ({ ...jwk('a'), kid: undefined, number: index }))
  const { state, jwks } = keySource([...many(103), jwk('b', b)])
  const app = await withIssuers(t, trusted({ jwks }), {}, server)
  await refresh()
  const told = () => lines.flatMap((line) => /more than 100 keys without \\"kid\\"\. (\d+) of them are not used/.exec(line)?.[1] ?? [])
  t.same(told(), ['3'])
  t.equal(await status(app, byB()), 200, 'a key with kid counts, however many others there are')
  for (const count of [100, 104]) {
    state.keys = [...many(count), jwk('b', b)]
    await refresh()
  }
  t.same(told(), ['3', '4'])
})

t.test('the error of a function of keys is logged without its properties, which may be secrets', async (t) => {
  const { lines, server } = log()
  const error = Object.assign(new Error('Request failed'), { config: { headers: { authorization: `Bearer ${secret}` } } })
  await withIssuers(t, trusted({ jwks: () => { throw error } }), {}, server)
  t.match(lines.join(''), 'Request failed')
  t.same(leaksIn(lines), [])
})

t.test('nothing of a key, a token or a foreign kid is in logs, events, status and errors', async (t) => {
  const { refresh } = timers(t)
  const { lines, server } = log()
  const events = keyEvents(t)
  const { state, jwksUri } = await keyServer(t)
  const app = await withIssuers(t, trusted({ jwksUri }), { debug: true }, server)
  const kid = 'a-kid-of-nobody-that-no-log-may-have'
  const answers = [await answer(app, issue(kid)), await answer(app, issue('a')), await answer(app, issue('a', granted({ aud: kid })))]
  state.instead = (_request, response) => { response.end(`{"keys":[{"kid":"${kid}","n":"${jwk('a').x}" ${kid}`) }
  refresh()
  await until(() => lines.some((line) => line.includes('could not be read')))
  answers.push(await answer(app, issue(kid)))
  t.same(answers.map(({ statusCode }) => statusCode), [401, 200, 401, 503])
  const seen = [...lines, JSON.stringify(events), JSON.stringify(app.tokenAuth.keyStatus()), ...answers.map(({ body, headers }) => JSON.stringify([body, headers]))]
  t.same(seen.filter((text) => text.includes(kid) || text.includes(String(jwk('a').x))), [])
  t.same(leaksIn(seen), [])
})
