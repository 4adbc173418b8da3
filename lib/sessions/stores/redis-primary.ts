/**
 * A connection to the server that accepts writes. In a failover, a managed Redis may assign the name of its primary to
 * another server, and leave the connections to the old one open, which then refuses writes until its clients connect again.
 * Only the application may reconnect its client, so this package opens another connection.
 */
import { isDoneWithin } from '../../promises.ts'
import type { Connection, OwnConnection, Script } from './redis-clients.ts'
import { memberOf } from '../../values.ts'

/** Whether an error comes from a server that has become a replica, or from a replica that must not answer without its primary. */
const isReplica = (error: unknown) => replicaMessage.test(String(memberOf(error, 'message')))
// The second form occurs in scripts before Redis 7.
const replicaMessage = /^(?:READONLY|MASTERDOWN) |^ERR Error running script .+ -(?:READONLY|MASTERDOWN) /

/** How long a call waits for a new connection, and the minimum time between two new connections, in milliseconds. */
const patience = 3000
const pause = 1000

export class PrimaryConnection {
  readonly #given: Connection
  #own: OwnConnection | undefined
  /** A connection that is not ready yet, and a promise that resolves when it is ready or has failed. */
  #opening: { readonly connection: OwnConnection, readonly settled: Promise<void> } | undefined
  #openedAt = -Infinity
  /** The number of calls in progress of each connection, if there are any. */
  readonly #calls = new Map<Connection, number>()
  readonly #replaced = new Set<OwnConnection>()

  /** @param given the connection of the application */
  constructor (given: Connection) {
    this.#given = given
  }

  get #current (): Connection {
    // It does not reconnect, unlike that of the application.
    if (this.#own?.isOver() === true) this.#own = undefined
    return this.#own?.connection ?? this.#given
  }

  async execute (script: Script, keys: readonly string[], values: ReadonlyArray<string | number>): Promise<unknown> {
    const used = this.#current
    try {
      return await this.#count(used, () => used.execute(script, keys, values))
    } catch (error) {
      if (!isReplica(error)) throw error
      // Another call may have opened a connection meanwhile.
      if (this.#current === used) await this.#reopen()
      if (this.#current === used) throw error
      const next = this.#current
      return await this.#count(next, () => next.execute(script, keys, values))
    }
  }

  /** Executes a call. Closes a replaced connection only after its last call, so that no call in progress is dropped. */
  async #count (connection: Connection, call: () => Promise<unknown>): Promise<unknown> {
    this.#calls.set(connection, (this.#calls.get(connection) ?? 0) + 1)
    try {
      return await call()
    } finally {
      const left = this.#calls.get(connection)! - 1
      if (left > 0) {
        this.#calls.set(connection, left)
      } else {
        this.#calls.delete(connection)
        this.#closeReplaced()
      }
    }
  }

  #closeReplaced (): void {
    for (const own of this.#replaced) {
      if (this.#calls.has(own.connection)) continue
      this.#replaced.delete(own)
      own.close()
    }
  }

  /** Opens a connection, unless one was opened within `pause`. Waits for it for `patience`; later, it can serve other calls. */
  async #reopen (): Promise<void> {
    if (this.#opening === undefined && performance.now() - this.#openedAt >= pause) this.#open()
    if (this.#opening === undefined) return
    const { settled } = this.#opening
    await isDoneWithin(patience, () => settled)
  }

  #open (): void {
    const connection = this.#given.open?.()
    if (connection === undefined) return
    this.#openedAt = performance.now()
    const settled = connection.ready.then(() => {
      if (this.#opening?.connection !== connection) return
      if (this.#own !== undefined) this.#replaced.add(this.#own)
      this.#own = connection
      this.#closeReplaced()
    }, () => { connection.close() }).finally(() => { if (this.#opening?.connection === connection) this.#opening = undefined })
    this.#opening = { connection, settled }
  }

  /** Closes the connections that this object has opened. The next call uses the connection of the application again. */
  close (): void {
    for (const own of this.#replaced) own.close()
    this.#replaced.clear()
    this.#own?.close()
    this.#opening?.connection.close()
    this.#own = this.#opening = undefined
    this.#openedAt = -Infinity
  }
}
