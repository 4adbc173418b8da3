/** Verifies tokens that the application passes to `verifyToken`. */
import type { FastifyRequest } from 'fastify'
import { RequiredKeysNotFound } from '../configuration-errors.ts'
import { InvalidToken } from '../errors.ts'
import { Refusal } from '../refusal.ts'
import { withoutRequest } from '../host/getters.ts'
import type { Payload } from '../../types/handlers.ts'
import { registeredStateOf } from './slot.ts'
import type { Owner } from './record.ts'
import { keyNotKnown, ownPayload, type Verification } from './verify.ts'

const needsRequest = '. Call verifyToken(token, request), or read request.tokenAuth.payload.'

/** The refusal of a token that is not a string. */
const noText = new Refusal(() => new InvalidToken())

/**
 * Prepares the synchronous verification of tokens without a request.
 * @returns a function that returns a copy of the payload, and throws the error of a refusal
 */
export function prepareGivenToken ({ rules, host: { handlers } }: Owner): (token: string) => Payload {
  // A setting that has a getter throws when it is read.
  const results = withoutRequest(needsRequest)
  const settings = rules.settingsOf(results)
  const isTrustedAsked = handlers.trusted !== undefined
  return (token) => {
    if (typeof token !== 'string') throw noText.toError(rules.settings)
    if (isTrustedAsked) {
      throw new RequiredKeysNotFound(`The handler "trusted" needs a request${needsRequest}`, {
        page: 'reference.md#handlers',
        duringRequest: true
      })
    }
    const verification: Verification = { results, settings, request: undefined, renewal: undefined }
    const verdict = rules.verify(token, verification, 'access')
    // The settings of the registration: those with getters need a request.
    if (verdict instanceof Refusal) throw verdict.toError(rules.settings)
    if (!(verdict instanceof Promise)) return ownPayload(verdict)
    // An unhandled rejection would end the process.
    verdict.catch(() => {})
    throw keyNotKnown.toError(rules.settings)
  }
}

/** Verifies a token with the getters and the handler `trusted`. They get the request, whose own token is not verified. */
export async function verifyGivenToken (owner: Owner, token: string, request: FastifyRequest): Promise<Payload> {
  const { settings, results, renewal } = registeredStateOf(owner, request)
  if (typeof token !== 'string') throw noText.toError(settings)
  const verdict = await owner.rules.verify(token, { settings, results, request, renewal }, 'access')
  if (verdict instanceof Refusal) throw verdict.toError(settings)
  return ownPayload(verdict)
}
