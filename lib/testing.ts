/**
 * For the tests of applications, exported as `fastify-token-auth/testing`: access tokens in any state, hostile requests to
 * a route, and the tests of a session store.
 * @module fastify-token-auth/testing
 */
export { attack, type AttackOptions, type AttackTarget } from './testing/attack/attack.ts'
export type { AttackedRequest } from './testing/attack/carrier.ts'
export type { AttackKey } from './testing/attack/jws.ts'
export type { AttackReport, AttackResponse, AttackRow } from './testing/attack/report.ts'
export { sessionStoreTests, type SessionStoreTest, type SessionStoreTestOptions } from './testing/session-store.ts'
export { createTestToken, type TestTokenOptions, type TokenState } from './testing/test-token.ts'
