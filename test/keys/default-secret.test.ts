import t from 'tap'
import { withDefaultSecret } from '../../lib/keys/default-secret.ts'
import { resolveSettings } from '../../lib/settings/configuration.ts'
import { environment, secret } from '../helper.ts'

t.test('a missing secret is a random one of this process, and of no other', async (t) => {
  const given = resolveSettings({}, undefined)
  const { resolved: { keys }, isDefaultSecret } = withDefaultSecret(given)
  const { secret: made } = keys()
  t.ok(isDefaultSecret)
  t.ok(Buffer.isBuffer(made) && made.length === 64)
  t.equal(withDefaultSecret(resolveSettings({ leeway: 0 }, undefined)).resolved.keys().secret, made)
  const elsewhere: { withDefaultSecret: typeof withDefaultSecret } = await t.mockImport('../../lib/keys/default-secret.ts', {})
  t.notSame(elsewhere.withDefaultSecret(given).resolved.keys().secret, made)
  for (const options of [{ secret }, { algorithm: 'EdDSA' }, { publicKey: secret }, { getSecret: () => secret }, { getAlgorithm: () => 'HS256' }, { algorithm: 'RS256' }]) {
    const resolved = resolveSettings(options, undefined)
    t.strictSame(withDefaultSecret(resolved), { resolved, isDefaultSecret: false })
  }
  environment(t, 'production')
  t.throws(() => withDefaultSecret(given), { name: 'InvalidConfiguration', message: /NODE_ENV is "production"/ })
})
