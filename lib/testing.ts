/**
 * For the tests of applications, exported as `fastify-token-auth/testing`: access tokens in any state, and the tests of a
 * session store.
 * @module fastify-token-auth/testing
 */
export { sessionStoreTests, type SessionStoreTest, type SessionStoreTestOptions } from './testing/session-store.ts'
export { createTestToken, type TestTokenOptions, type TokenState } from './testing/test-token.ts'
