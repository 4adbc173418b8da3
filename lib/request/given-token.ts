/** Verifies tokens that the application passes to `verifyToken` and `verified`. */
import type { FastifyRequest } from 'fastify'
import { RequiredKeysNotFound } from '../configuration-errors.ts'
import { InvalidToken } from '../errors.ts'
import { Refusal } from '../refusal.ts'
import { withoutRequest } from '../host/getters.ts'
import type { Payload, UserId } from '../../types/handlers.ts'
import type { ScopeOptions, Verified } from '../../types/instance.ts'
import type { Credential } from '../authorities/authority.ts'
import type { Settings } from '../settings/schema.ts'
import type { Owner } from './record.ts'
import { can } from './scope-question.ts'
import { createSignal } from './signal.ts'
import { registeredStateOf } from './slot.ts'
import { keyNotKnown, ownPayload, sessionIdOf, type ValidCredential, type Verification } from './verify.ts'

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
async function verify (owner: Owner, token: string, request: FastifyRequest): Promise<{ valid: ValidCredential, settings: Settings }> {
  const { settings, results, renewal } = registeredStateOf(owner, request)
  if (typeof token !== 'string') throw noText.toError(settings)
  const verdict = await owner.rules.verify(token, { settings, results, request, renewal }, 'access')
  if (verdict instanceof Refusal) throw verdict.toError(settings)
  return { valid: verdict, settings }
}

/** As {@link prepareGivenToken}, with a request. @throws the error of the refusal */
export const verifyGivenToken = async (owner: Owner, token: string, request: FastifyRequest): Promise<Payload> =>
  ownPayload((await verify(owner, token, request)).valid)

/** The public view of a token that was verified in code. */
class GivenAuth implements Verified {
  readonly payload: Payload
  readonly userId: UserId
  readonly scopes: string[] | null
  readonly sessionId: string | null
  readonly issuer: string | null
  readonly source = null
  readonly #credential: Credential
  readonly #settings: Settings
  readonly #owner: Owner
  readonly #request: FastifyRequest
  #signal: AbortSignal | undefined

  constructor (valid: ValidCredential, settings: Settings, owner: Owner, request: FastifyRequest) {
    const { credential } = valid
    const { authority, payload } = credential
    this.payload = ownPayload(valid)
    this.userId = authority.userIdOf(payload, settings)
    this.scopes = authority.scopesOf(payload, settings)
    this.sessionId = sessionIdOf(credential)
    this.issuer = authority.issuer
    this.#credential = credential
    this.#settings = settings
    this.#owner = owner
    this.#request = request
  }

  // Not an own property, so that loggers, `inspect` and `structuredClone` do not copy the token.
  get token (): string { return this.#credential.token }

  get signal (): AbortSignal {
    this.#signal ??= createSignal(this.#credential, this.#settings, this.#owner, this.#request)
    return this.#signal
  }

  can (scopes: string | readonly string[], options?: ScopeOptions): boolean {
    const { authority, payload } = this.#credential
    return can(this.#owner, scopes, options, () => ({ authority, scopes: authority.scopesOf(payload, this.#settings) }))
  }
}

/** As {@link verifyGivenToken}, with everything that is known of the token. */
export async function readGivenToken (owner: Owner, token: string, request: FastifyRequest): Promise<Verified> {
  const { valid, settings } = await verify(owner, token, request)
  return new GivenAuth(valid, settings, owner, request)
}
