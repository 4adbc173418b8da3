/**
 * `npm run simulate`: how often clients that lose answers are logged out, and how soon thieves of refresh tokens are found, with
 * the rules of this package and with a window alone. Prints the figures of docs/evidence/sessions.md. They are the same at each run.
 *
 * All clients are always active: they refresh when an access token of 30 minutes has expired and they need one. Of all answers to
 * them, 0.5 % are lost. Half of the retries come after 11 seconds, and the others after 1 to 30 minutes. Each thief copies the
 * refresh token at a random time, exchanges it at once, and refreshes like a client from then on; some use the access
 * tokens, others are silent. The owner loses answers as well.
 */
import { pathToFileURL } from 'node:url'
import { confirm, decide, firstGeneration, isToConfirm } from '../build/lib/sessions/rotation.js'
import { randomFrom } from '../benchmarks/helper/statistics.js'

/** In seconds. */
const grace = 30
const expirationDelta = 1800
const poll = 2
const month = 30 * 86_400
/** The mean time until a client sends the next request. */
const pause = 60

const lossOfAnswers = 0.005
const users = 1000
const thefts = 1000

/** What was decided before a replaced token was exchanged late: within the window it was answered with its successor, and after it the session ended. */
function decideByWindow ({ n }, presented, isOpen) {
  const behind = n - presented
  if (behind > 1 || (behind === 1 && !isOpen)) return { outcome: 'reused', n }
  if (isOpen) return { outcome: 'repeated', n }
  return { outcome: 'rotated', n: n + 1, change: { family: { ...firstGeneration, n: n + 1 }, beginsWindow: true } }
}

const rules = { 'a window alone': decideByWindow, 'this package': decide }

/** A session, as a store has it. All times are seconds. */
class Session {
  #decide
  #family = firstGeneration
  #since = -Infinity
  /** Confirmations that are on their way: `{ at, n }`. */
  #received = []

  constructor (decide) {
    this.#decide = decide
  }

  /** An access token of the answer to a generation is used. */
  use (n, at) {
    this.#received.push({ n, at: at + poll })
  }

  /** @returns the generation that is answered; undefined where the session ends */
  present (n, now) {
    for (const { n: received, at } of this.#received.filter(({ at }) => at <= now).sort((one, other) => one.at - other.at)) {
      if (isToConfirm(this.#family, received)) [this.#family, this.#since] = [confirm(this.#family).family, at]
    }
    this.#received = this.#received.filter(({ at }) => at > now)
    const { outcome, n: answered, change } = this.#decide(this.#family, n, now - this.#since < grace, false)
    if (change !== undefined) this.#family = change.family
    if (change?.beginsWindow) this.#since = now
    return outcome === 'reused' ? undefined : answered
  }
}

const exponential = (random, mean) => -mean * Math.log(1 - random())

/** Who refreshes a session: `next` is when. */
class Holder {
  next
  #held
  #random
  #session
  #uses
  #losesAnswers

  constructor (session, random, { held = 0, next, uses, losesAnswers }) {
    Object.assign(this, { next })
    this.#held = held
    this.#session = session
    this.#random = random
    this.#uses = uses
    this.#losesAnswers = losesAnswers
  }

  copy (options) {
    return new Holder(this.#session, this.#random, { held: this.#held, ...options })
  }

  /** @returns whether the session goes on */
  refresh () {
    const random = this.#random
    const now = this.next
    const answered = this.#session.present(this.#held, now)
    if (answered === undefined) return false
    if (this.#losesAnswers && random() < lossOfAnswers) {
      this.next = now + (random() < 0.5 ? 11 : 60 + random() * 29 * 60)
      return true
    }
    // A token that was answered with itself says nothing.
    if (this.#uses && answered !== this.#held) this.#session.use(this.#held, now + exponential(random, 1))
    this.#held = answered
    this.next = now + expirationDelta + exponential(random, pause)
    return true
  }
}

/** @returns how often the users were logged out in a month, for 1,000 of them */
function honestLogouts (decide, random) {
  let logouts = 0
  const options = { uses: true, losesAnswers: true }
  for (let user = 0; user < users; user++) {
    let holder = new Holder(new Session(decide), random, { ...options, next: random() * expirationDelta })
    while (holder.next < month) {
      if (holder.refresh()) continue
      logouts++
      holder = new Holder(new Session(decide), random, { ...options, next: holder.next + expirationDelta + exponential(random, pause) })
    }
  }
  return logouts * 1000 / users
}

/** @returns after how many hours the sessions of thieves ended, in order; Infinity where they did not within a month */
function timesOfThefts (decide, random, uses) {
  const hours = Array.from({ length: thefts }, () => {
    const owner = new Holder(new Session(decide), random, { uses: true, losesAnswers: true, next: 0 })
    for (let times = 0; times < 5; times++) owner.refresh()
    // At a time until the next refresh of the owner.
    const begin = owner.next - random() * expirationDelta
    const thief = owner.copy({ next: begin, uses, losesAnswers: false })
    for (;;) {
      const holder = thief.next < owner.next ? thief : owner
      if (holder.next - begin > month) return Infinity
      if (!holder.refresh()) return (holder.next - begin) / 3600
    }
  })
  return hours.sort((one, other) => one - other)
}

/** @returns for each rule the logouts, and the median and the most hours until thieves are found */
export function simulate (seed = 1) {
  return Object.entries(rules).map(([name, decide]) => {
    const random = randomFrom(seed)
    const [using, silent] = [true, false].map((uses) => timesOfThefts(decide, random, uses)).map((hours) => ({ median: hours[thefts / 2], most: hours.at(-1) }))
    return { name, logouts: honestLogouts(decide, random), using, silent }
  })
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const shown = ({ median, most }) => `${median.toFixed(2)} h, at most ${most.toFixed(1)} h`
  for (const { name, logouts, using, silent } of simulate()) {
    console.log(`With ${name}: ${logouts.toLocaleString('en')} honest logouts in 1,000 months of use. Thieves are found after ${shown(using)} (who use what they get), ${shown(silent)} (who are silent).`)
  }
}
