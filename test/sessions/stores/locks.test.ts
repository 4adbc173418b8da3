/** What the store in PostgreSQL does when it has to wait for a row that another transaction has locked, and what it feeds again. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { SessionStore } from '../../../lib/index.ts'
import { skip } from '../../database.ts'
import { kinds, postgresBackend } from './backends.ts'

const hour = 3_600_000
const rules = { graceMs: 30_000, idleMs: hour, keepMs: hour, maxPerUser: 1 }
const clients = ['pg', 'postgres.js'] as const

/** Calls that change the session of a user: that of user 1 first, and so on. */
const calls: ReadonlyArray<(store: SessionStore, user: string) => Promise<unknown>> = [
  async (store, user) => await store.advance(user, `sid ${user}`, 0, rules),
  async (store, user) => await store.advance(user, `sid ${user}`, 7, rules),
  async (store, user) => await store.advance(user, `sid ${user}`, 0, { ...rules, graceMs: 0 }),
  async (store, user) => await store.end(user, { sid: `sid ${user}` }, rules),
  async (store, user) => await store.end(user, { except: null }, rules),
  async (store, user) => await store.create({ sid: `new ${user}`, user, lifetimeMs: hour, data: '{}' }, rules)
]

/** A store with a session for each call, and a transaction that has locked them. */
async function setUp (t: Test, client: typeof clients[number]) {
  const { server, pool } = await postgresBackend(t)
  const store = await kinds[client]!.connect(t, server.url)
  for (const index of calls.keys()) await store.create({ sid: `sid ${index}`, user: String(index), lifetimeMs: hour, data: '{}' }, rules)
  const rows = async () => (await pool.query('SELECT * FROM token_auth_sessions ORDER BY sid')).rows
  const lock = async () => {
    const holder = await pool.connect()
    await holder.query('BEGIN; SELECT FROM token_auth_sessions FOR UPDATE')
    return async (): Promise<void> => {
      await holder.query('ROLLBACK')
      holder.release()
    }
  }
  /** Makes all calls, and waits until the server holds them. */
  const callAll = async () => {
    const results = Promise.allSettled(calls.map(async (call, index) => await call(store, String(index))))
    const waiting = async () => (await pool.query("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'")).rows.length
    while (await waiting() < calls.length) await wait(10)
    return { results }
  }
  return { store, pool, rows, lock, callAll }
}

for (const client of clients) {
  t.test(`${client}: what waited for a lock until it was given up is not executed, also where the transaction that had the lock is rolled back`, { skip: skip.postgres }, async (t) => {
    const { store, pool, rows, lock, callAll } = await setUp(t, client)
    const before = await rows()
    const unlock = await lock()
    const real = performance.now.bind(performance)
    // Two of the five seconds are left when the calls begin.
    let passed = -3000
    t.intercept(performance, 'now', { value: () => real() + passed })
    const { results } = await callAll()
    passed = 0
    // What the store has learnt of the clock of the server meanwhile is wrong by three seconds.
    await store.endedSince(null, rules)
    await pool.query('SELECT pg_sleep(2.1)')
    await unlock()
    for (const result of await results) t.match(result, { status: 'rejected', reason: { message: 'The call reached the database after more than 5 seconds, and was not executed.' } })
    t.same(await rows(), before)
  })

  t.test(`${client}: what waited for a lock counts from when it has it`, { skip: skip.postgres }, async (t) => {
    const { pool, rows, lock, callAll } = await setUp(t, client)
    const unlock = await lock()
    const { results } = await callAll()
    const { rows: [{ at }] } = await pool.query('SELECT clock_timestamp() AS at')
    await unlock()
    t.match((await results).map((result) => 'value' in result && result.value), [
      { outcome: 'rotated', n: 1 }, { outcome: 'recovered', n: 8 }, { outcome: 'rotated', n: 1 }, ['sid 3'], ['sid 4'], ['sid 5']
    ])
    const changed = await rows()
    t.equal(changed.length, calls.length + 1)
    for (const { sid, rotated_at: rotated, used_at: used, created_at: created, ended_at: ended } of changed) {
      const times = sid === 'new 5' ? [created, used] : ended === null ? [rotated, used] : [ended]
      for (const time of times) t.ok(time >= at, `${sid}: ${time.toISOString()}`)
    }
  })
}

t.test('a session that had ended before and is still fed is fed again by an end; one that is unknown, another user\'s or not fed any more is not', { skip: skip.postgres }, async (t) => {
  const { server, pool } = await postgresBackend(t)
  const store = await kinds.pg!.connect(t, server.url)
  const users = { late: '1', old: '2', own: '3' }
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
  t.same(await store.end(users.late, { sid: 'late' }, rules), [], 'it did not end it')
  t.same(await fed(), ['late'])
})
