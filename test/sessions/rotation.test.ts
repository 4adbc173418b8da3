import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { confirm, decide, expiryOf, firstGeneration, isToConfirm, type Decision, type Generations } from '../../lib/sessions/rotation.ts'
import { caseOf } from '../helper.ts'

const family = (n: number, parent: number, siblings: number, confirmed: boolean): Generations => ({ n, parent, siblings, confirmed })

/** A session as a store has it: its family, and when its window began. */
interface State { readonly family: Generations, readonly since: number }

const created: State = { family: firstGeneration, since: -Infinity }

/** Presents a generation at a time. */
function present ({ family, since }: State, n: number, now: number, grace: number): { decision: Decision, state: State } {
  const decision = decide(family, n, now - since < grace, grace === 0)
  const { change } = decision
  return { decision, state: change === undefined ? { family, since } : { family: change.family, since: change.beginsWindow ? now : since } }
}

/** An access token of a generation was accepted. */
function receive (state: State, sgen: number, now: number): State {
  return isToConfirm(state.family, sgen) ? { family: confirm(state.family).family, since: now } : state
}

t.test('each line of the table, on both sides of each bound', async () => {
  const use = { beginsWindow: true, isUse: true }
  const nothing = undefined
  // n, parent, siblings, confirmed; presented; open; strict
  const rows: ReadonlyArray<[Parameters<typeof family>, number, boolean, boolean, Decision['outcome'], number, Decision['change']]> = [
    // Ahead.
    [[5, 1, 0, false], 6, true, false, 'recovered', 7, { family: family(7, 1, 0, false), ...use }],
    [[5, 3, 1, true], 9, false, true, 'recovered', 10, { family: family(10, 1, 0, false), ...use }],
    // A member, with the window closed: all others are retired, the gap as well.
    [[5, 1, 0, false], 5, false, false, 'rotated', 6, { family: family(6, 1, 0, false), ...use }],
    [[5, 1, 0, true], 5, false, true, 'rotated', 6, { family: family(6, 1, 0, false), ...use }],
    [[5, 3, 2, false], 5, false, false, 'rotated', 6, { family: family(6, 1, 0, false), ...use }],
    [[5, 3, 2, true], 4, false, false, 'rotated', 6, { family: family(6, 2, 0, false), ...use }],
    [[5, 3, 2, false], 3, false, true, 'rotated', 6, { family: family(6, 3, 0, false), ...use }],
    // A member, with the window open.
    [[5, 1, 0, false], 5, true, false, 'repeated', 5, nothing],
    [[5, 1, 0, true], 5, true, false, 'repeated', 5, nothing],
    [[5, 3, 2, true], 3, true, false, 'repeated', 3, nothing],
    [[5, 3, 2, false], 3, true, false, 'repeated', 3, { family: family(5, 3, 2, true), beginsWindow: true, isUse: false }],
    [[5, 3, 2, false], 5, true, false, 'repeated', 5, { family: family(5, 3, 2, true), beginsWindow: true, isUse: false }],
    // The parent, not confirmed.
    [[5, 1, 0, false], 4, true, false, 'repeated', 5, nothing],
    [[5, 2, 0, false], 3, true, false, 'repeated', 5, nothing],
    [[5, 1, 0, false], 4, false, false, 'reissued', 6, { family: family(6, 2, 1, false), ...use }],
    [[5, 3, 1, false], 2, false, false, 'reissued', 6, { family: family(6, 4, 2, false), ...use }],
    [[5, 2, 1, false], 3, true, false, 'reissued', 6, { family: family(6, 3, 2, false), ...use }],
    [[5, 1, 0, false], 4, false, true, 'reused', 5, nothing],
    [[5, 2, 1, false], 3, false, true, 'reused', 5, nothing],
    // The parent, confirmed.
    [[5, 1, 0, true], 4, true, false, 'reissued', 6, { family: family(6, 2, 1, true), beginsWindow: false, isUse: true }],
    [[5, 2, 1, true], 3, true, false, 'reissued', 6, { family: family(6, 3, 2, true), beginsWindow: false, isUse: true }],
    [[5, 1, 0, true], 4, false, false, 'reused', 5, nothing],
    [[5, 1, 0, true], 4, false, true, 'reused', 5, nothing],
    // Behind the members, but not the parent: the gap; and behind the parent.
    [[5, 3, 1, false], 3, true, false, 'reused', 5, nothing],
    [[5, 3, 1, false], 3, false, false, 'reused', 5, nothing],
    [[5, 1, 0, false], 3, true, false, 'reused', 5, nothing],
    [[5, 3, 2, true], 1, true, false, 'reused', 5, nothing],
    [[5, 3, 2, false], 1, false, true, 'reused', 5, nothing],
    // A new session.
    [[0, 1, 0, false], 0, false, false, 'rotated', 1, { family: family(1, 1, 0, false), ...use }]
  ]
  for (const [given, presented, isOpen, isStrict, outcome, n, change] of rows) {
    assert.deepEqual(decide(family(...given), presented, isOpen, isStrict), { outcome, n, change }, JSON.stringify([given, presented, isOpen, isStrict]))
  }
})

t.test('a confirmation counts for the parent of the family alone, and once', async (t) => {
  const open = family(5, 2, 1, false)
  t.same([1, 2, 3, 4, 5, 6].filter((n) => isToConfirm(open, n)), [3])
  t.strictSame(confirm(open), { family: family(5, 2, 1, true), beginsWindow: true, isUse: false })
  t.notOk(isToConfirm(confirm(open).family, 3))
  t.same([-1, 0, 1].filter((n) => isToConfirm(firstGeneration, n)), [-1], 'a login has no parent')
})

const grace = 30

// Promise: sessions/response-lost-connection
t.test('a client that tries once at a time is never refused, however late it comes and however many answers are lost', async () => {
  const attempt = fc.record({ pause: fc.nat(1000), isLost: fc.boolean(), uses: fc.boolean() })
  fc.assert(fc.property(fc.array(attempt, { maxLength: 60 }), (attempts) => {
    let state = created
    let held = 0
    let sgen: number | undefined
    let now = 0
    for (const { pause, isLost, uses } of attempts) {
      now += pause
      const { decision, state: next } = present(state, held, now, grace)
      state = next
      if (decision.outcome === 'reused') return false
      if (isLost) continue
      sgen = decision.n === held ? undefined : held
      held = decision.n
      if (uses && sgen !== undefined) state = receive(state, sgen, now)
    }
    return true
  }), { numRuns: 2000 })
})

t.test('after a restored backup, a client that tries once at a time is never refused', async () => {
  fc.assert(fc.property(fc.array(fc.record({ pause: fc.nat(100), isLost: fc.boolean(), restores: fc.boolean(), backsUp: fc.boolean() }), { maxLength: 60 }), (attempts) => {
    let [state, backup] = [created, created]
    let held = 0
    let now = 0
    for (const { pause, isLost, restores, backsUp } of attempts) {
      now += pause
      if (backsUp) backup = state
      if (restores) state = backup
      const { decision, state: next } = present(state, held, now, grace)
      state = next
      if (decision.outcome === 'reused') return false
      if (!isLost) held = decision.n
    }
    return true
  }), { numRuns: 2000 })
})

/** A copy of a request: when it is sent, how long it takes to be executed, and its answer to arrive. */
interface Copy { readonly at: number, readonly there: number, readonly back: number, readonly isLost: boolean }

/** Copies of one refresh after the other, by tabs that share a jar: the last answer wins. @returns whether none was refused */
function shareJar (rounds: ReadonlyArray<readonly Copy[]>, rest: number, confirms: boolean): boolean {
  let state = created
  let held = 0
  let start = 0
  for (const copies of rounds) {
    const presented = held
    const begin = start
    let lastArrival = begin
    const answers: Array<{ at: number, n: number }> = []
    for (const { at, there, back, isLost } of copies.toSorted((a, b) => a.at + a.there - b.at - b.there)) {
      const executed = begin + at + there
      const result = present(state, presented, executed, grace)
      state = result.state
      if (result.decision.outcome === 'reused') return false
      if (isLost) continue
      answers.push({ at: executed + back, n: result.decision.n })
      lastArrival = Math.max(lastArrival, executed + back)
    }
    const last = answers.toSorted((a, b) => a.at - b.at).at(-1)
    if (last !== undefined) held = last.n
    if (confirms && last !== undefined && held !== presented) state = receive(state, presented, last.at)
    start = lastArrival + rest
  }
  return true
}

const copy = (most: number) => fc.record({ at: fc.nat(3), there: fc.nat(Math.floor(most / 2)), back: fc.nat(Math.floor(most / 2) - 4), isLost: fc.boolean() })

t.test('tabs that share a jar and refresh at once are never refused within the bounds', async () => {
  fc.assert(fc.property(fc.array(fc.array(copy(grace - 1), { minLength: 1, maxLength: 4 }), { maxLength: 12 }), fc.boolean(), (rounds, confirms) =>
    shareJar(rounds, 2 * grace, confirms)), { numRuns: 2000 })
})

t.test('outside of the bounds they are: a copy that is executed more than the window after the confirmation', async (t) => {
  const late: Copy[] = [{ at: 0, there: 0, back: 0, isLost: false }, { at: 0, there: grace, back: 0, isLost: false }]
  t.ok(shareJar([late.map((copy) => ({ ...copy, there: Math.min(copy.there, grace - 1) }))], 2 * grace, true))
  const { state } = present(created, 0, 0, grace)
  const confirmed = receive(state, 0, 1)
  t.equal(present(confirmed, 0, grace, grace).decision.outcome, 'reissued')
  t.equal(present(confirmed, 0, grace + 1, grace).decision.outcome, 'reused')
})

// Promise: sessions/response-lost-connection
t.test('a thief who presents a replaced token whose successor was used is found after the window', async (t) => {
  let { state } = present(created, 0, 0, grace)
  state = receive(state, 0, 5)
  t.equal(present(state, 0, 5 + grace - 1, grace).decision.outcome, 'reissued', 'it may be a copy')
  t.equal(present(state, 0, 5 + grace, grace).decision.outcome, 'reused')
  const next = present(state, 1, 5 + grace, grace)
  t.equal(present(next.state, 0, 5 + grace, grace).decision.outcome, 'reused', 'at once, when the successor was presented')
})

t.test('a thief who presents the parent all the time gets generations of his own, and keeps no window open', async (t) => {
  let { state } = present(created, 0, 0, grace)
  const given = new Set([1])
  for (let now = grace; now < 10 * grace; now += 10) {
    const { decision, state: next } = present(state, 0, now, grace)
    state = next
    assert.equal(decision.outcome, 'reissued', caseOf(now))
    assert.ok(!given.has(decision.n), caseOf(now))
    given.add(decision.n)
  }
  const confirmedAt = 10 * grace
  state = receive(state, 0, confirmedAt)
  for (let now = confirmedAt; now < confirmedAt + grace; now += 10) {
    const { decision, state: next } = present(state, 0, now, grace)
    state = next
    assert.equal(decision.outcome, 'reissued', caseOf(now))
  }
  t.equal(present(state, 0, confirmedAt + grace, grace).decision.outcome, 'reused')
})

// Promise: sessions/request-many-times
t.test('any number of copies within the window give one rotation, and the same generation', async () => {
  fc.assert(fc.property(fc.array(fc.nat(29), { minLength: 1, maxLength: 50 }), (times) => {
    let state = created
    const sorted = times.sort((a, b) => a - b)
    const decisions = sorted.map((time) => {
      const result = present(state, 0, time - sorted[0]!, grace)
      state = result.state
      return result.decision
    })
    return decisions[0]!.outcome === 'rotated' && decisions.slice(1).every(({ outcome }) => outcome === 'repeated') && decisions.every(({ n }) => n === 1)
  }))
})

t.test('without a window, each generation can be exchanged once', async () => {
  fc.assert(fc.property(fc.array(fc.nat(3), { maxLength: 20 }), (steps) => {
    let state = created
    for (const behind of steps) {
      const { n } = state.family
      if (behind > n) continue
      const { decision, state: next } = present(state, n - behind, 0, 0)
      if (behind > 0) return decision.outcome === 'reused'
      if (decision.outcome !== 'rotated') return false
      state = next
    }
    return true
  }))
})

// Promise: sessions/4-14-2-refresh-tokens
// Promise: sessions/7-1-1
// Promise: sessions/7-3-1
// Promise: sessions/7-3-2
t.test('a session expires after idling, and at the end of its life at the latest', async (t) => {
  t.equal(expiryOf(1000, 5000, 300), 1300)
  t.equal(expiryOf(4900, 5000, 300), 5000)
})
