/**
 * A bounded cache of two maps. When the young map is full, it replaces the old map, and the entries of the old map are lost.
 * Reading an entry moves it to the young map. The total weight of all entries is at most twice `size`.
 */
export class BoundedMap<Key, Value> {
  readonly #size: number
  readonly #weightOf: (value: Value) => number
  /** The total weight of the young map. */
  #weight = 0
  #young = new Map<Key, Value>()
  #old = new Map<Key, Value>()

  /** @param size the maximum weight of one map @param weightOf the weight of an entry; 1 by default */
  constructor (size: number, weightOf: (value: Value) => number = () => 1) {
    this.#size = size
    this.#weightOf = weightOf
  }

  get (key: Key): Value | undefined {
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const old = this.#old.get(key)
    if (old !== undefined) this.set(key, old)
    return old
  }

  delete (key: Key): void {
    this.#forget(key)
    this.#old.delete(key)
  }

  #forget (key: Key): void {
    const young = this.#young.get(key)
    if (young === undefined) return
    this.#young.delete(key)
    this.#weight -= this.#weightOf(young)
  }

  set (key: Key, value: Value): void {
    this.#forget(key)
    const weight = this.#weightOf(value)
    if (this.#weight > 0 && this.#weight + weight > this.#size) {
      this.#old = this.#young
      this.#young = new Map()
      this.#weight = 0
    }
    this.#weight += weight
    this.#young.set(key, value)
  }
}
