// @alone
/** `fastify.tokenAuth.storeStatus`: whether a process knows which sessions have ended. */
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { memorySessions, type SessionFeed, type StoreStatus } from '../../lib/index.ts'
import { retryTime, startTime } from '../../lib/sessions/revocation.ts'
import { build, holdTimers, setClock, together } from '../helper.ts'
import { withSessions } from './helper.ts'

const noon = 1_800_000_000
/** In seconds. Its own, so that the test can hold the timers. */
const poll = 7
const statusAt = (state: StoreStatus['state'], seconds: number, error: string | null = null) => ({ state, since: new Date(seconds * 1000), error })

/** Lets the timers of the polls expire, and waits for what they read. */
function polling (t: Test): () => Promise<void> {
  const expire = holdTimers(t, poll * 1000)
  return async () => {
    expire()
    for (let turns = 0; turns < 10; turns++) await turn()
  }
}

// Promise: sessions/store-status
t.test('it is starting until the first good read, stale while reads fail, and says since when and why', async (t) => {
  const setTime = setClock(t, noon)
  const expire = polling(t)
  const { app, store } = await withSessions(t, { sessions: { poll } })
  const { tokenAuth } = app
  t.same(tokenAuth.storeStatus(), statusAt('starting', noon))
  setTime(noon + 1)
  await app.ready()
  t.same(tokenAuth.storeStatus(), statusAt('fresh', noon + 1))
  setTime(noon + 8)
  await expire()
  t.same(tokenAuth.storeStatus(), statusAt('fresh', noon + 1))
  store.fail(new Error('connect ECONNREFUSED'))
  setTime(noon + 15)
  await expire()
  t.same(tokenAuth.storeStatus(), statusAt('stale', noon + 15, 'connect ECONNREFUSED'))
  store.fail(new Error('another reason'))
  setTime(noon + 22)
  await expire()
  t.same(tokenAuth.storeStatus(), statusAt('stale', noon + 15, 'another reason'))
  store.instead = { endedSince: () => Promise.resolve({ ended: 1 }) }
  await expire()
  t.match(tokenAuth.storeStatus().error, /^sessions\.store\.endedSince must return/)
  store.instead = { endedSince: () => Promise.resolve({ ended: [], cursor: '', staleFor: 5000 }) }
  await expire()
  t.match(tokenAuth.storeStatus(), { state: 'stale', error: 'A part of the ended sessions could not be read: the store answered with "staleFor".' })
  store.instead = { endedSince: () => Promise.resolve({ ended: [], cursor: '', staleFor: 5000, reason: null }) }
  setTime(noon + 29)
  await expire()
  t.same(tokenAuth.storeStatus(), statusAt('fresh', noon + 29), 'a replica that follows')
})

t.test('a process that starts while the store is away is starting, with the error, until it has read the store', async (t) => {
  setClock(t, noon)
  const expire = polling(t)
  const [patience, pause] = [holdTimers(t, startTime), holdTimers(t, retryTime)]
  const { app, store } = await withSessions(t, { sessions: { poll } })
  store.fail(new Error('down'))
  const ready = app.ready()
  for (let turns = 0; turns < 20; turns++) await turn()
  t.same(app.tokenAuth.storeStatus(), statusAt('starting', noon, 'down'))
  patience()
  await ready
  pause()
  t.same(app.tokenAuth.storeStatus(), statusAt('starting', noon, 'down'))
  store.fail(null)
  await expire()
  t.match(app.tokenAuth.storeStatus(), { state: 'fresh', error: null })
})

t.test('an instance that only verifies speaks of its feed; without sessions it is fresh since the registration', async (t) => {
  const setTime = setClock(t, noon)
  const feed: SessionFeed = memorySessions()
  const verifier = await build(t, together({ authMode: false, sessions: { store: feed } }))
  t.match(verifier.tokenAuth.storeStatus(), { state: 'starting' })
  await verifier.ready()
  t.match(verifier.tokenAuth.storeStatus(), { state: 'fresh' })
  const plain = await build(t)
  setTime(noon + 60)
  t.same(plain.tokenAuth.storeStatus(), statusAt('fresh', noon))
})

t.test('what it returns is a copy', async (t) => {
  for (const options of [{}, { sessions: {} }]) {
    const { tokenAuth } = await build(t, options)
    const status = tokenAuth.storeStatus()
    status.since.setTime(0)
    status.state = 'stale'
    t.not(tokenAuth.storeStatus().since.getTime(), 0)
    t.not(tokenAuth.storeStatus().state, 'stale')
  }
})
