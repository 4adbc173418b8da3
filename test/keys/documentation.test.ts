/** docs/keys.md: its examples run, and what its tables say is so. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import tokenAuth from '../../lib/index.ts'
import { issued, states, withKeys } from './ring.ts'
import { authenticate, edPair, headerOf, host, secret, setClock, warnings } from '../helper.ts'
import { programsIn, programWith, run } from '../programs.ts'

const page = readFileSync(new URL('../../docs/keys.md', import.meta.url), 'utf8')
const programs = programsIn(page)
/** In 2029, before the dates of the examples. */
const early = Date.UTC(2029, 11, 31) / 1000

t.test('the example of a change goes from a secret to a pair', async (t) => {
  warnings(t, 'W17')
  const setTime = setClock(t, early)
  const app = host(t)
  await run(programWith(programs, 'nextKey'), { app, tokenAuth, authenticate, nextKey: edPair().privateKey, oldSecret: secret })
  t.equal(headerOf(await issued(app)).alg, 'HS256')
  setTime(early + 86_400)
  t.equal(headerOf(await issued(app)).alg, 'EdDSA')
  setTime(early + 2 * 86_400)
  t.same(Object.values(states(app)), ['signing', 'gone'])
})

t.test('the example of published keys publishes one', async (t) => {
  const app = host(t)
  await run(programWith(programs, "pathToJwks: '/jwks'"), { app, tokenAuth, authenticate, privateKey: edPair().privateKey })
  t.equal((await app.inject('/auth/jwks')).json().keys.length, 1)
})

t.test('the example of a function shows the state of the keys', async (t) => {
  const app = host(t)
  await run(programWith(programs, 'loadKeys'), { app, tokenAuth, authenticate, loadKeys: async () => [{ key: secret, kid: 'a' }] })
  t.same((await app.inject('/health')).json(), { keys: [{ kid: 'a', algorithm: 'HS256', state: 'signing', signFrom: null, verifyUntil: null }], issuers: [] })
})

t.test('the table of entries has every member of an entry', async (t) => {
  const [, section = ''] = /^## Entries\n([\s\S]*?)^## /m.exec(page) ?? []
  const listed = [...section.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name)
  const error: unknown = await withKeys(t, [Object.assign({ key: secret }, { unknown: 1 })]).then(() => undefined, (reason: unknown) => reason)
  t.match(error, { message: `An entry has ${listed.join(', ')}.` })
})
