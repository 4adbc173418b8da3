import t from 'tap'
import { isAlive } from '../../lib/keys/key-ring.ts'

t.test('no clock is asked for a key that has no end: this is asked with every request', async (t) => {
  const { now } = Date
  let asked = 0
  Date.now = () => { asked++; return 1000 }
  t.teardown(() => { Date.now = now })
  t.ok(isAlive({ until: Infinity }, false))
  t.ok(isAlive({ until: Infinity }, true))
  t.equal(asked, 0)
  t.same([isAlive({ until: 1001 }, false), isAlive({ until: 1000 }, false), isAlive({ until: 1000 }, true), isAlive({ until: -Infinity }, true)], [true, false, true, false])
})
