/** What a registration issues: access tokens, and refresh tokens of the specification's own mode. */
import type { FastifyRequest } from 'fastify'
import { readCustomClaims } from '../host/custom-claims.ts'
import type { Host } from '../host/host.ts'
import { signingNames } from '../keys/configured-keys.ts'
import type { Key } from '../keys/material.ts'
import { prepareFromKey, type FromKey } from '../keys/prepare.ts'
import type { Resolved } from '../settings/configuration.ts'
import { prepareSettings, withoutRequest, type RequestSettings } from '../settings/per-request.ts'
import { signerOf, type Signer } from '../token/codec.ts'
import type { CodecCache } from '../token/codec-cache.ts'
import type { TokenAdditions } from '../../types/instance.ts'
import { issueAccessToken } from './access-token.ts'
import { generateRefreshToken, randomRefreshToken, type GenerateRefreshToken } from './refresh-token.ts'

export interface Issuing {
  /**
   * Issues an access token for a user.
   * @param from the beginning of messages about the user: `authenticate must return`
   * @throws {InvalidUserObject} {MissingRegisteredClaim} {TokenTooLarge} {HandlerFailed} {RequiredKeysNotFound}
   */
  accessToken (user: unknown, from: string, context: RequestSettings, additions?: TokenAdditions<object>): Promise<string>
  /** Generates a refresh token without storing it. @throws {HandlerFailed} */
  refreshToken (request: FastifyRequest, user: object, context: RequestSettings): Promise<string>
  /** The settings for an access token that no request asks for. Reading one that has a getter throws `RequiredKeysNotFound`. */
  readonly withoutRequest: RequestSettings
}

function prepareSigner (resolved: Resolved, signing: Key | undefined, codecs: () => CodecCache): FromKey<Signer> {
  const { settings, getters } = resolved
  if (signing === undefined || getters.has('claimIat')) return prepareFromKey(resolved, signingNames, (current, given) => codecs().signer(current, given))
  const signer = signerOf(settings.algorithm, signing, settings.claimIat)
  return () => signer
}

/**
 * Prepares what a registration issues.
 * @param signing the key, if it is known at registration
 * @param codecs gives the signers of keys that are computed per request
 */
export function prepareIssuing (resolved: Resolved, { handlers, customClaims }: Host, signing: Key | undefined, codecs: () => CodecCache): Issuing {
  const signerFor = prepareSigner(resolved, signing, codecs)
  const generatorGetter = resolved.getters.get('generateRefreshToken')
  // Checked to be a function with the other settings.
  const generator = (resolved.generateRefreshToken as GenerateRefreshToken | undefined) ?? randomRefreshToken
  const noRequest = withoutRequest('. Pass the option "request" to generateAccessToken.')
  return {
    withoutRequest: { results: noRequest, settings: prepareSettings(resolved)(noRequest) },
    async accessToken (user, from, context, additions = {}) {
      const { settings } = context
      const { scopes } = additions
      const added = additions.customClaims === undefined ? [] : readCustomClaims(additions.customClaims, resolved.settings, customClaims)
      const addScopesToPayload = settings.scopesEnabled ? handlers.addScopesToPayload : undefined
      return await issueAccessToken(user, from, {
        settings,
        signer: await signerFor(context),
        customClaims: [...customClaims, ...added],
        extendPayload: [handlers.extendPayload, additions.extendPayload].filter((handler) => handler !== undefined),
        addScopesToPayload: scopes === undefined ? addScopesToPayload : scopes === null ? undefined : () => scopes
      })
    },
    async refreshToken (request, user, { results }) {
      const generate = generatorGetter === undefined ? generator : results.get('generateRefreshToken', generatorGetter) as GenerateRefreshToken
      return await generateRefreshToken(generate, request, user)
    }
  }
}
