// @waits
/** What becomes of sessions when a real server crashes, hangs, fails over, or is restored from a backup. */
import { setTimeout as wait } from 'node:timers/promises'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import type { SessionStore, TokenAuthOptions } from '../../../lib/index.ts'
import { Network, skip, startDatabase } from '../../database.ts'
import { bearer, build, holdTimers, payloadOf, together } from '../../helper.ts'
import { logout, received, refresh, sessionEvents, started, type Tokens } from '../../sessions/helper.ts'
import { kinds, postgresBackend, redisBackend, redisOperator } from '../../sessions/stores/backends.ts'
import { untilReachable } from '../../sessions/stores/rules.ts'

/** A process of an application, with a guarded route. It reads the ended sessions when it starts, and then once a minute. */
async function processWith (t: Test, store: SessionStore, options: Partial<TokenAuthOptions> = {}): Promise<FastifyInstance> {
  const app = await build(t, together({ sessions: { store, poll: 60 }, cookieSet: true, cookieStrict: false }, options))
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  await app.ready()
  return app
}

/** A client that has logged in, and keeps the tokens of its last good response. */
class Client {
  readonly sid: string
  #tokens: Tokens

  private constructor (tokens: Tokens) {
    this.#tokens = tokens
    this.sid = String(payloadOf(tokens.access_token).sid)
  }

  static async in (app: FastifyInstance, ...credentials: string[]): Promise<Client> {
    return new Client(await started(app, ...credentials))
  }

  static async severalIn (app: FastifyInstance, count: number): Promise<Client[]> {
    return await Promise.all(Array.from({ length: count }, async () => await Client.in(app)))
  }

  /** The refresh token, which somebody else may have, too. */
  get token (): string {
    return this.#tokens.refresh_token
  }

  /** Renews the tokens. @returns the status */
  async refresh (app: FastifyInstance): Promise<LightMyRequestResponse> {
    const answer = await refresh(app, this.#tokens.refresh_token)
    if (answer.statusCode === 200) this.#tokens = answer.json()
    return answer
  }

  /** Ends all sessions of its user. */
  async endAll (app: FastifyInstance): Promise<LightMyRequestResponse> {
    return await app.inject({ method: 'DELETE', url: '/auth/sessions', headers: bearer(this.#tokens.access_token) })
  }

  /** The status of a guarded route. */
  async get (app: FastifyInstance): Promise<number> {
    return (await app.inject({ url: '/', headers: bearer(this.#tokens.access_token) })).statusCode
  }
}

const statusOf = async (answer: Promise<LightMyRequestResponse>) => (await answer).statusCode

/** A store that counts the reads of its feed. */
function watchFeed (store: SessionStore) {
  const watched = {
    reads: 0,
    completeReads: 0,
    store: {
      ...store,
      async endedSince (...given: Parameters<SessionStore['endedSince']>) {
        const answer = await store.endedSince(...given)
        watched.reads++
        if (given[0] === null) watched.completeReads++
        return answer
      }
    }
  }
  return watched
}

/** Asks again until something is true. */
async function until (isTrue: () => Promise<boolean>): Promise<void> {
  while (!await isTrue()) await wait(10)
}

/** A refresh that failed in such a way that its client keeps its tokens and tries again. */
function expectUnavailable (t: Test, answer: LightMyRequestResponse): void {
  t.equal(answer.statusCode, 503)
  t.equal(answer.headers['retry-after'], '5')
  t.notOk(answer.headers['set-cookie'])
  t.match(answer.json(), { exception: 'SessionStoreUnavailable' })
}

/** Counts values. */
function count (values: readonly unknown[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const value of values) counts[String(value)] = (counts[String(value)] ?? 0) + 1
  return counts
}

/** Lets the time limit of calls expire until all of them have settled. */
async function giveUp<T> (expire: () => void, ...calls: Array<Promise<T>>): Promise<T[]> {
  const results = Promise.all(calls)
  const isPending = async () => await Promise.race([results, wait(50, null)]) === null
  while (await isPending()) expire()
  return await results
}

/** Makes time pass for this process. */
function passTime (t: Test): (milliseconds: number) => void {
  const real = performance.now.bind(performance)
  let passed = 0
  t.intercept(performance, 'now', { value: () => real() + passed })
  return (milliseconds) => { passed += milliseconds }
}

for (const [name, kind] of Object.entries(kinds)) {
  // Promise: databases/server-down-also
  t.test(`${name}: while the server is down, a refresh is 503, rotates nothing then or later, and every client goes on afterwards`, { skip: kind.skip }, async (t) => {
    const { server, counters } = await kind.start(t, ...kind.durable)
    const store = await kind.connect(t, server.url)
    const app = await processWith(t, store)
    const pass = passTime(t)
    const moving = await Client.severalIn(app, 20)
    const resting = await Client.severalIn(app, 20)
    const expire = holdTimers(t, 5000)

    // Some of them are rotated, some are not sent, and some are on their way when the server crashes.
    const answers = moving.map(async (client) => await client.refresh(app))
    await server.kill()
    const outcomes = await giveUp(expire, ...answers)
    for (const answer of outcomes) if (answer.statusCode !== 200) expectUnavailable(t, answer)
    // Some client libraries reject, and some wait for the server.
    pass(-6000)
    for (const answer of await giveUp(expire, ...resting.map(async (client) => await client.refresh(app)))) expectUnavailable(t, answer)
    pass(6000)
    t.equal(await moving[0]?.get(app), 200, 'a guard asks no server')

    await server.start()
    await untilReachable(store)
    const found = await counters()
    for (const { sid } of resting) t.equal(found[sid], 0, 'nothing was rotated')
    for (const [index, { sid }] of moving.entries()) if (outcomes[index]?.statusCode === 200) t.equal(found[sid], 1, 'nothing was lost')
    for (const client of [...moving, ...resting]) t.equal(await statusOf(client.refresh(app)), 200)
    t.same([...new Set(Object.values(await counters()))], [1])
  })

  for (const how of ['hangs', 'is cut'] as const) {
    // Promise: databases/network-hangs-breaks
    t.test(`${name}, with a network that ${how}: a refresh that its client library still has when it is given up is not executed later`, { skip: kind.skip }, async (t) => {
      const { server, counters, endWindows } = await kind.start(t, ...kind.durable)
      const network = await Network.to(t, server.url)
      const store = await kind.connect(t, network.url)
      const app = await processWith(t, store)
      const pass = passTime(t)
      // More than the connections of a pool.
      const clients = await Client.severalIn(app, 30)
      const expire = holdTimers(t, 5000)
      pass(-6000)
      network.hang()
      for (const answer of await giveUp(expire, ...clients.map(async (client) => await client.refresh(app)))) expectUnavailable(t, answer)
      pass(6000)
      if (how === 'is cut') network.cut()
      network.resume()
      await untilReachable(store)
      await wait(100)
      t.same(count(Object.values(await counters())), { 0: 30 })

      // The retry is the first use of its token, however late it comes.
      for (const client of clients) t.equal(await statusOf(client.refresh(app)), 200)
      t.same(count(Object.values(await counters())), { 1: 30 })
      await endWindows()
      for (const client of clients) t.equal(await statusOf(client.refresh(app)), 200)
    })
  }

  // Promise: databases/network-hangs-breaks
  t.test(`${name}: a login and a logout that its client library still has when they are given up are not executed later`, { skip: kind.skip }, async (t) => {
    const { server, counters } = await kind.start(t, ...kind.durable)
    const network = await Network.to(t, server.url)
    const store = await kind.connect(t, network.url)
    const rules = { graceMs: 30_000, idleMs: 600_000, keepMs: 600_000, maxPerUser: 1 }
    const sessionOf = (sid: string) => ({ sid, user: '1', lifetimeMs: 600_000, data: '{}' })
    await store.create(sessionOf('a'), rules)
    const pass = passTime(t)
    pass(-6000)
    network.hang()
    const calls = Promise.allSettled([store.create(sessionOf('b'), rules), store.end('1', { sid: 'a' }, rules), store.end('1', { except: null }, rules)])
    pass(6000)
    network.resume()
    for (const call of await calls) t.match(call, { status: 'rejected', reason: { message: 'The call reached the database after more than 5 seconds, and was not executed.' } })
    t.same(await counters(), { a: 0 })
    t.same((await store.endedSince(null, rules)).ended, [])
    // Their retries are executed.
    t.same(await store.create(sessionOf('b'), rules), ['a'])
    t.same(await store.end('1', { sid: 'b' }, rules), ['b'])
  })

  // Promise: databases/refresh-was-executed
  t.test(`${name}: an answer that comes after the response is dropped, and a retry gets the token that was lost, or after the window another one`, { skip: kind.skip }, async (t) => {
    const { server, counters, endWindows } = await kind.start(t, ...kind.durable)
    const network = await Network.to(t, server.url)
    const app = await processWith(t, await kind.connect(t, network.url))
    const [client, slow] = [await Client.in(app), await Client.in(app)]
    const expire = holdTimers(t, 5000)
    network.hang()
    for (const answer of await giveUp(expire, client.refresh(app), slow.refresh(app))) expectUnavailable(t, answer)
    const events = sessionEvents(t)
    network.resume()
    await until(async () => Object.values(await counters()).every((n) => n === 1))
    t.same(events, [], 'nobody hears of it')
    t.equal(await statusOf(client.refresh(app)), 200)
    t.match(events, [{ type: 'repeated', behind: 1, sessionId: client.sid }])
    await endWindows()
    t.equal(await statusOf(client.refresh(app)), 200)
    t.equal(await statusOf(slow.refresh(app)), 200, 'also after the window')
    t.match(events.at(-1), { type: 'refreshed', reissued: true, sessionId: slow.sid })
  })

  // Promise: databases/backup-restored
  t.test(`${name}: after a restored backup, clients go on; what came since is unknown; a stolen token is as good as one that was stolen just now`, { skip: kind.skip }, async (t) => {
    const { server, counters, endWindows, backUp } = await kind.start(t, ...kind.durable)
    const store = await kind.connect(t, server.url)
    const feed = watchFeed(store)
    const poll = holdTimers(t, 60_000)
    const app = await processWith(t, feed.store)
    const [honest, robbed, leaving] = [await Client.in(app), await Client.in(app), await Client.in(app)]
    const rotateAll = async () => {
      await endWindows()
      for (const client of [honest, robbed, leaving]) t.equal(await statusOf(client.refresh(app)), 200)
    }
    await rotateAll()
    const restore = await backUp()
    await rotateAll()
    const stolen = robbed.token
    await rotateAll()
    const fresh = await Client.in(app)
    t.equal(await statusOf(logout(app, leaving.token)), 204)
    await restore()
    t.same(await counters(), { [honest.sid]: 1, [robbed.sid]: 1, [leaving.sid]: 1 })
    await until(async () => {
      poll()
      return feed.completeReads === 2
    })
    t.equal(await leaving.get(app), 401, 'a process forgets no logout, although it reads everything again')

    const events = sessionEvents(t)
    t.equal(await statusOf(honest.refresh(app)), 200)
    t.match(events.splice(0), [{ type: 'refreshed', recovered: true, sessionId: honest.sid }])
    t.equal(await statusOf(fresh.refresh(app)), 401, 'a session that was created since')
    t.equal(await fresh.get(app), 200, 'its access token is good until it expires')
    t.equal(await statusOf(leaving.refresh(app)), 401, 'this process knows that it has ended')
    const other = await processWith(t, await kind.connect(t, server.url))
    t.equal(await statusOf(leaving.refresh(other)), 200, 'another one does not, because the logout is undone')

    // A token that was retired before the restore.
    events.splice(0)
    t.equal(await statusOf(refresh(app, stolen)), 200)
    t.match(events.splice(0), [{ type: 'refreshed', recovered: true, sessionId: robbed.sid }])
    const { refresh_token: thief } = (await refresh(app, stolen)).json()
    t.equal(await statusOf(robbed.refresh(app)), 200, 'both have the same token now')
    t.equal(robbed.token, thief)
    await endWindows()
    t.equal(await statusOf(robbed.refresh(app)), 200)
    await received(store, thief)
    await endWindows()
    t.equal(await statusOf(refresh(app, thief)), 401, 'the second one after the window is found out')
    t.equal(await statusOf(robbed.refresh(app)), 401, 'and the session has ended for both')
    t.match(events.at(-1), { type: 'reused', behind: 1, sessionId: robbed.sid })
  })
}

for (const name of ['ioredis', 'node-redis']) {
  // Promise: databases/failover-replica-behind
  t.test(`${name}: after a failover that loses writes, all clients go on; logouts are undone in the store, but not for processes that had read them, also when these read everything again`, { skip: skip.redis }, async (t) => {
    const primary = await redisBackend(t, '--repl-diskless-sync-delay', '0')
    const replica = await startDatabase(t, 'redis')
    const operator = redisOperator(t, replica.url)
    const { port, hostname } = new URL(primary.server.url)
    await operator.replicaof(hostname, Number(port))
    const network = await Network.to(t, primary.server.url)
    const connect = kinds[name]!.connect
    const store = await connect(t, network.url)
    const app = await processWith(t, store)
    const poll = holdTimers(t, 1000)
    const feed = watchFeed(await connect(t, network.url))
    const reader = await processWith(t, feed.store, { sessions: { store: feed.store, poll: 1 } })
    const staying = await Client.severalIn(app, 20)
    const leaving = await Client.severalIn(app, 5)
    for (const client of [...staying, ...leaving]) await client.refresh(app)
    await until(async () => (await operator.keys('*:s:*')).length === 25 && Number(await operator.hget((await operator.keys(`*:s:${leaving.at(-1)!.sid}`))[0]!, 'n')) === 1)
    // From here on, the replica receives nothing.
    await operator.replicaof('NO', 'ONE')
    await primary.endWindows()
    for (const client of staying) t.equal(await statusOf(client.refresh(app)), 200)
    const fresh = await Client.in(app)
    for (const { token } of leaving) t.equal(await statusOf(logout(app, token)), 204)
    poll()
    await until(async () => (await Promise.all(leaving.map((client) => client.get(reader)))).every((status) => status === 401))

    network.moveTo(replica.url)
    await untilReachable(store)
    await until(async () => {
      poll()
      return feed.completeReads === 2
    })
    const events = sessionEvents(t)
    for (const client of staying) t.equal(await statusOf(client.refresh(app)), 200)
    t.same(count(events.map((event) => 'recovered' in event && event.recovered)), { true: 20 })
    t.equal(await statusOf(fresh.refresh(app)), 401, 'a session that was created since')
    t.equal((await app.tokenAuth.sessions.list(1)).length, 25, 'the logouts are undone')
    const late = await processWith(t, await connect(t, network.url))
    for (const client of leaving) {
      t.equal(await client.get(app), 401)
      t.equal(await client.get(reader), 401)
      t.equal(await client.get(late), 200, 'a process that starts afterwards knows nothing of them')
      for (const process of [app, reader]) t.equal(await statusOf(client.refresh(process)), 401)
      t.equal(await statusOf(client.refresh(late)), 200)
    }
  })
}

// Promise: databases/redis-killed
t.test('Redis that is killed loses nothing that is in its append-only file, and without persistence all sessions: users log in again, and no refresh is a 503', { skip: skip.redis }, async (t) => {
  for (const [parameters, status] of [[['--appendonly', 'yes', '--appendfsync', 'everysec'], 200], [[], 401]] as const) {
    const { server, counters, endWindows } = await redisBackend(t, ...parameters)
    const store = await kinds['node-redis']!.connect(t, server.url)
    const app = await processWith(t, store)
    const [client, ...others] = await Client.severalIn(app, 50)
    for (const other of others) await other.refresh(app)
    // While the disk is busy, Redis answers before it writes, for two seconds at most.
    const operator = redisOperator(t, server.url)
    if (status === 200) await until(async () => (await operator.info('persistence')).includes('aof_buffer_length:0\r'))
    await server.kill()
    await server.start()
    await untilReachable(store)
    t.same(count(Object.values(await counters())), status === 200 ? { 0: 1, 1: 49 } : {})
    await endWindows()
    for (const each of [client!, ...others]) t.equal(await statusOf(each.refresh(app)), status)
    t.equal(await client?.get(app), 200, 'access tokens are good until they expire')
    t.equal(await statusOf((await Client.in(app)).refresh(app)), 200)
  }
})

// Promise: databases/network-hangs-breaks
t.test('a table of PostgreSQL that is locked for longer than a refresh waits rotates nothing when it is unlocked', { skip: skip.postgres }, async (t) => {
  const { server, pool, counters } = await postgresBackend(t)
  const store = await kinds.pg!.connect(t, server.url)
  const app = await processWith(t, store)
  const pass = passTime(t)
  const clients = await Client.severalIn(app, 30)
  const expire = holdTimers(t, 5000)
  const migration = await pool.connect()
  await migration.query('BEGIN; LOCK TABLE token_auth_sessions')
  pass(-6000)
  for (const answer of await giveUp(expire, ...clients.map(async (client) => await client.refresh(app)))) expectUnavailable(t, answer)
  pass(6000)
  await migration.query('COMMIT')
  migration.release()
  await untilReachable(store)
  t.same(count(Object.values(await counters())), { 0: 30 })
  for (const client of clients) t.equal(await statusOf(client.refresh(app)), 200)
})

for (const name of ['pg', 'postgres.js']) {
  t.test(`${name}: while PostgreSQL waits for a standby that does not answer, refreshes and logouts are 503 and executed; every client goes on afterwards, and who logged out is out, everywhere after a poll`, { skip: skip.postgres }, async (t) => {
    const { server, pool, counters } = await postgresBackend(t)
    const standBy = async (standby: string) => {
      await pool.query(`ALTER SYSTEM SET synchronous_standby_names = '${standby}'`)
      await pool.query('SELECT pg_reload_conf()')
      await until(async () => (await pool.query('SHOW synchronous_standby_names')).rows[0].synchronous_standby_names === standby)
    }
    const connect = async () => await kinds[name]!.connect(t, server.url)
    const app = await processWith(t, await connect())
    const [clients, leaving, staying] = [await Client.severalIn(app, 5), await Client.in(app), await Client.in(app)]
    const everywhere = await Client.in(app, 'grace', 'hopper')
    const poll = holdTimers(t, 1000)
    const feed = watchFeed(await connect())
    const reader = await processWith(t, feed.store, { sessions: { store: feed.store, poll: 1 } })
    await standBy('stopped')
    const store = await connect()
    const waiting = await processWith(t, store)
    const expire = holdTimers(t, 5000)
    /** Gives up when the server has executed all, and waits for the standby. */
    const giveUpExecuted = async <T>(...calls: Array<Promise<T>>): Promise<T[]> => {
      await until(async () => (await pool.query("SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'")).rows.length === calls.length)
      return await giveUp(expire, ...calls)
    }
    const leave = () => [statusOf(logout(waiting, leaving.token)), statusOf(everywhere.endAll(waiting))]
    for (const answer of await giveUpExecuted(...clients.map(async (client) => await client.refresh(waiting)))) expectUnavailable(t, answer)
    await standBy('')
    await untilReachable(store)
    await standBy('stopped')
    t.same(await giveUpExecuted(...leave()), [503, 503])
    await standBy('')
    await untilReachable(store)
    t.match(await counters(), Object.fromEntries(clients.map(({ sid }) => [sid, 1])), 'what was answered with 503 was executed')
    // As if it had waited for minutes: a poll does not look back so far.
    await pool.query("UPDATE token_auth_sessions SET ended_at = ended_at - interval '2 minutes'")
    for (const [index, client] of clients.entries()) t.equal(await statusOf(client.refresh(index % 2 === 0 ? app : waiting)), 200)
    t.same(await Promise.all(leave()), [204, 204])
    t.same(await Promise.all([leaving, everywhere, staying].map((client) => client.get(waiting))), [401, 401, 200])
    const other = await processWith(t, store)
    t.same([await leaving.get(other), await statusOf(leaving.refresh(other))], [401, 401], 'in another process, too')
    t.same(await Promise.all([leaving, everywhere, staying].map((client) => client.get(reader))), [200, 200, 200])
    poll()
    await until(async () => feed.reads === 2)
    t.same(await Promise.all([leaving, everywhere, staying].map((client) => client.get(reader))), [401, 401, 200])
  })
}
