/** Clients of Redis beside those that keep the contract in clients.test.ts: they work, or they are refused when the store is created. */
import { Redis as Upstash } from '@upstash/redis'
import { Cluster, Redis } from 'ioredis'
import { createClient, createClientPool, createCluster, createSentinel } from 'redis'
import { createClient as createClient5, createClientPool as createClientPool5, createCluster as createCluster5, createSentinel as createSentinel5 } from 'redis-5'
import t from 'tap'
import { redisSessions, type SessionRules } from '../../../lib/index.ts'
import { mistyped } from '../../helper.ts'
import { skip, startDatabase } from '../../database.ts'

const rules: SessionRules = { graceMs: 30_000, idleMs: 600_000, keepMs: 60_000, maxPerUser: 100 }

// Promise: specification/other-clients-refused
t.test('the client of @upstash/redis, pipelines and transactions are refused, and clients that are not connected yet are not', async (t) => {
  const ioredis = new Redis({ lazyConnect: true })
  t.teardown(() => ioredis.disconnect())
  const refused = {
    '@upstash/redis': new Upstash({ url: 'https://redis.example', token: 'token' }),
    'a pipeline of ioredis': ioredis.pipeline(),
    'a transaction of node-redis 6': createClient().multi(),
    'a transaction of node-redis 5': createClient5().multi(),
    'legacy() of node-redis 6': createClient().legacy(),
    'legacy() of node-redis 5': createClient5().legacy()
  }
  for (const [name, client] of Object.entries(refused)) {
    t.throws(() => redisSessions(mistyped(client)), { message: /given: an object that executes scripts and has no connection, .+ Connect one of these clients to the same database\./ }, name)
  }
  const rootNodes = [{ url: 'redis://127.0.0.1:1' }]
  const sentinels = { name: 'shop', sentinelRootNodes: [{ host: '127.0.0.1', port: 1 }] }
  const accepted = {
    ioredis,
    'a cluster of ioredis': new Cluster([{ host: '127.0.0.1', port: 1 }], { lazyConnect: true }),
    'node-redis 6': createClient(),
    'a pool of node-redis 6': createClientPool(),
    'a cluster of node-redis 6': createCluster({ rootNodes }),
    'a sentinel of node-redis 6': createSentinel(sentinels),
    'node-redis 5': createClient5(),
    'a pool of node-redis 5': createClientPool5(),
    'a cluster of node-redis 5': createCluster5({ rootNodes }),
    'a sentinel of node-redis 5': createSentinel5(sentinels)
  }
  for (const [name, client] of Object.entries(accepted)) {
    await t.rejects(redisSessions(mistyped(client)).list('"ada"', rules), { message: /^The Redis client is not connected: / }, name)
  }
})

// Promise: specification/other-clients-refused
t.test('a pool of node-redis keeps sessions', { skip: skip.redis }, async (t) => {
  const { url } = await startDatabase(t, 'redis')
  for (const pool of [createClientPool({ url }), createClientPool5({ url })]) {
    pool.on('error', () => {})
    await pool.connect()
    t.teardown(() => pool.destroy())
    const store = redisSessions(pool)
    t.same(await store.create({ sid: 'a', user: '"ada"', lifetimeMs: 3_600_000, data: '{}' }, rules), [])
    t.same(await store.advance('"ada"', 'a', 0, rules), { outcome: 'rotated', n: 1 })
    t.match(await store.list('"ada"', rules), [{ sid: 'a', data: '{}' }])
    t.same(await store.end('"ada"', { except: null }, rules), ['a'])
    t.ok((await store.endedSince(null, rules)).ended.includes('a'))
  }
})
