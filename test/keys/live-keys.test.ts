/** Keys that a function returns, and what is told of keys. */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import type { SigningKey } from '../../lib/index.ts'
import { get, iso, issued, keyEvents, noon, overlap, signs, source, states, withKeys } from './ring.ts'
import { bearer, build, claims, edPair, forge, holdTimers, leaksIn, login, otherSecret, refreshStore, refusal, secret, setClock, warnings } from '../helper.ts'

const old: SigningKey = { key: secret, kid: 'old' }
const next: SigningKey = { key: otherSecret, kid: 'new' }
const minute = 60_000

/** Lets everything run that waits for nothing but its turn. */
async function settle (): Promise<void> {
  for (let count = 0; count < 5; count++) await turn()
}

t.test('a function of keys is awaited at registration, and every 60 seconds until the application closes', async (t) => {
  const expire = holdTimers(t, minute)
  const { state, load } = source([old])
  const app = await withKeys(t, load)
  t.equal(state.calls, 1)
  t.equal(await signs(app), 'old')
  state.list = [next, old]
  for (const calls of [2, 3]) {
    expire()
    await settle()
    t.equal(state.calls, calls)
    t.equal(await signs(app), 'new')
  }
  await app.close()
  expire()
  await settle()
  t.equal(state.calls, 3)
})

t.test('a function that fails is called again after 60 seconds', async (t) => {
  const expire = holdTimers(t, minute)
  const { state, load } = source([old])
  const app = await withKeys(t, load)
  const events = keyEvents(t)
  state.instead = async () => await Promise.reject(new Error('down'))
  for (const calls of [2, 3]) {
    expire()
    await settle()
    t.equal(state.calls, calls)
  }
  state.instead = undefined
  state.list = [next, old]
  expire()
  await settle()
  t.same(events.map(({ type }) => type), ['reload-failed', 'reload-failed', 'reloaded', 'late', 'switched'], 'and a reload tells at once that another key signs')
  t.equal(await signs(app), 'new')
})

t.test('an instance whose keys do not change sets no timer', async (t) => {
  const set = globalThis.setTimeout
  const delays: unknown[] = []
  Object.assign(globalThis, { setTimeout: (...given: Parameters<typeof set>) => { delays.push(given[1]); return set(...given) } })
  t.teardown(() => { Object.assign(globalThis, { setTimeout: set }) })
  await withKeys(t, [old, next])
  t.notOk(delays.includes(minute))
  await withKeys(t, [old, { ...next, signFrom: '2999-01-01T00:00:00Z' }])
  t.ok(delays.includes(minute))
})

t.test('a function gets nothing', async (t) => {
  const given: unknown[] = []
  const app = await withKeys(t, function (this: unknown, ...rest: unknown[]) {
    given.push(this, ...rest)
    return [old]
  })
  await app.tokenAuth.reloadKeys()
  t.same(given, [undefined, undefined])
})

t.test('a function may be synchronous, and a reload that ends after the application closed sets no timer', async (t) => {
  const expire = holdTimers(t, minute)
  const app = await withKeys(t, () => [old])
  t.equal(await signs(app), 'old')
  const { state, load } = source([old])
  const closing = await withKeys(t, load)
  let end = () => {}
  state.instead = async () => await new Promise((resolve) => { end = () => resolve([old]) })
  expire()
  await settle()
  await closing.close()
  end()
  await settle()
  const { calls } = state
  expire()
  await settle()
  t.equal(state.calls, calls)
})

// Promise: keys/timer-keeps-process
t.test('no timer of keys keeps a process alive, but for the one that ends the wait for keys at registration', async (t) => {
  const program = `
    import Fastify from 'fastify'
    import tokenAuth from ${JSON.stringify(new URL('../../dist/lib/index.js', import.meta.url).href)}
    const app = Fastify({ pluginTimeout: 0 })
    const timers = () => { console.log(process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length) }
    const keys = () => {
      timers()
      return [{ key: ${JSON.stringify(secret)} }]
    }
    await app.register(tokenAuth, { authMode: false, keys })
    await app.ready()
    timers()
    await app.tokenAuth.reloadKeys()
    timers()`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], { env: { PATH: process.env.PATH }, cwd: fileURLToPath(new URL('../..', import.meta.url)), timeout: 50_000 })
  t.same(stdout.trim().split('\n'), ['1', '0', '0', '0'])
})

// Promise: keys/token-refused-when
t.test('a key that a reload removes dies at once, remembered tokens and refresh included; others stay remembered', async (t) => {
  const { state, load } = source([old, next])
  const app = await withKeys(t, load)
  const [of, by] = [forge(claims(), { header: { kid: 'old' } }), forge(claims(), { key: otherSecret, header: { kid: 'new' } })]
  const without = forge(claims())
  for (const token of [of, by, without]) t.equal(await get(app, token), 200)
  state.list = [next]
  await app.tokenAuth.reloadKeys()
  t.equal(await get(app, of), 401)
  t.equal(await get(app, without), 401)
  t.equal(await get(app, by), 200)
  state.list = [old, next]
  await app.tokenAuth.reloadKeys()
  t.equal(await get(app, of), 200, 'it is back')
  state.list = [{ ...old, key: otherSecret }, { ...next, key: secret }]
  await app.tokenAuth.reloadKeys()
  for (const token of [of, by]) t.equal(await get(app, token), 401, 'the same kid, another key')
})

t.test('the log names the keys whose tokens a reload refuses, and no others', async (t) => {
  const setTime = setClock(t, noon)
  const lines: string[] = []
  const { state, load } = source([old, { ...next, signFrom: undefined }])
  const app = await withKeys(t, load, {}, { logger: { level: 'info', stream: { write: (line: string) => { lines.push(JSON.parse(line).msg) } } } })
  const said = () => lines.splice(0).filter((line) => line.includes('were reloaded'))
  const reload = async (list: SigningKey[]) => {
    state.list = list
    await app.tokenAuth.reloadKeys()
    return said()
  }
  t.same(await reload([old]), ['tokenAuth: the keys were reloaded. All tokens of these keys are refused from now on: new.'])
  t.same(await reload([old]), [], 'nothing has changed')
  const verifyUntil = iso(noon + 7200)
  t.same(await reload([{ ...old, verifyUntil }, { ...next, signFrom: iso(noon + 1) }]), ['tokenAuth: the keys were reloaded.'])
  setTime(noon + 7201)
  t.same(await reload([{ ...next, signFrom: iso(noon + 1) }]), ['tokenAuth: the keys were reloaded.'], 'the tokens of a key that has ended were refused before')
})

// Promise: security/connection-stays-open
t.test('a reload that removes a key aborts the signals of its tokens, and no others', async (t) => {
  const { state, load } = source([old, next])
  const app = await withKeys(t, load)
  const signals: AbortSignal[] = []
  app.get('/signal', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth }) => {
    signals.push(tokenAuth.signal)
    return ''
  })
  app.get('/during', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth }) => {
    state.list = [{ ...next, verifyUntil: undefined }]
    await app.tokenAuth.reloadKeys()
    const { signal } = tokenAuth
    await turn()
    await turn()
    return { isAborted: signal.aborted }
  })
  for (const [key, kid] of [[secret, 'old'], [otherSecret, 'new']] as const) {
    await app.inject({ url: '/signal', headers: bearer(forge(claims(), { key, header: { kid } })) })
  }
  t.same(signals.map(({ aborted }) => aborted), [false, false])
  t.same((await app.inject({ url: '/during', headers: bearer(forge(claims(), { header: { kid: 'old' } })) })).json(), { isAborted: true }, 'also one that is read after its key was removed')
  t.match(signals, [{ aborted: true, reason: { name: 'InvalidToken' } }, { aborted: false }])
})

t.test('a reload aborts the signals of a key whose end it brings forward, at once or when it comes', async (t) => {
  const setTime = setClock(t, noon)
  const expire = holdTimers(t, minute)
  const { state, load } = source([old])
  const app = await withKeys(t, load)
  const signals: AbortSignal[] = []
  app.get('/signal', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth }) => { signals.push(tokenAuth.signal); return '' })
  const open = async () => await app.inject({ url: '/signal', headers: bearer(forge(claims({ exp: noon + 10_000 }), { header: { kid: 'old' } })) })
  await open()
  setTime(noon + 3000)
  // The key stopped to sign long ago, as far as the list says.
  state.list = [{ ...next, signFrom: iso(noon) }, { ...old, verifyUntil: iso(noon + 3001) }]
  await app.tokenAuth.reloadKeys()
  t.equal(signals[0]?.aborted, false)
  setTime(noon + 3002)
  state.instead = async () => await Promise.reject(new Error('down'))
  expire()
  await settle()
  t.match(signals[0], { aborted: true, reason: { name: 'InvalidToken' } })
  state.instead = undefined
  state.list = [{ ...next, signFrom: undefined }, { ...old }]
  await app.tokenAuth.reloadKeys()
  await open()
  state.list = [{ ...next, signFrom: iso(noon) }, { ...old, verifyUntil: iso(noon + 2500) }]
  await app.tokenAuth.reloadKeys()
  t.equal(signals[1]?.aborted, true)
})

t.test('a signal aborts at the end of its key', async (t) => {
  const setTime = setClock(t, noon)
  const app = await withKeys(t, [{ key: edPair().publicKey, kid: 'old', verifyUntil: iso(noon + 60) }], { authMode: false, algorithm: 'EdDSA' })
  app.get('/signal', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth }) => {
    setTime(noon + 60)
    const { signal } = tokenAuth
    await turn()
    await turn()
    return { isAborted: signal.aborted, reason: signal.reason?.name }
  })
  const token = forge(claims({ exp: noon + 10_000 }), { algorithm: 'EdDSA', key: edPair().privateKey, header: { kid: 'old' } })
  t.same((await app.inject({ url: '/signal', headers: bearer(token) })).json(), { isAborted: true, reason: 'InvalidToken' })
})

t.test('a reload that changes dates, or the half of a pair that is given, aborts nothing and forgets no token', async (t) => {
  const list: SigningKey[] = [{ key: edPair().privateKey, kid: 'pair', signFrom: iso(1000) }]
  const { state, load } = source(list)
  const app = await withKeys(t, load, { algorithm: 'EdDSA' })
  const signals: AbortSignal[] = []
  app.get('/signal', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth }) => { signals.push(tokenAuth.signal); return '' })
  const token = await issued(app)
  await app.inject({ url: '/signal', headers: bearer(token) })
  for (const entry of [{ key: edPair().privateKey, signFrom: iso(2000) }, { key: edPair().publicKey, signFrom: iso(2000) }, { key: edPair().privateKey }]) {
    state.list = [{ key: secret, algorithm: 'HS256', kid: 'other' }, { kid: 'pair', ...entry }]
    await app.tokenAuth.reloadKeys()
    t.equal(await get(app, token), 200)
  }
  t.equal(signals[0]?.aborted, false)
})

t.test('what a getter in the result of a function throws is logged without its properties', async (t) => {
  const lines: string[] = []
  const error = Object.assign(new Error('Request failed'), { config: `Bearer ${secret}` })
  const { state, load } = source([old])
  const app = await withKeys(t, load, {}, { logger: { stream: { write: (line: string) => { lines.push(line) } } } })
  state.list = [{ get key (): string { throw error } }]
  await t.rejects(app.tokenAuth.reloadKeys(), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E19', cause: error })
  t.match(lines.join(''), 'Request failed')
  t.same(leaksIn(lines), [])
})

t.test('a refresh in the specification\'s own mode refuses the token of a key that a reload removed, remembered or not', async (t) => {
  const { state, load } = source([old, next])
  const { stored, ...handlers } = refreshStore()
  const app = await withKeys(t, load, handlers)
  const refreshToken = (await login(app)).json().refresh_token
  const [remembered, fresh] = [1, 2].map((nr) => forge(claims({ nr }), { header: { kid: 'old' } })) as [string, string]
  const refresh = async (token: string) => (await app.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(token), payload: { refresh_token: refreshToken } })).statusCode
  t.same([await refresh(remembered), stored.get(1)], [200, refreshToken])
  state.list = [next]
  await app.tokenAuth.reloadKeys()
  t.same([await refresh(remembered), await refresh(fresh)], [401, 401])
})

t.test('a reload changes the dates of keys, for remembered tokens too', async (t) => {
  const setTime = setClock(t, noon)
  const { state, load } = source([old, { ...next, signFrom: iso(noon + 1000) }])
  const app = await withKeys(t, load)
  const token = forge(claims({ exp: noon + 100_000 }), { header: { kid: 'old' } })
  t.equal(await get(app, token), 200)
  state.list = [{ ...old, verifyUntil: iso(noon + 1000 + overlap) }, { ...next, signFrom: iso(noon + 1000) }]
  await app.tokenAuth.reloadKeys()
  t.equal(await get(app, token), 200)
  setTime(noon + 1000 + overlap)
  t.equal(await get(app, token), 401)
})

t.test('a key that gets a date accepts tokens without kid no more', async (t) => {
  setClock(t, noon)
  const { state, load } = source([old])
  const app = await withKeys(t, load)
  const token = forge(claims())
  t.equal(await get(app, token), 200)
  state.list = [{ ...old, signFrom: iso(noon - 1) }]
  await app.tokenAuth.reloadKeys()
  t.equal(await get(app, token), 401)
})

t.test('a reload may bring the private half of a key that only verified, and take it away again', async (t) => {
  const [signing, verifying] = [{ key: edPair().privateKey, kid: 'pair' }, { key: edPair().publicKey, kid: 'pair' }]
  const last = { key: edPair(1).privateKey, kid: 'last' }
  const { state, load } = source([verifying, last])
  const app = await withKeys(t, load, { algorithm: 'EdDSA' })
  const token = forge(claims(), { algorithm: 'EdDSA', key: edPair().privateKey, header: { kid: 'pair' } })
  for (const [first, kid] of [[verifying, 'last'], [signing, 'pair'], [verifying, 'last']] as const) {
    state.list = [first, last]
    await app.tokenAuth.reloadKeys()
    t.equal(await signs(app), kid)
    t.equal(await get(app, token), 200)
  }
})

// Promise: keys/reload-fails-changes
t.test('a reload that fails leaves the keys as they are: a rejection, an error, a wrong list, a list that breaks a rule', async (t) => {
  const failures: Array<[instead: () => unknown, finding: string | undefined]> = [
    [() => { throw new Error('down') }, 'E19'], [async () => await Promise.reject(new Error('down')), 'E19'], [() => undefined, undefined], [() => 'keys', undefined], [() => [], 'E12'],
    [() => [old, old], 'E12'], [() => [{ ...old, signFrom: '2999-01-01T00:00:00Z' }], 'E13'], [() => [{ ...old, verifyUntil: '2999-01-01T00:00:00Z' }], 'E14'],
    [() => [{ key: { path: '/nowhere/at/all' } }], 'E08'], [() => [{ key: 'x', algorithm: 'EdDSA' }], 'E07']
  ]
  const lines: string[] = []
  const { state, load } = source([old])
  const app = await withKeys(t, load, {}, { logger: { level: 'info', stream: { write: (line: string) => { lines.push(line) } } } })
  const token = await issued(app)
  const events = keyEvents(t)
  for (const [instead, finding] of failures) {
    state.instead = instead
    const error: unknown = await app.tokenAuth.reloadKeys().then(() => undefined, (reason: unknown) => reason)
    t.match(error, { name: 'InvalidConfiguration', ...(finding !== undefined && { finding: `TOKEN_AUTH_${finding}` }) })
    if (finding === 'E19') t.match(error, { cause: { message: 'down' } })
    t.equal(await get(app, token), 200)
    t.equal(await signs(app), 'old')
  }
  t.same(events, failures.map(() => ({ instanceName: 'tokenAuth', type: 'reload-failed' })))
  t.equal(lines.filter((line) => line.includes('the keys could not be reloaded')).length, 1, 'logged once')
  state.instead = undefined
  await app.tokenAuth.reloadKeys()
  t.same(events.at(-1), { instanceName: 'tokenAuth', type: 'reloaded' }, 'it works again')
  t.equal(lines.filter((line) => line.includes('the keys were reloaded')).length, 1)
  state.instead = () => undefined
  await t.rejects(app.tokenAuth.reloadKeys())
  t.equal(lines.filter((line) => line.includes('the keys could not be reloaded')).length, 2, 'and once more after it worked')
  t.same(leaksIn(lines), [])
})

t.test('a reload must not end a key whose tokens a guard accepts for ever', async (t) => {
  setClock(t, noon)
  const { state, load } = source([old])
  const app = await withKeys(t, load)
  warnings(t, 'W04')
  app.tokenAuth.protect({ verifyExp: false })
  app.tokenAuth.protect()
  state.list = [{ ...next, signFrom: iso(noon + 600) }, { ...old, verifyUntil: iso(noon + 600 + overlap) }]
  await t.rejects(app.tokenAuth.reloadKeys(), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E14' })
})

t.test('a function that fails at registration fails it, with its error as the cause (E19), and so does one that takes more than 5 seconds', async (t) => {
  const cause = new Error('down')
  const failed = await refusal(t, { secret: undefined, keys: async () => await Promise.reject(cause) })
  t.match(failed, { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E19', cause })
  const expire = holdTimers(t, 5000)
  const hanging = refusal(t, { secret: undefined, keys: () => new Promise(() => {}) })
  await settle()
  expire()
  t.match(await hanging, { finding: 'TOKEN_AUTH_E19', cause: { message: 'The function took more than 5 seconds.' } })
})

t.test('a reload that hangs is given up after 5 seconds, and what comes later is dropped', async (t) => {
  const expire = holdTimers(t, 5000)
  const { state, load } = source([old])
  const app = await withKeys(t, load)
  let end = () => {}
  state.instead = async () => await new Promise((resolve) => { end = () => resolve([next]) })
  const reload = app.tokenAuth.reloadKeys()
  const rejected = t.rejects(reload, { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E19' })
  await settle()
  expire()
  await rejected
  end()
  await settle()
  t.equal(await signs(app), 'old')
})

// Promise: specification/reloadkeys-2
t.test('a call of reloadKeys during another one reads the keys again after it, and many calls read them once', async (t) => {
  const { state, load } = source([old])
  const app = await withKeys(t, load)
  let end = () => {}
  state.instead = async () => {
    const { list } = state
    await new Promise<void>((resolve) => { end = resolve })
    return list
  }
  const first = app.tokenAuth.reloadKeys()
  state.list = [next, old]
  const others = [1, 2, 3].map(() => app.tokenAuth.reloadKeys())
  await settle()
  t.equal(state.calls, 2)
  end()
  await first
  t.equal(await signs(app), 'old')
  await settle()
  end()
  await Promise.all(others)
  t.equal(state.calls, 3)
  t.equal(await signs(app), 'new')
  state.instead = undefined
  await Promise.all([app.tokenAuth.reloadKeys(), app.tokenAuth.reloadKeys()])
  t.equal(state.calls, 5, 'and so it is the next time')
})

t.test('a call of reloadKeys after one that fails is a call of its own', async (t) => {
  const { state, load } = source([old])
  const app = await withKeys(t, load)
  const answers = [async () => await Promise.reject(new Error('down')), async () => [next]]
  state.instead = () => answers.shift()?.()
  const [first, second] = [app.tokenAuth.reloadKeys(), app.tokenAuth.reloadKeys()]
  await t.rejects(first)
  await second
  t.equal(await signs(app), 'new')
})

t.test('reloadKeys needs a function', async (t) => {
  await t.rejects((await withKeys(t, [old])).tokenAuth.reloadKeys(), { name: 'InvalidConfiguration', message: /^reloadKeys\(\) needs a function that returns the keys/ })
  await t.rejects((await build(t)).tokenAuth.reloadKeys(), { name: 'InvalidConfiguration', message: /^reloadKeys\(\) needs the option "keys"/ })
})

t.test('files that a function names are read again by each reload', async (t) => {
  const path = join(t.testdir({ key: edPair().privateKey }), 'key')
  // The log has the id of the key, which the test of logs takes for a part of an answer.
  const app = await withKeys(t, () => [{ key: { path } }], { algorithm: 'EdDSA' }, { logger: false })
  const before = await signs(app)
  writeFileSync(path, 'half a k')
  await t.rejects(app.tokenAuth.reloadKeys())
  t.equal(await signs(app), before)
  writeFileSync(path, edPair(1).privateKey)
  await app.tokenAuth.reloadKeys()
  t.not(await signs(app), before)
})

t.test('a switch is told once, by the first token or within 60 seconds, and a reload only where the list is another', async (t) => {
  const expire = holdTimers(t, minute)
  const setTime = setClock(t, noon)
  const events = keyEvents(t)
  const list = [{ ...old, signFrom: iso(noon - 1) }, { ...next, signFrom: iso(noon + 1000) }, { key: `${secret} 3`, kid: 'third', signFrom: iso(noon + 2000) }]
  const app = await withKeys(t, list)
  expire()
  await settle()
  t.same(events, [])
  setTime(noon + 1000)
  await issued(app)
  await issued(app)
  expire()
  await settle()
  t.same(events.splice(0), [{ instanceName: 'tokenAuth', type: 'switched', kid: 'new' }])
  setTime(noon + 2000)
  expire()
  await settle()
  t.same(events.splice(0), [{ instanceName: 'tokenAuth', type: 'switched', kid: 'third' }])
  setTime(noon + 9000)
  expire()
  await settle()
  t.same(events, [], 'no key will follow')

  const { state, load } = source([old])
  const other = await withKeys(t, load)
  for (const app of [other, other]) await app.tokenAuth.reloadKeys()
  t.same(events, [])
  state.list = [old, { ...next, signFrom: iso(noon + 100_000) }]
  await other.tokenAuth.reloadKeys()
  t.same(events.splice(0), [{ instanceName: 'tokenAuth', type: 'reloaded' }])
  state.list = [old, { ...next, signFrom: iso(noon + 200_000) }]
  await other.tokenAuth.reloadKeys()
  t.same(events.splice(0), [{ instanceName: 'tokenAuth', type: 'reloaded' }], 'another date')
  state.list = [{ ...old, verifyUntil: iso(noon + 200_000 + overlap) }, { ...next, signFrom: iso(noon + 200_000) }]
  await other.tokenAuth.reloadKeys()
  t.same(events.splice(0), [{ instanceName: 'tokenAuth', type: 'reloaded' }], 'another end')
  const changes: Array<[what: string, list: SigningKey[], types: string[]]> = [
    ['one key less', [old], ['reloaded']], ['another kid', [{ ...old, kid: 'other' }], ['reloaded', 'late', 'switched']], ['another key of the same kid', [{ ...old, kid: 'other', key: otherSecret }], ['reloaded', 'late']]
  ]
  for (const [what, list, types] of changes) {
    state.list = list
    await other.tokenAuth.reloadKeys()
    t.same(events.splice(0).map(({ type }) => type), types, what)
  }
})

t.test('a reload tells of new keys that sign before all who keep the published ones have seen them', async (t) => {
  setClock(t, noon)
  const lines: string[] = []
  const { state, load } = source([{ ...old, signFrom: iso(noon - 10) }])
  const app = await withKeys(t, load, {}, { logger: { level: 'warn', stream: { write: (line: string) => { lines.push(line) } } } })
  const events = keyEvents(t)
  const lateAfter = async (...list: SigningKey[]) => {
    state.list = list
    await app.tokenAuth.reloadKeys()
    return events.splice(0).filter(({ type }) => type === 'late').map(({ kid }) => kid)
  }
  const dated = { ...old, signFrom: iso(noon - 10) }
  t.same(await lateAfter(dated, { ...next, signFrom: iso(noon + 480) }), [], '300 seconds and leeway')
  t.same(await lateAfter(dated, { ...next, signFrom: iso(noon + 1) }), [], 'it was there before')
  t.same(await lateAfter(dated), [])
  t.same(await lateAfter(dated, { ...next, signFrom: iso(noon + 479.999) }), ['new'])
  t.same(await lateAfter(dated, next), [], 'a key without a date that does not sign')
  t.same(await lateAfter(dated), [])
  t.same(await lateAfter(next, dated), [], 'the dated one signs')
  t.same(await lateAfter({ key: `${secret} 3`, kid: 'third' }), ['third'], 'without a date, it signs at once')
  t.same(await lateAfter(dated, { ...next, signFrom: iso(noon - 5) }, { key: `${secret} 4`, kid: 'fourth', signFrom: iso(noon) }), ['fourth'], 'a new key that another one has replaced already never signs')
  t.equal(lines.filter((line) => line.includes('signs before other processes')).length, 3)
})

// Promise: specification/keystatus-2
t.test('keyStatus says what each key is for, without key material', async (t) => {
  const setTime = setClock(t, noon)
  const app = await withKeys(t, [{ ...old, verifyUntil: new Date((noon + overlap) * 1000) }, { ...next, signFrom: new Date(noon * 1000) }, { key: `${secret} 3`, kid: 'third', signFrom: iso(noon + 5000) }])
  t.same(app.tokenAuth.keyStatus(), {
    keys: [
      { kid: 'old', algorithm: 'HS256', state: 'verifying', signFrom: null, verifyUntil: iso(noon + overlap) },
      { kid: 'new', algorithm: 'HS256', state: 'signing', signFrom: iso(noon), verifyUntil: null },
      { kid: 'third', algorithm: 'HS256', state: 'next', signFrom: iso(noon + 5000), verifyUntil: null }
    ],
    issuers: []
  })
  setTime(noon + 5000)
  t.same(states(app), { old: 'gone', new: 'verifying', third: 'signing' })
  t.notOk(JSON.stringify(app.tokenAuth.keyStatus()).includes(secret))
})

t.test('a clock that is set back lets the earlier key sign again', async (t) => {
  const setTime = setClock(t, noon + 10)
  const app = await withKeys(t, [{ ...old, signFrom: iso(noon - 10) }, { ...next, signFrom: iso(noon) }])
  t.equal(await signs(app), 'new')
  setTime(noon - 1)
  t.equal(await signs(app), 'old')
  setTime(noon - 11)
  t.doesNotThrow(() => app.tokenAuth.protect({ leeway: 1 }), 'a guard needs no key that signs')
  t.equal(await signs(app), 'old', 'before the first date, the last key goes on')
})

t.test('no key signs before its date if none signed before it', async (t) => {
  setClock(t, noon)
  const app = await withKeys(t, [{ ...next, signFrom: iso(noon + 60) }], { authMode: false })
  await t.rejects(app.tokenAuth.generateAccessToken({ user_id: 1 }), { name: 'RequiredKeysNotFound' })
})

t.test('instances with functions have keys of their own', async (t) => {
  const [first, second] = [source([old]), source([next])]
  const apps = [await withKeys(t, first.load), await withKeys(t, second.load)] as const
  first.state.list = [next]
  await apps[0].tokenAuth.reloadKeys()
  t.same([await signs(apps[0]), await signs(apps[1])], ['new', 'new'])
  t.same([first.state.calls, second.state.calls], [2, 1])
})
