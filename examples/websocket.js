/**
 * A WebSocket that opens only with a valid token and closes when the token expires.
 *
 *   node examples/websocket.js
 */
import { randomBytes } from 'node:crypto'
import websocket from '@fastify/websocket'
import Fastify from 'fastify'
import tokenAuth, { requestSerializer } from 'fastify-token-auth'
import { loginLine, passwordLogin, start } from './shared.js'

const users = [{ user_id: 1, name: 'ada', password: 'lovelace' }]
const longestTimeout = 2 ** 31 - 1

export async function createService ({ fastify } = {}) {
  // The token can be part of the URL in this example, so it must be removed from the log.
  const app = Fastify({ logger: { level: 'warn', serializers: { req: requestSerializer() } }, ...fastify })
  await app.register(websocket)
  await app.register(tokenAuth, {
    secret: randomBytes(32),
    authenticate: passwordLogin(users)
  })
  // Scripts in browsers cannot set headers for a WebSocket, so this route also reads the token from the query string.
  // If you use cookies instead, check the Origin header: browsers send cookies with WebSocket handshakes of other sites, too.
  const onRequest = app.tokenAuth.protect({ queryStringSet: true, queryStringStrict: false })
  app.get('/echo', { websocket: true, onRequest }, (socket, request) => {
    const { userId, payload, settings } = request.tokenAuth
    // The guard ran only once, for the handshake. The route must close the connection when the token expires.
    const end = (payload.exp + settings.leeway) * 1000 - Date.now()
    const timer = setTimeout(() => socket.close(4401, 'The token has expired.'), Math.min(end, longestTimeout))
    socket.on('close', () => clearTimeout(timer))
    socket.on('message', (message) => socket.send(`${userId}: ${message}`))
  })
  return app
}

await start(import.meta.filename, createService, (address) => `${loginLine(`${address}/auth`, { username: 'ada', password: 'lovelace' })}
# In the console of a browser:
# socket = new WebSocket('${address.replace('http', 'ws')}/echo?access_token=' + token); socket.onmessage = ({ data }) => console.log(data)
# socket.send('hello')`)
