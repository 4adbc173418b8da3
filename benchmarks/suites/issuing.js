/** Compares issuing tokens with a bare POST route, and measures how issuing delays other requests of the process. */
import { setTimeout } from 'node:timers/promises'
import { exchange, openConnections, postRequest } from '../helper/client.js'
import { compare, startServer } from '../helper/measure.js'
import { summary } from '../helper/statistics.js'
import { keysOf, manyTokens } from '../tokens.js'

const requests = [postRequest('/', { name: 'ada', password: 'lovelace' })]
const signers = ['fastify-token-auth', '@fastify/jwt', 'fast-jwt', 'node:crypto']

/** @param isWanted returns whether the comparison with a title is measured */
export async function issuing (settings, isWanted = (title) => !settings.isQuick || title === 'issuing HS256') {
  const results = []
  for (const algorithm of ['HS256', 'ES256', 'RS256']) {
    if (!isWanted(`issuing ${algorithm}`)) continue
    const options = { algorithm, keys: keysOf(algorithm), token: manyTokens(1, algorithm)[0] }
    const subjects = [
      { name: 'bare', server: 'bare POST' },
      { name: 'bare again', server: 'bare POST' },
      ...signers.map((name) => ({ name, server: `issue: ${name}` }))
    ].map((subject) => ({ ...subject, options, requests, status: 200 }))
    results.push(await compare(`issuing ${algorithm}`, algorithm === 'RS256' ? subjects.filter(({ name }) => name !== '@fastify/jwt') : subjects, settings))
  }
  return results
}

const connectionsUnderLoad = 4

/**
 * Measures how late timers fire while RS256 tokens are issued without a pause, in milliseconds in addition to an idle
 * process. The system assigns the cores here, because a thread pool would have no effect on a single core.
 */
export async function issuingDelay ({ delaySeconds, replicates }) {
  const options = { algorithm: 'RS256', keys: keysOf('RS256'), token: manyTokens(1, 'RS256')[0] }
  const rows = []
  for (const [name, server] of [['bare', 'bare POST'], ...signers.map((name) => [name, `issue: ${name}`])]) {
    const beyondIdle = []
    for (let count = 0; count < replicates; count++) {
      const running = await startServer(server, options, { isPinned: false })
      const connections = await openConnections(running.port, connectionsUnderLoad)
      const load = async (milliseconds) => {
        const end = Date.now() + milliseconds
        while (Date.now() < end) await exchange(connections, () => requests[0], 40, () => {})
      }
      await load(500)
      await running.ask('watch the event loop')
      await setTimeout(delaySeconds * 1000)
      const idle = await running.ask('event loop delay')
      await running.ask('watch the event loop')
      await load(delaySeconds * 1000)
      beyondIdle.push(await running.ask('event loop delay') - idle)
      connections.forEach((connection) => connection.close())
      await running.stop()
    }
    rows.push({ name, ...summary(beyondIdle) })
  }
  return rows
}
