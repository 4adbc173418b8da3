/**
 * Measures what it costs to read the ended sessions from a database: the CPU time of its server for a poll, and how long a
 * process takes to read everything, and holds its event loop for it. Runs in a process of its own.
 */
import { randomBytes } from 'node:crypto'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout } from 'node:timers/promises'
import { EndedSessions } from '../../build/lib/sessions/revocation.js'
import { answerWith } from '../helper/cores.js'
import { summary } from '../helper/statistics.js'
import { clients, serverVersion } from '../stores.js'
import { databases as servers } from '../helper/server-time.js'

const endedCount = 100_000
const polls = 1000
/** Every so many reads of a feed, everything is read. */
const fullEvery = 60
const hour = 3_600_000
const rules = { graceMs: 30_000, idleMs: hour, keepMs: hour, maxPerUser: 100 }

/** For each kind of database: what writes ids that ended a minute ago. */
const databases = {
  redis: {
    async fill ({ command }, sids) {
      const [seconds] = await command('TIME')
      const lists = Array.from({ length: 16 }, () => [])
      sids.forEach((sid, index) => lists[index % 16].push((Number(seconds) - 60) * 1000, sid))
      await command('FLUSHALL')
      for (const [bucket, list] of lists.entries()) await command('ZADD', `token-auth:{${bucket.toString(16)}}:e`, ...list)
    }
  },
  postgres: {
    async fill ({ command }, sids) {
      await command('TRUNCATE token_auth_sessions')
      await command(`INSERT INTO token_auth_sessions (sid, user_id, ends_at, ended_at, idle_ms, data)
        SELECT sid, '1', now() + interval '1 hour', now() - interval '1 minute', 3600000, '{}' FROM unnest($1::text[]) AS sid`, [sids])
      await command('ANALYZE token_auth_sessions')
    }
  }
}

function newFeed (store) {
  const ended = new EndedSessions(store)
  return { ended, reader: { instanceName: 'tokenAuth', log: { info () {}, warn ({ err }) { throw err } }, rules, poll: hour / 1000 } }
}

/** Returns how long a read takes, and for how long it holds the event loop at most, in milliseconds. */
async function timeOfRead (read) {
  globalThis.gc()
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  // Otherwise, the first read would be over before the first measurement.
  await setTimeout(20)
  delay.reset()
  const start = performance.now()
  await read()
  const milliseconds = performance.now() - start
  await setTimeout(5)
  delay.disable()
  return { milliseconds, held: delay.max / 1e6 }
}

/** The reads of everything: the first one of a process, and a later one, which replaces what is known. */
async function fullReads ({ store }, repetitions) {
  const times = { first: [], later: [] }
  for (let count = 0; count < repetitions; count++) {
    const { ended, reader } = newFeed(store)
    times.first.push(await timeOfRead(() => ended.start(reader, 0)))
    for (let reads = 1; reads < fullEvery; reads++) await ended.read()
    times.later.push(await timeOfRead(() => ended.read()))
    await ended.stop(reader)
  }
  return Object.entries(times).map(([which, found]) => ({
    which, milliseconds: summary(found.map(({ milliseconds }) => milliseconds)), held: summary(found.map(({ held }) => held))
  }))
}

/** Milliseconds of CPU time of the server for a poll that finds nothing new, and the same for a poll less what the measurement takes. */
async function serverTimeOfPoll (connection, cpu) {
  let { cursor } = await connection.store.endedSince(null, rules)
  const before = await cpu(connection)
  for (let count = 0; count < polls; count++) ({ cursor } = await connection.store.endedSince(cursor, rules))
  const after = await cpu(connection)
  return before === undefined ? undefined : (after - before) / polls
}

answerWith(async ({ urls, repetitions }) => {
  const rows = []
  const versions = {}
  for (const [client, { kind, open }] of Object.entries(clients)) {
    if (urls[kind] === undefined) continue
    const connection = await open(urls[kind], { max: 1 })
    versions[kind] ??= await serverVersion(kind, connection)
    const bytes = randomBytes(16 * endedCount)
    await databases[kind].fill(connection, Array.from({ length: endedCount }, (_, index) => bytes.toString('base64url', 16 * index, 16 * index + 16)))
    rows.push({ client, kind, poll: await serverTimeOfPoll(connection, servers[kind].cpu), fullReads: await fullReads(connection, repetitions) })
    await connection.close()
  }
  return { ended: endedCount, rows, versions }
})
