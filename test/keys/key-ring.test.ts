import t from 'tap'
import { isAlive, isConfigured } from '../../lib/keys/life.ts'
import { iso, noon, overlap } from './ring.ts'
import { edPair, otherSecret, refusal, secret, setClock, warnings } from '../helper.ts'

t.test('no clock is asked for a key that has no end: this is asked with every request', async (t) => {
  const { now } = Date
  let asked = 0
  Date.now = () => { asked++; return 1000 }
  t.teardown(() => { Date.now = now })
  t.ok(isAlive({ until: Infinity }))
  t.ok(isConfigured({ until: Infinity }))
  t.equal(asked, 0)
  t.same([isAlive({ until: 1001 }), isAlive({ until: 1000 }), isConfigured({ until: 1000 }), isConfigured({ until: -Infinity })], [true, false, true, false])
})

t.test('beside keys, no other key and no getter of a key, of the algorithm or of the number of remembered tokens is accepted (E11)', async (t) => {
  const { publicKey, privateKey } = edPair()
  const wrong: Record<string, unknown> = {
    secret, publicKey, privateKey, setSecret: secret, getSecret: () => secret, getPublicKey: () => publicKey, getPrivateKey: async () => privateKey, getAlgorithm: () => 'HS256', getTokenCacheSize: () => 1
  }
  for (const [name, value] of Object.entries(wrong)) {
    const error = await refusal(t, { secret: undefined, keys: [{ key: otherSecret }], [name]: value })
    t.match(error, { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E11', message: new RegExp(`"${name.replace('setS', 's')}"`) }, name)
  }
})

t.test('a key ends only where all tokens do, at a time that is known (E14)', async (t) => {
  warnings(t, 'W04')
  setClock(t, noon)
  const keys = [{ key: secret, verifyUntil: iso(noon + 60 + overlap) }, { key: otherSecret, signFrom: iso(noon + 60) }]
  const given = (options: object) => refusal(t, { secret: undefined, keys, ...options })
  t.equal(await given({}), undefined)
  t.equal(await given({ getClaimIss: () => 'a' }), undefined, 'other settings may be computed')
  const wrong: object[] = [{ verifyExp: false }, { getVerifyExp: () => true }, { getExpirationDelta: () => 60 }, { getLeeway: () => 0 }, { expirationDelta: 1801 }, { leeway: 181 }]
  for (const options of wrong) t.match(await given(options), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E14' }, Object.keys(options).join())
  for (const options of wrong.slice(0, 4)) t.equal(await given({ keys: [{ key: secret }, { key: otherSecret, signFrom: iso(noon + 60) }], ...options }), undefined, 'without an end of keys they may')
})
