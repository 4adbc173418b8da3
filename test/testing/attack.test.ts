// @slow
import assert from 'node:assert/strict'
import { createHmac, createPrivateKey, createPublicKey, createSecretKey } from 'node:crypto'
import dns from 'node:dns'
import { readdirSync, readFileSync } from 'node:fs'
import { isIP, Server, Socket } from 'node:net'
import type { FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import { attack, type AttackedRequest, type AttackOptions, type AttackTarget } from '../../lib/testing.ts'
import { rowOf } from '../../lib/testing/attack/report.ts'
import { build, caseOf, claims, ecPair, forge, type Forgery, holdTimers, host, mistyped, otherSecret, pairFor, payloadOf, secret, valid } from '../helper.ts'
import { broken, guarded, right, rsa } from './broken-guards.ts'

const reports: AttackedRequest = { method: 'GET', url: '/reports' }
const parties = { iss: 'us', aud: 'api' }
const tokenOf = (forgery?: Forgery) => forge(claims(parties), forgery)
const ofRsa: Forgery = { algorithm: 'RS256', key: rsa.privateKey }
/** What accepts every request with a token, and nothing else. */
const lax: AttackTarget = { inject: async ({ headers }) => ({ statusCode: headers.authorization === undefined ? 401 : 200, headers: {} }) }

t.test('a right guard passes: nothing is found, and every request was refused', async (t) => {
  const app = guarded(t, right)
  const report = await attack(app, reports, { token: tokenOf(), key: secret })
  t.same(report.found, [], String(report))
  t.equal(String(report), `GET /reports: ${report.rows.length} hostile requests, 0 of them not refused.`)
  t.ok(report.rows.length > 130)
  t.ok(report.rows.every(({ outcome }) => outcome === 'refused'))
})

/** What each mistake lets in, by name; and whether nothing else is found. */
const meant: Record<string, { found: string, forgery?: Forgery, isOnly?: boolean, outcome?: string }> = {
  'no verification': { found: 'a random signature' },
  none: { found: 'alg "none"' },
  'only if present': { found: 'no token' },
  'a known secret': { found: 'signed with the secret "secret"', forgery: { key: 'secret' }, isOnly: true },
  'the algorithm of the token': { found: 'the public key as the secret of HS256', forgery: ofRsa },
  'no expiry': { found: 'expired a day ago' },
  throws: { found: 'a header that is no JSON', outcome: 'error' },
  'trusts a proxy': { found: 'no token, and X-Forwarded-For: 127.0.0.1', isOnly: true },
  'fetches jku': { found: 'the address of a key in the header jku', forgery: ofRsa },
  'fetches jku and refuses': { found: 'the address of a key in the header jku', forgery: ofRsa, outcome: 'fetched' },
  'path prefix': { found: 'the path with a letter percent-encoded, without a token', isOnly: true }
}

for (const [name, guard] of Object.entries(broken)) {
  // Promise: security/kinds-hostile-requests
  t.test(`a broken guard is found: ${name}`, async (t) => {
    const { found = '', forgery, isOnly = false, outcome = 'let in' } = meant[name] ?? {}
    const keys = forgery === ofRsa ? { key: rsa.privateKey, publicKey: rsa.publicKey } : { key: forgery?.key ?? secret }
    const token = tokenOf(forgery)
    const report = await attack(guarded(t, guard), reports, { token, ...keys })
    const row = report.found.find((row) => row.name === found)
    t.match(row, { name: found, outcome })
    if (isOnly) t.equal(report.found.length, 1)
    const lines = String(report).split('\n')
    t.equal(lines.filter((line) => line.startsWith('- ')).length, report.found.length)
    t.ok(lines.some((line) => line.startsWith(`- ${found}: ${row?.statusCode}, ${outcome}. The `)))
    t.notMatch(String(report) + JSON.stringify(report), /eyJ/, 'no token is in the report')
    t.same((await attack(guarded(t, guard), reports, { token, ...keys, allowed: report.found.map(({ name }) => name) })).found, [], 'what is allowed is no finding')
  })
}

t.test('a guard that asks the issuer that a token names for its keys is found', async (t) => {
  const guard = async ({ headers }: FastifyRequest) => {
    const { iss } = payloadOf(String(headers.authorization))
    if (String(iss).startsWith('http://127')) await fetch(`${String(iss)}/.well-known/openid-configuration`)
    right(mistyped({ headers }))
  }
  const { found } = await attack(guarded(t, guard), reports, { token: tokenOf() })
  t.match(found.find(({ outcome }) => outcome === 'fetched'), { name: 'the address of a key in the claim iss', statusCode: 401 })
})

t.test('a guard that asks the host of the issuer, whatever the path of the issuer is, is found, and a fetch of another address is not taken for it', async (t) => {
  const guard = async ({ headers }: FastifyRequest) => {
    const { iss } = payloadOf(String(headers.authorization))
    if (String(iss).startsWith('http://127')) await fetch(new URL('/.well-known/jwks.json', String(iss)))
    right(mistyped({ headers }))
  }
  const outcomes = async (guard: (request: FastifyRequest) => unknown, token: string) => (await attack(guarded(t, guard), reports, { token })).rows.filter(({ outcome }) => outcome === 'fetched').map(({ name }) => name)
  t.same(await outcomes(guard, tokenOf()), ['the address of a key in the claim iss'])
  t.same(await outcomes(broken['fetches jku and refuses']!, tokenOf(ofRsa)), ['the address of a key in the header jku'])
})

t.test('what is found begins with the cause that implies the others, and says no other cause of what it implies', async (t) => {
  const report = await attack(guarded(t, broken['no verification']!), reports, { token: tokenOf(ofRsa), key: rsa.privateKey, publicKey: rsa.publicKey })
  const [, first, ...others] = String(report).split('\n')
  t.match(first, /The guard does not verify signatures\.$/)
  t.notMatch(others.join('\n'), /that the token itself names|a secret that everybody knows|takes the public key for a secret|that are not signed/)
  const order = others.map((line) => line.endsWith('The guard does not verify signatures.'))
  t.same(order, [...order].sort().reverse(), 'all of its rows are together')
  const known = String(await attack(guarded(t, broken['a known secret']!), reports, { token: tokenOf({ key: 'secret' }), key: 'secret' }))
  t.match(known, /a secret that everybody knows\.$/, 'a guard that verifies signatures gets its own cause')
})

/** A guard in cookie mode, with a rule for what browsers say of the page that sends a request. */
const cookieGuard = (isAllowed: (headers: Record<string, string>) => boolean): AttackTarget => ({
  inject: async ({ headers }) => ({ statusCode: headers.cookie === `access_token=${cookieToken}` && isAllowed(headers) ? 200 : 401, headers: {} })
})
const cookieToken = tokenOf()
const changing: AttackedRequest = { method: 'POST', url: '/reports', headers: { cookie: `access_token=${cookieToken}` } }

t.test('a guard that reads a cookie and does not look at the origin is found, and one that does is not', async (t) => {
  const open = await attack(cookieGuard(() => true), changing, { token: cookieToken })
  const crossing = open.found.filter(({ name }) => name.startsWith('the cookie, '))
  t.equal(crossing.length, 5)
  t.match(String(open), /the cookie, from a page of another site: 200, let in\. The guard accepts a cookie .+ \(cross-site request forgery\)\./)
  t.same((await attack(cookieGuard(({ origin, ...headers }) => origin === undefined && headers['sec-fetch-site'] === undefined), changing, { token: cookieToken })).found.filter(({ name }) => name.startsWith('the cookie, ')), [])
  const lists = [cookieGuard(({ origin }) => origin === undefined), cookieGuard((headers) => headers['sec-fetch-site'] !== 'cross-site')]
  const found = await Promise.all(lists.map(async (app) => (await attack(app, changing, { token: cookieToken })).found.filter(({ name }) => name.startsWith('the cookie, ')).map(({ name }) => name)))
  t.same(found, [['the cookie, from a page of another site, without Origin'], ['the cookie, from a page of another origin of the same site', 'the cookie, from a page of another origin, without Sec-Fetch-Site']])
})

t.test('in cookie mode, the guards of this package refuse what pages of other origins send', async (t) => {
  const app = await build(t, { cookieSet: true }, { logger: false })
  app.post('/reports', { onRequest: app.tokenAuth.protect() }, async () => 'changed')
  const token = forge(claims())
  const { rows, found } = await attack(app, { method: 'POST', url: '/reports', headers: { cookie: `access_token=${token}` } }, { token, key: secret })
  t.same(found, [])
  t.equal(rows.filter(({ name, statusCode }) => name.startsWith('the cookie, ') && statusCode === 403).length, 5)
})

t.test('other origins say nothing of a token in a header, of a request that only reads, and of headers that the request needs', async (t) => {
  const crossing = async (request: AttackedRequest) => (await attack({ inject: async ({ headers, url }) => ({ statusCode: (JSON.stringify(headers) + url).includes(cookieToken) ? 200 : 401, headers: {} }) }, request, { token: cookieToken }))
    .rows.filter(({ name }) => name.startsWith('the cookie, ')).length
  t.equal(await crossing({ method: 'POST', url: '/reports' }), 0)
  t.equal(await crossing({ method: 'POST', url: `/reports?token=${cookieToken}` }), 0)
  t.equal(await crossing({ ...changing, headers: { ...changing.headers, authorization: `Bearer ${cookieToken}` } }), 0, 'in both places')
  for (const method of ['GET', 'head', 'OPTIONS']) assert.equal(await crossing({ ...changing, method }), 0, method)
  t.equal(await crossing({ ...changing, headers: { ...changing.headers, origin: 'https://app.example', 'sec-fetch-site': 'same-origin' } }), 3)
})

t.test('a challenge of a report hides tokens, however long it is', async (t) => {
  const challengeOf = (text: string) => rowOf({ name: 'x', wrong: '' }, { statusCode: 401, headers: { 'www-authenticate': text } }, tokenOf(), new Set()).challenge
  for (const text of ['a', 'a.', '-', 'eyJ', 'eyJ.', '.', 'a'.repeat(15) + '.']) challengeOf(text.repeat(1_000_000 / text.length))
  t.equal(challengeOf('a.b, eyJhbGciOiJ, x.0123456789abcdef.y and eyJ0'), 'a.b, <token>, <token> and eyJ0')
})

t.test('a status of 2xx means that a request was let in, 5xx and no response that the guard failed, and all others that it refused', async (t) => {
  const outcomes = [0, 200, 204, 206, 299, 300, 302, 400, 401, 404, 499, 500, 503].map((statusCode) => rowOf({ name: 'x', wrong: '' }, { statusCode, headers: {} }, tokenOf(), new Set()).outcome)
  t.strictSame(outcomes, ['error', ...Array(4).fill('let in'), ...Array(6).fill('refused'), 'error', 'error'])
})

t.test('the root of an application is attacked like any other route', async (t) => {
  const app = guarded(t, right)
  app.get('/', async () => 'root')
  t.same((await attack(app, { method: 'GET', url: '/' }, { token: tokenOf(), key: secret })).found, [])
})

t.test('the names of the requests stay the same', async (t) => {
  const names = new Set<string>()
  for (const algorithm of ['HS256', 'ES256', 'RS256'] as const) {
    const key = algorithm === 'HS256' ? { key: secret } : { key: pairFor(algorithm).privateKey, publicKey: pairFor(algorithm).publicKey }
    const { rows } = await attack(lax, { method: 'SEARCH', url: '/reports' }, { token: valid(algorithm, claims(parties)), ...key })
    assert.equal(new Set(rows.map(({ name }) => name)).size, rows.length, 'each has its own')
    for (const { name } of rows) names.add(name)
  }
  for (const { name } of (await attack(cookieGuard(() => true), changing, { token: cookieToken })).rows) names.add(name)
  t.strictSame([...names].sort(), JSON.parse(readFileSync(new URL('../fixtures/attack-names.json', import.meta.url), 'utf8')))
})

t.test('what a token does not have is not taken for missing: issuer, audience and expiry', async (t) => {
  const { rows } = await attack(lax, reports, { token: forge({ sub: 'x' }), key: secret })
  const names = rows.map(({ name }) => name)
  t.same(names.filter((name) => /issuer|audience|no exp$/.test(name)), [])
  t.ok(names.includes('expired a day ago'))
})

t.test('another text of the same signature is a row with a note, and no finding', async (t) => {
  const { privateKey } = ecPair('prime256v1')
  const { rows, found } = await attack(lax, reports, { token: tokenOf({ algorithm: 'ES256', key: privateKey }) })
  const noted = rows.filter(({ note }) => note !== undefined)
  t.same(noted.map(({ name, outcome }) => [name, outcome]), [['spare bits of the last character set', 'let in'], ['the other signature (r, n - s)', 'let in']])
  t.ok(found.every(({ note }) => note === undefined))
})

t.test('a signature whose text has no spare bits has no other text', async (t) => {
  const { rows } = await attack(lax, reports, { token: tokenOf({ algorithm: 'HS384' }) })
  t.notOk(rows.some(({ note }) => note !== undefined))
})

t.test('a status of 5xx is a finding even of a request with a note', async (t) => {
  const token = tokenOf()
  const app: AttackTarget = { inject: async ({ headers }) => ({ statusCode: headers.authorization === `Bearer ${token}` ? 204 : 500, headers: {} }) }
  const { rows, found } = await attack(app, reports, { token })
  t.same(found, rows)
})

t.test('a redirect is a refusal, and a challenge is in the row, without a token that it repeats', async (t) => {
  const token = tokenOf()
  const app: AttackTarget = {
    inject: async ({ headers: { authorization } }) => ({ statusCode: authorization === `Bearer ${token}` ? 200 : 302, headers: { 'www-authenticate': `Bearer realm="api", token="${authorization}"` } })
  }
  const { rows, found } = await attack(app, reports, { token })
  t.same(found, [])
  t.match(rows.find(({ name }) => name === 'a random signature'), { statusCode: 302, outcome: 'refused', challenge: 'Bearer realm="api", token="Bearer <token>"' })
})

/** The requests that an application gets, of which those with the token are accepted. */
async function requestsOf (request: AttackedRequest, token: string, isAccepted: (request: { url: string, headers: Record<string, string> }) => boolean) {
  const requests: { method: string, url: string, headers: Record<string, string>, payload?: unknown }[] = []
  await attack({ inject: async (sent) => { requests.push(sent); return { statusCode: isAccepted(sent) ? 200 : 401, headers: {} } } }, request, { token })
  return requests
}

t.test('a token is replaced and removed where the request has it: header, cookie, two cookies, parameter; all else stays', async (t) => {
  const token = tokenOf()
  const [head, tail] = [token.slice(0, token.lastIndexOf('.')), token.slice(token.lastIndexOf('.') + 1)]
  const requests: [AttackedRequest, without: object][] = [
    [{ method: 'POST', url: '/x', headers: { 'X-Token': token, accept: '*/*' }, payload: { a: 1 } }, { url: '/x', headers: { accept: '*/*' }, payload: { a: 1 } }],
    [{ method: 'GET', url: '/x', headers: { Cookie: `a=1; access_token=${token}; b=2` } }, { url: '/x', headers: { cookie: 'a=1; b=2' } }],
    [{ method: 'GET', url: '/x', headers: { cookie: `token=${head}; signature=${tail}; b=2` } }, { url: '/x', headers: { cookie: 'b=2' } }],
    [{ method: 'GET', url: `/x?a=1&t=${token}&b=?`, headers: { authorization: 'Basic x' } }, { url: '/x?a=1&b=?', headers: { authorization: 'Basic x' } }],
    [{ method: 'GET', url: `/x?t=${token}` }, { url: '/x', headers: {} }]
  ]
  for (const [request, without] of requests) {
    const sent = await requestsOf(request, token, ({ url, headers }) => {
      const all = url + Object.values(headers).join()
      return all.includes(head) && all.includes(tail)
    })
    t.match(sent[0], { method: request.method, url: request.url, headers: Object.fromEntries(Object.entries(request.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value])) }, 'the first has the token')
    assert.deepEqual(sent.at(-1), sent[0], 'the last has it too')
    assert.ok(sent.some(({ method, ...rest }) => JSON.stringify(rest) === JSON.stringify({ ...rest, ...without }) && JSON.stringify(rest.headers) === JSON.stringify(Reflect.get(without, 'headers'))), 'one has none')
    // A token without a dot leaves the second cookie empty.
    assert.ok(sent.some((one) => /undefined/.test(one.url + Object.values(one.headers).join())), caseOf(request))
  }
})

t.test('keys are text, Buffer, KeyObject or JWK', async () => {
  const { privateKey, publicKey } = ecPair('prime256v1')
  const token = tokenOf({ algorithm: 'ES256', key: privateKey })
  const [own, shared] = [createPrivateKey(privateKey), createPublicKey(publicKey)]
  for (const key of [privateKey, Buffer.from(privateKey), own, own.export({ format: 'jwk' })]) await attack(lax, reports, { token, key })
  for (const key of [publicKey, Buffer.from(publicKey), shared, shared.export({ format: 'jwk' })]) await attack(lax, reports, { token, publicKey: key })
  const object = createSecretKey(Buffer.from(secret))
  for (const key of [secret, Buffer.from(secret), object, object.export({ format: 'jwk' })]) await attack(lax, reports, { token: tokenOf(), key })
})

const section = 'See node_modules/fastify-token-auth/docs/testing.md'

/** With which message a call throws. */
async function messageOf (call: () => Promise<unknown>): Promise<unknown> {
  const error: unknown = await call().then(() => undefined, (reason: unknown) => reason)
  return error instanceof Error && error.name === 'InvalidConfiguration' ? error.message.replace(` ${section}`, '') : error
}

t.test('an attack that would prove nothing throws', async (t) => {
  const token = tokenOf()
  const refusing = host(t)
  const rsaToken = tokenOf(ofRsa)
  const wrong: [given: object, RegExp][] = [
    [{ key: otherSecret }, /^"key" of attack\(\) is not the key of the token\. Give the secret/],
    [{ token: rsaToken, key: pairFor('EdDSA').privateKey }, /is not the key/],
    [{ token: rsaToken, key: pairFor('ES256').privateKey }, /^"key" of attack\(\) is not the key of the token\. Give the private key/],
    [{ token: rsaToken, publicKey: pairFor('RS256', 1).publicKey }, /^"publicKey" of attack\(\) is not the key of the token\. Give the public key/],
    [{ publicKey: rsa.publicKey }, /^"publicKey" of attack\(\) is not the key/],
    [{ token: rsaToken, key: rsa.publicKey }, /must be the private key of the token, as text, Buffer, KeyObject or JWK\.$/],
    [{ token: rsaToken, key: createPublicKey(rsa.publicKey) }, /must be the private key/], [{ key: 1 }, /must be the secret/], [{ key: {} }, /is not the key of the token/],
    [{ pubicKey: rsa.publicKey }, /^attack\(\) has no option "pubicKey"\. Did you mean "publicKey"\? Its options are token, key, publicKey, allowed\.$/]
  ]
  for (const [given, message] of wrong) t.match(await messageOf(() => attack(lax, reports, { token, ...given })), message)
  t.match(await messageOf(() => attack(refusing, reports, { token })), /^GET \/reports answers 404 to the token before the attack, so the attack would prove nothing\. /)
  let uses = 0
  const once: AttackTarget = { inject: async ({ headers }) => ({ statusCode: headers.authorization === `Bearer ${token}` && uses++ === 0 ? 200 : 401, headers: {} }) }
  t.match(await messageOf(() => attack(once, reports, { token })), /^GET \/reports answers 401 to the token after the attack, /)
})

t.test('a limit of requests, which hides what the guard answers, is an error that says what to do', async (t) => {
  const token = tokenOf()
  let refused = 0
  const limited: AttackTarget = { inject: async ({ headers }) => ({ statusCode: headers.authorization === `Bearer ${token}` ? 200 : ++refused > 5 ? 429 : 401, headers: {} }) }
  t.match(await messageOf(() => attack(limited, reports, { token })), /^GET \/reports answers 429 to a hostile request \(.+\), so a rate limit hides what the guard answers\. Disable rate limits in the test\.$/)
})

t.test('a guard that takes the text of the public key for a secret is found, however the text is spelled there', async () => {
  const pem = rsa.publicKey.trimEnd()
  const given = `A comment\n${pem.replaceAll('\n', '\r\n')}\r\n\r\n`
  const spelled: [secret: string, given: string | Buffer, name: string][] = [
    [pem, pem, 'the public key without its last line end as a secret'],
    [`${pem}\n`.replaceAll('\n', '\r\n'), pem, 'the public key with CRLF as a secret'],
    [pem.replaceAll('\n', '\r\n'), pem, 'the public key with CRLF without its last line end as a secret'],
    [`${pem}\n`.replaceAll('\n', '\\n'), pem, 'the public key with escaped line ends as a secret'],
    [pem.replaceAll('\n', '\\n'), pem, 'the public key with escaped line ends without its last line end as a secret'],
    [given, given, 'the public key exactly as given as a secret'],
    [given, Buffer.from(given), 'the public key exactly as given as a secret'],
    [given.trimEnd().replaceAll('\r\n', '\n'), given, 'the given text of the public key without its last line end as a secret']
  ]
  const token = tokenOf(ofRsa)
  for (const [key, publicKey, name] of spelled) {
    const isSignedWith = (text: string) => createHmac('sha256', key).update(text.slice(0, text.lastIndexOf('.'))).digest('base64url') === text.slice(text.lastIndexOf('.') + 1)
    const app: AttackTarget = {
      inject: async ({ headers: { authorization = '' } }) => {
        const text = authorization.replace('Bearer ', '')
        return { statusCode: text === token || isSignedWith(text) ? 200 : 401, headers: {} }
      }
    }
    const { found } = await attack(app, reports, { token, publicKey })
    assert.ok(found.some((row) => row.name === name), name)
    assert.ok(found.every((row) => row.name.includes('public key')), 'nothing else is let in')
  }
})

t.test('only a part of an issuer that names the same host is sent: a guard that fetches keys asks nobody else', async () => {
  const cases: [iss: string, isSent: boolean][] = [
    ['us', true], ['urn:issuer', true], ['https://issuer.example/realm', true], ['issuer.example/realm', true],
    ['https://issuer.example', false], ['https://issuer.example:8443', false], ['https://a', false], ['accounts.example.com', false]
  ]
  for (const [iss, isSent] of cases) {
    const { rows } = await attack(lax, reports, { token: forge(claims({ iss })), key: secret })
    assert.equal(rows.some(({ name }) => name === 'a part of the issuer'), isSent, iss)
  }
})

t.test('a token in the path is an error that says where a token may be', async () => {
  const token = tokenOf()
  for (const url of [`/files/${token}`, `/files/${token.slice(0, token.lastIndexOf('.'))}?a=1`]) {
    assert.match(String(await messageOf(() => attack(lax, { method: 'GET', url }, { token }))), /^The request of attack\(\) has the token in the path of its "url"\. attack\(\) replaces a token in a header, a cookie or the query string\./, url)
  }
})

t.test('no segment of a token that a challenge repeats is in the report', async (t) => {
  const token = tokenOf()
  const sent: string[] = []
  const app: AttackTarget = {
    inject: async ({ headers: { authorization = '' } }) => {
      const text = authorization.replace('Bearer ', '')
      sent.push(text)
      return { statusCode: text === token ? 200 : 401, headers: { 'www-authenticate': `Bearer error_description="${text.replaceAll('.', ' . ')} ${token.replaceAll('.', ' . ')}"` } }
    }
  }
  const { rows } = await attack(app, reports, { token, key: secret })
  const challenges = rows.map(({ challenge }) => challenge).join('\n')
  const segments = new Set(sent.flatMap((text) => text.startsWith('Basic') ? [] : text.split('.')).filter((segment) => segment.length >= 16))
  t.same([...segments].filter((segment) => challenges.includes(segment)), [])
  t.match(challenges, 'Bearer error_description="<token> . <token> . <token>')
})

t.test('a route that does not answer is a finding after 10 seconds, and the attack goes on and ends', async (t) => {
  const token = tokenOf()
  const listeners = listenersOf(t)
  const expire = holdTimers(t, 10_000)
  const silent = (isSilent: (authorization?: string) => boolean): AttackTarget => ({
    inject: async ({ headers: { authorization } }) => {
      if (!isSilent(authorization)) return { statusCode: authorization === `Bearer ${token}` ? 200 : 401, headers: {} }
      setImmediate(expire)
      return await new Promise(() => {})
    }
  })
  const report = await attack(silent((text) => text === 'Bearer null'), reports, { token })
  t.strictSame(report.found, [{ name: 'the text "null" as the token', statusCode: 0, outcome: 'error', challenge: null }])
  t.match(String(report), '\n- the text "null" as the token: no response, error. The route does not respond within 10 seconds.')
  t.match(await messageOf(() => attack(silent(() => true), reports, { token })), /^GET \/reports answers nothing within 10 seconds to the token before the attack, /)
  t.same(listeners.map(({ listening }) => listening), [false, false])
})

t.test('where a request without a token is let in, the report says so first, and names no cause that it does not know', async (t) => {
  const token = tokenOf()
  const unsigned = (text: string) => /^eyJhbGciOiJub25lI/.test(text)
  const routeOf = (isLetIn: (text: string) => boolean): AttackTarget => ({
    inject: async ({ headers: { authorization = '' } }) => ({ statusCode: authorization === `Bearer ${token}` || isLetIn(authorization.replace('Bearer ', '')) ? 200 : 401, headers: {} })
  })
  const plain = 'The route lets in requests without a token. If it is public or its guard is optional, list these requests in "allowed", or attack a route that requires a token.'
  const causesOf = (report: object) => new Map(String(report).split('\n').slice(2).map((line) => /^- (.*): 200, let in\.(?: (.*))?$/.exec(line)?.slice(1) ?? []).map(([name, cause = '']) => [name, cause]))

  const optional = await attack(routeOf((text) => text === '' || unsigned(text)), reports, { token, key: secret })
  t.equal(String(optional).split('\n')[1], plain)
  const causes = causesOf(optional)
  t.equal(causes.size, optional.found.length)
  t.equal(causes.get('no token'), 'The route does not require a token.')
  t.equal(causes.get('no token, and X-Forwarded-For: 127.0.0.1'), '')
  t.equal(causes.get('an unsigned token in the cookie jwt'), '')
  t.equal(causes.get('the method POST, without a token'), '')
  t.equal(causes.get('alg "none"'), 'The guard accepts tokens that are not signed.', 'the route refuses other wrong tokens')
  const allowed = optional.found.map(({ name }) => name).filter((name) => causes.get(name) === '' || name === 'no token')
  t.notMatch(String(await attack(routeOf((text) => text === '' || unsigned(text)), reports, { token, allowed })), plain, 'what is allowed needs no explanation')

  const open = await attack(routeOf(() => true), reports, { token, key: secret })
  t.equal(String(open).split('\n')[1], plain)
  t.strictSame([...new Set(causesOf(open).values())].sort(), ['', 'The route does not require a token.'])

  const required = await attack(routeOf((text) => text !== ''), reports, { token, key: secret })
  t.notMatch(String(required), plain)
  t.notOk([...causesOf(required).values()].includes(''))
})

t.test('no file takes the type of JSON Web Keys from node:crypto, whose newer declarations have none', async (t) => {
  const lib = new URL('../../lib/', import.meta.url)
  const files = readdirSync(lib, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))
  t.ok(files.length > 100)
  t.same(files.filter((name) => /JsonWebKey[^\n]*'node:crypto'/.test(readFileSync(new URL(name, lib), 'utf8'))), [])
})

t.test('wrong arguments are errors that say what was given and what is allowed', async (t) => {
  const token = tokenOf()
  const wrong: [app: unknown, request: unknown, options: unknown, RegExp][] = [
    [undefined, reports, { token }, /^The first parameter of attack\(\) must have the method "inject", .*; given: undefined\.$/],
    [lax, undefined, { token }, /^The request of attack\(\) must be a plain object, such as \{ method, url \}; given: undefined\.$/],
    [lax, { url: '/' }, { token }, /^"method" of the request of attack\(\) must be text, such as "GET"; given: undefined\.$/],
    [lax, { method: 'GET', url: 'reports' }, { token }, /^"url" .* must be a path that begins with "\/"; given: a string of another form\.$/],
    [lax, { ...reports, body: 1 }, { token }, /^The request of attack\(\) has no member "body"\. Its members are method, url, headers, payload\.$/],
    [lax, { ...reports, headers: { Authorization: 'Basic x' } }, { token }, /Authorization header without the token/],
    [lax, reports, undefined, /^The options of attack\(\) must be a plain object, such as \{ token \}; given: undefined\.$/],
    [lax, reports, {}, /^"token" of attack\(\) must be a signed JSON Web Token, .*; given: undefined\.$/],
    ...['x', 'a.b.c', `${token}.x`, token.replace(/\.[^.]*$/, '.'), forge([1])].map((text): [unknown, unknown, unknown, RegExp] => [lax, reports, { token: text }, /given: another text\.$/]),
    [lax, reports, { token: forge(claims(), { header: { alg: 'ES256K' } }) }, /^"token" .* with an algorithm that attack\(\) does not know\. Give a token of HS256, /],
    [lax, reports, { token, allowed: 'no token' }, /^"allowed" of attack\(\) must be a list of names/],
    [lax, reports, { token, allowed: [1] }, /^"allowed"/]
  ]
  for (const [app, request, options, message] of wrong) {
    const said = await messageOf(() => attack(mistyped<AttackTarget>(app), mistyped<AttackedRequest>(request), mistyped<AttackOptions>(options)))
    t.match(said, message)
    assert.doesNotMatch(String(said), /eyJ/)
  }
})

/** The listeners that are started until the test ends. */
function listenersOf (t: Test): Server[] {
  const started: Server[] = []
  const { listen } = Server.prototype
  Reflect.set(Server.prototype, 'listen', function (this: Server, ...given: unknown[]) {
    started.push(this)
    return Reflect.apply(listen, this, given)
  })
  t.teardown(() => { Server.prototype.listen = listen })
  return started
}

/** Watches where this process connects to until the test ends. */
function connections (t: Test): string[] {
  const opened: string[] = []
  for (const [object, name] of [[Socket.prototype, 'connect'], [dns, 'lookup']] as const) {
    const original: unknown = Reflect.get(object, name)
    if (typeof original !== 'function') throw new Error(`There is no ${name}.`)
    Reflect.set(object, name, function (this: unknown, ...given: unknown[]) {
      const [target] = given.flat()
      // For an address, nobody is asked.
      if (name === 'connect') opened.push(String(Reflect.get(Object(target), 'host')))
      else if (isIP(String(target)) === 0) opened.push(`lookup of ${String(target)}`)
      return Reflect.apply(original, this, given)
    })
    t.teardown(() => { Reflect.set(object, name, original) })
  }
  return opened
}

t.test('nothing is connected to but the listener on the loopback interface, and only by a guard that fetches; it closes in every case', async (t) => {
  const opened = connections(t)
  const listeners = listenersOf(t)
  await attack(guarded(t, right), reports, { token: tokenOf(), key: secret })
  t.same(opened, [])
  await attack(guarded(t, broken['fetches jku']!), reports, { token: tokenOf(ofRsa) })
  t.same([...new Set(opened)], ['127.0.0.1'])
  await t.rejects(attack(guarded(t, () => { throw new Error('down') }), reports, { token: tokenOf() }), /answers 500 to the token before/)
  await t.rejects(attack(lax, reports, { token: tokenOf(), key: otherSecret }), /is not the key/)
  await t.rejects(attack({ inject: async () => { throw new Error('no start') } }, reports, { token: tokenOf() }), /no start/)
  t.equal(listeners.length, 5)
  t.same(listeners.filter(({ listening }) => listening), [])
})
