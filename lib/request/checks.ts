/** The checks that the application applies to a payload, in the order of their calls. */
import type { FastifyRequest } from 'fastify'
import type { Credential } from '../authorities/authority.ts'
import { InvalidToken, TokenAuthError } from '../errors.ts'
import { hostError } from '../host/call.ts'
import type { HostHandlers } from '../host/handlers.ts'
import type { Host } from '../host/host.ts'
import { copyError, invalidToken, Refusal } from '../refusal.ts'
import { invalidClaim } from '../token/claims.ts'
import type { MaybePromise, Payload } from '../../types/handlers.ts'
import { ignoreRejection } from '../promises.ts'
import { isFunction, memberOf } from '../values.ts'

/** One check. `true` passes, a returned `Refusal` refuses, and any other result refuses with the refusal of the check. */
export interface Check {
  readonly refusal: Refusal
  /**
   * @param payload a copy, which the check may change
   * @param request undefined if a token is verified without a request
   */
  ask (payload: Payload, request: FastifyRequest | undefined): MaybePromise<unknown>
}

/** Calls a check that must be synchronous. Any result other than `true` refuses, also a promise and an error. */
function isTrue (check: () => unknown): boolean {
  try {
    const result = check()
    if (result === true) return true
    ignoreRejection(result)
    return false
  } catch {
    return false
  }
}

/** The refusals by the application, which a renewal must not override. */
const final = new WeakSet<Refusal>()

function makeFinal (refusal: Refusal): Refusal {
  final.add(refusal)
  return refusal
}

/**
 * Whether `trusted` or an extra verification has refused a token, so that the request must not be renewed. A missing custom
 * claim is no such refusal: a new deployment may have added the claim, and a renewed token has it.
 */
export const isFinal = (refusal: Refusal): boolean => final.has(refusal)

const notTrusted = invalidToken('the handler "trusted" did not return true')

/** Converts an error of `trusted`: a 401 of this plugin becomes a refusal. @throws any other error, converted by {@link hostError} */
function refusalOf (thrown: unknown): Refusal {
  if (thrown instanceof TokenAuthError && thrown.statusCode === 401) {
    return makeFinal(
      new Refusal(
        () => Object.assign(copyError(thrown), thrown, { cause: thrown.cause, headers: { ...thrown.headers } }),
        thrown instanceof InvalidToken ? thrown.reason : undefined
      )
    )
  }
  throw hostError('trusted', thrown)
}

/** Calls the handler `trusted`, which may be asynchronous. @throws errors that are not refusals, converted by {@link hostError} */
function askTrusted (trusted: HostHandlers['trusted'], payload: Payload, request: FastifyRequest | undefined): unknown {
  try {
    // If this handler exists, verifyToken() without a request has thrown earlier.
    const answer: unknown = trusted(request!, payload)
    if (answer === true) return true
    // Query builders return thenables that are not promises.
    return isFunction(memberOf(answer, 'then')) ? Promise.resolve(answer).catch(refusalOf) : answer
  } catch (error) {
    return refusalOf(error)
  }
}

/**
 * Returns the refusal if the session of a token has ended. Otherwise, unless `isRenewed`, records that the client has the token.
 * @param isRenewed whether this request has renewed the token, so that the client has not received it yet
 */
export type SessionCheck = (verified: Credential, isRenewed: boolean) => Refusal | undefined

/** Aborts a controller when a session ends, or immediately if it has ended. Keeps only weak references to the controller. */
export type WatchSession = (sid: string, payload: Credential['payload'], controller: AbortController) => void

/** The checks after those of the registered claims, in this order. */
export interface Checks {
  /** Undefined without sessions. */
  readonly session: SessionCheck | undefined
  /** The checks of the application. */
  readonly all: readonly Check[]
  /** The checks for tokens that do not contain the custom claims of the application. */
  readonly withoutClaims: readonly Check[]
}

/**
 * Creates the checks of the application: custom claims, then extra verifications (specification, States and transitions,
 * rule 5), then the handler `trusted`.
 */
function hostChecks ({ customClaims, extraVerifications, handlers: { trusted } }: Host): readonly Check[] {
  return [
    ...customClaims.map((claim): Check => ({
      refusal: invalidClaim(claim.key, `the claim "${claim.key}" is missing or was not verified`),
      ask: (payload) => Object.hasOwn(payload, claim.key) && isTrue(() => claim.verify(payload[claim.key]))
    })),
    ...extraVerifications.map((verification): Check => ({
      refusal: makeFinal(invalidClaim(null, `the extra verification "${verification.name}" did not pass`)),
      ask: (payload) => isTrue(() => verification(payload))
    })),
    ...trusted === undefined ? [] : [{ refusal: makeFinal(notTrusted), ask: askTrusted.bind(undefined, trusted) }]
  ]
}

/** Prepares the checks after those of the registered claims. @param session undefined without sessions */
export const prepareChecks = (host: Host, session: SessionCheck | undefined): Checks => ({
  session,
  all: hostChecks(host),
  withoutClaims: hostChecks({ ...host, customClaims: [] })
})

const chosen = (answer: unknown, refusal: Refusal) => answer instanceof Refusal ? answer : refusal

/**
 * Runs checks one after the other, up to the first that refuses.
 * @returns its refusal, or null; a promise only if a check returned one
 */
export function runChecks (
  checks: readonly Check[],
  payload: Payload,
  request: FastifyRequest | undefined,
  start = 0
): MaybePromise<Refusal | null> {
  for (let index = start; index < checks.length; index++) {
    const { refusal, ask } = checks[index]!
    const answer = ask(payload, request)
    if (answer instanceof Promise) {
      return answer.then((settled) => (settled === true ? runChecks(checks, payload, request, index + 1) : chosen(settled, refusal)))
    }
    if (answer !== true) return chosen(answer, refusal)
  }
  return null
}
