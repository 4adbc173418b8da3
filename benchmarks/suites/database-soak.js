/**
 * Refreshes sessions in a database, and checks whether the memory of the server of the application and the data of the
 * database stay constant: one row, or key, a session.
 */
import { startDatabase } from '../helper/database.js'
import { exchange, fetchOnce, openConnections, postRequest } from '../helper/client.js'
import { startServer } from '../helper/measure.js'
import { clients } from '../stores.js'
import { keysOf } from '../tokens.js'

const connectionCount = 32
const users = 1000
const sessions = 2 * users
const batch = 1000
/** Allowed growth of the data after the first samples, as a part of it: buffers of connections, and rows that other transactions still see. */
const allowedGrowth = 0.1

/** What is asked of each kind of database: the number of rows or keys besides those of users, and the size of the data in bytes. */
const probes = {
  redis: async ({ command }) => ({
    rows: await command('DBSIZE') - users,
    bytes: Number(/used_memory:(\d+)/.exec(await command('INFO', 'memory'))[1])
  }),
  postgres: async ({ command }) => {
    const [row] = await command(`SELECT (SELECT count(*) FROM token_auth_sessions)::int AS rows, pg_total_relation_size('token_auth_sessions')::float8 AS bytes,
      n_tup_hot_upd::float8 / greatest(n_tup_upd, 1) AS hot FROM pg_stat_user_tables WHERE relname = 'token_auth_sessions'`)
    return row
  }
}

const bodyOf = (text) => JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4))
const refreshOf = (body) => postRequest('/auth/refresh', { refresh_token: body.refresh_token })

/**
 * @param client a name of benchmarks/stores.js
 * @param isFlat returns whether samples show constant memory
 */
export async function soakDatabase (client, { refreshes, samplesWanted, isFlat }) {
  const { kind, open } = clients[client]
  const database = await startDatabase(kind)
  const server = await startServer('refresh: sessions', { algorithm: 'HS256', keys: keysOf('HS256'), client, url: database.url }, { flags: ['--expose-gc'] })
  const probe = await open(database.url, { max: 1 })
  const connections = await openConnections(server.port, connectionCount)
  const requests = []
  for (let index = 0; index < sessions; index++) {
    const { body } = await fetchOnce(connections, postRequest('/auth', { id: index % users + 1 }))
    requests.push(refreshOf(body))
  }

  let sent = 0
  async function send (count) {
    const from = sent
    sent += count
    const placeOf = (number) => (from + number) % sessions
    await exchange(connections, (number) => requests[placeOf(number)], count, (status, number, text) => {
      if (status !== 200) throw new Error(`A refresh over ${client} was answered with ${status}.`)
      requests[placeOf(number)] = refreshOf(bodyOf(text))
    })
  }

  const samples = []
  for (let sample = 1; sample <= samplesWanted; sample++) {
    const after = Math.round(sample * refreshes / samplesWanted)
    while (sent < after) await send(Math.min(batch, after - sent))
    samples.push({ after, ...await server.ask('memory'), ...await probes[kind](probe) })
    console.log(samples.at(-1))
  }
  connections.forEach((connection) => connection.close())
  await server.stop()
  await probe.close()
  await database.stop()
  const [reference, ...later] = samples.slice(1)
  return {
    client,
    refreshes,
    samples,
    isFlat: isFlat(samples) && later.every(({ bytes }) => bytes <= reference.bytes * (1 + allowedGrowth)),
    isRowPerSession: samples.every(({ rows }) => rows === sessions)
  }
}
