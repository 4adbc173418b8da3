/**
 * What is broken. Each fault breaks something, waits, heals it, and records when. What the documents promise depends on how
 * late a request may be executed: `settings.late` milliseconds on the way from its client, and as many on the way to the
 * database. With a window that is long enough for it, the second of them may be five seconds, after which a call of the store
 * is not executed any more.
 */
import { placeOf } from './database.js'
import { suspend } from './worlds.js'

/** Longer than the five seconds of a call. */
const afterDeadline = 5600

/** How long calls of the store may be delayed. */
const delayOf = (random, { late, patience, grace }) => random.is(0.5) || late + 5000 + patience + 500 > grace ? random.between(200, late) : random.between(late, 1.3 * afterDeadline)
/** A pause of a process does not delay calls: it begins those that it reads afterwards after it. */
const pauseOf = (random, { late }) => random.is(0.5) ? random.between(200, late) : random.between(afterDeadline, 1.3 * afterDeadline)
const processesOf = (random, { processes }) => random.is(0.3) ? processes : [random.oneOf(processes)]
const namesOf = (processes) => processes.map(({ name }) => name)

const common = {
  /** A process is paused, with requests in its sockets. */
  async stop (world, random, record) {
    const process = random.oneOf(world.processes)
    await record({ processes: [process.name], store: true }, async () => await suspend(process.pid, pauseOf(random, world.settings)))
  },
  /** A process is killed, and another one takes its place. */
  async kill (world, random, record) {
    const process = random.oneOf(world.processes)
    await record({ processes: [process.name], store: true }, async () => {
      await process.kill()
      await world.pause(random.between(0, 1000))
      await process.start()
    })
  },
  /** Connections to the database are reset. */
  async reset (world, random, record) {
    const processes = processesOf(random, world)
    await record({ processes: namesOf(processes), store: true }, async () => {
      for (const { networks } of processes) for (const network of networks) network.reset()
    })
  },
  /** What processes send to the database, and what it answers, arrives late. */
  async hold (world, random, record) {
    const processes = processesOf(random, world)
    await record({ processes: namesOf(processes), store: true }, async () => {
      const release = processes.flatMap(({ networks }) => networks.map((network) => network.hold()))
      await world.pause(delayOf(random, world.settings))
      for (const end of release) end()
    })
  },
  /** The database executes everything, and what it answers is lost. */
  async mute (world, random, record) {
    const processes = processesOf(random, world)
    await record({ processes: namesOf(processes), store: true }, async () => {
      const heal = processes.flatMap(({ networks }) => networks.map((network) => network.mute()))
      await world.pause(random.is(0.5) ? random.between(300, 3000) : random.between(afterDeadline, 1.3 * afterDeadline))
      for (const end of heal) end()
    })
  },
  /** A network swallows everything. Afterwards, new connections work, and old ones hang until they are reset. */
  async swallow (world, random, record) {
    const processes = processesOf(random, world)
    await record({ processes: namesOf(processes), store: true }, async () => {
      const heal = processes.flatMap(({ networks }) => networks.map((network) => network.swallow()))
      await world.pause(random.between(300, 3000))
      const reset = heal.map((end) => end())
      await world.pause(random.between(0, 3000))
      for (const end of reset) end()
    })
  }
}

/** Redis refuses to write. */
async function readonly (world, random, record) {
  const [{ urls }] = world.database.servers
  const clients = urls.map((url) => world.redisOf(url))
  const set = async (count) => { for (const client of clients) await client.config('SET', 'min-replicas-to-write', count) }
  await record({ processes: '*', store: true, reads: true }, async () => {
    await set(1)
    await world.pause(random.between(300, 6000))
    await set(0)
  })
  for (const client of clients) client.disconnect()
}

/** PostgreSQL refuses to write. */
async function readonlyTransactions (world, random, record) {
  const set = async (value) => {
    await world.operator.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`)
    await world.operator.query('SELECT pg_reload_conf()')
  }
  await record({ processes: '*', store: true, reads: true }, async () => {
    await set('on')
    await world.pause(random.between(300, 6000))
    await set('off')
  })
}

/** The server is killed, and started again with what it has written. */
async function restart (world, random, record) {
  const [server] = world.database.servers
  await record({ processes: '*', store: true }, async () => {
    await server.kill()
    await world.pause(random.between(0, 1500))
    await server.start()
  })
}

/** A replica that has missed the last writes takes the place of the primary. */
async function failover (world, random, record) {
  const [primary] = world.database.servers
  const replica = await world.startServer('redis', '--appendonly', 'yes', '--repl-diskless-sync-delay', '0')
  const other = world.redisOf(replica.url)
  const { host, port } = placeOf(primary.url)
  await other.replicaof(host, port)
  for (let tries = 0; (await other.info('replication')).includes('master_link_status:down'); tries++) {
    if (tries > 200) throw new Error('The replica does not reach the primary.')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  // What is written now is lost, and perhaps what was written just before.
  const lost = { type: 'lost-writes', from: world.history.now() - 1000 }
  await other.replicaof('NO', 'ONE')
  await world.pause(random.between(300, 1500))
  await record({ processes: '*', store: true }, async () => {
    await primary.kill()
    for (const { networks: [network] } of world.processes) {
      network.moveTo(placeOf(replica.url))
      network.reset()
    }
    world.history.add({ ...lost, to: world.history.now() })
    world.database.servers = [replica]
    world.operator = other
  })
}

/**
 * In milliseconds. A read of the ended sessions waits up to four seconds for a node that does not answer, and so may the one
 * before it, which began too early.
 */
const readDelay = 8500

/** A node of a cluster does not answer. */
async function node (world, random, record) {
  const [{ urls }] = world.database.servers
  const client = world.redisOf(random.oneOf(urls))
  const keys = await client.keys('*:u:*')
  const users = keys.map((key) => JSON.parse(key.slice(key.indexOf(':u:') + 3)))
  const pid = Number(/process_id:(\d+)/.exec(await client.info('server'))?.[1])
  client.disconnect()
  // It may last longer than others, because sessions on the other nodes go on.
  const duration = delayOf(random, world.settings)
  await record({ processes: '*', store: true, users, delay: readDelay }, async () => await suspend(pid, duration < afterDeadline ? duration : 2.5 * duration))
}

/** Rows are locked by a transaction that is rolled back. */
async function lock (world, random, record) {
  const client = await world.operator.connect()
  await record({ processes: '*', store: true, reads: true }, async () => {
    try {
      await client.query('BEGIN')
      await client.query('UPDATE token_auth_sessions SET data = data')
      await world.pause(delayOf(random, world.settings))
    } catch (error) {
      // A deadlock with a process that ends several sessions.
      if (error.code !== '40P01') throw error
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
  })
}

/** Commits wait for a synchronous standby that does not answer. */
async function standby (world, random, record) {
  const set = async (value) => {
    await world.operator.query(`ALTER SYSTEM SET synchronous_standby_names = '${value}'`)
    await world.operator.query('SELECT pg_reload_conf()')
  }
  await record({ processes: '*', store: true, reads: true }, async () => {
    await set('stopped')
    // Also for longer than a poll looks back. What waits then is executed already, and is seen late.
    await world.pause(random.is(0.4) ? random.between(11_000, 15_000) : delayOf(random, world.settings))
    await set('')
  })
}

export const faults = {
  redis: { ...common, restart, failover, readonly },
  'redis-cluster': { ...common, node, readonly },
  postgres: { ...common, restart, lock, standby, readonly: readonlyTransactions }
}

/** Faults of the network between clients and processes, which happen to single requests all the time. */
export const requestFaults = {
  /** The answer is lost, or arrives late. */
  answers: (random, { late }) => random.is(0.7) ? { losesAnswers: true } : { holdAnswers: random.between(100, late) },
  /** The request arrives late, perhaps when its client has gone. */
  requests: (random, { late }) => ({ holdRequests: random.between(late / 3, late) })
}

export const faultNames = [...new Set([...Object.values(faults).flatMap((kind) => Object.keys(kind)), ...Object.keys(requestFaults)])]

/** Breaks one thing after another until the run is over. @param names the faults to choose from */
export async function breakThings (world, names) {
  const random = world.random('faults')
  const ofRequests = Object.keys(requestFaults).filter((name) => names.includes(name))
  const plans = world.random('requests')
  world.frontPlan = () => ofRequests.length > 0 && plans.is(0.15) ? requestFaults[plans.oneOf(ofRequests)](plans, world.settings) : {}
  const own = Object.entries(faults[world.kind]).filter(([name]) => names.includes(name))
  while (!world.isOver) {
    await world.pause(random.between(500, world.settings.calm))
    if (world.isOver || own.length === 0) continue
    const [name, fault] = random.oneOf(own)
    await fault(world, random, async (details, run) => await world.history.record({ type: 'fault', name, ...details }, async () => { await run() }))
  }
  world.frontPlan = () => ({})
}
