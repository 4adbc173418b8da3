/**
 * Every error of the plugin: name, status, message and challenge, each written once.
 *
 * A refusal (401, 403, 400) may be created for every bad request that an attacker sends, so it is created without a stack
 * trace: capturing one costs many times more than the refusal itself. Errors about the application (500, and everything
 * that `register()` throws) keep their stack trace.
 */

import { types } from 'node:util'
import { setChallenge, writeChallenge, type Challenge } from './challenge.ts'
import { show } from './secret-names.ts'

/** The options of a `TokenAuthError`. */
export interface TokenAuthErrorOptions {
  /** The original error, for the error tracking of the application. Never sent to a client. */
  cause?: unknown
}

/** The parts of an error. */
interface Definition extends TokenAuthErrorOptions {
  name: string
  statusCode: number
  /** Default: `neutral`. */
  message?: string | undefined
  challenge?: Challenge | undefined
  /** Other headers of the response. */
  headers?: Record<string, string>
  /** The message in production, where the full message becomes the cause. Undefined if clients may see the full message. */
  neutral?: string | undefined
}

const codes = new Map<string, string>()

function codeOf (name: string): string {
  let code = codes.get(name)
  if (code === undefined) {
    code = `TOKEN_AUTH_${name.replace(/(?<=[a-z])(?=[A-Z])/g, '_').toUpperCase()}`
    codes.set(name, code)
  }
  return code
}

/** Returns the message and the cause of an error. In production, the full message becomes the cause if there is a neutral message. */
function disclose ({ message, cause, neutral }: Definition): { text: string, cause: unknown } {
  const text = `${message ?? neutral}`
  if (neutral === undefined || neutral === text || process.env.NODE_ENV !== 'production') return { text, cause }
  return { text: neutral, cause: new Error(text, cause === undefined ? undefined : { cause }) }
}

/** The base class of all errors of the plugin. Errors never contain tokens, secrets or passwords. */
export class TokenAuthError extends Error {
  /** The HTTP status of the response. */
  readonly statusCode: number
  /** `TOKEN_AUTH_` and the name in upper snake case, such as `TOKEN_AUTH_INVALID_TOKEN`. */
  readonly code: string
  /** Headers of the response: the challenge of a 401 or 403, `retry-after` of a 503. */
  readonly headers: Record<string, string>
  /** With the setting `debug`: which check failed, and where the token was found. */
  detail?: string

  constructor (definition: Definition) {
    const { name, statusCode, challenge, headers } = definition
    // Called before the limit is changed: the conversion of a message that is not a string may throw.
    const { text, cause } = disclose(definition)
    const limit = Error.stackTraceLimit
    // `Reflect.set` instead of an assignment, which would throw in a process with frozen intrinsics.
    if (statusCode < 500) Reflect.set(Error, 'stackTraceLimit', 0)
    super(text, cause === undefined ? undefined : { cause })
    if (statusCode < 500) Reflect.set(Error, 'stackTraceLimit', limit)
    this.name = name
    this.statusCode = statusCode
    this.code = codeOf(name)
    if (challenge === undefined) {
      this.headers = { ...headers }
    } else {
      // Until an instance refuses with this error, its scheme is the default.
      const written = writeChallenge({ description: text, ...challenge })
      setChallenge(this, written)
      this.headers = { 'www-authenticate': written.header }
    }
  }
}

/** 401. A login was refused: thrown by the `authenticate` handler. Also the response to a refresh token that is refused. */
export class AuthenticationFailed extends TokenAuthError {
  constructor (message = 'Authentication failed.', options: TokenAuthErrorOptions = {}) {
    super({ ...options, name: 'AuthenticationFailed', statusCode: 401, message, challenge: {} })
  }
}

/** 401. The request header contains no token, so the challenge has no `error` (RFC 6750 section 3.1). */
export class MissingAuthorizationHeader extends TokenAuthError {
  constructor (message = 'Authorization header not present.', options: TokenAuthErrorOptions = {}) {
    super({ ...options, name: 'MissingAuthorizationHeader', statusCode: 401, message, challenge: {} })
  }
}

/** 401. In strict cookie mode, the cookie is missing or empty. */
export class MissingAuthorizationCookie extends TokenAuthError {
  constructor (message = 'Authorization cookie not present.', options: TokenAuthErrorOptions = {}) {
    super({ ...options, name: 'MissingAuthorizationCookie', statusCode: 401, message, challenge: {} })
  }
}

/** 401. In strict query-string mode, the parameter is missing or empty. */
export class MissingAuthorizationQueryArg extends TokenAuthError {
  constructor (message = 'Authorization query argument not present.', options: TokenAuthErrorOptions = {}) {
    super({ ...options, name: 'MissingAuthorizationQueryArg', statusCode: 401, message, challenge: {} })
  }
}

/** 401. The header occurs twice, contains no token, or has another scheme. For the latter, the challenge has no `error`. */
export class InvalidAuthorizationHeader extends TokenAuthError {
  /** Whether the header has another scheme, such as `Basic`, so that it is not meant for this plugin. */
  readonly foreign: boolean
  constructor (message = 'Authorization header is invalid.', options: TokenAuthErrorOptions & { foreign?: boolean } = {}) {
    const { foreign = false, cause } = options
    super({ name: 'InvalidAuthorizationHeader', statusCode: 401, message, cause, challenge: foreign ? {} : { error: 'invalid_token' } })
    this.foreign = foreign
  }
}

interface InvalidTokenOptions extends TokenAuthErrorOptions {
  /** Which check failed, for developers. Sent only with the setting `debug`. Never contains a part of the token. */
  reason?: string | undefined
}

/** 401. The access token is expired, revoked, malformed, or invalid for other reasons (RFC 6750 section 3.1). Expired tokens and those of ended sessions have subclasses of their own. */
export class InvalidToken extends TokenAuthError {
  /** Which check failed, for developers. Never contains a part of the token. */
  readonly reason: string | undefined
  constructor (message = 'Token is invalid.', options: InvalidTokenOptions & { name?: string } = {}) {
    const { reason, cause, name = 'InvalidToken' } = options
    super({ name, statusCode: 401, message, cause, challenge: { error: 'invalid_token' } })
    this.reason = reason
  }
}

/** 401. `exp` has passed (RFC 7519 section 4.1.4). */
export class TokenExpired extends InvalidToken {
  constructor (message = 'Signature has expired', options: InvalidTokenOptions = {}) {
    super(message, { ...options, name: 'TokenExpired' })
  }
}

/** 401. `nbf` is in the future (RFC 7519 section 4.1.5). */
export class TokenNotActive extends InvalidToken {
  constructor (message = 'Token is not active yet.', options: InvalidTokenOptions = {}) {
    super(message, { ...options, name: 'TokenNotActive' })
  }
}

/** 401. A claim is missing, or has the wrong type or value. The expected value is not disclosed. */
export class InvalidClaim extends InvalidToken {
  /** The name of the claim; `null` for an extra verification, which checks the whole payload. */
  readonly claim: string | null
  constructor (message = 'Token has an invalid claim.', options: InvalidTokenOptions & { claim?: string | null } = {}) {
    super(message, { ...options, name: 'InvalidClaim' })
    this.claim = options.claim ?? null
  }
}

/** 401. The session of the access token has ended, for example by a logout, or because a retired refresh token was used. */
export class SessionEnded extends InvalidToken {
  constructor (message = 'Session has ended.', options: InvalidTokenOptions = {}) {
    super(message, { ...options, name: 'SessionEnded' })
  }
}

/** 401. The user of the token logged in too long ago for this route (RFC 9470 section 3). */
export class InsufficientUserAuthentication extends TokenAuthError {
  /** Which check failed, for developers. Never contains a part of the token. */
  readonly reason: string | undefined
  /** The maximum age of the login in seconds; undefined if no guard created the error. */
  readonly maxAge: number | undefined
  constructor (
    message = 'A more recent login is required.',
    options: TokenAuthErrorOptions & { maxAge?: number; reason?: string | undefined } = {}
  ) {
    const { maxAge, reason, cause } = options
    super({
      name: 'InsufficientUserAuthentication',
      statusCode: 401,
      message,
      cause,
      challenge: { error: 'insufficient_user_authentication', ...(maxAge !== undefined && { maxAge }) }
    })
    this.reason = reason
    this.maxAge = maxAge
  }
}

/** 403. The scopes of the token are not sufficient (RFC 6750 section 3.1). */
export class InsufficientScope extends TokenAuthError {
  constructor (message = 'Invalid scope.', options: TokenAuthErrorOptions & { required?: readonly string[] } = {}) {
    const { required, cause } = options
    // A scope with a space, as some issuers have, would be read as two (RFC 6749 section 3.3).
    const scope = required === undefined || required.some((one) => one.includes(' ')) ? {} : { scope: required.join(' ') }
    super({ name: 'InsufficientScope', statusCode: 403, message, cause, challenge: { error: 'insufficient_scope', ...scope } })
  }
}

/** 403. Cookie mode: a page of another origin sent the request. `trustedOrigins` lists the origins that may send requests. */
export class CrossOriginRequest extends TokenAuthError {
  constructor (message = 'The request comes from another origin.', options: TokenAuthErrorOptions = {}) {
    super({ ...options, name: 'CrossOriginRequest', statusCode: 403, message })
  }
}

/** 400. A request to the refresh or logout endpoint contains no refresh token, or one that is not a string. */
export class MissingRefreshToken extends TokenAuthError {
  constructor (message = 'Refresh token not present.', options: TokenAuthErrorOptions = {}) {
    super({ ...options, name: 'MissingRefreshToken', statusCode: 400, message })
  }
}

/** 404. The user has no active session with this id. The error does not disclose whether another user has it. */
export class SessionNotFound extends TokenAuthError {
  constructor (message = 'Session not found.', options: TokenAuthErrorOptions = {}) {
    super({ ...options, name: 'SessionNotFound', statusCode: 404, message })
  }
}

/**
 * 503. The session store failed or did not respond within 5 seconds. The original error is the `cause`. Clients keep their
 * tokens and try again.
 */
export class SessionStoreUnavailable extends TokenAuthError {
  constructor (message?: string, options: TokenAuthErrorOptions = {}) {
    super({
      ...options,
      name: 'SessionStoreUnavailable',
      statusCode: 503,
      message,
      neutral: 'Sessions are not available at the moment.',
      headers: { 'retry-after': '5' }
    })
  }
}

/** 503. The keys of the trusted issuer of the token cannot be fetched at the moment. Clients keep their tokens and try again. */
export class KeysUnavailable extends TokenAuthError {
  constructor (message = 'The keys of the issuer are not available at the moment.', options: TokenAuthErrorOptions = {}) {
    super({ ...options, name: 'KeysUnavailable', statusCode: 503, message, headers: { 'retry-after': '10' } })
  }
}

/** 500. `authenticate` or `retrieveUser` returned something that is not a user. */
export class InvalidUserObject extends TokenAuthError {
  constructor (message?: string, options: TokenAuthErrorOptions = {}) {
    super({ ...options, name: 'InvalidUserObject', statusCode: 500, message, neutral: 'The handler returned no valid user.' })
  }
}

/** 500. A handler removed a required claim of a new token, or gave it a value that no verifier accepts. No token was issued. */
export class MissingRegisteredClaim extends TokenAuthError {
  constructor (message?: string, options: TokenAuthErrorOptions = {}) {
    super({ ...options, name: 'MissingRegisteredClaim', statusCode: 500, message, neutral: 'The payload lacks a claim that it must have.' })
  }
}

/** 500. `destructureScopes`, or the function that computes the required scopes, did not return well-formed scopes. */
export class InvalidScopes extends TokenAuthError {
  constructor (message?: string, options: TokenAuthErrorOptions = {}) {
    super({ ...options, name: 'InvalidScopes', statusCode: 500, message, neutral: 'The required scopes are invalid.' })
  }
}

/** 500. A new token is too large for verifiers, or for browsers as a cookie. No token was issued. */
export class TokenTooLarge extends TokenAuthError {
  constructor (message?: string, options: TokenAuthErrorOptions = {}) {
    super({ ...options, name: 'TokenTooLarge', statusCode: 500, message, neutral: 'The token is too large.' })
  }
}

/**
 * Loggers show only causes that are errors: for another value, returns an error whose message shows it. The value is the
 * property `thrown`, and not enumerable: loggers print all of a `cause` that has a message.
 */
function asCause ({ cause }: TokenAuthErrorOptions): TokenAuthErrorOptions {
  if (cause === undefined || cause instanceof Error || types.isNativeError(cause)) return { cause }
  return { cause: Object.defineProperty(new Error(`It threw a value that is not an Error: ${show(cause)}`), 'thrown', { value: cause }) }
}

/**
 * 500. A handler, hook or getter threw an error, which is the `cause`, or returned the wrong type. If it threw another value,
 * the `cause` is an error that shows the value, and has it as its property `thrown`.
 */
export class HandlerFailed extends TokenAuthError {
  constructor (handler = 'host', options: TokenAuthErrorOptions = {}) {
    super({ ...asCause(options), name: 'HandlerFailed', statusCode: 500, message: `The ${handler} handler failed.` })
  }
}

/** 500. A free-standing guard found no instance of the plugin for its route. */
export class InitializationFailure extends TokenAuthError {
  constructor (message?: string, options: TokenAuthErrorOptions = {}) {
    super({ ...options, name: 'InitializationFailure', statusCode: 500, message, neutral: 'No token authentication is registered for this route.' })
  }
}
