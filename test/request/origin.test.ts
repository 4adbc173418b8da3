/** The cross-origin rule as a function of headers and settings: each step with each header. */
import assert from 'node:assert/strict'
import t from 'tap'
import { noInstance } from '../../lib/challenge.ts'
import { checkOrigin, describeOrigin, mayGetCookies, type OriginCarrier } from '../../lib/request/origin.ts'

type Origins = readonly string[] | '*'
type Header = [name: string, value: string]

interface Sent {
  method?: string
  host?: string
  headers?: readonly Header[]
  upgrade?: boolean | null
}

/** The headers as Node.js gives them: names in lower case, values of one name joined. */
function parse (headers: readonly Header[]): Record<string, string> {
  const parsed: Record<string, string> = {}
  for (const [name, value] of headers) {
    const key = name.toLowerCase()
    parsed[key] = key in parsed ? `${parsed[key]}, ${value}` : value
  }
  return parsed
}

function request ({ method = 'POST', host = 'example.org', headers = [], upgrade = null }: Sent): OriginCarrier {
  const all: Header[] = [['Host', host], ['Cookie', 'access_token=x'], ['Accept', '*/*'], ['Content-Length', '2'], ...headers]
  return { host, raw: { method, headers: parse(all), rawHeaders: all.flat(), upgrade } }
}

const passes = (sent: Sent, trustedOrigins: Origins = []) => checkOrigin(request(sent), { trustedOrigins }) === null

const own = 'https://example.org'
const other = 'https://evil.example'
const spa = 'https://app.example.org'

/** What a browser sends, in short. */
const from = (origin: string | undefined, site: string | undefined): Header[] => [
  ...(origin === undefined ? [] : [['Origin', origin] satisfies Header]),
  ...(site === undefined ? [] : [['Sec-Fetch-Site', site] satisfies Header])
]

// Promise: security/3-5-3
// Promise: security/cross-site-websocket
t.test('step 1: a request that only reads passes, whatever its headers say, unless it asks for an upgrade', async (t) => {
  const foreign = from(other, 'cross-site')
  for (const method of ['GET', 'HEAD', 'OPTIONS', 'TRACE']) {
    assert.ok(passes({ method, headers: foreign }), method)
    assert.ok(passes({ method, headers: [...foreign, ...foreign] }), `${method}, headers twice`)
    assert.ok(!passes({ method, headers: [...foreign, ['Upgrade', 'websocket']] }), `${method} with Upgrade`)
    assert.ok(!passes({ method, headers: [...foreign, ['UPGRADE', '']] }), `${method} with an empty Upgrade`)
    assert.ok(!passes({ method, headers: foreign, upgrade: true }), `${method} as an upgrade whose header was removed`)
    assert.ok(passes({ method, headers: foreign, upgrade: false }), `${method} that is none`)
  }
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'CONNECT', 'PROPFIND', 'QUERY', 'get', '']) assert.ok(!passes({ method, headers: foreign }), `"${method}"`)
  t.equal(checkOrigin({ host: '', raw: { headers: { origin: other } } }, { trustedOrigins: [] })?.answer.name, 'CrossOriginRequest', 'no method at all')
})

t.test('step 2: with "*" every origin passes', async () => {
  for (const headers of [from(other, 'cross-site'), from('null', undefined), from(undefined, 'same-site'), [...from(other, 'cross-site'), ...from(other, 'none')]]) {
    assert.ok(passes({ headers }, '*'), JSON.stringify(headers))
    assert.ok(!passes({ headers }, []), JSON.stringify(headers))
  }
})

t.test('step 3: same-origin and none pass, in no other spelling, with any single Origin', async (t) => {
  for (const origin of [undefined, own, other, 'null', '']) {
    for (const site of ['same-origin', 'none']) assert.ok(passes({ headers: from(origin, site) }), `${site}, ${origin}`)
    for (const site of ['Same-Origin', 'NONE', 'same-origin ', '"same-origin"', 'same-site', 'cross-site', 'x', '', 'same-origin;a', 'null']) {
      assert.ok(!passes({ headers: from(origin, site) }), `${site}, ${origin}`)
    }
  }
  t.ok(passes({ headers: [['sec-fetch-SITE', 'same-origin']] }), 'the name is not case-sensitive')
})

t.test('step 4: without Origin, only a request without Sec-Fetch-Site passes', async (t) => {
  t.ok(passes({}), 'no browser')
  for (const site of ['same-site', 'cross-site', '', 'x']) {
    assert.ok(!passes({ headers: from(undefined, site) }), site)
    assert.ok(!passes({ headers: from(undefined, site) }, [spa]), `${site}, and another origin is trusted`)
  }
})

t.test('step 5: without Sec-Fetch-Site, the host of Origin must be the host of the request', async (t) => {
  const equal: [origin: string, host: string][] = [
    [own, 'example.org'], ['http://example.org', 'example.org'], ['https://example.org:8443', 'example.org:8443'],
    // Default ports.
    [own, 'example.org:443'], ['https://example.org:443', 'example.org'], ['https://example.org:443', 'example.org:443'],
    ['http://example.org', 'example.org:80'], ['http://example.org:80', 'example.org'],
    // Hosts are not case-sensitive (RFC 9110 section 4.2.3).
    [own, 'EXAMPLE.org'], ['https://Example.ORG', 'example.org'], ['HTTPS://example.org', 'example.org'],
    ['http://[::1]:3000', '[::1]:3000'], ['http://127.0.0.1:3000', '127.0.0.1:3000'], ['http://[::1]', '[::1]:80'], ['http://my_host', 'my_host']
  ]
  for (const [origin, host] of equal) assert.ok(passes({ host, headers: from(origin, undefined) }), `${origin} at ${host}`)
  const different: [origin: string, host: string][] = [
    [other, 'example.org'], [spa, 'example.org'], [own, 'app.example.org'], [own, 'example.org:8443'], ['https://example.org:8443', 'example.org'],
    ['http://example.org', 'example.org:443'], [own, 'example.org:80'], ['https://example.org:80', 'example.org'], ['http://example.org:443', 'example.org'],
    ['https://example.org.', 'example.org'], ['https://example.organic', 'example.org'], ['https://an-example.org', 'example.org'],
    // What no browser sends.
    ['https://evil.example@example.org', 'example.org'], ['https://example.org@evil.example', 'example.org'], ['https://a@b', 'b'], ['https://a@b', 'a@b'],
    ['https://example.org/', 'example.org'], ['https://example.org/x', 'example.org'], ['https://example.org?x', 'example.org'], ['https://example.org#x', 'example.org'],
    ['https:example.org', 'example.org'], ['//example.org', 'example.org'], ['example.org', 'example.org'], ['https://', ''], ['https://:443', ''], ['https://:443', ':443'],
    ['https:\\\\example.org', 'example.org'], ['https://example.org\\', 'example.org'], [' https://example.org', 'example.org'], ['https://example.org ', 'example.org'],
    ['https://exa mple.org', 'exa mple.org'], ['https://example.org, https://example.org', 'example.org'], ['https://example.org https://evil.example', 'example.org'],
    // Pages of other schemes come from elsewhere.
    ['capacitor://example.org', 'example.org'], ['file://example.org', 'example.org'], ['null', 'null'], ['null', 'example.org'], ['', ''], ['', 'example.org']
  ]
  for (const [origin, host] of different) assert.ok(!passes({ host, headers: from(origin, undefined) }), `${origin} at ${host}`)
  t.notOk(passes({ headers: from(own, 'same-site') }), 'not asked where the browser says that it is another origin')
  t.notOk(passes({ headers: from(own, '') }), 'nor where it says nothing known')
})

t.test('step 6: an origin that is trusted passes, character by character', async (t) => {
  const trusted = [spa, 'capacitor://localhost', 'http://localhost:5173']
  for (const origin of trusted) {
    for (const site of [undefined, 'same-site', 'cross-site', 'x']) assert.ok(passes({ headers: from(origin, site) }, trusted), `${origin}, ${site}`)
  }
  for (const origin of ['https://app.example.org:443', 'https://APP.example.org', 'https://app.example.org/', 'http://app.example.org', 'https://x.app.example.org', 'http://localhost', 'capacitor://', 'null', '', '*', `${spa}, ${spa}`]) {
    for (const site of [undefined, 'cross-site']) assert.ok(!passes({ headers: from(origin, site) }, trusted), `${origin}, ${site}`)
  }
  t.notOk(passes({ headers: from(undefined, 'cross-site') }, trusted), 'without Origin nothing is known')
})

t.test('step 7: everything else is refused: 403 CrossOriginRequest without a challenge', async (t) => {
  const refusal = checkOrigin(request({ headers: from(other, 'cross-site') }), { trustedOrigins: [spa] })
  t.same(refusal?.answer, { statusCode: 403, headers: {}, challenge: undefined, name: 'CrossOriginRequest', message: 'The request comes from another origin.', text: '{"reasons":"The request comes from another origin.","exception":"CrossOriginRequest"}' })
  t.equal(refusal?.toError(noInstance).code, 'TOKEN_AUTH_CROSS_ORIGIN_REQUEST')
})

t.test('an Origin or Sec-Fetch-Site header that was sent twice is refused, in whatever case, order and value', async () => {
  const names = [['Origin', 'Origin'], ['origin', 'Origin'], ['ORIGIN', 'origin']]
  for (const [one = '', two = ''] of names) {
    for (const [first, second] of [[own, own], [own, other], [other, own], [spa, spa], ['', own], [own, '']]) {
      const headers: Header[] = [[one, first ?? ''], [two, second ?? '']]
      for (const site of [undefined, 'same-origin', 'none', 'cross-site']) assert.ok(!passes({ headers: [...headers, ...from(undefined, site)] }, [spa]), `${first}, ${second}, ${site}`)
    }
  }
  for (const [first, second] of [['same-origin', 'same-origin'], ['same-origin', 'cross-site'], ['cross-site', 'same-origin'], ['none', 'none'], ['', 'same-origin']]) {
    const headers: Header[] = [['Sec-Fetch-Site', first ?? ''], ['sec-fetch-site', second ?? '']]
    for (const origin of [undefined, own, spa]) assert.ok(!passes({ headers: [...headers, ...from(origin, undefined)] }, [spa]), `${first}, ${second}, ${origin}`)
  }
})

t.test('headers that were removed from the parsed ones, as by the schema of a route, are still there', async (t) => {
  for (const headers of [from(other, 'cross-site'), from(other, undefined), from(undefined, 'cross-site')]) {
    const { host, raw } = request({ headers })
    assert.ok(checkOrigin({ host, raw: { ...raw, headers: {} } }, { trustedOrigins: [] }), JSON.stringify(headers))
  }
  const { host, raw } = request({ headers: from(own, 'same-origin') })
  t.equal(checkOrigin({ host, raw: { ...raw, headers: {} } }, { trustedOrigins: [] }), null)
})

t.test('requests that no parser made are read by their parsed headers', async (t) => {
  const decide = (headers: Record<string, string | string[]>) => checkOrigin({ host: 'example.org', raw: { method: 'POST', headers } }, { trustedOrigins: [spa] }) === null
  t.ok(decide({}))
  t.ok(decide({ 'sec-fetch-site': 'same-origin', origin: own }))
  t.ok(decide({ origin: spa }))
  t.notOk(decide({ origin: other }))
  t.notOk(decide({ 'sec-fetch-site': 'cross-site' }))
  t.notOk(decide({ origin: [spa, spa] }))
  t.notOk(decide({ 'sec-fetch-site': ['none', 'none'] }))
  t.notOk(decide({ 'sec-fetch-site': 'same-origin', origin: [own, own] }))
})

t.test('what a prototype was polluted with lets no request pass', async (t) => {
  const { prototype } = Object
  t.teardown(() => { for (const name of ['sec-fetch-site', 'origin']) Reflect.deleteProperty(prototype, name) })
  const foreign = request({ headers: from(other, undefined) })
  Reflect.set(prototype, 'sec-fetch-site', 'same-origin')
  Reflect.set(prototype, 'origin', spa)
  const { host, raw: { headers } } = foreign
  const settings = { trustedOrigins: [spa] }
  t.ok(checkOrigin(foreign, settings))
  t.ok(checkOrigin({ host, raw: { method: 'POST', headers: { origin: headers.origin } } }, settings))
  t.ok(checkOrigin(request({ headers: from(undefined, 'cross-site') }), settings))
})

t.test('the getter of the trusted origins runs only for requests that another page may have made', async (t) => {
  let asked = 0
  const settings = { get trustedOrigins () { asked++; return [spa] } }
  checkOrigin(request({ method: 'GET', headers: from(other, 'cross-site') }), settings)
  checkOrigin(request({ headers: from(own, 'same-origin') }), settings)
  t.equal(asked, 0)
  t.equal(checkOrigin(request({ headers: from(spa, 'cross-site') }), settings), null)
  t.equal(asked, 1)
})

t.test('the description of a request has both headers, the host and the name of the setting, and no more of a header than is needed', async (t) => {
  t.equal(describeOrigin(request({ headers: from(other, 'cross-site') })),
    '"Sec-Fetch-Site" is "cross-site", "Origin" is "https://evil.example", and the host is "example.org": pages of another origin must be listed in "trustedOrigins"')
  t.match(describeOrigin(request({ headers: from('null', 'cross-site') })), 'pages without an origin, such as those in a sandbox, cannot be listed in "trustedOrigins"')
  t.match(describeOrigin(request({ headers: from(undefined, undefined) })), '"Sec-Fetch-Site" is missing, "Origin" is missing,')
  t.match(describeOrigin(request({ headers: [...from(own, undefined), ...from(own, 'x')] })), '"Sec-Fetch-Site" is "x", "Origin" is sent more than once,')
  t.ok(describeOrigin(request({ headers: from('x'.repeat(100_000), 'cross-site') })).length < 400)
})

t.test('a request that no HTTP parser made gets new cookies by its own headers alone', async (t) => {
  const page = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', 'sec-fetch-site': 'cross-site' }
  const may = (headers: Record<string, string | string[]>) => mayGetCookies({ host: 'example.org', raw: { method: 'GET', headers } }, { trustedOrigins: [] })
  t.equal(may(page), true)
  t.equal(may({ ...page, 'sec-fetch-mode': ['navigate', 'navigate'] }), false)
  t.equal(may(Object.assign(Object.create(page), { 'sec-fetch-site': 'cross-site' })), false)
  t.equal(mayGetCookies({ host: 'example.org', raw: { method: 'GET', headers: { origin: other } } }, { trustedOrigins: '*' }), true)
})
