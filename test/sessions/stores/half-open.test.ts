/** Connections that are open and dead, as behind a proxy or a NAT that has forgotten them: new connections work. */
import { setTimeout as wait } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import t, { type Test } from 'tap'
import { postgresSessions, redisSessions, type SessionStore } from '../../../lib/index.ts'
import { Network, skip, startDatabase } from '../../database.ts'
import { poolOf, postgresBackend } from './backends.ts'

const rules = { graceMs: 30_000, idleMs: 3_600_000, keepMs: 3_600_000, maxPerUser: 10 }

async function ioredis (t: Test, url: string, options: object): Promise<SessionStore> {
  const client = new Redis(url, options)
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  await new Promise<void>((resolve) => { client.once('ready', () => resolve()) })
  return redisSessions(client)
}

async function nodeRedis (t: Test, url: string, socket: object): Promise<SessionStore> {
  const client = createClient({ url, socket })
  client.on('error', () => {})
  t.teardown(() => client.destroy())
  await client.connect()
  return redisSessions(client)
}

const reconnectStrategy = (retries: number) => Math.min(50 * 2 ** retries, 2000)

/** By client: with the options of docs/stores.md, and with some that lack one of them. */
const clients: Record<string, { skip: string | false, recovers: boolean, open: (t: Test, url: string) => Promise<SessionStore> }> = {
  ioredis: { skip: skip.redis, recovers: true, open: async (t, url) => await ioredis(t, url, { autoResendUnfulfilledCommands: false, socketTimeout: 3000 }) },
  'ioredis without socketTimeout': { skip: skip.redis, recovers: false, open: async (t, url) => await ioredis(t, url, {}) },
  'node-redis': { skip: skip.redis, recovers: true, open: async (t, url) => await nodeRedis(t, url, { socketTimeout: 3000, reconnectStrategy }) },
  'node-redis without reconnectStrategy': { skip: skip.redis, recovers: false, open: async (t, url) => await nodeRedis(t, url, { socketTimeout: 3000 }) },
  pg: { skip: skip.postgres, recovers: true, open: async (t, url) => postgresSessions(poolOf(t, url, { connectionTimeoutMillis: 4000, query_timeout: 4000, max: 2 })) },
  'pg without query_timeout': { skip: skip.postgres, recovers: false, open: async (t, url) => postgresSessions(poolOf(t, url, { connectionTimeoutMillis: 4000, max: 2 })) }
}

/**
 * Polls as an instance does that nobody else uses, one poll after the other, until a poll is good. node-redis takes what it
 * sends for a sign of life.
 * @returns after how many milliseconds that was; undefined for never
 */
async function recovery (store: SessionStore, polls: number): Promise<number | undefined> {
  const start = performance.now()
  for (let count = 0; count < polls; count++) {
    const poll = store.endedSince('0', rules).then(() => true, () => false)
    if (await Promise.race([poll, wait(5000, false)])) return performance.now() - start
    await wait(1000)
  }
  return undefined
}

for (const [name, { skip, recovers, open }] of Object.entries(clients)) {
  t.test(`${name}: ${recovers ? 'recovers by itself from' : 'does not recover from'} connections that are open and dead`, { skip }, async (t) => {
    const isPostgres = name.startsWith('pg')
    const server = isPostgres ? (await postgresBackend(t)).server : await startDatabase(t, 'redis')
    const network = await Network.to(t, server.url)
    const store = await open(t, network.url)
    await Promise.all([1, 2].map(async (user) => await store.create({ sid: `sid ${user}`, user: String(user), lifetimeMs: 3_600_000, data: '{}' }, rules)))
    network.swallow()
    // Both connections of a pool.
    await Promise.race([wait(100), Promise.allSettled([store.list('1', rules), store.list('2', rules)])])
    const after = await recovery(store, recovers ? 20 : 2)
    t.equal(after !== undefined, recovers, `after ${after === undefined ? 'never' : Math.round(after)} ms`)
    t.comment(`${name}: ${after === undefined ? 'never' : `${Math.round(after)} ms`}`)
    if (recovers) t.match(await store.advance('1', 'sid 1', 0, rules), { outcome: 'rotated' })
    network.cut()
  })
}
