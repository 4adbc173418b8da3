/**
 * A WebSocket that opens only with a valid token and closes when the token expires or its session ends.
 *
 *   node examples/websocket.js
 */
import { randomBytes } from 'node:crypto'
import websocket from '@fastify/websocket'
import Fastify from 'fastify'
import tokenAuth, { requestSerializer } from 'fastify-token-auth'
import { loginLine, passwordLogin, start, tokenLine } from './shared.js'

const users = [{ user_id: 1, name: 'ada', password: 'lovelace' }]

export async function createService ({ fastify } = {}) {
  // The token can be part of the URL in this example, so it must be removed from the log.
  const app = Fastify({ logger: { level: 'warn', serializers: { req: requestSerializer() } }, ...fastify })
  await app.register(websocket)
  await app.register(tokenAuth, {
    secret: randomBytes(32),
    authenticate: passwordLogin(users),
    sessions: {}
  })
  // Scripts in browsers cannot set headers for a WebSocket, so this route also reads the token from the query string.
  // In cookie mode, the guard would also refuse handshakes of other origins: see the setting trustedOrigins.
  const onRequest = app.tokenAuth.protect({ queryStringSet: true, queryStringStrict: false })
  app.get('/echo', { websocket: true, onRequest }, (socket, request) => {
    const { userId, signal } = request.tokenAuth
    // The guard ran only once, for the handshake. The signal aborts when the token is no longer valid. Clients can tell the
    // code 4401 from other reasons: they should log in, or refresh the token, before they connect again.
    const end = () => socket.close(4401, signal.reason.message)
    // A hook that is awaited between the guard and this handler gives it time to abort.
    if (signal.aborted) return end()
    signal.addEventListener('abort', end)
    socket.on('close', () => signal.removeEventListener('abort', end))
    socket.on('message', (message) => socket.send(`${userId}: ${message}`))
  })
  return app
}

await start(import.meta.filename, createService, (address) => `${loginLine(`${address}/auth`, { username: 'ada', password: 'lovelace' })}
# In the console of a browser:
# socket = new WebSocket('${address.replace('http', 'ws')}/echo?access_token=' + token); socket.onmessage = ({ data }) => console.log(data)
# socket.send('hello')
# After the logout, the socket closes:
${tokenLine(`${address}/auth/logout`, ' -X POST')}`)
