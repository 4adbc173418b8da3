// @slow
import assert from 'node:assert/strict'
import t, { type Test } from 'tap'
import type { TokenAuthOptions } from '../../lib/index.ts'
import { algorithms, bearer, build, caseOf, claims, forge, keysFor, login, refreshStore, setClock, warnings } from '../helper.ts'

warnings(t, 'W11')

const start = 1_800_000_000
const hour = 3600
const years = 31_557_600

/** What the clock may do between two requests, in seconds, and whether a token issued before it is still good. */
const jumps: [what: string, seconds: number, isAccepted: boolean][] = [
  ['not at all', 0, true],
  ['forward, within the lifetime', 1799, true],
  ['forward, within the leeway', 1979, true],
  ['forward to the end of the leeway', 1980, false],
  ['forward by an hour', hour, false],
  ['forward by 30 years', 30 * years, false],
  ['back by a second', -1, true],
  ['back by two hours', -2 * hour, true],
  ['back to 1970', -start, true],
  ['before 1970', -2 * start, true],
  ['to the end of all dates', 8.64e12 - start, false]
]

async function guarded (t: Test, options: Partial<TokenAuthOptions> = {}) {
  const app = await build(t, options)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => request.tokenAuth.payload)
  return app
}

// Promise: security/9-2-1
// Promise: security/clock-jumps-2
// Promise: security/token-expired-active
t.test('after a jump of the clock a token is accepted until exp + leeway and never after it, remembered or not', async (t) => {
  for (const tokenCacheSize of [0, 1000]) {
    for (const [what, seconds, isAccepted] of jumps) {
      const setTime = setClock(t, start)
      const app = await guarded(t, { tokenCacheSize })
      const headers = bearer((await login(app)).json().access_token)
      assert.equal((await app.inject({ url: '/', headers })).statusCode, 200, 'control')
      setTime(start + seconds)
      const response = await app.inject({ url: '/', headers })
      assert.equal(response.statusCode, isAccepted ? 200 : 401, `${what}, ${tokenCacheSize} remembered`)
      if (!isAccepted) t.match(response.json(), { exception: 'TokenExpired' })
      assert.equal((await app.inject({ url: '/auth/verify', headers })).statusCode, isAccepted ? 200 : 400, caseOf(tokenCacheSize, what))
      const canIssue = seconds >= -start && what !== 'to the end of all dates'
      assert.equal((await login(app)).statusCode, canIssue ? 200 : 500, `${what}: a login gives a token whose dates are dates, or none`)
      setTime(start)
      assert.equal((await app.inject({ url: '/', headers })).statusCode, 200, `${what}: and back`)
    }
  }
})

// Promise: security/9-2-1
// Promise: security/clock-jumps-2
t.test('nbf is asked of a clock that jumped back', async (t) => {
  const setTime = setClock(t, start)
  const app = await guarded(t, { claimNbf: true, claimNbfDelta: 0 })
  const headers = bearer((await login(app)).json().access_token)
  const statuses: number[] = []
  for (const seconds of [0, -180, -181, -2 * hour, -start, 0]) {
    setTime(start + seconds)
    statuses.push((await app.inject({ url: '/', headers })).statusCode)
  }
  t.same(statuses, [200, 200, 401, 401, 401, 200])
})

// Promise: security/remembered-token-outlives
t.test('at every instant a remembered token is answered like one that is not', async (t) => {
  const setTime = setClock(t, start)
  const options: Partial<TokenAuthOptions> = { claimNbf: true, claimNbfDelta: 200, leeway: 20, expirationDelta: 100 }
  const [remembering, forgetting] = [await guarded(t, options), await guarded(t, { ...options, tokenCacheSize: 0 })]
  const token = forge({ user_id: 1, exp: start + 100, nbf: start - 100 })
  for (let seconds = -125; seconds <= 125; seconds += 1) {
    setTime(start + seconds)
    const [a, b] = await Promise.all([remembering, forgetting].map((app) => app.inject({ url: '/', headers: bearer(token) })))
    assert.equal(a?.statusCode, seconds >= -120 && seconds < 120 ? 200 : 401, `${seconds}`)
    assert.deepEqual([a?.statusCode, a?.payload], [b?.statusCode, b?.payload], caseOf(seconds))
  }
})

// Promise: security/clock-jumps-2
t.test('a refresh after any jump gives a token that begins at the time of the refresh', async (t) => {
  const setTime = setClock(t, start)
  const { stored, ...store } = refreshStore()
  const app = await guarded(t, store)
  const tokens = (await login(app)).json()
  for (const seconds of [hour, -2 * hour, 30 * years]) {
    setTime(start + seconds)
    assert.equal(stored.size, 1, caseOf(seconds))
    const response = await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(tokens.access_token), payload: { refresh_token: tokens.refresh_token } })
    assert.equal(response.statusCode, 200, caseOf(seconds))
    const fresh = await app.inject({ url: '/', headers: bearer(response.json().access_token) })
    t.match(fresh.json(), { exp: start + seconds + 1800 })
  }
})

// Promise: security/clock-jumps-2
t.test('a clock that gives no number accepts nothing', async (t) => {
  const setTime = setClock(t, start)
  const app = await guarded(t)
  const headers = bearer(forge({ user_id: 1, exp: start + 10 }))
  const statuses: number[] = []
  for (const time of [start, Number.NaN, Number.POSITIVE_INFINITY, start]) {
    setTime(time)
    statuses.push((await app.inject({ url: '/', headers })).statusCode)
  }
  t.same(statuses, [200, 401, 401, 200])
})

// Promise: security/clock-jumps-2
t.test('no date of a token, however strange, is an exception with any clock', async (t) => {
  const setTime = setClock(t, start)
  const app = await guarded(t, { claimNbf: true })
  const extremes = [0, -0, -1, 0.5, 1e300, -1e300, 8.64e12, 8.64e12 + 1, -8.64e12, 2 ** 31, 2 ** 53, Number.MAX_SAFE_INTEGER, 5e-324, null, '', '9', [], {}, true]
  for (const time of [start, 0, -start, 8.64e12, start + 30 * years]) {
    setTime(time)
    for (const claim of ['exp', 'nbf', 'iat']) {
      for (const value of extremes) {
        const token = forge(claims({ exp: time + 10, nbf: time, [claim]: value }))
        const response = await app.inject({ url: '/', headers: bearer(token) })
        const { exp = 0, nbf = 0, iat = 0 }: Record<string, unknown> = { exp: time + 10, nbf: time, iat: time, [claim]: value }
        const areDates = [exp, nbf, iat].every((date) => typeof date === 'number' && Math.abs(date) <= 8.64e12)
        const isValid = areDates && Number(exp) + 180 > time && Number(nbf) - 180 <= time
        assert.equal(response.statusCode, isValid ? 200 : 401, `${claim} ${JSON.stringify(value)} at ${time}`)
      }
    }
  }
})

// Promise: security/clock-jumps-2
t.test('the clock is asked on every request, with every algorithm', async (t) => {
  for (const algorithm of algorithms) {
    const setTime = setClock(t, start)
    const app = await guarded(t, keysFor(algorithm))
    const headers = bearer((await login(app)).json().access_token)
    const statuses: number[] = []
    for (const seconds of [0, hour, 0, 30 * years]) {
      setTime(start + seconds)
      statuses.push((await app.inject({ url: '/', headers })).statusCode)
    }
    assert.deepEqual(statuses, [200, 401, 200, 401], algorithm)
  }
})
