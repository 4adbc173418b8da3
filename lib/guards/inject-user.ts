/** Route handlers that get the user as a parameter. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AnyReply, AnyRequest } from '../../types/requests.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { isAnswered } from '../host/call.ts'
import { clearTwins } from '../http/old-cookies.ts'
import { typeName } from '../values.ts'
import type { Registration } from '../registration.ts'
import { openState, stateOf } from '../request/slot.ts'
import { checkHandlerCall } from './call.ts'
import { describeInjected } from './describe.ts'
import { prepareGuard, withAnonymous, type ReadOptions } from './options.ts'
import { sendRefusal } from './refuse.ts'
import { checkRequest, makeHook, preventCaching, settle } from './run.ts'
import { recordTrial } from '../wrapped/trial.ts'

/** A route handler of the application. Only the application knows its types. */
export type AnyHandler = (request: never, reply: never, user: never) => unknown

/** A handler made by `injectUser`. Request, reply and result pass unchanged, and have the types of the wrapped handler. */
export type Injected = (this: unknown, request: AnyRequest, reply: AnyReply) => any

/** @throws {InvalidConfiguration} */
export function checkRouteHandler (handler: unknown): void {
  if (typeof handler !== 'function') {
    throw new InvalidConfiguration(`injectUser() requires a route handler (request, reply, user); given: ${typeName(handler)}.`, {
      page: 'guards.md'
    })
  }
}

/**
 * Wraps a route handler so that it gets the user of the token, or null for a request without one.
 * @throws {InvalidConfiguration} for options that contradict the registration, or a handler that is not a function
 */
export function makeInjection (registration: Registration, handler: AnyHandler, options: ReadOptions): Injected {
  const guard = withAnonymous(prepareGuard(registration, options))
  checkRouteHandler(handler)
  const hasOwnRules = guard.rules !== registration.rules
  const injected = async function (this: unknown, request: FastifyRequest, reply: FastifyReply) {
    if (recordTrial(request, reply, injected)) return
    checkHandlerCall(request, reply)
    // Without overrides, the handler uses the state that a guard of the route has left.
    let state = hasOwnRules ? openState(registration, request, guard.rules) : stateOf(registration, request)
    let user: object | null = null
    let isAllowed = false
    let refused: unknown
    try {
      ;({ state, refusal: refused } = await settle(guard, state, request, reply, checkRequest(guard, state, request)))
      if (refused === null) user = await state.user()
      isAllowed = refused === null
    } catch (thrown) {
      refused = thrown
    }
    // The request was answered in the meantime, for example by a timeout.
    if (isAnswered(request, reply)) return reply
    if (!isAllowed) return await sendRefusal(registration, request, reply, refused, state, guard.redirect)
    if (user === null) clearTwins(request, reply, state.settings)
    else preventCaching(guard, state, reply)
    return await Reflect.apply(handler, this, [request, reply, user])
  }
  // A guard that refuses the same requests, for a gate that runs before a function that replaced the handler.
  const enforce = () => ({ hook: makeHook(guard, [], true), hasPassed: () => false })
  describeInjected(injected, () => ({
    registration,
    rules: guard.rules,
    scopeSets: [],
    isOptional: true,
    isRedirecting: guard.redirect !== undefined,
    enforce
  }))
  // The request, the reply and the result pass unchanged, so they have the types of the wrapped handler.
  return injected as Injected
}
