import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import type { FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import { AuthenticationFailed, type TokenAuthOptions } from '../../lib/index.ts'
import { areSameToken } from '../../lib/issuing/refresh-token.ts'
import { authenticate, bearer, build, claims, forge, refreshStore } from '../helper.ts'

/** Replaces functions of node:crypto until the test ends, also for modules that have imported them by name. */
function replace (t: Test, functions: Partial<typeof crypto>): void {
  const real = Object.fromEntries(Object.keys(functions).map((name) => [name, Reflect.get(crypto, name)]))
  const set = (values: object) => {
    Object.assign(crypto, values)
    syncBuiltinESMExports()
  }
  set(functions)
  t.teardown(() => set(real))
}

// Promise: security/refresh-without-refresh
// Promise: specification/retrieve-refresh-token
t.test('refresh tokens are compared in constant time: all of two digests of one length, whatever they are digests of', async (t) => {
  const { createHash, timingSafeEqual } = crypto
  const compared: [number, number][] = []
  let hashed = 0
  replace(t, {
    createHash: (algorithm: string) => { hashed++; return createHash(algorithm) },
    timingSafeEqual: (a, b) => {
      compared.push([a.byteLength, b.byteLength])
      return timingSafeEqual(a, b)
    }
  })
  const stored = 'a'.repeat(43)
  const others = [stored, '', 'a', 'b'.repeat(43), 'a'.repeat(42), `${stored}a`, `${'a'.repeat(42)}b`, `b${'a'.repeat(42)}`, 'x'.repeat(100_000), '\0', 'é', '\ud800']
  for (const purported of others) t.equal(areSameToken(stored, purported), purported === stored, JSON.stringify(purported.slice(0, 50)))
  t.same(compared, others.map(() => [32, 32]), 'one comparison each, of 32 bytes and 32 bytes: no length or prefix decides before')
  t.equal(hashed, 2 * others.length)
})

// Promise: security/refresh-without-refresh
t.test('the refresh endpoint decides by that comparison and by no other', async (t) => {
  const digest = (text: string) => crypto.createHash('sha256').update(text).digest('hex')
  const real = crypto.timingSafeEqual
  const hex = (bytes: NodeJS.ArrayBufferView) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
  const compared: string[] = []
  let answer = false
  replace(t, {
    timingSafeEqual: (a, b) => {
      if (hex(a) !== digest('stored')) return real(a, b)
      compared.push(hex(b))
      return answer
    }
  })
  const { stored, ...store } = refreshStore()
  stored.set(1, 'stored')
  const app = await build(t, store)
  const refresh = async (token: string) => (await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(forge(claims())), payload: { refresh_token: token } })).statusCode
  t.equal(await refresh('stored'), 401)
  answer = true
  for (const token of ['another', 'stored', 's']) t.equal(await refresh(token), 200)
  t.same(compared, ['stored', 'another', 'stored', 's'].map(digest))
})

// Promise: security/refresh-without-refresh
t.test('what is no refresh token of this user is refused with the same answer, whatever it is and whether one is stored', async (t) => {
  const { stored, ...store } = refreshStore()
  stored.set(1, 'the refresh token of ada')
  const app = await build(t, store)
  const answers = new Set<string>()
  for (const user of [1, 2]) {
    for (const token of ['x', 'the refresh token of adb', 'the refresh token of ad', 'y'.repeat(10_000), '\0']) {
      const { statusCode, payload, headers: { date, ...headers } } = await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(forge(claims({ user_id: user }))), payload: { refresh_token: token } })
      answers.add(JSON.stringify([statusCode, payload, headers]))
    }
  }
  t.equal(answers.size, 1)
  t.match([...answers][0], /^\[401/)
})

/** Refuses a stranger, a wrong password, a locked account and nonsense at different places, in different ways. */
const refusing = (request: FastifyRequest): object | Promise<object> => {
  const { username } = request.body as { username?: unknown }
  if (username === 'locked') throw new AuthenticationFailed('User not found.')
  if (username === 'slow') return new Promise((_resolve, reject) => setImmediate(() => reject(new AuthenticationFailed('User not found.'))))
  return Promise.resolve(authenticate(request)) as Promise<object>
}

// Promise: security/user-enumeration
t.test('refused logins are indistinguishable: status, bytes, headers and what is logged of them, at every level', async (t) => {
  const { stored, ...store } = refreshStore()
  const variants: Record<string, Partial<TokenAuthOptions>> = { plain: {}, debug: { debug: true }, cookies: { cookieSet: true }, refresh: store, thrown: { onRefusal: 'throw' } }
  for (const [name, options] of Object.entries(variants)) {
    const lines: string[] = []
    const stream = { write: (line: string) => { lines.push(line) } }
    const app = await build(t, { ...options, authenticate: refusing }, { logger: { level: 'trace', stream } })
    const answers: string[] = []
    for (const payload of [{ username: 'ada', password: 'wrong' }, { username: 'nobody', password: 'lovelace' }, { username: 'locked' }, { username: 'slow' }, { username: {}, password: [] }, {}]) {
      const { statusCode, payload: body, headers: { date, ...headers } } = await app.inject({ method: 'POST', url: '/auth', payload })
      const logged = lines.splice(0).map((line) => { const { level, msg, err } = JSON.parse(line); return [level, msg, err?.message] })
      answers.push(JSON.stringify([statusCode, body, headers, logged]))
    }
    t.equal(new Set(answers).size, 1, name)
    t.match(answers[0], /^\[401/)
    t.notMatch(answers[0], /set-cookie|detail|eyJ/)
  }
  t.equal(stored.size, 0)
})

// Promise: security/3-9-use
// Promise: security/token-expired-active
// Promise: specification/response-refused-token
t.test('refused tokens of one kind get one answer, which says nothing of what was expected', async (t) => {
  const app = await build(t, { claimIss: 'the expected issuer', claimAud: 'the expected audience', customClaims: [{ key: 'tenant', setup: () => 1, verify: (value) => value === 'the expected tenant' }] })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const good = { iss: 'the expected issuer', aud: 'the expected audience', tenant: 'the expected tenant' }
  t.equal((await app.inject({ url: '/', headers: bearer(forge(claims(good))) })).statusCode, 200, 'control')
  const bad = [{ iss: 'x' }, { iss: undefined }, { aud: 'x' }, { aud: ['x'] }, { tenant: 'x' }, { tenant: undefined }, { user_id: null }, { exp: 'x' }]
  const answers = new Set<string>()
  for (const claim of bad) {
    const { statusCode, payload, headers: { date, ...headers } } = await app.inject({ url: '/', headers: bearer(forge(claims({ ...good, ...claim }))) })
    answers.add(JSON.stringify([statusCode, payload, headers]))
  }
  t.equal(answers.size, 1)
  t.match([...answers][0], /^\[401,.*InvalidClaim/)
  t.notMatch([...answers][0], /expected/)
})
