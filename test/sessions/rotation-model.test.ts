// @slow
/**
 * Honest clients on a model of the protocol whose states are searched completely: what is promised holds within its bounds,
 * and not just outside. Any request, answer or confirmation may be lost. Confirmations arrive at any time, and in any order.
 */
import t from 'tap'
import { confirm, decide, firstGeneration, isToConfirm, type Generations } from '../../lib/sessions/rotation.ts'

/** In ticks of the model, as all times here. */
const grace = 3

interface Bounds {
  /** How long after its sending a request is executed at most. */
  readonly late: number
  /** How long after its execution an answer arrives at most. */
  readonly back: number
  /** How long after its arrival a new token is presented at the earliest. */
  readonly rest: number
  /**
   * `forgotten`: a client sends a further request only when it has given up the one before, which is then not executed any
   * more. `late`: it may be executed, but the client does not hear of it. `at once`: up to three are under way, and each is heard.
   */
  readonly tries: 'forgotten' | 'late' | 'at once'
  /**
   * Which answers a client keeps. `other`: the last one that arrives, except that a token that is answered with itself is not
   * stored again; so do browsers with cookies. `expected`: one that arrives while the client still has what it presented for
   * it; so does the client of this package in header mode. `any`: the last one that arrives.
   */
  readonly keeps: 'other' | 'expected' | 'any'
}

/** Generations are distances to the latest one. */
interface Asked { readonly presented: number, readonly age: number, readonly isHeard: boolean }
interface Answered { readonly presented: number, readonly got: number, readonly age: number }

interface State {
  readonly family: Generations
  readonly window: number
  /** What the client holds, and since when. */
  readonly held: number
  readonly since: number
  readonly asked: readonly Asked[]
  readonly answered: readonly Answered[]
  /** The generations that access tokens carry which have arrived: they may be used, again and again, at any time. */
  readonly usable: readonly number[]
}

const without = <T> (list: readonly T[], index: number) => list.filter((_, position) => position !== index)
const older = <T extends { age: number }> (list: readonly T[], most: number) => list.filter(({ age }) => age < most).map((entry) => ({ ...entry, age: entry.age + 1 }))

/** A state in which the store has other generations. */
function withFamily (state: State, family: Generations, window: number): State {
  const by = family.n - state.family.n
  return {
    ...state,
    family,
    window,
    held: state.held + by,
    asked: state.asked.map((request) => ({ ...request, presented: request.presented + by })),
    answered: state.answered.map((answer) => ({ ...answer, presented: answer.presented + by, got: answer.got + by })),
    // Older ones than the parent confirm nothing any more.
    usable: state.usable.map((generation) => generation + by).filter((generation) => generation <= family.parent)
  }
}

/** The states that follow from one; undefined where the session ends. */
function * following (state: State, { late, back, rest, tries, keeps }: Bounds): Generator<State | undefined> {
  const { family, window, held, since, asked, answered, usable } = state
  // Time passes. What is too old by then is never executed, or lost.
  yield { ...state, window: Math.min(window + 1, grace), since: Math.min(since + 1, rest), asked: older(asked, late), answered: older(answered, back) }
  const request: Asked = { presented: held, age: 0, isHeard: true }
  if (since >= rest) {
    if (tries === 'forgotten') yield { ...state, asked: [request], answered: [] }
    if (tries === 'late' && asked.length < 2) yield { ...state, asked: [...asked.map((other) => ({ ...other, isHeard: false })), request], answered: [] }
    if (tries === 'at once' && asked.length + answered.length < 3) yield { ...state, asked: [...asked, request] }
  }
  for (const [index, { presented, isHeard }] of asked.entries()) {
    const { outcome, n, change } = decide(family, family.n - presented, window < grace, false)
    if (outcome === 'reused') return yield undefined
    const next = change?.family ?? family
    const after = withFamily({ ...state, asked: without(asked, index) }, next, change?.beginsWindow === true ? 0 : window)
    yield after
    const answer: Answered = { presented: presented + next.n - family.n, got: next.n - n, age: 0 }
    if (isHeard && (answer.presented !== answer.got || keeps === 'any')) yield { ...after, answered: [...after.answered, answer] }
  }
  for (const [index, { presented, got }] of answered.entries()) {
    const arrived = { ...state, answered: without(answered, index), usable: presented === got ? usable : [...new Set([...usable, presented])] }
    const isKept = got !== held && (keeps !== 'expected' || presented === held)
    yield isKept ? { ...arrived, held: got, since: 0 } : arrived
  }
  for (const generation of usable) {
    if (isToConfirm(family, family.n - generation)) yield { ...state, family: confirm(family).family, window: 0 }
  }
}

const textOf = (list: readonly object[]) => list.map((entry) => Object.values(entry).join()).sort().join(';')

/** A text that is the same for states that differ only in what cannot matter any more. */
function keyOf ({ family: { parent, siblings, confirmed }, window, held, since, asked, answered, usable }: State): string {
  return [parent, siblings, confirmed, window, held, since, textOf(asked), textOf(answered), usable.toSorted()].join(' ')
}

/** Searches all states. @returns how many there are, and whether the session ends in one */
function search (bounds: Bounds): { states: number, isRefused: boolean } {
  const begin: State = { family: firstGeneration, window: grace, held: 0, since: bounds.rest, asked: [], answered: [], usable: [] }
  const seen = new Set<string>()
  const open = [begin]
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    for (const next of following(state, bounds)) {
      if (next === undefined) return { states: seen.size, isRefused: true }
      // Families grow without end where all answers are lost: a few siblings show what more would.
      if (next.family.siblings > 3) continue
      const key = keyOf(next)
      if (seen.has(key)) continue
      seen.add(key)
      open.push(next)
    }
  }
  return { states: seen.size, isRefused: false }
}

/** Times within the window. */
const times = [0, 1, 2]

t.test('one try at a time, and none is executed that was given up: a client is never refused, however late requests are executed and answers arrive, and whenever it presents a new token', async (t) => {
  for (const keeps of ['other', 'any'] as const) {
    const { states, isRefused } = search({ late: 2 * grace, back: 2 * grace, rest: 0, tries: 'forgotten', keeps })
    t.ok(states > 100, `${states} states`)
    t.notOk(isRefused)
  }
})

// Promise: sessions/response-lost-connection
t.test('one try at a time, given-up tries executed late: a client is never refused if they are executed within the window, and it has each new token for longer than that before it presents it; otherwise it can be', async (t) => {
  const bounds = { back: 2 * grace, tries: 'late', keeps: 'other' } as const
  for (const late of times) {
    for (const keeps of ['other', 'any'] as const) {
      const { states, isRefused } = search({ ...bounds, keeps, late, rest: late + 1 })
      t.notOk(isRefused, `executed after ${late} at most: ${states} states`)
    }
    if (late > 0) t.ok(search({ ...bounds, back: 0, late, rest: late }).isRefused, `and presented after ${late}`)
  }
  t.ok(search({ ...bounds, back: 0, late: grace, rest: 3 * grace }).isRefused, 'executed when the window is over')
})

// Promise: sessions/request-many-times
t.test('several at once, of which the last answer is kept: a client is never refused if they are executed within the window, and it has each new token for longer than a request and its answer take before it presents it; otherwise it can be', async (t) => {
  const bounds = { tries: 'at once', keeps: 'other' } as const
  for (const late of times) {
    for (const back of times) {
      const taken = late + back
      const { states, isRefused } = search({ ...bounds, late, back, rest: taken + 1 })
      t.notOk(isRefused, `executed after ${late} and answered after ${back} at most: ${states} states`)
      // An answer to an older request arrives when the new token has been presented, and takes its place.
      if (taken > 0) t.ok(search({ ...bounds, late, back, rest: taken }).isRefused, `and presented after ${taken}`)
    }
  }
  t.ok(search({ ...bounds, late: grace, back: 0, rest: 3 * grace }).isRefused, 'executed when the window is over')
})

t.test('several at once that are executed and answered within a window, by clients that present a new token when its access token has expired, are within these bounds, because access tokens live for two windows at least', async (t) => {
  for (const late of times) {
    const back = grace - 1 - late
    // An access token has lived for as long as its answer took when it arrives.
    const { states, isRefused } = search({ late, back, rest: 2 * grace - back, tries: 'at once', keeps: 'other' })
    t.notOk(isRefused, `${states} states`)
  }
})

t.test('several at once, of which an answer is kept while the client still has what it presented for it: a client is never refused if they are executed within the window, and it has each new token for longer than that, however late answers arrive', async (t) => {
  const bounds = { tries: 'at once', keeps: 'expected' } as const
  const late = grace - 1
  const { states, isRefused } = search({ ...bounds, late, back: grace, rest: late + 1 })
  t.notOk(isRefused, `${states} states`)
  t.ok(search({ ...bounds, late, back: 0, rest: late }).isRefused)
})

t.test('several at once, by a client that stores a token that is answered with itself again: it can be refused, however long it has each new token', async (t) => {
  const bounds = { late: 0, back: 1, rest: 3 * grace, tries: 'at once' } as const
  t.ok(search({ ...bounds, keeps: 'any' }).isRefused)
  for (const keeps of ['other', 'expected'] as const) t.notOk(search({ ...bounds, keeps }).isRefused)
})
