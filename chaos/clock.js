/** The time of a run. */
import { setMaxListeners } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'

export class RunClock {
  #over = new AbortController()

  constructor () {
    // One for each pause.
    setMaxListeners(0, this.#over.signal)
  }

  get isOver () {
    return this.#over.signal.aborted
  }

  end () {
    this.#over.abort()
  }

  /** Ends early when the run is over. */
  async pause (milliseconds) {
    if (milliseconds > 0) await wait(milliseconds, undefined, { signal: this.#over.signal }).catch(() => {})
  }
}
