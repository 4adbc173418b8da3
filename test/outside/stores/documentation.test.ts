/** docs/stores.md: its examples run with real servers, and its numbers are those of a measurement. */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import pg from 'pg'
import postgres from 'postgres'
import { createClient } from 'redis'
import t, { type Test } from 'tap'
import tokenAuth, { memorySessions, postgresSessions, postgresSessionSchema, redisSessions, type SessionStore } from '../../../lib/index.ts'
import { sessionStoreTests } from '../../../lib/testing.ts'
import { skip, startDatabase } from '../../database.ts'
import { authenticate, bearer, host, secret, users } from '../../helper.ts'
import { programsIn, programWith, run } from '../../programs.ts'
import { logout, refresh, started } from '../../sessions/helper.ts'

const page = readFileSync(new URL('../../../docs/stores.md', import.meta.url), 'utf8')
const programs = programsIn(page)
const hour = 3_600_000
const rules = { graceMs: 30_000, idleMs: 24 * hour, keepMs: hour, maxPerUser: 100 }

const given = (t: Test) => ({
  app: host(t),
  tokenAuth,
  secret,
  authenticate,
  retrieveUser: (_request: unknown, payload: { user_id: number }) => users.find((user) => user.user_id === payload.user_id),
  redisSessions,
  postgresSessions,
  postgresSessionSchema,
  Redis,
  createClient,
  pg,
  postgres,
  handler: async () => 'reached'
})

/** Sets an environment variable until the test ends. */
function setVariable (t: Test, name: string, value: string): void {
  process.env[name] = value
  t.teardown(() => { delete process.env[name] })
}

/** Runs an example, and uses the application that it makes. */
async function keepsSessions (t: Test, text: string): Promise<void> {
  const names = given(t)
  const { app } = names
  await run(programWith(programs, text), names)
  const { refresh_token: first } = await started(app)
  const answer = await refresh(app, first)
  t.equal(answer.statusCode, 200)
  const { refresh_token: second } = answer.json()
  t.equal((await refresh(app, first)).json().refresh_token, second, 'a repetition')
  t.equal((await logout(app, second)).statusCode, 204)
  t.equal((await refresh(app, second)).statusCode, 401)
  // Closes the client, too: the process would not end otherwise.
  await app.close()
}

t.test('every example sets the options with which its client notices dead connections, and does not end the process', async (t) => {
  const options: Record<string, RegExp> = {
    'new Redis(': /socketTimeout: 3000/,
    'createClient({': /socketTimeout: 3000, reconnectStrategy/,
    'new pg.Pool(': /query_timeout: 4000/,
    // A connection that breaks while it asks for types ends the process.
    'postgres(process': /fetch_types: false/
  }
  for (const [call, option] of Object.entries(options)) {
    const having = programs.filter((program) => program.includes(call))
    t.ok(having.length > 0, call)
    for (const program of having) t.match(program, option)
  }
})

t.test('the examples with Redis keep sessions', { skip: skip.redis }, async (t) => {
  const { url } = await startDatabase(t, 'redis')
  setVariable(t, 'REDIS_URL', url)
  for (const text of ['new Redis(', 'createClient({']) await keepsSessions(t, text)

  const client = new Redis(url)
  t.teardown(() => client.disconnect())
  const names = { ...given(t), client }
  await run(programWith(programs, 'authMode: false'), names)
  const issuer = host(t)
  await issuer.register(tokenAuth, { secret, authenticate, sessions: { store: redisSessions(client) } })
  const tokens = await started(issuer)
  const other = await started(issuer)
  await logout(issuer, tokens.refresh_token)
  await names.app.ready()
  for (const [{ access_token: token }, status] of [[tokens, 401], [other, 200]] as const) {
    t.equal((await names.app.inject({ url: '/private', headers: bearer(token) })).statusCode, status)
  }
})

t.test('the examples with PostgreSQL keep sessions', { skip: skip.postgres }, async (t) => {
  const { url } = await startDatabase(t, 'postgres')
  setVariable(t, 'DATABASE_URL', url)
  for (const text of ['new pg.Pool', 'postgres(process.env']) await keepsSessions(t, text)
})

t.test('the command for a migration prints the schema', async (t) => {
  const [, code = ''] = /`node -p "([^"]+)"`/.exec(page) ?? []
  t.match(code, 'postgresSessionSchema')
  const printed = execFileSync(process.execPath, ['-p', code.replace('fastify-token-auth', fileURLToPath(new URL('../../../dist/lib/index.js', import.meta.url)))], { encoding: 'utf8' })
  t.equal(printed.trim(), postgresSessionSchema().trim())
})

t.test('the example of store tests runs a test for each rule of a store', async (t) => {
  const names: string[] = []
  class MyStore {
    constructor () { Object.assign(this, memorySessions()) }
  }
  await run(programWith(programs, 'sessionStoreTests'), { sessionStoreTests, MyStore, test: (name: string, test: unknown) => { if (typeof test === 'function') names.push(name) } })
  t.equal(new Set(names).size, sessionStoreTests(memorySessions).length)
})

/** Creates sessions of as many users, refreshes each once, and gives their ids. */
async function fill (store: SessionStore, count: number): Promise<Array<{ user: string, sid: string }>> {
  const sessions = Array.from({ length: count }, (_, index) => ({ user: String(index), sid: randomBytes(16).toString('base64url') }))
  for (let start = 0; start < count; start += 100) {
    await Promise.all(sessions.slice(start, start + 100).map(async ({ user, sid }) => {
      await store.create({ user, sid, lifetimeMs: 24 * hour, data: '{"device":"Firefox on Windows"}' }, rules)
      await store.advance(user, sid, 0, rules)
    }))
  }
  return sessions
}

/** A size that the page gives, in bytes, and what may be rounded to it. */
function sizeOf (pattern: RegExp): { least: number, most: number } {
  const [, text = ''] = pattern.exec(page) ?? []
  const bytes = Number(text) * 1000
  if (!(bytes > 0)) throw new Error(`The page has no size like ${String(pattern)}.`)
  return { least: bytes - 100, most: bytes + 100 }
}

function isAbout (t: Test, bytes: number, { least, most }: { least: number, most: number }): void {
  t.ok(bytes >= least && bytes <= most, `${bytes} bytes, expected ${least} to ${most}`)
}

t.test('a session in Redis, and one that has ended, take as much memory as the page says', { skip: skip.redis }, async (t) => {
  const { url } = await startDatabase(t, 'redis')
  const client = new Redis(url)
  t.teardown(() => client.disconnect())
  await client.ping()
  const used = async () => Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1])
  const store = redisSessions(client)
  const before = await used()
  const sessions = await fill(store, 10_000)
  isAbout(t, (await used() - before) / sessions.length, sizeOf(/about ([\d.]+) kB of memory/))
  for (const { user, sid } of sessions) await store.end(user, { sid }, rules)
  isAbout(t, (await used() - before) / sessions.length, sizeOf(/about ([\d.]+) kB each, until/))
})

t.test('a session in PostgreSQL takes as much space as the page says', { skip: skip.postgres }, async (t) => {
  const { url } = await startDatabase(t, 'postgres')
  // Not several connections: when they wait for each other to add a page to the table, PostgreSQL adds many empty ones.
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  t.teardown(async () => await pool.end())
  await pool.query(postgresSessionSchema())
  const used = async () => Number((await pool.query("SELECT pg_total_relation_size('token_auth_sessions') AS size")).rows[0].size)
  const before = await used()
  await fill(postgresSessions(pool), 10_000)
  isAbout(t, (await used() - before) / 10_000, sizeOf(/about ([\d.]+) kB of disk/))
})
