/**
 * `node scripts/database.js redis|redis-cluster|postgres|postgres-standby`: starts a server for the tests, the benchmarks or
 * the examples, on free ports of 127.0.0.1, with its data in a temporary folder. Further arguments go to the server; that of a
 * standby is the address of its primary. Prints a line of JSON with
 * its addresses. Commands are lines of its input, each answered by a line of JSON:
 *
 * - `kill`: ends the server as a crash would
 * - `start`: starts it again with the same data and the same port
 *
 * When its input ends, the server ends and the folder is removed, so that nothing is left of a test that was killed. Exits
 * with 2 where a program is missing. `--check` instead of a kind prints which kinds are available.
 */
import { execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { accessSync, chownSync, constants, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'

const host = '127.0.0.1'
/** In milliseconds: how long a server may take to start. */
const patience = 60_000
const execute = promisify(execFile)

function isExecutable (path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Debian has the programs of PostgreSQL in a folder for each version. */
function postgresFolders () {
  const parent = '/usr/lib/postgresql'
  try {
    return readdirSync(parent).sort((a, b) => Number(b) - Number(a)).map((version) => join(parent, version, 'bin'))
  } catch {
    return []
  }
}

function findIn (folders, ...names) {
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find(isExecutable)
}

const path = (process.env.PATH ?? '').split(delimiter)
const redisServer = process.env.REDIS_SERVER_PATH ?? findIn(path, 'redis-server', 'valkey-server')
const postgres = process.env.POSTGRES_PATH ?? findIn([...postgresFolders(), ...path], 'postgres')
const missing = {
  redis: redisServer === undefined && 'redis-server is missing: install it, or name it in REDIS_SERVER_PATH.',
  postgres: postgres === undefined && 'postgres is missing: install PostgreSQL, or name its program postgres in POSTGRES_PATH.'
}

async function freePort () {
  const server = createServer().listen(0, host)
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** A program that says when it is ready, and can be started again. */
class Server {
  #command
  #parameters
  #options
  #readyText
  #child

  constructor (command, parameters, readyText, options = {}) {
    this.#command = command
    this.#parameters = parameters
    this.#readyText = readyText
    this.#options = options
  }

  async start () {
    const child = spawn(this.#command, this.#parameters, { ...this.#options, stdio: ['ignore', 'pipe', 'pipe'] })
    this.#child = child
    let output = ''
    const ready = new Promise((resolve, reject) => {
      const read = (text) => {
        output = (output + text).slice(-10_000)
        if (output.includes(this.#readyText)) resolve()
      }
      child.stdout.setEncoding('utf8').on('data', read)
      child.stderr.setEncoding('utf8').on('data', read)
      child.once('error', reject)
      child.once('exit', () => reject(new Error(`${this.#command} ended:\n${output}`)))
    })
    const late = new AbortController()
    const timeout = setTimeout(patience, undefined, { signal: late.signal }).then(() => { throw new Error(`${this.#command} is not ready after ${patience / 1000} seconds:\n${output}`) })
    timeout.catch(() => {})
    try {
      await Promise.race([ready, timeout])
    } finally {
      late.abort()
    }
  }

  async kill (signal) {
    const child = this.#child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill(signal)
    await exit
  }
}

async function redisNode (folder, parameters) {
  const port = await freePort()
  mkdirSync(join(folder, String(port)))
  const server = new Server(redisServer, ['--port', String(port), '--bind', host, '--dir', join(folder, String(port)), '--save', '', ...parameters], 'Ready to accept connections')
  await server.start()
  return { port, server }
}

async function redis (folder, parameters) {
  const { port, server } = await redisNode(folder, parameters)
  return { addresses: { url: `redis://${host}:${port}` }, servers: [server], signal: 'SIGKILL' }
}

async function redisCluster (folder, parameters) {
  const nodes = await Promise.all(Array.from({ length: 3 }, async () =>
    await redisNode(folder, ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000', '--cluster-port', String(await freePort()), ...parameters])))
  const command = join(dirname(redisServer), redisServer.endsWith('valkey-server') ? 'valkey-cli' : 'redis-cli')
  const places = nodes.map(({ port }) => `${host}:${port}`)
  await execute(command, ['--cluster', 'create', ...places, '--cluster-yes'])
  // Each node learns from the others that all slots are served.
  for (const { port } of nodes) {
    while (!(await execute(command, ['-p', String(port), 'cluster', 'info'])).stdout.includes('cluster_state:ok')) await setTimeout(20)
  }
  return { addresses: { urls: places.map((place) => `redis://${place}`) }, servers: nodes.map(({ server }) => server), signal: 'SIGKILL' }
}

/** PostgreSQL refuses to run as root. */
function ordinaryUser () {
  if (process.getuid?.() !== 0) return {}
  const users = readFileSync('/etc/passwd', 'utf8').split('\n').map((line) => line.split(':'))
  const [, , uid, gid] = users.find(([name]) => name === 'postgres') ?? users.find(([name]) => name === 'nobody')
  return { uid: Number(uid), gid: Number(gid) }
}

/** What ends all processes of the server at once, without writing what is in memory. */
const crash = 'SIGQUIT'

async function startPostgres (data, user, readyText, parameters = []) {
  const port = await freePort()
  const server = new Server(postgres, ['-D', data, '-p', String(port), '-c', `listen_addresses=${host}`, '-c', 'unix_socket_directories=', ...parameters], readyText, { ...user, cwd: dirname(data) })
  await server.start()
  return { port, server }
}

async function postgresServer (folder, parameters) {
  const user = ordinaryUser()
  const data = join(folder, 'data')
  // Every account of this machine can connect to the port, and a superuser of PostgreSQL can run programs.
  const password = randomBytes(24).toString('base64url')
  const passwordFile = join(folder, 'password')
  writeFileSync(passwordFile, password, { mode: 0o600 })
  if (user.uid !== undefined) for (const path of [folder, passwordFile]) chownSync(path, user.uid, user.gid)
  await execute(join(dirname(postgres), 'initdb'), ['-D', data, '-U', 'postgres', '--pwfile', passwordFile, '--auth', 'scram-sha-256', '--encoding', 'UTF8', '--locale', 'C', '--no-sync'], { ...user, cwd: folder })
  const { port, server } = await startPostgres(data, user, 'database system is ready to accept connections', parameters)
  return { addresses: { url: `postgres://postgres:${password}@${host}:${port}/postgres` }, servers: [server], signal: crash }
}

/** A copy of a server that follows it, and executes what only reads. */
async function postgresStandby (folder, [primary]) {
  const user = ordinaryUser()
  const data = join(folder, 'data')
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid)
  await execute(join(dirname(postgres), 'pg_basebackup'), ['-d', primary, '-D', data, '-R', '--checkpoint', 'fast', '--no-sync'], { ...user, cwd: folder })
  const { port, server } = await startPostgres(data, user, 'database system is ready to accept read-only connections')
  return { addresses: { url: Object.assign(new URL(primary), { port }).href }, servers: [server], signal: crash }
}

const kinds = { redis, 'redis-cluster': redisCluster, postgres: postgresServer, 'postgres-standby': postgresStandby }
const answer = (value) => console.log(JSON.stringify(value))

async function serve (kind, parameters) {
  const reason = missing[kind.startsWith('postgres') ? 'postgres' : 'redis']
  if (reason) {
    console.error(reason)
    process.exit(2)
  }
  const folder = mkdtempSync(join(tmpdir(), 'token-auth-'))
  const running = kinds[kind](folder, parameters)
  const commands = {
    kill: async ({ servers, signal }) => { await Promise.all(servers.map(async (server) => await server.kill(signal))) },
    start: async ({ servers }) => { await Promise.all(servers.map(async (server) => await server.start())) }
  }
  const end = async () => {
    // Also where the start of one of several servers failed.
    await running.then(commands.kill).catch(() => {})
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
    process.exit()
  }
  // A terminal sends them to this process and to the server.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, end)
  try {
    answer((await running).addresses)
    for await (const line of createInterface(process.stdin)) {
      await commands[line](await running)
      answer({ done: line })
    }
  } catch (error) {
    console.error(error)
    process.exitCode = 1
  }
  await end()
}

const [kind, ...parameters] = process.argv.slice(2)
if (kind === '--check') {
  answer(missing)
} else if (Object.hasOwn(kinds, kind ?? '')) {
  await serve(kind, parameters)
} else {
  console.error(`Name one of: ${Object.keys(kinds).join(', ')}; given: ${kind}.`)
  process.exit(2)
}
