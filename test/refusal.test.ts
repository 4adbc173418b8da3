import t from 'tap'
import { noInstance } from '../lib/challenge.ts'
import { InvalidToken } from '../lib/errors.ts'
import { Refusal } from '../lib/refusal.ts'

t.test('a refusal creates an error for each caller, and its answer once', async (t) => {
  let made = 0
  const refusal = new Refusal((reason) => {
    made++
    return new InvalidToken(undefined, { reason })
  }, 'why')
  t.equal(made, 0, 'none is created before somebody asks')
  const { answer } = refusal
  t.equal(refusal.answer, answer)
  t.equal(made, 1)
  const { headers, challenge } = answer
  t.strictSame(headers, { 'www-authenticate': challenge?.header })
  t.match({ ...answer, headers: Object.keys(headers) }, {
    statusCode: 401, name: 'InvalidToken', message: 'Token is invalid.', headers: ['www-authenticate'], challenge: { description: 'Token is invalid.', error: 'invalid_token' }, text: '{"reasons":"Token is invalid.","exception":"InvalidToken"}'
  })

  const errors = [refusal.toError(noInstance), refusal.toError(noInstance)]
  t.equal(new Set(errors).size, 2)
  for (const error of errors) {
    t.match(error, { name: 'InvalidToken', reason: 'why', statusCode: 401 })
    t.notOk(Object.isFrozen(error) || Object.isFrozen(error.headers), 'loggers and applications may change it')
    error.detail = 'changed'
    error.headers['x-host'] = 'changed'
  }
  t.same(Object.keys(answer.headers), ['www-authenticate'])
})
