import { setTimeout } from 'node:timers/promises'
import type { Test } from 'tap'
import type { SessionStore } from '../../../lib/index.ts'
import { sessionStoreTests } from '../../../lib/testing.ts'
import type { Database } from '../../database.ts'

const anyRules = { graceMs: 0, idleMs: 1000, keepMs: 1000, maxPerUser: 1 }

/** Waits until a store works again. How long its client waits between two attempts to connect is not known here. */
export async function untilReachable (store: SessionStore): Promise<void> {
  for (;;) {
    try {
      await store.list('"nobody"', anyRules)
      await store.endedSince(null, anyRules)
      return
    } catch {
      await setTimeout(20)
    }
  }
}

/** Tests a store with every rule of the contract of stores, one of them while its server is down. */
export async function keepsRules (t: Test, store: SessionStore, server: Database): Promise<void> {
  const interrupt = async () => {
    await server.kill()
    return async () => {
      await server.start()
      await untilReachable(store)
    }
  }
  for (const { name, run } of sessionStoreTests(() => store, { clock: 'server', interrupt })) await t.test(name, run)
}
