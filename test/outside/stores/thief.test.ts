/** A thief who hammers with a refresh token that was replaced, against real databases: he is found when the owner has used its successor. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { bearer, build, listen, otherSecret, payloadOf } from '../../helper.ts'
import { kinds } from '../../sessions/stores/backends.ts'
import { sessionEvents } from '../../sessions/helper.ts'

interface Tokens { access_token: string, refresh_token: string }

for (const [name, kind] of Object.entries(kinds).filter(([name]) => ['ioredis', 'node-redis', 'pg', 'postgres.js'].includes(name))) {
  // Promise: sessions/thief-who-hammers
  t.test(`${name}: a thief who sends a replaced refresh token again and again ends the session, and his tokens with it`, { skip: kind.skip }, async (t) => {
    const { server, endWindows, confirmed } = await kind.start(t)
    // Two processes, and a client for each.
    const apps = await Promise.all([1, 2].map(async () => {
      const app = await build(t, { sessions: { store: await kind.connect(t, server.url), secret: otherSecret, poll: 1 } })
      app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
      return { app, origin: `http://127.0.0.1:${await listen(app)}` }
    }))
    const post = async (origin: string, path: string, body: object) => {
      const response = await fetch(`${origin}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
      return { status: response.status, tokens: await response.json() as Tokens }
    }
    const [own, other] = apps.map(({ origin }) => origin) as [string, string]
    const events = sessionEvents(t)
    for (let theft = 0; theft < 2; theft++) {
      const { tokens: stolen } = await post(own, '/auth', { username: 'ada', password: 'lovelace' })
      const { tokens: owners } = await post(own, '/auth/refresh', stolen)
      await endWindows()
      events.length = 0
      const got: Tokens[] = []
      const over = new AbortController()
      const hammering = Promise.all(Array.from({ length: 8 }, async (_, caller) => {
        while (!over.signal.aborted) {
          const { status, tokens } = await post(caller % 2 === 0 ? own : other, '/auth/refresh', stolen)
          if (status === 200) got.push(tokens)
          await turn()
        }
      }))
      while (got.length < 8) await turn()
      const use = async (token: string) => (await fetch(own, { headers: bearer(token) })).status
      t.equal(await use(owners.access_token), 200)
      // By the poll of the process, while he goes on.
      while (!(await confirmed()).includes(String(payloadOf(owners.access_token).sid))) await turn()
      await endWindows()
      while (!events.some(({ type }) => type === 'reused')) await turn()
      over.abort()
      await hammering
      t.same(events.filter(({ type }) => type === 'reused').length, 1)
      for (const { refresh_token: token } of [...got.slice(-3), owners, stolen]) t.equal((await post(own, '/auth/refresh', { refresh_token: token })).status, 401)
      // The process that has not ended the session knows it after a poll.
      while (await use(got.at(-1)!.access_token) !== 401) await turn()
    }
  })
}
