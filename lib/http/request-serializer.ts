/** A serializer of requests for the host's logger, which writes the URL of every request: in query-string mode, with the token in it. */
import type { FastifyRequest } from 'fastify'

/** Where a router may take a query string to begin, or one of its parameters to end. */
const delimiters = /(?<=[?&;])/

/** As URLSearchParams reads a name, so that no spelling of it slips past. */
function decode (name: string): string {
  const [[decoded = ''] = []] = new URLSearchParams(name)
  return decoded
}

function redact (url: string, names: ReadonlySet<string>): string {
  let isHidden = false
  return url.split(delimiters).map((part) => {
    const [name = ''] = part.split('=', 1)
    const isToken = name.length < part.length && names.has(decode(name))
    const isShown = !isToken && !isHidden
    // A value goes on to the next "&", whatever else is in it.
    isHidden = !isShown && !part.endsWith('&')
    return isShown ? part : `${isToken ? `${name}=[redacted]` : ''}${part.endsWith('&') ? '&' : ''}`
  }).join('')
}

/** What is logged of a request. An interface would not do: Fastify wants a type that is open for more. */
type LoggedRequest = { method: string, url: string, version?: string, host: string, remoteAddress: string, remotePort?: number }

/**
 * Makes a serializer that logs requests as Fastify does, with the values of query parameters that hold tokens replaced:
 * `Fastify({ logger: { serializers: { req: requestSerializer() } } })`.
 * @param names the settings `queryStringAccessTokenName` and `queryStringRefreshTokenName`, where they were changed; the
 * default names are always redacted
 */
export function requestSerializer (...names: string[]): (request: FastifyRequest) => LoggedRequest {
  const redacted = new Set(['access_token', 'refresh_token', ...names])
  return (request) => {
    const { 'accept-version': version } = request.headers
    const remotePort = request.socket?.remotePort
    return {
      method: request.method,
      url: redact(request.url, redacted),
      ...(typeof version === 'string' && { version }),
      host: request.host,
      remoteAddress: request.ip,
      ...(remotePort !== undefined && { remotePort })
    }
  }
}
