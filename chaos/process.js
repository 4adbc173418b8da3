/** One process of the service. It is forked, and told what it needs by a message. */
import { once } from 'node:events'
import { createService } from './service.js'
import { clients } from './stores.js'

// The process ends with the one that started it.
process.once('disconnect', () => process.exit())
if (!process.connected) process.exit()

const [{ library, kind, client, addresses, ...options }] = await once(process, 'message')
const tokenAuth = await import(library)
const store = await clients[kind][client](tokenAuth, addresses)
const app = await createService(tokenAuth, { store, ...options })
await app.listen({ port: 0, host: '127.0.0.1' })
process.send({ port: app.server.address().port })
