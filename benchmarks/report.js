/** Writes README.md and chart.svg from results.json: `node benchmarks/report.js`. */
import { readFileSync, writeFileSync } from 'node:fs'
import { drawChart } from './chart.js'
import { goals } from './goals.js'

const table = (head, rows) => [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
const digits = (value) => value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)
const range = ({ median, min, max }) => `${digits(median)} (${digits(min)} to ${digits(max)})`
const section = (title, ...parts) => [`## ${title}`, ...parts].join('\n\n')
const megabytes = (bytes) => (bytes / 2 ** 20).toFixed(1)

function goalsSection (run) {
  const rows = goals(run).map(({ what, goal, found, unit, best, isMet }) => [what, goal, digits(found) + unit, best === undefined ? '' : digits(best) + unit, isMet ? 'yes' : '**no**'])
  return section('Goals', 'Relative to the bare route of the same run, unless the row or a unit says otherwise. "At best" is what the same run found without us: how many times the CPU time of a bare route others take, which a guard that costs nothing would reach (a refusal costs less than the answer of a route); the heap of the routes alone, their schemas shared; as many contexts with a hook.', table(['What', 'Goal', 'Found', 'At best', 'Met'], rows))
}

function comparison ({ title, rows }) {
  return [`### ${title[0].toUpperCase()}${title.slice(1)}`, table(
    ['', 'relative to bare (min to max)', 'CPU time', 'in user mode', '32 connections'],
    rows.map(({ name, ratio, microseconds, userMicroseconds, ratioOfMany }) => [name, range(ratio), `${microseconds.toFixed(0)} us`, `${userMicroseconds.toFixed(0)} us`, ratioOfMany.median.toFixed(2)])
  )].join('\n\n')
}

function methodSection ({ settings, areCoresSeparate }) {
  const { replicates, windows, requests, seed } = settings
  return section('How it is measured', `- Relative to bare: CPU time (user and system, all threads) of the bare server for a request, divided by that of the server in question in the same round. 1.00: no difference. One connection, one request after the other; the column of 32 connections compares medians of shorter windows: there the system works for many requests at once, and its part is smaller. In user mode: without what the system does for the sockets, about the same for everyone, which on a virtual machine may be half of it all.
- Every server is a process of its own, fresh for each replicate (${replicates} of them). It gets at least 10,000 requests, and where tokens are remembered each token once, before ${windows} rounds of windows of ${requests.toLocaleString('en')} requests (fewer where they would take longer than 40 ms). The order within a round is shuffled (seed ${seed}).
- ${areCoresSeparate ? 'The client has one core, the servers have another.' : 'Client and servers shared cores: the system did not let us choose.'}
- The bare route takes part twice. Where it differs from itself by more than 5 %, a comparison is repeated once, and then the run is void.
- Tokens have about 460 characters and 8 claims; the route answers \`{"hello":"world"}\`. Status codes of all answers are checked.`)
}

const unfairSection = section('What is unfair', `- **Everything**: loopback, a route that does nothing, one request at a time. A route that asks a database hides most differences.
- **To others**: a hot token and 1,000 tokens are what a memory of 1,000 is made for; with 100,000 tokens in turns it hardly ever helps. @fastify/jwt has its memory off by default; the row with its cache has the size that it documents, 1,000.
- **To us**: the minimal hooks check the signature and the expiry and nothing else: no canonical form, no claims, no \`WWW-Authenticate\`, a shorter refusal. They are limits, not alternatives.
- **@fastify/jwt** is used as its README shows: an async hook, a refusal as an error of Fastify. It looks for tokens in cookies too where it is told to; we look in one place only here.
- **jsonwebtoken, express-jwt, passport-jwt** are given the secret as text, as their READMEs show, and make a key of it on every request. With a key object they are faster.
- **express-jwt, passport-jwt, hono jwt** run on other frameworks: the rows bare express and bare hono say how much of the distance is the framework's.
- **jose and hono jwt** use Web Cryptography, which works in a thread pool and in every runtime; for HS256 the way there costs more than the hash.
- **Issuing**: we answer through the whole authenticate endpoint with \`Cache-Control: no-store\`, a host handler and \`extendPayload\`; the others only sign. @fastify/jwt is left out for RS256, where it builds a signer for each call.
- **CPU time** counts all threads: work moved to a thread pool is not cheaper, only elsewhere. The delay of the event loop says who waits.`)

function partsSection ({ parts }) {
  const tables = parts.map(({ title, rows }) => `### ${title[0].toUpperCase()}${title.slice(1)}\n\n${table(['', 'microseconds (min to max)'], rows.map((row) => [row.name, range(row)]))}`)
  return section('Parts, in a tight loop', 'Medians of 9 batches. Inside a server the same work takes two to three times as long.', ...tables)
}

function footprintSection ({ footprint: { registration, memory, flood }, delay }) {
  return section('Footprint',
    table(['Above an empty context, for each instance', 'CPU time at boot, ms', 'heap, KB'], registration.map(({ name, milliseconds, kilobytes }) => [name, range(milliseconds), range(kilobytes)])),
    `A remembered token of ${memory.characters} characters takes ${memory.kilobytes.toFixed(2)} KB of heap. Of ${flood.remembered.toLocaleString('en')} remembered tokens ${flood.left.toLocaleString('en')} were left after ${flood.bad.toLocaleString('en')} bad ones.`,
    'While RS256 tokens are issued over 4 connections without a pause, timers come late. Milliseconds, p99, beyond an idle process; the system chooses the cores:',
    table(['', 'ms (min to max)'], delay.map((row) => [row.name, range(row)])))
}

function soakSection (soak) {
  if (soak === undefined) return ''
  const { requests, kinds, samples, isFlat, minutes } = soak
  return section('Soak', `\`npm run bench:soak\`: ${requests.toLocaleString('en')} requests over 32 connections in ${minutes.toFixed(1)} minutes (${Object.entries(kinds).map(([kind, count]) => `${kind} ${count.toLocaleString('en')}`).join(', ')}). Memory after a forced collection: **${isFlat ? 'flat' : 'NOT FLAT'}**.`,
    table(['after requests', 'heap, MB', 'external, MB', 'resident, MB', 'handles'],
      samples.map(({ after, heap, external, rss, handles }) => [after.toLocaleString('en'), megabytes(heap), megabytes(external), megabytes(rss), handles])))
}

/** Writes the report of results. */
export function writeReport ({ run, soak }) {
  if (run === undefined) return
  const { machine: { processor, cores, memory, system, node }, versions, date, minutes, comparisons } = run
  const guarded = comparisons.filter(({ title }) => !title.startsWith('issuing') && !title.startsWith('instances'))
  const others = comparisons.filter((found) => !guarded.includes(found))
  const file = (name) => new URL(name, import.meta.url)
  writeFileSync(file('chart.svg'), drawChart(guarded.filter(({ title }) => !/elsewhere|,.*256/.test(title)), ['fastify-token-auth', '@fastify/jwt', 'minimal hook, fast-jwt', 'minimal hook, node:crypto']))
  writeFileSync(file('README.md'), [
    '<!-- Written by report.js from results.json: change those. -->',
    '# How fast it is',
    '`npm run bench` (under ten minutes) measures everything and writes this page; `npm run bench:quick` (under one) prints the most important of it. The peers are installed into this folder and are no part of the package.',
    '![CPU time of a bare route relative to guarded ones](chart.svg)',
    `Run on ${date} in ${minutes.toFixed(1)} minutes: ${processor}, ${cores} cores, ${memory} of memory, ${system}, Node.js ${node}.`,
    Object.entries(versions).map(([name, version]) => `${name} ${version}`).join(', ') + '.',
    goalsSection(run),
    methodSection(run),
    unfairSection,
    section('A guarded route', ...guarded.map(comparison)),
    section('Issuing, and many instances', ...others.map(comparison)),
    partsSection(run),
    footprintSection(run),
    soakSection(soak)
  ].filter((part) => part !== '').join('\n\n') + '\n')
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  writeReport(JSON.parse(readFileSync(new URL('results.json', import.meta.url), 'utf8')))
}
