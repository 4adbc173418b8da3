/** The checks of the application on a payload, as records in the order in which they are asked. */
import type { FastifyRequest } from 'fastify'
import type { Host } from '../host/host.ts'
import { Refusal } from '../refusal.ts'
import { invalidClaim } from '../token/claims.ts'
import type { MaybePromise, Payload } from '../../types/handlers.ts'

/** One check. Only `true` passes; any other result is the refusal. */
export interface Check {
  readonly refusal: Refusal
  /**
   * @param payload a private copy: whatever the check does to it, no other request sees it
   * @param request undefined where a token is verified that did not come with a request
   */
  ask (payload: Payload, request: FastifyRequest | undefined): MaybePromise<unknown>
}

/** Calls a check that must be synchronous (contract, section 5): a promise is not `true`, and an error refuses. */
function isTrue (check: () => unknown): boolean {
  try {
    const result = check()
    // A rejection that nobody handles would end the process.
    if (result instanceof Promise) result.catch(() => {})
    return result === true
  } catch {
    return false
  }
}

/** Creates the checks of a registration: custom claims, then extra verifications (specification, States and transitions, rule 5). */
export function hostChecks ({ customClaims, extraVerifications }: Host): readonly Check[] {
  return [
    ...customClaims.map((claim): Check => ({
      refusal: invalidClaim(claim.key, `the claim "${claim.key}" is missing or was not verified`),
      ask: (payload) => Object.hasOwn(payload, claim.key) && isTrue(() => claim.verify(payload[claim.key]))
    })),
    ...extraVerifications.map((verification): Check => ({
      refusal: invalidClaim(null, `the extra verification "${verification.name}" did not pass`),
      ask: (payload) => isTrue(() => verification(payload))
    }))
  ]
}

/**
 * Asks checks one after the other and stops at the first that does not pass.
 * @returns the refusal of that check, or null; a promise only where a check returned one
 */
export function runChecks (checks: readonly Check[], payload: Payload, request: FastifyRequest | undefined, start = 0): MaybePromise<Refusal | null> {
  for (let index = start; index < checks.length; index++) {
    const { refusal, ask } = checks[index]!
    const answer = ask(payload, request)
    if (answer instanceof Promise) {
      return answer.then((settled) => settled === true ? runChecks(checks, payload, request, index + 1) : refusal)
    }
    if (answer !== true) return refusal
  }
  return null
}
