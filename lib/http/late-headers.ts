/** Changes headers when a response begins, whether Fastify, a stream or a hijacked reply sends it. */
import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { isForCaches } from './caching.ts'

/** The parameters of `writeHead` after the status: a status message, and headers as an object or as a list of names and values. */
type Given = string | OutgoingHttpHeaders | readonly OutgoingHttpHeader[] | null | undefined

/** Sets headers as `writeHead` does: they replace earlier ones. A list is flat, or consists of pairs. */
function setHeaders (raw: ServerResponse, given: OutgoingHttpHeaders | readonly OutgoingHttpHeader[]): void {
  if (!Array.isArray(given)) {
    for (const [name, value] of Object.entries(given)) if (value !== undefined) raw.setHeader(name, value)
    return
  }
  // A list may contain a name more than once.
  const list = (Array.isArray(given[0]) ? given.flat(1) : given) as readonly (string | readonly string[])[]
  const names = list.filter((_value, index) => index % 2 === 0) as readonly string[]
  for (const name of names) raw.removeHeader(name)
  for (const [index, name] of names.entries()) raw.appendHeader(name, list[2 * index + 1]!)
}

/**
 * Calls a function just before the headers of the response are written. It may change them. If they cannot be written, they
 * are restored, and the function is called again before the next attempt, such as the error response of Fastify.
 * @param change may return a function to call after the headers were written
 */
export function beforeHeaders (raw: ServerResponse, change: () => (() => void) | undefined): void {
  const { writeHead } = raw
  const late = (status: number, ...given: readonly Given[]): ServerResponse => {
    const before = { ...raw.getHeaders() }
    // Restored first, because the original function may call `raw.writeHead` again.
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
/** Quoted values of extension directives, which may contain any text. */
const quoted = /"[^"]*"/g

/**
 * Adds cookies to a response, before the cookies that it already has, so that those win. Prevents caches from storing it,
 * because some caches store `Set-Cookie`, too.
 */
export function addLateCookies (raw: ServerResponse, cookies: readonly string[]): void {
  const cacheControl = [raw.getHeader('cache-control') ?? ''].flat().join(', ')
  if (!noStore.test(cacheControl.replace(quoted, ''))) raw.setHeader('cache-control', 'no-store')
  for (const name of raw.getHeaderNames()) if (isForCaches(name)) raw.removeHeader(name)
  if (cookies.length > 0) raw.setHeader('set-cookie', [...cookies, ...[raw.getHeader('set-cookie') ?? []].flat().map(String)])
}
