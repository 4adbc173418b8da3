/** Headers that are decided when a response begins, in whatever way: by Fastify, as a stream, or by a hijacked reply. */
import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { isForCaches } from './caching.ts'

/** What `writeHead` is given besides the status: texts, and headers as an object or as a list of names and values. */
type Given = string | OutgoingHttpHeaders | readonly OutgoingHttpHeader[] | null | undefined

/** Sets headers as `writeHead` would: they replace those from before. A list may also consist of pairs. */
function setHeaders (raw: ServerResponse, given: OutgoingHttpHeaders | readonly OutgoingHttpHeader[]): void {
  if (!Array.isArray(given)) {
    for (const [name, value] of Object.entries(given)) if (value !== undefined) raw.setHeader(name, value)
    return
  }
  // A name may be there more than once.
  const list = (Array.isArray(given[0]) ? given.flat(1) : given) as readonly (string | readonly string[])[]
  const names = list.filter((_value, index) => index % 2 === 0) as readonly string[]
  for (const name of names) raw.removeHeader(name)
  for (const [index, name] of names.entries()) raw.appendHeader(name, list[2 * index + 1]!)
}

/**
 * Calls a function just before the headers of the response are written. It may change them. Where the headers cannot be
 * written, they are as they were, and it is called again before the next try, such as that of Fastify with the error.
 * @param change may return a function to call after the headers were written
 */
export function beforeHeaders (raw: ServerResponse, change: () => (() => void) | undefined): void {
  const { writeHead } = raw
  const late = (status: number, ...given: readonly Given[]): ServerResponse => {
    const before = { ...raw.getHeaders() }
    // First: what writes the headers may call it again.
    raw.writeHead = writeHead
    try {
      for (const headers of given) if (typeof headers === 'object' && headers !== null) setHeaders(raw, headers)
      const written = change()
      Reflect.apply(writeHead, raw, [status, ...given.filter((value) => typeof value === 'string')])
      written?.()
      return raw
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

/**
 * Adds cookies to a response that begins, before those that are there already, so that these win, and keeps caches from
 * storing it: some of them store `Set-Cookie` too.
 */
export function addLateCookies (raw: ServerResponse, cookies: readonly string[]): void {
  const cacheControl = [raw.getHeader('cache-control') ?? ''].flat().join(', ')
  if (!noStore.test(cacheControl.replace(quoted, ''))) raw.setHeader('cache-control', 'no-store')
  for (const name of raw.getHeaderNames()) if (isForCaches(name)) raw.removeHeader(name)
  if (cookies.length > 0) raw.setHeader('set-cookie', [...cookies, ...[raw.getHeader('set-cookie') ?? []].flat().map(String)])
}
