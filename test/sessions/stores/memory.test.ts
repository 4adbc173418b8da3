// @slow
import t, { type Test } from 'tap'
import { memorySessions } from '../../../lib/sessions/stores/memory.ts'
import { sessionStoreTests } from '../../../lib/testing.ts'
import type { SessionRules, SessionStore } from '../../../types/sessions.ts'
import { setClock, setMonotonicClock } from '../../helper.ts'

const rules: SessionRules = { graceMs: 30_000, idleMs: 600_000, keepMs: 60_000, maxPerUser: 100 }
const session = (sid: string, { user = '1', lifetimeMs = 3_600_000, data = '{}' } = {}) => ({ sid, user, lifetimeMs, data })
const endedIn = async (store: SessionStore, cursor: string | null = null) => (await store.endedSince(cursor, rules)).ended

/** A store, and the number of sessions and of users that it holds. */
function observed (t: Test): { store: SessionStore, sizes: () => number[] } {
  const maps: Array<Map<unknown, unknown>> = []
  const { Map: RealMap } = globalThis
  t.teardown(() => Object.assign(globalThis, { Map: RealMap }))
  Object.assign(globalThis, {
    Map: class <Key, Value> extends RealMap<Key, Value> {
      constructor () {
        super()
        maps.push(this)
      }
    }
  })
  const store = memorySessions()
  Object.assign(globalThis, { Map: RealMap })
  return { store, sizes: () => maps.map(({ size }) => size) }
}

// Promise: sessions/2-2-2
// Promise: sessions/request-many-times
// Promise: specification/memorysessions-2
t.test('the memory store keeps every rule of the contract of stores', async (t) => {
  for (const { name, run } of sessionStoreTests(memorySessions)) await t.test(name, run)
})

t.test('its methods need no object: a store can be spread into another, or handed over in parts', async (t) => {
  const { create, endedSince, end } = { ...memorySessions() }
  await create(session('a'), rules)
  await end('1', { sid: 'a' }, rules)
  t.same((await endedSince(null, rules)).ended, ['a'])
})

t.test('what a caller does to an answer or to its session changes nothing', async (t) => {
  const store = memorySessions()
  const given = session('a')
  await store.create(given, rules)
  given.data = 'changed'
  const [listed] = await store.list('1', rules)
  Object.assign(listed ?? {}, { endsAt: 0, data: 'changed' })
  t.match(await store.list('1', rules), [{ sid: 'a', data: '{}', endsAt: (listed?.createdAt ?? 0) + 3_600_000 }])
  await store.end('1', { sid: 'a' }, rules)
  const { ended } = await store.endedSince(null, rules)
  ended.length = 0
  t.same(await endedIn(store), ['a'])
})

t.test('a session is alive to the last millisecond, and gone in the next', async (t) => {
  const setTime = setClock(t, 1000)
  const store = memorySessions()
  await store.create(session('idle'), rules)
  await store.create(session('short', { lifetimeMs: 500_000 }), rules)
  setTime(1499.999)
  t.equal((await store.list('1', rules)).length, 2)
  setTime(1500)
  t.match(await store.list('1', rules), [{ sid: 'idle' }])
  t.same(await store.advance('1', 'short', 0, rules), { outcome: 'unknown', n: 0 })
  setTime(1599.999)
  t.same(await store.advance('1', 'idle', 0, rules), { outcome: 'rotated', n: 1 })
  setTime(2199.998)
  t.same(await store.end('1', { sid: 'idle' }, rules), ['idle'])
})

t.test('the feed keeps an id for keepMs, and no longer', async (t) => {
  const setPassed = setMonotonicClock(t)
  const store = memorySessions()
  for (const sid of ['a', 'b']) await store.create(session(sid), rules)
  await store.end('1', { sid: 'a' }, rules)
  setPassed(30_000)
  await store.end('1', { sid: 'b' }, rules)
  setPassed(59_999)
  t.same(await endedIn(store), ['a', 'b'])
  setPassed(60_000)
  t.same(await endedIn(store), ['b'])
  t.same(await endedIn(store, '0'), ['b'], 'an old cursor does no harm')
  setPassed(90_000)
  t.same(await endedIn(store), [])
})

// Promise: sessions/clock-store-set
t.test('a clock that is set back and forward, or forward and back, makes the feed forget nothing', async (t) => {
  const setTime = setClock(t, 10_000)
  const store = memorySessions()
  const end = async (sid: string) => {
    await store.create(session(sid), rules)
    await store.end('1', { sid }, rules)
  }
  await end('a')
  const { cursor } = await store.endedSince(null, rules)
  for (const time of [5000, 17_200, 10_000]) {
    setTime(time)
    await end(`at ${time}`)
    t.same(await endedIn(store), ['a', 'at 5000', 'at 17200', 'at 10000'].slice(0, [5000, 17_200, 10_000].indexOf(time) + 2))
  }
  t.same(await endedIn(store, cursor), ['at 5000', 'at 17200', 'at 10000'], 'the cursor depends on no clock')
})

// Promise: sessions/clock-store-set
t.test('a clock that is set back ends no session and never rotates twice', async (t) => {
  const setTime = setClock(t, 10_000)
  const store = memorySessions()
  await store.create(session('a'), rules)
  t.same(await store.advance('1', 'a', 0, rules), { outcome: 'rotated', n: 1 })
  setTime(5000)
  t.same(await store.advance('1', 'a', 0, rules), { outcome: 'repeated', n: 1 })
  t.same(await store.advance('1', 'a', 1, rules), { outcome: 'repeated', n: 1 }, 'the window lasts longer by as much')
  t.equal((await store.list('1', rules)).length, 1)
  setTime(10_030)
  t.same(await store.advance('1', 'a', 1, rules), { outcome: 'rotated', n: 2 })
})

t.test('a cursor that is not of this store gives everything', async (t) => {
  const store = memorySessions()
  await store.create(session('a'), rules)
  await store.end('1', { sid: 'a' }, rules)
  for (const cursor of ['', 'x', '-1', '0.5', '2', '1e999', 'NaN', '1,2']) t.same(await endedIn(store, cursor), ['a'], cursor)
  t.same(await endedIn(store, '1'), [])
})

t.test('a cursor is good after the feed was cut', async (t) => {
  const setPassed = setMonotonicClock(t)
  const store = memorySessions()
  let cursor: string | null = null
  const seen: string[] = []
  for (let second = 0; second < 5000; second++) {
    setPassed(1000 * second)
    await store.create(session(`${second}`), rules)
    await store.end('1', { sid: `${second}` }, rules)
    if (second % 7 !== 0) continue
    const answer = await store.endedSince(cursor, rules)
    seen.push(...answer.ended)
    cursor = answer.cursor
  }
  seen.push(...await endedIn(store, cursor))
  t.same(seen, Array.from({ length: 5000 }, (_, second) => `${second}`), 'every id once')
  t.same(await endedIn(store), Array.from({ length: 60 }, (_, index) => `${4940 + index}`))
})

t.test('sessions that ended are deleted, with their users', async (t) => {
  const { store, sizes } = observed(t)
  for (const sid of ['a', 'b', 'c']) await store.create(session(sid), rules)
  await store.create(session('d', { user: '2' }), rules)
  t.same(sizes(), [4, 2])
  await store.end('1', { sid: 'a' }, rules)
  await store.advance('1', 'b', 5, rules)
  await store.advance('1', 'b', 0, rules)
  t.same(sizes(), [2, 2])
  await store.end('1', { except: null }, rules)
  await store.create(session('e', { user: '2' }), { ...rules, maxPerUser: 1 })
  t.same(sizes(), [1, 1])
  await store.end('2', { except: null }, rules)
  t.same(sizes(), [0, 0])
})

t.test('logins that are never used again do not stay: expired sessions go faster than new ones come', async (t) => {
  const setTime = setClock(t, 0)
  const { store, sizes } = observed(t)
  let most = 0
  // At ten logins a second, 6,000 sessions are alive at a time.
  for (let login = 0; login < 60_000; login++) {
    setTime(login / 10)
    await store.create(session(`${login}`, { user: `${login}` }), rules)
    most = Math.max(most, ...sizes())
  }
  t.ok(most < 9000, `${most} sessions at most`)
  // Nobody logs in any more, and the feed is polled.
  setTime(10_000)
  for (let poll = 0; poll < 3000; poll++) await store.endedSince(null, rules)
  t.same(sizes(), [0, 0])
})

// Promise: sessions/7-1-2
t.test('a user who logs in again and again has no more than the sessions that are allowed', async (t) => {
  const setTime = setClock(t, 0)
  const { store, sizes } = observed(t)
  for (let login = 0; login < 3000; login++) {
    setTime(login)
    await store.create(session(`${login}`), { ...rules, maxPerUser: 10 })
  }
  t.same(sizes(), [10, 1])
})

t.test('no call looks at all sessions', async (t) => {
  const setTime = setClock(t, 0)
  const { store, sizes } = observed(t)
  for (let login = 0; login < 10_000; login++) await store.create(session(`${login}`, { user: `${login}` }), rules)
  setTime(1000)
  const calls = [
    () => store.create(session('new'), rules), () => store.advance('1', 'new', 0, rules), () => store.end('1', { sid: 'none' }, rules), () => store.endedSince(null, rules)
  ]
  for (const call of calls) {
    const [before = 0] = sizes()
    await call()
    const [after = 0] = sizes()
    t.ok(before - after <= 4, 'a few expired sessions are deleted by each call')
  }
})

t.test('refreshes and logouts leave nothing behind, however many', async (t) => {
  const setTime = setClock(t, 0)
  const setPassed = setMonotonicClock(t)
  const { store, sizes } = observed(t)
  await store.create(session('a', { lifetimeMs: 1e12 }), rules)
  for (let n = 0; n < 10_000; n++) {
    setTime(n * 31)
    const { outcome } = await store.advance('1', 'a', n, rules)
    if (outcome !== 'rotated') t.fail(outcome)
  }
  for (let n = 0; n < 10_000; n++) {
    setTime(10_000 * 31 + n / 10)
    setPassed(n * 100)
    await store.create(session(`${n}`, { user: '2' }), rules)
    await store.end('2', { sid: `${n}` }, rules)
  }
  t.same(sizes(), [0, 0], 'the first one is idle by now')
})
