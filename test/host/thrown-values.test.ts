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
    ['x '.repeat(500), `'${'x '.repeat(98)}...`],
    [`refused: ${'Ab0-'.repeat(10)}`, "'refused: ***'"],
    [{ message: `bad ${forge(claims())}`, cookie: 'a=1', 'api-key': 'x', code: 1 }, "{ message: 'bad ***', cookie: '***', 'api-key': '***', code: 1 }"],
    [Object.assign(() => {}, { password: 'hunter2' }), 'a function'],
    [new Proxy({ password: 'hunter2' }, {}), 'a Proxy'],
    [Buffer.from('hunter2'), 'bytes or another wrapped value'],
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
    t.notMatch(lines[0], /hunter2|eyJ/)
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
  const cause = mistyped<Error & { thrown: unknown }>(new HandlerFailed('x', { cause: 'text' }).cause)
  t.equal(cause.thrown, 'text')
  t.same([cause.cause, Object.keys(cause)], [undefined, []], 'loggers do not print it')
  t.end()
})

t.test('any value is shown, in at most 200 characters, and none fails', (t) => {
  fc.assert(fc.property(fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true, withTypedArray: true, withNullPrototype: true, withSparseArray: true, withObjectString: true }), (value) => {
    const text = show(value)
    return text.length > 0 && text.length <= 200
  }))
  t.equal(show(new Proxy({}, { get () { throw new Error('read') }, ownKeys () { throw new Error('listed') } })), 'a Proxy')
  t.end()
})

// Promise: security/thrown-values-cost
t.test('a value that is large, or seems to contain many tokens, costs no more than some reads of it', (t) => {
  const repeated = 'eyJ'.repeat(33_000)
  const values = [repeated, Array.from({ length: 1000 }, () => repeated), Buffer.alloc(1_000_000), Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`a${index}`, repeated])), Object(repeated)]
  const start = process.cpuUsage()
  for (const value of values) t.ok(show(value).length <= 200)
  const { user } = process.cpuUsage(start)
  // Before texts were cut, the second one alone took minutes.
  t.ok(user < 1_000_000, `${user} microseconds`)
  t.end()
})
