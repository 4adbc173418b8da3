/** How a store of this package closes what it has opened itself. */

/** By `Symbol.for`, so that the stores of one copy of this package work with another one. */
export const closeStore = Symbol.for('fastify-token-auth.close')

/** A store that is called when the last application closes that uses it. It can be used again afterwards. */
export type Closable<Store> = Store & { [closeStore]? (): void }
