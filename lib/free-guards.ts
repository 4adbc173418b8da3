/** protect, scoped and injectUser, free-standing: they find the nearest instance of a route's context when a request comes. */
import type { FastifyInstance, FastifyReply, FastifyRequest, HookHandlerDoneFunction, RouteGenericInterface } from 'fastify'
import type {
  Guard, GuardOptions, InjectedRouteHandler, InstanceChoice, RequiredScopes, ScopedOptions, UserRouteHandler
} from '../types/instance.ts'
import type { InstanceName, UserOf } from '../types/registry.ts'
import { InitializationFailure, InvalidConfiguration } from './errors.ts'
import { typeName } from './host.ts'
import { checkFlag, checkRouteHandler, readRequirements } from './guards.ts'
import { describeGuard, descriptionOf } from './openapi.ts'
import { prepareRedirect, readOptions } from './policy.ts'
import { Responses, sendError } from './responses.ts'
import { checkOverrides } from './settings/configuration.ts'
import { TokenAuth } from './token-auth.ts'

/** Finds the instance of a guard in the context of a route. @throws {InitializationFailure} where there is none */
function findInstance (context: FastifyInstance, { on = context, instanceName = 'tokenAuth' }: InstanceChoice): TokenAuth {
  const instance: unknown = Reflect.get(on, instanceName)
  if (instance instanceof TokenAuth) return instance
  throw new InitializationFailure(`No token authentication named "${instanceName}" is registered for this route. Register the plugin on its context or above, or name the context with "on".`)
}

function splitChoice<Options extends GuardOptions & InstanceChoice> (overrides: Options) {
  const { on, instanceName, ...options } = readOptions(overrides)
  if (on !== undefined && (typeof on !== 'object' || on === null)) throw new InvalidConfiguration(`"on" of a free-standing guard must be a Fastify instance; given: ${typeName(on)}.`, { section: 'guards' })
  const choice: InstanceChoice = { on, instanceName }
  return { choice, options }
}

function checkGuardOptions ({ redirectOnFail, redirectUrl, ...overrides }: GuardOptions): void {
  prepareRedirect({ redirectOnFail, redirectUrl })
  checkOverrides({ ...overrides })
}

/** One guard for each instance that it meets, made when it meets it first. */
function perInstance<Made> (choice: InstanceChoice, make: (instance: TokenAuth) => Made): (context: FastifyInstance) => Made {
  const made = new WeakMap<TokenAuth, Made>()
  return (context) => {
    const instance = findInstance(context, choice)
    let own = made.get(instance)
    if (own === undefined) {
      own = make(instance)
      made.set(instance, own)
    }
    return own
  }
}

/** Without an instance there is nothing else that could render its absence. */
function answerAbsence (request: FastifyRequest, reply: FastifyReply, error: unknown): unknown {
  if (!(error instanceof InitializationFailure)) throw error
  return sendError(new Responses(), request, reply, error)
}

/** What OpenAPI says of a guard whose instance is known in the context of a route only. */
function describeLater<Made extends object> (guard: object, madeFor: (context: FastifyInstance) => Made): void {
  describeGuard(guard, (context) => {
    try {
      return descriptionOf(madeFor(context), context)
    } catch {
      // Without an instance the route answers 500: nothing to document.
      return undefined
    }
  })
}

function freeGuard (guardOf: (context: FastifyInstance) => Guard): Guard {
  function guard (request: FastifyRequest, reply: FastifyReply): Promise<void>
  function guard (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void
  function guard (request: FastifyRequest, reply: FastifyReply, done?: HookHandlerDoneFunction): Promise<void> | void {
    let own: Guard
    try {
      own = guardOf(request.server)
    } catch (error) {
      answerAbsence(request, reply, error)
      return done === undefined ? Promise.reject(error) : undefined
    }
    return done === undefined ? own(request, reply) : own(request, reply, done)
  }
  describeLater(guard, guardOf)
  return guard
}

/** As `fastify.tokenAuth.protect`, for the nearest instance of the route's context. @throws {@link InvalidConfiguration} */
export function protect (overrides: GuardOptions & InstanceChoice<InstanceName> = {}): Guard {
  const { choice, options } = splitChoice(overrides)
  checkGuardOptions(options)
  return freeGuard(perInstance(choice, (instance) => instance.protect(options)))
}

/** As `fastify.tokenAuth.scoped`, for the nearest instance of the route's context. @throws {@link InvalidConfiguration} */
export function scoped (scopes: RequiredScopes, overrides: ScopedOptions & InstanceChoice<InstanceName> = {}): Guard {
  const { choice, options } = splitChoice(overrides)
  const { requireAll, requireAllActions, ...guardOptions } = options
  checkFlag('requireAll', requireAll)
  checkFlag('requireAllActions', requireAllActions)
  checkGuardOptions(guardOptions)
  if (typeof scopes !== 'function') readRequirements(scopes)
  return freeGuard(perInstance(choice, (instance) => instance.scoped(scopes, options)))
}

/** As `fastify.tokenAuth.injectUser`, for the nearest instance of the route's context. @throws {@link InvalidConfiguration} */
export function injectUser<Route extends RouteGenericInterface = RouteGenericInterface, Name extends InstanceName = 'tokenAuth'> (
  handler: UserRouteHandler<UserOf<Name>, Route>, overrides: GuardOptions & InstanceChoice<Name> = {}
): InjectedRouteHandler<Route> {
  const { choice, options } = splitChoice(overrides)
  checkGuardOptions(options)
  checkRouteHandler(handler)
  // The instance of this name gives users of this type: that is what its declaration says.
  const handlerOf = perInstance(choice, (instance) => instance.injectUser(handler as UserRouteHandler<object, Route>, options))
  const injected: InjectedRouteHandler = async function (request, reply) {
    let own: InjectedRouteHandler<Route>
    try {
      own = handlerOf(request.server)
    } catch (error) {
      return answerAbsence(request, reply, error)
    }
    return await Reflect.apply(own, this, [request, reply])
  }
  describeLater(injected, handlerOf)
  // As in makeInjection.
  return injected as InjectedRouteHandler<Route>
}
