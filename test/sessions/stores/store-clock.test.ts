import t from 'tap'
import { StoreClock } from '../../../lib/sessions/stores/store-clock.ts'

t.test('how long ago a time of the server was is known after its first answer, and never negative', async (t) => {
  const clock = new StoreClock()
  t.equal(clock.age(1000), Infinity)
  t.equal(clock.deadline(performance.now()), 0)
  clock.learn(NaN)
  t.equal(clock.age(1000), Infinity, 'no answer of a server')
  clock.learn(5000)
  t.ok(clock.age(1000) >= 4000)
  t.equal(clock.age(5_000_000_000), 0)
  t.equal(clock.age(NaN), Infinity, 'what is no time is never recent')
  t.ok(clock.deadline(performance.now()) > 5000)
})
