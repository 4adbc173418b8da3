/** What the log shows of a value that a handler throws and that is not an error. */
import { Writable } from 'node:stream'
import fc from 'fast-check'
import t from 'tap'
import { HandlerFailed } from '../../lib/index.ts'
import { show } from '../../lib/secret-names.ts'
import { build, claims, forge, login, mistyped } from '../helper.ts'

// Promise: specification/thrown-values
t.test('the log shows a text or an object that a handler throws, cut at 200 characters, and the client sees nothing of it', async (t) => {
  const values: Array<[thrown: unknown, shown: string | RegExp]> = [
    ['no connection', "'no connection'"],
    [{ code: 'E1', detail: { of: 1 } }, "{ code: 'E1', detail: [Object] }"],
    [{ password: 'hunter2', Access_Token: 'x', name: 'ada' }, "{ password: '***', Access_Token: '***', name: 'ada' }"],
    [`bad token ${forge(claims())}`, "'bad token ***'"],
    [42, '42'], [null, 'null'], [Symbol('x'), 'Symbol(x)'], [[1, 'a'], "[ 1, 'a' ]"],
    ['x'.repeat(1000), `'${'x'.repeat(196)}...`],
    [{ get secretly () { throw new Error('read') }, toJSON () { throw new Error('called') }, toString: null }, /^\{ secretly: undefined, toJSON: \[Function/]
  ]
  for (const [thrown, shown] of values) {
    const lines: string[] = []
    const stream = new Writable({ write (chunk, _encoding, done) { lines.push(String(chunk)); done() } })
    const app = await build(t, { authenticate: () => { throw thrown } }, { logger: { level: 'error', stream } })
    const answer = await login(app)
    t.equal(answer.statusCode, 500)
    t.same(answer.json(), { statusCode: 500, code: 'TOKEN_AUTH_HANDLER_FAILED', error: 'Internal Server Error', message: 'The authenticate handler failed.' })
    t.equal(lines.length, 1)
    const { err } = JSON.parse(lines[0]!)
    const cause = /^The authenticate handler failed\.: It threw a value that is not an Error: (.*)$/s.exec(err.message)?.[1]
    t.match(cause, shown)
    t.ok(String(cause).length <= 200)
  }
})

t.test('an error stays as it is, and without a cause there is none', (t) => {
  const error = new Error('x')
  t.equal(new HandlerFailed('x', { cause: error }).cause, error)
  t.notOk('cause' in new HandlerFailed('x'))
  t.equal(mistyped<Error>(new HandlerFailed('x', { cause: 'text' }).cause).cause, 'text')
  t.end()
})

t.test('any value is shown, in at most 200 characters, and none fails', (t) => {
  fc.assert(fc.property(fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true, withTypedArray: true, withNullPrototype: true, withSparseArray: true, withObjectString: true }), (value) => {
    const text = show(value)
    return text.length > 0 && text.length <= 200
  }))
  t.equal(show(new Proxy({}, { get () { throw new Error('read') }, ownKeys () { throw new Error('listed') } })), '{}')
  t.end()
})
