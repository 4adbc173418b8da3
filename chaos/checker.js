/**
 * Checks the history of a run (see history.js) against what the documents promise. A pure function, which knows nothing of
 * the code: neither the format of tokens nor their counters, only which token was answered to which.
 */

/** Statuses that a request may be answered with. */
const allowed = {
  login: [200, 503],
  refresh: [200, 401, 503],
  access: [200, 401],
  logout: [204, 401, 503],
  end: [204, 401, 404, 503],
  probe: [200, 401, 503]
}

/** So many changes of hands a session may survive at most, and one more for each answer that was lost. */
const changesOfHands = 5

const overlaps = (one, other) => one.from <= other.to && other.from <= one.to
const isExchange = ({ name, status, presented, refresh }) => name === 'refresh' && status === 200 && refresh !== presented
const isUnanswered = ({ status }) => status === null || status === 503
const isOf = ({ processes }, process) => processes === '*' || processes.includes(process)
const byEnd = (one, other) => one.to - other.to

function groupBy (values, keyOf) {
  const groups = new Map()
  for (const value of values) {
    const key = keyOf(value)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [value])
    else group.push(value)
  }
  return groups
}

/** The longest of the gaps between intervals, the first of which is the first, between two times. */
function longestGap (intervals, from, to) {
  let longest = 0
  let free = from
  for (const interval of intervals) {
    if (interval.from > to) break
    longest = Math.max(longest, Math.min(interval.from, to) - free)
    free = Math.max(free, interval.to)
  }
  return Math.max(longest, to - free)
}

/** When processes may not have reached the store, or got no processor. */
class Disturbances {
  #settings
  #faults
  #probes
  #known = new Map()

  constructor (settings, entries) {
    this.#settings = settings
    this.#faults = entries.filter(({ type, store }) => type === 'fault' && store === true)
    const probes = entries.filter(({ type, name }) => type === 'operation' && name === 'probe')
    this.#probes = new Map([...groupBy(probes, ({ process }) => process)].map(([process, group]) => [process, this.#badProbes(group)]))
  }

  /** Probes that failed or were slow, and times without one. */
  #badProbes (probes) {
    const { probe } = this.#settings
    const bad = probes.filter(({ status, from, to }) => status !== 200 || to - from > 2 * probe).map(({ from, to }) => ({ from: from - probe, to }))
    const ordered = [...probes].sort(byEnd)
    for (const [index, { to }] of ordered.entries()) {
      const next = ordered[index + 1]?.from ?? Infinity
      if (next - to > 2 * probe) bad.push({ from: to, to: next })
    }
    const first = ordered[0]
    return first === undefined ? bad : [{ from: -Infinity, to: first.from }, ...bad]
  }

  /** How much later a process may learn of an end, because it waits for a part of the store that does not answer. */
  delay (process, time) {
    return Math.max(0, ...this.#faults.filter((fault) => fault.delay !== undefined && isOf(fault, process) && overlaps(fault, time)).map(({ delay }) => delay))
  }

  /**
   * Those of all users are written together: where those of one cannot be, the others wait, too.
   * @returns intervals in which confirmations may not have been written, the first one first
   */
  ofConfirmations (process) {
    return this.#intervals(process, () => true)
  }

  /** @returns intervals in which what had ended may not have been read, the first one first */
  ofReads (process, user) {
    return this.#intervals(process, ({ users, reads }) => reads !== true && (users === undefined || users.includes(user)), user)
  }

  #intervals (process, counts, user) {
    const key = JSON.stringify([process, user])
    let intervals = this.#known.get(key)
    if (intervals === undefined) {
      const faults = this.#faults.filter((fault) => isOf(fault, process) && counts(fault))
      intervals = [...faults.map(({ from, to }) => ({ from, to: to + this.#settings.recovery })), ...this.#probes.get(process) ?? []].sort((one, other) => one.from - other.from)
      this.#known.set(key, intervals)
    }
    return intervals
  }
}

/** One session, with what the history says of it. */
class Session {
  constructor (id, operations, entries, settings) {
    const [login] = operations.filter(({ name }) => name === 'login')
    this.id = id
    this.login = login
    this.user = login?.user
    this.habit = login?.habit
    this.settings = settings
    this.operations = [...operations].sort(byEnd)
    this.refreshes = this.operations.filter(({ name }) => name === 'refresh')
    this.exchanges = this.operations.filter(isExchange)
    this.losses = entries.filter(({ type }) => type === 'lost-writes')
    /** Requests that may end it, whether or not they were answered. */
    this.endings = entries.filter((entry) => this.#mayEnd(entry)).sort(byEnd)
  }

  #mayEnd (entry) {
    if (entry.type !== 'operation') return false
    if (entry.name === 'logout') return entry.session === this.id
    if (entry.name !== 'end') return false
    if (entry.scope === 'one') return entry.target === this.id
    return entry.user === this.user && this.login.from < entry.to && (entry.scope === 'all' || entry.session !== this.id)
  }

  /** What a process promised to have ended: this session existed before it was asked, and the store has not lost it. */
  isPromised ({ name, scope, status, from, to }) {
    return status === 204 && (name === 'logout' || scope === 'one' || (this.login.to <= from && !this.isLost(this.login, to)))
  }

  /** Whether the store may have lost something that it wrote for an operation, before a time. */
  isLost (operation, before) {
    return this.losses.some((loss) => overlaps(loss, operation) && loss.from <= before)
  }

  /** Whether the store may have lost the session itself, before a time. */
  wasLost (before) {
    return this.login !== undefined && this.isLost(this.login, before)
  }

  /** Whether a loss may have set back the counter, before a time. */
  isSetBack (before) {
    return this.losses.some((loss) => loss.from <= before && loss.to >= this.login.from)
  }

  /** Operations that show that the session has ended. */
  get refusals () {
    return this.operations.filter(({ name, status, reason }) => status === 401 && (name === 'refresh' || (name === 'access' && reason === 'SessionEnded')))
  }
}

/** Of requests that are over within the window, all get the same next token. */
function * oneRotation (session) {
  const { refreshes, operations, settings: { grace } } = session
  for (const [presented, tries] of groupBy(refreshes, (operation) => operation.presented)) {
    const begin = Math.min(...tries.map(({ from }) => from))
    const source = new Set(tries.map(({ access }) => access))
    const uses = operations.filter((operation) => operation.presented !== undefined && source.has(operation.presented))
    const confirmed = Math.min(...uses.map(({ from }) => from))
    const together = tries.filter((operation) => isExchange(operation) && operation.to < Math.min(begin + grace, confirmed))
    const next = new Set(together.map(({ refresh }) => refresh))
    if (next.size > 1 && !session.isSetBack(Math.max(...together.map(({ to }) => to)))) {
      yield { rule: 'one rotation', message: `${presented} was exchanged for ${[...next].join(' and ')} within the window.`, operations: together }
    }
  }
}

/** After the window, each exchange gets a token of its own: two holders must not share one. */
function * lateExchange (session) {
  const { exchanges, settings: { grace, slack } } = session
  if (session.isSetBack(Infinity)) return
  for (const [, answers] of groupBy(exchanges, ({ presented, refresh }) => `${presented} ${refresh}`)) {
    const late = answers.find(({ from }) => from > answers[0].to + grace + slack)
    if (late !== undefined) yield { rule: 'late exchange', message: `${late.presented} was exchanged for ${late.refresh} again after the window.`, operations: [answers[0], late] }
  }
}

/** A next token is answered to one token only. */
function * oneParent (session) {
  for (const [refresh, answers] of groupBy(session.exchanges, (operation) => operation.refresh)) {
    const parents = new Set(answers.map(({ presented }) => presented))
    if (parents.size > 1 && !session.isSetBack(answers.at(-1).to)) {
      yield { rule: 'one parent', message: `${refresh} was answered to ${[...parents].join(' and ')}.`, operations: answers }
    }
  }
}

/** When a token is exchanged, the tokens before it and those that were answered beside it are retired. */
function * retired (session) {
  const { exchanges, refreshes } = session
  const parents = new Map(exchanges.map(({ presented, refresh }) => [refresh, presented]))
  const seen = new Set()
  for (const exchange of exchanges) {
    if (seen.has(exchange.presented)) continue
    seen.add(exchange.presented)
    const old = new Set()
    for (let token = parents.get(exchange.presented); token !== undefined && !old.has(token); token = parents.get(token)) {
      old.add(token)
      for (const [sibling, parent] of parents) if (parent === token && sibling !== exchange.presented && parents.get(exchange.presented) === token) old.add(sibling)
    }
    const accepted = refreshes.find(({ status, presented, from, to }) => status === 200 && old.has(presented) && from > exchange.to && !session.isLost(exchange, to))
    if (accepted !== undefined) {
      yield { rule: 'retired', message: `${accepted.presented} was accepted, although ${exchange.presented} had been exchanged for ${exchange.refresh}.`, operations: [exchange, accepted] }
    }
  }
}

/**
 * After a 204, the process that answered never accepts the session's tokens, and the others do not after a poll; the store
 * accepts none. Of a session that the store had lost before, which it cannot end, only the process that answered knows.
 */
function * endings (session, { disturbances }) {
  const { settings: { poll, slack }, user } = session
  for (const [index, ending] of session.endings.entries()) {
    if (!session.isPromised(ending)) continue
    const all = session.endings.slice(0, index + 1)
    // Where something else had ended it before, a list of sessions to end does not name it, unless it is that of the request.
    const isFirst = ending.name === 'logout' || ending.scope === 'one' || index === 0 || (ending.scope === 'all' && ending.session === session.id)
    for (const operation of session.operations) {
      const { name, status, from, to, process, incarnation } = operation
      if (status !== 200 || from <= ending.to) continue
      const isSame = incarnation === ending.incarnation && isFirst
      if (name === 'refresh' && (isSame || !session.isLost(ending, to))) {
        yield { rule: 'ended', message: `A refresh token was accepted by ${incarnation} after the end of its session had been confirmed by ${ending.incarnation}.`, operations: [...all, operation] }
      } else if (name === 'access' && isSame) {
        yield { rule: 'ended', message: `${incarnation} confirmed the end of a session, and accepted its access token afterwards.`, operations: [...all, operation] }
      } else if (name === 'access' && !session.isLost(ending, to) && !session.wasLost(ending.to) && longestGap(disturbances.ofReads(process, user), ending.to, from) > poll + 1000 + slack + disturbances.delay(process, { from: ending.to, to: from })) {
        yield { rule: 'ended', message: `${incarnation} accepted an access token ${Math.round(from - ending.to)} ms after the end of its session had been confirmed by ${ending.incarnation}, and could have read of it.`, operations: [...all, operation] }
      } else continue
      break
    }
  }
}

/** What has ended stays ended: for the process that said so, and in the store. */
function * staysEnded (session) {
  for (const refusal of session.refusals) {
    const later = session.operations.filter(({ status, from }) => status === 200 && from > refusal.to)
    const inProcess = refusal.name === 'access' && later.find(({ name, incarnation }) => ['access', 'refresh'].includes(name) && incarnation === refusal.incarnation)
    // A process may know of an end that the store has lost, or has not committed yet.
    const inStore = refusal.name === 'refresh' && session.endings.length === 0 && later.find(({ name, to }) => name === 'refresh' && !session.isSetBack(to))
    for (const accepted of [inProcess, inStore]) {
      if (!accepted) continue
      yield { rule: 'stays ended', message: `${accepted.incarnation} accepted a token of a session that ${refusal.incarnation} had refused as ended.`, operations: [refusal, accepted] }
      return
    }
  }
}

/**
 * After a poll and the window, a replaced token whose successor was used is not exchanged any more, however often it was
 * presented meanwhile.
 */
function * usedSuccessor (session, { disturbances }) {
  const { settings: { grace, poll, slack }, exchanges, refreshes, operations } = session
  if (session.isSetBack(Infinity)) return
  const told = poll + 1000 + slack
  const accepted = groupBy(refreshes.filter(({ status }) => status === 200), ({ presented }) => presented)
  const used = groupBy(operations.filter(({ name, status }) => name === 'access' && status === 200), ({ presented }) => presented)
  const found = new Set()
  for (const exchange of exchanges) {
    for (const use of used.get(exchange.access) ?? []) {
      const time = { from: use.from, to: use.to + told }
      const late = accepted.get(exchange.presented).find(({ from }) => from > time.to + grace + slack)
      if (late === undefined || found.has(exchange.presented)) break
      // After a failure, confirmations are tried again with longer and longer pauses.
      if (disturbances.ofConfirmations(use.process).some(({ from, to }) => overlaps({ from, to: to + Math.min(to - Math.max(from, 0), 64 * poll) + 2 * poll }, time))) continue
      found.add(exchange.presented)
      yield { rule: 'thief', message: `${exchange.presented} was accepted, although its successor had been used ${Math.round(late.from - use.to)} ms before.`, operations: [exchange, use, late] }
    }
  }
}

/** Where two holders take turns, the session ends. */
function * turns (session) {
  const { settings: { grace, slack }, exchanges, refreshes } = session
  if (session.isSetBack(Infinity)) return
  const changes = []
  for (const [index, { holder, from }] of exchanges.entries()) {
    const before = exchanges[index - 1]
    if (before === undefined || before.holder === holder) continue
    // Within the window, a change may remain unnoticed.
    if (from - before.to <= grace + slack) return
    changes.push(exchanges[index])
  }
  const lost = refreshes.filter(isUnanswered).length
  const most = changesOfHands + lost
  if (changes.length > most) yield { rule: 'thief', message: `The session survived ${changes.length} changes of hands, more than ${most}.`, operations: changes }
}

/** Why a session may have ended, as the documents name it; undefined if it may not. */
function causeOf (session, refusal) {
  const { settings: { grace }, habit, login, endings, refreshes, losses } = session
  const before = refreshes.filter(({ from }) => from < refusal.to)
  if (endings.some(({ from }) => from < refusal.to)) return 'logout'
  if (before.some(({ holder }) => holder === 'thief')) return habit === 'hammered' ? 'hammering' : 'theft'
  if (session.isLost(login, refusal.to)) return 'lost login'
  const wait = habit === 'tabs' ? 2 * grace : grace
  // Requests at once, around the loss of writes.
  if (habit === 'tabs' && losses.some(({ from, to }) => before.some((operation) => overlaps(operation, { from, to: to + 3 * grace })))) return 'lost writes'
  if (habit !== 'tabs' && before.every((operation) => !isUnanswered(operation))) return undefined
  const isEarly = ({ from, presented }) => before.some(({ refresh, status, to, ...other }) => status === 200 && refresh === presented && other.presented !== presented && from < to + wait)
  return before.some(isEarly) ? 'early use' : undefined
}

/** No client is logged out but by a case that the documents name. */
function * loggedOut (session, { causes }) {
  const [refusal] = session.refusals
  if (refusal === undefined) return
  const cause = causeOf(session, refusal)
  if (cause !== undefined) causes[cause] = (causes[cause] ?? 0) + 1
  else yield { rule: 'logged out', message: `${refusal.client} was logged out, and nothing that it or anybody did ends a session.`, operations: session.operations.filter(({ name, to }) => name !== 'access' && to <= refusal.to).concat(refusal.name === 'access' ? refusal : []) }
}

const sessionRules = [oneRotation, lateExchange, oneParent, retired, endings, staysEnded, usedSuccessor, turns, loggedOut]

/** Each answer is one of those that the documents have. */
function * answers (operations) {
  for (const operation of operations) {
    const { name, status, reason, refresh, access } = operation
    const hasTokens = status !== 200 || !['login', 'refresh'].includes(name) || (refresh !== undefined && access !== undefined)
    const isKnown = status === null || allowed[name].includes(status)
    const isRightReason = name !== 'access' || status !== 401 || ['SessionEnded', 'TokenExpired'].includes(reason)
    if (hasTokens && isKnown && isRightReason) continue
    yield { rule: 'answers', message: `${name} was answered with ${status}${reason === undefined ? '' : ` (${reason})`}${hasTokens ? '' : ' without tokens'}.`, operations: [operation] }
  }
}

function * processes (entries) {
  for (const entry of entries) {
    if (entry.type === 'crash') yield { rule: 'crash', message: `${entry.process} ended by itself.`, operations: [entry] }
    if (entry.type === 'recovery' && !entry.isGood) yield { rule: 'recovery', message: `${entry.process} does not work ${Math.round(entry.to - entry.from)} ms after everything was healed.`, operations: [entry] }
  }
}

/**
 * Checks a history.
 * @returns `violations`: a list of `{ rule, message, operations }`; `causes`: how often sessions ended for which documented reason
 */
export function check (entries) {
  const [settings] = entries
  const operations = entries.filter(({ type }) => type === 'operation')
  const disturbances = new Disturbances(settings, entries)
  const causes = {}
  const violations = [...answers(operations), ...processes(entries)]
  for (const [id, group] of groupBy(operations.filter(({ session }) => session !== undefined), ({ session }) => session)) {
    const session = new Session(id, group, entries, settings)
    // A login whose answer was lost.
    if (session.login === undefined) continue
    for (const rule of sessionRules) violations.push(...rule(session, { disturbances, causes }))
  }
  return { violations, causes }
}
