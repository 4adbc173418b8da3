/** Free-standing `protect`, `scoped` and `injectUser`: they find the nearest instance of a route's context when a request comes. */
import type { FastifyInstance, FastifyReply, FastifyRequest, HookHandlerDoneFunction, RouteGenericInterface } from 'fastify'
import type { Guard, InstanceChoice, ProtectOptions, RequiredScopes, ScopedOptions } from '../../types/instance.ts'
import type { InjectUser, InstanceName } from '../../types/registry.ts'
import type { AnyRequest } from '../../types/requests.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { adviceOnCopies } from '../copies.ts'
import { InitializationFailure } from '../errors.ts'
import { publishRefused } from '../events.ts'
import { preventStoring } from '../http/caching.ts'
import { Responses, sendError } from '../http/responses.ts'
import { registrationOf, type Registration } from '../registration.ts'
import { checkCall, checkHandlerCall } from './call.ts'
import { declareMaker, describeGuard, describeInjected, descriptionOf, nameGuard, type GuardDescription } from './describe.ts'
import { checkRouteHandler, makeInjection, type Injected } from './inject-user.ts'
import { ofSetting } from '../settings/check.ts'
import { matching } from '../settings/kinds.ts'
import { optional } from '../settings/records.ts'
import { optionsOfGuards, readOptions } from './options.ts'
import { makeProtectGuard } from './protect.ts'
import { makeScopedGuard, readScopes } from './scoped.ts'
import { recordTrial } from '../wrapped/trial.ts'
import { memberOf } from '../values.ts'

/** Finds the registration of a guard in the context of a route. @throws {InitializationFailure} where there is none */
function findRegistration (context: FastifyInstance, { on = context, instanceName = 'tokenAuth' }: InstanceChoice): Registration {
  const instance: unknown = memberOf(on, instanceName)
  const registration = registrationOf(instance)
  if (registration !== undefined) return registration
  const advice =
    adviceOnCopies([instance]) || ' Register the plugin on its context or on an outer one, or pass the context of the instance as "on".'
  throw new InitializationFailure(`No instance named "${instanceName}" is registered for this route.${advice}`)
}

/** The options that choose the instance of a free-standing guard. */
export const choiceMembers = {
  on: optional(matching<object>('a Fastify instance', (value) => typeof value === 'object' && value !== null)),
  instanceName: optional(ofSetting<string>('instanceName'))
} as const

/** Options that contradict an instance are found during a request. In production, clients must not see the message. */
function hideFromClients (error: unknown): InvalidConfiguration {
  return new InvalidConfiguration(String(memberOf(error, 'message')), { duringRequest: true, cause: error })
}

/** Makes one guard for each registration, when the application is ready or at the first request. */
function perRegistration<Made> (choice: InstanceChoice, make: (registration: Registration) => Made): (context: FastifyInstance) => Made {
  const made = new WeakMap<Registration, Made>()
  return (context) => {
    const registration = findRegistration(context, choice)
    let own = made.get(registration)
    if (own === undefined) {
      try {
        own = make(registration)
      } catch (error) {
        throw hideFromClients(error)
      }
      made.set(registration, own)
    }
    return own
  }
}

/** Answers a request for which no instance was found. Without an instance, there is no `exceptionResponse` to render the error. */
function answerAbsence (
  { instanceName = 'tokenAuth' }: InstanceChoice,
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown
): unknown {
  publishRefused(instanceName, request, error)
  if (!(error instanceof InitializationFailure)) throw error
  preventStoring(reply)
  return sendError(new Responses(), request, reply, error)
}

/** Describes a guard whose registration is known only in the context of a route. */
function describeLater<Made extends object> (
  describe: typeof describeGuard,
  guard: object,
  madeFor: (context: FastifyInstance) => Made
): void {
  describe(guard, (context) => {
    try {
      return descriptionOf(madeFor(context), context)
    } catch {
      // Without an instance the route answers 500. The guard is not documented, and the access of the route stays undecided.
      return undefined
    }
  })
}

function freeGuard (
  choice: InstanceChoice,
  guardOf: (context: FastifyInstance) => Guard,
  scopeSets: GuardDescription['scopeSets'] = []
): Guard {
  function guard (request: FastifyRequest, reply: FastifyReply): Promise<void>
  function guard (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void
  function guard (request: FastifyRequest, reply: FastifyReply, done?: HookHandlerDoneFunction): Promise<void> | void {
    if (recordTrial(request, done, guard)) return
    checkCall(request, reply, done)
    let own: Guard
    try {
      own = guardOf(request.server)
    } catch (error) {
      answerAbsence(choice, request, reply, error)
      if (done !== undefined) return
      const refused = Promise.reject(error)
      // If the caller forgets `await`, the unhandled rejection must not end the process: the request was answered.
      refused.catch(() => {})
      return refused
    }
    return done === undefined ? own(request, reply) : own(request, reply, done)
  }
  describeLater(describeGuard, guard, guardOf)
  nameGuard(guard, String(choice.instanceName ?? 'tokenAuth'), scopeSets)
  // It passes on requests of any type.
  return guard as Guard
}

/** As `fastify.tokenAuth.protect`, for the nearest instance of the route's context. @throws {@link InvalidConfiguration} */
export function protect (overrides: ProtectOptions & InstanceChoice<InstanceName> = {}): Guard {
  const options = readOptions('protect', { ...optionsOfGuards.protect, ...choiceMembers }, overrides)
  return freeGuard(options, perRegistration(options, (registration) => makeProtectGuard(registration, options)))
}

/** As `fastify.tokenAuth.scoped`, for the nearest instance of the route's context. @throws {@link InvalidConfiguration} */
export function scoped<Route extends RouteGenericInterface = RouteGenericInterface, Request extends AnyRequest = FastifyRequest<Route>> (
  scopes: RequiredScopes<Route, Request>, overrides: ScopedOptions & InstanceChoice<InstanceName> = {}
): Guard {
  const options = readOptions('scoped', { ...optionsOfGuards.scoped, ...choiceMembers }, overrides)
  // Scopes of issuers with `exactScopes` may be any text. Here, the instance is known only with the option `on`.
  const known = options.on === undefined ? undefined : registrationOf(memberOf(options.on, options.instanceName ?? 'tokenAuth'))
  const { scopeSets } = readScopes(scopes, options, known?.hasExactScopes === true)
  return freeGuard(options, perRegistration(options, (registration) => makeScopedGuard(registration, scopes, options)), scopeSets)
}

/** As `fastify.tokenAuth.injectUser`, for the nearest instance of the route's context. @throws {@link InvalidConfiguration} */
export const injectUser: InjectUser = (handler, overrides = {}) => {
  const options = readOptions('injectUser', { ...optionsOfGuards.injectUser, ...choiceMembers }, overrides)
  checkRouteHandler(handler)
  const handlerOf = perRegistration(options, (registration) => makeInjection(registration, handler, options))
  const injected = async function (this: unknown, request: FastifyRequest, reply: FastifyReply) {
    if (recordTrial(request, reply, injected)) return
    checkHandlerCall(request, reply)
    let own: Injected
    try {
      own = handlerOf(request.server)
    } catch (error) {
      return answerAbsence(options, request, reply, error)
    }
    return await Reflect.apply(own, this, [request, reply])
  }
  describeLater(describeInjected, injected, handlerOf)
  // As in makeInjection.
  return injected as Injected
}

for (const [name, maker] of Object.entries({ protect, scoped, injectUser })) declareMaker(maker, name)
