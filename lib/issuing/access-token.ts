/** How an access token is issued: user -> payload -> handlers -> checks -> signature. */
import { HandlerFailed, TokenTooLarge } from '../errors.ts'
import { callHost, readHost, wrongResult } from '../host/call.ts'
import type { HostHandlers } from '../host/handlers.ts'
import { userIdOf } from '../host/users.ts'
import type { Settings } from '../settings/schema.ts'
import { checkFinished, checkSessionClaims, registeredClaims, secondsNow, type SessionClaims } from '../token/claims.ts'
import type { SignedToken } from '../token/codec.ts'
import { maximumTokenLength } from '../token/form.ts'
import { asClaimed, isUserId } from '../values.ts'
import type { CustomClaim, Handlers, MaybePromise, Payload } from '../../types/handlers.ts'

type ExtendPayload = NonNullable<Handlers<object, Record<string, unknown>>['extendPayload']>

/** The settings and functions that create an access token. */
export interface Recipe {
  readonly settings: Settings
  sign (payload: Payload): MaybePromise<SignedToken>
  readonly customClaims: readonly CustomClaim[]
  readonly extendPayload: readonly ExtendPayload[]
  /** The session of the token, and when its user entered credentials. */
  readonly session: SessionClaims
  /** With sessions, the maximum lifetime of a token in seconds. Ended sessions are remembered for at least this time. */
  readonly longestLifetime: number | undefined
  /** Returns the scopes; undefined for a token without scopes. */
  readonly addScopesToPayload: HostHandlers['addScopesToPayload'] | undefined
}

async function extend (payload: Payload, user: object, extendPayload: ExtendPayload): Promise<Payload> {
  const extended: unknown = await callHost('extendPayload', () => extendPayload(payload, user))
  if (extended === undefined || extended === null) return payload
  if (typeof extended !== 'object' || Array.isArray(extended)) throw wrongResult('extendPayload', 'the payload, or nothing', extended)
  return readHost('extendPayload', () => ({ ...extended }))
}

async function scopesOf (user: object, addScopesToPayload: HostHandlers['addScopesToPayload']): Promise<readonly string[]> {
  const scopes: unknown = await callHost('addScopesToPayload', () => addScopesToPayload(user))
  if (typeof scopes === 'string') return [scopes]
  if (Array.isArray(scopes) && scopes.every((scope) => typeof scope === 'string')) return [...scopes]
  throw wrongResult('addScopesToPayload', 'a string or a list of strings', scopes)
}

/** An access token that was issued. */
export interface IssuedToken extends SignedToken {
  /** Signs the same payload without `sgen`: for a token that does not prove that a refresh token was received. No handler is called. */
  withoutGeneration (): Promise<SignedToken>
}

/**
 * Issues an access token.
 * @param from the beginning of messages about the user: `authenticate must return`
 * @throws {InvalidUserObject} {MissingRegisteredClaim} {TokenTooLarge} {HandlerFailed}
 */
export async function issueAccessToken (user: unknown, from: string, recipe: Recipe): Promise<IssuedToken> {
  const { settings, customClaims, addScopesToPayload } = recipe
  const userId = userIdOf(user, settings.userId, from)
  // userIdOf throws for anything but an object.
  const known = user as object
  const now = secondsNow()
  let payload = registeredClaims(userId, settings, now, recipe.session)
  for (const claim of customClaims) {
    const value: unknown = await callHost(`custom claim "${claim.key}"`, () => claim.setup(payload, known))
    payload = { ...payload, [claim.key]: value }
  }
  for (const extendPayload of recipe.extendPayload) payload = await extend(payload, known, extendPayload)
  const required = customClaims.map((claim) => claim.key)
  if (addScopesToPayload !== undefined) {
    payload = { ...payload, [settings.scopesName]: await scopesOf(known, addScopesToPayload) }
  }
  // Without values of the application the payload is JSON already.
  if (customClaims.length > 0 || recipe.extendPayload.length > 0) {
    payload = asJson(payload, recipe.extendPayload.length > 0 ? 'extendPayload' : 'custom claims')
  }
  const claimed = payload[settings.userId]
  // Converted to text again, because a handler may have set the number of the database.
  if (isUserId(claimed)) payload = { ...payload, [settings.userId]: asClaimed(settings.userId, claimed) }
  checkFinished(payload, userId, settings, required, now)
  if (recipe.longestLifetime !== undefined) checkSessionClaims(payload, recipe.session, Math.floor(now) + recipe.longestLifetime)
  const { token, signedBy } = await recipe.sign(payload)
  if (token.length > maximumTokenLength) {
    throw new TokenTooLarge(
      `The new access token has ${token.length} characters, but tokens of more than ${maximumTokenLength} characters are refused. Reduce the payload.`
    )
  }
  return {
    token,
    signedBy,
    async withoutGeneration () {
      const { sgen, ...others } = payload
      return await recipe.sign(others)
    }
  }
}

/** Returns the payload as the token will contain it. JSON omits functions and calls `toJSON`, so the checks follow the conversion. */
function asJson (payload: Payload, handler: string): Payload {
  try {
    return { ...JSON.parse(JSON.stringify(payload)) }
  } catch (cause) {
    // A BigInt or a cycle has no JSON form.
    throw new HandlerFailed(handler, { cause })
  }
}
