/** Starts sessions, for the login endpoint and for `sessions.start()`. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { publishIssued } from '../events.ts'
import { isAnswered } from '../host/call.ts'
import { userIdOf } from '../host/users.ts'
import { setLoginCookies, tokenCookies } from '../http/cookies.ts'
import { oldCookies } from '../http/old-cookies.ts'
import { hintAtLostCookies } from '../http/lost-cookies.ts'
import type { Issuing } from '../issuing/issuing.ts'
import { Refusal } from '../refusal.ts'
import { extractRefreshToken } from '../request/extract.ts'
import type { RequestState } from '../request/state.ts'
import { secondsNow } from '../token/claims.ts'
import type { LoginFacts } from '../../types/sessions.ts'
import { hasNoConnection } from './connection.ts'
import { claimsFrom, factsOf } from './login-facts.ts'
import { newSessionId } from './refresh-token.ts'
import type { SessionService } from './service.ts'

/** The tokens of a new session. */
export interface NewTokens {
  readonly accessToken: string
  readonly refreshToken: string
}

interface Login {
  readonly sessions: SessionService
  readonly issuing: Issuing
  readonly state: RequestState
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly user: unknown
  /** The beginning of error messages about the user. */
  readonly from: string
  /** When the user entered credentials, in seconds since 1970. */
  readonly authTime: number | undefined
  /** What wins over the function `sessions.login`. */
  readonly facts: LoginFacts
  readonly grant: 'authenticate' | 'start'
}

/** OWASP ASVS 5 section 7.2.4: a login ends the old session of the browser. A failure is only logged, as the new session is stored. */
async function endReplaced ({ sessions, state: { settings }, request, reply }: Login, sid: string): Promise<void> {
  const found = extractRefreshToken(request.raw, settings)
  if (found === undefined || found instanceof Refusal || found.source !== 'cookie') return
  const old = sessions.read(found.token)
  if (old === undefined || old.sid === sid) return
  // A browser that does not receive the new cookies keeps the old ones.
  if (isAnswered(request, reply) || await hasNoConnection(request, reply)) return
  try {
    await sessions.end(old.userId, { sid: old.sid }, 'replaced', request)
  } catch (error) {
    request.log.warn(
      { err: error, sessionId: old.sid },
      'The session that a login replaces could not be ended. It ends as soon as the store is available.'
    )
  }
}

/**
 * Starts a session. Everything that can fail comes before the session is stored, and it is stored before anything is sent.
 * @param prepare called with the tokens before the session is stored. If it throws, no session is stored
 * @returns the id of the session; undefined where the request was answered in the meantime
 * @throws {InvalidUserObject} {MissingRegisteredClaim} {TokenTooLarge} {HandlerFailed} {InvalidConfiguration} {SessionStoreUnavailable}
 */
export async function startSession (
  login: Login,
  prepare: (tokens: NewTokens, user: object) => Promise<void>
): Promise<string | undefined> {
  const { sessions, issuing, state, request, reply, user, from } = login
  const { settings } = state
  const userId = userIdOf(user, settings.userId, from)
  // userIdOf throws for anything but an object.
  const known = user as object
  const authTime = login.authTime ?? Math.floor(secondsNow())
  const sid = newSessionId()
  const facts = factsOf(await sessions.login(request, known), login.facts, (names) => issuing.findReserved(names, settings))
  const { token: accessToken } = await issuing.sessionToken(known, from, state, { authTime, sid, claims: claimsFrom(facts.claims) })
  const draft = await sessions.draft({ sid, n: 0, authTime, userId, ...facts }, request, known)
  const { refreshToken } = draft
  const cookies = settings.cookieSet ? tokenCookies({ accessToken, refreshToken }, settings, facts.persistent) : []
  await prepare({ accessToken, refreshToken }, known)

  // Do not store a session that the client cannot receive.
  if (isAnswered(request, reply)) return undefined
  await sessions.create(draft, request)
  publishIssued(settings.instanceName, userId, login.grant, request)
  if (settings.cookieSet) await endReplaced(login, sid)
  if (settings.cookieSet) hintAtLostCookies(request, settings)
  if (!isAnswered(request, reply)) setLoginCookies(reply, [...oldCookies(request, settings, cookies), ...cookies])
  return sid
}
