/**
 * Why a request is not let through, before that is an error. To make an error costs more than all else that a refusal
 * takes, also without a stack trace, and most refusals are only rendered: an error is made where a host will see it.
 */
import type { TokenAuthError } from './errors.ts'

export class Refusal {
  readonly #make: () => TokenAuthError
  #shared: Readonly<TokenAuthError> | undefined
  /** What was wrong, in words for the developer; undefined where the message says it. Never a part of the token. */
  readonly reason: string | undefined

  constructor (make: () => TokenAuthError, reason?: string) {
    this.#make = make
    this.reason = reason
  }

  /** An error of its own for each who asks: a host may keep and change it. */
  toError (): TokenAuthError {
    return this.#make()
  }

  /** The same error each time, frozen: for this library to render, never for a host. */
  get shared (): Readonly<TokenAuthError> {
    if (this.#shared === undefined) {
      const error = this.#make()
      Object.freeze(error.headers)
      this.#shared = Object.freeze(error)
    }
    return this.#shared
  }
}
