/** Sessions in PostgreSQL 13 or later. */
import { setTimeout } from 'node:timers/promises'
import type { PostgresLike, PostgresSessionsOptions, SessionStore } from '../../../types/sessions.ts'
import { InvalidConfiguration } from '../../configuration-errors.ts'
import { quote, typeName } from '../../values.ts'
import { textLike } from '../../settings/kinds.ts'
import { optionsOf, preset, readRecord, readValue } from '../../settings/records.ts'
import { StoreClock } from './store-clock.ts'

/** Errors of options refer to this page of the documents. */
const place = { page: 'stores.md' } as const

type Row = Record<string, unknown>
type Query = (sql: string, values: readonly unknown[]) => Promise<readonly Row[]>

/** Leaves room for the names of the indexes: PostgreSQL cuts names off after 63 bytes. */
const maximumName = 48

const tableMember = preset(
  textLike(`1 to ${maximumName} letters, digits and "_", the first of them no digit`, (name) => name.length <= maximumName && /^[A-Za-z_]\w*$/.test(name), quote),
  'token_auth_sessions'
)

export const postgresShape = { members: { table: tableMember }, example: '{ table }', ...place } as const

/**
 * Returns the SQL that creates the table of {@link postgresSessions} and its indexes, for a migration of the application. It
 * can be executed repeatedly, and by several processes at once.
 * @param table at most 48 letters, digits and `_`
 * @throws {@link InvalidConfiguration} for another name
 */
export function postgresSessionSchema (table?: string): string {
  const name = readValue('The table that is given to postgresSessionSchema()', table, tableMember, place)
  // The lock, until the end of the transaction: PostgreSQL refuses a table that two processes create at once, despite IF NOT EXISTS.
  // No index has a column that a refresh changes, so that PostgreSQL updates the row within its page (HOT).
  return `SELECT pg_advisory_xact_lock(hashtext('${name}'));
CREATE TABLE IF NOT EXISTS "${name}" (
  sid text PRIMARY KEY,
  user_id text NOT NULL,
  n bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  used_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  rotated_at timestamptz,
  ends_at timestamptz NOT NULL,
  ended_at timestamptz,
  idle_ms bigint NOT NULL,
  data text NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX IF NOT EXISTS "${name}_user" ON "${name}" (user_id) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS "${name}_ended" ON "${name}" (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS "${name}_ends" ON "${name}" (ends_at);
`
}

const now = 'clock_timestamp()'
const milliseconds = (value: string) => `(${value}::float8 * interval '1 millisecond')`
/** The time after which an unused session expires is part of the session: processes with a shorter one must not take it for expired. */
const active = `ended_at IS NULL AND ends_at > ${now} AND used_at > ${now} - ${milliseconds('idle_ms')}`
/** Names without an underscore, which postgres.js may be set to change. */
const epoch = (column: string, name: string) => `(extract(epoch from ${column}) * 1000)::bigint::text AS ${name}`
/** Whether the server may still execute a call. */
const inTime = (deadline: string) => `${now} <= to_timestamp(${deadline}::float8 / 1000)`
/** How far the clocks of the servers of a cluster may differ, and how late a transaction may become visible, before only the complete read finds an ended session. In seconds. */
const overlap = 10

function statementsOf (name: string) {
  // Quoted, so that letter case counts and reserved words are names.
  const table = `"${name}"`
  // now(), not clock_timestamp(), with which no index would be used.
  const gone = (column: string) => `${column} < now() - ${milliseconds('$7')} ORDER BY ${column} LIMIT 5`
  const remove = (condition: string) => `DELETE FROM ${table} WHERE sid IN (SELECT sid FROM ${table} WHERE ${condition} FOR UPDATE SKIP LOCKED)`
  /** The row of a call that writes: the sessions that it has ended, whether the call was too late and has done nothing, and the time of the server. */
  const answer = (late: string) => `SELECT coalesce(string_agg(sid, ','), '') AS ended, (${late})::text AS late, ${epoch(now, 'time')} FROM ended`
  const end = (condition: string, deadline: string) =>
    // The server compares its time once: a statement does all or nothing.
    `WITH clock AS MATERIALIZED (SELECT ${inTime(deadline)} AS in_time),
      ended AS (UPDATE ${table} SET ended_at = ${now} WHERE user_id = $1 AND ${condition} AND ${active} AND (SELECT in_time FROM clock) RETURNING sid)
      ${answer('NOT (SELECT in_time FROM clock)')}`
  const endedWhere = (condition: string) =>
    // Seconds since 1970: the text of a timestamp would depend on the DateStyle of the connection. The ids are one text,
    // because the clients read a large array many times slower, and block the event loop for it.
    `SELECT extract(epoch from now())::text AS cursor, array_to_string(ARRAY(SELECT sid FROM ${table} WHERE ended_at ${condition}), ',') AS ended`
  // All columns are text: applications set the type parsers of their clients, also those of numbers and booleans.
  return {
    create: `WITH made AS (INSERT INTO ${table} (sid, user_id, ends_at, idle_ms, data) SELECT $1, $2, ${now} + ${milliseconds('$4')}, $5, $3 WHERE ${inTime('$8')} RETURNING sid),
      mine AS (
        SELECT sid, row_number() OVER (ORDER BY least(used_at + ${milliseconds('idle_ms')}, ends_at) DESC) AS place FROM ${table} WHERE user_id = $2 AND ${active}),
      ended AS (UPDATE ${table} s SET ended_at = ${now} FROM mine WHERE s.sid = mine.sid AND place >= $6::int AND s.ended_at IS NULL AND EXISTS (SELECT FROM made) RETURNING s.sid),
      unused AS (${remove(`user_id = $2 AND ended_at IS NULL AND NOT (${active})`)}),
      expired AS (${remove(gone('ends_at'))}),
      outdated AS (${remove(gone('ended_at'))})
      ${answer('NOT EXISTS (SELECT FROM made)')}`,
    swap: `UPDATE ${table} SET n = n + 1, rotated_at = ${now}, used_at = ${now}, idle_ms = $5
      WHERE sid = $1 AND user_id = $2 AND n = $3 AND ${active} AND (rotated_at IS NULL OR rotated_at <= ${now} - ${milliseconds('$4')}) AND ${inTime('$6')}
      RETURNING n::text, ${epoch(now, 'time')}`,
    look: `SELECT n::text, (rotated_at > ${now} - ${milliseconds('$3')})::text AS fresh, (NOT ${inTime('$4')})::text AS late, ${epoch(now, 'time')} FROM ${table} WHERE sid = $1 AND user_id = $2 AND ${active}`,
    jump: `UPDATE ${table} SET n = $3::bigint + 1, rotated_at = ${now}, used_at = ${now}, idle_ms = $4 WHERE sid = $1 AND user_id = $2 AND n < $3 AND ended_at IS NULL AND ${inTime('$5')} RETURNING n::text`,
    endOne: end('sid = $2', '$3'),
    endAll: end('($2::text IS NULL OR sid <> $2)', '$3'),
    list: `SELECT sid, ${epoch('created_at', 'created')}, ${epoch('used_at', 'used')}, ${epoch('ends_at', 'ends')}, data FROM ${table} WHERE user_id = $1 AND ${active}`,
    ended: endedWhere('IS NOT NULL'),
    endedSince: endedWhere(`> to_timestamp($1::float8 - ${overlap})`)
  }
}

/** Recognizes a client: pg and @fastify/postgres have `query`, postgres.js has `unsafe`. @throws {InvalidConfiguration} */
function queryOf (db: unknown): Query {
  const client: { query?: unknown, unsafe?: unknown } = Object(db)
  const { unsafe, query } = client
  if (typeof unsafe === 'function') return async (sql, values) => await Reflect.apply(unsafe, db, [sql, values])
  if (typeof query === 'function') return async (sql, values) => (await Reflect.apply(query, db, [sql, values])).rows
  throw new InvalidConfiguration(`The first parameter of postgresSessions() must be a pool or a client of pg, fastify.pg of @fastify/postgres, or what postgres.js returns; given: ${typeName(db)}.`, place)
}

/** Serialization failures and deadlocks, after which PostgreSQL asks for the transaction to be repeated. */
const repeatable: ReadonlySet<unknown> = new Set(['40001', '40P01'])
const attempts = 5
/** The longest pause before the second attempt, in milliseconds. Before each further attempt it is twice as long. */
const firstPause = 100
/** The SQLSTATE of a table that does not exist. */
const undefinedTable = '42P01'

function withRetries (query: Query, table: string): Query {
  return async (sql, values) => {
    let attempt = 1
    for (;;) {
      try {
        return await query(sql, values)
      } catch (error) {
        const { code } = Object(error)
        if (code === undefinedTable) throw new Error(`The table "${table}" does not exist. Create it with the SQL of postgresSessionSchema("${table}").`, { cause: error })
        if (attempt === attempts || !repeatable.has(code)) throw error
      }
      // At random, because transactions that failed at once would meet again.
      await setTimeout(Math.random() * firstPause * 2 ** (attempt - 1))
      attempt++
    }
  }
}

/** Reads ids that PostgreSQL returned as one text. Anything else is an error: no id would say that no session has ended. */
function idsOf (row: Row | undefined): string[] {
  const ended = row?.ended
  if (typeof ended !== 'string') throw new TypeError('The database returned something other than a text.')
  return ended === '' ? [] : ended.split(',')
}

/** How often `advance` looks again, because another request changed the session between two of its statements. */
const rounds = 4

/**
 * Creates a store in PostgreSQL. Create its table with {@link postgresSessionSchema}. Statements are not prepared, so that
 * transaction pools such as PgBouncer can be used.
 * @param db a pool or client of pg, `fastify.pg` of @fastify/postgres, or postgres.js
 * @throws {@link InvalidConfiguration} for another client, or a wrong name of the table
 */
export function postgresSessions (db: PostgresLike, options: PostgresSessionsOptions = {}): SessionStore {
  const { table } = readRecord(optionsOf('postgresSessions()'), options, postgresShape)
  const query = withRetries(queryOf(db), table)
  const sql = statementsOf(table)
  const clock = new StoreClock()

  /** Executes a statement that ends sessions, unless the server says that it is too late. @param start of the call, by `performance.now()` */
  async function write (statement: string, values: readonly unknown[], start: number): Promise<string[]> {
    for (;;) {
      const [row] = await query(statement, [...values, clock.deadline(start)])
      clock.learn(Number(row?.time))
      if (row?.late !== 'true') return idsOf(row)
      clock.requireTime(start)
    }
  }

  return {
    async create ({ sid, user, lifetimeMs, data }, { idleMs, maxPerUser, keepMs }) {
      return await write(sql.create, [sid, user, data, lifetimeMs, idleMs, maxPerUser, keepMs], performance.now())
    },

    async advance (user, sid, n, { graceMs, idleMs }) {
      const start = performance.now()
      for (let round = 1; round <= rounds; round++) {
        const deadline = clock.deadline(start)
        const [swapped] = await query(sql.swap, [sid, user, n, graceMs, idleMs, deadline])
        if (swapped !== undefined) {
          clock.learn(Number(swapped.time))
          return { outcome: 'rotated', n: Number(swapped.n) }
        }
        const [found] = await query(sql.look, [sid, user, graceMs, deadline])
        if (found === undefined) return { outcome: 'unknown', n: 0 }
        clock.learn(Number(found.time))
        const current = Number(found.n)
        if (found.late === 'true') {
          clock.requireTime(start)
          // Nothing was tried.
          round--
        } else if (n > current) {
          const [jumped] = await query(sql.jump, [sid, user, n, idleMs, deadline])
          if (jumped !== undefined) return { outcome: 'recovered', n: Number(jumped.n) }
        } else if (found.fresh === 'true' && n >= current - 1) {
          return { outcome: 'repeated', n: current }
        } else if (n < current) {
          const ended = await write(sql.endOne, [user, sid], start)
          return ended.length === 0 ? { outcome: 'unknown', n: 0 } : { outcome: 'reused', n: current }
        }
      }
      throw new Error('The session was changed again and again while it was refreshed.')
    },

    async end (user, which) {
      const { sid, except = null }: { sid?: string, except?: string | null } = Object.assign(Object.create(null), which)
      return sid === undefined ? await write(sql.endAll, [user, except], performance.now()) : await write(sql.endOne, [user, sid], performance.now())
    },

    async list (user) {
      const rows = await query(sql.list, [user])
      return rows.map(({ sid, created, used, ends, data }) =>
        ({ sid: String(sid), createdAt: Number(created), usedAt: Number(used), endsAt: Number(ends), data: String(data) }))
    },

    async endedSince (cursor) {
      const [row] = cursor === null ? await query(sql.ended, []) : await query(sql.endedSince, [cursor])
      clock.learn(Number(row?.cursor) * 1000)
      return { ended: idsOf(row), cursor: String(row?.cursor) }
    }
  }
}
