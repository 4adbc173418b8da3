/** protect, scoped and injectUser: bound to an instance, and free-standing. A guard ends in "allowed" or in a refusal. */
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import type {
  Guard, GuardOptions, InjectedRouteHandler, InstanceChoice, RequiredScopes, ScopedOptions, UserRouteHandler
} from '../types/instance.ts'
import { callHost, hostError } from './authentication.ts'
import {
  InitializationFailure, InsufficientScope, InvalidAuthorizationHeader, InvalidConfiguration, InvalidScopes, MissingAuthorizationCookie,
  MissingAuthorizationHeader, MissingAuthorizationQueryArg, type TokenAuthError
} from './errors.ts'
import { prepareRedirect, type Policy } from './policy.ts'
import type { Refusal, RequestAuth } from './request-auth.ts'
import { Responses, sendError } from './responses.ts'
import { checkOverrides } from './settings/configuration.ts'
import { areScopesEnough, parseRequirements, type Requirement } from './token/scopes.ts'
import { TokenAuth } from './token-auth.ts'

/** What is asked of a request whose token is valid. */
type Check = (auth: RequestAuth, request: FastifyRequest) => Refusal | Promise<Refusal>

function decide (auth: RequestAuth, request: FastifyRequest, check: Check | undefined): Refusal | Promise<Refusal> {
  if (!auth.settings.doProtection) return null
  const refusal = auth.verify()
  if (check === undefined) return refusal
  if (refusal instanceof Promise) return refusal.then((found) => found ?? check(auth, request))
  return refusal ?? check(auth, request)
}

/** RFC 6750 section 5.3: what was asked for with a token in the URL must not stay in a cache. */
function allow (auth: RequestAuth, reply: FastifyReply): void {
  if (auth.foundIn === 'query') reply.header('cache-control', 'no-store')
}

/** Makes the hook of one guard. */
function hook (instance: TokenAuth, policy: Policy, check: Check | undefined): Guard {
  /** Resolved when the request may pass, rejected after it was answered: whoever waits for it cannot go on by mistake. */
  async function wait (auth: RequestAuth, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    let refusal: unknown
    try {
      refusal = await decide(auth, request, check)
    } catch (error) {
      refusal = error
    }
    if (refusal === null) return allow(auth, reply)
    await instance.refuse(request, reply, refusal, auth)
    throw refusal
  }

  function refuse (auth: RequestAuth, request: FastifyRequest, reply: FastifyReply, refusal: unknown, done: HookHandlerDoneFunction): void {
    try {
      const answer = instance.refuse(request, reply, refusal, auth)
      if (answer instanceof Promise) answer.catch(done)
    } catch (error) {
      done(error as Error)
    }
  }

  function guard (request: FastifyRequest, reply: FastifyReply): Promise<void>
  function guard (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void
  function guard (request: FastifyRequest, reply: FastifyReply, done?: HookHandlerDoneFunction): Promise<void> | void {
    const auth = instance.enter(request, policy)
    if (done === undefined) return wait(auth, request, reply)
    let refusal: Refusal | Promise<Refusal>
    try {
      refusal = decide(auth, request, check)
      if (refusal === null) allow(auth, reply)
    } catch (error) {
      return refuse(auth, request, reply, error, done)
    }
    // Outside of the `try`: what the rest of the request throws is not ours.
    if (refusal === null) return done()
    if (!(refusal instanceof Promise)) return refuse(auth, request, reply, refusal, done)
    refusal.then((found) => {
      if (found !== null) return refuse(auth, request, reply, found, done)
      allow(auth, reply)
      done()
    }, (error: unknown) => refuse(auth, request, reply, error, done))
  }
  return guard
}

export function makeGuard (instance: TokenAuth, policy: Policy): Guard {
  return hook(instance, policy, undefined)
}

interface ScopeOptions {
  requireAll?: boolean | undefined
  requireAllActions?: boolean | undefined
}

function checkFlag (name: keyof ScopeOptions, value: unknown): boolean {
  if (value === undefined) return true
  if (typeof value === 'boolean') return value
  throw new InvalidConfiguration(`"${name}" of scoped() must be true or false.`)
}

/**
 * Reads what scoped() was given.
 * @throws {InvalidConfiguration} for a requirement that is missing, empty or malformed: it must never open a route
 */
export function readRequirements (scopes: unknown): Requirement[] {
  const requirements = parseRequirements(scopes)
  if (requirements !== undefined) return requirements
  throw new InvalidConfiguration('scoped() needs a scope, a non-empty list of scopes, or a function of the request. A scope is "<namespace>:<action>:...", such as "user", "user:read" or ":read": no white space, no empty action.')
}

/** A list that a function of the host gave while the request waits. @throws {InvalidScopes} */
function computedRequirements (from: string, scopes: unknown): Requirement[] {
  const requirements = parseRequirements(scopes)
  if (requirements !== undefined) return requirements
  throw new InvalidScopes(`${from} must give a well-formed scope, or a non-empty list of them.`)
}

/** Decides once for each remembered token, where the decision follows from the token alone. */
function rememberDecisions (decide: (auth: RequestAuth) => boolean): (auth: RequestAuth) => boolean {
  const decisions = new WeakMap<object, boolean>()
  return (auth) => {
    const { remembered } = auth
    if (remembered === null) return decide(auth)
    let decision = decisions.get(remembered)
    if (decision === undefined) {
      decision = decide(auth)
      decisions.set(remembered, decision)
    }
    return decision
  }
}

export function makeScopedGuard (instance: TokenAuth, policy: Policy, scopes: RequiredScopes, options: ScopeOptions): Guard {
  const { destructureScopes, overrideScopeValidator } = instance.handlers
  const rules = {
    requireAll: checkFlag('requireAll', options.requireAll),
    requireAllActions: checkFlag('requireAllActions', options.requireAllActions),
    override: overrideScopeValidator
  }
  const areEnough = (auth: RequestAuth, requirements: readonly Requirement[]): boolean => {
    const { claims, settings: { scopesName } } = auth
    const claim = claims !== null && Object.hasOwn(claims, scopesName) ? claims[scopesName] : undefined
    try {
      return areScopesEnough(requirements, claim, rules)
    } catch (error) {
      throw hostError('overrideScopeValidator', error)
    }
  }
  const conclude = (auth: RequestAuth, requirements: readonly Requirement[], isEnough: boolean): Refusal => {
    if (isEnough) return null
    const refusal = new InsufficientScope(undefined, { required: requirements.map(({ text }) => text) })
    if (auth.settings.debug) refusal.detail = 'the scopes of the token are not enough'
    return refusal
  }

  const fixed = typeof scopes === 'function' ? undefined : readRequirements(scopes)
  if (fixed !== undefined && destructureScopes === undefined) {
    const isPure = overrideScopeValidator === undefined && !policy.resolved.getters.has('scopesName')
    const decide = isPure ? rememberDecisions((auth) => areEnough(auth, fixed)) : (auth: RequestAuth) => areEnough(auth, fixed)
    return hook(instance, policy, (auth) => conclude(auth, fixed, decide(auth)))
  }
  return hook(instance, policy, async (auth, request) => {
    let requirements = typeof scopes === 'function'
      ? computedRequirements('The function given to scoped()', await callHost('scopes', () => scopes(request)))
      : fixed!
    if (destructureScopes !== undefined) {
      const texts = requirements.map(({ text }) => text)
      requirements = computedRequirements('destructureScopes', await callHost('destructureScopes', () => destructureScopes(texts)))
    }
    return conclude(auth, requirements, areEnough(auth, requirements))
  })
}

/** Whether a request carries no token of ours at all; a bad one is another matter. */
function isWithoutToken (refusal: TokenAuthError): boolean {
  return refusal instanceof MissingAuthorizationHeader || refusal instanceof MissingAuthorizationCookie ||
    refusal instanceof MissingAuthorizationQueryArg || (refusal instanceof InvalidAuthorizationHeader && refusal.foreign)
}

function checkRouteHandler (handler: unknown): void {
  if (typeof handler !== 'function') throw new InvalidConfiguration('injectUser() needs a route handler (request, reply, user).')
}

export function makeInjection<Route extends object> (
  instance: TokenAuth, policy: Policy | undefined, handler: UserRouteHandler<object, Route>
): InjectedRouteHandler<Route> {
  checkRouteHandler(handler)
  const injected: InjectedRouteHandler = async function (request, reply) {
    // Without overrides of its own it goes by what a guard of the route found out.
    const auth = policy === undefined ? instance.of(request) : instance.enter(request, policy)
    let user: object | null = null
    try {
      const refusal = await auth.verify()
      if (refusal === null) user = await auth.user()
      else if (auth.settings.doProtection && !isWithoutToken(refusal)) throw refusal
      if (refusal === null) allow(auth, reply)
    } catch (error) {
      return await instance.refuse(request, reply, error, auth)
    }
    return await Reflect.apply(handler, this, [request, reply, user])
  }
  // Body, params and reply of the route are the handler's affair: they pass through untouched.
  return injected as InjectedRouteHandler<Route>
}

/** Finds the instance of a free-standing guard when a request comes. @throws {InitializationFailure} where there is none */
function findInstance (request: FastifyRequest, { on = request.server, instanceName = 'tokenAuth' }: InstanceChoice): TokenAuth {
  const instance: unknown = Reflect.get(on, instanceName)
  if (instance instanceof TokenAuth) return instance
  throw new InitializationFailure(`No token authentication named "${instanceName}" is registered for this route. Register the plugin on its context or above, or name the context with "on".`)
}

function splitChoice<Options extends GuardOptions & InstanceChoice> ({ on, instanceName, ...options }: Options) {
  if (on !== undefined && (typeof on !== 'object' || on === null)) throw new InvalidConfiguration('"on" of a free-standing guard must be a Fastify instance.')
  const choice: InstanceChoice = { on, instanceName }
  return { choice, options }
}

function checkGuardOptions ({ redirectOnFail, redirectUrl, ...overrides }: GuardOptions): void {
  prepareRedirect({ redirectOnFail, redirectUrl })
  checkOverrides({ ...overrides })
}

/** One guard for each instance that it meets, made when the first request comes. */
function perInstance<Made> (choice: InstanceChoice, make: (instance: TokenAuth) => Made): (request: FastifyRequest) => Made {
  const made = new WeakMap<TokenAuth, Made>()
  return (request) => {
    const instance = findInstance(request, choice)
    let own = made.get(instance)
    if (own === undefined) {
      own = make(instance)
      made.set(instance, own)
    }
    return own
  }
}

function freeGuard (guardOf: (request: FastifyRequest) => Guard): Guard {
  function guard (request: FastifyRequest, reply: FastifyReply): Promise<void>
  function guard (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void
  function guard (request: FastifyRequest, reply: FastifyReply, done?: HookHandlerDoneFunction): Promise<void> | void {
    let own: Guard
    try {
      own = guardOf(request)
    } catch (error) {
      if (!(error instanceof InitializationFailure)) throw error
      // Without an instance there is nothing else that could render it.
      sendError(new Responses(), request, reply, error)
      return done === undefined ? Promise.reject(error) : undefined
    }
    return done === undefined ? own(request, reply) : own(request, reply, done)
  }
  return guard
}

/** As `fastify.tokenAuth.protect`, for the nearest instance of the route's context. @throws {InvalidConfiguration} */
export function protect (overrides: GuardOptions & InstanceChoice = {}): Guard {
  const { choice, options } = splitChoice(overrides)
  checkGuardOptions(options)
  return freeGuard(perInstance(choice, (instance) => instance.protect(options)))
}

/** As `fastify.tokenAuth.scoped`, for the nearest instance of the route's context. @throws {InvalidConfiguration} */
export function scoped (scopes: RequiredScopes, overrides: ScopedOptions & InstanceChoice = {}): Guard {
  const { choice, options } = splitChoice(overrides)
  const { requireAll, requireAllActions, ...guardOptions } = options
  checkFlag('requireAll', requireAll)
  checkFlag('requireAllActions', requireAllActions)
  checkGuardOptions(guardOptions)
  if (typeof scopes !== 'function') readRequirements(scopes)
  return freeGuard(perInstance(choice, (instance) => instance.scoped(scopes, options)))
}

/** As `fastify.tokenAuth.injectUser`, for the nearest instance of the route's context. @throws {InvalidConfiguration} */
export function injectUser<Route extends object> (
  handler: UserRouteHandler<object, Route>, overrides: GuardOptions & InstanceChoice = {}
): InjectedRouteHandler<Route> {
  const { choice, options } = splitChoice(overrides)
  checkGuardOptions(options)
  checkRouteHandler(handler)
  const handlerOf = perInstance(choice, (instance) => instance.injectUser(handler, options))
  const injected: InjectedRouteHandler = async function (request, reply) {
    let own: InjectedRouteHandler<Route>
    try {
      own = handlerOf(request)
    } catch (error) {
      if (!(error instanceof InitializationFailure)) throw error
      return sendError(new Responses(), request, reply, error)
    }
    return await Reflect.apply(own, this, [request, reply])
  }
  // As in makeInjection.
  return injected as InjectedRouteHandler<Route>
}
