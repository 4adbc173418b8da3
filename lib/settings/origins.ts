/** The entries of the setting `trustedOrigins`: origins, exactly as browsers send them. */
import { quote, typeName } from '../values.ts'

/** Schemes whose pages have the origin of another address, or an origin that does not identify them. */
const withoutOrigin = ['about:', 'blob:', 'data:', 'file:', 'ftp:', 'javascript:', 'ws:', 'wss:']

/** RFC 6454 section 6.2, for the schemes that browsers and web views do not normalize. */
const serialized = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@\\*A-Z]+$/

const isWeb = ({ protocol }: URL) => protocol === 'http:' || protocol === 'https:'

/** Whether a browser, or a web view such as that of Capacitor, can send a text as the origin of a page. */
function isOrigin (text: string): boolean {
  if (!serialized.test(text) || !URL.canParse(text)) return false
  const url = new URL(text)
  // For http and https, `url.origin` is the form that browsers send: no default port, international names encoded.
  return isWeb(url) ? url.origin === text : !withoutOrigin.includes(url.protocol)
}

/** Returns the origin that a browser sends for an address, as the end of a message; an empty string if it is unknown. */
function suggestOrigin (text: string): string {
  // A WebSocket handshake also has the origin of the page.
  const address = text.replace(/^ws(?=s?:)/i, 'http')
  if (!address.includes('://') || !URL.canParse(address)) return ''
  const url = new URL(address)
  return isWeb(url) ? `: it sends "${url.origin}"` : ''
}

function faultOfEntry (entry: unknown): string | undefined {
  if (typeof entry !== 'string') return typeName(entry)
  const shown = quote(entry)
  if (entry === '*') return `${shown}: give "*" itself, not in a list`
  if (entry === 'null') return `${shown}, which browsers send for every sandboxed frame, whoever wrote its page`
  if (entry.includes('*')) return `${shown}: patterns are not supported, so list each origin`
  return isOrigin(entry) ? undefined : `${shown}, which no browser sends as an origin${suggestOrigin(entry)}`
}

/** Describes the first entry of a list that is not an origin; undefined if all entries are origins. */
export function faultOfOrigins (origins: readonly unknown[]): string | undefined {
  for (const [index, entry] of origins.entries()) {
    const fault = faultOfEntry(entry)
    if (fault !== undefined) return `entry ${index} is ${fault}`
  }
  return undefined
}

/** Splits the text of an application's configuration, such as an environment variable. */
export function splitOrigins (text: string): string | string[] {
  const origins = text.split(/[\s,]+/).filter((part) => part !== '')
  return origins.length === 1 && origins[0] === '*' ? '*' : origins
}
