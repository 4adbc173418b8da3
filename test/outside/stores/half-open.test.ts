// @alone @waits
/** Connections that are open and dead, as behind a proxy or a NAT that has forgotten them: new connections work. */
import { setTimeout as wait } from 'node:timers/promises'
import { Cluster, Redis } from 'ioredis'
import postgres from 'postgres'
import { createClient, createCluster } from 'redis'
import t, { type Test } from 'tap'
import { postgresSessions, redisSessions, type NodeRedisLike, type SessionStore } from '../../../lib/index.ts'
import { Network, skip, startDatabase, type Kind } from '../../database.ts'
import { poolOf, postgresBackend } from '../../sessions/stores/backends.ts'

const rules = { graceMs: 30_000, idleMs: 3_600_000, keepMs: 3_600_000, maxPerUser: 10 }

/** The servers by way of networks: their addresses, and by which address each is reached that it tells itself. */
interface Route { readonly urls: readonly string[], readonly map: Record<string, { host: string, port: number }> }
type Open = (t: Test, route: Route) => Promise<SessionStore>

async function ofIoredis (t: Test, client: Redis | Cluster): Promise<SessionStore> {
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  await new Promise<void>((resolve) => { client.once('ready', () => resolve()) })
  return redisSessions(client)
}

async function ofNodeRedis<Client extends NodeRedisLike & { on (event: 'error', listener: () => void): unknown, connect (): Promise<unknown>, destroy (): unknown }> (t: Test, client: Client): Promise<SessionStore> {
  client.on('error', () => {})
  t.teardown(() => client.destroy())
  await client.connect()
  return redisSessions(client)
}

const ioredis = (options: object): Open => async (t, { urls: [url = ''] }) => await ofIoredis(t, new Redis(url, options))
const nodeRedis = (socket: object): Open => async (t, { urls: [url = ''] }) => await ofNodeRedis(t, createClient({ url, socket }))
const nodePostgres = (options: object): Open => async (t, { urls: [url = ''] }) => postgresSessions(poolOf(t, url, { connectionTimeoutMillis: 4000, max: 2, ...options }))

async function postgresJs (t: Test, { urls: [url = ''] }: Route): Promise<SessionStore> {
  const sql = postgres(url, { connect_timeout: 4, fetch_types: false, max: 2, onnotice: () => {} })
  t.teardown(async () => await sql.end({ timeout: 0 }))
  return postgresSessions(sql)
}

const reconnectStrategy = (retries: number) => Math.min(50 * 2 ** retries, 2000)
const redisOptions = { autoResendUnfulfilledCommands: false, socketTimeout: 3000 }
const socket = { socketTimeout: 3000, reconnectStrategy }

/** By client: with the options of docs/stores.md, and with some that lack one of them. */
const clients: Record<string, { kind: Kind, recovers: boolean, open: Open }> = {
  ioredis: { kind: 'redis', recovers: true, open: ioredis(redisOptions) },
  'ioredis without socketTimeout': { kind: 'redis', recovers: false, open: ioredis({}) },
  'ioredis with a cluster': { kind: 'redis-cluster', recovers: true, open: async (t, { urls, map }) => await ofIoredis(t, new Cluster([...urls], { natMap: map, redisOptions })) },
  'node-redis': { kind: 'redis', recovers: true, open: nodeRedis(socket) },
  'node-redis without reconnectStrategy': { kind: 'redis', recovers: false, open: nodeRedis({ socketTimeout: 3000 }) },
  'node-redis with a cluster': { kind: 'redis-cluster', recovers: true, open: async (t, { urls, map }) => await ofNodeRedis(t, createCluster({ rootNodes: urls.map((url) => ({ url })), nodeAddressMap: map, defaults: { socket } })) },
  pg: { kind: 'postgres', recovers: true, open: nodePostgres({ query_timeout: 4000 }) },
  'pg without query_timeout': { kind: 'postgres', recovers: false, open: nodePostgres({}) },
  'postgres.js, which has no such option': { kind: 'postgres', recovers: false, open: postgresJs }
}

/**
 * Polls as an instance does that nobody else uses, one poll after the other, until a poll is good. node-redis takes what it
 * sends for a sign of life.
 * @returns after how many milliseconds that was; undefined for never
 */
async function recovery (store: SessionStore, polls: number): Promise<number | undefined> {
  const start = performance.now()
  for (let count = 0; count < polls; count++) {
    const poll = store.endedSince('0', rules).then(({ staleFor }) => staleFor === undefined, () => false)
    if (await Promise.race([poll, wait(5000, false)])) return performance.now() - start
    await wait(1000)
  }
  return undefined
}

for (const [name, { kind, recovers, open }] of Object.entries(clients)) {
  // Promise: databases/connection-open-dead
  t.test(`${name}: ${recovers ? 'recovers by itself from' : 'does not recover from'} connections that are open and dead`, { skip: kind === 'postgres' ? skip.postgres : skip.redis }, async (t) => {
    const { urls } = kind === 'postgres' ? (await postgresBackend(t)).server : await startDatabase(t, kind)
    const networks = await Promise.all(urls.map(async (url) => await Network.to(t, url)))
    const map = Object.fromEntries(urls.map((url, index) => [new URL(url).host, { host: '127.0.0.1', port: Number(new URL(networks[index]!.url).port) }]))
    const store = await open(t, { urls: networks.map(({ url }) => url), map })
    await Promise.all([1, 2].map(async (user) => await store.create({ sid: `sid ${user}`, user: String(user), lifetimeMs: 3_600_000, data: '{}' }, rules)))
    for (const network of networks) network.swallow()
    // Both connections of a pool.
    await Promise.race([wait(100), Promise.allSettled([store.list('1', rules), store.list('2', rules)])])
    const after = await recovery(store, recovers ? 20 : 2)
    t.equal(after !== undefined, recovers, `after ${after === undefined ? 'never' : Math.round(after)} ms`)
    t.comment(`${name}: ${after === undefined ? 'never' : `${Math.round(after)} ms`}`)
    if (recovers) t.match(await store.advance('1', 'sid 1', 0, rules), { outcome: 'rotated' })
    for (const network of networks) network.cut()
  })
}
