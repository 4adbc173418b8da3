/** Session stores in databases, each with one of the client libraries. The libraries are devDependencies of the package. */

/**
 * For each client library: the kind of its database, and a function that connects. It returns a store of the built package,
 * `refreshTokens`, which keeps those of the specification's own mode with one simple command, `command`, which asks the database
 * something else, and `close`.
 */
export const clients = {
  ioredis: {
    kind: 'redis',
    async open (url) {
      const [{ Redis }, { redisSessions }] = await Promise.all([import('ioredis'), import('../dist/lib/index.js')])
      const client = new Redis(url, { lazyConnect: true })
      await client.connect()
      return {
        store: redisSessions(client),
        refreshTokens: { set: (id, refreshToken) => client.set(`ioredis:${id}`, refreshToken), get: (id) => client.get(`ioredis:${id}`) },
        command: (...parts) => client.call(...parts.map(String)),
        close: () => client.disconnect()
      }
    }
  },
  'node-redis': {
    kind: 'redis',
    async open (url) {
      const [{ createClient }, { redisSessions }] = await Promise.all([import('redis'), import('../dist/lib/index.js')])
      const client = createClient({ url })
      await client.connect()
      return {
        store: redisSessions(client),
        refreshTokens: { set: (id, refreshToken) => client.set(`node-redis:${id}`, refreshToken), get: (id) => client.get(`node-redis:${id}`) },
        command: (...parts) => client.sendCommand(parts.map(String)),
        close: () => client.destroy()
      }
    }
  },
  pg: {
    kind: 'postgres',
    /** @param max the number of connections; that of the library by default */
    async open (url, { max } = {}) {
      const [{ default: pg }, { postgresSessions, postgresSessionSchema }] = await Promise.all([import('pg'), import('../dist/lib/index.js')])
      const pool = new pg.Pool({ connectionString: url, ...(max !== undefined && { max }) })
      const command = async (text, values) => (await pool.query(text, values)).rows
      await command(`${postgresSessionSchema()}; CREATE TABLE IF NOT EXISTS refresh_tokens (id int PRIMARY KEY, token text NOT NULL)`)
      return {
        store: postgresSessions(pool),
        refreshTokens: {
          set: (id, refreshToken) => command('INSERT INTO refresh_tokens VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET token = $2', [id, refreshToken]),
          get: async (id) => (await command('SELECT token FROM refresh_tokens WHERE id = $1', [id]))[0].token
        },
        command,
        close: () => pool.end()
      }
    }
  }
}

/** The version of the server of a database. */
export async function serverVersion (kind, { command }) {
  if (kind === 'redis') return /redis_version:(\S+)/.exec(await command('INFO', 'server'))[1]
  const [{ version }] = await command("SELECT split_part(current_setting('server_version'), ' ', 1) AS version")
  return version
}
