/** A clock for a server whose sessions must expire during a soak. */

/**
 * Replaces `Date.now` and the timers of this process.
 * @returns a function that lets milliseconds pass. Otherwise, no time passes
 */
export function replaceClock () {
  const start = Date.now()
  const timers = new Set()
  let passed = 0
  Date.now = () => start + passed
  globalThis.setTimeout = (callback, milliseconds, ...parameters) => {
    const timer = { at: passed + milliseconds, run: () => callback(...parameters), unref: () => timer }
    timers.add(timer)
    return timer
  }
  globalThis.clearTimeout = (timer) => { timers.delete(timer) }
  return (milliseconds) => {
    passed += milliseconds
    for (const timer of timers) {
      if (timer.at > passed) continue
      timers.delete(timer)
      timer.run()
    }
  }
}
