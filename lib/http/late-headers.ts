/** Headers that are decided when a response begins, in whatever way: by Fastify, as a stream, or by a hijacked reply. */
import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http'

/** What `writeHead` is given besides the status: texts, and headers as an object or as a list of names and values. */
type Given = string | OutgoingHttpHeaders | readonly OutgoingHttpHeader[] | null | undefined

/** Without a prototype: anybody can choose the name of a header in some applications. */
const noHeaders = (): OutgoingHttpHeaders => Object.create(null)

/** Adds headers as `writeHead` would: they replace those from before, whose names are in lower case. A list may also consist of pairs. */
function addHeaders (headers: OutgoingHttpHeaders, given: OutgoingHttpHeaders | readonly OutgoingHttpHeader[]): void {
  const add = (name: string, value: OutgoingHttpHeader | undefined) => {
    const lower = name.toLowerCase()
    if (lower !== name) Reflect.deleteProperty(headers, lower)
    if (value !== undefined) headers[name] = value
  }
  if (!Array.isArray(given)) return Object.entries(given).forEach(([name, value]) => add(name, value))
  const list = (Array.isArray(given[0]) ? given.flat(1) : given) as readonly (string | readonly string[])[]
  // A name may be there more than once.
  const values = new Map<string, string[]>()
  for (let index = 0; index < list.length; index += 2) {
    const name = String(list[index]).toLowerCase()
    values.set(name, [...values.get(name) ?? [], ...[list[index + 1]!].flat()])
  }
  for (const [name, all] of values) add(name, all)
}

/**
 * Calls a function just before the headers of the response are written.
 * @param change is given the headers, and returns those that are written. Where they cannot be written, they are as they
 * were, and it is called again before the next try, such as that of Fastify with the error
 */
export function beforeHeaders (raw: ServerResponse, change: (headers: OutgoingHttpHeaders) => OutgoingHttpHeaders): void {
  const { writeHead } = raw
  const late = (status: number, ...given: readonly Given[]): ServerResponse => {
    const before = raw.getHeaders()
    // First: what writes the headers may call it again.
    raw.writeHead = writeHead
    try {
      const headers = Object.assign(noHeaders(), before)
      for (const one of given) if (typeof one === 'object' && one !== null) addHeaders(headers, one)
      const changed = change(headers)
      for (const name of Object.keys(before)) {
        // What stays as it is keeps its place, and the case of its name.
        if (changed[name] === before[name]) Reflect.deleteProperty(changed, name)
        else raw.removeHeader(name)
      }
      return Reflect.apply(writeHead, raw, [status, ...given.filter((value) => typeof value === 'string'), changed])
    } catch (error) {
      if (!raw.headersSent) {
        raw.writeHead = late
        for (const name of raw.getHeaderNames()) raw.removeHeader(name)
        for (const [name, value] of Object.entries(before)) raw.setHeader(name, value!)
      }
      throw error
    }
  }
  raw.writeHead = late
}

const noStore = /(?:^|,)[ \t]*no-store[ \t]*(?:,|$)/i
/** Quoted texts of extensions, which may contain anything. */
const quoted = /"[^"]*"/g
/** Headers that caches obey before `Cache-Control`, such as `CDN-Cache-Control` (RFC 9213) and those of vendors. */
const forCaches = /.-cache-control$|^(?:surrogate|edge)-control$|^x-accel-expires$/

/**
 * Returns headers with cookies before those that are there already, so that these win. Caches are kept from storing the
 * response: some of them store `Set-Cookie` too.
 */
export function withLateCookies (headers: OutgoingHttpHeaders, cookies: readonly string[]): OutgoingHttpHeaders {
  const changed = noHeaders()
  const cacheControl: unknown[] = []
  const all = [...cookies]
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase()
    if (lower === 'cache-control') cacheControl.push(value)
    else if (lower === 'set-cookie') all.push(...[value].flat().map(String))
    else if (!forCaches.test(lower)) changed[name] = value
  }
  const said = cacheControl.flat().join(', ')
  changed['cache-control'] = noStore.test(said.replace(quoted, '')) ? said : 'no-store'
  if (all.length > 0) changed['set-cookie'] = all
  return changed
}
