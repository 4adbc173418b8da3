/** Session stores in databases, each with one of the client libraries. The libraries are devDependencies of the package. */

/**
 * For each client library: the kind of its database, and a function that connects. It returns a store of the built package,
 * `command`, which asks the database something else, and `close`.
 */
export const clients = {
  ioredis: {
    kind: 'redis',
    async open (url) {
      const [{ Redis }, { redisSessions }] = await Promise.all([import('ioredis'), import('../dist/lib/index.js')])
      const client = new Redis(url, { lazyConnect: true })
      await client.connect()
      return { store: redisSessions(client), command: (...parts) => client.call(...parts.map(String)), close: () => client.disconnect() }
    }
  },
  'node-redis': {
    kind: 'redis',
    async open (url) {
      const [{ createClient }, { redisSessions }] = await Promise.all([import('redis'), import('../dist/lib/index.js')])
      const client = createClient({ url })
      await client.connect()
      return { store: redisSessions(client), command: (...parts) => client.sendCommand(parts.map(String)), close: () => client.destroy() }
    }
  },
  pg: {
    kind: 'postgres',
    /** @param max the number of connections; that of the library by default */
    async open (url, { max } = {}) {
      const [{ default: pg }, { postgresSessions, postgresSessionSchema }] = await Promise.all([import('pg'), import('../dist/lib/index.js')])
      const pool = new pg.Pool({ connectionString: url, ...(max !== undefined && { max }) })
      await pool.query(postgresSessionSchema())
      return { store: postgresSessions(pool), command: async (text, values) => (await pool.query(text, values)).rows, close: () => pool.end() }
    }
  }
}

/** The version of the server of a database. */
export async function serverVersion (kind, { command }) {
  if (kind === 'redis') return /redis_version:(\S+)/.exec(await command('INFO', 'server'))[1]
  const [{ version }] = await command("SELECT split_part(current_setting('server_version'), ' ', 1) AS version")
  return version
}
