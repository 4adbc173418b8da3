/**
 * Refusals: why a request is refused, as a value that is returned instead of thrown. Most refusals are only rendered, so
 * an error is created only where the application sees one.
 */
import { AuthenticationFailed, InvalidToken, TokenAuthError } from './errors.ts'
import { challengeOf, type Challenge } from './challenge.ts'

/** A value, or the reason why there is none. */
export type Verdict<T> = T | Refusal

/** What the default response to a refusal needs. */
export interface Answer {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, string>>
  readonly challenge: Challenge | undefined
  readonly name: string
  readonly message: string
  /** The body, as JSON. */
  readonly text: string
}

/** Returns the default body of the answer to a refusal. */
export function bodyOf ({ message, name, detail }: TokenAuthError): { reasons: string, exception: string, detail?: string } {
  return { reasons: message, exception: name, ...(detail !== undefined && { detail }) }
}

/** The reason why a request is refused. Instances are shared by requests where the reason is always the same. */
export class Refusal {
  readonly #createError: (reason: string | undefined) => TokenAuthError
  #answer: Answer | undefined
  /** Which check failed, for developers; undefined where the message says it. Never contains a part of a token. */
  readonly reason: string | undefined
  /** The reason with values of claims, which are only for the setting `debug`; undefined where there are none. */
  readonly explanation: string | undefined
  /** Whether it is a refresh token that is refused, so that no place of an access token is named. */
  readonly isOfRefresh: boolean

  constructor (createError: (reason: string | undefined) => TokenAuthError, reason?: string, explanation?: string, isOfRefresh = false) {
    this.#createError = createError
    this.reason = reason
    this.explanation = explanation
    this.isOfRefresh = isOfRefresh
  }

  /**
   * Creates an error. Each caller gets its own: loggers, error handlers and applications may keep and change it, and a
   * shared one would carry what one request added into another.
   */
  toError (): TokenAuthError {
    return this.#createError(this.reason)
  }

  /** What to send when nothing of the application sees the error. Created once. */
  get answer (): Answer {
    if (this.#answer === undefined) {
      const error = this.toError()
      const { statusCode, headers, name, message } = error
      this.#answer = { statusCode, headers, challenge: challengeOf(error), name, message, text: JSON.stringify(bodyOf(error)) }
    }
    return this.#answer
  }
}

/** Creates the refusal of a refresh token. @param reason for developers, without a part of the token */
export const refusedRefresh = (reason: string) => new Refusal(() => new AuthenticationFailed(), reason, undefined, true)

/** Creates the refusal of an access token. @param reason for developers, without a part of the token */
export const invalidToken = (reason: string) => new Refusal((given) => new InvalidToken(undefined, { reason: given }), reason)

/**
 * Copies an error that was thrown. The original belongs to whoever threw it: it may be frozen, or thrown for many requests,
 * and loggers and error handlers may change it. Without its cause and what an application added to it, which may be secrets.
 */
export function copyError (error: TokenAuthError): TokenAuthError {
  const { name, statusCode, message, code, headers, stack } = error
  const copy = new TokenAuthError({ name, statusCode, message, challenge: challengeOf(error) })
  Object.setPrototypeOf(copy, Object.getPrototypeOf(error))
  return Object.assign(copy, { code, headers: { ...headers }, stack })
}
