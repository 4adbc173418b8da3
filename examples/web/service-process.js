/** One process of two-processes.js, which starts it and sends it what both processes must have in common. */
import { once } from 'node:events'
import { createService } from './server.js'
import { stores } from './stores.js'

// The process ends with the one that started it, also if that was killed or is gone already.
process.once('disconnect', () => process.exit())
if (!process.connected) process.exit()

const [{ name, url, secret, port }] = await once(process, 'message')
try {
  const store = await stores[name].open(url)
  const app = await createService({ store, secret, cookieSecure: process.env.COOKIE_SECURE !== 'false' })
  process.send({ address: await app.listen({ port, host: '127.0.0.1' }) })
} catch (error) {
  // For example because the port is in use.
  process.send({ failure: error.message })
}
