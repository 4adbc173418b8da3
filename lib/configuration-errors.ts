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

/** Returns the parts of an error. During a request, clients see only the neutral message in production. */
function definitionOf (name: string, neutral: string, given = neutral, options: ConfigurationErrorOptions & { finding?: string } = {}) {
  const { cause, page, duringRequest, finding } = options
  const message = finding === undefined ? withPage(given, page) : withFinding(given, finding)
  return { name, statusCode: 500, message, cause, neutral: duringRequest === true ? neutral : undefined }
}

/** 500. Thrown by `register()` for invalid options, and by `protect`, `scoped` and `injectUser` for invalid parameters. */
export class InvalidConfiguration extends TokenAuthError {
  /** The code of a finding in docs/findings.md, such as `TOKEN_AUTH_E01`; undefined for other errors. */
  declare readonly finding?: string
  constructor (message?: string, options: ConfigurationErrorOptions & { finding?: string } = {}) {
    super(definitionOf('InvalidConfiguration', 'The configuration is invalid.', message, options))
    if (options.finding !== undefined) this.finding = `TOKEN_AUTH_${options.finding}`
  }
}

/** 500. Thrown by `register()` if the `authenticate` handler is missing and `authMode` is true. */
export class AuthenticateNotImplemented extends TokenAuthError {
  constructor (message?: string, options?: ConfigurationErrorOptions) {
    super(definitionOf('AuthenticateNotImplemented', 'The authenticate handler is missing.', message, options))
  }
}

/** 500. Thrown by `register()` if a handler that `refreshTokenEnabled` requires is missing. */
export class RefreshTokenNotImplemented extends TokenAuthError {
  constructor (message?: string, options?: ConfigurationErrorOptions) {
    super(definitionOf('RefreshTokenNotImplemented', 'A refresh token handler is missing.', message, options))
  }
}

/** 500. Thrown by `register()` if a key is missing, and by `verifyToken` and `generateAccessToken` if they require a request. */
export class RequiredKeysNotFound extends TokenAuthError {
  constructor (message?: string, options?: ConfigurationErrorOptions) {
    super(definitionOf('RequiredKeysNotFound', 'A key is missing.', message, options))
  }
}

/** 500. Thrown by `register()` if `classViews` or one of its views is invalid. */
export class InvalidClassViews extends TokenAuthError {
  constructor (message?: string, options?: ConfigurationErrorOptions) {
    super(definitionOf('InvalidClassViews', 'classViews is invalid.', message, options))
  }
}

/** 500. Thrown by `register()` if a custom claim lacks `key`, `setup` or `verify`, or if its key is already the name of a claim. */
export class InvalidCustomClaim extends TokenAuthError {
  constructor (message?: string, options?: ConfigurationErrorOptions) {
    super(definitionOf('InvalidCustomClaim', 'A custom claim is invalid.', message, options))
  }
}
