/** A read of many ended sessions: other work gets its turn meanwhile, and nothing that happens meanwhile is lost. */
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { EndedSessions } from '../../lib/sessions/revocation.ts'
import { mistyped } from '../helper.ts'

const count = 100_000
const sids = Array.from({ length: count }, (_, index) => `${index}`.padStart(22, 'a'))
const rules = { graceMs: 30_000, idleMs: 3_600_000, keepMs: 3_600_000, maxPerUser: 100 }
const reader = { instanceName: 'tokenAuth', log: mistyped<never>({ info () {}, warn () {} }), rules, poll: 60, refuseAfter: null }

/** Reads many ended sessions. @param each called between the parts of the read, with their number */
async function read (t: Test, each: (ended: EndedSessions, parts: number) => void): Promise<{ ended: EndedSessions, parts: number }> {
  const ended = new EndedSessions({ endedSince: async () => ({ ended: sids, cursor: 'read' }) })
  t.teardown(async () => await ended.stop(reader))
  const parts = await turnsUntil(ended.start(reader, 0), (parts) => each(ended, parts))
  return { ended, parts }
}

/** How many turns other work got before `reading` was done; `each` is called in each of them. */
async function turnsUntil (reading: Promise<void>, each: (turns: number) => void = () => {}): Promise<number> {
  let isDone = false
  const done = reading.then(() => { isDone = true })
  let turns = 0
  for (;;) {
    await turn()
    if (isDone) break
    each(++turns)
  }
  await done
  return turns
}

// Promise: databases/very-many-sessions
t.test('other work gets its turn at least after every 10,000 ids', async (t) => {
  const { ended, parts } = await read(t, () => {})
  t.ok(parts >= count / 10_000, `${parts} turns`)
  t.ok(sids.every((sid) => ended.has(sid)))
})

t.test('what ends meanwhile is known at once, and afterwards', async (t) => {
  const added: string[] = []
  const { ended } = await read(t, (ended, parts) => {
    added.push(`own ${parts}`)
    ended.add([`own ${parts}`])
    t.ok(added.every((sid) => ended.has(sid)))
  })
  t.ok(added.length > 1)
  t.ok(added.every((sid) => ended.has(sid)))
})

t.test('a signal that is watched meanwhile aborts when its session turns out to have ended', async (t) => {
  const controllers: AbortController[] = []
  await read(t, (ended) => {
    for (const sid of [sids[0]!, sids[count - 1]!]) {
      const controller = new AbortController()
      controllers.push(controller)
      ended.watch(sid, '1', controller)
    }
  })
  t.ok(controllers.length > 2)
  t.ok(controllers.every(({ signal }) => signal.aborted))
})

t.test('other work gets its turn, too, while the ids of before are kept, which a store has lost', async (t) => {
  let feed: readonly string[] = sids
  const ended = new EndedSessions({ endedSince: async () => ({ ended: [...feed], cursor: 'read' }) })
  t.teardown(async () => await ended.stop(reader))
  await ended.start(reader, 0)
  feed = []
  // One read of 60 is of everything.
  for (let reads = 1; reads < 60; reads++) await ended.read()
  const turns = await turnsUntil(ended.read())
  t.ok(turns >= count / 10_000, `${turns} turns`)
  t.ok(sids.every((sid) => ended.has(sid)))
})
