/** The stores that several processes can share. For each of them, `prepare` is called once, and `open` by every process. */
import { once } from 'node:events'
import { postgresSessions, postgresSessionSchema, redisSessions } from 'fastify-token-auth'
import { Redis } from 'ioredis'
import pg from 'pg'

/** In milliseconds. Less than the five seconds after which the plugin gives up a call, so that no call is executed after that. */
const connectionTimeout = 4000

/** A client that loses its connection emits an error and connects again. Until then, requests that need the store are answered with 503. */
const ignoreErrors = (client) => client.on('error', () => {})

/**
 * With node-redis, the package redis, the client is
 * `await createClient({ url }).on('error', () => {}).connect()`, and the rest is the same.
 */
async function connectRedis (url) {
  // A command that was on its way when a connection broke is not sent again: its request was given up.
  const client = ignoreErrors(new Redis(url, { autoResendUnfulfilledCommands: false, socketTimeout: 3000 }))
  try {
    await once(client, 'ready', { signal: AbortSignal.timeout(connectionTimeout) })
    return client
  } catch (error) {
    client.disconnect()
    // An aborted wait has its reason as the cause.
    throw error.cause ?? error
  }
}

const redis = {
  database: 'Redis',
  variable: 'REDIS_URL',
  example: 'redis://127.0.0.1:6379',
  prepare: async (url) => (await connectRedis(url)).disconnect(),
  open: async (url) => redisSessions(await connectRedis(url))
}

const postgres = {
  database: 'PostgreSQL',
  variable: 'DATABASE_URL',
  example: 'postgres://postgres@127.0.0.1:5432/postgres',
  /** Creates the table. A real service does that in a migration, so that the user of its processes needs no right to create tables. */
  async prepare (url) {
    const client = ignoreErrors(new pg.Client({ connectionString: url, connectionTimeoutMillis: connectionTimeout, query_timeout: 4000 }))
    try {
      await client.connect()
      await client.query(postgresSessionSchema())
    } finally {
      await client.end()
    }
  },
  open: async (url) => postgresSessions(ignoreErrors(new pg.Pool({ connectionString: url, connectionTimeoutMillis: connectionTimeout, query_timeout: 4000 })))
}

export const stores = { redis, postgres }
