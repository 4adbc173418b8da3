// @slow
/** How keys are fetched: from servers that answer as they should, and from others. */
import { execFile } from 'node:child_process'
import { createServer } from 'node:net'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { Test } from 'tap'
import { remoteKeySet } from '../../lib/authorities/remote-key-set.ts'
import { pauseTime, refreshTime } from '../../lib/authorities/key-source.ts'
import { audience, granted, issue, issuer, jwk, keyServer, status, trusted, until, withIssuers, withoutJitter } from './issuers.ts'
import { holdTimers } from '../helper.ts'

const good = JSON.stringify({ keys: [jwk('a')] })
const text = (body: string | Buffer, headers: Record<string, string> = {}): RequestListener => (_request, response) => { response.writeHead(200, headers).end(body) }
const code = (statusCode: number, headers: Record<string, string> = {}): RequestListener => (_request, response) => { response.writeHead(statusCode, headers).end(good) }
/** A set of a given size in bytes. */
const ofSize = (size: number) => good.replace('{', `{${' '.repeat(size - Buffer.byteLength(good))}`)
const set = (...keys: object[]) => text(JSON.stringify({ keys }))

/** Sends as much as is taken. */
function endless (response: ServerResponse, chunk: Buffer): void {
  const more = () => { while (response.writable && response.write(chunk)); }
  response.on('drain', more)
  more()
}

/** The time limit of a fetch, which a test lets expire. It is no timer that could be held. */
function timeLimit (t: Test): () => void {
  const { timeout } = AbortSignal
  const controllers: AbortController[] = []
  AbortSignal.timeout = (delay) => {
    t.equal(delay, 5000)
    const controller = new AbortController()
    controllers.push(controller)
    return controller.signal
  }
  t.teardown(() => { AbortSignal.timeout = timeout })
  return () => { for (const controller of controllers.splice(0)) controller.abort(new DOMException('It took too long.', 'TimeoutError')) }
}

// Promise: keys/response-malformed-too
// Promise: security/trusted-issuer-s
t.test('a server that answers anything but a small JWK set is down; of a set, the keys count that are in order', async (t) => {
  let sent = 0
  const huge = Buffer.alloc(1_000_000, ' ')
  const cases: Array<[what: string, answer: RequestListener, expected: number]> = [
    ['a set', text(good), 200],
    ['a set without a media type', text(good, { 'content-type': 'text/html' }), 200],
    ['a compressed set', text(gzipSync(good), { 'content-encoding': 'gzip' }), 200],
    ['a set of 256 KiB', text(ofSize(262_144)), 200],
    ['a byte more', text(ofSize(262_145)), 503],
    ['100 MB from 100 KB of gzip', text(gzipSync(ofSize(100_000_000)), { 'content-encoding': 'gzip' }), 503],
    ['an answer without end', (_request, response) => { response.on('close', () => { sent = response.socket?.bytesWritten ?? sent }); endless(response, huge) }, 503],
    ['10,000 keys', set(...Array.from({ length: 10_000 }, (_, index) => jwk(`key ${index}`)), jwk('a')), 503],
    ['status 201', code(201), 503],
    ['status 204', (_request, response) => { response.writeHead(204).end() }, 503],
    ['a redirect', code(302, { location: '/other' }), 503],
    ['a permanent redirect', code(308, { location: 'http://127.0.0.1:1/' }), 503],
    ['status 304', (_request, response) => { response.writeHead(304).end() }, 503],
    ['status 401', code(401), 503],
    ['status 404', code(404), 503],
    ['status 429', code(429, { 'retry-after': '1' }), 503],
    ['status 500', code(500), 503],
    ['a connection that is reset', (request) => { request.socket.resetAndDestroy() }, 503],
    ['half an answer', (_request, response) => { response.writeHead(200, { 'content-length': '100000' }); response.write(good.slice(0, 20), () => { response.destroy() }) }, 503],
    ['no bytes', text(''), 503],
    ['half a set', text(good.slice(0, -5)), 503],
    ['HTML', text('<!doctype html>'), 503],
    ['broken gzip', text(Buffer.from('no gzip'), { 'content-encoding': 'gzip' }), 503],
    ['null', text('null'), 503],
    ['a list', text(JSON.stringify([jwk('a')])), 503],
    ['a set without keys', text('{}'), 503],
    ['an empty set', text('{"keys":[]}'), 503],
    ['keys that are no list', text('{"keys":{"length":1}}'), 503],
    ['an entry that is no object', text(JSON.stringify({ keys: [jwk('a'), null] })), 503],
    ['a polluting member', text(`{"__proto__":{"keys":[1]},"keys":[${JSON.stringify(jwk('a'))}]}`), 200],
    ['two keys of one kid', set(jwk('a', { which: 1 }), jwk('a')), 200],
    ['a key for encryption', set(jwk('a', {}, { use: 'enc' })), 401],
    ['a key of another algorithm', set(jwk('a', {}, { alg: 'ES512' })), 401],
    ['an RSA key', set(jwk('a', { algorithm: 'RS256' })), 401],
    ['a private key', set(jwk('a', {}, { d: 'x' })), 401],
    ['a broken key beside a good one', set({ kty: 'EC', kid: 'b' }, jwk('a')), 200]
  ]
  t.ok(cases.length >= 27)
  const { state, jwksUri } = await keyServer(t)
  for (const [what, answer, expected] of cases) {
    state.instead = answer
    const { requests } = state
    const app = await withIssuers(t, trusted({ jwksUri }))
    t.equal(state.requests, requests + 1, `${what}: one request`)
    t.equal(await status(app, issue('a')), expected, what)
    await app.close()
  }
  t.ok(sent > 262_144 && sent < 50_000_000, 'what is too large is not read to its end')
})

// Promise: security/trusted-issuer-s
t.test('a server that does not answer, or with a byte now and then, is given up after 5 seconds', async (t) => {
  const expire = timeLimit(t)
  const { state, server, jwksUri } = await keyServer(t)
  const lines: string[] = []
  const slow: RequestListener[] = [() => {}, (_request, response) => { response.writeHead(200).write('{') }]
  for (const answer of slow) {
    let request: IncomingMessage | undefined
    state.instead = (...given) => { request = given[0]; answer(...given) }
    const registering = withIssuers(t, trusted({ jwksUri }), {}, { logger: { level: 'warn', stream: { write: (line: string) => { lines.push(line) } } } })
    await until(() => request !== undefined)
    for (let count = 0; count < 100; count++) await turn()
    expire()
    const app = await registering
    t.equal(await status(app, issue('a')), 503)
    await app.close()
    await until(() => request?.socket.destroyed === true)
  }
  t.same(lines.map((line) => JSON.parse(line).err.message), slow.map(() => `GET ${jwksUri}: There was no complete response within 5 seconds.`))
  t.ok(server.listening)
})

t.test('the log says why keys could not be fetched, and nothing of what was received', async (t) => {
  const { state, jwksUri } = await keyServer(t)
  const gone = await keyServer(t)
  await gone.close()
  const secretive = 'received, and not for logs'
  const cases: Array<[answer: RequestListener, message: string | RegExp]> = [
    [text(ofSize(262_145)), 'The response has more than 262144 bytes.'],
    [code(302, { location: '/x' }), 'The status of the response is 302, and not 200. Redirects are not followed.'],
    [text(`<${secretive}`), 'Failed to parse the JSON Web Key Set HTTP response as JSON'],
    [text(`{"keys":["${secretive}"]}`), 'JSON Web Key Set malformed'],
    [text('{"keys":[]}'), 'It is not a JWK set with at least one key: { keys: [{ kty, kid, n, e }] }.'],
    [(request) => { request.socket.end(`${secretive}\r\n\r\n`) }, /: fetch failed \(HPE_\w+\)$/]
  ]
  const messageOf = async (jwksUri: string) => {
    const lines: string[] = []
    const app = await withIssuers(t, trusted({ jwksUri }), {}, { logger: { level: 'warn', stream: { write: (line: string) => { lines.push(line) } } } })
    await app.close()
    t.equal(lines.length, 1)
    t.notOk(lines.some((line) => line.includes(secretive)))
    return String(JSON.parse(lines[0] ?? '{}').err.message)
  }
  for (const [answer, message] of cases) {
    state.instead = answer
    t.match(await messageOf(`${jwksUri}?key=${secretive.length}`), typeof message === 'string' ? `GET ${jwksUri}: ${message}` : message)
  }
  t.equal(await messageOf(gone.jwksUri), `GET ${gone.jwksUri}: fetch failed (ECONNREFUSED)`)
})

// Promise: keys/address-token-redirect
// Promise: security/3-10-trust
// Promise: security/9-1-3
t.test('neither a redirect nor an address in a token opens a connection', async (t) => {
  // The next attempt would be one more request.
  holdTimers(t, pauseTime)
  let connections = 0
  const inner = createServer((socket) => { connections++; socket.destroy() })
  await new Promise<void>((resolve) => { inner.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => inner.close())
  const address = inner.address()
  const url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}/`
  const { state, jwksUri } = await keyServer(t)
  const app = await withIssuers(t, trusted({ jwksUri }))
  state.instead = code(302, { location: url })
  const key = jwk('a', { which: 1 })
  for (const header of [{ jku: url }, { x5u: url }, { jwk: key }, { kid: url }, { jku: url, kid: 'x' }]) t.not(await status(app, issue('a', granted(), { which: 1 }, header)), 200)
  t.equal(await status(app, issue('a', granted({ iss: url }))), 401)
  t.equal(state.requests, 2, 'that for a kid that is not known')
  t.equal(connections, 0)
})

t.test('an address is fetched again by a timer, with the headers of a client of JWK sets', async (t) => {
  withoutJitter(t)
  const refresh = holdTimers(t, refreshTime)
  const { state, jwksUri } = await keyServer(t)
  const app = await withIssuers(t, trusted({ jwksUri }))
  const seen: unknown[] = []
  state.instead = ({ method, url, headers: { accept, authorization, cookie } }, response) => {
    seen.push({ method, url, accept, authorization, cookie })
    response.end(JSON.stringify({ keys: [jwk('b', { which: 1 })] }))
  }
  refresh()
  await until(() => app.tokenAuth.keyStatus().issuers[0]?.keys === 1 && seen.length === 1)
  t.equal(await status(app, issue('b', granted(), { which: 1 })), 200)
  t.same(seen, [{ method: 'GET', url: '/jwks', accept: 'application/json, application/jwk-set+json', authorization: undefined, cookie: undefined }])
})

t.test('without jose, or with another version of it, an address is refused (E18), and keys and functions are not', async (t) => {
  const cause = new Error('Cannot find package')
  const e18 = { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E18', message: /^"jwksUri" needs jose 6.*npm install jose@6/ }
  await t.rejects(remoteKeySet('https://issuer.example/', async () => await Promise.reject(cause)), { ...e18, cause })
  await t.rejects(remoteKeySet('https://issuer.example/', async () => ({ createRemoteJWKSet: () => {} })), e18)

  const hooks = 'export const resolve = (name, context, next) => { if (name === "jose") throw new Error("hidden"); return next(name, context) }'
  const program = `
    import { register } from 'node:module'
    register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(hooks)}`)})
    const { default: Fastify } = await import('fastify')
    const { default: tokenAuth } = await import(${JSON.stringify(new URL('../../dist/lib/index.js', import.meta.url).href)})
    const jwks = ${good}
    for (const keys of [{ jwks }, { jwks: () => jwks }, { jwksUri: 'https://issuer.example/' }]) {
      const app = Fastify()
      await app.register(tokenAuth, { authMode: false, issuers: [{ issuer: ${JSON.stringify(issuer)}, audience: ${JSON.stringify(audience)}, algorithms: ['ES256'], ...keys }] }).then(() => console.log('registered'), ({ finding }) => console.log(finding))
      await app.close().catch(() => {})
    }`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], { env: { PATH: process.env.PATH }, cwd: fileURLToPath(new URL('../..', import.meta.url)), timeout: 50_000 })
  t.same(stdout.trim().split('\n'), ['registered', 'registered', 'TOKEN_AUTH_E18'])
})
