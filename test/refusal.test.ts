import t from 'tap'
import { InvalidToken } from '../lib/errors.ts'
import { Refusal } from '../lib/refusal.ts'

t.test('a refusal gives every host an error of its own, and this library one that is made once and cannot be changed', async (t) => {
  let made = 0
  const refusal = new Refusal((reason) => {
    made++
    return new InvalidToken(undefined, { reason })
  }, 'why')
  t.equal(made, 0, 'none is made before somebody asks')
  const { shared } = refusal
  t.equal(refusal.shared, shared)
  t.equal(made, 1)
  t.ok(Object.isFrozen(shared) && Object.isFrozen(shared.headers))

  const errors = [refusal.toError(), refusal.toError()]
  t.equal(new Set([...errors, shared]).size, 3)
  for (const error of errors) {
    t.match(error, { name: 'InvalidToken', reason: 'why', statusCode: 401 })
    error.detail = 'changed'
    error.headers['x-host'] = 'changed'
  }
  t.equal(shared.detail, undefined)
  t.same(Object.keys(shared.headers), ['www-authenticate'])
})
