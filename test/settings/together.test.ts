/** What a value that is given may not be, a computed one may not be: each setting that has a getter, and the rules that concern several. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { HandlerFailed, InvalidConfiguration, type TokenAuthOptions } from '../../lib/index.ts'
import { resolveSettings, type Resolved } from '../../lib/settings/configuration.ts'
import { accessorOf, keySettings, routeSettings, settingNames, type SettingName } from '../../lib/settings/schema.ts'
import { checkTogether } from '../../lib/settings/together.ts'
import { prepareSettings, RequestResults } from '../../lib/host/getters.ts'
import { build, login, mistyped, together, warnings } from '../helper.ts'
import { cookiesOf, sessionEvents } from '../sessions/helper.ts'

/** The settings that have a getter, but for key material, which is checked where it is used, and the generator of refresh tokens, which is a function. */
const computable = settingNames.filter((name) => ![...routeSettings, ...keySettings, 'generateRefreshToken'].includes(name as never))

/** Values of every kind, those among them that are near to what settings allow. */
const texts = ['', ' ', 'a', 'access_token', 'refresh_token', 'scopes', 'user_id', 'sid', 'sgen', 'exp', 'aud', 'auth_time', '__proto__', '__Host-a', '__host-a', '__Secure-a', '/', '/login', 'lax', 'none', 'strict', 'HS256', 'reply', 'Bearer', 'example.com', '.', 'a b', 'a;b', 'a\n']
const values = fc.oneof(
  fc.boolean(), fc.constantFrom(...texts), fc.constantFrom<unknown>(null, undefined, 0, 1, -1, 0.5, 180, 2 ** 31, NaN, Infinity, [], ['https://a.example'], ['x'], '*', {}, () => 1), fc.string()
)

const failureOf = (act: () => unknown): unknown => {
  try {
    act()
  } catch (error) {
    return error
  }
  return undefined
}

/** Reads settings in an order. @returns the first error */
function readAll (settings: object, names: readonly string[]): unknown {
  for (const name of names) {
    const error = failureOf(() => Reflect.get(settings, name))
    if (error !== undefined) return error
  }
  return undefined
}

/** What is an error for values that are given, and not for computed ones: braces, which may come from the request; and no tokens in the body, where those without cookies get them. */
const isForGiven = (error: unknown) => error instanceof InvalidConfiguration && (error.finding === 'TOKEN_AUTH_E58' || error.message.includes('clients would receive no tokens'))

const given = fc.record(Object.fromEntries(computable.map((name) => [name, values])), { requiredKeys: [] })
// Several that belong together, more often than by chance.
const cookies = fc.record({
  cookieSet: fc.boolean(),
  cookieSecure: fc.boolean(),
  cookieDomain: fc.constantFrom('', 'example.com'),
  cookiePath: fc.constantFrom('/', '/a'),
  cookieSamesite: fc.constantFrom('lax', 'none', 'strict'),
  cookieAccessTokenName: fc.constantFrom('a', '__Host-a', '__Secure-a', 'b'),
  cookieRefreshTokenName: fc.constantFrom('b', '__Host-b', '__secure-b'),
  cookieSplitSignatureName: fc.constantFrom('c', '__HOST-c', 'a')
}, { requiredKeys: [] })
const names = fc.record({
  accessTokenName: fc.constantFrom('a', 'b'),
  refreshTokenName: fc.constantFrom('a', 'c'),
  queryStringAccessTokenName: fc.constantFrom('a', 'b'),
  queryStringRefreshTokenName: fc.constantFrom('a', 'c'),
  userId: fc.constantFrom('id', 'exp', 'auth_time', 'sid'),
  scopesName: fc.constantFrom('id', 'scopes', 'nbf', 'auth_time', 'sgen'),
  claimAuthTime: fc.boolean()
}, { requiredKeys: [] })

// Promise: security/computed-like-given
t.test('whatever values are computed, in whatever order they are read: they fail where the same values fail that are given, and only there', async (t) => {
  t.ok(computable.length > 40)
  let failures = 0
  fc.assert(fc.property(fc.oneof(given, cookies, names), fc.func(fc.boolean()), fc.func(fc.nat()), fc.boolean(), (all, isComputed, rank, hasSessions) => {
    // Undefined is a setting that is not given, and nothing that a getter may return.
    const entries = Object.entries(all).filter(([, value]) => value !== undefined)
    const resolve = (options: object): Resolved => {
      const resolved = { ...resolveSettings(mistyped(options), undefined), hasSessions }
      checkTogether(resolved)
      return resolved
    }
    const stated = failureOf(() => resolve(Object.fromEntries(entries)))
    const options = Object.fromEntries(entries.map(([name, value]) => isComputed(name) ? [accessorOf('get', name as SettingName), () => value] : [name, value]))
    let resolved: Resolved | undefined
    let error = failureOf(() => { resolved = resolve(options) })
    if (resolved !== undefined) {
      const settings = prepareSettings(resolved)(new RequestResults({}))
      const order = Object.keys(resolved.settings).toSorted((one, other) => rank(one) - rank(other))
      error = readAll(settings, order)
      assert.ok(error === undefined || (error instanceof HandlerFailed && error.cause instanceof InvalidConfiguration))
      assert.equal(readAll(settings, order) !== undefined, error !== undefined, 'each time')
    }
    if (error !== undefined) failures++
    assert.equal(error !== undefined && !isForGiven(error), stated !== undefined && !isForGiven(stated))
  }), { numRuns: 3000 })
  t.ok(failures > 500)
})

/** Settings of which one is computed, and contradicts the others. */
const contradictions: Record<string, Partial<TokenAuthOptions>> = {
  'a name that needs no domain': { cookieRefreshTokenName: '__Host-r', getCookieDomain: () => 'example.com' },
  'a name that needs HTTPS': { cookieSecure: false, getCookieAccessTokenName: () => '__Secure-a' },
  'cookies of all sites without HTTPS': { getCookieSecure: () => false, cookieSamesite: 'none' },
  'one name for two cookies': { getCookieRefreshTokenName: () => 'access_token' },
  'one name for two fields': { getRefreshTokenName: () => 'access_token' },
  'both computed': { getCookieSecure: () => false, getCookieSamesite: () => 'none' }
}

t.test('a login and a refresh with settings that contradict each other for this request are a 500 by name: nothing is stored, rotated or set', async (t) => {
  warnings(t, 'W09', 'W10')
  for (const [name, options] of Object.entries(contradictions)) {
    const lines: string[] = []
    const app = await build(t, together({ cookieSet: true, cookieStrict: false, sessions: {} }, options), { logger: { level: 'error', stream: { write: (line: string) => { lines.push(line) } } } })
    const events = sessionEvents(t)
    const answer = await login(app)
    assert.equal(answer.statusCode, 500, name)
    assert.deepEqual(cookiesOf(answer), [], name)
    assert.equal(events.length, 0, name)
    assert.match(lines.join(''), /The get[A-Z]\w+ handler failed/, name)
    assert.match(lines.join(''), /\\"(?:cookie|refresh|access)\w+\\"/, name)
  }
})

t.test('a value that is given counts for nothing where a getter computes the setting', async (t) => {
  warnings(t, 'W09', 'W10')
  const app = await build(t, { cookieSet: true, cookieSecure: false, cookieSamesite: 'none', getCookieSecure: () => true })
  t.equal((await login(app)).statusCode, 200)
  await t.rejects(build(t, { cookieSet: true, cookieSecure: false, cookieSamesite: 'none' }), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E09' })
})

t.test('with sessions, no guard may override the name of a claim with one that is taken', async (t) => {
  const app = await build(t, { sessions: {} })
  for (const taken of ['sid', 'sgen']) t.throws(() => app.tokenAuth.protect({ scopesName: taken }), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E10' })
})
