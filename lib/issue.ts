/** How an access token comes to be: user -> payload -> handlers -> checks -> signature. */
import type { CustomClaim, Handlers, Payload } from '../types/handlers.ts'
import type { HostHandlers } from './authentication.ts'
import { HandlerFailed, TokenTooLarge } from './errors.ts'
import { callHost, readHost, wrongResult } from './host.ts'
import type { Settings } from './settings/schema.ts'
import { checkFinished, registeredClaims, secondsNow } from './token/claims.ts'
import type { Signer } from './token/codec.ts'
import { maximumTokenLength } from './token/form.ts'
import { userIdOf } from './users.ts'

type ExtendPayload = NonNullable<Handlers<object, Record<string, unknown>>['extendPayload']>

/** What a token is made with. */
export interface Recipe {
  readonly settings: Settings
  readonly signer: Signer
  readonly customClaims: readonly CustomClaim[]
  readonly extendPayload: readonly ExtendPayload[]
  /** Gives the scopes; undefined for a token without. */
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

/**
 * Makes an access token.
 * @param from how the user came, for messages: `authenticate must return`
 * @throws {InvalidUserObject} {MissingRegisteredClaim} {TokenTooLarge} {HandlerFailed}
 */
export async function issueAccessToken (user: unknown, from: string, recipe: Recipe): Promise<string> {
  const { settings, customClaims, addScopesToPayload } = recipe
  const userId = userIdOf(user, settings.userId, from)
  // The check above found an object.
  const known = user as object
  let payload = registeredClaims(userId, settings, secondsNow())
  for (const claim of customClaims) {
    const value: unknown = await callHost(`custom claim "${claim.key}"`, () => claim.setup(payload, known))
    payload = { ...payload, [claim.key]: value }
  }
  for (const extendPayload of recipe.extendPayload) payload = await extend(payload, known, extendPayload)
  const required = customClaims.map((claim) => claim.key)
  if (addScopesToPayload !== undefined) {
    payload = { ...payload, [settings.scopesName]: await scopesOf(known, addScopesToPayload) }
  }
  // Where no handler had a hand in it, the payload is JSON as it is.
  if (customClaims.length > 0 || recipe.extendPayload.length > 0) payload = asJson(payload, recipe.extendPayload.length > 0 ? 'extendPayload' : 'custom claims')
  checkFinished(payload, userId, settings, required)
  const token = await recipe.signer(payload)
  if (token.length > maximumTokenLength) {
    throw new TokenTooLarge(`The access token would have ${token.length} characters; more than ${maximumTokenLength} are refused when it comes back. Put less into the payload.`)
  }
  return token
}

/** The payload as the token will carry it: JSON leaves out a function and calls a `toJSON`, so what was there before says nothing. */
function asJson (payload: Payload, handler: string): Payload {
  try {
    return { ...JSON.parse(JSON.stringify(payload)) }
  } catch (cause) {
    // A BigInt or a cycle: what a handler put there has no JSON form.
    throw new HandlerFailed(handler, { cause })
  }
}
