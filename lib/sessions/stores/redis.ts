/** Sessions in Redis 6.2, Valkey 7.2, or later. */
import type {
  Advance,
  IoredisLike,
  NodeRedisLike,
  ReceivedGeneration,
  RedisSessionsOptions,
  SessionStore
} from '../../../types/sessions.ts'
import { isDoneWithin, within } from '../../promises.ts'
import { memberOf, quote } from '../../values.ts'
import { textLike } from '../../settings/kinds.ts'
import { optionsOf, preset, readRecord } from '../../settings/records.ts'
import { closeStore, type Closable } from './closable.ts'
import { connectionOf, scriptOf, type Script } from './redis-clients.ts'
import { PrimaryConnection } from './redis-primary.ts'
import * as scripts from './redis-scripts.ts'
import { StoreClock } from './store-clock.ts'

/** Errors of options refer to this page of the documents. */
const errorOptions = { page: 'stores.md' } as const

/** Converts a list to strings. Any other value is an error, because an empty list would mean that no session has ended. */
function textsOf (list: unknown): string[] {
  if (!Array.isArray(list)) throw new TypeError('The database returned something other than a list.')
  return list.map(String)
}

const { create, advance, end, list, since, confirm } = {
  create: scriptOf(scripts.create),
  advance: scriptOf(scripts.advance),
  end: scriptOf(scripts.end),
  list: scriptOf(scripts.list),
  since: scriptOf(scripts.since),
  confirm: scriptOf(scripts.confirm)
}

/** The number of buckets: 16 spread over a cluster, and are few enough for each poll to read all. */
const bucketCount = 16

/** Keys that are on one node of a cluster. */
interface Bucket {
  /** The beginning of the keys. */
  readonly base: string
  /** The clock of the node. */
  readonly clock: StoreClock
}

/** The number of the bucket of a user: FNV-1a of the UTF-8 bytes. */
function bucketNumberOf (user: string): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(user)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  return hash % bucketCount
}

/** How far the clock of a new primary may be behind, in milliseconds. Beyond this, only the full read finds an ended session. */
const overlap = 10_000

/**
 * The time limit of a read of the feed, in milliseconds, because the server of a bucket may hang; and how long a full read
 * waits for one bucket before it starts to read the next one.
 */
const readTime = 4000
const turnTime = 250

/** The maximum number of sessions that one call confirms, so that it does not block the server for long. */
const confirmedAtOnce = 100

/** The answer of a bucket, or its error. */
type BucketRead = { readonly time: string, readonly ended: string[] } | { readonly error: unknown }

const outcomes = ['rotated', 'recovered', 'repeated', 'reissued', 'reused', 'unknown'] as const

function advanceOf (result: readonly string[]): Advance {
  const [text, n] = result
  const outcome = outcomes.find((known) => known === text)
  if (outcome === undefined) throw new TypeError('The script returned an unknown outcome.')
  return { outcome, n: Number(n) }
}

export const redisShape = {
  members: {
    // The first braces in a key determine its node in a cluster.
    prefix: preset(textLike('a non-empty text without braces', (text) => /^[^{}]+$/.test(text), quote), 'token-auth')
  },
  example: '{ prefix }',
  ...errorOptions
} as const

/**
 * Creates a store in Redis or Valkey: one server or a cluster. Set `maxmemory-policy noeviction`, because a server that evicts
 * keys logs users out, and forgets which sessions have ended.
 * @param client a connected client, or cluster, of ioredis, iovalkey or node-redis
 * @throws {@link InvalidConfiguration} for another client, or a prefix with braces
 */
export function redisSessions (client: IoredisLike | NodeRedisLike, options: RedisSessionsOptions = {}): SessionStore {
  const { prefix } = readRecord(optionsOf('redisSessions()'), options, redisShape)
  const connection = new PrimaryConnection(connectionOf(client))
  const run = connection.execute.bind(connection)
  const buckets = Array.from({ length: bucketCount }, (_, index): Bucket => ({
    base: `${prefix}:{${index.toString(16)}}`,
    clock: new StoreClock()
  }))
  const keysOf = (user: string) => {
    const { base, clock } = buckets[bucketNumberOf(user)]!
    return { sessions: `${base}:s:`, user: `${base}:u:${user}`, feed: `${base}:e`, clock }
  }

  /** Executes a script that writes. Repeats it with a new deadline if the server refuses it as late, within the time limit. */
  async function write (
    script: Script,
    clock: StoreClock,
    keys: readonly string[],
    values: ReadonlyArray<string | number>
  ): Promise<string[]> {
    const start = performance.now()
    for (;;) {
      try {
        return textsOf(await run(script, keys, [...values, clock.deadline(start)]))
      } catch (error) {
        const [, time] = /^LATE (\d+)/.exec(String(memberOf(error, 'message'))) ?? []
        if (time === undefined) throw error
        clock.learn(Number(time))
        clock.requireTime(start)
      }
    }
  }

  const store: Closable<SessionStore> = {
    async create ({ sid, user, lifetimeMs, data }, { idleMs, keepMs, maxPerUser }) {
      const keys = keysOf(user)
      return await write(
        create,
        keys.clock,
        [keys.sessions + sid, keys.user, keys.feed, keys.sessions],
        [sid, data, idleMs, lifetimeMs, keepMs, maxPerUser]
      )
    },

    async advance (user, sid, n, { graceMs, idleMs, keepMs }) {
      const keys = keysOf(user)
      return advanceOf(await write(advance, keys.clock, [keys.sessions + sid, keys.user, keys.feed], [sid, n, graceMs, idleMs, keepMs]))
    },

    async end (user, which, { keepMs }) {
      const keys = keysOf(user)
      const { sid, except }: { sid?: string; except?: string | null } = Object.assign(Object.create(null), which)
      return await write(
        end,
        keys.clock,
        [keys.user, keys.feed, keys.sessions],
        [...(sid === undefined ? ['except', except ?? ''] : ['sid', sid]), keepMs]
      )
    },

    async list (user) {
      const keys = keysOf(user)
      const rows = await run(list, [keys.user, keys.sessions], [])
      if (!Array.isArray(rows)) throw new TypeError('The script returned something other than a list.')
      return rows
        .map(textsOf)
        .map(([sid = '', createdAt, usedAt, endsAt, data = '']) => ({
          sid,
          createdAt: Number(createdAt),
          usedAt: Number(usedAt),
          endsAt: Number(endsAt),
          data
        }))
    },

    async confirm (received) {
      const byBucket = new Map<number, ReceivedGeneration[]>()
      for (const entry of received) {
        const bucket = bucketNumberOf(entry.user)
        byBucket.set(bucket, [...(byBucket.get(bucket) ?? []), entry])
      }
      const calls: Array<Promise<unknown>> = []
      for (const ofBucket of byBucket.values()) {
        for (let start = 0; start < ofBucket.length; start += confirmedAtOnce) {
          const entries = ofBucket.slice(start, start + confirmedAtOnce).map(({ sid, user, n }) => ({ sid, n, keys: keysOf(user) }))
          calls.push(
            write(
              confirm,
              entries[0]!.keys.clock,
              entries.flatMap(({ sid, keys }) => [keys.sessions + sid, keys.user]),
              entries.flatMap(({ sid, n }) => [sid, n])
            )
          )
        }
      }
      // Waits for all calls, even if one of the servers is down.
      const failed = (await Promise.allSettled(calls)).find((result) => result.status === 'rejected')
      if (failed !== undefined) throw failed.reason
    },

    async endedSince (cursor) {
      // The cursor has one time for each bucket, because they may be on servers with different clocks.
      const times = cursor?.split(',') ?? []
      const read = async ({ base, clock }: Bucket, index: number): Promise<BucketRead> => {
        const from = Number(times[index]) - overlap
        try {
          const [time = '', ...ended] = textsOf(await run(since, [`${base}:e`], [Number.isFinite(from) ? from : '-inf']))
          clock.learn(Number(time))
          return { time, ended }
        } catch (error) {
          return { error }
        }
      }
      const late = () => ({ error: new Error(`A Redis server did not answer within ${readTime / 1000} seconds.`) })
      const reads: Array<Promise<BucketRead>> = []
      for (const [index, bucket] of buckets.entries()) {
        const reading = within(readTime, () => read(bucket, index), late, false)
        reads.push(reading)
        // One after the other, because reading all of a large feed at once would block the event loop.
        if (cursor === null) await isDoneWithin(turnTime, () => reading)
      }
      const results = await Promise.all(reads)
      return feedOf(results, times)
    },

    [closeStore]: () => {
      connection.close()
    }
  }
  return store

  /** Combines the answers of the buckets. Buckets that could not be read keep the times of the previous cursor. */
  function feedOf (results: readonly BucketRead[], times: readonly string[]): Awaited<ReturnType<SessionStore['endedSince']>> {
    const ended: string[] = []
    const next: string[] = []
    let staleFor = 0
    let failed = 0
    for (const [index, result] of results.entries()) {
      const { [index]: time = '' } = times
      if ('time' in result) {
        ended.push(...result.ended)
        next.push(result.time)
      } else {
        // An empty time in the cursor means that the bucket was never read.
        staleFor = Math.max(staleFor, time === '' ? Infinity : buckets[index]!.clock.age(Number(time)))
        next.push(time)
        if (++failed === results.length) throw result.error
      }
    }
    return { ended, cursor: next.join(','), ...(staleFor > 0 && { staleFor }) }
  }
}
