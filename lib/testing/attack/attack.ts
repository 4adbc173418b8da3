/** Hostile requests to a route of the application. */
import type { KeyObject } from 'node:crypto'
import { InvalidConfiguration } from '../../configuration-errors.ts'
import { isHmac } from '../../algorithms.ts'
import { matching, listOf, text } from '../../settings/kinds.ts'
import { optional, optionsOf, preset, readRecord, required, type Values } from '../../settings/records.ts'
import { carrierOf, readRequest, type AttackedRequest, type Carrier, type SentRequest } from './carrier.ts'
import { forgeries, keysInHeaders } from './forgeries.ts'
import { foreignKey, readKey, readToken, verifies, type AttackKey, type ReadToken } from './jws.ts'
import { startListener, type Listener } from './listener.ts'
import { isLetIn, reportOf, rowOf, unanswered, type AttackReport, type AttackResponse } from './report.ts'
import { hostileRequests } from './requests.ts'
import { confusions, signedWrongs } from './signed.ts'
import type { Variant } from './variants.ts'

/** In milliseconds: a request without a response after this time is unanswered. */
const patience = 10_000

/** The application under attack: any object with `inject` as in Fastify, with any kind of guard. */
export interface AttackTarget {
  /** Sends a request, as `fastify.inject` does. */
  inject (request: { method: 'GET', url: string, headers: Record<string, string>, payload?: string | object }): PromiseLike<AttackResponse>
}

/** Options of {@link attack}. */
export interface AttackOptions {
  /** A token that the route accepts. */
  token: string
  /**
   * The secret, or the private key, that signed the token: adds tokens with a valid signature and other faults. Text,
   * `Buffer`, `KeyObject` or JWK. Use a key of tests only.
   */
  key?: AttackKey
  /** The public key of the token: adds tokens that are signed with it as a secret. */
  publicKey?: AttackKey
  /** The names of requests that may be let in, such as `the method GET, without a token` where a path is public. Default: `[]`. */
  allowed?: readonly string[]
}

/** The options of {@link attack}. Keys are read later, when the algorithm of the token is known. */
export const attackShape = {
  members: {
    token: required(matching<unknown>('a token that the route accepts')),
    key: optional(matching<AttackKey>('the secret or private key of the token, as text, Buffer, KeyObject or JWK')),
    publicKey: optional(matching<AttackKey>('the public key of the token, as text, Buffer, KeyObject or JWK')),
    allowed: preset(listOf('a list of names of rows of a report', text, { least: 0 }), [])
  },
  example: '{ token }',
  page: 'testing.md'
} as const

type ReadOptions = Values<typeof attackShape.members>

/** Reads the key that verifies the token: with another one, the requests would prove nothing. */
function keyFor (token: ReadToken, name: 'key' | 'publicKey', given: AttackKey): KeyObject {
  const kind = name === 'publicKey' ? 'public' : isHmac(token.algorithm) ? 'secret' : 'private'
  const what = { public: 'the public key', secret: 'the secret', private: 'the private key' }[kind]
  const key = readKey(given, kind)
  if (key === undefined) {
    throw new InvalidConfiguration(`"${name}" of attack() must be ${what} of the token, as text, Buffer, KeyObject or JWK.`, {
      page: 'testing.md'
    })
  }
  if (!verifies(key, token)) {
    throw new InvalidConfiguration(
      `"${name}" of attack() is not the key of the token. Give ${what} with which the test creates the token.`,
      { page: 'testing.md' }
    )
  }
  return key
}

function variantsFor (token: ReadToken, carrier: Carrier, { key, publicKey }: ReadOptions, listener: string): Variant[] {
  return [
    // First, so that a fetch for which the guard does not wait arrives while other requests are sent.
    ...keysInHeaders(token, listener),
    ...hostileRequests(token, carrier),
    ...forgeries(token),
    ...key === undefined ? [] : signedWrongs(token, keyFor(token, 'key', key)),
    ...publicKey === undefined ? [] : confusions(token, keyFor(token, 'publicKey', publicKey), publicKey)
  ]
}

function requestOf (carrier: Carrier, { token, method, url, headers }: Variant): SentRequest {
  const request = token === undefined ? carrier.without : carrier.with(token)
  return { ...request, ...method !== undefined && { method }, ...url !== undefined && { url }, headers: { ...request.headers, ...headers } }
}

// Fastify's types accept only methods that they know.
const inject = async (app: AttackTarget, { method, headers, ...rest }: SentRequest) =>
  await app.inject({ ...rest, method: method as 'GET', headers: { ...headers } })

/** Sends a request, with a time limit: a guard that does not answer must not prevent the report. */
async function send (app: AttackTarget, request: SentRequest): Promise<AttackResponse> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<AttackResponse>((resolve) => {
    timer = setTimeout(resolve, patience, { statusCode: unanswered, headers: {} }).unref()
  })
  try {
    return await Promise.race([inject(app, request), late])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Checks that the route accepts the token: otherwise it would refuse every request, and the report would prove nothing.
 * @param target the method and path of the route
 * @returns where the route leads if it answers with 303, as to a form; otherwise undefined
 */
async function checkAccepted (app: AttackTarget, target: string, carrier: Carrier, { text }: ReadToken, when: string): Promise<unknown> {
  const response = await send(app, carrier.with(text))
  const { statusCode, headers: { location } } = response
  if (!isLetIn(response, location)) {
    throw new InvalidConfiguration(
      `${target} answers ${statusCode === unanswered ? 'nothing within 10 seconds' : statusCode} to the token ${when}, so the attack would prove nothing. Give attack() a request and a token that the route answers with 2xx, or a form with 303, each time, and disable rate limits in the test.`,
      { page: 'testing.md' }
    )
  }
  return statusCode === 303 ? location : undefined
}

/** Checks that no rate limit answers instead of the guard. */
function checkUnlimited (target: string, { statusCode }: AttackResponse, { name }: Variant): void {
  if (statusCode === 429) {
    throw new InvalidConfiguration(
      `${target} answers 429 to a hostile request (${name}), so a rate limit hides what the guard answers. Disable rate limits in the test.`,
      { page: 'testing.md' }
    )
  }
}

async function sendAll (
  app: AttackTarget,
  target: string,
  carrier: Carrier,
  token: ReadToken,
  options: ReadOptions,
  listener: Listener
): Promise<AttackReport> {
  const variants = variantsFor(token, carrier, options, listener.address)
  const page = await checkAccepted(app, target, carrier, token, 'before the attack')
  const responses: (readonly [Variant, AttackResponse])[] = []
  for (const variant of variants) {
    const response = await send(app, requestOf(carrier, variant))
    checkUnlimited(target, response, variant)
    responses.push([variant, response])
  }
  await checkAccepted(app, target, carrier, token, 'after the attack')
  const sent = responses.map(([variant, response]) => [variant, rowOf(variant, response, token.text, listener.fetched, page)] as const)
  return reportOf(target, sent, options.allowed)
}

/**
 * Sends about 150 hostile requests to a route and reports which of them were not refused: requests without a token, forged tokens, tokens
 * signed with known secrets or with keys that they name, and with `key`, tokens with a valid signature and other faults. If the token is in
 * a cookie, requests from pages of other origins are among them. Everything is made with `node:crypto`. Nothing leaves the process, except
 * to a listener on the loopback interface, which records whether the guard fetches addresses that tokens name.
 *
 * ```js
 * const report = await attack(app, { method: 'GET', url: '/reports' }, { token, key })
 * assert.deepEqual(report.found, [], String(report))
 * ```
 * @param app the application
 * @param request a request that the route answers with 2xx, or a form with 303, if it has the token, however often it is sent
 * @param options the token, and keys of the test
 * @throws `InvalidConfiguration` for wrong parameters, for a token that the route does not accept before and after the attack, for a rate
 * limit (429), and for a key that is not the one of the token
 */
export async function attack (app: AttackTarget, request: AttackedRequest, options: AttackOptions): Promise<AttackReport> {
  if (typeof app?.inject !== 'function') {
    throw new InvalidConfiguration(
      `The first parameter of attack() must have the method "inject", as a Fastify application has; given: ${typeof app}.`,
      { page: 'testing.md' }
    )
  }
  const read = readRecord(optionsOf('attack()'), options, attackShape)
  for (const name of ['key', 'publicKey'] as const) {
    // An environment variable that is not set: the attack would have fewer requests.
    if (!Object.hasOwn(options, name) || read[name] !== undefined) continue
    throw new InvalidConfiguration(`"${name}" of attack() is undefined. Give the key of the token, or omit "${name}".`, { page: 'testing.md' })
  }
  const token = readToken(read.token)
  const attacked = readRequest(request)
  const carrier = carrierOf(attacked, token.text)
  const listener = await startListener(foreignKey(token.algorithm).jwk)
  try {
    return await sendAll(app, `${attacked.method} ${attacked.url.split('?', 1)[0]}`, carrier, token, read, listener)
  } finally {
    await listener.close()
  }
}
