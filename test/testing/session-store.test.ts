// @waits @slow
import t from 'tap'
import { sessionStoreTests, type SessionStoreTestOptions } from '../../lib/testing.ts'
import { brokenStores, interrupt, RemoteStore, SlowStore, TableStore } from '../fixtures/broken-stores.ts'

const options: SessionStoreTestOptions = { clock: 'server', interrupt }
const namesOf = (options: SessionStoreTestOptions) => sessionStoreTests(() => new TableStore(), options).map(({ name }) => name)
const names = namesOf(options)

t.test('there is a test for each of the 34 rules, and each of them notices a broken store', async (t) => {
  t.equal(names.length, 34)
  t.same(namesOf({ clock: 'server' }), names.filter((name) => !name.includes('cannot be reached')), 'without "interrupt", nothing says that it was tested')
  t.equal(new Set(names).size, 34)
  t.same(new Set(Object.values(brokenStores).map(({ noticedBy }) => noticedBy)), new Set(names))
})

t.test('a store that keeps all rules passes', async (t) => {
  for (const { name, run } of sessionStoreTests(() => new RemoteStore(), options)) await t.resolves(run(), name)
})

t.test('a store that keeps all rules passes, however slow it is at times', { timeout: 120_000 }, async (t) => {
  await Promise.all(sessionStoreTests(async () => new SlowStore()).map(({ name, run }) => t.resolves(run(), name)))
})

t.test('a store that breaks a rule is noticed', async (t) => {
  for (const [fault, { make: Store, noticedBy }] of Object.entries(brokenStores)) {
    const test = sessionStoreTests(() => new Store(), { concurrency: 10, ...options }).find(({ name }) => name === noticedBy)
    if (test === undefined) throw new Error(`there is no rule "${noticedBy}"`)
    await t.rejects(test.run(), { code: 'ERR_ASSERTION' }, `a store that ${fault}`)
  }
})

t.test('a wrong outcome is shown with the calls that led to it', async (t) => {
  class Forgetful extends TableStore {
    override async advance (...given: Parameters<TableStore['advance']>): ReturnType<TableStore['advance']> {
      const answer = await super.advance(...given)
      return answer.outcome === 'repeated' ? { ...answer, outcome: 'unknown' } : answer
    }
  }
  const messages: string[] = []
  for (const { run } of sessionStoreTests(() => new Forgetful(), options)) await run().catch(({ message }: Error) => { messages.push(message) })
  t.match(messages.find((message) => message.startsWith('the outcome of')), /^the outcome of \d, which must be "repeated", is "unknown". Last calls for this session: advance of \d with graceMs \d+: \w+ \d; /)
})

t.test('the clock of this process is right after the tests', async (t) => {
  const { Date: before } = globalThis
  const [test] = sessionStoreTests(() => new TableStore(), options)
  await test?.run()
  t.equal(globalThis.Date, before)
})
