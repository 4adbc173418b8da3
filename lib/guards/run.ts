/** The hook of a guard. It ends in "allowed" or in a refusal. */
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import type { MaybePromise } from '../../types/handlers.ts'
import type { Guard } from '../../types/instance.ts'
import { failHook, isAnswered, timeoutOf } from '../host/call.ts'
import { preventStoring } from '../http/caching.ts'
import { clearTwins } from '../http/old-cookies.ts'
import { Refusal } from '../refusal.ts'
import { openState } from '../request/slot.ts'
import type { RequestState } from '../request/state.ts'
import { checkCall } from './call.ts'
import { describeGuard, nameGuard, type GuardDescription } from './describe.ts'
import { PassedRequests } from '../wrapped/gate.ts'
import type { PreparedGuard } from './options.ts'
import { answerRefusal, sendRefusal, reportRefused } from './refuse.ts'
import { recordTrial } from '../wrapped/trial.ts'

/** A guard, and the requests that it has let pass. */
interface RunningGuard extends PreparedGuard {
  readonly passed: PassedRequests
}

/**
 * Lets an anonymous request pass an optional guard. If a later guard renews the request, this guard checks it again with the
 * new tokens. @returns null; the refusal if the request is not anonymous
 */
function passAnonymous (guard: PreparedGuard, refusal: Refusal, state: RequestState, request: FastifyRequest): Refusal | null {
  if (guard.isAnonymous?.(state, refusal) !== true) return refusal
  if (guard.registration.sessions !== undefined) {
    state.record.renewing.waiting.push({ rules: state.rules, check: (renewed) => checkRequest(guard, renewed, request) })
  }
  return null
}

/** Checks a request after its credential. A guard with `renew` looks for anonymous ones after the renewal. @param refusal null if valid */
function conclude (
  guard: PreparedGuard,
  refusal: Refusal | null,
  state: RequestState,
  request: FastifyRequest
): MaybePromise<Refusal | null> {
  const { check, renew } = guard
  if (refusal === null) return check === undefined ? null : check(state, request)
  return renew === undefined ? passAnonymous(guard, refusal, state, request) : refusal
}

/** Checks a request. @returns the refusal; null if the request may pass */
export function checkRequest (guard: PreparedGuard, state: RequestState, request: FastifyRequest): MaybePromise<Refusal | null> {
  if (!state.settings.doProtection) return null
  const refusal = state.verify()
  return refusal instanceof Promise
    ? refusal.then((settled) => conclude(guard, settled, state, request))
    : conclude(guard, refusal, state, request)
}

/** The result of a check, and the state that was checked. */
interface Checked {
  readonly state: RequestState
  readonly refusal: Refusal | null
}

/** Waits for the result of a check, and renews a refused request if the guard can. */
export async function settle (
  guard: PreparedGuard,
  state: RequestState,
  request: FastifyRequest,
  reply: FastifyReply,
  decision: MaybePromise<Refusal | null>
): Promise<Checked> {
  const { renew } = guard
  const refusal = await decision
  if (refusal === null || renew === undefined) return { state, refusal }
  const renewed = await renew(state, refusal, reply)
  if (renewed === undefined) {
    const stands = passAnonymous(guard, refusal, state, request)
    if (stands === null) clearTwins(request, reply, state.settings)
    return { state, refusal: stands }
  }
  const decided = await checkRequest(guard, renewed, request)
  return { state: renewed, refusal: decided === null ? null : passAnonymous(guard, decided, renewed, request) }
}

/** Keeps caches from storing the response to a request that a guard lets pass. */
export function preventCaching ({ redirect }: Pick<PreparedGuard, 'redirect'>, state: RequestState, reply: FastifyReply): void {
  // RFC 6750 section 5.3: a response to a request with its token in the URL must not stay in a cache.
  if (state.verifiedSource === 'query') preventStoring(reply)
  // After a logout, a browser would show the cached response with "Back". A route may set the header itself.
  else if (redirect !== undefined && !reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store')
}

function refuse (
  guard: PreparedGuard,
  state: RequestState,
  request: FastifyRequest,
  reply: FastifyReply,
  refused: unknown,
  done: HookHandlerDoneFunction
): void {
  try {
    const answer = sendRefusal(guard.registration, request, reply, refused, state, guard.redirect)
    if (answer instanceof Promise) {
      answer.catch((error: unknown) => {
        failHook(done, error)
      })
    }
  } catch (error) {
    failHook(done, error)
  }
}

/** Notes that a guard lets a request pass. */
function allow (guard: RunningGuard, state: RequestState, reply: FastifyReply): void {
  preventCaching(guard, state, reply)
  guard.passed.note(state.request)
}

/** Ends the hook of a guard. */
function end (guard: RunningGuard, state: RequestState, refusal: Refusal | null, reply: FastifyReply, done: HookHandlerDoneFunction): void {
  try {
    if (refusal === null) allow(guard, state, reply)
  } catch (error) {
    return refuse(guard, state, state.request, reply, error, done)
  }
  // Outside the `try`: errors of later hooks and of the handler are not errors of the guard.
  if (refusal === null) done()
  else refuse(guard, state, state.request, reply, refusal, done)
}

/** Runs a guard as a hook with a callback, as Fastify calls it. */
function run (guard: RunningGuard, request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void {
  const state = openState(guard.registration, request, guard.rules)
  let refusal: MaybePromise<Refusal | null>
  try {
    refusal = checkRequest(guard, state, request)
  } catch (error) {
    return refuse(guard, state, request, reply, error, done)
  }
  if (refusal === null || (!(refusal instanceof Promise) && guard.renew === undefined)) return end(guard, state, refusal, reply, done)
  settle(guard, state, request, reply, refusal).then((decided) => {
    // The route's handler must not begin after the request was answered, by a timeout for example.
    if (!isAnswered(request, reply)) end(guard, decided.state, decided.refusal, reply, done)
  }, (error: unknown) => { if (!isAnswered(request, reply)) refuse(guard, state, request, reply, error, done) })
}

/**
 * Runs a guard that is called without a callback. The promise resolves when the request may pass. It rejects after a
 * refused request was answered, so that code after `await guard(request, reply)` does not run.
 */
async function wait (guard: RunningGuard, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  let state = openState(guard.registration, request, guard.rules)
  let isAllowed = false
  let refused: unknown
  try {
    ({ state, refusal: refused } = await settle(guard, state, request, reply, checkRequest(guard, state, request)))
    isAllowed = refused === null
  } catch (thrown) {
    refused = thrown
  }
  // After a timeout, code that waits for the guard must not run. Throwing the error of the timeout again keeps its response.
  const timeout = timeoutOf(request)
  if (timeout !== undefined) throw timeout
  if (isAllowed) return allow(guard, state, reply)
  reportRefused(guard.registration, request, refused, state)
  await answerRefusal(guard.registration, request, reply, refused, state, guard.redirect)
  throw refused instanceof Refusal ? state.toError(refused) : refused
}

/**
 * Makes the hook of a guard.
 * @param scopeSets the scopes that it requires, for its description
 * @param isOptional whether a request without a token passes, for its description
 */
export function makeHook (prepared: PreparedGuard, scopeSets: GuardDescription['scopeSets'] = [], isOptional = false): Guard {
  const passed = new PassedRequests()
  const guard = { ...prepared, passed }
  function hook (request: FastifyRequest, reply: FastifyReply): Promise<void>
  function hook (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void
  function hook (request: FastifyRequest, reply: FastifyReply, done?: HookHandlerDoneFunction): Promise<void> | void {
    if (recordTrial(request, done, hook)) return
    checkCall(request, reply, done)
    if (done === undefined) {
      const allowed = wait(guard, request, reply)
      // If the caller forgets `await`, the unhandled rejection must not end the process: the request was answered.
      allowed.catch(() => {})
      return allowed
    }
    run(guard, request, reply, done)
  }
  const { registration, rules, redirect } = guard
  describeGuard(hook, () => ({
    registration,
    rules,
    scopeSets,
    isOptional,
    isRedirecting: redirect !== undefined,
    enforce: () => ({ hook, hasPassed: passed.watch() })
  }))
  nameGuard(hook, registration.settings.instanceName, scopeSets)
  // A guard reads only what requests over HTTP/1.1 and HTTP/2 have in common.
  return hook as Guard
}
