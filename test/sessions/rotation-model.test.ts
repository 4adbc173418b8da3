/**
 * Honest clients on a model of the protocol whose states are searched completely: what is promised holds within its bounds,
 * and not just outside.
 */
import t from 'tap'
import { confirm, decide, firstGeneration, isToConfirm, type Generations } from '../../lib/sessions/rotation.ts'

/** In ticks of the model. */
const grace = 3

interface Bounds {
  /** How long after its sending a request is executed at most. */
  readonly late: number
  /** How long after its execution an answer arrives at most. */
  readonly back: number
  /** How long after its arrival a new token is presented at the earliest. */
  readonly rest: number
  /** How many requests and answers are under way at most. */
  readonly copies: number
  /** Whether a client sends a further request only when it has given up the one before, and hears of that no more. */
  readonly oneAtATime: boolean
}

/** A request or an answer that is under way: its generation, as a distance to the latest one, and its age. */
type Message = readonly [behind: number, age: number, isCurrent: boolean]

interface State {
  readonly family: Generations
  readonly window: number
  /** What the client holds, and since when. */
  readonly held: number
  readonly since: number
  readonly requests: readonly Message[]
  readonly answers: readonly Message[]
  /** What a use of the access tokens that came would confirm. */
  readonly received: readonly number[]
}

const byValue = (one: Message, other: Message) => one[0] - other[0] || one[1] - other[1] || Number(one[2]) - Number(other[2])
const without = <T> (list: readonly T[], index: number) => list.filter((_, position) => position !== index)
const moved = (messages: readonly Message[], by: number): Message[] => messages.map(([behind, age, isCurrent]) => [behind + by, age, isCurrent])
const aged = (messages: readonly Message[], most: number): Message[] => messages.flatMap(([behind, age, isCurrent]) => age < most ? [[behind, age + 1, isCurrent]] : [])

/** The states that follow from one; undefined where the session ends. */
function * following (state: State, { late, back, rest, copies, oneAtATime }: Bounds): Generator<State | undefined> {
  const { family, window, held, since, requests, answers, received } = state
  // Time passes. What is too old by then is never executed, or lost.
  yield { ...state, window: Math.min(window + 1, grace), since: Math.min(since + 1, rest), requests: aged(requests, late), answers: aged(answers, back) }
  if (since >= rest && requests.length + answers.length < copies) {
    const others = oneAtATime ? requests.map(([behind, age]): Message => [behind, age, false]) : requests
    yield { ...state, requests: [...others, [held, 0, true]], answers: oneAtATime ? [] : answers }
  }
  for (const [index, [behind, , isCurrent]] of requests.entries()) {
    const { outcome, n, change } = decide(family, family.n - behind, window < grace, false)
    if (outcome === 'reused') return yield undefined
    const next = change?.family ?? family
    const by = next.n - family.n
    const after: State = {
      ...state,
      family: next,
      window: change?.beginsWindow === true ? 0 : window,
      held: held + by,
      requests: moved(without(requests, index), by),
      answers: moved(answers, by),
      received: received.map((n) => n + by)
    }
    yield after
    // A token that is answered with itself is not stored again: no cookie is set.
    if (isCurrent && behind + by !== next.n - n) yield { ...after, answers: [...after.answers, [next.n - n, 0, true]] }
  }
  for (const [index, [behind]] of answers.entries()) {
    const isNew = behind !== held
    const parent = family.parent
    yield { ...state, answers: without(answers, index), held: behind, since: isNew ? 0 : since, received: !received.includes(parent) ? [...received, parent] : received }
  }
  for (const behind of received) {
    if (!isToConfirm(family, family.n - behind)) continue
    yield { ...state, family: confirm(family).family, window: 0, received: received.filter((other) => other !== behind) }
  }
}

/** Distances alone, and nothing that cannot matter any more. */
function normalized (state: State): State {
  const { family, requests, answers, received } = state
  return {
    ...state,
    family: { ...family, n: 0 },
    requests: requests.toSorted(byValue),
    answers: answers.toSorted(byValue),
    received: received.filter((behind) => behind <= family.parent).toSorted()
  }
}

/** Searches all states. @returns how many there are, and whether the session ends in one */
function search (bounds: Bounds, most = Infinity): { states: number, isRefused: boolean } {
  const begin: State = { family: firstGeneration, window: grace, held: 0, since: bounds.rest, requests: [], answers: [], received: [] }
  const seen = new Set<string>()
  const open = [begin]
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    for (const next of following(state, bounds)) {
      if (next === undefined) return { states: seen.size, isRefused: true }
      const reached = normalized(next)
      // Families grow without end where all answers are lost: a few siblings show what more would.
      if (reached.family.siblings > 3) continue
      const { family: { parent, siblings, confirmed }, window, held, since, requests, answers, received } = reached
      const key = [parent, siblings, confirmed, window, held, since, requests, '', answers, '', received].join()
      if (seen.has(key)) continue
      seen.add(key)
      if (seen.size > most) return { states: seen.size, isRefused: false }
      open.push(reached)
    }
  }
  return { states: seen.size, isRefused: false }
}

const single: Bounds = { late: grace - 1, back: 0, rest: grace, copies: 2, oneAtATime: true }
const several: Bounds = { late: grace - 1, back: 1, rest: 2 * grace, copies: 3, oneAtATime: false }

for (const [name, bounds, outside] of [
  ['one try at a time, given-up tries executed late', single, [{ late: grace }, { rest: grace - 1 }]],
  ['several at once', several, [{ late: grace }]]
] as const) {
  t.test(`${name}: no state in which an honest client is refused can be reached within the bounds, and one can just outside`, async (t) => {
    const { states, isRefused } = search(bounds)
    t.ok(states > 1000, `${states} states`)
    t.equal(isRefused, false)
    for (const other of outside) t.equal(search({ ...bounds, ...other }).isRefused, true, JSON.stringify(other))
  })
}

t.test('one try at a time, and none is executed that was given up: a client is never refused, whenever it presents a new token', async (t) => {
  const { states, isRefused } = search({ ...single, late: 0, copies: 1, rest: 0 })
  t.ok(states > 10, `${states} states`)
  t.equal(isRefused, false)
})
