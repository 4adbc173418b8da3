/** Recipes of accounts: sign-up, passwords, second factors, support. Each does what it promises, with the libraries that it names. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import fastifyJwt from '@fastify/jwt'
import * as argon2 from '@node-rs/argon2'
import { expressjwt } from 'express-jwt'
import type { FastifyInstance, FastifyRequest, LightMyRequestResponse } from 'fastify'
import jwt, { type SignOptions } from 'jsonwebtoken'
import { TOTP } from 'otpauth'
import { SMTPServer } from 'smtp-server'
import t, { type Test } from 'tap'
import tokenAuth, { AuthenticationFailed, memorySessions } from '../../../lib/index.ts'
import { bearer, host, listen, now, payloadOf, secret, setClock } from '../../helper.ts'
import { examplesOf } from '../../programs.ts'
import { cookiesOf, cookies, post, recipe } from './helper.ts'

interface Mail { to: string[], text: string }

/** A server that takes mails and delivers none. @param accept resolves when it has taken a mail */
async function mailServer (t: Test, accept: () => Promise<void> = async () => {}) {
  const mails: Mail[] = []
  const server = new SMTPServer({
    disabledCommands: ['AUTH', 'STARTTLS'],
    async onData (stream, { envelope: { rcptTo } }, callback) {
      let message = ''
      for await (const chunk of stream) message += chunk
      await accept()
      const [, body = ''] = message.split('\r\n\r\n')
      mails.push({ to: rcptTo.map(({ address }) => address), text: body.replaceAll('=\r\n', '').replaceAll('=3D', '=') })
      server.emit('mail')
      callback()
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  t.teardown(() => new Promise<void>((resolve) => server.close(resolve)))
  const next = async () => {
    if (mails.length === 0) await once(server, 'mail')
    const [mail] = mails.splice(0, 1)
    if (mail === undefined) throw new Error('There is no mail.')
    return mail
  }
  return { url: `smtp://127.0.0.1:${(server.server.address() as AddressInfo).port}`, next, mails }
}

const signUp = recipe(t, 'sign-up.md')

/** Users of a service, and the codes of their mails. */
function accounts () {
  const users: Array<{ user_id: number, email: string, password: string }> = [{ user_id: 1, email: 'ada@example.org', password: 'of ada' }]
  const codes = new Map<string, string>()
  const find = (email: unknown) => users.find((user) => user.email === email)
  return {
    users,
    codes,
    hasUser: async (email: string) => find(email) !== undefined,
    saveCode: async (hash: string, email: string) => { codes.set(hash, email) },
    takeCode: async (hash: string) => {
      const email = codes.get(hash)
      codes.delete(hash)
      return email
    },
    hashPassword: async (password: string) => `of ${password}`,
    createUser: async (email: string, password: string) => {
      if (find(email) !== undefined) return undefined
      const user = { user_id: users.length + 1, email, password }
      users.push(user)
      return user
    },
    retrieveUser: async (_request: unknown, { user_id: id }: { user_id: unknown }) => {
      const user = users.find((candidate) => candidate.user_id === id)
      return user && { user_id: user.user_id, email: user.email }
    },
    authenticate: async ({ body }: { body: unknown }) => {
      const { email, password } = Object(body)
      const user = find(email)
      if (user?.password !== `of ${password}`) throw new AuthenticationFailed()
      return user
    }
  }
}

async function signUps (t: Test, accept?: () => Promise<void>) {
  const { url, ...mail } = await mailServer(t, accept)
  const handlers = accounts()
  const app = await signUp.cook(t, 'invite', { secret, cookies, process: { env: { SMTP_URL: url } }, ...handlers })
  const ask = async (email: unknown, headers = {}) => await post(app, '/sign-up', { email }, { headers })
  const confirm = async (code: string, password = 'a long password') => await post(app, '/sign-up/confirm', { code, password })
  const codeOf = ({ text }: Mail) => /#([\w-]{43})\s*$/.exec(text)?.[1] ?? ''
  return { app, ask, confirm, codeOf, ...mail, ...handlers }
}

const password = 'a long password'

t.test('sign-up: the owner of the mailbox chooses the password, and is logged in', async (t) => {
  const { app, ask, confirm, codeOf, next, codes, users } = await signUps(t)
  t.equal((await ask('Grace@Example.org', { host: 'evil.example', 'x-forwarded-host': 'evil.example' })).statusCode, 202)
  const mail = await next()
  t.same(mail.to, ['grace@example.org'])
  t.match(mail.text, /^Continue within an hour: https:\/\/app\.example\.org\/welcome#[\w-]{43}\s*$/, 'the link is none of the request')
  t.notOk(codes.has(codeOf(mail)), 'the code is stored as a hash')
  t.equal(users.length, 1, 'there is no account before the confirmation')

  t.equal((await confirm(codeOf(mail), 'short')).statusCode, 400, 'which does not use the code up')
  const confirmed = await confirm(codeOf(mail))
  t.equal(confirmed.statusCode, 204)
  t.match((await app.inject({ url: '/auth/me', cookies: cookiesOf(confirmed) })).json(), { me: { email: 'grace@example.org' } })
  t.equal((await post(app, '/auth', { email: 'grace@example.org', password })).statusCode, 200)
})

t.test('sign-up: a code works once, also in requests at once, and two codes of one address make one account', async (t) => {
  const { ask, confirm, codeOf, next, users, codes } = await signUps(t)
  await ask('grace@example.org')
  const first = codeOf(await next())
  await ask('grace@example.org')
  const second = codeOf(await next())
  const statuses = await Promise.all([first, first, second, 'guessed', ''].map(async (code) => (await confirm(code)).statusCode))
  t.same(statuses.sort(), [204, 403, 403, 403, 403])
  t.equal(users.length, 2)
  codes.clear()
  t.equal((await confirm(second)).statusCode, 403, 'and when it has expired')
})

t.test('sign-up: who sends an address of somebody else has no account afterwards, whatever else the request says', async (t) => {
  const { app, next, confirm, codeOf } = await signUps(t)
  await post(app, '/sign-up', { email: 'grace@example.org', password: 'of the attacker', code: 'x' })
  t.equal((await post(app, '/auth', { email: 'grace@example.org', password: 'of the attacker' })).statusCode, 401)
  await confirm(codeOf(await next()))
  t.equal((await post(app, '/auth', { email: 'grace@example.org', password: 'of the attacker' })).statusCode, 401)
  t.equal((await post(app, '/auth', { email: 'grace@example.org', password })).statusCode, 200)
})

t.test('sign-up: known and unknown addresses get the same response, before a mail is sent, also if none can be', async (t) => {
  let isSent = false
  let send = () => {}
  const held = new Promise<void>((resolve) => { send = () => { isSent = true; resolve() } })
  const { ask, next, codes } = await signUps(t, () => held)
  const shown = async (email: string) => {
    const { statusCode, headers: { date, ...headers }, payload } = await ask(email)
    return { statusCode, headers, payload }
  }
  t.same(await shown('ada@example.org'), await shown('grace@example.org'))
  t.notOk(isSent)
  send()
  const mails = [await next(), await next()].sort((one, other) => one.text.length - other.text.length)
  t.match(mails, [{ to: ['ada@example.org'], text: /\/login\s*$/ }, { to: ['grace@example.org'], text: /\/welcome#/ }])
  t.equal(codes.size, 1)

  const app = await recipe(t, 'sign-up.md').cook(t, 'invite', { secret, cookies, process: { env: { SMTP_URL: 'smtp://127.0.0.1:1' } }, ...accounts() })
  t.equal((await post(app, '/sign-up', { email: 'grace@example.org' })).statusCode, 202)
})

t.test('sign-up: an address gets three mails in an hour, also under other spellings, and the response does not tell', async (t) => {
  const { ask, next, codes, mails } = await signUps(t)
  for (const email of ['grace@example.org', 'GRACE@example.org', 'Grace@Example.ORG']) {
    await ask(email)
    await next()
  }
  t.equal((await ask('gracE@example.org')).statusCode, 202)
  await turn()
  t.equal(codes.size, 3)
  t.equal((await ask('joan@example.org')).statusCode, 202)
  t.same((await next()).to, ['joan@example.org'])
  t.same(mails, [])
})

t.test('sign-up: what is not one address gets no mail', async (t) => {
  const { ask, codes } = await signUps(t)
  for (const email of ['', 'grace', 'a@example.org, b@example.org', 'a@example.org\nBcc: b@example.org', 'a@example.org\r\n', '"Grace" <a@example.org>', ['a@example.org', 'b@example.org'], { address: 'a@example.org' }, null, `${'a'.repeat(200)}@example.org`]) {
    t.equal((await ask(email)).statusCode, 400, JSON.stringify(email))
  }
  t.equal(codes.size, 0)
})

const passwords = recipe(t, 'passwords.md')

/** The cost of new hashes, and a lower one. */
const weak = { memoryCost: 8192, timeCost: 1, parallelism: 1 }

interface Person { user_id: number, name: string, hash: string, version: number }

/** The application of the recipe, with its login route, and what it has compared. */
async function people (t: Test) {
  const users: Person[] = [
    { user_id: 1, name: 'ada', hash: await argon2.hash('the password of ada'), version: 0 },
    { user_id: 2, name: 'grace', hash: await argon2.hash('the password of grace', weak), version: 0 }
  ]
  const compared: string[] = []
  /** What happens before the next user is read by its id. */
  const meanwhile: Array<() => Promise<unknown>> = []
  const update = (id: unknown, isExpected: (user: Person) => boolean, change: Partial<Person>) => {
    const user = users.find((candidate) => candidate.user_id === id)
    if (user === undefined || !isExpected(user)) return false
    Object.assign(user, change)
    return true
  }
  const findUser = async (id: unknown) => {
    await meanwhile.pop()?.()
    const user = users.find((candidate) => candidate.user_id === id)
    return user && { ...user }
  }
  const names = {
    secret,
    cookies,
    findUser,
    findUserByName: async (name: string) => {
      const user = users.find((candidate) => candidate.name === name)
      return user && { ...user }
    },
    replaceHash: async (id: unknown, before: string, hash: string) => update(id, (user) => user.hash === before, { hash }),
    setHash: async (id: unknown, hash: string, version: number) => update(id, (user) => user.version === version, { hash, version: version + 1 }),
    retrieveUser: async (_request: unknown, { user_id: id }: { user_id: unknown }) => users.some((user) => user.user_id === id) ? { user_id: id } : undefined
  }
  const verify = async (hash: string, password: string) => {
    compared.push(hash)
    return await argon2.verify(hash, password)
  }
  const { app, logIn } = await passwords.cook<{ app: FastifyInstance, logIn: unknown }>(t, 'async function logIn', names, { result: '{ app, logIn }', modules: { '@node-rs/argon2': { ...argon2, verify } } })
  await examplesOf('recipes/log-out-everywhere.md').run("app.post('/auth/login'", { app, AuthenticationFailed, logIn, findUser })
  const enter = async (name: string, password: string) => await post(app, '/auth/login', { name, password })
  const change = async (session: Record<string, string>, password: string, next = 'another password') => await post(app, '/password', { password, next }, { cookies: session })
  const isIn = async (session: Record<string, string>) => (await app.inject({ url: '/auth/me', cookies: session })).statusCode === 200
  return { app, users, compared, meanwhile, enter, change, isIn }
}

t.test('passwords: an unknown name is compared as a wrong password is, and gets the same response', async (t) => {
  const { compared, enter } = await people(t)
  const [wrong, unknown] = [await enter('ada', 'wrong'), await enter('nobody', 'wrong')]
  t.equal(wrong.statusCode, 401)
  t.same([unknown.statusCode, unknown.payload], [wrong.statusCode, wrong.payload])
  t.equal(compared.length, 2)
  for (const hash of compared) t.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  t.equal((await enter('ada', 'x'.repeat(201))).statusCode, 400)
  t.equal(compared.length, 2, 'too long to be hashed')
  t.equal((await enter('ada', 'the password of ada')).statusCode, 200)
})

t.test('passwords: a login replaces a hash of a lower cost, and a wrong password does not', async (t) => {
  const { users, enter } = await people(t)
  const [ada, grace] = users as [Person, Person]
  const { hash } = grace
  await enter('grace', 'wrong')
  t.equal(grace.hash, hash)
  const { hash: strong } = ada
  for (const name of ['ada', 'grace']) t.equal((await enter(name, `the password of ${name}`)).statusCode, 200)
  t.equal(ada.hash, strong)
  t.match(grace, { version: 0, hash: /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/ })
  t.equal((await enter('grace', 'the password of grace')).statusCode, 200)
})

t.test('passwords: a change needs the old password, ends all logins, and gives this browser a new one', async (t) => {
  const { app, enter, change, isIn } = await people(t)
  const [own, other] = [cookiesOf(await enter('ada', 'the password of ada')), cookiesOf(await enter('ada', 'the password of ada'))]
  t.equal((await change({}, 'the password of ada')).statusCode, 401)
  t.equal((await change(own, 'wrong')).statusCode, 403)
  t.equal((await change(own, 'the password of ada', 'short')).statusCode, 400)
  t.ok(await isIn(other))

  const changed = await change(own, 'the password of ada')
  t.equal(changed.statusCode, 204)
  t.same(await Promise.all([own, other, cookiesOf(changed)].map(isIn)), [false, false, true])
  for (const { '__Host-refresh_token': token = '' } of [own, other]) t.equal((await post(app, '/auth/refresh', {}, { cookies: { '__Host-refresh_token': token } })).statusCode, 401)
  t.equal((await enter('ada', 'the password of ada')).statusCode, 401)
  t.equal((await enter('ada', 'another password')).statusCode, 200)
})

t.test('passwords: of two changes at once one succeeds, and a login with the old password that is under way leaves no session', async (t) => {
  const { app, users, enter, change, isIn, meanwhile } = await people(t)
  const [own, thief] = [cookiesOf(await enter('ada', 'the password of ada')), cookiesOf(await enter('ada', 'the password of ada'))]
  const statuses = await Promise.all([change(own, 'the password of ada'), change(thief, 'the password of ada', 'password of the thief')])
  t.same(statuses.map(({ statusCode }) => statusCode).sort(), [204, 409])
  t.equal(users[0]?.version, 1)
  t.notOk(await isIn(thief))

  const session = cookiesOf(await enter('grace', 'the password of grace'))
  meanwhile.push(async () => t.equal((await change(session, 'the password of grace')).statusCode, 204))
  const late = await enter('grace', 'the password of grace')
  t.equal(late.statusCode, 401)
  t.equal((await app.tokenAuth.sessions.list(2)).length, 1)
})

const secondFactor = recipe(t, 'second-factor.md')

/** The application of the recipe, of which ada has a second factor. */
async function factors (t: Test) {
  const setTime = setClock(t, now())
  const totpSecret = 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP'
  const users = [
    { user_id: 1, name: 'ada', totp: totpSecret as string | null, pending: undefined as string | undefined, step: 0 },
    { user_id: 2, name: 'grace', totp: null, pending: undefined, step: 0 }
  ]
  const find = (id: unknown) => users.find((user) => user.user_id === id) ?? users[0]!
  const app = await secondFactor.cook(t, 'checkCode', {
    secret,
    cookies,
    logIn: async ({ name, password }: { name: string, password: string }) => {
      const user = users.find((candidate) => candidate.name === name)
      if (user === undefined || password !== 'right') throw new AuthenticationFailed('Wrong name or password.')
      return { user_id: user.user_id, name, totp: user.totp }
    },
    retrieveUser: async (_request: unknown, { user_id: id }: { user_id: unknown }) => ({ user_id: id }),
    useStep: async (id: unknown, step: number) => find(id).step < step && Boolean(find(id).step = step),
    savePending: async (id: unknown, secret: string) => find(id).totp === null && Boolean(find(id).pending = secret),
    findPending: async (id: unknown) => find(id).pending,
    enableTotp: async (id: unknown, secret: string) => { find(id).totp = secret }
  })
  const codeAt = (steps: number, of = totpSecret) => new TOTP({ secret: of }).generate({ timestamp: Date.now() + steps * 30_000 })
  const enter = async (code?: unknown, name = 'ada', password = 'right') => await post(app, '/auth', { name, password, code })
  return { app, users, enter, codeAt, setTime }
}

t.test('second factor: a login needs password and code; who does not know the password does not learn that there is one', async (t) => {
  const { enter, codeAt } = await factors(t)
  const [wrong, unknown] = [await enter(undefined, 'ada', 'wrong'), await enter(undefined, 'nobody', 'wrong')]
  t.same([wrong.statusCode, wrong.payload], [unknown.statusCode, unknown.payload])
  t.equal((await enter(codeAt(0), 'ada', 'wrong')).statusCode, 401)
  t.match((await enter()).json(), { exception: 'CodeRequired' })
  for (const code of ['000000', '', {}, null]) t.match(await enter(code), { statusCode: 403, cookies: [] })
  t.equal((await enter(codeAt(0))).statusCode, 200, 'none of these has used the code up')
  t.equal((await enter(undefined, 'grace')).statusCode, 200)
})

t.test('second factor: a code works once, also in requests at once, and no earlier code after it', async (t) => {
  const { enter, codeAt } = await factors(t)
  const statuses = await Promise.all([0, 0].map(async (step) => (await enter(codeAt(step))).statusCode))
  t.same(statuses.sort(), [200, 403])
  t.equal((await enter(codeAt(-1))).statusCode, 403)
  t.equal((await enter(codeAt(1))).statusCode, 200)
})

t.test('second factor: a clock may be wrong by one step', async (t) => {
  for (const [step, status] of [[-2, 403], [-1, 200], [1, 200], [2, 403]] as const) {
    const { enter, codeAt } = await factors(t)
    t.equal((await enter(codeAt(step))).statusCode, status, `${step}`)
  }
})

t.test('second factor: after five codes of a user no further one is compared for an hour, from whatever address', async (t) => {
  const { app, enter, codeAt, setTime } = await factors(t)
  for (let attempt = 1; attempt <= 5; attempt++) t.equal((await enter('000000')).statusCode, 403)
  t.equal((await enter(codeAt(0))).statusCode, 429)
  const elsewhere = await app.inject({ method: 'POST', url: '/auth', payload: { name: 'ada', password: 'right', code: codeAt(0) }, remoteAddress: '192.0.2.1' })
  t.match(elsewhere, { statusCode: 429, cookies: [] })
  setTime(now() + 3601)
  t.equal((await enter(codeAt(0))).statusCode, 200)
})

t.test('second factor: it counts from its first code, with which all other logins end; nobody replaces it', async (t) => {
  const { app, users, enter, codeAt, setTime } = await factors(t)
  const [own, other] = [cookiesOf(await enter(undefined, 'grace')), cookiesOf(await enter(undefined, 'grace'))]
  const as = (session: Record<string, string>) => ({ cookies: session })
  t.equal((await post(app, '/totp')).statusCode, 401)
  t.equal((await post(app, '/totp/confirm', { code: '000000' }, as(own))).statusCode, 409, 'there is nothing to confirm')
  const created = await post(app, '/totp', {}, as(own))
  t.equal(created.headers['cache-control'], 'no-store')
  const [, pending = ''] = /secret=(\w{32})&/.exec(created.json().uri) ?? []
  t.equal((await enter(undefined, 'grace')).statusCode, 200, 'not yet')
  t.equal((await post(app, '/totp/confirm', { code: '000000' }, as(own))).statusCode, 403)
  t.equal(users[1]?.totp, null)
  const code = codeAt(0, pending)
  t.equal((await post(app, '/totp/confirm', { code }, as(own))).statusCode, 204)
  t.same([(await app.inject({ url: '/auth/me', ...as(own) })).statusCode, (await app.inject({ url: '/auth/me', ...as(other) })).statusCode], [200, 401])
  t.equal((await enter(code, 'grace')).statusCode, 403, 'the code was used')
  t.equal((await enter(codeAt(1, pending), 'grace')).statusCode, 200)

  const ada = as(cookiesOf(await enter(codeAt(0))))
  t.equal((await post(app, '/totp', {}, ada)).statusCode, 409)
  setTime(now() + 301)
  t.match((await post(app, '/totp', {}, ada)).json(), { exception: 'InsufficientUserAuthentication' })
})

const impersonation = recipe(t, 'impersonation.md')

/** The application of the recipe, and what it traces. */
async function support (t: Test) {
  const setTime = setClock(t, now())
  const users = [{ user_id: 1, name: 'ada', scopes: [] }, { user_id: 2, name: 'grace', scopes: ['support:visit'] }, { user_id: 3, name: 'joan', scopes: ['admin'] }]
  const find = (id: unknown) => users.find((user) => user.user_id === id)
  const traces: object[] = []
  const visits = new Map<string, { visit: string, actor: number, userId: number, reason: string }>()
  const fails = { trace: false }
  let reached = 0
  const app = await impersonation.cook(t, 'trusted:', {
    secret,
    authenticate: async ({ body }: { body: { name: string } }) => users.find(({ name }) => name === body.name),
    retrieveUser: async (_request: unknown, { user_id: id }: { user_id: unknown }) => find(id),
    findUser: async (id: unknown) => find(id),
    saveVisit: async (visit: { visit: string, actor: number, userId: number, reason: string }) => { visits.set(visit.visit, visit) },
    findVisit: async (visit: string, actor: number) => visits.get(visit)?.actor === actor ? visits.get(visit) : undefined,
    trace: async (entry: object) => {
      if (fails.trace) throw new Error('The database is down.')
      traces.push(entry)
    },
    handler: async ({ tokenAuth: { userId, payload } }: FastifyRequest) => { reached++; return { userId, act: payload?.act } }
  })
  const enter = async (name: string) => bearer((await post(app, '/auth', { name })).json().access_token)
  const visit = async (headers: Record<string, string>, id: unknown = 1, reason = 'Ticket 4711: an order is missing') => await post(app, '/support/visits', { user_id: id, reason }, { headers })
  const open = async () => {
    const staff = await enter('grace')
    const begun = (await visit(staff)).json()
    return { staff, visit: begun.visit, token: begun.access_token, headers: bearer(begun.access_token) }
  }
  return { app, enter, visit, open, traces, visits, fails, setTime, reached: () => reached }
}

t.test('impersonation: support sees as the customer what a route allows, with a trace of each request, and nothing else', async (t) => {
  const { app, open, traces, reached, enter } = await support(t)
  const { headers, visit, token } = await open()
  const seen = await app.inject({ url: '/orders/7?code=secret', headers })
  t.same(seen.json(), { userId: 1, act: { sub: 2 } })
  t.same(traces, [{ actor: 2, visit, userId: 1, isAllowed: true, method: 'GET', route: '/orders/:id', params: { id: '7' } }])

  for (const [method, url] of [['POST', '/orders'], ['GET', '/auth/me'], ['GET', '/auth/sessions'], ['DELETE', '/auth/sessions'], ['POST', '/support/visits'], ['POST', `/support/visits/${visit}/end`]] as const) {
    const payload = method === 'POST' ? { user_id: 1, reason: 'A visit in a visit' } : undefined
    t.equal((await app.inject({ method, url, headers, ...(payload && { payload }) })).statusCode, 401, `${method} ${url}`)
  }
  t.equal((await post(app, '/auth/refresh', { refresh_token: token })).statusCode, 401)
  t.equal(reached(), 1)
  t.equal(traces.length, 7, 'each try is traced')
  t.same(traces.slice(1).filter((trace) => Object(trace).isAllowed !== false), [])
  t.equal((await app.inject({ url: '/orders/7', headers: await enter('ada') })).statusCode, 200)
  t.equal(traces.length, 7, 'what customers do themselves is not traced')
  t.equal((await app.inject({ method: 'POST', url: '/auth/logout', headers })).statusCode, 204)
  t.equal((await app.inject({ url: '/orders/7', headers })).statusCode, 401, 'a logout ends the visit')
})

t.test('impersonation: without a trace there is no request', async (t) => {
  const { app, open, fails, reached } = await support(t)
  const { headers } = await open()
  fails.trace = true
  t.equal((await app.inject({ url: '/orders/7', headers })).statusCode, 500)
  t.equal(reached(), 0)
})

t.test('impersonation: a visit is for support with a recent login and a reason, and to customers only', async (t) => {
  const { enter, visit, setTime, visits } = await support(t)
  const staff = await enter('grace')
  t.equal((await visit({})).statusCode, 401)
  t.equal((await visit(await enter('ada'), 1)).statusCode, 403)
  t.equal((await visit(staff, 1, 'x')).statusCode, 400)
  for (const id of [2, 3, 4]) t.equal((await visit(staff, id)).statusCode, 404, `${id}`)
  setTime(now() + 901)
  t.equal((await visit(staff)).statusCode, 401)
  t.equal(visits.size, 0)
})

t.test('impersonation: a visit ends when support ends it, and after half an hour', async (t) => {
  const { app, open, setTime, enter } = await support(t)
  const look = async (headers: Record<string, string>) => (await app.inject({ url: '/orders/7', headers })).statusCode
  const first = await open()
  t.equal(payloadOf(first.token).exp, now() + 1800)
  t.equal((await post(app, `/support/visits/${first.visit}/end`, {}, { headers: await enter('ada') })).statusCode, 204)
  t.equal(await look(first.headers), 200, 'nobody else can end it')
  t.equal((await post(app, `/support/visits/${first.visit}/end`, {}, { headers: first.staff })).statusCode, 204)
  t.equal(await look(first.headers), 401)
  const second = await open()
  t.equal(await look(second.headers), 200)
  setTime(now() + 1800 + 180 + 1)
  t.equal(await look(second.headers), 401)
})

t.test('impersonation: in cookie mode, a second instance without cookies has the visits, and the cookies of support stay', async (t) => {
  const users = [{ user_id: 1, name: 'ada', scopes: [] }, { user_id: 2, name: 'grace', scopes: ['support:visit'] }]
  const find = (name: unknown) => users.find((user) => user.name === name || user.user_id === name)
  const store = memorySessions()
  const app = host(t)
  const common = {
    secret,
    authenticate: async ({ body }: FastifyRequest) => find(Object(body).name)!,
    retrieveUser: async (_request: unknown, { user_id: id }: { user_id: unknown }) => find(id),
    trusted: async ({ routeOptions }: FastifyRequest, { act }: Record<string, unknown>) => act === undefined || Object(routeOptions.config).support === true
  }
  await app.register(tokenAuth, { ...common, sessions: { store }, cookieSet: true, tokensInBody: false })
  await app.register(tokenAuth, { ...common, instanceName: 'staff', urlPrefix: '/support/auth', sessions: { store, lifetime: 1800 } })
  const { staff: visits } = app
  app.post('/support/visits', { onRequest: app.tokenAuth.protect() }, async (request, reply) =>
    await visits.sessions.start(request, reply, users[0]!, { authTime: 1, claims: { act: { sub: request.tokenAuth.userId } } }))
  app.get('/support/orders', { onRequest: visits.protect(), config: Object({ support: true }) }, async (request: FastifyRequest) => visits.extractUserId(request))
  app.get('/support/other', { onRequest: visits.protect() }, async () => 'reached')
  app.get('/orders', { onRequest: app.tokenAuth.protect() }, async (request) => request.tokenAuth.userId)

  const grace = cookiesOf(await post(app, '/auth', { name: 'grace' }))
  const begun = await app.inject({ method: 'POST', url: '/support/visits', cookies: grace, headers: { 'sec-fetch-site': 'same-origin' } })
  t.equal(begun.headers['set-cookie'], undefined)
  const { accessToken, sessionId } = begun.json()
  const get = async (url: string, cookies = grace) => await app.inject({ url, headers: bearer(accessToken), cookies })
  t.equal((await get('/support/orders')).body, '1')
  t.equal((await get('/support/other')).statusCode, 401)
  t.equal((await get('/orders')).body, '2')
  t.equal((await get('/orders', { access_token: accessToken })).statusCode, 401, 'a visit in the cookie')
  t.ok(await app.tokenAuth.sessions.end(1, sessionId))
  t.equal((await get('/support/orders')).statusCode, 401)
  t.equal((await get('/orders')).body, '2')
})

const expressJwt = recipe(t, 'express-jwt.md')

/** A service that was on Express before: user ids are in `sub`. */
const formerly = {
  secret,
  authenticate: async () => ({ sub: '1' }),
  retrieveUser: async (_request: unknown, { sub }: { sub: unknown }) => sub === '1' ? { sub } : undefined
}

/** What the middleware of express-jwt says of a token. */
const underExpress = async (token: string): Promise<unknown> => {
  const request = { method: 'GET', headers: bearer(token) }
  return await new Promise((resolve) => { expressjwt({ secret, algorithms: ['HS256'] })(request as never, {} as never, (error) => resolve(error ?? Object(request).auth)) })
}

t.test('express-jwt: both services accept the tokens of each other, and of @fastify/jwt, until they expire', async (t) => {
  const start = now()
  const setTime = setClock(t, start)
  const app = await expressJwt.cook(t, "app.decorateRequest('auth'", formerly)
  const other = host(t)
  await other.register(fastifyJwt, { secret })
  const get = async (token: string) => await app.inject({ url: '/private', headers: bearer(token) })
  for (const token of [jwt.sign({ sub: '1', role: 'editor' }, secret, { expiresIn: 60 }), other.jwt.sign({ sub: '1', role: 'editor' }, { expiresIn: 60 })]) {
    const response = await get(token)
    t.match(response.json(), { sub: '1', role: 'editor' })
    t.same(response.json(), await underExpress(token))
    setTime(start + 61)
    t.equal((await get(token)).statusCode, 401)
    t.match(await underExpress(token), { code: 'invalid_token' })
    setTime(start)
  }
  const { access_token: issued } = (await post(app, '/auth')).json()
  t.match(await underExpress(issued), { sub: '1' })
  t.equal((await app.inject('/private')).statusCode, 401)
  app.tokenAuth.routes().forEach(({ access, url }) => t.not(access, 'undecided', url))
})

/** The route that exchanges old tokens. */
async function exchanges (t: Test) {
  const setTime = setClock(t, now())
  const oldSecret = 'short'
  const kept = new Map<string, string>()
  const revoked = new Set<unknown>()
  const app = await expressJwt.cook(t, 'replaceExchange', {
    ...formerly,
    oldSecret,
    findUser: async (sub: unknown) => await formerly.retrieveUser(undefined, { sub }),
    isRevoked: async ({ jti }: { jti: unknown }) => revoked.has(jti),
    replaceExchange: async (hash: string, session: string) => {
      const earlier = kept.get(hash)
      kept.set(hash, session)
      return earlier
    }
  })
  const sign = (payload: object = {}, options: SignOptions = {}) => jwt.sign({ sub: '1', ...payload }, oldSecret, options)
  const exchange = async (token: unknown) => await post(app, '/exchange', { token })
  const isIn = async (response: LightMyRequestResponse) => (await app.inject({ url: '/auth/me', headers: bearer(response.json().access_token) })).statusCode === 200
  return { app, oldSecret, kept, revoked, sign, exchange, isIn, setTime }
}

t.test('express-jwt: an old token without an end becomes one session, however often it is exchanged', async (t) => {
  const { app, sign, exchange, isIn, kept } = await exchanges(t)
  const token = sign()
  const first = await exchange(token)
  t.equal(first.statusCode, 200)
  t.ok(await isIn(first))
  const second = await exchange(token)
  t.same([await isIn(first), await isIn(second)], [false, true])
  await Promise.all([exchange(token), exchange(token), exchange(token)])
  t.equal((await app.tokenAuth.sessions.list('1')).length, 1)
  t.notOk([...kept.keys()].includes(token), 'a hash of it is stored')
  t.equal((await post(app, '/auth/refresh', { refresh_token: second.json().refresh_token })).statusCode, 401)
})

t.test('express-jwt: no other token is exchanged, and none after thirty days', async (t) => {
  const { app, oldSecret, sign, exchange, revoked, setTime } = await exchanges(t)
  revoked.add('revoked')
  const { access_token: ours } = (await post(app, '/auth')).json()
  const none = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${Buffer.from(JSON.stringify({ sub: '1', iat: now() })).toString('base64url')}.`
  const tokens = [
    ours, none, '', 'guessed', jwt.sign({ sub: '1' }, 'another'), jwt.sign({ sub: '1' }, oldSecret, { algorithm: 'HS512' }),
    sign({ jti: 'revoked' }), sign({ sub: '2' }), sign({ exp: now() - 1 }), sign({ iat: now() - 30 * 86_400 - 1 }), sign({}, { noTimestamp: true })
  ]
  for (const token of tokens) t.equal((await exchange(token)).statusCode, 401, token)
  for (const token of [undefined, 'x'.repeat(4097)]) t.equal((await exchange(token)).statusCode, 400)
  const token = sign()
  setTime(now() + 30 * 86_400 + 1)
  t.equal((await exchange(token)).statusCode, 401)
  t.same(await app.tokenAuth.sessions.list('1'), [], 'that of the login of this test has expired')
})

const mobile = recipe(t, 'mobile-app.md')

interface Phone {
  logIn: (credentials: object) => Promise<boolean>
  request: (path: string, init?: object) => Promise<Response>
  logOut: () => Promise<void>
}

/** A service that listens, and apps whose keychain survives their end. */
async function phones (t: Test) {
  const setTime = setClock(t, now())
  const app = host(t)
  await app.register(tokenAuth, {
    secret,
    authenticate: async ({ body }) => {
      const { name } = Object(body)
      if (name === 'nobody') throw new AuthenticationFailed()
      return { user_id: name }
    },
    sessions: {}
  })
  app.get('/orders', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth: { userId } }) => [userId])
  const address = `http://127.0.0.1:${await listen(app)}`
  const log: string[] = []
  const keychain = new Map<string, string>()
  /** What becomes of the responses to renewals and logouts. */
  const lost = { next: (response: Response): Response | Promise<Response> => response, logout: (response: Response): Response | Promise<Response> => response }
  const start = async () => await mobile.cook<Phone>(t, 'expo-secure-store', {
    fetch: async (url: string, init: RequestInit) => {
      t.ok(url.startsWith('https://api.example.org/'))
      log.push(url.slice('https://api.example.org'.length))
      const response = await fetch(url.replace('https://api.example.org', address), init)
      if (url.endsWith('/logout')) return await lost.logout(response)
      return url.endsWith('/refresh') ? await lost.next(response) : response
    }
  }, {
    result: '{ logIn, request, logOut }',
    modules: {
      'expo-secure-store': {
        WHEN_UNLOCKED_THIS_DEVICE_ONLY: 6,
        getItemAsync: async (key: string) => keychain.get(key) ?? null,
        setItemAsync: async (key: string, value: string, { keychainAccessible }: { keychainAccessible: number }) => {
          t.equal(keychainAccessible, 6)
          keychain.set(key, value)
        },
        deleteItemAsync: async (key: string) => { keychain.delete(key) }
      }
    }
  })
  const expire = () => setTime(now() + 3600)
  return { app, start, keychain, log, lost, expire }
}

t.test('a mobile app: requests that wait share one renewal, and the tokens survive the end of the app', async (t) => {
  const { start, keychain, log, lost, expire } = await phones(t)
  const phone = await start()
  t.equal((await phone.request('/orders')).status, 401)
  t.equal(await phone.logIn({ name: 'nobody' }), false)
  t.equal(await phone.logIn({ name: 'ada' }), true)
  expire()
  const responses = await Promise.all([1, 2, 3].map(async () => await phone.request('/orders')))
  t.same(responses.map(({ status }) => status), [200, 200, 200])
  t.equal(log.filter((path) => path === '/auth/refresh').length, 1)
  t.same(await (await (await start()).request('/orders')).json(), ['ada'])
  t.notOk(log.some((path) => path.includes('?')), 'no token is in a URL')

  for (const answer of [() => { throw new TypeError('The connection broke.') }, () => new Response(null, { status: 503 })]) {
    lost.logout = answer
    await t.rejects(phone.logOut(), { message: /broke|The logout failed with 503/ })
    t.equal(keychain.size, 1, 'the session goes on, and so does the login')
  }
  lost.logout = (response) => response
  for (let time = 0; time < 2; time++) {
    await phone.logOut()
    t.equal(keychain.size, 0)
    t.equal((await phone.request('/orders')).status, 401)
  }
})

t.test('a mobile app: a lost response logs nobody out, however late the app tries again', async (t) => {
  const { start, lost, expire } = await phones(t)
  const phone = await start()
  await phone.logIn({ name: 'ada' })
  for (const isEnded of [false, true]) {
    expire()
    lost.next = () => { throw new TypeError('The connection broke.') }
    await t.rejects(phone.request('/orders'), { message: 'The connection broke.' })
    lost.next = () => new Response(null, { status: 503 })
    await t.rejects(phone.request('/orders'), { message: 'The renewal failed with 503.' })
    lost.next = (response) => response
    expire()
    t.equal((await (isEnded ? await start() : phone).request('/orders')).status, 200)
  }
})

t.test('a mobile app: a session that was ended elsewhere is a 401, and its tokens are deleted', async (t) => {
  const { app, start, keychain } = await phones(t)
  const phone = await start()
  await phone.logIn({ name: 'ada' })
  await app.tokenAuth.sessions.endAll('ada')
  t.equal((await phone.request('/orders')).status, 401)
  t.equal(keychain.size, 0)
})

t.test('a mobile app: neither a logout nor another login during a renewal is undone, and no request is sent for another user', async (t) => {
  const { start, lost, keychain, expire, app } = await phones(t)
  for (const act of ['logOut', 'logIn'] as const) {
    const phone = await start()
    await phone.logIn({ name: 'ada' })
    expire()
    lost.next = async (response) => {
      await phone[act]({ name: 'grace' })
      return response
    }
    t.equal((await phone.request('/orders')).status, 401)
    lost.next = (response) => response
    t.equal(keychain.size, act === 'logOut' ? 0 : 1)
    const again = await phone.request('/orders')
    t.equal(again.status, act === 'logOut' ? 401 : 200)
    if (again.ok) t.same(await again.json(), ['grace'])
  }
  t.equal((await app.tokenAuth.sessions.list('grace')).length, 1)
})

t.test('a mobile app: a slow logout does not log out the next user', async (t) => {
  const { start, lost, keychain } = await phones(t)
  const phone = await start()
  await phone.logIn({ name: 'ada' })
  let answer: (() => void) | undefined
  const asked = new Promise<void>((resolve) => { lost.logout = (response) => { resolve(); return new Promise((resolve) => { answer = () => resolve(response) }) } })
  const logout = phone.logOut()
  await asked
  await phone.logIn({ name: 'grace' })
  answer?.()
  await logout
  t.equal(keychain.size, 1)
  t.same(await (await phone.request('/orders')).json(), ['grace'])
})

t.test('a mobile app: tokens go to the service alone', async (t) => {
  const { start } = await phones(t)
  const phone = await start()
  await phone.logIn({ name: 'ada' })
  for (const path of ['https://evil.example/', '@evil.example/', '.evil.example/', 'orders']) await t.rejects(phone.request(path), TypeError)
})

for (const { end } of [signUp, passwords, secondFactor, impersonation, expressJwt, mobile]) end()
