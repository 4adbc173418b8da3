/** The example of two processes with one store of sessions, as a user starts it, with real servers and in a real browser. */
import { fork } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { openBrowser, skip as skipBrowser } from './browser.ts'
import { curl, stepsOf, type CookieFiles } from './curl.ts'
import { skip, startDatabase } from '../database.ts'

const program = fileURLToPath(new URL('../../examples/web/two-processes.js', import.meta.url))
const variables = { redis: 'REDIS_URL', postgres: 'DATABASE_URL' }
type Name = keyof typeof variables
const names: readonly Name[] = ['redis', 'postgres']
const ada = { username: 'ada', password: 'lovelace' }
const grace = { username: 'grace', password: 'hopper' }

/** In milliseconds: `poll`, and the five seconds that a call of the store may take. Usually it is known after `poll` and one query. */
const knownWithin = 2000 + 5000

/** In milliseconds: how long a test waits for what should be true soon, before it fails. */
const maximumWait = 60_000

const browser = openBrowser(t)

interface Ended { code: number | null, output: string, errors: string }

interface Run {
  /** Addresses of the two processes. */
  readonly first: string
  readonly second: string
  readonly printed: string
  /** Sends a signal as a terminal does, or to the program alone. */
  signal (signal: NodeJS.Signals, to?: 'all' | 'program'): void
  /** Resolves when the program and both processes have ended: each of them holds its output. */
  readonly ended: Promise<Ended>
}

/** Starts the program as a user does, in a process group of its own. */
function launch (t: Test, name: string, environment: NodeJS.ProcessEnv) {
  const child = fork(program, [name], {
    // Without what the test runner puts there for programs of its own. The channel ends the program when this process is killed.
    execArgv: [], env: { PATH: process.env.PATH, PORT: '0', ...environment }, stdio: ['ignore', 'pipe', 'pipe', 'ipc'], detached: true
  })
  const { pid, stdout, stderr } = child
  if (pid === undefined || stdout === null || stderr === null) throw new Error('The program cannot be started.')
  const printed = { output: '', errors: '' }
  stdout.setEncoding('utf8').on('data', (text) => { printed.output += text })
  stderr.setEncoding('utf8').on('data', (text) => { printed.errors += text })
  const signal: Run['signal'] = (signal, to = 'all') => process.kill(to === 'all' ? -pid : pid, signal)
  const ended: Promise<Ended> = once(child, 'close').then(([code]) => ({ code, ...printed }))
  let isOver = false
  ended.finally(() => { isOver = true })
  t.teardown(async () => {
    if (!isOver) signal('SIGKILL')
    await ended
  })
  return { stdout, printed, signal, ended }
}

async function start (t: Test, name: Name, url: string, environment: NodeJS.ProcessEnv = {}): Promise<Run> {
  const { stdout, printed, signal, ended } = launch(t, name, { [variables[name]]: url, ...environment })
  while (!/\/private -b cookies.txt\n/.test(printed.output)) {
    const result = await Promise.race([once(stdout, 'data'), ended])
    if (!Array.isArray(result)) throw new Error(`The program ended: ${result.errors}`)
  }
  const [, first = '', second = ''] = /^Open (\S+) and (\S+) in a browser/.exec(printed.output) ?? []
  return { first, second, printed: printed.output, signal, ended }
}

async function request (address: string, path: string, cookie = '', method = 'POST', body?: object): Promise<{ status: number, cookie: string }> {
  const response = await fetch(`${address}${path}`, {
    method, headers: { cookie, ...(body !== undefined && { 'content-type': 'application/json' }) }, ...(body !== undefined && { body: JSON.stringify(body) })
  })
  await response.arrayBuffer()
  return { status: response.status, cookie: response.headers.getSetCookie().map((header) => header.split(';')[0]).join('; ') }
}

const logIn = async (address: string, user: object) => (await request(address, '/auth', '', 'POST', user)).cookie
const refresh = async (address: string, cookie: string) => (await request(address, '/auth/refresh', cookie)).status

/** Asks until the answer has a status. */
async function until (t: Test, expected: number, promise: string, ask: () => Promise<number>, patience = maximumWait): Promise<void> {
  const end = performance.now() + patience
  let status = await ask()
  while (status !== expected && performance.now() < end) {
    await setTimeout(50)
    status = await ask()
  }
  t.equal(status, expected, promise)
}

const untilRefused = async (t: Test, promise: string, ask: () => Promise<number>) => await until(t, 401, promise, ask, knownWithin)

async function testWith (t: Test, name: Name): Promise<void> {
  const server = await startDatabase(t, name, ...(name === 'redis' ? ['--appendonly', 'yes', '--appendfsync', 'always'] : []))
  const { first, second, printed, signal, ended } = await start(t, name, server.url)

  await t.test('who logs in at one process can refresh at the other; after a logout at the first, the other refuses the session, as the printed commands say', async (t) => {
    const files: CookieFiles = new Map()
    const steps = stepsOf(printed)
    for (const { title, command, expected } of steps) {
      t.ok(command.includes(` ${/first process/.test(title) ? first : second}/`), `${title}: at that process`)
      const send = async () => await curl(command, files)
      if (title.includes('within 2 seconds')) {
        await untilRefused(t, title, async () => (await send()).status)
        t.match((await send()).body, 'SessionEnded', title)
        continue
      }
      const { status, body, setsCookies } = await send()
      t.equal(status, expected, title)
      t.equal(setsCookies, /cookie/.test(title), title)
      if (title.includes('List')) t.match(JSON.parse(body), { sessions: [{ current: true }] }, 'the refresh started no other session')
    }
    t.equal(steps.length, 6)
    t.not(first, second)
  })

  await t.test('one browser is logged in at both processes, and another one that ends its session at the second logs it out at the first', { skip: skipBrowser }, async (t) => {
    const open = async (userAgent?: string) => {
      const context = await (await browser()).newContext({ ...(userAgent !== undefined && { userAgent }) })
      t.teardown(() => context.close())
      context.setDefaultTimeout(0)
      const page = await context.newPage()
      page.on('pageerror', (error) => t.fail('no script of a page fails', { error }))
      const goTo = async (address: string, title: string) => {
        await page.goto(address)
        await page.getByRole('heading', { level: 1, name: title }).waitFor()
      }
      const logInTo = async (address: string, title: string) => {
        await page.goto(address)
        await page.getByLabel('Name').fill(ada.username)
        await page.getByLabel('Password').fill(ada.password)
        await page.getByRole('button', { name: 'Log in' }).click()
        await page.getByRole('heading', { level: 1, name: title }).waitFor()
      }
      return { page, goTo, logInTo, items: page.getByRole('listitem') }
    }

    const firefox = await open('Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0')
    await firefox.logInTo(`${first}/reports.html`, 'Reports')
    await firefox.goTo(`${second}/devices.html`, 'Your devices')
    await firefox.items.first().waitFor()
    t.match(await firefox.items.allTextContents(), [/^\s*Firefox on Windows\s+This device/], 'the cookies of one process are those of the other')
    await firefox.goTo(`${first}/reports.html`, 'Reports')

    const chrome = await open()
    await chrome.logInTo(`${second}/devices.html`, 'Your devices')
    await chrome.items.nth(1).waitFor()
    t.match(await chrome.items.allTextContents(), [/^\s*Chrome on Linux\s+This device/, /^\s*Firefox on Windows\s+End/])
    await chrome.page.getByRole('button', { name: 'End Firefox on Windows' }).click()
    await chrome.page.getByRole('status').getByText('The device is logged out.').waitFor()
    t.equal(await chrome.items.count(), 1)

    await untilRefused(t, 'the first process knows it within "poll" and the time of one query', async () => Number(await firefox.page.evaluate("fetch('/private').then(({ status }) => status)")))
    await firefox.page.getByRole('button', { name: 'Send a request' }).click()
    await firefox.page.getByRole('status').getByText('Your session was ended from another device.').waitFor()
    t.equal(new URL(firefox.page.url()).origin, first)
    await chrome.goTo(`${first}/devices.html`, 'Your devices')
    await chrome.items.first().waitFor()
    t.match(await chrome.items.allTextContents(), [/^\s*Chrome on Linux\s+This device/], 'the other browser is still logged in')
  })

  await t.test('while the server is down, both processes go on and log nobody out', async (t) => {
    const cookie = await logIn(first, grace)
    await server.kill()
    for (const address of [first, second]) {
      await until(t, 503, 'tokens are kept', async () => await refresh(address, cookie))
      t.equal((await request(address, '/private', cookie, 'GET')).status, 200, 'guards do not ask the store')
    }
    await server.start()
    for (const address of [first, second]) await until(t, 200, 'and are good when it is back', async () => await refresh(address, cookie))
  })

  signal('SIGINT')
  t.equal((await ended).errors, '', 'nothing was printed as an error')
}

for (const name of names) t.test(name, { skip: skip[name] }, async (t) => await testWith(t, name))

t.test('with a SECRET, users are still logged in after a restart; without one, each start has another', { skip: skip.redis }, async (t) => {
  const { url } = await startDatabase(t, 'redis')
  const restart = async (environment: NodeJS.ProcessEnv) => {
    const before = await start(t, 'redis', url, environment)
    const cookie = await logIn(before.first, ada)
    before.signal('SIGINT')
    await before.ended
    const after = await start(t, 'redis', url, environment)
    return await refresh(after.second, cookie)
  }
  const SECRET = 'a secret for tests only, of more than thirty-two bytes'
  t.same(await Promise.all([restart({ SECRET }), restart({})]), [200, 401])
})

t.test('both processes end with the program: by Ctrl-C, a signal, or a crash', { skip: skip.redis }, async (t) => {
  const { url } = await startDatabase(t, 'redis')
  await Promise.all(([['SIGINT', 'all'], ['SIGTERM', 'program'], ['SIGKILL', 'program']] as const).map(async ([name, to]) => {
    const { first, second, signal, ended } = await start(t, 'redis', url)
    t.equal((await fetch(first)).status, 200)
    signal(name, to)
    for (const address of [first, second]) {
      await until(t, 0, `${name}: nothing listens any more`, async () => await fetch(address).then(({ status }) => status, () => 0))
    }
    t.ok(await Promise.race([ended, setTimeout(maximumWait, undefined, { ref: false })]), `${name}: no process is left`)
  }))
})

/** A server on a port, until the test ends; undefined where the port is in use. */
async function occupy (t: Test, port: number) {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch {
    return undefined
  }
  const close = async () => { if (server.listening) await new Promise((resolve) => server.close(resolve)) }
  t.teardown(close)
  return { close }
}

/** A free port before one that is in use. Below those that systems select themselves, for example for the connections of other tests. */
async function portBeforeOneInUse (t: Test): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_000)
    const first = await occupy(t, port)
    const second = await occupy(t, port + 1)
    await first?.close()
    if (first !== undefined && second !== undefined) return port
  }
}

t.test('the second process has the next port; if it is in use, the program says so and ends both', { skip: skip.redis }, async (t) => {
  const { url } = await startDatabase(t, 'redis')
  const port = await portBeforeOneInUse(t)
  const { code, errors } = await launch(t, 'redis', { REDIS_URL: url, PORT: `${port}` }).ended
  t.equal(code, 1)
  t.equal(errors, `The service cannot start: listen EADDRINUSE: address already in use 127.0.0.1:${port + 1}.\n`)
})

t.test('what is missing for a start is said in one line, without a password', async (t) => {
  const port = await portBeforeOneInUse(t)
  const refused = `connect ECONNREFUSED 127.0.0.1:${port}.\n`
  const cases: Array<[name: string, environment: NodeJS.ProcessEnv, message: string]> = [
    ['redis', {}, 'Set REDIS_URL to the address of a Redis server, as in: REDIS_URL=redis://127.0.0.1:6379 npm run start:redis\n'],
    ['postgres', { DATABASE_URL: '' }, 'Set DATABASE_URL to the address of a PostgreSQL server, as in: DATABASE_URL=postgres://postgres@127.0.0.1:5432/postgres npm run start:postgres\n'],
    ['constructor', {}, 'Name the store, redis or postgres, as in: node examples/web/two-processes.js redis\n'],
    ['redis', { REDIS_URL: `redis://:hidden@127.0.0.1:${port}` }, `The Redis server of REDIS_URL cannot be used: ${refused}`],
    ['postgres', { DATABASE_URL: `postgres://postgres:hidden@127.0.0.1:${port}/postgres` }, `The PostgreSQL server of DATABASE_URL cannot be used: ${refused}`]
  ]
  await Promise.all(cases.map(async ([name, environment, message]) => {
    t.same(await launch(t, name, environment).ended, { code: 1, output: '', errors: message }, `${name} with ${Object.keys(environment).join() || 'no variable'}`)
  }))
})
