import { readFileSync } from 'node:fs'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import tokenAuth, { AuthenticationFailed } from '../../lib/index.ts'
import { secret } from '../helper.ts'
import { errorsIn, run } from '../programs.ts'

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')

t.test('the README is short, says in two sentences what the package is, and has what a reader looks for', async (t) => {
  t.ok(readme.trimEnd().split('\n').length <= 180, 'it has at most 180 lines')
  const headings = Array.from(readme.matchAll(/^##+ (.+)$/gm), ([, heading]) => heading)
  t.strictSame(headings, ['Use it', 'Guards', 'Browsers and sessions', 'Where to read on', 'How it compares', 'Try the example', 'License'])
  const [, introduction = ''] = /^# .*\n\n(.*)\n/.exec(readme) ?? []
  t.equal(introduction.split(/\. |\.$/).filter(Boolean).length, 2)
})

t.test('the first example of the README is strict TypeScript, and runs as it stands', async (t) => {
  const [, code = ''] = /```ts\n(import Fastify[\s\S]*?)```/.exec(readme) ?? []
  t.ok(code.trim().split('\n').length <= 16, 'it has 16 lines')
  t.same(errorsIn(code), [])
  t.not(errorsIn(code.replace('AuthenticationFailed(', 'AuthenticationFailed(1, ')).length, 0, 'an error would be noticed')
  const app = await run<FastifyInstance>(code.replace(/await app\.listen.*$/m, 'return app'), {
    Fastify, tokenAuth, AuthenticationFailed, process: { env: { SERVICE_JWT_SECRET: secret } }
  })
  t.teardown(() => app.close())
  const login = await app.inject({ method: 'POST', url: '/auth', payload: { name: 'ada', password: 'lovelace' } })
  t.equal(login.statusCode, 200)
  const headers = { authorization: `Bearer ${login.json().access_token}` }
  t.match((await app.inject({ url: '/private', headers })).json(), { user_id: 1 })
  t.equal((await app.inject({ url: '/private' })).statusCode, 401)
  t.equal((await app.inject({ method: 'POST', url: '/auth', payload: { name: 'ada', password: 'x' } })).statusCode, 401)
})
