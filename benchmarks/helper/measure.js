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

/** Starts a server in a separate process. */
export async function startServer (server, options, launching) {
  const child = launch(serversFile, launching)
  const { port } = await ask(child, { server, options })
  return { port, ask: (question) => ask(child, question), stop: () => stop(child) }
}

/** A server that repeatedly gets the same list of requests. */
class Subject {
  #server
  #one
  #many
  #requests
  #status
  #remembers
  #next = 0
  #count
  #user = 0
  #total = 0

  static async start ({ name, server = name, options = {}, requests, status, remembers = false }) {
    const subject = new Subject()
    subject.name = name
    subject.#requests = requests
    subject.#status = status
    subject.#remembers = remembers
    subject.#server = await startServer(server, options)
    subject.#one = await openConnections(subject.#server.port, 1)
    subject.#many = await openConnections(subject.#server.port, manyConnections)
    return subject
  }

  async #send (connections, count) {
    const from = this.#next
    this.#next += count
    await exchange(connections, (number) => this.#requests[(from + number) % this.#requests.length], count, (status) => {
      if (status !== this.#status) throw new Error(`"${this.name}" answered ${status} instead of ${this.#status}.`)
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
    await this.#send(connections, count)
    const { user, system } = await this.#server.ask('cpu')
    const [userTime, systemTime] = [user - before.user, system - before.system]
    this.#user += userTime
    this.#total += userTime + systemTime
    return (userTime + systemTime) / count
  }

  /** The share of the time in user mode over all windows. The clock of the system is too coarse for a single window. */
  get userPart () { return this.#user / this.#total }

  /** Microseconds of CPU time per request in a window, over one connection and over many. */
  async measure () {
    return { one: await this.#measure(this.#one, this.#count), many: await this.#measure(this.#many, Math.ceil(this.#count / 3)) }
  }

  async stop () {
    for (const connection of [...this.#one, ...this.#many]) connection.close()
    await this.#server.stop()
  }
}

async function replicate (subjects, results, { windows, requests, random }) {
  const started = []
  // Shuffles the servers from the start, so that other load on the machine does not affect the same server each time.
  for (const subject of shuffled(subjects, random)) {
    const running = await Subject.start(subject)
    await running.warmUp(requests)
    started.push(running)
  }
  for (let window = 0; window < windows; window++) {
    const times = new Map()
    for (const subject of shuffled(started, random)) {
      times.set(subject.name, await subject.measure())
    }
    for (const [name, time] of times) results.get(name).push({ ...time, bare: times.get('bare'), ours: times.get('fastify-token-auth') })
  }
  for (const subject of started) {
    for (const window of results.get(subject.name).slice(-windows)) window.userPart = subject.userPart
    await subject.stop()
  }
}

async function measureAll (title, subjects, settings) {
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
      // The multiple of the CPU time of fastify-token-auth.
      ...(windows[0].ours !== undefined && { timesOurs: summary(windows.map(({ one, ours }) => one / ours.one)) })
    }
  })
  const { median } = rows.find(({ name }) => name === 'bare again').ratio
  return { title, rows, isVoid: median < tolerance.min || median > tolerance.max }
}

/**
 * Measures servers in alternation, in new processes for each replicate. Repeats the measurement once if the two
 * measurements of the bare route differ.
 * @param subjects name, server, options, requests, and expected status of each server, including `bare` and `bare again`
 */
export async function compare (title, subjects, settings) {
  let result = await measureAll(title, subjects, settings)
  if (result.isVoid && !settings.isQuick) {
    console.log(`\n${title}: the two measurements of the bare route differ. Repeating.`)
    result = await measureAll(title, subjects, settings)
  }
  console.log(`\n${title}${result.isVoid ? ': VOID, the two measurements of the bare route differ' : ''}`)
  for (const { name, ratio, microseconds } of result.rows) {
    console.log(`  ${name.padEnd(42)} ${ratio.median.toFixed(2)} (${ratio.min.toFixed(2)} to ${ratio.max.toFixed(2)})  ${microseconds.toFixed(0)} us`)
  }
  return result
}
