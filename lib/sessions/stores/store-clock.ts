/** The time limit of store calls, by the clock of the database server. */

/** The time after which a call of a store is given up, in milliseconds. */
export const storeTimeoutMs = 5000

/**
 * An estimate of the clock of a database server. Client libraries queue calls while there is no connection, no free one, or
 * no answer, and execute them later, some of them much later. A late rotation would retire the refresh token that the
 * client still has, and a late logout of all sessions would end those of later logins. So each call that writes has a
 * deadline by the clock of the server, which the server checks. If the clock is ahead of the estimate, a call costs another
 * round trip. If it is behind, the deadline is too late until the next poll.
 */
export class StoreClock {
  /** The time of the server minus `performance.now()`. Usually a little less than the real difference, because an answer takes time. */
  #difference: number | undefined

  /** @param time of the server, in milliseconds since 1970, in an answer that has just arrived */
  learn (time: number): void {
    // The caller refuses any other value, which is no answer of a server.
    if (Number.isFinite(time)) this.#difference = time - performance.now()
  }

  /** @param time of the server, in milliseconds since 1970 @returns how many milliseconds ago that was; Infinity without an estimate */
  age (time: number): number {
    const age = this.#difference === undefined ? Infinity : performance.now() + this.#difference - time
    return Number.isNaN(age) ? Infinity : Math.max(age, 0)
  }

  /** @param start of the call, by `performance.now()` @returns when the server must refuse the call; 0 without an estimate */
  deadline (start: number): number {
    return this.#difference === undefined ? 0 : Math.floor(start + this.#difference + storeTimeoutMs)
  }

  /** Called after the server has refused a call as late. Throws if the time limit is over; otherwise, the caller tries again. */
  requireTime (start: number): void {
    if (performance.now() - start >= storeTimeoutMs) {
      throw new Error(`The call reached the database after more than ${storeTimeoutMs / 1000} seconds, and was not executed.`)
    }
  }
}
