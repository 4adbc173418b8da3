/** Errors about the configuration of the plugin. Their messages end with the path of a page of the documents. */
import { withFinding, withPage, type Page } from './documents.ts'
import { TokenAuthError, type TokenAuthErrorOptions } from './errors.ts'

export type { Page }

interface ConfigurationErrorOptions extends TokenAuthErrorOptions {
  /** The page to which the message refers. Ignored with `finding`, which has a chapter in findings.md. */
  page?: Page | undefined
  /** Whether the error is thrown during a request, so that its message may reach a client. */
  duringRequest?: boolean | undefined
}

/** 500. Thrown by `register()` for invalid options, and by `protect`, `scoped` and `injectUser` for invalid parameters. */
export class InvalidConfiguration extends TokenAuthError {
  /** The code of a finding in docs/findings.md, such as `TOKEN_AUTH_E01`; undefined for other errors. */
  declare readonly finding?: string
  constructor (message?: string, options: ConfigurationErrorOptions & { finding?: string } = {}) {
    const { finding, page, cause, duringRequest } = options
    const neutral = 'The configuration is invalid.'
    const text = message ?? neutral
    const told = finding === undefined ? withPage(text, page) : withFinding(text, finding)
    super({ name: 'InvalidConfiguration', statusCode: 500, message: told, cause, neutral: duringRequest === true ? neutral : undefined })
    if (finding !== undefined) this.finding = `TOKEN_AUTH_${finding}`
  }
}

/** 500. Thrown by `register()` if the `authenticate` handler is missing and `authMode` is true. */
export class AuthenticateNotImplemented extends TokenAuthError {
  constructor (message = 'The authenticate handler is missing.', options: ConfigurationErrorOptions = {}) {
    super({ name: 'AuthenticateNotImplemented', statusCode: 500, message: withPage(message, options.page), cause: options.cause })
  }
}

/** 500. Thrown by `register()` if a handler that `refreshTokenEnabled` requires is missing. */
export class RefreshTokenNotImplemented extends TokenAuthError {
  constructor (message?: string, options: ConfigurationErrorOptions = {}) {
    const neutral = 'A refresh token handler is missing.'
    super({
      name: 'RefreshTokenNotImplemented',
      statusCode: 500,
      message: withPage(message ?? neutral, options.page),
      cause: options.cause,
      neutral: options.duringRequest === true ? neutral : undefined
    })
  }
}

/** 500. Thrown by `register()` if a key is missing, and by `verifyToken` and `generateAccessToken` if they require a request. */
export class RequiredKeysNotFound extends TokenAuthError {
  constructor (message?: string, options: ConfigurationErrorOptions = {}) {
    const neutral = 'A key is missing.'
    super({
      name: 'RequiredKeysNotFound',
      statusCode: 500,
      message: withPage(message ?? neutral, options.page),
      cause: options.cause,
      neutral: options.duringRequest === true ? neutral : undefined
    })
  }
}

/** 500. Thrown by `register()` if `classViews` or one of its views is invalid. */
export class InvalidClassViews extends TokenAuthError {
  constructor (message = 'classViews is invalid.', options: ConfigurationErrorOptions = {}) {
    super({ name: 'InvalidClassViews', statusCode: 500, message: withPage(message, options.page), cause: options.cause })
  }
}

/** 500. Thrown by `register()` if a custom claim lacks `key`, `setup` or `verify`, or if its key is already the name of a claim. */
export class InvalidCustomClaim extends TokenAuthError {
  constructor (message = 'A custom claim is invalid.', options: ConfigurationErrorOptions = {}) {
    super({ name: 'InvalidCustomClaim', statusCode: 500, message: withPage(message, options.page), cause: options.cause })
  }
}
