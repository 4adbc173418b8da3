import fc from 'fast-check'
import t from 'tap'
import { decide, expiryOf, type Counter, type Decision } from '../../lib/sessions/rotation.ts'

/**
 * What the states of a session say, token by token: a refresh token is current until the next one replaces it, is answered
 * for as long as the window after that is open, and is retired then, or as soon as there is another one.
 */
class Model {
  readonly #grace: number
  /** When each refresh token was issued; those that the store skipped, never. */
  readonly #issuedAt = new Map<number, number>()
  current = 0

  constructor (grace: number) {
    this.#grace = grace
  }

  #issue (n: number, now: number): number {
    this.#issuedAt.set(n, now)
    this.current = n
    return n
  }

  present (n: number, now: number): Decision {
    if (n > this.current) return { outcome: 'recovered', n: this.#issue(n + 1, now) }
    const latest = this.#issuedAt.get(this.current)
    const isOpen = latest !== undefined && now < latest + this.#grace
    switch (this.current - n) {
      case 0: return isOpen ? { outcome: 'repeated', n } : { outcome: 'rotated', n: this.#issue(n + 1, now) }
      case 1: return { outcome: isOpen ? 'repeated' : 'reused', n: this.current }
      default: return { outcome: 'reused', n: this.current }
    }
  }
}

/** The state after a decision. */
function follow (counter: Counter, { outcome, n }: Decision, now: number): Counter {
  return outcome === 'rotated' || outcome === 'recovered' ? { n, rotatedAt: now } : counter
}

const created: Counter = { n: 0, rotatedAt: null }

t.test('whatever is presented whenever, it is decided as the states of a session say', async (t) => {
  // The clock may be set back.
  const step = fc.record({ elapsed: fc.integer({ min: -20, max: 60 }), behind: fc.integer({ min: -2, max: 4 }) })
  fc.assert(fc.property(fc.integer({ min: 0, max: 40 }), fc.array(step, { maxLength: 40 }), (grace, steps) => {
    const model = new Model(grace)
    let counter = created
    let now = 1_700_000_000_000
    for (const { elapsed, behind } of steps) {
      now += elapsed
      const presented = Math.max(counter.n - behind, 0)
      const decision = decide(counter, presented, now, grace)
      t.same(decision, model.present(presented, now))
      counter = follow(counter, decision, now)
      t.equal(counter.n, model.current)
    }
  }), { numRuns: 300 })
})

t.test('a client is never refused whose refreshes, retries included, are over within the window', async () => {
  const attempt = fc.record({ travel: fc.nat(9), isLost: fc.boolean() })
  const refresh = fc.record({ pause: fc.nat(100), attempts: fc.array(attempt, { minLength: 1, maxLength: 3 }) })
  fc.assert(fc.property(fc.array(refresh, { maxLength: 30 }), (refreshes) => {
    // Three attempts, each of at most 9 milliseconds there, and as many back.
    const grace = 60
    let counter = created
    let held = 0
    let now = 0
    for (const { pause, attempts } of refreshes) {
      now += pause
      for (const [index, { travel, isLost }] of attempts.entries()) {
        now += travel
        const decision = decide(counter, held, now, grace)
        if (decision.outcome === 'reused') return false
        counter = follow(counter, decision, now)
        now += travel
        // The last attempt arrives.
        if (isLost && index < attempts.length - 1) continue
        held = decision.n
        break
      }
    }
    return true
  }), { numRuns: 1000 })
})

t.test('any number of copies within the window give one rotation, and the same counter', async () => {
  fc.assert(fc.property(fc.array(fc.nat(29), { minLength: 1, maxLength: 50 }), fc.nat(1000), (times, start) => {
    let counter = { n: start, rotatedAt: start === 0 ? null : -1000 }
    const decisions = times.sort((a, b) => a - b).map((time) => {
      const decision = decide(counter, start, time, 30)
      counter = { ...counter, ...follow(counter, decision, time) }
      return decision
    })
    return decisions[0]!.outcome === 'rotated' && decisions.slice(1).every(({ outcome }) => outcome === 'repeated') && decisions.every(({ n }) => n === start + 1)
  }))
})

t.test('a retired refresh token is reuse from the end of the window on, and not a millisecond before', async (t) => {
  const counter = { n: 5, rotatedAt: 1000 }
  t.equal(decide(counter, 4, 1029, 30).outcome, 'repeated')
  t.equal(decide(counter, 4, 1030, 30).outcome, 'reused')
  t.equal(decide(counter, 5, 1029, 30).outcome, 'repeated')
  t.equal(decide(counter, 5, 1030, 30).outcome, 'rotated')
  t.equal(decide(counter, 3, 1000, 30).outcome, 'reused')
  t.equal(decide(created, 0, 0, 30).outcome, 'rotated')
})

t.test('a session expires after idling, and at the end of its life at the latest', async (t) => {
  t.equal(expiryOf(1000, 5000, 300), 1300)
  t.equal(expiryOf(4900, 5000, 300), 5000)
})
