/** Finds the access token or the refresh token of a request, in the cookie, the query string or the header. */
import {
  InvalidAuthorizationHeader,
  MissingAuthorizationCookie,
  MissingAuthorizationHeader,
  MissingAuthorizationQueryArg
} from '../errors.ts'
import { invalidToken, Refusal } from '../refusal.ts'
import type { Settings } from '../settings/schema.ts'
import type { Headers } from './headers.ts'
import { readCookie, readCookies, readParameter } from './pairs.ts'

export type TokenSource = 'header' | 'cookie' | 'query'

export interface FoundToken {
  readonly token: string
  readonly source: TokenSource
}

/** The parts of a request that may carry a token; a Node.js request has them. */
export interface TokenCarrier {
  readonly url?: string | undefined
  readonly headers: Headers
  readonly rawHeaders: readonly string[]
}

type TokenKind = 'access' | 'refresh'

const missingHeader = new Refusal(() => new MissingAuthorizationHeader())
const missingCookie = new Refusal(() => new MissingAuthorizationCookie())
const missingParameter = new Refusal(() => new MissingAuthorizationQueryArg())
const otherScheme = new Refusal(() => new InvalidAuthorizationHeader(undefined, { foreign: true }))
const invalidHeader = new Refusal(() => new InvalidAuthorizationHeader())
const repeatedCookie = invalidToken('it was sent more than once')
const repeatedParameter = invalidToken('it was sent more than once')

const refusalsWithoutToken: ReadonlySet<Refusal> = new Set([missingHeader, missingCookie, missingParameter, otherScheme])

/** Whether a request was refused because it contains no token for this plugin, valid or not. */
export const isWithoutToken = (refusal: Refusal): boolean => refusalsWithoutToken.has(refusal)

/**
 * Whether a guard would verify a new access token in the cookie: the request has its token, valid or not, in the cookie, or
 * has no token.
 */
export function isReplaceable (found: FoundToken | Refusal): boolean {
  return found instanceof Refusal ? found === repeatedCookie || isWithoutToken(found) : found.source === 'cookie'
}

/** Returns the index of a header name in `rawHeaders`, from `start` on; -1 if the header is missing. */
function findHeader (rawHeaders: readonly string[], name: string, start = 0): number {
  for (let index = start; index < rawHeaders.length; index += 2) {
    const sent = rawHeaders[index]!
    if (sent === name || (sent.length === name.length && sent.toLowerCase() === name)) return index
  }
  return -1
}

const space = 0x20

function readTokenHeader ({ headers, rawHeaders }: TokenCarrier, settings: Settings): FoundToken | Refusal {
  const name = settings.authorizationHeader.toLowerCase()
  const value = headers[name]
  if (value === undefined) return missingHeader
  const index = findHeader(rawHeaders, name)
  // Own properties only: `headers` inherits properties such as `constructor`, and a polluted prototype must not
  // authenticate requests. Object.hasOwn() takes longer than the comparison, which suffices for nearly every request.
  const wasSent = (index !== -1 && rawHeaders[index + 1] === value) || Object.hasOwn(headers, name)
  if (!wasSent) return missingHeader
  // Node.js keeps the first of two Authorization headers and drops the other silently.
  const isRepeated = index !== -1 && findHeader(rawHeaders, name, index + 2) !== -1
  if (typeof value !== 'string' || isRepeated) return invalidHeader
  if (value === '') return missingHeader
  const prefix = settings.authorizationHeaderPrefix
  if (prefix === '') return { token: value, source: 'header' }
  const { length } = prefix
  // RFC 9110 section 11.1: the scheme is compared case-insensitively. The first comparison is faster.
  const isOurScheme =
    (value.startsWith(prefix) || value.slice(0, length).toLowerCase() === prefix.toLowerCase()) &&
    (value.length === length || value.charCodeAt(length) === space)
  if (!isOurScheme) return otherScheme
  let start = length
  while (value.charCodeAt(start) === space) start++
  if (start === value.length) return invalidHeader
  return { token: value.slice(start), source: 'header' }
}

/** Treats an empty value as missing. Refuses a repeated one (null), because choosing one of the values is not safe. */
function tokenOrRefusal (value: string | undefined | null, repeated: Refusal): string | undefined | Refusal {
  if (value === null) return repeated
  return value === '' ? undefined : value
}

function readTokenCookie ({ headers }: TokenCarrier, name: string): string | undefined | Refusal {
  const header = Object.hasOwn(headers, 'cookie') ? headers.cookie : undefined
  return typeof header === 'string' ? tokenOrRefusal(readCookie(header, name), repeatedCookie) : undefined
}

function readAccessTokenCookie (carrier: TokenCarrier, settings: Settings): string | undefined | Refusal {
  const value = readTokenCookie(carrier, settings.cookieAccessTokenName)
  if (!settings.cookieSplit || typeof value !== 'string') return value
  const signature = readTokenCookie(carrier, settings.cookieSplitSignatureName)
  return typeof signature === 'string' ? `${value}.${signature}` : signature
}

/** The cookie of the refresh token is percent-encoded, because `generateRefreshToken` may return any string. */
function decodeRefreshToken (value: string): string {
  if (!value.includes('%')) return value
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}

/** Returns the refresh token of the cookie, the refusal of a repeated cookie, or undefined if there is none. */
export function readRefreshTokenCookie (carrier: TokenCarrier, settings: Settings): string | undefined | Refusal {
  const value = readTokenCookie(carrier, settings.cookieRefreshTokenName)
  return typeof value === 'string' ? decodeRefreshToken(value) : value
}

/** Returns all refresh tokens in cookies, for a logout: of a cookie that was sent more than once, one may be that of the user. */
export function readRefreshTokenCookies ({ headers }: TokenCarrier, { cookieSet, cookieRefreshTokenName }: Settings): string[] {
  const header = cookieSet && Object.hasOwn(headers, 'cookie') ? headers.cookie : undefined
  return typeof header === 'string' ? readCookies(header, cookieRefreshTokenName).map(decodeRefreshToken) : []
}

/**
 * Returns a copy of the carrier with new values for some cookies. Each occurs once.
 * @param replaced names and values of these cookies
 */
export function withCookies (carrier: TokenCarrier, replaced: Readonly<Record<string, string>>): TokenCarrier {
  const { url, headers, rawHeaders } = carrier
  const others = String(headers.cookie).split(';').filter((pair) => !Object.hasOwn(replaced, pair.split('=', 1)[0]!.trim()))
  const pairs = Object.entries(replaced).map(([name, value]) => `${name}=${value}`)
  // `rawHeaders` stays as it is: only the header of the access token is looked up in it.
  return { url, headers: { ...headers, cookie: [...others, ...pairs].join(';') }, rawHeaders }
}

/** Reads the URL, because the schema of a route may change the parsed query before a guard runs. */
function readTokenParameter ({ url = '' }: TokenCarrier, name: string): string | undefined | Refusal {
  return tokenOrRefusal(readParameter(url, name), repeatedParameter)
}

/**
 * Searches the cookie (with `cookieSet`), then the query string (with `queryStringSet`). The first value ends the search,
 * valid or not. If a strict source has no value, its refusal ends the search.
 * @returns undefined if the search continues in the header or the body
 */
function searchCookieAndQuery (carrier: TokenCarrier, settings: Settings, kind: TokenKind): FoundToken | Refusal | undefined {
  const isAccess = kind === 'access'
  if (settings.cookieSet) {
    const value = isAccess ? readAccessTokenCookie(carrier, settings) : readRefreshTokenCookie(carrier, settings)
    if (typeof value === 'string') return { token: value, source: 'cookie' }
    if (value !== undefined) return value
    if (settings.cookieStrict) return missingCookie
  }
  if (settings.queryStringSet) {
    const value = readTokenParameter(carrier, isAccess ? settings.queryStringAccessTokenName : settings.queryStringRefreshTokenName)
    if (typeof value === 'string') return { token: value, source: 'query' }
    if (value !== undefined) return value
    if (settings.queryStringStrict) return missingParameter
  }
  return undefined
}

/** Returns the access token of a request and its source, or the refusal. */
export function extractToken (carrier: TokenCarrier, settings: Settings): FoundToken | Refusal {
  return searchCookieAndQuery(carrier, settings, 'access') ?? readTokenHeader(carrier, settings)
}

/** Returns the refresh token in the cookie or the query string, or the refusal; undefined if the body is searched next. */
export function extractRefreshToken (carrier: TokenCarrier, settings: Settings): FoundToken | Refusal | undefined {
  return searchCookieAndQuery(carrier, settings, 'refresh')
}

/** The source of the refresh token of a request that has one. */
export function refreshTokenSource (carrier: TokenCarrier, settings: Settings): FoundToken['source'] | 'body' {
  const found = extractRefreshToken(carrier, settings)
  return found === undefined || found instanceof Refusal ? 'body' : found.source
}

/** Describes where a request may contain its access token or its refresh token. The search ends at a strict source. */
export function describeSources (settings: Settings, kind: TokenKind = 'access'): string {
  const isAccess = kind === 'access'
  const sources: string[] = []
  const isStrictCookie = settings.cookieSet && settings.cookieStrict
  const isStrict = isStrictCookie || (settings.queryStringSet && settings.queryStringStrict)
  if (settings.cookieSet) sources.push(`the cookie "${isAccess ? settings.cookieAccessTokenName : settings.cookieRefreshTokenName}"`)
  if (settings.queryStringSet && !isStrictCookie) {
    sources.push(`the query parameter "${isAccess ? settings.queryStringAccessTokenName : settings.queryStringRefreshTokenName}"`)
  }
  if (!isStrict && isAccess) {
    sources.push(`the header "${settings.authorizationHeader}: ${settings.authorizationHeaderPrefix} <token>"`.replace(':  <', ': <'))
  }
  if (!isStrict && !isAccess) sources.push(`the field "${settings.refreshTokenName}" of the body`)
  return sources.join(', or ')
}
