/** What an operator of a real server relies on: rights, isolation, transaction pools, and the list of ended sessions. */
import { readFileSync } from 'node:fs'
import { Cluster, Redis } from 'ioredis'
import pg from 'pg'
import postgres from 'postgres'
import { createClient, createCluster } from 'redis'
import t, { type Test } from 'tap'
import { postgresSessions, redisSessions, type SessionRules, type SessionStore, type TokenAuthOptions } from '../../../lib/index.ts'
import { skip, startDatabase } from '../../database.ts'
import { bearer, build, holdTimers, mistyped, payloadOf, together } from '../../helper.ts'
import { logout, refresh, sessionEvents, started, withSessions } from '../../sessions/helper.ts'
import { kinds, poolOf, postgresBackend, redisOperator } from '../../sessions/stores/backends.ts'
import { untilReachable } from '../../sessions/stores/rules.ts'

/** The commands on the page are those that are tested. */
const page = readFileSync(new URL('../../../docs/stores.md', import.meta.url), 'utf8')
const rules: SessionRules = { graceMs: 30_000, idleMs: 600_000, keepMs: 600_000, maxPerUser: 3 }
const sessionOf = (sid: string) => ({ sid, user: '1', lifetimeMs: 3_600_000, data: '{}' })

/** Calls every method of a store, each of the results of `advance` included. */
async function useAll (store: SessionStore): Promise<void> {
  for (const sid of ['a', 'b', 'c', 'd']) await store.create(sessionOf(sid), rules)
  for (const n of [0, 0, 7, 1]) await store.advance('1', 'd', n, rules)
  await store.advance('1', 'c', 0, { ...rules, graceMs: 0 })
  const late = { ...rules, graceMs: 1 }
  await store.advance('1', 'c', 1, late)
  await new Promise((resolve) => { setTimeout(resolve, 5) })
  await store.advance('1', 'c', 1, late)
  await store.confirm([{ sid: 'c', user: '1', n: 1 }], rules)
  await store.end('1', { sid: 'b' }, rules)
  await store.list('1', rules)
  await store.end('1', { except: 'c' }, rules)
  const { cursor } = await store.endedSince(null, rules)
  await store.endedSince(cursor, rules)
}

/** An instance that only verifies tokens, and a route that it guards. */
async function verifier (t: Test, store: Pick<SessionStore, 'endedSince'>, poll = 60) {
  const app = await build(t, together({ authMode: false, authenticate: undefined, sessions: { store: { endedSince: store.endedSince }, poll } }))
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  await app.ready()
  return async (token: string) => (await app.inject({ url: '/', headers: bearer(token) })).statusCode
}

/** With these rights alone, an instance refuses the tokens of ended sessions, and cannot do more. */
async function onlyReads (t: Test, issuer: SessionStore, reader: SessionStore): Promise<void> {
  const { app } = await withSessions(t, { sessions: { store: issuer, poll: 60 } })
  const [leaving, staying] = [await started(app), await started(app)]
  t.equal((await logout(app, leaving.refresh_token)).statusCode, 204)
  const get = await verifier(t, reader)
  t.equal(await get(leaving.access_token), 401)
  t.equal(await get(staying.access_token), 200)
  await t.rejects(reader.create(sessionOf('a'), rules), /permission/)
  await t.rejects(reader.advance('1', 'a', 0, rules), /permission/)
  await t.rejects(reader.end('1', { except: null }, rules), /permission/)
  await t.rejects(reader.list('1', rules), /permission/)
  t.equal((await app.tokenAuth.sessions.list(1)).length, 1)
  await confirmsWith(t, issuer, reader, false)
}

/** What becomes of confirmations of an instance that only verifies: with a whole store they need the right to write, and with the feed alone there are none. */
async function confirmsWith (t: Test, issuer: SessionStore, store: SessionStore, mayWrite: boolean): Promise<void> {
  const { app } = await withSessions(t, { sessions: { store: issuer, poll: 60 } })
  for (const [given, told] of [[store, true], [{ endedSince: store.endedSince }, false]] as const) {
    const log: string[] = []
    const verifying = await build(t, mistyped<Partial<TokenAuthOptions>>({ authMode: false, authenticate: undefined, sessions: { store: given, poll: 60 } }), { logger: { level: 'warn', stream: { write: (line: string) => { log.push(line) } } } })
    verifying.get('/', { onRequest: verifying.tokenAuth.protect() }, async () => 'reached')
    const { refresh_token: token } = await started(app)
    const { access_token: accessToken } = (await refresh(app, token)).json()
    t.equal((await verifying.inject({ url: '/', headers: bearer(accessToken) })).statusCode, 200)
    await verifying.close()
    const sid = String(payloadOf(accessToken).sid)
    // When its window is over, the parent of what was received is reuse.
    await new Promise((resolve) => { setTimeout(resolve, 20) })
    const { outcome } = await issuer.advance('1', sid, 0, { ...rules, graceMs: 1 })
    t.equal(outcome, told && mayWrite ? 'reused' : 'reissued')
    t.equal(log.filter((line) => line.includes('the session store takes no confirmations')).length, told && !mayWrite ? 1 : 0)
  }
}

// Promise: stores/give-least-rights
t.test('a role of PostgreSQL that may only select sid and ended_at is enough for a service that only verifies', { skip: skip.postgres }, async (t) => {
  const { server, pool } = await postgresBackend(t)
  await pool.query(/^CREATE ROLE reader .*\nGRANT .*$/m.exec(page)?.[0] ?? '')
  const url = Object.assign(new URL(server.url), { username: 'reader', password: 'password' }).href
  const sql = postgres(url, { onnotice: () => {} })
  t.teardown(async () => await sql.end({ timeout: 1 }))
  for (const client of [poolOf(t, url), sql]) {
    await onlyReads(t, postgresSessions(pool), postgresSessions(client))
    await pool.query('TRUNCATE token_auth_sessions')
  }
})

t.test('a role of PostgreSQL with the rights on the page is enough for a service that issues tokens, and for one that verifies and confirms', { skip: skip.postgres }, async (t) => {
  const { server, pool } = await postgresBackend(t)
  const given = /Give the role of the service ([^.]*), and no other rights/.exec(page)?.[1]?.match(/[A-Z]+/g) ?? []
  await pool.query(`CREATE ROLE writer LOGIN PASSWORD 'password'; GRANT ${given.join()} ON token_auth_sessions TO writer`)
  const writer = postgresSessions(poolOf(t, Object.assign(new URL(server.url), { username: 'writer', password: 'password' }).href))
  await t.resolves(useAll(writer))
  await confirmsWith(t, postgresSessions(pool), writer, true)
})

/** The rights of a user of Redis that may only read which sessions have ended: for a server, and for a cluster. */
const rights = /^ACL SETUSER reader (.*)$/m.exec(page)?.[1]?.split(' ') ?? []
const rightsOfClusters = [...rights, /in a cluster, on every node and with `(\S+)`/.exec(page)?.[1] ?? '']
const credentials = { username: 'reader', password: 'password' }

/** Returns a client of each kind for a user of Redis, connected until the test ends. */
async function clientsOf (t: Test, url: string, user: { username: string, password: string }) {
  const ioredis = new Redis(url, { ...user, enableReadyCheck: false })
  const nodeRedis = createClient({ url, ...user })
  t.teardown(() => {
    ioredis.disconnect()
    nodeRedis.destroy()
  })
  const ready = ioredis.status === 'ready' ? undefined : new Promise<void>((resolve) => { ioredis.once('ready', () => resolve()) })
  await Promise.all([ready, nodeRedis.connect()])
  return [ioredis, nodeRedis] as const
}

// Promise: stores/give-least-rights
t.test('a user of Redis with the rights to read which sessions have ended is enough for a service that only verifies', { skip: skip.redis }, async (t) => {
  const server = await startDatabase(t, 'redis')
  const operator = redisOperator(t, server.url)
  await operator.call('ACL', 'SETUSER', 'reader', ...rights)
  const issuer = redisSessions(operator)
  await untilReachable(issuer)
  for (const client of await clientsOf(t, server.url, credentials)) {
    // The server must be sent the text of the script, too.
    await operator.script('FLUSH')
    const reader = redisSessions(client)
    await onlyReads(t, issuer, reader)
    await operator.flushall()
  }
})

// Promise: stores/service-issues-tokens
t.test('a user of Redis with the rights on the page is enough for a service that issues tokens, and has no others', { skip: skip.redis }, async (t) => {
  const server = await startDatabase(t, 'redis')
  const operator = redisOperator(t, server.url)
  await untilReachable(redisSessions(operator))
  const all = /^ACL SETUSER writer (.*)$/m.exec(page)?.[1]?.split(' ') ?? []
  await operator.call('ACL', 'SETUSER', 'writer', ...all)
  const writer = { username: 'writer', password: 'password' }
  const [ioredis, nodeRedis] = await clientsOf(t, server.url, writer)
  for (const client of [ioredis, nodeRedis]) {
    await operator.script('FLUSH')
    await t.resolves(useAll(redisSessions(client)))
    await operator.flushall()
    await confirmsWith(t, redisSessions(operator), redisSessions(client), true)
    await operator.flushall()
  }
  await t.rejects(ioredis.get('token-auth:{0}:e'), /permission/)
  await t.rejects(ioredis.zscore('another:{0}:e', 'a'), /permission/)

  // Without this one, a replica that has lost its primary is not noticed.
  const [ofReplicas] = all.filter((word) => word === '+info')
  for (const right of all.filter((word) => word.startsWith('+') && word !== ofReplicas)) {
    await operator.call('ACL', 'SETUSER', 'writer', 'reset', ...all.filter((word) => word !== right))
    await operator.script('FLUSH')
    const client = new Redis(server.url, { ...writer, enableReadyCheck: false })
    await t.rejects(useAll(redisSessions(client)), `without ${right}`)
    client.disconnect()
    await operator.flushall()
  }
})

// Promise: stores/give-least-rights
t.test('a user of a cluster of Redis with these rights, and the right to see its slots, is enough as well', { skip: skip.redis }, async (t) => {
  const { urls } = await startDatabase(t, 'redis-cluster')
  for (const url of urls) await redisOperator(t, url).call('ACL', 'SETUSER', 'reader', ...rightsOfClusters)
  const rootNodes = urls.map((url) => ({ url }))
  const issuing = createCluster({ rootNodes })
  const nodeRedis = createCluster({ rootNodes, defaults: credentials })
  const ioredis = new Cluster([...urls], { enableReadyCheck: false, redisOptions: { ...credentials, enableReadyCheck: false } })
  t.teardown(() => {
    issuing.destroy()
    nodeRedis.destroy()
    ioredis.disconnect()
  })
  await Promise.all([issuing.connect(), nodeRedis.connect()])
  for (const client of [ioredis, nodeRedis]) {
    const issuer = redisSessions(issuing)
    const reader = redisSessions(client)
    let isReady = false
    while (!isReady) isReady = await reader.endedSince(null, rules).then(() => true, () => new Promise((resolve) => { setTimeout(resolve, 20, false) }))
    await onlyReads(t, issuer, reader)
    for (const node of issuing.masters) await (await issuing.nodeClient(node)).flushAll()
  }
})

// Promise: databases/memory-redis-full
t.test('a Redis server whose memory is full refuses logins and refreshes as a whole, and executes logouts', { skip: skip.redis }, async (t) => {
  const { url } = await startDatabase(t, 'redis')
  const operator = redisOperator(t, url)
  const store = redisSessions(operator)
  await untilReachable(store)
  for (const sid of ['a', 'b', 'c']) await store.create(sessionOf(sid), rules)
  // One of them has expired, and would be removed by a login.
  const [user = ''] = await operator.keys('*:u:*')
  await operator.zadd(user, 1, 'expired')
  const everything = async () => {
    const keys = (await operator.keys('*')).toSorted()
    return await Promise.all(keys.map(async (key) => [key, await operator.dumpBuffer(key)]))
  }
  const before = await everything()
  const [, used] = /used_memory:(\d+)/.exec(await operator.info('memory')) ?? []
  await operator.config('SET', 'maxmemory', Math.floor(Number(used) / 2))
  await t.rejects(store.create(sessionOf('d'), rules), /OOM/)
  await t.rejects(store.advance('1', 'a', 0, rules), /OOM/)
  t.same(await everything(), before)
  t.same(await store.end('1', { sid: 'a' }, rules), ['a'])
  await operator.config('SET', 'maxmemory', 0)
  t.same(await store.create(sessionOf('d'), rules), [])
  t.same(await store.create(sessionOf('e'), rules), ['b'])
  t.equal(await operator.zscore(user, 'expired'), null)
  t.same((await store.list('1', rules)).map(({ sid }) => sid).toSorted(), ['c', 'd', 'e'])
})

// Promise: databases/after-failover-redis
t.test('a Redis server that must not write answers no call but polls, because what it knows may be outdated; a replica without its primary answers none', { skip: skip.redis }, async (t) => {
  const [primary, { url }] = await Promise.all([startDatabase(t, 'redis'), startDatabase(t, 'redis')])
  const operator = redisOperator(t, url)
  const store = redisSessions(operator)
  await untilReachable(store)
  for (const sid of ['a', 'b']) await store.create(sessionOf(sid), rules)
  t.match(await store.advance('1', 'a', 0, rules), { outcome: 'rotated' })
  const { hostname, port } = new URL(primary.url)
  const states: Array<[name: RegExp, begin: () => Promise<unknown>, end: () => Promise<unknown>, ofPolls?: RegExp]> = [
    [/NOREPLICAS/, async () => await operator.config('SET', 'min-replicas-to-write', 1), async () => await operator.config('SET', 'min-replicas-to-write', 0)],
    // It has not connected to its primary yet.
    [/READONLY/, async () => await operator.replicaof(hostname, 1), async () => await operator.replicaof('NO', 'ONE'), /^MASTERDOWN /],
    [/READONLY/, async () => {
      await operator.replicaof(hostname, Number(port))
      while (!/master_link_status:up/.test(await operator.info('replication'))) await new Promise(setImmediate)
    }, async () => await operator.replicaof('NO', 'ONE')]
  ]
  for (const [message, begin, end, ofPolls] of states) {
    await begin()
    for (const sid of ['a', 'b', 'unknown']) await t.rejects(store.advance('1', sid, 0, rules), message)
    await t.rejects(store.create(sessionOf('c'), rules), message)
    for (const user of ['1', '2']) {
      await t.rejects(store.end(user, { sid: 'a' }, rules), message)
      await t.rejects(store.end(user, { except: null }, rules), message)
      await t.rejects(store.list(user, rules), message)
    }
    const poll = store.endedSince(null, rules)
    await (ofPolls === undefined ? t.resolves(poll) : t.rejects(poll, ofPolls))
    await end()
  }
})

t.test('the empty id in Redis ends no session, and excepts none', { skip: skip.redis }, async (t) => {
  const { url } = await startDatabase(t, 'redis')
  const store = redisSessions(redisOperator(t, url))
  await untilReachable(store)
  for (const sid of ['a', 'b']) await store.create(sessionOf(sid), rules)
  t.same(await store.end('1', { sid: '' }, rules), [])
  t.equal((await store.list('1', rules)).length, 2)
  t.same((await store.end('1', { except: '' }, rules)).toSorted(), ['a', 'b'])
})

// Promise: databases/transaction-your-own
t.test('a session that ends in a transaction of PostgreSQL that is committed more than 10 seconds later is found by the next complete read', { skip: skip.postgres }, async (t) => {
  const { server, pool } = await postgresBackend(t)
  const { app } = await withSessions(t, { sessions: { store: postgresSessions(pool), poll: 60 } })
  const { access_token: token } = await started(app)
  const expire = holdTimers(t, 2000)
  const store = postgresSessions(poolOf(t, server.url))
  const reads: Array<string | null> = []
  const get = await verifier(t, {
    async endedSince (cursor, rules) {
      const result = await store.endedSince(cursor, rules)
      reads.push(cursor)
      return result
    }
  }, 2)
  const poll = async () => {
    const { length } = reads
    expire()
    while (reads.length === length) await new Promise(setImmediate)
    // What was read is known in the next turn.
    await new Promise(setImmediate)
  }
  const transaction = await pool.connect()
  await transaction.query("BEGIN; UPDATE token_auth_sessions SET ended_at = clock_timestamp() - interval '12 seconds'")
  await poll()
  await transaction.query('COMMIT')
  transaction.release()
  for (let count = 2; count < 60; count++) await poll()
  t.equal(await get(token), 200, 'its time is before that of the last read')
  await poll()
  t.equal(reads.length, 61)
  t.same(reads.flatMap((cursor, index) => cursor === null ? [index] : []), [0, 60])
  t.equal(await get(token), 401)
})

// Promise: databases/serialization-failures-deadlocks
t.test('whatever the isolation of PostgreSQL, many refreshes of one session at once are one rotation, and none is a 503', { skip: skip.postgres }, async (t) => {
  for (const isolation of ['serializable', 'repeatable read']) {
    const { pool, counters, endWindows } = await postgresBackend(t, '-c', `default_transaction_isolation=${isolation}`)
    const { rows } = await pool.query('SHOW transaction_isolation')
    t.same(rows, [{ transaction_isolation: isolation }])
    const { app } = await withSessions(t, { sessions: { store: postgresSessions(pool), poll: 60 } })
    let { refresh_token: token } = await started(app)
    const events = sessionEvents(t)
    for (let round = 1; round <= 5; round++) {
      const answers = await Promise.all(Array.from({ length: 30 }, async () => await refresh(app, token)))
      t.same([...new Set(answers.map(({ statusCode }) => statusCode))], [200])
      const next = [...new Set(answers.map((answer) => String(answer.json().refresh_token)))]
      t.equal(next.length, 1)
      t.same(Object.values(await counters()), [round])
      t.equal(events.filter(({ type }) => type === 'refreshed').length, round)
      token = next[0]!
      await endWindows()
    }
    const answers = await Promise.all(Array.from({ length: 30 }, async () => await logout(app, token)))
    t.same([...new Set(answers.map(({ statusCode }) => statusCode))], [204])
    t.equal(events.filter(({ type }) => type === 'ended').length, 1)
  }
})

// Promise: databases/processes-different-settings
t.test('the time to idle is part of a session in PostgreSQL: a process with a shorter one neither ends nor hides it, unless it refreshes it', { skip: skip.postgres }, async (t) => {
  const { pool } = await postgresBackend(t)
  const store = postgresSessions(pool)
  const idleFor = async (minutes: number) => await pool.query("UPDATE token_auth_sessions SET used_at = used_at - $1 * interval '1 minute'", [minutes])
  const sids = async () => (await store.list('1', rules)).map(({ sid }) => sid).toSorted()
  const long = { ...rules, idleMs: 3_600_000 }
  const short = { ...rules, idleMs: 60_000 }
  for (const sid of ['a', 'b']) await store.create(sessionOf(sid), long)
  await idleFor(30)
  t.same(await store.create(sessionOf('c'), short), [])
  t.same(await sids(), ['a', 'b', 'c'])
  t.same(await store.create(sessionOf('d'), short), ['c'], 'the one that would expire first')
  t.same(await store.advance('1', 'a', 0, short), { outcome: 'rotated', n: 1 })
  t.same(await store.advance('1', 'b', 7, short), { outcome: 'recovered', n: 8 })
  await idleFor(2)
  t.same(await sids(), [])
  await idleFor(-2)
  t.same(await store.advance('1', 'a', 1, { ...long, graceMs: 0 }), { outcome: 'rotated', n: 2 })
  await idleFor(30)
  t.same(await store.end('1', { except: null }, short), ['a'])
})

for (const name of ['ioredis', 'node-redis']) {
  t.test(`${name}: refreshes at once that are more than the socket takes are executed, although Redis is stopped for longer than a second`, { skip: skip.redis }, async (t) => {
    const server = await startDatabase(t, 'redis')
    const store = await kinds[name]!.connect(t, server.url)
    // Short ids would need 10,000 refreshes for this.
    const sessions = Array.from({ length: 2000 }, (_, index) => ({ ...sessionOf(`s${index}`), user: String(index).padStart(5000, '0') }))
    // A slow machine does not create all of them within the five seconds of a call.
    for (let start = 0; start < sessions.length; start += 100) {
      await Promise.all(sessions.slice(start, start + 100).map(async (session) => await store.create(session, rules)))
    }
    const pid = Number(/process_id:(\d+)/.exec(await redisOperator(t, server.url).info('server'))?.[1])
    process.kill(pid, 'SIGSTOP')
    setTimeout(() => process.kill(pid, 'SIGCONT'), 1500)
    const results = await Promise.allSettled(sessions.map(async ({ sid, user }) => await store.advance(user, sid, 0, rules)))
    const others = results.filter((result) => result.status === 'rejected' || result.value.outcome !== 'rotated')
    t.same(others, [])
  })
}

// Promise: databases/serialization-failures-deadlocks
t.test('many logins at once are all executed, also where PostgreSQL is set to serializable transactions', { skip: skip.postgres }, async (t) => {
  const { pool } = await postgresBackend(t, '-c', 'default_transaction_isolation=serializable')
  let sent = 0
  const store = postgresSessions({
    async query (sql: string, values: unknown[]) {
      sent++
      return await pool.query(sql, values)
    }
  })
  await store.endedSince(null, rules)
  sent = 0
  const atOnce = 10
  let created = 0
  // As few as five attempts are enough for, however slow the machine is, and again until some of them met.
  while (sent === created) {
    await Promise.all(Array.from({ length: atOnce }, async (_, index) => await store.create({ ...sessionOf(`s${created + index}`), user: String(created + index) }, rules)))
    created += atOnce
  }
  t.ok(sent > created, 'some of them were tried again')
})

t.test('a login deletes the sessions of its user that have expired, also those that were not used for too long', { skip: skip.postgres }, async (t) => {
  const { pool } = await postgresBackend(t)
  const store = postgresSessions(pool)
  for (const user of ['1', '2']) for (const sid of ['idle', 'over', 'used']) await store.create({ ...sessionOf(sid + user), user }, rules)
  await pool.query("UPDATE token_auth_sessions SET used_at = used_at - interval '11 minutes' WHERE sid LIKE 'idle%'; UPDATE token_auth_sessions SET ends_at = clock_timestamp() WHERE sid LIKE 'over%'")
  t.same(await store.create(sessionOf('new1'), rules), [])
  const sids = async () => (await pool.query('SELECT sid FROM token_auth_sessions ORDER BY sid COLLATE "C"')).rows.map(({ sid }) => sid)
  t.same(await sids(), ['idle2', 'new1', 'over2', 'used1', 'used2'])
  // A row that another transaction has locked is left to the next login, which does not wait for it.
  const other = await pool.connect()
  await other.query("BEGIN; SELECT FROM token_auth_sessions WHERE sid = 'over2' FOR UPDATE")
  await store.create({ ...sessionOf('new2'), user: '2' }, rules)
  await other.query('COMMIT')
  other.release()
  t.same(await sids(), ['new1', 'new2', 'over2', 'used1', 'used2'])
})

// Promise: databases/serialization-failures-deadlocks
t.test('a deadlock with another transaction is tried again', { skip: skip.postgres }, async (t) => {
  // The server ends the transaction whose time is over first.
  const { pool } = await postgresBackend(t, '-c', 'deadlock_timeout=200ms')
  const sent: string[] = []
  const store = postgresSessions({
    async query (sql: string, values: unknown[]) {
      sent.push(sql)
      return await pool.query(sql, values)
    }
  })
  for (const sid of ['a', 'b']) await store.create(sessionOf(sid), rules)
  const other = await pool.connect()
  await other.query("SET deadlock_timeout = '1min'")
  // Rows are updated in the order in which they were created.
  await other.query("BEGIN; SELECT FROM token_auth_sessions WHERE sid = 'b' FOR UPDATE")
  sent.length = 0
  const ending = store.end('1', { except: null }, rules)
  while ((await pool.query("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'")).rows.length === 0) await new Promise(setImmediate)
  await other.query("SELECT FROM token_auth_sessions WHERE sid = 'a' FOR UPDATE")
  await other.query('COMMIT')
  other.release()
  t.same((await ending).toSorted(), ['a', 'b'])
  t.equal(sent.length, 2)
  t.same(await store.list('1', rules), [])
})

// Promise: stores/pgbouncer-2
t.test('no statement is prepared and no state is kept in a connection of PostgreSQL, so that transaction pools can be used', { skip: skip.postgres }, async (t) => {
  const { server, pool } = await postgresBackend(t)
  const one = poolOf(t, server.url, { max: 1 })
  const sql = postgres(server.url, { max: 1, onnotice: () => {} })
  t.teardown(async () => await sql.end({ timeout: 1 }))
  const state = "SELECT (SELECT count(*)::int FROM pg_prepared_statements WHERE statement LIKE '%token_auth_sessions%') AS statements, (SELECT count(*)::int FROM pg_cursors) AS cursors, (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory') AS locks"
  for (const [client, read] of [[one, async () => (await one.query(state)).rows], [sql, async () => [...await sql.unsafe(state)]]] as const) {
    await useAll(postgresSessions(client))
    t.same(await read(), [{ statements: 0, cursors: 0, locks: 0 }])
    await pool.query('TRUNCATE token_auth_sessions')
  }
})

t.test('whatever types the client of PostgreSQL parses values into, all calls have the same results', { skip: skip.postgres }, async (t) => {
  const { server, pool } = await postgresBackend(t)
  // Everything that is not text already.
  for (const [what, parse] of Object.entries({ 'as text': (text: string) => text, 'as an object': (text: string) => ({ text }) })) {
    const getTypeParser = (type: number) => type === pg.types.builtins.TEXT ? String : parse
    const store = postgresSessions(poolOf(t, server.url, { types: { getTypeParser } }))
    await store.create(sessionOf('a'), rules)
    for (const [n, outcome, current] of [[0, 'rotated', 1], [0, 'repeated', 1], [1, 'repeated', 1], [5, 'recovered', 6], [2, 'reused', 6]] as const) {
      t.same(await store.advance('1', 'a', n, rules), { outcome, n: current }, what)
    }
    t.same((await store.endedSince(null, rules)).ended, ['a'])
    await pool.query('TRUNCATE token_auth_sessions')
  }
})

t.test('one connection of PostgreSQL is enough for refreshes at once, one after another', { skip: skip.postgres }, async (t) => {
  const { server, counters } = await postgresBackend(t)
  const client = new pg.Client(server.url)
  await client.connect()
  t.teardown(async () => await client.end())
  const { app } = await withSessions(t, { sessions: { store: postgresSessions(client), poll: 60 } })
  const { refresh_token: token } = await started(app)
  // pg says once that its clients will not queue queries in its next major version. Pools are not concerned.
  t.intercept(process, 'emitWarning', { value: (text: string) => { t.match(text, 'Calling client.query() when the client is already executing a query is deprecated') } })
  const answers = await Promise.all(Array.from({ length: 50 }, async () => await refresh(app, token)))
  t.same([...new Set(answers.map(({ statusCode }) => statusCode))], [200])
  t.equal(new Set(answers.map((answer) => answer.json().refresh_token)).size, 1)
  t.same(Object.values(await counters()), [1])
})
