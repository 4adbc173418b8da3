// @alone @waits @slow
/** The state of the client for browsers: `user`, `subscribe`, `load` and `token`, and what tabs, Back and servers do to it. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { getEventListeners } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { createClient, type Client, type ClientOptions, type SignedOutReason } from '../../lib/client.ts'
import type { TokenAuthOptions } from '../../lib/index.ts'
import { caseOf, mistyped, now, setClock, together, users } from '../helper.ts'
import {
  browse, Channel, cookieOptions, disconnected, expiredTab, later, modes, openTab, origin, question, refresh, script, service, settled, sharedStorage, unavailable
} from '../tabs.ts'

const [ada, grace] = users
/** Replaces a global until the test ends. */
function replace (t: Test, name: string, value: unknown): void {
  const before = Object.getOwnPropertyDescriptor(globalThis, name)
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true })
  t.teardown(() => before === undefined ? Reflect.deleteProperty(globalThis, name) : Object.defineProperty(globalThis, name, before))
}

/** The events of a page. */
function watchEvents (t: Test): EventTarget {
  const target = new EventTarget()
  replace(t, 'addEventListener', target.addEventListener.bind(target))
  return target
}

const persisted = () => Object.assign(new Event('pageshow'), { persisted: true })

/** The uncaught errors of the page, which must not end the process. */
function uncaught (t: Test): unknown[] {
  const errors: unknown[] = []
  const { setTimeout: set } = globalThis
  replace(t, 'setTimeout', (callback: () => void, after: number | undefined, ...given: unknown[]) => after === undefined
    ? set(() => { try { callback() } catch (error) { errors.push(error) } })
    : Reflect.apply(set, undefined, [callback, after, ...given]))
  return errors
}

/** What happens to a client, in order. */
function observe (options: ClientOptions = {}) {
  const seen: unknown[] = []
  const client: Client<{ user_id: number, username?: string }> = createClient({ ...options, onSignedOut: (reason: SignedOutReason) => { seen.push(reason) } })
  const unsubscribe = client.subscribe(() => { seen.push(client.user && (client.user.username ?? client.user.user_id)) })
  return { client, seen, unsubscribe }
}

const until = async (condition: () => boolean): Promise<void> => { while (!condition()) await turn() }

async function opened (t: Test, serverOptions: Partial<TokenAuthOptions>) {
  const setTime = setClock(t, now())
  const served = await service(t, serverOptions)
  return { setTime, served, ...browse(t, served) }
}

for (const [mode, serverOptions, options] of modes) {
  t.test(`mode ${mode}: the first subscription asks who is logged in; a login, a logout and a change of the user are told, and nothing else`, async (t) => {
    let name = 'ada'
    const { served } = await opened(t, together(serverOptions, { retrieveUser: async () => ({ user_id: 1, username: name }) }))
    const { client, seen, unsubscribe } = observe(options)
    t.equal(client.user, undefined)
    t.equal(await client.load(), null)
    t.strictSame(seen.splice(0), [null, 'absent'], 'first `user`, then subscribers, then `onSignedOut`')
    t.equal(served.count(question), mode === 'cookie' ? 1 : 0)
    t.equal((await client.login(ada!)).status, 200)
    t.strictSame([seen.splice(0), client.user], [['ada'], { user_id: 1, username: 'ada' }], 'it is known when the login resolves')
    const { user } = client
    t.equal(await client.load(), user)
    t.equal(client.user, user, 'the same object')
    t.strictSame(seen, [])
    name = 'ada l.'
    await client.load()
    t.strictSame([seen.splice(0), client.user], [['ada l.'], { user_id: 1, username: 'ada l.' }])
    await client.logout()
    t.strictSame([seen.splice(0), client.user], [[null, 'logout'], null])
    unsubscribe()
    await client.login(ada!)
    t.strictSame([seen, client.user?.username], [[], 'ada l.'])
  })

  t.test(`mode ${mode}: a function that subscribes twice is called until both subscriptions have ended; one that ends in a call is not called again`, async (t) => {
    await opened(t, serverOptions)
    const { client } = openTab(options)
    let calls = 0
    const count = () => { calls++ }
    const first = client.subscribe(count)
    const second = client.subscribe(count)
    await client.load()
    t.equal(calls, 2)
    first()
    const own = client.subscribe(() => { own(); client.subscribe(count) })
    await client.login(ada!)
    t.equal(calls, 3)
    second()
    await client.logout()
    t.equal(calls, 4, 'the subscription that was made in a call')
  })

  t.test(`mode ${mode}: a client that shows no user asks after a login only where the browser may have rejected cookies`, async (t) => {
    const { served } = await opened(t, serverOptions)
    const { client } = openTab(options)
    await client.login(ada!)
    if (mode === 'header') t.strictSame([client.user, served.log], [undefined, ['POST /auth']])
    else t.strictSame(served.log, ['POST /auth', 'GET /auth/me?optional=true'])
  })

  t.test(`mode ${mode}: load renews, rejects if the service does not say, and leaves the user as it was`, async (t) => {
    const { served, setTime, release, client } = await expiredTab(t, serverOptions, options)
    t.match(await client.load(), { user_id: 1 })
    t.equal(served.renewals(), 1)
    const { user } = client
    served.broken.set('/auth/me', unavailable())
    await t.rejects(settled(client.load(), release), { message: 'It is not known who is logged in.' })
    served.broken.set('/auth/me', () => new Response('<p>Log in to the network</p>'))
    await t.rejects(client.load(), { message: 'It is not known who is logged in.' })
    served.broken.set('/auth/me', disconnected)
    await t.rejects(settled(client.load(), release), TypeError)
    t.equal(client.user, user)
    served.broken.clear()
    setTime(now() + later)
    t.equal(await client.load(), user)
  })

  t.test(`mode ${mode}: token() resolves to an access token that is valid in header mode, and to null otherwise`, async (t) => {
    const { setTime, served } = await opened(t, serverOptions)
    const { client } = openTab(options)
    t.equal(await client.token(), null)
    await client.login(ada!)
    setTime(now() + later)
    const token = await client.token()
    if (mode === 'cookie') t.equal(token, null)
    else t.match(served.app.tokenAuth.verifyToken(String(token)), { user_id: 1 })
  })

  t.test(`mode ${mode}: the methods need no \`this\``, async (t) => {
    await opened(t, serverOptions)
    const { login, logout, fetch, load, token, subscribe, close } = createClient(options)
    await login(ada!)
    t.match(await load(), { user_id: 1 })
    t.equal((await fetch('/private')).status, 200)
    t.equal(typeof await token(), mode === 'cookie' ? 'object' : 'string')
    subscribe(() => {})()
    t.equal(await logout(), true)
    close()
  })

  t.test(`mode ${mode}: what a subscriber and \`onSignedOut\` throw is an uncaught error of the page, and changes no result`, async (t) => {
    await opened(t, serverOptions)
    const errors = uncaught(t)
    const client = createClient({ ...options, onSignedOut: () => { throw new Error('of onSignedOut') } })
    client.subscribe(() => { throw new Error('of a subscriber') })
    let calls = 0
    client.subscribe(() => { calls++ })
    t.equal(await client.load(), null)
    t.equal((await client.login(ada!)).status, 200)
    t.equal(await client.logout(), true)
    await until(() => errors.length === 5)
    t.strictSame(errors.map((error) => error instanceof Error && error.message), ['of a subscriber', 'of onSignedOut', 'of a subscriber', 'of a subscriber', 'of onSignedOut'])
    t.equal(calls, 3)
  })

  t.test(`mode ${mode}: 50 requests at expiry make ${mode === 'cookie' ? 'one request' : 'two requests'} more, 100 without a login one question at most and one call of \`onSignedOut\``, async (t) => {
    const { served, setTime } = await opened(t, serverOptions)
    const { client, reasons, status } = openTab(options)
    t.strictSame(await Promise.all(Array.from({ length: 100 }, () => status())), Array(100).fill(401))
    t.equal(served.log.length, mode === 'cookie' ? 101 : 100)
    t.strictSame(reasons, ['absent'])
    await client.login(ada!)
    setTime(now() + later)
    served.log.length = 0
    t.strictSame(await Promise.all(Array.from({ length: 50 }, () => status())), Array(50).fill(200))
    t.equal(served.log.length, 100 + (mode === 'cookie' ? 1 : 2))
  })

  t.test(`mode ${mode}: a renewal leaves no listener on a signal`, async (t) => {
    const { served, setTime } = await opened(t, serverOptions)
    const { client } = openTab(options)
    await client.login(ada!)
    const { signal } = new AbortController()
    // That of the fake adds listeners of its own.
    const request = globalThis.fetch
    replace(t, 'fetch', async (input: URL, { signal: _signal, ...init }: RequestInit) => await request(input, init))
    for (let count = 1; count <= 100; count++) {
      setTime(now() + later)
      assert.equal((await client.fetch('/private', { signal })).status, 200, caseOf(count))
      assert.equal(served.renewals(), count, caseOf(count))
    }
    t.equal(getEventListeners(signal, 'abort').length, 0)
  })

  t.test(`mode ${mode}: Back to a page of somebody who is logged out says so again at once; otherwise it asks`, async (t) => {
    const events = watchEvents(t)
    const { served } = await opened(t, serverOptions)
    const { client, seen } = observe(options)
    await client.login(ada!)
    const asked = served.count(question)
    events.dispatchEvent(Object.assign(new Event('pageshow'), { persisted: false }))
    t.equal(served.count(question), asked, 'a page that was loaded')
    events.dispatchEvent(persisted())
    await until(() => served.count(question) === asked + 1)
    await client.logout()
    seen.length = 0
    events.dispatchEvent(persisted())
    t.strictSame(seen, ['logout'])
    t.equal(served.count(question), asked + 1)
  })

  t.test(`mode ${mode}: a client that is closed has no listeners, and tells its subscribers nothing`, async (t) => {
    const events = watchEvents(t)
    await opened(t, serverOptions)
    const { client, seen } = observe(options)
    await client.login(ada!)
    t.strictSame(['pageshow', 'storage'].map((type) => getEventListeners(events, type).length), [1, 1])
    client.close()
    seen.length = 0
    t.strictSame(['pageshow', 'storage'].map((type) => getEventListeners(events, type).length), [0, 0])
    await client.logout()
    t.strictSame(seen, [])
  })

  t.test(`mode ${mode}: login does not fail where the service does not say who it is; whoever was shown is not shown any more`, async (t) => {
    const { served, release, client } = await expiredTab(t, serverOptions, options)
    await client.load()
    served.broken.set('/auth/me', unavailable())
    t.equal((await settled(client.login(grace!), release)).status, 200)
    t.equal(client.user, undefined)
    served.broken.clear()
    t.match(await client.load(), { user_id: 2 })
  })

  t.test(`mode ${mode}: without a BroadcastChannel, a tab acts alone`, async (t) => {
    await opened(t, serverOptions)
    replace(t, 'BroadcastChannel', class { constructor () { throw new Error('SecurityError') } })
    const { client, reasons, status } = openTab(options)
    await client.login(ada!)
    t.equal(await status(), 200)
    t.equal(await client.logout(), true)
    t.strictSame(reasons, ['logout'])
    client.close()
  })

  t.test(`mode ${mode}: from a service without sessions comes the user, or that nobody is logged in`, async (t) => {
    const { setTime } = await opened(t, together(serverOptions, mistyped({ sessions: undefined })))
    const { client, reasons } = openTab(options)
    await client.login(ada!)
    t.match(await client.load(), { user_id: 1 })
    setTime(now() + later)
    t.equal(await client.load(), null)
    t.strictSame(reasons, [], 'it has no refresh tokens')
  })

  t.test(`mode ${mode}: where a service does not say who is logged in, because it has no sessions, no such endpoint or too many requests, the refresh endpoint says it`, async (t) => {
    const { served, setTime } = await opened(t, serverOptions)
    const { client, reasons, status } = openTab(options)
    await client.login(ada!)
    setTime(now() + later)
    const answers: Record<string, Response> = { 401: new Response('{"error":"ExpiredToken"}', { status: 401 }), 404: new Response('', { status: 404 }), 429: new Response('', { status: 429 }) }
    for (const response of Object.values(answers)) {
      served.broken.set('/auth/me', () => response)
      assert.equal(await status(), 200)
      setTime(now() + later)
    }
    t.equal(served.count(refresh), 3)
    await served.app.tokenAuth.sessions.endAll(1)
    t.equal(await status(), 401)
    t.strictSame(reasons, ['expired'])
  })
}

for (const [mode, serverOptions, options] of modes) {
  t.test(`mode ${mode}: without sessions, the refusal of a refresh says whether there was a refresh token`, async (t) => {
    const { served, client, reasons, status } = await expiredTab(t, serverOptions, options)
    served.broken.set('/auth/me', () => new Response('{}', { status: 401 }))
    served.broken.set('/auth/refresh', () => new Response('{}', { status: 400 }))
    // In header mode, the client has sent one: the service expects another name, for example.
    t.equal(await status(), mode === 'cookie' ? 401 : 400)
    t.strictSame(reasons.splice(0), mode === 'cookie' ? ['absent'] : [])
    for (const [body, reason] of [['{"exception":"MissingAuthorizationCookie"}', 'absent'], ['{"code":"TOKEN_AUTH_MISSING_AUTHORIZATION_COOKIE"}', 'absent'], ['{"reasons":"A claim is missing."}', 'expired']]) {
      if (mode === 'header') await client.login(ada!)
      served.broken.set('/auth/refresh', () => new Response(body, { status: 401 }))
      served.broken.set('/private', () => new Response('{}', { status: 401 }))
      assert.equal(await status(), 401, caseOf(body))
      assert.deepEqual(reasons.splice(0), [reason], caseOf(body))
    }
  })
}

/** Tabs of one browser that show their users, with the `storage` events that other tabs get in header mode. */
function showingTabs (events: readonly EventTarget[], options: ClientOptions) {
  const shared = sharedStorage()
  const tell = (index: number, key: string, oldValue: string | null, newValue: string | null) => {
    for (const [other, target] of events.entries()) if (other !== index) target.dispatchEvent(Object.assign(new Event('storage'), { key, oldValue, newValue }))
  }
  return events.map((target, index) => {
    Object.assign(globalThis, { addEventListener: target.addEventListener.bind(target) })
    const storage = {
      getItem: shared.getItem,
      setItem: (key: string, value: string) => {
        const before = shared.getItem(key)
        shared.setItem(key, value)
        tell(index, key, before, value)
      },
      removeItem: (key: string) => {
        const before = shared.getItem(key)
        shared.removeItem(key)
        if (before !== null) tell(index, key, before, null)
      }
    }
    return observe(options.mode === 'header' ? { ...options, storage } : options)
  })
}

for (const [mode, serverOptions, options] of modes) {
  t.test(`mode ${mode}: tabs that show a user learn of logins in other tabs, and of another user with the reason "switched"`, async (t) => {
    watchEvents(t)
    const { served, setTime } = await opened(t, serverOptions)
    const [one, other] = showingTabs([new EventTarget(), new EventTarget()], options)
    await Promise.all([one!.client.load(), other!.client.load()])
    for (const { seen } of [one!, other!]) assert.deepEqual(seen.splice(0), [null, 'absent'], caseOf(seen))

    await one!.client.login(ada!)
    await until(() => other!.client.user !== null)
    t.strictSame([one!.seen.splice(0), other!.seen.splice(0)], [[1], [1]])

    setTime(now() + later)
    t.equal((await one!.client.fetch('/private')).status, 200)
    const asked = served.count(question)
    for (let turns = 0; turns < 100; turns++) await turn()
    t.equal(served.count(question), asked, 'a renewal in another tab is nothing new')

    await one!.client.login(grace!)
    await until(() => other!.seen.length === 2)
    t.strictSame([one!.seen.splice(0), other!.seen.splice(0)], [[2], [2, 'switched']], 'its own login is no switch')

    await other!.client.logout()
    t.strictSame([one!.seen.splice(0), other!.seen.splice(0)], [[null, 'logout'], [null, 'logout']])
    await other!.client.login(ada!)
    await until(() => one!.seen.length > 0)
    t.strictSame(one!.seen.splice(0), [1], 'after a logout, nobody is switched')
  })
}

t.test('in cookie mode, a request of one user is not repeated for another, of whom the renewal tells', async (t) => {
  const { setTime, served, cookies } = await opened(t, cookieOptions)
  const [one, other] = [openTab(), openTab()]
  Channel.open = []
  await one.client.login(ada!)
  await one.client.load()
  await other.client.login(grace!)
  t.equal(cookies.size, 2)
  setTime(now() + later)
  t.equal((await one.client.fetch('/echo', { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'of ada' })).status, 401)
  t.equal(served.count('POST /echo'), 1)
  t.strictSame([one.reasons, one.client.user], [['switched'], await other.client.load()])
})

t.test('in cookie mode without Web Locks, an answer to what was asked before a login in another tab is not shown', async (t) => {
  const served = await service(t, cookieOptions)
  browse(t, served, { hasLocks: false })
  const [one, other] = [observe(), openTab()]
  await one.client.login(ada!)
  one.seen.length = 0
  served.gate.afterRefresh = async () => {
    served.gate.afterRefresh = async () => {}
    await other.client.login(grace!)
  }
  const { user_id: shown } = await one.client.load() ?? {}
  t.equal(shown, grace!.user_id)
  t.strictSame(one.seen, [2, 'switched'])
})

t.test('in header mode, other keys of the storage, renewals and a logout in another tab are no login', async (t) => {
  const events = watchEvents(t)
  const { served } = await opened(t, {})
  const { client } = observe({ mode: 'header' })
  await client.login(ada!)
  const asked = served.count(question)
  const key = `fastify-token-auth ${origin}/auth`
  const text = (fields: object) => JSON.stringify(fields)
  for (const [name, oldValue, newValue] of [
    ['another key', null, text({ since: 2 })], [null, null, null], [key, text({ since: 1, access: 'a' }), text({ since: 1, access: 'b' })], [key, text({ since: 1 }), null], [key, null, 'damaged']
  ]) events.dispatchEvent(Object.assign(new Event('storage'), { key: name, oldValue, newValue }))
  for (let turns = 0; turns < 100; turns++) await turn()
  t.equal(served.count(question), asked)
})

t.test('in header mode, stored text that is no object is no login', async (t) => {
  await opened(t, {})
  const storage = sharedStorage()
  const { reasons, status } = openTab({ mode: 'header', storage })
  for (const text of ['null', '7', '"text"', '[]', 'true', '{"access":', '']) {
    storage.setItem(`fastify-token-auth ${origin}/auth`, text)
    assert.equal(await status(), 401, text)
    assert.deepEqual(reasons.splice(0), ['absent'], text)
  }
})

t.test('in header mode, the logout of an earlier login carries no access token, also where it is tried again', async (t) => {
  const { served } = await opened(t, {})
  const sent: unknown[] = []
  const { client } = openTab({ mode: 'header' })
  await client.login(ada!)
  const request = globalThis.fetch
  replace(t, 'fetch', async (input: URL, init: RequestInit) => {
    if (input.pathname === '/auth/logout') sent.push(new Headers(init.headers).get('authorization'))
    return await request(input, init)
  })
  await client.login(grace!)
  await client.logout()
  while ((await served.app.tokenAuth.sessions.list(1)).length + (await served.app.tokenAuth.sessions.list(2)).length > 0) await turn()
  t.strictSame(sent, [null, null])
})

t.test('on a server, a client without an origin knows nobody, asks nobody, and its requests reject with the TypeError of the address', async (t) => {
  replace(t, 'location', undefined)
  replace(t, 'fetch', () => { t.fail('nothing is sent') })
  for (const mode of ['cookie', 'header'] as const) {
    const client = createClient({ mode })
    client.subscribe(() => { t.fail('nothing changes') })
    assert.equal(client.user, undefined, mode)
    await t.rejects(client.fetch('/reports'), TypeError)
    await t.rejects(client.login({}), TypeError)
    if (mode === 'cookie') await t.rejects(client.load(), TypeError)
  }
})

t.test('in Node.js, a channel is one that keeps no process alive', async (t) => {
  await opened(t, cookieOptions)
  let calls = 0
  replace(t, 'BroadcastChannel', class extends Channel { unref (): void { calls++ } })
  createClient()
  t.equal(calls, 1)
})

const run = promisify(execFile)
for (const [what, globals] of [['as it is', ''], ['with the globals of a browser, as jsdom sets them', `
  globalThis.location = { origin: 'http://localhost' }
  globalThis.addEventListener = () => {}`]] as const) {
  t.test(`in Node.js, ${what}, a client keeps no process alive`, async (t) => {
    const program = `${globals}
      const { createClient } = await import('data:text/javascript,' + encodeURIComponent(${JSON.stringify(script)}))
      const client = createClient()
      client.subscribe(() => {})
      const other = createClient({ baseUrl: 'http://localhost' })
      console.log(client.user, other.user)`
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program], { timeout: 20_000 })
    t.equal(stdout, 'undefined undefined\n')
  })
}

/** A promise that waits at each step until it is let go. */
class Steps {
  readonly #waiting: Array<() => void> = []
  stop = (): Promise<void> => new Promise((resolve) => { this.#waiting.push(resolve) })
  get length (): number { return this.#waiting.length }
  go (index: number): void { this.#waiting.splice(index % this.#waiting.length, 1)[0]?.() }
}

for (const [mode, serverOptions, options] of modes) {
  t.test(`mode ${mode}: logins, logouts and renewals of two tabs, interleaved in many ways, leave no tokens of an ended login and lose none`, async (t) => {
    // Each seed is another order in which requests and responses go on.
    for (let seed = 1; seed <= 60; seed++) {
      await t.test(`order ${seed}`, async (t) => { await interleave(t, serverOptions, options, seed) })
    }
  })
}

async function interleave (t: Test, serverOptions: Partial<TokenAuthOptions>, options: ClientOptions, seed: number): Promise<void> {
  const { served, setTime, cookies } = await opened(t, serverOptions)
  const storage = sharedStorage()
  const tabs = [openTab({ ...options, storage }), openTab({ ...options, storage })]
  await tabs[0]!.client.login(ada!)
  setTime(now() + later)
  const steps = new Steps()
  const request = globalThis.fetch
  replace(t, 'fetch', async (input: URL, init: RequestInit) => {
    await steps.stop()
    const response = await request(input, init)
    await steps.stop()
    return response
  })
  let state = seed
  const random = (bound: number) => { state = (state * 1_103_515_245 + 12_345) % 2_147_483_648; return Math.floor(state / 65_536) % bound }
  const [one, other] = tabs
  const last = random(2) === 0 ? 'login' : 'logout'
  const work = [one!.status(), other!.status(), one!.client.load().catch(() => {})]
  // Somebody acts while the renewals are in progress.
  for (let count = random(12); count > 0; count--) {
    if (steps.length > 0) steps.go(random(8))
    await turn()
  }
  const acted = last === 'login' ? other!.client.login(grace!) : other!.client.logout()
  work.push(acted.then(() => {}))
  const done = Promise.all(work).then(() => true)
  while (!await Promise.race([done, turn(false)])) if (steps.length > 0) steps.go(random(8))
  await acted
  for (let turns = 0; turns < 50; turns++) {
    while (steps.length > 0) steps.go(0)
    await turn()
  }
  const sessions = async (user: number) => (await served.app.tokenAuth.sessions.list(user)).length
  replace(t, 'fetch', request)
  if (last === 'logout') {
    t.strictSame([storage.values.size, cookies.size], [0, 0], 'nothing is left in the browser')
    t.equal(await sessions(1), 0)
  } else {
    t.match(await other!.client.load(), { user_id: 2 })
    t.equal(await one!.status(), 200)
    t.equal(await sessions(2), 1)
  }
}
