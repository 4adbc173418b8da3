/** Controllers that are aborted when something ends: a session, or a key. */

/** Keeps only weak references to the controllers, so that unused controllers are garbage-collected. */
export class WatchedControllers<Key> {
  readonly #watching = new Map<Key, Set<WeakRef<AbortController>>>()
  readonly #collected = new FinalizationRegistry<{ key: Key, reference: WeakRef<AbortController> }>(({ key, reference }) => {
    const watching = this.#watching.get(key)
    watching?.delete(reference)
    if (watching?.size === 0) this.#watching.delete(key)
  })

  add (key: Key, controller: AbortController): void {
    const watching = this.#watching.get(key) ?? new Set()
    const reference = new WeakRef(controller)
    this.#watching.set(key, watching.add(reference))
    this.#collected.register(controller, { key, reference })
  }

  /** @param createReason called for each controller, because listeners may keep and change the error */
  abort (key: Key, createReason: () => Error): void {
    for (const reference of this.#watching.get(key) ?? []) reference.deref()?.abort(createReason())
    this.#watching.delete(key)
  }
}
