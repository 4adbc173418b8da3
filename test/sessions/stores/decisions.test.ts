// @slow
/** The stores that have the rules of rotation once more, in Lua and in SQL, decide as `decide` and `isToConfirm` do in each small state. */
import assert from 'node:assert/strict'
import t, { type Test } from 'tap'
import { postgresSessions, postgresSessionSchema, redisSessions, type SessionRules, type SessionStore } from '../../../lib/index.ts'
import { confirm, decide, isToConfirm, type Change, type Generations } from '../../../lib/sessions/rotation.ts'
import { skip, startDatabase } from '../../database.ts'
import { poolOf, redisOperator } from './backends.ts'

const hour = 3_600_000
const rules: SessionRules = { graceMs: 60_000, idleMs: hour, keepMs: hour, maxPerUser: 1000 }
const latest = 5
const presented = [1, 2, 3, 4, 5, 6, 7]

/** A session, as a store has it. */
interface Stored { readonly family: Generations, readonly windowAt: number, readonly usedAt: number }

/** A store, and what an operator of its server reads and writes. */
interface Server {
  readonly store: SessionStore
  now (): Promise<number>
  write (sid: string, stored: Stored): Promise<void>
  read (sid: string): Promise<Stored | undefined>
}

async function redis (t: Test): Promise<Server> {
  const operator = redisOperator(t, (await startDatabase(t, 'redis')).url)
  await operator.ping()
  const keyOf = async (sid: string) => (await operator.keys(`*:s:${sid}`))[0] ?? ''
  return {
    store: redisSessions(operator),
    async now () {
      const [seconds, microseconds] = await operator.time()
      return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)
    },
    async write (sid, { family: { n, parent, siblings, confirmed }, windowAt, usedAt }) {
      await operator.hset(await keyOf(sid), { n, p: parent, f: siblings, k: Number(confirmed), r: windowAt, l: usedAt })
    },
    async read (sid) {
      const { n, p, f, k, r, l } = await operator.hgetall(await keyOf(sid))
      return n === undefined ? undefined : { family: { n: Number(n), parent: Number(p), siblings: Number(f), confirmed: k === '1' }, windowAt: Number(r), usedAt: Number(l) }
    }
  }
}

async function postgres (t: Test): Promise<Server> {
  const pool = poolOf(t, (await startDatabase(t, 'postgres')).url)
  await pool.query(postgresSessionSchema())
  return {
    store: postgresSessions(pool),
    async now () {
      return Number((await pool.query('SELECT floor(extract(epoch from clock_timestamp()) * 1000) AS now')).rows[0].now)
    },
    async write (sid, { family: { n, parent, siblings, confirmed }, windowAt, usedAt }) {
      await pool.query('UPDATE token_auth_sessions SET n = $2, parent = $3, siblings = $4, confirmed = $5, rotated_at = to_timestamp($6::float8 / 1000), used_at = to_timestamp($7::float8 / 1000) WHERE sid = $1',
        [sid, n, parent, siblings, confirmed, windowAt, usedAt])
    },
    async read (sid) {
      const { rows: [row] } = await pool.query('SELECT n::int, parent, siblings, confirmed, extract(epoch from rotated_at) * 1000 AS rotated, extract(epoch from used_at) * 1000 AS used FROM token_auth_sessions WHERE sid = $1 AND ended_at IS NULL', [sid])
      if (row === undefined) return undefined
      const { n, parent, siblings, confirmed, rotated, used } = row
      return { family: { n, parent, siblings, confirmed }, windowAt: Math.round(rotated), usedAt: Math.round(used) }
    }
  }
}

/** All states with a few members, with the window open and closed. */
const states = [1, 2, 3].flatMap((parent) => Array.from({ length: parent }, (_, siblings) => siblings).flatMap((siblings) =>
  [false, true].flatMap((confirmed) => [false, true].map((isOpen) => ({ family: { n: latest, parent, siblings, confirmed }, isOpen })))))

let count = 0

/** Puts a session into a state. @returns its id, and what the store has of it */
async function prepare ({ store, now, write }: Server, family: Generations, isOpen: boolean): Promise<{ sid: string, before: Stored }> {
  const sid = String(count++).padStart(4, '0')
  await store.create({ sid, user: '1', lifetimeMs: hour, data: '{}' }, rules)
  const time = await now()
  const before = { family, windowAt: time - (isOpen ? 1000 : 2 * rules.graceMs), usedAt: time - 100_000 }
  await write(sid, before)
  return { sid, before }
}

/** What of a session a change has changed. */
function difference ({ windowAt, usedAt }: Stored, after: Stored | undefined): Change | undefined {
  return after && { family: after.family, beginsWindow: after.windowAt > windowAt, isUse: after.usedAt > usedAt }
}

for (const [name, { start, skip: reason }] of Object.entries({ Redis: { start: redis, skip: skip.redis }, PostgreSQL: { start: postgres, skip: skip.postgres } })) {
  t.test(`${name}: a generation that is presented has the result and the effect of the table, in every small state, with a window and without`, { skip: reason }, async (t) => {
    const server = await start(t)
    const { store, read } = server
    const outcomes = new Set<string>()
    for (const { family, isOpen } of states) {
      for (const graceMs of isOpen ? [rules.graceMs] : [rules.graceMs, 0]) {
        await Promise.all(presented.map(async (n) => {
          const { sid, before } = await prepare(server, family, isOpen)
          const { outcome, n: answered, change = { family, beginsWindow: false, isUse: false } } = decide(family, n, isOpen, graceMs === 0)
          const state = JSON.stringify({ ...family, n, isOpen, graceMs })
          t.same(await store.advance('1', sid, n, { ...rules, graceMs }), { outcome, n: answered }, state)
          t.same(difference(before, await read(sid)), outcome === 'reused' ? undefined : change, state)
          outcomes.add(outcome)
        }))
      }
    }
    t.equal(outcomes.size, 5)
  })

  t.test(`${name}: a confirmation has the effect that isToConfirm says, in every small state`, { skip: reason }, async (t) => {
    const server = await start(t)
    for (const { family, isOpen } of states) {
      const given = await Promise.all(presented.map(async (n) => ({ n, ...await prepare(server, family, isOpen) })))
      await server.store.confirm(given.map(({ sid, n }) => ({ sid, user: '1', n })), rules)
      for (const { sid, n, before } of given) {
        const change = isToConfirm(family, n) ? confirm(family) : { family, beginsWindow: false, isUse: false }
        assert.deepEqual(difference(before, await server.read(sid)), change, JSON.stringify({ ...family, n, isOpen }))
      }
    }
  })
}
