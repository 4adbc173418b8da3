/** Where a request may carry a token, and in which order it is looked for. Says what was found and where. */
import { InvalidAuthorizationHeader, InvalidToken, MissingAuthorizationCookie, MissingAuthorizationHeader, MissingAuthorizationQueryArg } from '../errors.ts'
import { Refusal } from '../refusal.ts'
import type { Settings } from '../settings/schema.ts'

export type TokenSource = 'header' | 'cookie' | 'query'

export interface FoundToken {
  readonly token: string
  readonly source: TokenSource
}

/** The parts of a request that may carry a token; a Node.js request has them. */
export interface TokenCarrier {
  readonly url?: string | undefined
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly rawHeaders: readonly string[]
}

const missingHeader = new Refusal(() => new MissingAuthorizationHeader())
const missingCookie = new Refusal(() => new MissingAuthorizationCookie())
const missingQueryArg = new Refusal(() => new MissingAuthorizationQueryArg())
const foreignHeader = new Refusal(() => new InvalidAuthorizationHeader(undefined, { foreign: true }))
const invalidHeader = new Refusal(() => new InvalidAuthorizationHeader())
const repeatedToken = new Refusal((reason) => new InvalidToken(undefined, { reason }), 'it was sent more than once')

const withoutToken: ReadonlySet<Refusal> = new Set([missingHeader, missingCookie, missingQueryArg, foreignHeader])

/** Whether a request was refused for carrying no token of ours at all; a bad one is another matter. */
export const isWithoutToken = (refusal: Refusal): boolean => withoutToken.has(refusal)

/** Whether a header was sent more than once. Node.js keeps the first of two Authorization headers and says nothing of the other. */
function isRepeated (name: string, rawHeaders: readonly string[]): boolean {
  let isSeen = false
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const candidate = rawHeaders[index]!
    if (candidate.length !== name.length || candidate.toLowerCase() !== name) continue
    if (isSeen) return true
    isSeen = true
  }
  return false
}

const space = 32

function readHeader (carrier: TokenCarrier, settings: Settings): FoundToken | Refusal {
  const name = settings.authorizationHeader.toLowerCase()
  const value = carrier.headers[name]
  if (value === undefined) return missingHeader
  if (typeof value !== 'string' || isRepeated(name, carrier.rawHeaders)) return invalidHeader
  if (value === '') return missingHeader
  const prefix = settings.authorizationHeaderPrefix
  if (prefix === '') return { token: value, source: 'header' }
  const { length } = prefix
  // RFC 9110 section 11.1: the scheme is compared case-insensitively. Nearly always it is spelled as expected.
  const isOurScheme = (value.startsWith(prefix) || value.slice(0, length).toLowerCase() === prefix.toLowerCase()) && (value.length === length || value.charCodeAt(length) === space)
  if (!isOurScheme) return foreignHeader
  let start = length
  while (value.charCodeAt(start) === space) start++
  if (start === value.length) return invalidHeader
  return { token: value.slice(start), source: 'header' }
}

/** The values of one cookie in a Cookie header, as they stand there (RFC 6265 section 4.2.1). Parsers keep one of two and do not say so. */
function cookieValues (header: string, name: string): string[] {
  const values: string[] = []
  for (let start = 0; start < header.length;) {
    let end = header.indexOf(';', start)
    if (end === -1) end = header.length
    // Searched in the pair, not in the header: 200,000 semicolons must not each be a walk to its end.
    const pair = header.slice(start, end)
    const equals = pair.indexOf('=')
    if (equals !== -1 && pair.slice(0, equals).trim() === name) values.push(pair.slice(equals + 1).trim())
    start = end + 1
  }
  return values
}

/** One value of a source: none or an empty one is undefined; several are refused, because it is not ours to choose. */
function single (values: readonly string[]): string | undefined | Refusal {
  if (values.length > 1) return repeatedToken
  return values[0] === '' ? undefined : values[0]
}

/** The value of a cookie, undefined where it is missing or empty, a refusal where it is there twice. */
function readCookie (carrier: TokenCarrier, name: string): string | undefined | Refusal {
  const header = carrier.headers.cookie
  return typeof header === 'string' ? single(cookieValues(header, name)) : undefined
}

/** The value of a query parameter, undefined where it is missing or empty, a refusal where it is there twice. */
function readQuery (carrier: TokenCarrier, name: string): string | undefined | Refusal {
  // From the URL itself: a route's schema may strip or rewrite the parsed query before a guard runs.
  const url = carrier.url ?? ''
  const start = url.indexOf('?')
  return start === -1 ? undefined : single(new URLSearchParams(url.slice(start + 1)).getAll(name))
}

function readTokenCookie (carrier: TokenCarrier, settings: Settings): string | undefined | Refusal {
  const value = readCookie(carrier, settings.cookieAccessTokenName)
  if (!settings.cookieSplit || typeof value !== 'string') return value
  const signature = readCookie(carrier, settings.cookieSplitSignatureName)
  return typeof signature === 'string' ? `${value}.${signature}` : signature
}

/**
 * Looks for a value in the cookie (with `cookieSet`), then in the query string (with `queryStringSet`). A value that is
 * there ends the search, whatever it is worth; where it is missing, a strict source ends it with its error.
 * @returns undefined where the search goes on elsewhere
 */
function searchCookieAndQuery (
  settings: Settings, cookie: () => string | undefined | Refusal, query: () => string | undefined | Refusal
): FoundToken | Refusal | undefined {
  if (settings.cookieSet) {
    const found = cookie()
    if (typeof found === 'string') return { token: found, source: 'cookie' }
    if (found !== undefined) return found
    if (settings.cookieStrict) return missingCookie
  }
  if (settings.queryStringSet) {
    const found = query()
    if (typeof found === 'string') return { token: found, source: 'query' }
    if (found !== undefined) return found
    if (settings.queryStringStrict) return missingQueryArg
  }
  return undefined
}

/** Where a request is expected to carry its access token, in words; a strict source is the last. */
export function describeSources (settings: Settings): string {
  const sources: string[] = []
  if (settings.cookieSet) sources.push(`the cookie "${settings.cookieAccessTokenName}"`)
  if (settings.queryStringSet && !(settings.cookieSet && settings.cookieStrict)) sources.push(`the query parameter "${settings.queryStringAccessTokenName}"`)
  const isStrict = (settings.cookieSet && settings.cookieStrict) || (settings.queryStringSet && settings.queryStringStrict)
  if (!isStrict) sources.push(`the header "${settings.authorizationHeader}: ${settings.authorizationHeaderPrefix} <token>"`.replace(':  <', ': <'))
  return sources.join(', or ')
}

/** The access token of a request and where it was, or the refusal. */
export function extractToken (carrier: TokenCarrier, settings: Settings): FoundToken | Refusal {
  if (settings.cookieSet || settings.queryStringSet) {
    const found = searchCookieAndQuery(settings,
      () => readTokenCookie(carrier, settings), () => readQuery(carrier, settings.queryStringAccessTokenName))
    if (found !== undefined) return found
  }
  return readHeader(carrier, settings)
}

/** The refresh token of a request outside its body, or the refusal; undefined where the body is to be looked at. */
export function extractRefreshToken (carrier: TokenCarrier, settings: Settings): FoundToken | Refusal | undefined {
  return searchCookieAndQuery(settings,
    () => decoded(readCookie(carrier, settings.cookieRefreshTokenName)), () => readQuery(carrier, settings.queryStringRefreshTokenName))
}

/** A cookie of ours is percent-encoded when it is set, since a host's generator may make any string. */
function decoded (value: string | undefined | Refusal): string | undefined | Refusal {
  if (typeof value !== 'string' || !value.includes('%')) return value
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}
