/** Sessions in PostgreSQL 13 or later. */
import { setTimeout } from 'node:timers/promises'
import type { Advance, PostgresLike, PostgresSessionsOptions, SessionStore } from '../../../types/sessions.ts'
import { InvalidConfiguration } from '../../configuration-errors.ts'
import { quote, typeName } from '../../values.ts'
import { textLike } from '../../settings/kinds.ts'
import { optionsOf, preset, readRecord, readValue } from '../../settings/records.ts'
import { decide } from '../rotation.ts'
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
 * Returns the SQL that creates the table of {@link postgresSessions} and its indexes, and adds the columns that a table of an
 * earlier version lacks, for a migration of the application. It can be executed repeatedly, and by several processes at once.
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
  data text NOT NULL,
  parent integer NOT NULL DEFAULT 1,
  siblings integer NOT NULL DEFAULT 0,
  confirmed boolean NOT NULL DEFAULT false
) WITH (fillfactor = 80);
ALTER TABLE "${name}"
  ADD COLUMN IF NOT EXISTS parent integer NOT NULL DEFAULT 1,
  ADD COLUMN IF NOT EXISTS siblings integer NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS confirmed boolean NOT NULL DEFAULT false;
CREATE INDEX IF NOT EXISTS "${name}_user" ON "${name}" (user_id) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS "${name}_user_fed" ON "${name}" (user_id) WHERE ended_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS "${name}_ended" ON "${name}" (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS "${name}_ends" ON "${name}" (ends_at);
`
}

const now = 'clock_timestamp()'
const milliseconds = (value: string) => `(${value}::float8 * interval '1 millisecond')`
/**
 * Whether a session is active at a time. The time after which an unused session expires is part of the session: processes
 * with a shorter one must not take it for expired.
 */
const activeAt = (at: string) => `ended_at IS NULL AND ends_at > ${at} AND used_at > ${at} - ${milliseconds('idle_ms')}`
const active = activeAt(now)
/** Names without an underscore, which postgres.js may be set to change. */
const epoch = (column: string, name: string) => `(extract(epoch from ${column}) * 1000)::bigint::text AS ${name}`
/** Whether the server may still execute a call. */
const inTime = (deadline: string, at = now) => `${at} <= to_timestamp(${deadline}::float8 / 1000)`
/** How far the clocks of the servers of a cluster may differ, and how late a transaction may become visible, before only the complete read finds an ended session. In seconds. */
const overlap = 10

/**
 * The beginning of a statement that changes sessions: it locks them, and reads the clock as `at` when it has all locks. A lock
 * may have to be waited for, and PostgreSQL does not look at the conditions again where the transaction that had it is rolled
 * back. So what depends on the time is compared again with `at`. An aggregate returns only after its last row.
 */
const locking = (rows: string) => `WITH locked AS MATERIALIZED (${rows} FOR NO KEY UPDATE OF s),
      clock AS MATERIALIZED (SELECT count(*) AS count, ${now} AS at FROM locked)`

/** Whether the window, whose length is the fourth parameter, is over. */
const closed = (at: string) => `(rotated_at IS NULL OR rotated_at <= ${at} - ${milliseconds('$4')})`
const used = 'rotated_at = at, used_at = at'

function statementsOf (name: string) {
  // Quoted, so that letter case counts and reserved words are names.
  const table = `"${name}"`
  // now(), not clock_timestamp(), with which no index would be used.
  const gone = (column: string) => `${column} < now() - ${milliseconds('$7')} ORDER BY ${column} LIMIT 5`
  const remove = (condition: string) => `DELETE FROM ${table} WHERE sid IN (SELECT sid FROM ${table} WHERE ${condition} FOR UPDATE SKIP LOCKED)`
  /** The row of a call that writes: the sessions that it has ended, whether the call was too late and has done nothing, and the time of the server. */
  const answer = (ended: string, deadline: string) => `SELECT (SELECT coalesce(string_agg(sid, ','), '') FROM ${ended}) AS ended, (NOT ${inTime(deadline, 'at')})::text AS late, ${epoch(now, 'time')} FROM clock`
  /** Changes one session. `condition` compares with the time that it is given. */
  const change = (condition: (at: string) => string, deadline: string, values: string) => {
    const may = (at: string) => `s.sid = $1 AND user_id = $2 AND ${condition(at)} AND ${activeAt(at)} AND ${inTime(deadline, at)}`
    return `${locking(`SELECT sid AS id FROM ${table} s WHERE ${may(now)}`)}
      UPDATE ${table} s SET ${values} FROM clock, locked WHERE id = s.sid AND ${may('at')}
      RETURNING n::text, ${epoch(now, 'time')}`
  }
  /**
   * Ends sessions. A session that has ended before, and is still fed, is fed again: a transaction that had to wait for its
   * commit may have ended it so long ago that the processes that read the feed did not see it.
   */
  const end = (condition: string) => {
    const may = (at: string) => `user_id = $1 AND ${condition} AND (${activeAt(at)} OR ended_at > ${at} - ${milliseconds('$3')}) AND ${inTime('$4', at)}`
    return `${locking(`SELECT sid AS id, ended_at IS NOT NULL AS again FROM ${table} s WHERE ${may(now)} ORDER BY sid`)},
      ended AS (UPDATE ${table} s SET ended_at = at FROM clock, locked WHERE id = s.sid AND ${may('at')} RETURNING sid, again)
      ${answer('ended WHERE NOT again', '$4')}`
  }
  const endedWhere = (condition: string) =>
    // Seconds since 1970: the text of a timestamp would depend on the DateStyle of the connection. The ids are one text,
    // because the clients read a large array many times slower, and block the event loop for it.
    `SELECT extract(epoch from now())::text AS cursor, array_to_string(ARRAY(SELECT sid FROM ${table} WHERE ended_at ${condition}), ',') AS ended`
  // All columns are text: applications set the type parsers of their clients, also those of numbers and booleans.
  return {
    create: `${locking(`SELECT s.sid AS id FROM ${table} s, (
        SELECT sid, row_number() OVER (ORDER BY least(used_at + ${milliseconds('idle_ms')}, ends_at) DESC) AS place FROM ${table} WHERE user_id = $2 AND ${active}) mine
        WHERE mine.sid = s.sid AND place >= $6::int AND s.ended_at IS NULL AND ${inTime('$8')} ORDER BY s.sid`)},
      made AS (INSERT INTO ${table} (sid, user_id, created_at, used_at, ends_at, idle_ms, data) SELECT $1, $2, at, at, at + ${milliseconds('$4')}, $5, $3 FROM clock WHERE ${inTime('$8', 'at')}),
      ended AS (UPDATE ${table} s SET ended_at = at FROM clock, locked WHERE id = s.sid AND s.ended_at IS NULL AND ${inTime('$8', 'at')} RETURNING s.sid),
      unused AS (${remove(`user_id = $2 AND ended_at IS NULL AND NOT (${active})`)}),
      expired AS (${remove(gone('ends_at'))}),
      outdated AS (${remove(gone('ended_at'))})
      ${answer('ended', '$8')}`,
    // The lines of `decide` in rotation.ts that change a session. A member of the family, after the window:
    swap: change((at) => `n - siblings <= $3 AND n >= $3 AND ${closed(at)}`, '$6', `n = n + 1, parent = (n - $3 + 1)::integer, siblings = 0, confirmed = false, ${used}, idle_ms = $5`),
    // A member of several, within the window:
    receive: change(() => 'n - siblings <= $3 AND n >= $3 AND siblings > 0 AND NOT confirmed', '$4', 'confirmed = true, rotated_at = at'),
    // The parent. By its distance, not by the latest generation that was read, so that many late copies at once are all executed:
    reissue: change((at) => `n - parent = $3 AND CASE WHEN confirmed THEN NOT ${closed(at)} ELSE siblings > 0 OR ${closed(at)} END`, '$6', 'n = n + 1, parent = parent + 1, siblings = siblings + 1, rotated_at = CASE WHEN confirmed THEN rotated_at ELSE at END, used_at = at, idle_ms = $5'),
    look: `SELECT n::text, parent::text, siblings::text, confirmed::text, (rotated_at > ${now} - ${milliseconds('$3')})::text AS fresh, (NOT ${inTime('$4')})::text AS late, ${epoch(now, 'time')} FROM ${table} WHERE sid = $1 AND user_id = $2 AND ${active}`,
    jump: change(() => 'n < $3', '$5', `n = $3::bigint + 1, parent = 1, siblings = 0, confirmed = false, ${used}, idle_ms = $4`),
    // As text, because postgres.js serialises what it takes for JSON. In the order of their ids, so that two processes that confirm the same sessions do not wait for each other in a circle.
    confirm: `${locking(`SELECT s.sid AS id FROM ${table} s, json_to_recordset($1::text::json) AS given (sid text, "user" text, n bigint)
        WHERE s.sid = given.sid AND user_id = given."user" AND s.n - parent = given.n AND NOT confirmed AND ${active} AND ${inTime('$2')} ORDER BY s.sid`)},
      changed AS (UPDATE ${table} s SET confirmed = true, rotated_at = at FROM clock, locked WHERE id = s.sid AND NOT confirmed AND ${inTime('$2', 'at')})
      SELECT '' AS ended, (NOT ${inTime('$2', 'at')})::text AS late, ${epoch(now, 'time')} FROM clock`,
    endOne: end('s.sid = $2'),
    endAll: end('($2::text IS NULL OR s.sid <> $2)'),
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
/** The SQLSTATE of a table that does not exist, and of a column. */
const undefinedTable = '42P01'
const undefinedColumn = '42703'

function withRetries (query: Query, table: string): Query {
  return async (sql, values) => {
    let attempt = 1
    for (;;) {
      try {
        return await query(sql, values)
      } catch (error) {
        const { code } = Object(error)
        if (code === undefinedTable) throw new Error(`The table "${table}" does not exist. Create it with the SQL of postgresSessionSchema("${table}").`, { cause: error })
        if (code === undefinedColumn) throw new Error(`The table "${table}" is one of an earlier version. Execute the SQL of postgresSessionSchema("${table}"), which adds the missing columns.`, { cause: error })
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

  /** Executes what {@link decide} said. A rotation is tried again first, in the next round. */
  async function apply (outcome: Advance['outcome'], session: readonly unknown[], [graceMs, idleMs]: readonly [number, number], deadline: number): Promise<readonly Row[]> {
    if (outcome === 'recovered') return await query(sql.jump, [...session, idleMs, deadline])
    if (outcome === 'repeated') return await query(sql.receive, [...session, deadline])
    return outcome === 'reissued' ? await query(sql.reissue, [...session, graceMs, idleMs, deadline]) : []
  }

  return {
    async create ({ sid, user, lifetimeMs, data }, { idleMs, maxPerUser, keepMs }) {
      return await write(sql.create, [sid, user, data, lifetimeMs, idleMs, maxPerUser, keepMs], performance.now())
    },

    async advance (user, sid, n, { graceMs, idleMs, keepMs }) {
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
        if (found.late === 'true') {
          clock.requireTime(start)
          // Nothing was tried.
          round--
          continue
        }
        const family = { n: Number(found.n), parent: Number(found.parent), siblings: Number(found.siblings), confirmed: found.confirmed === 'true' }
        const { outcome, n: answer, change } = decide(family, n, found.fresh === 'true', graceMs === 0)
        if (outcome === 'reused') {
          const ended = await write(sql.endOne, [user, sid, keepMs], start)
          return ended.length === 0 ? { outcome: 'unknown', n: 0 } : { outcome, n: answer }
        }
        if (change === undefined) return { outcome, n: answer }
        // After a change by another request in the meantime, none of these changes a row.
        const [changed] = await apply(outcome, [sid, user, n], [graceMs, idleMs], deadline)
        if (changed !== undefined) return { outcome, n: outcome === 'repeated' ? answer : Number(changed.n) }
      }
      throw new Error('The session was changed again and again while it was refreshed.')
    },

    async end (user, which, { keepMs }) {
      const { sid, except = null }: { sid?: string, except?: string | null } = Object.assign(Object.create(null), which)
      return await write(sid === undefined ? sql.endAll : sql.endOne, [user, sid ?? except, keepMs], performance.now())
    },

    async list (user) {
      const rows = await query(sql.list, [user])
      return rows.map(({ sid, created, used, ends, data }) =>
        ({ sid: String(sid), createdAt: Number(created), usedAt: Number(used), endsAt: Number(ends), data: String(data) }))
    },

    async confirm (received) {
      await write(sql.confirm, [JSON.stringify(received)], performance.now())
    },

    async endedSince (cursor) {
      const [row] = cursor === null ? await query(sql.ended, []) : await query(sql.endedSince, [cursor])
      clock.learn(Number(row?.cursor) * 1000)
      return { ended: idsOf(row), cursor: String(row?.cursor) }
    }
  }
}
