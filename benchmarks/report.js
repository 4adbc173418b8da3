/** Generates README.md and chart.svg from results.json. Usage: `node benchmarks/report.js`. */
import { readFileSync, writeFileSync } from 'node:fs'
import { drawChart } from './chart.js'
import { goals } from './goals.js'
import { names as databaseNames } from './helper/database.js'

const table = (head, rows) => [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
const digits = (value) => value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)
const range = ({ median, min, max }) => `${digits(median)} (${digits(min)} to ${digits(max)})`
const section = (title, ...parts) => [`## ${title}`, ...parts].join('\n\n')
const megabytes = (bytes) => (bytes / 2 ** 20).toFixed(1)

function goalsSection (run) {
  const rows = goals(run).map(({ what, goal, found, unit, best, isMet }) => [what, goal, digits(found) + unit, best === undefined ? '' : digits(best) + unit, isMet ? 'yes' : '**no**'])
  return section('Goals', 'Values are relative to the bare route of the same run, unless the row or a unit says otherwise. "Best possible" is what the same run shows without the plugin. For the CPU time of other libraries, it is their time divided by that of the bare route, which a guard that costs nothing would reach (a result can be slightly higher, because a refusal costs less than the response of a route). For the heap, it is that of the routes alone, with shared schemas. For many instances, it is the result of the same number of contexts with a hook. For a refresh over a database, it is that of the specification\'s own mode with its refresh tokens in the same database. For a forged refresh token, it is that of a bare POST route.', table(['What', 'Goal', 'Result', 'Best possible', 'Met'], rows))
}

/** The ratio of the hand-written hook that costs least, if one was measured. */
const bestHook = (rows) => Math.max(...rows.filter(({ name }) => name.startsWith('minimal hook')).map(({ ratio }) => ratio.median))

function comparison ({ title, baseline = 'bare', rows }) {
  const hook = bestHook(rows)
  const hasHook = Number.isFinite(hook)
  return [`### ${title[0].toUpperCase()}${title.slice(1)}`, table(
    ['', `relative to ${baseline} (min to max)`, ...hasHook ? ['relative to the best hook'] : [], 'CPU time', 'in user mode', '32 connections', ...title === 'refreshing' ? ['a second, 32 connections'] : []],
    rows.map(({ name, ratio, microseconds, userMicroseconds, ratioOfMany, perSecond }) =>
      [name, range(ratio), ...hasHook ? [digits(ratio.median / hook)] : [], `${microseconds.toFixed(0)} us`, `${userMicroseconds.toFixed(0)} us`, ratioOfMany.median.toFixed(2), ...title === 'refreshing' ? [perSecond.toLocaleString('en')] : []])
  )].join('\n\n')
}

function methodSection ({ settings, areCoresSeparate }) {
  const { replicates, windows, requests, seed } = settings
  return section('How it is measured', `- "Relative to bare" is the CPU time per request (user and system, all threads) of the bare server, divided by that of the measured server in the same round. 1.00 means no difference. Requests are sent one after the other over one connection. The column "32 connections" compares medians of shorter windows. There, the operating system handles many requests at once, so its share is smaller. "In user mode" is the CPU time without the work of the operating system for the sockets. This work is about the same for all servers, and can be half of the total on a virtual machine.
- "Relative to the best hook" is the same number, divided by that of the minimal hook that costs least in the same run: 1.00 is what a hook written by hand costs.
- Every server has a young generation of the same size (\`--min-semi-space-size=16 --max-semi-space-size=16\`). Otherwise, its size would depend on how much code a process has loaded.
- Every server runs in its own process, which is started again for each of ${replicates} replicates. It first gets at least 10,000 requests and, if it remembers tokens, each token once. Then ${windows} rounds follow, with a window of ${requests.toLocaleString('en')} requests for each server (fewer if they would take longer than 40 ms). The order within a round is random (seed ${seed}).
- ${areCoresSeparate ? 'The client runs on one core, and the servers on another.' : 'Client and servers shared cores, because the system does not allow to assign them.'}
- The bare route is measured twice, and so is what takes its place in the comparisons of sessions. If the two measurements differ by more than 5 %, the comparison is repeated once. If they differ again, the run is void.
- The guards in "Guards with sessions" are compared with the guard of an instance without sessions. Their routes are in one process. The tokens have the claim \`sid\` of a session that has not ended. There are 6 times as many rounds for these guards, and twice as many for refreshing.
- Database servers run on the core of the client, with their default settings but that Redis appends each write to a file. The client libraries have their default settings, so that pg has 10 connections, and ioredis and node-redis have one.
- The guards in "Guards with keys" have the option \`keys\` with four keys, one of them also three trusted issuers, and are compared with the guard of an instance with one key, in the same process. There are 6 times as many rounds, too. The start of a ring is the CPU time at boot of an instance with three Ed25519 keys, without that of an instance with one secret. Verifiers and signers of a ring are built at their first use, so they are not a part of it.
- Tokens have about 460 characters and 8 claims. The route responds with \`{"hello":"world"}\`. The status codes of all responses are checked.`)
}

const unfairSection = section('What is unfair', `- **All rows**: requests use the loopback interface and are sent one at a time, and the route does nothing. With a route that queries a database, most differences disappear.
- **In favor of fastify-token-auth**: its memory of 1,000 verified tokens suits one hot token and 1,000 tokens. With 100,000 tokens in turn it hardly ever helps. The cache of @fastify/jwt is off by default. The row with its cache uses the size that it documents, 1,000.
- **In favor of the minimal hooks**: they check only the signature and the expiry. They do not check the canonical form or other claims, send no \`WWW-Authenticate\`, and have a shorter refusal. They show what is possible and are not alternatives.
- **@fastify/jwt** is used as its README shows, with an async hook and a Fastify error as the refusal. It can also read tokens from cookies; here, fastify-token-auth reads them from one source only.
- **Start**: only the time until the application is ready is measured, with one guarded route, from a disk whose files are in memory.
- **jsonwebtoken, express-jwt, passport-jwt** get the secret as a string, as in their READMEs, and create a key from it on every request. With a key object they are faster.
- **express-jwt, passport-jwt, hono jwt** run on other frameworks. The rows "bare express" and "bare hono" show how much of the difference is due to the framework.
- **jose and hono jwt** use Web Cryptography, which works in every runtime and in a thread pool. For HS256, the transfer to the pool costs more than the hash.
- **Issuing**: fastify-token-auth runs the whole authenticate endpoint with \`Cache-Control: no-store\`, a host handler and \`extendPayload\`. The others only sign. @fastify/jwt is omitted for RS256, because it creates a signer for each call.
- **Refreshing**: every refresh with sessions rotates the refresh token, in the memory store or in a database. In the specification's own mode, the refresh token stays the same, and the access token is verified. Its refresh tokens are in a Map, or in a database that is asked for one with its simplest command. Over one connection, the process waits for the database in each request and wakes up again, which takes more CPU time than the request to the database itself. Over 32 connections, it reads the answers of several requests at once.
- **CPU time** includes all threads: moving work to a thread pool does not make it cheaper. The event-loop delay shows whether other requests have to wait.`)

function partsSection ({ parts }) {
  const tables = parts.map(({ title, rows }) => `### ${title[0].toUpperCase()}${title.slice(1)}\n\n${table(['', 'microseconds (min to max)'], rows.map((row) => [row.name, range(row)]))}`)
  return section('Parts, in a tight loop', 'The values are medians of 9 batches. The same work takes two to three times as long inside a server.', ...tables)
}

function footprintSection ({ footprint: { registration, memory, flood }, starts, delay }) {
  return section('Footprint',
    startsTable(starts),
    table(['Per instance, in addition to an empty context', 'CPU time at boot, ms', 'heap, KB'], registration.map(({ name, milliseconds, kilobytes }) => [name, range(milliseconds), range(kilobytes)])),
    `A remembered token of ${memory.characters} characters takes ${memory.kilobytes.toFixed(2)} KB of heap. Of ${flood.remembered.toLocaleString('en')} remembered tokens, ${flood.left.toLocaleString('en')} remained after ${flood.bad.toLocaleString('en')} invalid tokens.`,
    'The following table shows how late timers fire (p99) while RS256 tokens are issued over 4 connections without a pause, in addition to the delay of an idle process. The operating system assigns the cores.',
    table(['', 'ms (min to max)'], delay.map((row) => [row.name, range(row)])))
}

function startsTable (rows) {
  return table(['Until an application with one guarded route is ready', 'CPU time, ms', 'wall time, ms', 'heap, MB'], rows.map(({ name, cpu, wall, heap }) => [name, range(cpu), range(wall), range(heap)]))
}

/** The results with another version of Node.js. */
function ltsSection (lts) {
  if (lts === undefined) return ''
  const { date, machine: { node }, comparisons, starts } = lts
  const rows = comparisons.flatMap(({ title, rows }) => {
    const hook = bestHook(rows)
    return rows.filter(({ name }) => ['fastify-token-auth', '@fastify/jwt', '@fastify/jwt with its cache'].includes(name))
      .map(({ name, ratio, microseconds }) => [title, name, range(ratio), Number.isFinite(hook) ? digits(ratio.median / hook) : '', `${microseconds.toFixed(0)} us`])
  })
  return section(`With Node.js ${node}`, `\`npm run bench:lts\` measures guarded routes with the newest long-term release. This run was made on ${date}.`,
    table(['Requests with', '', 'relative to bare (min to max)', 'relative to the best hook', 'CPU time'], rows), startsTable(starts))
}

/** What confirmations, or guards that renew, cost. */
function measuredGoals (title, measured, how) {
  if (measured === undefined) return ''
  const { date, goals } = measured
  return section(title, `${how} This run was made on ${date}.`,
    table(['What', 'At most', 'Result', 'Met'], goals.map(({ what, limit, found }) => [what, limit, digits(found), found <= limit ? 'yes' : '**no**'])))
}

function soakSection (soak) {
  if (soak === undefined) return ''
  const { requests, kinds, samples, isFlat, minutes, sessions, databases = [] } = soak
  return section('Soak', `\`npm run bench:soak\`: ${requests.toLocaleString('en')} requests over 32 connections in ${minutes.toFixed(1)} minutes (${listed(kinds)}). The memory after forced garbage collections is **${isFlat ? 'flat' : 'NOT FLAT'}**.`,
    table(['after requests', 'heap, MB', 'external, MB', 'resident, MB', 'handles'],
      samples.map(({ after, heap, external, rss, handles }) => [after.toLocaleString('en'), megabytes(heap), megabytes(external), megabytes(rss), handles])),
    ...sessions === undefined ? [] : [sessionsOfSoak(sessions)],
    ...databases.map(databaseOfSoak))
}

const listed = (kinds) => Object.entries(kinds).map(([kind, count]) => `${kind} ${count.toLocaleString('en')}`).join(', ')

function sessionsOfSoak ({ refreshes, kinds, samples, isFlat, areAllAlive, minutes }) {
  return [`### With sessions

${refreshes.toLocaleString('en')} refreshes, and other requests, over 32 connections in ${minutes.toFixed(1)} minutes (${listed(kinds)}). The sessions are in the memory store. Each request lets 10 milliseconds pass on the clock of the server. A repetition sends the refresh token of a refresh again. A reuse sends an older one, which ends the session. Some clients never come back, so that their sessions expire. The memory after forced garbage collections is **${isFlat ? 'flat' : 'NOT FLAT'}**. The store holds **${areAllAlive ? 'as many sessions as are alive' : 'NOT as many sessions as are alive'}**, with a difference of at most 1 %, because it deletes expired sessions a few at a time.`,
  table(['after refreshes', 'heap, MB', 'external, MB', 'resident, MB', 'handles', 'stored sessions', 'alive'],
    samples.map(({ after, heap, external, rss, handles, stored, alive }) => [after.toLocaleString('en'), megabytes(heap), megabytes(external), megabytes(rss), handles, stored.toLocaleString('en'), alive.toLocaleString('en')]))].join('\n\n')
}

function databaseOfSoak ({ client, refreshes, samples, isFlat, isRowPerSession, minutes }) {
  const withHot = samples.some(({ hot }) => hot !== undefined)
  return [`### With sessions over ${client}

${refreshes.toLocaleString('en')} refreshes over 32 connections in ${minutes.toFixed(1)} minutes, each of which rotates. The memory after forced garbage collections and the data are **${isFlat ? 'flat' : 'NOT FLAT'}**. The database has **${isRowPerSession ? 'one row or key a session' : 'NOT one row or key a session'}**.`,
  table(['after refreshes', 'heap, MB', 'external, MB', 'resident, MB', 'handles', 'sessions', 'data, MB', ...withHot ? ['HOT updates'] : []],
    samples.map(({ after, heap, external, rss, handles, rows, bytes, hot }) => [after.toLocaleString('en'), megabytes(heap), megabytes(external), megabytes(rss), handles, rows.toLocaleString('en'), megabytes(bytes), ...withHot ? [`${(100 * hot).toFixed(1)} %`] : []]))].join('\n\n')
}

function feedSection (feed) {
  return ['### Reading the ended sessions', `${feed.ended.toLocaleString('en')} sessions ended a minute before. A poll finds nothing new. The first read of a process, and every sixtieth, reads all of them. The event loop is held for the time of the longest delay.`,
    table(['', 'CPU time of the server for a poll, ms', 'first full read, ms (min to max)', 'holds the event loop, ms', 'later full read, ms (min to max)', 'holds the event loop, ms'],
      feed.rows.map(({ client, poll, fullReads }) => [client, poll === undefined ? '' : poll.toFixed(3), ...fullReads.flatMap(({ milliseconds, held }) => [range(milliseconds), range(held)])]))].join('\n\n')
}

/** Writes the report of the results. */
export function writeReport ({ run, soak, lts, rotation, pages }) {
  if (run === undefined) return
  const { machine: { processor, cores, memory, system, node }, versions, date, minutes, comparisons } = run
  const withSessions = comparisons.filter(({ title }) => ['refreshing', 'guards with sessions'].includes(title))
  const withKeys = comparisons.filter(({ title }) => title === 'guards with keys')
  const others = comparisons.filter(({ title }) => title.startsWith('issuing') || title.startsWith('instances'))
  const guarded = comparisons.filter((found) => ![others, withSessions, withKeys].flat().includes(found))
  const file = (name) => new URL(name, import.meta.url)
  writeFileSync(file('chart.svg'), drawChart(guarded.filter(({ title }) => !/elsewhere|,.*256/.test(title)), ['fastify-token-auth', '@fastify/jwt', 'minimal hook, fast-jwt', 'minimal hook, node:crypto']))
  writeFileSync(file('README.md'), [
    '<!-- Generated by report.js from results.json. Do not edit. -->',
    '# Benchmarks',
    '`npm run bench` measures everything and generates this page, in about a quarter of an hour. `npm run bench:quick` prints the most important results in less than a minute. The other libraries are installed into this folder and are not part of the package.',
    '![CPU time of a bare route relative to guarded ones](chart.svg)',
    `This run was made on ${date} and took ${minutes.toFixed(1)} minutes. Machine: ${processor}, ${cores} cores, ${memory} of memory, ${system}, Node.js ${node}.`,
    `Versions: ${Object.entries({ ...versions, ...Object.fromEntries(Object.entries(run.feed?.versions ?? {}).map(([kind, version]) => [databaseNames[kind], version])) }).map(([name, version]) => `${name} ${version}`).join(', ')}.`,
    goalsSection(run),
    methodSection(run),
    unfairSection,
    section('A guarded route', ...guarded.map(comparison)),
    section('Issuing, and many instances', ...others.map(comparison)),
    section('Sessions', ...withSessions.map(comparison), `${run.forgedRefreshes.forged.toLocaleString('en')} forged refresh tokens caused ${run.forgedRefreshes.calls} calls of the store.`, ...run.feed?.rows.length > 0 ? [feedSection(run.feed)] : []),
    section('Keys that change', ...withKeys.map(comparison)),
    partsSection(run),
    footprintSection(run),
    ltsSection(lts),
    measuredGoals('Confirmed rotation', rotation, '`npm run bench:rotation` measures what it costs to confirm that refresh tokens were received.'),
    measuredGoals('Pages', pages, '`npm run bench:pages` compares guards that renew with what does the same without them, in the same run.'),
    soakSection(soak)
  ].filter((part) => part !== '').join('\n\n') + '\n')
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  writeReport(JSON.parse(readFileSync(new URL('results.json', import.meta.url), 'utf8')))
}
