/** A token that no client can have received confirms nothing, whoever uses it in this process. */
import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { Responses, type ReceivedGeneration, type TokenAuthOptions } from '../../lib/index.ts'
import { isUnsent, noteIssued, noteSent } from '../../lib/sessions/unsent.ts'
import { bearer, build, caseOf, holdTimers, setClock, together, users } from '../helper.ts'
import { cookiesOf, refresh, started, withSessions } from './helper.ts'

const noon = 1_800_000_000
const poll = 7
const navigation = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', 'sec-fetch-site': 'none' }

/** An application, and what its store was told. */
async function telling (t: Test, options: Partial<TokenAuthOptions>) {
  const expire = holdTimers(t, poll * 1000)
  const { app, store } = await withSessions(t, together({ cookieSet: true, cookieStrict: false, retrieveUser: async () => users[0]!, sessions: { poll } }, options))
  const told: ReceivedGeneration[] = []
  const confirm = store.confirm.bind(store)
  store.confirm = async (received, rules) => {
    told.push(...received)
    await confirm(received, rules)
  }
  const pollOnce = async () => {
    expire()
    for (let turns = 0; turns < 10; turns++) await turn()
  }
  return { app, told, pollOnce, other: await build(t, { authMode: false, sessions: { store, poll } }) }
}

/** What uses a token in the process that has issued it. */
const uses: Record<string, (app: FastifyInstance, other: FastifyInstance, token: string) => unknown> = {
  verifyToken: (app, _other, token) => app.tokenAuth.verifyToken(token),
  'a request of the application to itself': (app, _other, token) => app.inject({ url: '/', headers: bearer(token) }),
  'another instance': (_app, other, token) => other.tokenAuth.verifyToken(token)
}

// Promise: sessions/token-unsent-confirms
t.test('a token that is used before its answer is sent confirms nothing, so that a client that loses the answer goes on; used after it was sent, it does', async (t) => {
  for (const [name, use] of Object.entries(uses)) {
    for (const isPage of [true, false]) {
      for (const isUsedLater of [true, false]) {
        const setTime = setClock(t, noon)
        let used = 0
        let act: (token: string) => unknown = () => {}
        class Using extends Responses {
          override async extendRefresh (_request: unknown, { accessToken }: { accessToken: string }) {
            await act(accessToken)
            return {}
          }
        }
        const { app, told, pollOnce, other } = await telling(t, { responsesClass: Using })
        act = async (token) => {
          used++
          await use(app, other, token)
          await pollOnce()
        }
        app.get('/page', { onRequest: app.tokenAuth.protect({ renew: true }) }, async ({ tokenAuth: { token } }) => { await act(token ?? '') })
        const { refresh_token: presented } = await started(app)
        const headers = { ...navigation, cookie: `refresh_token=${presented}` }
        const answer = isPage ? await app.inject({ url: '/page', headers }) : await refresh(app, presented)
        const label = caseOf([name, isPage, isUsedLater])
        assert.equal(answer.statusCode, 200, label)
        assert.equal(used, 1, label)
        assert.deepEqual(told, [], label)
        const token = cookiesOf(answer).find((field) => field.startsWith('access_token='))!.slice('access_token='.length)
        if (isUsedLater) await act(token)
        await pollOnce()
        assert.deepEqual(told.map(({ n }) => n), isUsedLater ? [0] : [], label)
        setTime(noon + 1000)
        assert.equal((await refresh(app, presented)).statusCode, isUsedLater ? 401 : 200, label)
        await app.close()
        await other.close()
      }
    }
  }
})

t.test('a token whose answer a hook of the application has replaced, or whose cookies are left out, was not sent', async (t) => {
  const setTime = setClock(t, noon)
  const { app, told, pollOnce } = await telling(t, {})
  let isFailing = false
  const issued: string[] = []
  app.addHook('preSerialization', async (_request, _reply, payload) => {
    const { access_token: token } = Object(payload)
    if (token === undefined || !isFailing) return payload
    issued.push(token)
    throw new Error('a hook that fails')
  })
  app.get('/late', { onRequest: app.tokenAuth.protect({ renew: true }) }, async ({ tokenAuth: { token } }) => {
    issued.push(token ?? '')
    // Other requests of the browser, with other access tokens, the last one after the window.
    setTime(noon + 1)
    const { refresh_token: next } = (await refresh(app, presented)).json()
    setTime(noon + 100)
    assert.equal((await refresh(app, next)).statusCode, 200)
  })
  const { refresh_token: first } = await started(app)
  isFailing = true
  t.equal((await refresh(app, first)).statusCode, 500)
  isFailing = false
  const { refresh_token: presented } = await started(app)
  t.equal((await app.inject({ url: '/late', headers: { ...navigation, cookie: `refresh_token=${presented}` } })).statusCode, 200)
  for (const token of issued) await app.tokenAuth.verifyToken(token)
  await pollOnce()
  t.equal(issued.length, 2)
  t.same(told, [])
})

t.test('a token that an application sends after an asynchronous hook of its own confirms, once it was sent', async (t) => {
  const { app, told, pollOnce } = await telling(t, {})
  app.addHook('onSend', async (_request, _reply, payload) => {
    const { access_token: token } = JSON.parse(String(payload))
    await app.tokenAuth.verifyToken(token)
    await pollOnce()
    return payload
  })
  const { refresh_token: presented } = await started(app)
  const answer = await refresh(app, presented)
  t.same(told, [])
  await app.tokenAuth.verifyToken(answer.json().access_token)
  await pollOnce()
  t.same(told.map(({ n }) => n), [0])
})

// Promise: sessions/token-unsent-confirms
t.test('two pages of one second, whose renewed tokens are the same text, confirm nothing where both answers are lost', async (t) => {
  const setTime = setClock(t, noon)
  const { app, told, pollOnce } = await telling(t, {})
  app.get('/page', { onRequest: app.tokenAuth.protect({ renew: true }) }, async ({ tokenAuth: { token } }) => token)
  const { refresh_token: presented } = await started(app)
  const view = async () => await app.inject({ url: '/page', headers: { ...navigation, cookie: `refresh_token=${presented}` } })
  const [first, second] = [await view(), await view()]
  t.equal(first.body, second.body)
  await pollOnce()
  t.same(told, [])
  setTime(noon + 1000)
  t.equal((await view()).statusCode, 200)
})

t.test('a text that two answers of one second carry was sent when one of them was', async (t) => {
  noteIssued('a.b.1')
  t.equal(isUnsent('a.b.1'), true)
  noteSent('a.b.1')
  noteIssued('a.b.1')
  t.equal(isUnsent('a.b.1'), false)
  t.equal(isUnsent('a.b.2'), false)
})
