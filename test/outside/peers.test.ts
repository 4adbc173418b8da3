/** The packed package with the lowest and the newest version of each of its peers, in a process of its own. */
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { audience, issue, issuer, keyServer } from '../authorities/issuers.ts'
import { bearer, caseOf, exchange, secret } from '../helper.ts'
import { install, manifest, root } from './installed.ts'

/** What fixtures/peers.mjs says when it has started. */
interface Started { runFirst: number, runLast: number, trusting: number, fastify: string, jose: string }

const { project, link } = await install(t, [])
const program = join(project, 'peers.mjs')
copyFileSync(join(root, 'test/outside/fixtures/peers.mjs'), program)
link('fastify-raw-body')

/** The lowest versions that package.json allows, under the names that test/outside/package.json has for them; and the newest. */
const versions = {
  lowest: (peer: string) => `${peer}-${String(manifest.peerDependencies[peer]).slice(1)}`,
  newest: (peer: string) => peer
}

/** Starts the program, and returns what it says, and what it has written when it has ended. */
async function start (t: Test, jwksUri: string): Promise<Started & { death: () => string | undefined }> {
  const options = { secret, issuer: { issuer, audience, algorithms: ['ES256'], jwksUri } }
  const child = fork(program, { execArgv: [], env: { OPTIONS: JSON.stringify(options) }, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  let errors = ''
  child.stderr!.setEncoding('utf8').on('data', (text) => { errors += text })
  const exit = once(child, 'exit')
  t.teardown(async () => {
    if (child.connected) child.disconnect()
    await exit
  })
  const [started] = await Promise.race([once(child, 'message'), exit.then(() => { throw new Error(errors) })])
  return { ...started, death: () => child.exitCode === null && child.signalCode === null ? undefined : errors }
}

const json = 'application/json'
const right = '{"username":"ada"}'

/** Bodies of a login, and how it is answered: without a length, they are sent in chunks. */
const bodies: Record<string, { type?: string, body: string, length?: number | null, status: number }> = {
  'valid JSON': { type: json, body: right, status: 200 },
  'valid JSON in chunks': { type: json, body: right, length: null, status: 200 },
  'other credentials': { type: json, body: '{"username":"eve"}', status: 401 },
  'malformed JSON': { type: json, body: '{"username":', status: 400 },
  'no object': { type: json, body: '5', status: 400 },
  'a form': { type: 'application/x-www-form-urlencoded', body: 'username=ada', status: 415 },
  'another type': { type: 'text/plain', body: right, status: 415 },
  'no type': { body: right, status: 415 },
  nothing: { body: '', length: 0, status: 400 },
  'nothing, as JSON': { type: json, body: '', length: 0, status: 400 },
  'nothing in chunks': { type: json, body: '', length: null, status: 400 },
  'a length over the limit': { type: json, body: '', length: 20_000, status: 413 },
  'chunks over the limit': { type: json, body: `{"username":"ada","more":"${'x'.repeat(20_000)}"}`, length: null, status: 413 },
  'bytes that are not UTF-8': { type: json, body: '{"username":"ad\xff"}', length: 18, status: 400 }
}

/** Sends a login as it stands, and returns the status. */
async function post (port: number, { type, body, length = Buffer.byteLength(body) }: typeof bodies[string]): Promise<number> {
  const size = length === null ? 'Transfer-Encoding: chunked' : `Content-Length: ${length}`
  const chunks = length === null ? `${body === '' ? '' : `${body.length.toString(16)}\r\n${body}\r\n`}0\r\n\r\n` : body
  const answer = await exchange(port, `POST /auth HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${size}\r\n${type === undefined ? '' : `Content-Type: ${type}\r\n`}\r\n${chunks}`)
  return Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1])
}

for (const [which, nameOf] of Object.entries(versions)) {
  // Promise: specification/peer-versions
  t.test(`with the ${which} versions of the peers, no anonymous login ends the process of an application with fastify-raw-body, and tokens of issuers are accepted`, async (t) => {
    for (const peer of ['fastify', 'jose']) link(nameOf(peer), peer)
    const { jwksUri } = await keyServer(t)
    const started = await start(t, jwksUri)
    for (const peer of ['fastify', 'jose'] as const) {
      const lowest = String(manifest.peerDependencies[peer]).slice(1)
      t[which === 'lowest' ? 'equal' : 'not'](started[peer], lowest, peer)
    }
    for (const order of ['runFirst', 'runLast'] as const) {
      const { [order]: port } = started
      for (const [name, given] of Object.entries(bodies)) assert.equal(await post(port, given), given.status, caseOf(order, name))
      const address = `http://127.0.0.1:${port}`
      const login = await fetch(`${address}/auth`, { method: 'POST', body: right, headers: { 'content-type': json } })
      const { access_token: token }: { access_token: string } = JSON.parse(await login.text())
      t.same(await (await fetch(address, { headers: bearer(token) })).json(), { userId: 1 })
      const raw = await fetch(`${address}/raw`, { method: 'POST', body: right, headers: { 'content-type': json } })
      t.same(await raw.json(), { isBytes: true, length: right.length }, 'the routes of the application have their raw bodies')
    }
    const address = `http://127.0.0.1:${started.trusting}`
    t.same(await (await fetch(address, { headers: bearer(issue('a')) })).json(), { userId: 'user-1' })
    t.equal((await fetch(address, { headers: bearer(issue('a', undefined, { which: 1 })) })).status, 401)
    t.equal(started.death(), undefined)
  })
}
