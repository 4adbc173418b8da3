/** Which bodies endpoints read, and from where: what the host, or its platform, does with bodies is for its own routes. */
import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { PassThrough, type Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth from '../../lib/index.ts'
import type { EndpointRow } from '../../lib/endpoints/endpoint.ts'
import { addEndpoints } from '../../lib/endpoints/routes.ts'
import { AuthenticationFailed } from '../../lib/errors.ts'
import { registrationOf } from '../../lib/registration.ts'
import { caseOf, exchange, host, listen, secret } from '../helper.ts'

/** What was read of a request before the application got it. */
interface Read { body?: unknown, rawBody?: unknown }

type Platform = (raw: IncomingMessage & Read, bytes: Buffer) => void

/** What platforms leave of a body that they have read. */
const platforms: Record<string, Platform> = {
  'Google Cloud Functions': (raw, bytes) => {
    raw.rawBody = bytes
    raw.body = parsed(bytes)
  },
  'express.json()': (raw, bytes) => { raw.body = parsed(bytes) },
  'express.raw()': (raw, bytes) => { raw.body = bytes },
  'express.text()': (raw, bytes) => { raw.body = String(bytes) }
}

function parsed (bytes: Buffer): unknown {
  try {
    return JSON.parse(String(bytes))
  } catch {
    return {}
  }
}

/** The bodies that reached `authenticate`. */
async function application (t: Test, prepare: (app: FastifyInstance) => void = () => {}): Promise<{ app: FastifyInstance, seen: unknown[] }> {
  const seen: unknown[] = []
  const app = host(t)
  prepare(app)
  await app.register(tokenAuth, {
    secret,
    authenticate ({ body }) {
      seen.push(body)
      if (Object(body).password !== 'päss') throw new AuthenticationFailed()
      return { user_id: 1 }
    }
  })
  return { app, seen }
}

/** A server that reads bodies before the application gets the request. */
async function behind (t: Test, app: FastifyInstance, leave: Platform): Promise<string> {
  await app.ready()
  const read = async (raw: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    for await (const chunk of raw) chunks.push(chunk)
    leave(raw, Buffer.concat(chunks))
    app.routing(raw, response)
  }
  const server = createServer((raw, response) => { read(raw, response).catch((error: unknown) => { response.destroy(Object(error)) }) })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close() })
  const { port } = server.address() as AddressInfo
  return `http://127.0.0.1:${port}`
}

const guide = (app: FastifyInstance) => {
  app.addContentTypeParser('application/json', {}, (_request, payload, done) => { done(null, Object(payload).body) })
}

// Promise: security/body-read-before
t.test('an endpoint answers where a platform has read the body: what was parsed is taken, with the same limits, types and checks', async (t) => {
  for (const [name, leave] of Object.entries(platforms)) {
    for (const prepare of [undefined, guide]) {
      const { app, seen } = await application(t, prepare)
      const address = await behind(t, app, leave)
      const post = async (body: string | undefined, type = 'application/json') => {
        const answer = await fetch(`${address}/auth`, { method: 'POST', ...(body !== undefined && { body, headers: { 'content-type': type } }) })
        return answer.status
      }
      const label = caseOf([name, prepare !== undefined])
      assert.equal(await post(JSON.stringify({ password: 'päss' })), 200, label)
      assert.deepEqual(seen.pop(), { password: 'päss' }, label)
      assert.equal(await post(JSON.stringify({ password: 'wrong' })), 401, label)
      assert.equal(await post(`{"password":"päss","more":"${'x'.repeat(20_000)}"}`), 413, label)
      assert.equal(await post('{"password":"päss"}', 'text/plain'), 415, label)
      assert.equal(await post('{"password":"päss"}', 'application/x-www-form-urlencoded'), 415, label)
      assert.equal(await post(undefined), 400, label)
      assert.equal(await post('{"password":"päss","__proto__":{"admin":true}}'), 400, label)
    }
  }
})

t.test('an endpoint of forms reads what a platform has left of a form, each parameter once', async (t) => {
  const row: EndpointRow = { name: 'form', method: 'POST', path: 'pathToLogout', exists: () => true, access: 'client authentication', bodies: 'form', implement: () => { throw new Error('not asked') } }
  const urlencoded: Platform = (raw, bytes) => {
    const form: Record<string, string | string[]> = {}
    for (const [name, value] of new URLSearchParams(String(bytes))) form[name] = name in form ? [form[name]!, value].flat() : value
    raw.body = form
  }
  for (const [name, leave] of Object.entries({ ...platforms, 'express.urlencoded()': urlencoded })) {
    if (name === 'express.json()' || name.startsWith('Google')) continue
    const { app } = await application(t)
    await addEndpoints(app, registrationOf(app.tokenAuth)!, [{ row, path: '/form', schema: {}, handler: ({ request: { body } }) => ({ body: { read: body } }) }], {})
    const address = await behind(t, app, leave)
    const post = async (body: string) => await fetch(`${address}/auth/form`, { method: 'POST', body, headers: { 'content-type': 'application/x-www-form-urlencoded' } })
    assert.deepEqual(await (await post('token=a+b%2B%C3%A4&hint=x')).json(), { read: { token: 'a b+ä', hint: 'x' } }, name)
    assert.equal((await post('token=a&token=b')).status, 400, name)
  }
})

t.test('where nothing is left of a body that was read, the answer is 400, and comes', async (t) => {
  const { app } = await application(t)
  const address = await behind(t, app, () => {})
  const answer = await fetch(`${address}/auth`, { method: 'POST', body: '{"password":"päss"}', headers: { 'content-type': 'application/json' } })
  t.equal(answer.status, 400)
})

t.test('a stream that a hook of the application gives is read, whatever was read of the request', async (t) => {
  const replace = (app: FastifyInstance) => {
    app.addHook('preParsing', async (_request, _reply, payload: Readable) => payload.pipe(Object.assign(new PassThrough(), { receivedEncodedLength: 0 })))
  }
  const { app } = await application(t, replace)
  t.equal((await app.inject({ method: 'POST', url: '/auth', payload: { password: 'päss' } })).statusCode, 200)
})

// Promise: security/body-not-utf8
t.test('a body that is not UTF-8 is refused, so that no two passwords reach `authenticate` as one text', async (t) => {
  const { app, seen } = await application(t)
  const post = (bytes: Buffer, type = 'application/json') => app.inject({ method: 'POST', url: '/auth', headers: { 'content-type': type }, payload: bytes })
  const bodies: Record<string, Buffer> = {
    'Latin-1': Buffer.from('{"password":"p\u00e4ss"}', 'latin1'),
    'UTF-16': Buffer.from('{"password":"päss"}', 'utf16le'),
    'a sequence that is cut': Buffer.concat([Buffer.from('{"password":"p'), Buffer.from([0xc3]), Buffer.from('"}')]),
    'an overlong sequence': Buffer.concat([Buffer.from('{"password":"p'), Buffer.from([0xc1, 0xa1]), Buffer.from('"}')]),
    'a surrogate': Buffer.concat([Buffer.from('{"password":"p'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')])
  }
  for (const [name, bytes] of Object.entries(bodies)) {
    for (const type of ['application/json', 'application/json; charset=iso-8859-1', 'application/ld+json']) {
      const answer = await post(bytes, type)
      assert.equal(answer.statusCode, 400, caseOf([name, type]))
      if (name !== 'UTF-16') assert.equal(answer.json().message, 'body must be UTF-8', caseOf([name, type]))
    }
  }
  t.same(seen, [])
  t.equal((await post(Buffer.from('\ufeff{"password":"päss"}'))).statusCode, 200, 'a byte order mark is no part of the text')
})

t.test('a plugin of the application that keeps raw bodies as bytes changes nothing, and ends no process', async (t) => {
  const { app } = await application(t, (app) => {
    // As fastify-raw-body does it, globally and without an encoding.
    app.addHook('preParsing', (request, _reply, payload, done) => {
      const chunks: Buffer[] = []
      payload.on('data', (chunk: Buffer) => { chunks.push(chunk) })
      payload.on('end', () => { Object.assign(request, { rawBody: Buffer.concat(chunks) }) })
      done(null, payload)
    })
  })
  const port = await listen(app)
  const body = '{"password":"päss"}'
  t.match(await exchange(port, `POST /auth HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`), /^HTTP\/1\.1 200 /)
})
