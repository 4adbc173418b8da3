/** The header `WWW-Authenticate`, written in one place from what an error says and what an instance adds. */

/** What an error says in a challenge (RFC 6750 section 3, RFC 9470 section 3). Without `error`, no token was sent. */
export interface Challenge {
  readonly error?: 'invalid_token' | 'insufficient_scope' | 'insufficient_user_authentication'
  /** The message of the error, which is sent where a header may carry it. */
  readonly description?: string
  /** In seconds. */
  readonly maxAge?: number
  readonly scope?: string
}

/** By errors. Not as a property, which loggers would write. */
const challenges = new WeakMap<Error, Challenge>()

/** Keeps what an error says in a challenge. */
export function setChallenge (error: Error, challenge: Challenge): void {
  challenges.set(error, challenge)
}

/** Returns what an error says in a challenge; undefined for one without a challenge. */
export const challengeOf = (error: Error): Challenge | undefined => challenges.get(error)

/** The scheme of an error that knows no instance, such as one that an application creates. */
export const defaultScheme = 'Bearer'

/** RFC 9110 section 11.1: the characters of a scheme. */
const isScheme = (text: string) => /^[!#$%&'*+.^_`|~\w-]+$/.test(text)

/**
 * Returns the scheme that guards with a prefix accept (RFC 9110 section 11.6.1).
 * @param prefix the setting `authorizationHeaderPrefix`, which may be empty
 */
export const schemeFor = (prefix: string): string => prefix === defaultScheme || !isScheme(prefix) ? defaultScheme : prefix

/** RFC 6750 section 3: the characters that the values of `scope` and `error_description` may have. */
const quotable = /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/

/** Writes the value of the header. What only an instance or a route knows comes last. */
export function writeChallenge ({ error, description = '', maxAge, scope }: Challenge, scheme = defaultScheme): string {
  let header = `${scheme} realm="token-auth"`
  if (error !== undefined) header += `, error="${error}"`
  if (error !== undefined && quotable.test(description)) header += `, error_description="${description}"`
  if (maxAge !== undefined) header += `, max_age="${maxAge}"`
  if (scope !== undefined && quotable.test(scope)) header += `, scope="${scope}"`
  return header
}

type Headers = Readonly<Record<string, string>>

/**
 * Returns the headers of the answer to a refused request, with the challenge of an instance.
 * @param headers those of the error. A challenge that the application has changed stays as it is
 * @param challenge what the error says; undefined for an error without a challenge
 */
export function headersOf (headers: Headers, challenge: Challenge | undefined, scheme: string): Record<string, string> {
  // A copy in any case, because hooks of the application may change it.
  if (challenge === undefined || scheme === defaultScheme || headers['www-authenticate'] !== writeChallenge(challenge)) return { ...headers }
  return { ...headers, 'www-authenticate': writeChallenge(challenge, scheme) }
}
