import t from 'tap'
import tokenAuth, { memorySessions, type Sessions } from '../../lib/index.ts'
import { storedUser, userIdText } from '../../lib/sessions/user.ts'
import { bearer, build, host, mistyped, secret, together } from '../helper.ts'

const none = { claimIss: null, claimAud: null, userId: 'user_id' }

t.test('a number and its text are two users', async (t) => {
  const texts = [1, '1', '"1"', true, 'true', 'ada', 'Ada', '\ud800', '[1,null,null]'].map(userIdText)
  t.equal(new Set(texts).size, texts.length)
  t.same([userIdText(42), userIdText('42'), userIdText(true)], ['42', '"42"', 'true'])
})

// Promise: sessions/4-14-2-refresh
t.test('registrations with another issuer or audience have other users, so that they may share a store', async (t) => {
  t.equal(storedUser('ada', none), '"ada"')
  t.equal(storedUser('ada', { ...none, claimIss: 'i' }), '["ada","i",null]')
  t.equal(storedUser(1, { ...none, claimAud: 'a' }), '[1,null,"a"]')
  t.equal(storedUser(1, { ...none, claimIss: 'i', claimAud: 'a' }), '[1,"i","a"]')
})

t.test('with a name of user ids that is not the default, this name is the last member', async (t) => {
  t.equal(storedUser(1, { ...none, userId: 'staff_id' }), '[1,null,null,"staff_id"]')
  t.equal(storedUser('ada', { claimIss: 'i', claimAud: 'a', userId: 'id' }), '["ada","i","a","id"]')
})

t.test('a user id of more than 512 bytes is InvalidUserObject, whatever the issuer', async (t) => {
  const limit = 'x'.repeat(510)
  t.equal(storedUser(limit, { ...none, claimIss: 'i'.repeat(100) }), JSON.stringify([limit, 'i'.repeat(100), null]))
  for (const write of [userIdText, (id: string) => storedUser(id, none), (id: string) => storedUser(id, { ...none, claimIss: 'i' })]) {
    t.throws(() => write(`${limit}x`), { name: 'InvalidUserObject', message: 'The user id has 513 bytes as JSON. Sessions allow at most 512. Use a shorter user id.' })
  }
})

t.test('instances of one key and one store that differ only in the name of their user ids take no tokens and no sessions of each other', async (t) => {
  const store = memorySessions()
  const logins = { customer: { customer_id: 7 }, staff: { staff_id: 7 } }
  const app = host(t)
  for (const [instanceName, user] of Object.entries(logins)) {
    await app.register(tokenAuth, together({ secret, sessions: { store }, userId: `${instanceName}_id`, urlPrefix: `/${instanceName}`, authenticate: () => user }, mistyped({ instanceName })))
  }
  const tokens: Record<string, string> = {}
  for (const name of Object.keys(logins)) tokens[name] = (await app.inject({ method: 'POST', url: `/${name}`, payload: {} })).json().refresh_token
  const refresh = async (at: string, from: string) => (await app.inject({ method: 'POST', url: `/${at}/refresh`, payload: { refresh_token: tokens[from] } })).statusCode
  t.same([await refresh('staff', 'customer'), await refresh('customer', 'staff')], [401, 401])
  t.same([await refresh('staff', 'staff'), await refresh('customer', 'customer')], [200, 200])
  const customers: Sessions = Reflect.get(app, 'customer').sessions
  t.equal(await customers.endAll(7), 1, 'the session of the employee with this id goes on')
  t.same([await refresh('staff', 'staff'), await refresh('customer', 'customer')], [200, 401])
})

t.test('the text of a number, such as a path parameter, stands for the user with this number too', async (t) => {
  for (const id of [7, '7']) {
    const app = await build(t, { sessions: {}, authenticate: () => ({ user_id: id }) })
    const { sessions } = app.tokenAuth
    const logIn = async () => (await app.inject({ method: 'POST', url: '/auth', payload: {} })).json<{ access_token: string }>().access_token
    const enter = async (token: string) => (await app.inject({ url: '/auth/me', headers: bearer(token) })).statusCode
    const token = await logIn()
    const [listed] = await sessions.list('7')
    t.equal((await sessions.list('7')).length, 1, `listed, where the id is ${JSON.stringify(id)}`)
    t.equal(await sessions.end('7', listed?.id ?? ''), true)
    t.equal(await enter(token), 401)
    const tokens = [await logIn(), await logIn(), await logIn()]
    const kept = (await sessions.list('7'))[1]?.id ?? null
    t.equal(await sessions.endAll('7', { except: kept }), 2)
    t.equal(await sessions.endAll('7'), 1)
    for (const one of tokens) t.equal(await enter(one), 401)
  }
})

t.test('other text stands for itself only, and a number never for text', async (t) => {
  const app = await build(t, { sessions: {}, authenticate: ({ body }) => ({ user_id: Object(body).id }) })
  const logIn = async (id: unknown) => { await app.inject({ method: 'POST', url: '/auth', payload: { id } }) }
  const { sessions } = app.tokenAuth
  for (const id of [7, 1, 0, true]) await logIn(id)
  for (const id of ['07', '7.0', ' 7', '7 ', '+7', '7e0', '0x7', '-0', 'true', '9007199254740993']) t.same(await sessions.list(id), [], id)
  await logIn('7')
  t.equal((await sessions.list(7)).length, 1)
  const both = await sessions.list('7')
  t.equal(both.length, 2)
  t.ok(both[0]!.usedAt >= both[1]!.usedAt, 'of both, the one that was used last comes first')
  t.equal(await sessions.endAll(7), 1)
  t.equal(await sessions.endAll('7'), 1)
})
