// @alone @waits @slow
/** The store in PostgreSQL keeps the contract of stores with each client. */
import fastifyPostgres from '@fastify/postgres'
import { PGlite } from '@electric-sql/pglite'
import Fastify from 'fastify'
import pg from 'pg'
import postgres from 'postgres'
import t, { type Test } from 'tap'
import { postgresSessions, postgresSessionSchema, type PostgresLike } from '../../../lib/index.ts'
import { sessionStoreTests } from '../../../lib/testing.ts'
import { skip, startDatabase } from '../../database.ts'
import { keepsRules } from './rules.ts'

const clients: Record<string, (t: Test, url: string) => Promise<PostgresLike>> = {
  async 'a pool of pg' (t, connectionString) {
    const pool = new pg.Pool({ connectionString })
    // A server that ends closes idle connections.
    pool.on('error', () => {})
    t.teardown(async () => await pool.end())
    return pool
  },
  async 'postgres.js' (t, url) {
    // Its transformation changes the names of columns.
    const sql = postgres(url, { onnotice: () => {}, transform: postgres.camel })
    t.teardown(async () => await sql.end({ timeout: 1 }))
    return sql
  },
  async '@fastify/postgres' (t, connectionString) {
    const app = Fastify()
    t.teardown(async () => await app.close())
    await app.register(fastifyPostgres, { connectionString })
    app.pg.pool.on('error', () => {})
    return app.pg
  }
}

// Promise: specification/postgressessions-postgressessionschema
t.test('the store in PostgreSQL keeps every rule of the contract of stores, with each client', { skip: skip.postgres }, async (t) => {
  const server = await startDatabase(t, 'postgres')
  const setup = new pg.Client(server.url)
  await setup.connect()
  await setup.query(postgresSessionSchema())
  await setup.end()
  for (const [name, open] of Object.entries(clients)) {
    await t.test(name, async (t) => await keepsRules(t, postgresSessions(await open(t, server.url)), server))
  }
})

// Promise: specification/postgressessions-postgressessionschema
t.test('the store in PGlite keeps every rule of the contract of stores', async (t) => {
  const db = new PGlite()
  t.teardown(async () => await db.close())
  await db.exec(postgresSessionSchema())
  // Its clock is that of this process, it has no connection that could fail, and it executes one statement after the other.
  for (const { name, run } of sessionStoreTests(() => postgresSessions(db, { replicas: true }), { concurrency: 20 })) await t.test(name, run)
})

// Promise: databases/table-in-schema
t.test('the name of a table may be a reserved word, or in a schema, and names that differ in letter case are two tables', { skip: skip.postgres }, async (t) => {
  const { url } = await startDatabase(t, 'postgres')
  const pool = new pg.Pool({ connectionString: url })
  t.teardown(async () => await pool.end())
  const rules = { graceMs: 30_000, idleMs: 600_000, keepMs: 600_000, maxPerUser: 1 }
  const tables = ['Acme_s', 'acme_s', 'user', 'x'.repeat(48), 'auth.user', 'Auth.user', `${'s'.repeat(63)}.${'x'.repeat(48)}`]
  for (const schema of ['auth', '"Auth"', 's'.repeat(63)]) await pool.query(`CREATE SCHEMA ${schema}`)
  for (const table of tables) {
    await pool.query(postgresSessionSchema(table))
    const store = postgresSessions(pool, { table })
    for (const sid of ['a', 'b']) t.same(await store.create({ sid, user: '1', lifetimeMs: 3_600_000, data: '{}' }, rules), sid === 'b' ? ['a'] : [], table)
    for (const n of [0, 0, 5]) await store.advance('1', 'b', n, rules)
    t.match(await store.list('1', rules), [{ sid: 'b' }])
    t.same(await store.end('1', { except: null }, rules), ['b'])
    t.same((await store.endedSince('0', rules)).ended.toSorted(), ['a', 'b'])
  }
  const { rows } = await pool.query<{ table: string, indexes: number }>("SELECT schemaname || '.' || tablename AS table, count(*)::int AS indexes FROM pg_indexes WHERE schemaname NOT LIKE 'pg_%' GROUP BY schemaname, tablename")
  t.same(rows.toSorted((one, other) => one.table < other.table ? -1 : 1), tables.map((table) => table.includes('.') ? table : `public.${table}`).toSorted().map((table) => ({ table, indexes: 5 })))
})

t.test('the schema can be created by several processes at once, and again', { skip: skip.postgres }, async (t) => {
  const server = await startDatabase(t, 'postgres')
  const clients = await Promise.all(Array.from({ length: 8 }, async () => {
    const client = new pg.Client(server.url)
    await client.connect()
    t.teardown(async () => await client.end())
    return client
  }))
  for (const table of ['first', 'second', 'third']) {
    await t.resolves(Promise.all(clients.map(async (client) => await client.query(postgresSessionSchema(table)))))
    await t.resolves(clients[0]?.query(postgresSessionSchema(table)) ?? Promise.reject(new Error('no client')))
  }
})

t.test('other accounts of this machine cannot use the server that scripts/database.js starts', { skip: skip.postgres }, async (t) => {
  const { url } = await startDatabase(t, 'postgres')
  t.match(new URL(url).password, /^[\w-]{32}$/)
  const client = new pg.Client(Object.assign(new URL(url), { password: 'wrong' }).href)
  await t.rejects(client.connect(), { code: '28P01' })
})
