/**
 * Database servers for tests, started by scripts/database.js from the programs of this machine. Without the programs, the
 * tests are skipped; in CI that is an error.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'

const script = fileURLToPath(new URL('../scripts/database.js', import.meta.url))

export type Kind = 'redis' | 'redis-cluster' | 'postgres' | 'postgres-standby'

const missing: { redis: string | false, postgres: string | false } = JSON.parse(execFileSync(process.execPath, [script, '--check'], { encoding: 'utf8' }))
for (const reason of Object.values(missing)) {
  if (reason !== false && process.env.CI === 'true') throw new Error(reason)
}

/** For the options of tests. */
export const skip = {
  redis: missing.redis && `${missing.redis} Until then, the tests that need a Redis server are skipped.`,
  postgres: missing.postgres && `${missing.postgres} Until then, the tests that need a PostgreSQL server are skipped.`
}

export interface Database {
  readonly url: string
  /** Those of the nodes of a cluster. */
  readonly urls: readonly string[]
  /** Ends the server as a crash would. */
  kill (): Promise<void>
  /** Starts it again, with what it has written. */
  start (): Promise<void>
}

/**
 * Starts a server that ends with the test.
 * @param parameters further arguments of the server; of a standby, the address of its primary
 */
export async function startDatabase (t: Pick<Test, 'teardown'>, kind: Kind, ...parameters: string[]): Promise<Database> {
  // It ends when its input ends, also when this process is killed.
  const child = spawn(process.execPath, [script, kind, ...parameters], { stdio: ['pipe', 'pipe', 'inherit'] })
  const exit = once(child, 'exit')
  t.teardown(async () => {
    child.stdin.end()
    await exit
  })
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const read = async () => {
    const { value, done } = await lines.next()
    if (done === true) throw new Error(`The server of the kind "${kind}" failed.`)
    return JSON.parse(value)
  }
  const command = async (name: 'kill' | 'start') => {
    child.stdin.write(`${name}\n`)
    await read()
  }
  const { url = '', urls = [url] } = await read()
  return { url, urls, kill: async () => await command('kill'), start: async () => await command('start') }
}

/** A network between a client and a server that can fail. */
export class Network {
  readonly #server = createServer((client) => this.#connect(client))
  readonly #sockets = new Set<Socket>()
  /** Those that {@link swallow} has left open. */
  readonly #swallowed: Socket[] = []
  #target: URL
  #isHanging = false
  #isMute = false

  private constructor (target: string) {
    this.#target = new URL(target)
  }

  static async to (t: Pick<Test, 'teardown'>, target: string): Promise<Network> {
    const network = new Network(target)
    network.#server.listen(0, '127.0.0.1')
    await once(network.#server, 'listening')
    t.teardown(() => { network.close() })
    return network
  }

  /** The address of the server by way of this network. */
  get url (): string {
    const url = new URL(this.#target)
    const address = this.#server.address()
    if (typeof address === 'object' && address !== null) url.port = String(address.port)
    return url.href
  }

  #connect (client: Socket): void {
    const server = connect(Number(this.#target.port), this.#target.hostname)
    for (const [from, to] of [[client, server], [server, client]] as const) {
      this.#sockets.add(from)
      from.on('data', (bytes) => { if (!this.#isMute || from === client) to.write(bytes) }).on('error', () => {}).on('close', () => {
        this.#sockets.delete(from)
        to.destroy()
      })
      if (this.#isHanging) from.pause()
    }
  }

  /** Nothing arrives until `resume`; then everything does. */
  hang (): void {
    this.#isHanging = true
    for (const socket of this.#sockets) socket.pause()
  }

  resume (): void {
    this.#isHanging = false
    for (const socket of this.#sockets) socket.resume()
  }

  /** What the server answers is lost until `speak`, which ends all connections. */
  mute (): void {
    this.#isMute = true
  }

  speak (): void {
    this.#isMute = false
    this.cut()
  }

  /** Nothing arrives any more by the connections that are open. New ones work. */
  swallow (): void {
    for (const socket of this.#sockets) {
      socket.pause()
      this.#sockets.delete(socket)
      this.#swallowed.push(socket)
    }
  }

  /** Ends all connections, and refuses new ones from now on. */
  close (): void {
    this.#server.close()
    this.cut()
  }

  /** Ends all connections. */
  cut (): void {
    for (const socket of [...this.#sockets, ...this.#swallowed]) socket.destroy()
  }

  /** Connects to another server from now on, as after a failover. */
  moveTo (target: string): void {
    this.redirect(target)
    this.cut()
  }

  /** Connects to another server from now on. The connections to the old one stay. */
  redirect (target: string): void {
    this.#target = new URL(target)
  }
}
