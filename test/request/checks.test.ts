import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { noInstance } from '../../lib/challenge.ts'
import { InvalidClaim } from '../../lib/errors.ts'
import { Refusal } from '../../lib/refusal.ts'
import { prepareChecks, runChecks, type Check } from '../../lib/request/checks.ts'
import type { CustomClaim, ExtraVerification, Payload } from '../../lib/index.ts'

const payload = (extra: Payload = {}): Payload => ({ user_id: 1, ...extra })

function ask (given: Payload, customClaims: readonly CustomClaim[], extraVerifications: readonly ExtraVerification[] = []) {
  const outcome = runChecks(prepareChecks({ handlers: {}, customClaims, extraVerifications }, undefined).all, given, undefined)
  return outcome instanceof Refusal ? outcome.toError(noInstance) : outcome
}

// Promise: specification/5-custom-claims
t.test('a custom claim gets its value, a missing one is refused without being asked, and every check must pass', async (t) => {
  const seen: unknown[] = []
  const claim = { key: 'tenant', setup: () => 'a', verify (this: unknown, value: unknown) { seen.push([this, value]); return true } }
  t.equal(ask(payload({ tenant: null }), [claim]), null)
  t.strictSame(seen, [[claim, null]], 'called as a method')
  t.ok(ask(payload(), [claim]) instanceof InvalidClaim)
  t.ok(ask(payload(), [{ key: 'constructor', setup: () => 1, verify: () => true }]) instanceof InvalidClaim, 'an inherited property is no claim')
  t.equal(seen.length, 1)

  const order: string[] = []
  const extra = (name: string, passes: boolean) => () => { order.push(name); return passes }
  t.equal(ask(payload(), [], [extra('a', true), extra('b', true)]), null)
  const outcome = ask(payload(), [], [extra('c', true), extra('d', false), extra('e', true)])
  t.equal(outcome instanceof InvalidClaim && outcome.claim, null)
  t.strictSame(order, ['a', 'b', 'c', 'd'])
})

t.test('checks are asked in order, asynchronous ones included, until one does not give true', async (t) => {
  const asked: string[] = []
  const check = (name: string, answer: unknown): Check => ({
    refusal: new Refusal(() => new InvalidClaim(undefined, { claim: name })),
    ask: (given, request) => { asked.push(`${name} ${String(given.user_id)} ${request === undefined ? 'without' : 'with'} a request`); return answer }
  })
  const run = (checks: Check[], request?: FastifyRequest) => runChecks(checks, payload(), request)
  const later = Promise.resolve(true)

  t.equal(run([]), null)
  t.equal(run([check('a', true)]), null, 'synchronous where everything is')
  const passed = run([check('b', true), check('c', later), check('d', true), check('e', later)], {} as FastifyRequest)
  t.ok(passed instanceof Promise)
  t.equal(await passed, null)
  t.strictSame(asked, ['a 1 without a request', ...['b', 'c', 'd', 'e'].map((name) => `${name} 1 with a request`)])

  for (const answer of [false, undefined, null, 1, 'true', {}, new Error('no')]) {
    asked.length = 0
    const refused = check('refused', answer)
    t.equal(run([refused, check('never', true)]), refused.refusal, String(answer))
    const refusedLater = check('later', Promise.resolve(answer))
    t.equal(await run([check('first', true), refusedLater, check('never', true)]), refusedLater.refusal, `a promise of ${String(answer)}`)
    t.notOk(asked.some((name) => name.startsWith('never')))
  }
  const failed = new Error('the store is down')
  await t.rejects(async () => await run([check('failed', Promise.reject(failed)), check('never', true)]), failed)
})
