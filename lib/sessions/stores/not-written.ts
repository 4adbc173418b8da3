/** The items of a call that a store has not written, because other transactions lock their rows. It has written the others. */
export class NotWritten extends Error {
  readonly items: ReadonlySet<unknown>

  constructor (items: readonly unknown[], options: ErrorOptions) {
    super(`${items.length} of the sessions are locked by other transactions.`, options)
    this.items = new Set(items)
  }
}

/** Returns the items if a call of a store failed with {@link NotWritten}. @throws any other error */
export function itemsNotWritten (error: unknown): ReadonlySet<unknown> {
  const { cause } = Object(error)
  if (cause instanceof NotWritten) return cause.items
  throw error
}
