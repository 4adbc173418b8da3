/** A login over plain HTTP whose cookies a browser rejects. */
import t from 'tap'
import type { TokenAuthOptions } from '../../lib/index.ts'
import { build, refreshStore, together, users, warnings } from '../helper.ts'

// Promise: specification/plain-http
t.test('a login over plain HTTP that sets Secure cookies is one line at info for an application, except on localhost', async (t) => {
  const { stored, ...handlers } = refreshStore()
  const modes: Array<Partial<TokenAuthOptions>> = [{ sessions: {} }, handlers, { refreshTokenEnabled: false }]
  const cases: Array<[host: string, options: Partial<TokenAuthOptions>, headers: Record<string, string>, isSaid: boolean]> = [
    ['app.example.org', {}, {}, true],
    ['192.168.1.4:3000', {}, {}, true],
    ['localhost.example.org', {}, {}, true],
    ['localhost:3000', {}, {}, false],
    ['app.localhost', {}, {}, false],
    ['127.0.0.1:3000', {}, {}, false],
    ['[::1]:3000', {}, {}, false],
    ['app.example.org', { cookieSet: false }, {}, false],
    ['app.example.org', {}, { 'x-forwarded-proto': 'https' }, false]
  ]
  for (const mode of modes) {
    for (const [host, options, headers, isSaid] of cases) {
      const lines: Array<{ msg: string, level: number, instanceName?: string }> = []
      const stream = { write: (line: string) => { lines.push(JSON.parse(line)) } }
      const trustProxy = Object.keys(headers).length > 0
      const app = await build(t, together({ cookieSet: true, retrieveUser: () => users[0] }, mode, options), { trustProxy, logger: { level: 'info', stream } })
      const log = () => lines.splice(0).filter(({ msg }) => msg.includes('plain HTTP'))
      const login = async (password = 'lovelace') => await app.inject({ method: 'POST', url: '/auth', headers: { host, ...headers }, payload: { username: 'ada', password } })
      t.equal((await login('wrong')).statusCode, 401)
      t.same(log(), [], 'a login that is refused')
      t.equal((await login()).statusCode, 200)
      t.match(log(), isSaid ? [{ level: 30, instanceName: 'tokenAuth', msg: /"trustProxy".+HTTPS/ }] : [], host)
      await login()
      t.same(log(), [], 'once')
    }
  }
  t.ok(stored.size > 0)
})

t.test('nothing is said where cookies are not Secure', async (t) => {
  warnings(t, 'W10')
  const lines: string[] = []
  const app = await build(t, { cookieSet: true, cookieSecure: false }, { logger: { level: 'info', stream: { write: (line: string) => { lines.push(line) } } } })
  await app.inject({ method: 'POST', url: '/auth', headers: { host: 'app.example.org' }, payload: { username: 'ada', password: 'lovelace' } })
  t.notMatch(lines.join(), /plain HTTP/)
})

// Promise: specification/cross-site-cookies
t.test('a login from a page of another site whose cookies are not SameSite=None is one line at warn for an application', async (t) => {
  warnings(t, 'W09')
  const trustedOrigins = ['https://app.example']
  const fetched = { origin: 'https://app.example', 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors' }
  const cases: Array<[options: Partial<TokenAuthOptions>, headers: Record<string, string>, isSaid: boolean]> = [
    [{}, fetched, true],
    [{ cookieSamesite: 'strict' }, fetched, true],
    [{ cookieSamesite: 'none' }, fetched, false],
    [{}, { ...fetched, 'sec-fetch-site': 'same-site' }, false],
    [{}, { ...fetched, 'sec-fetch-mode': 'navigate' }, false],
    [{}, {}, false]
  ]
  for (const [options, headers, isSaid] of cases) {
    const lines: Array<{ msg: string, level: number, instanceName?: string }> = []
    const stream = { write: (line: string) => { lines.push(JSON.parse(line)) } }
    const app = await build(t, { cookieSet: true, trustedOrigins, ...options }, { logger: { level: 'info', stream } })
    for (const expected of [isSaid, false]) {
      const answer = await app.inject({ method: 'POST', url: '/auth', headers: { host: 'localhost', ...headers }, payload: { username: 'ada', password: 'lovelace' } })
      t.equal(answer.statusCode, 200)
      const found = lines.splice(0).filter(({ msg }) => msg.includes('another site'))
      t.match(found, expected ? [{ level: 40, instanceName: 'tokenAuth', msg: /one site.+"cookieSamesite" to "none"/ }] : [])
      t.equal(found.length, expected ? 1 : 0)
    }
  }
})
