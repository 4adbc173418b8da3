import t from 'tap'
import { memorySessions } from '../../../lib/sessions/stores/memory.ts'
import { sessionStoreTests } from '../../../lib/testing.ts'

t.test('the memory store keeps every rule of the contract of stores', async (t) => {
  for (const { name, run } of sessionStoreTests(memorySessions)) await t.test(name, run)
})
