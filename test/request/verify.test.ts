import t from 'tap'
import { ownAuthority } from '../../lib/authorities/own.ts'
import { InvalidClaim } from '../../lib/errors.ts'
import { endless } from '../../lib/keys/life.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Check } from '../../lib/request/checks.ts'
import { verifyCredential } from '../../lib/request/verify.ts'
import { withoutRequest } from '../../lib/host/getters.ts'
import { readRegistered } from '../../lib/token/claims.ts'
import { build, claims } from '../helper.ts'

t.test('a check that has to be waited for decides about the token, and gets a payload of its own', async (t) => {
  const { tokenAuth: { settings } } = await build(t)
  const context = { settings, results: withoutRequest(''), request: undefined, renewal: undefined }
  const payload: Record<string, unknown> = claims({ tenant: 'a' })
  const credential = { token: 'x.y.z', payload, isRemembered: true, registered: readRegistered(payload), authority: ownAuthority, life: endless }
  const refusal = new Refusal(() => new InvalidClaim())
  const verdictOf = (answer: unknown) => {
    const check: Check = { refusal, ask: async (copy) => { copy.tenant = 'b'; return answer } }
    return verifyCredential('x.y.z', [{ verify: () => undefined }, { verify: () => credential }], { session: undefined, all: [check], withoutClaims: [] }, context, 'access')
  }
  const passed = verdictOf(true)
  t.ok(passed instanceof Promise)
  t.match(await passed, { credential, payload: { user_id: 1, tenant: 'b' } })
  t.equal(payload.tenant, 'a')
  for (const answer of [false, undefined, 1]) t.equal(await verdictOf(answer), refusal)
  t.match(verifyCredential('x.y.z', [{ verify: () => undefined }], { session: undefined, all: [], withoutClaims: [] }, context, 'access'), { reason: 'this kind of credential is not accepted here' })
})
