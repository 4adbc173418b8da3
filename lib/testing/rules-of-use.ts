/** The rules of session stores, part 1: creation, and the results of presenting counters. */
import assert from 'node:assert/strict'
import { setTimeout as wait } from 'node:timers/promises'
import { afterWindow, beyond, deadline, expectCounts, hour, partOf, patient, withWindow, withWrongClock, type Rule } from './bench.ts'

export const rulesOfUse: Record<string, Rule> = {
  'a created session is listed with its data and with the times of the clock of the store': async (bench, { clock }) => {
    const data = JSON.stringify({ device: 'Ada\'s "phone" \\ ☎ \u{1F4F1}', empty: '', list: [1, null, { a: true }], long: 'x'.repeat(900) })
    const first = await bench.start({}, { data, lifetimeMs: 5 * hour })
    const session = await first.find()
    assert.ok(session, 'the session is listed')
    assert.equal(session.data, data)
    for (const time of [session.createdAt, session.usedAt, session.endsAt]) assert.ok(Number.isInteger(time), 'times are whole numbers')
    assert.ok(Math.abs(session.usedAt - session.createdAt) <= 5, 'a new session was used when it was created')
    assert.ok(Math.abs(session.endsAt - session.createdAt - 5 * hour) <= 5, 'it ends lifetimeMs later')
    await wait(100)
    const second = await bench.start()
    const later = await second.find()
    assert.ok(later !== undefined && later.createdAt - session.createdAt >= 50, 'times are in milliseconds')
    if (clock !== 'server') return
    for (const offset of [2 * hour, -2 * hour]) {
      const created = await withWrongClock(offset, () => bench.start({}, { lifetimeMs: hour }))
      const found = await created.find()
      assert.ok(
        found !== undefined && Math.abs(found.createdAt - session.createdAt) < hour,
        'it was created at a time of the store, not of its caller'
      )
      await created.expect(0, 'rotated', 1)
      await withWrongClock(offset, () => created.expect(0, 'repeated', 1))
    }
  },

  'the first advance rotates, however early': async (bench) => {
    const session = await bench.start()
    await session.expect(0, 'rotated', 1)
  },

  'within the window, the predecessor is answered with the current counter': async (bench) => {
    const session = await bench.start()
    await session.expect(0, 'rotated', 1)
    for (let time = 0; time < 3; time++) await session.expect(0, 'repeated', 1)
    await withWindow(async (window) => {
      const session = await bench.start({ graceMs: window })
      await session.expect(0, 'rotated', 1)
      await wait(beyond(window))
      const inWindow = deadline(window)
      await session.expect(1, 'rotated', 2)
      await session.expect(1, 'repeated', 2, inWindow)
    })
  },

  'within the window, the current counter is answered with itself, and nothing changes': async (bench) => {
    const session = await bench.start()
    await session.expect(0, 'rotated', 1)
    const before = await session.find()
    await wait(20)
    for (let time = 0; time < 3; time++) await session.expect(1, 'repeated', 1)
    await session.expect(0, 'repeated', 1)
    assert.deepEqual(await session.find(), before)
  },

  'a repetition prolongs neither the window nor the time to idle': async (bench) => {
    await withWindow(async (window) => {
      const session = await bench.start({ graceMs: window })
      const inWindow = deadline(window)
      await session.expect(0, 'rotated', 1)
      await wait(partOf(window))
      const isPlain = deadline(window)
      await session.expect(0, 'repeated', 1, inWindow)
      await session.expect(1, 'repeated', 1, inWindow)
      await wait(partOf(window))
      await session.expect(1, 'rotated', 2, isPlain)
    })
    await withWindow(async (idle) => {
      const isNew = deadline(idle)
      const session = await bench.start({ idleMs: idle })
      const isAlive = deadline(idle)
      await session.expect(0, 'rotated', 1, isNew)
      await wait(partOf(idle))
      const isPlain = deadline(idle)
      await session.expect(0, 'repeated', 1, isAlive)
      await session.expect(1, 'repeated', 1, isAlive)
      await wait(partOf(idle))
      const found = await session.find()
      isPlain()
      assert.equal(found, undefined, 'it expired in spite of repetitions')
    })
  },

  'after the window, the current counter rotates, and times begin anew': async (bench) => {
    await withWindow(async (window) => {
      const session = await bench.start({ graceMs: window })
      await session.expect(0, 'rotated', 1)
      const before = await session.find()
      await wait(beyond(window))
      const inWindow = deadline(window)
      await session.expect(1, 'rotated', 2)
      await session.expect(2, 'repeated', 2, inWindow)
      const after = await session.find()
      assert.ok(before !== undefined && after !== undefined, 'it is listed')
      assert.ok(after.usedAt - before.usedAt >= window / 2, 'a rotation is a use')
      assert.equal(after.createdAt, before.createdAt)
    })
  },

  'a counter that is two or more behind is reuse, also within the window': async (bench) => {
    await withWindow(async (window) => {
      const session = await bench.start({ graceMs: window })
      await session.expect(0, 'rotated', 1)
      await wait(beyond(window))
      const inWindow = deadline(window)
      await session.expect(1, 'rotated', 2)
      await session.expect(0, 'reused', 2)
      inWindow()
      await session.expectEnded()
    })
    const session = await bench.start()
    await session.expect(7, 'recovered', 8)
    await session.expect(5, 'reused', 8)
  },

  'reuse ends the session and adds it to the feed in one step, and one caller gets this outcome': async (bench) => {
    const { cursor } = await bench.store.endedSince(null, patient)
    const session = await bench.start()
    await session.expect(7, 'recovered', 8)
    const answers = await bench.atOnce(() => session.advance(0))
    expectCounts(answers, { reused: 1, unknown: bench.concurrency - 1 })
    assert.ok(await session.isFed(cursor), 'the feed has it for an earlier cursor')
    await session.expectEnded()
    await withWindow(async (window) => {
      const session = await bench.start({ graceMs: window })
      await session.expect(0, 'rotated', 1)
      await session.confirm(0)
      await wait(beyond(window))
      await session.expect(0, 'reused', 1)
      await session.expectEnded()
    })
  },

  'without a window, a counter rotates once, and a second use of it is reuse': async (bench) => {
    const session = await bench.start({ graceMs: 0 })
    for (let n = 0; n < 5; n++) await session.expect(n, 'rotated', n + 1)
    await session.expect(4, 'reused', 5)
    await session.expectEnded()
  },

  'a counter that is ahead recovers the session, because the store has lost writes': async (bench) => {
    const session = await bench.start()
    const before = await session.find()
    await wait(20)
    await session.expect(7, 'recovered', 8)
    const after = await session.find()
    assert.ok(before !== undefined && after !== undefined && after.usedAt > before.usedAt, 'it is a use')
    await session.expect(8, 'repeated', 8)
    await session.expect(7, 'repeated', 8)
    // Counters have up to 48 bits.
    await session.expect(2 ** 40, 'recovered', 2 ** 40 + 1)
    await session.expect(2 ** 40, 'repeated', 2 ** 40 + 1)
    await (await afterWindow(session)).expect(2 ** 40 + 1, 'rotated', 2 ** 40 + 2)
    await (await afterWindow(session)).expect(2 ** 40 + 1, 'reissued', 2 ** 40 + 3)
  },

  'of any number of advances at once, one rotates, and all get the same counter': async (bench) => {
    for (let n = 0; n < 3; n++) {
      const session = await bench.start()
      const answers = await bench.atOnce(() => session.advance(0))
      expectCounts(answers, { rotated: 1, repeated: bench.concurrency - 1 })
      assert.ok(
        answers.every((answer) => answer.n === 1),
        'all get the same counter'
      )
      await session.expect(1, 'repeated', 1)
    }
  },

  'without a window, one of two advances at once rotates, and one is reuse': async (bench) => {
    const session = await bench.start({ graceMs: 0 })
    const answers = await Promise.all([session.advance(0), session.advance(0)])
    expectCounts(answers, { rotated: 1, reused: 1 })
    await session.expectEnded()
  }
}
