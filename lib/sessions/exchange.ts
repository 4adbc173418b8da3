/** Exchanges refresh tokens for new tokens, for the refresh endpoint and for guards that renew. No other code rotates a session. */
import type { FastifyReply } from 'fastify'
import { HandlerFailed, TokenAuthError } from '../errors.ts'
import { publishIssued } from '../events.ts'
import { isAnswered } from '../host/call.ts'
import type { Host } from '../host/host.ts'
import { differenceOf, retrieveUser } from '../host/users.ts'
import { tokenCookies } from '../http/cookies.ts'
import type { Issuing } from '../issuing/issuing.ts'
import { Refusal, RefusedRefresh } from '../refusal.ts'
import type { RequestState } from '../request/state.ts'
import type { Payload } from '../../types/handlers.ts'
import { hasNoConnection } from './connection.ts'
import { claimsFrom } from './login-facts.ts'
import { isWellFormed, type RefreshToken } from './refresh-token.ts'
import type { SessionService } from './service.ts'
import type { NewTokens } from './start.ts'
import { noteIssued } from './unsent.ts'
import { memberOf } from '../values.ts'

export { noteSent } from './unsent.ts'

const malformed = new RefusedRefresh('the text is no refresh token of sessions: it was cut or changed, or is a token of another kind')
const ofAnotherKey = new RefusedRefresh('the refresh token was made with another key, issuer, audience or "userId", or was changed')
const ended = new RefusedRefresh('the session of the refresh token has ended')
const unknown = new RefusedRefresh('the store does not know the session of the refresh token: it has expired or ended, or is in another store')
const replaced = new RefusedRefresh('the refresh token was replaced and used again, so its session has ended')
const takenClaim = new RefusedRefresh('a claim of the login now has the name of another claim, such as a custom claim that was added')
const userNotFound = new RefusedRefresh('the handler "retrieveUser" found nobody, so the session has ended')

interface Exchange {
  readonly sessions: SessionService
  readonly issuing: Issuing
  readonly host: Host
  /** A state in which the request carries no access token, under the rules of the registration. */
  readonly state: RequestState
  readonly reply: FastifyReply
  /** The refresh token that the client presents. */
  readonly purportedToken: string
  /** The content of `purportedToken`; undefined if it is not valid. */
  readonly token: RefreshToken | undefined
}

/** The values that the application gets before a session rotates. */
export interface Purported {
  readonly user: object
  readonly accessToken: string
  readonly payload: Payload
}

/** New tokens, and the cookies that carry them. */
export interface Exchanged extends NewTokens {
  /** The fingerprint of the key that signed the access token. */
  readonly signedBy: string
  /** Without an unchanged refresh token: a slow response could overwrite a newer cookie of another tab. */
  readonly cookies: readonly string[]
  /** The generation of the refresh token. */
  readonly generation: number
}

/**
 * Replaces an error with status 401 that another library threw, such as an HTTP client, because clients discard their
 * tokens on 401. The error need not be an `Error` of this realm.
 */
export function replaceForeign401 (thrown: unknown): unknown {
  const isForeign = !(thrown instanceof TokenAuthError) && !(thrown instanceof Refusal) && memberOf(thrown, 'statusCode') === 401
  return isForeign ? new HandlerFailed('refresh', { cause: thrown }) : thrown
}

/**
 * Exchanges a refresh token. Ignores the access token of the request, also for `retrieveUser` and the hooks. Runs
 * everything that can fail before the store advances the session, so that the client can retry with the same refresh token.
 * Call {@link noteSent} when the response with the tokens was sent: from then on, the use of the access token proves that
 * they were received.
 * @param prepare called with values of the response before the session rotates. If it throws, the session does not rotate
 * @returns the refusal of the refresh token; `gone` if the client closed the connection; undefined if the request was
 * answered in the meantime
 * @throws {SessionStoreUnavailable} {HandlerFailed} {MissingRegisteredClaim} {TokenTooLarge} {InvalidUserObject}
 */
export async function exchangeRefreshToken (
  { sessions, issuing, host: { handlers }, state, reply, purportedToken, token }: Exchange,
  prepare: (purported: Purported) => Promise<void>
): Promise<Exchanged | RefusedRefresh | 'gone' | undefined> {
  const { request, settings } = state
  if (token === undefined) return isWellFormed(purportedToken) ? ofAnotherKey : malformed
  if (sessions.hasEnded(token)) return ended
  if (sessions.isUnknown(token)) return unknown

  const { userId, sid, authTime, persistent } = token
  // They were checked when the token was read.
  const claims = claimsFrom(token.claims)!
  // A custom claim may have been added since the login, and `retrieveUser` would take the value of the login for it.
  if (issuing.findReserved(Object.keys(claims), settings) !== undefined) return takenClaim
  const payload = { ...claims, [settings.userId]: userId, sid }
  const user = await retrieveUser(handlers, request, payload, settings)
  if (user === null) {
    await sessions.end(userId, { sid }, 'no-user', request)
    return userNotFound
  }
  const difference = differenceOf(userId, user, settings.userId)
  if (difference !== undefined) return new RefusedRefresh(difference, true)
  const session = { authTime, sid, sgen: sessions.generationOf(token), claims }
  const issued = await issuing.sessionToken(user, 'retrieveUser must return', state, session)
  const { token: accessToken } = issued
  // Before the application can use the token.
  noteIssued(accessToken)
  await prepare({ user, accessToken, payload })
  // Read all settings now, because getters compute them at their first use. The presented token stands in for the next one:
  // all refresh tokens of a session have the same length, so both fit into a cookie, or neither does.
  const cookies = settings.cookieSet ? tokenCookies({ accessToken }, settings, persistent) : []
  if (settings.cookieSet) tokenCookies({ refreshToken: purportedToken }, settings, persistent)

  // Without a connection, the client would not get the new token.
  const isGone = await hasNoConnection(request, reply)
  if (isAnswered(request, reply)) return undefined
  if (isGone) return 'gone'
  const { outcome, n } = await sessions.advance(token, request)
  if (outcome === 'reused') return replaced
  if (outcome === 'unknown') return sessions.hasEnded(token) ? ended : unknown
  publishIssued(settings.instanceName, userId, 'refresh', request)
  const refreshToken = sessions.write({ ...token, n })
  const isUnchanged = refreshToken === purportedToken
  // With an unchanged refresh token, the use of the access token must not confirm that a later refresh token was received.
  const sent = isUnchanged ? await issued.withoutGeneration() : issued
  if (isAnswered(request, reply)) return undefined
  let sentCookies: readonly string[] = []
  if (settings.cookieSet) {
    sentCookies = isUnchanged
      ? tokenCookies({ accessToken: sent.token }, settings, persistent)
      : [...cookies, ...tokenCookies({ refreshToken }, settings, persistent)]
  }
  return { accessToken: sent.token, signedBy: sent.signedBy, refreshToken, cookies: sentCookies, generation: n }
}
