// @alone @waits
/** The store in Redis keeps the contract of stores with each client, on one server and on a cluster. */
import { Cluster as IovalkeyCluster, Redis as Iovalkey } from 'iovalkey'
import { Cluster, Redis } from 'ioredis'
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis-5'
import { createClient, createCluster } from 'redis'
import { createClient as createClient5, createCluster as createCluster5 } from 'redis-5'
import t from 'tap'
import { redisSessions, type IoredisLike, type NodeRedisLike } from '../../../lib/index.ts'
import { skip, startDatabase } from '../../database.ts'
import { keepsRules } from '../../sessions/stores/rules.ts'

/** A connected client, and how it is closed. */
interface Connection { client: IoredisLike | NodeRedisLike, close: () => unknown }

interface Emitter { on (event: 'ready' | 'error', listener: () => void): unknown }

/** What a client reports while a server is down. */
const ignoreErrors = (client: Emitter) => { client.on('error', () => {}) }

async function ioredis (client: IoredisLike & Emitter & { disconnect (): void }): Promise<Connection> {
  ignoreErrors(client)
  await new Promise<void>((resolve) => { client.on('ready', resolve) })
  return { client, close: () => client.disconnect() }
}

async function nodeRedis (client: NodeRedisLike & Emitter & { connect (): Promise<unknown>, destroy (): unknown }): Promise<Connection> {
  ignoreErrors(client)
  await client.connect()
  return { client, close: () => client.destroy() }
}

const places = (urls: readonly string[]) => urls.map((url) => ({ host: '127.0.0.1', port: Number(new URL(url).port) }))
const rootNodes = (urls: readonly string[]) => ({ rootNodes: urls.map((url) => ({ url })) })

const clients: Record<string, (url: string) => Promise<Connection>> = {
  'ioredis 6': async (url) => await ioredis(new Redis(url)),
  'ioredis 5': async (url) => await ioredis(new Redis5(url)),
  'ioredis 6 with a prefix of its own': async (url) => await ioredis(new Redis(url, { keyPrefix: 'app:' })),
  iovalkey: async (url) => await ioredis(new Iovalkey(url)),
  'node-redis 6': async (url) => await nodeRedis(createClient({ url })),
  'node-redis 6 with RESP 3': async (url) => await nodeRedis(createClient({ url, RESP: 3 })),
  'node-redis 5': async (url) => await nodeRedis(createClient5({ url }))
}

const clusters: Record<string, (urls: readonly string[]) => Promise<Connection>> = {
  'ioredis 6': async (urls) => await ioredis(new Cluster(places(urls))),
  'ioredis 5': async (urls) => await ioredis(new Cluster5(places(urls))),
  iovalkey: async (urls) => await ioredis(new IovalkeyCluster(places(urls))),
  'node-redis 6': async (urls) => await nodeRedis(createCluster(rootNodes(urls))),
  'node-redis 5': async (urls) => await nodeRedis(createCluster5(rootNodes(urls)))
}

// Promise: specification/redissessions-2
t.test('the store in Redis keeps every rule of the contract of stores, with each client', { skip: skip.redis }, async (t) => {
  const server = await startDatabase(t, 'redis', '--appendonly', 'yes', '--appendfsync', 'always')
  for (const [name, open] of Object.entries(clients)) {
    await t.test(name, async (t) => {
      const { client, close } = await open(server.url)
      t.teardown(close)
      await keepsRules(t, redisSessions(client), server)
    })
  }
})

// Promise: specification/redissessions-2
t.test('the store in a cluster of three Redis servers keeps every rule of the contract of stores, with each client', { skip: skip.redis }, async (t) => {
  const server = await startDatabase(t, 'redis-cluster', '--appendonly', 'yes', '--appendfsync', 'always')
  for (const [name, open] of Object.entries(clusters)) {
    await t.test(name, async (t) => {
      const { client, close } = await open(server.urls)
      t.teardown(close)
      await keepsRules(t, redisSessions(client), server)
    })
  }
})
