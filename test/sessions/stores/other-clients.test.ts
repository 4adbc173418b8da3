/** Clients of databases beside those that the documents name: they work, or they are refused by name, before anybody logs in. */
import t from 'tap'
import { InvalidConfiguration, postgresSessions, redisSessions, type SessionRules, type SessionStore } from '../../../lib/index.ts'
import { build, mistyped } from '../../helper.ts'

const rules: SessionRules = { graceMs: 30_000, idleMs: 600_000, keepMs: 60_000, maxPerUser: 100 }
const session = { sid: 'a', user: '1', lifetimeMs: 3_600_000, data: '{}' }
const call = () => {}

/** What PostgreSQL answers to a read of the feed. */
const feed = { ids: 'a,b', cursor: '1', time: '1800000000000', standby: 'false' }

/** The forms in which clients return rows. */
const forms: Record<string, (row: object) => unknown> = {
  'rows in an object, as pg, @fastify/postgres, PGlite and @vercel/postgres': (row) => ({ rows: [row] }),
  'a list of rows, as neon(), postgres.js and pg-promise': (row) => [row],
  'rows and their number, as TypeORM after an UPDATE': (row) => [[row], 1]
}

// Promise: specification/other-postgres-clients
t.test('the store in PostgreSQL reads rows in each form in which clients return them', async (t) => {
  for (const [name, form] of Object.entries(forms)) {
    const store = postgresSessions(mistyped({ query: async () => form(feed) }))
    t.same(await store.endedSince(null, rules), { ended: ['a', 'b'], cursor: '1' }, name)
    t.same(await store.create(session, rules), ['a', 'b'], name)
    t.same(await postgresSessions(mistyped({ query: async () => form({ n: '6', time: '1800000000000' }) })).advance('1', 'a', 5, rules), { outcome: 'rotated', n: 6 }, name)
  }
  // Nothing is rotated where an UPDATE has changed nothing.
  const answers = [[[], 0], [{ n: null }]]
  t.same(await postgresSessions(mistyped({ query: async () => answers.shift() })).advance('1', 'a', 5, rules), { outcome: 'unknown', n: 0 })
})

// Promise: specification/other-postgres-clients
t.test('of a client with query() and unsafe(), such as that of neon(), query() executes statements', async (t) => {
  const sent: unknown[][] = []
  const query = async (...given: unknown[]) => {
    sent.push(given)
    return [feed]
  }
  const sql = Object.assign(async () => { t.fail('no template is given') }, { query, unsafe: (raw: string) => ({ sql: raw }), transaction: call })
  t.same(await postgresSessions(mistyped(sql)).endedSince('7', rules), { ended: ['a', 'b'], cursor: '1' })
  t.match(sent, [[/^SELECT /, ['7']]])
})

const ofPostgres = 'The first parameter of postgresSessions() must be a pool or a client of pg, fastify.pg of @fastify/postgres, or what postgres.js or neon() returns; given: '
const ofRedis = 'The first parameter of redisSessions() must be a client, or a cluster, of ioredis, iovalkey or node-redis; given: '
const pool = 'If an ORM or a query builder has the connections, pass the pool that it uses.'
const noConnection = 'an object that executes scripts and has no connection, such as a client over HTTP, a pipeline or a transaction. Connect one of these clients to the same database.'

/** What is refused when the store is created: by what it has, and what is said of it. */
const refused: Array<[create: (client: never) => SessionStore, start: string, cases: Record<string, [client: unknown, end: string]>]> = [
  [postgresSessions, ofPostgres, {
    'Prisma, with $queryRawUnsafe()': [{ $queryRawUnsafe: call, $transaction: call }, `an object. ${pool}`],
    'Drizzle, whose query is an object': [{ query: {}, execute: call, $client: {} }, `an object. ${pool}`],
    Kysely: [{ executeQuery: call, selectFrom: call }, `an object. ${pool}`],
    Knex: [Object.assign(call, { raw: call }), `a function. ${pool}`],
    mysql2: [{ query: call, execute: call, escapeId: call }, `a client of MySQL. ${pool}`],
    mssql: [{ query: call, batch: call, request: call }, `a client of SQL Server. ${pool}`],
    'better-sqlite3 and node:sqlite': [{ prepare: call, exec: call }, `an object. ${pool}`],
    slonik: [{ query: call, any: call, anyFirst: call }, `a pool of slonik. ${pool}`],
    'a promise of a pool': [Promise.resolve({ query: call }), 'a promise. Await it.'],
    'a URL': ['postgresql://127.0.0.1/shop', `a string. ${pool}`]
  }],
  [redisSessions, ofRedis, {
    '@upstash/redis': [{ evalsha: call, eval: call, request: call }, noConnection],
    'a pipeline of ioredis': [{ evalsha: call, eval: call, exec: call }, noConnection],
    'a transaction of node-redis': [{ evalSha: call, eval: call, exec: call }, noConnection],
    'legacy() of node-redis': [{ evalSha: call, eval: call, sendCommand: call }, noConnection],
    'redis 3': [{ evalsha: call, eval: call, connected: true }, noConnection],
    '@valkey/valkey-glide': [{ invokeScript: call, customCommand: call }, 'an object.'],
    'redis-om': [{ execute: call, isOpen: call }, 'an object.'],
    'a promise of a client, such as that of connect()': [Promise.resolve({ evalSha: call, eval: call, isReady: true }), 'a promise. Await it.'],
    'a URL': ['redis://127.0.0.1', 'a string.']
  }]
]

// Promise: specification/other-clients-refused
t.test('a client that a store cannot use is refused by name when the store is created', async (t) => {
  for (const [create, start, cases] of refused) {
    for (const [name, [client, end]] of Object.entries(cases)) {
      t.throws(() => create(mistyped(client)), new InvalidConfiguration(start + end, { page: 'stores.md' }), name)
    }
  }
})

// Promise: specification/other-clients-refused
t.test('no application starts with a client whose answers are not rows that are objects', async (t) => {
  const answers: Record<string, unknown> = {
    'neon() with arrayMode': [['a', '1']],
    'Sequelize, with a list of rows and of other things': [[feed], { command: 'SELECT' }],
    'a client with callbacks': undefined,
    'a statement of bun:sqlite': { all: call },
    'the rows of pg with rowMode': { rows: [['a', '1']] },
    'a result of another form': { recordset: [feed] },
    'a text': 'a',
    'no list of rows, and a number': [feed, 1]
  }
  for (const [name, answer] of Object.entries(answers)) {
    const app = await build(t, { sessions: { store: postgresSessions(mistyped({ query: () => answer })) } })
    await t.rejects(async () => await app.ready(), { message: /^The client that is given to postgresSessions\(\) returned something other than rows that are objects: .+\. Pass a pool or a client of pg, .+/ }, name)
  }
})
