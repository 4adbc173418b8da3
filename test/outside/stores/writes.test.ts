/** What the stores in databases write, and what they ask: counted by the servers. */
import { Redis } from 'ioredis'
import pg from 'pg'
import { randomBytes } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { postgresSessions, postgresSessionSchema, redisSessions, type SessionStore } from '../../../lib/index.ts'
import { skip, startDatabase } from '../../database.ts'

const hour = 3_600_000
const rules = { graceMs: hour, idleMs: hour, keepMs: hour, maxPerUser: 100 }
const strict = { ...rules, graceMs: 0 }
const repetitions = 100

const newSid = () => randomBytes(16).toString('base64url')
const newSession = (user: string, sid = newSid()) => ({ sid, user, lifetimeMs: hour, data: '{}' })

/** Starts sessions. @returns user and session id of each */
async function startSessions (store: SessionStore, users: number, perUser: number): Promise<Array<[user: string, sid: string]>> {
  const started: Array<[string, string]> = []
  for (let user = 1; user <= users; user++) {
    for (let count = 0; count < perUser; count++) {
      const session = newSession(String(user))
      await store.create(session, rules)
      started.push([session.user, session.sid])
    }
  }
  return started
}

/** Rotates all sessions so many times, those of one round at once. */
async function refreshAll (t: Test, store: SessionStore, sessions: ReadonlyArray<[string, string]>, rounds: number): Promise<void> {
  for (let n = 0; n < rounds; n++) {
    const results = await Promise.all(sessions.map(async ([user, sid]) => await store.advance(user, sid, n, strict)))
    if (results.some(({ outcome }) => outcome !== 'rotated')) t.fail('rotated')
  }
}

/** Each of them changes nothing. */
const readers: Record<string, (store: SessionStore, sid: string) => Promise<unknown>> = {
  'a repetition of the current counter': async (store, sid) => await store.advance('1', sid, 1, rules),
  'a repetition of its predecessor': async (store, sid) => await store.advance('1', sid, 0, rules),
  'a refresh of an unknown session': async (store) => await store.advance('1', 'unknown', 0, rules),
  'a refresh of a session of another user': async (store, sid) => await store.advance('2', sid, 1, rules),
  'the end of an unknown session': async (store) => await store.end('1', { sid: 'unknown' }, rules),
  'a list': async (store) => await store.list('1', rules),
  'a poll': async (store) => await store.endedSince((await store.endedSince(null, rules)).cursor, rules)
}

/** Tests that nothing is written but by what changes something. @param written what the server has written until now */
async function writesOnlyChanges (t: Test, store: SessionStore, written: () => Promise<unknown>): Promise<void> {
  const { sid } = newSession('1')
  await store.create(newSession('1', sid), rules)
  t.same(await store.advance('1', sid, 0, rules), { outcome: 'rotated', n: 1 })
  await store.create(newSession('1', 'other'), rules)
  await store.end('1', { sid: 'other' }, rules)
  for (const [what, read] of Object.entries(readers)) {
    // A database may mark as settled what it reads first.
    await read(store, sid)
    const before = await written()
    for (let count = 0; count < repetitions; count++) await read(store, sid)
    t.same(await written(), before, what)
  }
  const before = await written()
  t.same(await store.advance('1', sid, 1, strict), { outcome: 'rotated', n: 2 })
  t.notSame(await written(), before, 'a rotation is written')
}

t.test('Redis', { skip: skip.redis }, async (t) => {
  const server = await startDatabase(t, 'redis')
  const client = new Redis(server.url)
  t.teardown(() => client.disconnect())
  await client.ping()
  const numberOf = async (section: string, name: string) => Number(new RegExp(`${name}[:=](\\d+)`).exec(await client.info(section))?.[1] ?? 0)
  const callsOf = async (command: string) => await numberOf('commandstats', `cmdstat_${command}:calls`)

  t.beforeEach(async () => await client.flushall())

  await t.test('what changes nothing sends nothing to replicas: a repetition, a refresh of another session, a list, a poll', async (t) => {
    const { hostname, port } = new URL(server.url)
    await client.config('SET', 'repl-ping-replica-period', '3600')
    await client.config('SET', 'repl-diskless-sync-delay', '0')
    await startDatabase(t, 'redis', '--replicaof', hostname, port)
    while (!/slave0:.*state=online/.test(await client.info('replication'))) await setTimeout(10)
    await writesOnlyChanges(t, redisSessions(client), async () => await numberOf('replication', 'master_repl_offset'))
  })

  await t.test('thousands of refreshes leave one key a session and one a user, and no memory', async (t) => {
    const store = redisSessions(client)
    const sessions = await startSessions(store, 20, 5)
    await refreshAll(t, store, sessions, 20)
    t.equal(await client.dbsize(), 100 + 20)
    const sizesOf = async () => await Promise.all((await client.keys('*')).sort().map(async (key) => [key, await client.memory('USAGE', key)]))
    const sizes = await sizesOf()
    for (let n = 20; n < 40; n++) await Promise.all(sessions.map(async ([user, sid]) => await store.advance(user, sid, n, strict)))
    t.same(await sizesOf(), sizes)
  })

  await t.test('a refresh is one command; a poll is sixteen at once, a full read is sixteen in turn', async (t) => {
    let open = 0
    let most = 0
    const store = redisSessions({
      get status () { return client.status },
      async evalsha (...parameters: [sha: string, keys: number, ...rest: string[]]) {
        most = Math.max(most, ++open)
        try {
          return await client.evalsha(...parameters)
        } finally {
          open--
        }
      },
      eval: async (...parameters: [script: string, keys: number, ...rest: string[]]) => await client.eval(...parameters)
    })
    const [[user, sid] = ['', '']] = await startSessions(store, 1, 1)
    // The server learns the scripts.
    await store.advance(user, sid, 0, strict)
    const { cursor } = await store.endedSince(null, rules)
    const commands = async (call: () => Promise<unknown>) => {
      const before = await callsOf('evalsha')
      most = 0
      await call()
      return [await callsOf('evalsha') - before, most]
    }
    t.same(await commands(async () => await store.advance(user, sid, 1, strict)), [1, 1])
    t.same(await commands(async () => await store.endedSince(cursor, rules)), [16, 16])
    t.same(await commands(async () => await store.endedSince(null, rules)), [16, 1])
  })

  await t.test('a poll returns no session that ended long ago, however many the feed keeps', async (t) => {
    const store = redisSessions(client)
    const [seconds] = await client.time()
    const sids = Array.from({ length: 1000 }, newSid)
    await client.zadd('token-auth:{0}:e', ...sids.flatMap((sid) => [(Number(seconds) - 60) * 1000, sid]))
    const { ended, cursor } = await store.endedSince(null, rules)
    t.same(new Set(ended), new Set(sids))
    t.same((await store.endedSince(cursor, rules)).ended, [])
  })
})

t.test('PostgreSQL', { skip: skip.postgres }, async (t) => {
  // Nothing but the statements of the store writes.
  const quiet = ['fsync=off', 'autovacuum=off', 'wal_level=minimal', 'max_wal_senders=0', 'checkpoint_timeout=1h']
  const server = await startDatabase(t, 'postgres', ...quiet.flatMap((parameter) => ['-c', parameter]))
  const observer = new pg.Client(server.url)
  await observer.connect()
  t.teardown(async () => await observer.end())

  /** A store in a new table. `settled` closes its connections, so that the server counts what they did. */
  async function open (t: Test, table: string, max = 10) {
    await observer.query(postgresSessionSchema(table))
    const pool = new pg.Pool({ connectionString: server.url, max })
    let isOpen = true
    const settled = async () => {
      if (isOpen) await pool.end()
      isOpen = false
    }
    t.teardown(settled)
    return { store: postgresSessions(pool, { table }), pool, settled }
  }

  /** The statistics of a table, as soon as they have a number of updates. Servers before 15 count later. */
  async function statistics (table: string, updates: number) {
    for (;;) {
      const { rows: [row] } = await observer.query('SELECT n_tup_ins::int AS inserted, n_tup_upd::int AS updated, n_tup_hot_upd::int AS hot, seq_scan::int AS scans FROM pg_stat_user_tables WHERE relname = $1', [table])
      if (row.updated >= updates) return row
      await setTimeout(20)
    }
  }

  await t.test('what changes nothing writes nothing: a repetition, a refresh of another session, a list, a poll', async (t) => {
    const { store } = await open(t, 'repeated')
    await writesOnlyChanges(t, store, async () => {
      const { rows: [row] } = await observer.query('SELECT pg_current_wal_insert_lsn()::text AS log, pg_snapshot_xmax(pg_current_snapshot())::text AS transactions')
      return row
    })
  })

  await t.test('thousands of refreshes are HOT updates of one row a session, in a table that does not grow', async (t) => {
    // With several connections, a page of the table is full now and then of versions that another transaction may still see.
    const { store, settled } = await open(t, 'refreshed', 1)
    const sessions = await startSessions(store, 20, 5)
    const size = async () => (await observer.query("SELECT pg_relation_size('refreshed')::int AS rows, pg_indexes_size('refreshed')::int AS indexes")).rows[0]
    await refreshAll(t, store, sessions, 10)
    const before = await size()
    for (let n = 10; n < 50; n++) await Promise.all(sessions.map(async ([user, sid]) => await store.advance(user, sid, n, strict)))
    t.same(await size(), before)
    await settled()
    t.match(await statistics('refreshed', 5000), { inserted: 100, updated: 5000, hot: 5000 })
    const { rows } = await observer.query('SELECT count(*)::int AS count, min(n)::int AS n FROM refreshed')
    t.same(rows, [{ count: 100, n: 50 }])
  })

  await t.test('a refresh and a poll are one statement each', async (t) => {
    const { pool } = await open(t, 'asked')
    let asked = 0
    const store = postgresSessions({
      query: async (text: string, values?: unknown[]) => {
        asked++
        return await pool.query(text, values)
      }
    }, { table: 'asked' })
    const statements = async (call: () => Promise<unknown>) => {
      asked = 0
      await call()
      return asked
    }
    const [[user, sid] = ['', '']] = await startSessions(store, 1, 1)
    // The first refresh of a store that has not read the clock of the server before takes more.
    t.equal(await statements(async () => await store.endedSince(null, rules)), 1)
    t.equal(await statements(async () => await store.advance(user, sid, 0, strict)), 1)
    t.equal(await statements(async () => await store.endedSince('0', rules)), 1)
  })

  await t.test('no call but a full read looks at all sessions', async (t) => {
    const { store, settled } = await open(t, 'large')
    await observer.query(`INSERT INTO large (sid, user_id, ends_at, ended_at, idle_ms, data)
      SELECT 's' || n, (n / 5)::text, now() + interval '1 hour', CASE WHEN n % 2 = 0 THEN now() - interval '1 minute' END, ${hour}, '{}' FROM generate_series(1, 20000) AS n`)
    await observer.query('VACUUM ANALYZE large')
    const { scans } = await statistics('large', 0)
    const { rows: [{ cursor }] } = await observer.query('SELECT extract(epoch from now())::text AS cursor')
    const { sid, user } = newSession('1')
    await store.create(newSession(user, sid), rules)
    await store.advance(user, sid, 0, rules)
    await store.advance(user, sid, 0, rules)
    await store.list(user, rules)
    await store.end(user, { sid }, rules)
    await store.end(user, { except: null }, rules)
    t.same((await store.endedSince(cursor, rules)).ended.includes(sid), true)
    await settled()
    t.equal((await statistics('large', 2)).scans, scans)
  })
})
