/** Processes of an application with sessions, with the built package: see test/outside/fixtures/session-process.js. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request as send } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { bearer, secret } from '../../helper.ts'
import type { Tokens } from '../../sessions/helper.ts'

const program = fileURLToPath(new URL('../fixtures/session-process.js', import.meta.url))

/** What a process is told. The fixture has the defaults of what is left out. */
export interface ProcessOptions {
  readonly kind: string
  readonly url: string
  /** The servers of a cluster, and the addresses by which this process reaches them. */
  readonly urls?: readonly string[]
  readonly map?: Record<string, { host: string, port: number }>
  readonly stopAt?: string
  readonly poll?: number
  /** How long a call of the store may take, in milliseconds. */
  readonly patience?: number
}

export interface Answer { status: number, body: string }

/** A request that can be given up. */
export interface Asking {
  /** Resolves when it is in the socket. */
  readonly sent: Promise<unknown>
  /** Resolves to null if it was given up. */
  readonly answer: Promise<Answer | null>
  giveUp (): void
}

/** A process that runs the application. */
export class Process {
  readonly child: ChildProcess
  readonly #port: number
  readonly #agent: Agent

  private constructor (child: ChildProcess, port: number, agent: Agent) {
    this.child = child
    this.#port = port
    this.#agent = agent
  }

  static async start (t: Pick<Test, 'teardown'>, options: ProcessOptions): Promise<Process> {
    // No loader of the test runner in there: it is the package that runs, as it was built.
    const child = fork(program, { execArgv: [], env: { OPTIONS: JSON.stringify({ secret, ...options }) } })
    const agent = new Agent({ keepAlive: true, maxSockets: 50 })
    t.teardown(async () => {
      agent.destroy()
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'exit')
    })
    const [{ port }] = await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(([code]) => { throw new Error(`The process ended with ${code}; is dist/ built?`) })
    ])
    return new Process(child, port, agent)
  }

  #ask (method: string, path: string, headers: Record<string, string> = {}, body?: object, agent: Agent | false = this.#agent): Asking {
    const json = body === undefined ? {} : { 'content-type': 'application/json' }
    const request = send({ port: this.#port, host: '127.0.0.1', method, path, headers: { ...headers, ...json }, agent })
    let isGivenUp = false
    const receive = async (): Promise<Answer | null> => {
      try {
        request.end(body === undefined ? undefined : JSON.stringify(body))
        const [response] = await once(request, 'response')
        let text = ''
        for await (const chunk of response.setEncoding('utf8')) text += chunk
        return { status: response.statusCode, body: text }
      } catch (error) {
        if (isGivenUp) return null
        throw error
      }
    }
    const giveUp = () => {
      isGivenUp = true
      request.destroy()
    }
    return { sent: once(request, 'finish'), answer: receive(), giveUp }
  }

  async #send (...parameters: [method: string, path: string, headers?: Record<string, string>, body?: object]): Promise<Answer> {
    const answer = await this.#ask(...parameters).answer
    if (answer === null) throw new Error('Nobody gives it up.')
    return answer
  }

  async logIn (username = 'ada'): Promise<Tokens> {
    return JSON.parse((await this.#send('POST', '/auth', {}, { username })).body)
  }

  async refresh (token: string): Promise<Answer> {
    return await this.#send('POST', '/auth/refresh', {}, { refresh_token: token })
  }

  /** The same over a connection of its own. */
  beginRefresh (token: string): Asking {
    return this.#ask('POST', '/auth/refresh', {}, { refresh_token: token }, false)
  }

  async logOut (token: string): Promise<number> {
    return (await this.#send('POST', '/auth/logout', {}, { refresh_token: token })).status
  }

  async get (token: string): Promise<number> {
    return (await this.#send('GET', '/', bearer(token))).status
  }

  /** What happened in the process, with the number of times. */
  async events (): Promise<Record<string, number>> {
    return JSON.parse((await this.#send('GET', '/events')).body)
  }

  /** Refreshes, and kills the process when it stops. */
  async dieIn (token: string, stop: (refreshing: Promise<unknown>) => Promise<void>): Promise<void> {
    const stopped = once(this.child, 'message')
    const refreshing = this.refresh(token).catch(() => {})
    await stopped
    await stop(refreshing)
    await this.kill()
    await refreshing
  }

  async kill (): Promise<void> {
    const exit = once(this.child, 'exit')
    this.child.kill('SIGKILL')
    await exit
  }

  /** Closes the application, as a deploy does. */
  async close (): Promise<void> {
    const exit = once(this.child, 'exit')
    this.#agent.destroy()
    this.child.send('close')
    await exit
  }
}

/** In milliseconds: how long a test waits for what should be true soon, before it fails. */
const patience = 60_000

export async function until (isTrue: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + patience
  while (!await isTrue()) {
    if (performance.now() > end) throw new Error('What a test waits for does not become true.')
    await wait(10)
  }
}
