/**
 * The stores of the processes, with the clients that the documents name. `open(library, addresses)` resolves to a store. Each
 * process reaches the database through a proxy of its own: `url`, or `urls` and `map` (proxies by the addresses that the nodes
 * of a cluster tell).
 */
import { once } from 'node:events'
import { Redis } from 'ioredis'
import pg from 'pg'
import postgres from 'postgres'
import { createClient, createCluster } from 'redis'

/** Less than the five seconds after which the package gives up a call. */
const patience = 4000
const ignoreErrors = (client) => client.on('error', () => {})
const ioredisOptions = { autoResendUnfulfilledCommands: false, connectTimeout: patience, socketTimeout: patience, retryStrategy: () => 200 }
const nodeRedisSocket = { connectTimeout: patience, socketTimeout: patience, reconnectStrategy: () => 200 }

async function ioredis ({ redisSessions }, { url }) {
  const client = ignoreErrors(new Redis(url, ioredisOptions))
  await once(client, 'ready')
  return redisSessions(client)
}

async function nodeRedis ({ redisSessions }, { url }) {
  return redisSessions(await ignoreErrors(createClient({ url, socket: nodeRedisSocket })).connect())
}

async function ioredisCluster ({ redisSessions }, { urls, map }) {
  const natMap = Object.fromEntries(Object.entries(map).map(([address, port]) => [address, { host: '127.0.0.1', port }]))
  const client = ignoreErrors(new Redis.Cluster(urls, { natMap, clusterRetryStrategy: () => 200, redisOptions: { autoResendUnfulfilledCommands: false, connectTimeout: patience, socketTimeout: patience } }))
  await once(client, 'ready')
  return redisSessions(client)
}

async function nodeRedisCluster ({ redisSessions }, { urls, map }) {
  const nodeAddressMap = Object.fromEntries(Object.entries(map).map(([address, port]) => [address, { host: '127.0.0.1', port }]))
  const client = ignoreErrors(createCluster({ rootNodes: urls.map((url) => ({ url })), nodeAddressMap, defaults: { socket: nodeRedisSocket } }))
  await client.connect()
  return redisSessions(client)
}

async function nodePostgres ({ postgresSessions }, { url }) {
  return postgresSessions(ignoreErrors(new pg.Pool({ connectionString: url, connectionTimeoutMillis: patience, query_timeout: patience })))
}

async function postgresJs ({ postgresSessions }, { url }) {
  // Its query for types ends the process where the connection is reset meanwhile.
  return postgresSessions(postgres(url, { connect_timeout: 4, fetch_types: false, onnotice: () => {} }))
}

/** By kind of database, the clients that processes use by turns. */
export const clients = {
  redis: [ioredis, nodeRedis],
  'redis-cluster': [ioredisCluster, nodeRedisCluster],
  postgres: [nodePostgres, postgresJs]
}
