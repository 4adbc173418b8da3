// @slow
/** The client for browsers, and what pages, storages, clocks and browsers bring along. */
import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { createClient, type ClientOptions, type SignedOutReason, type TokenStorage } from '../lib/client.ts'
import tokenAuth, { memorySessions } from '../lib/index.ts'
import { authenticate, caseOf, now, otherSecret, setClock, users } from './helper.ts'
import { browse, Channel, cookieOptions, later, modes, openTab, service, sharedStorage } from './tabs.ts'

const [ada] = users

/** A tab whose page logs out whenever it is told that nobody is logged in. */
function eagerTab (options: ClientOptions) {
  const reasons: SignedOutReason[] = []
  const logouts: Array<Promise<boolean>> = []
  const client = createClient({
    ...options,
    onSignedOut: (reason) => {
      reasons.push(reason)
      logouts.push(client.logout())
    }
  })
  return { client, reasons, logouts, status: async () => (await client.fetch('/private')).status }
}

/** Lets everything run that waits for nothing but its turn. */
async function settle (): Promise<void> {
  for (let count = 0; count < 200; count++) await turn()
}

for (const [mode, serverOptions, options] of modes) {
  // Promise: sessions/client-logout-loop
  t.test(`mode ${mode}: a page that logs out whenever it is told so is told once, in every tab`, async (t) => {
    const setTime = setClock(t, now())
    const served = await service(t, serverOptions)
    browse(t, served)
    const storage = sharedStorage()
    const tabs = [eagerTab({ ...options, storage }), eagerTab({ ...options, storage }), eagerTab({ ...options, storage })]
    await tabs[0]!.client.login(ada!)
    for (const { status } of tabs) t.equal(await status(), 200)
    served.log.length = 0
    t.equal(await tabs[0]!.client.logout(), true)
    await settle()
    for (const { reasons } of tabs) t.strictSame(reasons, ['logout'])
    t.ok(served.count('POST /auth/logout') <= (mode === 'cookie' ? 4 : 1), `${served.count('POST /auth/logout')} logouts`)

    await tabs[0]!.client.login(ada!)
    for (const { status } of tabs) t.equal(await status(), 200)
    setTime(now() + 365 * 86_400)
    for (const tab of tabs) tab.reasons.length = 0
    served.log.length = 0
    t.equal(await tabs[1]!.status(), 401)
    await settle()
    t.strictSame(tabs[1]!.reasons, ['expired'])
    for (const { reasons } of tabs) t.ok(reasons.length <= 1, caseOf(reasons))
    t.ok(served.count('POST /auth/logout') <= 3)
    const requests = served.log.length
    await settle()
    t.equal(served.log.length, requests, 'and then there is silence')
  })

  t.test(`mode ${mode}: a logout of nobody tells nobody`, async (t) => {
    const served = await service(t, serverOptions)
    browse(t, served)
    const [one, other] = [openTab(options), openTab(options)]
    t.equal(await one.client.load(), null)
    one.reasons.length = 0
    await one.client.logout()
    await one.client.logout()
    t.strictSame([one.reasons, other.reasons], [[], []])
    await one.client.login(ada!)
    await one.client.logout()
    t.strictSame(one.reasons, ['logout'], 'a logout of somebody does')
  })
}

/** Storages that fail, by what fails. */
const failing: Array<[what: string, make: () => TokenStorage & { values: Map<string, string> }]> = [
  ['setItem (quota)', () => ({ ...sharedStorage(), setItem: () => { throw new DOMException('full', 'QuotaExceededError') } })],
  ['getItem (policy)', () => ({ ...sharedStorage(), getItem: () => { throw new DOMException('denied', 'SecurityError') } })],
  ['setItem and removeItem', () => ({ ...sharedStorage(), setItem: () => { throw new Error('full') }, removeItem: () => { throw new Error('denied') } })],
  ['removeItem', () => ({ ...sharedStorage(), removeItem: () => { throw new Error('denied') } })],
  ['all', () => ({ values: new Map(), getItem: () => { throw new Error('denied') }, setItem: () => { throw new Error('denied') }, removeItem: () => { throw new Error('denied') } })]
]

// Promise: sessions/client-storage
t.test('in header mode a storage that throws is replaced by memory: the login goes on, and can be ended', async (t) => {
  for (const [what, make] of failing) {
    const setTime = setClock(t, now())
    const served = await service(t)
    browse(t, served)
    const { client, reasons, status } = openTab({ mode: 'header', storage: make() })
    assert.equal((await client.login(ada!)).status, 200, what)
    assert.equal(await status(), 200, what)
    setTime(now() + later)
    assert.equal(await status(), 200, `${what}: after a renewal`)
    assert.equal(await client.logout(), true, what)
    assert.deepEqual([...reasons], ['logout'], what)
    assert.deepEqual([await status(), (await served.app.tokenAuth.sessions.list(1)).length], [401, 0], what)
  }
})

t.test('in header mode tokens that cannot be replaced in a storage are removed from it: the service would take them for stolen ones', async (t) => {
  const setTime = setClock(t, now())
  const served = await service(t)
  browse(t, served)
  const storage = sharedStorage()
  const { client, status } = openTab({ mode: 'header', storage })
  await client.login(ada!)
  storage.setItem = () => { throw new DOMException('full', 'QuotaExceededError') }
  setTime(now() + later)
  t.equal(await status(), 200)
  t.equal(storage.values.size, 0)
  t.equal(await status(), 200)
})

t.test('in header mode tokens that somebody else has removed are no logout of before', async (t) => {
  const served = await service(t)
  browse(t, served)
  const storage = sharedStorage()
  const { client, reasons, status } = openTab({ mode: 'header', storage })
  const setTime = setClock(t, now())
  await client.login(ada!)
  await client.logout()
  setTime(now() + 1)
  await client.login(ada!)
  storage.values.clear()
  t.equal(await status(), 401)
  t.strictSame(reasons, ['logout', 'absent'])
})

t.test('in header mode a login whose response has no access token ends its session', async (t) => {
  const served = await service(t, { accessTokenName: 'other' })
  browse(t, served)
  const { client } = openTab({ mode: 'header' })
  await t.rejects(client.login(ada!), { message: 'The response has no "access_token".' })
  while ((await served.app.tokenAuth.sessions.list(1)).length > 0) await turn()
  t.equal(served.count('POST /auth/logout'), 1)
})

// Promise: sessions/client-clock
t.test('in header mode tabs compare which login has ended, whatever became of the clock', async (t) => {
  for (const shift of [-7200, 7200, -365 * 86_400]) {
    const setTime = setClock(t, now())
    const served = await service(t)
    browse(t, served)
    const storage = sharedStorage()
    const [one, other] = [openTab({ mode: 'header', storage }), openTab({ mode: 'header', storage })]
    await one.client.login(ada!)
    assert.equal(await other.status(), 200)
    other.client.subscribe(() => {})
    assert.deepEqual(await other.client.load(), { user_id: 1 }, caseOf(shift))
    setTime(now() + shift)
    await one.client.logout()
    assert.deepEqual([other.reasons, other.client.user], [['logout'], null], caseOf(shift))

    // The message of a logout that a tab gets late, after another login.
    await one.client.login(ada!)
    other.reasons.length = 0
    assert.equal(await other.status(), 200)
    new Channel(Channel.open[0]!.name).postMessage(['logout', 5, now() * 1000 + 1e9])
    assert.deepEqual(other.reasons, [], caseOf(shift))
    assert.equal(await other.status(), 200)
    Channel.open = []
  }
})

// Promise: sessions/client-rejected-cookies
t.test('in cookie mode a login whose cookies the browser rejects says so, and ends its session by the token of the body', async (t) => {
  for (const tokensInBody of [true, false]) {
    for (const cookieStrict of [true, false]) {
      const served = await service(t, { ...cookieOptions, tokensInBody, cookieStrict })
      browse(t, served, { keepsCookies: false })
      const { client } = openTab()
      await t.rejects(client.login(ada!), { message: /^The browser rejected the cookies of the login\./ })
      t.equal(client.user, undefined, 'it shows nobody')
      if (tokensInBody) while ((await served.app.tokenAuth.sessions.list(1)).length > 0) await turn()
      t.equal(served.count('POST /auth/logout'), tokensInBody ? 1 : 0)
      t.equal(await client.logout(), false, 'the session may be there')
    }
  }
  const shown = await service(t, cookieOptions)
  browse(t, shown, { keepsCookies: false })
  const { client } = openTab()
  t.equal(await client.load(), null)
  await t.rejects(client.login(ada!))
  t.equal(client.user, null)
  const plain = await service(t, { cookieSet: true, sessions: undefined })
  browse(t, plain, { keepsCookies: false })
  await t.rejects(openTab().client.login(ada!), { message: /rejected the cookies/ }, 'a service without sessions')
})

t.test('in cookie mode a login is none of a browser that rejects cookies where the service cannot say who is logged in, or somebody logs out meanwhile', async (t) => {
  const served = await service(t, cookieOptions)
  browse(t, served)
  const { client } = openTab()
  served.broken.set('/auth/me', () => new Response('down', { status: 404 }))
  t.equal((await client.login(ada!)).status, 200)
  served.broken.clear()
  const other = openTab()
  served.broken.set('/auth/me', async () => {
    served.broken.clear()
    await other.client.logout()
    return Response.json({ me: null, id: null, reason: 'absent' })
  })
  t.equal((await client.login(ada!)).status, 200)
  t.equal(await client.load(), null)
})

// Reported of other libraries: Flyrell/axios-auth-refresh#210.
t.test('two clients in one page, of two services, renew and log out on their own', async (t) => {
  for (const [mode, serverOptions, options] of modes) {
    const setTime = setClock(t, now())
    const served = await service(t, serverOptions, (app) => {
      app.register(async (context) => {
        const cookies = mode === 'cookie' ? { cookieSet: true, tokensInBody: false, cookieAccessTokenName: 'staff_access', cookieRefreshTokenName: 'staff_refresh' } : {}
        await context.register(tokenAuth, { ...cookies, instanceName: 'staff', urlPrefix: '/staff', secret: otherSecret, authenticate, sessions: { store: memorySessions() } })
        context.get('/wages', { onRequest: context.staff.protect() }, async () => 'wages')
      })
    })
    browse(t, served)
    const storage = sharedStorage()
    const [shop, staff] = [openTab({ ...options, storage }), openTab({ ...options, storage, prefix: '/staff' })]
    await shop.client.login(ada!)
    await staff.client.login(ada!)
    setTime(now() + later)
    assert.deepEqual(await Promise.all([shop.status(), staff.status('/wages'), shop.status(), staff.status('/wages')]), [200, 200, 200, 200], mode)
    assert.equal(await staff.client.logout(), true)
    await settle()
    assert.deepEqual([shop.reasons, staff.reasons], [[], ['logout']], mode)
    assert.deepEqual([await shop.status(), await staff.status('/wages')], [200, 401], mode)
  }
})
