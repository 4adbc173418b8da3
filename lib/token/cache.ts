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

  set (key: Key, value: Value): void {
    if (this.#young.size >= this.#size && !this.#young.has(key)) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, value)
  }
}

/**
 * A number of 32 bits from the last characters of a token: a part of its signature, hence as good as random and nobody's
 * choice. A hash of it all would cost ten times more, and a part of the text as a key would keep all of that.
 */
function markOf (token: string): number {
  let mark = 0
  for (let index = token.length - 12; index < token.length; index++) mark = (Math.imul(mark, 67) + token.charCodeAt(index)) | 0
  return mark
}

/** As many slots as 16 bits can tell apart: a mark's lower half is its slot, its upper half is what is kept there. */
const filterSlots = 2 ** 16
const half = 0xffff
/** How many tokens that are not remembered may come between two sights of one, in multiples of the memory's size. */
const patience = 8

/**
 * Remembers verified tokens. Only tokens whose signature was right may be put in, so that nobody can push out valid ones
 * with bad ones. Once it has been full, a token is remembered when it is seen for the second time before it would have
 * been forgotten long since: tokens that come once, or as rarely, neither cost the insertion nor push out those that
 * come often.
 */
export class TokenCache<Entry extends { readonly token: string }> {
  readonly #entries: Generations<number, Entry>
  #room: number
  /** For each slot half a mark and the period in which it was seen, made when it is needed. */
  #seen: Int32Array | undefined
  #sights = 0
  /** How many sights make a period. */
  readonly #period: number

  constructor (size: number) {
    this.#entries = new Generations(size)
    this.#room = size
    this.#period = size * patience
  }

  get (token: string): Entry | undefined {
    const entry = this.#entries.get(markOf(token))
    // The whole token is compared: many tokens may have one mark.
    return entry !== undefined && entry.token === token ? entry : undefined
  }

  /** Whether a token that was just verified is worth remembering. */
  admits (token: string): boolean {
    if (this.#room > 0) return true
    this.#seen ??= new Int32Array(filterSlots)
    const period = Math.floor(this.#sights++ / this.#period) & half
    const mark = markOf(token)
    const before = this.#seen[mark & half]!
    this.#seen[mark & half] = (mark & ~half) | period
    // In this period or the last. A mistake, one in thousands, remembers a token at its first sight.
    return before >>> 16 === mark >>> 16 && ((period - before) & half) <= 1
  }

  set (entry: Entry): void {
    if (this.#room > 0) this.#room--
    this.#entries.set(markOf(entry.token), entry)
  }
}
