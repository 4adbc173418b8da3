import assert from 'node:assert/strict'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { noInstance } from '../../lib/challenge.ts'
import type { Settings, TokenAuthOptions } from '../../lib/index.ts'
import { Refusal } from '../../lib/refusal.ts'
import { describeSources, extractRefreshToken, extractToken, type TokenCarrier } from '../../lib/request/extract.ts'
import { resolveSettings } from '../../lib/settings/configuration.ts'
import { bearer, build, caseOf, claims, exchange, forge, listen, otherSecret, refusal, warnings } from '../helper.ts'

warnings(t, 'W05')

type Headers = Record<string, string>

const settings = (given: Partial<TokenAuthOptions>): Settings => resolveSettings({ ...given }, undefined).settings
const carrier = (headers: Headers, url = '/'): TokenCarrier => ({ url, headers, rawHeaders: Object.entries(headers).flat() })

/** `<source>:<token>`, the name of the refusal, or nothing. */
function show (found: ReturnType<typeof extractRefreshToken>): string | undefined {
  return found instanceof Refusal ? found.toError(noInstance).name : found && `${found.source}:${found.token}`
}
const extract = (given: Partial<TokenAuthOptions>, headers: Headers, url?: string) => show(extractToken(carrier(headers, url), settings(given)))
const extractRefresh = (given: Partial<TokenAuthOptions>, headers: Headers, url?: string) => show(extractRefreshToken(carrier(headers, url), settings(given)))

const both = { cookieSet: true, queryStringSet: true }
const lax = { ...both, cookieStrict: false, queryStringStrict: false }

// Promise: security/tokens-several-sources
// Promise: specification/first-source-contains
t.test('cookie, query, header is the order, and the first that holds anything decides', async () => {
  const everywhere: [Headers, string] = [{ authorization: 'Bearer h', cookie: 'access_token=c' }, '/?access_token=q']
  const rows: Array<[string, Partial<TokenAuthOptions>, string]> = [
    ['only the header is read unless told otherwise', {}, 'header:h'],
    ['cookie mode', { cookieSet: true }, 'cookie:c'],
    ['query mode', { queryStringSet: true }, 'query:q'],
    ['both', both, 'cookie:c'],
    ['both, lax', lax, 'cookie:c']
  ]
  for (const [name, given, expected] of rows) {
    assert.equal(extract(given, ...everywhere), expected, name)
    assert.equal(extract({ ...given, cookieStrict: false, queryStringStrict: false }, ...everywhere), expected, `${name}: lax changes nothing where the token is there`)
  }
})

// Promise: specification/2-cookie-mode
// Promise: specification/3-query-string
// Promise: specification/cookie-mode-strict
// Promise: specification/cookie-strict
// Promise: specification/first-source-contains
// Promise: specification/missingauthorizationcookie-2
// Promise: specification/missingauthorizationqueryarg-2
// Promise: specification/query-string-mode
// Promise: specification/query-string-strict
t.test('a missing or empty source ends the search where it is strict, and does not where it is lax', async (t) => {
  const header = { authorization: 'Bearer h' }
  for (const [name, cookie, url] of [['missing', 'other=1', '/?other=1'], ['empty', 'access_token=', '/?access_token='], ['blank', 'access_token=  ; other=1', '/?access_token']] as const) {
    const headers = { ...header, cookie }
    const rows: Array<[Partial<TokenAuthOptions>, string]> = [
      [{ cookieSet: true }, 'MissingAuthorizationCookie'],
      [{ cookieSet: true, cookieStrict: false }, 'header:h'],
      [{ queryStringSet: true }, 'MissingAuthorizationQueryArg'],
      [{ queryStringSet: true, queryStringStrict: false }, 'header:h'],
      [both, 'MissingAuthorizationCookie'],
      [{ ...both, cookieStrict: false }, 'MissingAuthorizationQueryArg'],
      [{ ...both, queryStringStrict: false }, 'MissingAuthorizationCookie'],
      [lax, 'header:h']
    ]
    for (const [given, expected] of rows) assert.equal(extract(given, headers, url), expected, `${name}: ${JSON.stringify(given)}`)
    assert.equal(extract({ ...both, cookieStrict: false }, headers, `${url}&access_token=`), name === 'missing' ? 'MissingAuthorizationQueryArg' : 'InvalidToken', name)
    assert.equal(extract(lax, { cookie }, url), 'MissingAuthorizationHeader', 'the header is the last')
  }
  t.equal(extract({ ...both, cookieStrict: false }, header, '/?access_token=q'), 'query:q')
  t.equal(extract({ cookieSet: true }, header), 'MissingAuthorizationCookie', 'no Cookie header at all')
})

// Promise: specification/1-header-mode
// Promise: specification/authorization-header
// Promise: specification/authorization-header-prefix
// Promise: specification/token-sent-twice
t.test('the header: a scheme in any case, one or more spaces, a token', async (t) => {
  const rows: Array<[string, string]> = [
    ['Bearer x', 'header:x'], ['bearer x', 'header:x'], ['BEARER x', 'header:x'], ['Bearer    x', 'header:x'],
    ['Bearer x y', 'header:x y'], ['Bearer Bearer x', 'header:Bearer x'],
    ['', 'MissingAuthorizationHeader'],
    ['Bearer', 'InvalidAuthorizationHeader'], ['Bearer ', 'InvalidAuthorizationHeader'], ['Bearer     ', 'InvalidAuthorizationHeader'],
    ['Bearerx', 'InvalidAuthorizationHeader'], ['Bearer\tx', 'InvalidAuthorizationHeader'], ['Bearer,x', 'InvalidAuthorizationHeader'], ['Bearer:x', 'InvalidAuthorizationHeader'],
    ['Basic YTpi', 'InvalidAuthorizationHeader'], ['x', 'InvalidAuthorizationHeader'], [' ', 'InvalidAuthorizationHeader'], ['Bear x', 'InvalidAuthorizationHeader']
  ]
  for (const [authorization, expected] of rows) assert.equal(extract({}, { authorization }), expected, JSON.stringify(authorization))
  t.equal(extract({}, {}), 'MissingAuthorizationHeader')
  const own = { authorizationHeader: 'X-Api-Token', authorizationHeaderPrefix: 'JWT' }
  t.equal(extract(own, { 'x-api-token': 'jwt x', authorization: 'Bearer y' }), 'header:x', 'another header and another word')
  t.equal(extract(own, { 'x-api-token': 'Bearer x' }), 'InvalidAuthorizationHeader')
  t.equal(extract(own, { authorization: 'JWT x' }), 'MissingAuthorizationHeader')
  const bare = { authorizationHeaderPrefix: '' }
  t.equal(extract(bare, { authorization: 'x' }), 'header:x', 'no word: the whole header is the token')
  t.equal(extract(bare, { authorization: 'Bearer x' }), 'header:Bearer x')
  t.equal(extract(bare, { authorization: '' }), 'MissingAuthorizationHeader')
})

t.test('another scheme is none of ours: its challenge names no error', async (t) => {
  const app = await build(t)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const rows: Array<[string, boolean]> = [['Basic YTpi', false], ['Negotiate', false], ['Bearerx y', false], ['Bearer', true], ['Bearer bad', true]]
  for (const [authorization, hasError] of rows) {
    const response = await app.inject({ url: '/', headers: { authorization } })
    assert.equal(response.statusCode, 401, authorization)
    assert.equal(String(response.headers['www-authenticate']).includes('error="invalid_token"'), hasError, authorization)
  }
})

// Promise: specification/token-sent-twice
t.test('a source given twice is refused, whatever the values are worth', async (t) => {
  const cookie = { cookieSet: true, cookieStrict: false }
  for (const pairs of ['access_token=a; access_token=b', 'access_token=a;access_token=a', 'access_token=; access_token=a', 'x=1; access_token=a; y=2; access_token=', 'access_token=a; access_token =b']) {
    assert.equal(extract(cookie, { cookie: pairs, authorization: 'Bearer h' }), 'InvalidToken', pairs)
  }
  const query = { queryStringSet: true, queryStringStrict: false }
  for (const text of ['access_token=a&access_token=b', 'access_token=a&access_token=a', 'access_token=&access_token=a', 'access_token=a&access_token', 'access_token=a&access%5Ftoken=b', 'access_token=a&x=1&access_token=']) {
    assert.equal(extract(query, { authorization: 'Bearer h' }, `/?${text}`), 'InvalidToken', text)
  }
  const repeated = (name: string, value = 'Bearer a'): TokenCarrier => ({ headers: { authorization: value }, rawHeaders: ['Host', 'x', 'Authorization', value, 'Not-It', 'Authorization', name, 'Bearer b'] })
  for (const name of ['Authorization', 'authorization', 'AUTHORIZATION']) assert.equal(show(extractToken(repeated(name), settings({}))), 'InvalidAuthorizationHeader', name)
  t.equal(show(extractToken(repeated('authorization', ''), settings({}))), 'InvalidAuthorizationHeader', 'the first one is empty')
  const symbols = '!#$%&\'*+-.^_`|~09az'
  const twice = (name: string) => extractToken({ headers: { [symbols]: 'Bearer a' }, rawHeaders: [symbols, 'Bearer a', name, 'Bearer b'] }, settings({ authorizationHeader: symbols }))
  for (const name of [symbols, symbols.toUpperCase()]) assert.equal(show(twice(name)), 'InvalidAuthorizationHeader', name)
  for (const name of [symbols.replace('^', '~'), symbols.replace('_', '?'), `${symbols}a`, '']) assert.equal(show(twice(name)), 'header:a', name)
  t.equal(show(extractToken(repeated('Authorisation'), settings({}))), 'header:a', 'another header of the same length')
  t.equal(show(extractToken({ headers: { 'set-cookie': ['Bearer a', 'Bearer b'] }, rawHeaders: [] }, settings({ authorizationHeader: 'Set-Cookie' }))), 'InvalidAuthorizationHeader', 'a header that Node.js gives as a list')
})

t.test('two Authorization headers on a real connection are refused, in either order', async (t) => {
  const app = await build(t)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const port = await listen(app)
  const good = forge(claims())
  const ask = (...headers: string[]) => exchange(port, ['GET / HTTP/1.1', 'Host: localhost', 'Connection: close', ...headers, '', ''].join('\r\n'))
  t.match(await ask(`Authorization: Bearer ${good}`), /^HTTP\/1.1 200 /)
  t.match(await ask(`Authorization:   bearer   ${good}  `), /^HTTP\/1.1 200 /)
  for (const other of ['Bearer bad', `Bearer ${good}`, 'Basic YTpi', '']) {
    for (const pair of [[good, other], [other, good]]) {
      const answer = await ask(...pair.map((value) => `Authorization: ${value === good ? `Bearer ${good}` : value}`))
      assert.match(answer, /^HTTP\/1.1 401 /, `with "${other.slice(0, 10)}"`)
      t.notMatch(answer, 'reached')
    }
  }
})

t.test('a header of one\'s own that is sent twice is refused, though Node.js joins the two', async (t) => {
  const app = await build(t, { authorizationHeader: 'x-token', authorizationHeaderPrefix: '' })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const port = await listen(app)
  const answer = await exchange(port, `GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Token: ${forge(claims())}\r\nx-token: y\r\n\r\n`)
  t.match(answer, /^HTTP\/1.1 401 [^]*InvalidAuthorizationHeader/)
})

// Promise: security/header-client-sent
t.test('a header is what was sent, not what every object inherits', async (t) => {
  const good = forge(claims())
  for (const name of ['constructor', 'toString', 'valueOf', 'hasOwnProperty', '__defineGetter__']) {
    const app = await build(t, { authorizationHeader: name })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
    t.match((await app.inject('/')).json(), { exception: 'MissingAuthorizationHeader' }, `${name}, which was not sent`)
    assert.equal((await app.inject({ url: '/', headers: { [name]: `Bearer ${good}` } })).statusCode, 200, name)
    const port = await listen(app)
    const ask = (...headers: string[]) => exchange(port, ['GET / HTTP/1.1', 'Host: localhost', 'Connection: close', ...headers, '', ''].join('\r\n'))
    assert.match(await ask(), /^HTTP\/1.1 401 [^]*MissingAuthorizationHeader/, `${name}, on a socket`)
    assert.match(await ask(`${name}: Bearer ${good}`), /^HTTP\/1.1 200 /, name)
    assert.match(await ask(`${name}: Bearer ${good}`, `${name.toUpperCase()}: Bearer ${good}`), /^HTTP\/1.1 401 [^]*InvalidAuthorizationHeader/, `${name}, twice`)
  }
  for (const name of ['__proto__', '__PROTO__', '__Proto__']) t.match(await refusal(t, { authorizationHeader: name }), { name: 'InvalidConfiguration', message: /"authorizationHeader" must be .*, other than "__proto__"; given: / })
})

// Promise: security/header-client-sent
t.test('a polluted prototype logs nobody in', async (t) => {
  const polluted = { authorization: 'Bearer p', cookie: 'access_token=p; refresh_token=p' }
  const headers: Headers = Object.create(polluted)
  t.equal(show(extractToken({ headers, rawHeaders: [] }, settings({}))), 'MissingAuthorizationHeader')
  // As Node.js leaves it: a header of which the object seems to have a value already is dropped.
  t.equal(show(extractToken({ headers, rawHeaders: ['Authorization', 'Bearer h'] }, settings({}))), 'MissingAuthorizationHeader')
  t.equal(show(extractToken({ headers, rawHeaders: [] }, settings({ cookieSet: true }))), 'MissingAuthorizationCookie')
  t.equal(show(extractRefreshToken({ headers, rawHeaders: [] }, settings({ cookieSet: true }))), 'MissingAuthorizationCookie')
  t.equal(show(extractToken({ headers: { authorization: 'Bearer h' }, rawHeaders: [] }, settings({}))), 'header:h', 'a header that a hook of the host set')

  const app = await build(t)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const port = await listen(app)
  Object.assign(Object.prototype, { authorization: `Bearer ${forge(claims())}` })
  t.teardown(() => { Reflect.deleteProperty(Object.prototype, 'authorization') })
  const answers = [
    await exchange(port, 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'),
    await exchange(port, 'GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\nConnection: close\r\n\r\n')
  ]
  Reflect.deleteProperty(Object.prototype, 'authorization')
  for (const answer of answers) assert.match(answer, /^HTTP\/1.1 401 /)
})

t.test('cookies are taken as they stand', async (t) => {
  const rows: Array<[string, string]> = [
    ['access_token=a', 'cookie:a'], ['x=1; access_token=a; y=2', 'cookie:a'], ['x=1;access_token=a', 'cookie:a'], [';;access_token=a;;', 'cookie:a'],
    ['  access_token = a ', 'cookie:a'], ['access_token=a=b==', 'cookie:a=b=='], ['access_token="a"', 'cookie:"a"'], ['access_token=%61', 'cookie:%61'],
    ['access_token=a,b', 'cookie:a,b'],
    ['Access_Token=a', 'MissingAuthorizationCookie'], ['xaccess_token=a', 'MissingAuthorizationCookie'], ['access_tokenx=a', 'MissingAuthorizationCookie'],
    ['access_token', 'MissingAuthorizationCookie'], ['=a', 'MissingAuthorizationCookie'], ['', 'MissingAuthorizationCookie'], ['x=access_token=a', 'MissingAuthorizationCookie'],
    ['x="; access_token=a"', 'cookie:a"']
  ]
  for (const [cookie, expected] of rows) assert.equal(extract({ cookieSet: true }, { cookie }), expected, cookie)
  t.equal(extract({ cookieSet: true, cookieAccessTokenName: '__Host-t' }, { cookie: 'access_token=a; __Host-t=b' }), 'cookie:b')
})

// Promise: security/cookie-whose-name
t.test('of what stands around the name and value of a cookie only spaces and tabs are removed', async () => {
  for (const cookie of ['access_token =a', '\taccess_token\t=\ta\t', 'x=1; \t access_token= a \t; y=2']) assert.equal(extract({ cookieSet: true }, { cookie }), 'cookie:a', JSON.stringify(cookie))
  // What trim() removes as well.
  for (const code of [0xa0, 0xfeff, 0x2028, 0x2029, 0x1680, 0x2003, 0x3000, 0x0b, 0x0c, 0x0a, 0x0d]) {
    const character = String.fromCharCode(code)
    const name = `U+${code.toString(16)}`
    for (const cookie of [`${character}access_token=a`, `access_token${character}=a`, `x=1; ${character} access_token=a`]) {
      assert.equal(extract({ cookieSet: true }, { cookie }), 'MissingAuthorizationCookie', name)
    }
    assert.equal(extract({ cookieSet: true }, { cookie: `${character}access_token=a; access_token=b` }), 'cookie:b', `${name}, two cookies of different names`)
    assert.equal(extract({ cookieSet: true }, { cookie: `access_token=${character}a${character} ` }), `cookie:${character}a${character}`, name)
    assert.equal(extract({ cookieSet: true }, { cookie: `access_token=${character}` }), `cookie:${character}`, `${name}, not an empty one`)
  }
})

// Promise: specification/added-6
t.test('a split token is whole only with both of its cookies', async (t) => {
  const split = { cookieSet: true, cookieSplit: true }
  const rows: Array<[string, string]> = [
    ['access_token=h.p; access_token_signature=s', 'cookie:h.p.s'],
    ['access_token_signature=s; access_token=h.p', 'cookie:h.p.s'],
    ['access_token=h.p.s', 'MissingAuthorizationCookie'], ['access_token=h.p; access_token_signature=', 'MissingAuthorizationCookie'],
    ['access_token_signature=s', 'MissingAuthorizationCookie'], ['access_token=; access_token_signature=s', 'MissingAuthorizationCookie'],
    ['access_token=h.p; access_token_signature=s; access_token_signature=t', 'InvalidToken'],
    ['access_token=h.p; access_token=h.q; access_token_signature=s', 'InvalidToken']
  ]
  for (const [cookie, expected] of rows) assert.equal(extract(split, { cookie }), expected, cookie)
  t.equal(extract({ ...split, cookieStrict: false }, { cookie: 'access_token=h.p', authorization: 'Bearer h' }), 'header:h')
  t.equal(extract({ ...split, cookieSplitSignatureName: 'sig' }, { cookie: 'access_token=h.p; sig=s' }), 'cookie:h.p.s')

  const app = await build(t, split)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const token = forge(claims())
  const at = token.lastIndexOf('.')
  const ask = (cookie: string) => app.inject({ url: '/', headers: { cookie } })
  t.equal((await ask(`access_token=${token.slice(0, at)}; access_token_signature=${token.slice(at + 1)}`)).statusCode, 200)
  t.equal((await ask(`access_token=${token}; access_token_signature=${token.slice(at + 1)}`)).statusCode, 401)
  t.equal((await ask(`access_token=${token}`)).statusCode, 401)
})

t.test('a query parameter is read from the URL as it was sent', async (t) => {
  const given = { queryStringSet: true }
  const rows: Array<[string, string]> = [
    ['/?access_token=a', 'query:a'], ['/x/y?z=1&access_token=a', 'query:a'], ['http://host/x?access_token=a', 'query:a'], ['/?access%5Ftoken=%61', 'query:a'],
    ['/?access_token=a+b', 'query:a b'], ['/?access_token=a%zz', 'query:a%zz'], ['/?x=?access_token=a', 'MissingAuthorizationQueryArg'],
    ['/access_token=a', 'MissingAuthorizationQueryArg'], ['/?', 'MissingAuthorizationQueryArg'], ['/?access_token[]=a', 'MissingAuthorizationQueryArg'], ['/?ACCESS_TOKEN=a', 'MissingAuthorizationQueryArg']
  ]
  for (const [url, expected] of rows) assert.equal(extract(given, {}, url), expected, url)
  t.equal(show(extractToken({ headers: {}, rawHeaders: [] }, settings(given))), 'MissingAuthorizationQueryArg', 'a request without a URL')
  t.equal(extract({ ...given, queryStringAccessTokenName: 'jwt' }, {}, '/?access_token=a&jwt=b'), 'query:b')
})

// Promise: security/tokens-several-sources
// Promise: specification/first-source-contains
t.test('a token that is there but bad never falls back to a good one elsewhere', async (t) => {
  const app = await build(t, { ...lax })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => request.tokenAuth.source)
  const good = forge(claims())
  const bad = forge(claims(), { key: otherSecret })
  const ask = async (target: FastifyInstance, cookie: string, query: string, header: string) => {
    const headers = { ...(cookie !== '' && { cookie: `access_token=${cookie}` }), ...(header !== '' && bearer(header)) }
    const response = await target.inject({ url: query === '' ? '/' : `/?access_token=${query}`, headers })
    return response.statusCode === 200 ? response.body : response.statusCode
  }
  const sources = ['cookie', 'query', 'header'] as const
  const values = ['', good, bad]
  for (const cookie of values) {
    for (const query of values) {
      for (const header of values) {
        const first = [cookie, query, header].findIndex((value) => value !== '')
        const expected = [cookie, query, header][first] === good ? sources[first] : 401
        assert.equal(await ask(app, cookie, query, header), expected, caseOf(cookie, query, header))
      }
    }
  }
  const headerOnly = await build(t)
  headerOnly.get('/', { onRequest: headerOnly.tokenAuth.protect() }, async (request) => request.tokenAuth.source)
  t.equal(await ask(headerOnly, good, good, ''), 401, 'what is off is not read')
  t.equal(await ask(headerOnly, bad, bad, good), 'header')
})

t.test('hostile headers, cookies and queries of 200,000 characters are refused', async (t) => {
  const app = await build(t, { ...lax })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const length = 200_000
  for (const filling of [' ', ',', '.', ';', '=', '&', '%', '"', '\t', ' ;', 'a;', '; =', '%41', 'access_token;', 'Bearer ']) {
    const long = filling.repeat(length / filling.length)
    for (const authorization of [long, `Bearer ${long}`, `Bearer${long}x`, `Bearer ${long}x`]) {
      assert.notEqual(extract({}, { authorization }), undefined, caseOf(filling, authorization))
      assert.equal((await app.inject({ url: '/', headers: { authorization } })).statusCode, 401, caseOf(filling, authorization))
    }
    for (const cookie of [long, `access_token${long}=x`, `access_token=${long}`, `${long}access_token=x`]) {
      assert.equal((await app.inject({ url: '/', headers: { cookie } })).statusCode, 401, caseOf(filling, cookie))
      t.type(extract({ cookieSet: true }, { cookie }), 'string')
    }
    t.type(extract({ queryStringSet: true }, {}, `/?${long}`), 'string')
    t.type(extract({ queryStringSet: true }, {}, `/?access_token=${long}`), 'string')
  }
})

t.test('the refresh token is searched as the access token is, and in the body where nothing was found', async (t) => {
  t.equal(extractRefresh({}, { cookie: 'refresh_token=c', authorization: 'Bearer h' }, '/?refresh_token=q'), undefined, 'header mode: the body')
  t.equal(extractRefresh({ cookieSet: true }, { cookie: 'refresh_token=c; access_token=a' }), 'cookie:c')
  t.equal(extractRefresh({ queryStringSet: true }, {}, '/?refresh_token=q&access_token=a'), 'query:q')
  t.equal(extractRefresh(both, { cookie: 'refresh_token=c' }, '/?refresh_token=q'), 'cookie:c')
  t.equal(extractRefresh(lax, { cookie: 'refresh_token=' }, '/?refresh_token=q'), 'query:q')
  t.equal(extractRefresh(lax, { cookie: 'access_token=a' }, '/?refresh_token='), undefined)
  t.equal(extractRefresh({ cookieSet: true }, { cookie: 'access_token=a' }), 'MissingAuthorizationCookie')
  t.equal(extractRefresh({ queryStringSet: true }, {}, '/?access_token=a'), 'MissingAuthorizationQueryArg')
  t.equal(extractRefresh(lax, { cookie: 'refresh_token=a; refresh_token=b' }), 'InvalidToken')
  t.equal(extractRefresh(lax, {}, '/?refresh_token=a&refresh_token=b'), 'InvalidToken')
  t.equal(extractRefresh({ cookieSet: true }, { cookie: 'refresh_token=a%20%3Bb' }), 'cookie:a ;b', 'cookies are set percent-encoded')
  t.equal(extractRefresh({ cookieSet: true }, { cookie: 'refresh_token=100%' }), 'cookie:100%', 'what is not an encoding is left alone')
})

t.test('where a token is expected is described as it is searched, for either token', async () => {
  const names = { cookieRefreshTokenName: 'cr', queryStringRefreshTokenName: 'qr', refreshTokenName: 'br', cookieAccessTokenName: 'ca', queryStringAccessTokenName: 'qa' }
  const cookie = { cookieSet: true }
  const query = { queryStringSet: true }
  const rows: [given: Partial<TokenAuthOptions>, access: string, refresh: string][] = [
    [{}, 'the header "authorization: Bearer <token>"', 'the field "br" of the body'],
    [cookie, 'the cookie "ca"', 'the cookie "cr"'],
    [query, 'the query parameter "qa"', 'the query parameter "qr"'],
    [both, 'the cookie "ca"', 'the cookie "cr"'],
    [{ ...both, queryStringStrict: false }, 'the cookie "ca"', 'the cookie "cr"'],
    [{ ...both, cookieStrict: false }, 'the cookie "ca", or the query parameter "qa"', 'the cookie "cr", or the query parameter "qr"'],
    [{ ...cookie, cookieStrict: false }, 'the cookie "ca", or the header "authorization: Bearer <token>"', 'the cookie "cr", or the field "br" of the body'],
    [{ ...query, queryStringStrict: false }, 'the query parameter "qa", or the header "authorization: Bearer <token>"', 'the query parameter "qr", or the field "br" of the body'],
    [lax, 'the cookie "ca", or the query parameter "qa", or the header "authorization: Bearer <token>"', 'the cookie "cr", or the query parameter "qr", or the field "br" of the body'],
    [{ authorizationHeader: 'x-token', authorizationHeaderPrefix: '' }, 'the header "x-token: <token>"', 'the field "br" of the body']
  ]
  for (const [given, access, refresh] of rows) {
    const resolved = settings({ ...names, ...given })
    assert.equal(describeSources(resolved), access, caseOf(given))
    assert.equal(describeSources(resolved, 'access'), access, caseOf(given))
    assert.equal(describeSources(resolved, 'refresh'), refresh, caseOf(given))
  }
})
