import { createPrivateKey, createPublicKey, createSecretKey } from 'node:crypto'
import dns from 'node:dns'
import { readFileSync } from 'node:fs'
import { isIP, Server, Socket } from 'node:net'
import type { FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import { attack, type AttackedRequest, type AttackOptions, type AttackTarget } from '../../lib/testing.ts'
import { claims, ecPair, forge, host, mistyped, otherSecret, pairFor, payloadOf, secret, valid, type Forgery } from '../helper.ts'
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
  t.test(`a broken guard is found: ${name}`, async (t) => {
    const { found = '', forgery, isOnly = false, outcome = 'let in' } = meant[name] ?? {}
    const keys = forgery === ofRsa ? { key: rsa.privateKey, publicKey: rsa.publicKey } : { key: forgery?.key ?? secret }
    const token = tokenOf(forgery)
    const report = await attack(guarded(t, guard), reports, { token, ...keys })
    const row = report.found.find((row) => row.name === found)
    t.match(row, { name: found, outcome })
    if (isOnly) t.equal(report.found.length, 1)
    const lines = String(report).split('\n')
    t.equal(lines.length, report.found.length + 1)
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
    t.equal(new Set(rows.map(({ name }) => name)).size, rows.length, 'each has its own')
    for (const { name } of rows) names.add(name)
  }
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
    t.strictSame(sent.at(-1), sent[0], 'the last has it too')
    t.ok(sent.some(({ method, ...rest }) => JSON.stringify(rest) === JSON.stringify({ ...rest, ...without }) && JSON.stringify(rest.headers) === JSON.stringify(Reflect.get(without, 'headers'))), 'one has none')
    // A token without a dot leaves the second cookie empty.
    t.ok(sent.some((one) => /undefined/.test(one.url + Object.values(one.headers).join())))
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

const section = 'See node_modules/fastify-token-auth/README.md#testing-your-routes'

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
    [{ pubicKey: rsa.publicKey }, /^attack\(\) has no option "pubicKey"\. Its options are token, key, publicKey, allowed\.$/]
  ]
  for (const [given, message] of wrong) t.match(await messageOf(() => attack(lax, reports, { token, ...given })), message)
  t.match(await messageOf(() => attack(refusing, reports, { token })), /^The route answers 404 to the token before the attack, so the attack would prove nothing\. /)
  let requests = 0
  const limited: AttackTarget = { inject: async () => ({ statusCode: requests++ < 50 ? 200 : 429, headers: {} }) }
  t.match(await messageOf(() => attack(limited, reports, { token })), /^The route answers 429 to the token after the attack, /)
})

t.test('wrong arguments are errors that say what was given and what is allowed', async (t) => {
  const token = tokenOf()
  const wrong: [app: unknown, request: unknown, options: unknown, RegExp][] = [
    [undefined, reports, { token }, /^The first parameter of attack\(\) must have the method "inject", .*; given: undefined\.$/],
    [lax, undefined, { token }, /^"method" of the request of attack\(\) must be text, such as "GET"; given: undefined\.$/],
    [lax, { method: 'GET', url: 'reports' }, { token }, /^"url" .* must be a path that begins with "\/"; given: another text\.$/],
    [lax, { ...reports, body: 1 }, { token }, /^The request of attack\(\) has no "body"\. It has method, url, headers, payload\.$/],
    [lax, { ...reports, headers: { Authorization: 'Basic x' } }, { token }, /Authorization header without the token/],
    [lax, reports, undefined, /^"token" of attack\(\) must be a signed JSON Web Token, .*; given: undefined\.$/],
    ...['x', 'a.b.c', `${token}.x`, token.replace(/\.[^.]*$/, '.'), forge([1])].map((text): [unknown, unknown, unknown, RegExp] => [lax, reports, { token: text }, /given: another text\.$/]),
    [lax, reports, { token: forge(claims(), { header: { alg: 'ES256K' } }) }, /^"token" .* with an algorithm that attack\(\) does not know\. Give a token of HS256, /],
    [lax, reports, { token, allowed: 'no token' }, /^"allowed" of attack\(\) must be a list of names/],
    [lax, reports, { token, allowed: [1] }, /^"allowed"/]
  ]
  for (const [app, request, options, message] of wrong) {
    const said = await messageOf(() => attack(mistyped<AttackTarget>(app), mistyped<AttackedRequest>(request), mistyped<AttackOptions>(options)))
    t.match(said, message)
    t.notMatch(said, /eyJ/)
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
