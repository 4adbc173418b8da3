/** The handlers of the application: where they come from, and which of them the settings require. */
import { AuthenticateNotImplemented, InvalidConfiguration, RefreshTokenNotImplemented } from '../configuration-errors.ts'
import { checkSubclass } from '../settings/check.ts'
import type { Settings } from '../settings/schema.ts'
import type { Handlers, UserId } from '../../types/handlers.ts'
import type { AnyRequest } from '../../types/requests.ts'
import type { ClaimsOf, UserIdOf, UserOf } from '../../types/registry.ts'
import { memberOf, typeName } from '../values.ts'

/** Handlers as methods. Their types are those of the instance `tokenAuth`, unless they are passed: `Authentication<Employee>`. */
export interface Authentication<
  User extends object = UserOf<'tokenAuth'>,
  Claims extends object = ClaimsOf<'tokenAuth'>,
  Id extends UserId = UserIdOf<'tokenAuth'>
> extends Handlers<User, Claims, Id, AnyRequest> {}

/**
 * The base of an authentication class. Each handler may be a method of a subclass instead of an option. If both
 * exist, the option is used.
 */
// The parameters belong to the interface above, which this class is merged with.
// eslint-disable-next-line @typescript-eslint/no-unused-vars
export class Authentication<User extends object = UserOf<'tokenAuth'>, Claims extends object = ClaimsOf<'tokenAuth'>, Id extends UserId = UserIdOf<'tokenAuth'>> {}

/** All handlers by their names. */
export type HostHandlers = Required<Handlers<object, Record<string, unknown>>>

/** The names of all handlers. */
export const handlerNames = [
  'authenticate', 'storeRefreshToken', 'retrieveRefreshToken', 'retrieveUser', 'addScopesToPayload',
  'overrideScopeValidator', 'destructureScopes', 'extendPayload', 'trusted'
] as const satisfies readonly (keyof HostHandlers)[]

function collectHandlers (options: Readonly<Record<string, unknown>>): Partial<HostHandlers> {
  const { authenticationClass = Authentication } = options
  const AuthenticationClass = checkSubclass('authenticationClass', authenticationClass, Authentication, 'reference.md#handlers')
  const authentication = new AuthenticationClass()
  // Without a prototype: properties of a polluted `Object.prototype` are not handlers.
  const handlers: Record<string, unknown> = Object.create(null)
  for (const name of handlerNames) {
    const isOption = options[name] !== undefined
    const handler = isOption ? options[name] : memberOf(authentication, name)
    if (handler === undefined || handler === memberOf(Object.prototype, name)) continue
    const source = `${isOption ? 'Option' : 'Authentication class:'} "${name}"`
    if (typeof handler !== 'function') {
      throw new InvalidConfiguration(`${source} must be a function; given: ${typeName(handler)}.`, { page: 'reference.md#handlers' })
    }
    handlers[name] = isOption ? handler : handler.bind(authentication)
  }
  return handlers
}

function checkRequiredHandlers (handlers: Partial<HostHandlers>, settings: Settings, hasSessions: boolean): void {
  if (settings.authMode && handlers.authenticate === undefined) {
    throw new AuthenticateNotImplemented(
      'The handler "authenticate" is missing. Provide it as an option or as a method of the authentication class, or set "authMode" to false for an instance that only verifies tokens.',
      { page: 'reference.md#handlers' }
    )
  }
  const refreshHandlers = ['storeRefreshToken', 'retrieveRefreshToken'] as const
  const superfluous = refreshHandlers.find((name) => hasSessions && handlers[name] !== undefined)
  if (superfluous !== undefined) {
    throw new InvalidConfiguration(
      `"sessions" and the handler "${superfluous}" are given. With sessions, the store keeps the data of refresh tokens: remove the handler.`,
      { page: 'sessions-reference.md#settings' }
    )
  }
  const missing = refreshHandlers.filter((name) => handlers[name] === undefined)
  if (settings.refreshTokenEnabled && !hasSessions && missing.length > 0) {
    const names = missing.map((name) => `"${name}"`).join(' and ')
    throw new RefreshTokenNotImplemented(
      `"refreshTokenEnabled" is true, but ${missing.length === 1 ? 'a handler is' : 'handlers are'} missing: ${names}. Provide both handlers as options or as methods of the authentication class.`,
      { page: 'reference.md#handlers' }
    )
  }
}

/**
 * Collects the handlers from the options and the authentication class.
 * @throws {InvalidConfiguration} for a handler that is not a function, or a class that is not a subclass of `Authentication`
 * @throws {AuthenticateNotImplemented} {RefreshTokenNotImplemented} for a missing handler that the settings require
 */
export function readHandlers (options: Readonly<Record<string, unknown>>, settings: Settings, hasSessions: boolean): Partial<HostHandlers> {
  const handlers = collectHandlers(options)
  checkRequiredHandlers(handlers, settings, hasSessions)
  return handlers
}
