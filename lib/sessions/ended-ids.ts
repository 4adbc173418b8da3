/** The ids of ended sessions. */

/** At least so many bits for each id: then at most one in 16 lookups of other ids reaches the set. */
const bitsPerId = 16
const bitsPerWord = 32
const leastWords = 32

/** A number of 32 bits from some of the characters of a session id, which are random. */
function markOf (sid: string): number {
  let mark = 0
  for (let index = 0; index < 12; index++) mark = (Math.imul(mark, 67) + sid.charCodeAt(index)) | 0
  return mark
}

/** The word of a mark. Its lowest five bits are the place in the word, which is what `<<` looks at. */
const wordOf = (mark: number, words: Uint32Array) => (mark >>> 5) & (words.length - 1)

/** Sets the bit of an id in a bit map. */
function setBit (words: Uint32Array, sid: string): void {
  const mark = markOf(sid)
  const word = wordOf(mark, words)
  words[word] = words[word]! | 1 << mark
}

/**
 * Session ids, and when each was last reported. Nearly all lookups are of sessions that have not ended. A bit map finds that
 * out with one access to memory. A `Map` of a million texts needs several, which together take a tenth of the time of a
 * guarded request.
 */
export class EndedIds {
  readonly #ids = new Map<string, number>()
  /** A power of two of words. The bit of each id is set. */
  #words: Uint32Array

  /** @param expected how many ids there will be, so that the bit map need not grow */
  constructor (expected = 0) {
    this.#words = this.#map(expected)
  }

  has (sid: string): boolean {
    const mark = markOf(sid)
    return (this.#words[wordOf(mark, this.#words)]! & 1 << mark) !== 0 && this.#ids.has(sid)
  }

  /** @param at when the session was reported, as a whole number: a `Map` has these in less memory than others. The latest time counts. */
  add (sid: string, at: number): void {
    this.#ids.set(sid, Math.max(at, this.#ids.get(sid) ?? at))
    if (this.#ids.size * bitsPerId <= this.#words.length * bitsPerWord) setBit(this.#words, sid)
    else this.#words = this.#map()
  }

  /** The ids with their times, those as well that are added meanwhile. */
  entries (): IterableIterator<[sid: string, at: number]> {
    return this.#ids.entries()
  }

  /** Returns a bit map of all ids, of the least size that is enough for them and for as many as are expected. */
  #map (expected = 0): Uint32Array {
    const count = Math.max(this.#ids.size, expected)
    let words = leastWords
    while (words * bitsPerWord < count * bitsPerId) words *= 2
    const map = new Uint32Array(words)
    for (const sid of this.#ids.keys()) setBit(map, sid)
    return map
  }
}
