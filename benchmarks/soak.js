/**
 * Sends a million requests of all kinds to one server and checks whether its memory and the number of its handles stay
 * constant; then the same for a million refreshes with sessions in memory, and in each database that this machine has. Usage:
 * `node benchmarks/soak.js [requests] [refreshes] [refreshes in each database]`.
 */
import { exchange, fetchOnce, getRequest, openConnections, postRequest } from './helper/client.js'
import { availableDatabases } from './helper/database.js'
import { startServer } from './helper/measure.js'
import { randomFrom } from './helper/statistics.js'
import { updateResults } from './results.js'
import { clients } from './stores.js'
import { soakDatabase } from './suites/database-soak.js'
import { soakSessions } from './suites/session-soak.js'
import { expiredTokens, forgedTokens, keysOf, manyTokens } from './tokens.js'

const published = 1_000_000
const total = Number(process.argv[2] ?? published)
const refreshTotal = Number(process.argv[3] ?? total)
const databaseTotal = Number(process.argv[4] ?? refreshTotal)
const samplesWanted = 10
/** Allowed growth of the heap after the first samples, when all caches are full: the noise of garbage collections. */
const allowedGrowth = 1.5 * 2 ** 20

const start = Date.now()
const random = randomFrom(1)
const oneOf = (list) => list[Math.floor(random() * list.length)]

const server = await startServer('soak', { algorithm: 'HS256', keys: keysOf('HS256') }, { flags: ['--expose-gc'] })
const connections = await openConnections(server.port, 32)

const logins = Array.from({ length: 1000 }, (_, index) => postRequest('/auth', { id: index + 1 }))
const refreshes = []
for (const login of logins.slice(0, 200)) {
  const { body } = await fetchOnce(connections, login)
  refreshes.push(postRequest('/auth/refresh', { refresh_token: body.refresh_token }, body.access_token))
}
const garbage = () => Buffer.from(Array.from({ length: 40 }, () => random() * 256)).toString('base64url')

/** For each kind: its requests, the expected status, and its percentage of all requests. */
const kinds = {
  valid: { requests: manyTokens(20_000).map((token) => getRequest(token)), status: 200, share: 35 },
  expired: { requests: expiredTokens(5000).map((token) => getRequest(token)), status: 401, share: 15 },
  forged: { requests: forgedTokens(5000).map((token) => getRequest(token)), status: 401, share: 15 },
  garbage: { requests: Array.from({ length: 5000 }, () => getRequest(`${garbage()}.${garbage()}.${garbage()}`)), status: 401, share: 10 },
  'no token': { requests: [getRequest(null)], status: 401, share: 5 },
  'wrong refresh token': { requests: manyTokens(200).map((token) => postRequest('/auth/refresh', { refresh_token: 'wrong' }, token)), status: 401, share: 5 },
  refresh: { requests: refreshes, status: 200, share: 10 },
  // Uses other users than the refresh requests, because a login replaces the stored refresh token.
  login: { requests: logins.slice(200), status: 200, share: 5 }
}
const mixture = Object.entries(kinds).flatMap(([kind, { share }]) => Array.from({ length: share }, () => kind))
const counts = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, 0]))

async function sendMixture (count) {
  const sent = []
  await exchange(connections, () => {
    const kind = oneOf(mixture)
    sent.push(kind)
    counts[kind]++
    return oneOf(kinds[kind].requests)
  }, count, (status, number) => {
    if (status !== kinds[sent[number]].status) throw new Error(`A request of the kind "${sent[number]}" was answered with ${status}.`)
  })
}

const samples = []
for (let sample = 1; sample <= samplesWanted; sample++) {
  await sendMixture(total / samplesWanted)
  samples.push({ after: sample * total / samplesWanted, ...await server.ask('memory') })
  console.log(samples.at(-1))
}

connections.forEach((connection) => connection.close())
await server.stop()

/** The first two samples fill the caches and warm up the compiler. */
function isFlat (samples) {
  const [reference, ...later] = samples.slice(1)
  return later.every(({ heap, external, handles }) => heap + external <= reference.heap + reference.external + allowedGrowth && handles <= reference.handles)
}

const isFlatOverall = isFlat(samples)
const minutes = (Date.now() - start) / 60_000
console.log(`${isFlatOverall ? 'Flat' : 'NOT FLAT'} after ${total.toLocaleString('en')} requests in ${minutes.toFixed(1)} minutes.`)

const sessionsStart = Date.now()
const sessions = { ...await soakSessions({ refreshes: refreshTotal, samplesWanted, random, isFlat }), minutes: (Date.now() - sessionsStart) / 60_000 }
console.log(`${sessions.isFlat ? 'Flat' : 'NOT FLAT'} after ${refreshTotal.toLocaleString('en')} refreshes in ${sessions.minutes.toFixed(1)} minutes; ${sessions.areAllAlive ? 'as many sessions are stored as are alive' : 'the stored sessions are NOT those that are alive'}.`)

const available = availableDatabases()
const databases = []
for (const client of ['ioredis', 'pg'].filter((name) => available.includes(clients[name].kind))) {
  const databaseStart = Date.now()
  const found = { ...await soakDatabase(client, { refreshes: databaseTotal, samplesWanted, isFlat }), minutes: (Date.now() - databaseStart) / 60_000 }
  databases.push(found)
  console.log(`${found.isFlat ? 'Flat' : 'NOT FLAT'} after ${databaseTotal.toLocaleString('en')} refreshes over ${client} in ${found.minutes.toFixed(1)} minutes; ${found.isRowPerSession ? '' : 'NOT '}one row a session.`)
}

if (databases.some((found) => !found.isFlat || !found.isRowPerSession)) process.exitCode = 1
if (!isFlatOverall || !sessions.isFlat || !sessions.areAllAlive) process.exitCode = 1
if (Math.min(total, refreshTotal, databaseTotal) >= published) updateResults({ soak: { requests: total, kinds: counts, samples, isFlat: isFlatOverall, minutes, sessions, databases } })
