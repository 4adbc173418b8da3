/** The ids of ended sessions. */

/** Session ids, and when each was last reported. */
export class EndedIds {
  readonly #ids = new Map<string, number>()

  has (sid: string): boolean {
    return this.#ids.has(sid)
  }

  /** @param at when the session was reported: an integer, which a `Map` stores in less memory. The latest time is kept. */
  add (sid: string, at: number): void {
    this.#ids.set(sid, Math.max(at, this.#ids.get(sid) ?? at))
  }

  /** Iterates over the ids and times, including those that are added during the iteration. */
  entries (): IterableIterator<[sid: string, at: number]> {
    return this.#ids.entries()
  }
}
