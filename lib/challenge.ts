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

/** A challenge as it was written into the headers of its error. Any other header is from the application. */
export interface WrittenChallenge extends Challenge {
  readonly scheme: string
  readonly header: string
}

/** The challenges by their errors. Not a property of the error, because loggers write its properties. */
const challenges = new WeakMap<Error, WrittenChallenge>()

/** Sets the challenge of an error. */
export function setChallenge (error: Error, challenge: WrittenChallenge): void {
  challenges.set(error, challenge)
}

/** Returns the challenge of an error; undefined if it has none. */
export const challengeOf = (error: Error): WrittenChallenge | undefined => challenges.get(error)

const defaultScheme = 'Bearer'

/** The settings of an instance that its challenges contain. */
export interface ChallengeSettings {
  /** It may be empty. */
  readonly authorizationHeaderPrefix: string
}

/** For an error that belongs to no instance yet, such as one that the application creates. */
export const noInstance: ChallengeSettings = { authorizationHeaderPrefix: defaultScheme }

/** RFC 9110 section 11.1: the characters of a scheme. */
const isScheme = (text: string) => /^[!#$%&'*+.^_`|~\w-]+$/.test(text)

/** Returns the scheme for a challenge (RFC 9110 section 11.6.1): the prefix, or `Bearer` if the prefix is not a valid scheme. */
const schemeFor = ({ authorizationHeaderPrefix: prefix }: ChallengeSettings): string =>
  prefix === defaultScheme || !isScheme(prefix) ? defaultScheme : prefix

/** RFC 6750 section 3: the characters that the values of `scope` and `error_description` may have. */
const quotable = /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/

/** Writes the header. Parameters that depend on the route come last. */
export function writeChallenge (challenge: Challenge, settings = noInstance): WrittenChallenge {
  const { error, description = '', maxAge, scope } = challenge
  const scheme = schemeFor(settings)
  let header = `${scheme} realm="token-auth"`
  if (error !== undefined) header += `, error="${error}"`
  if (error !== undefined && quotable.test(description)) header += `, error_description="${description}"`
  if (maxAge !== undefined) header += `, max_age="${maxAge}"`
  if (scope !== undefined && quotable.test(scope)) header += `, scope="${scope}"`
  return { ...challenge, scheme, header }
}

type Headers = Readonly<Record<string, string>>

/** Returns the challenge for an instance; undefined if it is written already, or the application has changed the header. */
function rewrite (headers: Headers, challenge: WrittenChallenge | undefined, settings: ChallengeSettings): WrittenChallenge | undefined {
  if (challenge === undefined || challenge.scheme === schemeFor(settings)) return undefined
  return headers['www-authenticate'] === challenge.header ? writeChallenge(challenge, settings) : undefined
}

/**
 * Returns the headers of an error for the response, with the challenge of the instance or the guard that refuses.
 * Always a copy, because hooks of the application may change the headers.
 */
export function headersOf (headers: Headers, challenge: WrittenChallenge | undefined, settings: ChallengeSettings): Record<string, string> {
  const written = rewrite(headers, challenge, settings)
  return written === undefined ? { ...headers } : { ...headers, 'www-authenticate': written.header }
}

/**
 * Writes the challenge of an instance into an error that leaves it. An error that the application has frozen stays as it is.
 * @param settings of the instance or the guard that refuses
 * @returns the error
 */
export function challengedBy<Thrown extends Error & { readonly headers: Headers }> (error: Thrown, settings: ChallengeSettings): Thrown {
  const written = rewrite(error.headers, challengeOf(error), settings)
  // New headers: copies of an error may share them.
  if (written !== undefined && Reflect.set(error, 'headers', { ...error.headers, 'www-authenticate': written.header })) {
    setChallenge(error, written)
  }
  return error
}
