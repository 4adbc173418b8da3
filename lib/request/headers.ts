/** Converts headers that were not parsed by Node.js, such as those of `injectWS` of @fastify/websocket, to the form of Node.js. */

export type Headers = Readonly<Record<string, string | string[] | undefined>>

/** The headers of a request, as in `http.IncomingMessage`. */
export interface Parsed {
  /** Values by lower-case names. Repeated values are joined. */
  readonly headers: Headers
  /** Alternating names and values, as they were sent. */
  readonly rawHeaders: readonly string[]
}

/** Converts headers. A name in several spellings, or with a list of values, becomes a repeated header. */
function parse (given: Headers): Parsed {
  const headers: Record<string, string> = {}
  const rawHeaders: string[] = []
  for (const [name, values] of Object.entries(given)) {
    const lower = name.toLowerCase()
    for (const value of [values ?? []].flat().map(String)) {
      rawHeaders.push(name, value)
      const first = Object.hasOwn(headers, lower) ? headers[lower] : undefined
      const all = first === undefined ? value : first + (lower === 'cookie' ? '; ' : ', ') + value
      // Not by assignment, which would set the prototype for the name `__proto__`.
      Object.defineProperty(headers, lower, { value: all, enumerable: true, configurable: true })
    }
  }
  return { headers, rawHeaders }
}

/** Returns a Node.js request unchanged, and any other request with its headers in the form of Node.js. */
export function parsed<Raw extends { readonly headers: Headers, readonly rawHeaders?: readonly string[] }> (raw: Raw): Raw & Parsed {
  const { rawHeaders } = raw
  // TypeScript does not narrow the type of `raw` by its property.
  return rawHeaders === undefined ? Object.create(raw, Object.getOwnPropertyDescriptors(parse(raw.headers))) : raw as Raw & Parsed
}
