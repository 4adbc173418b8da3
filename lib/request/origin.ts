/**
 * Whether a request that may change something comes from another origin (cross-site request forgery). Browsers add cookies
 * to such requests too, and say in headers that scripts cannot set which page made them. The rule is that of Go's
 * `http.CrossOriginProtection`, with WebSocket handshakes and default ports added.
 */
import { CrossOriginRequest } from '../errors.ts'
import { Refusal } from '../refusal.ts'
import type { Settings } from '../settings/schema.ts'
import { parsed, type Headers } from './headers.ts'

/** What the decision needs of a request; a request of Fastify has it. */
export interface OriginCarrier {
  /** The host that was asked for: with `trustProxy` the X-Forwarded-Host header, in HTTP/2 `:authority`. */
  readonly host: string
  readonly raw: {
    readonly method?: string | undefined
    readonly headers: Headers
    readonly rawHeaders?: readonly string[]
    /** Node.js sets it for a request that it passes to the listeners of upgrades. */
    readonly upgrade?: boolean | null
  }
}

/** The value of a header; undefined where it is missing, null where it was sent more than once. */
type Sent = string | undefined | null

interface SentHeaders {
  readonly origin: Sent
  readonly site: Sent
}

/**
 * Whether a request can do no more than read (RFC 9110 section 9.2.1). A WebSocket handshake is a GET request, and browsers
 * send it across origins without asking, so that it must not pass (cross-site WebSocket hijacking).
 */
function isHarmless ({ method, headers, upgrade }: OriginCarrier['raw']): boolean {
  if (method !== 'GET' && method !== 'HEAD' && method !== 'OPTIONS' && method !== 'TRACE') return false
  // The schema of a route may have removed the header, but not the property.
  return headers.upgrade === undefined && upgrade !== true
}

/** What every object of headers inherits: nothing, unless a prototype was polluted. */
const inherited: Headers = {}

/** The most frequent case, without a look at all headers. Node.js joins the values of a header that was sent more than once by commas. */
function isSameOrigin (headers: Headers): boolean {
  if (headers['sec-fetch-site'] !== 'same-origin' || inherited['sec-fetch-site'] !== undefined) return false
  const { origin } = headers
  return origin === undefined || (typeof origin === 'string' && !origin.includes(','))
}

const [lowerO, lowerS] = [0x6f, 0x73]

/**
 * Reads both headers from what was sent. In `raw.headers` they may be missing: the schema of a route can remove headers
 * before a guard runs, and a request without them passes.
 */
function readSent (rawHeaders: readonly string[]): SentHeaders {
  let origin: Sent
  let site: Sent
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!
    const { length } = name
    // Length and one letter tell most other names apart: toLowerCase() costs more than all the rest.
    if (length === 6) {
      if ((name.charCodeAt(0) | 0x20) === lowerO && name.toLowerCase() === 'origin') origin = origin === undefined ? rawHeaders[index + 1] : null
    } else if (length === 14) {
      if ((name.charCodeAt(10) | 0x20) === lowerS && name.toLowerCase() === 'sec-fetch-site') site = site === undefined ? rawHeaders[index + 1] : null
    }
  }
  return { origin, site }
}

/** RFC 6454 section 6.2, without user information, which a browser never sends. Pages of other schemes are not served by this application. */
const webOrigin = /^(https?):\/\/(?!:)([^\s/?#@\\]+)$/

/** Whether an origin is the host that was asked for. A default port may be written or not. */
function isOwnHost (origin: string, host: string): boolean {
  const [, scheme, named = ''] = webOrigin.exec(origin.toLowerCase()) ?? []
  if (scheme === undefined) return false
  const port = scheme === 'https' ? ':443' : ':80'
  const bare = (text: string) => text.endsWith(port) ? text.slice(0, -port.length) : text
  return bare(named) === bare(host.toLowerCase())
}

/** Whether the headers of a request that is not harmless say that another origin sent it. */
function isCrossOrigin (request: OriginCarrier, trustedOrigins: readonly string[]): boolean {
  const { origin, site } = readSent(parsed(request.raw).rawHeaders)
  // Of two values none is believed: another part of the system may have read the other one.
  if (origin === null || site === null) return true
  // `none` is an action of the user, such as entering an address.
  if (site === 'same-origin' || site === 'none') return false
  // Without both headers the client is no browser, or one from before 2020.
  if (origin === undefined) return site !== undefined
  // Browsers send no Sec-Fetch-Site with WebSocket handshakes, nor to hosts that they reach by plain HTTP.
  if (site === undefined && isOwnHost(origin, request.host)) return false
  return !trustedOrigins.includes(origin)
}

/** The value of a header that was sent once; undefined where it was not sent, null where it was sent more than once. */
function readOnce (raw: OriginCarrier['raw'], name: string): Sent {
  const { rawHeaders } = parsed(raw)
  const values = rawHeaders.filter((_value, index) => index % 2 === 1 && rawHeaders[index - 1]!.toLowerCase() === name)
  return values.length > 1 ? null : values[0]
}

/**
 * Whether a request may be given new cookies, in cookie mode. A page of another site must not make anybody's tokens change,
 * so that the rule also holds for requests that only read, but for those that open a page: the attribute SameSite has decided
 * whether they have cookies, and links in mails and on other sites must work.
 * @throws {HandlerFailed} where the getter of `trustedOrigins` fails
 */
export function mayGetCookies (request: OriginCarrier, settings: Pick<Settings, 'trustedOrigins'>): boolean {
  const { raw } = request
  // The response to a handshake has no cookies of ours. A preflight request has no user.
  if (raw.method === 'OPTIONS' || raw.method === 'TRACE' || raw.headers.upgrade !== undefined || raw.upgrade === true) return false
  const [mode, destination] = [readOnce(raw, 'sec-fetch-mode'), readOnce(raw, 'sec-fetch-dest')]
  const { origin, site } = readSent(parsed(raw).rawHeaders)
  if ([mode, destination, origin, site].includes(null)) return false
  if ((raw.method === 'GET' || raw.method === 'HEAD') && mode === 'navigate' && destination === 'document') return true
  const { trustedOrigins } = settings
  return trustedOrigins === '*' || !isCrossOrigin(request, trustedOrigins)
}

const crossOriginRefusal = new Refusal(() => new CrossOriginRequest())

/**
 * Decides whether a request comes from where it may, in cookie mode.
 * @returns the refusal of a request that may change something and comes from another origin; null for any other
 * @throws {HandlerFailed} where the getter of `trustedOrigins` fails
 */
export function checkOrigin (request: OriginCarrier, settings: Pick<Settings, 'trustedOrigins'>): Refusal | null {
  const { raw } = request
  if (isHarmless(raw) || isSameOrigin(parsed(raw).headers)) return null
  const { trustedOrigins } = settings
  return trustedOrigins === '*' || !isCrossOrigin(request, trustedOrigins) ? null : crossOriginRefusal
}

/** The sender chooses the value. */
const maximumShown = 100

function show (value: Sent): string {
  if (value === undefined) return 'missing'
  return value === null ? 'sent more than once' : JSON.stringify(value.slice(0, maximumShown))
}

/** Describes what a request says of its origin, for the `detail` of an error. */
export function describeOrigin (request: OriginCarrier): string {
  const { origin, site } = readSent(parsed(request.raw).rawHeaders)
  return `"Sec-Fetch-Site" is ${show(site)}, "Origin" is ${show(origin)}, and the host is ${show(request.host)}: ${origin === 'null' ? 'pages without an origin, such as those in a sandbox, cannot be listed in "trustedOrigins"' : 'pages of another origin must be listed in "trustedOrigins"'}`
}
