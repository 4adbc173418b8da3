/** Database servers, started by scripts/database.js from the programs of this machine. They run on the core of the client. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const script = fileURLToPath(new URL('../../scripts/database.js', import.meta.url))

export const names = { redis: 'Redis', postgres: 'PostgreSQL' }

/** Redis appends each write to a file, as it should where sessions must survive its end. PostgreSQL does so by default. */
const parameters = { redis: ['--appendonly', 'yes'], postgres: [] }

/** Returns the kinds of servers that this machine has, and prints a line for each that is left out. */
export function availableDatabases () {
  const missing = JSON.parse(execFileSync(process.execPath, [script, '--check'], { encoding: 'utf8' }))
  return Object.keys(names).filter((kind) => {
    if (missing[kind]) console.log(`Results with ${names[kind]} are left out: ${missing[kind]}`)
    return !missing[kind]
  })
}

/** Starts a server, which also ends when this process is killed. @param kind redis or postgres */
export async function startDatabase (kind) {
  const child = spawn(process.execPath, [script, kind, ...parameters[kind]], { stdio: ['pipe', 'pipe', 'inherit'] })
  const { value, done } = await createInterface(child.stdout)[Symbol.asyncIterator]().next()
  if (done) throw new Error(`${names[kind]} did not start.`)
  return {
    url: JSON.parse(value).url,
    async stop () {
      const exit = once(child, 'exit')
      child.stdin.end()
      await exit
    }
  }
}

/** Starts servers. Returns their addresses by kind, and a function that stops them. */
export async function startDatabases (kinds) {
  const started = await Promise.all(kinds.map(async (kind) => [kind, await startDatabase(kind)]))
  return {
    urls: Object.fromEntries(started.map(([kind, { url }]) => [kind, url])),
    stop: async () => { await Promise.all(started.map(async ([, server]) => await server.stop())) }
  }
}
