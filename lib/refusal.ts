/** Why a request is refused. An error is made of it only where a host will see one: most refusals are only rendered. */
import type { TokenAuthError } from './errors.ts'

/** A refusal that always says the same: made once where it can be, rendered without a new error. */
export class Refusal {
  readonly #make: (reason: string | undefined) => TokenAuthError
  #shared: Readonly<TokenAuthError> | undefined
  /** What was wrong, in words for the developer; undefined where the message says it. Never a part of the token. */
  readonly reason: string | undefined

  constructor (make: (reason: string | undefined) => TokenAuthError, reason?: string) {
    this.#make = make
    this.reason = reason
  }

  /** An error of its own for each who asks: a host may keep and change it. */
  toError (): TokenAuthError {
    return this.#make(this.reason)
  }

  /** The same error each time, frozen: for this library to render, never for a host. */
  get shared (): Readonly<TokenAuthError> {
    if (this.#shared === undefined) {
      const error = this.#make(this.reason)
      Object.freeze(error.headers)
      this.#shared = Object.freeze(error)
    }
    return this.#shared
  }
}
