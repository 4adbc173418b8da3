/** Access tokens for the tests of applications. */
import { randomBytes } from 'node:crypto'
import type { GivenUser, Payload } from '../../types/handlers.ts'
import type { TokenAuthInstance } from '../../types/instance.ts'
import type { AnyRequest } from '../../types/requests.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { matching, oneOf } from '../settings/kinds.ts'
import { optional, optionsOf, preset, readRecord } from '../settings/records.ts'
import type { Settings } from '../settings/schema.ts'

const states = ['valid', 'expired', 'notYetActive', 'wrongSignature', 'otherIssuer', 'otherAudience'] as const

/**
 * The state of a test token. `valid` is accepted. A token in any other state is refused for the reason in its name.
 * @useDeclaredType
 */
export type TokenState = typeof states[number]

/** Options of {@link createTestToken}. */
export interface TestTokenOptions {
  /**
   * `valid`, or why the token is refused: `expired` (`TokenExpired`), `notYetActive` (`TokenNotActive`), `wrongSignature`
   * (`InvalidToken`), `otherIssuer` (`InvalidClaim`, with `claimIss`) or `otherAudience` (`InvalidClaim`, with `claimAud`).
   * Default: `valid`.
   */
  state?: TokenState
  /** The scopes of the token; without it, it has none. The handler `addScopesToPayload` is never called. */
  scopes?: string | readonly string[]
  /** Additional claims. They replace claims that the instance writes, except the user id. */
  claims?: Record<string, unknown>
  /** The request from which `get<Setting>` functions compute settings of tokens. Required if the instance has such functions. */
  request?: AnyRequest
}

/** Seconds beyond the leeway by which a token is expired or not active yet. */
const hour = 3600

function claimsOf (state: TokenState, leeway: number): Payload {
  const now = Math.floor(Date.now() / 1000)
  if (state === 'expired') return { exp: now - leeway - hour }
  if (state === 'notYetActive') return { nbf: now + leeway + hour }
  if (state === 'otherIssuer') return { iss: 'https://other-issuer.invalid' }
  return state === 'otherAudience' ? { aud: 'https://other-audience.invalid' } : {}
}

/** The options of {@link createTestToken}. */
export const testTokenShape = {
  members: {
    state: preset(oneOf(states), 'valid'),
    scopes: optional(matching<string | readonly string[]>('a scope, or a list of scopes')),
    claims: optional(matching<Record<string, unknown>>('an object of claims')),
    request: optional(matching<AnyRequest>('a request'))
  },
  example: '{ state }',
  page: 'testing.md'
} as const

/** A token that the instance accepts in spite of its state would make the test meaningless. @throws {InvalidConfiguration} */
function checkState (state: TokenState, { claimIss, claimAud }: Settings): void {
  if ((state === 'otherIssuer' && claimIss === null) || (state === 'otherAudience' && claimAud === null)) {
    const setting = state === 'otherIssuer' ? 'claimIss' : 'claimAud'
    throw new InvalidConfiguration(
      `A token with the state "${state}" would be accepted, because the instance has no "${setting}". Set "${setting}", or choose another state.`,
      { page: 'testing.md' }
    )
  }
}

/**
 * Creates an access token for a test.
 * @param instance the instance whose routes the test calls, such as `app.tokenAuth`
 * @param user a user, as `authenticate` returns it, or a part of one: the user id is sufficient, unless handlers of the
 * application need more
 * @returns the token, for the header, cookie or query string of a request
 * @throws `InvalidConfiguration` for unknown options, or for a state that the instance would accept
 * @throws the errors of `generateAccessToken`
 */
export async function createTestToken<User extends object, Claims extends object> (
  instance: TokenAuthInstance<User, Claims, object>,
  user: Partial<GivenUser<User>>,
  options?: TestTokenOptions
): Promise<string>
export async function createTestToken (
  instance: TokenAuthInstance<object, object, object>,
  user: object,
  options: TestTokenOptions = {}
): Promise<string> {
  if (typeof instance?.generateAccessToken !== 'function') {
    throw new InvalidConfiguration(
      `The first parameter of createTestToken must be an instance, such as app.tokenAuth; given: ${typeof instance}.`,
      { page: 'testing.md' }
    )
  }
  const { state, scopes, claims, request } = readRecord(optionsOf('createTestToken()'), options, testTokenShape)
  checkState(state, instance.settings)
  const token = await instance.generateAccessToken(user, {
    // Tests often pass a part of a user, with which the handler `addScopesToPayload` may fail.
    scopes: scopes ?? null,
    request,
    extendPayload: (payload) => ({ ...payload, ...claimsOf(state, instance.settings.leeway), ...claims })
  })
  if (state !== 'wrongSignature') return token
  const start = token.lastIndexOf('.') + 1
  return token.slice(0, start) + randomBytes(Buffer.from(token.slice(start), 'base64url').length).toString('base64url')
}
