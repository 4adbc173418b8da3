/** The header `WWW-Authenticate`, composed of the challenge of an error and the scheme of an instance. */

/** The challenge of an error (RFC 6750 section 3, RFC 9470 section 3). `error` is absent if the request has no token. */
export interface Challenge {
  readonly error?: 'invalid_token' | 'insufficient_scope' | 'insufficient_user_authentication'
  /** The message of the error. It is omitted if it has characters that the header may not contain. */
  readonly description?: string
  /** In seconds. */
  readonly maxAge?: number
  readonly scope?: string
}

/** The challenges by their errors. Not a property of the error, because loggers write its properties. */
const challenges = new WeakMap<Error, Challenge>()

/** Sets the challenge of an error. */
export function setChallenge (error: Error, challenge: Challenge): void {
  challenges.set(error, challenge)
}

/** Returns the challenge of an error; undefined if it has none. */
export const challengeOf = (error: Error): Challenge | undefined => challenges.get(error)

/** The scheme of an error that belongs to no instance, such as one that the application creates. */
export const defaultScheme = 'Bearer'

/** RFC 9110 section 11.1: the characters of a scheme. */
const isScheme = (text: string) => /^[!#$%&'*+.^_`|~\w-]+$/.test(text)

/**
 * Returns the scheme for a challenge (RFC 9110 section 11.6.1): the prefix, or `Bearer` if the prefix is not a valid scheme.
 * @param prefix the setting `authorizationHeaderPrefix`, which may be empty
 */
export const schemeFor = (prefix: string): string => prefix === defaultScheme || !isScheme(prefix) ? defaultScheme : prefix

/** RFC 6750 section 3: the characters that the values of `scope` and `error_description` may have. */
const quotable = /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/

/** Returns the value of the header. Parameters that depend on the route come last. */
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
 * Returns the headers of the response to a refused request. The challenge has the scheme of the instance.
 * @param headers the headers of the error. A challenge that the application has changed is kept
 * @param challenge the challenge of the error; undefined if it has none
 */
export function headersOf (headers: Headers, challenge: Challenge | undefined, scheme: string): Record<string, string> {
  // Always a copy, because hooks of the application may change the headers.
  if (challenge === undefined || scheme === defaultScheme || headers['www-authenticate'] !== writeChallenge(challenge)) {
    return { ...headers }
  }
  return { ...headers, 'www-authenticate': writeChallenge(challenge, scheme) }
}
