/**
 * A bounded memory in two generations: what was used lately is in the young one; when that is full it becomes the old
 * one, and what nobody asked for since is forgotten. It holds entries with up to twice `size` as their weight.
 */
export class Generations<Key, Value> {
  readonly #size: number
  readonly #weightOf: (value: Value) => number
  /** Of the young ones. */
  #weight = 0
  #young = new Map<Key, Value>()
  #old = new Map<Key, Value>()

  /** @param weightOf 1 for each entry by default */
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
