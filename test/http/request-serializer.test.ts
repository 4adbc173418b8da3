import assert from 'node:assert/strict'
import type { FastifyRequest, FastifyServerOptions } from 'fastify'
import Fastify from 'fastify'
import fc from 'fast-check'
import { parse } from 'node:querystring'
import t, { type Test } from 'tap'
import tokenAuth, { requestSerializer, type TokenAuthOptions } from '../../lib/index.ts'
import { readParameter } from '../../lib/request/pairs.ts'
import { authenticate, bearer, build, caseOf, claims, exchange, forge, host, listen, mistyped, secret } from '../helper.ts'

type Lines = Record<string, unknown>[]
type Serializer = ReturnType<typeof requestSerializer>

/** The options of an application whose log is kept. */
function listening (req?: Serializer): { lines: Lines, server: FastifyServerOptions } {
  const lines: Lines = []
  const logger = { level: 'trace', stream: { write: (line: string) => { lines.push(JSON.parse(line)) } } }
  return { lines, server: { logger: req === undefined ? logger : { ...logger, serializers: { req } } } }
}

/** What a logger writes of one request. */
async function logged (t: Test, url: string, req?: Serializer): Promise<unknown> {
  const { lines, server } = listening(req)
  const app = host(t, server)
  await app.inject({ url, headers: { 'accept-version': '1.x', host: 'example.com:8080' } })
  return lines.find(({ req: request }) => request !== undefined)?.req
}

// Promise: security/tokens-logs
// Promise: specification/requestserializer-removes-tokens
t.test('requestSerializer writes what Fastify writes, the values of tokens apart', async (t) => {
  for (const url of ['/', '/a?b=c', '/a?', '/a?b=c&d', '/a?xaccess_token=1', '/a?access_tokens=1&Access_token=2', '/access_token=1', '/a?b=access_token']) {
    assert.deepEqual(await logged(t, url, requestSerializer()), await logged(t, url), url)
  }
  const cases: [url: string, written: string][] = [
    ['/?access_token=abc', '/?access_token=[redacted]'],
    ['/x?a=1&refresh_token=abc&b=2', '/x?a=1&refresh_token=[redacted]&b=2'],
    ['/?access_token=a&access_token=b', '/?access_token=[redacted]&access_token=[redacted]'],
    ['/?%61ccess%5ftoken=abc', '/?%61ccess%5ftoken=[redacted]'],
    ['/?access_token=', '/?access_token=[redacted]'],
    ['/?access_token=a;b?c&d=e;f', '/?access_token=[redacted]&d=e;f'],
    ['/?a;access_token=b', '/?a;access_token=[redacted]'],
    ['/?access_token=a?access_token=b;access_token=c', '/?access_token=[redacted]'],
    ['/?%ff&access_token=%ff%zz', '/?%ff&access_token=[redacted]']
  ]
  for (const [url, written] of cases) t.match(await logged(t, url, requestSerializer()), { url: written, method: 'GET' }, url)
})

t.test('requestSerializer writes the port of a client that has one', async (t) => {
  const { lines, server } = listening(requestSerializer())
  const port = await listen(host(t, server))
  await exchange(port, 'GET /?access_token=a HTTP/1.1\r\nHost: host\r\nConnection: close\r\n\r\n')
  const { req } = lines.find((line) => line.req !== undefined) ?? {}
  t.match(req, { method: 'GET', url: '/?access_token=[redacted]', version: undefined, host: 'host', remoteAddress: '127.0.0.1', remotePort: Number })
})

t.test('names of parameters that were changed are redacted too, and the default ones stay so', async (t) => {
  t.match(await logged(t, '/?token=a&access_token=b&refresh_token=c&other=d', requestSerializer('token')), {
    url: '/?token=[redacted]&access_token=[redacted]&refresh_token=[redacted]&other=d'
  })
})

/** What becomes of a URL. */
function redact (url: string, ...names: string[]): string {
  return requestSerializer(...names)(mistyped<FastifyRequest>({ url, method: 'GET', host: 'host', ip: '127.0.0.1', headers: {} })).url
}

const tokenNames = ['access_token', 'refresh_token']

/** Everything after the first character of these, as routers and parsers take a query string to begin. */
const queryAfter = (start: RegExp) => (url: string) => url.slice(url.search(start) + 1)
const valuesIn = (query: string, separator: string) => tokenNames.flatMap((name) => parse(query, separator)[name] ?? [])

/** Values that somebody may take for a token, by who reads them. */
const readers: Record<string, (url: string) => string[]> = {
  'this library': (url) => tokenNames.flatMap((name) => readParameter(url, name) ?? []),
  URL: (url) => tokenNames.flatMap((name) => new URL(url, 'http://host').searchParams.getAll(name)),
  URLSearchParams: (url) => tokenNames.flatMap((name) => new URLSearchParams(queryAfter(/[?]/)(url)).getAll(name)),
  'URLSearchParams of a hash': (url) => tokenNames.flatMap((name) => new URLSearchParams(queryAfter(/#/)(url)).getAll(name)),
  'node:querystring': (url) => valuesIn(queryAfter(/[?]/)(url), '&'),
  'node:querystring, semicolons': (url) => valuesIn(queryAfter(/[?;#]/)(url), ';').map((value) => value.split('&', 1)[0]!)
}

t.test('no reader of query strings finds a token in what requestSerializer writes, and nothing else is changed', async (t) => {
  const spelled = fc.constantFrom('access_token', 'refresh_token', '%61ccess_token', 'acces%73%5ftoken', 'refresh%5Ftoken', '%72%65fresh_token', '%61%63%63%65%73%73%5F%74%6F%6B%65%6E')
  const other = fc.constantFrom('', 'x', 'access_tokens', 'xaccess_token', 'access_toke', 'Access_Token', 'access+token', 'access%ff_token', '%', '%ff', '%zz', '?', ';', '#', '+', '\u00e9')
  const value = fc.array(fc.constantFrom('S3CR3T', 'S3CR3T', '%53%33CR3T', '?', ';', '#', '=', '%ff', '%26', '%', '+'), { maxLength: 4 }).map((parts) => parts.join(''))
  const pair = fc.tuple(fc.oneof(spelled, other), fc.constantFrom('=', '=', '=', ''), value).map((parts) => parts.join(''))
  const urls = fc.tuple(fc.constantFrom('/', '/x', '/x/y%3f', '/;x', 'http://host/x'), fc.constantFrom('?', '?', '??', ';', '#', '#?', '?#'), fc.array(pair, { maxLength: 5 }), fc.constantFrom('&', '&', ';', '?', '&&'))
    .map(([path, start, pairs, separator]) => `${path}${start}${pairs.join(separator)}`)
  const found: Record<string, number> = {}
  let unchanged = 0
  fc.assert(fc.property(urls, (url) => {
    const written = redact(url)
    let isFound = false
    for (const [name, read] of Object.entries(readers)) {
      const values = read(url)
      if (values.length > 0) {
        isFound = true
        found[name] = (found[name] ?? 0) + 1
      }
      const shown = read(written).filter((text) => text !== '' && text !== '[redacted]')
      if (shown.length > 0) throw new Error(`${name} finds ${JSON.stringify(shown)} in ${written}, written of ${url}`)
    }
    if (!isFound && written === url) unchanged++
    // Values apart, all of it is there, in order.
    const rest = written.split('[redacted]')
    if (rest.length === 1 && written !== url) throw new Error(`${url} became ${written}`)
    let from = 0
    for (const part of rest) {
      const at = url.indexOf(part, from)
      if (at === -1) throw new Error(`${url} became ${written}`)
      from = at + part.length
    }
  }), { numRuns: 10_000 })
  for (const name of Object.keys(readers)) assert.ok(found[name]! > 500, `${name} found something ${found[name]} times`)
  t.ok(unchanged > 500, `${unchanged} URLs without a token`)
})

t.test('what Fastify itself takes for a token is not written', async (t) => {
  for (const useSemicolonDelimiter of [false, true]) {
    const app = Fastify(mistyped<FastifyServerOptions>({ routerOptions: { useSemicolonDelimiter } }))
    t.teardown(() => app.close())
    app.get('/*', async (request) => request.query)
    const port = await listen(app)
    let count = 0
    for (const start of ['?', '#', '#?', ';', '?;', '?#', '??', '?a=1&', '?a;', '#a&', ';a&']) {
      for (const name of ['access_token', '%61ccess_token', 'acces%73%5Ftoken']) {
        const url = `/x${start}${name}=S3CR3T`
        const answer = await exchange(port, `GET ${url} HTTP/1.1\r\nHost: host\r\nConnection: close\r\n\r\n`)
        if (!answer.includes('"access_token":"S3CR3T"')) continue
        count++
        t.notMatch(redact(url), 'S3CR3T', url)
      }
    }
    assert.ok(count > 10, `${count} of them are tokens to Fastify`)
  }
})

t.test('names of any characters are redacted, in each of their spellings', async () => {
  const cases: Record<string, string[]> = {
    'a b': ['a b', 'a+b', 'a%20b', '%61+%62'],
    clé: ['cl\u00e9', 'cl%C3%A9', 'cl%c3%a9', '%63l%c3%A9'],
    '\u{1f511}': ['\u{1f511}', '%F0%9F%94%91', '%f0%9f%94%91'],
    'a.b[c]*(d|e)$^\\': ['a.b[c]*(d|e)$^\\', 'a.b%5bc%5D*(d%7Ce)$%5E%5c'],
    'a;b': ['a;b', 'a%3bb']
  }
  for (const [name, spellings] of Object.entries(cases)) {
    for (const spelling of spellings) assert.equal(redact(`/?x=1&${spelling}=a&y=2`, name), `/?x=1&${spelling}=[redacted]&y=2`, spelling)
    assert.equal(redact('/?ab=1&axb=2&cl=3', name), '/?ab=1&axb=2&cl=3', name)
  }
})

// Promise: specification/serializer-user
t.test('requestSerializer can write the user id of a valid token, and never throws', async (t) => {
  const rows: Array<[options: Partial<TokenAuthOptions>, headers: Record<string, string>, userId: unknown]> = [
    [{}, bearer(forge(claims())), 1], [{}, {}, undefined], [{}, bearer('x.y.z'), undefined], [{}, bearer(forge(claims({ exp: 1 }))), undefined],
    [{ trusted: async () => true }, bearer(forge(claims())), undefined],
    [{ trusted: () => { throw new Error('broken') } }, bearer(forge(claims())), undefined],
    [{ getLeeway: () => { throw new Error('broken') } }, bearer(forge(claims())), undefined]
  ]
  for (const [options, headers, userId] of rows) {
    const { lines, server } = listening(requestSerializer({ userId: true }))
    const app = await build(t, options, server)
    app.get('/', async ({ tokenAuth }) => {
      await tokenAuth.ready().catch(() => {})
      return 'ok'
    })
    app.get('/log', { onRequest: app.tokenAuth.protect() }, async (request) => {
      request.log.info({ req: request }, 'inside')
      return 'ok'
    })
    const response = await app.inject({ url: '/', headers })
    assert.equal(response.statusCode, 200, caseOf(options))
    const { req } = lines.find((line) => line.req !== undefined) ?? {}
    assert.equal(Object(req).userId, userId, caseOf(options))
    await app.inject({ url: '/log', headers })
    const inside = lines.find(({ msg }) => msg === 'inside')
    if (options.trusted !== undefined && inside !== undefined) t.equal(Object(inside.req).userId, 1, 'after the guard')
  }
})

t.test('requestSerializer reads the instance that is named, redacts further parameters, and refuses other options', async (t) => {
  const { lines, server } = listening(requestSerializer({ userId: 'partner', parameters: ['code'] }))
  const app = host(t, server)
  await app.register(tokenAuth, { instanceName: 'partner', secret, authenticate })
  await app.inject({ url: '/?code=a&access_token=b', headers: bearer(forge(claims())) })
  t.match(lines.find(({ req }) => req !== undefined)?.req, { userId: 1, url: '/?code=[redacted]&access_token=[redacted]' })
  const plain = host(t, listening(requestSerializer({ userId: 'nobody' })).server)
  t.equal((await plain.inject('/')).statusCode, 404, 'without an instance')
  for (const wrong of [{ userid: true }, { userId: 1 }, { userId: '' }, { parameters: 'code' }, { parameters: [5] }, ['code'], null]) {
    t.throws(() => requestSerializer(mistyped<{ userId: true }>(wrong)), { name: 'InvalidConfiguration' }, caseOf(wrong))
  }
})

t.test('the error of a reader that would have to wait names ready() and requestSerializer', async (t) => {
  const app = await build(t, { trusted: async () => true })
  let message = ''
  app.get('/', async ({ tokenAuth }) => {
    try {
      return { userId: tokenAuth.userId }
    } catch (error) {
      message = String(error)
      return {}
    }
  })
  await app.inject({ url: '/', headers: bearer(forge(claims())) })
  t.match(message, /await request\.tokenAuth\.ready\(\).*requestSerializer\(\{ userId: true \}\)/)
})
