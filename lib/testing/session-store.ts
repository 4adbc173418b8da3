/** Tests for a store of sessions: one for each rule that a store must keep. */
import type { MaybePromise } from '../../types/handlers.ts'
import type { SessionStore } from '../../types/sessions.ts'
import { Bench, type SessionStoreTestOptions } from './bench.ts'
import { rulesOfEnds } from './rules-of-ends.ts'
import { rulesOfUse } from './rules-of-use.ts'

export type { SessionStoreTestOptions } from './bench.ts'

/** A test for any runner. */
export interface SessionStoreTest {
  /** The rule that the store must keep. */
  name: string
  /** Resolves where the store keeps the rule, and rejects with an `AssertionError` where it does not. */
  run (): Promise<void>
}

/**
 * Tests for a store of sessions, for any runner: `for (const { name, run } of sessionStoreTests(make)) test(name, run)`.
 *
 * They create users of their own, so the database may be in use by other tests. They wait for windows of 100 milliseconds,
 * and for longer ones where the machine is slow.
 * @param make gives a store; called when a test runs
 */
export function sessionStoreTests (make: () => MaybePromise<SessionStore>, options: SessionStoreTestOptions = {}): SessionStoreTest[] {
  return Object.entries({ ...rulesOfUse, ...rulesOfEnds }).map(([name, run]) => ({
    name,
    run: async () => await run(new Bench(await make(), options.concurrency ?? 100), options)
  }))
}
