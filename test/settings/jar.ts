/** The cookies of a browser, as RFC 6265bis says: what it takes from a response, and what it sends with a request of a page of the same site. */

interface Stored {
  readonly name: string
  readonly value: string
  readonly domain: string
  /** Whether only the host that set it gets it back. */
  readonly isHostOnly: boolean
  readonly path: string
  readonly isSecure: boolean
  readonly sameSite: string
  /** Whether it is in the partition of the page. A page at the top of its own site sends both kinds. */
  readonly isPartitioned: boolean
  /** Milliseconds since 1970; undefined for one that ends with the browser. */
  readonly expires: number | undefined
}

const isWithin = (host: string, domain: string) => host === domain || host.endsWith(`.${domain}`)
const isBelow = (path: string, above: string) => path === above || (path.startsWith(above) && (above.endsWith('/') || path[above.length] === '/'))
/** Section 5.1.4. */
const defaultPath = (path: string) => path.slice(0, path.lastIndexOf('/')) || '/'
const isSame = (one: Stored, other: Stored) => (['name', 'domain', 'isHostOnly', 'path', 'isPartitioned'] as const).every((part) => one[part] === other[part])

/** Reads one field Set-Cookie; undefined for one that browsers reject. */
function parse (field: string, { hostname, pathname, protocol }: URL): Stored | undefined {
  const [pair = '', ...rest] = field.split(';').map((part) => part.trim())
  const attributes = new Map(rest.map((part) => {
    const [name = '', ...value] = part.split('=')
    return [name.toLowerCase(), value.join('=')]
  }))
  const name = pair.slice(0, pair.indexOf('='))
  const given = (attributes.get('domain') ?? '').toLowerCase().replace(/^\./, '')
  const path = attributes.get('path') ?? ''
  const [maxAge, expires] = [attributes.get('max-age'), attributes.get('expires')]
  const stored: Stored = {
    name,
    value: pair.slice(name.length + 1),
    domain: given === '' ? hostname : given,
    isHostOnly: given === '',
    path: path.startsWith('/') ? path : defaultPath(pathname),
    isSecure: attributes.has('secure'),
    sameSite: (attributes.get('samesite') ?? 'lax').toLowerCase(),
    isPartitioned: attributes.has('partitioned'),
    expires: maxAge !== undefined ? Date.now() + Number(maxAge) * 1000 : expires === undefined ? undefined : Date.parse(expires)
  }
  const { isSecure, isHostOnly } = stored
  const prefix = /^__(?:secure|host)-/i.exec(name)?.[0].toLowerCase()
  const isAllowed = isWithin(hostname, stored.domain) &&
    // Section 5.7, steps 10 and 18 to 22.
    (isSecure ? protocol === 'https:' : stored.sameSite !== 'none' && !stored.isPartitioned && prefix === undefined) &&
    (prefix !== '__host-' || (isHostOnly && path === '/'))
  return isAllowed ? stored : undefined
}

export class Jar {
  #cookies: Stored[] = []

  copy (): Jar {
    const copy = new Jar()
    copy.#cookies = [...this.#cookies]
    return copy
  }

  /** Takes the fields Set-Cookie of a response, in their order. */
  take (url: string, fields: readonly string[]): void {
    const address = new URL(url)
    for (const field of fields) {
      const stored = parse(field, address)
      if (stored === undefined || (address.protocol === 'http:' && this.#shields(stored))) continue
      const index = this.#cookies.findIndex((cookie) => isSame(cookie, stored))
      if (index === -1) this.#cookies.push(stored)
      else this.#cookies[index] = stored
      this.#expire()
    }
  }

  /** What a request to an address sends in its header Cookie: longer paths first, then older cookies. */
  headerFor (url: string): string {
    this.#expire()
    const { hostname, pathname, protocol } = new URL(url)
    return this.#cookies
      .filter(({ domain, isHostOnly, path, isSecure }) => (isHostOnly ? hostname === domain : isWithin(hostname, domain)) && isBelow(pathname, path) && (!isSecure || protocol === 'https:'))
      .sort((one, other) => other.path.length - one.path.length)
      .map(({ name, value }) => `${name}=${value}`).join('; ')
  }

  /** Whether a cookie without Secure would take the place of one with it: section 5.7, step 16. */
  #shields ({ name, domain, path }: Stored): boolean {
    return this.#cookies.some((cookie) => cookie.isSecure && cookie.name === name && (isWithin(cookie.domain, domain) || isWithin(domain, cookie.domain)) && isBelow(path, cookie.path))
  }

  #expire (): void {
    this.#cookies = this.#cookies.filter(({ expires }) => expires === undefined || expires > Date.now())
  }
}
