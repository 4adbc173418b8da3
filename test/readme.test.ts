import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import jwt from '@fastify/jwt'
import fastifyStatic from '@fastify/static'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import tokenAuth, * as library from '../lib/index.ts'
import { attack, createTestToken } from '../lib/testing.ts'
import { authenticate, bearer, host, keysFor, login, payloadOf, secret, setClock } from './helper.ts'
import { answerFetches } from './keys/issuers.ts'
import { programsIn, programWith, run } from './programs.ts'

const root = new URL('../', import.meta.url)
const readme = readFileSync(new URL('README.md', root), 'utf8')

const programs = programsIn(readme)

/** Names that the examples of the README do not declare. */
function given (app: FastifyInstance) {
  const { protect, scoped, requestSerializer, View } = library
  const handler = async () => 'reached'
  const nextSecret = `${secret} that comes next`
  const names = { app, Fastify, tokenAuth, nextSecret, protect, scoped, requestSerializer, View, attack, assert, createTestToken, randomUUID, secret, authenticate, handler }
  const site = { fastifyStatic, root: fileURLToPath(new URL('test/fixtures/pages', root)) }
  return { ...names, ...site, customers: authenticate, staff: authenticate, orders: handler, customerSecret: secret, staffSecret: `${secret} of the staff` }
}

t.test('the README has a section for everything that a reader looks for', async (t) => {
  const headings = Array.from(readme.matchAll(/^##+ (.+)$/gm), ([, heading]) => heading)
  for (const heading of [
    'Try it', 'Use it', 'Endpoints', 'Guards', 'Scopes', 'Handlers', 'Sessions', 'Changing keys', 'Trusted issuers', 'Settings', 'Sources of a token', 'Instances', 'Errors', 'Types',
    'Security notes', 'How it compares', 'Migrating from @fastify/jwt', 'How fast', 'API reference'
  ]) t.ok(headings.includes(heading), heading)
  const [, introduction = ''] = /^# .*\n\n(.*)\n/.exec(readme) ?? []
  t.equal(introduction.split(/\. |\.$/).filter(Boolean).length, 3, 'it says in three sentences what it is')
})

t.test('the tables of the README are what the code says', async (t) => {
  const script = fileURLToPath(new URL('scripts/tables.js', root))
  await t.resolves(promisify(execFile)(process.execPath, [script, '--check']))
})

t.test('the first example of the README runs as it stands', async (t) => {
  const [, code = ''] = /```js\n(import Fastify[\s\S]*?)```/.exec(readme) ?? []
  t.ok(code.trim().split('\n').length <= 15, 'it has 15 lines')
  const app = await run<FastifyInstance>(code.replace(/await app\.listen.*$/m, 'return app'), {
    Fastify, tokenAuth, AuthenticationFailed: library.AuthenticationFailed, process: { env: { JWT_SECRET: secret } }
  })
  t.teardown(() => app.close())
  const login = await app.inject({ method: 'POST', url: '/auth', payload: { name: 'ada', password: 'lovelace' } })
  t.equal(login.statusCode, 200)
  const headers = { authorization: `Bearer ${login.json().access_token}` }
  t.match((await app.inject({ url: '/private', headers })).json(), { user_id: 1 })
  t.equal((await app.inject({ url: '/private' })).statusCode, 401)
  t.equal((await app.inject({ method: 'POST', url: '/auth', payload: { name: 'ada', password: 'x' } })).statusCode, 401)
})

t.test('every JavaScript example of the README runs', async (t) => {
  t.ok(programs.length > 10)
  answerFetches(t)
  for (const program of programs.filter((candidate) => !candidate.includes('process.env'))) {
    // The names of parameters that hostile requests use are not those of the application, so a log would show them.
    const app = host(t, program.includes('attack(') ? { logger: false } : {})
    if (!program.includes('register(tokenAuth')) await app.register(tokenAuth, { secret, authenticate })
    await t.resolves(run(program, given(app)), program)
    await t.resolves(async () => { await app.ready() }, program)
  }
})

t.test('reading a guard before the plugin has loaded throws the error in the README; both forms that the README recommends guard their routes', async (t) => {
  const early = host(t)
  early.register(tokenAuth, { secret, authenticate })
  t.throws(() => early.get('/', { onRequest: early.tokenAuth.protect() }, async () => 'open'), TypeError)
  try {
    early.tokenAuth.protect()
  } catch (error) {
    t.match(readme, String(error), 'word for word')
  }

  for (const text of ['await app.register(tokenAuth, { secret, authenticate })\napp.get', 'onRequest: protect()']) {
    const app = host(t)
    await run(programWith(programs, text), given(app))
    const { access_token: token } = (await login(app)).json()
    t.equal((await app.inject({ url: '/private' })).statusCode, 401, text)
    t.equal((await app.inject({ url: '/private', headers: bearer(token) })).payload, 'reached', text)
  }
})

t.test('logins in the same second have the same payload; the custom claim in the README distinguishes them', async (t) => {
  setClock(t, 1_800_000_000)
  const tokensOf = async (options: object, program?: string) => {
    const app = host(t)
    if (program === undefined) await app.register(tokenAuth, { secret, authenticate, ...options })
    else await run(program, given(app))
    return [(await login(app)).json().access_token, (await login(app)).json().access_token]
  }
  for (const options of [{}, { claimIat: true }, { ...keysFor('RS256'), secret: undefined }]) {
    const [first, second] = await tokensOf(options)
    t.equal(first, second, JSON.stringify(Object.keys(options)))
  }
  const [first, second] = await tokensOf({}, programWith(programs, 'class LoginId'))
  t.not(payloadOf(first).login_id, payloadOf(second).login_id)
})

t.test('the cookie names in the README bind cookies to their host, and the logout in the README clears them', async (t) => {
  const app = host(t)
  await run(programWith(programs, "cookieAccessTokenName: '__Host-"), given(app))
  await run(programWith(programs, "app.post('/logout'"), given(app))
  const fieldsOf = (value: string | string[] | undefined = []) => [value].flat()
  const set = fieldsOf((await login(app)).headers['set-cookie'])
  t.equal(set.length, 1)
  t.match(set[0], /^__Host-access_token=[^;]+; Path=\/; HttpOnly; Secure; SameSite=Lax$/)
  const cleared = fieldsOf((await app.inject({ method: 'POST', url: '/logout' })).headers['set-cookie'])
  t.same(cleared.map((field) => field.split('=', 1)[0]), ['__Host-access_token', '__Host-refresh_token'])
  for (const field of cleared) t.match(field, /=; Max-Age=0; Path=\/; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Secure/)
})

t.test('the lines of the migration from @fastify/jwt do the same before and after, and take the tokens of each other', async (t) => {
  const [, diff = ''] = /```diff\n([\s\S]*?)```/.exec(readme) ?? []
  const lines = diff.trimEnd().split('\n')
  t.ok(lines.length <= 10, 'it has ten lines')
  const start = 1_800_000_000
  setClock(t, start)
  const programOf = (sign: string) => lines.filter((line) => line.startsWith(sign) || line.startsWith(' ')).map((line) => line.slice(1)).join('\n')

  const apps = await Promise.all(['-', '+'].map(async (sign) => {
    const app = host(t)
    await run(programOf(sign), { app, jwt, tokenAuth, secret, logIn: async ({ name }: { name: string }) => name })
    return app
  }))
  for (const issuer of apps) {
    const { token } = (await issuer.inject({ method: 'POST', url: '/login', payload: { name: 'ada' } })).json()
    const { user_id: userId, exp } = payloadOf(token)
    t.equal(userId, 'ada')
    t.equal(exp, start + 1800, 'it expires in half an hour')
    for (const app of apps) {
      const response = await app.inject({ url: '/private', headers: bearer(token) })
      t.equal(response.statusCode, 200)
      t.match(response.json(), { user_id: 'ada', exp })
    }
  }
  for (const app of apps) t.equal((await app.inject({ url: '/private' })).statusCode, 401)
})

t.test('every file and script that the documents name exists', async (t) => {
  const scripts: Record<string, string> = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')).scripts
  for (const name of ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md', 'docs/sessions.md', 'docs/stores.md', 'docs/keys.md']) {
    const document = new URL(name, root)
    const text = readFileSync(document, 'utf8')
    for (const [, target = ''] of text.matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)) {
      t.doesNotThrow(() => readFileSync(new URL(target, document)), `${name} names ${target}`)
    }
    for (const [, script = ''] of text.matchAll(/npm run ([a-z:]+)/g)) t.ok(scripts[script], `${name} names npm run ${script}`)
  }
})

t.test('CONTRIBUTING says what every file of lib/ is for', async (t) => {
  const text = readFileSync(new URL('CONTRIBUTING.md', root), 'utf8')
  for (const file of readdirSync(new URL('lib', root), { recursive: true, encoding: 'utf8' })) {
    t.match(text, new RegExp(`\\b${basename(file, '.ts')}\\b`), file)
  }
})

t.test('the README names everything that the package exports', async (t) => {
  for (const name of Object.keys(library)) {
    if (['default', 'module.exports'].includes(name)) continue
    t.match(readme, new RegExp(`\\b${name}\\b`), name)
  }
})
