import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import jwt from '@fastify/jwt'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import tokenAuth, * as library from '../lib/index.ts'
import { bearer, host, payloadOf, secret, setClock } from './helper.ts'

const root = new URL('../', import.meta.url)
const readme = readFileSync(new URL('README.md', root), 'utf8')

/** Runs a program of the README, without its imports, with these names in their place. */
function run<Result> (program: string, names: Record<string, unknown>): Promise<Result> {
  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor
  return new AsyncFunction(...Object.keys(names), program.replace(/^import .*$/gm, ''))(...Object.values(names))
}

t.test('the README has a section for everything that a reader looks for', async (t) => {
  const headings = Array.from(readme.matchAll(/^##+ (.+)$/gm), ([, heading]) => heading)
  for (const heading of [
    'Try it', 'Use it', 'Endpoints', 'Guards', 'Scopes', 'Handlers', 'Settings', 'Sources of a token', 'Instances', 'Errors', 'Types',
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
  for (const name of ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md']) {
    const text = readFileSync(new URL(name, root), 'utf8')
    for (const [, target = ''] of text.matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)) {
      t.doesNotThrow(() => readFileSync(new URL(target, root)), `${name} names ${target}`)
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
