/** The ids of ended sessions. */

/** Session ids, and when each was last reported. */
export class EndedIds {
  readonly #ids = new Map<string, number>()

  has (sid: string): boolean {
    return this.#ids.has(sid)
  }

  /** @param at when the session was reported, as a whole number: a `Map` has these in less memory than others. The latest time counts. */
  add (sid: string, at: number): void {
    this.#ids.set(sid, Math.max(at, this.#ids.get(sid) ?? at))
  }

  /** The ids with their times, those as well that are added meanwhile. */
  entries (): IterableIterator<[sid: string, at: number]> {
    return this.#ids.entries()
  }
}
