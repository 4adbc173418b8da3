/**
 * Refreshes sessions while others start, are used twice, end and expire, and checks whether the memory of the server stays
 * constant and its store holds the sessions that are alive. Each request lets the clock of the server pass by the same time.
 */
import { exchange, getRequest, openConnections, postRequest } from '../helper/client.js'
import { startServer } from '../helper/measure.js'
import { keysOf } from '../tokens.js'

const connectionCount = 32
const population = 2000
const users = 1000
const batch = 1000
/** All times are numbers of requests, and a request takes 10 milliseconds. */
const perSecond = 100
const settings = { grace: 5, idle: 300, lifetime: 1800, poll: 2, expirationDelta: 60 }
/** Requests on other connections may overtake a request. */
const margin = 10 * connectionCount
/** Allowed difference between the stored sessions and those that are alive, as a part of them: the store deletes expired sessions a few at a time. */
const allowedDifference = 0.01

const bodyOf = (text) => JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4))
const post = (path, refreshToken) => postRequest(path, { refresh_token: refreshToken })

/** The sessions of the clients, and what they do next. Requests of one session are sent one after the other. */
class Clients {
  counts = { login: 0, refresh: 0, repetition: 0, reuse: 0, logout: 0, 'ended access token': 0, 'expired refresh token': 0 }
  /** The number of answers, which is the time. */
  #now = 0
  #random
  /** Sessions that are used, the one that was used longest ago first. */
  #used = []
  #abandoned = []
  /** What is done before anything else. */
  #next = []
  /** Logins that are not answered. */
  #starting = 0

  constructor (random) {
    this.#random = random
  }

  /** The number of sessions that are alive. While no request is under way. */
  get alive () {
    return this.#used.filter(({ startedAt }) => this.#now < startedAt + settings.lifetime * perSecond).length +
      this.#abandoned.filter(({ usedAt, startedAt }) => this.#now < Math.min(usedAt + settings.idle * perSecond, startedAt + settings.lifetime * perSecond)).length
  }

  /** Returns the next request, its expected status, and what to do with its answer. */
  next () {
    const { kind, answered = () => {}, ...step } = this.#next.shift() ?? this.#step()
    this.counts[kind]++
    return { kind, ...step, answered: (text) => { this.#now++; answered(text) } }
  }

  #step () {
    if (this.#used.length + this.#starting < population) return this.#logIn()
    const [abandoned] = this.#abandoned
    if (abandoned !== undefined && this.#now > abandoned.usedAt + settings.idle * perSecond + margin) return this.#expired(this.#abandoned.shift())
    for (;;) {
      const session = this.#used.shift()
      const left = session.startedAt + settings.lifetime * perSecond - this.#now
      if (left < -margin) return this.#expired(session)
      // Whether it is still alive is not known here.
      if (left < margin) this.#used.push(session)
      else return this.#use(session)
    }
  }

  #use (session) {
    const choice = this.#random()
    if (choice < 0.01) {
      this.#abandoned.push(session)
      return this.#step()
    }
    if (choice < 0.03) return this.#logOut(session)
    if (choice < 0.04 && session.retired !== undefined) return this.#reuse(session)
    return this.#refresh(session, choice < 0.1)
  }

  #logIn () {
    this.#starting++
    const id = Math.floor(this.#random() * users) + 1
    return {
      kind: 'login',
      request: postRequest('/auth', { id }),
      status: 200,
      answered: (text) => {
        this.#starting--
        this.#used.push({ ...bodyOf(text), startedAt: this.#now, usedAt: this.#now })
      }
    }
  }

  /** @param isLost whether the client does not get the answer, and sends the request again */
  #refresh (session, isLost) {
    return {
      kind: 'refresh',
      request: post('/auth/refresh', session.refresh_token),
      status: 200,
      answered: (text) => {
        if (isLost) this.#next.push({ ...this.#refresh(session, false), kind: 'repetition' })
        else this.#used.push({ ...session, ...bodyOf(text), previous: session.refresh_token, retired: session.previous, usedAt: this.#now })
      }
    }
  }

  /** A refresh token that was replaced twice. It ends the session. */
  #reuse (session) {
    return { kind: 'reuse', request: post('/auth/refresh', session.retired), status: 401, answered: () => this.#next.push(this.#ended(session)) }
  }

  #logOut (session) {
    return { kind: 'logout', request: post('/auth/logout', session.refresh_token), status: 204, answered: () => this.#next.push(this.#ended(session)) }
  }

  #ended (session) {
    return { kind: 'ended access token', request: getRequest(session.access_token), status: 401 }
  }

  #expired (session) {
    return { kind: 'expired refresh token', request: post('/auth/refresh', session.refresh_token), status: 401 }
  }
}

/** @param isFlat returns whether samples show constant memory */
export async function soakSessions ({ refreshes, samplesWanted, random, isFlat }) {
  const server = await startServer('soak: sessions', { algorithm: 'HS256', keys: keysOf('HS256'), milliseconds: 1000 / perSecond, ...settings }, { flags: ['--expose-gc'] })
  const connections = await openConnections(server.port, connectionCount)
  const clients = new Clients(random)
  const sent = []
  const send = (count) => exchange(connections, (number) => {
    sent[number] = clients.next()
    return sent[number].request
  }, count, (status, number, text) => {
    const { kind, status: expected, answered } = sent[number]
    if (status !== expected) throw new Error(`A request of the kind "${kind}" was answered with ${status}.`)
    answered(text)
  })

  const samples = []
  for (let sample = 1; sample <= samplesWanted; sample++) {
    const after = Math.round(sample * refreshes / samplesWanted)
    while (clients.counts.refresh < after) await send(batch)
    samples.push({ after, ...await server.ask('memory'), stored: await server.ask('stored sessions'), alive: clients.alive })
    console.log(samples.at(-1))
  }
  connections.forEach((connection) => connection.close())
  await server.stop()
  const areAllAlive = samples.every(({ stored, alive }) => Math.abs(stored - alive) <= alive * allowedDifference)
  return { refreshes, kinds: clients.counts, samples, isFlat: isFlat(samples), areAllAlive }
}
