/** Services that only verify, and read from a PostgreSQL that hides rows, or from a replica (standby) that lags. */
import postgres from 'postgres'
import t, { type Test } from 'tap'
import { InvalidConfiguration, postgresSessions, type PostgresLike, type PostgresSessionsOptions, type SessionRules, type SessionStore } from '../../../lib/index.ts'
import { Network, skip, startDatabase } from '../../database.ts'
import { bearer, build, holdTimers, together } from '../../helper.ts'
import { logout, sessionEvents, started } from '../../sessions/helper.ts'
import { poolOf, postgresBackend } from '../../sessions/stores/backends.ts'

const rules: SessionRules = { graceMs: 30_000, idleMs: 600_000, keepMs: 600_000, maxPerUser: 3 }
const wait = () => new Promise(setImmediate)

const clients: Record<string, (t: Test, url: string) => PostgresLike> = {
  pg: (t, url) => poolOf(t, url),
  'postgres.js' (t, url) {
    const sql = postgres(url, { onnotice: () => {}, fetch_types: false })
    t.teardown(async () => await sql.end({ timeout: 1 }))
    return sql
  }
}

const urlOf = (url: string, username: string) => Object.assign(new URL(url), { username, password: 'password' }).href

/** A service that only verifies, with a guarded route. It reads once a second. */
async function verifier (t: Test, store: SessionStore, refuseAfter: number | null = null) {
  const log: string[] = []
  const app = await build(t, together({ authMode: false, authenticate: undefined, sessions: { store, poll: 1, refuseAfter } }), { logger: { level: 'info', stream: { write: (line: string) => { log.push(line) } } } })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  return { app, log, get: async (token: string) => (await app.inject({ url: '/', headers: bearer(token) })).statusCode }
}

const warningsOf = (log: readonly string[]) => log.map((line): { level: number } => JSON.parse(line)).filter(({ level }) => level === 40)

/** A service that issues tokens. */
async function issuer (t: Test, db: PostgresLike, options?: PostgresSessionsOptions) {
  const app = await build(t, together({ sessions: { store: postgresSessions(db, options), poll: 1 } }, {}))
  await app.ready()
  return app
}

const hidden = /^Row security is active on the table "token_auth_sessions" for the role of this connection, and may silently hide ended sessions\. Connect with a role that has BYPASSRLS, or, .* pass \{ allowRowSecurity: true \} to postgresSessions\(\)/

for (const [name, connect] of Object.entries(clients)) {
  // Promise: databases/row-security
  t.test(`${name}: with row security on the table, no service starts that would not see what ends, or could not end it`, { skip: skip.postgres }, async (t) => {
    const { server, pool } = await postgresBackend(t)
    await pool.query(`ALTER TABLE token_auth_sessions ENABLE ROW LEVEL SECURITY;
      CREATE ROLE reader LOGIN PASSWORD 'password'; GRANT SELECT (sid, ended_at) ON token_auth_sessions TO reader;
      CREATE ROLE writer LOGIN PASSWORD 'password'; GRANT SELECT, INSERT, UPDATE, DELETE ON token_auth_sessions TO writer;
      CREATE ROLE bypassing LOGIN BYPASSRLS PASSWORD 'password'; GRANT SELECT (sid, ended_at) ON token_auth_sessions TO bypassing`)
    const app = await issuer(t, connect(t, server.url))
    const { refresh_token: leaving, access_token: token } = await started(app)
    t.equal((await logout(app, leaving)).statusCode, 204)

    const db = connect(t, urlOf(server.url, 'reader'))
    const refused = await verifier(t, postgresSessions(db))
    const error = await refused.app.ready().then(() => undefined, (error: unknown) => error)
    t.type(error, InvalidConfiguration)
    t.match(error, { message: hidden })
    await t.rejects(issuer(t, connect(t, urlOf(server.url, 'writer'))), { message: hidden })

    const bypassing = await verifier(t, postgresSessions(connect(t, urlOf(server.url, 'bypassing'))))
    t.equal(await bypassing.get(token), 401)
    await pool.query('CREATE POLICY everything ON token_auth_sessions USING (true)')
    await t.rejects(async () => { await (await verifier(t, postgresSessions(db))).app.ready() }, { message: hidden }, 'a policy that shows all rows looks the same')
    const allowed = await verifier(t, postgresSessions(db, { allowRowSecurity: true }))
    t.equal(await allowed.get(token), 401)
    await t.resolves(started(await issuer(t, connect(t, urlOf(server.url, 'writer')), { allowRowSecurity: true })))
  })

  t.test(`${name}: row security that is switched on later is noticed with the next poll, also for an owner`, { skip: skip.postgres }, async (t) => {
    const { server, pool } = await postgresBackend(t)
    await pool.query("CREATE ROLE owner LOGIN PASSWORD 'password'; ALTER TABLE token_auth_sessions OWNER TO owner")
    const poll = holdTimers(t, 1000)
    const store = postgresSessions(connect(t, urlOf(server.url, 'owner')))
    const { app, log } = await verifier(t, store)
    await app.ready()
    const events = sessionEvents(t)
    await pool.query('ALTER TABLE token_auth_sessions ENABLE ROW LEVEL SECURITY')
    await t.resolves(store.endedSince('0', rules), 'it does not concern the owner')
    await pool.query('ALTER TABLE token_auth_sessions FORCE ROW LEVEL SECURITY')
    while (events.length === 0) {
      poll()
      await wait()
    }
    t.match(events, [{ type: 'stale' }])
    t.match(warningsOf(log), [{ err: { message: /Row security is active/ } }])
  })

  // Promise: databases/replica-lags
  t.test(`${name}: a service that reads from a replica knows how far it is behind, refuses after "refuseAfter" seconds, and learns what ended meanwhile`, { skip: skip.postgres }, async (t) => {
    const { app, pool, standby, operator, caughtUp, until, pass } = await replicated(t, connect)
    const [leaving, staying] = [await started(app), await started(app)]
    await caughtUp()
    const db = connect(t, urlOf(standby, 'reader'))
    const strict = await verifier(t, postgresSessions(db), 10)
    const lax = await verifier(t, postgresSessions(db))
    await Promise.all([strict.app.ready(), lax.app.ready()])
    const events = sessionEvents(t)
    const changes = () => events.flatMap(({ type }) => type === 'stale' || type === 'fresh' ? [type] : [])
    const all = async () => await Promise.all([strict, lax].flatMap(({ get }) => [get(leaving.access_token), get(staying.access_token)]))
    t.same(await all(), [200, 200, 200, 200])

    // As if the replica had stopped a minute ago.
    await pool.query("UPDATE token_auth_sessions SET ended_at = now() - interval '60 seconds' WHERE sid = 'heartbeat'")
    await caughtUp()
    await operator.query('SELECT pg_wal_replay_pause()')
    pass(20_000)
    t.equal((await logout(app, leaving.refresh_token)).statusCode, 204)
    await until(async () => (await strict.get(staying.access_token)) === 503 && changes().length === 2)
    t.same(await all(), [503, 503, 200, 200])
    for (const { log } of [strict, lax]) {
      t.match(warningsOf(log), [{ err: { message: /^The database is a standby, and the last heartbeat that it has replayed is 6\d seconds old\.$/ } }])
    }
    const store = postgresSessions(db)
    const [first, second] = [await store.endedSince(null, rules), await store.endedSince(null, rules)]
    t.equal(first.cursor, second.cursor, 'what is replayed later is not behind the cursor, however late that is')
    t.ok(Number(first.staleFor) >= 60_000)

    await operator.query('SELECT pg_wal_replay_resume()')
    await until(async () => changes().length === 4)
    t.same(await all(), [401, 200, 401, 200])
    t.same(changes(), ['stale', 'stale', 'fresh', 'fresh'])
  })

  t.test(`${name}: a primary that nobody reaches and one that does nothing are told apart`, { skip: skip.postgres }, async (t) => {
    const { app, network, standby, operator, caughtUp, poll, until } = await replicated(t, connect)
    const { access_token: token } = await started(app)
    await caughtUp()
    const db = connect(t, urlOf(standby, 'reader'))
    const { app: reader, get } = await verifier(t, postgresSessions(db), 4)
    await reader.ready()
    const store = postgresSessions(db)
    const age = async () => (await store.endedSince(null, rules)).staleFor ?? NaN
    const before = await age()
    // Nothing but heartbeats.
    poll()
    await until(async () => await age() < before)
    t.match(await store.endedSince(null, rules), { reason: null, staleFor: Number })
    t.equal(await get(token), 200)
    network.hang()
    const cut = await age()
    await until(async () => await age() > cut + 200)
    t.ok(true, 'the age grows, although the primary writes')
    // The standby takes its place.
    network.resume()
    // Without waiting: the snapshot of the query that waits would conflict with what is replayed.
    await operator.query('SELECT pg_promote(false)')
    while ((await operator.query('SELECT pg_is_in_recovery() AS standby')).rows[0].standby) await wait()
    t.notMatch(await store.endedSince(null, rules), { staleFor: Number })
  })

  // Promise: databases/replica-without-heartbeat
  t.test(`${name}: a service that reads from a replica without a heartbeat says so when it starts, and refuses what it knows to have ended`, { skip: skip.postgres }, async (t) => {
    const { app, standby, caughtUp, pass } = await replicated(t, connect, {})
    const [leaving, staying] = [await started(app), await started(app)]
    t.equal((await logout(app, leaving.refresh_token)).statusCode, 204)
    await caughtUp()
    const { app: reader, get, log } = await verifier(t, postgresSessions(connect(t, urlOf(standby, 'reader'))))
    const ready = new AbortController()
    const starting = reader.ready().then(() => { ready.abort() })
    while (!ready.signal.aborted) {
      pass(1000)
      await wait()
    }
    await starting
    t.match(warningsOf(log), [{ err: { message: /^The database is a standby, and has replayed no heartbeat, .* Pass \{ replicas: true \} to postgresSessions\(\) of the services that issue tokens\.$/ } }])
    t.equal(await get(leaving.access_token), 401)
    t.equal(await get(staying.access_token), 200)
  })

  t.test(`${name}: a heartbeat that cannot be written is an error at first, and later only for those that miss it; a standby writes none`, { skip: skip.postgres }, async (t) => {
    const { pool, primary, standby } = await replicated(t, connect)
    await t.rejects(postgresSessions(connect(t, urlOf(primary, 'reader')), { replicas: true }).endedSince(null, rules), /permission denied/)
    await t.resolves(postgresSessions(connect(t, standby), { replicas: true }).endedSince(null, rules))
    const store = postgresSessions(connect(t, primary), { replicas: true })
    const { cursor } = await store.endedSince(null, rules)
    await pool.query("ALTER TABLE token_auth_sessions ADD CONSTRAINT none CHECK (sid <> 'heartbeat') NOT VALID")
    for (let read = 0; read < 3; read++) t.same((await store.endedSince(cursor, rules)).ended, [])
  })
}

/** A primary whose service issues tokens and writes heartbeats, and a standby with a role that may read what ends. */
async function replicated (t: Test, connect: typeof clients[string], options: PostgresSessionsOptions = { replicas: true }) {
  const { server, pool } = await postgresBackend(t)
  await pool.query("CREATE ROLE reader LOGIN PASSWORD 'password'; GRANT SELECT (sid, ended_at) ON token_auth_sessions TO reader")
  const network = await Network.to(t, server.url)
  const { url: standby } = await startDatabase(t, 'postgres-standby', network.url)
  const operator = poolOf(t, standby)
  const real = performance.now.bind(performance)
  let passed = 0
  t.intercept(performance, 'now', { value: () => real() + passed })
  const poll = holdTimers(t, 1000)
  const app = await issuer(t, connect(t, server.url), options)
  return {
    app,
    pool,
    primary: server.url,
    network,
    standby,
    operator,
    poll,
    pass: (milliseconds: number) => { passed += milliseconds },
    /** Waits until the standby has everything. */
    async caughtUp () {
      const { rows: [{ at }] } = await pool.query('SELECT pg_current_wal_insert_lsn()::text AS at')
      while (!(await operator.query('SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS reached', [at])).rows[0].reached) await wait()
    },
    /** Polls until something is true. */
    async until (isTrue: () => Promise<boolean>) {
      while (!await isTrue()) {
        poll()
        await wait()
      }
    }
  }
}
