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

t.test('the store in PGlite keeps every rule of the contract of stores', async (t) => {
  const db = new PGlite()
  t.teardown(async () => await db.close())
  await db.exec(postgresSessionSchema())
  // Its clock is that of this process, and it has no connection that could fail.
  for (const { name, run } of sessionStoreTests(() => postgresSessions(db))) await t.test(name, run)
})
