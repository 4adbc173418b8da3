// @slow
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import t from 'tap'
import { TokenMemory } from '../../lib/authorities/memory.ts'
import { caseOf } from '../helper.ts'

t.test('a token that comes again within eight times its size is remembered then, whenever that is', async () => {
  for (const size of [10, 1000]) {
    const memory = new TokenMemory<{ token: string }>(size)
    // The end of a token is all that counts: here sixteen digits that look like those of a signature.
    const tokenOf = (index: number) => `x.y.${createHash('sha256').update(`${size} ${index}`).digest('base64url')}`
    let next = 0
    const others = (count: number) => { while (count-- > 0) memory.admits(tokenOf(next++)) }
    while (memory.admits(tokenOf(next))) memory.set({ token: tokenOf(next++) })
    assert.equal(next, size, 'while there is room')
    const shareAfter = (count: number) => {
      let admitted = 0
      const tries = 40
      for (let time = 0; time < tries; time++) {
        const token = tokenOf(next++)
        memory.admits(token)
        others(count)
        if (memory.admits(token)) admitted++
        // So that tries begin everywhere in a period.
        others(Math.ceil(size / 3))
      }
      return admitted / tries
    }
    assert.ok(shareAfter(size * 8 - 2) > 0.7, `size ${size}: soon enough, but for the few whose place was taken`)
    assert.ok(shareAfter(size * 17) < 0.2, `size ${size}: too late`)
  }
})

// Promise: security/long-valid-tokens
t.test('the memory of tokens never holds more than twice its size', async (t) => {
  const size = 10
  const memory = new TokenMemory<{ token: string }>(size)
  const text = (index: number) => `${index}`.padStart(60, 'x')
  for (let index = 0; index < 1000; index++) {
    // Everything twice, as often as it is worth remembering.
    if (memory.admits(text(index)) || memory.admits(text(index))) memory.set({ token: text(index) })
    assert.deepEqual(memory.get(text(index)), { token: text(index) }, caseOf(index))
  }
  t.ok(Array.from({ length: 1000 }, (_, index) => memory.get(text(index))).filter(Boolean).length <= 2 * size)
})

t.test('what is remembered of one token is nothing to another that ends like it', async (t) => {
  const memory = new TokenMemory<{ token: string }>(10)
  const token = 'a.b.signature-with-the-same-end'
  memory.set({ token })
  t.strictSame(memory.get(token), { token })
  t.equal(memory.get(token.replace('a.b', 'a.c')), undefined)
})
