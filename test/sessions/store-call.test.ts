import assert from 'node:assert/strict'
import t, { type Test } from 'tap'
import { AuthenticationFailed, InvalidToken } from '../../lib/errors.ts'
import { memorySessions } from '../../lib/sessions/stores/memory.ts'
import { maximumCounter } from '../../lib/sessions/refresh-token.ts'
import { callStore } from '../../lib/sessions/store-call.ts'
import { storeTimeoutMs } from '../../lib/sessions/stores/store-clock.ts'
import type { SessionStore } from '../../types/sessions.ts'
import { caseOf, environment } from '../helper.ts'

type Method = keyof SessionStore
const methods: readonly Method[] = ['create', 'advance', 'end', 'list', 'endedSince', 'confirm']

/** The error of a call. */
async function refusalOf (method: Method, call: () => unknown): Promise<Error & { statusCode?: unknown, headers?: unknown }> {
  try {
    await callStore(method, call)
  } catch (error) {
    if (error instanceof Error) return error
  }
  throw new Error('it was not refused')
}

interface Timer { expire: () => void, milliseconds: number | undefined, isReferenced: boolean, isCleared: boolean }

/** Timers that a test lets expire, until it ends. */
function fakeTimers (t: Test): Timer[] {
  const { setTimeout, clearTimeout } = globalThis
  const timers = new Map<object, Timer>()
  t.teardown(() => Object.assign(globalThis, { setTimeout, clearTimeout }))
  const start = (expire: () => void, milliseconds?: number) => {
    const timer: Timer = { expire, milliseconds, isReferenced: true, isCleared: false }
    const handle = { unref () { timer.isReferenced = false } }
    timers.set(handle, timer)
    list.push(timer)
    return handle
  }
  const list: Timer[] = []
  Object.assign(globalThis, { setTimeout: start, clearTimeout: (handle: object) => { timers.get(handle)!.isCleared = true } })
  return list
}

/** One turn of the event loop, in which unhandled rejections are found. */
const turn = () => new Promise((resolve) => { setImmediate(resolve) })

function unhandled (t: Test): unknown[] {
  const reasons: unknown[] = []
  const listener = (reason: unknown) => { reasons.push(reason) }
  process.on('unhandledRejection', listener)
  t.teardown(() => process.off('unhandledRejection', listener))
  return reasons
}

const rules = { graceMs: 1, idleMs: 1000, keepMs: 1000, maxPerUser: 1 }

t.test('the answers of a store are what its methods give', async (t) => {
  const store = memorySessions()
  const session = { sid: 'a', user: '1', lifetimeMs: 1000, data: '{}' }
  t.same(await callStore('create', () => store.create(session, rules)), [])
  t.match(await callStore('list', () => store.list('1', rules)), [{ sid: 'a', data: '{}' }])
  t.same(await callStore('advance', () => store.advance('1', 'a', 0, rules)), { outcome: 'rotated', n: 1 })
  t.same(await callStore('end', () => store.end('1', { sid: 'a' }, rules)), ['a'])
  t.match(await callStore('endedSince', () => store.endedSince(null, rules)), { ended: ['a'] })
  t.same(await callStore('end', () => ['not asynchronous']), ['not asynchronous'])
})

// Promise: sessions/store-down-login
// Promise: specification/sessionstoreunavailable-2
t.test('whatever a store throws is SessionStoreUnavailable, with an error that has a message as its cause, and no status of it', async (t) => {
  const causes: unknown[] = [
    new Error('ECONNREFUSED'), new AuthenticationFailed(), new InvalidToken(), Object.assign(new Error('of a client'), { statusCode: 401 }), { statusCode: 404 }, 'text', null
  ]
  for (const cause of causes) {
    for (const call of [() => { throw cause }, () => Promise.reject(cause), () => ({ then () { throw cause } })]) {
      const error = await refusalOf('advance', call)
      t.match(error, { name: 'SessionStoreUnavailable', statusCode: 503, headers: { 'retry-after': '5' } })
      assert.deepEqual(Object.keys(Object(error.headers)), ['retry-after'], 'no challenge: the tokens are good')
      if (cause instanceof Error) assert.equal(error.cause, cause, caseOf(cause, call))
      else t.match(error.cause, { message: /^sessions\.store\.advance rejected with .+, which has no message\.$/, cause })
      assert.doesNotMatch(error.message, /ECONNREFUSED|text/, caseOf(cause, call))
    }
  }
  const { cause } = await refusalOf('list', () => ({ then (_resolve: unknown, reject: () => void) { reject() } }))
  t.match(cause, { message: 'sessions.store.list rejected with undefined, which has no message.' })
  // As node:net rejects where a host has several addresses, and node-redis where a command was not sent in time.
  const several = Object.assign(new AggregateError([new Error('ECONNREFUSED ::1')]), { code: 'ECONNREFUSED' })
  t.match((await refusalOf('list', () => Promise.reject(several))).cause, { message: 'sessions.store.list rejected with AggregateError (ECONNREFUSED), which has no message.', cause: several })
  t.match((await refusalOf('list', () => Promise.reject(new TypeError('')))).cause, { message: 'sessions.store.list rejected with TypeError, which has no message.' })
})

t.test('in production, too, the original is the cause', async (t) => {
  environment(t, 'production')
  const cause = new Error('ECONNREFUSED')
  t.equal((await refusalOf('list', () => Promise.reject(cause))).cause, cause)
})

// Promise: sessions/store-gives-answer
t.test('a store that gives no answer for five seconds is SessionStoreUnavailable, and what it gives later is dropped', async (t) => {
  const reasons = unhandled(t)
  const timers = fakeTimers(t)
  const late: Array<{ resolve: (value: unknown) => void, reject: (reason: Error) => void }> = []
  const refusals = methods.map((method) => refusalOf(method, () => new Promise((resolve, reject) => { late.push({ resolve, reject }) })))
  await turn()
  t.same(timers.map(({ milliseconds }) => milliseconds), methods.map(() => 5000))
  t.equal(storeTimeoutMs, 5000)
  t.notOk(timers.some(({ isReferenced }) => isReferenced), 'no timer keeps the process alive')
  for (const { expire } of timers) expire()
  for (const [index, error] of (await Promise.all(refusals)).entries()) {
    t.match(error, { name: 'SessionStoreUnavailable', statusCode: 503, cause: { message: `sessions.store.${methods[index]} did not settle within 5 seconds.` } })
  }
  for (const [index, { resolve, reject }] of late.entries()) index % 2 === 0 ? resolve([]) : reject(new Error('late'))
  await turn()
  t.same(reasons, [])
})

t.test('no timer is left when a store answers, throws or rejects', async (t) => {
  const timers = fakeTimers(t)
  await callStore('create', async () => [])
  await refusalOf('create', () => { throw new Error() })
  await refusalOf('create', () => Promise.reject(new Error()))
  await refusalOf('create', () => 'wrong')
  t.equal(timers.length, 4)
  t.ok(timers.every(({ isCleared, isReferenced }) => isCleared && !isReferenced))
})

const stored = { sid: 'a', createdAt: 1, usedAt: 1, endsAt: 2, data: '{}' }
const times = [-1, 1.5, NaN, Infinity, 8.64e15 + 2, '1', null, undefined, new Date(1), 1n]
const noLists = [undefined, null, 'a', { length: 0 }, [1], [null], ['a', undefined], new Set(['a'])]

/** Answers of another type than the interface has. */
const wrong: Record<Exclude<Method, 'confirm'>, unknown[]> = {
  create: noLists,
  end: noLists,
  advance: [
    undefined, null, 'rotated', [], {}, { outcome: 'rotated' }, { n: 1 }, { outcome: 'Rotated', n: 1 }, { outcome: 'toString', n: 1 }, { outcome: ['rotated'], n: 1 },
    ...[-1, 1.5, NaN, Infinity, maximumCounter + 1, '1', null, 1n].map((n) => ({ outcome: 'rotated', n }))
  ],
  list: [
    undefined, null, {}, 'a', [null], [undefined], [[]], [{}], [stored, null],
    ...['createdAt', 'usedAt', 'endsAt'].flatMap((name) => times.map((time) => [{ ...stored, [name]: time }])),
    [{ ...stored, sid: 1 }], [{ ...stored, data: {} }], [{ ...stored, data: null }], [{ ...stored, data: '' }], [{ ...stored, data: 'null' }], [{ ...stored, data: '"a"' }], [{ ...stored, data: '{' }]
  ],
  endedSince: [
    undefined, null, [], {}, 'a', { ended: [] }, { cursor: '' }, { ended: ['a'], cursor: 1 }, { ended: ['a'], cursor: null }, { ended: [1], cursor: '' }, { ended: 'a', cursor: '' },
    ...['1', null, -1, NaN, 1n].map((staleFor) => ({ ended: [], cursor: '', staleFor })),
    ...[1, {}, false].map((reason) => ({ ended: [], cursor: '', staleFor: 1, reason }))
  ]
}

// Promise: sessions/store-gives-answer-wrong
t.test('an answer of the wrong type is HandlerFailed of that method, and says what it must be', async (t) => {
  for (const method of methods) {
    // Nothing is expected of it.
    if (method === 'confirm') continue
    const failing = { get ended (): never { throw new Error('read') }, get outcome (): never { throw new Error('read') } }
    for (const answer of [...wrong[method], failing]) {
      const error = await refusalOf(method, () => Promise.resolve(answer))
      t.match(error, { name: 'HandlerFailed', statusCode: 500, message: `The sessions.store.${method} handler failed.` })
      t.match(error.cause, { name: 'TypeError', message: /^sessions\.store\.\w+ must return .*; it returned .*\.$/ })
    }
  }
})

t.test('an answer at the edge of what is allowed is accepted', async (t) => {
  for (const outcome of ['rotated', 'recovered', 'repeated', 'reissued', 'reused', 'unknown']) {
    for (const n of [0, maximumCounter]) assert.deepEqual(await callStore('advance', () => ({ outcome, n })), { outcome, n }, caseOf(outcome, n))
  }
  const latest = [{ ...stored, createdAt: 0, endsAt: 8.64e15 }, stored]
  t.equal(await callStore('list', () => latest), latest)
  t.same(await callStore('list', () => []), [])
  for (const answer of [undefined, 1]) assert.equal(await callStore('confirm', () => answer), answer)
  t.same(await callStore('endedSince', () => ({ ended: [], cursor: '' })), { ended: [], cursor: '' })
  for (const staleFor of [0, 0.5, Infinity, undefined]) t.match(await callStore('endedSince', () => ({ ended: [], cursor: '', staleFor })), { staleFor })
  for (const reason of ['late', null, undefined]) t.match(await callStore('endedSince', () => ({ ended: [], cursor: '', staleFor: 1, reason })), { reason })
})
