/** Sessions in PostgreSQL 13 or later. */
import { setTimeout } from 'node:timers/promises'
import type { Advance, PostgresLike, PostgresSessionsOptions, ReceivedGeneration, SessionStore } from '../../../types/sessions.ts'
import { InvalidConfiguration } from '../../configuration-errors.ts'
import { memberOf, quote } from '../../values.ts'
import { flag, textLike } from '../../settings/kinds.ts'
import { optionsOf, preset, readRecord, readValue } from '../../settings/records.ts'
import { decide } from '../rotation.ts'
import { NotWritten } from './not-written.ts'
import { queryOf, type Query, type Row } from './postgres-clients.ts'
import { quotedTable, statementsOf } from './postgres-statements.ts'
import { StoreClock, storeTimeoutMs } from './store-clock.ts'

/** Errors of options refer to this page of the documents. */
const errorOptions = { page: 'stores.md' } as const

/** The longest name of a table. It leaves room for the names of indexes, because PostgreSQL truncates names after 63 bytes. */
const maximumName = 48

/** The name of a table, optionally with a schema: `schema.table`. */
const tableForm = /^(?:[A-Za-z_]\w{0,62}\.)?[A-Za-z_]\w*$/

const tableMember = preset(
  textLike(
    `1 to ${maximumName} letters, digits and "_", the first of them no digit, perhaps after the name of a schema and a dot`,
    (name) => tableForm.test(name) && nameIn(name).length <= maximumName,
    quote
  ),
  'token_auth_sessions'
)

/** Returns the name of a table without its schema. */
function nameIn (table: string): string {
  return table.slice(table.indexOf('.') + 1)
}

export const postgresShape = {
  members: {
    table: tableMember,
    // Whether the application states that the policies of row security allow to read and change every row.
    allowRowSecurity: preset(flag, false),
    replicas: preset(flag, false)
  },
  example: '{ table }',
  ...errorOptions
} as const

/** The age of a heartbeat that never causes a warning, in milliseconds. An age of three times the poll interval causes none either. */
const usualAge = 5000

/**
 * Returns the SQL that creates the table of {@link postgresSessions} and its indexes, for a migration of the application.
 * It can be executed repeatedly, and by several processes at once.
 * @param table at most 48 letters, digits and `_`, optionally after the name of an existing schema and a dot
 * @throws {@link InvalidConfiguration} for another name
 */
export function postgresSessionSchema (table?: string): string {
  const name = readValue('The table that is given to postgresSessionSchema()', table, tableMember, errorOptions)
  const [quoted, index] = [quotedTable(name), nameIn(name)]
  // The lock lasts until the end of the transaction: concurrent creation of a table fails in spite of IF NOT EXISTS. No
  // index contains a column that a refresh changes, so that PostgreSQL updates the row within its page (HOT).
  return `SELECT pg_advisory_xact_lock(hashtext('${name}'));
CREATE TABLE IF NOT EXISTS ${quoted} (
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
CREATE INDEX IF NOT EXISTS "${index}_user" ON ${quoted} (user_id) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS "${index}_user_fed" ON ${quoted} (user_id) WHERE ended_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS "${index}_ended" ON ${quoted} (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS "${index}_ends" ON ${quoted} (ends_at);
`
}

/** The SQLSTATE of serialization failures and deadlocks, after which the transaction should be repeated. */
const repeatable: ReadonlySet<unknown> = new Set(['40001', '40P01'])
const attempts = 5
/** The longest pause before the second attempt, in milliseconds. Before each further attempt it is twice as long. */
const firstPause = 100
/** The SQLSTATE of a table that does not exist. */
const undefinedTable = '42P01'
/** The SQLSTATE of a lock that was not available within `lock_timeout`. */
const lockNotAvailable = '55P03'
/** How long a call of `confirm` waits for locked sessions, in milliseconds. */
const confirmTime = 3000

function withRetries (query: Query, table: string): Query {
  return async (sql, values) => {
    let attempt = 1
    for (;;) {
      try {
        return await query(sql, values)
      } catch (error) {
        const { code } = Object(error)
        if (code === undefinedTable) {
          throw new Error(`The table "${table}" does not exist. Create it with the SQL of postgresSessionSchema("${table}").`, {
            cause: error
          })
        }
        if (attempt === attempts || !repeatable.has(code)) throw error
      }
      // A random pause, so that transactions that failed together do not collide again.
      await setTimeout(Math.random() * firstPause * 2 ** (attempt - 1))
      attempt++
    }
  }
}

/** Reads ids from a comma-separated text. Any other value is an error, because an empty list would mean that no session has ended. */
function idsOf ({ ids }: Row): string[] {
  if (typeof ids !== 'string') throw new TypeError('The database returned something other than a text.')
  return ids === '' ? [] : ids.split(',')
}

const rowSecurityError = (table: string) =>
  new InvalidConfiguration(
    `Row security is active on the table "${table}" for the role of this connection, and may silently hide ended sessions. Connect with a role that has BYPASSRLS, or, if the policies let this role read and change every row, pass { allowRowSecurity: true } to postgresSessions().`,
    errorOptions
  )

/**
 * Computes how old the answers of a standby are: the larger of the age of its last replayed heartbeat, by the clocks of the
 * servers, which may be wrong or set, and the time since this process has read a new one.
 */
class ReplayedHeartbeats {
  #last: unknown
  #seenAt = 0

  /**
   * @param row `beat`: the time of the last heartbeat, `time`: that of the server, in milliseconds since 1970, as text
   * @param begun when the read began, by `performance.now()`
   * @param usual the age up to which there is no warning, in milliseconds
   */
  ageOf ({ beat, time }: Row, begun: number, usual: number): { staleFor: number; reason: string | null } {
    if (typeof beat !== 'string') {
      return {
        staleFor: Infinity,
        reason:
          'The database is a standby, and has replayed no heartbeat, so its delay is unknown. Pass { replicas: true } to postgresSessions() of the services that issue tokens.'
      }
    }
    if (beat !== this.#last) {
      this.#last = beat
      this.#seenAt = begun
    }
    const staleFor = Math.max(Number(time) - Number(beat), begun - this.#seenAt, 0)
    return {
      staleFor,
      reason:
        staleFor > usual
          ? `The database is a standby, and the last heartbeat that it has replayed is ${Math.round(staleFor / 1000)} seconds old.`
          : null
    }
  }
}

/**
 * Returns a function that writes a heartbeat. It waits only for the first one, so that errors, such as a missing right, are
 * reported. Failures of later ones must not disturb the reads of this process; readers of replicas notice them.
 */
function heartbeats (write: () => Promise<unknown>): () => Promise<void> {
  let writing: Promise<void> | undefined
  let begun = 0
  let isFirst = true
  return async () => {
    // A heartbeat that hangs is given up after the time limit of store calls.
    if (performance.now() - begun >= storeTimeoutMs) writing = undefined
    if (writing === undefined) {
      begun = performance.now()
      const current = write().then(() => { isFirst = false }).finally(() => { if (writing === current) writing = undefined })
      writing = current
    }
    if (isFirst) await writing
    else writing.catch(() => {})
  }
}

/** How often `advance` tries again if another request changes the session between two of its statements. */
const rounds = 4

/**
 * Creates a store in PostgreSQL. Create its table with {@link postgresSessionSchema}. Statements are not prepared, so that
 * transaction pools such as PgBouncer can be used.
 * @param db a pool or client of pg, `fastify.pg` of @fastify/postgres, or what postgres.js or `neon()` returns
 * @throws {@link InvalidConfiguration} for another client, or a wrong name of the table
 */
export function postgresSessions (db: PostgresLike, options: PostgresSessionsOptions = {}): SessionStore {
  const { table, allowRowSecurity, replicas } = readRecord(optionsOf('postgresSessions()'), options, postgresShape)
  const query = withRetries(queryOf(db), table)
  const sql = statementsOf(table)
  const clock = new StoreClock()

  /** Returns the first row. @throws {InvalidConfiguration} if row security may hide rows, so that a missing row may exist */
  function firstOf ([row]: readonly Row[]): Row {
    if (row === undefined) throw new TypeError('The database returned no row.')
    if (row.filtered === 'true' && !allowRowSecurity) throw rowSecurityError(table)
    return row
  }

  /** Executes a change, and repeats it if the server refuses it as late. @param start by `performance.now()` @returns session ids */
  async function write (statement: string, values: readonly unknown[], start: number): Promise<string[]> {
    for (;;) {
      const row = firstOf(await query(statement, [...values, clock.deadline(start)]))
      clock.learn(Number(row.time))
      if (row.late !== 'true') return idsOf(row)
      clock.requireTime(start)
    }
  }

  /** Executes the result of {@link decide}. Not a rotation, which the next round tries first. */
  async function apply (
    outcome: Advance['outcome'],
    session: readonly unknown[],
    [graceMs, idleMs]: readonly [number, number],
    deadline: number
  ): Promise<readonly Row[]> {
    if (outcome === 'recovered') return await query(sql.jump, [...session, idleMs, deadline])
    if (outcome === 'repeated') return await query(sql.receive, [...session, deadline])
    return outcome === 'reissued' ? await query(sql.reissue, [...session, graceMs, idleMs, deadline]) : []
  }

  const beat = replicas ? heartbeats(async () => await query(sql.beat, [])) : async () => {}
  const replayed = new ReplayedHeartbeats()
  /** When the last read of the feed began, by `performance.now()`. */
  let lastRead = Infinity

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
        const found = firstOf(await query(sql.look, [sid, user, graceMs, deadline]))
        clock.learn(Number(found.time))
        if (found.late === 'true') {
          clock.requireTime(start)
          // The late round changed no session, so it is repeated.
          round--
          continue
        }
        if (typeof found.n !== 'string') return { outcome: 'unknown', n: 0 }
        const family = {
          n: Number(found.n),
          parent: Number(found.parent),
          siblings: Number(found.siblings),
          confirmed: found.confirmed === 'true'
        }
        const { outcome, n: answer, change } = decide(family, n, found.fresh === 'true', graceMs === 0)
        if (outcome === 'reused') {
          const ended = await write(sql.endOne, [user, sid, keepMs], start)
          return ended.length === 0 ? { outcome: 'unknown', n: 0 } : { outcome, n: answer }
        }
        if (change === undefined) return { outcome, n: answer }
        // If another request has changed the session in the meantime, these statements change no row.
        const [changed] = await apply(outcome, [sid, user, n], [graceMs, idleMs], deadline)
        if (changed !== undefined) return { outcome, n: outcome === 'repeated' ? answer : Number(changed.n) }
      }
      throw new Error('The session was changed again and again while it was refreshed.')
    },

    async end (user, which, { keepMs }) {
      const { sid, except = null }: { sid?: string; except?: string | null } = Object.assign(Object.create(null), which)
      return await write(sid === undefined ? sql.endAll : sql.endOne, [user, sid ?? except, keepMs], performance.now())
    },

    async list (user) {
      const rows = await query(sql.list, [user])
      firstOf(rows)
      return rows
        .filter(({ sid }) => typeof sid === 'string')
        .map(({ sid, created, used, ends, data }) => ({
          sid: String(sid),
          createdAt: Number(created),
          usedAt: Number(used),
          endsAt: Number(ends),
          data: String(data)
        }))
    },

    async confirm (received) {
      const start = performance.now()
      const locked = new Set(await write(sql.confirmFree, [JSON.stringify(received)], start))
      if (locked.size === 0) return
      // One by one, so that a locked row never waits for the lock of another one. Each item has its turn to be the first.
      const rest = received.filter(({ sid }) => locked.has(sid))
      const first = Math.floor(Math.random() * rest.length)
      const notWritten: ReceivedGeneration[] = []
      let cause: unknown
      for (const item of [...rest.slice(first), ...rest.slice(0, first)]) {
        try {
          if (performance.now() - start > confirmTime) notWritten.push(item)
          else await write(sql.confirmLocked, [JSON.stringify([item])], performance.now())
        } catch (error) {
          if (memberOf(error, 'code') !== lockNotAvailable) throw error
          notWritten.push(item)
          cause = error
        }
      }
      if (notWritten.length > 0) throw new NotWritten(notWritten, { cause })
    },

    async endedSince (cursor) {
      const begun = performance.now()
      const usual = Math.max(usualAge, 3 * (begun - lastRead))
      lastRead = begun
      const row = firstOf(cursor === null ? await query(sql.ended, []) : await query(sql.endedSince, [cursor]))
      clock.learn(Number(row.time))
      const answer = { ended: idsOf(row), cursor: String(row.cursor) }
      if (row.standby === 'true') return { ...answer, ...replayed.ageOf(row, begun, usual) }
      await beat()
      return answer
    }
  }
}
