/** The rotations that this process has seen while a page is rendered that has renewed its tokens: they may retire those. */
import { Generations } from '../generations.ts'

/** Of how many sessions they are known, half of them in each of two parts. */
const remembered = 20_000

export class Rotations {
  readonly #latest = new Generations<string, number>(remembered / 2)

  /** Returns the latest generation to which a session was seen to rotate since this was first asked; 0 if none was. */
  latestOf (sid: string): number {
    const latest = this.#latest.get(sid) ?? 0
    this.#latest.set(sid, latest)
    return latest
  }

  /** Notes that a session has rotated to a generation. A sibling, which retires none, is no rotation. */
  note (sid: string, n: number): void {
    const latest = this.#latest.get(sid)
    if (latest !== undefined && n > latest) this.#latest.set(sid, n)
  }
}
