import assert from 'node:assert/strict'
import t from 'tap'
import * as library from '../lib/index.ts'
import tokenAuth, { TokenAuthError, type TokenAuthOptions } from '../lib/index.ts'
import { bearer, build, caseOf, environment, login, mistyped } from './helper.ts'

const realm = 'Bearer realm="token-auth"'
const invalid = (message: string) => `${realm}, error="invalid_token", error_description="${message}"`

/** Name, status, message, challenge, and the classes that it extends. */
type Row = [name: string, statusCode: number, message: string, challenge?: string, parent?: string]

const errors: Row[] = [
  ['AuthenticationFailed', 401, 'Authentication failed.', realm],
  ['MissingAuthorizationHeader', 401, 'Authorization header not present.', realm],
  ['MissingAuthorizationCookie', 401, 'Authorization cookie not present.', realm],
  ['MissingAuthorizationQueryArg', 401, 'Authorization query argument not present.', realm],
  ['InvalidAuthorizationHeader', 401, 'Authorization header is invalid.', invalid('Authorization header is invalid.')],
  ['InvalidToken', 401, 'Token is invalid.', invalid('Token is invalid.')],
  ['TokenExpired', 401, 'Signature has expired', invalid('Signature has expired'), 'InvalidToken'],
  ['TokenNotActive', 401, 'Token is not active yet.', invalid('Token is not active yet.'), 'InvalidToken'],
  ['InvalidClaim', 401, 'Token has an invalid claim.', invalid('Token has an invalid claim.'), 'InvalidToken'],
  ['SessionEnded', 401, 'Session has ended.', invalid('Session has ended.'), 'InvalidToken'],
  ['InsufficientUserAuthentication', 401, 'A more recent login is required.', `${realm}, error="insufficient_user_authentication", error_description="A more recent login is required."`],
  ['InsufficientScope', 403, 'Invalid scope.', `${realm}, error="insufficient_scope", error_description="Invalid scope."`],
  ['CrossOriginRequest', 403, 'The request comes from another origin.'],
  ['MissingRefreshToken', 400, 'Refresh token not present.'],
  ['SessionNotFound', 404, 'Session not found.'],
  ['SessionStoreUnavailable', 503, 'Sessions are not available at the moment.'],
  ['KeysUnavailable', 503, 'The keys of the issuer are not available at the moment.'],
  ['InvalidUserObject', 500, 'The handler returned no valid user.'],
  ['MissingRegisteredClaim', 500, 'The payload lacks a claim that it must have.'],
  ['InvalidScopes', 500, 'The required scopes are invalid.'],
  ['TokenTooLarge', 500, 'The token is too large.'],
  ['HandlerFailed', 500, 'The host handler failed.'],
  ['InitializationFailure', 500, 'No token authentication is registered for this route.'],
  ['InvalidConfiguration', 500, 'The configuration is invalid.'],
  ['AuthenticateNotImplemented', 500, 'The authenticate handler is missing.'],
  ['RefreshTokenNotImplemented', 500, 'A refresh token handler is missing.'],
  ['RequiredKeysNotFound', 500, 'A key is missing.'],
  ['InvalidClassViews', 500, 'classViews is invalid.'],
  ['InvalidCustomClaim', 500, 'A custom claim is invalid.']
]

/** Headers of answers that are no challenge. */
const otherHeaders = new Map([['SessionStoreUnavailable', { 'retry-after': '5' }], ['KeysUnavailable', { 'retry-after': '10' }]])

type ErrorClass = new (message?: string, options?: object) => TokenAuthError
const isErrorClass = (value: unknown): value is ErrorClass => typeof value === 'function' && value.prototype instanceof TokenAuthError
const exported = new Map<string, ErrorClass>(Object.entries<unknown>(library).flatMap(([name, value]) => isErrorClass(value) ? [[name, value]] : []))

function classOf (name: string): ErrorClass {
  const found = exported.get(name)
  if (found === undefined) throw new Error(`${name} is not exported`)
  return found
}

// Promise: specification/tokenautherror-2
t.test('every error that the contract names is exported, and no other', (t) => {
  t.same([...exported.keys()].sort(), errors.map(([name]) => name).sort())
  for (const [name, errorClass] of exported) assert.equal(Reflect.get(tokenAuth, name), errorClass, `${name} is also a property of the plugin`)
  t.end()
})

for (const [name, statusCode, message, challenge, parent] of errors) {
  t.test(`${name} says ${statusCode}, and what it says by itself is fixed`, (t) => {
    const ErrorClass = classOf(name)
    const error = new ErrorClass()
    t.equal(error.name, name)
    t.equal(error.statusCode, statusCode)
    t.equal(error.code, `TOKEN_AUTH_${name.replace(/(?<!^)[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`)
    t.equal(error.message, message)
    t.same(error.headers, challenge === undefined ? otherHeaders.get(name) ?? {} : { 'www-authenticate': challenge })
    for (const base of [Error, TokenAuthError, classOf(parent ?? name)]) assert.ok(error instanceof base, base.name)
    t.equal(error.detail, undefined)
    t.notOk(Object.hasOwn(error, 'cause'), 'no cause unless one is given')

    // A stack costs more than the refusal; a mistake of the host keeps its own.
    t.equal(error.stack?.includes('\n    at '), statusCode >= 500)
    t.ok(new Error('another').stack?.includes('\n    at '), 'later errors have their stack')

    // As where a host passes on what a client sent.
    t.throws(() => new ErrorClass(mistyped({ toString: 1, valueOf: 1 })), TypeError)
    t.ok(new Error('another').stack?.includes('\n    at '), 'also where there is no error in the end')

    const cause = new Error('original')
    const another = new ErrorClass('another message', { cause })
    t.equal(another.cause, cause)
    // A message of another ends with the same page.
    const [link = ''] = / See .*$/.exec(message) ?? []
    t.equal(another.message, name === 'HandlerFailed' ? 'The another message handler failed.' : `another message${link}`)
    t.notMatch(JSON.stringify(another), 'original')
    t.end()
  })
}

t.test('a challenge never quotes what a header must not carry (RFC 6750 section 3)', (t) => {
  for (const message of ['with "quotes"', 'with \\ backslash', 'two\r\nlines', 'naïve', '']) {
    assert.equal(new library.InvalidToken(message).headers['www-authenticate'], `${realm}, error="invalid_token"`, JSON.stringify(message))
    const refusal = new library.InsufficientScope('Invalid scope.', { required: [message] })
    t.notMatch(refusal.headers['www-authenticate'], ', scope=', JSON.stringify(message))
  }
  t.end()
})

t.test('the challenge of a scope failure names the required scopes', (t) => {
  const { headers } = new library.InsufficientScope(undefined, { required: ['user:read', ':admin'] })
  t.equal(headers['www-authenticate'], `${realm}, error="insufficient_scope", error_description="Invalid scope.", scope="user:read :admin"`)
  t.end()
})

t.test('the challenge of a login that is too old names the age that is required (RFC 9470 section 3)', (t) => {
  const { headers, maxAge, reason } = new library.InsufficientUserAuthentication(undefined, { maxAge: 300, reason: 'too old' })
  t.equal(headers['www-authenticate'], `${realm}, error="insufficient_user_authentication", error_description="A more recent login is required.", max_age="300"`)
  t.same([maxAge, reason], [300, 'too old'])
  t.end()
})

t.test('a header of another scheme is challenged without an error (RFC 6750 section 3.1)', (t) => {
  const error = new library.InvalidAuthorizationHeader(undefined, { foreign: true })
  t.equal(error.foreign, true)
  t.equal(error.headers['www-authenticate'], realm)
  t.equal(new library.InvalidAuthorizationHeader().foreign, false)
  t.end()
})

t.test('a refused claim is named in a field, not in the message', (t) => {
  const error = new library.InvalidClaim(undefined, { claim: 'aud', reason: 'of another audience' })
  t.equal(error.claim, 'aud')
  t.equal(error.reason, 'of another audience')
  t.notMatch(error.message, 'aud')
  t.equal(new library.InvalidClaim().claim, null)
  t.end()
})

t.test('a configuration error may bear the number of a finding', (t) => {
  t.equal(new library.InvalidConfiguration('Too short.', { finding: 'K01' }).finding, 'TOKEN_AUTH_K01')
  t.equal(new library.InvalidConfiguration().finding, undefined)
  t.end()
})

// Promise: security/error-about-application
t.test('in production, what an error says of the application is its cause, and its message is neutral', (t) => {
  environment(t, 'production')
  const hostErrors = {
    InvalidUserObject: 'The handler returned no valid user.',
    MissingRegisteredClaim: 'The payload lacks a claim that it must have.',
    InvalidScopes: 'The required scopes are invalid.',
    TokenTooLarge: 'The token is too large.',
    SessionStoreUnavailable: 'Sessions are not available at the moment.',
    InitializationFailure: 'No token authentication is registered for this route.'
  }
  const original = new Error('original')
  for (const [name, neutral] of Object.entries(hostErrors)) {
    const ErrorClass = library[name as keyof typeof hostErrors]
    t.match(new ErrorClass('"department" of ada is missing', { cause: original }), { message: neutral, cause: { message: '"department" of ada is missing', cause: original } })
    assert.equal(new ErrorClass().cause, undefined, name)
    assert.equal(new ErrorClass(undefined, { cause: original }).cause, original, name)
  }
  for (const ErrorClass of [library.InvalidConfiguration, library.RequiredKeysNotFound, library.RefreshTokenNotImplemented]) {
    assert.equal(new ErrorClass('of registration').message, 'of registration', 'who starts the application reads all of it')
    const error = new ErrorClass('of a request', { duringRequest: true, page: 'guards.md' })
    assert.doesNotMatch(error.message, /request/, caseOf(ErrorClass))
    t.match(error.cause, { message: /^of a request See .*\/docs\/guards\.md$/ })
    assert.equal(Object(error.cause).cause, undefined, caseOf(ErrorClass))
  }
  t.end()
})

// Promise: security/error-about-application
t.test('in production, mistakes of the host reach exceptionResponse and the log, and clients only by name', async (t) => {
  environment(t, 'production')
  const mistakes: [name: string, options: Partial<TokenAuthOptions>, text: RegExp][] = [
    ['InvalidUserObject', { authenticate: () => ({ name: 'ada' }) }, /authenticate must return a user whose/],
    ...([[null, 'nothing'], [false, 'nothing'], [new library.AuthenticationFailed(), 'an error']] as const).map(([result, found]): typeof mistakes[number] =>
      ['InvalidUserObject', { authenticate: mistyped(() => result) }, new RegExp(`a user, not ${found}. To refuse, throw AuthenticationFailed`)]),
    ['MissingRegisteredClaim', { extendPayload: () => ({ user_id: 1 }) }, /The payload of a new access token lacks/],
    ['TokenTooLarge', { extendPayload: (payload) => ({ ...payload, much: 'x'.repeat(9000) }) }, /has \d+ characters/]
  ]
  for (const [name, options, text] of mistakes) {
    const rendered: unknown[] = []
    class Watching extends library.Responses {
      override exceptionResponse (...parameters: Parameters<library.Responses['exceptionResponse']>) {
        rendered.push(parameters[1])
        return super.exceptionResponse(...parameters)
      }
    }
    const lines: string[] = []
    const app = await build(t, { ...options, responsesClass: Watching }, { logger: { stream: { write: (line) => { lines.push(line) } } } })
    const response = await login(app)
    assert.equal(response.statusCode, 500, name)
    assert.deepEqual(Object.keys(response.json()), ['reasons', 'exception'], name)
    assert.equal(response.json().exception, name, name)
    t.notMatch(response.body, text)
    t.match(rendered, [{ name, cause: { message: text } }])
    t.match(lines.join('\n'), text, 'the log has all of it')
  }
})

// Promise: security/error-logger-error
t.test('whoever sees the error of a refusal may change it: none is shared with another request', async (t) => {
  const seen: Error[] = []
  class Changing extends library.Responses {
    override exceptionResponse (...parameters: Parameters<library.Responses['exceptionResponse']>) {
      seen.push(Object.assign(parameters[1], { seen: true }))
      return super.exceptionResponse(...parameters)
    }
  }
  const rendering = await build(t, { responsesClass: Changing })
  const throwing = await build(t, { onRefusal: 'throw' })
  throwing.setErrorHandler(async (error: Error, request, reply) => {
    request.log.warn({ err: error })
    seen.push(Object.assign(error, { seen: true }))
    return reply.code(401).send({})
  })
  for (const app of [rendering, throwing]) {
    app.get('/', { preHandler: app.tokenAuth.protect() }, async () => 'reached')
    for (const authorization of ['', 'Basic x', 'Bearer x', 'Bearer x']) await app.inject({ url: '/', headers: { authorization } })
  }
  t.equal(seen.length, 8)
  t.equal(new Set(seen).size, 8)
})

t.test('a TokenAuthError thrown in a route of the host reaches its error handler with status and headers', async (t) => {
  const app = await build(t)
  app.get('/', async () => { throw new library.InsufficientScope(undefined, { required: ['a'] }) })
  const response = await app.inject({ url: '/', headers: bearer('unread') })
  t.equal(response.statusCode, 403)
  t.match(response.headers['www-authenticate'], 'scope="a"')
  t.same(response.json(), { statusCode: 403, code: 'TOKEN_AUTH_INSUFFICIENT_SCOPE', error: 'Forbidden', message: 'Invalid scope.' })
})
