import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import tokenAuth, * as library from '../lib/index.ts'

const root = new URL('../', import.meta.url)
const readme = readFileSync(new URL('README.md', root), 'utf8')

t.test('the tables of the README are what the code says', async (t) => {
  const script = fileURLToPath(new URL('scripts/tables.js', root))
  await t.resolves(promisify(execFile)(process.execPath, [script, '--check']))
})

t.test('the first example of the README runs as it stands', async (t) => {
  const [, code = ''] = /```js\n(import Fastify[\s\S]*?)```/.exec(readme) ?? []
  t.ok(code.split('\n').length <= 22, 'it is short')
  const body = code
    .replace(/^import .*$/gm, '')
    .replace(/await app\.listen.*$/m, 'return app')
  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor
  const run: (...imports: unknown[]) => Promise<FastifyInstance> = new AsyncFunction('Fastify', 'tokenAuth', 'AuthenticationFailed', 'process', body)
  const app = await run(Fastify, tokenAuth, library.AuthenticationFailed, { env: { JWT_SECRET: 'x'.repeat(32) } })
  t.teardown(() => app.close())
  const login = await app.inject({ method: 'POST', url: '/auth', payload: { name: 'ada', password: 'lovelace' } })
  t.equal(login.statusCode, 200)
  const headers = { authorization: `Bearer ${login.json().access_token}` }
  t.match((await app.inject({ url: '/private', headers })).json(), { user_id: 1 })
  t.equal((await app.inject({ url: '/private' })).statusCode, 401)
  t.equal((await app.inject({ method: 'POST', url: '/auth', payload: { name: 'ada', password: 'x' } })).statusCode, 401)
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

t.test('the README names everything that the package exports', async (t) => {
  for (const name of Object.keys(library)) {
    if (['default', 'module.exports'].includes(name)) continue
    t.match(readme, new RegExp(`\\b${name}\\b`), name)
  }
})
