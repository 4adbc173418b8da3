import t, { type Test } from 'tap'
import { WatchedControllers } from '../lib/watched-controllers.ts'

/** Takes the place of the registries that are made until the test ends. @returns collects an object, as far as the registries know */
function collecting (t: Test): (target: object) => void {
  const collect = new Map<object, () => void>()
  t.intercept(globalThis, 'FinalizationRegistry', {
    value: class {
      readonly #callback: (held: unknown) => void
      constructor (callback: (held: unknown) => void) { this.#callback = callback }
      register (target: object, held: unknown): void { collect.set(target, () => this.#callback(held)) }
    }
  })
  return (target) => { collect.get(target)?.() }
}

t.test('a controller that was collected is forgotten, and the others of its key are not', async (t) => {
  const collect = collecting(t)
  const watched = new WatchedControllers<string>()
  const [first, second, other, last] = [new AbortController(), new AbortController(), new AbortController(), new AbortController()]
  for (const controller of [first, second]) watched.add('a', controller)
  watched.add('b', other)
  collect(first)
  collect(other)
  for (const key of ['a', 'b', 'c']) watched.abort(key, () => new Error(`${key} has ended`))
  t.same([first, second, other].map(({ signal }) => signal.aborted), [false, true, false])
  t.match(second.signal.reason, { message: 'a has ended' })

  // What was aborted may be collected afterwards, and its key may be in use again.
  watched.add('a', last)
  collect(second)
  watched.abort('a', () => new Error('again'))
  t.equal(last.signal.aborted, true)
})

t.test('each controller gets a reason of its own', async (t) => {
  const watched = new WatchedControllers<string>()
  const controllers = [new AbortController(), new AbortController()]
  for (const controller of controllers) watched.add('a', controller)
  watched.abort('a', () => new Error('ended'))
  t.equal(new Set(controllers.map(({ signal }) => signal.reason)).size, 2)
})
