/** The documents to which messages refer. They are part of the package, so they match the installed version. */

/** The pages of the documents to which messages refer, some with the anchor of a chapter. */
export type Page =
  | 'events.md#logs'
  | 'guards.md'
  | 'guards.md#pages'
  | 'guards.md#require-guards'
  | 'guards.md#scopes'
  | 'instances.md'
  | 'issuers.md'
  | 'keys.md'
  | 'reference.md#handlers'
  | 'reference.md#members-of-an-instance'
  | 'reference.md#responses'
  | 'sessions-reference.md#settings'
  | 'settings.md'
  | 'stores.md'
  | 'testing.md'
  | 'testing.md#jest'

/** Relative to the application, so that editors and terminals can open it. No full stop follows: it would become a part of the path. */
const documents = 'node_modules/fastify-token-auth/docs/'

/** Appends the path of a page to a message. */
export const withPage = (message: string, page: Page | undefined) => page === undefined ? message : `${message} See ${documents}${page}`

/**
 * Appends the path of the chapter of a finding to a message.
 * @param code such as `E01` or `W01`
 */
export const withFinding = (message: string, code: string): string =>
  `${message} See ${documents}findings.md#token_auth_${code.toLowerCase()}`
