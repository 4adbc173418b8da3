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
  /** The sessions whose latest token is known to be received. */
  confirmed (): Promise<string[]>
  /** Lets time pass for the windows of all sessions, or of some; less than nothing as if the clock was set back. */
  pass (milliseconds: number, sids?: readonly string[]): Promise<void>
  /** Ends the windows of all sessions, or of some, as if time had passed. */
  endWindows (sids?: readonly string[]): Promise<void>
  /** Makes a backup, and returns what restores it. */
  backUp (): Promise<() => Promise<void>>
  /** Lets the server refuse to write, or not any more. */
  refuseWrites (refuses: boolean): Promise<void>
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

export const redisBackend = async (t: Ending, ...parameters: string[]): Promise<Backend> =>
  backendOf(t, await startDatabase(t, 'redis', ...parameters))

export const clusterBackend = async (t: Ending, ...parameters: string[]): Promise<Backend> =>
  backendOf(t, await startDatabase(t, 'redis-cluster', ...parameters))

function backendOf (t: Ending, server: Database): Backend {
  const clients = server.urls.map((url) => redisOperator(t, url))
  /** The id, the client and the key of each session. */
  const sessions = async () => (await Promise.all(clients.map(async (client) => (await client.keys('token-auth:*:s:*')).map((key) => ({ client, key, sid: key.slice(key.lastIndexOf(':') + 1) }))))).flat()
  const pass: Backend['pass'] = async (milliseconds, sids) => {
    const chosen = (await sessions()).filter(({ sid }) => sids === undefined || sids.includes(sid))
    await Promise.all(chosen.map(async ({ client, key }) => { if (await client.hexists(key, 'r')) await client.hincrby(key, 'r', -milliseconds) }))
  }
  return {
    server,
    async counters () {
      return Object.fromEntries(await Promise.all((await sessions()).map(async ({ client, key, sid }) => [sid, Number(await client.hget(key, 'n'))])))
    },
    async confirmed () {
      const found = await Promise.all((await sessions()).map(async ({ client, key, sid }) => await client.hget(key, 'k') === '1' ? [sid] : []))
      return found.flat()
    },
    pass,
    endWindows: async (sids) => await pass(window, sids),
    async backUp () {
      const saved = await Promise.all(clients.map(async (client) => {
        const keys = await client.keys('*')
        return await Promise.all(keys.map(async (key) => ({ client, key, expires: await client.pttl(key), content: await client.dumpBuffer(key) })))
      }))
      return async () => {
        for (const client of clients) await client.flushall()
        for (const { client, key, expires, content } of saved.flat()) if (content !== null) await client.restore(key, expires, content)
      }
    },
    async refuseWrites (refuses) {
      for (const client of clients) await client.config('SET', 'min-replicas-to-write', refuses ? 1 : 0)
    }
  }
}

export async function postgresBackend (t: Ending, ...parameters: string[]): Promise<Backend & { pool: pg.Pool }> {
  const server = await startDatabase(t, 'postgres', ...parameters)
  const pool = poolOf(t, server.url)
  await pool.query(postgresSessionSchema())
  const pass: Backend['pass'] = async (milliseconds, sids) => {
    await pool.query("UPDATE token_auth_sessions SET rotated_at = rotated_at - $1 * interval '1 millisecond' WHERE $2::text[] IS NULL OR sid = ANY ($2)", [milliseconds, sids ?? null])
  }
  return {
    server,
    pool,
    async counters () {
      const { rows } = await pool.query('SELECT sid, n::int FROM token_auth_sessions WHERE ended_at IS NULL')
      return Object.fromEntries(rows.map(({ sid, n }) => [sid, n]))
    },
    async confirmed () {
      return (await pool.query('SELECT sid FROM token_auth_sessions WHERE confirmed AND ended_at IS NULL')).rows.map(({ sid }) => sid)
    },
    pass,
    endWindows: async (sids) => await pass(window, sids),
    async backUp () {
      await pool.query('CREATE TABLE backup AS TABLE token_auth_sessions')
      return async () => { await pool.query('TRUNCATE token_auth_sessions; INSERT INTO token_auth_sessions SELECT * FROM backup; DROP TABLE backup') }
    },
    async refuseWrites (refuses) {
      // For all connections, also those that are open.
      await pool.query(`ALTER SYSTEM SET default_transaction_read_only = ${refuses}`)
      await pool.query('SELECT pg_reload_conf()')
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
