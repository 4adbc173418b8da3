// @slow
/** A memory of verified tokens may change speed and nothing else. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import type { TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, claims, forge, now, otherSecret, setClock } from '../helper.ts'

const start = 1_700_000_000
const leeway = 10

interface Draft { exp: number, nbf: number | undefined, kind: string, blocked: boolean, scopes: string[], form: 'right' | 'wrong key' | 'signature of the first' | 'cut' }

const drafts = fc.record<Draft>({
  exp: fc.integer({ min: -30, max: 60 }),
  nbf: fc.option(fc.integer({ min: -30, max: 60 }), { nil: undefined }),
  kind: fc.constantFrom('a', 'b'),
  blocked: fc.boolean(),
  scopes: fc.subarray(['read', 'write']),
  form: fc.oneof({ weight: 6, arbitrary: fc.constant('right' as const) }, { weight: 2, arbitrary: fc.constantFrom('wrong key' as const, 'signature of the first' as const, 'cut' as const) })
})
const steps = fc.record({
  which: fc.nat({ max: 2 }),
  at: fc.oneof(fc.integer({ min: -60, max: 90 }), fc.constantFrom(-7200, 3600, 30 * 365 * 86_400)),
  kinds: fc.subarray(['a', 'b'], { minLength: 1 }),
  checksBlocked: fc.boolean(),
  url: fc.constantFrom('/', '/read', '/write', '/admin/verify')
})

function write ({ exp, nbf, kind, blocked, scopes, form }: Draft, index: number, drafts: readonly Draft[]): string {
  const payload = { user_id: index, exp: start + exp, nbf: nbf === undefined ? undefined : start + nbf, kind, blocked, scopes }
  const token = forge(payload, form === 'wrong key' ? { key: otherSecret } : {})
  if (form === 'cut') return token.slice(0, -1)
  if (form !== 'signature of the first') return token
  // Another payload above a signature that may be remembered.
  const first = index === 0 ? forge(claims()) : write(drafts[0]!, 0, drafts)
  return [...token.split('.').slice(0, 2), first.split('.')[2]].join('.')
}

// Promise: specification/added-12
t.test('at every instant a remembered token has the same outcome as one that is seen for the first time', async (t) => {
  const setTime = setClock(t, start)
  /** What the host's own checks say at the moment. */
  const host = { kinds: ['a', 'b'], checksBlocked: true }
  const options: Partial<TokenAuthOptions> = {
    leeway,
    urlPrefix: '/admin',
    customClaims: [{ key: 'kind', setup: () => 'a', verify: (kind) => host.kinds.includes(String(kind)) }],
    extraVerifications: [(payload) => {
      const passes = !(host.checksBlocked && payload.blocked === true)
      Object.assign(payload, { blocked: false, kind: 'a', user_id: 0, exp: 0 })
      return passes
    }]
  }
  const apps = await Promise.all([0, 1, 2, 1000].map(async (tokenCacheSize) => {
    const app = await build(t, { ...options, tokenCacheSize })
    for (const [url, guard] of Object.entries({ '/': app.tokenAuth.protect(), '/read': app.tokenAuth.scoped('read'), '/write': app.tokenAuth.scoped('write') })) {
      app.get(url, { onRequest: guard }, async ({ tokenAuth: auth }) => {
        const shown = JSON.stringify([auth.payload, auth.userId, auth.scopes])
        Object.assign(Object(auth.payload), { scopes: ['write'], nbf: undefined })
        auth.scopes?.push('write')
        return { shown, changed: auth.scopes }
      })
    }
    return app
  }))
  const outcomes = { accepted: 0, refused: 0 }
  await fc.assert(fc.asyncProperty(fc.array(drafts, { minLength: 3, maxLength: 3 }), fc.array(steps, { minLength: 8, maxLength: 20 }), async (tokens, walk) => {
    const written = tokens.map(write)
    for (const { which, at, kinds, checksBlocked, url } of walk) {
      setTime(start + at)
      Object.assign(host, { kinds, checksBlocked })
      const answers = await Promise.all(apps.map(async (app) => {
        const { statusCode, body, headers } = await app.inject({ url, headers: bearer(written[which]!) })
        return { statusCode, body, challenge: headers['www-authenticate'] }
      }))
      // The rule itself, so that all of them cannot be wrong together.
      const { exp, nbf, kind, blocked, scopes, form } = tokens[which]!
      const isValid = form === 'right' && at < exp + leeway && (nbf === undefined || at >= nbf - leeway) && kinds.includes(kind) && !(checksBlocked && blocked)
      const isEnough = url === '/' || url === '/admin/verify' || scopes.includes(url.slice(1))
      const status = url === '/admin/verify' && !isValid ? 400 : isValid ? (isEnough ? 200 : 403) : 401
      for (const answer of answers) {
        if (answer.statusCode !== status) throw new Error(`${answer.statusCode} instead of ${status}: ${answer.body}`)
        if (JSON.stringify(answer) !== JSON.stringify(answers[0])) throw new Error(`${JSON.stringify(answer)} is not ${JSON.stringify(answers[0])}`)
      }
      outcomes[status === 200 ? 'accepted' : 'refused']++
    }
  }), { numRuns: 150 })
  t.ok(outcomes.accepted > 50 && outcomes.refused > 50, JSON.stringify(outcomes))
})

t.test('a remembered token expires to the second, and is refused again before it is active', async (t) => {
  const setTime = setClock(t, start)
  const app = await build(t, { leeway })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const headers = bearer(forge(claims({ exp: start + 100, nbf: start - 50 })))
  const instants: [at: number, status: number][] = [
    [0, 200], [109, 200], [109.999, 200], [110, 401], [111, 401], [0, 200], [-60, 200], [-60.001, 401], [-7200, 401], [0, 200], [30 * 365 * 86_400, 401], [1, 200]
  ]
  for (const [at, status] of instants) {
    setTime(start + at)
    assert.equal((await app.inject({ url: '/', headers })).statusCode, status, `${at} seconds later`)
  }
})

t.test('what is remembered for one key is nothing to another', async (t) => {
  let key = 'first'
  const keyOf = (name: string) => `${name} ${'0123456789'.repeat(7)}`
  const app = await build(t, { getSecret: () => keyOf(key) })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const tokens = { first: forge(claims({ exp: now() + 60 }), { key: keyOf('first') }), second: forge(claims({ exp: now() + 60 }), { key: keyOf('second') }) }
  for (const current of ['first', 'second', 'first', 'second']) {
    key = current
    for (const [name, token] of Object.entries(tokens)) {
      assert.equal((await app.inject({ url: '/', headers: bearer(token) })).statusCode, name === current ? 200 : 401, `${name} token, ${current} key`)
    }
  }
})

t.test('what requests with the same token share cannot be changed, lists in it included', async (t) => {
  const app = await build(t)
  app.get('/', { preHandler: app.tokenAuth.scoped('user') }, async (request) => {
    const shared: unknown = Reflect.get(request.tokenAuth, 'claims')
    t.throws(() => Reflect.get(Object(shared), 'scopes').push('admin'), TypeError)
    t.ok(Object.isFrozen(shared))
    return 'ok'
  })
  app.get('/admin', { preHandler: app.tokenAuth.scoped('admin') }, async () => 'reached')
  const headers = bearer(forge(claims({ scopes: ['user'], nested: [{ deep: {} }, null] })))
  for (const url of ['/', '/']) assert.equal((await app.inject({ url, headers })).statusCode, 200, url)
  t.equal((await app.inject({ url: '/admin', headers })).statusCode, 403)
})
