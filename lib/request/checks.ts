/** The checks of the application on a payload, as records in the order in which they are asked. */
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

/** One check. Only `true` passes; a refusal is that refusal; any other result is the refusal of the check. */
export interface Check {
  readonly refusal: Refusal
  /**
   * @param payload a private copy: whatever the check does to it, no other request sees it
   * @param request undefined where a token is verified that did not come with a request
   */
  ask (payload: Payload, request: FastifyRequest | undefined): MaybePromise<unknown>
}

/** Calls a check that must be synchronous: a promise is not `true`, and an error refuses. */
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

/** The refusals of an application that does not want this user, or this token, whatever is renewed. */
const final = new WeakSet<Refusal>()

function makeFinal (refusal: Refusal): Refusal {
  final.add(refusal)
  return refusal
}

/**
 * Whether the application has refused a token by `trusted` or an extra verification, so that a renewal must not answer
 * it. A custom claim that is missing may be one that a deployment has added.
 */
export const isFinal = (refusal: Refusal): boolean => final.has(refusal)

const notTrusted = invalidToken('the handler "trusted" did not return true')

/** Converts what `trusted` threw: a 401 of this library is a refusal, as if it were returned. @throws anything else, converted by {@link hostError} */
function refusalOf (thrown: unknown): Refusal {
  if (thrown instanceof TokenAuthError && thrown.statusCode === 401) {
    return makeFinal(new Refusal(() => Object.assign(copyError(thrown), thrown, { cause: thrown.cause }), thrown instanceof InvalidToken ? thrown.reason : undefined))
  }
  throw hostError('trusted', thrown)
}

/** Calls the handler `trusted`, which may wait. @throws what it throws, unless that is a refusal, converted by {@link hostError} */
function askTrusted (trusted: HostHandlers['trusted'], payload: Payload, request: FastifyRequest | undefined): unknown {
  try {
    // Without a request, nothing is verified that `trusted` decides about.
    const answer: unknown = trusted(request!, payload)
    if (answer === true) return true
    // Query builders return objects that can be awaited, but are no promises.
    return isFunction(memberOf(answer, 'then')) ? Promise.resolve(answer).catch(refusalOf) : answer
  } catch (error) {
    return refusalOf(error)
  }
}

/**
 * Returns the refusal of a token whose session has ended; undefined for any other, of which it notes that it was received, if it was.
 * @param isRenewed whether the request was given the token by its own renewal, so that nobody has received it yet
 */
export type SessionCheck = (verified: Credential, isRenewed: boolean) => Refusal | undefined

/** Aborts a controller when a session ends, or at once where it has. It must keep no strong reference to the controller. */
export type WatchSession = (sid: string, payload: Credential['payload'], controller: AbortController) => void

/** What is checked after the claims, in this order. */
export interface Checks {
  /** Undefined without sessions. */
  readonly session: SessionCheck | undefined
  /** The checks of the application. */
  readonly all: readonly Check[]
  /** Those for tokens without the custom claims of the application. */
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

/** Prepares what is checked after the claims. @param session undefined without sessions */
export const prepareChecks = (host: Host, session: SessionCheck | undefined): Checks => ({ session, all: hostChecks(host), withoutClaims: hostChecks({ ...host, customClaims: [] }) })

const chosen = (answer: unknown, refusal: Refusal) => answer instanceof Refusal ? answer : refusal

/**
 * Asks checks one after the other and stops at the first that does not pass.
 * @returns the refusal of that check, or null; a promise only where a check returned one
 */
export function runChecks (checks: readonly Check[], payload: Payload, request: FastifyRequest | undefined, start = 0): MaybePromise<Refusal | null> {
  for (let index = start; index < checks.length; index++) {
    const { refusal, ask } = checks[index]!
    const answer = ask(payload, request)
    if (answer instanceof Promise) {
      return answer.then((settled) => settled === true ? runChecks(checks, payload, request, index + 1) : chosen(settled, refusal))
    }
    if (answer !== true) return chosen(answer, refusal)
  }
  return null
}
