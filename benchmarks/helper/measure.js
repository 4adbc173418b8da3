/** Compares the CPU time per request of servers, in alternation with a bare server. */
import { ask, launch, stop } from './cores.js'
import { exchange, openConnections } from './client.js'
import { shuffled, summary } from './statistics.js'

/** Allowed ratio of two measurements of the same server. Beyond it, the other results are not meaningful. */
export const tolerance = { min: 0.95, max: 1.05 }

const serversFile = new URL('../servers.js', import.meta.url)
/** With fewer requests, the compiler would be measured. */
const leastWarmUp = 10_000
const manyConnections = 32
/** Maximum CPU time of a window in microseconds. A slow server gets fewer requests, so that all get about the same time. */
const longestWindow = 40_000

/**
 * The same young generation for all servers, in megabytes. Otherwise its size depends on how much a program has loaded: a bare
 * route in a process that only loads more code would be faster.
 */
const sameMemory = ['--min-semi-space-size=16', '--max-semi-space-size=16']

/** Starts a server in a separate process. */
export async function startServer (server, options, { flags = [], ...launching } = {}) {
  const child = launch(serversFile, { flags: [...sameMemory, ...flags], ...launching })
  const { port } = await ask(child, { server, options })
  return { port, ask: (question) => ask(child, question), stop: () => stop(child) }
}

/** A server that repeatedly gets the same list of requests, or a list in which an answer replaces its request. */
class Subject {
  #server
  #one
  #many
  #requests
  #next
  #status
  #remembers
  #sent = 0
  #count
  #user = 0
  #total = 0
  /** How long the last window took. */
  #seconds

  /** @param processes the running servers, by name */
  static async start ({ name, server = name, process = name, options = {}, requests, next, status, remembers = false }, processes) {
    if (!processes.has(process)) processes.set(process, await startServer(server, options))
    const subject = new Subject()
    subject.name = name
    subject.#next = next
    subject.#status = status
    subject.#remembers = remembers
    subject.#server = processes.get(process)
    subject.#one = await openConnections(subject.#server.port, 1)
    subject.#many = await openConnections(subject.#server.port, manyConnections)
    subject.#requests = typeof requests === 'function' ? await requests(subject.#one) : requests
    return subject
  }

  async #send (connections, count) {
    const from = this.#sent
    this.#sent += count
    const placeOf = (number) => (from + number) % this.#requests.length
    await exchange(connections, (number) => this.#requests[placeOf(number)], count, (status, number, text) => {
      if (status !== this.#status) throw new Error(`"${this.name}" answered ${status} instead of ${this.#status}.`)
      if (this.#next !== undefined) this.#requests[placeOf(number)] = this.#next(text)
    })
  }

  /** If the server remembers tokens, each token is sent once before the measurement, so that the cache is filled. */
  async warmUp (requests) {
    await this.#send(this.#many, this.#remembers ? Math.max(leastWarmUp, this.#requests.length) : leastWarmUp)
    this.#count = Math.min(requests, Math.ceil(longestWindow / await this.#measure(this.#one, 500)))
    this.#user = this.#total = 0
  }

  async #measure (connections, count) {
    const before = await this.#server.ask('cpu')
    const start = performance.now()
    await this.#send(connections, count)
    this.#seconds = (performance.now() - start) / 1000
    const { user, system } = await this.#server.ask('cpu')
    const [userTime, systemTime] = [user - before.user, system - before.system]
    this.#user += userTime
    this.#total += userTime + systemTime
    return (userTime + systemTime) / count
  }

  /** The share of the time in user mode over all windows. The clock of the system is too coarse for a single window. */
  get userPart () { return this.#user / this.#total }

  /** Microseconds of CPU time per request in a window, over one connection and over many, and the number of requests per second over many. */
  async measure () {
    const one = await this.#measure(this.#one, this.#count)
    const count = Math.ceil(this.#count / 3)
    const many = await this.#measure(this.#many, count)
    return { one, many, perSecond: count / this.#seconds }
  }

  close () {
    for (const connection of [...this.#one, ...this.#many]) connection.close()
  }
}

async function replicate (subjects, results, { windows, requests, random, baseline }) {
  const processes = new Map()
  const started = []
  // Shuffles the servers from the start, so that other load on the machine does not affect the same server each time.
  for (const subject of shuffled(subjects, random)) {
    const running = await Subject.start(subject, processes)
    await running.warmUp(requests)
    started.push(running)
  }
  for (let window = 0; window < windows; window++) {
    const times = new Map()
    for (const subject of shuffled(started, random)) {
      times.set(subject.name, await subject.measure())
    }
    for (const [name, time] of times) results.get(name).push({ ...time, bare: times.get(baseline), ours: times.get('fastify-token-auth') })
  }
  for (const subject of started) {
    for (const window of results.get(subject.name).slice(-windows)) window.userPart = subject.userPart
    subject.close()
  }
  for (const server of processes.values()) await server.stop()
}

async function measureAll (title, subjects, settings) {
  const { baseline } = settings
  const results = new Map(subjects.map(({ name }) => [name, []]))
  for (let count = 0; count < settings.replicates; count++) await replicate(subjects, results, settings)
  const rows = subjects.map(({ name }) => {
    const windows = results.get(name)
    return {
      name,
      microseconds: summary(windows.map(({ one }) => one)).median,
      userMicroseconds: summary(windows.map(({ one, userPart }) => one * userPart)).median,
      ratio: summary(windows.map(({ one, bare }) => bare.one / one)),
      ratioOfMany: summary(windows.map(({ many, bare }) => bare.many / many)),
      perSecond: Math.round(summary(windows.map(({ perSecond }) => perSecond)).median),
      // The multiple of the CPU time of fastify-token-auth.
      ...(windows[0].ours !== undefined && { timesOurs: summary(windows.map(({ one, ours }) => one / ours.one)) })
    }
  })
  const { median } = rows.find(({ name }) => name === `${baseline} again`).ratio
  return { title, baseline, rows, isVoid: median < tolerance.min || median > tolerance.max }
}

/** Other load on a machine passes. Whether it does is seen by the baseline alone, not by what is measured. */
const maximumTries = 4

/**
 * Measures servers in alternation, in new processes for each replicate. Repeats the measurement, at most three times,
 * while the two measurements of the baseline differ.
 * @param subjects name, server, options, requests, and expected status of each server, including the baseline twice, such
 * as `bare` and `bare again`. Subjects with the same `process` share a server. `requests` may be a function that gets a
 * connection and returns the requests. `next` returns, from an answer, the request that replaces the answered one; the list
 * must then be much longer than the number of connections
 * @param given the settings; `baseline` is the name of the subject to which the others are relative
 */
export async function compare (title, subjects, given) {
  const settings = { baseline: 'bare', ...given }
  const { baseline } = settings
  let result = await measureAll(title, subjects, settings)
  for (let tries = 1; result.isVoid && tries < maximumTries && !settings.isQuick; tries++) {
    console.log(`\n${title}: the two measurements of "${baseline}" differ. Repeating.`)
    result = await measureAll(title, subjects, settings)
  }
  console.log(`\n${title}${result.isVoid ? `: VOID, the two measurements of "${baseline}" differ` : ''}`)
  for (const { name, ratio, microseconds, ratioOfMany, perSecond } of result.rows) {
    console.log(`  ${name.padEnd(42)} ${ratio.median.toFixed(2)} (${ratio.min.toFixed(2)} to ${ratio.max.toFixed(2)})  ${microseconds.toFixed(0).padStart(4)} us  32 connections: ${ratioOfMany.median.toFixed(2)}, ${perSecond.toLocaleString('en')} a second`)
  }
  return result
}
