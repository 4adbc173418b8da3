/** protect, scoped and injectUser, bound to an instance. A guard ends in "allowed" or in a refusal. */
import { inspect } from 'node:util'
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import type { Guard, InjectedRouteHandler, RequiredScopes, UserRouteHandler } from '../types/instance.ts'
import { InsufficientScope, InvalidConfiguration, InvalidScopes } from './errors.ts'
import { callHost, hostError, isAnswered, timeoutOf, typeName } from './host.ts'
import { describeGuard } from './openapi.ts'
import type { Policy } from './policy.ts'
import { Refusal } from './refusal.ts'
import { isWithoutToken } from './request/extract.ts'
import type { Outcome, RequestAuth } from './request-auth.ts'
import { areScopesEnough, parseRequirements, type Requirement } from './token/scopes.ts'
import type { TokenAuth } from './token-auth.ts'

/** What is asked of a request whose token is valid. */
type Check = (auth: RequestAuth, request: FastifyRequest) => Outcome | Promise<Outcome>

function decide (auth: RequestAuth, request: FastifyRequest, check: Check | undefined): Outcome | Promise<Outcome> {
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

/** Makes the hook of one guard. @param scopeSets the scopes that are enough, where that is known beforehand; for its description */
function hook (instance: TokenAuth, policy: Policy, check?: Check, scopeSets: readonly (readonly string[])[] = [[]]): Guard {
  /** Resolved when the request may pass, rejected after it was answered: whoever waits for it cannot go on by mistake. */
  async function wait (auth: RequestAuth, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    let isAllowed = false
    let error: unknown
    try {
      const refusal = await decide(auth, request, check)
      if (refusal === null) isAllowed = true
      else error = auth.errorForHost(refusal)
    } catch (thrown) {
      error = thrown
    }
    // What waited for this must not begin any more; the same error again leaves the answer as it is.
    const timeout = timeoutOf(request)
    if (timeout !== undefined) throw timeout
    if (isAllowed) return allow(auth, reply)
    await instance.refuse(request, reply, error, auth)
    throw error
  }

  function refuse (auth: RequestAuth, request: FastifyRequest, reply: FastifyReply, given: unknown, done: HookHandlerDoneFunction): void {
    try {
      const answer = instance.refuse(request, reply, given, auth)
      if (answer instanceof Promise) answer.catch(done)
    } catch (error) {
      done(error as Error)
    }
  }

  function guard (request: FastifyRequest, reply: FastifyReply): Promise<void>
  function guard (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void
  function guard (request: FastifyRequest, reply: FastifyReply, done?: HookHandlerDoneFunction): Promise<void> | void {
    if (done !== undefined && typeof done !== 'function') throw new InvalidConfiguration('A guard is a hook for onRequest, preValidation or preHandler; preParsing hooks get other parameters.', { section: 'guards' })
    const auth = instance.enter(request, policy)
    if (done === undefined) return wait(auth, request, reply)
    let refusal: Outcome | Promise<Outcome>
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
      // The handler does not begin what nobody waits for any more.
      if (isAnswered(request, reply)) return
      if (found !== null) return refuse(auth, request, reply, found, done)
      allow(auth, reply)
      done()
    }, (error: unknown) => { if (!isAnswered(request, reply)) refuse(auth, request, reply, error, done) })
  }
  describeGuard(guard, () => ({ instance, settings: policy.resolved.settings, scopeSets }))
  return guard
}

export function makeGuard (instance: TokenAuth, policy: Policy): Guard {
  return hook(instance, policy)
}

export interface ScopeOptions {
  requireAll?: boolean | undefined
  requireAllActions?: boolean | undefined
}

/** @throws {InvalidConfiguration} */
export function checkFlag (name: keyof ScopeOptions, value: unknown): boolean {
  if (value === undefined) return true
  if (typeof value === 'boolean') return value
  throw new InvalidConfiguration(`"${name}" of scoped() must be true or false; given: ${typeName(value)}.`, { section: 'scopes' })
}

/**
 * Reads what scoped() was given.
 * @throws {InvalidConfiguration} for a requirement that is missing, empty or malformed: it must never open a route
 */
export function readRequirements (scopes: unknown): Requirement[] {
  const requirements = parseRequirements(scopes)
  if (requirements !== undefined) return requirements
  const shown = inspect(scopes, { depth: 1, maxArrayLength: 10, maxStringLength: 60, breakLength: Infinity })
  throw new InvalidConfiguration(`scoped() needs a scope, a non-empty list of scopes, or a function of the request; given: ${shown}. A scope is "<namespace>:<action>:...", such as "user", "user:read" or ":read": no white space, no empty action.`, { section: 'scopes' })
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
  const insufficient = (requirements: readonly Requirement[]): Refusal => {
    const required = requirements.map(({ text }) => text)
    const reason = `the scopes of the token are not enough for ${required.map((text) => JSON.stringify(text)).join(rules.requireAll ? ' and ' : ' or ')}`
    return new Refusal(() => new InsufficientScope(undefined, { required }), reason)
  }

  const fixed = typeof scopes === 'function' ? undefined : readRequirements(scopes)
  const texts = fixed?.map(({ text }) => text) ?? []
  const scopeSets = rules.requireAll || texts.length === 0 ? [texts] : texts.map((text) => [text])
  if (fixed !== undefined && destructureScopes === undefined) {
    const isPure = overrideScopeValidator === undefined && !policy.resolved.getters.has('scopesName')
    const decide = isPure ? rememberDecisions((auth) => areEnough(auth, fixed)) : (auth: RequestAuth) => areEnough(auth, fixed)
    const refusal = insufficient(fixed)
    return hook(instance, policy, (auth) => decide(auth) ? null : refusal, scopeSets)
  }
  return hook(instance, policy, async (auth, request) => {
    let requirements = typeof scopes === 'function'
      ? computedRequirements('The function given to scoped()', await callHost('scopes', () => scopes(request)))
      : fixed!
    if (destructureScopes !== undefined) {
      const required = requirements.map(({ text }) => text)
      requirements = computedRequirements('destructureScopes', await callHost('destructureScopes', () => destructureScopes(required)))
    }
    return areEnough(auth, requirements) ? null : insufficient(requirements)
  }, scopeSets)
}

/** @throws {InvalidConfiguration} */
export function checkRouteHandler (handler: unknown): void {
  if (typeof handler !== 'function') throw new InvalidConfiguration(`injectUser() needs a route handler (request, reply, user); given: ${typeName(handler)}.`, { section: 'guards' })
}

export function makeInjection<Route extends object> (
  instance: TokenAuth, policy: Policy | undefined, handler: UserRouteHandler<object, Route>
): InjectedRouteHandler<Route> {
  checkRouteHandler(handler)
  const injected: InjectedRouteHandler = async function (request, reply) {
    // Without overrides of its own it goes by what a guard of the route found out.
    const auth = policy === undefined ? instance.of(request) : instance.enter(request, policy)
    // What the host answered meanwhile stays its answer.
    const refuse = (given: unknown) => isAnswered(request, reply) ? reply : instance.refuse(request, reply, given, auth)
    let user: object | null = null
    let refusal: Outcome
    try {
      refusal = await auth.verify()
      if (refusal === null) {
        user = await auth.user()
        allow(auth, reply)
      } else if (!auth.settings.doProtection || isWithoutToken(refusal)) {
        refusal = null
      }
    } catch (error) {
      return await refuse(error)
    }
    if (refusal !== null) return await refuse(refusal)
    if (isAnswered(request, reply)) return reply
    return await Reflect.apply(handler, this, [request, reply, user])
  }
  describeGuard(injected, () => ({ instance, settings: policy?.resolved.settings ?? instance.settings, scopeSets: [[]], isOptional: true }))
  // Body, params and reply of the route are the handler's affair: they pass through untouched.
  return injected as InjectedRouteHandler<Route>
}
