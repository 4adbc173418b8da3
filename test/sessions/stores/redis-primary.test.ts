/** What the store in Redis does when its server has become a replica. test/outside/stores/failover.test.ts shows it with servers. */
import { EventEmitter } from 'node:events'
import t from 'tap'
import { redisSessions, type OwnIoredis, type OwnNodeRedis } from '../../../lib/index.ts'
import { scriptOf, type Connection, type OwnConnection } from '../../../lib/sessions/stores/redis-clients.ts'
import { PrimaryConnection } from '../../../lib/sessions/stores/redis-primary.ts'
import { build, holdTimers, setMonotonicClock, together } from '../../helper.ts'
import { started } from '../helper.ts'

const rules = { graceMs: 30_000, idleMs: 600_000, keepMs: 600_000, maxPerUser: 1 }
const readOnly = "READONLY You can't write against a read only replica."
const script = scriptOf('')

/** An own connection that a test makes ready. It answers with its number, or with an error. */
class Own implements OwnConnection {
  readonly #answer: number | string
  isClosed = false
  accept = () => {}
  fail: (reason: Error) => void = () => {}
  readonly ready = new Promise<void>((resolve, reject) => {
    this.accept = resolve
    this.fail = reject
  })

  constructor (answer: number | string) {
    this.#answer = answer
  }

  readonly connection: Connection = {
    execute: async () => {
      if (typeof this.#answer === 'string') throw new Error(this.#answer)
      return this.#answer
    }
  }

  isOver (): boolean { return this.isClosed }
  close (): void { this.isClosed = true }
}

/** The connection of an application, whose server answers with `error` as long as there is one. */
function given (open?: (count: number) => Own) {
  const state: { error: string | undefined, readonly opened: Own[] } = { error: readOnly, opened: [] }
  const connection = new PrimaryConnection({
    async execute () {
      if (state.error !== undefined) throw new Error(state.error)
      return 0
    },
    open: open && (() => {
      const own = open(state.opened.length + 1)
      state.opened.push(own)
      return own
    })
  })
  return { state, connection, execute: async () => await connection.execute(script, [], []) }
}

const ready = (answer: number | string) => {
  const own = new Own(answer)
  own.accept()
  return own
}

t.test('what a replica refuses is executed by another connection, as everything after it', async (t) => {
  const ofReplicas = [readOnly, "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."]
  // What a script says of the same before Redis 7.
  for (const message of ofReplicas.flatMap((text) => [text, `ERR Error running script (call to f_1f2e3d): @user_script:4: @user_script: 4: -${text} `])) {
    const { state, execute } = given(ready)
    state.error = message
    t.same(await Promise.all([execute(), execute(), execute()]), [1, 1, 1])
    state.error = undefined
    t.equal(await execute(), 1)
    t.equal(state.opened.length, 1)
  }
})

t.test('other errors open nothing, and clusters have no other connection', async (t) => {
  const { state, execute } = given(ready)
  state.error = 'NOREPLICAS Not enough good replicas to write.'
  await t.rejects(execute(), /^NOREPLICAS/)
  state.error = 'ERR Error running script (call to f_1f2e3d): @user_script:4: @user_script: 4: -NOREPLICAS Not enough good replicas to write. '
  await t.rejects(execute(), /^ERR/)
  t.same(state.opened, [])
  await t.rejects(given().execute(), { message: readOnly })
})

t.test('where the other server refuses, too, a third connection is opened, not more than one in a second', async (t) => {
  const setTime = setMonotonicClock(t)
  setTime(0)
  const { state, execute } = given((count) => ready(count < 3 ? readOnly : count))
  await t.rejects(execute(), { message: readOnly })
  setTime(999)
  await t.rejects(execute(), { message: readOnly })
  t.equal(state.opened.length, 1)
  setTime(1000)
  await t.rejects(execute(), { message: readOnly })
  setTime(2000)
  t.equal(await execute(), 3)
  t.same(state.opened.map(({ isClosed }) => isClosed), [true, true, false])
})

t.test('a call waits for three seconds, and a connection that is ready later is used by later calls', async (t) => {
  const expire = holdTimers(t, 3000)
  const { state, execute } = given((count) => new Own(count))
  const calls = [execute(), execute()]
  await new Promise(setImmediate)
  expire()
  for (const call of calls) await t.rejects(call, { message: readOnly })
  t.equal(state.opened.length, 1)
  state.opened[0]?.accept()
  t.equal(await execute(), 1)
})

t.test('a connection that fails is closed, and one that has given up is not used any more', async (t) => {
  const { state, execute, connection } = given((count) => new Own(count))
  const failing = execute()
  await new Promise(setImmediate)
  state.opened[0]?.fail(new Error('refused'))
  await t.rejects(failing, { message: readOnly })
  t.equal(state.opened[0]?.isClosed, true)
  setMonotonicClock(t)(performance.now() + 1000)
  const next = execute()
  await new Promise(setImmediate)
  state.opened[1]?.accept()
  t.equal(await next, 2)
  state.opened[1]!.isClosed = true
  state.error = undefined
  t.equal(await execute(), 0, 'the connection of the application')
  connection.close()
})

t.test('calls under way on a connection that is replaced are refused by their server, and executed by the next one', async (t) => {
  const setTime = setMonotonicClock(t)
  setTime(0)
  let refuse = () => {}
  const slow = new Promise<never>((_resolve, reject) => { refuse = () => reject(new Error(readOnly)) })
  const first = Object.assign(ready(1), { isOver: () => false })
  const { state, execute, connection } = given((count) => count === 1 ? first : ready(count))
  t.equal(await execute(), 1)
  const answers = [slow, Promise.reject(new Error(readOnly))]
  first.connection.execute = async () => await answers.shift()
  setTime(1000)
  const calls = [execute(), execute()]
  t.equal(await calls[1], 2)
  t.equal(first.isClosed, false)
  refuse()
  t.equal(await calls[0], 2)
  t.equal(first.isClosed, true)
  first.isClosed = false
  connection.close()
  t.same([state.opened[0]?.isClosed, state.opened[1]?.isClosed], [false, true])
})

t.test('a connection that was replaced is closed with the last application, even with calls under way', async (t) => {
  const setTime = setMonotonicClock(t)
  setTime(0)
  let refuse = () => {}
  const slow = new Promise<never>((_resolve, reject) => { refuse = () => reject(new Error('closed')) })
  const { state, execute, connection } = given(ready)
  t.equal(await execute(), 1)
  const answers = [slow, Promise.reject(new Error(readOnly))]
  state.opened[0]!.connection.execute = async () => await answers.shift()
  setTime(1000)
  const calls = [execute(), execute()]
  t.equal(await calls[1], 2)
  connection.close()
  t.same(state.opened.map(({ isClosed }) => isClosed), [true, true])
  refuse()
  await t.rejects(calls[0]!, { message: 'closed' })
})

t.test('what is open, and what opens, is closed', async (t) => {
  const { state, execute, connection } = given((count) => count === 1 ? ready(readOnly) : new Own(count))
  const setTime = setMonotonicClock(t)
  setTime(0)
  await t.rejects(execute(), { message: readOnly })
  setTime(1000)
  const last = execute()
  await new Promise(setImmediate)
  connection.close()
  t.same(state.opened.map(({ isClosed }) => isClosed), [true, true])
  // It was ready at the same moment.
  state.opened[1]?.accept()
  await t.rejects(last, { message: readOnly })
  state.error = undefined
  t.equal(await execute(), 0)
})

/** A client of ioredis whose server is a replica, and what was done with those that are opened. */
function ioredis (log: string[], status = 'ready') {
  const client: OwnIoredis & EventEmitter = Object.assign(new EventEmitter(), {
    status,
    stream: { unref: () => { log.push('unref') } },
    async evalsha (): Promise<unknown> { throw new Error(readOnly) },
    async eval (): Promise<unknown> { throw new Error('The script is known.') },
    duplicate: ({ retryStrategy }: { retryStrategy: () => unknown }) => {
      log.push(String(retryStrategy()))
      return Object.assign(ioredis(log, 'wait'), { evalsha: async () => [] })
    },
    async connect () {
      log.push('connect')
      Object.assign(client, { status: 'ready' })
      client.emit('connect')
      client.emit('error', new Error('An error nobody listens to ends the process.'))
      client.emit('ready')
    },
    disconnect () {
      log.push('disconnect')
      Object.assign(client, { status: 'end' })
      client.emit('end')
    }
  })
  return client
}

/** The same of node-redis. */
function nodeRedis (log: string[]) {
  const client: OwnNodeRedis & EventEmitter = Object.assign(new EventEmitter(), {
    isReady: true,
    isOpen: true,
    async evalSha (): Promise<unknown> { throw new Error(readOnly) },
    async eval (): Promise<unknown> { throw new Error('The script is known.') },
    options: { socket: { port: 6380 } },
    duplicate: (options: object) => {
      log.push(JSON.stringify(options))
      return Object.assign(nodeRedis(log), { evalSha: async () => [] })
    },
    unref: () => { log.push('unref') },
    async connect () {
      log.push('connect')
      client.emit('error', new Error('An error nobody listens to ends the process.'))
    },
    destroy () {
      // As version 5 does.
      if (!client.isOpen) throw new Error('The client is closed')
      log.push('destroy')
      Object.assign(client, { isReady: false, isOpen: false })
    }
  })
  return client
}

t.test('clients of both libraries connect once more, and never again, without keeping the process alive, and are closed with the last application', async (t) => {
  for (const [name, client, expected] of [
    ['ioredis', (log: string[]) => ioredis(log), ['null', 'connect', 'unref', 'disconnect']],
    ['node-redis', (log: string[]) => nodeRedis(log), ['{"socket":{"port":6380,"reconnectStrategy":false}}', 'unref', 'connect', 'destroy']]
  ] as const) {
    const log: string[] = []
    const store = redisSessions(client(log))
    const sessions = { store: { ...store, endedSince: async () => ({ ended: [], cursor: '' }) }, poll: 60 }
    const app = await build(t, together({ sessions }, {}))
    await started(app)
    t.same(log, expected.slice(0, 3), name)
    await app.close()
    t.same(log, expected, name)
    t.same(await store.create({ sid: 'b', user: '1', lifetimeMs: 3_600_000, data: '{}' }, rules), [], 'it can be used again')
  }
})

t.test('an application closes also where the server has closed the connection of this package', async (t) => {
  const opened: OwnNodeRedis[] = []
  const client = nodeRedis([])
  client.duplicate = () => {
    const own = nodeRedis([])
    opened.push(own)
    return Object.assign(own, { evalSha: async () => [] })
  }
  const store = redisSessions(client)
  const app = await build(t, together({ sessions: { store: { ...store, endedSince: async () => ({ ended: [], cursor: '' }) }, poll: 60 } }, {}))
  await started(app)
  Object.assign(opened[0]!, { isOpen: false, isReady: false })
  await t.resolves(app.close())
})
