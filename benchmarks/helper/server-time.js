/** What the servers of databases tell of themselves. */
import { readFileSync } from 'node:fs'

/**
 * For each kind of database: the CPU time of the server in milliseconds, undefined where the system does not tell it, and how
 * much it has written, in commands or in rows. PostgreSQL also tells how many updates were HOT.
 */
export const databases = {
  redis: {
    async cpu ({ command }) {
      const text = await command('INFO', 'cpu')
      return ['user', 'sys'].reduce((sum, mode) => sum + 1000 * Number(new RegExp(`used_cpu_${mode}:(\\S+)`).exec(text)[1]), 0)
    },
    /** Removals are left out: with one of nothing, the scripts ask whether the server may write. */
    async written ({ command }) {
      const text = await command('INFO', 'commandstats')
      return Array.from(text.matchAll(/cmdstat_(?:hset|zadd|pexpire|pexpireat|del):calls=(\d+)/g), ([, calls]) => Number(calls)).reduce((sum, calls) => sum + calls, 0)
    }
  },
  postgres: {
    /** That of the only connection. */
    async cpu ({ command }) {
      const [{ pid }] = await command('SELECT pg_backend_pid() AS pid')
      try {
        return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6
      } catch {
        return undefined
      }
    },
    async written (connection) {
      return (await statistics(connection)).updated
    },
    async hot (connection) {
      return (await statistics(connection)).hot
    }
  }
}

/** Those of the table of sessions, as they are when the only connection has told all of its own. */
async function statistics ({ command }) {
  await command('SELECT pg_stat_force_next_flush()')
  const [row] = await command("SELECT n_tup_upd::float8 AS updated, n_tup_hot_upd::float8 AS hot FROM pg_stat_user_tables WHERE relname = 'token_auth_sessions'")
  return row
}
