/** The time limit of a call, by the clock of a database. */

/** In milliseconds: after this time, a call of a store is given up. */
export const storeTimeoutMs = 5000

/**
 * What is known of the clock of a database server. Client libraries keep calls while there is no connection, no free one, or no
 * answer, and execute them later, some of them much later. A rotation after its call was given up would retire the refresh
 * token that the client still has, and a logout of all sessions would end those of later logins. So each call that writes
 * carries a deadline by the clock of the server, which the server checks. A clock that is ahead of what is known of it costs
 * another round trip. One that is behind prolongs the deadline until the next poll.
 */
export class StoreClock {
  /** The time of the server minus `performance.now()`. Usually a little less than the real difference, because an answer takes time. */
  #difference: number | undefined

  /** @param time of the server, in milliseconds since 1970, in an answer that has just arrived */
  learn (time: number): void {
    // Otherwise it is no answer of a server, and is refused elsewhere.
    if (Number.isFinite(time)) this.#difference = time - performance.now()
  }

  /** @param time of the server, in milliseconds since 1970 @returns how many milliseconds ago that was; Infinity where nothing is known */
  age (time: number): number {
    const age = this.#difference === undefined ? Infinity : performance.now() + this.#difference - time
    return Number.isNaN(age) ? Infinity : Math.max(age, 0)
  }

  /** @param start of the call, by `performance.now()` @returns when the server must refuse it; 0 where its time is not known yet */
  deadline (start: number): number {
    return this.#difference === undefined ? 0 : Math.floor(start + this.#difference + storeTimeoutMs)
  }

  /** Called where the server refused a call. Throws unless there is time left to call again. */
  requireTime (start: number): void {
    if (performance.now() - start >= storeTimeoutMs) throw new Error(`The call reached the database after more than ${storeTimeoutMs / 1000} seconds, and was not executed.`)
  }
}
