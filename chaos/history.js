/**
 * The history of a run: what clients sent and were answered, and what was done to the processes and to the database. Each
 * entry is an object, and a line of JSON in the file. All times are milliseconds since the beginning of the run, by one
 * monotonic clock. Tokens are not recorded: `r7` is the seventh refresh token that was seen, `a7` the seventh access token,
 * and `s7` the seventh session.
 *
 * - `{ type: 'settings', grace, poll, slack, recovery, probe }`: the first entry. All are milliseconds.
 * - `{ type: 'operation', name, client, holder, habit, user, session, process, incarnation, from, to, status, reason,
 *   presented, refresh, access }`: a request. `holder` is `owner` or `thief`; `habit` is `single` for one try at a time,
 *   `tabs` for several at once, and `hammered` where a thief presents one token again and again; `incarnation` is the process
 *   that answered; `status` is null where no answer arrived until `to`; `reason` is the name of the error; `presented` is the
 *   token that was sent, `refresh` and `access` are those that were answered. The name is `login`, `refresh`, `access` (of a
 *   guarded route), `logout`, `end` (of sessions of the user, with `scope`: `one`, whose id is `target`, `others` or `all`) or
 *   `probe` (asks a process for something in the store).
 * - `{ type: 'fault', name, from, to, processes, users, store, reads, delay }`: what was broken, for these processes (names, or
 *   `*`). `store` says whether they may not have reached the store, for all users or only for these `users`; with `reads`, they
 *   could read from it, unless probes say otherwise. With a `delay`, they may have learned so much later what ended for the
 *   others.
 * - `{ type: 'lost-writes', from, to }`: what the store wrote in this time was lost at its end.
 * - `{ type: 'crash', process, from, output }`: a process ended by itself.
 * - `{ type: 'recovery', process, from, to, isGood }`: whether a process worked again after everything was healed.
 */
import { closeSync, openSync, writeSync } from 'node:fs'

export class History {
  entries = []
  #file
  #begin = performance.now()
  #labels = new Map()
  #counts = { r: 0, a: 0, s: 0 }
  /** What has begun and not ended. */
  #open = new Set()

  /** @param file where the lines are written; undefined: nowhere */
  constructor (settings, file) {
    this.#file = file === undefined ? undefined : openSync(file, 'w', 0o600)
    this.add({ type: 'settings', ...settings })
  }

  now () {
    return performance.now() - this.#begin
  }

  add (entry) {
    this.entries.push(entry)
    if (this.#file !== undefined) writeSync(this.#file, `${JSON.stringify(entry)}\n`)
  }

  /** @param kind `r`, `a` or `s` */
  label (kind, text) {
    let label = this.#labels.get(text)
    if (label === undefined) this.#labels.set(text, label = `${kind}${++this.#counts[kind]}`)
    return label
  }

  /** Adds an entry when something is over, with its times. @param run resolves to further properties */
  async record (entry, run) {
    const open = { ...entry, from: this.now() }
    this.#open.add(open)
    try {
      return Object.assign(open, await run())
    } finally {
      if (this.#open.delete(open)) this.add(Object.assign(open, { to: this.now() }))
    }
  }

  /** Adds what is not over yet, and closes the file. */
  close () {
    for (const open of this.#open) this.add({ ...open, to: this.now(), ...open.type === 'operation' && { status: null } })
    this.#open.clear()
    if (this.#file !== undefined) closeSync(this.#file)
    this.#file = undefined
  }
}
