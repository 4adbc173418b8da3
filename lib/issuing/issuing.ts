/** Issues access tokens, and refresh tokens without the option `sessions`. */
import type { FastifyRequest } from 'fastify'
import { readCustomClaims, reservedNames } from '../host/custom-claims.ts'
import type { Host } from '../host/host.ts'
import type { Resolved } from '../settings/configuration.ts'
import type { Settings } from '../settings/schema.ts'
import type { SessionClaims } from '../token/claims.ts'
import { prepareSettings, withoutRequest, type RequestSettings } from '../host/getters.ts'
import type { Signer } from '../authorities/signer.ts'
import type { TokenAdditions } from '../../types/instance.ts'
import { issueAccessToken, type IssuedToken } from './access-token.ts'
import { generateRefreshToken, randomRefreshToken, type GenerateRefreshToken } from './refresh-token.ts'

export interface Issuing {
  /**
   * Issues an access token for a user.
   * @param from the beginning of messages about the user: `authenticate must return`
   * @throws {InvalidUserObject} {MissingRegisteredClaim} {TokenTooLarge} {HandlerFailed} {RequiredKeysNotFound}
   */
  accessToken (user: unknown, from: string, context: RequestSettings, additions?: TokenAdditions<object>): Promise<string>
  /** As above, for a token of a session. */
  sessionToken (user: unknown, from: string, context: RequestSettings, session: SessionClaims): Promise<IssuedToken>
  /** Finds, among the names of claims that a login sets, one that is the name of another claim. */
  findReserved (names: readonly string[], settings: Settings): string | undefined
  /** Generates a refresh token without storing it. @throws {HandlerFailed} */
  refreshToken (request: FastifyRequest, user: object, context: RequestSettings): Promise<string>
  /** The settings for an access token that is issued without a request. Reading one that has a getter throws `RequiredKeysNotFound`. */
  readonly withoutRequest: RequestSettings
}

/**
 * Prepares the issuing of tokens for a registration.
 * @param hasSessions whether tokens may have a session, which their claims must not contradict
 */
export function prepareIssuing (resolved: Resolved, { handlers, customClaims }: Host, sign: Signer, hasSessions: boolean): Issuing {
  const generatorGetter = resolved.getters.get('generateRefreshToken')
  // Checked to be a function with the other settings.
  const generator = (resolved.generateRefreshToken as GenerateRefreshToken | undefined) ?? randomRefreshToken
  const noRequest = withoutRequest('. Pass the option "request" to generateAccessToken.')
  const issue = async (
    user: unknown,
    from: string,
    context: RequestSettings,
    additions: TokenAdditions<object>,
    session: SessionClaims = {}
  ): Promise<IssuedToken> => {
    const { settings } = context
    // Without a prototype: scopes that `Object.prototype` was polluted with must not get into tokens.
    const { scopes, authTime, customClaims: more, extendPayload }: TokenAdditions<object> = Object.assign(Object.create(null), additions)
    const added = more === undefined ? [] : readCustomClaims(more, resolved.settings, hasSessions, customClaims)
    const addScopesToPayload = settings.scopesEnabled ? handlers.addScopesToPayload : undefined
    return await issueAccessToken(user, from, {
      settings,
      sign: (payload) => sign(payload, context),
      session: { authTime, ...session },
      longestLifetime: hasSessions ? resolved.settings.expirationDelta : undefined,
      customClaims: [...customClaims, ...added],
      extendPayload: [handlers.extendPayload, extendPayload].filter((handler) => handler !== undefined),
      addScopesToPayload: scopes === undefined ? addScopesToPayload : scopes === null ? undefined : () => scopes
    })
  }
  return {
    withoutRequest: { results: noRequest, settings: prepareSettings(resolved)(noRequest) },
    accessToken: async (user, from, context, additions = {}) => (await issue(user, from, context, additions)).token,
    sessionToken: async (user, from, context, session) => await issue(user, from, context, {}, session),
    findReserved (names, settings) {
      const reserved = [...reservedNames(settings), 'sid', 'auth_time', 'sgen', 'cnf', ...customClaims.map(({ key }) => key)]
      return names.find((name) => reserved.includes(name))
    },
    async refreshToken (request, user, { results }) {
      const generate =
        generatorGetter === undefined ? generator : (results.get('generateRefreshToken', generatorGetter) as GenerateRefreshToken)
      return await generateRefreshToken(generate, request, user)
    }
  }
}
