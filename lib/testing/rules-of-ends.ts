/** The rules of session stores, part 3: users, expiry, the end of sessions, and the feed of ended sessions. */
import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { beyond, deadline, hour, partOf, patient, withWindow, type Rule, type Subject } from './bench.ts'

const sids = (subjects: readonly Subject[]) => subjects.map(({ sid }) => sid).toSorted()

/** The rule that is tested with the option `interrupt` only. */
export const unreachable = 'a method rejects while the database cannot be reached, and does nothing later'

export const rulesOfEnds: Record<string, Rule> = {
  'an unknown session, or one of another user, is unknown, and nothing changes': async (bench) => {
    const [session, other] = [await bench.start(), await bench.start()]
    const before = await session.find()
    const { store } = bench
    for (const sid of [session.sid, bench.newSession().sid]) {
      for (const n of [0, 1, 9]) {
        const { outcome, n: current } = await store.advance(other.user, sid, n, patient)
        assert.deepEqual([outcome, current], ['unknown', 0], 'another user cannot use it')
      }
      assert.deepEqual(await store.end(other.user, { sid }, patient), [], 'another user cannot end it')
    }
    assert.deepEqual(await store.list(bench.newUser(), patient), [], 'a user without sessions')
    assert.deepEqual(await store.end(bench.newUser(), { except: null }, patient), [], 'a user without sessions')
    assert.deepEqual(await bench.sidsOf(other.user), [other.sid])
    assert.deepEqual(await session.find(), before)
    assert.equal(await session.isFed(), false)
    await session.expect(0, 'rotated', 1)
  },

  'a session expires after idleMs without use, and each use prolongs that time': async (bench) => {
    await withWindow(async (idle) => {
      const session = await bench.start({ idleMs: idle })
      const [first, second] = await bench.startAll(2, { idleMs: idle }, { user: bench.newUser() })
      assert.ok(first !== undefined && second !== undefined)
      await wait(beyond(idle))
      await session.expectExpired()
      assert.deepEqual(await bench.store.end(session.user, { except: null }, session.rules), [], 'an expired session does not end')
      await bench.start({ idleMs: idle, maxPerUser: 1 }, { user: session.user })
      // Before any other call that could remove expired sessions.
      assert.deepEqual(await first.end(), [], 'an expired session does not end')
      assert.deepEqual(await bench.store.end(second.user, { except: null }, second.rules), [], 'expired sessions do not end')
    })
    await withWindow(async (idle) => {
      const isNew = deadline(idle)
      const [expired, active] = await bench.startAll(2, { idleMs: idle, graceMs: 0 }, { user: bench.newUser() })
      assert.ok(expired !== undefined && active !== undefined)
      await wait(partOf(idle))
      const isAlive = deadline(idle)
      await active.expectOutcome(0, 'rotated', isNew)
      await wait(partOf(idle))
      const ended = await bench.store.create(bench.newSession({ user: active.user }), { ...active.rules, maxPerUser: 2 })
      isAlive()
      assert.deepEqual(ended, [], 'expired sessions do not count')
    })
    await withWindow(async (idle) => {
      const isAlive = deadline(idle)
      const session = await bench.start({ idleMs: idle, graceMs: 0 })
      await wait(partOf(idle))
      const isStillAlive = deadline(idle)
      await session.expect(0, 'rotated', 1, isAlive)
      await wait(partOf(idle))
      await session.expect(1, 'rotated', 2, isStillAlive)
    })
  },

  'no use prolongs a session beyond lifetimeMs': async (bench) => {
    await withWindow(async (lifetimeMs) => {
      const isAlive = deadline(lifetimeMs)
      const session = await bench.start({ graceMs: 0 }, { lifetimeMs })
      const before = await session.find()
      await wait(partOf(lifetimeMs))
      await session.expect(0, 'rotated', 1, isAlive)
      const after = await session.find()
      isAlive()
      assert.equal(after?.endsAt, before?.endsAt)
      await wait(partOf(lifetimeMs))
      await session.expectExpired()
    })
  },

  'a session ends once, and one caller gets its id': async (bench) => {
    const [session, other] = await bench.startAll(2, {}, { user: bench.newUser() })
    assert.ok(session !== undefined && other !== undefined)
    const answers = await bench.atOnce(() => session.end())
    assert.deepEqual(answers.flat(), [session.sid])
    await session.expectEnded()
    await other.expect(0, 'rotated', 1)
  },

  'all sessions of a user end except one, and none of other users': async (bench) => {
    const user = bench.newUser()
    const sessions = await bench.startAll(4, {}, { user })
    const [kept, ...ended] = sessions
    const other = await bench.start()
    assert.ok(kept !== undefined)
    assert.deepEqual((await bench.store.end(user, { except: kept.sid }, patient)).toSorted(), sids(ended))
    for (const session of ended) await session.expectEnded()
    assert.deepEqual(await bench.sidsOf(user), [kept.sid])
    assert.deepEqual(await bench.store.end(user, { except: kept.sid }, patient), [])
    assert.deepEqual(await bench.store.end(user, { except: other.sid }, patient), [kept.sid], "the one that stays is another user's")
    const more = await bench.startAll(3, {}, { user })
    assert.deepEqual((await bench.store.end(user, { except: null }, patient)).toSorted(), sids(more))
    assert.deepEqual(await bench.sidsOf(user), [])
    assert.deepEqual(await bench.sidsOf(other.user), [other.sid])
    assert.equal(await other.isFed(), false)
  },

  'beyond maxPerUser, the sessions that would expire first end, are returned, and are in the feed': async (bench) => {
    const user = bench.newUser()
    const limit = { maxPerUser: 3 }
    const other = await bench.start(limit)
    const long = await bench.start(limit, { user, lifetimeMs: hour - 10_000 })
    const short = await bench.start(limit, { user, lifetimeMs: hour - 30_000 })
    const middle = await bench.start(limit, { user, lifetimeMs: hour - 20_000 })
    const { cursor } = await bench.store.endedSince(null, patient)
    const fourth = await bench.start(limit, { user }, [short.sid])
    assert.deepEqual(await bench.sidsOf(user), sids([long, middle, fourth]))
    assert.ok(await short.isFed(cursor), 'the feed has it for an earlier cursor')
    await short.expectEnded()
    const last = await bench.start({ maxPerUser: 1 }, { user }, sids([long, middle, fourth]))
    for (const session of [long, middle, fourth]) await session.expectEnded()
    await wait(20)
    const used = await bench.start({}, { user })
    await wait(20)
    await last.expect(0, 'rotated', 1)
    await bench.start({ maxPerUser: 2 }, { user }, [used.sid])
    await last.expect(0, 'repeated', 1)
    await other.expect(0, 'rotated', 1)
    const earlier = await bench.start({ maxPerUser: 1 }, { user: other.user }, [other.sid])
    const brief = await bench.start({ maxPerUser: 1 }, { user: other.user, lifetimeMs: 60_000 }, [earlier.sid])
    await brief.expect(0, 'rotated', 1)
  },

  'the feed has every session that ended, and with a cursor at least those that ended since': async (bench) => {
    const { store } = bench
    const active = await bench.start()
    const sessions = await bench.startAll(5)
    const before = await store.endedSince(null, patient)
    let { cursor } = before
    for (const session of sessions) {
      assert.equal(typeof cursor, 'string', 'a cursor is text')
      await session.end()
      const { ended, cursor: next } = await store.endedSince(cursor, patient)
      assert.ok(ended.includes(session.sid), 'the last one')
      cursor = next
      await wait(5)
    }
    await wait(100)
    for (const cursor of [null, before.cursor]) {
      const { ended } = await store.endedSince(cursor, patient)
      for (const { sid } of sessions) assert.ok(ended.includes(sid), 'all of them')
      assert.ok(!ended.includes(active.sid), 'none that is active')
    }
  },

  'a session is in the feed no later than it is gone': async (bench) => {
    for (let round = 0; round < 5; round++) {
      const session = await bench.start()
      await session.watch(session.end())
    }
    for (let round = 0; round < 5; round++) {
      const session = await bench.start({ graceMs: 0 })
      await session.expect(0, 'rotated', 1)
      await session.watch(session.advance(0))
    }
    for (let round = 0; round < 5; round++) {
      const session = await bench.start()
      await session.watch(bench.start({ maxPerUser: 1 }, { user: session.user }, [session.sid]))
    }
  },

  'a session that is ended while it is advanced has ended': async (bench) => {
    const { store } = bench
    const endings: Array<(session: Subject) => Promise<string[]>> = [
      (session) => session.end(),
      ({ user, rules }) => store.end(user, { except: null }, rules)
    ]
    for (const end of endings) {
      for (let round = 0; round < 10; round++) {
        const session = await bench.start()
        const both = round % 2 === 0 ? [session.advance(0), end(session)] : [end(session), session.advance(0)]
        await Promise.all(both)
        await session.expectEnded()
      }
    }
  },

  'sessions that are created at once for one user are all kept': async (bench) => {
    const user = bench.newUser()
    const sessions = await bench.atOnce(() => bench.start({ maxPerUser: 2 * bench.concurrency }, { user }))
    assert.deepEqual(await bench.sidsOf(user), sids(sessions))
  },

  'users with similar ids are different users': async (bench) => {
    const id = randomInt(2 ** 47)
    const texts = [
      `${id}`,
      `${id} `,
      ` ${id}`,
      `0${id}`,
      `{${id}}`,
      `}{${id}`,
      `{${id}`,
      `${id}*`,
      `${id}%`,
      `${id}_`,
      `${id}:a`,
      `${id}a`,
      `${id}A`,
      `${id}\u0000`,
      `${id}"`,
      `${id}\\`,
      `${id}é`,
      `${id}e\u0301`,
      `${id}`.padEnd(200, 'x'),
      `${id}`.padEnd(199, 'x')
    ]
    const users = [id, ...texts, [id, null, 'a'], [id, 'a', null], [`${id}`, 'a', null]].map((user) => JSON.stringify(user))
    const sessions: Subject[] = []
    for (const user of users) sessions.push(await bench.start({}, { user }))
    for (const session of sessions) assert.deepEqual(await bench.sidsOf(session.user), [session.sid], session.user)
    for (const [index, session] of sessions.entries()) {
      assert.deepEqual(await bench.store.end(session.user, { except: null }, patient), [session.sid], session.user)
      const next = sessions[index + 1]
      if (next !== undefined) await next.expect(0, 'rotated', 1)
    }
  },

  [unreachable]: async (bench, { interrupt }) => {
    const { store } = bench
    const session = await bench.start()
    assert.ok(interrupt !== undefined)
    const resume = await interrupt(store)
    const late = bench.newSession({ user: session.user })
    const calls: Array<() => Promise<unknown>> = [
      () => store.create(late, patient),
      () => session.advance(0),
      () => session.end(),
      () => store.end(session.user, { except: null }, patient),
      () => store.list(session.user, patient),
      () => store.endedSince(null, patient),
      () => session.confirm(0)
    ]
    for (const call of calls) await assert.rejects(call, 'a method rejects while the database cannot be reached')
    await resume()
    // A client library may send queued calls now.
    await wait(100)
    assert.deepEqual(await bench.sidsOf(session.user), [session.sid], 'nothing was created or ended later')
    await session.expect(0, 'rotated', 1)
  }
}
