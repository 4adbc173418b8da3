/** The entries of the option `keys`, each by itself. */
import t from 'tap'
import { noon, signs, states, withKeys } from './ring.ts'
import { edPair, leaksIn, otherSecret, refusal, secret, setClock } from '../helper.ts'

const refused = async (t: Parameters<typeof refusal>[0], keys: unknown) => await refusal(t, { secret: undefined, keys })
const oct = (extra: object) => ({ kty: 'oct', k: Buffer.from(secret).toString('base64url'), ...extra })

t.test('an entry is a plain object, and a list has no holes', async (t) => {
  class Entry { key = secret }
  const wrong: Array<[list: unknown[], message: RegExp]> = [
    [[new Entry()], /^"keys\[0\]" must be a plain object, such as \{ key, signFrom \}; given: /], [[new Map([['key', secret]])], /^"keys\[0\]" must be a plain object/],
    [[[]], /^"keys\[0\]" must be a plain object/], [[{ key: secret }, null], /^"keys\[1\]" must be a plain object/], [Object.assign([{ key: secret }], { length: 2 }), /^"keys\[1\]" must be a plain object/]
  ]
  for (const [list, message] of wrong) t.match(await refused(t, list), { name: 'InvalidConfiguration', message })
})

t.test('members of a polluted Object.prototype are no members of an entry', async (t) => {
  const pollute = { signFrom: '2999-01-01T00:00:00Z', kid: 'polluted' }
  Object.assign(Object.prototype, pollute)
  try {
    const app = await withKeys(t, [{ key: secret }])
    t.notOk('polluted' in states(app))
    t.same(Object.values(states(app)), ['signing'])
  } finally {
    for (const name of Object.keys(pollute)) Reflect.deleteProperty(Object.prototype, name)
  }
})

t.test('null is no date, no id and no algorithm', async (t) => {
  for (const [member, finding] of [['signFrom', 'E13'], ['verifyUntil', 'E13'], ['kid', 'E12'], ['algorithm', undefined]] as const) {
    t.match(await refused(t, [{ key: secret, [member]: null }]), { name: 'InvalidConfiguration', message: new RegExp(`^"keys\\[0\\]\\.${member}" .*given: null`), ...(finding !== undefined && { finding: `TOKEN_AUTH_${finding}` }) })
  }
})

t.test('undefined is as if a member were not there', async (t) => {
  const app = await withKeys(t, [{ key: oct({ kid: 'of-the-JWK' }), algorithm: undefined, kid: undefined, signFrom: undefined, verifyUntil: undefined }])
  t.same(app.tokenAuth.keyStatus().keys, [{ kid: 'of-the-JWK', algorithm: 'HS256', state: 'signing', signFrom: null, verifyUntil: null }])
})

t.test('a kid has 1 to 256 visible ASCII characters', async (t) => {
  for (const kid of ['!', '~', 'x'.repeat(256), 'urn:key:1']) t.equal(await signs(await withKeys(t, [{ key: secret, kid }])), kid)
  for (const kid of ['', 'x'.repeat(257), ' a', 'a ', 'a b', 'a\n', '\u00e9a', 'a\u00e9', '\x7f']) t.match(await refused(t, [{ key: secret, kid }]), { finding: 'TOKEN_AUTH_E12' }, JSON.stringify(kid))
})

t.test('16 keys are a list, 17 are not', async (t) => {
  const keys = Array.from({ length: 17 }, (_, index) => ({ key: `${secret} ${index}` }))
  t.equal(Object.keys(states(await withKeys(t, keys.slice(1)))).length, 16)
  t.match(await refused(t, keys), { finding: 'TOKEN_AUTH_E12' })
})

t.test('the secret of a JWK must be there to sign and to verify (E15)', async (t) => {
  for (const keyOps of [['sign'], ['verify']]) t.match(await refused(t, [{ key: oct({ key_ops: keyOps }) }]), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E15' })
  t.match(await refused(t, [{ key: oct({ use: 'enc' }) }]), { finding: 'TOKEN_AUTH_E15' })
  t.match(await refused(t, [{ key: oct({ alg: 'HS256' }), algorithm: 'HS512' }]), { finding: 'TOKEN_AUTH_E15' })
})

t.test('the message of a wrong entry shows at most 60 characters of a text that should be a date, and no key', async (t) => {
  const text = `tomorrow, ${'or later, '.repeat(20)}`
  const error = await refused(t, [{ key: secret, signFrom: text }])
  t.match(error, { message: `${text.slice(0, 57)}...` })
  t.notOk(String(error).includes(text.slice(0, 58)))
  const wrong: unknown[] = [[{ key: secret, signFrom: 1 }], [{ key: secret }, { key: secret }], [{ key: otherSecret, alg: 'HS256' }], [{ key: edPair().privateKey }], [{ key: secret, algorithm: 'EdDSA' }], [{ secret }]]
  for (const list of wrong) {
    const error = await refused(t, list)
    t.match(error, { name: 'InvalidConfiguration' })
    t.same(leaksIn([String(error)]), [])
  }
})

t.test('a public key that has a date verifies, and never signs', async (t) => {
  setClock(t, noon)
  const app = await withKeys(t, [{ key: edPair().publicKey, algorithm: 'EdDSA', kid: 'public', signFrom: new Date(noon * 1000) }, { key: edPair(1).privateKey, algorithm: 'EdDSA', kid: 'private' }])
  t.same(states(app), { public: 'verifying', private: 'signing' })
  t.equal(await signs(app), 'private')
  t.match(await refused(t, [{ key: edPair().publicKey, algorithm: 'EdDSA' }]), { finding: 'TOKEN_AUTH_E13' })
})
