import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { EndedIds } from '../../lib/sessions/ended-ids.ts'

/** A list in which some ids were from the beginning. */
function listOf (given: readonly string[]): EndedIds {
  const ended = new EndedIds()
  for (const id of given) ended.add(id, 1)
  return ended
}

const ids = (count: number) => Array.from({ length: count }, () => randomBytes(16).toString('base64url'))

t.test('every id that was given or added is found, and no other, however many there are', async () => {
  for (const count of [0, 1, 63, 64, 65, 1000, 20_000]) {
    const given = ids(count)
    const added = ids(count)
    const ended = listOf(given)
    for (const id of added) ended.add(id, 1)
    assert.ok([...given, ...added].every((id) => ended.has(id)), `${count} given, ${count} added`)
    assert.ok(!ids(1000).some((id) => ended.has(id)), 'others')
  }
})

t.test('a feed of the application may have ids of any form', async () => {
  fc.assert(fc.property(fc.array(fc.string()), fc.array(fc.string()), (given, others) => {
    const ended = listOf(given)
    const known = new Set(given)
    return [...given, ...others].every((id) => ended.has(id) === known.has(id))
  }))
})

t.test('of several times at which an id was reported, the latest counts', async (t) => {
  const ended = listOf(['a', 'b'])
  for (const at of [3, 2]) ended.add('a', at)
  t.same([...ended.entries()], [['a', 3], ['b', 1]])
})
