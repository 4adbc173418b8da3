/** The SQL of the store in PostgreSQL. */

/** The id of the row from which readers of replicas compute how far they are behind. Session ids are longer. */
const heartbeat = 'heartbeat'

const now = 'clock_timestamp()'
const milliseconds = (value: string) => `(${value}::float8 * interval '1 millisecond')`
/**
 * Whether a session is active at a time. `idle_ms` is stored with each session, because processes with a shorter `idle`
 * must not treat it as expired.
 */
const activeAt = (at: string) => `ended_at IS NULL AND ends_at > ${at} AND used_at > ${at} - ${milliseconds('idle_ms')}`
const active = activeAt(now)
/** Selects a time in milliseconds since 1970. The names have no underscore, because postgres.js may be configured to convert it. */
const epoch = (column: string, name: string) => `(extract(epoch from ${column}) * 1000)::bigint::text AS ${name}`
/** Whether the server may still execute a call. */
const inTime = (deadline: string, at = now) => `${at} <= to_timestamp(${deadline}::float8 / 1000)`
/** How far clocks in a cluster may differ, or a commit be late, in seconds. Beyond this, only the full read finds an ended session. */
const overlap = 10

/** How long a statement waits for a lock, in milliseconds. Its call was given up by then, and it would block the connection. */
const lockTime = 5000
/** As {@link lockTime}, for a statement that delays those of other sessions. */
const shortLockTime = 500

/**
 * The beginning of a statement that changes sessions: it locks them, and reads the clock as `at` when it has all locks,
 * because an aggregate returns only after its last row. Compare all times again with `at`: the statement may have waited
 * for a lock, and PostgreSQL does not repeat the conditions if the transaction that held the lock is rolled back.
 * @param rows a SELECT that ends with its conditions. A further condition sets `lock_timeout`, before the row is locked
 */
const locking = (
  rows: string,
  { order = '', time = lockTime, how = '' } = {}
) => `WITH locked AS MATERIALIZED (${rows} AND set_config('lock_timeout', '${time}', true) IS NOT NULL ${order} FOR NO KEY UPDATE OF s ${how}),
      clock AS MATERIALIZED (SELECT count(*) AS count, ${now} AS at FROM locked)`

/** Whether the window, whose length is the parameter `$4`, is over. */
const closed = (at: string) => `(rotated_at IS NULL OR rotated_at <= ${at} - ${milliseconds('$4')})`
const used = 'rotated_at = at, used_at = at'

/** Quotes the name of a table, optionally with a schema, for SQL. */
export const quotedTable = (name: string): string => name.split('.').map((part) => `"${part}"`).join('.')

/** Returns the statements, with the parameters `$1` and so on. @param name of the table */
export function statementsOf (name: string) {
  // Quoted, so that names are case-sensitive and may be reserved words.
  const table = quotedTable(name)
  // now(), because PostgreSQL uses no index for a comparison with clock_timestamp().
  const gone = (column: string) => `${column} < now() - ${milliseconds('$7')} ORDER BY ${column} LIMIT 5`
  const remove = (condition: string) =>
    `DELETE FROM ${table} WHERE sid IN (SELECT sid FROM ${table} WHERE ${condition} FOR UPDATE SKIP LOCKED)`
  /** Whether row security applies to this connection, so that it may hide rows. */
  const filtered = `row_security_active('${table}')::text AS filtered`
  /** Selects the result of a call that writes: session ids, whether the call was late and has changed no row, and the server's time. */
  const answer = (ids: string, deadline: string) =>
    `SELECT (SELECT coalesce(string_agg(sid, ','), '') FROM ${ids}) AS ids, (NOT ${inTime(deadline, 'at')})::text AS late, ${epoch(now, 'time')}, ${filtered} FROM clock`
  /** Selects sessions, or one row without a session if there is none. */
  const read = (columns: string, condition: string) =>
    `SELECT ${columns}, ${filtered} FROM (VALUES (true)) AS one LEFT JOIN ${table} ON ${condition}`
  /** Changes one session. `condition` gets the time to compare with, as SQL. */
  const change = (condition: (at: string) => string, deadline: string, values: string) => {
    const may = (at: string) => `s.sid = $1 AND user_id = $2 AND ${condition(at)} AND ${activeAt(at)} AND ${inTime(deadline, at)}`
    return `${locking(`SELECT sid AS id FROM ${table} s WHERE ${may(now)}`)}
      UPDATE ${table} s SET ${values} FROM clock, locked WHERE id = s.sid AND ${may('at')}
      RETURNING n::text, ${epoch(now, 'time')}`
  }
  /**
   * Ends sessions. Sets `ended_at` again for a session that is still in the feed: the transaction that ended it may have
   * committed so late that the processes that read the feed have missed it.
   */
  const end = (condition: string) => {
    const may = (at: string) =>
      `user_id = $1 AND ${condition} AND (${activeAt(at)} OR ended_at > ${at} - ${milliseconds('$3')}) AND ${inTime('$4', at)}`
    return `${locking(`SELECT sid AS id, ended_at IS NOT NULL AS again FROM ${table} s WHERE ${may(now)}`, { order: 'ORDER BY sid' })},
      ended AS (UPDATE ${table} s SET ended_at = at FROM clock, locked WHERE id = s.sid AND ${may('at')} RETURNING sid, again)
      ${answer('ended WHERE NOT again', '$4')}`
  }
  /**
   * Confirms families, and returns the sessions whose families it could not confirm, because they are locked or were
   * changed meanwhile. Its parameter is text, because postgres.js would serialize a JSON parameter once more.
   */
  const confirm = (options: { how?: string; time?: number }) => {
    const found = `FROM ${table} s, json_to_recordset($1::text::json) AS given (sid text, "user" text, n bigint)
        WHERE s.sid = given.sid AND user_id = given."user" AND s.n - parent = given.n AND NOT confirmed AND ${active} AND ${inTime('$2')}`
    return `${locking(`SELECT s.sid AS id ${found}`, options)},
      changed AS (UPDATE ${table} s SET confirmed = true, rotated_at = at FROM clock, locked WHERE id = s.sid AND NOT confirmed AND ${inTime('$2', 'at')})
      ${answer(`(SELECT s.sid ${found} EXCEPT SELECT id FROM locked) AS rest`, '$2')}`
  }
  /**
   * A standby shows the rows that it has replayed, so its cursor is the time of the last replayed transaction, not the current
   * time. One statement reads rows and heartbeat, so that its age is theirs. Seconds since 1970, because the text of a timestamp
   * depends on DateStyle. The ids are one text, because clients parse large arrays many times slower, and block the event loop.
   */
  const endedWhere = (condition: string) =>
    `SELECT extract(epoch from CASE WHEN pg_is_in_recovery() THEN least(coalesce(pg_last_xact_replay_timestamp(), 'epoch'), now()) ELSE now() END)::text AS cursor,
      ${epoch(now, 'time')}, ${filtered}, pg_is_in_recovery()::text AS standby,
      (SELECT (extract(epoch from ended_at) * 1000)::text FROM ${table} WHERE sid = '${heartbeat}') AS beat,
      array_to_string(ARRAY(SELECT sid FROM ${table} WHERE ended_at ${condition} AND sid <> '${heartbeat}'), ',') AS ids`
  // All columns are text, because applications can replace the type parsers of their clients, also those of numbers and booleans.
  return {
    create: `${locking(
      `SELECT s.sid AS id FROM ${table} s, (
        SELECT sid, row_number() OVER (ORDER BY least(used_at + ${milliseconds('idle_ms')}, ends_at) DESC) AS place FROM ${table} WHERE user_id = $2 AND ${active}) mine
        WHERE mine.sid = s.sid AND place >= $6::int AND s.ended_at IS NULL AND ${inTime('$8')}`,
      { order: 'ORDER BY s.sid' }
    )},
      made AS (INSERT INTO ${table} (sid, user_id, created_at, used_at, ends_at, idle_ms, data) SELECT $1, $2, at, at, at + ${milliseconds('$4')}, $5, $3 FROM clock WHERE ${inTime('$8', 'at')}),
      ended AS (UPDATE ${table} s SET ended_at = at FROM clock, locked WHERE id = s.sid AND s.ended_at IS NULL AND ${inTime('$8', 'at')} RETURNING s.sid),
      unused AS (${remove(`user_id = $2 AND ended_at IS NULL AND NOT (${active})`)}),
      expired AS (${remove(gone('ends_at'))}),
      outdated AS (${remove(gone('ended_at'))})
      ${answer('ended', '$8')}`,
    // These statements implement `decide` of rotation.ts. A member of the family, after the window:
    swap: change(
      (at) => `n - siblings <= $3 AND n >= $3 AND ${closed(at)}`,
      '$6',
      `n = n + 1, parent = (n - $3 + 1)::integer, siblings = 0, confirmed = false, ${used}, idle_ms = $5`
    ),
    // A member of a family of several, within the window:
    receive: change(() => 'n - siblings <= $3 AND n >= $3 AND siblings > 0 AND NOT confirmed', '$4', 'confirmed = true, rotated_at = at'),
    // The parent. Compared by its distance, not by the latest generation that was read, so that all of many late copies are executed:
    reissue: change(
      (at) => `n - parent = $3 AND CASE WHEN confirmed THEN NOT ${closed(at)} ELSE siblings > 0 OR ${closed(at)} END`,
      '$6',
      'n = n + 1, parent = parent + 1, siblings = siblings + 1, rotated_at = CASE WHEN confirmed THEN rotated_at ELSE at END, used_at = at, idle_ms = $5'
    ),
    look: read(
      `n::text, parent::text, siblings::text, confirmed::text, (rotated_at > ${now} - ${milliseconds('$3')})::text AS fresh, (NOT ${inTime('$4')})::text AS late, ${epoch(now, 'time')}`,
      `sid = $1 AND user_id = $2 AND ${active}`
    ),
    jump: change(() => 'n < $3', '$5', `n = $3::bigint + 1, parent = 1, siblings = 0, confirmed = false, ${used}, idle_ms = $4`),
    confirmFree: confirm({ how: 'SKIP LOCKED' }),
    confirmLocked: confirm({ time: shortLockTime }),
    endOne: end('s.sid = $2'),
    endAll: end('($2::text IS NULL OR s.sid <> $2)'),
    list: read(
      `sid, ${epoch('created_at', 'created')}, ${epoch('used_at', 'used')}, ${epoch('ends_at', 'ends')}, data`,
      `user_id = $1 AND ${active}`
    ),
    ended: endedWhere('IS NOT NULL'),
    endedSince: endedWhere(`> to_timestamp($1::float8 - ${overlap})`),
    // It sets columns that readers of replicas may select. Without waiting for the disk, because another heartbeat follows a lost one.
    beat: `INSERT INTO ${table} (sid, user_id, ends_at, ended_at, idle_ms, data)
      SELECT '${heartbeat}', '', 'infinity', ${now}, 0, '' FROM set_config('synchronous_commit', 'off', true) AS one, set_config('lock_timeout', '${lockTime}', true) AS other
      ON CONFLICT (sid) DO UPDATE SET ended_at = excluded.ended_at`
  }
}
