/** The rules of session stores, part 2: late exchanges of a generation, and confirmations that its successor was received. */
import assert from 'node:assert/strict'
import { setImmediate, setTimeout as wait } from 'node:timers/promises'
import { afterWindow, beyond, deadline, hour, partOf, patient, withWindow, type Bench, type Rule, type Subject } from './bench.ts'

/** Starts a session and exchanges generation 0 `members` times. The family of 0 are then the generations from 1 to `members`. */
async function withFamily (bench: Bench, members: number): Promise<Subject> {
  const session = await bench.start()
  await session.expect(0, 'rotated', 1)
  const late = await afterWindow(session)
  for (let member = 2; member <= members; member++) await late.expect(0, 'reissued', member)
  return session
}

export const rulesOfFamilies: Record<string, Rule> = {
  'each late exchange of a generation gives a further generation, until its successor is known to be received': async (bench) => {
    const session = await bench.start()
    await session.expect(0, 'rotated', 1)
    const late = await afterWindow(session)
    await late.expect(0, 'reissued', 2)
    await session.expect(0, 'reissued', 3)
    await late.expect(0, 'reissued', 4)
    // A new family is not confirmed, also where the one before was.
    const confirmed = await withFamily(bench, 1)
    await confirmed.confirm(0)
    await (await afterWindow(confirmed)).expect(1, 'rotated', 2)
    await (await afterWindow(confirmed)).expect(1, 'reissued', 3)
    const ahead = await withFamily(bench, 1)
    await ahead.confirm(0)
    await ahead.expect(5, 'recovered', 6)
    await (await afterWindow(ahead)).expect(5, 'reissued', 7)
  },

  'a late exchange is a use': async (bench) => {
    await withWindow(async (idle) => {
      const isAlive = deadline(idle)
      const session = await bench.start({ idleMs: idle, graceMs: 1 })
      await session.expect(0, 'rotated', 1, isAlive)
      const before = await session.find()
      await wait(partOf(idle))
      const isStillAlive = deadline(idle)
      await session.expect(0, 'reissued', 2, isAlive)
      const after = await session.find()
      await wait(partOf(idle))
      await session.expect(0, 'reissued', 3, isStillAlive)
      assert.ok(before !== undefined && after !== undefined && after.usedAt > before.usedAt, 'it is the last use')
      assert.equal(after.endsAt, before.endsAt, 'it does not prolong the lifetime')
    })
    const session = await withFamily(bench, 1)
    await session.confirm(0)
    const before = await session.find()
    await wait(20)
    await session.expect(0, 'reissued', 2)
    const after = await session.find()
    assert.ok(before !== undefined && after !== undefined && after.usedAt > before.usedAt, 'also of a confirmed family')
  },

  'of several generations for one parent, the first that is exchanged retires the others': async (bench) => {
    for (const [winner, retired] of [
      [1, 2],
      [1, 3],
      [2, 1],
      [2, 3],
      [3, 1],
      [3, 2],
      [2, 0]
    ] as const) {
      const session = await withFamily(bench, 3)
      await (await afterWindow(session)).expect(winner, 'rotated', 4)
      await session.expect(winner, 'repeated', 4)
      await session.expect(retired, 'reused', 4)
      await session.expectEnded()
    }
    const session = await withFamily(bench, 3)
    await (await afterWindow(session)).expect(2, 'rotated', 4)
    // The exchange of the winner may be late, too.
    await (await afterWindow(session)).expect(2, 'reissued', 5)
  },

  'within the window, one of several generations is answered with itself, and confirms that it was received': async (bench) => {
    for (const member of [1, 2, 3]) {
      const session = await withFamily(bench, 3)
      await session.expect(member, 'repeated', member)
      await (await afterWindow(session)).expect(0, 'reused', 3)
    }
    await withWindow(async (window) => {
      const session = await bench.start({ graceMs: window })
      await session.expect(0, 'rotated', 1)
      await wait(beyond(window))
      const isOpen = deadline(window)
      await session.expect(0, 'reissued', 2)
      await session.expect(2, 'repeated', 2, isOpen)
    })
  },

  'after a confirmation, the parent gets a further generation within the window, and is reuse after it': async (bench) => {
    for (const members of [1, 3]) {
      const session = await withFamily(bench, members)
      await session.confirm(0)
      await session.expect(0, 'reissued', members + 1)
      await session.expect(1, 'repeated', 1)
      await (await afterWindow(session)).expect(0, 'reused', members + 1)
      await session.expectEnded()
      const other = await withFamily(bench, members)
      await other.confirm(0)
      // The confirmation retires no member.
      for (let member = 1; member <= members; member++) await other.expect(member, 'repeated', member)
      await (await afterWindow(other)).expect(1, 'rotated', members + 1)
    }
  },

  'a confirmation restarts the window; late copies and further confirmations do not': async (bench) => {
    await withWindow(async (window) => {
      const session = await bench.start({ graceMs: window })
      await session.expect(0, 'rotated', 1)
      await wait(beyond(window))
      const isOpen = deadline(window)
      await session.confirm(0)
      await wait(partOf(window))
      // If one of these restarted the window, it would be open at the end.
      const wouldBeOpen = deadline(window)
      await session.confirm(0)
      await session.expect(0, 'reissued', 2, isOpen)
      await session.expect(1, 'repeated', 1, isOpen)
      await wait(partOf(window))
      await session.expect(0, 'reused', 2, wouldBeOpen)
    })
  },

  'a confirmation of other generations, of unknown and ended sessions, or by another user is ignored, and none is a use': async (bench) => {
    const session = await withFamily(bench, 2)
    const other = await bench.start()
    const ended = await bench.start()
    await ended.end()
    const before = await session.find()
    await wait(20)
    const { sid, user } = session
    const unknown = bench.newSession()
    await bench.store.confirm(
      [
        ...[1, 2, 3, 2 ** 40].map((n) => ({ sid, user, n })),
        { sid, user: other.user, n: 0 },
        { sid: unknown.sid, user: unknown.user, n: 0 },
        { sid: unknown.sid, user, n: 0 },
        { sid: ended.sid, user: ended.user, n: 0 }
      ],
      patient
    )
    await bench.store.confirm([], patient)
    await (await afterWindow(session)).expect(0, 'reissued', 3)
    await ended.expectEnded()
    await withWindow(async (window) => {
      const advanced = await bench.start({ graceMs: window })
      await advanced.expect(0, 'rotated', 1)
      await (await afterWindow(advanced)).expect(1, 'rotated', 2)
      await wait(beyond(window))
      // If one of these began the window, the answer would be a repetition.
      const wouldBeOpen = deadline(window)
      for (const n of [0, 2, 3]) await advanced.confirm(n)
      await advanced.expect(1, 'reissued', 3, wouldBeOpen)
      // If one of these confirmed the family, the answer would be reuse.
      await (await afterWindow(advanced)).expect(1, 'reissued', 4)
      for (const n of [1, 0]) await advanced.confirm(n)
      await (await afterWindow(advanced)).expect(1, 'reused', 4)
    })
    const fresh = await withFamily(bench, 1)
    const beforeConfirmation = await fresh.find()
    await wait(20)
    for (const times of [1, 2]) {
      await bench.store.confirm(
        Array.from({ length: times }, () => ({ sid: fresh.sid, user: fresh.user, n: 0 })),
        patient
      )
    }
    assert.deepEqual(await fresh.find(), beforeConfirmation, 'a confirmation is no use')
    assert.ok(before !== undefined)
    await (await afterWindow(fresh)).expect(0, 'reused', 1)
    await withWindow(async (idle) => {
      const isAlive = deadline(idle)
      const resting = await bench.start({ idleMs: idle })
      await resting.expect(0, 'rotated', 1, isAlive)
      await wait(partOf(idle))
      const isPlain = deadline(idle)
      await resting.confirm(0)
      await wait(partOf(idle))
      const found = await resting.find()
      isPlain()
      assert.equal(found, undefined, 'a confirmation does not prolong the time to idle')
    })
  },

  'of any number of late copies at once, each gets a different generation': async (bench) => {
    const late = await afterWindow(await withFamily(bench, 1))
    const answers = await bench.atOnce(() => late.advance(0))
    assert.deepEqual(
      answers.map(({ outcome }) => outcome),
      answers.map(() => 'reissued')
    )
    assert.deepEqual(
      answers.map(({ n }) => n).toSorted((a, b) => a - b),
      answers.map((_, index) => index + 2)
    )
  },

  'a confirmation that resolves is written, however often the session is advanced at the same time': async (bench) => {
    for (let round = 0; round < 3; round++) {
      const session = await withFamily(bench, 2)
      const over = new AbortController()
      // Out of step, so that a call is in progress almost always.
      const hammering = Promise.all(
        Array.from({ length: 10 }, async (_, caller) => {
          while (!over.signal.aborted) {
            await session.expectOutcome(0, 'reissued')
            for (let turn = 0; turn <= caller % 3; turn++) await setImmediate()
          }
        })
      )
      // Handled below. Until then, a rejection must not be reported as unhandled.
      hammering.catch(() => {})
      await setImmediate()
      await session.confirm(0).finally(() => {
        over.abort()
      })
      await hammering
      await (await afterWindow(session)).expectOutcome(0, 'reused')
      await session.expectEnded()
    }
  },

  'a session may be confirmed while it is advanced': async (bench) => {
    for (let round = 0; round < 10; round++) {
      const session = (await withFamily(bench, 1)).with({ idleMs: hour })
      const calls = [() => session.confirm(0), () => session.advance(1), () => session.confirm(0)]
      await Promise.all(round % 2 === 0 ? calls.map((call) => call()) : calls.toReversed().map((call) => call()))
      await session.expect(1, 'repeated', 1)
      await (await afterWindow(session)).expect(0, 'reused', 1)
    }
  }
}
