/**
 * Refusals: why a request is refused, as a value that is returned instead of thrown. Most refusals only become a response,
 * so an error is created only if the application receives it.
 */
import { AuthenticationFailed, InvalidToken, TokenAuthError } from './errors.ts'
import { challengedBy, challengeOf, setChallenge, type ChallengeSettings, type WrittenChallenge } from './challenge.ts'

/** A value, or the reason why there is none. */
export type Verdict<T> = T | Refusal

/** The data of the default response to a refusal. */
export interface Answer {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, string>>
  readonly challenge: WrittenChallenge | undefined
  readonly name: string
  readonly message: string
  /** The body, as JSON. */
  readonly text: string
}

/** Returns the default body of the response to a refusal. */
export function bodyOf ({ message, name, detail }: TokenAuthError): { reasons: string, exception: string, detail?: string } {
  return { reasons: message, exception: name, ...(detail !== undefined && { detail }) }
}

/** The reason why a request is refused. Requests share an instance if the reason is always the same. */
export class Refusal {
  readonly #createError: (reason: string | undefined) => TokenAuthError
  #answer: Answer | undefined
  /** Which check failed, for developers; undefined if the message states it. Never contains a part of a token. */
  readonly reason: string | undefined
  /** The reason with values of claims, sent only with the setting `debug`; undefined if it has none. */
  readonly explanation: string | undefined

  constructor (createError: (reason: string | undefined) => TokenAuthError, reason?: string, explanation?: string) {
    this.#createError = createError
    this.reason = reason
    this.explanation = explanation
  }

  /**
   * Creates a new error on each call: loggers, error handlers and applications may keep and change it, and a shared error
   * would carry data of one request into another.
   * @param settings of the instance or the guard that refuses, for the challenge
   */
  toError (settings: ChallengeSettings): TokenAuthError {
    return challengedBy(this.#createError(this.reason), settings)
  }

  /** The default response, for a refusal whose error the application does not receive. Created once. */
  get answer (): Answer {
    if (this.#answer === undefined) {
      const error = this.#createError(this.reason)
      const { statusCode, headers, name, message } = error
      this.#answer = { statusCode, headers, challenge: challengeOf(error), name, message, text: JSON.stringify(bodyOf(error)) }
    }
    return this.#answer
  }
}

/** The refusal of a refresh token. */
export class RefusedRefresh extends Refusal {
  override readonly reason: string
  /** Whether the cause is a fault of the application: its handlers return different users. */
  readonly isContradiction: boolean

  /** @param reason for developers, without a part of the token */
  constructor (reason: string, isContradiction = false) {
    super(() => new AuthenticationFailed())
    this.reason = reason
    this.isContradiction = isContradiction
  }
}

/** Creates the refusal of an access token. @param reason for developers, without a part of the token */
export const invalidToken = (reason: string) => new Refusal((given) => new InvalidToken(undefined, { reason: given }), reason)

/**
 * Copies an error that was thrown: the original may be frozen or thrown for many requests, and a listener may change the copy.
 * Omits the cause and the properties that the application added, because they may contain secrets.
 */
export function copyError (error: TokenAuthError): TokenAuthError {
  const { name, statusCode, message, code, headers, stack } = error
  const copy = new TokenAuthError({ name, statusCode, message })
  const challenge = challengeOf(error)
  if (challenge !== undefined) setChallenge(copy, challenge)
  Object.setPrototypeOf(copy, Object.getPrototypeOf(error))
  return Object.assign(copy, { code, headers: { ...headers }, stack })
}
