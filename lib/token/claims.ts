/** The claims of access tokens: which ones a new token gets, and how those of a verified token are checked. */
import { InvalidClaim, MissingRegisteredClaim, TokenExpired, TokenNotActive } from '../errors.ts'
import { Refusal } from '../refusal.ts'
import type { Settings } from '../settings/schema.ts'
import { isText, isUserId, maximumSeconds } from '../values.ts'
import type { Payload, UserId } from '../../types/handlers.ts'

type Claims = Readonly<Record<string, unknown>>

/** Returns the current time in seconds since 1970, with fractions. */
export const secondsNow = () => Date.now() / 1000

/** The latest time in seconds that a `Date` can hold (ECMA-262 section 21.4.1.1). Formatting a later one throws. */
const maximumDate = 8_640_000_000_000

/** Whether a value is a NumericDate: seconds since 1970, with or without fractions (RFC 7519 section 2). */
function isDate (value: unknown): value is number {
  return typeof value === 'number' && value >= -maximumDate && value <= maximumDate
}

/**
 * Creates the refusal of a claim.
 * @param claim the name of the claim; null for the whole payload
 * @param detail which check failed, for developers; never a part of the token
 */
export const invalidClaim = (claim: string | null, detail: string) =>
  new Refusal((reason) => new InvalidClaim(undefined, { claim, reason }), detail)
const invalid = (claim: string, problem: string) => invalidClaim(claim, `the claim "${claim}" ${problem}`)

const expired = new Refusal((reason) => new TokenExpired(undefined, { reason }), '"exp" has passed')
const notActive = new Refusal((reason) => new TokenNotActive(undefined, { reason }), '"nbf" is in the future')
const withoutExp = invalid('exp', 'is missing')
const withoutNbf = invalid('nbf', 'is missing')
const wrongIssuer = invalid('iss', 'is missing or names another issuer')
const wrongAudience = invalid('aud', 'is missing or names another audience')

/** Reads a claim. A property that a payload inherits from a polluted prototype is not a claim. */
function own (payload: Claims, claim: string): unknown {
  return Object.hasOwn(payload, claim) ? payload[claim] : undefined
}

const isTextOrTexts = (value: unknown): value is string | string[] => isText(value) || (Array.isArray(value) && value.every(isText))

/** The registered claims of a payload (RFC 7519 section 4.1). A claim that is missing or has the wrong type is undefined. */
export interface RegisteredClaims {
  readonly exp: number | undefined
  readonly nbf: number | undefined
  readonly iss: string | undefined
  readonly aud: readonly string[] | undefined
  /** The refusal of the first claim with a wrong type, which no settings allow; undefined if there is none. */
  readonly fault: Refusal | undefined
}

/** Reads the registered claims of a payload. */
export function readRegistered (payload: Claims): RegisteredClaims {
  let fault: Refusal | undefined
  const read = <Type>(claim: string, isOfType: (value: unknown) => value is Type, problem: string): Type | undefined => {
    const value = own(payload, claim)
    if (value === undefined || isOfType(value)) return value
    fault ??= invalid(claim, problem)
    return undefined
  }
  const exp = read('exp', isDate, 'is not a date')
  const nbf = read('nbf', isDate, 'is not a date')
  read('iat', isDate, 'is not a date')
  const iss = read('iss', isText, 'is not a string')
  const aud = read('aud', isTextOrTexts, 'is not a string or a list of strings')
  return { exp, nbf, iss, aud: isText(aud) ? [aud] : aud, fault }
}

function checkTimes ({ exp, nbf, fault }: RegisteredClaims, settings: Settings, now: number, checkExpiry: boolean): Refusal | undefined {
  if (settings.verifyExp) {
    if (exp === undefined) return fault ?? withoutExp
    // RFC 7519 section 4.1.4: a token is accepted only before this time. Negated, so that NaN refuses it.
    if (checkExpiry && !(now < exp + settings.leeway)) return expired
  }
  if (nbf === undefined) return settings.claimNbf ? fault ?? withoutNbf : undefined
  return now >= nbf - settings.leeway ? undefined : notActive
}

function checkParties ({ iss, aud }: RegisteredClaims, { claimIss, claimAud }: Settings): Refusal | undefined {
  if (claimIss !== null && iss !== claimIss) return wrongIssuer
  if (claimAud !== null && aud?.includes(claimAud) !== true) return wrongAudience
  return undefined
}

/**
 * Checks the claims of a payload under the settings of a guard (specification, States and transitions). The checks of the
 * application follow in request/checks.ts. Called for every request, because remembered tokens expire, too.
 * @param registered the result of {@link readRegistered} for the payload
 * @param now seconds since 1970
 * @param checkExpiry false for the refresh endpoint, where `exp` is required but may have passed
 */
export function checkClaims (
  payload: Claims,
  registered: RegisteredClaims,
  settings: Settings,
  now: number,
  checkExpiry = true
): Refusal | undefined {
  return (
    checkTimes(registered, settings, now, checkExpiry) ??
    registered.fault ??
    checkParties(registered, settings) ??
    (isUserId(own(payload, settings.userId)) ? undefined : invalid(settings.userId, 'is missing or not a user id'))
  )
}

/**
 * As {@link checkClaims}, for a token of a trusted issuer. `exp` is always required. Issuer and audience were checked with
 * the signature, and the settings for claims of new tokens do not apply.
 * @param userId the claim of the user id
 */
export function checkIssuerClaims (
  payload: Claims,
  { exp, nbf, fault }: RegisteredClaims,
  userId: string,
  leeway: number,
  now: number
): Refusal | undefined {
  if (fault !== undefined) return fault
  if (exp === undefined) return withoutExp
  // Negated as above.
  if (!(now < exp + leeway)) return expired
  if (nbf !== undefined && !(now >= nbf - leeway)) return notActive
  return isUserId(own(payload, userId)) ? undefined : invalid(userId, 'is missing or not a user id')
}

type Container = unknown[] | Payload

const isContainer = (value: unknown): value is Container => typeof value === 'object' && value !== null
// Not slice(), which is slow in a process in which a class extends Array.
const copyContainer = (container: Container): Container => Array.isArray(container) ? [...container] : { ...container }

/** Copies a payload, so that changes by one request do not affect others. */
export function copyPayload (payload: Claims): Payload {
  const copy: Payload = { ...payload }
  // A growing list instead of recursion, which could overflow the stack: a payload can be 3,000 levels deep.
  const containers: Container[] = [copy]
  for (let next = 0; next < containers.length; next++) {
    const container = containers[next]!
    if (Array.isArray(container)) {
      for (let index = 0; index < container.length; index++) {
        const member: unknown = container[index]
        if (isContainer(member)) containers.push(container[index] = copyContainer(member))
      }
      continue
    }
    // Faster than a loop over Object.keys(), but it also visits properties of a polluted prototype.
    for (const key in container) {
      const member = container[key]
      // The assignment to an own property calls no setter, even for `__proto__`, which JSON can contain.
      if (isContainer(member) && Object.hasOwn(container, key)) containers.push(container[key] = copyContainer(member))
    }
  }
  return copy
}

/** The claims of a token about its session. */
export interface SessionClaims {
  /** The id of the session; undefined for a token without a session. */
  readonly sid?: string | undefined
  /** The generation of the refresh token that it confirms as received; undefined for a token that confirms none. */
  readonly sgen?: number | undefined
  /** When the user entered credentials, in seconds since 1970; undefined if that is not known. */
  readonly authTime?: number | undefined
  /** What its login says; undefined for a token without a session. */
  readonly claims?: Payload | undefined
}

/** Creates the user id, the registered claims and the claims of the session of a new token. @param now seconds since 1970 */
export function registeredClaims (
  userId: UserId,
  settings: Settings,
  now: number,
  { sid, sgen, authTime, claims }: SessionClaims = {}
): Payload {
  const issued = Math.floor(now)
  const payload: Payload = { [settings.userId]: userId }
  if (settings.verifyExp) payload.exp = issued + settings.expirationDelta
  if (settings.claimNbf) payload.nbf = issued + settings.claimNbfDelta
  if (settings.claimIat) payload.iat = issued
  if (settings.claimIss !== null) payload.iss = settings.claimIss
  if (settings.claimAud !== null) payload.aud = settings.claimAud
  if (sid !== undefined) payload.sid = sid
  if (sgen !== undefined) payload.sgen = sgen
  if (settings.claimAuthTime && authTime !== undefined) payload.auth_time = authTime
  // Their names are none of the above.
  return claims === undefined ? payload : Object.assign(payload, claims)
}

/** fast-jwt signs dates in whole seconds only, and omits a date of zero. */
const isSignableDate = (value: unknown) => Number.isSafeInteger(value) && isDate(value) && value > 0

/**
 * Checks the payload of a new token after the handlers of the application have changed it. It must still contain the same
 * user id, and all required claims with the right types. Handlers may set registered claims to other values.
 * @param required the names of the custom claims
 * @param now seconds since 1970
 * @throws {MissingRegisteredClaim}
 */
export function checkFinished (payload: Claims, userId: UserId, settings: Settings, required: readonly string[], now: number): void {
  const advice = 'Check extendPayload and the custom claims.'
  const fail = (claim: string, problem: string) => {
    throw new MissingRegisteredClaim(`The payload of a new access token ${problem} "${claim}". ${advice}`)
  }
  if (own(payload, settings.userId) !== userId) fail(settings.userId, 'does not have the id of the user as')
  const expected = [
    settings.verifyExp && 'exp',
    settings.claimNbf && 'nbf',
    settings.claimIat && 'iat',
    settings.claimIss !== null && 'iss',
    settings.claimAud !== null && 'aud',
    ...required
  ]
  for (const claim of expected) if (claim !== false && own(payload, claim) === undefined) fail(claim, 'lacks')
  for (const claim of ['exp', 'nbf', 'iat']) {
    if (Object.hasOwn(payload, claim) && payload[claim] !== undefined && !isSignableDate(payload[claim])) {
      fail(claim, 'does not have a positive whole number of seconds as')
    }
  }
  for (const claim of ['exp', 'nbf', 'iat', 'auth_time']) {
    if (Number(own(payload, claim)) > now + maximumSeconds) {
      throw new MissingRegisteredClaim(
        `The payload of a new access token has "${claim}" more than 100 years from now. Times of claims are in seconds since 1970, not in milliseconds. ${advice}`
      )
    }
  }
  const { fault } = readRegistered(payload)
  if (fault !== undefined) throw new MissingRegisteredClaim(`The payload of a new access token is invalid: ${fault.reason}. ${advice}`)
}

/**
 * Checks the session claims of a finished payload. A token with another `sid`, or with an `exp` after the ended session is
 * forgotten, would survive a logout. Another `sgen` would confirm a refresh token that the client has not received.
 * @param latest the latest expiry, in seconds since 1970
 * @throws {MissingRegisteredClaim}
 */
export function checkSessionClaims (payload: Claims, session: SessionClaims, latest: number): void {
  for (const claim of ['sid', 'sgen'] as const) {
    if (own(payload, claim) !== session[claim]) {
      throw new MissingRegisteredClaim(`The payload of a new access token has another "${claim}" than its session. Check extendPayload.`)
    }
  }
  if (Number(payload.exp) > latest) {
    throw new MissingRegisteredClaim(
      'The payload of a new access token has an "exp" later than "expirationDelta" of the registration allows. Ended sessions are remembered only for this time. Check extendPayload, and getExpirationDelta.'
    )
  }
}
