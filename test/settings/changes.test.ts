// @slow
/**
 * docs/changing-settings.md: what a deployment with another setting means for those who are logged in. Its lists are what
 * happens here to clients of an application that closes, when one with the new settings takes its place.
 * `UPDATE_CHANGES=1 npm run test:unit -- test/settings/changes.test.ts` writes them, but not in CI.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import Fastify, { type FastifyInstance, type preHandlerAsyncHookHandler } from 'fastify'
import t from 'tap'
import tokenAuth, { memorySessions, type SessionStore } from '../../lib/index.ts'
import { handlerNames } from '../../lib/host/handlers.ts'
import { sessionsShape } from '../../lib/sessions/settings.ts'
import { settingNames, settingsSchema, type SettingName } from '../../lib/settings/schema.ts'
import { authenticate, caseOf, host, mistyped, refusal, secret, setClock, warnings } from '../helper.ts'
import { examplesOf } from '../programs.ts'
import { ofAnotherProcess } from '../sessions/helper.ts'
import { changes, life, noon, sessionSecret, type Change, type Options } from './changes.ts'
import { Client, knowledgeOf, type Kind, type Knowledge, type Process } from './clients.ts'
import { Jar } from './jar.ts'

const namesOf = ({ of }: Change): readonly string[] => typeof of === 'string' ? [of] : of
const titleOf = (change: Change, ...more: unknown[]) => caseOf(namesOf(change).slice(0, 3).join(' '), change.said, ...more)

const userOf = (id: number) => ({ user_id: id, sub: String(id) })

/** The options of a deployment. Each part comes before those that precede it. */
function optionsOf (kind: Kind, store: SessionStore, ...parts: ReadonlyArray<Options | undefined>): Options {
  let sessions: Options['sessions'] = {}
  for (const part of parts) if (part?.sessions !== undefined) sessions = part.sessions === null ? null : { ...sessions, ...part.sessions }
  const usual = {
    secret,
    // Fewer routes.
    strictSlashes: true,
    cookieSet: kind !== 'header',
    authenticate: ({ body }: { body: { username: string } }) => userOf(Number(body.username)),
    retrieveUser: (_request: unknown, payload: { user_id?: number, sub?: string }) => userOf(Number(payload.user_id ?? payload.sub))
  }
  // Another object for each process, unless the change is that of the store.
  const option = sessions === null ? undefined : { secret: sessionSecret, store: ofAnotherProcess(store), ...sessions }
  return Object.assign({}, usual, ...parts, { sessions: option })
}

/** Starts an application with guarded routes, and one more of each that renews, where it can. */
async function start ({ maxAge: hasMaxAge, scopedGuards, ...options }: Options): Promise<Process> {
  const app = Fastify()
  await app.register(tokenAuth, mistyped(options))
  const settings = Object.fromEntries(settingNames.map((name) => [name, options[name] ?? settingsSchema.properties[name].default])) as Record<SettingName, never>
  const instance: FastifyInstance['tokenAuth'] = Reflect.get(app, settings.instanceName)
  const hasSessions = options.sessions !== undefined
  const isRenewing = hasSessions && settings.cookieSet && settings.authMode
  const guards = new Map<string, (renew: boolean) => preHandlerAsyncHookHandler>([['/app/notes', (renew) => instance.protect({ renew })]])
  if (settings.scopesEnabled && scopedGuards !== false) guards.set('/app/scoped', (renew) => instance.scoped('read', { renew }))
  if (settings.claimAuthTime && hasMaxAge !== false) guards.set('/app/recent', (renew) => instance.protect({ renew, maxAge: 30 * 86_400 }))
  for (const [url, guard] of guards) {
    app.get(url, { onRequest: guard(false) }, async () => 'reached')
    if (isRenewing) app.get(`${url}-page`, { onRequest: guard(true) }, async () => 'reached')
  }
  await app.ready()
  return {
    app,
    knowledge: knowledgeOf(settings),
    routes: [...guards.keys()],
    isOpen: !settings.doProtection,
    hasSessions: hasSessions && settings.authMode,
    hasRefresh: settings.authMode && (hasSessions || settings.refreshTokenEnabled)
  }
}

/** The time of the applications, which begins anew for each client. */
interface Clock { pass: (seconds: number) => void, restart: (after?: number) => void }

/** What becomes of a client, from the best to the worst. */
const outcomes = ['nothing', 'refresh', 'later', 'login later', 'login', 'locked'] as const
type Outcome = typeof outcomes[number]

interface Fate {
  readonly outcome: Outcome
  /** How often it logs in until it stays logged in, if it logs in at once. */
  readonly logins: number
  /** Whether a logout ends the session from before. */
  readonly logsOut: boolean
  /** What its first request was answered. */
  readonly status: number
}

/** Whether a client that is logged in stays so, also when its access token expires. */
async function stays (client: Client, process: Process, clock: Clock, rounds: number): Promise<boolean> {
  // Pages notice one renewal later that their cookies are refused.
  for (let round = client.hasPages ? -1 : 0; round < rounds; round++) {
    if (!client.hasPages && await client.refresh(process) !== 200) return false
    if (await client.visit(process) !== 200) return false
    clock.pass(life + 1)
  }
  return true
}

/** How often a client has to log in until it stays logged in; Infinity if it never does. */
async function loginsOf (client: Client, process: Process, clock: Clock): Promise<number> {
  for (let logins = 1; logins <= 3; logins++) {
    const isIn = await client.login(process) === 200 && await client.visit(process) === 200
    if (isIn && (!process.hasRefresh || await stays(client, process, clock, 1))) return logins
  }
  return Infinity
}

/** One goes on, one logs out, and one logs in. */
type Clients = Record<'first' | 'leaving' | 'entering', Client>

/** @param isExpired whether the access tokens have expired before the change */
async function fateOf ({ first, leaving, entering }: Clients, process: Process, clock: Clock, isExpired: boolean, hadRefresh: boolean): Promise<Fate> {
  const status = await first.visit(process)
  // Nobody refreshes for a 403, and pages cannot.
  let outcome: Outcome = status === 200 || isExpired ? 'nothing' : first.hasPages || status === 403 ? 'later' : 'refresh'
  if (outcome === 'later') clock.pass(life + 1)
  let logins = 1
  if (!(process.hasRefresh && await stays(first, process, clock, 2))) {
    outcome = status !== 200 ? 'login' : hadRefresh ? 'login later' : 'nothing'
    logins = await loginsOf(first, process, clock)
  }
  await leaving.logout(process)
  const logsOut = await leaving.visit(process) !== 200 && (leaving.hasPages || await leaving.refresh(process) !== 200)
  // Pages have the login and the cookies of those with a script.
  if (!entering.hasPages) logins = Math.max(logins, await loginsOf(entering, process, clock))
  return { outcome: logins === Infinity ? 'locked' : outcome, logins, logsOut, status }
}

let count = 0
async function clientsOf (kind: Kind, change: Change, old: Process, knows?: Knowledge, isOneUser = false): Promise<Clients> {
  const site = `${change.isPlain === true ? 'http' : 'https'}://app.shop.example.org`
  const made = () => new Client(kind, site, isOneUser ? '1' : String(++count), knows)
  const clients = { first: made(), leaving: made(), entering: made() }
  for (const client of Object.values(clients)) {
    assert.equal(await client.login(old), 200, titleOf(change, kind))
    assert.equal(await client.visit(old), 200, titleOf(change, kind))
  }
  return clients
}

/** Whether clients can talk to old and new processes by turns: without noticing, with a refresh for each change, or not. */
const togetherness = ['yes', 'refreshes', 'no'] as const
type Together = typeof togetherness[number]

async function together (change: Change, kind: Kind, old: Process, next: Process, clock: Clock): Promise<Together> {
  const { first, leaving: other } = await clientsOf(kind, change, old)
  if (await other.login(next) !== 200) return 'no'
  let result: Together = 'yes'
  for (const [client, processes] of [[first, [next, old, next]], [other, [old, next]]] as const) {
    for (const process of processes) {
      if (await client.visit(process) !== 200) result = 'refreshes'
      if (await client.refresh(process) !== 200 || await client.visit(process) !== 200) return 'no'
      clock.pass(31)
    }
  }
  return result
}

interface Driven {
  readonly kind: Kind
  readonly fate: Fate
  /** Whether clients that do not know the new value fare worse. */
  readonly isToKnow: boolean
  /** Whether tokens of a session that has ended are accepted again. */
  readonly isAcceptedAgain: boolean
  readonly atOnce: Together
}

/** What happens to clients of one application. */
async function drive (change: Change, kinds: readonly [Kind, ...Kind[]], clock: Clock): Promise<Driven[]> {
  clock.restart()
  const store = memorySessions()
  const [kind] = kinds
  const old = await start(optionsOf(kind, store, change.base, change.from))
  // Somebody who has copied the tokens of a user who then logs out.
  const { first: leaver } = await clientsOf(kind, change, old)
  const thief = leaver.copy()
  await leaver.logout(old)
  const next = await start(optionsOf(kind, store, change.base, change.to))
  const isAcceptedAgain = old.hasSessions && !old.isOpen && !next.isOpen && (await thief.visit(next) === 200 || await thief.refresh(next) === 200)
  const isKnown = JSON.stringify(old.knowledge) === JSON.stringify(next.knowledge)
  const atOnce = await together(change, kind, old, next, clock)
  clock.restart()
  const isOneUser = namesOf(change).includes('sessions.maxPerUser')
  const clients = new Map<Kind, { current: Clients, outdated: Clients | undefined }>()
  for (const kind of kinds) {
    const current = await clientsOf(kind, change, old, undefined, isOneUser)
    clients.set(kind, { current, outdated: isKnown ? undefined : await clientsOf(kind, change, old, old.knowledge) })
  }
  await old.app.close()
  const found: Driven[] = []
  const { pause = 60 } = change
  const meet = async (clients: Clients) => {
    clock.restart(pause)
    return await fateOf(clients, next, clock, pause > life, old.hasRefresh)
  }
  for (const [kind, { current, outdated }] of clients) {
    const fate = await meet(current)
    const other = outdated === undefined ? fate : await meet(outdated)
    found.push({ kind, fate, isToKnow: JSON.stringify(other) !== JSON.stringify(fate), isAcceptedAgain, atOnce })
    // What became of the old session: nobody who logged out may be in, and it ends unless its tokens are not read any more.
    const isKept = ['nothing', 'refresh', 'later', 'login later'].includes(fate.outcome)
    if (isKept && old.hasSessions && next.hasSessions && !next.isOpen) assert.ok(fate.logsOut, titleOf(change, kind))
  }
  await next.app.close()
  return found
}

/** The clients of a change, by the application that they share. */
function groupsOf ({ of, base, from, to, kinds }: Change): Array<[Kind, ...Kind[]]> {
  const hasSessions = [base, from, to].every((part) => part?.sessions !== null) && to.authMode !== false
  const isOfCookies = typeof of === 'string' && of.startsWith('cookie')
  const all: readonly Kind[] = kinds ?? [...(isOfCookies ? [] : ['header' as const]), 'cookies', ...(hasSessions ? ['pages' as const] : [])]
  const browsers = all.filter((kind) => kind !== 'header')
  return [...(all.includes('header') ? [['header'] as [Kind]] : []), ...(browsers.length === 0 ? [] : [browsers as [Kind, ...Kind[]]])]
}

interface Row {
  readonly change: Change
  readonly list: string
  readonly notes: readonly string[]
}

/** What happened to the clients, and on which list of the page it is. */
function rowOf (change: Change, driven: readonly Driven[]): Row {
  const worst = <T>(order: readonly T[], values: readonly T[]) => order[Math.max(...values.map((value) => order.indexOf(value)))]!
  const scripts = driven.filter(({ kind }) => kind !== 'pages')
  const outcome = worst(outcomes, scripts.map(({ fate }) => fate.outcome))
  const pages = driven.find(({ kind }) => kind === 'pages')?.fate.outcome ?? 'nothing'
  const atOnce = worst(togetherness, driven.map((one) => one.atOnce))
  const isToKnow = driven.some((one) => one.isToKnow)
  const isForbidden = driven.some(({ fate }) => fate.status === 403)
  const notes = [
    pages === 'later' && !isForbidden && 'Guards refuse pages until the access token expires.',
    driven.some(({ isAcceptedAgain }) => isAcceptedAgain) && 'Access tokens of sessions that have ended are accepted again, unless the key is replaced, too.',
    driven.some(({ fate }) => fate.logins === 2) && 'A login right after the change has to be repeated.'
  ].filter((note) => note !== false)
  const isFine = outcome === 'nothing' || outcome === 'refresh'
  const list = isFine && isToKnow ? 'clients' : isFine ? [outcome, ...(atOnce === 'yes' ? [] : [atOnce])].join('-') : outcome.replace(' ', '-')
  return { change, list, notes }
}

const code = (names: readonly string[]) => names.map((name) => `\`${name}\``).join(', ')

/** The lists of the page. */
function listsOf (rows: readonly Row[]): Map<string, string> {
  const lists = new Map<string, string>()
  for (const list of new Set(rows.map((row) => row.list))) {
    const own = rows.filter((row) => row.list === list)
    const titles = new Set(own.map(({ change }) => namesOf(change).join(' ')))
    const bare = new Set<string>()
    const entries: string[] = []
    for (const title of titles) {
      const entry = own.filter(({ change }) => namesOf(change).join(' ') === title)
      const names = title.split(' ')
      const isAll = rows.every((row) => row.list === list || namesOf(row.change).join(' ') !== title)
      const textOf = ({ change, notes }: Row) => [change.advice, ...notes].filter((text) => text !== undefined).join(' ')
      const texts = new Set(entry.map(textOf))
      if (isAll && texts.size === 1 && texts.has('')) {
        for (const name of names) bare.add(name)
        continue
      }
      for (const text of texts) {
        const said = new Set(entry.flatMap((row) => textOf(row) === text && row.change.said !== '' ? [row.change.said] : []))
        const shown = isAll && texts.size === 1 ? [] : [...said]
        entries.push(`- ${names.map((name) => `**\`${name}\`**`).join(', ')}${shown.length === 0 ? '' : `, ${shown.join('; ')}`}${text === '' ? '' : `: ${text}`}`)
      }
    }
    const first = bare.size === 0 ? [] : [`- ${code([...bare].sort((one, other) => one.localeCompare(other)))}`]
    lists.set(list, [...first, ...entries].join('\n'))
  }
  return lists
}

const pagePath = new URL('../../docs/changing-settings.md', import.meta.url)

t.test('what a changed setting does to those who are logged in is what docs/changing-settings.md says', async (t) => {
  warnings(t)
  let at = noon
  const set = setClock(t, at)
  const clock: Clock = { pass: (seconds) => { set(at += seconds) }, restart: (after = 0) => { set(at = noon + after) } }
  const rows: Row[] = []
  for (const change of changes) {
    const driven: Driven[] = []
    for (const kinds of groupsOf(change)) driven.push(...await drive(change, kinds, clock))
    rows.push(rowOf(change, driven))
  }
  const before = readFileSync(pagePath, 'utf8')
  let after = before
  const lists = listsOf(rows)
  for (const [name, text] of lists) {
    const [begin, end] = [`<!-- ${name}: generated by changes.test.ts -->`, `<!-- /${name} -->`]
    const [from, to] = [after.indexOf(begin), after.indexOf(end)]
    assert.ok(from !== -1 && to !== -1, `the page has no list "${name}":\n${text}`)
    after = `${after.slice(0, from + begin.length)}\n\n${text}\n\n${after.slice(to)}`
  }
  const isUpdate = process.env.UPDATE_CHANGES === '1'
  if (isUpdate && process.env.CI) throw new Error('UPDATE_CHANGES is not for CI, which must find what has changed.')
  if (isUpdate) writeFileSync(pagePath, after)
  const advice = 'the page is out of date: `UPDATE_CHANGES=1 node scripts/test/unit.js test/settings/changes.test.ts` writes it'
  t.equal(readFileSync(pagePath, 'utf8'), after, advice)
  t.same(Array.from(after.matchAll(/^<!-- ([\w-]+): generated/gm), ([, name]) => name).sort(), [...lists.keys()].sort(), 'no list is out of date')
})

t.test('the steps that the page describes log nobody out, and cost no refresh', async (t) => {
  warnings(t)
  let at = noon
  const set = setClock(t, at)
  const stepwise = changes.filter(({ steps }) => steps !== undefined)
  t.ok(stepwise.length >= 12)
  for (const change of stepwise) {
    for (const [kind] of groupsOf(change)) {
      set(at = noon)
      const store = memorySessions()
      let old = await start(optionsOf(kind, store, change.base, change.from))
      const { first, leaving: other } = await clientsOf(kind, change, old)
      for (const [step, seconds] of change.steps ?? []) {
        const next = await start(optionsOf(kind, store, change.base, change.from, step))
        for (const [client, processes] of [[first, [next, old]], [other, [old, next]]] as const) {
          for (const process of processes) {
            assert.equal(await client.visit(process), 200, titleOf(change, kind, step))
            assert.equal(await client.refresh(process), 200, titleOf(change, kind, step))
            set(at += 31)
          }
        }
        await old.app.close()
        // Each uses its session once a day.
        for (let left = seconds; left > 0; left -= 86_400) {
          set(at += Math.min(left, 86_400))
          for (const client of [first, other]) assert.equal(await client.refresh(next), 200, titleOf(change, kind, step))
        }
        old = next
      }
      for (const client of [first, other]) assert.equal(await client.visit(old), 200, titleOf(change, kind))
      assert.equal(await other.logout(old), 204)
      await old.app.close()
    }
  }
})

t.test('sessions whose cookies have new names go on unseen: they are in the list, a logout does not end them, and with the old names they are back', async (t) => {
  warnings(t)
  const store = memorySessions()
  const renamed = { cookieAccessTokenName: 'access', cookieRefreshTokenName: 'refresh' }
  const old = await start(optionsOf('cookies', store))
  const client = new Client('cookies', 'https://app.example.org', '1')
  await client.login(old)
  const next = await start(optionsOf('cookies', store, renamed))
  t.equal(await client.visit(next), 401)
  t.equal(await client.login(next), 200)
  t.equal((await next.app.tokenAuth.sessions.list(1)).length, 2)
  t.equal(await client.logout(next), 204)
  t.equal(await client.visit(next), 401)
  t.equal(await client.visit(old), 200)
  await Promise.all([old, next].map(async ({ app }) => { await app.close() }))
})

t.test('every setting, every option of sessions and every other option is on the page', async (t) => {
  const { message } = await refusal(t, { zzz: 1 }) ?? {}
  const [, others = ''] = /the handlers, and (.+)\. See/.exec(message ?? '') ?? []
  const options = [...settingNames, ...handlerNames, ...Object.keys(sessionsShape.members).map((name) => `sessions.${name}`), ...others.split(', ')]
  t.ok(options.includes('customClaims'))
  const driven = new Set(changes.flatMap(namesOf))
  t.same(options.filter((name) => !driven.has(name)), [], 'what changes.ts lacks: add an entry')
  t.same([...driven].filter((name) => !options.includes(name)), [], 'what does not exist')
  const page = readFileSync(pagePath, 'utf8')
  t.same(options.filter((name) => !page.includes(`\`${name}\``)), [])
})

t.test('the jar keeps, sends and replaces cookies as browsers do', async (t) => {
  const site = 'https://app.shop.example.org'
  const sent = (fields: readonly string[], url = `${site}/`, from = `${site}/auth/refresh`) => {
    const jar = new Jar()
    jar.take(from, fields)
    return jar.headerFor(url)
  }
  const cases: Array<[fields: string[], header: string, url?: string, from?: string]> = [
    [['a=1', 'a=2; Path=/'], 'a=2'],
    [['a=1'], 'a=1', `${site}/auth/x`],
    [['a=1; Path=/', 'a=2; Path=/'], 'a=2'],
    [['a=1; Path=/', 'a=2; Path=/; Domain=app.shop.example.org'], 'a=1; a=2'],
    [['a=1; Path=/', 'a=2; Path=/auth'], 'a=2; a=1', `${site}/auth`],
    [['a=1; Path=/auth'], '', `${site}/authors`],
    [['a=1; Path=/; Domain=example.org'], 'a=1', 'https://example.org/'],
    [['a=1; Path=/'], '', 'https://b.app.shop.example.org/'],
    [['a=1; Path=/; Domain=other.example'], ''],
    [['a=1; Path=/; Secure'], '', 'http://app.shop.example.org/'],
    [['a=1; Path=/; Secure'], '', `${site}/`, 'http://app.shop.example.org/'],
    [['a=1; Path=/; Secure; SameSite=None', 'a=2; Path=/; Secure; SameSite=None; Partitioned'], 'a=1; a=2'],
    [['a=1; Path=/; SameSite=None', 'b=1; Path=/; Partitioned', '__Secure-c=1; Path=/'], ''],
    [['__Host-a=1; Path=/; Secure; Domain=example.org', '__Host-b=1; Path=/auth; Secure'], ''],
    [['a=1; Path=/; Max-Age=60', 'a=; Path=/; Max-Age=0'], ''],
    [['a=1; Path=/; Max-Age=60', 'a=; Path=/app; Max-Age=0'], 'a=1'],
    [['a=1; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT'], '']
  ]
  for (const [fields, header, url, from] of cases) assert.equal(sent(fields, url, from), header, fields.join(' and '))
  const jar = new Jar()
  jar.take(site, ['a=1; Path=/; Secure'])
  jar.take('http://app.shop.example.org', ['a=2; Path=/'])
  t.equal(jar.headerFor(site), 'a=1', 'a page on http: replaces no Secure cookie')
  const set = setClock(t, noon)
  jar.take(site, ['b=1; Path=/; Max-Age=60'])
  t.equal(jar.headerFor(site), 'a=1; b=1')
  set(noon + 60)
  t.equal(jar.headerFor(site), 'a=1')
})

t.test('the example of the page runs', async (t) => {
  const page = examplesOf('changing-settings.md', ['js'])
  const app = host(t)
  await page.run('nextSessionSecret', { app, tokenAuth, secret, authenticate, retrieveUser: () => userOf(1), sessionSecret, nextSessionSecret: secret })
  t.same([...page.left], [])
})
