import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { BoundedMap } from '../lib/bounded-map.ts'
import { caseOf } from './helper.ts'

t.test('generations never hold more than twice its size, and what is in use stays', async (t) => {
  const size = 10
  fc.assert(fc.property(fc.array(fc.nat(60), { minLength: 100, maxLength: 400 }), (sequence) => {
    const memory = new BoundedMap<number, string>(size)
    const isFound = sequence.every((key) => {
      memory.set(key, String(key))
      return memory.get(key) === String(key)
    })
    // Asked in one go: looking at an old entry makes it young, which drops others, so this counts no entry twice.
    const held = [...new Set(sequence)].filter((key) => memory.get(key) !== undefined)
    return isFound && held.length <= 2 * size
  }), { numRuns: 50 })
  const memory = new BoundedMap<string, string>(size)
  memory.set('used', 'kept')
  memory.set('unused', 'dropped')
  for (let key = 0; key < 100; key++) {
    memory.set(`${key}`, 'passing')
    assert.equal(memory.get('used'), 'kept', caseOf(key))
  }
  t.equal(memory.get('unused'), undefined)
})
