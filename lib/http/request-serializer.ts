/** A request serializer for the logger of the application. In query-string mode, logged URLs would otherwise contain tokens. */
import type { FastifyRequest } from 'fastify'
import { parameterName } from '../request/pairs.ts'
import { either, flag, listOf, textLike, type Kind } from '../settings/kinds.ts'
import { optionsOf, preset, readRecord } from '../settings/records.ts'
import type { UserId } from '../../types/handlers.ts'
import type { AnyRequest } from '../../types/requests.ts'
import { isUserId, memberOf } from '../values.ts'

/**
 * Returns a pattern that matches the parameters with these names. A parameter begins after `?` or `&`, for some routers and
 * parsers also after `#` or `;`, and its value ends at the next `&`.
 */
function patternOfParameters (names: readonly string[]): RegExp {
  return new RegExp(`([?&#;](?:${names.map(parameterName).join('|')})=)[^&]*`, 'gu')
}

/** The logged properties of a request. Not an interface, because Fastify requires a type with an implicit index signature. */
type LoggedRequest = {
  method: string
  url: string
  version?: string
  host: string
  remoteAddress: string
  remotePort?: number
  userId?: UserId
}

/** The options of {@link requestSerializer}. */
export interface RequestSerializerOptions {
  /** Whether the user id of a valid token is logged, or the name of the instance that verifies it. Default: false. */
  userId?: boolean | string | undefined
  /** The settings `queryStringAccessTokenName` and `queryStringRefreshTokenName`, if they were changed. */
  parameters?: readonly string[] | undefined
}

/** Returns the user id of the token of a request; undefined without a valid token, and if its verification is asynchronous or fails. */
function userIdOf (request: FastifyRequest, instanceName: string): UserId | undefined {
  try {
    const userId = memberOf(memberOf(request, instanceName), 'userId')
    return isUserId(userId) ? userId : undefined
  } catch {
    // An exception of a serializer would end the process.
    return undefined
  }
}

const text: Kind<string> = textLike('the name of a parameter, a non-empty string', (name) => name !== '')
const members = {
  userId: preset(either(flag, textLike('true, false, or the name of an instance', (name) => name !== '')), false),
  parameters: preset(listOf('a list of names of parameters', text, { least: 0 }), [])
} as const

function readGiven (given: [RequestSerializerOptions] | string[]) {
  const [first] = given
  const options = typeof first === 'object' ? first : { parameters: given }
  return readRecord(optionsOf('requestSerializer()'), options, { members, example: '{ userId: true }', page: 'events.md#logs' })
}

/**
 * Creates a serializer that logs requests as Fastify does, but redacts the values of query parameters that contain tokens:
 * `Fastify({ logger: { serializers: { req: requestSerializer() } } })`.
 * @param options whether to log the user id, and further parameters to redact, besides `access_token` and `refresh_token`
 * @throws {@link InvalidConfiguration} for an unknown option
 */
export function requestSerializer (options: RequestSerializerOptions): (request: AnyRequest) => LoggedRequest
/**
 * As above.
 * @param names the settings `queryStringAccessTokenName` and `queryStringRefreshTokenName`, if they were changed
 */
export function requestSerializer (...names: string[]): (request: AnyRequest) => LoggedRequest
export function requestSerializer (...given: [RequestSerializerOptions] | string[]): (request: FastifyRequest) => LoggedRequest {
  const { userId, parameters } = readGiven(given)
  const tokens = patternOfParameters(['access_token', 'refresh_token', ...parameters])
  const instanceName = userId === true ? 'tokenAuth' : userId
  return (request) => {
    const { 'accept-version': version } = request.headers
    const remotePort = request.socket?.remotePort
    const id = instanceName === false ? undefined : userIdOf(request, instanceName)
    return {
      method: request.method,
      url: request.url.replace(tokens, '$1[redacted]'),
      ...(typeof version === 'string' && { version }),
      host: request.host,
      remoteAddress: request.ip,
      ...(remotePort !== undefined && { remotePort }),
      ...(id !== undefined && { userId: id })
    }
  }
}
