import assert from 'node:assert/strict'
import t from 'tap'
import { areSameToken, randomRefreshToken } from '../../lib/issuing/refresh-token.ts'

// Promise: specification/refresh-token
t.test('a refresh token is 256 random bits, and only an equal one is the same', async (t) => {
  const tokens = new Set(Array.from({ length: 1000 }, randomRefreshToken))
  t.equal(tokens.size, 1000)
  for (const token of tokens) assert.match(token, /^[\w-]{43}$/, token)
  const [token = ''] = tokens
  t.ok(areSameToken(token, `${token}`))
  t.ok(areSameToken('Ἀδα', 'Ἀδα'))
  for (const other of ['', token.slice(1), `${token} `, `${token}\0`, `${token[0] === 'x' ? 'y' : 'x'}${token.slice(1)}`, 'x'.repeat(1_000_000)]) {
    assert.ok(!areSameToken(token, other), other)
    assert.ok(!areSameToken(other, token), other)
  }
})
