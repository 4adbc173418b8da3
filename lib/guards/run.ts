/** The hook of a guard. It ends in "allowed" or in a refusal. */
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import type { MaybePromise } from '../../types/handlers.ts'
import type { Guard } from '../../types/instance.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { isAnswered, timeoutOf } from '../host/call.ts'
import { Refusal } from '../refusal.ts'
import { isWithoutToken } from '../request/extract.ts'
import { openState } from '../request/slot.ts'
import type { RequestState } from '../request/state.ts'
import { describeGuard, nameGuard, type GuardDescription } from './describe.ts'
import type { PreparedGuard } from './options.ts'
import { answerRefusal, errorOf, sendRefusal, tellRefused } from './refuse.ts'
import { isTrial } from './trial.ts'

/** Checks a request whose token is valid. Returns the refusal, or null. */
export type GuardCheck = (state: RequestState, request: FastifyRequest) => MaybePromise<Refusal | null>

/** A guard whose hook is to be made. No part may be left out: it would be read from a polluted `Object.prototype`. */
interface GuardHook extends PreparedGuard {
  /** What is checked after the age of the login; undefined for nothing. */
  readonly check: GuardCheck | undefined
  /** Whether a request without a token passes, too. */
  readonly isOptional: boolean
}

/** Joins the checks that follow a valid token: the age of the login first, since a 401 goes before a 403. */
function joinChecks ({ checkLogin, check }: GuardHook): GuardCheck | undefined {
  if (checkLogin === undefined || check === undefined) return checkLogin ?? check
  return (state, request) => checkLogin(state) ?? check(state, request)
}

/** Decides about a request whose token was verified. @param refusal null for a valid token */
function conclude ({ check, isOptional }: GuardHook, refusal: Refusal | null, state: RequestState, request: FastifyRequest): MaybePromise<Refusal | null> {
  if (refusal === null) return check === undefined ? null : check(state, request)
  return isOptional && isWithoutToken(refusal) ? null : refusal
}

function decide (guard: GuardHook, state: RequestState, request: FastifyRequest): MaybePromise<Refusal | null> {
  if (!state.settings.doProtection) return null
  const refusal = state.verify()
  return refusal instanceof Promise ? refusal.then((settled) => conclude(guard, settled, state, request)) : conclude(guard, refusal, state, request)
}

/** RFC 6750 section 5.3: a response to a request with its token in the URL must not stay in a cache. */
export function preventCaching (state: RequestState, reply: FastifyReply): void {
  if (state.verifiedSource === 'query') reply.header('cache-control', 'no-store')
}

function refuse (guard: GuardHook, state: RequestState, request: FastifyRequest, reply: FastifyReply, refused: unknown, done: HookHandlerDoneFunction): void {
  try {
    const answer = sendRefusal(guard.registration, request, reply, refused, state, guard.redirect)
    if (answer instanceof Promise) answer.catch(done)
  } catch (error) {
    done(error as Error)
  }
}

/** Runs a guard as a hook with a callback, as Fastify calls it. */
function run (guard: GuardHook, request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void {
  const state = openState(guard.registration, request, guard.rules)
  let refusal: MaybePromise<Refusal | null>
  try {
    refusal = decide(guard, state, request)
    if (refusal === null) preventCaching(state, reply)
  } catch (error) {
    return refuse(guard, state, request, reply, error, done)
  }
  // Outside of the `try`: what the rest of the request throws is not an error of the guard.
  if (refusal === null) return done()
  if (!(refusal instanceof Promise)) return refuse(guard, state, request, reply, refusal, done)
  refusal.then((settled) => {
    // The route's handler must not begin after the request was answered, by a timeout for example.
    if (isAnswered(request, reply)) return
    if (settled !== null) return refuse(guard, state, request, reply, settled, done)
    preventCaching(state, reply)
    done()
  }, (error: unknown) => { if (!isAnswered(request, reply)) refuse(guard, state, request, reply, error, done) })
}

/**
 * Runs a guard that is called without a callback. The promise resolves when the request may pass. It rejects after a
 * refused request was answered, so that code after `await guard(request, reply)` does not run.
 */
async function wait (guard: GuardHook, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const state = openState(guard.registration, request, guard.rules)
  let isAllowed = false
  let refused: unknown
  try {
    refused = await decide(guard, state, request)
    isAllowed = refused === null
  } catch (thrown) {
    refused = thrown
  }
  // Code that waited for the guard must not begin any more. Throwing the error of the timeout again keeps its answer.
  const timeout = timeoutOf(request)
  if (timeout !== undefined) throw timeout
  if (isAllowed) return preventCaching(state, reply)
  tellRefused(guard.registration, request, refused, state)
  const error = refused instanceof Refusal ? errorOf(guard.registration, refused, state) : refused
  await answerRefusal(guard.registration, request, reply, error, state, guard.redirect)
  throw error
}

/**
 * Makes the hook of a guard.
 * @param scopeSets the scopes that it requires, for its description
 */
export function makeHook (parts: GuardHook, scopeSets: GuardDescription['scopeSets'] = []): Guard {
  const guard = { ...parts, check: joinChecks(parts) }
  function hook (request: FastifyRequest, reply: FastifyReply): Promise<void>
  function hook (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void
  function hook (request: FastifyRequest, reply: FastifyReply, done?: HookHandlerDoneFunction): Promise<void> | void {
    if (isTrial(request, done, hook)) return
    if (done === undefined) {
      const allowed = wait(guard, request, reply)
      // A caller that forgets `await` must not end the process: the request was answered.
      allowed.catch(() => {})
      return allowed
    }
    if (typeof done !== 'function') throw new InvalidConfiguration('A guard was called with the parameters of another kind of hook. Use it as onRequest, preValidation or preHandler.', { page: 'guards.md', duringRequest: true })
    run(guard, request, reply, done)
  }
  const { registration, rules, redirect, isOptional } = guard
  describeGuard(hook, () => ({ registration, rules, scopeSets, isOptional, isRedirecting: redirect !== undefined }))
  nameGuard(hook, registration.settings.instanceName, scopeSets)
  return hook
}
