// @slow
/** Connections that last longer than a request end with their token, over real sockets. */
import { execFile } from 'node:child_process'
import { EventEmitter, on, once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { connect } from 'node:http2'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import websocket from '@fastify/websocket'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import WebSocket from 'ws'
import { SessionEnded, TokenExpired, type TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, listen, login, payloadOf, secret, setClock } from '../helper.ts'

const run = promisify(execFile)

/** The last millisecond in which an access token is valid. */
const lastMoment = (app: FastifyInstance, token: string) => Number(payloadOf(token).exp) + app.tokenAuth.settings.leeway - 0.001

/** An application with a WebSocket and a stream of events, over HTTP/1.1 or HTTP/2. */
async function serving (t: Test, { options = {}, http2 = false }: { options?: Partial<TokenAuthOptions>, http2?: boolean } = {}) {
  const app = await build(t, options, http2 ? { http2: true } as object : {})
  const bus = new EventEmitter()
  const reasons: unknown[] = []
  async function * events (signal: AbortSignal): AsyncGenerator<string> {
    yield 'data: hello\n\n'
    try {
      for await (const [text] of on(bus, 'news', { signal })) yield `data: ${text}\n\n`
    } catch (error) {
      if (!signal.aborted) throw error
      reasons.push(signal.reason)
    }
  }
  const send = (request: FastifyRequest, reply: FastifyReply) => reply.type('text/event-stream').send(Readable.from(events(request.tokenAuth.signal)))
  if (!http2) await app.register(websocket)
  await app.register(async (routes) => {
    const onRequest = app.tokenAuth.protect()
    routes.get('/events', { onRequest }, send)
    routes.post('/events', { onRequest }, send)
    if (http2) return
    routes.get('/socket', { onRequest, websocket: true }, (socket, request) => {
      const { signal } = request.tokenAuth
      signal.addEventListener('abort', () => {
        reasons.push(signal.reason)
        socket.close(4401, 'The token is not valid any more.')
      })
      socket.on('message', (message) => { socket.send(`echo ${String(message)}`) })
    })
  })
  const port = await listen(app)
  const tokens: { access_token: string, refresh_token: string } = (await login(app)).json()
  return { app, bus, reasons, port, tokens, headers: bearer(tokens.access_token) }
}

async function opened (port: number, headers: Record<string, string>): Promise<WebSocket> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/socket`, { headers })
  await once(socket, 'open')
  socket.send('hello')
  const [message] = await once(socket, 'message')
  if (String(message) !== 'echo hello') throw new Error(String(message))
  return socket
}

/** Reads an answer until its first event, then gives the rest when it ends. */
async function begun (answer: AsyncIterable<unknown>): Promise<() => Promise<string>> {
  const chunks = answer[Symbol.asyncIterator]()
  const { value } = await chunks.next()
  if (!String(value).includes('data: hello')) throw new Error(String(value))
  return async () => {
    let rest = ''
    for (;;) {
      const { value, done } = await chunks.next()
      if (done === true) return rest
      rest += String(value)
    }
  }
}

async function streamOf (port: number, headers: Record<string, string>, method = 'GET') {
  const [response]: IncomingMessage[] = await once(get({ port, host: '127.0.0.1', path: '/events', headers, method }), 'response')
  return await begun(response!)
}

// Promise: security/connection-stays-open
t.test('a WebSocket is closed when its token expires', async (t) => {
  const { app, port, tokens, headers, reasons } = await serving(t)
  setClock(t, lastMoment(app, tokens.access_token))
  const socket = new WebSocket(`ws://127.0.0.1:${port}/socket`, { headers })
  const [code, reason] = await once(socket, 'close')
  t.equal(code, 4401)
  t.equal(String(reason), 'The token is not valid any more.')
  t.ok(reasons[0] instanceof TokenExpired)
})

// Promise: security/connection-stays-open
t.test('server-sent events end when their token expires, over HTTP/1.1 with GET and POST, and over HTTP/2', async (t) => {
  const one = await serving(t)
  const two = await serving(t, { http2: true })
  setClock(t, lastMoment(one.app, one.tokens.access_token))
  for (const method of ['GET', 'POST']) t.equal(await (await streamOf(one.port, one.headers, method))(), '', method)
  t.equal(one.reasons.length, 2)

  setClock(t, lastMoment(two.app, two.tokens.access_token))
  const session = connect(`http://127.0.0.1:${two.port}`)
  const stream = session.request({ ':path': '/events', ...two.headers })
  t.equal(await (await begun(stream))(), '')
  session.close()
  for (const reason of [...one.reasons, ...two.reasons]) t.ok(reason instanceof TokenExpired)
})

// Promise: security/connection-stays-open
t.test('WebSockets and server-sent events end when their session ends; those of other sessions go on', async (t) => {
  const { app, bus, port, tokens, headers, reasons } = await serving(t, { options: { sessions: {} } })
  const other = bearer((await login(app, { username: 'grace', password: 'hopper' })).json().access_token)
  const [socket, otherSocket] = [await opened(port, headers), await opened(port, other)]
  const [stream, otherStream] = [await streamOf(port, headers), await streamOf(port, other)]
  const closed = once(socket, 'close')
  t.equal((await app.inject({ method: 'POST', url: '/auth/logout', payload: { refresh_token: tokens.refresh_token } })).statusCode, 204)
  const [code] = await closed
  t.equal(code, 4401)
  t.equal(await stream(), '')
  t.equal(reasons.length, 2)
  for (const reason of reasons) t.ok(reason instanceof SessionEnded)

  otherSocket.send('hello')
  await once(otherSocket, 'message')
  bus.emit('news', 'still here')
  await app.tokenAuth.sessions.endAll(2)
  t.equal(await otherStream(), 'data: still here\n\n')
  const [otherCode] = await once(otherSocket, 'close')
  t.equal(otherCode, 4401)
})

// Promise: security/connection-stays-open
t.test('signals that nobody listens to are collected; those with a listener, and those of open connections, end them', async (t) => {
  const { stdout } = await run(process.execPath, ['--expose-gc', fileURLToPath(new URL('../fixtures/signals.js', import.meta.url))], { env: { PATH: process.env.PATH } })
  const { count, alive, codes, aborted, left } = JSON.parse(stdout)
  t.same(alive, { ignored: 0, removed: 0, left: count, derived: 1, streamed: 1 })
  t.same(codes, [4401, 4401, 'end'])
  t.equal(aborted, count)
  t.equal(left, 0, 'an aborted signal with a listener is collected, too')
})

// Promise: security/connection-stays-open
t.test('a process with open signals ends when it has nothing else to do', async (t) => {
  const program = `
    import Fastify from 'fastify'
    import tokenAuth from ${JSON.stringify(new URL('../../dist/lib/index.js', import.meta.url).href)}
    const app = Fastify()
    await app.register(tokenAuth, { secret: ${JSON.stringify(secret)}, authenticate: () => ({ user_id: 1 }), sessions: {} })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => { request.tokenAuth.signal.addEventListener('abort', () => {}) })
    const { access_token: token } = (await app.inject({ method: 'POST', url: '/auth', payload: {} })).json()
    console.log((await app.inject({ url: '/', headers: { authorization: 'Bearer ' + token } })).statusCode)`
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', program], { env: { PATH: process.env.PATH }, cwd: fileURLToPath(new URL('../..', import.meta.url)) })
  t.equal(stdout.trim(), '200')
})
