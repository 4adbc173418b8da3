/** A serializer of requests for the application's logger, which writes the URL of every request: in query-string mode, with the token in it. */
import type { FastifyRequest } from 'fastify'
import { parameterName } from '../request/pairs.ts'

/**
 * A pattern of the parameters with these names. A parameter begins after `?` or `&`, to some routers and parsers also after
 * `#` or `;`, and its value ends at the next `&`.
 */
function patternOfParameters (names: readonly string[]): RegExp {
  return new RegExp(`([?&#;](?:${names.map(parameterName).join('|')})=)[^&]*`, 'gu')
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
  const tokens = patternOfParameters(['access_token', 'refresh_token', ...names])
  return (request) => {
    const { 'accept-version': version } = request.headers
    const remotePort = request.socket?.remotePort
    return {
      method: request.method,
      url: request.url.replace(tokens, '$1[redacted]'),
      ...(typeof version === 'string' && { version }),
      host: request.host,
      remoteAddress: request.ip,
      ...(remotePort !== undefined && { remotePort })
    }
  }
}
