/** The processes of the service, their database, and the networks between them and the clients. */
import { fork, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import pg from 'pg'
import { RunClock } from './clock.js'
import { placeOf, startDatabase } from './database.js'
import { Proxy } from './proxy.js'
import { clients } from './stores.js'

const program = fileURLToPath(new URL('process.js', import.meta.url))

/** Stops a process for a time. A process of its own continues it, so that it does not remain stopped where this one ends. */
export async function suspend (pid, milliseconds) {
  const child = spawn('sh', ['-c', `kill -STOP ${pid}; sleep ${milliseconds / 1000}; kill -CONT ${pid}`], { stdio: 'ignore' })
  await once(child, 'exit')
}

/** A process of the service. Clients reach it by `port`, and it reaches the database by `networks`, one for each server. */
class ServiceProcess {
  name
  networks
  #front
  #options
  #world
  #child
  #starts = 0
  /** Whether its end is wanted. */
  #isEnding = false

  constructor (world, name, front, networks, options) {
    this.#world = world
    this.name = name
    this.#front = front
    this.networks = networks
    this.#options = options
  }

  get port () { return this.#front.port }
  /** Without the network of the clients. */
  directPort
  get pid () { return this.#child.pid }

  async start () {
    this.#starts++
    this.#isEnding = false
    const name = `${this.name}.${this.#starts}`
    const child = fork(program, { execArgv: [], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] })
    this.#child = child
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => { output = (output + text).slice(-2000) })
    child.once('exit', () => {
      if (!this.#isEnding) this.#world.history.add({ type: 'crash', process: name, from: this.#world.history.now(), output })
    })
    child.send({ ...this.#options, name })
    const [{ port }] = await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(() => { throw new Error(`${name} ended at its start:\n${output}`) })
    ])
    this.directPort = port
    this.#front.moveTo({ host: '127.0.0.1', port })
  }

  async kill () {
    const child = this.#child
    this.#isEnding = true
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }

  get isRunning () {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }
}

const databases = {
  async redis () {
    const primary = await startDatabase('redis', '--appendonly', 'yes')
    return { servers: [primary] }
  },
  async 'redis-cluster' () {
    return { servers: [await startDatabase('redis-cluster', '--cluster-require-full-coverage', 'no')] }
  },
  async postgres () {
    return { servers: [await startDatabase('postgres')] }
  }
}

/** What is closed at the end, the last first. */
class Endings {
  #list = []
  add (end) { this.#list.push(end) }
  async run () { for (const end of this.#list.splice(0).reverse()) await end().catch((error) => console.error(error)) }
}

/** Everything that runs, for one kind of database. */
export class World {
  processes = []
  operator
  /** Where clients connect: `frontPlan` is called for each connection of a client. */
  frontPlan = () => ({})
  #endings = new Endings()
  #clock = new RunClock()

  constructor (kind, history, settings, random) {
    Object.assign(this, { kind, history, settings, random })
  }

  get isOver () { return this.#clock.isOver }
  async pause (milliseconds) { await this.#clock.pause(milliseconds) }
  end () { this.#clock.end() }
  /** The same world for what clients do when the run is over. */
  get afterwards () {
    const { processes, history, settings, random } = this
    return { processes, history, settings, random, isOver: false, pause: async (milliseconds) => { await wait(milliseconds) } }
  }

  async start (library, count) {
    const { grace, poll } = this.settings
    const { servers } = this.database = await databases[this.kind]()
    // A failover puts another server into their place.
    this.#endings.add(async () => { for (const server of servers) await server.end() })
    const [server] = servers
    await this.#connectOperator(server)
    if (this.kind === 'postgres') await this.operator.query((await import(library)).postgresSessionSchema())
    const secret = randomBytes(48).toString('base64url')
    for (let index = 0; index < count; index++) {
      const networks = []
      for (const url of server.urls) {
        const network = await Proxy.to(placeOf(url))
        this.#endings.add(async () => network.close())
        networks.push(network)
      }
      const urls = server.urls.map((url, node) => Object.assign(new URL(url), { port: networks[node].port }).href)
      const map = Object.fromEntries(server.urls.map((url, node) => [new URL(url).host, networks[node].port]))
      const front = await Proxy.to({ host: '127.0.0.1', port: 9 }, () => this.frontPlan())
      this.#endings.add(async () => front.close())
      const addresses = { url: urls[0], urls, map }
      const process = new ServiceProcess(this, `p${index}`, front, networks, { library, kind: this.kind, client: index % clients[this.kind].length, addresses, secret, grace: grace / 1000, poll: poll / 1000 })
      this.#endings.add(async () => await process.kill())
      this.processes.push(process)
    }
    await Promise.all(this.processes.map(async (process) => await process.start()))
  }

  async #connectOperator ({ url }) {
    if (this.kind === 'postgres') {
      this.operator = new pg.Pool({ connectionString: url, max: 3 })
      this.operator.on('error', () => {})
      this.#endings.add(async () => await this.operator.end())
    } else {
      this.operator = this.redisOf(url)
    }
  }

  /** A client of an operator, which is closed at the end. */
  redisOf (url) {
    const client = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 100 })
    client.on('error', () => {})
    this.#endings.add(async () => client.disconnect())
    return client
  }

  /** Starts a further server, which ends with the world. */
  async startServer (kind, ...parameters) {
    const server = await startDatabase(kind, ...parameters)
    this.#endings.add(async () => await server.end())
    return server
  }

  async close () {
    this.#clock.end()
    await this.#endings.run()
  }
}
