/** What goes into a token, and what is asked of a payload after its signature was found right. */
import { InvalidClaim, MissingRegisteredClaim, TokenExpired, TokenNotActive } from '../errors.ts'
import { Refusal } from '../refusal.ts'
import type { Settings } from '../settings/schema.ts'
import { isUserId } from '../settings/user-id.ts'
import type { Payload, UserId } from '../../types/handlers.ts'

type Claims = Readonly<Record<string, unknown>>

/** The time as tokens write it: seconds since 1970, with fractions. */
export const secondsNow = () => Date.now() / 1000

/** Seconds: what a Date can hold (ECMA-262 section 21.4.1.1). Beyond it an expiry is no date, and formatting it throws. */
const maximumDate = 8_640_000_000_000

/** RFC 7519 section 2, NumericDate: seconds, fractions allowed. */
function isDate (value: unknown): value is number {
  return typeof value === 'number' && value >= -maximumDate && value <= maximumDate
}

/**
 * Creates the refusal of a claim.
 * @param claim the name of the claim; null for the whole payload
 * @param why for developers; never a part of the token
 */
export const invalidClaim = (claim: string | null, why: string) => new Refusal((reason) => new InvalidClaim(undefined, { claim, reason }), why)
const invalid = (claim: string, what: string) => invalidClaim(claim, `the claim "${claim}" ${what}`)

const expired = new Refusal((reason) => new TokenExpired(undefined, { reason }), '"exp" has passed')
const notActive = new Refusal((reason) => new TokenNotActive(undefined, { reason }), '"nbf" is still to come')
const withoutExp = invalid('exp', 'is missing')
const withoutNbf = invalid('nbf', 'is missing')
const wrongIssuer = invalid('iss', 'is missing or of another issuer')
const wrongAudience = invalid('aud', 'is missing or of another audience')

/** Own properties only: nothing that a payload does not carry itself may speak for it. */
function own (payload: Claims, claim: string): unknown {
  return Object.hasOwn(payload, claim) ? payload[claim] : undefined
}

const isText = (value: unknown): value is string => typeof value === 'string'
const isTextOrTexts = (value: unknown): value is string | string[] => isText(value) || (Array.isArray(value) && value.every(isText))

/** The registered claims of a payload (RFC 7519 section 4.1); undefined where it does not have one of its type. */
export interface RegisteredClaims {
  readonly exp: number | undefined
  readonly nbf: number | undefined
  readonly iss: string | undefined
  readonly aud: readonly string[] | undefined
  /** Refuses the first claim of a wrong type: that is wrong whatever the settings ask. */
  readonly fault: Refusal | undefined
}

/** Reads the registered claims of a payload. */
export function readRegistered (payload: Claims): RegisteredClaims {
  let fault: Refusal | undefined
  const read = <Type>(claim: string, isOfType: (value: unknown) => value is Type, what: string): Type | undefined => {
    const value = own(payload, claim)
    if (value === undefined || isOfType(value)) return value
    fault ??= invalid(claim, what)
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
    // RFC 7519 section 4.1.4: accepted before the expiration time only. So written that a clock without a number refuses.
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
 * Asks of a payload what the rules of validity (specification, States and transitions) ask of it, but for the host's
 * own checks. Decided anew on every request: a remembered token expires like any other.
 * @param registered what {@link readRegistered} read of the payload
 * @param now seconds since 1970
 * @param checkExpiry false for the refresh endpoint, where `exp` may have passed but must be there
 */
export function checkClaims (payload: Claims, registered: RegisteredClaims, settings: Settings, now: number, checkExpiry = true): Refusal | undefined {
  return checkTimes(registered, settings, now, checkExpiry) ?? registered.fault ?? checkParties(registered, settings) ??
    (isUserId(own(payload, settings.userId)) ? undefined : invalid(settings.userId, 'is missing or no user id'))
}

/** A private copy of a JSON value, so that what one request changes no other sees. */
export function copyPayload (payload: Claims): Payload {
  const copy: Payload = { ...payload }
  // A list that grows, instead of recursion: a payload may be 3,000 levels deep, more than the stack may bear.
  const containers: Array<unknown[] | Payload> = [copy]
  const copyMember = (member: unknown) => {
    if (typeof member !== 'object' || member === null) return member
    const fresh = Array.isArray(member) ? [...member] : { ...member }
    containers.push(fresh)
    return fresh
  }
  for (const container of containers) {
    if (Array.isArray(container)) {
      for (let index = 0; index < container.length; index++) container[index] = copyMember(container[index])
      continue
    }
    for (const key of Object.keys(container)) {
      const member = container[key]
      // Defined, not assigned: JSON may have a key named __proto__.
      if (typeof member === 'object' && member !== null) {
        Object.defineProperty(container, key, { value: copyMember(member), enumerable: true, writable: true, configurable: true })
      }
    }
  }
  return copy
}

/** What a token says of its session. */
export interface SessionClaims {
  /** The id of the session; undefined for a token without a session. */
  readonly sid?: string | undefined
  /** When the user entered credentials, in seconds since 1970; undefined where that is not known. */
  readonly authTime?: number | undefined
}

/** Creates the user id, the registered claims and the claims of the session of a new token. @param now seconds since 1970 */
export function registeredClaims (userId: UserId, settings: Settings, now: number, { sid, authTime }: SessionClaims = {}): Payload {
  const issued = Math.floor(now)
  const payload: Payload = { [settings.userId]: userId }
  if (settings.verifyExp) payload.exp = issued + settings.expirationDelta
  if (settings.claimNbf) payload.nbf = issued + settings.claimNbfDelta
  if (settings.claimIat) payload.iat = issued
  if (settings.claimIss !== null) payload.iss = settings.claimIss
  if (settings.claimAud !== null) payload.aud = settings.claimAud
  if (sid !== undefined) payload.sid = sid
  if (settings.claimAuthTime && authTime !== undefined) payload.auth_time = authTime
  return payload
}

/** fast-jwt signs whole seconds only, and leaves out a zero. */
const isSignableDate = (value: unknown) => Number.isSafeInteger(value) && isDate(value) && value > 0

/**
 * Checks a finished payload: whatever the host's handlers did to it, no token is made that lacks a claim, has one of the
 * wrong type, or names another user. Other values of registered claims are the host's choice.
 * @throws {MissingRegisteredClaim}
 */
export function checkFinished (payload: Claims, userId: UserId, settings: Settings, required: readonly string[]): void {
  const advice = 'Check extendPayload and the custom claims.'
  const fail = (claim: string, what: string) => { throw new MissingRegisteredClaim(`The payload of a new access token ${what} "${claim}". ${advice}`) }
  if (own(payload, settings.userId) !== userId) fail(settings.userId, 'lost or changed the user id')
  const expected = [
    settings.verifyExp && 'exp', settings.claimNbf && 'nbf', settings.claimIat && 'iat',
    settings.claimIss !== null && 'iss', settings.claimAud !== null && 'aud', ...required
  ]
  for (const claim of expected) if (claim !== false && own(payload, claim) === undefined) fail(claim, 'lacks')
  for (const claim of ['exp', 'nbf', 'iat']) {
    if (Object.hasOwn(payload, claim) && payload[claim] !== undefined && !isSignableDate(payload[claim])) fail(claim, 'has no whole number of seconds as')
  }
  const { fault } = readRegistered(payload)
  if (fault !== undefined) throw new MissingRegisteredClaim(`No verifier would accept the payload of a new access token: ${fault.reason}. ${advice}`)
}

/**
 * Checks what a finished payload says of its session. Another `sid`, or an expiry after the ended session is forgotten,
 * would make a token that nothing ends.
 * @param latest the latest expiry, in seconds since 1970
 * @throws {MissingRegisteredClaim}
 */
export function checkSessionClaims (payload: Claims, { sid }: SessionClaims, latest: number): void {
  if (own(payload, 'sid') !== sid) throw new MissingRegisteredClaim('The payload of a new access token has another "sid" than its session. Check extendPayload.')
  if (Number(payload.exp) > latest) throw new MissingRegisteredClaim('The payload of a new access token has an "exp" beyond "expirationDelta" of the registration, for which ended sessions are remembered. Check extendPayload, and getExpirationDelta.')
}
