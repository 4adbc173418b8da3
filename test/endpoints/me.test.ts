import { setImmediate as settled } from 'node:timers/promises'
import t from 'tap'
import { AuthenticationFailed, type TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, claims, environment, forge, mistyped, secret, together, warnings } from '../helper.ts'

warnings(t, 'W03')

const headers = bearer(forge(claims()))

class Account {
  user_id = 1
  readonly #shown: unknown
  constructor (shown: unknown) { this.#shown = shown }
  toDict () { return mistyped<object>(this.#shown) }
}

// Promise: specification/current-user-endpoint
// Promise: specification/get-auth-me
// Promise: specification/user-object-current
t.test('the current user is what retrieveUser gives, as it shows itself', async (t) => {
  const shown = { name: 'ada' }
  const cases: [name: string, retrieveUser: TokenAuthOptions['retrieveUser'], me: unknown][] = [
    ['no handler: the user id alone', undefined, { user_id: 1 }],
    ['a mapping', () => ({ user_id: 1, name: 'ada' }), { user_id: 1, name: 'ada' }],
    ['a mapping without a user id', () => shown, shown],
    ['a promised mapping', async () => shown, shown],
    ['toDict', () => new Account(shown), shown],
    ['a promise from toDict', () => new Account(Promise.resolve(shown)), shown],
    ['toDict of a mapping', () => ({ password: 'x', toDict: () => shown }), shown],
    ['toJSON', () => ({ password: 'x', toJSON: () => shown }), shown],
    ['toDict before toJSON', () => ({ toJSON: () => ({}), toDict: () => shown }), shown],
    ['a mapping without a prototype', () => Object.assign(Object.create(null), shown), shown],
    ['null', () => null, null],
    ['undefined', async () => undefined, null]
  ]
  for (const [name, retrieveUser, me] of cases) {
    const app = await build(t, { retrieveUser })
    const response = await app.inject({ url: '/auth/me', headers })
    t.equal(response.statusCode, 200, name)
    t.same(response.json(), { me }, name)
    t.equal(response.headers['cache-control'], 'no-store')
  }
})

t.test('without a handler the user id stands under the name that the setting userId gives it', async (t) => {
  const app = await build(t, { userId: 'sub' })
  t.same((await app.inject({ url: '/auth/me', headers: bearer(forge(claims({ sub: 'ada' }))) })).json(), { me: { sub: 'ada' } })
})

t.test('retrieveUser gets the request and the payload, once', async (t) => {
  const seen: unknown[] = []
  const app = await build(t, { retrieveUser: (request, payload) => { seen.push([request.url, payload.role]); return {} } })
  await app.inject({ url: '/auth/me', headers: bearer(forge(claims({ role: 'admin' }))) })
  t.same(seen, [['/auth/me', 'admin']])
})

t.test('with doProtection: false, a key or trusted that is asynchronous is waited for', async (t) => {
  const rows: Array<Partial<TokenAuthOptions>> = [
    { trusted: async () => true }, { trusted: async () => true, sessions: {}, retrieveUser: () => ({ user_id: 1 }) }, { secret: undefined, getSecret: async () => secret }
  ]
  for (const options of rows) {
    const app = await build(t, together(options, { doProtection: false }))
    t.same((await app.inject({ url: '/auth/me', headers })).json(), { me: { user_id: 1 } })
    t.same((await app.inject({ url: '/auth/me' })).json(), { me: null })
  }
})

// Promise: specification/current-user-endpoint
t.test('without a valid token the answer is 401, as on a protected route', async (t) => {
  const app = await build(t)
  const cases: [Record<string, string>, string][] = [
    [{}, 'MissingAuthorizationHeader'], [bearer('x'), 'InvalidToken'], [bearer(forge(claims({ exp: 1 }))), 'TokenExpired']
  ]
  for (const [sent, exception] of cases) {
    const response = await app.inject({ url: '/auth/me', headers: sent })
    t.equal(response.statusCode, 401)
    t.equal(response.json().exception, exception)
    t.match(response.headers, { 'cache-control': 'no-store', 'www-authenticate': /^Bearer realm=/, 'content-type': /^application\/json/ })
    const head = await app.inject({ method: 'HEAD', url: '/auth/me', headers: sent })
    t.equal(head.statusCode, 401)
    t.equal(head.body, '')
  }
})

t.test('with doProtection false and no token, or a bad one, there is nobody', async (t) => {
  const app = await build(t, { doProtection: false, retrieveUser: () => ({ name: 'ada' }) })
  for (const sent of [{}, bearer('rubbish')]) {
    const response = await app.inject({ url: '/auth/me', headers: sent })
    t.equal(response.statusCode, 200)
    t.same(response.json(), { me: null })
  }
  t.same((await app.inject({ url: '/auth/me', headers })).json(), { me: { name: 'ada' } })
})

// Promise: specification/4-current-user
// Promise: specification/invaliduserobject-2
t.test('what is no user, or shows itself as none, is answered with 500 and nothing of it', async (t) => {
  class Plain { password = 'hidden' }
  const wrong: unknown[] = [
    'hidden', 1, true, ['hidden'], () => 'hidden', new Plain(), new Map([['password', 'hidden']]), new Account('hidden'), new Account(null),
    new Account(undefined), new Account(['hidden']), new Account(Promise.resolve(7))
  ]
  for (const user of wrong) {
    const app = await build(t, { retrieveUser: () => mistyped(user) })
    const response = await app.inject({ url: '/auth/me', headers })
    t.equal(response.statusCode, 500)
    t.equal(response.json().exception, 'InvalidUserObject')
    t.notMatch(response.body, 'hidden')
    t.equal(response.headers['cache-control'], 'no-store')
  }
})

t.test('a user that fails to show itself is a handler that failed', async (t) => {
  for (const name of ['toDict', 'toJSON']) {
    const app = await build(t, { retrieveUser: () => ({ [name]: () => { throw new Error('original') } }) })
    const response = await app.inject({ url: '/auth/me', headers })
    t.equal(response.statusCode, 500)
    t.equal(response.json().message, `The ${name} handler failed.`)
    t.notMatch(response.body, 'original')
  }
})

t.test('a refusal by retrieveUser is rendered as one, in JSON', async (t) => {
  const app = await build(t, { retrieveUser: async () => { throw new AuthenticationFailed('Locked.') } })
  const response = await app.inject({ url: '/auth/me', headers })
  t.equal(response.statusCode, 401)
  t.match(response.headers, { 'content-type': /^application\/json/, 'www-authenticate': 'Bearer realm="token-auth"' })
  t.same(response.json(), { reasons: 'Locked.', exception: 'AuthenticationFailed' })
})

// Promise: specification/secrets-of-users
t.test('a user with a member that is probably secret is one warning (W44), and outside of production an error in the log; the values are in neither', async (t) => {
  const codes = warnings(t, 'W44')
  const messages: string[] = []
  const listener = ({ message, code }: Error & { code?: string }) => { if (code === 'TOKEN_AUTH_W44') messages.push(message) }
  process.on('warning', listener)
  t.teardown(() => process.off('warning', listener))
  const names = ['password', 'hash', 'salt', 'password_hash', 'passwordHash', 'PasswordHash', 'password-hash', 'hashed_password', 'encryptedPassword', 'totp_secret', 'refresh_token']
  const harmless = ['hashtag', 'has_password', 'passwordChangedAt', 'saltiness', 'name', 'token_count']
  for (const [members, found] of [...names.map((name) => [[name], [name]] as const), [['name', 'salt', 'hash'], ['salt', 'hash']] as const, [harmless, []] as const]) {
    for (const isProduction of [false, true]) {
      const lines: Array<{ level: number, members?: string[] }> = []
      const text: string[] = []
      const stream = { write: (line: string) => { text.push(line); lines.push(JSON.parse(line)) } }
      const user = { user_id: 1, ...Object.fromEntries(members.map((name) => [name, '$2b$10$abcdefgh'])) }
      // What JSON omits is not sent.
      const retrieved = { ...user, clientSecret: undefined, secret: () => 'x', private_key: Symbol('x') }
      const app = await build(t, { retrieveUser: (_request, payload) => payload.user_id === 1 ? retrieved : { user_id: 2 } }, { logger: { level: 'error', stream } })
      if (isProduction) environment(t, 'production')
      const ask = async (id: number) => (await app.inject({ url: '/auth/me', headers: bearer(forge(claims({ user_id: id }))) })).json()
      t.same(await ask(2), { me: { user_id: 2 } })
      for (let time = 0; time < 2; time++) t.same(await ask(1), { me: user }, 'the response is that of the handler')
      await settled()
      delete process.env.NODE_ENV
      const expected = found.length > 0
      t.same(codes.splice(0), expected ? ['TOKEN_AUTH_W44'] : [], members.join())
      t.match(messages.splice(0), expected ? [new RegExp(`${found.length === 1 ? 'The member is' : 'The members are'} ${found.map((name) => `"${name}"`).join(', ')}\\.`)] : [])
      t.match(lines, expected && !isProduction ? [{ level: 50, members: found }] : [])
      t.equal(lines.length, expected && !isProduction ? 1 : 0)
      t.notMatch(text.join(), /\$2b/)
    }
  }
})
