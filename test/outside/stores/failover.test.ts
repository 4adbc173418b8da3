/** A managed Redis makes another server its primary, and leaves the connections to the old one, which is a replica now, open. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import t, { type Test } from 'tap'
import { redisSessions } from '../../../lib/index.ts'
import { Network, skip, startDatabase } from '../../database.ts'
import { build, holdTimers, together } from '../../helper.ts'
import { refresh, started } from '../../sessions/helper.ts'
import { redisOperator } from '../../sessions/stores/backends.ts'

const wait = () => new Promise(setImmediate)

/** Two servers, the second of which follows the first, and the name of the primary. */
async function twoServers (t: Test) {
  const urls: string[] = []
  for (const parameters of [['--repl-diskless-sync-delay', '0'], []]) urls.push((await startDatabase(t, 'redis', ...parameters)).url)
  const [first, second] = urls as [string, string]
  const operators = [redisOperator(t, first), redisOperator(t, second)] as const
  const follow = async (replica: Redis, primary: string) => {
    const { hostname, port } = new URL(primary)
    await replica.replicaof(hostname, Number(port))
    while (!/master_link_status:up/.test(await replica.info('replication'))) await wait()
  }
  await follow(operators[1], first)
  const network = await Network.to(t, first)
  /** The server that was the replica is the primary from now on, and the other way round. */
  const failOver = async (from: 0 | 1) => {
    const to = from === 0 ? 1 : 0
    // It comes after all that other connections have written.
    await operators[from].incr('failovers')
    await operators[from].call('WAIT', 1, 5000)
    await operators[to].replicaof('NO', 'ONE')
    await follow(operators[from], urls[to]!)
  }
  return { network, urls, operators, failOver }
}

/** Makes time pass for this process. */
function passTime (t: Test): (milliseconds: number) => void {
  const real = performance.now.bind(performance)
  let passed = 0
  t.intercept(performance, 'now', { value: () => real() + passed })
  return (milliseconds) => { passed += milliseconds }
}

/** How each library calls what a host does with its client. */
const clients = {
  async ioredis (t: Test, url: string) {
    const client = new Redis(url)
    t.teardown(() => { client.disconnect() })
    await once(client, 'ready')
    return { store: redisSessions(client), get: async (key: string) => await client.get(key), blocked: async (list: string) => (await client.blpop(list, 0))?.[1], id: async () => Number(await client.client('ID')) }
  },
  async 'ioredis with lazyConnect' (t: Test, url: string) {
    const client = new Redis(url, { lazyConnect: true })
    t.teardown(() => { client.disconnect() })
    await client.connect()
    return { store: redisSessions(client), get: async (key: string) => await client.get(key), blocked: async (list: string) => (await client.blpop(list, 0))?.[1], id: async () => Number(await client.client('ID')) }
  },
  async 'node-redis' (t: Test, url: string) {
    const client = createClient({ url })
    client.on('error', () => {})
    await client.connect()
    t.teardown(() => { client.destroy() })
    return { store: redisSessions(client), get: async (key: string) => await client.get(key), blocked: async (list: string) => (await client.blPop(list, 0))?.element, id: async () => Number(await client.clientId()) }
  }
}

const connectionsOf = async (operator: Redis) => String(await operator.client('LIST')).trim().split('\n').filter((line) => !/flags=[SM]/.test(line)).length

for (const [name, connect] of Object.entries(clients)) {
  // Promise: databases/primary-changes
  t.test(`${name}: refreshes go on when the server of open connections has become a replica, without a restart, also a second time`, { skip: skip.redis }, async (t) => {
    const { network, urls, operators, failOver } = await twoServers(t)
    const { store, get, id } = await connect(t, network.url)
    const before = await id()
    const pass = passTime(t)
    const app = await build(t, together({ sessions: { store, poll: 60 } }, {}))
    let { refresh_token: token } = await started(app)
    for (const from of [0, 1] as const) {
      await failOver(from)
      network.redirect(urls[from === 0 ? 1 : 0]!)
      const answers = await Promise.all([refresh(app, token), started(app), started(app)])
      t.equal(answers[0].statusCode, 200)
      token = answers[0].json().refresh_token
      t.equal((await refresh(app, token)).statusCode, 200, 'what was given is in the new primary')
      await t.resolves(store.endedSince(null, { graceMs: 0, idleMs: 60_000, keepMs: 60_000, maxPerUser: 1 }))
      // At most one connection is opened in a second.
      pass(1000)
    }
    t.equal(await id(), before, 'the connection of the application stays')
    t.equal(await get('none'), null)
    const [one, other] = operators
    const open = async () => [await connectionsOf(one), await connectionsOf(other)]
    // The one of the application and one of ours, beside that of the operator.
    while (String(await open()) !== '3,1') await wait()
    await app.close()
    while ((await open())[0] !== 2) await wait()
    t.equal(await id(), before, 'it is closed with the application, and the client of the application is not')
  })

  // Promise: databases/replica-without-primary
  t.test(`${name}: a service that only reads takes no answer of a former primary that has lost the new one, and goes on with the new one as soon as its name leads there`, { skip: skip.redis }, async (t) => {
    const { network, urls, operators, failOver } = await twoServers(t)
    const { store } = await connect(t, network.url)
    const pass = passTime(t)
    const issuer = redisSessions(operators[1])
    const keep = { graceMs: 0, idleMs: 60_000, keepMs: 60_000, maxPerUser: 1 }
    await failOver(0)
    const { cursor } = await store.endedSince(null, keep)
    // A port that nobody listens to.
    await operators[0].replicaof('127.0.0.1', 1)
    await issuer.create({ sid: 'a', user: '1', lifetimeMs: 60_000, data: '{}' }, keep)
    await issuer.end('1', { sid: 'a' }, keep)
    for (const from of [null, cursor]) await t.rejects(store.endedSince(from, keep), { message: /^MASTERDOWN This server is a replica, and its link to the primary is down\./ })
    network.redirect(urls[1]!)
    pass(1000)
    t.same((await store.endedSince(cursor, keep)).ended, ['a'])
  })

  t.test(`${name}: a command of the application that waits on its own connection is not dropped`, { skip: skip.redis }, async (t) => {
    const { network, urls, operators, failOver } = await twoServers(t)
    const { store, blocked } = await connect(t, network.url)
    const app = await build(t, together({ sessions: { store, poll: 60 } }, {}))
    const { refresh_token: token } = await started(app)
    await failOver(0)
    network.redirect(urls[1]!)
    // Sent before the call of the store, so that it is the first one on that connection; a replica refuses it at once.
    await t.rejects(blocked('list'), /READONLY/)
    t.equal((await refresh(app, token)).statusCode, 200)
    t.equal(await operators[1].llen('list'), 0)
  })

  // Promise: databases/after-failover-redis
  t.test(`${name}: while no server of that name takes writes, calls are 503; they go on as soon as one does`, { skip: skip.redis }, async (t) => {
    const { network, urls, failOver } = await twoServers(t)
    const { store } = await connect(t, network.url)
    const pass = passTime(t)
    const app = await build(t, together({ sessions: { store, poll: 60 } }, {}))
    const { refresh_token: token } = await started(app)
    await failOver(0)
    for (let tries = 0; tries < 3; tries++) {
      const answer = await refresh(app, token)
      t.equal(answer.statusCode, 503)
      t.equal(answer.headers['retry-after'], '5')
    }
    network.redirect(urls[1]!)
    pass(1000)
    t.equal((await refresh(app, token)).statusCode, 200)
  })

  t.test(`${name}: a call waits for a new connection for some seconds, and a later one uses it`, { skip: skip.redis }, async (t) => {
    const { network, urls, failOver } = await twoServers(t)
    const { store } = await connect(t, network.url)
    const app = await build(t, together({ sessions: { store, poll: 60 } }, {}))
    const { refresh_token: token } = await started(app)
    await failOver(0)
    const lost = await Network.to(t, urls[1]!)
    lost.hang()
    network.redirect(lost.url)
    const expire = holdTimers(t, 3000)
    const answered = new AbortController()
    const first = refresh(app, token).finally(() => { answered.abort() })
    while (!answered.signal.aborted) {
      expire()
      await wait()
    }
    t.equal((await first).statusCode, 503)
    lost.resume()
    while ((await refresh(app, token)).statusCode !== 200) await wait()
    const again = await started(app)
    t.equal((await refresh(app, again.refresh_token)).statusCode, 200)
  })
}

t.test('a replica whose primary is away, and which must not answer then, is left, too', { skip: skip.redis }, async (t) => {
  const { network, urls, operators, failOver } = await twoServers(t)
  const { store } = await clients.ioredis(t, network.url)
  const app = await build(t, together({ sessions: { store, poll: 60 } }, {}))
  const { refresh_token: token } = await started(app)
  await failOver(0)
  await operators[0].config('SET', 'replica-serve-stale-data', 'no')
  await operators[0].replicaof('127.0.0.1', 1)
  network.redirect(urls[1]!)
  t.equal((await refresh(app, token)).statusCode, 200)
})

for (const [client, code] of [
  ['ioredis', "const { Redis } = await import('ioredis'); const client = new Redis(url); await new Promise((resolve) => { client.once('ready', resolve) })"],
  ['node-redis', "const { createClient } = await import('redis'); const client = createClient({ url }); await client.connect()"]
] as const) {
  for (const isAway of [false, true]) {
    t.test(`${client}: a process that closes its client, and never the application, ends${isAway ? ', also where the server is away' : ''}`, { skip: skip.redis }, async (t) => {
      const { network, urls, failOver } = await twoServers(t)
      await failOver(0)
      const script = `const url = '${network.url}'
        ${code}
        const { redisSessions } = await import('./lib/index.ts')
        const store = redisSessions(client)
        client.on('error', () => {})
        process.stdin.once('data', async () => {
          await store.list('1', {})
          const away = new Promise((resolve) => { client.once('reconnecting', resolve) })
          console.log('listed')
          if (${isAway}) await away
          setImmediate(() => {
            client.disconnect ? client.disconnect() : client.destroy()
            process.stdin.unref()
          })
        })
        console.log('ready')`
      const child = spawn(process.execPath, ['--input-type=module', '--require', './test/typescript.cjs', '-e', script], { stdio: ['pipe', 'pipe', 'inherit'] })
      t.teardown(() => child.kill())
      await once(child.stdout, 'data')
      network.redirect(urls[1]!)
      child.stdin.write('go\n')
      if (isAway) {
        await once(child.stdout, 'data')
        network.close()
      }
      const [code_] = await once(child, 'exit')
      t.equal(code_, 0)
    })
  }
}
