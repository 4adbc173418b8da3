// @slow
/** Sessions of the version before confirmations, and that version at the same time. */
import t from 'tap'
import { postgresSessionSchema, redisSessions, type SessionRules } from '../../../lib/index.ts'
import { skip, startDatabase } from '../../database.ts'
import { kinds, poolOf, redisOperator } from './backends.ts'

const hour = 3_600_000
const rules: SessionRules = { graceMs: 30_000, idleMs: hour, keepMs: hour, maxPerUser: 10 }
const late = { ...rules, graceMs: 1 }
const sessionOf = (sid: string) => ({ sid, user: '1', lifetimeMs: hour, data: '{}' })
const received = (sid: string, n: number) => [{ sid, user: '1', n }]

t.test('PostgreSQL: the schema adds what a table of that version lacks, again and again; until then, calls say so', { skip: skip.postgres }, async (t) => {
  const { url } = await startDatabase(t, 'postgres')
  const pool = poolOf(t, url)
  const columns = /,\n {2}parent[\s\S]*?DEFAULT false(?=\n\))/
  const schema = postgresSessionSchema()
  const [create = '', alter = ''] = schema.split(/(?=ALTER TABLE)/)
  t.match(create, columns)
  await pool.query(create.replace(columns, ''))
  await pool.query("INSERT INTO token_auth_sessions (sid, user_id, n, rotated_at, ends_at, idle_ms, data) SELECT sid, '1', 5, now() - interval '1 minute', now() + interval '1 hour', 3600000, '{}' FROM unnest(ARRAY['a', 'b', 'c']) AS sid")
  const store = await kinds.pg!.connect(t, url)
  await t.rejects(store.advance('1', 'a', 5, rules), { message: /^The table "token_auth_sessions" is one of an earlier version\./ })
  await t.rejects(store.confirm(received('a', 4), rules), { message: /earlier version/ })
  t.match(alter, /ADD COLUMN IF NOT EXISTS parent/)
  for (let times = 0; times < 2; times++) await pool.query(schema)
  t.same(await store.advance('1', 'a', 5, rules), { outcome: 'rotated', n: 6 })
  t.same(await store.advance('1', 'b', 4, rules), { outcome: 'reissued', n: 6 })
  await store.confirm(received('c', 4), rules)
  t.same(await store.advance('1', 'c', 4, late), { outcome: 'reused', n: 5 })

  // The other version adds 1 to the counter, and changes nothing else.
  await pool.query("UPDATE token_auth_sessions SET n = n + 1, rotated_at = clock_timestamp() WHERE sid = 'a'")
  t.same(await store.advance('1', 'a', 6, rules), { outcome: 'repeated', n: 7 })
  await store.confirm(received('a', 6), rules)
  t.same(await store.advance('1', 'a', 7, rules), { outcome: 'repeated', n: 7 })
  t.same(await store.advance('1', 'a', 5, rules), { outcome: 'reused', n: 7 })
})

t.test('Redis: a session of that version goes on, and so does one that it has refreshed since', { skip: skip.redis }, async (t) => {
  const { url } = await startDatabase(t, 'redis')
  const operator = redisOperator(t, url)
  await operator.ping()
  const store = redisSessions(operator)
  for (const sid of ['a', 'b', 'c']) {
    await store.create(sessionOf(sid), rules)
    await store.advance('1', sid, 4, rules)
    const [key = ''] = await operator.keys(`*:s:${sid}`)
    t.equal(await operator.hdel(key, 'p', 'f', 'k'), 3)
    await operator.hincrby(key, 'r', -60_000)
  }
  t.same(await store.advance('1', 'a', 5, rules), { outcome: 'rotated', n: 6 })
  t.same(await store.advance('1', 'b', 4, rules), { outcome: 'reissued', n: 6 })
  await store.confirm(received('c', 4), rules)
  t.same(await store.advance('1', 'c', 4, rules), { outcome: 'reissued', n: 6 })
  const [key = ''] = await operator.keys('*:s:a')
  const [seconds] = await operator.time()
  await operator.hset(key, 'n', 7, 'r', Number(seconds) * 1000)
  t.same(await store.advance('1', 'a', 6, rules), { outcome: 'repeated', n: 7 })
  t.same(await store.advance('1', 'a', 5, rules), { outcome: 'reused', n: 7 })
})
