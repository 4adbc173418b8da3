/**
 * What is promised about lost answers, failures and stolen tokens, with four processes, twenty clients and real servers. The
 * windows last for minutes: an operator lets them end by changing when they began.
 */
import t, { type Test } from 'tap'
import { Network, skip } from '../../database.ts'
import { payloadOf } from '../../helper.ts'
import type { Tokens } from '../../sessions/helper.ts'
import { clusterBackend, postgresBackend, redisBackend, type Backend } from '../../sessions/stores/backends.ts'
import { Process, until, type ProcessOptions } from './process.ts'

const kinds = {
  redis: { start: redisBackend, skip: skip.redis },
  'redis-cluster': { start: clusterBackend, skip: skip.redis },
  postgres: { start: postgresBackend, skip: skip.postgres }
}

/** Somebody with tokens of a session: its owner, or a thief who has copied them. */
class Holder {
  tokens: Tokens
  readonly sid: string

  constructor (tokens: Tokens) {
    this.tokens = tokens
    this.sid = String(payloadOf(tokens.access_token).sid)
  }

  /** Refreshes, and keeps what is answered. @returns the status */
  async refresh (process: Process): Promise<number> {
    const { status, body } = await process.refresh(this.tokens.refresh_token)
    if (status === 200) this.tokens = JSON.parse(body)
    return status
  }

  /** Refreshes, and never gets the answer. @returns the status that was on its way */
  async lose (process: Process): Promise<number> {
    return (await process.refresh(this.tokens.refresh_token)).status
  }

  async use (process: Process): Promise<number> {
    return await process.get(this.tokens.access_token)
  }

  steal (): Holder {
    return new Holder(this.tokens)
  }
}

/** Four processes of one application. The last one tells the store once a minute what was received, as where timers sleep. */
class Service {
  readonly backend: Backend
  readonly #t: Test
  readonly #options: ProcessOptions
  processes: Process[] = []

  private constructor (t: Test, backend: Backend, kind: string) {
    this.#t = t
    this.backend = backend
    this.#options = { kind, url: backend.server.url, urls: backend.server.urls }
  }

  static async start (t: Test, kind: keyof typeof kinds): Promise<Service> {
    const service = new Service(t, await kinds[kind].start(t), kind)
    service.processes = await Promise.all([1, 1, 1, 60].map(async (poll) => await service.begin({ poll })))
    return service
  }

  async begin (options: Partial<ProcessOptions>): Promise<Process> {
    return await Process.start(this.#t, { ...this.#options, ...options })
  }

  /** A process whose way to the store can fail. */
  async beginBehindNetworks (options: Partial<ProcessOptions>): Promise<{ process: Process, networks: Network[] }> {
    const { urls } = this.backend.server
    const networks = await Promise.all(urls.map(async (url) => await Network.to(this.#t, url)))
    const places = networks.map(({ url }) => ({ host: '127.0.0.1', port: Number(new URL(url).port) }))
    const map = Object.fromEntries(urls.map((url, index) => [new URL(url).host, places[index]!]))
    return { networks, process: await this.begin({ ...options, url: networks[0]!.url, urls: networks.map(({ url }) => url), map }) }
  }

  at (index: number): Process {
    return this.processes[index % this.processes.length]!
  }

  get awake (): Process { return this.processes[0]! }
  get asleep (): Process { return this.processes[3]! }

  /** Another process takes the place of the one that sleeps. */
  async replaceSleeper (): Promise<void> {
    this.processes[3] = await this.begin({ poll: 60 })
  }

  async logIn (count: number): Promise<Holder[]> {
    return await Promise.all(Array.from({ length: count }, async (_, index) => new Holder(await this.at(index).logIn(`user ${index}`))))
  }

  /** Resolves when the store knows that the latest tokens of these sessions were received. */
  async untilConfirmed (holders: readonly Holder[]): Promise<void> {
    await until(async () => {
      const confirmed = await this.backend.confirmed()
      return holders.every(({ sid }) => confirmed.includes(sid))
    })
  }

  /** How often something has happened in the processes that run. */
  async count (event: string): Promise<number> {
    const events = await Promise.all(this.processes.map(async (process) => await process.events()))
    return events.reduce((sum, of) => sum + (of[event] ?? 0), 0)
  }
}

const sidsOf = (holders: readonly Holder[]) => holders.map(({ sid }) => sid)
const all = async <T> (holders: readonly Holder[], act: (holder: Holder, index: number) => Promise<T>): Promise<T[]> => await Promise.all(holders.map(act))
const half = (holders: readonly Holder[]) => [holders.filter((_, index) => index % 2 === 0), holders.filter((_, index) => index % 2 === 1)] as const

/** What fails, to 20 clients. Each of them must go on afterwards. */
const failures: Record<string, (t: Test, service: Service, clients: readonly Holder[]) => Promise<void>> = {
  // Promise: sessions/response-lost-connection
  async 'answers are lost again and again, and the retries are late' (t, service, clients) {
    const reissued = await service.count('refreshed')
    for (let times = 0; times < 3; times++) {
      t.same(await all(clients, async (client, index) => await client.lose(service.at(index + times))), clients.map(() => 200))
      await service.backend.endWindows(sidsOf(clients))
    }
    t.same(await all(clients, async (client, index) => await client.refresh(service.at(index))), clients.map(() => 200))
    t.equal(await service.count('refreshed') - reissued, 4 * clients.length, 'none of them repeats another')
  },

  // Promise: databases/refresh-was-executed
  async 'the database executes, and its answers are lost for minutes' (t, service, clients) {
    const { process, networks } = await service.beginBehindNetworks({ patience: 500 })
    await process.logIn()
    const before = await service.backend.counters()
    for (const round of [1, 2]) {
      for (const network of networks) network.mute()
      t.same(await all(clients, async (client) => await client.lose(process)), clients.map(() => 503), `round ${round}`)
      const after = await service.backend.counters()
      if (round === 1) t.ok(sidsOf(clients).some((sid) => after[sid] !== before[sid]), 'some were executed')
      await service.backend.endWindows(sidsOf(clients))
      for (const network of networks) network.speak()
    }
    // What is still in its queues is not executed any more.
    await process.kill()
  },

  // Promise: sessions/process-paused-such
  async 'a process is paused with requests in its sockets, and their clients have tried elsewhere meanwhile, with and without using what they got' (t, service, clients) {
    const [patient, others] = half(clients)
    const [using, resting] = half(patient)
    const paused = service.at(2)
    const events = await paused.events()
    paused.child.kill('SIGSTOP')
    const asked = await all(clients, async ({ tokens }) => {
      const asking = paused.beginRefresh(tokens.refresh_token)
      await asking.sent
      return asking
    })
    for (const [index, asking] of asked.entries()) if (others.includes(clients[index]!)) asking.giveUp()
    t.same(await all(clients, async (client) => await client.refresh(service.awake)), clients.map(() => 200))
    for (const holders of [using, half(others)[0]]) await all(holders, async (client) => await client.use(service.awake))
    await service.untilConfirmed(using)
    // Where nobody has used what came, the copies are executed later than the window.
    await service.backend.endWindows(sidsOf(resting))
    paused.child.kill('SIGCONT')
    const answers = await Promise.all(asked.map(async ({ answer }) => await answer))
    t.same(answers.filter((answer) => answer === null).length, others.length)
    t.same(new Set(answers.map((answer) => answer?.status)), new Set([undefined, 200]))
    t.equal((await paused.events()).refreshed, (events.refreshed ?? 0) + patient.length, 'each copy that was executed got a token of its own')
  },

  // Promise: databases/process-application-killed
  async 'a process is killed before it has told the store what was received' (t, service, clients) {
    const copies = clients.map((client) => client.steal())
    t.same(await all(clients, async (client) => await client.refresh(service.asleep)), clients.map(() => 200))
    t.same(await all(clients, async (client) => await client.use(service.asleep)), clients.map(() => 200))
    await service.asleep.kill()
    await service.replaceSleeper()
    await service.backend.endWindows(sidsOf(clients))
    t.same(await all(copies, async (copy) => await copy.refresh(service.awake)), clients.map(() => 200), 'until the next refresh, it is lenient')
  },

  // Promise: databases/after-failover-redis
  async 'the store refuses to write, and so to be told what was received' (t, service, clients) {
    t.same(await all(clients, async (client) => await client.refresh(service.awake)), clients.map(() => 200))
    await service.backend.refuseWrites(true)
    await until(async () => (await all(clients, async (client, index) => await client.lose(service.at(index)))).every((status) => status === 503))
    t.same(await all(clients, async (client) => await client.use(service.awake)), clients.map(() => 200))
    await until(async () => Number((await service.awake.events())['not confirmed']) > 0)
    t.same(await all(clients, async (client) => await client.use(service.awake)), clients.map(() => 200))
    await service.backend.refuseWrites(false)
    await until(async () => (await all(clients, async (client, index) => await client.lose(service.at(index)))).every((status) => status === 200))
  },

  async 'the store is told what was received after the next refresh, whose answer is lost' (t, service, clients) {
    t.same(await all(clients, async (client) => await client.refresh(service.asleep)), clients.map(() => 200))
    t.same(await all(clients, async (client) => await client.use(service.asleep)), clients.map(() => 200))
    await service.backend.endWindows(sidsOf(clients))
    t.same(await all(clients, async (client) => await client.lose(service.awake)), clients.map(() => 200))
    await service.asleep.close()
    await service.replaceSleeper()
    const confirmed = await service.backend.confirmed()
    t.notOk(sidsOf(clients).some((sid) => confirmed.includes(sid)))
  },

  // Promise: databases/backup-restored
  async 'the store loses what was received, and then a refresh, as by a failover or a backup' (t, service, clients) {
    t.same(await all(clients, async (client, index) => await client.refresh(service.at(index))), clients.map(() => 200))
    let restore = await service.backend.backUp()
    await all(clients, async (client) => await client.use(service.awake))
    await service.untilConfirmed(clients)
    await restore()
    const confirmed = await service.backend.confirmed()
    t.notOk(sidsOf(clients).some((sid) => confirmed.includes(sid)))
    t.same(await all(clients, async (client) => await client.lose(service.awake)), clients.map(() => 200))
    restore = await service.backend.backUp()
    for (let times = 0; times < 2; times++) {
      await service.backend.endWindows(sidsOf(clients))
      t.same(await all(clients, async (client, index) => await client.refresh(service.at(index))), clients.map(() => 200))
    }
    await restore()
  },

  async 'the clock of the store is set back' (t, service, clients) {
    await all(clients, async (client) => await client.use(service.awake))
    await service.untilConfirmed(clients)
    await service.backend.pass(-3_600_000, sidsOf(clients))
    t.same(await all(clients, async (client) => await client.refresh(service.awake)), clients.map(() => 200))
    t.strictSame((await service.backend.confirmed()).filter((sid) => sidsOf(clients).includes(sid)).toSorted(), sidsOf(clients).toSorted(), 'what was received stays known')
    await service.backend.pass(3_600_000, sidsOf(clients))
  }
}

/** What a thief does. The tokens are those of an owner who has refreshed once; `late` lets the window end. Resolves when the thief was found, or is out. */
interface Theft { readonly t: Test, readonly service: Service, readonly owner: Holder, readonly late: () => Promise<void> }

async function isOver ({ t, service, owner }: Theft, thief: Holder): Promise<void> {
  for (const holder of [owner, thief]) t.equal(await holder.refresh(service.at(1)), 401)
  t.notOk(owner.sid in await service.backend.counters(), 'the session has ended')
}

const thefts: Record<string, (theft: Theft) => Promise<void>> = {
  // Promise: sessions/refresh-token-stolen
  async 'who presents a replaced token whose successor was used is found at once' (theft) {
    const { t, service, owner, late } = theft
    const thief = owner.steal()
    t.equal(await owner.refresh(service.at(1)), 200)
    t.equal(await owner.use(service.awake), 200)
    await service.untilConfirmed([owner])
    await late()
    t.equal(await thief.refresh(service.at(2)), 401)
    await isOver(theft, thief)
  },

  async 'who presents a token whose successor was replaced is found at once, also within the window' (theft) {
    const { t, service, owner, late } = theft
    const thief = owner.steal()
    t.equal(await owner.refresh(service.at(1)), 200)
    await late()
    t.equal(await owner.refresh(service.at(2)), 200)
    t.equal(await thief.refresh(service.at(3)), 401)
    await isOver(theft, thief)
  },

  // Promise: sessions/refresh-token-stolen
  async 'who refreshes first and uses the access token is found at the refresh of the owner' (theft) {
    const { t, service, owner, late } = theft
    const thief = owner.steal()
    t.equal(await thief.refresh(service.at(1)), 200)
    t.equal(await thief.use(service.at(2)), 200)
    await service.untilConfirmed([owner])
    await late()
    t.equal(await owner.refresh(service.at(3)), 401)
    await isOver(theft, thief)
  },

  async 'who refreshes on is found at the refresh of the owner' (theft) {
    const { t, service, owner, late } = theft
    const thief = owner.steal()
    for (let times = 0; times < 2; times++) {
      t.equal(await thief.refresh(service.at(times)), 200)
      await late()
    }
    t.equal(await owner.refresh(service.at(3)), 401)
    await isOver(theft, thief)
  },

  // Promise: sessions/refresh-token-stolen
  async 'who refreshes first and is silent is retired by the next refresh of the owner, and found when he comes' (theft) {
    const { t, service, owner, late } = theft
    const thief = owner.steal()
    t.equal(await thief.refresh(service.at(1)), 200)
    await late()
    t.equal(await owner.refresh(service.at(2)), 200)
    t.not(owner.tokens.refresh_token, thief.tokens.refresh_token)
    await late()
    t.equal(await owner.refresh(service.at(3)), 200)
    await late()
    t.equal(await owner.refresh(service.at(1)), 200, 'a thief who never comes again is out')
    t.equal(await thief.use(service.at(2)), 200, 'with an access token that lasts until it expires')
    t.equal(await thief.refresh(service.at(0)), 401)
    await isOver(theft, thief)
  },

  async 'who was silent and refreshes before the owner is found by the owner' (theft) {
    const { t, service, owner, late } = theft
    const thief = owner.steal()
    for (const holder of [thief, owner, thief]) {
      t.equal(await holder.refresh(service.at(1)), 200)
      await late()
    }
    t.equal(await owner.refresh(service.at(2)), 401)
    await isOver(theft, thief)
  },

  async 'who presents the parent again and again gets siblings, and is found after the use of the owner and the window' (theft) {
    const { t, service, owner, late } = theft
    const thief = owner.steal()
    const parent = thief.tokens
    t.equal(await owner.refresh(service.at(1)), 200)
    await late()
    const given = new Set([owner.tokens.refresh_token])
    const present = async (index: number) => {
      thief.tokens = parent
      const status = await thief.refresh(service.at(index))
      given.add(thief.tokens.refresh_token)
      return status
    }
    for (const index of [0, 1, 2]) t.equal(await present(index), 200)
    t.equal(await owner.use(service.awake), 200)
    await service.untilConfirmed([owner])
    t.equal(await present(3), 200, 'it may be a copy')
    t.equal(given.size, 5)
    await late()
    t.equal(await present(1), 401)
    await isOver(theft, thief)
  },

  async 'who presents a replaced token of an owner who uses no access token is found as one who is silent' (theft) {
    const { t, service, owner, late } = theft
    const thief = owner.steal()
    t.equal(await owner.refresh(service.at(1)), 200)
    await late()
    t.equal(await thief.refresh(service.at(2)), 200)
    await late()
    t.equal(await owner.refresh(service.at(3)), 200)
    t.equal(await thief.refresh(service.at(0)), 401)
    await isOver(theft, thief)
  },

  // Promise: sessions/refresh-token-stolen
  async 'a session does not survive more than five changes of hands' (theft) {
    const { t, service, owner, late } = theft
    const thief = owner.steal()
    let changes = 0
    while (await [owner, thief][changes % 2]!.refresh(service.at(changes)) === 200) {
      changes++
      await late()
    }
    t.ok(changes <= 6, `${changes - 1} changes of hands`)
    await isOver(theft, thief)
  },

  async 'who refreshes only within the window shares what the owner gets, and is not found' ({ t, service, owner, late }) {
    const thief = owner.steal()
    for (const holder of [owner, thief]) t.equal(await holder.refresh(service.at(2)), 200)
    t.equal(owner.tokens.refresh_token, thief.tokens.refresh_token)
    await late()
    t.equal(await owner.refresh(service.at(1)), 200)
  }
}

t.jobs = 3
for (const [kind, { skip }] of Object.entries(kinds)) {
  t.test(kind, { skip, buffered: true }, async (t) => {
    const service = await Service.start(t, kind === 'postgres' || kind === 'redis' ? kind : 'redis-cluster')
    const clients = await service.logIn(20)

    for (const [name, fail] of Object.entries(failures)) {
      await t.test(`nobody is logged out where ${name}`, async (t) => {
        await service.backend.endWindows(sidsOf(clients))
        t.same(await all(clients, async (client, index) => await client.refresh(service.at(index))), clients.map(() => 200))
        await service.backend.endWindows(sidsOf(clients))
        await fail(t, service, clients)
        for (let times = 0; times < 2; times++) {
          await service.backend.endWindows(sidsOf(clients))
          t.same(await all(clients, async (client, index) => await client.refresh(service.at(index + times))), clients.map(() => 200))
        }
        t.equal(await service.count('reused'), 0)
      })
    }

    await t.test('thieves', async (t) => {
      await Promise.all(Object.entries(thefts).map(async ([name, commit]) => {
        await t.test(name, { buffered: true }, async (t) => {
          const owner = new Holder(await service.at(0).logIn(name))
          const late = async () => await service.backend.endWindows([owner.sid])
          t.equal(await owner.refresh(service.at(0)), 200)
          await late()
          await commit({ t, service, owner, late })
        })
      }))
    })
  })
}
