/** What the clients do. Each records what it sent and what it was answered. */
import { send } from './http.js'

const payloadOf = (token) => JSON.parse(Buffer.from(token.split('.')[1], 'base64url'))

/**
 * The world of clients: `processes` (`{ name, port }`), `history`, `settings` (milliseconds), `random(name)`, `isOver`, and
 * `pause(milliseconds)`, which ends early when the run is over.
 *
 * A holder has tokens of one session: an owner, or a thief who has copied its refresh token.
 */
export class Holder {
  world
  tokens
  /** The share of refreshes that it gives up at once. */
  impatience = 0
  #about

  /** @param about `{ client, user, habit, holder }` */
  constructor (world, about) {
    this.world = world
    this.#about = { holder: 'owner', habit: 'single', ...about }
    this.random = world.random(about.client)
  }

  get session () { return this.tokens?.session }
  /** Some tries are given up at once, so that their answers are lost. */
  get #patience () { return this.random.is(this.impatience) ? this.random.between(2, 30) : undefined }
  get anyProcess () { return this.random.oneOf(this.world.processes) }

  async #record (name, process, request, { session = this.session, presented, ...details } = {}) {
    const { history, settings } = this.world
    const kind = request.body?.refresh_token === presented ? 'r' : 'a'
    let tokens
    const entry = await history.record({ type: 'operation', name, ...this.#about, session, process: process.name, ...presented !== undefined && { presented: history.label(kind, presented) }, ...details }, async () => {
      const { status, body, incarnation } = await send(process.port, { ...request, patience: request.patience ?? settings.patience })
      if (status === 200 && typeof body?.refresh_token === 'string' && typeof body.access_token === 'string') {
        tokens = { refresh: body.refresh_token, access: body.access_token, session: session ?? history.label('s', payloadOf(body.access_token).sid), at: performance.now() }
      }
      return {
        status,
        ...status !== null && status >= 400 && { reason: body?.exception },
        ...incarnation !== undefined && { incarnation },
        ...tokens !== undefined && { session: tokens.session, refresh: history.label('r', tokens.refresh), access: history.label('a', tokens.access) }
      }
    })
    return { status: entry.status, reason: entry.reason, tokens }
  }

  async logIn (process = this.anyProcess) {
    const { tokens } = await this.#record('login', process, { method: 'POST', path: '/auth', body: { username: this.#about.user } }, { session: undefined })
    this.tokens = tokens
    return tokens !== undefined
  }

  /** Sends a refresh token, and changes nothing here. */
  async present (token = this.tokens.refresh, process = this.anyProcess, patience = this.#patience) {
    return await this.#record('refresh', process, { patience, method: 'POST', path: '/auth/refresh', body: { refresh_token: token } }, { presented: token })
  }

  /** Presents the refresh token until there is an answer. @returns whether there are new tokens; undefined where the run is over */
  async refresh (retryAfter = () => this.random.between(100, 800)) {
    while (!this.world.isOver) {
      const { status, tokens } = await this.present()
      if (status === 200) this.tokens = tokens
      if (status === 200 || status === 401) return status === 200
      await this.world.pause(retryAfter())
    }
    return undefined
  }

  /** Uses a guarded route. @returns the status */
  async access (process = this.anyProcess, token = this.tokens.access) {
    return (await this.#record('access', process, { method: 'GET', path: '/', token }, { presented: token })).status
  }

  async probe (process) {
    // Not by the network of the clients.
    return (await this.#record('probe', { name: process.name, port: process.directPort ?? process.port }, { method: 'GET', path: '/auth/sessions', token: this.tokens.access }, { presented: this.tokens.access })).status
  }

  /** @param by `refresh`, `access` or `both` @param patience milliseconds, if not the usual ones */
  async logOut (by, process, patience) {
    const { refresh, access } = this.tokens
    const body = by === 'access' ? undefined : { refresh_token: refresh }
    return (await this.#record('logout', process, { patience, method: 'POST', path: '/auth/logout', ...by !== 'refresh' && { token: access }, ...body !== undefined && { body } }, { presented: body === undefined ? access : refresh })).status
  }

  /** Ends sessions of the user. @param scope `all`, `others`, or the holder whose session ends @param patience as for `logOut` */
  async end (scope, process, patience) {
    const isOne = typeof scope === 'object'
    const path = isOne ? `/auth/sessions/${payloadOf(scope.tokens.access).sid}` : `/auth/sessions${scope === 'others' ? '?except=current' : ''}`
    return (await this.#record('end', process, { patience, method: 'DELETE', path, token: this.tokens.access }, { presented: this.tokens.access, scope: isOne ? 'one' : scope, ...isOne && { target: scope.session } })).status
  }

  /** Waits until a time after the tokens arrived. */
  async pauseSinceArrival (milliseconds) {
    await this.world.pause(this.tokens.at + milliseconds - performance.now())
  }
}

async function logInUntilGood (holder) {
  while (!holder.world.isOver && !await holder.logIn()) await holder.world.pause(holder.random.between(200, 600))
  return !holder.world.isOver
}

/** Pauses before a retry: short ones, and longer ones than the window. */
const pauseOfRetry = ({ random, world: { settings: { grace } } }) => {
  if (random.is(0.5)) return random.between(20, 600)
  return random.is(0.4) ? random.between(600, grace) : random.between(grace + 300, grace + 2000)
}

/** The longest time for which a client of this habit must keep a new token before it presents it. */
export const waitOf = (habit, grace) => (habit === 'tabs' ? 2 : 1) * grace + 100

/** Uses guarded routes and refreshes, one try at a time. */
async function single (world, client) {
  const holder = Object.assign(new Holder(world, { client, user: client }), { impatience: 0.25 })
  const { random } = holder
  while (!world.isOver) {
    if (holder.tokens === undefined && !await logInUntilGood(holder)) return
    for (let uses = random.between(0, 4); uses >= 1; uses--) {
      await holder.access()
      await world.pause(random.between(20, 400))
    }
    await holder.pauseSinceArrival(waitOf('single', world.settings.grace) + random.between(0, 1000))
    if (world.isOver) break
    if (await holder.refresh(() => pauseOfRetry(holder)) === false) holder.tokens = undefined
  }
  return holder
}

/** Several tabs with one jar of cookies, or requests at once, which all refresh. The last answer wins. */
async function tabs (world, client) {
  const jar = Object.assign(new Holder(world, { client, user: client, habit: 'tabs' }), { impatience: 0.15 })
  const { random } = jar
  const { settings: { grace, patience } } = world
  const tab = async (before) => {
    await world.pause(random.between(0, random.is(0.5) ? 5 : patience))
    while (!world.isOver && jar.tokens === before) {
      const { status, tokens } = await jar.present(before.refresh)
      if (status === 200) jar.tokens = tokens
      // Another tab may have logged in meanwhile.
      if (status === 401 && jar.tokens === before) jar.tokens = undefined
      if (status === 200 || status === 401) return
      await world.pause(pauseOfRetry(jar))
    }
  }
  while (!world.isOver) {
    if (jar.tokens === undefined && !await logInUntilGood(jar)) return
    if (random.is(0.7)) await jar.access()
    await jar.pauseSinceArrival(waitOf('tabs', grace) + random.between(0, 500))
    if (world.isOver) break
    const before = jar.tokens
    await Promise.all(Array.from({ length: Math.floor(random.between(2, 5)) }, async () => await tab(before)))
  }
  return jar
}

/** A user with several devices, who ends sessions in all ways and watches what becomes of their tokens. */
async function elsewhere (world, client) {
  const random = world.random(`${client} choices`)
  const { settings: { watch, recovery } } = world
  for (let round = 0; !world.isOver; round++) {
    const devices = [0, 1, 2].map((number) => new Holder(world, { client: `${client}.${number}`, user: `${client}-${round}` }))
    for (const device of devices) if (!await logInUntilGood(device)) return
    const [first, second, third] = devices
    // Each process has seen the tokens.
    for (const device of devices) for (const process of world.processes) await device.access(process)
    const [end, ended] = random.oneOf([
      [async (...where) => await first.logOut('refresh', ...where), [first]],
      [async (...where) => await first.logOut('both', ...where), [first]],
      [async (...where) => await first.logOut('access', ...where), [first]],
      [async (...where) => await first.end(second, ...where), [second]],
      [async (...where) => await first.end('others', ...where), [second, third]],
      [async (...where) => await first.end('all', ...where), devices]
    ])
    // Some do not wait for the answer, and ask again elsewhere.
    let patience = random.is(0.4) ? random.between(2, 30) : undefined
    for (let tries = 0; tries < 20 && !world.isOver; tries++) {
      const status = await end(random.oneOf(world.processes), patience)
      if (status !== null && status !== 503) break
      await world.pause(random.between(50, 300))
      patience = undefined
    }
    const look = async () => {
      for (const device of ended) await Promise.all(world.processes.map(async (process) => await device.access(process)))
    }
    for (const last = performance.now() + watch; performance.now() < last && !world.isOver;) {
      await look()
      await world.pause(150)
    }
    // Later, too: after a fault, processes may need so long to read what has ended.
    if (random.is(0.3)) {
      await world.pause(recovery)
      await look()
    }
    for (const device of ended) if (!world.isOver) await device.present()
  }
}

/** The owner and the thief refresh by turns, each more than a window after the other, until one of them is refused. */
async function takeTurns (holders) {
  const [{ world }] = holders
  const { settings: { grace, slack } } = world
  for (let turn = 0; !world.isOver; turn++) {
    await world.pause(grace + slack + 100)
    const holder = holders[turn % 2]
    if (await holder.refresh() === false) {
      // The other one learns it, too.
      await holders[(turn + 1) % 2].refresh()
      return
    }
    if (holder.random.is(0.5)) await holder.access()
  }
}

/** What a thief does who has copied the refresh token of `owner`. */
const thefts = {
  /** A replaced token whose successor was used. */
  async late ({ owner, thief, told }) {
    if (!await owner.refresh()) return
    await owner.access()
    await owner.world.pause(told)
    await thief.refresh()
  },
  /** A replaced token whose owner calls no guard. */
  async unused ({ owner, thief, window }) {
    if (!await owner.refresh()) return
    await owner.world.pause(window)
    await thief.refresh()
  },
  /** The thief refreshes first, and uses what he gets. */
  async first ({ owner, thief, told }) {
    if (!await thief.refresh()) return
    await thief.access()
    await owner.world.pause(told)
    await owner.refresh()
  },
  /** The thief refreshes first, and is silent. */
  async silent ({ owner, thief, window }) {
    if (!await thief.refresh()) return
    await owner.world.pause(window)
    if (!await owner.refresh()) return
    await owner.access()
  },
  /** The parent, again and again. */
  async parent ({ owner, thief, window }) {
    if (!await owner.refresh()) return
    for (let time = 0; time < 6 && !owner.world.isOver; time++) {
      await owner.world.pause(window / 2)
      const { status } = await thief.present()
      if (status === 401) return
      if (time === 2) await owner.access()
    }
  },
  async turns () {}
}

async function thefted (world, client) {
  const random = world.random(`${client} choices`)
  const { settings: { grace, poll, slack } } = world
  const window = grace + slack + 200
  for (let round = 0; !world.isOver; round++) {
    const owner = new Holder(world, { client: `${client}.owner`, user: `${client}-${round}`, holder: 'owner' })
    const thief = new Holder(world, { client: `${client}.thief`, user: `${client}-${round}`, holder: 'thief' })
    if (!await logInUntilGood(owner)) return
    if (random.is(0.5)) {
      await world.pause(window)
      if (!await owner.refresh()) continue
    }
    await world.pause(window)
    thief.tokens = owner.tokens
    await random.oneOf(Object.values(thefts))({ owner, thief, window, told: poll + 1000 + slack + window })
    await takeTurns(random.is(0.5) ? [owner, thief] : [thief, owner])
  }
}

/**
 * The world of a theft that goes on when the run is over and everything is healed: each run has one that nothing excuses. Where
 * nothing works any more, it ends later.
 */
function worldOfTheft (world, longest) {
  const calm = world.afterwards
  let end
  return {
    ...calm,
    /** When the run was over, by `performance.now()`. */
    get end () {
      if (world.isOver) end ??= performance.now()
      return end
    },
    get isOver () { return this.end !== undefined && (calm.isOver || performance.now() > end + longest) },
    pause: calm.pause
  }
}

/** So many requests of a thief without pauses are under way to each process: nearly always, one of them holds what a store locks. */
const blowsAtOnce = 3
/**
 * Between his other requests to a process: about 30 in a second to three processes. If he never paused, he would take the
 * processors for as long as a theft lasts, and probes would be so slow that no time counts in which something is promised.
 */
const pauseOfBlow = (random) => random.between(60, 140)

/**
 * A thief presents one stolen refresh token again and again to all processes, whatever he is answered. When he begins, it is the
 * owner's current one. The owner refreshes, and an access token of that answer confirms it: however often the thief comes, that
 * must be written, and he must be found when the window after it is over.
 * @param isLate whether the owner calls no guard until the window is over. Until then, the thief gets what the owner got. From
 * then on, each of his requests changes the session, so that a store with locks has it locked when it is told the confirmation
 */
async function hammer ({ owner, thief, isLate, window, told, patience }) {
  const { world, random, world: { processes, settings: { poll } } } = thief
  const stolen = thief.tokens.refresh
  let isDone = false
  const isGoingOn = () => !isDone && !world.isOver
  const strike = async (process, pauseOf, last = Infinity) => {
    while (isGoingOn() && performance.now() < last) {
      const { status } = await thief.present(stolen, process)
      if (status === 401) isDone = true
      // A process that does not run refuses at once.
      else await world.pause(status === 200 ? pauseOf(random) : 100)
    }
  }
  const waitUntil = async (time) => {
    while (isGoingOn() && performance.now() < time()) await world.pause(50)
  }
  const use = async (process) => {
    while (isGoingOn()) {
      await owner.access(process)
      await world.pause(400)
    }
  }
  const own = async () => {
    await world.pause(random.between(0, 200))
    if (await owner.refresh() !== true) return
    const { at } = owner.tokens
    if (isLate) await waitUntil(() => at + window)
    const begin = performance.now()
    // Without pauses until it is told.
    const fast = processes.flatMap((process) => Array.from({ length: blowsAtOnce }, async () => await strike(process, () => 0, begin + poll + 700)))
    await world.pause(200)
    // The connection of a client stays at one process: if that does not tell the store, no other one does.
    const uses = (isLate ? [owner.anyProcess] : processes).map(use)
    await Promise.all(fast)
    await waitUntil(() => Math.max(begin, world.end ?? begin) + patience)
    // The store may have lost what it was told. The owner's next refresh tells it again.
    if (isGoingOn()) await owner.refresh()
    await waitUntil(() => owner.tokens.at + told + window)
    isDone = true
    await Promise.all(uses)
  }
  await Promise.all([...processes.map(async (process) => await strike(process, pauseOfBlow)), own().finally(() => { isDone = true })])
  // The owner learns it, too.
  await owner.refresh()
}

/** A user whose sessions are stolen, one after the other. The first theft begins with the run, also of a run of some seconds. */
async function hammered (world, client, index) {
  const { settings: { grace, poll, slack, recovery } } = world
  const window = grace + slack + 200
  const told = poll + 1000 + slack
  // Until nothing that was broken delays a confirmation any more.
  const patience = 2 * recovery + told + window
  const theft = worldOfTheft(world, 3 * window + told + patience)
  const logIn = async (round) => {
    const user = `${client}-${round}`
    const [owner, thief] = ['owner', 'thief'].map((holder) => new Holder(world, { client: `${client}.${holder}`, user, holder, habit: 'hammered' }))
    return await logInUntilGood(owner) ? { owner, thief } : undefined
  }
  let next = logIn(0)
  for (let round = 0; round === 0 || !world.isOver; round++) {
    const holders = await next
    if (holders === undefined) return
    // The next session is old enough when this theft is over.
    next = logIn(round + 1)
    const { owner, thief } = holders
    owner.world = thief.world = theft
    await owner.pauseSinceArrival(window)
    thief.tokens = owner.tokens
    await hammer({ owner, thief, isLate: (index + round) % 2 === 0, window, told, patience })
  }
  await next
}

/** Asks a process again and again for something that is in the store, to see whether it answers. */
async function prober (world, process) {
  const holder = new Holder(world, { client: `probe of ${process.name}`, user: `probe of ${process.name}` })
  let begin = -Infinity
  while (!world.isOver) {
    if (holder.tokens === undefined || performance.now() - begin > 60_000) {
      if (!await holder.logIn({ name: process.name, port: process.directPort ?? process.port })) {
        await world.pause(world.settings.probe)
        continue
      }
      begin = performance.now()
    }
    await holder.probe(process)
    await world.pause(world.settings.probe)
  }
}

/**
 * Lets the clients act until the run is over.
 * @param counts how many of each kind
 * @returns `holders`: the honest clients that are logged in at the end; `rest`: a promise of the end of what goes on, which are
 * thefts and the probes that tell what may be asked of the processes meanwhile
 */
export async function act (world, counts) {
  const start = (kinds) => Object.entries(kinds).flatMap(([name, run]) => Array.from({ length: counts[name] }, async (_, index) => {
    // Not all at once.
    await world.pause(world.random(`${name}${index} begin`).between(0, 1000))
    return await run(world, `${name}${index}`, index)
  }))
  const honest = Promise.all(start({ single, tabs, elsewhere, thefted }))
  const thefts = Promise.all(start({ hammered }))
  let areOver = false
  const all = Promise.all([honest, thefts]).finally(() => { areOver = true })
  const probed = { ...world.afterwards, get isOver () { return areOver } }
  const rest = Promise.all([all, ...world.processes.map(async (process) => await prober(probed, process))])
  // Whoever waits for it comes later.
  rest.catch(() => {})
  return { holders: (await honest).filter((holder) => holder?.tokens !== undefined), rest }
}
