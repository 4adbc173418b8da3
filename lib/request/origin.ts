/**
 * Whether a request that may change something comes from another origin (cross-site request forgery). Browsers add cookies
 * to such requests too, and say in headers that scripts cannot set which page made them. The rule is that of Go's
 * `http.CrossOriginProtection`, with WebSocket handshakes and default ports added.
 */
import { CrossOriginRequest } from '../errors.ts'
import { Refusal } from '../refusal.ts'
import type { Settings } from '../settings/schema.ts'

/** What the decision needs of a request; a request of Fastify has it. */
export interface OriginCarrier {
  readonly method: string
  /** The host that was asked for: with `trustProxy` the X-Forwarded-Host header, in HTTP/2 `:authority`. */
  readonly host: string
  readonly raw: {
    readonly headers: Readonly<Record<string, string | string[] | undefined>>
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

const harmless: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

/**
 * Whether a request can do no more than read (RFC 9110 section 9.2.1). A WebSocket handshake is a GET request, and browsers
 * send it across origins without asking, so that it must not pass (cross-site WebSocket hijacking).
 */
function isHarmless ({ method, raw }: OriginCarrier): boolean {
  // The first comparison is the cheaper one. The schema of a route may have removed the header, but not the property.
  return (method === 'GET' || harmless.has(method)) && raw.headers.upgrade === undefined && raw.upgrade !== true
}

const siteHeader = 'sec-fetch-site'

/** What `raw.headers` has where the header is not in the list of what was sent, as for requests that tests make. */
function ownHeader ({ headers }: OriginCarrier['raw'], name: string): Sent {
  if (!Object.hasOwn(headers, name)) return undefined
  const value = headers[name]
  return Array.isArray(value) ? null : value
}

/**
 * Reads both headers from what was sent. In `raw.headers` they may be missing: the schema of a route can remove headers
 * before a guard runs, and a request without them passes.
 */
function readHeaders (raw: OriginCarrier['raw']): SentHeaders {
  const { rawHeaders = [] } = raw
  let origin: Sent
  let site: Sent
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!
    if (name.length === 6 && name.toLowerCase() === 'origin') origin = origin === undefined ? rawHeaders[index + 1] : null
    else if (name.length === siteHeader.length && name.toLowerCase() === siteHeader) site = site === undefined ? rawHeaders[index + 1] : null
  }
  return { origin: origin === undefined ? ownHeader(raw, 'origin') : origin, site: site === undefined ? ownHeader(raw, siteHeader) : site }
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
function isForeign ({ origin, site }: SentHeaders, request: OriginCarrier, trustedOrigins: readonly string[]): boolean {
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

const crossOrigin = new Refusal(() => new CrossOriginRequest())

/**
 * Decides whether a request comes from where it may, in cookie mode.
 * @returns the refusal of a request that may change something and comes from another origin; null for any other
 * @throws {HandlerFailed} where the getter of `trustedOrigins` fails
 */
export function checkOrigin (request: OriginCarrier, settings: Pick<Settings, 'trustedOrigins'>): Refusal | null {
  if (isHarmless(request)) return null
  const { trustedOrigins } = settings
  return trustedOrigins === '*' || !isForeign(readHeaders(request.raw), request, trustedOrigins) ? null : crossOrigin
}

/** The sender chooses the value. */
const maximumShown = 100

function show (value: Sent): string {
  if (value === undefined) return 'missing'
  return value === null ? 'sent more than once' : JSON.stringify(value.slice(0, maximumShown))
}

/** Describes what a request says of its origin, for the `detail` of an error. */
export function describeOrigin (request: OriginCarrier): string {
  const { origin, site } = readHeaders(request.raw)
  return `"Sec-Fetch-Site" is ${show(site)}, "Origin" is ${show(origin)}, and the host is ${show(request.host)}: pages of another origin must be listed in "trustedOrigins"`
}
