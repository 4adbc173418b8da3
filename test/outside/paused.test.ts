/** A process that was paused, with requests in its sockets whose clients have given up meanwhile. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { connect as connectHttp2, type ClientHttp2Session } from 'node:http2'
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { secret } from '../helper.ts'

const program = fileURLToPath(new URL('./fixtures/session-process.js', import.meta.url))
const clients = 20
const json = 'application/json'

/** Starts the application in a process of its own. */
async function start (t: Test, http2: boolean) {
  // No loader of the test runner in there: it is the package that runs, as it was built.
  const child = fork(program, { execArgv: [], env: { OPTIONS: JSON.stringify({ kind: 'memory', secret, http2 }) } })
  t.teardown(async () => {
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
  const [{ port }] = await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(([code]) => { throw new Error(`The process ended with ${code}; is dist/ built?`) })
  ])
  return { child, port: Number(port) }
}

/** How a client sends requests, and gives up. */
interface Client {
  /** Sends a request, and resolves to the body of its response. */
  ask (method: string, path: string, body?: object): Promise<string>
  /** Writes a request into the connection. */
  send (path: string, body: object): Promise<void>
  giveUp (): void
}

function http1 (isPipelined: boolean) {
  return async (port: number): Promise<Client> => {
    const socket = connect(port, '127.0.0.1')
    socket.setEncoding('utf8').on('error', () => {})
    await once(socket, 'connect')
    const text = (method: string, path: string, body = '') => `${method} ${path} HTTP/1.1\r\nhost: x\r\n${body === '' ? '' : `content-type: ${json}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n`}\r\n${body}`
    return {
      async ask (method, path, body) {
        socket.write(text(method, path, body && JSON.stringify(body)))
        const [answer] = await once(socket, 'data')
        return String(answer).split('\r\n\r\n')[1] ?? ''
      },
      async send (path, body) {
        const first = isPipelined ? text('GET', '/events') : ''
        await new Promise<void>((resolve) => { socket.write(first + text('POST', path, JSON.stringify(body)), () => resolve()) })
      },
      giveUp: () => { socket.destroy() }
    }
  }
}

async function http2 (port: number): Promise<Client> {
  const session: ClientHttp2Session = connectHttp2(`http://127.0.0.1:${port}`)
  session.on('error', () => {})
  await once(session, 'connect')
  const open = (method: string, path: string, body?: object) => {
    const stream = session.request({ ':method': method, ':path': path, ...(body !== undefined && { 'content-type': json }) })
    stream.setEncoding('utf8').on('error', () => {})
    stream.end(body === undefined ? undefined : JSON.stringify(body))
    return stream
  }
  return {
    async ask (method, path, body) {
      let text = ''
      for await (const chunk of open(method, path, body)) text += String(chunk)
      return text
    },
    async send (path, body) {
      open('POST', path, body)
      await new Promise((resolve) => { session.ping(() => {}); setImmediate(resolve) })
    },
    giveUp: () => { session.destroy() }
  }
}

const connections = { 'HTTP/1.1': http1(false), 'HTTP/1.1, pipelined': http1(true), 'HTTP/2': http2 }

for (const [name, open] of Object.entries(connections)) {
  // Promise: sessions/connection-closes-before
  // Promise: sessions/process-paused-such
  t.test(`${name}: a process that was paused executes no refresh that nobody waits for any more`, async (t) => {
    const { child, port } = await start(t, open === http2)
    const observer = await open(port)
    const waiting = await Promise.all(Array.from({ length: clients }, async () => {
      const client = await open(port)
      const { refresh_token: token } = JSON.parse(await client.ask('POST', '/auth', { username: 'ada' }))
      return { client, token: String(token) }
    }))
    child.kill('SIGSTOP')
    for (const { client, token } of waiting) await client.send('/auth/refresh', { refresh_token: token })
    for (const { client } of waiting) client.giveUp()
    child.kill('SIGCONT')
    // What the process had in its sockets is done before what is sent now.
    for (let times = 0; times < 20; times++) await observer.ask('GET', '/events')
    t.same(JSON.parse(await observer.ask('GET', '/events')), { started: clients })
    const retry = await open(port)
    t.match(JSON.parse(await retry.ask('POST', '/auth/refresh', { refresh_token: waiting[0]!.token })), { refresh_token: /^[\w-]+$/ })
    t.match(JSON.parse(await observer.ask('GET', '/events')), { refreshed: 1 })
    for (const client of [observer, retry]) client.giveUp()
  })
}
