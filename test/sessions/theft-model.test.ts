// @slow
/**
 * An owner and a thief on a model of the protocol whose states are searched completely: how often a session changes hands
 * before it ends, where each change comes more than a window after what the other got. Access tokens are used at any time, or never.
 */
import t from 'tap'
import { confirm, decide, firstGeneration, type Generations } from '../../lib/sessions/rotation.ts'

/** In ticks of the model. */
const grace = 2

type Who = 'owner' | 'thief'

/** Generations are distances to the latest one. */
interface State {
  readonly family: Generations
  readonly window: number
  /** Who was answered last, and how long ago that was. */
  readonly last: Who
  readonly since: number
  /** What they may present. The thief has nothing before the theft, and nobody keeps what was retired, with which they would be found. */
  readonly has: Readonly<Record<Who, readonly number[]>>
  readonly isStolen: boolean
  /** Whether somebody has an access token that shows that a member of the family was received. */
  readonly isUsable: boolean
  /** How many answers to the owner may still be lost. */
  readonly losses: number
}

/** `isPatient`: whether the thief keeps all that he ever got, instead of what he got last. */
type Thief = { readonly isPatient: boolean }

/** The states that follow from one, and whether the session changes hands. What ends the session is left out. */
function * following (state: State, { isPatient }: Thief): Generator<readonly [isChange: boolean, state: State]> {
  const { family, window, last, since, has, isStolen, isUsable, losses } = state
  yield [false, { ...state, window: Math.min(window + 1, grace), since: Math.min(since + 1, grace + 1) }]
  if (!isStolen) yield [false, { ...state, has: { ...has, thief: has.owner }, isStolen: true }]
  if (isUsable && !family.confirmed) yield [false, { ...state, family: confirm(family).family, window: 0 }]
  for (const who of ['owner', 'thief'] as const) {
    const isChange = who !== last
    if (isChange && since <= grace) continue
    for (const presented of has[who]) {
      const { outcome, n, change } = decide(family, family.n - presented, window < grace, false)
      if (outcome === 'reused') continue
      const next = change?.family ?? family
      const by = next.n - family.n
      const still = (list: readonly number[]) => list.map((generation) => generation + by).filter((generation) => generation <= next.siblings || generation === next.parent)
      const kept = { owner: still(has.owner), thief: still(has.thief) }
      const after: State = { ...state, family: next, window: change?.beginsWindow === true ? 0 : window, last: who, since: 0, has: kept }
      const got = next.n - n
      const all = who === 'thief' && isPatient ? [...new Set([...kept.thief, got])] : [got]
      // An answer that repeats what was presented shows nothing.
      yield [isChange, { ...after, has: { ...kept, [who]: all }, isUsable: isUsable || got !== presented + by }]
      if (who === 'owner' && losses > 0) yield [isChange, { ...after, isUsable: isUsable && outcome !== 'rotated', losses: losses - 1 }]
    }
  }
}

function keyOf ({ family: { parent, siblings, confirmed }, window, last, since, has, isStolen, isUsable, losses }: State): string {
  return [parent, siblings, confirmed, window, last, since, has.owner, has.thief.toSorted(), isStolen, isUsable, losses].join(' ')
}

/** How often a session changes hands at most. @param losses how many answers to the owner may be lost */
function mostChanges (thief: Thief, losses: number): number {
  const begin: State = { family: firstGeneration, window: grace, last: 'owner', since: grace + 1, has: { owner: [0], thief: [] }, isStolen: false, isUsable: false, losses }
  const most = new Map([[keyOf(begin), 0]])
  let open = new Map([[keyOf(begin), begin]])
  while (open.size > 0) {
    const reached = new Map<string, State>()
    for (const [key, state] of open) {
      for (const [isChange, next] of following(state, thief)) {
        const changes = most.get(key)! + Number(isChange)
        const other = keyOf(next)
        // A few siblings show what more would.
        if (next.family.siblings > 6 || changes <= (most.get(other) ?? -1)) continue
        if (changes > 100) return Infinity
        most.set(other, changes)
        reached.set(other, next)
      }
    }
    open = reached
  }
  return Math.max(...most.values())
}

// Promise: sessions/refresh-token-stolen
t.test('a session changes hands five times at most, and at most once more for each answer that the owner loses', async (t) => {
  const most = [0, 1, 2, 3].map((losses) => mostChanges({ isPatient: false }, losses))
  t.same(most.slice(0, 2), [5, 6])
  t.ok(most.every((changes, losses) => changes <= 5 + losses), most.join())
})

t.test('where the thief presents earlier tokens again, a session changes hands five times at most, and twice more for each answer that the owner loses', async (t) => {
  for (const losses of [0, 1, 2]) t.equal(mostChanges({ isPatient: true }, losses), 5 + 2 * losses)
})
