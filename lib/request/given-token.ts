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
    if (typeof token !== 'string') throw new InvalidToken()
    if (isTrustedAsked) {
      throw new RequiredKeysNotFound(`The handler "trusted" needs a request${needsRequest}`, {
        page: 'reference.md#handlers',
        duringRequest: true
      })
    }
    const verification: Verification = { results, settings, request: undefined, renewal: undefined }
    const verdict = rules.verify(token, verification, 'access')
    if (verdict instanceof Refusal) throw verdict.toError()
    if (!(verdict instanceof Promise)) return ownPayload(verdict)
    // An unhandled rejection would end the process.
    verdict.catch(() => {})
    throw keyNotKnown.toError()
  }
}

/** Verifies a token with the getters and the handler `trusted`. They get the request, whose own token is not verified. */
export async function verifyGivenToken (owner: Owner, token: string, request: FastifyRequest): Promise<Payload> {
  if (typeof token !== 'string') throw new InvalidToken()
  const { settings, results, renewal } = registeredStateOf(owner, request)
  const verdict = await owner.rules.verify(token, { settings, results, request, renewal }, 'access')
  if (verdict instanceof Refusal) throw verdict.toError()
  return ownPayload(verdict)
}
