// @alone @waits
/** What a store in a Redis Cluster does while one of its servers cannot be reached. */
import { setTimeout as wait } from 'node:timers/promises'
import { Cluster } from 'ioredis'
import { createCluster } from 'redis'
import { createCluster as createCluster5 } from 'redis-5'
import t, { type Test } from 'tap'
import { redisSessions, type SessionStore } from '../../../lib/index.ts'
import { skip, startDatabase } from '../../database.ts'
import { redisOperator } from '../../sessions/stores/backends.ts'

const rules = { graceMs: 30_000, idleMs: 3_600_000, keepMs: 3_600_000, maxPerUser: 10 }
const users = Array.from({ length: 60 }, (_, index) => String(index))

interface NodeRedisCluster { on (event: 'error', listener: () => void): unknown, connect (): Promise<unknown>, destroy (): unknown }

async function nodeRedis<Client extends NodeRedisCluster> (t: Test, client: Client): Promise<Client> {
  client.on('error', () => {})
  await client.connect()
  t.teardown(() => client.destroy())
  return client
}

const rootNodes = (urls: readonly string[]) => ({ rootNodes: urls.map((url) => ({ url })) })

const clients: Record<string, (t: Test, urls: readonly string[]) => Promise<SessionStore>> = {
  async ioredis (t, urls) {
    const client = new Cluster(urls.map((url) => ({ host: '127.0.0.1', port: Number(new URL(url).port) })))
    client.on('error', () => {})
    t.teardown(() => client.disconnect())
    await new Promise<void>((resolve) => { client.once('ready', () => resolve()) })
    return redisSessions(client)
  },
  'node-redis 6': async (t, urls) => redisSessions(await nodeRedis(t, createCluster(rootNodes(urls)))),
  'node-redis 5': async (t, urls) => redisSessions(await nodeRedis(t, createCluster5(rootNodes(urls))))
}

/** A cluster with a session for each user, and which of them one of its servers has. */
async function setUp (t: Test, open: (t: Test, urls: readonly string[]) => Promise<SessionStore>) {
  // The other servers answer while one is down.
  const { urls } = await startDatabase(t, 'redis-cluster', '--cluster-require-full-coverage', 'no')
  const store = await open(t, urls)
  for (const user of users) await store.create({ sid: `sid ${user}`, user, lifetimeMs: 3_600_000, data: '{}' }, rules)
  const operator = redisOperator(t, urls[1]!)
  const keys = await operator.keys('*:s:*')
  const pid = Number(/process_id:(\d+)/.exec(await operator.info('server'))?.[1])
  const there = new Set(keys.map((key) => key.slice(key.indexOf('sid ') + 4)))
  return { store, pid, lost: users.filter((user) => there.has(user)), others: users.filter((user) => !there.has(user)) }
}

for (const [name, open] of Object.entries(clients)) {
  for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
    // Promise: databases/server-redis-cluster
    t.test(`${name}: while one server of a cluster ${signal === 'SIGKILL' ? 'is down' : 'hangs'}, ended sessions of the others are read, and the store says since when it has not read all`, { skip: skip.redis }, async (t) => {
      const { store, pid, lost, others } = await setUp(t, open)
      t.ok(lost.length > 0 && others.length > 0)
      const end = async (user: string) => await store.end(user, { sid: `sid ${user}` }, rules)
      const { cursor, staleFor } = await store.endedSince(null, rules)
      t.equal(staleFor, undefined)
      const [first = '', second = '', ...rest] = others
      process.kill(pid, signal)
      if (signal === 'SIGSTOP') t.teardown(() => { process.kill(pid, 'SIGCONT') })
      t.same(await end(first), [`sid ${first}`])
      const polled = await store.endedSince(cursor, rules)
      t.same(polled.ended, [`sid ${first}`])
      t.ok(Number(polled.staleFor) > 0 && Number(polled.staleFor) < 60_000, `${polled.staleFor}`)
      await end(second)
      const all = await store.endedSince(null, rules)
      t.same(all.ended.toSorted(), [`sid ${first}`, `sid ${second}`].toSorted())
      t.equal(all.staleFor, Infinity)
      t.equal((await store.endedSince(all.cursor, rules)).staleFor, Infinity)
      t.same(await store.advance(rest[0]!, `sid ${rest[0]}`, 0, rules), { outcome: 'rotated', n: 1 })
      if (signal === 'SIGKILL') return

      process.kill(pid, 'SIGCONT')
      for (;;) {
        // It is known again when it answers.
        const again = await store.endedSince(polled.cursor, rules).catch(() => undefined)
        if (again !== undefined && again.staleFor === undefined) break
        await wait(100)
      }
      await end(lost[0]!)
      for (const known of [polled.cursor, all.cursor]) t.ok((await store.endedSince(known, rules)).ended.includes(`sid ${lost[0]}`))
    })
  }
}

for (const name of ['node-redis 6', 'node-redis 5']) {
  t.test(`${name}: a refresh of a session on a server that is down rejects at once, although the cluster looks ready`, { skip: skip.redis }, async (t) => {
    const { store, pid, lost, others } = await setUp(t, clients[name]!)
    process.kill(pid, 'SIGKILL')
    const message = 'The Redis client is not connected: the server of the cluster that has the session is not ready. It connects again by itself, but if it never was connected, call its method connect().'
    const refuse = async () => await store.advance(lost[0]!, `sid ${lost[0]}`, 0, rules).then(String, (error: unknown) => error instanceof Error ? error.message : '')
    // The client notices a little later.
    while (await refuse() !== message) await wait(10)
    for (const user of lost) await t.rejects(store.advance(user, `sid ${user}`, 0, rules), { message })
    for (const user of others) t.same(await store.advance(user, `sid ${user}`, 0, rules), { outcome: 'rotated', n: 1 })
  })
}

t.test('a cluster of which no server can be reached rejects', { skip: skip.redis }, async (t) => {
  const server = await startDatabase(t, 'redis-cluster')
  const store = await clients['node-redis 6']!(t, server.urls)
  const { cursor } = await store.endedSince(null, rules)
  await server.kill()
  await t.rejects(store.endedSince(cursor, rules))
  await t.rejects(store.endedSince(null, rules))
})
