/** Servers with sessions, seen as an operator sees them: without the store. */
import { Redis } from 'ioredis'
import pg from 'pg'
import postgres from 'postgres'
import { createClient } from 'redis'
import type { Test } from 'tap'
import { postgresSessions, postgresSessionSchema, redisSessions, type SessionStore } from '../../../lib/index.ts'
import { skip, startDatabase, type Database } from '../../database.ts'

type Ending = Pick<Test, 'teardown'>

/** A server, and what an operator does to it. */
export interface Backend {
  readonly server: Database
  /** The counter of each session. */
  counters (): Promise<Record<string, number>>
  /** Ends the windows of all sessions, as if time had passed. */
  endWindows (): Promise<void>
  /** Makes a backup, and returns what restores it. */
  backUp (): Promise<() => Promise<void>>
}

/** Connects a store, as an application does, with the defaults of its client. */
export type Connect = (t: Ending, url: string) => Promise<SessionStore>

/** Longer than any window may be, in milliseconds. */
const window = 301_000

/** Commands for an operator of Redis. */
export function redisOperator (t: Ending, url: string): Redis {
  const client = new Redis(url, { maxRetriesPerRequest: null })
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  return client
}

export async function redisBackend (t: Ending, ...parameters: string[]): Promise<Backend> {
  const server = await startDatabase(t, 'redis', ...parameters)
  const client = redisOperator(t, server.url)
  const sessions = async () => await client.keys('token-auth:*:s:*')
  return {
    server,
    async counters () {
      const counters: Record<string, number> = {}
      for (const key of await sessions()) counters[key.slice(key.lastIndexOf(':') + 1)] = Number(await client.hget(key, 'n'))
      return counters
    },
    async endWindows () {
      for (const key of await sessions()) if (await client.hexists(key, 'r')) await client.hincrby(key, 'r', -window)
    },
    async backUp () {
      const keys = await client.keys('*')
      const saved = await Promise.all(keys.map(async (key) => ({ key, expires: await client.pttl(key), content: await client.dumpBuffer(key) })))
      return async () => {
        await client.flushall()
        for (const { key, expires, content } of saved) if (content !== null) await client.restore(key, expires, content)
      }
    }
  }
}

export async function postgresBackend (t: Ending, ...parameters: string[]): Promise<Backend & { pool: pg.Pool }> {
  const server = await startDatabase(t, 'postgres', ...parameters)
  const pool = poolOf(t, server.url)
  await pool.query(postgresSessionSchema())
  return {
    server,
    pool,
    async counters () {
      const { rows } = await pool.query('SELECT sid, n::int FROM token_auth_sessions WHERE ended_at IS NULL')
      return Object.fromEntries(rows.map(({ sid, n }) => [sid, n]))
    },
    async endWindows () {
      await pool.query(`UPDATE token_auth_sessions SET rotated_at = rotated_at - interval '${window} milliseconds'`)
    },
    async backUp () {
      await pool.query('CREATE TABLE backup AS TABLE token_auth_sessions')
      return async () => { await pool.query('TRUNCATE token_auth_sessions; INSERT INTO token_auth_sessions SELECT * FROM backup; DROP TABLE backup') }
    }
  }
}

export function poolOf (t: Ending, connectionString: string, options: pg.PoolConfig = {}): pg.Pool {
  const pool = new pg.Pool({ connectionString, ...options })
  // A server that ends closes idle connections.
  pool.on('error', () => {})
  t.teardown(async () => await pool.end())
  return pool
}

async function connectIoredis (t: Ending, client: Redis): Promise<SessionStore> {
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  await new Promise<void>((resolve) => { client.once('ready', () => resolve()) })
  return redisSessions(client)
}

interface Kind {
  readonly skip: string | false
  start (t: Ending, ...parameters: string[]): Promise<Backend>
  /** Arguments with which a crash of the server loses nothing. */
  readonly durable: readonly string[]
  readonly connect: Connect
}

const ofRedis = { skip: skip.redis, start: redisBackend, durable: ['--appendonly', 'yes', '--appendfsync', 'always'] }
const ofPostgres = { skip: skip.postgres, start: postgresBackend, durable: [] }

/** By client. */
export const kinds: Readonly<Record<string, Kind>> = {
  ioredis: { ...ofRedis, connect: async (t, url) => await connectIoredis(t, new Redis(url)) },
  'ioredis without a limit of retries': { ...ofRedis, connect: async (t, url) => await connectIoredis(t, new Redis(url, { maxRetriesPerRequest: null })) },
  'node-redis': {
    ...ofRedis,
    async connect (t, url) {
      const client = createClient({ url })
      client.on('error', () => {})
      t.teardown(() => client.destroy())
      await client.connect()
      return redisSessions(client)
    }
  },
  pg: { ...ofPostgres, connect: async (t, url) => postgresSessions(poolOf(t, url)) },
  'postgres.js': {
    ...ofPostgres,
    async connect (t, url) {
      const sql = postgres(url, { onnotice: () => {}, fetch_types: false })
      t.teardown(async () => await sql.end({ timeout: 1 }))
      return postgresSessions(sql)
    }
  }
}
