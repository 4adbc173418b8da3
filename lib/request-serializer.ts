/** A serializer of requests for the host's logger, which writes the URL of every request: in query-string mode, with the token in it. */
import type { FastifyRequest } from 'fastify'

function nameOf (parameter: string): string {
  // As URLSearchParams reads it, so that no spelling of a name slips past.
  return new URLSearchParams(parameter).keys().next().value ?? ''
}

function redact (url: string, names: ReadonlySet<string>): string {
  const start = url.indexOf('?')
  if (start === -1) return url
  const parameters = url.slice(start + 1).split('&').map((parameter) => {
    return names.has(nameOf(parameter)) ? `${parameter.split('=', 1)[0]}=[redacted]` : parameter
  })
  return `${url.slice(0, start)}?${parameters.join('&')}`
}

/**
 * Makes a serializer that logs requests as Fastify does, with the values of query parameters that hold tokens replaced:
 * `Fastify({ logger: { serializers: { req: requestSerializer() } } })`.
 * @param names the settings `queryStringAccessTokenName` and `queryStringRefreshTokenName`, where they were changed
 */
export function requestSerializer (...names: string[]): (request: FastifyRequest) => object {
  const redacted = new Set(names.length === 0 ? ['access_token', 'refresh_token'] : names)
  return (request) => ({
    method: request.method,
    url: redact(request.url, redacted),
    host: request.host,
    remoteAddress: request.ip,
    remotePort: request.socket?.remotePort
  })
}
