/** What it costs to confirm that refresh tokens were received: `npm run bench:rotation`. */
import { randomBytes } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Confirmations } from '../../build/lib/sessions/confirmations.js'
import { availableDatabases, startDatabases } from '../helper/database.js'
import { randomFrom, shuffled } from '../helper/statistics.js'
import { clients } from '../stores.js'
import { databases } from '../helper/server-time.js'

const hour = 3_600_000
const rules = { graceMs: 1, idleMs: hour, keepMs: hour, maxPerUser: 100 }

const newConfirmations = () => new Confirmations({ endedSince: async () => ({ ended: [], cursor: '' }), confirm: async () => {} })

/** Megabytes of the heap that the confirmations of a store object take when nothing more is kept. */
function heapWhenFull () {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc')
  const used = () => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const confirmations = newConfirmations()
  const before = used()
  for (let n = 0; n < 50_000; n++) {
    const sid = randomBytes(16).toString('base64url')
    confirmations.receive({ payload: { sgen: n } }, sid, () => String(n))
  }
  const megabytes = (used() - before) / 2 ** 20
  // Used once more, so that it is not collected before.
  confirmations.receive({ payload: {} }, '', () => '')
  return megabytes
}

/** Microseconds that the first use of an access token takes more in a process. */
function firstUse () {
  const count = 10_000
  const confirmations = newConfirmations()
  const tokens = Array.from({ length: count }, (_, n) => ({ payload: { sgen: n } }))
  const sids = tokens.map(() => randomBytes(16).toString('base64url'))
  const begin = performance.now()
  for (const [index, token] of tokens.entries()) confirmations.receive(token, sids[index], () => '1')
  return 1000 * (performance.now() - begin) / count
}

/** What the server of a database does for confirmations. */
async function writesOf (client, url) {
  const { kind, open } = clients[client]
  const { written, cpu } = databases[kind]
  const connection = await open(url, { max: 1 })
  const { store } = connection
  let made = Array.from({ length: 10_000 }, (_, index) => ({ sid: randomBytes(16).toString('base64url'), user: String(index), lifetimeMs: hour, data: '{}' }))
  for (const session of made) await store.create(session, rules)
  // Sessions that were created one after the other are on one page, and are seldom confirmed together.
  made = shuffled(made, randomFrom(1))
  const counted = async (call) => {
    const before = await written(connection)
    await call()
    return await written(connection) - before
  }
  const refresh = (n) => async () => { for (const { sid, user } of made) await store.advance(user, sid, n, rules) }
  const confirm = (n) => async () => { for (let from = 0; from < made.length; from += 1000) await store.confirm(made.slice(from, from + 1000).map(({ sid, user }) => ({ sid, user, n })), rules) }
  const perSession = async (call) => await counted(call) / made.length
  const first = await perSession(refresh(0))
  const begin = await cpu(connection)
  const confirmed = await perSession(confirm(0))
  const milliseconds = (await cpu(connection) - begin) / (made.length / 1000)
  const again = await perSession(confirm(0))
  // When each page has room for versions of its rows.
  const spread = async (n) => {
    await setTimeout(5)
    await refresh(n)()
    await confirm(n)()
  }
  for (let n = 1; n < 4; n++) await spread(n)
  const [updated, hotBefore] = [await written(connection), await databases[kind].hot?.(connection)]
  for (let n = 4; n < 6; n++) await spread(n)
  const hot = hotBefore === undefined ? undefined : (await databases[kind].hot(connection) - hotBefore) / (await written(connection) - updated)
  await connection.close()
  return { first, confirmed, again, milliseconds, hot }
}

const limitsOfServers = { redis: 20, postgres: 100 }

/** @returns the goals, each with what was found */
export async function rotation () {
  const { urls, stop } = await startDatabases(availableDatabases())
  const goals = []
  const most = (what, limit, found) => goals.push({ what, limit, found })
  try {
    firstUse()
    most('first use of an access token in a process, us', 5, firstUse())
    most('heap of the confirmations of a store object when they are full, MB', 6, heapWhenFull())
    for (const client of ['ioredis', 'pg']) {
      const { kind } = clients[client]
      if (urls[kind] === undefined) continue
      const { first, confirmed, again, milliseconds, hot } = await writesOf(client, urls[kind])
      console.log(`\n${client}: a refresh takes ${first.toFixed(2)} commands that write, or rows, its confirmation ${confirmed.toFixed(2)}, the same again ${again.toFixed(2)}`)
      most(`writes of a confirmation, ${client}`, 1, confirmed)
      most(`writes of a confirmation that was told before, ${client}`, 0, again)
      most(`CPU time of the server for 1,000 confirmations, ${client}, ms`, limitsOfServers[kind], milliseconds)
      if (hot !== undefined) most('updates of PostgreSQL that are not HOT', 0.01, 1 - hot)
    }
  } finally {
    await stop()
  }
  return goals
}
