/** What a store has not written of what it was told in one call, because other transactions hold it. The rest it has written. */
export class NotWritten extends Error {
  readonly items: ReadonlySet<unknown>

  constructor (items: readonly unknown[], options: ErrorOptions) {
    super(`${items.length} of the sessions are locked by other transactions.`, options)
    this.items = new Set(items)
  }
}

/** Returns the items of the error of a call of a store. @throws every other error */
export function itemsNotWritten (error: unknown): ReadonlySet<unknown> {
  const { cause } = Object(error)
  if (cause instanceof NotWritten) return cause.items
  throw error
}
