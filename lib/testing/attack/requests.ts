/** Requests without a valid token: unsigned tokens, headers of proxies, other paths, other methods; and a cookie from other origins. */
import type { Carrier, SentRequest } from './carrier.ts'
import { inputOf, type ReadToken } from './jws.ts'
import { causes, type Variant } from './variants.ts'

const withHeaders = (wrong: string, prefix: string, list: readonly (readonly [name: string, value: string])[]): Variant[] =>
  list.map(([name, value]) => ({ name: `${prefix} ${name}: ${value}`, wrong, headers: { [name.toLowerCase()]: value } }))

function withoutToken (): Variant[] {
  const wrong = causes.noToken
  return [
    { name: 'no token', wrong },
    { name: 'an empty token', wrong, token: '' },
    { name: 'the text "null" as the token', wrong, token: 'null' },
    { name: 'the text "undefined" as the token', wrong, token: 'undefined' },
    { name: 'the scheme Bearer without a token', wrong, headers: { authorization: 'Bearer' } },
    { name: 'the scheme Basic', wrong, headers: { authorization: 'Basic YWRtaW46YWRtaW4=' } }
  ]
}

/** An unsigned token, in each place where a guard might read one. */
function inOtherPlaces ({ payload }: ReadToken, { url }: SentRequest): Variant[] {
  const wrong = 'The guard reads tokens from there and does not verify them.'
  const token = `${inputOf({ alg: 'none', typ: 'JWT' }, payload)}.`
  const inHeaders = {
    Authorization: `Bearer ${token}`,
    'Proxy-Authorization': `Bearer ${token}`,
    'X-Authorization': `Bearer ${token}`,
    'X-Access-Token': token,
    'X-Auth-Token': token,
    'X-JWT-Assertion': token
  }
  return [
    ...Object.entries(inHeaders).map(([name, value]) => ({
      name: `an unsigned token in the header ${name}`,
      wrong,
      headers: { [name.toLowerCase()]: value }
    })),
    ...['access_token', 'token', 'jwt'].map((name) => ({
      name: `an unsigned token in the cookie ${name}`,
      wrong,
      headers: { cookie: `${name}=${token}` }
    })),
    ...['access_token', 'token', 'jwt'].map((name) => ({
      name: `an unsigned token in the parameter ${name}`,
      wrong,
      url: `${url}${url.includes('?') ? '&' : '?'}${name}=${token}`
    }))
  ]
}

/** Headers that proxies and gateways set, but that any other client can send, too. */
const proxyHeaders = [
  ['X-Forwarded-For', '127.0.0.1'],
  ['X-Real-IP', '127.0.0.1'],
  ['Forwarded', 'for=127.0.0.1;host=localhost'],
  ['X-Forwarded-Host', 'localhost'],
  ['Host', 'localhost'],
  ['X-Forwarded-User', 'admin'],
  ['X-Remote-User', 'admin'],
  ['Remote-User', 'admin'],
  ['X-Authenticated-User', 'admin'],
  ['X-User-Id', '1'],
  ['X-SSL-Client-Verify', 'SUCCESS'],
  ['X-Original-URL', '/'],
  ['X-Rewrite-URL', '/'],
  ['X-Middleware-Subrequest', 'middleware'],
  ['X-HTTP-Method-Override', 'OPTIONS']
] as const

/** Paths that a router may treat as the same, but a guard that compares text does not. */
function otherSpellings (url: string): Variant[] {
  const [path = '', ...query] = url.split('?')
  const wrong = 'The route is reached by another spelling of its path, for which no token is required.'
  const letter = /[a-z]/i.exec(path)?.[0] ?? '/'
  const percent = `%${letter.charCodeAt(0).toString(16)}`
  const last = path.lastIndexOf('/')
  const spellings = {
    'in upper case': path.toUpperCase(),
    'with a slash at the end': `${path}/`,
    'with two slashes at the start': `/${path}`,
    'with a letter percent-encoded': path.replace(letter, percent),
    'with a letter percent-encoded twice': path.replace(letter, percent.replace('%', '%25')),
    'with the last slash percent-encoded': `${path.slice(0, last)}%2f${path.slice(last + 1)}`,
    'with a semicolon at the end': `${path};public`,
    'with a suffix': `${path}.json`,
    'with a space at the end': `${path}%20`,
    'with a zero byte at the end': `${path}%00`
  }
  return Object.entries(spellings).map(([name, other]) => ({
    name: `the path ${name}, without a token`,
    wrong,
    url: [other, ...query].join('?')
  }))
}

function otherMethods (own: string): Variant[] {
  const wrong =
    'The path is reached with another method, for which no token is required. If that is another route, which is public, allow it.'
  return ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']
    .filter((method) => method !== own.toUpperCase())
    .map((method) => ({ name: `the method ${method}, without a token`, wrong, method }))
}

/** Safe methods (RFC 9110 section 9.2.1) change nothing, and a page of another origin cannot read the response. */
const safeMethods = ['GET', 'HEAD', 'OPTIONS', 'TRACE']

/** The accepted cookie with headers of pages of other origins: browsers add a cookie to the requests of any page. */
function fromOtherOrigins ({ text }: ReadToken, { isInCookie, without: { method, headers } }: Carrier): Variant[] {
  if (!isInCookie || safeMethods.includes(method.toUpperCase())) return []
  const wrong = 'The guard accepts a cookie with a request that may change something, whichever page sends it (cross-site request forgery).'
  const foreign = 'https://attack.invalid'
  const made = (name: string, headers: Readonly<Record<string, string>>) => ({ name, wrong, token: text, headers })
  return [
    made('the cookie, from a page of another site', { origin: foreign, 'sec-fetch-site': 'cross-site' }),
    made('the cookie, from a page of another origin of the same site', { origin: foreign, 'sec-fetch-site': 'same-site' }),
    made('the cookie, from a page without an origin', { origin: 'null', 'sec-fetch-site': 'cross-site' }),
    // Only if the accepted request has no such header, which would be sent, too.
    ...(headers['sec-fetch-site'] === undefined
      ? [made('the cookie, from a page of another origin, without Sec-Fetch-Site', { origin: foreign })]
      : []),
    ...(headers.origin === undefined
      ? [made('the cookie, from a page of another site, without Origin', { 'sec-fetch-site': 'cross-site' })]
      : [])
  ]
}

/** @param carrier the request that the route accepts */
export const hostileRequests = (token: ReadToken, carrier: Carrier): Variant[] => [
  ...withoutToken(),
  ...inOtherPlaces(token, carrier.without),
  ...withHeaders('The guard believes a header that any client can send.', 'no token, and', proxyHeaders),
  ...otherSpellings(carrier.without.url),
  ...otherMethods(carrier.without.method),
  ...fromOtherOrigins(token, carrier)
]
