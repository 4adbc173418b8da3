// @slow
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { bearer, claims, forge, otherSecret, rsaPair, secret } from '../helper.ts'

/** One service issues tokens, others only verify them: processes of their own, on real sockets, with the built package. */

interface Service {
  url: string
  port: number
  stop: () => Promise<void>
}

async function stop (child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill()
  await exited
}

async function start (t: Test, program: 'issuer' | 'verifier', options: object, port = 0): Promise<Service> {
  const path = fileURLToPath(new URL(`../fixtures/${program}.js`, import.meta.url))
  // No loader of the test runner in there: it is the package that runs, as it was built.
  const child = fork(path, { execArgv: [], env: { OPTIONS: JSON.stringify(options), PORT: String(port) } })
  t.teardown(() => stop(child))
  const [message] = await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(([code]) => { throw new Error(`The ${program} ended with ${code}; is dist/ built?`) })
  ])
  return { url: `http://127.0.0.1:${message.port}`, port: message.port, stop: () => stop(child) }
}

async function issue ({ url }: Service): Promise<string> {
  const response = await fetch(`${url}/auth`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ username: 'ada' })
  })
  return JSON.parse(await response.text()).access_token
}

async function ask ({ url }: Service, path: string, token?: string): Promise<[status: number, body: Record<string, unknown>]> {
  const response = await fetch(url + path, { headers: token === undefined ? {} : bearer(token) })
  return [response.status, JSON.parse(await response.text())]
}

const pair = rsaPair()
const files = t.testdir({})
const publicKey = { path: join(files, 'public.pem') }
writeFileSync(publicKey.path, pair.publicKey)

const topologies = [
  {
    // Promise: specification/5-issuer-verifiers
    title: 'RS256: the issuer has the private key, the verifier a file with the public one',
    issuer: { algorithm: 'RS256', ...pair },
    verifier: { algorithm: 'RS256', publicKey },
    foreign: { algorithm: 'RS256', ...rsaPair(2048, 1) }
  },
  {
    // Promise: specification/5-issuer-verifiers
    title: 'HS256: both have the secret',
    issuer: { secret },
    verifier: { secret },
    foreign: { secret: otherSecret }
  }
]

for (const { title, issuer: issuerOptions, verifier: verifierOptions, foreign: foreignOptions } of topologies) {
  t.test(title, async (t) => {
    const [issuer, verifier, foreign] = await Promise.all([
      start(t, 'issuer', issuerOptions), start(t, 'verifier', verifierOptions), start(t, 'issuer', foreignOptions)
    ])
    const token = await issue(issuer)

    t.strictSame(await ask(verifier, '/private', token), [200, { userId: 'ada' }], 'the token of one process opens the routes of another')
    t.strictSame(await ask(verifier, '/read', token), [200, { read: true }], 'its scopes count there')
    t.strictSame(await ask(verifier, '/write', token), [403, { reasons: 'Invalid scope.', exception: 'InsufficientScope' }])
    t.equal((await ask(verifier, '/private'))[0], 401, 'no token')
    t.equal((await ask(verifier, '/private', await issue(foreign)))[0], 401, 'the token of an issuer with other keys')

    for (const path of ['/auth', '/auth/verify', '/auth/me', '/auth/refresh']) {
      t.equal((await ask(verifier, path, token))[0], 404, `a verifier has no ${path}`)
    }

    await verifier.stop()
    await t.rejects(ask(verifier, '/private', token), 'the verifier is down')
    const restarted = await start(t, 'verifier', verifierOptions, verifier.port)
    t.strictSame(await ask(restarted, '/private', token), [200, { userId: 'ada' }], 'a token from before a restart of the verifier')
    await issuer.stop()
    t.strictSame(await ask(restarted, '/private', token), [200, { userId: 'ada' }], 'a verifier does not need the issuer')
  })
}

t.test('who has only the public key can make no token, and its text is no secret', async (t) => {
  const verifier = await start(t, 'verifier', { algorithm: 'RS256', publicKey })
  const [status, body] = await ask(verifier, '/issue')
  t.equal(status, 500)
  t.notOk('token' in body)
  const confused = forge(claims(), { algorithm: 'HS256', key: pair.publicKey })
  t.equal((await ask(verifier, '/private', confused))[0], 401, 'a token signed with the public key as an HMAC secret')
})
