import { setImmediate as turn } from 'node:timers/promises'
import type { Test } from 'tap'
import type { SessionStore } from '../../../lib/index.ts'
import { sessionStoreTests } from '../../../lib/testing.ts'
import type { Database } from '../../database.ts'

const anyRules = { graceMs: 0, idleMs: 1000, keepMs: 1000, maxPerUser: 1 }

/** Waits until a store works again, or does not any more. When its client connects again, and notices that its connection is closed, is not known here. */
export async function untilReachable (store: SessionStore, isExpected = true): Promise<void> {
  const isReachable = () => Promise.all([store.list('"nobody"', anyRules), store.endedSince(null, anyRules)]).then(() => true, () => false)
  do await turn(); while (await isReachable() !== isExpected)
}

/** Tests a store with every rule of the contract of stores, one of them while its server is down. */
export async function keepsRules (t: Test, store: SessionStore, server: Database): Promise<void> {
  const interrupt = async () => {
    await server.kill()
    // ioredis keeps what it is given before it notices, for more than a minute.
    await untilReachable(store, false)
    return async () => {
      await server.start()
      await untilReachable(store)
    }
  }
  for (const { name, run } of sessionStoreTests(() => store, { clock: 'server', interrupt })) await t.test(name, run)
}
