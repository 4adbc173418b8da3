/** Where nothing of keys, of tokens, and of the kids of others may be found. */
import { createPrivateKey } from 'node:crypto'
import { inspect } from 'node:util'
import t from 'tap'
import { get, iso, issued, keyEvents, noon, overlap, source, withKeys } from './ring.ts'
import { bearer, claims, ecPair, edPair, forge, leaksIn, otherSecret, rsaPair, secret, setClock, warnings } from '../helper.ts'

const foreign = 'kid-of-somebody-else'

// Promise: keys/nothing-key-token
t.test('nothing of a key, of a token or of a foreign kid is in logs, events, the status, errors or answers', async (t) => {
  warnings(t, 'W17')
  const setTime = setClock(t, noon)
  const rsa = createPrivateKey(rsaPair().privateKey).export({ format: 'jwk' })
  const list = [
    { key: secret, algorithm: 'HS256' as const, kid: 'a', verifyUntil: iso(noon + 60 + overlap) }, { key: { ...rsa, alg: 'RS256', kid: 'b' }, signFrom: iso(noon + 60) },
    { key: Buffer.from(edPair().privateKey), algorithm: 'EdDSA' as const, kid: 'c', signFrom: iso(noon + 120) }, { key: ecPair('prime256v1').privateKey, algorithm: 'ES256' as const, kid: 'd', signFrom: iso(noon + 180) }
  ]
  const lines: string[] = []
  const { state, load } = source(list)
  const app = await withKeys(t, load, { debug: true, pathToJwks: '/jwks', claimIss: 'https://auth.example', claimAud: 'https://api.example' }, { logger: { level: 'trace', stream: { write: (line: string) => { lines.push(line) } } } })
  const events = keyEvents(t)
  const shown: unknown[] = []
  const [tokens, published]: [string[], string[]] = [[], []]
  for (const time of [noon, noon + 60, noon + 120, noon + 180]) {
    setTime(time)
    tokens.push(await issued(app))
    shown.push(app.tokenAuth.keyStatus())
    published.push((await app.inject('/auth/jwks')).body)
  }
  for (const token of [...tokens, forge(claims(), { header: { kid: foreign } }), forge(claims(), { key: otherSecret, header: { kid: foreign } })]) {
    const answer = await app.inject({ url: '/', headers: bearer(token) })
    shown.push(answer.body, answer.headers)
  }
  try {
    app.tokenAuth.verifyToken(forge(claims(), { header: { kid: foreign } }))
    t.fail('accepted')
  } catch (error) {
    t.match(error, { name: 'InvalidToken' })
    shown.push(error)
  }
  const wrong: unknown[] = [
    [{ key: secret, algorithm: 'EdDSA' }], [{ key: edPair().privateKey }], [{ key: secret, kid: '' }], [{ key: secret }, { key: secret }], [{ key: { ...rsa, alg: 'ES256' } }], [{ key: { ...rsa, d: 5 }, algorithm: 'RS256' }],
    [{ key: secret, verifyUntil: iso(noon + 1000) }], [{ key: secret, signFrom: iso(noon + 1000) }], secret, [secret], { key: secret }
  ]
  for (const instead of wrong) {
    state.instead = () => instead
    shown.push(await app.tokenAuth.reloadKeys().then(() => t.fail('accepted'), (error: unknown) => error))
  }
  state.instead = undefined
  state.list = [...list, { key: otherSecret, algorithm: 'HS256' as const, kid: 'e', signFrom: iso(noon + 181) }]
  await app.tokenAuth.reloadKeys()
  t.same([...new Set(events.map(({ type }) => type))], ['switched', 'reload-failed', 'reloaded', 'late'])
  const text = [...lines, ...[...shown, ...events].map((value) => inspect(value, { depth: null, showHidden: true, maxStringLength: null }))]
  t.same(leaksIn(text), [])
  const privateParts = [rsa.d, rsa.p, rsa.q, rsa.dp, rsa.dq, rsa.qi, ...[edPair(), ecPair('prime256v1')].flatMap(({ privateKey }) => [privateKey.split('\n')[1], createPrivateKey(privateKey).export({ format: 'jwk' }).d])]
  for (const part of [...privateParts, secret, otherSecret, foreign, ...tokens.map((token) => token.slice(-40))]) t.notOk([...text, ...published].some((line) => line.includes(String(part).slice(0, 30))))
  t.equal(await get(app, tokens[3]!), 200)
})
