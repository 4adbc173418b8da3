/** Compares sessions with the specification's own mode: refreshing, and guarded routes while many sessions have ended. */
import { randomBytes } from 'node:crypto'
import { createRefreshTokenCodec } from '../../build/lib/sessions/refresh-token.js'
import { exchange, fetchOnce, getRequest, openConnections, postRequest } from '../helper/client.js'
import { availableDatabases, startDatabases } from '../helper/database.js'
import { inFreshProcess } from '../helper/cores.js'
import { compare, startServer } from '../helper/measure.js'
import { clients } from '../stores.js'
import { keysOf, tokenMaker } from '../tokens.js'

const algorithm = 'HS256'
const options = { algorithm, keys: keysOf(algorithm) }
const users = 1000
const forgedCount = 1000
/** So many times as many rounds as in other comparisons: refreshing takes longer than a guard, and the differences between guards are smaller. */
const rounds = { refreshing: 2, guards: 6 }

const newSessionId = () => randomBytes(16).toString('base64url')

/** Logs users in, and returns the refresh request of each. */
const logIn = (refreshOf) => async (connection) => {
  const requests = []
  for (let id = 1; id <= users; id++) {
    const { status, body } = await fetchOnce(connection, postRequest('/auth', { id }))
    if (status !== 200) throw new Error(`A login was answered with ${status}.`)
    requests.push(refreshOf(body))
  }
  return requests
}

/** Refresh requests with tokens of the right form, whose MAC was made with another key. */
function forgedRequests () {
  const forge = createRefreshTokenCodec([randomBytes(64)], { claimIss: null, claimAud: null })
  return Array.from({ length: forgedCount }, (_, index) => refreshSession({
    refresh_token: forge.write({ sid: newSessionId(), n: 0, authTime: Math.floor(Date.now() / 1000), userId: index + 1 })
  }))
}

const refreshByAccessToken = (body) => postRequest('/auth/refresh', { refresh_token: body.refresh_token }, body.access_token)
const refreshSession = (body) => postRequest('/auth/refresh', { refresh_token: body.refresh_token })
const bodyOf = (text) => JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4))

const specificationSubject = { server: 'refresh: specification', requests: logIn(refreshByAccessToken), status: 200 }
const refreshSubject = { server: 'refresh: sessions', requests: logIn(refreshSession), next: (text) => refreshSession(bodyOf(text)), status: 200 }

const forgedSubject = () => ({ ...refreshSubject, requests: forgedRequests(), next: undefined, status: 401 })

/**
 * The rows of databases: for each client library, sessions, and the specification's own mode whose refresh tokens are in the
 * same database; and forged tokens over ioredis.
 * @param urls the addresses of the databases by kind
 */
function databaseSubjects (urls) {
  return Object.entries(clients).filter(([, { kind }]) => urls[kind] !== undefined).flatMap(([client, { kind }]) => [
    { name: `the specification's own mode, ${client}`, ...specificationSubject },
    { name: `sessions, ${client}`, ...refreshSubject },
    ...client === 'ioredis' ? [{ name: `sessions, ${client}, forged token`, ...forgedSubject() }] : []
  ].map((subject) => ({ ...subject, options: { ...options, client, url: urls[kind] } })))
}

/** @param withDatabases whether sessions in the databases of this machine are measured */
async function refreshing ({ windows, withDatabases, ...settings }) {
  const databases = await startDatabases(withDatabases ? availableDatabases() : [])
  const result = await compare('refreshing', [
    { name: 'the specification\'s own mode', ...specificationSubject },
    { name: 'the specification\'s own mode again', ...specificationSubject },
    { name: 'bare', server: 'bare POST', options: { ...options, token: 'no token' }, requests: [postRequest('/', { refresh_token: 'x'.repeat(66) })], status: 200 },
    { name: 'sessions', ...refreshSubject },
    { name: 'sessions, forged token', ...forgedSubject() },
    ...databaseSubjects(databases.urls)
  ].map((subject) => ({ options, ...subject })), { ...settings, windows: windows * rounds.refreshing, baseline: 'the specification\'s own mode' })
  await databases.stop()
  return result
}

const ended = [0, 1000, 1_000_000]

/** The tokens have a session, also on the route without sessions. */
function guards ({ windows, ...settings }) {
  const make = tokenMaker()
  const tokens = Array.from({ length: users }, (_, index) => make(index + 1, { sid: newSessionId() }))
  return compare('guards with sessions', [
    { name: 'a guard without sessions', path: '/without' },
    { name: 'a guard without sessions again', path: '/without' },
    ...ended.map((count) => ({ name: `${count.toLocaleString('en')} ended sessions`, path: `/${count}` }))
  ].map(({ name, path }) => ({
    name, server: 'guards with sessions', process: 'guards with sessions', options: { ...options, ended }, requests: tokens.map((token) => getRequest(token, path)), status: 200, remembers: true
  })), { ...settings, windows: windows * rounds.guards, baseline: 'a guard without sessions' })
}

/** @param isWanted returns whether the comparison with a title is measured */
export async function sessions (settings, isWanted = (title) => !settings.isQuick || title === 'refreshing') {
  const results = []
  if (isWanted('refreshing')) results.push(await refreshing(settings))
  if (isWanted('guards with sessions')) results.push(await guards(settings))
  return results
}

/** Counts the calls of the store that forged refresh tokens cause. */
export async function forgedTokenCalls () {
  const server = await startServer('refresh: sessions, counted', options)
  const connections = await openConnections(server.port, 1)
  await fetchOnce(connections, postRequest('/auth', { id: 1 }))
  const before = await server.ask('store calls')
  if (before === 0) throw new Error('The calls of the store are not counted.')
  const requests = forgedRequests()
  await exchange(connections, (number) => requests[number], requests.length, (status) => {
    if (status !== 401) throw new Error(`A forged refresh token was answered with ${status}.`)
  })
  const calls = await server.ask('store calls') - before
  connections.forEach((connection) => connection.close())
  await server.stop()
  return { forged: requests.length, calls }
}

const repetitions = 5

/** Measures what reading the ended sessions costs a process and the databases of this machine. */
export async function readEndedSessions () {
  const databases = await startDatabases(availableDatabases())
  const result = await inFreshProcess(new URL('feed.js', import.meta.url), { urls: databases.urls, repetitions })
  await databases.stop()
  console.log('\nreading the ended sessions')
  const shown = ({ median, min, max }) => `${median.toFixed(0)} (${min.toFixed(0)} to ${max.toFixed(0)}) ms`
  for (const { client, poll, fullReads } of result.rows) {
    console.log(`  ${client.padEnd(12)} a poll: ${poll?.toFixed(3)} ms of the server`)
    for (const { which, milliseconds, held } of fullReads) console.log(`    ${which} full read: ${shown(milliseconds)}, holds the event loop for ${shown(held)}`)
  }
  return result
}
