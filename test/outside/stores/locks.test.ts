// @waits
/** What the store in PostgreSQL does when it has to wait for a row that another transaction has locked, and what it feeds again. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { SessionStore } from '../../../lib/index.ts'
import { NotWritten } from '../../../lib/sessions/stores/not-written.ts'
import { skip } from '../../database.ts'
import { kinds, postgresBackend } from '../../sessions/stores/backends.ts'

const hour = 3_600_000
const rules = { graceMs: 30_000, idleMs: hour, keepMs: hour, maxPerUser: 1 }
const clients = ['pg', 'postgres.js'] as const

/** What changes the session of a user, in a state that is given in SQL, what it answers, and which of its times are new then. */
interface Call {
  readonly state?: string
  readonly answer: unknown
  readonly times: readonly string[]
  make (store: SessionStore, user: string): Promise<unknown>
}

const advance = (n: number, graceMs = rules.graceMs) => async (store: SessionStore, user: string) => await store.advance(user, `sid ${user}`, n, { ...rules, graceMs })
const rotated = ['rotated_at', 'used_at']
const longAgo = "rotated_at = now() - interval '1 hour'"

/** The session of user 0 first, and so on. */
const calls: readonly Call[] = [
  { make: advance(0), answer: { outcome: 'rotated', n: 1 }, times: rotated },
  { make: advance(7), answer: { outcome: 'recovered', n: 8 }, times: rotated },
  { make: advance(0, 0), answer: { outcome: 'rotated', n: 1 }, times: rotated },
  { state: `n = 1, ${longAgo}`, make: advance(0), answer: { outcome: 'reissued', n: 2 }, times: rotated },
  { state: 'n = 2, parent = 2, siblings = 1, rotated_at = now()', make: advance(2), answer: { outcome: 'repeated', n: 2 }, times: ['rotated_at'] },
  { state: `n = 5, ${longAgo}`, make: advance(0), answer: { outcome: 'reused', n: 5 }, times: ['ended_at'] },
  { make: async (store, user) => await store.end(user, { sid: `sid ${user}` }, rules), answer: ['sid 6'], times: ['ended_at'] },
  { make: async (store, user) => await store.end(user, { except: null }, rules), answer: ['sid 7'], times: ['ended_at'] },
  { make: async (store, user) => await store.create({ sid: `new ${user}`, user, lifetimeMs: hour, data: '{}' }, rules), answer: ['sid 8'], times: ['ended_at'] }
]

/** A store with a session for each call, and a transaction that has locked them. */
async function setUp (t: Test, client: typeof clients[number]) {
  const { server, pool } = await postgresBackend(t)
  const store = await kinds[client]!.connect(t, server.url)
  for (const [index, { state = 'n = n' }] of calls.entries()) {
    await store.create({ sid: `sid ${index}`, user: String(index), lifetimeMs: hour, data: '{}' }, rules)
    await pool.query(`UPDATE token_auth_sessions SET ${state} WHERE sid = $1`, [`sid ${index}`])
  }
  const rows = async () => (await pool.query('SELECT * FROM token_auth_sessions ORDER BY sid')).rows
  const lock = async () => {
    const holder = await pool.connect()
    await holder.query('BEGIN; SELECT FROM token_auth_sessions FOR UPDATE')
    return async (): Promise<void> => {
      await holder.query('ROLLBACK')
      holder.release()
    }
  }
  const callAll = () => Promise.allSettled(calls.map(async ({ make }, index) => await make(store, String(index))))
  /** Resolves when all calls wait for their locks. */
  const untilHeld = async () => {
    const waiting = async () => (await pool.query("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'")).rows.length
    while (await waiting() < calls.length) await wait(10)
  }
  return { pool, rows, lock, callAll, untilHeld }
}

for (const client of clients) {
  // Promise: databases/transaction-another-program
  // Promise: stores/locks-2
  t.test(`${client}: what waited for a lock until it was given up is not executed, also where the transaction that had the lock is rolled back`, { skip: skip.postgres }, async (t) => {
    const { pool, rows, lock, callAll, untilHeld } = await setUp(t, client)
    const before = await rows()
    const unlock = await lock()
    const real = performance.now.bind(performance)
    // Two of the five seconds are left when the calls begin.
    let passed = -3000
    t.intercept(performance, 'now', { value: () => real() + passed })
    const results = callAll()
    passed = 0
    await untilHeld()
    await pool.query('SELECT pg_sleep(2.1)')
    await unlock()
    for (const result of await results) t.match(result, { status: 'rejected', reason: { message: 'The call reached the database after more than 5 seconds, and was not executed.' } })
    t.same(await rows(), before)
  })

  t.test(`${client}: what waited for a lock counts from when it has it`, { skip: skip.postgres }, async (t) => {
    const { pool, rows, lock, callAll, untilHeld } = await setUp(t, client)
    const unlock = await lock()
    const results = callAll()
    await untilHeld()
    const { rows: [{ at }] } = await pool.query('SELECT clock_timestamp() AS at')
    await unlock()
    t.same((await results).map((result) => 'value' in result && result.value), calls.map(({ answer }) => answer))
    const [created, ...changed] = await rows()
    t.equal(changed.length, calls.length)
    const isNew = (row: Record<string, Date>, names: readonly string[]) => {
      for (const name of names) t.ok(row[name]! >= at, `${String(row.sid)}, ${name}: ${String(row[name]?.toISOString())}`)
    }
    isNew(created, ['created_at', 'used_at'])
    for (const [index, { times }] of calls.entries()) isNew(changed[index], times)
  })
}

/** Confirms sessions of users with the same names, also those that were locked for too long: as the polls do. */
async function confirmAll (store: SessionStore, sids: readonly string[]): Promise<void> {
  await store.confirm(sids.map((sid) => ({ sid, user: sid, n: 0 })), rules).catch(async (error: unknown) => {
    if (!(error instanceof NotWritten)) throw error
    await confirmAll(store, sids)
  })
}

for (const client of clients) {
  for (const end of ['COMMIT', 'ROLLBACK']) {
    t.test(`${client}: a confirmation waits for a session that another transaction has locked, and is written when it resolves: ${end}`, { skip: skip.postgres }, async (t) => {
      const { server, pool, confirmed } = await postgresBackend(t)
      const store = await kinds[client]!.connect(t, server.url)
      const sids = ['a', 'b', 'c']
      for (const sid of sids) {
        await store.create({ sid, user: sid, lifetimeMs: hour, data: '{}' }, rules)
        await store.advance(sid, sid, 0, rules)
      }
      const holder = await pool.connect()
      await holder.query("BEGIN; UPDATE token_auth_sessions SET data = '{}' WHERE sid = 'b'")
      // Two processes, in other orders.
      const confirming = [sids, sids.toReversed()].map(async (ordered) => await confirmAll(store, ordered))
      const waiting = async () => (await pool.query("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'")).rows.length
      while (await waiting() < confirming.length) await wait(10)
      await holder.query(end)
      holder.release()
      await Promise.all(confirming)
      t.same((await confirmed()).toSorted(), sids)
    })
  }
}

const waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
for (const client of clients) {
  // Promise: databases/transaction-another-program
  t.test(`${client}: a session that another transaction keeps locked keeps no other one from being confirmed or refreshed, and no connection for longer than a call may take`, { skip: skip.postgres }, async (t) => {
    const { server, pool, confirmed } = await postgresBackend(t)
    const store = await kinds[client]!.connect(t, server.url)
    const sids = ['a', 'b', 'c', 'd', 'e']
    for (const sid of sids) {
      await store.create({ sid, user: sid, lifetimeMs: hour, data: '{}' }, rules)
      await store.advance(sid, sid, 0, rules)
    }
    const holder = await pool.connect()
    await holder.query("BEGIN; SELECT FROM token_auth_sessions WHERE sid IN ('b', 'd') FOR UPDATE")
    const received = sids.map((sid) => ({ sid, user: sid, n: 0 }))
    const confirming = store.confirm(received, rules).catch((error: unknown) => error)
    while ((await pool.query(waiting)).rows.length === 0) await wait(10)
    // While one is waited for, none is kept.
    for (const sid of ['a', 'c', 'e']) t.equal((await store.advance(sid, sid, 1, { ...rules, graceMs: 0 })).outcome, 'rotated')
    const error = await confirming
    t.match(error, { message: '2 of the sessions are locked by other transactions.' })
    if (error instanceof NotWritten) t.same(error.items, new Set([received[1], received[3]]))
    t.equal((await pool.query(waiting)).rows.length, 0)

    const late = store.advance('b', 'b', 1, { ...rules, graceMs: 0 })
    await t.rejects(late, { code: '55P03' })
    t.equal((await pool.query(waiting)).rows.length, 0)
    await holder.query('ROLLBACK')
    holder.release()
    await store.confirm(received, rules)
    t.same((await confirmed()).toSorted(), ['b', 'd'], 'the others have rotated')
  })
}

// Promise: stores/committed-sessions-logouts
t.test('a session that had ended before and is still fed is fed again by an end, also by that of all sessions; one that is unknown, another user\'s, excepted or not fed any more is not', { skip: skip.postgres }, async (t) => {
  const { server, pool } = await postgresBackend(t)
  const store = await kinds.pg!.connect(t, server.url)
  const users = { late: '1', old: '2', own: '3', kept: '1' }
  for (const [sid, user] of Object.entries(users)) {
    await store.create({ sid, user, lifetimeMs: 2 * hour, data: '{}' }, rules)
    await store.end(user, { sid }, rules)
  }
  // As a transaction that had to wait for its commit, and one whose access tokens have expired.
  await pool.query("UPDATE token_auth_sessions SET ended_at = now() - CASE sid WHEN 'late' THEN interval '2 minutes' WHEN 'old' THEN interval '61 minutes' ELSE interval '1 minute' END")
  const { cursor } = await store.endedSince(null, rules)
  const fed = async () => (await store.endedSince(cursor, rules)).ended
  t.same(await fed(), [])
  t.same(await store.end(users.late, { sid: 'own' }, rules), [])
  t.same(await store.end(users.late, { sid: 'unknown' }, rules), [])
  t.same(await store.end(users.old, { sid: 'old' }, rules), [])
  t.same(await fed(), [])
  t.same(await store.end(users.old, { except: null }, rules), [])
  t.same(await store.end(users.own, { except: 'own' }, rules), [])
  t.same(await fed(), [])
  t.same(await store.end(users.late, { sid: 'late' }, rules), [], 'it did not end it')
  t.same(await fed(), ['late'])
  t.same(await store.end(users.late, { except: 'late' }, rules), [])
  t.same((await fed()).toSorted(), ['kept', 'late'])
})
