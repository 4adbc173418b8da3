// @waits @slow
/** The store in Redis keeps the contract of stores. test/outside/stores/ has further clients, and clusters. */
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import t from 'tap'
import { redisSessions, type IoredisLike, type NodeRedisLike } from '../../../lib/index.ts'
import { skip, startDatabase } from '../../database.ts'
import { keepsRules } from './rules.ts'

/** A connected client, and how it is closed. */
interface Connection { client: IoredisLike | NodeRedisLike, close: () => unknown }

const clients: Record<string, (url: string) => Promise<Connection>> = {
  async ioredis (url) {
    const client = new Redis(url)
    // What a client reports while a server is down.
    client.on('error', () => {})
    await new Promise<void>((resolve) => { client.once('ready', () => resolve()) })
    return { client, close: () => client.disconnect() }
  },
  async 'node-redis' (url) {
    const client = createClient({ url })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => client.destroy() }
  }
}

t.test('the store in Redis keeps every rule of the contract of stores', { skip: skip.redis }, async (t) => {
  const server = await startDatabase(t, 'redis', '--appendonly', 'yes', '--appendfsync', 'always')
  for (const [name, open] of Object.entries(clients)) {
    await t.test(name, async (t) => {
      const { client, close } = await open(server.url)
      t.teardown(close)
      await keepsRules(t, redisSessions(client), server)
    })
  }
})
