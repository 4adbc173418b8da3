/** The checker of the chaos program finds each broken promise in histories written by hand, and accepts what is promised. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'

interface Entry { [name: string]: unknown }
interface Violation { rule: string, message: string, operations: Entry[] }
interface Checker { check (entries: readonly Entry[]): { violations: Violation[], causes: Record<string, number> } }

const { check }: Checker = await import(new URL('../../chaos/checker.js', import.meta.url).href)

/** A window of 3 seconds, a poll of one: what ended is known everywhere after 2.3 seconds. */
const settings = { type: 'settings', grace: 3000, poll: 1000, slack: 300, recovery: 7000, probe: 250 }

const defaults = { type: 'operation', client: 'c', holder: 'owner', habit: 'single', user: 'ada', session: 's1', process: 'p0', incarnation: 'p0.1', status: 200 }

/** An operation that takes 10 ms. */
const operation = (name: string, from: number, details: Entry = {}): Entry => ({ ...defaults, name, from, to: from + 10, ...details })
const login = (from: number, details: Entry = {}) => operation('login', from, { refresh: 'r0', access: 'a0', ...details })
const refresh = (from: number, presented: string, next: string, details: Entry = {}) => operation('refresh', from, { presented, refresh: next, access: next.replace('r', 'a'), ...details })
const refused = (from: number, presented: string, details: Entry = {}) => operation('refresh', from, { presented, status: 401, reason: 'AuthenticationFailed', ...details })
const lost = (from: number, presented: string, details: Entry = {}) => operation('refresh', from, { presented, status: null, ...details })
const access = (from: number, presented: string, details: Entry = {}) => operation('access', from, { presented, ...details })
const logout = (from: number, presented: string, details: Entry = {}) => operation('logout', from, { presented, status: 204, ...details })
const other = { process: 'p1', incarnation: 'p1.1' }
const thief = { holder: 'thief', client: 'thief' }
const tabs = { habit: 'tabs' }
const lostWrites = (from: number, to: number): Entry => ({ type: 'lost-writes', from, to })

/** Both processes reach the store until a time. */
const probes = (until: number, between: (at: number, process: string) => Entry = () => ({})): Entry[] => Array.from({ length: Math.ceil(until / 250) }, (_, index) => index * 250)
  .flatMap((at) => [{}, other].map((place) => operation('probe', at, { user: 'probe', client: 'probe', session: undefined, ...place, ...between(at, 'process' in place ? 'p1' : 'p0') })))

const rulesOf = (...entries: Entry[]) => check([settings, ...entries]).violations.map(({ rule }) => rule)

t.test('an ordinary history breaks no promise', async (t) => {
  const entries = [settings, login(0), access(20, 'a0'), refresh(4000, 'r0', 'r1'), access(4100, 'a1'), refresh(8000, 'r1', 'r2'), refresh(8100, 'r2', 'r2'), logout(9000, 'r2'), access(9100, 'a2', { status: 401, reason: 'SessionEnded' })]
  t.same(check(entries), { violations: [], causes: { logout: 1 } })
})

t.test('requests at once with one token get one next token', async (t) => {
  t.same(rulesOf(login(0), refresh(4000, 'r0', 'r1'), refresh(4005, 'r0', 'r2')), ['one rotation'])
  t.same(rulesOf(login(0), lost(3990, 'r0'), refresh(4000, 'r0', 'r1'), refresh(4005, 'r0', 'r2')), ['one rotation'])
  t.same(rulesOf(login(0), refresh(4000, 'r0', 'r1'), refresh(4005, 'r0', 'r1')), [])
  t.same(rulesOf(login(0), refresh(4000, 'r0', 'r1'), refresh(7100, 'r0', 'r2')), [], 'after the window, a lost answer is exchanged for another one')
  t.same(rulesOf(login(0), refresh(4000, 'r0', 'r1'), access(4020, 'a1'), refresh(4050, 'r0', 'r2')), [], 'and after the use of its successor')
  t.same(rulesOf(login(0), lost(1000, 'r0', { to: 1800 }), refresh(3900, 'r0', 'r1'), refresh(4100, 'r0', 'r2')), [], 'the window began when the first try was executed')
  t.same(rulesOf(login(0), refresh(4000, 'r0', 'r1'), lostWrites(3990, 4050), refresh(4060, 'r0', 'r2')), [], 'and the store may have lost it')
})

t.test('after the window, each exchange gets a token of its own', async (t) => {
  t.same(rulesOf(login(0), refresh(4000, 'r0', 'r1'), refresh(7400, 'r0', 'r1')), ['late exchange'])
  t.same(rulesOf(login(0), refresh(4000, 'r0', 'r1'), refresh(7200, 'r0', 'r1')), [])
  t.same(rulesOf(login(0), refresh(4000, 'r0', 'r1'), lostWrites(3990, 4050), refresh(7400, 'r0', 'r1')), [], 'unless the store has lost the first')
})

t.test('a next token is answered to one token', async (t) => {
  t.same(rulesOf(login(0), refresh(4000, 'r0', 'r1'), refresh(8000, 'r1', 'r2'), refresh(12_000, 'r0', 'r2')), ['one parent', 'retired'])
  t.same(rulesOf(login(0), refresh(4000, 'r0', 'r1'), refresh(8000, 'r1', 'r2'), lostWrites(3990, 8020), refresh(12_000, 'r0', 'r2')), [])
})

t.test('when a token is exchanged, those before it and beside it are retired', async (t) => {
  const exchanged = [login(0), refresh(4000, 'r0', 'r1'), refresh(8000, 'r0', 'r2'), refresh(12_000, 'r2', 'r3')]
  t.same(rulesOf(...exchanged, refresh(13_000, 'r0', 'r4')), ['retired'], 'before it')
  t.same(rulesOf(...exchanged, refresh(13_000, 'r1', 'r4')), ['retired'], 'beside it')
  t.same(rulesOf(login(0), refresh(4000, 'r0', 'r1'), refresh(8000, 'r1', 'r2'), lostWrites(7990, 8050), refresh(12_000, 'r2', 'r3'), refresh(16_000, 'r0', 'r4')), ['retired'], 'long before it')
  t.same(rulesOf(...exchanged, refresh(11_995, 'r1', 'r4')), [], 'a request at the same time may have been executed before')
  t.same(rulesOf(...exchanged, refresh(15_500, 'r2', 'r4')), [], 'itself is not, until its successor is used')
  t.same(rulesOf(...exchanged, lostWrites(11_000, 12_500), refresh(13_000, 'r1', 'r4')), [], 'and the store may have lost it')
})

t.test('after a logout, the process that answered never accepts the session, and the others do not after a poll', async (t) => {
  const begun = [...probes(20_000), login(0), logout(1000, 'r0')]
  t.same(rulesOf(...begun, access(1011, 'a0')), ['ended'], 'the same process')
  t.same(rulesOf(...begun, access(1005, 'a0')), [], 'not before it has answered')
  t.same(rulesOf(...begun, access(3300, 'a0', other)), [], 'another process within a poll')
  t.same(rulesOf(...begun, access(3400, 'a0', other)), ['ended'], 'and after it')
  t.same(rulesOf(...begun, refresh(1020, 'r0', 'r1', other)), ['ended'], 'no process refreshes')
  t.same(rulesOf(...begun, lostWrites(900, 1500), refresh(1600, 'r0', 'r1', other), access(9000, 'a1', other)), [], 'unless the store has lost it')
  t.same(rulesOf(...begun, lostWrites(900, 1500), access(1600, 'a0')), ['ended'], 'but the process that answered knows it')
  t.same(rulesOf(...begun, lostWrites(0, 500), access(9000, 'a0', other)), [], 'nor the end of a session that the store had lost before')
  t.same(rulesOf(...begun, lostWrites(0, 500), access(1600, 'a0')), ['ended'])
  t.same(rulesOf(...begun, lostWrites(1200, 1300), access(9000, 'a0', other)), ['ended'])
  t.same(rulesOf(...begun, lostWrites(900, 1500), refresh(1600, 'r0', 'r1')), ['ended'], 'and refuses the refresh token, too')
  t.same(rulesOf(...begun, access(1600, 'a0', { incarnation: 'p0.2' })), [], 'a process that took its place reads it first')
  t.same(rulesOf(...probes(20_000), login(0), logout(1000, 'r0', { status: 503 }), access(9000, 'a0', other)), [], 'a 503 promises nothing')
})

t.test('the time of a poll begins anew where the store did not answer', async (t) => {
  const ended = [login(0), logout(1000, 'r0')]
  const fault = { type: 'fault', name: 'hold', from: 1500, to: 2500, processes: ['p1'], store: true }
  t.same(rulesOf(...probes(30_000), ...ended, fault, access(9500, 'a0', other)), [], 'a fault, with the time until a call is given up')
  t.same(rulesOf(...probes(30_000), ...ended, fault, access(12_500, 'a0', other)), ['ended'])
  t.same(rulesOf(...probes(30_000), ...ended, { ...fault, processes: '*' }, access(9500, 'a0', other)), [], 'of all processes')
  t.same(rulesOf(...probes(30_000), ...ended, { ...fault, processes: ['p0'] }, access(9500, 'a0', other)), ['ended'], 'not of another one')
  t.same(rulesOf(...probes(30_000), ...ended, { ...fault, users: ['ada'] }, access(9500, 'a0', other)), [], 'of this user')
  t.same(rulesOf(...probes(30_000), ...ended, { ...fault, users: ['grace'] }, access(9500, 'a0', other)), ['ended'], 'not of another one')
  t.same(rulesOf(...probes(30_000), ...ended, { ...fault, users: ['grace'], delay: 4000 }, access(7200, 'a0', other)), [], 'but it may delay what processes learn of others')
  t.same(rulesOf(...probes(30_000), ...ended, { ...fault, users: ['grace'], delay: 4000 }, access(7400, 'a0', other)), ['ended'])
  t.same(rulesOf(...probes(30_000), ...ended, { ...fault, store: false }, access(9500, 'a0', other)), ['ended'], 'not of the network of clients')
  t.same(rulesOf(...probes(30_000), ...ended, { ...fault, reads: true }, access(9500, 'a0', other)), ['ended'], 'nor where it could be read')
  const every2Seconds = (at: number, process: string): Entry => process === 'p1' && at % 2000 === 0 ? { status: 503 } : {}
  t.same(rulesOf(...probes(30_000, every2Seconds), ...ended, access(12_500, 'a0', other)), [], 'probes that failed')
  t.same(rulesOf(...probes(30_000, (at) => at % 2000 === 0 ? { to: at + 600 } : {}), ...ended, access(12_500, 'a0', other)), [], 'or were slow')
  t.same(rulesOf(...probes(1500), ...ended, access(12_500, 'a0', other)), [], 'and no probes show nothing')
  t.same(rulesOf(...ended, access(12_500, 'a0', other)), ['ended'], 'a history without probes has a store that answers')
})

t.test('other ends of sessions are promises, too', async (t) => {
  const second = { session: 's2', client: 'd' }
  const begun = [login(0), login(20, { ...second, refresh: 'r10', access: 'a10' })]
  const end = (scope: string, details: Entry = {}) => operation('end', 1000, { status: 204, scope, presented: 'a0', ...details })
  t.same(rulesOf(...begun, end('others'), access(1100, 'a10', second)), ['ended'])
  t.same(rulesOf(...begun, end('others'), access(1100, 'a0')), [], 'not its own')
  t.same(rulesOf(...begun, end('all'), access(1100, 'a0')), ['ended'])
  t.same(rulesOf(...begun, end('one', { target: 's2' }), access(1100, 'a10', second)), ['ended'])
  t.same(rulesOf(...begun, end('one', { target: 's2' }), access(1100, 'a0')), [])
  t.same(rulesOf(...begun, end('all', { user: 'grace', session: 's3' }), access(1100, 'a0')), [], 'not those of another user')
  t.same(rulesOf(...begun, lostWrites(15, 40), end('all'), access(1100, 'a10', second)), [], 'nor one that the store has lost')
  t.same(rulesOf(...begun, lostWrites(1200, 1300), end('all'), access(1100, 'a10', second)), ['ended'], 'before')
  t.same(rulesOf(...begun, login(995, { ...second, session: 's4', refresh: 'r20', access: 'a20' }), end('all'), access(1100, 'a20', { session: 's4' })), [], 'a login at the same time may come after it')
  t.same(rulesOf(...begun, logout(500, 'r10', { ...second, ...other }), end('all'), access(1100, 'a10', second)), [], 'a session that another process had ended is not named')
  t.same(rulesOf(...begun, end('all', { ...other, from: 500, to: 510, status: null }), end('all'), access(1100, 'a0')), ['ended'], 'unless it is that of the request')
  t.same(rulesOf(...probes(20_000), ...begun, end('all', { ...other, from: 500, to: 510, status: null }), end('all'), access(3400, 'a10', { ...second, ...other })), ['ended'], 'and after a poll')
})

t.test('what was refused as ended stays ended', async (t) => {
  const ended = { status: 401, reason: 'SessionEnded' }
  t.same(rulesOf(login(0), refresh(100, 'r0', 'r1', thief), access(1000, 'a0', ended), access(2000, 'a0')), ['stays ended'])
  t.same(rulesOf(login(0), refresh(100, 'r0', 'r1', thief), access(1000, 'a0', ended), access(2000, 'a0', other)), [], 'another process learns it later')
  t.same(rulesOf(login(0), refresh(100, 'r0', 'r1', thief), refused(1000, 'r0'), refresh(2000, 'r1', 'r2', other)), ['stays ended'], 'but the store knows')
  t.same(rulesOf(login(0), refresh(100, 'r0', 'r1', thief), refused(1000, 'r0'), lostWrites(900, 1500), refresh(2000, 'r1', 'r2', other)), [])
  t.same(rulesOf(login(0), logout(900, 'r0', { status: null }), refused(1000, 'r0'), refresh(2000, 'r0', 'r1', other)), [], 'a process may know of an end that the store has not committed')
})

t.test('a replaced token whose successor was used is found after a poll and the window', async (t) => {
  const used = [...probes(20_000), login(0), refresh(4000, 'r0', 'r1'), access(4100, 'a1')]
  t.same(rulesOf(...used, refresh(9800, 'r0', 'r2', thief)), ['thief'])
  t.same(rulesOf(...used, refresh(9600, 'r0', 'r2', thief)), [], 'not earlier')
  t.same(rulesOf(...used, refused(9800, 'r0', thief)), [])
  t.same(rulesOf(...probes(20_000), login(0), refresh(4000, 'r0', 'r1', thief), access(4100, 'a1', thief), refresh(9800, 'r0', 'r2')), ['thief'], 'whoever of the two it is')
  t.same(rulesOf(...probes(20_000), login(0), refresh(4000, 'r0', 'r1'), access(4100, 'a1', { status: null }), refresh(9800, 'r0', 'r2', thief)), [], 'a use without answer shows nothing')
  t.same(rulesOf(...used, { type: 'fault', name: 'kill', from: 4500, to: 5000, processes: ['p0'], store: true }, refresh(9800, 'r0', 'r2', thief)), [], 'a process may lose what it knows')
  t.same(rulesOf(...used, { type: 'fault', name: 'standby', from: 4500, to: 5000, processes: ['p0'], store: true, reads: true }, refresh(9800, 'r0', 'r2', thief)), [], 'or cannot write it')
  t.same(rulesOf(...used, { type: 'fault', name: 'node', from: 4500, to: 5000, processes: '*', store: true, users: ['grace'] }, refresh(9800, 'r0', 'r2', thief)), [], 'also where it waits for that of another user')
  t.same(rulesOf(...used, lostWrites(4050, 5000), refresh(9800, 'r0', 'r2', thief)), [], 'or the store loses it')
})

t.test('so it is however often the thief presents it, before and after the refresh of its owner', async (t) => {
  const hammered = { habit: 'hammered' }
  /** Presents r0 every 100 ms. Each time, he gets what `next` says. */
  const hammer = (from: number, until: number, next: (index: number) => string) =>
    Array.from({ length: Math.floor((until - from) / 100) }, (_, index) => refresh(from + index * 100, 'r0', next(index), { ...hammered, ...thief, ...index % 2 === 0 ? {} : other }))
  const begun = [...probes(20_000), login(0, hammered), ...hammer(3950, 7000, () => 'r1'), refresh(4000, 'r0', 'r1', hammered)]
  // The window is over, and he gets a token of his own each time.
  const later = (until: number) => hammer(7100, until, (index) => `r${10 + index}`)
  const use = access(7500, 'a1', hammered)
  t.same(rulesOf(...begun, ...later(13_000), use), [], 'as long as the store is told, and for a window afterwards')
  const { violations } = check([settings, ...begun, ...later(14_000), use])
  t.match(violations, [{ rule: 'thief', message: 'r0 was accepted, although its successor had been used 5690 ms before.' }])
  t.equal(violations.length, 1, 'each token once')
  t.same(rulesOf(...begun, ...later(14_000), access(7500, 'a1', { ...hammered, ...other })), ['thief'], 'whichever process it was')
  t.same(rulesOf(...begun, ...later(14_000), use, { type: 'fault', name: 'kill', from: 7600, to: 8000, processes: ['p0'], store: true }), [], 'which may lose what it knows')
  t.same(rulesOf(...begun, ...later(14_000), use, { ...access(7500, 'a1', { ...hammered, ...other }) }, { type: 'fault', name: 'kill', from: 7600, to: 8000, processes: ['p0'], store: true }), ['thief'], 'but another one does not')
  t.same(rulesOf(...begun, ...later(14_000)), [], 'without a use, nothing is confirmed')
  const found = [...begun, ...later(11_000), use, refused(11_000, 'r0', { ...hammered, ...thief })]
  t.same(check([settings, ...found, refused(11_100, 'r1', hammered)]), { violations: [], causes: { hammering: 1 } })
  t.same(rulesOf(...found, refresh(11_100, 'r0', 'r90', { ...hammered, ...thief, ...other })), ['stays ended'], 'and no process accepts him any more')
})

t.test('a session does not survive many changes of hands', async (t) => {
  const holders = (count: number, pause = 3400) => [login(0), ...Array.from({ length: count }, (_, index) =>
    refresh((index + 1) * pause, index < 2 ? 'r0' : `r${index - 1}`, `r${index + 1}`, index % 2 === 0 ? thief : {}))]
  // Such a history breaks other promises as well.
  const isFound = (rules: string[]) => rules.includes('thief')
  t.notOk(isFound(rulesOf(...holders(6))))
  t.ok(isFound(rulesOf(...holders(7))))
  t.notOk(isFound(rulesOf(...holders(7, 3200))), 'within the window they may remain unnoticed')
  t.notOk(isFound(rulesOf(...holders(7), lost(8000, 'r1'))), 'one more for an answer that was lost')
})

t.test('no honest client is logged out', async (t) => {
  t.same(rulesOf(login(0), refused(4000, 'r0')), ['logged out'])
  t.same(rulesOf(login(0), access(4000, 'a0', { status: 401, reason: 'SessionEnded' })), ['logged out'])
  t.same(rulesOf(login(0), lost(4000, 'r0'), refused(30_000, 'r0')), ['logged out'], 'however late its retry is')
  t.same(rulesOf(login(0), lost(4000, 'r0'), refresh(5000, 'r0', 'r1'), refused(8200, 'r1')), ['logged out'])
  t.same(rulesOf(login(0), lost(4000, 'r0'), lost(4000, 'r0', other), refused(30_000, 'r0', other)), ['logged out'])
  t.same(rulesOf(login(0, tabs), refresh(6100, 'r0', 'r1', tabs), refused(6100, 'r0', tabs)), ['logged out'], 'nor are tabs that refresh at once')
  t.same(rulesOf(login(5000), lostWrites(1000, 4000), refused(9000, 'r0')), ['logged out'], 'nor by writes that were lost before')
  t.same(rulesOf(login(0, tabs), refresh(6100, 'r0', 'r1', tabs), lostWrites(6000, 6500), refresh(20_000, 'r1', 'r2', tabs), refused(60_000, 'r2', tabs)), [], 'which tabs may be, if they refreshed around them')
  t.same(rulesOf(login(0, tabs), lostWrites(6000, 6500), refused(60_000, 'r0', tabs)), ['logged out'], 'and only then')
  t.same(rulesOf(login(0), refused(4000, 'r0'), logout(5000, 'r0')), ['logged out'], 'nor by a logout that comes later')
  t.same(rulesOf(login(0), login(20, { session: 's2', client: 'd', refresh: 'r10', access: 'a10' }), logout(1000, 'r10', { session: 's2', client: 'd' }), refused(4000, 'r0')), ['logged out'], 'nor by that of another session')
  t.same(rulesOf(login(0), refresh(4000, 'r0', 'r1'), refresh(5000, 'r1', 'r2'), refused(6000, 'r2')), ['logged out'], 'one that loses no answer may be early')
  t.same(rulesOf(login(0), lost(4000, 'r0'), refresh(4500, 'r0', 'r0'), refused(30_000, 'r0')), ['logged out'], 'and its token may be answered again')
})

t.test('a client may be logged out by what the documents name', async (t) => {
  const causes = (...entries: Entry[]) => {
    const { violations, causes } = check(entries)
    t.same(violations, [])
    return causes
  }
  t.same(causes(settings, login(0), logout(1000, 'r0', { status: null }), refused(4000, 'r0')), { logout: 1 })
  t.same(causes(settings, login(0), refresh(4000, 'r0', 'r1', thief), refused(8000, 'r0')), { theft: 1 })
  t.same(causes(settings, login(1000), lostWrites(900, 1500), refused(4000, 'r0')), { 'lost login': 1 })
  t.same(causes(settings, login(0, tabs), refresh(6100, 'r0', 'r1', tabs), lostWrites(6000, 6500), refused(13_000, 'r1', tabs)), { 'lost writes': 1 })
  t.same(causes(settings, login(0), lost(4000, 'r0'), refresh(5000, 'r0', 'r1'), refresh(6000, 'r1', 'r2'), refused(9100, 'r2')), { 'early use': 1 })
  t.same(causes(settings, login(0, tabs), refresh(4000, 'r0', 'r1', tabs), refresh(8500, 'r1', 'r2', tabs), refused(15_000, 'r2', tabs)), { 'early use': 1 })
  t.same(check([settings, login(0), refused(4000, 'r0'), refresh(5000, 'r0', 'r1', thief)]).violations.map(({ rule }) => rule), ['stays ended', 'logged out'], 'a theft that comes later is no cause')
})

t.test('each answer is one of those that the documents have', async (t) => {
  t.same(rulesOf(login(0), access(100, 'a0', { status: 500 })), ['answers'])
  t.same(rulesOf(login(0), access(100, 'a0', { status: 401, reason: 'InvalidToken' })), ['answers'])
  t.same(rulesOf(login(0), access(100, 'a0', { status: 401, reason: 'TokenExpired' })), [])
  t.same(rulesOf(login(0), operation('refresh', 100, { presented: 'r0' })), ['answers'], 'a 200 has tokens')
  t.same(rulesOf(operation('login', 0, { status: 503, session: undefined })), [])
  t.same(rulesOf(operation('login', 0, { status: 401, session: undefined })), ['answers'], 'everybody may log in')
  t.same(rulesOf(login(0), access(100, 'a0', { status: 503 })), ['answers'], 'guards do not ask the store')
  t.same(rulesOf(login(0), logout(100, 'r0', { status: 404 })), ['answers'])
  t.same(rulesOf(refused(100, 'r0')), [], 'of a session whose login was not answered, nothing is known')
})

t.test('a process neither ends by itself nor fails to recover', async (t) => {
  t.same(rulesOf({ type: 'crash', process: 'p0.1', from: 100, output: 'ECONNRESET' }), ['crash'])
  t.same(rulesOf({ type: 'recovery', process: 'p0', from: 100, to: 20_000, isGood: false }), ['recovery'])
  t.same(rulesOf({ type: 'recovery', process: 'p0', from: 100, to: 2000, isGood: true }), [])
})

t.test('the program prints the part of a history that breaks a promise, and exits with 1', async (t) => {
  const history = (...entries: Entry[]) => entries.map((entry) => JSON.stringify(entry)).join('\n')
  const kept = history({ ...settings, kind: 'redis' }, login(0), lost(4000, 'r0'), refused(30_000, 'r0'), login(0, { session: 's2', client: 'd' }))
  const folder = t.testdir({ 'bad.jsonl': kept, 'good.jsonl': history({ ...settings, kind: 'redis' }, login(0)) })
  const run = async (file: string) => await promisify(execFile)(process.execPath, [fileURLToPath(new URL('../../chaos/run.js', import.meta.url)), '--check', `${folder}/${file}`])
    .then(({ stdout }) => ({ code: 0, stdout }), ({ code, stdout }: { code: number, stdout: string }) => ({ code, stdout }))
  const { code, stdout } = await run('bad.jsonl')
  t.equal(code, 1)
  t.match(stdout, 'Broken promises: logged out 1.')
  t.match(stdout, / {2}4\.000 - {4}4\.010 refresh .*status=null/)
  t.match(stdout, / 30\.000 - {3}30\.010 refresh .*status=401/)
  t.notMatch(stdout, 'session=s2')
  t.match(await run('good.jsonl'), { code: 0, stdout: 'No promise was broken.' })
})
