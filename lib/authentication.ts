/** The host's handlers: where they come from. */
import { InvalidConfiguration } from './errors.ts'
import { typeName } from './host.ts'
import type { Handlers } from '../types/handlers.ts'
import type { ClaimsOf, UserOf } from '../types/registry.ts'
import { checkSubclass } from './settings/check.ts'

/** The handlers of a host as methods: of the instance `tokenAuth`, unless another user is named (`Authentication<Employee>`). */
export interface Authentication<User extends object = UserOf<'tokenAuth'>, Claims extends object = ClaimsOf<'tokenAuth'>> extends Handlers<User, Claims> {}

/**
 * The base of an authentication class: each handler may be a method of a subclass instead of an option. Where both are
 * given, the option wins.
 */
// The parameters belong to the interface above, which this class is merged with.
// eslint-disable-next-line @typescript-eslint/no-unused-vars
export class Authentication<User extends object = UserOf<'tokenAuth'>, Claims extends object = ClaimsOf<'tokenAuth'>> {}

/** Every handler by name, as the instance calls it. */
export type HostHandlers = Required<Handlers<object, Record<string, unknown>>>

export const handlerNames = [
  'authenticate', 'storeRefreshToken', 'retrieveRefreshToken', 'retrieveUser', 'addScopesToPayload',
  'overrideScopeValidator', 'destructureScopes', 'extendPayload'
] as const satisfies readonly (keyof HostHandlers)[]

/**
 * Collects the handlers from the options and the authentication class.
 * @throws {InvalidConfiguration} for a handler that is no function, or a class that is no subclass of `Authentication`
 */
export function collectHandlers (options: Readonly<Record<string, unknown>>): Partial<HostHandlers> {
  const { authenticationClass = Authentication } = options
  const Given = checkSubclass('authenticationClass', authenticationClass, Authentication, 'handlers')
  const authentication = new Given()
  const handlers: Record<string, unknown> = {}
  for (const name of handlerNames) {
    const fromOption = options[name] !== undefined
    const handler: unknown = fromOption ? options[name] : Reflect.get(authentication, name)
    if (handler === undefined) continue
    const source = `${fromOption ? 'Option' : 'Authentication class:'} "${name}"`
    if (typeof handler !== 'function') throw new InvalidConfiguration(`${source} must be a function; given: ${typeName(handler)}.`, { section: 'handlers' })
    handlers[name] = fromOption ? handler : handler.bind(authentication)
  }
  return handlers
}
