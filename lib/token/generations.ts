/**
 * A bounded memory in two generations: what was used lately is in the young one; when that is full it becomes the old
 * one, and what nobody asked for since is forgotten. It holds up to twice `size` entries.
 */
export class Generations<Key, Value> {
  readonly #size: number
  #young = new Map<Key, Value>()
  #old = new Map<Key, Value>()

  constructor (size: number) {
    this.#size = size
  }

  get (key: Key): Value | undefined {
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const old = this.#old.get(key)
    if (old !== undefined) this.set(key, old)
    return old
  }

  delete (key: Key): void {
    this.#young.delete(key)
    this.#old.delete(key)
  }

  set (key: Key, value: Value): void {
    if (this.#young.size >= this.#size && !this.#young.has(key)) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, value)
  }
}
