/**
 * Whether a request that may change something comes from another origin (cross-site request forgery). Browsers add cookies
 * to such requests, too, and identify the page in headers that scripts cannot set. The rule is that of Go's
 * `http.CrossOriginProtection`, plus WebSocket handshakes and default ports.
 */
import { CrossOriginRequest } from '../errors.ts'
import { Refusal } from '../refusal.ts'
import type { Settings } from '../settings/schema.ts'
import { parsed, type Headers } from './headers.ts'

/** The part of a Fastify request that the check needs. */
export interface OriginCarrier {
  /** The host of the request: with `trustProxy` the X-Forwarded-Host header, in HTTP/2 `:authority`. */
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
 * Whether a request has a safe method (RFC 9110 section 9.2.1) and is not a WebSocket handshake. A handshake is a GET
 * request that browsers send across origins without a preflight request (cross-site WebSocket hijacking).
 */
function isHarmless ({ method, headers, upgrade }: OriginCarrier['raw']): boolean {
  if (method !== 'GET' && method !== 'HEAD' && method !== 'OPTIONS' && method !== 'TRACE') return false
  // The schema of a route may have removed the header; the property remains.
  return headers.upgrade === undefined && upgrade !== true
}

/** Shows the headers that a polluted prototype adds to every object. */
const inherited: Headers = {}

/** The most frequent case, without reading all headers. Node.js joins the values of repeated headers with commas. */
function isSameOrigin (headers: Headers): boolean {
  if (headers['sec-fetch-site'] !== 'same-origin' || inherited['sec-fetch-site'] !== undefined) return false
  const { origin } = headers
  return origin === undefined || (typeof origin === 'string' && !origin.includes(','))
}

const [lowerO, lowerS] = [0x6f, 0x73]

/**
 * Reads both headers from `rawHeaders`. The schema of a route can remove them from `headers` before a guard runs, and a
 * request without them passes.
 */
function readSent (rawHeaders: readonly string[]): SentHeaders {
  let origin: Sent
  let site: Sent
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!
    const { length } = name
    // Compare the length and one letter first: toLowerCase() costs more than the rest of the function.
    if (length === 6) {
      if ((name.charCodeAt(0) | 0x20) === lowerO && name.toLowerCase() === 'origin') {
        origin = origin === undefined ? rawHeaders[index + 1] : null
      }
    } else if (length === 14) {
      if ((name.charCodeAt(10) | 0x20) === lowerS && name.toLowerCase() === 'sec-fetch-site') {
        site = site === undefined ? rawHeaders[index + 1] : null
      }
    }
  }
  return { origin, site }
}

/** RFC 6454 section 6.2, only HTTP(S), because the application serves no other pages. Browsers never send user information. */
const webOrigin = /^(https?):\/\/(?!:)([^\s/?#@\\]+)$/

/** Whether an origin is the host of the request, with or without the default port. */
function isOwnHost (origin: string, host: string): boolean {
  const [, scheme, named = ''] = webOrigin.exec(origin.toLowerCase()) ?? []
  if (scheme === undefined) return false
  const port = scheme === 'https' ? ':443' : ':80'
  const bare = (text: string) => text.endsWith(port) ? text.slice(0, -port.length) : text
  return bare(named) === bare(host.toLowerCase())
}

/** Whether the headers of a request show that a page of another, untrusted origin sent it. */
function isCrossOrigin (request: OriginCarrier, trustedOrigins: readonly string[]): boolean {
  const { origin, site } = readSent(parsed(request.raw).rawHeaders)
  // Reject duplicate headers: another component may have read the other value.
  if (origin === null || site === null) return true
  // `none`: an action of the user, such as entering an address.
  if (site === 'same-origin' || site === 'none') return false
  // Without both headers, the client is not a browser, or it is a browser from before 2020.
  if (origin === undefined) return site !== undefined
  // Browsers send no Sec-Fetch-Site with WebSocket handshakes, nor to hosts that they reach by plain HTTP.
  if (site === undefined && isOwnHost(origin, request.host)) return false
  return !trustedOrigins.includes(origin)
}

/** Returns the value of a header; undefined if it is missing, null if it was sent more than once. */
function readOnce (raw: OriginCarrier['raw'], name: string): Sent {
  const { rawHeaders } = parsed(raw)
  const values = rawHeaders.filter((_value, index) => index % 2 === 1 && rawHeaders[index - 1]!.toLowerCase() === name)
  return values.length > 1 ? null : values[0]
}

/**
 * Whether the response to a request may set new cookies, in cookie mode. A page of another site must not change the tokens
 * of a user, so this also checks requests that only read. Navigations pass, because links in mails and on other sites must
 * work: the attribute SameSite has already restricted their cookies.
 * @throws {HandlerFailed} if the getter of `trustedOrigins` fails
 */
export function mayGetCookies (request: OriginCarrier, settings: Pick<Settings, 'trustedOrigins'>): boolean {
  const { raw } = request
  // The plugin sets no cookies in handshakes. Preflight requests have no user.
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
 * Checks the origin of a request, in cookie mode.
 * @returns the refusal of a cross-origin request that may change something; null for any other request
 * @throws {HandlerFailed} if the getter of `trustedOrigins` fails
 */
export function checkOrigin (request: OriginCarrier, settings: Pick<Settings, 'trustedOrigins'>): Refusal | null {
  const { raw } = request
  if (isHarmless(raw) || isSameOrigin(parsed(raw).headers)) return null
  const { trustedOrigins } = settings
  return trustedOrigins === '*' || !isCrossOrigin(request, trustedOrigins) ? null : crossOriginRefusal
}

/** The most characters of a header in `detail`, because the sender chooses its length. */
const maximumShown = 100

function show (value: Sent): string {
  if (value === undefined) return 'missing'
  return value === null ? 'sent more than once' : JSON.stringify(value.slice(0, maximumShown))
}

/** Describes the headers that identify the origin of a request, for the `detail` of an error. */
export function describeOrigin (request: OriginCarrier): string {
  const { origin, site } = readSent(parsed(request.raw).rawHeaders)
  return `"Sec-Fetch-Site" is ${show(site)}, "Origin" is ${show(origin)}, and the host is ${show(request.host)}: ${origin === 'null' ? 'pages without an origin, such as those in a sandbox, cannot be listed in "trustedOrigins"' : 'pages of another origin must be listed in "trustedOrigins"'}`
}
