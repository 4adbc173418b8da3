/** The store in PostgreSQL keeps the contract of stores with the clients of Neon, over HTTP and over WebSockets. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { neon, neonConfig, Pool } from '@neondatabase/serverless'
import pg from 'pg'
import t, { type Test } from 'tap'
import { WebSocket, WebSocketServer, createWebSocketStream } from 'ws'
import { postgresSessions, postgresSessionSchema, type SessionRules } from '../../../lib/index.ts'
import { sessionStoreTests } from '../../../lib/testing.ts'
import { skip, startDatabase } from '../../database.ts'

const rules: SessionRules = { graceMs: 30_000, idleMs: 600_000, keepMs: 60_000, maxPerUser: 100 }

/** A proxy as Neon has it in front of a server: statements come by `POST /sql`, and connections as WebSockets. */
async function startProxy (t: Test, url: string): Promise<string> {
  // What the server answers stays text, which the client parses.
  const pool = new pg.Pool({ connectionString: url, types: { getTypeParser: () => (text: unknown) => text } })
  t.teardown(async () => await pool.end())
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    let body = ''
    for await (const chunk of request.setEncoding('utf8')) body += chunk
    const { query: text, params: values } = JSON.parse(body)
    const result = await pool.query({ text, values, rowMode: 'array' })
      .then(({ fields, rows, command, rowCount }) => ({ fields, rows, command, rowCount, rowAsArray: true }), ({ message, code }) => ({ message, code }))
    response.writeHead('rows' in result ? 200 : 400, { 'content-type': 'application/json' }).end(JSON.stringify(result))
  }
  const server = createServer((request, response) => { answer(request, response).catch(() => response.destroy()) })
  new WebSocketServer({ server }).on('connection', (socket) => {
    const { port, hostname } = new URL(url)
    const stream = createWebSocketStream(socket)
    const other = connect(Number(port), hostname)
    for (const [from, to] of [[stream, other], [other, stream]] as const) from.on('error', () => {}).on('close', () => { to.destroy() }).pipe(to)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

// Promise: specification/other-postgres-clients
t.test('the store in PostgreSQL keeps every rule of the contract of stores with neon() over HTTP, and with the pool of Neon', { skip: skip.postgres }, async (t) => {
  const { url } = await startDatabase(t, 'postgres')
  const proxy = await startProxy(t, url)
  Object.assign(neonConfig, { fetchEndpoint: `http://${proxy}/sql`, wsProxy: () => proxy, webSocketConstructor: WebSocket, useSecureWebSocket: false, pipelineConnect: false })
  const pool = new Pool({ connectionString: url })
  pool.on('error', () => {})
  t.teardown(async () => await pool.end())
  await t.rejects(postgresSessions(neon(url)).list('1', rules), { message: /^The table "token_auth_sessions" does not exist\./ })
  await pool.query(postgresSessionSchema())
  for (const { name, run } of sessionStoreTests(() => postgresSessions(neon(url)), { clock: 'server', concurrency: 4 })) await t.test(name, run)
  // What it gives is what pg gives, or this with `fullResults`.
  for (const client of [neon(url, { fullResults: true }), pool]) {
    const store = postgresSessions(client)
    t.same(await store.create({ sid: 'a', user: '"ada"', lifetimeMs: 3_600_000, data: '{}' }, rules), [])
    t.same(await store.advance('"ada"', 'a', 0, rules), { outcome: 'rotated', n: 1 })
    t.match(await store.list('"ada"', rules), [{ sid: 'a', data: '{}' }])
    t.same(await store.end('"ada"', { except: null }, rules), ['a'])
    t.ok((await store.endedSince(null, rules)).ended.includes('a'))
    await pool.query('DELETE FROM token_auth_sessions')
  }
  // Lists in the place of rows would be taken for rows without columns.
  await t.rejects(postgresSessions(neon(url, { arrayMode: true })).endedSince(null, rules), { name: 'InvalidConfiguration' })
})
