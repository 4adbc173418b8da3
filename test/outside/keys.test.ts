/** Keys that change in several processes, whose clocks differ, while clients go on: processes of their own, on real sockets, with the built package. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { iso, noon } from '../keys/ring.ts'
import { bearer, edPair, headerOf, payloadOf, secret } from '../helper.ts'

/** In seconds. A token counts for both together. */
const [expirationDelta, leeway] = [10, 5]
const overlap = expirationDelta + leeway
/** Seconds after noon at which another key begins to sign, on the clock of each process. */
const switches = [15, 35] as const
const keys = [
  { key: secret, algorithm: 'HS256', kid: 'secret', verifyUntil: iso(noon + switches[0] + overlap) },
  { key: edPair(0).privateKey, algorithm: 'EdDSA', kid: 'first', signFrom: iso(noon + switches[0]), verifyUntil: iso(noon + switches[1] + overlap) },
  { key: edPair(1).privateKey, algorithm: 'EdDSA', kid: 'second', signFrom: iso(noon + switches[1]) }
]
/** How far the clocks of the processes are from the right time, in seconds. Leeway covers the difference of any two. */
const skews = [-2, 0, 2]
/** The ages at which each token is sent to every process, in seconds. */
const ages = [0, 1, 3, 8, 11, 12, 13, 14, 15, 16, 17, 19]

interface Service { skew: number, child: ChildProcess, ended: Promise<never>, port: number }

async function start (t: Test, skew: number): Promise<Service> {
  const child = fork(fileURLToPath(new URL('./fixtures/clocked.js', import.meta.url)), { execArgv: [], env: { SKEW: String(skew), NODE_NO_WARNINGS: '1' } })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    if (child.connected) child.disconnect()
    await exited
  })
  const ended = exited.then(([code]) => { throw new Error(`A service ended with ${code}; is dist/ built?`) })
  // Only who waits for an answer wants to know.
  ended.catch(() => {})
  return { skew, child, ended, port: 0 }
}

/** Sets the clock of a process, and has it do something. */
async function tell ({ child, ended }: Service, seconds: number, order?: 'start' | 'reload', given: object = {}): Promise<number> {
  const answered = new Promise<number>((resolve) => { child.once('message', ({ answer }: { answer: number }) => resolve(answer)) })
  child.send({ seconds, order, ...given })
  return await Promise.race([answered, ended])
}

const agent = new Agent({ keepAlive: true })
t.teardown(() => agent.destroy())

async function send (port: number, method: string, path: string, headers: Record<string, string>, payload?: string): Promise<{ status: number | undefined, body: string }> {
  const sent = request({ agent, port, host: '127.0.0.1', method, path, headers })
  sent.end(payload)
  const [response] = await once(sent, 'response')
  let body = ''
  for await (const chunk of response) body += String(chunk)
  return { status: response.statusCode, body }
}

interface Issued { token: string, kid: unknown, exp: number, at: number }

async function issue ({ port }: Service, at: number): Promise<Issued> {
  const { body } = await send(port, 'POST', '/auth', { 'content-type': 'application/json' }, '{}')
  const token: string = JSON.parse(body).access_token
  return { token, kid: headerOf(token).kid, exp: Number(payloadOf(token).exp), at }
}

/**
 * Lets the time pass in all processes. In each second each of them issues a token, and gets tokens of all of them and of
 * many ages at once. Whether a token is valid is asked of its `exp` and the clock of the process that gets it.
 * @param list the function of keys of the processes; without one they have the whole list
 */
async function pass (services: readonly Service[], until: number, list?: string) {
  const options = { algorithm: 'EdDSA', expirationDelta, leeway, keys }
  for (const service of services) service.port = await tell(service, noon, 'start', { options, list })
  const tokens: Issued[] = []
  const counts = { valid: 0, refused: 0, expired: 0, accepted: 0, early: 0 }
  const signers = new Set<unknown>()
  const check = async ({ skew, port }: Service, { token, kid, exp }: Issued, now: number) => {
    const { status } = await send(port, 'GET', '/private', bearer(token))
    if (now + skew < exp + leeway) {
      counts.valid++
      if (status !== 200) counts.refused++
      const { signFrom = iso(0) } = keys.find((key) => key.kid === kid) ?? {}
      if (now + skew < Date.parse(signFrom) / 1000) counts.early++
    } else {
      counts.expired++
      if (status !== 401) counts.accepted++
    }
  }
  for (let passed = 0; passed <= until; passed++) {
    const now = noon + passed
    await Promise.all(services.map((service) => tell(service, now, list === undefined ? undefined : 'reload')))
    const fresh = await Promise.all(services.map((service) => issue(service, now)))
    for (const { kid } of fresh) signers.add(kid)
    tokens.push(...fresh)
    const sent = tokens.filter(({ at }) => ages.includes(now - at))
    await Promise.all(services.flatMap((service) => sent.map((token) => check(service, token, now))))
  }
  return { ...counts, signers: [...signers] }
}

// Promise: keys/clocks-differ-old
t.test('over two changes of keys, three processes whose clocks differ refuse no valid token and accept no expired one', async (t) => {
  const services = await Promise.all(skews.map((skew) => start(t, skew)))
  await t.test('with one list', async (t) => {
    const { valid, expired, early, ...rest } = await pass(services, 55)
    t.same(rest, { refused: 0, accepted: 0, signers: ['secret', 'first', 'second'] })
    t.ok(valid > 3000, `${valid} valid tokens`)
    t.ok(expired > 1000, `${expired} expired tokens`)
    t.ok(early > 20, `${early} tokens of a key that does not sign yet where the token comes`)
  })
  await t.test('and the test sees it: they refuse valid tokens if keys are removed five seconds too early', async (t) => {
    const { refused, accepted } = await pass(services, 32, 'drops keys five seconds early')
    t.ok(refused > 30, `${refused} refused`)
    t.equal(accepted, 0)
  })
  await t.test('and the test sees it: they refuse valid tokens if a key is shown only when it signs', async (t) => {
    const { refused, accepted } = await pass(services, 20, 'shows keys when they sign')
    t.ok(refused > 5, `${refused} refused`)
    t.equal(accepted, 0)
  })
})
