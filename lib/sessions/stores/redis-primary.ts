/**
 * A connection to the server that takes writes. In a failover, a managed Redis may give another server the name of its primary,
 * and leave the connections to the old one open: that one refuses what writes, until its clients connect again. The connections
 * of the application are its own, so this package opens one itself.
 */
import { isDoneWithin } from '../../promises.ts'
import type { Connection, OwnConnection, Script } from './redis-clients.ts'
import { memberOf } from '../../values.ts'

/** What a server says that has become a replica, or one whose primary is away and which must not answer then. */
const isReplica = (error: unknown) => replicaMessage.test(String(memberOf(error, 'message')))
// The second form is that of scripts before Redis 7.
const replicaMessage = /^(?:READONLY|MASTERDOWN) |^ERR Error running script .+ -(?:READONLY|MASTERDOWN) /

/** In milliseconds: how long a call waits for a new connection, and how long after one was opened another one is. */
const patience = 3000
const pause = 1000

export class PrimaryConnection {
  readonly #given: Connection
  #own: OwnConnection | undefined
  /** A connection that is not ready yet, and what resolves when it is, or has failed. */
  #opening: { readonly connection: OwnConnection, readonly settled: Promise<void> } | undefined
  #openedAt = -Infinity
  /** How many calls of a connection are under way, where there are any. */
  readonly #calls = new Map<Connection, number>()
  readonly #replaced = new Set<OwnConnection>()

  /** @param given that of the application */
  constructor (given: Connection) {
    this.#given = given
  }

  get #current (): Connection {
    // It does not connect again. That of the application does.
    if (this.#own?.isOver() === true) this.#own = undefined
    return this.#own?.connection ?? this.#given
  }

  async execute (script: Script, keys: readonly string[], values: ReadonlyArray<string | number>): Promise<unknown> {
    const used = this.#current
    try {
      return await this.#count(used, () => used.execute(script, keys, values))
    } catch (error) {
      if (!isReplica(error)) throw error
      // Another call may have found it meanwhile.
      if (this.#current === used) await this.#reopen()
      if (this.#current === used) throw error
      const next = this.#current
      return await this.#count(next, () => next.execute(script, keys, values))
    }
  }

  /** Executes a call of a connection, and closes it with its last call where another one has replaced it: the others are refused by their server, not dropped. */
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

  /** Connects again, unless that was done just before. Waits for it for some time; it may be ready later, for other calls. */
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

  /** Closes what was opened here. The next call uses the connection of the application again. */
  close (): void {
    for (const own of this.#replaced) own.close()
    this.#replaced.clear()
    this.#own?.close()
    this.#opening?.connection.close()
    this.#own = this.#opening = undefined
    this.#openedAt = -Infinity
  }
}
