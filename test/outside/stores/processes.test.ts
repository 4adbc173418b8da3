/** Processes of their own, with the built package, that share the sessions in one database. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { skip } from '../../database.ts'
import { payloadOf } from '../../helper.ts'
import { postgresBackend, redisBackend, redisOperator, type Backend } from '../../sessions/stores/backends.ts'
import { Process, until } from './process.ts'

type Kind = 'redis' | 'postgres'

/** Holds what a server is asked, so that a process can be killed meanwhile. */
interface Hold {
  /** Resolves when a refresh waits. */
  waits (): Promise<void>
  release (): Promise<void>
}

interface Setup { readonly backend: Backend, hold (): Promise<Hold> }

const setups: Record<Kind, (t: Test) => Promise<Setup>> = {
  async redis (t) {
    const backend = await redisBackend(t)
    const operator = redisOperator(t, backend.server.url)
    return {
      backend,
      async hold () {
        const pid = Number(/process_id:(\d+)/.exec(await operator.info('server'))?.[1])
        process.kill(pid, 'SIGSTOP')
        // The command is in the socket of the server.
        return { waits: async () => { await wait(100) }, release: async () => { process.kill(pid, 'SIGCONT') } }
      }
    }
  },
  async postgres (t) {
    const backend = await postgresBackend(t)
    return {
      backend,
      async hold () {
        const client = await backend.pool.connect()
        await client.query('BEGIN; SELECT FROM token_auth_sessions FOR UPDATE')
        return {
          waits: async () => await until(async () => (await backend.pool.query("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'")).rows.length > 0),
          release: async () => {
            await client.query('COMMIT')
            client.release()
          }
        }
      }
    }
  }
}

for (const kind of ['redis', 'postgres'] as const) {
  // Promise: databases/request-many-times
  t.test(`${kind}: of 10,000 requests at once with one refresh token in four processes, one rotates, and all get the same next token`, { skip: skip[kind] }, async (t) => {
    const { backend } = await setups[kind](t)
    const processes = await Promise.all(Array.from({ length: 4 }, async () => await Process.start(t, { kind, url: backend.server.url })))
    const { access_token: accessToken, refresh_token: first } = await processes[0]!.logIn()
    const answers = (await Promise.all(processes.map(async (process) => await Promise.all(Array.from({ length: 2500 }, () => process.refresh(first)))))).flat()
    t.equal(answers.length, 10_000)
    t.same([...new Set(answers.map(({ status }) => status))], [200])
    const next = [...new Set(answers.map(({ body }) => String(JSON.parse(body).refresh_token)))]
    t.equal(next.length, 1)
    t.not(next[0], first)
    t.same(await backend.counters(), { [String(payloadOf(accessToken).sid)]: 1 })
    const total: Record<string, number> = {}
    for (const process of processes) for (const [type, times] of Object.entries(await process.events())) total[type] = (total[type] ?? 0) + times
    t.same(total, { started: 1, refreshed: 1, repeated: 9999 })
    // The next token is good in every process.
    await backend.endWindows()
    for (const process of processes) t.equal((await process.refresh(next[0]!)).status, 200)
  })

  // Promise: databases/process-application-killed
  t.test(`${kind}: a process that is killed before, while or after a session is advanced costs nothing, however late its client tries again`, { skip: skip[kind] }, async (t) => {
    const { backend, hold } = await setups[kind](t)
    const other = await Process.start(t, { kind, url: backend.server.url })
    const afterwards = { before: 'refreshed', while: 'repeated', after: 'repeated' }
    const expected: Record<string, number> = {}
    const used: string[] = []
    for (const [stopAt, outcome] of Object.entries(afterwards)) {
      const { refresh_token: token } = await other.logIn()
      const killed = await Process.start(t, { kind, url: backend.server.url, stopAt })
      const held = stopAt === 'while' ? await hold() : undefined
      await killed.dieIn(token, async () => { await held?.waits() })
      await held?.release()
      if (stopAt === 'while') await until(async () => Object.values(await backend.counters()).filter((n) => n === 1).length === 2)
      t.equal((await other.refresh(token)).status, 200, stopAt)
      expected[outcome] = (expected[outcome] ?? 0) + 1
      t.match(await other.events(), expected, stopAt)
      used.push(token)
    }
    await backend.endWindows()
    for (const token of used) t.equal((await other.refresh(token)).status, 200)
    t.match(await other.events(), { ...expected, refreshed: 4 }, 'after the window, too')
  })

  // Promise: databases/logout-process
  t.test(`${kind}: a logout in one process ends the access token in another within a poll, and the refresh token at once`, { skip: skip[kind] }, async (t) => {
    const { backend } = await setups[kind](t)
    const [one, other] = await Promise.all([Process.start(t, { kind, url: backend.server.url }), Process.start(t, { kind, url: backend.server.url })])
    const { access_token: accessToken, refresh_token: refreshToken } = await one.logIn()
    t.equal(await other.get(accessToken), 200)
    const start = performance.now()
    t.equal(await one.logOut(refreshToken), 204)
    t.equal(await one.get(accessToken), 401)
    t.equal((await other.refresh(refreshToken)).status, 401)
    await until(async () => await other.get(accessToken) === 401)
    // A poll is a second. Much more is for a slow machine.
    t.ok(performance.now() - start < 20_000)
  })
}
