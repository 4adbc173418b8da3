/** The headers of a request that no HTTP parser has made, such as that of `injectWS` of @fastify/websocket, as if Node.js had parsed them. */

export type Headers = Readonly<Record<string, string | string[] | undefined>>

/** What is read of the headers of a request. */
export interface Parsed {
  /** By names in lower case. The values of a name that was sent more than once are joined. */
  readonly headers: Headers
  /** Names and values by turns, as they were sent. */
  readonly rawHeaders: readonly string[]
}

/** Writes headers as they would be sent: a name in several spellings, or with a list of values, is sent more than once. */
function parse (given: Headers): Parsed {
  const headers: Record<string, string> = {}
  const rawHeaders: string[] = []
  for (const [name, values] of Object.entries(given)) {
    const lower = name.toLowerCase()
    for (const value of [values ?? []].flat().map(String)) {
      rawHeaders.push(name, value)
      const first = Object.hasOwn(headers, lower) ? headers[lower] : undefined
      const all = first === undefined ? value : first + (lower === 'cookie' ? '; ' : ', ') + value
      // Not by assignment, which `__proto__` would turn into a prototype.
      Object.defineProperty(headers, lower, { value: all, enumerable: true, configurable: true })
    }
  }
  return { headers, rawHeaders }
}

/** Returns a request of Node.js as it is, and any other one with its headers as Node.js would have parsed them. */
export function parsed<Raw extends { readonly headers: Headers, readonly rawHeaders?: readonly string[] }> (raw: Raw): Raw & Parsed {
  const { rawHeaders } = raw
  // The type does not tell that a property is there.
  return rawHeaders === undefined ? Object.create(raw, Object.getOwnPropertyDescriptors(parse(raw.headers))) : raw as Raw & Parsed
}
