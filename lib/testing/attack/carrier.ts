/** Finds the token in a request, so that other tokens can replace it. */
import { InvalidConfiguration } from '../../configuration-errors.ts'
import { matching, named, text, textLike } from '../../settings/kinds.ts'
import { optional, optionsOf, preset, readRecord, required, type Values } from '../../settings/records.ts'
import { isPlainObject } from '../../values.ts'

/** The request that the route accepts, as Fastify's `inject` takes it. */
export interface AttackedRequest {
  /** Such as `GET`. */
  method: string
  /** The path, with the query string. */
  url: string
  /** Headers that the route needs. If no header and no parameter has the token, it is sent as `Authorization: Bearer <token>`. */
  headers?: Readonly<Record<string, string>>
  /** The body of each request. */
  payload?: string | object
}

/** A request that is sent. */
export interface SentRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly payload?: string | object
}

/** Makes variations of the request that the route accepts. */
export interface Carrier {
  /** Returns the request with another token in the place of the accepted one. */
  with (token: string): SentRequest
  /** The request without a token. */
  readonly without: SentRequest
  /** Whether the token is in a cookie only. */
  readonly isInCookie: boolean
}

/** Splits a token at its last dot, as the setting `cookieSplit` does for two cookies. */
function halvesOf (token: string): [string, string] {
  const dot = token.lastIndexOf('.')
  return dot === -1 ? [token, ''] : [token.slice(0, dot), token.slice(dot + 1)]
}

const mapValues = (headers: Readonly<Record<string, string>>, change: (value: string, name: string) => string | undefined) =>
  Object.fromEntries(Object.entries(headers).flatMap(([name, value]) => {
    const changed = change(value, name)
    return changed === undefined ? [] : [[name, changed]]
  }))

const requestShape = {
  members: {
    method: required(named('text, such as "GET"', text)),
    url: required(textLike('a path that begins with "/"', (url) => url.startsWith('/'))),
    headers: preset(matching<Readonly<Record<string, string>>>('an object of headers', isPlainObject), {}),
    payload: optional(matching<string | object>('text or an object'))
  },
  example: '{ method, url }',
  page: 'testing.md'
} as const

type ReadRequest = Values<typeof requestShape.members>

/** Reads the request that the route accepts. @throws {InvalidConfiguration} for an invalid request */
export function readRequest (request: AttackedRequest): ReadRequest {
  const whole = 'The request of attack()'
  return readRecord({ ...optionsOf('the request of attack()'), whole, owner: whole, noun: 'member' }, request, requestShape)
}

/** @throws {InvalidConfiguration} for a token in the path, and for another `Authorization` header in the place of the token */
export function carrierOf ({ method, url, payload, ...request }: ReadRequest, token: string): Carrier {
  const [head, tail] = halvesOf(token)
  const carries = (text: string) => text.includes(head) || text.includes(tail)
  const [path = '', ...query] = url.split('?')
  if (carries(path)) {
    throw new InvalidConfiguration(
      'The request of attack() has the token in the path of its "url". attack() replaces a token in a header, a cookie or the query string. Let the route of the test read it from there.',
      { page: 'testing.md' }
    )
  }
  const sent = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name.toLowerCase(), String(value)]))
  const isPlaced = carries(url) || Object.values(sent).some(carries)
  if (!isPlaced && sent.authorization !== undefined) {
    throw new InvalidConfiguration(
      'The request of attack() has an Authorization header without the token. Write the token where the route reads it: into a header, a cookie or the query string.',
      { page: 'testing.md' }
    )
  }
  const headers = isPlaced ? sent : { ...sent, authorization: `Bearer ${token}` }
  const shared = payload === undefined ? {} : { payload }

  const replace = (text: string, other: string) => {
    if (text.includes(token)) return text.replaceAll(token, () => other)
    const [otherHead, otherTail] = halvesOf(other)
    return text.replaceAll(head, () => otherHead).replaceAll(tail, () => otherTail)
  }
  const rest = query
    .join('?')
    .split('&')
    .filter((pair) => pair !== '' && !carries(pair))
    .join('&')
  return {
    with: (other) => ({
      method,
      url: replace(url, encodeURIComponent(other)),
      headers: mapValues(headers, (value) => replace(value, other)),
      ...shared
    }),
    isInCookie: !carries(url) && Object.entries(headers).every(([name, value]) => carries(value) === (name === 'cookie')),
    without: {
      method,
      url: rest === '' ? path : `${path}?${rest}`,
      headers: mapValues(headers, (value, name) => {
        if (!carries(value)) return value
        return name === 'cookie'
          ? value
            .split(/; */)
            .filter((pair) => !carries(pair))
            .join('; ')
          : undefined
      }),
      ...shared
    }
  }
}
