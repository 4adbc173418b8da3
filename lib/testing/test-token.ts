/** Access tokens for an instance, in any state. */
import { randomBytes } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { GivenUser, Payload } from '../../types/handlers.ts'
import type { TokenAuthInstance } from '../../types/instance.ts'
import { InvalidConfiguration } from '../errors.ts'
import type { Settings } from '../settings/schema.ts'

const states = ['valid', 'expired', 'notYetActive', 'wrongSignature', 'otherIssuer', 'otherAudience'] as const

/**
 * What is wrong with a token; `valid`: nothing.
 * @useDeclaredType
 */
export type TokenState = typeof states[number]

/** What a test asks of its token. */
export interface TestTokenOptions {
  /** What is wrong with the token; default: `valid`, nothing. */
  state?: TokenState
  /** The scopes of the token. Default: none; the handler `addScopesToPayload` is not called. */
  scopes?: string | readonly string[]
  /** More claims; they win over those that the instance writes, the user id excepted. */
  claims?: Record<string, unknown>
  /** The request from which settings are computed, where `get<Setting>` functions concern tokens. */
  request?: FastifyRequest
}

/** Farther from now than any clock difference that an instance tolerates. */
const hour = 3600

function claimsOf (state: TokenState, leeway: number): Payload {
  const now = Math.floor(Date.now() / 1000)
  if (state === 'expired') return { exp: now - leeway - hour }
  if (state === 'notYetActive') return { nbf: now + leeway + hour }
  if (state === 'otherIssuer') return { iss: 'https://other-issuer.invalid' }
  return state === 'otherAudience' ? { aud: 'https://other-audience.invalid' } : {}
}

/** A token that is not what its test asked for would let the test pass for nothing. @throws {InvalidConfiguration} */
function checkOptions (options: TestTokenOptions, { claimIss, claimAud }: Settings): void {
  const unknown = Object.keys(options).find((name) => !['state', 'scopes', 'claims', 'request'].includes(name))
  if (unknown !== undefined) throw new InvalidConfiguration(`createTestToken has no option "${unknown}"; it has state, scopes, claims and request.`, { section: 'testing-your-routes' })
  const { state = 'valid' } = options
  if (!states.includes(state)) throw new InvalidConfiguration(`"state" must be one of ${states.join(', ')}; given: ${JSON.stringify(state)}.`, { section: 'testing-your-routes' })
  if ((state === 'otherIssuer' && claimIss === null) || (state === 'otherAudience' && claimAud === null)) {
    throw new InvalidConfiguration(`The state "${state}" would be accepted: the instance has no "${state === 'otherIssuer' ? 'claimIss' : 'claimAud'}". Give it to the instance, or choose another state.`, { section: 'testing-your-routes' })
  }
}

/**
 * Makes an access token for a user of an instance, for the header, cookie or query string of a test's request.
 * @param instance the instance: `app.tokenAuth`
 * @throws `InvalidConfiguration` for options that it does not know, or a state that the instance would accept
 * @throws what `generateAccessToken` throws
 */
export async function createTestToken<User extends object, Claims extends object> (
  instance: TokenAuthInstance<User, Claims>, user: GivenUser<User>, options: TestTokenOptions = {}
): Promise<string> {
  if (typeof instance?.generateAccessToken !== 'function') throw new InvalidConfiguration('createTestToken needs an instance, such as app.tokenAuth, and then a user.', { section: 'testing-your-routes' })
  checkOptions(options, instance.settings)
  const { state = 'valid', scopes, claims, request } = options
  const token = await instance.generateAccessToken(user, {
    // The user of a test is often a part of one: `addScopesToPayload` of the application must not be called with it.
    scopes: scopes ?? null,
    request,
    extendPayload: (payload) => ({ ...payload, ...claimsOf(state, instance.settings.leeway), ...claims })
  })
  if (state !== 'wrongSignature') return token
  const start = token.lastIndexOf('.') + 1
  return token.slice(0, start) + randomBytes(Buffer.from(token.slice(start), 'base64url').length).toString('base64url')
}
