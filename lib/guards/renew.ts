/**
 * Renewal in place: a guard exchanges the refresh token of a refused request for new tokens, and the route answers the same
 * request. A redirect that renews would loop where a browser rejects cookies, and would send uploads twice.
 */
import type { FastifyReply } from 'fastify'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { TokenAuthError } from '../errors.ts'
import { preventStoring } from '../http/caching.ts'
import { accessTokenValues } from '../http/cookies.ts'
import { addLateCookies, beforeHeaders } from '../http/late-headers.ts'
import { oldCookies } from '../http/old-cookies.ts'
import { Refusal, RefusedRefresh } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import { isFinal } from '../request/checks.ts'
import { isReplaceable, isWithoutToken, readRefreshTokenCookie, withCookies } from '../request/extract.ts'
import { mayGetCookies } from '../request/origin.ts'
import { takesRefreshToken } from '../request/refresh-route.ts'
import type { AccessRules } from '../request/rules.ts'
import { openRenewed, withoutToken } from '../request/slot.ts'
import type { NotRenewed } from '../request/signed-out.ts'
import type { RequestState } from '../request/state.ts'
import type { Renewal } from '../request/verify.ts'
import { exchangeRefreshToken, noteSent, replaceForeign401 } from '../sessions/exchange.ts'
import type { SessionService } from '../sessions/service.ts'
import type { Overrides } from '../settings/configuration.ts'
import { bindingSettings, cookieSettings, keyUseSettings, type SettingName } from '../settings/schema.ts'
import { logRefusedRefresh } from './refuse.ts'

/**
 * Renews a refused request.
 * @returns the state of the request with its new tokens; undefined if the request stays refused
 * @throws the errors of a refresh that are not refusals, such as {SessionStoreUnavailable} and {HandlerFailed}
 */
export type Renew = (state: RequestState, refusal: Refusal, reply: FastifyReply) => Promise<RequestState | undefined>

/** Settings that a guard with `renew` cannot override: it would refuse the new access token, or not find it. */
const notFollowed: readonly SettingName[] = [...keyUseSettings, ...bindingSettings, 'scopesName', ...cookieSettings]

/** Returns why an instance cannot renew tokens, and what to do; undefined if it can. */
function obstacleOf ({ settings, sessions, feed, rules }: Registration): string | undefined {
  if (!settings.authMode) return '"authMode" is false. Redirect to a guarded page of the service that issues the tokens, which renews them.'
  if (feed === undefined || sessions === undefined) return '"sessions" is missing. Set it in the options of register().'
  return settings.cookieSet || rules.isComputed('cookieSet')
    ? undefined
    : '"cookieSet" is false. Set it to true in the options of register(): only cookies are renewed.'
}

const stands = (reason: string, signedOut?: NotRenewed['signedOut']): NotRenewed => ({ reason, signedOut })

/** Returns the refresh token with which a refused request can be renewed, or the reason why it cannot. */
function findToken (state: RequestState, refusal: Refusal): string | NotRenewed {
  const { request, settings, carrier } = state
  const { statusCode, name } = refusal.answer
  if (!settings.cookieSet) return stands('"cookieSet" is false')
  if (statusCode !== 401) return stands(`the answer is a ${statusCode}`)
  if (name === 'SessionEnded') return stands('the session has ended')
  if (isFinal(refusal)) return stands('the application has refused the token')
  if (takesRefreshToken(request)) return stands('the endpoint takes the refresh token', 'expired')
  if (name === 'InsufficientUserAuthentication') return stands('a renewal is not a login')
  if (!isReplaceable(state.extract())) return stands('the access token did not come in a cookie')
  const found = readRefreshTokenCookie(carrier, settings)
  if (found === undefined) return stands('there is no refresh token in a cookie')
  if (found instanceof Refusal) return stands('the cookie of the refresh token was sent more than once', 'expired')
  return mayGetCookies(request, settings) ? found : stands('a page of another origin may have sent the request')
}

// Own properties only: a polluted prototype must not turn a failure into a renewal.
const isRenewal = (outcome: Renewal | NotRenewed): outcome is Renewal => Object.hasOwn(outcome, 'accessToken')

/** Exchanges the refresh token, and sends the new tokens when the response begins. */
async function exchange (
  registration: Registration,
  sessions: SessionService,
  state: RequestState,
  purportedToken: string,
  reply: FastifyReply
): Promise<Renewal | NotRenewed> {
  const { issuing, host } = registration
  const { raw } = reply
  const own = withoutToken(state.record)
  const token = sessions.read(purportedToken)
  const hasEnded = () => token !== undefined && sessions.hasEnded(token)
  const over = () => stands('the refresh token was refused', hasEnded() ? 'ended' : 'expired')
  const rotation = () => (token === undefined ? 0 : sessions.ended.rotations.latestOf(token.sid))
  const known = rotation()
  let exchanged
  try {
    exchanged = await exchangeRefreshToken({ sessions, issuing, host, state: own, reply, purportedToken, token }, async () => {})
  } catch (thrown) {
    const error = replaceForeign401(thrown)
    if (error instanceof TokenAuthError && error.statusCode === 401) return over()
    throw error
  }
  if (exchanged instanceof RefusedRefresh) {
    logRefusedRefresh(registration, state.request, exchanged.reason, exchanged.isContradiction)
    return over()
  }
  if (exchanged === undefined || exchanged === 'gone') return stands('the request was answered, or the client closed the connection')
  const { cookies, accessToken, signedBy, generation } = exchanged
  preventStoring(reply)
  const old = oldCookies(state.request, own.settings, cookies)
  beforeHeaders(raw, () => {
    // Late cookies would replace those of a login or of a later rotation. A store that has lost writes continues at a lower counter.
    const isLate = hasEnded() || rotation() > Math.max(known, generation)
    addLateCookies(raw, isLate ? [] : [...old, ...cookies])
    return isLate ? undefined : () => noteSent(accessToken)
  })
  return {
    carrier: withCookies(state.carrier, accessTokenValues(accessToken, own.settings)),
    accessToken: { token: accessToken, signedBy }
  }
}

/**
 * Prepares the option `renew` of a guard.
 * @param given undefined for the default: as `redirectOnFail`, if the instance can renew
 * @returns undefined for a guard that does not renew
 * @throws {InvalidConfiguration} if it is true, but the instance cannot renew or an override prevents it
 */
export function prepareRenewal (
  registration: Registration,
  rules: AccessRules,
  given: boolean | undefined,
  redirectOnFail: boolean,
  overrides: Overrides
): Renew | undefined {
  if (!(given ?? redirectOnFail)) return undefined
  const obstacle = obstacleOf(registration)
  const override = notFollowed.find((name) => overrides[name] !== undefined)
  if (given === true && obstacle !== undefined) {
    throw new InvalidConfiguration(`A guard has "renew", but its instance cannot renew tokens: ${obstacle}`, { finding: 'E56' })
  }
  if (given === true && override !== undefined) {
    throw new InvalidConfiguration(
      `A guard has "renew" and overrides "${override}", which does not apply to the new tokens of its instance. Remove one of them.`,
      { finding: 'E57' }
    )
  }
  const { sessions } = registration
  if (obstacle !== undefined || override !== undefined || sessions === undefined) return undefined
  return async (state, refusal, reply) => {
    const { renewing } = state.record
    const found = findToken(state, refusal)
    let outcome
    if (typeof found === 'string') {
      renewing.attempt ??= exchange(registration, sessions, state, found, reply)
      outcome = await renewing.attempt
    } else {
      outcome = found
    }
    if (!isRenewal(outcome)) {
      state.notRenewed = outcome
      return undefined
    }
    let refused: Refusal | null = null
    for (const guard of renewing.waiting) refused ??= await guard.check(openRenewed(state, guard.rules, outcome))
    const renewed = openRenewed(state, rules, outcome)
    if (refused !== null) renewed.refuse(refused)
    return renewed
  }
}

/**
 * Whether a request is anonymous, after a guard has tried to renew it: it has no token, or a cookie with a token that is invalid,
 * whose session has ended, or that has expired and was not renewed. Any other refused token, also one in a header, stays refused.
 */
export function isAnonymous (state: RequestState, refusal: Refusal): boolean {
  if (isWithoutToken(refusal)) return true
  const { name } = refusal.answer
  const found = state.extract()
  if (!isReplaceable(found)) return false
  // An invalid token, such as a cookie from before the secret was changed, identifies no user. A second cookie may be an attack.
  const provesNothing = name === 'InvalidToken' && !isFinal(refusal) && !(found instanceof Refusal)
  return provesNothing || name === 'SessionEnded' || (name === 'TokenExpired' && state.notRenewed?.signedOut !== undefined)
}
