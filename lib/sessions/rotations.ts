/** Records rotations while a page with renewed tokens is rendered: a later rotation in this process may retire these tokens. */
import { BoundedMap } from '../bounded-map.ts'

/** The maximum number of sessions in memory. */
const remembered = 20_000

export class Rotations {
  readonly #latest = new BoundedMap<string, number>(remembered / 2)

  /** Returns the latest generation to which a session has rotated since the first call for this session; 0 without a rotation. */
  latestOf (sid: string): number {
    const latest = this.#latest.get(sid) ?? 0
    this.#latest.set(sid, latest)
    return latest
  }

  /** Records that a session has rotated to a generation. Not for siblings, which retire no generation. */
  note (sid: string, n: number): void {
    const latest = this.#latest.get(sid)
    if (latest !== undefined && n > latest) this.#latest.set(sid, n)
  }
}
