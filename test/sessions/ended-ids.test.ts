import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { EndedIds } from '../../lib/sessions/ended-ids.ts'

/** A list in which some ids were from the beginning. */
function listOf (given: readonly string[], expected?: number): EndedIds {
  const ended = new EndedIds(expected)
  for (const id of given) ended.add(id, 1)
  return ended
}

const ids = (count: number) => Array.from({ length: count }, () => randomBytes(16).toString('base64url'))

t.test('every id that was given or added is found, and no other, however many there are', async (t) => {
  for (const count of [0, 1, 63, 64, 65, 1000, 20_000]) {
    const given = ids(count)
    const added = ids(count)
    const ended = listOf(given, count)
    for (const id of added) ended.add(id, 1)
    t.ok([...given, ...added].every((id) => ended.has(id)), `${count} given, ${count} added`)
    t.notOk(ids(1000).some((id) => ended.has(id)), 'others')
  }
})

t.test('an id is found at once after it was added, whenever the bit map grows', async (t) => {
  const ended = new EndedIds()
  for (const id of ids(5000)) {
    if (ended.has(id)) t.fail('not added yet')
    ended.add(id, 1)
    if (!ended.has(id)) t.fail('added')
  }
})

t.test('a feed of the application may have ids of any form', async () => {
  fc.assert(fc.property(fc.array(fc.string()), fc.array(fc.string()), (given, others) => {
    const ended = listOf(given)
    const known = new Set(given)
    return [...given, ...others].every((id) => ended.has(id) === known.has(id))
  }))
})

t.test('at most one in eight lookups of other ids reaches the map', async (t) => {
  const { has } = Map.prototype
  t.teardown(() => Object.assign(Map.prototype, { has }))
  for (const count of [0, 64, 100, 5000, 70_000]) {
    const ended = listOf(ids(count), Math.floor(count / 2))
    const others = ids(4000)
    let reached = 0
    Object.assign(Map.prototype, {
      has (this: Map<unknown, unknown>, value: unknown) {
        reached++
        return has.call(this, value)
      }
    })
    for (const id of others) ended.has(id)
    Object.assign(Map.prototype, { has })
    t.ok(reached <= others.length / 8, `${count} ids: ${reached} of ${others.length}`)
  }
})

t.test('of several times at which an id was reported, the latest counts', async (t) => {
  const ended = listOf(['a', 'b'])
  for (const at of [3, 2]) ended.add('a', at)
  t.same([...ended.entries()], [['a', 3], ['b', 1]])
})
