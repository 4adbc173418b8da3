/** How a store of this package closes the connections that it has opened. */

/** A global symbol, so that the stores of one copy of this package work with another copy. */
export const closeStore = Symbol.for('fastify-token-auth.close')

/** A store whose method is called when the last application that uses it closes. The store can be used again afterwards. */
export type Closable<Store> = Store & { [closeStore]? (): void }
