/** The documents to which messages lead. They are in the package, so that they are those of the version that is used. */

/** The pages of the documents on which wrong configurations are looked up, with the anchors of their chapters. */
export type Page =
  | 'events.md#logs' | 'guards.md' | 'guards.md#pages' | 'guards.md#require-guards' | 'guards.md#scopes' | 'instances.md' | 'issuers.md' | 'keys.md'
  | 'reference.md#handlers' | 'reference.md#members-of-an-instance' | 'reference.md#responses' | 'sessions-reference.md#settings' | 'settings.md' | 'stores.md' | 'testing.md' | 'testing.md#jest'

/** Relative to the project of the application, so that editors and terminals can open it. No full stop follows, because they would take it for a part of the path. */
const documents = 'node_modules/fastify-token-auth/docs/'

/** The text of an error with the page on which to look it up. */
export const withPage = (message: string, page: Page | undefined) => page === undefined ? message : `${message} See ${documents}${page}`

/**
 * The text of a finding with the page that says its cause and what to do.
 * @param code such as `E01` or `W01`
 */
export const withFinding = (message: string, code: string): string => `${message} See ${documents}findings.md#token_auth_${code.toLowerCase()}`
