/** What the stores in databases do with their clients, which are objects of these tests here. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { postgresSessions, postgresSessionSchema, redisSessions, type IoredisLike, type NodeRedisLike, type SessionRules, type SessionStore } from '../../../lib/index.ts'
import { NotWritten } from '../../../lib/sessions/stores/not-written.ts'
import { holdTimers, mistyped, setMonotonicClock } from '../../helper.ts'

const rules: SessionRules = { graceMs: 30_000, idleMs: 600_000, keepMs: 60_000, maxPerUser: 100 }
const session = { sid: 'a', user: '1', lifetimeMs: 3_600_000, data: '{}' }
const noScript = () => new Error('NOSCRIPT No matching script. Please use EVAL.')

/** An ioredis client that answers in turn with these results, and what was sent to it. */
function ioredis (...results: unknown[]): { client: IoredisLike & { status: string }, sent: unknown[][] } {
  const sent: unknown[][] = []
  const answer = (name: string) => async (...parameters: unknown[]) => {
    sent.push([name, ...parameters])
    const result = results.length > 1 ? results.shift() : results[0]
    if (result instanceof Error) throw result
    return result
  }
  return { client: { status: 'ready', evalsha: answer('evalsha'), eval: answer('eval') }, sent }
}

/** A PostgreSQL client that answers in turn with these rows or errors, and the statements that were sent to it. */
function postgres (...results: Array<readonly object[] | Error>) {
  const sent: string[] = []
  return {
    sent,
    async query (sql: string) {
      sent.push(sql.trim().split(/\s/, 1)[0] ?? '')
      const result = results.shift()
      if (result instanceof Error) throw result
      return { rows: [...result ?? []] }
    }
  }
}

/** The row that PostgreSQL answers to a call that ends sessions. */
const endedRow = (...sids: string[]) => ({ ids: sids.join(','), late: 'false', time: '1800000000000' })

const failure = (code: string) => Object.assign(new Error('the transaction failed'), { code })

t.test('a Redis client that is not connected is not used: it would send the command later', async (t) => {
  const { client, sent } = ioredis([])
  const store = redisSessions(client)
  for (const status of ['wait', 'connecting', 'connect', 'reconnecting', 'close', 'end']) {
    client.status = status
    await t.rejects(store.advance('1', 'a', 0, rules), { message: `The Redis client is not connected: its status is "${status}". It connects again by itself, but if it never was connected, call its method connect().` })
    await t.rejects(store.endedSince(null, rules))
  }
  for (const state of [{ isReady: false, isOpen: true }, { isOpen: false }]) {
    const evalSha = async () => { t.fail('nothing is sent') }
    await t.rejects(redisSessions({ ...state, evalSha, eval: evalSha }).create(session, rules), { message: 'The Redis client is not connected: it is not ready. It connects again by itself, but if it never was connected, call its method connect().' })
  }
  t.same(sent, [])
})

t.test('a script is sent by its digest, and as text to a server that does not know it; other errors reject', async (t) => {
  const { client, sent } = ioredis(noScript(), ['rotated', 1], ['rotated', 2], new Error('READONLY'))
  const store = redisSessions(client)
  t.same(await store.advance('1', 'a', 0, rules), { outcome: 'rotated', n: 1 })
  t.same(await store.advance('1', 'a', 1, rules), { outcome: 'rotated', n: 2 })
  await t.rejects(store.advance('1', 'a', 2, rules), { message: 'READONLY' })
  t.same(sent.map(([name]) => name), ['evalsha', 'eval', 'evalsha', 'evalsha'])
  const [[, digest, ...parameters] = [], [, text, ...again] = []] = sent
  t.match(digest, /^[\da-f]{40}$/)
  t.match(text, /redis\.call/)
  t.same(parameters, again)
})

t.test('a cluster of node-redis is not asked for a session whose server is not ready, although the cluster is open', async (t) => {
  const slots: Array<{ master: { client?: { isReady: boolean } } }> = []
  const sent: string[] = []
  const store = redisSessions({
    isOpen: true,
    slots,
    async evalSha (_sha, { keys: [key = ''] }) {
      sent.push(key)
      return ['rotated', '1']
    },
    eval: async () => { throw new Error('The script is known.') }
  })
  const advance = async () => await store.advance('1', 'a', 0, rules)
  t.same(await advance(), { outcome: 'rotated', n: 1 }, 'a client without slots is no cluster')
  // CRC-16 (XMODEM) of the text in the braces: the slot of a key, as Redis computes it.
  const [, tag = ''] = /\{(.+)\}/.exec(sent[0] ?? '') ?? []
  const slotsOfTags: Record<string, number> = { 0: 13907, 1: 9842, 2: 5649, 3: 1584, 4: 14039, 5: 9974, 6: 5781, 7: 1716, 8: 14171, 9: 10106, a: 15495, b: 3300, c: 7365, d: 11298, e: 15363, f: 3168 }
  const slot = slotsOfTags[tag]
  if (slot === undefined) throw new Error(`The key has no tag that is known: ${sent[0]}`)
  slots[slot] = { master: { client: { isReady: false } } }
  await t.rejects(advance(), { message: /^The Redis client is not connected: the server of the cluster that has the session is not ready\./ })
  t.equal(sent.length, 1, 'nothing is sent')
  for (const master of [{ client: { isReady: true } }, {}]) {
    slots[slot] = { master }
    t.same(await advance(), { outcome: 'rotated', n: 1 })
  }
})

t.test('a client of node-redis keeps an unsent command for five seconds at most, as long as any call may take, and gives replies as this package reads them', async (t) => {
  const options: unknown[] = []
  const known: NodeRedisLike = {
    isReady: true,
    evalSha: async () => { throw noScript() },
    eval: async (_script, { keys, arguments: values }) => ['repeated', keys.length, values.length],
    withCommandOptions (given) {
      options.push(given)
      return this
    }
  }
  t.same(await redisSessions(known).advance('1', 'a', 0, rules), { outcome: 'repeated', n: 3 })
  t.same(options, [{ timeout: 5000 }])
  const { withCommandOptions, ...other } = known
  t.same(await redisSessions(other).advance('1', 'a', 0, rules), { outcome: 'repeated', n: 3 })
})

t.test('all keys of a call have the prefix, and those of one user are on one node of a cluster', async (t) => {
  const { client, sent } = ioredis([])
  const store = redisSessions(client, { prefix: 'shop' })
  for (const user of ['1', '"ada"', '"}{"']) {
    sent.length = 0
    await store.create({ ...session, user }, rules)
    await store.end(user, { except: null }, rules)
    await store.list(user, rules)
    const keys = sent.flatMap(([, , count, ...rest]) => rest.slice(0, Number(count)))
    t.equal(keys.length, 9)
    t.ok(keys.every((key) => /^shop:\{[\da-f]\}:(?:s:|u:|e$)/.test(String(key))), user)
    t.equal(new Set(keys.map((key) => String(key).slice(0, 8))).size, 1, user)
  }
})

t.test('a list has the texts of Redis as numbers; a poll asks each bucket for what ended since its own time, with an overlap', async (t) => {
  const listing = redisSessions(ioredis([['a', '1', '2', '3', '{}'], ['b', 4, 5, 6, '{"x":1}']]).client)
  t.same(await listing.list('1', rules), [{ sid: 'a', createdAt: 1, usedAt: 2, endsAt: 3, data: '{}' }, { sid: 'b', createdAt: 4, usedAt: 5, endsAt: 6, data: '{"x":1}' }])

  const times = Array.from({ length: 16 }, (_, index) => 1_800_000_000_000 + index)
  const { client, sent } = ioredis(...times.map((time) => [time, `first${time % 16}`]), ...times.map((time) => [time + 1000]))
  const store = redisSessions(client)
  const { ended, cursor } = await store.endedSince(null, rules)
  t.same(ended, times.map((time) => `first${time % 16}`))
  t.equal((await store.endedSince(cursor, rules)).ended.length, 0)
  t.same(sent.map((call) => call.at(-1)), [...times.map(() => '-inf'), ...times.map((time) => String(time - 10_000))])
})

t.test('a server that does not answer is waited for four seconds, and the parts of the other servers are read', async (t) => {
  const expire = holdTimers(t, 4000)
  const time = 1_800_000_000_000
  let calls = 0
  const answer = async () => calls++ === 16 ? await new Promise<never>(() => {}) : [time, 'a']
  const store = redisSessions({ status: 'ready', evalsha: answer, eval: answer } as IoredisLike)
  const { cursor } = await store.endedSince(null, rules)
  const reading = store.endedSince(cursor, rules)
  await turn()
  expire()
  const { ended, staleFor } = await reading
  t.same(ended, Array(15).fill('a'))
  t.ok(Number(staleFor) >= 0)
  const none = async () => await new Promise<never>(() => {})
  const failing = redisSessions({ status: 'ready', evalsha: none, eval: none } as IoredisLike).endedSince(cursor, rules)
  expire()
  await t.rejects(failing, { message: 'A Redis server did not answer within 4 seconds.' })
})

t.test('where a part of the feed cannot be read, the rest is, and the store says since when it has not read all', async (t) => {
  const pass = setMonotonicClock(t)
  const time = 1_800_000_000_000
  const down = new Error('down')
  const answers = (first: unknown) => [first, ...Array.from({ length: 15 }, (_, index) => [time + 1000, `sid${index}`])]
  const { client } = ioredis(...Array.from({ length: 16 }, () => [time]), ...answers(down), ...answers(down), ...answers(down), ...answers([time + 1000]), down)
  const store = redisSessions(client)
  const { cursor } = await store.endedSince(null, rules)
  pass(1000)
  const ended = Array.from({ length: 15 }, (_, index) => `sid${index}`)
  const poll = await store.endedSince(cursor, rules)
  t.match(poll, { ended, staleFor: 1000 })
  t.equal(poll.cursor.split(',')[0], String(time), 'what was not read is read from there again')
  const full = await store.endedSince(null, rules)
  t.match(full, { ended, staleFor: Infinity }, 'nothing of that part was ever read')
  t.match(await store.endedSince(full.cursor, rules), { staleFor: Infinity })
  t.equal((await store.endedSince(full.cursor, rules)).staleFor, undefined)
  await t.rejects(store.endedSince(cursor, rules), { message: 'down' })
})

t.test('a read of everything, however slow, gives rise to no warning of the process, and leaves no timer', async (t) => {
  const given: Error[] = []
  const listener = (warning: Error) => { given.push(warning) }
  process.on('warning', listener)
  t.teardown(() => process.off('warning', listener))
  const before = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const slow = { ...ioredis([1]).client, evalsha: async () => await new Promise((resolve) => { setImmediate(resolve, [1]) }) }
  await redisSessions(slow).endedSince(null, rules)
  await new Promise((resolve) => { setImmediate(resolve) })
  t.same(given, [])
  t.equal(process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length, before)
})

t.test('what is no result of a script rejects, and is never taken for an empty list', async (t) => {
  for (const result of [null, undefined, 'OK', 5, {}, true]) {
    const store = redisSessions(ioredis(result).client)
    await t.rejects(store.create(session, rules), TypeError)
    await t.rejects(store.advance('1', 'a', 0, rules), TypeError)
    await t.rejects(store.end('1', { sid: 'a' }, rules), TypeError)
    await t.rejects(store.list('1', rules), TypeError)
    await t.rejects(store.endedSince(null, rules), TypeError)
    const ids = result === 'OK' ? ['a'] : result
    await t.rejects(postgresSessions(postgres([{ ids, cursor: '1' }])).endedSince(null, rules), TypeError)
    await t.rejects(postgresSessions(postgres([{ ids, late: 'false' }])).create(session, rules), TypeError)
    await t.rejects(postgresSessions(postgres([{ ids }])).end('1', { sid: 'a' }, rules), TypeError)
    await t.rejects(postgresSessions(postgres([])).end('1', { except: null }, rules), TypeError)
  }
  for (const outcome of ['', 'Rotated', 'toString']) await t.rejects(redisSessions(ioredis([outcome, 1]).client).advance('1', 'a', 0, rules), TypeError)
})

// Promise: databases/serialization-failures-deadlocks
t.test('a serialization failure and a deadlock are tried again, five times at most; other errors reject at once', async (t) => {
  // No pause before another attempt.
  t.intercept(Math, 'random', { value: () => 0 })
  for (const code of ['40001', '40P01']) {
    const healed = postgres(failure(code), failure(code), [endedRow('b')])
    t.same(await postgresSessions(healed).create(session, rules), ['b'])
    t.equal(healed.sent.length, 3)
    const broken = postgres(...Array.from({ length: 9 }, () => failure(code)))
    await t.rejects(postgresSessions(broken).create(session, rules), { code })
    t.equal(broken.sent.length, 5)
  }
  const other = postgres(failure('23505'))
  await t.rejects(postgresSessions(other).create(session, rules), { code: '23505' })
  t.equal(other.sent.length, 1)
})

t.test('where the table is missing, the error says how it is created', async (t) => {
  const missing = failure('42P01')
  await t.rejects(postgresSessions(postgres(missing), { table: 'logins' }).create(session, rules), { message: 'The table "logins" does not exist. Create it with the SQL of postgresSessionSchema("logins").', cause: missing })
})

t.test('what PostgreSQL has locked is confirmed one by one after the rest; what is locked for longer is named, and nothing is waited for after three seconds', async (t) => {
  const setTime = setMonotonicClock(t)
  const received = ['a', 'b', 'c', 'd'].map((sid) => ({ sid, user: '1', n: 0 }))
  for (const [passed, calls, left] of [[0, 4, 1], [3001, 2, 3]] as const) {
    let now = 0
    setTime(now)
    const sent: string[] = []
    const store = postgresSessions({
      async query (sql: string, [json]: readonly unknown[]) {
        const sids = JSON.parse(String(json)).map(({ sid }: { sid: string }) => sid).join()
        sent.push(`${sids}${sql.includes('SKIP LOCKED') ? ' but what is locked' : ''}`)
        if (sent.length === 1) return { rows: [endedRow('b', 'c', 'd')] }
        setTime(now += passed)
        if (sids === 'c' || passed > 0) throw Object.assign(new Error('canceling statement due to lock timeout'), { code: '55P03' })
        return { rows: [endedRow()] }
      }
    })
    const error = await store.confirm(received, rules).catch((reason: unknown) => reason)
    t.ok(error instanceof NotWritten)
    if (error instanceof NotWritten) t.equal(error.items.size, left)
    t.equal(sent.length, calls)
    t.equal(sent[0], 'a,b,c,d but what is locked')
    if (passed === 0) t.same(sent.slice(1).sort(), ['b', 'c', 'd'])
    if (passed === 0 && error instanceof NotWritten) t.same([...error.items], [received[2]])
  }
  const failing = postgres([endedRow('a')], new Error('down'))
  await t.rejects(postgresSessions(failing).confirm(received, rules), { message: 'down' })
  await t.resolves(postgresSessions(postgres([endedRow('a')], [endedRow('a')])).confirm(received, rules), 'it was changed meanwhile')
})

t.test('a confirmation is one statement, or for Redis one call for each 100 sessions of a bucket; one that fails keeps no other from being made', async (t) => {
  const received = Array.from({ length: 250 }, (_, index) => ({ sid: `sid ${index}`, user: '1', n: index }))
  const db = postgres([endedRow()])
  await postgresSessions(db).confirm(received, rules)
  t.equal(db.sent.length, 1)
  const { client, sent } = ioredis([])
  await redisSessions(client).confirm(received, rules)
  t.same(sent.map(([, , keys]) => keys), [200, 200, 100])
  const failing = ioredis(new Error('READONLY'), [])
  await t.rejects(redisSessions(failing.client).confirm(received, rules), { message: 'READONLY' })
  t.equal(failing.sent.length, 3)
  await redisSessions(failing.client).confirm([], rules)
})

t.test('an advance between whose statements the session changes looks again, four times at most', async (t) => {
  const none: object[] = []
  const ofNobody = [{ n: null }]
  const advance = async (n: number, ...results: object[][]) => await postgresSessions(postgres(...results)).advance('1', 'a', n, rules)
  const row = { n: '5', parent: '1', siblings: '0', confirmed: 'false', fresh: 'false' }
  const due = [row]
  const confirmed = [{ ...row, confirmed: 'true' }]
  t.same(await advance(5, none, due, [{ n: '6' }]), { outcome: 'rotated', n: 6 }, 'the window ended in between')
  t.same(await advance(7, none, due, none, none, [{ ...row, n: '7', fresh: 'true' }]), { outcome: 'repeated', n: 7 }, 'another one recovered it')
  t.same(await advance(4, none, due, [{ n: '6' }]), { outcome: 'reissued', n: 6 })
  t.same(await advance(4, none, due, none, none, confirmed, [endedRow('a')]), { outcome: 'reused', n: 5 }, 'its successor was received in between')
  const several = [{ ...row, siblings: '2', parent: '3', fresh: 'true' }]
  t.same(await advance(4, none, several, [{ n: '5' }]), { outcome: 'repeated', n: 4 })
  t.same(await advance(4, none, several, none, [{ n: '6' }]), { outcome: 'rotated', n: 6 }, 'the window ended in between')
  t.same(await advance(4, none, confirmed, [endedRow()]), { outcome: 'unknown', n: 0 }, 'another one ended it')
  t.same(await advance(4, none, ofNobody), { outcome: 'unknown', n: 0 })
  await t.rejects(advance(4, none, none), TypeError)
  await t.rejects(advance(5, ...Array.from({ length: 4 }, () => [none, due]).flat()), { message: 'The session was changed again and again while it was refreshed.' })
})

// Promise: databases/network-hangs-breaks
t.test('the server is told until when it may rotate, create and end, by its own clock; where it says that this is over, it is asked again for as long as there is time', async (t) => {
  const start = performance.now()
  let passed = 0
  t.intercept(performance, 'now', { value: () => start + passed })
  const time = 1_800_000_000_000
  const deadlines = (sent: unknown[][]) => sent.map((call) => Number(call.at(-1)))
  const late = (at: number) => new Error(`LATE ${at}`)

  // Nothing is known at first. The server is 300 seconds ahead later.
  const { client, sent } = ioredis(late(time), ['rotated', 1], late(time + 300_000), ['repeated', 1], ['b'], ['a'])
  const store = redisSessions(client)
  for (const outcome of ['rotated', 'repeated']) t.match(await store.advance('1', 'a', 0, rules), { outcome })
  t.same(await store.create(session, rules), ['b'])
  t.same(await store.end('1', { sid: 'a' }, rules), ['a'])
  t.same(deadlines(sent), [0, time + 5000, time + 5000, time + 305_000, time + 305_000, time + 305_000])

  // The feed knows the time, too.
  const fed = ioredis(...Array.from({ length: 16 }, () => [time]), ['rotated', 1])
  const other = redisSessions(fed.client)
  await other.endedSince(null, rules)
  passed = 1000
  await other.advance('1', 'a', 0, rules)
  t.same(deadlines(fed.sent.slice(16)), [time + 6000])

  const given: unknown[][] = []
  const rows = [
    [], [{ n: '0', late: 'true', time: String(time) }], [{ n: '1', time: String(time) }], [{ ids: '', cursor: String(time / 1000), time: String(time + 7000) }], [{ n: '2', time: String(time) }],
    [{ ids: '', late: 'true', time: String(time + 300_000) }], [endedRow('b')], [endedRow('a')], [{ n: '2', time: 'no time' }], [{ n: '3' }]
  ]
  const db = postgresSessions({
    async query (_sql: string, values: unknown[]) {
      given.push(values)
      return { rows: rows.shift() ?? [] }
    }
  })
  t.same(await db.advance('1', 'a', 0, rules), { outcome: 'rotated', n: 1 })
  await db.endedSince('0', rules)
  t.same(await db.advance('1', 'a', 1, rules), { outcome: 'rotated', n: 2 })
  t.same(await db.create(session, rules), ['b'])
  t.same(await db.end('1', { except: null }, rules), ['a'])
  for (const n of [1, 2]) await db.advance('1', 'a', n, rules)
  // What an answer without a time says is not known.
  t.same(deadlines(given), [0, 0, time + 5000, 0, time + 12_000, time + 5000, time + 305_000, time + 5000, time + 5000, time + 5000])

  const slow = redisSessions({
    status: 'ready',
    async evalsha () {
      passed += 2500
      throw late(time)
    },
    eval: async () => {}
  })
  const slowDatabase = postgresSessions({
    async query () {
      passed += 2500
      return { rows: [{ ids: '', n: '0', late: 'true', time: String(time) }] }
    }
  })
  const message = 'The call reached the database after more than 5 seconds, and was not executed.'
  for (const { create, end } of [slow, slowDatabase]) {
    await t.rejects(create(session, rules), { message })
    await t.rejects(end('1', { sid: 'a' }, rules), { message })
  }
  await t.rejects(slow.advance('1', 'a', 0, rules), { message })
})

t.test('postgres.js is called as its users call it', async (t) => {
  const calls: unknown[][] = []
  const sql = Object.assign(() => { throw new Error('not as a template') }, {
    async unsafe (...parameters: unknown[]) {
      calls.push(parameters)
      return [endedRow('a')]
    }
  })
  t.same(await postgresSessions(sql, { table: 'logins' }).end('1', { sid: 'a' }, rules), ['a'])
  t.match(calls, [[/UPDATE "logins" s SET /, ['1', 'a', 60_000, 0]]])
})

t.test('a name of a table that is none is refused before it is part of SQL', async (t) => {
  const db = postgres()
  for (const table of ['', '1a', 'a b', 'a-b', 'a;DROP TABLE users', 'a.b.c', '.a', 'a.', 'a..b', '1a.b', 'a b.c', 'a.1b', 'a.b;c', '"a".b', `${'x'.repeat(64)}.a`, `a.${'x'.repeat(49)}`, '"a"', 'é', 'a\n', 'x'.repeat(49), 5, {}, ['a'], null]) {
    const name = mistyped<string>(table)
    t.throws(() => postgresSessions(db, { table: name }), { name: 'InvalidConfiguration' })
    t.throws(() => postgresSessionSchema(name), { name: 'InvalidConfiguration' })
  }
  for (const table of ['a', '_', 'Sessions_2', 'x'.repeat(48)]) {
    t.ok(postgresSessions(db, { table }))
    t.match(postgresSessionSchema(table), `CREATE TABLE IF NOT EXISTS "${table}" (`)
  }
  for (const [table, quoted] of [['auth.sessions', '"auth"."sessions"'], [`${'S'.repeat(63)}.${'x'.repeat(48)}`, `"${'S'.repeat(63)}"."${'x'.repeat(48)}"`]] as const) {
    t.ok(postgresSessions(db, { table }))
    t.match(postgresSessionSchema(table), `CREATE TABLE IF NOT EXISTS ${quoted} (`)
  }
})

/** What PostgreSQL answers to a read of the feed. */
const fedRow = (row: Record<string, string | null> = {}) => ({ ids: '', cursor: '1800000000', time: '1800000000000', filtered: 'false', standby: 'false', beat: null, ...row })

// Promise: databases/row-security
t.test('a feed that row security may filter is refused, unless the application allows it', async (t) => {
  const filtered = [fedRow({ filtered: 'true' })]
  const store = postgresSessions(postgres(filtered), { table: 'shop_sessions' })
  await t.rejects(store.endedSince(null, rules), {
    name: 'InvalidConfiguration',
    message: /^Row security is active on the table "shop_sessions" for the role of this connection, and may silently hide ended sessions\. Connect with a role that has BYPASSRLS, or, if the policies let this role read and change every row, pass \{ allowRowSecurity: true \} to postgresSessions\(\)\. See .*docs\/stores\.md$/
  })
  t.same(await postgresSessions(postgres(filtered), { allowRowSecurity: true }).endedSince(null, rules), { ended: [], cursor: '1800000000' })
})

// Promise: databases/row-security
t.test('what a connection that row security filters does not find is not taken for something that is not there', async (t) => {
  const written = { ...endedRow(), filtered: 'true' }
  const found = { n: null, late: 'false', time: '1800000000000', filtered: 'true' }
  const calls: Record<string, [(store: SessionStore) => Promise<unknown>, unknown, ...object[][]]> = {
    create: [async (store) => await store.create(session, rules), [], [written]],
    advance: [async (store) => await store.advance('1', 'a', 0, rules), { outcome: 'unknown', n: 0 }, [], [found]],
    end: [async (store) => await store.end('1', { sid: 'a' }, rules), [], [written]],
    list: [async (store) => await store.list('1', rules), [], [{ ...found, sid: null }]],
    confirm: [async (store) => await store.confirm([{ sid: 'a', user: '1', n: 0 }], rules), undefined, [written]]
  }
  for (const [name, [call, result, ...rows]] of Object.entries(calls)) {
    await t.rejects(call(postgresSessions(postgres(...rows))), { message: /^Row security is active on the table / }, name)
    t.same(await call(postgresSessions(postgres(...rows), { allowRowSecurity: true })), result, name)
  }
})

// Promise: databases/replica-lags
t.test('the feed of a standby is as old as the last heartbeat, of which it warns when that is older than usual', async (t) => {
  const setTime = setMonotonicClock(t)
  const time = 1_800_000_000_000
  const store = postgresSessions(postgres(...[-20, 4999, 5001, 61_000, 59_999, 60_001].map((age) => [fedRow({ standby: 'true', beat: `${time - age}.125` })]), [fedRow({ standby: 'true' })]))
  const read = async () => {
    const { staleFor, reason } = await store.endedSince('0', rules)
    return [Math.ceil(staleFor ?? NaN), reason]
  }
  const warning = (seconds: number) => `The database is a standby, and the last heartbeat that it has replayed is ${seconds} seconds old.`
  setTime(0)
  t.same([await read(), await read(), await read(), await read()], [[0, null], [4999, null], [5001, warning(5)], [61_000, warning(61)]])
  // Who reads every 20 seconds expects a heartbeat every 20 seconds.
  setTime(20_000)
  t.same(await read(), [59_999, null])
  setTime(40_000)
  t.same(await read(), [60_001, warning(60)])
  t.same(await read(), [Infinity, 'The database is a standby, and has replayed no heartbeat, so its delay is unknown. Pass { replicas: true } to postgresSessions() of the services that issue tokens.'])
})

// Promise: databases/replica-lags
t.test('the feed of a standby that replays no new heartbeat grows old, also where a clock was ahead when the last one was written', async (t) => {
  const setTime = setMonotonicClock(t)
  for (const ahead of [0, 3_600_000]) {
    const beat = String(1_800_000_000_000 + ahead)
    const row = fedRow({ standby: 'true', beat })
    const store = postgresSessions(postgres(...Array.from({ length: 3 }, () => [{ ...row }]), [{ ...row, beat: String(Number(beat) + 1) }]))
    const ages: unknown[] = []
    for (const time of [0, 7000, 14_000, 15_000]) {
      setTime(time)
      ages.push((await store.endedSince('0', rules)).staleFor)
    }
    t.same(ages, [0, 7000, 14_000, 0])
  }
})

t.test('a heartbeat is written after each read of a primary, by one statement at a time, only the first one is waited for, and one that hangs is given up', async (t) => {
  const setTime = setMonotonicClock(t)
  setTime(0)
  const answers: Array<(error?: Error) => void> = []
  const row = fedRow()
  const store = postgresSessions({
    async query (sql: string) {
      if (!sql.startsWith('INSERT')) return { rows: [row] }
      await new Promise<void>((resolve, reject) => { answers.push((error) => error === undefined ? resolve() : reject(error)) })
      return { rows: [] }
    }
  }, { replicas: true })
  const first = store.endedSince(null, rules)
  await new Promise(setImmediate)
  answers.shift()?.(new Error('permission denied'))
  await t.rejects(first, { message: 'permission denied' })
  const second = store.endedSince(null, rules)
  await new Promise(setImmediate)
  answers.shift()?.()
  await t.resolves(second)
  await store.endedSince(null, rules)
  await store.endedSince(null, rules)
  t.equal(answers.length, 1, 'the one that hangs')
  setTime(5000)
  await store.endedSince(null, rules)
  t.equal(answers.length, 2)
  answers.shift()?.(new Error('too late'))
  await new Promise(setImmediate)
  await store.endedSince(null, rules)
  t.equal(answers.length, 1, 'the next one')
  answers.shift()?.(new Error('read-only'))
  await new Promise(setImmediate)
  row.standby = 'true'
  await store.endedSince(null, rules)
  t.equal(answers.length, 0, 'a standby writes none')
})
