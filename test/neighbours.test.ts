/** What registrations of one application do to each other, and what is said of it. */
import assert from 'node:assert/strict'
import { setImmediate as settled } from 'node:timers/promises'
import t, { type Test } from 'tap'
import tokenAuth, { type TokenAuthOptions } from '../lib/index.ts'
import { instancesOfOneKey } from '../lib/neighbours.ts'
import { authenticate, caseOf, ecPair, host, otherSecret, secret, together, warnings } from './helper.ts'

const names = { cookieAccessTokenName: 'staff_access', cookieRefreshTokenName: 'staff_refresh' }

async function two (t: Test, first: Partial<TokenAuthOptions>, second: Partial<TokenAuthOptions>) {
  const app = host(t)
  await app.register(tokenAuth, together({ secret, authenticate, cookieSet: true }, first))
  await app.register(tokenAuth, together({ secret: otherSecret, authenticate, cookieSet: true, instanceName: 'staff', urlPrefix: '/staff' }, second))
  return app
}

// Promise: security/rival-cookies
t.test('two instances with different keys, and a cookie that browsers send to both, are a warning (W42) that names both', async (t) => {
  const codes = warnings(t, 'W42')
  const messages: string[] = []
  const listener = ({ message, code }: Error & { code?: string }) => { if (code === 'TOKEN_AUTH_W42') messages.push(message) }
  process.on('warning', listener)
  t.teardown(() => process.off('warning', listener))
  const cases: Array<[first: Partial<TokenAuthOptions>, second: Partial<TokenAuthOptions>, isRival: boolean]> = [
    [{}, {}, true],
    [{}, names, false],
    [{}, { cookieAccessTokenName: 'staff_access' }, false],
    [{ sessions: {} }, { sessions: {}, cookieAccessTokenName: 'staff_access' }, true],
    [{ cookieSplit: true }, { ...names, cookieSplit: true }, true],
    [{}, { sessions: {}, cookieAccessTokenName: 'x', cookieRefreshTokenName: 'access_token' }, true],
    [{ cookiePath: '/shop' }, { cookiePath: '/staff' }, false],
    [{ cookiePath: '/shop' }, { cookiePath: '/shops' }, false],
    [{ cookiePath: '/shop' }, { cookiePath: '/shop/staff' }, true],
    [{ cookiePath: '/shop/staff' }, { cookiePath: '/shop' }, true],
    [{ cookieDomain: 'shop.example.org' }, { cookieDomain: 'example.org' }, true],
    [{ cookiePath: '/shop/' }, { cookiePath: '/shop/staff' }, true],
    [{ cookiePath: '/' }, { cookiePath: '/staff' }, true],
    [{ cookieDomain: 'a.example' }, { cookieDomain: 'b.example' }, false],
    [{ cookieDomain: 'example.org' }, { cookieDomain: 'shop.Example.org' }, true],
    [{ cookieDomain: 'example.org' }, { cookieDomain: 'badexample.org' }, false],
    [{ cookieDomain: 'example.org' }, {}, true],
    [{}, { secret }, false],
    [{}, { authMode: false }, false],
    [{ cookieSet: false }, {}, false],
    [{ cookieSet: false, getCookieSet: () => true }, {}, true],
    [{}, { getCookieAccessTokenName: () => 'x' }, false],
    [{}, { secret: undefined, getSecret: () => otherSecret }, false]
  ]
  for (const [first, second, isRival] of cases) {
    const app = await two(t, first, second)
    await settled()
    assert.deepEqual(codes.splice(0), isRival ? ['TOKEN_AUTH_W42'] : [], caseOf(first, second))
    for (const message of messages.splice(0)) assert.match(message, /^staff: .+ The other instance is "tokenAuth", and the cookie is "\w+"\./)
    await app.close()
  }
  await two(t, {}, names)
  await two(t, {}, names)
  await settled()
  t.same(codes, [], 'applications of one process have different addresses')
})

t.test('instances that issue tokens which the other accepts come in pairs, for doctor', async (t) => {
  const { publicKey, privateKey } = ecPair('prime256v1')
  warnings(t, 'W22')
  const cases: Array<[second: Partial<TokenAuthOptions>, areMixed: boolean]> = [
    [{ secret, ...names }, true],
    [names, false],
    [{ secret, ...names, claimAud: 'staff' }, false],
    [{ secret, ...names, userId: 'staff_id' }, false],
    [{ secret, ...names, authMode: false }, false],
    [{ secret: undefined, ...names, algorithm: 'ES256', publicKey, privateKey }, false]
  ]
  for (const [second, areMixed] of cases) {
    const app = await two(t, {}, second)
    assert.deepEqual(instancesOfOneKey(app.server), areMixed ? [['tokenAuth', 'staff']] : [], caseOf(second))
    await app.close()
    assert.deepEqual(instancesOfOneKey(app.server), [])
  }
})
