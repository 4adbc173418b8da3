/** Tests of session stores, one for each rule of their contract. */
import type { MaybePromise } from '../../types/handlers.ts'
import type { SessionStore } from '../../types/sessions.ts'
import { Bench, type SessionStoreTestOptions } from './bench.ts'
import { rulesOfEnds, unreachable } from './rules-of-ends.ts'
import { rulesOfFamilies } from './rules-of-families.ts'
import { rulesOfUse } from './rules-of-use.ts'

export type { SessionStoreTestOptions } from './bench.ts'

/** A test, for any test runner. */
export interface SessionStoreTest {
  /** The rule that is tested. */
  name: string
  /** Runs the test. Rejects with an `AssertionError` of `node:assert` if the store breaks the rule. */
  run (): Promise<void>
}

/**
 * Creates the tests of a session store, for any test runner:
 *
 * ```js
 * for (const { name, run } of sessionStoreTests(() => new MyStore(database))) test(name, run)
 * ```
 *
 * The tests use random user ids, so they can share a database with others. Some wait for windows of 100 milliseconds, and of
 * more if the machine is slow.
 * @param make returns the store to test; called by each test
 */
export function sessionStoreTests (make: () => MaybePromise<SessionStore>, options: SessionStoreTestOptions = {}): SessionStoreTest[] {
  return Object.entries({ ...rulesOfUse, ...rulesOfFamilies, ...rulesOfEnds })
    .filter(([name]) => name !== unreachable || options.interrupt !== undefined)
    .map(([name, run]) => ({ name, run: async () => await run(new Bench(await make(), options.concurrency ?? 100), options) }))
}
